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

fl_status fl_request_new(fl_client *c, uint16_t type, bool once,
                         fl_ending ending, fl_request **out)
{
    fl_status st = fl_client_state(c);
    fl_request *r;

    if (st == FL_PENDING)
        FL_FAIL(FL_ERR_INVAL,
                "trainer %d: a request (%s) before all servers are there",
                c->o.rank, fl_frame_type_name(type));
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
    r->once = once;
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
    fl_vec_release(&r->rows);
    fl_vec_release(&r->dims);
    fl_vec_release(&r->outs);
    fl_vec_release(&r->cells);
    fl_vec_release(&r->heads);
    fl_vec_release(&r->blocks);
    fl_vec_release(&r->numbers);
    fl_data_free(r->body, r->body_bytes);
    fl_free(r);
}

static void clear(fl_request *r)
{
    for (int i = 0; i < r->client->o.n_servers; i++) {
        fl_part *p = &r->parts[i];

        p->is_used = false;
        p->head.len = 0;
        p->pieces.len = 0;
        p->reply_bytes = 0;
    }
    r->endings.len = 0;
    r->is_kept = false;
    r->rows.len = r->dims.len = r->outs.len = 0;
    r->cells.len = r->heads.len = 0;
    r->blocks.len = r->numbers.len = 0;
    r->on_reply = NULL;
    r->on_rows = NULL;
    r->on_mail = NULL;
    r->is_full = NULL;
    r->err.status = FL_OK;
}

void fl_request_free(fl_request *r)
{
    fl_client *c = r->client;
    bool is_kept;

    clear(r);
    fl_lock(&c->mu);
    is_kept = c->n_spare < FL_CLIENT_SPARE;
    if (is_kept) {
        r->next = c->spare;
        c->spare = r;
        c->n_spare++;
    }
    fl_unlock(&c->mu);
    if (!is_kept)
        fl_request_destroy(r);
}

/* --- answers -------------------------------------------------------------- */

static bool has_values(const fl_request *r)
{
    return r->type == FL_TYPE_PULL || r->type == FL_TYPE_PULL_DENSE ||
           r->type == FL_TYPE_APPLY;
}

static uint64_t payload_len(const fl_payload *p)
{
    return p ? fl_payload_len(p) : 0;
}

static fl_status take_values(fl_request *r, const fl_part *p)
{
    uint64_t len = payload_len(p->payload);

    if (len != p->reply_bytes)
        FL_FAIL(FL_ERR_CORRUPT,
                "it answers a request (%s) with %" PRIu64
                " bytes instead of %" PRIu64,
                fl_frame_type_name(r->type), len, p->reply_bytes);
    if (!len)
        return FL_OK;
    if (r->type == FL_TYPE_PULL)
        fl_request_scatter(r, p, (const float *)fl_payload_data(p->payload));
    else
        fl_request_fill_blocks(r, p,
                               (const float *)fl_payload_data(p->payload));
    return FL_OK;
}

static void give_replies(const fl_request *r)
{
    for (int i = 0; i < r->client->o.n_servers; i++) {
        const fl_part *p = &r->parts[i];

        if (p->is_used)
            r->on_reply(fl_request_arg(r), i,
                        p->payload ? fl_payload_data(p->payload) : NULL,
                        payload_len(p->payload));
    }
}

static void finish(fl_request *r)
{
    if (!r->err.status && r->on_reply)
        give_replies(r);
    if (!r->err.status && r->on_rows)
        fl_request_give_rows(r);
    for (int i = 0; i < r->client->o.n_servers; i++) {
        fl_payload_free(r->parts[i].payload);
        r->parts[i].payload = NULL;
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
    fl_part *p = arg;
    fl_request *r = p->request;

    (void)f;
    p->payload = payload;
    atomic_fetch_add(&r->client->received_bytes, payload_len(payload));
    if (!st && has_values(r)) {
        st = take_values(r, p);
        fl_payload_free(p->payload);
        p->payload = NULL;
    } else if (!st && r->on_rows) {
        st = fl_request_check_rows(r, p);
    } else if (!st && (r->is_full || r->on_mail)) {
        st = fl_request_read_mail(r, p);
    }
    /* A link that has failed names the server itself. */
    if (st && !fl_rpc_client_why(r->client->links[p->server].link))
        st = fl_err_ctx(st, "server %d", p->server);
    if (st && !r->err.status)
        fl_err_save(&r->err, st);
    if (--r->n_open == 0)
        finish(r);
}

/* --- sending -------------------------------------------------------------- */

void fl_part_add(fl_part *p, const void *bytes, uint64_t len)
{
    struct iovec v = { (void *)(uintptr_t)bytes, (size_t)len };

    p->is_used = true;
    if (len)
        fl_vec_push(&p->pieces, v);
}

static uint64_t part_bytes(const fl_part *p)
{
    uint64_t sum = 0;

    for (size_t i = 0; i < p->pieces.len; i++)
        sum += p->pieces.data[i].iov_len;
    return sum;
}

/* A server would close the connection, and be sent the same again. */
static fl_status check_size(const fl_request *r, const fl_part *p)
{
    uint64_t max = r->client->o.max_message_bytes, bytes = part_bytes(p);

    if (bytes <= max && p->reply_bytes <= max)
        return FL_OK;
    FL_FAIL(FL_ERR_INVAL,
            "a request (%s) to server %d has %" PRIu64 " bytes and a reply of "
            "%" PRIu64 ", and max_message_bytes is %" PRIu64
            ": ask for fewer rows at a time, or raise it on all members",
            fl_frame_type_name(r->type), p->server, bytes, p->reply_bytes, max);
}

static void send_part(fl_part *p, uint64_t trace)
{
    fl_request *r = p->request;
    fl_client_link *k = &r->client->links[p->server];
    fl_call call = {
        .type = r->type,
        .once = r->once,
        .may_coalesce = r->is_kept,
        .trace = trace,
        .step = atomic_load(&r->client->step),
        .pieces = p->pieces.data,
        .n_pieces = (int)p->pieces.len,
        .on_reply = on_answer,
        .arg = p,
    };

    atomic_fetch_add(&k->requests[r->type], 1);
    atomic_fetch_add(&r->client->sent_bytes, part_bytes(p));
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

fl_status fl_request_send(fl_request *r)
{
    fl_status st = fl_request_try(r);

    if (st)
        fl_request_free(r);
    return st;
}

/* --- any other request ---------------------------------------------------- */

fl_status fl_client_ask(fl_client *c, int server, uint16_t type, bool once,
                        const void *payload, size_t len,
                        fl_client_reply on_reply, fl_client_done done,
                        void *arg)
{
    fl_request *r;

    FL_ASSERT(server >= -1 && server < c->o.n_servers);
    FL_TRY(fl_request_new(c, type, once, (fl_ending){ done, arg }, &r));
    r->on_reply = on_reply;
    for (int i = 0; i < c->o.n_servers; i++) {
        fl_part *p = &r->parts[i];

        if (server >= 0 && i != server)
            continue;
        if (len)
            fl_pack_bytes(&p->head, payload, len);
        fl_part_add(p, p->head.data, len);
    }
    return fl_request_send(r);
}
