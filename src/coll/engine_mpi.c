/* engine_mpi.c - collective calls by MPI, where the cluster has it.
 *
 * MPI is behind a plug-in (mpi_api.h), which is opened when it is asked for. One
 * thread makes all its calls: it starts what was begun, looks whether it is done,
 * and sleeps a little when nothing moves. Calls of a ring are made in their order,
 * one at a time; before each the ranks exchange what they call, as MPI itself
 * does not say when that differs.
 *
 * What is under way when all fails is left alone: MPI cannot take it back, and
 * moves nothing more as nobody looks.
 */
#include <dlfcn.h>
#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "base/alloc.h"
#include "base/thread.h"
#include "coll/engine.h"
#include "coll/mpi_api.h"
#include "coll/sign.h"

#define PLUGIN "flotilla-mpi.so"
#define LOOK_NS 50000
#define SLEEP_NS 50000

typedef enum call_phase { QUEUED, COMPARING, AT_WORK, DONE } call_phase;

typedef struct call {
    struct call *next;
    fl_coll_call call;
    fl_coll_sign sign, *signs; /* by rank */
    fl_coll_place at;
    uint64_t *counts;
    call_phase phase;
    void *request;
} call;

typedef struct mpi {
    fl_coll base;
    const fl_mpi_api *api;
    fl_thread *thread;

    fl_mutex mu;
    fl_cond more;
    bool is_open, is_closing;       /* guarded by mu */
    fl_err err;                     /* guarded by mu */
    call *calls;                    /* guarded by mu */
    uint64_t numbers[FL_MPI_RINGS]; /* guarded by mu */
} mpi;

static mpi *mpi_of(fl_coll *c)
{
    return (mpi *)c;
}

/* --- a call ------------------------------------------------------------------ */

static void free_call(call *a)
{
    fl_free(a->signs);
    fl_free(a->counts);
    fl_free(a);
}

static fl_status said(int failed, const char *why)
{
    if (failed)
        FL_FAIL(FL_ERR_IO, "%s", why);
    return FL_OK;
}

static fl_status compare(mpi *m, call *a)
{
    char why[FL_ERR_TEXT_MAX] = "";

    a->signs = fl_alloc((size_t)m->base.n_ranks * sizeof(*a->signs));
    a->phase = COMPARING;
    return said(m->api->swap(a->call.ring, &a->sign, a->signs, sizeof(a->sign),
                             &a->request, why),
                why);
}

static fl_status make_room(mpi *m, call *a)
{
    uint64_t sum = 0;

    if (!a->call.room)
        return FL_OK;
    a->counts = fl_alloc((size_t)m->base.n_ranks * sizeof(*a->counts));
    for (int i = 0; i < m->base.n_ranks; i++) {
        a->counts[i] = a->signs[i].n;
        sum += a->signs[i].n;
    }
    a->call.out = a->call.room(a->call.arg, a->counts, sum);
    if (!a->call.out && sum)
        FL_FAIL(FL_ERR_NOMEM,
                "worker %d has no memory for the %" PRIu64
                " elements of all workers",
                m->base.rank, sum);
    return FL_OK;
}

/* What all call is known. */
static fl_status start(mpi *m, call *a)
{
    char why[FL_ERR_TEXT_MAX] = "";

    for (int i = 0; i < m->base.n_ranks; i++)
        FL_TRY(
            fl_coll_sign_match(a->at, m->base.rank, &a->sign, i, &a->signs[i]));
    FL_TRY(make_room(m, a));
    a->phase = AT_WORK;
    return said(m->api->start(&a->call, a->counts, &a->request, why), why);
}

/* One look at a call in front of its ring. */
static fl_status look(mpi *m, call *a, bool *has_moved)
{
    char why[FL_ERR_TEXT_MAX] = "";
    int is_done = 0;

    if (a->phase == QUEUED) {
        *has_moved = true;
        return compare(m, a);
    }
    FL_TRY(said(m->api->test(a->request, &is_done, why), why));
    if (!is_done)
        return FL_OK;
    *has_moved = true;
    if (a->phase == COMPARING)
        return start(m, a);
    a->phase = DONE;
    return FL_OK;
}

/* --- the thread -------------------------------------------------------------- */

