/* pump.c - who reads which file when.
 *
 * A file goes through these states, and the mutex guards every step:
 *
 *     not open --> busy --> idle --> busy ... --> done
 *                     `--> waiting --> idle
 *
 * A thread that wants work takes an idle file, in turn, so that open files
 * share the threads; else it opens the next one; else it waits. The read itself
 * runs outside the mutex while the file is busy, and the file is idle again
 * before its block is parsed. With one thread there is thus one open file at a
 * time, as long as no pipe makes it wait.
 *
 * Files that wait are pipes without data. One thread at a time looks at them
 * with poll(): without a wait while there is other work, and for a while when
 * nobody reads. Only so they become idle again, hence no descriptor is closed
 * while it is looked at. Few files are open at a time, but pipes that have been
 * silent for a while do not count: they must not keep others from opening. A
 * command that has just been started is silent too, therefore the while.
 *
 * A file is finished by whoever is the last with a unit of it. Every wait has a
 * time limit, so a stop is seen by all.
 *
 * A dispatcher is asked by one thread at a time, without the mutex; the others go
 * on meanwhile. It may name a file twice, when this process was taken for lost:
 * that file is not read again. Whoever leaves last tells it of the files that
 * the end of the pass has cut short, so that nobody waits for them.
 *
 * While records come that were trained before, a file stays busy until its
 * block is parsed, so that the records are counted in their order.
 */
#include "data/dataset/pump.h"

#include <poll.h>
#include <stdatomic.h>
#include <stdio.h>

#include "base/thread.h"
#include "data/dataset/pump_file.h"

#define MS 1000000u /* in nanoseconds */

/* Files that are open at a time: this many for each thread, and some. */
#define OPEN_PER_THREAD 2
#define OPEN_MORE 2

/* A pipe without data for so long is silent; so many of them do not count. */
#define SILENT_NS (500 * MS)
#define SILENT_MAX 64

/* Longest wait for a pipe, and for another thread. */
#define POLL_MS 100
#define CHANGE_NS (20 * MS)

/* Pipes are not looked at more often than this while there is other work. */
#define GLANCE_NS MS

typedef enum file_state { NOT_OPEN, BUSY, IDLE, WAITING, DONE } file_state;

typedef struct file {
    fl_pump_file f;
    file_state state;
    uint64_t wait_ns; /* since when it has been waiting */
    size_t n_units;   /* that threads are reading or parsing */
    bool broken;      /* a unit failed: its cache would lack records */
    bool is_told;     /* the dispatcher knows that it is finished */
} file;

typedef struct worker {
    fl_pump *pump;
    fl_thread *thread;
    fl_pump_unit unit;
    fl_records rest; /* of the unit's rows, behind those that are handed on */
    int index;
} worker;

struct fl_pump {
    fl_pump_job job;
    file *files;
    worker *workers;
    size_t n_files;
    atomic_bool stop;

    fl_mutex mu; /* guards what follows, and what the files say */
    fl_cond changed;
    bool is_started; /* all threads are there */
    int n_running, n_leaving;
    bool is_asking;      /* a thread is with the dispatcher */
    bool is_dispatched;  /* there is no other file to open */
    size_t next_file;    /* the first that is not open, without a dispatcher */
    size_t n_begun;      /* files that were opened */
    FL_VEC(file *) open; /* busy, idle and waiting ones */
    size_t turn;         /* where in `open` the next search begins */
    size_t n_busy, n_waiting;
    uint64_t glance_ns; /* when the pipes were last looked at */
    bool is_polling;    /* then the two arrays belong to the polling thread */
    FL_VEC(struct pollfd) fds;
    FL_VEC(file *) polled;
    fl_pump_stats stats;
    fl_err err;
};

/* --- files, under the mutex ----------------------------------------------- */

