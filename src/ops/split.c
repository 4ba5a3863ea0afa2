/* split.c - a tensor cut into parts along an axis. */
#include <inttypes.h>

#include "ops/helpers.h"
#include "ops/strips.h"
#include "ops/values.h"

enum { X, AXIS_TENSOR, SECTIONS_TENSOR_LIST };
enum { OUT };
enum { AXIS, NUM, SECTIONS };

/* What says how the parts are cut: the node and, when running, the tensors of
   SectionsTensorList. */
typedef struct cutter {
    const fl_op_node *node;
    const fl_targs *list;
    bool running;
} cutter;

static size_t n_sections(const cutter *k)
{
    size_t n;

    fl_attr_ints(k->node, SECTIONS, &n);
    return k->list->n ? (size_t)k->list->n : n;
}

/* Length of section i; -1: the rest, or not known yet. */
static int64_t section(const cutter *k, size_t i)
{
    size_t n;
    const int64_t *said = fl_attr_ints(k->node, SECTIONS, &n);

    if (k->list->n && k->running)
        return fl_id_at(k->list->t[i], 0);
    return i < n ? said[i] : -1;
}

static int n_parts(const cutter *k)
{
    return n_sections(k) ? (int)n_sections(k) : (int)fl_attr_int(k->node, NUM);
}

/* What the sections leave for the one that says -1; -1 when they are more
   than the whole. */
static int64_t rest_of(const cutter *k, int64_t whole)
{
    for (size_t i = 0; i < n_sections(k); i++) {
        if (section(k, i) > whole)
            return -1;
        whole -= section(k, i) < 0 ? 0 : section(k, i);
    }
    return whole;
}

/* Length of part i of a dimension `whole`; -1 when it is not known. */
static int64_t part_len(const cutter *k, int64_t whole, int i)
{
    if (n_sections(k) && section(k, (size_t)i) >= 0)
        return section(k, (size_t)i);
    if (whole < 0 || (k->list->n && !k->running))
        return -1;
    return n_sections(k) ? rest_of(k, whole)
                         : whole / fl_attr_int(k->node, NUM);
}

static fl_status check_equal_parts(const fl_infer *c, int64_t whole)
{
    int64_t num = fl_int(c, NUM);
    char buf[FL_SLOT_TEXT_MAX];

    if (whole >= 0 && whole % num)
        FL_FAIL(FL_ERR_INVAL,
                "op split: %s has no %" PRId64 " equal parts at axis %d",
                fl_infer_text(c, X, buf), num, (int)fl_int(c, AXIS));
    return FL_OK;
}

static fl_status check_list(const fl_infer *c)
{
    char buf[FL_SLOT_TEXT_MAX];

    for (int i = 0; i < fl_infer_n_in(c, SECTIONS_TENSOR_LIST); i++) {
        const fl_tensor *t = fl_infer_in_at(c, SECTIONS_TENSOR_LIST, i);

        if (!fl_dtype_is_id(t->dtype) || !fl_is_one(t))
            FL_FAIL(FL_ERR_INVAL, "op split: %s must hold one integer, [1]",
                    fl_infer_text_at(c, SECTIONS_TENSOR_LIST, i, buf));
    }
    return FL_OK;
}

static fl_status check_parts(const fl_infer *c, const cutter *k, int64_t whole)
{
    int64_t num = fl_int(c, NUM), rest;
    size_t n_open = 0, n = n_sections(k);
    char buf[FL_SLOT_TEXT_MAX];

    if ((num > 0) == (n > 0) || num < 0)
        FL_FAIL(FL_ERR_INVAL, "op split: give either num or sections");
    if (n == 0)
        return check_equal_parts(c, whole);
    FL_TRY(check_list(c));
    if (k->list->n && !k->running)
        return FL_OK;
    for (size_t i = 0; i < n; i++)
        n_open += section(k, i) < 0;
    rest = rest_of(k, whole);
    if (n_open > 1 || (whole >= 0 && (rest < 0 || (!n_open && rest))))
        FL_FAIL(FL_ERR_INVAL, "op split: sections do not make up %s at axis %d",
                fl_infer_text(c, X, buf), (int)fl_int(c, AXIS));
    return FL_OK;
}

/* Of an axis that is not known yet nothing is but the number of axes. */
static void infer_part(const fl_infer *c, const cutter *k, int axis, int i)
{
    const fl_tensor *x = fl_infer_in(c, X);
    fl_tensor *out = fl_infer_out_at(c, OUT, i);

    fl_tensor_like(out, x);
    if (axis <= 0 || fl_infer_in(c, AXIS_TENSOR)) {
        out->kind = FL_KIND_DENSE;
        out->n_lod = 0;
    }
    for (int d = 0; axis < 0 && d < out->shape.rank; d++)
        out->shape.dim[d] = -1;
    if (axis >= 0)
        out->shape.dim[axis] = part_len(k, x->shape.dim[axis], i);
}

