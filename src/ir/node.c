/* node.c - operators in a block: making, checking, inferring, removing. */
#include "ir/node.h"

#include "flotilla/words.h"
#include "ir/attr.h"

#define GRAD_OP_SUFFIX "_grad"
#define OP_NAME_MAX 96

/* A node has at most 3 lists of slots on its input side. */
#define NODE_SLOTS_MAX (3 * FL_OP_SLOTS_MAX)

int fl_node_n_in(const fl_op_node *n)
{
    return n->kind->n_in;
}

int fl_node_n_out(const fl_op_node *n)
{
    return n->kind->n_out;
}

const char *fl_node_type(const fl_op_node *n)
{
    return n->kind->type;
}

const char *fl_node_in_name(const fl_op_node *n, int slot)
{
    return n->kind->in[slot];
}

const char *fl_node_out_name(const fl_op_node *n, int slot)
{
    return n->kind->out[slot];
}

unsigned fl_node_in_flags(const fl_op_node *n, int slot)
{
    int in = fl_op_n_in(n->def);
    int out = fl_op_n_out(n->def);

    if (slot < in)
        return n->def->in[slot].flags;
    return n->def->out[(slot - in) % out].flags;
}

static unsigned out_flags(const fl_op_node *n, int slot)
{
    return n->is_grad ? n->def->in[slot].flags : n->def->out[slot].flags;
}

bool fl_node_reads(const fl_op_node *n, int slot)
{
    int in = fl_op_n_in(n->def);
    int out = fl_op_n_out(n->def);
    unsigned uses = n->def->back_uses;

    if (!n->is_grad || slot >= in + out)
        return true;
    if (n->def->back_reads)
        uses &= n->def->back_reads(n);
    if (slot < in)
        return (uses & FL_USES_IN(slot)) ||
               (n->def->in[slot].flags & FL_OP_SLOT_VALUE);
    return uses & FL_USES_OUT(slot - in);
}

static bool args_have(const fl_args *a, const fl_var *v)
{
    for (int i = 0; i < a->n; i++)
        if (a->vars[i] == v)
            return true;
    return false;
}

bool fl_node_writes_var(const fl_op_node *n, const fl_var *v)
{
    for (int s = 0; s < fl_node_n_out(n); s++)
        if (args_have(&n->out[s], v))
            return true;
    return false;
}

bool fl_node_uses_var(const fl_op_node *n, const fl_var *v)
{
    for (int s = 0; s < fl_node_n_in(n); s++)
        if (args_have(&n->in[s], v))
            return true;
    return false;
}

const char *fl_node_text(const fl_op_node *n, char buf[FL_NODE_TEXT_MAX])
{
    const char *var = NULL;

    for (int s = 0; s < fl_node_n_out(n) && !var; s++)
        for (int i = 0; i < n->out[s].n && !var; i++)
            var = n->out[s].vars[i] ? n->out[s].vars[i]->name : NULL;
    snprintf(buf, FL_NODE_TEXT_MAX, "op %s -> %s", fl_node_type(n),
             var ? var : "nothing");
    return buf;
}

/* --- making a node ---------------------------------------------------------*/

static fl_status no_operator(const fl_program *p, const char *type,
                             const char *base)
{
    const char *why = p->ops->refusal ? p->ops->refusal(base) : NULL;
    const char *near = p->ops->nearest(type);

    if (why)
        FL_FAIL(FL_ERR_UNSUPPORTED, "operator %s: %s", type, why);
    FL_FAIL(FL_ERR_NOTFOUND, "no operator is called %s%s%s%s", type,
            near ? "; did you mean " : "", near ? near : "", near ? "?" : "");
}

static fl_status find_def(const fl_program *p, const char *type,
                          const fl_op **def, bool *is_grad)
{
    size_t len = strlen(type);
    size_t tail = strlen(GRAD_OP_SUFFIX);
    char base[OP_NAME_MAX];

    *is_grad = false;
    *def = p->ops->find(type);
    if (*def)
        return FL_OK;
    if (len > tail && len < sizeof(base) &&
        !strcmp(type + len - tail, GRAD_OP_SUFFIX)) {
        snprintf(base, sizeof(base), "%.*s", (int)(len - tail), type);
        *def = p->ops->find(base);
        *is_grad = true;
        if (*def && (*def)->back)
            return FL_OK;
        if (*def)
            FL_FAIL(FL_ERR_NOTFOUND, "operator %s has no gradient", base);
        return no_operator(p, type, base);
    }
    return no_operator(p, type, type);
}