/* The first of each ring. */
static size_t find_fronts(mpi *m, call *fronts[FL_MPI_RINGS])
{
    bool has[FL_MPI_RINGS] = { 0 };
    size_t n = 0;

    for (call *a = m->calls; a; a = a->next) {
        if (!has[a->call.ring])
            fronts[n++] = a;
        has[a->call.ring] = true;
    }
    return n;
}

static void remove_call(mpi *m, const call *gone)
{
    call **at = &m->calls;

    while (*at != gone)
        at = &(*at)->next;
    *at = gone->next;
}

/* Takes all calls out and ends them with the error. */
static void end_all(mpi *m)
{
    call *all;
    fl_err why;

    fl_lock(&m->mu);
    all = m->calls;
    m->calls = NULL;
    why = m->err;
    fl_unlock(&m->mu);
    while (all) {
        call *a = all;
        fl_coll_call done = a->call;

        all = a->next;
        free_call(a);
        done.done(done.arg, fl_err_restore(&why));
    }
}

static void note(mpi *m, fl_status st)
{
    fl_lock(&m->mu);
    if (!m->err.status)
        fl_err_save(&m->err, st);
    fl_cond_wake_all(&m->more);
    fl_unlock(&m->mu);
}

static void end_one(mpi *m, call *a)
{
    fl_coll_call done = a->call;

    fl_lock(&m->mu);
    remove_call(m, a);
    fl_unlock(&m->mu);
    free_call(a);
    done.done(done.arg, FL_OK);
}

/* True: something has moved. */
static bool look_at_all(mpi *m)
{
    call *fronts[FL_MPI_RINGS];
    bool has_moved = false;
    size_t n;

    fl_lock(&m->mu);
    n = m->err.status ? 0 : find_fronts(m, fronts);
    fl_unlock(&m->mu);
    for (size_t i = 0; i < n; i++) {
        fl_status st = look(m, fronts[i], &has_moved);

        if (st) {
            note(m, st);
            return true;
        }
        if (fronts[i]->phase == DONE)
            end_one(m, fronts[i]);
    }
    return has_moved;
}

/* Until there is something to do; false: no more. */
static bool wait_for_calls(mpi *m)
{
    bool goes_on, has_failed;

    fl_lock(&m->mu);
    while (!m->is_closing && !m->calls)
        fl_cond_wait(&m->more, &m->mu);
    goes_on = !m->is_closing;
    has_failed = m->err.status != FL_OK;
    fl_unlock(&m->mu);
    if (has_failed)
        end_all(m);
    return goes_on;
}

static void run(void *arg)
{
    mpi *m = arg;
    char why[FL_ERR_TEXT_MAX] = "";
    uint64_t moved_ns;
    fl_status st = said(m->api->open(m->base.rank, m->base.n_ranks, why), why);

    if (st)
        note(m, st);
    fl_lock(&m->mu);
    m->is_open = true;
    fl_cond_wake_all(&m->more);
    fl_unlock(&m->mu);
    moved_ns = fl_now_ns();
    while (wait_for_calls(m)) {
        if (look_at_all(m))
            moved_ns = fl_now_ns();
        else if (fl_now_ns() - moved_ns > LOOK_NS)
            nanosleep(&(struct timespec){ .tv_nsec = SLEEP_NS }, NULL);
    }
    if (!st)
        m->api->close();
}

/* --- for coll.h ---------------------------------------------------------------- */

static void begin(fl_coll *c, const fl_coll_call *wanted, bool is_helped)
{
    mpi *m = mpi_of(c);
    call *a, **at = &m->calls;
    fl_err err;

    (void)is_helped;
    fl_lock(&m->mu);
    if (wanted->ring >= FL_MPI_RINGS && !m->err.status)
        fl_err_save(&m->err,
                    fl_err_set(FL_ERR_UNSUPPORTED,
                               "ring %d: by MPI there are rings 0 to %d",
                               wanted->ring, FL_MPI_RINGS - 1));
    err = m->err;
    if (!err.status) {
        a = fl_alloc(sizeof(*a));
        a->call = *wanted;
        a->sign = fl_coll_sign_of(wanted);
        a->at.ring = (uint32_t)wanted->ring;
        a->at.number = m->numbers[wanted->ring]++;
        while (*at)
            at = &(*at)->next;
        *at = a;
        fl_cond_wake_all(&m->more);
    }
    fl_unlock(&m->mu);
    if (err.status)
        wanted->done(wanted->arg, fl_err_restore(&err));
}

