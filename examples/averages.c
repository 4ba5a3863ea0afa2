/* averages.c - what surrounds an optimizer: a schedule under a warm-up, an
 * update once in several batches, and evaluation with averaged parameters.
 *
 *     usage: averages [OPTIMIZER [SETTINGS]]
 *
 * What is to be learnt is y = 2 a - 3 b + 1, told with much noise in batches of
 * four, so that the parameters never come to rest. Their average does.
 */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#include <flotilla/flotilla.h>

enum { BATCH = 4, STEPS = 2000, SHOWN = 500 };

static float x[BATCH * 2], y[BATCH];

static void check(int ok)
{
    if (!ok)
        exit(fprintf(stderr, "averages: %s\n", fl_last_error()) > 0);
}

/* Between -1 and 1, by its counter. */
static float draw(uint64_t counter)
{
    uint64_t z = (counter + 1) * 0x9e3779b97f4a7c15u;

    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    return (float)(int64_t)(z ^ (z >> 31)) / 9.3e18f;
}

static void make_batch(uint64_t step, float noise)
{
    for (int i = 0; i < BATCH; i++) {
        uint64_t at = (step * BATCH + (uint64_t)i) * 3;
        float a = draw(at), b = draw(at + 1);

        x[2 * i] = a;
        x[2 * i + 1] = b;
        y[i] = 2 * a - 3 * b + 1 + noise * draw(at + 2);
    }
}

static fl_var *data(fl_ctx *ctx, const char *name, int64_t width)
{
    return fl_layers_data(ctx, name, FL_DTYPE_F32, 2, (int64_t[]){ -1, width },
                          0);
}

static fl_var *build(fl_ctx *ctx, const char *kind, const char *words)
{
    fl_var *line = fl_layers_fc(data(ctx, "x", 2), 1, .name = "line");
    fl_var *loss =
        fl_layers_mean(fl_layers_square_error_cost(line, data(ctx, "y", 1)));
    fl_var *rate = fl_layers_polynomial_decay(ctx, 0.2, STEPS, 0.1, 1, false);
    fl_optimizer *o = NULL;

    check(!fl_optimizer_new(&o, ctx, kind, words));
    fl_optimizer_set_lr(o, fl_layers_linear_lr_warmup(rate, 20, 0, 0.2));
    check(!fl_minimize(o, loss));
    return loss;
}

static double run(fl_executor *exe, fl_program *p, fl_var *loss)
{
    const fl_feed feeds[] = {
        { "x", fl_tensor_of(FL_DTYPE_F32, x, 2, (int64_t[]){ BATCH, 2 }) },
        { "y", fl_tensor_of(FL_DTYPE_F32, y, 2, (int64_t[]){ BATCH, 1 }) },
    };
    const char *fetch = fl_var_name(loss);
    fl_tensor out;
    fl_run_args args = FL_INIT(fl_run_args, .feeds = feeds, .n_feeds = 2,
                               .fetches = &fetch, .n_fetches = 1, .out = &out);

    check(!fl_run(exe, p, &args));
    return *(const float *)out.data;
}

/* Over many batches without noise. */
static double evaluate(fl_executor *exe, fl_program *p, fl_var *loss)
{
    double sum = 0;

    for (uint64_t i = 0; i < 50; i++) {
        make_batch(STEPS + i, 0);
        sum += run(exe, p, loss);
    }
    return sum / 50;
}

static void show(fl_executor *exe, fl_program *p, fl_var *loss, fl_average *a)
{
    double now = evaluate(exe, p, loss), averaged;

    check(!fl_average_apply(a));
    averaged = evaluate(exe, p, loss);
    check(!fl_average_restore(a));
    printf("loss %.6f averaged %.6f\n", now, averaged);
}

int main(int argc, char **argv)
{
    fl_executor *exe = NULL;
    fl_average *average = NULL;
    fl_program *test = NULL;
    fl_ctx *ctx = NULL;
    fl_var *loss;

    check(!fl_ctx_new(&ctx) && !fl_executor_new(&exe, ctx));
    loss = build(ctx, argc > 1 ? argv[1] : "sgd",
                 argc > 2 ? argv[2] : "accumulate=2");
    check(!fl_average_new(&average, ctx, "exponential",
                          .settings = "decay=0.99") &&
          !fl_program_for_test(&test, fl_default_main_program(ctx)) &&
          !fl_run(exe, fl_default_startup_program(ctx), NULL));
    for (uint64_t step = 1; step <= STEPS; step++) {
        make_batch(step - 1, 2);
        run(exe, fl_default_main_program(ctx), loss);
        if (step % SHOWN == 0)
            show(exe, test, loss, average);
    }
    fl_average_free(average);
    fl_program_free(test);
    fl_executor_free(exe);
    fl_ctx_free(ctx);
    return 0;
}
