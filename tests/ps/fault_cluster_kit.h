/* fault_cluster_kit.h - the pushes of cut_kit.h in a simulation, whose connections are
 * cut and whose dials are refused by chance.
 */
#ifndef FL_TESTS_PS_FAULT_CLUSTER_KIT_H
#define FL_TESTS_PS_FAULT_CLUSTER_KIT_H

#include "cut_kit.h"

#include "dist/job_programs.h"
#include "ops/ops.h"
#include "ps/client/client.h"
#include "ps/server/server.h"
#include "ps/sum.h"
#include "rpc/sim/sim.h"

/* A table, and blocks. */
#define TOWN_HASHES (1 + 2 * CUT_TRAINERS)

/* --- the simulated job ---------------------------------------------------- */

typedef struct fault_cluster fault_cluster;

typedef struct pusher {
    fault_cluster *fault_cluster;
    int rank;
    fl_client *client;
    uint64_t n_begun, n_open, n_pushes;
    bool is_idle; /* all is done that it was asked for */
    fl_status st;
    char text[FL_ERR_TEXT_MAX];
    char block[16];
    struct slot {
        struct pusher *pusher;
        cut_push push;
        bool is_used;
    } slots[CUT_WINDOW];
} pusher;

struct fault_cluster {
    fl_sim *sim;
    fl_ctx *ctx;
    fl_server *servers[CUT_SERVERS];
    pusher pushers[CUT_TRAINERS];
    uint64_t hash;
};

static inline const char *const *fault_cluster_names(void)
{
    static const char *const names[CUT_SERVERS] = { "server0:1", "server1:1" };

    return names;
}

static inline void fault_cluster_serve(fault_cluster *t)
{
    for (int i = 0; i < CUT_SERVERS; i++) {
        fl_server_options o = {
            .servers = fault_cluster_names(),
            .n_servers = CUT_SERVERS,
            .n_trainers = CUT_TRAINERS,
            .rank = i,
            .job = "cuts",
            .token = "token",
            .connect_timeout_ms = 60000,
            .restart_timeout_ms = 60000,
            .ping_ms = 500,
            .suspect_ms = 2000,
            .max_message_bytes = 1 << 20,
            .max_connections = 100,
            .ops = &fl_ops,
            .conf = &t->ctx->conf,
        };

        assert_ok(fl_server_new(&t->servers[i], fl_sim_net(t->sim),
                                fl_sim_loop(t->sim), &o));
    }
}

static inline void fault_cluster_connect(fault_cluster *t, int rank)
{
    pusher *p = &t->pushers[rank];
    fl_client_options o = {
        .servers = fault_cluster_names(),
        .n_servers = CUT_SERVERS,
        .n_trainers = CUT_TRAINERS,
        .rank = rank,
        .job = "cuts",
        .token = "token",
        .connect_timeout_ms = 60000,
        .restart_timeout_ms = 60000,
        .ping_ms = 500,
        .suspect_ms = 2000,
        .max_message_bytes = 1 << 20,
    };

    *p = (pusher){ .fault_cluster = t, .rank = rank };
    (void)snprintf(p->block, sizeof(p->block), "own%d", rank);
    assert_ok(
        fl_client_new(&p->client, fl_sim_net(t->sim), fl_sim_loop(t->sim), &o));
}

/* Lets time pass until all of them are idle. */
static inline void fault_cluster_await(fault_cluster *t)
{
    for (int rank = 0; rank < CUT_TRAINERS; rank++) {
        pusher *p = &t->pushers[rank];

        while (!p->is_idle) {
            uint64_t before = fl_sim_now_ms(t->sim);

            /* What hangs would go on for ever with its pings. */
            if (before > UINT64_C(3600000) * 24)
                fail_msg("trainer %d waits in vain", rank);
            fl_sim_run(t->sim, before + 60000, &p->is_idle);
        }
        if (p->st)
            fail_msg("trainer %d: %s", rank, p->text);
    }
}

static inline void fault_cluster_settled(void *arg, fl_status st)
{
    pusher *p = arg;

    if (st)
        (void)snprintf(p->text, sizeof(p->text), "%s", fl_last_error());
    p->st = st;
    p->is_idle = true;
}

