/* member.c - a member of a job for the tests of clusters. It trains in the mode
 * that MEMBER_MODE names, or in mode sync, in which every run of a job gives
 * the same bits.
 *
 *     member STEPS PAUSE_MS                                  by the environment
 *     member STEPS PAUSE_MS server|worker ID WORKERS SERVERS
 *
 * A line on stdout tells each step, and at the end what the servers hold. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "flotilla/fleet.h"
#include "flotilla/flotilla.h"
#include "../make.h"

enum { ROWS = 32, HEIGHT = 500, DIM = 8 };

static void check(bool is_good, const char *who)
{
    if (is_good)
        return;
    fprintf(stderr, "%s failed: %s\n", who, fl_last_error());
    exit(1);
}

static fl_var *build(fl_ctx *c)
{
    fl_var *id =
        fl_layers_data(c, "id", FL_DTYPE_I64, 2, (int64_t[]){ -1, 1 }, 0);
    fl_var *label =
        fl_layers_data(c, "label", FL_DTYPE_I64, 2, (int64_t[]){ -1, 1 }, 0);
    fl_var *row = fl_layers_embedding(id, HEIGHT, DIM, .is_sparse = true);
    fl_var *hidden = fl_layers_fc(row, 16, .act = "tanh");

    return fl_layers_mean(fl_layers_cross_entropy(
        fl_layers_fc(hidden, 2, .act = "softmax"), label));
}

static void pause_for(long ms)
{
    struct timespec t = { ms / 1000, ms % 1000 * 1000000 };

    while (nanosleep(&t, &t))
        ;
}

/* Which label an id has can be learnt. */
static void make_batch(int64_t *id, int64_t *label, unsigned *seed)
{
    for (int i = 0; i < ROWS; i++) {
        id[i] = rand_r(seed) % HEIGHT;
        label[i] = id[i] / 7 % 2;
    }
}

static void train(fl_executor *exe, fl_fleet *f, const char *loss, long steps,
                  long pause_ms, const char *who)
{
    int64_t id[ROWS] = { 0 }, label[ROWS] = { 0 }, dims[] = { ROWS, 1 };
    fl_feed feeds[] = {
        { "id", fl_tensor_of(FL_DTYPE_I64, id, 2, dims) },
        { "label", fl_tensor_of(FL_DTYPE_I64, label, 2, dims) },
    };
    fl_tensor value;
    fl_run_args args = FL_INIT(fl_run_args, .feeds = feeds, .n_feeds = 2,
                               .fetches = &loss, .n_fetches = 1, .out = &value);
    unsigned seed = (unsigned)fl_fleet_worker_index(f) + 1;

    check(!fl_run(exe, fl_fleet_startup_program(f), NULL), who);
    for (long i = 1; i <= steps; i++) {
        make_batch(id, label, &seed);
        check(!fl_run(exe, fl_fleet_main_program(f), &args), who);
        printf("%s step %ld loss %.9g\n", who, i, *(float *)value.data);
        fflush(stdout);
        pause_for(pause_ms);
    }
}

static void work(fl_ctx *c, fl_fleet *f, const char *loss, char **argv,
                 const char *who)
{
    long steps = strtol(argv[1], NULL, 10);
    fl_executor *exe = make_executor(c);
    uint64_t hash = 0;

    check(exe, who);
    train(exe, f, loss, steps, strtol(argv[2], NULL, 10), who);
    check(!fl_fleet_barrier_worker(f) && !fl_job_hash(fl_fleet_job(f), &hash) &&
              !fl_fleet_stop_worker(f),
          who);
    printf("%s done steps=%ld hash=%016" PRIx64 "\n", who, steps, hash);
    fl_executor_free(exe);
}

static fl_fleet *join(fl_ctx *c, int argc, char **argv)
{
    fl_role_args role = FL_INIT(fl_role_args);
    fl_fleet *f = NULL;

    if (argc == 7) {
        role.role = strcmp(argv[3], "server") ? FL_ROLE_WORKER : FL_ROLE_SERVER;
        role.current_id = (int)strtol(argv[4], NULL, 10);
        role.worker_num = (int)strtol(argv[5], NULL, 10);
        role.server_endpoints = argv[6];
    }
    check(!fl_fleet_init(&f, c, argc == 7 ? &role : NULL), "member");
    return f;
}

static void distribute(fl_ctx *c, fl_fleet *f, fl_var *loss, const char *who)
{
    const char *mode = getenv("MEMBER_MODE");
    fl_strategy *s = make_strategy(f, mode ? mode : "sync");
    fl_optimizer *o = make_optimizer(c, "sgd", "learning_rate=0.5");

    check(s && o && !fl_fleet_distributed_optimizer(f, o, s) &&
              !fl_fleet_minimize(f, loss),
          who);
}

int main(int argc, char **argv)
{
    fl_ctx *c = argc == 3 || argc == 7 ? make_ctx() : NULL;
    fl_fleet *f;
    fl_var *loss;
    char who[32];

    if (!c)
        return fputs("usage: see the head of member.c\n", stderr), 2;
    check(!fl_ctx_set(c, "seed", "7"), "member");
    f = join(c, argc, argv);
    (void)snprintf(who, sizeof(who), "%s %d",
                   fl_fleet_is_server(f) ? "server" : "worker",
                   fl_fleet_is_server(f) ? fl_fleet_server_index(f)
                                         : fl_fleet_worker_index(f));
    loss = build(c);
    check(loss, who);
    distribute(c, f, loss, who);
    if (fl_fleet_is_worker(f))
        work(c, f, fl_var_name(loss), argv, who);
    else
        check(!fl_fleet_init_server(f, NULL) && !fl_fleet_run_server(f), who);
    fl_fleet_free(f);
    fl_ctx_free(c);
    return 0;
}
