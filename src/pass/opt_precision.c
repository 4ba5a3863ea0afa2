/* opt_precision.c - marks the products that are computed in bf16.
 *
 *     fc (Input, W, Bias) -> (Out)
 *     fc (Input, W, Bias) -> (Out, Rounded) {precision=bf16}
 *
 * and its gradient alike, which takes Rounded instead of Input. Only products of
 * f32 with parameters, 16 wide on both sides at least, below which nothing is
 * gained; and not the last layer, whose errors nothing behind it evens out: a
 * product stays f32 when no other one follows it. Losses, norms, softmax and updates
 * have no bf16 at all. What an operator says itself, f32 or bf16, stays.
 *
 * Variables stay f32, and so does all that leaves the program. */
#include "pass/match.h"
#include "pass/runner.h"

#define PRECISION "precision"
#define ROUNDED "Rounded"
#define WIDE 16

/* Operators that have the attribute. */
typedef struct product {
    const char *op, *x, *w;
} product;

static const product products[] = { { "fc", "Input", "W" },
                                    { "mul", "X", "Y" } };

static const product *product_of(const fl_op_node *n)
{
    for (size_t i = 0; i < FL_LEN(products); i++)
        if (fl_match_op(n, products[i].op))
            return &products[i];
    return NULL;
}

/* --- lists ------------------------------------------------------------------- */

/* The name of an operator, of a variable, or of a layer, whose variables begin
   with it and a dot. */
static bool is_called(const char *full, const char *name, size_t len)
{
    return !strncmp(full, name, len) && (full[len] == '\0' || full[len] == '.');
}

static bool has_variable(const fl_args *slots, int n, const char *name,
                         size_t len)
{
    for (int s = 0; s < n; s++)
        for (int i = 0; i < slots[s].n; i++)
            if (slots[s].vars[i] &&
                is_called(slots[s].vars[i]->name, name, len))
                return true;
    return false;
}

static bool is_operator(const fl_op_node *n, const char *name, size_t len)
{
    return strlen(n->def->name) == len && !strncmp(n->def->name, name, len);
}

typedef struct listed {
    bool has_names, by_operator, by_variable;
} listed;

static listed find_in(const char *list, const fl_op_node *n)
{
    listed l = { 0 };
    const char *name;
    size_t len;

    while (fl_pass_next_name(&list, &name, &len)) {
        l.has_names = true;
        l.by_operator |= is_operator(n, name, len);
        l.by_variable |= has_variable(n->in, fl_node_n_in(n), name, len) ||
                         has_variable(n->out, fl_node_n_out(n), name, len);
    }
    return l;
}

static bool is_product_name(const char *name)
{
    for (size_t i = 0; i < FL_LEN(products); i++)
        if (!strcmp(products[i].op, name))
            return true;
    return false;
}

/* Who allows what cannot be is told. */
static fl_status check_allowed(const fl_program *p, const char *allow)
{
    const char *name;
    char word[64];
    size_t len;

    while (fl_pass_next_name(&allow, &name, &len)) {
        snprintf(word, sizeof(word), "%.*s", (int)len, name);
        if (p->ops->find(word) && !is_product_name(word))
            FL_FAIL(
                FL_ERR_INVAL,
                "precision_allow: operator %s is always computed in f32; fc "
                "and mul have bf16",
                word);
    }
    return FL_OK;
}

/* --- which --------------------------------------------------------------------- */

static void add_all(fl_map *m, const fl_args *slots, int n)
{
    for (int s = 0; s < n; s++)
        for (int i = 0; i < slots[s].n; i++)
            if (slots[s].vars[i])
                fl_map_put(m, slots[s].vars[i]->name, m);
}

static bool has_any(const fl_map *m, const fl_op_node *n)
{
    for (int s = 0; s < fl_node_n_out(n); s++)
        for (int i = 0; i < n->out[s].n; i++)
            if (n->out[s].vars[i] && fl_map_find(m, n->out[s].vars[i]->name))
                return true;
    return false;
}

