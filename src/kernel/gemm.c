/* gemm.c - cuts products into what the library or our own loops do best.
 *
 * A product with at most FL_GEMM_THIN columns or terms is one call of our
 * loops, and so is one of few rows. Any other f32 product goes to the library; without one, and for f64,
 * it is cut into blocks of C that stay in the cache while k runs over them in
 * steps of FL_GEMM_THIN terms.
 */
#include "kernel/gemm.h"

#include <stdbool.h>

#include "kernel/gemm_hot.h"
#include "kernel/isa.h"

#if FL_GEMM_ONEDNN
#include "kernel/onednn.h"
#endif

/* Rows and columns of C per block: 64 x 512 floats are 128 KB, which a
   second-level cache holds. */
#define BLOCK_M 64
#define BLOCK_N 512

/* From here on the long side of a thin product pays for our loops. */
#define LONG 32

/* As many rows of A at most are few. */
#define FEW 1

#define DECLARE(name, isa) extern const fl_gemm_hot_table name##_##isa;
#define ADDR(name, isa) &name##_##isa,

FL_ISA_MAP(DECLARE, fl_gemm_hot_table_of)

static const fl_gemm_hot_table *hot(void)
{
    static const fl_gemm_hot_table *const sets[] = { FL_ISA_MAP(
        ADDR, fl_gemm_hot_table_of) };

    return sets[fl_isa()];
}

static int64_t least(int64_t x, int64_t y)
{
    return x < y ? x : y;
}

#define BLOCKED(T, t)                                                          \
    static fl_gemm_job_##t job_##t(const fl_gemm_shape *s, T alpha,            \
                                   const T *a, const T *b, T beta, T *c)       \
    {                                                                          \
        return (fl_gemm_job_##t){                                              \
            .m = s->m,                                                         \
            .n = s->n,                                                         \
            .k = s->k,                                                         \
            .a = a,                                                            \
            .b = b,                                                            \
            .c = c,                                                            \
            .a_row = s->ta ? 1 : s->lda,                                       \
            .a_col = s->ta ? s->lda : 1,                                       \
            .b_row = s->tb ? 1 : s->ldb,                                       \
            .b_col = s->tb ? s->ldb : 1,                                       \
            .ldc = s->ldc,                                                     \
            .alpha = alpha,                                                    \
            .add = beta != 0,                                                  \
        };                                                                     \
    }                                                                          \
    /* C = beta * C; a beta of 0 also clears what is not finite. */            \
    static void scale_c_##t(const fl_gemm_shape *s, T beta, T *c)              \
    {                                                                          \
        for (int64_t i = 0; i < s->m; i++)                                     \
            for (int64_t j = 0; j < s->n; j++) {                               \
                T *x = c + i * s->ldc + j;                                     \
                                                                               \
                *x = beta == 0 ? 0 : beta * *x;                                \
            }                                                                  \
    }                                                                          \
    static void block_##t(const fl_gemm_job_##t *job, int64_t i, int64_t j)    \
    {                                                                          \
        for (int64_t p = 0; p < job->k; p += FL_GEMM_THIN) {                   \
            fl_gemm_job_##t part = *job;                                       \
                                                                               \
            part.m = least(job->m - i, BLOCK_M);                               \
            part.n = least(job->n - j, BLOCK_N);                               \
            part.k = least(job->k - p, FL_GEMM_THIN);                          \
            part.a += i * job->a_row + p * job->a_col;                         \
            part.b += p * job->b_row + j * job->b_col;                         \
            part.c += i * job->ldc + j;                                        \
            part.add = job->add || p > 0;                                      \
            hot()->terms_##t(&part);                                           \
        }                                                                      \
    }                                                                          \
    static void blocked_##t(const fl_gemm_job_##t *job)                        \
    {                                                                          \
        for (int64_t i = 0; i < job->m; i += BLOCK_M)                          \
            for (int64_t j = 0; j < job->n; j += BLOCK_N)                      \
                block_##t(job, i, j);                                          \
    }

BLOCKED(float, f32)
BLOCKED(double, f64)

/* A prediction for a few records: B is read where it lies. */
static bool is_few(const fl_gemm_job_f32 *job)
{
    return job->m <= FEW && job->n >= FL_GEMM_WIDE && job->b_col == 1;
}

/* Where our loops beat the library's by measurement: 2 to 8 columns with a long
   sum (up to 5 times), short sums of long rows (1.1 to 1.3 times), and one row
   times weights, for which the library gets ready as long as it multiplies. */
