/* changed.c - CHANGED: rows that others have changed, in pages. */
#include <inttypes.h>
#include <string.h>

#include "ps/msg/items.h"

#define HEAD_BYTES sizeof(fl_changed_head)

_Static_assert(HEAD_BYTES == 24, "a head is three numbers");

static const fl_field request[] = {
    FL_FIELD(U32, fl_changed_request, table),
    FL_FIELD_GAP,
    FL_FIELD(U64, fl_changed_request, cursor),
    FL_FIELD(U64, fl_changed_request, place),
    FL_FIELDS_END,
};

static uint64_t row_bytes(uint32_t dim)
{
    return sizeof(uint64_t) + dim * sizeof(float);
}

uint64_t fl_changed_bytes(uint64_t n, uint32_t dim)
{
    return HEAD_BYTES + n * row_bytes(dim);
}

void *fl_changed_pack_head(void *buf, const fl_changed_head *h)
{
    memcpy(buf, h, HEAD_BYTES);
    return (char *)buf + HEAD_BYTES;
}

fl_status fl_changed_unpack_reply(fl_msg_bytes payload, uint32_t dim,
                                  fl_changed_reply *out)
{
    fl_changed_reply r = { 0 };

    if (payload.len >= HEAD_BYTES)
        memcpy(&r.head, payload.data, HEAD_BYTES);
    if (payload.len < HEAD_BYTES ||
        (payload.len - HEAD_BYTES) % row_bytes(dim) ||
        (payload.len - HEAD_BYTES) / row_bytes(dim) != r.head.n)
        FL_FAIL(FL_ERR_CORRUPT,
                "it answers a request (changed) with %" PRIu64
                " bytes, which are not %" PRIu64 " rows of %" PRIu32 " floats",
                payload.len, r.head.n, dim);
    r.keys = (const uint64_t *)((const char *)payload.data + HEAD_BYTES);
    r.values = (const float *)(r.keys + r.head.n);
    *out = r;
    return FL_OK;
}

/* --- the sweep ------------------------------------------------------------ */

#define DIM 3

static fl_status echo(uint16_t type, fl_msg_bytes payload, fl_pack *again)
{
    fl_changed_reply r;

    (void)type;
    FL_TRY(fl_changed_unpack_reply(payload, DIM, &r));
    fl_pack_bytes(again, &r.head, HEAD_BYTES);
    if (r.head.n)
        fl_pack_bytes(again, r.keys, (size_t)r.head.n * sizeof(*r.keys));
    if (r.head.n)
        fl_pack_bytes(again, r.values,
                      (size_t)r.head.n * DIM * sizeof(*r.values));
    return FL_OK;
}

static bool example(uint16_t type, int n, fl_pack *out)
{
    fl_changed_head h = { .cursor = 12, .place = 1, .n = (uint64_t)n };

    (void)type;
    fl_pack_bytes(out, &h, HEAD_BYTES);
    for (int i = 0; i < n; i++)
        fl_pack_u64(out, (uint64_t)i << 40);
    fl_items_example_floats(out, (uint64_t)n * DIM);
    return n < 4;
}

const fl_msg_payload fl_msg_changed_request = { .fields = request };
const fl_msg_payload fl_msg_changed_reply = { .echo = echo,
                                              .example = example };
