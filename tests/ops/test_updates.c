/* test_updates.c - the update operators beyond what the sweep sees: sparse
 * against dense, which rows move, refused rows, hogwild. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <stdio.h>
#include <string.h>

#include "base/team.h"
#include "sweep/trial.h"
#include "ops/ops.h"
#include "optim/rule.h"

#define HEIGHT 9
#define WIDTH 4
#define N_WEIGHTS (HEIGHT * WIDTH)

#define DENSE "f32[9,4]"
#define ROWS "f32[7,4] rows height=9"
#define ACC "f32[9,4] below=4"
#define POWER "f32[1] below=1"
#define RATE "f32[1] below=1"

/* Inputs of a rule's operator, with this gradient. */
typedef struct inputs {
    fl_op_case c;
    char text[FL_RULE_STATE_MAX][32];
} inputs;

static const fl_op_case *case_of(inputs *to, const fl_rule *r, const char *grad)
{
    int n = 0;

    *to = (inputs){ .c.in = { DENSE, grad, RATE } };
    for (int i = 0; i < fl_rule_n_states(r); i++) {
        int below = r->states[i].below;

        snprintf(to->text[i], sizeof(to->text[i]),
                 below ? DENSE " below=%d" : DENSE, below);
        to->c.in[3 + n++] = to->text[i];
    }
    for (int i = 0; i < fl_rule_n_scalars(r); i++)
        to->c.in[3 + n++] = POWER;
    return &to->c;
}

/* Calls check(rule) for every rule. */
static void for_each_rule(void (*check)(const fl_rule *r))
{
    for (size_t i = 0; i < fl_rule_count(); i++)
        check(fl_rule_at(i));
}

/* A trial of one case that stands in no list. The descriptor must outlive the
   trial. */
static void open_trial(fl_op_trial *t, fl_op *op, const char *name,
                       const fl_op_case *c)
{
    *op = *fl_ops.find(name);
    op->cases = c;
    op->n_cases = 1;
    if (fl_op_trial_init(t, op, 0, FL_DTYPE_F32, FL_BUILD_KNOWN))
        fail_msg("%s", fl_last_error());
}

static void run_once(fl_op_trial *t, fl_op_call *c)
{
    if (fl_op_trial_forward(t, &(fl_how){ 0 }, c))
        fail_msg("%s: %s", t->op->name, fl_last_error());
}

static fl_tensor *grad_of(const fl_op_trial *t)
{
    return t->in[fl_op_find_in(t->op, "Grad")].t[0];
}

/* Every weight and every state of two calls are the same bits. */
static void assert_same_outputs(const fl_op_trial *t, const fl_op_call *a,
                                const fl_op_call *b)
{
    for (int s = 0; s < fl_op_n_out(t->op); s++)
        if (!fl_same_bits(a->out[s].t[0], b->out[s].t[0]))
            fail_msg("%s: %s differs", t->op->name, t->op->out[s].name);
}

static void rows_equal_dense(const fl_rule *r)
{
    fl_op dense_op, rows_op;
    inputs dense_in, rows_in;
    fl_op_trial dense, rows;
    fl_op_call a, b;
    float *g;

    open_trial(&dense, &dense_op, r->name, case_of(&dense_in, r, DENSE));
    open_trial(&rows, &rows_op, r->name, case_of(&rows_in, r, ROWS));
    g = grad_of(&dense)->data;
    memset(g, 0, N_WEIGHTS * sizeof(*g));
    for (uint64_t i = 0; i < 7; i++) {
        uint64_t row = (i * 4 + 1) % HEIGHT;

        grad_of(&rows)->rows[i] = row;
        memcpy(g + row * WIDTH, (float *)grad_of(&rows)->data + i * WIDTH,
               WIDTH * sizeof(*g));
    }
    run_once(&rows, &b);
    run_once(&dense, &a);
    assert_same_outputs(&dense, &a, &b);
    fl_op_call_release(&a);
    fl_op_call_release(&b);
    fl_op_trial_release(&dense);
    fl_op_trial_release(&rows);
}

static void rows_without_repeats_do_what_a_dense_gradient_does(void **state)
{
    (void)state;
    for_each_rule(rows_equal_dense);
}

/* Does a row of a weight or of its state change? */
static bool row_moved(const fl_op_trial *t, const fl_op_call *c, size_t row)
{
    int n_states = fl_rule_n_states(fl_rule_find(t->op->name));

    for (int out = 0; out <= n_states; out++) {
        const fl_tensor *before = t->in[out ? 2 + out : 0].t[0];

        for (size_t k = row * WIDTH; k < (row + 1) * WIDTH; k++)
            if (fl_value_at(c->out[out].t[0], (int64_t)k) !=
                fl_value_at(before, (int64_t)k))
                return true;
    }
    return false;
}

