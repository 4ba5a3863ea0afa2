/* test_program.c - building programs by hand: names, variables, operators,
 * and what a failed step leaves behind. */
#include "kit.h"

#include "ir/attr.h"

static fl_tensor meta(int64_t rows, int64_t cols)
{
    return fl_tensor_of(FL_DTYPE_F32, NULL, 2, (int64_t[]){ rows, cols });
}

static fl_program *one_feed(void)
{
    fl_program *p = fl_program_of(&fl_ops);
    fl_tensor t = meta(-1, 4);

    assert_int_equal(
        fl_block_add_var(fl_program_main(p), "x", &t, FL_VAR_DATA, NULL),
        FL_OK);
    return p;
}

static fl_status append(fl_program *p, const char *type, fl_arg in, fl_arg out)
{
    fl_op_spec spec = {
        .type = type, .in = &in, .out = &out, .n_in = 1, .n_out = 1
    };

    return fl_block_append(fl_program_main(p), &spec, NULL);
}

static void generated_names_are_unique_by_prefix(void **state)
{
    fl_program *p = fl_program_of(&fl_ops);

    (void)state;
    assert_string_equal(fl_program_name(p, "fc"), "fc_0");
    assert_string_equal(fl_program_name(p, "fc"), "fc_1");
    assert_string_equal(fl_program_name(p, "mul"), "mul_0");
    assert_string_equal(fl_program_name(p, "fc"), "fc_2");
    fl_program_free(p);
}

static void two_programs_count_apart(void **state)
{
    fl_program *p = fl_program_of(&fl_ops), *q = fl_program_of(&fl_ops);

    (void)state;
    assert_string_equal(fl_program_name(p, "fc"), "fc_0");
    assert_string_equal(fl_program_name(q, "fc"), "fc_0");
    fl_program_free(p);
    fl_program_free(q);
}

static void bad_names_are_refused(void **state)
{
    static const char *const names[] = { "",   "1x",  "x y",    "x=y",   "x,y",
                                         "x(", "[x]", "x\n",    "\xc3y", "x#",
                                         "-x", ".x",  "@EMPTY@" };
    fl_program *p = fl_program_of(&fl_ops);
    fl_tensor t = meta(1, 1);

    (void)state;
    for (size_t i = 0; i < FL_LEN(names); i++) {
        assert_int_equal(
            fl_block_add_var(fl_program_main(p), names[i], &t, 0, NULL),
            FL_ERR_INVAL);
        expect_said("is not a name");
    }
    assert_int_equal(count_vars(fl_program_main(p)), 0);
    fl_program_free(p);
}

static void a_name_is_given_once_per_block(void **state)
{
    fl_program *p = one_feed();
    fl_block *sub = fl_program_add_block(p, fl_program_main(p));
    fl_tensor t = meta(1, 1);

    (void)state;
    assert_int_equal(fl_block_add_var(fl_program_main(p), "x", &t, 0, NULL),
                     FL_ERR_EXISTS);
    expect_said("x exists already");
    assert_int_equal(fl_block_add_var(sub, "x", &t, 0, NULL), FL_OK);
    fl_program_free(p);
}

static void parameters_persist(void **state)
{
    fl_program *p = fl_program_of(&fl_ops);
    fl_tensor t = meta(2, 2);
    fl_var *v;

    (void)state;
    assert_int_equal(
        fl_block_add_var(fl_program_main(p), "w", &t, FL_VAR_PARAM, &v), FL_OK);
    assert_true(v->flags & FL_VAR_PERSIST);
    assert_true(v->lr == 1);
    fl_program_free(p);
}

static void a_removed_variable_is_gone(void **state)
{
    fl_program *p = fl_program_of(&fl_ops);
    fl_block *b = fl_program_main(p);
    fl_tensor t = meta(1, 1);
    fl_var *v[3];

    (void)state;
    assert_int_equal(fl_block_add_var(b, "a", &t, FL_VAR_DATA, &v[0]), FL_OK);
    assert_int_equal(fl_block_add_var(b, "b", &t, FL_VAR_DATA, &v[1]), FL_OK);
    assert_int_equal(fl_block_add_var(b, "c", &t, FL_VAR_DATA, &v[2]), FL_OK);
    fl_block_remove_var(b, v[2]);
    fl_block_remove_var(b, v[0]);
    assert_null(fl_block_find_var(b, "a"));
    expect_text(p, "var b : f32[1,1] data\n");
    assert_int_equal(fl_block_add_var(b, "a", &t, FL_VAR_DATA, NULL), FL_OK);
    expect_text(p, "var b : f32[1,1] data\nvar a : f32[1,1] data\n");
    fl_program_free(p);
}

static void a_fetch_is_listed_once(void **state)
{
    fl_program *p = one_feed();

    (void)state;
    assert_false(fl_program_is_fetched(p, "x"));
    fl_program_fetch(p, "x");
    fl_program_fetch(p, "x");
    assert_true(fl_program_is_fetched(p, "x"));
    expect_text(p, "var x : f32[-1,4] data\nfetch x\n");
    fl_program_free(p);
}

