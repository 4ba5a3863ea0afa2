/* trial.c - programs of one operator, and calls of them. */
#include "sweep/trial.h"

#include <string.h>

#include "base/team.h"
#include "ir/comm.h"
#include "sweep/case_text.h"
#include "ops/ops.h"

#define CHUNK_BYTES (4 << 10)
#define OUTPUTS_MAX 8 /* entries of an output list, when they are guessed */
#define SEED 7
#define STEP_NO 3

/* The table that cases of operators with tables name. */
#define TABLE_NAME "t"
#define TABLE_SETTINGS "dim=4"

/* --- the program ---------------------------------------------------------- */

/* Operators that stand in no list can be tried too. */
static const fl_op *under_test;

static const fl_op *find_op(const char *name)
{
    return !strcmp(under_test->name, name) ? under_test : fl_ops.find(name);
}

static const char *nearest_op(const char *name)
{
    return fl_ops.nearest(name);
}

static const fl_op_set op_set = { .find = find_op, .nearest = nearest_op };

/* A single number, [1], is no batch. */
static void add_dims(fl_str *s, const fl_tensor *t, bool unknown)
{
    fl_shape shape = t->shape;
    char buf[FL_SHAPE_TEXT_MAX];

    if (unknown && (shape.rank > 1 || (shape.rank == 1 && shape.dim[0] != 1)))
        shape.dim[0] = -1;
    fl_str_addf(s, "%s%s", fl_dtype_text(t->dtype), fl_shape_text(&shape, buf));
}

/* What stands for an attribute is no batch. */
static bool is_batch_slot(const fl_op *op, int slot)
{
    return slot == 0 && !(op->in[slot].flags & FL_OP_SLOT_VALUE);
}

static void add_vars(fl_str *s, const fl_op_trial *t, fl_build_kind kind)
{
    for (int slot = 0; slot < fl_op_n_in(t->op); slot++)
        for (int i = 0; i < t->in[slot].n; i++) {
            const fl_tensor *x = t->in[slot].t[i];

            fl_str_addf(s, "var in.%s.%d : ", t->op->in[slot].name, i);
            add_dims(s, x,
                     kind == FL_BUILD_UNKNOWN &&
                         (is_batch_slot(t->op, slot) || x->n_lod > 0));
            if (x->n_lod)
                fl_str_addf(s, " lod=%d", x->n_lod);
            fl_str_addf(s, "%s%s data\n",
                        x->kind == FL_KIND_ROWS ? " rows" : "",
                        x->kind == FL_KIND_ARRAY ? " array" : "");
        }
}

/* The declarations of an output slot: the text behind those of the inputs. */
static const char *declared(const fl_op_trial *t, int slot)
{
    int at = fl_op_n_in(t->op) + slot;
    const char *text = at < FL_CASE_ARGS_MAX ? t->test_case->in[at] : NULL;

    return text ? text : "";
}

static int count_declared(const fl_op_trial *t, int slot)
{
    const char *text = declared(t, slot);
    int n = *text != '\0';

    for (; *text; text++)
        n += *text == ';';
    return n;
}

static void add_declared(fl_str *s, const fl_op_trial *t)
{
    for (int slot = 0; slot < fl_op_n_out(t->op); slot++) {
        const char *text = declared(t, slot);

        for (int i = 0; i < count_declared(t, slot); i++) {
            int len = (int)strcspn(text, ";");

            fl_str_addf(s, "param out.%s.%d : %.*s\n", t->op->out[slot].name, i,
                        len, text);
            text += len + 1;
        }
    }
}

static void add_args(fl_str *s, const char *side, const fl_op_slot *slot, int n,
                     bool first)
{
    fl_str_addf(s, "%s%s=[", first ? "" : ", ", slot->name);
    for (int i = 0; i < n; i++)
        fl_str_addf(s, "%s%s.%s.%d", i ? "," : "", side, slot->name, i);
    fl_str_add(s, "]");
}

/* Does it run a block? Then the program has an empty one. */
static bool has_block(const fl_op *op)
{
    for (int i = 0; i < fl_op_n_attrs(op); i++)
        if (op->attrs[i].type == FL_ATTR_BLOCK)
            return true;
    return false;
}

