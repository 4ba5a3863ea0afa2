/* eval.c - flotilla eval: how good the scores of a saved model are. */
#include "predict.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "eval_job.h"
#include "judging.h"

#define BATCH_MOST JUDGING_ROWS
#define GROUPS_MAX 1000000

/* A slot of the data that is no input. */
typedef struct column {
    const char *name; /* NULL: not asked for */
    size_t slot;
} column;

typedef struct samples {
    float scores[BATCH_MOST];
    int64_t labels[BATCH_MOST];
    uint64_t groups[BATCH_MOST];
} samples;

typedef struct evaluation {
    column label, group, by;
    uint64_t top;
    fl_eval *all, *apart; /* with the groups of `group`, and of `by` */
    samples some;         /* on their way there */
    const char *metrics;
    judging *judging; /* of them, instead of all that; NULL: none is named */
    eval_job job;
} evaluation;

/* --- columns of the data --------------------------------------------------- */

static int find_column(const predict_args *a, const data_input *in,
                       const char *option_name, column *c)
{
    for (size_t i = 0; c->name && i < in->n_slots; i++)
        if (!strcmp(in->slots[i].name, c->name)) {
            c->slot = i;
            return CMD_OK;
        }
    if (!c->name)
        return CMD_OK;
    return cmd_failed(a->self,
                      "the data has no slot %s; %s names one, and --slots or "
                      "--format all of them",
                      c->name, option_name);
}

/* --- samples --------------------------------------------------------------- */

static const char *read_labels(const fl_tensor *t, judging_rows r, samples *out)
{
    float labels[BATCH_MOST];
    const char *fault = judging_numbers(t, r, labels);

    for (size_t i = 0; !fault && i < r.n; i++) {
        out->labels[i] = labels[i] > 0;
        if (labels[i] != 0 && labels[i] != 1)
            fault = "a label is not 0 or 1; --metrics rmse,mae judges other "
                    "numbers";
    }
    return fault;
}

static const char *add(fl_eval *e, const column *c, const predict_batch *b,
                       judging_rows r, samples *s)
{
    const char *fault = NULL;

    if (e && c->name)
        fault = judging_ids(&b->slots[c->slot].value, r, s->groups);
    if (e && !fault &&
        fl_eval_add(e, s->scores, s->labels, c->name ? s->groups : NULL, r.n))
        fault = fl_last_error();
    return fault;
}

static const char *take_some(evaluation *v, const predict_batch *b,
                             judging_rows r)
{
    samples *s = &v->some;
    const char *fault = judging_scores(&b->outputs[0], r, s->scores);

    if (!fault)
        fault = read_labels(&b->slots[v->label.slot].value, r, s);
    if (!fault)
        fault = add(v->all, &v->group, b, r, s);
    return fault ? fault : add(v->apart, &v->by, b, r, s);
}

static const char *take_all(evaluation *v, const predict_batch *b)
{
    const char *fault = NULL;

    for (size_t lo = 0; !fault && lo < b->n_rows; lo += BATCH_MOST) {
        size_t n = b->n_rows - lo < BATCH_MOST ? b->n_rows - lo : BATCH_MOST;

        fault = take_some(v, b, (judging_rows){ lo, n, b->n_rows });
    }
    return fault;
}

static bool take(void *arg, const predict_batch *b, char why[PREDICT_WHY_BYTES])
{
    evaluation *v = arg;
    const char *fault =
        v->judging ? judging_add(v->judging, b->slots, b->n_rows, b->outputs)
                   : take_all(v, b);

    if (fault)
        (void)snprintf(why, PREDICT_WHY_BYTES, "%s", fault);
    return !fault;
}

/* --- figures ---------------------------------------------------------------- */

static void print_figure(const char *name, double value)
{
    if (!isnan(value))
        printf("%s\t%.9g\n", name, value);
}

