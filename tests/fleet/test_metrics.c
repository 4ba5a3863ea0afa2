/* test_metrics.c - measures over all workers, against what they are by their
 * definitions. */
#include "worker_kit.h"

#include <float.h>

#include "fleet/allgather.h"
#include "fleet/metrics.h"

#define N_MAX 400

/* --- one number ----------------------------------------------------------- */

static fl_status measure(worker *w)
{
    double x = w->rank + 1, n = w->n, all = n * (n + 1) / 2, out;

    need(!fl_fleet_metrics_sum(w->fleet, x, &out) && out == all);
    need(!fl_fleet_metrics_max(w->fleet, x, &out) && out == n);
    need(!fl_fleet_metrics_min(w->fleet, x, &out) && out == 1);
    need(!fl_fleet_metrics_max(w->fleet, -x, &out) && out == -1);
    /* Worker r has 2 (r + 1) samples, and half of them count. */
    need(!fl_fleet_metrics_acc(w->fleet, x, 2 * x, &out) && out == 0.5);
    need(!fl_fleet_metrics_mae(w->fleet, x * x, x, &out));
    need(fabs(out - (2 * n + 1) / 3) < 1e-12);
    need(!fl_fleet_metrics_mse(w->fleet, 9 * x, x, &out) && out == 9);
    need(!fl_fleet_metrics_rmse(w->fleet, 9 * x, x, &out) && out == 3);
    /* A worker without samples is no fault. */
    need(!fl_fleet_metrics_acc(w->fleet, 0, w->rank ? 0 : 4, &out) && out == 0);
    return FL_OK;
}

static void measures_are_those_of_all_samples(void **state)
{
    (void)state;
    local_workers_run_all(measure, NULL);
}

static fl_status measure_nothing(worker *w)
{
    double out = 7;

    need_error(fl_fleet_metrics_acc(w->fleet, 0, 0, &out), FL_ERR_INVAL,
               "fl_fleet_metrics_acc: the totals of all workers add up to 0");
    need_error(fl_fleet_metrics_rmse(w->fleet, 1, (double)NAN, &out),
               FL_ERR_INVAL, "give the number of samples");
    need(out == 7);
    return FL_OK;
}

static void a_mean_over_nothing_is_refused(void **state)
{
    (void)state;
    local_workers_run(&(local_workers){ .work = measure_nothing });
    local_workers_run(&(local_workers){ .n = 2, .work = measure_nothing });
}

/* --- AUC from histograms -------------------------------------------------- */

static void the_area_of_histograms_is_made_of_trapezoids(void **state)
{
    double up[] = { 0, 0, 3 }, down[] = { 5, 0, 0 }, flat[] = { 1, 1, 1 };
    double none[] = { 0, 0, 0 };

    (void)state;
    assert_true(fl_metrics_area(up, down, 3) == 1);
    assert_true(fl_metrics_area(down, up, 3) == 0);
    assert_true(fl_metrics_area(flat, flat, 3) == 0.5);
    assert_true(fl_metrics_area(none, flat, 3) == 0.5);
    assert_true(fl_metrics_area(flat, none, 3) == 0.5);
    assert_true(fl_metrics_area(NULL, NULL, 0) == 0.5);
    /* Of 3 x 3 pairs the positive wins 2 and is equal in 1. */
    assert_true(fabs(fl_metrics_area(flat, up, 3) - 0.5 / 3) < 1e-15);
}

/* Worker r counts in bucket r and above. */
static fl_status measure_auc(worker *w)
{
    double pos[8] = { 0 }, neg[8] = { 0 }, all_pos[8] = { 0 };
    double all_neg[8] = { 0 }, out;

    for (int rank = 0; rank < w->n; rank++)
        for (int i = rank; i < 8; i++) {
            all_pos[i] += i;
            all_neg[i] += 8 - i;
            if (rank == w->rank) {
                pos[i] = i;
                neg[i] = 8 - i;
            }
        }
    need(!fl_fleet_metrics_auc(w->fleet, pos, neg, 8, &out));
    need(out == fl_metrics_area(all_pos, all_neg, 8));
    need(out > 0.5 && out < 1);
    memset(neg, 0, sizeof(neg));
    need(!fl_fleet_metrics_auc(w->fleet, pos, neg, 8, &out) && out == 0.5);
    need(!fl_fleet_metrics_auc(w->fleet, NULL, NULL, 0, &out) && out == 0.5);
    return FL_OK;
}

static void histograms_of_all_workers_are_added(void **state)
{
    (void)state;
    local_workers_run_all(measure_auc, NULL);
}

