/* test_precision.c - training with products in bf16: near to f32, whatever runs
 * it, and nothing but products changes. */
#include "api.h"
#include "flotilla/predict.h"

#include "../folder.h"
#include "io_kit.h"
#include "../make.h"

#include <math.h>
#include <stdatomic.h>
#include <stdint.h>

#define WIDTH 40
#define BATCH 150 /* more than one block of rows */
#define STEPS 40

typedef struct net {
    fl_ctx *c;
    fl_executor *e;
    fl_var *loss;
    const char *predicted;
    fl_program *test;
} net;

typedef struct batch {
    float x[BATCH * WIDTH], y[BATCH];
} batch;

static net new_net(const char *precision, const char *rule, const char *words)
{
    net n = { .c = make_ctx() };
    fl_var *h;

    assert_ok(fl_ctx_set(n.c, "precision", precision));
    n.e = make_executor(n.c);
    fl_program_set_seed(fl_default_startup_program(n.c), 5);
    h = fl_layers_fc(data2(n.c, "x", WIDTH), 64, .act = "relu",
                     .param = { .name = "w0" });
    h = fl_layers_fc(h, 32, .act = "relu", .param = { .name = "w1" });
    h = fl_layers_fc(h, 1, .param = { .name = "w2" });
    n.predicted = fl_var_name(h);
    n.loss = fl_layers_mean(fl_layers_square_error_cost(h, data2(n.c, "y", 1)));
    assert_non_null(n.loss);
    assert_ok(fl_program_for_test(&n.test, fl_default_main_program(n.c)));
    assert_ok(fl_minimize(make_optimizer(n.c, rule, words), n.loss));
    assert_ok(fl_run(n.e, fl_default_startup_program(n.c), NULL));
    return n;
}

static void free_net(net *n)
{
    fl_program_free(n->test);
    fl_executor_free(n->e);
    fl_ctx_free(n->c);
}

/* The same for the same step; what is to be learned is a bent sum. */
static void fill(batch *b, int step)
{
    for (int i = 0; i < BATCH; i++) {
        float sum = 0;

        for (int j = 0; j < WIDTH; j++) {
            float x = sinf((float)(step * 1009 + i * 31 + j * 7));

            b->x[i * WIDTH + j] = x;
            sum += j % 3 ? x : -x;
        }
        b->y[i] = fabsf(sum) / 4;
    }
}

static void feed(const batch *b, fl_feed out[2])
{
    out[0] = (fl_feed){ "x", fl_tensor_of(FL_DTYPE_F32, b->x, 2,
                                          FL_ARRAY(int64_t, BATCH, WIDTH)) };
    out[1] = (fl_feed){ "y", fl_tensor_of(FL_DTYPE_F32, b->y, 2,
                                          FL_ARRAY(int64_t, BATCH, 1)) };
}

static float run_step(const net *n, fl_program *p, int step)
{
    const char *fetch = fl_var_name(n->loss);
    static batch b;
    fl_feed feeds[2];
    fl_tensor out;
    fl_run_args a = FL_INIT(fl_run_args, .feeds = feeds, .n_feeds = 2,
                            .fetches = &fetch, .n_fetches = 1, .out = &out);

    fill(&b, step);
    feed(&b, feeds);
    assert_ok(fl_run(n->e, p, &a));
    return *(const float *)out.data;
}

static float train(const net *n, int n_steps)
{
    float loss = 0;

    for (int step = 0; step < n_steps; step++)
        loss = run_step(n, fl_default_main_program(n->c), step);
    return loss;
}

static char *explain(const net *n)
{
    const char *fetch = fl_var_name(n->loss);
    char *text;

    assert_ok(fl_executor_explain(
        n->e, fl_default_main_program(n->c),
        FL_OPTIONS(fl_run_args, .fetches = &fetch, .n_fetches = 1), &text));
    return text;
}

static int count(const char *text, const char *word)
{
    int n = 0;

    for (; (text = strstr(text, word)); text++)
        n++;
    return n;
}

/* --- tests ------------------------------------------------------------------- */

