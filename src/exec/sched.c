/* sched.c - runs steps as their dependencies allow, on a team.
 *
 * A step whose dependencies are done is put in the queue; whoever is free
 * takes it, prepares it, cuts it into shares if it is large and can be cut, and
 * puts the other shares in the queue. An operator that waits for the world
 * leaves the queue and comes back when it is woken; members with nothing to do
 * sleep until work, a wake-up, an error or the end.
 *
 * Steps with FL_OP_ORDERED begin in the order of the program, as others wait
 * for them in that order, but one need not end before the next begins.
 *
 * Steps may have begun before the run: they wait then like others, but nobody
 * is there to take them from the queue until the run starts.
 *
 * Everything below is guarded by mu; but what a run of one member alone looks at
 * while it has work (the queue, what steps wait for) it looks at without: others
 * only say there that a step was woken. The order in which steps run changes
 * nothing: shares and steps that run at once touch different memory.
 */
#include "exec/runner.h"

#include <inttypes.h>
#include <stdio.h>

#include "base/timeline.h"
#include "ir/comm.h"

typedef struct task {
    int step, ith, nth; /* nth 0: not prepared yet */
    bool resumed;
} task;

typedef struct ring {
    task *tasks;
    int head, len, cap;
} ring;

/* How far a step came before its run. */
typedef enum ahead { NOT_AHEAD, BEGUN_AHEAD, DONE_AHEAD } ahead;

/* Wakes one step of one run. */
typedef struct step_waker {
    fl_waker port;
    fl_sched *s;
    int step;
    bool waits; /* returned FL_PENDING, and not in the queue again yet */
    bool woken; /* woken before it had returned, or before its run */
    ahead ahead;
} step_waker;

struct fl_sched {
    fl_runner *r;
    fl_plan_part part;
    int n_members;
    fl_mutex mu;
    fl_cond changed;
    ring queue;
    ring late; /* of one member: what comes when nothing else is to be done */
    int *deps_left, *shares_left;
    int *follower; /* by step: which one it lets begin; -1: none */
    step_waker *wakers;
    int steps_left, running, waiting;
    int n_woken; /* with one member: steps to be put in the queue */
    bool is_on;  /* a run is under way */
    bool failed;
    bool is_stuck;     /* a run has ended without all of its answers */
    fl_poller *helped; /* where its only member waits; NULL: here */
};

static void put(ring *r, task t)
{
    r->tasks[(r->head + r->len++) % r->cap] = t;
}

static task take(ring *r)
{
    task t = r->tasks[r->head];

    r->head = (r->head + 1) % r->cap;
    r->len--;
    return t;
}

static void push(fl_sched *s, task t)
{
    bool is_late = s->n_members == 1 && s->r->plan->steps[t.step].is_late;

    put(is_late ? &s->late : &s->queue, t);
    if (s->n_members > 1)
        fl_cond_wake_one(&s->changed);
}

static void wake_step(fl_waker *w)
{
    step_waker *sw = (step_waker *)w;
    fl_sched *s = sw->s;
    fl_poller *poller;
    bool was_waiting;

    fl_lock(&s->mu);
    was_waiting = sw->waits;
    if (was_waiting) {
        sw->waits = false;
        s->waiting--;
    }
    if (was_waiting && s->is_on && s->n_members > 1) {
        push(s, (task){ sw->step, 0, 1, true });
    } else {
        sw->woken = true;
        s->n_woken += was_waiting && s->is_on;
        fl_cond_wake_all(&s->changed);
    }
    poller = s->helped;
    fl_unlock(&s->mu); /* from here on the run may be over, and gone */
    fl_poller_notify(poller);
}

static void step_done(fl_sched *s, int step)
{
    const fl_plan_step *p = &s->r->plan->steps[step];

    s->steps_left--;
    for (int i = 0; i < p->n_next; i++)
        if (fl_part_has(s->part, &s->r->plan->steps[p->next[i]]) &&
            --s->deps_left[p->next[i]] == 0)
            push(s, (task){ p->next[i], 0, 0, false });
    if (!s->steps_left)
        fl_cond_wake_all(&s->changed);
}

/* It is on its way, if not through: the next of its kind may begin. */
static void step_begun(fl_sched *s, int step)
{
    int next = s->follower[step];

    s->follower[step] = -1;
    if (next >= 0 && --s->deps_left[next] == 0)
        push(s, (task){ next, 0, 0, false });
}

