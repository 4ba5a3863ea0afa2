/* test_block.c - programs built and read operator by operator. */
#include "api.h"

static fl_ctx *ctx;
static fl_program *program;
static fl_block *block;

static const fl_shape two_by_three = { .rank = 2, .dim = { 2, 3 } };
static const fl_shape three_by_two = { .rank = 2, .dim = { 3, 2 } };

static int open_block(void **state)
{
    (void)state;
    assert_ok(fl_ctx_new(&ctx));
    program = fl_default_main_program(ctx);
    block = fl_program_block(program, 0);
    return 0;
}

static int close_block(void **state)
{
    (void)state;
    fl_ctx_free(ctx);
    return 0;
}

static fl_var *make(const char *name, fl_shape shape)
{
    fl_var *v;

    assert_ok(fl_create_var(&v, block, name, .dtype = FL_DTYPE_F32,
                            .shape = shape, .is_data = true));
    return v;
}

static fl_op_node *add_relu(const char *x, const char *y)
{
    fl_op_node *n;

    assert_ok(fl_append_op(&n, block, "relu", .inputs = FL_ARGS({ "X", x }),
                           .outputs = FL_ARGS({ "Out", y })));
    return n;
}

static void expect_types(const char *const *types)
{
    const fl_op_node *n = NULL;

    while ((n = fl_block_next_op(block, n)) != NULL)
        assert_string_equal(fl_op_type(n), *types++);
    assert_null(*types);
}

/* --- variables ----------------------------------------------------------- */

static void a_variable_is_what_its_maker_said(void **state)
{
    fl_var_def def = { .size = sizeof(def) };
    fl_var *v;

    (void)state;
    assert_ok(fl_create_parameter(&v, block, "w", .dtype = FL_DTYPE_F64,
                                  .shape = three_by_two, .init = "constant(2)",
                                  .regularizer = "l2(0.1)", .clip = "norm(5)",
                                  .learning_rate = 0.5, .tag = 7));
    assert_ok(fl_var_look(v, &def));
    assert_true(def.is_parameter && def.persistable);
    assert_false(def.is_data || def.frozen || def.stop_gradient);
    assert_int_equal(def.dtype, FL_DTYPE_F64);
    assert_int_equal(def.shape.dim[1], 2);
    assert_string_equal(def.init, "constant(2)");
    assert_string_equal(def.regularizer, "l2(0.1)");
    assert_string_equal(def.clip, "norm(5)");
    assert_float_equal(def.learning_rate, 0.5, 0);
    assert_int_equal(def.tag, 7);
    assert_non_null(fl_program_var(fl_default_startup_program(ctx), "w"));
}

static void a_variable_changes_by_look_and_change(void **state)
{
    fl_var *v = make("x", two_by_three);
    fl_var_def def = { .size = sizeof(def) };

    (void)state;
    assert_ok(fl_var_look(v, &def));
    def.is_data = false;
    def.persistable = def.stop_gradient = true;
    def.shape = three_by_two;
    assert_ok(fl_var_change(v, &def));
    assert_ok(fl_var_look(v, &def));
    assert_true(def.persistable && def.stop_gradient && !def.is_data);
    assert_int_equal(fl_var_shape(v).dim[0], 3);
    def.init = "xavier";
    assert_int_equal(fl_var_change(v, &def), FL_ERR_INVAL);
    assert_said("is_parameter");
    def.is_parameter = true;
    def.init = "xavjer";
    def.lod_level = 0;
    assert_int_not_equal(fl_var_change(v, &def), FL_OK);
    assert_ok(fl_var_look(v, &def));
    assert_null(def.init);
    assert_false(def.is_parameter);
}

