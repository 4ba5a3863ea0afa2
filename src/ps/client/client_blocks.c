/* client_blocks.c - dense blocks: each on the server that the caller names, one
 * request per server. Values travel from and to the caller's own memory, unless
 * they are coded. */
#include "ps/client/client_inside.h"

#include <inttypes.h>

/* Of a block in a message that others join, at least: so a small one has fewer
   blocks than a request may. */
#define BLOCK_BYTES 256
_Static_assert(FL_SMALL_BLOCKS_BYTES / BLOCK_BYTES <= FL_ITEMS_MAX,
               "small requests that are coalesced have few enough blocks");

/* --- what all of them do -------------------------------------------------- */

/* What a request is about. */
typedef struct lists {
    const fl_client_block *blocks;
    float *const *out;            /* to be filled, */
    const fl_client_store *store; /* to be taken, */
    const float *const *values;   /* or to be sent */
    size_t n;
    fl_codec codec;
    const fl_client_round *round; /* of APPLY and ROUND */
} lists;

static lists lists_of(const fl_client_round *round)
{
    return (lists){ .blocks = round->blocks,
                    .out = round->out,
                    .n = round->n_blocks,
                    .codec = round->codec,
                    .round = round };
}

/* The blocks of a server, for the head of its part. */
static void list_blocks(fl_request *r, int server, const lists *l)
{
    r->blocks.items.len = 0;
    for (size_t i = 0; i < l->n; i++)
        if (l->blocks[i].server == server)
            fl_vec_push(&r->blocks.items,
                        ((fl_block_item){ .block = l->blocks[i].number,
                                          .codec = l->codec }));
}

static size_t count_blocks(int server, const fl_client_block *blocks, size_t n)
{
    size_t count = 0;

    for (size_t i = 0; i < n; i++)
        count += blocks[i].server == server;
    return count;
}

static fl_status check_blocks(const fl_client *c, uint16_t type,
                              const fl_client_block *blocks, size_t n)
{
    for (size_t i = 0; i < n; i++)
        FL_ASSERT(blocks[i].server >= 0 && blocks[i].server < c->o.n_servers);
    for (int s = 0; n > FL_ITEMS_MAX && s < c->o.n_servers; s++) {
        size_t count = count_blocks(s, blocks, n);

        if (count > FL_ITEMS_MAX)
            FL_FAIL(FL_ERR_INVAL,
                    "a request (%s) has %zu blocks for server %d, more than "
                    "%d; make several requests",
                    fl_msg_name(type), count, s, FL_ITEMS_MAX);
    }
    return FL_OK;
}

/* Where the values that a server answers with go. */
static void expect_blocks(fl_request_part *p, const lists *l)
{
    for (size_t i = 0; i < l->n; i++) {
        fl_block_out out = { .server = p->server,
                             .number = i,
                             .out = l->store ? NULL : l->out[i],
                             .n = l->blocks[i].n,
                             .codec = l->codec };

        if (l->blocks[i].server != p->server)
            continue;
        fl_vec_push(&p->request->blocks.outs, out);
        p->reply_bytes += fl_codec_bytes(out.codec, out.n);
    }
}

static fl_status take_block(const fl_request *r, const fl_block_out *b,
                            const uint8_t *values)
{
    const fl_client_store *s = &r->blocks.store;

    if (!b->out)
        return s->store(s->arg, b->number, b->codec, values);
    fl_codec_decode(b->codec, values, (size_t)b->n, b->out);
    return FL_OK;
}

static fl_status take_blocks(fl_request *r, const fl_request_part *p)
{
    const uint8_t *values;

    FL_TRY(fl_part_values(p, &values));
    for (size_t i = 0; i < r->blocks.outs.len; i++) {
        const fl_block_out *b = &r->blocks.outs.data[i];

        if (b->server != p->server)
            continue;
        FL_TRY(take_block(r, b, values));
        values += fl_codec_bytes(b->codec, b->n);
    }
    return FL_OK;
}

/* Fills the part of every server. */
typedef void (*fill_fn)(fl_request_part *p, const lists *l);