static void bf16_learns_as_f32_does(void **state)
{
    static const char *const rules[][2] = { { "sgd", "learning_rate=0.05" },
                                            { "adam", "learning_rate=0.01" } };

    (void)state;
    for (size_t i = 0; i < 2; i++) {
        net a = new_net("f32", rules[i][0], rules[i][1]);
        net b = new_net("bf16", rules[i][0], rules[i][1]);
        float first = run_step(&a, a.test, 0), last = train(&a, STEPS);
        float other = train(&b, STEPS);

        assert_true(last < first / 2);
        assert_true(other != last);
        assert_float_equal(other, last, 0.01 * first);
        free_net(&a);
        free_net(&b);
    }
}

static void two_inner_layers_are_rounded_and_the_last_is_not(void **state)
{
    net n = new_net("bf16", "sgd", "learning_rate=0.05");
    char *text = explain(&n), *own;

    (void)state;
    assert_int_equal(count(text, "precision=bf16"), 4);
    assert_int_equal(count(text, "Rounded="), 4);
    own = fl_program_to_text(fl_default_main_program(n.c));
    assert_null(strstr(own, "bf16"));
    fl_text_free(own);
    fl_text_free(text);
    assert_ok(fl_ctx_set(n.c, "precision_deny", "w0"));
    text = explain(&n);
    assert_int_equal(count(text, "precision=bf16"), 2);
    fl_text_free(text);
    assert_ok(fl_ctx_set(n.c, "precision", "f32"));
    text = explain(&n);
    assert_null(strstr(text, "bf16"));
    fl_text_free(text);
    free_net(&n);
}

/* A unit that was made for one precision does not serve another. */
static void the_setting_counts_from_the_next_run_on(void **state)
{
    net n = new_net("f32", "sgd", "learning_rate=0.05");
    float plain = run_step(&n, n.test, 0), rounded;

    (void)state;
    assert_ok(fl_ctx_set(n.c, "precision", "bf16"));
    rounded = run_step(&n, n.test, 0);
    assert_true(rounded != plain);
    assert_float_equal(rounded, plain, 0.02 * plain);
    assert_ok(fl_ctx_set(n.c, "precision", "f32"));
    assert_true(run_step(&n, n.test, 0) == plain);
    free_net(&n);
}

static void shares_of_threads_give_the_same_bits(void **state)
{
    net a = new_net("bf16", "adam", "learning_rate=0.01");
    net b = new_net("bf16", "adam", "learning_rate=0.01");

    (void)state;
    assert_ok(fl_ctx_set(b.c, "num_threads", "3"));
    assert_ok(fl_ctx_set(b.c, "slice_min_elements", "1"));
    assert_true(train(&a, 5) == train(&b, 5));
    free_net(&a);
    free_net(&b);
}

static void values_that_are_set_between_runs_are_seen(void **state)
{
    static const float zeros[WIDTH * 64];
    fl_tensor none =
        fl_tensor_of(FL_DTYPE_F32, zeros, 2, FL_ARRAY(int64_t, WIDTH, 64));
    net n = new_net("bf16", "sgd", "learning_rate=0.05");
    float before = run_step(&n, n.test, 0), after;

    (void)state;
    assert_ok(fl_scope_set(fl_current_scope(n.c), "w0", &none));
    after = run_step(&n, n.test, 0);
    assert_true(after != before);
    /* Nothing of x is left. */
    assert_true(after == run_step(&n, n.test, 0));
    free_net(&n);
}

/* Batches that make one update use the weights that were packed for the first,
   and the next update those that it left. */
static void several_batches_make_one_update(void **state)
{
    net a = new_net("bf16", "sgd", "learning_rate=0.05");
    net b = new_net("bf16", "sgd", "learning_rate=0.05, accumulate=2");

    (void)state;
    for (int step = 0; step < 6; step++) {
        float once = run_step(&a, fl_default_main_program(a.c), step);

        for (int k = 0; k < 2; k++)
            assert_float_equal(run_step(&b, fl_default_main_program(b.c), step),
                               once, 1e-3 * once);
    }
    free_net(&a);
    free_net(&b);
}

/* --- prediction --------------------------------------------------------------- */

static void predict(const char *dir, const char *precision, int n, float *out)
{
    static batch b;
    fl_feed feeds[2];
    fl_model *m = NULL;
    fl_predictor *p = NULL;
    fl_tensor scores;

    fill(&b, 3);
    feed(&b, feeds);
    feeds[0].value.shape.dim[0] = n;
    assert_ok(fl_model_open(&m, dir, .precision = precision));
    assert_ok(fl_predictor_new(&p, m));
    for (int i = 0; i < 2; i++) /* the second one with weights of the first */
        assert_ok(fl_predictor_run(p, feeds, 1, &scores, 1));
    memcpy(out, scores.data, (size_t)n * sizeof(float));
    fl_predictor_free(p);
    fl_model_close(m);
}

