/* split.c - a tensor cut into parts along an axis. */
#include <inttypes.h>

#include "ops/helpers.h"
#include "ops/strips.h"

enum { X };
enum { OUT };
enum { AXIS, NUM, SECTIONS };

static int n_parts(const fl_op_node *n)
{
    size_t n_sections;

    fl_attr_ints(n, SECTIONS, &n_sections);
    return n_sections ? (int)n_sections : (int)fl_attr_int(n, NUM);
}

/* What the sections leave for the one that says -1; -1 when they are more
   than the whole. */
static int64_t rest_of(const int64_t *sections, size_t n, int64_t whole)
{
    for (size_t i = 0; i < n; i++) {
        if (sections[i] > whole)
            return -1;
        whole -= sections[i] < 0 ? 0 : sections[i];
    }
    return whole;
}

/* Length of part i of a dimension `whole`; -1 when it is not known. */
static int64_t part_len(const fl_op_node *n, int64_t whole, int i)
{
    int64_t num = fl_attr_int(n, NUM);
    size_t n_sections;
    const int64_t *sections = fl_attr_ints(n, SECTIONS, &n_sections);

    if (n_sections && sections[i] >= 0)
        return sections[i];
    if (whole < 0)
        return -1;
    return n_sections ? rest_of(sections, n_sections, whole) : whole / num;
}

static fl_status check_parts(const fl_infer *c, int64_t whole)
{
    int64_t num = fl_int(c, NUM), rest;
    size_t n_open = 0, n;
    const int64_t *sections = fl_attr_ints(c->node, SECTIONS, &n);
    char buf[FL_SLOT_TEXT_MAX];

    if ((num > 0) == (n > 0) || num < 0)
        FL_FAIL(FL_ERR_INVAL, "op split: give either num or sections");
    if (n == 0) {
        if (whole >= 0 && whole % num)
            FL_FAIL(FL_ERR_INVAL,
                    "op split: %s has no %" PRId64 " equal parts at axis %d",
                    fl_infer_text(c, X, buf), num, (int)fl_int(c, AXIS));
        return FL_OK;
    }
    for (size_t i = 0; i < n; i++)
        n_open += sections[i] < 0;
    rest = rest_of(sections, n, whole);
    if (n_open > 1 || (whole >= 0 && (rest < 0 || (!n_open && rest))))
        FL_FAIL(FL_ERR_INVAL, "op split: sections do not make up %s at axis %d",
                fl_infer_text(c, X, buf), (int)fl_int(c, AXIS));
    return FL_OK;
}

static fl_status split_infer(fl_infer *c)
{
    const fl_tensor *x = fl_infer_in(c, X);
    int axis = fl_shape_axis(&x->shape, fl_int(c, AXIS));
    int n_out = fl_infer_n_out(c, OUT);
    char buf[FL_SLOT_TEXT_MAX];

    if (axis < 0)
        FL_FAIL(FL_ERR_INVAL, "op split: %s has no axis %d",
                fl_infer_text(c, X, buf), (int)fl_int(c, AXIS));
    FL_TRY(check_parts(c, x->shape.dim[axis]));
    if (n_out != n_parts(c->node))
        FL_FAIL(FL_ERR_INVAL,
                "op split: %s is cut into %d parts, but Out has %d variables",
                fl_infer_text(c, X, buf), n_parts(c->node), n_out);
    for (int i = 0; i < n_out; i++) {
        fl_tensor *out = fl_infer_out_at(c, OUT, i);

        fl_tensor_like(out, x);
        if (axis == 0) {
            out->kind = FL_KIND_DENSE;
            out->n_lod = 0;
        }
        out->shape.dim[axis] = part_len(c->node, x->shape.dim[axis], i);
    }
    return FL_OK;
}

/* The strips of all parts, their data still missing. */
static fl_strip *strips_of(fl_op_ctx *c, fl_span *rows)
{
    const fl_tensor *x = fl_in_t(c, X);
    int axis = fl_shape_axis(&x->shape, fl_int(c, AXIS));
    int n = n_parts(c->node);
    fl_strip *parts = fl_scratch(c, (size_t)n * sizeof(*parts));
    fl_shape s = x->shape;

    for (int i = 0; parts && i < n; i++) {
        s.dim[axis] = part_len(c->node, x->shape.dim[axis], i);
        parts[i] = fl_strip_of(&s, axis, x->dtype);
    }
    *rows = fl_op_span(c, (size_t)fl_shape_count(&x->shape, 0, axis));
    return parts;
}

static fl_status split_run(fl_op_ctx *c)
{
    int n = n_parts(c->node);
    fl_span rows;
    fl_strip *parts = strips_of(c, &rows);

    if (!parts)
        return FL_NOMEM(c);
    for (int i = 0; i < n; i++)
        parts[i].data = fl_out_at(c, OUT, i)->data;
    fl_strips_cut(fl_in(c, X), parts, n, rows);
    return FL_OK;
}

static fl_status split_back(fl_op_ctx *c)
{
    int n = n_parts(c->node);
    fl_span rows;
    fl_strip *parts;

    if (!fl_din_t(c, X))
        return FL_OK;
    parts = strips_of(c, &rows);
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
};

const fl_op fl_op_split = {
    .name = "split",
    .doc = "Out[0], Out[1], ... = X cut along axis (from the end when "
           "negative) into num equal parts, or into parts of the lengths in "
           "sections, of which one may be -1: the rest. Along axis 0 offsets "
           "are dropped",
    .in = { { "X", 0 } },
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
