/* metrics.c - areas under curves, and exact counts of pairs. */
#include "fleet/metrics.h"

#include <inttypes.h>
#include <math.h>
#include <stdbool.h>
#include <string.h>

#include "base/alloc.h"

double fl_metrics_area(const double *pos, const double *neg, size_t n)
{
    double tp = 0, fp = 0, area = 0;

    for (size_t i = n; i-- > 0;) {
        area += neg[i] * (tp + pos[i] + tp) / 2;
        tp += pos[i];
        fp += neg[i];
    }
    return tp > 0 && fp > 0 ? area / tp / fp : 0.5;
}

/* --- keys ----------------------------------------------------------------- */

#define SIGN UINT32_C(0x80000000)

/* Negative scores are ordered by their bits the other way round. The two zeros
   are equal. */
static uint32_t key_of(float score)
{
    float x = score == 0 ? 0 : score;
    uint32_t bits;

    memcpy(&bits, &x, sizeof(bits));
    return bits & SIGN ? ~bits : bits | SIGN;
}

#define DIGIT_BITS 11
#define DIGITS (1 << DIGIT_BITS)
#define N_PASSES 3

static void sort_pass(const uint32_t *from, uint32_t *to, size_t n, int shift)
{
    size_t at[DIGITS] = { 0 }, sum = 0;

    for (size_t i = 0; i < n; i++)
        at[(from[i] >> shift) % DIGITS]++;
    for (size_t d = 0; d < DIGITS; d++) {
        size_t count = at[d];

        at[d] = sum;
        sum += count;
    }
    for (size_t i = 0; i < n; i++)
        to[at[(from[i] >> shift) % DIGITS]++] = from[i];
}

/* By digits from the lowest on. Both change places; gives the sorted one. */
static uint32_t *sort(uint32_t *keys, uint32_t *spare, size_t n)
{
    for (int pass = 0; pass < N_PASSES; pass++) {
        uint32_t *was = keys;

        sort_pass(keys, spare, n, pass * DIGIT_BITS);
        keys = spare;
        spare = was;
    }
    return keys;
}

static fl_scores_fault check(const float *scores, const int64_t *labels,
                             size_t n, size_t n_by_label[2], size_t *at)
{
    for (*at = 0; *at < n; ++*at) {
        if (isnan(scores[*at]))
            return FL_SCORES_NAN;
        if (labels[*at] != 0 && labels[*at] != 1)
            return FL_SCORES_LABEL;
        n_by_label[labels[*at]]++;
    }
    return FL_SCORES_GOOD;
}

fl_scores_fault fl_scores_make(fl_scores *out, const float *scores,
                               const int64_t *labels, size_t n, size_t *at)
{
    size_t bytes = 2 * n * sizeof(*out->memory), filled[2] = { 0 };
    fl_scores_fault fault;

    *out = (fl_scores){ 0 };
    fault = check(scores, labels, n, out->n, at);
    if (fault || !n)
        return fault;
    out->memory = fl_try_alloc(bytes);
    if (!out->memory)
        return FL_SCORES_MEMORY;
    out->keys[0] = out->memory;
    out->keys[1] = out->memory + out->n[0];
    for (size_t i = 0; i < n; i++)
        out->keys[labels[i]][filled[labels[i]]++] = key_of(scores[i]);
    for (int label = 0; label < 2; label++)
        out->keys[label] =
            sort(out->keys[label], out->keys[label] + n, out->n[label]);
    return FL_SCORES_GOOD;
}

void fl_scores_release(fl_scores *s)
{
    fl_data_free(s->memory, 2 * (s->n[0] + s->n[1]) * sizeof(*s->memory));
    *s = (fl_scores){ 0 };
}

/* --- counting ------------------------------------------------------------- */

/* A longer run is two, which counts the same. */
size_t fl_scores_runs(const uint32_t *keys, size_t n, size_t *at,
                      fl_score_run *out, size_t cap)
{
    size_t n_runs = 0;

    for (; *at < n; ++*at) {
        fl_score_run *last = n_runs ? &out[n_runs - 1] : NULL;

        if (last && last->key == keys[*at] && last->n < UINT32_MAX) {
            last->n++;
            continue;
        }
        if (n_runs == cap)
            break;
        out[n_runs++] = (fl_score_run){ keys[*at], 1 };
    }
    return n_runs;
}

/* The first key from `at` on that is not below `key`: in steps that double,
   then between the last two, so that near ones are found at once and far ones
   soon. */
static size_t seek(const uint32_t *keys, size_t at, size_t n, uint64_t key)
{
    size_t step = 1, hi;

    while (at < n && step < n - at && keys[at + step] < key) {
        at += step;
        step *= 2;
    }
    hi = step < n - at ? at + step : n;
    while (at < hi) {
        size_t mid = at + (hi - at) / 2;

        if (keys[mid] < key)
            at = mid + 1;
        else
            hi = mid;
    }
    return at;
}

uint64_t fl_scores_halves(const fl_score_run *runs, size_t n_runs,
                          const uint32_t *keys, size_t n)
{
    uint64_t halves = 0;
    size_t at = 0;

    for (size_t i = 0; i < n_runs; i++) {
        size_t below = seek(keys, at, n, runs[i].key);

        at = seek(keys, below, n, (uint64_t)runs[i].key + 1);
        halves += runs[i].n * (2 * (uint64_t)below + (at - below));
    }
    return halves;
}

fl_status fl_scores_auc(const uint64_t n[2], int label, uint64_t halves,
                        double *out)
{
    uint64_t pairs;

    if (!n[0] || !n[1]) {
        *out = 0.5;
        return FL_OK;
    }
    if (__builtin_mul_overflow(n[0], n[1], &pairs) || pairs > UINT64_MAX / 2)
        FL_FAIL(FL_ERR_INVAL,
                "%" PRIu64 " negatives and %" PRIu64 " positives have more "
                "pairs than can be counted exactly: use fl_fleet_metrics_auc",
                n[0], n[1]);
    halves = label ? halves : 2 * pairs - halves;
    *out = (double)halves / (double)(2 * pairs);
    return FL_OK;
}