static void a_parameter_of_a_table_is_made_by_hand(void **state)
{
    fl_var_def def = FL_INIT(fl_var_def, .tag = 0);
    fl_var *v;

    (void)state;
    assert_int_equal(fl_create_parameter(&v, block, "w", .dtype = FL_DTYPE_F64,
                                         .shape = two_by_three,
                                         .is_table = true),
                     FL_ERR_INVAL);
    assert_said("init_table");
    assert_ok(fl_create_parameter(&v, block, "w", .dtype = FL_DTYPE_F32,
                                  .shape = two_by_three, .is_table = true));
    assert_ok(fl_var_look(v, &def));
    assert_true(def.is_table && def.is_parameter);
}

static void variables_are_listed_renamed_and_removed(void **state)
{
    fl_var *x = make("x", two_by_three), *made;

    (void)state;
    assert_ok(fl_create_var(&made, block, NULL, .dtype = FL_DTYPE_F32));
    add_relu("x", "y");
    assert_ptr_equal(fl_block_next_var(block, NULL), x);
    assert_ptr_equal(fl_block_next_var(block, x), made);
    assert_string_equal(fl_var_name(made), "_generated_var_0");
    assert_int_equal(fl_var_rename(x, "y"), FL_ERR_INVAL);
    assert_ok(fl_var_rename(x, "input"));
    assert_null(fl_block_var(block, "x"));
    assert_ptr_equal(fl_block_var(block, "input"), x);
    assert_int_equal(fl_var_remove(x), FL_ERR_INVAL);
    assert_said("op relu -> y");
    assert_ok(fl_var_remove(made));
    assert_string_equal(fl_var_name(fl_block_next_var(block, x)), "y");
}

/* --- blocks -------------------------------------------------------------- */

static void a_sub_block_sees_its_parents(void **state)
{
    fl_var *x = make("x", two_by_three);
    fl_block *sub, *below;

    (void)state;
    assert_ok(fl_block_new(&sub, block));
    assert_ok(fl_block_new(&below, sub));
    assert_int_equal(fl_program_n_blocks(program), 3);
    assert_int_equal(fl_block_index(below), 2);
    assert_ptr_equal(fl_block_parent(below), sub);
    assert_null(fl_block_parent(block));
    assert_null(fl_program_block(program, 3));
    assert_ptr_equal(fl_block_program(sub), program);
    assert_ptr_equal(fl_block_var(below, "x"), x);
    assert_ok(fl_append_op(NULL, below, "relu", .inputs = FL_ARGS({ "X", "x" }),
                           .outputs = FL_ARGS({ "Out", "y" })));
    assert_null(fl_block_var(sub, "y"));
    assert_ptr_equal(fl_var_block(fl_block_var(below, "y")), below);
    assert_int_equal(fl_block_n_ops(block), 0);
    assert_int_equal(fl_block_n_ops(below), 1);
}

/* --- operators ----------------------------------------------------------- */

static void an_operator_is_appended_by_its_names(void **state)
{
    fl_op_node *n;
    fl_attr a;
    size_t n_vars;

    (void)state;
    make("x", two_by_three);
    make("w", three_by_two);
    assert_ok(fl_append_op(&n, block, "mul",
                           .inputs = FL_ARGS({ "X", "x" }, { "Y", "w" }),
                           .outputs = FL_ARGS({ "Out", "y" }),
                           .attrs = FL_ATTRS(fl_int_attr("x_num_col_dims", 1)),
                           .role = FL_OP_ROLE_LR, .tag = 42));
    assert_int_equal(fl_var_shape(fl_block_var(block, "y")).dim[1], 2);
    assert_string_equal(fl_op_type(n), "mul");
    assert_int_equal(fl_op_tag(n), 42);
    assert_int_equal(fl_op_role_of(n), FL_OP_ROLE_LR);
    assert_string_equal(fl_op_slot_name(n, FL_OP_INPUTS, 1, &n_vars), "Y");
    assert_int_equal(n_vars, 1);
    assert_null(fl_op_slot_name(n, FL_OP_INPUTS, 2, NULL));
    assert_string_equal(fl_var_name(fl_op_var(n, FL_OP_OUTPUTS, 0, 0)), "y");
    assert_null(fl_op_var(n, FL_OP_OUTPUTS, 0, 1));
    assert_string_equal(fl_op_attr_name(n, 0), "x_num_col_dims");
    assert_ok(fl_op_attr(n, "x_num_col_dims", &a));
    assert_int_equal(a.type, FL_ATTR_INT);
    assert_int_equal(a.i, 1);
}

