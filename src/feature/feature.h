/* feature.h - what a function of columns is: a const descriptor and a row in
 * features.def. It appends operators through the public layers and knows
 * neither texts nor files. */
#ifndef FL_FEATURE_FEATURE_H
#define FL_FEATURE_FEATURE_H

#include "base/arena.h"
#include "base/vec.h"
#include "flotilla/features.h"
#include "flotilla/layers.h"

#define FL_FEATURE_PARAMS_MAX 3

/* The value of a parameter. */
typedef struct fl_numbers {
    const double *at; /* NULL: not given */
    size_t n;
} fl_numbers;

typedef struct fl_feature_param {
    const char *name;
    bool is_list;
    const char *otherwise; /* a number; NULL: it is given, or learnt */
} fl_feature_param;

/* How the values of a column lie: FL_DIST_POINTS quantiles at equal distances,
   the least first and the most last. */
#define FL_DIST_POINTS 1001
typedef struct fl_feature_dist {
    double mean, deviation;
    double at[FL_DIST_POINTS];
} fl_feature_dist;

/* What a function is called with, to append its operators. */
typedef struct fl_feature_call {
    fl_ctx *ctx;
    const char *name; /* of the line that it is for */
    fl_var *const *columns;
    size_t n_columns;
    const fl_numbers *params;
} fl_feature_call;

enum fl_feature_kinds {
    FL_TAKES_NUMBERS = 1 << FL_SLOT_FLOATS,
    FL_TAKES_CATEGORIES = 1 << FL_SLOT_IDS,
};

typedef struct fl_feature {
    const char *name, *doc;
    const char *form; /* of a call: "bucket(x, 18 25 35)" */
    unsigned takes;   /* enum fl_feature_kinds */
    fl_slot_kind gives;
    bool takes_many; /* columns; else one */
    bool takes_time; /* the column is a time, and no category itself */
    fl_feature_param params[FL_FEATURE_PARAMS_MAX + 1]; /* ends with NULL */

    /* Checks what is given, before the rest is learnt and behind it; may be
       NULL. */
    fl_status (*check)(const fl_numbers *params);
    /* Fills in parameters that were not given from how the column's values
       lie; NULL: nothing is learnt. */
    void (*learn)(const fl_feature_dist *d, fl_arena *a, fl_numbers *params);
    /* The same for one number, which grows with x: statistics go through it.
       NULL: there are none of what it gives. */
    double (*value)(double x, const fl_numbers *params);
    /* Ids are below it; NULL and 0: any. */
    uint64_t (*height)(const fl_numbers *params);
    fl_var *(*build)(const fl_feature_call *c);
} fl_feature;

/* Every row of features.def, in its order. */
extern const fl_feature *const fl_feature_all[];
extern const size_t fl_feature_count;

/* One number as a parameter. */
fl_numbers fl_numbers_of(fl_arena *a, double x);

/* --- statistics (stats.c) -------------------------------------------------- */

typedef struct fl_stats fl_stats;

FL_MUST_CHECK
fl_status fl_stats_read(fl_stats **out, const char *path);
void fl_stats_free(fl_stats *s);

/* Fails when the file has no such column of numbers. */
FL_MUST_CHECK
fl_status fl_stats_column(const fl_stats *s, const char *name,
                          fl_feature_dist *out);

/* How f(x) lies where x does as d says. */
void fl_feature_dist_map(fl_feature_dist *d, const fl_feature *f,
                         const fl_numbers *params);

/* --- lines (parse.c) ------------------------------------------------------- */

/* A column of the data, or a function of nodes. */
typedef struct fl_feature_node {
    const fl_feature *fn; /* NULL: a column of the data */
    size_t slot;          /* of that column */
    struct fl_feature_node **args;
    size_t n_args;
    fl_numbers params[FL_FEATURE_PARAMS_MAX];
    fl_slot_kind kind;
    uint32_t width; /* 0: lists */
    fl_var *var;    /* once built */
} fl_feature_node;

typedef struct fl_feature_line {
    const char *name;
    fl_feature_node *node; /* NULL: the column is dropped */
} fl_feature_line;

typedef FL_VEC(fl_feature_line) fl_feature_lines;

/* What the names in a text stand for. */
typedef struct fl_feature_scope {
    fl_arena *arena;
    const fl_slot *slots;
    fl_feature_node **columns; /* one for each slot */
    size_t n_slots;
} fl_feature_scope;

/* Appends the lines of the text. Nodes live in the arena. */
FL_MUST_CHECK
fl_status fl_features_parse(const fl_feature_scope *s, const char *text,
                            fl_feature_lines *out);

#endif