static fl_status measure_bad_auc(worker *w)
{
    double pos[8] = { 1, 1, 1 }, neg[8] = { 1, w->rank ? -3 : 1, 1 }, out = 7;

    need_error(
        fl_fleet_metrics_auc(w->fleet, pos, neg, w->rank ? 8 : 7, &out),
        FL_ERR_INVAL,
        "fl_fleet_metrics_auc: worker 0 brings 7 values and worker 1 brings 8");
    need_error(fl_fleet_metrics_auc(w->fleet, pos, neg, 8, &out), FL_ERR_INVAL,
               "bucket 1 of stat_neg has -2 over all workers");
    need(out == 7);
    return FL_OK;
}

static void histograms_that_do_not_fit_are_refused(void **state)
{
    (void)state;
    local_workers_run(&(local_workers){ .n = 2, .work = measure_bad_auc });
}

/* --- exact AUC, in parts -------------------------------------------------- */

static void keys_are_ordered_as_scores_are(void **state)
{
    float scores[] = { 3,       -INFINITY, 0.0F,  1e-45F,  -0.0F,
                       -1e-45F, INFINITY,  -2.5F, FLT_MAX, -2.5F };
    float want[] = { -INFINITY, -2.5F,  -2.5F, -1e-45F, 0,
                     0,         1e-45F, 3,     FLT_MAX, INFINITY };
    int64_t labels[FL_LEN(scores)] = { 0 };
    fl_scores s, sorted;
    size_t at;

    (void)state;
    assert_int_equal(fl_scores_make(&s, scores, labels, FL_LEN(scores), &at),
                     FL_SCORES_GOOD);
    assert_int_equal(s.n[0], FL_LEN(scores));
    assert_int_equal(s.n[1], 0);
    for (size_t i = 0; i < FL_LEN(want); i++) {
        assert_int_equal(fl_scores_make(&sorted, &want[i], labels, 1, &at),
                         FL_SCORES_GOOD);
        assert_int_equal(sorted.keys[0][0], s.keys[0][i]);
        fl_scores_release(&sorted);
    }
    fl_scores_release(&s);
}

static void runs_are_read_in_pieces(void **state)
{
    static const uint32_t keys[] = { 1, 1, 1, 4, 7, 7, 9 };

    (void)state;
    for (size_t cap = 1; cap <= 5; cap++) {
        fl_score_run all[8];
        size_t at = 0, n = 0, some;

        do {
            some = fl_scores_runs(keys, FL_LEN(keys), &at, all + n, cap);
            n += some;
        } while (some == cap && n < 5);
        assert_int_equal(at, FL_LEN(keys));
        assert_int_equal(n, 4);
        assert_true(all[0].key == 1 && all[0].n == 3);
        assert_true(all[1].key == 4 && all[1].n == 1);
        assert_true(all[2].key == 7 && all[2].n == 2);
        assert_true(all[3].key == 9 && all[3].n == 1);
    }
}

static void halves_are_those_of_all_pairs(void **state)
{
    uint32_t keys[200], mine[60];
    fl_score_run runs[60];

    (void)state;
    for (uint64_t round = 0; round < 200; round++) {
        size_t n = fl_mix64(round) % FL_LEN(keys), at = 0, n_runs;
        size_t m = fl_mix64(round + 1000) % FL_LEN(mine);
        uint32_t step = 1 + round % 5 * 3;
        uint64_t want = 0;

        for (size_t i = 0; i < n; i++)
            keys[i] = (i ? keys[i - 1] : 0) +
                      (uint32_t)fl_mix64(round * 777 + i) % step;
        for (size_t i = 0; i < m; i++)
            mine[i] = (i ? mine[i - 1] : 0) +
                      (uint32_t)fl_mix64(round * 999 + i) % (2 * step);
        for (size_t i = 0; i < m; i++)
            for (size_t k = 0; k < n; k++)
                want += 2 * (mine[i] > keys[k]) + (mine[i] == keys[k]);
        n_runs = fl_scores_runs(mine, m, &at, runs, FL_LEN(runs));
        assert_true(fl_scores_halves(runs, n_runs, keys, n) == want);
    }
}

static void more_pairs_than_can_be_counted_are_refused(void **state)
{
    uint64_t n[2] = { UINT64_C(1) << 32, UINT64_C(1) << 31 };
    double out;

    (void)state;
    assert_int_equal(fl_scores_auc(n, 1, 0, &out), FL_ERR_INVAL);
    assert_non_null(strstr(fl_last_error(), "use fl_fleet_metrics_auc"));
    n[1]--;
    assert_ok(fl_scores_auc(n, 0, 0, &out));
    assert_true(out == 1);
}

/* --- exact AUC ------------------------------------------------------------ */

/* Of a whole job; worker w has n[w] scores. */
typedef struct sample {
    size_t n[WORKERS_MAX];
    int n_levels;  /* scores; few make many equal ones */
    int positives; /* of 100 */
    float scores[WORKERS_MAX][N_MAX];
    int64_t labels[WORKERS_MAX][N_MAX];
} sample;

