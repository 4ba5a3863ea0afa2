/* coord_status.c - what the coordinator knows at this moment (ps/status.h). */
#include <math.h>

#include "ps/coord/coord_inside.h"
#include "ps/status.h"

#define MS_PER_S 1e3

/* Moves a text that was put together into the arena. */
static const char *keep(fl_arena *a, fl_str *s)
{
    const char *text = fl_arena_strdup(a, fl_str_text(s));

    fl_str_release(s);
    return text;
}

static double seconds(uint64_t from_ms, uint64_t to_ms)
{
    return (double)fl_coord_between(from_ms, to_ms) / MS_PER_S;
}

/* --- members -------------------------------------------------------------- */

static bool is_away(const fl_coord_member *m)
{
    return m->state == FL_MEMBER_HERE && (m->is_down || m->is_silent);
}

static const char *state_of(const fl_coord_member *m)
{
    static const char *const names[] = {
        [FL_MEMBER_ABSENT] = "absent",
        [FL_MEMBER_HERE] = "up",
        [FL_MEMBER_LEFT] = "left",
        [FL_MEMBER_LOST] = "lost",
    };

    return !is_away(m) ? names[m->state] : m->is_down ? "down" : "silent";
}

/* The rendezvous comes before every barrier. */
static const char *waits_for(const fl_coord *c, const fl_coord_member *m,
                             fl_arena *a)
{
    const fl_barrier *b = NULL;
    fl_str s = { 0 };

    if (m->id.role == FL_MEMBER_TRAINER && m->state != FL_MEMBER_ABSENT)
        b = fl_coord_waits_at(c, m->id.rank);
    if (b && c->is_complete)
        fl_text_add_missing(&s, c, b);
    else if (b)
        fl_text_add_absent(&s, c);
    return keep(a, &s);
}

/* Until the end of its pass, as fast as it is. */
static double left_of(const fl_member_progress *p)
{
    if (!p->is_known || !p->expected || isnan(p->rate))
        return NAN;
    if (p->expected <= p->samples)
        return 0;
    return p->rate > 0 ? (double)(p->expected - p->samples) / p->rate : NAN;
}

/* Where it listens is of more use than where a connection comes from. */
static void add_member(fl_job_status *s, const fl_coord *c,
                       const fl_coord_member *m, uint64_t now_ms)
{
    const fl_member_progress *p = &m->progress;
    fl_member_status out = {
        .size = sizeof(out),
        .role =
            m->id.role == FL_MEMBER_SERVER ? FL_ROLE_SERVER : FL_ROLE_WORKER,
        .rank = (int)m->id.rank,
        .state = state_of(m),
        .away_seconds = is_away(m) ? seconds(m->away_ms, now_ms) : NAN,
        .address = fl_arena_strdup(&s->arena,
                                   *m->id.address ? m->id.address : m->peer),
        .phase = fl_arena_strdup(&s->arena, p->phase),
        .process = m->id.process,
        .incarnation = m->incarnation,
        .step = m->step,
        .samples = p->samples,
        .samples_per_second = p->is_known ? p->rate : NAN,
        .loss = p->is_known ? p->loss : NAN,
        .auc = p->is_known ? p->auc : NAN,
        .reported_seconds_ago = p->is_known ? seconds(p->at_ms, now_ms) : NAN,
        .waits_for = waits_for(c, m, &s->arena),
        .samples_expected = p->is_known ? p->expected : 0,
        .left_seconds = left_of(p),
    };

    fl_vec_push(&s->members, out);
}

/* --- barriers and the job ------------------------------------------------- */

static void add_barrier(fl_job_status *s, const fl_coord *c,
                        const fl_barrier *b, uint64_t now_ms)
{
    fl_barrier_status out = {
        .size = sizeof(out),
        .is_gather = b->kind == FL_BARRIER_GATHER,
        .name = fl_arena_strdup(&s->arena, b->name),
        .generation = b->generation,
        .open_seconds = seconds(b->since_ms, now_ms),
        .n_came = (int)b->n_came,
        .n_expected = (int)(c->is_complete ? c->n_live : c->n_trainers),
    };
    fl_str missing = { 0 };

    if (c->is_complete)
        fl_text_add_missing_why(&missing, c, b, now_ms);
    else
        fl_text_add_absent(&missing, c);
    out.waits_for = keep(&s->arena, &missing);
    fl_vec_push(&s->barriers, out);
}

/* The job has what its trainers have, and is done when the last of them is. */
static void add_up(fl_job_summary *out, const fl_coord *c)
{
    out->samples_per_second = fl_coord_rate(c);
    out->left_seconds = NAN;
    for (uint32_t i = 0; i < c->n_trainers; i++) {
        const fl_coord_member *m = &c->members[i];
        double left = m->state == FL_MEMBER_HERE ? left_of(&m->progress) : NAN;

        out->samples += m->progress.samples;
        if (!isnan(left) && !(out->left_seconds >= left))
            out->left_seconds = left;
    }
}

static void add_summary(fl_job_status *s, const fl_coord *c, uint64_t now_ms)
{
    fl_str absent = { 0 };

    if (!c->is_complete)
        fl_text_add_absent(&absent, c);
    s->summary = (fl_job_summary){
        .size = sizeof(s->summary),
        .is_complete = c->is_complete,
        .is_over = c->is_over,
        .n_members = (int)c->n_members,
        .n_here = (int)c->n_joined,
        .step = c->step,
        .running_seconds = seconds(c->start_ms, now_ms),
        .waits_for = keep(&s->arena, &absent),
        .why_over = fl_arena_strdup(
            &s->arena, c->is_over && c->why.status ? c->why.text : ""),
    };
    add_up(&s->summary, c);
}

fl_job_status *fl_coord_status(const fl_coord *c, uint64_t now_ms)
{
    fl_job_status *s = fl_job_status_new();

    add_summary(s, c, now_ms);
    for (uint32_t i = 0; i < c->n_members; i++)
        add_member(s, c, &c->members[i], now_ms);
    for (size_t i = 0; i < c->open.len; i++)
        add_barrier(s, c, c->open.data[i], now_ms);
    return s;
}