static void set_state(fl_pump *p, file *f, file_state to)
{
    p->n_busy -= f->state == BUSY;
    p->n_waiting -= f->state == WAITING;
    f->state = to;
    p->n_busy += to == BUSY;
    p->n_waiting += to == WAITING;
}

static file *next_idle(fl_pump *p)
{
    for (size_t i = 0; i < p->open.len; i++) {
        size_t at = (p->turn + i) % p->open.len;

        if (p->open.data[at]->state == IDLE) {
            p->turn = at + 1;
            return p->open.data[at];
        }
    }
    return NULL;
}

static size_t count_silent(const fl_pump *p)
{
    uint64_t now = fl_now_ns();
    size_t n = 0;

    for (size_t i = 0; i < p->open.len; i++) {
        const file *f = p->open.data[i];

        n += f->state == WAITING && now - f->wait_ns > SILENT_NS;
    }
    return n < SILENT_MAX ? n : SILENT_MAX;
}

static bool may_open(const fl_pump *p)
{
    size_t most = OPEN_PER_THREAD * (size_t)p->job.args.n_threads + OPEN_MORE;

    if (p->is_dispatched || p->is_asking)
        return false;
    return p->open.len < most || p->open.len - count_silent(p) < most;
}

static file *open_file(fl_pump *p, size_t i)
{
    file *f = &p->files[i];

    fl_vec_push(&p->open, f);
    p->n_begun++;
    return f;
}

/* Everything in the file was trained before. */
static bool is_trained(const fl_pump *p, size_t i)
{
    const fl_file_position *const *before = p->job.args.before;

    return before && before[i] && before[i]->is_done;
}

/* --- the dispatcher ----------------------------------------------------------- */

/* Unlike what who takes the rows says, closed is an error here. */
static void fail_dispatch(fl_pump *p, fl_status st)
{
    if (!p->err.status)
        fl_err_save(&p->err, st);
    atomic_store(&p->stop, true);
    fl_cond_wake_all(&p->changed);
}

static fl_status ask_dispatcher(const fl_pump *p, uint64_t *item)
{
    const fl_pump_args *a = &p->job.args;

    FL_TRY(a->dispatcher->next(a->dispatcher->arg, a->pass, p->n_files, item));
    if (*item >= p->n_files && *item < FL_DISPATCHER_LATER)
        FL_FAIL(FL_ERR_CORRUPT,
                "file %llu was dispatched, and there are only %zu: give all "
                "processes the same list",
                (unsigned long long)*item, p->n_files);
    return FL_OK;
}

/* A file with something to train, or no file. */
static fl_status ask_for_fresh(fl_pump *p, uint64_t *item)
{
    const fl_dispatcher *d = p->job.args.dispatcher;

    FL_TRY(ask_dispatcher(p, item));
    while (*item < p->n_files && is_trained(p, (size_t)*item)) {
        FL_TRY(d->finished(d->arg, p->job.args.pass, p->n_files, *item));
        FL_TRY(ask_dispatcher(p, item));
    }
    return FL_OK;
}

/* The file that the dispatcher names, or NULL. Lets go of the mutex. */
static file *open_dispatched(fl_pump *p)
{
    uint64_t item = FL_DISPATCHER_NONE;
    fl_status st;

    p->is_asking = true;
    fl_unlock(&p->mu);
    st = ask_for_fresh(p, &item);
    fl_lock(&p->mu);
    p->is_asking = false;
    if (st)
        fail_dispatch(p, st);
    p->is_dispatched = st || item == FL_DISPATCHER_NONE;
    fl_cond_wake_all(&p->changed);
    if (st || item >= p->n_files)
        return NULL;
    /* One that is named again has to be told of again. */
    p->files[item].is_told = false;
    return p->files[item].state == NOT_OPEN ? open_file(p, (size_t)item) : NULL;
}

/* The first file from `i` on that has something to train. */
static size_t next_fresh(const fl_pump *p, size_t i)
{
    while (i < p->n_files && is_trained(p, i))
        i++;
    return i;
}

