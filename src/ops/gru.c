/* gru.c - gated recurrent units over ragged rows, and one step of one.
 *
 *     u = gate(xu + p Wu)    r = gate(xr + p Wr)    p: Hidden of the row before
 *     c = act(xc + (r p) Wc)
 *     h = (1 - u) p + u c    with origin_mode: u p + (1 - u) c
 *
 * Rows of one time are computed side by side (time_steps.h).
 * The gradients of Weight and Bias are sums over blocks (partials.h).
 *
 * gru_unit is gru of sequences of one row, whose H0 is HiddenPrev and whose
 * Hidden is in batch order as it is.
 */
#include "kernel/gemm.h"
#include "ops/helpers.h"
#include "ops/kit.h"
#include "ops/partials.h"
#include "ops/sequences.h"
#include "ops/time_steps.h"

enum { INPUT, H0, WEIGHT, BIAS };
enum { GATE, RESET, BATCH_HIDDEN, HIDDEN };
enum { ACTIVATION, GATE_ACTIVATION, ORIGIN_MODE, IS_REVERSE };

/* Rows whose part in the gradient of Weight is one product. */
#define STRIP_ROWS 256

typedef struct gru_job {
    fl_act act, gate_act;
    bool origin;
    bool from_zero; /* there is no H0 */
    size_t d;       /* columns of Hidden */
    fl_steps steps;
} gru_job;

/* --- one time step of a block --------------------------------------------- */

/* The rows of one block at one time. */
#define STEP_TYPES(T, t)                                                       \
    typedef struct rows_##t {                                                  \
        size_t n;                                                              \
        bool from_zero; /* prev is zeros: no product with it */                \
        const T *w, *prev;                                                     \
        T *gate, *reset;                                                       \
    } rows_##t;
FL_FLOATS(STEP_TYPES)

/* y [n rows, cols] += a [n rows, D] w [D, cols] */
static fl_gemm_shape forth(const gru_job *j, size_t n, size_t cols)
{
    return (fl_gemm_shape){ .ta = FL_NO_TRANS,
                            .tb = FL_NO_TRANS,
                            .m = (int64_t)n,
                            .n = (int64_t)cols,
                            .k = (int64_t)j->d,
                            .lda = (int64_t)j->d,
                            .ldb = (int64_t)cols,
                            .ldc = 3 * (int64_t)j->d };
}

/* da [n rows, D] = dy [n rows, cols] w' */
static fl_gemm_shape back(const gru_job *j, size_t n, size_t cols)
{
    return (fl_gemm_shape){ .ta = FL_NO_TRANS,
                            .tb = FL_TRANS,
                            .m = (int64_t)n,
                            .n = (int64_t)j->d,
                            .k = (int64_t)cols,
                            .lda = 3 * (int64_t)j->d,
                            .ldb = (int64_t)cols,
                            .ldc = (int64_t)j->d };
}

/* dw [D, cols] += a' [D, n rows] dy [n rows, cols] */
static fl_gemm_shape across(const gru_job *j, size_t n, size_t cols)
{
    return (fl_gemm_shape){ .ta = FL_TRANS,
                            .tb = FL_NO_TRANS,
                            .m = (int64_t)j->d,
                            .n = (int64_t)cols,
                            .k = (int64_t)n,
                            .lda = (int64_t)j->d,
                            .ldb = 3 * (int64_t)j->d,
                            .ldc = (int64_t)cols };
}

