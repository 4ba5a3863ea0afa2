/* run_train.c - training cases: a whole network, step by step.
 *
 * The network is the forward program that the compared system printed
 * (PREFIX.program.txt beside the case), written again in our text form; the
 * library adds backward and optimizer. PREFIX is the longest beginning of the
 * case's name that has such a file, the rest of the name is the optimizer.
 */
#include "compare.h"
#include "optimizer.h"
#include "paddle_text.h"
#include "../make.h"

#include <math.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#define TOLERANCE_LOSS 1e-5
#define TOLERANCE_PARAM 1e-5
#define TOLERANCE_PARAM_DIVIDED 2e-4 /* rules that divide by small numbers */

/* A rule that divides by small numbers turns the rounding of a gradient that
   is nearly zero into a step: there two f32 runs that add up in another order
   part, and neither is wrong. Then f64, where rounding is out of the way, must
   hold the tolerance, and f32 this multiple of it. */
#define ROUNDING_SLACK 4

/* Probabilities that differ in the last bit may fall on two sides of a bucket
   boundary. So histograms may differ by a few samples that moved to the next
   bucket, and the values of AUC by what that can do in a small batch. */
#define TOLERANCE_AUC 1e-3
#define MOVES_MAX(samples) (4 + 0.01 * (samples))

typedef struct input {
    const char *name;
    const st_tensor *values, *lod0;
    int64_t *offsets; /* of the current batch, from 0 */
} input;

typedef struct train_case {
    golden_case *c;
    session s;
    st_file shared; /* PREFIX_inputs, where the case has no inputs */
    pt_program net;
    rule rule;
    const char *folder, *prefix, *optimizer;
    const char *loss, *auc, *batch_auc; /* names of variables */
    input *inputs;
    size_t n_inputs;
    int64_t n_steps;
    fl_dtype floats; /* what the floats of network and files are read as */
    double tolerance, slack;
} train_case;

static const st_tensor *find_tensor(const train_case *t, const char *prefix,
                                    const char *name)
{
    const st_tensor *found = st_find(&t->c->file, "%s%s", prefix, name);

    return found ? found : st_find(&t->shared, "%s%s", prefix, name);
}

/* --- files beside the case ----------------------------------------------- */

static const char *neighbour(const train_case *t, const char *ending)
{
    return pool_printf(&t->c->pool, "%s%s%s", t->folder, t->prefix, ending);
}

/* Splits the name of the case into network and optimizer. */
static bool find_network(train_case *t)
{
    const char *slash = strrchr(t->c->path, '/');
    char *name = pool_strdup(&t->c->pool, t->c->name);
    char *cut;

    t->folder = slash ? pool_strndup(&t->c->pool, t->c->path,
                                     (size_t)(slash - t->c->path) + 1)
                      : "";
    while ((cut = strrchr(name, '_'))) {
        *cut = '\0';
        t->prefix = name;
        t->optimizer = t->c->name + (cut - name) + 1;
        if (!access(neighbour(t, ".program.txt"), R_OK))
            return true;
    }
    case_fail(t->c, "there is no PREFIX.program.txt beside the case");
    return false;
}

static bool read_network(train_case *t)
{
    const char *path = neighbour(t, ".program.txt");
    const char *wrong;
    size_t len;
    char *source = read_text(path, &t->c->pool, &len);

    wrong = source ? pt_read(&t->net, source, &t->c->pool)
                   : "the file cannot be read";
    if (wrong)
        case_fail(t->c, "%s: %s", path, wrong);
    for (size_t i = 0; !wrong && i < t->net.n_vars; i++)
        if (t->net.vars[i].dtype == FL_DTYPE_F32)
            t->net.vars[i].dtype = t->floats;
    return !wrong;
}

static bool read_shared(train_case *t)
{
    const char *path = neighbour(t, "_inputs.safetensors");
    const char *wrong;

    if (access(path, R_OK))
        return true;
    wrong = st_read(&t->shared, path, &t->c->pool);
    if (wrong)
        case_fail(t->c, "%s: %s", path, wrong);
    else if (t->floats == FL_DTYPE_F64)
        t->shared = st_widened(&t->shared, &t->c->pool);
    return !wrong;
}

/* --- the network in our form --------------------------------------------- */

/* Rules that the compared system refuses to apply to sparse gradients: its
   run had dense ones. */
static bool refuses_sparse(const char *kind)
{
    static const char *const kinds[] = { "ftrl", "adamax", "decayed_adagrad",
                                         "lars_momentum" };

    for (size_t i = 0; i < sizeof(kinds) / sizeof(kinds[0]); i++)
        if (!strcmp(kinds[i], kind))
            return true;
    return false;
}

