/* data.c - flotilla data: looks at files of records and turns them into
   others. */
#include "data.h"

#include <stdlib.h>
#include <string.h>

#include "options.h"

typedef struct action {
    const char *name;
    int (*run)(const data_args *a);
} action;

enum {
    PRINT,
    CONVERT,
    COUNT,
    CHECK,
    SAMPLE,
    SPLIT,
    VOCAB,
    FORMATS,
    FEATURES,
    N_ACTIONS
};

static const action actions[N_ACTIONS] = {
    [PRINT] = { "print", data_print },
    [CONVERT] = { "convert", data_convert },
    [COUNT] = { "count", data_count },
    [CHECK] = { "check", data_check },
    [SAMPLE] = { "sample", data_sample },
    [SPLIT] = { "split", data_split },
    [VOCAB] = { "vocab", data_vocab },
    [FORMATS] = { "formats", data_formats },
    [FEATURES] = { "features", data_features },
};

#define BIT(action) (1u << (action))
#define READERS                                                                \
    (BIT(PRINT) | BIT(CONVERT) | BIT(COUNT) | BIT(CHECK) | BIT(SAMPLE))

#define HELPERS (BIT(FORMATS) | BIT(FEATURES)) /* need no files */

#define BATCH_MAX (1 << 20)
#define SHOWN_LINES 10
#define RARE_WORDS 5

static const action *find_action(const char *name)
{
    for (size_t i = 0; i < N_ACTIONS; i++)
        if (!strcmp(actions[i].name, name))
            return &actions[i];
    return NULL;
}

/* Prints the help of what there is, or of one thing. */
static int print_help(const data_args *a, const char *what,
                      char *(*help)(const char *name))
{
    char *text;

    if (a->n_files > 1)
        return cmd_misused(a->self, "'%s' is too much", a->files[1]);
    text = help(a->n_files ? a->files[0] : NULL);
    if (!text)
        return cmd_failed(a->self,
                          "there is no %s '%s'; `flotilla data %ss` lists them",
                          what, a->files[0], what);
    return cmd_print(text);
}

int data_formats(const data_args *a)
{
    return print_help(a, "format", fl_format_help);
}

int data_features(const data_args *a)
{
    return print_help(a, "feature", fl_features_help);
}

/* Those that are asked for later. */
enum { OPT_LINES, OPT_SHARE, OPT_SEED };

/* Reads the options of one action; argv[0] is its name. */
static int read_options(const action *act, int argc, char **argv, data_args *a,
                        const char **rest)
{
    const option all[] = {
        [OPT_LINES] = { "--lines", OPTION_COUNT, &a->lines, 1, UINT32_MAX,
                        BIT(PRINT) | BIT(CHECK) | BIT(SAMPLE) },
        [OPT_SHARE] = { "--share", OPTION_SHARE, &a->share, 0, 0, BIT(SAMPLE) },
        [OPT_SEED] = { "--seed", OPTION_COUNT, &a->seed, 0, UINT64_MAX,
                       READERS },
        { "--format", OPTION_TEXT, &a->format, 0, 0, READERS | BIT(SPLIT) },
        { "--slots", OPTION_TEXT, &a->slots, 0, 0, READERS },
        { "--pipe", OPTION_TEXT, &a->pipe, 0, 0,
          READERS | BIT(SPLIT) | BIT(VOCAB) },
        { "--batch", OPTION_COUNT, &a->batch, 1, BATCH_MAX, READERS },
        /* A cached file does not say which lines were bad. */
        { "--cache", OPTION_TEXT, &a->cache, 0, 0, READERS & ~BIT(CHECK) },
        /* print and sample follow the order of the records. */
        { "--threads", OPTION_COUNT, &a->threads, 1, DATA_THREADS_MAX,
          BIT(CONVERT) | BIT(COUNT) | BIT(CHECK) },
        { "--to", OPTION_TEXT, &a->to, 0, 0,
          BIT(PRINT) | BIT(CONVERT) | BIT(SAMPLE) },
        { "-o", OPTION_TEXT, &a->out, 0, 0,
          BIT(CONVERT) | BIT(SAMPLE) | BIT(SPLIT) | BIT(VOCAB) },
        { "--parts", OPTION_TEXT, &a->parts, 0, 0, BIT(SPLIT) },
        { "--key", OPTION_TEXT, &a->key, 0, 0, BIT(SPLIT) },
        { "--time", OPTION_TEXT, &a->time, 0, 0, BIT(SPLIT) },
        { "--by-file", OPTION_FLAG, &a->by_file, 0, 0, BIT(SPLIT) },
        { "--header", OPTION_FLAG, &a->header, 0, 0, BIT(SPLIT) },
        { "--min-count", OPTION_COUNT, &a->min_count, 0, UINT64_MAX,
          BIT(VOCAB) },
        { "--quarantine", OPTION_TEXT, &a->quarantine, 0, 0, BIT(CHECK) },
        { "--stats", OPTION_TEXT, &a->stats, 0, 0, BIT(COUNT) },
    };
    const options o = { .all = all,
                        .n = sizeof(all) / sizeof(*all),
                        .self = a->self,
                        .action = act->name,
                        .user = BIT(act - actions) };
    uint64_t given = 0;
    int code = options_read(&o, argc, argv, rest, &a->n_files, &given);

    a->files = rest;
    a->has_lines = given >> OPT_LINES & 1;
    a->has_share = given >> OPT_SHARE & 1;
    a->has_seed = given >> OPT_SEED & 1;
    return code;
}

