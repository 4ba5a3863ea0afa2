/* server_members.c - connections of members that come, go and fall silent.
 *
 * On server 0 the coordinator is told, and says what there is to say. It is to
 * be told of the process that joined last alone: an older incarnation's end
 * means nothing. A trainer joins through a connection without an incarnation
 * and comes back with the one it was given; one that does not is down as soon
 * as nobody of its rank has been there for suspect_ms.
 *
 * The other servers know trainers by their connections alone and only say what
 * they see: what becomes of the job is decided on server 0.
 */
#include "ps/server/server_inside.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#define WHO_MAX (FL_ADDRESS_MAX + 64)

fl_member_conn *fl_server_member(fl_server *s, fl_member_role role,
                                 uint32_t rank)
{
    if (role == FL_MEMBER_TRAINER && rank < (uint32_t)s->o.n_trainers)
        return &s->members[rank];
    if (role == FL_MEMBER_SERVER && rank < (uint32_t)s->o.n_servers)
        return &s->members[(uint32_t)s->o.n_trainers + rank];
    return NULL;
}

static uint64_t since(uint64_t from_ms, uint64_t to_ms)
{
    return to_ms > from_ms ? to_ms - from_ms : 0;
}

/* --- who may come in ------------------------------------------------------ */

static fl_status refuse_rank(const fl_server *s, const fl_identity *id)
{
    int n = id->role == FL_MEMBER_TRAINER ? s->o.n_trainers : s->o.n_servers;

    FL_FAIL(FL_ERR_INVAL,
            "%s %" PRIu32 " cannot come in: the job has %d %s%s, with ranks "
            "from 0 to %d; give all members the same list of servers and "
            "number of trainers",
            fl_member_role_name(id->role), id->rank, n,
            fl_member_role_name(id->role), n == 1 ? "" : "s", n - 1);
}

/* A second process would take the connection over from the first, which would
   end for no fault of its own. */
static fl_status admit_server(const fl_server *s, const fl_member_conn *conn,
                              const fl_identity *id)
{
    if (s->o.rank != 0)
        FL_FAIL(FL_ERR_INVAL,
                "server %" PRIu32 " cannot come in: servers meet at server 0, "
                "and this is server %d",
                id->rank, s->o.rank);
    if (id->rank == 0)
        FL_FAIL(FL_ERR_INVAL, "server 0 is here already: give each server a "
                              "rank of its own");
    if (conn->session && !conn->is_silent && conn->boot_id != id->boot_id)
        FL_FAIL(FL_ERR_INVAL,
                "server %" PRIu32 " is here already: give each server a rank "
                "of its own",
                id->rank);
    return FL_OK;
}

/* The host would take it for newer than all that are given. */
static fl_status admit_trainer(const fl_server *s, const fl_identity *id)
{
    if (s->coord &&
        id->incarnation > fl_coord_incarnation(s->coord, id->role, id->rank))
        FL_FAIL(FL_ERR_CLOSED,
                "incarnation %" PRIu32 " of trainer %" PRIu32
                " was never given: it belongs to an earlier run of server 0, "
                "which came back without its state; start the job again",
                id->incarnation, id->rank);
    return FL_OK;
}

fl_status fl_server_admit(void *server, const fl_identity *id)
{
    fl_server *s = server;
    const fl_member_conn *conn = fl_server_member(s, id->role, id->rank);
    fl_status st;

    if (id->role == FL_MEMBER_TOOL)
        return FL_OK;
    if (!conn)
        return refuse_rank(s, id);
    fl_lock(&s->mu);
    st = id->role == FL_MEMBER_SERVER ? admit_server(s, conn, id)
                                      : admit_trainer(s, id);
    fl_unlock(&s->mu);
    return st;
}

/* --- on server 0; under mu ------------------------------------------------ */

void fl_server_set_member(fl_server *s, fl_session *session,
                          uint32_t incarnation)
{
    const fl_identity *who = fl_session_who(session);
    fl_member_conn *conn = fl_server_member(s, who->role, who->rank);

    if (who->role == FL_MEMBER_SERVER) {
        conn->session = session;
        conn->boot_id = who->boot_id;
        conn->is_silent = false;
    } else if (conn->incarnation != incarnation) {
        conn->session = NULL;
        conn->incarnation = incarnation;
        conn->is_told = false;
        conn->vacant_ms = fl_server_now_ms(s);
    }
}

