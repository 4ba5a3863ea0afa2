/* gemm_hot.c - products with a thin side, compiled per instruction set.
 *
 * Four shapes cover all of them (gemm_hot.h). Each but that of few rows copies
 * the thin operand to the stack in the order it is read, which makes the inner
 * loops contiguous whatever the transposition was; all sum in an order that
 * does not depend on the vector width. Weights are read while other threads may
 * change them; the copies take alpha with them, so none of them is a memcpy,
 * which ThreadSanitizer would see.
 */
#include "kernel/gemm_hot.h"

#include "base/thread.h"

/* Numbers of the long side handled at once: 8 x 512 floats are 16 KB, half of
   a small first-level cache. */
#define CHUNK 512

/* Partial sums of a dot product: one vector, or two where vectors are short. */
#define LANES 8

typedef float lanes
    __attribute__((vector_size(4 * LANES), aligned(4), may_alias));

/* Columns of few rows that are added up side by side: as many as a register
   holds, in strips of as many as there are registers for: the wider they are, the
   more of B is read as it lies. Every column has sums of its own, so that how
   many there are changes no bit. */
#if defined(__AVX512F__)
#define WIDE 16
#define STRIP 12
#elif defined(__AVX2__)
#define WIDE 8
#define STRIP 4
#else
#define WIDE 4
#define STRIP 4
#endif
typedef float wide
    __attribute__((vector_size(4 * WIDE), aligned(4), may_alias));

#define INLINE static inline __attribute__((always_inline))

static int64_t least(int64_t x, int64_t y)
{
    return x < y ? x : y;
}

/* Calls fn(args..., n) with n as a constant, so that loops over the thin side
   unroll. */
#define WITH_CONSTANT(n, fn, ...)                                              \
    do {                                                                       \
        switch (n) {                                                           \
        case 1:                                                                \
            fn(__VA_ARGS__, 1);                                                \
            break;                                                             \
        case 2:                                                                \
            fn(__VA_ARGS__, 2);                                                \
            break;                                                             \
        case 3:                                                                \
            fn(__VA_ARGS__, 3);                                                \
            break;                                                             \
        case 4:                                                                \
            fn(__VA_ARGS__, 4);                                                \
            break;                                                             \
        case 5:                                                                \
            fn(__VA_ARGS__, 5);                                                \
            break;                                                             \
        case 6:                                                                \
            fn(__VA_ARGS__, 6);                                                \
            break;                                                             \
        case 7:                                                                \
            fn(__VA_ARGS__, 7);                                                \
            break;                                                             \
        default:                                                               \
            fn(__VA_ARGS__, 8);                                                \
            break;                                                             \
        }                                                                      \
    } while (0)

INLINE void put(const fl_gemm_job_f32 *job, int64_t i, int64_t j, float sum)
{
    float *c = job->c + i * job->ldc + j;

    *c = job->add ? *c + sum : sum;
}

INLINE float fold(const lanes *sum)
{
    const lanes x = *sum;

    return ((x[0] + x[4]) + (x[2] + x[6])) + ((x[1] + x[5]) + (x[3] + x[7]));
}

/* Rows [i, i + rows) of A times n packed columns: LANES sums each, folded, then
   what is left of k. */
INLINE void dot_rows(const fl_gemm_job_f32 *job, float (*pack)[CHUNK],
                     int64_t i, int rows, int n)
{
    const float *a = job->a + i * job->a_row;
    const int64_t whole = job->k - job->k % LANES;
    lanes sum[FL_GEMM_THIN] = { { 0 } };

    for (int64_t p = 0; p < whole; p += LANES)
        for (int r = 0; r < rows; r++)
            for (int j = 0; j < n; j++)
                sum[r * n + j] += *(const lanes *)(a + r * job->a_row + p) *
                                  *(const lanes *)(pack[j] + p);
    for (int r = 0; r < rows; r++)
        for (int j = 0; j < n; j++) {
            float s = fold(&sum[r * n + j]);

            for (int64_t p = whole; p < job->k; p++)
                s += a[r * job->a_row + p] * pack[j][p];
            put(job, i + r, j, s);
        }
}

/* As many rows at once as keep eight sums in registers. */
INLINE void dot_all(const fl_gemm_job_f32 *job, float (*pack)[CHUNK], int n)
{
    const int rows = FL_GEMM_THIN / n;
    int64_t i = 0;

    for (; i + rows <= job->m; i += rows)
        dot_rows(job, pack, i, rows, n);
    for (; i < job->m; i++)
        dot_rows(job, pack, i, 1, n);
}

