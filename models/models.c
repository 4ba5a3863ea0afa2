/* models.c - finds models, and what all of them need: an optimizer, data. */
#include "models.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "flotilla/experimental/job_data.h"

#define FL_MODEL(name) extern const model model_##name;
#include "models.def"
#undef FL_MODEL

const model *const model_all[] = {
#define FL_MODEL(name) &model_##name,
#include "models.def"
#undef FL_MODEL
};
const size_t model_count = sizeof(model_all) / sizeof(model_all[0]);

const model *model_find(const char *name)
{
    for (size_t i = 0; i < model_count; i++)
        if (!strcmp(model_all[i]->name, name))
            return model_all[i];
    return NULL;
}

/* --- the optimizer -------------------------------------------------------- */

fl_status model_optimizer(fl_optimizer **out, fl_ctx *c, const model *m,
                          const model_args *args)
{
    const char *kind = args->optimizer ? args->optimizer : m->optimizer;
    const char *rate =
        args->learning_rate ? args->learning_rate : m->learning_rate;
    double decay = args->decay > 0 ? args->decay : m->decay;
    uint64_t steps = args->decay_steps ? args->decay_steps : m->decay_steps;
    fl_var *lr;
    char words[64];
    fl_status st;

    snprintf(words, sizeof(words), "learning_rate=%s", rate);
    st = fl_optimizer_new(out, c, kind, words);
    if (st || decay <= 0)
        return st;
    lr = fl_layers_exponential_decay(c, strtod(rate, NULL), (int64_t)steps,
                                     decay, true);
    if (!lr)
        return fl_last_status();
    fl_optimizer_set_lr(*out, lr);
    return FL_OK;
}

/* --- the data ------------------------------------------------------------- */

fl_status model_dataset(fl_dataset **out, fl_ctx *c, fl_fleet *f,
                        const model_net *net, const char *path,
                        const char *pass)
{
    fl_transpiler *job = fl_fleet_transpiler(f);
    fl_dataset *d;
    fl_status st = fl_dataset_new(&d, c, "QueueDataset");

    if (st)
        return st;
    st = fl_dataset_set_format(d, net->format);
    if (!st)
        st = fl_dataset_set_use_var(d, fl_default_main_program(c), net->feeds,
                                    net->n_feeds);
    if (!st)
        st = fl_dataset_set_filelist(d, &path, 1);
    if (!st && job)
        st = fl_job_dispatch_files(fl_transpiler_job(job), d, pass);
    if (!st)
        *out = d;
    else
        fl_dataset_free(d);
    return st;
}
