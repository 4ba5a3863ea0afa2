/* test_parse.c - texts that are no programs: what is wrong and in which
   line. */
#include "kit.h"

#define X "var x : f32[-1,4] data\n"

/* Each row: the text, and two things that the message says. What only shows
   when the program is seen as a whole has no line. */
static const struct {
    const char *text, *line, *why;
} bad[] = {
    /* names of operators, slots, attributes, variables, types, roles */
    { X "op rellu (X=x) -> (Out=y)", "line 2", "did you mean relu?" },
    { X "op zzzzzzzzzzzz (X=x) -> (Out=y)", "line 2",
      "no operator is called zzzzzzzzzzzz" },
    { X "op accuracy_grad () -> ()", "line 2",
      "operator accuracy has no gradient" },
    { X "op relu (Y=x) -> (Out=y)", "line 2", "op relu has no slot Y; it has" },
    { X "op relu (X=x) -> (Outt=y)", "line 2",
      "op relu has no slot Outt; it has Out" },
    { X "op scale (X=x) -> (Out=y) {scal=2}", "line 2",
      "op scale has no attribute scal; did you mean scale?" },
    { X "op scale (X=x) -> (Out=y) {qqqqqqqq=2}", "line 2",
      "op scale has no attribute qqqqqqqq" },
    { X "op relu (X=z) -> (Out=y)", "line 2",
      "op relu: slot X names variable z, which does not exist" },
    { "var x : f33[2] data", "line 1", "'f33' is no type" },
    { X "op relu (X=x) -> (Out=y) @sideways", "line 2",
      "'sideways' is no role" },
    { X X, "line 2", "variable x exists already" },
    { "var 1x : f32[2] data", "line 1", "'1x' is not a name" },
    { "var x$ : f32[2] data", "line 1", "'x$' is not a name" },
    { "var @EMPTY@ : f32[2] data", "line 1", "'@EMPTY@' is not a name" },
    { X "op relu (X=x) -> (Out=2y)", "line 2", "'2y' is not a name" },
    { "var x : f32[2] dta", "line 1", "'dta' says nothing about a variable" },
    { "var x : f32[2] size=3", "line 1", "'size=' says nothing" },

    /* what does not fit */
    { X "op relu (X=[x,x]) -> (Out=y)", "line 2",
      "op relu: slot X takes one variable, got 2" },
    { X "op relu () -> (Out=y)", "line 2", "op relu: slot X is missing" },
    { X "op relu (X=x) -> ()", "line 2", "op relu: slot Out is missing" },
    { X "op scale (X=x) -> (Out=y) {scale=much}", "line 2",
      "attribute scale: 'much' is not a value of type float" },
    { X "op concat (X=x) -> (Out=y) {axis=1.5}", "line 2",
      "attribute axis: '1.5' is not a value of type int" },
    { X "op concat (X=x) -> (Out=y) {axis=}", "line 2",
      "expected a value before '}'" },
    { X "var y : f32[3,2] data\nop mul (X=x, Y=y) -> (Out=z)", "line 3",
      "[-1,4]" },
    { X "var y : f32[3,2] data\nop mul (X=x, Y=y) -> (Out=z)", "op mul",
      "[3,2]" },
    { X "var y : f32[-1,5] declared\nop relu (X=x) -> (Out=y)", "line 3",
      "op relu gives f32[-1,4], but variable y is f32[-1,5]" },
    { X "var y : f64[-1,4] declared\nop relu (X=x) -> (Out=y)", "line 3",
      "op relu gives f32[-1,4], but variable y is f64[-1,4]" },
    { "var x : f32[2,4] rows persist\nop relu (X=x) -> (Out=y)", "line 2",
      "slot X takes dense values, but x holds rows" },
    { X "op top_k (X=x) -> (Out=y, Indices=y)", "line 2",
      "op top_k: variable y is two of its outputs" },
    { X "op relu (X=x) -> (Out=x)", "", "writes x, which is fed" },
    { X "var y : f32[2]\nop relu (X=y) -> (Out=z)", "",
      "reads y before any operator writes it" },
    { X "fetch y", "", "fetched variable y does not exist" },

    /* bad numbers */
    { "seed many", "line 1", "expected a number before 'many'" },
    { "var x : f32[a] data", "line 1", "expected a dimension before 'a]" },
    { "var x : f32[-2] data", "line 1", "expected a dimension" },
    { "var x : f32[1,2,3,4,5,6,7,8,9,10] data", "line 1",
      "at most 9 dimensions" },
    { "var x : f32[99999999999999999999] data", "line 1",
      "expected a dimension" },
    { "var x : f32[1.5] data", "line 1", "expected ']' before '.5]" },
    { "var x : f32[2] lod=5 data", "line 1", "lod=5 is not in 1..4" },
    { "param w : f32[2] lr=fast", "line 1", "lr=fast is no number" },
    { "param w : f32[2] init=unifrom(0,1)", "line 1",
      "'unifrom' is no initialiser" },
    { "param w : f32[2] init=uniform(0)", "line 1", "needs 2 numbers, got 1" },
    { "param w : f32[2] regularizer=l2(a)", "line 1", "name(number,...)" },
    { "param w : f32[2] clip=norm(1", "line 1", "name(number,...)" },
    { "block 2 parent 0", "line 1", "blocks are numbered in order" },
    { "block 1 parent 1", "line 1", "blocks are numbered in order" },
    { "block one parent 0", "line 1", "expected a number before 'one" },

    /* garbage and lines that end too early */
    { "accumulate 0", "line 1", "1 to 65536 batches" },
    { "accumulate 65537", "line 1", "1 to 65536 batches" },
    { "hello", "line 1",
      "expected var, param, op, fetch, seed, "
      "accumulate, block or end" },
    { "variable x : f32[2]", "line 1", "before 'variable x" },
    { "var", "line 1", "expected var" },
    { "var ", "line 1", "expected a name" },
    { "var x", "line 1", "expected ':'" },
    { "var x :", "line 1", "expected a type" },
    { "var x : f32", "line 1", "expected '['" },
    { "var x : f32[", "line 1", "expected a dimension" },
    { "var x : f32[2", "line 1", "expected ']'" },
    { X "op", "line 2", "expected var" },
    { X "op ", "line 2", "expected an operator" },
    { X "op relu", "line 2", "expected '('" },
    { X "op relu (", "line 2", "expected a slot" },
    { X "op relu (X", "line 2", "expected '='" },
    { X "op relu (X=", "line 2", "expected a variable" },
    { X "op relu (X=x", "line 2", "expected ')'" },
    { X "op relu (X=[x", "line 2", "expected ']'" },
    { X "op relu (X=x)", "line 2", "expected '->'" },
    { X "op relu (X=x) ->", "line 2", "expected '('" },
    { X "op relu (X=x) -> (Out=y", "line 2", "expected ')'" },
    { X "op scale (X=x) -> (Out=y) {", "line 2", "expected an attribute" },
    { X "op scale (X=x) -> (Out=y) {scale", "line 2", "expected '='" },
    { X "op scale (X=x) -> (Out=y) {scale=2", "line 2", "expected a value" },
    { X "op print (In=x) -> (Out=y) {message=\"a}", "line 2",
      "expected a value" },
    { X "op relu (X=x) -> (Out=y) @", "line 2", "expected a role" },
    { X "op relu (X=x) -> (Out=y) and more", "line 2", "'and more' is too" },
    { X "fetch ", "line 2", "expected a variable" },
    { "seed ", "line 1", "expected a number" },
    { "seed 1 2", "line 1", "'2' is too much" },
    { "end of it", "line 1", "'of it' is too much" },
    { "block 1", "line 1", "expected 'parent'" },
    { "\x01\x02\xff\xfe", "line 1", "expected var" },
    { "var \xff\xfe : f32[2] data", "line 1", "is not a name" },
    { X "op \x80\x81 (X=x) -> (Out=y)", "line 2", "no operator is called" },
    { X "op relu (X=x) -> (Out=\xc3\xa4)", "line 2", "is not a name" },
    { "var x : f32[2] data\r\n", "line 1", "expected a word" },
};

