/* models.c - the built-in models on lines that are made here: samples per
 * second with 1 and 2 threads, and where the time goes.
 *
 * Lines are parsed once and stay in memory, so that it is training that is
 * measured. Some models take turns with the same network in straight C
 * (models_straight.c), over the same lines; both must learn alike. The share of
 * what is neither a matrix product nor a lookup nor an update comes from a
 * profile of one thread. With words on the command line, only the models of
 * these names are measured.
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "harness.h"
#include "models.h"
#include "models_lines.h"
#include "models_straight.h"

#define THREADS_MAX 2
#define REPEATS 7
#define SEED 1
#define LOSS_OFF_MAX 0.02 /* of the first pass: they begin elsewhere */

/* A model in training. */
typedef struct run {
    const char *name;
    fl_ctx *ctx;
    fl_executor *exe;
    fl_dataset *data;
    model_net net;
    int n_threads;
    double samples; /* of a pass */
} run;

/* --- one model ------------------------------------------------------------ */

static void open_data(run *r, const models_lines *of, const model *m,
                      const char *path)
{
    bench_check(fl_dataset_new(&r->data, r->ctx, "InMemoryDataset"), "data");
    bench_check(fl_dataset_set_format(r->data, r->net.format), "its format");
    bench_check(fl_dataset_set_use_var(r->data, fl_default_main_program(r->ctx),
                                       r->net.feeds, r->net.n_feeds),
                "its slots");
    bench_check(fl_dataset_set_filelist(r->data, &path, 1), "its file");
    fl_dataset_set_batch_size(r->data, of->batch ? of->batch : m->batch_size);
    bench_check(fl_dataset_load_into_memory(r->data), "loading it");
}

static void open_run(run *r, const models_lines *of, const char *path)
{
    const model *m = model_find(of->model);
    const model_args args = { .format = of->format };
    fl_optimizer *o;

    bench_check_new(m, "the model");
    *r = (run){ .name = of->model };
    bench_check(fl_ctx_new(&r->ctx), "settings");
    fl_program_set_seed(fl_default_startup_program(r->ctx), SEED);
    bench_check(m->build(r->ctx, &args, &r->net), of->model);
    bench_check(model_optimizer(&o, r->ctx, m, &args), "its optimizer");
    bench_check(fl_minimize(o, r->net.loss), "its gradients");
    bench_check(fl_executor_new(&r->exe, r->ctx), "an executor");
    bench_check(fl_run(r->exe, fl_default_startup_program(r->ctx), NULL),
                "first values");
    open_data(r, of, m, path);
}

static void close_run(run *r)
{
    fl_dataset_free(r->data);
    fl_executor_free(r->exe);
    fl_ctx_free(r->ctx);
}

/* One pass; returns the mean loss. */
static double train(void *arg)
{
    run *r = arg;
    fl_dataset_report report = FL_INIT(fl_dataset_report);

    bench_check(fl_train_from_dataset(r->exe, fl_default_main_program(r->ctx),
                                      r->data, &report,
                                      .n_threads = r->n_threads,
                                      .loss = fl_var_name(r->net.loss)),
                r->name);
    r->samples = (double)report.samples;
    return report.loss;
}

static void put_rate(run *r, int n_threads)
{
    size_t n = bench_repeats(REPEATS);
    double *x = bench_alloc(n * sizeof *x);
    bench_side side = { train, r };
    char prefix[64];

    r->n_threads = n_threads;
    train(r);
    for (size_t i = 0; i < n; i++)
        x[i] = r->samples / bench_run(&side).seconds;
    snprintf(prefix, sizeof prefix, "models.%s.t%d", r->name, n_threads);
    bench_figure(prefix, "rate", x, n, "samples/s");
    free(x);
}

/* --- where the time goes -------------------------------------------------- */

/* Operators that are products, lookups or updates, by how they begin. */
static const char *const counted[] = {
    "mul",       "matmul",      "fc",          "gru",    "sequence_conv",
    "lookup",    "pull_sparse", "push_sparse", "fused_", "sgd",
    "adagrad",   "adam",        "momentum",    "ftrl",   "multi_",
    "skip_gram", "clip_by",     "weight_decay"
};

