/* test_auc.c - AUC beyond what the sweep sees: refused values, many threads on
 * the same histograms. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <math.h>
#include <string.h>

#include "base/team.h"
#include "sweep/trial.h"
#include "ops/ops.h"

enum { PREDICT, LABEL, STAT_POS, STAT_NEG };
enum { AUC, STAT_POS_OUT, STAT_NEG_OUT };

#define N_ROWS 33
#define N_BUCKETS 8
#define N_SLIDE 3

static const fl_op_case all_case = {
    .in = { "f32[33,2] below=1", "i64[33,1] below=2", "i64[1,8] below=1",
            "i64[1,8] below=1" },
    .attrs = "{num_thresholds=7, slide_steps=0}",
};

static const fl_op_case ring_case = {
    .in = { "f32[33,2] below=1", "i64[33,1] below=2", "i64[33] below=1",
            "i64[33] below=1" },
    .attrs = "{num_thresholds=7, slide_steps=3}",
};

static void open_trial(fl_op_trial *t, fl_op *op, const fl_op_case *c)
{
    *op = *fl_ops.find("auc");
    op->cases = c;
    op->n_cases = 1;
    if (fl_op_trial_init(t, op, 0, FL_DTYPE_F32, FL_BUILD_KNOWN))
        fail_msg("%s", fl_last_error());
}

static int64_t sum_of(const int64_t *h, int n)
{
    int64_t sum = 0;

    for (int i = 0; i < n; i++)
        sum += h[i];
    return sum;
}

static void assert_refused(fl_op_trial *t, fl_status want, const char *text)
{
    fl_op_call c;

    assert_int_equal(fl_op_trial_forward(t, &(fl_how){ 0 }, &c), want);
    if (!strstr(fl_last_error(), text))
        fail_msg("'%s' is not in '%s'", text, fl_last_error());
}

static void odd_predictions_and_labels_are_named(void **state)
{
    float *p;
    int64_t *y;
    fl_op op;
    fl_op_trial t;

    (void)state;
    open_trial(&t, &op, &all_case);
    p = t.in[PREDICT].t[0]->data;
    y = t.in[LABEL].t[0]->data;
    p[2 * 5 + 1] = NAN;
    assert_refused(&t, FL_ERR_NUMERIC, "in row 5 is not in [0, 1]");
    p[2 * 5 + 1] = 1.5f;
    assert_refused(&t, FL_ERR_NUMERIC, "1.5 in row 5");
    p[2 * 5 + 1] = -0.25f;
    assert_refused(&t, FL_ERR_NUMERIC, "-0.25 in row 5");
    p[2 * 5 + 1] = 1;
    y[7] = 2;
    assert_refused(&t, FL_ERR_INVAL, "2 in row 7 is not 0 or 1");
    fl_op_trial_release(&t);
}

static void a_damaged_counter_stays_in_the_ring(void **state)
{
    fl_op op;
    fl_op_trial t;
    fl_op_call c;

    (void)state;
    open_trial(&t, &op, &ring_case);
    ((int64_t *)t.in[STAT_POS].t[0]->data)[N_BUCKETS * (N_SLIDE + 1)] = -2;
    if (fl_op_trial_forward(&t, &(fl_how){ 0 }, &c))
        fail_msg("%s", fl_last_error());
    fl_op_call_release(&c);
    fl_op_trial_release(&t);
}

/* --- threads -------------------------------------------------------------- */

#define N_THREADS 4
#define N_BATCHES 100

typedef struct crowd {
    const fl_op_trial *t;
    const fl_op_call *c; /* its histograms are everybody's */
} crowd;

static fl_status count_batches(void *arg, int ith)
{
    const crowd *w = arg;
    double area;
    fl_tensor auc = *w->c->out[AUC].t[0], *auc_t = &auc;
    fl_targs out[] = { { &auc_t, 1 },
                       w->c->out[STAT_POS_OUT],
                       w->c->out[STAT_NEG_OUT] };
    fl_op_ctx ctx = {
        .node = w->t->node, .in = w->c->in, .out = out, .nth = 1, .replica = ith
    };

    auc.data = &area;
    for (int i = 0; i < N_BATCHES; i++)
        FL_TRY(w->t->op->run(&ctx));
    return FL_OK;
}

/* One run before the crowd's, which gives the tensors. */
static void run_crowd(const fl_op_case *test_case, fl_op_trial *t, fl_op *op,
                      fl_op_call *c)
{
    crowd w = { t, c };
    fl_team *team;

    open_trial(t, op, test_case);
    assert_int_equal(fl_op_trial_forward(t, &(fl_how){ 0 }, c), FL_OK);
    assert_int_equal(fl_team_new(&team, N_THREADS, "crowd"), FL_OK);
    assert_int_equal(fl_team_run(team, count_batches, &w), FL_OK);
    fl_team_free(team);
}

static void no_count_is_lost_between_threads(void **state)
{
    const int64_t n_runs = N_THREADS * N_BATCHES + 1;
    fl_op op;
    fl_op_trial t;
    fl_op_call c;

    (void)state;
    run_crowd(&all_case, &t, &op, &c);
    assert_int_equal(sum_of(c.out[STAT_POS_OUT].t[0]->data, N_BUCKETS) +
                         sum_of(c.out[STAT_NEG_OUT].t[0]->data, N_BUCKETS),
                     n_runs * N_ROWS);
    fl_op_call_release(&c);
    fl_op_trial_release(&t);
}

static void the_sum_of_the_ring_is_the_sum_of_its_parts(void **state)
{
    const int64_t n_runs = N_THREADS * N_BATCHES + 1;
    fl_op op;
    fl_op_trial t;
    fl_op_call c;

    (void)state;
    run_crowd(&ring_case, &t, &op, &c);
    for (int s = STAT_POS_OUT; s <= STAT_NEG_OUT; s++) {
        const int64_t *h = c.out[s].t[0]->data;

        for (int i = 0; i < N_BUCKETS; i++)
            assert_int_equal(h[i] + h[N_BUCKETS + i] + h[2 * N_BUCKETS + i],
                             h[N_SLIDE * N_BUCKETS + i]);
        assert_int_equal(h[(N_SLIDE + 1) * N_BUCKETS], n_runs);
    }
    fl_op_call_release(&c);
    fl_op_trial_release(&t);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(odd_predictions_and_labels_are_named),
        cmocka_unit_test(a_damaged_counter_stays_in_the_ring),
        cmocka_unit_test(no_count_is_lost_between_threads),
        cmocka_unit_test(the_sum_of_the_ring_is_the_sum_of_its_parts),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
