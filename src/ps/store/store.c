/* store.c - making what was declared, and requests that are short. */
#include "ps/store/store_inside.h"

#include <inttypes.h>
#include <limits.h>

#include "ps/store/rounds.h"
#include "table/inside.h"

/* --- making --------------------------------------------------------------- */

static void world_free(fl_world *w)
{
    if (!w)
        return;
    for (size_t i = 0; i < w->tables.len; i++) {
        fl_table_destroy(w->tables.data[i].table);
        if (w->changes)
            fl_changes_free(atomic_load(&w->changes[i]));
    }
    for (size_t i = 0; i < w->blocks.len; i++)
        fl_dense_free(w->blocks.data[i].dense);
    fl_vec_release(&w->tables);
    fl_vec_release(&w->blocks);
    fl_free(w->changes);
    fl_free(w->text);
    fl_free(w);
}

static fl_status add_table(fl_world *w, const fl_declared *d, uint64_t seed)
{
    fl_store_table t = { 0 };
    fl_table_config config;

    FL_TRY(fl_table_config_parse(&config, d->name, d->text, seed));
    t.height = config.height;
    FL_TRY(fl_table_create(&t.table, &config));
    t.row_bytes = fl_table_acc(t.table)->layout.bytes;
    t.short_bytes = fl_table_acc(t.table)->layout.short_bytes;
    fl_vec_push(&w->tables, t);
    return FL_OK;
}

static fl_status add_block(fl_world *w, const fl_declared *d, const fl_store *s)
{
    fl_store_block b = { 0 };

    FL_TRY(fl_dense_new(&b.dense, d, s->ops, s->conf));
    fl_vec_push(&w->blocks, b);
    return s->scope ? fl_dense_take(b.dense, s->scope) : FL_OK;
}

static fl_status fill_world(fl_world *w, const fl_declaration *d,
                            const fl_store *s)
{
    for (size_t i = 0; i < d->items.len; i++) {
        const fl_declared *item = &d->items.data[i];
        fl_status st = item->kind == FL_DECLARED_TABLE
                           ? add_table(w, item, d->seed)
                           : add_block(w, item, s);

        if (st)
            return fl_err_ctx(st, "declaration: line %zu", item->line);
    }
    w->changes = fl_alloc(w->tables.len * sizeof(*w->changes));
    return FL_OK;
}

static fl_status make_world(fl_store *s, const char *text, fl_world **out)
{
    fl_declaration d;
    fl_world *w;
    fl_status st;

    FL_TRY(fl_declaration_parse(&d, text, strlen(text)));
    w = fl_alloc(sizeof(*w));
    w->text = fl_strdup(text);
    st = fill_world(w, &d, s);
    fl_declaration_release(&d);
    if (st) {
        world_free(w);
        return st;
    }
    *out = w;
    return FL_OK;
}

fl_store *fl_store_new(const fl_op_set *ops, const fl_conf *conf)
{
    fl_store *s = fl_alloc(sizeof(*s));

    s->ops = ops;
    s->conf = conf;
    s->rounds = fl_rounds_new();
    s->page_bytes = UINT64_MAX;
    fl_mutex_init(&s->mu);
    fl_mutex_init(&s->counts_mu);
    atomic_init(&s->world, NULL);
    return s;
}

void fl_store_free(fl_store *s)
{
    if (!s)
        return;
    world_free(atomic_load(&s->world));
    fl_rounds_free(s->rounds);
    fl_vec_release(&s->by_rank);
    fl_mutex_release(&s->mu);
    fl_mutex_release(&s->counts_mu);
    fl_free(s);
}

void fl_store_set_scope(fl_store *s, fl_scope *scope)
{
    s->scope = scope;
}

void fl_store_set_page(fl_store *s, uint64_t bytes)
{
    s->page_bytes = bytes;
}

/* --- declaring ------------------------------------------------------------ */

