/* client.c - a trainer's links: joining, and what people are told of servers.
 *
 *     JOIN at server 0, as incarnation 0
 *         -> an incarnation: links to all servers that carry it
 *             -> all up: requests may be made
 *
 * Handshakes carry the incarnation, and a handshake is what a server knows a
 * process by. So the link that joined is not used any further; it is kept until
 * server 0 has seen the incarnation, lest a process that ends in between leaves
 * no trace. A tool does not join: it dials all servers at once, under a rank by
 * chance that keeps it apart from other tools.
 */
#include "ps/client/client.h"

#include <inttypes.h>
#include <string.h>
#include <unistd.h>

#include "base/hash.h"
#include "base/log.h"
#include "ps/client/client_inside.h"

#define WINDOW 16
#define SEND_WINDOW_BYTES (UINT64_C(16) << 20)

/* A wait for servers is told after the first and then again and again. */
#define LOG_FIRST_MS 2000
#define LOG_AGAIN_MS 10000

int fl_client_server_of(int n_servers, uint64_t key)
{
    return fl_server_of(key, n_servers);
}

int fl_client_server_of_block(int n_servers, const char *name)
{
    return fl_client_server_of(n_servers, fl_hash_str(name));
}

void fl_client_set_step(fl_client *c, uint64_t step)
{
    atomic_store(&c->step, step);
}

uint64_t fl_client_requests(const fl_client *c, int server, uint16_t type)
{
    FL_ASSERT(server >= 0 && server < c->o.n_servers && type < FL_MSG_MAX);
    return atomic_load(&c->links[server].requests[type]);
}

const fl_client_stats *fl_client_stats_of(const fl_client *c)
{
    return &c->stats;
}

/* --- states --------------------------------------------------------------- */

fl_status fl_client_state(fl_client *c)
{
    fl_status st;
    fl_err why;

    fl_lock(&c->mu);
    st = c->state;
    if (st && st != FL_PENDING)
        why = c->why;
    fl_unlock(&c->mu);
    return st && st != FL_PENDING ? fl_err_restore(&why) : st;
}

/* The end of connecting, for better or worse. */
static void settle(fl_client *c, fl_status st)
{
    fl_loop_cancel(c->loop, c->timer);
    c->timer = 0;
    fl_lock(&c->mu);
    if (c->state == FL_PENDING) {
        c->state = st;
        fl_err_save(&c->why, st);
    }
    fl_cond_wake_all(&c->cond);
    fl_unlock(&c->mu);
}

const char *fl_client_peer_word(const fl_client *c)
{
    return c->o.are_workers ? "worker" : "server";
}

/* Of a worker that is away all are told by worker 0, and of that one by their own
   servers; calls fail with what became of it. */
static bool tells(const fl_client_link *k)
{
    return !k->client->o.are_workers;
}

static double seconds(uint64_t ms)
{
    return (double)ms / 1e3;
}

static void log_away(fl_client_link *k, uint64_t since_ms, const char *how)
{
    fl_client *c = k->client;
    fl_rpc_client_info info;

    fl_rpc_client_get(k->link, &info);
    if (!k->is_away)
        k->away_ms = fl_loop_now_ms(c->loop) - since_ms;
    k->is_away = true;
    if (!tells(k))
        return;
    FL_WARN("ps",
            "%s %d (%s) %s, last step %" PRIu64
            "; waiting up to %.1f s for its return",
            fl_client_peer_word(c), k->server, info.address, how,
            info.peer_step, seconds(c->o.restart_timeout_ms));
}

static void log_silent(fl_client_link *k, uint64_t since_ms)
{
    fl_str how = { 0 };

    fl_str_addf(&how, "is silent since %.1f s", seconds(since_ms));
    log_away(k, since_ms, fl_str_text(&how));
    fl_str_release(&how);
}

static void log_down(fl_client_link *k, uint64_t since_ms)
{
    fl_str how = { 0 };

    fl_str_addf(&how, "is down (%s)", fl_last_error());
    log_away(k, since_ms, fl_str_text(&how));
    fl_str_release(&how);
}

