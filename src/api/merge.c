/* merge.c - merging a chain of deltas, wherever its two ends are. */
#include "base/alloc.h"
#include "ckpt/merge.h"
#include "ckpt/remote.h"
#include "ctx/ctx.h"
#include "flotilla/saved.h"

fl_status fl_saved_merge(fl_ctx *c, const char *model, const char *dir)
{
    char *from = NULL, *to = NULL;
    fl_status st = fl_remote_fetch(&c->conf, model, &from);

    if (!st)
        st = fl_remote_place(&c->conf, dir, &to);
    if (!st)
        st = fl_version_merge(from, to);
    if (!st)
        st = fl_remote_publish(&c->conf, dir);
    fl_free(from);
    fl_free(to);
    return st;
}
