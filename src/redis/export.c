/* export.c - the rows of a saved model are brought to Redis.
 *
 *     begin     the version is noted, so that one that dies is found again
 *     put       rows by the pile, each shard under a key of its own
 *     switch    one key: readers use the version from now on
 *     clear     versions that do not count any more
 *
 * A delta whose base readers use is one more layer over it; as soon as there
 * are LAYERS_MAX, or anything else is there, all of the model is written anew.
 */
#include <inttypes.h>
#include <string.h>

#include "base/alloc.h"
#include "base/args.h"
#include "base/log.h"
#include "ckpt/table_map.h"
#include "redis/link.h"

#define LAYERS_MAX 8
#define ROWS_OF_A_COMMAND 256
#define COMMANDS_UNDER_WAY 64

typedef FL_VEC(fl_model_version *) versions;

/* Rows of one shard on their way. */
typedef struct pile {
    fl_redis_words words, gone;
    size_t n_rows, n_gone;
    uint64_t keys[ROWS_OF_A_COMMAND];
    float *values; /* [ROWS_OF_A_COMMAND, dim] */
    char *key;     /* of the hash */
} pile;

typedef struct exporter {
    fl_redis_place place;
    fl_redis_link link;
    fl_redis_report report;
    char *current, *next; /* what readers use, and are going to */
    versions chain;       /* the newest first, down to the whole one */
    size_t n_put;         /* versions of the chain that are written */
    size_t n_sent;        /* commands that wait for their answer */
    const fl_table_map *map;
    pile pile;
    fl_status st; /* of a walk over rows */
} exporter;

static const char *id_of(const exporter *x)
{
    return x->chain.data[0]->id;
}

/* --- what is there and what is to be written ------------------------------ */

static fl_status open_chain(exporter *x, const char *path)
{
    fl_model_version *v;

    FL_TRY(fl_version_open(&v, path));
    fl_vec_push(&x->chain, v);
    while (x->chain.data[x->chain.len - 1]->manifest.base) {
        FL_TRY(fl_version_open_base(&v, x->chain.data[x->chain.len - 1]));
        fl_vec_push(&x->chain, v);
    }
    return FL_OK;
}

static void count_layer(void *arg, const char *version)
{
    (void)version;
    ++*(size_t *)arg;
}

static bool ends_with(const char *list, const char *version)
{
    const char *last = strrchr(list, ',');

    return !strcmp(last ? last + 1 : list, version);
}

/* Whether what readers use is the base of the newest version. */
static bool has_base(const exporter *x)
{
    const char *base = x->chain.data[0]->manifest.base;
    size_t n_layers = 0;

    fl_redis_each_version(x->current, count_layer, &n_layers);
    return base && n_layers < LAYERS_MAX && ends_with(x->current, base);
}

static void plan(exporter *x)
{
    fl_str next = { 0 };

    x->report.is_delta = has_base(x);
    x->n_put = x->report.is_delta ? 1 : x->chain.len;
    fl_str_addf(&next, "%s%s%s", x->report.is_delta ? x->current : "",
                x->report.is_delta ? "," : "", id_of(x));
    x->next = fl_str_take(&next);
}

/* --- sending -------------------------------------------------------------- */

static fl_status take_answers(exporter *x)
{
    for (; x->n_sent; x->n_sent--)
        FL_TRY(fl_redis_skip(&x->link, REDIS_REPLY_INTEGER));
    return FL_OK;
}

/* Every command that is sent so is answered with a number. */
static fl_status send(exporter *x, fl_redis_words *w)
{
    FL_TRY(fl_redis_send(&x->link, w));
    return ++x->n_sent < COMMANDS_UNDER_WAY ? FL_OK : take_answers(x);
}

static void begin_words(fl_redis_words *w, const char *command, const char *key)
{
    fl_redis_words_clear(w);
    fl_redis_words_text(w, command);
    fl_redis_words_text(w, key);
}

static fl_status send_pile(exporter *x)
{
    pile *p = &x->pile;

    if (p->n_rows)
        FL_TRY(send(x, &p->words));
    if (p->n_gone)
        FL_TRY(send(x, &p->gone));
    p->n_rows = p->n_gone = 0;
    begin_words(&p->words, "HSET", p->key);
    begin_words(&p->gone, "HSET", p->key);
    return FL_OK;
}

