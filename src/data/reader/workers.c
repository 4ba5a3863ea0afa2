/* workers.c - processes that make batches.
 *
 * Three parts: the bytes of a batch, which both sides know; the worker's side,
 * which runs in the forked process and leaves by _exit; the parent's side, one
 * thread that watches all workers.
 *
 * The parent believes a worker nothing that it can check: a shared slot number
 * must be one that is not out, counts must fit, the error text is ended by the
 * parent. What was in a pipe when its worker died is still taken: the batches
 * are whole, since a worker writes to the pipe only after a batch is.
 *
 * A pipe says at once that its worker is gone, unless something that the worker
 * has started keeps it open. So the watcher asks the system as well, every
 * LOOK_MS.
 */
#include "data/reader/workers.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <poll.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/thread.h"

#define PAGE ((size_t)4096)
#define COLUMN_ALIGN ((size_t)64)
#define LOOK_MS 200
#define NS_PER_MS UINT64_C(1000000)
#define NAME_BYTES 32 /* the kernel shows 15 of them */
#define MESSAGES_AT_ONCE 64

enum { MESSAGE_BATCH = 1, MESSAGE_END, MESSAGE_FAILED };

typedef struct message {
    uint32_t kind, slot;
} message;

/* Beginning of a worker's region. `taken` is set by the worker and cleared by
   the parent. */
typedef struct control {
    fl_err error;
    _Atomic uint32_t taken[];
} control;

typedef struct shm_slot {
    fl_ready_batch ready; /* the first field: it stands for its slot */
    uint32_t number;
    atomic_bool out; /* sent by the worker and not given back */
    fl_feed *feeds;
} shm_slot;

typedef struct worker {
    pid_t pid; /* 0: none, or reaped */
    pid_t was; /* its number, for messages */
    int status;
    int ready; /* pipe: messages come */
    int empty; /* eventfd: shared slots that can be filled */
    char *region;
    shm_slot *slots;
    uint64_t n_batches;
    bool over; /* has said its end, or failed */
} worker;

struct fl_workers {
    fl_workers_args args;
    worker *all;
    struct pollfd *polls; /* one per worker, then `stop` */
    size_t control_bytes, shm_slot_bytes, region_bytes;
    void *map;
    size_t map_bytes;
    int stop; /* eventfd: written once */
    fl_thread *watcher;
    fl_mutex mu;
    fl_cond cond;
    bool forked;  /* guarded by mu: the watcher has tried to fork all */
    fl_err start; /* guarded by mu: how that went */
};

static size_t round_up(size_t n, size_t to)
{
    return (n + to - 1) / to * to;
}

/* --- the bytes of a batch ------------------------------------------------ */

/* Where the columns of a batch are in its shared slot, found from the
   counts. */
typedef struct layout {
    const fl_feed_spec *spec;
    size_t bytes, limit;
} layout;

static size_t head_bytes(const fl_schema *s)
{
    return (1 + 2 * (size_t)s->n_slots) * sizeof(uint64_t);
}

/* The place of n numbers of `size` bytes behind what is there; false when they
   do not end within the limit. bytes may pass the limit, for a message. */
static bool place(layout *l, uint64_t n, size_t size, size_t *at)
{
    size_t bytes;

    *at = round_up(l->bytes, COLUMN_ALIGN);
    if (fl_mul_overflow(n, size, &bytes) ||
        __builtin_add_overflow(*at, bytes, &l->bytes)) {
        l->bytes = SIZE_MAX;
        return false;
    }
    return l->bytes <= l->limit;
}

typedef struct column_place {
    size_t values, offsets, inner;
} column_place;

/* What a batch says of a column. */
typedef struct column_counts {
    uint64_t n_rows, n_values, n_inner;
} column_counts;

static bool place_column(layout *l, uint32_t i, const column_counts *n,
                         column_place *p)
{
    const fl_slot *slot = &l->spec->schema.slots[i];

    if (!place(l, n->n_values, fl_slot_bytes(slot), &p->values))
        return false;
    if (slot->width)
        return true;
    if (n->n_rows == UINT64_MAX ||
        !place(l, n->n_rows + 1, sizeof(int64_t), &p->offsets))
        return false;
    if (l->spec->vars[i].n_lod < 2)
        return true;
    return n->n_inner < UINT64_MAX &&
           place(l, n->n_inner + 1, sizeof(int64_t), &p->inner);
}