static int run_action(const action *act, int argc, char **argv, data_args *a)
{
    const char **rest = calloc((size_t)argc, sizeof(*rest));
    int code;

    if (!rest)
        return cmd_failed(a->self, "no memory for the arguments");
    code = read_options(act, argc, argv, a, rest);
    if (!code && !(BIT(act - actions) & HELPERS) && !a->n_files)
        code = cmd_misused(a->self, "which files?");
    if (!code)
        code = act->run(a);
    free(rest);
    return code;
}

static int run(int argc, char **argv)
{
    data_args a = {
        .self = argv[0],
        .threads = 1,
        .batch = 1024,
        .lines = SHOWN_LINES,
        .min_count = RARE_WORDS,
    };
    const action *act;

    if (argc < 2)
        return cmd_misused(argv[0], "which action?");
    act = find_action(argv[1]);
    if (!act)
        return cmd_misused(argv[0], "there is no action '%s'", argv[1]);
    return run_action(act, argc - 1, argv + 1, &a);
}

const cmd cmd_data = {
    .name = "data",
    .args = "print|convert|count|check|sample|split|vocab|formats|features "
            "[OPTIONS] FILE...",
    .doc = "look at files of records, check them, turn them into others",
    .more =
        "  print    the first --lines N records (10), as name=values or --to"
        " FORMAT\n"
        "  convert  all records --to FORMAT, in their order with one thread\n"
        "  count    files, lines, records, and what each slot holds\n"
        "  check    reads everything, shows the first --lines N bad lines"
        " (10), and says\n"
        "           what a job would make of them; exit code 0 good, 1 bad"
        " lines, 2 errors\n"
        "  sample   a --share P of the records, or --lines N of them, --to"
        " FORMAT\n"
        "  split    lines as they are into --parts NAME=SHARE,..., each to the"
        " file of its\n"
        "           name (-o '{}.txt', or '{}.txt.gz'), by a fixed hash of the"
        " line; or\n"
        "             --key COLUMN   of a column, so that lines of one value"
        " stay together\n"
        "             --time SLOT    the parts follow each other in time\n"
        "             --by-file      whole files, in their order\n"
        "             --header       the first line of each file is one\n"
        "  vocab    the words of text files seen more than --min-count N times"
        " (5), with\n"
        "           their counts, to -o FILE; for the format word2vec\n"
        "  formats  the formats with their options, or one: formats NAME\n"
        "  features functions of columns (docs/features.md), or one: features"
        " NAME\n"
        "\n"
        "  --format SPEC     of the files: NAME or NAME:key=value,..."
        " (multislot)\n"
        "  --slots 'S ...'   NAME:u64 or NAME:float, with :WIDTH behind it"
        " where every\n"
        "                    record has so many values; formats that describe"
        " themselves\n"
        "                    need none\n"
        "  --pipe COMMAND    gets each file on its stdin and gives the text\n"
        "  --cache DIR       keeps binary columns there (not check)\n"
        "  --batch N         records at a time (1024)\n"
        "  --seed S          of what is drawn: the sample, words of word2vec "
        "(0)\n"
        "  --threads T       convert, count and check (1)\n"
        "  -o FILE           convert and sample: where to (stdout); split "
        "and vocab need it\n"
        "  --quarantine F    check: keep all bad lines there\n"
        "  --stats FILE      count: statistics of the columns, which features"
        " learn from\n"
        "\n"
        "FILE is a file, plain or compressed with gzip or zstd, a directory,"
        " a quoted\n"
        "pattern, or - for stdin (with --slots).",
    .run = run,
};
