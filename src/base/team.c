/* team.c - members meet twice per run: at `round` and at `left`.
 *
 *     caller                          member i
 *     fn, arg, left = n - 1           waits for a new round
 *     round += 1 ------------------>  fn(arg, i), keeps its error
 *     fn(arg, 0)                      left -= 1
 *     waits for left == 0 <---------
 *
 * Each wait first spins, then sleeps. Waking a sleeper costs 5 to 50 us, as
 * much as a small step, so spinning pays when the next step follows at once:
 * a member spins a little longer than its short waits took, and hardly at all
 * while its waits are long. No spin where the cores are fewer than the
 * members: it would keep the awaited one from running.
 *
 * A kernel that wakes a member next to its waker may leave both on one core,
 * where they run one after the other while another core idles; virtual machines
 * do so. Hence a member that starts on the core of a lower member forbids
 * itself the cores of all lower ones and keeps the choice among the rest.
 * Member 0 is the caller's thread and stays as it is.
 *
 * fn and arg are published by the store to `round` and stay until every member
 * is through. The end of a team is a round whose fn is NULL.
 */
#include "base/team.h"

#include <sched.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>

#include "base/alloc.h"
#include "base/thread.h"

#define MEMBERS_MAX 4096

#define SPIN_MIN_NS 500
#define SPIN_MAX_NS 50000

/* Pauses between two looks at the clock. */
#define PAUSES 16

typedef struct member {
    fl_team *team;
    fl_thread *thread; /* NULL for the caller */
    int i;
    atomic_int core;  /* where it was last seen; a hint */
    uint64_t spin_ns; /* owner thread only */
    fl_err err;       /* written before left -= 1, read after left == 0 */
} member;

struct fl_team {
    int n;
    bool has_cores;  /* one for each member; else no spin and no spreading */
    cpu_set_t cores; /* what the founder of the team may run on */
    member *members;
    fl_status (*fn)(void *arg, int i);
    void *arg;
    atomic_bool running;
    _Atomic uint64_t round; /* written under mu, so that no sleeper misses it */
    atomic_int left;
    fl_mutex mu;
    int sleepers;      /* guarded by mu */
    bool caller_waits; /* guarded by mu */
    fl_cond go;        /* round moved */
    fl_cond done;      /* left is 0 */
};

typedef bool (*condition)(fl_team *t, uint64_t round);

static bool round_moved(fl_team *t, uint64_t seen)
{
    return atomic_load_explicit(&t->round, memory_order_acquire) != seen;
}

static bool all_left(fl_team *t, uint64_t round)
{
    (void)round;
    return atomic_load_explicit(&t->left, memory_order_acquire) == 0;
}

/* True when the condition came about within this member's patience. */
static bool spin(const member *m, condition holds, uint64_t round,
                 uint64_t start_ns)
{
    if (!m->team->has_cores)
        return false;
    do {
        for (int i = 0; i < PAUSES; i++) {
            fl_pause();
            if (holds(m->team, round))
                return true;
        }
    } while (fl_now_ns() - start_ns < m->spin_ns);
    return false;
}

/* A wait that a spin could have covered makes more patient, whether it slept
   or not; a longer one halves the patience. */
static void learn(member *m, uint64_t waited_ns)
{
    uint64_t want = 2 * waited_ns;

    if (waited_ns > SPIN_MAX_NS)
        want = m->spin_ns / 2;
    else if (want < m->spin_ns)
        return;
    if (want < SPIN_MIN_NS)
        want = SPIN_MIN_NS;
    m->spin_ns = want < SPIN_MAX_NS ? want : SPIN_MAX_NS;
}

static void sleep_for_round(fl_team *t, uint64_t seen)
{
    fl_lock(&t->mu);
    t->sleepers++;
    while (!round_moved(t, seen))
        fl_cond_wait(&t->go, &t->mu);
    t->sleepers--;
    fl_unlock(&t->mu);
}

static void sleep_for_members(fl_team *t, uint64_t round)
{
    fl_lock(&t->mu);
    t->caller_waits = true;
    while (!all_left(t, round))
        fl_cond_wait(&t->done, &t->mu);
    t->caller_waits = false;
    fl_unlock(&t->mu);
}

static void wait_for(member *m, condition holds, uint64_t round,
                     void (*sleep)(fl_team *t, uint64_t round))
{
    uint64_t start_ns;

    if (holds(m->team, round))
        return;
    start_ns = fl_now_ns();
    if (!spin(m, holds, round, start_ns))
        sleep(m->team, round);
    learn(m, fl_now_ns() - start_ns);
}

/* The last one through wakes the caller, if it sleeps. */
static void leave(fl_team *t)
{
    if (atomic_fetch_sub_explicit(&t->left, 1, memory_order_acq_rel) != 1)
        return;
    fl_lock(&t->mu);
    if (t->caller_waits)
        fl_cond_wake_one(&t->done);
    fl_unlock(&t->mu);
}

