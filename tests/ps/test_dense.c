/* test_dense.c - dense blocks: their programs give, to the bit, what the update
 * rules give; programs that are not fit for a server are refused. */
#include "store_kit.h"

#include <math.h>

#include "base/rng.h"
#include "base/thread.h"
#include "optim/rule.h"

#define N 37

static fl_conf conf;

static fl_status make(fl_dense **out, const char *text)
{
    fl_declaration d;
    fl_status st;

    assert_ok(fl_declaration_parse(&d, text, strlen(text)));
    assert_int_equal(d.items.len, 1);
    st = fl_dense_new(out, &d.items.data[0], &fl_ops, &conf);
    fl_declaration_release(&d);
    return st;
}

static void draw(float *out, uint64_t no)
{
    for (size_t i = 0; i < N; i++)
        out[i] = (float)fl_rng_normal(no, 5, i);
}

static void expect_values(fl_dense *d, const float *right)
{
    float got[N];

    assert_ok(fl_dense_pull(d, got));
    assert_memory_equal(got, right, sizeof(got));
}

/* --- updates -------------------------------------------------------------- */

static void a_block_starts_at_zero_and_is_assigned(void **state)
{
    float zeros[N] = { 0 }, values[N];
    fl_dense *d;

    (void)state;
    assert_ok(make(&d, SGD_PROGRAM("w", "37")));
    assert_string_equal(fl_dense_name(d), "w");
    assert_int_equal(fl_dense_len(d), N);
    expect_values(d, zeros);
    draw(values, 1);
    assert_ok(fl_dense_assign(d, values));
    expect_values(d, values);
    fl_dense_free(d);
}

static void memory_is_taken_when_a_block_is_used(void **state)
{
    float values[N];
    fl_dense *d;

    (void)state;
    assert_ok(make(&d, SGD_PROGRAM("w", "37")));
    assert_int_equal(fl_dense_bytes(d), 0);
    assert_ok(fl_dense_pull(d, values));
    assert_int_equal(fl_dense_bytes(d), (N + 1) * sizeof(float));
    fl_dense_free(d);
}

static void sgd_updates_as_its_rule_does(void **state)
{
    const fl_rule *rule = fl_rule_find("sgd");
    fl_hyper h = { .lr = 0.5 };
    float w[N], g[N];
    fl_dense *d;

    (void)state;
    assert_ok(make(&d, SGD_PROGRAM("w", "37")));
    draw(w, 1);
    assert_ok(fl_dense_assign(d, w));
    for (uint64_t step = 0; step < 5; step++) {
        draw(g, 10 + step);
        assert_ok(fl_dense_push(d, g, step));
        if (rule->prepare)
            rule->prepare(&h);
        rule->update_f32(w, NULL, g, N, &h);
        expect_values(d, w);
    }
    fl_dense_free(d);
}

static const char adam_program[] =
    "program w 37\n"
    "| param w : f32[37] trainable\n"
    "| var m1 : f32[37] persist\n"
    "| var m2 : f32[37] persist\n"
    "| var b1 : f32[1] persist\n"
    "| var b2 : f32[1] persist\n"
    "| op fill_constant () -> (Out=w) {shape=[37], value=0.25}\n"
    "| op fill_constant () -> (Out=m1) {shape=[37]}\n"
    "| op fill_constant () -> (Out=m2) {shape=[37]}\n"
    "| op fill_constant () -> (Out=b1) {shape=[1], value=0.9}\n"
    "| op fill_constant () -> (Out=b2) {shape=[1], value=0.999}\n"
    "|---\n"
    "| param w : f32[37] trainable\n"
    "| var w@GRAD : f32[37] data\n"
    "| var m1 : f32[37] persist\n"
    "| var m2 : f32[37] persist\n"
    "| var b1 : f32[1] persist\n"
    "| var b2 : f32[1] persist\n"
    "| op global_step () -> (Out=step) @lr\n"
    "| op lr_exponential_decay (Step=step) -> (Out=lr) {learning_rate=0.125, "
    "decay_steps=10, decay_rate=0.5} @lr\n"
    "| op adam (Param=w, Grad=w@GRAD, LearningRate=lr, Moment1=m1, Moment2=m2, "
    "Beta1Pow=b1, Beta2Pow=b2) -> (ParamOut=w, Moment1Out=m1, Moment2Out=m2, "
    "Beta1PowOut=b1, Beta2PowOut=b2) @optimize\n";

