/* runs.c - which records of which files a batch is made of. */
#include "data/runs.h"

#include <stdbool.h>
#include <string.h>

static bool goes_on(const fl_row_run *a, const fl_row_run *b)
{
    return a->file == b->file && a->block == b->block && a->at + a->n == b->at;
}

void fl_row_runs_add(fl_row_runs *r, fl_row_run run)
{
    if (!run.n)
        return;
    if (r->len && goes_on(&r->data[r->len - 1], &run))
        r->data[r->len - 1].n += run.n;
    else
        fl_vec_push(r, run);
}

static void drop_first(fl_row_runs *r, size_t n)
{
    r->len -= n;
    if (n && r->len)
        memmove(r->data, r->data + n, r->len * sizeof(*r->data));
}

void fl_row_runs_move(fl_row_runs *r, uint64_t n, fl_row_runs *to)
{
    size_t i = 0;

    for (; n; i++) {
        fl_row_run part;

        FL_ASSERT(i < r->len);
        part = r->data[i];
        if (part.n > n)
            break;
        fl_row_runs_add(to, part);
        n -= part.n;
    }
    drop_first(r, i);
    if (!n)
        return;
    fl_row_runs_add(to, (fl_row_run){ r->data[0].file, r->data[0].block,
                                      r->data[0].at, n });
    r->data[0].at += n;
    r->data[0].n -= n;
}
