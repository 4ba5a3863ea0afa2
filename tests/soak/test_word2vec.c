/* test_word2vec.c - one pass of skip-gram over 52 MB of text, in both forms and
 * over three seeds, and what people think of the words.
 *
 *     test_soak_word2vec ROOT
 *
 * The text and the lists lie in MODEL_DATA/text, or in ROOT/../shared/data/text;
 * where there are none, nothing is tested. docs/models.md has the figures, which
 * are the same every time: one thread trains, and draws, which depend on the
 * path of the text, find it in the folder where they are.
 */
#include <ctype.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/file.h"
#include "base/status.h"
#include "data/format/vocab.h"
#include "flotilla/flotilla.h"

#define TEXT_BYTES "52000000"
#define DIM 100
#define MIN_COUNT 4
#define LINES 100 /* of a batch */
#define RATE_END 0.0001
#define SEEDS 3
#define PAIRS_MAX 4000
#define PATH_BYTES 512
#define SKIP 77

static char folder[] = "/tmp/flotilla_soak_w2v_XXXXXX";
static const char text_path[] = "text", vocab_path[] = "vocab";
static char data[PATH_BYTES];
static fl_vocab *vocab;
static int64_t n_steps; /* of a pass */

/* At least so much, as the mean over the seeds: what gensim's vectors reach, in
   hundredths. */
static const struct {
    const char *list;
    double least;
} lists[] = { { "EN-WS-353-ALL", 40.9 }, { "EN-MEN-TR-3k", 34.8 } };
enum { N_LISTS = sizeof lists / sizeof *lists };

static void must(fl_status st)
{
    if (!st)
        return;
    fprintf(stderr, "FAIL %s\n", fl_last_error());
    exit(1);
}

/* --- the text -------------------------------------------------------------- */

static int find_data(const char *root)
{
    const char *named = getenv("MODEL_DATA");
    char path[PATH_BYTES + 64];

    char *found;

    if (named)
        snprintf(path, sizeof path, "%s/text", named);
    else
        snprintf(path, sizeof path, "%s/../shared/data/text", root);
    found = realpath(path, NULL);
    snprintf(data, sizeof data, "%s", found ? found : "");
    free(found);
    snprintf(path, sizeof path, "%s/enwiki2018_AA.txt.gz", data);
    return access(path, R_OK) == 0 && !strchr(path, '\'');
}

static void prepare(void)
{
    char command[4 * PATH_BYTES];
    char *text = NULL;
    size_t len;

    if (!mkdtemp(folder) || chdir(folder))
        exit(1);
    snprintf(command, sizeof command,
             "gzip -dc '%s/enwiki2018_AA.txt.gz' 2>/dev/null | "
             "head -c " TEXT_BYTES " >%s",
             data, text_path);
    if (system(command))
        exit(1);
    must(fl_file_read(text_path, (size_t)1 << 30, &text, &len));
    for (size_t i = 0; i < len; i++)
        n_steps += text[i] == '\n';
    n_steps = n_steps / LINES + 1;
    vocab = fl_vocab_new();
    must(fl_vocab_count(vocab, text, len, FL_WORDS_LOWER));
    must(fl_vocab_build(vocab, MIN_COUNT, FL_RARE_DROP));
    must(fl_vocab_write(vocab, vocab_path));
    fl_free(text);
}

/* --- training --------------------------------------------------------------- */

/* Negatives that all pairs of a word share weigh more. */
static double rate_of(bool shared)
{
    return shared ? 0.025 : 0.032;
}

static fl_var *build(fl_ctx *c, bool shared, fl_var **mean)
{
    const int64_t column[] = { -1, 1 };
    fl_var *words = fl_layers_data(c, "words", FL_DTYPE_I64, 2, column, 1);
    fl_var *noise = fl_layers_data(c, "noise", FL_DTYPE_I64, 2, column, 1);

    return fl_layers_skip_gram(words, noise, (int64_t)fl_vocab_len(vocab), DIM,
                               .shared = shared, .step = rate_of(shared),
                               .mean = mean, .param.name = "emb");
}

static fl_dataset *open_text(fl_ctx *c)
{
    static const char *const feeds[] = { "words", "noise" };
    const char *path = text_path;
    char format[2 * PATH_BYTES];
    fl_dataset *d;

    snprintf(format, sizeof format, "word2vec:vocab=%s", vocab_path);
    must(fl_dataset_new(&d, c, "QueueDataset"));
    must(fl_dataset_set_format(d, format));
    must(fl_dataset_set_use_var(d, fl_default_main_program(c), feeds, 2));
    must(fl_dataset_set_filelist(d, &path, 1));
    fl_dataset_set_batch_size(d, LINES);
    fl_dataset_set_thread(d, 1);
    return d;
}

