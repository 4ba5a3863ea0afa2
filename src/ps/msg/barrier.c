/* barrier.c - BARRIER: waits for all live trainers; of servers, for the end. */
#include <inttypes.h>
#include <string.h>

#include "base/alloc.h"
#include "ps/client/client_inside.h"
#include "ps/server/server_inside.h"

static const fl_field request[] = {
    FL_FIELD(TEXT, fl_barrier_request, name),
    FL_FIELD(U64, fl_barrier_request, generation),
    FL_FIELD(U64, fl_barrier_request, share),
    FL_FIELD(U32, fl_barrier_request, kind),
    FL_FIELDS_END,
};

/* --- the reply ------------------------------------------------------------ */

void fl_came_pack(fl_pack *p, const fl_came *came, size_t n)
{
    fl_pack_u32(p, (uint32_t)n);
    fl_pack_u32(p, 0);
    for (size_t i = 0; i < n; i++) {
        fl_pack_u32(p, came[i].rank);
        fl_pack_u32(p, 0);
        fl_pack_u64(p, came[i].share);
    }
}

fl_status fl_came_unpack(fl_msg_bytes payload, fl_came_list *came)
{
    fl_unpack u = fl_unpack_from(payload.data, payload.len);
    uint32_t n = fl_unpack_u32(&u);
    uint64_t next = 0;

    u.bad |= fl_unpack_u32(&u) != 0;
    came->len = 0;
    for (uint32_t i = 0; i < n && !u.bad; i++) {
        fl_came who = { .rank = fl_unpack_u32(&u) };

        u.bad |= fl_unpack_u32(&u) != 0 || who.rank < next;
        who.share = fl_unpack_u64(&u);
        next = (uint64_t)who.rank + 1;
        fl_vec_push(came, who);
    }
    if (u.bad || u.at != u.end)
        FL_FAIL(FL_ERR_CORRUPT,
                "it answers a barrier with %" PRIu64
                " bytes that do not say who came",
                payload.len);
    return FL_OK;
}

static fl_status echo(uint16_t type, fl_msg_bytes payload, fl_pack *again)
{
    fl_came_list came = { 0 };
    fl_status st = fl_came_unpack(payload, &came);

    (void)type;
    if (!st)
        fl_came_pack(again, came.data, came.len);
    fl_vec_release(&came);
    return st;
}

static bool example(uint16_t type, int n, fl_pack *out)
{
    static const fl_came came[] = { { 0, 7 }, { 1, 0 }, { 5, UINT64_MAX } };

    (void)type;
    if (n > (int)FL_LEN(came))
        return false;
    fl_came_pack(out, came, (size_t)n);
    return true;
}

const fl_msg_payload fl_msg_barrier_request = { .fields = request };
const fl_msg_payload fl_msg_barrier_reply = { .echo = echo,
                                              .example = example };
const fl_msg_payload fl_msg_round_came_reply = { .echo = echo,
                                                 .example = example };

/* --- the client ----------------------------------------------------------- */

static fl_status list_came(void *came, int server, fl_msg_bytes reply)
{
    (void)server;
    return fl_came_unpack(reply, came);
}

fl_status fl_client_barrier(fl_client *c, const fl_barrier_request *r,
                            fl_came_list *came, fl_ending ending)
{
    fl_call_spec call = { .type = FL_MSG_BARRIER,
                          .request = r,
                          .take = came ? list_came : NULL,
                          .out = came };

    return fl_client_call(c, &call, ending);
}

/* --- server 0 ------------------------------------------------------------- */

/* Answered at the end; a server that asks again has lost its connection. */
static void watch(fl_server *s, const fl_server_request *r)
{
    const fl_identity *who = fl_session_who(r->session);
    fl_member_conn *conn = fl_server_member(s, who->role, who->rank);

    if (conn->watch)
        fl_reply_error(conn->watch,
                       fl_err_set(FL_ERR_CLOSED,
                                  "server %" PRIu32 " asked again for the end",
                                  who->rank));
    conn->watch = r->reply;
    if (s->phase != FL_SERVER_SERVING)
        fl_server_answer_watches(s);
}

static fl_status check(fl_server *s, const fl_server_request *r)
{
    const fl_barrier_request *q = r->request;
    bool is_server = fl_session_who(r->session)->role == FL_MEMBER_SERVER;
    bool is_end = q->kind == FL_BARRIER_END;

    if (q->kind >= FL_BARRIER_GATHER)
        FL_FAIL(FL_ERR_INVAL,
                "barrier \"%s\" is of kind %" PRIu32 ", which there is not",
                q->name, q->kind);
    if (is_server != is_end)
        FL_FAIL(FL_ERR_INVAL,
                "barrier \"%s\": trainers meet at barriers, and servers wait "
                "for the end of the job; neither asks for the other's",
                q->name);
    return is_server && s->phase == FL_SERVER_SERVING
               ? fl_server_check_member(s, r)
               : FL_OK;
}

static void answer(fl_barrier_question *q, fl_status st, const fl_came *came,
                   size_t n_came)
{
    fl_pack p = { 0 };

    if (st) {
        fl_reply_error(q->reply, st);
    } else {
        fl_came_pack(&p, came, n_came);
        fl_reply_send(q->reply, p.data, p.len);
        fl_pack_release(&p);
    }
    fl_free(q);
}

fl_barrier_question *fl_barrier_question_new(fl_reply *reply)
{
    fl_barrier_question *q = fl_alloc(sizeof(*q));

    *q = (fl_barrier_question){ answer, reply };
    return q;
}

static void ask(fl_server *s, const fl_server_request *r)
{
    fl_coord_asker who = fl_server_asker(s, r);

    who.question = fl_barrier_question_new(r->reply);
    fl_coord_barrier(s->coord, &who, r->request);
}

void fl_server_barrier(fl_server *s, const fl_server_request *r)
{
    fl_status st = check(s, r);

    s->level = FL_LOG_INFO;
    if (st)
        fl_reply_error(r->reply, st);
    else if (fl_session_who(r->session)->role == FL_MEMBER_SERVER)
        watch(s, r);
    else
        ask(s, r);
}

void fl_server_answer_barrier(void *arg, void *question, fl_status st,
                              const fl_came *came, size_t n_came)
{
    fl_barrier_question *q = question;

    (void)arg;
    q->answer(q, st, came, n_came);
}
