/* loop.c - the real loop: epoll, an eventfd for posts, a heap of timers, run by
 * a leader and its followers.
 *
 * A round is: poll, tell the watches, run the timers that are due, run what is
 * posted. What a callback adds (a timer of 0 ms, a post) comes in the next
 * round, so that nothing starves the descriptors.
 *
 * epoll hands out events of several watches at once, and a callback may end
 * any of them. An ended watch is therefore only marked, and freed after the
 * round.
 *
 * The leader makes the rounds, one thread at a time:
 *
 *     nobody waits for the loop     its own thread leads
 *     one thread waits              it leads, and needs to be woken by nobody
 *     several threads wait          one leads, the others follow; a follower is
 *                                   the next leader
 *
 * As long as helpers (threads that wait or flush) do the work, the loop's own
 * thread stays away and looks once per poll slice whether it is needed.
 * Callbacks run under run_lock, which the leader lays down while it polls; so a
 * helper that flushes runs what is posted by itself.
 *
 * Threads: what is said to be is guarded by mu, `stop` is atomic, all else is
 * guarded by run_lock. No callback runs under mu. Lock order: run_lock, then
 * mu.
 */
#include "rpc/loop/loop_inside.h"

#include <errno.h>
#include <limits.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "base/latch.h"
#include "base/thread.h"
#include "base/vec.h"
#include "rpc/loop/timers.h"

#define NS_PER_MS 1000000u

/* How long the loop's own thread leaves the work to helpers before it looks. */
#define POLL_SLICE_NS UINT64_C(3000000)

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

typedef enum leader { NO_LEADER, OWN_THREAD, HELPER } leader;

