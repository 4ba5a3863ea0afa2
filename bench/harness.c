/* harness.c - clocks, repeats, figures. */
#include "harness.h"

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>

#include "flotilla/version.h"

/* Behind the names of figures, for a program that is built in two shapes. */
#ifndef BENCH_SUFFIX
#define BENCH_SUFFIX ""
#endif

#define HUGE_PAGE ((size_t)2 << 20)
#define CACHE_LINE ((size_t)64)

static double seconds_of(clockid_t clock)
{
    struct timespec t;

    clock_gettime(clock, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static int by_value(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;

    return (x > y) - (x < y);
}

/* The value at `share` of the sorted x, between its neighbours. */
static double quantile(const double *x, size_t n, double share)
{
    double at = share * (double)(n - 1);
    size_t i = (size_t)at;

    if (i + 1 >= n)
        return x[n - 1];
    return x[i] + (at - (double)i) * (x[i + 1] - x[i]);
}

bench_spread bench_spread_of(const double *x, size_t n)
{
    double *sorted = bench_alloc(n * sizeof *sorted);
    bench_spread s;

    memcpy(sorted, x, n * sizeof *sorted);
    qsort(sorted, n, sizeof *sorted, by_value);
    s = (bench_spread){ .median = quantile(sorted, n, 0.5),
                        .low = sorted[0],
                        .high = sorted[n - 1],
                        .q1 = quantile(sorted, n, 0.25),
                        .q3 = quantile(sorted, n, 0.75) };
    free(sorted);
    return s;
}

bench_sample bench_run(const bench_side *side)
{
    double wall = seconds_of(CLOCK_MONOTONIC);
    double cpu = seconds_of(CLOCK_PROCESS_CPUTIME_ID);
    double value = side->run(side->arg);

    return (bench_sample){ .seconds = seconds_of(CLOCK_MONOTONIC) - wall,
                           .cpu_seconds =
                               seconds_of(CLOCK_PROCESS_CPUTIME_ID) - cpu,
                           .value = value };
}

void bench_pairs(const bench_side *a, const bench_side *b, size_t n,
                 bench_sample *out_a, bench_sample *out_b)
{
    for (size_t i = 0; i < n; i++) {
        if (i % 2 == 0)
            out_a[i] = bench_run(a);
        out_b[i] = bench_run(b);
        if (i % 2 == 1)
            out_a[i] = bench_run(a);
    }
}

size_t bench_repeats(size_t usual)
{
    const char *text = getenv("BENCH_REPEATS");
    long n = text ? strtol(text, NULL, 10) : 0;

    return n > 0 ? (size_t)n : usual;
}

static void append_row(const char *path, const char *name,
                       const bench_spread *s, const char *unit)
{
    FILE *f = fopen(path, "a");

    if (!f) {
        perror(path);
        exit(1);
    }
    fprintf(f, "%s\t%.6g\t%s\t%.6g\t%.6g\n", name, s->median, unit, s->low,
            s->high);
    fclose(f);
}

void bench_row(const char *name, const bench_spread *s, const char *unit)
{
    const char *path = getenv("BENCH_TSV");

    printf("%-34s %10.5g %-10s %10.5g .. %-10.5g half in %.5g .. %.5g\n", name,
           s->median, unit, s->low, s->high, s->q1, s->q3);
    fflush(stdout);
    if (path)
        append_row(path, name, s, unit);
}

void bench_figure(const char *prefix, const char *name, const double *x,
                  size_t n, const char *unit)
{
    bench_spread s = bench_spread_of(x, n);
    char full[64];

    snprintf(full, sizeof full, "%s.%s%s", prefix, name, BENCH_SUFFIX);
    bench_row(full, &s, unit);
}

void *bench_alloc(size_t bytes)
{
    size_t align = bytes < HUGE_PAGE ? CACHE_LINE : HUGE_PAGE;
    size_t room = (bytes + align - 1) / align * align;
    void *p = aligned_alloc(align, room ? room : align);

    bench_check_new(p, "memory for a bench");
    if (align == HUGE_PAGE)
        madvise(p, room, MADV_HUGEPAGE);
    memset(p, 0, room);
    return p;
}

void bench_check(fl_status st, const char *what)
{
    if (!st)
        return;
    fprintf(stderr, "bench: %s: %s: %s\n", what, fl_status_text(st),
            fl_last_error());
    exit(1);
}

void bench_check_new(const void *made, const char *what)
{
    if (made)
        return;
    fprintf(stderr, "bench: %s: %s\n", what, fl_last_error());
    exit(1);
}

bool bench_has_bf16(const char *rows)
{
    char *text = fl_version_text();
    bool is_absent = strstr(text, "bf16 none");

    fl_text_free(text);
    if (is_absent)
        printf("# %s: absent, this machine multiplies no bf16\n", rows);
    return !is_absent;
}
