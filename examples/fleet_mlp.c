/* fleet_mlp.c - the network of mlp.c, trained by a job of many processes.
 *
 *     fleet_mlp STEPS                                 one process
 *     fleetrun --server_num=1 --worker_num=2 fleet_mlp STEPS
 *     fleet_mlp STEPS server|worker ID WORKERS HOST:PORT,...
 *
 * The first two take their role from the environment; the last one is told. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <flotilla/fleet.h>
#include <flotilla/flotilla.h>

enum { BATCH = 128, X_DIM = 32 };

static float x[BATCH][X_DIM];
static int64_t y[BATCH][1];

static void check(bool is_good)
{
    if (!is_good)
        fprintf(stderr, "fleet_mlp: %s\n", fl_last_error()), exit(1);
}

/* Coin flips as labels: the cost settles at ln 2, that of not knowing. */
static void gen_data(unsigned *seed)
{
    for (int i = 0; i < BATCH; i++) {
        for (int j = 0; j < X_DIM; j++)
            x[i][j] = (float)rand_r(seed) / (float)RAND_MAX;
        y[i][0] = rand_r(seed) >> 4 & 1;
    }
}

static fl_var *mlp(fl_ctx *ctx)
{
    fl_var *in =
        fl_layers_data(ctx, "x", FL_DTYPE_F32, 2, (int64_t[]){ -1, 32 }, 0);
    fl_var *label =
        fl_layers_data(ctx, "y", FL_DTYPE_I64, 2, (int64_t[]){ -1, 1 }, 0);
    fl_var *fc_1 = fl_layers_fc(in, 128, .act = "tanh");
    fl_var *fc_2 = fl_layers_fc(fc_1, 128, .act = "tanh");
    fl_var *prediction = fl_layers_fc(fc_2, 2, .act = "softmax");

    return fl_layers_mean(fl_layers_cross_entropy(prediction, label));
}

static void train(fl_ctx *ctx, fl_fleet *fleet, const char *cost, long steps)
{
    fl_feed feeds[] = {
        { "x", fl_tensor_of(FL_DTYPE_F32, x, 2, (int64_t[]){ BATCH, X_DIM }) },
        { "y", fl_tensor_of(FL_DTYPE_I64, y, 2, (int64_t[]){ BATCH, 1 }) },
    };
    fl_tensor val;
    fl_run_args args = FL_INIT(fl_run_args, .feeds = feeds, .n_feeds = 2,
                               .fetches = &cost, .n_fetches = 1, .out = &val);
    unsigned seed = (unsigned)fl_fleet_worker_index(fleet) + 1;
    fl_executor *exe = NULL;

    check(!fl_executor_new(&exe, ctx));
    check(!fl_run(exe, fl_default_startup_program(ctx), NULL));
    for (long i = 0; i < steps; i++) {
        gen_data(&seed);
        check(!fl_run(exe, fl_default_main_program(ctx), &args));
        printf("worker_index: %d, step%ld cost = %f\n",
               fl_fleet_worker_index(fleet), i, *(float *)val.data);
    }
    fl_executor_free(exe);
}

int main(int argc, char **argv)
{
    fl_role_args role = FL_INIT(fl_role_args);
    fl_ctx *ctx = NULL;
    fl_var *cost;
    fl_fleet *fleet = NULL;
    fl_optimizer *sgd = NULL;
    fl_strategy *s = NULL;

    if (argc != 2 && argc != 6)
        return fputs("usage: see the head of fleet_mlp.c\n", stderr), 2;
    if (argc == 6) {
        role.role = strcmp(argv[2], "server") ? FL_ROLE_WORKER : FL_ROLE_SERVER;
        role.current_id = (int)strtol(argv[3], NULL, 10);
        role.worker_num = (int)strtol(argv[4], NULL, 10);
        role.server_endpoints = argv[5];
    }
    check(!fl_ctx_new(&ctx) &&
          !fl_fleet_init(&fleet, ctx, argc == 6 ? &role : NULL));
    check(!fl_strategy_new(&s, fleet, "a_sync") &&
          !fl_strategy_set(s, "a_sync=true"));
    check(!fl_optimizer_new(&sgd, ctx, "sgd", "learning_rate=0.01") &&
          !fl_fleet_distributed_optimizer(fleet, sgd, s));
    cost = mlp(ctx);
    check(!fl_fleet_minimize(fleet, cost));
    if (fl_fleet_is_worker(fleet))
        train(ctx, fleet, fl_var_name(cost), strtol(argv[1], NULL, 10));
    else
        check(!fl_fleet_init_server(fleet, NULL) &&
              !fl_fleet_run_server(fleet));
    fl_fleet_free(fleet);
    fl_ctx_free(ctx);
}
