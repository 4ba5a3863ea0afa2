/* client_rows.c - keys scattered to servers, and values put where they belong.
 *
 * A request is a table of cells: the keys of item i that go to server s. Two
 * passes over the keys: the first finds the server of each and counts, the second
 * puts each key, and what belongs to it, to its place in the body:
 *
 *     server 0: cell of item 0, cell of item 1, ...   server 1: ...   places
 *
 * Within a cell keys keep the caller's order, so that equal keys are added up
 * in the same order whatever the number of servers. Where the keys of an item come
 * server by server (pull_sparse numbers them so), and with one server, nothing is
 * scattered: the payload is the caller's own memory behind a head. Values that
 * travel coded are encoded before all that, as one run of each item, and then
 * scattered as bytes.
 */
#include <inttypes.h>
#include <string.h>

#include "kernel/keys.h"
#include "ps/client/client_inside.h"

/* Of an item in a message, beside its rows; at most. */
#define ITEM_BYTES 32
_Static_assert(FL_ITEMS_MAX *ITEM_BYTES > FL_SMALL_ROWS_BYTES,
               "small requests that are coalesced have few enough items");

static const uint8_t zeros[8];

static uint64_t padding(uint64_t bytes)
{
    return -bytes & 7;
}

static bool is_pull(const fl_request *r)
{
    return r->type == FL_MSG_PULL;
}

/* Every server gets every push, also without keys: a push is a step of its
   table's rule, and all parts of a table go through the same steps. */
static bool is_push(const fl_request *r)
{
    return r->type == FL_MSG_PUSH || r->type == FL_MSG_ROUND_PUSH;
}

static void pack_head(const fl_request *r, fl_request_part *p,
                      fl_rows_item *items, size_t n)
{
    fl_rows_request rows = { .round = r->round,
                             .items = items,
                             .n = (uint32_t)n };

    fl_rows_pack_head(&p->head, r->type, &rows);
    fl_part_add(p, p->head.data, p->head.len);
}

/* --- what is asked for ---------------------------------------------------- */

static void add_item(fl_request *r, const fl_rows_item *it, float *out)
{
    if (!it->rows.n && !is_push(r))
        return;
    fl_vec_push(&r->rows.items, *it);
    fl_vec_push(&r->rows.outs, out);
}

static fl_status check_keys(uint16_t type, int table, uint64_t n)
{
    if (n > UINT32_MAX)
        FL_FAIL(FL_ERR_INVAL,
                "a request (%s) has %" PRIu64
                " keys for table %d, more than one request can have",
                fl_msg_name(type), n, table);
    return FL_OK;
}

static fl_status check_count(uint16_t type, size_t n)
{
    if (n > FL_ITEMS_MAX)
        FL_FAIL(FL_ERR_INVAL,
                "a request (%s) has %zu items, more than %d; make several "
                "requests",
                fl_msg_name(type), n, FL_ITEMS_MAX);
    return FL_OK;
}

/* --- coded items ---------------------------------------------------------- */

static uint64_t n_values(const fl_rows_item *it)
{
    return it->rows.n * it->rows.dim;
}

static uint32_t key_width(const fl_rows_item *it)
{
    return it->key_width ? it->key_width : FL_KEY_WIDTH;
}

/* Keys of an item that is coded are narrow where they can be: counting their
   bytes costs less than moving them. */
static void choose_width(fl_rows_item *it)
{
    uint32_t width = it->codec == FL_CODEC_F32
                         ? FL_KEY_WIDTH
                         : fl_keys_width(it->rows.keys, it->rows.n);

    it->key_width = width < FL_KEY_WIDTH ? width : 0;
}

/* A growing offset into memory; without memory it only counts. */
typedef struct layout {
    uint8_t *base;
    uint64_t at;
} layout;

static void *take(layout *m, uint64_t bytes)
{
    void *p = m->base ? m->base + m->at : NULL;

    m->at += bytes;
    return p;
}

static void encode_values(fl_rows_item *it, layout *m)
{
    void *to;

    it->coded_values = it->rows.values;
    if (it->codec == FL_CODEC_F32 || !it->rows.values)
        return;
    to = take(m, fl_codec_bytes(it->codec, n_values(it)));
    it->coded_values = to;
    if (to)
        fl_codec_encode(it->codec, it->rows.values, n_values(it), to);
}

