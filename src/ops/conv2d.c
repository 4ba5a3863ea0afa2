/* conv2d.c - convolutions over images, as products of matrices.
 *
 * For one image and one group of channels, every place of the window becomes a
 * column: what the window sees there. The output is the filter times these
 * columns, the gradient of the filter the output's gradient times them, and that
 * of the image the filter's product put back where each column came from.
 * Images are done one after the other.
 */
#include "kernel/gemm.h"
#include "ops/helpers.h"
#include "ops/images.h"

enum { INPUT, FILTER };
enum { OUTPUT };
enum { STRIDES, PADDINGS, PADDING_ALGORITHM, GROUPS, DILATIONS, DATA_FORMAT };

static const fl_window_attrs attrs = { .strides = STRIDES,
                                       .paddings = PADDINGS,
                                       .dilations = DILATIONS,
                                       .algorithm = PADDING_ALGORITHM,
                                       .format = DATA_FORMAT,
                                       .ceil = -1 };

/* Sizes of one convolution. */
typedef struct conv {
    fl_windows w;
    int64_t groups, in_each, out_each; /* channels of a group */
    int64_t rows, cols;                /* of the matrix of columns */
} conv;

static fl_status conv_of(const fl_op_node *n, const fl_shape *x,
                         const fl_shape *filter, conv *out)
{
    FL_TRY(fl_windows_of(n, x, filter->dim + 2, &attrs, &out->w));
    out->groups = fl_attr_int(n, GROUPS);
    out->in_each = filter->dim[1];
    out->out_each = out->groups > 0 ? filter->dim[0] / out->groups : 0;
    out->rows = out->in_each * filter->dim[2] * filter->dim[3];
    out->cols = out->w.side[0].out * out->w.side[1].out;
    return FL_OK;
}

static fl_status check_channels(const fl_infer *c, const conv *z)
{
    const fl_shape *filter = &fl_infer_in(c, FILTER)->shape;
    char a[FL_SLOT_TEXT_MAX], b[FL_SLOT_TEXT_MAX];

    if (z->groups < 1 || filter->dim[0] % z->groups)
        FL_FAIL(FL_ERR_INVAL, "op %s: %s cannot be parted into %lld groups",
                c->node->def->name, fl_infer_text(c, FILTER, b),
                (long long)z->groups);
    if (z->w.c >= 0 && z->w.c != z->in_each * z->groups)
        FL_FAIL(FL_ERR_INVAL,
                "op %s: %s has %lld channels, and %s is for %lld in %lld "
                "groups",
                c->node->def->name, fl_infer_text(c, INPUT, a),
                (long long)z->w.c, fl_infer_text(c, FILTER, b),
                (long long)z->in_each, (long long)z->groups);
    return FL_OK;
}

static fl_status conv2d_infer(fl_infer *c)
{
    const fl_tensor *x = fl_infer_in(c, INPUT);
    const fl_shape *filter = &fl_infer_in(c, FILTER)->shape;
    char buf[FL_SLOT_TEXT_MAX];
    fl_shape out;
    conv z;

    FL_TRY(fl_infer_float(c, INPUT));
    FL_TRY(fl_infer_same_dtype(c, INPUT, FILTER));
    if (filter->rank != 4)
        FL_FAIL(FL_ERR_INVAL,
                "op %s: %s must have 4 dimensions: outputs, channels, height "
                "and width",
                c->node->def->name, fl_infer_text(c, FILTER, buf));
    FL_TRY(conv_of(c->node, &x->shape, filter, &z));
    FL_TRY(check_channels(c, &z));
    out = fl_windows_shape(&z.w, filter->dim[0]);
    fl_infer_dense(c, OUTPUT, x->dtype, 4, out.dim);
    return FL_OK;
}

/* --- columns -------------------------------------------------------------- */

/* Calls M for each element of the columns that lies on the image: `col` is its
   place in the columns, `pixel` that in the image. */
