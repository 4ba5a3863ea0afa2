/* harness.h - what every bench program shares: clocks, repeats, figures.
 *
 * A figure is a name, the median of its repeats, a unit and the lowest and
 * highest repeat. It is printed, and added to the file that the environment
 * variable BENCH_TSV names. Things that are compared are run in turn, in
 * pairs, so that both meet the same weather on the machine. One thread.
 */
#ifndef BENCH_HARNESS_H
#define BENCH_HARNESS_H

#include <stdbool.h>
#include <stddef.h>

#include "flotilla/status.h"

/* Median, extremes and quartiles of some repeats. */
typedef struct bench_spread {
    double median, low, high, q1, q3;
} bench_spread;

bench_spread bench_spread_of(const double *x, size_t n);

/* One thing to measure: does its work once and returns what came out of it,
   for example a loss. */
typedef struct bench_side {
    double (*run)(void *arg);
    void *arg;
} bench_side;

/* Wall and CPU time of one run, the latter over all threads of the process. */
typedef struct bench_sample {
    double seconds, cpu_seconds, value;
} bench_sample;

bench_sample bench_run(const bench_side *side);

/* Runs a and b in turn, n times each; who begins changes from pair to pair. */
void bench_pairs(const bench_side *a, const bench_side *b, size_t n,
                 bench_sample *out_a, bench_sample *out_b);

/* The environment's BENCH_REPEATS when it is set, else `usual`. */
size_t bench_repeats(size_t usual);

/* Prints the figure and adds its row to the file of BENCH_TSV. */
void bench_row(const char *name, const bench_spread *s, const char *unit);

/* The same for n repeats x of what is called `prefix`.`name`. */
void bench_figure(const char *prefix, const char *name, const double *x,
                  size_t n, const char *unit);

/* Zeroed memory, on huge pages where it is large; ends the program when there
   is none. Freed with free(). */
void *bench_alloc(size_t bytes);

/* Ends the program with the reason unless the call went well. */
void bench_check(fl_status st, const char *what);
void bench_check_new(const void *made, const char *what);

/* Whether this machine multiplies bf16; if not, it says that these rows are
   absent. */
bool bench_has_bf16(const char *rows);

#endif
