/* train_options.c - the options of `flotilla train`, and whether they make
 * sense together. */
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "nearest.h"
#include "options.h"
#include "train_judge.h"

enum {
    OPT_DATA,
    OPT_LABEL,
    OPT_PREDICTION,
    OPT_DUMP,
    OPT_TEST,
    OPT_TEST_EVERY,
    OPT_SPLIT,
    OPT_KEY,
    OPT_METRICS,
    OPT_SAMPLE,
    OPT_PATIENCE,
    OPT_MODE,
    OPT_STRATEGY,
    OPT_EPOCHS,
    OPT_BATCH,
    OPT_THREADS,
    OPT_SEED,
    OPT_FORMAT,
    OPT_OPTIMIZER,
    OPT_RATE,
    OPT_DECAY,
    OPT_END_RATE,
    OPT_DECAY_STEPS,
    OPT_WIDTH,
    OPT_VOCAB,
    OPT_LOSS,
    OPT_ENCODER,
    OPT_HIDDEN,
    OPT_ITEMS,
    OPT_FIELDS,
    OPT_NEGATIVES,
    OPT_LOAD,
    OPT_LOAD_ONLY,
    OPT_LOAD_MAP,
    OPT_LOAD_RESIZE,
    OPT_LOAD_STATE,
    OPT_SAVE,
    OPT_SAVE_KIND,
    OPT_INFER,
    OPT_INFER_DELTA,
    OPT_INFER_BY_SCORE,
    OPT_CTR,
    OPT_FEATURES,
    OPT_STATS,
    OPT_RECORD,
    OPT_TENSORBOARD,
    OPT_COUNT
};

#define THREADS_MAX 256
#define BATCH_MAX 1000000
#define COUNT_MAX ((uint64_t)1 << 40)
#define WIDTH_MAX 4096
#define ITEMS_MAX ((uint64_t)1 << 31)

/* Options that only some models have a use for. */
static const struct {
    int option;
    unsigned use;
    const char *name;
} special[] = { { OPT_VOCAB, MODEL_VOCAB, "--vocab" },
                { OPT_LOSS, MODEL_LOSS, "--loss" },
                { OPT_ENCODER, MODEL_ENCODER, "--encoder" },
                { OPT_HIDDEN, MODEL_HIDDEN, "--hidden" },
                { OPT_ITEMS, MODEL_ITEMS, "--items" },
                { OPT_FIELDS, MODEL_FIELDS, "--fields" },
                { OPT_NEGATIVES, MODEL_NEGATIVES, "--negatives" },
                { OPT_CTR, MODEL_CTR, "--ctr" },
                { OPT_FEATURES, MODEL_COLUMNS, "--features" },
                { OPT_STATS, MODEL_COLUMNS, "--stats" },
                { OPT_LABEL, MODEL_COLUMNS | MODEL_LABEL, "--label" } };

/* Mode geo exchanges values, which the state of adam would not fit. */
static void fit_mode(train_args *a)
{
    if (!a->mode || strcmp(a->mode, "geo") != 0 || a->net.optimizer ||
        strcmp(a->model->optimizer, "adam") != 0)
        return;
    a->net.optimizer = "adagrad";
    if (!a->net.learning_rate)
        a->net.learning_rate = "0.01";
}

static int no_model(const char *self, const char *name)
{
    const char *nearest = NULL;

    for (size_t i = 0; i < model_count; i++)
        nearest = nearer_name(name, nearest, model_all[i]->name);
    if (nearest)
        return cmd_misused(self, "there is no model '%s'; the nearest is %s",
                           name, nearest);
    return cmd_misused(self,
                       "there is no model '%s'; `flotilla help train` "
                       "lists them",
                       name);
}

/* Is the word one of the list, apart by blanks? */
static bool has_word(const char *list, const char *word)
{
    size_t len = strlen(word);

    for (const char *at = list; *at; at += strspn(at, " ")) {
        size_t n = strcspn(at, " ");

        if (n == len && !memcmp(at, word, n))
            return true;
        at += n;
    }
    return false;
}

