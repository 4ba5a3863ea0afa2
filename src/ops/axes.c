/* axes.c - the same numbers with axes of length 1 taken out (squeeze2) or put
 * in (unsqueeze2), and with axes joined to two (flatten2). */
#include <inttypes.h>

#include "ops/helpers.h"
#include "ops/reshape.h"
#include "ops/values.h"

enum { X, AXES_TENSOR, AXES_TENSOR_LIST };
enum { AXES };
enum { AXIS }; /* of flatten2 */

/* Each axis of the operator once, as bits, of `rank` dimensions. */
static fl_status read_axes(const fl_infer *c, const fl_ints *axes, int rank,
                           unsigned *bits)
{
    char buf[FL_SLOT_TEXT_MAX];

    *bits = 0;
    for (int i = 0; i < axes->n; i++) {
        int64_t a = axes->at[i] < 0 ? axes->at[i] + rank : axes->at[i];

        if (a < 0 || a >= rank)
            FL_FAIL(FL_ERR_INVAL, "op %s: %s has no axis %" PRId64,
                    c->node->def->name, fl_infer_text(c, X, buf), axes->at[i]);
        *bits |= 1u << a;
    }
    return FL_OK;
}

/* --- squeeze2 ------------------------------------------------------------- */

/* With no axes named, those that had length 1 when the program was built: a
   batch of one row is a batch all the same. */
static unsigned all_of_one(const fl_infer *c)
{
    const fl_shape *built = &c->node->in[X].vars[0]->meta.shape;
    unsigned bits = 0;

    for (int i = 0; i < built->rank; i++)
        if (built->dim[i] == 1)
            bits |= 1u << i;
    return bits;
}

static fl_status squeeze2_infer(fl_infer *c)
{
    static const fl_ints_from from = { FL_NO_SLOT, FL_NO_SLOT, AXES };
    const fl_shape *x = &fl_infer_in(c, X)->shape;
    char buf[FL_SLOT_TEXT_MAX];
    fl_shape shape = { 0 };
    fl_ints axes;
    unsigned named;

    FL_TRY(fl_infer_ints(c, &from, &axes));
    FL_TRY(read_axes(c, &axes, x->rank, &named));
    if (!axes.n)
        named = all_of_one(c);
    for (int i = 0; i < x->rank; i++) {
        if (!(named >> i & 1))
            shape.dim[shape.rank++] = x->dim[i];
        else if (x->dim[i] != 1 && x->dim[i] != -1)
            FL_FAIL(FL_ERR_INVAL,
                    "op squeeze2: %s has length %" PRId64
                    " at axis %d; only an axis of length 1 can be taken out",
                    fl_infer_text(c, X, buf), x->dim[i], i);
    }
    if (!shape.rank)
        shape = fl_shape_of(1, (int64_t[]){ 1 });
    return fl_infer_reshaped(c, &shape,
                             named & 1 ? FL_ROWS_CHANGE : FL_ROWS_STAY);
}

/* --- unsqueeze2 ----------------------------------------------------------- */

static fl_status put_axis(const fl_infer *c, int64_t axis, fl_shape *shape)
{
    char buf[FL_SLOT_TEXT_MAX];
    int64_t at = axis < 0 ? axis + shape->rank + 1 : axis;

    if (at < 0 || at > shape->rank || shape->rank == FL_RANK_MAX)
        FL_FAIL(FL_ERR_INVAL,
                "op unsqueeze2: %s has no place for an axis %" PRId64,
                fl_infer_text(c, X, buf), axis);
    for (int i = shape->rank++; i > at; i--)
        shape->dim[i] = shape->dim[i - 1];
    shape->dim[at] = 1;
    return FL_OK;
}

static bool all_known(const fl_ints *v)
{
    for (int i = 0; i < v->n; i++)
        if (!v->known[i])
            return false;
    return true;
}

/* Where the axes are not known yet, only the number of dimensions is. */
static fl_status unsqueeze2_infer(fl_infer *c)
{
    static const fl_ints_from from = { AXES_TENSOR, AXES_TENSOR_LIST, AXES };
    fl_shape shape = fl_infer_in(c, X)->shape;
    fl_row_kind rows = FL_ROWS_STAY;
    char buf[FL_SLOT_TEXT_MAX];
    fl_ints axes;

    FL_TRY(fl_infer_ints(c, &from, &axes));
    if (axes.n < 0 || axes.n + shape.rank > FL_RANK_MAX)
        FL_FAIL(FL_ERR_INVAL,
                "op unsqueeze2: %s cannot have %d axes more, at most %d fit",
                fl_infer_text(c, X, buf), axes.n, FL_RANK_MAX);
    if (all_known(&axes)) {
        for (int i = 0; i < axes.n; i++) {
            FL_TRY(put_axis(c, axes.at[i], &shape));
            if (axes.at[i] == 0 || axes.at[i] == -shape.rank)
                rows = FL_ROWS_CHANGE;
        }
    } else {
        shape.rank += axes.n;
        for (int i = 0; i < shape.rank; i++)
            shape.dim[i] = -1;
        rows = FL_ROWS_CHANGE;
    }
    return fl_infer_reshaped(c, &shape, rows);
}

/* --- flatten2 ------------------------------------------------------------- */

