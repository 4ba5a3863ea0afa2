/* program.c - a program of PaddlePaddle 1.8 as one of ours.
 *
 * First all operators are looked at: who uses which variable, and what is not
 * there in this version, so that one message has all of it. Then block 0 is
 * written operator by operator; a block that an operator runs is written when
 * the operator is met, since only then do the variables around it exist.
 */
#include "paddle18/program.h"

#include <inttypes.h>
#include <string.h>

#include "base/log.h"
#include "base/map.h"
#include "ir/builder.h"
#include "paddle18/attrs.h"

#define GRAD_OP_SUFFIX "_grad"
#define SCALE_PREFIX "save_infer_model/"

/* A message has about a thousand bytes; the log has what comes behind. */
#define LACKS_BYTES_MAX 700

#define BLOCK_DEPTH_MAX 16

/* How a variable is used, over all blocks. */
enum { READ = 1, WRITTEN = 2, IS_RATE = 4 };

typedef struct use {
    unsigned flags;
} use;

typedef struct translation {
    const fl_p18_program_desc *desc;
    const fl_op_set *ops;
    fl_p18_program *out;
    fl_arena arena;
    fl_map uses;       /* use, by name */
    fl_map aliases;    /* what a scale by 1 scales, by the name of its output */
    fl_map *vars;      /* of each block: fl_p18_var_desc by name */
    fl_block **blocks; /* of our program, NULL until they are written */
    fl_map lacking;    /* operators that were told already */
    fl_str lacks;
    size_t n_lacks, n_untold;
} translation;

static const fl_p18_block_desc *block_at(const translation *t, size_t i)
{
    return FL_P18_AT(fl_p18_block_desc, t->desc->blocks, i);
}

static const fl_p18_op *op_at(const fl_p18_block_desc *b, size_t i)
{
    return FL_P18_AT(fl_p18_op, b->ops, i);
}

/* --- what there is -------------------------------------------------------- */

typedef struct op_kind {
    const fl_op *def;
    bool is_grad;
} op_kind;

/* def is NULL when there is none. */
static op_kind find_kind(const translation *t, const char *type)
{
    op_kind k = { .def = t->ops->find(type) };
    size_t len = strlen(type), tail = strlen(GRAD_OP_SUFFIX);
    fl_str base = { 0 };

    if (k.def || len <= tail || strcmp(type + len - tail, GRAD_OP_SUFFIX))
        return k;
    fl_str_addf(&base, "%.*s", (int)(len - tail), type);
    k.def = t->ops->find(base.data);
    k.is_grad = k.def != NULL;
    if (k.def && !k.def->back)
        k.def = NULL;
    fl_str_release(&base);
    return k;
}

/* The slot without @GRAD; NULL when it is not that of a gradient. */
static const char *forward_slot(translation *t, const char *slot)
{
    size_t len = strlen(slot), tail = strlen(FL_GRAD_SUFFIX);

    if (len <= tail || strcmp(slot + len - tail, FL_GRAD_SUFFIX))
        return NULL;
    return fl_arena_printf(&t->arena, "%.*s", (int)(len - tail), slot);
}

static bool has_in(translation *t, const op_kind *k, const char *slot)
{
    const char *forward;

    if (!k->is_grad)
        return fl_op_find_in(k->def, slot) >= 0;
    forward = forward_slot(t, slot);
    if (forward)
        return fl_op_find_out(k->def, forward) >= 0;
    return fl_op_find_in(k->def, slot) >= 0 ||
           fl_op_find_out(k->def, slot) >= 0;
}

static bool has_out(translation *t, const op_kind *k, const char *slot)
{
    const char *forward;

    if (!k->is_grad)
        return fl_op_find_out(k->def, slot) >= 0;
    forward = forward_slot(t, slot);
    return forward && fl_op_find_in(k->def, forward) >= 0;
}

static bool is_feed(const fl_p18_op *op)
{
    return !strcmp(op->type, "feed");
}

