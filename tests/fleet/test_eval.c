/* test_eval.c - figures of scores against their definitions, and the same
 * numbers for any number of workers. */
#include "worker_kit.h"

#include "flotilla/eval.h"
#include "fleet/eval_sums.h"

#define N 3000

#define assert_refused(expr, status, said)                                     \
    do {                                                                       \
        assert_int_equal(expr, status);                                        \
        if (!strstr(fl_last_error(), said))                                    \
            fail_msg("'%s' does not say '%s'", fl_last_error(), said);         \
    } while (0)

typedef struct set {
    float scores[N];
    int64_t labels[N];
    uint64_t groups[N];
} set;

static double draw(uint64_t i, uint64_t stream)
{
    return (double)(fl_mix64(i * 8 + stream) >> 11) * 0x1p-53;
}

/* Scores that tell something, many of them equal; groups of all sizes. */
static set *make_set(void)
{
    set *s = calloc(1, sizeof(*s));

    for (size_t i = 0; i < N; i++) {
        double p = floor(draw(i, 0) * 200) / 200;

        s->scores[i] = (float)p;
        s->labels[i] = draw(i, 1) < p * 0.9;
        s->groups[i] = (uint64_t)(draw(i, 2) * draw(i, 3) * 50) * 977;
    }
    return s;
}

/* --- definitions ---------------------------------------------------------- */

/* Of the samples of a group; UINT64_MAX: of all. */
static double auc_by_pairs(const set *s, uint64_t group, double *samples)
{
    double wins = 0, pairs = 0;

    *samples = 0;
    for (size_t i = 0; i < N; i++) {
        if (group != UINT64_MAX && s->groups[i] != group)
            continue;
        ++*samples;
        for (size_t k = 0; k < N && s->labels[i]; k++) {
            if (s->labels[k] || (group != UINT64_MAX && s->groups[k] != group))
                continue;
            pairs++;
            wins += s->scores[i] > s->scores[k] ? 1 : 0;
            wins += s->scores[i] == s->scores[k] ? 0.5 : 0;
        }
    }
    return pairs > 0 ? wins / pairs : NAN;
}

static double group_auc_by_pairs(const set *s)
{
    double sum = 0, n = 0;

    for (uint64_t g = 0; g < 50; g++) {
        double samples, auc = auc_by_pairs(s, g * 977, &samples);

        if (isnan(auc))
            continue;
        sum += auc * samples;
        n += samples;
    }
    return sum / n;
}

static fl_eval *eval_of(const set *s, const uint64_t *groups, size_t n_groups)
{
    fl_eval *e;

    assert_ok(fl_eval_new(&e));
    for (size_t i = 0; i < N; i += 700) {
        size_t n = N - i < 700 ? N - i : 700;

        assert_ok(fl_eval_add(e, s->scores + i, s->labels + i,
                              groups ? groups + i : NULL, n));
    }
    assert_ok(fl_eval_finish(e, NULL, n_groups));
    return e;
}

static void assert_near(double a, double b)
{
    if (!(fabs(a - b) < 1e-12))
        fail_msg("%.17g is not %.17g", a, b);
}

static void figures_are_what_they_are_by_definition(void **state)
{
    set *s = make_set();
    fl_eval *e = eval_of(s, s->groups, 0);
    fl_eval_figures f = FL_INIT(fl_eval_figures);
    double loss = 0, mae = 0, mse = 0, score = 0, right = 0, positives = 0, n;

    (void)state;
    for (size_t i = 0; i < N; i++) {
        double p = (double)s->scores[i], y = (double)s->labels[i];

        loss -= log(fmax(s->labels[i] ? p : 1 - p, 1e-7)) / N;
        mae += fabs(p - y) / N;
        mse += (p - y) * (p - y) / N;
        score += p;
        positives += y;
        right += (p >= 0.5) == (y > 0);
    }
    assert_ok(fl_eval_total(e, &f));
    assert_int_equal(f.samples, N);
    assert_int_equal(f.positives, (uint64_t)positives);
    assert_near(f.auc, auc_by_pairs(s, UINT64_MAX, &n));
    assert_near(f.group_auc, group_auc_by_pairs(s));
    assert_true(fabs(f.log_loss - loss) < 1e-6); /* the nearest to 1 */
    assert_near(f.mae, mae);
    assert_near(f.rmse, sqrt(mse));
    assert_near(f.accuracy, right / N);
    assert_near(f.actual_ctr, positives / N);
    assert_near(f.predicted_ctr, score / N);
    assert_near(f.copc, positives / score);
    assert_int_equal(fl_eval_group_count(e), 0);
    fl_eval_free(e);
    free(s);
}

static void the_largest_groups_are_told_apart(void **state)
{
    set *s = make_set();
    fl_eval *e = eval_of(s, s->groups, 5);
    fl_eval_figures f = FL_INIT(fl_eval_figures);
    uint64_t group, last = UINT64_MAX;
    double n;

    (void)state;
    assert_int_equal(fl_eval_group_count(e), 5);
    for (size_t i = 0; i < 5; i++) {
        assert_ok(fl_eval_group(e, i, &group, &f));
        assert_near(f.auc, auc_by_pairs(s, group, &n));
        assert_int_equal(f.samples, (uint64_t)n);
        assert_true(f.samples <= last);
        last = f.samples;
    }
    assert_refused(fl_eval_group(e, 5, &group, &f), FL_ERR_NOTFOUND,
                   "no group 5 of 5");
    fl_eval_free(e);
    free(s);
}