static bool is_counted(const char *name)
{
    for (size_t i = 0; i < sizeof counted / sizeof *counted; i++)
        if (!strncmp(name, counted[i], strlen(counted[i])))
            return true;
    return false;
}

/* The share of the operators that are not counted, out of a profile. */
static double other_share(const char *json)
{
    double all = 0, other = 0;
    const char *at = json;

    while ((at = strstr(at, "\"name\":\""))) {
        const char *seconds = strstr(at, "\"total_seconds\":");
        double x =
            seconds ? strtod(seconds + strlen("\"total_seconds\":"), NULL) : 0;

        at += strlen("\"name\":\"");
        all += x;
        other += is_counted(at) ? 0 : x;
    }
    return all > 0 ? other / all : 0;
}

static void put_share(const models_lines *of, const char *path)
{
    char prefix[64], *json;
    double share;
    run r;

    open_run(&r, of, path);
    r.n_threads = 1;
    train(&r); /* until memory has been asked for */
    bench_check(fl_ctx_set(r.ctx, "profile", "true"), "the setting profile");
    train(&r);
    json = fl_executor_profile_json(r.exe);
    bench_check_new(json, "a profile");
    share = other_share(json);
    snprintf(prefix, sizeof prefix, "models.%s", r.name);
    bench_figure(prefix, "other_share", &share, 1, "ratio");
    fl_text_free(json);
    close_run(&r);
}

/* --- against straight C --------------------------------------------------- */

/* False, with a message, when the two do not learn alike. */
static bool learn_alike(const char *name, double ours, double straight)
{
    printf("# models.%s: loss of the first pass %.4f, in straight C %.4f\n",
           name, ours, straight);
    if (fabs(ours - straight) < LOSS_OFF_MAX)
        return true;
    fprintf(stderr, "bench: models.%s: the two do not learn alike\n", name);
    return false;
}

static bool against_straight(run *r, const models_straight *s, void *made)
{
    bench_side straight = { s->train, made }, ours = { train, r };
    size_t n = bench_repeats(REPEATS);
    bench_sample *a = bench_alloc(2 * n * sizeof *a), *b = a + n;
    double *ratios = bench_alloc(2 * n * sizeof *ratios);
    char prefix[64];
    bool same;

    r->n_threads = 1;
    bench_pairs(&straight, &ours, n, a, b);
    for (size_t i = 0; i < n; i++) {
        ratios[i] = a[i].seconds / b[i].seconds;
        ratios[n + i] = a[i].cpu_seconds / b[i].cpu_seconds;
    }
    snprintf(prefix, sizeof prefix, "models.%s", r->name);
    bench_figure(prefix, "of_straight", ratios, n, "ratio");
    bench_figure(prefix, "cpu_of_straight", ratios + n, n, "ratio");
    same = learn_alike(r->name, b[0].value, a[0].value);
    free(ratios);
    free(a);
    return same;
}

static bool compare(const models_lines *of, const char *path)
{
    const models_straight *s = models_straight_find(of->model);
    void *made;
    bool same;
    run r;

    if (!s)
        return true;
    made = s->open(path, of->n);
    open_run(&r, of, path);
    same = against_straight(&r, s, made);
    close_run(&r);
    s->close(made);
    return same;
}

static bool measure(const models_lines *of, const char *path)
{
    run r;

    models_lines_write(of, path);
    open_run(&r, of, path);
    for (int t = 1; t <= THREADS_MAX; t++)
        put_rate(&r, t);
    close_run(&r);
    put_share(of, path);
    return compare(of, path);
}

static bool is_asked(const char *name, int argc, char **argv)
{
    for (int i = 1; i < argc; i++)
        if (!strcmp(argv[i], name))
            return true;
    return argc < 2;
}

int main(int argc, char **argv)
{
    char path[] = "/tmp/flotilla_bench_XXXXXX";
    int fd = mkstemp(path);
    bool same = true;

    if (fd < 0) {
        perror("bench: a file of lines");
        return 1;
    }
    close(fd);
    for (size_t i = 0; i < models_lines_count; i++)
        if (is_asked(models_lines_all[i].model, argc, argv))
            same = measure(&models_lines_all[i], path) && same;
    unlink(path);
    return same ? 0 : 1;
}