static bool is_fetch(const fl_p18_op *op)
{
    return !strcmp(op->type, "fetch");
}

/* --- who uses what -------------------------------------------------------- */

static void note_use(translation *t, const char *name, unsigned flag)
{
    use *u = fl_map_find(&t->uses, name);

    if (!u) {
        u = fl_arena_alloc(&t->arena, sizeof(*u));
        fl_map_put(&t->uses, name, u);
    }
    u->flags |= flag;
}

static bool is_used(const translation *t, const char *name, unsigned flag)
{
    const use *u = fl_map_find(&t->uses, name);

    return u && (u->flags & flag);
}

static void note_args(translation *t, const fl_wire_list *args, unsigned flag,
                      const char *special, unsigned special_flag)
{
    for (size_t i = 0; i < args->n; i++) {
        const fl_p18_arg *a = FL_P18_AT(fl_p18_arg, *args, i);
        unsigned f = strcmp(a->slot, special) ? flag : special_flag;

        for (size_t k = 0; k < a->vars.n; k++)
            note_use(t, FL_P18_NAME(a->vars, k), f);
    }
}

static void note_op(translation *t, const fl_p18_op *op)
{
    note_args(t, &op->inputs, READ, "LearningRate", READ | IS_RATE);
    note_args(t, &op->outputs, WRITTEN, "ParamOut", 0);
}

/* --- what there is not ---------------------------------------------------- */

static void lack(translation *t, const char *text)
{
    t->n_lacks++;
    if (t->lacks.len + strlen(text) > LACKS_BYTES_MAX) {
        t->n_untold++;
        FL_WARN("import", "lacks=\"%s\"", text);
        return;
    }
    fl_str_addf(&t->lacks, "%s%s", t->lacks.len ? ", " : "", text);
}

static void lack_once(translation *t, const char *text)
{
    if (fl_map_find(&t->lacking, text))
        return;
    fl_map_put(&t->lacking, text, (void *)text);
    lack(t, text);
}

static void check_inputs(translation *t, const fl_p18_op *op, const op_kind *k)
{
    for (size_t i = 0; i < op->inputs.n; i++) {
        const fl_p18_arg *a = FL_P18_AT(fl_p18_arg, op->inputs, i);

        if (a->vars.n && !has_in(t, k, a->slot))
            lack_once(t, fl_arena_printf(&t->arena, "input %s of %s", a->slot,
                                         op->type));
    }
}

static void check_outputs(translation *t, const fl_p18_op *op, const op_kind *k)
{
    for (size_t i = 0; i < op->outputs.n; i++) {
        const fl_p18_arg *a = FL_P18_AT(fl_p18_arg, op->outputs, i);

        for (size_t v = 0; v < a->vars.n && !has_out(t, k, a->slot); v++)
            if (is_used(t, FL_P18_NAME(a->vars, v), READ))
                lack_once(t, fl_arena_printf(&t->arena, "output %s of %s",
                                             a->slot, op->type));
    }
}

static void check_attrs(translation *t, const fl_p18_op *op, const op_kind *k)
{
    for (size_t i = 0; i < op->attrs.n; i++) {
        const fl_p18_attr *a = FL_P18_AT(fl_p18_attr, op->attrs, i);
        fl_str text = { 0 };

        if (fl_p18_attr_fate(k->def, a) != FL_P18_LOST)
            continue;
        fl_str_addf(&text, "attribute ");
        fl_p18_attr_print(a, &text);
        fl_str_addf(&text, " of %s", op->type);
        lack_once(t, fl_arena_strdup(&t->arena, text.data));
        fl_str_release(&text);
    }
}

static void check_op(translation *t, const fl_p18_op *op)
{
    op_kind k;

    if (is_feed(op) || is_fetch(op))
        return;
    k = find_kind(t, op->type);
    if (!k.def) {
        lack_once(t, fl_arena_printf(&t->arena, "operator %s", op->type));
        return;
    }
    check_inputs(t, op, &k);
    check_outputs(t, op, &k);
    check_attrs(t, op, &k);
}