/* --- the worker's side --------------------------------------------------- */

/* What the worker process knows. */
typedef struct child {
    const fl_workers *ws;
    int number;
    int ready;
    const worker *self;
    control *control;
    uint32_t next_shm_slot;
} child;

static fl_status send_message(const child *c, uint32_t kind, uint32_t number)
{
    message m = { kind, number };
    ssize_t n;

    do {
        n = write(c->ready, &m, sizeof(m));
    } while (n < 0 && errno == EINTR);
    if (n != (ssize_t)sizeof(m))
        FL_FAIL(FL_ERR_IO, "cannot write to the parent: %s", strerror(errno));
    return FL_OK;
}

/* The eventfd lets through as often as there are free shared slots. */
static fl_status wait_for_shm_slot(child *c, uint32_t *out)
{
    uint32_t n = (uint32_t)c->ws->args.n_shm_slots;
    uint64_t one;
    ssize_t got;

    do {
        got = read(c->self->empty, &one, sizeof(one));
    } while (got < 0 && errno == EINTR);
    if (got != (ssize_t)sizeof(one))
        FL_FAIL(FL_ERR_IO, "cannot wait for the parent: %s", strerror(errno));
    for (uint32_t k = 0; k < n; k++) {
        uint32_t i = (c->next_shm_slot + k) % n;

        if (atomic_load_explicit(&c->control->taken[i], memory_order_acquire))
            continue;
        atomic_store(&c->control->taken[i], 1);
        c->next_shm_slot = i + 1;
        *out = i;
        return FL_OK;
    }
    FL_FAIL(FL_ERR_CORRUPT, "no slot of the shared memory is free, though the "
                            "parent said so; something wrote over it");
}

static fl_status write_batch(const child *c, const fl_columns *b, char *to)
{
    const fl_feed_spec *spec = c->ws->args.spec;
    const fl_schema *s = &spec->schema;
    layout l = { spec, head_bytes(s), c->ws->args.batch_bytes_max };
    uint64_t *head = (uint64_t *)(void *)to;

    head[0] = b->n_rows;
    for (uint32_t i = 0; i < s->n_slots; i++) {
        const fl_column *col = &b->cols[i];
        column_counts n = { b->n_rows, col->n_values, col->n_inner };
        column_place p = { 0 };

        if (!place_column(&l, i, &n, &p))
            FL_FAIL(FL_ERR_INVAL,
                    "a batch of %zu rows has more than %zu bytes up to slot "
                    "%s; make batches smaller or raise batch_bytes_max",
                    b->n_rows, c->ws->args.batch_bytes_max, s->slots[i].name);
        head[1 + 2 * i] = col->n_values;
        head[2 + 2 * i] = col->n_inner;
        memcpy(to + p.values, col->values,
               col->n_values * fl_slot_bytes(&s->slots[i]));
        if (!s->slots[i].width)
            memcpy(to + p.offsets, col->offsets,
                   (b->n_rows + 1) * sizeof(*col->offsets));
        if (spec->vars[i].n_lod > 1)
            memcpy(to + p.inner, col->inner,
                   (col->n_inner + 1) * sizeof(*col->inner));
    }
    return FL_OK;
}

static fl_status make_one(child *c, fl_feeder *f, bool *end)
{
    const fl_workers_args *a = &c->ws->args;
    const fl_feed *feeds;
    size_t n_rows;
    uint32_t i;

    fl_feeder_begin(f);
    FL_TRY(a->fill(a->fill_arg, c->number, f, end));
    if (*end)
        return send_message(c, MESSAGE_END, 0);
    FL_TRY(fl_feeder_feeds(f, &feeds, &n_rows));
    FL_TRY(wait_for_shm_slot(c, &i));
    FL_TRY(write_batch(c, fl_feeder_columns(f),
                       c->self->region + c->ws->control_bytes +
                           i * c->ws->shm_slot_bytes));
    return send_message(c, MESSAGE_BATCH, i);
}

