/* case_kit.h - tests that are texts: a file of cases, each of which begins with
 * a line "case: a sentence" and is one test. Comments may stand before the
 * first case, empty lines anywhere. What the other lines mean is the test's.
 *
 * A test's case has a text_case as its first member.
 */
#ifndef FL_TESTS_PASS_CASE_KIT_H
#define FL_TESTS_PASS_CASE_KIT_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <libgen.h>
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/file.h"
#include "base/vec.h"

#define CASES_MAX_BYTES (1 << 20)

typedef struct text_case {
    const char *pass; /* the name of the file */
    char *name;
} text_case;

typedef struct case_kind {
    size_t size; /* of a case; all zeros at first */
    void (*read_line)(void *test_case, const char *line);
    void (*release)(void *test_case);
    CMUnitTestFunction run;
} case_kind;

typedef FL_VEC(text_case *) case_vec;

/* NULL when the line begins with something else. */
static inline const char *after_prefix(const char *line, const char *prefix)
{
    size_t n = strlen(prefix);

    return strncmp(line, prefix, n) ? NULL : line + n;
}

static inline void read_cases(case_vec *cases, const case_kind *k,
                              const char *pass, char *text)
{
    char *line;

    while ((line = strsep(&text, "\n"))) {
        const char *name = after_prefix(line, "case: ");

        if (name) {
            text_case *fresh = fl_alloc(k->size);

            *fresh = (text_case){ .pass = pass, .name = fl_strdup(name) };
            fl_vec_push(cases, fresh);
        } else if (*line && cases->len) {
            k->read_line(cases->data[cases->len - 1], line);
        } else if (*line && *line != '#') {
            fail_msg("'%s' stands before the first case", line);
        }
    }
}

static inline void release_cases(case_vec *cases, const case_kind *k)
{
    for (size_t i = 0; i < cases->len; i++) {
        k->release(cases->data[i]);
        fl_free(cases->data[i]->name);
        fl_free(cases->data[i]);
    }
    fl_vec_release(cases);
}

static inline int run_cases(const case_vec *cases, const case_kind *k,
                            const char *pass)
{
    FL_VEC(struct CMUnitTest) tests = { 0 };
    int failed;

    for (size_t i = 0; i < cases->len; i++) {
        struct CMUnitTest t = { .name = cases->data[i]->name,
                                .test_func = k->run,
                                .initial_state = cases->data[i] };

        fl_vec_push(&tests, t);
    }
    failed = _cmocka_run_group_tests(pass, tests.data, tests.len, NULL, NULL);
    fl_vec_release(&tests);
    return failed;
}

/* The whole of main. */
static inline int cases_main(const case_kind *k, int argc, char **argv)
{
    case_vec cases = { 0 };
    char *text, *pass, *path;
    size_t len;
    int failed;

    if (argc != 2) {
        fprintf(stderr, "usage: %s FILE.test\n", argv[0]);
        return 2;
    }
    if (fl_file_read(argv[1], CASES_MAX_BYTES, &text, &len)) {
        fprintf(stderr, "%s: %s\n", argv[0], fl_last_error());
        return 1;
    }
    path = fl_strdup(argv[1]);
    pass = basename(path);
    pass[strcspn(pass, ".")] = '\0';
    read_cases(&cases, k, pass, text);
    failed = cases.len ? run_cases(&cases, k, pass) : 1;
    release_cases(&cases, k);
    fl_free(path);
    fl_free(text);
    return failed;
}

#endif
