/* stage.c - requests that run side by side. */
#include "mode/stage.h"

void fl_stage_init(fl_stage *s)
{
    *s = (fl_stage){ 0 };
    fl_mutex_init(&s->mu);
}

void fl_stage_release(fl_stage *s)
{
    fl_mutex_release(&s->mu);
}

void fl_stage_open(fl_stage *s, fl_client_done next, void *arg)
{
    s->n_open = 1;
    s->err.status = FL_OK;
    s->next = next;
    s->arg = arg;
}

void fl_stage_add(fl_stage *s)
{
    fl_lock(&s->mu);
    s->n_open++;
    fl_unlock(&s->mu);
}

void fl_stage_done(void *stage, fl_status st)
{
    fl_stage *s = stage;
    bool is_over;
    fl_err err;

    fl_lock(&s->mu);
    if (st && !s->err.status)
        fl_err_save(&s->err, st);
    is_over = --s->n_open == 0;
    if (is_over)
        err = s->err;
    fl_unlock(&s->mu);
    if (is_over)
        s->next(s->arg, err.status ? fl_err_restore(&err) : FL_OK);
}
