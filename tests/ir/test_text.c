/* test_text.c - the text form: what is printed reads back as itself. */
#include "kit.h"

static const char *const programs[] = {
    "",
    "seed 18446744073709551615\n",
    "var x : f32[-1,4] data\n",
    "var a : f32[] data\n"
    "var b : f64[1,2,3,4,5,6] data\n"
    "var c : i32[0] data\n"
    "var d : i64[-1,1] lod=1 data\n"
    "var e : u64[-1] lod=2 data\n"
    "var f : u8[7] persist\n"
    "var g : f32[-1,8] rows persist\n"
    "var h : f32[2] stop_gradient\n"
    "var i : f32[2] declared\n"
    "var j : f32[2] persist data stop_gradient declared\n",
    "param w : f32[4,2] init=xavier trainable\n"
    "param b : f32[2] init=constant(0.1) lr=0.5 regularizer=l2(0.01) "
    "clip=value(-1,1) frozen\n"
    "param c : f32[2] trainable stop_gradient\n"
    "param d : f32[3,4] init=uniform(-0.5,0.5,seed=7) clip=norm(2) "
    "trainable\n"
    "param e : f32[-1,4] init=uniform(-0.5,0.5) trainable table\n"
    "param f : f32[100,4] frozen table stop_gradient\n",
    "var x : f32[-1,4] data\n"
    "op relu (X=x) -> (Out=y)\n"
    "fetch y\n"
    "fetch x\n",
    "var x : f32[-1,4] data\n"
    "op scale (X=x) -> (Out=y) {scale=0.1, bias=-1e-30}\n"
    "op reshape2 (X=y) -> (Out=z) {shape=[0,2,2]}\n"
    "op sum (X=[x,x]) -> (Out=s)\n",
    "var x : f32[-1,4] data\n"
    "param w : f32[4,2] init=xavier trainable\n"
    "var lr : f32[1] persist\n"
    "op mul (X=x, Y=w) -> (Out=y)\n"
    "op mean (X=y) -> (Out=loss)\n"
    "op fill_constant () -> (Out=loss@GRAD) {shape=[1], value=1} @backward\n"
    "op mean_grad (X=y, Out@GRAD=loss@GRAD) -> (X@GRAD=y@GRAD) @backward\n"
    "op mul_grad (X=x, Y=w, Out@GRAD=y@GRAD) -> (X@GRAD=@EMPTY@, "
    "Y@GRAD=w@GRAD) @backward\n"
    "op sgd (Param=w, Grad=w@GRAD, LearningRate=lr) -> (ParamOut=w) "
    "@optimize\n"
    "fetch loss\n",
    "var lr : f32[1] persist\n"
    "op scale (X=lr) -> (Out=lr) {scale=0.5} @lr\n"
    "op scale (X=lr) -> (Out=sent) @rpc\n",
    "var x : f32[-1,4] data\n"
    "op concat (X=[x,x,x]) -> (Out=y) {axis=1}\n"
    "op concat_grad (X=[x,x,x], Out@GRAD=y) -> (X@GRAD=[a,@EMPTY@,b]) "
    "{axis=1} @backward\n",
    "var x : f32[-1,4] data\n"
    "op relu (X=x) -> (Out=y)\n"
    "block 1 parent 0\n"
    "  var x : f64[3] data\n"
    "  op relu (X=y) -> (Out=z)\n"
    "end\n"
    "block 2 parent 1\n"
    "  param w : f32[4,2] init=msra trainable\n"
    "  op mul (X=z, Y=w) -> (Out=u)\n"
    "end\n"
    "block 3 parent 0\n"
    "end\n"
    "fetch y\n",
    "var a.b/c:d-e_f@g : f32[1] data\n"
    "op relu (X=a.b/c:d-e_f@g) -> (Out=_)\n"
    "op print (In=_) -> (Out=@) {message=\"a \\\"b\\\" \\\\ {c}, [d] # e\"}\n",
};

static void printed_text_reads_back_as_itself(void **state)
{
    (void)state;
    for (size_t i = 0; i < FL_LEN(programs); i++) {
        fl_program *p = parse(programs[i]);

        expect_text(p, programs[i]);
        fl_program_free(p);
    }
}

static void expect_canonical(const char *text, const char *want)
{
    fl_program *p = parse(text);

    expect_text(p, want);
    fl_program_free(p);
}

static void spaces_comments_and_empty_lines_do_not_matter(void **state)
{
    (void)state;
    expect_canonical("# a program\n"
                     "\n"
                     "  var  x :  f32 [ -1, 4 ]   data  # fed\n"
                     "\top relu ( X = x )->( Out = [ y ] )   # one\n"
                     "fetch x ,y",
                     "var x : f32[-1,4] data\n"
                     "op relu (X=x) -> (Out=y)\n"
                     "fetch x\n"
                     "fetch y\n");
}

static void long_names_of_types_are_understood(void **state)
{
    (void)state;
    expect_canonical("var x : float32[1] data\nvar y : int64[1] data\n",
                     "var x : f32[1] data\nvar y : i64[1] data\n");
}

static void defaults_are_not_printed(void **state)
{
    (void)state;
    expect_canonical("var x : f32[1] data\n"
                     "op scale (X=x) -> (Out=y) {scale=1.0, bias=0} @forward\n",
                     "var x : f32[1] data\n"
                     "op scale (X=x) -> (Out=y)\n");
}

static void temporaries_are_inferred_not_printed(void **state)
{
    fl_program *p = parse("var x : f32[-1,4] data\n"
                          "param w : f32[4,2] init=xavier trainable\n"
                          "op mul (X=x, Y=w) -> (Out=y)\n");
    const fl_var *y = fl_block_find_var(fl_program_main(p), "y");
    char buf[FL_SHAPE_TEXT_MAX];

    (void)state;
    assert_string_equal(fl_shape_text(&y->meta.shape, buf), "[-1,2]");
    assert_int_equal(y->flags, 0);
    fl_program_free(p);
}

static void a_sub_block_sees_its_parents_and_hides_names(void **state)
{
    fl_program *p = parse("var x : f32[4] data\n"
                          "var y : f32[4] data\n"
                          "block 1 parent 0\n"
                          "  var x : f64[3] data\n"
                          "  op relu (X=x) -> (Out=a)\n"
                          "  op relu (X=y) -> (Out=b)\n"
                          "end\n");
    const fl_block *b = p->blocks.data[1];

    (void)state;
    assert_int_equal(p->blocks.len, 2);
    assert_int_equal(b->parent, 0);
    assert_int_equal(fl_block_find_var(b, "x")->meta.dtype, FL_DTYPE_F64);
    assert_ptr_equal(fl_block_find_var(b, "y"),
                     fl_block_find_var(fl_program_main(p), "y"));
    assert_null(fl_block_find_var(fl_program_main(p), "a"));
    fl_program_free(p);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(printed_text_reads_back_as_itself),
        cmocka_unit_test(spaces_comments_and_empty_lines_do_not_matter),
        cmocka_unit_test(long_names_of_types_are_understood),
        cmocka_unit_test(defaults_are_not_printed),
        cmocka_unit_test(temporaries_are_inferred_not_printed),
        cmocka_unit_test(a_sub_block_sees_its_parents_and_hides_names),
    };

    return cmocka_run_group_tests_name("text", tests, NULL, NULL);
}