static file *open_next(fl_pump *p)
{
    size_t i = p->next_file;

    if (p->job.args.dispatcher)
        return open_dispatched(p);
    p->next_file = next_fresh(p, i + 1);
    p->is_dispatched = p->next_file == p->n_files;
    return open_file(p, i);
}

static fl_status tell_dispatcher(fl_pump *p, file *f)
{
    const fl_pump_args *a = &p->job.args;
    bool was_told;

    if (!a->dispatcher)
        return FL_OK;
    fl_lock(&p->mu);
    was_told = f->is_told;
    f->is_told = true;
    fl_unlock(&p->mu);
    if (was_told)
        return FL_OK;
    return a->dispatcher->finished(a->dispatcher->arg, a->pass, p->n_files,
                                   (uint64_t)(f - p->files));
}

/* By the last thread: no other changes the files any more. */
static fl_status tell_dispatcher_of_rest(fl_pump *p)
{
    for (size_t i = 0; p->job.args.dispatcher && i < p->n_files; i++)
        if (p->files[i].state != NOT_OPEN)
            FL_TRY(tell_dispatcher(p, &p->files[i]));
    return FL_OK;
}

/* The order of the others stays, so that each gets its turn. */
static void forget_open(fl_pump *p, const file *f)
{
    size_t n = 0;

    for (size_t i = 0; i < p->open.len; i++)
        if (p->open.data[i] != f)
            p->open.data[n++] = p->open.data[i];
    p->open.len = n;
}

/* --- waiting -------------------------------------------------------------- */

/* Waiting files that have something become idle. Lets go of the mutex. */
static void look_at_pipes(fl_pump *p, int timeout_ms)
{
    p->is_polling = true;
    p->fds.len = p->polled.len = 0;
    for (size_t i = 0; i < p->open.len; i++) {
        file *f = p->open.data[i];

        if (f->state != WAITING)
            continue;
        fl_vec_push(&p->polled, f);
        fl_vec_push(&p->fds, ((struct pollfd){ .fd = fl_source_fd(f->f.source),
                                               .events = POLLIN }));
    }
    fl_unlock(&p->mu);
    (void)poll(p->fds.data, (nfds_t)p->fds.len, timeout_ms);
    fl_lock(&p->mu);
    for (size_t i = 0; i < p->fds.len; i++)
        if (p->fds.data[i].revents)
            set_state(p, p->polled.data[i], IDLE);
    p->glance_ns = fl_now_ns();
    p->is_polling = false;
    fl_cond_wake_all(&p->changed);
}

static void glance_at_pipes(fl_pump *p)
{
    if (p->n_waiting == 0 || p->is_polling)
        return;
    if (fl_now_ns() - p->glance_ns > GLANCE_NS)
        look_at_pipes(p, 0);
}

static void wait_for_work(fl_pump *p)
{
    if (p->n_waiting > 0 && p->n_busy == 0 && !p->is_polling)
        look_at_pipes(p, POLL_MS);
    else
        (void)fl_cond_wait_until(&p->changed, &p->mu, fl_now_ns() + CHANGE_NS);
}

/* --- taking and giving back ----------------------------------------------- */

/* A file to read a unit from, or NULL when there is nothing more to do. */
static file *take_file(fl_pump *p)
{
    file *f = NULL;

    fl_lock(&p->mu);
    while (!atomic_load(&p->stop)) {
        glance_at_pipes(p);
        f = next_idle(p);
        if (!f && may_open(p))
            f = open_next(p);
        if (f || (p->open.len == 0 && p->is_dispatched))
            break;
        wait_for_work(p);
    }
    if (f) {
        set_state(p, f, BUSY);
        f->n_units++;
    }
    fl_unlock(&p->mu);
    return f;
}

