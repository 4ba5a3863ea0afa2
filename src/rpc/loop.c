/* loop.c - the real loop: epoll, an eventfd for posts, a heap of timers.
 *
 * A round is: wait, tell the watches, run the timers that are due, run what is
 * posted. What a callback adds (a timer of 0 ms, a post) comes in the next
 * round, so that nothing starves the descriptors.
 *
 * epoll hands out events of several watches at once, and a callback may end
 * any of them. An ended watch is therefore only marked, and freed after the
 * round.
 *
 * Threads: `posts` and `is_asleep` are guarded by mu, `stop` is atomic, all
 * else belongs to the loop's thread. No callback runs under mu.
 */
#include "rpc/loop_inside.h"

#include <errno.h>
#include <limits.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "base/thread.h"
#include "base/vec.h"
#include "rpc/timers.h"

#define NS_PER_MS 1000000u

/* Events that one wait takes. */
#define ROUND_MAX 64

typedef struct posted {
    fl_loop_fn fn;
    void *arg;
} posted;

typedef FL_VEC(posted) posted_list;

struct fl_watch {
    struct real_loop *loop;
    int fd;
    unsigned events;
    fl_io_fn fn;
    void *arg;
    bool is_over;
};

typedef struct real_loop {
    fl_loop base;
    fl_thread *thread;
    int poll_fd, wake_fd;
    fl_timers timers;
    FL_VEC(fl_watch *) over; /* ended in this round */
    atomic_bool stop;
    fl_mutex mu;
    posted_list posts; /* guarded by mu */
    bool is_asleep;    /* a post must wake it; guarded by mu */
} real_loop;

static _Thread_local const real_loop *current;

static bool real_is_mine(const fl_loop *l)
{
    return current == (const real_loop *)l;
}

static real_loop *mine(fl_loop *l)
{
    FL_ASSERT(real_is_mine(l));
    return (real_loop *)l;
}

/* --- time ----------------------------------------------------------------- */

static uint64_t real_now_ms(const fl_loop *l)
{
    (void)l;
    return fl_now_ns() / NS_PER_MS;
}

/* Counts from the end of the current millisecond: a timer is never early. */
static uint64_t real_timer(fl_loop *l, uint64_t delay_ms, fl_loop_fn fn,
                           void *arg)
{
    uint64_t at = real_now_ms(l) + (delay_ms > 0);

    at = delay_ms > UINT64_MAX - 1 - at ? UINT64_MAX - 1 : at + delay_ms;
    return fl_timers_add(&mine(l)->timers, at, fn, arg);
}

static void real_cancel(fl_loop *l, uint64_t id)
{
    fl_timers_remove(&mine(l)->timers, id);
}

static void run_timers(real_loop *l)
{
    uint64_t now = real_now_ms(&l->base), order = l->timers.next_order;
    fl_loop_fn fn;
    void *arg;

    while (!atomic_load(&l->stop) &&
           fl_timers_take(&l->timers, now, order, &fn, &arg))
        fn(arg);
}

/* --- posts ---------------------------------------------------------------- */

static void wake(real_loop *l)
{
    uint64_t one = 1;
    ssize_t n;

    do
        n = write(l->wake_fd, &one, sizeof(one));
    while (n < 0 && errno == EINTR);
}

/* Wakes it under the lock: once the callback has run, the poster is done with
   the loop, and it may be freed. */
static void real_post(fl_loop *base, fl_loop_fn fn, void *arg)
{
    real_loop *l = (real_loop *)base;

    fl_lock(&l->mu);
    fl_vec_push(&l->posts, ((posted){ fn, arg }));
    if (l->is_asleep)
        wake(l);
    l->is_asleep = false;
    fl_unlock(&l->mu);
}

/* Runs what is posted up to now; false when there was nothing. The list's
   memory goes back and forth, so a busy loop does not allocate. */
