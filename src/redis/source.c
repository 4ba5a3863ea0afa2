/* source.c - rows of a model that come from Redis.
 *
 * A read asks, in one pile of commands, for its rows in every layer of the
 * version that counts (a whole one, and deltas over it), and last for which
 * version counts now. That is the same in nearly all cases; then nothing was
 * removed meanwhile, since an export removes rows only after the switch. Else
 * all is read again from the new version.
 */
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/args.h"
#include "base/thread.h"
#include "redis/link.h"
#include "serve/source.h"
#include "table/table.h"

#define HASHES (FL_TABLE_SHARDS / FL_REDIS_SHARDS)
#define SWITCHES_MAX 4 /* in the midst of one read */

/* A connection and what a read needs, kept for the next one. */
typedef struct reader {
    fl_redis_link link;
    char *current; /* the version that counted when it was last asked */
    FL_VEC(uint32_t) order;  /* of the keys, by hash */
    FL_VEC(uint32_t) hashes; /* by key */
    FL_VEC(char *) layers;   /* of current, the newest first */
    fl_redis_words words;
} reader;

typedef struct redis_rows {
    fl_row_source port;
    fl_redis_place place;
    char *current_key;
    fl_mutex mu;
    FL_VEC(reader *) idle; /* guarded by mu */
} redis_rows;

/* --- readers -------------------------------------------------------------- */

static void drop_layers(reader *d)
{
    for (size_t i = 0; i < d->layers.len; i++)
        fl_free(d->layers.data[i]);
    d->layers.len = 0;
}

static void reader_free(reader *d)
{
    drop_layers(d);
    fl_vec_release(&d->layers);
    fl_vec_release(&d->order);
    fl_vec_release(&d->hashes);
    fl_redis_words_release(&d->words);
    fl_free(d->current);
    fl_redis_link_close(&d->link);
    fl_free(d);
}

static void push_layer(void *arg, const char *version)
{
    reader *d = arg;

    fl_vec_push(&d->layers, fl_strdup(version));
}

/* The list has the oldest first. */
static fl_status set_current(const redis_rows *s, reader *d, char *current)
{
    fl_free(d->current);
    d->current = current;
    drop_layers(d);
    fl_redis_each_version(current, push_layer, d);
    if (!d->layers.len)
        FL_FAIL(FL_ERR_NOTFOUND,
                "Redis at %s has no model %s; `flotilla export --redis` brings "
                "it there",
                s->place.address, s->place.name);
    for (size_t i = 0, k = d->layers.len - 1; i < k; i++, k--) {
        char *older = d->layers.data[i];

        d->layers.data[i] = d->layers.data[k];
        d->layers.data[k] = older;
    }
    return FL_OK;
}

static fl_status reader_fill(const redis_rows *s, reader *d)
{
    char *current;

    FL_TRY(fl_redis_link_open(&d->link, &s->place));
    FL_TRY(fl_redis_get(&d->link, s->current_key, &current));
    return set_current(s, d, current);
}

static fl_status reader_new(const redis_rows *s, reader **out)
{
    reader *d = fl_alloc(sizeof(*d));
    fl_status st = reader_fill(s, d);

    if (st)
        reader_free(d);
    else
        *out = d;
    return st;
}

static fl_status take_reader(redis_rows *s, reader **out)
{
    reader *d = NULL;

    fl_lock(&s->mu);
    if (s->idle.len)
        d = s->idle.data[--s->idle.len];
    fl_unlock(&s->mu);
    *out = d;
    return d ? FL_OK : reader_new(s, out);
}

/* One that has failed has a connection of unknown state. */
static void give_back(redis_rows *s, reader *d, fl_status st)
{
    if (st) {
        reader_free(d);
        return;
    }
    fl_lock(&s->mu);
    fl_vec_push(&s->idle, d);
    fl_unlock(&s->mu);
}

/* --- asking --------------------------------------------------------------- */

/* Places of keys, those of a hash together: hashes are few, so counting sorts
   them. */
static void order_keys(reader *d, const fl_source_read *r)
{
    uint32_t at[HASHES + 1] = { 0 };

    d->order.len = d->hashes.len = 0;
    for (size_t i = 0; i < r->n; i++) {
        uint32_t hash = fl_table_shard_of(r->keys[i]) / FL_REDIS_SHARDS;

        fl_vec_push(&d->hashes, hash);
        fl_vec_push(&d->order, 0);
        at[hash + 1]++;
    }
    for (size_t i = 0; i < HASHES; i++)
        at[i + 1] += at[i];
    for (size_t i = 0; i < r->n; i++)
        d->order.data[at[d->hashes.data[i]]++] = (uint32_t)i;
}

