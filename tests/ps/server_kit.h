/* server_kit.h - a job of servers and trainers, in a simulation or over real
 * sockets. Trainers are bare links: what they send is under a test's control.
 */
#ifndef FL_TESTS_PS_SERVER_KIT_H
#define FL_TESTS_PS_SERVER_KIT_H

#include "../rpc/loop_kit.h"
#include "../server_text.h"

#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/hash.h"
#include "base/log.h"
#include "ops/ops.h"
#include "pack_kit.h"
#include "ps/msg/calls.h"
#include "ps/server/server.h"
#include "rpc/client/rpc_client.h"
#include "rpc/wire/handshake.h"
#include "rpc/sim/sim.h"

#define KIT_SERVERS 3
#define KIT_DIM 2
#define KIT_PATIENCE_MS 60000 /* of the simulated clock */

#define KIT_TABLE                                                              \
    TABLE_TEXT("emb", "dim=2 init=constant(1) optimizer=sgd") SERVE_TEXT("")

typedef struct sim_cluster {
    fl_sim *sim; /* NULL: real sockets */
    fl_net *net;
    fl_loop *loop; /* where the trainers' links are */
    fl_conf conf;
    fl_server_options o;
    char names[KIT_SERVERS][FL_ADDRESS_MAX];
    fl_server *servers[KIT_SERVERS];
    fl_mutex mu;
    fl_str log; /* what was said; guarded by mu */
} sim_cluster;

/* --- what was said -------------------------------------------------------- */

static inline void kit_listen(void *arg, fl_log_level level, const char *area,
                              const char *text)
{
    sim_cluster *c = arg;

    (void)level;
    fl_lock(&c->mu);
    fl_str_addf(&c->log, "%s: %s\n", area, text);
    fl_unlock(&c->mu);
}

static inline bool has_said(sim_cluster *c, const char *words)
{
    bool has;

    fl_lock(&c->mu);
    has = strstr(fl_str_text(&c->log), words) != NULL;
    fl_unlock(&c->mu);
    return has;
}

static inline void forget_said(sim_cluster *c)
{
    fl_lock(&c->mu);
    fl_str_release(&c->log);
    fl_unlock(&c->mu);
}

#define assert_said(c, words)                                                  \
    do {                                                                       \
        if (!has_said(c, words))                                               \
            fail_msg("'%s' is not in:\n%s", words, fl_str_text(&(c)->log));    \
    } while (0)

#define assert_text(text, said)                                                \
    do {                                                                       \
        if (!strstr(text, said))                                               \
            fail_msg("'%s' does not say '%s'", text, said);                    \
    } while (0)

/* --- servers -------------------------------------------------------------- */

static inline void sim_cluster_init(sim_cluster *c, int n_servers,
                                    int n_trainers)
{
    fl_log_set(kit_listen, c, FL_LOG_INFO);
    fl_mutex_init(&c->mu);
    assert_ok(fl_conf_init(&c->conf));
    c->o = (fl_server_options){
        .n_servers = n_servers,
        .n_trainers = n_trainers,
        .job = "job",
        .token = "token",
        .n_loops = 2,
        .connect_timeout_ms = 5000,
        .restart_timeout_ms = 4000,
        .ping_ms = 500,
        .suspect_ms = 2000,
        .max_message_bytes = 1 << 20,
        .max_connections = 2000,
        .ops = &fl_ops,
        .conf = &c->conf,
    };
}

static inline void sim_cluster_simulate(sim_cluster *c, const fl_sim_faults *f,
                                        int n_servers, int n_trainers)
{
    *c = (sim_cluster){ .sim = fl_sim_new(f) };
    c->net = fl_sim_net(c->sim);
    c->loop = fl_sim_loop(c->sim);
    for (int i = 0; i < KIT_SERVERS; i++)
        (void)snprintf(c->names[i], sizeof(c->names[i]), "server%d:1", i);
    sim_cluster_init(c, n_servers, n_trainers);
}

