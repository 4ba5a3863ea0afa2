/* print.c - the text form of a program. docs/formats/ir.md describes it. */
#include "ir/program.h"

#include <inttypes.h>

#include "ir/attr.h"

static const char *const role_names[] = { "", " @backward", " @optimize",
                                          " @lr", " @rpc" };

void fl_type_print(const fl_tensor *t, fl_str *out)
{
    char buf[FL_SHAPE_TEXT_MAX];

    fl_str_addf(out, "%s%s", fl_dtype_text(t->dtype),
                fl_shape_text(&t->shape, buf));
    if (t->n_lod)
        fl_str_addf(out, " lod=%d", t->n_lod);
    if (t->kind == FL_KIND_ROWS)
        fl_str_add(out, " rows");
    if (t->kind == FL_KIND_ARRAY)
        fl_str_add(out, " array");
}

static void print_param_words(const fl_var *v, fl_str *out)
{
    char buf[FL_NUMBER_TEXT_MAX];

    if (v->init)
        fl_str_addf(out, " init=%s", v->init);
    if (v->lr != 1)
        fl_str_addf(out, " lr=%s", fl_number_text(v->lr, buf));
    if (v->regularizer)
        fl_str_addf(out, " regularizer=%s", v->regularizer);
    if (v->clip)
        fl_str_addf(out, " clip=%s", v->clip);
    fl_str_add(out, v->flags & FL_VAR_FROZEN ? " frozen" : " trainable");
    if (v->flags & FL_VAR_TABLE)
        fl_str_add(out, " table");
}

/* It is there before an operator that changes it, so an array may have no other
   line. */
static bool is_array_that_grows(const fl_var *v)
{
    if (v->meta.kind != FL_KIND_ARRAY)
        return false;
    for (const fl_use *u = v->first_use; u; u = u->next)
        if (fl_node_uses_var(u->node, v) && fl_node_writes_var(u->node, v))
            return true;
    return false;
}

static bool runs_block(const fl_op_node *n)
{
    for (int i = 0; !n->is_grad && i < fl_op_n_attrs(n->def); i++)
        if (n->attrs[i].type == FL_ATTR_BLOCK && n->attrs[i].i >= 0)
            return true;
    return false;
}

static bool is_result(const fl_op_node *n, const fl_var *v)
{
    for (int s = 0; s < fl_node_n_out(n); s++)
        for (int i = 0; i < n->out[s].n; i++)
            if (n->out[s].vars[i] == v)
                return !(n->def->out[s].flags & FL_OP_SLOT_BYPRODUCT);
    return false;
}

static bool is_written_before(const fl_op_node *n, const fl_var *v)
{
    for (const fl_op_node *o = n->prev; o; o = o->prev)
        if (fl_node_writes_var(o, v))
            return true;
    return false;
}

/* The block comes later in the text, so nothing tells yet what it makes. */
static bool is_result_of_block(const fl_var *v)
{
    for (const fl_use *u = v->first_use; u; u = u->next)
        if (u->node->block == v->block && runs_block(u->node) &&
            is_result(u->node, v) && !is_written_before(u->node, v))
            return true;
    return false;
}

/* The operator that runs a block gives it values of its own, and a name of
   the block may be that of another variable outside. */
static bool is_of_block_alone(const fl_var *v)
{
    const fl_block *b = v->block;

    if (b->parent < 0)
        return false;
    if (fl_block_find_var(b->program->blocks.data[b->parent], v->name))
        return true;
    for (const fl_use *u = v->first_use; u; u = u->next)
        if (fl_node_writes_var(u->node, v))
            return false;
    return v->first_use != NULL;
}

/* Temporaries follow from the operators and are not printed, unless they
   carry something that does not. */
static bool is_printed(const fl_var *v)
{
    return (v->flags & (FL_VAR_DATA | FL_VAR_PERSIST | FL_VAR_DECLARED |
                        FL_VAR_STOP_GRAD)) ||
           is_array_that_grows(v) || is_result_of_block(v) ||
           is_of_block_alone(v);
}

