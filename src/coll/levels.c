/* levels.c - which way a call takes: by memory that is shared, by parts, or
 * both.
 *
 * Where all ranks share memory, nothing is sent. Where several machines have
 * several ranks each, sums have two levels: the ranks of a machine add up to the
 * first of them, the first ones add up among machines, and each gives the sum to
 * the others of its machine. Every rank knows all groups, and so does the same.
 */
#include "coll/builtin.h"

static bool has_levels(const fl_coll_call *call)
{
    return call->kind == FL_COLL_ALLREDUCE || call->kind == FL_COLL_BARRIER;
}

static fl_shared_run *new_shared_run(const fl_coll_call *call, uint64_t number)
{
    fl_shared_run *r = fl_alloc(sizeof(*r));

    r->call = *call;
    r->sign = fl_coll_sign_of(call);
    r->at = (fl_coll_place){ (uint32_t)call->ring, number };
    if (call->kind == FL_COLL_BARRIER) {
        r->call.dtype = FL_DTYPE_U8;
        r->call.n = 0;
    }
    return r;
}

static void put_whole(fl_builtin *b, const fl_coll_call *call,
                      const fl_shared_way *way)
{
    fl_shared_run *r = new_shared_run(call, fl_builtin_number(b, call->ring));

    r->stages[r->n_stages++] = (fl_shared_stage){ way, call->root, call->in };
    fl_shared_put(b->shared, r);
}

static void put_levels(fl_builtin *b, const fl_coll_call *call)
{
    fl_shared_run *r = new_shared_run(call, fl_builtin_number(b, call->ring));

    r->stages[0] = (fl_shared_stage){ &fl_shared_way_reduce, 0, call->in };
    r->stages[1] = (fl_shared_stage){ NULL, 0, NULL };
    r->stages[2] = (fl_shared_stage){ &fl_shared_way_broadcast, 0, call->out };
    r->n_stages = 3;
    if (b->leaders.me >= 0)
        fl_vec_push(&b->later, r->at);
    fl_shared_put(b->shared, r);
}

void fl_builtin_dispatch(fl_builtin *b, const fl_coll_call *call)
{
    const fl_shared_way *way = fl_shared_choose(call, b->small_shared_bytes);
    bool is_leveled = b->leaders.n && way && has_levels(call);

    if (b->err.status || !way || (!is_leveled && (b->leaders.n || !b->shared)))
        fl_builtin_start(b, call, &b->all, fl_builtin_number(b, call->ring));
    else if (!is_leveled)
        put_whole(b, call, way);
    else if (b->shared)
        put_levels(b, call);
    else
        fl_builtin_start(b, call, &b->leaders,
                         fl_builtin_number(b, call->ring));
}

/* --- between machines ------------------------------------------------------- */

typedef struct sending {
    fl_builtin *b;
    uint32_t ring;
} sending;

/* After an error the calls by shared memory end with it, too. */
static void on_sent(void *arg, fl_status st)
{
    sending *s = arg;
    fl_shared *shared;

    fl_lock(&s->b->mu);
    shared = st ? NULL : fl_builtin_enter_shared(s->b);
    fl_unlock(&s->b->mu);
    if (shared) {
        fl_shared_sent(shared, s->ring);
        fl_shared_leave(shared);
    }
    fl_free(s);
}

static void forget_later(fl_builtin *b, fl_coll_place at)
{
    size_t n = 0;

    for (size_t i = 0; i < b->later.len; i++)
        if (b->later.data[i].ring != at.ring ||
            b->later.data[i].number != at.number)
            b->later.data[n++] = b->later.data[i];
    b->later.len = n;
}

void fl_builtin_send(void *builtin, const fl_coll_call *call, fl_coll_place at)
{
    fl_builtin *b = builtin;
    sending *s = fl_alloc(sizeof(*s));
    fl_coll_call sum = *call;

    *s = (sending){ b, at.ring };
    sum.in = call->out;
    sum.done = on_sent;
    sum.arg = s;
    fl_lock(&b->mu);
    forget_later(b, at);
    fl_builtin_start(b, &sum, &b->leaders, at.number);
    fl_builtin_leave(b);
}