static fl_status declare_copy(fl_store *s, const char *text)
{
    fl_world *w = atomic_load(&s->world);

    if (w)
        return fl_declaration_compare(w->text, text);
    FL_TRY(make_world(s, text, &w));
    atomic_store(&s->world, w);
    return FL_OK;
}

fl_status fl_store_declare(fl_store *s, const char *text, size_t len)
{
    char *copy;
    fl_status st;

    if (len > FL_DECLARE_BYTES_MAX)
        FL_FAIL(FL_ERR_INVAL, "declaration: %zu bytes are more than %u", len,
                FL_DECLARE_BYTES_MAX);
    copy = fl_try_alloc(len + 1);
    if (!copy)
        FL_FAIL(FL_ERR_NOMEM, "declaration: no memory for its %zu bytes", len);
    if (len)
        memcpy(copy, text, len);
    copy[len] = '\0';
    if (strlen(copy) != len) {
        st = fl_err_set(FL_ERR_CORRUPT,
                        "declaration: there is a 0 byte in the text");
    } else {
        fl_lock(&s->mu);
        st = declare_copy(s, copy);
        fl_unlock(&s->mu);
    }
    fl_data_free(copy, len + 1);
    return st;
}

const char *fl_store_declaration(const fl_store *s)
{
    const fl_world *w = atomic_load(&s->world);

    return w ? w->text : NULL;
}

/* --- replies -------------------------------------------------------------- */

fl_status fl_store_room(fl_store_ctx *c, uint64_t len, void **out)
{
    *out = NULL;
    if (!len)
        return FL_OK;
    *out = c->reply->room(c->reply->arg, len);
    if (!*out)
        FL_FAIL(FL_ERR_NOMEM, "no memory for a reply (%s) of %" PRIu64 " bytes",
                fl_frame_type_name(c->type), len);
    c->out_bytes = len;
    return FL_OK;
}

static fl_status reply_bytes(fl_store_ctx *c, const void *bytes, uint64_t len)
{
    void *room;

    FL_TRY(fl_store_room(c, len, &room));
    if (len)
        memcpy(room, bytes, (size_t)len);
    return FL_OK;
}

/* --- rounds --------------------------------------------------------------- */

fl_status fl_store_take_round(const fl_store_ctx *c, uint64_t *round,
                              const void **rest, uint64_t *rest_len)
{
    fl_unpack u = { .at = c->payload };

    u.end = c->len ? u.at + c->len : u.at;
    *round = fl_unpack_u64(&u);
    if (u.bad)
        FL_FAIL(FL_ERR_CORRUPT,
                "a request (%s) of %" PRIu64 " bytes ends within the number of "
                "its round",
                fl_frame_type_name(c->type), c->len);
    *rest = u.at;
    *rest_len = (uint64_t)(u.end - u.at);
    return FL_OK;
}

/* --- whole tables, and all of it ------------------------------------------ */

/* A payload of n numbers of 32 bits, the first of which is a table. */
static fl_status read_numbers(const fl_store_ctx *c, uint32_t *out, int n)
{
    fl_unpack u = { .at = c->payload };

    u.end = c->len ? u.at + c->len : u.at;
    for (int i = 0; i < n; i++)
        out[i] = fl_unpack_u32(&u);
    if (u.bad || u.at != u.end)
        FL_FAIL(FL_ERR_CORRUPT,
                "a request (%s) has %" PRIu64 " bytes instead of %zu",
                fl_frame_type_name(c->type), c->len,
                (size_t)n * sizeof(uint32_t));
    if (n && out[0] >= c->world->tables.len)
        FL_FAIL(FL_ERR_NOTFOUND,
                "a request (%s) is for table %" PRIu32 ", which was not "
                "declared",
                fl_frame_type_name(c->type), out[0]);
    return FL_OK;
}

static fl_status clear(fl_store_ctx *c)
{
    uint32_t table;

    FL_TRY(read_numbers(c, &table, 1));
    fl_table_clear(c->world->tables.data[table].table);
    return FL_OK;
}

