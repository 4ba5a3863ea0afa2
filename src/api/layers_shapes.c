/* layers_shapes.c - layers about shapes and places. */
#include "api/layer.h"
#include "base/args.h"
#include "flotilla/layers.h"

/* --- one input, one output ------------------------------------------------ */

static fl_var *with_ints(const char *op, fl_var *x, const char *attr,
                         const int64_t *v, size_t n)
{
    fl_layer l;

    if (!fl_layer_begin(&l, x, op, NULL))
        return NULL;
    fl_layer_in(&l, "X", x);
    fl_layer_ints(&l, attr, v, n);
    return fl_layer_emit(&l, op, "Out");
}

static fl_var *with_int(const char *op, fl_var *x, const char *attr, int64_t v)
{
    fl_layer l;

    if (!fl_layer_begin(&l, x, op, NULL))
        return NULL;
    fl_layer_in(&l, "X", x);
    fl_layer_int(&l, attr, v);
    return fl_layer_emit(&l, op, "Out");
}

static fl_var *from_slot(const char *op, const char *slot, fl_var *x)
{
    fl_layer l;

    if (!fl_layer_begin(&l, x, op, NULL))
        return NULL;
    fl_layer_in(&l, slot, x);
    return fl_layer_emit(&l, op, "Out");
}

fl_var *fl_layers_shape(fl_var *x)
{
    return from_slot("shape", "Input", x);
}

fl_var *fl_layers_where_index(fl_var *condition)
{
    return from_slot("where_index", "Condition", condition);
}

fl_var *fl_layers_merge_selected_rows(fl_var *x)
{
    return from_slot("merge_selected_rows", "X", x);
}

fl_var *fl_layers_get_tensor_from_selected_rows(fl_var *x)
{
    return from_slot("get_tensor_from_selected_rows", "X", x);
}

fl_var *fl_layers_transpose(fl_var *x, int rank, const int64_t *order)
{
    return with_ints("transpose2", x, "axis", order, (size_t)rank);
}

fl_var *fl_layers_squeeze(fl_var *x, size_t n, const int64_t *axes)
{
    return with_ints("squeeze2", x, "axes", axes, n);
}

fl_var *fl_layers_unsqueeze(fl_var *x, size_t n, const int64_t *axes)
{
    return with_ints("unsqueeze2", x, "axes", axes, n);
}

fl_var *fl_layers_expand(fl_var *x, int rank, const int64_t *times)
{
    return with_ints("expand", x, "expand_times", times, (size_t)rank);
}

fl_var *fl_layers_flatten(fl_var *x, int axis)
{
    return with_int("flatten2", x, "axis", axis);
}

fl_var *fl_layers_one_hot(fl_var *ids, int64_t depth)
{
    return with_int("one_hot", ids, "depth", depth);
}

fl_var *fl_layers_one_hot_v2(fl_var *ids, int64_t depth)
{
    return with_int("one_hot_v2", ids, "depth", depth);
}

fl_var *fl_layers_arg_max(fl_var *x, int axis)
{
    return with_int("arg_max", x, "axis", axis);
}

fl_var *fl_layers_arg_min(fl_var *x, int axis)
{
    return with_int("arg_min", x, "axis", axis);
}

fl_var *fl_layers_fill_any_like(fl_var *x, double value)
{
    fl_layer l;

    if (!fl_layer_begin(&l, x, "fill_any_like", NULL))
        return NULL;
    fl_layer_in(&l, "X", x);
    fl_layer_float(&l, "value", value);
    return fl_layer_emit(&l, "fill_any_like", "Out");
}

fl_var *fl_layers_increment(fl_var *x, double step)
{
    fl_layer l;

    if (!fl_layer_begin(&l, x, "increment", NULL))
        return NULL;
    fl_layer_in(&l, "X", x);
    fl_layer_out(&l, "Out", x->name);
    fl_layer_float(&l, "step", step);
    return fl_layer_emit(&l, "increment", NULL);
}

/* --- several inputs ------------------------------------------------------- */

/* A variable in each of n slots, and one output. */
static fl_var *from_slots(const char *op, size_t n, const char *const *slots,
                          fl_var *const *vars)
{
    fl_layer l;

    for (size_t i = 0; i < n; i++)
        if (!vars[i])
            return NULL;
    if (!fl_layer_begin(&l, vars[0], op, NULL))
        return NULL;
    for (size_t i = 0; i < n; i++)
        fl_layer_in(&l, slots[i], vars[i]);
    return fl_layer_emit(&l, op, "Out");
}

