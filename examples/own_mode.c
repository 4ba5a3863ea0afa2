/* own_mode.c - a mode of our own, in a page:
 *     fleetrun --server_num=1 --worker_num=2 own_mode
 * Gradients go to the servers at once, and a worker looks at the others' dense
 * parameters after every fourth batch only. */
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <flotilla/experimental/mode.h>
#include <flotilla/flotilla.h>

enum { BATCH = 64, STEPS = 1200, IDS = 100, LOOKS_EVERY = 4 };

static void check(bool is_good)
{
    if (!is_good)
        fprintf(stderr, "own_mode: %s\n", fl_last_error()), exit(1);
}

typedef struct lazy {
    fl_job *job;
    atomic_int n_calls;
} lazy;

static void *lazy_open(fl_job *job)
{
    lazy *m = calloc(1, sizeof(*m));

    return check(m != NULL), m->job = job, m;
}

/* Pull, push and send are left out: the library does them. The first call is
   the startup program's. */
static fl_status lazy_recv(void *mode, const fl_param_values *v, size_t n)
{
    lazy *m = mode;

    if (atomic_fetch_add(&m->n_calls, 1) % LOOKS_EVERY)
        return FL_OK;
    return fl_mode_recv(m->job, v, n);
}

static const fl_mode_def lazy_mode = {
    .size = sizeof(fl_mode_def),
    .name = "lazy",
    .passes = "dist_sparse dist_pull dist_place dist_server dist_send "
              "dist_recv dist_startup",
    .open = lazy_open,
    .close = free,
    .recv = lazy_recv,
};

static fl_var *build(fl_ctx *ctx)
{
    const int64_t one[] = { -1, 1 };
    fl_var *id = fl_layers_data(ctx, "id", FL_DTYPE_I64, 2, one, 0);
    fl_var *odd = fl_layers_data(ctx, "odd", FL_DTYPE_I64, 2, one, 0);
    fl_var *h =
        fl_layers_fc(fl_layers_embedding(id, IDS, 8, .is_sparse = true), 16);

    return fl_layers_mean(
        fl_layers_cross_entropy(fl_layers_fc(h, 2, .act = "softmax"), odd));
}

static void train(fl_executor *exe, fl_fleet *fleet, const char *loss)
{
    int64_t id[BATCH] = { 0 }, odd[BATCH] = { 0 }, dims[] = { BATCH, 1 };
    fl_feed feeds[] = { { "id", fl_tensor_of(FL_DTYPE_I64, id, 2, dims) },
                        { "odd", fl_tensor_of(FL_DTYPE_I64, odd, 2, dims) } };
    unsigned seed = (unsigned)fl_fleet_worker_index(fleet) + 1;
    fl_tensor out;
    fl_run_args args = FL_INIT(fl_run_args, .feeds = feeds, .n_feeds = 2,
                               .fetches = &loss, .n_fetches = 1, .out = &out);

    check(!fl_run(exe, fl_fleet_startup_program(fleet), NULL));
    for (int i = 1; i <= STEPS; i++) {
        for (int k = 0; k < BATCH; k++)
            id[k] = rand_r(&seed) % IDS, odd[k] = id[k] * 7 % 13 % 2;
        check(!fl_run(exe, fl_fleet_main_program(fleet), &args));
        if (i % 300 == 0)
            printf("step %d loss %.4f\n", i, *(float *)out.data);
    }
    check(!fl_fleet_stop_worker(fleet));
}

int main(void)
{
    fl_ctx *ctx = NULL;
    fl_var *loss;
    fl_executor *exe = NULL;
    fl_optimizer *sgd = NULL;
    fl_fleet *fleet = NULL;

    check(!fl_ctx_new(&ctx) && !fl_executor_new(&exe, ctx) &&
          !fl_fleet_init(&fleet, ctx, NULL) &&
          !fl_optimizer_new(&sgd, ctx, "sgd", "learning_rate=0.2"));
    loss = build(ctx);
    check(!fl_ctx_add_mode(ctx, &lazy_mode));
    check(!fl_fleet_use_mode(fleet, "lazy"));
    check(!fl_fleet_distributed_optimizer(fleet, sgd, NULL) &&
          !fl_fleet_minimize(fleet, loss));
    if (fl_fleet_is_worker(fleet))
        train(exe, fleet, fl_var_name(loss));
    else
        check(!fl_fleet_init_server(fleet, NULL) &&
              !fl_fleet_run_server(fleet));
    fl_executor_free(exe), fl_fleet_free(fleet), fl_ctx_free(ctx);
}