#define EACH_PIXEL(z, group, M)                                                \
    for (int64_t r = 0, k = 0; k < (z)->in_each; k++)                          \
        for (int64_t i = 0; i < (z)->w.side[0].window; i++)                    \
            for (int64_t j = 0; j < (z)->w.side[1].window; j++, r++)           \
                for (int64_t y = 0; y < (z)->w.side[0].out; y++) {             \
                    const fl_side_size *v = &(z)->w.side[0];                   \
                    const fl_side_size *h = &(z)->w.side[1];                   \
                    int64_t py = y * v->stride - v->before + i * v->dilation;  \
                    int64_t col = r * (z)->cols + y * h->out;                  \
                                                                               \
                    for (int64_t x = 0; x < h->out; x++, col++) {              \
                        int64_t px =                                           \
                            x * h->stride - h->before + j * h->dilation;       \
                        bool on =                                              \
                            py >= 0 && py < v->in && px >= 0 && px < h->in;    \
                        int64_t pixel =                                        \
                            on ? fl_pixel(&(z)->w, (group) * (z)->in_each + k, \
                                          py, px)                              \
                               : 0;                                            \
                                                                               \
                        M;                                                     \
                    }                                                          \
                }

#define KERNELS(T, t)                                                          \
    static void to_columns_##t(const conv *z, int64_t group, const T *image,   \
                               T *columns)                                     \
    {                                                                          \
        EACH_PIXEL(z, group, columns[col] = on ? image[pixel] : 0)             \
    }                                                                          \
    static void from_columns_##t(const conv *z, int64_t group,                 \
                                 const T *columns, T *image)                   \
    {                                                                          \
        EACH_PIXEL(z, group, if (on) image[pixel] += columns[col])             \
    }                                                                          \
    /* Channels first, where they are the last dimension of the image. */      \
    static void turn_##t(const conv *z, const T *from, T *to, bool back)       \
    {                                                                          \
        int64_t m = z->groups * z->out_each;                                   \
                                                                               \
        for (int64_t k = 0; k < m; k++)                                        \
            for (int64_t p = 0; p < z->cols; p++)                              \
                if (back)                                                      \
                    to[p * m + k] = from[k * z->cols + p];                     \
                else                                                           \
                    to[k * z->cols + p] = from[p * m + k];                     \
    }                                                                          \
    static void forward_##t(const conv *z, const T *image, const T *filter,    \
                            T *columns, T *out)                                \
    {                                                                          \
        fl_gemm_shape s = { .m = z->out_each,                                  \
                            .n = z->cols,                                      \
                            .k = z->rows,                                      \
                            .lda = z->rows,                                    \
                            .ldb = z->cols,                                    \
                            .ldc = z->cols };                                  \
                                                                               \
        for (int64_t g = 0; g < z->groups; g++) {                              \
            to_columns_##t(z, g, image, columns);                              \
            fl_gemm_##t(&s, 1, filter + g * z->out_each * z->rows, columns, 0, \
                        out + g * z->out_each * z->cols);                      \
        }                                                                      \
    }                                                                          \
    static void filter_back_##t(const conv *z, const T *image, const T *dout,  \
                                T *columns, T *dfilter)                        \
    {                                                                          \
        fl_gemm_shape s = { .tb = FL_TRANS,                                    \
                            .m = z->out_each,                                  \
                            .n = z->rows,                                      \
                            .k = z->cols,                                      \
                            .lda = z->cols,                                    \
                            .ldb = z->cols,                                    \
                            .ldc = z->rows };                                  \
                                                                               \
        for (int64_t g = 0; g < z->groups; g++) {                              \
            to_columns_##t(z, g, image, columns);                              \
            fl_gemm_##t(&s, 1, dout + g * z->out_each * z->cols, columns, 1,   \
                        dfilter + g * z->out_each * z->rows);                  \
        }                                                                      \
    }                                                                          \
    static void image_back_##t(const conv *z, const T *filter, const T *dout,  \
                               T *columns, T *dimage)                          \
    {                                                                          \
        fl_gemm_shape s = { .ta = FL_TRANS,                                    \
                            .m = z->rows,                                      \
                            .n = z->cols,                                      \
                            .k = z->out_each,                                  \
                            .lda = z->rows,                                    \
                            .ldb = z->cols,                                    \
                            .ldc = z->cols };                                  \
                                                                               \
        for (int64_t g = 0; g < z->groups; g++) {                              \
            fl_gemm_##t(&s, 1, filter + g * z->out_each * z->rows,             \
                        dout + g * z->out_each * z->cols, 0, columns);         \
            from_columns_##t(z, g, columns, dimage);                           \
        }                                                                      \
    }
