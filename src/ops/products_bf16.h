/* products_bf16.h - products with weights whose operands are rounded to bf16,
 * shared by the operators that have one.
 *
 * Out = X W as in products.h. X is rounded once, block by block; Rounded, where the
 * operator has it, keeps it turned as the gradient of W takes it. The gradient of
 * Out is rounded once, strip by strip, by the operator. All sums, Out and both
 * gradients are f32.
 *
 * The rounded W belongs to the runner: a thread packs it in each of its steps, so
 * once per update of its own. Hogwild threads thus see each other's updates as in
 * f32, when they come to the layer, and none reads what another one is packing. A
 * copy for all would be packed as often, after each update of each of them, and
 * guarded. What does not change is packed once: where the scope is frozen, and
 * over the batches that make one update.
 */
#ifndef FL_OPS_PRODUCTS_BF16_H
#define FL_OPS_PRODUCTS_BF16_H

#include "ops/products.h"

/* Rows of a gradient that are rounded together: those of a layer of some hundred
   columns stay in the first-level cache between the loops over them. Even. */
#define FL_PRODUCT_STRIP 16

typedef struct fl_product_bf16 {
    fl_product size;
    const float *x, *w;
    uint8_t *rounded; /* NULL: nobody keeps it */
    float *out;
    /* What follows a block of rows of out, while it is in the cache. */
    void (*follow)(const void *arg, size_t row, size_t rows);
    const void *arg;
} fl_product_bf16;

/* The attribute `precision`: "" or "f32", or "bf16". */
FL_MUST_CHECK
fl_status fl_product_check_precision(const fl_infer *c, int attr);

/* Does the node round numbers of that type? */
bool fl_product_is_bf16(const fl_op_node *n, int attr, fl_dtype dtype);

/* What the gradient reads of X, which is input 0: Rounded where the node has it,
   else X. */
unsigned fl_product_back_input(const fl_op_node *n, int rounded, int attr);

/* Bytes that X has in Rounded. */
size_t fl_product_rounded_bytes(const fl_product *size);

/* The output Rounded, where it is wanted: the bits of X, which are no numbers to
   anybody else, and as many bytes more for what else the operator keeps. Empty when
   nothing is rounded. */
void fl_product_infer_rounded(const fl_infer *c, int slot, bool is_bf16,
                              const fl_product *size, size_t more);

/* This share's rows of out. */
FL_MUST_CHECK
fl_status fl_product_bf16_run(fl_op_ctx *c, const fl_product_bf16 *z);

/* This share's rows of dx = dout w' and of dw = x' dout; each may be NULL, and
   so may `rounded`, which x then takes the place of. */
typedef struct fl_product_bf16_back {
    fl_product size;
    const float *x, *w;
    const uint8_t *rounded;
    /* Puts rows [row, row + rows) of dout, rounded, into `to`: FL_PRODUCT_STRIP of
       them or what is left, in their order. */
    void (*round)(const void *arg, size_t row, size_t rows, uint16_t *to);
    const void *arg;
    float *dx, *dw;
} fl_product_bf16_back;

FL_MUST_CHECK
fl_status fl_product_bf16_back_run(fl_op_ctx *c, const fl_product_bf16_back *z);

#endif