static void operators_are_inserted_and_removed_anywhere(void **state)
{
    fl_program *p = parse("var x : f32[2] data\n"
                          "op relu (X=x) -> (Out=a)\n"
                          "op relu (X=x) -> (Out=c)\n");
    fl_block *b = fl_program_main(p);
    fl_arg in = { "X", "x" }, out = { "Out", "b" };
    fl_op_spec spec = {
        .type = "tanh", .in = &in, .out = &out, .n_in = 1, .n_out = 1
    };
    uint64_t version = p->version;
    fl_op_node *n;

    (void)state;
    assert_int_equal(fl_block_insert(b, b->last, &spec, &n), FL_OK);
    assert_ptr_equal(b->first->next, n);
    assert_int_equal(b->n_ops, 3);
    assert_true(p->version > version);
    expect_text(p, "var x : f32[2] data\n"
                   "op relu (X=x) -> (Out=a)\n"
                   "op tanh (X=x) -> (Out=b)\n"
                   "op relu (X=x) -> (Out=c)\n");
    fl_block_remove(b, b->first);
    fl_block_remove(b, b->last);
    expect_text(p, "var x : f32[2] data\nop tanh (X=x) -> (Out=b)\n");
    assert_ptr_equal(b->first, b->last);
    fl_block_remove(b, n);
    assert_null(b->first);
    assert_null(b->last);
    assert_int_equal(b->n_ops, 0);
    fl_program_free(p);
}

static void expect_unchanged(fl_program *p, fl_status st, const char *before,
                             size_t n_vars)
{
    assert_int_not_equal(st, FL_OK);
    expect_text(p, before);
    assert_int_equal(count_vars(fl_program_main(p)), n_vars);
}

static void a_failed_append_leaves_the_program_as_it_was(void **state)
{
    fl_program *p = one_feed();
    char *before = fl_program_print(p);

    (void)state;
    expect_unchanged(
        p, append(p, "rellu", (fl_arg){ "X", "x" }, (fl_arg){ "Out", "y" }),
        before, 1);
    expect_unchanged(
        p, append(p, "relu", (fl_arg){ "Z", "x" }, (fl_arg){ "Out", "y" }),
        before, 1);
    expect_unchanged(
        p, append(p, "relu", (fl_arg){ "X", "q" }, (fl_arg){ "Out", "y" }),
        before, 1);
    expect_unchanged(
        p, append(p, "relu", (fl_arg){ "X", "x" }, (fl_arg){ "Out", "1y" }),
        before, 1);
    expect_unchanged(
        p, append(p, "mean", (fl_arg){ "X", "x" }, (fl_arg){ "Out", "x" }),
        before, 1);
    fl_free(before);
    fl_program_free(p);
}

static void a_bad_second_output_creates_no_first(void **state)
{
    fl_program *p = one_feed();
    fl_arg in = { "X", "x" };
    fl_arg out[] = { { "Out", "values" }, { "Indices", "1bad" } };
    fl_op_spec spec = {
        .type = "top_k", .in = &in, .out = out, .n_in = 1, .n_out = 2
    };
    char *before = fl_program_print(p);

    (void)state;
    expect_unchanged(p, fl_block_append(fl_program_main(p), &spec, NULL),
                     before, 1);
    fl_free(before);
    fl_program_free(p);
}

static void one_variable_for_two_outputs_is_refused(void **state)
{
    fl_program *p = one_feed();
    fl_arg in = { "X", "x" };
    fl_arg out[] = { { "Out", "y" }, { "Indices", "y" } };
    fl_op_spec spec = {
        .type = "top_k", .in = &in, .out = out, .n_in = 1, .n_out = 2
    };
    char *before = fl_program_print(p);

    (void)state;
    expect_unchanged(p, fl_block_append(fl_program_main(p), &spec, NULL),
                     before, 1);
    fl_free(before);
    fl_program_free(p);
}

static void attributes_are_converted_where_nothing_is_lost(void **state)
{
    fl_program *p = one_feed();
    fl_arg in = { "X", "x" }, out = { "Out", "y" };
    fl_named_attr two = { "scale", { .type = FL_ATTR_INT, .i = 2 } };
    fl_named_attr text = { "scale", { .type = FL_ATTR_STRING, .s = "2" } };
    fl_op_spec spec = { .type = "scale",
                        .in = &in,
                        .out = &out,
                        .n_in = 1,
                        .n_out = 1,
                        .attrs = &text,
                        .n_attrs = 1 };

    (void)state;
    assert_int_equal(fl_block_append(fl_program_main(p), &spec, NULL),
                     FL_ERR_TYPE);
    expect_said("attribute scale is of type float, not string");
    spec.attrs = &two;
    assert_int_equal(fl_block_append(fl_program_main(p), &spec, NULL), FL_OK);
    expect_text(p, "var x : f32[-1,4] data\n"
                   "op scale (X=x) -> (Out=y) {scale=2}\n");
    fl_program_free(p);
}