static char *program_text(const fl_op_trial *t, fl_build_kind kind, int n_list)
{
    const fl_op *op = t->op;
    fl_str s = { 0 };

    fl_str_addf(&s, "seed %d\n", SEED);
    add_vars(&s, t, kind);
    add_declared(&s, t);
    fl_str_addf(&s, "op %s (", op->name);
    for (int i = 0, first = 1; i < fl_op_n_in(op); i++) {
        if (!t->in[i].n)
            continue;
        add_args(&s, "in", &op->in[i], t->in[i].n, first);
        first = 0;
    }
    fl_str_add(&s, ") -> (");
    for (int i = 0; i < fl_op_n_out(op); i++) {
        int n = op->out[i].flags & FL_OP_SLOT_LIST ? n_list : 1;

        if (count_declared(t, i))
            n = count_declared(t, i);
        add_args(&s, "out", &op->out[i], n, i == 0);
    }
    fl_str_addf(&s, ") %s\n", t->test_case->attrs ? t->test_case->attrs : "");
    if (has_block(op))
        fl_str_add(&s, "block 1 parent 0\nend\n");
    return fl_str_take(&s);
}

static fl_status parse_with(fl_op_trial *t, fl_build_kind kind, int n_list)
{
    char *text = program_text(t, kind, n_list);
    fl_status st = fl_program_parse(text, &op_set, &t->program);

    fl_free(text);
    return st;
}

/* The number of outputs of a list is the operator's to say: as many as there
   are inputs, else whatever it accepts. */
static fl_status build_program(fl_op_trial *t, fl_build_kind kind)
{
    fl_status st = parse_with(t, kind, t->in[0].n ? t->in[0].n : 1);
    fl_err first;

    fl_err_save(&first, st);
    for (int n = 1; st && n <= OUTPUTS_MAX; n++)
        st = parse_with(t, kind, n);
    if (st)
        return fl_err_restore(&first);
    t->node = fl_program_main(t->program)->first;
    return FL_OK;
}

/* --- the gradient operator ------------------------------------------------ */

bool fl_op_trial_wants(const fl_op_trial *t, int slot, int i)
{
    const fl_tensor *x = t->in[slot].t[i];

    return t->op->back && fl_dtype_is_float(x->dtype) &&
           x->kind != FL_KIND_ROWS &&
           !(t->op->in[slot].flags & (FL_SLOT_NO_GRAD | FL_OP_SLOT_STATE));
}

bool fl_op_trial_gives(const fl_op_trial *t, int slot, int i)
{
    const fl_var *v = t->node->out[slot].vars[i];

    return t->op->back && fl_dtype_is_float(v->meta.dtype) &&
           !(t->op->out[slot].flags & (FL_SLOT_NO_GRAD | FL_OP_SLOT_BYPRODUCT));
}

int fl_op_trial_n_wanted(const fl_op_trial *t)
{
    int n = 0;

    for (int s = 0; s < fl_op_n_in(t->op); s++)
        for (int i = 0; i < t->in[s].n; i++)
            n += fl_op_trial_wants(t, s, i);
    return n;
}

int fl_op_trial_n_given(const fl_op_trial *t)
{
    int n = 0;

    for (int s = 0; s < fl_op_n_out(t->op); s++)
        for (int i = 0; i < t->node->out[s].n; i++)
            n += fl_op_trial_gives(t, s, i);
    return n;
}

typedef FL_VEC(fl_arg) arg_vec;

static const char *slot_grad(fl_op_trial *t, const fl_op_slot *slot)
{
    return fl_arena_printf(&t->mem, "%s" FL_GRAD_SUFFIX, slot->name);
}

static const char *var_grad(fl_op_trial *t, const fl_var *v)
{
    return fl_arena_printf(&t->mem, "%s" FL_GRAD_SUFFIX, v->name);
}

static void push_vars(arg_vec *out, const fl_op_slot *slot, const fl_args *args)
{
    for (int i = 0; i < args->n; i++)
        fl_vec_push(out, ((fl_arg){ slot->name, args->vars[i]->name }));
}

static fl_status push_given(fl_op_trial *t, arg_vec *out)
{
    fl_block *b = fl_program_main(t->program);

    for (int s = 0; s < fl_op_n_out(t->op); s++)
        for (int i = 0; i < t->node->out[s].n; i++) {
            fl_var *v = t->node->out[s].vars[i], *g;
            fl_arg a = { slot_grad(t, &t->op->out[s]), FL_EMPTY_NAME };

            if (fl_op_trial_gives(t, s, i)) {
                a.var = var_grad(t, v);
                FL_TRY(fl_block_add_var(b, a.var, &v->meta, FL_VAR_DATA, &g));
            }
            fl_vec_push(out, a);
        }
    return FL_OK;
}