static void fail(fl_coll *c, fl_status why)
{
    note(mpi_of(c), why);
}

static bool waits_for(fl_coll *c, char *text, size_t cap)
{
    mpi *m = mpi_of(c);
    char call_text[FL_COLL_SIGN_TEXT_MAX];
    bool is_busy;

    fl_lock(&m->mu);
    is_busy = m->calls != NULL;
    if (is_busy)
        (void)snprintf(text, cap,
                       "%s, call %" PRIu64 " of ring %" PRIu32
                       ", waits for MPI",
                       fl_coll_sign_text(&m->calls->sign, call_text),
                       m->calls->at.number, m->calls->at.ring);
    fl_unlock(&m->mu);
    return is_busy;
}

/* --- life ---------------------------------------------------------------------- */

static void close_mpi(fl_coll *c)
{
    mpi *m = mpi_of(c);

    fl_lock(&m->mu);
    if (!m->err.status)
        fl_err_save(&m->err, fl_err_set(FL_ERR_CLOSED,
                                        "worker %d makes no more collective "
                                        "calls",
                                        m->base.rank));
    m->is_closing = true;
    fl_cond_wake_all(&m->more);
    fl_unlock(&m->mu);
    fl_thread_join(m->thread);
    end_all(m);
    fl_cond_release(&m->more);
    fl_mutex_release(&m->mu);
    /* MPI stays in the process: it does not like to be taken out. */
    fl_free(m);
}

/* Beside this library, or where the system looks for others. */
static void *find_library(void)
{
    char path[PATH_MAX];
    Dl_info here = { 0 };
    const char *end = NULL;
    void *library = NULL;

    if (dladdr(&fl_coll_engine_mpi, &here) && here.dli_fname)
        end = strrchr(here.dli_fname, '/');
    if (end && (size_t)snprintf(path, sizeof(path), "%.*s/%s",
                                (int)(end - here.dli_fname), here.dli_fname,
                                PLUGIN) < sizeof(path))
        library = dlopen(path, RTLD_NOW | RTLD_GLOBAL);
    return library ? library : dlopen(PLUGIN, RTLD_NOW | RTLD_GLOBAL);
}

static fl_status open_library(const fl_mpi_api **out)
{
    void *library = find_library();
    const fl_mpi_api *api;

    if (!library)
        FL_FAIL(FL_ERR_UNSUPPORTED,
                "collective calls by MPI need %s, which is built where "
                "libopenmpi-dev is installed: %s",
                PLUGIN, dlerror());
    api = dlsym(library, FL_MPI_API_SYMBOL);
    if (!api || api->version != FL_MPI_API_VERSION)
        FL_FAIL(FL_ERR_UNSUPPORTED, "%s is of another version", PLUGIN);
    *out = api;
    return FL_OK;
}

/* MPI begins in the thread that makes its calls. */
static fl_status wait_for_open(mpi *m)
{
    fl_err err;

    fl_lock(&m->mu);
    while (!m->is_open)
        fl_cond_wait(&m->more, &m->mu);
    err = m->err;
    fl_unlock(&m->mu);
    return err.status ? fl_err_restore(&err) : FL_OK;
}

static fl_status open_mpi(const fl_coll_options *o, fl_coll **out)
{
    const fl_mpi_api *api;
    fl_status st;
    mpi *m;

    FL_TRY(open_library(&api));
    m = fl_alloc(sizeof(*m));
    m->base.engine = &fl_coll_engine_mpi;
    m->base.rank = o->rank;
    m->base.n_ranks = o->n_ranks;
    m->api = api;
    fl_mutex_init(&m->mu);
    fl_cond_init(&m->more);
    st = fl_thread_start(&m->thread, "fl-mpi", run, m);
    if (!st)
        st = wait_for_open(m);
    if (st) {
        fl_err kept;

        fl_err_save(&kept, st);
        close_mpi(&m->base);
        return fl_err_restore(&kept);
    }
    *out = &m->base;
    return FL_OK;
}

const fl_coll_engine fl_coll_engine_mpi = {
    .name = "mpi",
    .open = open_mpi,
    .close = close_mpi,
    .begin = begin,
    .fail = fail,
    .waits_for = waits_for,
};