static void expect_bad(const char *text, const char *line, const char *why)
{
    fl_program *untouched = (fl_program *)text, *p = untouched;
    fl_status st = fl_program_parse(text, &fl_ops, &p);

    if (!st)
        fail_msg("'%s' was accepted", text);
    assert_ptr_equal(p, untouched);
    if (*line)
        expect_said("program text: ");
    expect_said(line);
    expect_said(why);
}

static void each_bad_text_is_refused_with_line_and_reason(void **state)
{
    (void)state;
    for (size_t i = 0; i < FL_LEN(bad); i++)
        expect_bad(bad[i].text, bad[i].line, bad[i].why);
}

static char *repeat(const char *head, char c, size_t n, const char *tail)
{
    fl_str s = { 0 };
    char *run = fl_alloc(n + 1);

    memset(run, c, n);
    fl_str_addf(&s, "%s%s%s", head, run, tail);
    fl_free(run);
    return fl_str_take(&s);
}

static void very_long_words_are_refused(void **state)
{
    static const size_t sizes[] = { 1025, 5000, 1 << 20 };

    (void)state;
    for (size_t i = 0; i < FL_LEN(sizes); i++) {
        char *name = repeat("var ", 'a', sizes[i], " : f32[2] data");
        char *op = repeat(X "op ", 'a', sizes[i], " (X=x) -> (Out=y)");
        char *junk = repeat("", 'z', sizes[i], "");
        char *dims = repeat("var x : f32[", '1', sizes[i], "] data");

        expect_bad(name, "line 1", "expected a name");
        expect_bad(op, "line 2", "expected an operator");
        expect_bad(junk, "line 1", "expected var");
        expect_bad(dims, "line 1", "");
        fl_free(name);
        fl_free(op);
        fl_free(junk);
        fl_free(dims);
    }
}

