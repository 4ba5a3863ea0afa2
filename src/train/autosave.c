/* autosave.c - saves that are made by themselves. */
#include "train/autosave.h"

#include <inttypes.h>

#include "base/log.h"
#include "base/thread.h"
#include "flotilla/io.h"

/* In nanoseconds. */
#define S UINT64_C(1000000000)
#define MS UINT64_C(1000000)

static bool is_wanted(const fl_conf *conf)
{
    return conf->save_every_s || conf->save_every_steps ||
           conf->save_delta_every_ms;
}

fl_status fl_autosave_check(const fl_ctx *c)
{
    const fl_conf *conf = &c->conf;

    if (is_wanted(conf) && !*conf->save_dir)
        FL_FAIL(FL_ERR_INVAL,
                "%s is set, but not where to: set save_dir to a directory",
                conf->save_every_s       ? "save_every_s"
                : conf->save_every_steps ? "save_every_steps"
                                         : "save_delta_every_ms");
    return FL_OK;
}

/* Steps are counted from the first one on, so that a run that goes on saves
   where the one before would have. */
static bool has_steps(const fl_ctx *c, uint64_t step)
{
    uint64_t every = (uint64_t)c->conf.save_every_steps;

    return every && step / every > c->saved_step / every;
}

static bool has_time(const fl_ctx *c)
{
    uint64_t every = (uint64_t)c->conf.save_every_s;

    return every && fl_now_ns() - c->saved_ns >= every * S;
}

static bool is_whole_due(const fl_ctx *c, const fl_scope *s)
{
    return has_steps(c, fl_scope_step(s)) || has_time(c);
}

/* Behind a whole save, or a delta. */
static bool is_delta_due(const fl_ctx *c)
{
    uint64_t every = (uint64_t)c->conf.save_delta_every_ms;

    return every && fl_now_ns() - c->delta_ns >= every * MS;
}

bool fl_autosave_is_due(const fl_ctx *c, const fl_scope *s)
{
    return is_whole_due(c, s) || is_delta_due(c);
}

/* The clock of whole saves goes on while deltas are made. */
static void begin_clocks(fl_ctx *c, const fl_scope *s, bool is_whole)
{
    c->delta_ns = fl_now_ns();
    if (!is_whole)
        return;
    c->saved_step = fl_scope_step(s);
    c->saved_ns = c->delta_ns;
}

void fl_autosave(fl_executor *e, fl_program *p, fl_scope *s)
{
    fl_ctx *c = e->ctx;
    bool is_whole = is_whole_due(c, s);
    fl_save_args a = { .size = sizeof(a), .scope = s, .delta = !is_whole };
    uint64_t began_ns = fl_now_ns();

    if (fl_save_vars(e, c->conf.save_dir, p, &a))
        FL_WARN("train", "not saved, and trained on: %s", fl_last_error());
    else
        FL_INFO("train", "saved dir=%s step=%" PRIu64 " ms=%" PRIu64,
                c->conf.save_dir, fl_scope_step(s),
                (fl_now_ns() - began_ns) / MS);
    begin_clocks(c, s, is_whole);
}

fl_status fl_autosave_after_run(fl_executor *e, fl_program *p, fl_scope *s)
{
    fl_ctx *c = e->ctx;

    if (c->job || !is_wanted(&c->conf))
        return FL_OK;
    FL_TRY(fl_autosave_check(c));
    if (fl_autosave_is_due(c, s))
        fl_autosave(e, p, s);
    return FL_OK;
}
