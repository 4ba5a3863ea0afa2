/* test_layers_nce.c - noise-contrastive estimation over arrays, over rows and
 * over tables: the same draws, the same numbers. */
#include "api.h"
#include "../make.h"

#include <stdio.h>

#define ROWS 16
#define WIDTH 6
#define CLASSES 40
#define STEPS 40

typedef struct net {
    fl_ctx *c;
    fl_executor *e;
    fl_var *loss;
    float x[ROWS * WIDTH];
    int64_t label[ROWS];
    fl_feed feeds[2];
} net;

static fl_var *label_of(fl_ctx *c)
{
    return fl_layers_data(c, "label", FL_DTYPE_I64, 2, (int64_t[]){ -1, 1 }, 0);
}

static void open_net(net *n, const fl_layers_nce_args *args)
{
    n->c = make_ctx();
    n->e = make_executor(n->c);
    assert_ok(fl_ctx_set(n->c, "seed", "7"));
    n->loss = fl_layers_mean(fl_layers_nce_with(data2(n->c, "x", WIDTH),
                                                label_of(n->c), CLASSES, args));
    if (!n->loss)
        fail_msg("%s", fl_last_error());
    assert_ok(
        fl_minimize(make_optimizer(n->c, "sgd", "learning_rate=5"), n->loss));
    for (int i = 0; i < ROWS; i++) {
        n->label[i] = i % 7;
        for (int k = 0; k < WIDTH; k++)
            n->x[i * WIDTH + k] = (float)((i % 7 * 5 + k * 3) % 11) / 11 - 0.4f;
    }
    n->feeds[0] = (fl_feed){ "x", fl_tensor_of(FL_DTYPE_F32, n->x, 2,
                                               (int64_t[]){ ROWS, WIDTH }) };
    n->feeds[1] = (fl_feed){ "label", fl_tensor_of(FL_DTYPE_I64, n->label, 2,
                                                   (int64_t[]){ ROWS, 1 }) };
    assert_ok(fl_run(n->e, fl_default_startup_program(n->c), NULL));
}

static void close_net(net *n)
{
    fl_executor_free(n->e);
    fl_ctx_free(n->c);
}

static void train(net *n, float losses[STEPS])
{
    const char *fetch = fl_var_name(n->loss);
    fl_tensor out;
    fl_run_args a = FL_INIT(fl_run_args, .feeds = n->feeds, .n_feeds = 2,
                            .fetches = &fetch, .n_fetches = 1, .out = &out);

    for (int i = 0; i < STEPS; i++) {
        assert_ok(fl_run(n->e, fl_default_main_program(n->c), &a));
        losses[i] = *(const float *)out.data;
    }
}

static void losses_of(const fl_layers_nce_args *args, float losses[STEPS])
{
    net n;

    open_net(&n, args);
    train(&n, losses);
    close_net(&n);
}

/* Noise differs from step to step, so several are looked at. */
static void assert_learnt(const float losses[STEPS])
{
    float first = 0, last = 0;

    for (int i = 0; i < STEPS / 4; i++) {
        first += losses[i];
        last += losses[STEPS - 1 - i];
    }
    assert_true(last < 0.8f * first);
}

#define INIT .param = { .init = "uniform(-0.3,0.3)" }

static void arrays_rows_and_tables_learn_the_same(void **state)
{
    float array[STEPS], rows[STEPS], table[STEPS];

    (void)state;
    losses_of(FL_OPTIONS(fl_layers_nce_args, .num_neg_samples = 4, INIT),
              array);
    losses_of(FL_OPTIONS(fl_layers_nce_args, .num_neg_samples = 4, INIT,
                         .is_sparse = true),
              rows);
    losses_of(FL_OPTIONS(fl_layers_nce_args, .num_neg_samples = 4, INIT,
                         .is_distributed = true),
              table);
    for (int i = 0; i < STEPS; i++) {
        assert_float_equal(rows[i], array[i], 1e-5);
        assert_float_equal(table[i], array[i], 1e-5);
    }
    assert_learnt(array);
}

