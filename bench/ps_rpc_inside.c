/* ps_rpc_inside.c - what messages cost by themselves: CPU time of both ends
 * together for a gigabyte of payload, without any work on rows.
 *
 * Shapes of a batch of 10,000 keys with 16 floats each: a pull is 80,000 bytes
 * that ask for 640,000, a push 720,000 bytes that are confirmed by 8. Every
 * byte is made before and read once by who receives it, and its sum must be
 * right. A reply is copied into the shared arena where there is one.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/thread.h"
#include "harness.h"
#include "ps_peers.h"
#include "ps_process.h"
#include "ps/msg/message.h"
#include "rpc/server/rpc_server.h"
#include "rpc/client/rpc_client.h"
#include "rpc/stream/socket.h"

#define KEYS_BYTES 80000
#define ROWS_BYTES 640000
#define REQUESTS 400 /* of one turn */
#define ROUNDS 21
#define ARENA_BYTES (UINT64_C(64) << 20)
#define JOB "bench"

/* 8 bytes each; what both ends know. */
typedef struct load {
    uint64_t keys[KEYS_BYTES / 8], rows[ROWS_BYTES / 8];
    uint64_t keys_sum, rows_sum;
} load;

/* Four sums at a time, so that it waits for memory and not for itself. */
static uint64_t sum_of(const void *bytes, size_t n)
{
    const uint64_t *x = bytes;
    uint64_t sums[4] = { 0 };

    for (size_t i = 0; i < n / sizeof *x; i += 4)
        for (size_t k = 0; k < 4; k++)
            sums[k] += x[i + k];
    return sums[0] + sums[1] + sums[2] + sums[3];
}

static load *make_load(void)
{
    load *l = bench_alloc(sizeof *l);

    for (size_t i = 0; i < KEYS_BYTES / 8; i++)
        l->keys[i] = i * UINT64_C(0x9e3779b97f4a7c15);
    for (size_t i = 0; i < ROWS_BYTES / 8; i++)
        l->rows[i] = i * UINT64_C(0xc4ceb9fe1a85ec53);
    l->keys_sum = sum_of(l->keys, KEYS_BYTES);
    l->rows_sum = sum_of(l->rows, ROWS_BYTES);
    return l;
}

static void check_sum(const fl_payload *p, uint64_t sum)
{
    if (p && fl_payload_len(p) % KEYS_BYTES == 0 &&
        sum_of(fl_payload_data(p), fl_payload_len(p)) == sum)
        return;
    fprintf(stderr, "bench: ps: a message is not what was sent\n");
    exit(1);
}

/* --- the server process -------------------------------------------------- */

static void reply_rows(load *l, fl_reply *r)
{
    void *room = fl_reply_reserve(r, ROWS_BYTES);

    if (room) {
        memcpy(room, l->rows, ROWS_BYTES);
        fl_reply_send_reserved(r);
        return;
    }
    fl_reply_send_pieces(r, &(struct iovec){ l->rows, ROWS_BYTES }, 1, NULL,
                         NULL);
}

static void on_request(void *arg, fl_session *s, const fl_frame *f,
                       fl_payload *payload, fl_reply *r)
{
    load *l = arg;

    (void)s;
    if (f->type == FL_MSG_PULL) {
        check_sum(payload, l->keys_sum);
        reply_rows(l, r);
    } else {
        check_sum(payload, l->keys_sum + l->rows_sum);
        fl_reply_send(r, &f->step, sizeof f->step);
    }
    fl_payload_free(payload);
}

/* ADDRESS; serves until it is stopped. */
int ps_rpc_serve(char **argv)
{
    fl_rpc_server_options o = {
        .me = { .role = FL_MEMBER_SERVER, .boot_id = 1, .job = JOB },
        .conn = { .max_bytes = 1 << 24,
                  .window_bytes = 1 << 24,
                  .names = fl_msg_find_name,
                  .arena_bytes = ARENA_BYTES },
        .ping_ms = 500,
        .suspect_ms = 2000,
        .handshake_ms = 5000,
        .max_connections = 10,
    };
    fl_rpc_server_events events = { .on_request = on_request };
    char address[FL_ADDRESS_MAX];
    fl_loop *loop;
    fl_rpc_server *host;
    fl_net *net;

    bench_check(fl_net_sockets(&net, &(fl_socket_options){ 0 }), "a net");
    bench_check(fl_loop_new(&loop, "host"), "a loop");
    o.listen = argv[0];
    o.loops = &loop;
    o.n_loops = 1;
    o.events = &events;
    o.arg = make_load();
    bench_check(fl_rpc_server_new(&host, net, &o, address), "listening");
    for (;;)
        pause();
}

