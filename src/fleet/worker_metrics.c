/* worker_metrics.c - measures of a model over what all workers have.
 *
 * The exact area under the curve is made in rounds: the scores of the class
 * that has fewer go to all workers, equal ones as one, and each worker counts
 * the pairs that they make with its own scores of the other class. The counts
 * are whole numbers and add up to that of all pairs.
 *
 *     all    n, and whether something is wrong with a score
 *     some   runs of the smaller class, until nobody has more
 *     all    what each has counted
 */
#include "fleet/allgather.h"
#include "fleet/metrics.h"

#include <inttypes.h>
#include <math.h>

/* --- one number ----------------------------------------------------------- */

static fl_status fold_one(fl_fleet *f, fl_fleet_call call, fl_reduce_kind kind,
                          double x, double *out)
{
    FL_TRY(fl_fleet_fold(f, call, kind, &x, 1));
    *out = x;
    return FL_OK;
}

fl_status fl_fleet_metrics_sum(fl_fleet *f, double x, double *out)
{
    return fold_one(f, FL_CALL_SUM, FL_REDUCE_SUM, x, out);
}

fl_status fl_fleet_metrics_max(fl_fleet *f, double x, double *out)
{
    return fold_one(f, FL_CALL_MAX, FL_REDUCE_MAX, x, out);
}

fl_status fl_fleet_metrics_min(fl_fleet *f, double x, double *out)
{
    return fold_one(f, FL_CALL_MIN, FL_REDUCE_MIN, x, out);
}

/* Checked when it is added up, so that all workers are told. */
static fl_status mean(fl_fleet *f, fl_fleet_call call, double sum, double total,
                      double *out)
{
    double values[] = { sum, total };

    FL_TRY(fl_fleet_fold(f, call, FL_REDUCE_SUM, values, FL_LEN(values)));
    if (!(values[1] > 0))
        FL_FAIL(FL_ERR_INVAL,
                "%s: the totals of all workers add up to %g, and there is no "
                "mean over that; give the number of samples",
                fl_fleet_call_name(call), values[1]);
    *out = values[0] / values[1];
    return FL_OK;
}

fl_status fl_fleet_metrics_acc(fl_fleet *f, double correct, double total,
                               double *out)
{
    return mean(f, FL_CALL_ACC, correct, total, out);
}

fl_status fl_fleet_metrics_mae(fl_fleet *f, double abs_error, double total,
                               double *out)
{
    return mean(f, FL_CALL_MAE, abs_error, total, out);
}

fl_status fl_fleet_metrics_mse(fl_fleet *f, double square_error, double total,
                               double *out)
{
    return mean(f, FL_CALL_MSE, square_error, total, out);
}

fl_status fl_fleet_metrics_rmse(fl_fleet *f, double square_error, double total,
                                double *out)
{
    double x;

    FL_TRY(mean(f, FL_CALL_RMSE, square_error, total, &x));
    *out = sqrt(x);
    return FL_OK;
}

/* --- AUC from histograms -------------------------------------------------- */

static fl_status check_counts(const char *name, const double *stat, size_t n)
{
    for (size_t i = 0; i < n; i++)
        if (!(stat[i] >= 0))
            FL_FAIL(FL_ERR_INVAL,
                    "fl_fleet_metrics_auc: bucket %zu of %s has %g over all "
                    "workers, which is no count",
                    i, name, stat[i]);
    return FL_OK;
}

static fl_status fold_stats(fl_fleet *f, double *pos, double *neg, size_t n,
                            double *out)
{
    FL_TRY(fl_fleet_fold(f, FL_CALL_AUC, FL_REDUCE_SUM, pos, n));
    FL_TRY(fl_fleet_fold(f, FL_CALL_AUC, FL_REDUCE_SUM, neg, n));
    FL_TRY(check_counts("stat_pos", pos, n));
    FL_TRY(check_counts("stat_neg", neg, n));
    *out = fl_metrics_area(pos, neg, n);
    return FL_OK;
}

fl_status fl_fleet_metrics_auc(fl_fleet *f, const double *stat_pos,
                               const double *stat_neg, size_t n, double *out)
{
    size_t bytes = 0;
    double *both = NULL;
    fl_status st;

    if (!n)
        return fold_stats(f, NULL, NULL, 0, out);
    if (!fl_mul_overflow(n, 2 * sizeof(*both), &bytes))
        both = fl_try_alloc(bytes);
    if (!both)
        FL_FAIL(FL_ERR_NOMEM, "fl_fleet_metrics_auc: no memory for %zu buckets",
                n);
    memcpy(both, stat_pos, n * sizeof(*both));
    memcpy(both + n, stat_neg, n * sizeof(*both));
    st = fold_stats(f, both, both + n, n, out);
    fl_data_free(both, bytes);
    return st;
}

/* --- exact AUC ------------------------------------------------------------ */