static void encode_keys(fl_rows_item *it, layout *m)
{
    void *to;

    it->coded_keys = it->rows.keys;
    if (!it->key_width)
        return;
    to = take(m, fl_keys_bytes(it->rows.n, it->key_width));
    it->coded_keys = to;
    if (to)
        fl_keys_encode(it->rows.keys, it->rows.n, it->key_width, to);
}

/* Keys that are coded for several servers are so when each has got its own. */
static void encode_all(fl_request *r, layout *m)
{
    for (size_t i = 0; i < r->rows.items.len; i++) {
        fl_rows_item *it = &r->rows.items.data[i];

        if (r->client->o.n_servers == 1 || !it->key_width)
            encode_keys(it, m);
        encode_values(it, m);
    }
}

static fl_status encode(fl_request *r)
{
    layout m = { 0 };

    for (size_t i = 0; i < r->rows.items.len; i++)
        choose_width(&r->rows.items.data[i]);
    encode_all(r, &m);
    FL_TRY(fl_request_grow(r, &r->rows.coded, m.at));
    m = (layout){ .base = r->rows.coded.data };
    encode_all(r, &m);
    return FL_OK;
}

/* --- the cells ------------------------------------------------------------ */

static fl_cell *cell_of(const fl_request *r, int server, size_t item)
{
    return &r->rows.cells.data[(size_t)server * r->rows.items.len + item];
}

static uint64_t n_keys(const fl_request *r)
{
    uint64_t n = 0;

    for (size_t i = 0; i < r->rows.items.len; i++)
        n += r->rows.items.data[i].rows.n;
    return n;
}

/* The first of n places in order that belongs to a server behind `server`. */
static uint64_t end_of(const uint16_t *servers, uint64_t n, int server)
{
    uint64_t lo = 0, hi = n;

    while (lo < hi) {
        uint64_t mid = lo + (hi - lo) / 2;

        if (servers[mid] <= server)
            lo = mid + 1;
        else
            hi = mid;
    }
    return lo;
}

static void cut_item(fl_request *r, size_t item, const uint16_t *servers)
{
    uint64_t n = r->rows.items.data[item].rows.n, at = 0;

    for (int s = 0; s < r->client->o.n_servers; s++) {
        fl_cell *c = cell_of(r, s, item);

        c->first = at;
        at = end_of(servers, n, s);
        c->n = at - c->first;
    }
}

static void count_item(fl_request *r, size_t item, const uint16_t *servers)
{
    for (uint64_t j = 0; j < r->rows.items.data[item].rows.n; j++)
        cell_of(r, servers[j], item)->n++;
}

/* Finds the server of each key, once for all. */
static fl_status count_keys(fl_request *r)
{
    int n_servers = r->client->o.n_servers;
    size_t n = r->rows.items.len;
    uint16_t *to;

    FL_TRY(fl_request_grow(r, &r->rows.servers, n_keys(r) * sizeof(*to)));
    to = r->rows.servers.data;
    for (size_t i = 0; i < n * (size_t)n_servers; i++)
        fl_vec_push(&r->rows.cells, ((fl_cell){ 0 }));
    r->rows.is_in_order = true;
    for (size_t i = 0; i < n; i++) {
        const fl_rows *rows = &r->rows.items.data[i].rows;

        if (fl_key_loops()->servers(to, rows->keys, rows->n, n_servers)) {
            cut_item(r, i, to);
        } else {
            count_item(r, i, to);
            r->rows.is_in_order = false;
        }
        to += rows->n;
    }
    return FL_OK;
}

/* With one server they are all its own. */
static void give_all(fl_request *r)
{
    for (size_t i = 0; i < r->rows.items.len; i++)
        fl_vec_push(&r->rows.cells,
                    ((fl_cell){ .n = r->rows.items.data[i].rows.n }));
    r->rows.is_in_order = true;
}

/* The rows of a cell whose keys stay in their order. They are all rows of an
   item that is coded. */
static fl_rows_item slice_of(const fl_rows_item *it, const fl_cell *c)
{
    fl_rows_item s = *it;

    s.rows = fl_rows_slice(&it->rows, (size_t)c->first, (size_t)c->n);
    if (c->first) {
        s.coded_keys = s.rows.keys;
        s.coded_values = s.rows.values;
    }
    return s;
}

/* Head of the part of a server, and its items in `heads`. It is the first piece,
   so it comes before all others. */
