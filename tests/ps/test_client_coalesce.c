/* test_client_coalesce.c - small pulls and pushes of a client that leave as
 * one request, in a simulation and with threads. */
#include "client_kit.h"

#include <stdlib.h>

#include "../rpc/loop_kit.h"
#include "base/hash.h"
#include "ps/client/call_sync.h"
#include "rpc/stream/socket.h"

#define TEXT                                                                   \
    TABLE_TEXT("emb", "dim=4 init=constant(1) optimizer=sgd")                  \
    TABLE_TEXT("wide", "dim=8 init=constant(2) optimizer=sgd")                 \
    TABLE_TEXT("narrow", "dim=1 init=constant(3) optimizer=sgd") SERVE_TEXT("")

enum { EMB, WIDE, NARROW, NO_TABLE };

#define DIM_MAX 8
#define N_CALLS 6
#define N_EACH 5 /* keys of a call */

static const fl_sim_faults calm = { .seed = 1, .delay_hi_ms = 3 };
static const uint32_t dims[] = { DIM, DIM_MAX, 1, DIM };
static const float first_values[] = { 1, 2, 3 };

/* A call with keys of its own. */
typedef struct call {
    int table;
    size_t n;
    uint64_t *keys;
    float *values; /* rows of a pull, gradients of a push */
    outcome end;
} call;

/* Key i of caller number `who`; some of every server's. */
static void call_init(call *c, int who, int table, size_t n)
{
    *c = (call){ .table = table, .n = n };
    c->keys = calloc(n + 1, sizeof(*c->keys));
    c->values = calloc(n + 1, DIM_MAX * sizeof(*c->values));
    for (size_t i = 0; i < n; i++)
        c->keys[i] = fl_mix64((uint64_t)who * 100000 + i);
}

static void call_release(call *c)
{
    free(c->keys);
    free(c->values);
}

static void call_pull(fl_client *client, call *c)
{
    fl_job_pull_item item = { c->table, c->keys, c->n, FL_PULL_CREATE,
                              c->values };

    c->end = (outcome){ 0 };
    memset(c->values, 0, c->n * DIM_MAX * sizeof(*c->values));
    assert_ok(fl_client_pull(client, &item, &dims[c->table], 1,
                             (fl_ending){ on_outcome, &c->end }));
}

/* The gradient of row i is i + 1, times `times`. */
static void call_push(fl_client *client, call *c, float times)
{
    uint32_t dim = dims[c->table];
    fl_job_push_item item = {
        c->table, { .keys = c->keys, .values = c->values, .n = c->n, .lr = 1 }
    };

    c->end = (outcome){ 0 };
    for (size_t i = 0; i < c->n * dim; i++)
        c->values[i] = (float)(i / dim + 1) * times;
    assert_ok(fl_client_push(client, &item, &dim, 1,
                             (fl_ending){ on_outcome, &c->end }));
}

/* The rows after pushes of `pushed` times the gradients of call_push. */
static void expect_rows(const call *c, float pushed)
{
    uint32_t dim = dims[c->table];

    for (size_t i = 0; i < c->n * dim; i++)
        assert_true(c->values[i] ==
                    first_values[c->table] - (float)(i / dim + 1) * pushed);
}

/* --- the job -------------------------------------------------------------- */

static void job_open(job *j, int n_servers, uint64_t message_bytes)
{
    *j = (job){ .n_servers = n_servers,
                .n_trainers = 1,
                .message_bytes = message_bytes,
                .may_coalesce = true };
    job_start(j, &calm);
    job_wait(j);
    assert_ok(job_declare(j, 0, TEXT));
}

static void expect_requests(const job *j, uint16_t type, uint64_t n)
{
    for (int s = 0; s < j->n_servers; s++)
        assert_int_equal(fl_client_requests(j->clients[0], s, type), n);
}

/* Time for a second call of an ending, if there were one. */
static void expect_ends(job *j, call *calls, size_t n)
{
    for (size_t i = 0; i < n; i++)
        assert_ok(job_end(j, &calls[i].end));
    job_run(j, 1000);
    for (size_t i = 0; i < n; i++)
        assert_int_equal(calls[i].end.n_calls, 1);
}