static fl_status waited_too_long(const fl_sched *s)
{
    char text[FL_NODE_TEXT_MAX];

    for (int i = 0; i < s->r->plan->n_steps; i++)
        if (s->wakers[i].waits)
            FL_FAIL(FL_ERR_TIMEOUT,
                    "%s has waited %" PRId64 " ms for an answer from %s "
                    "(setting pending_timeout_ms)",
                    fl_node_text(s->r->plan->steps[i].node, text),
                    s->r->options->pending_timeout_ms,
                    s->r->options->comm ? s->r->options->comm->name
                                        : "its source");
    return FL_OK;
}

/* A backend with deadlines of its own ends every wait by itself. */
static bool has_deadline(const fl_sched *s)
{
    return !s->r->options->comm || !s->r->options->comm->has_own_deadline;
}

static uint64_t deadline_of(const fl_sched *s)
{
    return fl_now_ns() + (uint64_t)s->r->options->pending_timeout_ms * 1000000u;
}

/* The only member of a run waits where it can help who answers. */
static fl_poller *poller_of(const fl_sched *s)
{
    fl_comm *comm = s->r->options->comm;

    if (s->n_members > 1 || !comm || !comm->has_own_deadline)
        return NULL;
    return atomic_load(&comm->poller);
}

static bool has_work(void *arg)
{
    fl_sched *s = arg;
    bool has;

    fl_lock(&s->mu);
    has = s->queue.len || s->n_woken;
    fl_unlock(&s->mu);
    return has;
}

static void wait_and_help(fl_sched *s, fl_poller *poller)
{
    s->helped = poller;
    fl_unlock(&s->mu);
    poller->wait(poller, has_work, s);
    fl_lock(&s->mu);
    s->helped = NULL;
}

/* What the thread has waited for, for the timeline: a step that the world owes an
   answer, or, with -1, other members. */
static void note_wait(const fl_sched *s, int step, uint64_t since)
{
    const fl_op_node *n = step >= 0 ? s->r->plan->steps[step].node : NULL;
    char name[FL_NODE_TEXT_MAX];

    if (!since)
        return;
    (void)snprintf(name, sizeof(name), "wait: %s",
                   n ? fl_node_type(n) : "others");
    fl_timeline_add("wait", name, n ? fl_step_what(n) : NULL, since);
}

static int first_that_waits(const fl_sched *s)
{
    for (int i = 0; s->waiting && i < s->r->plan->n_steps; i++)
        if (s->wakers[i].waits)
            return i;
    return -1;
}

/* Sleeps until something changes; only a run in which every member waits for
   the world has a deadline. */
static fl_status sleep_a_while(fl_sched *s)
{
    fl_poller *poller = s->waiting ? poller_of(s) : NULL;
    uint64_t deadline;

    if (poller) {
        wait_and_help(s, poller);
        return FL_OK;
    }
    if (s->running || !s->waiting || !has_deadline(s)) {
        fl_cond_wait(&s->changed, &s->mu);
        return FL_OK;
    }
    deadline = deadline_of(s);
    if (!fl_cond_wait_until(&s->changed, &s->mu, deadline) && !s->queue.len &&
        !s->n_woken && !s->running && s->waiting)
        return waited_too_long(s);
    return FL_OK;
}

static fl_status sleep_and_tell(fl_sched *s)
{
    uint64_t since = fl_timeline_now();
    int step = since ? first_that_waits(s) : -1;
    fl_status st = sleep_a_while(s);

    note_wait(s, step, since);
    return st;
}

/* Prepares a step and puts its other shares in the queue. */
static fl_status start_step(fl_sched *s, task *t)
{
    FL_TRY(fl_step_prepare(s->r, t->step));
    t->nth = fl_step_shares(s->r, t->step, s->n_members);
    s->shares_left[t->step] = t->nth; /* nobody else knows of the step yet */
    if (t->nth == 1)
        return FL_OK;
    fl_lock(&s->mu);
    for (int i = 1; i < t->nth; i++)
        push(s, (task){ t->step, i, t->nth, false });
    fl_unlock(&s->mu);
    return FL_OK;
}

static fl_status run_task(fl_sched *s, task t, int member)
{
    fl_status st = t.nth ? FL_OK : start_step(s, &t);

    if (st)
        return st;
    return fl_step_run(
        s->r,
        &(fl_step_share){ t.step, t.ith, t.nth, member, t.resumed, false },
        &s->wakers[t.step].port);
}

