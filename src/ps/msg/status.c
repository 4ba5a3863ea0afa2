/* status.c - STATUS: what server 0 knows of the job (ps/status.h), in the order
 * of the fields. */
#include "ps/server/server_inside.h"
#include "ps/status.h"

#define TEXT_MAX_BYTES 4096
/* Members and barriers of a reply that is good. */
#define ITEMS_MAX 100000

static void pack_summary(fl_pack *p, const fl_job_summary *m)
{
    fl_pack_u32(p, m->is_complete);
    fl_pack_u32(p, m->is_over);
    fl_pack_u32(p, (uint32_t)m->n_members);
    fl_pack_u32(p, (uint32_t)m->n_here);
    fl_pack_u64(p, m->step);
    fl_pack_f64(p, m->running_seconds);
    fl_pack_text(p, m->waits_for);
    fl_pack_text(p, m->why_over);
    fl_pack_u64(p, m->samples);
    fl_pack_f64(p, m->samples_per_second);
    fl_pack_f64(p, m->left_seconds);
}

static void pack_member(fl_pack *p, const fl_member_status *m)
{
    fl_pack_u32(p, (uint32_t)m->role);
    fl_pack_u32(p, (uint32_t)m->rank);
    fl_pack_text(p, m->state);
    fl_pack_f64(p, m->away_seconds);
    fl_pack_text(p, m->address);
    fl_pack_text(p, m->phase);
    fl_pack_u32(p, m->process);
    fl_pack_u32(p, m->incarnation);
    fl_pack_u64(p, m->step);
    fl_pack_u64(p, m->samples);
    fl_pack_f64(p, m->samples_per_second);
    fl_pack_f64(p, m->loss);
    fl_pack_f64(p, m->auc);
    fl_pack_f64(p, m->reported_seconds_ago);
    fl_pack_text(p, m->waits_for);
    fl_pack_u64(p, m->samples_expected);
    fl_pack_f64(p, m->left_seconds);
}

static void pack_barrier(fl_pack *p, const fl_barrier_status *b)
{
    fl_pack_u32(p, b->is_gather);
    fl_pack_text(p, b->name);
    fl_pack_u64(p, b->generation);
    fl_pack_f64(p, b->open_seconds);
    fl_pack_u32(p, (uint32_t)b->n_came);
    fl_pack_u32(p, (uint32_t)b->n_expected);
    fl_pack_text(p, b->waits_for);
}

void fl_job_status_pack(const fl_job_status *s, fl_pack *out)
{
    pack_summary(out, &s->summary);
    fl_pack_u32(out, (uint32_t)s->members.len);
    for (size_t i = 0; i < s->members.len; i++)
        pack_member(out, &s->members.data[i]);
    fl_pack_u32(out, (uint32_t)s->barriers.len);
    for (size_t i = 0; i < s->barriers.len; i++)
        pack_barrier(out, &s->barriers.data[i]);
}

static const char *take_text(fl_unpack *u, fl_arena *a)
{
    char text[TEXT_MAX_BYTES];

    fl_unpack_text(u, text, sizeof(text));
    return fl_arena_strdup(a, u->bad ? "" : text);
}

static fl_job_summary take_summary(fl_unpack *u, fl_arena *a)
{
    fl_job_summary m = { .size = sizeof(m) };

    m.is_complete = fl_unpack_u32(u);
    m.is_over = fl_unpack_u32(u);
    m.n_members = (int)fl_unpack_u32(u);
    m.n_here = (int)fl_unpack_u32(u);
    m.step = fl_unpack_u64(u);
    m.running_seconds = fl_unpack_f64(u);
    m.waits_for = take_text(u, a);
    m.why_over = take_text(u, a);
    m.samples = fl_unpack_u64(u);
    m.samples_per_second = fl_unpack_f64(u);
    m.left_seconds = fl_unpack_f64(u);
    return m;
}

