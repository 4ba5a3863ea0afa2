/* make.h - objects of the public API that a test cannot do without. One that
 * cannot be made ends the program with the reason; tests of that failure call
 * the constructor itself.
 */
#ifndef FL_TESTS_MAKE_H
#define FL_TESTS_MAKE_H

#include <stdio.h>
#include <stdlib.h>

#include "flotilla/flotilla.h"

static inline void must(fl_status st)
{
    if (!st)
        return;
    fprintf(stderr, "%s\n", fl_last_error());
    abort();
}

static inline fl_ctx *make_ctx(void)
{
    fl_ctx *c = NULL;

    must(fl_ctx_new(&c));
    return c;
}

static inline fl_executor *make_executor(fl_ctx *c)
{
    fl_executor *e = NULL;

    must(fl_executor_new(&e, c));
    return e;
}

static inline fl_optimizer *make_optimizer(fl_ctx *c, const char *kind,
                                           const char *settings)
{
    fl_optimizer *o = NULL;

    must(fl_optimizer_new(&o, c, kind, settings));
    return o;
}

static inline fl_strategy *make_strategy(fl_fleet *f, const char *kind)
{
    fl_strategy *s = NULL;

    must(fl_strategy_new(&s, f, kind));
    return s;
}

static inline fl_compiled_program *make_compiled(fl_program *p)
{
    fl_compiled_program *cp = NULL;

    must(fl_compiled_program_new(&cp, p));
    return cp;
}

/* What a dataset counted, for asserts. */
static inline fl_dataset_stats dataset_stats(const fl_dataset *d)
{
    fl_dataset_stats s = FL_INIT(fl_dataset_stats);

    must(fl_dataset_stats_get(d, &s));
    return s;
}

#endif