/* Handlers of the parent have no business here; what it ignores stays so. */
static void reset_signals(void)
{
    struct sigaction action, dfl = { .sa_handler = SIG_DFL };
    sigset_t none;

    for (int i = 1; i < NSIG; i++)
        if (sigaction(i, NULL, &action) == 0 && action.sa_handler != SIG_IGN &&
            action.sa_handler != SIG_DFL)
            (void)sigaction(i, &dfl, NULL);
    sigemptyset(&none);
    (void)sigprocmask(SIG_SETMASK, &none, NULL);
}

/* The parent may have died before the kernel was asked to tell us. */
static void die_with(pid_t parent)
{
    if (prctl(PR_SET_PDEATHSIG, SIGKILL) != 0 || getppid() != parent)
        _exit(1);
}

static _Noreturn void run_child(child *c, pid_t parent)
{
    char name[NAME_BYTES];
    fl_status st = FL_OK;
    bool end = false;
    fl_feeder *f;

    die_with(parent);
    reset_signals();
    f = fl_feeder_borrow(c->ws->args.spec);
    snprintf(name, sizeof(name), "fl-reader-%d", c->number);
    (void)prctl(PR_SET_NAME, name);
    while (!st && !end)
        st = make_one(c, f, &end);
    if (st) {
        fl_err_save(&c->control->error, st);
        st = send_message(c, MESSAGE_FAILED, 0);
    }
    _exit(st ? 1 : 0);
}

/* --- starting ------------------------------------------------------------ */

static fl_status system_failed(const char *what, int number)
{
    FL_FAIL(FL_ERR_IO, "worker %d: cannot %s: %s; use fewer workers", number,
            what, strerror(errno));
}

static fl_status fork_worker(fl_workers *ws, int number)
{
    worker *w = &ws->all[number];
    pid_t parent = getpid();
    int ends[2];

    w->empty =
        eventfd((unsigned)ws->args.n_shm_slots, EFD_CLOEXEC | EFD_SEMAPHORE);
    if (w->empty < 0)
        return system_failed("make an eventfd", number);
    if (pipe2(ends, O_CLOEXEC) != 0)
        return system_failed("make a pipe", number);
    w->ready = ends[0];
    (void)fcntl(w->ready, F_SETFL, O_NONBLOCK);
    w->pid = fork();
    if (w->pid == 0) {
        child c = { .ws = ws,
                    .number = number,
                    .ready = ends[1],
                    .self = w,
                    .control = (control *)(void *)w->region };

        close(ends[0]);
        run_child(&c, parent);
    }
    close(ends[1]);
    if (w->pid < 0) {
        w->pid = 0;
        return system_failed("fork a process", number);
    }
    w->was = w->pid;
    ws->polls[number] = (struct pollfd){ .fd = w->ready, .events = POLLIN };
    return FL_OK;
}

static fl_status fork_all(fl_workers *ws)
{
    for (int i = 0; i < ws->args.n_workers; i++)
        FL_TRY(fork_worker(ws, i));
    return FL_OK;
}

static void make_shm_slots(fl_workers *ws, int number)
{
    worker *w = &ws->all[number];
    uint32_t n_slots = ws->args.spec->schema.n_slots;

    w->ready = w->empty = -1;
    w->region = (char *)ws->map + (size_t)number * ws->region_bytes;
    w->slots = fl_alloc(ws->args.n_shm_slots * sizeof(*w->slots));
    for (uint32_t k = 0; k < ws->args.n_shm_slots; k++) {
        shm_slot *b = &w->slots[k];

        b->number = k;
        b->feeds = fl_alloc(n_slots * sizeof(*b->feeds));
        b->ready.feeds = b->feeds;
        b->ready.worker = number;
        for (uint32_t i = 0; i < n_slots; i++)
            b->feeds[i].name = ws->args.spec->schema.slots[i].name;
    }
}

