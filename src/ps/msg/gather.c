/* gather.c - GATHER: brings bytes, and gives those of all live trainers. */
#include <inttypes.h>
#include <string.h>

#include "ps/client/client_inside.h"
#include "ps/server/server_inside.h"

typedef struct gather_request {
    char name[FL_MSG_NAME_ROOM];
    uint64_t generation;
    fl_msg_bytes bytes;
} gather_request;

static const fl_field request[] = {
    FL_FIELD(TEXT, gather_request, name),
    FL_FIELD(U64, gather_request, generation),
    FL_FIELD(BYTES, gather_request, bytes),
    FL_FIELDS_END,
};

/* --- the reply ------------------------------------------------------------
 *
 * u32 n, u32 0, then n parts as coord/gathered.h makes them. */

/* Pieces stay where they lie in the payload. */
static fl_status unpack_reply(fl_msg_bytes payload, fl_gather_pieces *out)
{
    fl_unpack u = fl_unpack_from(payload.data, payload.len);
    uint32_t n = fl_unpack_u32(&u);

    u.bad |= fl_unpack_u32(&u) != 0;
    for (uint32_t i = 0; i < n && !u.bad; i++) {
        fl_gather_piece p = { .rank = fl_unpack_u32(&u) };

        u.bad |= fl_unpack_u32(&u) != 0;
        p.len = fl_unpack_u64(&u);
        p.bytes = fl_unpack_bytes(&u, p.len);
        fl_unpack_align(&u, payload.data);
        fl_vec_push(out, p);
    }
    return u.bad || u.at != u.end ? fl_msg_bad_reply(FL_MSG_GATHER, payload.len)
                                  : FL_OK;
}

static void pack_reply(fl_pack *p, const fl_gather_piece *pieces, size_t n)
{
    fl_pack_u32(p, (uint32_t)n);
    fl_pack_u32(p, 0);
    for (size_t i = 0; i < n; i++) {
        fl_pack_u32(p, pieces[i].rank);
        fl_pack_u32(p, 0);
        fl_pack_u64(p, pieces[i].len);
        if (pieces[i].len)
            fl_pack_bytes(p, pieces[i].bytes, (size_t)pieces[i].len);
        fl_pack_align(p);
    }
}

static fl_status echo(uint16_t type, fl_msg_bytes payload, fl_pack *again)
{
    fl_gather_pieces pieces = { 0 };
    fl_status st = unpack_reply(payload, &pieces);

    (void)type;
    if (!st)
        pack_reply(again, pieces.data, pieces.len);
    fl_vec_release(&pieces);
    return st;
}

static bool example(uint16_t type, int n, fl_pack *out)
{
    static const fl_gather_piece pieces[] = { { 0, "eleven byte", 11 },
                                              { 1, "", 0 },
                                              { 4, "8 bytes!", 8 } };

    (void)type;
    if (n > (int)FL_LEN(pieces))
        return false;
    pack_reply(out, pieces, (size_t)n);
    return true;
}

const fl_msg_payload fl_msg_gather_request = { .fields = request };
const fl_msg_payload fl_msg_gather_reply = { .echo = echo, .example = example };

/* --- the client ----------------------------------------------------------- */

void fl_client_gathered_release(fl_client_gathered *g)
{
    fl_data_free(g->memory, (size_t)g->bytes);
    fl_vec_release(&g->pieces);
    *g = (fl_client_gathered){ 0 };
}

static fl_status copy_reply(void *gathered, int server, fl_msg_bytes reply)
{
    fl_client_gathered *g = gathered;

    (void)server;
    g->bytes = reply.len;
    g->memory = reply.len ? fl_try_alloc((size_t)reply.len) : NULL;
    if (!g->memory && reply.len)
        FL_FAIL(FL_ERR_NOMEM,
                "no memory for the %" PRIu64 " bytes that trainers have "
                "brought to a gather",
                reply.len);
    if (reply.len)
        memcpy(g->memory, reply.data, (size_t)reply.len);
    return unpack_reply((fl_msg_bytes){ g->memory, g->bytes }, &g->pieces);
}

fl_status fl_client_gather(fl_client *c, const char *name, uint64_t generation,
                           fl_msg_bytes bytes, fl_client_gathered *out,
                           fl_ending ending)
{
    gather_request r = { .generation = generation, .bytes = bytes };
    fl_call_spec call = {
        .type = FL_MSG_GATHER, .request = &r, .take = copy_reply, .out = out
    };

    fl_msg_text(r.name, name);
    return fl_client_call(c, &call, ending);
}

/* --- server 0 ------------------------------------------------------------- */

/* Bytes are copied without mu: they may be many. */
void fl_server_gather(fl_server *s, const fl_server_request *r)
{
    const gather_request *q = r->request;
    fl_coord_asker who = fl_server_asker(s, r);
    fl_gather_part part = { 0 };
    fl_status st =
        fl_gather_part_make(&part, who.rank, q->bytes.data, q->bytes.len);

    if (st) {
        fl_reply_error(r->reply, st);
        return;
    }
    fl_lock(&s->mu);
    s->level = FL_LOG_INFO;
    fl_coord_gather(s->coord, &who, q->name, q->generation, &part);
    fl_unlock(&s->mu);
}

void fl_server_answer_gather(void *arg, void *question, fl_status st,
                             fl_gathered *g)
{
    const struct iovec *pieces;
    int n;

    (void)arg;
    if (st) {
        fl_reply_error(question, st);
        return;
    }
    pieces = fl_gathered_pieces(g, &n);
    fl_gathered_ref(g);
    fl_reply_send_pieces(question, pieces, n, fl_gathered_unref, g);
}