static bool is_wide(const fl_op_node *n, const product *p)
{
    const fl_var *x = fl_match_in(n, p->x), *w = fl_match_in(n, p->w);
    const fl_shape *s = w ? &w->meta.shape : NULL;

    return x && w && (w->flags & FL_VAR_PARAM) && s->rank == 2 &&
           w->meta.dtype == FL_DTYPE_F32 && s->dim[0] >= WIDE &&
           s->dim[1] >= WIDE;
}

static bool is_wanted(const fl_op_node *n, const fl_precision *how,
                      bool is_last)
{
    const product *p = product_of(n);
    listed allowed, denied;

    if (!how->is_bf16 || *fl_match_attr(n, PRECISION)->s || !is_wide(n, p))
        return false;
    allowed = find_in(how->allow, n);
    denied = find_in(how->deny, n);
    if (denied.by_operator || denied.by_variable)
        return false;
    if (allowed.by_variable)
        return true;
    return !is_last && (!allowed.has_names || allowed.by_operator);
}

/* --- marking ------------------------------------------------------------------- */

static void copy_args(fl_op_builder *b, const fl_op_node *n)
{
    for (int s = 0; s < fl_node_n_in(n); s++)
        fl_op_builder_ins(b, fl_node_in_name(n, s), n->in[s]);
    for (int s = 0; s < fl_node_n_out(n); s++)
        fl_op_builder_outs(b, fl_node_out_name(n, s), n->out[s]);
}

/* The product again, with the mark, and with Rounded where a gradient of the
   weights will read it. */
static fl_status put_product(fl_op_node *n, bool keeps, fl_op_node **out)
{
    fl_op_builder b;

    fl_op_builder_init_like(&b, n);
    copy_args(&b, n);
    fl_op_builder_str(&b, PRECISION, "bf16");
    if (keeps)
        fl_op_builder_out_name(&b, ROUNDED,
                               fl_arena_printf(&b.tmp, "%s@ROUNDED",
                                               fl_match_out(n, "Out")->name));
    FL_TRY(fl_op_builder_insert(&b, n, out));
    fl_block_remove(n->block, n);
    return FL_OK;
}

static fl_status put_grad(fl_op_node *grad, const fl_op_node *marked)
{
    fl_op_builder b;

    fl_op_builder_init_grad(&b, marked);
    fl_op_builder_in(&b, "Out@GRAD", fl_match_in(grad, "Out@GRAD"));
    for (int s = 0; s < fl_node_n_out(grad); s++)
        fl_op_builder_outs(&b, fl_node_out_name(grad, s), grad->out[s]);
    FL_TRY(fl_op_builder_insert(&b, grad, NULL));
    fl_block_remove(grad->block, grad);
    return FL_OK;
}

static fl_status mark(fl_op_node *n, fl_op_node **out)
{
    fl_op_node *grad = fl_match_grad(n);
    char name[32];

    snprintf(name, sizeof(name), "%s@GRAD", product_of(n)->w);
    FL_TRY(put_product(n, fl_match_out(grad, name), out));
    return grad ? put_grad(grad, *out) : FL_OK;
}

/* Backwards, so that what leads to a product is known when its maker is met. */
static fl_status precision_mark(fl_program *p, const fl_precision *how,
                                bool *changed)
{
    fl_map leads = { 0 };
    fl_status st = check_allowed(p, how->allow);

    for (fl_op_node *n = fl_program_main(p)->last, *prev; !st && n; n = prev) {
        bool is_product = product_of(n);
        bool is_inner = has_any(&leads, n);

        prev = n->prev;
        if (n->role != FL_OP_ROLE_FORWARD || n->is_grad)
            continue;
        if (is_product || is_inner)
            add_all(&leads, n->in, fl_node_n_in(n));
        if (is_product && is_wanted(n, how, !is_inner)) {
            st = mark(n, &n);
            *changed = true;
        }
    }
    fl_map_release(&leads);
    return st;
}

const fl_pass fl_pass_opt_precision = {
    .name = "opt_precision",
    .doc = "mark products that are computed in bf16",
    .required = true,
    .mark = precision_mark,
};