static void give_back(fl_pump *p, file *f, fl_source_state got)
{
    static const file_state to[] = { [FL_SOURCE_TEXT] = IDLE,
                                     [FL_SOURCE_WAIT] = WAITING,
                                     [FL_SOURCE_END] = DONE };

    fl_lock(&p->mu);
    set_state(p, f, to[got]);
    if (got == FL_SOURCE_END)
        forget_open(p, f);
    if (got == FL_SOURCE_WAIT)
        f->wait_ns = fl_now_ns();
    if (got == FL_SOURCE_TEXT)
        fl_cond_wake_one(&p->changed);
    else
        fl_cond_wake_all(&p->changed);
    fl_unlock(&p->mu);
}

/* True when the file is complete and this was its last unit. */
static bool count_unit(fl_pump *p, file *f, const fl_pump_unit *u, fl_status st)
{
    bool last;

    fl_lock(&p->mu);
    f->f.lines += u->lines;
    f->f.bad_lines += u->bad_lines;
    f->broken = f->broken || st;
    fl_stat_add(&p->stats.lines, u->lines);
    fl_stat_add(&p->stats.skipped_lines, u->skipped_lines);
    fl_stat_add(&p->stats.read, u->bytes);
    f->n_units--;
    last = f->state == DONE && f->n_units == 0 && !f->broken;
    if (last) {
        fl_stat_add(&p->stats.files, 1);
        fl_stat_add(&p->stats.empty_files, f->f.lines == 0);
        fl_stat_add(&p->stats.cached_files, f->f.cache != NULL);
    }
    fl_unlock(&p->mu);
    return last;
}

/* --- a worker ------------------------------------------------------------- */

static fl_status parse(worker *w, file *f)
{
    const fl_pump_args *a = &w->pump->job.args;
    const fl_pump_unit *u = &w->unit;
    uint32_t at = (uint32_t)(f - w->pump->files);

    FL_TRY(fl_pump_file_parse(&w->pump->job, &f->f, &w->unit));
    if (a->trained && u->block == 0)
        fl_trained_begin(a->trained, at, f->f.cache != NULL);
    if (a->trained)
        fl_trained_block(a->trained, at, u->block, u->n_records);
    return FL_OK;
}

static void tell_trained(const worker *w, const file *f, uint64_t lo,
                         uint64_t hi)
{
    const fl_pump_args *a = &w->pump->job.args;
    fl_row_run run = { (uint32_t)(f - w->pump->files), w->unit.block, lo,
                       hi - lo };

    if (a->trained && hi > lo)
        fl_trained_add(a->trained, &(fl_row_runs){ &run, 1, 1 });
}

/* Rows begin with the unit's record `at`; those behind `part` stay. */
static fl_status hand_part(worker *w, const file *f, uint64_t at, fl_range part)
{
    const fl_pump_args *a = &w->pump->job.args;
    fl_records *rows = &w->unit.rows;
    size_t n = (size_t)(part.hi - part.lo);
    fl_row_run run = { (uint32_t)(f - w->pump->files), w->unit.block, part.lo,
                       n };
    fl_records swap;

    fl_records_drop(rows, (size_t)(part.lo - at));
    FL_TRY(fl_records_move_tail(rows, n, &w->rest));
    fl_stat_add(&w->pump->stats.records, n);
    FL_TRY(a->take(a->arg, w->index, run, rows));
    fl_records_clear(rows);
    swap = *rows;
    *rows = w->rest;
    w->rest = swap;
    return FL_OK;
}

/* Without the records that were trained before. */
static fl_status hand_on(worker *w, const file *f)
{
    uint64_t at = 0, n = w->unit.n_records;

    while (at < n) {
        fl_range part = fl_pump_unit_fresh(&f->f, &w->unit, at);

        tell_trained(w, f, at, part.lo);
        if (part.lo < part.hi)
            FL_TRY(hand_part(w, f, at, part));
        at = part.hi;
    }
    return FL_OK;
}