#define SLOTS(...) ((const char *[]){ __VA_ARGS__ })
#define VARS(...) ((fl_var *[]){ __VA_ARGS__ })

fl_var *fl_layers_expand_as(fl_var *x, fl_var *target)
{
    return from_slots("expand_as", 2, SLOTS("X", "target_tensor"),
                      VARS(x, target));
}

fl_var *fl_layers_gather(fl_var *x, fl_var *index)
{
    return from_slots("gather", 2, SLOTS("X", "Index"), VARS(x, index));
}

fl_var *fl_layers_gather_nd(fl_var *x, fl_var *index)
{
    return from_slots("gather_nd", 2, SLOTS("X", "Index"), VARS(x, index));
}

fl_var *fl_layers_index_sample(fl_var *x, fl_var *index)
{
    return from_slots("index_sample", 2, SLOTS("X", "Index"), VARS(x, index));
}

fl_var *fl_layers_range(fl_var *start, fl_var *end, fl_var *step)
{
    return from_slots("range", 3, SLOTS("Start", "End", "Step"),
                      VARS(start, end, step));
}

fl_var *fl_layers_where(fl_var *condition, fl_var *x, fl_var *y)
{
    return from_slots("where", 3, SLOTS("Condition", "X", "Y"),
                      VARS(condition, x, y));
}

fl_var *fl_layers_scatter(fl_var *x, fl_var *ids, fl_var *updates,
                          bool overwrite)
{
    fl_layer l;

    if (!ids || !updates || !fl_layer_begin(&l, x, "scatter", NULL))
        return NULL;
    fl_layer_in(&l, "X", x);
    fl_layer_in(&l, "Ids", ids);
    fl_layer_in(&l, "Updates", updates);
    fl_layer_bool(&l, "overwrite", overwrite);
    return fl_layer_emit(&l, "scatter", "Out");
}

fl_var *fl_layers_stack(fl_var *const *inputs, size_t n, int axis)
{
    fl_layer l;

    if (!n || !fl_layer_begin(&l, inputs[0], "stack", NULL))
        return NULL;
    for (size_t i = 0; i < n; i++)
        fl_layer_in(&l, "X", inputs[i]);
    fl_layer_int(&l, "axis", axis);
    return fl_layer_emit(&l, "stack", "Y");
}

/* --- several outputs ------------------------------------------------------ */

/* A further output, which the caller may want to know. */
typedef struct extra {
    const char *slot;
    fl_var **out;
    const char *name;
} extra;

/* Emits the operator with Out first; on success gives out what is wanted. */
static fl_var *emit_with(fl_layer *l, const char *op, const char *first,
                         extra *more, size_t n)
{
    fl_block *b = l->block;
    fl_var *v;

    fl_layer_out(l, first, fl_layer_tmp(l));
    for (size_t i = 0; i < n; i++) {
        more[i].name = fl_layer_tmp(l);
        fl_layer_out(l, more[i].slot, more[i].name);
    }
    v = fl_layer_emit(l, op, NULL);
    for (size_t i = 0; v && i < n; i++)
        if (more[i].out)
            *more[i].out = fl_block_find_var(b, more[i].name);
    return v;
}

fl_var *fl_layers_argsort(fl_var *x, int axis, bool descending,
                          fl_var **indices)
{
    fl_layer l;

    if (!fl_layer_begin(&l, x, "argsort", NULL))
        return NULL;
    fl_layer_in(&l, "X", x);
    fl_layer_int(&l, "axis", axis);
    fl_layer_bool(&l, "descending", descending);
    return emit_with(&l, "argsort", "Out", &(extra){ "Indices", indices, NULL },
                     1);
}

fl_var *fl_layers_shuffle_batch(fl_var *x, int64_t seed, fl_var **order)
{
    fl_layer l;
    fl_var *first;

    if (!fl_layer_begin(&l, x, "shuffle_batch", NULL))
        return NULL;
    fl_layer_ints(&l, "shape", (int64_t[]){ 1 }, 1);
    fl_layer_str(&l, "dtype", fl_dtype_text(FL_DTYPE_I64));
    fl_layer_float(&l, "value", (double)seed);
    first = fl_layer_emit(&l, "fill_constant", "Out");
    if (!first)
        return NULL;
    fl_layer_in(&l, "X", x);
    fl_layer_in(&l, "Seed", first);
    return emit_with(&l, "shuffle_batch", "Out",
                     &(extra){ "ShuffleIdx", order, NULL }, 1);
}

