/* test_dense.c - dense blocks: their programs give, to the bit, what the update
 * rules give; programs that are not fit for a server are refused. */
#include "store_kit.h"

#include <math.h>

#include "base/rng.h"
#include "base/thread.h"
#include "optim/rule.h"

#define N 37

static fl_conf conf;

/* For fl_contents_run. */
static fl_status take_block(void *arg, const fl_contents *c)
{
    const fl_program *p = c->service->program;

    return fl_dense_new(arg, p->blocks.data[c->service->blocks[0]], c->scope,
                        &conf);
}

/* The only block of a server's program. */
static fl_status make(fl_dense **out, const char *text)
{
    fl_program *p;
    fl_status st;

    FL_TRY(fl_program_parse(text, &fl_ops, &p));
    st = fl_contents_run(p, &conf, take_block, out);
    fl_program_free(p);
    return st;
}

#define SGD_PROGRAM                                                            \
    SGD_START("w", "37") SERVE_TEXT("1") SGD_UPDATE("1", "w", "37")

static void draw(float *out, uint64_t no)
{
    for (size_t i = 0; i < N; i++)
        out[i] = (float)fl_rng_normal(no, 5, i);
}

static void expect_values(fl_dense *d, const float *right)
{
    float got[N];

    fl_dense_pull(d, FL_CODEC_F32, got);
    assert_memory_equal(got, right, sizeof(got));
}

/* --- updates -------------------------------------------------------------- */

static void a_block_starts_at_zero_and_is_assigned(void **state)
{
    float zeros[N] = { 0 }, values[N];
    fl_dense *d;

    (void)state;
    assert_ok(make(&d, SGD_PROGRAM));
    assert_string_equal(fl_dense_name(d), "w");
    assert_int_equal(fl_dense_len(d), N);
    expect_values(d, zeros);
    draw(values, 1);
    fl_dense_assign(d, FL_CODEC_F32, values);
    expect_values(d, values);
    fl_dense_free(d);
}

static void sgd_updates_as_its_rule_does(void **state)
{
    const fl_rule *rule = fl_rule_find("sgd");
    fl_hyper h = { .lr = 0.5 };
    float w[N], g[N];
    fl_dense *d;

    (void)state;
    assert_ok(make(&d, SGD_PROGRAM));
    draw(w, 1);
    fl_dense_assign(d, FL_CODEC_F32, w);
    for (uint64_t step = 0; step < 5; step++) {
        draw(g, 10 + step);
        assert_ok(fl_dense_push(d, FL_CODEC_F32, g, step));
        if (rule->prepare)
            rule->prepare(&h);
        rule->update_f32(w, NULL, g, N, &h);
        expect_values(d, w);
    }
    fl_dense_free(d);
}

static const char adam_program[] =
    "param w : f32[37] trainable\n"
    "var m1 : f32[37] persist\n"
    "var m2 : f32[37] persist\n"
    "var b1 : f32[1] persist\n"
    "var b2 : f32[1] persist\n"
    "op fill_constant () -> (Out=w) {shape=[37], value=0.25}\n"
    "op fill_constant () -> (Out=m1) {shape=[37]}\n"
    "op fill_constant () -> (Out=m2) {shape=[37]}\n"
    "op fill_constant () -> (Out=b1) {shape=[1], value=0.9}\n"
    "op fill_constant () -> (Out=b2) {shape=[1], value=0.999}\n" SERVE_TEXT(
        "1") "block 1 parent 0\n"
             "var w@GRAD : f32[37] data\n"
             "op global_step () -> (Out=step) @lr\n"
             "op lr_exponential_decay (Step=step) -> (Out=lr) "
             "{learning_rate=0.125, "
             "decay_steps=10, decay_rate=0.5} @lr\n"
             "op adam (Param=w, Grad=w@GRAD, LearningRate=lr, Moment1=m1, "
             "Moment2=m2, "
             "Beta1Pow=b1, Beta2Pow=b2) -> (ParamOut=w, Moment1Out=m1, "
             "Moment2Out=m2, "
             "Beta1PowOut=b1, Beta2PowOut=b2) @optimize\n"
             "end\n";

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

static void first_values_and_schedules_by_the_given_step_work(void **state)
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
        assert_ok(fl_dense_push(d, FL_CODEC_F32, g, steps[i]));
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
    draw(g, 3);
    assert_ok(fl_dense_push(a, FL_CODEC_F32, g, 0));
    first = fl_dense_hash(a);
    assert_int_not_equal(first, 0);
    assert_ok(fl_dense_push(b, FL_CODEC_F32, g, 0));
    assert_true(fl_dense_hash(b) == first);
    /* Values as they were, but the state has moved on. */
    fl_dense_pull(a, FL_CODEC_F32, w);
    assert_ok(fl_dense_push(a, FL_CODEC_F32, zeros, 1));
    fl_dense_assign(a, FL_CODEC_F32, w);
    assert_false(fl_dense_hash(a) == first);
    fl_dense_free(a);
    fl_dense_free(b);
}