/* --- a client ------------------------------------------------------------ */

typedef struct shape {
    const char *name;
    uint16_t type;
    bool once;
    int n_pieces; /* of keys and rows */
    double bytes; /* both ways */
} shape;

static const shape shapes[] = {
    { "pull", FL_MSG_PULL, false, 1, KEYS_BYTES + ROWS_BYTES },
    { "push", FL_MSG_PUSH, true, 2, KEYS_BYTES + ROWS_BYTES },
};
#define N_SHAPES (sizeof shapes / sizeof *shapes)

/* How a client reaches the server. */
typedef struct way {
    const char *name;
    fl_local_use local;
    uint64_t arena_bytes;
} way;

static const way ways[] = {
    { "ps.tcp", FL_LOCAL_OFF, 0 },
    { "ps.local", FL_LOCAL_FORCE, ARENA_BYTES },
    { "ps.unix", FL_LOCAL_FORCE, 0 },
};
#define N_WAYS (sizeof ways / sizeof *ways)

/* Requests are made in the loop: the first ones of a turn by a post, each of
   the others when one is answered. */
typedef struct client {
    pid_t server;
    fl_net *net;
    fl_loop *loop;
    fl_rpc_client *link;
    load *load;
    struct iovec pieces[2];
    const shape *shape;
    int n_begun, n_done; /* in the loop */
    fl_mutex mu;
    fl_cond cond;
    bool is_over; /* guarded by mu */
} client;

static void begin_one(client *c);

static void on_reply(void *arg, fl_status st, const fl_frame *f,
                     fl_payload *payload)
{
    client *c = arg;

    (void)f;
    bench_check(st, "a request");
    if (c->shape->type == FL_MSG_PULL)
        check_sum(payload, c->load->rows_sum);
    fl_payload_free(payload);
    if (c->n_begun < REQUESTS)
        begin_one(c);
    if (++c->n_done < REQUESTS)
        return;
    fl_lock(&c->mu);
    c->is_over = true;
    fl_cond_wake_all(&c->cond);
    fl_unlock(&c->mu);
}

static void begin_one(client *c)
{
    c->n_begun++;
    fl_rpc_client_call(c->link, &(fl_rpc_call){ .type = c->shape->type,
                                                .once = c->shape->once,
                                                .pieces = c->pieces,
                                                .n_pieces = c->shape->n_pieces,
                                                .on_reply = on_reply,
                                                .arg = c });
}

static void begin_turn(void *arg)
{
    client *c = arg;

    c->n_begun = c->n_done = 0;
    for (int i = 0; i < PS_DEPTH; i++)
        begin_one(c);
}

