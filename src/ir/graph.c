/* graph.c - folds a program into boxes and lines.
 *
 * Every operator, and every variable that is there before the first operator
 * that reads it, is an item with a number that says what it is: an operator's is
 * made of its type, its attributes and the numbers of what it reads, in the order
 * of its slots. Items of equal numbers do the same, so that they are one box; as
 * a number holds those before it, boxes never wait for each other in a ring.
 *
 * Updates, messages and first values differ in what they read and are alike in
 * what they are: there the type counts, and how many such items come before
 * (their depth).
 */
#include "ir/graph.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>

#include "base/hash.h"
#include "ir/attr.h"

/* So many of a kind are one box. Two towers are better seen side by side. */
#define FOLD_LEAST 3
#define FOLD_LEAST_LOOSE 2

typedef struct item {
    const fl_op_node *node; /* NULL: a variable */
    const fl_var *var;
    fl_box_kind kind;
    fl_op_role role;
    int block;
    int depth; /* of loose ones */
    bool is_loose;
    uint64_t number;
    size_t box;
} item;

/* Where a variable comes from at a point of the program. */
typedef struct source {
    size_t item;
    uint64_t number;
} source;

typedef struct use {
    size_t from, to; /* items, then boxes */
    const fl_var *var;
    size_t order;
} use;

typedef struct folding {
    FL_VEC(item) items;
    FL_VEC(source) sources;
    FL_VEC(use) uses;
    fl_map now;     /* of a block: names to sources, counted from 1 */
    size_t *sorted; /* items by block and number */
} folding;

static uint64_t mix(uint64_t a, uint64_t b)
{
    return fl_mix64(a * 31 + b + 0x9e3779b97f4a7c15u);
}

/* --- numbers -------------------------------------------------------------- */

static uint64_t type_number(const fl_tensor *t)
{
    uint64_t h = mix((uint64_t)t->dtype, (uint64_t)t->kind);

    h = mix(h, (uint64_t)t->n_lod);
    for (int i = 0; i < t->shape.rank; i++)
        h = mix(h, (uint64_t)t->shape.dim[i]);
    return h;
}

/* Names that differ in their digits alone are of one family: emb_0, emb_1. */
static uint64_t family_number(const char *name)
{
    uint64_t h = 0;

    for (const char *c = name; *c; c++)
        if (!isdigit((unsigned char)*c))
            h = mix(h, (unsigned char)*c);
        else if (c == name || !isdigit((unsigned char)c[-1]))
            h = mix(h, '0');
    return h;
}

static uint64_t attrs_number(const fl_op_node *n)
{
    fl_str text = { 0 };
    uint64_t h;

    for (int i = 0; i < fl_op_n_attrs(n->def); i++) {
        fl_str_add(&text, ",");
        fl_attr_print(&n->attrs[i], &text);
    }
    h = fl_hash_str(fl_str_text(&text));
    fl_str_release(&text);
    return h;
}

/* --- items ---------------------------------------------------------------- */

static size_t add_item(folding *f, const item *i)
{
    fl_vec_push(&f->items, *i);
    return f->items.len - 1;
}

static void set_source(folding *f, const fl_var *v, size_t from, uint64_t slot)
{
    source s = { from, mix(f->items.data[from].number, slot) };

    fl_vec_push(&f->sources, s);
    fl_map_put(&f->now, v->name, (void *)(uintptr_t)f->sources.len);
}

static void add_variable(folding *f, const fl_var *v, const fl_op_node *reader)
{
    bool lives = v->flags & FL_VAR_PERSIST;
    item i = { .var = v,
               .kind = lives ? FL_BOX_STATE : FL_BOX_INPUT,
               .role = reader->role,
               .block = reader->block->index };

    i.number = mix(type_number(&v->meta), lives ? family_number(v->name) : 1);
    set_source(f, v, add_item(f, &i), 0);
}

static const source *source_of(folding *f, const fl_var *v,
                               const fl_op_node *reader)
{
    if (!fl_map_find(&f->now, v->name))
        add_variable(f, v, reader);
    return &f->sources.data[(uintptr_t)fl_map_find(&f->now, v->name) - 1];
}

/* Not its own state, which every update reads and writes, and nothing that is
   there for its shape. */
static bool is_drawn(const fl_op_node *n, int slot, const fl_var *v)
{
    return v && fl_node_reads(n, slot) &&
           !((v->flags & FL_VAR_PERSIST) && fl_node_writes_var(n, v));
}

