/* test_program.c - programs of PaddlePaddle 1.8 as ours: what is copied, what
 * is left out, and everything that is lacking in one message. */
#include "kit.h"

#include "flotilla/log.h"
#include "paddle18/program.h"

#define VAR(...) (&(var_desc){ __VA_ARGS__ })

/* A program of one block, made of what was put into it, and what it became. */
typedef struct translated {
    fl_arena arena;
    fl_p18_program_desc desc;
    fl_p18_program got;
    fl_status st;
} translated;

static void translate_blocks(translated *t, bytes *program)
{
    memset(t, 0, sizeof(*t));
    fl_arena_init(&t->arena, 4096);
    expect_ok(fl_wire_read(&fl_p18_program_message, program->data, program->len,
                           &t->arena, &t->desc));
    t->st = fl_p18_translate(&t->desc, &fl_ops, &t->got);
    fl_vec_release(program);
}

static void translate(translated *t, bytes *block)
{
    bytes program = { 0 };

    add_block(&program, 0, -1, block);
    translate_blocks(t, &program);
}

static void end(translated *t)
{
    fl_p18_program_release(&t->got);
    fl_arena_release(&t->arena);
}

static void expect_text(const translated *t, const char *want)
{
    char *text;

    expect_ok(t->st);
    text = fl_program_print(t->got.program);
    assert_string_equal(text, want);
    fl_free(text);
}

static void expect_refused(bytes *block, fl_status st, const char *part)
{
    translated t;

    translate(&t, block);
    assert_int_equal(t.st, st);
    expect_said(part);
    end(&t);
}

/* Ids -> rows -> sum -> fc, as save_inference_model leaves it. */
static bytes small_model(void)
{
    bytes b = { 0 }, op = { 0 };

    add_odd_var(&b, "feed", 9);
    add_odd_var(&b, "fetch", 10);
    add_var(&b, VAR("ids", FL_P18_INT64, 2, { -1, 1 }, 1, false));
    add_var(&b, VAR("dense", FL_P18_FP32, 2, { -1, 4 }, 0, false));
    add_var(&b, VAR("emb", FL_P18_FP32, 2, { 50, 4 }, 0, true));
    add_feed(&b, "dense", 1);
    add_feed(&b, "ids", 0);
    add_arg(&op, IN, "Ids", "ids");
    add_arg(&op, IN, "W", "emb");
    add_arg(&op, OUT, "Out", "rows");
    add_bool(&op, "is_sparse", true);
    add_bool(&op, "is_distributed", true);
    add_bool(&op, "remote_prefetch", true);
    add_int(&op, "padding_idx", -1);
    add_op(&b, "lookup_table", &op);
    add_arg(&op, IN, "X", "rows");
    add_arg(&op, OUT, "Out", "pooled");
    add_arg(&op, OUT, "MaxIndex", "index");
    add_text(&op, "pooltype", "SUM");
    add_bool(&op, "is_test", true);
    add_op(&b, "sequence_pool", &op);
    add_arg(&op, IN, "X", "pooled");
    add_arg(&op, IN, "Y", "dense");
    add_arg(&op, OUT, "Out", "added");
    add_int(&op, "axis", -1);
    add_bool(&op, "use_mkldnn", false);
    add_op(&b, "elementwise_add", &op);
    add_arg(&op, IN, "X", "added");
    add_arg(&op, IN, "ScaleTensor", "");
    add_arg(&op, OUT, "Out", "save_infer_model/scale_0.tmp_0");
    add_float(&op, "scale", 1);
    add_float(&op, "bias", 0);
    add_op(&b, "scale", &op);
    add_fetch(&b, "save_infer_model/scale_0.tmp_0", 0);
    return b;
}

static void an_inference_program_is_copied(void **state)
{
    bytes b = small_model();
    translated t;

    (void)state;
    translate(&t, &b);
    expect_text(&t, "var ids : i64[-1,1] lod=1 data\n"
                    "var dense : f32[-1,4] data\n"
                    "param emb : f32[50,4] trainable\n"
                    "op lookup_table (W=emb, Ids=ids) -> (Out=rows) "
                    "{is_sparse=true}\n"
                    "op sequence_pool (X=rows) -> (Out=pooled) {pooltype=SUM, "
                    "is_test=true}\n"
                    "op elementwise_add (X=pooled, Y=dense) -> (Out=added)\n"
                    "fetch added\n");
    assert_int_equal(t.got.feeds.len, 2);
    assert_string_equal(t.got.feeds.data[0], "ids");
    assert_string_equal(t.got.feeds.data[1], "dense");
    assert_int_equal(t.got.targets.len, 1);
    assert_string_equal(t.got.targets.data[0], "added");
    end(&t);
}