/* Keeps this thread off the cores of the lower members. */
static void move_away(const member *m)
{
    cpu_set_t free_cores = m->team->cores;

    for (int j = 0; j < m->i; j++) {
        int core = atomic_load_explicit(&m->team->members[j].core,
                                        memory_order_relaxed);

        if (core >= 0)
            CPU_CLR((size_t)core, &free_cores);
    }
    /* Refused, the member works where it is. */
    (void)sched_setaffinity(0, sizeof(free_cores), &free_cores);
}

/* Notes where this member runs. */
static int note_core(member *m)
{
    int core = sched_getcpu();

    if (atomic_load_explicit(&m->core, memory_order_relaxed) != core)
        atomic_store_explicit(&m->core, core, memory_order_relaxed);
    return core;
}

/* Run at the start of a round: one core, one member. */
static void spread(member *m)
{
    int core = note_core(m);

    for (int j = 0; j < m->i; j++) {
        if (atomic_load_explicit(&m->team->members[j].core,
                                 memory_order_relaxed) == core) {
            move_away(m);
            note_core(m);
            return;
        }
    }
}

static void member_main(void *arg)
{
    member *m = arg;
    fl_team *t = m->team;

    for (uint64_t seen = 0;; seen++) {
        fl_status st;

        wait_for(m, round_moved, seen, sleep_for_round);
        if (!t->fn)
            return;
        if (t->has_cores)
            spread(m);
        st = t->fn(t->arg, m->i);
        m->err.status = FL_OK;
        if (st)
            fl_err_save(&m->err, st);
        leave(t);
    }
}

static void start_round(fl_team *t, fl_status (*fn)(void *arg, int i),
                        void *arg)
{
    bool wake;

    t->fn = fn;
    t->arg = arg;
    atomic_store_explicit(&t->left, t->n - 1, memory_order_relaxed);
    fl_lock(&t->mu);
    atomic_fetch_add_explicit(&t->round, 1, memory_order_release);
    wake = t->sleepers > 0;
    fl_unlock(&t->mu);
    if (wake)
        fl_cond_wake_all(&t->go);
}

static fl_status start_members(fl_team *t, const char *name)
{
    char title[64];

    for (int i = 1; i < t->n; i++) {
        snprintf(title, sizeof(title), "%.48s-%d", name, i);
        FL_TRY(fl_thread_start(&t->members[i].thread, title, member_main,
                               &t->members[i]));
    }
    return FL_OK;
}

fl_status fl_team_new(fl_team **out, int n, const char *name)
{
    fl_team *t;
    fl_status st;

    if (n < 1 || n > MEMBERS_MAX)
        FL_FAIL(FL_ERR_INVAL, "team %s: %d threads is not in 1..%d", name, n,
                MEMBERS_MAX);
    t = fl_alloc(sizeof(*t));
    t->n = n;
    t->has_cores = n <= fl_cpu_count() &&
                   sched_getaffinity(0, sizeof(t->cores), &t->cores) == 0;
    t->members = fl_alloc((size_t)n * sizeof(*t->members));
    for (int i = 0; i < n; i++)
        t->members[i] =
            (member){ .team = t, .i = i, .core = -1, .spin_ns = SPIN_MIN_NS };
    fl_mutex_init(&t->mu);
    fl_cond_init(&t->go);
    fl_cond_init(&t->done);
    st = start_members(t, name);
    if (st) {
        fl_team_free(t);
        return fl_err_ctx(st, "team %s of %d", name, n);
    }
    *out = t;
    return FL_OK;
}

void fl_team_free(fl_team *t)
{
    if (!t)
        return;
    start_round(t, NULL, NULL);
    for (int i = 1; i < t->n; i++)
        fl_thread_join(t->members[i].thread);
    fl_cond_release(&t->done);
    fl_cond_release(&t->go);
    fl_mutex_release(&t->mu);
    fl_free(t->members);
    fl_free(t);
}

int fl_team_size(const fl_team *t)
{
    return t->n;
}

/* The error of the first member that failed becomes the caller's. */
static fl_status join_errors(const fl_team *t, fl_status own)
{
    if (own)
        return own;
    for (int i = 1; i < t->n; i++)
        FL_TRY(fl_err_restore(&t->members[i].err));
    return FL_OK;
}

fl_status fl_team_run(fl_team *t, fl_status (*fn)(void *arg, int i), void *arg)
{
    fl_status st;

    if (t->n == 1)
        return fn(arg, 0);
    FL_ASSERT(!atomic_exchange(&t->running, true));
    note_core(&t->members[0]);
    start_round(t, fn, arg);
    st = fn(arg, 0);
    wait_for(&t->members[0], all_left, 0, sleep_for_members);
    st = join_errors(t, st);
    atomic_store(&t->running, false);
    return st;
}
