/* test_average.c - averages of parameters: their numbers, and parameters that
 * come back after an evaluation. */
#include "api.h"
#include "../make.h"

#include <math.h>
#include <stdint.h>

#define STEPS 9

/* w of one number follows the rate: w -= rate * x. */
typedef struct net {
    fl_ctx *c;
    fl_executor *e;
    fl_optimizer *o;
    fl_var *loss;
    double w[STEPS]; /* after each step */
} net;

static net new_net(const char *words)
{
    net n = { .c = make_ctx() };

    n.e = make_executor(n.c);
    n.loss = fl_layers_mean(fl_layers_fc(
        data2(n.c, "x", 1), 1,
        .param = { .name = "w", .init = "constant(0.5)" }, .no_bias = true));
    n.o = make_optimizer(n.c, "sgd", words);
    assert_ok(fl_minimize(n.o, n.loss));
    return n;
}

static void free_net(net *n)
{
    fl_executor_free(n->e);
    fl_ctx_free(n->c);
}

static double value(const net *n, const char *name)
{
    fl_tensor t;

    assert_ok(fl_scope_get(fl_current_scope(n->c), name, &t));
    return *(float *)t.data;
}

static void train(net *n, int from, int to)
{
    float x = 0;
    fl_feed feed = { "x",
                     fl_tensor_of(FL_DTYPE_F32, &x, 2, (int64_t[]){ 1, 1 }) };
    fl_run_args a = FL_INIT(fl_run_args, .feeds = &feed, .n_feeds = 1);

    if (!from)
        assert_ok(fl_run(n->e, fl_default_startup_program(n->c), NULL));
    for (int i = from; i < to; i++) {
        x = (float)(i % 4) - 1.2f;
        assert_ok(fl_run(n->e, fl_default_main_program(n->c), &a));
        n->w[i] = value(n, "w");
    }
}

/* The average of what w was, each with its weight. */
static double expected(const net *n, const double *weights, int n_steps)
{
    double sum = 0, all = 0;

    for (int i = 0; i < n_steps; i++) {
        sum += weights[i] * n->w[i];
        all += weights[i];
    }
    return sum / all;
}

static void expect_applied(net *n, fl_average *a, double want)
{
    double before = value(n, "w");

    assert_ok(fl_average_apply(a));
    assert_float_equal(value(n, "w"), want, 1e-6);
    assert_ok(fl_average_restore(a));
    assert_true(value(n, "w") == before);
}

static void an_exponential_average_is_free_of_its_start(void **state)
{
    net n = new_net("learning_rate=0.1");
    double weights[STEPS];
    fl_average *a;

    (void)state;
    assert_ok(fl_average_new(&a, n.c, "exponential", .settings = "decay=0.8"));
    for (int to = 1; to <= STEPS; to++) {
        train(&n, to - 1, to);
        for (int i = 0; i < to; i++)
            weights[i] = pow(0.8, to - i);
        expect_applied(&n, a, expected(&n, weights, to));
    }
    fl_average_free(a);
    free_net(&n);
}

static void the_decay_may_rise_with_the_steps(void **state)
{
    net n = new_net("learning_rate=0.1");
    double weights[STEPS] = { 0 };
    fl_average *a;

    (void)state;
    assert_ok(fl_average_new(&a, n.c, "exponential",
                             .settings = "decay=0.3, thres_steps=true"));
    train(&n, 0, STEPS);
    for (int i = 0; i < STEPS; i++) {
        double decay = fmin(0.3, (1.0 + i) / (10.0 + i));

        for (int k = 0; k < i; k++)
            weights[k] *= decay;
        weights[i] = 1 - decay;
    }
    expect_applied(&n, a, expected(&n, weights, STEPS));
    fl_average_free(a);
    free_net(&n);
}

/* Windows of 2, 2, 3 updates are full by step 7; the last and the two updates
   behind it count. */
static void a_window_grows_with_the_updates(void **state)
{
    net n = new_net("learning_rate=0.1");
    static const double late[STEPS] = { 0, 0, 0, 0, 1, 1, 1, 1, 1 };
    fl_average *a;

    (void)state;
    assert_ok(fl_average_new(&a, n.c, "window",
                             .settings = "average_window_rate=0.5, "
                                         "min_average_window=2, "
                                         "max_average_window=4"));
    train(&n, 0, STEPS);
    expect_applied(&n, a, expected(&n, late, STEPS));
    fl_average_free(a);
    free_net(&n);
}

static void an_average_counts_updates_and_not_batches(void **state)
{
    net n = new_net("learning_rate=0.1, accumulate=3");
    static const double by_update[STEPS] = { 0, 0, 1, 0, 0, 1, 0, 0, 1 };
    fl_average *a;

    (void)state;
    assert_ok(fl_average_new(&a, n.c, "window", ));
    train(&n, 0, STEPS);
    expect_applied(&n, a, expected(&n, by_update, STEPS));
    fl_average_free(a);
    free_net(&n);
}

static void training_goes_on_after_an_evaluation(void **state)
{
    net with = new_net("learning_rate=0.1"),
        without = new_net("learning_rate=0.1");
    fl_average *a;

    (void)state;
    assert_ok(fl_average_new(&a, with.c, "exponential", ));
    for (int i = 0; i < STEPS; i++) {
        train(&with, i, i + 1);
        train(&without, i, i + 1);
        assert_ok(fl_average_apply(a));
        assert_ok(fl_average_restore(a));
    }
    for (int i = 0; i < STEPS; i++)
        assert_true(with.w[i] == without.w[i]);
    fl_average_free(a);
    free_net(&with);
    free_net(&without);
}

