/* work_kit.h - work grows with the size of a thing, and not with its square.
 *
 * Work is counted, not timed: the files that are looked at are compiled once
 * more for the test, with a call at every branch (trace-pc).
 */
#ifndef FL_TESTS_WORK_KIT_H
#define FL_TESTS_WORK_KIT_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

/* Maps and vectors grow in steps, so 8 times the size may cost somewhat more
   than 8 times the work; the square would cost 64 times as much. */
#define WORK_TIMES 8
#define WORK_MOST_TIMES 12

/* Set to 0 where counting begins. */
static uint64_t work;

void __sanitizer_cov_trace_pc(void);

void __sanitizer_cov_trace_pc(void)
{
    work++;
}

typedef struct work_case {
    const char *name;
    void (*run)(int n);
} work_case;

static inline void work_is_linear(const work_case *all, size_t n, int few)
{
    for (size_t i = 0; i < n; i++) {
        uint64_t for_few;

        all[i].run(few);
        for_few = work;
        assert_true(for_few > (uint64_t)few);
        all[i].run(WORK_TIMES * few);
        if (work > WORK_MOST_TIMES * for_few)
            fail_msg("%s: %d take %llu branches, %d take %llu", all[i].name,
                     few, (unsigned long long)for_few, WORK_TIMES * few,
                     (unsigned long long)work);
    }
}

#endif
