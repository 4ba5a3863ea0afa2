/* test_dot.c - a drawing shows what a program does, and what is equal once. */
#include "kit.h"

#include "ir/graph.h"

static size_t count(const char *text, const char *part)
{
    size_t n = 0;

    for (text = strstr(text, part); text; text = strstr(text + 1, part))
        n++;
    return n;
}

static char *draw(const fl_program *p)
{
    return fl_programs_dot(&(fl_drawn_program){ .program = p }, 1);
}

static void expect_part(const char *text, const char *part)
{
    if (!strstr(text, part))
        fail_msg("'%s' is not in\n%s", part, text);
}

/* Boxes of operators of a type, and how many operators they stand for. */
static size_t boxes_of(const fl_graph *g, const char *type, size_t *n_ops)
{
    size_t n = 0;

    *n_ops = 0;
    for (size_t i = 0; i < g->boxes.len; i++) {
        const fl_box *b = &g->boxes.data[i];

        if (b->kind != FL_BOX_OP ||
            strcmp(fl_node_type(b->nodes.data[0]), type))
            continue;
        n++;
        *n_ops += b->nodes.len;
    }
    return n;
}

static void expect_boxes(const fl_graph *g, const char *type, size_t n_boxes,
                         size_t n_ops)
{
    size_t n;

    assert_int_equal(boxes_of(g, type, &n), n_boxes);
    assert_int_equal(n, n_ops);
}

static size_t boxes_of_kind(const fl_graph *g, fl_box_kind kind)
{
    size_t n = 0;

    for (size_t i = 0; i < g->boxes.len; i++)
        n += g->boxes.data[i].kind == kind;
    return n;
}

static void an_empty_program_is_an_empty_drawing(void **state)
{
    fl_program *p = parse("");
    char *text = draw(p);

    (void)state;
    assert_int_equal(count(text, "[id="), 0);
    assert_int_equal(count(text, "cluster"), 0);
    fl_free(text);
    fl_program_free(p);
}

static const char small[] =
    "var x : f32[-1,4] data\n"
    "param w : f32[4,2] init=xavier trainable\n"
    "op mul (X=x, Y=w) -> (Out=t)\n"
    "op relu (X=t) -> (Out=a)\n"
    "op tanh (X=t) -> (Out=b)\n"
    "op elementwise_add (X=a, Y=b) -> (Out=y)\n"
    "op relu_grad (X=t, Out=a, Out@GRAD=y) -> (X@GRAD=g) @backward\n"
    "fetch y\n";

static void operators_inputs_parameters_and_targets_are_boxes(void **state)
{
    fl_program *p = parse(small);
    fl_graph g;

    (void)state;
    fl_graph_init(&g, p);
    assert_int_equal(boxes_of_kind(&g, FL_BOX_OP), 5);
    assert_int_equal(boxes_of_kind(&g, FL_BOX_INPUT), 1);
    assert_int_equal(boxes_of_kind(&g, FL_BOX_STATE), 1);
    assert_int_equal(boxes_of_kind(&g, FL_BOX_FETCH), 1);
    /* x and w to mul, t twice, a, b, y twice, and a once more: relu's gradient
       needs its output, not its input. */
    assert_int_equal(g.lines.len, 9);
    fl_graph_release(&g);
    fl_program_free(p);
}

static void boxes_have_links_tooltips_and_colours_by_role(void **state)
{
    fl_program *p = parse(small);
    char *text = draw(p);

    (void)state;
    expect_part(text, "<b>forward</b>");
    expect_part(text, "<b>backward</b>");
    expect_part(text, "id=\"p0_2\", URL=\"#p0_2\"");
    expect_part(text, "tooltip=\"op relu (X=t) -> (Out=a)\"");
    expect_part(text, "label=\"f32[-1,2]\"");
    expect_part(text, "<b>relu_grad</b>");
    assert_int_equal(count(text, "#dcebff"), 4); /* forward */
    assert_int_equal(count(text, "#ffe6d2"), 1); /* backward */
    assert_int_equal(count(text, "<b>update</b>"), 0);
    fl_free(text);
    fl_program_free(p);
}

/* n ids of one table, summed, and a label of the same shape as the ids. */
static fl_program *lookups(int n, const char *table)
{
    fl_str text = { 0 }, list = { 0 };
    fl_program *p;

    for (int i = 0; i < n; i++)
        fl_str_addf(&text, "var C%d : i64[-1,1] data\n", i);
    fl_str_add(&text, "var label : i64[-1,1] data\n");
    for (int i = 0; i < (strchr(table, '%') ? n : 1); i++) {
        char name[32];

        snprintf(name, sizeof(name), "emb_%d", i);
        fl_str_addf(&text, "param %s : f32[100,8] init=xavier trainable\n",
                    strchr(table, '%') ? name : table);
    }
    for (int i = 0; i < n; i++) {
        char name[32];

        snprintf(name, sizeof(name), "emb_%d", i);
        fl_str_addf(&text, "op lookup_table (W=%s, Ids=C%d) -> (Out=e%d)\n",
                    strchr(table, '%') ? name : table, i, i);
        fl_str_addf(&list, "%se%d", i ? "," : "", i);
    }
    fl_str_addf(&text, "op sum (X=[%s]) -> (Out=s)\n", list.data);
    fl_str_add(&text, "op cast (X=label) -> (Out=z) {out_dtype=f32}\n");
    p = parse(text.data);
    fl_str_release(&text);
    fl_str_release(&list);
    return p;
}