static bool has_inputs(const fl_op_node *n)
{
    for (int s = 0; s < fl_node_n_in(n); s++)
        if (n->in[s].n)
            return true;
    return false;
}

static bool is_loose(const fl_op_node *n)
{
    return n->role == FL_OP_ROLE_OPTIMIZE || n->role == FL_OP_ROLE_LR ||
           n->role == FL_OP_ROLE_RPC || !has_inputs(n);
}

/* Reads one variable: what the operator is depends on where it comes from. */
static void read_variable(folding *f, item *i, int slot, const fl_var *v)
{
    const source *s = source_of(f, v, i->node);
    const item *from = &f->items.data[s->item];
    use u = { s->item, 0, v, f->uses.len };

    i->number = mix(i->number, mix((uint64_t)slot, s->number));
    if (from->is_loose && from->depth >= i->depth)
        i->depth = from->depth + 1;
    fl_vec_push(&f->uses, u);
}

static void read_inputs(folding *f, item *i)
{
    const fl_op_node *n = i->node;

    for (int s = 0; s < fl_node_n_in(n); s++)
        for (int k = 0; k < n->in[s].n; k++)
            if (is_drawn(n, s, n->in[s].vars[k]))
                read_variable(f, i, s, n->in[s].vars[k]);
}

static void add_operator(folding *f, const fl_op_node *n)
{
    size_t first_use = f->uses.len, at;
    item i = { .node = n,
               .kind = FL_BOX_OP,
               .role = n->role,
               .block = n->block->index,
               .is_loose = is_loose(n) };
    uint64_t type = mix(fl_hash_str(fl_node_type(n)), (uint64_t)n->role);

    i.number = mix(type, attrs_number(n));
    read_inputs(f, &i);
    if (i.is_loose)
        i.number = mix(type, (uint64_t)i.depth);
    at = add_item(f, &i);
    for (size_t u = first_use; u < f->uses.len; u++)
        f->uses.data[u].to = at;
    for (int s = 0; s < fl_node_n_out(n); s++)
        for (int k = 0; k < n->out[s].n; k++)
            if (n->out[s].vars[k])
                set_source(f, n->out[s].vars[k], at, (uint64_t)s);
}

static void add_fetch(folding *f, const fl_block *b, const char *name)
{
    const fl_var *v = fl_block_find_var(b, name);
    uintptr_t at = v ? (uintptr_t)fl_map_find(&f->now, name) : 0;
    item i = { .var = v, .kind = FL_BOX_FETCH };
    use u = { 0, 0, v, f->uses.len };

    if (!at || at > f->sources.len)
        return; /* nobody makes it */
    u.from = f->sources.data[at - 1].item;
    i.role = f->items.data[u.from].role;
    i.number = mix(fl_hash_str(name), FL_BOX_FETCH);
    u.to = add_item(f, &i);
    fl_vec_push(&f->uses, u);
}

static void add_block(folding *f, const fl_program *p, const fl_block *b)
{
    for (const fl_op_node *n = b->first; n; n = n->next)
        add_operator(f, n);
    for (size_t i = 0; !b->index && i < p->fetches.len; i++)
        add_fetch(f, b, p->fetches.data[i]);
    fl_map_release(&f->now);
    f->now = (fl_map){ 0 };
}

/* Variables are alike when what reads them is: a label is not one of the ids
   that happen to have its shape. */
static void tell_variables_apart(folding *f)
{
    uint64_t *more = fl_alloc((f->items.len + 1) * sizeof(*more));

    for (size_t u = 0; u < f->uses.len; u++)
        more[f->uses.data[u].from] +=
            fl_mix64(f->items.data[f->uses.data[u].to].number);
    for (size_t i = 0; i < f->items.len; i++)
        if (!f->items.data[i].node)
            f->items.data[i].number = mix(f->items.data[i].number, more[i]);
    fl_free(more);
}

/* --- boxes ---------------------------------------------------------------- */

static int compare_items(const item *a, const item *b)
{
    if (a->block != b->block)
        return a->block < b->block ? -1 : 1;
    if (a->kind != b->kind)
        return a->kind < b->kind ? -1 : 1;
    return a->number < b->number ? -1 : a->number > b->number;
}

static int compare_sorted(const void *a, const void *b, void *arg)
{
    const folding *f = arg;
    size_t i = *(const size_t *)a, k = *(const size_t *)b;
    int order = compare_items(&f->items.data[i], &f->items.data[k]);

    return order ? order : (i > k) - (i < k);
}