/* Only row 3 has a gradient. */
static int count_moved(const fl_rule *r, const char *attrs)
{
    int n_moved = 0;
    inputs in;
    fl_op op;
    fl_op_trial t;
    fl_op_call after;

    case_of(&in, r, ROWS);
    in.c.attrs = attrs;
    open_trial(&t, &op, r->name, &in.c);
    for (int i = 0; i < 7; i++)
        grad_of(&t)->rows[i] = 3;
    run_once(&t, &after);
    for (size_t row = 0; row < HEIGHT; row++)
        n_moved += row_moved(&t, &after, row);
    assert_true(row_moved(&t, &after, 3));
    fl_op_call_release(&after);
    fl_op_trial_release(&t);
    return n_moved;
}

static void check_absent_rows(const fl_rule *r)
{
    assert_int_equal(count_moved(r, r->cases[0]), r->zero_is_noop ? 1 : HEIGHT);
    if (!r->zero_is_noop && !r->whole)
        assert_int_equal(count_moved(r, "{lazy_mode=true}"), 1);
}

static void absent_rows_move_unless_they_are_left_alone(void **state)
{
    (void)state;
    for_each_rule(check_absent_rows);
}

static void powers_advance_once_for_each_parameter(void **state)
{
    static const fl_op_case c = {
        .in = { DENSE ";f32[3]", ROWS ";f32[3]", RATE, DENSE ";f32[3]",
                ACC ";f32[3] below=4", POWER ";" POWER, POWER ";" POWER },
        .attrs = "{beta1=0.5, beta2=0.25}",
    };
    fl_op op;
    fl_op_trial t;
    fl_op_call after;
    int in1, in2, out1, out2;

    (void)state;
    open_trial(&t, &op, "adam", &c);
    run_once(&t, &after);
    in1 = fl_op_find_in(&op, "Beta1Pow");
    in2 = fl_op_find_in(&op, "Beta2Pow");
    out1 = fl_op_find_out(&op, "Beta1PowOut");
    out2 = fl_op_find_out(&op, "Beta2PowOut");
    for (int i = 0; i < 2; i++) {
        assert_float_equal(fl_value_at(after.out[out1].t[i], 0),
                           0.5 * fl_value_at(t.in[in1].t[i], 0), 0);
        assert_float_equal(fl_value_at(after.out[out2].t[i], 0),
                           0.25 * fl_value_at(t.in[in2].t[i], 0), 0);
    }
    fl_op_call_release(&after);
    fl_op_trial_release(&t);
}

static void refuses_a_row(const fl_rule *r)
{
    inputs in;
    fl_op op;
    fl_op_trial t;
    fl_op_call c;

    open_trial(&t, &op, r->name, case_of(&in, r, ROWS));
    grad_of(&t)->rows[5] = HEIGHT;
    assert_int_equal(fl_op_trial_forward(&t, &(fl_how){ 0 }, &c), FL_ERR_INVAL);
    assert_non_null(strstr(fl_last_error(), "row 9 at place 5"));
    fl_op_trial_release(&t);
}

static void a_row_beyond_the_parameter_is_named(void **state)
{
    (void)state;
    for_each_rule(refuses_a_row);
}

static void lists_of_different_length_are_refused(void **state)
{
    static const fl_op_case c = {
        .in = { DENSE ";f32[3]", DENSE, RATE, DENSE ";f32[3]" },
    };
    fl_op op = *fl_ops.find("momentum");
    fl_op_trial t;

    (void)state;
    op.cases = &c;
    op.n_cases = 1;
    assert_int_equal(fl_op_trial_init(&t, &op, 0, FL_DTYPE_F32, FL_BUILD_KNOWN),
                     FL_ERR_INVAL);
    assert_non_null(
        strstr(fl_last_error(), "slot Grad has 1 variables, Param has 2"));
}

static void a_gradient_of_another_shape_is_refused_by_name(void **state)
{
    static const fl_op_case c = { .in = { DENSE, "f32[9,5]", RATE } };
    fl_op op = *fl_ops.find("sgd");
    fl_op_trial t;

    (void)state;
    op.cases = &c;
    op.n_cases = 1;
    assert_int_equal(fl_op_trial_init(&t, &op, 0, FL_DTYPE_F32, FL_BUILD_KNOWN),
                     FL_ERR_INVAL);
    assert_non_null(strstr(fl_last_error(), "Grad (in.Grad.0: f32[9,5])"));
    assert_non_null(strstr(fl_last_error(), "Param (in.Param.0: f32[9,4])"));
}

/* --- hogwild -------------------------------------------------------------- */

#define N_THREADS 3
#define N_STEPS 50

typedef struct hogwild {
    const fl_op_trial *t;
    fl_op_call *c; /* all threads use its tensors */
} hogwild;

static fl_status train(void *arg, int ith)
{
    const hogwild *h = arg;
    void *keep = NULL;
    void (*keep_free)(void *) = NULL;
    fl_arena scratch;
    fl_op_ctx ctx = { .node = h->t->node,
                      .in = h->c->in,
                      .out = h->c->out,
                      .nth = 1,
                      .scratch = &scratch,
                      .replica = ith,
                      .keep = &keep,
                      .keep_free = &keep_free };
    fl_status st = FL_OK;

    fl_arena_init(&scratch, 4096);
    for (int i = 0; i < N_STEPS && !st; i++) {
        st = h->t->op->run(&ctx);
        fl_arena_clear(&scratch);
    }
    fl_arena_release(&scratch);
    fl_free(keep);
    return st;
}

