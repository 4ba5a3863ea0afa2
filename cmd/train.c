/* train.c - flotilla train: a built-in model, on one machine or as a job. */
#include "train.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

static int train_once(int argc, char **argv, const ps_sets *sets,
                      const char **rest)
{
    train_args a = train_defaults();
    int code = train_read_args(argc, argv, rest, &a);
    fl_ctx *c;

    if (code)
        return code;
    c = ps_open(argv[0], sets);
    if (!c)
        return CMD_FAILED;
    code = a.dump ? train_dump_only(argv[0], c, &a)
                  : train_run(argv[0], c, &a, NULL);
    fl_ctx_free(c);
    return code;
}

static int train(int argc, char **argv, char **room, const char **rest)
{
    ps_sets sets;
    tries what;
    int code = tries_take(&what, &argc, argv);

    if (!code)
        code = ps_take_sets(&argc, argv, room, &sets);
    if (!code)
        code = what.n ? train_search(argc, argv, &sets, &what)
                      : train_once(argc, argv, &sets, rest);
    tries_release(&what);
    return code;
}

static int run(int argc, char **argv)
{
    char **room = calloc((size_t)argc, sizeof(*room));
    const char **rest = calloc((size_t)argc, sizeof(*rest));
    int code = CMD_FAILED;

    if (room && rest)
        code = train(argc, argv, room, rest);
    else
        (void)cmd_failed(argv[0], "no memory for the arguments");
    free(rest);
    free(room);
    return code;
}

/* What each model is for, and what it is trained with unless another is asked
   for. */
static void list_models(void)
{
    puts("Models:");
    for (size_t i = 0; i < model_count; i++) {
        const model *m = model_all[i];

        printf("  %-17s%s\n%19s%s %s, batches of %" PRIu64, m->name, m->doc, "",
               m->optimizer, m->learning_rate, m->batch_size);
        if (m->losses)
            printf("; losses %s", m->losses);
        if (m->encoders)
            printf("; encoders %s", m->encoders);
        putchar('\n');
    }
}

const cmd cmd_train = {
    .name = "train",
    .args = "MODEL --data DIR [--test DIR] [--mode MODE] [OPTION VALUE]..."
            " [--set NAME=VALUE]...",
    .doc = "train a built-in model or a program text, alone or as a job",
    .more =
        "\n"
        "MODEL is a name of this list, or a file with the text of a program"
        " (docs/models.md);\n"
        "`flotilla train NAME --dump-program FILE` writes one to begin with.\n"
        "\n"
        "Started alone it trains in one process. Started by fleetrun, or with"
        " the variables\n"
        "of docs/fleet.md in the environment, it is a server or a worker of a"
        " job:\n"
        "\n"
        "  fleetrun --server_num=1 --worker_num=2 \\\n"
        "      flotilla train ctr_dnn --mode async --data logs\n"
        "\n"
        "--data is a directory, a file or a pattern; a job deals the files to"
        " its workers.\n"
        "What is printed counts all of them.\n"
        "\n"
        "  --test DIR          what is not trained on, examined behind each"
        " epoch\n"
        "  --split 0.8         instead of --test: this share is trained on and"
        " the rest examined\n"
        "  --key COLUMN        of it: records of one value are in one part\n"
        "  --metrics LIST      that the test is judged by: auc,recall@20:user"
        " (`flotilla help\n"
        "                      eval` lists them); the first decides which epoch"
        " is the best\n"
        "  --sample-negatives 0.1  trains on this share of the records with"
        " label 0 alone;\n"
        "                      predictions are corrected for it\n"
        "  --test-every N      and whenever a worker has trained N batches\n"
        "  --patience N        end when N epochs in a row bring nothing better;"
        " needs --test\n"
        "  --mode MODE         of a job: sync, half_async, async or geo with"
        " servers (sync),\n"
        "                      collective without\n"
        "  --strategy WORDS    settings of the mode, e.g."
        " min_block_size=81920\n"
        "  --epochs N          passes over the data (1)\n"
        "  --batch N           records of a batch\n"
        "  --threads N         that train in each process (1)\n"
        "  --seed N            of the first values (0)\n"
        "  --format SPEC       of the data; ctr_dnn, wide_deep, deepfm, lr and"
        " mf take the\n"
        "                      columns of csv as they are, others have slots"
        " of their own\n"
        "  --features TEXT     lines NAME = FUNCTION(COLUMN, ...) over these"
        " columns, or\n"
        "                      @FILE of them (docs/features.md)\n"
        "  --stats FILE        statistics that features learn from"
        " (`flotilla data count`)\n"
        "  --label NAME        the column that is to be found out (label); of a"
        " text the variable\n"
        "  --optimizer NAME    sgd, momentum, adagrad, adam, ftrl, ...; in mode"
        " geo adagrad\n"
        "                      instead of adam\n"
        "  --learning-rate X   in mode geo 0.01 instead of adam's\n"
        "  --decay X           the rate is multiplied by it every"
        " --decay-steps steps\n"
        "  --end-rate X        or falls in a line to this in --decay-steps"
        " steps, and stays\n"
        "  --decay-steps N     of the whole job\n"
        "  --width N           of a row of the tables\n"
        "  --hidden N          of the layers above them; not word2vec\n"
        "  --items N           gru4rec, ssr: ids are below it; tagspace: tags"
        " are\n"
        "  --fields N          deepfm: features of a record (10)\n"
        "  --negatives N       gru4rec with a loss that draws: of each click\n"
        "  --loss NAME         which one: wide_deep, deepfm, lr and mf have log"
        " (yes or no)\n"
        "                      and square (a number); of a text the variable\n"
        "  --prediction NAME   of a text: what --infer computes\n"
        "  --dump-program FILE writes the model's program as a text, and trains"
        " nothing\n"
        "  --encoder NAME      multiview_simnet: which one\n"
        "  --vocab FILE        word2vec: words, as `flotilla data vocab`"
        " writes them\n"
        "  --load DIR          the model to begin with (docs/howto/models.md)\n"
        "  --load-only A,B     of it these variables alone\n"
        "  --load-map OLD=NEW  what was saved as OLD is NEW now; more of them"
        " behind commas\n"
        "  --load-resize A,B   these may have another shape: cut, or filled"
        " up\n"
        "  --load-state new    the optimizer is another one, its state begins"
        " anew (saved)\n"
        "  --save DIR          where the model goes: of the best epoch with"
        " --test (by AUC,\n"
        "                      else by the model's metric), else of the last\n"
        "  --save-kind delta   of tables what changed since --load DIR alone"
        " (full)\n"
        "  --infer DIR         where a model for prediction goes, of the same"
        " epoch\n"
        "  --infer-delta       of it what changed since the version in DIR\n"
        "  --infer-by-score    of a table that counts the rows that are worth a"
        " place\n"
        "                      online\n"
        "  --ctr WORDS         ctr_dnn: its table counts shows and grows with"
        " them; WORDS\n"
        "                      are settings of accessor ctr, as"
        " 'delta_threshold=0.25'\n"
        "  --try OPTION=A,B    trains once with each value, judges by --test, "
        "and"
        " tells which\n"
        "                      is the best; more of them try all combinations\n"
        "  --try-random N      draws N combinations instead; then --try OPTION="
        "LOW..HIGH\n"
        "                      draws from a range\n"
        "  --record DIR        lines about the run, for `flotilla report DIR`\n"
        "  --tensorboard DIR   the same for TensorBoard\n"
        "  --set NAME=VALUE    a setting (`flotilla settings` lists them)",
    .list = list_models,
    .run = run,
};
