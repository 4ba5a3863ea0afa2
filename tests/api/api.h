/* api.h - what the tests of the public API share. */
#ifndef FL_TESTS_API_H
#define FL_TESTS_API_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>
#include <string.h>

#include "flotilla/flotilla.h"

#define assert_ok(expr)                                                        \
    do {                                                                       \
        if (expr)                                                              \
            fail_msg("%s", fl_last_error());                                   \
    } while (0)

#define assert_said(words)                                                     \
    do {                                                                       \
        if (!strstr(fl_last_error(), words))                                   \
            fail_msg("expected '%s' in '%s'", words, fl_last_error());         \
    } while (0)

#define assert_text_has(text, words)                                           \
    do {                                                                       \
        if (!strstr(text, words))                                              \
            fail_msg("expected '%s' in\n%s", words, text);                     \
    } while (0)

static inline fl_var *data2(fl_ctx *c, const char *name, int64_t width)
{
    return fl_layers_data(c, name, FL_DTYPE_F32, 2, (int64_t[]){ -1, width },
                          0);
}

#endif