static void pack_heads(fl_request *r, int server)
{
    fl_request_part *p = &r->parts[server];

    r->rows.heads.len = 0;
    for (size_t i = 0; i < r->rows.items.len; i++) {
        fl_rows_item head =
            slice_of(&r->rows.items.data[i], cell_of(r, server, i));

        if (!head.rows.n && !is_push(r))
            continue;
        fl_vec_push(&r->rows.heads, head);
        if (is_pull(r))
            p->reply_bytes += fl_codec_bytes(head.codec, n_values(&head));
    }
    if (!r->rows.heads.len)
        return;
    pack_head(r, p, r->rows.heads.data, r->rows.heads.len);
}

/* --- in place ------------------------------------------------------------- */

/* Keys, then what a push or an assign has for them; where a push goes on with
   another item, zeros up to a multiple of 8. */
static void add_pieces(fl_request_part *p, const fl_rows_item *it, bool is_last)
{
    const fl_rows *r = &it->rows;
    uint64_t value_bytes = fl_codec_bytes(it->codec, n_values(it));
    uint64_t words;

    fl_part_add(p, it->coded_keys, fl_keys_bytes(r->n, key_width(it)));
    if (!r->values)
        return;
    fl_part_add(p, it->coded_values, value_bytes);
    if (r->shows)
        fl_part_add(p, r->shows, r->n * sizeof(float));
    if (r->clicks)
        fl_part_add(p, r->clicks, r->n * sizeof(float));
    if (r->counts)
        fl_part_add(p, r->counts, r->n * sizeof(uint32_t));
    words =
        r->n * ((r->shows != NULL) + (r->clicks != NULL) + (r->counts != NULL));
    if (!is_last)
        fl_part_add(p, zeros, padding(value_bytes + words * sizeof(float)));
}

static void scatter_in_place(fl_request *r)
{
    for (int s = 0; s < r->client->o.n_servers; s++) {
        size_t n;

        pack_heads(r, s);
        n = r->rows.heads.len;
        for (size_t i = 0; i < n; i++)
            add_pieces(&r->parts[s], &r->rows.heads.data[i], i + 1 == n);
    }
}

/* --- several servers: counted, then gathered ------------------------------ */

/* Zeros behind values that do not fill their last word. */
static uint8_t *take_values(layout *m, fl_codec codec, uint64_t n)
{
    uint64_t bytes = fl_codec_bytes(codec, n);
    uint8_t *to = take(m, bytes);

    if (to && bytes)
        memset(to + bytes - sizeof(float), 0, sizeof(float));
    return to;
}

static void place_cell(fl_cell *c, const fl_rows_item *it, layout *m)
{
    const fl_rows *rows = &it->rows;
    void *keys = take(m, fl_keys_bytes(c->n, key_width(it)));

    if (it->key_width)
        c->coded_keys = keys;
    else
        c->keys = keys;
    if (!rows->values)
        return;
    c->values = take_values(m, it->codec, c->n * rows->dim);
    if (rows->shows)
        c->shows = take(m, c->n * sizeof(float));
    if (rows->clicks)
        c->clicks = take(m, c->n * sizeof(float));
    if (rows->counts)
        c->counts = take(m, c->n * sizeof(uint32_t));
}

/* The cells of a server, one behind the other. The zeros between two of them
   are written with the cells; those behind the last one are not sent. */
static void place_server(fl_request *r, int server, layout *m)
{
    fl_request_part *p = &r->parts[server];
    uint64_t first = m->at, end = m->at;

    for (size_t i = 0; i < r->rows.items.len; i++) {
        fl_cell *c = cell_of(r, server, i);
        uint64_t pad;

        if (!c->n)
            continue;
        place_cell(c, &r->rows.items.data[i], m);
        end = m->at;
        pad = padding(m->at);
        if (m->base)
            memset(m->base + m->at, 0, (size_t)pad);
        m->at += pad;
    }
    if (m->base && end > first)
        fl_part_add(p, m->base + first, end - first);
}

/* Where keys are gathered that are encoded afterwards. */
static void place_keys(fl_request *r, int server, layout *m)
{
    for (size_t i = 0; i < r->rows.items.len; i++) {
        fl_cell *c = cell_of(r, server, i);

        if (r->rows.items.data[i].key_width)
            c->keys = take(m, c->n * sizeof(*c->keys));
    }
}

static void place_rows(fl_request *r, layout *m)
{
    for (size_t i = 0; is_pull(r) && i < r->rows.cells.len; i++)
        r->rows.cells.data[i].places =
            take(m, r->rows.cells.data[i].n * sizeof(uint32_t));
}

