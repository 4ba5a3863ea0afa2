/* predict.c - flotilla predict: scores of the records of a file. */
#include "predict.h"

#include <stdlib.h>
#include <string.h>

#include "ps.h"

#define BATCH_MAX (1 << 20)
#define BATCH 256

/* One reading thread keeps the order of the records. */
static data_args reading(const predict_args *a, const char *slots)
{
    data_args d = a->data;

    d.threads = 1;
    d.slots = d.slots ? d.slots : slots;
    return d;
}

/* Without --slots and --format the data has what the model takes. */
static int open_and_score(const predict_args *a, fl_model *m, data_input *in)
{
    char *slots = a->data.format ? NULL : predict_slots(m);
    data_args d = reading(a, slots);
    int code = data_open(&d, in);

    if (!code)
        code = predict_check_inputs(a, m, in);
    if (!code)
        code = a->use(a, m, in);
    free(slots);
    return code;
}

static int predict(const predict_args *a, const ps_sets *sets)
{
    data_input in = { .ctx = ps_open(a->self, sets) };
    fl_model *m = NULL;
    int code;

    if (!in.ctx)
        return CMD_FAILED;
    code = scoring_open(&a->model, in.ctx, &m);
    if (!code) {
        code = open_and_score(a, m, &in);
        fl_model_close(m);
    }
    data_close(&in);
    return code;
}

/* --- arguments ------------------------------------------------------------ */

/* Its own options behind those of all. */
static int read_options(int argc, char **argv, const char **rest,
                        predict_args *a, const char **file, size_t *n)
{
    data_args *d = &a->data;
    option all[OPTIONS_MAX] = {
        { "--data", OPTION_TEXT, file, 0, 0, 0 },
        SCORING_OPTIONS(&a->model),
        { "--format", OPTION_TEXT, &d->format, 0, 0, 0 },
        { "--slots", OPTION_TEXT, &d->slots, 0, 0, 0 },
        { "--pipe", OPTION_TEXT, &d->pipe, 0, 0, 0 },
        { "--batch", OPTION_COUNT, &d->batch, 1, BATCH_MAX, 0 },
        { "--threads", OPTION_COUNT, &d->threads, 1, DATA_THREADS_MAX, 0 },
    };
    options o = { .all = all, .self = argv[0] };

    while (all[o.n].name)
        o.n++;
    for (size_t i = 0; i < a->n_more && o.n < OPTIONS_MAX; i++)
        all[o.n++] = a->more[i];
    return options_read(&o, argc, argv, rest, n, NULL);
}

static int read_args(int argc, char **argv, const char **rest, predict_args *a)
{
    const char *file = NULL;
    size_t n = 0;
    int code = read_options(argc, argv, rest, a, &file, &n);

    if (code)
        return code;
    if (!n)
        return cmd_misused(argv[0], "which model? A directory is missing");
    if (n > 1)
        return cmd_misused(argv[0], "'%s' is too much", rest[1]);
    if (!file)
        return cmd_misused(argv[0], "where is the data? --data FILE says it");
    a->model.model = rest[0];
    rest[1] = file;
    a->data.files = &rest[1];
    a->data.n_files = 1;
    return CMD_OK;
}

static int run_with(int argc, char **argv, char **room, const char **rest,
                    predict_args *a)
{
    ps_sets sets;
    int code = ps_take_sets(&argc, argv, room, &sets);

    if (!code)
        code = read_args(argc, argv, rest, a);
    if (!code && a->prepare)
        code = a->prepare(a);
    return code ? code : predict(a, &sets);
}

int predict_main(int argc, char **argv, predict_args *a)
{
    char **room = calloc((size_t)argc, sizeof(*room));
    const char **rest = calloc((size_t)argc + 1, sizeof(*rest));
    int code = CMD_FAILED;

    a->self = a->model.self = a->data.self = argv[0];
    a->data.threads = 1;
    a->data.batch = BATCH;
    if (room && rest)
        code = run_with(argc, argv, room, rest, a);
    else
        (void)cmd_failed(argv[0], "no memory for the arguments");
    free(rest);
    free(room);
    return code;
}

static int run(int argc, char **argv)
{
    predict_args a = { .use = predict_lines };
    const option more[] = { { "-o", OPTION_TEXT, &a.data.out, 0, 0, 0 } };

    a.more = more;
    a.n_more = 1;
    return predict_main(argc, argv, &a);
}

const cmd cmd_predict = {
    .name = "predict",
    .args = "MODEL --data FILE [--format SPEC] [--slots WORDS] [--batch N]"
            " [--threads N]\n"
            "       [--target NAMES] [--redis ADDRESS [--redis-name NAME] | "
            "--servers"
            " ADDRESS]\n"
            "       [--pipe COMMAND] [-o FILE] [--set "
            "NAME=VALUE]...",
    .doc = "score the records of a file with a saved model",
    .more = "MODEL is a directory that was saved for prediction, or a folder"
            " of one of its\nversions. --data is a file, a directory or a"
            " pattern; \"-\" is the standard input.\nEach record gives a line,"
            " in the order of the file whatever the number of threads:\nthe"
            " numbers of the model's outputs, apart by tabs.\n"
            "\n"
            "Slots of the data are inputs of the model by their names; others"
            " are left out.\nWithout --slots and --format a line has the"
            " inputs of the model in their order.\n"
            "\n" SCORING_HELP
            "  --format SPEC     of the data (`flotilla data formats` lists"
            " them)\n"
            "  --slots WORDS     NAME:u64 or NAME:float[:WIDTH], in the order"
            " of the file\n"
            "  --batch N         records that are scored together (256)\n"
            "  --threads N       that score (1)\n"
            "  --pipe COMMAND    what the file goes through first\n"
            "  -o FILE           where the scores go instead of stdout\n"
            "  --set NAME=VALUE  a setting (`flotilla settings` lists them)",
    .run = run,
};
