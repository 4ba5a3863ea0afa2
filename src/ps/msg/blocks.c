/* blocks.c - PULL_DENSE, PUSH_DENSE, ASSIGN_DENSE and ROUND_DENSE: dense blocks
 * by number. */
#include <inttypes.h>

#include "base/alloc.h"
#include "ps/msg/items.h"

#define BLOCK_BYTES 8 /* of a head */

static bool is_pull(uint16_t type)
{
    return type == FL_MSG_PULL_DENSE;
}

/* --- unpacking ------------------------------------------------------------ */

static fl_status read_block(fl_unpack *u, const fl_items_source *from,
                            uint32_t i, fl_block_item *it)
{
    it->block = fl_unpack_u32(u);
    if (!is_pull(from->type) && fl_unpack_u32(u))
        FL_FAIL(FL_ERR_CORRUPT,
                "a request (%s) has another number than 0 behind block "
                "%" PRIu32 " (item %" PRIu32 ")",
                fl_msg_name(from->type), it->block, i);
    it->n = from->width_of(from->arg, it->block);
    return it->n ? FL_OK : fl_items_unknown(from->type, "block", it->block);
}

static fl_status read_items(fl_unpack *u, const fl_items_source *from,
                            fl_block_item *items, uint32_t n)
{
    for (uint32_t i = 0; i < n; i++)
        FL_TRY(read_block(u, from, i, &items[i]));
    for (uint32_t i = 0; !is_pull(from->type) && i < n; i++) {
        items[i].values = fl_items_take(u, items[i].n, sizeof(float));
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

void fl_blocks_pack_head(fl_pack *p, uint16_t type, const fl_blocks_request *r)
{
    if (type == FL_MSG_ROUND_DENSE)
        fl_pack_u64(p, r->round);
    fl_pack_u32(p, r->n);
    if (!is_pull(type))
        fl_pack_u32(p, 0);
    for (uint32_t i = 0; i < r->n; i++) {
        fl_pack_u32(p, r->items[i].block);
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
        fl_pack_bytes(again, r.items[i].values,
                      (size_t)r.items[i].n * sizeof(float));
    fl_free(r.items);
    return FL_OK;
}

static bool example(uint16_t type, int n, fl_pack *out)
{
    fl_block_item items[] = { { .block = 1 }, { .block = 0 }, { .block = 2 } };

    if (n < 0 || n > (int)FL_LEN(items))
        return false;
    fl_blocks_pack_head(
        out, type,
        &(fl_blocks_request){ .round = 5, .items = items, .n = (uint32_t)n });
    for (int i = 0; !is_pull(type) && i < n; i++)
        fl_items_example_floats(out,
                                fl_items_example_width(NULL, items[i].block));
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
