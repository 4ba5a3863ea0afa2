/* test_judge.c - measures by name: recorded values, made by going through all
 * orders of equal scores in Python, and the same for any number of workers. */
#include "worker_kit.h"

#include "base/vec.h"
#include "flotilla/eval.h"

#define assert_refused(expr, status, said)                                     \
    do {                                                                       \
        assert_int_equal(expr, status);                                        \
        if (!strstr(fl_last_error(), said))                                    \
            fail_msg("'%s' does not say '%s'", fl_last_error(), said);         \
    } while (0)

typedef struct sample {
    float score, label;
    uint64_t user;
} sample;

static const sample clicks[] = {
    { 0.25f, 1, 7 }, { 0.75f, 0, 7 }, { 0.5f, 1, 7 },  { 0.5f, 1, 8 },
    { 0.75f, 0, 8 }, { 0.75f, 0, 9 }, { 0.5f, 0, 7 },  { 0.75f, 0, 7 },
    { 0.25f, 1, 7 }, { 0.5f, 1, 8 },  { 0.75f, 0, 8 }, { 0.5f, 1, 9 },
    { 0.25f, 0, 7 }, { 0.9f, 0, 7 },  { 0.75f, 0, 7 }, { 0.9f, 0, 8 },
    { 0.9f, 0, 8 },  { 0.25f, 1, 9 },
};

static const sample ratings[] = {
    { 3.5f, 4, 1 }, { 2.0f, 1, 1 }, { 4.5f, 5, 1 }, { 4.5f, 2, 1 },
    { 1.0f, 3, 2 }, { 5.5f, 5, 2 }, { 3.0f, 0, 2 },
};

/* One sample of each worker's. */
static fl_status add(fl_judge *j, const sample *s)
{
    const uint64_t *keys[] = { &s->user, &s->user };

    return fl_judge_add(j, &s->score, &s->label, keys, 1);
}

typedef struct expected {
    const char *metrics;
    const sample *samples;
    size_t n;
    const double *values;
} expected;

static fl_status judge_share(worker *w)
{
    const expected *x = w->arg;
    fl_judge *j;

    need(!fl_judge_new(&j, x->metrics));
    for (size_t i = (size_t)w->rank; i < x->n; i += (size_t)w->n)
        need(!add(j, &x->samples[i]));
    FL_TRY(fl_judge_finish(j, w->fleet));
    for (size_t i = 0; i < fl_judge_count(j); i++)
        need(fabs(fl_judge_value(j, i) - x->values[i]) < 1e-12);
    fl_judge_free(j);
    return FL_OK;
}

#define CLICK_METRICS                                                          \
    "precision@1:user,precision@3:user,precision@5:user,recall@3:user,"        \
    "recall@5:user,recall@100:user,ndcg@3:user,ndcg@5:user,ndcg@100:user,"     \
    "precision@0.5,recall@0.5,recall@0.6,accuracy"

static const double click_values[] = {
    0,
    0.2222222222222222,
    0.23333333333333336,
    0.3333333333333333,
    0.5555555555555556,
    1,
    0.23114213453909027,
    0.34046500421841447,
    0.5401795968411355,
    0.2857142857142857,
    0.5714285714285714,
    0,
    5.0 / 18,
};

#define RATING_METRICS "rmse,mae,calibration,ndcg@2:user"

static const double rating_values[] = {
    1.7320508075688772,
    1.4285714285714286,
    0.8333333333333334,
    0.742048438734251,
};

static void values_are_those_of_straight_python(void **state)
{
    const expected c = { CLICK_METRICS, clicks, FL_LEN(clicks), click_values };
    const expected r = { RATING_METRICS, ratings, FL_LEN(ratings),
                         rating_values };

    (void)state;
    local_workers_run(&(local_workers){ .work = judge_share, .arg = &c });
    local_workers_run(&(local_workers){ .work = judge_share, .arg = &r });
}

/* Of more workers than there are ratings for, some have none. */
static void any_number_of_workers_gets_them(void **state)
{
    const expected c = { CLICK_METRICS, clicks, FL_LEN(clicks), click_values };
    const expected r = { RATING_METRICS, ratings, FL_LEN(ratings),
                         rating_values };
    const double one[] = { 0.5, 0.5 };
    const expected few = { "rmse,mae", ratings, 1, one };

    (void)state;
    local_workers_run_all(judge_share, &c);
    local_workers_run_all(judge_share, &r);
    local_workers_run_all(judge_share, &few);
}

/* The bits, not about the same. */
static fl_status judge_bits(worker *w)
{
    const double *alone = w->arg;
    fl_judge *j;

    need(!fl_judge_new(&j, "auc,gauc:user,logloss,rmse,ndcg@10:user"));
    for (uint64_t i = (uint64_t)w->rank; i < 3000; i += (uint64_t)w->n) {
        double p = (double)(fl_mix64(i) >> 11) * 0x1p-53;
        sample s = { (float)floor(p * 100) / 100,
                     (float)(fl_mix64(i + 1) % 3 == 0), fl_mix64(i) % 70 };

        need(!add(j, &s));
    }
    FL_TRY(fl_judge_finish(j, w->fleet));
    for (size_t i = 0; i < fl_judge_count(j); i++) {
        if (w->n == 1)
            ((double *)(uintptr_t)alone)[i] = fl_judge_value(j, i);
        need(fl_judge_value(j, i) == alone[i]);
    }
    fl_judge_free(j);
    return FL_OK;
}