static double own_cpu_seconds(void)
{
    struct timespec t;

    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static double cpu_seconds(const client *c)
{
    return own_cpu_seconds() + process_cpu_seconds(c->server);
}

/* CPU seconds of both ends for all requests of a turn. Their deadline is the
   link's: a server that is lost ends the bench. */
static double take_turn(client *c, const shape *s)
{
    double before = cpu_seconds(c);

    c->shape = s;
    c->is_over = false;
    fl_loop_post(c->loop, begin_turn, c);
    fl_lock(&c->mu);
    while (!c->is_over)
        fl_cond_wait(&c->cond, &c->mu);
    fl_unlock(&c->mu);
    return cpu_seconds(c) - before;
}

static void client_open(client *c, uint32_t rank, const char *address)
{
    fl_rpc_client_options o = {
        .me = { .role = FL_MEMBER_TRAINER,
                .rank = rank,
                .incarnation = 1,
                .job = JOB },
        .peer_role = FL_MEMBER_SERVER,
        .conn = { .max_bytes = 1 << 24,
                  .window_bytes = 1 << 24,
                  .names = fl_msg_find_name,
                  .arena_bytes = ways[rank].arena_bytes },
        .window = PS_DEPTH,
        .ping_ms = 500,
        .suspect_ms = 2000,
        .connect_timeout_ms = 20000,
        .restart_timeout_ms = 1000,
    };
    fl_socket_options so = { .local = ways[rank].local };

    fl_mutex_init(&c->mu);
    fl_cond_init(&c->cond);
    c->pieces[0] = (struct iovec){ c->load->keys, KEYS_BYTES };
    c->pieces[1] = (struct iovec){ c->load->rows, ROWS_BYTES };
    bench_check(fl_net_sockets(&c->net, &so), "a net");
    bench_check(fl_loop_new(&c->loop, "link"), "a loop");
    bench_check(fl_rpc_client_new(&c->link, c->loop, c->net, address, &o),
                "a link");
    for (size_t i = 0; i < N_SHAPES; i++)
        (void)take_turn(c, &shapes[i]); /* connects, and touches all memory */
}

static void free_link(void *link)
{
    fl_rpc_client_free(link);
}

static void client_close(client *c)
{
    fl_loop_post(c->loop, free_link, c->link);
    fl_loop_free(c->loop);
    fl_net_free_sockets(c->net);
    fl_cond_release(&c->cond);
    fl_mutex_release(&c->mu);
}

/* --- figures ------------------------------------------------------------- */

/* CPU seconds by way, shape and round. */
typedef struct results {
    size_t n;
    double *seconds[N_WAYS][N_SHAPES];
} results;

static double per_gb(double seconds, double bytes)
{
    return 1e9 * seconds / (REQUESTS * bytes);
}

/* A pull and a push together, and each of them. */
static void put_figures(const results *r, size_t w)
{
    double *x = bench_alloc(r->n * sizeof *x);

    for (size_t i = 0; i < r->n; i++)
        x[i] = per_gb(r->seconds[w][0][i] + r->seconds[w][1][i],
                      shapes[0].bytes + shapes[1].bytes);
    bench_figure(ways[w].name, "cpu_s_per_gb", x, r->n, "s/GB");
    for (size_t s = 0; s < N_SHAPES; s++) {
        char prefix[48];

        for (size_t i = 0; i < r->n; i++)
            x[i] = per_gb(r->seconds[w][s][i], shapes[s].bytes);
        snprintf(prefix, sizeof prefix, "%s.%s", ways[w].name, shapes[s].name);
        bench_figure(prefix, "cpu_s_per_gb", x, r->n, "s/GB");
    }
    free(x);
}

static void measure(client *clients, results *r)
{
    for (size_t i = 0; i < r->n; i++)
        for (size_t k = 0; k < N_WAYS; k++) {
            size_t w = (i + k) % N_WAYS;

            for (size_t s = 0; s < N_SHAPES; s++)
                r->seconds[w][s][i] = take_turn(&clients[w], &shapes[s]);
        }
    for (size_t w = 0; w < N_WAYS; w++)
        put_figures(r, w);
}

void bench_ps_rpc(void)
{
    results r = { .n = bench_repeats(ROUNDS) };
    client clients[N_WAYS] = { 0 };
    char address[ADDRESS_MAX];
    load *l = make_load();
    pid_t server;

    process_free_address(address);
    server = process_start((char *[]){ PROCESS_SELF, "rpc", address, NULL });
    for (size_t w = 0; w < N_WAYS; w++) {
        clients[w].server = server;
        clients[w].load = l;
        client_open(&clients[w], (uint32_t)w, address);
        for (size_t s = 0; s < N_SHAPES; s++)
            r.seconds[w][s] = bench_alloc(r.n * sizeof(double));
    }
    measure(clients, &r);
    for (size_t w = 0; w < N_WAYS; w++) {
        client_close(&clients[w]);
        for (size_t s = 0; s < N_SHAPES; s++)
            free(r.seconds[w][s]);
    }
    process_stop(server);
    free(l);
}