/* What a worker says first. */
enum { FAULT, FAULT_AT, N_0, N_1, N_WORDS };
_Static_assert(N_WORDS <= FL_ALLGATHER_CAP_MIN, "it is said in one round");

typedef struct tally {
    fl_scores own;
    fl_scores_fault fault;
    size_t fault_at;
    uint64_t n[2]; /* by label, over all workers */
    uint64_t halves;
} tally;

static fl_status fail(int rank, uint64_t fault, uint64_t at)
{
    if (fault == FL_SCORES_NAN)
        FL_FAIL(FL_ERR_NUMERIC,
                "fl_fleet_metrics_exact_auc: score %" PRIu64 " of worker %d is "
                "NaN",
                at, rank);
    if (fault == FL_SCORES_LABEL)
        FL_FAIL(FL_ERR_INVAL,
                "fl_fleet_metrics_exact_auc: label %" PRIu64 " of worker %d is "
                "not 0 or 1",
                at, rank);
    FL_FAIL(FL_ERR_NOMEM,
            "fl_fleet_metrics_exact_auc: worker %d has no memory to sort its "
            "scores",
            rank);
}

static fl_status check_words(const fl_allgather_part *p, size_t n)
{
    if (p->n != n)
        FL_FAIL(FL_ERR_CORRUPT,
                "fl_fleet_metrics_exact_auc: worker %d sends %zu words where "
                "%zu are due",
                p->rank, p->n, n);
    return FL_OK;
}

/* A worker that cannot go on says so instead of staying away: all fail. */
static fl_status count_scores(fl_allgather_round *t, tally *p)
{
    uint64_t *mine = fl_allgather_words(t);

    mine[FAULT] = p->fault;
    mine[FAULT_AT] = p->fault_at;
    mine[N_0] = p->own.n[0];
    mine[N_1] = p->own.n[1];
    FL_TRY(fl_allgather_run_round(t, N_WORDS, N_WORDS));
    p->n[0] = p->n[1] = p->halves = 0;
    for (size_t i = 0; i < t->parts.len; i++) {
        const fl_allgather_part *part = &t->parts.data[i];
        const uint64_t *words = part->words;

        FL_TRY(check_words(part, N_WORDS));
        if (words[FAULT])
            return fail(part->rank, words[FAULT], words[FAULT_AT]);
        p->n[0] += words[N_0];
        p->n[1] += words[N_1];
    }
    return FL_OK;
}

/* Whoever sends as many runs as a round has may have more. */
static fl_status count_pairs(fl_allgather_round *t, tally *p, int label)
{
    const fl_scores *own = &p->own;
    size_t at = 0;
    bool has_more;

    do {
        size_t n = fl_scores_runs(own->keys[label], own->n[label], &at,
                                  fl_allgather_words(t), t->cap);

        FL_TRY(fl_allgather_run_round(t, n, 0));
        has_more = false;
        for (size_t i = 0; !t->is_changed && i < t->parts.len; i++) {
            const fl_allgather_part *part = &t->parts.data[i];

            p->halves += fl_scores_halves(part->words, part->n,
                                          own->keys[!label], own->n[!label]);
            has_more |= part->n == t->cap;
        }
    } while (has_more);
    return FL_OK;
}

static fl_status add_up(fl_allgather_round *t, tally *p)
{
    uint64_t *mine = fl_allgather_words(t);

    *mine = p->halves;
    FL_TRY(fl_allgather_run_round(t, 1, 1));
    p->halves = 0;
    for (size_t i = 0; i < t->parts.len; i++) {
        FL_TRY(check_words(&t->parts.data[i], 1));
        p->halves += *(const uint64_t *)t->parts.data[i].words;
    }
    return FL_OK;
}

/* Begins anew when somebody leaves before all is counted. */
static fl_status run(fl_allgather_round *t, tally *p, double *out)
{
    int label;

    do {
        fl_allgather_restart(t);
        FL_TRY(count_scores(t, p));
        label = p->n[1] <= p->n[0];
        if (p->n[0] && p->n[1])
            FL_TRY(count_pairs(t, p, label));
        if (p->n[0] && p->n[1] && !t->is_changed)
            FL_TRY(add_up(t, p));
    } while (t->is_changed);
    return fl_scores_auc(p->n, label, p->halves, out);
}

fl_status fl_fleet_metrics_exact_auc(fl_fleet *f, const float *scores,
                                     const int64_t *labels, size_t n,
                                     double *out)
{
    tally p = { .fault = FL_SCORES_GOOD };
    fl_allgather_round t;
    fl_status st = fl_allgather_begin(&t, f, FL_CALL_EXACT_AUC);

    if (!st) {
        p.fault = fl_scores_make(&p.own, scores, labels, n, &p.fault_at);
        st = run(&t, &p, out);
    }
    fl_scores_release(&p.own);
    fl_allgather_end(&t);
    return st;
}