static void a_model_predicts_in_the_precision_that_is_asked_for(void **state)
{
    float f32[BATCH], bf16[BATCH], some[BATCH];
    net n = new_net("bf16", "sgd", "learning_rate=0.05");
    char dir[FOLDER_BYTES];
    fl_model *m = NULL;
    const char *target = n.predicted;
    int n_other = 0;

    (void)state;
    train(&n, 5);
    assert_true(folder_make(dir, "precision"));
    assert_ok(fl_save_inference_model(n.e, dir, .program = n.test,
                                      .targets = &target, .n_targets = 1));
    predict(dir, NULL, BATCH, f32);
    predict(dir, "bf16", BATCH, bf16);
    predict(dir, "bf16", 7, some);
    for (int i = 0; i < BATCH; i++) {
        assert_float_equal(f32[i], bf16[i], 0.02);
        n_other += f32[i] != bf16[i];
    }
    assert_true(n_other > BATCH / 2);
    for (int i = 0; i < 7; i++)
        assert_float_equal(some[i], bf16[i], 1e-5);
    assert_int_equal(fl_model_open(&m, dir, .precision = "f16"), FL_ERR_INVAL);
    assert_said("precision is 'f16'; there are f32, bf16 and auto");
    io_remove(dir);
    free_net(&n);
}

/* --- threads ------------------------------------------------------------------ */

typedef struct source {
    batch of_thread[2];
    atomic_int next;
    atomic_int n_trained;
} source;

static bool next_batch(void *arg, int thread, fl_feed *feeds)
{
    source *s = arg;
    int step = atomic_fetch_add(&s->next, 1);

    if (step >= 2 * STEPS)
        return false;
    fill(&s->of_thread[thread], step);
    feed(&s->of_thread[thread], feeds);
    return true;
}

static void count_batch(void *arg, int thread, const fl_tensor *fetched)
{
    source *s = arg;

    (void)thread;
    assert_true(isfinite(*(const float *)fetched->data));
    atomic_fetch_add(&s->n_trained, 1);
}

/* Each packs the weights for itself, and sees what the other one updates. */
static void hogwild_threads_learn_together(void **state)
{
    static const char *const names[] = { "x", "y" };
    static source s;
    net n = new_net("bf16", "sgd", "learning_rate=0.02");
    const char *fetch = fl_var_name(n.loss);
    float before = run_step(&n, n.test, 0);

    (void)state;
    assert_ok(fl_run_hogwild(
        n.e, fl_default_main_program(n.c),
        FL_OPTIONS(fl_hogwild_args, .n_threads = 2, .feed_names = names,
                   .n_feeds = 2, .next = next_batch, .fetches = &fetch,
                   .n_fetches = 1, .on_batch = count_batch, .arg = &s)));
    assert_int_equal(atomic_load(&s.n_trained), 2 * STEPS);
    assert_true(run_step(&n, n.test, 0) < before / 2);
    free_net(&n);
}

static void auto_is_one_of_the_two(void **state)
{
    net a = new_net("auto", "sgd", "learning_rate=0.05");
    net b = new_net("f32", "sgd", "learning_rate=0.05");
    char *text = explain(&a);
    bool is_bf16 = strstr(text, "precision=bf16");

    (void)state;
    assert_int_equal(train(&a, 3) != train(&b, 3), is_bf16);
    fl_text_free(text);
    free_net(&a);
    free_net(&b);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(bf16_learns_as_f32_does),
        cmocka_unit_test(two_inner_layers_are_rounded_and_the_last_is_not),
        cmocka_unit_test(the_setting_counts_from_the_next_run_on),
        cmocka_unit_test(shares_of_threads_give_the_same_bits),
        cmocka_unit_test(values_that_are_set_between_runs_are_seen),
        cmocka_unit_test(several_batches_make_one_update),
        cmocka_unit_test(a_model_predicts_in_the_precision_that_is_asked_for),
        cmocka_unit_test(hogwild_threads_learn_together),
        cmocka_unit_test(auto_is_one_of_the_two),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