/* --- as text ---------------------------------------------------------------- */

/* What a program says of its two parameters. */
typedef struct kind {
    const char *weight, *bias;           /* words behind their declaration */
    const char *make_weight, *make_bias; /* in the startup program */
    const char *attrs;                   /* of nce */
} kind;

#define FILL_WEIGHT                                                            \
    "param w : f32[40,6] trainable\n"                                          \
    "op uniform_random () -> (Out=w) {shape=[40,6], min=-0.3, max=0.3}\n"
#define FILL_BIAS                                                              \
    "param b : f32[40,1] trainable\n"                                          \
    "op fill_constant () -> (Out=b) {shape=[40,1]}\n"
#define WEIGHT_TABLE                                                           \
    "op init_table () -> () {table=w, settings=\"dim=6 height=40 "             \
    "init=uniform(-0.3,0.3)\"}\n"
#define BIAS_TABLE                                                             \
    "op init_table () -> () {table=b, settings=\"dim=1 height=40 "             \
    "init=constant(0)\"}\n"

static void read_programs(const net *n, const kind *k, fl_program **main,
                          fl_program **startup)
{
    char text[2048];

    (void)snprintf(text, sizeof text,
                   "seed 5\n"
                   "var x : f32[-1,6] data\n"
                   "var label : i64[-1,1] data\n"
                   "param w : f32[40,6] trainable%s\n"
                   "param b : f32[40,1] trainable%s\n"
                   "op nce (Label=label, Input=x, Weight=w, Bias=b) -> "
                   "(Cost=c, SampleLogits=s, SampleLabels=k) "
                   "{num_total_classes=40, num_neg_samples=4%s}\n"
                   "op mean (X=c) -> (Out=loss)\n",
                   k->weight, k->bias, k->attrs);
    assert_ok(fl_program_from_text(main, n->c, text));
    (void)snprintf(text, sizeof text, "seed 5\n%s%s", k->make_weight,
                   k->make_bias);
    assert_ok(fl_program_from_text(startup, n->c, text));
}

static void losses_of_text(const kind *k, float losses[STEPS])
{
    static const char *const loss = "loss";
    fl_program *main, *startup;
    fl_tensor out;
    net n;

    open_net(&n, FL_OPTIONS(fl_layers_nce_args, .num_neg_samples = 4));
    read_programs(&n, k, &main, &startup);
    assert_ok(fl_program_push(n.c, main, startup));
    assert_ok(fl_minimize(make_optimizer(n.c, "sgd", "learning_rate=5"),
                          fl_program_var(main, loss)));
    fl_program_pop(n.c);
    assert_ok(fl_run(n.e, startup, NULL));
    fl_scope_set_step(fl_current_scope(n.c), 0);
    for (int i = 0; i < STEPS; i++) {
        assert_ok(
            fl_run(n.e, main,
                   FL_OPTIONS(fl_run_args, .feeds = n.feeds, .n_feeds = 2,
                              .fetches = &loss, .n_fetches = 1, .out = &out)));
        losses[i] = *(const float *)out.data;
    }
    fl_program_free(main);
    fl_program_free(startup);
    close_net(&n);
}

static void a_text_over_tables_learns_what_one_over_arrays_does(void **state)
{
    static const kind kinds[] = {
        { "", "", FILL_WEIGHT, FILL_BIAS, "" },
        { " table", " table", WEIGHT_TABLE, BIAS_TABLE, "" },
        { " table", " table", WEIGHT_TABLE, BIAS_TABLE, ", is_sparse=true" },
        { " table", "", WEIGHT_TABLE, FILL_BIAS, "" },
        { "", " table", FILL_WEIGHT, BIAS_TABLE, ", is_sparse=true" },
    };
    float want[STEPS], got[STEPS];

    (void)state;
    losses_of_text(&kinds[0], want);
    assert_learnt(want);
    for (size_t k = 1; k < sizeof kinds / sizeof *kinds; k++) {
        losses_of_text(&kinds[k], got);
        for (int i = 0; i < STEPS; i++)
            assert_float_equal(got[i], want[i], 1e-5);
    }
}