static void came_up(fl_client_link *k)
{
    fl_client *c = k->client;

    if (k->is_away && tells(k))
        FL_WARN("ps", "%s %d (%s) is back after %.1f s", fl_client_peer_word(c),
                k->server, c->servers[k->server],
                seconds(fl_loop_now_ms(c->loop) - k->away_ms));
    k->is_away = false;
    if (k->was_up)
        return;
    k->was_up = true;
    if (k->server == 0) {
        fl_rpc_client_free(c->joiner);
        c->joiner = NULL;
    }
    if (++c->n_up == c->o.n_servers)
        settle(c, FL_OK);
}

static void tell_lost(const fl_client_link *k)
{
    const fl_client_options *o = &k->client->o;

    if (tells(k))
        FL_WARN("ps", "%s", fl_last_error());
    settle(k->client, fl_rpc_client_why(k->link));
    if (o->on_lost)
        o->on_lost(o->arg, fl_rpc_client_why(k->link));
}

static void on_state(void *arg, fl_rpc_client *l, fl_rpc_client_state state,
                     uint64_t since_ms)
{
    fl_client_link *k = arg;

    (void)l;
    if (atomic_load(&k->client->is_leaving))
        return;
    switch (state) {
    case FL_RPC_CLIENT_UP:
        came_up(k);
        break;
    case FL_RPC_CLIENT_SILENT:
        log_silent(k, since_ms);
        break;
    case FL_RPC_CLIENT_DOWN:
        log_down(k, since_ms);
        break;
    case FL_RPC_CLIENT_FAILED:
        tell_lost(k);
        break;
    case FL_RPC_CLIENT_DIALLING:
        break;
    }
}

/* Worker 0 is server 0 as well, and has said it itself. */
static bool is_own(const fl_client_link *k)
{
    const fl_client_options *o = &k->client->o;

    return o->are_workers && o->rank == k->server;
}

/* What server 0 knows of the others is worth knowing here, too. */
static void on_log(void *arg, fl_rpc_client *l, uint8_t level, const char *line)
{
    const fl_client_link *k = arg;

    (void)l;
    if (!atomic_load(&k->client->is_leaving) && !is_own(k))
        fl_log(level < FL_LOG_WARN ? FL_LOG_INFO : FL_LOG_WARN, "ps",
               "%s 0 says: %s", fl_client_peer_word(k->client), line);
}

/* --- connecting ----------------------------------------------------------- */

/* The link that joins, as incarnation 0, tells nothing. */
static fl_status make_link(fl_client *c, int server, uint32_t incarnation,
                           fl_rpc_client **out)
{
    bool tells = incarnation || c->o.is_tool;
    fl_rpc_client_options o = {
        .me = { .role = c->o.is_tool ? FL_MEMBER_TOOL : FL_MEMBER_TRAINER,
                .rank = c->o.is_tool ? (uint32_t)fl_auth_random64()
                                     : (uint32_t)c->o.rank,
                .incarnation = incarnation,
                .process = (uint32_t)getpid() },
        .peer_role = FL_MEMBER_SERVER,
        .peer_rank = (uint32_t)server,
        .peer_name = fl_client_peer_word(c),
        .token = c->token,
        .conn = { .max_bytes = c->o.max_message_bytes,
                  .window_bytes = SEND_WINDOW_BYTES,
                  .arena_bytes = c->o.arena_bytes,
                  .names = fl_msg_find_name },
        .window = c->o.window ? c->o.window : WINDOW,
        .ping_ms = c->o.ping_ms,
        .suspect_ms = c->o.suspect_ms,
        .connect_timeout_ms = c->o.connect_timeout_ms,
        .restart_timeout_ms = c->o.restart_timeout_ms,
        .no_return = c->o.are_workers,
        .on_state = tells ? on_state : NULL,
        .on_log = tells ? on_log : NULL,
        .arg = &c->links[server],
    };

    memcpy(o.me.job, c->job, strlen(c->job) + 1);
    return fl_rpc_client_new(out, c->loop, c->net, c->servers[server], &o);
}

