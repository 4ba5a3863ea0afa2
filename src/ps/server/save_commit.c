/* save_commit.c - a version, put together from what all members brought. */
#include "ps/server/save_commit.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/hash.h"
#include "ckpt/dense.h"
#include "ckpt/match.h"
#include "ckpt/table_file.h"
#include "ps/trainer_part.h"

#define BLOCK_SUFFIX ".block"

/* --- values of blocks ----------------------------------------------------- */

static bool is_same(const fl_named *a, const fl_named *b)
{
    return a->value.dtype == b->value.dtype &&
           fl_shape_equal(&a->value.shape, &b->value.shape) &&
           !memcmp(a->value.data, b->value.data, a->bytes);
}

static fl_status add_value(fl_save_values *v, const fl_named *from)
{
    const fl_named *there = fl_map_find(&v->by_name, from->name);
    fl_named *to;

    if (there && is_same(there, from))
        return FL_OK;
    if (there)
        FL_FAIL(FL_ERR_INVAL,
                "variable %s is not the same in all blocks that use it, so "
                "that there is no one value to save",
                from->name);
    to = fl_try_alloc(sizeof(*to) + from->bytes);
    if (!to)
        FL_FAIL(FL_ERR_NOMEM, "no memory for variable %s, of %zu bytes",
                from->name, from->bytes);
    *to = *from;
    to->value.data = to + 1;
    if (from->bytes)
        memcpy(to->value.data, from->value.data, from->bytes);
    fl_vec_push(&v->list, to);
    fl_map_put(&v->by_name, to->name, to);
    return FL_OK;
}

fl_status fl_save_values_add(fl_save_values *v, fl_msg_bytes bytes)
{
    fl_unpack u = fl_unpack_from(bytes.data, bytes.len);
    fl_named value;

    while (fl_named_next(&u, bytes.data, &value))
        FL_TRY(add_value(v, &value));
    if (u.bad)
        FL_FAIL(FL_ERR_CORRUPT,
                "values for a save, %" PRIu64 " bytes, do not "
                "parse",
                bytes.len);
    return FL_OK;
}

void fl_save_values_clear(fl_save_values *v)
{
    for (size_t i = 0; i < v->list.len; i++)
        fl_data_free(v->list.data[i],
                     sizeof(fl_named) + v->list.data[i]->bytes);
    fl_vec_release(&v->list);
    fl_map_release(&v->by_name);
}

/* --- whole variables ------------------------------------------------------ */

/* What is written to one file; memory of joined ones is its own. */
typedef struct tensors {
    FL_VEC(fl_named_tensor) list;
    FL_VEC(fl_pack) joined;
} tensors;

static void release_tensors(tensors *t)
{
    for (size_t i = 0; i < t->joined.len; i++)
        fl_pack_release(&t->joined.data[i]);
    fl_vec_release(&t->joined);
    fl_vec_release(&t->list);
}

static void add_tensor(tensors *t, const char *name, const fl_tensor *value)
{
    fl_vec_push(&t->list, ((fl_named_tensor){ name, *value }));
}

static const fl_named *find_block(const fl_save_values *v, const char *name,
                                  size_t i)
{
    char block[FL_NAMED_ROOM + 32];

    (void)snprintf(block, sizeof(block), "%s" BLOCK_SUFFIX "%zu", name, i);
    return fl_map_find(&v->by_name, block);
}

static fl_status check_like(const fl_named *whole, const fl_tensor *have)
{
    char a[FL_SHAPE_TEXT_MAX], b[FL_SHAPE_TEXT_MAX];

    if (have->dtype == whole->value.dtype &&
        fl_shape_matches(&have->shape, &whole->value.shape))
        return FL_OK;
    FL_FAIL(FL_ERR_INVAL,
            "variable %s is %s%s in the program and %s%s on the servers",
            whole->name, fl_dtype_text(whole->value.dtype),
            fl_shape_text(&whole->value.shape, a), fl_dtype_text(have->dtype),
            fl_shape_text(&have->shape, b));
}

/* A number that every block has for itself. */
static fl_status take_common(const fl_save_values *v, const fl_named *whole,
                             tensors *out)
{
    const fl_named *first = find_block(v, whole->name, 0), *other;

    for (size_t i = 1; (other = find_block(v, whole->name, i)); i++)
        if (!is_same(first, other))
            FL_FAIL(FL_ERR_INVAL,
                    "variable %s has other bits in block %zu than in block 0, "
                    "so that there is no one value to save",
                    whole->name, i);
    add_tensor(out, whole->name, &first->value);
    return FL_OK;
}

static fl_status join_blocks(const fl_save_values *v, const fl_named *whole,
                             tensors *out)
{
    fl_tensor joined = whole->value;
    const fl_named *b;
    fl_pack p = { 0 };

    joined.shape.dim[0] = 0;
    for (size_t i = 0; (b = find_block(v, whole->name, i)); i++) {
        joined.shape.dim[0] += b->value.shape.dim[0];
        fl_pack_bytes(&p, b->value.data, b->bytes);
    }
    fl_vec_push(&out->joined, p);
    joined.data = p.data;
    FL_TRY(check_like(whole, &joined));
    add_tensor(out, whole->name, &joined);
    return FL_OK;
}