static fl_status check_ops(translation *t)
{
    for (size_t b = 0; b < t->desc->blocks.n; b++)
        for (size_t i = 0; i < block_at(t, b)->ops.n; i++)
            note_op(t, op_at(block_at(t, b), i));
    for (size_t b = 0; b < t->desc->blocks.n; b++)
        for (size_t i = 0; i < block_at(t, b)->ops.n; i++)
            check_op(t, op_at(block_at(t, b), i));
    if (!t->n_lacks)
        return FL_OK;
    if (t->n_untold)
        fl_str_addf(&t->lacks, " and %zu more, which the log names",
                    t->n_untold);
    FL_FAIL(FL_ERR_UNSUPPORTED,
            "the program needs what this version does not have: %s; `flotilla "
            "ops` lists what there is",
            t->lacks.data);
}

/* --- variables ------------------------------------------------------------ */

static fl_status check_block(const translation *t, size_t b, int *depths)
{
    const fl_p18_block_desc *d = block_at(t, b);

    if (d->idx != (int64_t)b || d->parent_idx >= d->idx ||
        (b && d->parent_idx < 0))
        FL_FAIL(FL_ERR_CORRUPT,
                "block %zu says that it is block %" PRId64 " in block %" PRId64,
                b, d->idx, d->parent_idx);
    depths[b] = b ? depths[d->parent_idx] + 1 : 0;
    if (depths[b] > BLOCK_DEPTH_MAX)
        FL_FAIL(FL_ERR_UNSUPPORTED,
                "block %zu stands within more than %d others", b,
                BLOCK_DEPTH_MAX);
    return FL_OK;
}

static fl_status index_vars(translation *t)
{
    size_t n = t->desc->blocks.n;
    int *depths = fl_arena_alloc(&t->arena, n * sizeof(*depths));

    t->vars = fl_arena_alloc(&t->arena, n * sizeof(*t->vars));
    t->blocks = fl_arena_alloc(&t->arena, n * sizeof(fl_block *));
    for (size_t b = 0; b < n; b++) {
        const fl_p18_block_desc *d = block_at(t, b);

        FL_TRY(check_block(t, b, depths));
        for (size_t i = 0; i < d->vars.n; i++) {
            const fl_p18_var_desc *v = FL_P18_AT(fl_p18_var_desc, d->vars, i);

            fl_map_put(&t->vars[b], v->name, (void *)v);
        }
    }
    return FL_OK;
}

/* Looks in a block and those around it; NULL when nobody describes it. */
static const fl_p18_var_desc *find_desc(const translation *t, int64_t block,
                                        const char *name)
{
    const fl_p18_var_desc *v = NULL;

    for (; block >= 0 && !v; block = block_at(t, (size_t)block)->parent_idx)
        v = fl_map_find(&t->vars[block], name);
    return v;
}

static fl_status meta_of(const fl_p18_var_desc *v, fl_tensor *out)
{
    const fl_p18_lod_desc *lod = v->type->lod_tensor;
    fl_str what = { 0 };
    fl_status st;

    if (v->type->type != FL_P18_LOD_TENSOR || !lod || !lod->tensor)
        FL_FAIL(FL_ERR_UNSUPPORTED,
                "variable %s holds %s (type %" PRId64
                "), which a program of this version can neither keep nor be "
                "fed",
                v->name,
                v->type->type == FL_P18_SELECTED_ROWS ? "rows of a table"
                                                      : "no tensor",
                v->type->type);
    fl_str_addf(&what, "variable %s", v->name);
    st = fl_p18_tensor(lod->tensor, what.data, out);
    fl_str_release(&what);
    FL_TRY(st);
    if (lod->lod_level < 0 || lod->lod_level > FL_LOD_MAX)
        FL_FAIL(FL_ERR_UNSUPPORTED,
                "variable %s has %" PRId64
                " levels of sequences; at most %d are possible",
                v->name, lod->lod_level, FL_LOD_MAX);
    out->n_lod = (int)lod->lod_level;
    out->kind = out->n_lod ? FL_KIND_RAGGED : FL_KIND_DENSE;
    return FL_OK;
}

