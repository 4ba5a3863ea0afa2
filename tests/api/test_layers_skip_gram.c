/* test_layers_skip_gram.c - skip_gram against the network of single operators
 * on the same draws, its steps in order, in place and in tables, and what it
 * refuses. */
#include "api.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#define V 40
#define DIM 20
#define N_WORDS 60
#define N_NOISE 50

static int64_t words[N_WORDS], noise[N_NOISE];
static const int64_t starts[] = { 0, 25, 25, 26, 60 };
static fl_ctx *ctx;
static fl_executor *exe;

static int open_all(void **state)
{
    (void)state;
    for (int64_t i = 0; i < N_WORDS; i++)
        words[i] = i * i % V;
    for (int64_t i = 0; i < N_NOISE; i++)
        noise[i] = i * 7 % 31;
    assert_ok(fl_ctx_new(&ctx));
    assert_ok(fl_executor_new(&exe, ctx));
    return 0;
}

static int close_all(void **state)
{
    (void)state;
    fl_executor_free(exe);
    fl_ctx_free(ctx);
    return 0;
}

static fl_tensor column(int64_t *ids, int64_t n)
{
    return fl_tensor_of(FL_DTYPE_I64, ids, 2, (int64_t[]){ n, 1 });
}

static fl_tensor sentences(void)
{
    fl_tensor t = column(words, N_WORDS);

    t.kind = FL_KIND_RAGGED;
    t.n_lod = 1;
    t.lod[0] = starts;
    t.lod_len[0] = sizeof starts / sizeof *starts;
    return t;
}

static void run(fl_program *p, const char *const *fetches, size_t n,
                fl_tensor *out)
{
    fl_feed feeds[] = { { "w", sentences() }, { "z", column(noise, N_NOISE) } };

    assert_ok(
        fl_run(exe, p,
               FL_OPTIONS(fl_run_args, .feeds = feeds, .n_feeds = 2,
                          .fetches = fetches, .n_fetches = n, .out = out)));
}

/* --- the network of single operators --------------------------------------- */

static const char head[] =
    "var w : i64[-1,1] data lod=1\n"
    "var z : i64[-1,1] data\n"
    "param x : f32[40,20] init=uniform(-1,1) trainable\n"
    "param y : f32[40,20] init=uniform(-1,1) trainable\n";

static const char network[] =
    "op skip_gram_pairs (Words=w, Noise=z) -> (Input=i, Target=t, "
    "Negatives=n) {%s}\n"
    "op lookup_table (W=x, Ids=i) -> (Out=a)\n"
    "op lookup_table (W=y, Ids=t) -> (Out=b)\n"
    "op lookup_table_v2 (W=y, Ids=n) -> (Out=c)\n"
    "op elementwise_mul (X=a, Y=b) -> (Out=ab)\n"
    "op reduce_sum (X=ab) -> (Out=right) {dim=[1], keep_dim=true}\n"
    "op reshape2 (X=a) -> (Out=a3) {shape=[-1,1,20]}\n"
    "op matmul (X=a3, Y=c) -> (Out=ac) {transpose_Y=true}\n"
    "op scale (X=right) -> (Out=ones) {scale=0, bias=1}\n"
    "op scale (X=ac) -> (Out=zeros) {scale=0}\n"
    "op sigmoid_cross_entropy_with_logits (X=right, Label=ones) -> "
    "(Out=right_cost)\n"
    "op sigmoid_cross_entropy_with_logits (X=ac, Label=zeros) -> "
    "(Out=wrong_cost)\n"
    "op reduce_sum (X=right_cost) -> (Out=right_sum) {reduce_all=true}\n"
    "op reduce_sum (X=wrong_cost) -> (Out=wrong_sum) {reduce_all=true}\n"
    "op elementwise_add (X=right_sum, Y=wrong_sum) -> (Out=l)\n";

