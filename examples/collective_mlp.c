/* collective_mlp.c - the network of mlp.c, trained by workers without servers.
 *
 *     collective_mlp STEPS                            one process
 *     fleetrun --worker_num=4 collective_mlp STEPS    four workers
 *     collective_mlp STEPS WORKERS                    one process, on the batches
 *                                                     of so many workers, joined
 *
 * Every worker computes gradients on a batch of its own, all of them get the
 * mean, and all update alike: so four workers come to what the last line comes
 * to. */
#include <stdio.h>
#include <stdlib.h>

#include <flotilla/fleet.h>
#include <flotilla/flotilla.h>

enum { BATCH = 128, X_DIM = 32, WORKERS_MAX = 8 };

static float x[WORKERS_MAX * BATCH][X_DIM];
static int64_t y[WORKERS_MAX * BATCH][1];

static void check(bool is_good)
{
    if (!is_good)
        fprintf(stderr, "collective_mlp: %s\n", fl_last_error()), exit(1);
}

/* The batch of a worker: which of two halves of the numbers is larger. */
static void gen_data(float (*to_x)[X_DIM], int64_t (*to_y)[1], unsigned *seed)
{
    for (int i = 0; i < BATCH; i++) {
        float sum = 0;

        for (int j = 0; j < X_DIM; j++) {
            to_x[i][j] = (float)rand_r(seed) / (float)RAND_MAX;
            sum += j < X_DIM / 2 ? to_x[i][j] : -to_x[i][j];
        }
        to_y[i][0] = sum > 0;
    }
}

static fl_var *mlp(fl_var *input_x, fl_var *input_y)
{
    fl_var *fc_1 = fl_layers_fc(input_x, 128, .act = "tanh");
    fl_var *fc_2 = fl_layers_fc(fc_1, 128, .act = "tanh");
    fl_var *prediction = fl_layers_fc(fc_2, 2, .act = "softmax");

    return fl_layers_mean(fl_layers_cross_entropy(prediction, input_y));
}

static void train(fl_executor *exe, fl_ctx *ctx, fl_fleet *fleet,
                  const char *cost, long steps, int joined)
{
    int64_t n = (int64_t)joined * BATCH;
    fl_feed feeds[] = {
        { "x", fl_tensor_of(FL_DTYPE_F32, x, 2, (int64_t[]){ n, X_DIM }) },
        { "y", fl_tensor_of(FL_DTYPE_I64, y, 2, (int64_t[]){ n, 1 }) },
    };
    fl_tensor cost_val;
    fl_run_args args =
        FL_INIT(fl_run_args, .feeds = feeds, .n_feeds = 2, .fetches = &cost,
                .n_fetches = 1, .out = &cost_val);
    unsigned seeds[WORKERS_MAX];

    for (int w = 0; w < joined; w++)
        seeds[w] = (unsigned)(fl_fleet_worker_index(fleet) + w) + 1;
    for (long i = 0; i < steps; i++) {
        for (int w = 0; w < joined; w++)
            gen_data(x + w * BATCH, y + w * BATCH, &seeds[w]);
        check(!fl_run(exe, fl_default_main_program(ctx), &args));
        printf("worker_index: %d, step%ld cost = %f\n",
               fl_fleet_worker_index(fleet), i, *(float *)cost_val.data);
    }
}

int main(int argc, char **argv)
{
    int joined = argc > 2 ? (int)strtol(argv[2], NULL, 10) : 1;
    fl_ctx *ctx = NULL;
    fl_fleet *fleet = NULL;
    fl_executor *exe = NULL;
    fl_optimizer *optimizer = NULL;
    fl_var *input_x, *input_y, *cost;

    if (argc < 2 || argc > 3 || joined < 1 || joined > WORKERS_MAX)
        return fputs("usage: see the head of collective_mlp.c\n", stderr), 2;
    setvbuf(stdout, NULL, _IOLBF, 0); /* a log has whole lines */
    check(!fl_ctx_new(&ctx));
    input_x =
        fl_layers_data(ctx, "x", FL_DTYPE_F32, 2, (int64_t[]){ -1, X_DIM }, 0);
    input_y =
        fl_layers_data(ctx, "y", FL_DTYPE_I64, 2, (int64_t[]){ -1, 1 }, 0);
    cost = mlp(input_x, input_y);
    check(!fl_optimizer_new(&optimizer, ctx, "sgd", "learning_rate=0.01"));

    check(!fl_fleet_init(&fleet, ctx,
                         FL_OPTIONS(fl_role_args, .is_collective = true)));
    check(!fl_fleet_distributed_optimizer(fleet, optimizer, NULL));
    check(!fl_fleet_minimize(fleet, cost));

    check(!fl_executor_new(&exe, ctx));
    check(!fl_run(exe, fl_default_startup_program(ctx), NULL));
    train(exe, ctx, fleet, fl_var_name(cost), strtol(argv[1], NULL, 10),
          joined);
    check(!fl_fleet_stop_worker(fleet));
    fl_executor_free(exe);
    fl_fleet_free(fleet);
    fl_ctx_free(ctx);
}