static int check_words(const char *self, const train_args *a)
{
    const model *m = a->model;
    const struct {
        const char *what, *word, *list;
    } all[] = { { "loss", a->net.loss, m->losses },
                { "encoder", a->net.encoder, m->encoders } };

    for (size_t i = 0; i < sizeof(all) / sizeof(all[0]); i++)
        if (all[i].word && all[i].list && !has_word(all[i].list, all[i].word))
            return cmd_misused(self, "%s has no %s '%s', but %s", m->name,
                               all[i].what, all[i].word, all[i].list);
    return CMD_OK;
}

static int check_special(const char *self, const train_args *a, uint64_t given)
{
    const model *m = a->model;

    for (size_t i = 0; i < sizeof(special) / sizeof(special[0]); i++)
        if ((given >> special[i].option & 1) && !(m->uses & special[i].use))
            return cmd_misused(self, "%s has no use for %s; leave it out",
                               m->name, special[i].name);
    if ((m->uses & MODEL_VOCAB) && !a->net.vocab == !a->net.format)
        return cmd_misused(self,
                           "%s needs --vocab FILE (`flotilla data vocab` "
                           "makes one), or --format that names it",
                           m->name);
    if ((m->uses & MODEL_NEEDS_COLUMNS) && !a->net.format)
        return cmd_misused(self,
                           "%s takes the columns that the data has: --format "
                           "csv:columns=... describes them "
                           "(docs/formats/csv.md)",
                           m->name);
    return check_words(self, a);
}

/* A number of 0 or more. */
static bool is_rate(const char *text)
{
    char *end;
    double x = strtod(text, &end);

    return end != text && !*end && x >= 0 && isfinite(x);
}

static int check_rate(const char *self, const model_args *m, uint64_t given)
{
    bool shrinks = given >> OPT_DECAY & 1;

    if (shrinks && m->end_rate)
        return cmd_misused(self, "the rate shrinks by --decay or falls to "
                                 "--end-rate; give one of them");
    if (m->end_rate && !is_rate(m->end_rate))
        return cmd_misused(self,
                           "--end-rate needs a number of 0 or more, not '%s'",
                           m->end_rate);
    if ((shrinks || m->end_rate) == !m->decay_steps)
        return cmd_misused(self, "a rate that falls needs --decay or "
                                 "--end-rate, and --decay-steps");
    return CMD_OK;
}

static int check_tests(const char *self, const train_args *a)
{
    if (a->test_every && !a->test)
        return cmd_misused(self,
                           "--test-every %" PRIu64 " of what? --test DIR "
                           "or --split 0.8 says it",
                           a->test_every);
    if (a->patience && !a->test)
        return cmd_misused(self, "--patience waits for a better test; --test "
                                 "DIR or --split 0.8 says of what");
    if (a->patience >= a->epochs && a->patience)
        return cmd_misused(self,
                           "--patience %" PRIu64 " would never end --epochs "
                           "%" PRIu64 "; give more epochs, or leave it out",
                           a->patience, a->epochs);
    return CMD_OK;
}

/* What a text has in common with built-in models. */
static const model text_model = {
    .name = "a program text",
    .optimizer = "adam",
    .learning_rate = "0.001",
    .batch_size = 100,
    .uses = MODEL_LOSS | MODEL_LABEL,
};

static bool is_path(const char *word)
{
    return strpbrk(word, "./") || access(word, R_OK) == 0;
}

static int find_model(const char *self, const char *word, train_args *a)
{
    a->model = model_find(word);
    if (a->model)
        return CMD_OK;
    if (!is_path(word))
        return no_model(self, word);
    a->model = &text_model;
    a->text = word;
    return CMD_OK;
}

/* Of a text its own words say how wide it is; of a model it is known what is
   what. */
static int check_text(const char *self, const train_args *a, uint64_t given)
{
    if (a->text && (given >> OPT_WIDTH & 1))
        return cmd_misused(self, "%s says how wide it is; leave --width out",
                           a->text);
    if (!a->text && a->prediction)
        return cmd_misused(self, "%s has no use for --prediction; leave it out",
                           a->model->name);
    return CMD_OK;
}

/* What a program follows from. */
#define NETWORK                                                                \
    (BIT(DUMP) | BIT(FORMAT) | BIT(FEATURES) | BIT(STATS) | BIT(LABEL) |       \
     BIT(WIDTH) | BIT(HIDDEN) | BIT(ITEMS) | BIT(FIELDS) | BIT(NEGATIVES) |    \
     BIT(LOSS) | BIT(ENCODER) | BIT(VOCAB) | BIT(CTR))