fl_var *fl_layers_tdm_child(fl_var *x, fl_var *tree_info, int64_t child_nums,
                            fl_var **leaf_mask)
{
    fl_layer l;

    if (!tree_info || !fl_layer_begin(&l, x, "tdm_child", NULL))
        return NULL;
    fl_layer_in(&l, "X", x);
    fl_layer_in(&l, "TreeInfo", tree_info);
    fl_layer_int(&l, "child_nums", child_nums);
    fl_layer_str(&l, "dtype", fl_dtype_text(x->meta.dtype));
    return emit_with(&l, "tdm_child", "Child",
                     &(extra){ "LeafMask", leaf_mask, NULL }, 1);
}

fl_var *fl_layers_tdm_sampler_with(fl_var *x, fl_var *travel, fl_var *layer,
                                   const fl_layers_tdm_sampler_args *args)
{
    fl_layers_tdm_sampler_args a;
    fl_layer l;

    if (FL_ARGS_READ(fl_layers_tdm_sampler_args, &a, args) || !travel ||
        !layer || !fl_layer_begin(&l, x, "tdm_sampler", NULL))
        return NULL;
    fl_layer_in(&l, "X", x);
    fl_layer_in(&l, "Travel", travel);
    fl_layer_in(&l, "Layer", layer);
    fl_layer_bool(&l, "output_positive", !a.no_positive);
    fl_layer_ints(&l, "neg_samples_num_list", a.neg_samples_num_list,
                  a.n_layers);
    fl_layer_ints(&l, "layer_offset_lod", a.layer_offset_lod, a.n_layers + 1);
    fl_layer_int(&l, "seed", a.seed);
    fl_layer_str(&l, "dtype", fl_dtype_text(a.dtype ? a.dtype : FL_DTYPE_I64));
    return emit_with(
        &l, "tdm_sampler", "Out",
        (extra[]){ { "Labels", a.labels, NULL }, { "Mask", a.mask, NULL } }, 2);
}

/* --- numbers that the batch decides --------------------------------------- */

static bool any_var(const fl_dim *dims, size_t n)
{
    for (size_t i = 0; i < n; i++)
        if (dims[i].var)
            return true;
    return false;
}

/* A variable of one number, where a list needs one. */
static fl_var *number(fl_layer *l, int64_t v)
{
    fl_layer one;

    fl_layer_begin_in(&one, l->ctx, l->block, "fill_constant", NULL);
    fl_layer_ints(&one, "shape", (int64_t[]){ 1 }, 1);
    fl_layer_str(&one, "dtype", fl_dtype_text(FL_DTYPE_I64));
    fl_layer_float(&one, "value", (double)v);
    return fl_layer_emit(&one, "fill_constant", "Out");
}

/* The attribute holds what is known, -1 for the rest; with any variable among
   them, the slot takes them all. */
static void add_dims(fl_layer *l, const char *slot, const char *attr,
                     const fl_dim *dims, size_t n)
{
    fl_arena *arena = &l->block->program->arena;
    int64_t *known = fl_arena_alloc(arena, (n + 1) * sizeof(*known));
    bool listed = any_var(dims, n);

    for (size_t i = 0; i < n; i++) {
        known[i] = dims[i].var ? -1 : dims[i].size;
        if (listed)
            fl_layer_in(l, slot,
                        dims[i].var ? dims[i].var : number(l, dims[i].size));
    }
    fl_layer_ints(l, attr, known, n);
}

fl_var *fl_layers_fill_constant_dims(fl_ctx *c, fl_dtype dtype, int rank,
                                     const fl_dim *dims, double value)
{
    fl_layer l;

    fl_layer_begin_in(&l, c, fl_program_main(fl_ctx_pair(c).main),
                      "fill_constant", NULL);
    add_dims(&l, "ShapeTensorList", "shape", dims, (size_t)rank);
    fl_layer_str(&l, "dtype", fl_dtype_text(dtype));
    fl_layer_float(&l, "value", value);
    return fl_layer_emit(&l, "fill_constant", "Out");
}

fl_var *fl_layers_reshape_dims(fl_var *x, int rank, const fl_dim *dims)
{
    fl_layer l;

    if (!fl_layer_begin(&l, x, "reshape2", NULL))
        return NULL;
    fl_layer_in(&l, "X", x);
    add_dims(&l, "ShapeTensor", "shape", dims, (size_t)rank);
    return fl_layer_emit(&l, "reshape2", "Out");
}

fl_var *fl_layers_slice_dims(fl_var *x, size_t n, const int64_t *axes,
                             const fl_dim *starts, const fl_dim *ends)
{
    fl_layer l;

    if (!fl_layer_begin(&l, x, "slice", NULL))
        return NULL;
    fl_layer_in(&l, "Input", x);
    fl_layer_ints(&l, "axes", axes, n);
    add_dims(&l, "StartsTensorList", "starts", starts, n);
    add_dims(&l, "EndsTensorList", "ends", ends, n);
    return fl_layer_emit(&l, "slice", "Out");
}

