/* client_rows.c - keys scattered to servers, and values put where they belong.
 *
 * A request is a table of cells: the keys of item i that go to server s. Two
 * passes over the keys: the first counts, the second puts each key, and what
 * belongs to it, to its place in the body:
 *
 *     server 0: cell of item 0, cell of item 1, ...   server 1: ...   places
 *
 * Within a cell keys keep the caller's order, so that equal keys are added up
 * in the same order whatever the number of servers. With one server nothing is
 * scattered: the payload is the caller's own memory behind a head.
 */
#include <inttypes.h>
#include <string.h>

#include "ps/client/client_inside.h"

/* Of an item in a message, beside its rows; at most. */
#define ITEM_BYTES 32
_Static_assert(FL_ITEMS_MAX *ITEM_BYTES > 64 << 10,
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

/* --- one server: in place ------------------------------------------------- */

/* Keys, then what a push or an assign has for them; where a push goes on with
   another item, zeros up to a multiple of 8. */
static void add_pieces(fl_request_part *p, const fl_rows *r, bool is_last)
{
    uint64_t words;

    fl_part_add(p, r->keys, r->n * sizeof(*r->keys));
    if (!r->values)
        return;
    fl_part_add(p, r->values, r->n * r->dim * sizeof(float));
    if (r->shows)
        fl_part_add(p, r->shows, r->n * sizeof(float));
    if (r->clicks)
        fl_part_add(p, r->clicks, r->n * sizeof(float));
    if (r->counts)
        fl_part_add(p, r->counts, r->n * sizeof(uint32_t));
    words =
        r->dim + (r->shows != NULL) + (r->clicks != NULL) + (r->counts != NULL);
    if (!is_last)
        fl_part_add(p, zeros, padding(r->n * words * sizeof(float)));
}

static void scatter_to_one(fl_request *r)
{
    fl_request_part *p = &r->parts[0];
    size_t n = r->rows.items.len;

    if (!n)
        return;
    pack_head(r, p, r->rows.items.data, n);
    for (size_t i = 0; i < n; i++) {
        const fl_rows *rows = &r->rows.items.data[i].rows;

        add_pieces(p, rows, i + 1 == n);
        fl_vec_push(&r->rows.cells, ((fl_cell){ .n = rows->n }));
        if (is_pull(r))
            p->reply_bytes += rows->n * rows->dim * sizeof(float);
    }
}

/* --- several servers: counted, then gathered ------------------------------ */

static fl_cell *cell_of(const fl_request *r, int server, size_t item)
{
    return &r->rows.cells.data[(size_t)server * r->rows.items.len + item];
}

static void count_keys(fl_request *r)
{
    int n_servers = r->client->o.n_servers;
    size_t n = r->rows.items.len;

    for (size_t i = 0; i < n * (size_t)n_servers; i++)
        fl_vec_push(&r->rows.cells, ((fl_cell){ 0 }));
    for (size_t i = 0; i < n; i++) {
        const fl_rows *rows = &r->rows.items.data[i].rows;

        for (uint64_t j = 0; j < rows->n; j++)
            cell_of(r, fl_client_server_of(n_servers, rows->keys[j]), i)->n++;
    }
}

/* A growing offset into the body; without a body it only counts. */
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

static void place_cell(fl_cell *c, const fl_rows *rows, layout *m)
{
    c->keys = take(m, c->n * sizeof(*c->keys));
    if (!rows->values)
        return;
    c->values = take(m, c->n * rows->dim * sizeof(float));
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
        place_cell(c, &r->rows.items.data[i].rows, m);
        end = m->at;
        pad = padding(m->at);
        if (m->base)
            memset(m->base + m->at, 0, (size_t)pad);
        m->at += pad;
    }
    if (m->base && end > first)
        fl_part_add(p, m->base + first, end - first);
}

static void place_rows(fl_request *r, layout *m)
{
    for (size_t i = 0; is_pull(r) && i < r->rows.cells.len; i++)
        r->rows.cells.data[i].places =
            take(m, r->rows.cells.data[i].n * sizeof(uint32_t));
}

/* Heads of the parts; they are the first pieces, so they come before the body
   is placed. */
static void pack_heads(fl_request *r, int server)
{
    fl_request_part *p = &r->parts[server];

    r->rows.heads.len = 0;
    for (size_t i = 0; i < r->rows.items.len; i++) {
        fl_rows_item head = r->rows.items.data[i];

        head.rows.n = (size_t)cell_of(r, server, i)->n;
        if (!head.rows.n && !is_push(r))
            continue;
        fl_vec_push(&r->rows.heads, head);
        if (is_pull(r))
            p->reply_bytes += head.rows.n * head.rows.dim * sizeof(float);
    }
    if (!r->rows.heads.len)
        return;
    pack_head(r, p, r->rows.heads.data, r->rows.heads.len);
}