static const char **names_of(const fl_op_slot *slots, int n, const char **at)
{
    for (int i = 0; i < n; i++)
        *at++ = slots[i].name;
    return at;
}

static const char **grad_names_of(const fl_op_slot *slots, int n,
                                  const char **at, fl_arena *arena)
{
    for (int i = 0; i < n; i++)
        *at++ = fl_arena_printf(arena, "%s" FL_GRAD_SUFFIX, slots[i].name);
    return at;
}

/* The slots of a gradient operator follow from its forward one: see op.h. */
static void name_slots(fl_op_kind *k, fl_arena *arena)
{
    int n_in = fl_op_n_in(k->def), n_out = fl_op_n_out(k->def);
    const char **at;

    k->n_in = k->is_grad ? n_in + 2 * n_out : n_in;
    k->n_out = k->is_grad ? n_in : n_out;
    k->in = fl_arena_alloc(arena, sizeof(char *) * ((size_t)k->n_in + 1));
    k->out = fl_arena_alloc(arena, sizeof(char *) * ((size_t)k->n_out + 1));
    at = names_of(k->def->in, n_in, k->in);
    if (k->is_grad) {
        at = names_of(k->def->out, n_out, at);
        grad_names_of(k->def->out, n_out, at, arena);
        grad_names_of(k->def->in, n_in, k->out, arena);
    } else {
        names_of(k->def->out, n_out, k->out);
    }
}

static fl_status find_kind(fl_program *p, const char *type,
                           const fl_op_kind **out)
{
    fl_op_kind *k = fl_map_find(&p->kinds, type);
    const fl_op *def;
    bool is_grad;

    if (!k) {
        FL_TRY(find_def(p, type, &def, &is_grad));
        k = fl_arena_alloc(&p->arena, sizeof(*k));
        k->type = fl_arena_strdup(&p->arena, type);
        k->def = def;
        k->is_grad = is_grad;
        name_slots(k, &p->arena);
        fl_map_put(&p->kinds, k->type, k);
    }
    *out = k;
    return FL_OK;
}

/* One side of a node: its slots by name. */
typedef struct side {
    const char *type;
    const char *const *slots;
    int n_slots;
} side;

static fl_status no_slot(const side *d, const char *name)
{
    fl_str known = { 0 };

    for (int s = 0; s < d->n_slots; s++)
        fl_str_addf(&known, "%s%s", s ? ", " : "", d->slots[s]);
    (void)fl_err_set(FL_ERR_NOTFOUND, "op %s has no slot %s; it has %s",
                     d->type, name, fl_str_text(&known));
    fl_str_release(&known);
    return FL_ERR_NOTFOUND;
}

static fl_status find_slot(const side *d, const char *name, int *slot)
{
    for (*slot = 0; *slot < d->n_slots; ++*slot)
        if (!strcmp(d->slots[*slot], name))
            return FL_OK;
    return no_slot(d, name);
}

/* Sorts (slot, name) pairs into lists by slot; names are kept beside, since
   output variables need not exist yet. */
typedef struct slot_names {
    const char **names;
    int n;
} slot_names;

static fl_status sort_args(const side *d, const fl_arg *args, size_t n_args,
                           fl_arena *arena, slot_names *out)
{
    int slot = 0;

    for (int s = 0; s < d->n_slots; s++)
        out[s].names = fl_arena_alloc(arena, sizeof(char *) * (n_args + 1));
    for (size_t i = 0; i < n_args; i++) {
        FL_TRY(find_slot(d, args[i].slot, &slot));
        out[slot].names[out[slot].n++] = args[i].var;
    }
    return FL_OK;
}

