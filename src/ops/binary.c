/* binary.c - functions of two numbers, element by element: the operators of the
 * rows of kernel/binary.def, over shapes that meet (broadcast.h).
 *
 * The gradient of an input that is repeated is the sum over what it is repeated
 * over, in ascending order of Out; reduce.h has the walk.
 */
#include "kernel/vec.h"
#include "ops/broadcast.h"
#include "ops/helpers.h"
#include "ops/reduce.h"
#include "ops/rows.h"
#include "ops/values.h"

enum { X, Y };
enum { OUT };
enum { AXIS };

/* Elements whose gradient is computed before they are added up. */
#define BLOCK 256

static const unsigned flags_of[] = {
#define B(name, text, VALUE, DX, DY, INTS, uses, flags) flags,
#include "kernel/binary.def"
#undef B
};

/* The place of a type in the tables of loops; -1 when it has none. */
static int type_index(fl_dtype d, fl_binary_kind kind)
{
    static const fl_dtype types[] = { FL_DTYPE_F32, FL_DTYPE_F64, FL_DTYPE_I32,
                                      FL_DTYPE_I64 };
    int n = flags_of[kind] & FL_BINARY_INTS ? (int)FL_LEN(types) : 2;

    for (int i = 0; i < n; i++)
        if (types[i] == d)
            return i;
    return -1;
}

/* Rows that are absent stay so: that is right for a factor alone. */
static fl_status infer_rows(fl_infer *c)
{
    const fl_tensor *x = fl_infer_in(c, X), *y = fl_infer_in(c, Y);
    char a[FL_SLOT_TEXT_MAX], b[FL_SLOT_TEXT_MAX];

    if (y->dtype != x->dtype || !fl_is_one(y))
        FL_FAIL(FL_ERR_INVAL, "op %s: %s has rows, but %s is not one number",
                c->node->def->name, fl_infer_text(c, X, a),
                fl_infer_text(c, Y, b));
    fl_tensor_like(fl_infer_out(c, OUT), x);
    return FL_OK;
}

static fl_status binary_infer(fl_infer *c, fl_binary_kind kind)
{
    fl_dtype dtype = fl_infer_in(c, X)->dtype;
    char buf[FL_SLOT_TEXT_MAX];

    if (type_index(dtype, kind) < 0)
        FL_FAIL(FL_ERR_TYPE, "op %s: %s must be f32 or f64%s",
                c->node->def->name, fl_infer_text(c, X, buf),
                flags_of[kind] & FL_BINARY_INTS ? ", i32 or i64" : "");
    if (fl_infer_in(c, X)->kind == FL_KIND_ROWS)
        return infer_rows(c);
    return fl_infer_meeting(c, fl_int(c, AXIS), dtype);
}

/* --- forward -------------------------------------------------------------- */

static fl_status check_divisors(const fl_tensor *y)
{
    for (int64_t i = 0; i < fl_tensor_numel(y); i++)
        if (y->dtype == FL_DTYPE_I32 ? !((const int32_t *)y->data)[i]
                                     : !((const int64_t *)y->data)[i])
            FL_FAIL(FL_ERR_NUMERIC,
                    "Y: 0 at place %lld, and an integer cannot "
                    "be divided by it",
                    (long long)i);
    return FL_OK;
}

/* The tensors of a run. */
typedef struct values {
    const char *in[2];
    char *out;
    size_t size; /* of an element */
} values;

static void run_rows(fl_binary_loop f, const values *v, const fl_meeting *m,
                     fl_span s)
{
    fl_meeting_rows it = fl_meeting_rows_of(m, s);
    fl_meeting_row r;

    while (fl_meeting_next(&it, &r))
        f(v->out + r.out * v->size, v->in[X] + r.x * v->size,
          v->in[Y] + r.y * v->size, NULL, NULL, r.n);
}

/* Bytes of copies of a short row, and how many it is worth. */
#define COPIES_BYTES 4096
#define COPIES_MIN 4