static const char fused[] =
    "op skip_gram (X=x, Y=y, XIds=w, YIds=w, NoiseIds=z) -> (Loss=l, Mean=m) "
    "{%s}\n";

typedef struct outcome {
    double loss, x[V * DIM], y[V * DIM];
} outcome;

/* Rows + values as they would be in an array. */
static void densify(const fl_tensor *t, double *out)
{
    const float *values = t->data;

    memset(out, 0, V * DIM * sizeof *out);
    for (int64_t i = 0; i < t->shape.dim[0]; i++)
        for (int64_t k = 0; k < DIM; k++)
            out[(t->rows ? (int64_t)t->rows[i] : i) * DIM + k] +=
                (double)values[i * DIM + k];
}

static fl_program *program_of(const char *text, const char *attrs)
{
    char all[4096];
    fl_program *p;
    int n = snprintf(all, sizeof all, "%s", head);

    (void)snprintf(all + n, sizeof all - (size_t)n, text, attrs);
    assert_ok(fl_program_from_text(&p, ctx, all));
    return p;
}

/* Loss and gradients of both parameters, from the same first values. */
static void examine(const char *text, const char *attrs, outcome *out)
{
    static const char *const fetches[] = { "l", "x@GRAD", "y@GRAD" };
    fl_program *p = program_of(text, attrs);
    fl_param_grad *pg;
    fl_tensor got[3];
    size_t n;

    assert_ok(fl_append_backward(fl_program_var(p, "l"), &pg, &n));
    assert_int_equal(n, 2);
    fl_param_grads_free(pg);
    run(p, fetches, 3, got);
    out->loss = (double)*(const float *)got[0].data;
    densify(&got[1], out->x);
    densify(&got[2], out->y);
    fl_program_free(p);
}

static void fill(const char *name, uint32_t seed)
{
    static float values[V * DIM];
    fl_tensor t = fl_tensor_of(FL_DTYPE_F32, values, 2, (int64_t[]){ V, DIM });

    for (int i = 0; i < V * DIM; i++) {
        seed = seed * 1664525u + 1013904223u;
        values[i] = (float)(seed >> 8) / (1 << 24) - 0.5f;
    }
    assert_ok(fl_scope_set(fl_current_scope(ctx), name, &t));
}

static void fill_both(void)
{
    fill("x", 1);
    fill("y", 2);
}

static void assert_near(const double *a, const double *b, double within)
{
    for (int i = 0; i < V * DIM; i++)
        if (!(fabs(a[i] - b[i]) <= within * fmax(1, fabs(b[i]))))
            fail_msg("number %d: %.9g is not %.9g", i, a[i], b[i]);
}

static const char *const attrs_of[] = { "seed=5", "seed=6, shared=true",
                                        "seed=7, negatives=9, window=3",
                                        "seed=8, negatives=8, shared=true" };

static void
the_same_draws_give_the_loss_and_gradients_of_the_network(void **state)
{
    (void)state;
    fill_both();
    for (size_t i = 0; i < sizeof attrs_of / sizeof *attrs_of; i++) {
        outcome want, got;

        examine(network, attrs_of[i], &want);
        examine(fused, attrs_of[i], &got);
        assert_true(want.loss > 10);
        assert_true(fabs(got.loss - want.loss) <= 1e-5 * want.loss);
        assert_near(got.x, want.x, 1e-5);
        assert_near(got.y, want.y, 1e-5);
    }
}

/* --- steps ------------------------------------------------------------------ */

static void make_optimizer(fl_optimizer **o, const char *kind, double rate)
{
    char settings[64];

    (void)snprintf(settings, sizeof settings, "learning_rate=%g", rate);
    assert_ok(fl_optimizer_new(o, ctx, kind, settings));
}