static void place_all(fl_request *r, layout *m)
{
    for (int s = 0; s < r->client->o.n_servers; s++)
        place_server(r, s, m);
    for (int s = 0; s < r->client->o.n_servers; s++)
        place_keys(r, s, m);
    place_rows(r, m);
}

static void gather_pull(fl_request *r, size_t item, const uint16_t *servers)
{
    const fl_rows *rows = &r->rows.items.data[item].rows;

    for (uint64_t j = 0; j < rows->n; j++) {
        fl_cell *c = cell_of(r, servers[j], item);
        uint64_t k = c->filled++;

        c->keys[k] = rows->keys[j];
        c->places[k] = (uint32_t)j;
    }
}

static void gather_push(fl_request *r, size_t item, const uint16_t *servers)
{
    const fl_rows_item *it = &r->rows.items.data[item];
    const fl_rows *rows = &it->rows;
    size_t width = (size_t)rows->dim * fl_codec_width(it->codec);
    const uint8_t *values = it->coded_values;

    for (uint64_t j = 0; j < rows->n; j++) {
        fl_cell *c = cell_of(r, servers[j], item);
        uint64_t k = c->filled++;

        c->keys[k] = rows->keys[j];
        memcpy(c->values + k * width, values + j * width, width);
        if (rows->shows)
            c->shows[k] = rows->shows[j];
        if (rows->clicks)
            c->clicks[k] = rows->clicks[j];
        if (rows->counts)
            c->counts[k] = rows->counts[j];
    }
}

static void encode_cells(fl_request *r, int server)
{
    for (size_t i = 0; i < r->rows.items.len; i++) {
        const fl_cell *c = cell_of(r, server, i);

        if (c->coded_keys)
            fl_keys_encode(c->keys, c->n, r->rows.items.data[i].key_width,
                           c->coded_keys);
    }
}

static fl_status scatter_to_many(fl_request *r)
{
    layout m = { 0 };
    const uint16_t *servers = r->rows.servers.data;

    place_all(r, &m);
    FL_TRY(fl_request_grow(r, &r->rows.body, m.at));
    for (int s = 0; s < r->client->o.n_servers; s++)
        pack_heads(r, s);
    m = (layout){ .base = r->rows.body.data };
    place_all(r, &m);
    for (size_t i = 0; i < r->rows.items.len; i++) {
        if (is_pull(r))
            gather_pull(r, i, servers);
        else
            gather_push(r, i, servers);
        servers += r->rows.items.data[i].rows.n;
    }
    for (int s = 0; s < r->client->o.n_servers; s++)
        encode_cells(r, s);
    return FL_OK;
}

/* --- sending and receiving ------------------------------------------------ */

/* Parts of a run of coded values need not begin where a word does. */
static bool is_in_place(const fl_request *r)
{
    bool is_plain = true;

    for (size_t i = 0; i < r->rows.items.len; i++)
        is_plain &= r->rows.items.data[i].codec == FL_CODEC_F32;
    return r->client->o.n_servers == 1 || (is_plain && r->rows.is_in_order);
}

static fl_status scatter(fl_request *r)
{
    FL_TRY(encode(r));
    if (r->client->o.n_servers == 1)
        give_all(r);
    else
        FL_TRY(count_keys(r));
    if (!is_in_place(r))
        return scatter_to_many(r);
    scatter_in_place(r);
    return FL_OK;
}

static void scatter_cell(const fl_cell *c, const fl_rows_item *it,
                         const uint8_t *values, float *out)
{
    fl_codec_rows rows = { values, c->places, c->n, it->rows.dim };

    if (c->places)
        fl_codec_decode_rows(it->codec, &rows, out);
    else
        fl_codec_decode(it->codec, values, c->n * it->rows.dim,
                        out + c->first * it->rows.dim);
}

static fl_status take_rows(fl_request *r, const fl_request_part *p)
{
    const uint8_t *values;

    FL_TRY(fl_part_values(p, &values));
    for (size_t i = 0; values && i < r->rows.items.len; i++) {
        const fl_cell *c = cell_of(r, p->server, i);
        const fl_rows_item *it = &r->rows.items.data[i];

        scatter_cell(c, it, values, r->rows.outs.data[i]);
        values += fl_codec_bytes(it->codec, c->n * it->rows.dim);
    }
    return FL_OK;
}