#define BIT(name) (UINT64_C(1) << OPT_##name)

/* Nothing is trained: options of the network alone make sense. */
static int check_dump(const options *o, uint64_t given, const train_args *a)
{
    for (size_t i = 0; i < o->n; i++)
        if ((given >> i & 1) && !(NETWORK >> i & 1))
            return cmd_misused(o->self,
                               "--dump-program trains nothing; leave %s out",
                               o->all[i].name);
    if (a->text)
        return cmd_misused(o->self, "%s is a program text already", a->text);
    return CMD_OK;
}

static int check_data(const char *self, const train_args *a)
{
    if (!a->data && !a->dump)
        return cmd_misused(self, "where is the data? --data DIR says it");
    return CMD_OK;
}

static int check_all(const char *self, const train_args *a, uint64_t given)
{
    int code = check_data(self, a);

    if (!code)
        code = check_tests(self, a);
    if (!code)
        code = check_text(self, a, given);
    if (!code)
        code = check_special(self, a, given);
    if (!code)
        code = check_rate(self, &a->net, given);
    return code ? code : train_check_io(self, a);
}

static int check(const char *self, const char *const *rest, size_t n,
                 uint64_t given, train_args *a)
{
    int code;

    if (!n)
        return cmd_misused(self, "which model? ctr_dnn, for example");
    if (n > 1)
        return cmd_misused(self, "'%s' is too much", rest[1]);
    code = find_model(self, rest[0], a);
    if (!code) {
        a->has_split = given >> OPT_SPLIT & 1;
        a->has_sample = given >> OPT_SAMPLE & 1;
        code = train_check_judge(self, a);
    }
    if (!code)
        code = check_all(self, a, given);
    if (code)
        return code;
    if (!a->batch)
        a->batch = a->model->batch_size;
    fit_mode(a);
    return CMD_OK;
}