static inline fl_status try_serve(sim_cluster *c, int rank, fl_server **out)
{
    const char *names[KIT_SERVERS];
    fl_server_options o = c->o;

    for (int i = 0; i < KIT_SERVERS; i++)
        names[i] = c->names[i];
    o.servers = names;
    o.rank = rank;
    return fl_server_new(out, c->net, c->sim ? c->loop : NULL, &o);
}

static inline void serve(sim_cluster *c, int rank)
{
    assert_ok(try_serve(c, rank, &c->servers[rank]));
    (void)snprintf(c->names[rank], sizeof(c->names[rank]), "%s",
                   fl_server_address(c->servers[rank]));
}

static inline void serve_all(sim_cluster *c)
{
    for (int i = 0; i < c->o.n_servers; i++)
        serve(c, i);
}

static inline void close_server(sim_cluster *c, int rank)
{
    fl_server_free(c->servers[rank]);
    c->servers[rank] = NULL;
}

/* Lets time pass in a simulation. */
static inline void run(sim_cluster *c, uint64_t ms)
{
    fl_sim_run(c->sim, fl_sim_now_ms(c->sim) + ms, NULL);
}

/* All servers that are left have come to their end, with this result. */
static inline void expect_over(sim_cluster *c, fl_status st, const char *words)
{
    for (int i = 0; i < KIT_SERVERS; i++) {
        if (!c->servers[i])
            continue;
        if (c->sim && !fl_server_is_over(c->servers[i]))
            fail_msg("server %d is not over", i);
        assert_int_equal(fl_server_wait(c->servers[i]), st);
        if (st)
            assert_text(fl_last_error(), words);
    }
}

static inline void sim_cluster_release(sim_cluster *c)
{
    for (int i = 0; i < KIT_SERVERS; i++)
        close_server(c, i);
    fl_sim_free(c->sim);
    fl_log_set(NULL, NULL, FL_LOG_INFO);
    fl_str_release(&c->log);
    fl_mutex_release(&c->mu);
    fl_conf_release(&c->conf);
}

/* --- questions ------------------------------------------------------------ */

typedef struct answer {
    gate done;
    bool is_done;
    fl_pack sent;
    struct iovec piece;
    fl_status st;
    char text[FL_ERR_TEXT_MAX]; /* of an error */
    uint8_t *bytes;
    size_t len;
} answer;

static inline void on_answer(void *arg, fl_status st, const fl_frame *f,
                             fl_payload *payload)
{
    answer *a = arg;

    (void)f;
    a->st = st;
    if (st)
        (void)snprintf(a->text, sizeof(a->text), "%s", fl_last_error());
    if (payload) {
        a->len = (size_t)fl_payload_len(payload);
        a->bytes = fl_alloc(a->len);
        memcpy(a->bytes, fl_payload_data(payload), a->len);
    }
    fl_payload_free(payload);
    a->is_done = true;
    gate_add(&a->done);
}

typedef enum times { REPEATED, ONCE } times;

/* Takes over what was packed; NULL for an empty payload. */
static inline void send_to(fl_rpc_client *l, uint16_t type, times once,
                           fl_pack *p, answer *a)
{
    *a = (answer){ 0 };
    gate_init(&a->done);
    if (p) {
        a->sent = *p;
        *p = (fl_pack){ 0 };
    }
    a->piece = (struct iovec){ a->sent.data, a->sent.len };
    fl_rpc_client_call(l, &(fl_rpc_call){ .type = (uint16_t)type,
                                          .once = once == ONCE,
                                          .pieces = &a->piece,
                                          .n_pieces = 1,
                                          .on_reply = on_answer,
                                          .arg = a });
}

static inline void await(sim_cluster *c, answer *a)
{
    if (!c->sim)
        gate_wait(&a->done, 1);
    else if (!a->is_done)
        fl_sim_run(c->sim, fl_sim_now_ms(c->sim) + KIT_PATIENCE_MS,
                   &a->is_done);
    if (!a->is_done)
        fail_msg("there is no answer");
}