/* The connection says something about the member. */
static bool counts(const fl_member_conn *conn, const fl_identity *who)
{
    return who->role == FL_MEMBER_TRAINER
               ? who->incarnation && who->incarnation == conn->incarnation
               : who->boot_id == conn->boot_id;
}

static bool is_newcomer(const fl_identity *who)
{
    return who->role == FL_MEMBER_TRAINER && !who->incarnation;
}

static void tell_up(fl_server *s, fl_member_conn *conn, fl_session *session)
{
    const fl_identity *who = fl_session_who(session);

    if (is_newcomer(who))
        conn->is_joining = true;
    if (!counts(conn, who))
        return;
    conn->session = session;
    conn->is_silent = false;
    s->level = FL_LOG_INFO;
    fl_coord_up(s->coord, who->role, who->rank, fl_server_now_ms(s));
}

static void tell_step(fl_server *s, const fl_member_conn *conn,
                      fl_member_role role, uint32_t rank)
{
    uint64_t step = fl_session_step(conn->session);
    uint64_t now_ms = fl_server_now_ms(s);

    if (conn->is_silent)
        fl_coord_silent(s->coord, role, rank,
                        fl_session_heard_ms_ago(conn->session), step, now_ms);
    else
        fl_coord_heard(s->coord, role, rank, step, now_ms);
}

static void tell_down(fl_server *s, fl_member_conn *conn, fl_session *session,
                      const char *why)
{
    const fl_identity *who = fl_session_who(session);
    uint64_t now = fl_server_now_ms(s);

    if (is_newcomer(who)) {
        conn->is_joining = false;
        conn->vacant_ms = now;
    }
    if (conn->session != session)
        return;
    s->level = FL_LOG_WARN;
    tell_step(s, conn, who->role, who->rank);
    conn->session = NULL;
    conn->vacant_ms = now;
    fl_coord_down(s->coord, who->role, who->rank, why, now);
}

static void tell_silent(fl_server *s, fl_member_conn *conn, fl_session *session,
                        bool silent)
{
    const fl_identity *who = fl_session_who(session);

    if (is_newcomer(who)) {
        conn->is_joining = !silent;
        conn->vacant_ms = fl_server_now_ms(s);
    }
    if (conn->session != session)
        return;
    conn->is_silent = silent;
    s->level = silent ? FL_LOG_WARN : FL_LOG_INFO;
    tell_step(s, conn, who->role, who->rank);
}

/* One that joined and has not come back. */
static void tick_trainer(fl_server *s, uint32_t rank, uint64_t now_ms)
{
    const fl_member_conn *conn = fl_server_member(s, FL_MEMBER_TRAINER, rank);

    if (conn->session)
        tell_step(s, conn, FL_MEMBER_TRAINER, rank);
    else if (conn->incarnation && !conn->is_joining &&
             since(conn->vacant_ms, now_ms) >= s->o.suspect_ms)
        fl_coord_down(s->coord, FL_MEMBER_TRAINER, rank,
                      "it joined and did not connect again", now_ms);
}

void fl_server_tick_members(fl_server *s, uint64_t now_ms)
{
    s->level = FL_LOG_WARN;
    for (uint32_t rank = 0; rank < (uint32_t)s->o.n_trainers; rank++)
        tick_trainer(s, rank, now_ms);
    fl_coord_tick(s->coord, now_ms);
}

void fl_server_answer_watches(fl_server *s)
{
    for (int rank = 0; rank < s->o.n_servers; rank++) {
        fl_member_conn *conn =
            fl_server_member(s, FL_MEMBER_SERVER, (uint32_t)rank);
        fl_reply *r = conn->watch;

        conn->watch = NULL;
        conn->is_told |= r != NULL;
        if (r && s->why.status)
            fl_reply_error(r, fl_err_restore(&s->why));
        else if (r)
            fl_reply_send(r, NULL, 0);
    }
}

bool fl_server_told_all(fl_server *s)
{
    for (int rank = 1; s->coord && rank < s->o.n_servers; rank++)
        if (!fl_server_member(s, FL_MEMBER_SERVER, (uint32_t)rank)->is_told)
            return false;
    return true;
}

/* After a failure nothing is owed to a member: it fails as well. */
bool fl_server_awaits_return(fl_server *s)
{
    size_t n = (size_t)s->o.n_trainers + (size_t)s->o.n_servers;

    for (size_t i = 0; s->coord && !s->why.status && i < n; i++)
        if (fl_server_now_ms(s) < s->members[i].back_by_ms)
            return true;
    return false;
}

