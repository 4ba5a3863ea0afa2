/* test_isa.c - which instruction set is chosen. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

#include "kernel/isa.h"

static void the_environment_lowers_the_set(void **state)
{
    (void)state;
    setenv("FLOTILLA_ISA", "base", 1);
    assert_int_equal(fl_isa(), FL_ISA_BASE);
}

static void the_set_is_chosen_once(void **state)
{
    (void)state;
    unsetenv("FLOTILLA_ISA");
    assert_int_equal(fl_isa(), FL_ISA_BASE);
}

static void each_set_has_its_name(void **state)
{
    (void)state;
    assert_string_equal(fl_isa_name(FL_ISA_BASE), "base");
    assert_string_equal(fl_isa_name(fl_isa()), "base");
#if defined(__x86_64__)
    assert_string_equal(fl_isa_name(FL_ISA_AVX2), "avx2");
    assert_string_equal(fl_isa_name(FL_ISA_AVX512), "avx512");
#endif
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_environment_lowers_the_set),
        cmocka_unit_test(the_set_is_chosen_once),
        cmocka_unit_test(each_set_has_its_name),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