static void expect_errors(job *j, call *calls, size_t n, fl_status st,
                          const char *words)
{
    for (size_t i = 0; i < n; i++) {
        assert_int_equal(job_end(j, &calls[i].end), st);
        assert_has(fl_last_error(), words);
    }
    job_run(j, 1000);
    for (size_t i = 0; i < n; i++)
        assert_int_equal(calls[i].end.n_calls, 1);
}

/* Pulls, and pushes of the same keys. */
typedef struct calls {
    call pulls[N_CALLS], pushes[N_CALLS];
} calls;

static void calls_init(calls *c)
{
    for (int i = 0; i < N_CALLS; i++) {
        call_init(&c->pulls[i], i, i % 2 ? WIDE : EMB, N_EACH);
        call_init(&c->pushes[i], i, i % 2 ? WIDE : EMB, N_EACH);
    }
}

static void calls_release(calls *c)
{
    for (int i = 0; i < N_CALLS; i++) {
        call_release(&c->pulls[i]);
        call_release(&c->pushes[i]);
    }
}

/* Pulls come first: what is pushed is known to them all the same. */
static void calls_begin(calls *c, fl_client *client)
{
    for (int i = 0; i < N_CALLS; i++) {
        call_pull(client, &c->pulls[i]);
        call_push(client, &c->pushes[i], 1);
    }
}

/* --- joining -------------------------------------------------------------- */

static void check_joining(int n_servers)
{
    calls c;
    job j;

    calls_init(&c);
    job_open(&j, n_servers, 0);
    for (uint64_t round = 0; round < 3; round++) {
        calls_begin(&c, j.clients[0]);
        expect_requests(&j, FL_MSG_PULL, round);
        expect_requests(&j, FL_MSG_PUSH, round);
        expect_ends(&j, c.pulls, N_CALLS);
        expect_ends(&j, c.pushes, N_CALLS);
        expect_requests(&j, FL_MSG_PULL, round + 1);
        expect_requests(&j, FL_MSG_PUSH, round + 1);
        for (int i = 0; i < N_CALLS; i++)
            expect_rows(&c.pulls[i], (float)round + 1);
    }
    job_release(&j);
    calls_release(&c);
}

static void small_calls_leave_as_one_request_per_server(void **state)
{
    (void)state;
    for (int n = 1; n <= SERVERS_MAX; n++)
        check_joining(n);
}

/* Two pushes of one table in one request are still two steps, in order. */
static void pushes_that_are_joined_are_all_applied(void **state)
{
    call pushes[3], pull;
    job j;

    (void)state;
    job_open(&j, 2, 0);
    call_init(&pull, 0, EMB, N_EACH);
    for (int i = 0; i < 3; i++) {
        call_init(&pushes[i], 0, EMB, N_EACH);
        call_push(j.clients[0], &pushes[i], (float)(i + 1));
    }
    expect_ends(&j, pushes, 3);
    expect_requests(&j, FL_MSG_PUSH, 1);
    call_pull(j.clients[0], &pull);
    expect_ends(&j, &pull, 1);
    expect_rows(&pull, 1 + 2 + 3);
    job_release(&j);
    for (int i = 0; i < 3; i++)
        call_release(&pushes[i]);
    call_release(&pull);
}

static void a_call_without_keys_ends_with_the_others(void **state)
{
    call c[2];
    job j;

    (void)state;
    job_open(&j, 2, 0);
    call_init(&c[0], 0, EMB, 0);
    call_init(&c[1], 1, EMB, 0);
    call_pull(j.clients[0], &c[0]);
    expect_ends(&j, c, 1); /* with nobody else in it */
    expect_requests(&j, FL_MSG_PULL, 0);
    call_release(&c[1]);
    call_init(&c[1], 1, EMB, 20);
    call_pull(j.clients[0], &c[0]);
    call_pull(j.clients[0], &c[1]);
    expect_ends(&j, c, 2);
    expect_requests(&j, FL_MSG_PULL, 1);
    expect_rows(&c[1], 0);
    job_release(&j);
    call_release(&c[0]);
    call_release(&c[1]);
}

