/* test_conditional.c - blocks that run on a condition, and gradients through
 * them, through variables that are written again, and to what is fed. */
#include "api.h"
#include "../make.h"

#include <math.h>

#define DIMS(...) ((int64_t[]){ __VA_ARGS__ })

static const float x_values[] = { 1, 2, 3, 4 };     /* [2,2] */
static const float w_values[] = { 1, -1, 0.5f, 2 }; /* [2,2] */

typedef struct rig {
    fl_ctx *ctx;
    fl_executor *exe;
    fl_program *p;
} rig;

#define FEEDS                                                                  \
    "var x : f32[-1,2] data stop_gradient\n"                                   \
    "var w : f32[2,2] data\n"                                                  \
    "var c : bool[1] data stop_gradient\n"

static rig open_rig(const char *text)
{
    rig r = { .ctx = make_ctx() };

    r.exe = make_executor(r.ctx);
    assert_ok(fl_program_from_text(&r.p, r.ctx, text));
    return r;
}

static void close_rig(rig *r)
{
    fl_executor_free(r->exe);
    fl_program_free(r->p);
    fl_ctx_free(r->ctx);
}

static fl_status run(rig *r, const char *name, bool condition, fl_tensor *out)
{
    fl_feed feeds[] = {
        { "x", fl_tensor_of(FL_DTYPE_F32, x_values, 2, DIMS(2, 2)) },
        { "w", fl_tensor_of(FL_DTYPE_F32, w_values, 2, DIMS(2, 2)) },
        { "c", fl_tensor_of(FL_DTYPE_BOOL, &condition, 1, DIMS(1)) },
    };

    return fl_run(r->exe, r->p,
                  &FL_INIT(fl_run_args, .feeds = feeds, .n_feeds = 3,
                           .fetches = &name, .n_fetches = 1, .out = out));
}

static void expect(rig *r, const char *name, bool condition,
                   const double want[4])
{
    fl_tensor got;

    if (run(r, name, condition, &got))
        fail_msg("%s", fl_last_error());
    assert_int_equal(got.shape.dim[0], 2);
    for (int i = 0; i < 4; i++)
        if (fabs(((const float *)got.data)[i] - want[i]) > 1e-5)
            fail_msg("%s[%d] is %g, not %g", name, i,
                     (double)((const float *)got.data)[i], want[i]);
}

static const double zeros[4];

/* d loss / d w */
static const char *gradient_of(rig *r, const char *loss)
{
    fl_var *target = fl_program_var(r->p, loss), *w = fl_program_var(r->p, "w");
    fl_var *g = NULL;

    assert_ok(fl_gradients_with(
        &g, FL_OPTIONS(fl_gradients_args, .targets = &target, .n_targets = 1,
                       .inputs = &w, .n_inputs = 1)));
    assert_non_null(g);
    return fl_var_name(g);
}

/* --- conditional_block ---------------------------------------------------- */

#define RUNS                                                                   \
    FEEDS "var y : f32[-1,2]\n"                                                \
          "op conditional_block (Cond=c, Input=[x,w]) -> (Out=y) "             \
          "{sub_block=1, is_scalar_condition=true}\n"                          \
          "op scale (X=y) -> (Out=z) {scale=2}\n"                              \
          "op reduce_sum (X=z) -> (Out=loss) {reduce_all=true}\n"              \
          "block 1 parent 0\n"                                                 \
          "  op mul (X=x, Y=w) -> (Out=h)\n"                                   \
          "  op square (X=h) -> (Out=y)\n"                                     \
          "end\n"

/* x w = [2 3; 5 5] */
static void a_block_runs_when_its_condition_holds(void **state)
{
    rig r = open_rig(RUNS);
    fl_tensor got;

    (void)state;
    expect(&r, "z", true, (double[]){ 8, 18, 50, 50 });
    assert_ok(run(&r, "z", false, &got));
    assert_int_equal(got.shape.dim[0], 0);
    expect(&r, "z", true, (double[]){ 8, 18, 50, 50 });
    close_rig(&r);
}

