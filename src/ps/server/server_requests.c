/* server_requests.c - who may ask for what, and requests for the store and
 * mail.
 *
 * A reply with rows or mails is written once: into the arena that is shared
 * with the peer when there is room, else into a buffer that the connection
 * sends from.
 */
#include "ps/server/server_inside.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

/* Tools have ranks by chance; in the counters they are one. */
#define RANK_OF_TOOLS UINT32_MAX

/* OWNERS are tools that know the token, TOOLS all of them. */
typedef enum asker { TRAINERS = 1, SERVERS = 2, TOOLS = 4, OWNERS = 8 } asker;

typedef enum trait {
    REPEATED = 0,
    ONCE = 1,  /* changes something: has a sequence number */
    EMPTY = 2, /* has no payload */
    FIRST = 4, /* for server 0 */
    LOCKED = 8,
    COORD = FIRST | LOCKED /* for server 0, under mu */
} trait;

typedef struct rule {
    unsigned from; /* asker */
    unsigned kind; /* trait */
    void (*run)(fl_server *s, const fl_ask *a);
} rule;

/* --- the store ------------------------------------------------------------ */

typedef struct room {
    fl_server *s;
    fl_reply *reply;
    fl_buffer *buffer;
    uint64_t len;
    bool is_arena, is_too_large;
} room;

static void *give_room(void *arg, uint64_t len)
{
    room *r = arg;
    void *at;

    /* The peer would close its connection. */
    r->len = len;
    r->is_too_large = len > r->s->o.max_message_bytes;
    if (r->is_too_large)
        return NULL;
    at = fl_reply_room(r->reply, len);
    r->is_arena = at != NULL;
    if (at)
        return at;
    r->buffer = fl_buffers_take(&r->s->buffers, len);
    return r->buffer ? fl_buffer_data(r->buffer) : NULL;
}

static void send_room(room *r)
{
    struct iovec piece = { .iov_len = (size_t)r->len };

    if (r->is_arena) {
        fl_reply_send_room(r->reply);
    } else if (r->buffer) {
        piece.iov_base = fl_buffer_data(r->buffer);
        fl_reply_send_pieces(r->reply, &piece, 1, fl_buffer_put, r->buffer);
    } else {
        fl_reply_send(r->reply, NULL, 0);
    }
}

/* With this thread's last error, or with what the reply was too large for. */
static void refuse_room(room *r, const fl_ask *a, fl_status st)
{
    fl_buffer_put(r->buffer);
    if (r->is_too_large)
        st = fl_err_set(FL_ERR_INVAL,
                        "a reply (%s) of %" PRIu64 " bytes is larger than "
                        "max_message_bytes (%" PRIu64
                        "): ask for fewer rows at a time",
                        fl_frame_type_name(a->frame->type), r->len,
                        r->s->o.max_message_bytes);
    fl_reply_error(a->reply, st);
}

/* A round was applied: the step of the job is the one behind it, on server 0
   for people as well. */
static void pass_round(fl_server *s, const fl_ask *a)
{
    fl_unpack u = fl_unpack_of(a->payload);
    uint64_t step = fl_unpack_u64(&u) + 1, now;

    fl_server_raise_step(s, step);
    if (s->o.rank != 0)
        return;
    fl_lock(&s->mu);
    now = fl_coord_step(s->coord, 0);
    if (step > now)
        (void)fl_coord_step(s->coord, step - now);
    fl_unlock(&s->mu);
}

static void ask_store(fl_server *s, const fl_ask *a)
{
    bool is_tool = fl_session_who(a->session)->role == FL_MEMBER_TOOL;
    room r = { .s = s, .reply = a->reply };
    fl_store_reply reply = { .room = give_room, .arg = &r };
    fl_status st = fl_store_request(
        s->store, a->frame->type,
        a->payload ? fl_payload_data(a->payload) : NULL,
        a->payload ? fl_payload_len(a->payload) : 0, atomic_load(&s->step),
        is_tool ? RANK_OF_TOOLS : a->frame->rank, a->frame->incarnation,
        &reply);

    if (!st) {
        if (a->frame->type == FL_TYPE_APPLY)
            pass_round(s, a);
        send_room(&r);
        return;
    }
    refuse_room(&r, a, st);
}