static void a_client_that_may_not_coalesce_joins_nothing(void **state)
{
    calls c;
    job j;

    (void)state;
    calls_init(&c);
    job_init(&j, 1, 1, &calm);
    job_wait(&j);
    assert_ok(job_declare(&j, 0, TEXT));
    calls_begin(&c, j.clients[0]);
    expect_requests(&j, FL_MSG_PULL, N_CALLS); /* at once */
    expect_requests(&j, FL_MSG_PUSH, N_CALLS);
    expect_ends(&j, c.pulls, N_CALLS);
    expect_ends(&j, c.pushes, N_CALLS);
    /* Each in its turn: no push goes before a pull that came before it. */
    for (int i = 0; i < N_CALLS; i++)
        expect_rows(&c.pulls[i], 0);
    job_release(&j);
    calls_release(&c);
}

/* --- blocks --------------------------------------------------------------- */

#define BLOCK_TEXT(name, n, block)                                             \
    "var " name " : f32[" n "] persist\n"                                      \
    "op fill_constant () -> (Out=" name ") {shape=[" n "]}\n"                  \
    "block " block " parent 0\n"                                               \
    "  var " name "@GRAD : f32[" n "] data\n"                                  \
    "  op elementwise_add (X=" name ", Y=" name "@GRAD) -> (Out=" name ")\n"   \
    "end\n"

#define LONG_BLOCK 150000 /* floats: more than half a message */
#define BLOCKS_TEXT                                                            \
    BLOCK_TEXT("b", "3", "1")                                                  \
    BLOCK_TEXT("w", "150000", "2") SERVE_TEXT("1,2")

static void blocks_open(job *j)
{
    *j = (job){ .n_servers = 1, .n_trainers = 1, .may_coalesce = true };
    job_start(j, &calm);
    job_wait(j);
    assert_ok(job_declare(j, 0, BLOCKS_TEXT));
}

static void send_block(const job *j, uint16_t type, fl_client_block b,
                       const float *values, outcome *end)
{
    assert_ok(fl_client_send_blocks(j->clients[0], type, &b, &values, 1,
                                    (fl_ending){ on_outcome, end }));
}

static void pull_block(const job *j, fl_client_block b, float *out,
                       outcome *end)
{
    assert_ok(fl_client_pull_blocks(j->clients[0], &b, &out, 1,
                                    (fl_ending){ on_outcome, end }));
}

static void expect_block(const float got[3], float times)
{
    for (int i = 0; i < 3; i++)
        assert_true(got[i] == times * (float)(i + 1));
}

static void requests_for_blocks_keep_their_order(void **state)
{
    const fl_client_block b = { .number = 0, .n = 3 };
    const float one[3] = { 1, 2, 3 }, ten[3] = { 10, 20, 30 };
    float first[3], second[3];
    outcome ends[7] = { { 0 } };
    job j;

    (void)state;
    blocks_open(&j);
    send_block(&j, FL_MSG_PUSH_DENSE, b, one, &ends[0]);
    send_block(&j, FL_MSG_PUSH_DENSE, b, one, &ends[1]);
    pull_block(&j, b, first, &ends[2]);
    send_block(&j, FL_MSG_PUSH_DENSE, b, one, &ends[3]);
    send_block(&j, FL_MSG_ASSIGN_DENSE, b, ten, &ends[4]);
    send_block(&j, FL_MSG_PUSH_DENSE, b, one, &ends[5]);
    pull_block(&j, b, second, &ends[6]);
    expect_requests(&j, FL_MSG_PUSH_DENSE, 0);
    for (int i = 0; i < 7; i++)
        assert_ok(job_end(&j, &ends[i]));
    expect_requests(&j, FL_MSG_PUSH_DENSE, 3);
    expect_requests(&j, FL_MSG_ASSIGN_DENSE, 1);
    expect_requests(&j, FL_MSG_PULL_DENSE, 2);
    expect_block(first, 2);
    expect_block(second, 11);
    job_release(&j);
}

