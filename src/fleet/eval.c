/* eval.c - figures of all samples, whoever has them.
 *
 * Samples belong to one of N_BINS bins by their group, and bins to workers.
 * Without groups, samples of one score are a group:
 *
 *     exchange    every worker keeps the samples of its bins; a group is in one
 *     bins        sorted, so that sums do not depend on where samples came from
 *     together    sums of all bins, added up in the order of bins; the pairs of
 *                 all scores; the steps of all scores; the largest groups; what
 *                 was asked for besides (eval_asked.h)
 */
#include "fleet/eval_asked.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>

#include "base/args.h"
#include "base/hash.h"
#include "fleet/allgather.h"
#include "fleet/metrics.h"

#define N_BINS 1024
#define BIN_BITS 10

#define WORDS(T) (sizeof(T) / sizeof(uint64_t))
#define SAMPLE_WORDS WORDS(fl_sample)
_Static_assert(sizeof(fl_sample) == 16, "two words of a message");

/* A group that is told apart, as it goes from worker to worker. */
typedef struct group {
    uint64_t number;
    double auc;
    fl_eval_sums sums;
} group;
_Static_assert(sizeof(group) % sizeof(uint64_t) == 0, "words of a message");

typedef FL_VEC(fl_sample) samples;
typedef FL_VEC(group) groups;

struct fl_eval {
    samples own;
    bool is_of_numbers; /* and not of chances */
    bool has_groups, is_finished;
    fl_eval_figures total;
    groups groups; /* the largest, in order */
    FL_VEC(fl_eval_asked) asked;
    FL_VEC(double) measures; /* of what was asked for */
};

/* What a call of fl_eval_finish needs. */
typedef struct finish {
    fl_eval *eval;
    fl_fleet *fleet; /* NULL: this process alone */
    size_t n_groups;
    samples kept;
    uint64_t n_seen; /* samples of all workers, when they were exchanged */
    fl_eval_sums bins[N_BINS];
    fl_asked_sums *asked; /* of each bin what was asked for, in its order */
} finish;

fl_status fl_eval_new(fl_eval **out)
{
    *out = fl_alloc(sizeof(**out));
    return FL_OK;
}

fl_status fl_eval_new_of_numbers(fl_eval **out)
{
    FL_TRY(fl_eval_new(out));
    (*out)->is_of_numbers = true;
    return FL_OK;
}

void fl_eval_free(fl_eval *e)
{
    if (!e)
        return;
    fl_vec_release(&e->asked);
    fl_vec_release(&e->measures);
    fl_vec_release(&e->own);
    fl_vec_release(&e->groups);
    fl_free(e);
}

/* --- taking in ------------------------------------------------------------- */

void fl_eval_ask(fl_eval *e, fl_eval_asked asked)
{
    fl_vec_push(&e->asked, asked);
}

static fl_status check_sample(const fl_eval *e, size_t i, float score,
                              int64_t label)
{
    if (!(score >= 0 && score <= 1))
        FL_FAIL(FL_ERR_NUMERIC,
                "fl_eval_add: score %g of sample %zu is not between 0 and 1; "
                "give probabilities (sigmoid or softmax of the last layer)",
                (double)score, e->own.len + i);
    if (label != 0 && label != 1)
        FL_FAIL(FL_ERR_INVAL,
                "fl_eval_add: label %" PRId64 " of sample %zu is not 0 or 1",
                label, e->own.len + i);
    return FL_OK;
}

static fl_status check_number(const fl_eval *e, size_t i, float score,
                              float label)
{
    if (!isfinite(score) || !isfinite(label))
        FL_FAIL(FL_ERR_NUMERIC,
                "fl_eval_add_numbers: %s %g of sample %zu is not finite",
                isfinite(score) ? "label" : "score",
                (double)(isfinite(score) ? label : score), e->own.len + i);
    return FL_OK;
}

