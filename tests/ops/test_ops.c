/* test_ops.c - the sweep: every check of checks.h on every operator, over all
 * of its cases.
 *
 * The first tests make sure that the checks can fail: each of them is shown an
 * operator with the very mistake it is there to find.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <fcntl.h>
#include <math.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "fake_comm.h"
#include "ops/kit.h"
#include "ops/ops.h"
#include "sweep/sweep.h"
#include "sweep/trial.h"

/* --- the sweep ------------------------------------------------------------ */

typedef enum reach { EVERY_CASE, ONCE } reach;

/* Operators that print do so on the standard output; nobody reads it here. */
static int hush(void)
{
    int saved, null = open("/dev/null", O_WRONLY);

    fflush(stdout);
    saved = dup(STDOUT_FILENO);
    assert_true(null >= 0 && saved >= 0);
    dup2(null, STDOUT_FILENO);
    close(null);
    return saved;
}

static void speak(int saved)
{
    fflush(stdout);
    dup2(saved, STDOUT_FILENO);
    close(saved);
}

/* The tables of operators that ask for some. */
static fl_comm *make_comm(void)
{
    return &fake_comm_new()->port;
}

static size_t count_failures(fl_check_fn check, reach r)
{
    size_t n_failed = 0;

    for (size_t i = 0; i < fl_ops_count(); i++) {
        const fl_op *op = fl_ops_at(i);
        size_t n = r == ONCE ? 1 : op->run ? op->n_cases : 0;

        for (size_t k = 0; k < n; k++) {
            if (fl_sweep_has_array(op, k) || !check(op, k))
                continue;
            print_error("%s, case %zu: %s\n", op->name, k, fl_last_error());
            n_failed++;
        }
    }
    return n_failed;
}

static void sweep(fl_check_fn check, reach r)
{
    int saved = hush();
    size_t n_failed = count_failures(check, r);

    speak(saved);
    assert_int_equal(n_failed, 0);
}

#define SWEEP(name, check, reach)                                              \
    static void name(void **state)                                             \
    {                                                                          \
        (void)state;                                                           \
        sweep(check, reach);                                                   \
    }

SWEEP(every_operator_says_what_it_does, fl_check_doc, ONCE)
SWEEP(every_operator_has_cases_for_all_it_can_do, fl_check_cases, ONCE)
SWEEP(a_run_gives_the_shapes_that_were_promised, fl_check_shapes, EVERY_CASE)
SWEEP(what_is_inferred_by_form_is_inferred_by_nothing_else, fl_check_form,
      EVERY_CASE)
SWEEP(gradients_equal_central_differences, fl_check_gradient, EVERY_CASE)
SWEEP(f32_and_f64_agree, fl_check_precision, EVERY_CASE)
SWEEP(any_number_of_shares_gives_the_same_bits, fl_check_shares, EVERY_CASE)
SWEEP(in_place_gives_the_same_bits, fl_check_in_place, EVERY_CASE)
SWEEP(outputs_do_not_depend_on_dirt, fl_check_written, EVERY_CASE)
SWEEP(back_reads_what_it_says, fl_check_uses, EVERY_CASE)
SWEEP(back_gives_and_takes_part_of_the_gradients, fl_check_parts, EVERY_CASE)
SWEEP(no_memory_is_an_error_and_nothing_else, fl_check_no_memory, EVERY_CASE)

/* --- can the checks fail? ------------------------------------------------- */

/* (X, Y) -> (Sum, Product), with one mistake at a time. */
static enum mistake {
    NO_MISTAKE,
    OTHER_SHAPE_AT_RUN,
    SHAPE_BY_VALUES,
    WRONG_GRADIENT,
    COARSE_F32,
    SHARE_IN_RESULT,
    READS_AFTER_WRITING,
    STATE_LEFT_BEHIND,
    HALF_WRITTEN,
    READS_BACK_INPUT,
    NEEDS_BOTH_WANTED,
    NEEDS_BOTH_GIVEN,
    OTHER_ERROR,
    LEAK,
} mistake;

/* What the mistake LEAK leaves behind; freed when it has been found. */
static void *leaked;
#define LEAK_BYTES 64

enum { X, Y, S };
enum { SUM, PRODUCT, S_OUT };

static void reverse_dims(fl_shape *s)
{
    int64_t first = s->dim[0];

    s->dim[0] = s->dim[1];
    s->dim[1] = first;
}

static fl_status faulty_infer(fl_infer *c)
{
    FL_TRY(fl_infer_same(c, X, SUM));
    FL_TRY(fl_infer_same(c, X, PRODUCT));
    FL_TRY(fl_infer_same(c, S, S_OUT));
    if (mistake == OTHER_SHAPE_AT_RUN && c->running)
        reverse_dims(&fl_infer_out(c, SUM)->shape);
    if (mistake == SHAPE_BY_VALUES && c->running && !fl_infer_in(c, X)->data)
        reverse_dims(&fl_infer_out(c, SUM)->shape);
    return FL_OK;
}

