/* latch.c - what is under way, counted. */
#include "base/latch.h"

void fl_latch_init(fl_latch *l, fl_poller *poller)
{
    *l = (fl_latch){ .poller = poller };
    fl_mutex_init(&l->mu);
    fl_cond_init(&l->over);
}

void fl_latch_release(fl_latch *l)
{
    fl_cond_release(&l->over);
    fl_mutex_release(&l->mu);
}

void fl_latch_open(fl_latch *l, fl_latch_next next, void *arg)
{
    l->n_open = 1;
    l->err.status = FL_OK;
    l->next = next;
    l->arg = arg;
}

void fl_latch_add(fl_latch *l)
{
    fl_lock(&l->mu);
    l->n_open++;
    fl_unlock(&l->mu);
}

static void call_next(fl_latch *l)
{
    fl_err err = l->err;

    l->next(l->arg, err.status ? fl_err_restore(&err) : FL_OK);
}

/* Whoever waits may free it from the unlock on. */
void fl_latch_done(void *latch, fl_status st)
{
    fl_latch *l = latch;
    fl_poller *poller = l->poller;
    bool has_next = l->next, is_over;

    fl_lock(&l->mu);
    if (st && !l->err.status)
        fl_err_save(&l->err, st);
    is_over = --l->n_open == 0;
    if (is_over && !poller)
        fl_cond_wake_all(&l->over);
    fl_unlock(&l->mu);
    if (is_over && has_next)
        call_next(l);
    else if (is_over)
        fl_poller_notify(poller);
}

static bool is_over(void *latch)
{
    fl_latch *l = latch;
    bool is;

    fl_lock(&l->mu);
    is = !l->n_open;
    fl_unlock(&l->mu);
    return is;
}

static void sleep_until_over(fl_latch *l)
{
    fl_lock(&l->mu);
    while (l->n_open)
        fl_cond_wait(&l->over, &l->mu);
    fl_unlock(&l->mu);
}

fl_status fl_latch_wait(fl_latch *l)
{
    if (!l->poller)
        sleep_until_over(l);
    else if (!is_over(l)) /* else the poller may be gone */
        l->poller->wait(l->poller, is_over, l);
    return l->err.status ? fl_err_restore(&l->err) : FL_OK;
}
