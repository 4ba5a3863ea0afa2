/* lstm.c - long short-term memory over ragged rows, with a projection or
 * without.
 *
 *     z = x + p W + b             p: Hidden of the row before, W [P, 4D]
 *     a = cand(z_a)               the columns of z: candidate, input, forget,
 *     i = gate(z_i + wi s)        output; s: Cell of the row before;
 *     f = gate(z_f + wf s)        wi, wf, wo: peepholes, behind b in Bias
 *     c = a i + s f               cell_clip bounds it
 *     o = gate(z_o + wo c)
 *     h = o act(c)                lstm: Hidden, and P = D
 *     r = proj(h Wp)              lstmp: Projection, bounded by proj_clip
 *
 * Rows of one time are computed side by side (time_steps.h). Back walks from
 * the last time to the first; the gradients of the weights are sums over blocks
 * of sequences (partials.h).
 */
#include "kernel/gemm.h"
#include "ops/helpers.h"
#include "ops/kit.h"
#include "ops/partials.h"
#include "ops/sequences.h"
#include "ops/time_steps.h"

enum { INPUT, H0, C0, WEIGHT, BIAS, PROJ_WEIGHT };
enum { HIDDEN, CELL, GATE, ACTED, BATCH_HIDDEN };
enum {
    USE_PEEPHOLES,
    IS_REVERSE,
    GATE_ACTIVATION,
    CELL_ACTIVATION,
    CANDIDATE_ACTIVATION,
    PROJ_ACTIVATION,
    CELL_CLIP,
    PROJ_CLIP,
};

static bool projects(const fl_op_node *n)
{
    return fl_op_n_in(n->def) > PROJ_WEIGHT;
}

typedef struct lstm_job {
    fl_act gate_act, cell_act, cand_act, proj_act;
    double cell_clip, proj_clip; /* 0: none */
    bool peeps, projects;
    size_t d, p; /* columns of Cell, of what is handed on */
    fl_steps steps;
} lstm_job;

/* Tensors by their place in memory: x, out and cell have the rows of Input,
   h0 and c0 the sequences, the others are in batch order. */
typedef struct lstm_data {
    const void *x, *h0, *c0, *w, *bias, *wp;
    void *out, *cell, *gate, *acted, *hidden;
} lstm_data;

/* --- products ------------------------------------------------------------- */

static fl_gemm_shape product(fl_trans ta, fl_trans tb, size_t m, size_t n,
                             size_t k)
{
    return (fl_gemm_shape){ .ta = ta,
                            .tb = tb,
                            .m = (int64_t)m,
                            .n = (int64_t)n,
                            .k = (int64_t)k,
                            .lda = (int64_t)(ta == FL_TRANS ? m : k),
                            .ldb = (int64_t)(tb == FL_TRANS ? k : n),
                            .ldc = (int64_t)n };
}

/* --- forward -------------------------------------------------------------- */

/* The rows of one block at one time. What is handed on lies in prev and state:
   those of the time before while it runs, its own behind it. */
#define STEP_TYPES(T, t)                                                       \
    typedef struct rows_##t {                                                  \
        size_t n;                                                              \
        T *prev, *state;                                                       \
        T *gate, *acted, *hidden;                                              \
    } rows_##t;
FL_FLOATS(STEP_TYPES)