static fl_status flatten2_infer(fl_infer *c)
{
    const fl_shape *x = &fl_infer_in(c, X)->shape;
    int64_t axis = fl_int(c, AXIS);
    char buf[FL_SLOT_TEXT_MAX];
    fl_shape shape = { .rank = 2 };

    if (axis < 0 || axis > x->rank)
        FL_FAIL(FL_ERR_INVAL,
                "op flatten2: %s cannot be cut before axis %" PRId64,
                fl_infer_text(c, X, buf), axis);
    shape.dim[0] = fl_shape_count(x, 0, (int)axis);
    shape.dim[1] = fl_shape_count(x, (int)axis, x->rank);
    return fl_infer_reshaped(c, &shape,
                             axis == 1 ? FL_ROWS_STAY : FL_ROWS_CHANGE);
}

/* --- cases and descriptors ------------------------------------------------ */

static const fl_op_case squeeze2_cases[] = {
    { .in = { "f32[5,1,7,1]" }, .attrs = "{axes=[1,3]}" },
    { .in = { "f32[5,1,7,1]" }, .attrs = "{axes=[-1]}" },
    { .in = { "f32[5,3,1]" }, .attrs = "{axes=[2]}" },
    { .in = { "i64[7,1] lod=[0,2,2,7] below=9" }, .attrs = "{axes=[1]}" },
    { .in = { "f32[0,1,8]" }, .attrs = "{axes=[1]}" },
};

static const fl_op_case unsqueeze2_cases[] = {
    { .in = { "f32[5,7]" }, .attrs = "{axes=[1]}" },
    { .in = { "f32[5,7]" }, .attrs = "{axes=[1,3]}" },
    { .in = { "f32[5,7]" }, .attrs = "{axes=[-1]}" },
    { .in = { "f32[5,7]" }, .attrs = "{axes=[0]}" },
    { .in = { "f32[7,3] lod=[0,2,2,7]" }, .attrs = "{axes=[1]}" },
    { .in = { "f32[5,7]", "i32[2] is=[1,2]" } },
    { .in = { "f32[5,7]", "", "i32[1] is=[1]" } },
    { .in = { "f32[0,8]" }, .attrs = "{axes=[1]}" },
};

static const fl_op_case flatten2_cases[] = {
    { .in = { "f32[5,2,7]" }, .attrs = "{axis=1}" },
    { .in = { "f32[5,2,7]" }, .attrs = "{axis=0}" },
    { .in = { "f32[5,2,7]" }, .attrs = "{axis=2}" },
    { .in = { "i64[5,2,7]" }, .attrs = "{axis=3}" },
    { .in = { "f32[7,3,2] lod=[0,2,2,7]" }, .attrs = "{axis=1}" },
    { .in = { "f32[0,8,2]" }, .attrs = "{axis=1}" },
};

/* squeeze is the older form, which programs give no XShape. */
#define SQUEEZE(op)                                                            \
    const fl_op fl_op_##op = {                                                 \
        .name = #op,                                                           \
        .doc = "Out = X without the axes named in axes, which have length 1; " \
               "with "                                                         \
               "no axes named, without all that have it",                      \
        .in = { { "X", 0 } },                                                  \
        .out = { { "Out", 0 }, { "XShape", FL_OP_SLOT_BYPRODUCT } },           \
        .attrs = { { "axes", FL_ATTR_INTS, "[]" } },                           \
        .flags = FL_OP_INPLACE | FL_OP_SLICED,                                 \
        .infer = squeeze2_infer,                                               \
        .run = fl_reshape_run,                                                 \
        .back = fl_reshape_back,                                               \
        .cases = squeeze2_cases,                                               \
        .n_cases = FL_LEN(squeeze2_cases),                                     \
    };
SQUEEZE(squeeze2)
SQUEEZE(squeeze)

/* unsqueeze is the older form, which programs give no XShape. */
#define UNSQUEEZE(op)                                                          \
    const fl_op fl_op_##op = {                                                 \
        .name = #op,                                                           \
        .doc = "Out = X with axes of length 1 put in at axes, one after the "  \
               "other; "                                                       \
               "AxesTensor or AxesTensorList give them instead",               \
        .in = { { "X", 0 },                                                    \
                { "AxesTensor", FL_VALUE_SLOT },                               \
                { "AxesTensorList", FL_VALUE_LIST } },                         \
        .out = { { "Out", 0 }, { "XShape", FL_OP_SLOT_BYPRODUCT } },           \
        .attrs = { { "axes", FL_ATTR_INTS, "[]" } },                           \
        .flags = FL_OP_INPLACE | FL_OP_SLICED,                                 \
        .infer = unsqueeze2_infer,                                             \
        .run = fl_reshape_run,                                                 \
        .back = fl_reshape_back,                                               \
        .cases = unsqueeze2_cases,                                             \
        .n_cases = FL_LEN(unsqueeze2_cases),                                   \
    };
UNSQUEEZE(unsqueeze2)
UNSQUEEZE(unsqueeze)

/* flatten is the older form, which programs give no XShape. */
#define FLATTEN(op)                                                            \
    const fl_op fl_op_##op = {                                                 \
        .name = #op,                                                           \
        .doc =                                                                 \
            "Out = X as a matrix: the axes before `axis` are its rows, the "   \
            "others its columns",                                              \
        .in = { { "X", 0 } },                                                  \
        .out = { { "Out", 0 }, { "XShape", FL_OP_SLOT_BYPRODUCT } },           \
        .attrs = { { "axis", FL_ATTR_INT, "1" } },                             \
        .flags = FL_OP_INPLACE | FL_OP_SLICED,                                 \
        .infer = flatten2_infer,                                               \
        .run = fl_reshape_run,                                                 \
        .back = fl_reshape_back,                                               \
        .cases = flatten2_cases,                                               \
        .n_cases = FL_LEN(flatten2_cases),                                     \
    };
FLATTEN(flatten2)
FLATTEN(flatten)