FL_RACY
static void dot_chunk(const fl_gemm_job_f32 *job)
{
    float pack[FL_GEMM_THIN][CHUNK];

    for (int64_t j = 0; j < job->n; j++)
        for (int64_t p = 0; p < job->k; p++)
            pack[j][p] = job->alpha * job->b[p * job->b_row + j * job->b_col];
    WITH_CONSTANT(job->n, dot_all, job, pack);
}

static void dots_f32(const fl_gemm_job_f32 *job)
{
    if (job->k <= CHUNK) { /* a short job is not copied */
        dot_chunk(job);
        return;
    }
    for (int64_t lo = 0; lo < job->k; lo += CHUNK) {
        fl_gemm_job_f32 part = *job;

        part.k = least(job->k - lo, CHUNK);
        part.a += lo;
        part.b += lo * job->b_row;
        part.add = job->add || lo > 0;
        dot_chunk(&part);
    }
}

/* sum[i] += four terms, in ascending order of p. */
INLINE void add_four(float *restrict sum, const float *a, int64_t ld,
                     const float *y, int64_t m)
{
    const float *a1 = a + ld, *a2 = a1 + ld, *a3 = a2 + ld;

    for (int64_t i = 0; i < m; i++)
        sum[i] = (((sum[i] + y[0] * a[i]) + y[1] * a1[i]) + y[2] * a2[i]) +
                 y[3] * a3[i];
}

FL_RACY
static void sum_chunk(const fl_gemm_job_f32 *job)
{
    float sum[FL_GEMM_THIN][CHUNK] = { { 0 } };
    int64_t p = 0;

    for (; p + 4 <= job->k; p += 4)
        for (int64_t j = 0; j < job->n; j++) {
            const float *b = job->b + p * job->b_row + j * job->b_col;
            const float y[4] = { job->alpha * b[0], job->alpha * b[job->b_row],
                                 job->alpha * b[2 * job->b_row],
                                 job->alpha * b[3 * job->b_row] };

            add_four(sum[j], job->a + p * job->a_col, job->a_col, y, job->m);
        }
    for (; p < job->k; p++)
        for (int64_t j = 0; j < job->n; j++) {
            const float *a = job->a + p * job->a_col;
            float y = job->alpha * job->b[p * job->b_row + j * job->b_col];

            for (int64_t i = 0; i < job->m; i++)
                sum[j][i] += y * a[i];
        }
    for (int64_t i = 0; i < job->m; i++)
        for (int64_t j = 0; j < job->n; j++)
            put(job, i, j, sum[j][i]);
}

static void sums_f32(const fl_gemm_job_f32 *job)
{
    for (int64_t lo = 0; lo < job->m; lo += CHUNK) {
        fl_gemm_job_f32 part = *job;

        part.m = least(job->m - lo, CHUNK);
        part.a += lo;
        part.c += lo * job->ldc;
        sum_chunk(&part);
    }
}

/* sum[v] = x times n pieces of B's columns from j on. Terms of even and of odd
   p are added apart: no addition waits for the one before. */
INLINE void few_sums(const fl_gemm_job_f32 *job, const float *x, int64_t j,
                     wide *sum, int n)
{
    const float *b = job->b + j, *b1 = b + job->b_row;
    wide even[STRIP] = { { 0 } }, odd[STRIP] = { { 0 } };
    int64_t p = 0;

    for (; p + 2 <= job->k; p += 2, b += 2 * job->b_row, b1 += 2 * job->b_row)
        for (int v = 0; v < n; v++) {
            even[v] += x[p] * *(const wide *)(b + v * WIDE);
            odd[v] += x[p + 1] * *(const wide *)(b1 + v * WIDE);
        }
    for (int v = 0; p < job->k && v < n; v++)
        even[v] += x[p] * *(const wide *)(b + v * WIDE);
    for (int v = 0; v < n; v++)
        sum[v] = even[v] + odd[v];
}

INLINE void few_columns(const fl_gemm_job_f32 *job, const float *x, float *c,
                        int64_t j, int n)
{
    wide sum[STRIP];

    few_sums(job, x, j, sum, n);
    for (int v = 0; v < n; v++) {
        wide *to = (wide *)(c + j + v * WIDE);

        if (job->add)
            sum[v] += *to;
        *to = sum[v];
    }
}

