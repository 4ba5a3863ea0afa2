/* lookup_dot.h - products of rows of two parameters, pair by pair: what the
 * operators over such products share.
 *
 *     z[i] = X[XIds[i]] . Y[YIds[i]]
 *
 * Their first four inputs and first two attributes are the same. Rows are read
 * where they lie, and threads may change them meanwhile.
 */
#ifndef FL_OPS_LOOKUP_DOT_H
#define FL_OPS_LOOKUP_DOT_H

#include "ops/kit.h"

enum { FL_PAIRS_X, FL_PAIRS_Y, FL_PAIRS_X_IDS, FL_PAIRS_Y_IDS, FL_PAIRS_SLOTS };
enum { FL_PAIRS_X_IS_SPARSE, FL_PAIRS_Y_IS_SPARSE, FL_PAIRS_ATTRS };

#define FL_PAIRS_ID_SLOTS                                                      \
    { "XIds", FL_SLOT_NO_GRAD },                                               \
    {                                                                          \
        "YIds", FL_SLOT_NO_GRAD                                                \
    }
#define FL_PAIRS_ATTR_LIST                                                     \
    { "x_is_sparse", FL_ATTR_BOOL, "false" },                                  \
    {                                                                          \
        "y_is_sparse", FL_ATTR_BOOL, "false"                                   \
    }

typedef struct fl_pairs {
    const uint64_t *x, *y;
    size_t n, dim;
} fl_pairs;

/* Fails unless rows and ids fit each other. */
FL_MUST_CHECK
fl_status fl_pairs_check_shapes(const fl_infer *c);
/* The same, and `out` becomes a number for each pair. */
FL_MUST_CHECK
fl_status fl_pairs_infer(const fl_infer *c, int out);
/* In back_infer: gradients as the attributes have them. */
void fl_pairs_infer_grads(const fl_infer *c);

fl_pairs fl_pairs_of(const fl_op_ctx *c);
/* Fails when an id has no row. */
FL_MUST_CHECK
fl_status fl_pairs_check(const fl_op_ctx *c);
void fl_pairs_multiply(const fl_op_ctx *c, const fl_pairs *p, void *z);
/* In back: from the gradient of z, or NULL when none came. */
void fl_pairs_back(const fl_op_ctx *c, fl_pairs p, const void *dz);

#endif