static double faulty_sum(const fl_op_ctx *c, int64_t i, int64_t n)
{
    const fl_tensor *x = fl_in_t(c, X), *y = fl_in_t(c, Y);
    double v = fl_value_at(x, i) + fl_value_at(y, i);

    if (mistake == COARSE_F32 && x->dtype == FL_DTYPE_F32)
        return floor(v * 100) / 100;
    if (mistake == SHARE_IN_RESULT)
        return v + c->ith;
    if (mistake == READS_AFTER_WRITING)
        return fl_value_at(x, n - 1 - i) + fl_value_at(y, i);
    return v;
}

static fl_status faulty_memory(fl_op_ctx *c)
{
    void *p = fl_try_alloc(LEAK_BYTES);

    if (mistake == LEAK && !leaked)
        leaked = p;
    else
        fl_data_free(p, LEAK_BYTES);
    if (!p && mistake == OTHER_ERROR)
        FL_FAIL(FL_ERR_IO, "no memory");
    return p ? FL_OK : FL_NOMEM(c);
}

static fl_status faulty_run(fl_op_ctx *c)
{
    fl_tensor *sum = fl_out_t(c, SUM), *product = fl_out_t(c, PRODUCT);
    const fl_tensor *x = fl_in_t(c, X), *y = fl_in_t(c, Y);
    int64_t n = fl_tensor_numel(sum);
    fl_span s = fl_op_span(c, (size_t)n);

    FL_TRY(faulty_memory(c));
    for (int64_t i = (int64_t)s.lo; i < (int64_t)s.hi; i++) {
        fl_value_set(product, i, fl_value_at(x, i) * fl_value_at(y, i));
        if (mistake != HALF_WRITTEN || i % 2)
            fl_value_set(sum, i, faulty_sum(c, i, n));
    }
    if (c->ith > 0)
        return FL_OK;
    if (mistake != STATE_LEFT_BEHIND || fl_out(c, S_OUT) == fl_in(c, S))
        fl_value_set(fl_out_t(c, S_OUT), 0, fl_value_at(fl_in_t(c, S), 0) + 1);
    return FL_OK;
}

static double given(const fl_tensor *dy, int64_t i)
{
    return dy ? fl_value_at(dy, i) : 0;
}

static double faulty_gradient(const fl_op_ctx *c, int other, int64_t i)
{
    const fl_tensor *sum = fl_dout_t(c, SUM), *product = fl_dout_t(c, PRODUCT);
    double v =
        given(sum, i) + given(product, i) * fl_value_at(fl_in_t(c, other), i);

    if (mistake == WRONG_GRADIENT)
        return v + 1e-5;
    if (mistake == READS_BACK_INPUT)
        return v + 0 * fl_value_at(fl_in_t(c, S), 0);
    if (mistake == NEEDS_BOTH_WANTED && !fl_din_t(c, other))
        return 0;
    if (mistake == NEEDS_BOTH_GIVEN && !sum)
        return 0;
    return v;
}

static fl_status faulty_back(fl_op_ctx *c)
{
    fl_span s = fl_op_span(c, (size_t)fl_tensor_numel(fl_in_t(c, X)));

    for (int64_t i = (int64_t)s.lo; i < (int64_t)s.hi; i++) {
        double dx = faulty_gradient(c, Y, i), dy = faulty_gradient(c, X, i);

        if (fl_din_t(c, X))
            fl_value_set(fl_din_t(c, X), i, dx);
        if (fl_din_t(c, Y))
            fl_value_set(fl_din_t(c, Y), i, dy);
    }
    return FL_OK;
}

static const fl_op_case faulty_cases[] = {
    { .in = { "f32[33,7]", "f32[33,7]", "f32[1]" } },
    { .in = { "f32[0,7]", "f32[0,7]", "f32[1]" } },
};

static const fl_op faulty_op = {
    .name = "faulty",
    .doc = "Sum = X + Y, Product = X * Y, SOut = S + 1",
    .in = { { "X", 0 },
            { "Y", 0 },
            { "S", FL_OP_SLOT_STATE | FL_SLOT_NO_GRAD } },
    .out = { { "Sum", 0 }, { "Product", 0 }, { "SOut", FL_SLOT_NO_GRAD } },
    .flags = FL_OP_INPLACE | FL_OP_SLICED | FL_OP_BY_FORM,
    .infer = faulty_infer,
    .run = faulty_run,
    .back = faulty_back,
    .back_uses = FL_USES_IN(X) | FL_USES_IN(Y),
    .cases = faulty_cases,
    .n_cases = FL_LEN(faulty_cases),
};

