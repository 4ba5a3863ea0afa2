/* run_optim.c - optimizer cases: given gradients, step by step.
 *
 * Parameters are variables of the scope, gradients are fed; the library adds
 * clipping, decay and the update. After each kept step parameters and
 * accumulators are compared.
 */
#include "compare.h"
#include "optimizer.h"
#include "../make.h"

#include <string.h>

#define TOLERANCE 1e-5
#define TOLERANCE_FTRL 3e-5 /* divides by small numbers */

typedef struct param {
    const char *name, *grad_name;
    const st_tensor *first;                /* its value before step 1 */
    const st_tensor *dense;                /* gradients [step, ...], or */
    const st_tensor *rows, *values, *lod0; /* rows + values of all steps */
} param;

typedef struct optim_case {
    golden_case *c;
    session s;
    rule rule;
    param *params;
    size_t n_params;
    double tolerance;
} optim_case;

/* Do the gradients belong to the parameter, step by step? */
static bool gradient_fits(const param *q)
{
    int64_t n = q->rows ? q->rows->numel : 0;

    if (q->dense)
        return q->dense->rank > 0 && q->dense->dims[0] > 0 &&
               q->dense->numel == q->dense->dims[0] * q->first->numel;
    return q->rows && q->values && q->lod0 && q->first->rank > 0 &&
           q->rows->dtype == FL_DTYPE_I64 && q->lod0->numel > 1 &&
           st_is_offsets(q->lod0, n) && q->values->rank > 0 &&
           q->values->dims[0] == n;
}

static int64_t n_steps(const param *q)
{
    return q->dense ? q->dense->dims[0] : q->lod0->numel - 1;
}

static bool find_params(optim_case *o)
{
    const st_file *f = &o->c->file;
    pool *p = &o->c->pool;

    for (size_t i = 0; i < f->n_tensors; i++) {
        const char *name = f->tensors[i].name;
        size_t n = strlen(name);
        param q = { .first = &f->tensors[i] };

        if (strncmp(name, "param.", 6) || n < 13 ||
            strcmp(name + n - 6, ".step0"))
            continue;
        q.name = pool_strndup(p, name + 6, n - 12);
        q.grad_name = pool_printf(p, "%s@GRAD", q.name);
        q.dense = st_find(f, "grad.%s", q.name);
        q.rows = st_find(f, "grad.%s.rows", q.name);
        q.values = st_find(f, "grad.%s.values", q.name);
        q.lod0 = st_find(f, "grad.%s.lod0", q.name);
        if (!gradient_fits(&q) ||
            (o->n_params && n_steps(&q) != n_steps(&o->params[0]))) {
            case_fail(o->c, "parameter %s has no gradient that fits", q.name);
            return false;
        }
        POOL_PUSH(p, o->params, o->n_params, q);
    }
    if (!o->n_params)
        case_fail(o->c, "the case has no parameters");
    return o->n_params > 0;
}

/* The gradient of one step, counted from 0, as a view. */
static fl_tensor gradient_of(const param *q, int64_t step)
{
    fl_tensor t;
    int64_t lo, width;

    if (q->dense) {
        t = fl_tensor_of(q->dense->dtype, q->dense->data, q->dense->rank - 1,
                         q->dense->dims + 1);
        t.data = (char *)q->dense->data + (size_t)(step * q->first->numel) *
                                              fl_dtype_bytes(q->dense->dtype);
        return t;
    }
    lo = (int64_t)st_at(q->lod0, step);
    width = q->rows->numel ? q->values->numel / q->rows->numel : 0;
    t = st_view(q->values);
    t.kind = FL_KIND_ROWS;
    t.shape.dim[0] = (int64_t)st_at(q->lod0, step + 1) - lo;
    t.data = (char *)q->values->data +
             (size_t)(lo * width) * fl_dtype_bytes(q->values->dtype);
    t.rows = (uint64_t *)q->rows->data + lo;
    t.height = q->first->dims[0];
    return t;
}

/* --- building ------------------------------------------------------------ */

static void add_variables(optim_case *o)
{
    for (size_t i = 0; i < o->n_params; i++) {
        const param *q = &o->params[i];
        fl_tensor g = gradient_of(q, 0);

        text_addf(&o->s.lines, "param %s : %s trainable\n", q->name,
                  type_text(&o->c->pool, q->first->dtype, q->first->rank,
                            q->first->dims));
        session_feed(&o->s, q->grad_name, &g);
    }
}

static bool add_updates(optim_case *o)
{
    fl_optimizer *opt =
        make_optimizer(o->s.ctx, o->rule.kind, o->rule.settings);
    fl_param_grad *pg = pool_alloc(&o->c->pool, o->n_params * sizeof(*pg));

    for (size_t i = 0; i < o->n_params; i++) {
        pg[i].param = fl_program_var(o->s.program, o->params[i].name);
        pg[i].grad = fl_program_var(o->s.program, o->params[i].grad_name);
    }
    if (!opt || fl_apply_gradients(opt, pg, o->n_params)) {
        case_fail(o->c, "%s", fl_last_error());
        return false;
    }
    return true;
}

