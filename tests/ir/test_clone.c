/* test_clone.c - copies of programs, copies for test, pruning. */
#include "kit.h"

static const char training[] =
    "seed 7\n"
    "var x : f32[-1,4] data\n"
    "var label : i64[-1,1] data\n"
    "param w : f32[4,2] init=xavier lr=0.5 regularizer=l2(0.1) clip=norm(2) "
    "trainable\n"
    "var rate : f32[1] persist\n"
    "op mul (X=x, Y=w) -> (Out=t)\n"
    "op dropout (X=t) -> (Out=d, Mask=m) {dropout_prob=0.3}\n"
    "op softmax (X=d) -> (Out=p)\n"
    "op cross_entropy (X=p, Label=label) -> (Y=c)\n"
    "op mean (X=c) -> (Out=loss)\n"
    "op fill_constant () -> (Out=loss@GRAD) {shape=[1], value=1} @backward\n"
    "op mean_grad (X=c, Out@GRAD=loss@GRAD) -> (X@GRAD=c@GRAD) @backward\n"
    "op cross_entropy_grad (X=p, Label=label, Y@GRAD=c@GRAD) -> "
    "(X@GRAD=p@GRAD) @backward\n"
    "op softmax_grad (X=d, Out=p, Out@GRAD=p@GRAD) -> (X@GRAD=d@GRAD) "
    "@backward\n"
    "op dropout_grad (X=t, Mask=m, Out@GRAD=d@GRAD) -> (X@GRAD=t@GRAD) "
    "{dropout_prob=0.3} @backward\n"
    "op mul_grad (X=x, Y=w, Out@GRAD=t@GRAD) -> (Y@GRAD=w@GRAD) @backward\n"
    "op scale (X=rate) -> (Out=rate) {scale=0.5} @lr\n"
    "op sgd (Param=w, Grad=w@GRAD, LearningRate=rate) -> (ParamOut=w) "
    "@optimize\n"
    "fetch loss\n"
    "fetch w@GRAD\n";

static fl_program *clone(const fl_program *p, fl_clone_kind kind)
{
    fl_program *q = NULL;

    if (fl_program_clone(p, kind, &q))
        fail_msg("%s", fl_last_error());
    return q;
}

static void a_clone_has_the_same_text_and_nothing_in_common(void **state)
{
    fl_program *p = parse(training);
    fl_program *q = clone(p, FL_CLONE_ALL);

    (void)state;
    fl_program_free(p);
    expect_text(q, training);
    assert_int_equal(fl_program_verify(q), FL_OK);
    fl_program_free(q);
}

static void a_clone_may_change_by_itself(void **state)
{
    fl_program *p = parse("var x : f32[2] data\n"
                          "op relu (X=x) -> (Out=y)\n");
    fl_program *q = clone(p, FL_CLONE_ALL);

    (void)state;
    fl_block_remove(fl_program_main(q), fl_program_main(q)->first);
    expect_text(p, "var x : f32[2] data\nop relu (X=x) -> (Out=y)\n");
    expect_text(q, "var x : f32[2] data\n");
    fl_program_free(p);
    fl_program_free(q);
}

static void sub_blocks_are_cloned(void **state)
{
    static const char text[] = "var x : f32[2] data\n"
                               "op relu (X=x) -> (Out=y)\n"
                               "block 1 parent 0\n"
                               "  op relu (X=y) -> (Out=z)\n"
                               "end\n"
                               "block 2 parent 1\n"
                               "  op relu (X=z) -> (Out=u)\n"
                               "end\n";
    fl_program *p = parse(text);
    fl_program *q = clone(p, FL_CLONE_ALL);

    (void)state;
    fl_program_free(p);
    expect_text(q, text);
    fl_program_free(q);
}