#define FORWARD(T, t)                                                          \
    /* The rows of `from`, which has one for each sequence, or zeros. */       \
    static void first_rows_##t(const fl_steps *s, const T *from, size_t b,     \
                               size_t cols, T *to)                             \
    {                                                                          \
        size_t n = fl_steps_rows_at(s, b, 0);                                  \
                                                                               \
        if (!from)                                                             \
            memset(to, 0, n *cols * sizeof(T));                                \
        for (size_t i = 0; from && i < n; i++)                                 \
            memcpy(to + i * cols,                                              \
                   from + (size_t)s->seq[b * FL_STEPS_BLOCK + i] * cols,       \
                   cols * sizeof(T));                                          \
    }                                                                          \
    /* to = the rows of block b at a time, of a tensor in rows of Input */     \
    static void load_rows_##t(const fl_steps *s, size_t b, size_t time,        \
                              const T *from, size_t cols, T *to)               \
    {                                                                          \
        for (size_t i = 0; i < fl_steps_rows_at(s, b, time); i++)              \
            memcpy(to + i * cols,                                              \
                   from +                                                      \
                       fl_steps_row(s, b * FL_STEPS_BLOCK + i, time) * cols,   \
                   cols * sizeof(T));                                          \
    }                                                                          \
    static void store_rows_##t(const fl_steps *s, size_t b, size_t time,       \
                               const T *from, size_t cols, T *to)              \
    {                                                                          \
        for (size_t i = 0; to && i < fl_steps_rows_at(s, b, time); i++)        \
            memcpy(to + fl_steps_row(s, b * FL_STEPS_BLOCK + i, time) * cols,  \
                   from + i * cols, cols * sizeof(T));                         \
    }                                                                          \
    static void bound_##t(T *x, double clip, size_t n)                         \
    {                                                                          \
        T most = (T)clip;                                                      \
                                                                               \
        for (size_t k = 0; clip > 0 && k < n; k++)                             \
            x[k] = x[k] > most ? most : x[k] < -most ? -most : x[k];           \
    }                                                                          \
    /* z of one gate += its peephole times the cell */                         \
    static void peep_##t(const lstm_job *j, const rows_##t *r, const T *bias,  \
                         size_t gate)                                          \
    {                                                                          \
        size_t d = j->d;                                                       \
        const T *w = bias + (3 + gate) * d;                                    \
                                                                               \
        for (size_t i = 0; j->peeps && i < r->n; i++)                          \
            for (size_t k = 0; k < d; k++)                                     \
                r->gate[i * 4 * d + gate * d + k] +=                           \
                    w[k] * r->state[i * d + k];                                \
    }                                                                          \
    static void cells_##t(const lstm_job *j, const rows_##t *r)                \
    {                                                                          \
        size_t d = j->d;                                                       \
                                                                               \
        for (size_t i = 0; i < r->n; i++) {                                    \
            const T *a = r->gate + i * 4 * d, *in = a + d, *f = in + d;        \
            T *s = r->state + i * d;                                           \
                                                                               \
            for (size_t k = 0; k < d; k++)                                     \
                s[k] = a[k] * in[k] + s[k] * f[k];                             \
        }                                                                      \
        bound_##t(r->state, j->cell_clip, r->n *d);                            \
    }                                                                          \
    static void gates_##t(const lstm_job *j, const rows_##t *r, const T *bias) \
    {                                                                          \
        size_t d = j->d;                                                       \
                                                                               \
        peep_##t(j, r, bias, 1);                                               \
        peep_##t(j, r, bias, 2);                                               \
        fl_gate_act_##t(r->gate, bias, r->n, d, 4 * d, j->cand_act);           \
        fl_gate_act_##t(r->gate + d, bias + d, r->n, 2 * d, 4 * d,             \
                        j->gate_act);                                          \
        cells_##t(j, r);                                                       \
        peep_##t(j, r, bias, 3);                                               \
        fl_gate_act_##t(r->gate + 3 * d, bias + 3 * d, r->n, d, 4 * d,         \
                        j->gate_act);                                          \
        memcpy(r->acted, r->state, r->n *d * sizeof(T));                       \
        fl_gate_act_##t(r->acted, NULL, r->n, d, d, j->cell_act);              \
        for (size_t i = 0; i < r->n; i++)                                      \
            fl_vec_##t()->mul(r->hidden + i * d, r->gate + (4 * i + 3) * d,    \
                              r->acted + i * d, d);                            \
    }                                                                          \
    /* What is handed on of h. */                                              \
    static void hand_on_##t(const lstm_job *j, const rows_##t *r, const T *wp) \
    {                                                                          \
        fl_gemm_shape z = product(FL_NO_TRANS, FL_NO_TRANS, r->n, j->p, j->d); \
                                                                               \
        if (!j->projects) {                                                    \
            memcpy(r->prev, r->hidden, r->n * j->d * sizeof(T));               \
            return;                                                            \
        }                                                                      \
        fl_gemm_##t(&z, 1, r->hidden, wp, 0, r->prev);                         \
        fl_vec_##t()->bias_act(r->prev, NULL, r->n, j->p, j->p, j->proj_act);  \
        bound_##t(r->prev, j->proj_clip, r->n * j->p);                         \
    }                                                                          \
    static void forward_step_##t(const lstm_job *j, const lstm_data *m,        \
                                 size_t b, size_t time, rows_##t *r)           \
    {                                                                          \
        size_t d = j->d, at = fl_steps_batch_row(&j->steps, b, time);          \
        fl_gemm_shape z;                                                       \
                                                                               \
        r->n = fl_steps_rows_at(&j->steps, b, time);                           \
        r->gate = (T *)m->gate + at * 4 * d;                                   \
        r->acted = (T *)m->acted + at * d;                                     \
        r->hidden = (T *)m->hidden + at * d;                                   \
        load_rows_##t(&j->steps, b, time, m->x, 4 * d, r->gate);               \
        z = product(FL_NO_TRANS, FL_NO_TRANS, r->n, 4 * d, j->p);              \
        fl_gemm_##t(&z, 1, r->prev, m->w, 1, r->gate);                         \
        gates_##t(j, r, m->bias);                                              \
        hand_on_##t(j, r, m->wp);                                              \
        store_rows_##t(&j->steps, b, time, r->prev, j->p, m->out);             \
        store_rows_##t(&j->steps, b, time, r->state, d, m->cell);              \
    }                                                                          \
    static void forward_##t(const lstm_job *j, const lstm_data *m, size_t b,   \
                            void *buffer)                                      \
    {                                                                          \
        rows_##t r = { .prev = buffer,                                         \
                       .state = (T *)buffer + FL_STEPS_BLOCK * j->p };         \
                                                                               \
        first_rows_##t(&j->steps, m->h0, b, j->p, r.prev);                     \
        first_rows_##t(&j->steps, m->c0, b, j->d, r.state);                    \
        for (size_t time = 0; fl_steps_rows_at(&j->steps, b, time); time++)    \
            forward_step_##t(j, m, b, time, &r);                               \
    }