/* --- draws ------------------------------------------------------------------ */

static void every_sampler_learns(void **state)
{
    static const char *const samplers[] = { "uniform", "log_uniform",
                                            "custom_dist" };
    double dist[CLASSES];
    float losses[STEPS];

    (void)state;
    for (int i = 0; i < CLASSES; i++)
        dist[i] = 2. * (i + 1) / CLASSES / (CLASSES + 1);
    for (int i = 0; i < 3; i++) {
        losses_of(FL_OPTIONS(fl_layers_nce_args, .sampler = samplers[i],
                             .custom_dist = i == 2 ? dist : NULL),
                  losses);
        assert_learnt(losses);
    }
}

/* The labels are 0 to 6, and all noise is class 9. */
static void a_table_has_rows_of_classes_that_occur(void **state)
{
    double dist[CLASSES] = { [9] = 1 };
    float losses[STEPS];
    fl_table_stats stats = FL_INIT(fl_table_stats);
    fl_table *t;
    net n;

    (void)state;
    open_net(&n, FL_OPTIONS(fl_layers_nce_args, .sampler = "custom_dist",
                            .custom_dist = dist, .is_distributed = true,
                            .param = { .name = "w" }));
    train(&n, losses);
    assert_ok(fl_ctx_table(n.c, "w", &t));
    assert_ok(fl_table_stats_get(t, &stats));
    assert_int_equal(stats.rows, 8);
    close_net(&n);
}

static void the_operators_are_those_that_users_know(void **state)
{
    char *text;
    net n;

    (void)state;
    open_net(&n, FL_OPTIONS(fl_layers_nce_args, .sampler = "log_uniform"));
    text = fl_program_to_text(fl_default_main_program(n.c));
    assert_text_has(text, "param nce_0.w_0 : f32[40,6]");
    assert_text_has(text, "param nce_0.b_0 : f32[40,1]");
    assert_text_has(text, "sampler=1");
    assert_text_has(text, "num_total_classes=40");
    fl_text_free(text);
    close_net(&n);
}

static void wrong_words_are_refused(void **state)
{
    fl_ctx *c = make_ctx();
    fl_var *x = data2(c, "x", WIDTH), *label = label_of(c);
    double dist[3] = { 0.5, 0.2, 0.1 };

    (void)state;
    assert_null(fl_layers_nce(x, label, 3, .sampler = "zipf"));
    assert_said("sampler 'zipf' is not uniform, log_uniform or custom_dist");
    assert_null(fl_layers_nce(x, label, 3, .sampler = "custom_dist"));
    assert_said("custom_dist goes with sampler custom_dist");
    assert_null(fl_layers_nce(x, label, 3, .sampler = "custom_dist",
                              .custom_dist = dist));
    assert_said("custom_dist adds up to 0.8, not to 1");
    dist[1] = -1;
    assert_null(fl_layers_nce(x, label, 3, .sampler = "custom_dist",
                              .custom_dist = dist));
    assert_said("custom_dist has -1 for class 1");
    assert_null(fl_layers_nce(x, label, 1, ));
    assert_said("two classes or more");
    assert_null(fl_layers_nce(x, NULL, 3, ));
    fl_ctx_free(c);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(arrays_rows_and_tables_learn_the_same),
        cmocka_unit_test(a_text_over_tables_learns_what_one_over_arrays_does),
        cmocka_unit_test(every_sampler_learns),
        cmocka_unit_test(a_table_has_rows_of_classes_that_occur),
        cmocka_unit_test(the_operators_are_those_that_users_know),
        cmocka_unit_test(wrong_words_are_refused),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
