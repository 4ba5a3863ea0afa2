/* rank_slot.c - who has which rank, and how a rank goes from one connection to
 * the next.
 *
 * The connection that has a rank gives it up in its own loop, when it is out of
 * every callback; only then is the next one told, in its loop, that the rank is
 * its own. So two connections of a rank never run at the same time, and nobody
 * waits for anybody.
 */
#include "rpc/server/rpc_server_inside.h"

#include <stdio.h>

#include "base/alloc.h"

/* Tools come and go, each with a rank by chance; so many that have left may
   still come back to their session. */
#define TOOLS_KEPT 64

/* --- the list; all guarded by the host's mu ------------------------------- */

static fl_rank_slot *get_member(fl_rpc_server *h, const fl_session_mark *key)
{
    bool is_named = key->incarnation != 0;
    fl_rank_slot *m;

    for (size_t i = 0; i < h->members.len; i++) {
        m = h->members.data[i];
        if (m->role == key->role && m->rank == key->rank &&
            m->is_named == is_named)
            return m;
    }
    m = fl_alloc(sizeof(*m));
    m->role = key->role;
    m->rank = key->rank;
    m->is_named = is_named;
    fl_vec_push(&h->members, m);
    return m;
}

static bool is_idle_tool(const fl_rank_slot *m)
{
    return m->role == FL_MEMBER_TOOL && !m->now;
}

/* Takes the tool that left first off the list, when too many have left, and
   returns its session, or NULL. */
static fl_session *forget_a_tool(fl_rpc_server *h)
{
    fl_session *s;
    size_t n = 0, oldest = 0;

    for (size_t i = 0; i < h->members.len; i++) {
        fl_rank_slot *m = h->members.data[i];

        if (!is_idle_tool(m))
            continue;
        if (!n++ || m->left < h->members.data[oldest]->left)
            oldest = i;
    }
    if (n <= TOOLS_KEPT)
        return NULL;
    s = h->members.data[oldest]->session;
    fl_free(h->members.data[oldest]);
    h->members.data[oldest] = h->members.data[--h->members.len];
    return s;
}

void fl_rank_slot_free_all(fl_rpc_server *h)
{
    for (size_t i = 0; i < h->members.len; i++) {
        fl_rank_slot *m = h->members.data[i];

        if (m->now)
            fl_server_conn_unref(m->now);
        if (m->next)
            fl_server_conn_unref(m->next);
        fl_session_unref(m->session);
        fl_free(m);
    }
    fl_vec_release(&h->members);
}

/* --- joining and leaving -------------------------------------------------- */

static fl_status refuse_old(const fl_identity *id, uint32_t newest)
{
    FL_FAIL(FL_ERR_CLOSED,
            "incarnation %u of %s %u is over: incarnation %u was seen; this "
            "process was replaced and must end",
            id->incarnation, fl_member_role_name(id->role), id->rank, newest);
}

fl_status fl_rank_slot_join(fl_server_conn *p)
{
    const fl_identity *id = &p->said.who;
    fl_session_mark key = { id->role, id->rank, id->incarnation, 0 };
    fl_rpc_server *h = p->host;
    fl_server_conn *older, *displaced;
    fl_rank_slot *m;

    fl_lock(&h->mu);
    m = get_member(h, &key);
    if (id->incarnation < m->newest) {
        uint32_t newest = m->newest;

        fl_unlock(&h->mu);
        return refuse_old(id, newest);
    }
    m->newest = id->incarnation;
    p->member = m;
    p->phase = FL_SERVER_CONN_WAITING;
    displaced = m->next;
    older = m->now ? fl_server_conn_ref(m->now) : NULL;
    m->next = older ? fl_server_conn_ref(p) : NULL;
    if (!older)
        m->now = fl_server_conn_ref(p);
    fl_unlock(&h->mu);
    if (displaced) {
        fl_server_conn_in_loop(displaced, fl_server_conn_taken_over);
        fl_server_conn_unref(displaced);
    }
    fl_server_conn_in_loop(older ? older : p, older ? fl_server_conn_taken_over
                                                    : fl_server_conn_up);
    if (older)
        fl_server_conn_unref(older);
    return FL_OK;
}

