/* kit.h - what the tests of src/ir share. */
#ifndef FL_TESTS_IR_KIT_H
#define FL_TESTS_IR_KIT_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <stdio.h>
#include <string.h>

#include "ops/ops.h"

static inline fl_program *parse(const char *text)
{
    fl_program *p = NULL;

    if (fl_program_parse(text, &fl_ops, &p))
        fail_msg("%s", fl_last_error());
    return p;
}

static inline void expect_text(const fl_program *p, const char *want)
{
    char *text = fl_program_print(p);

    assert_string_equal(text, want);
    fl_free(text);
}

/* The last error contains `part`. */
static inline void expect_said(const char *part)
{
    if (!strstr(fl_last_error(), part))
        fail_msg("'%s' does not say '%s'", fl_last_error(), part);
}

static inline size_t count_vars(const fl_block *b)
{
    size_t n = 0;

    for (const fl_var *v = b->first_var; v; v = v->next)
        n++;
    return n;
}

#endif