#define FORWARD(T, t)                                                          \
    /* gru bounds its sigmoids, gru_unit does not. */                          \
    static void gate_act_##t(const gru_job *j, T *y, const T *bias, size_t n,  \
                             size_t cols, fl_act act)                          \
    {                                                                          \
        if (j->steps.off)                                                      \
            fl_gate_act_##t(y, bias, n, cols, 3 * j->d, act);                  \
        else                                                                   \
            fl_vec_##t()->bias_act(y, bias, n, cols, 3 * j->d, act);           \
    }                                                                          \
    /* From what Input says to u, r, c, and r p on the way. */                 \
    static void gates_##t(const gru_job *j, const rows_##t *r, const T *bias)  \
    {                                                                          \
        size_t d = j->d;                                                       \
        fl_gemm_shape ur = forth(j, r->n, 2 * d), c = forth(j, r->n, d);       \
        const fl_vec_##t##_table *v = fl_vec_##t();                            \
                                                                               \
        if (!r->from_zero)                                                     \
            fl_gemm_##t(&ur, 1, r->prev, r->w, 1, r->gate);                    \
        gate_act_##t(j, r->gate, bias, r->n, 2 * d, j->gate_act);              \
        for (size_t i = 0; i < r->n; i++)                                      \
            v->mul(r->reset + i * d, r->gate + (3 * i + 1) * d,                \
                   r->prev + i * d, d);                                        \
        if (!r->from_zero)                                                     \
            fl_gemm_##t(&c, 1, r->reset, r->w + 2 * d * d, 1,                  \
                        r->gate + 2 * d);                                      \
        gate_act_##t(j, r->gate + 2 * d, bias ? bias + 2 * d : NULL, r->n, d,  \
                     j->act);                                                  \
    }                                                                          \
    static void mix_row_##t(T *restrict h, const T *restrict gate,             \
                            const T *restrict prev, size_t d, bool origin)     \
    {                                                                          \
        const T *u = gate, *c = gate + 2 * d;                                  \
        const T *from = origin ? c : prev, *to = origin ? prev : c;            \
                                                                               \
        for (size_t k = 0; k < d; k++)                                         \
            h[k] = from[k] + u[k] * (to[k] - from[k]);                         \
    }

/* Tensors by their place in memory; batch rows unless said otherwise. */
typedef struct gru_data {
    const void *x, *h0, *w, *bias; /* x in rows of Input, h0 in sequences */
    void *gate, *reset, *hidden;
    void *out; /* in rows of Input; NULL: hidden is it */
} gru_data;

#define RUN(T, t)                                                              \
    static void first_rows_##t(const gru_job *j, const T *h0, size_t b, T *to) \
    {                                                                          \
        size_t n = fl_steps_rows_at(&j->steps, b, 0);                          \
                                                                               \
        if (!h0)                                                               \
            memset(to, 0, n * j->d * sizeof(T));                               \
        for (size_t i = 0; h0 && i < n; i++)                                   \
            memcpy(to + i * j->d,                                              \
                   h0 + (size_t)j->steps.seq[b * FL_STEPS_BLOCK + i] * j->d,   \
                   j->d * sizeof(T));                                          \
    }                                                                          \
    static void load_gates_##t(const gru_job *j, const T *x, size_t b,         \
                               size_t time, T *gate)                           \
    {                                                                          \
        size_t width = 3 * j->d, n = fl_steps_rows_at(&j->steps, b, time);     \
                                                                               \
        for (size_t i = 0; i < n; i++)                                         \
            memcpy(gate + i * width,                                           \
                   x + fl_steps_row(&j->steps, b * FL_STEPS_BLOCK + i, time) * \
                           width,                                              \
                   width * sizeof(T));                                         \
    }                                                                          \
    static void forward_step_##t(const gru_job *j, const gru_data *m,          \
                                 size_t b, size_t time, const T *first)        \
    {                                                                          \
        size_t d = j->d, at = fl_steps_batch_row(&j->steps, b, time);          \
        T *hidden = (T *)m->hidden + at * d;                                   \
        rows_##t r = { .n = fl_steps_rows_at(&j->steps, b, time),              \
                       .from_zero = j->from_zero && !time,                     \
                       .w = m->w,                                              \
                       .prev = first,                                          \
                       .gate = (T *)m->gate + at * 3 * d,                      \
                       .reset = (T *)m->reset + at * d };                      \
                                                                               \
        if (time)                                                              \
            r.prev = (T *)m->hidden +                                          \
                     fl_steps_batch_row(&j->steps, b, time - 1) * d;           \
        load_gates_##t(j, m->x, b, time, r.gate);                              \
        gates_##t(j, &r, m->bias);                                             \
        for (size_t i = 0; i < r.n; i++) {                                     \
            mix_row_##t(hidden + i * d, r.gate + i * 3 * d, r.prev + i * d, d, \
                        j->origin);                                            \
            if (m->out)                                                        \
                memcpy((T *)m->out + fl_steps_row(&j->steps,                   \
                                                  b * FL_STEPS_BLOCK + i,      \
                                                  time) *                      \
                                         d,                                    \
                       hidden + i * d, d * sizeof(T));                         \
        }                                                                      \
    }                                                                          \
    static void forward_##t(const gru_job *j, const gru_data *m, size_t b,     \
                            void *first)                                       \
    {                                                                          \
        first_rows_##t(j, m->h0, b, first);                                    \
        for (size_t time = 0; fl_steps_rows_at(&j->steps, b, time); time++)    \
            forward_step_##t(j, m, b, time, first);                            \
    }