static void print_total(const fl_eval_figures *f)
{
    printf("samples\t%" PRIu64 "\npositives\t%" PRIu64 "\n", f->samples,
           f->positives);
    print_figure("auc", f->auc);
    print_figure("group_auc", f->group_auc);
    print_figure("log_loss", f->log_loss);
    print_figure("copc", f->copc);
    print_figure("actual_ctr", f->actual_ctr);
    print_figure("predicted_ctr", f->predicted_ctr);
    print_figure("mae", f->mae);
    print_figure("rmse", f->rmse);
    print_figure("bucket_error", f->bucket_error);
    print_figure("accuracy", f->accuracy);
}

static fl_status print_apart(const evaluation *v)
{
    fl_eval_figures f = FL_INIT(fl_eval_figures);
    fl_status st = FL_OK;
    uint64_t value;

    printf("\n%s\tsamples\tpositives\tauc\tlog_loss\tcopc\tactual_ctr\t"
           "predicted_ctr\n",
           v->by.name);
    for (size_t i = 0; !st && i < fl_eval_group_count(v->apart); i++) {
        st = fl_eval_group(v->apart, i, &value, &f);
        if (!st)
            printf("%" PRIu64 "\t%" PRIu64 "\t%" PRIu64
                   "\t%.9g\t%.9g\t%.9g\t%.9g\t%.9g\n",
                   value, f.samples, f.positives, f.auc, f.log_loss, f.copc,
                   f.actual_ctr, f.predicted_ctr);
    }
    return st;
}

static fl_status tell_metrics(const evaluation *v)
{
    fl_status st = judging_finish(v->judging, v->job.fleet);

    for (size_t i = 0; !st && !v->job.mine && i < judging_count(v->judging);
         i++)
        printf("%s\t%.9g\n", judging_name(v->judging, i),
               judging_value(v->judging, i));
    return st;
}

/* All workers make the figures, and the first one tells them. */
static fl_status tell_figures(const evaluation *v)
{
    fl_eval_figures f = FL_INIT(fl_eval_figures);
    fl_status st = fl_eval_finish(v->all, v->job.fleet, 0);

    if (!st && v->apart)
        st = fl_eval_finish(v->apart, v->job.fleet, (size_t)v->top);
    if (!st)
        st = fl_eval_total(v->all, &f);
    if (st || v->job.mine)
        return st;
    print_total(&f);
    return v->apart ? print_apart(v) : FL_OK;
}

static fl_status tell(const evaluation *v)
{
    return v->judging ? tell_metrics(v) : tell_figures(v);
}

/* --- the command ------------------------------------------------------------ */

static int find_columns(const predict_args *a, const data_input *in,
                        evaluation *v)
{
    int code;

    if (v->judging)
        return judging_find(v->judging, a->self, v->label.name, in->slots,
                            in->n_slots);
    code = find_column(a, in, "--label", &v->label);
    if (!code)
        code = find_column(a, in, "--group", &v->group);
    return code ? code : find_column(a, in, "--by", &v->by);
}

/* Says what a pass says itself. */
static int score_share(const predict_args *a, fl_model *m, data_input *in)
{
    evaluation *v = a->arg;
    const predict_taker taker = {
        .take = take, .arg = v, .mine = v->job.mine, .n_shares = v->job.n
    };

    if (v->job.has_served)
        return CMD_OK;
    if (!v->judging &&
        (fl_eval_new(&v->all) || (v->by.name && fl_eval_new(&v->apart))))
        return cmd_failed(a->self, "%s", fl_last_error());
    return predict_pass(a, m, in, &taker);
}

static int evaluate(const predict_args *a, fl_model *m, data_input *in)
{
    evaluation *v = a->arg;
    int code = find_columns(a, in, v);
    fl_status st;

    if (code)
        return code;
    st = eval_job_join(&v->job, in->ctx);
    if (!st)
        code = score_share(a, m, in);
    if (!st && !code && !v->job.has_served)
        st = tell(v);
    st = eval_job_leave(&v->job, code ? FL_ERR_CLOSED : st);
    if (st && !code)
        code = cmd_failed(a->self, "%s", fl_last_error());
    fl_eval_free(v->all);
    fl_eval_free(v->apart);
    return code;
}

