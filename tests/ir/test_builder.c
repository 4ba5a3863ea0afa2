/* test_builder.c - operators that are collected part by part, and who makes
 * what. */
#include "kit.h"

#include "ir/builder.h"

static fl_program *two_feeds(void)
{
    return parse("var x : f32[-1,4] data\nvar y : f32[-1,4] data\n");
}

static const fl_var *var(const fl_program *p, const char *name)
{
    return fl_block_find_var(fl_program_main(p), name);
}

static void parts_become_an_operator(void **state)
{
    fl_program *p = two_feeds();
    fl_op_builder b = { .type = "scale", .role = FL_OP_ROLE_LR, .tag = 7 };
    fl_op_node *n;

    (void)state;
    fl_op_builder_in(&b, "X", var(p, "x"));
    fl_op_builder_float(&b, "scale", 2);
    fl_op_builder_bool(&b, "bias_after_scale", false);
    fl_op_builder_out_name(&b, "Out", "z");
    assert_int_equal(fl_op_builder_put(&b, fl_program_main(p), NULL, &n),
                     FL_OK);
    assert_int_equal(n->tag, 7);
    expect_text(p, "var x : f32[-1,4] data\n"
                   "var y : f32[-1,4] data\n"
                   "op scale (X=x) -> (Out=z) {scale=2, "
                   "bias_after_scale=false} @lr\n");
    fl_program_free(p);
}

/* A slot that nobody fills is not there, and an empty place in a list is. */
static void nothing_is_left_out_and_a_gap_in_a_list_is_kept(void **state)
{
    fl_program *p = parse("var x : f32[-1,4] data\nvar y : f32[-1,4] data\n"
                          "op sum (X=[x,y]) -> (Out=z)\n"
                          "var z@GRAD : f32[-1,4] data\n");
    fl_var *grads[] = { NULL, fl_block_find_var(fl_program_main(p), "y") };
    fl_op_builder b;

    (void)state;
    fl_op_builder_init_grad(&b, fl_program_main(p)->last);
    fl_op_builder_in(&b, "Out@GRAD", var(p, "z@GRAD"));
    fl_op_builder_in(&b, "Out", NULL);
    fl_op_builder_attr(&b, "no_such", NULL);
    fl_op_builder_outs(&b, "X@GRAD", (fl_args){ grads, 1 });
    fl_op_builder_out_name(&b, "X@GRAD", "y@GRAD");
    assert_int_equal(fl_op_builder_put(&b, fl_program_main(p), NULL, NULL),
                     FL_OK);
    assert_null(fl_program_main(p)->last->out[0].vars[0]);
    assert_string_equal(fl_program_main(p)->last->out[0].vars[1]->name,
                        "y@GRAD");
    fl_program_free(p);
}

static void what_is_like_another_has_its_attributes_and_role(void **state)
{
    fl_program *p = parse("var x : f32[-1,4] data\n"
                          "op scale (X=x) -> (Out=y) {scale=3} @optimize\n");
    fl_op_node *old = fl_program_main(p)->first;
    fl_op_builder b;

    (void)state;
    fl_op_builder_init_like(&b, old);
    assert_null(fl_op_builder_find_attr(&b, "no_such"));
    fl_op_builder_find_attr(&b, "bias")->f = 1;
    fl_op_builder_ins(&b, "X", old->in[0]);
    fl_op_builder_out_name(&b, "Out", "z");
    assert_int_equal(fl_op_builder_insert(&b, old, NULL), FL_OK);
    expect_text(p, "var x : f32[-1,4] data\n"
                   "op scale (X=x) -> (Out=z) {scale=3, bias=1} @optimize\n"
                   "op scale (X=x) -> (Out=y) {scale=3} @optimize\n");
    fl_program_free(p);
}

static void a_refused_operator_is_released_too(void **state)
{
    fl_program *p = two_feeds();
    fl_op_builder b = { .type = "no_such_operator" };

    (void)state;
    fl_op_builder_in(&b, "X", var(p, "x"));
    assert_int_not_equal(fl_op_builder_put(&b, fl_program_main(p), NULL, NULL),
                         FL_OK);
    assert_int_equal(b.in.len, 0);
    assert_null(fl_program_main(p)->first);
    fl_program_free(p);
}

static void who_makes_a_table_is_known_by_its_name(void **state)
{
    fl_program *p = parse("op init_table () -> () {table=a}\n"
                          "op init_table () -> () {table=b}\n");
    fl_op_node *a = fl_program_main(p)->first;
    fl_attr name = { .type = FL_ATTR_STRING, .s = "c" };

    (void)state;
    assert_ptr_equal(fl_program_maker(p, "a"), a);
    assert_ptr_equal(fl_program_maker(p, "b"), a->next);
    assert_null(fl_program_maker(p, "c"));
    assert_int_equal(fl_node_set_attr(a, "table", &name), FL_OK);
    assert_ptr_equal(fl_program_maker(p, "c"), a);
    assert_null(fl_program_maker(p, "a"));
    fl_block_remove(fl_program_main(p), a);
    assert_null(fl_program_maker(p, "c"));
    fl_program_free(p);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(parts_become_an_operator),
        cmocka_unit_test(nothing_is_left_out_and_a_gap_in_a_list_is_kept),
        cmocka_unit_test(what_is_like_another_has_its_attributes_and_role),
        cmocka_unit_test(a_refused_operator_is_released_too),
        cmocka_unit_test(who_makes_a_table_is_known_by_its_name),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
