/* broadcast.c - how two shapes meet, and the walk over what they give. */
#include "ops/broadcast.h"

enum { X, Y };
enum { OUT };

/* `small` with as many dimensions as `big`, 1 in those that it lacks. Ones at
   its end need no place; shapes that are alike need no axis. */
static bool align(const fl_shape *small, const fl_shape *big, int64_t axis,
                  fl_shape *out)
{
    int64_t at = axis == -1 ? big->rank - small->rank : axis;
    int rank = small->rank;

    while (rank > 0 && small->dim[rank - 1] == 1)
        rank--;
    if (rank == 0 || fl_shape_matches(small, big))
        at = 0;
    if (at < 0 || at + rank > big->rank)
        return false;
    *out = (fl_shape){ .rank = big->rank };
    for (int i = 0; i < big->rank; i++)
        out->dim[i] = i >= at && i < at + rank ? small->dim[i - at] : 1;
    return true;
}

/* Both with the dimensions of Out. */
static bool align_both(const fl_shape *x, const fl_shape *y, int64_t axis,
                       fl_shape *to_x, fl_shape *to_y)
{
    *to_x = *x;
    *to_y = *y;
    return x->rank < y->rank ? align(x, y, axis, to_x)
                             : align(y, x, axis, to_y);
}

/* A dimension that is not known can turn out 1 or equal to the other. */
static bool meet(const fl_shape *x, const fl_shape *y, fl_shape *out)
{
    *out = *x;
    for (int i = 0; i < x->rank; i++) {
        int64_t a = x->dim[i], b = y->dim[i];

        if (a != 1 && b != 1 && a >= 0 && b >= 0 && a != b)
            return false;
        out->dim[i] = a == 1 || (a < 0 && b != 1) ? b : a;
    }
    return true;
}

/* Out was given X's place where both were not known, so X cannot be the one
   that is repeated. */
static fl_status check_unknown(const fl_infer *c, const fl_shape *x,
                               const fl_shape *out)
{
    const fl_shape *x_built, *out_built;
    char buf[FL_SLOT_TEXT_MAX];

    if (!c->running || c->node->is_grad) /* a gradient has other outputs */
        return FL_OK;
    x_built = &c->node->in[X].vars[0]->meta.shape;
    out_built = &c->node->out[OUT].vars[0]->meta.shape;
    for (int i = 0; x_built->rank == out->rank && i < out->rank; i++)
        if (x->dim[i] == 1 && out->dim[i] != 1 && x_built->dim[i] < 0 &&
            out_built->dim[i] < 0)
            FL_FAIL(FL_ERR_INVAL,
                    "op %s: %s has 1 in dimension %d, where Out has %lld; to "
                    "be repeated over it, X must be declared with 1",
                    c->node->def->name, fl_infer_text(c, X, buf), i,
                    (long long)out->dim[i]);
    return FL_OK;
}

fl_status fl_infer_meeting(fl_infer *c, int64_t axis, fl_dtype dtype)
{
    const fl_tensor *x = fl_infer_in(c, X), *y = fl_infer_in(c, Y);
    int full = x->shape.rank < y->shape.rank ? Y : X;
    fl_tensor *out = fl_infer_out(c, OUT);
    char tx[FL_SLOT_TEXT_MAX], ty[FL_SLOT_TEXT_MAX];
    fl_shape sx, sy, shape;

    FL_TRY(fl_infer_same_dtype(c, X, Y));
    if (!align_both(&x->shape, &y->shape, axis, &sx, &sy) ||
        !meet(&sx, &sy, &shape))
        FL_FAIL(FL_ERR_INVAL,
                "op %s: %s and %s do not fit at axis %d; dimensions are equal "
                "or 1",
                c->node->def->name, fl_infer_text(c, X, tx),
                fl_infer_text(c, Y, ty), (int)axis);
    FL_TRY(check_unknown(c, &sx, &shape));
    fl_tensor_like(out, full == X ? x : y);
    if (out->n_lod && out->shape.dim[0] >= 0 &&
        out->shape.dim[0] != shape.dim[0])
        FL_FAIL(FL_ERR_INVAL,
                "op %s: %s is ragged and cannot be repeated over %lld rows",
                c->node->def->name, fl_infer_text(c, full, tx),
                (long long)shape.dim[0]);
    out->shape = shape;
    out->dtype = dtype;
    return FL_OK;
}