FL_FLOATS(KERNELS)

/* --- all images ----------------------------------------------------------- */

/* Numbers of one image, and of what becomes of it. */
static size_t in_len(const conv *z)
{
    return (size_t)(z->w.c * z->w.side[0].in * z->w.side[1].in);
}

static size_t out_len(const conv *z)
{
    return (size_t)(z->groups * z->out_each * z->cols);
}

typedef struct memory {
    void *columns;
    void *turned; /* an output with its channels first */
} memory;

static fl_status get_memory(fl_op_ctx *c, const conv *z, memory *out)
{
    size_t size = fl_dtype_bytes(fl_in_t(c, INPUT)->dtype);

    out->columns = fl_scratch(c, (size_t)(z->rows * z->cols) * size + 1);
    out->turned = fl_scratch(c, out_len(z) * size + 1);
    return out->columns && out->turned ? FL_OK : FL_NOMEM(c);
}

#define IMAGES(T, t)                                                           \
    static void run_##t(const conv *z, const fl_op_ctx *c, const memory *m)    \
    {                                                                          \
        const T *x = fl_in(c, INPUT);                                          \
        T *out = fl_out(c, OUTPUT);                                            \
                                                                               \
        for (int64_t i = 0; i < z->w.n; i++) {                                 \
            T *to = out + (size_t)i * out_len(z);                              \
                                                                               \
            forward_##t(z, x + (size_t)i * in_len(z), fl_in(c, FILTER),        \
                        m->columns, z->w.is_last ? m->turned : to);            \
            if (z->w.is_last)                                                  \
                turn_##t(z, m->turned, to, true);                              \
        }                                                                      \
    }                                                                          \
    static void back_##t(const conv *z, const fl_op_ctx *c, const memory *m)   \
    {                                                                          \
        const T *x = fl_in(c, INPUT), *dout = fl_dout(c, OUTPUT);              \
        T *dx = fl_din(c, INPUT), *df = fl_din(c, FILTER);                     \
                                                                               \
        for (int64_t i = 0; i < z->w.n; i++) {                                 \
            const T *d = dout + (size_t)i * out_len(z);                        \
                                                                               \
            if (z->w.is_last) {                                                \
                turn_##t(z, d, m->turned, false);                              \
                d = m->turned;                                                 \
            }                                                                  \
            if (df)                                                            \
                filter_back_##t(z, x + (size_t)i * in_len(z), d, m->columns,   \
                                df);                                           \
            if (dx)                                                            \
                image_back_##t(z, fl_in(c, FILTER), d, m->columns,             \
                               dx + (size_t)i * in_len(z));                    \
        }                                                                      \
    }
FL_FLOATS(IMAGES)

static fl_status conv2d_run(fl_op_ctx *c)
{
    memory m;
    conv z;

    FL_TRY(conv_of(c->node, &fl_in_t(c, INPUT)->shape,
                   &fl_in_t(c, FILTER)->shape, &z));
    FL_TRY(get_memory(c, &z, &m));
    FL_BY_FLOAT(c, INPUT, run, &z, c, &m);
    return FL_OK;
}

