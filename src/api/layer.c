/* layer.c - appending operators the way layers do. */
#include "api/layer.h"

#include "optim/calls.h"

void fl_layer_begin_in(fl_layer *l, fl_ctx *c, fl_block *b, const char *kind,
                       const char *name)
{
    *l = (fl_layer){ .ctx = c, .block = b };
    l->name = name ? name : fl_ctx_name(c, b->program, kind);
}

bool fl_layer_begin(fl_layer *l, const fl_var *x, const char *kind,
                    const char *name)
{
    if (!x)
        return false;
    fl_layer_begin_in(l, fl_ctx_of(x), x->block, kind, name);
    return true;
}

void fl_layer_in(fl_layer *l, const char *slot, const fl_var *v)
{
    l->lacks_input |= !v;
    fl_op_builder_in(&l->op, slot, v);
}

void fl_layer_shape(fl_layer *l, const char *name, const fl_shape *s)
{
    fl_layer_ints(l, name, s->dim, (size_t)s->rank);
}

const char *fl_layer_tmp(fl_layer *l)
{
    return fl_arena_printf(&l->block->program->arena, "%s.tmp_%d", l->name,
                           l->n_tmp++);
}

void fl_layer_drop(fl_layer *l)
{
    fl_op_builder_release(&l->op);
    l->lacks_input = false;
}

fl_var *fl_layer_emit(fl_layer *l, const char *type, const char *out_slot)
{
    const char *out = out_slot ? fl_layer_tmp(l) : NULL;
    fl_status st;

    if (out)
        fl_layer_out(l, out_slot, out);
    else if (l->op.out.len)
        out = l->op.out.data[0].var;
    if (l->lacks_input) {
        fl_layer_drop(l);
        return NULL;
    }
    l->op.type = type;
    l->op.role = l->role;
    st = fl_op_builder_put(&l->op, l->block, NULL, NULL);
    return st || !out ? NULL : fl_block_find_var(l->block, out);
}

/* --- first values -------------------------------------------------------- */

/* The startup operator that gives a variable its first value. */
static fl_status emit_init(fl_ctx *c, const fl_var *v, const fl_init *init)
{
    static const char *const types[] = { "fill_constant", "uniform_random",
                                         "gaussian_random",
                                         "truncated_gaussian_random" };
    static const char *const first[] = { "value", "min", "mean", "mean" };
    static const char *const second[] = { NULL, "max", "std", "std" };
    fl_layer l;

    fl_layer_begin_in(&l, c, v->block, NULL, v->name);
    fl_layer_out(&l, "Out", v->name);
    fl_layer_shape(&l, "shape", &v->meta.shape);
    fl_layer_str(&l, "dtype", fl_dtype_text(v->meta.dtype));
    fl_layer_float(&l, first[init->kind], init->a);
    if (second[init->kind])
        fl_layer_float(&l, second[init->kind], init->b);
    if (init->kind != FL_INIT_CONSTANT)
        fl_layer_int(&l, "seed", (int64_t)init->stream);
    return fl_layer_emit(&l, types[init->kind], NULL) ? FL_OK : FL_ERR_INVAL;
}

/* The same variable in the startup block, with the operator that gives it its
   first value. */
static fl_status add_first(fl_ctx *c, fl_block *startup, const fl_var *v,
                           const fl_init *init)
{
    unsigned flags = v->flags & ~(unsigned)FL_VAR_STOP_GRAD;
    fl_var *first;

    FL_TRY(fl_block_add_var(startup, v->name, &v->meta, flags, &first));
    return emit_init(c, first, init);
}

fl_status fl_layer_first_value(fl_ctx *c, const fl_var *v)
{
    fl_block *startup;
    fl_init init;

    FL_TRY(fl_ctx_startup(c, v->block, &startup));
    if (fl_block_find_var(startup, v->name))
        return FL_OK;
    FL_TRY(fl_init_parse(v->init, &v->meta.shape, &init));
    return add_first(c, startup, v, &init);
}