static void apply_and_restore_come_in_turn(void **state)
{
    net n = new_net("learning_rate=0.1");
    fl_average *a;

    (void)state;
    assert_ok(fl_average_new(&a, n.c, "exponential", ));
    assert_ok(fl_run(n.e, fl_default_startup_program(n.c), NULL));
    assert_int_equal(fl_average_apply(a), FL_ERR_INVAL);
    assert_said("parameter w has no average yet");
    train(&n, 0, 1);
    assert_int_equal(fl_average_restore(a), FL_ERR_INVAL);
    assert_said("nothing to restore");
    assert_ok(fl_average_apply(a));
    assert_int_equal(fl_average_apply(a), FL_ERR_INVAL);
    assert_said("applied already");
    assert_ok(fl_average_restore(a));
    fl_average_free(a);
    fl_average_free(NULL);
    free_net(&n);
}

static void parameters_with_sparse_gradients_are_left_out(void **state)
{
    fl_ctx *c = make_ctx();
    fl_var *ids =
        fl_layers_data(c, "ids", FL_DTYPE_I64, 2, (int64_t[]){ -1, 1 }, 0);
    fl_var *rows = fl_layers_embedding(ids, 10, 4, .is_sparse = true,
                                       .param = { .name = "emb" });
    fl_var *table = fl_layers_embedding(ids, 10, 4, .is_distributed = true,
                                        .param = { .name = "rows" });
    fl_var *h =
        fl_layers_fc(fl_layers_concat((fl_var *[]){ rows, table }, 2, 1), 1,
                     .param = { .name = "w" });
    fl_var *given;
    fl_average *a;
    char *text;

    (void)state;
    assert_ok(fl_minimize(make_optimizer(c, "adam", NULL), fl_layers_mean(h)));
    assert_ok(fl_average_new(&a, c, "exponential", ));
    fl_average_free(a);
    text = fl_program_to_text(fl_default_main_program(c));
    assert_text_has(text, "op moving_average (X=w, ");
    assert_null(strstr(text, "moving_average (X=emb"));
    assert_null(strstr(text, "moving_average (X=rows"));
    fl_text_free(text);
    given = fl_program_var(fl_default_main_program(c), "rows");
    assert_int_equal(fl_average_new(&a, c, "window", .parameters = &given,
                                    .n_parameters = 1),
                     FL_ERR_INVAL);
    assert_said("parameter rows is a table");
    fl_ctx_free(c);
}

#define THREADS 3

typedef struct herd {
    float x[THREADS];
    int left[THREADS];
} herd;

static bool next_batch(void *arg, int thread, fl_feed *feeds)
{
    herd *h = arg;

    feeds[0].value =
        fl_tensor_of(FL_DTYPE_F32, &h->x[thread], 2, (int64_t[]){ 1, 1 });
    return h->left[thread]-- > 0;
}

/* Every thread accumulates for itself. Values race, the number of steps does
   not. */
static void hogwild_threads_share_the_averages(void **state)
{
    net n = new_net("learning_rate=0.1, accumulate=2");
    herd h = { { 1, 1, 1 }, { 20, 20, 20 } };
    const char *name = "x";
    fl_average *a, *b;

    (void)state;
    assert_ok(fl_average_new(&a, n.c, "exponential", .settings = "decay=0.5"));
    assert_ok(fl_average_new(&b, n.c, "window", ));
    assert_ok(fl_run(n.e, fl_default_startup_program(n.c), NULL));
    assert_ok(fl_run_hogwild(n.e, fl_default_main_program(n.c),
                             FL_OPTIONS(fl_hogwild_args, .n_threads = THREADS,
                                        .feed_names = &name, .n_feeds = 1,
                                        .next = next_batch, .arg = &h)));
    assert_true(value(&n, "w") < 0.5);
    assert_ok(fl_average_apply(a));
    assert_true(isfinite(value(&n, "w")));
    assert_ok(fl_average_restore(a));
    assert_ok(fl_average_apply(b));
    assert_true(isfinite(value(&n, "w")));
    assert_ok(fl_average_restore(b));
    assert_int_equal(fl_scope_step(fl_current_scope(n.c)), 30);
    fl_average_free(a);
    fl_average_free(b);
    free_net(&n);
}

static void wrong_words_are_refused(void **state)
{
    net n = new_net(NULL);
    fl_ctx *empty = make_ctx();
    fl_average *a;

    (void)state;
    assert_int_equal(fl_average_new(&a, n.c, "mean", ), FL_ERR_NOTFOUND);
    assert_said("there are exponential and window");
    assert_int_not_equal(
        fl_average_new(&a, n.c, "exponential", .settings = "decoy=1"), FL_OK);
    assert_said("did you mean decay?");
    assert_int_not_equal(
        fl_average_new(&a, n.c, "exponential", .settings = "decay=1"), FL_OK);
    assert_said("decay");
    assert_int_not_equal(fl_average_new(&a, n.c, "window",
                                        .settings = "min_average_window=9, "
                                                    "max_average_window=8"),
                         FL_OK);
    assert_said("from 9 to 8 of them");
    assert_int_equal(fl_average_new(&a, empty, "window", ), FL_ERR_INVAL);
    assert_said("updates no dense parameter");
    fl_ctx_free(empty);
    free_net(&n);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(an_exponential_average_is_free_of_its_start),
        cmocka_unit_test(the_decay_may_rise_with_the_steps),
        cmocka_unit_test(a_window_grows_with_the_updates),
        cmocka_unit_test(an_average_counts_updates_and_not_batches),
        cmocka_unit_test(training_goes_on_after_an_evaluation),
        cmocka_unit_test(apply_and_restore_come_in_turn),
        cmocka_unit_test(parameters_with_sparse_gradients_are_left_out),
        cmocka_unit_test(hogwild_threads_share_the_averages),
        cmocka_unit_test(wrong_words_are_refused),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