static fl_status declare(translation *t, const fl_p18_var_desc *v,
                         unsigned flags)
{
    fl_tensor meta;

    FL_TRY(meta_of(v, &meta));
    return fl_block_add_var(t->blocks[0], v->name, &meta, flags, NULL);
}

/* What nobody but an update writes is learned; a rate and what other operators
   keep up (moments, histograms, moving means) are not. */
static unsigned kept_flags(const translation *t, const fl_p18_var_desc *v)
{
    int64_t type = v->type->lod_tensor && v->type->lod_tensor->tensor
                       ? v->type->lod_tensor->tensor->data_type
                       : -1;
    bool is_float = type == FL_P18_FP32 || type == FL_P18_FP64;

    if (!is_float || is_used(t, v->name, WRITTEN | IS_RATE))
        return FL_VAR_PERSIST;
    return FL_VAR_PARAM;
}

static fl_status declare_kept(translation *t)
{
    const fl_p18_block_desc *d = block_at(t, 0);

    for (size_t i = 0; i < d->vars.n; i++) {
        const fl_p18_var_desc *v = FL_P18_AT(fl_p18_var_desc, d->vars, i);

        if (fl_p18_is_saved(v))
            FL_TRY(declare(t, v, kept_flags(t, v)));
    }
    return FL_OK;
}

/* --- feeds and targets ---------------------------------------------------- */

/* Which operators of block 0 count, and where their variables stand. */
typedef struct column_kind {
    bool (*is_one)(const fl_p18_op *op);
    const char *slot, *what;
    bool is_input;
} column_kind;

static const column_kind feed_columns = { is_feed, "Out", "feed", false };
static const column_kind fetch_columns = { is_fetch, "X", "fetch", true };

static fl_status put_column(const column_kind *k, const fl_p18_op *op,
                            fl_p18_names *to)
{
    const fl_p18_attr *col = fl_p18_find_attr(op, "col");
    const char *name =
        fl_p18_first(k->is_input ? &op->inputs : &op->outputs, k->slot);

    if (!col || !name || col->i < 0 || (uint64_t)col->i >= to->len ||
        to->data[col->i])
        FL_FAIL(FL_ERR_CORRUPT,
                "the columns of its %s operators are not 0 to %zu, each once "
                "and with a variable",
                k->what, to->len - 1);
    to->data[col->i] = name;
    return FL_OK;
}

static fl_status read_columns(const translation *t, const column_kind *k,
                              fl_p18_names *to)
{
    const fl_p18_block_desc *d = block_at(t, 0);

    for (size_t i = 0; i < d->ops.n; i++)
        if (k->is_one(op_at(d, i)))
            fl_vec_push(to, NULL);
    for (size_t i = 0; i < d->ops.n; i++)
        if (k->is_one(op_at(d, i)))
            FL_TRY(put_column(k, op_at(d, i), to));
    return FL_OK;
}

static fl_status declare_feeds(translation *t)
{
    const fl_p18_names *feeds = &t->out->feeds;

    for (size_t i = 0; i < feeds->len; i++) {
        const fl_p18_var_desc *v = find_desc(t, 0, feeds->data[i]);

        if (!v)
            FL_FAIL(FL_ERR_CORRUPT, "%s is fed, but nothing describes it",
                    feeds->data[i]);
        FL_TRY(declare(t, v, FL_VAR_DATA));
    }
    return FL_OK;
}

/* --- operators ------------------------------------------------------------ */

static fl_status write_block(translation *t, size_t i);