static void wrong_names_get_the_errors_of_layers(void **state)
{
    (void)state;
    make("x", two_by_three);
    assert_int_equal(fl_append_op(NULL, block, "rleu", .role = 0),
                     FL_ERR_NOTFOUND);
    assert_said("did you mean relu?");
    assert_int_equal(
        fl_append_op(NULL, block, "relu", .inputs = FL_ARGS({ "x", "x" })),
        FL_ERR_NOTFOUND);
    assert_said("op relu has no slot x; it has X");
    assert_int_equal(fl_append_op(NULL, block, "scale",
                                  .inputs = FL_ARGS({ "X", "x" }),
                                  .outputs = FL_ARGS({ "Out", "y" }),
                                  .attrs = FL_ATTRS(fl_float_attr("scal", 1))),
                     FL_ERR_NOTFOUND);
    assert_said("did you mean scale?");
    assert_int_equal(
        fl_append_op(NULL, block, "relu", .inputs = FL_ARGS({ "X", NULL })),
        FL_ERR_INVAL);
    assert_said("slot X has no variable");
    assert_int_equal(fl_block_n_ops(block), 0);
    assert_null(fl_block_var(block, "y"));
}

static void operators_are_inserted_moved_and_removed(void **state)
{
    fl_op_node *relu, *tanh;

    (void)state;
    make("x", two_by_three);
    relu = add_relu("x", "a");
    assert_ok(fl_append_op(&tanh, block, "tanh",
                           .inputs = FL_ARGS({ "X", "x" }),
                           .outputs = FL_ARGS({ "Out", "b" }), .before = relu));
    expect_types((const char *const[]){ "tanh", "relu", NULL });
    assert_ok(fl_op_move(tanh, NULL));
    expect_types((const char *const[]){ "relu", "tanh", NULL });
    assert_ok(fl_op_move(tanh, relu));
    assert_ok(fl_op_move(relu, relu));
    expect_types((const char *const[]){ "tanh", "relu", NULL });
    fl_op_remove(tanh);
    expect_types((const char *const[]){ "relu", NULL });
    assert_ok(fl_var_remove(fl_block_var(block, "b")));
}

static void a_change_that_does_not_fit_is_undone(void **state)
{
    fl_named_attr axis = fl_int_attr("axis", 7);
    fl_var *z = make("z", three_by_two);
    fl_op_node *n;
    fl_attr a;

    (void)state;
    make("x", two_by_three);
    make("y", two_by_three);
    assert_ok(fl_append_op(&n, block, "concat",
                           .inputs = FL_ARGS({ "X", "x" }, { "X", "y" }),
                           .outputs = FL_ARGS({ "Out", "o" }),
                           .attrs = FL_ATTRS(fl_int_attr("axis", 1))));
    assert_int_not_equal(fl_op_set_var(n, FL_OP_INPUTS, 0, 1, z), FL_OK);
    assert_string_equal(fl_var_name(fl_op_var(n, FL_OP_INPUTS, 0, 1)), "y");
    assert_ok(fl_op_set_var(n, FL_OP_INPUTS, 0, 1, fl_block_var(block, "x")));
    assert_int_not_equal(fl_op_set_attr(n, "axis", &axis.value), FL_OK);
    assert_ok(fl_op_attr(n, "axis", &a));
    assert_int_equal(a.i, 1);
    axis = fl_string_attr("axis", "rows");
    assert_int_equal(fl_op_set_attr(n, "axis", &axis.value), FL_ERR_TYPE);
    assert_said("of type int, not string");
}