static inline void fault_cluster_declare(fault_cluster *t)
{
    fl_job_programs *programs = fl_job_programs_new(t->ctx, 1);
    const char *const *text;
    uint32_t number;
    char name[16];

    assert_ok(fl_job_programs_add_table(
        programs, "shared", "dim=4 init=constant(1) optimizer=sgd"));
    for (int i = 0; i < CUT_TRAINERS; i++) {
        fl_job_block block = { t->pushers[i].block, CUT_FLOATS, "adam",
                               "learning_rate=0.01" };

        (void)snprintf(name, sizeof(name), "own%d", i);
        assert_ok(fl_job_programs_add_table(
            programs, name, "dim=4 init=uniform(-1,1) optimizer=adam"));
        assert_ok(fl_job_programs_add_block(programs, 0, &block, &number));
        assert_int_equal(number, i);
    }
    assert_ok(fl_job_programs_print(programs, &text));
    for (int i = 0; i < CUT_TRAINERS; i++) {
        pusher *p = &t->pushers[i];

        p->is_idle = false;
        assert_ok(fl_client_declare(p->client, FL_ALL_SERVERS, text[0],
                                    (fl_ending){ fault_cluster_settled, p }));
    }
    fault_cluster_await(t);
    fl_job_programs_free(programs);
}

static inline void fault_cluster_init(fault_cluster *t)
{
    *t = (fault_cluster){ .sim = fl_sim_new(&(fl_sim_faults){ .seed = 1 }),
                          .ctx = make_ctx() };
    fault_cluster_serve(t);
    for (int i = 0; i < CUT_TRAINERS; i++)
        fault_cluster_connect(t, i);
    for (int i = 0; i < CUT_TRAINERS; i++)
        while (fl_client_state(t->pushers[i].client) == FL_PENDING)
            fl_sim_run(t->sim, fl_sim_now_ms(t->sim) + 100, NULL);
    for (int i = 0; i < CUT_TRAINERS; i++)
        assert_ok(fl_client_state(t->pushers[i].client));
    fault_cluster_declare(t);
}

/* --- pushing -------------------------------------------------------------- */

static inline void push_more(pusher *p);

static inline void on_pushed(void *arg, fl_status st)
{
    struct slot *s = arg;
    pusher *p = s->pusher;

    s->is_used = false;
    p->n_open--;
    if (st && !p->st)
        fault_cluster_settled(p, st);
    push_more(p);
}

static inline fl_status begin_push(pusher *p, struct slot *s)
{
    static const uint32_t dims[2] = { CUT_DIM, CUT_DIM };
    fl_client_block block = { .number = (uint32_t)p->rank,
                              .server = fl_client_server_of_block(CUT_SERVERS,
                                                                  p->block),
                              .n = CUT_FLOATS };
    uint64_t number = p->n_begun++;
    const float *dense;

    s->pusher = p;
    s->is_used = true;
    p->n_open++;
    cut_push_fill(&s->push, p->rank, number);
    dense = s->push.dense;
    return is_dense(number)
               ? fl_client_send_blocks(p->client, FL_MSG_PUSH_DENSE, &block,
                                       &dense, 1, (fl_ending){ on_pushed, s })
               : fl_client_push(p->client, s->push.items, dims, 2,
                                (fl_ending){ on_pushed, s });
}

static inline void push_more(pusher *p)
{
    for (int i = 0; i < CUT_WINDOW; i++) {
        fl_status st;

        if (p->st || p->n_begun == p->n_pushes || p->slots[i].is_used)
            continue;
        st = begin_push(p, &p->slots[i]);
        if (st)
            fault_cluster_settled(p, st);
    }
    if (!p->n_open && p->n_begun == p->n_pushes)
        p->is_idle = true;
}

static inline void fault_cluster_push(fault_cluster *t, uint64_t n_pushes)
{
    for (int i = 0; i < CUT_TRAINERS; i++) {
        pusher *p = &t->pushers[i];

        p->is_idle = false;
        p->n_pushes =
            n_pushes / CUT_TRAINERS + ((uint64_t)i < n_pushes % CUT_TRAINERS);
        push_more(p);
    }
    fault_cluster_await(t);
}

