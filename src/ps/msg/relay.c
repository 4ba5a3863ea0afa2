/* relay.c - RELAY and RELAY_TAKE: bytes from trainer to trainer, by way of the
 * servers (server/relay.h). */
#include <inttypes.h>
#include <string.h>

#include "ps/client/client_inside.h"
#include "ps/server/server_inside.h"

typedef struct relay_reply {
    uint32_t is_full;
} relay_reply;

static const fl_field relay_request[] = {
    FL_FIELD(U32, fl_relay_request, to),
    FL_FIELD_GAP,
    FL_FIELD(U64, fl_relay_request, generation),
    FL_FIELD(REST, fl_relay_request, bytes),
    FL_FIELDS_END,
};

static const fl_field relay_answer[] = {
    FL_FIELD(U32, relay_reply, is_full),
    FL_FIELDS_END,
};

static const fl_field take_request[] = {
    FL_FIELD(U64, fl_relay_take_request, generation),
    FL_FIELD(U64, fl_relay_take_request, seen),
    FL_FIELDS_END,
};

/* --- what was taken: each message behind its length ------------------------ */

/* Lengths may change in shared memory: each is read once. */
static fl_status read_messages(fl_msg_bytes reply,
                               fl_status (*on_message)(void *arg,
                                                       fl_msg_bytes bytes),
                               void *arg, uint64_t *n)
{
    fl_unpack u = fl_unpack_from(reply.data, reply.len);

    for (*n = 0; u.at != u.end; ++*n) {
        fl_msg_bytes m = { .len = fl_unpack_u64(&u) };

        m.data = fl_unpack_bytes(&u, m.len);
        if (u.bad)
            FL_FAIL(FL_ERR_CORRUPT,
                    "it answers a request (relay_take) with messages that do "
                    "not end where the reply does");
        FL_TRY(on_message(arg, m));
    }
    return FL_OK;
}

static fl_status pack_again(void *pack, fl_msg_bytes m)
{
    fl_pack_u64(pack, m.len);
    if (m.len)
        fl_pack_bytes(pack, m.data, (size_t)m.len);
    return FL_OK;
}

static fl_status echo(uint16_t type, fl_msg_bytes payload, fl_pack *again)
{
    uint64_t n;

    (void)type;
    return read_messages(payload, pack_again, again, &n);
}

static bool example(uint16_t type, int n, fl_pack *out)
{
    static const char *const texts[] = { "a message", "", "another" };

    (void)type;
    if (n > (int)FL_LEN(texts))
        return false;
    for (int i = 0; i < n; i++)
        (void)pack_again(out, (fl_msg_bytes){ texts[i], strlen(texts[i]) });
    return true;
}

const fl_msg_payload fl_msg_relay_request = { .fields = relay_request };
const fl_msg_payload fl_msg_relay_reply = { .fields = relay_answer };
const fl_msg_payload fl_msg_relay_take_request = { .fields = take_request };
const fl_msg_payload fl_msg_relay_take_reply = { .echo = echo,
                                                 .example = example };

/* --- the client ----------------------------------------------------------- */

static fl_status take_receipt(void *is_full, int server, fl_msg_bytes reply)
{
    relay_reply r;

    (void)server;
    FL_TRY(fl_msg_read_reply(FL_MSG_RELAY, reply, &r));
    *(bool *)is_full = r.is_full != 0;
    return FL_OK;
}

fl_status fl_client_relay(fl_client *c, int server, const fl_relay_request *r,
                          bool *is_full, fl_ending ending)
{
    fl_call_spec call = { .type = FL_MSG_RELAY,
                          .server = server,
                          .request = r,
                          .take = take_receipt,
                          .out = is_full };

    return fl_client_call(c, &call, ending);
}

static fl_status take_messages(fl_request *r, const fl_request_part *p)
{
    const fl_client_inbox *in = r->state;
    uint64_t n;

    FL_TRY(read_messages(fl_part_reply(p), in->on_message, in->arg, &n));
    in->seen[p->server] += n;
    return FL_OK;
}

fl_status fl_client_relay_take(fl_client *c, const fl_client_inbox *in,
                               fl_ending ending)
{
    fl_request *r;

    FL_TRY(fl_request_new(c, FL_MSG_RELAY_TAKE, ending, &r));
    r->on_part = take_messages;
    r->state = (void *)(uintptr_t)in;
    for (int i = 0; i < c->o.n_servers; i++)
        fl_part_pack(&r->parts[i],
                     &(fl_relay_take_request){ .generation = in->generation,
                                               .seen = in->seen[i] });
    return fl_request_send(r);
}

/* --- the server ----------------------------------------------------------- */

void fl_server_relay(fl_server *s, const fl_server_request *r)
{
    bool is_full;
    fl_status st = fl_relay_put(s->relay, r->request, &is_full);

    if (st)
        fl_reply_error(r->reply, st);
    else
        fl_server_reply(r->reply, FL_MSG_RELAY, &(relay_reply){ is_full });
}

void fl_server_relay_take(fl_server *s, const fl_server_request *r)
{
    fl_reply_buf buf = fl_reply_buf_of(s, r);
    fl_store_reply reply = { .reserve = fl_reply_buf_reserve, .arg = &buf };

    fl_reply_buf_end(&buf, fl_relay_take(s->relay, r->frame->rank, r->request,
                                         s->o.max_message_bytes, &reply));
}
