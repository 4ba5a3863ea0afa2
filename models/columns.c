/* columns.c - the columns of any data, as models take them. */
#include "columns.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define LABEL "label"

bool model_has_columns(const model_args *args)
{
    return args->features || args->stats || args->label ||
           (args->format && !strncmp(args->format, "csv:", 4));
}

/* --- opening --------------------------------------------------------------- */

static fl_status refuse(const char *why, const char *name)
{
    fprintf(stderr, "column %s %s\n", name, why);
    return FL_ERR_INVAL;
}

/* Features over the slots that the format says it has. */
static fl_status read_features(fl_ctx *c, const model_args *args,
                               const model_net *net, fl_features **out)
{
    fl_dataset *d = NULL;
    const fl_slot *slots;
    fl_status st = fl_dataset_new(&d, c, "QueueDataset");
    size_t n;

    if (!st)
        st = fl_dataset_set_format(d, net->format);
    if (st)
        goto out;
    slots = fl_dataset_slots(d, &n);
    st = slots ? fl_features_new(out, args->features, slots, n,
                                 .label = args->label ? args->label : LABEL,
                                 .stats = args->stats)
               : fl_last_status();
out:
    fl_dataset_free(d);
    return st;
}

/* Names of the program's variables outlive the features. */
static fl_status take_feeds(fl_ctx *c, const fl_features *f,
                            const model_args *args, model_net *net,
                            fl_var **label)
{
    fl_program *p = fl_default_main_program(c);
    size_t n;
    const char *const *feeds = fl_features_feeds(f, &n);

    if (n > MODEL_FEEDS_MAX) {
        fprintf(stderr, "the data has %zu columns; models take up to %d\n", n,
                MODEL_FEEDS_MAX);
        return FL_ERR_INVAL;
    }
    for (size_t i = 0; i < n; i++)
        net->feeds[i] = fl_var_name(fl_program_var(p, feeds[i]));
    net->n_feeds = n;
    *label = fl_program_var(p, args->label ? args->label : LABEL);
    return FL_OK;
}

static fl_status open_features(fl_ctx *c, const model_args *args,
                               model_net *net, fl_features **f, fl_var **label)
{
    fl_status st = read_features(c, args, net, f);

    if (!st)
        st = fl_features_build(*f, c);
    return st ? st : take_feeds(c, *f, args, net, label);
}

/* --- columns that are alike ------------------------------------------------ */

typedef struct group {
    fl_var *vars[MODEL_FEEDS_MAX];
    const char *names[MODEL_FEEDS_MAX];
    size_t n;
    int64_t width;
} group;

static void put(group *g, const fl_feature_column *c)
{
    g->vars[g->n] = c->var;
    g->names[g->n++] = c->name;
    g->width += c->width;
}

/* An operator over variables, in slot X. */
static fl_var *append(fl_ctx *c, const char *op, fl_var *const *x, size_t n,
                      const fl_named_attr *attr)
{
    fl_program *p = fl_default_main_program(c);
    const char *out = fl_unique_name(c, op);
    fl_arg in[MODEL_FEEDS_MAX + 1] = { 0 };

    for (size_t i = 0; i < n; i++)
        in[i] = (fl_arg){ "X", fl_var_name(x[i]) };
    if (fl_append_op(NULL, fl_program_block(p, 0), op, .inputs = in,
                     .outputs = FL_ARGS({ "Out", out }), .attrs = attr))
        return NULL;
    return fl_program_var(p, out);
}

static fl_var *join_ids(fl_ctx *c, const group *ids)
{
    return append(
        c, "join_ids", ids->vars, ids->n,
        FL_ATTRS(fl_list_attr("names", FL_ATTR_STRINGS, ids->names, ids->n)));
}

static fl_var *hash_list(fl_ctx *c, const fl_feature_column *list)
{
    return append(c, "cross_ids", &list->var, 1,
                  FL_ATTRS(fl_string_attr("name", list->name)));
}

/* Parts the columns by what they are. */
static fl_status sort_columns(fl_ctx *c, const fl_features *f, group *numbers,
                              group *ids, model_columns *out)
{
    for (size_t i = 0; i < fl_features_n_columns(f); i++) {
        fl_feature_column it = FL_INIT(fl_feature_column);
        fl_status st = fl_features_column_at(f, i, &it);

        if (st)
            return st;
        if (it.kind == FL_SLOT_IDS && !it.width)
            out->lists[out->n_lists++] = hash_list(c, &it);
        else if (it.kind == FL_SLOT_IDS)
            put(ids, &it);
        else if (it.width)
            put(numbers, &it);
        else
            return refuse("has lists of numbers, which models do not take; "
                          "drop it",
                          it.name);
    }
    return FL_OK;
}