/* The last columns, with others before them that are there already. */
INLINE void few_last(const fl_gemm_job_f32 *job, const float *x, float *c,
                     int64_t j)
{
    int64_t first = job->n - WIDE;
    wide sum[1];

    few_sums(job, x, first, sum, 1);
    for (; j < job->n; j++)
        c[j] = job->add ? c[j] + sum[0][j - first] : sum[0][j - first];
}

INLINE void few_row(const fl_gemm_job_f32 *job, const float *x, float *c)
{
    int64_t j = 0;

    for (; j + STRIP * WIDE <= job->n; j += STRIP * WIDE)
        few_columns(job, x, c, j, STRIP);
    for (; j + 4 * WIDE <= job->n; j += 4 * WIDE)
        few_columns(job, x, c, j, 4);
    for (; j + 2 * WIDE <= job->n; j += 2 * WIDE)
        few_columns(job, x, c, j, 2);
    for (; j + WIDE <= job->n; j += WIDE)
        few_columns(job, x, c, j, 1);
    if (j < job->n)
        few_last(job, x, c, j);
}

FL_RACY
static void few_chunk(const fl_gemm_job_f32 *job)
{
    for (int64_t i = 0; i < job->m; i++) {
        const float *a = job->a + i * job->a_row;
        float x[CHUNK];

        for (int64_t p = 0; p < job->k; p++)
            x[p] = job->alpha * a[p * job->a_col];
        few_row(job, x, job->c + i * job->ldc);
    }
}

static void few_f32(const fl_gemm_job_f32 *job)
{
    if (job->k <= CHUNK) { /* a short job is not copied */
        few_chunk(job);
        return;
    }
    for (int64_t lo = 0; lo < job->k; lo += CHUNK) {
        fl_gemm_job_f32 part = *job;

        part.k = least(job->k - lo, CHUNK);
        part.a += lo * job->a_col;
        part.b += lo * job->b_row;
        part.add = job->add || lo > 0;
        few_chunk(&part);
    }
}

#define TERMS(T, t)                                                            \
    INLINE void term_row_##t(T *restrict c, const T *x, T(*pack)[CHUNK],       \
                             int64_t n, bool add, int k)                       \
    {                                                                          \
        for (int64_t j = 0; j < n; j++) {                                      \
            T s = x[0] * pack[0][j];                                           \
                                                                               \
            for (int p = 1; p < k; p++)                                        \
                s += x[p] * pack[p][j];                                        \
            c[j] = add ? c[j] + s : s;                                         \
        }                                                                      \
    }                                                                          \
    INLINE void term_rows_##t(const fl_gemm_job_##t *job, T(*pack)[CHUNK],     \
                              int k)                                           \
    {                                                                          \
        for (int64_t i = 0; i < job->m; i++) {                                 \
            const T *a = job->a + i * job->a_row;                              \
            T *c = job->c + i * job->ldc;                                      \
            T x[FL_GEMM_THIN];                                                 \
                                                                               \
            for (int p = 0; p < k; p++)                                        \
                x[p] = a[p * job->a_col];                                      \
            if (job->add)                                                      \
                term_row_##t(c, x, pack, job->n, true, k);                     \
            else                                                               \
                term_row_##t(c, x, pack, job->n, false, k);                    \
        }                                                                      \
    }                                                                          \
    FL_RACY                                                                    \
    static void term_chunk_##t(const fl_gemm_job_##t *job)                     \
    {                                                                          \
        T pack[FL_GEMM_THIN][CHUNK];                                           \
                                                                               \
        for (int64_t p = 0; p < job->k; p++)                                   \
            for (int64_t j = 0; j < job->n; j++)                               \
                pack[p][j] =                                                   \
                    job->alpha * job->b[p * job->b_row + j * job->b_col];      \
        WITH_CONSTANT(job->k, term_rows_##t, job, pack);                       \
    }                                                                          \
    static void terms_##t(const fl_gemm_job_##t *job)                          \
    {                                                                          \
        for (int64_t lo = 0; lo < job->n; lo += CHUNK) {                       \
            fl_gemm_job_##t part = *job;                                       \
                                                                               \
            part.n = least(job->n - lo, CHUNK);                                \
            part.b += lo * job->b_col;                                         \
            part.c += lo;                                                      \
            term_chunk_##t(&part);                                             \
        }                                                                      \
    }

TERMS(float, f32)
TERMS(double, f64)

const fl_gemm_hot_table FL_ISA_NAME(fl_gemm_hot_table_of) = {
    .dots_f32 = dots_f32,
    .sums_f32 = sums_f32,
    .few_f32 = few_f32,
    .terms_f32 = terms_f32,
    .terms_f64 = terms_f64,
};
