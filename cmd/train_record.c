/* train_record.c - what `flotilla train` leaves behind about a run. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "train_job.h"

static fl_status ask(fl_ctx *c, const train_args *a)
{
    fl_status st = FL_OK;

    if (a->record)
        st = fl_ctx_set(c, "record_dir", a->record);
    if (!st && a->tensorboard)
        st = fl_ctx_set(c, "tensorboard_dir", a->tensorboard);
    return st;
}

static const char *or_that(const char *text, const char *otherwise)
{
    return text ? text : otherwise;
}

/* Those that were not asked for are not told. */
static fl_status note(fl_ctx *c, const train_args *a)
{
    char batch[24], epochs[24], threads[24], seed[24];
    const struct {
        const char *name, *text;
    } all[] = {
        { "model", or_that(a->text, a->model->name) },
        { "data", a->data },
        { "test", a->test },
        { "format", a->net.format },
        { "features", a->net.features },
        { "mode", a->mode },
        { "strategy", a->strategy },
        { "optimizer", or_that(a->net.optimizer, a->model->optimizer) },
        { "learning_rate",
          or_that(a->net.learning_rate, a->model->learning_rate) },
        { "batch", batch },
        { "epochs", epochs },
        { "threads", threads },
        { "seed", seed },
        { "load", a->load },
    };
    fl_status st = FL_OK;

    snprintf(batch, sizeof(batch), "%" PRIu64, a->batch);
    snprintf(epochs, sizeof(epochs), "%" PRIu64, a->epochs);
    snprintf(threads, sizeof(threads), "%" PRIu64, a->threads);
    snprintf(seed, sizeof(seed), "%" PRIu64, a->seed);
    for (size_t i = 0; !st && i < sizeof(all) / sizeof(all[0]); i++)
        if (all[i].text)
            st = fl_record_note(c, all[i].name, all[i].text);
    return st;
}

/* A server tells of itself. */
fl_status train_begin_record(const train_job *j)
{
    fl_status st = ask(j->ctx, j->args);

    if (st || fl_fleet_is_server(j->fleet))
        return st;
    return note(j->ctx, j->args);
}

/* One worker tells it. */
fl_status train_record_total(const train_job *j, const char *option,
                             const train_total *t)
{
    const char *of = strcmp(option, "--test") ? "train" : "test";
    fl_status st = FL_OK;

    if (!fl_fleet_is_first_worker(j->fleet))
        return FL_OK;
    for (size_t i = 0; !st && i < t->n; i++) {
        char name[32 + TRAIN_NAME_BYTES];

        snprintf(name, sizeof(name), "epoch/%s/%s", of, t->figures[i].name);
        st = fl_record_number(j->ctx, name, fl_scope_step(j->counts),
                              t->figures[i].value);
    }
    return st;
}
