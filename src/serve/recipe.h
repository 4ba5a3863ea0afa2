/* recipe.h - what a model computes: its program made ready to run.
 *
 * Versions of a model share one as long as their program is the same, so that a
 * predictor keeps its memory when only numbers have changed. Read-only once it is
 * made; references are counted, any thread.
 */
#ifndef FL_SERVE_RECIPE_H
#define FL_SERVE_RECIPE_H

#include <stdatomic.h>

#include "exec/plan.h"
#include "flotilla/predict.h"
#include "pass/pass.h"
#include "serve/inference.h"

typedef struct fl_recipe {
    atomic_int refs;
    char *text;           /* of the program, as it was saved */
    fl_names_list tables; /* of the model, the recipe's own */
    fl_pass_options passes;
    fl_plan *plan;
    fl_model_var *inputs, *outputs; /* names are the recipe's own */
    size_t n_inputs, n_outputs;
    int *input_at, *output_at; /* variables of the plan; -1: not needed */
    char *input_names;         /* one behind the other, each with its NUL */
} fl_recipe;

/* What it is made from, borrowed for the call. */
typedef struct fl_recipe_spec {
    const char *text;
    fl_names_list feeds, targets, tables;
    bool is_training; /* the text is a program to train with: it is pruned, and
                         the feeds are what is left of them */
    fl_pass_options passes;
} fl_recipe_spec;

FL_MUST_CHECK
fl_status fl_recipe_new(fl_recipe **out, const fl_recipe_spec *spec);
fl_recipe *fl_recipe_ref(fl_recipe *r);
void fl_recipe_unref(fl_recipe *r); /* NULL is fine */

/* Whether another one made from the spec would be the same. */
bool fl_recipe_fits(const fl_recipe *r, const fl_recipe_spec *spec);

/* Fails, and names the first difference, unless inputs and outputs are those of
   `before`. */
FL_MUST_CHECK
fl_status fl_recipe_check_same(const fl_recipe *r, const fl_recipe *before);

/* The dense persistent variables that a plan reads; freed with fl_free. */
const fl_var **fl_recipe_reads(const fl_plan *p, size_t *n);

#endif