static sample *draw(uint64_t seed, int n_levels, int positives)
{
    sample *s = calloc(1, sizeof(*s));
    uint64_t at = seed << 32;

    s->n_levels = n_levels;
    for (int w = 0; w < WORKERS_MAX; w++) {
        s->n[w] = fl_mix64(at++) % N_MAX;
        for (size_t i = 0; i < s->n[w]; i++) {
            int level = (int)(fl_mix64(at++) % (uint64_t)n_levels);

            s->scores[w][i] = (float)(level - n_levels / 3) / 7;
            s->labels[w][i] = (int)(fl_mix64(at++) % 100) < positives;
        }
    }
    return s;
}

/* Every pair of the first n workers, by the definition. */
static double naive_auc(const sample *s, int n)
{
    double won = 0, pairs = 0;

    for (int a = 0; a < n; a++)
        for (size_t i = 0; i < s->n[a]; i++)
            for (int b = 0; s->labels[a][i] && b < n; b++)
                for (size_t k = 0; k < s->n[b]; k++) {
                    float x = s->scores[a][i], y = s->scores[b][k];

                    if (s->labels[b][k])
                        continue;
                    pairs++;
                    won += x > y ? 1 : x == y ? 0.5 : 0;
                }
    return pairs ? won / pairs : 0.5;
}

static fl_status measure_exactly(worker *w)
{
    const sample *s = w->arg;
    double out;
    fl_status st = fl_fleet_metrics_exact_auc(
        w->fleet, s->scores[w->rank], s->labels[w->rank], s->n[w->rank], &out);

    if (st)
        return st;
    if (out != naive_auc(s, w->n))
        return fl_err_set(FL_ERR_INVAL, "%d workers: %.17g, not %.17g", w->n,
                          out, naive_auc(s, w->n));
    return FL_OK;
}

static void exact_auc_is_that_of_all_pairs(void **state)
{
    static const struct {
        int n_levels, positives;
    } cases[] = { { 1 << 20, 50 }, { 1 << 20, 5 }, { 1 << 20, 95 },
                  { 10, 30 },      { 1, 50 },      { 3, 80 } };

    (void)state;
    for (size_t i = 0; i < FL_LEN(cases); i++) {
        sample *s = draw(i, cases[i].n_levels, cases[i].positives);

        local_workers_run_all(measure_exactly, s);
        free(s);
    }
}

static void a_class_that_nobody_has_gives_a_half(void **state)
{
    (void)state;
    for (int positives = 0; positives <= 100; positives += 100) {
        sample *s = draw(7, 100, positives);

        local_workers_run(
            &(local_workers){ .work = measure_exactly, .arg = s });
        local_workers_run(
            &(local_workers){ .n = 3, .work = measure_exactly, .arg = s });
        memset(s->n, 0, sizeof(s->n));
        local_workers_run(
            &(local_workers){ .n = 2, .work = measure_exactly, .arg = s });
        free(s);
    }
}

/* All positives at one worker, all negatives at another, one with nothing. */
static void classes_may_be_apart(void **state)
{
    sample *s = draw(9, 1000, 50);

    (void)state;
    s->n[0] = N_MAX;
    s->n[1] = 0;
    s->n[2] = N_MAX / 2;
    for (size_t i = 0; i < N_MAX; i++) {
        s->labels[0][i] = 1;
        s->labels[2][i] = 0;
    }
    local_workers_run(
        &(local_workers){ .n = 3, .work = measure_exactly, .arg = s });
    free(s);
}

/* --- many scores ---------------------------------------------------------- */

enum { MANY = 30000 };

/* Positives of worker r are i + 0.5 for i = r, r + n, ...; negatives are i: the
   k-th positive wins against k + 1 of N. */
static fl_status measure_many(worker *w)
{
    size_t n = 2 * (size_t)MANY;
    float *scores = calloc(n, sizeof(*scores));
    int64_t *labels = calloc(n, sizeof(*labels));
    double all = (double)MANY * w->n, out = 0;
    fl_status st;

    for (size_t i = 0; i < MANY; i++) {
        size_t k = (size_t)w->rank + i * (size_t)w->n;

        scores[i] = (float)k;
        scores[MANY + i] = (float)k + 0.5F;
        labels[MANY + i] = 1;
    }
    st = fl_fleet_metrics_exact_auc(w->fleet, scores, labels, n, &out);
    free(scores);
    free(labels);
    if (!st)
        need(out == all * (all + 1) / (2 * all * all));
    return st;
}

