/* dense.c - a dense block: a scope of its own, and two programs over it.
 *
 * The startup program gives values and state their first values when the block
 * is first used and is then dropped; the main program runs for every gradient.
 * Both are checked and compiled when the block is declared, so that what is
 * wrong with them is said then.
 */
#include "ps/store/dense.h"

#include <inttypes.h>

#include "base/thread.h"
#include "exec/executor.h"
#include "ps/sum.h"

struct fl_dense {
    char *name, *grad; /* NAME and NAME@GRAD */
    uint64_t n;
    fl_mutex mu;
    fl_scope scope;       /* with the rest, guarded by mu */
    fl_executor executor; /* with no owner and no trace */
    fl_program *startup;  /* NULL once it has run */
    fl_program *program;
    fl_unit *start, *update;
    fl_feed feed;        /* the gradient: all but its data */
    fl_tensor values;    /* view into the scope, once started */
    uint64_t first_hash; /* of values and state as they were born */
};

/* --- what a program must be like ------------------------------------------ */

/* Variables and operators of both programs. */
static fl_status check_parts(const fl_program *p)
{
    for (const fl_op_node *n = fl_program_main(p)->first; n; n = n->next)
        if (n->def->flags & (FL_OP_EFFECT | FL_OP_WAITS))
            FL_FAIL(FL_ERR_INVAL,
                    "op %s acts outside of the program, which a block's "
                    "program must not",
                    n->def->name);
    for (const fl_var *v = fl_program_main(p)->first_var; v; v = v->next)
        if (v->flags & FL_VAR_TABLE)
            FL_FAIL(FL_ERR_INVAL,
                    "variable %s is a table, which a block's program cannot "
                    "have",
                    v->name);
    return FL_OK;
}

static bool is_written(const fl_program *p, const fl_var *v)
{
    for (const fl_op_node *n = fl_program_main(p)->first; n; n = n->next)
        if (fl_node_writes_var(n, v))
            return true;
    return false;
}

/* A persistent variable gets its first value from the startup lines, in the
   form that the main program wants; zeros do for the block itself. */
static fl_status check_born(const fl_dense *d, const fl_var *v)
{
    const fl_var *s = fl_block_find_var(fl_program_main(d->startup), v->name);
    bool is_block = !strcmp(v->name, d->name);
    char a[FL_SHAPE_TEXT_MAX], b[FL_SHAPE_TEXT_MAX];

    if (!s && is_block)
        return FL_OK;
    if (!s || !(s->flags & FL_VAR_PERSIST) ||
        (!is_block && !is_written(d->startup, s)))
        FL_FAIL(FL_ERR_INVAL,
                "variable %s has no first value; set it in the lines before "
                "|---, where it is persistent, too",
                v->name);
    if (s->meta.dtype != v->meta.dtype ||
        !fl_shape_equal(&s->meta.shape, &v->meta.shape))
        FL_FAIL(FL_ERR_INVAL,
                "variable %s is %s%s before |--- and %s%s behind it", v->name,
                fl_dtype_text(s->meta.dtype), fl_shape_text(&s->meta.shape, a),
                fl_dtype_text(v->meta.dtype), fl_shape_text(&v->meta.shape, b));
    return FL_OK;
}

/* The variable of that name, with as many floats as were declared. */
static fl_status find_floats(const fl_dense *d, const char *name, unsigned flag,
                             const char *word, const fl_var **out)
{
    const fl_var *v = fl_block_find_var(fl_program_main(d->program), name);
    char buf[FL_SHAPE_TEXT_MAX];
    size_t bytes, wanted;

    if (!v || !(v->flags & flag))
        FL_FAIL(FL_ERR_INVAL, "the program has no variable %s with the word %s",
                name, word);
    if (v->meta.dtype != FL_DTYPE_F32 || v->meta.kind != FL_KIND_DENSE ||
        v->meta.n_lod || fl_tensor_bytes(&v->meta, &bytes) ||
        fl_mul_overflow(d->n, sizeof(float), &wanted) || bytes != wanted)
        FL_FAIL(FL_ERR_INVAL,
                "variable %s is %s%s, but %" PRIu64 " floats were declared",
                name, fl_dtype_text(v->meta.dtype),
                fl_shape_text(&v->meta.shape, buf), d->n);
    *out = v;
    return FL_OK;
}