/* The first AUC of the layer slides over batches, as many as the case says;
   the last is over all. */
static void adapt_auc(train_case *t, pt_op *op)
{
    const char *slide = st_meta_find(&t->c->file, "slide_steps");

    if (t->batch_auc) {
        t->auc = pt_output(op, "AUC");
        return;
    }
    t->batch_auc = pt_output(op, "AUC");
    if (slide)
        pt_set_attr(op, "slide_steps", slide);
}

static void adapt_network(train_case *t)
{
    for (size_t i = 0; i < t->net.n_ops; i++) {
        pt_op *op = &t->net.ops[i];
        const pt_var *v;

        if (refuses_sparse(t->rule.kind))
            pt_set_attr(op, "is_sparse", "false");
        if (!strcmp(op->type, "auc")) {
            adapt_auc(t, op);
            continue;
        }
        for (size_t k = 0; k < op->n_out; k++) {
            v = op->out[k].n_vars ? pt_find_var(&t->net, op->out[k].vars[0])
                                  : NULL;
            if (v && v->dtype == t->floats && v->rank == 1 && v->dims[0] == 1)
                t->loss = v->name;
        }
    }
}

static const char *const histograms[] = { "stat_pos", "stat_neg",
                                          "batch_stat_pos", "batch_stat_neg" };

/* The variable that holds a histogram: a state of the first or last auc. */
static const char *histogram_var(const train_case *t, const char *name)
{
    bool batch = !strncmp(name, "batch_", 6);
    const char *slot = strstr(name, "_pos") ? "StatPosOut" : "StatNegOut";
    const char *value = batch ? t->batch_auc : t->auc;

    for (size_t i = 0; i < t->net.n_ops; i++) {
        const char *auc = pt_output(&t->net.ops[i], "AUC");

        if (auc && value && !strcmp(auc, value))
            return pt_output(&t->net.ops[i], slot);
    }
    return NULL;
}

/* Histograms get the size of the recorded ones, which follows from
   slide_steps. */
static void adapt_histograms(train_case *t)
{
    for (size_t i = 0; i < 4; i++) {
        const st_tensor *want = st_find(&t->c->file, "auc.%s", histograms[i]);
        const char *name = histogram_var(t, histograms[i]);
        pt_var *v = name ? pt_find_var(&t->net, name) : NULL;

        if (!want || !v)
            continue;
        v->rank = want->rank;
        memcpy(v->dims, want->dims, sizeof(v->dims));
    }
}

static bool add_var(train_case *t, const pt_var *v)
{
    const char *type = type_text(&t->c->pool, v->dtype, v->rank, v->dims);
    const st_tensor *values = find_tensor(t, "in.", v->name);
    const st_tensor *lod0;
    size_t bytes = fl_dtype_bytes(v->dtype);
    fl_tensor zeros;

    if (v->is_param) {
        text_addf(&t->s.lines, "param %s : %s trainable\n", v->name, type);
    } else if (v->is_persist) {
        for (int i = 0; i < v->rank; i++)
            bytes *= (size_t)v->dims[i];
        zeros = fl_tensor_of(v->dtype, pool_alloc(&t->c->pool, bytes), v->rank,
                             v->dims);
        return session_keep(&t->s, v->name, &zeros);
    } else if (values) {
        lod0 =
            find_tensor(t, "in.", pool_printf(&t->c->pool, "%s.lod0", v->name));
        text_addf(&t->s.lines, "var %s : %s%s data\n", v->name, type,
                  lod0 ? " lod=1" : "");
        POOL_PUSH(&t->c->pool, t->inputs, t->n_inputs,
                  ((input){ v->name, values, lod0, NULL }));
    }
    return true;
}

/* Inputs that are not given and by-products that nobody reads are left out
   where the operator has no such slot. */
static bool is_left_out(const train_case *t, const pt_arg *a,
                        const char *const *slots, size_t n_slots, bool is_in)
{
    if (!a->n_vars)
        return true;
    return !is_in && !has_slot(slots, n_slots, a->slot) && a->n_vars == 1 &&
           !pt_is_read(&t->net, a->vars[0]);
}

