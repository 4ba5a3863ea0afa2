/* dense.c - a dense block: a scope of its own, and a program over it, which is
 * checked and compiled when the block is made, so that what is wrong with it is
 * said then.
 */
#include "ps/store/dense.h"

#include <inttypes.h>

#include "base/buf.h"
#include "base/thread.h"
#include "exec/executor.h"
#include "ps/sum.h"

struct fl_dense {
    char *name;
    uint64_t n;
    fl_program *program;
    fl_mutex mu;
    fl_scope scope;       /* with the rest, guarded by mu */
    fl_executor executor; /* with no owner and no trace */
    fl_unit *update;
    fl_feed feed;     /* the gradient: all but its data */
    fl_buf decoded;   /* a gradient that came coded */
    fl_tensor values; /* view into the scope */
    uint64_t first_hash;
};

/* --- what a program must be like ------------------------------------------ */

static fl_status check_parts(const fl_program *p)
{
    for (const fl_op_node *n = fl_program_main(p)->first; n; n = n->next)
        if (n->def->flags & (FL_OP_EFFECT | FL_OP_WAITS))
            FL_FAIL(FL_ERR_INVAL,
                    "op %s acts outside of the program, which the update of a "
                    "block must not",
                    n->def->name);
    for (const fl_var *v = fl_program_main(p)->first_var; v; v = v->next)
        if (v->flags & FL_VAR_TABLE)
            FL_FAIL(FL_ERR_INVAL,
                    "variable %s is a table, which the update of a block "
                    "cannot have",
                    v->name);
    return FL_OK;
}

/* The one variable that is fed, called NAME@GRAD. */
static fl_status find_gradient(const fl_program *p, const fl_var **out)
{
    const size_t suffix = strlen(FL_GRAD_SUFFIX);
    const fl_var *found = NULL;

    for (const fl_var *v = fl_program_main(p)->first_var; v; v = v->next) {
        if (!(v->flags & FL_VAR_DATA))
            continue;
        if (found)
            FL_FAIL(FL_ERR_INVAL,
                    "the update of a block is fed %s and %s; it is fed one "
                    "gradient",
                    found->name, v->name);
        found = v;
    }
    if (!found)
        FL_FAIL(FL_ERR_INVAL,
                "the update of a block has no variable NAME" FL_GRAD_SUFFIX
                " with the word data");
    if (strlen(found->name) <= suffix ||
        strcmp(found->name + strlen(found->name) - suffix, FL_GRAD_SUFFIX))
        FL_FAIL(FL_ERR_INVAL,
                "the update of a block is fed %s; what is fed is called "
                "NAME" FL_GRAD_SUFFIX,
                found->name);
    *out = found;
    return FL_OK;
}

/* The block itself, with as many floats as its gradient. */
static fl_status check_values(const fl_program *p, const char *name,
                              const fl_var *grad)
{
    const fl_var *v = fl_block_find_var(fl_program_main(p), name);
    char a[FL_SHAPE_TEXT_MAX], b[FL_SHAPE_TEXT_MAX];

    if (!v || !(v->flags & FL_VAR_PERSIST))
        FL_FAIL(FL_ERR_INVAL,
                "the program has no variable %s that is persistent", name);
    if (v->meta.dtype != FL_DTYPE_F32 || grad->meta.dtype != FL_DTYPE_F32 ||
        v->meta.kind != FL_KIND_DENSE || grad->meta.kind != FL_KIND_DENSE ||
        fl_shape_numel(&v->meta.shape) < 1 ||
        fl_shape_numel(&v->meta.shape) != fl_shape_numel(&grad->meta.shape))
        FL_FAIL(FL_ERR_INVAL,
                "variable %s is %s%s and its gradient %s%s; both are f32, with "
                "as many numbers, which are known and at least one",
                name, fl_dtype_text(v->meta.dtype),
                fl_shape_text(&v->meta.shape, a),
                fl_dtype_text(grad->meta.dtype),
                fl_shape_text(&grad->meta.shape, b));
    return FL_OK;
}

