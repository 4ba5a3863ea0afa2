/* pack_kit.h - requests of rows and blocks, as a client packs their heads. */
#ifndef FL_TESTS_PS_PACK_KIT_H
#define FL_TESTS_PS_PACK_KIT_H

#include "base/alloc.h"
#include "ps/msg/items.h"

/* Of a round its number is packed before. */
static inline void pack_rows_head(fl_pack *p, uint16_t type,
                                  const fl_rows_item *items, uint32_t n)
{
    fl_rows_request r = { .items = (void *)(uintptr_t)items, .n = n };

    fl_rows_pack_head(p, type == FL_MSG_ROUND_PUSH ? FL_MSG_PUSH : type, &r);
}

static inline void pack_blocks_head(fl_pack *p, uint16_t type,
                                    const uint32_t *blocks, uint32_t n)
{
    fl_blocks_request r = { .items = fl_alloc(n * sizeof(*r.items)), .n = n };

    for (uint32_t i = 0; i < n; i++)
        r.items[i].block = blocks[i];
    fl_blocks_pack_head(
        p, type == FL_MSG_ROUND_DENSE ? FL_MSG_PUSH_DENSE : type, &r);
    fl_free(r.items);
}

#endif