static fl_status check_count(const fl_op_node *n, const char *slot,
                             unsigned flags, int count)
{
    bool optional =
        n->is_grad || (flags & (FL_OP_SLOT_OPTIONAL | FL_OP_SLOT_BYPRODUCT));

    if (count == 0 && !optional)
        FL_FAIL(FL_ERR_INVAL, "op %s: slot %s is missing", fl_node_type(n),
                slot);
    if (count > 1 && !(flags & FL_OP_SLOT_LIST))
        FL_FAIL(FL_ERR_INVAL, "op %s: slot %s takes one variable, got %d",
                fl_node_type(n), slot, count);
    return FL_OK;
}

static fl_status bind_inputs(fl_op_node *n, const slot_names *names)
{
    fl_arena *arena = &n->block->program->arena;

    for (int s = 0; s < fl_node_n_in(n); s++) {
        const char *slot = fl_node_in_name(n, s);

        FL_TRY(check_count(n, slot, fl_node_in_flags(n, s), names[s].n));
        n->in[s].n = names[s].n;
        n->in[s].vars =
            fl_arena_alloc(arena, sizeof(fl_var *) * ((size_t)names[s].n + 1));
        for (int i = 0; i < names[s].n; i++) {
            const char *name = names[s].names[i];

            if (n->is_grad && !strcmp(name, FL_EMPTY_NAME))
                continue;
            n->in[s].vars[i] = fl_block_find_var(n->block, name);
            if (!n->in[s].vars[i])
                FL_FAIL(FL_ERR_NOTFOUND,
                        "op %s: slot %s names variable %s, which does not "
                        "exist",
                        fl_node_type(n), slot, name);
        }
    }
    return FL_OK;
}

static fl_status no_attr(const fl_op_node *n, const char *name)
{
    const char *names[FL_ATTRS_MAX];
    int n_attrs = fl_op_n_attrs(n->def);
    const char *near;

    for (int i = 0; i < n_attrs; i++)
        names[i] = n->def->attrs[i].name;
    near = fl_nearest_name(name, names, (size_t)n_attrs);
    FL_FAIL(FL_ERR_NOTFOUND, "op %s has no attribute %s%s%s%s", fl_node_type(n),
            name, near ? "; did you mean " : "", near ? near : "",
            near ? "?" : "");
}

fl_status fl_node_find_attr(const fl_op_node *n, const char *name, int *out)
{
    *out = fl_op_find_attr(n->def, name);
    return *out < 0 ? no_attr(n, name) : FL_OK;
}

fl_status fl_node_bind_attr(fl_op_node *n, const char *name,
                            const fl_attr *value)
{
    fl_attr_type type;
    int i;

    FL_TRY(fl_node_find_attr(n, name, &i));
    type = n->def->attrs[i].type;
    if (!fl_attr_convert(value, type, &n->block->program->arena, &n->attrs[i]))
        FL_FAIL(FL_ERR_TYPE, "op %s: attribute %s is of type %s, not %s",
                fl_node_type(n), name, fl_attr_type_text(type),
                fl_attr_type_text(value->type));
    return FL_OK;
}

static fl_status bind_attrs(fl_op_node *n, const fl_op_spec *spec)
{
    fl_arena *arena = &n->block->program->arena;
    int n_attrs = fl_op_n_attrs(n->def);

    n->attrs = fl_arena_alloc(arena, sizeof(fl_attr) * ((size_t)n_attrs + 1));
    for (int i = 0; i < n_attrs; i++)
        FL_TRY(fl_attr_parse(n->def->attrs[i].value, n->def->attrs[i].type,
                             arena, &n->attrs[i]));
    for (size_t k = 0; k < spec->n_attrs; k++)
        FL_TRY(
            fl_node_bind_attr(n, spec->attrs[k].name, &spec->attrs[k].value));
    return FL_OK;
}

/* --- inference -------------------------------------------------------------*/

/* The tensors of a node's slots, for infer: metas of variables on the input
   side, fresh ones on the output side. */
typedef struct infer_frame {
    fl_targs in[NODE_SLOTS_MAX], out[NODE_SLOTS_MAX];
} infer_frame;