/* d/dw sum 2 h^2 = x^T (4 h) */
static void a_gradient_flows_through_a_block_that_ran(void **state)
{
    rig r = open_rig(RUNS);
    const char *g = gradient_of(&r, "loss");

    (void)state;
    expect(&r, g, true, (double[]){ 68, 72, 96, 104 });
    expect(&r, g, false, zeros);
    expect(&r, g, true, (double[]){ 68, 72, 96, 104 });
    close_rig(&r);
}

/* x^T g */
static void a_gradient_that_is_fed_flows_through_a_block(void **state)
{
    static const float g_values[] = { 1, 0, 0, 2 };
    rig r = open_rig(FEEDS "var g : f32[-1,2] data stop_gradient\n"
                           "var y : f32[-1,2]\n"
                           "op conditional_block (Cond=c, Input=[x,w]) -> "
                           "(Out=y) {sub_block=1, is_scalar_condition=true}\n"
                           "op conditional_block_grad (Cond=c, Input=[x,w], "
                           "Out=y, Out@GRAD=g) -> (Input@GRAD=[@EMPTY@,d]) "
                           "{sub_block=1, is_scalar_condition=true} @backward\n"
                           "block 1 parent 0\n"
                           "  op mul (X=x, Y=w) -> (Out=y)\n"
                           "end\n");
    const double want[] = { 1, 6, 2, 8 };
    const char *name = "d";
    bool yes = true;
    fl_feed feeds[] = {
        { "x", fl_tensor_of(FL_DTYPE_F32, x_values, 2, DIMS(2, 2)) },
        { "w", fl_tensor_of(FL_DTYPE_F32, w_values, 2, DIMS(2, 2)) },
        { "c", fl_tensor_of(FL_DTYPE_BOOL, &yes, 1, DIMS(1)) },
        { "g", fl_tensor_of(FL_DTYPE_F32, g_values, 2, DIMS(2, 2)) },
    };
    fl_tensor got;

    (void)state;
    assert_ok(fl_run(r.exe, r.p,
                     &FL_INIT(fl_run_args, .feeds = feeds, .n_feeds = 4,
                              .fetches = &name, .n_fetches = 1, .out = &got)));
    for (int i = 0; i < 4; i++)
        assert_true(((const float *)got.data)[i] == want[i]);
    close_rig(&r);
}

static void what_a_block_does_not_write_keeps_its_value(void **state)
{
    rig r =
        open_rig(FEEDS "op scale (X=x) -> (Out=y) {scale=10}\n"
                       "op conditional_block (Cond=c, Input=[x,y]) -> (Out=y) "
                       "{sub_block=1, is_scalar_condition=true}\n"
                       "op scale (X=y) -> (Out=z) {scale=1}\n"
                       "block 1 parent 0\n"
                       "  op elementwise_add (X=y, Y=x) -> (Out=y)\n"
                       "end\n");

    (void)state;
    expect(&r, "z", false, (double[]){ 10, 20, 30, 40 });
    expect(&r, "z", true, (double[]){ 11, 22, 33, 44 });
    close_rig(&r);
}

static void a_condition_may_be_that_nothing_is_empty(void **state)
{
    rig r = open_rig(FEEDS "var y : f32[-1,2]\n"
                           "op conditional_block (Cond=[x,w], Input=x) -> "
                           "(Out=y) {sub_block=1}\n"
                           "block 1 parent 0\n"
                           "  op scale (X=x) -> (Out=y) {scale=3}\n"
                           "end\n");

    (void)state;
    expect(&r, "y", false, (double[]){ 3, 6, 9, 12 });
    close_rig(&r);
}

