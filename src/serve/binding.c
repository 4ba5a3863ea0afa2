/* binding.c - feeds that hold for many runs. */
#include "serve/binding.h"

static bool is_last(const fl_binding *b, const fl_bound_offsets *o)
{
    const fl_bound_offsets *last =
        b->offsets.len ? &b->offsets.data[b->offsets.len - 1] : NULL;

    return last && last->off == o->off && last->n == o->n &&
           last->end == o->end;
}

static void add_offsets(fl_binding *b, const fl_tensor *t)
{
    for (int k = 0; k < t->n_lod; k++) {
        fl_bound_offsets o = { .off = t->lod[k],
                               .n = t->lod_len[k],
                               .end = k + 1 < t->n_lod ? t->lod_len[k + 1] - 1
                                                       : t->shape.dim[0] };

        if (!is_last(b, &o))
            fl_vec_push(&b->offsets, o);
    }
}

void fl_binding_add(fl_binding *b, const fl_tensor *value)
{
    fl_vec_push(&b->values, *value);
    b->has_special = b->has_special || !fl_form_is_plain(value);
    add_offsets(b, value);
}

void fl_binding_release(fl_binding *b)
{
    fl_vec_release(&b->values);
    fl_vec_release(&b->offsets);
    *b = (fl_binding){ .n_records = 0 };
}

bool fl_binding_holds(const fl_binding *b)
{
    for (size_t i = 0; i < b->offsets.len; i++) {
        const fl_bound_offsets *o = &b->offsets.data[i];

        if (!fl_lod_ascends(o->off, o->n, o->end))
            return false;
    }
    return !b->has_special;
}