typedef struct real_loop {
    fl_loop base;
    fl_thread *thread;
    int poll_fd, wake_fd;
    atomic_bool stop;
    atomic_uint n_waking; /* threads that are about to end a poll */
    fl_mutex run_lock;    /* of who runs callbacks */
    fl_timers timers;
    FL_VEC(fl_watch *) over; /* ended in this round */
    posted_list spare;       /* memory for the posts to come */

    fl_mutex mu; /* guards the rest */
    posted_list posts;
    bool is_urgent; /* not all of them are deferred */
    leader leader;
    bool is_polling;         /* the leader, and must be woken */
    uint64_t polls_until_ms; /* if nobody does */
    bool was_helped;         /* since the own thread last looked */
    bool polls_later;        /* the own thread: it looks within a slice */
    uint64_t n_notified;
    int n_helpers, n_followers;
    fl_cond lead_passed; /* for followers: nobody leads, or a notify */
    fl_cond needed;      /* for the own thread, while it stays away */
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

static void end_poll(real_loop *l)
{
    uint64_t one = 1;
    ssize_t n;

    do
        n = write(l->wake_fd, &one, sizeof(one));
    while (n < 0 && errno == EINTR);
    atomic_fetch_sub(&l->n_waking, 1);
}

/* Under mu: wakes who is to look at the loop. True: it polls, and is woken when
   mu is laid down (unlock), since on this core it would run at once and want mu.
   Once what was posted has run the poster may be done with the loop, which
   therefore stays until that has happened. */
FL_MUST_CHECK
static bool wake(real_loop *l)
{
    bool ends_poll = l->is_polling;

    l->is_polling = false;
    atomic_fetch_add(&l->n_waking, ends_poll);
    if (l->leader == NO_LEADER)
        fl_cond_wake_one(&l->needed);
    return ends_poll;
}

static void unlock(real_loop *l, bool ends_poll)
{
    fl_unlock(&l->mu);
    if (ends_poll)
        end_poll(l);
}

static void real_post(fl_loop *base, fl_loop_fn fn, void *arg)
{
    real_loop *l = (real_loop *)base;

    fl_lock(&l->mu);
    fl_vec_push(&l->posts, ((posted){ fn, arg }));
    l->is_urgent = true;
    unlock(l, wake(l));
}

/* An own thread that polls later looks soon by itself. */
static void real_post_deferred(fl_loop *base, fl_loop_fn fn, void *arg)
{
    real_loop *l = (real_loop *)base;

    fl_lock(&l->mu);
    fl_vec_push(&l->posts, ((posted){ fn, arg }));
    unlock(l, !l->polls_later && wake(l));
}

/* Runs what is posted up to now; false when there was nothing. The list's
   memory goes back and forth, so a busy loop does not allocate. */
static bool run_posts(real_loop *l)
{
    posted_list todo;

    fl_lock(&l->mu);
    todo = l->posts;
    l->posts = l->spare;
    l->is_urgent = false;
    fl_unlock(&l->mu);
    l->spare = (posted_list){ 0 };
    for (size_t i = 0; i < todo.len; i++)
        todo.data[i].fn(todo.data[i].arg);
    l->spare = todo;
    l->spare.len = 0;
    return todo.len > 0;
}

/* Posts of posts as well. */
static void run_all_posts(real_loop *l)
{
    while (run_posts(l))
        ;
}

/* Not from a callback of another loop: those must not wait. */
static void lock_run(real_loop *l)
{
    FL_ASSERT(!current);
    fl_lock(&l->run_lock);
    current = l;
}

static void unlock_run(real_loop *l)
{
    current = NULL;
    fl_unlock(&l->run_lock);
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

/* Polls. Posts and notifies since n_notified are looked for before it begins,
   and end it afterwards. */
static int wait_for_events(real_loop *l, struct epoll_event *events,
                           uint64_t n_notified)
{
    int most_ms = wait_ms(l), n;

    fl_lock(&l->mu);
    if (l->posts.len || l->n_notified != n_notified || atomic_load(&l->stop))
        most_ms = 0;
    l->is_polling = most_ms != 0;
    l->polls_until_ms =
        most_ms < 0 ? UINT64_MAX : real_now_ms(&l->base) + (uint64_t)most_ms;
    fl_unlock(&l->mu);
    unlock_run(l);
    n = epoll_wait(l->poll_fd, events, ROUND_MAX, most_ms);
    FL_ASSERT(n >= 0 || errno == EINTR);
    lock_run(l);
    fl_lock(&l->mu);
    l->is_polling = false;
    fl_unlock(&l->mu);
    return n;
}

static void empty_wake_fd(real_loop *l)
{
    uint64_t count;
    ssize_t n = read(l->wake_fd, &count, sizeof(count));

    FL_ASSERT(n == sizeof(count) || errno == EAGAIN || errno == EINTR);
}

/* Of the leader; nobody else polls, so nobody else may know the watches that
   are freed. */
static void run_round(real_loop *l, uint64_t n_notified)
{
    struct epoll_event events[ROUND_MAX];
    int n;

    lock_run(l);
    n = wait_for_events(l, events, n_notified);
    for (int i = 0; i < n && !atomic_load(&l->stop); i++) {
        if (events[i].data.ptr)
            tell(events[i].data.ptr, events[i].events);
        else
            empty_wake_fd(l);
    }
    run_timers(l);
    (void)run_posts(l);
    free_over(l);
    unlock_run(l);
}

/* Under mu. One round by a new leader; its poll ends early when somebody
   notified since n_notified. */
static void lead(real_loop *l, leader who, uint64_t n_notified)
{
    l->leader = who;
    fl_unlock(&l->mu);
    run_round(l, n_notified);
    fl_lock(&l->mu);
    l->leader = NO_LEADER;
    if (l->n_followers)
        fl_cond_wake_one(&l->lead_passed);
    else if (who == HELPER && l->is_urgent)
        fl_cond_wake_one(&l->needed);
}

/* Under mu. That somebody follows keeps the own thread from leading. */
static void follow(real_loop *l)
{
    l->n_followers++;
    fl_cond_wait(&l->lead_passed, &l->mu);
    l->n_followers--;
}

/* --- helpers -------------------------------------------------------------- */

/* Runs what is due and posted, but does not poll. A leader that polls may have
   to get up earlier then. */
static void run_pending(real_loop *l)
{
    fl_err last;

    fl_err_keep(&last);
    lock_run(l);
    run_timers(l);
    run_all_posts(l);
    fl_lock(&l->mu);
    unlock(l, l->is_polling &&
                  fl_timers_next_ms(&l->timers) < l->polls_until_ms && wake(l));
    unlock_run(l);
    fl_err_put_back(&last);
}

/* Under mu; the loop stays until all helpers have left. The one who leaves may
   be the one who was woken to lead. */
static void end_help(real_loop *l)
{
    l->n_helpers--;
    if (l->leader == NO_LEADER && l->n_followers)
        fl_cond_wake_one(&l->lead_passed);
    if (atomic_load(&l->stop))
        fl_cond_wake_all(&l->lead_passed);
}

/* Under mu. One round that waits for nothing, where nobody leads: what has
   arrived meanwhile needs no other thread. */
static void look(real_loop *l)
{
    if (l->leader != NO_LEADER || l->n_followers)
        return;
    l->was_helped = true;
    lead(l, HELPER, l->n_notified - 1);
}

static void real_flush(fl_poller *p)
{
    real_loop *l = (real_loop *)p;
    bool has_posts;

    if (real_is_mine(&l->base))
        return;
    fl_lock(&l->mu);
    has_posts = l->posts.len;
    l->n_helpers += has_posts;
    fl_unlock(&l->mu);
    if (!has_posts)
        return;
    run_pending(l);
    fl_lock(&l->mu);
    l->was_helped = true;
    look(l);
    end_help(l);
    fl_unlock(&l->mu);
}

static void real_notify(fl_poller *p)
{
    real_loop *l = (real_loop *)p;

    fl_lock(&l->mu);
    l->n_notified++;
    if (l->n_followers)
        fl_cond_wake_all(&l->lead_passed);
    unlock(l, l->leader == HELPER && wake(l));
}

static void real_wait(fl_poller *p, bool (*is_over)(void *arg), void *arg)
{
    real_loop *l = (real_loop *)p;
    fl_err last;

    FL_ASSERT(!real_is_mine(&l->base));
    real_flush(p);
    fl_err_keep(&last);
    fl_lock(&l->mu);
    l->n_helpers++;
    for (;;) {
        uint64_t n_notified = l->n_notified;
        bool is;

        fl_unlock(&l->mu);
        is = is_over(arg);
        fl_lock(&l->mu);
        if (is)
            break;
        if (l->leader == NO_LEADER) {
            l->was_helped = true;
            lead(l, HELPER, n_notified);
        } else if (l->n_notified == n_notified) {
            follow(l);
        }
    }
    end_help(l);
    fl_unlock(&l->mu);
    fl_err_put_back(&last);
}

/* --- the loop's own thread ------------------------------------------------ */

/* Under mu. Leaves the work to helpers for a poll slice; what is posted or due
   by then is not left to chance. */
static void poll_later(real_loop *l)
{
    l->was_helped = false;
    l->polls_later = true;
    (void)fl_cond_wait_until(&l->needed, &l->mu, fl_now_ns() + POLL_SLICE_NS);
    l->polls_later = false;
    fl_unlock(&l->mu);
    run_pending(l);
    fl_lock(&l->mu);
}

static void loop_main(void *arg)
{
    real_loop *l = arg;

    fl_lock(&l->mu);
    while (!atomic_load(&l->stop)) {
        if (l->leader == HELPER || l->was_helped || l->n_followers)
            poll_later(l);
        else
            lead(l, OWN_THREAD, l->n_notified);
    }
    fl_unlock(&l->mu);
}

/* --- beginning and end ---------------------------------------------------- */

static const fl_loop_ops real_ops = {
    .now_ms = real_now_ms,
    .post = real_post,
    .post_deferred = real_post_deferred,
    .timer = real_timer,
    .cancel = real_cancel,
    .is_mine = real_is_mine,
};

static const fl_poller real_poller = {
    .flush = real_flush,
    .wait = real_wait,
    .notify = real_notify,
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
    fl_vec_release(&l->spare);
    fl_timers_release(&l->timers);
    fl_cond_release(&l->needed);
    fl_cond_release(&l->lead_passed);
    fl_mutex_release(&l->mu);
    fl_mutex_release(&l->run_lock);
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
    l->base.poller = real_poller;
    fl_mutex_init(&l->mu);
    fl_mutex_init(&l->run_lock);
    fl_cond_init(&l->lead_passed);
    fl_cond_init(&l->needed);
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

static void stop(real_loop *l)
{
    atomic_store(&l->stop, true);
    fl_lock(&l->mu);
    unlock(l, wake(l));
    fl_thread_join(l->thread);
}

static void run_posts_to_end(real_loop *l)
{
    lock_run(l);
    run_all_posts(l);
    unlock_run(l);
}

/* What is posted may be what a helper waits for; and a helper may post. */
static void drain(real_loop *l)
{
    run_posts_to_end(l);
    fl_lock(&l->mu);
    while (l->n_helpers)
        fl_cond_wait(&l->lead_passed, &l->mu);
    fl_unlock(&l->mu);
    run_posts_to_end(l);
}

void fl_loop_free(fl_loop *base)
{
    real_loop *l = (real_loop *)base;

    if (!l)
        return;
    FL_ASSERT(base->ops == &real_ops && !real_is_mine(base));
    stop(l);
    drain(l);
    while (atomic_load(&l->n_waking))
        fl_pause();
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

void fl_loop_post_deferred(fl_loop *l, fl_loop_fn fn, void *arg)
{
    l->ops->post_deferred(l, fn, arg);
}

typedef struct loop_call {
    fl_loop_fn fn;
    void *arg;
    fl_latch latch;
} loop_call;

static void run_call(void *arg)
{
    loop_call *c = arg;

    c->fn(c->arg);
    fl_latch_done(&c->latch, FL_OK);
}

/* The caller sleeps: it may be in a callback of another loop, where it must not
   help this one. */
void fl_loop_call(fl_loop *l, fl_loop_fn fn, void *arg)
{
    loop_call c = { .fn = fn, .arg = arg };
    fl_status st;

    if (fl_loop_is_mine(l)) {
        fn(arg);
        return;
    }
    fl_latch_init(&c.latch, NULL);
    fl_latch_add(&c.latch);
    fl_loop_post(l, run_call, &c);
    st = fl_latch_wait(&c.latch);
    FL_ASSERT(!st);
    fl_latch_release(&c.latch);
}

fl_poller *fl_loop_poller(fl_loop *l)
{
    return l->poller.wait ? &l->poller : NULL;
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