static const struct {
    enum mistake mistake;
    fl_check_fn check;
} detectors[] = {
    { OTHER_SHAPE_AT_RUN, fl_check_shapes },
    { SHAPE_BY_VALUES, fl_check_form },
    { WRONG_GRADIENT, fl_check_gradient },
    { COARSE_F32, fl_check_precision },
    { SHARE_IN_RESULT, fl_check_shares },
    { READS_AFTER_WRITING, fl_check_in_place },
    { STATE_LEFT_BEHIND, fl_check_in_place },
    { HALF_WRITTEN, fl_check_written },
    { READS_BACK_INPUT, fl_check_uses },
    { NEEDS_BOTH_WANTED, fl_check_parts },
    { NEEDS_BOTH_GIVEN, fl_check_parts },
    { OTHER_ERROR, fl_check_no_memory },
    { LEAK, fl_check_no_memory },
};

static void an_operator_without_mistakes_passes_every_check(void **state)
{
    (void)state;
    mistake = NO_MISTAKE;
    for (size_t i = 0; i < FL_LEN(detectors); i++)
        for (size_t k = 0; k < faulty_op.n_cases; k++)
            if (detectors[i].check(&faulty_op, k))
                fail_msg("check %zu, case %zu: %s", i, k, fl_last_error());
    assert_int_equal(fl_check_doc(&faulty_op, 0), FL_OK);
    assert_int_equal(fl_check_cases(&faulty_op, 0), FL_OK);
}

static void each_check_finds_its_mistake(void **state)
{
    (void)state;
    for (size_t i = 0; i < FL_LEN(detectors); i++) {
        mistake = detectors[i].mistake;
        if (!detectors[i].check(&faulty_op, 0))
            fail_msg("mistake %d is not found", (int)mistake);
    }
    mistake = NO_MISTAKE;
    fl_data_free(leaked, LEAK_BYTES);
}

static void a_bare_descriptor_is_refused(void **state)
{
    fl_op op = faulty_op;

    (void)state;
    mistake = NO_MISTAKE;
    op.doc = "";
    assert_int_not_equal(fl_check_doc(&op, 0), FL_OK);
    op.n_cases = 1; /* the one without an empty batch */
    assert_int_not_equal(fl_check_cases(&op, 0), FL_OK);
    op.n_cases = 2;
    op.in[X].flags = FL_SLOT_NO_GRAD; /* so back is never called */
    op.in[Y].flags = FL_SLOT_NO_GRAD;
    assert_int_not_equal(fl_check_cases(&op, 0), FL_OK);
    op.n_cases = 0;
    assert_int_not_equal(fl_check_cases(&op, 0), FL_OK);
}

static void a_case_that_does_not_parse_is_refused(void **state)
{
    static const char *const texts[] = { "f33[2]", "f32[2", "f32[2] blow=3",
                                         "f32[2] rows", "f32[2] lod=[0,3]" };

    (void)state;
    mistake = NO_MISTAKE;
    for (size_t i = 0; i < FL_LEN(texts); i++) {
        fl_op_case bad = faulty_cases[0];
        fl_op op = faulty_op;

        bad.in[X] = texts[i];
        op.cases = &bad;
        op.n_cases = 1;
        if (!fl_check_cases(&op, 0) || !strstr(fl_last_error(), "case"))
            fail_msg("'%s' is taken: %s", texts[i], fl_last_error());
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(an_operator_without_mistakes_passes_every_check),
        cmocka_unit_test(each_check_finds_its_mistake),
        cmocka_unit_test(a_bare_descriptor_is_refused),
        cmocka_unit_test(a_case_that_does_not_parse_is_refused),
        cmocka_unit_test(every_operator_says_what_it_does),
        cmocka_unit_test(every_operator_has_cases_for_all_it_can_do),
        cmocka_unit_test(a_run_gives_the_shapes_that_were_promised),
        cmocka_unit_test(what_is_inferred_by_form_is_inferred_by_nothing_else),
        cmocka_unit_test(gradients_equal_central_differences),
        cmocka_unit_test(f32_and_f64_agree),
        cmocka_unit_test(any_number_of_shares_gives_the_same_bits),
        cmocka_unit_test(in_place_gives_the_same_bits),
        cmocka_unit_test(outputs_do_not_depend_on_dirt),
        cmocka_unit_test(back_reads_what_it_says),
        cmocka_unit_test(back_gives_and_takes_part_of_the_gradients),
        cmocka_unit_test(no_memory_is_an_error_and_nothing_else),
    };

    fl_op_trial_use_comm(make_comm);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
