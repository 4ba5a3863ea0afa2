/* recipe.c - what a model for prediction is made of, as bytes. */
#include "ps/recipe.h"

#include <inttypes.h>
#include <string.h>

#define PASSES_ROOM 4096

/* --- writing -------------------------------------------------------------- */

static void pack_names(fl_pack *p, const fl_save_names *l)
{
    fl_pack_u32(p, (uint32_t)l->n);
    for (size_t i = 0; i < l->n; i++)
        fl_pack_text(p, l->names[i]);
}

void fl_save_recipe_pack(fl_pack *p, const fl_save_recipe *r)
{
    pack_names(p, &r->feeds);
    pack_names(p, &r->targets);
    fl_pack_text(p, r->passes);
    fl_pack_align(p);
    fl_trainer_part_pack(p, &r->model);
}

/* --- reading -------------------------------------------------------------- */

static fl_save_names read_names(fl_unpack *u, fl_arena *arena)
{
    uint32_t n = fl_unpack_u32(u);
    FL_VEC(const char *) list = { 0 };
    fl_save_names out = { 0 };
    char name[FL_NAMED_ROOM];

    for (uint32_t i = 0; i < n && !u->bad; i++) {
        fl_unpack_text(u, name, sizeof(name));
        fl_vec_push(&list, fl_arena_strdup(arena, name));
    }
    out.n = list.len;
    out.names = fl_arena_alloc(arena, (out.n + 1) * sizeof(*out.names));
    if (out.n)
        memcpy(out.names, list.data, out.n * sizeof(*out.names));
    fl_vec_release(&list);
    return out;
}

static fl_status read_all(fl_save_recipe *r, fl_msg_bytes bytes)
{
    fl_unpack u = fl_unpack_from(bytes.data, bytes.len);
    char passes[PASSES_ROOM];

    r->feeds = read_names(&u, &r->arena);
    r->targets = read_names(&u, &r->arena);
    fl_unpack_text(&u, passes, sizeof(passes));
    r->passes = fl_arena_strdup(&r->arena, passes);
    fl_unpack_align(&u, bytes.data);
    if (u.bad || !r->targets.n)
        FL_FAIL(FL_ERR_CORRUPT,
                "what a model for prediction is to have, %" PRIu64
                " bytes, does not parse",
                bytes.len);
    return fl_trainer_part_read(
        &r->model, (fl_msg_bytes){ u.at, (uint64_t)(u.end - u.at) });
}

fl_status fl_save_recipe_read(fl_save_recipe *out, fl_msg_bytes bytes)
{
    fl_save_recipe r = { 0 };
    fl_status st;

    if (bytes.len > FL_SAVE_RECIPE_MAX)
        FL_FAIL(FL_ERR_INVAL,
                "a model for prediction whose program has %" PRIu64
                " bytes is too large; at most %" PRIu64 " are taken",
                bytes.len, FL_SAVE_RECIPE_MAX);
    fl_arena_init(&r.arena, 1024);
    st = read_all(&r, bytes);
    if (st) {
        fl_arena_release(&r.arena);
        return st;
    }
    *out = r;
    return FL_OK;
}

void fl_save_recipe_release(fl_save_recipe *r)
{
    fl_trainer_part_release(&r->model);
    fl_arena_release(&r->arena);
}

bool fl_save_recipe_has_table(const fl_save_recipe *r, const char *name)
{
    for (size_t i = 0; i < r->model.tables.len; i++)
        if (!strcmp(r->model.tables.data[i].name, name))
            return true;
    return false;
}
