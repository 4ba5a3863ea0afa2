/* tiny.c - what a run costs when there is almost nothing to compute: a network
 * of 2 inputs, 8 hidden units and 1 output learns exclusive or. */
#include <stdio.h>
#include <stdlib.h>

#include "flotilla/flotilla.h"
#include "harness.h"

#define REPEATS 15
#define STEPS 5000 /* per repeat */
#define SAMPLES 4

static const float inputs[SAMPLES][2] = {
    { 0, 0 }, { 0, 1 }, { 1, 0 }, { 1, 1 }
};
static const float targets[SAMPLES][1] = { { 0 }, { 1 }, { 1 }, { 0 } };

typedef struct loop {
    fl_executor *exe;
    fl_program *program;
    fl_run_args args;
} loop;

/* Returns the first value fetched by the last step. */
static double run_steps(void *arg)
{
    const loop *l = arg;

    for (int i = 0; i < STEPS; i++)
        bench_check(fl_run(l->exe, l->program, &l->args), "a step");
    return *(const float *)l->args.out->data;
}

static void measure(const char *name, loop *l)
{
    size_t n = bench_repeats(REPEATS);
    double *us = bench_alloc(n * sizeof *us);
    bench_side side = { run_steps, l };
    bench_sample first = bench_run(&side), last = first;
    bench_spread s;

    for (size_t i = 0; i < n; i++) {
        last = bench_run(&side);
        us[i] = 1e6 * last.seconds / STEPS;
    }
    s = bench_spread_of(us, n);
    bench_row(name, &s, "us");
    free(us);
    printf("# %s: %s %.4f -> %.4f\n", name, *l->args.fetches, first.value,
           last.value);
}

/* Adds a loss and its minimisation to the network and returns the loss. */
static const char *add_training(fl_ctx *c, fl_var *out)
{
    fl_var *y =
        fl_layers_data(c, "y", FL_DTYPE_F32, 2, (int64_t[]){ -1, 1 }, 0);
    fl_var *loss = fl_layers_mean(fl_layers_square_error_cost(out, y));
    fl_optimizer *sgd;

    bench_check_new(loss, "building the network");
    bench_check(fl_optimizer_new(&sgd, c, "sgd", "learning_rate=0.5"),
                "making the optimizer");
    bench_check(fl_minimize(sgd, loss), "minimize");
    return fl_var_name(loss);
}

int main(void)
{
    const fl_feed feeds[] = {
        { "x",
          fl_tensor_of(FL_DTYPE_F32, inputs, 2, (int64_t[]){ SAMPLES, 2 }) },
        { "y",
          fl_tensor_of(FL_DTYPE_F32, targets, 2, (int64_t[]){ SAMPLES, 1 }) }
    };
    fl_ctx *c;
    fl_executor *exe;
    fl_program *training, *test;
    fl_var *x, *out;
    const char *out_name, *loss_name;
    fl_tensor fetched;
    loop step, forward;

    bench_check(fl_ctx_new(&c), "settings");
    bench_check(fl_executor_new(&exe, c), "an executor");
    training = fl_default_main_program(c);
    x = fl_layers_data(c, "x", FL_DTYPE_F32, 2, (int64_t[]){ -1, 2 }, 0);
    out = fl_layers_fc(fl_layers_fc(x, 8, .act = "tanh"), 1, .act = "sigmoid");
    bench_check_new(out, "building the network");
    bench_check(fl_program_for_test(&test, training), "the forward program");
    out_name = fl_var_name(out);
    loss_name = add_training(c, out);
    bench_check(fl_run(exe, fl_default_startup_program(c), NULL), "startup");
    step = (loop){ exe, training,
                   FL_INIT(fl_run_args, .feeds = feeds, .n_feeds = 2,
                           .fetches = &loss_name, .n_fetches = 1,
                           .out = &fetched) };
    forward = (loop){ exe, test,
                      FL_INIT(fl_run_args, .feeds = feeds, .n_feeds = 1,
                              .fetches = &out_name, .n_fetches = 1,
                              .out = &fetched) };
    measure("tiny.step_us", &step);
    measure("tiny.forward_us", &forward);
    fl_program_free(test);
    fl_executor_free(exe);
    fl_ctx_free(c);
    return 0;
}