/* relu may not take the place of y, which the block perhaps leaves alone. */
static void nothing_takes_the_place_of_what_may_be_kept(void **state)
{
    rig r = open_rig(FEEDS "op scale (X=x) -> (Out=y) {scale=-1}\n"
                           "op relu (X=y) -> (Out=t)\n"
                           "op conditional_block (Cond=c, Input=x) -> (Out=y) "
                           "{sub_block=1, is_scalar_condition=true}\n"
                           "op elementwise_add (X=y, Y=t) -> (Out=z)\n"
                           "block 1 parent 0\n"
                           "  op scale (X=x) -> (Out=y) {scale=2}\n"
                           "end\n");

    (void)state;
    expect(&r, "z", false, (double[]){ -1, -2, -3, -4 });
    expect(&r, "z", true, (double[]){ 2, 4, 6, 8 });
    close_rig(&r);
}

static double number_in_scope(rig *r, const char *name)
{
    fl_tensor t;

    assert_ok(fl_scope_get(fl_current_scope(r->ctx), name, &t));
    return *(const float *)t.data;
}

/* Back runs the block again, but for what it changes outside. */
static void a_block_changes_the_scope_once_per_run(void **state)
{
    rig r = open_rig(FEEDS "var n : f32[1] persist stop_gradient\n"
                           "var y : f32[-1,2]\n"
                           "op conditional_block (Cond=c, Input=[x,w,n]) -> "
                           "(Out=[y,n]) {sub_block=1, "
                           "is_scalar_condition=true}\n"
                           "op reduce_sum (X=y) -> (Out=loss) "
                           "{reduce_all=true}\n"
                           "block 1 parent 0\n"
                           "  op increment (X=n) -> (Out=n)\n"
                           "  op mul (X=x, Y=w) -> (Out=y)\n"
                           "end\n");
    const char *g = gradient_of(&r, "loss");
    float zero = 0;
    fl_tensor first = fl_tensor_of(FL_DTYPE_F32, &zero, 1, DIMS(1));

    (void)state;
    assert_ok(fl_scope_set(fl_current_scope(r.ctx), "n", &first));
    expect(&r, g, true, (double[]){ 4, 4, 6, 6 });
    expect(&r, g, false, zeros);
    expect(&r, g, true, (double[]){ 4, 4, 6, 6 });
    assert_true(number_in_scope(&r, "n") == 2);
    close_rig(&r);
}

#define SQUARES(outputs)                                                       \
    FEEDS "op mul (X=x, Y=w) -> (Out=y)\n"                                     \
          "op conditional_block (Cond=c, Input=y) -> (" outputs ") "           \
          "{sub_block=1, is_scalar_condition=true}\n"                          \
          "op reduce_sum (X=y) -> (Out=loss) {reduce_all=true}\n"              \
          "block 1 parent 0\n"                                                 \
          "  op square (X=y) -> (Out=y)\n"                                     \
          "end\n"

/* d/dw sum (x w)^2 = x^T (2 x w), d/dw sum x w = x^T 1 */
static void a_gradient_flows_to_a_value_that_a_block_changes(void **state)
{
    rig r = open_rig(SQUARES("Out=y, Scope=s"));
    const char *g = gradient_of(&r, "loss");

    (void)state;
    expect(&r, g, true, (double[]){ 34, 36, 48, 52 });
    expect(&r, g, false, (double[]){ 4, 4, 6, 6 });
    close_rig(&r);
}

/* The block lists no y: what it may keep is found by autodiff. */
static void a_gradient_flows_past_a_block_that_does_not_run(void **state)
{
    rig r =
        open_rig(FEEDS "op mul (X=x, Y=w) -> (Out=y)\n"
                       "op conditional_block (Cond=c, Input=x) -> (Out=y, "
                       "Scope=s) {sub_block=1, is_scalar_condition=true}\n"
                       "op reduce_sum (X=y) -> (Out=loss) {reduce_all=true}\n"
                       "block 1 parent 0\n"
                       "  op scale (X=x) -> (Out=y) {scale=7}\n"
                       "end\n");
    const char *g = gradient_of(&r, "loss");

    (void)state;
    expect(&r, g, true, zeros);
    expect(&r, g, false, (double[]){ 4, 4, 6, 6 });
    close_rig(&r);
}