/* Trains for two steps and gives x and the means of the losses. */
static void train(const char *attrs, const char *kind, bool optimize,
                  outcome *out)
{
    static const char *const mean = "m";
    fl_program *p = program_of(fused, attrs), *startup;
    fl_optimizer *o;
    fl_tensor t;

    assert_ok(fl_ctx_set(ctx, "optimize", optimize ? "true" : "false"));
    assert_ok(fl_program_new(&startup, ctx));
    assert_ok(fl_program_push(ctx, p, startup));
    make_optimizer(&o, kind, 0.1);
    assert_ok(fl_minimize(o, fl_program_var(p, "l")));
    fl_program_pop(ctx);
    fill_both();
    assert_ok(fl_run(exe, startup, NULL));
    fill_both();
    fl_scope_set_step(fl_current_scope(ctx), 0);
    out->loss = 0;
    for (int i = 0; i < 2; i++) {
        run(p, &mean, 1, &t);
        out->loss += (double)*(const float *)t.data;
    }
    assert_ok(fl_scope_get(fl_current_scope(ctx), "x", &t));
    densify(&t, out->x);
    assert_ok(fl_scope_get(fl_current_scope(ctx), "y", &t));
    densify(&t, out->y);
    fl_program_free(startup);
    fl_program_free(p);
}

static void steps_in_place_end_where_steps_on_copies_do(void **state)
{
    static const char *const attrs[] = { "seed=5, step=0.1",
                                         "seed=6, step=0.1, shared=true" };

    (void)state;
    for (size_t i = 0; i < 2; i++) {
        outcome copies, in_place;

        train(attrs[i], "sgd", false, &copies);
        train(attrs[i], "sgd", true, &in_place);
        assert_near(in_place.x, copies.x, 1e-5);
        assert_near(in_place.y, copies.y, 1e-5);
    }
}

static void what_runs_in_place_is_one_operator(void **state)
{
    fl_program *p = program_of(fused, "seed=5, step=0.1"), *startup;
    fl_optimizer *o;
    char *text;

    (void)state;
    assert_ok(fl_program_new(&startup, ctx));
    assert_ok(fl_program_push(ctx, p, startup));
    make_optimizer(&o, "sgd", 0.1);
    assert_ok(fl_minimize(o, fl_program_var(p, "l")));
    fl_program_pop(ctx);
    assert_ok(fl_executor_explain(exe, p, NULL, &text));
    assert_text_has(text, "op skip_gram_sgd (");
    assert_null(strstr(text, "op sgd ("));
    free(text);
    fl_program_free(startup);
    fl_program_free(p);
}

/* --- the layer -------------------------------------------------------------- */

/* The losses of some steps, with rows in memory or in tables. */
static void follow(bool in_tables, double losses[3])
{
    fl_program *p, *startup;
    fl_optimizer *o;
    fl_var *loss, *mean = NULL, *w, *z;
    const char *name;
    fl_tensor t;

    assert_ok(fl_program_new(&p, ctx));
    assert_ok(fl_program_new(&startup, ctx));
    assert_ok(fl_program_push(ctx, p, startup));
    w = fl_layers_data(ctx, "w", FL_DTYPE_I64, 2, (int64_t[]){ -1, 1 }, 1);
    z = fl_layers_data(ctx, "z", FL_DTYPE_I64, 2, (int64_t[]){ -1, 1 }, 0);
    loss = fl_layers_skip_gram(w, z, V, DIM, .is_distributed = in_tables,
                               .shared = true, .seed = 3, .step = 0.05,
                               .mean = &mean, .param.name = "in",
                               .target_param.name = "out");
    if (!loss)
        fail_msg("%s", fl_last_error());
    make_optimizer(&o, "sgd", 0.05);
    assert_ok(fl_minimize(o, loss));
    fl_program_pop(ctx);
    assert_ok(fl_run(exe, startup, NULL));
    fl_scope_set_step(fl_current_scope(ctx), 0);
    name = fl_var_name(mean);
    for (int i = 0; i < 3; i++) {
        run(p, &name, 1, &t);
        losses[i] = (double)*(const float *)t.data;
    }
    (void)fl_scope_drop(fl_current_scope(ctx), "in");
    (void)fl_scope_drop(fl_current_scope(ctx), "out");
    fl_program_free(p);
    fl_program_free(startup);
}