/* --- backward ------------------------------------------------------------- */

/* Gradients that came and that are wanted; each of the latter may be NULL. */
typedef struct gru_grads {
    const void *dout; /* in rows of Input */
    void *dx, *dh0;   /* in rows of Input, in sequences */
    void *parts;      /* of dWeight and dBias, by block */
} gru_grads;

/* Rows that wait for their products with each other: the gradients before the
   activations, Hidden of the row before, that times r. */
#define BACK_TYPES(T, t)                                                       \
    typedef struct strip_##t {                                                 \
        size_t n;                                                              \
        T *dz, *prev, *reset;                                                  \
        T *dh, *dreset; /* of the sequences of the block */                    \
        T *part;        /* where the sums go; NULL: nobody wants them */       \
    } strip_##t;
FL_FLOATS(BACK_TYPES)

static size_t part_len(size_t d)
{
    return 3 * d * d + 3 * d;
}

/* Numbers behind the pointers of a strip. */
static size_t strip_len(const gru_job *j)
{
    return STRIP_ROWS * 5 * j->d + 2 * FL_STEPS_BLOCK * j->d;
}

#define BACKWARD(T, t)                                                         \
    static strip_##t strip_of_##t(const gru_job *j, T *buffer, T *part)        \
    {                                                                          \
        strip_##t s = { .dz = buffer, .part = part };                          \
                                                                               \
        s.prev = s.dz + STRIP_ROWS * 3 * j->d;                                 \
        s.reset = s.prev + STRIP_ROWS * j->d;                                  \
        s.dh = s.reset + STRIP_ROWS * j->d;                                    \
        s.dreset = s.dh + FL_STEPS_BLOCK * j->d;                               \
        return s;                                                              \
    }                                                                          \
    static void flush_##t(const gru_job *j, strip_##t *s)                      \
    {                                                                          \
        size_t d = j->d;                                                       \
        fl_gemm_shape ur = across(j, s->n, 2 * d), c = across(j, s->n, d);     \
                                                                               \
        if (s->part) {                                                         \
            T *db = s->part + 3 * d * d;                                       \
                                                                               \
            fl_gemm_##t(&ur, 1, s->prev, s->dz, 1, s->part);                   \
            fl_gemm_##t(&c, 1, s->reset, s->dz + 2 * d, 1,                     \
                        s->part + 2 * d * d);                                  \
            for (size_t i = 0; i < s->n; i++)                                  \
                fl_vec_##t()->add(db, db, s->dz + i * 3 * d, 3 * d);           \
        }                                                                      \
        s->n = 0;                                                              \
    }                                                                          \
    /* h = from + u (to - from): gives dz of u and c, and dh of p alone. */    \
    static void unmix_row_##t(const T *restrict gate, const T *restrict prev,  \
                              T *restrict dh, T *restrict dz, size_t d,        \
                              bool origin)                                     \
    {                                                                          \
        const T *u = gate, *c = gate + 2 * d;                                  \
                                                                               \
        for (size_t k = 0; k < d; k++) {                                       \
            T g = dh[k], to_c = origin ? 1 - u[k] : u[k];                      \
                                                                               \
            dz[k] = origin ? g * (prev[k] - c[k]) : g * (c[k] - prev[k]);      \
            dz[2 * d + k] = g * to_c;                                          \
            dh[k] = g - g * to_c;                                              \
        }                                                                      \
    }                                                                          \
    /* Of r p: what r gets is in dz, what p gets is added to dh. */            \
    static void unreset_row_##t(const T *restrict r, const T *restrict prev,   \
                                const T *restrict dreset, T *restrict dh,      \
                                T *restrict dz, size_t d)                      \
    {                                                                          \
        for (size_t k = 0; k < d; k++) {                                       \
            dz[k] = dreset[k] * prev[k];                                       \
            dh[k] += dreset[k] * r[k];                                         \
        }                                                                      \
    }                                                                          \
    static void back_candidate_##t(const gru_job *j, const rows_##t *r, T *dh, \
                                   T *dz)                                      \
    {                                                                          \
        size_t d = j->d;                                                       \
                                                                               \
        for (size_t i = 0; i < r->n; i++) {                                    \
            const T *gate = r->gate + i * 3 * d;                               \
            T *z = dz + i * 3 * d;                                             \
                                                                               \
            unmix_row_##t(gate, r->prev + i * d, dh + i * d, z, d, j->origin); \
            fl_vec_##t()->act_grad(z, z, gate, d, j->gate_act);                \
            fl_vec_##t()->act_grad(z + 2 * d, z + 2 * d, gate + 2 * d, d,      \
                                   j->act);                                    \
        }                                                                      \
    }                                                                          \
    static void back_reset_##t(const gru_job *j, const rows_##t *r,            \
                               strip_##t *s, T *dz)                            \
    {                                                                          \
        size_t d = j->d;                                                       \
        fl_gemm_shape c = back(j, r->n, d), ur = back(j, r->n, 2 * d);         \
                                                                               \
        fl_gemm_##t(&c, 1, dz + 2 * d, r->w + 2 * d * d, 0, s->dreset);        \
        for (size_t i = 0; i < r->n; i++) {                                    \
            const T *gate = r->gate + (3 * i + 1) * d;                         \
            T *z = dz + (3 * i + 1) * d;                                       \
                                                                               \
            unreset_row_##t(gate, r->prev + i * d, s->dreset + i * d,          \
                            s->dh + i * d, z, d);                              \
            fl_vec_##t()->act_grad(z, z, gate, d, j->gate_act);                \
        }                                                                      \
        fl_gemm_##t(&ur, 1, dz, r->w, 1, s->dh);                               \
    }                                                                          \
    /* Adds what came for this time; sequences that end here begin with 0. */  \
    static void take_grads_##t(const gru_job *j, const T *dout, size_t b,      \
                               size_t time, T *dh)                             \
    {                                                                          \
        size_t d = j->d, old = fl_steps_rows_at(&j->steps, b, time + 1);       \
                                                                               \
        for (size_t i = 0; i < fl_steps_rows_at(&j->steps, b, time); i++) {    \
            const T *g =                                                       \
                dout +                                                         \
                fl_steps_row(&j->steps, b * FL_STEPS_BLOCK + i, time) * d;     \
                                                                               \
            if (i < old)                                                       \
                fl_vec_##t()->add(dh + i * d, dh + i * d, g, d);               \
            else                                                               \
                memcpy(dh + i * d, g, d * sizeof(T));                          \
        }                                                                      \
    }                                                                          \
    static void give_input_##t(const gru_job *j, T *dx, size_t b, size_t time, \
                               const T *dz)                                    \
    {                                                                          \
        size_t width = 3 * j->d, n = fl_steps_rows_at(&j->steps, b, time);     \
                                                                               \
        for (size_t i = 0; dx && i < n; i++)                                   \
            memcpy(dx +                                                        \
                       fl_steps_row(&j->steps, b * FL_STEPS_BLOCK + i, time) * \
                           width,                                              \
                   dz + i * width, width * sizeof(T));                         \
    }                                                                          \
    static void backward_step_##t(const gru_job *j, const gru_data *m,         \
                                  const gru_grads *g, size_t b, size_t time,   \
                                  strip_##t *s)                                \
    {                                                                          \
        size_t d = j->d, at = fl_steps_batch_row(&j->steps, b, time);          \
        rows_##t r = { .n = fl_steps_rows_at(&j->steps, b, time),              \
                       .from_zero = j->from_zero && !time,                     \
                       .w = m->w,                                              \
                       .prev = s->prev + s->n * d,                             \
                       .gate = (T *)m->gate + at * 3 * d };                    \
        T *dz = s->dz + s->n * 3 * d;                                          \
                                                                               \
        if (time && m->hidden) /* a unit has one time alone */                 \
            memcpy(s->prev + s->n * d,                                         \
                   (T *)m->hidden +                                            \
                       fl_steps_batch_row(&j->steps, b, time - 1) * d,         \
                   r.n * d * sizeof(T));                                       \
        else                                                                   \
            first_rows_##t(j, m->h0, b, s->prev + s->n * d);                   \
        memcpy(s->reset + s->n * d, (T *)m->reset + at * d,                    \
               r.n * d * sizeof(T));                                           \
        take_grads_##t(j, g->dout, b, time, s->dh);                            \
        back_candidate_##t(j, &r, s->dh, dz);                                  \
        for (size_t i = 0; r.from_zero && i < r.n; i++)                        \
            memset(dz + (3 * i + 1) * d, 0, d * sizeof(T));                    \
        if (!r.from_zero)                                                      \
            back_reset_##t(j, &r, s, dz);                                      \
        give_input_##t(j, g->dx, b, time, dz);                                 \
        s->n += r.n;                                                           \
    }                                                                          \
    static void give_first_##t(const gru_job *j, T *dh0, size_t b,             \
                               const T *dh)                                    \
    {                                                                          \
        for (size_t i = 0; dh0 && i < fl_steps_rows_at(&j->steps, b, 0); i++)  \
            memcpy(dh0 + (size_t)j->steps.seq[b * FL_STEPS_BLOCK + i] * j->d,  \
                   dh + i * j->d, j->d * sizeof(T));                           \
    }                                                                          \
    static void backward_##t(const gru_job *j, const gru_data *m,              \
                             const gru_grads *g, size_t b, void *buffer)       \
    {                                                                          \
        T *part = g->parts ? (T *)g->parts + b * part_len(j->d) : NULL;        \
        strip_##t s = strip_of_##t(j, buffer, part);                           \
        size_t time = 0;                                                       \
                                                                               \
        if (part)                                                              \
            memset(part, 0, part_len(j->d) * sizeof(T));                       \
        while (fl_steps_rows_at(&j->steps, b, time))                           \
            time++;                                                            \
        while (time-- > 0) {                                                   \
            if (s.n + fl_steps_rows_at(&j->steps, b, time) > STRIP_ROWS)       \
                flush_##t(j, &s);                                              \
            backward_step_##t(j, m, g, b, time, &s);                           \
        }                                                                      \
        flush_##t(j, &s);                                                      \
        give_first_##t(j, g->dh0, b, s.dh);                                    \
    }