/* The input that is one short row, repeated for all of Out; -1: none is. */
static int short_side(const fl_meeting *m, size_t size)
{
    bool is_short = m->run[0].n * size * COPIES_MIN <= COPIES_BYTES;

    if (m->n_runs != 2 || m->form != FL_BINARY_BOTH || !is_short ||
        m->run[1].n < COPIES_MIN)
        return -1;
    return !m->run[1].x ? X : Y;
}

/* Copies of the short row side by side make one long row of many. Shares begin
   anywhere, so rows are counted from the first that is whole. */
static void run_short(fl_binary_loop f, const values *v, const fl_meeting *m,
                      int side, fl_span s)
{
    size_t n = m->run[0].n, bytes = n * v->size;
    size_t copies = COPIES_BYTES / bytes;
    size_t lo = (s.lo + n - 1) / n * n, hi = s.hi / n * n;
    char block[COPIES_BYTES];
    values b = *v;

    if (lo >= hi) {
        run_rows(f, v, m, s);
        return;
    }
    for (size_t k = 0; k < copies; k++)
        memcpy(block + k * bytes, v->in[side], bytes);
    run_rows(f, v, m, (fl_span){ s.lo, lo });
    for (size_t at = lo; at < hi; at += copies * n) {
        size_t len = hi - at < copies * n ? hi - at : copies * n;

        b.in[side] = block;
        b.in[1 - side] = v->in[1 - side] + at * v->size;
        f(v->out + at * v->size, b.in[X], b.in[Y], NULL, NULL, len);
    }
    run_rows(f, v, m, (fl_span){ hi, s.hi });
}

static fl_status binary_run(fl_op_ctx *c, fl_binary_kind kind)
{
    const fl_tensor *x = fl_in_t(c, X), *y = fl_in_t(c, Y);
    fl_meeting m = fl_meeting_of(&x->shape, &y->shape, fl_int(c, AXIS));
    fl_span s = fl_op_span(c, (size_t)fl_shape_numel(&m.out));
    values v = { { x->data, y->data },
                 fl_out(c, OUT),
                 fl_dtype_bytes(x->dtype) };
    int type = type_index(x->dtype, kind), side = short_side(&m, v.size);
    fl_binary_loop f = fl_binary_of(kind)->value[type][m.form];

    if ((flags_of[kind] & FL_BINARY_DIVIDES) && type > 1)
        FL_TRY(check_divisors(y));
    fl_rows_carry(x, fl_out_t(c, OUT), s);
    if (side < 0)
        run_rows(f, &v, &m, s);
    else
        run_short(f, &v, &m, side, s);
    return FL_OK;
}

/* --- backward ------------------------------------------------------------- */

/* What the gradients of one node share. z and what is not read may be NULL. */
typedef struct job {
    const fl_meeting *m;
    const char *in[2], *z, *g;
    char *d[2];   /* NULL: not wanted */
    bool is_g[2]; /* the gradient of that input is that of Out */
    const fl_binary_loop (*loop)[FL_BINARY_FORMS]; /* by input */
    size_t size;
} job;

static const char *at(const char *p, size_t i, size_t size)
{
    return p ? p + i * size : NULL;
}

/* n gradients of input `side` for the elements from `out` on of Out, which meet
   those from in[X] and in[Y] on. */
static void compute(const job *j, int side, fl_binary_form form, void *to,
                    const fl_meeting_row *r)
{
    j->loop[side][form](to, at(j->in[X], r->x, j->size),
                        at(j->in[Y], r->y, j->size), at(j->z, r->out, j->size),
                        at(j->g, r->out, j->size), r->n);
}

/* The same for an input that has all dimensions of Out, in its place. */
static void compute_full(const job *j, int side, fl_binary_form form,
                         const fl_meeting_row *r)
{
    char *to = j->d[side] + r->out * j->size;

    if (!j->is_g[side])
        compute(j, side, form, to, r);
    else if (j->d[side] != j->g)
        memcpy(to, j->g + r->out * j->size, r->n * j->size);
}

/* Elements of Out and of the repeated input `side` as a row. */
static fl_meeting_row row_of(int side, size_t out, size_t repeated, size_t n)
{
    return (fl_meeting_row){ .out = out,
                             .x = side == X ? repeated : out,
                             .y = side == Y ? repeated : out,
                             .n = n };
}

