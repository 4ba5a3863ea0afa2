/* test_replicas.c - data-parallel runs: equal to one run on the joined batch,
 * the same bits each time, one fetched value per replica; also with a table. */
#include "net.h"
#include "../make.h"

#include <stdlib.h>
#include <string.h>

#define STEPS 12

typedef struct setup {
    fl_reduce_strategy reduce;
    fl_gradient_scale scale;
    int replicas, threads;
} setup;

/* Trains and returns fc_0.w_0 and the table, one after the other. */
static float *train(const setup *s, const char *kind, const char *settings,
                    float *losses, size_t *n)
{
    fl_ctx *c = make_ctx();
    fl_executor *e = make_executor(c);
    const char *loss = fl_var_name(net_build(c, kind, settings));
    fl_build_strategy build =
        FL_INIT(fl_build_strategy, .reduce_strategy = s->reduce,
                .gradient_scale_strategy = s->scale);
    fl_exec_strategy exec = FL_INIT(fl_exec_strategy, .n_threads = s->threads,
                                    .n_replicas = s->replicas);
    fl_parallel_executor *pe;
    fl_tensor out[4];
    size_t n_w, n_e;
    float *w, *table, *all;

    net_start(c, e);
    assert_ok(fl_parallel_executor_new(&pe, c, loss, NULL, &build, &exec));
    assert_int_equal(fl_parallel_executor_replicas(pe), s->replicas);
    for (int i = 0; i < STEPS; i++) {
        net_batch b;
        fl_run_args a = FL_INIT(fl_run_args, .feeds = b.feeds, .n_feeds = 3,
                                .fetches = &loss, .n_fetches = 1, .out = out);
        float mean = 0;

        net_fill(&b, i, NET_BATCH);
        assert_ok(fl_parallel_executor_run(pe, &a));
        for (int r = 0; r < s->replicas; r++)
            mean += *(float *)out[r].data / (float)s->replicas;
        losses[i] = mean;
    }
    w = net_copy(c, "fc_0.w_0", &n_w);
    table = net_copy(c, "embedding_0.w_0", &n_e);
    *n = n_w + n_e;
    all = malloc(*n * sizeof(float));
    memcpy(all, w, n_w * sizeof(float));
    memcpy(all + n_w, table, n_e * sizeof(float));
    free(w);
    free(table);
    fl_parallel_executor_free(pe);
    fl_executor_free(e);
    fl_ctx_free(c);
    return all;
}

static void replicas_equal_one_run_on_the_joined_batch(void **state)
{
    static const setup setups[] = {
        { FL_REPLICA_REDUCE, FL_SCALE_COEFF_NUM_DEVICE, 2, 2 },
        { FL_REPLICA_ALL_REDUCE, FL_SCALE_COEFF_NUM_DEVICE, 2, 2 },
        { FL_REPLICA_REDUCE, FL_SCALE_COEFF_NUM_DEVICE, 3, 1 },
        { FL_REPLICA_ALL_REDUCE, FL_SCALE_COEFF_NUM_DEVICE, 4, 8 },
    };
    static const char *const kinds[][2] = {
        { "sgd", "learning_rate=0.2" },
        { "adam", "learning_rate=0.02" },
        { "sgd", "learning_rate=0.2, grad_clip=global_norm(0.5)" },
    };
    setup alone = { FL_REPLICA_REDUCE, FL_SCALE_COEFF_NUM_DEVICE, 1, 1 };

    (void)state;
    for (size_t k = 0; k < 3; k++) {
        float want_loss[STEPS], loss[STEPS];
        size_t n, m;
        float *want = train(&alone, kinds[k][0], kinds[k][1], want_loss, &n);

        for (size_t i = 0; i < sizeof(setups) / sizeof(setups[0]); i++) {
            float *got = train(&setups[i], kinds[k][0], kinds[k][1], loss, &m);

            assert_int_equal(n, m);
            for (size_t j = 0; j < n; j++)
                assert_float_equal(got[j], want[j], 2e-5);
            for (int j = 0; j < STEPS; j++)
                assert_float_equal(loss[j], want_loss[j], 2e-5);
            free(got);
        }
        free(want);
    }
}

