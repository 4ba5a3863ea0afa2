/* test_sim.c - sixteen ranks in a simulated network: each serves the parts of
 * the others and has a way to each of them, as the workers of a job do. */
#include "coll_kit.h"

#include "rpc/client/rpc_client.h"
#include "rpc/server/rpc_server.h"
#include "rpc/sim/sim.h"

#define TYPE_PART 20
#define LARGE 160000

typedef struct net net;

typedef struct node {
    net *w;
    int rank;
    fl_coll *c;
    fl_rpc_server *server;
    fl_rpc_client *ways[KIT_RANKS];
    char address[FL_ADDRESS_MAX];
    int n_done;
    fl_status st;
    char text[FL_ERR_TEXT_MAX];
} node;

struct net {
    fl_sim *sim;
    fl_loop *loop;
    int n;
    node nodes[KIT_RANKS];
};

static float in[KIT_RANKS][LARGE], out[KIT_RANKS][LARGE];

static const char *name_of(uint16_t type)
{
    return type == TYPE_PART ? "part" : NULL;
}

/* --- the way ------------------------------------------------------------------ */

typedef struct letter {
    fl_coll_out o;
    struct iovec v[2];
} letter;

static void on_reply(void *arg, fl_status st, const fl_frame *f,
                     fl_payload *payload)
{
    letter *l = arg;
    fl_coll_out o = l->o;

    (void)f;
    fl_payload_free(payload);
    fl_free(l);
    o.ended(o.arg, st);
}

static fl_status send_part(void *arg, const fl_coll_out *o)
{
    node *d = arg;
    letter *l = fl_alloc(sizeof(*l));

    l->o = *o;
    l->v[0] = (struct iovec){ (void *)(uintptr_t)o->head, o->head_bytes };
    l->v[1] = (struct iovec){ (void *)(uintptr_t)o->bytes, o->n };
    fl_rpc_client_call(d->ways[o->to], &(fl_rpc_call){ .type = TYPE_PART,
                                                       .once = true,
                                                       .pieces = l->v,
                                                       .n_pieces = o->n ? 2 : 1,
                                                       .on_reply = on_reply,
                                                       .arg = l });
    return FL_OK;
}

static void answer(void *arg, fl_status st)
{
    (void)st;
    fl_reply_send(arg, NULL, 0);
}

static void on_request(void *arg, fl_session *s, const fl_frame *f,
                       fl_payload *payload, fl_reply *r)
{
    node *d = arg;

    (void)f;
    fl_coll_on_part(d->c, (int)fl_session_who(s)->rank,
                    fl_payload_data(payload), fl_payload_len(payload),
                    (fl_coll_receipt){ answer, r });
    fl_payload_free(payload);
}

/* --- life --------------------------------------------------------------------- */

static const fl_conn_options conn_options = { .max_bytes = 1 << 24,
                                              .window_bytes = 1 << 20,
                                              .names = name_of };

static void open_node(net *w, int rank)
{
    static const fl_rpc_server_events events = { .on_request = on_request };
    node *d = &w->nodes[rank];
    char listen[32];
    fl_rpc_server_options o = {
        .listen = listen,
        .loops = &w->loop,
        .n_loops = 1,
        .events = &events,
        .arg = d,
        .me = { .role = FL_MEMBER_SERVER,
                .rank = (uint32_t)rank,
                .boot_id = 7,
                .job = "job" },
        .token = "token",
        .conn = conn_options,
        .ping_ms = 500,
        .suspect_ms = 2000,
        .handshake_ms = 5000,
        .max_connections = 100,
    };
    fl_coll_options c = {
        .rank = rank, .n_ranks = w->n, .machine = "", .link = { send_part, d }
    };

    d->w = w;
    d->rank = rank;
    (void)snprintf(listen, sizeof(listen), "worker%d:1", rank);
    assert_ok(
        fl_rpc_server_new(&d->server, fl_sim_net(w->sim), &o, d->address));
    assert_ok(fl_coll_new(&d->c, &c));
}

static void dial_all(net *w, int rank)
{
    node *d = &w->nodes[rank];

    for (int i = 0; i < w->n; i++) {
        fl_rpc_client_options o = {
            .me = { .role = FL_MEMBER_TRAINER,
                    .rank = (uint32_t)rank,
                    .incarnation = 1,
                    .job = "job" },
            .peer_role = FL_MEMBER_SERVER,
            .peer_rank = (uint32_t)i,
            .token = "token",
            .conn = conn_options,
            .window = 16,
            .ping_ms = 500,
            .suspect_ms = 2000,
            .connect_timeout_ms = 100000,
            .restart_timeout_ms = 100000,
        };

        if (i != rank)
            assert_ok(fl_rpc_client_new(&d->ways[i], w->loop,
                                        fl_sim_net(w->sim), w->nodes[i].address,
                                        &o));
    }
}

