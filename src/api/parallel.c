/* parallel.c - data-parallel runs through the public API: CompiledProgram and
 * ParallelExecutor, and how a fed batch is split over the replicas. */
#include "flotilla/executor.h"

#include <inttypes.h>

#include "ctx/ctx.h"
#include "train/autosave.h"
#include "base/args.h"

struct fl_compiled_program {
    fl_program *program;
    bool data_parallel;
    char *loss_grad; /* fed by the caller: customised scale; or NULL */
    fl_build_strategy build;
    int n_replicas, n_threads;
    fl_arena split; /* offsets of split batches, for one run */
};

fl_status fl_compiled_program_new(fl_compiled_program **out, fl_program *p)
{
    fl_compiled_program *cp;

    if (!p)
        FL_FAIL(FL_ERR_INVAL, "there is no program to compile: the call that "
                              "should have given it has failed");
    cp = fl_alloc(sizeof(*cp));

    cp->program = p;
    cp->n_replicas = cp->n_threads = 1;
    fl_arena_init(&cp->split, 64 << 10);
    *out = cp;
    return FL_OK;
}

void fl_compiled_program_free(fl_compiled_program *cp)
{
    if (!cp)
        return;
    fl_arena_release(&cp->split);
    fl_free(cp->loss_grad);
    fl_free(cp);
}

int fl_compiled_program_replicas(const fl_compiled_program *cp)
{
    return cp->n_replicas;
}

static fl_status check_loss(const fl_compiled_program *cp, const char *loss)
{
    const fl_block *b = fl_program_main(cp->program);
    char grad[FL_ERR_TEXT_MAX];

    if (!fl_block_find_var(b, loss))
        FL_FAIL(FL_ERR_NOTFOUND, "loss %s is not in the program", loss);
    snprintf(grad, sizeof(grad), "%s" FL_GRAD_SUFFIX, loss);
    if (!fl_block_find_var(b, grad))
        FL_FAIL(FL_ERR_INVAL,
                "loss %s has no gradient; minimize it before the program is "
                "compiled for data-parallel runs",
                loss);
    return FL_OK;
}

fl_status fl_compiled_program_with_data_parallel(fl_compiled_program *cp,
                                                 const char *loss_name,
                                                 const fl_build_strategy *build,
                                                 const fl_exec_strategy *exec)
{
    const fl_ctx *c = cp->program->ctx;
    fl_build_strategy how;
    fl_exec_strategy with;
    int n, threads;

    FL_TRY(FL_ARGS_READ(fl_build_strategy, &how, build));
    FL_TRY(FL_ARGS_READ(fl_exec_strategy, &with, exec));
    n = with.n_replicas ? with.n_replicas : (int)c->conf.cpu_num;
    threads = with.n_threads ? with.n_threads : n;
    if (n < 1 || threads < 1)
        FL_FAIL(FL_ERR_INVAL, "%d replicas on %d threads cannot run", n,
                threads);
    if (loss_name)
        FL_TRY(check_loss(cp, loss_name));
    cp->build = how;
    cp->n_replicas = n;
    cp->n_threads = threads;
    cp->data_parallel = true;
    fl_free(cp->loss_grad);
    cp->loss_grad = NULL;
    if (cp->build.gradient_scale_strategy == FL_SCALE_CUSTOMIZED) {
        fl_str s = { 0 };

        if (!loss_name)
            FL_FAIL(FL_ERR_INVAL,
                    "a customised gradient scale needs the name of the loss");
        fl_str_addf(&s, "%s" FL_GRAD_SUFFIX, loss_name);
        cp->loss_grad = fl_str_take(&s);
    }
    return FL_OK;
}

/* --- splitting a batch --------------------------------------------------- */

static int64_t n_samples(const fl_tensor *t)
{
    return t->n_lod ? t->lod_len[0] - 1 : t->shape.dim[0];
}

static const int64_t *part_offsets(fl_compiled_program *cp, const int64_t *off,
                                   int64_t lo, int64_t hi)
{
    int64_t *to =
        fl_arena_alloc(&cp->split, sizeof(int64_t) * (size_t)(hi - lo + 1));

    for (int64_t i = lo; i <= hi; i++)
        to[i - lo] = off[i] - off[lo];
    return to;
}