static void a_gradient_needs_what_a_block_has_changed(void **state)
{
    rig r = open_rig(SQUARES("Out=y"));
    fl_var *target = fl_program_var(r.p, "loss"), *w = fl_program_var(r.p, "w");
    fl_var *g = NULL;

    (void)state;
    assert_int_equal(
        fl_gradients_with(&g, FL_OPTIONS(fl_gradients_args, .targets = &target,
                                         .n_targets = 1, .inputs = &w,
                                         .n_inputs = 1)),
        FL_ERR_INVAL);
    assert_said("Scope of conditional_block was left out");
    close_rig(&r);
}

static void a_layer_finds_what_its_block_reads_and_writes(void **state)
{
    rig r = open_rig(FEEDS "op scale (X=x) -> (Out=y) {scale=10}\n");
    fl_op_node *n;
    fl_block *b;

    (void)state;
    assert_ok(fl_block_new(&b, fl_program_block(r.p, 0)));
    assert_ok(fl_append_op(&n, b, "mul",
                           .inputs = FL_ARGS({ "X", "x" }, { "Y", "w" }),
                           .outputs = FL_ARGS({ "Out", "h" })));
    assert_ok(fl_append_op(&n, b, "relu", .inputs = FL_ARGS({ "X", "h" }),
                           .outputs = FL_ARGS({ "Out", "y" })));
    assert_ok(fl_layers_conditional_block(fl_program_var(r.p, "c"), b));
    expect(&r, "y", true, (double[]){ 2, 3, 5, 5 });
    expect(&r, "y", false, (double[]){ 10, 20, 30, 40 });
    close_rig(&r);
}

static void a_block_that_reads_what_is_not_listed_is_named(void **state)
{
    rig r = open_rig(FEEDS "var y : f32[-1,2]\n"
                           "op scale (X=x) -> (Out=t) {scale=3}\n"
                           "op conditional_block (Cond=c, Input=x) -> (Out=y) "
                           "{sub_block=1, is_scalar_condition=true}\n"
                           "block 1 parent 0\n"
                           "  op elementwise_add (X=x, Y=t) -> (Out=y)\n"
                           "end\n");
    fl_tensor got;

    (void)state;
    assert_int_equal(run(&r, "y", true, &got), FL_ERR_INVAL);
    assert_said("block 1");
    assert_said("reads t before any operator writes it");
    close_rig(&r);
}

static void refuse(const char *text, const char *why)
{
    fl_ctx *c = make_ctx();
    fl_program *p = NULL;

    assert_int_not_equal(fl_program_from_text(&p, c, text), FL_OK);
    assert_said(why);
    fl_ctx_free(c);
}

static void a_block_without_what_it_needs_is_refused(void **state)
{
    (void)state;
    refuse(FEEDS "op conditional_block (Cond=x, Input=x) -> (Out=w) "
                 "{sub_block=1, is_scalar_condition=true}\n",
           "must hold one bool");
    refuse(FEEDS "op conditional_block (Cond=c, Input=x) -> (Out=y) "
                 "{sub_block=1}\n",
           "names no variable that exists");
    refuse(FEEDS "op conditional_block (Cond=c, Input=x) -> (Out=w) {}\n",
           "is no block that can run");
}

static void what_there_is_not_is_refused_by_name(void **state)
{
    (void)state;
    refuse("op cudnn_lstm () -> ()\n", "lstm is there");
    refuse("op cudnn_lstm_grad () -> ()\n", "lstm is there");
}

/* --- variables that are written again ------------------------------------- */

