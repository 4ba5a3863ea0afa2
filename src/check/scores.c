/* scores.c - records scored three times: as the program was trained, in test
 * mode; as the one that is online says, without passes; and as it is online. */
#include "check/check.h"

#include <inttypes.h>
#include <string.h>

#include "base/alloc.h"
#include "ckpt/version.h"
#include "ops/ops.h"

static const fl_pass_options no_passes = { .optimize = false };

/* --- making --------------------------------------------------------------- */

static bool has_slot(const fl_trial_batch *b, const char *name)
{
    for (size_t i = 0; i < b->n_slots; i++)
        if (!strcmp(b->slots[i].name, name))
            return true;
    return false;
}

static bool has_all_slots(const fl_trial_batch *b, const fl_program *p)
{
    for (const fl_var *v = fl_program_main(p)->first_var; v; v = v->next)
        if (v->flags & FL_VAR_DATA && !has_slot(b, v->name))
            return false;
    return true;
}

/* Labels, losses and metrics included where the data has what they need. */
static fl_status make_right_program(const fl_consistency *c,
                                    const fl_trial_batch *b, fl_program **out)
{
    const fl_recipe *r = c->trained->recipe;
    fl_program *p, *test;
    fl_status st;

    FL_TRY(fl_program_parse(r->text, &fl_ops, &p));
    st = fl_program_clone(p, FL_CLONE_FOR_TEST, &test);
    fl_program_free(p);
    FL_TRY(st);
    if (!has_all_slots(b, test)) {
        fl_program_free(test);
        return fl_check_program(c->trained, out);
    }
    fl_inference_use_tables(test, r->tables);
    fl_program_clear_fetches(test);
    for (size_t i = 0; i < r->n_outputs; i++)
        fl_program_fetch(test, r->outputs[i].name);
    *out = test;
    return FL_OK;
}

static fl_status load_values(fl_consistency *c)
{
    fl_model_version *v;
    fl_status st;

    FL_TRY(fl_version_open(&v, c->path));
    st = fl_edition_load_values(&c->values, v, c->right.plan);
    fl_version_close(v);
    return st;
}

static fl_status make_right(fl_consistency *c, const fl_trial_batch *b)
{
    fl_trial_home home = { &c->values, &c->trained->rules, c->trained->files };
    fl_program *p;

    FL_TRY(make_right_program(c, b, &p));
    FL_TRY(fl_trial_init(&c->right, p, &no_passes, &home, FL_VIEW_FETCHES));
    return load_values(c);
}

static fl_status make_plain(fl_consistency *c)
{
    fl_trial_home home = { &c->plain->values, &c->plain->rules, c->rows };
    fl_program *p;

    FL_TRY(fl_check_program(c->plain, &p));
    return fl_trial_init(&c->plain_run, p, &no_passes, &home, FL_VIEW_FETCHES);
}

/* --- comparing ------------------------------------------------------------ */

/* Two ways to score a batch. */
typedef struct duel {
    fl_consistency *c;
    fl_finding *f;
    const fl_trial_batch *batch;
    fl_trace_side a, b;
    const char *ways[2]; /* how messages call them */
    double tolerance;
    uint8_t *odd; /* by record */
} duel;

static fl_status tell(const duel *d, const fl_model_var *output, int64_t i,
                      const fl_tensor *a, const fl_tensor *b)
{
    int64_t width = fl_tensor_numel(a) / (int64_t)d->batch->n_records;
    uint64_t record = d->c->n_records + (uint64_t)(width ? i / width : 0);
    fl_str x = { 0 }, y = { 0 }, why = { 0 };
    fl_status st =
        fl_trace_difference(&d->a, &d->b, d->tolerance, d->batch, &why);

    fl_check_add_number(&x, a, i);
    fl_check_add_number(&y, b, i);
    fl_finding_tell(d->f, "record %" PRIu64 ", %s: %s %s, %s %s%s", record,
                    output->name, fl_str_text(&x), d->ways[0], fl_str_text(&y),
                    d->ways[1], fl_str_text(&why));
    fl_str_release(&x);
    fl_str_release(&y);
    fl_str_release(&why);
    return st;
}