FL_FLOATS(FORWARD)

/* --- backward ------------------------------------------------------------- */

/* Gradients that came and that are wanted; any may be NULL. */
typedef struct lstm_grads {
    const void *dout, *dcell;
    void *dx, *dh0, *dc0;
    void *parts; /* of dWeight, dBias, dProjWeight, by block */
} lstm_grads;

static size_t part_len(size_t d, size_t p)
{
    return 4 * d * p + 7 * d + d * p;
}

/* Room for one block at one time. */
#define BACK_TYPES(T, t)                                                       \
    typedef struct back_##t {                                                  \
        T *prev, *state, *cell, *out; /* of before, of now */                  \
        T *dr, *dh, *dc;              /* of what is handed on, h, c */         \
        T *dz;                                                                 \
        T *dw, *db, *dwp; /* where sums go; NULL: nobody wants them */         \
    } back_##t;
FL_FLOATS(BACK_TYPES)

/* Numbers behind the pointers of back. */
static size_t back_len(const lstm_job *j)
{
    return FL_STEPS_BLOCK * (3 * j->p + 8 * j->d);
}

#define BACKWARD(T, t)                                                         \
    static back_##t back_of_##t(const lstm_job *j, T *buffer, T *part)         \
    {                                                                          \
        size_t wide = FL_STEPS_BLOCK * j->p, deep = FL_STEPS_BLOCK * j->d;     \
        back_##t k = { .prev = buffer };                                       \
                                                                               \
        k.out = k.prev + wide;                                                 \
        k.dr = k.out + wide;                                                   \
        k.state = k.dr + wide;                                                 \
        k.cell = k.state + deep;                                               \
        k.dh = k.cell + deep;                                                  \
        k.dc = k.dh + deep;                                                    \
        k.dz = k.dc + deep;                                                    \
        k.dw = part;                                                           \
        k.db = part ? part + 4 * j->d * j->p : NULL;                           \
        k.dwp = part ? k.db + 7 * j->d : NULL;                                 \
        return k;                                                              \
    }                                                                          \
    /* Adds what came for this time; sequences that end here begin with it. */ \
    static void take_##t(const fl_steps *s, size_t b, size_t time,             \
                         const T *came, size_t cols, T *to)                    \
    {                                                                          \
        size_t old = fl_steps_rows_at(s, b, time + 1);                         \
        size_t n = fl_steps_rows_at(s, b, time);                               \
                                                                               \
        memset(to + old * cols, 0, (n - old) * cols * sizeof(T));              \
        for (size_t i = 0; came && i < n; i++)                                 \
            fl_vec_##t()->add(                                                 \
                to + i * cols, to + i * cols,                                  \
                came + fl_steps_row(s, b * FL_STEPS_BLOCK + i, time) * cols,   \
                cols);                                                         \
    }                                                                          \
    static void still_##t(T *dx, const T *x, double clip, size_t n)            \
    {                                                                          \
        for (size_t k = 0; clip > 0 && k < n; k++)                             \
            if (x[k] >= (T)clip || x[k] <= -(T)clip)                           \
                dx[k] = 0;                                                     \
    }                                                                          \
    static void unproject_##t(const lstm_job *j, const back_##t *k, size_t n,  \
                              const T *wp, const T *hidden)                    \
    {                                                                          \
        fl_gemm_shape dh = product(FL_NO_TRANS, FL_TRANS, n, j->d, j->p);      \
        fl_gemm_shape dw = product(FL_TRANS, FL_NO_TRANS, j->d, j->p, n);      \
                                                                               \
        if (!j->projects) {                                                    \
            memcpy(k->dh, k->dr, n * j->d * sizeof(T));                        \
            return;                                                            \
        }                                                                      \
        still_##t(k->dr, k->out, j->proj_clip, n * j->p);                      \
        fl_vec_##t()->act_grad(k->dr, k->dr, k->out, n * j->p, j->proj_act);   \
        if (k->dwp)                                                            \
            fl_gemm_##t(&dw, 1, hidden, k->dr, 1, k->dwp);                     \
        fl_gemm_##t(&dh, 1, k->dr, wp, 0, k->dh);                              \
    }                                                                          \
    /* Of one row: from dh and dc to dz, and dc of the time before. */         \
    static void back_row_##t(const lstm_job *j, const T *gate, const T *acted, \
                             const back_##t *at, const T *bias)                \
    {                                                                          \
        size_t d = j->d;                                                       \
        const T *a = gate, *in = a + d, *f = in + d, *o = f + d;               \
        const T *wi = bias + 4 * d, *wf = wi + d, *wo = wf + d;                \
        T *da = at->dz, *di = da + d, *df = di + d, *dz = df + d,              \
          *dc = at->dc;                                                        \
        const fl_vec_##t##_table *v = fl_vec_##t();                            \
                                                                               \
        v->mul(dz, at->dh, acted, d);                                          \
        v->act_grad(dz, dz, o, d, j->gate_act);                                \
        v->mul(at->dh, at->dh, o, d);                                          \
        v->act_grad(at->dh, at->dh, acted, d, j->cell_act);                    \
        v->add(dc, dc, at->dh, d);                                             \
        for (size_t k = 0; j->peeps && k < d; k++)                             \
            dc[k] += dz[k] * wo[k];                                            \
        still_##t(dc, at->cell, j->cell_clip, d);                              \
        v->mul(da, dc, in, d);                                                 \
        v->act_grad(da, da, a, d, j->cand_act);                                \
        v->mul(di, dc, a, d);                                                  \
        v->mul(df, dc, at->state, d);                                          \
        v->act_grad(di, di, in, 2 * d, j->gate_act);                           \
        v->mul(dc, dc, f, d);                                                  \
        for (size_t k = 0; j->peeps && k < d; k++)                             \
            dc[k] += di[k] * wi[k] + df[k] * wf[k];                            \
    }                                                                          \
    static void add_bias_##t(const lstm_job *j, const back_##t *at, T *db)     \
    {                                                                          \
        size_t d = j->d;                                                       \
        const T *dz = at->dz;                                                  \
                                                                               \
        fl_vec_##t()->add(db, db, dz, 4 * d);                                  \
        for (size_t k = 0; j->peeps && k < d; k++) {                           \
            db[4 * d + k] += dz[d + k] * at->state[k];                         \
            db[5 * d + k] += dz[2 * d + k] * at->state[k];                     \
            db[6 * d + k] += dz[3 * d + k] * at->cell[k];                      \
        }                                                                      \
    }                                                                          \
    static void back_rows_##t(const lstm_job *j, const lstm_data *m,           \
                              const back_##t *k, size_t first, size_t n)       \
    {                                                                          \
        size_t d = j->d;                                                       \
                                                                               \
        for (size_t i = 0; i < n; i++) {                                       \
            back_##t at = { .state = k->state + i * d,                         \
                            .cell = k->cell + i * d,                           \
                            .dh = k->dh + i * d,                               \
                            .dc = k->dc + i * d,                               \
                            .dz = k->dz + i * 4 * d };                         \
                                                                               \
            back_row_##t(j, (T *)m->gate + (first + i) * 4 * d,                \
                         (T *)m->acted + (first + i) * d, &at, m->bias);       \
            if (k->db)                                                         \
                add_bias_##t(j, &at, k->db);                                   \
        }                                                                      \
    }                                                                          \
    /* What a time finds: of itself, and of the time before. */                \
    static void load_time_##t(const lstm_job *j, const lstm_data *m, size_t b, \
                              size_t time, const back_##t *k)                  \
    {                                                                          \
        const fl_steps *s = &j->steps;                                         \
        size_t n = fl_steps_rows_at(s, b, time);                               \
                                                                               \
        load_rows_##t(s, b, time, m->cell, j->d, k->cell);                     \
        if (j->projects)                                                       \
            load_rows_##t(s, b, time, m->out, j->p, k->out);                   \
        if (!time) {                                                           \
            first_rows_##t(s, m->h0, b, j->p, k->prev);                        \
            first_rows_##t(s, m->c0, b, j->d, k->state);                       \
        }                                                                      \
        for (size_t i = 0; time && i < n; i++) {                               \
            size_t row = fl_steps_row(s, b * FL_STEPS_BLOCK + i, time - 1);    \
                                                                               \
            memcpy(k->prev + i * j->p, (const T *)m->out + row * j->p,         \
                   j->p * sizeof(T));                                          \
            memcpy(k->state + i * j->d, (const T *)m->cell + row * j->d,       \
                   j->d * sizeof(T));                                          \
        }                                                                      \
    }                                                                          \
    static void backward_step_##t(const lstm_job *j, const lstm_data *m,       \
                                  const lstm_grads *g, size_t b, size_t time,  \
                                  const back_##t *k)                           \
    {                                                                          \
        size_t n = fl_steps_rows_at(&j->steps, b, time);                       \
        size_t first = fl_steps_batch_row(&j->steps, b, time), d = j->d;       \
        fl_gemm_shape dr = product(FL_NO_TRANS, FL_TRANS, n, j->p, 4 * d);     \
        fl_gemm_shape dw = product(FL_TRANS, FL_NO_TRANS, j->p, 4 * d, n);     \
                                                                               \
        load_time_##t(j, m, b, time, k);                                       \
        take_##t(&j->steps, b, time, g->dout, j->p, k->dr);                    \
        take_##t(&j->steps, b, time, g->dcell, d, k->dc);                      \
        unproject_##t(j, k, n, m->wp,                                          \
                      m->hidden ? (T *)m->hidden + first *d : NULL);           \
        back_rows_##t(j, m, k, first, n);                                      \
        store_rows_##t(&j->steps, b, time, k->dz, 4 * d, g->dx);               \
        if (k->dw)                                                             \
            fl_gemm_##t(&dw, 1, k->prev, k->dz, 1, k->dw);                     \
        fl_gemm_##t(&dr, 1, k->dz, m->w, 0, k->dr);                            \
    }                                                                          \
    static void give_first_##t(const fl_steps *s, size_t b, const T *from,     \
                               size_t cols, T *to)                             \
    {                                                                          \
        for (size_t i = 0; to && i < fl_steps_rows_at(s, b, 0); i++)           \
            memcpy(to + (size_t)s->seq[b * FL_STEPS_BLOCK + i] * cols,         \
                   from + i * cols, cols * sizeof(T));                         \
    }                                                                          \
    static void backward_##t(const lstm_job *j, const lstm_data *m,            \
                             const lstm_grads *g, size_t b, void *buffer)      \
    {                                                                          \
        size_t len = part_len(j->d, j->p), time = 0;                           \
        T *part = g->parts ? (T *)g->parts + b * len : NULL;                   \
        back_##t k = back_of_##t(j, buffer, part);                             \
                                                                               \
        if (part)                                                              \
            memset(part, 0, len * sizeof(T));                                  \
        while (fl_steps_rows_at(&j->steps, b, time))                           \
            time++;                                                            \
        while (time-- > 0)                                                     \
            backward_step_##t(j, m, g, b, time, &k);                           \
        give_first_##t(&j->steps, b, k.dr, j->p, g->dh0);                      \
        give_first_##t(&j->steps, b, k.dc, j->d, g->dc0);                      \
    }
