/* padded.c - sequences with offsets or with lengths. */
#include "ops/padded.h"

#include <inttypes.h>

#include "ops/sequences.h"

fl_runs fl_runs_of(const fl_tensor *x, const fl_tensor *length)
{
    fl_seqs q;

    if (length)
        return (fl_runs){ .length = length,
                          .n = (size_t)x->shape.dim[0],
                          .step = (size_t)x->shape.dim[1] };
    q = fl_seqs_of(x);
    return (fl_runs){ .off = q.off, .n = q.n };
}

fl_span fl_runs_at(const fl_runs *r, size_t i)
{
    if (r->off)
        return (fl_span){ (size_t)r->off[i], (size_t)r->off[i + 1] };
    return (fl_span){ i * r->step,
                      i * r->step + (size_t)fl_id_at(r->length, (int64_t)i) };
}

fl_status fl_infer_runs(const fl_infer *c, int x, int length)
{
    const fl_tensor *t = fl_infer_in(c, length);
    int64_t n = t ? fl_shape_numel(&t->shape) : -1;
    int64_t rows = fl_infer_in(c, x)->shape.dim[0];
    char a[FL_SLOT_TEXT_MAX], b[FL_SLOT_TEXT_MAX];

    if (!t)
        return c->running ? fl_infer_one_level(c, x) : FL_OK;
    FL_TRY(fl_infer_ids(c, length));
    if (fl_infer_in(c, x)->shape.rank < 2 || (n >= 0 && rows >= 0 && n != rows))
        FL_FAIL(FL_ERR_INVAL,
                "op %s: %s must have a length for each entry of %s, which has "
                "two dimensions or more",
                c->node->def->name, fl_infer_text(c, length, a),
                fl_infer_text(c, x, b));
    return FL_OK;
}

fl_status fl_runs_check(const fl_runs *r, const fl_op_ctx *c, int length)
{
    for (size_t i = 0; i < r->n && r->length; i++) {
        int64_t len = fl_id_at(r->length, (int64_t)i);

        if (len < 0 || len > (int64_t)r->step)
            FL_FAIL(FL_ERR_INVAL,
                    "%s: %" PRId64 " at place %zu is not in 0..%zu, the "
                    "padded rows",
                    c->node->def->in[length].name, len, i, r->step);
    }
    return FL_OK;
}