static void workers_change_no_bit(void **state)
{
    double alone[5] = { 0 };

    (void)state;
    local_workers_run(&(local_workers){ .work = judge_bits, .arg = alone });
    local_workers_run(
        &(local_workers){ .n = 3, .work = judge_bits, .arg = alone });
}

static void figures_have_names_and_keys_an_order(void **state)
{
    static const char metrics[] = "auc,gauc:user,logloss,recall@2:item,"
                                  "ndcg@1:user";
    fl_judge *j;

    (void)state;
    assert_ok(fl_judge_new(&j, metrics));
    assert_string_equal(fl_judge_key(j, 0), "user");
    assert_string_equal(fl_judge_key(j, 1), "item");
    assert_null(fl_judge_key(j, 2));
    assert_int_equal(fl_judge_count(j), 5);
    assert_string_equal(fl_judge_name(j, 3), "recall@2:item");
    assert_null(fl_judge_name(j, 5));
    assert_true(isnan(fl_judge_value(j, 0)));
    for (size_t i = 0; i < FL_LEN(clicks); i++)
        assert_ok(add(j, &clicks[i]));
    assert_ok(fl_judge_finish(j, NULL));
    /* Of 77 pairs 4 are right and 7 are equal. */
    assert_true(fabs(fl_judge_value(j, 0) - 7.5 / 77) < 1e-12);
    assert_true(fl_judge_value(j, 3) >= 0);
    fl_judge_free(j);
}

static void what_cannot_be_measured_is_refused(void **state)
{
    static const sample rating = { 3.5f, 4, 1 };
    fl_judge *j = NULL;

    (void)state;
    assert_refused(fl_judge_new(&j, "aux"), FL_ERR_NOTFOUND,
                   "did you mean auc?");
    assert_refused(fl_judge_new(&j, "auc,qqqqqqqqq"), FL_ERR_NOTFOUND,
                   "fl_judge_help lists them");
    assert_refused(fl_judge_new(&j, ""), FL_ERR_INVAL, "no metric is named");
    assert_refused(fl_judge_new(&j, "gauc"), FL_ERR_INVAL, "write gauc:KEY");
    assert_refused(fl_judge_new(&j, "auc@3"), FL_ERR_INVAL, "write auc,");
    assert_refused(fl_judge_new(&j, "recall"), FL_ERR_INVAL,
                   "write recall@SCORE");
    assert_refused(fl_judge_new(&j, "recall@20"), FL_ERR_INVAL,
                   "'20' is no score from 0 to 1");
    assert_refused(fl_judge_new(&j, "recall@0.5:user"), FL_ERR_INVAL,
                   "'0.5' is no number of records");
    assert_refused(fl_judge_new(&j, "ndcg@5:"), FL_ERR_INVAL,
                   "no key behind its colon");
    assert_null(j);
    assert_ok(fl_judge_new(&j, "rmse,auc"));
    assert_refused(add(j, &rating), FL_ERR_INVAL, "label 4 is not 0 or 1");
    assert_refused(fl_judge_finish(j, NULL), FL_ERR_INVAL,
                   "there are no samples");
    fl_judge_free(j);
}

static void numbers_and_chances_do_not_mix(void **state)
{
    fl_eval_figures f = FL_INIT(fl_eval_figures);
    fl_eval *e;

    (void)state;
    assert_ok(fl_eval_new_of_numbers(&e));
    assert_refused(fl_eval_add(e, (float[]){ 0.5f }, (int64_t[]){ 1 }, NULL, 1),
                   FL_ERR_INVAL, "this evaluation is one of numbers");
    assert_refused(
        fl_eval_add_numbers(e, (float[]){ 1 }, (float[]){ INFINITY }, NULL, 1),
        FL_ERR_NUMERIC, "label inf of sample 0 is not finite");
    assert_ok(fl_eval_add_numbers(e, (float[]){ 3 }, (float[]){ 5 }, NULL, 1));
    assert_ok(fl_eval_finish(e, NULL, 0));
    assert_ok(fl_eval_total(e, &f));
    assert_true(f.rmse == 2 && f.mae == 2 && f.actual_ctr == 5);
    assert_true(isnan(f.auc) && isnan(f.log_loss) && isnan(f.accuracy));
    fl_eval_free(e);
    assert_ok(fl_eval_new(&e));
    assert_refused(
        fl_eval_add_numbers(e, (float[]){ 3 }, (float[]){ 5 }, NULL, 1),
        FL_ERR_INVAL, "this evaluation is one of chances");
    fl_eval_free(e);
}

static void the_help_has_every_measure(void **state)
{
    char *text = fl_judge_help();

    (void)state;
    assert_non_null(strstr(text, "auc\tshare of the pairs"));
    assert_non_null(strstr(text, "\nndcg@K:KEY\t"));
    assert_non_null(strstr(text, "\nrecall@SCORE\t"));
    fl_text_free(text);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(values_are_those_of_straight_python),
        cmocka_unit_test(any_number_of_workers_gets_them),
        cmocka_unit_test(workers_change_no_bit),
        cmocka_unit_test(figures_have_names_and_keys_an_order),
        cmocka_unit_test(what_cannot_be_measured_is_refused),
        cmocka_unit_test(numbers_and_chances_do_not_mix),
        cmocka_unit_test(the_help_has_every_measure),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