fl_var *fl_layer_state(fl_ctx *c, fl_block *b, const char *name, fl_dtype dtype,
                       const fl_shape *shape, double value)
{
    fl_tensor meta = { .dtype = dtype, .shape = *shape };
    fl_init init = { FL_INIT_CONSTANT, value, 0, 0 };
    fl_block *startup;
    fl_var *v;

    if (fl_ctx_startup(c, b, &startup) ||
        fl_block_add_var(b, name, &meta, FL_VAR_PERSIST | FL_VAR_STOP_GRAD,
                         &v) ||
        add_first(c, startup, v, &init))
        return NULL;
    return v;
}

static fl_var *shared_param(fl_var *v, fl_dtype dtype, const fl_shape *shape)
{
    char a[FL_SHAPE_TEXT_MAX], b[FL_SHAPE_TEXT_MAX];

    if (v->flags & FL_VAR_TABLE) {
        (void)fl_err_set(FL_ERR_INVAL,
                         "parameter %s is a table; layers that share it say "
                         "is_distributed too",
                         v->name);
        return NULL;
    }
    if (v->meta.dtype == dtype && fl_shape_equal(&v->meta.shape, shape))
        return v;
    (void)fl_err_set(
        FL_ERR_INVAL, "parameter %s is %s%s, but this layer wants %s%s",
        v->name, fl_dtype_text(v->meta.dtype), fl_shape_text(&v->meta.shape, a),
        fl_dtype_text(dtype), fl_shape_text(shape, b));
    return NULL;
}

const char *fl_layer_param_name(fl_layer *l, const fl_param_attr *attr,
                                const char *suffix)
{
    fl_program *p = l->block->program;

    if (attr->name)
        return attr->name;
    return fl_ctx_name(l->ctx, p,
                       fl_arena_printf(&p->arena, "%s.%s", l->name, suffix));
}

fl_status fl_layer_add_param(fl_layer *l, const fl_param_attr *attr,
                             const char *name, const fl_tensor *meta,
                             unsigned flags, fl_var **out)
{
    fl_var_words words = { attr->init, attr->regularizer, attr->clip };
    fl_status st;
    fl_var *v;

    flags |= FL_VAR_PARAM | (attr->frozen ? FL_VAR_FROZEN : 0);
    FL_TRY(fl_block_add_var(l->block, name, meta, flags, &v));
    v->lr = attr->learning_rate ? attr->learning_rate : 1;
    st = fl_var_set_words(v, &words);
    if (st)
        fl_block_remove_var(l->block, v);
    else
        *out = v;
    return st;
}

fl_var *fl_layer_param(fl_layer *l, const fl_param_attr *attr,
                       const char *suffix, fl_dtype dtype,
                       const fl_shape *shape, const char *default_init)
{
    fl_tensor meta = { .dtype = dtype, .shape = *shape };
    fl_param_attr a = *attr;
    const char *name = fl_layer_param_name(l, attr, suffix);
    fl_var *v = fl_block_find_var(l->block, name);
    fl_block *startup;
    fl_init init;

    if (v)
        return shared_param(v, dtype, shape);
    if (!a.init)
        a.init = default_init;
    if (fl_ctx_startup(l->ctx, l->block, &startup) ||
        fl_init_parse(a.init, shape, &init) ||
        fl_layer_add_param(l, &a, name, &meta, 0, &v) ||
        add_first(l->ctx, startup, v, &init))
        return NULL;
    return v;
}

/* --- behind a product ---------------------------------------------------- */

fl_var *fl_layer_bias(fl_layer *l, fl_var *x, int64_t size, int axis,
                      const fl_param_attr *attr)
{
    fl_shape shape = { .rank = 1, .dim = { size } };
    fl_var *b;

    if (!x)
        return NULL;
    b = fl_layer_param(l, attr, "b", x->meta.dtype, &shape, "constant(0)");
    if (!b)
        return NULL;
    fl_layer_in(l, "X", x);
    fl_layer_in(l, "Y", b);
    fl_layer_int(l, "axis", axis);
    return fl_layer_emit(l, "elementwise_add", "Out");
}

fl_var *fl_layer_act(fl_layer *l, fl_var *x, const char *act)
{
    if (!act || !x)
        return x;
    fl_layer_in(l, "X", x);
    return fl_layer_emit(l, act, "Out");
}