static fl_status check_batch(const fl_eval *e, bool is_of_numbers,
                             bool has_groups)
{
    if (e->is_of_numbers != is_of_numbers)
        FL_FAIL(FL_ERR_INVAL,
                "fl_eval_add: %s; fl_eval_new_of_numbers and "
                "fl_eval_add_numbers go together",
                is_of_numbers ? "this evaluation is one of chances"
                              : "this evaluation is one of numbers");
    if (e->is_finished)
        FL_FAIL(FL_ERR_INVAL, "fl_eval_add: the figures are made already; take "
                              "another fl_eval for more samples");
    if (e->own.len && e->has_groups != has_groups)
        FL_FAIL(FL_ERR_INVAL, "fl_eval_add: groups are given with some samples "
                              "and not with others");
    return FL_OK;
}

static uint32_t bits_of(float score)
{
    uint32_t bits;

    memcpy(&bits, &score, sizeof(bits));
    return bits;
}

static void add_sample(fl_eval *e, float score, float label,
                       const uint64_t *group_of)
{
    fl_sample s = { group_of ? *group_of : bits_of(score), score, label };

    fl_vec_push(&e->own, s);
    e->has_groups |= group_of != NULL;
}

fl_status fl_eval_add(fl_eval *e, const float *scores, const int64_t *labels,
                      const uint64_t *groups_of, size_t n)
{
    FL_TRY(check_batch(e, false, groups_of));
    for (size_t i = 0; i < n; i++)
        FL_TRY(check_sample(e, i, scores[i], labels[i]));
    for (size_t i = 0; i < n; i++)
        add_sample(e, scores[i], (float)labels[i],
                   groups_of ? &groups_of[i] : NULL);
    return FL_OK;
}

fl_status fl_eval_add_numbers(fl_eval *e, const float *scores,
                              const float *labels, const uint64_t *groups_of,
                              size_t n)
{
    FL_TRY(check_batch(e, true, groups_of));
    for (size_t i = 0; i < n; i++)
        FL_TRY(check_number(e, i, scores[i], labels[i]));
    for (size_t i = 0; i < n; i++)
        add_sample(e, scores[i], labels[i], groups_of ? &groups_of[i] : NULL);
    return FL_OK;
}

/* --- exchange -------------------------------------------------------------- */

static uint32_t bin_of(const fl_sample *s)
{
    return (uint32_t)(fl_mix64(s->group) >> (64 - BIN_BITS));
}

static void keep_part(finish *f, const fl_allgather_part *p, size_t mine,
                      size_t n_workers)
{
    const fl_sample *s = p->words;

    f->n_seen += p->n / SAMPLE_WORDS;
    for (size_t i = 0; i < p->n / SAMPLE_WORDS; i++)
        if (bin_of(&s[i]) % n_workers == mine)
            fl_vec_push(&f->kept, s[i]);
}

/* Which of those that take part this worker is. */
static size_t place_of(const fl_allgather_round *t)
{
    size_t i = 0;

    while (i < t->parts.len && t->parts.data[i].rank != t->fleet->role.index)
        i++;
    return i;
}

static bool keep_round(finish *f, const fl_allgather_round *t)
{
    size_t full = t->cap / SAMPLE_WORDS * SAMPLE_WORDS;
    bool has_more = false;

    for (size_t i = 0; i < t->parts.len; i++) {
        keep_part(f, &t->parts.data[i], place_of(t), t->parts.len);
        has_more |= t->parts.data[i].n == full;
    }
    return has_more;
}

static fl_status run_rounds(finish *f, fl_allgather_round *t)
{
    const samples *own = &f->eval->own;
    size_t at = 0, each = t->cap / SAMPLE_WORDS;
    bool has_more;

    do {
        size_t n = own->len - at < each ? own->len - at : each;

        if (n)
            memcpy(fl_allgather_words(t), own->data + at,
                   n * sizeof(fl_sample));
        FL_TRY(fl_allgather_run_round(t, n * SAMPLE_WORDS, 0));
        at += n;
        has_more = !t->is_changed && keep_round(f, t);
    } while (has_more);
    return FL_OK;
}