FL_FLOATS(BACKWARD)

/* --- settings ------------------------------------------------------------- */

static fl_status check_first(const fl_infer *c, int64_t d, int64_t p)
{
    const fl_tensor *x = fl_infer_in(c, INPUT);
    int64_t n = c->running ? x->lod_len[0] - 1 : -1;

    if (!fl_infer_in(c, H0) != !fl_infer_in(c, C0))
        FL_FAIL(FL_ERR_INVAL, "op %s: H0 and C0 are given both or not at all",
                c->node->def->name);
    FL_TRY(fl_infer_matrix(c, H0, INPUT, n, p));
    return fl_infer_matrix(c, C0, INPUT, n, d);
}

static fl_status check_acts(const fl_infer *c)
{
    int last = projects(c->node) ? PROJ_ACTIVATION : CANDIDATE_ACTIVATION;

    for (int attr = GATE_ACTIVATION; attr <= last; attr++)
        FL_TRY(fl_infer_act(c, attr));
    return FL_OK;
}

/* Weight [P, 4D] says how wide everything is. */
static fl_status check_inputs(const fl_infer *c)
{
    const fl_shape *w = &fl_infer_in(c, WEIGHT)->shape;
    int64_t p = w->dim[0], d = w->rank == 2 ? w->dim[1] / 4 : 0;
    bool fits = w->rank == 2 && d >= 1 && p >= 1 && w->dim[1] == 4 * d;
    char buf[FL_SLOT_TEXT_MAX];

    FL_TRY(fl_infer_float(c, INPUT));
    if (!fits || (!projects(c->node) && p != d))
        FL_FAIL(FL_ERR_INVAL, "op %s: %s must be [%s,4D]", c->node->def->name,
                fl_infer_text(c, WEIGHT, buf), projects(c->node) ? "P" : "D");
    FL_TRY(fl_infer_matrix(c, INPUT, INPUT, -1, 4 * d));
    FL_TRY(fl_infer_matrix(c, WEIGHT, INPUT, p, 4 * d));
    FL_TRY(fl_infer_matrix(c, BIAS, INPUT, 1,
                           (fl_bool(c, USE_PEEPHOLES) ? 7 : 4) * d));
    if (projects(c->node))
        FL_TRY(fl_infer_matrix(c, PROJ_WEIGHT, INPUT, d, p));
    FL_TRY(check_first(c, d, p));
    return check_acts(c);
}