/* The same by hand: a rule, its state, and a rate by the step. */
typedef struct by_hand {
    const fl_rule *rule;
    fl_hyper h;
    float w[N], m1[N], m2[N];
    float powers[2]; /* as the variables b1 and b2 have them */
} by_hand;

static void by_hand_init(by_hand *b)
{
    *b = (by_hand){ .rule = fl_rule_find("adam") };
    for (int i = 0; i < fl_rule_n_params(b->rule); i++)
        b->h.p[i] = b->rule->params[i].value;
    b->powers[0] = 0.9f;
    b->powers[1] = 0.999f;
    for (size_t i = 0; i < N; i++)
        b->w[i] = 0.25f;
}

static void by_hand_push(by_hand *b, const float *g, uint64_t step)
{
    b->h.lr = (float)(0.125 * pow(0.5, (double)step / 10));
    for (int i = 0; i < 2; i++)
        b->h.scalar[i] = (double)b->powers[i];
    b->rule->prepare(&b->h);
    b->rule->update_f32(b->w, (float *[]){ b->m1, b->m2 }, g, N, &b->h);
    b->rule->advance(&b->h);
    for (int i = 0; i < 2; i++)
        b->powers[i] = (float)b->h.scalar[i];
}

static void startup_lines_and_schedules_by_the_given_step_work(void **state)
{
    static const uint64_t steps[] = { 0, 1, 10, 10, 35, 2 };
    by_hand b;
    float g[N];
    fl_dense *d;

    (void)state;
    by_hand_init(&b);
    assert_ok(make(&d, adam_program));
    expect_values(d, b.w);
    for (size_t i = 0; i < FL_LEN(steps); i++) {
        draw(g, 20 + i);
        assert_ok(fl_dense_push(d, g, steps[i]));
        by_hand_push(&b, g, steps[i]);
        expect_values(d, b.w);
    }
    assert_int_equal(fl_dense_bytes(d), (3 * N + 2) * sizeof(float));
    fl_dense_free(d);
}

/* --- hashes --------------------------------------------------------------- */

static void a_hash_follows_values_and_state_and_nothing_else(void **state)
{
    float g[N], w[N], zeros[N] = { 0 };
    fl_dense *a, *b;
    uint64_t first;

    (void)state;
    assert_ok(make(&a, adam_program));
    assert_ok(make(&b, adam_program));
    assert_int_equal(fl_dense_hash(a), 0);
    assert_ok(fl_dense_pull(a, w));
    assert_int_equal(fl_dense_hash(a), 0);
    draw(g, 3);
    assert_ok(fl_dense_push(a, g, 0));
    first = fl_dense_hash(a);
    assert_int_not_equal(first, 0);
    assert_ok(fl_dense_push(b, g, 0));
    assert_true(fl_dense_hash(b) == first);
    /* Values as they were, but the state has moved on. */
    assert_ok(fl_dense_pull(a, w));
    assert_ok(fl_dense_push(a, zeros, 1));
    assert_ok(fl_dense_assign(a, w));
    assert_false(fl_dense_hash(a) == first);
    fl_dense_free(a);
    fl_dense_free(b);
}

/* --- programs that are refused -------------------------------------------- */

#define VARS "| var w : f32[3] persist\n| var w@GRAD : f32[3] data\n"

