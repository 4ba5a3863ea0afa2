/* compare.h - our numbers against the recorded ones.
 *
 * The error of a against b is |a - b| / max(1, |b|); tolerance 0 asks for the
 * same number. One line is printed per tensor that differs, for its worst
 * element.
 */
#ifndef GOLDEN_COMPARE_H
#define GOLDEN_COMPARE_H

#include "golden.h"

/* Element i of raw numbers. */
double number_at(fl_dtype dtype, const void *data, int64_t i);

double number_error(double got, double want);

/* Type, shape, offsets and numbers. Integers are compared exactly. */
void compare_tensor(golden_case *c, const char *name, const fl_tensor *got,
                    const st_tensor *want, double tolerance);

/* Numbers alone, n of them. */
void compare_numbers(golden_case *c, const char *name, const double *got,
                     const double *want, int64_t n, double tolerance);

/* Rows + values, after equal rows have been added up on both sides. */
void compare_rows(golden_case *c, const char *name, const fl_tensor *got,
                  const st_tensor *rows, const st_tensor *values,
                  double tolerance);

/* Offsets of a ragged tensor, exactly. */
void compare_offsets(golden_case *c, const char *name, const fl_tensor *got,
                     int level, const st_tensor *want);

/* What a sample of random numbers looks like. */
typedef struct sample {
    double n, mean, deviation, min, max;
} sample;

sample sample_of(fl_dtype dtype, const void *data, int64_t n);

/* Two samples of one distribution: mean and deviation within five times
   their sampling error. */
void compare_samples(golden_case *c, const char *name, const sample *got,
                     const sample *want);

#endif