static void a_scale_that_scales_stays(void **state)
{
    bytes b = { 0 }, op = { 0 };
    translated t;

    (void)state;
    add_var(&b, VAR("x", FL_P18_FP32, 2, { -1, 4 }, 0, false));
    add_feed(&b, "x", 0);
    add_arg(&op, IN, "X", "x");
    add_arg(&op, OUT, "Out", "save_infer_model/scale_0.tmp_0");
    add_float(&op, "scale", 2);
    add_op(&b, "scale", &op);
    add_fetch(&b, "save_infer_model/scale_0.tmp_0", 0);
    translate(&t, &b);
    expect_text(&t, "var x : f32[-1,4] data\n"
                    "op scale (X=x) -> (Out=save_infer_model/scale_0.tmp_0) "
                    "{scale=2}\n"
                    "fetch save_infer_model/scale_0.tmp_0\n");
    end(&t);
}

/* Training programs have no feed operators: what nobody writes is fed. */
static void a_training_program_keeps_roles_and_kinds_of_variables(void **state)
{
    bytes b = { 0 }, op = { 0 };
    translated t;

    (void)state;
    add_var(&b, VAR("x", FL_P18_FP32, 2, { -1, 4 }, 0, false));
    add_var(&b, VAR("w", FL_P18_FP32, 2, { 4, 1 }, 0, true));
    add_var(&b, VAR("rate", FL_P18_FP32, 1, { 1 }, 0, true));
    add_arg(&op, IN, "X", "x");
    add_arg(&op, IN, "Y", "w");
    add_arg(&op, OUT, "Out", "y");
    add_op(&b, "mul", &op);
    add_simple(&b, "mean", "y", "loss");
    add_arg(&op, OUT, "Out", "loss@GRAD");
    add_ints(&op, "shape", 1, (int64_t[]){ 1 });
    add_float(&op, "value", 1);
    add_int(&op, "dtype", FL_P18_FP32);
    add_int(&op, "op_role", 0x101);
    add_op(&b, "fill_constant", &op);
    add_arg(&op, IN, "X", "y");
    add_arg(&op, IN, "Out@GRAD", "loss@GRAD");
    add_arg(&op, OUT, "X@GRAD", "y@GRAD");
    add_int(&op, "op_role", 1);
    add_op(&b, "mean_grad", &op);
    add_arg(&op, IN, "X", "x");
    add_arg(&op, IN, "Y", "w");
    add_arg(&op, IN, "Out@GRAD", "y@GRAD");
    add_arg(&op, OUT, "Y@GRAD", "w@GRAD");
    add_int(&op, "op_role", 1);
    add_op(&b, "mul_grad", &op);
    add_arg(&op, IN, "Param", "w");
    add_arg(&op, IN, "Grad", "w@GRAD");
    add_arg(&op, IN, "LearningRate", "rate");
    add_arg(&op, OUT, "ParamOut", "w");
    add_int(&op, "op_role", 2);
    add_op(&b, "sgd", &op);
    translate(&t, &b);
    expect_text(&t, "param w : f32[4,1] trainable\n"
                    "var rate : f32[1] persist\n"
                    "var x : f32[-1,4] data\n"
                    "op mul (X=x, Y=w) -> (Out=y)\n"
                    "op mean (X=y) -> (Out=loss)\n"
                    "op fill_constant () -> (Out=loss@GRAD) {shape=[1], "
                    "dtype=f32, value=1} @backward\n"
                    "op mean_grad (X=y, Out@GRAD=loss@GRAD) -> "
                    "(X@GRAD=y@GRAD) @backward\n"
                    "op mul_grad (X=x, Y=w, Out@GRAD=y@GRAD) -> "
                    "(Y@GRAD=w@GRAD) @backward\n"
                    "op sgd (Param=w, Grad=w@GRAD, LearningRate=rate) -> "
                    "(ParamOut=w) @optimize\n");
    end(&t);
}