FL_FLOATS(FORWARD)
FL_FLOATS(RUN)
FL_FLOATS(BACKWARD)

/* --- settings ------------------------------------------------------------- */

/* Of both operators. Weight [D, 3D] says how wide everything is. */
static fl_status check_inputs(const fl_infer *c, int64_t n_seq)
{
    const fl_shape *w = &fl_infer_in(c, WEIGHT)->shape;
    char buf[FL_SLOT_TEXT_MAX];
    int64_t d = w->dim[0];

    FL_TRY(fl_infer_float(c, INPUT));
    if (w->rank != 2 || d < 1 || w->dim[1] != 3 * d)
        FL_FAIL(FL_ERR_INVAL,
                "op %s: %s must be [D,3D]: [D,2D] for update and reset, then "
                "[D,D] for the candidate",
                c->node->def->name, fl_infer_text(c, WEIGHT, buf));
    FL_TRY(fl_infer_matrix(c, INPUT, INPUT, -1, 3 * d));
    FL_TRY(fl_infer_matrix(c, WEIGHT, INPUT, d, 3 * d));
    FL_TRY(fl_infer_matrix(c, BIAS, INPUT, 1, 3 * d));
    FL_TRY(fl_infer_matrix(c, H0, INPUT, n_seq, d));
    FL_TRY(fl_infer_act(c, ACTIVATION));
    return fl_infer_act(c, GATE_ACTIVATION);
}