static const fl_named *find_own(const fl_trainer_part *part, const char *name)
{
    for (size_t i = 0; i < part->values.len; i++)
        if (!strcmp(part->values.data[i].name, name))
            return &part->values.data[i];
    return NULL;
}

/* What a model is made of. It has the variables of `is`; what no server has,
   trainers brought. */
typedef struct whole_model {
    const fl_trainer_part *is, *trainers;
    uint32_t n_trainers;
    const fl_save_values *values;
} whole_model;

/* Accumulators of trainers that update parameters themselves are one when they are
   added up. */
static fl_status add_up(const whole_model *w, const fl_named *first,
                        tensors *out)
{
    fl_tensor sum = first->value;
    fl_pack p = { 0 };

    fl_pack_bytes(&p, first->value.data, first->bytes);
    fl_vec_push(&out->joined, p);
    sum.data = p.data;
    for (uint32_t i = 1; i < w->n_trainers; i++) {
        const fl_named *other = find_own(&w->trainers[i], first->name);

        if (!other)
            continue;
        FL_TRY(check_like(first, &other->value));
        for (size_t k = 0; k < first->bytes / sizeof(float); k++)
            ((float *)sum.data)[k] += ((const float *)other->value.data)[k];
    }
    add_tensor(out, first->name, &sum);
    return FL_OK;
}

/* From the servers, or from trainers. */
static fl_status take_whole(const whole_model *w, const fl_named *whole,
                            tensors *out)
{
    const fl_save_values *v = w->values;
    const fl_named *have = fl_map_find(&v->by_name, whole->name);
    const fl_named *block = find_block(v, whole->name, 0);
    bool is_own = false;

    if (!have && block)
        return fl_shape_equal(&block->value.shape, &whole->value.shape)
                   ? take_common(v, whole, out)
                   : join_blocks(v, whole, out);
    if (!have) {
        have = find_own(&w->trainers[0], whole->name);
        is_own = have != NULL;
    }
    if (!have)
        FL_FAIL(FL_ERR_NOTFOUND,
                "variable %s of the program has no value, neither on a server "
                "nor in a trainer; run the startup program first",
                whole->name);
    FL_TRY(check_like(whole, &have->value));
    if (is_own && have->value.dtype == FL_DTYPE_F32 &&
        fl_match_adds_up(have->name))
        return add_up(w, have, out);
    add_tensor(out, whole->name, &have->value);
    return FL_OK;
}

/* --- files ---------------------------------------------------------------- */

static uint32_t first_shard(const fl_save_writing *w, int rank)
{
    uint32_t n = (uint32_t)w->n_servers;

    return ((uint32_t)rank * FL_SHARDS + n - 1) / n;
}

fl_status fl_save_table(const fl_save_writing *w, fl_table_cut *cut)
{
    fl_table_save_options save = { .cut = cut,
                                   .first = first_shard(w, w->rank),
                                   .last = first_shard(w, w->rank + 1) - 1,
                                   .values_only = w->recipe != NULL,
                                   .pace = w->pace };

    if (w->recipe && !fl_save_recipe_has_table(
                         w->recipe, fl_table_name(fl_table_cut_table(cut))))
        return FL_OK;
    return fl_table_file_write(w->version, w->manifest, &save);
}

static fl_status write_dense(const fl_model_version *v, fl_manifest *m,
                             const whole_model *w)
{
    const fl_save_values *values = w->values;
    tensors t = { 0 };
    fl_status st = FL_OK;

    for (size_t i = 0; i < w->is->wholes.len && !st; i++)
        st = take_whole(w, &w->is->wholes.data[i], &t);
    /* A job that was declared by hand has what its servers have. */
    for (size_t i = 0; i < values->list.len && !w->is->program.len; i++)
        add_tensor(&t, values->list.data[i]->name,
                   &values->list.data[i]->value);
    if (!st)
        st = fl_dense_save(v, m, FL_DENSE_FILE, t.list.data, t.list.len);
    release_tensors(&t);
    return st;
}

static fl_status write_trainer(const fl_model_version *v, fl_manifest *m,
                               uint32_t rank, const fl_trainer_part *part)
{
    char name[64];
    tensors t = { 0 };
    fl_status st = fl_version_folder(v, "trainers");

    if (!st && part->position.len) {
        (void)snprintf(name, sizeof(name), "trainers/%" PRIu32 ".json", rank);
        st = fl_version_put(v, m, name, part->position.data,
                            (size_t)part->position.len);
    }
    for (size_t i = 0; i < part->values.len; i++)
        add_tensor(&t, part->values.data[i].name, &part->values.data[i].value);
    (void)snprintf(name, sizeof(name), "trainers/%" PRIu32 ".safetensors",
                   rank);
    if (!st && t.list.len)
        st = fl_dense_save(v, m, name, t.list.data, t.list.len);
    release_tensors(&t);
    return st;
}