static void tell_finished(fl_pump *p, file *f)
{
    fl_status st = tell_dispatcher(p, f);

    if (!st)
        return;
    fl_lock(&p->mu);
    fail_dispatch(p, st);
    fl_unlock(&p->mu);
}

static fl_status finish_file(fl_pump *p, file *f)
{
    fl_trained *t = p->job.args.trained;

    FL_TRY(fl_pump_file_finish(&f->f));
    if (t)
        fl_trained_end(t, (uint32_t)(f - p->files));
    tell_finished(p, f);
    return FL_OK;
}

static fl_status run_unit(worker *w, file *f)
{
    fl_pump *p = w->pump;
    fl_source_state got = FL_SOURCE_END;
    fl_status st = fl_pump_file_read(&p->job, &f->f, &w->unit, &got);
    bool is_passing = !st && fl_pump_file_is_passing(&f->f);
    bool has_text = !st && got == FL_SOURCE_TEXT;

    if (has_text && is_passing)
        st = parse(w, f);
    give_back(p, f, st ? FL_SOURCE_END : got);
    if (has_text && !is_passing)
        st = parse(w, f);
    if (has_text && !st)
        st = hand_on(w, f);
    return count_unit(p, f, &w->unit, st) ? finish_file(p, f) : st;
}

/* Closed is what only the one who takes the rows says: he has enough. */
static void fail(fl_pump *p, fl_status st)
{
    fl_lock(&p->mu);
    if (st != FL_ERR_CLOSED && !p->err.status)
        fl_err_save(&p->err, st);
    fl_unlock(&p->mu);
    fl_pump_stop(p);
}

/* A worker that runs before all are there could wait for somebody to take its
   rows while the last thread cannot be made: nobody would. */
static void wait_for_start(fl_pump *p)
{
    fl_lock(&p->mu);
    while (!p->is_started && !atomic_load(&p->stop))
        fl_cond_wait(&p->changed, &p->mu);
    fl_unlock(&p->mu);
}

static void leave(fl_pump *p)
{
    fl_status st = FL_OK;
    bool is_last;

    fl_lock(&p->mu);
    is_last = ++p->n_leaving == p->job.args.n_threads;
    fl_unlock(&p->mu);
    if (is_last)
        st = tell_dispatcher_of_rest(p);
    fl_lock(&p->mu);
    if (st)
        fail_dispatch(p, st);
    p->n_running--;
    fl_cond_wake_all(&p->changed);
    fl_unlock(&p->mu);
}

static void run_worker(void *arg)
{
    worker *w = arg;
    fl_pump *p = w->pump;
    file *f;

    wait_for_start(p);
    while ((f = take_file(p))) {
        fl_status st = run_unit(w, f);

        if (st)
            fail(p, st);
    }
    fl_text_release(&w->unit.text);
    fl_records_release(&w->unit.rows);
    fl_records_release(&w->rest);
    leave(p);
}

/* --- the pump ------------------------------------------------------------- */

static fl_status check_args(const fl_pump_args *a)
{
    if (a->n_threads < 1 || a->n_threads > FL_PUMP_THREADS_MAX)
        FL_FAIL(FL_ERR_INVAL, "%d reading threads: there can be 1 to %d",
                a->n_threads, FL_PUMP_THREADS_MAX);
    if (a->cache && a->parser->draws)
        FL_FAIL(FL_ERR_INVAL,
                "format %s draws its records anew in every pass, so they "
                "cannot be kept in the cache %s; read it without a cache",
                a->parser->format->name, a->cache);
    return FL_OK;
}

static void list_files(fl_pump *p)
{
    const fl_pump_args *a = &p->job.args;

    for (size_t i = 0; i < p->n_files; i++) {
        const fl_file_position *before = a->before ? a->before[i] : NULL;

        p->files[i].f.path = a->paths->data[i];
        p->files[i].f.before = before;
        if (a->trained && before)
            fl_trained_before(a->trained, (uint32_t)i, before);
    }
}

