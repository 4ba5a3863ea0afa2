/* kit.h - what the tests of the table share. */
#ifndef FL_TESTS_TABLE_KIT_H
#define FL_TESTS_TABLE_KIT_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/hash.h"
#include "table/accessor.h"
#include "table/table.h"

/* Fails the test with the library's own sentence. */
#define assert_ok(expr)                                                        \
    do {                                                                       \
        if (expr)                                                              \
            fail_msg("%s", fl_last_error());                                   \
    } while (0)

/* Counts by adding: rows start at 0 and a push of -1 with rate 1 adds 1. All
   numbers that the tests push this way are exact in a float. */
static inline fl_table_config adding_config(uint32_t dim, int n_partitions)
{
    return (fl_table_config){ .name = "adding",
                              .dim = dim,
                              .init = { .kind = FL_INIT_CONSTANT },
                              .n_partitions = n_partitions };
}

/* The next number of a sequence that starts at *s. */
static inline uint64_t draw(uint64_t *s)
{
    *s += 0x9e3779b97f4a7c15u;
    return fl_mix64(*s);
}

static inline fl_table_stats stats_of(fl_table *t)
{
    fl_table_stats s = FL_INIT(fl_table_stats);

    fl_table_count(t, &s);
    return s;
}

/* What a row of such a table looks like. */
static inline fl_row_layout row_layout(const fl_table_config *config)
{
    fl_acc_ctx c;

    (void)fl_accessor_of(config, &c);
    return c.layout;
}

#endif
