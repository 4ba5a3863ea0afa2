/* places.c - which temporaries may share memory.
 *
 * Walks the steps in order. A place is free for step j when every step that
 * touched its last tenant is done before j in any schedule. Of the free places
 * that are large enough the smallest is taken, else the largest is grown.
 *
 * An operator that allows it writes its first output where its first input
 * lay (gradients: the first input's gradient where the first output's gradient
 * lay, or the first output itself), when nobody reads that input afterwards.
 */
#include "exec/plan.h"

typedef struct place {
    size_t bytes;
    int tenant; /* variable that lies here now */
} place;

typedef FL_VEC(int) int_vec;

typedef struct chooser {
    fl_plan *plan;
    const uint64_t *before;
    size_t words;
    int64_t nominal;
    place *places;
    int_vec *users; /* steps that touch each variable's data */
} chooser;

static size_t guess_bytes(const chooser *c, const fl_var *v)
{
    size_t n = fl_dtype_bytes(v->meta.dtype);

    for (int i = 0; i < v->meta.shape.rank; i++) {
        int64_t d = v->meta.shape.dim[i];

        n *= (size_t)(d < 0 ? c->nominal : d);
    }
    return n;
}

static bool is_before(const chooser *c, int i, int j)
{
    if (!c->before)
        return i < j;
    return c->before[(size_t)j * c->words + (size_t)i / 64] >> (i % 64) & 1;
}

/* Every step that touches variable v, except `besides`, is done before j. The
   last of them says so alone where steps run in order, and else is the one that
   is most likely not. */
static bool is_done(const chooser *c, int v, int j, int besides)
{
    const fl_plan_var *pv = &c->plan->vars[v];
    const int_vec *users = &c->users[v];

    if (pv->fetched)
        return false;
    for (size_t k = users->len; k-- > 0;) {
        if (users->data[k] == besides)
            continue;
        if (!is_before(c, users->data[k], j))
            return false;
        if (!c->before)
            return true;
    }
    return true;
}

static void find_users(chooser *c)
{
    fl_plan *p = c->plan;

    for (int j = 0; j < p->n_steps; j++) {
        const fl_plan_step *s = &p->steps[j];
        int at = 0;

        for (int slot = 0; slot < s->n_in; slot++)
            for (int i = 0; i < s->in_len[slot]; i++, at++)
                if (s->in[at] >= 0 && fl_node_reads(s->node, slot))
                    fl_vec_push(&c->users[s->in[at]], j);
        at = 0;
        for (int slot = 0; slot < s->n_out; slot++)
            for (int i = 0; i < s->out_len[slot]; i++, at++)
                if (s->out[at] >= 0)
                    fl_vec_push(&c->users[s->out[at]], j);
    }
}

/* The only input in that slot, or -1. */
static int only_input(const fl_plan_step *s, int slot)
{
    int at = 0;

    if (slot >= s->n_in || s->in_len[slot] != 1)
        return -1;
    for (int k = 0; k < slot; k++)
        at += s->in_len[k];
    return s->in[at];
}

/* The input whose memory output 0 may take: input 0, or in a gradient the
   gradient of output 0, or output 0. */
static int donor(const fl_plan_step *s)
{
    const fl_op *def = s->node->def;
    int n_in = fl_op_n_in(def), n_out = fl_op_n_out(def), from = -1;

    if (def->flags & FL_OP_INPLACE)
        from = only_input(s, s->node->is_grad ? n_in + n_out : 0);
    if (from < 0 && s->node->is_grad && (def->flags & FL_OP_OVER_OUT))
        from = only_input(s, n_in);
    return from;
}

static int count_uses(const fl_plan_step *s, int var)
{
    int n = 0, at = 0;

    for (int slot = 0; slot < s->n_in; slot++)
        for (int i = 0; i < s->in_len[slot]; i++, at++)
            n += s->in[at] == var && fl_node_reads(s->node, slot);
    return n;
}

/* Elements by the dimensions that are known before the run. */
static int64_t count_known(fl_shape s, int *n_unknown)
{
    *n_unknown = 0;
    for (int i = 0; i < s.rank; i++)
        if (s.dim[i] < 0) {
            s.dim[i] = 1;
            ++*n_unknown;
        }
    return fl_shape_numel(&s);
}

/* Where an input is repeated, the output has more elements than it. */
static bool same_count(const fl_var *a, const fl_var *b)
{
    int na, nb;

    return count_known(a->meta.shape, &na) == count_known(b->meta.shape, &nb) &&
           na == nb;
}

static bool take_over(chooser *c, int j, int out)
{
    const fl_plan_step *s = &c->plan->steps[j];
    fl_plan_var *to = &c->plan->vars[out];
    int from = donor(s);

    if (from < 0 || from == out || s->out[0] != out || s->out_len[0] != 1)
        return false;
    if (c->plan->vars[from].home != FL_HOME_PLACE ||
        c->plan->vars[from].place < 0 ||
        c->plan->vars[from].var->meta.kind == FL_KIND_ROWS ||
        to->var->meta.kind == FL_KIND_ROWS ||
        to->var->meta.dtype != c->plan->vars[from].var->meta.dtype ||
        !same_count(to->var, c->plan->vars[from].var) ||
        count_uses(s, from) != 1 || !is_done(c, from, j, j))
        return false;
    to->place = c->plan->vars[from].place;
    c->places[to->place].tenant = out;
    return true;
}

static int find_place(const chooser *c, int j, size_t bytes)
{
    int best = -1;

    for (int k = 0; k < c->plan->n_places; k++) {
        const place *p = &c->places[k];
        const place *b = best >= 0 ? &c->places[best] : NULL;
        bool fits = p->bytes >= bytes;

        if (!is_done(c, p->tenant, j, -1))
            continue;
        if (!b || (fits && (b->bytes < bytes || p->bytes < b->bytes)) ||
            (!fits && b->bytes < bytes && p->bytes > b->bytes))
            best = k;
    }
    return best;
}

static void settle(chooser *c, int j, int var)
{
    fl_plan_var *v = &c->plan->vars[var];
    size_t bytes = guess_bytes(c, v->var);
    int k;

    if (v->home != FL_HOME_PLACE || v->place >= 0 ||
        v->var->meta.kind == FL_KIND_ARRAY || take_over(c, j, var))
        return;
    k = find_place(c, j, bytes);
    if (k < 0) {
        k = c->plan->n_places++;
        c->places[k] = (place){ 0 };
    }
    if (bytes > c->places[k].bytes)
        c->places[k].bytes = bytes;
    c->places[k].tenant = var;
    v->place = k;
}

void fl_plan_places(fl_plan *p, const uint64_t *before, size_t words,
                    int64_t nominal_batch)
{
    size_t n = (size_t)p->n_vars + 1;
    chooser c = { p, before, words, nominal_batch, NULL, NULL };

    c.places = fl_alloc(sizeof(place) * n);
    c.users = fl_alloc(sizeof(*c.users) * n);
    find_users(&c);
    for (int j = 0; j < p->n_steps; j++) {
        const fl_plan_step *s = &p->steps[j];
        int n_out = 0;

        for (int slot = 0; slot < s->n_out; slot++)
            n_out += s->out_len[slot];
        for (int i = 0; i < n_out; i++)
            if (s->out[i] >= 0)
                settle(&c, j, s->out[i]);
    }
    for (size_t i = 0; i < n; i++)
        fl_vec_release(&c.users[i]);
    fl_free(c.users);
    fl_free(c.places);
}