/* A little more than is asked for: requests are about equally large. */
static fl_status grow_body(fl_request *r, uint64_t bytes)
{
    uint64_t wanted = bytes + bytes / 4;

    if (bytes > r->rows.body.bytes &&
        !fl_buf_reserve(&r->rows.body, (size_t)wanted))
        FL_FAIL(FL_ERR_NOMEM,
                "no memory for a request (%s) of %" PRIu64 " bytes",
                fl_msg_name(r->type), wanted);
    return FL_OK;
}

static void place_all(fl_request *r, layout *m)
{
    for (int s = 0; s < r->client->o.n_servers; s++)
        place_server(r, s, m);
    place_rows(r, m);
}

static void gather_pull(fl_request *r, size_t item)
{
    const fl_rows *rows = &r->rows.items.data[item].rows;
    int n_servers = r->client->o.n_servers;

    for (uint64_t j = 0; j < rows->n; j++) {
        fl_cell *c =
            cell_of(r, fl_client_server_of(n_servers, rows->keys[j]), item);
        uint64_t k = c->filled++;

        c->keys[k] = rows->keys[j];
        c->places[k] = (uint32_t)j;
    }
}

static void gather_push(fl_request *r, size_t item)
{
    const fl_rows *rows = &r->rows.items.data[item].rows;
    int n_servers = r->client->o.n_servers;
    size_t dim = rows->dim;

    for (uint64_t j = 0; j < rows->n; j++) {
        fl_cell *c =
            cell_of(r, fl_client_server_of(n_servers, rows->keys[j]), item);
        uint64_t k = c->filled++;

        c->keys[k] = rows->keys[j];
        memcpy(c->values + k * dim, rows->values + j * dim,
               dim * sizeof(float));
        if (rows->shows)
            c->shows[k] = rows->shows[j];
        if (rows->clicks)
            c->clicks[k] = rows->clicks[j];
        if (rows->counts)
            c->counts[k] = rows->counts[j];
    }
}

static fl_status scatter_to_many(fl_request *r)
{
    layout m = { 0 };

    count_keys(r);
    place_all(r, &m);
    FL_TRY(grow_body(r, m.at));
    for (int s = 0; s < r->client->o.n_servers; s++)
        pack_heads(r, s);
    m = (layout){ .base = r->rows.body.data };
    place_all(r, &m);
    for (size_t i = 0; i < r->rows.items.len; i++) {
        if (is_pull(r))
            gather_pull(r, i);
        else
            gather_push(r, i);
    }
    return FL_OK;
}

/* --- sending and receiving ------------------------------------------------ */

fl_status fl_request_scatter(fl_request *r)
{
    if (r->client->o.n_servers == 1)
        scatter_to_one(r);
    else
        FL_TRY(scatter_to_many(r));
    return fl_request_try(r);
}

/* Rows of a few floats are the common case, and a call for each would cost more
   than they do. */
static void scatter_cell(const fl_cell *c, uint32_t dim, const float *values,
                         float *out)
{
    if (!c->places) {
        memcpy(out, values, c->n * dim * sizeof(float));
        return;
    }
    for (uint64_t k = 0; k < c->n; k++) {
        float *to = out + (uint64_t)c->places[k] * dim;

        for (uint32_t d = 0; d < dim; d++)
            to[d] = *values++;
    }
}

static fl_status take_rows(fl_request *r, const fl_request_part *p)
{
    const float *values;

    FL_TRY(fl_part_values(p, &values));
    for (size_t i = 0; values && i < r->rows.items.len; i++) {
        const fl_cell *c = cell_of(r, p->server, i);
        uint32_t dim = r->rows.items.data[i].rows.dim;

        scatter_cell(c, dim, values, r->rows.outs.data[i]);
        values += c->n * dim;
    }
    return FL_OK;
}

fl_status fl_client_pull(fl_client *c, const fl_job_pull_item *items,
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
    r->on_part = take_rows;
    for (size_t i = 0; i < n; i++)
        add_item(r,
                 &(fl_rows_item){ .table = (uint32_t)items[i].table,
                                  .flags = (uint32_t)items[i].kind,
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
    add_item(r,
             &(fl_rows_item){ .table = (uint32_t)v->table,
                              .rows = { .keys = v->keys,
                                        .values = v->values,
                                        .n = v->n,
                                        .dim = v->dim } },
             NULL);
    return fl_request_end(r);
}