/* h = (x w)^2 in one variable: the same gradient as above, without the 2. */
static void
a_gradient_flows_through_a_variable_that_is_overwritten(void **state)
{
    rig r = open_rig(FEEDS "op mul (X=x, Y=w) -> (Out=h)\n"
                           "op square (X=h) -> (Out=h)\n"
                           "op scale (X=h) -> (Out=h) {scale=2}\n"
                           "op reduce_sum (X=h) -> (Out=loss) "
                           "{reduce_all=true}\n");
    const char *g = gradient_of(&r, "loss");

    (void)state;
    expect(&r, g, true, (double[]){ 68, 72, 96, 104 });
    expect(&r, "h", true, (double[]){ 8, 18, 50, 50 });
    close_rig(&r);
}

/* The first value is used by two operators, the last by the loss. */
static void each_value_of_a_variable_has_its_own_gradient(void **state)
{
    rig r = open_rig(FEEDS "op mul (X=x, Y=w) -> (Out=h)\n"
                           "op square (X=h) -> (Out=a)\n"
                           "op elementwise_mul (X=h, Y=h) -> (Out=h)\n"
                           "op elementwise_add (X=h, Y=a) -> (Out=b)\n"
                           "op reduce_sum (X=b) -> (Out=loss) "
                           "{reduce_all=true}\n");
    const char *g = gradient_of(&r, "loss");

    (void)state;
    expect(&r, g, true, (double[]){ 68, 72, 96, 104 });
    close_rig(&r);
}

static void what_is_fed_and_not_cut_off_gets_a_gradient(void **state)
{
    rig r = open_rig(FEEDS "param v : f32[2,2] trainable\n"
                           "op mul (X=x, Y=w) -> (Out=h)\n"
                           "op mul (X=h, Y=v) -> (Out=k)\n"
                           "op reduce_sum (X=k) -> (Out=loss) "
                           "{reduce_all=true}\n");
    fl_tensor v = fl_tensor_of(FL_DTYPE_F32, w_values, 2, DIMS(2, 2));
    fl_param_grad *pairs = NULL;
    size_t n = 0;

    (void)state;
    assert_ok(fl_append_backward(fl_program_var(r.p, "loss"), &pairs, &n));
    assert_int_equal(n, 1);
    assert_non_null(fl_program_var(r.p, "w@GRAD"));
    assert_null(fl_program_var(r.p, "x@GRAD"));
    assert_ok(fl_scope_set(fl_current_scope(r.ctx), "v", &v));
    /* x^T 1 v^T, with v 1 = [0, 2.5] */
    expect(&r, "w@GRAD", true, (double[]){ 0, 10, 0, 15 });
    fl_param_grads_free(pairs);
    close_rig(&r);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_block_runs_when_its_condition_holds),
        cmocka_unit_test(a_gradient_flows_through_a_block_that_ran),
        cmocka_unit_test(a_gradient_that_is_fed_flows_through_a_block),
        cmocka_unit_test(what_a_block_does_not_write_keeps_its_value),
        cmocka_unit_test(a_condition_may_be_that_nothing_is_empty),
        cmocka_unit_test(nothing_takes_the_place_of_what_may_be_kept),
        cmocka_unit_test(a_block_changes_the_scope_once_per_run),
        cmocka_unit_test(a_gradient_flows_to_a_value_that_a_block_changes),
        cmocka_unit_test(a_gradient_flows_past_a_block_that_does_not_run),
        cmocka_unit_test(a_gradient_needs_what_a_block_has_changed),
        cmocka_unit_test(a_layer_finds_what_its_block_reads_and_writes),
        cmocka_unit_test(a_block_that_reads_what_is_not_listed_is_named),
        cmocka_unit_test(a_block_without_what_it_needs_is_refused),
        cmocka_unit_test(what_there_is_not_is_refused_by_name),
        cmocka_unit_test(
            a_gradient_flows_through_a_variable_that_is_overwritten),
        cmocka_unit_test(each_value_of_a_variable_has_its_own_gradient),
        cmocka_unit_test(what_is_fed_and_not_cut_off_gets_a_gradient),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