static fl_status check_program(fl_dense *d)
{
    const fl_var *grad;

    FL_TRY(check_parts(d->program));
    FL_TRY(find_gradient(d->program, &grad));
    d->name = fl_strdup(grad->name);
    d->name[strlen(d->name) - strlen(FL_GRAD_SUFFIX)] = '\0';
    FL_TRY(fl_err_ctx(check_values(d->program, d->name, grad), "block %s",
                      d->name));
    d->n = (uint64_t)fl_shape_numel(&grad->meta.shape);
    d->feed = (fl_feed){ grad->name, grad->meta };
    return FL_OK;
}

/* --- making --------------------------------------------------------------- */

static fl_status take_value(fl_dense *d, const fl_var *v, fl_scope *from)
{
    char a[FL_SHAPE_TEXT_MAX], b[FL_SHAPE_TEXT_MAX];
    fl_tensor first, mine;
    size_t bytes;

    if (!fl_scope_find(from, v->name, &first))
        FL_FAIL(FL_ERR_NOTFOUND,
                "variable %s has no first value; run the server's startup "
                "program before it serves",
                v->name);
    if (first.dtype != v->meta.dtype ||
        !fl_shape_equal(&first.shape, &v->meta.shape))
        FL_FAIL(FL_ERR_INVAL,
                "variable %s has the first value %s%s, but the update wants "
                "%s%s",
                v->name, fl_dtype_text(first.dtype),
                fl_shape_text(&first.shape, a), fl_dtype_text(v->meta.dtype),
                fl_shape_text(&v->meta.shape, b));
    FL_TRY(fl_scope_reserve(&d->scope, v->name, &v->meta, &mine));
    FL_TRY(fl_tensor_bytes(&mine, &bytes));
    memcpy(mine.data, first.data, bytes);
    if (!strcmp(v->name, d->name))
        d->values = mine;
    return FL_OK;
}

static fl_status take_values(fl_dense *d, fl_scope *from)
{
    for (const fl_var *v = fl_program_main(d->program)->first_var; v;
         v = v->next)
        if (v->flags & FL_VAR_PERSIST)
            FL_TRY(take_value(d, v, from));
    return FL_OK;
}

static size_t value_bytes(const fl_scope_var *v)
{
    return (size_t)fl_tensor_numel(&v->value) * fl_dtype_bytes(v->value.dtype);
}

static uint64_t hash_scope(const fl_dense *d)
{
    uint64_t sum = 0;

    for (size_t i = 0; i < d->scope.vars.len; i++) {
        const fl_scope_var *v = d->scope.vars.data[i];

        sum +=
            fl_sum_bytes(fl_hash_str(v->name), v->value.data, value_bytes(v));
    }
    return sum;
}

/* One thread works on a block: servers have many requests under way. No passes:
   the update of one parameter has nothing to join, and a peer has written it,
   who could make them take long. */
static fl_status compile(fl_dense *d)
{
    const char *feeds[] = { d->feed.name };
    fl_unit_spec spec = {
        .program = d->program,
        .kind = FL_UNIT_ALONE,
        .n_runners = 1,
        .n_threads = 1,
        .feeds = feeds,
        .n_feeds = 1,
        .nominal_batch = 1,
    };

    return fl_executor_unit(&d->executor, &spec, &d->update);
}

static fl_status build(fl_dense *d, const fl_block *update, fl_scope *scope)
{
    FL_TRY(fl_block_copy(fl_program_main(d->program), update->first));
    FL_TRY(check_program(d));
    FL_TRY(fl_err_ctx(take_values(d, scope), "block %s", d->name));
    d->first_hash = hash_scope(d);
    return fl_err_ctx(compile(d), "block %s", d->name);
}

