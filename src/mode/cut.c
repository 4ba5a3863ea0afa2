/* cut.c - a trainer's way to the cut of a save.
 *
 * `mu` guards everything but what is the thread's own; hooks are called without
 * it. Questions to server 0 outlive their turn: only the answer to the last one
 * counts.
 */
#include "mode/cut.h"

#include <string.h>

#include "base/alloc.h"
#include "base/log.h"

struct fl_cut {
    fl_cut_hooks hooks;
    fl_cut_meeting meeting;
    fl_client *client;
    fl_thread *thread;

    fl_mutex mu;
    fl_cond changed;
    size_t n_batches, n_calls;
    bool is_wanted, is_closed;
    bool must_reach; /* closes behind the round before this one, not earlier */
    uint64_t round;
    bool is_over;
    uint64_t n_asked; /* number of the last question */
    bool has_answer;  /* to that */
    fl_err err;
    fl_cut_reply answer;

    uint64_t number; /* of the cut; the thread's own */
};

/* --- questions ------------------------------------------------------------ */

typedef struct question {
    fl_cut *cut;
    uint64_t number;
    fl_pack brings;
    fl_cut_reply reply;
} question;

static void on_answer(void *arg, fl_status st)
{
    question *q = arg;
    fl_cut *c = q->cut;

    fl_lock(&c->mu);
    if (q->number == c->n_asked) {
        fl_err_save(&c->err, st);
        c->answer = q->reply;
        c->has_answer = true;
        fl_cond_wake_all(&c->changed);
    }
    fl_unlock(&c->mu);
    fl_pack_release(&q->brings);
    fl_free(q);
}

/* Takes what it brings. */
static void ask(fl_cut *c, fl_cut_state state, fl_pack *brings)
{
    question *q = fl_alloc(sizeof(*q));
    fl_cut_request r = { .number = c->number, .state = (uint32_t)state };
    fl_status st;

    q->cut = c;
    if (brings) {
        q->brings = *brings;
        *brings = (fl_pack){ 0 };
    }
    r.bytes = (fl_msg_bytes){ q->brings.data, q->brings.len };
    fl_lock(&c->mu);
    q->number = ++c->n_asked;
    c->has_answer = false;
    fl_unlock(&c->mu);
    st = fl_client_cut(c->client, &r, &q->reply, (fl_ending){ on_answer, q });
    if (st)
        on_answer(q, st);
}

/* False when there is none any more: it is over. */
static bool wait_answer(fl_cut *c, fl_cut_reply *out)
{
    bool is_good;

    fl_lock(&c->mu);
    while (!c->has_answer && !c->is_over)
        fl_cond_wait(&c->changed, &c->mu);
    is_good = c->has_answer && !c->is_over && !c->err.status;
    *out = c->answer;
    fl_unlock(&c->mu);
    return is_good;
}

/* --- the gate ------------------------------------------------------------- */

void fl_cut_begin_batch(fl_cut *c)
{
    fl_lock(&c->mu);
    while (c->is_closed && !c->is_over)
        fl_cond_wait(&c->changed, &c->mu);
    c->n_batches++;
    fl_unlock(&c->mu);
}

void fl_cut_end_batch(fl_cut *c)
{
    fl_lock(&c->mu);
    if (--c->n_batches == 0 && c->is_wanted)
        fl_cond_wake_all(&c->changed);
    fl_unlock(&c->mu);
}

void fl_cut_begin_call(fl_cut *c)
{
    fl_lock(&c->mu);
    c->n_calls++;
    fl_cond_wake_all(&c->changed);
    fl_unlock(&c->mu);
}

void fl_cut_end_call(fl_cut *c)
{
    fl_lock(&c->mu);
    c->n_calls--;
    fl_unlock(&c->mu);
}

static bool has_rounds(const fl_cut *c)
{
    return c->meeting == FL_CUT_MEETS_ALL;
}

void fl_cut_met(fl_cut *c, uint64_t round)
{
    fl_lock(&c->mu);
    if (c->is_wanted && (!has_rounds(c) || round >= c->round))
        c->is_closed = true;
    fl_unlock(&c->mu);
}

/* Under mu: closes it if it may be; true when nothing is under way. */
static bool try_close(fl_cut *c)
{
    bool may_stop = !c->must_reach || c->n_calls ||
                    c->hooks.round(c->hooks.arg) >= c->round;

    if (c->meeting == FL_CUT_MEETS_NOBODY || (!c->n_batches && may_stop))
        c->is_closed = true;
    return c->is_closed && !c->n_batches;
}

static void want(fl_cut *c, uint64_t round, bool must_reach)
{
    fl_lock(&c->mu);
    c->is_wanted = true;
    c->is_closed = false;
    c->must_reach = must_reach;
    c->round = round;
    fl_cond_wake_all(&c->changed);
    fl_unlock(&c->mu);
}