static fl_status gather_columns(fl_ctx *c, const fl_features *f,
                                model_columns *out)
{
    group *numbers = calloc(2, sizeof(*numbers)), *ids = numbers + 1;
    fl_status st = FL_ERR_NOMEM;

    if (numbers)
        st = sort_columns(c, f, numbers, ids, out);
    if (!st && numbers->n)
        out->numbers = fl_layers_concat(numbers->vars, numbers->n, 1);
    if (!st && ids->n)
        out->ids = join_ids(c, ids);
    if (!st) {
        out->n_numbers = numbers->width;
        out->n_ids = ids->width;
    }
    if (!st && !out->numbers && !out->ids && !out->n_lists)
        st = refuse("has nothing beside it that a model could learn from",
                    fl_var_name(out->label));
    free(numbers);
    return st;
}

fl_status model_open_columns(fl_ctx *c, const model_args *args, model_net *net,
                             model_columns *out)
{
    fl_features *f = NULL;
    fl_status st;

    *out = (model_columns){ 0 };
    st = open_features(c, args, net, &f, &out->label);
    if (!st)
        st = gather_columns(c, f, out);
    fl_features_free(f);
    return st;
}

/* --- pairs ----------------------------------------------------------------- */

static fl_status take_pair(const fl_features *f, model_pair *out)
{
    fl_feature_column *to[] = { &out->who, &out->what };
    fl_status st = FL_OK;

    if (fl_features_n_columns(f) != 2) {
        fprintf(stderr,
                "this model takes two columns beside the label, who and what, "
                "and there are %zu; `drop` of --features leaves others out\n",
                fl_features_n_columns(f));
        return FL_ERR_INVAL;
    }
    for (size_t i = 0; !st && i < 2; i++) {
        *to[i] = FL_INIT(fl_feature_column);
        st = fl_features_column_at(f, i, to[i]);
        if (!st && (to[i]->kind != FL_SLOT_IDS || to[i]->width != 1))
            st = refuse("is no category with one value", to[i]->name);
        /* The features go. */
        to[i]->name = fl_var_name(to[i]->var);
    }
    return st;
}

fl_status model_open_pair(fl_ctx *c, const model_args *args, model_net *net,
                          model_pair *out)
{
    fl_features *f = NULL;
    fl_status st = open_features(c, args, net, &f, &out->label);

    if (!st)
        st = take_pair(f, out);
    fl_features_free(f);
    return st;
}

/* --- parts of networks ----------------------------------------------------- */

int64_t model_n_rows(const model_columns *c)
{
    return c->n_ids + (int64_t)c->n_lists;
}

fl_var *model_rows(const model_columns *c, int64_t width,
                   const fl_layers_embedding_args *table)
{
    fl_var *parts[MODEL_FEEDS_MAX + 1], *x;
    size_t n = 0;

    if (c->ids) {
        x = fl_layers_reshape(c->ids, 2, (int64_t[]){ -1, 1 });
        x = fl_layers_embedding_with(x, 0, width, table);
        parts[n++] =
            fl_layers_reshape(x, 3, (int64_t[]){ -1, c->n_ids, width });
    }
    for (size_t i = 0; i < c->n_lists; i++) {
        x = fl_layers_embedding_with(c->lists[i], 0, width, table);
        x = fl_layers_sequence_pool(x, "sum");
        parts[n++] = fl_layers_reshape(x, 3, (int64_t[]){ -1, 1, width });
    }
    if (n < 2)
        return n ? parts[0] : NULL;
    return fl_layers_concat(parts, n, 1);
}

fl_var *model_line(const model_columns *c)
{
    fl_var *parts[2];
    size_t n = 0;

    if (c->numbers)
        parts[n++] = model_fc(c->numbers, 1, NULL);
    if (model_n_rows(c))
        parts[n++] = fl_layers_unary(
            "reduce_sum",
            model_rows(c, 1,
                       FL_OPTIONS(fl_layers_embedding_args,
                                  .is_distributed = true, .param.name = "line",
                                  .param.init = "constant(0)")),
            "{dim=[1]}");
    return n == 1 ? parts[0] : fl_layers_sum(parts, n);
}

fl_var *model_beside(const model_columns *c, fl_var *rows, int64_t width)
{
    fl_var *parts[2];
    size_t n = 0;

    if (model_n_rows(c))
        parts[n++] = fl_layers_reshape(
            rows, 2, (int64_t[]){ -1, model_n_rows(c) * width });
    if (c->numbers)
        parts[n++] = c->numbers;
    return n == 1 ? parts[0] : fl_layers_concat(parts, n, 1);
}