static fl_status check_programs(fl_dense *d)
{
    const fl_var *v, *g;

    FL_TRY(check_parts(d->startup));
    FL_TRY(check_parts(d->program));
    FL_TRY(find_floats(d, d->name, FL_VAR_PERSIST, "persist", &v));
    FL_TRY(find_floats(d, d->grad, FL_VAR_DATA, "data", &g));
    d->values = v->meta;
    d->feed = (fl_feed){ d->grad, g->meta };
    for (v = fl_program_main(d->program)->first_var; v; v = v->next)
        if (v->flags & FL_VAR_PERSIST)
            FL_TRY(check_born(d, v));
    return FL_OK;
}

/* --- making --------------------------------------------------------------- */

/* One thread works on a block: servers have many requests under way. */
static fl_status compile(fl_dense *d, const fl_program *p, const fl_conf *conf,
                         size_t n_feeds, fl_unit **out)
{
    const char *feeds[] = { d->grad };
    fl_unit_spec spec = {
        .program = p,
        .kind = FL_UNIT_ALONE,
        .n_runners = 1,
        .n_threads = 1,
        .feeds = feeds,
        .n_feeds = n_feeds,
        .nominal_batch = 1,
        .passes = { .optimize = conf->optimize, .skip = conf->passes },
    };

    return fl_executor_unit(&d->executor, &spec, out);
}

static fl_status build(fl_dense *d, const fl_declared *from,
                       const fl_op_set *ops, const fl_conf *conf)
{
    FL_TRY(fl_err_ctx(fl_program_parse(from->startup, ops, &d->startup),
                      "before |---"));
    FL_TRY(fl_program_parse(from->text, ops, &d->program));
    FL_TRY(check_programs(d));
    FL_TRY(
        fl_err_ctx(compile(d, d->startup, conf, 0, &d->start), "before |---"));
    return compile(d, d->program, conf, 1, &d->update);
}

fl_status fl_dense_new(fl_dense **out, const fl_declared *from,
                       const fl_op_set *ops, const fl_conf *conf)
{
    fl_dense *d = fl_alloc(sizeof(*d));
    fl_str grad = { 0 };
    fl_status st;

    fl_str_addf(&grad, "%s" FL_GRAD_SUFFIX, from->name);
    d->name = fl_strdup(from->name);
    d->grad = fl_str_take(&grad);
    d->n = from->n;
    fl_mutex_init(&d->mu);
    fl_scope_init(&d->scope);
    d->executor.options = (fl_exec_options){
        .check_nan_inf = conf->check_nan_inf,
        .slice_min_elements = conf->slice_min_elements,
        .pending_timeout_ms = conf->pending_timeout_ms,
        .scope = &d->scope,
    };
    st = build(d, from, ops, conf);
    if (st) {
        fl_dense_free(d);
        return fl_err_ctx(st, "block %s", from->name);
    }
    *out = d;
    return FL_OK;
}