/* The step waits, or was woken meanwhile. Called with the lock held. */
static void set_aside(fl_sched *s, int step)
{
    step_waker *w = &s->wakers[step];

    if (w->woken) {
        w->woken = false;
        push(s, (task){ step, 0, 1, true });
    } else {
        w->waits = true;
        s->waiting++;
    }
}

/* What follows from a task's result. Called with the lock held where there are
   several members. */
static fl_status account(fl_sched *s, task t, fl_status st)
{
    if (!st || st == FL_PENDING)
        step_begun(s, t.step);
    if (st == FL_PENDING) {
        if (s->n_members == 1)
            fl_lock(&s->mu);
        set_aside(s, t.step);
        if (s->n_members == 1)
            fl_unlock(&s->mu);
        return FL_OK;
    }
    if (!st && --s->shares_left[t.step] == 0) {
        st = fl_step_finish(s->r, t.step);
        if (!st)
            step_done(s, t.step);
    }
    return st;
}

/* Before it sleeps here, where nothing is flushed. */
static void flush(fl_sched *s)
{
    fl_unlock(&s->mu);
    fl_comm_flush(s->r->options->comm);
    fl_lock(&s->mu);
}

static fl_status member_loop(void *arg, int member)
{
    fl_sched *s = arg;
    fl_status st = FL_OK;
    bool has_flushed = false;

    fl_lock(&s->mu);
    while (!st && !s->failed && s->steps_left) {
        task t;

        if (!s->queue.len && s->waiting && !has_flushed) {
            flush(s);
            has_flushed = true;
            continue;
        }
        has_flushed = false;
        if (!s->queue.len) {
            st = sleep_and_tell(s);
            continue;
        }
        t = take(&s->queue);
        s->running++;
        fl_unlock(&s->mu);
        st = run_task(s, t, member);
        fl_lock(&s->mu);
        s->running--;
        st = account(s, t, st);
    }
    if (st) {
        s->failed = true;
        fl_cond_wake_all(&s->changed);
    }
    fl_unlock(&s->mu);
    return st;
}

/* --- one member alone ----------------------------------------------------- */

/* Called with the lock held. */
static void take_woken(fl_sched *s)
{
    for (int i = 0; i < s->r->plan->n_steps && s->n_woken; i++) {
        if (!s->wakers[i].woken)
            continue;
        s->wakers[i].woken = false;
        s->n_woken--;
        push(s, (task){ i, 0, 1, true });
    }
}

/* Nothing can go on before some step is woken. */
static fl_status rest(fl_sched *s)
{
    fl_status st = FL_OK;

    fl_lock(&s->mu);
    if (!s->n_woken && !poller_of(s))
        flush(s);
    while (!st && !s->n_woken)
        st = sleep_and_tell(s);
    take_woken(s);
    fl_unlock(&s->mu);
    return st;
}

static bool is_waiting(fl_sched *s)
{
    bool is;

    fl_lock(&s->mu);
    is = s->waiting;
    fl_unlock(&s->mu);
    return is;
}

/* When there is nothing else to be done: what is late, and, while answers are on
   their way, what later runs of the thread need. False: there is nothing of that
   either, or an answer has come. */
static bool work_meanwhile(fl_sched *s)
{
    fl_meanwhile m = s->r->meanwhile;
    bool waits = (s->late.len || m.fn) && is_waiting(s);

    if (waits)
        fl_comm_flush(s->r->options->comm);
    if (has_work(s))
        return false;
    if (!s->late.len)
        return waits && m.fn && m.fn(m.arg);
    put(&s->queue, take(&s->late));
    return true;
}

static fl_status run_alone(fl_sched *s)
{
    fl_status st = FL_OK;

    while (!st && s->steps_left) {
        if (!s->queue.len && !work_meanwhile(s))
            FL_TRY(rest(s));
        if (s->queue.len) {
            task t = take(&s->queue);

            st = account(s, t, run_task(s, t, 0));
        }
    }
    return st;
}

/* --- a run ---------------------------------------------------------------- */

static void ring_init(ring *r, int cap)
{
    *r = (ring){ .tasks = fl_alloc(sizeof(task) * (size_t)cap), .cap = cap };
}