static void a_repeated_run_gives_the_same_bits(void **state)
{
    setup s = { FL_REPLICA_REDUCE, FL_SCALE_COEFF_NUM_DEVICE, 3, 3 };
    float la[STEPS], lb[STEPS];
    size_t n, m;

    (void)state;
    for (int k = 0; k < 2; k++) {
        float *a, *b;

        s.reduce = k ? FL_REPLICA_REDUCE : FL_REPLICA_ALL_REDUCE;
        a = train(&s, "adam", NULL, la, &n);
        b = train(&s, "adam", NULL, lb, &m);
        assert_int_equal(n, m);
        assert_memory_equal(a, b, n * sizeof(float));
        assert_memory_equal(la, lb, sizeof(la));
        free(a);
        free(b);
    }
}

static void the_sum_is_the_mean_at_a_larger_rate(void **state)
{
    setup sum = { FL_REPLICA_REDUCE, FL_SCALE_ONE, 2, 2 };
    setup mean = { FL_REPLICA_REDUCE, FL_SCALE_COEFF_NUM_DEVICE, 2, 2 };
    float la[STEPS], lb[STEPS];
    size_t n, m;
    float *a = train(&sum, "sgd", "learning_rate=0.1", la, &n);
    float *b = train(&mean, "sgd", "learning_rate=0.2", lb, &m);

    (void)state;
    for (size_t i = 0; i < n; i++)
        assert_float_equal(a[i], b[i], 1e-5);
    free(a);
    free(b);
}

static void a_customised_scale_takes_the_fed_gradient(void **state)
{
    fl_ctx *c = make_ctx();
    fl_executor *e = make_executor(c);
    const char *loss = fl_var_name(net_build(c, "sgd", "learning_rate=0.2"));
    fl_build_strategy build =
        FL_INIT(fl_build_strategy, .reduce_strategy = FL_REPLICA_REDUCE,
                .gradient_scale_strategy = FL_SCALE_CUSTOMIZED);
    fl_exec_strategy exec =
        FL_INIT(fl_exec_strategy, .n_threads = 2, .n_replicas = 2);
    fl_compiled_program *cp = make_compiled(fl_default_main_program(c));
    float zero = 0;
    net_batch b;
    fl_feed feeds[4];
    fl_tensor out[2];
    fl_run_args a = FL_INIT(fl_run_args, .feeds = feeds, .n_feeds = 4,
                            .fetches = &loss, .n_fetches = 1, .out = out);
    size_t n;
    float *before, *after;

    (void)state;
    net_start(c, e);
    assert_ok(fl_compiled_program_with_data_parallel(cp, loss, &build, &exec));
    net_fill(&b, 0, NET_BATCH);
    memcpy(feeds, b.feeds, sizeof(b.feeds));
    feeds[3] =
        (fl_feed){ "mean_0.tmp_0@GRAD",
                   fl_tensor_of(FL_DTYPE_F32, &zero, 1, (int64_t[]){ 1 }) };
    before = net_copy(c, "fc_0.w_0", &n);
    assert_ok(fl_run_compiled(e, cp, &a));
    after = net_copy(c, "fc_0.w_0", &n);
    assert_memory_equal(before, after, n * sizeof(float));
    a.n_feeds = 3;
    assert_error(fl_run_compiled(e, cp, &a), FL_ERR_INVAL,
                 "mean_0.tmp_0@GRAD is needed");
    free(before);
    free(after);
    fl_compiled_program_free(cp);
    fl_executor_free(e);
    fl_ctx_free(c);
}

static void misuse_is_refused_with_a_reason(void **state)
{
    fl_ctx *c = make_ctx();
    fl_executor *e = make_executor(c);
    const char *loss = fl_var_name(net_build(c, "sgd", NULL));
    fl_exec_strategy exec =
        FL_INIT(fl_exec_strategy, .n_threads = 4, .n_replicas = 4);
    fl_parallel_executor *pe;
    net_batch b;
    fl_tensor out[4];
    fl_run_args a = FL_INIT(fl_run_args, .feeds = b.feeds, .n_feeds = 3,
                            .fetches = &loss, .n_fetches = 1, .out = out);

    (void)state;
    net_start(c, e);
    assert_error(fl_parallel_executor_new(&pe, c, "los", NULL, NULL, &exec),
                 FL_ERR_NOTFOUND, "loss los");
    assert_error(fl_parallel_executor_new(&pe, c, "x", NULL, NULL, &exec),
                 FL_ERR_INVAL, "loss x has no gradient");
    assert_ok(fl_parallel_executor_new(&pe, c, loss, NULL, NULL, &exec));
    net_fill(&b, 0, 3);
    assert_error(fl_parallel_executor_run(pe, &a), FL_ERR_INVAL, "3 samples");
    fl_parallel_executor_free(pe);
    fl_executor_free(e);
    fl_ctx_free(c);
}

