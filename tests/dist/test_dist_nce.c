/* test_dist_nce.c - noise-contrastive estimation whose weights are rows on
 * servers, or with workers that serve: in every mode it learns what it learns
 * alone. */
#include <math.h>
#include <string.h>

#include "dist_kit.h"
#include "mode_list.h"
#include "../make.h"

#define STEPS 30
#define CLASSES 50

/* What is written: a layer over rows, one over tables from the start, or the
   operator alone with is_sparse, as programs of other origin have it. */
static const char *const forms[] = { "rows", "tables", "operator" };

static bool is_form(const kit_job *j, int i)
{
    return !strcmp(j->words, forms[i]);
}

static fl_status mark_sparse(fl_ctx *c)
{
    fl_block *b = fl_program_block(fl_default_main_program(c), 0);
    const fl_attr yes = { .type = FL_ATTR_BOOL, .b = true };
    fl_op_node *n = NULL;

    while ((n = fl_block_next_op(b, n)))
        if (!strcmp(fl_op_type(n), "nce"))
            return fl_op_set_attr(n, "is_sparse", &yes);
    return FL_ERR_NOTFOUND;
}

static fl_var *pooled(fl_ctx *c, const char *name)
{
    fl_var *ids =
        fl_layers_data(c, name, FL_DTYPE_I64, 2, (int64_t[]){ -1, 1 }, 1);

    return fl_layers_sequence_pool(
        fl_layers_embedding(
            ids, KIT_HEIGHT, KIT_DIM, .is_sparse = true,
            .param = { .name = "emb", .init = "uniform(-0.5,0.5)" }),
        "sum");
}

/* The label of a sample is told from noise by its ids. */
static fl_var *build(fl_ctx *c, const kit_job *j)
{
    fl_var *x = fl_layers_concat(
        (fl_var *[]){ pooled(c, "s0"), pooled(c, "s1"), pooled(c, "s2") },
        KIT_SLOTS, 1);
    fl_var *label =
        fl_layers_data(c, "label", FL_DTYPE_I64, 2, (int64_t[]){ -1, 1 }, 0);
    fl_var *loss = fl_layers_mean(fl_layers_nce(
        x, label, CLASSES, .num_neg_samples = 5, .is_sparse = is_form(j, 0),
        .is_distributed = is_form(j, 1),
        .param = { .name = "w", .init = "uniform(-0.5,0.5)" },
        .bias = { .name = "b" }));
    fl_optimizer *o;

    fl_layers_data(c, "dense", FL_DTYPE_F32, 2, (int64_t[]){ -1, KIT_DENSE },
                   0);
    if (!loss || (is_form(j, 2) && mark_sparse(c)) ||
        fl_optimizer_new(&o, c, "sgd", "learning_rate=0.5") ||
        fl_minimize(o, loss))
        return NULL;
    return loss;
}

static double alone(const kit_job *j)
{
    fl_ctx *c = make_ctx();
    fl_executor *e = make_executor(c);
    const char *loss;
    fl_tensor out;
    fl_run_args args = FL_INIT(fl_run_args, .n_feeds = KIT_FEEDS,
                               .fetches = &loss, .n_fetches = 1, .out = &out);
    double last = 0;

    must(fl_ctx_set(c, "seed", "7"));
    loss = fl_var_name(build(c, j));
    must(fl_run(e, fl_default_startup_program(c), NULL));
    for (int i = 0; i < STEPS; i++) {
        kit_batch *b = kit_batch_make(j, 0, 1, i);

        args.feeds = kit_batch_feeds(b);
        must(fl_run(e, fl_default_main_program(c), &args));
        last = (double)*(const float *)out.data;
        kit_batch_free(b);
    }
    fl_executor_free(e);
    fl_ctx_free(c);
    return last;
}

/* Without servers rows are in every worker, unless they are of a table. */
static bool has_tables(const kit_job *j)
{
    return strcmp(j->mode, "collective") || is_form(j, 1);
}

/* What a trainer saw last, and that its weights are a table. */
static fl_status train(kit_trainer *t, void *arg)
{
    fl_job *job = fl_transpiler_job(t->transpiler);
    int table;

    for (int i = 0; i < STEPS; i++) {
        fl_status st = kit_step(t, i);

        if (st)
            return st;
    }
    *(double *)arg = t->last_loss;
    if (!has_tables(t->job))
        return FL_OK;
    if (fl_job_find_table(job, "w", &table))
        return FL_ERR_NOTFOUND;
    return fl_job_find_table(job, "b", &table);
}

static void expect_alike(kit_job *j)
{
    kit_text texts[KIT_MEMBERS] = { 0 };
    double want = alone(j), got = NAN;
    /* The rows of an async step may be older. */
    double tolerance = strcmp(j->mode, "async") ? 1e-5 : 0.5;

    kit_run(j, train, &got, NULL, texts);
    for (int i = 0; i < KIT_MEMBERS; i++)
        if (texts[i][0])
            fail_msg("%s, %s: %s", j->mode, j->words, texts[i]);
    if (!(fabs(got - want) <= tolerance))
        fail_msg("%s, %s: the loss is %g, alone it is %g", j->mode, j->words,
                 got, want);
}

static void noise_is_told_from_rows_in_every_mode(void **state)
{
    (void)state;
    for (size_t i = 0; job_mode_name(i); i++)
        for (size_t f = 0; f < sizeof(forms) / sizeof(forms[0]); f++) {
            kit_job j = { .mode = job_mode_name(i),
                          .build = build,
                          .n_servers = 2,
                          .n_steps = STEPS,
                          .words = forms[f],
                          .settings = { { "prefetch", "false" },
                                        { "geo_need_push_nums", "1" } } };

            expect_alike(&j);
        }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(noise_is_told_from_rows_in_every_mode),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
