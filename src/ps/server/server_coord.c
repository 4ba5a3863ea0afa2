/* server_coord.c - requests for the coordinator, and its answers. All under mu,
 * unless it is noted. */
#include "ps/server/server_inside.h"

#include <inttypes.h>
#include <string.h>

#include "base/alloc.h"

/* The coordinator's own limits are below these. */
#define NAME_ROOM 128
#define PHASE_ROOM 256

/* --- what it tells -------------------------------------------------------- */

static void on_answer(void *arg, void *question, fl_status st,
                      const fl_coord_came *came, size_t n_came)
{
    fl_pack p = { 0 };

    (void)arg;
    if (st) {
        fl_reply_error(question, st);
        return;
    }
    fl_pack_u32(&p, (uint32_t)n_came);
    fl_pack_u32(&p, 0);
    for (size_t i = 0; i < n_came; i++) {
        fl_pack_u32(&p, came[i].rank);
        fl_pack_u32(&p, 0);
        fl_pack_u64(&p, came[i].share);
    }
    fl_reply_send(question, p.data, p.len);
    fl_pack_release(&p);
}

static void on_dealt(void *arg, void *question, fl_status st, uint64_t item)
{
    fl_pack p = { 0 };

    (void)arg;
    if (st) {
        fl_reply_error(question, st);
        return;
    }
    fl_pack_u64(&p, item);
    fl_reply_send(question, p.data, p.len);
    fl_pack_release(&p);
}

static void on_gathered(void *arg, void *question, fl_status st, fl_gathered *g)
{
    const struct iovec *pieces;
    int n;

    (void)arg;
    if (st) {
        fl_reply_error(question, st);
        return;
    }
    pieces = fl_gathered_pieces(g, &n);
    fl_gathered_ref(g);
    fl_reply_send_pieces(question, pieces, n, fl_gathered_unref, g);
}

static void on_say(void *arg, const char *line)
{
    const fl_server *s = arg;

    fl_log(s->level, "ps", "%s", line);
    if (s->host)
        fl_rpc_server_log(s->host, (uint8_t)s->level, line);
}

static void on_over(void *arg, fl_status why)
{
    fl_server *s = arg;

    if (why && s->is_asked && s->host)
        fl_rpc_server_dismiss(s->host, FL_MEMBER_TRAINER, why);
    fl_server_end(s, s->is_asked ? FL_OK : why);
}

fl_coord *fl_server_make_coord(fl_server *s)
{
    static const fl_coord_events events = {
        .answer = on_answer,
        .dealt = on_dealt,
        .gathered = on_gathered,
        .say = on_say,
        .over = on_over,
    };
    fl_coord_options o = {
        .n_servers = s->o.n_servers,
        .n_trainers = s->o.n_trainers,
        .connect_timeout_ms = s->o.connect_timeout_ms,
        .restart_timeout_ms = s->o.restart_timeout_ms,
        .go_on_without = s->o.go_on_without,
        .max_gathered_bytes = s->o.max_message_bytes,
    };

    s->level = FL_LOG_INFO;
    return fl_coord_new(&o, &events, s, fl_server_now_ms(s));
}

/* --- checks --------------------------------------------------------------- */

static fl_status check_read(const fl_unpack *u, const fl_ask *a)
{
    if (u->bad || u->at != u->end)
        FL_FAIL(FL_ERR_CORRUPT,
                "a request (%s) of %" PRIu64 " bytes does not "
                "parse",
                fl_frame_type_name(a->frame->type), a->frame->length);
    return FL_OK;
}

/* Only who has joined, and was not replaced since, has a say. */
static fl_status check_member(fl_server *s, const fl_ask *a)
{
    const fl_identity *who = fl_session_who(a->session);
    const fl_member_seat *seat = fl_server_seat(s, who->role, who->rank);
    uint32_t now = fl_coord_incarnation(s->coord, who->role, who->rank);

    if (!now)
        FL_FAIL(FL_ERR_INVAL, "%s %" PRIu32 " has not joined the job",
                fl_member_role_name(who->role), who->rank);
    if (who->role == FL_MEMBER_SERVER && who->life != seat->life)
        FL_FAIL(FL_ERR_CLOSED, "another process is server %" PRIu32 " now",
                who->rank);
    if (who->role == FL_MEMBER_TRAINER && who->incarnation != now)
        FL_FAIL(FL_ERR_CLOSED,
                "incarnation %" PRIu32 " of trainer %" PRIu32
                " asks, but incarnation %" PRIu32 " is the one that counts",
                who->incarnation, who->rank, now);
    return FL_OK;
}

