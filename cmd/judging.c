#include "judging.h"

#include <stdlib.h>
#include <string.h>

struct judging {
    char *metrics;
    fl_judge *asked; /* gets no samples: what is asked for */
    fl_judge *judge;
    bool is_finished;
    size_t label;
    size_t *keys; /* slots */
    size_t n_keys;
    /* A batch on its way to the judge. */
    float scores[JUDGING_ROWS], labels[JUDGING_ROWS];
    uint64_t (*ids)[JUDGING_ROWS]; /* of each key */
    const uint64_t **id_lists;
};

/* --- columns ---------------------------------------------------------------- */

/* One value for each record. */
static bool is_column(const fl_tensor *t, size_t n_rows)
{
    if (fl_tensor_numel(t) != (int64_t)n_rows)
        return false;
    for (size_t i = 0; t->kind == FL_KIND_RAGGED && i <= n_rows; i++)
        if (t->lod[0][i] != (int64_t)i)
            return false;
    return true;
}

static float number_at(const fl_tensor *t, size_t i)
{
    if (t->dtype == FL_DTYPE_F32)
        return ((const float *)t->data)[i];
    if (t->dtype == FL_DTYPE_F64)
        return (float)((const double *)t->data)[i];
    return (float)((const int64_t *)t->data)[i];
}

const char *judging_scores(const fl_tensor *t, judging_rows r, float *out)
{
    size_t width = (size_t)fl_tensor_numel(t) / r.n_rows;

    if (t->dtype != FL_DTYPE_F32 || !width ||
        width * r.n_rows != (size_t)fl_tensor_numel(t))
        return "the first output of the model has no f32 number for each "
               "record";
    for (size_t i = 0; i < r.n; i++)
        out[i] = ((const float *)t->data)[(r.lo + i) * width + width - 1];
    return NULL;
}

const char *judging_numbers(const fl_tensor *t, judging_rows r, float *out)
{
    if (!is_column(t, r.n_rows))
        return "a record does not have one number in the slot of the label";
    for (size_t i = 0; i < r.n; i++)
        out[i] = number_at(t, r.lo + i);
    return NULL;
}

const char *judging_ids(const fl_tensor *t, judging_rows r, uint64_t *out)
{
    if (!is_column(t, r.n_rows) ||
        (t->dtype != FL_DTYPE_I64 && t->dtype != FL_DTYPE_U64))
        return "a record does not have one id in a slot that groups are made "
               "by";
    memcpy(out, (const uint64_t *)t->data + r.lo, r.n * sizeof(*out));
    return NULL;
}

/* --- measures by name -------------------------------------------------------- */

void judging_close(judging *j)
{
    if (!j)
        return;
    fl_judge_free(j->judge);
    fl_judge_free(j->asked);
    free(j->metrics);
    free(j->keys);
    free(j->ids);
    free(j->id_lists);
    free(j);
}

static bool make_room(judging *j, const char *metrics)
{
    while (judging_key(j, j->n_keys))
        j->n_keys++;
    j->metrics = strdup(metrics);
    j->keys = calloc(j->n_keys + 1, sizeof(*j->keys));
    j->ids = calloc(j->n_keys + 1, sizeof(*j->ids));
    j->id_lists = calloc(j->n_keys + 1, sizeof(*j->id_lists));
    for (size_t i = 0; j->ids && j->id_lists && i < j->n_keys; i++)
        j->id_lists[i] = j->ids[i];
    return j->metrics && j->keys && j->ids && j->id_lists;
}

judging *judging_open(const char *self, const char *metrics)
{
    judging *j = calloc(1, sizeof(*j));

    if (!j) {
        cmd_failed(self, "no memory for the metrics");
        return NULL;
    }
    if (fl_judge_new(&j->asked, metrics) || fl_judge_new(&j->judge, metrics))
        cmd_misused(self, "--metrics: %s", fl_last_error());
    else if (make_room(j, metrics))
        return j;
    else
        cmd_failed(self, "no memory for the metrics");
    judging_close(j);
    return NULL;
}

const char *judging_key(const judging *j, size_t i)
{
    return fl_judge_key(j->asked, i);
}

size_t judging_count(const judging *j)
{
    return fl_judge_count(j->asked);
}

const char *judging_name(const judging *j, size_t i)
{
    return fl_judge_name(j->asked, i);
}

int judging_better(const judging *j, size_t i)
{
    return fl_judge_better(j->asked, i);
}

static int find_slot(const char *self, const char *name, const fl_slot *slots,
                     size_t n_slots, size_t *out)
{
    for (size_t i = 0; i < n_slots; i++)
        if (!strcmp(slots[i].name, name)) {
            *out = i;
            return CMD_OK;
        }
    return cmd_failed(self,
                      "the data has no slot %s, which --metrics or the label "
                      "names; --slots or --format have all of them",
                      name);
}

int judging_find(judging *j, const char *self, const char *label,
                 const fl_slot *slots, size_t n_slots)
{
    int code = find_slot(self, label, slots, n_slots, &j->label);

    for (size_t i = 0; !code && i < j->n_keys; i++)
        code = find_slot(self, judging_key(j, i), slots, n_slots, &j->keys[i]);
    return code;
}

/* A judge whose figures are made takes no more samples. */
static const char *begin_anew(judging *j)
{
    fl_judge *judge;

    if (!j->is_finished)
        return NULL;
    if (fl_judge_new(&judge, j->metrics))
        return fl_last_error();
    fl_judge_free(j->judge);
    j->judge = judge;
    j->is_finished = false;
    return NULL;
}

static const char *add_some(judging *j, const fl_feed *feeds, judging_rows r,
                            const fl_tensor *scores)
{
    const char *fault = judging_scores(scores, r, j->scores);

    if (!fault)
        fault = judging_numbers(&feeds[j->label].value, r, j->labels);
    for (size_t i = 0; !fault && i < j->n_keys; i++)
        fault = judging_ids(&feeds[j->keys[i]].value, r, j->ids[i]);
    if (!fault &&
        fl_judge_add(j->judge, j->scores, j->labels, j->id_lists, r.n))
        fault = fl_last_error();
    return fault;
}

const char *judging_add(judging *j, const fl_feed *feeds, size_t n_rows,
                        const fl_tensor *scores)
{
    const char *fault = begin_anew(j);

    for (size_t lo = 0; !fault && lo < n_rows; lo += JUDGING_ROWS) {
        size_t n = n_rows - lo < JUDGING_ROWS ? n_rows - lo : JUDGING_ROWS;

        fault = add_some(j, feeds, (judging_rows){ lo, n, n_rows }, scores);
    }
    return fault;
}

fl_status judging_finish(judging *j, fl_fleet *f)
{
    const char *fault = begin_anew(j);
    fl_status st = fault ? fl_last_status() : fl_judge_finish(j->judge, f);

    j->is_finished = !st;
    return st;
}

double judging_value(const judging *j, size_t i)
{
    return fl_judge_value(j->judge, i);
}
