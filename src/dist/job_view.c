/* job_view.c - looking at what the servers of a job hold.
 *
 * Servers know tables and blocks by number; which number has which name is in
 * their statistics, asked for once. A parameter is one block of its name, or
 * blocks NAME.block0, NAME.block1, ... behind one another, or, when it is read by
 * ids, the rows of a table of its name.
 */
#include "dist/job_view.h"

#include <inttypes.h>
#include <string.h>

#include "base/hash.h"
#include "base/json.h"
#include "ckpt/json_in.h"
#include "ctx/ctx.h"
#include "dist/endpoints.h"
#include "dist/job_key.h"
#include "ps/client/call_sync.h"
#include "ps/options.h"

#define VIEW_MS 10000 /* for a server to be there, and to come back */
#define KEYS_AT_ONCE 16384
#define REPLY_HEAD_BYTES 16
#define WHERE "the statistics of the servers"

typedef struct view_block {
    char *name;
    fl_client_block at;
} view_block;

struct fl_job_view {
    fl_endpoints net;
    fl_client *client;
    int n_servers;
    uint64_t max_bytes;
    FL_VEC(char *) tables; /* names, by number */
    FL_VEC(view_block) blocks;
};

/* --- where the servers are ------------------------------------------------ */

/* "host:port,host:port", in the order of ranks. */
static fl_status list_servers(fl_ctx *c, const char *address, fl_str *out)
{
    fl_member_status m = { .size = sizeof(m) };
    fl_job_status *s;
    fl_status st = FL_OK;

    FL_TRY(fl_job_status_get(&s, c, address));
    for (size_t i = 0; !st && fl_job_status_member(s, i, &m); i++) {
        if (m.role != FL_ROLE_SERVER)
            continue;
        if (!*m.address)
            st = fl_err_set(FL_ERR_BUSY,
                            "server %d of the job at %s has not come yet; try "
                            "again when it has",
                            m.rank, address);
        fl_str_addf(out, "%s%s", out->len ? "," : "", m.address);
    }
    fl_job_status_free(s);
    return st;
}

static uint64_t at_most(uint64_t ms)
{
    return ms < VIEW_MS ? ms : VIEW_MS;
}

static fl_status connect_to(fl_job_view *v, fl_ctx *c, const char *address)
{
    fl_client_options o = fl_client_options_of(&c->conf);
    fl_job_key key;
    fl_status st;

    fl_job_key_choose(&key, &c->conf, address, FL_JOB_LOOK);
    o.servers = (const char *const *)v->net.servers.data;
    o.n_servers = v->n_servers = (int)v->net.servers.len;
    o.job = fl_str_text(&key.job);
    o.token = fl_str_text(&key.token);
    o.is_tool = true;
    o.arena_bytes = 0;
    o.connect_timeout_ms = at_most(o.connect_timeout_ms);
    o.restart_timeout_ms = at_most(o.restart_timeout_ms);
    v->max_bytes = o.max_message_bytes;
    st = fl_client_new(&v->client, v->net.net, NULL, &o);
    fl_job_key_release(&key);
    return st;
}

/* --- what they hold ------------------------------------------------------- */

static fl_status note_table(fl_job_view *v, const cJSON *table)
{
    const char *name;

    FL_TRY(fl_json_in_text(table, "name", WHERE, &name));
    fl_vec_push(&v->tables, fl_strdup(name));
    return FL_OK;
}

/* A block that another server has is in the list, without bytes. */
static fl_status note_block(fl_job_view *v, const cJSON *block,
                            fl_client_block at)
{
    uint64_t held;
    const char *name;

    FL_TRY(fl_json_in_text(block, "name", WHERE, &name));
    FL_TRY(fl_json_in_u64(block, "floats", WHERE, &at.n));
    FL_TRY(fl_json_in_u64(block, "held_bytes", WHERE, &held));
    if (held)
        fl_vec_push(&v->blocks, ((view_block){ fl_strdup(name), at }));
    return FL_OK;
}

/* All servers have the same tables. */
static fl_status note_server(fl_job_view *v, const cJSON *server, int rank)
{
    const cJSON *tables, *blocks, *item;
    fl_client_block at = { .server = rank };

    FL_TRY(fl_json_in_array(server, "tables", WHERE, &tables));
    FL_TRY(fl_json_in_array(server, "blocks", WHERE, &blocks));
    for (item = tables->child; item && !rank; item = item->next)
        FL_TRY(note_table(v, item));
    for (item = blocks->child; item; item = item->next) {
        FL_TRY(note_block(v, item, at));
        at.number++;
    }
    return FL_OK;
}

static fl_status note_all(fl_job_view *v, const char *text)
{
    const cJSON *servers;
    fl_status st;
    cJSON *root;
    int rank = 0;

    FL_TRY(fl_json_in_parse(&root, text, strlen(text), WHERE));
    st = fl_json_in_array(root, "servers", WHERE, &servers);
    if (!st)
        for (const cJSON *item = servers->child; item && !st; item = item->next)
            st = note_server(v, item, rank++);
    cJSON_Delete(root);
    return st;
}

