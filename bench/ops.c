/* ops.c - the operators that the built-in models spend their time in, each
 * against the same as a straight loop or as oneDNN has it.
 *
 * A program holds several copies of one operator, which read the same inputs
 * and write an output each; so the cost of a run, which bench tiny measures, is
 * shared by them. What counts is CPU time. The straight form writes as many outputs. Both take turns,
 * and the numbers must agree, or the program fails.
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "flotilla/flotilla.h"
#include "harness.h"
#include "ops_onednn.h"
#include "ops_straight.h"

#ifdef OPS_SMALL
enum { ROWS = 128, WIDTH = 64, UNITS = 64, COPIES = 32 };
#else
enum { ROWS = 4096, WIDTH = 256, UNITS = 256, COPIES = 4 };
#endif

#define REPEATS 15
#define SAMPLE_SECONDS 0.01 /* one repeat of either side, at least */
#define SEQUENCE_MAX 15
#define AGREE 1e-4 /* of max(1, |straight|) */
#define TEXT_MAX 512
#define FEEDS_MAX 4

/* --- what is measured ----------------------------------------------------- */

enum { N = ROWS * WIDTH };

/* $ in the text is the number of the copy; y$ is compared, also$ fetched, since
   what nobody reads is not computed. Work is bytes that
   must move at the least, or operations; `numbers` are those of y$. */
typedef struct ops_case {
    const char *name, *feeds, *text;
    ops_straight straight;
    double work;
    const char *unit; /* of a billionth of the work per second */
} ops_case;

#define PRODUCT(rows, inner, cols) (2.0 * (rows) * (inner) * (cols)), "GFLOP/s"
#define MOVES(floats) (4.0 * (floats)), "GB/s"

static const ops_case cases[] = {
    { "mul", "x w", "op mul (X=x, Y=w) -> (Out=y$)\n", straight_mul,
      PRODUCT(ROWS, WIDTH, UNITS) },
    { "fc", "x w bias",
      "op fc (Input=x, W=w, Bias=bias) -> (Out=y$) {activation_type=relu}\n",
      straight_fc, PRODUCT(ROWS, WIDTH, UNITS) },
    { "matmul", "x table",
      "op matmul (X=x, Y=table) -> (Out=y$) {transpose_Y=true}\n",
      straight_matmul, PRODUCT(ROWS, WIDTH, UNITS) },
    { "elementwise_add", "x b", "op elementwise_add (X=x, Y=b) -> (Out=y$)\n",
      straight_add, MOVES(2 * N) },
    { "elementwise_sub", "x y", "op elementwise_sub (X=x, Y=y) -> (Out=y$)\n",
      straight_sub, MOVES(3 * N) },
    { "elementwise_mul", "x y", "op elementwise_mul (X=x, Y=y) -> (Out=y$)\n",
      straight_times, MOVES(3 * N) },
    { "relu", "x", "op relu (X=x) -> (Out=y$)\n", straight_relu, MOVES(2 * N) },
    { "relu_grad", "x y",
      "op relu_grad (X=x, Out=x, Out@GRAD=y) -> (X@GRAD=y$) @backward\n",
      straight_relu_grad, MOVES(3 * N) },
    { "tanh", "x", "op tanh (X=x) -> (Out=y$)\n", straight_tanh, MOVES(2 * N) },
    { "sigmoid", "x", "op sigmoid (X=x) -> (Out=y$)\n", straight_sigmoid,
      MOVES(2 * N) },
    { "square", "x", "op square (X=x) -> (Out=y$)\n", straight_square,
      MOVES(2 * N) },
    { "softmax", "x", "op softmax (X=x) -> (Out=y$)\n", straight_softmax,
      MOVES(2 * N) },
    { "softmax_with_cross_entropy", "x labels",
      "op softmax_with_cross_entropy (Logits=x, Label=labels) -> "
      "(Softmax=s$, Loss=y$)\n",
      straight_softmax_loss, MOVES(2 * N) },
    { "cross_entropy", "p labels",
      "op cross_entropy (X=p, Label=labels) -> (Y=y$)\n",
      straight_cross_entropy, MOVES(4 * ROWS) },
    { "sigmoid_cross_entropy_with_logits", "x targets",
      "op sigmoid_cross_entropy_with_logits (X=x, Label=targets) -> "
      "(Out=y$)\n",
      straight_sigmoid_loss, MOVES(3 * N) },
    { "reduce_sum", "x", "op reduce_sum (X=x) -> (Out=y$) {dim=[1]}\n",
      straight_reduce_sum, MOVES(N) },
    { "mean", "x", "op mean (X=x) -> (Out=y$)\n", straight_mean, MOVES(N) },
    { "sum", "x y p", "op sum (X=[x,y,p]) -> (Out=y$)\n", straight_sum,
      MOVES(4 * N) },
    { "concat", "x y p", "op concat (X=[x,y,p]) -> (Out=y$) {axis=1}\n",
      straight_concat, MOVES(6 * N) },
    { "lookup_table", "table ids",
      "op lookup_table (W=table, Ids=ids) -> (Out=y$)\n", straight_lookup,
      MOVES(2 * N) },
    { "sequence_pool", "rows",
      "op sequence_pool (X=rows) -> (Out=y$) {pooltype=SUM}\n",
      straight_pool_sum, MOVES(N) },
    { "sequence_pool_max", "rows",
      "op sequence_pool (X=rows) -> (Out=y$, MaxIndex=m$) {pooltype=MAX}\n",
      straight_pool_max, MOVES(N) },
    { "cos_sim", "x y",
      "op cos_sim (X=x, Y=y) -> (Out=y$, XNorm=n$, YNorm=m$)\n",
      straight_cos_sim, MOVES(2 * N) },
    { "sequence_conv", "rows filter",
      "op sequence_conv (X=rows, Filter=filter) -> (Out=y$) "
      "{contextLength=3, contextStart=-1}\n",
      straight_sequence_conv, PRODUCT(ROWS, OPS_CONTEXT *WIDTH, UNITS) },
    { "gru", "gates recurrent",
      "op gru (Input=gates, Weight=recurrent) -> (Hidden=y$)\n", straight_gru,
      PRODUCT(ROWS, WIDTH, 3 * WIDTH) },
    { "sequence_conv_grad", "rows filter grads",
      "op sequence_conv_grad (X=rows, Filter=filter, Out@GRAD=grads) -> "
      "(X@GRAD=y$, Filter@GRAD=also$) {contextLength=3, contextStart=-1} "
      "@backward\n",
      straight_sequence_conv_grad,
      PRODUCT(ROWS, 2 * OPS_CONTEXT * WIDTH, UNITS) },
    /* forth and back */
    { "gru_grad", "gates recurrent grads",
      "op gru (Input=gates, Weight=recurrent) -> (BatchGate=g$, "
      "BatchResetHiddenPrev=r$, BatchHidden=b$, Hidden=h$)\n"
      "op gru_grad (Input=gates, Weight=recurrent, BatchGate=g$, "
      "BatchResetHiddenPrev=r$, BatchHidden=b$, Hidden@GRAD=grads) -> "
      "(Input@GRAD=y$, Weight@GRAD=also$) @backward\n",
      straight_gru_grad, PRODUCT(ROWS, WIDTH, 9 * WIDTH) },
};

