/* kit.h - what the long tests share. */
#ifndef FL_TESTS_SOAK_KIT_H
#define FL_TESTS_SOAK_KIT_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/hash.h"
#include "flotilla/status.h"

/* Fails the test with the library's own sentence. */
#define assert_ok(expr)                                                        \
    do {                                                                       \
        if (expr)                                                              \
            fail_msg("%s", fl_last_error());                                   \
    } while (0)

/* The next number of a sequence that starts at *s. */
static inline uint64_t draw(uint64_t *s)
{
    *s += 0x9e3779b97f4a7c15u;
    return fl_mix64(*s);
}

/* A line of /proc/self/status in bytes: VmRSS is the memory that this process
   has now, VmHWM the most that it ever had. */
static inline uint64_t process_bytes(const char *what)
{
    FILE *f = fopen("/proc/self/status", "r");
    unsigned long long kb = 0;
    char line[256];

    assert_non_null(f);
    while (fgets(line, sizeof(line), f))
        if (!strncmp(line, what, strlen(what)))
            kb = strtoull(line + strlen(what) + 1, NULL, 10);
    fclose(f);
    assert_true(kb > 0);
    return (uint64_t)kb << 10;
}

/* The first argument as a number, or what is usual. */
static inline uint64_t first_argument(int argc, char **argv, uint64_t usual)
{
    return argc > 1 ? strtoull(argv[1], NULL, 10) : usual;
}

#endif
