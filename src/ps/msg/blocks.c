/* blocks.c - PULL_DENSE, PUSH_DENSE, ASSIGN_DENSE and ROUND_DENSE: dense blocks
 * by number. */
#include <inttypes.h>

#include "base/alloc.h"
#include "ps/msg/items.h"

#define BLOCK_BYTES 8 /* of a head */

/* A block's number, and above it the codec of its values. */
#define CODEC_SHIFT 24
#define NUMBER_MASK ((UINT32_C(1) << CODEC_SHIFT) - 1)

static bool is_pull(uint16_t type)
{
    return type == FL_MSG_PULL_DENSE;
}

/* --- unpacking ------------------------------------------------------------ */

fl_status fl_block_unpack(fl_unpack *u, const fl_items_source *from,
                          fl_block_item *it)
{
    uint32_t word = fl_unpack_u32(u);

    FL_TRY(fl_items_codec(from->type, word >> CODEC_SHIFT, &it->codec));
    it->block = word & NUMBER_MASK;
    it->n = from->width_of(from->arg, it->block);
    return it->n ? FL_OK : fl_items_unknown(from->type, "block", it->block);
}

static fl_status read_block(fl_unpack *u, const fl_items_source *from,
                            uint32_t i, fl_block_item *it)
{
    FL_TRY(fl_block_unpack(u, from, it));
    if (!is_pull(from->type) && fl_unpack_u32(u))
        FL_FAIL(FL_ERR_CORRUPT,
                "a request (%s) has another number than 0 behind block "
                "%" PRIu32 " (item %" PRIu32 ")",
                fl_msg_name(from->type), it->block, i);
    return FL_OK;
}

static void read_values(fl_unpack *u, fl_block_item *it)
{
    it->coded =
        fl_items_take_units(u, it->n, fl_codec_width(it->codec), sizeof(float));
    if (it->codec == FL_CODEC_F32)
        it->values = it->coded;
}

static fl_status read_items(fl_unpack *u, const fl_items_source *from,
                            fl_block_item *items, uint32_t n)
{
    for (uint32_t i = 0; i < n; i++)
        FL_TRY(read_block(u, from, i, &items[i]));
    for (uint32_t i = 0; !is_pull(from->type) && i < n; i++) {
        read_values(u, &items[i]);
        if (u->bad)
            return fl_items_too_short(from->type, "values", i);
    }
    return FL_OK;
}

fl_status fl_blocks_unpack(const fl_items_source *from, fl_blocks_request *out)
{
    fl_items r;

    FL_TRY(fl_items_begin(from,
                          is_pull(from->type) ? sizeof(uint32_t) : BLOCK_BYTES,
                          sizeof(fl_block_item), &r));
    FL_TRY(fl_items_end(&r, from->type, read_items(&r.u, from, r.items, r.n)));
    *out = (fl_blocks_request){ r.round, r.items, r.n };
    return FL_OK;
}

/* --- packing -------------------------------------------------------------- */

void fl_block_pack(fl_pack *p, const fl_block_item *it)
{
    fl_pack_u32(p, it->block | (uint32_t)it->codec << CODEC_SHIFT);
}

void fl_blocks_pack_head(fl_pack *p, uint16_t type, const fl_blocks_request *r)
{
    if (type == FL_MSG_ROUND_DENSE)
        fl_pack_u64(p, r->round);
    fl_pack_u32(p, r->n);
    if (!is_pull(type))
        fl_pack_u32(p, 0);
    for (uint32_t i = 0; i < r->n; i++) {
        fl_block_pack(p, &r->items[i]);
        if (!is_pull(type))
            fl_pack_u32(p, 0);
    }
}

/* --- the sweep ------------------------------------------------------------ */

static fl_status echo(uint16_t type, fl_msg_bytes payload, fl_pack *again)
{
    fl_items_source from = { .type = type,
                             .payload = payload,
                             .width_of = fl_items_example_width };
    fl_blocks_request r = { 0 };

    FL_TRY(fl_blocks_unpack(&from, &r));
    fl_blocks_pack_head(again, type, &r);
    for (uint32_t i = 0; !is_pull(type) && i < r.n; i++)
        fl_pack_bytes(again, r.items[i].coded,
                      (size_t)fl_codec_bytes(r.items[i].codec, r.items[i].n));
    fl_free(r.items);
    return FL_OK;
}

/* Values that are coded are zeros. */
static bool example(uint16_t type, int n, fl_pack *out)
{
    fl_block_item items[] = {
        { .block = 1 },
        { .block = 2, .codec = FL_CODEC_BF16 },
        { .block = 0 },
    };

    if (n < 0 || n > (int)FL_LEN(items))
        return false;
    fl_blocks_pack_head(
        out, type,
        &(fl_blocks_request){ .round = 5, .items = items, .n = (uint32_t)n });
    for (int i = 0; !is_pull(type) && i < n; i++) {
        uint64_t len = fl_items_example_width(NULL, items[i].block);

        if (items[i].codec == FL_CODEC_F32)
            fl_items_example_floats(out, len);
        else
            fl_pack_u64(out, 0);
    }
    return true;
}

const fl_msg_payload fl_msg_pull_dense_request = { .echo = echo,
                                                   .example = example };
const fl_msg_payload fl_msg_push_dense_request = { .echo = echo,
                                                   .example = example };
const fl_msg_payload fl_msg_assign_dense_request = { .echo = echo,
                                                     .example = example };
const fl_msg_payload fl_msg_round_dense_request = { .echo = echo,
                                                    .example = example };

/* The values of all blocks behind one another. */
const fl_msg_payload fl_msg_pull_dense_reply = { .fields = fl_fields_rest };
const fl_msg_payload fl_msg_push_dense_reply = { .fields = fl_fields_none };
const fl_msg_payload fl_msg_assign_dense_reply = { .fields = fl_fields_none };
const fl_msg_payload fl_msg_round_dense_reply = { .fields = fl_fields_none };