/* Each item gets the first one of its box in `box`. */
static void find_equals(folding *f)
{
    size_t n = f->items.len, hi;

    f->sorted = fl_alloc((n + 1) * sizeof(*f->sorted));
    for (size_t i = 0; i < n; i++)
        f->sorted[i] = i;
    if (n)
        qsort_r(f->sorted, n, sizeof(*f->sorted), compare_sorted, f);
    for (size_t lo = 0; lo < n; lo = hi) {
        const item *first = &f->items.data[f->sorted[lo]];
        size_t least = first->is_loose ? FOLD_LEAST_LOOSE : FOLD_LEAST;

        for (hi = lo; hi < n; hi++)
            if (compare_items(first, &f->items.data[f->sorted[hi]]))
                break;
        for (size_t i = lo; i < hi; i++)
            f->items.data[f->sorted[i]].box =
                hi - lo >= least ? f->sorted[lo] : f->sorted[i];
    }
}

/* From the first item of a box to the box. Members come in program order. */
static void make_boxes(folding *f, fl_graph *g)
{
    for (size_t i = 0; i < f->items.len; i++) {
        item *it = &f->items.data[i];

        if (it->box == i) {
            fl_box b = { .kind = it->kind,
                         .role = it->role,
                         .block = it->block };

            it->box = g->boxes.len;
            fl_vec_push(&g->boxes, b);
        } else {
            it->box = f->items.data[it->box].box;
        }
        if (it->node)
            fl_vec_push(&g->boxes.data[it->box].nodes, it->node);
        else
            fl_vec_push(&g->boxes.data[it->box].vars, it->var);
    }
}

/* --- lines ---------------------------------------------------------------- */

static int compare_uses(const void *a, const void *b)
{
    const use *x = a, *y = b;

    if (x->to != y->to)
        return x->to < y->to ? -1 : 1;
    if (x->from != y->from)
        return x->from < y->from ? -1 : 1;
    return (x->order > y->order) - (x->order < y->order);
}

static bool is_same_type(const fl_var *a, const fl_var *b)
{
    return type_number(&a->meta) == type_number(&b->meta);
}

/* Is it of the line that was made last? */
static bool is_of_last(const fl_graph *g, const use *u)
{
    const fl_graph_line *lines = g->lines.data;
    size_t n = g->lines.len;

    return n && lines[n - 1].from == u->from && lines[n - 1].to == u->to;
}

static void add_use(fl_graph *g, const use *u)
{
    fl_graph_line line = { u->from, u->to, 1, u->var, true };

    if (u->from == u->to)
        return;
    if (is_of_last(g, u)) {
        fl_graph_line *last = &g->lines.data[g->lines.len - 1];

        last->n++;
        last->is_alike = last->is_alike && is_same_type(last->var, u->var);
        return;
    }
    fl_vec_push(&g->lines, line);
}

static void make_lines(folding *f, fl_graph *g)
{
    for (size_t i = 0; i < f->uses.len; i++) {
        use *u = &f->uses.data[i];

        u->from = f->items.data[u->from].box;
        u->to = f->items.data[u->to].box;
    }
    if (f->uses.len)
        qsort(f->uses.data, f->uses.len, sizeof(use), compare_uses);
    for (size_t i = 0; i < f->uses.len; i++)
        add_use(g, &f->uses.data[i]);
}

void fl_graph_init(fl_graph *g, const fl_program *p)
{
    folding f = { 0 };

    *g = (fl_graph){ 0 };
    for (size_t i = 0; i < p->blocks.len; i++)
        add_block(&f, p, p->blocks.data[i]);
    tell_variables_apart(&f);
    find_equals(&f);
    make_boxes(&f, g);
    make_lines(&f, g);
    fl_free(f.sorted);
    fl_vec_release(&f.items);
    fl_vec_release(&f.sources);
    fl_vec_release(&f.uses);
}

void fl_graph_release(fl_graph *g)
{
    for (size_t i = 0; i < g->boxes.len; i++) {
        fl_vec_release(&g->boxes.data[i].nodes);
        fl_vec_release(&g->boxes.data[i].vars);
    }
    fl_vec_release(&g->boxes);
    fl_vec_release(&g->lines);
}

size_t fl_box_count(const fl_box *b)
{
    return b->kind == FL_BOX_OP ? b->nodes.len : b->vars.len;
}