static fl_pump *make_pump(const fl_pump_args *args)
{
    fl_pump *p = fl_alloc(sizeof(*p));

    p->job.args = *args;
    p->job.parser_hash = args->cache ? fl_parser_hash(args->parser) : 0;
    p->job.bad = fl_bad_log_new(&args->limits, &args->parser->schema);
    p->n_files = args->paths->len;
    p->files = fl_alloc(p->n_files * sizeof(*p->files));
    list_files(p);
    p->next_file = next_fresh(p, 0);
    p->is_dispatched = p->next_file == p->n_files && !args->dispatcher;
    p->workers = fl_alloc((size_t)args->n_threads * sizeof(*p->workers));
    fl_mutex_init(&p->mu);
    fl_cond_init(&p->changed);
    return p;
}

static void free_pump(fl_pump *p)
{
    for (size_t i = 0; i < p->n_files; i++)
        fl_pump_file_release(&p->files[i].f);
    fl_bad_log_free(p->job.bad);
    fl_vec_release(&p->open);
    fl_vec_release(&p->fds);
    fl_vec_release(&p->polled);
    fl_cond_release(&p->changed);
    fl_mutex_release(&p->mu);
    fl_free(p->workers);
    fl_free(p->files);
    fl_free(p);
}

static fl_status start_worker(fl_pump *p, int i)
{
    worker *w = &p->workers[i];
    char name[16];
    fl_status st;

    w->pump = p;
    w->index = i;
    snprintf(name, sizeof(name), "data-%d", i);
    st = fl_thread_start(&w->thread, name, run_worker, w);
    fl_lock(&p->mu);
    p->n_running += !st;
    fl_unlock(&p->mu);
    return st;
}

static void join_workers(fl_pump *p)
{
    for (int i = 0; i < p->job.args.n_threads; i++)
        fl_thread_join(p->workers[i].thread);
}

fl_status fl_pump_start(fl_pump **out, const fl_pump_args *args)
{
    fl_status st = FL_OK;
    fl_pump *p;

    FL_TRY(check_args(args));
    p = make_pump(args);
    for (int i = 0; !st && i < args->n_threads; i++)
        st = start_worker(p, i);
    if (st) {
        fl_pump_stop(p);
        join_workers(p);
        free_pump(p);
        return st;
    }
    fl_lock(&p->mu);
    p->is_started = true;
    fl_cond_wake_all(&p->changed);
    fl_unlock(&p->mu);
    *out = p;
    return FL_OK;
}

/* Under the mutex, so that no thread misses it between its look and its
   wait. */
void fl_pump_stop(fl_pump *p)
{
    fl_lock(&p->mu);
    atomic_store(&p->stop, true);
    fl_cond_wake_all(&p->changed);
    fl_unlock(&p->mu);
}

void fl_pump_wait(fl_pump *p)
{
    fl_lock(&p->mu);
    while (p->n_running)
        fl_cond_wait(&p->changed, &p->mu);
    fl_unlock(&p->mu);
}

fl_pump_stats fl_pump_progress(fl_pump *p)
{
    fl_pump_stats s = { .bad_lines = fl_bad_log_count(p->job.bad) };

    fl_stats_add(&fl_pump_stats_list, &s, &p->stats);
    return s;
}

/* A pass that was ended early is not judged by the share of its bad lines. */
fl_status fl_pump_join(fl_pump *p, fl_pump_stats *stats)
{
    fl_status st;

    join_workers(p);
    if (stats)
        *stats = fl_pump_progress(p);
    st = fl_err_restore(&p->err);
    if (st || !p->is_dispatched || p->stats.files < p->n_begun)
        fl_bad_log_report(p->job.bad);
    else
        st = fl_bad_log_end(p->job.bad);
    free_pump(p);
    return st;
}