static fl_status lstm_infer(fl_infer *c)
{
    const fl_tensor *x = fl_infer_in(c, INPUT);
    const fl_shape *w = &fl_infer_in(c, WEIGHT)->shape;
    int64_t n = x->shape.dim[0], d = w->dim[1] / 4;
    int64_t cols[] = { [HIDDEN] = w->dim[0], [CELL] = d };

    FL_TRY(fl_infer_one_level(c, INPUT));
    FL_TRY(check_inputs(c));
    for (int slot = HIDDEN; slot <= CELL; slot++) {
        fl_tensor *out = fl_infer_out(c, slot);

        if (!out)
            continue;
        fl_tensor_like(out, x);
        out->shape.dim[1] = cols[slot];
    }
    fl_infer_dense(c, GATE, x->dtype, 2, (int64_t[]){ n, 4 * d });
    fl_infer_dense(c, ACTED, x->dtype, 2, (int64_t[]){ n, d });
    if (projects(c->node))
        fl_infer_dense(c, BATCH_HIDDEN, x->dtype, 2, (int64_t[]){ n, d });
    return FL_OK;
}

static fl_status job_of(fl_op_ctx *c, lstm_job *j)
{
    const fl_tensor *x = fl_in_t(c, INPUT);
    const fl_shape *w = &fl_in_t(c, WEIGHT)->shape;

    *j = (lstm_job){
        .gate_act = fl_act_of(c->node, GATE_ACTIVATION),
        .cell_act = fl_act_of(c->node, CELL_ACTIVATION),
        .cand_act = fl_act_of(c->node, CANDIDATE_ACTIVATION),
        .peeps = fl_bool(c, USE_PEEPHOLES),
        .projects = projects(c->node),
        .d = (size_t)w->dim[1] / 4,
        .p = (size_t)w->dim[0],
        .steps.reverse = fl_bool(c, IS_REVERSE),
        .steps.n_seq = (size_t)(x->lod_len[0] - 1),
        .steps.off = x->lod[0],
    };
    if (j->projects) {
        j->proj_act = fl_act_of(c->node, PROJ_ACTIVATION);
        j->cell_clip = fl_float(c, CELL_CLIP);
        j->proj_clip = fl_float(c, PROJ_CLIP);
    }
    return fl_steps_sort(c, &j->steps);
}

