/* mlp.c - a first network: two hidden layers, softmax, plain SGD.
 *
 *     usage: mlp [--steps N]
 *
 * The shape of every training program: describe the network once, let the
 * optimizer add the backward and update operators, run the startup program to
 * give the parameters their first values, then run the main program on one
 * batch after the other.
 *
 * The labels are coin flips, so there is nothing to find but that: the cost
 * settles at ln 2 = 0.693, the cost of not knowing.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <flotilla/flotilla.h>

enum { BATCH = 128, X_DIM = 32, HID_DIM = 128, LABEL_DIM = 2 };

/* A failure is told once, at the top, in the library's own words. */
static _Noreturn void die(const char *what)
{
    fprintf(stderr, "mlp: %s: %s\n", what, fl_last_error());
    exit(1);
}

/* A number that depends on its counter alone: every run sees the same data. */
static uint64_t random_bits(uint64_t counter)
{
    uint64_t z = (counter + 1) * 0x9e3779b97f4a7c15u;

    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    return z ^ (z >> 31);
}

typedef struct batch {
    float x[BATCH][X_DIM];
    int64_t y[BATCH][1];
} batch;

static void gen_data(batch *b, int step)
{
    uint64_t counter = (uint64_t)step * BATCH * (X_DIM + 1);

    for (int i = 0; i < BATCH; i++) {
        for (int j = 0; j < X_DIM; j++)
            b->x[i][j] = (float)(random_bits(counter++) >> 40) / (1 << 24);
        b->y[i][0] = (int64_t)(random_bits(counter++) % LABEL_DIM);
    }
}

/* A layer returns NULL when something is wrong and lets NULL through, so the
   network is written straight down and checked once, by the caller. */
static fl_var *mlp(fl_var *input_x, fl_var *input_y)
{
    fl_var *fc_1 = fl_layers_fc(input_x, HID_DIM, .act = "tanh");
    fl_var *fc_2 = fl_layers_fc(fc_1, HID_DIM, .act = "tanh");
    fl_var *prediction = fl_layers_fc(fc_2, LABEL_DIM, .act = "softmax");
    fl_var *cost = fl_layers_cross_entropy(prediction, input_y);

    return fl_layers_mean(cost);
}

/* The number of rows is -1: it is not known before a batch is fed. */
static fl_var *build(fl_ctx *ctx)
{
    fl_var *x =
        fl_layers_data(ctx, "x", FL_DTYPE_F32, 2, (int64_t[]){ -1, X_DIM }, 0);
    fl_var *y =
        fl_layers_data(ctx, "y", FL_DTYPE_I64, 2, (int64_t[]){ -1, 1 }, 0);
    fl_var *cost = mlp(x, y);
    fl_optimizer *sgd;

    if (!cost || fl_optimizer_new(&sgd, ctx, "sgd", "learning_rate=0.01") ||
        fl_minimize(sgd, cost))
        die("building the network");
    return cost;
}

static void train(fl_ctx *ctx, fl_var *cost, int steps)
{
    const int64_t x_dims[] = { BATCH, X_DIM }, y_dims[] = { BATCH, 1 };
    const char *fetches[] = { fl_var_name(cost) };
    fl_executor *exe;
    static batch b;
    fl_feed feeds[] = {
        { "x", fl_tensor_of(FL_DTYPE_F32, b.x, 2, x_dims) },
        { "y", fl_tensor_of(FL_DTYPE_I64, b.y, 2, y_dims) },
    };
    fl_tensor cost_val;
    fl_run_args args =
        FL_INIT(fl_run_args, .feeds = feeds, .n_feeds = 2, .fetches = fetches,
                .n_fetches = 1, .out = &cost_val);

    if (fl_executor_new(&exe, ctx) ||
        fl_run(exe, fl_default_startup_program(ctx), NULL))
        die("running the startup program");
    for (int i = 0; i < steps; i++) {
        gen_data(&b, i);
        if (fl_run(exe, fl_default_main_program(ctx), &args))
            die("training");
        printf("step%d cost=%f\n", i, *(float *)cost_val.data);
    }
    fl_executor_free(exe);
}

/* N of "--steps N"; -1 when it is no count. */
static int read_steps(int argc, char **argv)
{
    char *end;
    long n;

    if (argc == 1)
        return 1001;
    if (argc != 3 || strcmp(argv[1], "--steps"))
        return -1;
    n = strtol(argv[2], &end, 10);
    return end == argv[2] || *end || n < 0 || n > 1000000000 ? -1 : (int)n;
}

int main(int argc, char **argv)
{
    int steps = read_steps(argc, argv);
    fl_ctx *ctx;

    if (steps < 0) {
        fputs("usage: mlp [--steps N]\n", stderr);
        return 2;
    }
    if (fl_ctx_new(&ctx))
        die("reading the settings");
    train(ctx, build(ctx), steps);
    fl_ctx_free(ctx);
    return 0;
}
