/* rpc_server.c - listening, the connections of each loop, and their number.
 *
 * fl_loop_conns are the connections of one loop and the timer that checks them.
 * New connections come in the loop that accepts and are carried into their own.
 *
 * The end: is_closed is set first, so nothing is posted any more on behalf of a
 * reply; then the listener ends, then those of each loop in it. Peers that are
 * still referred to keep the host's memory, and nothing else of it.
 */
#include "rpc/server/rpc_server_inside.h"

#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/log.h"

/* Addresses whose refusal was logged; after so many there are no more lines. */
#define REFUSED_MAX 1024

/* --- small things --------------------------------------------------------- */

void fl_rpc_server_unref(fl_rpc_server *h)
{
    if (atomic_fetch_sub(&h->refs, 1) != 1)
        return;
    fl_mutex_release(&h->mu);
    fl_free(h->by_loop);
    fl_free(h);
}

bool fl_rpc_server_post(fl_rpc_server *h, fl_loop *l, fl_loop_fn fn, void *arg)
{
    bool is_open;

    fl_lock(&h->mu);
    is_open = !h->is_closed;
    if (is_open)
        fl_loop_post(l, fn, arg);
    fl_unlock(&h->mu);
    return is_open;
}

/* A new connection of the same machine has another port. */
static void strip_port(char *address)
{
    char *colon = strrchr(address, ':');

    if (colon && strncmp(address, "unix:", 5) != 0)
        *colon = '\0';
}

void fl_rpc_server_log_refused(fl_rpc_server *h, const char *peer,
                               const char *why)
{
    char *address = fl_strdup(peer);
    bool is_new;

    strip_port(address);
    fl_lock(&h->mu);
    is_new = !h->is_closed && h->refused_addresses.len < REFUSED_MAX &&
             !fl_map_find(&h->refused, address);
    if (is_new) {
        fl_vec_push(&h->refused_addresses, address);
        fl_map_put(&h->refused, address, h);
    }
    fl_unlock(&h->mu);
    if (is_new)
        FL_WARN("rpc", "refused peer=%s why=%s", peer, why);
    else
        fl_free(address);
}

/* --- those without a session ---------------------------------------------- */

void fl_rpc_server_add_shaking(fl_rpc_server *h, fl_server_conn *p)
{
    fl_lock(&h->mu);
    if (p->in_handshake) {
        fl_unlock(&h->mu);
        return;
    }
    p->in_handshake = true;
    p->shaking_prev = h->shaking_last;
    p->shaking_next = NULL;
    if (h->shaking_last)
        h->shaking_last->shaking_next = p;
    else
        h->shaking = p;
    h->shaking_last = p;
    fl_unlock(&h->mu);
}

/* Guarded by mu. */
static void remove_shaking(fl_rpc_server *h, fl_server_conn *p)
{
    if (!p->in_handshake)
        return;
    p->in_handshake = false;
    if (p->shaking_prev)
        p->shaking_prev->shaking_next = p->shaking_next;
    else
        h->shaking = p->shaking_next;
    if (p->shaking_next)
        p->shaking_next->shaking_prev = p->shaking_prev;
    else
        h->shaking_last = p->shaking_prev;
}

void fl_rpc_server_end_shaking(fl_rpc_server *h, fl_server_conn *p,
                               fl_conn_end end)
{
    fl_lock(&h->mu);
    remove_shaking(h, p);
    if (end == FL_CONN_ENDS)
        h->n_conns--;
    fl_unlock(&h->mu);
}

/* --- the connections of a loop -------------------------------------------- */

static void on_look(void *arg);

static void look_later(fl_loop_conns *conns)
{
    const fl_rpc_server_options *o = &conns->host->o;
    uint64_t every = fl_heartbeat_every_ms(o->ping_ms, o->suspect_ms);

    conns->due_ms = fl_loop_now_ms(conns->loop) + every;
    conns->timer = fl_loop_timer(conns->loop, every, on_look, conns);
}

void fl_loop_conns_add(fl_loop_conns *conns, fl_server_conn *p)
{
    p->conns_next = conns->first;
    conns->first = fl_server_conn_ref(p);
    if (!conns->timer)
        look_later(conns);
}