/* --- requests ------------------------------------------------------------- */

/* A server is known to people by the address that everybody has of it. */
static const char *place_of(const fl_ask *a)
{
    const fl_identity *who = fl_session_who(a->session);

    return who->role == FL_MEMBER_SERVER ? who->address
                                         : fl_session_peer(a->session);
}

/* A server that comes after the end hears what became of the job: of a good end
   by the answer to its question for it. */
static void join_after_end(fl_server *s, const fl_ask *a)
{
    const fl_identity *who = fl_session_who(a->session);

    if (s->why.status) {
        fl_server_seat(s, who->role, who->rank)->is_told = true;
        fl_reply_error(a->reply, fl_err_restore(&s->why));
    } else {
        fl_reply_send(a->reply, NULL, 0);
    }
}

void fl_server_join(fl_server *s, const fl_ask *a)
{
    const fl_identity *who = fl_session_who(a->session);
    fl_pack p = { 0 };
    uint32_t incarnation;
    fl_status st;

    if (who->role == FL_MEMBER_SERVER && s->phase != FL_SERVER_SERVING) {
        join_after_end(s, a);
        return;
    }
    s->level = FL_LOG_INFO;
    st = fl_coord_join(s->coord, who, place_of(a), fl_server_now_ms(s),
                       &incarnation);
    if (st) {
        fl_reply_error(a->reply, st);
        return;
    }
    fl_server_take_seat(s, a->session, incarnation);
    fl_pack_u32(&p, incarnation);
    fl_reply_send(a->reply, p.data, p.len);
    fl_pack_release(&p);
}

void fl_server_leave(fl_server *s, const fl_ask *a)
{
    const fl_identity *who = fl_session_who(a->session);
    fl_status st = check_member(s, a);

    if (st) {
        fl_reply_error(a->reply, st);
        return;
    }
    s->level = FL_LOG_INFO;
    fl_coord_leave(s->coord, who->role, who->rank, fl_server_now_ms(s));
    if (who->role == FL_MEMBER_TRAINER)
        fl_server_seat(s, who->role, who->rank)->is_told = true;
    fl_reply_send(a->reply, NULL, 0);
}

/* Answered at the end; a server that asks again has lost its connection. */
static void watch(fl_server *s, const fl_ask *a)
{
    const fl_identity *who = fl_session_who(a->session);
    fl_member_seat *seat = fl_server_seat(s, who->role, who->rank);

    if (seat->watch)
        fl_reply_error(seat->watch,
                       fl_err_set(FL_ERR_CLOSED,
                                  "server %" PRIu32 " asked again for the end",
                                  who->rank));
    seat->watch = a->reply;
    if (s->phase != FL_SERVER_SERVING)
        fl_server_answer_watches(s);
}

static fl_status check_barrier(fl_server *s, const fl_ask *a, const char *name)
{
    bool is_server = fl_session_who(a->session)->role == FL_MEMBER_SERVER;
    bool is_end = strcmp(name, FL_SERVER_END) == 0;

    if (is_server && !is_end)
        FL_FAIL(FL_ERR_INVAL,
                "a server asks for barrier \"%s\": only trainers meet at "
                "barriers, servers wait for \"" FL_SERVER_END "\"",
                name);
    if (!is_server && is_end)
        FL_FAIL(FL_ERR_INVAL,
                "barrier \"" FL_SERVER_END "\" is the one of the servers: "
                "choose another name");
    return is_server && s->phase == FL_SERVER_SERVING ? check_member(s, a)
                                                      : FL_OK;
}

void fl_server_barrier(fl_server *s, const fl_ask *a)
{
    const fl_identity *who = fl_session_who(a->session);
    fl_unpack u = fl_unpack_of(a->payload);
    char name[NAME_ROOM];
    uint64_t generation, share;
    fl_status st;

    fl_unpack_text(&u, name, sizeof(name));
    generation = fl_unpack_u64(&u);
    share = fl_unpack_u64(&u);
    st = check_read(&u, a);
    if (!st)
        st = check_barrier(s, a, name);
    if (st) {
        fl_reply_error(a->reply, st);
    } else if (who->role == FL_MEMBER_SERVER) {
        watch(s, a);
    } else {
        s->level = FL_LOG_INFO;
        fl_coord_barrier(s->coord, who->rank, who->incarnation, name,
                         generation, share, a->reply, fl_server_now_ms(s));
    }
}

