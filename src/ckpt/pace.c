/* pace.c - so many bytes a second, and so many cores beside others. */
#include "ckpt/pace.h"

#define NS_PER_S 1e9

/* Who waits for its cores looks as often whether others still work. */
#define LOOK_NS UINT64_C(50000000)

void fl_pace_init(fl_pace *p, const fl_pace_limits *limits)
{
    *p = (fl_pace){ .limits = *limits };
    fl_mutex_init(&p->mu);
    fl_cond_init(&p->stop);
}

void fl_pace_release(fl_pace *p)
{
    fl_cond_release(&p->stop);
    fl_mutex_release(&p->mu);
}

static uint64_t work_so_far(const fl_pace *p)
{
    return p->limits.work ? p->limits.work(p->limits.arg) : 0;
}

void fl_pace_begin(fl_pace *p, fl_pace_kind kind)
{
    fl_lock(&p->mu);
    p->is_urgent = kind == FL_PACE_URGENT;
    p->work_seen = work_so_far(p);
    p->busy_until_ns = 0;
    fl_unlock(&p->mu);
}

/* --- decisions, under mu --------------------------------------------------- */

/* Whether others are to be spared. */
static bool is_beside_work(fl_pace *p, uint64_t now)
{
    uint64_t work = work_so_far(p);

    if (work != p->work_seen) {
        p->work_seen = work;
        p->busy_until_ns = now + FL_PACE_QUIET_NS;
    }
    return !p->is_urgent && now < p->busy_until_ns;
}

/* Moves a time by what was used at that rate. What was not used before is lost,
   up to `kept`. */
static void put_off(uint64_t *due, uint64_t now, uint64_t kept, double used_ns)
{
    uint64_t earliest = now > kept ? now - kept : 0;

    if (*due < earliest)
        *due = earliest;
    *due += (uint64_t)used_ns;
}

/* A save that was held up by others does not catch up afterwards. */
static void note_bytes(fl_pace *p, uint64_t n, uint64_t now)
{
    if (p->limits.bytes_per_s)
        put_off(&p->bytes_due_ns, now, 0,
                (double)n * NS_PER_S / (double)p->limits.bytes_per_s);
}

static void note_cpu(fl_pace *p, uint64_t cpu_ns, uint64_t now)
{
    double cores = p->limits.cores;

    if (cores > 0 && is_beside_work(p, now))
        put_off(&p->cores_due_ns, now,
                (uint64_t)((double)FL_PACE_BURST_NS / cores),
                (double)cpu_ns / cores);
}

/* A time that counts only beside others may be over before it has come. */
static uint64_t later(fl_pace *p, uint64_t bytes_due, uint64_t cores_due,
                      uint64_t now)
{
    uint64_t due = cores_due > now && is_beside_work(p, now) ? cores_due : 0;

    due = bytes_due > due ? bytes_due : due;
    return due > now ? due : 0;
}

uint64_t fl_pace_due(fl_pace *p, fl_pace_use use, uint64_t now_ns)
{
    note_bytes(p, use.bytes, now_ns);
    note_cpu(p, use.cpu_ns, now_ns);
    return later(p, p->bytes_due_ns, p->cores_due_ns, now_ns);
}

/* --- waiting --------------------------------------------------------------- */

void fl_pace_wait(fl_pace *p, fl_pace_use use)
{
    uint64_t now, due, bytes_due, cores_due;

    if (!p)
        return;
    now = fl_now_ns();
    fl_lock(&p->mu);
    due = fl_pace_due(p, use, now);
    bytes_due = p->bytes_due_ns;
    cores_due = p->cores_due_ns;
    while (due && !p->is_stopped) {
        (void)fl_cond_wait_until(&p->stop, &p->mu,
                                 due - now > LOOK_NS ? now + LOOK_NS : due);
        now = fl_now_ns();
        due = later(p, bytes_due, cores_due, now);
    }
    fl_unlock(&p->mu);
}

void fl_pace_stop(fl_pace *p)
{
    fl_lock(&p->mu);
    p->is_stopped = true;
    fl_cond_wake_all(&p->stop);
    fl_unlock(&p->mu);
}