static fl_member_status take_member(fl_unpack *u, fl_arena *a)
{
    fl_member_status m = { .size = sizeof(m) };

    m.role = (fl_role_kind)fl_unpack_u32(u);
    m.rank = (int)fl_unpack_u32(u);
    m.state = take_text(u, a);
    m.away_seconds = fl_unpack_f64(u);
    m.address = take_text(u, a);
    m.phase = take_text(u, a);
    m.process = fl_unpack_u32(u);
    m.incarnation = fl_unpack_u32(u);
    m.step = fl_unpack_u64(u);
    m.samples = fl_unpack_u64(u);
    m.samples_per_second = fl_unpack_f64(u);
    m.loss = fl_unpack_f64(u);
    m.auc = fl_unpack_f64(u);
    m.reported_seconds_ago = fl_unpack_f64(u);
    m.waits_for = take_text(u, a);
    m.samples_expected = fl_unpack_u64(u);
    m.left_seconds = fl_unpack_f64(u);
    return m;
}

static fl_barrier_status take_barrier(fl_unpack *u, fl_arena *a)
{
    fl_barrier_status b = { .size = sizeof(b) };

    b.is_gather = fl_unpack_u32(u);
    b.name = take_text(u, a);
    b.generation = fl_unpack_u64(u);
    b.open_seconds = fl_unpack_f64(u);
    b.n_came = (int)fl_unpack_u32(u);
    b.n_expected = (int)fl_unpack_u32(u);
    b.waits_for = take_text(u, a);
    return b;
}

static uint32_t take_count(fl_unpack *u)
{
    uint32_t n = fl_unpack_u32(u);

    if (n > ITEMS_MAX)
        u->bad = true;
    return n;
}

static void take_all(fl_job_status *s, fl_unpack *u)
{
    uint32_t n;

    s->summary = take_summary(u, &s->arena);
    n = take_count(u);
    for (uint32_t i = 0; i < n && !u->bad; i++)
        fl_vec_push(&s->members, take_member(u, &s->arena));
    n = take_count(u);
    for (uint32_t i = 0; i < n && !u->bad; i++)
        fl_vec_push(&s->barriers, take_barrier(u, &s->arena));
}

fl_status fl_job_status_unpack(fl_job_status **out, fl_msg_bytes payload)
{
    fl_job_status *s = fl_job_status_new();
    fl_unpack u = { .at = payload.data };

    u.end = payload.len ? u.at + payload.len : u.at;
    take_all(s, &u);
    if (u.bad || u.at != u.end) {
        fl_job_status_free(s);
        return fl_msg_bad_reply(FL_MSG_STATUS, payload.len);
    }
    *out = s;
    return FL_OK;
}

/* --- the message ---------------------------------------------------------- */

static fl_status echo(uint16_t type, fl_msg_bytes payload, fl_pack *again)
{
    fl_job_status *s = NULL;

    (void)type;
    FL_TRY(fl_job_status_unpack(&s, payload));
    fl_job_status_pack(s, again);
    fl_job_status_free(s);
    return FL_OK;
}

static bool example(uint16_t type, int i, fl_pack *out)
{
    fl_job_status *s = fl_job_status_new();

    (void)type;
    s->summary = (fl_job_summary){ .is_complete = i > 0,
                                   .n_members = i,
                                   .waits_for = "trainer 1",
                                   .why_over = "" };
    if (i > 0)
        fl_vec_push(&s->members, ((fl_member_status){ .role = FL_ROLE_WORKER,
                                                      .state = "up",
                                                      .address = "host:1",
                                                      .phase = "train",
                                                      .waits_for = "" }));
    if (i > 1)
        fl_vec_push(&s->barriers,
                    ((fl_barrier_status){
                        .name = "epoch", .generation = 7, .waits_for = "" }));
    fl_job_status_pack(s, out);
    fl_job_status_free(s);
    return i < 3;
}

const fl_msg_payload fl_msg_status_request = { .fields = fl_fields_none };
const fl_msg_payload fl_msg_status_reply = { .echo = echo, .example = example };

void fl_server_status(fl_server *s, const fl_server_request *r)
{
    fl_job_status *status = fl_coord_status(s->coord, fl_server_now_ms(s));
    fl_pack p = { 0 };

    fl_job_status_pack(status, &p);
    fl_reply_send(r->reply, p.data, p.len);
    fl_pack_release(&p);
    fl_job_status_free(status);
}