static void net_open(net *w, int n, const fl_sim_faults *f)
{
    memset(w, 0, sizeof(*w));
    w->sim = fl_sim_new(f);
    w->loop = fl_sim_loop(w->sim);
    w->n = n;
    for (int r = 0; r < n; r++)
        open_node(w, r);
    for (int r = 0; r < n; r++)
        dial_all(w, r);
}

static void net_close(net *w)
{
    for (int r = 0; r < w->n; r++)
        fl_coll_free(w->nodes[r].c);
    for (int r = 0; r < w->n; r++)
        for (int i = 0; i < w->n; i++)
            fl_rpc_client_free(w->nodes[r].ways[i]);
    for (int r = 0; r < w->n; r++)
        fl_rpc_server_free(w->nodes[r].server);
    fl_sim_free(w->sim);
}

/* --- calls -------------------------------------------------------------------- */

static void on_done(void *arg, fl_status st)
{
    node *d = arg;

    d->n_done++;
    d->st = st;
    if (st)
        (void)snprintf(d->text, sizeof(d->text), "%s", fl_last_error());
}

static void sum(net *w, size_t n)
{
    for (int r = 0; r < w->n; r++) {
        fl_coll_call a = { .kind = FL_COLL_ALLREDUCE,
                           .in = in[r],
                           .out = out[r],
                           .n = n,
                           .done = on_done,
                           .arg = &w->nodes[r] };

        for (size_t i = 0; i < n; i++)
            in[r][i] = (float)kit_value(r, i);
        fl_coll_begin(w->nodes[r].c, &a);
    }
    fl_sim_run(w->sim, fl_sim_now_ms(w->sim) + 90000, NULL);
}

static void expect_sums(const net *w, int n_done, size_t n)
{
    for (int r = 0; r < w->n; r++) {
        if (w->nodes[r].st)
            fail_msg("rank %d: %s", r, w->nodes[r].text);
        assert_int_equal(w->nodes[r].n_done, n_done);
        assert_memory_equal(out[r], out[0], n * sizeof(float));
    }
    for (size_t i = 0; i < n; i++) {
        int want = 0;

        for (int r = 0; r < w->n; r++)
            want += kit_value(r, i);
        assert_true(out[0][i] == (float)want);
    }
}

static void sixteen_workers_send_no_more_than_they_must(void **state)
{
    fl_sim_faults f = { .seed = 1, .delay_lo_ms = 1, .delay_hi_ms = 5 };
    uint64_t bytes = 2 * (uint64_t)LARGE * sizeof(float) / 16 * 15;
    net w;
    (void)state;

    net_open(&w, 16, &f);
    sum(&w, LARGE);
    expect_sums(&w, 1, LARGE);
    for (int r = 0; r < 16; r++)
        assert_int_equal(fl_stat_get(&fl_coll_stats_of(w.nodes[r].c)->sent),
                         bytes);
    net_close(&w);
}

static void broken_connections_change_nothing(void **state)
{
    (void)state;
    for (uint64_t seed = 1; seed < 4; seed++) {
        fl_sim_faults f = { .seed = seed,
                            .delay_lo_ms = 0,
                            .delay_hi_ms = 20,
                            .cut_after_bytes = 400000 };
        net w;

        net_open(&w, 5, &f);
        for (int i = 1; i <= 4; i++) {
            sum(&w, i % 2 ? LARGE : 999);
            expect_sums(&w, i, i % 2 ? LARGE : 999);
        }
        assert_true(fl_sim_cuts(w.sim) > 0);
        net_close(&w);
    }
}

static void a_worker_that_is_gone_for_good_is_named(void **state)
{
    fl_sim_faults f = { .seed = 1, .delay_lo_ms = 1, .delay_hi_ms = 5 };
    net w;
    (void)state;

    net_open(&w, 4, &f);
    sum(&w, 100);
    expect_sums(&w, 1, 100);
    fl_sim_freeze(w.sim, w.nodes[2].address, true);
    fl_sim_cut_all(w.sim);
    sum(&w, LARGE);
    fl_sim_run(w.sim, fl_sim_now_ms(w.sim) + 200000, NULL);
    for (int r = 0; r < 4; r++) {
        assert_int_equal(w.nodes[r].n_done, r == 2 ? 1 : 2);
        assert_int_equal(w.nodes[r].st != FL_OK, r != 2);
        assert_non_null(
            strstr(r == 2 ? "worker 2" : w.nodes[r].text, "worker 2"));
    }
    fl_sim_freeze(w.sim, w.nodes[2].address, false);
    net_close(&w);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(sixteen_workers_send_no_more_than_they_must),
        cmocka_unit_test(broken_connections_change_nothing),
        cmocka_unit_test(a_worker_that_is_gone_for_good_is_named),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