/* --- tables -------------------------------------------------------------- */

/* A net whose embedding is the table emb. */
typedef struct table_net {
    fl_ctx *c;
    fl_executor *e;
    const char *loss;
} table_net;

static table_net new_table_net(const char *kind, const char *settings,
                               const char *clip)
{
    table_net n = { .c = make_ctx() };
    fl_layers_embedding_args args =
        FL_INIT(fl_layers_embedding_args, .is_distributed = true,
                .param = { .name = "emb", .clip = clip });
    fl_optimizer *o;
    fl_var *loss;

    n.e = make_executor(n.c);
    loss = net_forward(n.c, &args);
    n.loss = fl_var_name(loss);
    o = make_optimizer(n.c, kind, settings);
    if (!settings)
        fl_optimizer_set_lr(
            o, fl_layers_exponential_decay(n.c, 0.2, 3, 0.5, true));
    assert_ok(fl_minimize(o, loss));
    net_start(n.c, n.e);
    return n;
}

static void free_table_net(table_net *n)
{
    fl_executor_free(n->e);
    fl_ctx_free(n->c);
}

static float *table_rows(const table_net *n, size_t *len)
{
    float *rows = malloc(NET_ROWS * NET_DIM * sizeof(float));
    uint64_t keys[NET_ROWS];
    fl_table *t;

    for (uint64_t i = 0; i < NET_ROWS; i++)
        keys[i] = i;
    assert_ok(fl_ctx_table(n->c, "emb", &t));
    assert_ok(fl_table_pull(t, keys, NET_ROWS, FL_PULL_ONLY, rows));
    *len = NET_ROWS * NET_DIM;
    return rows;
}

static fl_status run_split(const table_net *n, const setup *s, int steps)
{
    fl_compiled_program *cp = make_compiled(fl_default_main_program(n->c));
    fl_build_strategy build =
        FL_INIT(fl_build_strategy, .reduce_strategy = s->reduce,
                .gradient_scale_strategy = s->scale);
    fl_exec_strategy exec = FL_INIT(fl_exec_strategy, .n_threads = s->threads,
                                    .n_replicas = s->replicas);
    fl_tensor out[4];
    fl_status st = FL_OK;
    net_batch b;

    assert_ok(
        fl_compiled_program_with_data_parallel(cp, n->loss, &build, &exec));
    for (int i = 0; i < steps && !st; i++) {
        fl_run_args a =
            FL_INIT(fl_run_args, .feeds = b.feeds, .n_feeds = 3,
                    .fetches = &n->loss, .n_fetches = 1, .out = out);

        net_fill(&b, i, NET_BATCH);
        st = fl_run_compiled(n->e, cp, &a);
    }
    fl_compiled_program_free(cp);
    return st;
}

static void expect_near(float *got, float *want, size_t n)
{
    for (size_t i = 0; i < n; i++)
        assert_float_equal(got[i], want[i], 1e-6);
    free(got);
    free(want);
}

static void expect_same_model(const table_net *a, const table_net *b)
{
    size_t n, m;
    float *got = table_rows(a, &n), *want = table_rows(b, &m);

    expect_near(got, want, n);
    got = net_copy(a->c, "fc_0.w_0", &n);
    want = net_copy(b->c, "fc_0.w_0", &m);
    expect_near(got, want, n);
}

static void replicas_train_a_table_like_one_run(void **state)
{
    static const setup setups[] = {
        { FL_REPLICA_REDUCE, FL_SCALE_COEFF_NUM_DEVICE, 2, 2 },
        { FL_REPLICA_ALL_REDUCE, FL_SCALE_COEFF_NUM_DEVICE, 3, 1 },
        { FL_REPLICA_ALL_REDUCE, FL_SCALE_COEFF_NUM_DEVICE, 4, 8 },
    };
    static const char *const kinds[][2] = { { "sgd", "learning_rate=0.2" },
                                            { "adagrad", "learning_rate=0.02" },
                                            { "sgd", NULL } };
    setup alone = { FL_REPLICA_REDUCE, FL_SCALE_COEFF_NUM_DEVICE, 1, 1 };

    (void)state;
    for (size_t k = 0; k < 3; k++)
        for (size_t i = 0; i < 3; i++) {
            table_net a = new_table_net(kinds[k][0], kinds[k][1], NULL);
            table_net b = new_table_net(kinds[k][0], kinds[k][1], NULL);

            assert_ok(run_split(&a, &setups[i], STEPS));
            assert_ok(run_split(&b, &alone, STEPS));
            expect_same_model(&a, &b);
            assert_int_equal(fl_scope_step(fl_current_scope(a.c)), STEPS);
            free_table_net(&a);
            free_table_net(&b);
        }
}

