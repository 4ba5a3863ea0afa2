/* test_grad.c - autodiff: which gradient operators appear, and in what
   order. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <string.h>

#include "ops/ops.h"
#include "pass/grad.h"

#define LOSS "var loss@GRAD : f32[1] persist\n"

static fl_program *parse(const char *text)
{
    fl_program *p = NULL;

    if (fl_program_parse(text, &fl_ops, &p))
        fail_msg("%s", fl_last_error());
    return p;
}

static fl_status differentiate(fl_program *p, fl_grad_pairs *pairs)
{
    fl_block *b = fl_program_main(p);
    fl_var *loss = fl_block_find_var(b, "loss");
    fl_var *ones = fl_block_find_var(b, "loss@GRAD");
    fl_grad_spec spec = { .targets = &loss,
                          .n_targets = 1,
                          .target_grads = &ones,
                          .sum_op = "sum",
                          .copy_op = "assign",
                          .zeros_op = "fill_zeros_like" };

    return fl_grad_append(b, &spec, pairs);
}

/* `want` is what has to follow the text of the forward program. */
static void expect_grads(const char *text, const char *want, size_t n_pairs)
{
    fl_grad_pairs pairs = { 0 };
    fl_program *p = parse(text);
    char *got;

    if (differentiate(p, &pairs))
        fail_msg("%s", fl_last_error());
    assert_int_equal(fl_program_verify(p), FL_OK);
    got = fl_program_print(p);
    assert_memory_equal(got, text, strlen(text));
    assert_string_equal(got + strlen(text), want);
    assert_int_equal(pairs.len, n_pairs);
    fl_free(got);
    fl_vec_release(&pairs);
    fl_program_free(p);
}

static void expect_refusal(const char *text, const char *why)
{
    fl_grad_pairs pairs = { 0 };
    fl_program *p = parse(text);

    assert_int_equal(differentiate(p, &pairs), FL_ERR_INVAL);
    if (!strstr(fl_last_error(), why))
        fail_msg("'%s' does not say '%s'", fl_last_error(), why);
    fl_vec_release(&pairs);
    fl_program_free(p);
}

static void gradients_come_in_reverse_order(void **state)
{
    (void)state;
    expect_grads("var x : f32[-1,4] data stop_gradient\n"
                 "param w : f32[4,2] init=xavier trainable\n" LOSS
                 "op mul (X=x, Y=w) -> (Out=t)\n"
                 "op relu (X=t) -> (Out=y)\n"
                 "op mean (X=y) -> (Out=loss)\n",
                 "op mean_grad (X=y, Out@GRAD=loss@GRAD) -> (X@GRAD=y@GRAD) "
                 "@backward\n"
                 "op relu_grad (X=t, Out=y, Out@GRAD=y@GRAD) -> "
                 "(X@GRAD=t@GRAD) @backward\n"
                 "op mul_grad (X=x, Y=w, Out@GRAD=t@GRAD) -> (Y@GRAD=w@GRAD) "
                 "@backward\n",
                 1);
}

static void a_parameter_used_twice_gets_a_sum(void **state)
{
    (void)state;
    expect_grads("param w : f32[2] init=constant(1) trainable\n" LOSS
                 "op elementwise_mul (X=w, Y=w) -> (Out=y)\n"
                 "op mean (X=y) -> (Out=loss)\n",
                 "op mean_grad (X=y, Out@GRAD=loss@GRAD) -> (X@GRAD=y@GRAD) "
                 "@backward\n"
                 "op elementwise_mul_grad (X=w, Y=w, Out@GRAD=y@GRAD) -> "
                 "(X@GRAD=w@GRAD@RENAME@0, Y@GRAD=w@GRAD@RENAME@1) @backward\n"
                 "op sum (X=[w@GRAD@RENAME@0,w@GRAD@RENAME@1]) -> (Out=w@GRAD) "
                 "@backward\n",
                 1);
}

static void what_does_not_reach_the_loss_gets_nothing(void **state)
{
    (void)state;
    expect_grads("param w : f32[2] init=constant(1) trainable\n"
                 "param v : f32[2] init=constant(1) trainable\n" LOSS
                 "op relu (X=v) -> (Out=aside)\n"
                 "op mean (X=w) -> (Out=loss)\n",
                 "op mean_grad (X=w, Out@GRAD=loss@GRAD) -> (X@GRAD=w@GRAD) "
                 "@backward\n",
                 1);
}

