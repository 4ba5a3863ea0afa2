/* executor.c - running programs through the public API. */
#include "flotilla/executor.h"

#include "api/resume.h"
#include "ctx/ctx.h"
#include "train/autosave.h"
#include "base/args.h"
#include "base/file.h"

/* Stands for the batch when places are chosen and nothing is fed. */
#define NOMINAL_BATCH 64

fl_status fl_executor_new(fl_executor **out, fl_ctx *c)
{
    fl_executor *e = fl_alloc(sizeof(*e));

    e->ctx = c;
    fl_trace_init(&e->trace);
    *out = e;
    return FL_OK;
}

/* It makes no steps for others any more. */
static void retire(fl_executor *e)
{
    fl_comm *comm = e->offers ? e->ctx->comm : NULL;

    if (comm && comm->filler.arg == e)
        comm->filler.arg = NULL;
}

void fl_executor_free(fl_executor *e)
{
    if (!e)
        return;
    retire(e);
    fl_executor_drop_units(e);
    fl_trace_release(&e->trace);
    fl_free(e);
}

void fl_executor_forget(fl_executor *e, uint64_t program_id)
{
    fl_executor_drop_program(e, program_id);
}

/* --- one program --------------------------------------------------------- */

static int64_t nominal_batch(const fl_feed *feeds, size_t n)
{
    int64_t most = 0;

    for (size_t i = 0; i < n; i++)
        if (feeds[i].value.shape.rank && feeds[i].value.shape.dim[0] > most)
            most = feeds[i].value.shape.dim[0];
    return most ? most : NOMINAL_BATCH;
}

/* The names of the feeds; a small array of the caller's, or memory to free. */
static const char **feed_names(const fl_run_args *a, const char **room,
                               size_t room_len)
{
    const char **names = room;

    if (a->n_feeds > room_len)
        names = fl_alloc(sizeof(char *) * a->n_feeds);
    for (size_t i = 0; i < a->n_feeds; i++)
        names[i] = a->feeds[i].name;
    return names;
}

static fl_status check_args(const fl_run_args *a)
{
    if (a->n_fetches && !a->out)
        FL_FAIL(FL_ERR_INVAL,
                "%zu variables are fetched, but there is no "
                "room for them (out)",
                a->n_fetches);
    for (size_t i = 0; i < a->n_feeds; i++)
        for (size_t k = 0; k < i; k++)
            if (!strcmp(a->feeds[i].name, a->feeds[k].name))
                FL_FAIL(FL_ERR_INVAL, "%s is fed twice", a->feeds[i].name);
    return FL_OK;
}

static fl_unit_spec spec_of(fl_executor *e, const fl_program *p,
                            const fl_run_args *a, const char **names)
{
    fl_ctx *c = e->ctx;
    int threads = (int)c->conf.num_threads;

    return (fl_unit_spec){
        .program = p,
        .kind = FL_UNIT_ALONE,
        .n_runners = 1,
        .n_threads = threads,
        .feeds = names,
        .n_feeds = a->n_feeds,
        .fetches = a->fetches,
        .n_fetches = a->n_fetches,
        .nominal_batch = nominal_batch(a->feeds, a->n_feeds),
        .passes = fl_ctx_pass_options(c, p),
    };
}

static fl_status run_alone(fl_executor *e, fl_program *p, const fl_run_args *a,
                           const char **names)
{
    fl_unit_spec spec = spec_of(e, p, a, names);
    fl_unit *u;

    FL_TRY(fl_ctx_exec_options(e->ctx, a->scope, &e->trace, &e->options));
    FL_TRY(fl_executor_unit(e, &spec, &u));
    FL_TRY(fl_unit_run_alone(e, u, a->feeds));
    fl_unit_fetch(u, 0, a->out);
    if (a->keep)
        fl_unit_keep(u, 0, a->out, a->keep);
    return FL_OK;
}

/* What goes on by itself: values of a saved model behind the startup program,
   a save behind a step. */
static fl_status after_run(fl_executor *e, fl_program *p, fl_scope *s,
                           uint64_t step)
{
    FL_TRY(fl_resume_after_run(e, p, s));
    return fl_scope_step(s) > step ? fl_autosave_after_run(e, p, s) : FL_OK;
}

