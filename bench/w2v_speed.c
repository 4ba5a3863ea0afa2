/* w2v_speed.c - skip-gram by sentences against the floor, with reading.
 *
 * A part of the corpus is written to a file, a thousand words to a line, so that
 * words have as many neighbours as in the floor, which knows no sentences. A run
 * is a pass over that file, by the format word2vec and the operator skip_gram;
 * the floor trains on as many words as are kept of it, and finds them in memory.
 */
#include "w2v_speed.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "flotilla/flotilla.h"
#include "floor_w2v.h"
#include "harness.h"

#define FILE_WORDS 1500000
#define LINE_WORDS 1000
#define SAMPLE 0.001
#define REPEATS 7
#define REPEATS_MAX 64
#define PATH_LEN_MAX 128

/* What is measured: windows of whom, and where the rows are. */
typedef struct form {
    const char *name;
    size_t lines; /* of a batch */
    int dim;
    bool shared, in_tables;
} form;

static const form forms[] = {
    { "pair", 5, 100, .shared = false },
    { "shared", 5, 100, .shared = true },
    { "shared_32", 5, 32, .shared = true },
    { "table", 20, 100, .in_tables = true },
};

typedef struct side {
    const form *form;
    int n_threads;
    double n_words; /* that are kept of the file */
    fl_ctx *ctx;
    fl_executor *exe;
    fl_dataset *data;
    const char *mean;
    floor_w2v *floor;
} side;

/* --- files ---------------------------------------------------------------- */

typedef struct files {
    char folder[PATH_LEN_MAX], text[2 * PATH_LEN_MAX], vocab[2 * PATH_LEN_MAX];
} files;

static void write_files(files *f, const w2v_text *t, const char *dir)
{
    FILE *out;

    snprintf(f->folder, sizeof f->folder, "/tmp/flotilla_w2v_XXXXXX");
    bench_check_new(mkdtemp(f->folder), "a folder in /tmp");
    snprintf(f->text, sizeof f->text, "%s/text", f->folder);
    snprintf(f->vocab, sizeof f->vocab, "%s/vocab", f->folder);
    out = fopen(f->text, "w");
    bench_check_new(out, "writing the text");
    w2v_text_copy(dir, out, FILE_WORDS, LINE_WORDS);
    fclose(out);
    out = fopen(f->vocab, "w");
    bench_check_new(out, "writing the vocabulary");
    for (size_t i = 0; i < t->n_words; i++)
        fprintf(out, "%s %llu\n", t->words[i],
                (unsigned long long)t->counts[i]);
    fclose(out);
}

static void remove_files(const files *f)
{
    unlink(f->text);
    unlink(f->vocab);
    rmdir(f->folder);
}

/* How many words of the file are kept: the counts are of a longer text, of
   which it is the begin. */
static double count_kept(const w2v_text *t)
{
    double total = 0, kept = 0, read = (double)t->n_read;

    for (size_t i = 0; i < t->n_words; i++)
        total += (double)t->counts[i];
    for (size_t i = 0; i < t->n_words; i++) {
        double c = (double)t->counts[i], mark = SAMPLE * total;
        double keep = (sqrt(c / mark) + 1) * mark / c;

        kept += keep < 1 ? keep * c : c;
    }
    return kept * FILE_WORDS / read;
}

/* --- ours ----------------------------------------------------------------- */

static void build(side *s, const w2v_text *t)
{
    fl_var *words, *noise, *loss, *mean = NULL;
    fl_optimizer *o;

    bench_check(fl_ctx_new(&s->ctx), "settings");
    words = fl_layers_data(s->ctx, "words", FL_DTYPE_I64, 2,
                           (int64_t[]){ -1, 1 }, 1);
    noise = fl_layers_data(s->ctx, "noise", FL_DTYPE_I64, 2,
                           (int64_t[]){ -1, 1 }, 1);
    loss = fl_layers_skip_gram(
        words, noise, (int64_t)t->n_words, s->form->dim,
        .window = FLOOR_W2V_WINDOW, .negatives = &(int){ FLOOR_W2V_NEGATIVES },
        .shared = s->form->shared, .is_distributed = s->form->in_tables,
        .step = 0.025, .mean = &mean);
    bench_check_new(loss, "building the network");
    bench_check(fl_optimizer_new(&o, s->ctx, "sgd", "learning_rate=0.025"),
                "making the optimizer");
    bench_check(fl_minimize(o, loss), "minimize");
    bench_check(fl_executor_new(&s->exe, s->ctx), "an executor");
    bench_check(fl_run(s->exe, fl_default_startup_program(s->ctx), NULL),
                "running the startup program");
    s->mean = fl_var_name(mean);
}