/* Begins anew when somebody leaves in the midst. */
static fl_status exchange(finish *f)
{
    fl_allgather_round t;
    fl_status st = fl_allgather_begin(&t, f->fleet, FL_CALL_EVAL);

    while (!st) {
        fl_allgather_restart(&t);
        f->kept.len = 0;
        f->n_seen = 0;
        st = run_rounds(f, &t);
        if (!t.is_changed)
            break;
    }
    fl_allgather_end(&t);
    return st;
}

static void keep_own(finish *f)
{
    f->n_seen = f->eval->own.len;
    for (size_t i = 0; i < f->eval->own.len; i++)
        fl_vec_push(&f->kept, f->eval->own.data[i]);
}

/* --- bins ------------------------------------------------------------------ */

static int larger_first(const void *left, const void *right)
{
    const group *a = left, *b = right;

    if (a->sums.samples != b->sums.samples)
        return a->sums.samples > b->sums.samples ? -1 : 1;
    return a->number < b->number ? -1 : a->number > b->number;
}

/* The groups that count, in order. */
static void cut_groups(const finish *f)
{
    groups *g = &f->eval->groups;

    if (g->len)
        qsort(g->data, g->len, sizeof(*g->data), larger_first);
    if (g->len > f->n_groups)
        g->len = f->n_groups;
}

static void add_asked(finish *f, const fl_sample *s, size_t n)
{
    size_t n_asked = f->eval->asked.len;

    for (size_t i = 0; i < n_asked; i++) {
        const fl_eval_asked *a = &f->eval->asked.data[i];

        a->add(s, n, a->number, &f->asked[bin_of(s) * n_asked + i]);
    }
}

/* Samples of one group and bin. */
static void add_group(finish *f, const fl_sample *s, size_t n)
{
    group g = { .number = s->group };

    fl_samples_add_up(s, n, &g.sums);
    fl_eval_sums_add(&f->bins[bin_of(s)], &g.sums);
    add_asked(f, s, n);
    if (!f->n_groups || !f->eval->has_groups)
        return;
    g.auc = fl_samples_auc(s, n);
    fl_vec_push(&f->eval->groups, g);
    if (f->eval->groups.len > 2 * f->n_groups + N_BINS)
        cut_groups(f);
}

static void fill_bins(finish *f)
{
    const fl_sample *s = f->kept.data;

    fl_samples_sort(f->kept.data, f->kept.len);
    for (size_t i = 0, end; i < f->kept.len; i = end) {
        for (end = i; end < f->kept.len && s[end].group == s[i].group;)
            end++;
        add_group(f, &s[i], end - i);
    }
    cut_groups(f);
}

/* --- together -------------------------------------------------------------- */

static fl_status somebody_left(void)
{
    FL_FAIL(FL_ERR_CLOSED,
            "fl_eval_finish: a worker has left in the midst of it, and its "
            "share of the figures with it; evaluate again");
}

/* Each bin has its sums in one worker, and nothing is added to them. */
static fl_status add_bins(finish *f, fl_eval_sums *out)
{
    if (f->fleet)
        FL_TRY(fl_fleet_fold(f->fleet, FL_CALL_EVAL, FL_REDUCE_SUM,
                             (double *)f->bins,
                             N_BINS * sizeof(fl_eval_sums) / sizeof(double)));
    *out = (fl_eval_sums){ 0 };
    for (int i = 0; i < N_BINS; i++)
        fl_eval_sums_add(out, &f->bins[i]);
    return (uint64_t)out->samples == f->n_seen ? FL_OK : somebody_left();
}

/* In the order of bins, as the figures are. */
static fl_status add_measures(finish *f)
{
    fl_eval *e = f->eval;
    size_t n = e->asked.len;

    if (f->fleet && n)
        FL_TRY(fl_fleet_fold(f->fleet, FL_CALL_EVAL, FL_REDUCE_SUM,
                             (double *)f->asked,
                             N_BINS * n * sizeof(*f->asked) / sizeof(double)));
    e->measures.len = 0;
    for (size_t i = 0; i < n; i++) {
        fl_asked_sums all = { 0 };

        for (size_t bin = 0; bin < N_BINS; bin++) {
            all.sum += f->asked[bin * n + i].sum;
            all.weight += f->asked[bin * n + i].weight;
        }
        fl_vec_push(&e->measures, all.weight > 0 ? all.sum / all.weight : NAN);
    }
    return FL_OK;
}