/* The end of the run of keys of one hash that begins at lo. */
static size_t end_of_hash(const reader *d, size_t lo)
{
    uint32_t hash = d->hashes.data[d->order.data[lo]];
    size_t hi = lo + 1;

    while (hi < d->order.len && d->hashes.data[d->order.data[hi]] == hash)
        hi++;
    return hi;
}

static fl_status ask_hash(const redis_rows *s, reader *d,
                          const fl_source_read *r, const char *layer, size_t lo)
{
    uint32_t shard = fl_table_shard_of(r->keys[d->order.data[lo]]);
    char *key = fl_redis_shard_key(&s->place, layer, r->table, shard);
    size_t hi = end_of_hash(d, lo);
    fl_status st;

    fl_redis_words_clear(&d->words);
    fl_redis_words_text(&d->words, "HMGET");
    fl_redis_words_text(&d->words, key);
    for (size_t i = lo; i < hi; i++)
        fl_redis_words_add(&d->words, &r->keys[d->order.data[i]],
                           sizeof(*r->keys));
    st = fl_redis_send(&d->link, &d->words);
    fl_free(key);
    return st;
}

static fl_status ask_all(const redis_rows *s, reader *d,
                         const fl_source_read *r)
{
    for (size_t k = 0; k < d->layers.len; k++)
        for (size_t lo = 0; lo < r->n; lo = end_of_hash(d, lo))
            FL_TRY(ask_hash(s, d, r, d->layers.data[k], lo));
    fl_redis_words_clear(&d->words);
    fl_redis_words_text(&d->words, "GET");
    fl_redis_words_text(&d->words, s->current_key);
    return fl_redis_send(&d->link, &d->words);
}

/* --- answers -------------------------------------------------------------- */

enum { UNKNOWN, FOUND, GONE };

/* Rows of one hash on their way. */
typedef struct taking {
    const fl_source_read *r;
    const uint32_t *order; /* of the keys of the hash */
    uint8_t *known;
} taking;

/* What the layers say of a key, the newest first. */
static fl_status take_value(void *arg, size_t i, const char *bytes, size_t len)
{
    const taking *t = arg;
    const fl_source_read *r = t->r;
    uint32_t key = t->order[i];

    if (t->known[key])
        return FL_OK;
    if (!len) {
        t->known[key] = GONE;
        return FL_OK;
    }
    if (len != r->dim * sizeof(float))
        FL_FAIL(FL_ERR_CORRUPT,
                "a row in Redis has %zu bytes where %zu are due: it is of "
                "another table or another model",
                len, r->dim * sizeof(float));
    memcpy(r->out + (size_t)key * r->dim, bytes, len);
    t->known[key] = FOUND;
    return FL_OK;
}

static fl_status take_hash(reader *d, const fl_source_read *r, size_t lo,
                           uint8_t *known)
{
    taking t = { r, d->order.data + lo, known };

    return fl_redis_take_values(&d->link, end_of_hash(d, lo) - lo, take_value,
                                &t);
}

static fl_status take_layers(reader *d, const fl_source_read *r, uint8_t *known)
{
    for (size_t k = 0; k < d->layers.len; k++)
        for (size_t lo = 0; lo < r->n; lo = end_of_hash(d, lo))
            FL_TRY(take_hash(d, r, lo, known));
    return FL_OK;
}

static void fill_missing(fl_source_read *r, const uint8_t *known)
{
    r->n_missing = 0;
    for (size_t i = 0; i < r->n; i++)
        if (known[i] != FOUND)
            fl_source_missing(r, i);
}

/* --- the whole ------------------------------------------------------------ */

/* *is_whole: the version that was read still counted at the end. */
static fl_status read_once(const redis_rows *s, reader *d, fl_source_read *r,
                           uint8_t *known, bool *is_whole)
{
    redisReply *reply;
    fl_str current = { 0 };

    memset(known, UNKNOWN, r->n);
    FL_TRY(ask_all(s, d, r));
    FL_TRY(take_layers(d, r, known));
    FL_TRY(fl_redis_take(&d->link, REDIS_REPLY_STRING, &reply));
    fl_str_add(&current, reply->str ? reply->str : "");
    freeReplyObject(reply);
    *is_whole = !strcmp(fl_str_text(&current), d->current);
    if (!*is_whole)
        return set_current(s, d, fl_str_take(&current));
    fl_str_release(&current);
    return FL_OK;
}