static fl_status put_text(const fl_model_version *v, fl_manifest *m,
                          const char *name, fl_msg_bytes text)
{
    return text.len ? fl_version_put(v, m, name, text.data, (size_t)text.len)
                    : FL_OK;
}

/* --- the manifest --------------------------------------------------------- */

static fl_status merge_servers(const fl_model_version *v, fl_manifest *m,
                               const fl_save_parts *parts)
{
    for (uint32_t i = 0; i < parts->n_servers; i++) {
        const fl_save_part *p = &parts->servers[i];
        fl_manifest part;
        char where[64];
        fl_status st;

        (void)snprintf(where, sizeof(where), "the part of server %" PRIu32,
                       p->rank);
        FL_TRY(fl_manifest_parse(&part, (const char *)p->bytes, (size_t)p->len,
                                 where));
        st = fl_err_ctx(fl_version_sees(v, &part),
                        "server 0 does not see what server %" PRIu32
                        " has written",
                        p->rank);
        if (!st)
            st = fl_manifest_merge(m, &part);
        fl_manifest_release(&part);
        FL_TRY(st);
    }
    return FL_OK;
}

/* The words that the user's program makes them with. */
static void name_settings(fl_manifest *m, const fl_trainer_part *lead)
{
    for (size_t i = 0; i < lead->tables.len; i++) {
        const fl_part_table *t = &lead->tables.data[i];

        for (size_t k = 0; k < m->tables.len; k++)
            if (!strcmp(m->tables.data[k].name, t->name))
                m->tables.data[k].settings =
                    fl_arena_printf(&m->arena, "%.*s", (int)t->settings.len,
                                    (const char *)t->settings.data);
    }
}

static fl_status write_model(const fl_model_version *v, fl_manifest *m,
                             const whole_model *w)
{
    m->mode = fl_manifest_text(m, w->is->mode);
    m->seed = w->is->seed;
    m->main_version = w->is->main_version;
    m->startup_version = w->is->startup_version;
    name_settings(m, w->is);
    FL_TRY(put_text(v, m, "program.txt", w->is->program));
    FL_TRY(put_text(v, m, "startup.txt", w->is->startup));
    return write_dense(v, m, w);
}

static void describe_inference(fl_manifest *m, const fl_save_recipe *r)
{
    m->kind = FL_MANIFEST_INFERENCE;
    m->passes = fl_manifest_text(m, r->passes);
    fl_manifest_set_inference(m, r->feeds.names, r->feeds.n, r->targets.names,
                              r->targets.n);
}

/* Released also when it fails. */
static fl_status read_trainers(const fl_save_parts *parts, fl_trainer_part *out,
                               uint32_t *n)
{
    for (; *n < parts->n_trainers; ++*n) {
        const fl_save_part *p = &parts->trainers[*n];

        FL_TRY(
            fl_trainer_part_read(&out[*n], (fl_msg_bytes){ p->bytes, p->len }));
    }
    return FL_OK;
}

/* The first trainer knows the program; a model for prediction has a program of its
   own, and no files of trainers. */
static fl_status write_trainers(const fl_model_version *v, fl_manifest *m,
                                const fl_save_brought *b,
                                const fl_trainer_part *trainers)
{
    whole_model w = { .is = b->recipe ? &b->recipe->model : trainers,
                      .trainers = trainers,
                      .n_trainers = b->parts->n_trainers,
                      .values = b->values };

    FL_TRY(write_model(v, m, &w));
    for (uint32_t i = 0; i < b->parts->n_trainers && !b->recipe; i++)
        FL_TRY(write_trainer(v, m, b->parts->trainers[i].rank, &trainers[i]));
    return FL_OK;
}

static fl_status write_all(const fl_model_version *v, fl_manifest *m,
                           const fl_save_brought *b)
{
    fl_trainer_part *trainers;
    uint32_t n = 0;
    fl_status st;

    FL_TRY(merge_servers(v, m, b->parts));
    if (!b->parts->n_trainers)
        FL_FAIL(FL_ERR_CLOSED, "no trainer is left that knows the program");
    trainers = fl_alloc(b->parts->n_trainers * sizeof(*trainers));
    st = read_trainers(b->parts, trainers, &n);
    if (!st)
        st = write_trainers(v, m, b, trainers);
    for (uint32_t i = 0; i < n; i++)
        fl_trainer_part_release(&trainers[i]);
    fl_free(trainers);
    return st;
}

fl_status fl_save_commit(fl_model_version *v, const fl_save_work_reply *order,
                         const fl_save_brought *b)
{
    fl_manifest m;
    fl_status st;

    fl_manifest_init(&m, *order->base ? FL_MANIFEST_DELTA : FL_MANIFEST_FULL);
    m.base = *order->base ? order->base : NULL;
    m.step = order->step;
    if (b->recipe && !m.base)
        describe_inference(&m, b->recipe);
    st = write_all(v, &m, b);
    if (!st)
        st = fl_version_commit(v, &m);
    fl_manifest_release(&m);
    return st;
}
