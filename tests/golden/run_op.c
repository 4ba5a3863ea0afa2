/* run_op.c - operator cases: one operator, its outputs and its gradient.
 *
 * The program holds the operator and, where the case has gradients, its
 * gradient operator, as autodiff would write them:
 *
 *     op relu (X=in.X) -> (Out=out.Out)
 *     op relu_grad (X=in.X, Out=out.Out, Out@GRAD=grad.out.Out)
 *         -> (X@GRAD=grad.in.X) @backward
 *
 * A random operator is not compared number by number: the outputs it draws
 * are taken from the case for the gradient, and the others are computed again
 * from what our own run drew.
 */
#include "compare.h"
#include "describe.h"
#include "session.h"

#include <ctype.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#define TOLERANCE_OUTPUT 1e-5
#define TOLERANCE_GRADIENT 2e-5

#define LEN(a) (sizeof(a) / sizeof((a)[0]))

/* Operators that move, compare or count: their outputs are exact. The second
   column says so of gradients, where nothing is added up. */
static const struct {
    const char *op;
    bool gradient_too;
} exact_ops[] = {
    { "accuracy", false },
    { "arg_max", false },
    { "assign", true },
    { "cast", true },
    { "concat", true },
    { "elementwise_max", false },
    { "elementwise_min", false },
    { "expand", false },
    { "fill_constant", false },
    { "fill_constant_batch_size_like", false },
    { "fill_zeros_like", false },
    { "flatten2", true },
    { "gather", false },
    { "lookup_table", false },
    { "lookup_table_v2", false },
    { "one_hot", false },
    { "one_hot_v2", false },
    { "print", true },
    { "reduce_max", false },
    { "reduce_min", false },
    { "relu", true },
    { "reshape2", true },
    { "sequence_concat", true },
    { "sequence_expand", false },
    { "sequence_pad", false },
    { "sequence_reverse", true },
    { "sequence_unpad", true },
    { "sign", false },
    { "slice", true },
    { "split", true },
    { "squeeze2", true },
    { "stack", true },
    { "top_k", true },
    { "transpose2", true },
    { "unsqueeze2", true },
};

static const char *const random_ops[] = {
    "uniform_random",
    "gaussian_random",
    "truncated_gaussian_random",
};

static double tolerance_of(const char *op, bool gradient)
{
    for (size_t i = 0; i < LEN(exact_ops); i++)
        if (!strcmp(exact_ops[i].op, op) &&
            (!gradient || exact_ops[i].gradient_too))
            return 0;
    return gradient ? TOLERANCE_GRADIENT : TOLERANCE_OUTPUT;
}

/* --- the tensors of a case ----------------------------------------------- */

/* One variable of a slot: in.X, in.X.1, in.X.rows + in.X.values, ... */
typedef struct arg {
    const char *slot;
    int index;       /* in a list; -1 when the slot takes one variable */
    const char *var; /* its name in our program */
    const char *tensor_name; /* in the case; NULL when it has none */
    const st_tensor *dense, *rows, *values, *lod[FL_LOD_MAX];
    size_t fetch;
} arg;

typedef struct args {
    arg *a;
    size_t n;
} args;

typedef struct op_case {
    golden_case *c;
    session s;
    const char *op;
    op_info info;
    op_attr *attrs;
    size_t n_attrs;
    args in, out, d_out, d_in;
} op_case;

static arg *find_arg(const args *list, const char *slot, int index)
{
    for (size_t i = 0; i < list->n; i++)
        if (!strcmp(list->a[i].slot, slot) && list->a[i].index == index)
            return &list->a[i];
    return NULL;
}

static bool put_part(arg *a, const char *part, const st_tensor *t)
{
    if (!*part)
        a->dense = t;
    else if (!strcmp(part, ".rows"))
        a->rows = t;
    else if (!strcmp(part, ".values"))
        a->values = t;
    else if (!strcmp(part, ".lod0"))
        a->lod[0] = t;
    else if (!strcmp(part, ".lod1"))
        a->lod[1] = t;
    else
        return false;
    return true;
}