/* --- running -------------------------------------------------------------- */

/* An output, or work space in its stead where it is left out. */
static fl_status out_or_scratch(fl_op_ctx *c, bool is_given, int slot,
                                size_t cols, void **out)
{
    const fl_tensor *x = fl_in_t(c, INPUT);
    size_t bytes = (size_t)x->shape.dim[0] * cols * fl_dtype_bytes(x->dtype);

    if (is_given && fl_out_t(c, slot)) {
        *out = fl_out(c, slot);
        return FL_OK;
    }
    *out = fl_scratch(c, bytes);
    return *out ? FL_OK : FL_NOMEM(c);
}

static lstm_data data_of(const fl_op_ctx *c)
{
    return (lstm_data){ .x = fl_in(c, INPUT),
                        .h0 = fl_in(c, H0),
                        .c0 = fl_in(c, C0),
                        .w = fl_in(c, WEIGHT),
                        .bias = fl_in(c, BIAS),
                        .wp =
                            projects(c->node) ? fl_in(c, PROJ_WEIGHT) : NULL };
}

static fl_status lstm_run(fl_op_ctx *c)
{
    lstm_data m = data_of(c);
    lstm_job j;
    void *buffer;

    FL_TRY(job_of(c, &j));
    m.out = fl_out(c, HIDDEN);
    m.cell = fl_out(c, CELL);
    FL_TRY(out_or_scratch(c, true, GATE, 4 * j.d, &m.gate));
    FL_TRY(out_or_scratch(c, true, ACTED, j.d, &m.acted));
    FL_TRY(out_or_scratch(c, j.projects, BATCH_HIDDEN, j.d, &m.hidden));
    buffer = fl_scratch(c, FL_STEPS_BLOCK * (j.p + j.d) *
                               fl_dtype_bytes(FL_DTYPE_F64));
    if (!buffer)
        return FL_NOMEM(c);
    for (size_t b = (size_t)c->ith;
         b < fl_steps_blocks(fl_steps_alive(&j.steps, 0)); b += (size_t)c->nth)
        FL_BY_FLOAT(c, INPUT, forward, &j, &m, b, buffer);
    return FL_OK;
}

static bool is_wanted(const fl_op_node *n, const fl_targs *out, int slot)
{
    return slot < fl_op_n_in(n->def) && out[slot].n && out[slot].t[0];
}

static bool wants_sums(const fl_op_node *n, const fl_targs *out)
{
    return is_wanted(n, out, WEIGHT) || is_wanted(n, out, BIAS) ||
           is_wanted(n, out, PROJ_WEIGHT);
}

static fl_status lstm_back_infer(fl_infer *c)
{
    const fl_tensor *x = fl_infer_in(c, INPUT);
    const fl_shape *w = &fl_infer_in(c, WEIGHT)->shape;
    int last = projects(c->node) ? BATCH_HIDDEN : ACTED;

    for (int slot = CELL; slot <= last; slot++)
        FL_TRY(fl_back_needs(c, slot));
    if (!c->running || !wants_sums(c->node, c->out))
        return FL_OK;
    return fl_partials_infer(
        c, x->dtype, fl_steps_blocks((size_t)(x->lod_len[0] - 1)),
        part_len((size_t)w->dim[1] / 4, (size_t)w->dim[0]));
}

/* No row says anything of the first values of empty sequences. */
static void clear_empty(const fl_steps *s, const fl_tensor *to)
{
    size_t row = to ? fl_row_bytes(to) : 0;

    for (size_t k = fl_steps_alive(s, 0); to && k < s->n_seq; k++)
        memset((char *)to->data + (size_t)s->seq[k] * row, 0, row);
}