/* --- data ----------------------------------------------------------------- */

static uint64_t drawn;

/* In [0, 1). */
static double draw(void)
{
    drawn = drawn * 6364136223846793005u + 1442695040888963407u;
    return (double)(drawn >> 11) / 9007199254740992.0;
}

static float *draw_floats(size_t n)
{
    float *x = bench_alloc(n * sizeof *x);

    for (size_t i = 0; i < n; i++)
        x[i] = (float)(2 * draw() - 1);
    return x;
}

static int64_t *draw_ids(size_t n, size_t below)
{
    int64_t *x = bench_alloc(n * sizeof *x);

    for (size_t i = 0; i < n; i++)
        x[i] = (int64_t)(draw() * (double)below);
    return x;
}

/* Rows that add up to 1. */
static float *draw_shares(size_t rows, size_t width)
{
    float *x = bench_alloc(rows * width * sizeof *x);

    for (size_t i = 0; i < rows; i++) {
        float sum = 0;

        for (size_t j = 0; j < width; j++)
            sum += x[i * width + j] = (float)draw() + 0.1f;
        for (size_t j = 0; j < width; j++)
            x[i * width + j] /= sum;
    }
    return x;
}

/* Sequences of 1 to SEQUENCE_MAX rows. */
static void draw_offsets(ops_data *d)
{
    d->offsets = bench_alloc((d->rows + 1) * sizeof *d->offsets);
    while (d->offsets[d->n_seq] < (int64_t)d->rows) {
        int64_t end =
            d->offsets[d->n_seq] + 1 + (int64_t)(draw() * SEQUENCE_MAX);

        d->offsets[++d->n_seq] =
            end < (int64_t)d->rows ? end : (int64_t)d->rows;
    }
}