void fl_server_step(fl_server *s, const fl_ask *a)
{
    fl_unpack u = fl_unpack_of(a->payload);
    uint64_t add = fl_unpack_u64(&u), step;
    fl_pack p = { 0 };
    fl_status st = check_read(&u, a);

    if (!st)
        st = check_member(s, a);
    if (!st)
        st = fl_coord_check_asker(s->coord, a->frame->rank,
                                  fl_session_who(a->session)->incarnation,
                                  "the step");
    if (st) {
        fl_reply_error(a->reply, st);
        return;
    }
    step = fl_coord_step(s->coord, add);
    fl_server_raise_step(s, step);
    fl_pack_u64(&p, step);
    fl_reply_send(a->reply, p.data, p.len);
    fl_pack_release(&p);
}

void fl_server_report(fl_server *s, const fl_ask *a)
{
    fl_unpack u = fl_unpack_of(a->payload);
    char phase[PHASE_ROOM];
    uint64_t samples;
    double loss, auc;
    fl_status st;

    fl_unpack_text(&u, phase, sizeof(phase));
    samples = fl_unpack_u64(&u);
    loss = fl_unpack_f64(&u);
    auc = fl_unpack_f64(&u);
    st = check_read(&u, a);
    if (!st)
        st = check_member(s, a);
    if (st) {
        fl_reply_error(a->reply, st);
        return;
    }
    fl_coord_report(s->coord, fl_session_who(a->session)->rank, phase, samples,
                    loss, auc, fl_server_now_ms(s));
    fl_reply_send(a->reply, NULL, 0);
}

void fl_server_status(fl_server *s, const fl_ask *a)
{
    char *text = fl_coord_status(s->coord, fl_server_now_ms(s));

    fl_reply_send(a->reply, text, strlen(text));
    fl_free(text);
}

void fl_server_deal(fl_server *s, const fl_ask *a)
{
    const fl_identity *who = fl_session_who(a->session);
    fl_unpack u = fl_unpack_of(a->payload);
    char name[NAME_ROOM];
    fl_coord_work w = { .name = name };
    fl_status st;

    fl_unpack_text(&u, name, sizeof(name));
    w.number = fl_unpack_u64(&u);
    w.n = fl_unpack_u64(&u);
    w.question = fl_unpack_u64(&u);
    w.finished = fl_unpack_u64(&u);
    w.is_hasty = fl_unpack_u32(&u) != 0;
    st = check_read(&u, a);
    if (st)
        fl_reply_error(a->reply, st);
    else
        fl_coord_deal(s->coord, who->rank, who->incarnation, &w, a->reply,
                      fl_server_now_ms(s));
}

static void gather(fl_server *s, const fl_ask *a, const char *name,
                   uint64_t generation, fl_gather_part *part)
{
    const fl_identity *who = fl_session_who(a->session);

    fl_lock(&s->mu);
    s->level = FL_LOG_INFO;
    fl_coord_gather(s->coord, who->rank, who->incarnation, name, generation,
                    part, a->reply, fl_server_now_ms(s));
    fl_unlock(&s->mu);
}

/* Bytes are copied without mu: they may be many. */
void fl_server_gather(fl_server *s, const fl_ask *a)
{
    fl_unpack u = fl_unpack_of(a->payload);
    fl_gather_part part = { 0 };
    uint64_t generation, len;
    char name[NAME_ROOM];
    const void *bytes;
    fl_status st;

    fl_unpack_text(&u, name, sizeof(name));
    generation = fl_unpack_u64(&u);
    len = fl_unpack_u64(&u);
    bytes = fl_unpack_bytes(&u, len);
    st = check_read(&u, a);
    if (!st)
        st = fl_gather_part_make(&part, fl_session_who(a->session)->rank, bytes,
                                 len);
    if (st)
        fl_reply_error(a->reply, st);
    else
        gather(s, a, name, generation, &part);
}
