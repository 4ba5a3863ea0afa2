/* test_pass.c - runs the cases of one file of program texts.
 *
 *     case: a sentence
 *     the program
 *     ---- changed          or    ---- same
 *     the program after the pass
 *
 * The name of the file is that of the pass; pipeline.test runs all of them. A line
 * "precision: ALLOW; DENY" before the program asks for bf16 with these lists.
 * Besides the text, every case checks that the result verifies, that it reads
 * back as the same text, and that a second run leaves it alone. */
#include "case_kit.h"

#include "ops/ops.h"
#include "pass/pass.h"

#define PIPELINE "pipeline"

typedef struct pass_case {
    text_case head; /* its pass may be PIPELINE */
    fl_str before, after;
    bool changes, has_verdict;
    fl_precision precision;
} pass_case;

static void read_precision(pass_case *c, const char *lists)
{
    size_t len = strcspn(lists, ";");
    char *allow = fl_strdup(lists);

    assert_int_equal(lists[len], ';');
    allow[len] = '\0';
    c->precision = (fl_precision){ true, allow, fl_strdup(lists + len + 1) };
}

static void read_line(void *arg, const char *line)
{
    pass_case *c = arg;
    const char *lists = after_prefix(line, "precision:");

    if (lists) {
        read_precision(c, lists);
    } else if (!strcmp(line, "---- changed") || !strcmp(line, "---- same")) {
        c->has_verdict = true;
        c->changes = !strcmp(line, "---- changed");
    } else {
        fl_str_addf(c->has_verdict ? &c->after : &c->before, "%s\n", line);
    }
}

static void release(void *arg)
{
    pass_case *c = arg;

    fl_str_release(&c->before);
    fl_str_release(&c->after);
    fl_precision_release(&c->precision);
}

/* --- running one case ----------------------------------------------------- */

static fl_program *parse(const char *text)
{
    fl_program *p = NULL;

    if (fl_program_parse(text, &fl_ops, &p))
        fail_msg("%s", fl_last_error());
    return p;
}

static void run_pass(const pass_case *c, fl_program *p, bool *changed)
{
    fl_pass_options all = { .optimize = true, .precision = c->precision };
    const char *pass = c->head.pass;
    const fl_pass *one = fl_pass_find(pass);
    uint64_t version = p->version;
    fl_status st;

    if (!strcmp(pass, PIPELINE)) {
        st = fl_passes_run(p, &all);
        *changed = p->version != version;
    } else {
        assert_non_null(one);
        st = one->mark ? one->mark(p, &c->precision, changed)
                       : one->run(p, changed);
    }
    if (st)
        fail_msg("%s", fl_last_error());
}

static void expect_text(const fl_program *p, const char *want)
{
    char *text = fl_program_print(p);

    assert_string_equal(text, want);
    fl_free(text);
}

static void reads_back_as_itself(const fl_program *p)
{
    char *text = fl_program_print(p);
    fl_program *q = parse(text);

    expect_text(q, text);
    fl_program_free(q);
    fl_free(text);
}

static void stays_the_same(const pass_case *c, fl_program *p)
{
    char *text = fl_program_print(p);
    bool changed = false;

    run_pass(c, p, &changed);
    expect_text(p, text);
    assert_false(changed);
    fl_free(text);
}

/* A program that has to stay the same may be written in any way. */
static void runs_as_written(void **state)
{
    const pass_case *c = *state;
    bool changed = false;
    fl_program *p;
    char *before;

    assert_true(c->has_verdict);
    assert_int_equal(c->changes, c->after.len > 0);
    p = parse(fl_str_text(&c->before));
    before = fl_program_print(p);
    run_pass(c, p, &changed);
    expect_text(p, c->changes ? fl_str_text(&c->after) : before);
    assert_int_equal(changed, c->changes);
    if (fl_program_verify(p))
        fail_msg("%s", fl_last_error());
    reads_back_as_itself(p);
    stays_the_same(c, p);
    fl_free(before);
    fl_program_free(p);
}

int main(int argc, char **argv)
{
    static const case_kind kind = { sizeof(pass_case), read_line, release,
                                    runs_as_written };

    return cases_main(&kind, argc, argv);
}