static void frame_inputs(infer_frame *f, const fl_op_node *n, fl_arena *tmp)
{
    for (int s = 0; s < fl_node_n_in(n); s++) {
        f->in[s].n = n->in[s].n;
        f->in[s].t =
            fl_arena_alloc(tmp, sizeof(fl_tensor *) * ((size_t)n->in[s].n + 1));
        for (int i = 0; i < n->in[s].n; i++)
            f->in[s].t[i] = n->in[s].vars[i] ? &n->in[s].vars[i]->meta : NULL;
    }
}

static void frame_output(fl_targs *out, int n, const bool *present,
                         fl_arena *tmp)
{
    out->n = n;
    out->t = fl_arena_alloc(tmp, sizeof(fl_tensor *) * ((size_t)n + 1));
    for (int i = 0; i < n; i++)
        out->t[i] = present[i] ? fl_arena_alloc(tmp, sizeof(fl_tensor)) : NULL;
}

/* Gradients are like their variables; back_infer may say otherwise. */
static void infer_grad_default(infer_frame *f, const fl_op_node *n)
{
    for (int s = 0; s < fl_node_n_out(n); s++)
        for (int i = 0; i < f->out[s].n; i++)
            if (f->out[s].t[i] && i < f->in[s].n && f->in[s].t[i])
                fl_tensor_like(f->out[s].t[i], f->in[s].t[i]);
}

static fl_status check_kind(const fl_op_node *n, int slot, const fl_var *v)
{
    fl_kind kind = v->meta.kind;
    unsigned flags = fl_node_in_flags(n, slot);
    bool is_refused = (kind == FL_KIND_ROWS && !(flags & FL_OP_SLOT_ROWS)) ||
                      (kind == FL_KIND_ARRAY && !(flags & FL_OP_SLOT_ARRAY));

    if (is_refused)
        FL_FAIL(FL_ERR_INVAL,
                "op %s: slot %s takes dense values, but %s holds %s",
                fl_node_type(n), fl_node_in_name(n, slot), v->name,
                kind == FL_KIND_ROWS ? "rows + values" : "an array");
    return FL_OK;
}

static fl_status check_kinds(const fl_op_node *n)
{
    for (int s = 0; s < fl_node_n_in(n); s++)
        for (int i = 0; i < n->in[s].n; i++)
            if (n->in[s].vars[i])
                FL_TRY(check_kind(n, s, n->in[s].vars[i]));
    return FL_OK;
}

static fl_status run_infer(infer_frame *f, const fl_op_node *n)
{
    fl_infer c = { .node = n, .in = f->in, .out = f->out };

    FL_TRY(check_kinds(n));
    if (!n->is_grad)
        return n->def->infer(&c);
    FL_TRY(fl_node_check_grads(n, f->in, false));
    infer_grad_default(f, n);
    return n->def->back_infer ? n->def->back_infer(&c) : FL_OK;
}

/* What an array holds is of any type and shape. */
static bool fits_meta(const fl_var *v, const fl_tensor *got)
{
    if (v->meta.kind == FL_KIND_ARRAY && got->kind == FL_KIND_ARRAY)
        return true;
    return v->meta.dtype == got->dtype &&
           fl_shape_matches(&v->meta.shape, &got->shape) &&
           fl_kind_fits(v->meta.kind, got->kind);
}

/* An inferred output against the variable that is to hold it. */
static fl_status check_meta(const fl_op_node *n, const fl_var *v,
                            const fl_tensor *got)
{
    char a[FL_SHAPE_TEXT_MAX], b[FL_SHAPE_TEXT_MAX];

    if (fits_meta(v, got))
        return FL_OK;
    FL_FAIL(FL_ERR_INVAL, "op %s gives %s%s%s, but variable %s is %s%s%s",
            fl_node_type(n), fl_dtype_text(got->dtype),
            fl_shape_text(&got->shape, a), fl_kind_text(got->kind), v->name,
            fl_dtype_text(v->meta.dtype), fl_shape_text(&v->meta.shape, b),
            fl_kind_text(v->meta.kind));
}