/* Adds dimension i of Out to the innermost run that it belongs to. */
static void add_run(fl_meeting *m, int i, size_t step_x, size_t step_y)
{
    int last = m->n_runs - 1;
    size_t x = m->has_x[i] ? step_x : 0, y = m->has_y[i] ? step_y : 0;

    if (last >= 0 && !m->run[last].x == !x && !m->run[last].y == !y) {
        m->run[last].n *= (size_t)m->out.dim[i];
        return;
    }
    m->run[m->n_runs].n = (size_t)m->out.dim[i];
    m->run[m->n_runs].x = x;
    m->run[m->n_runs++].y = y;
}

fl_meeting fl_meeting_of(const fl_shape *x, const fl_shape *y, int64_t axis)
{
    fl_meeting m = { .form = FL_BINARY_BOTH };
    size_t step_x = 1, step_y = 1;
    fl_shape sx, sy;

    FL_ASSERT(align_both(x, y, axis, &sx, &sy) && meet(&sx, &sy, &m.out));
    for (int i = m.out.rank - 1; i >= 0; i--) {
        m.has_x[i] = sx.dim[i] == m.out.dim[i];
        m.has_y[i] = sy.dim[i] == m.out.dim[i];
        m.repeats_x |= !m.has_x[i];
        m.repeats_y |= !m.has_y[i];
        if (m.out.dim[i] != 1)
            add_run(&m, i, step_x, step_y);
        step_x *= (size_t)sx.dim[i];
        step_y *= (size_t)sy.dim[i];
    }
    if (m.n_runs == 0) {
        m.run[0].n = m.run[0].x = m.run[0].y = 1;
        m.n_runs = 1;
    }
    if (!m.run[0].y)
        m.form = FL_BINARY_ONE_Y;
    else if (!m.run[0].x)
        m.form = FL_BINARY_ONE_X;
    return m;
}

fl_meeting_rows fl_meeting_rows_of(const fl_meeting *m, fl_span s)
{
    fl_meeting_rows it = { .m = m, .out = s.lo, .hi = s.hi };
    size_t left = s.lo;

    for (int r = 0; s.lo < s.hi && r < m->n_runs; r++) {
        it.at[r] = left % m->run[r].n;
        left /= m->run[r].n;
        it.x += r ? it.at[r] * m->run[r].x : 0;
        it.y += r ? it.at[r] * m->run[r].y : 0;
    }
    return it;
}

/* Goes to the next row; steps are added, since rows may be short. */
static void advance(fl_meeting_rows *it)
{
    const fl_meeting *m = it->m;

    it->at[0] = 0;
    for (int r = 1; r < m->n_runs; r++) {
        it->x += m->run[r].x;
        it->y += m->run[r].y;
        if (++it->at[r] < m->run[r].n)
            return;
        it->x -= m->run[r].n * m->run[r].x;
        it->y -= m->run[r].n * m->run[r].y;
        it->at[r] = 0;
    }
}

bool fl_meeting_next(fl_meeting_rows *it, fl_meeting_row *row)
{
    const fl_meeting *m = it->m;
    size_t in_row = m->run[0].n - it->at[0], left = it->hi - it->out;

    if (!left)
        return false;
    *row = (fl_meeting_row){ .out = it->out,
                             .x = it->x + it->at[0] * m->run[0].x,
                             .y = it->y + it->at[0] * m->run[0].y,
                             .n = in_row < left ? in_row : left };
    it->out += row->n;
    advance(it);
    return true;
}