void fl_dense_free(fl_dense *d)
{
    if (!d)
        return;
    fl_executor_drop_units(&d->executor);
    if (d->startup)
        fl_program_free(d->startup);
    if (d->program)
        fl_program_free(d->program);
    fl_scope_release(&d->scope);
    fl_mutex_release(&d->mu);
    fl_free(d->name);
    fl_free(d->grad);
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

/* --- using, under the lock ------------------------------------------------ */

static uint64_t hash_scope(const fl_dense *d)
{
    uint64_t sum = 0;

    for (size_t i = 0; i < d->scope.vars.len; i++) {
        const fl_scope_var *v = d->scope.vars.data[i];

        sum += fl_sum_bytes(fl_hash_str(v->name), v->value.data, v->cap_bytes);
    }
    return sum;
}

static fl_status run_startup(fl_dense *d)
{
    FL_TRY(fl_scope_reserve(&d->scope, d->name, &d->values, &d->values));
    return fl_unit_run_alone(&d->executor, d->start, NULL);
}

/* Gives values and state their first values, before the first use. When that
   fails, the next use finds the scope as new. */
static fl_status start(fl_dense *d)
{
    fl_status st = d->startup ? run_startup(d) : FL_OK;

    if (st) {
        fl_scope_release(&d->scope);
        fl_scope_init(&d->scope);
    } else if (d->startup) {
        fl_executor_drop_program(&d->executor, d->startup);
        fl_program_free(d->startup);
        d->startup = NULL;
        d->first_hash = hash_scope(d);
    }
    return st;
}

static fl_status update(fl_dense *d, const float *grad, uint64_t step)
{
    FL_TRY(start(d));
    d->feed.value.data = (void *)(uintptr_t)grad;
    atomic_store(&d->scope.step, step);
    return fl_unit_run_alone(&d->executor, d->update, &d->feed);
}

/* --- using ---------------------------------------------------------------- */

fl_status fl_dense_push(fl_dense *d, const float *grad, uint64_t step)
{
    fl_status st;

    fl_lock(&d->mu);
    st = update(d, grad, step);
    fl_unlock(&d->mu);
    return fl_err_ctx(st, "block %s", d->name);
}

fl_status fl_dense_pull(fl_dense *d, float *out)
{
    fl_status st;

    fl_lock(&d->mu);
    st = start(d);
    if (!st)
        memcpy(out, d->values.data, (size_t)d->n * sizeof(float));
    fl_unlock(&d->mu);
    return fl_err_ctx(st, "block %s", d->name);
}

fl_status fl_dense_assign(fl_dense *d, const float *values)
{
    fl_status st;

    fl_lock(&d->mu);
    st = start(d);
    if (!st)
        memcpy(d->values.data, values, (size_t)d->n * sizeof(float));
    fl_unlock(&d->mu);
    return fl_err_ctx(st, "block %s", d->name);
}

/* The value that the scope has for a variable, when it is of the same size. */
static const void *find_like(fl_scope *scope, const char *name,
                             const fl_tensor *like)
{
    size_t bytes, wanted;
    fl_tensor t;

    if (!fl_scope_find(scope, name, &t) || t.dtype != like->dtype ||
        fl_tensor_bytes(&t, &bytes) || fl_tensor_bytes(like, &wanted) ||
        bytes != wanted)
        return NULL;
    return t.data;
}

static void take_values(fl_dense *d, fl_scope *from)
{
    for (size_t i = 0; i < d->scope.vars.len; i++) {
        const fl_scope_var *v = d->scope.vars.data[i];
        const void *data = find_like(from, v->name, &v->value);

        if (data)
            memcpy(v->value.data, data, v->cap_bytes);
    }
}

fl_status fl_dense_take(fl_dense *d, fl_scope *scope)
{
    fl_status st = FL_OK;

    fl_lock(&d->mu);
    if (find_like(scope, d->name, &d->values)) {
        st = start(d);
        if (!st)
            take_values(d, scope);
    }
    fl_unlock(&d->mu);
    return fl_err_ctx(st, "block %s", d->name);
}

uint64_t fl_dense_bytes(fl_dense *d)
{
    uint64_t bytes = 0;

    fl_lock(&d->mu);
    for (size_t i = 0; i < d->scope.vars.len; i++)
        bytes += d->scope.vars.data[i]->cap_bytes;
    fl_unlock(&d->mu);
    return bytes;
}

uint64_t fl_dense_hash(fl_dense *d)
{
    uint64_t hash;

    fl_lock(&d->mu);
    hash = d->startup ? 0 : hash_scope(d) - d->first_hash;
    fl_unlock(&d->mu);
    return hash;
}