/* --- looking -------------------------------------------------------------- */

/* As fl_job_hash adds them up. */
static inline void fault_cluster_look(fault_cluster *t)
{
    pusher *p = &t->pushers[0];

    p->is_idle = false;
    assert_ok(fl_client_hash(p->client, &t->hash,
                             (fl_ending){ fault_cluster_settled, p }));
    fault_cluster_await(t);
}

/* Each request has run once, however often it was sent. */
static inline void fault_cluster_count(fault_cluster *t, uint16_t type)
{
    for (int s = 0; s < CUT_SERVERS; s++) {
        uint64_t asked = 0;

        for (int i = 0; i < CUT_TRAINERS; i++)
            asked += fl_client_requests(t->pushers[i].client, s, type);
        assert_true(
            fl_store_count(fl_server_store(t->servers[s]), type)->requests ==
            asked);
    }
}

static inline void fault_cluster_release(fault_cluster *t)
{
    for (int i = 0; i < CUT_TRAINERS; i++) {
        pusher *p = &t->pushers[i];

        p->is_idle = false;
        assert_ok(fl_client_leave(p->client,
                                  (fl_ending){ fault_cluster_settled, p }));
    }
    fault_cluster_await(t);
    for (int i = 0; i < CUT_TRAINERS; i++)
        fl_client_free(t->pushers[i].client);
    fl_sim_run(t->sim, fl_sim_now_ms(t->sim) + 10000, NULL);
    for (int i = 0; i < CUT_SERVERS; i++) {
        assert_true(fl_server_is_over(t->servers[i]));
        assert_ok(fl_server_wait(t->servers[i]));
        fl_server_free(t->servers[i]);
    }
    fl_sim_free(t->sim);
    fl_ctx_free(t->ctx);
}

typedef struct cut_plan {
    uint64_t n_pushes, cut_after_bytes, seed;
} cut_plan;

/* The contents after all pushes. */
static inline uint64_t push_in_simulation(const cut_plan *plan,
                                          uint64_t *n_cuts)
{
    fault_cluster *t = calloc(1, sizeof(*t));
    fl_sim_faults quiet = { .seed = plan->seed, .delay_hi_ms = 3 };
    fl_sim_faults faults = quiet;
    uint64_t hash;

    assert_non_null(t);
    faults.cut_after_bytes = plan->cut_after_bytes;
    faults.refuse_share = plan->cut_after_bytes ? 0.1 : 0;
    fault_cluster_init(t);
    fl_sim_set_faults(t->sim, &faults);
    fault_cluster_push(t, plan->n_pushes);
    *n_cuts = fl_sim_cuts(t->sim);
    fl_sim_set_faults(t->sim, &quiet);
    fault_cluster_look(t);
    fault_cluster_count(t, FL_MSG_PUSH);
    fault_cluster_count(t, FL_MSG_PUSH_DENSE);
    hash = t->hash;
    fault_cluster_release(t);
    free(t);
    return hash;
}

/* A push has about 700 bytes with its answers. */
#define CUT_PUSH_BYTES 700

static inline void expect_once_in_simulation(uint64_t n_pushes, uint64_t n_cuts)
{
    cut_plan quiet = { .n_pushes = n_pushes, .seed = 1 };
    uint64_t seen, hash = push_in_simulation(&quiet, &seen);

    assert_int_equal(seen, 0);
    for (uint64_t seed = 2; seed < 4; seed++) {
        cut_plan plan = {
            .n_pushes = n_pushes,
            .cut_after_bytes = n_pushes * CUT_PUSH_BYTES / (2 * n_cuts),
            .seed = seed,
        };

        assert_true(push_in_simulation(&plan, &seen) == hash);
        printf("%llu pushes, %llu connections cut\n",
               (unsigned long long)n_pushes, (unsigned long long)seen);
        assert_true(seen >= n_cuts);
    }
}

#endif