static fl_status fold_steps(finish *f, double *steps, double *out)
{
    const samples *own = &f->eval->own;

    for (size_t i = 0; i < own->len; i++) {
        size_t step = fl_eval_step_of(own->data[i].score);

        steps[step]++;
        steps[FL_EVAL_STEPS + step] += (double)own->data[i].label;
    }
    if (f->fleet)
        FL_TRY(fl_fleet_fold(f->fleet, FL_CALL_EVAL, FL_REDUCE_SUM, steps,
                             (size_t)2 * FL_EVAL_STEPS));
    *out = fl_eval_bucket_error(steps, steps + FL_EVAL_STEPS);
    return FL_OK;
}

static fl_status bucket_error(finish *f, double *out)
{
    double *steps = fl_alloc((size_t)2 * FL_EVAL_STEPS * sizeof(*steps));
    fl_status st = fold_steps(f, steps, out);

    fl_free(steps);
    return st;
}

/* The same count in one process. */
static fl_status auc_alone(fl_scores *s, double *out)
{
    int label = s->n[1] <= s->n[0];
    uint64_t n[2] = { s->n[0], s->n[1] }, halves = 0;
    fl_score_run runs[64];
    size_t at = 0, n_runs;

    while ((n_runs = fl_scores_runs(s->keys[label], s->n[label], &at, runs,
                                    FL_LEN(runs))))
        halves += fl_scores_halves(runs, n_runs, s->keys[!label], s->n[!label]);
    return fl_scores_auc(n, label, halves, out);
}

static fl_status auc_of(finish *f, const float *scores, const int64_t *labels,
                        double *out)
{
    size_t n = f->eval->own.len, at;
    fl_scores own;
    fl_status st;

    if (f->fleet)
        return fl_fleet_metrics_exact_auc(f->fleet, scores, labels, n, out);
    if (fl_scores_make(&own, scores, labels, n, &at))
        st = fl_err_set(FL_ERR_NOMEM,
                        "fl_eval_finish: no memory to sort %zu scores", n);
    else
        st = auc_alone(&own, out);
    fl_scores_release(&own);
    return st;
}

static fl_status auc_of_all(finish *f, double *out)
{
    const samples *own = &f->eval->own;
    float *scores = fl_alloc((own->len + 1) * sizeof(*scores));
    int64_t *labels = fl_alloc((own->len + 1) * sizeof(*labels));
    fl_status st;

    for (size_t i = 0; i < own->len; i++) {
        scores[i] = own->data[i].score;
        labels[i] = own->data[i].label > 0;
    }
    st = auc_of(f, scores, labels, out);
    fl_free(labels);
    fl_free(scores);
    return st;
}

/* --- the largest groups ---------------------------------------------------- */

static fl_status take_groups(finish *f, const fl_allgather_round *t)
{
    for (size_t i = 0; i < t->parts.len; i++) {
        const group *g = t->parts.data[i].words;

        if (t->parts.data[i].rank == t->fleet->role.index)
            continue;
        for (size_t k = 0; k < t->parts.data[i].n / WORDS(group); k++)
            fl_vec_push(&f->eval->groups, g[k]);
    }
    return FL_OK;
}

/* A few at a time; each worker has no more than are asked for. */
static fl_status gather_groups(finish *f, fl_allgather_round *t)
{
    groups own = { 0 };
    size_t each = t->cap / WORDS(group);
    fl_status st = FL_OK;

    for (size_t i = 0; i < f->eval->groups.len; i++)
        fl_vec_push(&own, f->eval->groups.data[i]);
    for (size_t at = 0; !st && each && at < f->n_groups; at += each) {
        size_t left = own.len > at ? own.len - at : 0;
        size_t n = left < each ? left : each;

        if (n)
            memcpy(fl_allgather_words(t), own.data + at, n * sizeof(group));
        st = fl_allgather_run_round(t, n * WORDS(group), f->n_groups);
        if (!st)
            st = t->is_changed ? somebody_left() : take_groups(f, t);
    }
    fl_vec_release(&own);
    return st;
}

