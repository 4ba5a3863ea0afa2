/* compare.c - our numbers against the recorded ones. */
#include "compare.h"

#include <inttypes.h>
#include <math.h>

/* A table that is added up must fit in memory. */
#define ROWS_NUMEL_MAX (64l << 20)

#define SIGMAS 5

double number_at(fl_dtype dtype, const void *data, int64_t i)
{
    switch (dtype) {
#define X(name, value, type, short_text, long_text)                            \
    case FL_DTYPE_##name:                                                      \
        return (double)((const type *)data)[i];
        FL_DTYPE_PLAIN_MAP(X)
#undef X
    case FL_DTYPE_F16:
        return (double)fl_half_value(((const uint16_t *)data)[i]);
    }
    return NAN;
}

/* Infinities of one sign are equal, and so are numbers that are none. */
double number_error(double got, double want)
{
    double error;

    if (got == want || (isnan(got) && isnan(want)))
        return 0;
    error = fabs(got - want) / fmax(1, fabs(want));
    return isfinite(error) ? error : INFINITY;
}

/* The worst element of a comparison, element by element. */
typedef struct worst {
    int64_t index, n_wrong;
    double got, want, error;
} worst;

static void look_at(worst *w, int64_t i, double got, double want,
                    double tolerance)
{
    double error = number_error(got, want);

    if (error <= tolerance)
        return;
    if (!w->n_wrong++ || error > w->error) {
        w->index = i;
        w->got = got;
        w->want = want;
        w->error = error;
    }
}

static void report(golden_case *c, const char *name, const worst *w)
{
    if (w->n_wrong)
        case_fail(c,
                  "%s[%" PRId64 "]: got %.9g, want %.9g, error %.3g "
                  "(%" PRId64 " wrong)",
                  name, w->index, w->got, w->want, w->error, w->n_wrong);
}

void compare_numbers(golden_case *c, const char *name, const double *got,
                     const double *want, int64_t n, double tolerance)
{
    worst w = { 0 };

    for (int64_t i = 0; i < n; i++)
        look_at(&w, i, got[i], want[i], tolerance);
    report(c, name, &w);
}

static const char *shape_text(pool *p, int rank, const int64_t *dims)
{
    text t = { .pool = p };

    text_addf(&t, "[");
    for (int i = 0; i < rank; i++)
        text_addf(&t, "%s%" PRId64, i ? "," : "", dims[i]);
    text_addf(&t, "]");
    return t.s;
}

static bool same_shape(const fl_tensor *got, const st_tensor *want)
{
    if (got->shape.rank != want->rank)
        return false;
    for (int i = 0; i < want->rank; i++)
        if (got->shape.dim[i] != want->dims[i])
            return false;
    return true;
}

static bool is_float(fl_dtype d)
{
    return d == FL_DTYPE_F32 || d == FL_DTYPE_F64;
}

void compare_tensor(golden_case *c, const char *name, const fl_tensor *got,
                    const st_tensor *want, double tolerance)
{
    worst w = { 0 };

    if (got->kind == FL_KIND_ROWS) {
        case_fail(c, "%s: got rows + values, want a dense tensor", name);
        return;
    }
    if (got->dtype != want->dtype || !same_shape(got, want)) {
        case_fail(c, "%s: got %s%s, want %s%s", name, fl_dtype_text(got->dtype),
                  shape_text(&c->pool, got->shape.rank, got->shape.dim),
                  fl_dtype_text(want->dtype),
                  shape_text(&c->pool, want->rank, want->dims));
        return;
    }
    if (!is_float(want->dtype))
        tolerance = 0;
    for (int64_t i = 0; i < want->numel; i++)
        look_at(&w, i, number_at(got->dtype, got->data, i), st_at(want, i),
                tolerance);
    report(c, name, &w);
}

