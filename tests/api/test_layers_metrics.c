/* test_layers_metrics.c - metrics over all batches, from sums that add up. */
#include "api.h"
#include "../make.h"

#include <math.h>

enum { CLASSES = 3 };

/* A metric over `x` and what it is compared with, `y`. */
typedef struct rig {
    fl_ctx *ctx;
    fl_executor *exe;
    fl_var *x, *y, *out, *stat;
} rig;

static rig open_rig(int64_t width, fl_dtype dtype, int64_t y_width)
{
    rig r = { .ctx = make_ctx() };

    r.exe = make_executor(r.ctx);
    r.x = data2(r.ctx, "x", width);
    r.y = fl_layers_data(r.ctx, "y", dtype, 2, (int64_t[]){ -1, y_width }, 0);
    return r;
}

static void close_rig(rig *r)
{
    fl_executor_free(r->exe);
    fl_ctx_free(r->ctx);
}

static fl_feed feed_of(const fl_var *v, void *data, int64_t n)
{
    return (fl_feed){ .name = fl_var_name(v),
                      .value = fl_tensor_of(
                          fl_var_dtype(v), data, 2,
                          (int64_t[]){ n, fl_var_shape(v).dim[1] }) };
}

/* Runs a batch of n rows; the value goes to *out. */
static fl_status run(rig *r, float *x, void *y, int64_t n, double *out)
{
    const char *name = fl_var_name(r->out);
    fl_feed feeds[] = { feed_of(r->x, x, n), feed_of(r->y, y, n) };
    fl_tensor got;
    fl_run_args args = FL_INIT(fl_run_args, .feeds = feeds, .n_feeds = 2,
                               .fetches = &name, .n_fetches = 1, .out = &got);
    fl_status st = fl_run(r->exe, fl_default_main_program(r->ctx), &args);

    if (!st)
        *out = *(const double *)got.data;
    return st;
}

static void start(rig *r)
{
    if (!r->out)
        fail_msg("%s", fl_last_error());
    assert_ok(fl_run(r->exe, fl_default_startup_program(r->ctx), NULL));
}

static void assert_value(rig *r, float *x, void *y, int64_t n, double want)
{
    double got = NAN;

    assert_ok(run(r, x, y, n, &got));
    if (!(fabs(got - want) < 1e-9))
        fail_msg("got %.12g, want %.12g", got, want);
}

/* What the state has in row i. */
static void assert_sums(const rig *r, int i, double sum, double of)
{
    fl_tensor t;

    assert_ok(fl_scope_get(fl_current_scope(r->ctx), fl_var_name(r->stat), &t));
    assert_true(((const double *)t.data)[2 * i] == sum);
    assert_true(((const double *)t.data)[2 * i + 1] == of);
}

static void assert_refused(rig *r, float *x, void *y, int64_t n,
                           const char *words)
{
    double got;

    assert_true(run(r, x, y, n, &got) != FL_OK);
    assert_said(words);
}

/* --- values --------------------------------------------------------------- */

static void recall_is_the_share_of_labels_among_the_best(void **state)
{
    rig r = open_rig(CLASSES, FL_DTYPE_I64, 2);
    float x[] = { 0.1F, 0.9F, 0.5F, 3, 2, 1 };
    int64_t y[] = { 1, 2, 0, 2 };

    (void)state;
    r.out = fl_layers_recall(r.x, r.y, 1, &r.stat);
    start(&r);
    assert_value(&r, x, y, 2, 0.5);
    assert_value(&r, x, y, 1, 0.5);
    assert_sums(&r, 0, 3, 6);
    close_rig(&r);
}

static void a_hit_is_a_row_with_one_label_among_the_best(void **state)
{
    rig r = open_rig(CLASSES, FL_DTYPE_I64, 2);
    float x[] = { 0.1F, 0.9F, 0.5F, 3, 2, 1, 1, 2, 3 };
    int64_t y[] = { 1, 2, 0, 2, 0, 1 };

    (void)state;
    r.out = fl_layers_hit_rate(r.x, r.y, 1, &r.stat);
    start(&r);
    assert_value(&r, x, y, 3, 2.0 / 3);
    assert_sums(&r, 0, 2, 3);
    close_rig(&r);
}