fl_status fl_client_pull(fl_client *c, const fl_job_pull_item *items,
                         const uint32_t *dims, size_t n, fl_ending ending)
{
    return fl_client_pull_coded(c, FL_CODEC_F32, items, dims, n, ending);
}

fl_status fl_client_pull_coded(fl_client *c, fl_codec codec,
                               const fl_job_pull_item *items,
                               const uint32_t *dims, size_t n, fl_ending ending)
{
    fl_request_spec spec = { .type = FL_MSG_PULL, .ending = ending };
    fl_request *r;

    FL_TRY(check_count(FL_MSG_PULL, n));
    for (size_t i = 0; i < n; i++) {
        FL_TRY(check_keys(FL_MSG_PULL, items[i].table, items[i].n));
        spec.bytes += ITEM_BYTES +
                      items[i].n * (sizeof(uint64_t) + dims[i] * sizeof(float));
    }
    FL_TRY(fl_request_begin(c, &spec, &r));
    r->fill = scatter;
    r->on_part = take_rows;
    for (size_t i = 0; i < n; i++)
        add_item(r,
                 &(fl_rows_item){ .table = (uint32_t)items[i].table,
                                  .flags = (uint32_t)items[i].kind,
                                  .codec = codec,
                                  .rows = { .keys = items[i].keys,
                                            .n = items[i].n,
                                            .dim = dims[i] } },
                 items[i].out);
    return fl_request_end(r);
}

static uint32_t push_flags(const fl_rows *a)
{
    return (uint32_t)((a->merged ? FL_PUSH_MERGED : 0) |
                      (a->shows ? FL_PUSH_SHOWS : 0) |
                      (a->clicks ? FL_PUSH_CLICKS : 0) |
                      (a->counts ? FL_PUSH_COUNTS : 0));
}

static void add_pushes(fl_request *r, const fl_job_push_item *items,
                       const uint32_t *dims, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        fl_rows_item it = { .table = (uint32_t)items[i].table,
                            .flags = push_flags(&items[i].rows),
                            .codec = r->client->o.push,
                            .rows = items[i].rows };

        it.rows.dim = dims[i];
        add_item(r, &it, NULL);
    }
}

/* Checks the items of a push and counts their bytes. */
static fl_status weigh_pushes(uint16_t type, const fl_job_push_item *items,
                              const uint32_t *dims, size_t n, uint64_t *bytes)
{
    FL_TRY(check_count(type, n));
    for (size_t i = 0; i < n; i++) {
        FL_TRY(check_keys(type, items[i].table, items[i].rows.n));
        *bytes +=
            ITEM_BYTES + items[i].rows.n *
                             (sizeof(uint64_t) + (dims[i] + 3) * sizeof(float));
    }
    return FL_OK;
}

fl_status fl_client_push(fl_client *c, const fl_job_push_item *items,
                         const uint32_t *dims, size_t n, fl_ending ending)
{
    fl_request_spec spec = { .type = FL_MSG_PUSH, .ending = ending };
    fl_request *r;

    FL_TRY(weigh_pushes(FL_MSG_PUSH, items, dims, n, &spec.bytes));
    FL_TRY(fl_request_begin(c, &spec, &r));
    r->fill = scatter;
    add_pushes(r, items, dims, n);
    return fl_request_end(r);
}

fl_status fl_client_round_push(fl_client *c, uint64_t round,
                               const fl_job_push_item *items,
                               const uint32_t *dims, size_t n, fl_ending ending)
{
    uint64_t bytes = 0;
    fl_request *r;

    FL_TRY(weigh_pushes(FL_MSG_ROUND_PUSH, items, dims, n, &bytes));
    FL_TRY(fl_request_new(c, FL_MSG_ROUND_PUSH, ending, &r));
    r->fill = scatter;
    r->round = round;
    add_pushes(r, items, dims, n);
    return fl_request_end(r);
}

fl_status fl_client_assign(fl_client *c, const fl_client_values *v,
                           fl_ending ending)
{
    fl_request *r;

    FL_TRY(check_keys(FL_MSG_ASSIGN, v->table, v->n));
    FL_TRY(fl_request_new(c, FL_MSG_ASSIGN, ending, &r));
    r->fill = scatter;
    add_item(r,
             &(fl_rows_item){ .table = (uint32_t)v->table,
                              .rows = { .keys = v->keys,
                                        .values = v->values,
                                        .n = v->n,
                                        .dim = v->dim } },
             NULL);
    return fl_request_end(r);
}