static fl_status look_around(fl_job_view *v)
{
    fl_json j = { 0 };
    fl_status st;
    char *text;

    fl_json_object(&j, NULL);
    fl_json_array(&j, "servers");
    st = fl_client_stats_all(v->client, &j, FL_WAIT);
    fl_json_end(&j);
    fl_json_end(&j);
    text = fl_json_take(&j);
    if (!st)
        st = note_all(v, text);
    fl_free(text);
    return st;
}

/* --- opening -------------------------------------------------------------- */

static fl_status open_view(fl_job_view *v, fl_ctx *c, const char *address)
{
    fl_str servers = { 0 };
    fl_status st = list_servers(c, address, &servers);

    if (!st)
        st = fl_endpoints_open(&v->net, &c->conf, fl_str_text(&servers));
    fl_str_release(&servers);
    FL_TRY(st);
    FL_TRY(connect_to(v, c, address));
    return look_around(v);
}

fl_status fl_job_view_open(fl_job_view **out, fl_ctx *c, const char *address)
{
    fl_job_view *v = fl_alloc(sizeof(*v));
    fl_status st = open_view(v, c, address);
    fl_err why;

    if (!st) {
        *out = v;
        return FL_OK;
    }
    fl_err_save(&why, st);
    fl_job_view_close(v);
    return fl_err_restore(&why);
}

void fl_job_view_close(fl_job_view *v)
{
    if (!v)
        return;
    fl_client_free(v->client);
    for (size_t i = 0; i < v->blocks.len; i++)
        fl_free(v->blocks.data[i].name);
    fl_vec_release(&v->blocks);
    for (size_t i = 0; i < v->tables.len; i++)
        fl_free(v->tables.data[i]);
    fl_vec_release(&v->tables);
    fl_endpoints_close(&v->net);
    fl_free(v);
}

/* --- rows ----------------------------------------------------------------- */

/* Rows on their way: keys in the order of their servers, and the requests. */
typedef struct reading {
    uint64_t *keys;
    uint32_t *places; /* of the caller */
    float *values;
    uint8_t *missing;
    fl_peek *peeks;
    int *servers; /* by peek */
    size_t n_peeks;
} reading;

static void reading_release(reading *d)
{
    fl_free(d->keys);
    fl_free(d->places);
    fl_free(d->values);
    fl_free(d->missing);
    fl_free(d->peeks);
    fl_free(d->servers);
}

/* first[s] is where the keys of server s begin. */
static void sort_keys(const fl_job_view *v, const fl_view_rows *r,
                      size_t *first, reading *d)
{
    for (size_t i = 0; i < r->n; i++)
        first[fl_client_server_of(v->n_servers, r->keys[i]) + 1]++;
    for (int s = 0; s < v->n_servers; s++)
        first[s + 1] += first[s];
    for (size_t i = 0; i < r->n; i++) {
        size_t at = first[fl_client_server_of(v->n_servers, r->keys[i])]++;

        d->keys[at] = r->keys[i];
        d->places[at] = (uint32_t)i;
    }
    for (int s = v->n_servers; s > 0; s--)
        first[s] = first[s - 1];
    first[0] = 0;
}

/* How many keys a request has at most, so that its reply fits. */
static size_t most_keys(const fl_job_view *v, uint32_t dim)
{
    uint64_t n = (v->max_bytes - REPLY_HEAD_BYTES) /
                 ((dim + 2) * sizeof(float)); /* wider than a key, too */

    return n > KEYS_AT_ONCE ? KEYS_AT_ONCE : n ? (size_t)n : 1;
}

static void plan_peeks(const fl_job_view *v, const fl_view_rows *r,
                       uint32_t table, const size_t *first, reading *d)
{
    size_t most = most_keys(v, r->dim);

    for (int s = 0; s < v->n_servers; s++)
        for (size_t lo = first[s]; lo < first[s + 1]; lo += most) {
            size_t left = first[s + 1] - lo;

            d->servers[d->n_peeks] = s;
            d->peeks[d->n_peeks++] = (fl_peek){ .table = table,
                                                .dim = r->dim,
                                                .keys = d->keys + lo,
                                                .n = left < most ? left : most,
                                                .out = d->values + lo * r->dim,
                                                .missing = d->missing + lo };
        }
}

static fl_status ask(const fl_job_view *v, reading *d)
{
    fl_status st;
    fl_latch l;

    fl_latch_init(&l, fl_client_poller(v->client));
    for (size_t i = 0; i < d->n_peeks; i++) {
        st = fl_client_peek(v->client, d->servers[i], &d->peeks[i],
                            fl_client_latch(&l));
        if (st)
            fl_latch_done(&l, st);
    }
    st = fl_latch_wait(&l);
    fl_latch_release(&l);
    return st;
}

static void put_in_place(const reading *d, const fl_view_rows *r)
{
    for (size_t i = 0; i < r->n; i++) {
        memcpy(r->out + (size_t)d->places[i] * r->dim, d->values + i * r->dim,
               r->dim * sizeof(float));
        r->missing[d->places[i]] = d->missing[i];
    }
}

