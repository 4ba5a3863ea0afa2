/* status.c - the status of a job by its parts, and as JSON. */
#include "ps/status.h"

#include "base/alloc.h"
#include "base/args.h"
#include "base/json.h"

#define ARENA_CHUNK_BYTES (8 << 10)

fl_job_status *fl_job_status_new(void)
{
    fl_job_status *s = fl_alloc(sizeof(*s));

    fl_arena_init(&s->arena, ARENA_CHUNK_BYTES);
    return s;
}

void fl_job_status_free(fl_job_status *s)
{
    if (!s)
        return;
    fl_vec_release(&s->members);
    fl_vec_release(&s->barriers);
    fl_arena_release(&s->arena);
    fl_free(s);
}

/* --- by its parts --------------------------------------------------------- */

fl_status fl_job_status_summary(const fl_job_status *s, fl_job_summary *out)
{
    return FL_ARGS_FILL(fl_job_summary, out, &s->summary);
}

bool fl_job_status_member(const fl_job_status *s, size_t i,
                          fl_member_status *out)
{
    return i < s->members.len &&
           !FL_ARGS_FILL(fl_member_status, out, &s->members.data[i]);
}

bool fl_job_status_barrier(const fl_job_status *s, size_t i,
                           fl_barrier_status *out)
{
    return i < s->barriers.len &&
           !FL_ARGS_FILL(fl_barrier_status, out, &s->barriers.data[i]);
}

/* --- as JSON -------------------------------------------------------------- */

/* "" is nothing to say. */
static void add_text(fl_json *j, const char *key, const char *text)
{
    fl_json_text(j, key, *text ? text : NULL);
}

static void add_member(fl_json *j, const fl_member_status *m)
{
    fl_json_object(j, NULL);
    fl_json_text(j, "role", m->role == FL_ROLE_SERVER ? "server" : "trainer");
    fl_json_i64(j, "rank", m->rank);
    fl_json_text(j, "state", m->state);
    fl_json_f64(j, "away_seconds", m->away_seconds);
    add_text(j, "address", m->address);
    fl_json_u64(j, "process", m->process);
    fl_json_u64(j, "incarnation", m->incarnation);
    add_text(j, "phase", m->phase);
    fl_json_u64(j, "step", m->step);
    fl_json_u64(j, "samples", m->samples);
    fl_json_f64(j, "samples_per_second", m->samples_per_second);
    fl_json_f64(j, "loss", m->loss);
    fl_json_f64(j, "auc", m->auc);
    fl_json_f64(j, "reported_seconds_ago", m->reported_seconds_ago);
    add_text(j, "waits_for", m->waits_for);
    fl_json_u64(j, "samples_expected", m->samples_expected);
    fl_json_f64(j, "left_seconds", m->left_seconds);
    fl_json_end(j);
}

static void add_barrier(fl_json *j, const fl_barrier_status *b)
{
    fl_json_object(j, NULL);
    fl_json_text(j, "kind", b->is_gather ? "gather" : "barrier");
    fl_json_text(j, "name", b->name);
    fl_json_u64(j, "generation", b->generation);
    fl_json_f64(j, "open_seconds", b->open_seconds);
    fl_json_i64(j, "came", b->n_came);
    fl_json_i64(j, "expected", b->n_expected);
    add_text(j, "waits_for", b->waits_for);
    fl_json_end(j);
}

static void add_summary(fl_json *j, const fl_job_summary *m)
{
    fl_json_bool(j, "is_complete", m->is_complete);
    fl_json_bool(j, "is_over", m->is_over);
    fl_json_i64(j, "members_expected", m->n_members);
    fl_json_i64(j, "members_here", m->n_here);
    fl_json_u64(j, "step", m->step);
    fl_json_f64(j, "running_seconds", m->running_seconds);
    add_text(j, "waits_for", m->waits_for);
    add_text(j, "why_over", m->why_over);
    fl_json_u64(j, "samples", m->samples);
    fl_json_f64(j, "samples_per_second", m->samples_per_second);
    fl_json_f64(j, "left_seconds", m->left_seconds);
}

char *fl_job_status_json(const fl_job_status *s)
{
    fl_json j = { 0 };

    fl_json_object(&j, NULL);
    add_summary(&j, &s->summary);
    fl_json_array(&j, "members");
    for (size_t i = 0; i < s->members.len; i++)
        add_member(&j, &s->members.data[i]);
    fl_json_end(&j);
    fl_json_array(&j, "barriers");
    for (size_t i = 0; i < s->barriers.len; i++)
        add_barrier(&j, &s->barriers.data[i]);
    fl_json_end(&j);
    fl_json_end(&j);
    return fl_json_take(&j);
}
