/* test_layers_norm.c - layers that normalise: what they learn, and the state
 * that they count while training and use in test. */
#include <math.h>

#include "api.h"
#include "../make.h"

#define ROWS 8
#define COLS 3

/* A network of one normalising layer that is trained. */
typedef struct net {
    fl_ctx *c;
    fl_executor *e;
    fl_var *y, *loss;
    float x[ROWS * COLS];
    fl_feed feed;
} net;

static void open_net(net *n, fl_var *(*layer)(fl_var *x))
{
    n->c = make_ctx();
    n->e = make_executor(n->c);
    n->y = layer(data2(n->c, "x", COLS));
    n->loss = fl_layers_mean(fl_layers_fc(n->y, 1, ));
    if (!n->loss)
        fail_msg("%s", fl_last_error());
    assert_ok(
        fl_minimize(make_optimizer(n->c, "sgd", "learning_rate=0"), n->loss));
    for (int i = 0; i < ROWS * COLS; i++)
        n->x[i] = (float)(i * 7 % 11) + (float)(i % COLS) * 10;
    n->feed = (fl_feed){ "x", fl_tensor_of(FL_DTYPE_F32, n->x, 2,
                                           (int64_t[]){ ROWS, COLS }) };
    assert_ok(fl_run(n->e, fl_default_startup_program(n->c), NULL));
}

static void close_net(net *n)
{
    fl_executor_free(n->e);
    fl_ctx_free(n->c);
}

static void run_net(net *n, fl_program *p, float y[ROWS * COLS])
{
    const char *fetch = fl_var_name(n->y);
    fl_tensor out;
    fl_run_args a = FL_INIT(fl_run_args, .feeds = &n->feed, .n_feeds = 1,
                            .fetches = &fetch, .n_fetches = 1, .out = &out);

    assert_ok(fl_run(n->e, p, &a));
    memcpy(y, out.data, sizeof(float[ROWS * COLS]));
}

static float state_at(const net *n, const char *name, int i)
{
    fl_tensor t;

    assert_ok(fl_scope_get(fl_current_scope(n->c), name, &t));
    return ((const float *)t.data)[i];
}

static double column_mean(const float *x, int col)
{
    double sum = 0;

    for (int r = 0; r < ROWS; r++)
        sum += (double)x[r * COLS + col];
    return sum / ROWS;
}

static double column_squares(const float *x, int col, double mean)
{
    double sum = 0;

    for (int r = 0; r < ROWS; r++) {
        double d = (double)x[r * COLS + col] - mean;

        sum += d * d;
    }
    return sum;
}

/* --- batch_norm ----------------------------------------------------------- */

static fl_var *batch_norm(fl_var *x)
{
    return fl_layers_batch_norm(x, .momentum = 0.5);
}

static void a_batch_norm_has_the_names_users_know(void **state)
{
    char *text;
    net n;

    (void)state;
    open_net(&n, batch_norm);
    text = fl_program_to_text(fl_default_main_program(n.c));
    assert_text_has(text, "param batch_norm_0.w_0 : f32[3] init=constant(1)");
    assert_text_has(text, "param batch_norm_0.b_0 : f32[3] init=constant(0)");
    assert_text_has(text, "Mean=batch_norm_0.w_1, Variance=batch_norm_0.w_2");
    assert_text_has(text,
                    "MeanOut=batch_norm_0.w_1, VarianceOut=batch_norm_0.w_2");
    fl_text_free(text);
    close_net(&n);
}

static void running_numbers_move_in_training_alone(void **state)
{
    float y[ROWS * COLS], test[ROWS * COLS];
    fl_program *for_test;
    net n;

    (void)state;
    open_net(&n, batch_norm);
    assert_ok(fl_program_for_test(&for_test, fl_default_main_program(n.c)));
    run_net(&n, fl_default_main_program(n.c), y);
    for (int c = 0; c < COLS; c++) {
        double mean = column_mean(n.x, c);
        double variance = column_squares(n.x, c, mean) / ROWS;

        assert_float_equal(column_mean(y, c), 0, 1e-5);
        assert_float_equal(column_squares(y, c, 0), ROWS, 1e-3);
        assert_float_equal(state_at(&n, "batch_norm_0.w_1", c), mean / 2, 1e-4);
        assert_float_equal(state_at(&n, "batch_norm_0.w_2", c),
                           0.5 + variance / 2, 1e-4);
    }
    run_net(&n, for_test, test);
    run_net(&n, for_test, test);
    for (int c = 0; c < COLS; c++) {
        float m = state_at(&n, "batch_norm_0.w_1", c);
        float v = state_at(&n, "batch_norm_0.w_2", c);

        assert_float_equal(m, column_mean(n.x, c) / 2, 1e-4);
        assert_float_equal(test[c], (n.x[c] - m) / sqrtf(v + 1e-5f), 1e-4);
    }
    fl_program_free(for_test);
    close_net(&n);
}

/* --- layer_norm ----------------------------------------------------------- */

static fl_var *layer_norm(fl_var *x)
{
    return fl_layers_layer_norm(x, .no_shift = true, .act = "relu");
}