static void push_wanted(fl_op_trial *t, arg_vec *out)
{
    for (int s = 0; s < fl_op_n_in(t->op); s++)
        for (int i = 0; i < t->node->in[s].n; i++) {
            fl_arg a = { slot_grad(t, &t->op->in[s]), FL_EMPTY_NAME };

            if (fl_op_trial_wants(t, s, i))
                a.var = var_grad(t, t->node->in[s].vars[i]);
            fl_vec_push(out, a);
        }
}

static fl_status append_gradient(fl_op_trial *t, arg_vec *in, arg_vec *out)
{
    fl_named_attr attrs[FL_ATTRS_MAX];
    fl_op_spec spec = { .role = FL_OP_ROLE_BACKWARD, .attrs = attrs };

    for (int s = 0; s < fl_op_n_in(t->op); s++)
        push_vars(in, &t->op->in[s], &t->node->in[s]);
    for (int s = 0; s < fl_op_n_out(t->op); s++)
        push_vars(in, &t->op->out[s], &t->node->out[s]);
    FL_TRY(push_given(t, in));
    push_wanted(t, out);
    for (int i = 0; i < fl_op_n_attrs(t->op); i++)
        attrs[spec.n_attrs++] =
            (fl_named_attr){ t->op->attrs[i].name, t->node->attrs[i] };
    spec.type = fl_arena_printf(&t->mem, "%s_grad", t->op->name);
    spec.in = in->data;
    spec.n_in = in->len;
    spec.out = out->data;
    spec.n_out = out->len;
    return fl_block_append(fl_program_main(t->program), &spec, &t->grad_node);
}

static fl_status build_gradient(fl_op_trial *t)
{
    arg_vec in = { 0 }, out = { 0 };
    fl_status st;

    if (!t->op->back || !fl_op_trial_n_wanted(t) || !fl_op_trial_n_given(t))
        return FL_OK;
    st = append_gradient(t, &in, &out);
    fl_vec_release(&in);
    fl_vec_release(&out);
    return st;
}

static fl_status build(fl_op_trial *t, fl_build_kind kind)
{
    /* Tables and servers hold f32 and nothing else. */
    if (fl_op_find_attr(t->op, "table") >= 0 || (t->op->flags & FL_OP_WAITS))
        t->real = FL_DTYPE_F32;
    if (t->comm)
        FL_TRY(
            t->comm->life->declare(t->comm, TABLE_NAME, TABLE_SETTINGS, SEED));
    FL_TRY(fl_case_draw(t->op, t->test_case, t->real, &t->mem, t->in));
    FL_TRY(build_program(t, kind));
    return build_gradient(t);
}

static fl_op_trial_comm_fn make_comm;

void fl_op_trial_use_comm(fl_op_trial_comm_fn make)
{
    make_comm = make;
}

fl_status fl_op_trial_init(fl_op_trial *t, const fl_op *op, size_t index,
                           fl_dtype real, fl_build_kind kind)
{
    fl_status st;

    *t =
        (fl_op_trial){ .op = op, .test_case = &op->cases[index], .real = real };
    under_test = op;
    fl_arena_init(&t->mem, CHUNK_BYTES);
    t->comm = make_comm ? make_comm() : NULL;
    st = build(t, kind);
    if (st)
        fl_op_trial_release(t);
    return st;
}

void fl_op_trial_forget(fl_op_trial *t)
{
    if (t->keep && t->keep_free)
        t->keep_free(t->keep);
    fl_free(t->keep);
    t->keep = NULL;
}

void fl_op_trial_release(fl_op_trial *t)
{
    fl_op_trial_forget(t);
    if (t->comm)
        fl_comm_free(t->comm);
    fl_program_free(t->program);
    fl_arena_release(&t->mem);
}

/* --- memory of a call ----------------------------------------------------- */

static void *new_block(fl_op_call *c, size_t bytes)
{
    fl_op_call_block b = { fl_try_alloc(bytes), bytes };

    FL_ASSERT(b.data);
    fl_vec_push(&c->blocks, b);
    return b.data;
}

void fl_op_call_release(fl_op_call *c)
{
    for (size_t i = 0; i < c->blocks.len; i++)
        fl_data_free(c->blocks.data[i].data, c->blocks.data[i].bytes);
    fl_vec_release(&c->blocks);
    fl_buf_release(&c->workspace.buf);
    fl_arena_release(&c->mem);
}

static void new_args(fl_op_call *c, fl_targs *a, int n)
{
    a->n = n;
    a->t = fl_arena_alloc(&c->mem, ((size_t)n + 1) * sizeof(*a->t));
}

