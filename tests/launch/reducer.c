/* reducer.c - a worker that trains epochs and reduces a number after each. Its
 * first life as worker 1 ends in the midst of the third one.
 *
 *     fleetrun --max_restart=1 ... reducer DIR      DIR keeps the mark of that
 */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>

#include <flotilla/fleet.h>
#include <flotilla/flotilla.h>

enum { EPOCHS = 5, BATCHES = 3, ROWS = 4 };

static void check(bool is_good)
{
    if (!is_good)
        fprintf(stderr, "reducer: %s\n", fl_last_error()), exit(1);
}

static fl_var *build(fl_ctx *c)
{
    fl_var *x =
        fl_layers_data(c, "x", FL_DTYPE_F32, 2, (int64_t[]){ -1, 2 }, 0);

    return fl_layers_mean(fl_layers_fc(x, 1));
}

/* Once, by the file that it leaves. */
static void die_once(const char *dir)
{
    char path[4096];
    FILE *f;

    (void)snprintf(path, sizeof(path), "%s/died", dir);
    f = fopen(path, "wx");
    if (f)
        (void)raise(SIGKILL);
}

static void train(fl_ctx *c, fl_fleet *f, const char *dir)
{
    static float x[ROWS][2] = { { 1, 2 }, { 3, 4 }, { 5, 6 }, { 7, 8 } };
    fl_feed feed = { "x",
                     fl_tensor_of(FL_DTYPE_F32, x, 2, (int64_t[]){ ROWS, 2 }) };
    fl_run_args args = FL_INIT(fl_run_args, .feeds = &feed, .n_feeds = 1);
    fl_executor *e;
    int rank = fl_fleet_worker_index(f);

    check(!fl_executor_new(&e, c));
    check(!fl_run(e, fl_fleet_startup_program(f), NULL));
    for (int epoch = 0; epoch < EPOCHS; epoch++) {
        double sum, max;

        for (int i = 0; i < BATCHES; i++) {
            check(!fl_run(e, fl_fleet_main_program(f), &args));
            if (rank == 1 && epoch == 2 && i == 1)
                die_once(dir);
        }
        check(!fl_fleet_metrics_sum(f, 10 * epoch + rank + 1, &sum));
        check(!fl_fleet_metrics_max(f, epoch, &max));
        check(!fl_fleet_barrier_worker(f));
        printf("worker %d epoch %d sum %g max %g\n", rank, epoch, sum, max);
        (void)fflush(stdout);
    }
    check(!fl_fleet_stop_worker(f));
    fl_executor_free(e);
}

int main(int argc, char **argv)
{
    fl_strategy *s;
    fl_optimizer *o;
    fl_fleet *f;
    fl_var *loss;
    fl_ctx *c;

    if (argc != 3)
        return fputs("usage: reducer DIR MODE\n", stderr), 2;
    check(!fl_ctx_new(&c));
    loss = build(c);
    check(!fl_fleet_init(&f, c, NULL));
    check(!fl_optimizer_new(&o, c, "sgd", "learning_rate=0.01"));
    check(!fl_strategy_new(&s, f, argv[2]));
    check(!fl_fleet_distributed_optimizer(f, o, s));
    check(!fl_fleet_minimize(f, loss));
    if (fl_fleet_is_worker(f))
        train(c, f, argv[1]);
    else
        check(!fl_fleet_init_server(f, NULL) && !fl_fleet_run_server(f));
    fl_fleet_free(f);
    fl_ctx_free(c);
    return 0;
}