fl_status fl_run(fl_executor *e, fl_program *p, const fl_run_args *args)
{
    const char *room[64];
    const char **names;
    fl_run_args a;
    fl_scope *scope;
    uint64_t step;
    fl_status st;

    FL_TRY(FL_ARGS_READ(fl_run_args, &a, args));
    if (!p)
        FL_FAIL(FL_ERR_INVAL, "there is no program to run: the call that "
                              "should have given it has failed");
    FL_TRY(check_args(&a));
    names = feed_names(&a, room, FL_LEN(room));
    scope = a.scope ? a.scope : fl_current_scope(e->ctx);
    step = fl_scope_step(scope);
    st = run_alone(e, p, &a, names);
    if (names != room)
        fl_free(names);
    if (!st)
        st = after_run(e, p, scope, step);
    return fl_ctx_ran(e->ctx, st);
}

fl_status fl_executor_explain(fl_executor *e, fl_program *p,
                              const fl_run_args *args, char **text)
{
    const char *room[64];
    const char **names;
    fl_unit_spec spec;
    fl_run_args a;
    fl_program *q;
    fl_status st;

    FL_TRY(FL_ARGS_READ(fl_run_args, &a, args));
    names = feed_names(&a, room, FL_LEN(room));
    spec = spec_of(e, p, &a, names);
    st = fl_unit_program(&spec, &q);
    if (names != room)
        fl_free(names);
    if (st)
        return st;
    *text = fl_program_print(q);
    fl_program_free(q);
    return FL_OK;
}

/* --- hogwild ------------------------------------------------------------- */

/* Of the batches that a source holds one half is trained while the other is
   asked for; one more is made ready meanwhile. */
static void choose_frames(const fl_hogwild_args *h, const fl_comm *comm,
                          fl_unit_spec *spec)
{
    int held = h->holds_batches ? h->holds_batches : 1 + h->holds_two_batches;
    int most = comm ? comm->n_ahead : 0;

    spec->n_ahead = held / 2 < most ? held / 2 : most;
    spec->n_frames = held < 2 * most + 1 ? held : 2 * most + 1;
}

fl_status fl_run_hogwild(fl_executor *e, fl_program *p,
                         const fl_hogwild_args *args)
{
    fl_run_args a = { 0 };
    fl_hogwild_args h;
    fl_unit_spec spec;
    fl_unit *u;

    FL_TRY(FL_ARGS_READ(fl_hogwild_args, &h, args));
    if (h.n_threads < 1 || !h.next)
        FL_FAIL(FL_ERR_INVAL, "hogwild needs at least one thread and a source "
                              "of batches");
    if (h.holds_batches < 0)
        FL_FAIL(FL_ERR_INVAL,
                "hogwild: holds_batches=%d is negative; give how many batches "
                "of a thread stay valid, or 0 for one",
                h.holds_batches);
    FL_TRY(fl_ctx_exec_options(e->ctx, h.scope, &e->trace, &e->options));
    a.fetches = h.fetches;
    a.n_fetches = h.n_fetches;
    spec = spec_of(e, p, &a, NULL);
    spec.kind = FL_UNIT_HOGWILD;
    spec.n_runners = spec.n_threads = h.n_threads;
    spec.feeds = h.feed_names;
    spec.n_feeds = h.n_feeds;
    choose_frames(&h, e->options.comm, &spec);
    FL_TRY(fl_executor_unit(e, &spec, &u));
    return fl_ctx_ran(e->ctx, fl_unit_run_hogwild(e, u, &h));
}

/* --- looking inside ------------------------------------------------------ */

void fl_executor_reset_profile(fl_executor *e)
{
    fl_trace_clear(&e->trace);
}

char *fl_executor_profile_json(const fl_executor *e)
{
    return fl_trace_profile_json(&((fl_executor *)(uintptr_t)e)->trace);
}

char *fl_executor_profile(const fl_executor *e)
{
    return fl_trace_profile(&((fl_executor *)(uintptr_t)e)->trace);
}

fl_status fl_executor_write_trace(const fl_executor *e, const char *path)
{
    char *json = fl_trace_json(&((fl_executor *)(uintptr_t)e)->trace);
    fl_status st = fl_file_write(path, json, strlen(json));

    fl_free(json);
    return st;
}

fl_status fl_executor_memory(const fl_executor *e, fl_memory_use *out)
{
    fl_memory_use use = { 0 };

    for (const fl_unit *u = e->units; u; u = u->next)
        for (int i = 0; i < u->n_frames; i++) {
            use.kept_bytes += fl_runner_kept_bytes(u->runners[i]);
            if (u == e->units)
                use.live_bytes += fl_runner_live_bytes(u->runners[i]);
        }
    return FL_ARGS_FILL(fl_memory_use, out, &use);
}