static fl_tensor *new_tensor(fl_op_call *c)
{
    return fl_arena_alloc(&c->mem, sizeof(fl_tensor));
}

static size_t row_bytes(const fl_tensor *t)
{
    return (size_t)t->shape.dim[0] * sizeof(*t->rows);
}

static fl_status new_values(fl_op_call *c, fl_tensor *t, unsigned dirt)
{
    size_t bytes;

    FL_TRY(fl_tensor_bytes(t, &bytes));
    t->data = new_block(c, bytes);
    memset(t->data, (int)dirt, bytes);
    if (t->kind != FL_KIND_ROWS)
        return FL_OK;
    t->rows = new_block(c, row_bytes(t));
    memset(t->rows, (int)dirt, row_bytes(t));
    return FL_OK;
}

static fl_status copy_tensor(fl_op_call *c, const fl_tensor *from,
                             fl_tensor **out)
{
    fl_tensor *t = new_tensor(c);
    size_t bytes;

    *t = *from;
    FL_TRY(new_values(c, t, 0));
    FL_TRY(fl_tensor_bytes(t, &bytes));
    memcpy(t->data, from->data, bytes);
    if (t->kind == FL_KIND_ROWS)
        memcpy(t->rows, from->rows, row_bytes(t));
    *out = t;
    return FL_OK;
}

/* --- running -------------------------------------------------------------- */

typedef struct shares {
    fl_op_trial *t;
    const fl_how *h;
    fl_op_call *c;
    const fl_op_node *node;
} shares;

static fl_status run_share(void *arg, int ith)
{
    const shares *s = arg;
    fl_arena scratch, step;
    fl_op_ctx ctx = {
        .node = s->node,
        .in = s->c->in,
        .out = s->c->out,
        .ith = ith,
        .nth = s->h->nth ? s->h->nth : 1,
        .scratch = &scratch,
        .step = &step,
        .workspace = &s->c->workspace,
        .step_no = STEP_NO,
        .seed = SEED,
        .worker = { .n_parts = 1, .scale = 1 },
        .keep = &s->t->keep,
        .keep_free = &s->t->keep_free,
        .comm = s->t->comm,
    };
    uint64_t calls = fl_data_calls();
    fl_status st;

    fl_arena_init(&scratch, CHUNK_BYTES);
    fl_arena_init(&step, CHUNK_BYTES);
    fl_alloc_fail_after(s->h->fail);
    st = s->node->is_grad ? s->t->op->back(&ctx) : s->t->op->run(&ctx);
    fl_alloc_fail_after(0);
    if (ctx.nth == 1)
        s->t->n_allocs = fl_data_calls() - calls;
    fl_arena_release(&scratch);
    fl_arena_release(&step);
    return st;
}

static fl_status run_shares(fl_op_trial *t, const fl_how *h, fl_op_call *c,
                            const fl_op_node *node)
{
    shares s = { t, h, c, node };
    fl_team *team;
    fl_status st;

    if (h->nth <= 1)
        return run_share(&s, 0);
    FL_TRY(fl_team_new(&team, h->nth, "sweep"));
    st = fl_team_run(team, run_share, &s);
    fl_team_free(team);
    return st;
}

/* The state whose new value an output is: ParamOut of Param, SquaredAccumOut
   of SquaredAccumulator; -1 when it is none. */
static int state_of(const fl_op *op, int out)
{
    const char *name = op->out[out].name;
    size_t len = strlen(name);

    if (len <= 3 || strcmp(name + len - 3, "Out"))
        return -1;
    for (int s = 0; s < fl_op_n_in(op); s++)
        if ((op->in[s].flags & FL_OP_SLOT_STATE) &&
            !strncmp(op->in[s].name, name, len - 3))
            return s;
    return -1;
}

static bool same_size(const fl_tensor *a, const fl_tensor *b)
{
    return a->dtype == b->dtype && a->kind == b->kind &&
           fl_tensor_numel(a) == fl_tensor_numel(b);
}

static fl_status place_output(const fl_op_trial *t, const fl_how *h,
                              fl_op_call *c, int slot, int i)
{
    fl_tensor *y = c->out[slot].t[i];
    int state = state_of(t->op, slot);

    if (h->in_place && slot == 0 && i == 0 && c->in[0].n &&
        same_size(y, c->in[0].t[0])) {
        y->data = c->in[0].t[0]->data;
        y->rows = c->in[0].t[0]->rows;
        return FL_OK;
    }
    if (state >= 0 && !h->apart) {
        y->data = c->in[state].t[i]->data;
        return FL_OK;
    }
    return new_values(c, y, h->dirt);
}