static void draw_data(ops_data *d)
{
    *d = (ops_data){ .rows = ROWS, .width = WIDTH, .units = UNITS };
    draw_offsets(d);
    d->x = draw_floats(N);
    d->y = draw_floats(N);
    d->p = draw_shares(ROWS, WIDTH);
    d->b = draw_floats(WIDTH);
    d->w = draw_floats((size_t)WIDTH * UNITS);
    d->bias = draw_floats(UNITS);
    d->table = draw_floats((size_t)UNITS * WIDTH);
    d->filter = draw_floats((size_t)OPS_CONTEXT * WIDTH * UNITS);
    d->gates = draw_floats((size_t)3 * N);
    d->recurrent = draw_floats((size_t)3 * WIDTH * WIDTH);
    for (size_t i = 0; i < (size_t)3 * WIDTH * WIDTH; i++)
        d->recurrent[i] /= WIDTH; /* far from chaos */
    d->ids = draw_ids(ROWS, UNITS);
    d->labels = draw_ids(ROWS, WIDTH);
    d->targets = draw_floats(N);
    for (size_t i = 0; i < N; i++)
        d->targets[i] = d->targets[i] > 0;
    d->room = bench_alloc(ops_room_bytes(d));
}

static void free_data(ops_data *d)
{
    void *const all[] = { d->x,       d->y,       d->p,         d->b,
                          d->w,       d->bias,    d->table,     d->filter,
                          d->gates,   d->ids,     d->recurrent, d->labels,
                          d->targets, d->offsets, d->room };

    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        free(all[i]);
}

/* The input of that name, as it is fed. */
static fl_feed feed_of(const ops_data *d, const char *name)
{
    const struct {
        const char *name;
        const void *data;
        int64_t dims[2];
        fl_dtype dtype;
        bool ragged;
    } all[] = {
        { "x", d->x, { ROWS, WIDTH }, FL_DTYPE_F32, false },
        { "y", d->y, { ROWS, WIDTH }, FL_DTYPE_F32, false },
        { "p", d->p, { ROWS, WIDTH }, FL_DTYPE_F32, false },
        { "b", d->b, { 1, WIDTH }, FL_DTYPE_F32, false },
        { "w", d->w, { WIDTH, UNITS }, FL_DTYPE_F32, false },
        { "bias", d->bias, { 1, UNITS }, FL_DTYPE_F32, false },
        { "table", d->table, { UNITS, WIDTH }, FL_DTYPE_F32, false },
        { "filter",
          d->filter,
          { OPS_CONTEXT * WIDTH, UNITS },
          FL_DTYPE_F32,
          false },
        { "recurrent",
          d->recurrent,
          { WIDTH, 3 * WIDTH },
          FL_DTYPE_F32,
          false },
        { "ids", d->ids, { ROWS, 1 }, FL_DTYPE_I64, false },
        { "labels", d->labels, { ROWS, 1 }, FL_DTYPE_I64, false },
        { "targets", d->targets, { ROWS, WIDTH }, FL_DTYPE_F32, false },
        { "rows", d->x, { ROWS, WIDTH }, FL_DTYPE_F32, true },
        { "gates", d->gates, { ROWS, 3 * WIDTH }, FL_DTYPE_F32, true },
        { "grads", d->y, { ROWS, WIDTH }, FL_DTYPE_F32, true },
    };
    size_t i = 0;

    while (strcmp(all[i].name, name) != 0)
        i++;
    if (all[i].ragged)
        return (fl_feed){ all[i].name,
                          fl_tensor_ragged(all[i].dtype, all[i].data, 2,
                                           all[i].dims, d->offsets,
                                           (int64_t)d->n_seq) };
    return (fl_feed){ all[i].name,
                      fl_tensor_of(all[i].dtype, all[i].data, 2, all[i].dims) };
}

/* --- both sides ----------------------------------------------------------- */

typedef struct ops_side {
    const ops_case *c;
    const ops_data *data;
    size_t loops; /* in one repeat */
    /* ours */
    fl_ctx *ctx;
    fl_executor *exe;
    fl_feed feeds[FEEDS_MAX];
    fl_run_args args;
    char names[2 * COPIES][8];
    const char *fetches[2 * COPIES];
    fl_tensor out[2 * COPIES];
    /* the straight one's */
    float *to[COPIES];
} ops_side;

static double run_ours(void *arg)
{
    ops_side *s = arg;

    for (size_t i = 0; i < s->loops; i++)
        bench_check(fl_run(s->exe, fl_default_main_program(s->ctx), &s->args),
                    s->c->name);
    return 0;
}

static double run_straight(void *arg)
{
    ops_side *s = arg;

    for (size_t i = 0; i < s->loops; i++)
        for (size_t k = 0; k < COPIES; k++)
            s->c->straight(s->data, s->to[k]);
    return 0;
}

/* Declares and feeds the inputs that the case names. */
static void add_feeds(ops_side *s)
{
    char words[TEXT_MAX];
    char *rest = words;

    snprintf(words, sizeof words, "%s", s->c->feeds);
    for (char *w = strtok_r(rest, " ", &rest); w;
         w = strtok_r(rest, " ", &rest)) {
        fl_feed f = feed_of(s->data, w);
        fl_shape *shape = &f.value.shape;
        const fl_var *v;

        v = fl_layers_data(s->ctx, f.name, f.value.dtype, shape->rank,
                           shape->dim, f.value.n_lod);
        bench_check_new(v, f.name);
        s->feeds[s->args.n_feeds++] = f;
    }
}

