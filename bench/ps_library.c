/* ps_library.c - the library's table, called directly and through a server. */
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "flotilla/flotilla.h"
#include "flotilla/job.h"
#include "harness.h"
#include "ps_peers.h"
#include "ps_process.h"

#define RATE 0.001

typedef struct library {
    fl_ctx *ctx;
    fl_table *table; /* when it is called directly */
    fl_job *ps;      /* when it is not */
    int number;
    pid_t server;
} library;

static void make_settings(const ps_shape *s, char *out, size_t cap)
{
    snprintf(out, cap, "dim=%d, init=uniform(-0.01,0.01), %s", PS_DIM,
             s->settings);
}

static fl_rows push_args(const ps_batch *b)
{
    return (fl_rows){ .keys = b->keys,
                      .values = b->grads,
                      .n = b->n,
                      .lr = RATE,
                      .merged = true };
}

/* --- directly ------------------------------------------------------------ */

static void *direct_open(const ps_shape *s)
{
    library *l = bench_alloc(sizeof *l);
    char settings[128];

    make_settings(s, settings, sizeof settings);
    bench_check(fl_ctx_new(&l->ctx), "settings");
    bench_check(fl_table_new(&l->table, l->ctx, "rows", settings),
                "making a table");
    return l;
}

static void direct_pull(void *peer, const ps_batch *b, size_t n)
{
    library *l = peer;

    for (size_t i = 0; i < n; i++)
        bench_check(fl_table_pull(l->table, b[i].keys, b[i].n, FL_PULL_CREATE,
                                  b[i].out),
                    "pulling");
}

static void direct_push(void *peer, const ps_batch *b, size_t n)
{
    library *l = peer;

    for (size_t i = 0; i < n; i++) {
        fl_rows a = push_args(&b[i]);

        bench_check(fl_table_push(l->table, &a), "pushing");
    }
}

static double direct_cpu_seconds(const void *peer)
{
    struct timespec t;

    (void)peer;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static void direct_close(void *peer)
{
    library *l = peer;

    fl_ctx_free(l->ctx);
    free(l);
}

/* --- the server process -------------------------------------------------- */

/* ADDRESS, and what local_transport is. */
int ps_library_serve(char **argv)
{
    fl_ctx *ctx;

    bench_check(fl_ctx_new(&ctx), "settings");
    bench_check(fl_ctx_set(ctx, "server_threads", "1"), "a setting");
    bench_check(fl_ctx_set(ctx, "local_transport", argv[1]), "a setting");
    bench_check(fl_ctx_set(ctx, "log_level", "warn"), "a setting");
    bench_check(fl_ctx_set(ctx, "join_token", "bench"), "a setting");
    bench_check(fl_job_serve(ctx, .servers = argv[0]), "serving");
    fl_ctx_free(ctx);
    return 0;
}

static void *server_open(const ps_shape *s, char *transport)
{
    library *l = bench_alloc(sizeof *l);
    char address[ADDRESS_MAX], settings[128];

    process_free_address(address);
    l->server = process_start(
        (char *[]){ PROCESS_SELF, "library", address, transport, NULL });
    make_settings(s, settings, sizeof settings);
    bench_check(fl_ctx_new(&l->ctx), "settings");
    bench_check(fl_ctx_set(l->ctx, "local_transport", transport), "a setting");
    bench_check(fl_ctx_set(l->ctx, "join_token", "bench"), "a setting");
    bench_check(fl_job_connect(&l->ps, l->ctx, .servers = address),
                "connecting to a server");
    bench_check(fl_job_declare_table(l->ps, "rows", settings, &l->number),
                "declaring a table");
    bench_check(fl_job_start(l->ps), "starting a job");
    return l;
}

static void *local_open(const ps_shape *s)
{
    return server_open(s, "force");
}

static void *tcp_open(const ps_shape *s)
{
    return server_open(s, "off");
}

typedef void (*begin_fn)(library *l, const ps_batch *b, fl_job_request **out);

static void begin_pull(library *l, const ps_batch *b, fl_job_request **out)
{
    fl_job_pull_item item = { l->number, b->keys, b->n, FL_PULL_CREATE,
                              b->out };

    bench_check(fl_job_pull_begin(out, l->ps, &item, 1), "pulling");
}

static void begin_push(library *l, const ps_batch *b, fl_job_request **out)
{
    fl_job_push_item item = { l->number, push_args(b) };

    bench_check(fl_job_push_begin(out, l->ps, &item, 1), "pushing");
}

static void run_all(library *l, const ps_batch *b, size_t n, begin_fn begin)
{
    fl_job_request *requests[PS_DEPTH];

    for (size_t i = 0; i < n + PS_DEPTH; i++) {
        if (i >= PS_DEPTH && i - PS_DEPTH < n)
            bench_check(fl_job_wait(requests[i % PS_DEPTH]), "a request");
        if (i < n)
            begin(l, &b[i], &requests[i % PS_DEPTH]);
    }
}

static void server_pull(void *peer, const ps_batch *b, size_t n)
{
    run_all(peer, b, n, begin_pull);
}

static void server_push(void *peer, const ps_batch *b, size_t n)
{
    run_all(peer, b, n, begin_push);
}

static double server_cpu_seconds(const void *peer)
{
    const library *l = peer;

    return process_cpu_seconds(l->server);
}

static void server_close(void *peer)
{
    library *l = peer;

    bench_check(fl_job_stop(l->ps), "leaving a job");
    fl_job_free(l->ps);
    process_wait(l->server, "a server");
    fl_ctx_free(l->ctx);
    free(l);
}

const ps_kind ps_direct = { .name = "the table",
                            .open = direct_open,
                            .pull = direct_pull,
                            .push = direct_push,
                            .cpu_seconds = direct_cpu_seconds,
                            .close = direct_close };
const ps_kind ps_local = { .name = "the colocated server",
                           .open = local_open,
                           .pull = server_pull,
                           .push = server_push,
                           .cpu_seconds = server_cpu_seconds,
                           .close = server_close };
const ps_kind ps_tcp = { .name = "the server over TCP",
                         .open = tcp_open,
                         .pull = server_pull,
                         .push = server_push,
                         .cpu_seconds = server_cpu_seconds,
                         .close = server_close };
