/* builtin.c - calls from their beginning to their end, and parts that come. */
#include "coll/builtin.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

static fl_builtin *builtin_of(fl_coll *c)
{
    return (fl_builtin *)c;
}

/* --- ends ------------------------------------------------------------------ */

static bool is_through(const fl_run *r)
{
    return !r->n_left && !r->n_queued;
}

/* Moves those that are through, or all, to the end of b->ended. */
static void end_runs(fl_builtin *b)
{
    fl_run **at = &b->runs, **to = &b->ended;

    while (*to)
        to = &(*to)->next;
    while (*at) {
        fl_run *r = *at;

        if (!is_through(r) && !b->err.status) {
            at = &r->next;
            continue;
        }
        *at = r->next;
        r->next = NULL;
        *to = r;
        to = &r->next;
    }
}

static void free_run(fl_run *r)
{
    fl_buf_release(&r->scratch);
    fl_free(r);
}

static void tell_ended(fl_run *list, const fl_err *why)
{
    while (list) {
        fl_run *r = list;
        fl_coll_call call = r->call;

        list = r->next;
        free_run(r);
        call.done(call.arg, why->status ? fl_err_restore(why) : FL_OK);
    }
}

void fl_builtin_leave(fl_builtin *b)
{
    fl_run *ended;
    FL_VEC(fl_coll_receipt) receipts = { 0 };
    fl_err why;

    end_runs(b);
    ended = b->ended;
    b->ended = NULL;
    receipts.data = b->receipts.data;
    receipts.len = b->receipts.len;
    memset(&b->receipts, 0, sizeof(b->receipts));
    why.status = FL_OK;
    if (b->err.status)
        why = b->err;
    fl_unlock(&b->mu);
    for (size_t i = 0; i < receipts.len; i++)
        receipts.data[i].taken(receipts.data[i].arg,
                               why.status ? fl_err_restore(&why) : FL_OK);
    fl_vec_release(&receipts);
    tell_ended(ended, &why);
}

static void free_held(fl_coll_held *h)
{
    fl_buf_release(&h->bytes);
    fl_free(h);
}

static void fail_with(fl_builtin *b, fl_status st)
{
    fl_err_save(&b->err, st);
    fl_coll_outbox_clear(b);
    while (b->held) {
        fl_coll_held *h = b->held;

        b->held = h->next;
        fl_vec_push(&b->receipts, h->receipt);
        free_held(h);
    }
}

void fl_builtin_fail(fl_builtin *b, fl_status st)
{
    if (b->err.status)
        return;
    fail_with(b, st);
    fl_coll_outbox_abort(b);
}

/* --- parts that come ------------------------------------------------------- */

/* What a rank says about its call is compared before anything else is looked
   at. */
static fl_status take(fl_run *r, const fl_coll_part *p, bool *is_early)
{
    FL_TRY(
        fl_coll_sign_match(r->at, fl_run_me(r), &r->sign, p->from, &p->sign));
    return r->alg->take(r, p, is_early);
}

static fl_run *find_run(fl_builtin *b, const fl_coll_part *p)
{
    for (fl_run *r = b->runs; r; r = r->next)
        if (r->at.ring == p->at.ring && r->at.number == p->at.number)
            return r;
    return NULL;
}

static fl_status hold(fl_builtin *b, const fl_coll_part *p,
                      fl_coll_receipt receipt)
{
    fl_coll_held *h = fl_alloc(sizeof(*h)), **at = &b->held;

    h->part = *p;
    h->receipt = receipt;
    h->part.bytes = p->n ? fl_buf_reserve(&h->bytes, p->n) : NULL;
    if (p->n && !h->part.bytes) {
        fl_free(h);
        FL_FAIL(FL_ERR_NOMEM,
                "worker %d has no memory for %zu bytes of worker "
                "%d",
                b->base.rank, p->n, p->from);
    }
    if (p->n)
        memcpy(h->bytes.data, p->bytes, p->n);
    while (*at)
        at = &(*at)->next;
    *at = h;
    return FL_OK;
}