static void nodes_say_what_they_touch(void **state)
{
    fl_program *p = parse("var x : f32[2] data\n"
                          "op relu (X=x) -> (Out=y)\n"
                          "op relu_grad (X=x, Out=y, Out@GRAD=x) -> "
                          "(X@GRAD=g) @backward\n");
    fl_block *b = fl_program_main(p);
    const fl_op_node *relu = b->first, *grad = b->last;
    char text[FL_NODE_TEXT_MAX];

    (void)state;
    assert_true(fl_node_uses_var(relu, fl_block_find_var(b, "x")));
    assert_false(fl_node_uses_var(relu, fl_block_find_var(b, "y")));
    assert_true(fl_node_writes_var(relu, fl_block_find_var(b, "y")));
    assert_string_equal(fl_node_type(grad), "relu_grad");
    assert_int_equal(fl_node_n_in(grad), 3);
    assert_int_equal(fl_node_n_out(grad), 1);
    assert_string_equal(fl_node_in_name(grad, 2), "Out@GRAD");
    assert_string_equal(fl_node_out_name(grad, 0), "X@GRAD");
    assert_false(fl_node_reads(grad, 0)); /* X is there for its shape */
    assert_true(fl_node_reads(grad, 1));
    assert_true(fl_node_reads(grad, 2));
    assert_non_null(strstr(fl_node_text(grad, text), "relu_grad"));
    assert_non_null(strstr(fl_node_text(grad, text), "g"));
    fl_program_free(p);
}

/* --- verify --------------------------------------------------------------- */

static void reading_before_writing_is_found(void **state)
{
    fl_program *p = parse("var x : f32[2] data\n"
                          "op relu (X=x) -> (Out=y)\n"
                          "op relu (X=y) -> (Out=z)\n");
    fl_block *b = fl_program_main(p);

    (void)state;
    assert_int_equal(fl_program_verify(p), FL_OK);
    fl_block_remove(b, b->first);
    assert_int_equal(fl_program_verify(p), FL_ERR_INVAL);
    expect_said("op relu -> z reads y before any operator writes it");
    fl_program_free(p);
}

static void a_variable_that_is_gone_is_found(void **state)
{
    fl_program *p = parse("var x : f32[2] data\n"
                          "op relu (X=x) -> (Out=y)\n");
    fl_block *b = fl_program_main(p);

    (void)state;
    fl_block_remove_var(b, fl_block_find_var(b, "x"));
    assert_int_equal(fl_program_verify(p), FL_ERR_INVAL);
    expect_said("reads x, which is not in its block");
    fl_program_free(p);
}

static void shapes_that_no_longer_agree_are_found(void **state)
{
    fl_program *p = parse("var x : f32[2,3] data\n"
                          "op relu (X=x) -> (Out=y)\n");

    (void)state;
    fl_block_find_var(fl_program_main(p), "x")->meta.shape.dim[1] = 4;
    assert_int_equal(fl_program_verify(p), FL_ERR_INVAL);
    expect_said("op relu gives f32[2,4], but variable y is f32[2,3]");
    fl_program_free(p);
}

static void a_fetch_of_nothing_is_found(void **state)
{
    fl_program *p = one_feed();

    (void)state;
    fl_program_fetch(p, "y");
    assert_int_equal(fl_program_verify(p), FL_ERR_NOTFOUND);
    expect_said("fetched variable y does not exist");
    fl_program_free(p);
}

static void a_write_to_a_feed_is_found(void **state)
{
    fl_program *p = parse("var x : f32[2] data\n"
                          "op relu (X=x) -> (Out=y)\n");

    (void)state;
    fl_block_find_var(fl_program_main(p), "y")->flags |= FL_VAR_DATA;
    assert_int_equal(fl_program_verify(p), FL_ERR_INVAL);
    expect_said("writes y, which is fed");
    fl_program_free(p);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(generated_names_are_unique_by_prefix),
        cmocka_unit_test(two_programs_count_apart),
        cmocka_unit_test(bad_names_are_refused),
        cmocka_unit_test(a_name_is_given_once_per_block),
        cmocka_unit_test(parameters_persist),
        cmocka_unit_test(a_removed_variable_is_gone),
        cmocka_unit_test(a_fetch_is_listed_once),
        cmocka_unit_test(operators_are_inserted_and_removed_anywhere),
        cmocka_unit_test(a_failed_append_leaves_the_program_as_it_was),
        cmocka_unit_test(a_bad_second_output_creates_no_first),
        cmocka_unit_test(one_variable_for_two_outputs_is_refused),
        cmocka_unit_test(attributes_are_converted_where_nothing_is_lost),
        cmocka_unit_test(nodes_say_what_they_touch),
        cmocka_unit_test(reading_before_writing_is_found),
        cmocka_unit_test(a_variable_that_is_gone_is_found),
        cmocka_unit_test(shapes_that_no_longer_agree_are_found),
        cmocka_unit_test(a_fetch_of_nothing_is_found),
        cmocka_unit_test(a_write_to_a_feed_is_found),
    };

    return cmocka_run_group_tests_name("program", tests, NULL, NULL);
}