static void infer_outputs(const fl_infer *c)
{
    const fl_tensor *x = fl_infer_in(c, INPUT);
    int64_t n = x->shape.dim[0], d = fl_infer_in(c, WEIGHT)->shape.dim[0];
    fl_tensor *hidden = fl_infer_out(c, fl_op_n_out(c->node->def) - 1);

    fl_infer_dense(c, GATE, x->dtype, 2, (int64_t[]){ n, 3 * d });
    fl_infer_dense(c, RESET, x->dtype, 2, (int64_t[]){ n, d });
    fl_infer_dense(c, BATCH_HIDDEN, x->dtype, 2, (int64_t[]){ n, d });
    fl_tensor_like(hidden, x);
    hidden->shape.dim[1] = d;
}

static fl_status gru_infer(fl_infer *c)
{
    const fl_tensor *x = fl_infer_in(c, INPUT);

    FL_TRY(fl_infer_one_level(c, INPUT));
    FL_TRY(check_inputs(c, c->running ? x->lod_len[0] - 1 : -1));
    infer_outputs(c);
    return FL_OK;
}

static fl_status gru_unit_infer(fl_infer *c)
{
    FL_TRY(check_inputs(c, fl_infer_in(c, INPUT)->shape.dim[0]));
    infer_outputs(c);
    return FL_OK;
}