/* Plain steps, of a rate that falls in a line to the end of the pass. */
static fl_optimizer *make_steps(fl_ctx *c, double rate)
{
    fl_var *falling =
        fl_layers_polynomial_decay(c, rate, n_steps, RATE_END, 1, false);
    fl_optimizer *o;

    must(falling ? FL_OK : FL_ERR_INVAL);
    must(fl_optimizer_new(&o, c, "sgd", NULL));
    fl_optimizer_set_lr(o, falling);
    return o;
}

/* One pass; emb is then in the scope. */
static void train(fl_ctx *c, fl_executor *e, bool shared, uint64_t seed)
{
    fl_dataset_report r = FL_INIT(fl_dataset_report);
    fl_var *mean = NULL, *loss;
    fl_dataset *d;

    fl_program_set_seed(fl_default_startup_program(c), seed);
    fl_program_set_seed(fl_default_main_program(c), seed);
    loss = build(c, shared, &mean);
    must(loss ? FL_OK : FL_ERR_INVAL);
    must(fl_minimize(make_steps(c, rate_of(shared)), loss));
    must(fl_run(e, fl_default_startup_program(c), NULL));
    d = open_text(c);
    fl_dataset_set_seed(d, seed);
    must(fl_train_from_dataset(e, fl_default_main_program(c), d, &r,
                               .n_threads = 1, .loss = fl_var_name(mean),
                               .print_period = -1));
    printf("  seed %d: loss %.4f, %.0f s\n", (int)seed, r.loss, r.seconds);
    fl_dataset_free(d);
}

/* --- people ----------------------------------------------------------------- */

static int64_t find_word(const char *word)
{
    char small[FL_WORD_MAX];
    size_t n = 0;
    uint32_t id;

    for (; word[n] && n < sizeof small; n++)
        small[n] = (char)tolower((unsigned char)word[n]);
    id = fl_vocab_find(vocab, small, n);
    return id == FL_VOCAB_NONE ? -1 : (int64_t)id;
}

static double cosine(const float *a, const float *b)
{
    double ab = 0, aa = 1e-30, bb = 1e-30;

    for (int i = 0; i < DIM; i++) {
        ab += (double)a[i] * (double)b[i];
        aa += (double)a[i] * (double)a[i];
        bb += (double)b[i] * (double)b[i];
    }
    return ab / sqrt(aa * bb);
}

/* Twice the rank of each number, equal ones sharing theirs. */
static void rank(const double *x, size_t n, double *out)
{
    for (size_t i = 0; i < n; i++) {
        out[i] = 0;
        for (size_t k = 0; k < n; k++)
            out[i] += (x[k] < x[i]) + (x[k] <= x[i]);
    }
}

static double correlation(const double *x, const double *y, size_t n)
{
    double mean = (double)n, xy = 0, xx = 1e-30, yy = 1e-30;

    for (size_t i = 0; i < n; i++) {
        xy += (x[i] - mean) * (y[i] - mean);
        xx += (x[i] - mean) * (x[i] - mean);
        yy += (y[i] - mean) * (y[i] - mean);
    }
    return xy / sqrt(xx * yy);
}

/* Rank correlation of the cosines with a list's scores, in hundredths. */
static double judge(const char *list, const float *rows)
{
    static double people[PAIRS_MAX], ours[PAIRS_MAX], a[PAIRS_MAX],
        b[PAIRS_MAX];
    char command[2 * PATH_BYTES], x[64], y[64];
    size_t n = 0;
    FILE *f;

    snprintf(command, sizeof command, "gzip -dc '%s/word-sim/%s.txt.gz'", data,
             list);
    f = popen(command, "r");
    if (!f)
        exit(1);
    while (n < PAIRS_MAX && fscanf(f, "%63s %63s %lf", x, y, &people[n]) == 3) {
        int64_t i = find_word(x), k = find_word(y);

        if (i >= 0 && k >= 0)
            ours[n++] = cosine(rows + i * DIM, rows + k * DIM);
    }
    pclose(f);
    rank(people, n, a);
    rank(ours, n, b);
    return 100 * correlation(a, b, n);
}

/* --- analogies ------------------------------------------------------------- */

