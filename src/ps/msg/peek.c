/* peek.c - PEEK: rows of a table by key, and which keys have none.
 *
 * For tools that look at a job: they make no rows, and want to know what is there
 * apart from what a table would answer.
 */
#include <inttypes.h>
#include <string.h>

#include "ps/client/client_inside.h"
#include "ps/store/store_inside.h"

typedef struct peek_request {
    uint32_t table;
    fl_msg_bytes keys;
} peek_request;

typedef struct peek_reply {
    uint32_t dim;
    fl_msg_bytes rows; /* f32[n, dim], then u8[n]: 1 without a row */
} peek_reply;

static const fl_field request[] = {
    FL_FIELD(U32, peek_request, table),
    FL_FIELD_GAP,
    FL_FIELD(REST, peek_request, keys),
    FL_FIELDS_END,
};

static const fl_field reply[] = {
    FL_FIELD(U32, peek_reply, dim),
    FL_FIELD_GAP,
    FL_FIELD(REST, peek_reply, rows),
    FL_FIELDS_END,
};

const fl_msg_payload fl_msg_peek_request = { .fields = request };
const fl_msg_payload fl_msg_peek_reply = { .fields = reply };

/* --- a client ------------------------------------------------------------- */

static fl_status take_rows(void *out, int server, fl_msg_bytes bytes)
{
    fl_peek *p = out;
    size_t value_bytes = p->n * p->dim * sizeof(float);
    peek_reply r;

    (void)server;
    FL_TRY(fl_msg_read_reply(FL_MSG_PEEK, bytes, &r));
    if (r.dim != p->dim)
        FL_FAIL(FL_ERR_INVAL,
                "its rows have %" PRIu32 " numbers, and %" PRIu32
                " are asked for: the job trains another model",
                r.dim, p->dim);
    if (r.rows.len != value_bytes + p->n)
        return fl_msg_bad_reply(FL_MSG_PEEK, bytes.len);
    memcpy(p->out, r.rows.data, value_bytes);
    memcpy(p->missing, (const char *)r.rows.data + value_bytes, p->n);
    return FL_OK;
}

fl_status fl_client_peek(fl_client *c, int server, fl_peek *p, fl_ending ending)
{
    peek_request q = { p->table, { p->keys, p->n * sizeof(*p->keys) } };
    fl_call_spec call = { .type = FL_MSG_PEEK,
                          .server = server,
                          .request = &q,
                          .take = take_rows,
                          .out = p };

    return fl_client_call(c, &call, ending);
}

/* --- a server ------------------------------------------------------------- */

static fl_status answer(fl_store_ctx *c, const fl_store_table *t,
                        const uint64_t *keys, size_t n)
{
    peek_reply r = { .dim = fl_table_dim(t->table) };
    size_t value_bytes = n * r.dim * sizeof(float);
    size_t bytes = value_bytes + n;
    uint8_t *rows = fl_try_alloc(bytes ? bytes : 1);
    fl_status st;

    if (!rows)
        FL_FAIL(FL_ERR_NOMEM, "table %s: no memory for %zu rows of a request",
                fl_table_name(t->table), n);
    st = fl_table_peek(t->table, keys, n, (float *)(void *)rows,
                       rows + value_bytes);
    r.rows = (fl_msg_bytes){ rows, bytes };
    if (!st)
        st = fl_store_answer(c, &r);
    fl_data_free(rows, bytes ? bytes : 1);
    return st;
}

/* Keys are copied: a hostile peer may change them meanwhile. */
fl_status fl_store_peek(fl_store_ctx *c)
{
    const peek_request *q = c->request;
    size_t bytes = (size_t)q->keys.len;
    fl_store_table *t;
    uint64_t *keys;
    fl_status st;

    FL_TRY(fl_store_find_table(c, q->table, &t));
    if (bytes % sizeof(*keys))
        return fl_msg_bad_request(FL_MSG_PEEK, c->call->payload.len);
    keys = fl_try_alloc(bytes ? bytes : 1);
    if (!keys)
        FL_FAIL(FL_ERR_NOMEM, "table %s: no memory for %zu bytes of keys",
                fl_table_name(t->table), bytes);
    if (bytes)
        memcpy(keys, q->keys.data, bytes);
    st = answer(c, t, keys, bytes / sizeof(*keys));
    fl_data_free(keys, bytes ? bytes : 1);
    return st;
}