static fl_status split_infer(fl_infer *c)
{
    const fl_tensor *x = fl_infer_in(c, X);
    cutter k = { c->node, &c->in[SECTIONS_TENSOR_LIST], c->running };
    int axis = -1, n_out = fl_infer_n_out(c, OUT);
    char buf[FL_SLOT_TEXT_MAX];
    int64_t given = 0;
    bool known;

    FL_TRY(fl_infer_int(c, AXIS_TENSOR, AXIS, &given, &known));
    if (known) {
        axis = fl_shape_axis(&x->shape, given);
        if (axis < 0)
            FL_FAIL(FL_ERR_INVAL, "op split: %s has no axis %d",
                    fl_infer_text(c, X, buf), (int)given);
    }
    FL_TRY(check_parts(c, &k, known ? x->shape.dim[axis] : -1));
    if (n_out != n_parts(&k))
        FL_FAIL(FL_ERR_INVAL,
                "op split: %s is cut into %d parts, but Out has %d variables",
                fl_infer_text(c, X, buf), n_parts(&k), n_out);
    for (int i = 0; i < n_out; i++)
        infer_part(c, &k, axis, i);
    return FL_OK;
}

static cutter cutter_of(const fl_op_ctx *c)
{
    return (cutter){ c->node, &c->in[SECTIONS_TENSOR_LIST], true };
}

/* The strips of all parts, their data still missing. */
static fl_strip *strips_of(fl_op_ctx *c, const cutter *k, fl_span *rows)
{
    const fl_tensor *x = fl_in_t(c, X);
    int axis = fl_shape_axis(&x->shape, fl_read_int(c, AXIS_TENSOR, AXIS));
    int n = n_parts(k);
    fl_strip *parts = fl_scratch(c, (size_t)n * sizeof(*parts));
    fl_shape s = x->shape;

    for (int i = 0; parts && i < n; i++) {
        s.dim[axis] = part_len(k, x->shape.dim[axis], i);
        parts[i] = fl_strip_of(&s, axis, x->dtype);
    }
    *rows = fl_op_span(c, (size_t)fl_shape_count(&x->shape, 0, axis));
    return parts;
}

static fl_status split_run(fl_op_ctx *c)
{
    cutter k = cutter_of(c);
    int n = n_parts(&k);
    fl_span rows;
    fl_strip *parts = strips_of(c, &k, &rows);

    if (!parts)
        return FL_NOMEM(c);
    for (int i = 0; i < n; i++)
        parts[i].data = fl_out_at(c, OUT, i)->data;
    fl_strips_cut(fl_in(c, X), parts, n, rows);
    return FL_OK;
}

static fl_status split_back(fl_op_ctx *c)
{
    cutter k = cutter_of(c);
    int n = n_parts(&k);
    fl_span rows;
    fl_strip *parts;

    if (!fl_din_t(c, X))
        return FL_OK;
    parts = strips_of(c, &k, &rows);
    if (!parts)
        return FL_NOMEM(c);
    for (int i = 0; i < n; i++)
        if (fl_dout_at(c, OUT, i))
            parts[i].data = fl_dout_at(c, OUT, i)->data;
    fl_strips_join(fl_din(c, X), parts, n, rows);
    return FL_OK;
}

static const fl_op_case split_cases[] = {
    { .in = { "f32[6,4,5]" }, .attrs = "{axis=0, num=2}" },
    { .in = { "f32[33,9]" }, .attrs = "{axis=1, num=3}" },
    { .in = { "f32[33,11]" }, .attrs = "{axis=-1, sections=[7,3,1]}" },
    { .in = { "f32[33,11]" }, .attrs = "{axis=1, sections=[7,-1,0]}" },
    { .in = { "i64[6,2] below=9" }, .attrs = "{axis=1, num=2}" },
    { .in = { "f32[7,4] lod=[0,2,2,7]" }, .attrs = "{axis=1, num=2}" },
    { .in = { "f32[0,8]" }, .attrs = "{axis=1, sections=[3,5]}" },
    { .in = { "f32[5,8]", "i32[1] is=[1]", "i32[1] is=[3];i64[1] is=[5]" },
      .attrs = "{sections=[-1,5]}" },
    { .in = { "f32[5,8]", "i32[1] is=[-1]" }, .attrs = "{num=2}" },
};

const fl_op fl_op_split = {
    .name = "split",
    .doc = "Out[0], Out[1], ... = X cut along axis (from the end when "
           "negative) into num equal parts, or into parts of the lengths in "
           "sections, of which one may be -1: the rest. Along axis 0 offsets "
           "are dropped. AxisTensor and SectionsTensorList give axis and "
           "sections instead",
    .in = { { "X", 0 },
            { "AxisTensor", FL_VALUE_SLOT },
            { "SectionsTensorList", FL_VALUE_LIST } },
    .out = { { "Out", FL_OP_SLOT_LIST } },
    .attrs = { { "axis", FL_ATTR_INT, "0" },
               { "num", FL_ATTR_INT, "0" },
               { "sections", FL_ATTR_INTS, "[]" } },
    .flags = FL_OP_SLICED,
    .infer = split_infer,
    .run = split_run,
    .back = split_back,
    .cases = split_cases,
    .n_cases = FL_LEN(split_cases),
};