/* Samples [lo, hi) of a fed tensor: a view, with offsets of its own. */
static fl_tensor part_of(fl_compiled_program *cp, const fl_tensor *t,
                         int64_t lo, int64_t hi)
{
    fl_tensor part = *t;
    size_t row_bytes = (size_t)fl_shape_count(&t->shape, 1, t->shape.rank) *
                       fl_dtype_bytes(t->dtype);

    for (int k = 0; k < t->n_lod; k++) {
        part.lod[k] = part_offsets(cp, t->lod[k], lo, hi);
        part.lod_len[k] = hi - lo + 1;
        hi = t->lod[k][hi];
        lo = t->lod[k][lo];
    }
    part.shape.dim[0] = hi - lo;
    part.data = (char *)t->data + (size_t)lo * row_bytes;
    return part;
}

/* A value that every replica gets as it is: what the caller's gradient of the
   loss is, and one sample of a persistent variable. One replica gets all. */
static bool is_whole(const fl_compiled_program *cp, const fl_feed *f)
{
    const fl_var *v = fl_block_find_var(fl_program_main(cp->program), f->name);

    if (cp->n_replicas == 1)
        return true;
    if (cp->loss_grad && !strcmp(f->name, cp->loss_grad))
        return true;
    return v && (v->flags & FL_VAR_PERSIST) && n_samples(&f->value) == 1;
}

static fl_status split_feeds(fl_compiled_program *cp, const fl_run_args *a,
                             fl_feed *out)
{
    int64_t r = cp->n_replicas, n = -1;

    for (size_t i = 0; i < a->n_feeds; i++) {
        const fl_feed *f = &a->feeds[i];
        bool whole;
        int64_t rows;

        FL_TRY(fl_err_ctx(fl_tensor_check(&f->value), "feed %s", f->name));
        whole = is_whole(cp, f);
        rows = n_samples(&f->value);
        if (!whole && (rows < r || (n >= 0 && rows != n)))
            FL_FAIL(FL_ERR_INVAL,
                    "feed %s has %" PRId64 " samples; %" PRId64
                    " replicas need at least as many, and all feeds the same",
                    f->name, rows, r);
        n = whole ? n : rows;
        for (int64_t k = 0; k < r; k++) {
            fl_feed *to = &out[(size_t)k * a->n_feeds + i];

            *to = *f;
            if (!whole)
                to->value =
                    part_of(cp, &f->value, rows * k / r, rows * (k + 1) / r);
        }
    }
    return FL_OK;
}

/* --- running ------------------------------------------------------------- */

static fl_status run_replicas(fl_executor *e, fl_compiled_program *cp,
                              const fl_run_args *a, const fl_feed *feeds,
                              const char **names)
{
    fl_ctx *c = e->ctx;
    bool mean = cp->build.gradient_scale_strategy == FL_SCALE_COEFF_NUM_DEVICE;
    fl_unit_spec spec = {
        .program = cp->program,
        .kind = FL_UNIT_REPLICAS,
        .n_runners = cp->n_replicas,
        .n_threads = cp->n_threads,
        .feeds = names,
        .n_feeds = a->n_feeds,
        .fetches = a->fetches,
        .n_fetches = a->n_fetches,
        .merge = cp->build.reduce_strategy == FL_REPLICA_REDUCE
                     ? FL_MERGE_REDUCE
                     : FL_MERGE_ALL_REDUCE,
        .coeff = mean ? 1.0 / cp->n_replicas : 1.0,
        .fed_grad = cp->loss_grad,
        .nominal_batch = a->n_feeds ? n_samples(&feeds[0].value) : 1,
        .passes = fl_ctx_pass_options(c, cp->program),
    };
    fl_str skip = { 0 };
    fl_status st;
    fl_unit *u;

    FL_TRY(fl_ctx_exec_options(c, a->scope, &e->trace, &e->options));
    /* One update per parameter can be spread over the replicas; one update of
       all of them cannot. */
    fl_str_addf(&skip, "%s%sopt_multi_tensor", spec.passes.skip,
                *spec.passes.skip ? "," : "");
    spec.passes.skip = fl_str_text(&skip);
    st = fl_executor_unit(e, &spec, &u);
    fl_str_release(&skip);
    if (st)
        return st;
    FL_TRY(fl_unit_run_replicas(e, u, feeds));
    for (int i = 0; i < cp->n_replicas; i++) {
        size_t at = (size_t)i * a->n_fetches;

        fl_unit_fetch(u, i, a->out + at);
        if (a->keep)
            fl_unit_keep(u, i, a->out + at, a->keep + at);
    }
    return FL_OK;
}

