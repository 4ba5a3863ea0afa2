/* model_diff.c - flotilla model diff: are two models the same, and if not,
 * where do they part?
 *
 * Its exit code tells different models from models that could not be read: 0
 * the same, 1 different, 2 an error. */
#include "model.h"

#include <inttypes.h>
#include <stdio.h>

enum { DIFF_SAME = 0, DIFF_DIFFERENT = 1, DIFF_ERROR = 2 };

static int conclude(const model_diffs *d)
{
    if (!d->n_variables && !d->n_rows) {
        printf("the same\n");
        return DIFF_SAME;
    }
    printf("different: %" PRIu64 " variables, %" PRIu64 " rows\n",
           d->n_variables, d->n_rows);
    return DIFF_DIFFERENT;
}

int model_diff(const model_args *a)
{
    model_diffs d = { .max_shown = a->lines };
    model_file left, right = { 0 };
    int code = DIFF_ERROR;

    if (!model_open(a->self, a->words[0], &left) &&
        !model_open(a->self, a->words[1], &right) &&
        model_compare_tensors(a->self, left.saved, right.saved, &d) &&
        model_compare_tables(a->self, left.saved, right.saved, &d))
        code = conclude(&d);
    model_close(&left);
    model_close(&right);
    return code;
}
