/* run_metric.c - AUC cases: batch after batch, over all and over the last
 * few, with the histograms at the end. */
#include "compare.h"
#include "describe.h"
#include "session.h"

#include <string.h>

#define TOLERANCE_AUC 1e-12

typedef struct metric_case {
    golden_case *c;
    session s;
    const st_tensor *p, *label, *lod0;
    size_t auc, batch_auc; /* indices of what is fetched */
} metric_case;

static const char *const states[] = { "stat_pos", "stat_neg", "batch_stat_pos",
                                      "batch_stat_neg" };

#define N_STATES (sizeof(states) / sizeof(states[0]))

/* The histograms start empty, in the shapes of the recorded ones. */
static bool add_states(metric_case *m)
{
    for (size_t i = 0; i < N_STATES; i++) {
        const st_tensor *end = st_find(&m->c->file, "out.%s", states[i]);
        fl_tensor t;

        if (!end) {
            case_fail(m->c, "the case has no tensor out.%s", states[i]);
            return false;
        }
        t = st_view(end);
        t.data = pool_alloc(&m->c->pool,
                            (size_t)end->numel * fl_dtype_bytes(end->dtype));
        if (!session_keep(&m->s, states[i], &t))
            return false;
    }
    return true;
}

/* One batch: probabilities of both classes, and labels. */
static void batch_of(metric_case *m, int64_t i, fl_tensor *predict,
                     fl_tensor *label)
{
    int64_t lo = (int64_t)st_at(m->lod0, i);
    int64_t n = (int64_t)st_at(m->lod0, i + 1) - lo;
    const float *p = (const float *)m->p->data + lo;
    float *both = pool_alloc(&m->c->pool, (size_t)(2 * n) * sizeof(float));

    for (int64_t k = 0; k < n; k++) {
        both[2 * k] = 1 - p[k];
        both[2 * k + 1] = p[k];
    }
    *predict = fl_tensor_of(FL_DTYPE_F32, both, 2, (int64_t[]){ n, 2 });
    *label = fl_tensor_of(FL_DTYPE_I64, (int64_t *)m->label->data + lo, 2,
                          (int64_t[]){ n, 1 });
}

static void add_auc(metric_case *m, const char *prefix, const char *out,
                    const op_info *info, const op_attr *attrs, size_t n)
{
    text_addf(&m->s.lines,
              "op auc (Predict=predict, Label=label, StatPos=%sstat_pos, "
              "StatNeg=%sstat_neg) -> (AUC=%s, StatPosOut=%sstat_pos, "
              "StatNegOut=%sstat_neg)",
              prefix, prefix, out, prefix, prefix);
    attrs_to_text(m->c, "auc", info, attrs, n, &m->s.lines);
    text_addf(&m->s.lines, "\n");
}

/* The form over all batches has no ring: slide_steps 0. */
static bool add_program(metric_case *m)
{
    cJSON *json = case_json(m->c, "attrs");
    op_attr *attrs = NULL;
    size_t n = 0;
    op_info info;

    if (!json)
        return false;
    attrs_from_json(&m->c->pool, json, &attrs, &n);
    cJSON_Delete(json);
    if (!describe_op(m->c, "auc", &info))
        return false;
    add_auc(m, "batch_", "out.batch_auc", &info, attrs, n);
    for (size_t i = 0; i < n; i++)
        if (!strcmp(attrs[i].name, "slide_steps"))
            attrs[i].value = "0";
    add_auc(m, "", "out.auc", &info, attrs, n);
    m->auc = session_fetch(&m->s, "out.auc");
    m->batch_auc = session_fetch(&m->s, "out.batch_auc");
    return m->c->n_failures == 0;
}

static void declare_batches(metric_case *m)
{
    fl_tensor predict, label;

    batch_of(m, 0, &predict, &label);
    predict.shape.dim[0] = -1;
    label.shape.dim[0] = -1;
    session_feed(&m->s, "predict", &predict);
    session_feed(&m->s, "label", &label);
}

static void compare_series(metric_case *m, const char *name, const double *got,
                           int64_t n)
{
    const st_tensor *want = st_find(&m->c->file, "%s", name);

    if (!want || want->numel != n || want->dtype != FL_DTYPE_F64)
        case_fail(m->c, "the case has no f64 %s of every batch", name);
    else
        compare_numbers(m->c, name, got, want->data, n, TOLERANCE_AUC);
}

static void compare_states(metric_case *m)
{
    for (size_t i = 0; i < N_STATES; i++) {
        const st_tensor *want = st_find(&m->c->file, "out.%s", states[i]);
        fl_tensor got;

        if (session_get(&m->s, states[i], &got))
            compare_tensor(m->c, want->name, &got, want, 0);
    }
}

static void run_batches(metric_case *m)
{
    int64_t n = m->lod0->numel - 1;
    double *auc = pool_alloc(&m->c->pool, (size_t)n * sizeof(double));
    double *batch = pool_alloc(&m->c->pool, (size_t)n * sizeof(double));

    for (int64_t i = 0; i < n; i++) {
        const fl_tensor *got;

        batch_of(m, i, &m->s.feeds[0].value, &m->s.feeds[1].value);
        if (!session_run(&m->s))
            return;
        got = &m->s.fetched[m->auc];
        auc[i] = number_at(got->dtype, got->data, 0);
        got = &m->s.fetched[m->batch_auc];
        batch[i] = number_at(got->dtype, got->data, 0);
    }
    compare_series(m, "out.auc", auc, n);
    compare_series(m, "out.batch_auc", batch, n);
    compare_states(m);
}

void run_metric(golden_case *c)
{
    metric_case m = { .c = c };

    m.p = st_find(&c->file, "in.p");
    m.label = st_find(&c->file, "in.label");
    m.lod0 = st_find(&c->file, "in.lod0");
    if (!m.label || !m.lod0 || m.lod0->numel < 2 ||
        m.p->dtype != FL_DTYPE_F32 || m.label->dtype != FL_DTYPE_I64 ||
        !st_is_offsets(m.lod0, m.p->numel) || m.label->numel != m.p->numel) {
        case_fail(c, "in.p, in.label and in.lod0 do not fit");
        return;
    }
    if (!session_open(&m.s, c))
        return;
    declare_batches(&m);
    if (add_states(&m) && add_program(&m) && session_build(&m.s))
        run_batches(&m);
    session_close(&m.s);
}
