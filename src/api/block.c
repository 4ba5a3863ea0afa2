/* block.c - blocks and variables of the public API. */
#include "flotilla/block.h"

#include "api/layer.h"
#include "base/args.h"

/* --- blocks -------------------------------------------------------------- */

size_t fl_program_n_blocks(const fl_program *p)
{
    return p->blocks.len;
}

fl_block *fl_program_block(const fl_program *p, size_t i)
{
    return i < p->blocks.len ? p->blocks.data[i] : NULL;
}

fl_status fl_block_new(fl_block **out, fl_block *parent)
{
    *out = fl_program_add_block(parent->program, parent);
    return FL_OK;
}

fl_program *fl_block_program(const fl_block *b)
{
    return b->program;
}

size_t fl_block_index(const fl_block *b)
{
    return (size_t)b->index;
}

fl_block *fl_block_parent(const fl_block *b)
{
    return b->parent < 0 ? NULL : b->program->blocks.data[b->parent];
}

fl_var *fl_block_var(const fl_block *b, const char *name)
{
    return fl_block_find_var(b, name);
}

fl_var *fl_block_next_var(const fl_block *b, const fl_var *after)
{
    return after ? after->next : b->first_var;
}

/* --- what a variable is -------------------------------------------------- */

static const struct {
    size_t offset;
    unsigned flag;
} flags_of[] = {
    { offsetof(fl_var_def, is_data), FL_VAR_DATA },
    { offsetof(fl_var_def, is_parameter), FL_VAR_PARAM },
    { offsetof(fl_var_def, is_table), FL_VAR_TABLE },
    { offsetof(fl_var_def, persistable), FL_VAR_PERSIST },
    { offsetof(fl_var_def, frozen), FL_VAR_FROZEN },
    { offsetof(fl_var_def, stop_gradient), FL_VAR_STOP_GRAD },
};

static unsigned read_flags(const fl_var_def *def)
{
    unsigned flags = 0;

    for (size_t i = 0; i < FL_LEN(flags_of); i++)
        if (*(const bool *)((const char *)def + flags_of[i].offset))
            flags |= flags_of[i].flag;
    return flags;
}

static fl_status check_def(const char *name, const fl_var_def *def)
{
    bool of_parameter = def->frozen || def->init || def->regularizer ||
                        def->clip || def->is_table;

    if (def->shape.rank < 0 || def->shape.rank > FL_RANK_MAX ||
        def->lod_level < 0 || def->lod_level > FL_LOD_MAX)
        FL_FAIL(FL_ERR_INVAL,
                "variable %s: rank %d is not in 0..%d, or lod_level %d not in "
                "0..%d",
                name, def->shape.rank, FL_RANK_MAX, def->lod_level, FL_LOD_MAX);
    if ((def->kind == FL_KIND_RAGGED) != (def->lod_level > 0))
        FL_FAIL(FL_ERR_INVAL,
                "variable %s: a ragged variable has a lod_level, others have "
                "none",
                name);
    if (of_parameter && !def->is_parameter)
        FL_FAIL(FL_ERR_INVAL,
                "variable %s: frozen, init, regularizer and clip are for "
                "parameters (is_parameter)",
                name);
    return FL_OK;
}

static fl_tensor meta_of(const fl_var_def *def)
{
    return (fl_tensor){ .dtype = def->dtype,
                        .kind = def->kind,
                        .shape = def->shape,
                        .n_lod = def->lod_level };
}

static fl_status set_rest(fl_var *v, const fl_var_def *def)
{
    fl_var_words words = { def->init, def->regularizer, def->clip };

    FL_TRY(fl_var_set_words(v, &words));
    v->lr = def->learning_rate ? def->learning_rate : 1;
    v->tag = def->tag;
    return FL_OK;
}

