/* collect.c - what the operators share that all workers run together. */
#include "ops/collect.h"

#include <inttypes.h>

#include "base/alloc.h"

static void release_state(void *p)
{
    fl_collect_state *s = p;

    fl_buf_release(&s->buf);
    fl_buf_release(&s->all);
    fl_free(s->counts);
}

fl_collect_state *fl_collect_keep(fl_op_ctx *c)
{
    return fl_op_keep(c, sizeof(fl_collect_state), release_state);
}

fl_status fl_collect_is_alone(const fl_op_ctx *c, bool *is_alone)
{
    *is_alone = !c->comm || !c->comm->data->collect;
    if (*is_alone && fl_comm_n_workers(c->comm) > 1)
        FL_FAIL(FL_ERR_INVAL,
                "the %d trainers of a job in mode %s talk to servers, not to "
                "one another; train in mode collective, or leave it out",
                c->comm->n_workers, c->comm->name);
    return FL_OK;
}

fl_status fl_collect_begin(const fl_op_ctx *c, fl_collect_state *s,
                           const fl_comm_collect *what)
{
    s->call = *what;
    s->call.ring = (int)fl_int(c, FL_COLLECT_RING_ID);
    s->call.worker = c->worker;
    fl_comm_begin(&s->call.answer, c->waker);
    return c->comm->data->collect(c->comm, &s->call);
}

/* --- checks --------------------------------------------------------------- */

static bool is_number(fl_dtype d)
{
    return d == FL_DTYPE_F32 || d == FL_DTYPE_F64 || d == FL_DTYPE_I32 ||
           d == FL_DTYPE_I64;
}

fl_status fl_collect_check(const fl_infer *c, int slot, int i)
{
    const fl_tensor *x = fl_infer_in_at(c, slot, i);
    int64_t ring = fl_int(c, FL_COLLECT_RING_ID);
    char text[FL_SLOT_TEXT_MAX];

    if (ring < 0 || ring >= FL_COLLECT_RINGS)
        FL_FAIL(FL_ERR_INVAL, "op %s: ring_id=%" PRId64 " is not in 0..%d",
                c->node->def->name, ring, FL_COLLECT_RINGS - 1);
    if (!is_number(x->dtype) || x->n_lod)
        FL_FAIL(FL_ERR_INVAL,
                "op %s: %s must be f32, f64, i32 or i64 without offsets; "
                "offsets are each worker's own",
                c->node->def->name, fl_infer_text_at(c, slot, i, text));
    return FL_OK;
}

fl_status fl_collect_check_root(const fl_op_ctx *c, int attr, int *root)
{
    int64_t r = fl_int(c, attr);
    int n = fl_comm_n_workers(c->comm);

    if (r < 0 || r >= n)
        FL_FAIL(FL_ERR_INVAL, "%s=%" PRId64 " is none of the %d workers",
                c->node->def->attrs[attr].name, r, n);
    *root = (int)r;
    return FL_OK;
}

fl_status fl_collect_check_nranks(const fl_op_ctx *c, int attr)
{
    int n = fl_comm_n_workers(c->comm);

    if (fl_int(c, attr) != n)
        FL_FAIL(FL_ERR_INVAL,
                "%s=%" PRId64 ", and there %s %d worker%s; the shape of Out "
                "follows from it",
                c->node->def->attrs[attr].name, fl_int(c, attr),
                n > 1 ? "are" : "is", n, n > 1 ? "s" : "");
    return FL_OK;
}