/* Of equals the first is better, and what is no number is the worst. */
static void equal_scores_are_in_the_order_of_their_classes(void **state)
{
    rig r = open_rig(CLASSES, FL_DTYPE_I64, 1);
    float x[] = { 1, 1, 0, 1, 1, 0, NAN, 1, 0 };
    int64_t y[] = { 0, 1, 0 };

    (void)state;
    r.out = fl_layers_recall(r.x, r.y, 1, &r.stat);
    start(&r);
    assert_value(&r, x, y, 3, 1.0 / 3);
    close_rig(&r);
}

static void pairs_are_right_when_the_right_one_is_above(void **state)
{
    rig r = open_rig(1, FL_DTYPE_F32, 1);
    float x[] = { 1, 0, 2, 5 }, y[] = { 0, 1, 2, 4 };

    (void)state;
    r.out = fl_layers_pair_accuracy(r.x, r.y, &r.stat);
    start(&r);
    assert_value(&r, x, y, 4, 2.5 / 4);
    assert_value(&r, x, y, 0, 2.5 / 4);
    close_rig(&r);
}

static void log_loss_is_the_mean_over_all_batches(void **state)
{
    rig r = open_rig(2, FL_DTYPE_I64, 1);
    float x[] = { 0.75F, 0.25F, 0.5F, 0.5F, 1, 0 };
    int64_t y[] = { 0, 1, 1 };

    (void)state;
    r.out = fl_layers_mean_log_loss(r.x, r.y, &r.stat);
    start(&r);
    assert_value(&r, x, y, 2, -(log(0.75) + log(0.5)) / 2);
    assert_value(&r, x + 4, y + 2, 1, -(log(0.75) + log(0.5) + log(1e-7)) / 3);
    close_rig(&r);
}

static void accuracy_is_counted_by_class(void **state)
{
    rig r = open_rig(CLASSES, FL_DTYPE_I64, 1);
    float x[] = { 3, 1, 2, 0, 1, 2, 0, 1, 0 };
    int64_t y[] = { 0, 1, 1 };

    (void)state;
    r.out = fl_layers_class_accuracy(r.x, r.y, &r.stat);
    start(&r);
    assert_value(&r, x, y, 3, 2.0 / 3);
    assert_sums(&r, 0, 1, 1);
    assert_sums(&r, 1, 1, 2);
    assert_sums(&r, 2, 0, 0);
    close_rig(&r);
}

/* --- refusals ------------------------------------------------------------- */

static void labels_and_chances_that_cannot_be_leave_no_trace(void **state)
{
    rig r = open_rig(1, FL_DTYPE_I64, 1);
    float x[] = { 0.5F, 1.5F };
    int64_t y[] = { 1, 0, 2 };

    (void)state;
    r.out = fl_layers_mean_log_loss(r.x, r.y, &r.stat);
    start(&r);
    assert_refused(&r, x, y, 2, "1.5 in row 1 is not in [0, 1]");
    assert_refused(&r, x, y + 2, 1, "class 2 at place 0 is not in 0..1");
    assert_sums(&r, 0, 0, 0);
    close_rig(&r);
}

static void shapes_that_do_not_fit_are_refused(void **state)
{
    rig r = open_rig(CLASSES, FL_DTYPE_I64, 2);
    fl_var *f = data2(r.ctx, "f", 2);

    (void)state;
    assert_null(fl_layers_recall(r.x, r.y, 0, NULL));
    assert_said("k is 0, not 1 or more");
    assert_null(fl_layers_recall(r.x, f, 1, NULL));
    assert_said("recall_at_k");
    assert_null(fl_layers_pair_accuracy(r.x, f, NULL));
    assert_said("does not fit");
    assert_null(fl_layers_mean_log_loss(r.x, r.y, NULL));
    assert_said("of the second 1 to 2");
    assert_null(fl_layers_class_accuracy(r.x, r.y, NULL));
    assert_said("does not fit");
    assert_null(fl_layers_class_accuracy(NULL, r.y, NULL));
    close_rig(&r);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(recall_is_the_share_of_labels_among_the_best),
        cmocka_unit_test(a_hit_is_a_row_with_one_label_among_the_best),
        cmocka_unit_test(equal_scores_are_in_the_order_of_their_classes),
        cmocka_unit_test(pairs_are_right_when_the_right_one_is_above),
        cmocka_unit_test(log_loss_is_the_mean_over_all_batches),
        cmocka_unit_test(accuracy_is_counted_by_class),
        cmocka_unit_test(labels_and_chances_that_cannot_be_leave_no_trace),
        cmocka_unit_test(shapes_that_do_not_fit_are_refused),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
