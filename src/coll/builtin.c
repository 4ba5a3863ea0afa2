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
    return r->alg && !r->n_left && !r->n_queued;
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

static void free_held(fl_coll_held *h)
{
    fl_buf_release(&h->bytes);
    fl_free(h);
}

static fl_run *new_run(fl_builtin *b, const fl_coll_call *call, uint64_t number)
{
    fl_run *r = fl_alloc(sizeof(*r)), **at = &b->runs;

    r->b = b;
    r->call = *call;
    r->sign = fl_coll_sign_of(call);
    if (call->kind == FL_COLL_BARRIER)
        r->call.n = 0;
    r->at = (fl_coll_place){ (uint32_t)call->ring, number };
    while (*at && ((*at)->at.ring != r->at.ring || (*at)->at.number < number))
        at = &(*at)->next;
    r->next = *at;
    *at = r;
    return r;
}

static void fail_with(fl_builtin *b, fl_status st)
{
    fl_err_save(&b->err, st);
    fl_coll_outbox_clear(b);
    for (size_t i = 0; i < b->waiting.len; i++)
        (void)new_run(b, &b->waiting.data[i], i);
    fl_vec_release(&b->waiting);
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
   at. Algorithms know it by its place. */
static fl_status take(fl_run *r, const fl_coll_part *p, bool *is_early)
{
    fl_coll_part placed = *p;

    FL_TRY(fl_coll_sign_match(r->at, r->b->base.rank, &r->sign, p->from,
                              &p->sign));
    for (placed.from = 0; placed.from < r->group->n; placed.from++)
        if (r->group->ranks[placed.from] == p->from)
            return r->alg->take(r, &placed, is_early);
    FL_FAIL(FL_ERR_CORRUPT,
            "worker %d sends worker %d a part of call %" PRIu64
            " of ring %" PRIu32 ", in which it takes no part: all workers must "
            "run the same version",
            p->from, r->b->base.rank, r->at.number, r->at.ring);
}

static fl_run *find_run(fl_builtin *b, const fl_coll_part *p)
{
    for (fl_run *r = b->runs; r; r = r->next)
        if (r->at.ring == p->at.ring && r->at.number == p->at.number)
            return r->alg ? r : NULL;
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
        if (st) {
            /* None is held any more. */
            fl_builtin_fail(r->b, st);
            return false;
        }
        if (is_early)
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

/* --- the next ones --------------------------------------------------------- */

/* Whether all calls of its ring before it are over, those that this rank will
   send parts of later, too. */
static bool is_next(const fl_builtin *b, const fl_run *r)
{
    for (const fl_run *o = b->runs; o != r; o = o->next)
        if (o->at.ring == r->at.ring)
            return false;
    for (size_t i = 0; i < b->later.len; i++)
        if (b->later.data[i].ring == r->at.ring &&
            b->later.data[i].number < r->at.number)
            return false;
    return true;
}

/* Those whose turn it is; true: there were some. */
static bool start_runs(fl_builtin *b)
{
    bool has_started = false;

    for (fl_run *r = b->runs; r && !b->err.status; r = r->next) {
        fl_status st;

        if (r->alg || !is_next(b, r))
            continue;
        has_started = true;
        r->alg = fl_coll_choose(r);
        st = r->alg->start(r);
        if (st)
            fl_builtin_fail(b, st);
        take_held(r);
    }
    return has_started || (b->err.status && b->runs);
}

fl_shared *fl_builtin_enter_shared(fl_builtin *b)
{
    if (b->shared)
        fl_shared_enter(b->shared);
    return b->shared;
}

static void fail_shared(fl_shared *s, const fl_err *why)
{
    if (!s)
        return;
    fl_shared_fail(s, why);
    fl_shared_leave(s);
}

void fl_builtin_leave(fl_builtin *b)
{
    fl_run *ended;
    FL_VEC(fl_coll_receipt) receipts = { 0 };
    fl_shared *shared;
    fl_err why;

    do
        end_runs(b);
    while (start_runs(b));
    shared = b->err.status ? fl_builtin_enter_shared(b) : NULL;
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
    fail_shared(shared, &why);
}

/* --- parts from outside ----------------------------------------------------- */

static fl_status check_part(const fl_builtin *b, const fl_coll_part *p)
{
    if (p->from < 0 || p->from >= b->base.n_ranks || p->from == b->base.rank)
        FL_FAIL(FL_ERR_CORRUPT,
                "worker %d sends a part of a collective call to worker %d, and "
                "there are %d",
                p->from, b->base.rank, b->base.n_ranks);
    if (p->at.ring > FL_COLL_RING_MEETING || p->n > FL_COLL_CHUNK_BYTES)
        FL_FAIL(FL_ERR_CORRUPT,
                "worker %d sends worker %d a part of ring %" PRIu32
                " with %zu bytes, and a chunk has at most %zu",
                p->from, b->base.rank, p->at.ring, p->n, FL_COLL_CHUNK_BYTES);
    return FL_OK;
}

/* It was begun here, and is neither at work nor waiting for that. */
static bool is_past(const fl_builtin *b, fl_coll_place at)
{
    for (const fl_run *r = b->runs; r; r = r->next)
        if (r->at.ring == at.ring && r->at.number == at.number)
            return false;
    for (size_t i = 0; i < b->later.len; i++)
        if (b->later.data[i].ring == at.ring &&
            b->later.data[i].number == at.number)
            return false;
    return at.number < b->numbers[at.ring];
}

/* Of a call that is under way, to come, or over. */
static fl_status deliver(fl_builtin *b, const fl_coll_part *p,
                         fl_coll_receipt receipt)
{
    fl_run *r;
    bool is_early = false;

    FL_TRY(check_part(b, p));
    r = find_run(b, p);
    if (!r && is_past(b, p->at))
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
                            "worker %d has given up: %s", p->from, text));
}