fl_var *fl_layers_slice(fl_var *x, size_t n, const int64_t *axes,
                        const int64_t *starts, const int64_t *ends)
{
    fl_layer l;

    if (!fl_layer_begin(&l, x, "slice", NULL))
        return NULL;
    fl_layer_in(&l, "Input", x);
    fl_layer_ints(&l, "axes", axes, n);
    fl_layer_ints(&l, "starts", starts, n);
    fl_layer_ints(&l, "ends", ends, n);
    return fl_layer_emit(&l, "slice", "Out");
}

/* --- a block on a condition ----------------------------------------------- */

/* Variables of outer blocks, each once. */
typedef struct outer {
    const fl_block *block;
    fl_map seen;
    FL_VEC(const fl_var *) vars;
} outer;

static void note_outer(outer *o, const fl_args *args, int n_slots)
{
    for (int s = 0; s < n_slots; s++)
        for (int i = 0; i < args[s].n; i++) {
            const fl_var *v = args[s].vars[i];

            if (!v || v->block == o->block || fl_map_find(&o->seen, v->name))
                continue;
            fl_map_put(&o->seen, v->name, o);
            fl_vec_push(&o->vars, v);
        }
}

static void outer_release(outer *o)
{
    fl_map_release(&o->seen);
    fl_vec_release(&o->vars);
}

fl_status fl_layers_conditional_block(fl_var *condition, fl_block *block)
{
    outer read = { .block = block }, written = { .block = block };
    fl_layer l;

    if (!fl_layer_begin(&l, condition, "conditional_block", NULL))
        return FL_ERR_INVAL;
    for (const fl_op_node *n = block->first; n; n = n->next) {
        note_outer(&read, n->in, fl_node_n_in(n));
        note_outer(&written, n->out, fl_node_n_out(n));
    }
    fl_layer_in(&l, "Cond", condition);
    for (size_t i = 0; i < read.vars.len; i++)
        fl_layer_in(&l, "Input", read.vars.data[i]);
    for (size_t i = 0; i < written.vars.len; i++)
        fl_layer_out(&l, "Out", written.vars.data[i]->name);
    outer_release(&read);
    outer_release(&written);
    fl_layer_out(&l, "Scope", fl_layer_tmp(&l));
    fl_layer_int(&l, "sub_block", block->index);
    fl_layer_bool(&l, "is_scalar_condition", true);
    return fl_layer_emit(&l, "conditional_block", NULL) ? FL_OK : FL_ERR_INVAL;
}

/* --- without an input ----------------------------------------------------- */

fl_var *fl_layers_seed(fl_ctx *c, int64_t seed)
{
    fl_layer l;

    fl_layer_begin_in(&l, c, fl_program_main(fl_ctx_pair(c).main), "seed",
                      NULL);
    fl_layer_int(&l, "seed", seed);
    return fl_layer_emit(&l, "seed", "Out");
}

/* Integers are given as doubles: exact up to 2^53. */
static void add_values(fl_layer *l, fl_dtype dtype, const double *values,
                       size_t n)
{
    int64_t *ints;

    if (fl_dtype_is_float(dtype)) {
        fl_layer_floats(l, "fp32_values", values, n);
        return;
    }
    ints = fl_arena_alloc(&l->block->program->arena, (n + 1) * sizeof(*ints));
    for (size_t i = 0; i < n; i++)
        ints[i] = (int64_t)values[i];
    fl_layer_ints(l,
                  dtype == FL_DTYPE_I32    ? "int32_values"
                  : dtype == FL_DTYPE_BOOL ? "bool_values"
                                           : "int64_values",
                  ints, n);
}

fl_var *fl_layers_assign_value(fl_ctx *c, fl_dtype dtype, int rank,
                               const int64_t *dims, const double *values)
{
    fl_shape shape = fl_shape_of(rank, dims);
    int64_t n = fl_shape_numel(&shape);
    fl_layer l;

    fl_layer_begin_in(&l, c, fl_program_main(fl_ctx_pair(c).main),
                      "assign_value", NULL);
    fl_layer_ints(&l, "shape", dims, (size_t)rank);
    fl_layer_str(&l, "dtype", fl_dtype_text(dtype));
    add_values(&l, dtype, values, n < 0 ? 0 : (size_t)n);
    return fl_layer_emit(&l, "assign_value", "Out");
}
