/* model_merge.c - flotilla model merge. */
#include "model.h"

#include <stdio.h>

int model_merge(const model_args *a)
{
    fl_ctx *c = NULL;
    int code = CMD_OK;

    if (fl_ctx_new(&c) || fl_saved_merge(c, a->words[0], a->words[1]))
        code = cmd_failed(a->self, "%s", fl_last_error());
    fl_ctx_free(c);
    return code;
}