static void lookups_of_one_table_are_one_box_with_a_count(void **state)
{
    fl_program *p = lookups(26, "emb");
    char *text = draw(p);
    fl_graph g;

    (void)state;
    fl_graph_init(&g, p);
    expect_boxes(&g, "lookup_table", 1, 26);
    /* The ids, and the label, which something else reads. */
    assert_int_equal(boxes_of_kind(&g, FL_BOX_INPUT), 2);
    expect_part(text, "<b>lookup_table</b> x 26");
    expect_part(text, "label=\"26 x f32[-1,8]\"");
    expect_part(text, "... and 14 more");
    fl_graph_release(&g);
    fl_free(text);
    fl_program_free(p);
}

static void lookups_of_tables_of_one_family_are_one_box(void **state)
{
    fl_program *p = lookups(26, "emb_%d");
    fl_graph g;

    (void)state;
    fl_graph_init(&g, p);
    expect_boxes(&g, "lookup_table", 1, 26);
    assert_int_equal(boxes_of_kind(&g, FL_BOX_STATE), 1);
    fl_graph_release(&g);
    fl_program_free(p);
}

static void two_of_a_kind_stay_two(void **state)
{
    fl_program *p = lookups(2, "emb");
    fl_graph g;

    (void)state;
    fl_graph_init(&g, p);
    expect_boxes(&g, "lookup_table", 2, 2);
    fl_graph_release(&g);
    fl_program_free(p);
}

static void a_chain_of_equal_operators_is_not_folded(void **state)
{
    fl_str text = { 0 };
    fl_program *p;
    fl_graph g;

    (void)state;
    fl_str_add(&text, "var v0 : f32[2] data\n");
    for (int i = 0; i < 200; i++)
        fl_str_addf(&text, "op relu (X=v%d) -> (Out=v%d)\n", i, i + 1);
    p = parse(text.data);
    fl_graph_init(&g, p);
    expect_boxes(&g, "relu", 200, 200);
    assert_int_equal(g.lines.len, 200);
    fl_graph_release(&g);
    fl_program_free(p);
    fl_str_release(&text);
}

static void updates_are_one_box_whatever_they_update(void **state)
{
    fl_program *p =
        parse("var x : f32[-1,4] data\n"
              "param a : f32[4,2] init=xavier trainable\n"
              "param b : f32[2] init=xavier trainable\n"
              "var rate : f32[1] persist\n"
              "op mul (X=x, Y=a) -> (Out=t)\n"
              "op elementwise_add (X=t, Y=b) -> (Out=y)\n"
              "op elementwise_add_grad (X=t, Y=b, Out@GRAD=y) -> (X@GRAD=dt, "
              "Y@GRAD=db) @backward\n"
              "op mul_grad (X=x, Y=a, Out@GRAD=dt) -> (Y@GRAD=da) @backward\n"
              "op sgd (Param=a, Grad=da, LearningRate=rate) -> (ParamOut=a) "
              "@optimize\n"
              "op sgd (Param=b, Grad=db, LearningRate=rate) -> (ParamOut=b) "
              "@optimize\n");
    char *text = draw(p);
    fl_graph g;

    (void)state;
    fl_graph_init(&g, p);
    expect_boxes(&g, "sgd", 1, 2);
    expect_part(text, "<b>sgd</b> x 2");
    expect_part(text, "<b>update</b>");
    fl_graph_release(&g);
    fl_free(text);
    fl_program_free(p);
}

static void what_the_first_program_does_not_have_stands_out(void **state)
{
    fl_program *before = parse("var x : f32[2] data\n"
                               "op relu (X=x) -> (Out=y)\n");
    fl_program *after = parse("var x : f32[2] data\n"
                              "op relu (X=x) -> (Out=y)\n"
                              "op tanh (X=y) -> (Out=z)\n");
    const fl_drawn_program both[] = { { before, "before" }, { after, "a<b" } };
    char *text = fl_programs_dot(both, 2);

    (void)state;
    expect_part(text, "label=<<b>before</b>>");
    expect_part(text, "label=<<b>a&lt;b</b>>");
    assert_int_equal(count(text, "penwidth=2.5"), 1);
    assert_int_equal(count(text, "<b>relu</b>"), 2);
    fl_free(text);
    fl_program_free(before);
    fl_program_free(after);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(an_empty_program_is_an_empty_drawing),
        cmocka_unit_test(operators_inputs_parameters_and_targets_are_boxes),
        cmocka_unit_test(boxes_have_links_tooltips_and_colours_by_role),
        cmocka_unit_test(lookups_of_one_table_are_one_box_with_a_count),
        cmocka_unit_test(lookups_of_tables_of_one_family_are_one_box),
        cmocka_unit_test(two_of_a_kind_stay_two),
        cmocka_unit_test(a_chain_of_equal_operators_is_not_folded),
        cmocka_unit_test(updates_are_one_box_whatever_they_update),
        cmocka_unit_test(what_the_first_program_does_not_have_stands_out),
    };

    return cmocka_run_group_tests_name("dot", tests, NULL, NULL);
}
