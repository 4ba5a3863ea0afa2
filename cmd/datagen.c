/* datagen.c - flotilla datagen: click logs of any size from a planted model. */
#include "datagen.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

#include "cmd.h"
#include "options.h"

enum {
    OPT_LINES,
    OPT_BYTES,
    OPT_FORMAT,
    OPT_SEED,
    OPT_OUT,
    OPT_THREADS,
    OPT_FIRST,
    OPT_COUNT
};

#define THREADS_MAX 256
#define LINES_MAX ((uint64_t)1 << 60)
#define DEFAULT_LINES 1000000

static uint64_t count_cores(void)
{
    long n = sysconf(_SC_NPROCESSORS_ONLN);

    return n < 1 ? 1 : n > THREADS_MAX ? THREADS_MAX : (uint64_t)n;
}

static int read_args(int argc, char **argv, datagen_args *a, const char **out)
{
    const char *format = "criteo";
    const option all[OPT_COUNT] = {
        [OPT_LINES] = { "--lines", OPTION_COUNT, &a->lines, 1, LINES_MAX, 0 },
        [OPT_BYTES] = { "--bytes", OPTION_SIZE, &a->bytes, 1, LINES_MAX, 0 },
        [OPT_FORMAT] = { "--format", OPTION_TEXT, &format, 0, 0, 0 },
        [OPT_SEED] = { "--seed", OPTION_COUNT, &a->seed, 0, UINT64_MAX, 0 },
        [OPT_OUT] = { "--out", OPTION_TEXT, out, 0, 0, 0 },
        [OPT_THREADS] = { "--threads", OPTION_COUNT, &a->threads, 1,
                          THREADS_MAX, 0 },
        [OPT_FIRST] = { "--first", OPTION_COUNT, &a->first, 0, LINES_MAX, 0 },
    };
    const options o = { .all = all, .n = OPT_COUNT, .self = argv[0] };
    const char **rest = calloc((size_t)argc, sizeof(*rest));
    uint64_t given = 0;
    size_t n_rest = 0;
    int code;

    if (!rest)
        return cmd_failed(argv[0], "no memory for the arguments");
    code = options_read(&o, argc, argv, rest, &n_rest, &given);
    a->write = datagen_find_format(format);
    if (!code && n_rest)
        code = cmd_misused(argv[0], "'%s' is too much", rest[0]);
    else if (!code && given >> OPT_LINES & given >> OPT_BYTES & 1)
        code = cmd_misused(argv[0], "--lines and --bytes: one of them");
    else if (!code && !a->write)
        code = cmd_misused(argv[0],
                           "there is no format '%s'; criteo and multislot are",
                           format);
    if (given >> OPT_BYTES & 1)
        a->lines = UINT64_MAX - LINES_MAX;
    free(rest);
    return code;
}

/* The chance that a clicked line has a higher probability than one that was
   not; lines of one bin count half. */
static double auc(const datagen_counts *c)
{
    double below = 0, wins = 0;

    for (size_t i = 0; i < DATAGEN_BINS; i++) {
        wins += (double)c->clicked[i] * (below + (double)c->passed[i] / 2);
        below += (double)c->passed[i];
    }
    return wins / ((double)c->clicks * (double)(c->lines - c->clicks));
}

static void report(const char *self, const datagen_counts *c, double seconds)
{
    fprintf(stderr,
            "flotilla %s: %" PRIu64 " lines, %" PRIu64 " bytes, %.2f %% clicks",
            self, c->lines, c->bytes,
            100 * (double)c->clicks / (double)c->lines);
    if (c->clicks && c->clicks < c->lines)
        fprintf(stderr,
                ", best AUC %.4f (true probabilities in %d bins, ties count "
                "half)",
                auc(c), DATAGEN_BINS);
    fprintf(stderr, ", %.0f MB/s\n",
            (double)c->bytes / 1e6 / (seconds > 1e-6 ? seconds : 1e-6));
}

static double now(void)
{
    struct timespec t;

    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

static int make(const char *self, const datagen_args *args, const char *out,
                datagen_counts *counts)
{
    double started = now();
    sink to;
    int code;

    if (!sink_open(&to, out, "--out"))
        return sink_failed(&to, self);
    code = datagen_run(self, args, &to, counts);
    if (code) {
        sink_abandon(&to);
        return code;
    }
    if (!sink_close(&to))
        return sink_failed(&to, self);
    report(self, counts, now() - started);
    return CMD_OK;
}

static int run(int argc, char **argv)
{
    datagen_args args = { .lines = DEFAULT_LINES,
                          .bytes = UINT64_MAX,
                          .threads = count_cores() };
    const char *out = NULL;
    datagen_counts *counts;
    int code = read_args(argc, argv, &args, &out);

    if (code)
        return code;
    counts = malloc(sizeof(*counts));
    if (!counts)
        return cmd_failed(argv[0], "no memory for the histogram");
    code = make(argv[0], &args, out, counts);
    free(counts);
    return code;
}

const cmd cmd_datagen = {
    .name = "datagen",
    .args = "[--lines N | --bytes SIZE] [--format criteo|multislot] [--seed S]"
            " [--first LINE] [--threads T] [--out FILE]",
    .doc = "make a click log of any size from a planted model",
    .more =
        "A line has a label, 13 integers and 26 categories, shaped as in the"
        " Criteo display\n"
        "data. Line i depends on --seed and i alone: whatever the number of"
        " threads, the\n"
        "bytes are the same, and a range that starts at --first LINE continues"
        " one that\n"
        "ended there. The rate of clicks is about 0.25; no model can beat the"
        " AUC that is\n"
        "told at the end on stderr.\n"
        "\n"
        "  --lines N     how many lines (1000000)\n"
        "  --bytes SIZE  or: until the first whole line at or past SIZE, e.g."
        " 1G\n"
        "  --format F    criteo: fields with tabs between; multislot: 13"
        " numbers, 26 times\n"
        "                one id (column * 2^33 + category + 1), the label"
        " (criteo)\n"
        "  --seed S      another world: other categories, other clicks (0)\n"
        "  --first LINE  number of the first line (0)\n"
        "  --threads T   threads that make lines (all processors)\n"
        "  --out FILE    where to, - for stdout (-)\n"
        "\n"
        "The text is plain; `flotilla datagen | gzip >clicks.gz` compresses"
        " it.",
    .run = run,
};