/* Trainers that are here for the first time wait for one another before they
   train: the job has not begun, and who waits is told why it never will. */
static void end_undeclared(fl_server *s, const fl_err *why)
{
    fl_lock(&s->mu);
    fl_coord_end(s->coord, fl_err_restore(why));
    fl_unlock(&s->mu);
}

static void declare(fl_server *s, const fl_ask *a)
{
    const fl_payload *p = a->payload;
    fl_status st =
        fl_store_declare(s->store, p ? (const char *)fl_payload_data(p) : "",
                         p ? (size_t)fl_payload_len(p) : 0);
    fl_err why;

    if (!st) {
        fl_reply_send(a->reply, NULL, 0);
        return;
    }
    fl_err_save(&why, st);
    fl_reply_error(a->reply, st);
    if (s->o.rank == 0 && fl_session_who(a->session)->incarnation == 1)
        end_undeclared(s, &why);
}

static void shut_down(fl_server *s, const fl_ask *a)
{
    char text[FL_ADDRESS_MAX + 64];

    (void)fl_identity_text(fl_session_who(a->session),
                           fl_session_peer(a->session), text, sizeof(text));
    fl_reply_send(a->reply, NULL, 0);
    fl_lock(&s->mu);
    fl_server_end_asked(s, text);
    fl_unlock(&s->mu);
}

/* --- mail ----------------------------------------------------------------- */

static void put_mail(fl_server *s, const fl_ask *a)
{
    bool is_full;
    fl_status st =
        fl_mail_put(s->mail, a->payload ? fl_payload_data(a->payload) : NULL,
                    a->payload ? fl_payload_len(a->payload) : 0, &is_full);
    fl_pack p = { 0 };

    if (st) {
        fl_reply_error(a->reply, st);
        return;
    }
    fl_pack_u32(&p, is_full);
    fl_reply_send(a->reply, p.data, p.len);
    fl_pack_release(&p);
}

static void take_mail(fl_server *s, const fl_ask *a)
{
    room r = { .s = s, .reply = a->reply };
    fl_store_reply reply = { .room = give_room, .arg = &r };
    fl_status st = fl_mail_take(s->mail, a->frame->rank,
                                a->payload ? fl_payload_data(a->payload) : NULL,
                                a->payload ? fl_payload_len(a->payload) : 0,
                                s->o.max_message_bytes, &reply);

    if (st)
        refuse_room(&r, a, st);
    else
        send_room(&r);
}

/* --- rules ---------------------------------------------------------------- */

static const rule *find_rule(uint16_t type)
{
    static const rule rules[] = {
        [FL_TYPE_DECLARE] = { TRAINERS, REPEATED, declare },
        [FL_TYPE_PULL] = { TRAINERS | TOOLS, REPEATED, ask_store },
        [FL_TYPE_PUSH] = { TRAINERS, ONCE, ask_store },
        [FL_TYPE_ASSIGN] = { TRAINERS, ONCE, ask_store },
        [FL_TYPE_PULL_DENSE] = { TRAINERS | TOOLS, REPEATED, ask_store },
        [FL_TYPE_PUSH_DENSE] = { TRAINERS, ONCE, ask_store },
        [FL_TYPE_ASSIGN_DENSE] = { TRAINERS, ONCE, ask_store },
        [FL_TYPE_CLEAR] = { TRAINERS, ONCE, ask_store },
        [FL_TYPE_SHRINK] = { TRAINERS, ONCE, ask_store },
        [FL_TYPE_STATS] = { TRAINERS | TOOLS, REPEATED, ask_store },
        [FL_TYPE_HASH] = { TRAINERS | TOOLS, REPEATED, ask_store },
        [FL_TYPE_SHUTDOWN] = { OWNERS, EMPTY, shut_down },
        [FL_TYPE_ROUND_PUSH] = { TRAINERS, ONCE, ask_store },
        [FL_TYPE_ROUND_DENSE] = { TRAINERS, ONCE, ask_store },
        [FL_TYPE_APPLY] = { TRAINERS, REPEATED, ask_store },
        [FL_TYPE_CHANGED] = { TRAINERS, REPEATED, ask_store },
        [FL_TYPE_MAIL] = { TRAINERS, ONCE, put_mail },
        [FL_TYPE_TAKE] = { TRAINERS, REPEATED, take_mail },
        [FL_TYPE_JOIN] = { TRAINERS | SERVERS, COORD | EMPTY, fl_server_join },
        [FL_TYPE_LEAVE] = { TRAINERS | SERVERS, COORD | EMPTY,
                            fl_server_leave },
        [FL_TYPE_BARRIER] = { TRAINERS | SERVERS, COORD, fl_server_barrier },
        [FL_TYPE_STEP] = { TRAINERS, COORD | ONCE, fl_server_step },
        [FL_TYPE_REPORT] = { TRAINERS, COORD, fl_server_report },
        [FL_TYPE_STATUS] = { TRAINERS | TOOLS, COORD | EMPTY,
                             fl_server_status },
        [FL_TYPE_DEAL] = { TRAINERS, COORD, fl_server_deal },
        [FL_TYPE_GATHER] = { TRAINERS, FIRST, fl_server_gather },
    };

    return type < FL_LEN(rules) && rules[type].run ? &rules[type] : NULL;
}

