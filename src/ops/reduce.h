/* reduce.h - a tensor X against a tensor Y that lacks some of its dimensions.
 *
 * Neighbouring dimensions of X that Y has, or that it lacks, are one run. Six
 * dimensions make at most seven runs, written from the innermost outwards:
 *
 *     x[n6][n5][n4][n3][n2][n1][n0]      y[n5][n3][n1]
 *
 * Odd runs are Y's own. A tile is what one piece of y[..][..][lo, hi) meets in
 * x[n2][n1][n0]; the tiles of different pieces never share an element of X, so
 * calls that split Y split X too, and Y may be summed while X is overwritten.
 */
#ifndef FL_OPS_REDUCE_H
#define FL_OPS_REDUCE_H

#include "ops/kit.h"

typedef struct fl_grid {
    size_t n[7];
} fl_grid;

/* has[i]: Y has dimension i of X. X is not empty. */
fl_grid fl_grid_of(const fl_shape *x, const bool has[FL_RANK_MAX]);

/* Elements of Y. */
size_t fl_grid_kept(const fl_grid *g);

/* Element j of the piece meets x[r * ld + j * run + k], r < rows, k < run. */
typedef struct fl_tile {
    size_t x, y; /* where it begins in X and in Y */
    size_t rows, ld, n, run;
    bool first; /* no tile of this piece came before */
} fl_tile;

typedef struct fl_tiles {
    const fl_grid *grid;
    size_t y, hi, outer;
} fl_tiles;

/* The tiles of a share of Y's elements; those of one piece come in ascending
   order of X. */
fl_tiles fl_tiles_of(const fl_grid *g, fl_span s);
bool fl_tiles_next(fl_tiles *it, fl_tile *out);

/* y[j] (+)= the sum of what meets it, in ascending order of X; set by the
   first tile of a piece. Both point to the beginning of their tensor. */
void fl_tile_sum_f32(const fl_tile *t, float *y, const float *x);
void fl_tile_sum_f64(const fl_tile *t, double *y, const double *x);

/* --- operators X -> Out that take dimensions away ------------------------- */

#define FL_REDUCE_ATTRS                                                        \
    { "dim", FL_ATTR_INTS, "[0]" }, { "keep_dim", FL_ATTR_BOOL, "false" },     \
    {                                                                          \
        "reduce_all", FL_ATTR_BOOL, "false"                                    \
    }

#define FL_REDUCE_TEXT                                                         \
    "over the dimensions in dim, or over all of them when reduce_all is true " \
    "or dim is empty; keep_dim leaves 1 in their places. All dimensions away " \
    "make [1]"

/* Cases for an X of one type. */
#define FL_REDUCE_CASES(type)                                                  \
    { .in = { type "[33,7]" }, .attrs = "{reduce_all=true}" },                 \
        { .in = { type "[33,7]" }, .attrs = "{dim=[0]}" },                     \
        { .in = { type "[33,7]" }, .attrs = "{dim=[1]}" },                     \
        { .in = { type "[3,4,5]" }, .attrs = "{dim=[-1], keep_dim=true}" },    \
        { .in = { type "[3,4,5]" }, .attrs = "{dim=[0,2]}" },                  \
        { .in = { type "[3,4,5]" }, .attrs = "{dim=[0,1,2], keep_dim=true}" }, \
        { .in = { type "[2,3,2,3,2,3]" }, .attrs = "{dim=[0,2,4]}" },          \
        { .in = { type "[2,3,2,3,2,3]" }, .attrs = "{dim=[1,3,5]}" },          \
        { .in = { type "[7,3] lod=[0,2,2,7]" }, .attrs = "{dim=[1]}" },        \
        { .in = { type "[0,8]" }, .attrs = "{dim=[0]}" },                      \
        { .in = { type "[0,8]" }, .attrs = "{dim=[1]}" },                      \
    {                                                                          \
        .in = { type "[0,8,2]" }, .attrs = "{dim=[0,2]}"                       \
    }

/* Which dimensions of X (input 0) stay; false when the node names one that X
   has not. */
bool fl_reduce_kept(const fl_op_node *n, const fl_shape *x,
                    bool kept[FL_RANK_MAX]);

/* Out has the type of X, the dimensions that stay, and X's offsets while the
   rows stay. */
FL_MUST_CHECK
fl_status fl_reduce_infer(fl_infer *c);

#endif