static void copies_carry_the_tags(void **state)
{
    fl_program *test;
    fl_var_def def = { .size = sizeof(def) };

    (void)state;
    make("x", two_by_three);
    assert_ok(fl_append_op(NULL, block, "relu", .inputs = FL_ARGS({ "X", "x" }),
                           .outputs = FL_ARGS({ "Out", "y" }), .tag = 9));
    assert_ok(fl_create_var(NULL, block, "v", .persistable = true, .tag = 8));
    assert_ok(fl_program_copy(&test, program));
    assert_int_equal(
        fl_op_tag(fl_block_next_op(fl_program_block(test, 0), NULL)), 9);
    assert_ok(fl_var_look(fl_program_var(program, "v"), &def));
    assert_int_equal(def.tag, 8);
    fl_program_free(test);
}

/* --- what there is ------------------------------------------------------- */

static void every_operator_describes_itself(void **state)
{
    fl_operator_view op = { .size = sizeof(op) };
    fl_operator_slot slot = { .size = sizeof(slot) };
    fl_operator_attr attr = { .size = sizeof(attr) };
    size_t n = 0;

    (void)state;
    for (; !fl_operator_at(n, &op); n++) {
        for (size_t i = 0; i < op.n_inputs; i++)
            assert_ok(fl_operator_slot_at(op.name, FL_OP_INPUTS, i, &slot));
        for (size_t i = 0; i < op.n_outputs; i++)
            assert_ok(fl_operator_slot_at(op.name, FL_OP_OUTPUTS, i, &slot));
        for (size_t i = 0; i < op.n_attrs; i++)
            assert_ok(fl_operator_attr_at(op.name, i, &attr));
    }
    assert_true(n > 50);
    assert_ok(fl_operator_look("concat", &op));
    assert_true(op.has_gradient && !op.has_effect);
    assert_ok(fl_operator_slot_at("concat", FL_OP_INPUTS, 0, &slot));
    assert_true(slot.is_list && slot.has_gradient);
    assert_ok(fl_operator_attr_at("concat", 0, &attr));
    assert_string_equal(attr.name, "axis");
    assert_string_equal(attr.value, "0");
    assert_int_equal(fl_operator_look("cancat", &op), FL_ERR_NOTFOUND);
    assert_said("did you mean concat?");
    assert_int_equal(fl_operator_slot_at("concat", FL_OP_INPUTS, 2, &slot),
                     FL_ERR_NOTFOUND);
}

/* --- layers -------------------------------------------------------------- */

static void a_layer_blames_its_operator_and_no_line(void **state)
{
    fl_var *x = make("x", two_by_three);

    (void)state;
    assert_null(fl_layers_unary("scale", x, "{scal=2}"));
    assert_said("op scale has no attribute scal; did you mean scale?");
    assert_null(strstr(fl_last_error(), "line"));
    assert_null(fl_layers_unary("scale", x, "{scale=2"));
    assert_null(fl_layers_unary("scale", x, "{scale=2} rest"));
    assert_said("'rest' is too much");
    assert_non_null(fl_layers_unary("scale", x, "{scale=2}"));
}

static void a_layer_of_no_width_is_refused(void **state)
{
    (void)state;
    assert_null(fl_layers_fc(make("x", two_by_three), 0, ));
    assert_said("size 0 is not at least 1");
}

#define block_test(f)                                                          \
    cmocka_unit_test_setup_teardown(f, open_block, close_block)

int main(void)
{
    const struct CMUnitTest tests[] = {
        block_test(a_variable_is_what_its_maker_said),
        block_test(a_variable_changes_by_look_and_change),
        block_test(a_parameter_of_a_table_is_made_by_hand),
        block_test(variables_are_listed_renamed_and_removed),
        block_test(a_sub_block_sees_its_parents),
        block_test(an_operator_is_appended_by_its_names),
        block_test(wrong_names_get_the_errors_of_layers),
        block_test(operators_are_inserted_moved_and_removed),
        block_test(a_change_that_does_not_fit_is_undone),
        block_test(copies_carry_the_tags),
        block_test(every_operator_describes_itself),
        block_test(a_layer_blames_its_operator_and_no_line),
        block_test(a_layer_of_no_width_is_refused),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