static void a_name_of_the_longest_length_is_fine(void **state)
{
    char *text = repeat("var ", 'a', 1024, " : f32[2] data\n");
    fl_program *p = parse(text);

    (void)state;
    expect_text(p, text);
    fl_program_free(p);
    fl_free(text);
}

static void a_long_line_of_spaces_is_fine(void **state)
{
    char *text = repeat("var x :", ' ', 1 << 20, "f32[2] data\n");
    fl_program *p = parse(text);

    (void)state;
    expect_text(p, "var x : f32[2] data\n");
    fl_program_free(p);
    fl_free(text);
}

/* Whatever the bytes: an answer, and never a crash. */
static void a_changed_byte_is_accepted_or_refused(void **state)
{
    static const char good[] =
        "seed 3\n"
        "var x : i64[-1,1] lod=1 data\n"
        "param w : f32[10,4] init=uniform(-1,1) lr=2 trainable\n"
        "op lookup_table (W=w, Ids=x) -> (Out=e) {is_sparse=true}\n"
        "op sequence_pool (X=e) -> (Out=s, MaxIndex=m) {pooltype=SUM}\n"
        "op print (In=s) -> (Out=t) {message=\"a b\"}\n"
        "block 1 parent 0\n  op relu (X=s) -> (Out=r)\nend\n"
        "fetch s\n";
    static const char bytes[] = "\x01\xff \t\n\"\\{}[]()=,@#-0919az";
    char text[sizeof(good)];
    fl_program *p;

    (void)state;
    for (size_t at = 0; at + 1 < sizeof(good); at++)
        for (size_t k = 0; k < sizeof(bytes); k++) {
            memcpy(text, good, sizeof(good));
            text[at] = bytes[k]; /* the last one cuts the text */
            p = NULL;
            if (fl_program_parse(text, &fl_ops, &p) == FL_OK)
                assert_non_null(p);
            fl_program_free(p);
        }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(each_bad_text_is_refused_with_line_and_reason),
        cmocka_unit_test(very_long_words_are_refused),
        cmocka_unit_test(a_name_of_the_longest_length_is_fine),
        cmocka_unit_test(a_long_line_of_spaces_is_fine),
        cmocka_unit_test(a_changed_byte_is_accepted_or_refused),
    };

    return cmocka_run_group_tests_name("parse", tests, NULL, NULL);
}