static void open_data(side *s, const files *f)
{
    static const char *const feeds[] = { "words", "noise" };
    const char *path = f->text;
    char format[4 * PATH_LEN_MAX];

    snprintf(format, sizeof format, "word2vec:vocab=%s,sample=%g", f->vocab,
             SAMPLE);
    bench_check(fl_dataset_new(&s->data, s->ctx, "QueueDataset"), "a dataset");
    bench_check(fl_dataset_set_format(s->data, format), "the format");
    bench_check(fl_dataset_set_use_var(s->data, fl_default_main_program(s->ctx),
                                       feeds, 2),
                "the feeds");
    bench_check(fl_dataset_set_filelist(s->data, &path, 1), "the file");
    fl_dataset_set_batch_size(s->data, s->form->lines);
    fl_dataset_set_thread(s->data, s->n_threads);
}

static double train_ours(void *arg)
{
    side *s = arg;
    fl_dataset_report r = FL_INIT(fl_dataset_report);

    bench_check(fl_train_from_dataset(s->exe, fl_default_main_program(s->ctx),
                                      s->data, &r, .n_threads = s->n_threads,
                                      .loss = s->mean, .print_period = -1),
                "training");
    return r.loss;
}

static double train_floor(void *arg)
{
    const side *s = arg;

    floor_w2v_train(s->floor, (size_t)s->n_words, s->n_threads,
                    s->form->shared);
    return 0;
}

/* --- figures -------------------------------------------------------------- */

static void measure_form(side *s)
{
    bench_sample ours[REPEATS_MAX], floor[REPEATS_MAX];
    double rate[REPEATS_MAX], floor_rate[REPEATS_MAX], share[REPEATS_MAX];
    double cpu_share[REPEATS_MAX];
    size_t n = bench_repeats(REPEATS);
    char prefix[32];

    if (n > REPEATS_MAX)
        n = REPEATS_MAX;
    (void)train_ours(s);
    bench_pairs(&(bench_side){ train_ours, s }, &(bench_side){ train_floor, s },
                n, ours, floor);
    for (size_t i = 0; i < n; i++) {
        rate[i] = s->n_words / ours[i].seconds;
        floor_rate[i] = s->n_words / floor[i].seconds;
        share[i] = floor[i].seconds / ours[i].seconds;
        cpu_share[i] = floor[i].cpu_seconds / ours[i].cpu_seconds;
    }
    snprintf(prefix, sizeof prefix, "w2v.%s.t%d", s->form->name, s->n_threads);
    bench_figure(prefix, "rate", rate, n, "words/s");
    bench_figure(prefix, "floor_rate", floor_rate, n, "words/s");
    bench_figure(prefix, "of_floor", share, n, "ratio");
    bench_figure(prefix, "cpu_of_floor", cpu_share, n, "ratio");
    printf("# %s: loss %.4f -> %.4f\n", prefix, ours[0].value,
           ours[n - 1].value);
}

static void measure_threads(side *s, const w2v_text *t, const files *f)
{
    s->floor =
        floor_w2v_new(t->ids, t->len, t->counts, t->n_words, s->form->dim);
    build(s, t);
    open_data(s, f);
    measure_form(s);
    fl_dataset_free(s->data);
    fl_executor_free(s->exe);
    fl_ctx_free(s->ctx);
    floor_w2v_free(s->floor);
}

/* All forms, or the one that BENCH_W2V_FORM names. */
static bool is_wanted(const form *f)
{
    const char *only = getenv("BENCH_W2V_FORM");

    return !only || !strcmp(only, f->name);
}

void w2v_measure_speed(const w2v_text *t, const char *dir)
{
    double kept = count_kept(t);
    files f;

    write_files(&f, t, dir);
    for (size_t i = 0; i < sizeof forms / sizeof *forms; i++)
        if (is_wanted(&forms[i]))
            for (int threads = 1; threads <= 2; threads++)
                measure_threads(&(side){ .form = &forms[i],
                                         .n_threads = threads,
                                         .n_words = kept },
                                t, &f);
    remove_files(&f);
}