static fl_sched *sched_new(fl_runner *r)
{
    fl_sched *s = fl_alloc(sizeof(*s));
    size_t n = (size_t)r->plan->n_steps + 1;

    s->r = r;
    fl_mutex_init(&s->mu);
    fl_cond_init(&s->changed);
    ring_init(&s->queue, r->plan->n_steps * r->n_members + 1);
    ring_init(&s->late, r->plan->n_steps + 1);
    s->deps_left = fl_alloc(sizeof(int) * n);
    s->shares_left = fl_alloc(sizeof(int) * n);
    s->follower = fl_alloc(sizeof(int) * n);
    s->wakers = fl_alloc(sizeof(step_waker) * n);
    for (int i = 0; i < r->plan->n_steps; i++)
        s->wakers[i] = (step_waker){ .port = { wake_step }, .s = s, .step = i };
    return s;
}

bool fl_sched_free(fl_sched *s)
{
    int waiting;

    if (!s)
        return true;
    fl_lock(&s->mu);
    waiting = s->waiting;
    fl_unlock(&s->mu);
    if (waiting)
        return false;
    fl_mutex_release(&s->mu);
    fl_cond_release(&s->changed);
    fl_free(s->queue.tasks);
    fl_free(s->late.tasks);
    fl_free(s->deps_left);
    fl_free(s->shares_left);
    fl_free(s->follower);
    fl_free(s->wakers);
    fl_free(s);
    return true;
}

/* Puts a step that began before the run among those of the run. */
static void take_over(fl_sched *s, int step)
{
    step_waker *w = &s->wakers[step];
    bool done = w->ahead == DONE_AHEAD;

    w->ahead = NOT_AHEAD;
    if (done) {
        step_done(s, step);
        return;
    }
    s->shares_left[step] = 1;
    if (w->woken)
        push(s, (task){ step, 0, 1, true });
    w->woken = false;
}

/* Those that begin in the order of the program. */
static void chain_ordered(fl_sched *s)
{
    const fl_plan *p = s->r->plan;
    int last = -1;

    for (int i = 0; i < p->n_steps; i++) {
        s->follower[i] = -1;
        if (!fl_part_has(s->part, &p->steps[i]) ||
            !(p->steps[i].node->def->flags & FL_OP_ORDERED))
            continue;
        if (last >= 0) {
            s->follower[last] = i;
            s->deps_left[i]++;
        }
        last = i;
    }
}

/* Counts what each step of the part waits for, within the part. */
static void count_steps(fl_sched *s)
{
    const fl_plan *p = s->r->plan;

    memset(s->deps_left, 0, sizeof(int) * (size_t)p->n_steps);
    for (int i = 0; i < p->n_steps; i++) {
        if (!fl_part_has(s->part, &p->steps[i]))
            continue;
        if (s->wakers[i].ahead == NOT_AHEAD)
            s->wakers[i].woken = false;
        s->steps_left++;
        for (int k = 0; k < p->steps[i].n_next; k++)
            s->deps_left[p->steps[i].next[k]]++;
    }
    chain_ordered(s);
}

static fl_status check_not_stuck(const fl_sched *s)
{
    if (s->is_stuck && s->waiting)
        FL_FAIL(FL_ERR_CLOSED, "an operator of an earlier run still waits for "
                               "its answer; make a new executor");
    return FL_OK;
}

static fl_status sched_begin(fl_sched *s, fl_plan_part part, int n_members)
{
    const fl_plan *p = s->r->plan;

    FL_TRY(check_not_stuck(s));
    s->part = part;
    s->n_members = n_members;
    s->queue.len = s->late.len = 0;
    s->steps_left = s->running = s->n_woken = 0;
    s->failed = s->is_stuck = false;
    s->is_on = true;
    count_steps(s);
    for (int i = 0; i < p->n_steps; i++)
        if (fl_part_has(part, &p->steps[i]) && !s->deps_left[i] &&
            s->wakers[i].ahead == NOT_AHEAD)
            push(s, (task){ i, 0, 0, false });
    /* Steps that follow from these are put in the queue by them alone. */
    for (int i = 0; i < p->n_ahead && part == FL_PART_ALL; i++)
        if (s->wakers[p->ahead[i]].ahead != NOT_AHEAD)
            take_over(s, p->ahead[i]);
    return FL_OK;
}

/* Answers that are on their way still need the operators' memory: waits for
   them as long as for any answer. */
static void wait_for_answers(fl_sched *s)
{
    uint64_t deadline = deadline_of(s);

    while (s->waiting && !has_deadline(s))
        fl_cond_wait(&s->changed, &s->mu);
    while (s->waiting && fl_cond_wait_until(&s->changed, &s->mu, deadline))
        ;
    s->is_stuck = s->waiting > 0;
}