/* Is it the scale by 1 that is put before a target? */
static bool is_target_scale(const fl_p18_op *op)
{
    const char *out = fl_p18_first(&op->outputs, "Out");
    const fl_p18_attr *scale = fl_p18_find_attr(op, "scale");
    const fl_p18_attr *bias = fl_p18_find_attr(op, "bias");

    return !strcmp(op->type, "scale") && out &&
           !strncmp(out, SCALE_PREFIX, strlen(SCALE_PREFIX)) &&
           fl_p18_first(&op->inputs, "X") &&
           !fl_p18_first(&op->inputs, "ScaleTensor") && scale &&
           scale->f == 1 && (!bias || bias->f == 0);
}

static const char *resolve(const translation *t, const char *name)
{
    const char *other = fl_map_find(&t->aliases, name);

    return other ? other : name;
}

/* What nobody writes and nobody keeps is fed. */
static fl_status need_var(translation *t, size_t block, const char *name)
{
    const fl_p18_var_desc *v;

    if (fl_block_find_var(t->blocks[block], name))
        return FL_OK;
    v = find_desc(t, (int64_t)block, name);
    if (!v || is_used(t, name, WRITTEN))
        return FL_OK; /* the operator says what is wrong */
    fl_vec_push(&t->out->feeds, v->name);
    return declare(t, v, FL_VAR_DATA);
}

static fl_status add_inputs(translation *t, size_t block, const fl_p18_op *op,
                            fl_op_builder *b)
{
    for (size_t i = 0; i < op->inputs.n; i++) {
        const fl_p18_arg *a = FL_P18_AT(fl_p18_arg, op->inputs, i);

        for (size_t k = 0; k < a->vars.n; k++) {
            const char *name = resolve(t, FL_P18_NAME(a->vars, k));

            FL_TRY(need_var(t, block, name));
            fl_op_builder_in_name(b, a->slot, name);
        }
    }
    return FL_OK;
}

/* May the output be left out, and does nobody miss it? */
static bool is_unread(translation *t, const op_kind *k, const fl_p18_arg *a)
{
    int slot = k->is_grad ? -1 : fl_op_find_out(k->def, a->slot);
    bool may_go = slot >= 0 ? k->def->out[slot].flags & FL_OP_SLOT_BYPRODUCT
                            : !has_out(t, k, a->slot);

    for (size_t i = 0; i < a->vars.n && may_go; i++)
        may_go = !is_used(t, FL_P18_NAME(a->vars, i), READ);
    return may_go;
}

static void add_outputs(translation *t, const op_kind *kind,
                        const fl_p18_op *op, fl_op_builder *b)
{
    for (size_t i = 0; i < op->outputs.n; i++) {
        const fl_p18_arg *a = FL_P18_AT(fl_p18_arg, op->outputs, i);

        if (is_unread(t, kind, a))
            continue;
        for (size_t k = 0; k < a->vars.n; k++)
            fl_op_builder_out_name(b, a->slot, FL_P18_NAME(a->vars, k));
    }
}

/* Writes the block that an operator of `block` runs and gives its number
   here. */
static fl_status use_block(translation *t, size_t block, fl_attr *value)
{
    int64_t inner = value->i;

    if (inner <= (int64_t)block || (uint64_t)inner >= t->desc->blocks.n ||
        block_at(t, (size_t)inner)->parent_idx != (int64_t)block ||
        t->blocks[inner])
        FL_FAIL(FL_ERR_CORRUPT,
                "an operator of block %zu runs block %" PRId64
                ", which is not one of its own, or not any more",
                block, inner);
    FL_TRY(write_block(t, (size_t)inner));
    value->i = t->blocks[inner]->index;
    return FL_OK;
}

