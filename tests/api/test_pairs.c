/* test_pairs.c - products of pairs of rows with a loss, as people write them:
 * what the passes make of it learns the same bits. */
#include "api.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#define V 30
#define DIM 21
#define PAIRS 50

static int64_t ids[2][PAIRS];
static float labels[PAIRS];
static fl_ctx *ctx;
static fl_executor *exe;

static int open_all(void **state)
{
    (void)state;
    for (int i = 0; i < PAIRS; i++) {
        ids[0][i] = i * i % V; /* with rows that come again */
        ids[1][i] = i * 7 % V;
        labels[i] = (float)(i % 3 == 0);
    }
    assert_ok(fl_ctx_new(&ctx));
    assert_ok(fl_executor_new(&exe, ctx));
    return 0;
}

static int close_all(void **state)
{
    (void)state;
    fl_executor_free(exe);
    fl_ctx_free(ctx);
    return 0;
}

static const char head[] =
    "seed 3\n"
    "var i : i64[-1,1] data\n"
    "var k : i64[-1,1] data\n"
    "var label : f32[-1,1] data\n"
    "param x : f32[30,21] init=uniform(-1,1) trainable\n"
    "param y : f32[30,21] init=uniform(-1,1) trainable\n";

static const char lookups[] =
    "op lookup_table (W=x, Ids=i) -> (Out=a) {is_sparse=true}\n"
    "op lookup_table (W=y, Ids=k) -> (Out=b) {is_sparse=true}\n"
    "op elementwise_mul (X=a, Y=b) -> (Out=m)\n"
    "op reduce_sum (X=m) -> (Out=z) {dim=[1], keep_dim=true}\n";

/* The same, with sums in another order. */
static const char products[] =
    "op lookup_dot (X=x, Y=y, XIds=i, YIds=k) -> (Out=z) "
    "{x_is_sparse=true, y_is_sparse=true}\n";

static const char tail[] =
    "op sigmoid_cross_entropy_with_logits (X=z, Label=label) -> (Out=c)\n"
    "op mean (X=c) -> (Out=loss)\n";

static fl_tensor column(fl_dtype dtype, void *data)
{
    return fl_tensor_of(dtype, data, 2, (int64_t[]){ PAIRS, 1 });
}

static fl_status step(fl_program *p, double *loss)
{
    static const char *const fetch = "loss";
    fl_feed feeds[] = { { "i", column(FL_DTYPE_I64, ids[0]) },
                        { "k", column(FL_DTYPE_I64, ids[1]) },
                        { "label", column(FL_DTYPE_F32, labels) } };
    fl_tensor out;
    fl_status st =
        fl_run(exe, p,
               FL_OPTIONS(fl_run_args, .feeds = feeds, .n_feeds = 3,
                          .fetches = &fetch, .n_fetches = 1, .out = &out));

    if (!st)
        *loss = (double)*(const float *)out.data;
    return st;
}

static void fill(const char *name, uint32_t seed)
{
    static float values[V * DIM];
    fl_tensor t = fl_tensor_of(FL_DTYPE_F32, values, 2, (int64_t[]){ V, DIM });

    for (int i = 0; i < V * DIM; i++) {
        seed = seed * 1664525u + 1013904223u;
        values[i] = (float)(seed >> 8) / (1 << 24) - 0.5f;
    }
    assert_ok(fl_scope_set(fl_current_scope(ctx), name, &t));
}

/* The program with its updates, ready to run. */
static fl_program *trained(const char *middle, const char *rule,
                           const char *settings)
{
    fl_program *p, *startup;
    fl_optimizer *o;
    char text[2048];

    (void)snprintf(text, sizeof text, "%s%s%s", head, middle, tail);
    assert_ok(fl_program_from_text(&p, ctx, text));
    assert_ok(fl_program_new(&startup, ctx));
    assert_ok(fl_program_push(ctx, p, startup));
    assert_ok(fl_optimizer_new(&o, ctx, rule, settings));
    assert_ok(fl_minimize(o, fl_program_var(p, "loss")));
    fl_program_pop(ctx);
    fill("x", 1);
    fill("y", 2);
    assert_ok(fl_run(exe, startup, NULL));
    fl_program_free(startup);
    return p;
}