void fl_rank_slot_leave(fl_server_conn *p)
{
    fl_rpc_server *h = p->host;
    fl_rank_slot *m = p->member;
    fl_server_conn *heir = NULL, *gone = NULL;
    fl_session *forgotten = NULL;

    p->member = NULL;
    fl_lock(&h->mu);
    if (m->next == p) {
        gone = m->next;
        m->next = NULL;
    } else if (m->now == p) {
        gone = m->now;
        m->now = m->next;
        m->next = NULL;
        m->left = ++h->n_left;
        heir = m->now ? fl_server_conn_ref(m->now) : NULL;
        if (is_idle_tool(m))
            forgotten = forget_a_tool(h);
    }
    fl_unlock(&h->mu);
    fl_session_unref(forgotten);
    if (gone)
        fl_server_conn_unref(gone);
    if (heir) {
        fl_server_conn_in_loop(heir, fl_server_conn_up);
        fl_server_conn_unref(heir);
    }
}

/* Guarded by the host's mu; the session that it takes the place of. */
static fl_session *renew(fl_rpc_server *h, fl_rank_slot *m,
                         const fl_identity *id)
{
    fl_session *old = m->session;

    if (old && old->who.incarnation == id->incarnation)
        return NULL;
    m->session = fl_session_new(id, h->by_loop[0].loop);
    return old;
}

fl_session *fl_rank_slot_session(fl_server_conn *p)
{
    fl_rpc_server *h = p->host;
    fl_session *old, *s;

    fl_lock(&h->mu);
    old = renew(h, p->member, &p->said.who);
    s = fl_session_ref(p->member->session);
    s->who = p->said.who;
    (void)snprintf(s->peer, sizeof(s->peer), "%s", fl_conn_peer(p->conn));
    fl_unlock(&h->mu);
    fl_session_unref(old);
    return s;
}

/* --- marks ---------------------------------------------------------------- */

size_t fl_rpc_server_marks(fl_rpc_server *h, fl_session_mark *out, size_t cap)
{
    size_t n = 0;

    fl_lock(&h->mu);
    for (size_t i = 0; i < h->members.len; i++) {
        const fl_rank_slot *m = h->members.data[i];

        if (!m->session)
            continue;
        if (n < cap)
            out[n] = (fl_session_mark){
                .role = m->role,
                .rank = m->rank,
                .incarnation = m->session->who.incarnation,
                .sequence = fl_session_last(m->session),
            };
        n++;
    }
    fl_unlock(&h->mu);
    return n;
}

static void set_mark(fl_rpc_server *h, const fl_session_mark *mark)
{
    fl_identity id = {
        .role = mark->role,
        .rank = mark->rank,
        .incarnation = mark->incarnation,
    };
    fl_session *old = NULL;
    fl_server_conn *now = NULL;
    fl_rank_slot *m;

    fl_lock(&h->mu);
    m = get_member(h, mark);
    if (mark->incarnation >= m->newest) {
        m->newest = mark->incarnation;
        old = renew(h, m, &id);
        fl_session_restore(m->session, mark->sequence);
        now = m->now ? fl_server_conn_ref(m->now) : NULL;
    }
    fl_unlock(&h->mu);
    fl_session_unref(old);
    if (now) {
        fl_server_conn_in_loop(now, fl_server_conn_set_back);
        fl_server_conn_unref(now);
    }
}

void fl_rpc_server_set_marks(fl_rpc_server *h, const fl_session_mark *marks,
                             size_t n)
{
    for (size_t i = 0; i < n; i++)
        set_mark(h, &marks[i]);
}