static fl_status check_asker(const rule *r, const fl_identity *who,
                             const char *name)
{
    unsigned bits = who->role == FL_MEMBER_TRAINER  ? TRAINERS
                    : who->role == FL_MEMBER_SERVER ? SERVERS
                    : who->may_only_look            ? TOOLS
                                                    : TOOLS | OWNERS;

    if (r->from & bits)
        return FL_OK;
    if (r->from & OWNERS && who->may_only_look)
        FL_FAIL(FL_ERR_INVAL,
                "a tool with the look token must not send a request (%s): the "
                "join token is needed to change or end a job",
                name);
    FL_FAIL(FL_ERR_INVAL, "a %s must not send a request (%s)",
            fl_member_role_name(who->role), name);
}

/* What would be remembered must be short, and what changes something must be
   remembered: a wrong number is refused before anything is done. */
static fl_status check_once(const rule *r, const fl_ask *a)
{
    const fl_identity *who = fl_session_who(a->session);
    const char *name = fl_frame_type_name(a->frame->type);
    bool is_once = (r->kind & ONCE) != 0;

    if (is_once && !a->frame->sequence)
        FL_FAIL(FL_ERR_INVAL,
                "a request (%s) that changes something has no sequence number",
                name);
    if (!is_once && a->frame->sequence)
        FL_FAIL(FL_ERR_INVAL,
                "a request (%s) that changes nothing has a sequence number",
                name);
    if (is_once && !who->incarnation)
        FL_FAIL(FL_ERR_INVAL,
                "%s %" PRIu32 " has no incarnation yet, and only what has one "
                "can be applied once (%s): join at server 0 first",
                fl_member_role_name(who->role), who->rank, name);
    return FL_OK;
}

static fl_status check_ask(const fl_server *s, const rule *r, const fl_ask *a)
{
    const fl_identity *who = fl_session_who(a->session);
    const char *name = fl_frame_type_name(a->frame->type);

    if (!r)
        FL_FAIL(FL_ERR_INVAL, "a message (%s) is no request to a server", name);
    FL_TRY(check_asker(r, who, name));
    if (r->kind & FIRST && s->o.rank != 0)
        FL_FAIL(FL_ERR_INVAL,
                "a request (%s) is for the coordinator, which is server 0 "
                "(%s), and this is server %d",
                name, s->server_0, s->o.rank);
    if (r->kind & EMPTY && a->payload)
        FL_FAIL(FL_ERR_CORRUPT,
                "a request (%s) has %" PRIu64 " bytes and should have none",
                name, fl_payload_len(a->payload));
    return check_once(r, a);
}

void fl_server_request(void *server, fl_session *session, const fl_frame *f,
                       fl_payload *payload, fl_reply *r)
{
    fl_server *s = server;
    const rule *how = find_rule(f->type);
    fl_ask a = { session, f, payload, r };
    fl_status st = check_ask(s, how, &a);

    fl_server_raise_step(s, f->step);
    if (st) {
        fl_reply_error(r, st);
    } else if (how->kind & LOCKED) {
        fl_lock(&s->mu);
        how->run(s, &a);
        fl_unlock(&s->mu);
    } else {
        how->run(s, &a);
    }
    fl_payload_free(payload);
}