static void rows_in_tables_learn_as_rows_in_memory_do(void **state)
{
    double memory[3], tables[3];

    (void)state;
    follow(false, memory);
    follow(true, tables);
    assert_true(memory[0] < 6 * log(2) + 0.1 && memory[2] < memory[0]);
    for (int i = 0; i < 3; i++)
        assert_true(fabs(memory[i] - tables[i]) < 1e-4);
}

static void what_does_not_fit_is_refused(void **state)
{
    static const char *const cases[][2] = {
        { "op skip_gram (X=x, Y=x, XIds=w, YIds=w, NoiseIds=z) -> (Loss=l)",
          "needs a row as an input and another as a target" },
        { "op skip_gram (X=x, Y=y, XIds=z, YIds=w, NoiseIds=z) -> (Loss=l)",
          "XIds (z: i64[-1,1]) must be sentences" },
        { "op skip_gram (X=x, Y=y, XIds=w, YIds=w, NoiseIds=x) -> (Loss=l)",
          "must be i64 or u64" },
        { "op skip_gram (X=x, Y=y, XIds=w, YIds=w, NoiseIds=z) -> (Loss=l) "
          "{window=0}",
          "window=0 is not in 1..1000" },
        { "op skip_gram (X=x, Y=y, XIds=w, YIds=w, NoiseIds=z) -> (Loss=l) "
          "{negatives=-1}",
          "negatives=-1 is not in 0..1024" },
        { "op skip_gram (X=x, Y=y, XIds=w, YIds=w, NoiseIds=z) -> (Loss=l) "
          "{step=-1}",
          "step=-1 is not a rate" },
        { "op skip_gram (X=x, Y=q, XIds=w, YIds=w, NoiseIds=z) -> (Loss=l)",
          "must be rows of one width" },
    };
    char text[2048];
    fl_program *p;

    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        (void)snprintf(text, sizeof text, "%sparam q : f32[40,3]\n%s\n", head,
                       cases[i][0]);
        assert_true(fl_program_from_text(&p, ctx, text) != FL_OK);
        assert_said(cases[i][1]);
    }
    assert_null(fl_layers_skip_gram(NULL, NULL, V, DIM, ));
}

static void words_that_are_not_there_are_named(void **state)
{
    fl_program *p = program_of(fused, "seed=5");
    fl_feed feeds[] = { { "w", sentences() }, { "z", column(noise, N_NOISE) } };
    const char *loss = "l";
    fl_tensor t;
    fl_run_args args = { .size = sizeof args,
                         .feeds = feeds,
                         .n_feeds = 2,
                         .fetches = &loss,
                         .n_fetches = 1,
                         .out = &t };

    (void)state;
    fill_both();
    words[3] = V;
    assert_true(fl_run(exe, p, &args) != FL_OK);
    assert_said("XIds");
    words[3] = 3;
    noise[4] = -1;
    assert_true(fl_run(exe, p, &args) != FL_OK);
    assert_said("NoiseIds");
    noise[4] = 4;
    feeds[1].value = column(noise, 0);
    assert_true(fl_run(exe, p, &args) != FL_OK);
    assert_said("none to draw negatives from");
    fl_program_free(p);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(
            the_same_draws_give_the_loss_and_gradients_of_the_network),
        cmocka_unit_test(steps_in_place_end_where_steps_on_copies_do),
        cmocka_unit_test(what_runs_in_place_is_one_operator),
        cmocka_unit_test(rows_in_tables_learn_as_rows_in_memory_do),
        cmocka_unit_test(what_does_not_fit_is_refused),
        cmocka_unit_test(words_that_are_not_there_are_named),
    };

    return cmocka_run_group_tests(tests, open_all, close_all);
}