static void sched_end(fl_sched *s, fl_status st)
{
    if (st)
        fl_comm_flush(s->r->options->comm);
    fl_lock(&s->mu);
    s->is_on = false;
    if (st)
        wait_for_answers(s);
    fl_unlock(&s->mu);
}

fl_status fl_sched_run(fl_runner *r, fl_plan_part part, fl_team *team)
{
    fl_status st;

    if (!r->sched)
        r->sched = sched_new(r);
    fl_lock(&r->sched->mu);
    st = sched_begin(r->sched, part, team ? fl_team_size(team) : 1);
    fl_unlock(&r->sched->mu);
    if (st)
        return st;
    st = r->sched->n_members > 1 ? fl_team_run(team, member_loop, r->sched)
                                 : run_alone(r->sched);
    sched_end(r->sched, st);
    return st;
}

/* --- in the order of the program ------------------------------------------ */

/* A step that began waits until it is woken. */
static fl_status wait_for_step(fl_sched *s, int step)
{
    step_waker *w = &s->wakers[step];
    uint64_t deadline = deadline_of(s), since = fl_timeline_now();
    fl_status st = FL_OK;

    fl_lock(&s->mu);
    w->waits = !w->woken;
    s->waiting += w->waits;
    while (!st && w->waits) {
        if (!has_deadline(s))
            fl_cond_wait(&s->changed, &s->mu);
        else if (!fl_cond_wait_until(&s->changed, &s->mu, deadline) && w->waits)
            st = waited_too_long(s);
    }
    w->woken = false;
    s->is_stuck = w->waits;
    fl_unlock(&s->mu);
    note_wait(s, step, since);
    return st;
}

static fl_status run_step(fl_runner *r, int step)
{
    fl_waker *waker = r->sched ? &r->sched->wakers[step].port : NULL;
    fl_step_share whole = { .step = step, .nth = 1 };
    fl_status st;

    if (!fl_step_is_steady(r, step))
        FL_TRY(fl_step_prepare(r, step));
    st = fl_step_run(r, &whole, waker);
    whole.resumed = true;
    while (st == FL_PENDING) {
        st = wait_for_step(r->sched, step);
        if (!st)
            st = fl_step_run(r, &whole, waker);
    }
    return st || fl_step_is_silent(r, step) ? st : fl_step_finish(r, step);
}

fl_status fl_sched_run_in_order(fl_runner *r, fl_plan_part part)
{
    if (!r->sched && r->plan->waits)
        r->sched = sched_new(r);
    if (r->sched)
        FL_TRY(check_not_stuck(r->sched));
    for (int i = 0; i < r->plan->n_steps; i++)
        if (fl_part_has(part, &r->plan->steps[i]))
            FL_TRY(run_step(r, i));
    return FL_OK;
}

/* --- before a run --------------------------------------------------------- */

static void start_one(fl_sched *s, int step)
{
    step_waker *w = &s->wakers[step];
    fl_status st = fl_step_prepare(s->r, step);

    if (!st)
        st = fl_step_run(s->r, &(fl_step_share){ .step = step, .nth = 1 },
                         &w->port);
    if (!st)
        st = fl_step_finish(s->r, step);
    fl_lock(&s->mu);
    if (!st)
        w->ahead = DONE_AHEAD;
    if (st == FL_PENDING) {
        w->ahead = BEGUN_AHEAD;
        w->waits = !w->woken;
        s->waiting += w->waits;
    }
    fl_unlock(&s->mu);
}

void fl_sched_start_ahead(fl_runner *r)
{
    const fl_plan *p = r->plan;
    bool is_free;
    fl_sched *s;

    if (!r->sched)
        r->sched = sched_new(r);
    s = r->sched;
    fl_lock(&s->mu);
    is_free = s->waiting == 0;
    for (int i = 0; i < p->n_ahead; i++)
        s->wakers[p->ahead[i]].woken = false;
    fl_unlock(&s->mu);
    for (int i = 0; i < p->n_ahead && is_free; i++)
        start_one(s, p->ahead[i]);
}

void fl_sched_drop_ahead(fl_sched *s)
{
    if (!s)
        return;
    fl_lock(&s->mu);
    wait_for_answers(s);
    for (int i = 0; i < s->r->plan->n_steps; i++)
        s->wakers[i].ahead = NOT_AHEAD;
    fl_unlock(&s->mu);
}
