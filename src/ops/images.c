/* images.c - how often a window fits into an image. */
#include "ops/images.h"

#include <string.h>

static fl_status read_pair(const fl_op_node *n, int attr, int64_t least,
                           int64_t out[2])
{
    size_t len;
    const int64_t *v = fl_attr_ints(n, attr, &len);

    if (len != 2 || v[0] < least || v[1] < least)
        FL_FAIL(FL_ERR_INVAL, "op %s: %s must be two numbers of at least %lld",
                n->def->name, n->def->attrs[attr].name, (long long)least);
    out[0] = v[0];
    out[1] = v[1];
    return FL_OK;
}

/* Two numbers for both ends of a side, or four. */
static fl_status read_paddings(const fl_op_node *n, int attr, fl_windows *w)
{
    size_t len;
    const int64_t *v = fl_attr_ints(n, attr, &len);

    if (len != 2 && len != 4)
        FL_FAIL(FL_ERR_INVAL,
                "op %s: paddings has %zu numbers, 2 or 4 are "
                "possible",
                n->def->name, len);
    for (size_t i = 0; i < len; i++)
        if (v[i] < 0)
            FL_FAIL(FL_ERR_INVAL, "op %s: padding %lld is below 0",
                    n->def->name, (long long)v[i]);
    for (int i = 0; i < 2; i++) {
        w->side[i].before = len == 2 ? v[i] : v[2 * i];
        w->side[i].after = len == 2 ? v[i] : v[2 * i + 1];
    }
    return FL_OK;
}

/* SAME: as many places as there are strides; what is odd goes behind. */
static void pad_same(fl_side_size *s)
{
    int64_t places = (s->in + s->stride - 1) / s->stride;
    int64_t need = (places - 1) * s->stride + s->window - s->in;

    need = need > 0 ? need : 0;
    s->before = need / 2;
    s->after = need - need / 2;
    s->dilation = 1;
}

static fl_status pad(const fl_op_node *n, const fl_window_attrs *a,
                     fl_windows *w)
{
    const char *algorithm = fl_attr_str(n, a->algorithm);

    FL_TRY(read_paddings(n, a->paddings, w));
    if (!strcmp(algorithm, "EXPLICIT"))
        return FL_OK;
    if (strcmp(algorithm, "SAME") && strcmp(algorithm, "VALID"))
        FL_FAIL(FL_ERR_INVAL,
                "op %s: padding_algorithm %s; EXPLICIT, SAME and VALID are "
                "possible",
                n->def->name, algorithm);
    for (int i = 0; i < 2; i++) {
        w->side[i].before = w->side[i].after = 0;
        if (!strcmp(algorithm, "SAME"))
            pad_same(&w->side[i]);
    }
    return FL_OK;
}

static fl_status count_places(const fl_op_node *n, const fl_window_attrs *a,
                              fl_side_size *s)
{
    int64_t wide = s->dilation * (s->window - 1) + 1;
    int64_t room = s->in + s->before + s->after - wide;

    if (s->in < 0) {
        s->out = -1;
        return FL_OK;
    }
    if (a->ceil >= 0 && fl_attr_bool(n, a->ceil))
        room += s->stride - 1;
    if (room < 0)
        FL_FAIL(FL_ERR_INVAL,
                "op %s: a window of %lld does not fit into %lld with a padding "
                "of %lld and %lld",
                n->def->name, (long long)wide, (long long)s->in,
                (long long)s->before, (long long)s->after);
    s->out = room / s->stride + 1;
    return FL_OK;
}

static fl_status read_format(const fl_op_node *n, int attr, bool *is_last)
{
    const char *format = fl_attr_str(n, attr);

    *is_last = !strcmp(format, "NHWC");
    if (!*is_last && strcmp(format, "NCHW") && strcmp(format, "AnyLayout"))
        FL_FAIL(FL_ERR_INVAL,
                "op %s: data_format %s; NCHW and NHWC are possible",
                n->def->name, format);
    return FL_OK;
}

fl_status fl_windows_of(const fl_op_node *n, const fl_shape *x,
                        const int64_t window[2], const fl_window_attrs *a,
                        fl_windows *out)
{
    int64_t strides[2], dilations[2] = { 1, 1 };
    char text[FL_SHAPE_TEXT_MAX];

    if (x->rank != 4)
        FL_FAIL(FL_ERR_INVAL, "op %s: images have 4 dimensions, not %s",
                n->def->name, fl_shape_text(x, text));
    FL_TRY(read_format(n, a->format, &out->is_last));
    FL_TRY(read_pair(n, a->strides, 1, strides));
    if (a->dilations >= 0)
        FL_TRY(read_pair(n, a->dilations, 1, dilations));
    out->n = x->dim[0];
    out->c = x->dim[out->is_last ? 3 : 1];
    for (int i = 0; i < 2; i++)
        out->side[i] = (fl_side_size){ .in = x->dim[i + (out->is_last ? 1 : 2)],
                                       .window = window[i],
                                       .stride = strides[i],
                                       .dilation = dilations[i] };
    FL_TRY(pad(n, a, out));
    FL_TRY(count_places(n, a, &out->side[0]));
    return count_places(n, a, &out->side[1]);
}

fl_shape fl_windows_shape(const fl_windows *w, int64_t channels)
{
    int64_t h = w->side[0].out, v = w->side[1].out;
    int64_t first[] = { w->n, channels, h, v };
    int64_t last[] = { w->n, h, v, channels };

    return fl_shape_of(4, w->is_last ? last : first);
}