static bool own_is_faster(const fl_gemm_shape *s)
{
    if (s->k <= FL_GEMM_THIN)
        return s->n >= LONG;
    if (s->m <= FEW && s->n >= FL_GEMM_WIDE)
        return !s->tb;
    return s->n > 1 && s->n <= FL_GEMM_THIN && (s->ta ? s->m : s->k) >= LONG;
}

static void own(const fl_gemm_job_f32 *job)
{
    if (job->k <= FL_GEMM_THIN)
        hot()->terms_f32(job);
    else if (is_few(job))
        hot()->few_f32(job);
    else if (job->n > FL_GEMM_THIN)
        blocked_f32(job);
    else if (job->a_col == 1)
        hot()->dots_f32(job);
    else
        hot()->sums_f32(job);
}

#if FL_GEMM_ONEDNN
/* False when the library refused, which it does without touching C. */
static bool library(const fl_gemm_shape *s, float alpha, const float *a,
                    const float *b, float beta, float *c)
{
    int n_threads = fl_onednn_enter();
    dnnl_status_t st;

    st = dnnl_sgemm(s->ta ? 'T' : 'N', s->tb ? 'T' : 'N', s->m, s->n, s->k,
                    alpha, a, s->lda, b, s->ldb, beta, c, s->ldc);
    fl_onednn_leave(n_threads);
    return st == dnnl_success;
}
#else
static bool library(const fl_gemm_shape *s, float alpha, const float *a,
                    const float *b, float beta, float *c)
{
    (void)s, (void)alpha, (void)a, (void)b, (void)beta, (void)c;
    return false;
}
#endif

void fl_gemm_f32(const fl_gemm_shape *s, float alpha, const float *a,
                 const float *b, float beta, float *c)
{
    bool empty = s->k <= 0 || alpha == 0;
    fl_gemm_job_f32 job;

    if (s->m <= 0 || s->n <= 0)
        return;
    if (!empty && !own_is_faster(s) && library(s, alpha, a, b, beta, c))
        return;
    if (empty || (beta != 0 && beta != 1))
        scale_c_f32(s, beta, c);
    if (empty)
        return;
    job = job_f32(s, alpha, a, b, beta, c);
    own(&job);
}

void fl_gemm_f64(const fl_gemm_shape *s, double alpha, const double *a,
                 const double *b, double beta, double *c)
{
    bool empty = s->k <= 0 || alpha == 0;
    fl_gemm_job_f64 job;

    if (s->m <= 0 || s->n <= 0)
        return;
    if (empty || (beta != 0 && beta != 1))
        scale_c_f64(s, beta, c);
    if (empty)
        return;
    job = job_f64(s, alpha, a, b, beta, c);
    blocked_f64(&job);
}

#define ROWS(T, t)                                                             \
    void fl_gemm_rows_##t(const fl_gemm_shape *s, int64_t lo, int64_t hi,      \
                          const T *a, const T *b, T *c)                        \
    {                                                                          \
        for (int64_t i = lo; i < hi; i += FL_GEMM_BLOCK) {                     \
            fl_gemm_shape part = *s;                                           \
                                                                               \
            part.m = least(hi - i, FL_GEMM_BLOCK);                             \
            fl_gemm_##t(&part, 1, a + i * (s->ta ? 1 : s->lda), b, 0,          \
                        c + i * s->ldc);                                       \
        }                                                                      \
    }

ROWS(float, f32)
ROWS(double, f64)

void fl_gemm_prepare(fl_gemm_weights *out, const float *w, fl_trans trans,
                     int64_t k, int64_t n, int64_t ld)
{
    *out =
        (fl_gemm_weights){ .w = w, .trans = trans, .k = k, .n = n, .ld = ld };
}

void fl_gemm_prepared(int64_t m, const float *a, int64_t lda,
                      const fl_gemm_weights *w, float *c, int64_t ldc)
{
    fl_gemm_shape s = { .ta = FL_NO_TRANS,
                        .tb = w->trans,
                        .m = m,
                        .n = w->n,
                        .k = w->k,
                        .lda = lda,
                        .ldb = w->ld,
                        .ldc = ldc };

    fl_gemm_f32(&s, 1, a, w->w, 0, c);
}

const char *fl_gemm_backend(void)
{
#if FL_GEMM_ONEDNN
    return "oneDNN";
#else
    return "plain";
#endif
}