static void sweep(fl_loop_conns *conns)
{
    fl_server_conn **at = &conns->first;

    while (*at) {
        fl_server_conn *p = *at;

        if (p->phase == FL_SERVER_CONN_GONE) {
            *at = p->conns_next;
            fl_server_conn_unref(p);
        } else {
            at = &p->conns_next;
        }
    }
}

static void on_look(void *arg)
{
    fl_loop_conns *conns = arg;
    uint64_t paused = fl_heartbeat_paused_ms(
        conns->due_ms, fl_loop_now_ms(conns->loop), conns->host->o.suspect_ms);

    conns->timer = 0;
    for (fl_server_conn *p = conns->first; p; p = p->conns_next)
        fl_server_conn_check(p, paused);
    sweep(conns);
    if (conns->first)
        look_later(conns);
}

static void close_conns(void *arg)
{
    fl_loop_conns *conns = arg;

    fl_loop_cancel(conns->loop, conns->timer);
    for (fl_server_conn *p = conns->first; p; p = p->conns_next)
        fl_server_conn_drop(p);
    sweep(conns);
}

/* --- to all --------------------------------------------------------------- */

/* What every connection of a loop is told. */
typedef struct telling {
    fl_loop_conns *conns;
    fl_member_role role; /* who is dismissed; 0: nobody, all get the line */
    fl_err why;
    uint8_t level;
    char *line;
} telling;

static void tell_peer(const telling *t, fl_server_conn *p)
{
    fl_member_role role = p->said.who.role;

    if (t->role && role == t->role)
        fl_server_conn_dismiss(p, &t->why);
    else if (!t->role && role != FL_MEMBER_TOOL)
        fl_server_conn_log(p, t->level, t->line);
}

static void end_telling(telling *t)
{
    fl_rpc_server_unref(t->conns->host);
    fl_free(t->line);
    fl_free(t);
}

static void tell_conns(void *arg)
{
    telling *t = arg;

    for (fl_server_conn *p = t->conns->first; p; p = p->conns_next)
        tell_peer(t, p);
    end_telling(t);
}

static void tell_all(fl_rpc_server *h, const telling *what)
{
    for (int i = 0; i < h->n_loops; i++) {
        telling *t = fl_alloc(sizeof(*t));

        *t = *what;
        atomic_fetch_add(&h->refs, 1);
        t->conns = &h->by_loop[i];
        t->line = fl_strdup(what->line ? what->line : "");
        if (!fl_rpc_server_post(h, t->conns->loop, tell_conns, t))
            end_telling(t);
    }
}

void fl_rpc_server_log(fl_rpc_server *h, uint8_t level, const char *line)
{
    telling t = { .level = level, .line = (char *)(uintptr_t)line };

    tell_all(h, &t);
}

void fl_rpc_server_dismiss(fl_rpc_server *h, fl_member_role role, fl_status why)
{
    telling t = { .role = role };

    fl_err_save(&t.why, why);
    tell_all(h, &t);
}

/* --- accepting ------------------------------------------------------------ */

static fl_loop_conns *conns_of(fl_rpc_server *h, const fl_loop *loop)
{
    for (int i = 0; i < h->n_loops; i++)
        if (h->by_loop[i].loop == loop)
            return &h->by_loop[i];
    fl_die(__FILE__, __LINE__, "a stream of a loop that is not the host's");
}

static void close_stream(void *arg)
{
    fl_stream *s = arg;

    s->ops->close(s);
}

/* Counts a newcomer in, if there is room or somebody gives way, whom *way is
   then a reference to. */
static bool has_room(fl_rpc_server *h, fl_server_conn **way)
{
    bool is_welcome = true;

    fl_lock(&h->mu);
    if (h->is_closed) {
        is_welcome = false;
    } else if (h->n_conns >= h->o.max_connections) {
        is_welcome = h->shaking != NULL;
        if (is_welcome) {
            *way = fl_server_conn_ref(h->shaking);
            remove_shaking(h, h->shaking);
        }
    }
    h->n_conns += is_welcome;
    fl_unlock(&h->mu);
    return is_welcome;
}

