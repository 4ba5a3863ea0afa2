/* c_gather.c - one worker's tensor for all, all for one, all for all, and
 * waiting for everybody: c_broadcast, c_reduce_sum, c_allgather,
 * c_reducescatter and barrier. */
#include <inttypes.h>

#include "ops/collect.h"

enum { X };
enum { OUT };
enum { ROOT = FL_COLLECT_USE_CALC_STREAM + 1, NRANKS = ROOT };

/* --- shapes --------------------------------------------------------------- */

static fl_status check_dense(const fl_infer *c)
{
    char text[FL_SLOT_TEXT_MAX];

    FL_TRY(fl_collect_check(c, X, 0));
    if (fl_infer_in(c, X)->shape.rank < 1)
        FL_FAIL(FL_ERR_INVAL, "op %s: %s has no rows", c->node->def->name,
                fl_infer_text_at(c, X, 0, text));
    return FL_OK;
}

static fl_status same_infer(fl_infer *c)
{
    FL_TRY(fl_collect_check(c, X, 0));
    fl_tensor_like(fl_infer_out(c, OUT), fl_infer_in(c, X));
    return FL_OK;
}

static fl_status check_nranks(const fl_infer *c)
{
    if (fl_int(c, NRANKS) < 1 || fl_int(c, NRANKS) > INT32_MAX)
        FL_FAIL(FL_ERR_INVAL,
                "op %s: nranks=%" PRId64 " is no number of workers",
                c->node->def->name, fl_int(c, NRANKS));
    return FL_OK;
}

static fl_status gather_infer(fl_infer *c)
{
    const fl_tensor *x = fl_infer_in(c, X);
    fl_tensor *out = fl_infer_out(c, OUT);

    FL_TRY(check_dense(c));
    FL_TRY(check_nranks(c));
    fl_tensor_like(out, x);
    if (x->shape.dim[0] >= 0)
        out->shape.dim[0] = x->shape.dim[0] * fl_int(c, NRANKS);
    return FL_OK;
}

static fl_status scatter_infer(fl_infer *c)
{
    const fl_tensor *x = fl_infer_in(c, X);
    fl_tensor *out = fl_infer_out(c, OUT);
    char text[FL_SLOT_TEXT_MAX];

    FL_TRY(check_dense(c));
    FL_TRY(check_nranks(c));
    fl_tensor_like(out, x);
    if (x->shape.dim[0] < 0)
        return FL_OK;
    if (x->shape.dim[0] % fl_int(c, NRANKS))
        FL_FAIL(FL_ERR_INVAL,
                "op %s: the rows of %s cannot be dealt to %" PRId64
                " workers (nranks) in equal parts",
                c->node->def->name, fl_infer_text_at(c, X, 0, text),
                fl_int(c, NRANKS));
    out->shape.dim[0] = x->shape.dim[0] / fl_int(c, NRANKS);
    return FL_OK;
}

/* --- running -------------------------------------------------------------- */

/* Makes the call, which a worker that is alone answers by a copy. */
static fl_status run(fl_op_ctx *c, fl_collect_kind kind, int root)
{
    fl_collect_state *s = fl_collect_keep(c);
    const fl_tensor *x = fl_in_t(c, X);
    bool is_alone;

    FL_TRY(fl_collect_is_alone(c, &is_alone));
    if (is_alone) {
        fl_share_copy(c, fl_out_t(c, OUT), x);
        return FL_OK;
    }
    return fl_collect_begin(c, s,
                            &(fl_comm_collect){ .kind = kind,
                                                .op = FL_COLLECT_SUM,
                                                .dtype = x->dtype,
                                                .in = x->data,
                                                .out = fl_out(c, OUT),
                                                .n = (size_t)fl_tensor_numel(x),
                                                .root = root });
}

static fl_status answer(fl_op_ctx *c)
{
    return fl_comm_result(&fl_collect_keep(c)->call.answer);
}

static fl_status run_rooted(fl_op_ctx *c, fl_collect_kind kind)
{
    int root;

    if (c->resumed)
        return answer(c);
    FL_TRY(fl_collect_check_root(c, ROOT, &root));
    return run(c, kind, root);
}

static fl_status run_ranked(fl_op_ctx *c, fl_collect_kind kind)
{
    if (c->resumed)
        return answer(c);
    FL_TRY(fl_collect_check_nranks(c, NRANKS));
    return run(c, kind, 0);
}

static fl_status c_broadcast_run(fl_op_ctx *c)
{
    return run_rooted(c, FL_COLLECT_BROADCAST);
}