static fl_team *team;

static void race(const fl_rule *r, const char *grad)
{
    inputs in;
    fl_op op;
    fl_op_trial t;
    fl_op_call c;
    hogwild h = { &t, &c };

    open_trial(&t, &op, r->name, case_of(&in, r, grad));
    run_once(&t, &c);
    assert_int_equal(fl_team_run(team, train, &h), FL_OK);
    fl_op_call_release(&c);
    fl_op_trial_release(&t);
}

static void race_dense_and_rows(const fl_rule *r)
{
    race(r, DENSE);
    race(r, ROWS);
}

/* Races on weights are wanted; the thread sanitizer must see none others. */
static void hogwild_threads_may_update_the_same_weights(void **state)
{
    (void)state;
    assert_int_equal(fl_team_new(&team, N_THREADS, "hogwild"), FL_OK);
    for_each_rule(race_dense_and_rows);
    fl_team_free(team);
}

static void a_setting_out_of_its_range_is_refused(void **state)
{
    fl_op op = *fl_ops.find("adam");
    inputs in;
    fl_op_trial t;

    (void)state;
    case_of(&in, fl_rule_find("adam"), DENSE);
    in.c.attrs = "{beta1=1.5}";
    op.cases = &in.c;
    op.n_cases = 1;
    assert_int_equal(fl_op_trial_init(&t, &op, 0, FL_DTYPE_F32, FL_BUILD_KNOWN),
                     FL_ERR_INVAL);
    assert_non_null(strstr(fl_last_error(),
                           "op adam: beta1=1.5 is not a number in "
                           "0..0.999999999"));
}

/* An adam whose betas come with the step. */
#define ADAM_IN                                                                \
    DENSE, DENSE, RATE, DENSE, ACC, POWER, POWER, "f32[1] below=1",            \
        "f32[1] below=1"

static void set_beta(const fl_op_trial *t, const char *slot, float beta)
{
    *(float *)t->in[fl_op_find_in(t->op, slot)].t[0]->data = beta;
}

static void betas_of_a_variable_stand_for_the_attributes(void **state)
{
    static const fl_op_case said = {
        .in = { DENSE, DENSE, RATE, DENSE, ACC, POWER, POWER },
        .attrs = "{beta1=0.5, beta2=0.25}",
    };
    static const fl_op_case given = { .in = { ADAM_IN } };
    fl_op a_op, b_op;
    fl_op_trial a, b;
    fl_op_call x, y;

    (void)state;
    open_trial(&a, &a_op, "adam", &said);
    open_trial(&b, &b_op, "adam", &given);
    set_beta(&b, "Beta1Tensor", 0.5f);
    set_beta(&b, "Beta2Tensor", 0.25f);
    run_once(&a, &x);
    run_once(&b, &y);
    assert_same_outputs(&a, &x, &y);
    fl_op_call_release(&x);
    fl_op_call_release(&y);
    fl_op_trial_release(&a);
    fl_op_trial_release(&b);
}

static void a_beta_of_a_variable_is_in_its_range(void **state)
{
    static const fl_op_case given = { .in = { ADAM_IN } };
    fl_op op;
    fl_op_trial t;
    fl_op_call c;

    (void)state;
    open_trial(&t, &op, "adam", &given);
    set_beta(&t, "Beta2Tensor", 1.5f);
    assert_int_equal(fl_op_trial_forward(&t, &(fl_how){ 0 }, &c), FL_ERR_INVAL);
    assert_non_null(strstr(fl_last_error(), "beta2=1.5 is not a number in"));
    fl_op_trial_release(&t);
}

static void state_of_an_array_must_be_there(void **state)
{
    static const fl_op_case c = { .in = { DENSE, DENSE, RATE } };
    fl_op op = *fl_ops.find("momentum");
    fl_op_trial t;

    (void)state;
    op.cases = &c;
    op.n_cases = 1;
    assert_int_equal(fl_op_trial_init(&t, &op, 0, FL_DTYPE_F32, FL_BUILD_KNOWN),
                     FL_ERR_INVAL);
    assert_non_null(
        strstr(fl_last_error(), "slot Velocity has 0 variables, Param has 1"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(rows_without_repeats_do_what_a_dense_gradient_does),
        cmocka_unit_test(absent_rows_move_unless_they_are_left_alone),
        cmocka_unit_test(powers_advance_once_for_each_parameter),
        cmocka_unit_test(a_row_beyond_the_parameter_is_named),
        cmocka_unit_test(lists_of_different_length_are_refused),
        cmocka_unit_test(a_gradient_of_another_shape_is_refused_by_name),
        cmocka_unit_test(a_setting_out_of_its_range_is_refused),
        cmocka_unit_test(betas_of_a_variable_stand_for_the_attributes),
        cmocka_unit_test(a_beta_of_a_variable_is_in_its_range),
        cmocka_unit_test(state_of_an_array_must_be_there),
        cmocka_unit_test(hogwild_threads_may_update_the_same_weights),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