static fl_status job_of(fl_op_ctx *c, gru_job *j)
{
    const fl_tensor *x = fl_in_t(c, INPUT);
    bool is_unit = fl_op_n_out(c->node->def) == HIDDEN;

    *j = (gru_job){
        .act = fl_act_of(c->node, ACTIVATION),
        .gate_act = fl_act_of(c->node, GATE_ACTIVATION),
        .origin = fl_bool(c, ORIGIN_MODE),
        .from_zero = !fl_in_t(c, H0),
        .d = (size_t)fl_in_t(c, WEIGHT)->shape.dim[0],
        .steps.reverse = !is_unit && fl_bool(c, IS_REVERSE),
        .steps.n_seq = (size_t)(is_unit ? x->shape.dim[0] : x->lod_len[0] - 1),
        .steps.off = is_unit ? NULL : x->lod[0],
    };
    return fl_steps_sort(c, &j->steps);
}

/* --- running -------------------------------------------------------------- */

/* An output, or work space in its stead where it is left out. */
static fl_status out_or_scratch(fl_op_ctx *c, int slot, size_t cols, void **out)
{
    const fl_tensor *x = fl_in_t(c, INPUT);
    size_t bytes = (size_t)x->shape.dim[0] * cols * fl_dtype_bytes(x->dtype);

    *out = fl_out_t(c, slot) ? fl_out(c, slot) : fl_scratch(c, bytes);
    return fl_out_t(c, slot) || *out ? FL_OK : FL_NOMEM(c);
}

static fl_status gru_run(fl_op_ctx *c)
{
    int last = fl_op_n_out(c->node->def) - 1;
    gru_data m = { .x = fl_in(c, INPUT),
                   .h0 = fl_in(c, H0),
                   .w = fl_in(c, WEIGHT),
                   .bias = fl_in(c, BIAS),
                   .out = last == HIDDEN ? fl_out(c, HIDDEN) : NULL };
    gru_job j;
    void *first;

    FL_TRY(job_of(c, &j));
    FL_TRY(out_or_scratch(c, GATE, 3 * j.d, &m.gate));
    FL_TRY(out_or_scratch(c, RESET, j.d, &m.reset));
    FL_TRY(out_or_scratch(c, BATCH_HIDDEN, j.d, &m.hidden));
    first = fl_scratch(c, FL_STEPS_BLOCK * j.d * fl_dtype_bytes(FL_DTYPE_F64));
    if (!first)
        return FL_NOMEM(c);
    for (size_t b = (size_t)c->ith;
         b < fl_steps_blocks(fl_steps_alive(&j.steps, 0)); b += (size_t)c->nth)
        FL_BY_FLOAT(c, INPUT, forward, &j, &m, b, first);
    return FL_OK;
}

static bool wants_sums(const fl_targs *out)
{
    return (out[WEIGHT].n && out[WEIGHT].t[0]) ||
           (out[BIAS].n && out[BIAS].t[0]);
}

static fl_status gru_back_infer(fl_infer *c)
{
    const fl_tensor *x = fl_infer_in(c, INPUT);
    int first_out = fl_op_n_in(c->node->def);
    bool is_unit = fl_op_n_out(c->node->def) == HIDDEN;
    size_t d = (size_t)fl_infer_in(c, WEIGHT)->shape.dim[0];
    int64_t n_seq;

    for (int slot = GATE; slot < (is_unit ? BATCH_HIDDEN : HIDDEN); slot++)
        if (!fl_infer_in(c, first_out + slot))
            FL_FAIL(FL_ERR_INVAL, "op %s_grad: %s of %s was left out",
                    c->node->def->name, c->node->def->out[slot].name,
                    c->node->def->name);
    if (!c->running || !wants_sums(c->out))
        return FL_OK;
    n_seq = is_unit ? x->shape.dim[0] : x->lod_len[0] - 1;
    return fl_partials_infer(c, x->dtype, fl_steps_blocks((size_t)n_seq),
                             part_len(d));
}