static void everything_that_is_lacking_is_in_one_message(void **state)
{
    bytes b = { 0 }, op = { 0 };
    translated t;

    (void)state;
    add_var(&b, VAR("x", FL_P18_FP32, 2, { -1, 4 }, 0, false));
    add_feed(&b, "x", 0);
    add_simple(&b, "conv3d", "x", "a");
    add_simple(&b, "no_such_op", "a", "b");
    add_simple(&b, "conv3d", "b", "c");
    add_arg(&op, IN, "X", "c");
    add_arg(&op, IN, "Z", "x");
    add_arg(&op, OUT, "Out", "d");
    add_arg(&op, OUT, "Extra", "e");
    add_float(&op, "strength", 0.5f);
    add_op(&b, "relu", &op);
    add_simple(&b, "relu", "e", "f");
    add_fetch(&b, "f", 0);
    translate(&t, &b);
    assert_int_equal(t.st, FL_ERR_UNSUPPORTED);
    expect_said(
        "operator conv3d, operator no_such_op, input Z of relu, output "
        "Extra of relu, attribute strength=0.5 of relu; `flotilla ops`");
    end(&t);
}

static int n_logged;

static void count_lines(void *arg, fl_log_level level, const char *area,
                        const char *line)
{
    (void)arg;
    (void)level;
    (void)area;
    n_logged += strstr(line, "lacks=") != NULL;
}

static void what_a_message_has_no_room_for_is_in_the_log(void **state)
{
    bytes b = { 0 };
    translated t;

    (void)state;
    add_var(&b, VAR("x", FL_P18_FP32, 2, { -1, 4 }, 0, false));
    for (int i = 0; i < 100; i++) {
        char name[64];

        snprintf(name, sizeof(name), "operator_that_is_not_there_%d", i);
        add_simple(&b, name, "x", "y");
    }
    n_logged = 0;
    fl_log_set(count_lines, NULL, FL_LOG_WARN);
    translate(&t, &b);
    fl_log_set(NULL, NULL, FL_LOG_INFO);
    assert_int_equal(t.st, FL_ERR_UNSUPPORTED);
    expect_said("more, which the log names");
    assert_true(n_logged > 50 && n_logged < 100);
    end(&t);
}

static void
an_attribute_that_says_nothing_is_left_out_and_another_is_not(void **state)
{
    bytes good = { 0 }, bad = { 0 }, op = { 0 };
    translated t;

    (void)state;
    add_var(&good, VAR("x", FL_P18_FP32, 2, { -1, 4 }, 0, false));
    add_var(&bad, VAR("x", FL_P18_FP32, 2, { -1, 4 }, 0, false));
    add_arg(&op, IN, "X", "x");
    add_arg(&op, IN, "Y", "x");
    add_arg(&op, OUT, "Out", "y");
    add_float(&op, "alpha", 1);
    add_int(&op, "head_number", 1);
    add_bool(&op, "transpose_Y", true);
    add_op(&good, "matmul", &op);
    translate(&t, &good);
    expect_ok(t.st);
    end(&t);
    add_arg(&op, IN, "X", "x");
    add_arg(&op, IN, "Y", "x");
    add_arg(&op, OUT, "Out", "y");
    add_int(&op, "head_number", 2);
    add_op(&bad, "matmul", &op);
    expect_refused(&bad, FL_ERR_UNSUPPORTED,
                   "attribute head_number=2 of matmul");
}

static void types_in_attributes_become_words(void **state)
{
    bytes b = { 0 }, op = { 0 };
    translated t;

    (void)state;
    add_var(&b, VAR("x", FL_P18_FP32, 2, { -1, 4 }, 0, false));
    add_arg(&op, IN, "X", "x");
    add_arg(&op, OUT, "Out", "y");
    add_int(&op, "in_dtype", FL_P18_FP32);
    add_int(&op, "out_dtype", FL_P18_INT64);
    add_op(&b, "cast", &op);
    translate(&t, &b);
    expect_text(&t, "var x : f32[-1,4] data\n"
                    "op cast (X=x) -> (Out=y) {out_dtype=i64, "
                    "in_dtype=f32}\n");
    end(&t);
}

static bytes conditional(int64_t parent)
{
    bytes program = { 0 }, outer = { 0 }, inner = { 0 }, op = { 0 };

    add_var(&outer, VAR("c", FL_P18_BOOL, 1, { 1 }, 0, false));
    add_var(&outer, VAR("x", FL_P18_FP32, 2, { -1, 4 }, 0, false));
    add_simple(&outer, "relu", "x", "y");
    add_arg(&op, IN, "Cond", "c");
    add_arg(&op, IN, "Input", "x");
    add_arg(&op, OUT, "Out", "y");
    add_arg(&op, OUT, "Scope", "scope");
    add_block_attr(&op, "sub_block", 1);
    add_bool(&op, "is_scalar_condition", true);
    add_op(&outer, "conditional_block", &op);
    add_simple(&inner, "tanh", "x", "y");
    add_block(&program, 0, -1, &outer);
    add_block(&program, 1, parent, &inner);
    return program;
}