static void add_args(train_case *t, const pt_arg *args, size_t n,
                     const char *const *slots, size_t n_slots, bool is_in)
{
    text *line = &t->s.lines;
    const char *before = "";

    text_addf(line, "(");
    for (size_t i = 0; i < n; i++) {
        const pt_arg *a = &args[i];

        if (is_left_out(t, a, slots, n_slots, is_in))
            continue;
        text_addf(line, "%s%s=%s", before, a->slot, a->n_vars > 1 ? "[" : "");
        for (size_t k = 0; k < a->n_vars; k++)
            text_addf(line, "%s%s", k ? "," : "", a->vars[k]);
        text_addf(line, "%s", a->n_vars > 1 ? "]" : "");
        before = ", ";
    }
    text_addf(line, ")");
}

static bool add_op(train_case *t, const pt_op *op)
{
    op_info info;

    if (!describe_op(t->c, op->type, &info))
        return false;
    text_addf(&t->s.lines, "op %s ", op->type);
    add_args(t, op->in, op->n_in, info.in, info.n_in, true);
    text_addf(&t->s.lines, " -> ");
    add_args(t, op->out, op->n_out, info.out, info.n_out, false);
    if (!attrs_to_text(t->c, op->type, &info, op->attrs, op->n_attrs,
                       &t->s.lines))
        return false;
    text_addf(&t->s.lines, "\n");
    return true;
}

static bool add_network(train_case *t)
{
    for (size_t i = 0; i < t->net.n_vars; i++)
        if (!add_var(t, &t->net.vars[i]))
            return false;
    for (size_t i = 0; i < t->net.n_ops; i++)
        if (!add_op(t, &t->net.ops[i]))
            return false;
    return session_build_main(&t->s);
}

static bool add_training(train_case *t)
{
    fl_var *loss = t->loss ? fl_program_var(t->s.program, t->loss) : NULL;
    fl_optimizer *opt;

    if (!loss) {
        case_fail(t->c, "the network has no loss");
        return false;
    }
    opt = make_optimizer(t->s.ctx, t->rule.kind, t->rule.settings);
    if (!opt || fl_minimize(opt, loss)) {
        case_fail(t->c, "%s", fl_last_error());
        return false;
    }
    return session_startup(&t->s);
}

static bool set_first_values(train_case *t)
{
    for (size_t i = 0; i < t->net.n_vars; i++) {
        const pt_var *v = &t->net.vars[i];
        const st_tensor *first = find_tensor(t, "init.", v->name);
        fl_tensor view;

        if (!v->is_param)
            continue;
        if (!first) {
            case_fail(t->c, "parameter %s has no tensor init.%s", v->name,
                      v->name);
            return false;
        }
        view = st_view(first);
        if (!session_set(&t->s, v->name, &view))
            return false;
    }
    return true;
}

/* --- batches ------------------------------------------------------------- */

static bool check_inputs(train_case *t)
{
    for (size_t i = 0; i < t->n_inputs; i++) {
        input *in = &t->inputs[i];
        int64_t rows = in->values->rank ? in->values->dims[0] : 0;
        int64_t n = in->lod0 ? in->lod0->numel - 1 : rows;

        if (t->n_steps < 1 || n % t->n_steps ||
            (!in->lod0 && rows != t->n_steps) ||
            (in->lod0 && !st_is_offsets(in->lod0, rows))) {
            case_fail(t->c, "input %s does not hold %lld batches", in->name,
                      (long long)t->n_steps);
            return false;
        }
        if (in->lod0)
            in->offsets = pool_alloc(&t->c->pool, (size_t)(n / t->n_steps + 1) *
                                                      sizeof(int64_t));
        POOL_PUSH(&t->c->pool, t->s.feeds, t->s.n_feeds,
                  ((fl_feed){ .name = in->name }));
    }
    return true;
}

/* A step of a dense input [step, batch, ...]. */
static fl_tensor dense_batch(const train_case *t, const input *in, int64_t step)
{
    size_t bytes = (size_t)(in->values->numel / t->n_steps) *
                   fl_dtype_bytes(in->values->dtype);

    return fl_tensor_of(in->values->dtype,
                        (char *)in->values->data + (size_t)step * bytes,
                        in->values->rank - 1, in->values->dims + 1);
}

