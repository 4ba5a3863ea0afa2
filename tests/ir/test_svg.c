/* test_svg.c - the drawing is well-formed and shows every operator. */
#include "kit.h"

#define DEPTH_MAX 16

/* Walks the tags: each closing one must fit the innermost open one. */
static void expect_well_formed(const char *svg)
{
    char open[DEPTH_MAX][32];
    int depth = 0, elements = 0;

    for (const char *at = strchr(svg, '<'); at; at = strchr(at, '<')) {
        const char *end = strchr(at, '>');
        bool closes = at[1] == '/';
        char name[32] = { 0 };

        assert_non_null(end);
        assert_ptr_equal(memchr(at + 1, '<', (size_t)(end - at - 1)), NULL);
        sscanf(at + 1 + closes, "%31[a-z]", name);
        assert_true(*name);
        elements++;
        if (closes)
            assert_string_equal(open[--depth], name);
        else if (end[-1] != '/') {
            assert_true(depth < DEPTH_MAX);
            snprintf(open[depth++], sizeof(open[0]), "%s", name);
        }
        assert_true(depth > 0 || !end[1] || end[1] == '\n');
        at = end;
    }
    assert_int_equal(depth, 0);
    assert_true(elements > 1);
}

static size_t count(const char *text, const char *part)
{
    size_t n = 0;

    for (text = strstr(text, part); text; text = strstr(text + 1, part))
        n++;
    return n;
}

static void an_empty_program_is_an_empty_drawing(void **state)
{
    fl_program *p = parse("");
    char *svg = fl_program_svg(p);

    (void)state;
    expect_well_formed(svg);
    assert_int_equal(count(svg, "<rect"), 0);
    fl_free(svg);
    fl_program_free(p);
}

static void every_operator_is_a_box_and_every_use_a_line(void **state)
{
    fl_program *p = parse("var x : f32[-1,4] data\n"
                          "param w : f32[4,2] init=xavier trainable\n"
                          "op mul (X=x, Y=w) -> (Out=t)\n"
                          "op relu (X=t) -> (Out=a)\n"
                          "op tanh (X=t) -> (Out=b)\n"
                          "op elementwise_add (X=a, Y=b) -> (Out=y)\n"
                          "op relu_grad (X=t, Out=a, Out@GRAD=y) -> (X@GRAD=g) "
                          "@backward\n");
    char *svg = fl_program_svg(p);

    (void)state;
    expect_well_formed(svg);
    assert_int_equal(count(svg, "<rect"), 5);
    assert_int_equal(count(svg, "<path"), 7);
    assert_non_null(strstr(svg, ">elementwise_add<"));
    assert_non_null(strstr(svg, ">relu_grad<"));
    assert_int_equal(strncmp(svg, "<svg xmlns=", 11), 0);
    fl_free(svg);
    fl_program_free(p);
}

static void a_long_chain_is_drawn(void **state)
{
    fl_str text = { 0 };
    fl_program *p;
    char *svg;

    (void)state;
    fl_str_add(&text, "var v0 : f32[2] data\n");
    for (int i = 0; i < 200; i++)
        fl_str_addf(&text, "op relu (X=v%d) -> (Out=v%d)\n", i, i + 1);
    p = parse(text.data);
    svg = fl_program_svg(p);
    expect_well_formed(svg);
    assert_int_equal(count(svg, "<rect"), 200);
    assert_int_equal(count(svg, "<path"), 199);
    fl_free(svg);
    fl_program_free(p);
    fl_str_release(&text);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(an_empty_program_is_an_empty_drawing),
        cmocka_unit_test(every_operator_is_a_box_and_every_use_a_line),
        cmocka_unit_test(a_long_chain_is_drawn),
    };

    return cmocka_run_group_tests_name("svg", tests, NULL, NULL);
}
