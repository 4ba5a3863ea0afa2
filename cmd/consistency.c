/* consistency.c - flotilla consistency: is what is online what was trained? */
#include "predict.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "flotilla/consistency.h"
#include "flotilla/saved.h"

#define ROWS_MAX UINT32_MAX
#define TOLERANCE 1e-6

/* Results from here on are made of the data. */
#define FIRST_SCORED 4

enum { CONSISTENCY_DIFFERENT = 3 };

typedef struct check {
    const char *trained, *against;
    fl_consistency_args how;
    size_t n_slots; /* of the data */
    fl_consistency *c;
} check;

/* --- what is online ------------------------------------------------------- */

/* What stands behind "redis://", or NULL. */
static const char *behind(const char *text, const char *scheme)
{
    size_t n = strlen(scheme);

    return strncmp(text, scheme, n) ? NULL : text + n;
}

/* Program and variables are those of the trained model, unless a folder is
   named; rows are those of its files, unless another place is. */
static int find_online(predict_args *a)
{
    check *k = a->arg;
    scoring_args *m = &a->model;
    const char *address;

    k->trained = m->model;
    if (!k->against)
        return cmd_misused(a->self, "against what? --against says it");
    if ((address = behind(k->against, "redis://")))
        m->redis = address;
    else if ((address = behind(k->against, "servers://")))
        m->servers = address;
    else if (!strcmp(k->against, "servers") && !m->servers)
        return cmd_misused(a->self, "which servers? --servers HOST:PORT says "
                                    "where server 0 of the job is");
    else if (strcmp(k->against, "predictor") && strcmp(k->against, "servers"))
        m->model = k->against;
    return CMD_OK;
}

/* --- results -------------------------------------------------------------- */

static void print_one(const fl_consistency_result *r, bool is_score)
{
    if (r->first)
        printf("%s: different, %" PRIu64 " of %" PRIu64 " %s", r->name,
               r->different, r->compared, r->what);
    else
        printf("%s: the same, %" PRIu64 " %s", r->name, r->compared, r->what);
    if (is_score)
        printf(", largest difference %.9g", r->largest);
    if (r->first)
        printf(": %s", r->first);
    putchar('\n');
}

/* Those that were made by now: each is printed once. */
static void print_results(const fl_consistency *c, size_t lo, size_t hi)
{
    fl_consistency_result r = FL_INIT(fl_consistency_result);

    for (size_t i = lo; i < hi && fl_consistency_result_at(c, i, &r); i++)
        print_one(&r, i >= FIRST_SCORED);
    (void)fflush(stdout);
}

/* --- the data ------------------------------------------------------------- */

static bool take(void *arg, const predict_batch *b, char why[PREDICT_WHY_BYTES])
{
    check *k = arg;

    if (!fl_consistency_add(k->c, b->slots, k->n_slots, b->n_rows, b->outputs,
                            b->n_outputs))
        return true;
    (void)snprintf(why, PREDICT_WHY_BYTES, "%s", fl_last_error());
    return false;
}

/* --- the command ---------------------------------------------------------- */

static fl_status open_trained(check *k, fl_ctx *c, fl_model *m)
{
    char *path = fl_saved_fetch(c, k->trained);
    fl_status st = path ? fl_consistency_open_with(&k->c, path, m, &k->how)
                        : fl_last_status();

    fl_text_free(path);
    return st;
}

static int compare(const predict_args *a, fl_model *m, data_input *in)
{
    check *k = a->arg;
    const predict_taker taker = { .take = take, .arg = k };
    int code;

    if (open_trained(k, in->ctx, m) || fl_consistency_compare(k->c))
        return cmd_failed(a->self, "%s", fl_last_error());
    print_results(k->c, 0, FIRST_SCORED);
    k->n_slots = in->n_slots;
    code = predict_pass(a, m, in, &taker);
    if (!code)
        print_results(k->c, FIRST_SCORED, SIZE_MAX);
    return fl_consistency_holds(k->c) ? code : CONSISTENCY_DIFFERENT;
}

static int compare_and_close(const predict_args *a, fl_model *m, data_input *in)
{
    check *k = a->arg;
    int code = compare(a, m, in);

    fl_consistency_close(k->c);
    return code;
}

static int run(int argc, char **argv)
{
    check k = { .how = FL_INIT(fl_consistency_args, .tolerance = TOLERANCE) };
    const option more[] = {
        { "--against", OPTION_TEXT, &k.against, 0, 0, 0 },
        { "--sample", OPTION_COUNT, &k.how.sample, 1, ROWS_MAX, 0 },
        { "--seed", OPTION_COUNT, &k.how.seed, 0, UINT64_MAX, 0 },
        { "--tolerance", OPTION_SHARE, &k.how.tolerance, 0, 0, 0 },
    };
    predict_args a = { .prepare = find_online,
                       .use = compare_and_close,
                       .arg = &k,
                       .more = more,
                       .n_more = sizeof(more) / sizeof(more[0]) };

    return predict_main(argc, argv, &a);
}

const cmd cmd_consistency = {
    .name = "consistency",
    .args =
        "MODEL --against WHAT --data FILE [--sample N [--seed N]]\n"
        "       [--tolerance X] [--format SPEC] [--slots WORDS] [--batch N]\n"
        "       [--threads N] [--target NAMES] [--redis ADDRESS"
        " [--redis-name NAME]]\n"
        "       [--servers ADDRESS] [--pipe COMMAND] [--set NAME=VALUE]...",
    .doc = "compare what is online with what was trained",
    .more =
        "MODEL is what was trained: saved to train on, or for prediction. WHAT"
        " is\n"
        "  predictor         MODEL itself, as a prediction opens it\n"
        "  DIR               a model that was saved for prediction\n"
        "  redis://ADDRESS   MODEL with rows from Redis\n"
        "  servers://ADDRESS MODEL with rows and parameters of a job that is"
        " running\n"
        "                    (HOST:PORT of its server 0; `servers` with"
        " --servers is\n"
        "                    the same)\n"
        "\n"
        "Compared are names, types and shapes; the program that was trained, in"
        " test mode\nand pruned, operator by operator; every parameter and row"
        " by bits; and the scores\nof the file: in test mode as it was trained,"
        " as it is online without passes, and\nwith them. Each gives a line,"
        " with the first difference by variable, row, slot or\noperator. Where"
        " the data has labels and all else that the trained program takes,"
        " that\nruns as a whole. Exit codes: 0 the same, 1 it could not be"
        " compared, 2 wrong usage,\n3 different.\n"
        "\n"
        "  --sample N        about N rows of each table (all)\n"
        "  --seed N          by which they are drawn (0)\n"
        "  --tolerance X     by which passes may change a score"
        " (1e-6)\n" SCORING_HELP
        "  --format SPEC     of the data (`flotilla data formats` lists"
        " them)\n"
        "  --slots WORDS     NAME:u64 or NAME:float[:WIDTH], in the order"
        " of the file\n"
        "  --batch N         records that are scored together (256)\n"
        "  --threads N       that score (1)\n"
        "  --pipe COMMAND    what the file goes through first\n"
        "  --set NAME=VALUE  a setting (`flotilla settings` lists them)",
    .run = run,
};