static fl_status map_regions(fl_workers *ws)
{
    const fl_workers_args *a = &ws->args;
    size_t head = head_bytes(&a->spec->schema), shm_slot_bytes, shm_slots;

    /* The counts are written before anything is found to be too large. */
    shm_slot_bytes = a->batch_bytes_max > head ? a->batch_bytes_max : head;
    ws->control_bytes = round_up(
        sizeof(control) + a->n_shm_slots * sizeof(_Atomic uint32_t), PAGE);
    ws->shm_slot_bytes = round_up(shm_slot_bytes, PAGE);
    if (ws->shm_slot_bytes >= shm_slot_bytes &&
        !fl_mul_overflow(ws->shm_slot_bytes, a->n_shm_slots, &shm_slots) &&
        !__builtin_add_overflow(shm_slots, ws->control_bytes,
                                &ws->region_bytes) &&
        !fl_mul_overflow(ws->region_bytes, (size_t)a->n_workers,
                         &ws->map_bytes))
        ws->map = mmap(NULL, ws->map_bytes, PROT_READ | PROT_WRITE,
                       MAP_SHARED | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (ws->map && ws->map != MAP_FAILED)
        return FL_OK;
    ws->map = NULL;
    FL_FAIL(FL_ERR_NOMEM,
            "no shared memory for %d workers with %zu batches of up to %zu "
            "bytes each; lower the capacity or batch_bytes_max",
            a->n_workers, a->n_shm_slots, a->batch_bytes_max);
}

/* --- the parent's side: what comes --------------------------------------- */

/* As many values as rows of a dense variable take; whole rows of a ragged. */
static bool counts_fit(const fl_feed_spec *spec, uint32_t i,
                       const column_counts *n)
{
    uint64_t width = spec->schema.slots[i].width, dense;

    if (!width)
        return n->n_values % fl_feed_row_width(&spec->vars[i]) == 0;
    return !fl_mul_overflow(n->n_rows, width, &dense) && dense == n->n_values;
}

/* Makes the ready batch of a shared slot from its counts, each read once. */
static bool read_batch(fl_workers *ws, const worker *w, shm_slot *b)
{
    const fl_feed_spec *spec = ws->args.spec;
    char *from = w->region + ws->control_bytes + b->number * ws->shm_slot_bytes;
    const volatile uint64_t *head = (const volatile uint64_t *)(void *)from;
    layout l = { spec, head_bytes(&spec->schema), ws->args.batch_bytes_max };
    uint64_t n_rows = head[0];

    for (uint32_t i = 0; i < spec->schema.n_slots; i++) {
        column_counts n = { n_rows, head[1 + 2 * i], head[2 + 2 * i] };
        column_place p = { 0 };
        fl_column col;

        if (!place_column(&l, i, &n, &p) || !counts_fit(spec, i, &n))
            return false;
        col = (fl_column){ .values = from + p.values,
                           .n_values = n.n_values,
                           .offsets = (int64_t *)(void *)(from + p.offsets),
                           .inner = (int64_t *)(void *)(from + p.inner),
                           .n_inner = n.n_inner };
        b->feeds[i].value = fl_feed_spec_view(spec, i, &col, n_rows);
    }
    b->ready.n_rows = n_rows;
    return true;
}

/* The error is this thread's; the worker's later messages are not read. */
static void report(fl_workers *ws, int number, fl_status st)
{
    ws->all[number].over = true;
    ws->args.on_fail(ws->args.arg, number, st);
}

static void report_nonsense(fl_workers *ws, int number)
{
    const worker *w = &ws->all[number];

    report(ws, number,
           fl_err_set(FL_ERR_CORRUPT,
                      "worker %d (process %d): what it says after %" PRIu64
                      " batches cannot be; its generator writes where it "
                      "should not",
                      number, (int)w->was, w->n_batches));
}

static void take_batch(fl_workers *ws, int number, uint32_t i)
{
    worker *w = &ws->all[number];
    shm_slot *b = i < ws->args.n_shm_slots ? &w->slots[i] : NULL;

    if (!b || atomic_load_explicit(&b->out, memory_order_acquire) ||
        !read_batch(ws, w, b)) {
        report_nonsense(ws, number);
        return;
    }
    atomic_store_explicit(&b->out, true, memory_order_relaxed);
    w->n_batches++;
    ws->args.on_batch(ws->args.arg, &b->ready);
}

static void take_error(fl_workers *ws, int number)
{
    const control *c = (const control *)(const void *)ws->all[number].region;
    fl_err e = c->error;

    e.text[sizeof(e.text) - 1] = '\0';
    if (e.status == FL_OK || e.status == FL_PENDING)
        e.status = FL_ERR_INVAL;
    report(ws, number,
           fl_err_ctx(fl_err_restore(&e), "worker %d (process %d)", number,
                      (int)ws->all[number].was));
}

static void take_message(fl_workers *ws, int number, message m)
{
    switch (m.kind) {
    case MESSAGE_BATCH:
        take_batch(ws, number, m.slot);
        return;
    case MESSAGE_END:
        ws->all[number].over = true;
        ws->args.on_end(ws->args.arg, number);
        return;
    case MESSAGE_FAILED:
        take_error(ws, number);
        return;
    default:
        report_nonsense(ws, number);
    }
}

/* Reads all that is there; false when the other end is closed. */
static bool take_messages(fl_workers *ws, int number)
{
    worker *w = &ws->all[number];
    message m[MESSAGES_AT_ONCE];
    ssize_t n;

    for (;;) {
        n = read(w->ready, m, sizeof(m));
        if (n <= 0)
            return n < 0 && (errno == EAGAIN || errno == EINTR);
        for (size_t k = 0; k < (size_t)n / sizeof(*m) && !w->over; k++)
            take_message(ws, number, m[k]);
    }
}

/* --- the parent's side: ends --------------------------------------------- */

/* True when it is gone. An application that ignores SIGCHLD, or waits for any
   child, may have taken the status away. */
static bool reap(worker *w, int flags)
{
    pid_t got;

    w->status = 0;
    do {
        got = waitpid(w->pid, &w->status, flags);
    } while (got < 0 && errno == EINTR);
    if (got == 0)
        return false;
    if (got < 0)
        w->status = -1;
    w->pid = 0;
    return true;
}

static fl_status death_of(const worker *w, int number)
{
    char how[96];

    if (w->status == -1)
        snprintf(how, sizeof(how), "is gone");
    else if (WIFSIGNALED(w->status))
        snprintf(how, sizeof(how), "was ended by signal %d (%s)",
                 WTERMSIG(w->status), strsignal(WTERMSIG(w->status)));
    else
        snprintf(how, sizeof(how), "left with status %d",
                 WEXITSTATUS(w->status));
    return fl_err_set(FL_ERR_IO,
                      "worker %d (process %d) %s after %" PRIu64
                      " batches, before the end of its data; look for why, "
                      "then reset the reader and start it again",
                      number, (int)w->was, how, w->n_batches);
}

/* The worker is reaped: what it still said comes first. */
static void bury(fl_workers *ws, int number)
{
    worker *w = &ws->all[number];

    (void)take_messages(ws, number);
    ws->polls[number].fd = -1;
    if (!w->over)
        report(ws, number, death_of(w, number));
}

/* A process that has closed its pipe has nothing more to say. */
static void end_worker(worker *w)
{
    if (!w->pid)
        return;
    (void)kill(w->pid, SIGKILL);
    (void)reap(w, 0);
}

static void look_for_dead(fl_workers *ws)
{
    for (int i = 0; i < ws->args.n_workers; i++)
        if (ws->all[i].pid && reap(&ws->all[i], WNOHANG))
            bury(ws, i);
}

static void handle_polls(fl_workers *ws)
{
    for (int i = 0; i < ws->args.n_workers; i++) {
        if (!ws->polls[i].revents || take_messages(ws, i))
            continue;
        end_worker(&ws->all[i]);
        bury(ws, i);
    }
}

static void watch(fl_workers *ws)
{
    struct pollfd *stop = &ws->polls[ws->args.n_workers];
    nfds_t n = (nfds_t)ws->args.n_workers + 1;
    uint64_t next_look = 0;

    *stop = (struct pollfd){ .fd = ws->stop, .events = POLLIN };
    while (!stop->revents) {
        int ready = poll(ws->polls, n, LOOK_MS);

        if (ready > 0)
            handle_polls(ws);
        if (fl_now_ns() < next_look)
            continue;
        look_for_dead(ws);
        next_look = fl_now_ns() + LOOK_MS * NS_PER_MS;
    }
}

static void watcher_main(void *arg)
{
    fl_workers *ws = arg;
    fl_status st = fork_all(ws);

    fl_lock(&ws->mu);
    fl_err_save(&ws->start, st);
    ws->forked = true;
    fl_cond_wake_all(&ws->cond);
    fl_unlock(&ws->mu);
    if (!st)
        watch(ws);
    for (int i = 0; i < ws->args.n_workers; i++)
        if (ws->all[i].pid)
            (void)kill(ws->all[i].pid, SIGKILL);
    for (int i = 0; i < ws->args.n_workers; i++)
        end_worker(&ws->all[i]);
}

/* --- the outside --------------------------------------------------------- */

static fl_status start_watcher(fl_workers *ws)
{
    ws->stop = eventfd(0, EFD_CLOEXEC);
    if (ws->stop < 0)
        FL_FAIL(FL_ERR_IO, "cannot make an eventfd for workers: %s",
                strerror(errno));
    FL_TRY(fl_thread_start(&ws->watcher, "fl-watch", watcher_main, ws));
    fl_lock(&ws->mu);
    while (!ws->forked)
        fl_cond_wait(&ws->cond, &ws->mu);
    fl_unlock(&ws->mu);
    return fl_err_restore(&ws->start);
}

fl_status fl_workers_start(fl_workers **out, const fl_workers_args *args)
{
    size_t n = (size_t)args->n_workers;
    fl_workers *ws;
    fl_status st;

    FL_ASSERT(args->n_workers > 0 && args->n_shm_slots > 0 &&
              args->n_shm_slots <= FL_SHM_SLOTS_MAX);
    ws = fl_alloc(sizeof(*ws));
    ws->args = *args;
    ws->stop = -1;
    fl_mutex_init(&ws->mu);
    fl_cond_init(&ws->cond);
    st = map_regions(ws);
    if (!st) {
        ws->all = fl_alloc(n * sizeof(*ws->all));
        ws->polls = fl_alloc((n + 1) * sizeof(*ws->polls));
        for (int i = 0; i < args->n_workers; i++)
            make_shm_slots(ws, i);
        st = start_watcher(ws);
    }
    if (st) {
        fl_workers_stop(ws);
        return st;
    }
    *out = ws;
    return FL_OK;
}

void fl_workers_give_back(fl_workers *ws, fl_ready_batch *p)
{
    shm_slot *b = (shm_slot *)(void *)p;
    worker *w = &ws->all[p->worker];
    control *c = (control *)(void *)w->region;
    uint64_t one = 1;

    atomic_store_explicit(&b->out, false, memory_order_release);
    atomic_store_explicit(&c->taken[b->number], 0, memory_order_release);
    /* The count never passes the number of shared slots: this cannot wait or
       fail. */
    FL_ASSERT(write(w->empty, &one, sizeof(one)) == (ssize_t)sizeof(one));
}

static void release_worker(const fl_workers *ws, worker *w)
{
    if (w->ready >= 0)
        close(w->ready);
    if (w->empty >= 0)
        close(w->empty);
    for (size_t k = 0; k < ws->args.n_shm_slots; k++)
        fl_free(w->slots[k].feeds);
    fl_free(w->slots);
}

void fl_workers_stop(fl_workers *ws)
{
    uint64_t one = 1;

    if (!ws)
        return;
    if (ws->watcher)
        FL_ASSERT(write(ws->stop, &one, sizeof(one)) == (ssize_t)sizeof(one));
    fl_thread_join(ws->watcher);
    for (int i = 0; ws->all && i < ws->args.n_workers; i++)
        release_worker(ws, &ws->all[i]);
    if (ws->stop >= 0)
        close(ws->stop);
    if (ws->map)
        munmap(ws->map, ws->map_bytes);
    fl_mutex_release(&ws->mu);
    fl_cond_release(&ws->cond);
    fl_free(ws->all);
    fl_free(ws->polls);
    fl_free(ws);
}