static fl_binary_form form_of(int side)
{
    return side == X ? FL_BINARY_ONE_X : FL_BINARY_ONE_Y;
}

/* The sums of a tile for the repeated input `side`; the other one has all
   dimensions. */
#define SUMS(T, t)                                                             \
    static double sum_run_##t(const job *j, int side, size_t out,              \
                              size_t repeated, size_t len)                     \
    {                                                                          \
        T block[BLOCK];                                                        \
        double sum = 0;                                                        \
                                                                               \
        for (size_t lo = 0; lo < len; lo += BLOCK) {                           \
            size_t n = len - lo < BLOCK ? len - lo : BLOCK;                    \
            fl_meeting_row r = row_of(side, out + lo, repeated, n);            \
                                                                               \
            compute(j, side, form_of(side), block, &r);                        \
            sum += fl_vec_##t()->sum(block, n);                                \
        }                                                                      \
        return sum;                                                            \
    }                                                                          \
    static void sum_runs_##t(const job *j, int side, const fl_tile *tile)      \
    {                                                                          \
        T *to = (T *)j->d[side] + tile->y;                                     \
                                                                               \
        for (size_t k = 0; k < tile->n; k++) {                                 \
            size_t out = tile->x + k * tile->run;                              \
            double sum = tile->first ? 0 : (double)to[k];                      \
                                                                               \
            for (size_t r = 0; r < tile->rows; r++, out += tile->ld)           \
                sum += sum_run_##t(j, side, out, tile->y + k, tile->run);      \
            to[k] = (T)sum;                                                    \
        }                                                                      \
    }                                                                          \
    static void add_row_##t(const job *j, int side, size_t out, size_t to,     \
                            size_t len, bool first)                            \
    {                                                                          \
        T block[BLOCK], *d = (T *)j->d[side];                                  \
                                                                               \
        for (size_t lo = 0; lo < len; lo += BLOCK) {                           \
            size_t n = len - lo < BLOCK ? len - lo : BLOCK;                    \
            fl_meeting_row r = row_of(side, out + lo, to + lo, n);             \
                                                                               \
            compute(j, side, FL_BINARY_BOTH, first ? d + to + lo : block, &r); \
            if (!first)                                                        \
                fl_vec_##t()->axpy(d + to + lo, 1, block, n);                  \
        }                                                                      \
    }                                                                          \
    static void sum_tile_##t(const job *j, int side, const fl_tile *tile)      \
    {                                                                          \
        if (j->is_g[side]) {                                                   \
            fl_tile_sum_##t(tile, (T *)j->d[side], (const T *)j->g);           \
            return;                                                            \
        }                                                                      \
        if (tile->run != 1) {                                                  \
            sum_runs_##t(j, side, tile);                                       \
            return;                                                            \
        }                                                                      \
        for (size_t r = 0; r < tile->rows; r++)                                \
            add_row_##t(j, side, tile->x + r * tile->ld, tile->y, tile->n,     \
                        tile->first && r == 0);                                \
    }
FL_FLOATS(SUMS)

/* The gradients of a tile for the input that is not repeated. */
static void fill_tile(const job *j, int side, const fl_tile *tile)
{
    for (size_t r = 0; r < tile->rows; r++) {
        size_t out = tile->x + r * tile->ld;
        fl_meeting_row row = row_of(1 - side, out, tile->y, tile->n);

        if (tile->run == 1) {
            compute_full(j, side, FL_BINARY_BOTH, &row);
            continue;
        }
        for (size_t k = 0; k < tile->n; k++, out += tile->run) {
            row = row_of(1 - side, out, tile->y + k, tile->run);
            compute_full(j, side, form_of(1 - side), &row);
        }
    }
}

static fl_grid grid_of(const job *j, int side)
{
    return fl_grid_of(&j->m->out, side == X ? j->m->has_x : j->m->has_y);
}

/* One input is repeated. The gradient of X may lie where that of Out lies: a
   tile is read for the one that is repeated before it is written for the
   other. */
