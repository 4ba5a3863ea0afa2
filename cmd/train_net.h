/* train_net.h - what the parts of a program are, found by looking at it. */
#ifndef FL_CMD_TRAIN_NET_H
#define FL_CMD_TRAIN_NET_H

#include "models.h"
#include "flotilla/operator.h"

typedef struct net_parts {
    size_t n_feeds;
    bool is_minimized; /* it has gradients and updates already */
    fl_var *loss;      /* NULL: none, or one of several */
    const char *maybe_loss, *other_loss; /* these two, for example */
    /* Set before by who knows them; else found beside the loss, or NULL. */
    fl_var *label, *prediction;
    bool is_clicks; /* the prediction is the chance of label 1 */
} net_parts;

/* Fills in what is not set, and the metrics of the net. May append an operator
   that makes chances of logits. */
void net_find(fl_program *p, net_parts *out, model_net *net);

/* Does the operator give the variable, or a table of that name? */
bool net_writes(const fl_op_node *n, const char *name);

#endif