static fl_status compare_output(duel *d, const fl_model_var *output,
                                const fl_tensor *a, const fl_tensor *b)
{
    int64_t n = fl_tensor_numel(a);
    int64_t width = n / (int64_t)d->batch->n_records;

    if (a->dtype != b->dtype || n != fl_tensor_numel(b))
        FL_FAIL(FL_ERR_TYPE,
                "output %s has another type or number of elements %s than %s",
                output->name, d->ways[0], d->ways[1]);
    for (int64_t i = 0; i < n; i++) {
        double gap = fl_check_gap(a, b, i);

        if (gap > d->f->largest)
            d->f->largest = gap;
        if (gap <= d->tolerance)
            continue;
        d->odd[width ? i / width : 0] = 1;
        if (!d->f->first)
            FL_TRY(tell(d, output, i, a, b));
    }
    return FL_OK;
}

static void count_records(duel *d)
{
    d->f->compared += d->batch->n_records;
    for (size_t i = 0; i < d->batch->n_records; i++)
        d->f->different += d->odd[i];
}

static fl_status compare_programs(duel *d)
{
    const fl_recipe *right = d->c->trained->recipe;
    const fl_recipe *online = d->c->plain->recipe;

    for (size_t i = 0; i < right->n_outputs && i < online->n_outputs; i++)
        FL_TRY(compare_output(
            d, &online->outputs[i],
            fl_trial_find(&d->c->right, right->outputs[i].name),
            fl_trial_find(&d->c->plain_run, online->outputs[i].name)));
    return FL_OK;
}

static fl_status compare_passes(duel *d, const fl_tensor *scores)
{
    const fl_recipe *online = d->c->plain->recipe;

    for (size_t i = 0; i < online->n_outputs; i++)
        FL_TRY(compare_output(
            d, &online->outputs[i],
            fl_trial_find(&d->c->plain_run, online->outputs[i].name),
            &scores[i]));
    return FL_OK;
}

static fl_status compare_batch(fl_consistency *c, const fl_trial_batch *b,
                               const fl_tensor *scores, uint8_t *odd)
{
    const fl_trace_side trained = { c->trained, no_passes, c->trained->files };
    const fl_trace_side plain = { c->plain, no_passes, c->rows };
    const fl_trace_side online = { c->online, c->online->recipe->passes,
                                   c->rows };
    duel programs = { c,     &c->findings[FL_CHECK_SCORES], b, trained,
                      plain, { "in training", "online" },   0, odd };
    duel passes = { c,
                    &c->findings[FL_CHECK_PASSES],
                    b,
                    plain,
                    online,
                    { "without passes", "with them" },
                    c->args.tolerance,
                    odd };

    FL_TRY(compare_programs(&programs));
    count_records(&programs);
    memset(odd, 0, b->n_records);
    FL_TRY(compare_passes(&passes, scores));
    count_records(&passes);
    return FL_OK;
}

/* --- the batch ------------------------------------------------------------ */

static fl_status run_both(fl_consistency *c, const fl_trial_batch *b)
{
    if (!c->right.plan)
        FL_TRY(fl_err_ctx(make_right(c, b), "the trained program"));
    if (!c->plain_run.plan)
        FL_TRY(make_plain(c));
    FL_TRY(fl_err_ctx(fl_trial_run(&c->right, b), "the trained program"));
    return fl_err_ctx(fl_trial_run(&c->plain_run, b),
                      "the program that is online");
}

fl_status fl_consistency_add(fl_consistency *c, const fl_feed *slots,
                             size_t n_slots, size_t n_records,
                             const fl_tensor *scores, size_t n_scores)
{
    fl_trial_batch b = { slots, n_slots, n_records };
    uint8_t *odd;
    fl_status st;

    if (!n_records)
        return FL_OK;
    if (n_scores != c->online->recipe->n_outputs)
        FL_FAIL(FL_ERR_INVAL, "the model has %zu outputs, and there are %zu",
                c->online->recipe->n_outputs, n_scores);
    FL_TRY(run_both(c, &b));
    odd = fl_alloc(n_records);
    st = compare_batch(c, &b, scores, odd);
    fl_free(odd);
    c->n_records += n_records;
    return st;
}