static void make_room(const fl_job_view *v, const fl_view_rows *r, reading *d)
{
    size_t n_peeks = r->n / most_keys(v, r->dim) + (size_t)v->n_servers;

    d->keys = fl_alloc((r->n + 1) * sizeof(*d->keys));
    d->places = fl_alloc((r->n + 1) * sizeof(*d->places));
    d->values = fl_alloc((r->n * r->dim + 1) * sizeof(*d->values));
    d->missing = fl_alloc(r->n + 1);
    d->peeks = fl_alloc(n_peeks * sizeof(*d->peeks));
    d->servers = fl_alloc(n_peeks * sizeof(*d->servers));
}

static fl_status find_table(const fl_job_view *v, const char *name,
                            uint32_t *table)
{
    for (size_t i = 0; i < v->tables.len; i++)
        if (!strcmp(v->tables.data[i], name)) {
            *table = (uint32_t)i;
            return FL_OK;
        }
    FL_FAIL(FL_ERR_NOTFOUND, "the job has no table %s", name);
}

fl_status fl_job_view_read(const fl_job_view *v, const fl_view_rows *r)
{
    size_t first[FL_SHARDS + 1] = { 0 };
    reading d = { 0 };
    uint32_t table;
    fl_status st;

    FL_TRY(find_table(v, r->table, &table));
    make_room(v, r, &d);
    sort_keys(v, r, first, &d);
    plan_peeks(v, r, table, first, &d);
    st = ask(v, &d);
    if (!st)
        put_in_place(&d, r);
    reading_release(&d);
    return st;
}

/* --- dense parameters ----------------------------------------------------- */

static const fl_client_block *find_block(const fl_job_view *v, const char *name)
{
    for (size_t i = 0; i < v->blocks.len; i++)
        if (!strcmp(v->blocks.data[i].name, name))
            return &v->blocks.data[i].at;
    return NULL;
}

typedef FL_VEC(fl_client_block) block_list;

static bool add_part(const fl_job_view *v, const char *name, size_t i,
                     block_list *out)
{
    const fl_client_block *b;
    fl_str part = { 0 };

    fl_str_addf(&part, "%s.block%zu", name, i);
    b = find_block(v, fl_str_text(&part));
    fl_str_release(&part);
    if (b)
        fl_vec_push(out, *b);
    return b != NULL;
}

static void find_blocks(const fl_job_view *v, const char *name, block_list *out)
{
    const fl_client_block *whole = find_block(v, name);

    if (whole)
        fl_vec_push(out, *whole);
    for (size_t i = 0; !whole && add_part(v, name, i, out); i++)
        ;
}

static uint64_t count_numbers(const block_list *blocks)
{
    uint64_t n = 0;

    for (size_t i = 0; i < blocks->len; i++)
        n += blocks->data[i].n;
    return n;
}

static fl_status pull_blocks(const fl_job_view *v, const block_list *blocks,
                             float *out)
{
    float **places = fl_alloc((blocks->len + 1) * sizeof(*places));
    fl_status st;
    fl_latch l;

    for (size_t i = 0; i < blocks->len; i++) {
        places[i] = out;
        out += blocks->data[i].n;
    }
    fl_latch_init(&l, fl_client_poller(v->client));
    st = fl_client_pull_blocks(v->client, blocks->data, places, blocks->len,
                               fl_client_latch(&l));
    if (st)
        fl_latch_done(&l, st);
    st = fl_latch_wait(&l);
    fl_latch_release(&l);
    fl_free(places);
    return st;
}

/* An array that is read by ids is a table of its rows, by number. */
static fl_status read_as_rows(const fl_job_view *v, const char *name,
                              const fl_shape *shape, float *out)
{
    size_t n = shape->rank == 2 ? (size_t)shape->dim[0] : 0;
    uint64_t *keys;
    uint8_t *missing;
    uint32_t table;
    fl_status st;

    if (!n || find_table(v, name, &table))
        FL_FAIL(FL_ERR_NOTFOUND, "the job has no dense parameter %s", name);
    keys = fl_alloc(n * sizeof(*keys));
    missing = fl_alloc(n);
    for (size_t i = 0; i < n; i++)
        keys[i] = i;
    st = fl_job_view_read(v, &(fl_view_rows){ .table = name,
                                              .keys = keys,
                                              .n = n,
                                              .dim = (uint32_t)shape->dim[1],
                                              .out = out,
                                              .missing = missing });
    fl_free(keys);
    fl_free(missing);
    return st;
}

fl_status fl_job_view_dense(const fl_job_view *v, const char *name,
                            const fl_shape *shape, float *out)
{
    uint64_t n = (uint64_t)fl_shape_numel(shape), held;
    block_list blocks = { 0 };
    fl_status st;

    find_blocks(v, name, &blocks);
    held = count_numbers(&blocks);
    if (!blocks.len)
        st = read_as_rows(v, name, shape, out);
    else if (held != n)
        st = fl_err_set(FL_ERR_INVAL,
                        "parameter %s has %" PRIu64 " numbers on the servers, "
                        "and %" PRIu64 " are asked for",
                        name, held, n);
    else
        st = pull_blocks(v, &blocks, out);
    fl_vec_release(&blocks);
    return st;
}