static void back_one(const fl_op_ctx *c, const job *j, int side)
{
    fl_grid grid = grid_of(j, side);
    fl_tiles it = fl_tiles_of(&grid, fl_op_span(c, fl_grid_kept(&grid)));
    fl_tile tile;

    while (fl_tiles_next(&it, &tile)) {
        if (j->d[side])
            FL_BY_FLOAT(c, X, sum_tile, j, side, &tile);
        if (j->d[1 - side])
            fill_tile(j, 1 - side, &tile);
    }
}

/* Both are repeated, over different dimensions: all gradients of one input are
   laid out, then added up. */
static fl_status back_two(fl_op_ctx *c, const job *j, int side)
{
    size_t n = (size_t)fl_shape_numel(&j->m->out);
    fl_meeting_rows it = fl_meeting_rows_of(j->m, (fl_span){ 0, n });
    char *all = fl_scratch(c, n * j->size);
    job sum = *j;
    fl_grid grid = grid_of(j, side);
    fl_tiles tiles = fl_tiles_of(&grid, fl_op_span(c, fl_grid_kept(&grid)));
    fl_meeting_row r;
    fl_tile tile;

    if (!all)
        return FL_NOMEM(c);
    while (fl_meeting_next(&it, &r))
        compute(j, side, j->m->form, all + r.out * j->size, &r);
    sum.g = all;
    sum.is_g[side] = true;
    while (fl_tiles_next(&tiles, &tile))
        FL_BY_FLOAT(c, X, sum_tile, &sum, side, &tile);
    return FL_OK;
}

static void back_none(const fl_op_ctx *c, const job *j)
{
    fl_span s = fl_op_span(c, (size_t)fl_shape_numel(&j->m->out));
    fl_meeting_row r = { s.lo, s.lo, s.lo, s.hi - s.lo };

    if (j->d[Y] && r.n)
        compute_full(j, Y, FL_BINARY_BOTH, &r);
    if (j->d[X] && r.n)
        compute_full(j, X, FL_BINARY_BOTH, &r);
}

static fl_status back_job(fl_op_ctx *c, const job *j)
{
    const fl_meeting *m = j->m;

    if (!m->repeats_x && !m->repeats_y)
        back_none(c, j);
    else if (!m->repeats_x || !m->repeats_y)
        back_one(c, j, m->repeats_x ? X : Y);
    else
        for (int side = X; side <= Y; side++)
            if (j->d[side])
                FL_TRY(back_two(c, j, side));
    return FL_OK;
}

static fl_status binary_back(fl_op_ctx *c, fl_binary_kind kind)
{
    const fl_tensor *x = fl_in_t(c, X), *y = fl_in_t(c, Y);
    fl_meeting m = fl_meeting_of(&x->shape, &y->shape, fl_int(c, AXIS));
    unsigned flags = flags_of[kind];
    job j = { .m = &m,
              .in = { fl_in(c, X), fl_in(c, Y) },
              .z = fl_saved_out(c, OUT),
              .g = fl_dout(c, OUT),
              .d = { fl_din(c, X), fl_din(c, Y) },
              .is_g = { flags & FL_BINARY_DX_IS_G, flags & FL_BINARY_DY_IS_G },
              .size = fl_dtype_bytes(x->dtype) };

    if (!fl_dout_t(c, OUT) || fl_shape_numel(&m.out) == 0) {
        fl_din_zero(c, X);
        fl_din_zero(c, Y);
        return FL_OK;
    }
    j.loop = fl_binary_of(kind)->gradient[fl_float_index(x->dtype, c->node)];
    return back_job(c, &j);
}

static fl_status binary_back_infer(fl_infer *c)
{
    return fl_rows_no_grad(c, X);
}

/* --- the operators -------------------------------------------------------- */

/* Positive, so that quotients and powers stay tame. */
#define POSITIVE .flags = FL_CASE_POSITIVE