/* Takes one that waits for this run; false when there is none. */
static bool take_one_held(fl_run *r)
{
    fl_coll_held **at = &r->b->held;

    for (; *at && !r->b->err.status; at = &(*at)->next) {
        fl_coll_held *h = *at;
        bool is_early = false;
        fl_status st;

        if (h->part.at.ring != r->at.ring || h->part.at.number != r->at.number)
            continue;
        st = take(r, &h->part, &is_early);
        if (st)
            fl_builtin_fail(r->b, st);
        if (st || is_early)
            continue;
        *at = h->next;
        fl_vec_push(&r->b->receipts, h->receipt);
        free_held(h);
        return true;
    }
    return false;
}

static void take_held(fl_run *r)
{
    while (!r->b->err.status && take_one_held(r))
        continue;
}

static fl_status check_part(const fl_builtin *b, const fl_coll_part *p)
{
    if (p->from < 0 || p->from >= b->base.n_ranks || p->from == b->base.rank)
        FL_FAIL(FL_ERR_CORRUPT,
                "worker %d sends a part of a collective call to worker %d, and "
                "there are %d",
                p->from, b->base.rank, b->base.n_ranks);
    if (p->at.ring >= FL_COLL_RING_MAX || p->n > FL_COLL_CHUNK_BYTES)
        FL_FAIL(FL_ERR_CORRUPT,
                "worker %d sends worker %d a part of ring %" PRIu32
                " with %zu bytes, and a chunk has at most %zu",
                p->from, b->base.rank, p->at.ring, p->n, FL_COLL_CHUNK_BYTES);
    return FL_OK;
}

/* Of a call that is under way, to come, or over. */
static fl_status deliver(fl_builtin *b, const fl_coll_part *p,
                         fl_coll_receipt receipt)
{
    fl_run *r;
    bool is_early = false;

    FL_TRY(check_part(b, p));
    r = find_run(b, p);
    if (!r && p->at.number < b->numbers[p->at.ring])
        FL_FAIL(FL_ERR_CORRUPT,
                "worker %d sends a part of call %" PRIu64 " of ring %" PRIu32
                ", which is over on worker %d",
                p->from, p->at.number, p->at.ring, b->base.rank);
    if (r)
        FL_TRY(take(r, p, &is_early));
    if (!r || is_early)
        return hold(b, p, receipt);
    fl_vec_push(&b->receipts, receipt);
    take_held(r);
    return FL_OK;
}

/* A rank has failed and says why; it has told all others, too. */
static void take_failure(fl_builtin *b, const fl_coll_part *p)
{
    char text[FL_ERR_TEXT_MAX];
    size_t n = p->n < sizeof(text) ? p->n : sizeof(text) - 1;

    memcpy(text, p->bytes, n);
    text[n] = '\0';
    for (size_t i = 0; i < n; i++)
        if ((unsigned char)text[i] < ' ')
            text[i] = ' ';
    fail_with(b, fl_err_set(p->status ? (fl_status)p->status : FL_ERR_CLOSED,
                            "worker %d has ended: %s", p->from, text));
}

static void on_part(fl_coll *c, int from, const void *bytes, size_t n,
                    fl_coll_receipt receipt)
{
    fl_builtin *b = builtin_of(c);
    fl_coll_part p = { 0 };
    fl_status st = fl_coll_part_read(from, bytes, n, &p);

    fl_stat_add(&b->base.stats.received, p.n);
    fl_lock(&b->mu);
    if (b->err.status) {
        fl_vec_push(&b->receipts, receipt);
    } else if (!st && p.sign.kind == FL_COLL_KIND_FAILED) {
        take_failure(b, &p);
        fl_vec_push(&b->receipts, receipt);
    } else {
        st = st ? st : deliver(b, &p, receipt);
        if (st) {
            fl_builtin_fail(b, st);
            fl_vec_push(&b->receipts, receipt);
        }
    }
    fl_builtin_leave(b);
}