static void fill_parts(fl_request *r, const lists *l, fill_fn fill)
{
    for (int s = 0; s < r->client->o.n_servers; s++) {
        list_blocks(r, s, l);
        fill(&r->parts[s], l);
    }
}

/* --- values and gradients ------------------------------------------------- */

/* Of all but APPLY; nothing when the server has none of the blocks. */
static bool pack_head(fl_request_part *p)
{
    fl_request *r = p->request;
    fl_blocks_request q = { .round = r->round,
                            .items = r->blocks.items.data,
                            .n = (uint32_t)r->blocks.items.len };

    if (!q.n)
        return false;
    fl_blocks_pack_head(&p->head, r->type, &q);
    fl_part_add(p, p->head.data, p->head.len);
    return true;
}

static void fill_pull(fl_request_part *p, const lists *l)
{
    if (pack_head(p))
        expect_blocks(p, l);
}

fl_status fl_client_pull_blocks(fl_client *c, const fl_client_block *blocks,
                                float *const *out, size_t n, fl_ending ending)
{
    return fl_client_pull_blocks_coded(c, FL_CODEC_F32, blocks, out, n, ending);
}

static fl_status pull_blocks(fl_client *c, const lists *l, fl_ending ending)
{
    fl_request_spec spec = { .type = FL_MSG_PULL_DENSE, .ending = ending };
    fl_request *r;

    FL_TRY(check_blocks(c, spec.type, l->blocks, l->n));
    FL_TRY(fl_request_begin(c, &spec, &r));
    r->on_part = take_blocks;
    if (l->store)
        r->blocks.store = *l->store;
    fill_parts(r, l, fill_pull);
    return fl_request_end(r);
}

fl_status fl_client_pull_blocks_coded(fl_client *c, fl_codec codec,
                                      const fl_client_block *blocks,
                                      float *const *out, size_t n,
                                      fl_ending ending)
{
    return pull_blocks(
        c, &(lists){ .blocks = blocks, .out = out, .n = n, .codec = codec },
        ending);
}

fl_status fl_client_pull_blocks_into(fl_client *c, fl_codec codec,
                                     const fl_client_block *blocks, size_t n,
                                     const fl_client_store *store,
                                     fl_ending ending)
{
    return pull_blocks(
        c, &(lists){ .blocks = blocks, .store = store, .n = n, .codec = codec },
        ending);
}

/* The values of a block as they travel: where the caller has them, or at a place
   among those that were encoded. */
static const void *value_of(const fl_request *r, const lists *l, size_t i,
                            uint64_t at)
{
    if (l->codec == FL_CODEC_F32)
        return l->values[i];
    return (const uint8_t *)r->blocks.coded.data + at;
}

static void fill_send(fl_request_part *p, const lists *l)
{
    uint64_t at = 0, bytes;

    if (!pack_head(p))
        return;
    for (size_t i = 0; i < l->n; i++, at += bytes) {
        bytes = fl_codec_bytes(l->codec, l->blocks[i].n);
        if (l->blocks[i].server == p->server)
            fl_part_add(p, value_of(p->request, l, i, at), bytes);
    }
}

/* Values that travel as they are stay where they are. */
static fl_status encode(fl_request *r, const lists *l)
{
    uint64_t bytes = 0;
    uint8_t *to;

    if (l->codec == FL_CODEC_F32)
        return FL_OK;
    for (size_t i = 0; i < l->n; i++)
        bytes += fl_codec_bytes(l->codec, l->blocks[i].n);
    FL_TRY(fl_request_grow(r, &r->blocks.coded, bytes));
    to = r->blocks.coded.data;
    for (size_t i = 0; i < l->n; i++) {
        fl_codec_encode(l->codec, l->values[i], (size_t)l->blocks[i].n, to);
        to += fl_codec_bytes(l->codec, l->blocks[i].n);
    }
    return FL_OK;
}

static fl_codec codec_of(const fl_client *c, uint16_t type)
{
    return type == FL_MSG_ASSIGN_DENSE ? FL_CODEC_F32 : c->o.push;
}

