/* test_while.c - loops, arrays of tensors, blocks in blocks, and gradients
 * through all of them. */
#include "api.h"
#include "../make.h"

#include <math.h>

#define DIMS(...) ((int64_t[]){ __VA_ARGS__ })

typedef struct rig {
    fl_ctx *ctx;
    fl_executor *exe;
    fl_program *p;
} rig;

static rig open_rig(const char *text)
{
    rig r = { .ctx = make_ctx() };

    r.exe = make_executor(r.ctx);
    if (fl_program_from_text(&r.p, r.ctx, text))
        fail_msg("%s", fl_last_error());
    return r;
}

static void close_rig(rig *r)
{
    fl_executor_free(r->exe);
    fl_program_free(r->p);
    fl_ctx_free(r->ctx);
}

static const float x_values[] = { 1, 2 };
static const float w_values[] = { 3, 0.5f };

/* Feeds x and w, both [2], and n, the number of laps. */
static fl_status run(rig *r, const char *name, int64_t laps, fl_tensor *out)
{
    fl_feed feeds[] = {
        { "x", fl_tensor_of(FL_DTYPE_F32, x_values, 1, DIMS(2)) },
        { "w", fl_tensor_of(FL_DTYPE_F32, w_values, 1, DIMS(2)) },
        { "n", fl_tensor_of(FL_DTYPE_I64, &laps, 1, DIMS(1)) },
    };

    return fl_run(r->exe, r->p,
                  &FL_INIT(fl_run_args, .feeds = feeds, .n_feeds = 3,
                           .fetches = &name, .n_fetches = 1, .out = out));
}

static void expect(rig *r, const char *name, int64_t laps, double a, double b)
{
    const double want[] = { a, b };
    fl_tensor got;

    if (run(r, name, laps, &got))
        fail_msg("%s", fl_last_error());
    assert_int_equal(fl_tensor_numel(&got), 2);
    for (int i = 0; i < 2; i++)
        if (fabs(((const float *)got.data)[i] - want[i]) > 1e-4)
            fail_msg("%s[%d] is %g, not %g", name, i,
                     (double)((const float *)got.data)[i], want[i]);
}

static const char *gradient_of(rig *r, const char *loss, const char *input)
{
    fl_var *target = fl_program_var(r->p, loss);
    fl_var *of = fl_program_var(r->p, input), *g = NULL;

    if (fl_gradients_with(&g, FL_OPTIONS(fl_gradients_args, .targets = &target,
                                         .n_targets = 1, .inputs = &of,
                                         .n_inputs = 1)))
        fail_msg("%s", fl_last_error());
    assert_non_null(g);
    return fl_var_name(g);
}

#define FEEDS                                                                  \
    "var x : f32[2] data\n"                                                    \
    "var w : f32[2] data\n"                                                    \
    "var n : i64[1] data stop_gradient\n"

#define COUNTER                                                                \
    "op fill_constant () -> (Out=i) {shape=[1], dtype=int64, value=0}\n"       \
    "op less_than (X=i, Y=n) -> (Out=more)\n"

#define NEXT                                                                   \
    "  op increment (X=i) -> (Out=i) {step=1}\n"                               \
    "  op less_than (X=i, Y=n) -> (Out=more)\n"

/* y = x w^n */
#define POWER                                                                  \
    FEEDS COUNTER                                                              \
        "op scale (X=x) -> (Out=y) {scale=1}\n"                                \
        "op while (X=[i,y,w,n], Condition=more) -> (Out=[i,y,more], "          \
        "StepScopes=laps) {sub_block=1}\n"                                     \
        "op reduce_sum (X=y) -> (Out=loss) {reduce_all=true}\n"                \
        "block 1 parent 0\n"                                                   \
        "  op elementwise_mul (X=y, Y=w) -> (Out=y)\n" NEXT "end\n"

static void a_loop_runs_until_its_condition_fails(void **state)
{
    rig r = open_rig(POWER);

    (void)state;
    expect(&r, "y", 3, 27, 0.25);
    expect(&r, "y", 0, 1, 2);
    expect(&r, "y", 1, 3, 1);
    close_rig(&r);
}

static void a_gradient_goes_back_through_all_laps(void **state)
{
    rig r = open_rig(POWER);
    const char *dw = gradient_of(&r, "loss", "w");

    (void)state;
    expect(&r, dw, 3, 27, 1.5); /* 3 x w^2 */
    expect(&r, dw, 0, 0, 0);
    expect(&r, dw, 1, 1, 2);
    close_rig(&r);
}