static fl_status add_attrs(translation *t, size_t block, const op_kind *kind,
                           const fl_p18_op *op, fl_op_builder *b)
{
    for (size_t i = 0; i < op->attrs.n; i++) {
        const fl_p18_attr *a = FL_P18_AT(fl_p18_attr, op->attrs, i);
        fl_attr value;
        bool is_set;

        if (fl_p18_attr_fate(kind->def, a) != FL_P18_TAKEN)
            continue;
        FL_TRY(fl_p18_attr_value(kind->def, a, &value, &is_set));
        if (is_set && value.type == FL_ATTR_BLOCK)
            FL_TRY(use_block(t, block, &value));
        if (is_set)
            fl_op_builder_attr(b, a->name, &value);
    }
    return FL_OK;
}

static fl_status write_op(translation *t, size_t block, const fl_p18_op *op)
{
    fl_op_builder b = { .type = op->type, .role = fl_p18_role(op) };
    op_kind kind = find_kind(t, op->type);
    fl_status st = add_inputs(t, block, op, &b);

    if (!st)
        st = add_attrs(t, block, &kind, op, &b);
    if (st) {
        fl_op_builder_release(&b);
        return st;
    }
    add_outputs(t, &kind, op, &b);
    return fl_op_builder_put(&b, t->blocks[block], NULL, NULL);
}

static fl_status write_block(translation *t, size_t i)
{
    const fl_p18_block_desc *d = block_at(t, i);

    if (i)
        t->blocks[i] =
            fl_program_add_block(t->out->program, t->blocks[d->parent_idx]);
    for (size_t k = 0; k < d->ops.n; k++) {
        const fl_p18_op *op = op_at(d, k);

        if (is_feed(op) || is_fetch(op))
            continue;
        if (is_target_scale(op))
            fl_map_put(&t->aliases, fl_p18_first(&op->outputs, "Out"),
                       (void *)resolve(t, fl_p18_first(&op->inputs, "X")));
        else
            FL_TRY(fl_err_ctx(write_op(t, i, op), "block %zu, operator %zu", i,
                              k));
    }
    return FL_OK;
}

static fl_status set_targets(translation *t)
{
    fl_p18_names *targets = &t->out->targets;

    for (size_t i = 0; i < targets->len; i++) {
        const char *name = resolve(t, targets->data[i]);

        if (!fl_block_find_var(t->blocks[0], name))
            FL_FAIL(FL_ERR_CORRUPT, "%s is fetched, but nothing makes it",
                    name);
        targets->data[i] = name;
        fl_program_fetch(t->out->program, name);
    }
    return FL_OK;
}

static fl_status translate(translation *t)
{
    FL_TRY(index_vars(t));
    FL_TRY(check_ops(t));
    t->out->program = fl_program_of(t->ops);
    t->blocks[0] = fl_program_main(t->out->program);
    FL_TRY(read_columns(t, &feed_columns, &t->out->feeds));
    FL_TRY(read_columns(t, &fetch_columns, &t->out->targets));
    FL_TRY(declare_feeds(t));
    FL_TRY(declare_kept(t));
    FL_TRY(write_block(t, 0));
    FL_TRY(set_targets(t));
    return fl_program_verify(t->out->program);
}

fl_status fl_p18_translate(const fl_p18_program_desc *d, const fl_op_set *ops,
                           fl_p18_program *out)
{
    translation t = { .desc = d, .ops = ops, .out = out };
    fl_status st;

    fl_arena_init(&t.arena, 64 << 10);
    st = translate(&t);
    for (size_t b = 0; t.vars && b < d->blocks.n; b++)
        fl_map_release(&t.vars[b]);
    fl_map_release(&t.uses);
    fl_map_release(&t.aliases);
    fl_map_release(&t.lacking);
    fl_str_release(&t.lacks);
    fl_arena_release(&t.arena);
    return st;
}

void fl_p18_program_release(fl_p18_program *p)
{
    fl_program_free(p->program);
    fl_vec_release(&p->feeds);
    fl_vec_release(&p->targets);
    *p = (fl_p18_program){ 0 };
}