/* That a variable is ragged follows from its LoD level. */
static fl_status read_def(const char *name, const fl_var_def *from,
                          fl_var_def *def)
{
    FL_TRY(FL_ARGS_READ(fl_var_def, def, from));
    if (def->lod_level && def->kind == FL_KIND_DENSE)
        def->kind = FL_KIND_RAGGED;
    return check_def(name, def);
}

static fl_status add_var(fl_block *b, const char *name, const fl_var_def *def,
                         fl_var **out)
{
    fl_tensor meta = meta_of(def);
    fl_status st;

    FL_TRY(fl_block_add_var(b, name, &meta, read_flags(def), out));
    st = set_rest(*out, def);
    if (st)
        fl_block_remove_var(b, *out);
    return st;
}

/* Its rows are wherever the startup program makes the table. */
static fl_status check_table(const char *name, const fl_var_def *def)
{
    if (!def->is_table)
        return FL_OK;
    if (!def->is_parameter || def->dtype != FL_DTYPE_F32 ||
        def->kind != FL_KIND_DENSE || def->shape.rank != 2 || def->init)
        FL_FAIL(
            FL_ERR_INVAL,
            "variable %s: with is_table it is a parameter, dense f32 of two "
            "dimensions, whose first values are among the settings of "
            "operator init_table",
            name);
    return FL_OK;
}

fl_status fl_create_var_with(fl_var **out, fl_block *b, const char *name,
                             const fl_var_def *args)
{
    fl_ctx *c = b->program->ctx;
    fl_var_def def;
    fl_var *v;

    if (!name)
        name = fl_ctx_name(c, b->program, "_generated_var");
    FL_TRY(read_def(name, args, &def));
    FL_TRY(check_table(name, &def));
    FL_TRY(add_var(b, name, &def, &v));
    if (v->init && b->program == fl_ctx_pair(c).main)
        FL_TRY(fl_layer_first_value(c, v));
    if (out)
        *out = v;
    return FL_OK;
}

fl_status fl_var_look(const fl_var *v, fl_var_def *out)
{
    fl_var_def def = { .dtype = v->meta.dtype,
                       .kind = v->meta.kind,
                       .lod_level = v->meta.n_lod,
                       .shape = v->meta.shape,
                       .learning_rate = v->lr,
                       .init = v->init,
                       .regularizer = v->regularizer,
                       .clip = v->clip,
                       .tag = v->tag };

    for (size_t i = 0; i < FL_LEN(flags_of); i++)
        *(bool *)((char *)&def + flags_of[i].offset) =
            v->flags & flags_of[i].flag;
    return FL_ARGS_FILL(fl_var_def, out, &def);
}

fl_status fl_var_change(fl_var *v, const fl_var_def *args)
{
    unsigned kept = v->flags & FL_VAR_DECLARED;
    fl_tensor meta = v->meta;
    fl_var_def def;
    fl_status st;

    FL_TRY(read_def(v->name, args, &def));
    if (def.is_table != ((v->flags & FL_VAR_TABLE) != 0))
        FL_FAIL(FL_ERR_INVAL, "variable %s: is_table cannot be changed",
                v->name);
    v->meta = meta_of(&def);
    st = set_rest(v, &def);
    if (st) {
        v->meta = meta;
        return st;
    }
    v->flags = kept | read_flags(&def);
    if (v->flags & FL_VAR_PARAM)
        v->flags |= FL_VAR_PERSIST;
    v->block->program->version++;
    return FL_OK;
}

fl_status fl_var_rename(fl_var *v, const char *name)
{
    return fl_block_rename_var(v->block, v, name);
}

fl_status fl_var_remove(fl_var *v)
{
    char text[FL_NODE_TEXT_MAX];

    if (v->first_use)
        FL_FAIL(FL_ERR_INVAL,
                "variable %s cannot be removed: %s has it; remove that first",
                v->name, fl_node_text(v->first_use->node, text));
    fl_block_remove_var(v->block, v);
    return FL_OK;
}

fl_block *fl_var_block(const fl_var *v)
{
    return v->block;
}