static void a_layer_norm_normalises_rows(void **state)
{
    float y[ROWS * COLS];
    char *text;
    net n;

    (void)state;
    open_net(&n, layer_norm);
    run_net(&n, fl_default_main_program(n.c), y);
    for (int i = 0; i < ROWS * COLS; i++)
        assert_true(y[i] >= 0 && y[i] < 1.5f);
    text = fl_program_to_text(fl_default_main_program(n.c));
    assert_text_has(text, "op layer_norm (X=x, Scale=layer_norm_0.w_0)");
    fl_text_free(text);
    assert_null(fl_layers_layer_norm(data2(n.c, "z", 2), .begin_norm_axis = 2));
    assert_said("begin_norm_axis 2 is not a dimension of input z");
    close_net(&n);
}

/* --- data_norm ------------------------------------------------------------ */

#define DECAY 0.5

static fl_var *data_norm(fl_var *x)
{
    return fl_layers_data_norm(x, .name = "dn", .summary_decay_rate = DECAY,
                               .enable_scale_and_shift = true);
}

static void expect_sums(const net *n, double first, double share)
{
    for (int c = 0; c < COLS; c++) {
        double squares = column_squares(n->x, c, 0) + ROWS * 1e-4;

        assert_float_equal(state_at(n, "dn.batch_size", c),
                           first * 1e4 + share * ROWS, 1e-2);
        assert_float_equal(state_at(n, "dn.batch_sum", c),
                           share * ROWS * column_mean(n->x, c), 1e-3);
        assert_float_equal(state_at(n, "dn.batch_square_sum", c),
                           first * 1e4 + share * squares, 1e-1);
    }
}

static void summaries_are_counted_in_training_alone(void **state)
{
    float y[ROWS * COLS];
    fl_program *for_test;
    char *text;
    net n;

    (void)state;
    open_net(&n, data_norm);
    assert_ok(fl_program_for_test(&for_test, fl_default_main_program(n.c)));
    text = fl_program_to_text(for_test);
    assert_null(strstr(text, "data_norm_"));
    fl_text_free(text);
    expect_sums(&n, 1, 0);
    run_net(&n, fl_default_main_program(n.c), y);
    /* 0 is the mean and 1 the deviation, to begin with. */
    assert_memory_equal(y, n.x, sizeof(y));
    expect_sums(&n, DECAY, 1);
    run_net(&n, for_test, y);
    expect_sums(&n, DECAY, 1);
    assert_float_equal(y[1],
                       (n.x[1] - state_at(&n, "dn.batch_sum", 1) /
                                     state_at(&n, "dn.batch_size", 1)) *
                           sqrtf(state_at(&n, "dn.batch_size", 1) /
                                 state_at(&n, "dn.batch_square_sum", 1)),
                       1e-4);
    fl_program_free(for_test);
    close_net(&n);
}

/* --- replicas ------------------------------------------------------------- */

static void run_replicas(net *n, int n_steps)
{
    fl_exec_strategy exec = FL_INIT(fl_exec_strategy, .n_replicas = 2);
    fl_compiled_program *cp = make_compiled(fl_default_main_program(n->c));
    fl_run_args a = FL_INIT(fl_run_args, .feeds = &n->feed, .n_feeds = 1);

    assert_ok(fl_compiled_program_with_data_parallel(cp, fl_var_name(n->loss),
                                                     NULL, &exec));
    for (int i = 0; i < n_steps; i++)
        assert_ok(fl_run_compiled(n->e, cp, &a));
    fl_compiled_program_free(cp);
}

/* Both count half of the rows, and the mean of the two is added. */
static void replicas_add_their_counts_together(void **state)
{
    net n;

    (void)state;
    open_net(&n, data_norm);
    run_replicas(&n, 1);
    expect_sums(&n, DECAY, 0.5);
    close_net(&n);
}

static void of_replicas_the_first_moves_the_running_numbers(void **state)
{
    net n;

    (void)state;
    open_net(&n, batch_norm);
    run_replicas(&n, 1);
    for (int c = 0; c < COLS; c++) {
        double sum = 0;

        for (int r = 0; r < ROWS / 2; r++)
            sum += (double)n.x[r * COLS + c];
        assert_float_equal(state_at(&n, "batch_norm_0.w_1", c), sum / ROWS,
                           1e-4);
    }
    close_net(&n);
}

static void an_unknown_width_is_refused(void **state)
{
    fl_ctx *c = make_ctx();
    fl_var *x = data2(c, "x", -1);

    (void)state;
    assert_null(fl_layers_batch_norm(x, ));
    assert_said("batch_norm_0: input x of shape [-1,-1] has no known width");
    assert_null(fl_layers_layer_norm(x, ));
    assert_null(fl_layers_data_norm(x, ));
    assert_said("data_norm_0: input x");
    fl_ctx_free(c);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_batch_norm_has_the_names_users_know),
        cmocka_unit_test(running_numbers_move_in_training_alone),
        cmocka_unit_test(a_layer_norm_normalises_rows),
        cmocka_unit_test(summaries_are_counted_in_training_alone),
        cmocka_unit_test(replicas_add_their_counts_together),
        cmocka_unit_test(of_replicas_the_first_moves_the_running_numbers),
        cmocka_unit_test(an_unknown_width_is_refused),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