static fl_status run_each(fl_executor *e, fl_compiled_program *cp,
                          const fl_run_args *a, const fl_feed *feeds)
{
    const char **names = fl_alloc(sizeof(char *) * (a->n_feeds + 1));
    fl_scope *s = a->scope ? a->scope : fl_current_scope(e->ctx);
    uint64_t step = fl_scope_step(s);
    fl_status st;

    for (size_t i = 0; i < a->n_feeds; i++)
        names[i] = a->feeds[i].name;
    st = run_replicas(e, cp, a, feeds, names);
    fl_free(names);
    if (!st && fl_scope_step(s) > step)
        st = fl_autosave_after_run(e, cp->program, s);
    return fl_ctx_ran(e->ctx, st);
}

fl_status fl_run_compiled_each(fl_executor *e, fl_compiled_program *cp,
                               const fl_run_args *args)
{
    fl_run_args a;

    if (!cp->data_parallel)
        return fl_run(e, cp->program, args);
    FL_TRY(FL_ARGS_READ(fl_run_args, &a, args));
    return run_each(e, cp, &a, a.feeds);
}

fl_status fl_run_compiled(fl_executor *e, fl_compiled_program *cp,
                          const fl_run_args *args)
{
    fl_run_args a;
    fl_feed *feeds;
    fl_status st;
    size_t n;

    if (!cp->data_parallel)
        return fl_run(e, cp->program, args);
    FL_TRY(FL_ARGS_READ(fl_run_args, &a, args));
    n = a.n_feeds * (size_t)cp->n_replicas;
    feeds = fl_alloc(sizeof(*feeds) * (n + 1));
    st = split_feeds(cp, &a, feeds);
    if (!st)
        st = run_each(e, cp, &a, feeds);
    fl_arena_clear(&cp->split);
    fl_free(feeds);
    return st;
}

/* --- ParallelExecutor ---------------------------------------------------- */

struct fl_parallel_executor {
    fl_executor *executor;
    fl_compiled_program *compiled;
};

fl_status fl_parallel_executor_new(fl_parallel_executor **out, fl_ctx *c,
                                   const char *loss_name,
                                   fl_program *main_program,
                                   const fl_build_strategy *build,
                                   const fl_exec_strategy *exec)
{
    fl_parallel_executor *pe = fl_alloc(sizeof(*pe));
    fl_status st;

    st = fl_executor_new(&pe->executor, c);
    if (!st)
        st = fl_compiled_program_new(&pe->compiled,
                                     main_program ? main_program
                                                  : fl_default_main_program(c));
    if (!st)
        st = fl_compiled_program_with_data_parallel(pe->compiled, loss_name,
                                                    build, exec);
    if (st) {
        fl_parallel_executor_free(pe);
        return st;
    }
    *out = pe;
    return FL_OK;
}

fl_status fl_parallel_executor_run(fl_parallel_executor *pe,
                                   const fl_run_args *args)
{
    return fl_run_compiled(pe->executor, pe->compiled, args);
}

int fl_parallel_executor_replicas(const fl_parallel_executor *pe)
{
    return pe->compiled->n_replicas;
}

void fl_parallel_executor_free(fl_parallel_executor *pe)
{
    if (!pe)
        return;
    fl_executor_free(pe->executor);
    fl_compiled_program_free(pe->compiled);
    fl_free(pe);
}
