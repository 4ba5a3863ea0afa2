/* train_best.c - which epoch is the best. All workers of a job have the same
 * numbers, and decide alike. */
#include <math.h>
#include <stdlib.h>

#include "train_job.h"

static bool is_better_by(const train_figure *a, const train_figure *b)
{
    return a->less_is_better ? a->value < b->value : a->value > b->value;
}

static bool are_known(const train_figure *a, const train_figure *b)
{
    return !isnan(a->value) && !isnan(b->value);
}

bool train_is_better(const train_total *a, const train_total *b)
{
    const train_figure *x = &a->figures[a->decides],
                       *y = &b->figures[b->decides];

    if (are_known(x, y))
        return is_better_by(x, y);
    if (are_known(&a->figures[0], &b->figures[0]))
        return is_better_by(&a->figures[0], &b->figures[0]);
    return isnan(b->figures[0].value) && !isnan(a->figures[0].value);
}

bool train_history_add(train_history *h, const train_epoch *e)
{
    train_epoch *grown = realloc(h->epochs, (h->n + 1) * sizeof(*grown));

    if (!grown)
        return false;
    h->epochs = grown;
    grown[h->n] = *e;
    if (h->n && train_is_better(&e->held_out, &grown[h->best].held_out))
        h->best = h->n;
    h->n++;
    return true;
}

bool train_history_is_best(const train_history *h)
{
    return h->n && h->best == h->n - 1;
}