/* A step of a ragged input: its sequences, with offsets from 0. */
static fl_tensor ragged_batch(const train_case *t, const input *in,
                              int64_t step)
{
    int64_t n_seq = (in->lod0->numel - 1) / t->n_steps;
    const int64_t *offsets = (const int64_t *)in->lod0->data + step * n_seq;
    int64_t rows = in->values->dims[0];
    size_t row_bytes = rows ? (size_t)(in->values->numel / rows) *
                                  fl_dtype_bytes(in->values->dtype)
                            : 0;
    int64_t dims[FL_RANK_MAX];

    for (int64_t i = 0; i <= n_seq; i++)
        in->offsets[i] = offsets[i] - offsets[0];
    memcpy(dims, in->values->dims, sizeof(dims));
    dims[0] = in->offsets[n_seq];
    return fl_tensor_ragged(in->values->dtype,
                            (char *)in->values->data +
                                (size_t)offsets[0] * row_bytes,
                            in->values->rank, dims, in->offsets, n_seq);
}

static void feed_step(train_case *t, int64_t step)
{
    for (size_t i = 0; i < t->n_inputs; i++) {
        const input *in = &t->inputs[i];

        t->s.feeds[i].value =
            in->lod0 ? ragged_batch(t, in, step) : dense_batch(t, in, step);
    }
}

/* --- comparing ----------------------------------------------------------- */

static void compare_params(train_case *t, const char *prefix)
{
    fl_tensor got;

    for (size_t i = 0; i < t->net.n_vars; i++) {
        const char *name = t->net.vars[i].name;
        const st_tensor *want = st_find(&t->c->file, "%s%s", prefix, name);

        if (want && session_get(&t->s, name, &got))
            compare_tensor(t->c, want->name, &got, want, t->tolerance);
    }
}

/* See expected_accumulator: is the variable a table with sparse gradients? */
static bool is_sparse_table(const train_case *t, const char *name)
{
    for (size_t i = 0; i < t->net.n_ops; i++) {
        const pt_op *op = &t->net.ops[i];
        const op_attr *a = find_attr(op->attrs, op->n_attrs, "is_sparse");

        if (!a || strcmp(a->value, "true"))
            continue;
        for (size_t k = 0; k < op->n_in; k++)
            if (!strcmp(op->in[k].slot, "W") && op->in[k].n_vars &&
                !strcmp(op->in[k].vars[0], name))
                return true;
    }
    return false;
}

/* acc.final.PARAM.SUFFIX, for one parameter. */
static void compare_accumulators(train_case *t, const char *param)
{
    const st_file *f = &t->c->file;
    char *prefix = pool_printf(&t->c->pool, "acc.final.%s.", param);
    bool sparse = is_sparse_table(t, param);
    fl_tensor got;

    for (size_t i = 0; i < f->n_tensors; i++) {
        const st_tensor *want = &f->tensors[i];
        const char *suffix = want->name + strlen(prefix);
        double mine, theirs;

        if (strncmp(want->name, prefix, strlen(prefix)) ||
            !session_get(&t->s, accumulator_name(&t->c->pool, param, suffix),
                         &got))
            continue;
        if (!sparse || want->numel != 1) {
            compare_tensor(t->c, want->name, &got, want, t->tolerance);
            continue;
        }
        mine = number_at(got.dtype, got.data, 0);
        theirs = expected_accumulator(&t->rule, suffix, true, st_at(want, 0));
        compare_numbers(t->c, want->name, &mine, &theirs, 1, t->tolerance);
    }
}

static void compare_series(train_case *t, const char *name, const double *got,
                           double tolerance)
{
    const st_tensor *want = st_find(&t->c->file, "%s", name);
    double *numbers;

    if (!want)
        return;
    if (want->numel != t->n_steps) {
        case_fail(t->c, "%s does not have %lld steps", name,
                  (long long)t->n_steps);
        return;
    }
    numbers = pool_alloc(&t->c->pool, (size_t)want->numel * sizeof(double));
    for (int64_t i = 0; i < want->numel; i++)
        numbers[i] = st_at(want, i);
    compare_numbers(t->c, name, got, numbers, want->numel, tolerance);
}

/* Equal up to a few samples that moved to the next bucket: the sums from the
   left differ by one between the two places of such a sample. */
static void compare_histogram(train_case *t, const char *name)
{
    const st_tensor *want = st_find(&t->c->file, "auc.%s", name);
    const char *var = histogram_var(t, name);
    double total = 0, ahead = 0, moved = 0;
    fl_tensor got;

    if (!want || !var || !session_get(&t->s, var, &got))
        return;
    if (fl_tensor_numel(&got) != want->numel) {
        case_fail(t->c, "%s: got %lld buckets, want %lld", want->name,
                  (long long)fl_tensor_numel(&got), (long long)want->numel);
        return;
    }
    for (int64_t i = 0; i < want->numel; i++) {
        total += st_at(want, i);
        ahead += number_at(got.dtype, got.data, i) - st_at(want, i);
        moved += fabs(ahead);
    }
    if (ahead != 0 || moved > MOVES_MAX(total))
        case_fail(t->c,
                  "%s: got %g samples more, %g moves between buckets, want 0 "
                  "and at most %g",
                  want->name, ahead, moved, MOVES_MAX(total));
}

