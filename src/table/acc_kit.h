/* acc_kit.h - what the accessors share.
 *
 * A field of weights is followed in the layout by one field per state of the
 * rule, each as long as the weights; a function that takes the index of such a
 * field takes its state along.
 */
#ifndef FL_TABLE_ACC_KIT_H
#define FL_TABLE_ACC_KIT_H

#include "table/accessor.h"

static inline float *fl_acc_at(const fl_acc_ctx *c, void *row, int field)
{
    return (float *)((char *)row + c->layout.fields[field].offset);
}

static inline const float *fl_acc_in(const fl_acc_ctx *c, const void *row,
                                     int field)
{
    return (const float *)((const char *)row + c->layout.fields[field].offset);
}

/* An empty row: the header alone. */
void fl_acc_layout_begin(fl_row_layout *l);

/* A field of `len` floats at the end of the row. */
void fl_acc_layout_add(fl_row_layout *l, const char *name, uint32_t len,
                       fl_field_role role);

/* Rounds the size so that rows do not straddle cache lines for a few bytes. */
void fl_acc_layout_end(fl_row_layout *l);

/* The first values of the state of a field of weights. */
void fl_acc_start_state(const fl_acc_ctx *c, void *row, int weights);

/* The rule on n weights with their decay. */
void fl_acc_update_decayed(const fl_acc_ctx *c, float *w, float *const *state,
                           const float *grad, uint32_t n, const fl_hyper *h);

/* l1 and l2 decay of the pushed row, then the rule, on a field of weights with
   its state; grad is not changed. For every row that is pushed, so inline. */
static inline void fl_acc_push(const fl_acc_ctx *c, void *row, int weights,
                               const float *grad, const fl_hyper *h)
{
    const uint32_t n = c->layout.fields[weights].len;
    float *w = fl_acc_at(c, row, weights);
    float *state[FL_RULE_STATE_MAX] = { 0 };

    for (int s = 0; s < c->n_states; s++)
        state[s] = w + (size_t)(s + 1) * n;
    if (c->decays)
        fl_acc_update_decayed(c, w, state, grad, n, h);
    else
        c->rule->update_f32(w, state, grad, n, h);
}

#endif