static void add_parts(const fl_op_ctx *c, const lstm_job *j)
{
    size_t n = fl_steps_blocks(fl_steps_alive(&j->steps, 0));
    size_t len = part_len(j->d, j->p), wide = 4 * j->d * j->p;
    fl_partial_use use[] = { { fl_din_t(c, WEIGHT), 0 },
                             { fl_din_t(c, BIAS), wide },
                             { j->projects ? fl_din_t(c, PROJ_WEIGHT) : NULL,
                               wide + 7 * j->d } };

    for (size_t i = 0; i < FL_LEN(use); i++)
        FL_BY_FLOAT(c, INPUT, fl_partials_sum, fl_op_workspace(c), n, len,
                    &use[i]);
}

static fl_status no_gradient(const fl_op_ctx *c)
{
    for (int slot = INPUT; slot < fl_op_n_in(c->node->def); slot++)
        fl_din_zero(c, slot);
    return FL_OK;
}

static void finish(const fl_op_ctx *c, const lstm_job *j)
{
    if (!c->ith) {
        clear_empty(&j->steps, fl_din_t(c, H0));
        clear_empty(&j->steps, fl_din_t(c, C0));
    }
    if (wants_sums(c->node, c->out) && fl_op_is_last(c))
        add_parts(c, j);
}

static fl_status lstm_back(fl_op_ctx *c)
{
    lstm_data m = data_of(c);
    lstm_grads g = { .dout = fl_dout(c, HIDDEN),
                     .dcell = fl_dout(c, CELL),
                     .dx = fl_din(c, INPUT),
                     .dh0 = fl_din(c, H0),
                     .dc0 = fl_din(c, C0),
                     .parts = wants_sums(c->node, c->out) ? fl_op_workspace(c)
                                                          : NULL };
    lstm_job j;
    void *buffer;

    if (!fl_dout_t(c, HIDDEN) && !fl_dout_t(c, CELL))
        return no_gradient(c);
    FL_TRY(job_of(c, &j));
    m.out = (void *)fl_saved_out(c, HIDDEN);
    m.cell = (void *)fl_saved_out(c, CELL);
    m.gate = (void *)fl_saved_out(c, GATE);
    m.acted = (void *)fl_saved_out(c, ACTED);
    m.hidden = j.projects ? (void *)fl_saved_out(c, BATCH_HIDDEN) : NULL;
    buffer = fl_scratch(c, back_len(&j) * fl_dtype_bytes(FL_DTYPE_F64));
    if (!buffer)
        return FL_NOMEM(c);
    for (size_t b = (size_t)c->ith;
         b < fl_steps_blocks(fl_steps_alive(&j.steps, 0)); b += (size_t)c->nth)
        FL_BY_FLOAT(c, INPUT, backward, &j, &m, &g, b, buffer);
    finish(c, &j);
    return FL_OK;
}

/* --- the operators -------------------------------------------------------- */

/* Several blocks of sequences. */
static const char many_rows[] =
    "f32[80,4] lod=[0,1,2,3,4,5,6,7,8,9,10,11,12,13,14,15,16,17,18,19,20,21,"
    "22,23,24,25,26,27,28,29,30,31,32,33,34,35,36,37,38,39,40,41,42,43,44,45,"
    "46,47,48,49,50,51,52,53,54,55,56,57,58,59,60,61,62,63,64,65,66,67,68,69,"
    "70,80]";

static const fl_op_case lstm_cases[] = {
    { .in = { "f32[10,12] lod=[0,3,4,8,10]", "", "", "f32[3,12]",
              "f32[1,21]" } },
    { .in = { "f32[10,12] lod=[0,3,4,8,10]", "f32[4,3]", "f32[4,3]",
              "f32[3,12]", "f32[1,21]" } },
    { .in = { "f32[6,12] lod=[0,2,2,5,5,6]", "f32[5,3]", "f32[5,3]",
              "f32[3,12]", "f32[1,12]" },
      .attrs = "{use_peepholes=false, is_reverse=true}" },
    { .in = { "f32[4,8] lod=[0,1,4]", "", "", "f32[2,8]", "f32[1,14]" },
      .attrs = "{gate_activation=tanh, cell_activation=identity, "
               "candidate_activation=sigmoid}" },
    { .in = { "f32[1,4] lod=[0,1]", "", "", "f32[1,4]", "f32[1,4]" },
      .attrs = "{use_peepholes=false, candidate_activation=relu}" },
    { .in = { "f32[0,12] lod=[0,0,0]", "f32[2,3]", "f32[2,3]", "f32[3,12]",
              "f32[1,21]" } },
    { .in = { many_rows, "", "", "f32[1,4]", "f32[1,7]" } },
};