static int open_metrics(predict_args *a)
{
    evaluation *v = a->arg;

    if (!v->metrics)
        return CMD_OK;
    if (v->group.name || v->by.name)
        return cmd_misused(a->self, "--metrics have keys of their own "
                                    "(gauc:user); leave --group and --by out");
    v->judging = judging_open(a->self, v->metrics);
    return v->judging ? CMD_OK : CMD_USAGE;
}

static int run(int argc, char **argv)
{
    evaluation v = { .label = { .name = "label" }, .top = 20 };
    const option more[] = {
        { "--label", OPTION_TEXT, &v.label.name, 0, 0, 0 },
        { "--group", OPTION_TEXT, &v.group.name, 0, 0, 0 },
        { "--by", OPTION_TEXT, &v.by.name, 0, 0, 0 },
        { "--top", OPTION_COUNT, &v.top, 1, GROUPS_MAX, 0 },
        { "--metrics", OPTION_TEXT, &v.metrics, 0, 0, 0 },
    };
    predict_args a = { .prepare = open_metrics,
                       .use = evaluate,
                       .arg = &v,
                       .more = more,
                       .n_more = sizeof(more) / sizeof(more[0]) };

    int code = predict_main(argc, argv, &a);

    judging_close(v.judging);
    return code;
}

/* What --metrics takes. */
static void list_metrics(void)
{
    char *text = fl_judge_help();

    puts("Metrics:");
    for (char *rest = text, *line; (line = strsep(&rest, "\n")) && *line;) {
        const char *name = strsep(&line, "\t");

        printf("  %-18s%s\n", name, line);
    }
    fl_text_free(text);
    putchar('\n');
}

const cmd cmd_eval = {
    .name = "eval",
    .args = "MODEL --data FILE [--label SLOT] [--group SLOT] [--by SLOT"
            " [--top N]]\n"
            "       [--metrics LIST]\n"
            "       [--format SPEC] [--slots WORDS] [--batch N] [--threads N]\n"
            "       [--target NAMES] [--redis ADDRESS [--redis-name NAME] | "
            "--servers"
            " ADDRESS]\n"
            "       [--pipe COMMAND] [--set NAME=VALUE]...",
    .doc = "judge the scores of a saved model by the labels of a file",
    .more = "Scores are those of `flotilla predict`: the last number of the"
            " first output.\nA figure is a line, its name and its value apart"
            " by a tab. Figures are made of\nall samples, without buckets, and"
            " do not depend on their order or on threads. Under"
            " fleetrun each worker scores\nits share, and the first one tells"
            " the figures of all.\n"
            "\n"
            "  --label SLOT      the slot with 0 or 1 (label)\n"
            "  --group SLOT      adds group_auc: the AUC within records of one"
            " id of this\n"
            "                    slot, their mean by samples\n"
            "  --by SLOT         a table of figures by the ids of this slot\n"
            "  --top N           that has the N most frequent ones "
            "(20)\n"
            "  --metrics LIST    these measures alone, apart by commas:"
            " auc,recall@20:user;\n"
            "                    KEY is a slot of ids\n" SCORING_HELP
            "  --format SPEC     of the data (`flotilla data formats` lists"
            " them)\n"
            "  --slots WORDS     NAME:u64 or NAME:float[:WIDTH], in the order"
            " of the file\n"
            "  --batch N         records that are scored together (256)\n"
            "  --threads N       that score (1)\n"
            "  --pipe COMMAND    what the file goes through first\n"
            "  --set NAME=VALUE  a setting (`flotilla settings` lists them)",
    .list = list_metrics,
    .run = run,
};
