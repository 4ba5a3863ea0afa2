/* client_request.c - a request and its parts, one per server that it concerns.
 *
 * Parts are answered in the loop, in any order. The first error is that of the
 * request, which is over when all have answered: only then nobody reads or
 * writes the caller's memory any more. Requests are kept with their memory, so
 * that a steady stream of them allocates next to nothing.
 */
#include <inttypes.h>
#include <string.h>

#include "base/hash.h"
#include "ps/client/call_sync.h"
#include "ps/client/client_inside.h"

/* --- life ----------------------------------------------------------------- */

static fl_request *make(fl_client *c)
{
    fl_request *r = fl_alloc(sizeof(*r));

    r->client = c;
    r->parts = fl_alloc((size_t)c->o.n_servers * sizeof(*r->parts));
    for (int i = 0; i < c->o.n_servers; i++) {
        r->parts[i].request = r;
        r->parts[i].server = i;
    }
    return r;
}

fl_status fl_request_new(fl_client *c, uint16_t type, fl_ending ending,
                         fl_request **out)
{
    fl_status st = fl_client_state(c);
    fl_request *r;

    if (st == FL_PENDING)
        FL_FAIL(FL_ERR_INVAL,
                "trainer %d: a request (%s) before all servers are there",
                c->o.rank, fl_msg_name(type));
    FL_TRY(st);
    fl_lock(&c->mu);
    r = c->spare;
    if (r) {
        c->spare = r->next;
        c->n_spare--;
    }
    fl_unlock(&c->mu);
    if (!r)
        r = make(c);
    r->type = type;
    fl_vec_push(&r->endings, ending);
    *out = r;
    return FL_OK;
}

void fl_request_destroy(fl_request *r)
{
    for (int i = 0; i < r->client->o.n_servers; i++) {
        fl_pack_release(&r->parts[i].head);
        fl_vec_release(&r->parts[i].pieces);
    }
    fl_free(r->parts);
    fl_vec_release(&r->endings);
    fl_vec_release(&r->rows.items);
    fl_vec_release(&r->rows.outs);
    fl_vec_release(&r->rows.cells);
    fl_vec_release(&r->rows.heads);
    fl_buf_release(&r->rows.coded);
    fl_buf_release(&r->rows.body);
    fl_buf_release(&r->rows.servers);
    fl_vec_release(&r->blocks.sent);
    fl_vec_release(&r->blocks.values);
    fl_vec_release(&r->blocks.outs);
    fl_vec_release(&r->blocks.items);
    fl_buf_release(&r->blocks.coded);
    fl_free(r);
}

static void clear(fl_request *r)
{
    for (int i = 0; i < r->client->o.n_servers; i++) {
        fl_request_part *p = &r->parts[i];

        p->is_used = false;
        p->head.len = 0;
        p->pieces.len = 0;
        p->reply_bytes = 0;
    }
    r->endings.len = 0;
    r->is_coalesced = false;
    r->rows.items.len = r->rows.outs.len = 0;
    r->rows.cells.len = r->rows.heads.len = 0;
    r->blocks.outs.len = r->blocks.items.len = 0;
    r->blocks.sent.len = r->blocks.values.len = 0;
    r->on_part = r->on_all = NULL;
    r->fill = NULL;
    r->err.status = FL_OK;
}

void fl_request_free(fl_request *r)
{
    fl_client *c = r->client;
    bool is_spare;

    clear(r);
    fl_lock(&c->mu);
    is_spare = c->n_spare < FL_CLIENT_SPARE;
    if (is_spare) {
        r->next = c->spare;
        c->spare = r;
        c->n_spare++;
    }
    fl_unlock(&c->mu);
    if (!is_spare)
        fl_request_destroy(r);
}

fl_status fl_request_grow(const fl_request *r, fl_buf *b, uint64_t bytes)
{
    uint64_t wanted = bytes + bytes / 4;

    if (bytes > b->bytes && !fl_buf_reserve(b, (size_t)wanted))
        FL_FAIL(FL_ERR_NOMEM,
                "no memory for a request (%s) of %" PRIu64 " bytes",
                fl_msg_name(r->type), wanted);
    return FL_OK;
}

/* --- answers -------------------------------------------------------------- */

fl_msg_bytes fl_part_reply(const fl_request_part *p)
{
    return p->payload ? (fl_msg_bytes){ fl_payload_data(p->payload),
                                        fl_payload_len(p->payload) }
                      : (fl_msg_bytes){ 0 };
}

fl_status fl_part_values(const fl_request_part *p, const uint8_t **values)
{
    fl_msg_bytes reply = fl_part_reply(p);

    if (reply.len != p->reply_bytes)
        FL_FAIL(FL_ERR_CORRUPT,
                "it answers a request (%s) with %" PRIu64
                " bytes instead of %" PRIu64,
                fl_msg_name(p->request->type), reply.len, p->reply_bytes);
    *values = reply.data;
    return FL_OK;
}

static void drop_reply(fl_request_part *p)
{
    fl_payload_free(p->payload);
    p->payload = NULL;
}

/* The first error is that of the request. A link that has failed names the
   server itself. */
static void note(fl_request *r, const fl_request_part *p, fl_status st)
{
    if (!st || r->err.status)
        return;
    if (!fl_rpc_client_why(r->client->links[p->server].link))
        st = fl_err_ctx(st, "%s %d", fl_client_peer_word(r->client), p->server);
    fl_err_save(&r->err, st);
}

static void finish(fl_request *r)
{
    for (int i = 0; i < r->client->o.n_servers; i++) {
        fl_request_part *p = &r->parts[i];

        if (p->is_used && r->on_all && !r->err.status)
            note(r, p, r->on_all(r, p));
        drop_reply(p);
    }
    for (size_t i = 0; i < r->endings.len; i++)
        r->endings.data[i].done(r->endings.data[i].arg,
                                r->err.status ? fl_err_restore(&r->err)
                                              : FL_OK);
    fl_request_free(r);
}