static void a_long_block_goes_alone_in_its_turn(void **state)
{
    const fl_client_block b = { .number = 0, .n = 3 };
    const fl_client_block w = { .number = 1, .n = LONG_BLOCK };
    const float one[3] = { 1, 2, 3 };
    float *zeros = calloc(LONG_BLOCK, sizeof(*zeros)), got[3];
    outcome ends[4] = { { 0 } };
    job j;

    (void)state;
    blocks_open(&j);
    send_block(&j, FL_MSG_PUSH_DENSE, b, one, &ends[0]);
    send_block(&j, FL_MSG_PUSH_DENSE, w, zeros, &ends[1]);
    send_block(&j, FL_MSG_PUSH_DENSE, b, one, &ends[2]);
    pull_block(&j, b, got, &ends[3]);
    for (int i = 0; i < 4; i++)
        assert_ok(job_end(&j, &ends[i]));
    expect_requests(&j, FL_MSG_PUSH_DENSE, 3);
    expect_block(got, 2);
    job_release(&j);
    free(zeros);
}

static void a_block_that_is_refused_is_told_to_every_caller(void **state)
{
    const fl_client_block b = { .number = 0, .n = 3 };
    const fl_client_block none = { .number = 7, .n = 3 };
    const float one[3] = { 1, 2, 3 };
    outcome ends[2] = { { 0 } };
    job j;

    (void)state;
    blocks_open(&j);
    send_block(&j, FL_MSG_PUSH_DENSE, none, one, &ends[0]);
    send_block(&j, FL_MSG_PUSH_DENSE, b, one, &ends[1]);
    for (int i = 0; i < 2; i++) {
        assert_int_equal(job_end(&j, &ends[i]), FL_ERR_NOTFOUND);
        assert_has(fl_last_error(), "block 7");
    }
    expect_requests(&j, FL_MSG_PUSH_DENSE, 1);
    job_release(&j);
}

/* --- limits --------------------------------------------------------------- */

/* A pull of so many keys is the largest that is kept. */
static void check_pull_limit(uint64_t message_bytes, size_t n_most)
{
    call c[2];
    job j;

    job_open(&j, 1, message_bytes);
    call_init(&c[0], 0, EMB, n_most);
    call_init(&c[1], 1, EMB, n_most + 1);
    call_pull(j.clients[0], &c[0]);
    expect_requests(&j, FL_MSG_PULL, 0);
    call_pull(j.clients[0], &c[1]);
    expect_requests(&j, FL_MSG_PULL, 1);
    expect_ends(&j, c, 2);
    expect_requests(&j, FL_MSG_PULL, 2);
    for (int i = 0; i < 2; i++) {
        expect_rows(&c[i], 0);
        call_release(&c[i]);
    }
    job_release(&j);
}

static void check_push_limit(uint64_t message_bytes, size_t n_most)
{
    call c[2];
    job j;

    job_open(&j, 1, message_bytes);
    call_init(&c[0], 0, EMB, n_most);
    call_init(&c[1], 1, EMB, n_most + 1);
    call_push(j.clients[0], &c[0], 1);
    expect_requests(&j, FL_MSG_PUSH, 0);
    call_push(j.clients[0], &c[1], 1);
    expect_requests(&j, FL_MSG_PUSH, 1);
    expect_ends(&j, c, 2);
    expect_requests(&j, FL_MSG_PUSH, 2);
    for (int i = 0; i < 2; i++) {
        call_pull(j.clients[0], &c[i]);
        expect_ends(&j, &c[i], 1);
        expect_rows(&c[i], 1);
        call_release(&c[i]);
    }
    job_release(&j);
}

/* A key that is pulled has 8 bytes and a row of 16; one that is pushed has room
   for three numbers more. An item has 32. */