/* What becomes of a variable that an operator does not give as declared. */
typedef enum on_differs { REFUSE, TAKE } on_differs;

/* What several operators write is what the last of them made. */
static bool is_rewritten(const fl_var *v)
{
    int n = 0;

    for (const fl_use *u = v->first_use; u; u = u->next)
        n += fl_node_writes_var(u->node, v);
    return n > 1;
}

static fl_status meet_meta(const fl_op_node *n, fl_var *v, const fl_tensor *got,
                           on_differs how)
{
    bool is_fixed = v->flags & (FL_VAR_DATA | FL_VAR_PARAM);

    if (how == REFUSE && fits_meta(v, got))
        return FL_OK;
    if (is_fixed || (how == REFUSE && !is_rewritten(v)))
        return check_meta(n, v, got);
    fl_tensor_like(&v->meta, got);
    return FL_OK;
}

/* --- outputs --------------------------------------------------------------- */

static fl_var *make_output(fl_op_node *n, const char *name,
                           const fl_tensor *meta)
{
    fl_var *v = NULL;

    if (fl_block_add_var(n->block, name, meta, 0, &v))
        return NULL;
    return v;
}

/* An operator writes a variable once; `seen` has those before. */
static fl_status check_output_name(const fl_op_node *n, const char *name,
                                   fl_map *seen)
{
    if (n->is_grad && !strcmp(name, FL_EMPTY_NAME))
        return FL_OK;
    FL_TRY(fl_check_name(name));
    if (fl_map_find(seen, name))
        FL_FAIL(FL_ERR_INVAL, "op %s: variable %s is two of its outputs",
                n->def->name, name);
    fl_map_put(seen, name, seen);
    return FL_OK;
}

static fl_status check_slot_names(const fl_op_node *n, const slot_names *names,
                                  fl_map *seen)
{
    for (int s = 0; s < fl_node_n_out(n); s++) {
        FL_TRY(check_count(n, fl_node_out_name(n, s), out_flags(n, s),
                           names[s].n));
        if (n->is_grad && names[s].n && names[s].n != n->in[s].n)
            FL_FAIL(FL_ERR_INVAL,
                    "op %s_grad: slot %s has %d variables, %s has %d",
                    n->def->name, fl_node_out_name(n, s), names[s].n,
                    n->def->in[s].name, n->in[s].n);
        for (int i = 0; i < names[s].n; i++)
            FL_TRY(check_output_name(n, names[s].names[i], seen));
    }
    return FL_OK;
}

static fl_status check_output_names(const fl_op_node *n,
                                    const slot_names *names)
{
    fl_map seen = { 0 };
    fl_status st = check_slot_names(n, names, &seen);

    fl_map_release(&seen);
    return st;
}

/* Outputs that exist, for an infer that goes by their declarations. */
static void bind_declared(fl_op_node *n, const slot_names *names)
{
    fl_arena *arena = &n->block->program->arena;

    for (int s = 0; s < fl_node_n_out(n); s++) {
        n->out[s].n = names[s].n;
        n->out[s].vars =
            fl_arena_alloc(arena, sizeof(fl_var *) * ((size_t)names[s].n + 1));
        for (int i = 0; i < names[s].n; i++)
            n->out[s].vars[i] = fl_block_find_var(n->block, names[s].names[i]);
    }
}

/* Infers the outputs, checks them against variables that exist and creates
   the others; an array is described by what was written to it last. Nothing is
   created before everything has been checked. */