static void frozen_parameters_get_nothing(void **state)
{
    (void)state;
    expect_grads("param w : f32[2] init=constant(1) trainable\n"
                 "param v : f32[2] init=constant(1) frozen\n" LOSS
                 "op elementwise_mul (X=w, Y=v) -> (Out=y)\n"
                 "op mean (X=y) -> (Out=loss)\n",
                 "op mean_grad (X=y, Out@GRAD=loss@GRAD) -> (X@GRAD=y@GRAD) "
                 "@backward\n"
                 "op elementwise_mul_grad (X=w, Y=v, Out@GRAD=y@GRAD) -> "
                 "(X@GRAD=w@GRAD) @backward\n",
                 1);
}

static void no_gradient_flows_through_a_marked_variable(void **state)
{
    (void)state;
    expect_grads("param w : f32[2] init=constant(1) trainable\n"
                 "param v : f32[2] init=constant(1) trainable\n" LOSS
                 "var h : f32[2] stop_gradient\n"
                 "op relu (X=v) -> (Out=h)\n"
                 "op elementwise_add (X=w, Y=h) -> (Out=y)\n"
                 "op mean (X=y) -> (Out=loss)\n",
                 "op mean_grad (X=y, Out@GRAD=loss@GRAD) -> (X@GRAD=y@GRAD) "
                 "@backward\n"
                 "op elementwise_add_grad (X=w, Y=h, Out@GRAD=y@GRAD) -> "
                 "(X@GRAD=w@GRAD) @backward\n",
                 1);
}

static void an_unwanted_entry_of_a_list_keeps_its_place(void **state)
{
    (void)state;
    expect_grads("var x : f32[2,3] data stop_gradient\n"
                 "param w : f32[2,3] init=constant(1) trainable\n" LOSS
                 "op concat (X=[x,w]) -> (Out=y) {axis=1}\n"
                 "op mean (X=y) -> (Out=loss)\n",
                 "op mean_grad (X=y, Out@GRAD=loss@GRAD) -> (X@GRAD=y@GRAD) "
                 "@backward\n"
                 "op concat_grad (X=[x,w], Out@GRAD=y@GRAD) -> "
                 "(X@GRAD=[@EMPTY@,w@GRAD]) {axis=1} @backward\n",
                 1);
}

static void a_loss_without_parameters_is_refused(void **state)
{
    (void)state;
    expect_refusal("var x : f32[2] data stop_gradient\n" LOSS
                   "op mean (X=x) -> (Out=loss)\n",
                   "does not depend on any trainable parameter");
}

/* Forward text is rewritten, so it is compared as a whole. */
static void a_value_that_is_overwritten_gets_a_variable(void **state)
{
    fl_program *p = parse("param w : f32[2] init=constant(1) trainable\n" LOSS
                          "op relu (X=w) -> (Out=y)\n"
                          "op square (X=y) -> (Out=y)\n"
                          "op mean (X=y) -> (Out=loss)\n");
    fl_grad_pairs pairs = { 0 };
    char *got;

    (void)state;
    assert_int_equal(differentiate(p, &pairs), FL_OK);
    assert_int_equal(fl_program_verify(p), FL_OK);
    got = fl_program_print(p);
    assert_string_equal(
        got, "param w : f32[2] init=constant(1) trainable\n" LOSS
             "op relu (X=w) -> (Out=y@VERSION@0)\n"
             "op square (X=y@VERSION@0) -> (Out=y)\n"
             "op mean (X=y) -> (Out=loss)\n"
             "op mean_grad (X=y, Out@GRAD=loss@GRAD) -> (X@GRAD=y@GRAD) "
             "@backward\n"
             "op square_grad (X=y@VERSION@0, Out@GRAD=y@GRAD) -> "
             "(X@GRAD=y@VERSION@0@GRAD) @backward\n"
             "op relu_grad (X=w, Out=y@VERSION@0, Out@GRAD=y@VERSION@0@GRAD) "
             "-> (X@GRAD=w@GRAD) @backward\n");
    fl_free(got);
    fl_vec_release(&pairs);
    fl_program_free(p);
}