static void a_block_that_an_operator_runs_comes_along(void **state)
{
    bytes good = conditional(0), bad = conditional(1);
    translated t;

    (void)state;
    translate_blocks(&t, &good);
    expect_ok(t.st);
    assert_int_equal(t.got.program->blocks.len, 2);
    assert_string_equal(fl_node_type(t.got.program->blocks.data[1]->first),
                        "tanh");
    end(&t);
    translate_blocks(&t, &bad);
    assert_int_equal(t.st, FL_ERR_CORRUPT);
    expect_said("block 1 says that it is block 1 in block 1");
    end(&t);
}

static void blocks_in_blocks_have_a_limit(void **state)
{
    bytes program = { 0 };
    translated t;

    (void)state;
    for (int64_t i = 0; i < 40; i++) {
        bytes block = { 0 };

        add_block(&program, i, i - 1, &block);
    }
    translate_blocks(&t, &program);
    assert_int_equal(t.st, FL_ERR_UNSUPPORTED);
    expect_said("block 17 stands within more than 16 others");
    end(&t);
}

static void columns_must_be_complete(void **state)
{
    bytes gap = { 0 }, twice = { 0 }, nobody = { 0 }, nothing = { 0 };

    (void)state;
    add_var(&gap, VAR("x", FL_P18_FP32, 2, { -1, 4 }, 0, false));
    add_feed(&gap, "x", 1);
    expect_refused(&gap, FL_ERR_CORRUPT,
                   "the columns of its feed operators are not 0 to 0");
    add_var(&twice, VAR("x", FL_P18_FP32, 2, { -1, 4 }, 0, false));
    add_feed(&twice, "x", 0);
    add_feed(&twice, "x", 0);
    expect_refused(&twice, FL_ERR_CORRUPT, "each once");
    add_feed(&nobody, "x", 0);
    expect_refused(&nobody, FL_ERR_CORRUPT,
                   "x is fed, but nothing describes it");
    add_fetch(&nothing, "y", 0);
    expect_refused(&nothing, FL_ERR_CORRUPT,
                   "y is fetched, but nothing makes it");
}

static void an_operator_that_does_not_fit_is_named_with_its_place(void **state)
{
    bytes b = { 0 }, op = { 0 };

    (void)state;
    add_var(&b, VAR("x", FL_P18_FP32, 2, { -1, 4 }, 0, false));
    add_var(&b, VAR("w", FL_P18_FP32, 2, { 5, 1 }, 0, true));
    add_arg(&op, IN, "X", "x");
    add_arg(&op, IN, "Y", "w");
    add_arg(&op, OUT, "Out", "y");
    add_op(&b, "mul", &op);
    expect_refused(&b, FL_ERR_INVAL, "block 0, operator 0: ");
}

static void a_table_of_rows_is_refused_by_name(void **state)
{
    bytes b = { 0 };

    (void)state;
    add_odd_var(&b, "emb", FL_P18_SELECTED_ROWS);
    expect_refused(&b, FL_ERR_UNSUPPORTED,
                   "variable emb holds rows of a table (type 8)");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(an_inference_program_is_copied),
        cmocka_unit_test(a_scale_that_scales_stays),
        cmocka_unit_test(a_training_program_keeps_roles_and_kinds_of_variables),
        cmocka_unit_test(everything_that_is_lacking_is_in_one_message),
        cmocka_unit_test(what_a_message_has_no_room_for_is_in_the_log),
        cmocka_unit_test(
            an_attribute_that_says_nothing_is_left_out_and_another_is_not),
        cmocka_unit_test(types_in_attributes_become_words),
        cmocka_unit_test(a_block_that_an_operator_runs_comes_along),
        cmocka_unit_test(blocks_in_blocks_have_a_limit),
        cmocka_unit_test(columns_must_be_complete),
        cmocka_unit_test(an_operator_that_does_not_fit_is_named_with_its_place),
        cmocka_unit_test(a_table_of_rows_is_refused_by_name),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
