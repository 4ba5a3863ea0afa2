/* model_verify.c - flotilla model verify: every byte is what was saved. */
#include "model.h"

#include <stdio.h>

int model_verify(const model_args *a)
{
    fl_saved_view v = FL_INIT(fl_saved_view);
    model_file m;
    int code = model_open(a->self, a->words[0], &m);

    if (!code && (fl_saved_look(m.saved, &v) || fl_saved_verify(m.saved)))
        code = cmd_failed(a->self, "%s", fl_last_error());
    if (!code)
        printf("version %s: good\n", v.id);
    model_close(&m);
    return code;
}