#define LSTM_USES                                                              \
    (FL_USES_IN(H0) | FL_USES_IN(C0) | FL_USES_IN(WEIGHT) | FL_USES_IN(BIAS) | \
     FL_USES_OUT(HIDDEN) | FL_USES_OUT(CELL) | FL_USES_OUT(GATE) |             \
     FL_USES_OUT(ACTED))

#define LSTM_IN                                                                \
    { "Input", 0 }, { "H0", FL_OP_SLOT_OPTIONAL },                             \
        { "C0", FL_OP_SLOT_OPTIONAL }, { "Weight", 0 },                        \
    {                                                                          \
        "Bias", 0                                                              \
    }

#define LSTM_ATTRS                                                             \
    { "use_peepholes", FL_ATTR_BOOL, "true" },                                 \
        { "is_reverse", FL_ATTR_BOOL, "false" },                               \
        { "gate_activation", FL_ATTR_STRING, "sigmoid" },                      \
        { "cell_activation", FL_ATTR_STRING, "tanh" },                         \
    {                                                                          \
        "candidate_activation", FL_ATTR_STRING, "tanh"                         \
    }

const fl_op fl_op_lstm = {
    .name = "lstm",
    .doc = "Hidden and Cell = long short-term memory over the rows of each "
           "sequence: with z = Input + p Weight + Bias[0:4D], p the row of "
           "Hidden before, s that of Cell (H0 and C0 at first, or 0): a = "
           "candidate_activation(z[0:D]), i and f = "
           "gate_activation(z[D:2D] + wi s), (z[2D:3D] + wf s), Cell = a i + "
           "s f, o = gate_activation(z[3D:4D] + wo Cell), Hidden = o "
           "cell_activation(Cell); wi, wf, wo are Bias[4D:7D] with "
           "use_peepholes, else 0; is_reverse: from the last row to the "
           "first; the Batch outputs are sorted by time",
    .in = { LSTM_IN },
    .out = { { "Hidden", 0 },
             { "Cell", FL_OP_SLOT_BYPRODUCT },
             { "BatchGate", FL_OP_SLOT_BYPRODUCT },
             { "BatchCellPreAct", FL_OP_SLOT_BYPRODUCT } },
    .attrs = { LSTM_ATTRS },
    .flags = FL_OP_SLICED,
    .infer = lstm_infer,
    .run = lstm_run,
    .back = lstm_back,
    .back_uses = LSTM_USES,
    .back_infer = lstm_back_infer,
    .cases = lstm_cases,
    .n_cases = FL_LEN(lstm_cases),
};

static const fl_op_case lstmp_cases[] = {
    { .in = { "f32[10,12] lod=[0,3,4,8,10]", "", "", "f32[2,12]", "f32[1,21]",
              "f32[3,2]" } },
    { .in = { "f32[6,12] lod=[0,2,2,5,5,6]", "f32[5,4]", "f32[5,3]",
              "f32[4,12]", "f32[1,12]", "f32[3,4]" },
      .attrs = "{use_peepholes=false, is_reverse=true, "
               "proj_activation=identity}" },
    { .in = { "f32[10,12] lod=[0,3,4,8,10]", "f32[4,2]", "f32[4,3]",
              "f32[2,12]", "f32[1,21]", "f32[3,2]" },
      .attrs = "{cell_clip=0.4, proj_clip=0.3, proj_activation=sigmoid}" },
    { .in = { "f32[0,12] lod=[0,0]", "", "", "f32[2,12]", "f32[1,21]",
              "f32[3,2]" } },
    { .in = { many_rows, "", "", "f32[2,4]", "f32[1,7]", "f32[1,2]" } },
};

const fl_op fl_op_lstmp = {
    .name = "lstmp",
    .doc = "lstm with a projection: Projection = proj_activation(h "
           "ProjWeight), bounded by proj_clip, where h is lstm's Hidden; p is "
           "the row of Projection before, Weight is [P,4D], and cell_clip "
           "bounds Cell; 0 bounds nothing. BatchHidden is h, sorted by time",
    .in = { LSTM_IN, { "ProjWeight", 0 } },
    .out = { { "Projection", 0 },
             { "Cell", FL_OP_SLOT_BYPRODUCT },
             { "BatchGate", FL_OP_SLOT_BYPRODUCT },
             { "BatchCellPreAct", FL_OP_SLOT_BYPRODUCT },
             { "BatchHidden", FL_OP_SLOT_BYPRODUCT } },
    .attrs = { LSTM_ATTRS,
               { "proj_activation", FL_ATTR_STRING, "tanh" },
               { "cell_clip", FL_ATTR_FLOAT, "0" },
               { "proj_clip", FL_ATTR_FLOAT, "0" } },
    .flags = FL_OP_SLICED,
    .infer = lstm_infer,
    .run = lstm_run,
    .back = lstm_back,
    .back_uses =
        LSTM_USES | FL_USES_IN(PROJ_WEIGHT) | FL_USES_OUT(BATCH_HIDDEN),
    .back_infer = lstm_back_infer,
    .cases = lstmp_cases,
    .n_cases = FL_LEN(lstmp_cases),
};
