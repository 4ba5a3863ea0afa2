/* client_blocks.c - dense blocks: each on the server that the caller names, one
 * request per server. Values travel from and to the caller's own memory. */
#include "ps/client/client_inside.h"

#include <inttypes.h>
#include <string.h>

/* --- what all of them do -------------------------------------------------- */

/* The blocks of a server, for the head of its part. */
static fl_status list_blocks(fl_request *r, int server,
                             const fl_client_block *blocks, size_t n)
{
    r->blocks.items.len = 0;
    for (size_t i = 0; i < n; i++)
        if (blocks[i].server == server)
            fl_vec_push(&r->blocks.items,
                        ((fl_block_item){ .block = blocks[i].number }));
    if (r->blocks.items.len > FL_ITEMS_MAX)
        FL_FAIL(FL_ERR_INVAL,
                "a request (%s) has %zu blocks for server %d, more than %d; "
                "make several requests",
                fl_msg_name(r->type), r->blocks.items.len, server,
                FL_ITEMS_MAX);
    return FL_OK;
}

static void check_servers(const fl_client *c, const fl_client_block *blocks,
                          size_t n)
{
    for (size_t i = 0; i < n; i++)
        FL_ASSERT(blocks[i].server >= 0 && blocks[i].server < c->o.n_servers);
}

/* Where the values that a server answers with go. */
static void expect_blocks(fl_request *r, fl_request_part *p,
                          const fl_client_block *blocks, float *const *out,
                          size_t n)
{
    for (size_t i = 0; i < n; i++) {
        if (blocks[i].server != p->server)
            continue;
        fl_vec_push(&r->blocks.outs,
                    ((fl_block_out){ p->server, out[i], blocks[i].n }));
        p->reply_bytes += blocks[i].n * sizeof(float);
    }
}

static fl_status take_blocks(fl_request *r, const fl_request_part *p)
{
    const float *values;

    FL_TRY(fl_part_values(p, &values));
    for (size_t i = 0; i < r->blocks.outs.len; i++) {
        const fl_block_out *b = &r->blocks.outs.data[i];

        if (b->server != p->server)
            continue;
        memcpy(b->out, values, (size_t)b->n * sizeof(float));
        values += b->n;
    }
    return FL_OK;
}

/* Fills the part of every server. */
typedef struct lists {
    const fl_client_block *blocks;
    float *const *out;          /* to be filled, */
    const float *const *values; /* or to be sent */
    size_t n;
    const fl_round_member *members; /* of APPLY */
    size_t n_members;
} lists;
typedef void (*fill_fn)(fl_request_part *p, const lists *l);

static fl_status fill_and_send(fl_request *r, const lists *l, fill_fn fill)
{
    check_servers(r->client, l->blocks, l->n);
    for (int s = 0; s < r->client->o.n_servers; s++) {
        fl_status st = list_blocks(r, s, l->blocks, l->n);

        if (st) {
            fl_request_free(r);
            return st;
        }
        fill(&r->parts[s], l);
    }
    return fl_request_send(r);
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
        expect_blocks(p->request, p, l->blocks, l->out, l->n);
}

fl_status fl_client_pull_blocks(fl_client *c, const fl_client_block *blocks,
                                float *const *out, size_t n, fl_ending ending)
{
    lists l = { .blocks = blocks, .out = out, .n = n };
    fl_request *r;

    FL_TRY(fl_request_new(c, FL_MSG_PULL_DENSE, ending, &r));
    r->on_part = take_blocks;
    return fill_and_send(r, &l, fill_pull);
}

static void fill_send(fl_request_part *p, const lists *l)
{
    if (!pack_head(p))
        return;
    for (size_t i = 0; i < l->n; i++)
        if (l->blocks[i].server == p->server)
            fl_part_add(p, l->values[i], l->blocks[i].n * sizeof(float));
}

fl_status fl_client_send_blocks(fl_client *c, uint16_t type,
                                const fl_client_block *blocks,
                                const float *const *values, size_t n,
                                fl_ending ending)
{
    lists l = { .blocks = blocks, .values = values, .n = n };
    fl_request *r;

    FL_ASSERT(type == FL_MSG_PUSH_DENSE || type == FL_MSG_ASSIGN_DENSE);
    FL_TRY(fl_request_new(c, type, ending, &r));
    return fill_and_send(r, &l, fill_send);
}

/* --- rounds --------------------------------------------------------------- */

fl_status fl_client_round_blocks(fl_client *c, uint64_t round,
                                 const fl_client_block *blocks,
                                 const float *const *values, size_t n,
                                 fl_ending ending)
{
    lists l = { .blocks = blocks, .values = values, .n = n };
    fl_request *r;

    FL_TRY(fl_request_new(c, FL_MSG_ROUND_DENSE, ending, &r));
    r->round = round;
    return fill_and_send(r, &l, fill_send);
}

static void fill_apply(fl_request_part *p, const lists *l)
{
    fl_request *r = p->request;
    fl_apply_request q = { .round = r->round,
                           .members = (void *)(uintptr_t)l->members,
                           .n_members = (uint32_t)l->n_members,
                           .blocks = r->blocks.items.data,
                           .n_blocks = (uint32_t)r->blocks.items.len };

    fl_apply_pack(&p->head, &q);
    fl_part_add(p, p->head.data, p->head.len);
    expect_blocks(r, p, l->blocks, l->out, l->n);
}

fl_status fl_client_apply(fl_client *c, const fl_client_round *round,
                          fl_ending ending)
{
    lists l = { .blocks = round->blocks,
                .out = round->out,
                .n = round->n_blocks,
                .members = round->members,
                .n_members = round->n_members };
    fl_request *r;

    if (!l.n_members || l.n_members > FL_MEMBERS_MAX)
        FL_FAIL(FL_ERR_INVAL,
                "round %" PRIu64 " has %zu members, and a round has from 1 to "
                "%d",
                round->number, l.n_members, FL_MEMBERS_MAX);
    FL_TRY(fl_request_new(c, FL_MSG_APPLY, ending, &r));
    r->on_part = take_blocks;
    r->round = round->number;
    return fill_and_send(r, &l, fill_apply);
}
