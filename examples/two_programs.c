/* two_programs.c - two programs in one process. Layers and an optimizer write
 * the trainer, whose parameters live in the context's scope. The reader is made
 * of operators appended by name, and runs in a child of that scope, where it
 * sees the parameters. What is to be learnt is y = 2 a - 3 b + 1.
 */
#include <stdio.h>
#include <stdlib.h>

#include <flotilla/flotilla.h>

enum { BATCH = 64, STEPS = 400 };

static float x[BATCH * 2], y[BATCH];

static void check(int ok)
{
    if (!ok)
        exit(fprintf(stderr, "two_programs: %s\n", fl_last_error()) > 0);
}

static fl_var *data(fl_ctx *ctx, const char *name, int64_t width)
{
    return fl_layers_data(ctx, name, FL_DTYPE_F32, 2, (int64_t[]){ -1, width },
                          0);
}

static void build_trainer(fl_ctx *ctx, fl_program *main, fl_program *startup)
{
    fl_optimizer *sgd = NULL;
    fl_var *line, *cost;

    check(!fl_program_push(ctx, main, startup));
    line = fl_layers_fc(data(ctx, "x", 2), 1, .name = "line");
    cost = fl_layers_square_error_cost(line, data(ctx, "y", 1));
    check(!fl_optimizer_new(&sgd, ctx, "sgd", "learning_rate=0.5") &&
          !fl_minimize(sgd, fl_layers_mean(cost)));
    fl_program_pop(ctx);
}

/* prediction = x w + b, with w and b of the trainer. */
static void build_reader(fl_ctx *ctx, fl_program *p)
{
    fl_block *b = fl_program_block(p, 0);

    check(!fl_program_push(ctx, p, NULL) && data(ctx, "x", 2));
    check(!fl_create_parameter(NULL, b, "line.w_0", .shape = { 2, { 2, 1 } }));
    check(!fl_create_parameter(NULL, b, "line.b_0", .shape = { 1, { 1 } }));
    check(!fl_append_op(NULL, b, "mul",
                        .inputs = FL_ARGS({ "X", "x" }, { "Y", "line.w_0" }),
                        .outputs = FL_ARGS({ "Out", "xw" })));
    check(!fl_append_op(NULL, b, "elementwise_add",
                        .inputs = FL_ARGS({ "X", "xw" }, { "Y", "line.b_0" }),
                        .outputs = FL_ARGS({ "Out", "prediction" }),
                        .attrs = FL_ATTRS(fl_int_attr("axis", 1))));
    fl_program_pop(ctx);
}

static void list_operators(const fl_program *p)
{
    const fl_block *b = fl_program_block(p, 0);
    const char *slot;

    for (fl_op_node *n = NULL; (n = fl_block_next_op(b, n)) != NULL;) {
        printf("op %s", fl_op_type(n));
        for (size_t i = 0; (slot = fl_op_slot_name(n, FL_OP_INPUTS, i, 0)); i++)
            printf(" %s=%s", slot,
                   fl_var_name(fl_op_var(n, FL_OP_INPUTS, i, 0)));
        printf("\n");
    }
}

static void train(fl_executor *exe, fl_program *p, const fl_feed *feeds)
{
    fl_run_args args = FL_INIT(fl_run_args, .feeds = feeds, .n_feeds = 2);

    for (int i = 0; i < BATCH; i++) {
        x[2 * i] = (float)(i % 8) / 8;
        x[2 * i + 1] = (float)(i >> 3) / 8;
        y[i] = 2 * x[2 * i] - 3 * x[2 * i + 1] + 1;
    }
    for (int step = 0; step < STEPS; step++)
        check(!fl_run(exe, p, &args));
}

int main(void)
{
    fl_feed feeds[] = {
        { "x", fl_tensor_of(FL_DTYPE_F32, x, 2, (int64_t[]){ BATCH, 2 }) },
        { "y", fl_tensor_of(FL_DTYPE_F32, y, 2, (int64_t[]){ BATCH, 1 }) },
    };
    fl_program *trainer = NULL, *startup = NULL, *reader = NULL;
    fl_tensor w, out;
    fl_run_args args = FL_INIT(fl_run_args, .feeds = feeds, .n_feeds = 1,
                               .n_fetches = 1, .out = &out);
    fl_executor *exe = NULL;
    fl_ctx *ctx = NULL;

    check(!fl_ctx_new(&ctx) && !fl_executor_new(&exe, ctx) &&
          !fl_program_new(&trainer, ctx) && !fl_program_new(&startup, ctx) &&
          !fl_program_new(&reader, ctx) &&
          !fl_scope_new(&args.scope, fl_current_scope(ctx)));
    build_trainer(ctx, trainer, startup);
    build_reader(ctx, reader);
    list_operators(reader);
    check(!fl_run(exe, startup, NULL));
    train(exe, trainer, feeds);
    args.fetches = (const char *[]){ "prediction" };
    check(!fl_run(exe, reader, &args) &&
          !fl_scope_get(args.scope, "line.w_0", &w));
    printf("weights %.2f %.2f\n", ((float *)w.data)[0], ((float *)w.data)[1]);
    printf("predicted %.3f, is %.3f\n", ((float *)out.data)[63], y[63]);
    fl_executor_free(exe);
    fl_scope_free(args.scope);
    fl_program_free(reader);
    fl_program_free(startup);
    fl_program_free(trainer);
    fl_ctx_free(ctx);
    return 0;
}
