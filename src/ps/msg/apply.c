/* apply.c - APPLY: a round is applied, and some blocks are given. */
#include <inttypes.h>
#include <math.h>

#include "base/alloc.h"
#include "ps/msg/items.h"

#define MEMBER_BYTES UINT64_C(16)

/* --- unpacking ------------------------------------------------------------ */

/* All that the counts announce is there, and no more. */
static fl_status read_counts(fl_unpack *u, fl_apply_request *r)
{
    uint64_t left;

    r->n_members = fl_unpack_u32(u);
    r->n_blocks = fl_unpack_u32(u);
    left = (uint64_t)(u->end - u->at);
    if (u->bad ||
        left != r->n_members * MEMBER_BYTES + r->n_blocks * sizeof(uint32_t))
        FL_FAIL(FL_ERR_CORRUPT,
                "a request (apply) for %" PRIu32 " members and %" PRIu32
                " blocks has %" PRIu64 " bytes for them",
                r->n_members, r->n_blocks, left);
    if (!r->n_members || r->n_members > FL_MEMBERS_MAX ||
        r->n_blocks > FL_ITEMS_MAX)
        FL_FAIL(FL_ERR_CORRUPT,
                "a request (apply) has %" PRIu32 " members and %" PRIu32
                " blocks: a round has from 1 to %d members, and at most %d "
                "blocks are asked for at once",
                r->n_members, r->n_blocks, FL_MEMBERS_MAX, FL_ITEMS_MAX);
    return FL_OK;
}

static fl_status read_members(fl_unpack *u, fl_round_member *m, uint32_t n)
{
    for (uint32_t i = 0; i < n; i++) {
        uint32_t zero;

        m[i].rank = fl_unpack_u32(u);
        zero = fl_unpack_u32(u);
        m[i].weight = fl_unpack_f64(u);
        if (zero || (i && m[i].rank <= m[i - 1].rank))
            FL_FAIL(FL_ERR_CORRUPT,
                    "a request (apply) has member %" PRIu32 " (trainer %" PRIu32
                    ") out of the order of ranks, or %" PRIu32
                    " behind it, where 0 belongs",
                    i, m[i].rank, zero);
        if (!isfinite(m[i].weight))
            FL_FAIL(FL_ERR_INVAL,
                    "a request (apply) gives trainer %" PRIu32
                    " the weight %g, which is no number",
                    m[i].rank, m[i].weight);
    }
    return FL_OK;
}

static fl_status read_blocks(fl_unpack *u, const fl_items_source *from,
                             fl_block_item *items, uint32_t n)
{
    for (uint32_t i = 0; i < n; i++)
        FL_TRY(fl_block_unpack(u, from, &items[i]));
    return FL_OK;
}

fl_status fl_apply_unpack(const fl_items_source *from, fl_apply_request *out)
{
    fl_unpack u = fl_unpack_from(from->payload.data, from->payload.len);
    fl_apply_request r;
    fl_status st;

    FL_TRY(fl_items_round(&u, from->type, &r.round));
    FL_TRY(read_counts(&u, &r));
    r.members = fl_alloc(r.n_members * sizeof(*r.members));
    r.blocks = fl_alloc(r.n_blocks * sizeof(*r.blocks));
    st = read_members(&u, r.members, r.n_members);
    if (!st)
        st = read_blocks(&u, from, r.blocks, r.n_blocks);
    if (st) {
        fl_free(r.members);
        fl_free(r.blocks);
        return st;
    }
    *out = r;
    return FL_OK;
}

/* --- packing -------------------------------------------------------------- */

void fl_apply_pack_head(fl_pack *p, const fl_apply_request *r,
                        uint32_t n_blocks)
{
    fl_pack_u64(p, r->round);
    fl_pack_u32(p, r->n_members);
    fl_pack_u32(p, n_blocks);
    for (uint32_t i = 0; i < r->n_members; i++) {
        fl_pack_u32(p, r->members[i].rank);
        fl_pack_u32(p, 0);
        fl_pack_f64(p, r->members[i].weight);
    }
}

void fl_apply_pack(fl_pack *p, const fl_apply_request *r)
{
    fl_apply_pack_head(p, r, r->n_blocks);
    for (uint32_t i = 0; i < r->n_blocks; i++)
        fl_block_pack(p, &r->blocks[i]);
}

/* --- the sweep ------------------------------------------------------------ */

static fl_status echo(uint16_t type, fl_msg_bytes payload, fl_pack *again)
{
    fl_items_source from = { .type = type,
                             .payload = payload,
                             .width_of = fl_items_example_width };
    fl_apply_request r = { 0 };

    FL_TRY(fl_apply_unpack(&from, &r));
    fl_apply_pack(again, &r);
    fl_free(r.members);
    fl_free(r.blocks);
    return FL_OK;
}

/* One member and no block, up to three of each. */
static bool example(uint16_t type, int i, fl_pack *out)
{
    fl_round_member members[] = { { 0, 0.5 }, { 2, -1 }, { 7, 0 } };
    fl_block_item blocks[] = { { .block = 2 },
                               { .block = 0, .codec = FL_CODEC_BF16 } };

    (void)type;
    if (i < 0 || i >= (int)FL_LEN(members))
        return false;
    fl_apply_pack(out, &(fl_apply_request){ .round = 9,
                                            .members = members,
                                            .n_members = (uint32_t)i + 1,
                                            .blocks = blocks,
                                            .n_blocks = (uint32_t)i });
    return true;
}

const fl_msg_payload fl_msg_apply_request = { .echo = echo,
                                              .example = example };
/* The values of the blocks behind one another. */
const fl_msg_payload fl_msg_apply_reply = { .fields = fl_fields_rest };