/* Rows of length 1. */
static float *normalised(const float *rows, size_t n)
{
    float *out = fl_alloc(n * DIM * sizeof *out);

    for (size_t i = 0; i < n; i++) {
        double length = 1e-30;

        for (int k = 0; k < DIM; k++)
            length += (double)rows[i * DIM + (size_t)k] *
                      (double)rows[i * DIM + (size_t)k];
        for (int k = 0; k < DIM; k++)
            out[i * DIM + (size_t)k] =
                (float)((double)rows[i * DIM + (size_t)k] / sqrt(length));
    }
    return out;
}

/* The word nearest to b - a + c that is none of them. */
static int64_t solve(const float *rows, const int64_t *abc)
{
    size_t n = fl_vocab_len(vocab);
    float target[DIM], best = -9;
    int64_t found = -1;

    for (int k = 0; k < DIM; k++)
        target[k] = rows[abc[1] * DIM + k] - rows[abc[0] * DIM + k] +
                    rows[abc[2] * DIM + k];
    for (size_t i = 0; i < n; i++) {
        float dot = 0;

        for (int k = 0; k < DIM; k++)
            dot += target[k] * rows[i * DIM + (size_t)k];
        if (dot > best && (int64_t)i != abc[0] && (int64_t)i != abc[1] &&
            (int64_t)i != abc[2]) {
            best = dot;
            found = (int64_t)i;
        }
    }
    return found;
}

/* The share of "a is to b as c is to d" that are solved, of those whose words
   are known, in hundredths. */
static double judge_analogies(const float *rows)
{
    float *unit = normalised(rows, fl_vocab_len(vocab));
    char command[2 * PATH_BYTES], line[256], w[4][64];
    double right = 0, asked = 0;
    FILE *f;

    snprintf(command, sizeof command, "gzip -dc '%s/questions-words.txt.gz'",
             data);
    f = popen(command, "r");
    while (f && fgets(line, sizeof line, f)) {
        int64_t ids[4];
        bool known = line[0] != ':' && sscanf(line, "%63s %63s %63s %63s", w[0],
                                              w[1], w[2], w[3]) == 4;

        for (int i = 0; known && i < 4; i++)
            known = (ids[i] = find_word(w[i])) >= 0;
        if (!known)
            continue;
        asked++;
        right += solve(unit, ids) == ids[3];
    }
    if (f)
        pclose(f);
    fl_free(unit);
    return asked > 0 ? 100 * right / asked : 0;
}

/* --- all of it -------------------------------------------------------------- */

/* What gensim's vectors solve; docs/models.md has ours. */
#define ANALOGIES_LEAST 6.2

static int examine(bool shared)
{
    double sum[N_LISTS] = { 0 }, solved = 0;
    int failed = 0;

    printf("%s\n", shared ? "shared" : "pair");
    for (uint64_t seed = 1; seed <= SEEDS; seed++) {
        fl_ctx *c;
        fl_executor *e;
        fl_tensor rows;

        must(fl_ctx_new(&c));
        must(fl_executor_new(&e, c));
        train(c, e, shared, seed);
        must(fl_scope_get(fl_current_scope(c), "emb", &rows));
        for (int i = 0; i < N_LISTS; i++) {
            double r = judge(lists[i].list, rows.data);

            printf("  %s %.1f\n", lists[i].list, r);
            sum[i] += r / SEEDS;
        }
        solved += judge_analogies(rows.data) / SEEDS;
        printf("  analogies so far %.2f\n", solved * SEEDS / (double)seed);
        fl_executor_free(e);
        fl_ctx_free(c);
        fflush(stdout);
    }
    if (solved < ANALOGIES_LEAST) {
        printf("FAIL analogies: %.2f is below %.2f\n", solved, ANALOGIES_LEAST);
        failed = 1;
    }
    for (int i = 0; i < N_LISTS; i++)
        if (sum[i] < lists[i].least) {
            printf("FAIL %s: %.1f is below %.1f\n", lists[i].list, sum[i],
                   lists[i].least);
            failed = 1;
        }
    return failed;
}

int main(int argc, char **argv)
{
    int failed;

    if (argc != 2 || !find_data(argv[1])) {
        printf("no text: MODEL_DATA names the directory of the data\n");
        return SKIP;
    }
    prepare();
    failed = examine(false) | examine(true);
    fl_vocab_free(vocab);
    unlink(text_path);
    unlink(vocab_path);
    rmdir(folder);
    return failed;
}