static void add_fetch(ops_side *s, int i, const char *name, int k)
{
    snprintf(s->names[i], sizeof s->names[i], "%s%d", name, k);
    s->fetches[i] = s->names[i];
}

/* The text of the case with the number of the copy in it. */
static void add_copy(ops_side *s, int k)
{
    char text[TEXT_MAX], *at = text;

    for (const char *c = s->c->text; *c; c++)
        at += snprintf(at, (size_t)(text + sizeof text - at),
                       *c == '$' ? "%d" : "%c", *c == '$' ? k : *c);
    bench_check(fl_program_add(fl_default_main_program(s->ctx), text), text);
    add_fetch(s, k, "y", k);
    if (strstr(s->c->text, "also$"))
        add_fetch(s, COPIES + k, "also", k);
}

static void open_ours(ops_side *s)
{
    size_t n_fetches = strstr(s->c->text, "also$") ? 2 * COPIES : COPIES;

    bench_check(fl_ctx_new(&s->ctx), "settings");
    bench_check(fl_executor_new(&s->exe, s->ctx), "an executor");
    s->args = FL_INIT(fl_run_args, .feeds = s->feeds, .fetches = s->fetches,
                      .n_fetches = n_fetches, .out = s->out);
    add_feeds(s);
    for (int k = 0; k < COPIES; k++)
        add_copy(s, k);
}

/* Runs both once and compares the numbers of the last copy. */
static void compare(ops_side *s)
{
    const float *ours;
    int64_t n;

    s->loops = 1;
    (void)run_ours(s);
    ours = s->out[COPIES - 1].data;
    n = fl_tensor_numel(&s->out[COPIES - 1]);
    for (size_t k = 0; k < COPIES; k++)
        s->to[k] = bench_alloc((size_t)n * sizeof(float));
    (void)run_straight(s);
    for (int64_t i = 0; i < n; i++) {
        double want = (double)s->to[COPIES - 1][i];
        double error = fabs((double)ours[i] - want) / fmax(1, fabs(want));

        if (error <= AGREE)
            continue;
        fprintf(stderr, "bench ops: %s: number %lld is %g, straight %g\n",
                s->c->name, (long long)i, (double)ours[i], want);
        exit(1);
    }
}

static void close_side(ops_side *s)
{
    for (size_t k = 0; k < COPIES; k++)
        free(s->to[k]);
    fl_executor_free(s->exe);
    fl_ctx_free(s->ctx);
}

/* --- measuring ------------------------------------------------------------ */

static void report(const ops_side *s, const bench_sample *ours,
                   const bench_sample *straight, size_t n)
{
    double work = s->c->work * COPIES * (double)s->loops / 1e9;
    double *rate = bench_alloc(3 * n * sizeof *rate);
    double *floor_rate = rate + n, *share = rate + 2 * n;
    char prefix[64];

    for (size_t i = 0; i < n; i++) {
        rate[i] = work / ours[i].cpu_seconds;
        floor_rate[i] = work / straight[i].cpu_seconds;
        share[i] = straight[i].cpu_seconds / ours[i].cpu_seconds;
    }
    snprintf(prefix, sizeof prefix, "ops.%s", s->c->name);
    bench_figure(prefix, "rate", rate, n, s->c->unit);
    bench_figure(prefix, "straight_rate", floor_rate, n, s->c->unit);
    bench_figure(prefix, "of_straight", share, n, "");
    free(rate);
}

static void measure(const ops_case *c, const ops_data *d)
{
    size_t n = bench_repeats(REPEATS);
    bench_sample *samples = bench_alloc(2 * n * sizeof *samples);
    ops_side s = { .c = c, .data = d };
    bench_side ours = { run_ours, &s }, straight = { run_straight, &s };

    open_ours(&s);
    compare(&s);
    while (bench_run(&straight).cpu_seconds < SAMPLE_SECONDS ||
           bench_run(&ours).cpu_seconds < SAMPLE_SECONDS)
        s.loops *= 2;
    bench_pairs(&ours, &straight, n, samples, samples + n);
    report(&s, samples, samples + n, n);
    close_side(&s);
    free(samples);
}

/* With words on the command line, only the operators of these names. */
static bool is_asked(const char *name, int argc, char **argv)
{
    for (int i = 1; i < argc; i++)
        if (strcmp(argv[i], name) == 0)
            return true;
    return argc < 2;
}

int main(int argc, char **argv)
{
    ops_data d;

    onednn_start();
    draw_data(&d);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        if (is_asked(cases[i].name, argc, argv))
            measure(&cases[i], &d);
    free_data(&d);
    return 0;
}