static void a_large_call_goes_alone_and_at_once(void **state)
{
    (void)state;
    check_pull_limit(0, ((64 << 10) - 32) / 24);
    check_push_limit(0, ((64 << 10) - 32) / 36);
    check_pull_limit(64 << 10, ((32 << 10) - 32) / 24);
    check_push_limit(64 << 10, ((32 << 10) - 32) / 36);
}

static void more_bytes_than_fit_make_a_second_request(void **state)
{
    enum { HALF = ((32 << 10) - 32) / 24 };
    call c[5];
    job j;

    (void)state;
    job_open(&j, 1, 0);
    for (int i = 0; i < 5; i++) {
        call_init(&c[i], i, EMB, HALF);
        call_pull(j.clients[0], &c[i]);
    }
    expect_requests(&j, FL_MSG_PULL, 0);
    expect_ends(&j, c, 5);
    expect_requests(&j, FL_MSG_PULL, 3);
    for (int i = 0; i < 5; i++) {
        expect_rows(&c[i], 0);
        call_release(&c[i]);
    }
    job_release(&j);
}

/* They have heads all the same. */
static void pushes_without_keys_make_no_message_too_long(void **state)
{
    enum { N = 4000 };
    call *c = calloc(N, sizeof(*c));
    job j;

    (void)state;
    job_open(&j, 1, 64 << 10);
    for (int i = 0; i < N; i++) {
        call_init(&c[i], 0, EMB, 0);
        call_push(j.clients[0], &c[i], 1);
    }
    expect_ends(&j, c, N);
    assert_true(fl_client_requests(j.clients[0], 0, FL_MSG_PUSH) > 1);
    for (int i = 0; i < N; i++)
        call_release(&c[i]);
    job_release(&j);
    free(c);
}

/* --- errors --------------------------------------------------------------- */

static void an_error_of_a_server_reaches_every_caller(void **state)
{
    calls c;
    job j;

    (void)state;
    calls_init(&c);
    job_open(&j, 2, 0);
    c.pulls[2].table = c.pushes[3].table = NO_TABLE;
    calls_begin(&c, j.clients[0]);
    expect_errors(&j, c.pulls, N_CALLS, FL_ERR_NOTFOUND,
                  ": a request (pull) is for table 3");
    expect_errors(&j, c.pushes, N_CALLS, FL_ERR_NOTFOUND,
                  ": a request (push) is for table 3");
    /* It goes on, and nothing of the bad request was applied. */
    call_pull(j.clients[0], &c.pulls[0]);
    expect_ends(&j, c.pulls, 1);
    expect_rows(&c.pulls[0], 0);
    job_release(&j);
    calls_release(&c);
}

static void a_lost_server_is_told_to_every_caller(void **state)
{
    /* The second time both are lost: the job is over. */
    static const char *const words[] = { "server 1 at s1:1: did not come back",
                                         "did not come back" };
    calls c;
    job j;

    (void)state;
    calls_init(&c);
    job_open(&j, 2, 0);
    fl_server_free(j.servers[1]);
    j.servers[1] = NULL;
    for (size_t i = 0; i < FL_LEN(words); i++) {
        fl_status st;

        calls_begin(&c, j.clients[0]);
        st = job_end(&j, &c.pulls[0].end);
        assert_true(st);
        expect_errors(&j, c.pulls, N_CALLS, st, words[i]);
        expect_errors(&j, c.pushes, N_CALLS, st, words[i]);
    }
    job_release(&j);
    calls_release(&c);
}

static void what_cannot_be_sent_is_told_to_every_caller(void **state)
{
    calls c;
    job j;

    (void)state;
    calls_init(&c);
    job_open(&j, 2, 0);
    for (int i = 0; i < N_CALLS; i++)
        call_pull(j.clients[0], &c.pulls[i]);
    fl_alloc_fail_after(1);
    expect_errors(&j, c.pulls, N_CALLS, FL_ERR_NOMEM,
                  "no memory for a request (pull)");
    fl_alloc_fail_after(0);
    expect_requests(&j, FL_MSG_PULL, 0);
    calls_begin(&c, j.clients[0]);
    expect_ends(&j, c.pulls, N_CALLS);
    expect_ends(&j, c.pushes, N_CALLS);
    job_release(&j);
    calls_release(&c);
}