static const fl_op_case binary_cases[] = {
    { .in = { "f32[1]", "f32[1]" }, POSITIVE },
    { .in = { "f32[33,7]", "f32[33,7]" }, POSITIVE },
    { .in = { "f32[33,7]", "f32[33,7]" }, .attrs = "{axis=1}", POSITIVE },
    { .in = { "f32[33,7]", "f32[7]" }, POSITIVE },
    { .in = { "f32[33,7]", "f32[1,7]" }, POSITIVE },
    { .in = { "f32[33,7]", "f32[33,1]" }, POSITIVE },
    { .in = { "f32[33,7]", "f32[33]" }, .attrs = "{axis=0}", POSITIVE },
    { .in = { "f32[33,7]", "f32[1]" }, POSITIVE },
    { .in = { "f32[2,300]", "f32[2,1]" }, POSITIVE },
    { .in = { "f32[2,3,4,5]", "f32[3,4]" }, .attrs = "{axis=1}", POSITIVE },
    { .in = { "f32[2,3,4]", "f32[3,1]" }, .attrs = "{axis=1}", POSITIVE },
    { .in = { "f32[2,3,2,3,2]", "f32[2,1,2,1,2]" }, POSITIVE },
    { .in = { "f32[7]", "f32[33,7]" }, POSITIVE },
    { .in = { "f32[1,7]", "f32[33,7]" }, POSITIVE },
    { .in = { "f32[3,4]", "f32[2,3,4,5]" }, .attrs = "{axis=1}", POSITIVE },
    { .in = { "f32[33,1]", "f32[1,7]" }, POSITIVE },
    { .in = { "f32[3,1,4,1]", "f32[2,1,5]" }, POSITIVE },
    { .in = { "f32[7,3] lod=[0,2,2,7]", "f32[3]" }, POSITIVE },
    { .in = { "f32[3]", "f32[7,3] lod=[0,2,2,7]" }, POSITIVE },
    { .in = { "f32[0,8]", "f32[0,8]" }, POSITIVE },
    { .in = { "f32[0,8]", "f32[8]" }, POSITIVE },
    { .in = { "f32[8]", "f32[0,8]" }, POSITIVE },
    { .in = { "f32[0,1]", "f32[1,8]" }, POSITIVE },
};

#define B(name_, text, VALUE, DX, DY, INTS, uses, flags_)                      \
    static fl_status name_##_infer(fl_infer *c)                                \
    {                                                                          \
        return binary_infer(c, FL_BINARY_##name_);                             \
    }                                                                          \
    static fl_status name_##_run(fl_op_ctx *c)                                 \
    {                                                                          \
        return binary_run(c, FL_BINARY_##name_);                               \
    }                                                                          \
    static fl_status name_##_back(fl_op_ctx *c)                                \
    {                                                                          \
        return binary_back(c, FL_BINARY_##name_);                              \
    }                                                                          \
    const fl_op fl_op_elementwise_##name_ = {                                  \
        .name = "elementwise_" #name_,                                         \
        .doc = "Out = " text ", element by element; the one of lower rank "    \
               "stands in the other with its first dimension at axis (-1: "    \
               "its last one at the end), and where one of them has no "       \
               "dimension, or 1, it is repeated",                              \
        .in = { { "X", (flags_)&FL_BINARY_ROWS ? FL_OP_SLOT_ROWS : 0 },        \
                { "Y", 0 } },                                                  \
        .out = { { "Out", (flags_)&FL_BINARY_ROWS ? FL_OP_SLOT_ROWS : 0 } },   \
        .attrs = { { "axis", FL_ATTR_INT, "-1" } },                            \
        .flags = FL_OP_INPLACE | FL_OP_SLICED | FL_OP_BY_FORM,                 \
        .infer = name_##_infer,                                                \
        .run = name_##_run,                                                    \
        .back = (flags_)&FL_BINARY_NO_BACK ? NULL : name_##_back,              \
        .back_uses = uses,                                                     \
        .back_infer = (flags_)&FL_BINARY_ROWS ? binary_back_infer : NULL,      \
        .cases = binary_cases,                                                 \
        .n_cases = FL_LEN(binary_cases),                                       \
    };
#include "kernel/binary.def"