static fl_status bind_outputs(fl_op_node *n, const slot_names *names,
                              on_differs how, fl_arena *tmp)
{
    infer_frame f = { 0 };

    FL_TRY(check_output_names(n, names));
    bind_declared(n, names);
    frame_inputs(&f, n, tmp);
    for (int s = 0; s < fl_node_n_out(n); s++) {
        bool *present = fl_arena_alloc(tmp, (size_t)names[s].n + 1);

        for (int i = 0; i < names[s].n; i++)
            present[i] = strcmp(names[s].names[i], FL_EMPTY_NAME) != 0;
        frame_output(&f.out[s], names[s].n, present, tmp);
    }
    FL_TRY(run_infer(&f, n));
    for (int s = 0; s < fl_node_n_out(n); s++)
        for (int i = 0; i < names[s].n; i++)
            if (n->out[s].vars[i] && f.out[s].t[i])
                FL_TRY(meet_meta(n, n->out[s].vars[i], f.out[s].t[i], how));
    for (int s = 0; s < fl_node_n_out(n); s++)
        for (int i = 0; i < names[s].n; i++) {
            fl_var **v = &n->out[s].vars[i];

            if (*v && (*v)->meta.kind == FL_KIND_ARRAY)
                fl_tensor_like(&(*v)->meta, f.out[s].t[i]);
            if (*v || !f.out[s].t[i])
                continue;
            *v = make_output(n, names[s].names[i], f.out[s].t[i]);
            if (!*v)
                return FL_ERR_INVAL;
        }
    return FL_OK;
}

static fl_status infer_node(fl_op_node *n, on_differs how)
{
    infer_frame f = { 0 };
    fl_arena tmp;
    fl_status st;

    fl_arena_init(&tmp, 4 << 10);
    frame_inputs(&f, n, &tmp);
    for (int s = 0; s < fl_node_n_out(n); s++) {
        bool *present = fl_arena_alloc(&tmp, (size_t)n->out[s].n + 1);

        for (int i = 0; i < n->out[s].n; i++)
            present[i] = n->out[s].vars[i] != NULL;
        frame_output(&f.out[s], n->out[s].n, present, &tmp);
    }
    st = run_infer(&f, n);
    for (int s = 0; s < fl_node_n_out(n) && !st; s++)
        for (int i = 0; i < n->out[s].n && !st; i++)
            if (n->out[s].vars[i])
                st = meet_meta(n, n->out[s].vars[i], f.out[s].t[i], how);
    fl_arena_release(&tmp);
    return st;
}

fl_status fl_node_infer(fl_op_node *n)
{
    return infer_node(n, REFUSE);
}

fl_status fl_node_infer_anew(fl_op_node *n)
{
    return infer_node(n, TAKE);
}

/* --- into and out of a block -----------------------------------------------*/

static size_t count_args(const fl_args *args, int n_slots)
{
    size_t n = 0;

    for (int s = 0; s < n_slots; s++)
        n += (size_t)args[s].n;
    return n;
}

static void add_uses(fl_op_node *n, const fl_args *args, int n_slots)
{
    for (int s = 0; s < n_slots; s++)
        for (int i = 0; i < args[s].n; i++) {
            fl_var *v = args[s].vars[i];
            fl_use *u = &n->uses[n->n_uses];

            if (!v)
                continue;
            n->n_uses++;
            *u = (fl_use){ n, v, v->last_use, NULL };
            if (u->prev)
                u->prev->next = u;
            else
                v->first_use = u;
            v->last_use = u;
        }
}

static void link_uses(fl_op_node *n)
{
    add_uses(n, n->in, fl_node_n_in(n));
    add_uses(n, n->out, fl_node_n_out(n));
    n->is_linked = true;
}

static void unlink_uses(fl_op_node *n)
{
    for (size_t i = 0; i < n->n_uses; i++) {
        fl_use *u = &n->uses[i];

        if (u->prev)
            u->prev->next = u->next;
        else
            u->var->first_use = u->next;
        if (u->next)
            u->next->prev = u->prev;
        else
            u->var->last_use = u->prev;
    }
    n->n_uses = 0;
    n->is_linked = false;
}

void fl_node_put_arg(fl_op_node *n, fl_args *slot, int i, fl_var *v)
{
    unlink_uses(n);
    slot->vars[i] = v;
    link_uses(n);
    n->block->program->version++;
}

void fl_node_read_instead(fl_op_node *n, const fl_var *v, fl_var *instead)
{
    for (int s = 0; s < fl_node_n_in(n); s++)
        for (int i = 0; i < n->in[s].n; i++)
            if (n->in[s].vars[i] == v)
                fl_node_put_arg(n, &n->in[s], i, instead);
}

