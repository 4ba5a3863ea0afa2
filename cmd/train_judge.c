#include "train_judge.h"

#include <math.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "judging.h"

#define PLACES 1000000 /* that --split counts in */
#define WHY_BYTES 512

struct train_judge {
    judging *judging;
    const char *fetches[1]; /* the prediction */
    pthread_mutex_t mu;     /* guards the judging, and what follows */
    char why[WHY_BYTES];    /* a batch cannot be judged; "": all could be */
};

/* --- parts of the data -------------------------------------------------------- */

static int check_metrics(const char *self, const train_args *a)
{
    if (!a->metrics)
        return CMD_OK;
    if (!a->test)
        return cmd_misused(self, "--metrics of what? --test DIR or --split "
                                 "0.8 says what is held out");
    return CMD_OK;
}

int train_check_judge(const char *self, train_args *a)
{
    if (a->key && !a->split_share)
        return cmd_misused(self, "--key %s of what? --split 0.8 says it",
                           a->key);
    if (a->split_share && a->test)
        return cmd_misused(self, "--test names what is held out, and --split "
                                 "holds a part of the data out; give one of "
                                 "them");
    if (a->has_split && !(a->split_share > 0 && a->split_share < 1))
        return cmd_misused(self, "--split needs a share between 0 and 1, 0.8 "
                                 "for example");
    if (a->has_sample && !(a->keep_negatives > 0))
        return cmd_misused(self,
                           "--sample-negatives needs a share above 0; 0.1 "
                           "keeps one in ten");
    if (a->split_share)
        a->test = a->data;
    return check_metrics(self, a);
}

static const char *label_of(const train_job *j)
{
    return j->net.label ? j->net.label : "label";
}

static void print_split(const train_args *a, train_part part, FILE *to)
{
    long at = lround(a->split_share * PLACES);

    if (!a->split_share)
        return;
    fprintf(to, "split=%ld-%ld/%d", part == TRAIN_ON ? 0 : at,
            part == TRAIN_ON ? at : PLACES, PLACES);
    if (a->key)
        fprintf(to, ",key=%s", a->key);
}

/* Of what is held out all negatives are kept: chances are judged as they are. */
static void print_negatives(const train_job *j, train_part part, FILE *to)
{
    const train_args *a = j->args;

    if (a->keep_negatives > 0 && part == TRAIN_ON)
        fprintf(to, "%snegatives=%.9g:%s", a->split_share ? "," : "",
                a->keep_negatives, label_of(j));
}

fl_status train_set_part(const train_job *j, train_part part, fl_dataset *d)
{
    char *text = NULL;
    size_t len = 0;
    FILE *to = open_memstream(&text, &len);
    fl_status st = FL_ERR_NOMEM;

    if (!to)
        return st;
    print_split(j->args, part, to);
    print_negatives(j, part, to);
    if (!fclose(to))
        st = len ? fl_dataset_set_options(d, text) : FL_OK;
    free(text);
    return st;
}

/* --- measures ----------------------------------------------------------------- */

int train_judge_open(train_job *j)
{
    train_judge *t;

    if (!j->args->metrics)
        return CMD_OK;
    t = calloc(1, sizeof(*t));
    if (!t)
        return cmd_failed(j->self, "no memory for the metrics");
    pthread_mutex_init(&t->mu, NULL);
    j->judge = t;
    t->judging = judging_open(j->self, j->args->metrics);
    if (!t->judging)
        return CMD_USAGE;
    if (judging_count(t->judging) > TRAIN_JUDGED_MAX)
        return cmd_misused(j->self, "--metrics: more than %d are named",
                           TRAIN_JUDGED_MAX);
    return CMD_OK;
}

void train_judge_close(train_job *j)
{
    train_judge *t = j->judge;

    if (!t)
        return;
    judging_close(t->judging);
    pthread_mutex_destroy(&t->mu);
    free(t);
    j->judge = NULL;
}

static bool has_feed(const model_net *net, const char *name)
{
    for (size_t i = 0; i < net->n_feeds; i++)
        if (!strcmp(net->feeds[i], name))
            return true;
    return false;
}

fl_status train_judge_add_keys(train_job *j)
{
    const char *key;

    for (size_t i = 0; j->judge && (key = judging_key(j->judge->judging, i));
         i++)
        if (!has_feed(&j->net, key) && !model_ids(j->ctx, &j->net, key, 1))
            return fl_last_status();
    return FL_OK;
}

int train_judge_check_model(const train_job *j)
{
    if (j->args->keep_negatives > 0 && !j->net.is_sampled)
        return cmd_failed(j->self,
                          "%s does not learn chances of clicks from labels 0 "
                          "and 1: --sample-negatives could not be corrected "
                          "for; leave it out",
                          j->args->model->name);
    if (j->judge && !j->net.prediction)
        return cmd_failed(j->self,
                          "%s has no prediction that --metrics could judge; "
                          "leave it out",
                          j->args->model->name);
    return CMD_OK;
}

int train_judge_find(train_job *j)
{
    const fl_slot *slots;
    size_t n = 0;

    if (!j->judge)
        return CMD_OK;
    slots = fl_dataset_slots(j->test, &n);
    if (!slots)
        return train_fail(j, "--test");
    return judging_find(j->judge->judging, j->self, label_of(j), slots, n);
}

static bool judge_batch(void *arg, int thread, const fl_feed *feeds,
                        size_t n_rows, const fl_tensor *fetched)
{
    train_judge *t = arg;
    const char *fault;

    (void)thread;
    pthread_mutex_lock(&t->mu);
    fault = judging_add(t->judging, feeds, n_rows, fetched);
    if (fault)
        snprintf(t->why, sizeof(t->why), "%s", fault);
    pthread_mutex_unlock(&t->mu);
    return !fault;
}

void train_judge_watch(train_job *j, fl_dataset_run_args *args)
{
    if (!j->judge)
        return;
    j->judge->fetches[0] = fl_var_name(j->net.prediction);
    args->fetches = j->judge->fetches;
    args->n_fetches = 1;
    args->print_period = -1;
    args->on_batch = judge_batch;
    args->batch_arg = j->judge;
}

int train_judge_fault(const train_job *j)
{
    if (!j->judge || !j->judge->why[0])
        return CMD_OK;
    return cmd_failed(j->self, "--metrics: %s", j->judge->why);
}

static train_figure figure_of(const judging *judged, size_t i, bool is_known)
{
    train_figure f = train_figure_of(judging_name(judged, i),
                                     is_known ? judging_value(judged, i) : NAN);

    f.less_is_better = judging_better(judged, i) < 0;
    return f;
}

/* They stand for the model's own, all but the loss. The first one that can be
   better or worse decides which epoch is the best. */
static void set_figures(const judging *judged, train_total *out)
{
    size_t n = judging_count(judged), first = 0;

    while (first < n && !judging_better(judged, first))
        first++;
    out->n = 1;
    out->decides = first < n ? out->n + first : 0;
    for (size_t i = 0; i < n; i++)
        out->figures[out->n++] = figure_of(judged, i, out->is_counted);
}

fl_status train_judge_finish(train_job *j, train_total *out)
{
    fl_status st = FL_OK;

    if (!j->judge)
        return FL_OK;
    if (out->is_counted)
        st = judging_finish(j->judge->judging, j->fleet);
    if (!st)
        set_figures(j->judge->judging, out);
    return st;
}