/* A row of a delta that is no more is an empty text: it hides older layers. */
static void add_row(void *arg, uint64_t key, uint64_t row)
{
    exporter *x = arg;
    pile *p = &x->pile;
    uint32_t dim = fl_table_map_config(x->map)->dim;
    size_t i = p->n_rows + p->n_gone;

    if (x->st)
        return;
    p->keys[i] = key;
    if (row == FL_MAP_GONE) {
        fl_redis_words_add(&p->gone, &p->keys[i], sizeof(key));
        fl_redis_words_text(&p->gone, "");
        p->n_gone++;
        x->report.gone++;
    } else {
        fl_table_map_value(x->map, row, p->values + i * dim);
        fl_redis_words_add(&p->words, &p->keys[i], sizeof(key));
        fl_redis_words_add(&p->words, p->values + i * dim,
                           dim * sizeof(*p->values));
        p->n_rows++;
        x->report.rows++;
        x->report.bytes += sizeof(key) + dim * sizeof(*p->values);
    }
    if (i + 1 == ROWS_OF_A_COMMAND)
        x->st = send_pile(x);
}

static fl_status put_shard(exporter *x, const char *table, uint32_t shard)
{
    fl_free(x->pile.key);
    x->pile.key = fl_redis_shard_key(&x->place, id_of(x), table, shard);
    FL_TRY(send_pile(x));
    x->st = FL_OK;
    fl_table_map_each(x->map, shard, add_row, x);
    FL_TRY(x->st);
    return send_pile(x);
}

static fl_status put_rows(exporter *x, const char *table)
{
    size_t n = ROWS_OF_A_COMMAND * fl_table_map_config(x->map)->dim;
    fl_status st = FL_OK;

    x->pile.values = fl_alloc(n * sizeof(float));
    for (uint32_t shard = 0; !st && shard < FL_TABLE_SHARDS; shard++)
        st = put_shard(x, table, shard);
    fl_free(x->pile.values);
    x->pile.values = NULL;
    return st;
}

static fl_status put_table(exporter *x, const fl_model_version *v,
                           const char *table)
{
    fl_table_map *map;
    fl_status st;

    FL_TRY(fl_table_map_open(&map, v, table));
    x->map = map;
    st = put_rows(x, table);
    fl_table_map_close(map);
    return st;
}

/* The older first, so that newer rows replace them. */
static fl_status put_versions(exporter *x)
{
    for (size_t i = x->n_put; i-- > 0;) {
        const fl_model_version *v = x->chain.data[i];

        for (size_t k = 0; k < v->manifest.tables.len; k++)
            FL_TRY(put_table(x, v, v->manifest.tables.data[k].name));
    }
    return take_answers(x);
}

/* --- versions that do not count -------------------------------------------- */

static fl_status send_texts(exporter *x, const char *command, const char *key,
                            const char *value)
{
    fl_redis_words w = { 0 };
    fl_status st;

    begin_words(&w, command, key);
    if (value)
        fl_redis_words_text(&w, value);
    st = send(x, &w);
    fl_redis_words_release(&w);
    return st;
}

static fl_status send_keyed(exporter *x, const char *command, char *key,
                            const char *value)
{
    fl_status st = send_texts(x, command, key, value);

    fl_free(key);
    return st;
}

static fl_status remove_shards(exporter *x, const char *version,
                               const char *table)
{
    for (uint32_t shard = 0; shard < FL_TABLE_SHARDS; shard += FL_REDIS_SHARDS)
        FL_TRY(send_keyed(x, "UNLINK",
                          fl_redis_shard_key(&x->place, version, table, shard),
                          NULL));
    return take_answers(x);
}

static fl_status remove_tables(exporter *x, const char *version)
{
    char *key = fl_redis_tables_key(&x->place, version);
    const char *words[] = { "SMEMBERS", key, NULL };
    redisReply *r = NULL;
    fl_status st = fl_redis_ask(&x->link, REDIS_REPLY_ARRAY, &r, words);

    for (size_t i = 0; !st && i < r->elements; i++)
        st = remove_shards(x, version, r->element[i]->str);
    if (r)
        freeReplyObject(r);
    fl_free(key);
    return st;
}