static void print_var(const fl_var *v, const char *indent, fl_str *out)
{
    bool param = v->flags & FL_VAR_PARAM;

    fl_str_addf(out, "%s%s %s : ", indent, param ? "param" : "var", v->name);
    fl_type_print(&v->meta, out);
    if (param)
        print_param_words(v, out);
    else if (v->flags & FL_VAR_PERSIST)
        fl_str_add(out, " persist");
    if (v->flags & FL_VAR_DATA)
        fl_str_add(out, " data");
    if (v->flags & FL_VAR_STOP_GRAD)
        fl_str_add(out, " stop_gradient");
    if (v->flags & FL_VAR_DECLARED)
        fl_str_add(out, " declared");
    fl_str_add(out, "\n");
}

static void print_list(const fl_args *a, fl_str *out)
{
    if (a->n != 1)
        fl_str_add(out, "[");
    for (int i = 0; i < a->n; i++)
        fl_str_addf(out, "%s%s", i ? "," : "",
                    a->vars[i] ? a->vars[i]->name : FL_EMPTY_NAME);
    if (a->n != 1)
        fl_str_add(out, "]");
}

static void print_side(const fl_op_node *n, bool is_in, fl_str *out)
{
    int n_slots = is_in ? fl_node_n_in(n) : fl_node_n_out(n);
    const fl_args *args = is_in ? n->in : n->out;
    bool first = true;

    fl_str_add(out, "(");
    for (int s = 0; s < n_slots; s++) {
        if (!args[s].n)
            continue;
        fl_str_addf(out, "%s%s=", first ? "" : ", ",
                    is_in ? fl_node_in_name(n, s) : fl_node_out_name(n, s));
        print_list(&args[s], out);
        first = false;
    }
    fl_str_add(out, ")");
}

static bool is_default(const fl_op_node *n, int i)
{
    fl_attr def;
    fl_arena tmp;
    bool same;

    fl_arena_init(&tmp, 1 << 10);
    same = !fl_attr_parse(n->def->attrs[i].value, n->def->attrs[i].type, &tmp,
                          &def) &&
           fl_attr_equal(&def, &n->attrs[i]);
    fl_arena_release(&tmp);
    return same;
}

static void print_attrs(const fl_op_node *n, fl_str *out)
{
    bool any = false;

    for (int i = 0; i < fl_op_n_attrs(n->def); i++) {
        if (is_default(n, i))
            continue;
        fl_str_addf(out, "%s%s=", any ? ", " : " {", n->def->attrs[i].name);
        fl_attr_print(&n->attrs[i], out);
        any = true;
    }
    if (any)
        fl_str_add(out, "}");
}

void fl_node_print(const fl_op_node *n, fl_str *out)
{
    fl_str_addf(out, "op %s ", fl_node_type(n));
    print_side(n, true, out);
    fl_str_add(out, " -> ");
    print_side(n, false, out);
    print_attrs(n, out);
    fl_str_add(out, role_names[n->role]);
}

static void print_block(const fl_block *b, const char *indent, fl_str *out)
{
    for (const fl_var *v = b->first_var; v; v = v->next)
        if (is_printed(v))
            print_var(v, indent, out);
    for (const fl_op_node *n = b->first; n; n = n->next) {
        fl_str_add(out, indent);
        fl_node_print(n, out);
        fl_str_add(out, "\n");
    }
}

char *fl_program_print(const fl_program *p)
{
    fl_str out = { 0 };

    if (p->seed)
        fl_str_addf(&out, "seed %" PRIu64 "\n", p->seed);
    if (p->accumulate > 1)
        fl_str_addf(&out, "accumulate %" PRIu64 "\n", p->accumulate);
    print_block(fl_program_main(p), "", &out);
    for (size_t i = 1; i < p->blocks.len; i++) {
        const fl_block *b = p->blocks.data[i];

        fl_str_addf(&out, "block %d parent %d\n", b->index, b->parent);
        print_block(b, "  ", &out);
        fl_str_add(&out, "end\n");
    }
    for (size_t i = 0; i < p->fetches.len; i++)
        fl_str_addf(&out, "fetch %s\n", p->fetches.data[i]);
    if (!out.data)
        fl_str_add(&out, "");
    return fl_str_take(&out);
}
