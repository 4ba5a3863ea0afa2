/* coll.c - checks calls, and hands them to the engine. */
#include "coll/coll.h"

#include <string.h>

#include "base/latch.h"
#include "base/vec.h"
#include "coll/engine.h"
#include "coll/sign.h"

/* --- engines --------------------------------------------------------------- */

static const fl_coll_engine *const engines[] = {
#define FL_COLL_ENGINE(name) &fl_coll_engine_##name,
#include "coll/engines.def"
#undef FL_COLL_ENGINE
};

fl_status fl_coll_engine_get(const char *name, const fl_coll_engine **out)
{
    fl_str all = { 0 };

    for (size_t i = 0; i < FL_LEN(engines); i++) {
        if (strcmp(engines[i]->name, name) == 0) {
            *out = engines[i];
            fl_str_release(&all);
            return FL_OK;
        }
        fl_str_addf(&all, " %s", engines[i]->name);
    }
    (void)fl_err_set(FL_ERR_NOTFOUND,
                     "no engine of collective calls is called \"%s\"; there "
                     "are:%s",
                     name, fl_str_text(&all));
    fl_str_release(&all);
    return FL_ERR_NOTFOUND;
}

/* --- life ------------------------------------------------------------------ */

fl_status fl_coll_new(fl_coll **out, const fl_coll_options *o)
{
    const fl_coll_engine *e;

    if (o->n_ranks < 1 || o->rank < 0 || o->rank >= o->n_ranks)
        FL_FAIL(FL_ERR_INVAL, "worker %d of %d: ranks count from 0", o->rank,
                o->n_ranks);
    FL_TRY(fl_coll_engine_get(o->engine ? o->engine : "builtin", &e));
    return e->open(o, out);
}

void fl_coll_free(fl_coll *c)
{
    if (c)
        c->engine->close(c);
}

/* --- calls ----------------------------------------------------------------- */

static bool has_numbers(fl_dtype d)
{
    return d == FL_DTYPE_F32 || d == FL_DTYPE_F64 || d == FL_DTYPE_I32 ||
           d == FL_DTYPE_I64;
}

static fl_status check_values(const fl_coll *c, const fl_coll_call *a)
{
    size_t bytes, all;

    if (!has_numbers(a->dtype) && a->dtype != FL_DTYPE_U8)
        FL_FAIL(FL_ERR_TYPE,
                "a collective call cannot carry %s: use f32, f64, "
                "i32, i64, or u8 for bytes",
                fl_dtype_text(a->dtype));
    if (fl_coll_combines(a->kind) && !has_numbers(a->dtype))
        FL_FAIL(FL_ERR_TYPE,
                "bytes (u8) can be sent and gathered, not added up");
    if (fl_mul_overflow(a->n, fl_dtype_bytes(a->dtype), &bytes) ||
        fl_mul_overflow(bytes, (size_t)c->n_ranks, &all))
        FL_FAIL(FL_ERR_INVAL, "a collective call of %zu elements is too large",
                a->n);
    if (a->root < 0 || a->root >= c->n_ranks)
        FL_FAIL(FL_ERR_INVAL, "root %d of a collective call is not in 0..%d",
                a->root, c->n_ranks - 1);
    if (a->kind == FL_COLL_REDUCESCATTER && a->n % (size_t)c->n_ranks)
        FL_FAIL(FL_ERR_INVAL,
                "reducescatter of %zu elements over %d workers: they must be a "
                "multiple of the workers",
                a->n, c->n_ranks);
    return FL_OK;
}

static fl_status check(const fl_coll *c, const fl_coll_call *a)
{
    FL_ASSERT((unsigned)a->kind < FL_COLL_KIND_COUNT &&
              (unsigned)a->op < FL_COLL_OP_COUNT);
    if (a->ring < 0 || a->ring >= FL_COLL_RING_MAX)
        FL_FAIL(FL_ERR_INVAL, "ring %d is not in 0..%d", a->ring,
                FL_COLL_RING_MAX - 1);
    return a->kind == FL_COLL_BARRIER ? FL_OK : check_values(c, a);
}

static void begin(fl_coll *c, const fl_coll_call *call, bool is_helped)
{
    fl_status st = check(c, call);

    fl_stat_add(&c->stats.calls, 1);
    if (st) {
        fl_coll_fail(c, st);
        call->done(call->arg, st);
        return;
    }
    c->engine->begin(c, call, is_helped);
}

void fl_coll_begin(fl_coll *c, const fl_coll_call *call)
{
    begin(c, call, false);
}

/* --- waiting --------------------------------------------------------------- */

/* A call that somebody waits for. */
typedef struct waited {
    const fl_coll_call *call;
    fl_latch latch;
    atomic_bool is_over;
} waited;

static void end_wait(void *arg, fl_status st)
{
    waited *w = arg;

    atomic_store(&w->is_over, true);
    fl_latch_done(&w->latch, st);
}

static void *ask_for_room(void *arg, const uint64_t *counts, uint64_t sum)
{
    waited *w = arg;

    return w->call->room(w->call->arg, counts, sum);
}

static bool is_over(void *arg)
{
    return atomic_load(&((waited *)arg)->is_over);
}

fl_status fl_coll_run(fl_coll *c, const fl_coll_call *call)
{
    waited w = { .call = call };
    fl_coll_call mine = *call;
    fl_status st;

    mine.done = end_wait;
    mine.room = call->room ? ask_for_room : NULL;
    mine.arg = &w;
    fl_latch_init(&w.latch, NULL);
    fl_latch_add(&w.latch);
    begin(c, &mine, true);
    if (c->engine->help)
        c->engine->help(c, is_over, &w);
    st = fl_latch_wait(&w.latch);
    fl_latch_release(&w.latch);
    return st;
}

/* --- the rest -------------------------------------------------------------- */

void fl_coll_on_part(fl_coll *c, int from, const void *bytes, size_t n,
                     fl_coll_receipt receipt)
{
    fl_status st;

    if (c->engine->on_part) {
        c->engine->on_part(c, from, bytes, n, receipt);
        return;
    }
    st = fl_err_set(FL_ERR_INVAL,
                    "worker %d sends a part of a collective call to worker %d, "
                    "which makes them by %s: set collective_engine alike on "
                    "all workers",
                    from, c->rank, c->engine->name);
    fl_coll_fail(c, st);
    receipt.taken(receipt.arg, st);
}

void fl_coll_fail(fl_coll *c, fl_status why)
{
    c->engine->fail(c, why);
}

bool fl_coll_waits_for(fl_coll *c, char *text, size_t cap)
{
    return c->engine->waits_for(c, text, cap);
}

const fl_coll_stats *fl_coll_stats_of(const fl_coll *c)
{
    return &c->stats;
}