/* --- accumulators -------------------------------------------------------- */

/* acc.PARAM.SUFFIX.stepN, taken apart; false for other tensors. */
static bool parse_accumulator(optim_case *o, const char *name, int64_t step,
                              const char **param_name, const char **suffix)
{
    char *tail = pool_printf(&o->c->pool, ".step%lld", (long long)step);
    size_t n = strlen(name), n_tail = strlen(tail);
    const char *dot;

    if (strncmp(name, "acc.", 4) || n <= n_tail ||
        strcmp(name + n - n_tail, tail))
        return false;
    dot = strchr(name + 4, '.');
    if (!dot || dot >= name + n - n_tail)
        return false;
    *param_name = pool_strndup(&o->c->pool, name + 4, (size_t)(dot - name - 4));
    *suffix = pool_strndup(&o->c->pool, dot + 1,
                           (size_t)(name + n - n_tail - dot - 1));
    return true;
}

/* See expected_accumulator: true for the beta powers of a sparse table. */
static bool started_at_one(optim_case *o, const char *param_name,
                           const char *suffix)
{
    const st_tensor *t =
        st_find(&o->c->file, "acc.%s.%s.step0", param_name, suffix);

    return strstr(suffix, "_pow_acc") && t && t->numel == 1 && st_at(t, 0) == 1;
}

static bool set_first_values(optim_case *o)
{
    const st_file *f = &o->c->file;
    const char *param_name, *suffix;
    fl_tensor t;

    for (size_t i = 0; i < o->n_params; i++) {
        t = st_view(o->params[i].first);
        if (!session_set(&o->s, o->params[i].name, &t))
            return false;
    }
    for (size_t i = 0; i < f->n_tensors; i++) {
        if (!parse_accumulator(o, f->tensors[i].name, 0, &param_name, &suffix))
            continue;
        if (started_at_one(o, param_name, suffix))
            continue;
        t = st_view(&f->tensors[i]);
        if (!session_set(&o->s,
                         accumulator_name(&o->c->pool, param_name, suffix), &t))
            return false;
    }
    return true;
}

static void compare_accumulator(optim_case *o, const st_tensor *want,
                                const char *param_name, const char *suffix)
{
    bool shifted = started_at_one(o, param_name, suffix);
    fl_tensor got;
    double mine, theirs;

    if (!session_get(&o->s, accumulator_name(&o->c->pool, param_name, suffix),
                     &got))
        return;
    if (!shifted) {
        compare_tensor(o->c, want->name, &got, want, o->tolerance);
        return;
    }
    mine = number_at(got.dtype, got.data, 0);
    theirs = expected_accumulator(&o->rule, suffix, shifted, st_at(want, 0));
    compare_numbers(o->c, want->name, &mine, &theirs, 1, o->tolerance);
}

/* --- running ------------------------------------------------------------- */

static void compare_step(optim_case *o, int64_t step)
{
    const st_file *f = &o->c->file;
    const char *param_name, *suffix;
    fl_tensor got;

    for (size_t i = 0; i < o->n_params; i++) {
        const st_tensor *want =
            st_find(f, "param.%s.step%lld", o->params[i].name, (long long)step);

        if (want && session_get(&o->s, o->params[i].name, &got))
            compare_tensor(o->c, want->name, &got, want, o->tolerance);
    }
    for (size_t i = 0; i < f->n_tensors; i++)
        if (parse_accumulator(o, f->tensors[i].name, step, &param_name,
                              &suffix))
            compare_accumulator(o, &f->tensors[i], param_name, suffix);
}

static void run_steps(optim_case *o)
{
    for (int64_t step = 0; step < n_steps(&o->params[0]); step++) {
        for (size_t i = 0; i < o->n_params; i++)
            o->s.feeds[i].value = gradient_of(&o->params[i], step);
        if (!session_run(&o->s))
            return;
        compare_step(o, step + 1);
    }
}

static void run_case(optim_case *o)
{
    if (!session_open(&o->s, o->c))
        return;
    add_variables(o);
    if (session_build_main(&o->s) && add_updates(o) && session_startup(&o->s) &&
        set_first_values(o))
        run_steps(o);
    session_close(&o->s);
}

void run_optim(golden_case *c)
{
    optim_case o = { .c = c };
    cJSON *hyper = case_json(c, "hyper");

    if (!hyper)
        return;
    if (rule_find(c, st_meta_find(&c->file, "optimizer"), hyper, &o.rule)) {
        o.tolerance = strcmp(o.rule.kind, "ftrl") ? TOLERANCE : TOLERANCE_FTRL;
        if (find_params(&o))
            run_case(&o);
    }
    cJSON_Delete(hyper);
}
