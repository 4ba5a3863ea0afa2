/* server_requests.c - who may ask for what, requests for the store, and how
 * replies leave. */
#include "ps/server/server_inside.h"

#include <inttypes.h>
#include <stddef.h>

#include "base/timeline.h"

/* Tools have ranks by chance; in the counters they are one. */
#define RANK_OF_TOOLS UINT32_MAX

/* --- replies -------------------------------------------------------------- */

void fl_server_reply(fl_reply *to, fl_msg type, const void *reply)
{
    fl_pack p = { 0 };

    (void)fl_fields_pack(&p, fl_msg_find((uint16_t)type)->reply->fields, reply);
    fl_reply_send(to, p.data, p.len);
    fl_pack_release(&p);
}

void fl_server_reply_empty(const fl_server_request *r, fl_status st)
{
    if (st)
        fl_reply_error(r->reply, st);
    else
        fl_reply_send(r->reply, NULL, 0);
}

fl_reply_buf fl_reply_buf_of(fl_server *s, const fl_server_request *r)
{
    return (fl_reply_buf){ .server = s, .request = r };
}

void *fl_reply_buf_reserve(void *buf, uint64_t len)
{
    fl_reply_buf *r = buf;
    void *at;

    /* The peer would close its connection. */
    r->len = len;
    r->is_too_large = len > r->server->o.max_message_bytes;
    if (r->is_too_large)
        return NULL;
    at = fl_reply_reserve(r->request->reply, len);
    r->is_arena = at != NULL;
    if (at)
        return at;
    r->buffer = fl_reply_buffers_take(&r->server->buffers, len);
    return r->buffer ? fl_reply_buffer_data(r->buffer) : NULL;
}

static void send_reserved(fl_reply_buf *r)
{
    struct iovec piece = { .iov_len = (size_t)r->len };
    fl_reply *to = r->request->reply;

    if (r->is_arena) {
        fl_reply_send_reserved(to);
    } else if (r->buffer) {
        piece.iov_base = fl_reply_buffer_data(r->buffer);
        fl_reply_send_pieces(to, &piece, 1, fl_reply_buffer_put, r->buffer);
    } else {
        fl_reply_send(to, NULL, 0);
    }
}

void fl_reply_buf_end(fl_reply_buf *r, fl_status st)
{
    if (!st) {
        send_reserved(r);
        return;
    }
    fl_reply_buffer_put(r->buffer);
    if (r->is_too_large)
        st = fl_err_set(FL_ERR_INVAL,
                        "a reply (%s) of %" PRIu64 " bytes is larger than "
                        "max_message_bytes (%" PRIu64
                        "): ask for fewer rows at a time",
                        fl_msg_name(r->request->frame->type), r->len,
                        r->server->o.max_message_bytes);
    fl_reply_error(r->request->reply, st);
}

/* --- the store ------------------------------------------------------------ */

/* A round was applied: the step of the job is the one behind it, on server 0
   for people as well. */
static void reach_step(fl_server *s, uint64_t step)
{
    uint64_t now;

    fl_server_raise_step(s, step);
    if (s->o.rank != 0)
        return;
    fl_lock_soon(&s->mu);
    now = fl_coord_step(s->coord, 0);
    if (step > now)
        (void)fl_coord_step(s->coord, step - now);
    fl_unlock(&s->mu);
}

void fl_server_ask_store(fl_server *s, const fl_server_request *a)
{
    bool is_tool = fl_session_who(a->session)->role == FL_MEMBER_TOOL;
    fl_reply_buf r = fl_reply_buf_of(s, a);
    fl_store_reply reply = { .reserve = fl_reply_buf_reserve, .arg = &r };
    fl_store_call call = { .type = a->frame->type,
                           .payload = a->payload,
                           .step = atomic_load(&s->step),
                           .rank = is_tool ? RANK_OF_TOOLS : a->frame->rank,
                           .incarnation = a->frame->incarnation };
    fl_status st = fl_store_request(s->store, &call, &reply);

    if (!st && reply.step)
        reach_step(s, reply.step);
    fl_reply_buf_end(&r, st);
}

/* --- who may ask for what ------------------------------------------------- */