/* Where nothing comes, Out is what this worker had. */
static fl_status c_reduce_sum_run(fl_op_ctx *c)
{
    if (!c->resumed)
        fl_share_copy(c, fl_out_t(c, OUT), fl_in_t(c, X));
    return run_rooted(c, FL_COLLECT_REDUCE);
}

static fl_status c_allgather_run(fl_op_ctx *c)
{
    return run_ranked(c, FL_COLLECT_ALLGATHER);
}

static fl_status c_reducescatter_run(fl_op_ctx *c)
{
    return run_ranked(c, FL_COLLECT_REDUCESCATTER);
}

static fl_status barrier_run(fl_op_ctx *c)
{
    if (c->resumed)
        return answer(c);
    fl_share_copy(c, fl_out_t(c, OUT), fl_in_t(c, X));
    return run(c, FL_COLLECT_BARRIER, 0);
}

/* --- descriptors ---------------------------------------------------------- */

static const fl_op_case rooted_cases[] = {
    { .in = { "f32[33,7]" } },
    { .in = { "i64[6,1] below=10" }, .attrs = "{ring_id=3}" },
    { .in = { "f32[0,8]" }, .attrs = "{use_calc_stream=true}" },
};

static const fl_op_case ranked_cases[] = {
    { .in = { "f32[33,7]" }, .attrs = "{nranks=1}" },
    { .in = { "i32[6] below=10" }, .attrs = "{nranks=1, ring_id=3}" },
    { .in = { "f32[0,8]" }, .attrs = "{nranks=1, use_calc_stream=true}" },
};

#define X_TO_OUT .in = { { "X", FL_SLOT_NO_GRAD } }, .out = { { "Out", 0 } }

const fl_op fl_op_c_broadcast = {
    .name = "c_broadcast",
    .doc = "Out = X of worker root, on all workers; ring_id and "
           "use_calc_stream as in c_allreduce_sum",
    X_TO_OUT,
    .attrs = { FL_COLLECT_ATTRS, { "root", FL_ATTR_INT, "0" } },
    .flags = FL_COLLECT_FLAGS,
    .infer = same_infer,
    .run = c_broadcast_run,
    .cases = rooted_cases,
    .n_cases = FL_LEN(rooted_cases),
};

const fl_op fl_op_c_reduce_sum = {
    .name = "c_reduce_sum",
    .doc = "Out = on worker root_id the sum of X over all workers, on others "
           "X; ring_id and use_calc_stream as in c_allreduce_sum",
    X_TO_OUT,
    .attrs = { FL_COLLECT_ATTRS, { "root_id", FL_ATTR_INT, "0" } },
    .flags = FL_COLLECT_FLAGS,
    .infer = same_infer,
    .run = c_reduce_sum_run,
    .cases = rooted_cases,
    .n_cases = FL_LEN(rooted_cases),
};

const fl_op fl_op_c_allgather = {
    .name = "c_allgather",
    .doc = "Out = X of all nranks workers, one behind the other in the order "
           "of ranks; ring_id and use_calc_stream as in c_allreduce_sum",
    X_TO_OUT,
    .attrs = { FL_COLLECT_ATTRS, { "nranks", FL_ATTR_INT, "1" } },
    .flags = FL_COLLECT_FLAGS,
    .infer = gather_infer,
    .run = c_allgather_run,
    .cases = ranked_cases,
    .n_cases = FL_LEN(ranked_cases),
};

const fl_op fl_op_c_reducescatter = {
    .name = "c_reducescatter",
    .doc = "Out = of the sum of X over all nranks workers the rows of this "
           "one, which are as many for each; ring_id and use_calc_stream as in "
           "c_allreduce_sum",
    X_TO_OUT,
    .attrs = { FL_COLLECT_ATTRS, { "nranks", FL_ATTR_INT, "1" } },
    .flags = FL_COLLECT_FLAGS,
    .infer = scatter_infer,
    .run = c_reducescatter_run,
    .cases = ranked_cases,
    .n_cases = FL_LEN(ranked_cases),
};

static const fl_op_case barrier_cases[] = {
    { .in = { "f32[33,7]" } },
    { .in = { "i64[6,1] below=10" }, .attrs = "{ring_id=3}" },
    { .in = { "f32[0,8]" } },
};

const fl_op fl_op_barrier = {
    .name = "barrier",
    .doc = "Out = X, when all workers have come here",
    X_TO_OUT,
    .attrs = { FL_COLLECT_ATTRS },
    .flags = FL_COLLECT_FLAGS,
    .infer = same_infer,
    .run = barrier_run,
    .cases = barrier_cases,
    .n_cases = FL_LEN(barrier_cases),
};
