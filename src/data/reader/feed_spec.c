/* feed_spec.c - the variables that are fed, and columns as their tensors. */
#include "base/alloc.h"
#include "data/reader/feeder.h"
#include "tensor/tensor.h"

fl_status fl_feed_spec_init(fl_feed_spec *s, const fl_slot *slots,
                            const fl_feed_var *vars, size_t n_slots)
{
    *s = (fl_feed_spec){ 0 };
    FL_TRY(fl_schema_init(&s->schema, slots, n_slots));
    s->vars = fl_alloc(n_slots * sizeof(*s->vars));
    for (size_t i = 0; i < n_slots; i++) {
        int64_t width = slots[i].width ? slots[i].width : 1;
        fl_feed_var plain = { fl_shape_of(2, (int64_t[]){ -1, width }),
                              !slots[i].width };

        s->vars[i] = vars ? vars[i] : plain;
    }
    return FL_OK;
}

size_t fl_feed_row_width(const fl_feed_var *v)
{
    return (size_t)fl_shape_count(&v->shape, 1, v->shape.rank);
}

void fl_feed_spec_release(fl_feed_spec *s)
{
    fl_schema_release(&s->schema);
    fl_free(s->vars);
    *s = (fl_feed_spec){ 0 };
}

fl_tensor fl_feed_spec_view(const fl_feed_spec *s, uint32_t i,
                            const fl_column *col, size_t n_rows)
{
    const fl_slot *slot = &s->schema.slots[i];
    fl_dtype dtype = slot->kind == FL_SLOT_IDS ? FL_DTYPE_I64 : FL_DTYPE_F32;
    const fl_feed_var *v = &s->vars[i];
    fl_shape shape = v->shape;
    fl_tensor t;

    shape.dim[0] =
        (int64_t)(slot->width ? n_rows : col->n_values / fl_feed_row_width(v));
    if (slot->width)
        return fl_tensor_of(dtype, col->values, shape.rank, shape.dim);
    t = fl_tensor_ragged(dtype, col->values, shape.rank, shape.dim,
                         col->offsets, (int64_t)n_rows);
    if (v->n_lod > 1) {
        t.n_lod = 2;
        t.lod[1] = col->inner;
        t.lod_len[1] = (int64_t)col->n_inner + 1;
    }
    return t;
}
