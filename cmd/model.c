/* model.c - flotilla model: looks into saved models, compares and checks them,
   makes them out of others. */
#include "model.h"

#include <stdlib.h>
#include <string.h>

#include "nearest.h"
#include "options.h"

typedef struct action {
    const char *name;
    size_t n_words; /* that it takes, and how messages call them */
    const char *words;
    int (*run)(const model_args *a);
} action;

enum { LS, CAT, DIFF, VERIFY, MERGE, IMPORT, SAVE, N_ACTIONS };

static const action actions[N_ACTIONS] = {
    [LS] = { "ls", 1, "MODEL", model_ls },
    [CAT] = { "cat", 2, "MODEL and the NAME of a variable or table",
              model_cat },
    [DIFF] = { "diff", 2, "two MODELs", model_diff },
    [VERIFY] = { "verify", 1, "MODEL", model_verify },
    [MERGE] = { "merge", 2, "MODEL and the DIR to save into", model_merge },
    [IMPORT] = { "import", 2,
                 "the folder of the model and the DIR to save "
                 "into",
                 model_import },
    [SAVE] = { "save", 1, "the DIR to save into", model_save },
};

#define BIT(action) (1u << (action))
#define SHOWN_LINES 10

static const action *find_action(const char *name)
{
    for (size_t i = 0; i < N_ACTIONS; i++)
        if (!strcmp(actions[i].name, name))
            return &actions[i];
    return NULL;
}

static int unknown_action(const char *self, const char *name)
{
    const char *nearest = NULL;

    for (size_t i = 0; i < N_ACTIONS; i++)
        nearest = nearer_name(name, nearest, actions[i].name);
    return cmd_misused(self, "there is no action '%s'%s%s%s", name,
                       nearest ? "; did you mean " : "", nearest ? nearest : "",
                       nearest ? "?" : "");
}

/* Those that are asked for later. */
enum { OPT_LINES, OPT_KEY };

/* Reads the options of one action; argv[0] is its name. */
static int read_options(const action *act, int argc, char **argv, model_args *a,
                        const char **rest)
{
    const option all[] = {
        [OPT_LINES] = { "--lines", OPTION_COUNT, &a->lines, 1, UINT64_MAX,
                        BIT(CAT) | BIT(DIFF) },
        [OPT_KEY] = { "--key", OPTION_COUNT, &a->key, 0, UINT64_MAX, BIT(CAT) },
        { "--params", OPTION_TEXT, &a->params, 0, 0, BIT(IMPORT) },
        { "--program", OPTION_TEXT, &a->program, 0, 0, BIT(IMPORT) },
        { "--names", OPTION_TEXT, &a->names, 0, 0, BIT(IMPORT) },
        { "--from", OPTION_TEXT, &a->from, 0, 0, BIT(SAVE) },
        { "--delta", OPTION_FLAG, &a->delta, 0, 0, BIT(SAVE) },
    };
    const options o = { .all = all,
                        .n = sizeof(all) / sizeof(*all),
                        .self = a->self,
                        .action = act->name,
                        .user = BIT(act - actions) };
    uint64_t given = 0;
    int code = options_read(&o, argc, argv, rest, &a->n_words, &given);

    a->words = rest;
    a->has_lines = given >> OPT_LINES & 1;
    a->has_key = given >> OPT_KEY & 1;
    return code;
}

static int run_action(const action *act, int argc, char **argv, model_args *a)
{
    const char **rest = calloc((size_t)argc, sizeof(*rest));
    int code;

    if (!rest)
        return cmd_failed(a->self, "no memory for the arguments");
    code = read_options(act, argc, argv, a, rest);
    if (!code && a->n_words != act->n_words)
        code = cmd_misused(a->self, "%s takes %s", act->name, act->words);
    if (!code)
        code = act->run(a);
    free(rest);
    return code;
}

static int find_and_run(int argc, char **argv, model_args *a)
{
    const action *act;

    if (argc < 2)
        return cmd_misused(argv[0], "which action?");
    act = find_action(argv[1]);
    if (!act)
        return unknown_action(argv[0], argv[1]);
    if (a->sets.n && act != &actions[SAVE])
        return cmd_misused(argv[0], "%s takes no --set", act->name);
    return run_action(act, argc - 1, argv + 1, a);
}

static int run(int argc, char **argv)
{
    model_args a = { .self = argv[0], .lines = SHOWN_LINES };
    char **room = calloc((size_t)argc, sizeof(*room));
    int code;

    if (!room)
        return cmd_failed(argv[0], "no memory for the arguments");
    code = ps_take_sets(&argc, argv, room, &a.sets);
    if (!code)
        code = find_and_run(argc, argv, &a);
    free(room);
    return code;
}

const cmd cmd_model = {
    .name = "model",
    .args = "ls|cat|diff|verify|merge|import|save [OPTIONS] MODEL ...",
    .doc = "look into saved models, compare and check them, make them",
    .more =
        "  ls MODEL           versions, variables and tables of a model\n"
        "  cat MODEL NAME     the numbers of a variable, a line per row, or the"
        " rows of\n"
        "                     a table; --key K: one of them, --lines N: the"
        " first N\n"
        "  diff MODEL MODEL   by variable, row and field; shows the first"
        " --lines N (10);\n"
        "                     exit code 0 the same, 1 different, 2 errors\n"
        "  verify MODEL       reads every byte and compares the checksums\n"
        "  merge MODEL DIR    a delta and what it is based on, as one version"
        " in DIR\n"
        "  import FROM DIR    what PaddlePaddle 1.8 saved, as a version in DIR:"
        "\n"
        "                     --params FILE  all variables are in this file of"
        " FROM\n"
        "                                    (__params__ if it is there, else"
        " a file each)\n"
        "                     --program FILE the program (__model__ if it is"
        " there)\n"
        "                     --names FILE   which variables the file has, in"
        " its order,\n"
        "                                    apart by blanks or lines: for one"
        " without a program\n"
        "  save --from HOST:PORT DIR   the job whose server 0 is there saves "
        "all"
        " that it has,\n"
        "                     as of one moment; its servers see DIR; --set"
        " NAME=VALUE\n"
        "                     --delta: the rows that changed since the last"
        " one, if that\n"
        "                     is known, else all of them\n"
        "\n"
        "MODEL is a folder that was saved into, the folder of a version in it,"
        " or a path\nwith a scheme (settings fs_put and fs_get).",
    .run = run,
};
