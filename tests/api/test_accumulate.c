/* test_accumulate.c - updates that are made once in several batches: they equal
 * one batch of all samples, and what cannot be done is refused by name. */
#include "api.h"
#include "../make.h"

#include <stdint.h>

#define HEIGHT 20
#define WIDTH 3
#define SAMPLES 12 /* of a step */
#define STEPS 6

/* --- a small network ------------------------------------------------------ */

typedef enum home { DENSE, SPARSE, TABLE } home;

typedef struct net {
    fl_ctx *c;
    fl_executor *e;
    fl_var *h, *loss;
    fl_program *test;
} net;

static net new_net(home where)
{
    net n = { .c = make_ctx() };
    fl_var *ids =
        fl_layers_data(n.c, "ids", FL_DTYPE_I64, 2, (int64_t[]){ -1, 1 }, 0);
    fl_var *rows = fl_layers_embedding(
        ids, HEIGHT, WIDTH, .is_sparse = where == SPARSE,
        .is_distributed = where == TABLE, .param = { .name = "emb" });

    n.e = make_executor(n.c);
    fl_program_set_seed(fl_default_startup_program(n.c), 5);
    n.h = fl_layers_fc(rows, 4, .act = "tanh", .param = { .name = "w" });
    n.loss = fl_layers_mean(fl_layers_square_error_cost(
        fl_layers_fc(n.h, 1, .param = { .name = "v" }), data2(n.c, "y", 1)));
    assert_non_null(n.loss);
    return n;
}

static void minimize(net *n, const char *rule, const char *words)
{
    assert_ok(fl_program_for_test(&n->test, fl_default_main_program(n->c)));
    assert_ok(fl_minimize(make_optimizer(n->c, rule, words), n->loss));
    assert_ok(fl_run(n->e, fl_default_startup_program(n->c), NULL));
}

static void free_net(net *n)
{
    fl_program_free(n->test);
    fl_executor_free(n->e);
    fl_ctx_free(n->c);
}

/* Samples [from, from + n) of a step. */
static fl_status run_samples(const net *n, fl_program *p, int step, int from,
                             int count, float *loss)
{
    int64_t ids[SAMPLES];
    float y[SAMPLES];
    const char *fetch = fl_var_name(n->loss);
    int64_t dims[] = { count, 1 };
    fl_feed feeds[] = { { "ids", fl_tensor_of(FL_DTYPE_I64, ids, 2, dims) },
                        { "y", fl_tensor_of(FL_DTYPE_F32, y, 2, dims) } };
    fl_tensor out;
    fl_run_args a = FL_INIT(fl_run_args, .feeds = feeds, .n_feeds = 2,
                            .fetches = &fetch, .n_fetches = 1, .out = &out);
    fl_status st;

    for (int i = 0; i < count; i++) {
        ids[i] = (step * 7 + (from + i) * 5) % HEIGHT;
        y[i] = (float)(ids[i] % 3);
    }
    st = fl_run(n->e, p, &a);
    if (!st)
        *loss = *(float *)out.data;
    return st;
}

typedef struct result {
    float w[WIDTH * 4], loss;
    uint64_t step;
} result;

static result train(home where, const char *rule, const char *words,
                    int n_batches)
{
    net n = new_net(where);
    fl_tensor w;
    result r;

    minimize(&n, rule, words);
    for (int step = 0; step < STEPS; step++)
        for (int k = 0; k < n_batches; k++)
            assert_ok(run_samples(&n, fl_default_main_program(n.c), step,
                                  k * SAMPLES / n_batches, SAMPLES / n_batches,
                                  &r.loss));
    assert_ok(fl_scope_get(fl_current_scope(n.c), "w", &w));
    memcpy(r.w, w.data, sizeof(r.w));
    r.step = fl_scope_step(fl_current_scope(n.c));
    assert_ok(run_samples(&n, n.test, 1, 0, SAMPLES, &r.loss));
    free_net(&n);
    return r;
}

static void expect_same(home where, const char *rule, int n_batches)
{
    char words[64];
    result one = train(where, rule, "learning_rate=0.05", 1), many;

    snprintf(words, sizeof(words), "learning_rate=0.05, accumulate=%d",
             n_batches);
    many = train(where, rule, words, n_batches);
    assert_int_equal(many.step, STEPS);
    assert_float_equal(many.loss, one.loss, 1e-5);
    for (size_t i = 0; i < sizeof(one.w) / sizeof(one.w[0]); i++)
        assert_float_equal(many.w[i], one.w[i], 1e-5);
}

/* --- tests ---------------------------------------------------------------- */

static void several_batches_equal_one_of_all_samples(void **state)
{
    static const char *const rules[] = { "sgd", "adam", "rmsprop", "adamax",
                                         "ftrl" };

    (void)state;
    for (size_t i = 0; i < sizeof(rules) / sizeof(rules[0]); i++)
        for (home where = DENSE; where <= TABLE; where++) {
            expect_same(where, rules[i], 2);
            expect_same(where, rules[i], 4);
        }
    expect_same(SPARSE, "lamb", 3);
}

static void clipping_and_decay_see_the_gradient_of_all(void **state)
{
    result one = train(SPARSE, "sgd",
                       "learning_rate=0.1, grad_clip=global_norm(0.05), "
                       "regularization=l2(0.01)",
                       1);
    result many = train(SPARSE, "sgd",
                        "learning_rate=0.1, grad_clip=global_norm(0.05), "
                        "regularization=l2(0.01), accumulate=3",
                        3);

    (void)state;
    for (size_t i = 0; i < sizeof(one.w) / sizeof(one.w[0]); i++)
        assert_float_equal(many.w[i], one.w[i], 1e-6);
}