void fl_node_add_arg(fl_op_node *n, fl_args *slot, fl_var *v)
{
    fl_arena *arena = &n->block->program->arena;
    fl_var **vars =
        fl_arena_alloc(arena, sizeof(fl_var *) * ((size_t)slot->n + 1));

    unlink_uses(n);
    for (int i = 0; i < slot->n; i++)
        vars[i] = slot->vars[i];
    vars[slot->n++] = v;
    slot->vars = vars;
    n->uses = fl_arena_alloc(arena, sizeof(fl_use) *
                                        (count_args(n->in, fl_node_n_in(n)) +
                                         count_args(n->out, fl_node_n_out(n))));
    link_uses(n);
    n->block->program->version++;
}

static void link_node(fl_block *b, fl_op_node *before, fl_op_node *n)
{
    n->next = before;
    n->prev = before ? before->prev : b->last;
    if (n->prev)
        n->prev->next = n;
    else
        b->first = n;
    if (before)
        before->prev = n;
    else
        b->last = n;
    b->n_ops++;
    b->program->version++;
    link_uses(n);
    fl_program_note_maker(n);
}

static fl_status make_node(fl_block *b, const fl_op_spec *spec, fl_arena *tmp,
                           fl_op_node **out)
{
    fl_arena *arena = &b->program->arena;
    slot_names in[NODE_SLOTS_MAX] = { 0 }, outs[NODE_SLOTS_MAX] = { 0 };
    fl_op_node *n = fl_arena_alloc(arena, sizeof(*n));

    n->block = b;
    n->role = spec->role;
    n->tag = spec->tag;
    FL_TRY(find_kind(b->program, spec->type, &n->kind));
    n->def = n->kind->def;
    n->is_grad = n->kind->is_grad;
    n->in =
        fl_arena_alloc(arena, sizeof(fl_args) * ((size_t)n->kind->n_in + 1));
    n->out =
        fl_arena_alloc(arena, sizeof(fl_args) * ((size_t)n->kind->n_out + 1));
    FL_TRY(sort_args(&(side){ spec->type, n->kind->in, n->kind->n_in },
                     spec->in, spec->n_in, tmp, in));
    FL_TRY(sort_args(&(side){ spec->type, n->kind->out, n->kind->n_out },
                     spec->out, spec->n_out, tmp, outs));
    FL_TRY(bind_inputs(n, in));
    FL_TRY(bind_attrs(n, spec));
    if (n->is_grad)
        FL_TRY(fl_node_check_grad_inputs(n));
    FL_TRY(bind_outputs(n, outs, spec->redeclares ? TAKE : REFUSE, tmp));
    if (n->is_grad)
        FL_TRY(fl_node_check_grad_sides(n));
    n->uses = fl_arena_alloc(
        arena, sizeof(fl_use) * (count_args(n->in, fl_node_n_in(n)) +
                                 count_args(n->out, fl_node_n_out(n)) + 1));
    *out = n;
    return FL_OK;
}

fl_status fl_block_insert(fl_block *b, fl_op_node *before,
                          const fl_op_spec *spec, fl_op_node **out)
{
    fl_op_node *n = NULL;
    fl_arena tmp;
    fl_status st;

    fl_arena_init(&tmp, 4 << 10);
    st = make_node(b, spec, &tmp, &n);
    fl_arena_release(&tmp);
    if (st)
        return fl_err_at_op(st, spec->tag, spec->type);
    link_node(b, before, n);
    if (out)
        *out = n;
    return FL_OK;
}

fl_status fl_block_append(fl_block *b, const fl_op_spec *spec, fl_op_node **out)
{
    return fl_block_insert(b, NULL, spec, out);
}

void fl_block_remove(fl_block *b, fl_op_node *n)
{
    if (n->prev)
        n->prev->next = n->next;
    else
        b->first = n->next;
    if (n->next)
        n->next->prev = n->prev;
    else
        b->last = n->prev;
    b->n_ops--;
    b->program->version++;
    unlink_uses(n);
}

void fl_block_move(fl_block *b, fl_op_node *n, fl_op_node *before)
{
    if (n == before)
        return;
    fl_block_remove(b, n);
    link_node(b, before, n);
}
