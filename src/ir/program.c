/* program.c - programs, blocks and variables. */
#include "ir/program.h"

#include <ctype.h>

#include "base/thread.h"

#define PROGRAM_CHUNK_BYTES (64 << 10)

fl_program *fl_program_of(const fl_op_set *ops)
{
    fl_program *p = fl_alloc(sizeof(*p));

    fl_arena_init(&p->arena, PROGRAM_CHUNK_BYTES);
    p->id = fl_now_ns(); /* a new program may get a freed one's address */
    p->ops = ops;
    fl_program_add_block(p, NULL);
    return p;
}

void fl_program_free(fl_program *p)
{
    if (!p || p->is_default)
        return;
    for (size_t i = 0; i < p->blocks.len; i++)
        fl_map_release(&p->blocks.data[i]->vars);
    fl_vec_release(&p->blocks);
    fl_vec_release(&p->fetches);
    fl_map_release(&p->fetched);
    fl_names_release(&p->names);
    fl_map_release(&p->kinds);
    fl_map_release(&p->makers);
    fl_arena_release(&p->arena);
    fl_free(p);
}

fl_block *fl_program_main(const fl_program *p)
{
    return p->blocks.data[0];
}

fl_block *fl_program_add_block(fl_program *p, const fl_block *parent)
{
    fl_block *b = fl_arena_alloc(&p->arena, sizeof(*b));

    b->program = p;
    b->index = (int)p->blocks.len;
    b->parent = parent ? parent->index : -1;
    fl_vec_push(&p->blocks, b);
    return b;
}

bool fl_program_is_fetched(const fl_program *p, const char *name)
{
    return fl_map_find(&p->fetched, name) != NULL;
}

static bool makes(const fl_op_node *n)
{
    return !n->is_grad && (n->def->flags & FL_OP_MAKES);
}

void fl_program_note_maker(fl_op_node *n)
{
    if (makes(n))
        fl_map_put(&n->block->program->makers, n->attrs[0].s, n);
}

fl_op_node *fl_program_maker(const fl_program *p, const char *name)
{
    fl_op_node *n = fl_map_find(&p->makers, name);

    return n && n->is_linked && !strcmp(n->attrs[0].s, name) ? n : NULL;
}

void fl_program_fetch(fl_program *p, const char *name)
{
    char *mine;

    if (fl_program_is_fetched(p, name))
        return;
    mine = fl_arena_strdup(&p->arena, name);
    fl_vec_push(&p->fetches, mine);
    fl_map_put(&p->fetched, mine, mine);
}

void fl_program_clear_fetches(fl_program *p)
{
    p->fetches.len = 0;
    fl_map_release(&p->fetched);
}

typedef struct name_count {
    int n;
    char key[];
} name_count;

void fl_names_release(fl_names *n)
{
    for (size_t i = 0; i < n->counts.cap; i++)
        fl_free(n->counts.entries[i].value);
    fl_map_release(&n->counts);
    fl_free(n->prefix);
}

const char *fl_names_next(fl_names *n, const char *key, fl_arena *arena)
{
    name_count *count = fl_map_find(&n->counts, key);
    const char *prefix = n->prefix ? n->prefix : "";

    if (!count) {
        count = fl_alloc(sizeof(*count) + strlen(key) + 1);
        memcpy(count->key, key, strlen(key) + 1);
        fl_map_put(&n->counts, count->key, count);
    }
    if (!strncmp(key, prefix, strlen(prefix)))
        prefix = "";
    return fl_arena_printf(arena, "%s%s_%d", prefix, key, count->n++);
}

const char *fl_program_name(fl_program *p, const char *prefix)
{
    return fl_names_next(&p->names, prefix, &p->arena);
}

fl_var *fl_block_find_var(const fl_block *b, const char *name)
{
    for (;;) {
        fl_var *v = fl_map_find(&b->vars, name);

        if (v || b->parent < 0)
            return v;
        b = b->program->blocks.data[b->parent];
    }
}

/* What the text form can carry without quotes. */
static bool is_name(const char *s)
{
    if (!strcmp(s, FL_EMPTY_NAME))
        return false;
    if (!isalpha((unsigned char)*s) && *s != '_' && *s != '@')
        return false;
    for (; *s; s++)
        if (!isalnum((unsigned char)*s) && !strchr("_.@/:-", *s))
            return false;
    return true;
}

fl_status fl_check_name(const char *name)
{
    if (!is_name(name))
        FL_FAIL(FL_ERR_INVAL,
                "'%s' is not a name: use letters, digits and _ . @ / : -",
                name);
    return FL_OK;
}

fl_status fl_block_add_var(fl_block *b, const char *name, const fl_tensor *meta,
                           unsigned flags, fl_var **out)
{
    fl_arena *arena = &b->program->arena;
    fl_var *v;

    FL_TRY(fl_check_name(name));
    if (fl_map_find(&b->vars, name))
        FL_FAIL(FL_ERR_EXISTS, "variable %s exists already", name);
    v = fl_arena_alloc(arena, sizeof(*v));
    v->name = fl_arena_strdup(arena, name);
    v->flags = flags & FL_VAR_PARAM ? flags | FL_VAR_PERSIST : flags;
    v->meta = *meta;
    v->meta.size = sizeof(fl_tensor);
    v->meta.data = NULL;
    v->lr = 1;
    v->block = b;
    fl_map_put(&b->vars, v->name, v);
    v->prev = b->last_var;
    if (b->last_var)
        b->last_var->next = v;
    else
        b->first_var = v;
    b->last_var = v;
    b->program->version++;
    if (out)
        *out = v;
    return FL_OK;
}

void fl_block_remove_var(fl_block *b, fl_var *v)
{
    if (v->prev)
        v->prev->next = v->next;
    else
        b->first_var = v->next;
    if (v->next)
        v->next->prev = v->prev;
    else
        b->last_var = v->prev;
    fl_map_remove(&b->vars, v->name);
    b->program->version++;
}