int train_read_args(int argc, char **argv, const char **rest, train_args *a)
{
    model_args *m = &a->net;
    const option all[OPT_COUNT] = {
        [OPT_DATA] = { "--data", OPTION_TEXT, &a->data, 0, 0, 0 },
        [OPT_LABEL] = { "--label", OPTION_TEXT, &m->label, 0, 0, 0 },
        [OPT_PREDICTION] = { "--prediction", OPTION_TEXT, &a->prediction, 0, 0,
                             0 },
        [OPT_DUMP] = { "--dump-program", OPTION_TEXT, &a->dump, 0, 0, 0 },
        [OPT_TEST] = { "--test", OPTION_TEXT, &a->test, 0, 0, 0 },
        [OPT_TEST_EVERY] = { "--test-every", OPTION_COUNT, &a->test_every, 1,
                             COUNT_MAX, 0 },
        [OPT_SPLIT] = { "--split", OPTION_SHARE, &a->split_share, 0, 0, 0 },
        [OPT_KEY] = { "--key", OPTION_TEXT, &a->key, 0, 0, 0 },
        [OPT_METRICS] = { "--metrics", OPTION_TEXT, &a->metrics, 0, 0, 0 },
        [OPT_SAMPLE] = { "--sample-negatives", OPTION_SHARE, &a->keep_negatives,
                         0, 0, 0 },
        [OPT_PATIENCE] = { "--patience", OPTION_COUNT, &a->patience, 1,
                           COUNT_MAX, 0 },
        [OPT_MODE] = { "--mode", OPTION_TEXT, &a->mode, 0, 0, 0 },
        [OPT_STRATEGY] = { "--strategy", OPTION_TEXT, &a->strategy, 0, 0, 0 },
        [OPT_EPOCHS] = { "--epochs", OPTION_COUNT, &a->epochs, 1, COUNT_MAX,
                         0 },
        [OPT_BATCH] = { "--batch", OPTION_COUNT, &a->batch, 1, BATCH_MAX, 0 },
        [OPT_THREADS] = { "--threads", OPTION_COUNT, &a->threads, 1,
                          THREADS_MAX, 0 },
        [OPT_SEED] = { "--seed", OPTION_COUNT, &a->seed, 0, COUNT_MAX, 0 },
        [OPT_FORMAT] = { "--format", OPTION_TEXT, &m->format, 0, 0, 0 },
        [OPT_OPTIMIZER] = { "--optimizer", OPTION_TEXT, &m->optimizer, 0, 0,
                            0 },
        [OPT_RATE] = { "--learning-rate", OPTION_TEXT, &m->learning_rate, 0, 0,
                       0 },
        [OPT_DECAY] = { "--decay", OPTION_SHARE, &m->decay, 0, 0, 0 },
        [OPT_END_RATE] = { "--end-rate", OPTION_TEXT, &m->end_rate, 0, 0, 0 },
        [OPT_DECAY_STEPS] = { "--decay-steps", OPTION_COUNT, &m->decay_steps, 1,
                              COUNT_MAX, 0 },
        [OPT_WIDTH] = { "--width", OPTION_COUNT, &m->width, 1, WIDTH_MAX, 0 },
        [OPT_VOCAB] = { "--vocab", OPTION_TEXT, &m->vocab, 0, 0, 0 },
        [OPT_LOSS] = { "--loss", OPTION_TEXT, &m->loss, 0, 0, 0 },
        [OPT_ENCODER] = { "--encoder", OPTION_TEXT, &m->encoder, 0, 0, 0 },
        [OPT_HIDDEN] = { "--hidden", OPTION_COUNT, &m->hidden, 1, WIDTH_MAX,
                         0 },
        [OPT_ITEMS] = { "--items", OPTION_COUNT, &m->items, 2, ITEMS_MAX, 0 },
        [OPT_FIELDS] = { "--fields", OPTION_COUNT, &m->fields, 1, WIDTH_MAX,
                         0 },
        [OPT_NEGATIVES] = { "--negatives", OPTION_COUNT, &m->negatives, 1,
                            WIDTH_MAX, 0 },
        [OPT_LOAD] = { "--load", OPTION_TEXT, &a->load, 0, 0, 0 },
        [OPT_LOAD_ONLY] = { "--load-only", OPTION_TEXT, &a->load_only, 0, 0,
                            0 },
        [OPT_LOAD_MAP] = { "--load-map", OPTION_TEXT, &a->load_map, 0, 0, 0 },
        [OPT_LOAD_RESIZE] = { "--load-resize", OPTION_TEXT, &a->load_resize, 0,
                              0, 0 },
        [OPT_LOAD_STATE] = { "--load-state", OPTION_TEXT, &a->load_state, 0, 0,
                             0 },
        [OPT_SAVE] = { "--save", OPTION_TEXT, &a->save, 0, 0, 0 },
        [OPT_INFER] = { "--infer", OPTION_TEXT, &a->infer, 0, 0, 0 },
        [OPT_INFER_DELTA] = { "--infer-delta", OPTION_FLAG, &a->infer_delta, 0,
                              0, 0 },
        [OPT_INFER_BY_SCORE] = { "--infer-by-score", OPTION_FLAG,
                                 &a->infer_by_score, 0, 0, 0 },
        [OPT_CTR] = { "--ctr", OPTION_TEXT, &m->ctr, 0, 0, 0 },
        [OPT_FEATURES] = { "--features", OPTION_TEXT, &m->features, 0, 0, 0 },
        [OPT_STATS] = { "--stats", OPTION_TEXT, &m->stats, 0, 0, 0 },
        [OPT_RECORD] = { "--record", OPTION_TEXT, &a->record, 0, 0, 0 },
        [OPT_TENSORBOARD] = { "--tensorboard", OPTION_TEXT, &a->tensorboard, 0,
                              0, 0 },
        [OPT_SAVE_KIND] = { "--save-kind", OPTION_TEXT, &a->save_kind, 0, 0,
                            0 },
    };
    const options o = { .all = all, .n = OPT_COUNT, .self = argv[0] };
    uint64_t given = 0;
    size_t n = 0;
    int code = options_read(&o, argc, argv, rest, &n, &given);

    if (!code)
        code = check(argv[0], rest, n, given, a);
    return !code && a->dump ? check_dump(&o, given, a) : code;
}