/* --- programs that are refused -------------------------------------------- */

/* An update of w, whose first value is three floats. */
#define UPDATE(text)                                                           \
    "var w : f32[3] persist\n"                                                 \
    "op fill_constant () -> (Out=w) {shape=[3]}\n" SERVE_TEXT(                 \
        "1") "block 1 parent 0\n" text "end\n"
#define FED "var w@GRAD : f32[3] data\n"
#define ADD "op elementwise_add (X=w, Y=w@GRAD) -> (Out=w)\n"

static const struct {
    const char *text, *words;
} bad[] = {
    { UPDATE(""), "no variable NAME@GRAD with the word data" },
    { UPDATE(FED), "no variable NAME@GRAD with the word data" },
    { UPDATE("op scale (X=w) -> (Out=w) {scale=2}\n"),
      "no variable NAME@GRAD" },
    { UPDATE("var g : f32[3] data\n"
             "op elementwise_add (X=w, Y=g) -> (Out=w)\n"),
      "is fed g; what is fed is called NAME@GRAD" },
    { UPDATE("var v@GRAD : f32[3] data\n"
             "op elementwise_add (X=w, Y=v@GRAD) -> (Out=w)\n"),
      "block v: the program has no variable v that is persistent" },
    { UPDATE("var w@GRAD : f32[1] data\n" ADD), "its gradient f32[1]" },
    { UPDATE("var w@GRAD : f32[3] lod=1 data\n" ADD), "block w" },
    { UPDATE(FED "var w : f32[-1] persist\n"
                 "op relu (X=w@GRAD) -> (Out=g)\n"
                 "op scale (X=w) -> (Out=w) {scale=2}\n"),
      "w is f32[-1]" },
    { UPDATE(FED "var w : f64[3] persist\n"
                 "op cast (X=w@GRAD) -> (Out=g) {out_dtype=f64}\n"
                 "op elementwise_add (X=w, Y=g) -> (Out=w)\n"),
      "w is f64[3]" },
    { UPDATE(FED "var s : f32[1] persist\n"
                 "op scale (X=s) -> (Out=s) {scale=2}\n" ADD),
      "variable s has no first value" },
    { UPDATE(FED "var w : f32[3,1] persist\n"
                 "op sgd (Param=w, Grad=w@GRAD, LearningRate=w@GRAD) -> "
                 "(ParamOut=w)\n"),
      "" },
    { UPDATE(FED "op print (In=w) -> (Out=v)\n" ADD), "op print acts outside" },
    { UPDATE(FED "op init_table () -> () {table=t, settings=dim}\n" ADD),
      "op init_table acts outside" },
    { UPDATE(FED "var x : f32[3] data\n"
                 "op elementwise_add (X=w@GRAD, Y=x) -> (Out=w)\n"),
      "is fed w@GRAD and x; it is fed one gradient" },
    { UPDATE(FED "op nothing () -> ()\n"), "nothing" },
};

static void programs_that_do_not_fit_are_refused(void **state)
{
    fl_dense *d = NULL;

    (void)state;
    for (size_t i = 0; i < FL_LEN(bad); i++) {
        if (!make(&d, bad[i].text))
            fail_msg("taken: %s", bad[i].text);
        if (!strstr(fl_last_error(), bad[i].words))
            fail_msg("'%s' does not say '%s'", fl_last_error(), bad[i].words);
    }
    assert_null(d);
}

/* --- threads -------------------------------------------------------------- */

#define ROUNDS 200

static void push_often(void *arg)
{
    float g[N], w[N];

    for (size_t i = 0; i < N; i++)
        g[i] = -2;
    for (int i = 0; i < ROUNDS; i++) {
        FL_ASSERT(!fl_dense_push(arg, FL_CODEC_F32, g, (uint64_t)i));
        fl_dense_pull(arg, FL_CODEC_F32, w);
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
    assert_ok(make(&d, SGD_PROGRAM));
    for (size_t i = 0; i < FL_LEN(t); i++)
        assert_ok(fl_thread_start(&t[i], "pusher", push_often, d));
    for (size_t i = 0; i < FL_LEN(t); i++)
        fl_thread_join(t[i]);
    for (size_t i = 0; i < N; i++)
        right[i] = ROUNDS * FL_LEN(t);
    expect_values(d, right);
    fl_dense_free(d);
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
        cmocka_unit_test(sgd_updates_as_its_rule_does),
        cmocka_unit_test(first_values_and_schedules_by_the_given_step_work),
        cmocka_unit_test(a_hash_follows_values_and_state_and_nothing_else),
        cmocka_unit_test(programs_that_do_not_fit_are_refused),
        cmocka_unit_test(threads_take_turns_on_a_block),
    };

    return cmocka_run_group_tests(tests, set_up, tear_down);
}