static fl_status forward_in(fl_op_trial *t, const fl_how *h, fl_op_call *c)
{
    fl_infer infer = { t->node, c->in, c->out, true, &c->workspace };

    for (int s = 0; s < fl_op_n_in(t->op); s++) {
        new_args(c, &c->in[s], t->in[s].n);
        for (int i = 0; i < t->in[s].n; i++)
            FL_TRY(copy_tensor(c, t->in[s].t[i], &c->in[s].t[i]));
    }
    for (int s = 0; s < fl_op_n_out(t->op); s++) {
        new_args(c, &c->out[s], t->node->out[s].n);
        for (int i = 0; i < c->out[s].n; i++)
            c->out[s].t[i] = new_tensor(c);
    }
    FL_TRY(t->op->infer(&infer));
    for (int s = 0; s < fl_op_n_out(t->op); s++)
        for (int i = 0; i < c->out[s].n; i++)
            FL_TRY(place_output(t, h, c, s, i));
    return run_shares(t, h, c, t->node);
}

fl_status fl_op_trial_forward(fl_op_trial *t, const fl_how *h, fl_op_call *out)
{
    fl_status st;

    *out = (fl_op_call){ 0 };
    fl_arena_init(&out->mem, CHUNK_BYTES);
    st = forward_in(t, h, out);
    if (st)
        fl_op_call_release(out);
    return st;
}

/* --- backward ------------------------------------------------------------- */

double fl_drawn_gradient(int slot, int entry, int64_t i)
{
    uint64_t stream =
        fl_rng_stream((uint64_t)slot * 100 + (uint64_t)entry, "grad");

    return (double)(float)(4 * fl_rng_unit(stream, (uint64_t)i, 0) - 2);
}

/* A forward tensor as back sees it: real, or dirt where back must not look. */
static fl_status back_sees(const fl_op_trial *t, const fl_how *h, fl_op_call *c,
                           int slot, const fl_tensor *from, fl_tensor **out)
{
    fl_tensor *x = new_tensor(c);

    if (!h->blind || fl_node_reads(t->grad_node, slot))
        return copy_tensor(c, from, out);
    *x = *from;
    *out = x;
    return new_values(c, x, 0xff);
}

static fl_status back_inputs(const fl_op_trial *t, const fl_op_call *forward,
                             const fl_how *h, fl_op_call *c)
{
    int n_in = fl_op_n_in(t->op), n_out = fl_op_n_out(t->op);

    for (int s = 0; s < n_in + n_out; s++) {
        const fl_targs *from = s < n_in ? &t->in[s] : &forward->out[s - n_in];

        new_args(c, &c->in[s], from->n);
        for (int i = 0; i < from->n; i++)
            FL_TRY(back_sees(t, h, c, s, from->t[i], &c->in[s].t[i]));
    }
    return FL_OK;
}

static fl_status give_one(const fl_how *h, fl_op_call *c, int slot, int i,
                          int number, const fl_tensor *y, fl_tensor **out)
{
    bool comes = !h->only_out || h->only_out == number + 1;
    fl_tensor *g;

    if (!comes && !h->zero_other)
        return FL_OK;
    g = new_tensor(c);
    *g = *y;
    FL_TRY(new_values(c, g, 0));
    for (int64_t k = 0; comes && k < fl_tensor_numel(g); k++)
        fl_value_set(g, k, fl_drawn_gradient(slot, i, k));
    *out = g;
    return FL_OK;
}

static fl_status give_gradients(const fl_op_trial *t, const fl_op_call *forward,
                                const fl_how *h, fl_op_call *c)
{
    int first = fl_op_n_in(t->op) + fl_op_n_out(t->op);
    int number = 0;

    for (int s = 0; s < fl_op_n_out(t->op); s++) {
        const fl_targs *y = &forward->out[s];

        new_args(c, &c->in[first + s], y->n);
        for (int i = 0; i < y->n; i++)
            if (fl_op_trial_gives(t, s, i))
                FL_TRY(give_one(h, c, s, i, number++, y->t[i],
                                &c->in[first + s].t[i]));
    }
    return FL_OK;
}