static void a_gradient_gets_to_what_a_loop_begins_with(void **state)
{
    rig r = open_rig(POWER);
    const char *dx = gradient_of(&r, "loss", "x");

    (void)state;
    expect(&r, dx, 3, 27, 0.125);
    expect(&r, dx, 0, 1, 1);
    close_rig(&r);
}

/* a[0] = x, a[i+1] = a[i] w; the loss is the sum of a[1] and a[2]. */
#define ARRAY                                                                  \
    FEEDS COUNTER                                                              \
        "op fill_constant () -> (Out=zero) {shape=[1], dtype=int64, "          \
        "value=0}\n"                                                           \
        "op fill_constant () -> (Out=one) {shape=[1], dtype=int64, value=1}\n" \
        "op fill_constant () -> (Out=two) {shape=[1], dtype=int64, value=2}\n" \
        "op write_to_array (X=x, I=zero) -> (Out=a)\n"                         \
        "op while (X=[i,a,w,n], Condition=more) -> (Out=[i,a,more], "          \
        "StepScopes=laps) {sub_block=1}\n"                                     \
        "op read_from_array (X=a, I=one) -> (Out=p)\n"                         \
        "op read_from_array (X=a, I=two) -> (Out=q)\n"                         \
        "op sum (X=[p,q]) -> (Out=s)\n"                                        \
        "op lod_array_length (X=a) -> (Out=len)\n"                             \
        "op reduce_sum (X=s) -> (Out=loss) {reduce_all=true}\n"                \
        "block 1 parent 0\n"                                                   \
        "  op read_from_array (X=a, I=i) -> (Out=b)\n"                         \
        "  op elementwise_mul (X=b, Y=w) -> (Out=c)\n" NEXT                    \
        "  op write_to_array (X=c, I=i, Array=a) -> (Out=a)\n"                 \
        "end\n"

static void a_loop_writes_to_an_array(void **state)
{
    rig r = open_rig(ARRAY);
    fl_tensor got;

    (void)state;
    expect(&r, "s", 2, 12, 1.5);
    assert_ok(run(&r, "len", 3, &got));
    assert_int_equal(*(const int64_t *)got.data, 4);
    close_rig(&r);
}

static void a_gradient_goes_through_an_array(void **state)
{
    rig r = open_rig(ARRAY);
    const char *dw = gradient_of(&r, "loss", "w");

    (void)state;
    expect(&r, dw, 2, 7, 4); /* x + 2 x w */
    expect(&r, dw, 5, 7, 4);
    close_rig(&r);
}

static void a_gradient_gets_to_what_was_put_into_an_array(void **state)
{
    rig r = open_rig(ARRAY);
    const char *dx = gradient_of(&r, "loss", "x");

    (void)state;
    expect(&r, dx, 2, 12, 0.75); /* w + w^2 */
    close_rig(&r);
}

static void a_place_of_an_array_that_is_empty_is_named(void **state)
{
    rig r = open_rig(ARRAY);
    fl_tensor got;

    (void)state;
    assert_int_equal(run(&r, "s", 1, &got), FL_ERR_INVAL);
    assert_said("a has nothing at place 2; it has 2 places");
    close_rig(&r);
}

/* y = x w^(n m): a loop in a loop. */
static void a_loop_may_stand_in_a_loop(void **state)
{
    rig r = open_rig(
        FEEDS COUNTER
        "op scale (X=x) -> (Out=y) {scale=1}\n"
        "op while (X=[i,y,w,n], Condition=more) -> (Out=[i,y,more], "
        "StepScopes=laps) {sub_block=1}\n"
        "op reduce_sum (X=y) -> (Out=loss) {reduce_all=true}\n"
        "block 1 parent 0\n"
        "  op fill_constant () -> (Out=k) {shape=[1], dtype=int64, value=0}\n"
        "  op fill_constant () -> (Out=m) {shape=[1], dtype=int64, value=2}\n"
        "  op less_than (X=k, Y=m) -> (Out=again)\n"
        "  op while (X=[k,y,w,m], Condition=again) -> (Out=[k,y,again], "
        "StepScopes=inner) {sub_block=2}\n" NEXT "end\n"
        "block 2 parent 1\n"
        "  op elementwise_mul (X=y, Y=w) -> (Out=y)\n"
        "  op increment (X=k) -> (Out=k) {step=1}\n"
        "  op less_than (X=k, Y=m) -> (Out=again)\n"
        "end\n");
    const char *dw;

    (void)state;
    expect(&r, "y", 2, 81, 0.125);
    dw = gradient_of(&r, "loss", "w");
    expect(&r, dw, 2, 108, 1); /* 4 x w^3 */
    expect(&r, dw, 1, 6, 2);   /* 2 x w */
    close_rig(&r);
}