static void many_scores_go_in_rounds(void **state)
{
    (void)state;
    local_workers_run(&(local_workers){ .work = measure_many });
    local_workers_run(&(local_workers){
        .n = 3, .work = measure_many, .max_message_bytes = "65536" });
    local_workers_run(&(local_workers){ .n = 2, .work = measure_many });
}

/* --- scores that are none ------------------------------------------------- */

static fl_status measure_nan(worker *w)
{
    bool is_last = w->rank == w->n - 1;
    float scores[] = { 0.5F, 0.25F, is_last ? NAN : 0.75F, is_last ? NAN : 0 };
    int64_t labels[] = { 0, 1, 0, 1 };
    double out = 7;
    kit_text want;

    (void)snprintf(want, sizeof(want),
                   "fl_fleet_metrics_exact_auc: score 2 of worker %d is NaN",
                   w->n - 1);
    need_error(fl_fleet_metrics_exact_auc(w->fleet, scores, labels, 4, &out),
               FL_ERR_NUMERIC, want);
    labels[1] = is_last ? 3 : 1;
    (void)snprintf(want, sizeof(want), "label 1 of worker %d is not 0 or 1",
                   w->n - 1);
    need_error(fl_fleet_metrics_exact_auc(w->fleet, scores, labels, 4, &out),
               FL_ERR_INVAL, want);
    need(out == 7);
    /* After that they are together again. */
    labels[1] = 1;
    need(!fl_fleet_metrics_exact_auc(w->fleet, scores, labels, 2, &out));
    need(out == 0);
    return FL_OK;
}

static void a_score_that_is_nan_is_named_at_all_workers(void **state)
{
    (void)state;
    local_workers_run_all(measure_nan, NULL);
}

static fl_status measure_without_memory(worker *w)
{
    float scores[] = { 0.5F, 0.25F };
    int64_t labels[] = { 0, 1 };
    double out;

    /* The message of the talk is the first, the keys are the second. */
    if (w->rank == 0)
        fl_alloc_fail_after(2);
    need_error(fl_fleet_metrics_exact_auc(w->fleet, scores, labels, 2, &out),
               FL_ERR_NOMEM, "worker 0 has no memory to sort its scores");
    return FL_OK;
}

static void a_worker_without_memory_keeps_nobody_waiting(void **state)
{
    (void)state;
    local_workers_run(
        &(local_workers){ .n = 2, .work = measure_without_memory });
}

/* --- a worker that leaves ------------------------------------------------- */

/* Says that it has scores, and leaves before it sends them. */
static fl_status leave_in_the_middle(worker *w)
{
    fl_allgather_round t;
    fl_status st = fl_allgather_begin(&t, w->fleet, FL_CALL_EXACT_AUC);

    if (!st) {
        memcpy(fl_allgather_words(&t), (uint64_t[]){ 0, 0, 1000, 1000 }, 32);
        st = fl_allgather_run_round(&t, 4, 4);
    }
    fl_allgather_end(&t);
    return st ? st : fl_fleet_stop_worker(w->fleet);
}

static fl_status measure_without_one(worker *w)
{
    const sample *s = w->arg;
    double out;

    if (w->rank == 2)
        return leave_in_the_middle(w);
    need(!fl_fleet_metrics_exact_auc(w->fleet, s->scores[w->rank],
                                     s->labels[w->rank], s->n[w->rank], &out));
    need(out == naive_auc(s, 2));
    return FL_OK;
}

static void exact_auc_begins_anew_without_who_leaves(void **state)
{
    sample *s = draw(11, 1000, 40);

    (void)state;
    local_workers_run(
        &(local_workers){ .n = 3, .work = measure_without_one, .arg = s });
    free(s);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(measures_are_those_of_all_samples),
        cmocka_unit_test(a_mean_over_nothing_is_refused),
        cmocka_unit_test(the_area_of_histograms_is_made_of_trapezoids),
        cmocka_unit_test(histograms_of_all_workers_are_added),
        cmocka_unit_test(histograms_that_do_not_fit_are_refused),
        cmocka_unit_test(keys_are_ordered_as_scores_are),
        cmocka_unit_test(runs_are_read_in_pieces),
        cmocka_unit_test(halves_are_those_of_all_pairs),
        cmocka_unit_test(more_pairs_than_can_be_counted_are_refused),
        cmocka_unit_test(exact_auc_is_that_of_all_pairs),
        cmocka_unit_test(a_class_that_nobody_has_gives_a_half),
        cmocka_unit_test(classes_may_be_apart),
        cmocka_unit_test(many_scores_go_in_rounds),
        cmocka_unit_test(a_score_that_is_nan_is_named_at_all_workers),
        cmocka_unit_test(a_worker_without_memory_keeps_nobody_waiting),
        cmocka_unit_test(exact_auc_begins_anew_without_who_leaves),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
