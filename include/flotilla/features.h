/* features.h - from the columns of the data to what a network eats.
 *
 *     age = standard(age, mean=38.6, deviation=13.6)
 *     gain = standard(log(gain))
 *     ages = bucket(age, 18 25 35 50)
 *     who = cross(ages, education, occupation)
 *     drop zip
 *
 * Lines NAME = FUNCTION(COLUMN, ...), apart by line ends or semicolons; the
 * functions and their rules are in docs/features.md. They become operators of
 * the program: what is trained, saved, evaluated and served cannot differ.
 *
 *     fl_features_new(&f, text, slots, n_slots, .label = "label");
 *     fl_features_build(f, ctx);
 *     for (size_t i = 0; i < fl_features_n_columns(f); i++)
 *         fl_features_column_at(f, i, &column);      name, kind, variable
 *
 * Columns are those of the data in their order, a line of the same name taking
 * the place of one, and the other lines behind them. The label is none, nor is
 * a column that `drop` names or that a function of time reads. Owner thread
 * only; freed before or after its context.
 */
#ifndef FLOTILLA_FEATURES_H
#define FLOTILLA_FEATURES_H

#include "flotilla/data.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct fl_features fl_features;

typedef struct fl_features_args {
    uint32_t size;
    const char *label; /* a column that is fed, but is none; NULL: there is no
                          such one */
    const char *stats; /* a file of statistics (docs/formats/stats.md), for
                          functions that learn from them; NULL: none */
} fl_features_args;

/* Reads the lines of `text`, or of a file where that is "@PATH"; NULL and "":
   the columns as they are. The error names the line, what is wrong with it and
   the nearest right name. */
#define fl_features_new(out, text, slots, n_slots, ...)                        \
    fl_features_new_with(out, text, slots, n_slots,                            \
                         FL_OPTIONS(fl_features_args, __VA_ARGS__))
FL_API FL_MUST_CHECK
fl_status fl_features_new_with(fl_features **out, const char *text,
                               const fl_slot *slots, size_t n_slots,
                               const fl_features_args *args);
FL_API void fl_features_free(fl_features *f);

/* Appends the operators to the current program, and a fed variable for each
   column that is needed, unless the program has one of its name. Once. */
FL_API FL_MUST_CHECK
fl_status fl_features_build(fl_features *f, fl_ctx *c);

/* Numbers are float32 [n, width], categories int64 [n, width]; with width 0
   both are lists, of one level. */
typedef struct fl_feature_column {
    uint32_t size;
    const char *name;
    fl_slot_kind kind; /* FL_SLOT_FLOATS: numbers, FL_SLOT_IDS: categories */
    uint32_t width;
    uint64_t height; /* ids are below it; 0: any id */
    fl_var *var;     /* NULL before fl_features_build */
} fl_feature_column;

FL_API size_t fl_features_n_columns(const fl_features *f);

/* Fills *out, whose size the caller has set. */
FL_API FL_MUST_CHECK
fl_status fl_features_column_at(const fl_features *f, size_t i,
                                fl_feature_column *out);

/* The fed variables that are needed, the label among them, in the order of the
   slots: what fl_dataset_set_use_var takes. Borrowed. */
FL_API const char *const *fl_features_feeds(const fl_features *f,
                                            size_t *n_feeds);

/* The functions with what they take and give, or one of them; NULL when there
   is no such one. Free with fl_text_free. */
FL_API char *fl_features_help(const char *name);

#ifdef __cplusplus
}
#endif
#endif
