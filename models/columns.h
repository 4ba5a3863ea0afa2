/* columns.h - models over any columns: what a format and features give.
 *
 * Numbers come side by side. Categories are hashed with the names of their
 * columns, so that all of them share one table, and are looked up together.
 */
#ifndef FL_MODELS_COLUMNS_H
#define FL_MODELS_COLUMNS_H

#include "models.h"

typedef struct model_columns {
    fl_var *label;
    fl_var *numbers; /* [n, n_numbers]; NULL: there are none */
    int64_t n_numbers;
    fl_var *ids; /* [n, n_ids]: one value in each record; NULL: none */
    int64_t n_ids;
    fl_var *lists[MODEL_FEEDS_MAX]; /* several values */
    size_t n_lists;
} model_columns;

/* Do the arguments describe the data? Else a model has columns of its own. */
bool model_has_columns(const model_args *args);

/* Feeds of the data and operators of the features. The net has its format. */
FL_MUST_CHECK
fl_status model_open_columns(fl_ctx *c, const model_args *args, model_net *net,
                             model_columns *out);

/* Two categories with one value each, as they are, and the label. */
typedef struct model_pair {
    fl_feature_column who, what;
    fl_var *label;
} model_pair;
FL_MUST_CHECK
fl_status model_open_pair(fl_ctx *c, const model_args *args, model_net *net,
                          model_pair *out);

/* How many rows a record has: values of categories, lists as one. */
int64_t model_n_rows(const model_columns *c);

/* Their rows, of lists the sum: [n, rows, width]. NULL without categories. */
fl_var *model_rows(const model_columns *c, int64_t width,
                   const fl_layers_embedding_args *table);

/* A weight for each number and each row, added up: [n, 1]. */
fl_var *model_line(const model_columns *c);

/* Rows and numbers side by side: [n, rows * width + numbers]. */
fl_var *model_beside(const model_columns *c, fl_var *rows, int64_t width);

#endif