/* Sorts the tensors called PREFIX.SLOT[.INDEX][.PART] into arguments. */
static bool collect(op_case *o, const char *prefix, args *out)
{
    pool *p = &o->c->pool;
    size_t n_prefix = strlen(prefix);

    for (size_t i = 0; i < o->c->file.n_tensors; i++) {
        const st_tensor *t = &o->c->file.tensors[i];
        const char *at = t->name + n_prefix;
        arg fresh = { .index = -1 }, *a;
        char *end;

        if (strncmp(t->name, prefix, n_prefix))
            continue;
        fresh.slot = pool_strndup(p, at, strcspn(at, "."));
        at += strlen(fresh.slot);
        if (at[0] == '.' && isdigit((unsigned char)at[1])) {
            fresh.index = (int)strtol(at + 1, &end, 10);
            at = end;
        }
        fresh.tensor_name = pool_strndup(p, t->name, (size_t)(at - t->name));
        fresh.var = fresh.tensor_name;
        a = find_arg(out, fresh.slot, fresh.index);
        if (!a) {
            POOL_PUSH(p, out->a, out->n, fresh);
            a = &out->a[out->n - 1];
        }
        if (!put_part(a, at, t)) {
            case_fail(o->c, "tensor %s has a name no case knows", t->name);
            return false;
        }
    }
    return true;
}

/* The tensor that is fed for an argument. */
static fl_tensor fed_value(golden_case *c, const arg *a)
{
    const char *height;
    fl_tensor t;

    if (a->rows && a->values) {
        t = st_view(a->values);
        t.kind = FL_KIND_ROWS;
        t.rows = a->rows->data;
        height = st_meta_find(
            &c->file, pool_printf(&c->pool, "height.%s", a->tensor_name));
        t.height = height ? strtoll(height, NULL, 10) : 0;
        return t;
    }
    t = st_view(a->dense);
    for (int i = 0; i < FL_LOD_MAX && a->lod[i]; i++) {
        t.kind = FL_KIND_RAGGED;
        t.n_lod = i + 1;
        t.lod[i] = a->lod[i]->data;
        t.lod_len[i] = a->lod[i]->numel;
    }
    return t;
}

/* --- the program --------------------------------------------------------- */

/* Number of variables a slot has in a list of arguments. */
static int slot_len(const args *list, const char *slot)
{
    int n = 0;

    for (size_t i = 0; i < list->n; i++)
        if (!strcmp(list->a[i].slot, slot))
            n = list->a[i].index + 1 > n ? list->a[i].index + 1 : n;
    return n;
}

/* "Slot=name" or "Slot=[a,b]", with gaps where the case has no tensor; `len`
   is the length of the list, 0 for a slot that takes one variable. */
static void add_slot(text *line, const args *list, const char *slot,
                     const char *suffix, int len, const char **before)
{
    const arg *one = find_arg(list, slot, -1);

    if (!one && !slot_len(list, slot))
        return;
    text_addf(line, "%s%s%s=", *before, slot, suffix);
    *before = ", ";
    if (one) {
        text_addf(line, "%s", one->var);
        return;
    }
    for (int i = 0; i < len; i++) {
        const arg *a = find_arg(list, slot, i);

        text_addf(line, "%s%s", i ? "," : "[", a ? a->var : "@EMPTY@");
    }
    text_addf(line, "]");
}

static void add_slots(text *line, const args *list, const args *like,
                      const char *suffix, const char **before)
{
    for (size_t i = 0; i < list->n; i++) {
        const arg *a = &list->a[i];
        bool first = true;

        for (size_t j = 0; j < i; j++)
            first = first && strcmp(list->a[j].slot, a->slot);
        if (first)
            add_slot(line, list, a->slot, suffix, slot_len(like, a->slot),
                     before);
    }
}

static bool add_forward(op_case *o)
{
    text *line = &o->s.lines;
    const char *before = "";

    text_addf(line, "op %s (", o->op);
    add_slots(line, &o->in, &o->in, "", &before);
    text_addf(line, ") -> (");
    before = "";
    add_slots(line, &o->out, &o->out, "", &before);
    text_addf(line, ")");
    if (!attrs_to_text(o->c, o->op, &o->info, o->attrs, o->n_attrs, line))
        return false;
    text_addf(line, "\n");
    return true;
}

static bool add_backward(op_case *o)
{
    text *line = &o->s.lines;
    const char *before = "";

    text_addf(line, "op %s_grad (", o->op);
    add_slots(line, &o->in, &o->in, "", &before);
    add_slots(line, &o->out, &o->out, "", &before);
    add_slots(line, &o->d_out, &o->out, "@GRAD", &before);
    text_addf(line, ") -> (");
    before = "";
    add_slots(line, &o->d_in, &o->in, "@GRAD", &before);
    text_addf(line, ")");
    if (!attrs_to_text(o->c, o->op, &o->info, o->attrs, o->n_attrs, line))
        return false;
    text_addf(line, " @backward\n");
    return true;
}

/* Outputs that the case does not have are given a name all the same: the
   gradient may need them. */
static void add_missing_outputs(op_case *o)
{
    for (size_t i = 0; i < o->info.n_out; i++) {
        arg a = { .slot = o->info.out[i], .index = -1 };

        if (find_arg(&o->out, a.slot, -1) || slot_len(&o->out, a.slot))
            continue;
        a.var = pool_printf(&o->c->pool, "out.%s", a.slot);
        POOL_PUSH(&o->c->pool, o->out.a, o->out.n, a);
    }
}