/* --- on the others; under mu ---------------------------------------------- */

const char *fl_server_word(const fl_server *s)
{
    return s->o.are_workers ? "worker" : "server";
}

/* What worker 0 decides it tells to all; a server has nobody that would. */
static bool tells(const fl_server *s)
{
    return !s->o.are_workers;
}

static void see_up(fl_server *s, fl_member_conn *conn, fl_session *session)
{
    char who[WHO_MAX];

    conn->session = session;
    conn->is_silent = false;
    if (conn->vacant_ms && tells(s))
        FL_INFO("ps", "%s is back at server %d after %.1f s",
                fl_identity_text(fl_session_who(session),
                                 fl_session_peer(session), who, sizeof(who)),
                s->o.rank,
                (double)since(conn->vacant_ms, fl_server_now_ms(s)) * 1e-3);
    conn->vacant_ms = 0;
}

static void see_down(fl_server *s, fl_member_conn *conn, fl_session *session,
                     fl_status st, const char *why)
{
    char who[WHO_MAX];

    if (conn->session != session)
        return;
    conn->session = NULL;
    if (!st || s->phase != FL_SERVER_SERVING)
        return;
    conn->vacant_ms = fl_server_now_ms(s);
    if (!tells(s))
        return;
    FL_WARN("ps",
            "%s is down at server %d (%s), heard of %.1f s ago, at step "
            "%" PRIu64 "; server 0 decides what happens",
            fl_identity_text(fl_session_who(session), fl_session_peer(session),
                             who, sizeof(who)),
            s->o.rank, why, (double)fl_session_heard_ms_ago(session) * 1e-3,
            fl_session_step(session));
}

static void see_silent(fl_server *s, fl_member_conn *conn, fl_session *session,
                       bool silent)
{
    char who[WHO_MAX];

    if (conn->session != session || s->phase != FL_SERVER_SERVING)
        return;
    (void)fl_identity_text(fl_session_who(session), fl_session_peer(session),
                           who, sizeof(who));
    conn->is_silent = silent;
    if (!tells(s))
        return;
    if (silent)
        FL_WARN("ps",
                "%s has been silent at server %d for %.1f s, last seen at "
                "step %" PRIu64 "; server 0 decides what happens",
                who, s->o.rank, (double)fl_session_heard_ms_ago(session) * 1e-3,
                fl_session_step(session));
    else
        FL_INFO("ps", "%s is heard again at server %d", who, s->o.rank);
}

/* --- the host's events ---------------------------------------------------- */

/* Under mu; NULL for a tool. */
static fl_member_conn *seat_of(fl_server *s, fl_session *session)
{
    const fl_identity *who = fl_session_who(session);

    return fl_server_member(s, who->role, who->rank);
}

void fl_server_up(void *server, fl_session *session)
{
    fl_server *s = server;
    fl_member_conn *conn;

    fl_lock(&s->mu);
    s->n_sessions++;
    conn = seat_of(s, session);
    if (conn)
        conn->back_by_ms = 0;
    if (conn && s->coord)
        tell_up(s, conn, session);
    else if (conn)
        see_up(s, conn, session);
    fl_unlock(&s->mu);
}

void fl_server_down(void *server, fl_session *session, fl_status why)
{
    fl_server *s = server;
    char text[FL_ERR_TEXT_MAX];
    fl_member_conn *conn;

    (void)snprintf(text, sizeof(text), "%s",
                   why ? fl_last_error() : "it closed its connection");
    fl_server_leave_round(session);
    fl_lock(&s->mu);
    s->n_sessions--;
    conn = seat_of(s, session);
    if (conn && conn->is_told && why)
        conn->back_by_ms = fl_server_now_ms(s) + FL_SERVER_FLUSH_MS;
    if (conn && s->coord)
        tell_down(s, conn, session, text);
    else if (conn)
        see_down(s, conn, session, why, text);
    fl_server_check_end(s);
    fl_unlock(&s->mu);
}

void fl_server_silent(void *server, fl_session *session, bool silent)
{
    fl_server *s = server;
    fl_member_conn *conn;

    fl_lock(&s->mu);
    conn = seat_of(s, session);
    if (conn && s->coord)
        tell_silent(s, conn, session, silent);
    else if (conn)
        see_silent(s, conn, session, silent);
    fl_unlock(&s->mu);
}