static void a_condition_may_stand_in_a_loop(void **state)
{
    rig r = open_rig(
        FEEDS COUNTER
        "op fill_constant () -> (Out=one) {shape=[1], dtype=int64, value=1}\n"
        "op scale (X=x) -> (Out=y) {scale=1}\n"
        "op while (X=[i,y,w,n,one], Condition=more) -> (Out=[i,y,more], "
        "StepScopes=laps) {sub_block=1}\n"
        "block 1 parent 0\n"
        "  op equal (X=i, Y=one) -> (Out=is_one)\n"
        "  op conditional_block (Cond=is_one, Input=[y,w]) -> (Out=y) "
        "{sub_block=2, is_scalar_condition=true}\n" NEXT "end\n"
        "block 2 parent 1\n"
        "  op elementwise_mul (X=y, Y=w) -> (Out=y)\n"
        "end\n");

    (void)state;
    expect(&r, "y", 1, 1, 2);
    expect(&r, "y", 5, 3, 1);
    close_rig(&r);
}

/* i is 0 when a[i] is written and 3 when backward looks at it. */
static void
a_value_that_a_loop_overwrites_is_copied_for_its_readers(void **state)
{
    rig r =
        open_rig(FEEDS COUNTER
                 "op scale (X=x) -> (Out=y) {scale=1}\n"
                 "op elementwise_mul (X=y, Y=y) -> (Out=z)\n"
                 "op while (X=[i,y,w,n], Condition=more) -> "
                 "(Out=[i,y,more], StepScopes=laps) {sub_block=1}\n"
                 "op sum (X=[y,z]) -> (Out=s)\n"
                 "op reduce_sum (X=s) -> (Out=loss) {reduce_all=true}\n"
                 "block 1 parent 0\n"
                 "  op elementwise_mul (X=y, Y=w) -> (Out=y)\n" NEXT "end\n");
    const char *dx = gradient_of(&r, "loss", "x");

    (void)state;
    expect(&r, dx, 3, 29, 4.125); /* w^3 + 2 x */
    close_rig(&r);
}

static void a_loop_prints_and_parses(void **state)
{
    rig r = open_rig(ARRAY), again;
    char *text;

    (void)state;
    gradient_of(&r, "loss", "w");
    text = fl_program_to_text(r.p);
    again = open_rig(text);
    expect(&again, "s", 2, 12, 1.5);
    close_rig(&again);
    fl_text_free(text);
    close_rig(&r);
}

static void a_wrong_place_of_an_array_is_refused(void **state)
{
    rig r = open_rig(FEEDS "op write_to_array (X=x, I=n) -> (Out=a)\n"
                           "op lod_array_length (X=a) -> (Out=len)\n");
    fl_tensor got;

    (void)state;
    assert_int_equal(run(&r, "len", -1, &got), FL_ERR_INVAL);
    assert_said("-1 is no place of an array");
    close_rig(&r);
}

static void an_array_is_no_tensor(void **state)
{
    fl_ctx *c = make_ctx();
    fl_program *p = NULL;

    (void)state;
    assert_int_not_equal(
        fl_program_from_text(&p, c,
                             FEEDS "op write_to_array (X=x, I=n) -> (Out=a)\n"
                                   "op relu (X=a) -> (Out=b)\n"),
        FL_OK);
    assert_said("slot X takes dense values, but a holds an array");
    fl_ctx_free(c);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_loop_runs_until_its_condition_fails),
        cmocka_unit_test(a_gradient_goes_back_through_all_laps),
        cmocka_unit_test(a_gradient_gets_to_what_a_loop_begins_with),
        cmocka_unit_test(a_loop_writes_to_an_array),
        cmocka_unit_test(a_gradient_goes_through_an_array),
        cmocka_unit_test(a_gradient_gets_to_what_was_put_into_an_array),
        cmocka_unit_test(a_place_of_an_array_that_is_empty_is_named),
        cmocka_unit_test(a_loop_may_stand_in_a_loop),
        cmocka_unit_test(a_condition_may_stand_in_a_loop),
        cmocka_unit_test(
            a_value_that_a_loop_overwrites_is_copied_for_its_readers),
        cmocka_unit_test(a_loop_prints_and_parses),
        cmocka_unit_test(a_wrong_place_of_an_array_is_refused),
        cmocka_unit_test(an_array_is_no_tensor),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