/* What one half of batch 0 alone changes in the table. */
static float *change_by_half(int half, const char *clip, size_t *n)
{
    table_net net = new_table_net("sgd", "learning_rate=1", clip);
    float *before = table_rows(&net, n), *after;
    int64_t offsets[NET_BATCH / 2 + 1];
    int from = half * NET_BATCH / 2;
    fl_run_args a = FL_INIT(fl_run_args, .n_feeds = 3);
    net_batch b;

    net_fill(&b, 0, NET_BATCH);
    for (int i = 0; i <= NET_BATCH / 2; i++)
        offsets[i] = b.offsets[from + i] - b.offsets[from];
    b.feeds[0].value.data = b.x + from * NET_WIDTH;
    b.feeds[0].value.shape.dim[0] = NET_BATCH / 2;
    b.feeds[1].value = fl_tensor_ragged(
        FL_DTYPE_I64, b.ids + b.offsets[from], 2,
        (int64_t[]){ offsets[NET_BATCH / 2], 1 }, offsets, NET_BATCH / 2);
    b.feeds[2].value.data = b.label + from;
    b.feeds[2].value.shape.dim[0] = NET_BATCH / 2;
    a.feeds = b.feeds;
    assert_ok(fl_run(net.e, fl_default_main_program(net.c), &a));
    after = table_rows(&net, n);
    for (size_t i = 0; i < *n; i++)
        after[i] -= before[i];
    free(before);
    free_table_net(&net);
    return after;
}

static void each_replica_clips_its_part_of_a_table(void **state)
{
    static const char *const clip = "value(-0.001,0.001)";
    setup two = { FL_REPLICA_REDUCE, FL_SCALE_COEFF_NUM_DEVICE, 2, 2 };
    table_net net = new_table_net("sgd", "learning_rate=1", clip);
    size_t n;
    float *want = table_rows(&net, &n);
    float *first = change_by_half(0, clip, &n);
    float *second = change_by_half(1, clip, &n);
    float most = 0;

    (void)state;
    for (size_t i = 0; i < n; i++) {
        want[i] += (first[i] + second[i]) / 2;
        most = first[i] > most ? first[i] : most;
    }
    assert_float_equal(most, 0.001, 1e-6); /* it did clip */
    assert_ok(run_split(&net, &two, 1));
    expect_near(table_rows(&net, &n), want, n);
    free(first);
    free(second);
    free_table_net(&net);
}

static void a_norm_over_tables_and_parameters_is_refused(void **state)
{
    setup two = { FL_REPLICA_REDUCE, FL_SCALE_COEFF_NUM_DEVICE, 2, 2 };
    setup one = { FL_REPLICA_REDUCE, FL_SCALE_COEFF_NUM_DEVICE, 1, 1 };
    table_net net = new_table_net(
        "sgd", "learning_rate=0.2, grad_clip=global_norm(0.5)", NULL);

    (void)state;
    assert_error(run_split(&net, &two, 1), FL_ERR_INVAL,
                 "op clip_by_global_norm");
    assert_error(run_split(&net, &two, 1), FL_ERR_INVAL,
                 "train with hogwild threads instead");
    assert_ok(run_split(&net, &one, 1));
    free_table_net(&net);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(replicas_equal_one_run_on_the_joined_batch),
        cmocka_unit_test(a_repeated_run_gives_the_same_bits),
        cmocka_unit_test(the_sum_is_the_mean_at_a_larger_rate),
        cmocka_unit_test(a_customised_scale_takes_the_fed_gradient),
        cmocka_unit_test(misuse_is_refused_with_a_reason),
        cmocka_unit_test(replicas_train_a_table_like_one_run),
        cmocka_unit_test(each_replica_clips_its_part_of_a_table),
        cmocka_unit_test(a_norm_over_tables_and_parameters_is_refused),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
