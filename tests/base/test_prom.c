/* test_prom.c - numbers for Prometheus, byte by byte. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <math.h>

#include "base/prom.h"

static const fl_prom_def rows = { "table_rows", FL_PROM_GAUGE,
                                  "Rows of a table." };

static void help_and_type_come_before_the_values(void **state)
{
    static const fl_prom_def pulls = { "pulls_total", FL_PROM_COUNTER,
                                       "Requests for rows." };
    fl_str out = { 0 };

    (void)state;
    fl_prom_begin(&out, &rows);
    fl_prom_add(&out, &rows, "table", "emb", 12);
    fl_prom_add(&out, &rows, "table", "wide", 0.5);
    fl_prom_one(&out, &pulls, 9007199254740992.0);
    assert_string_equal(fl_str_text(&out),
                        "# HELP flotilla_table_rows Rows of a table.\n"
                        "# TYPE flotilla_table_rows gauge\n"
                        "flotilla_table_rows{table=\"emb\"} 12\n"
                        "flotilla_table_rows{table=\"wide\"} 0.5\n"
                        "# HELP flotilla_pulls_total Requests for rows.\n"
                        "# TYPE flotilla_pulls_total counter\n"
                        "flotilla_pulls_total 9007199254740992\n");
    fl_str_release(&out);
}

static void labels_keep_their_quotes_and_lines(void **state)
{
    fl_str out = { 0 };

    (void)state;
    fl_prom_add(&out, &rows, "table", "a\"b\\c\nd", 1);
    assert_string_equal(fl_str_text(&out),
                        "flotilla_table_rows{table=\"a\\\"b\\\\c\\nd\"} 1\n");
    fl_str_release(&out);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(help_and_type_come_before_the_values),
        cmocka_unit_test(labels_keep_their_quotes_and_lines),
    };

    return cmocka_run_group_tests_name("prom", tests, NULL, NULL);
}