static fl_status make_links(fl_client *c, uint32_t incarnation)
{
    for (int i = 0; i < c->o.n_servers; i++)
        FL_TRY(make_link(c, i, incarnation, &c->links[i].link));
    return FL_OK;
}

/* "trainer 3", or "worker 3". */
static void add_self(const fl_client *c, fl_str *out)
{
    if (c->o.is_tool)
        fl_str_add(out, "this tool");
    else
        fl_str_addf(out, "%s %d", c->o.are_workers ? "worker" : "trainer",
                    c->o.rank);
}

static fl_status read_joined(const fl_payload *payload, uint32_t *incarnation)
{
    fl_msg_bytes bytes = { 0 };
    fl_join_reply r;

    if (payload)
        bytes =
            (fl_msg_bytes){ fl_payload_data(payload), fl_payload_len(payload) };
    if (fl_msg_read_reply(FL_MSG_JOIN, bytes, &r) || !r.incarnation)
        FL_FAIL(FL_ERR_CORRUPT, "its answer to a JOIN is no incarnation");
    *incarnation = r.incarnation;
    return FL_OK;
}

static void on_joined(void *arg, fl_status st, const fl_frame *f,
                      fl_payload *payload)
{
    fl_client *c = arg;
    uint32_t incarnation = 0;

    (void)f;
    if (!st) {
        st = read_joined(payload, &incarnation);
        fl_payload_free(payload);
    }
    if (!fl_rpc_client_why(c->joiner))
        st = fl_err_ctx(st, "%s 0", fl_client_peer_word(c));
    if (!st)
        st = make_links(c, incarnation);
    if (st)
        settle(c, st);
}

static void log_missing(void *arg)
{
    fl_client *c = arg;
    fl_str self = { 0 }, who = { 0 };

    add_self(c, &self);
    for (int i = 0; i < c->o.n_servers; i++)
        if (!c->links[i].was_up && (i == 0 || c->links[i].link))
            fl_str_addf(&who, "%s%s %d (%s)", who.len ? ", " : "",
                        fl_client_peer_word(c), i, c->servers[i]);
    FL_WARN("ps", "%s waits for %s since %.0f s, up to %.0f s in all",
            fl_str_text(&self), fl_str_text(&who),
            seconds(fl_loop_now_ms(c->loop) - c->start_ms),
            seconds(c->o.connect_timeout_ms));
    fl_str_release(&who);
    fl_str_release(&self);
    c->timer = fl_loop_timer(c->loop, LOG_AGAIN_MS, log_missing, c);
}

static fl_status join(fl_client *c)
{
    fl_rpc_call call = { .type = FL_MSG_JOIN, .on_reply = on_joined, .arg = c };

    FL_TRY(make_link(c, 0, 0, &c->joiner));
    fl_rpc_client_call(c->joiner, &call);
    return FL_OK;
}

static void start(void *arg)
{
    fl_client *c = arg;
    fl_status st;

    c->start_ms = fl_loop_now_ms(c->loop);
    c->timer = fl_loop_timer(c->loop, LOG_FIRST_MS, log_missing, c);
    st = c->o.is_tool ? make_links(c, 0) : join(c);
    if (st)
        settle(c, st);
}

/* --- life ----------------------------------------------------------------- */

static fl_status check_options(const fl_client_options *o)
{
    if (o->n_servers < 1 || o->n_servers > FL_SHARDS)
        FL_FAIL(FL_ERR_INVAL, "a job has from 1 to %d servers, not %d",
                FL_SHARDS, o->n_servers);
    if (!o->is_tool && (o->rank < 0 || o->rank >= o->n_trainers))
        FL_FAIL(FL_ERR_INVAL,
                "trainer %d: the job has %d trainers, with ranks from 0 on",
                o->rank, o->n_trainers);
    if (strlen(o->job) >= FL_JOB_MAX)
        FL_FAIL(FL_ERR_INVAL, "job %s: a name has at most %d characters",
                o->job, FL_JOB_MAX - 1);
    return FL_OK;
}

