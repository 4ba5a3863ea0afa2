/* models.c - finds models, and what all of them need: an optimizer, data. */
#include "models.h"

#include <math.h>
#include <stdarg.h>
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

/* --- parts of networks ---------------------------------------------------- */

fl_status model_count_lines(const char *path, int64_t *out)
{
    FILE *f = fopen(path, "r");
    int c, last = '\n';

    if (!f) {
        fprintf(stderr, "the file of words '%s' cannot be read\n", path);
        return FL_ERR_IO;
    }
    for (*out = 0; (c = getc(f)) != EOF; last = c)
        *out += c == '\n';
    *out += last != '\n';
    fclose(f);
    return FL_OK;
}

static fl_var *feed(fl_ctx *c, model_net *net, const char *name, fl_dtype dtype,
                    int64_t width, int lod_level)
{
    net->feeds[net->n_feeds++] = name;
    return fl_layers_data(c, name, dtype, 2, (int64_t[]){ -1, width },
                          lod_level);
}

fl_var *model_ids(fl_ctx *c, model_net *net, const char *name, int64_t width)
{
    return feed(c, net, name, FL_DTYPE_I64, width, 0);
}

fl_var *model_id_list(fl_ctx *c, model_net *net, const char *name)
{
    return feed(c, net, name, FL_DTYPE_I64, 1, 1);
}

fl_var *model_floats(fl_ctx *c, model_net *net, const char *name, int64_t width)
{
    return feed(c, net, name, FL_DTYPE_F32, width, 0);
}

void model_format(const model_args *args, model_net *net, const char *fmt, ...)
{
    va_list ap;

    va_start(ap, fmt);
    if (args->format)
        snprintf(net->format, sizeof(net->format), "%s", args->format);
    else
        vsnprintf(net->format, sizeof(net->format), fmt, ap);
    va_end(ap);
}

fl_var *model_fc(fl_var *x, int64_t width, const char *act)
{
    char init[64];

    if (!x)
        return NULL;
    snprintf(init, sizeof(init), "normal(0,%.9g)",
             1 / sqrt((double)fl_var_shape(x).dim[1]));
    return fl_layers_fc(x, width, .act = act, .param.init = init);
}

fl_var **model_report(model_net *net, const char *name)
{
    model_metric *m = &net->metrics[net->n_metrics++];

    m->name = name;
    return &m->stat;
}

fl_var **model_report_error(model_net *net, const char *name)
{
    net->metrics[net->n_metrics].is_error = true;
    return model_report(net, name);
}

fl_status model_made(const fl_var *last)
{
    return last ? FL_OK : fl_last_status();
}

fl_var *model_hinge(fl_var *right, fl_var *wrong, double margin)
{
    fl_var *lead = fl_layers_binary("elementwise_sub", wrong, right, NULL);

    return fl_layers_mean(fl_layers_relu(fl_layers_scale(lead, 1, margin)));
}

fl_status model_judge_clicks(model_net *net, fl_var *logits, fl_var *label)
{
    fl_var *chance;

    if (label)
        net->label = fl_var_name(label);
    label = fl_layers_cast(label, FL_DTYPE_I64);
    net->prediction = fl_layers_sigmoid(logits);
    net->is_sampled = net->keep_negatives > 0;
    if (net->is_sampled)
        logits = fl_layers_sampled_logit(logits, net->keep_negatives);
    chance = net->is_sampled ? fl_layers_sigmoid(logits) : net->prediction;
    net->loss = fl_layers_mean(fl_layers_sigmoid_cross_entropy_with_logits(
        logits, fl_layers_cast(label, FL_DTYPE_F32)));
    net->auc = fl_layers_auc(chance, label, NULL, .stat_pos = &net->stat_pos,
                             .stat_neg = &net->stat_neg);
    if (!net->loss || !net->auc)
        return fl_last_status();
    return model_made(fl_layers_mean_log_loss(
        chance, label, model_report_error(net, "log loss")));
}

fl_status model_judge_numbers(model_net *net, fl_var *score, fl_var *label)
{
    if (label)
        net->label = fl_var_name(label);
    net->prediction = score;
    net->loss = fl_layers_mean(fl_layers_square_error_cost(
        score, fl_layers_cast(label, FL_DTYPE_F32)));
    return model_made(net->loss);
}

fl_status model_judge(const model_args *args, model_net *net, fl_var *score,
                      fl_var *label)
{
    if (args->loss && !strcmp(args->loss, "square"))
        return model_judge_numbers(net, score, label);
    return model_judge_clicks(net, score, label);
}

/* --- the optimizer -------------------------------------------------------- */

/* A rate that falls, over the global step. */
static fl_var *falling(fl_ctx *c, double rate, const model_args *args)
{
    int64_t steps = (int64_t)args->decay_steps;

    if (args->end_rate)
        return fl_layers_polynomial_decay(
            c, rate, steps, strtod(args->end_rate, NULL), 1, false);
    return fl_layers_exponential_decay(c, rate, steps, args->decay, true);
}

fl_status model_optimizer(fl_optimizer **out, fl_ctx *c, const model *m,
                          const model_args *args)
{
    const char *kind = args->optimizer ? args->optimizer : m->optimizer;
    const char *rate =
        args->learning_rate ? args->learning_rate : m->learning_rate;
    fl_var *lr;
    char words[64];
    fl_status st;

    snprintf(words, sizeof(words), "learning_rate=%s", rate);
    st = fl_optimizer_new(out, c, kind, words);
    if (st || !args->decay_steps)
        return st;
    lr = falling(c, strtod(rate, NULL), args);
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