static fl_status check_asker(const fl_msg_def *m, const fl_identity *who)
{
    unsigned bits = who->role == FL_MEMBER_TRAINER  ? FL_MSG_FROM_TRAINERS
                    : who->role == FL_MEMBER_SERVER ? FL_MSG_FROM_SERVERS
                    : who->may_only_look
                        ? FL_MSG_FROM_TOOLS
                        : FL_MSG_FROM_TOOLS | FL_MSG_FROM_OWNERS;

    if (m->from & bits)
        return FL_OK;
    if (m->from & FL_MSG_FROM_OWNERS && who->may_only_look)
        FL_FAIL(FL_ERR_INVAL,
                "a tool with the look token must not send a request (%s): the "
                "join token is needed to change or end a job",
                m->name);
    FL_FAIL(FL_ERR_INVAL, "a %s must not send a request (%s)",
            fl_member_role_name(who->role), m->name);
}

/* What would be remembered must be short, and what changes something must be
   remembered: a wrong number is refused before anything is done. */
static fl_status check_once(const fl_msg_def *m, const fl_server_request *a)
{
    const fl_identity *who = fl_session_who(a->session);

    if (m->once && !a->frame->sequence)
        FL_FAIL(FL_ERR_INVAL,
                "a request (%s) that changes something has no sequence number",
                m->name);
    if (!m->once && a->frame->sequence)
        FL_FAIL(FL_ERR_INVAL,
                "a request (%s) that changes nothing has a sequence number",
                m->name);
    if (m->once && !who->incarnation)
        FL_FAIL(FL_ERR_INVAL,
                "%s %" PRIu32 " has no incarnation yet, and only what has one "
                "can be applied once (%s): join at server 0 first",
                fl_member_role_name(who->role), who->rank, m->name);
    return FL_OK;
}

static fl_status check_request(const fl_server *s, const fl_msg_def *m,
                               const fl_server_request *a)
{
    const fl_identity *who = fl_session_who(a->session);

    if (!m)
        FL_FAIL(FL_ERR_INVAL, "a message (%s) is no request to a server",
                fl_msg_name(a->frame->type));
    FL_TRY(check_asker(m, who));
    if (m->is_for_first && s->o.rank != 0)
        FL_FAIL(FL_ERR_INVAL,
                "a request (%s) is for the coordinator, which is server 0 "
                "(%s), and this is server %d",
                m->name, s->server_0, s->o.rank);
    return check_once(m, a);
}

static void run_here(fl_server *s, const fl_msg_def *m,
                     const fl_server_request *r)
{
    if (m->is_locked)
        fl_lock(&s->mu);
    m->on_server(s, r);
    if (m->is_locked)
        fl_unlock(&s->mu);
}

/* What the store handles it unpacks itself; all others are fields. */
static void run(fl_server *s, const fl_msg_def *m, fl_server_request *r)
{
    _Alignas(max_align_t) uint8_t fields[FL_MSG_STRUCT_MAX];
    fl_status st;

    if (m->in_store) {
        fl_server_ask_store(s, r);
        return;
    }
    st = fl_msg_read_request(r->frame->type, r->payload, fields);
    r->request = fields;
    if (st)
        fl_reply_error(r->reply, st);
    else
        run_here(s, m, r);
    r->request = NULL;
}

fl_msg_bytes fl_server_bytes(const fl_payload *payload)
{
    return payload ? (fl_msg_bytes){ fl_payload_data(payload),
                                     fl_payload_len(payload) }
                   : (fl_msg_bytes){ 0 };
}

void fl_server_on_request(void *server, fl_session *session, const fl_frame *f,
                          fl_payload *payload, fl_reply *r)
{
    fl_server *s = server;
    const fl_msg_def *m = fl_msg_find(f->type);
    fl_server_request a = { .session = session,
                            .frame = f,
                            .payload = fl_server_bytes(payload),
                            .reply = r };
    uint64_t since = fl_timeline_now();
    fl_status st = check_request(s, m, &a);

    fl_server_raise_step(s, f->step);
    if (!st && fl_server_wait_for_round(&a, payload))
        return;
    if (st)
        fl_reply_error(r, st);
    else
        run(s, m, &a);
    fl_timeline_add("serve", fl_msg_name(f->type), NULL, since);
    fl_payload_free(payload);
}