static fl_status read_rows(const redis_rows *s, reader *d, fl_source_read *r)
{
    uint8_t *known = fl_alloc(r->n + 1);
    bool is_whole = false;
    fl_status st = FL_OK;

    order_keys(d, r);
    for (int i = 0; !st && !is_whole && i < SWITCHES_MAX; i++)
        st = read_once(s, d, r, known, &is_whole);
    if (!st && !is_whole)
        st = fl_err_set(FL_ERR_BUSY,
                        "the version of model %s in Redis at %s has changed %d "
                        "times in the midst of one read; try again",
                        s->place.name, s->place.address, SWITCHES_MAX);
    if (!st)
        fill_missing(r, known);
    fl_free(known);
    return st;
}

static fl_status redis_read(fl_row_source *port, fl_source_read *r)
{
    redis_rows *s = (redis_rows *)port;
    reader *d;
    fl_status st;

    FL_TRY(take_reader(s, &d));
    st = read_rows(s, d, r);
    give_back(s, d, st);
    return st;
}

/* --- keys ----------------------------------------------------------------- */

/* A hash has the keys of other shards, too. */
static fl_status take_keys(reader *d, uint32_t shard, fl_source_key_fn fn,
                           void *arg)
{
    redisReply *reply;

    FL_TRY(fl_redis_take(&d->link, REDIS_REPLY_ARRAY, &reply));
    for (size_t i = 0; i < reply->elements; i++) {
        const redisReply *field = reply->element[i];
        uint64_t key;

        if (field->len != sizeof(key))
            continue; /* nobody asks for it */
        memcpy(&key, field->str, sizeof(key));
        if (fl_table_shard_of(key) == shard)
            fn(arg, key);
    }
    freeReplyObject(reply);
    return FL_OK;
}

static fl_status ask_keys(const redis_rows *s, reader *d, const char *layer,
                          const char *table, uint32_t shard)
{
    char *key = fl_redis_shard_key(&s->place, layer, table, shard);
    fl_status st;

    fl_redis_words_clear(&d->words);
    fl_redis_words_text(&d->words, "HKEYS");
    fl_redis_words_text(&d->words, key);
    st = fl_redis_send(&d->link, &d->words);
    fl_free(key);
    return st;
}

/* Those that a newer layer has removed are among them. */
static fl_status redis_list(fl_row_source *port, const char *table,
                            uint32_t shard, fl_source_key_fn fn, void *arg)
{
    redis_rows *s = (redis_rows *)port;
    fl_status st = FL_OK;
    reader *d;

    FL_TRY(take_reader(s, &d));
    for (size_t i = 0; i < d->layers.len && !st; i++)
        st = ask_keys(s, d, d->layers.data[i], table, shard);
    for (size_t i = 0; i < d->layers.len && !st; i++)
        st = take_keys(d, shard, fn, arg);
    give_back(s, d, st);
    return st;
}

static void redis_free(fl_row_source *port)
{
    redis_rows *s = (redis_rows *)port;

    for (size_t i = 0; i < s->idle.len; i++)
        reader_free(s->idle.data[i]);
    fl_vec_release(&s->idle);
    fl_mutex_release(&s->mu);
    fl_free(s->current_key);
    fl_redis_place_release(&s->place);
    fl_free(s);
}

static const fl_row_source_ops ops = {
    .name = "Redis", .read = redis_read, .list = redis_list, .free = redis_free
};

/* Its first reader is there when it is: what cannot be reached is told now. */
static fl_status open_rows(redis_rows *s, const fl_redis_args *args)
{
    reader *d;

    FL_TRY(fl_redis_place_init(&s->place, args));
    s->current_key = fl_redis_current_key(&s->place);
    FL_TRY(reader_new(s, &d));
    fl_vec_push(&s->idle, d);
    return FL_OK;
}

fl_status fl_row_source_of_redis_with(fl_row_source **out,
                                      const fl_redis_args *args)
{
    redis_rows *s;
    fl_redis_args a;
    fl_status st;

    FL_TRY(FL_ARGS_READ(fl_redis_args, &a, args));
    s = fl_alloc(sizeof(*s));
    s->port.ops = &ops;
    fl_mutex_init(&s->mu);
    st = open_rows(s, &a);
    if (st)
        redis_free(&s->port);
    else
        *out = &s->port;
    return fl_err_ctx(st, "fl_row_source_of_redis");
}