static const struct {
    const char *text, *words;
} bad[] = {
    { "program w 3\n", "no variable w with the word persist" },
    { "program w 3\n| var w : f32[3] persist\n",
      "no variable w@GRAD with the word data" },
    { "program w 4\n" VARS, "4 floats were declared" },
    { "program w 3\n| var w : f32[-1] persist\n| var w@GRAD : f32[3] data\n",
      "w is f32[-1]" },
    { "program w 3\n| var w : f64[3] persist\n| var w@GRAD : f32[3] data\n",
      "w is f64[3]" },
    { "program w 3\n| var w : f32[3] persist\n"
      "| var w@GRAD : f32[3] lod=1 data\n",
      "w@GRAD" },
    { "program w 4611686018427387904\n"
      "| var w : f32[1099511627776,4194304] persist\n"
      "| var w@GRAD : f32[1099511627776,4194304] data\n",
      "floats were declared" },
    { "program w 3\n" VARS "| var s : f32[1] persist\n"
      "| op scale (X=s) -> (Out=s) {scale=2}\n",
      "variable s has no first value" },
    { "program w 3\n| var s : f32[2] persist\n"
      "| op fill_constant () -> (Out=s) {shape=[2]}\n|---\n" VARS
      "| var s : f32[1] persist\n| op scale (X=s) -> (Out=s) {scale=2}\n",
      "variable s is f32[2] before |--- and f32[1] behind it" },
    { "program w 3\n" VARS "| op print (In=w) -> (Out=v)\n",
      "op print acts outside" },
    { "program w 3\n| op init_table () -> () {table=t, "
      "settings=dim}\n|---\n" VARS,
      "op init_table acts outside" },
    { "program w 3\n" VARS "| var x : f32[3] data\n"
      "| op elementwise_add (X=w@GRAD, Y=x) -> (Out=w)\n",
      "x is needed but not fed" },
    { "program w 3\n" VARS "| op nothing () -> ()\n", "nothing" },
    { "program w 3\n| op nothing () -> ()\n|---\n" VARS, "before |---" },
    { "program w 3\n" VARS "| param t : f32[-1,3] trainable table\n",
      "t is a table" },
};

static void programs_that_do_not_fit_are_refused(void **state)
{
    fl_dense *d = NULL;

    (void)state;
    for (size_t i = 0; i < FL_LEN(bad); i++) {
        assert_int_not_equal(make(&d, bad[i].text), FL_OK);
        assert_non_null(strstr(fl_last_error(), "block w"));
        if (!strstr(fl_last_error(), bad[i].words))
            fail_msg("'%s' does not say '%s'", fl_last_error(), bad[i].words);
    }
    assert_null(d);
}

static void a_block_survives_a_failed_first_use(void **state)
{
    float zeros[N] = { 0 }, values[N];
    fl_dense *d;

    (void)state;
    assert_ok(make(&d, SGD_PROGRAM("w", "37")));
    for (uint64_t n = 1; n <= 2; n++) {
        fl_alloc_fail_after(n);
        assert_error(fl_dense_pull(d, values), FL_ERR_NOMEM, "block w");
        fl_alloc_fail_after(0);
    }
    expect_values(d, zeros);
    fl_dense_free(d);
}

/* --- threads -------------------------------------------------------------- */

#define ROUNDS 200

static void push_often(void *arg)
{
    float g[N], w[N];

    for (size_t i = 0; i < N; i++)
        g[i] = -2;
    for (int i = 0; i < ROUNDS; i++) {
        FL_ASSERT(!fl_dense_push(arg, g, (uint64_t)i));
        FL_ASSERT(!fl_dense_pull(arg, w));
        FL_ASSERT(!memcmp(w, w + 1, (N - 1) * sizeof(float)));
        (void)fl_dense_hash(arg);
        (void)fl_dense_bytes(arg);
    }
}

static void threads_take_turns_on_a_block(void **state)
{
    fl_thread *t[4];
    float right[N];
    fl_dense *d;

    (void)state;
    assert_ok(make(&d, SGD_PROGRAM("w", "37")));
    for (size_t i = 0; i < FL_LEN(t); i++)
        assert_ok(fl_thread_start(&t[i], "pusher", push_often, d));
    for (size_t i = 0; i < FL_LEN(t); i++)
        fl_thread_join(t[i]);
    for (size_t i = 0; i < N; i++)
        right[i] = ROUNDS * FL_LEN(t);
    expect_values(d, right);
    fl_dense_free(d);
}

/* --- values of a scope ---------------------------------------------------- */