static fl_status fill_sent(fl_request *r)
{
    lists l = { .blocks = r->blocks.sent.data,
                .values = r->blocks.values.data,
                .n = r->blocks.sent.len,
                .codec = codec_of(r->client, r->type) };

    FL_TRY(encode(r, &l));
    fill_parts(r, &l, fill_send);
    return FL_OK;
}

static void add_sent(fl_request *r, const fl_client_block *blocks,
                     const float *const *values, size_t n)
{
    r->fill = fill_sent;
    for (size_t i = 0; i < n; i++) {
        fl_vec_push(&r->blocks.sent, blocks[i]);
        fl_vec_push(&r->blocks.values, values[i]);
    }
}

fl_status fl_client_send_blocks(fl_client *c, uint16_t type,
                                const fl_client_block *blocks,
                                const float *const *values, size_t n,
                                fl_ending ending)
{
    fl_request_spec spec = { .type = type, .ending = ending };
    fl_request *r;

    FL_ASSERT(type == FL_MSG_PUSH_DENSE || type == FL_MSG_ASSIGN_DENSE);
    FL_TRY(check_blocks(c, type, blocks, n));
    for (size_t i = 0; i < n; i++)
        spec.bytes += BLOCK_BYTES + blocks[i].n * sizeof(float);
    FL_TRY(fl_request_begin(c, &spec, &r));
    add_sent(r, blocks, values, n);
    return fl_request_end(r);
}

/* --- rounds --------------------------------------------------------------- */

fl_status fl_client_round_blocks(fl_client *c, uint64_t round,
                                 const fl_client_block *blocks,
                                 const float *const *values, size_t n,
                                 fl_ending ending)
{
    fl_request *r;

    FL_TRY(check_blocks(c, FL_MSG_ROUND_DENSE, blocks, n));
    FL_TRY(fl_request_new(c, FL_MSG_ROUND_DENSE, ending, &r));
    r->round = round;
    add_sent(r, blocks, values, n);
    return fl_request_end(r);
}

static void fill_apply(fl_request_part *p, const lists *l)
{
    fl_request *r = p->request;
    fl_apply_request q = { .round = r->round,
                           .members = (void *)(uintptr_t)l->round->members,
                           .n_members = (uint32_t)l->round->n_members,
                           .blocks = r->blocks.items.data,
                           .n_blocks = (uint32_t)r->blocks.items.len };

    fl_apply_pack(&p->head, &q);
    fl_part_add(p, p->head.data, p->head.len);
    expect_blocks(p, l);
}

fl_status fl_client_apply(fl_client *c, const fl_client_round *round,
                          fl_ending ending)
{
    lists l = lists_of(round);
    fl_request *r;

    if (!round->n_members || round->n_members > FL_MEMBERS_MAX)
        FL_FAIL(FL_ERR_INVAL,
                "round %" PRIu64 " has %zu members, and a round has from 1 to "
                "%d",
                round->number, round->n_members, FL_MEMBERS_MAX);
    FL_TRY(check_blocks(c, FL_MSG_APPLY, l.blocks, l.n));
    FL_TRY(fl_request_new(c, FL_MSG_APPLY, ending, &r));
    r->on_part = take_blocks;
    r->round = round->number;
    fill_parts(r, &l, fill_apply);
    return fl_request_send(r);
}

static void fill_meet(fl_request_part *p, const lists *l)
{
    const fl_request *r = p->request;

    fl_round_pack(&p->head, l->round, r->blocks.items.data,
                  r->blocks.items.len);
    fl_part_add(p, p->head.data, p->head.len);
    expect_blocks(p, l);
}

fl_status fl_client_meet(fl_client *c, const fl_client_round *round,
                         fl_ending ending)
{
    lists l = lists_of(round);
    fl_request *r;

    FL_TRY(check_blocks(c, FL_MSG_ROUND, l.blocks, l.n));
    FL_TRY(fl_request_new(c, FL_MSG_ROUND, ending, &r));
    r->on_part = take_blocks;
    fill_parts(r, &l, fill_meet);
    return fl_request_send(r);
}