/* No row says anything of the first values of empty sequences. */
static void clear_empty(const fl_op_ctx *c, const gru_job *j)
{
    size_t size = j->d * fl_dtype_bytes(fl_in_t(c, INPUT)->dtype);

    for (size_t k = fl_steps_alive(&j->steps, 0);
         fl_din(c, H0) && k < j->steps.n_seq; k++)
        memset((char *)fl_din(c, H0) + (size_t)j->steps.seq[k] * size, 0, size);
}

static void add_parts(const fl_op_ctx *c, const gru_job *j)
{
    size_t n = fl_steps_blocks(fl_steps_alive(&j->steps, 0)),
           len = part_len(j->d);
    fl_partial_use w = { fl_din_t(c, WEIGHT), 0 };
    fl_partial_use b = { fl_din_t(c, BIAS), 3 * j->d * j->d };

    FL_BY_FLOAT(c, INPUT, fl_partials_sum, fl_op_workspace(c), n, len, &w);
    FL_BY_FLOAT(c, INPUT, fl_partials_sum, fl_op_workspace(c), n, len, &b);
}

static fl_status no_gradient(const fl_op_ctx *c)
{
    for (int slot = INPUT; slot <= BIAS; slot++)
        fl_din_zero(c, slot);
    return FL_OK;
}

static fl_status gru_back(fl_op_ctx *c)
{
    const fl_tensor *hidden = fl_saved_out_t(c, BATCH_HIDDEN);
    gru_data m = { .h0 = fl_in(c, H0),
                   .w = fl_in(c, WEIGHT),
                   .gate = (void *)fl_saved_out(c, GATE),
                   .reset = (void *)fl_saved_out(c, RESET),
                   .hidden = hidden ? hidden->data : NULL };
    gru_grads g = { .dout = fl_dout(c, fl_op_n_out(c->node->def) - 1),
                    .dx = fl_din(c, INPUT),
                    .dh0 = fl_din(c, H0),
                    .parts = wants_sums(c->out) ? fl_op_workspace(c) : NULL };
    gru_job j;
    void *buffer;

    if (!fl_dout_t(c, fl_op_n_out(c->node->def) - 1))
        return no_gradient(c);
    FL_TRY(job_of(c, &j));
    buffer = fl_scratch(c, strip_len(&j) * fl_dtype_bytes(FL_DTYPE_F64));
    if (!buffer)
        return FL_NOMEM(c);
    for (size_t b = (size_t)c->ith;
         b < fl_steps_blocks(fl_steps_alive(&j.steps, 0)); b += (size_t)c->nth)
        FL_BY_FLOAT(c, INPUT, backward, &j, &m, &g, b, buffer);
    if (!c->ith)
        clear_empty(c, &j);
    if (wants_sums(c->out) && fl_op_is_last(c))
        add_parts(c, &j);
    return FL_OK;
}

static const fl_op_case gru_cases[] = {
    { .in = { "f32[10,15] lod=[0,3,4,8,10]", "", "f32[5,15]", "f32[1,15]" } },
    { .in = { "f32[10,9] lod=[0,3,4,8,10]", "f32[4,3]", "f32[3,9]",
              "f32[1,9]" } },
    { .in = { "f32[6,9] lod=[0,2,2,5,5,6]", "f32[5,3]", "f32[3,9]" },
      .attrs = "{is_reverse=true}" },
    { .in = { "f32[6,9] lod=[0,2,2,5,5,6]", "f32[5,3]", "f32[3,9]",
              "f32[1,9]" },
      .attrs = "{origin_mode=true, activation=identity, "
               "gate_activation=tanh}" },
    { .in = { "f32[4,6] lod=[0,1,4]", "", "f32[2,6]" },
      .attrs = "{activation=relu, is_reverse=true, origin_mode=true}" },
    { .in = { "f32[1,3] lod=[0,1]", "f32[1,1]", "f32[1,3]", "f32[1,3]" } },
    { .in = { "f32[0,9] lod=[0,0,0]", "f32[2,3]", "f32[3,9]", "f32[1,9]" } },
    { .in = { "f32[0,9] lod=[0]", "", "f32[3,9]", "f32[1,9]" } },
    /* several blocks of sequences, several strips of rows */
    { .in = { "f32[80,3] lod=[0,1,2,3,4,5,6,7,8,9,10,11,12,13,14,15,16,17,18,"
              "19,20,21,22,23,24,25,26,27,28,29,30,31,32,33,34,35,36,37,38,"
              "39,40,41,42,43,44,45,46,47,48,49,50,51,52,53,54,55,56,57,58,"
              "59,60,61,62,63,64,65,66,67,68,69,70,80]",
              "", "f32[1,3]", "f32[1,3]" } },
    { .in = { "f32[600,3] lod=[0,300,301,600]", "f32[3,1]", "f32[1,3]",
              "f32[1,3]" } },
};