/* --- running ------------------------------------------------------------- */

typedef struct series {
    size_t fetch;
    double *got;
} series;

static series watch(train_case *t, const char *var)
{
    series s = { 0 };

    if (var) {
        s.fetch = session_fetch(&t->s, var);
        s.got = pool_alloc(&t->c->pool, (size_t)t->n_steps * sizeof(double));
    }
    return s;
}

static void note(train_case *t, series *s, int64_t step)
{
    const fl_tensor *got = &t->s.fetched[s->fetch];

    if (s->got)
        s->got[step] = number_at(got->dtype, got->data, 0);
}

static bool run_steps(train_case *t, series *loss, series *auc, series *batch)
{
    for (int64_t step = 0; step < t->n_steps; step++) {
        feed_step(t, step);
        if (!session_run(&t->s))
            return false;
        note(t, loss, step);
        note(t, auc, step);
        note(t, batch, step);
        compare_params(
            t, pool_printf(&t->c->pool, "step%lld.", (long long)step + 1));
    }
    return true;
}

static void train_and_compare(train_case *t)
{
    series loss = watch(t, t->loss), auc = watch(t, t->auc);
    series batch = watch(t, t->batch_auc);

    if (!run_steps(t, &loss, &auc, &batch))
        return;
    compare_series(t, "loss", loss.got, TOLERANCE_LOSS * t->slack);
    if (auc.got)
        compare_series(t, "auc", auc.got, TOLERANCE_AUC);
    if (batch.got)
        compare_series(t, "batch_auc", batch.got, TOLERANCE_AUC);
    compare_params(t, "final.");
    for (size_t i = 0; i < t->net.n_vars; i++)
        if (t->net.vars[i].is_param)
            compare_accumulators(t, t->net.vars[i].name);
    for (size_t i = 0; i < 4; i++)
        compare_histogram(t, histograms[i]);
}

static bool divides(const train_case *t)
{
    return strcmp(t->rule.kind, "sgd") != 0 &&
           strcmp(t->rule.kind, "momentum") != 0;
}

static void run_case(train_case *t)
{
    t->n_steps = st_find(&t->c->file, "loss")->numel;
    t->tolerance =
        (divides(t) ? TOLERANCE_PARAM_DIVIDED : TOLERANCE_PARAM) * t->slack;
    adapt_network(t);
    adapt_histograms(t);
    if (!session_open(&t->s, t->c))
        return;
    if (add_network(t) && add_training(t) && set_first_values(t) &&
        check_inputs(t))
        train_and_compare(t);
    session_close(&t->s);
}

/* Says whether the rule divides by small numbers. */
static bool train(golden_case *c, fl_dtype floats, double slack)
{
    train_case t = { .c = c, .floats = floats, .slack = slack };
    cJSON *hyper = case_json(c, "hyper");

    if (!hyper)
        return false;
    c->n_failures = 0;
    if (find_network(&t) && read_network(&t) && read_shared(&t) &&
        rule_find(c, t.optimizer, hyper, &t.rule))
        run_case(&t);
    cJSON_Delete(hyper);
    return t.rule.kind && divides(&t);
}

/* --- rounding ------------------------------------------------------------- */

static bool passes(golden_case *c, fl_dtype floats, double slack)
{
    (void)train(c, floats, slack);
    return !c->n_failures;
}

/* Is all that differs the rounding of f32? */
static bool is_rounding(golden_case *c)
{
    st_file narrow = c->file;
    bool is_right;

    if (!passes(c, FL_DTYPE_F32, ROUNDING_SLACK))
        return false;
    c->file = st_widened(&narrow, &c->pool);
    is_right = passes(c, FL_DTYPE_F64, 1);
    c->file = narrow;
    return is_right;
}

void run_train(golden_case *c)
{
    bool may_be_rounding;

    c->is_quiet = true;
    may_be_rounding = train(c, FL_DTYPE_F32, 1);
    if (!c->n_failures)
        return;
    if (may_be_rounding && is_rounding(c)) {
        printf("%s: f64 is right, and f32 within %d tolerances\n", c->path,
               ROUNDING_SLACK);
        return;
    }
    c->is_quiet = false;
    (void)train(c, FL_DTYPE_F32, 1);
}