static inline void answer_release(answer *a)
{
    gate_release(&a->done);
    fl_pack_release(&a->sent);
    fl_free(a->bytes);
}

static inline void ask(sim_cluster *c, fl_rpc_client *l, uint16_t type,
                       times once, fl_pack *p, answer *a)
{
    send_to(l, type, once, p, a);
    await(c, a);
}

/* The answer is good, and of no further interest. */
static inline void ask_ok(sim_cluster *c, fl_rpc_client *l, uint16_t type,
                          times once, fl_pack *p)
{
    answer a;

    ask(c, l, type, once, p, &a);
    if (a.st)
        fail_msg("%s", a.text);
    answer_release(&a);
}

static inline void ask_bad(sim_cluster *c, fl_rpc_client *l, uint16_t type,
                           times once, fl_pack *p, const char *words)
{
    answer a;

    ask(c, l, type, once, p, &a);
    assert_true(a.st != FL_OK);
    assert_text(a.text, words);
    answer_release(&a);
}

static inline void expect_answer(sim_cluster *c, answer *a, fl_status st,
                                 const char *words)
{
    await(c, a);
    assert_int_equal(a->st, st);
    if (st)
        assert_text(a->text, words);
    answer_release(a);
}

/* --- links ---------------------------------------------------------------- */

static inline fl_rpc_client *open_link(sim_cluster *c, int server,
                                       const fl_identity *me)
{
    fl_rpc_client_options o = {
        .me = *me,
        .peer_role = FL_MEMBER_SERVER,
        .peer_rank = (uint32_t)server,
        .token = "token",
        .conn = { .max_bytes = 1 << 24,
                  .window_bytes = 1 << 20,
                  .names = fl_msg_find_name,
                  .arena_bytes = c->o.arena_bytes },
        .window = 16,
        .ping_ms = c->o.ping_ms,
        .suspect_ms = c->o.suspect_ms,
        .connect_timeout_ms = c->o.connect_timeout_ms,
        .restart_timeout_ms = c->o.restart_timeout_ms,
    };
    fl_rpc_client *l;

    (void)snprintf(o.me.job, sizeof(o.me.job), "job");
    assert_ok(fl_rpc_client_new(&l, c->loop, c->net, c->names[server], &o));
    return l;
}

static inline void free_link(void *link)
{
    fl_rpc_client_free(link);
}

static inline void close_link(sim_cluster *c, fl_rpc_client *l)
{
    if (!l)
        return;
    if (c->sim)
        fl_rpc_client_free(l);
    else
        in_loop(c->loop, free_link, l);
}

static inline fl_rpc_client *open_tool(sim_cluster *c, int server)
{
    return open_link(c, server,
                     &(fl_identity){ .role = FL_MEMBER_TOOL, .rank = 4711 });
}

/* --- trainers ------------------------------------------------------------- */

typedef struct trainer {
    fl_identity me;
    fl_rpc_client *joiner; /* until its incarnation is known */
    fl_rpc_client *links[KIT_SERVERS];
} trainer;

/* Asks for an incarnation. */
static inline void trainer_ask(sim_cluster *c, trainer *t, uint32_t rank,
                               uint32_t process, answer *a)
{
    *t = (trainer){
        .me = { .role = FL_MEMBER_TRAINER, .rank = rank, .process = process }
    };
    t->joiner = open_link(c, 0, &t->me);
    send_to(t->joiner, FL_MSG_JOIN, REPEATED, NULL, a);
}

static inline void trainer_take(sim_cluster *c, trainer *t, answer *a)
{
    fl_unpack u;

    await(c, a);
    if (a->st)
        fail_msg("%s", a->text);
    u = (fl_unpack){ .at = a->bytes, .end = a->bytes + a->len };
    t->me.incarnation = fl_unpack_u32(&u);
    assert_false(u.bad);
    answer_release(a);
}