static void on_part(fl_coll *c, int from, const void *bytes, size_t n,
                    fl_coll_receipt receipt)
{
    fl_builtin *b = builtin_of(c);
    fl_coll_part p = { 0 };
    fl_status st = fl_coll_part_read(from, bytes, n, &p);

    if (p.at.ring != FL_COLL_RING_MEETING)
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

uint64_t fl_builtin_number(fl_builtin *b, int ring)
{
    return b->numbers[ring]++;
}

void fl_builtin_start(fl_builtin *b, const fl_coll_call *call,
                      const fl_coll_group *group, uint64_t number)
{
    new_run(b, call, number)->group = group;
}

/* Under the mutex. */
static void begin_first(fl_builtin *b, const fl_coll_call *call)
{
    fl_vec_push(&b->waiting, *call);
    if (b->phase != FL_COLL_FIRST)
        return;
    b->phase = FL_COLL_MEETING;
    fl_builtin_meet(b);
}

static void begin(fl_coll *c, const fl_coll_call *call, bool is_helped)
{
    fl_builtin *b = builtin_of(c);
    fl_shared *shared;

    fl_lock(&b->mu);
    if (b->phase == FL_COLL_READY || b->err.status)
        fl_builtin_dispatch(b, call);
    else
        begin_first(b, call);
    shared = fl_builtin_enter_shared(b);
    fl_builtin_leave(b);
    if (!shared)
        return;
    fl_shared_begin(shared, is_helped);
    fl_shared_leave(shared);
}

void fl_builtin_ready(fl_builtin *b)
{
    fl_shared *shared;

    fl_lock(&b->mu);
    b->phase = FL_COLL_READY;
    for (size_t i = 0; i < b->waiting.len; i++)
        fl_builtin_dispatch(b, &b->waiting.data[i]);
    fl_vec_release(&b->waiting);
    shared = fl_builtin_enter_shared(b);
    fl_builtin_leave(b);
    if (!shared)
        return;
    fl_shared_begin(shared, false);
    fl_shared_leave(shared);
}

static void help(fl_coll *c, bool (*is_over)(void *arg), void *arg)
{
    fl_builtin *b = builtin_of(c);
    fl_shared *shared;

    fl_lock(&b->mu);
    shared = fl_builtin_enter_shared(b);
    fl_unlock(&b->mu);
    if (!shared)
        return;
    fl_shared_help(shared, is_over, arg);
    fl_shared_leave(shared);
}

static void fail(fl_coll *c, fl_status why)
{
    fl_builtin *b = builtin_of(c);

    fl_lock(&b->mu);
    fl_builtin_fail(b, why);
    fl_builtin_leave(b);
}

/* A call in front, and the rank whose turn it is; -1: those of several. */
typedef struct front {
    fl_coll_sign sign;
    fl_coll_place at;
    int rank;
} front;

static bool find_front(fl_builtin *b, front *f)
{
    fl_run *r = b->runs;
    int place;

    f->rank = b->shared ? fl_shared_awaits(b->shared, &f->sign, &f->at) : -1;
    if (b->err.status || (!r && f->rank < 0))
        return false;
    if (!r)
        return true;
    place = r->alg && r->alg->awaits ? r->alg->awaits(r) : -1;
    *f = (front){ r->sign, r->at, place < 0 ? -1 : r->group->ranks[place] };
    if (b->waiting.len)
        f->sign = fl_coll_sign_of(&b->waiting.data[0]);
    if (b->waiting.len)
        f->at.ring = (uint32_t)b->waiting.data[0].ring;
    return true;
}

static bool waits_for(fl_coll *c, char *text, size_t cap)
{
    fl_builtin *b = builtin_of(c);
    char call[FL_COLL_SIGN_TEXT_MAX], who[32] = "the other workers";
    bool is_busy;
    front f = { 0 };

    fl_lock(&b->mu);
    is_busy = find_front(b, &f);
    fl_unlock(&b->mu);
    if (!is_busy)
        return false;
    if (f.rank >= 0)
        (void)snprintf(who, sizeof(who), "worker %d", f.rank);
    (void)snprintf(
        text, cap, "%s, call %" PRIu64 " of ring %" PRIu32 ", waits for %s",
        fl_coll_sign_text(&f.sign, call), f.at.number, f.at.ring, who);
    return true;
}

/* --- life ------------------------------------------------------------------ */

static void set_limits(fl_builtin *b, const fl_coll_options *o)
{
    size_t sent = o->small_sent_bytes, shared = o->small_shared_bytes;

    sent = sent ? sent : FL_COLL_SMALL_SENT_BYTES;
    b->small_sent_bytes =
        sent < FL_COLL_CHUNK_BYTES ? sent : FL_COLL_CHUNK_BYTES;
    b->small_shared_bytes = shared ? shared : FL_COLL_SMALL_SHARED_BYTES;
}

static fl_status open_builtin(const fl_coll_options *o, fl_coll **out)
{
    fl_builtin *b = fl_alloc(sizeof(*b));

    b->base.engine = &fl_coll_engine_builtin;
    b->base.rank = o->rank;
    b->base.n_ranks = o->n_ranks;
    b->link = o->link;
    set_limits(b, o);
    if (o->machine)
        (void)snprintf(b->machine, sizeof(b->machine), "%s", o->machine);
    else
        fl_segment_machine(b->machine);
    b->phase = o->n_ranks > 1 ? FL_COLL_FIRST : FL_COLL_READY;
    fl_mutex_init(&b->mu);
    b->all = (fl_coll_group){ .n = o->n_ranks, .me = o->rank };
    b->all.ranks = fl_alloc((size_t)o->n_ranks * sizeof(*b->all.ranks));
    for (int i = 0; i < o->n_ranks; i++)
        b->all.ranks[i] = i;
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
    fl_free(b->all.ranks);
    fl_free(b->leaders.ranks);
    fl_vec_release(&b->later);
    fl_free(b);
}

/* What the link still reads outlives the engine. */
static void close_builtin(fl_coll *c)
{
    fl_builtin *b = builtin_of(c);
    fl_shared *shared;
    bool is_last;

    fl_lock(&b->mu);
    if (!b->err.status)
        fail_with(b, fl_err_set(FL_ERR_CLOSED,
                                "worker %d makes no more collective calls",
                                b->base.rank));
    fl_builtin_leave(b);
    fl_lock(&b->mu);
    shared = b->shared;
    b->shared = NULL;
    fl_unlock(&b->mu);
    fl_shared_free(shared);
    fl_lock(&b->mu);
    b->is_freed = true;
    is_last = !b->n_slots;
    fl_unlock(&b->mu);
    if (is_last)
        fl_builtin_destroy(b);
}

const fl_coll_engine fl_coll_engine_builtin = {
    .name = "builtin",
    .open = open_builtin,
    .close = close_builtin,
    .begin = begin,
    .help = help,
    .fail = fail,
    .on_part = on_part,
    .waits_for = waits_for,
};