static void open_gate(fl_cut *c)
{
    fl_lock(&c->mu);
    c->is_wanted = c->is_closed = c->must_reach = false;
    fl_cond_wake_all(&c->changed);
    fl_unlock(&c->mu);
}

/* --- coming to the cut ---------------------------------------------------- */

/* Waits until nothing is under way (true), or until server 0 has said something,
   or it is over. */
static bool wait_closed(fl_cut *c)
{
    bool is_closed;

    fl_lock(&c->mu);
    while (!(is_closed = try_close(c)) && !c->has_answer && !c->is_over)
        fl_cond_wait(&c->changed, &c->mu);
    fl_unlock(&c->mu);
    return is_closed;
}

static bool close_now(fl_cut *c)
{
    bool is_closed;

    fl_lock(&c->mu);
    is_closed = try_close(c);
    fl_unlock(&c->mu);
    return is_closed;
}

static fl_cut_state state_of(fl_cut *c)
{
    fl_cut_state state = FL_CUT_READY;

    fl_lock(&c->mu);
    if (has_rounds(c) && c->n_calls)
        state = FL_CUT_CALLING;
    else if (has_rounds(c) && c->hooks.round(c->hooks.arg) < c->round)
        state = FL_CUT_IDLE;
    fl_unlock(&c->mu);
    return state;
}

static void tell_failure(fl_cut *c)
{
    fl_pack why = { 0 };

    fl_pack_bytes(&why, fl_last_error(), strlen(fl_last_error()));
    ask(c, FL_CUT_FAILED, &why);
}

/* At the cut: says so, and waits for what is next. */
static bool stay(fl_cut *c, fl_cut_state state, fl_cut_reply *next)
{
    fl_pack brings = { 0 };
    fl_status st = FL_OK;

    if (state != FL_CUT_HELD)
        st = c->hooks.settle(c->hooks.arg);
    if (!st)
        st = c->hooks.bring(c->hooks.arg, &brings);
    if (st)
        tell_failure(c);
    else
        ask(c, state, &brings);
    fl_pack_release(&brings);
    return wait_answer(c, next);
}

/* Until nothing is under way, or a round that cannot end is the place of the
   cut. False when there is none any more. */
static bool arrive(fl_cut *c, fl_cut_state *state)
{
    fl_cut_reply said;

    *state = FL_CUT_READY;
    if (!close_now(c)) {
        ask(c, FL_CUT_BUSY, NULL);
        if (!wait_closed(c)) {
            *state = FL_CUT_HELD;
            return wait_answer(c, &said) && said.order == FL_CUT_HOLD;
        }
    }
    *state = state_of(c);
    return true;
}

/* False when it is over. */
static bool come(fl_cut *c, const fl_cut_reply *order)
{
    fl_cut_reply next = *order;
    bool goes_on = true;

    while (goes_on && next.order != FL_CUT_GO_ON) {
        fl_cut_state state;

        want(c, next.round, next.order == FL_CUT_REOPEN);
        if (!arrive(c, &state))
            break;
        goes_on = stay(c, state, &next);
    }
    open_gate(c);
    return goes_on;
}

/* Comes to cuts until there are none any more. */
static void follow(fl_cut *c)
{
    fl_cut_reply order;

    for (;;) {
        ask(c, FL_CUT_WATCHING, NULL);
        if (!wait_answer(c, &order))
            return;
        if (order.order != FL_CUT_COME)
            continue;
        c->number = order.number;
        if (!come(c, &order))
            return;
    }
}

static void watch(void *arg)
{
    fl_cut *c = arg;
    bool is_lost;
    fl_err err;

    follow(c);
    fl_lock(&c->mu);
    err = c->err;
    is_lost = c->has_answer && err.status && !c->is_over;
    fl_unlock(&c->mu);
    if (is_lost && c->hooks.lost)
        c->hooks.lost(c->hooks.arg, fl_err_restore(&err));
}

/* --- life ----------------------------------------------------------------- */

fl_cut *fl_cut_new(const fl_cut_hooks *hooks)
{
    fl_cut *c = fl_alloc(sizeof(*c));

    c->hooks = *hooks;
    fl_mutex_init(&c->mu);
    fl_cond_init(&c->changed);
    return c;
}

void fl_cut_free(fl_cut *c)
{
    if (!c)
        return;
    FL_ASSERT(!c->thread);
    fl_cond_release(&c->changed);
    fl_mutex_release(&c->mu);
    fl_free(c);
}

void fl_cut_set_meeting(fl_cut *c, fl_cut_meeting how)
{
    c->meeting = how;
}

fl_status fl_cut_start(fl_cut *c, fl_client *client)
{
    c->client = client;
    return fl_thread_start(&c->thread, "cut", watch, c);
}

void fl_cut_stop(fl_cut *c)
{
    fl_lock(&c->mu);
    c->is_over = true;
    fl_cond_wake_all(&c->changed);
    fl_unlock(&c->mu);
    fl_thread_join(c->thread);
    c->thread = NULL;
}