void compare_offsets(golden_case *c, const char *name, const fl_tensor *got,
                     int level, const st_tensor *want)
{
    worst w = { 0 };

    if (got->n_lod <= level || got->lod_len[level] != want->numel) {
        case_fail(c, "%s: got %" PRId64 " offsets of level %d, want %" PRId64,
                  name, got->n_lod > level ? got->lod_len[level] : 0, level,
                  want->numel);
        return;
    }
    for (int64_t i = 0; i < want->numel; i++)
        look_at(&w, i, (double)got->lod[level][i], st_at(want, i), 0);
    report(c, name, &w);
}

/* --- rows + values ------------------------------------------------------- */

static void add_up(double *sum, int64_t width, double row, fl_dtype dtype,
                   const void *values, int64_t i)
{
    for (int64_t j = 0; j < width; j++)
        sum[(int64_t)row * width + j] +=
            number_at(dtype, values, i * width + j);
}

void compare_rows(golden_case *c, const char *name, const fl_tensor *got,
                  const st_tensor *rows, const st_tensor *values,
                  double tolerance)
{
    int64_t n_got = got->shape.dim[0];
    int64_t width = rows->numel ? values->numel / rows->numel : 0;
    int64_t height = 0;
    double lowest = 0;
    double *sum_got, *sum_want;

    if (got->kind != FL_KIND_ROWS) {
        case_fail(c, "%s: got a dense tensor, want rows + values", name);
        return;
    }
    if (n_got && rows->numel && fl_tensor_numel(got) / n_got != width) {
        case_fail(c, "%s: got rows of %" PRId64 " numbers, want %" PRId64, name,
                  fl_tensor_numel(got) / n_got, width);
        return;
    }
    for (int64_t i = 0; i < n_got; i++)
        if ((int64_t)got->rows[i] >= height)
            height = (int64_t)got->rows[i] + 1;
    for (int64_t i = 0; i < rows->numel; i++) {
        lowest = fmin(lowest, st_at(rows, i));
        if (st_at(rows, i) >= (double)height)
            height = (int64_t)st_at(rows, i) + 1;
    }
    if (lowest < 0 || height > ROWS_NUMEL_MAX / (width ? width : 1)) {
        case_fail(c, "%s: its rows cannot be added up", name);
        return;
    }
    sum_got = pool_alloc(&c->pool, (size_t)(height * width) * sizeof(double));
    sum_want = pool_alloc(&c->pool, (size_t)(height * width) * sizeof(double));
    for (int64_t i = 0; i < n_got; i++)
        add_up(sum_got, width, (double)got->rows[i], got->dtype, got->data, i);
    for (int64_t i = 0; i < rows->numel; i++)
        add_up(sum_want, width, st_at(rows, i), values->dtype, values->data, i);
    compare_numbers(c, name, sum_got, sum_want, height * width, tolerance);
}

/* --- samples ------------------------------------------------------------- */

sample sample_of(fl_dtype dtype, const void *data, int64_t n)
{
    sample s = { .n = (double)n, .min = INFINITY, .max = -INFINITY };
    double squares = 0;

    for (int64_t i = 0; i < n; i++) {
        double v = number_at(dtype, data, i);

        s.mean += v / (double)n;
        s.min = fmin(s.min, v);
        s.max = fmax(s.max, v);
    }
    for (int64_t i = 0; i < n; i++) {
        double d = number_at(dtype, data, i) - s.mean;

        squares += d * d;
    }
    s.deviation = n ? sqrt(squares / (double)n) : 0;
    return s;
}

void compare_samples(golden_case *c, const char *name, const sample *got,
                     const sample *want)
{
    double spread = want->deviation * sqrt(1 / got->n + 1 / want->n);
    /* A constant has no sampling error, but its mean is rounded. */
    double slack = 1e-6 * fmax(1, fabs(want->mean));

    if (fabs(got->mean - want->mean) > SIGMAS * spread + slack)
        case_fail(c, "%s: mean: got %.6g, want %.6g, error %.3g", name,
                  got->mean, want->mean, fabs(got->mean - want->mean));
    if (fabs(got->deviation - want->deviation) >
        SIGMAS * spread / sqrt(2) + slack)
        case_fail(c, "%s: deviation: got %.6g, want %.6g, error %.3g", name,
                  got->deviation, want->deviation,
                  fabs(got->deviation - want->deviation));
}