/* Ranges of 0.01 with 3000 samples in each and clicks at 1.5 times the rate:
   each is known, and wrong by a half. */
static void the_bucket_error_is_that_of_click_rates(void **state)
{
    double *samples = calloc(2 * FL_EVAL_STEPS, sizeof(*samples));
    double *positives = samples + FL_EVAL_STEPS;

    (void)state;
    assert_true(isnan(fl_eval_bucket_error(samples, positives)));
    for (size_t i = 20000; i < 40000; i += 1000) {
        samples[i] = 3000;
        positives[i] = 3000 * 1.5 * (double)i / FL_EVAL_STEPS;
    }
    assert_near(fl_eval_bucket_error(samples, positives), 0.5);
    free(samples);
}

/* --- workers -------------------------------------------------------------- */

static bool same(const fl_eval_figures *a, const fl_eval_figures *b)
{
    return !memcmp(&a->samples, &b->samples,
                   sizeof(*a) - offsetof(fl_eval_figures, samples));
}

typedef struct expected {
    const set *set;
    bool has_groups;
    fl_eval *alone;
} expected;

static fl_status evaluate_share(worker *w)
{
    const expected *x = w->arg;
    fl_eval_figures mine = FL_INIT(fl_eval_figures);
    fl_eval_figures all = FL_INIT(fl_eval_figures);
    uint64_t a, b;
    fl_eval *e;

    need(!fl_eval_new(&e));
    for (size_t i = (size_t)w->rank; i < N; i += (size_t)w->n)
        need(!fl_eval_add(e, x->set->scores + i, x->set->labels + i,
                          x->has_groups ? x->set->groups + i : NULL, 1));
    FL_TRY(fl_eval_finish(e, w->fleet, 7));
    need(!fl_eval_total(e, &mine) && !fl_eval_total(x->alone, &all));
    need(same(&mine, &all));
    need(fl_eval_group_count(e) == fl_eval_group_count(x->alone));
    for (size_t i = 0; i < fl_eval_group_count(e); i++) {
        need(!fl_eval_group(e, i, &a, &mine));
        need(!fl_eval_group(x->alone, i, &b, &all));
        need(a == b && same(&mine, &all));
    }
    fl_eval_free(e);
    return FL_OK;
}

static void any_number_of_workers_gets_the_same_numbers(void **state)
{
    set *s = make_set();

    (void)state;
    for (int has_groups = 0; has_groups < 2; has_groups++) {
        expected x = { s, has_groups,
                       eval_of(s, has_groups ? s->groups : NULL, 7) };

        local_workers_run_all(evaluate_share, &x);
        /* A message holds few samples: many rounds. */
        local_workers_run(&(local_workers){ .n = 3,
                                            .work = evaluate_share,
                                            .arg = &x,
                                            .max_message_bytes = "65536" });
        fl_eval_free(x.alone);
    }
    free(s);
}

static fl_status evaluate_nothing(worker *w)
{
    fl_eval *e;

    need(!fl_eval_new(&e));
    need_error(fl_eval_finish(e, w->fleet, 0), FL_ERR_INVAL,
               "there are no samples");
    fl_eval_free(e);
    return FL_OK;
}

static void no_samples_are_refused_everywhere(void **state)
{
    (void)state;
    local_workers_run(&(local_workers){ .work = evaluate_nothing });
    local_workers_run(&(local_workers){ .n = 2, .work = evaluate_nothing });
}

/* --- what is refused ------------------------------------------------------ */

static void bad_samples_are_named(void **state)
{
    fl_eval_figures f = FL_INIT(fl_eval_figures);
    fl_eval *e;

    (void)state;
    assert_ok(fl_eval_new(&e));
    assert_refused(fl_eval_total(e, &f), FL_ERR_INVAL, "fl_eval_finish first");
    assert_refused(
        fl_eval_add(e, (float[]){ 0.5f, 1.5f }, (int64_t[]){ 0, 1 }, NULL, 2),
        FL_ERR_NUMERIC, "score 1.5 of sample 1 is not between 0 and 1");
    assert_refused(fl_eval_add(e, (float[]){ NAN }, (int64_t[]){ 0 }, NULL, 1),
                   FL_ERR_NUMERIC, "score nan");
    assert_refused(fl_eval_add(e, (float[]){ 0.5f }, (int64_t[]){ 2 }, NULL, 1),
                   FL_ERR_INVAL, "label 2 of sample 0");
    assert_ok(fl_eval_add(e, (float[]){ 0.5f }, (int64_t[]){ 1 }, NULL, 1));
    assert_refused(fl_eval_add(e, (float[]){ 0.5f }, (int64_t[]){ 1 },
                               (uint64_t[]){ 3 }, 1),
                   FL_ERR_INVAL, "groups are given with some samples");
    assert_ok(fl_eval_finish(e, NULL, 3));
    assert_ok(fl_eval_total(e, &f));
    assert_int_equal(f.samples, 1);
    assert_true(f.auc == 0.5 && isnan(f.group_auc));
    assert_refused(fl_eval_add(e, (float[]){ 0.5f }, (int64_t[]){ 1 }, NULL, 1),
                   FL_ERR_INVAL, "made already");
    fl_eval_free(e);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(figures_are_what_they_are_by_definition),
        cmocka_unit_test(the_largest_groups_are_told_apart),
        cmocka_unit_test(the_bucket_error_is_that_of_click_rates),
        cmocka_unit_test(any_number_of_workers_gets_the_same_numbers),
        cmocka_unit_test(no_samples_are_refused_everywhere),
        cmocka_unit_test(bad_samples_are_named),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
