/* collective_sweep_inside.c - a worker that adds up with others by the built-in
 * engine. Parts travel as in a job: as messages between the workers' own servers,
 * by TCP. */
#include <sched.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/log.h"
#include "coll/coll.h"
#include "collective_sweep.h"
#include "harness.h"
#include "ops/ops.h"
#include "ps/options.h"
#include "rpc/stream/socket.h"

typedef struct worker {
    const sweep_seat *seat;
    const char *servers[CREW_MAX];
    fl_conf conf;
    fl_net *net;
    fl_server *server;
    fl_client *client;
    fl_coll *coll;
} worker;

/* --- how parts travel ------------------------------------------------------- */

static fl_status send_part(void *arg, const fl_coll_out *o)
{
    worker *w = arg;
    fl_client_part p = { { o->head, o->head_bytes }, { o->bytes, o->n } };

    return fl_client_send_part(w->client, o->to, &p,
                               (fl_ending){ o->ended, o->arg });
}

static void take_part(void *arg, int from, const void *part, size_t len,
                      struct fl_reply *reply)
{
    worker *w = arg;

    fl_coll_on_part(w->coll, from, part, len,
                    (fl_coll_receipt){ fl_server_part_taken, reply });
}

/* --- coming and going -------------------------------------------------------- */

static void open_server(worker *w)
{
    fl_server_options o = fl_server_options_of(&w->conf);

    o.servers = w->servers;
    o.n_servers = o.n_trainers = w->seat->n;
    o.rank = w->seat->rank;
    o.n_loops = 1;
    o.ops = &fl_ops;
    bench_check(fl_server_new(&w->server, w->net, NULL, &o), "a server");
}

static void connect_all(worker *w)
{
    fl_client_options o = fl_client_options_of(&w->conf);

    o.servers = w->servers;
    o.n_servers = o.n_trainers = w->seat->n;
    o.rank = w->seat->rank;
    bench_check(fl_client_new(&w->client, w->net, NULL, &o), "a client");
}

/* Nobody sends a part before all can take it. */
static void open_coll(worker *w)
{
    size_t small = w->seat->is_small ? SIZE_MAX : 1;
    fl_coll_options o = { .rank = w->seat->rank,
                          .n_ranks = w->seat->n,
                          .link = { send_part, w },
                          .machine = w->seat->is_shared ? NULL : "",
                          .small_sent_bytes = small,
                          .small_shared_bytes = small };
    fl_barrier_request r = { .name = "sweep" };

    bench_check(fl_coll_new(&w->coll, &o), "an engine");
    fl_server_on_part(w->server, take_part, w);
    bench_check(fl_client_barrier(w->client, &r, NULL, FL_WAIT), "a barrier");
}

static void close_all(worker *w)
{
    bench_check(fl_client_leave(w->client, FL_WAIT), "the end");
    bench_check(fl_server_wait(w->server), "the end");
    fl_server_on_part(w->server, NULL, NULL);
    fl_coll_free(w->coll);
    fl_client_free(w->client);
    fl_server_free(w->server);
    fl_net_free_sockets(w->net);
    fl_conf_release(&w->conf);
}

/* --- work --------------------------------------------------------------------- */

static void meet(void *arg)
{
    fl_coll_call a = { .kind = FL_COLL_BARRIER };

    bench_check(fl_coll_run(((worker *)arg)->coll, &a), "a barrier");
}

static void add_up(void *arg, float *data, float *out, size_t n)
{
    fl_coll_call a = { .kind = FL_COLL_ALLREDUCE, .in = data, .n = n };

    a.out = out;
    bench_check(fl_coll_run(((worker *)arg)->coll, &a), "an allreduce");
}

/* Two of them on one core while another is free would be measured as sleep. */
static void pin(int rank)
{
    long n = sysconf(_SC_NPROCESSORS_ONLN);
    cpu_set_t set;

    CPU_ZERO(&set);
    CPU_SET((size_t)(rank % (int)(n > 0 ? n : 1)), &set);
    (void)sched_setaffinity(0, sizeof set, &set);
}

void sweep_serve(const sweep_seat *s)
{
    fl_socket_options so = { .local = FL_LOCAL_OFF };
    worker w = { .seat = s };

    for (int i = 0; i < s->n; i++)
        w.servers[i] = s->addresses[i];
    pin(s->rank);
    fl_log_set_level(FL_LOG_WARN);
    bench_check(fl_conf_init(&w.conf), "settings");
    bench_check(fl_net_sockets(&w.net, &so), "a net");
    open_server(&w);
    connect_all(&w);
    open_coll(&w);
    crew_serve(s->pipes, s->rank, &(crew_work){ meet, add_up, &w });
    close_all(&w);
}
