/* match.h - which of what was saved goes where.
 *
 * Names are strict: what the program has and the model lacks, what the model
 * has and the program does not know, and what differs in type or shape is all
 * listed, with the nearest name, before anything changes. What is to be
 * forgiven is asked for, and told in the log.
 */
#ifndef FL_CKPT_MATCH_H
#define FL_CKPT_MATCH_H

#include "ckpt/manifest.h"
#include "ir/program.h"

/* A dense variable, or a table: rows of shape.dim[1]. */
typedef struct fl_match_item {
    const char *name;
    bool is_table;
    bool is_passed_over; /* of the program: known, but not asked for */
    fl_st_type type;
    fl_shape shape;
} fl_match_item;

typedef struct fl_match_set {
    const char *owner; /* for messages: "model DIR" */
    const fl_match_item *items;
    size_t n;
} fl_match_set;

typedef struct fl_match_options {
    /* These of the program alone; what else the model has does not matter. */
    const char *const *names;
    size_t n_names;
    /* "old=new": what was saved as old, with its state, is new here. */
    const char *const *renames;
    size_t n_renames;
    /* Of these another shape is cut, or leaves the rest as it is. */
    const char *const *resizes;
    size_t n_resizes;
    /* The optimizer is another one: its state is not loaded. */
    bool is_fresh_state;
} fl_match_options;

/* Item `want` of the program gets item `have` of the model. */
typedef struct fl_match_pair {
    size_t want, have;
    bool is_resized;
} fl_match_pair;

typedef FL_VEC(fl_match_pair) fl_match_pairs;

/* Fills *out, which the caller releases, in the order of the program. */
FL_MUST_CHECK
fl_status fl_match(const fl_match_set *program, const fl_match_set *model,
                   const fl_match_options *options, fl_match_pairs *out);

/* Is it the state of a parameter called so: "NAME_moment1_0"? Gives the length
   of the parameter's name; 0: it is none. */
size_t fl_match_state_of(const char *name);

/* Is it state that trainers add up, one number for each of its parameter: an
   accumulator, not a power of beta? */
bool fl_match_adds_up(const char *name);

/* The persistent variables of a program, dense ones and tables; those that are not
   asked for are marked. Items are in the arena, their names the program's. */
fl_match_set fl_match_program(const fl_program *p, bool params_only,
                              fl_arena *arena);

/* What a model has, from the files `dense.safetensors` and the tables of its
   manifest; items are in the arena. */
fl_match_set fl_match_saved(const fl_manifest *m, const char *owner,
                            fl_arena *arena);

#endif