static fl_status conv2d_back(fl_op_ctx *c)
{
    memory m;
    conv z;

    fl_din_zero(c, INPUT);
    fl_din_zero(c, FILTER);
    FL_TRY(conv_of(c->node, &fl_in_t(c, INPUT)->shape,
                   &fl_in_t(c, FILTER)->shape, &z));
    FL_TRY(get_memory(c, &z, &m));
    if (fl_dout_t(c, OUTPUT))
        FL_BY_FLOAT(c, INPUT, back, &z, c, &m);
    return FL_OK;
}

static const fl_op_case conv2d_cases[] = {
    { .in = { "f32[2,3,5,5]", "f32[4,3,3,3]" } },
    { .in = { "f32[2,3,5,6]", "f32[4,3,2,3]" },
      .attrs = "{strides=[2,1], paddings=[1,2]}" },
    { .in = { "f32[1,4,6,5]", "f32[4,2,3,3]" },
      .attrs = "{groups=2, paddings=[0,1,2,1], dilations=[2,1]}" },
    { .in = { "f32[2,5,5,3]", "f32[2,3,3,3]" },
      .attrs = "{data_format=NHWC, padding_algorithm=SAME, strides=[2,2]}" },
    { .in = { "f32[2,3,4,4]", "f32[5,3,1,1]" },
      .attrs = "{padding_algorithm=VALID}" },
    { .in = { "f32[0,3,4,4]", "f32[5,3,3,3]" } },
};

#define CONV2D_ATTRS                                                           \
    {                                                                          \
        { "strides", FL_ATTR_INTS, "[1,1]" },                                  \
            { "paddings", FL_ATTR_INTS, "[0,0]" },                             \
            { "padding_algorithm", FL_ATTR_STRING, "EXPLICIT" },               \
            { "groups", FL_ATTR_INT, "1" },                                    \
            { "dilations", FL_ATTR_INTS, "[1,1]" },                            \
        {                                                                      \
            "data_format", FL_ATTR_STRING, "NCHW"                              \
        }                                                                      \
    }

const fl_op fl_op_conv2d = {
    .name = "conv2d",
    .doc = "Output = Input, images [n, channels, h, w], seen through windows: "
           "each output channel is the sum over its group's channels of what "
           "the window sees times a Filter [outputs, channels of a group, h, "
           "w]",
    .in = { { "Input", 0 }, { "Filter", 0 } },
    .out = { { "Output", 0 } },
    .attrs = CONV2D_ATTRS,
    .infer = conv2d_infer,
    .run = conv2d_run,
    .back = conv2d_back,
    .back_uses = FL_USES_IN(INPUT) | FL_USES_IN(FILTER),
    .cases = conv2d_cases,
    .n_cases = FL_LEN(conv2d_cases),
};

static const fl_op_case depthwise_conv2d_cases[] = {
    { .in = { "f32[2,3,5,5]", "f32[3,1,3,3]" }, .attrs = "{groups=3}" },
    { .in = { "f32[2,3,5,5]", "f32[6,1,3,3]" },
      .attrs = "{groups=3, strides=[2,2], paddings=[1,1]}" },
    { .in = { "f32[0,2,4,4]", "f32[2,1,3,3]" }, .attrs = "{groups=2}" },
};

const fl_op fl_op_depthwise_conv2d = {
    .name = "depthwise_conv2d",
    .doc = "conv2d in which every channel is a group of its own",
    .in = { { "Input", 0 }, { "Filter", 0 } },
    .out = { { "Output", 0 } },
    .attrs = CONV2D_ATTRS,
    .infer = conv2d_infer,
    .run = conv2d_run,
    .back = conv2d_back,
    .back_uses = FL_USES_IN(INPUT) | FL_USES_IN(FILTER),
    .cases = depthwise_conv2d_cases,
    .n_cases = FL_LEN(depthwise_conv2d_cases),
};