static bool run_posts(real_loop *l, posted_list *spare)
{
    posted_list todo;

    fl_lock(&l->mu);
    todo = l->posts;
    l->posts = *spare;
    fl_unlock(&l->mu);
    for (size_t i = 0; i < todo.len; i++)
        todo.data[i].fn(todo.data[i].arg);
    *spare = todo;
    spare->len = 0;
    return todo.len > 0;
}

/* --- watches -------------------------------------------------------------- */

static uint32_t to_epoll(unsigned events)
{
    return (events & FL_IO_READ ? (uint32_t)EPOLLIN : 0) |
           (events & FL_IO_WRITE ? (uint32_t)EPOLLOUT : 0);
}

fl_status fl_loop_watch(fl_loop *base, int fd, unsigned events, fl_io_fn fn,
                        void *arg, fl_watch **out)
{
    real_loop *l = mine(base);
    fl_watch *w = fl_alloc(sizeof(*w));
    struct epoll_event e = { .events = to_epoll(events), .data.ptr = w };

    if (epoll_ctl(l->poll_fd, EPOLL_CTL_ADD, fd, &e) != 0) {
        int err = errno;

        fl_free(w);
        FL_FAIL(FL_ERR_IO,
                "cannot watch descriptor %d: %s; if it says that there is no "
                "space, raise fs.epoll.max_user_watches",
                fd, strerror(err));
    }
    *w = (fl_watch){
        .loop = l, .fd = fd, .events = events, .fn = fn, .arg = arg
    };
    *out = w;
    return FL_OK;
}

void fl_watch_set(fl_watch *w, unsigned events)
{
    struct epoll_event e = { .events = to_epoll(events), .data.ptr = w };

    FL_ASSERT(real_is_mine(&w->loop->base) && !w->is_over);
    if (events == w->events)
        return;
    FL_ASSERT(epoll_ctl(w->loop->poll_fd, EPOLL_CTL_MOD, w->fd, &e) == 0);
    w->events = events;
}

void fl_watch_end(fl_watch *w)
{
    real_loop *l = w->loop;

    FL_ASSERT(real_is_mine(&l->base) && !w->is_over);
    FL_ASSERT(epoll_ctl(l->poll_fd, EPOLL_CTL_DEL, w->fd, NULL) == 0);
    w->is_over = true;
    fl_vec_push(&l->over, w);
}

/* An earlier callback of the round may have ended the watch, or may not want
   the event any more. */
static void tell(fl_watch *w, uint32_t got)
{
    unsigned events = 0;

    if (w->is_over)
        return;
    if (got & EPOLLIN)
        events |= FL_IO_READ;
    if (got & EPOLLOUT)
        events |= FL_IO_WRITE;
    events &= w->events;
    if (got & (EPOLLERR | EPOLLHUP))
        events = FL_IO_READ | FL_IO_WRITE;
    if (events)
        w->fn(w->arg, events);
}

static void free_over(real_loop *l)
{
    for (size_t i = 0; i < l->over.len; i++)
        fl_free(l->over.data[i]);
    l->over.len = 0;
}

/* --- rounds --------------------------------------------------------------- */

static int wait_ms(real_loop *l)
{
    uint64_t next = fl_timers_next_ms(&l->timers), now;

    if (next == UINT64_MAX)
        return -1;
    now = real_now_ms(&l->base);
    if (next <= now)
        return 0;
    return next - now < INT_MAX ? (int)(next - now) : INT_MAX;
}

/* Posts are looked for before it falls asleep, and wake it afterwards. */
static int wait_for_events(real_loop *l, struct epoll_event *events)
{
    bool has_posts;
    int n;

    fl_lock(&l->mu);
    has_posts = l->posts.len > 0 || atomic_load(&l->stop);
    l->is_asleep = !has_posts;
    fl_unlock(&l->mu);
    n = epoll_wait(l->poll_fd, events, ROUND_MAX, has_posts ? 0 : wait_ms(l));
    FL_ASSERT(n >= 0 || errno == EINTR);
    fl_lock(&l->mu);
    l->is_asleep = false;
    fl_unlock(&l->mu);
    return n;
}