static void parameters_stay_until_the_last_batch(void **state)
{
    net n = new_net(TABLE);
    float losses[4], loss;

    (void)state;
    minimize(&n, "sgd", "learning_rate=0.5, accumulate=3");
    for (int i = 0; i < 4; i++) {
        assert_ok(run_samples(&n, n.test, 0, 0, SAMPLES, &losses[i]));
        assert_int_equal(fl_scope_step(fl_current_scope(n.c)), i / 3);
        assert_ok(run_samples(&n, fl_default_main_program(n.c), 0, 0, SAMPLES,
                              &loss));
    }
    assert_true(losses[0] == losses[1] && losses[1] == losses[2]);
    assert_true(losses[3] < losses[2]);
    free_net(&n);
}

static void the_text_of_a_program_says_it(void **state)
{
    net n = new_net(DENSE);
    fl_program *again;
    char *text, *back;

    (void)state;
    minimize(&n, "sgd", "accumulate=5");
    text = fl_program_to_text(fl_default_main_program(n.c));
    assert_text_has(text, "accumulate 5\n");
    assert_ok(fl_program_from_text(&again, n.c, text));
    back = fl_program_to_text(again);
    assert_string_equal(back, text);
    fl_text_free(text);
    fl_text_free(back);
    fl_program_free(again);
    free_net(&n);
}

static void optimizers_of_one_program_update_together(void **state)
{
    net n = new_net(DENSE);
    fl_optimizer *o;

    (void)state;
    minimize(&n, "sgd", "accumulate=2");
    assert_int_equal(
        fl_minimize(make_optimizer(n.c, "sgd", "accumulate=3"), n.loss),
        FL_ERR_INVAL);
    assert_said("accumulate=3, but the program updates once in 2 batches");
    assert_int_not_equal(fl_optimizer_new(&o, n.c, "sgd", "accumulate=0"),
                         FL_OK);
    assert_said("1..65536");
    free_net(&n);
}

static void clipping_a_table_batch_by_batch_is_refused(void **state)
{
    net n = new_net(TABLE);
    float loss;

    (void)state;
    minimize(&n, "sgd", "accumulate=2, grad_clip=norm(1)");
    assert_int_equal(
        run_samples(&n, fl_default_main_program(n.c), 0, 0, SAMPLES, &loss),
        FL_ERR_INVAL);
    assert_said("clip_by_norm");
    assert_said("accumulates gradients over 2 batches");
    free_net(&n);
}

static void what_the_update_computes_is_not_fetched(void **state)
{
    net n = new_net(DENSE);
    float loss;

    (void)state;
    minimize(&n, "sgd", "accumulate=2, grad_clip=norm(1)");
    n.loss =
        fl_program_var(fl_default_main_program(n.c), "clip_by_norm_0.tmp_0");
    assert_non_null(n.loss);
    assert_int_equal(
        run_samples(&n, fl_default_main_program(n.c), 0, 0, SAMPLES, &loss),
        FL_ERR_INVAL);
    assert_said("fetch clip_by_norm_0.tmp_0 is computed by the update");
    free_net(&n);
}

/* Of one step, and yet every batch draws its own. */
static void dropout_draws_anew_in_every_batch(void **state)
{
    fl_ctx *c = make_ctx();
    fl_executor *e = make_executor(c);
    fl_var *d = fl_layers_dropout(data2(c, "x", 64), 0.5);
    fl_var *loss = fl_layers_mean(fl_layers_fc(d, 1, ));
    float x[64], seen[2][64];
    const char *fetch = fl_var_name(d);
    fl_feed feed = { "x",
                     fl_tensor_of(FL_DTYPE_F32, x, 2, (int64_t[]){ 1, 64 }) };
    fl_tensor out;
    fl_run_args a = FL_INIT(fl_run_args, .feeds = &feed, .n_feeds = 1,
                            .fetches = &fetch, .n_fetches = 1, .out = &out);

    (void)state;
    for (int i = 0; i < 64; i++)
        x[i] = 1;
    assert_ok(fl_minimize(make_optimizer(c, "sgd", "accumulate=2"), loss));
    assert_ok(fl_run(e, fl_default_startup_program(c), NULL));
    for (int i = 0; i < 2; i++) {
        assert_ok(fl_run(e, fl_default_main_program(c), &a));
        memcpy(seen[i], out.data, sizeof(seen[i]));
    }
    assert_memory_not_equal(seen[0], seen[1], sizeof(seen[0]));
    fl_executor_free(e);
    fl_ctx_free(c);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(several_batches_equal_one_of_all_samples),
        cmocka_unit_test(clipping_and_decay_see_the_gradient_of_all),
        cmocka_unit_test(parameters_stay_until_the_last_batch),
        cmocka_unit_test(the_text_of_a_program_says_it),
        cmocka_unit_test(optimizers_of_one_program_update_together),
        cmocka_unit_test(clipping_a_table_batch_by_batch_is_refused),
        cmocka_unit_test(what_the_update_computes_is_not_fetched),
        cmocka_unit_test(dropout_draws_anew_in_every_batch),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
