/* record.c - a record and its sinks, one after the other under one lock. */
#include "record/record.h"

#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/file.h"
#include "base/log.h"
#include "base/sys.h"
#include "base/thread.h"
#include "record/sink.h"

#define FOLDER_MODE 0777
#define FILE_MODE 0666

static const fl_record_sink *const sinks[] = { &fl_record_lines,
                                               &fl_record_board };

struct fl_record {
    fl_record_file files[FL_LEN(sinks)]; /* path NULL: not asked for */
    fl_mutex mu; /* guards all, and that one line comes after the other */
    uint64_t n_passes;
    uint64_t last_pass, last_samples; /* of the numbers before, for the rate */
    double last_seconds;
};

static double now(void)
{
    struct timespec t;

    clock_gettime(CLOCK_REALTIME, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

fl_status fl_record_folder(const char *path)
{
    if (fl_sys_now()->mkdir(path, FOLDER_MODE) && errno != EEXIST)
        return fl_file_failed("make folder", path, errno);
    return FL_OK;
}

/* --- opening -------------------------------------------------------------- */

static fl_status open_sink(fl_record_file *f, const fl_record_sink *s,
                           const fl_record_start *a)
{
    const char *folder = s->folder(a->conf);
    double t = now();
    int err;

    FL_TRY(fl_record_folder(folder));
    FL_TRY(s->name(folder, a->who, t, &f->path));
    f->fd = fl_sys_now()->open(
        f->path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, FILE_MODE);
    err = f->fd < 0 ? errno : s->begin(f, a, t);
    return err ? fl_file_failed("write", f->path, err) : FL_OK;
}

static void close_file(fl_record_file *f)
{
    if (f->path && f->fd >= 0)
        close(f->fd);
    fl_free(f->path);
    *f = (fl_record_file){ 0 };
}

static bool is_wanted(const fl_record_sink *s, const fl_record_start *a)
{
    return *s->folder(a->conf) && !(s->is_for_curves && a->has_no_curves);
}

static bool is_any_wanted(const fl_record_start *a)
{
    for (size_t i = 0; i < FL_LEN(sinks); i++)
        if (is_wanted(sinks[i], a))
            return true;
    return false;
}

fl_status fl_record_open(fl_record **out, const fl_record_start *a)
{
    fl_record *r;
    fl_status st = FL_OK;

    *out = NULL;
    if (!is_any_wanted(a))
        return FL_OK;
    r = fl_alloc(sizeof(*r));
    fl_mutex_init(&r->mu);
    for (size_t i = 0; !st && i < FL_LEN(sinks); i++)
        if (is_wanted(sinks[i], a))
            st = open_sink(&r->files[i], sinks[i], a);
    if (!st) {
        *out = r;
        return FL_OK;
    }
    for (size_t i = 0; i < FL_LEN(sinks); i++)
        close_file(&r->files[i]);
    fl_mutex_release(&r->mu);
    fl_free(r);
    return fl_err_ctx(st, "the record of this run");
}

/* --- telling -------------------------------------------------------------- */

/* A sink that has failed is left alone from now on. */
static void give_up(fl_record_file *f, int err)
{
    if (!err)
        return;
    FL_WARN("record",
            "%s cannot be written: %s; the rest of the run is not in "
            "it",
            f->path, strerror(err));
    close_file(f);
}

#define TELL(r, call, ...)                                                     \
    do {                                                                       \
        double t_ = now();                                                     \
                                                                               \
        for (size_t i_ = 0; i_ < FL_LEN(sinks); i_++)                          \
            if ((r)->files[i_].path && sinks[i_]->call)                        \
                give_up(&(r)->files[i_],                                       \
                        sinks[i_]->call(&(r)->files[i_], __VA_ARGS__, t_));    \
    } while (0)

uint64_t fl_record_next_pass(fl_record *r)
{
    uint64_t n;

    if (!r)
        return 0;
    fl_lock(&r->mu);
    n = ++r->n_passes;
    fl_unlock(&r->mu);
    return n;
}

/* Since the line before of the same pass, or since its beginning; at its end of
   all of it. */
static double rate_of(fl_record *r, const fl_record_pass *p)
{
    bool goes_on =
        !p->is_last && r->last_pass == p->pass && p->samples >= r->last_samples;
    uint64_t samples = p->samples - (goes_on ? r->last_samples : 0);
    double seconds = p->seconds - (goes_on ? r->last_seconds : 0);

    r->last_pass = p->pass;
    r->last_samples = p->samples;
    r->last_seconds = p->seconds;
    return seconds > 0 ? (double)samples / seconds : NAN;
}

void fl_record_add_pass(fl_record *r, const fl_record_pass *p)
{
    fl_record_numbers n = { .pass = p };

    if (!r)
        return;
    fl_lock(&r->mu);
    n.rate = rate_of(r, p);
    TELL(r, pass, &n);
    fl_unlock(&r->mu);
}

void fl_record_add_number(fl_record *r, const char *name, uint64_t step,
                          double value)
{
    if (!r)
        return;
    fl_lock(&r->mu);
    TELL(r, number, name, step, value);
    fl_unlock(&r->mu);
}

void fl_record_add_note(fl_record *r, const char *name, const char *text)
{
    if (!r)
        return;
    fl_lock(&r->mu);
    TELL(r, note, name, text);
    fl_unlock(&r->mu);
}

void fl_record_add_server(fl_record *r, const char *json)
{
    if (!r)
        return;
    fl_lock(&r->mu);
    TELL(r, server, json);
    fl_unlock(&r->mu);
}

void fl_record_close(fl_record *r)
{
    if (!r)
        return;
    for (size_t i = 0; i < FL_LEN(sinks); i++) {
        if (r->files[i].path && sinks[i]->end)
            give_up(&r->files[i], sinks[i]->end(&r->files[i], now()));
        close_file(&r->files[i]);
    }
    fl_mutex_release(&r->mu);
    fl_free(r);
}
