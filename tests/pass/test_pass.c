/* test_pass.c - runs the cases of one file of program texts.
 *
 *     case: a sentence
 *     the program
 *     ---- changed          or    ---- same
 *     the program after the pass
 *
 * The name of the file is that of the pass; pipeline.test runs all of them.
 * Besides the text, every case checks that the result verifies, that it reads
 * back as the same text, and that a second run leaves it alone. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <libgen.h>
#include <stdio.h>
#include <string.h>

#include "base/file.h"
#include "base/vec.h"
#include "ops/ops.h"
#include "pass/pass.h"

#define FILE_MAX_BYTES (1 << 20)
#define PIPELINE "pipeline"

typedef struct pass_case {
    const char *pass; /* its name, or PIPELINE */
    char *name;
    fl_str before, after;
    bool changes, has_verdict;
} pass_case;

typedef FL_VEC(pass_case) case_vec;

/* --- reading the file ----------------------------------------------------- */

static const char *after_prefix(const char *line, const char *prefix)
{
    size_t n = strlen(prefix);

    return strncmp(line, prefix, n) ? NULL : line + n;
}

/* Comments may stand before the first case, empty lines anywhere. */
static void read_line(case_vec *cases, const char *pass, const char *line)
{
    pass_case *c = cases->len ? &cases->data[cases->len - 1] : NULL;
    const char *name = after_prefix(line, "case: ");

    if (name) {
        pass_case fresh = { .pass = pass, .name = fl_strdup(name) };

        fl_vec_push(cases, fresh);
    } else if (!*line) {
        return;
    } else if (!c) {
        if (*line != '#')
            fail_msg("'%s' stands before the first case", line);
    } else if (!strcmp(line, "---- changed") || !strcmp(line, "---- same")) {
        c->has_verdict = true;
        c->changes = !strcmp(line, "---- changed");
    } else {
        fl_str_addf(c->has_verdict ? &c->after : &c->before, "%s\n", line);
    }
}

static void read_cases(case_vec *cases, const char *pass, char *text)
{
    char *line;

    while ((line = strsep(&text, "\n")))
        read_line(cases, pass, line);
}

static void release_cases(case_vec *cases)
{
    for (size_t i = 0; i < cases->len; i++) {
        fl_free(cases->data[i].name);
        fl_str_release(&cases->data[i].before);
        fl_str_release(&cases->data[i].after);
    }
    fl_vec_release(cases);
}

/* --- running one case ----------------------------------------------------- */

static fl_program *parse(const char *text)
{
    fl_program *p = NULL;

    if (fl_program_parse(text, &fl_ops, &p))
        fail_msg("%s", fl_last_error());
    return p;
}

static void run_pass(const char *pass, fl_program *p, bool *changed)
{
    fl_pass_options all = { .optimize = true };
    const fl_pass *one = fl_pass_find(pass);
    uint64_t version = p->version;
    fl_status st;

    if (!strcmp(pass, PIPELINE)) {
        st = fl_passes_run(p, &all);
        *changed = p->version != version;
    } else {
        assert_non_null(one);
        st = one->run(p, changed);
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

static void stays_the_same(const char *pass, fl_program *p)
{
    char *text = fl_program_print(p);
    bool changed = false;

    run_pass(pass, p, &changed);
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
    run_pass(c->pass, p, &changed);
    expect_text(p, c->changes ? fl_str_text(&c->after) : before);
    assert_int_equal(changed, c->changes);
    if (fl_program_verify(p))
        fail_msg("%s", fl_last_error());
    reads_back_as_itself(p);
    stays_the_same(c->pass, p);
    fl_free(before);
    fl_program_free(p);
}

static int run_cases(const char *pass, const case_vec *cases)
{
    FL_VEC(struct CMUnitTest) tests = { 0 };
    int failed;

    for (size_t i = 0; i < cases->len; i++) {
        struct CMUnitTest t = { .name = cases->data[i].name,
                                .test_func = runs_as_written,
                                .initial_state = &cases->data[i] };

        fl_vec_push(&tests, t);
    }
    failed = _cmocka_run_group_tests(pass, tests.data, tests.len, NULL, NULL);
    fl_vec_release(&tests);
    return failed;
}

int main(int argc, char **argv)
{
    case_vec cases = { 0 };
    char *text, *pass, *path;
    size_t len;
    int failed;

    if (argc != 2) {
        fprintf(stderr, "usage: test_pass FILE.test\n");
        return 2;
    }
    if (fl_file_read(argv[1], FILE_MAX_BYTES, &text, &len)) {
        fprintf(stderr, "test_pass: %s\n", fl_last_error());
        return 1;
    }
    path = fl_strdup(argv[1]);
    pass = basename(path);
    pass[strcspn(pass, ".")] = '\0';
    read_cases(&cases, pass, text);
    failed = cases.len ? run_cases(pass, &cases) : 1;
    release_cases(&cases);
    fl_free(path);
    fl_free(text);
    return failed;
}