static void empty_wake_fd(real_loop *l)
{
    uint64_t count;
    ssize_t n = read(l->wake_fd, &count, sizeof(count));

    FL_ASSERT(n == sizeof(count) || errno == EAGAIN || errno == EINTR);
}

static void run_round(real_loop *l, posted_list *spare)
{
    struct epoll_event events[ROUND_MAX];
    int n = wait_for_events(l, events);

    for (int i = 0; i < n && !atomic_load(&l->stop); i++) {
        if (events[i].data.ptr)
            tell(events[i].data.ptr, events[i].events);
        else
            empty_wake_fd(l);
    }
    run_timers(l);
    (void)run_posts(l, spare);
    free_over(l);
}

static void loop_main(void *arg)
{
    real_loop *l = arg;
    posted_list spare = { 0 };

    current = l;
    while (!atomic_load(&l->stop))
        run_round(l, &spare);
    while (run_posts(l, &spare))
        free_over(l);
    fl_vec_release(&spare);
    current = NULL;
}

/* --- beginning and end ---------------------------------------------------- */

static const fl_loop_ops real_ops = {
    .now_ms = real_now_ms,
    .post = real_post,
    .timer = real_timer,
    .cancel = real_cancel,
    .is_mine = real_is_mine,
};

static void release(real_loop *l)
{
    if (l->poll_fd >= 0)
        close(l->poll_fd);
    if (l->wake_fd >= 0)
        close(l->wake_fd);
    free_over(l);
    fl_vec_release(&l->over);
    fl_vec_release(&l->posts);
    fl_timers_release(&l->timers);
    fl_mutex_release(&l->mu);
    fl_free(l);
}

static fl_status open_fds(real_loop *l)
{
    struct epoll_event e = { .events = EPOLLIN };

    l->poll_fd = epoll_create1(EPOLL_CLOEXEC);
    l->wake_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    if (l->poll_fd < 0 || l->wake_fd < 0 ||
        epoll_ctl(l->poll_fd, EPOLL_CTL_ADD, l->wake_fd, &e) != 0)
        FL_FAIL(FL_ERR_IO,
                "cannot make an event loop: %s; if descriptors ran out, raise "
                "the limit on open files (ulimit -n)",
                strerror(errno));
    return FL_OK;
}

fl_status fl_loop_new(fl_loop **out, const char *name)
{
    real_loop *l = fl_alloc(sizeof(*l));
    fl_status st;

    l->base.ops = &real_ops;
    fl_mutex_init(&l->mu);
    st = open_fds(l);
    if (!st)
        st = fl_thread_start(&l->thread, name, loop_main, l);
    if (st) {
        release(l);
        return st;
    }
    *out = &l->base;
    return FL_OK;
}

void fl_loop_free(fl_loop *base)
{
    real_loop *l = (real_loop *)base;

    if (!l)
        return;
    FL_ASSERT(base->ops == &real_ops && !real_is_mine(base));
    atomic_store(&l->stop, true);
    wake(l);
    fl_thread_join(l->thread);
    release(l);
}

/* --- what every kind does ------------------------------------------------- */

uint64_t fl_loop_now_ms(const fl_loop *l)
{
    return l->ops->now_ms(l);
}

void fl_loop_post(fl_loop *l, fl_loop_fn fn, void *arg)
{
    l->ops->post(l, fn, arg);
}

uint64_t fl_loop_timer(fl_loop *l, uint64_t delay_ms, fl_loop_fn fn, void *arg)
{
    return l->ops->timer(l, delay_ms, fn, arg);
}

void fl_loop_cancel(fl_loop *l, uint64_t id)
{
    l->ops->cancel(l, id);
}

bool fl_loop_is_mine(const fl_loop *l)
{
    return l->ops->is_mine(l);
}