static void put(fl_scope *s, const char *name, int64_t n, const float *values)
{
    fl_tensor meta = { .dtype = FL_DTYPE_F32,
                       .shape = { .rank = 1, .dim = { n } } };
    fl_tensor t;

    assert_ok(fl_scope_reserve(s, name, &meta, &t));
    memcpy(t.data, values, (size_t)n * sizeof(float));
}

static void a_block_takes_over_what_a_scope_has_for_it(void **state)
{
    float w[N], g[N], right[N], state_of_w[N];
    fl_dense *taken, *trained;
    fl_scope scope;

    (void)state;
    draw(w, 1);
    draw(g, 2);
    draw(state_of_w, 3);
    for (size_t i = 0; i < N; i++)
        state_of_w[i] = fabsf(state_of_w[i]);
    fl_scope_init(&scope);
    assert_ok(make(&taken, adam_program));
    assert_ok(make(&trained, adam_program));
    /* Without the block itself nothing is taken, and nothing started. */
    put(&scope, "m2", N, state_of_w);
    assert_ok(fl_dense_take(taken, &scope));
    assert_int_equal(fl_dense_bytes(taken), 0);
    /* Nor of another size. */
    put(&scope, "w", N - 1, w);
    assert_ok(fl_dense_take(taken, &scope));
    assert_int_equal(fl_dense_bytes(taken), 0);
    put(&scope, "w", N, w);
    put(&scope, "m1", N + 1, (float[N + 1]){ 5 });
    put(&scope, "b1", 1, (float[1]){ 0.5f });
    assert_ok(fl_dense_take(taken, &scope));
    expect_values(taken, w);
    assert_true(fl_dense_hash(taken) != 0);
    /* The state came along: the next update is another than that of a block
       that only has the values. */
    assert_ok(fl_dense_assign(trained, w));
    assert_ok(fl_dense_push(trained, g, 0));
    assert_ok(fl_dense_push(taken, g, 0));
    assert_ok(fl_dense_pull(trained, right));
    assert_ok(fl_dense_pull(taken, w));
    assert_memory_not_equal(w, right, sizeof(w));
    fl_scope_release(&scope);
    fl_dense_free(taken);
    fl_dense_free(trained);
}

static void a_store_gives_its_blocks_what_the_scope_has(void **state)
{
    static const char text[] = SGD_PROGRAM("w", "37") SGD_PROGRAM("v", "37");
    fl_store *s = fl_store_new(&fl_ops, &conf);
    answer a = { 0 };
    fl_pack p = { 0 };
    fl_scope scope;
    float v[N];

    (void)state;
    draw(v, 4);
    fl_scope_init(&scope);
    put(&scope, "v", N, v);
    fl_store_set_scope(s, &scope);
    assert_ok(fl_store_declare(s, text, strlen(text)));
    pack_blocks_head(&p, FL_MSG_PULL_DENSE, (uint32_t[]){ 1, 0 }, 2);
    assert_ok(ask(s, FL_MSG_PULL_DENSE, &p, &a));
    assert_memory_equal(a.data, v, sizeof(v));
    memset(v, 0, sizeof(v));
    assert_memory_equal((char *)a.data + sizeof(v), v, sizeof(v));
    answer_release(&a);
    fl_store_free(s);
    fl_scope_release(&scope);
}

static int set_up(void **state)
{
    (void)state;
    return fl_conf_init(&conf);
}

static int tear_down(void **state)
{
    (void)state;
    fl_conf_release(&conf);
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_block_starts_at_zero_and_is_assigned),
        cmocka_unit_test(memory_is_taken_when_a_block_is_used),
        cmocka_unit_test(sgd_updates_as_its_rule_does),
        cmocka_unit_test(startup_lines_and_schedules_by_the_given_step_work),
        cmocka_unit_test(a_hash_follows_values_and_state_and_nothing_else),
        cmocka_unit_test(programs_that_do_not_fit_are_refused),
        cmocka_unit_test(a_block_survives_a_failed_first_use),
        cmocka_unit_test(threads_take_turns_on_a_block),
        cmocka_unit_test(a_block_takes_over_what_a_scope_has_for_it),
        cmocka_unit_test(a_store_gives_its_blocks_what_the_scope_has),
    };

    return cmocka_run_group_tests(tests, set_up, tear_down);
}