/* --- calls ----------------------------------------------------------------- */

static fl_run *new_run(fl_builtin *b, const fl_coll_call *call)
{
    fl_run *r = fl_alloc(sizeof(*r)), **at = &b->runs;

    r->b = b;
    r->call = *call;
    r->sign = fl_coll_sign_of(call);
    if (call->kind == FL_COLL_BARRIER)
        r->call.n = 0;
    r->at.ring = (uint32_t)call->ring;
    r->at.number = b->numbers[call->ring]++;
    while (*at)
        at = &(*at)->next;
    *at = r;
    return r;
}

static void begin(fl_coll *c, const fl_coll_call *call)
{
    fl_builtin *b = builtin_of(c);
    fl_run *r;
    fl_status st;

    fl_lock(&b->mu);
    r = new_run(b, call);
    if (!b->err.status) {
        r->alg = fl_coll_choose(r);
        st = r->alg->start(r);
        if (st)
            fl_builtin_fail(b, st);
        take_held(r);
    }
    fl_builtin_leave(b);
}

static void fail(fl_coll *c, fl_status why)
{
    fl_builtin *b = builtin_of(c);

    fl_lock(&b->mu);
    fl_builtin_fail(b, why);
    fl_builtin_leave(b);
}

static bool waits_for(fl_coll *c, char *text, size_t cap)
{
    fl_builtin *b = builtin_of(c);
    char call[FL_COLL_SIGN_TEXT_MAX], who[32] = "the other workers";
    bool is_busy;
    int rank;

    fl_lock(&b->mu);
    is_busy = b->runs && !b->err.status;
    if (is_busy) {
        rank = b->runs->alg->awaits ? b->runs->alg->awaits(b->runs) : -1;
        if (rank >= 0)
            (void)snprintf(who, sizeof(who), "worker %d", rank);
        (void)snprintf(text, cap,
                       "%s, call %" PRIu64 " of ring %" PRIu32 ", waits for %s",
                       fl_coll_sign_text(&b->runs->sign, call),
                       b->runs->at.number, b->runs->at.ring, who);
    }
    fl_unlock(&b->mu);
    return is_busy;
}

/* --- life ------------------------------------------------------------------ */

static fl_status open_builtin(const fl_coll_options *o, fl_coll **out)
{
    fl_builtin *b = fl_alloc(sizeof(*b));

    b->base.engine = &fl_coll_engine_builtin;
    b->base.rank = o->rank;
    b->base.n_ranks = o->n_ranks;
    b->link = o->link;
    fl_mutex_init(&b->mu);
    b->outboxes = fl_alloc((size_t)o->n_ranks * sizeof(*b->outboxes));
    for (int i = 0; i < o->n_ranks; i++)
        b->outboxes[i].end = &b->outboxes[i].first;
    *out = &b->base;
    return FL_OK;
}

void fl_builtin_destroy(fl_builtin *b)
{
    fl_coll_outbox_release(b);
    fl_mutex_release(&b->mu);
    fl_free(b);
}

/* What the link still reads outlives the engine. */
static void close_builtin(fl_coll *c)
{
    fl_builtin *b = builtin_of(c);
    bool is_last;

    fl_lock(&b->mu);
    if (!b->err.status)
        fail_with(b, fl_err_set(FL_ERR_CLOSED,
                                "worker %d makes no more collective calls",
                                b->base.rank));
    b->is_freed = true;
    is_last = !b->n_slots;
    fl_builtin_leave(b);
    if (is_last)
        fl_builtin_destroy(b);
}

const fl_coll_engine fl_coll_engine_builtin = {
    .name = "builtin",
    .open = open_builtin,
    .close = close_builtin,
    .begin = begin,
    .fail = fail,
    .on_part = on_part,
    .waits_for = waits_for,
};