fl_status fl_dense_new(fl_dense **out, const fl_block *update, fl_scope *scope,
                       const fl_conf *conf)
{
    fl_dense *d = fl_alloc(sizeof(*d));
    fl_status st;

    d->program = fl_program_of(update->program->ops);
    d->program->seed = update->program->seed;
    fl_mutex_init(&d->mu);
    fl_scope_init(&d->scope);
    d->executor.options = (fl_exec_options){
        .check_nan_inf = conf->check_nan_inf,
        .slice_min_elements = conf->slice_min_elements,
        .pending_timeout_ms = conf->pending_timeout_ms,
        .scope = &d->scope,
    };
    st = build(d, update, scope);
    if (st) {
        fl_dense_free(d);
        return st;
    }
    *out = d;
    return FL_OK;
}

void fl_dense_free(fl_dense *d)
{
    if (!d)
        return;
    fl_executor_drop_units(&d->executor);
    fl_program_free(d->program);
    fl_scope_release(&d->scope);
    fl_buf_release(&d->decoded);
    fl_mutex_release(&d->mu);
    fl_free(d->name);
    fl_free(d);
}

const char *fl_dense_name(const fl_dense *d)
{
    return d->name;
}

uint64_t fl_dense_len(const fl_dense *d)
{
    return d->n;
}

/* --- using ---------------------------------------------------------------- */

/* Under mu: the gradient as floats. */
static fl_status decode(fl_dense *d, fl_codec codec, const void *grad,
                        const void **out)
{
    *out = grad;
    if (codec == FL_CODEC_F32)
        return FL_OK;
    if (!fl_buf_reserve(&d->decoded, (size_t)d->n * sizeof(float)))
        FL_FAIL(FL_ERR_NOMEM, "no memory for a gradient of %" PRIu64 " floats",
                d->n);
    fl_codec_decode(codec, grad, (size_t)d->n, d->decoded.data);
    *out = d->decoded.data;
    return FL_OK;
}

fl_status fl_dense_push(fl_dense *d, fl_codec codec, const void *grad,
                        uint64_t step)
{
    const void *floats;
    fl_status st;

    fl_lock(&d->mu);
    st = decode(d, codec, grad, &floats);
    if (!st) {
        d->feed.value.data = (void *)(uintptr_t)floats;
        atomic_store(&d->scope.step, step);
        st = fl_unit_run_alone(&d->executor, d->update, &d->feed);
    }
    fl_unlock(&d->mu);
    return fl_err_ctx(st, "block %s", d->name);
}

void fl_dense_pull(fl_dense *d, fl_codec codec, void *out)
{
    fl_lock_soon(&d->mu);
    fl_codec_encode(codec, d->values.data, (size_t)d->n, out);
    fl_unlock(&d->mu);
}

void fl_dense_assign(fl_dense *d, fl_codec codec, const void *values)
{
    fl_lock(&d->mu);
    fl_codec_decode(codec, values, (size_t)d->n, d->values.data);
    fl_unlock(&d->mu);
}

uint64_t fl_dense_bytes(fl_dense *d)
{
    uint64_t bytes = 0;

    fl_lock(&d->mu);
    for (size_t i = 0; i < d->scope.vars.len; i++)
        bytes += value_bytes(d->scope.vars.data[i]);
    fl_unlock(&d->mu);
    return bytes;
}

fl_status fl_dense_each(fl_dense *d,
                        fl_status (*fn)(void *arg, const char *name,
                                        const fl_tensor *value),
                        void *arg)
{
    fl_status st = FL_OK;

    fl_lock(&d->mu);
    for (size_t i = 0; i < d->scope.vars.len && !st; i++)
        st =
            fn(arg, d->scope.vars.data[i]->name, &d->scope.vars.data[i]->value);
    fl_unlock(&d->mu);
    return st;
}

uint64_t fl_dense_hash(fl_dense *d)
{
    uint64_t hash;

    fl_lock(&d->mu);
    hash = hash_scope(d) - d->first_hash;
    fl_unlock(&d->mu);
    return hash;
}