static void expect_closed(const call *c)
{
    for (int i = 0; i < N_CALLS; i++) {
        assert_int_equal(c[i].end.n_calls, 1);
        assert_int_equal(c[i].end.err.status, FL_ERR_CLOSED);
    }
}

/* What is kept has left, and nobody has answered. */
static void a_client_that_is_freed_tells_every_caller(void **state)
{
    calls c;
    job j;

    (void)state;
    calls_init(&c);
    job_open(&j, 2, 0);
    fl_sim_freeze(j.sim, "s0:1", true);
    fl_sim_freeze(j.sim, "s1:1", true);
    calls_begin(&c, j.clients[0]);
    job_run(&j, 100);
    expect_requests(&j, FL_MSG_PULL, 1);
    expect_requests(&j, FL_MSG_PUSH, 1);
    assert_false(c.pulls[0].end.is_over);
    fl_client_free(j.clients[0]);
    j.clients[0] = NULL;
    expect_closed(c.pulls);
    expect_closed(c.pushes);
    job_release(&j);
    calls_release(&c);
}

/* --- with threads --------------------------------------------------------- */

/* One server and one client over real sockets. */
typedef struct place {
    fl_net *net;
    fl_conf conf;
    fl_server *server;
    fl_client *client;
} place;

static void place_open(place *p)
{
    fl_socket_options so = { .local = FL_LOCAL_OFF, .job = 1 };
    const char *address = "127.0.0.1:0";
    fl_server_options s = {
        .servers = &address,
        .n_servers = 1,
        .n_trainers = 1,
        .job = "test",
        .n_loops = 2,
        .connect_timeout_ms = 60000,
        .restart_timeout_ms = 60000,
        .ping_ms = 500,
        .suspect_ms = 60000,
        .max_message_bytes = 1 << 20,
        .max_connections = 100,
        .ops = &fl_ops,
        .conf = &p->conf,
    };
    fl_client_options c = {
        .servers = &address,
        .n_servers = 1,
        .n_trainers = 1,
        .job = "test",
        .connect_timeout_ms = 60000,
        .restart_timeout_ms = 60000,
        .ping_ms = 500,
        .suspect_ms = 60000,
        .max_message_bytes = 1 << 20,
        .may_coalesce = true,
    };

    *p = (place){ 0 };
    said[0] = '\0';
    fl_log_set(keep_line, NULL, FL_LOG_ERROR);
    assert_ok(fl_conf_init(&p->conf));
    assert_ok(fl_net_sockets(&p->net, &so));
    assert_ok(fl_server_new(&p->server, p->net, NULL, &s));
    address = fl_server_address(p->server);
    assert_ok(fl_client_new(&p->client, p->net, NULL, &c));
    assert_ok(fl_client_declare_all(p->client, (const char *[]){ TEXT }, 1));
}

static void place_close(place *p)
{
    fl_client_free(p->client);
    fl_server_free(p->server);
    fl_net_free_sockets(p->net);
    fl_conf_release(&p->conf);
    fl_log_set(NULL, NULL, FL_LOG_INFO);
}

/* Some are still kept then, and some have left. */
static void a_client_without_a_server_that_is_freed_tells_all(void **state)
{
    place p;
    calls c;

    (void)state;
    calls_init(&c);
    for (int i = 0; i < 20; i++) {
        place_open(&p);
        fl_server_free(p.server);
        p.server = NULL;
        calls_begin(&c, p.client);
        fl_client_free(p.client);
        p.client = NULL;
        expect_closed(c.pulls);
        expect_closed(c.pushes);
        place_close(&p);
    }
    calls_release(&c);
}

#define N_THREADS 4
#define ROUNDS 200

typedef struct maker {
    fl_client *client;
    call push, pull;
    gate ends;
    int n_wrong; /* rows that are not what was pushed */
    fl_err err;
} maker;