/* The loop with the fewest members, so that they share the threads. Trainers
   come once to join and once to stay, and the first connection may end late:
   only those that stay are counted. */
static fl_loop *choose_home(void *arg)
{
    fl_rpc_server *h = arg;
    int best = h->turn;

    for (int i = 1; i < h->n_loops; i++) {
        int at = (h->turn + i) % h->n_loops;

        if (atomic_load(&h->by_loop[at].n_members) <
            atomic_load(&h->by_loop[best].n_members))
            best = at;
    }
    h->turn = (best + 1) % h->n_loops;
    return h->by_loop[best].loop;
}

static void on_accept(void *arg, fl_stream *s)
{
    fl_rpc_server *h = arg;
    fl_loop_conns *conns = conns_of(h, s->loop);
    fl_server_conn *p, *way = NULL;

    if (!has_room(h, &way)) {
        fl_rpc_server_log_refused(h, s->peer, "there are too many connections");
        if (fl_loop_is_mine(s->loop))
            s->ops->close(s);
        else
            fl_loop_post(s->loop, close_stream, s);
        return;
    }
    p = fl_server_conn_new(h, conns, s);
    fl_rpc_server_add_shaking(h, p);
    fl_server_conn_in_loop(p, fl_server_conn_start);
    fl_server_conn_unref(p);
    if (way) {
        fl_server_conn_in_loop(way, fl_server_conn_give_way);
        fl_server_conn_unref(way);
    }
}

/* --- beginning and end ---------------------------------------------------- */

static fl_status check_options(const fl_rpc_server_options *o)
{
    if (!o->ping_ms || o->suspect_ms < o->ping_ms || !o->handshake_ms ||
        o->max_connections < 1)
        FL_FAIL(FL_ERR_INVAL,
                "host at %s: ping_ms (%llu), handshake_ms (%llu) and "
                "max_connections (%d) must be at least 1, and suspect_ms "
                "(%llu) at least ping_ms",
                o->listen, (unsigned long long)o->ping_ms,
                (unsigned long long)o->handshake_ms, o->max_connections,
                (unsigned long long)o->suspect_ms);
    return FL_OK;
}

static void release(fl_rpc_server *h)
{
    fl_rank_slot_free_all(h);
    for (size_t i = 0; i < h->refused_addresses.len; i++)
        fl_free(h->refused_addresses.data[i]);
    fl_vec_release(&h->refused_addresses);
    fl_map_release(&h->refused);
    fl_rpc_server_unref(h);
}

fl_status fl_rpc_server_new(fl_rpc_server **out, fl_net *net,
                            const fl_rpc_server_options *o,
                            char address[FL_ADDRESS_MAX])
{
    fl_rpc_server *h;
    fl_status st;

    FL_TRY(check_options(o));
    h = fl_alloc(sizeof(*h));
    atomic_store(&h->refs, 1);
    h->net = net;
    h->o = *o;
    fl_auth_look_token(o->token, h->look_token);
    h->e = *o->events;
    fl_mutex_init(&h->mu);
    h->n_loops = o->n_loops;
    h->by_loop = fl_alloc((size_t)o->n_loops * sizeof(*h->by_loop));
    for (int i = 0; i < o->n_loops; i++)
        h->by_loop[i] = (fl_loop_conns){ .host = h, .loop = o->loops[i] };
    fl_rpc_server_set_marks(h, o->marks, o->n_marks);
    h->o.marks = NULL;
    st = net->ops->listen(
        net,
        &(fl_listen_args){ o->listen, o->loops[0], choose_home, on_accept, h },
        &h->listener, address);
    if (st) {
        release(h);
        return st;
    }
    *out = h;
    return FL_OK;
}

void fl_rpc_server_free(fl_rpc_server *h)
{
    if (!h)
        return;
    fl_lock(&h->mu);
    h->is_closed = true;
    fl_unlock(&h->mu);
    h->net->ops->unlisten(h->listener);
    for (int i = 0; i < h->n_loops; i++)
        fl_loop_call(h->by_loop[i].loop, close_conns, &h->by_loop[i]);
    release(h);
}