/* An output called XOut beside an input X is X itself, changed in place. */
static void bind_state(op_case *o)
{
    for (size_t i = 0; i < o->out.n; i++) {
        arg *a = &o->out.a[i];
        size_t n = strlen(a->slot);
        const arg *in;

        if (n < 4 || strcmp(a->slot + n - 3, "Out"))
            continue;
        in = find_arg(&o->in, pool_strndup(&o->c->pool, a->slot, n - 3), -1);
        if (in)
            a->var = in->var;
    }
}

static bool is_state(const op_case *o, const arg *in)
{
    for (size_t i = 0; i < o->out.n; i++)
        if (!strcmp(o->out.a[i].var, in->var))
            return true;
    return false;
}

static bool feed_all(op_case *o, const args *list)
{
    for (size_t i = 0; i < list->n; i++) {
        const arg *a = &list->a[i];
        fl_tensor t;

        if (!a->dense && !(a->rows && a->values)) {
            if (!a->tensor_name)
                continue;
            case_fail(o->c, "tensor %s has no values", a->tensor_name);
            return false;
        }
        t = fed_value(o->c, a);
        if (list == &o->in && is_state(o, a)) {
            if (!session_keep(&o->s, a->var, &t))
                return false;
        } else {
            session_feed(&o->s, a->var, &t);
        }
    }
    return true;
}

static void fetch_all(op_case *o, args *list)
{
    for (size_t i = 0; i < list->n; i++)
        if (list->a[i].tensor_name)
            list->a[i].fetch = session_fetch(&o->s, list->a[i].var);
}

/* --- comparing ----------------------------------------------------------- */

/* Among equal values the order of top_k is open: another index is right when
   the input has the same number there. */
static bool is_open_order(op_case *o, const arg *a, const fl_tensor *got)
{
    const arg *x = find_arg(&o->in, "X", -1);
    int64_t k, width, n;

    if (strcmp(o->op, "top_k") || strcmp(a->slot, "Indices") || !x ||
        !x->dense || !x->dense->rank || !a->dense->rank ||
        got->dtype != a->dense->dtype ||
        fl_tensor_numel(got) != a->dense->numel || !a->dense->numel)
        return false;
    k = a->dense->dims[a->dense->rank - 1];
    width = x->dense->dims[x->dense->rank - 1];
    n = x->dense->numel;
    for (int64_t i = 0; i < a->dense->numel; i++) {
        int64_t row = i / k * width;
        int64_t mine = (int64_t)number_at(got->dtype, got->data, i);
        int64_t theirs = (int64_t)st_at(a->dense, i);

        if (mine < 0 || mine >= width || theirs < 0 || theirs >= width ||
            row + width > n ||
            st_at(x->dense, row + mine) != st_at(x->dense, row + theirs))
            return false;
    }
    return true;
}

static void compare_arg(op_case *o, const arg *a, double tolerance)
{
    const fl_tensor *got = &o->s.fetched[a->fetch];

    if (a->rows && a->values)
        compare_rows(o->c, a->tensor_name, got, a->rows, a->values, tolerance);
    else if (a->dense && !is_open_order(o, a, got))
        compare_tensor(o->c, a->tensor_name, got, a->dense, tolerance);
    for (int i = 0; i < FL_LOD_MAX; i++)
        if (a->lod[i])
            compare_offsets(o->c, a->lod[i]->name, got, i, a->lod[i]);
}

static void compare_all(op_case *o, const args *list, double tolerance)
{
    for (size_t i = 0; i < list->n; i++)
        if (list->a[i].tensor_name)
            compare_arg(o, &list->a[i], tolerance);
}

/* --- cases of one kind and another --------------------------------------- */

static void run_plain(op_case *o)
{
    add_missing_outputs(o);
    bind_state(o);
    if (!feed_all(o, &o->in) || !feed_all(o, &o->d_out) || !add_forward(o))
        return;
    if (o->d_in.n && !add_backward(o))
        return;
    fetch_all(o, &o->out);
    fetch_all(o, &o->d_in);
    if (!session_build(&o->s) || !session_run(&o->s))
        return;
    compare_all(o, &o->out, tolerance_of(o->op, false));
    compare_all(o, &o->d_in, tolerance_of(o->op, true));
}