typedef struct outcome {
    double losses[4];
    float x[V * DIM], y[V * DIM];
} outcome;

static void copy_param(const char *name, float *out)
{
    fl_tensor t;

    assert_ok(fl_scope_get(fl_current_scope(ctx), name, &t));
    memcpy(out, t.data, V * DIM * sizeof *out);
}

static void train(const char *middle, const char *optimize, outcome *out)
{
    fl_program *p;

    assert_ok(fl_ctx_set(ctx, "optimize", optimize));
    p = trained(middle, "sgd", "learning_rate=3");
    for (int i = 0; i < 4; i++)
        assert_ok(step(p, &out->losses[i]));
    copy_param("x", out->x);
    copy_param("y", out->y);
    fl_program_free(p);
}

static void a_step_on_pairs_has_the_bits_of_single_operators(void **state)
{
    static outcome one, many;

    (void)state;
    train(products, "false", &many);
    train(products, "true", &one);
    assert_true(one.losses[3] < 0.95 * one.losses[0]);
    assert_memory_equal(one.losses, many.losses, sizeof one.losses);
    assert_memory_equal(one.x, many.x, sizeof one.x);
    assert_memory_equal(one.y, many.y, sizeof one.y);
}

static void lookups_learn_as_their_products_do(void **state)
{
    static outcome one, many;

    (void)state;
    train(lookups, "false", &many);
    train(lookups, "true", &one);
    for (int i = 0; i < V * DIM; i++) {
        assert_float_equal(one.x[i], many.x[i], 1e-6);
        assert_float_equal(one.y[i], many.y[i], 1e-6);
    }
}

static char *explain(const char *rule, const char *settings)
{
    fl_program *p = trained(lookups, rule, settings);
    char *text;

    assert_ok(fl_executor_explain(exe, p, NULL, &text));
    fl_program_free(p);
    return text;
}

static void plain_steps_on_pairs_are_one_operator(void **state)
{
    char *text = explain("sgd", "learning_rate=3");

    (void)state;
    assert_text_has(text, "op lookup_dot_loss (");
    assert_text_has(text, "op lookup_dot_sgd (");
    assert_null(strstr(text, "op sgd ("));
    free(text);
}

/* An update of several batches needs gradients that can be added up. */
static void steps_that_wait_for_other_gradients_stay_apart(void **state)
{
    static const char *const words[][2] = {
        { "sgd", "learning_rate=3 accumulate=2" },
        { "adagrad", "learning_rate=3" },
        { "sgd", "learning_rate=3 grad_clip=value(-1,1)" }
    };

    (void)state;
    for (size_t i = 0; i < sizeof words / sizeof *words; i++) {
        char *text = explain(words[i][0], words[i][1]);

        assert_text_has(text, "op lookup_dot_loss_grad (");
        assert_null(strstr(text, "op lookup_dot_sgd ("));
        free(text);
    }
}

static void a_label_that_is_no_number_is_an_error(void **state)
{
    fl_program *p = trained(lookups, "sgd", "learning_rate=3");
    double loss;

    (void)state;
    labels[7] = NAN;
    assert_int_equal(step(p, &loss), FL_ERR_NUMERIC);
    assert_said("Label: the value at place 7 is NaN");
    labels[7] = 0;
    ids[1][4] = V;
    assert_int_equal(step(p, &loss), FL_ERR_INVAL);
    assert_said("YIds");
    ids[1][4] = 28;
    fl_program_free(p);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_step_on_pairs_has_the_bits_of_single_operators),
        cmocka_unit_test(lookups_learn_as_their_products_do),
        cmocka_unit_test(plain_steps_on_pairs_are_one_operator),
        cmocka_unit_test(steps_that_wait_for_other_gradients_stay_apart),
        cmocka_unit_test(a_label_that_is_no_number_is_an_error),
    };

    return cmocka_run_group_tests(tests, open_all, close_all);
}
