#include "fleet/eval_sums.h"

#include <math.h>
#include <stdlib.h>

/* --- sums ----------------------------------------------------------------- */

#define COMPARE(a, b) (((a) > (b)) - ((a) < (b)))

static int compare(const void *left, const void *right)
{
    const fl_sample *a = left, *b = right;
    int by_group = COMPARE(a->group, b->group);
    int by_score = COMPARE(a->score, b->score);

    if (by_group)
        return by_group;
    return by_score ? by_score : COMPARE(a->label, b->label);
}

void fl_samples_sort(fl_sample *samples, size_t n)
{
    if (n)
        qsort(samples, n, sizeof(*samples), compare);
}

#define NEAREST 1e-7 /* that a score comes to 0 and 1, for its logarithm */

static double log_loss(double score, bool is_positive)
{
    double p = is_positive ? score : 1 - score;

    return -log(fmin(fmax(p, NEAREST), 1 - NEAREST));
}

static void add_sample(fl_eval_sums *to, const fl_sample *s)
{
    double score = (double)s->score, label = (double)s->label;
    double error = fabs(score - label);

    to->samples++;
    to->positives += label > 0;
    to->correct += (score >= 0.5) == (label > 0);
    to->score += score;
    to->label += label;
    to->abs_error += error;
    to->square_error += error * error;
    to->log_loss += log_loss(score, label > 0);
}

void fl_samples_add_up(const fl_sample *samples, size_t n, fl_eval_sums *out)
{
    *out = (fl_eval_sums){ 0 };
    for (size_t i = 0; i < n; i++)
        add_sample(out, &samples[i]);
    if (out->positives > 0 && out->positives < out->samples) {
        out->group_area = fl_samples_auc(samples, n) * out->samples;
        out->group_samples = out->samples;
    }
}

void fl_eval_sums_add(fl_eval_sums *to, const fl_eval_sums *from)
{
#define FL_EVAL_SUM(name) to->name += from->name;
    FL_EVAL_SUMS(FL_EVAL_SUM)
#undef FL_EVAL_SUM
}

/* --- figures -------------------------------------------------------------- */

/* Counted in halves of a pair, so that they are whole numbers. */
double fl_samples_auc(const fl_sample *samples, size_t n)
{
    double halves = 0, below = 0, positives = 0;

    for (size_t i = 0, end; i < n; i = end) {
        double here[2] = { 0 };

        for (end = i; end < n && samples[end].score == samples[i].score; end++)
            here[samples[end].label > 0]++;
        halves += here[1] * (2 * below + here[0]);
        below += here[0];
        positives += here[1];
    }
    return below > 0 && positives > 0 ? halves / 2 / below / positives : 0.5;
}

void fl_eval_figures_of(const fl_eval_sums *s, fl_eval_figures *out)
{
    double n = s->samples;

    *out = (fl_eval_figures){
        .samples = (uint64_t)n,
        .positives = (uint64_t)s->positives,
        .auc = 0.5,
        .group_auc =
            s->group_samples > 0 ? s->group_area / s->group_samples : NAN,
        .log_loss = s->log_loss / n,
        .mae = s->abs_error / n,
        .rmse = sqrt(s->square_error / n),
        .accuracy = s->correct / n,
        .actual_ctr = s->label / n,
        .predicted_ctr = s->score / n,
        .copc = s->score > 0 ? s->label / s->score : NAN,
        .bucket_error = NAN,
    };
}

/* --- error of click rates -------------------------------------------------- */

/* A range of scores tells its click rate when that is known to one in twenty,
   by the spread of so many draws; it is given up when it gets wider than one in
   a hundred. */
#define KNOWN 0.05
#define WIDEST 0.01

typedef struct range {
    double from; /* its first score; < 0: it has not begun */
    double samples, positives, score;
} range;

typedef struct errors {
    double sum, samples;
} errors;

static bool is_known(const range *r, double rate)
{
    return rate > 0 && sqrt((1 - rate) / (rate * r->samples)) < KNOWN;
}

/* Ends the range when it is known. */
static void look_at(range *r, errors *e)
{
    double rate = r->samples > 0 ? r->score / r->samples : 0;

    if (!is_known(r, rate))
        return;
    e->sum += fabs(r->positives / r->samples / rate - 1) * r->samples;
    e->samples += r->samples;
    *r = (range){ .from = -1 };
}

size_t fl_eval_step_of(float score)
{
    size_t step = (size_t)((double)score * FL_EVAL_STEPS);

    return step < FL_EVAL_STEPS ? step : FL_EVAL_STEPS - 1;
}

double fl_eval_bucket_error(const double *samples, const double *positives)
{
    range r = { .from = -1 };
    errors e = { 0 };

    for (size_t i = 0; i < FL_EVAL_STEPS; i++) {
        double score = (double)i / FL_EVAL_STEPS;

        if (r.from < 0 || score - r.from > WIDEST)
            r = (range){ .from = score };
        r.samples += samples[i];
        r.positives += positives[i];
        r.score += samples[i] * score;
        look_at(&r, &e);
    }
    return e.samples > 0 ? e.sum / e.samples : NAN;
}
