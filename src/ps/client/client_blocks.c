/* client_blocks.c - dense blocks: each on the server that the caller names, one
 * request per server. Values travel from and to the caller's own memory. */
#include "ps/client/client_inside.h"

#include <inttypes.h>
#include <string.h>

/* --- what all of them do -------------------------------------------------- */

/* The numbers of a server's blocks, for the head of its part. */
static fl_status list_numbers(fl_request *r, int server,
                              const fl_client_block *blocks, size_t n)
{
    r->numbers.len = 0;
    for (size_t i = 0; i < n; i++)
        if (blocks[i].server == server)
            fl_vec_push(&r->numbers, blocks[i].number);
    if (r->numbers.len > FL_ITEMS_MAX)
        FL_FAIL(FL_ERR_INVAL,
                "a request (%s) has %zu blocks for server %d, more than %d; "
                "make several requests",
                fl_frame_type_name(r->type), r->numbers.len, server,
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
static void expect_blocks(fl_request *r, fl_part *p,
                          const fl_client_block *blocks, float *const *out,
                          size_t n)
{
    for (size_t i = 0; i < n; i++) {
        if (blocks[i].server != p->server)
            continue;
        fl_vec_push(&r->blocks,
                    ((fl_block_out){ p->server, out[i], blocks[i].n }));
        p->reply_bytes += blocks[i].n * sizeof(float);
    }
}

void fl_request_fill_blocks(const fl_request *r, const fl_part *p,
                            const float *values)
{
    for (size_t i = 0; i < r->blocks.len; i++) {
        const fl_block_out *b = &r->blocks.data[i];

        if (b->server != p->server)
            continue;
        memcpy(b->out, values, (size_t)b->n * sizeof(float));
        values += b->n;
    }
}

/* Fills the part of every server. */
typedef struct lists {
    const fl_client_block *blocks;
    float *const *out;          /* to be filled, */
    const float *const *values; /* or to be sent */
    size_t n;
    const fl_client_member *members; /* of APPLY */
    size_t n_members;
} lists;
typedef void (*fill_fn)(fl_part *p, const lists *l);

static fl_status fill_and_send(fl_request *r, const lists *l, fill_fn fill)
{
    check_servers(r->client, l->blocks, l->n);
    for (int s = 0; s < r->client->o.n_servers; s++) {
        fl_status st = list_numbers(r, s, l->blocks, l->n);

        if (st) {
            fl_request_free(r);
            return st;
        }
        fill(&r->parts[s], l);
    }
    return fl_request_send(r);
}

/* --- values and gradients ------------------------------------------------- */

static void fill_pull(fl_part *p, const lists *l)
{
    fl_request *r = p->request;

    if (!r->numbers.len)
        return;
    fl_blocks_pack_head(&p->head, r->type, r->numbers.data,
                        (uint32_t)r->numbers.len);
    fl_part_add(p, p->head.data, p->head.len);
    expect_blocks(r, p, l->blocks, l->out, l->n);
}

fl_status fl_client_pull_blocks(fl_client *c, const fl_client_block *blocks,
                                float *const *out, size_t n,
                                fl_client_done done, void *arg)
{
    lists l = { .blocks = blocks, .out = out, .n = n };
    fl_request *r;

    FL_TRY(fl_request_new(c, FL_TYPE_PULL_DENSE, false,
                          (fl_ending){ done, arg }, &r));
    return fill_and_send(r, &l, fill_pull);
}

static void fill_send(fl_part *p, const lists *l)
{
    fl_request *r = p->request;

    if (!r->numbers.len)
        return;
    if (r->type == FL_TYPE_ROUND_DENSE)
        fl_pack_u64(&p->head, r->round);
    fl_blocks_pack_head(&p->head, r->type, r->numbers.data,
                        (uint32_t)r->numbers.len);
    fl_part_add(p, p->head.data, p->head.len);
    for (size_t i = 0; i < l->n; i++)
        if (l->blocks[i].server == p->server)
            fl_part_add(p, l->values[i], l->blocks[i].n * sizeof(float));
}

fl_status fl_client_send_blocks(fl_client *c, uint16_t type,
                                const fl_client_block *blocks,
                                const float *const *values, size_t n,
                                fl_client_done done, void *arg)
{
    lists l = { .blocks = blocks, .values = values, .n = n };
    fl_request *r;

    FL_ASSERT(type == FL_TYPE_PUSH_DENSE || type == FL_TYPE_ASSIGN_DENSE);
    FL_TRY(fl_request_new(c, type, true, (fl_ending){ done, arg }, &r));
    return fill_and_send(r, &l, fill_send);
}

/* --- rounds --------------------------------------------------------------- */

fl_status fl_client_round_blocks(fl_client *c, uint64_t round,
                                 const fl_client_block *blocks,
                                 const float *const *values, size_t n,
                                 fl_client_done done, void *arg)
{
    lists l = { .blocks = blocks, .values = values, .n = n };
    fl_request *r;

    FL_TRY(fl_request_new(c, FL_TYPE_ROUND_DENSE, true,
                          (fl_ending){ done, arg }, &r));
    r->round = round;
    return fill_and_send(r, &l, fill_send);
}

static void fill_apply(fl_part *p, const lists *l)
{
    fl_request *r = p->request;

    fl_pack_u64(&p->head, r->round);
    fl_pack_u32(&p->head, (uint32_t)l->n_members);
    fl_pack_u32(&p->head, (uint32_t)r->numbers.len);
    for (size_t i = 0; i < l->n_members; i++) {
        fl_pack_u32(&p->head, l->members[i].rank);
        fl_pack_u32(&p->head, 0);
        fl_pack_f64(&p->head, l->members[i].weight);
    }
    for (size_t i = 0; i < r->numbers.len; i++)
        fl_pack_u32(&p->head, r->numbers.data[i]);
    fl_part_add(p, p->head.data, p->head.len);
    expect_blocks(r, p, l->blocks, l->out, l->n);
}

fl_status fl_client_apply(fl_client *c, uint64_t round,
                          const fl_client_member *members, size_t n_members,
                          const fl_client_block *blocks, float *const *out,
                          size_t n, fl_client_done done, void *arg)
{
    lists l = { .blocks = blocks,
                .out = out,
                .n = n,
                .members = members,
                .n_members = n_members };
    fl_request *r;

    if (!n_members || n_members > FL_MEMBERS_MAX)
        FL_FAIL(FL_ERR_INVAL,
                "round %" PRIu64 " has %zu members, and a round has from 1 to "
                "%d",
                round, n_members, FL_MEMBERS_MAX);
    FL_TRY(
        fl_request_new(c, FL_TYPE_APPLY, false, (fl_ending){ done, arg }, &r));
    r->round = round;
    return fill_and_send(r, &l, fill_apply);
}