static void a_clone_for_test_only_predicts(void **state)
{
    fl_program *p = parse(training);
    fl_program *q = clone(p, FL_CLONE_FOR_TEST);

    (void)state;
    expect_text(q, "seed 7\n"
                   "var x : f32[-1,4] data\n"
                   "var label : i64[-1,1] data\n"
                   "param w : f32[4,2] init=xavier lr=0.5 regularizer=l2(0.1) "
                   "clip=norm(2) trainable\n"
                   "op mul (X=x, Y=w) -> (Out=t)\n"
                   "op dropout (X=t) -> (Out=d, Mask=m) {dropout_prob=0.3, "
                   "is_test=true}\n"
                   "op softmax (X=d) -> (Out=p)\n"
                   "op cross_entropy (X=p, Label=label) -> (Y=c)\n"
                   "op mean (X=c) -> (Out=loss)\n"
                   "fetch loss\n");
    assert_null(fl_block_find_var(fl_program_main(q), "w@GRAD"));
    assert_int_equal(fl_program_verify(q), FL_OK);
    expect_text(p, training);
    fl_program_free(p);
    fl_program_free(q);
}

static void pruning_keeps_what_the_targets_need(void **state)
{
    const char *targets[] = { "p" };
    fl_program *p = parse(training);

    (void)state;
    assert_int_equal(fl_program_prune(p, targets, 1), FL_OK);
    expect_text(p, "seed 7\n"
                   "var x : f32[-1,4] data\n"
                   "param w : f32[4,2] init=xavier lr=0.5 regularizer=l2(0.1) "
                   "clip=norm(2) trainable\n"
                   "op mul (X=x, Y=w) -> (Out=t)\n"
                   "op dropout (X=t) -> (Out=d, Mask=m) {dropout_prob=0.3}\n"
                   "op softmax (X=d) -> (Out=p)\n"
                   "fetch p\n");
    assert_int_equal(fl_program_verify(p), FL_OK);
    fl_program_free(p);
}

static void pruning_to_a_feed_leaves_the_feed(void **state)
{
    const char *targets[] = { "x" };
    fl_program *p = parse("var x : f32[2] data\n"
                          "var y : f32[2] data\n"
                          "op relu (X=x) -> (Out=z)\n"
                          "fetch z\n");

    (void)state;
    assert_int_equal(fl_program_prune(p, targets, 1), FL_OK);
    expect_text(p, "var x : f32[2] data\nfetch x\n");
    fl_program_free(p);
}

static void pruning_keeps_several_targets_in_their_order(void **state)
{
    const char *targets[] = { "b", "a" };
    fl_program *p = parse("var x : f32[2] data\n"
                          "op relu (X=x) -> (Out=a)\n"
                          "op tanh (X=a) -> (Out=b)\n"
                          "op sigmoid (X=a) -> (Out=c)\n");

    (void)state;
    assert_int_equal(fl_program_prune(p, targets, 2), FL_OK);
    expect_text(p, "var x : f32[2] data\n"
                   "op relu (X=x) -> (Out=a)\n"
                   "op tanh (X=a) -> (Out=b)\n"
                   "fetch b\n"
                   "fetch a\n");
    fl_program_free(p);
}

static void pruning_to_an_unknown_target_changes_nothing(void **state)
{
    const char *targets[] = { "x", "nothing" };
    fl_program *p = parse(training);

    (void)state;
    assert_int_equal(fl_program_prune(p, targets, 2), FL_ERR_NOTFOUND);
    expect_said("target nothing is not in the program");
    expect_text(p, training);
    fl_program_free(p);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_clone_has_the_same_text_and_nothing_in_common),
        cmocka_unit_test(a_clone_may_change_by_itself),
        cmocka_unit_test(sub_blocks_are_cloned),
        cmocka_unit_test(a_clone_for_test_only_predicts),
        cmocka_unit_test(pruning_keeps_what_the_targets_need),
        cmocka_unit_test(pruning_to_a_feed_leaves_the_feed),
        cmocka_unit_test(pruning_keeps_several_targets_in_their_order),
        cmocka_unit_test(pruning_to_an_unknown_target_changes_nothing),
    };

    return cmocka_run_group_tests_name("clone", tests, NULL, NULL);
}