static fl_status shrink(fl_store_ctx *c)
{
    uint32_t in[2];
    uint64_t n_removed;

    FL_TRY(read_numbers(c, in, 2));
    if (in[1] > INT_MAX)
        FL_FAIL(FL_ERR_INVAL, "table %s: %" PRIu32 " unseen days are too many",
                fl_table_name(c->world->tables.data[in[0]].table), in[1]);
    FL_TRY(fl_table_shrink(c->world->tables.data[in[0]].table, (int)in[1],
                           &n_removed));
    return reply_bytes(c, &n_removed, sizeof(n_removed));
}

static fl_status hash_all(const fl_world *w, uint64_t *out)
{
    for (size_t i = 0; i < w->tables.len; i++)
        FL_TRY(fl_store_hash_table(&w->tables.data[i], out++));
    for (size_t i = 0; i < w->blocks.len; i++)
        *out++ = fl_dense_hash(w->blocks.data[i].dense);
    return FL_OK;
}

static fl_status hash(fl_store_ctx *c)
{
    size_t n = c->world->tables.len + c->world->blocks.len;
    uint64_t *sums;
    fl_status st;

    FL_TRY(read_numbers(c, NULL, 0));
    sums = fl_alloc(sizeof(*sums) * n);
    st = hash_all(c->world, sums);
    if (!st)
        st = reply_bytes(c, sums, sizeof(*sums) * n);
    fl_free(sums);
    return st;
}

/* --- requests ------------------------------------------------------------- */

static fl_status run(fl_store_ctx *c)
{
    static fl_status (*const by_type[FL_STORE_TYPES])(fl_store_ctx * c) = {
        [FL_TYPE_PULL] = fl_store_pull,
        [FL_TYPE_PUSH] = fl_store_push,
        [FL_TYPE_ASSIGN] = fl_store_assign,
        [FL_TYPE_PULL_DENSE] = fl_store_pull_dense,
        [FL_TYPE_PUSH_DENSE] = fl_store_push_dense,
        [FL_TYPE_ASSIGN_DENSE] = fl_store_assign_dense,
        [FL_TYPE_CLEAR] = clear,
        [FL_TYPE_SHRINK] = shrink,
        [FL_TYPE_HASH] = hash,
        [FL_TYPE_ROUND_PUSH] = fl_store_round_push,
        [FL_TYPE_ROUND_DENSE] = fl_store_round_dense,
        [FL_TYPE_APPLY] = fl_store_apply,
        [FL_TYPE_CHANGED] = fl_store_changed,
    };

    if (!c->world)
        FL_FAIL(FL_ERR_INVAL,
                "a request (%s) came before tables and blocks were declared",
                fl_frame_type_name(c->type));
    return by_type[c->type](c);
}

/* There are counters even before anything is declared. */
static fl_status stats(fl_store *s, fl_store_ctx *c)
{
    char *text;
    fl_status st;

    FL_TRY(read_numbers(c, NULL, 0));
    text = fl_store_stats(s);
    st = reply_bytes(c, text, strlen(text));
    fl_free(text);
    return st;
}

fl_status fl_store_request(fl_store *s, uint16_t type, const void *payload,
                           uint64_t len, uint64_t step, uint32_t rank,
                           uint32_t incarnation, fl_store_reply *reply)
{
    fl_store_ctx c = {
        .world = atomic_load(&s->world),
        .rounds = s->rounds,
        .page_bytes = s->page_bytes,
        .type = type,
        .payload = payload,
        .len = len,
        .step = step,
        .rank = rank,
        .incarnation = incarnation,
        .reply = reply,
    };
    fl_status st;

    if (type < FL_TYPE_PULL || type > FL_TYPE_CHANGED ||
        type == FL_TYPE_SHUTDOWN)
        FL_FAIL(FL_ERR_INVAL, "a request (%s) is not for the store",
                fl_frame_type_name(type));
    st = type == FL_TYPE_STATS ? stats(s, &c) : run(&c);
    fl_store_note(s, &c, st);
    fl_free(c.rows);
    fl_free(c.blocks);
    return st;
}
