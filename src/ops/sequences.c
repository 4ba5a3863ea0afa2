/* sequences.c - what the operators over ragged rows share. */
#include "ops/sequences.h"

fl_seqs fl_seqs_of(const fl_tensor *t)
{
    int level = t->n_lod - 1;

    return (fl_seqs){ t->lod[level], (size_t)t->lod_len[level] - 1 };
}

size_t fl_seqs_find(const fl_seqs *q, int64_t row)
{
    size_t lo = 0, hi = q->n;

    /* off[lo] <= row < off[hi] */
    while (hi - lo > 1) {
        size_t mid = lo + (hi - lo) / 2;

        if (q->off[mid] <= row)
            lo = mid;
        else
            hi = mid;
    }
    return lo;
}

size_t fl_seqs_longest(const fl_seqs *q)
{
    size_t longest = 0;

    for (size_t s = 0; s < q->n; s++)
        longest = fl_seqs_len(q, s) > longest ? fl_seqs_len(q, s) : longest;
    return longest;
}

size_t fl_row_bytes(const fl_tensor *t)
{
    return (size_t)fl_shape_count(&t->shape, 1, t->shape.rank) *
           fl_dtype_bytes(t->dtype);
}

fl_status fl_infer_seqs(const fl_infer *c, int slot)
{
    char buf[FL_SLOT_TEXT_MAX];

    if (fl_infer_in(c, slot)->n_lod < 1)
        FL_FAIL(FL_ERR_INVAL, "op %s: %s has no offsets", c->node->def->name,
                fl_infer_text(c, slot, buf));
    return FL_OK;
}

fl_status fl_infer_one_level(const fl_infer *c, int slot)
{
    int n_lod = fl_infer_in(c, slot)->n_lod;
    char buf[FL_SLOT_TEXT_MAX];

    FL_TRY(fl_infer_seqs(c, slot));
    if (n_lod > 1)
        FL_FAIL(FL_ERR_INVAL,
                "op %s: %s has %d levels of offsets, it must have one",
                c->node->def->name, fl_infer_text(c, slot, buf), n_lod);
    return FL_OK;
}

fl_status fl_infer_new_seqs(const fl_infer *c, int slot, size_t n,
                            int64_t **off)
{
    fl_tensor *out = fl_infer_out(c, slot);
    void *workspace;

    out->kind = FL_KIND_RAGGED;
    out->n_lod = 1;
    out->lod[0] = NULL;
    out->lod_len[0] = 0;
    *off = NULL;
    if (!c->running)
        return FL_OK;
    FL_TRY(fl_infer_workspace(c, (n + 1) * sizeof(**off), &workspace));
    *off = workspace;
    **off = 0;
    out->lod[0] = *off;
    out->lod_len[0] = (int64_t)n + 1;
    return FL_OK;
}