static fl_client *make(fl_net *net, fl_loop *loop, const fl_client_options *o)
{
    fl_client *c = fl_alloc(sizeof(*c));

    c->o = *o;
    c->net = net;
    c->loop = loop;
    c->state = FL_PENDING;
    c->job = fl_strdup(o->job);
    c->token = fl_strdup(o->token ? o->token : "");
    c->servers = fl_alloc((size_t)o->n_servers * sizeof(*c->servers));
    c->links = fl_alloc((size_t)o->n_servers * sizeof(*c->links));
    for (int i = 0; i < o->n_servers; i++) {
        c->servers[i] = fl_strdup(o->servers[i]);
        c->links[i].client = c;
        c->links[i].server = i;
    }
    fl_mutex_init(&c->coalesce_mu);
    fl_mutex_init(&c->mu);
    fl_cond_init(&c->cond);
    return c;
}

/* Without the loop. */
static void destroy(fl_client *c)
{
    fl_request *next;

    for (fl_request *r = c->spare; r; r = next) {
        next = r->next;
        fl_request_destroy(r);
    }
    for (int i = 0; i < c->o.n_servers; i++)
        fl_free(c->servers[i]);
    fl_free(c->servers);
    fl_free(c->links);
    fl_free(c->job);
    fl_free(c->token);
    fl_cond_release(&c->cond);
    fl_mutex_release(&c->mu);
    fl_mutex_release(&c->coalesce_mu);
    fl_free(c);
}

static void close_links(void *arg)
{
    fl_client *c = arg;

    (void)fl_err_set(FL_ERR_CLOSED, "the connection to the job was closed");
    settle(c, FL_ERR_CLOSED);
    for (int i = 0; i < c->o.n_servers; i++)
        fl_rpc_client_free(c->links[i].link);
    fl_rpc_client_free(c->joiner);
}

static void give_up_links(void *arg)
{
    fl_client *c = arg;

    settle(c, fl_interrupted("connecting to the job"));
    for (int i = 0; i < c->o.n_servers; i++)
        if (c->links[i].link)
            fl_rpc_client_give_up(c->links[i].link);
    if (c->joiner)
        fl_rpc_client_give_up(c->joiner);
}

/* By the thread that interrupts. */
static void interrupt(void *arg)
{
    fl_client *c = arg;

    fl_loop_post(c->loop, give_up_links, c);
}

void fl_client_free(fl_client *c)
{
    if (!c)
        return;
    if (c->has_loop) {
        fl_interruptible_leave(&c->interruptible);
        fl_loop_post(c->loop, close_links, c);
        fl_loop_free(c->loop);
    } else {
        close_links(c);
    }
    destroy(c);
}

fl_poller *fl_client_poller(fl_client *c)
{
    return fl_loop_poller(c->loop);
}

static fl_status wait_for_servers(fl_client *c)
{
    fl_lock(&c->mu);
    while (c->state == FL_PENDING)
        fl_cond_wait(&c->cond, &c->mu);
    fl_unlock(&c->mu);
    return fl_client_state(c);
}

fl_status fl_client_new(fl_client **out, fl_net *net, fl_loop *loop,
                        const fl_client_options *o)
{
    fl_client *c;
    fl_status st;

    FL_TRY(check_options(o));
    c = make(net, loop, o);
    if (loop) {
        start(c);
        *out = c;
        return FL_OK;
    }
    st = fl_loop_new(&c->loop, "ps client");
    if (st) {
        destroy(c);
        return st;
    }
    c->has_loop = true;
    c->interruptible = (fl_interruptible){ .kind = FL_INTERRUPT_NOW,
                                           .stop = interrupt,
                                           .arg = c };
    fl_loop_post(c->loop, start, c);
    fl_interruptible_enter(&c->interruptible);
    st = wait_for_servers(c);
    if (st) {
        fl_err why;

        fl_err_save(&why, st);
        fl_client_free(c);
        return fl_err_restore(&why);
    }
    *out = c;
    return FL_OK;
}
