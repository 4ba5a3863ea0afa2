/* fleet_strategies.c - one network, four ways to train it together:
 *     fleetrun --server_num=1 --worker_num=2 fleet_strategies STRATEGY [WORDS]
 * STRATEGY is sync, half_async, async or geo; WORDS are settings of it, such as
 * min_block_size=81920. Each worker trains CPU_NUM replicas. */
#include <stdio.h>
#include <stdlib.h>

#include <flotilla/fleet.h>
#include <flotilla/flotilla.h>

enum { BATCH = 64, STEPS = 2000, IDS = 100 };

static int64_t left[BATCH][1], right[BATCH][1], heavier[BATCH][1];

static void check(bool is_good)
{
    if (!is_good)
        fprintf(stderr, "fleet_strategies: %s\n", fl_last_error()), exit(1);
}

/* Which of two ids is the heavier one? */
static void gen_data(unsigned *seed)
{
    for (int i = 0; i < BATCH; i++) {
        left[i][0] = rand_r(seed) % IDS;
        right[i][0] = rand_r(seed) % IDS;
        heavier[i][0] = left[i][0] * 37 % IDS < right[i][0] * 37 % IDS;
    }
}

static fl_var *build(fl_ctx *ctx)
{
    const int64_t one[] = { -1, 1 };
    fl_var *a = fl_layers_data(ctx, "left", FL_DTYPE_I64, 2, one, 0);
    fl_var *b = fl_layers_data(ctx, "right", FL_DTYPE_I64, 2, one, 0);
    fl_var *label = fl_layers_data(ctx, "heavier", FL_DTYPE_I64, 2, one, 0);
    fl_var *x =
        fl_layers_embedding(a, IDS, 8, .is_sparse = true, .param.name = "emb");
    fl_var *y =
        fl_layers_embedding(b, IDS, 8, .is_sparse = true, .param.name = "emb");
    fl_var *h = fl_layers_fc(fl_layers_concat((fl_var *[]){ x, y }, 2, 1), 32,
                             .act = "tanh");

    return fl_layers_mean(
        fl_layers_cross_entropy(fl_layers_fc(h, 2, .act = "softmax"), label));
}

static void train(fl_executor *exe, fl_fleet *fleet, fl_strategy *s,
                  const char *loss)
{
    const int64_t dims[] = { BATCH, 1 };
    fl_feed feeds[] = {
        { "left", fl_tensor_of(FL_DTYPE_I64, left, 2, dims) },
        { "right", fl_tensor_of(FL_DTYPE_I64, right, 2, dims) },
        { "heavier", fl_tensor_of(FL_DTYPE_I64, heavier, 2, dims) },
    };
    unsigned seed = (unsigned)fl_fleet_worker_index(fleet) + 1;
    fl_run_args args = FL_INIT(fl_run_args, .feeds = feeds, .n_feeds = 3,
                               .fetches = &loss, .n_fetches = 1, .out = NULL);
    fl_compiled_program *cp;
    fl_build_strategy bs = FL_INIT(fl_build_strategy);
    fl_exec_strategy es = FL_INIT(fl_exec_strategy);

    check(!fl_fleet_init_worker(fleet));
    check(!fl_run(exe, fl_fleet_startup_program(fleet), NULL));
    check(!fl_strategy_get_build_strategy(s, &bs) &&
          !fl_strategy_get_execute_strategy(s, &es));
    check(!fl_compiled_program_new(&cp, fl_fleet_main_program(fleet)));
    check(!fl_compiled_program_with_data_parallel(cp, loss, &bs, &es));
    args.out =
        calloc((size_t)fl_compiled_program_replicas(cp), sizeof(fl_tensor));
    for (int i = 1; i <= STEPS && args.out; i++) {
        gen_data(&seed);
        check(!fl_run_compiled(exe, cp, &args));
        if (i % 250 == 0)
            printf("step %d loss %.4f\n", i, *(float *)args.out->data);
    }
    check(!fl_fleet_stop_worker(fleet));
    fl_compiled_program_free(cp), free(args.out);
}

int main(int argc, char **argv)
{
    fl_ctx *ctx = NULL;
    fl_var *loss;
    fl_executor *exe = NULL;
    fl_fleet *fleet = NULL;
    fl_optimizer *sgd = NULL;
    fl_strategy *s = NULL;

    if (argc != 2 && argc != 3)
        return fputs("give sync, half_async, async or geo\n", stderr), 2;
    check(!fl_ctx_new(&ctx) && !fl_executor_new(&exe, ctx) &&
          !fl_fleet_init(&fleet, ctx, NULL));
    check(!fl_strategy_new(&s, fleet, argv[1]) &&
          (argc == 2 || !fl_strategy_set(s, argv[2])));
    loss = build(ctx);
    check(!fl_optimizer_new(&sgd, ctx, "sgd", "learning_rate=0.05") &&
          !fl_fleet_distributed_optimizer(fleet, sgd, s) &&
          !fl_fleet_minimize(fleet, loss));
    if (fl_fleet_is_worker(fleet))
        train(exe, fleet, s, fl_var_name(loss));
    else
        check(!fl_fleet_init_server(fleet, NULL) &&
              !fl_fleet_run_server(fleet));
    fl_executor_free(exe), fl_fleet_free(fleet), fl_ctx_free(ctx);
}