void fl_request_fail(fl_request *r, fl_status st)
{
    fl_err_save(&r->err, st);
    finish(r);
}

static void on_answer(void *arg, fl_status st, const fl_frame *f,
                      fl_payload *payload)
{
    fl_request_part *p = arg;
    fl_request *r = p->request;

    (void)f;
    p->payload = payload;
    fl_stat_add(&r->client->stats.received, fl_part_reply(p).len);
    if (!st && r->on_part)
        st = r->on_part(r, p);
    if (!r->on_all)
        drop_reply(p);
    note(r, p, st);
    if (--r->n_open == 0)
        finish(r);
}

/* --- sending -------------------------------------------------------------- */

void fl_part_add(fl_request_part *p, const void *bytes, uint64_t len)
{
    struct iovec v = { (void *)(uintptr_t)bytes, (size_t)len };

    p->is_used = true;
    if (len)
        fl_vec_push(&p->pieces, v);
}

void fl_part_pack(fl_request_part *p, const void *request)
{
    const fl_field *fields = fl_msg_find(p->request->type)->request->fields;
    fl_msg_bytes end = fl_fields_pack(&p->head, fields, request);

    fl_part_add(p, p->head.data, p->head.len);
    fl_part_add(p, end.data, end.len);
}

static uint64_t part_bytes(const fl_request_part *p)
{
    uint64_t sum = 0;

    for (size_t i = 0; i < p->pieces.len; i++)
        sum += p->pieces.data[i].iov_len;
    return sum;
}

/* A server would close the connection, and be sent the same again. */
static fl_status check_size(const fl_request *r, const fl_request_part *p)
{
    uint64_t max = r->client->o.max_message_bytes, bytes = part_bytes(p);

    if (bytes <= max && p->reply_bytes <= max)
        return FL_OK;
    FL_FAIL(FL_ERR_INVAL,
            "a request (%s) to server %d has %" PRIu64 " bytes and a reply of "
            "%" PRIu64 ", and max_message_bytes is %" PRIu64
            ": ask for fewer rows at a time, or raise it on all members",
            fl_msg_name(r->type), p->server, bytes, p->reply_bytes, max);
}

static void send_part(fl_request_part *p, uint64_t trace)
{
    fl_request *r = p->request;
    fl_client_link *k = &r->client->links[p->server];
    fl_rpc_call call = {
        .type = r->type,
        .once = fl_msg_find(r->type)->once,
        .may_coalesce = r->client->o.may_coalesce,
        .trace = trace,
        .step = atomic_load(&r->client->step),
        .pieces = p->pieces.data,
        .n_pieces = (int)p->pieces.len,
        .on_reply = on_answer,
        .arg = p,
    };

    atomic_fetch_add(&k->requests[r->type], 1);
    fl_stat_add(&r->client->stats.sent, part_bytes(p));
    fl_rpc_client_call(k->link, &call);
}

/* Told apart by client and number; the parts of a request share it. */
static uint64_t next_trace(fl_client *c)
{
    return fl_mix64(((uint64_t)c->o.rank << 40) +
                    atomic_fetch_add(&c->n_requests, 1) + 1);
}

fl_status fl_request_try(fl_request *r)
{
    uint64_t trace = next_trace(r->client);
    int n_servers = r->client->o.n_servers, n_left;

    r->n_open = 0;
    for (int i = 0; i < n_servers; i++) {
        if (r->parts[i].is_used)
            FL_TRY(check_size(r, &r->parts[i]));
        r->n_open += r->parts[i].is_used;
    }
    if (!r->n_open) {
        finish(r);
        return FL_OK;
    }
    /* It may be over, and be used again, once its last part is sent. */
    n_left = r->n_open;
    for (int i = 0; n_left; i++) {
        if (!r->parts[i].is_used)
            continue;
        n_left--;
        send_part(&r->parts[i], trace);
    }
    return FL_OK;
}

fl_status fl_request_fill_and_try(fl_request *r)
{
    if (r->fill)
        FL_TRY(r->fill(r));
    return fl_request_try(r);
}

fl_status fl_request_send(fl_request *r)
{
    fl_status st = fl_request_try(r);

    if (st)
        fl_request_free(r);
    return st;
}

/* --- calls ---------------------------------------------------------------- */

static fl_status take_reply(fl_request *r, const fl_request_part *p)
{
    if (!r->take)
        return fl_msg_read_reply(r->type, fl_part_reply(p), r->state);
    return r->take(r->state, p->server, fl_part_reply(p));
}

static fl_status begin_call(fl_client *c, const fl_call_spec *call,
                            fl_ending ending)
{
    fl_request *r;

    FL_ASSERT(call->server >= FL_ALL_SERVERS && call->server < c->o.n_servers);
    FL_TRY(fl_request_new(c, (uint16_t)call->type, ending, &r));
    r->take = call->take;
    r->state = call->out;
    if (call->take || call->out)
        r->on_all = take_reply;
    for (int i = 0; i < c->o.n_servers; i++)
        if (call->server == FL_ALL_SERVERS || i == call->server)
            fl_part_pack(&r->parts[i], call->request);
    return fl_request_send(r);
}

fl_status fl_client_call(fl_client *c, const fl_call_spec *call,
                         fl_ending ending)
{
    fl_latch l;
    fl_status st;

    if (ending.done)
        return begin_call(c, call, ending);
    fl_latch_init(&l, fl_client_poller(c));
    st = begin_call(c, call, fl_client_latch(&l));
    if (!st)
        st = fl_latch_wait(&l);
    fl_latch_release(&l);
    return st;
}