static void on_end(void *arg, fl_status st)
{
    maker *m = arg;

    if (st && !m->err.status)
        fl_err_save(&m->err, st);
    gate_add(&m->ends);
}

static fl_status make_round(maker *m)
{
    fl_job_push_item push = {
        EMB,
        { .keys = m->push.keys, .values = m->push.values, .n = N_EACH, .lr = 1 }
    };
    fl_job_pull_item pull = { EMB, m->pull.keys, N_EACH, FL_PULL_CREATE,
                              m->pull.values };

    FL_TRY(fl_client_pull(m->client, &pull, &dims[EMB], 1,
                          (fl_ending){ on_end, m }));
    return fl_client_push(m->client, &push, &dims[EMB], 1,
                          (fl_ending){ on_end, m });
}

/* In whichever of the kept requests they are: a pull knows the push of its
   round or, when the loop came in between, that of the one before. */
static void make(void *arg)
{
    maker *m = arg;

    for (size_t round = 0; round < ROUNDS; round++) {
        fl_status st = make_round(m);

        if (st) {
            fl_err_save(&m->err, st);
            return;
        }
        fl_poller_flush(fl_client_poller(m->client));
        if (!gate_reaches(&m->ends, 2 * (round + 1)))
            return;
        for (size_t i = 0; i < N_EACH * DIM; i++) {
            float pushed = 1 - m->pull.values[i];

            m->n_wrong += pushed != (float)round && pushed != (float)round + 1;
        }
    }
}

static void threads_are_all_answered_once(void **state)
{
    fl_thread *threads[N_THREADS];
    maker m[N_THREADS];
    place p;

    (void)state;
    place_open(&p);
    for (int i = 0; i < N_THREADS; i++) {
        m[i] = (maker){ .client = p.client };
        gate_init(&m[i].ends);
        call_init(&m[i].push, i, EMB, N_EACH);
        call_init(&m[i].pull, i, EMB, N_EACH);
        for (size_t k = 0; k < N_EACH * DIM; k++)
            m[i].push.values[k] = 1;
        assert_ok(fl_thread_start(&threads[i], "maker", make, &m[i]));
    }
    for (int i = 0; i < N_THREADS; i++)
        fl_thread_join(threads[i]);
    assert_in_range(fl_client_requests(p.client, 0, FL_MSG_PUSH), 1,
                    N_THREADS * ROUNDS);
    place_close(&p);
    for (int i = 0; i < N_THREADS; i++) {
        if (m[i].err.status)
            fail_msg("%s", m[i].err.text);
        assert_int_equal(gate_count(&m[i].ends), 2 * ROUNDS);
        assert_int_equal(m[i].n_wrong, 0);
        gate_release(&m[i].ends);
        call_release(&m[i].push);
        call_release(&m[i].pull);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(small_calls_leave_as_one_request_per_server),
        cmocka_unit_test(pushes_that_are_joined_are_all_applied),
        cmocka_unit_test(a_call_without_keys_ends_with_the_others),
        cmocka_unit_test(a_client_that_may_not_coalesce_joins_nothing),
        cmocka_unit_test(requests_for_blocks_keep_their_order),
        cmocka_unit_test(a_long_block_goes_alone_in_its_turn),
        cmocka_unit_test(a_block_that_is_refused_is_told_to_every_caller),
        cmocka_unit_test(a_large_call_goes_alone_and_at_once),
        cmocka_unit_test(more_bytes_than_fit_make_a_second_request),
        cmocka_unit_test(pushes_without_keys_make_no_message_too_long),
        cmocka_unit_test(an_error_of_a_server_reaches_every_caller),
        cmocka_unit_test(a_lost_server_is_told_to_every_caller),
        cmocka_unit_test(what_cannot_be_sent_is_told_to_every_caller),
        cmocka_unit_test(a_client_that_is_freed_tells_every_caller),
        cmocka_unit_test(a_client_without_a_server_that_is_freed_tells_all),
        cmocka_unit_test(threads_are_all_answered_once),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