static void ask_gradients(const fl_op_trial *t, const fl_how *h, fl_op_call *c)
{
    int number = 0;

    for (int s = 0; s < fl_op_n_in(t->op); s++) {
        new_args(c, &c->out[s], t->in[s].n);
        for (int i = 0; i < t->in[s].n; i++) {
            if (!fl_op_trial_wants(t, s, i))
                continue;
            if (h->only_in && h->only_in != ++number)
                continue;
            c->out[s].t[i] = new_tensor(c);
            fl_tensor_like(c->out[s].t[i], t->in[s].t[i]);
        }
    }
}

static fl_status place_gradient(const fl_op_trial *t, const fl_how *h,
                                fl_op_call *c, int slot, int i)
{
    int n_in = fl_op_n_in(t->op);
    const fl_targs *over =
        &c->in[n_in + (h->over_out ? 0 : fl_op_n_out(t->op))];
    fl_tensor *g = c->out[slot].t[i];

    if ((h->in_place || h->over_out) && slot == 0 && i == 0 && over->n &&
        over->t[0] && same_size(g, over->t[0])) {
        g->data = over->t[0]->data;
        return FL_OK;
    }
    return new_values(c, g, h->dirt);
}

static fl_status backward_in(fl_op_trial *t, const fl_op_call *forward,
                             const fl_how *h, fl_op_call *c)
{
    fl_infer infer = { t->grad_node, c->in, c->out, true, &c->workspace };

    FL_TRY(back_inputs(t, forward, h, c));
    FL_TRY(give_gradients(t, forward, h, c));
    ask_gradients(t, h, c);
    if (t->op->back_infer)
        FL_TRY(t->op->back_infer(&infer));
    for (int s = 0; s < fl_op_n_in(t->op); s++)
        for (int i = 0; i < c->out[s].n; i++)
            if (c->out[s].t[i])
                FL_TRY(place_gradient(t, h, c, s, i));
    return run_shares(t, h, c, t->grad_node);
}

fl_status fl_op_trial_backward(fl_op_trial *t, const fl_op_call *forward,
                               const fl_how *h, fl_op_call *out)
{
    fl_status st;

    *out = (fl_op_call){ 0 };
    fl_arena_init(&out->mem, CHUNK_BYTES);
    st = backward_in(t, forward, h, out);
    if (st)
        fl_op_call_release(out);
    return st;
}

/* --- values --------------------------------------------------------------- */

double fl_value_at(const fl_tensor *t, int64_t i)
{
    switch (t->dtype) {
#define X(name, value, type, text, long_text)                                  \
    case FL_DTYPE_##name:                                                      \
        return (double)((const type *)t->data)[i];
        FL_DTYPE_PLAIN_MAP(X)
#undef X
    case FL_DTYPE_F16:
        return (double)fl_half_value(((const uint16_t *)t->data)[i]);
    }
    return 0;
}

void fl_value_set(fl_tensor *t, int64_t i, double v)
{
    if (t->dtype == FL_DTYPE_F64)
        ((double *)t->data)[i] = v;
    else
        ((float *)t->data)[i] = (float)v;
}

static bool same_offsets(const fl_tensor *a, const fl_tensor *b)
{
    if (a->n_lod != b->n_lod)
        return false;
    for (int k = 0; k < a->n_lod; k++)
        if (a->lod_len[k] != b->lod_len[k] ||
            memcmp(a->lod[k], b->lod[k],
                   (size_t)a->lod_len[k] * sizeof(*a->lod[k])))
            return false;
    return true;
}

bool fl_same_bits(const fl_tensor *a, const fl_tensor *b)
{
    size_t bytes;

    if (a->dtype != b->dtype || a->kind != b->kind ||
        !fl_shape_equal(&a->shape, &b->shape) || !same_offsets(a, b) ||
        fl_tensor_bytes(a, &bytes))
        return false;
    if (a->kind == FL_KIND_ROWS &&
        (fl_tensor_is_merged(a) != fl_tensor_is_merged(b) ||
         a->height != b->height || memcmp(a->rows, b->rows, row_bytes(a))))
        return false;
    return !memcmp(a->data, b->data, bytes);
}

double *fl_densified(const fl_tensor *t, const fl_shape *shape)
{
    int64_t n = fl_shape_numel(shape);
    double *out = fl_alloc((size_t)n * sizeof(*out));
    int64_t width = fl_shape_count(shape, 1, shape->rank);

    for (int64_t i = 0; i < fl_tensor_numel(t); i++) {
        int64_t at = i;

        if (t->kind == FL_KIND_ROWS)
            at = (int64_t)t->rows[i / width] * width + i % width;
        FL_ASSERT(at < n);
        out[at] += fl_value_at(t, i);
    }
    return out;
}
