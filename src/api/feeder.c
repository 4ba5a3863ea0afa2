/* feeder.c - feeders and readers for the variables of a program. */
#include "api/slots.h"
#include "base/args.h"
#include "base/alloc.h"
#include "data/reader/feeder.h"
#include "data/reader/reader.h"
#include "ir/program.h"

/* The variables as the data layer takes them. */
typedef struct feed_vars {
    fl_slot *slots;
    fl_feed_var *vars;
} feed_vars;

static void release_vars(feed_vars *v)
{
    fl_free(v->slots);
    fl_free(v->vars);
}

static fl_status find_vars(feed_vars *v, fl_program *p,
                           const char *const *names, size_t n)
{
    if (!n || n > FL_SLOTS_MAX)
        FL_FAIL(FL_ERR_INVAL, "%zu variables to feed: give 1 to %d", n,
                FL_SLOTS_MAX);
    v->slots = fl_alloc(n * sizeof(*v->slots));
    v->vars = fl_alloc(n * sizeof(*v->vars));
    FL_TRY(fl_slots_of_vars(p, names, n, v->slots));
    for (size_t i = 0; i < n; i++) {
        const fl_var *var = fl_program_var(p, names[i]);

        v->vars[i] = (fl_feed_var){ var->meta.shape, var->meta.n_lod };
    }
    return FL_OK;
}

fl_status fl_feeder_new(fl_feeder **out, fl_program *p,
                        const char *const *names, size_t n_names)
{
    feed_vars v = { 0 };
    fl_status st = find_vars(&v, p, names, n_names);

    if (!st)
        st = fl_feeder_make(out, v.slots, v.vars, n_names);
    release_vars(&v);
    return fl_err_ctx(st, "feeder");
}

fl_status fl_reader_new_with(fl_reader **out, fl_program *p,
                             const char *const *names, size_t n_names,
                             const fl_reader_args *args)
{
    feed_vars v = { 0 };
    fl_reader_args a;
    fl_status st = FL_ARGS_READ(fl_reader_args, &a, args);

    if (!st)
        st = find_vars(&v, p, names, n_names);
    if (!st)
        st = fl_reader_make(out, v.slots, v.vars, n_names, &a);
    release_vars(&v);
    return fl_err_ctx(st, "reader");
}
