/* slots.c - variables of a program as slots of the data layer. */
#include "api/slots.h"

#include "flotilla/words.h"
#include "ir/program.h"
#include "tensor/tensor.h"

/* Only what is made to be fed is offered for a name that is not there. */
static fl_status no_such(fl_program *p, const char *name)
{
    FL_VEC(const char *) names = { 0 };
    const char *near;

    for (fl_var *v = fl_program_main(p)->first_var; v; v = v->next)
        if (v->flags & FL_VAR_DATA)
            fl_vec_push(&names, v->name);
    near = fl_nearest_name(name, names.data, names.len);
    fl_vec_release(&names);
    if (near)
        FL_FAIL(FL_ERR_NOTFOUND,
                "the program has no variable %s; did you mean %s?", name, near);
    FL_FAIL(FL_ERR_NOTFOUND,
            "the program has no variable %s; make it with fl_layers_data",
            name);
}

static fl_status kind_of(const fl_var *v, fl_slot_kind *kind)
{
    if (v->meta.dtype == FL_DTYPE_I64)
        *kind = FL_SLOT_IDS;
    else if (v->meta.dtype == FL_DTYPE_F32)
        *kind = FL_SLOT_FLOATS;
    else
        FL_FAIL(FL_ERR_INVAL,
                "variable %s is %s, and data comes as i64 or f32; declare it "
                "as one of these and cast it in the program",
                v->name, fl_dtype_text(v->meta.dtype));
    return FL_OK;
}

static fl_status width_of(const fl_var *v, uint32_t *width)
{
    const fl_shape *s = &v->meta.shape;
    int64_t n = s->rank ? fl_shape_count(s, 1, s->rank) : -1;
    char buf[FL_SHAPE_TEXT_MAX];

    if (v->meta.kind == FL_KIND_ROWS || v->meta.n_lod > 2)
        FL_FAIL(FL_ERR_INVAL,
                "variable %s has %d levels of offsets or is rows + values; "
                "data has at most two levels",
                v->name, v->meta.n_lod);
    if (n < 1 || n > UINT32_MAX)
        FL_FAIL(FL_ERR_INVAL,
                "variable %s of shape %s has no known width; declare all "
                "dimensions but the first",
                v->name, fl_shape_text(s, buf));
    *width = v->meta.n_lod ? 0 : (uint32_t)n;
    return FL_OK;
}

fl_status fl_slots_of_vars(fl_program *p, const char *const *names, size_t n,
                           fl_slot *out)
{
    for (size_t i = 0; i < n; i++) {
        fl_slot slot = { 0 };
        const fl_var *v;

        if (!names[i])
            FL_FAIL(FL_ERR_INVAL, "variable %zu of %zu has no name (NULL)", i,
                    n);
        v = fl_program_var(p, names[i]);
        if (!v)
            return no_such(p, names[i]);
        slot.name = v->name;
        FL_TRY(kind_of(v, &slot.kind));
        FL_TRY(width_of(v, &slot.width));
        out[i] = slot;
    }
    return FL_OK;
}