/* The note goes last: until then the next export finds the rest. */
static fl_status remove_version(exporter *x, const char *version)
{
    FL_TRY(remove_tables(x, version));
    FL_TRY(
        send_keyed(x, "UNLINK", fl_redis_tables_key(&x->place, version), NULL));
    FL_TRY(send_keyed(x, "SREM", fl_redis_versions_key(&x->place), version));
    x->report.removed_versions++;
    return take_answers(x);
}

/* Looking for a version in a list. */
typedef struct search {
    const char *version;
    bool is_there;
} search;

static void compare_version(void *arg, const char *version)
{
    search *s = arg;

    s->is_there |= !strcmp(s->version, version);
}

static bool is_in(const char *list, const char *version)
{
    search s = { .version = version };

    fl_redis_each_version(list, compare_version, &s);
    return s.is_there;
}

/* All versions that the list does not have. */
static fl_status remove_all_but(exporter *x, const char *list)
{
    char *key = fl_redis_versions_key(&x->place);
    const char *words[] = { "SMEMBERS", key, NULL };
    redisReply *r = NULL;
    fl_status st = fl_redis_ask(&x->link, REDIS_REPLY_ARRAY, &r, words);

    for (size_t i = 0; !st && i < r->elements; i++)
        if (!is_in(list, r->element[i]->str))
            st = remove_version(x, r->element[i]->str);
    if (r)
        freeReplyObject(r);
    fl_free(key);
    return st;
}

/* --- the whole ------------------------------------------------------------- */

/* What an export that died has left goes first, this version's included. */
static fl_status begin_export(exporter *x)
{
    FL_TRY(remove_all_but(x, x->current));
    if (x->report.removed_versions)
        FL_INFO("redis",
                "removed what %" PRIu64 " exports that did not end "
                "left at %s",
                x->report.removed_versions, x->place.address);
    FL_TRY(send_keyed(x, "SADD", fl_redis_versions_key(&x->place), id_of(x)));
    for (size_t i = 0; i < x->n_put; i++) {
        const fl_manifest *m = &x->chain.data[i]->manifest;

        for (size_t k = 0; k < m->tables.len; k++)
            FL_TRY(send_keyed(x, "SADD",
                              fl_redis_tables_key(&x->place, id_of(x)),
                              m->tables.data[k].name));
    }
    return take_answers(x);
}

static fl_status use_version(exporter *x)
{
    char *key = fl_redis_current_key(&x->place);
    const char *words[] = { "SET", key, x->next, NULL };
    fl_status st = fl_redis_ask(&x->link, REDIS_REPLY_STATUS, NULL, words);

    fl_free(key);
    return st;
}

static fl_status look(exporter *x)
{
    char *key = fl_redis_current_key(&x->place);
    fl_status st = fl_redis_get(&x->link, key, &x->current);

    fl_free(key);
    return st;
}

static fl_status run(exporter *x, const char *path)
{
    FL_TRY(open_chain(x, path));
    FL_TRY(fl_redis_link_open(&x->link, &x->place));
    FL_TRY(look(x));
    if (ends_with(x->current, id_of(x)))
        return FL_OK; /* it is there already */
    plan(x);
    FL_TRY(begin_export(x));
    FL_TRY(put_versions(x));
    FL_TRY(use_version(x));
    return fl_err_ctx(remove_all_but(x, x->next),
                      "the new version counts, but old ones are not removed");
}

static void release(exporter *x)
{
    for (size_t i = 0; i < x->chain.len; i++)
        fl_version_close(x->chain.data[i]);
    fl_vec_release(&x->chain);
    fl_redis_words_release(&x->pile.words);
    fl_redis_words_release(&x->pile.gone);
    fl_free(x->pile.key);
    fl_free(x->current);
    fl_free(x->next);
    fl_redis_link_close(&x->link);
    fl_redis_place_release(&x->place);
}

fl_status fl_redis_export_with(const char *path, fl_redis_report *report,
                               const fl_redis_args *args)
{
    exporter *x = fl_alloc(sizeof(*x));
    fl_redis_args a;
    fl_status st;

    st = FL_ARGS_READ(fl_redis_args, &a, args);
    if (!st)
        st = fl_redis_place_init(&x->place, &a);
    if (!st)
        st = run(x, path);
    if (!st && report)
        st = FL_ARGS_FILL(fl_redis_report, report, &x->report);
    release(x);
    fl_free(x);
    return fl_err_ctx(st, "fl_redis_export");
}
