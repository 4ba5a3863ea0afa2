/* eval.c - flotilla eval: how good the scores of a saved model are. */
#include "predict.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "eval_job.h"
#include "flotilla/eval.h"

#define BATCH_MOST 4096 /* samples that are handed over at once */
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

/* One number for each record. */
static bool is_column(const fl_tensor *t, size_t n_rows)
{
    if (fl_tensor_numel(t) != (int64_t)n_rows)
        return false;
    for (size_t i = 0; t->kind == FL_KIND_RAGGED && i <= n_rows; i++)
        if (t->lod[0][i] != (int64_t)i)
            return false;
    return true;
}

static double number_at(const fl_tensor *t, size_t i)
{
    if (t->dtype == FL_DTYPE_F32)
        return (double)((const float *)t->data)[i];
    if (t->dtype == FL_DTYPE_F64)
        return ((const double *)t->data)[i];
    return (double)((const int64_t *)t->data)[i];
}

/* --- samples --------------------------------------------------------------- */

/* The last number of a record's first output: of two classes the second. */
static const char *read_scores(const predict_batch *b, size_t lo, size_t n,
                               samples *out)
{
    const fl_tensor *t = &b->outputs[0];
    size_t width = (size_t)fl_tensor_numel(t) / b->n_rows;

    if (t->dtype != FL_DTYPE_F32 || !width ||
        width * b->n_rows != (size_t)fl_tensor_numel(t))
        return "the first output of the model has no f32 number for each "
               "record";
    for (size_t i = 0; i < n; i++)
        out->scores[i] = ((const float *)t->data)[(lo + i) * width + width - 1];
    return NULL;
}

static const char *read_labels(const fl_tensor *t, size_t lo, size_t n,
                               samples *out)
{
    for (size_t i = 0; i < n; i++) {
        double label = number_at(t, lo + i);

        out->labels[i] = label == 0 || label == 1 ? (int64_t)label : -1;
        if (out->labels[i] < 0)
            return "a label is not 0 or 1";
    }
    return NULL;
}

static const char *add(fl_eval *e, const column *c, const predict_batch *b,
                       size_t lo, size_t n, samples *s)
{
    const fl_tensor *t = &b->slots[c->slot].value;

    if (!e)
        return NULL;
    if (c->name && (!is_column(t, b->n_rows) || t->dtype == FL_DTYPE_F32))
        return "a record does not have one id in the slot of --group or --by";
    for (size_t i = 0; c->name && i < n; i++)
        s->groups[i] = ((const uint64_t *)t->data)[lo + i];
    return fl_eval_add(e, s->scores, s->labels, c->name ? s->groups : NULL, n)
               ? fl_last_error()
               : NULL;
}

static const char *take_some(evaluation *v, const predict_batch *b, size_t lo,
                             size_t n)
{
    samples *s = &v->some;
    const fl_tensor *label = &b->slots[v->label.slot].value;
    const char *why = NULL;

    if (!is_column(label, b->n_rows))
        return "a record does not have one number in the slot of the label";
    why = read_scores(b, lo, n, s);
    if (!why)
        why = read_labels(label, lo, n, s);
    if (!why)
        why = add(v->all, &v->group, b, lo, n, s);
    return why ? why : add(v->apart, &v->by, b, lo, n, s);
}

static bool take(void *arg, const predict_batch *b, char why[PREDICT_WHY_BYTES])
{
    const char *fault = NULL;

    for (size_t lo = 0; !fault && lo < b->n_rows; lo += BATCH_MOST) {
        size_t n = b->n_rows - lo < BATCH_MOST ? b->n_rows - lo : BATCH_MOST;

        fault = take_some(arg, b, lo, n);
    }
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

/* All workers make the figures, and the first one tells them. */
static fl_status tell(const evaluation *v)
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

/* --- the command ------------------------------------------------------------ */

static int find_columns(const predict_args *a, const data_input *in,
                        evaluation *v)
{
    int code = find_column(a, in, "--label", &v->label);

    if (!code)
        code = find_column(a, in, "--group", &v->group);
    return code ? code : find_column(a, in, "--by", &v->by);
}

/* Says what a pass says itself. */
static int score_share(const predict_args *a, fl_model *m, data_input *in,
                       const predict_feeds *feeds)
{
    evaluation *v = a->arg;
    const predict_taker taker = {
        .take = take, .arg = v, .mine = v->job.mine, .n_shares = v->job.n
    };

    if (v->job.has_served)
        return CMD_OK;
    if (fl_eval_new(&v->all) || (v->by.name && fl_eval_new(&v->apart)))
        return cmd_failed(a->self, "%s", fl_last_error());
    return predict_pass(a, m, in, feeds, &taker);
}

static int evaluate(const predict_args *a, fl_model *m, data_input *in,
                    const predict_feeds *feeds)
{
    evaluation *v = a->arg;
    int code = find_columns(a, in, v);
    fl_status st;

    if (code)
        return code;
    st = eval_job_join(&v->job, in->ctx);
    if (!st)
        code = score_share(a, m, in, feeds);
    if (!st && !code && v->all)
        st = tell(v);
    st = eval_job_leave(&v->job, code ? FL_ERR_CLOSED : st);
    if (st && !code)
        code = cmd_failed(a->self, "%s", fl_last_error());
    fl_eval_free(v->all);
    fl_eval_free(v->apart);
    return code;
}

static int run(int argc, char **argv)
{
    evaluation v = { .label = { .name = "label" }, .top = 20 };
    const option more[] = {
        { "--label", OPTION_TEXT, &v.label.name, 0, 0, 0 },
        { "--group", OPTION_TEXT, &v.group.name, 0, 0, 0 },
        { "--by", OPTION_TEXT, &v.by.name, 0, 0, 0 },
        { "--top", OPTION_COUNT, &v.top, 1, GROUPS_MAX, 0 },
    };
    predict_args a = { .use = evaluate,
                       .arg = &v,
                       .more = more,
                       .n_more = sizeof(more) / sizeof(more[0]) };

    return predict_main(argc, argv, &a);
}

const cmd cmd_eval = {
    .name = "eval",
    .args = "MODEL --data FILE [--label SLOT] [--group SLOT] [--by SLOT"
            " [--top N]]\n"
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
            "(20)\n" SCORING_HELP
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
