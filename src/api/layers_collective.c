/* layers_collective.c - what all workers run together. */
#include "api/layer.h"
#include "base/args.h"
#include "flotilla/layers.h"

/* What a layer says beside its options: `number` is the attribute of that name,
   where there is one. */
typedef struct what {
    const char *op, *number_name;
    int64_t number;
} what;

static fl_var *emit(fl_var *x, const what *w,
                    const fl_layers_collective_args *a)
{
    fl_layer l;

    if (!fl_layer_begin(&l, x, w->op, a->name))
        return NULL;
    fl_layer_in(&l, "X", x);
    fl_layer_int(&l, "ring_id", a->ring_id);
    fl_layer_bool(&l, "use_calc_stream", a->use_calc_stream);
    if (w->number_name)
        fl_layer_int(&l, w->number_name, w->number);
    return fl_layer_emit(&l, w->op, "Out");
}

/* A root where none is used would be accepted and ignored. */
static fl_status check_no_root(const char *layer,
                               const fl_layers_collective_args *a)
{
    if (a->root)
        FL_FAIL(FL_ERR_INVAL,
                "%s: root=%d, but no worker is more than the others here",
                layer, a->root);
    return FL_OK;
}

fl_var *fl_layers_c_allreduce_with(fl_var *x, const char *op,
                                   const fl_layers_collective_args *args)
{
    static const char *const names[][2] = { { "sum", "c_allreduce_sum" },
                                            { "max", "c_allreduce_max" },
                                            { "min", "c_allreduce_min" },
                                            { "prod", "c_allreduce_prod" } };
    fl_layers_collective_args a;

    if (FL_ARGS_READ(fl_layers_collective_args, &a, args) ||
        check_no_root("c_allreduce", &a))
        return NULL;
    for (size_t i = 0; op && i < FL_LEN(names); i++)
        if (!strcmp(names[i][0], op))
            return emit(x, &(what){ .op = names[i][1] }, &a);
    (void)fl_err_set(FL_ERR_INVAL,
                     "c_allreduce: '%s' is none of sum, max, min and prod",
                     op ? op : "");
    return NULL;
}

fl_var *fl_layers_c_broadcast_with(fl_var *x,
                                   const fl_layers_collective_args *args)
{
    fl_layers_collective_args a;

    if (FL_ARGS_READ(fl_layers_collective_args, &a, args))
        return NULL;
    return emit(x, &(what){ "c_broadcast", "root", a.root }, &a);
}

fl_var *fl_layers_c_reduce_sum_with(fl_var *x,
                                    const fl_layers_collective_args *args)
{
    fl_layers_collective_args a;

    if (FL_ARGS_READ(fl_layers_collective_args, &a, args))
        return NULL;
    return emit(x, &(what){ "c_reduce_sum", "root_id", a.root }, &a);
}

fl_var *fl_layers_c_allgather_with(fl_var *x, int nranks,
                                   const fl_layers_collective_args *args)
{
    fl_layers_collective_args a;

    if (FL_ARGS_READ(fl_layers_collective_args, &a, args) ||
        check_no_root("c_allgather", &a))
        return NULL;
    return emit(x, &(what){ "c_allgather", "nranks", nranks }, &a);
}

fl_var *fl_layers_c_reducescatter_with(fl_var *x, int nranks,
                                       const fl_layers_collective_args *args)
{
    fl_layers_collective_args a;

    if (FL_ARGS_READ(fl_layers_collective_args, &a, args) ||
        check_no_root("c_reducescatter", &a))
        return NULL;
    return emit(x, &(what){ "c_reducescatter", "nranks", nranks }, &a);
}

fl_var *fl_layers_barrier_with(fl_var *x, const fl_layers_collective_args *args)
{
    fl_layers_collective_args a;

    if (FL_ARGS_READ(fl_layers_collective_args, &a, args) ||
        check_no_root("barrier", &a))
        return NULL;
    return emit(x, &(what){ .op = "barrier" }, &a);
}