static inline void trainer_join(sim_cluster *c, trainer *t, uint32_t rank,
                                uint32_t process)
{
    answer a;

    trainer_ask(c, t, rank, process, &a);
    trainer_take(c, t, &a);
    for (int i = 0; i < c->o.n_servers; i++)
        t->links[i] = open_link(c, i, &t->me);
    ask_ok(c, t->links[0], FL_MSG_STATUS, REPEATED, NULL);
    close_link(c, t->joiner);
    t->joiner = NULL;
}

/* As a process that is killed. */
static inline void trainer_die(sim_cluster *c, trainer *t)
{
    close_link(c, t->joiner);
    t->joiner = NULL;
    for (int i = 0; i < KIT_SERVERS; i++) {
        close_link(c, t->links[i]);
        t->links[i] = NULL;
    }
}

static inline void trainer_leave(sim_cluster *c, trainer *t)
{
    ask_ok(c, t->links[0], FL_MSG_LEAVE, REPEATED, NULL);
    trainer_die(c, t);
}

static inline fl_pack pack_share(const char *name, uint64_t generation,
                                 uint64_t share)
{
    fl_pack p = { 0 };

    fl_pack_text(&p, name);
    fl_pack_u64(&p, generation);
    fl_pack_u64(&p, share);
    fl_pack_u32(&p, !strcmp(name, "round") ? FL_BARRIER_ROUND
                    : !strcmp(name, "end") ? FL_BARRIER_END
                                           : FL_BARRIER_PLAIN);
    return p;
}

static inline fl_pack pack_barrier(const char *name, uint64_t generation)
{
    return pack_share(name, generation, 0);
}

static inline void send_barrier(trainer *t, const char *name,
                                uint64_t generation, answer *a)
{
    fl_pack p = pack_barrier(name, generation);

    send_to(t->links[0], FL_MSG_BARRIER, REPEATED, &p, a);
}

static inline fl_pack pack_text(const char *text)
{
    fl_pack p = { 0 };

    fl_pack_bytes(&p, text, strlen(text));
    return p;
}

static inline void declare(sim_cluster *c, trainer *t, const char *text)
{
    for (int i = 0; i < c->o.n_servers; i++) {
        fl_pack p = pack_text(text);

        ask_ok(c, t->links[i], FL_MSG_DECLARE, REPEATED, &p);
    }
}

/* Keys of a server's own; gradients are eighths, so that sums are exact in
   any order. */
static inline fl_pack pack_push(uint64_t first_key, uint64_t n, uint32_t dice)
{
    fl_rows_item it = { .rows.n = n, .rows.lr = 0.5 };
    fl_pack p = { 0 };

    pack_rows_head(&p, FL_MSG_PUSH, &it, 1);
    for (uint64_t i = 0; i < n; i++)
        fl_pack_u64(&p, first_key + i);
    for (uint64_t i = 0; i < n * KIT_DIM; i++) {
        float g = (float)(fl_mix64(((uint64_t)dice << 32) + i) % 8) / 8;

        fl_pack_bytes(&p, &g, sizeof(g));
    }
    return p;
}

static inline fl_pack pack_pull(uint64_t first_key, uint64_t n)
{
    fl_rows_item it = { .flags = FL_PULL_CREATE, .rows.n = n };
    fl_pack p = { 0 };

    pack_rows_head(&p, FL_MSG_PULL, &it, 1);
    for (uint64_t i = 0; i < n; i++)
        fl_pack_u64(&p, first_key + i);
    return p;
}

/* The sum of a table's rows, as a tool sees it. */
static inline uint64_t hash_of(sim_cluster *c, int server)
{
    fl_rpc_client *l = open_tool(c, server);
    uint64_t h = 0;
    answer a;

    ask(c, l, FL_MSG_HASH, REPEATED, NULL, &a);
    if (a.st)
        fail_msg("%s", a.text);
    assert_int_equal(a.len, sizeof(h));
    memcpy(&h, a.bytes, sizeof(h));
    answer_release(&a);
    close_link(c, l);
    return h;
}

#endif