static void run_random(op_case *o)
{
    if (!add_forward(o))
        return;
    fetch_all(o, &o->out);
    if (!session_build(&o->s) || !session_run(&o->s))
        return;
    for (size_t i = 0; i < o->out.n; i++) {
        const arg *a = &o->out.a[i];
        const fl_tensor *t = &o->s.fetched[a->fetch];
        sample got, want;

        if (!a->dense)
            continue;
        got = sample_of(t->dtype, t->data, fl_tensor_numel(t));
        want = sample_of(a->dense->dtype, a->dense->data, a->dense->numel);
        compare_samples(o->c, a->tensor_name, &got, &want);
    }
}

/* Out = X * Mask, or X * Mask / (1 - p) where training scales up. */
static void compare_dropped(op_case *o, const fl_tensor *out,
                            const fl_tensor *mask)
{
    const op_attr *p_attr = find_attr(o->attrs, o->n_attrs, "dropout_prob");
    const op_attr *how =
        find_attr(o->attrs, o->n_attrs, "dropout_implementation");
    double p = p_attr ? strtod(p_attr->value, NULL) : 0.5;
    bool up = how && strstr(how->value, "upscale_in_train");
    const st_tensor *x = find_arg(&o->in, "X", -1)->dense;
    double *got = pool_alloc(&o->c->pool, (size_t)x->numel * sizeof(double));
    double *want = pool_alloc(&o->c->pool, (size_t)x->numel * sizeof(double));
    double kept = 0, n = (double)x->numel;

    if (fl_tensor_numel(out) != x->numel || fl_tensor_numel(mask) != x->numel) {
        case_fail(o->c, "out.Out: the outputs are not as large as in.X");
        return;
    }
    for (int64_t i = 0; i < x->numel; i++) {
        double keep = number_at(mask->dtype, mask->data, i);

        if (keep != 0 && keep != 1)
            case_fail(o->c, "out.Mask: got %g, want 0 or 1", keep);
        kept += keep;
        got[i] = number_at(out->dtype, out->data, i);
        want[i] = st_at(x, i) * keep / (up && p < 1 ? 1 - p : 1);
    }
    compare_numbers(o->c, "out.Out", got, want, x->numel, TOLERANCE_OUTPUT);
    if (fabs(kept - n * (1 - p)) > 5 * sqrt(n * p * (1 - p)))
        case_fail(o->c, "out.Mask: got %g ones of %g, want a share of %g", kept,
                  n, 1 - p);
}

static void run_dropout_forward(op_case *o)
{
    arg *out = find_arg(&o->out, "Out", -1);
    arg *mask = find_arg(&o->out, "Mask", -1);

    if (!session_open(&o->s, o->c))
        return;
    if (feed_all(o, &o->in) && add_forward(o)) {
        fetch_all(o, &o->out);
        if (session_build(&o->s) && session_run(&o->s))
            compare_dropped(o, &o->s.fetched[out->fetch],
                            &o->s.fetched[mask->fetch]);
    }
    session_close(&o->s);
}

/* The gradient alone, from the recorded mask. */
static void run_dropout_backward(op_case *o)
{
    if (!session_open(&o->s, o->c))
        return;
    if (feed_all(o, &o->in) && feed_all(o, &o->out) && feed_all(o, &o->d_out) &&
        add_backward(o)) {
        fetch_all(o, &o->d_in);
        if (session_build(&o->s) && session_run(&o->s))
            compare_all(o, &o->d_in, tolerance_of(o->op, true));
    }
    session_close(&o->s);
}

static bool is_random(const char *op)
{
    for (size_t i = 0; i < LEN(random_ops); i++)
        if (!strcmp(random_ops[i], op))
            return true;
    return false;
}

static void run_case(op_case *o)
{
    const arg *x = find_arg(&o->in, "X", -1);
    bool draws = !strcmp(o->op, "dropout") && x && x->dense &&
                 find_arg(&o->out, "Out", -1) && find_arg(&o->out, "Mask", -1);

    if (draws) {
        run_dropout_forward(o);
        if (o->d_in.n)
            run_dropout_backward(o);
        return;
    }
    if (!session_open(&o->s, o->c))
        return;
    if (is_random(o->op))
        run_random(o);
    else
        run_plain(o);
    session_close(&o->s);
}

void run_op(golden_case *c)
{
    op_case o = { .c = c, .op = st_meta_find(&c->file, "op") };
    cJSON *attrs;

    if (!describe_op(c, o.op, &o.info))
        return;
    attrs = case_json(c, "attrs");
    if (!attrs)
        return;
    attrs_from_json(&c->pool, attrs, &o.attrs, &o.n_attrs);
    cJSON_Delete(attrs);
    if (collect(&o, "in.", &o.in) && collect(&o, "out.", &o.out) &&
        collect(&o, "grad.out.", &o.d_out) && collect(&o, "grad.in.", &o.d_in))
        run_case(&o);
}
