/* rows_hot.c - gather and scatter of rows, compiled per instruction set.
 *
 * Rows are short (8 to 64 numbers) and lie anywhere, so a loop waits for
 * memory unless it asks ahead: AHEAD rows before its use each cache line of a
 * row is requested. Inside a row the loops move 32 bytes at a time through a
 * vector type and leave no loop shape that a compiler would turn into a call
 * of memcpy, which ThreadSanitizer would see.
 */
#include "kernel/rows.h"

#include "base/thread.h"

#define AHEAD 24
#define LINE_BYTES 64

/* Beyond this the processor's own prefetcher has seen the direction. */
#define AHEAD_BYTES 256

#define LANES_BYTES 32

typedef float lanes_f32
    __attribute__((vector_size(LANES_BYTES), aligned(4), may_alias));
typedef double lanes_f64
    __attribute__((vector_size(LANES_BYTES), aligned(8), may_alias));

enum { TO_READ, TO_WRITE };

/* Requests every line of a row, the last one too when the row starts in the
   middle of a line. `rw` must be a constant for the builtin. */
#define PREFETCH_ROW(row, bytes, rw)                                           \
    do {                                                                       \
        const char *fl_p = (const char *)(row);                                \
                                                                               \
        for (size_t fl_b = 0; fl_b < (bytes); fl_b += LINE_BYTES)              \
            __builtin_prefetch(fl_p + fl_b, (rw));                             \
        if ((bytes) > 0)                                                       \
            __builtin_prefetch(&fl_p[(bytes)-1], (rw));                        \
    } while (0)

static size_t ahead_bytes(size_t row_bytes)
{
    return row_bytes < AHEAD_BYTES ? row_bytes : AHEAD_BYTES;
}

#define ROWS(T, t)                                                             \
    static inline __attribute__((always_inline)) void copy_row_##t(            \
        T *out, const T *row, size_t dim)                                      \
    {                                                                          \
        const size_t w = LANES_BYTES / sizeof(T);                              \
        size_t j = 0;                                                          \
                                                                               \
        for (; j + w <= dim; j += w)                                           \
            *(lanes_##t *)(out + j) = *(const lanes_##t *)(row + j);           \
        for (; j < dim; j++)                                                   \
            out[j] = row[j];                                                   \
    }                                                                          \
    static inline __attribute__((always_inline)) void axpy_row_##t(            \
        T *row, T a, const T *x, size_t dim)                                   \
    {                                                                          \
        const size_t w = LANES_BYTES / sizeof(T);                              \
        size_t j = 0;                                                          \
                                                                               \
        for (; j + w <= dim; j += w)                                           \
            *(lanes_##t *)(row + j) += a * *(const lanes_##t *)(x + j);        \
        for (; j < dim; j++)                                                   \
            row[j] += a * x[j];                                                \
    }                                                                          \
    FL_RACY                                                                    \
    static void gather_##t(T *out, size_t ld, const T *rows,                   \
                           const uint64_t *index, size_t n, size_t dim)        \
    {                                                                          \
        const size_t bytes = ahead_bytes(dim * sizeof(T));                     \
                                                                               \
        for (size_t i = 0; i < n; i++) {                                       \
            if (i + AHEAD < n)                                                 \
                PREFETCH_ROW(rows + index[i + AHEAD] * dim, bytes, TO_READ);   \
            copy_row_##t(out + i * ld, rows + index[i] * dim, dim);            \
        }                                                                      \
    }                                                                          \
    FL_RACY                                                                    \
    static void scatter_axpy_##t(T *rows, const uint64_t *index, size_t n,     \
                                 size_t dim, T a, const T *x, size_t ld)       \
    {                                                                          \
        const size_t bytes = ahead_bytes(dim * sizeof(T));                     \
                                                                               \
        for (size_t i = 0; i < n; i++) {                                       \
            if (i + AHEAD < n)                                                 \
                PREFETCH_ROW(rows + index[i + AHEAD] * dim, bytes, TO_WRITE);  \
            axpy_row_##t(rows + index[i] * dim, a, x + i * ld, dim);           \
        }                                                                      \
    }                                                                          \
    static inline __attribute__((always_inline)) void merge_by_##t(            \
        T *sum, const uint32_t *index, size_t n, size_t dim, T a, const T *x)  \
    {                                                                          \
        const size_t bytes = ahead_bytes(dim * sizeof(T));                     \
                                                                               \
        for (size_t i = 0; i < n; i++) {                                       \
            if (i + AHEAD < n)                                                 \
                PREFETCH_ROW(sum + (size_t)index[i + AHEAD] * dim, bytes,      \
                             TO_WRITE);                                        \
            axpy_row_##t(sum + (size_t)index[i] * dim, a, x + i * dim, dim);   \
        }                                                                      \
    }                                                                          \
    /* Most gradients count as they are: those are not multiplied. */          \
    static void merge_##t(T *sum, const uint32_t *index, size_t n, size_t dim, \
                          T a, const T *x)                                     \
    {                                                                          \
        if (a == 1)                                                            \
            merge_by_##t(sum, index, n, dim, 1, x);                            \
        else                                                                   \
            merge_by_##t(sum, index, n, dim, a, x);                            \
    }

ROWS(float, f32)
ROWS(double, f64)

#define ENTRY_F32(ret, name, params) .name = name##_f32,
#define ENTRY_F64(ret, name, params) .name = name##_f64,

const fl_rows_f32_table
    FL_ISA_NAME(fl_rows_f32_table_of) = { FL_ROWS_FUNCTIONS(float, ENTRY_F32) };

const fl_rows_f64_table FL_ISA_NAME(fl_rows_f64_table_of) = {
    FL_ROWS_FUNCTIONS(double, ENTRY_F64)
};