static void data_that_is_not_marked_gets_a_gradient(void **state)
{
    (void)state;
    expect_grads("var x : f32[-1,4] data\n"
                 "var k : i64[-1,1] data\n"
                 "param w : f32[4,2] init=xavier trainable\n" LOSS
                 "op mul (X=x, Y=w) -> (Out=t)\n"
                 "op mean (X=t) -> (Out=loss)\n",
                 "op mean_grad (X=t, Out@GRAD=loss@GRAD) -> (X@GRAD=t@GRAD) "
                 "@backward\n"
                 "op mul_grad (X=x, Y=w, Out@GRAD=t@GRAD) -> "
                 "(X@GRAD=x@GRAD, Y@GRAD=w@GRAD) @backward\n",
                 1);
}

static void a_kept_value_that_back_reads_and_is_gone_is_refused(void **state)
{
    (void)state;
    expect_refusal("param w : f32[2] init=constant(1) trainable\n"
                   "var y : f32[2] persist\n" LOSS "op relu (X=w) -> (Out=y)\n"
                   "op mean (X=y) -> (Out=a)\n"
                   "op sigmoid (X=w) -> (Out=y)\n"
                   "op mean (X=y) -> (Out=b)\n"
                   "op sum (X=[a,b]) -> (Out=loss)\n",
                   "the gradient of relu reads y, which is written again");
}

/* A gradient operator of what is straight but for corners takes what came in
   place of the gradient that it was given. */
static void a_gradient_of_a_gradient_is_made_of_what_there_is(void **state)
{
    (void)state;
    expect_grads(
        "var x : f32[2] data stop_gradient\n"
        "var g : f32[2] data\n" LOSS "op relu (X=x) -> (Out=y)\n"
        "op relu_grad (X=x, Out=y, Out@GRAD=g) -> (X@GRAD=d)\n"
        "op mean (X=d) -> (Out=loss)\n",
        "op mean_grad (X=d, Out@GRAD=loss@GRAD) -> (X@GRAD=d@GRAD) @backward\n"
        "op relu_grad (X=x, Out=y, Out@GRAD=d@GRAD) -> (X@GRAD=g@GRAD) "
        "@backward\n",
        0);
}

static void a_product_has_gradients_of_its_gradients(void **state)
{
    (void)state;
    expect_grads(
        "param w : f32[2,2] init=constant(1) trainable\n"
        "var x : f32[2,2] data stop_gradient\n"
        "var g : f32[2,2] data stop_gradient\n" LOSS
        "op mul_grad (X=x, Y=w, Out@GRAD=g) -> (X@GRAD=d)\n"
        "op mean (X=d) -> (Out=loss)\n",
        "op mean_grad (X=d, Out@GRAD=loss@GRAD) -> (X@GRAD=d@GRAD) @backward\n"
        "op mul_grad (X=d@GRAD, Y=w, Out@GRAD=g) -> (Y@GRAD=w@GRAD) "
        "@backward\n",
        1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(gradients_come_in_reverse_order),
        cmocka_unit_test(a_parameter_used_twice_gets_a_sum),
        cmocka_unit_test(what_does_not_reach_the_loss_gets_nothing),
        cmocka_unit_test(frozen_parameters_get_nothing),
        cmocka_unit_test(no_gradient_flows_through_a_marked_variable),
        cmocka_unit_test(an_unwanted_entry_of_a_list_keeps_its_place),
        cmocka_unit_test(a_loss_without_parameters_is_refused),
        cmocka_unit_test(a_value_that_is_overwritten_gets_a_variable),
        cmocka_unit_test(data_that_is_not_marked_gets_a_gradient),
        cmocka_unit_test(a_kept_value_that_back_reads_and_is_gone_is_refused),
        cmocka_unit_test(a_gradient_of_a_gradient_is_made_of_what_there_is),
        cmocka_unit_test(a_product_has_gradients_of_its_gradients),
    };

    return cmocka_run_group_tests_name("grad", tests, NULL, NULL);
}
