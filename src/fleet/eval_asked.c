#include "fleet/eval_asked.h"

#include <math.h>
#include <stdlib.h>

#include "base/alloc.h"

/* --- from a score on ------------------------------------------------------- */

void fl_asked_precision(const fl_sample *samples, size_t n, double number,
                        fl_asked_sums *to)
{
    for (size_t i = 0; i < n; i++) {
        bool is_taken = (double)samples[i].score >= number;

        to->sum += is_taken && samples[i].label > 0;
        to->weight += is_taken;
    }
}

void fl_asked_recall(const fl_sample *samples, size_t n, double number,
                     fl_asked_sums *to)
{
    for (size_t i = 0; i < n; i++) {
        bool is_positive = samples[i].label > 0;

        to->sum += is_positive && (double)samples[i].score >= number;
        to->weight += is_positive;
    }
}

/* --- the first of a group --------------------------------------------------- */

/* Samples of one score, from the highest on. */
typedef struct tie {
    size_t lo, hi; /* ranks from 0: of all of them */
    double positives, gain;
} tie;

/* The tie whose last sample is samples[end - 1]; returns where it begins. */
static size_t read_tie(const fl_sample *samples, size_t n, size_t end, tie *out)
{
    size_t i = end;

    *out = (tie){ .lo = n - end };
    for (; i > 0 && samples[i - 1].score == samples[end - 1].score; i--) {
        out->positives += samples[i - 1].label > 0;
        out->gain += (double)samples[i - 1].label;
    }
    out->hi = n - i;
    return i;
}

/* How many of a tie's are among the first k. */
static double taken_of(const tie *t, double k)
{
    return fmin((double)t->hi, k) - (double)t->lo;
}

/* Positives among the first k, and all of them. */
static double count_hits(const fl_sample *samples, size_t n, double k,
                         double *positives)
{
    double hits = 0;
    tie t;

    *positives = 0;
    for (size_t end = n; end > 0;) {
        end = read_tie(samples, n, end, &t);
        *positives += t.positives;
        if ((double)t.lo < k)
            hits += t.positives * taken_of(&t, k) / (double)(t.hi - t.lo);
    }
    return hits;
}

void fl_asked_precision_top(const fl_sample *samples, size_t n, double number,
                            fl_asked_sums *to)
{
    double positives;

    to->sum += count_hits(samples, n, number, &positives) / number;
    to->weight++;
}

void fl_asked_recall_top(const fl_sample *samples, size_t n, double number,
                         fl_asked_sums *to)
{
    double positives, hits = count_hits(samples, n, number, &positives);

    if (positives > 0) {
        to->sum += hits / positives;
        to->weight++;
    }
}

/* Weights of the ranks from lo up to hi, from 0, that are below k. */
static double weight_of(size_t lo, size_t hi, double k)
{
    double sum = 0;

    for (size_t r = lo; r < hi && (double)r < k; r++)
        sum += 1 / log2((double)r + 2);
    return sum;
}

static int more_first(const void *left, const void *right)
{
    const float *a = left, *b = right;

    return (*a < *b) - (*a > *b);
}

/* With the highest labels first. */
static double best_gain(const fl_sample *samples, size_t n, double k)
{
    float *labels = fl_alloc(n * sizeof(*labels));
    double sum = 0;

    for (size_t i = 0; i < n; i++)
        labels[i] = samples[i].label;
    qsort(labels, n, sizeof(*labels), more_first);
    for (size_t r = 0; r < n && (double)r < k; r++)
        sum += (double)labels[r] * weight_of(r, r + 1, k);
    fl_free(labels);
    return sum;
}

void fl_asked_ndcg_top(const fl_sample *samples, size_t n, double number,
                       fl_asked_sums *to)
{
    double best = best_gain(samples, n, number), sum = 0;
    tie t;

    if (!(best > 0))
        return;
    for (size_t end = n; end > 0 && (double)(n - end) < number;) {
        end = read_tie(samples, n, end, &t);
        sum += t.gain / (double)(t.hi - t.lo) * weight_of(t.lo, t.hi, number);
    }
    to->sum += sum / best;
    to->weight++;
}
