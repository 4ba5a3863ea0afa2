/* resume.c - training that goes on from a saved model by itself.
 *
 * Nothing of the program changes: its startup program runs as ever, and then
 * the values of the model take the place of the first ones. In a job rows and
 * parameters are the servers'; what a trainer has of its own is taken here.
 */
#include "api/resume.h"

#include <inttypes.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "ckpt/newest.h"
#include "ctx/passes.h"
#include "dist/job.h"
#include "flotilla/io.h"

/* The main program that goes with a startup program; NULL: it is none. */
static fl_program *main_of(const fl_ctx *c, const fl_program *startup)
{
    if (startup == c->startup || startup == c->fleet_startup)
        return c->main;
    for (size_t i = c->known_pairs.len; i > 0; i--)
        if (c->known_pairs.data[i - 1].startup == startup)
            return c->known_pairs.data[i - 1].main;
    return NULL;
}

/* The rank in "trainers/12.json"; -1: it is another file. */
static int rank_of(const char *file)
{
    size_t folder = strlen(FL_PASSES_FOLDER "/");
    char *end;
    long rank;

    if (strncmp(file, FL_PASSES_FOLDER "/", folder) != 0)
        return -1;
    rank = strtol(file + folder, &end, 10);
    return end > file + folder && !strcmp(end, ".json") && rank <= INT_MAX
               ? (int)rank
               : -1;
}

/* Who this process is among how many. */
typedef struct seat {
    int rank, n;
} seat;

static seat seat_of(const fl_ctx *c)
{
    return c->job ? (seat){ fl_job_rank(c->job), fl_job_n_trainers(c->job) }
                  : (seat){ 0, 1 };
}

typedef enum position_use { AS_MINE, AS_ANOTHERS, AS_LEFT } position_use;

static fl_status read_position(fl_ctx *c, const fl_model_version *v,
                               const char *file, position_use use)
{
    char *path, *text = NULL;
    size_t len = 0;
    fl_status st;

    FL_TRY(fl_version_read(v, file, &text, &len));
    path = fl_version_file(v, file);
    if (use == AS_MINE)
        st = fl_passes_read(c->passes, text, len, path);
    else
        st = fl_passes_join(c->passes,
                            use == AS_LEFT ? FL_PASSES_GONE : FL_PASSES_PRESENT,
                            text, len, path);
    fl_free(path);
    fl_free(text);
    return st;
}

/* The file of the trainer, or, if there was none, of the first that there was;
   NULL: nobody had a position. */
static const char *first_position(const fl_manifest *m, int rank)
{
    const char *first = NULL;

    for (size_t i = 0; i < m->files.len; i++) {
        const char *name = m->files.data[i].name;
        int of = rank_of(name);

        if (of == rank)
            return name;
        if (of >= 0 && (!first || of < rank_of(first)))
            first = name;
    }
    return first;
}

/* A trainer that there was not goes on like the first one, which it can only if
   they share the files. */
static fl_status read_positions(fl_ctx *c, const fl_model_version *v)
{
    const fl_manifest *m = &v->manifest;
    seat me = seat_of(c);
    const char *first = first_position(m, me.rank);

    if (!first)
        return FL_OK;
    FL_TRY(read_position(c, v, first, AS_MINE));
    if (rank_of(first) != me.rank)
        FL_TRY(read_position(c, v, first, AS_LEFT));
    for (size_t i = 0; i < m->files.len; i++) {
        const char *name = m->files.data[i].name;
        int rank = rank_of(name);

        if (rank >= 0 && name != first)
            FL_TRY(
                read_position(c, v, name, rank < me.n ? AS_ANOTHERS : AS_LEFT));
    }
    return FL_OK;
}

/* Rows and parameters of a job are on its servers, which have begun with the
   model; a trainer takes what it had of its own. */
static fl_status load_values(fl_executor *e, fl_program *main, fl_scope *s,
                             const char *path)
{
    fl_load_args a = { .size = sizeof(a), .scope = s };

    return e->ctx->job ? fl_job_load_own(e->ctx->job, path)
                       : fl_load_vars(e, path, main, &a);
}

static fl_status take_model(fl_executor *e, fl_program *main, fl_scope *s,
                            const fl_model_version *v)
{
    fl_ctx *c = e->ctx;

    FL_TRY(load_values(e, main, s, v->path));
    FL_TRY(read_positions(c, v));
    fl_passes_keep(c->passes, s, main);
    c->saved_step = fl_scope_step(s);
    FL_INFO("train", "going on from model=%s step=%" PRIu64, v->path,
            v->manifest.step);
    return FL_OK;
}

static fl_status go_on(fl_executor *e, fl_program *main, fl_scope *s)
{
    const char *from = e->ctx->conf.resume;
    fl_model_version *v = NULL;
    fl_status st = fl_version_fetch_newest(&v, &e->ctx->conf, from);

    if (st == FL_ERR_NOTFOUND) {
        FL_INFO("train", "beginning anew: %s", fl_last_error());
        return FL_OK;
    }
    if (!st)
        st = take_model(e, main, s, v);
    fl_version_close(v);
    return fl_err_ctx(st, "resume=%s", from);
}

fl_status fl_resume_after_run(fl_executor *e, fl_program *p, fl_scope *s)
{
    fl_ctx *c = e->ctx;
    fl_program *main;

    if (!*c->conf.resume || c->is_resumed)
        return FL_OK;
    main = main_of(c, p);
    if (!main)
        return FL_OK;
    FL_TRY(go_on(e, main, s));
    c->is_resumed = true;
    return FL_OK;
}

fl_status fl_model_newest(const char *dir, char **path)
{
    fl_model_version *v = NULL;

    FL_TRY(fl_version_open_newest(&v, dir));
    *path = fl_strdup(v->path);
    fl_version_close(v);
    return FL_OK;
}