static fl_status share_groups(finish *f)
{
    fl_allgather_round t;
    fl_status st = fl_allgather_begin(&t, f->fleet, FL_CALL_EVAL);

    if (!st)
        st = gather_groups(f, &t);
    fl_allgather_end(&t);
    cut_groups(f);
    return st;
}

/* --- the whole ------------------------------------------------------------- */

/* A worker without samples does not know by itself. */
static fl_status agree_on_groups(finish *f)
{
    double has_groups = f->eval->has_groups;

    if (!f->fleet)
        return FL_OK;
    FL_TRY(
        fl_fleet_fold(f->fleet, FL_CALL_EVAL, FL_REDUCE_MAX, &has_groups, 1));
    f->eval->has_groups = has_groups > 0;
    return FL_OK;
}

static fl_status share_samples(finish *f)
{
    FL_TRY(agree_on_groups(f));
    if (f->fleet)
        return exchange(f);
    keep_own(f);
    return FL_OK;
}

/* Numbers have no classes. */
static void leave_out_classes(fl_eval_figures *f)
{
    f->auc = f->group_auc = f->log_loss = f->accuracy = NAN;
}

static fl_status make_figures(finish *f)
{
    fl_eval *e = f->eval;
    fl_eval_sums sums;

    FL_TRY(share_samples(f));
    fill_bins(f);
    FL_TRY(add_bins(f, &sums));
    if (!(sums.samples > 0))
        FL_FAIL(FL_ERR_INVAL, "fl_eval_finish: there are no samples; add some "
                              "with fl_eval_add first");
    FL_TRY(add_measures(f));
    fl_eval_figures_of(&sums, &e->total);
    if (!e->has_groups)
        e->total.group_auc = NAN;
    if (e->is_of_numbers) {
        leave_out_classes(&e->total);
    } else {
        FL_TRY(auc_of_all(f, &e->total.auc));
        FL_TRY(bucket_error(f, &e->total.bucket_error));
    }
    return f->fleet && f->n_groups ? share_groups(f) : FL_OK;
}

fl_status fl_eval_finish(fl_eval *e, fl_fleet *fleet, size_t n_groups)
{
    finish *f = fl_alloc(sizeof(*f));
    fl_status st;

    *f = (finish){ .eval = e, .fleet = fleet, .n_groups = n_groups };
    f->asked = fl_alloc((N_BINS * e->asked.len + 1) * sizeof(*f->asked));
    e->groups.len = 0;
    st = make_figures(f);
    e->is_finished = !st;
    fl_free(f->asked);
    fl_vec_release(&f->kept);
    fl_free(f);
    return st;
}

static fl_status check_finished(const fl_eval *e, const char *what)
{
    if (!e->is_finished)
        FL_FAIL(FL_ERR_INVAL, "%s: call fl_eval_finish first", what);
    return FL_OK;
}

fl_status fl_eval_total(const fl_eval *e, fl_eval_figures *out)
{
    FL_TRY(check_finished(e, "fl_eval_total"));
    return FL_ARGS_FILL(fl_eval_figures, out, &e->total);
}

double fl_eval_measure(const fl_eval *e, size_t i)
{
    return e->is_finished ? e->measures.data[i] : NAN;
}

size_t fl_eval_group_count(const fl_eval *e)
{
    return e->is_finished ? e->groups.len : 0;
}

fl_status fl_eval_group(const fl_eval *e, size_t i, uint64_t *number,
                        fl_eval_figures *out)
{
    fl_eval_figures figures;

    FL_TRY(check_finished(e, "fl_eval_group"));
    if (i >= e->groups.len)
        FL_FAIL(FL_ERR_NOTFOUND, "fl_eval_group: there is no group %zu of %zu",
                i, e->groups.len);
    fl_eval_figures_of(&e->groups.data[i].sums, &figures);
    figures.auc = e->groups.data[i].auc;
    if (e->is_of_numbers)
        leave_out_classes(&figures);
    *number = e->groups.data[i].number;
    return FL_ARGS_FILL(fl_eval_figures, out, &figures);
}