const fl_op fl_op_gru = {
    .name = "gru",
    .doc = "Hidden = gated recurrent unit over the rows of each sequence: "
           "u, r = gate_activation(Input[0:2D] + p W[D,2D] + Bias), c = "
           "activation(Input[2D:3D] + (r p) W[D,D] + Bias), Hidden = (1-u) p + "
           "u c (origin_mode: u p + (1-u) c) with p the row before, H0 or 0; "
           "Weight holds both blocks one behind the other; is_reverse: from "
           "the last row to the first; the Batch outputs are sorted by time",
    .in = { { "Input", 0 },
            { "H0", FL_OP_SLOT_OPTIONAL },
            { "Weight", 0 },
            { "Bias", FL_OP_SLOT_OPTIONAL } },
    .out = { { "BatchGate", FL_OP_SLOT_BYPRODUCT },
             { "BatchResetHiddenPrev", FL_OP_SLOT_BYPRODUCT },
             { "BatchHidden", FL_OP_SLOT_BYPRODUCT },
             { "Hidden", 0 } },
    .attrs = { { "activation", FL_ATTR_STRING, "tanh" },
               { "gate_activation", FL_ATTR_STRING, "sigmoid" },
               { "origin_mode", FL_ATTR_BOOL, "false" },
               { "is_reverse", FL_ATTR_BOOL, "false" } },
    .flags = FL_OP_SLICED,
    .infer = gru_infer,
    .run = gru_run,
    .back = gru_back,
    .back_uses = FL_USES_IN(H0) | FL_USES_IN(WEIGHT) | FL_USES_OUT(GATE) |
                 FL_USES_OUT(RESET) | FL_USES_OUT(BATCH_HIDDEN),
    .back_infer = gru_back_infer,
    .cases = gru_cases,
    .n_cases = FL_LEN(gru_cases),
};

static const fl_op_case gru_unit_cases[] = {
    { .in = { "f32[5,9]", "f32[5,3]", "f32[3,9]", "f32[1,9]" } },
    { .in = { "f32[5,9]", "f32[5,3]", "f32[3,9]" },
      .attrs = "{origin_mode=true}" },
    { .in = { "f32[3,6]", "f32[3,2]", "f32[2,6]", "f32[1,6]" },
      .attrs = "{activation=0, gate_activation=2}" },
    { .in = { "f32[1,6]", "f32[1,2]", "f32[2,6]", "f32[1,6]" },
      .attrs = "{activation=3}" },
    { .in = { "f32[0,9]", "f32[0,3]", "f32[3,9]", "f32[1,9]" } },
    { .in = { "f32[150,6]", "f32[150,2]", "f32[2,6]", "f32[1,6]" } },
};

const fl_op fl_op_gru_unit = {
    .name = "gru_unit",
    .doc = "one step of gru for a batch of rows: HiddenPrev is p; activation "
           "and gate_activation by number: 0 identity, 1 sigmoid, 2 tanh, "
           "3 relu",
    .in = { { "Input", 0 },
            { "HiddenPrev", 0 },
            { "Weight", 0 },
            { "Bias", FL_OP_SLOT_OPTIONAL } },
    .out = { { "Gate", FL_OP_SLOT_BYPRODUCT },
             { "ResetHiddenPrev", FL_OP_SLOT_BYPRODUCT },
             { "Hidden", 0 } },
    .attrs = { { "activation", FL_ATTR_INT, "2" },
               { "gate_activation", FL_ATTR_INT, "1" },
               { "origin_mode", FL_ATTR_BOOL, "false" } },
    .flags = FL_OP_SLICED,
    .infer = gru_unit_infer,
    .run = gru_run,
    .back = gru_back,
    .back_uses = FL_USES_IN(H0) | FL_USES_IN(WEIGHT) | FL_USES_OUT(GATE) |
                 FL_USES_OUT(RESET),
    .back_infer = gru_back_infer,
    .cases = gru_unit_cases,
    .n_cases = FL_LEN(gru_unit_cases),
};
