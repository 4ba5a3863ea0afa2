/* items.c - what the readers of rows and blocks share. */
#include "ps/msg/items.h"

#include <inttypes.h>

#include "base/alloc.h"

/* Keys and floats are used where they lie. */
_Static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__,
               "payloads are little-endian and read in place");

fl_status fl_items_round(fl_unpack *u, uint16_t type, uint64_t *round)
{
    uint64_t len = (uint64_t)(u->end - u->at);

    *round = fl_unpack_u64(u);
    if (u->bad)
        FL_FAIL(FL_ERR_CORRUPT,
                "a request (%s) of %" PRIu64 " bytes ends within the number of "
                "its round",
                fl_msg_name(type), len);
    return FL_OK;
}

static fl_status read_count(fl_unpack *u, uint16_t type, uint64_t head_bytes,
                            uint32_t *out)
{
    bool has_gap = type != FL_MSG_PULL_DENSE;
    uint32_t n = fl_unpack_u32(u);
    uint32_t zero = has_gap ? fl_unpack_u32(u) : 0;

    if (u->bad || n > (uint64_t)(u->end - u->at) / head_bytes)
        FL_FAIL(FL_ERR_CORRUPT,
                "a request (%s) ends within the heads of its %" PRIu32 " items",
                fl_msg_name(type), n);
    if (zero)
        FL_FAIL(FL_ERR_CORRUPT,
                "a request (%s) has %" PRIu32 " behind its count of items, "
                "where 0 belongs",
                fl_msg_name(type), zero);
    if (n > FL_ITEMS_MAX)
        FL_FAIL(FL_ERR_CORRUPT,
                "a request (%s) has %" PRIu32 " items, more than %d; send "
                "several requests",
                fl_msg_name(type), n, FL_ITEMS_MAX);
    *out = n;
    return FL_OK;
}

fl_status fl_items_begin(const fl_items_source *from, uint64_t head_bytes,
                         size_t item_bytes, fl_items *out)
{
    fl_items r = { .u = fl_unpack_from(from->payload.data, from->payload.len) };

    if (from->type == FL_MSG_ROUND_PUSH || from->type == FL_MSG_ROUND_DENSE)
        FL_TRY(fl_items_round(&r.u, from->type, &r.round));
    FL_TRY(read_count(&r.u, from->type, head_bytes, &r.n));
    r.items = fl_alloc(item_bytes * r.n);
    *out = r;
    return FL_OK;
}

const void *fl_items_take(fl_unpack *u, uint64_t n, uint64_t width)
{
    size_t bytes;

    if (fl_mul_overflow(n, width, &bytes)) {
        u->bad = true;
        return NULL;
    }
    return fl_unpack_bytes(u, bytes);
}

/* No bytes but zeros may be where nothing is read. */
const void *fl_items_take_units(fl_unpack *u, uint64_t n, uint64_t width,
                                uint64_t unit)
{
    const void *taken = fl_items_take(u, n, width);
    uint64_t past = taken ? n * width % unit : 0;
    const uint8_t *zeros = past ? fl_unpack_bytes(u, unit - past) : NULL;

    for (uint64_t i = 0; zeros && i < unit - past; i++)
        u->bad |= zeros[i] != 0;
    return u->bad ? NULL : taken;
}

fl_status fl_items_codec(uint16_t type, uint32_t number, fl_codec *out)
{
    if (number >= FL_CODECS)
        FL_FAIL(FL_ERR_CORRUPT,
                "a request (%s) has values of the unknown codec %" PRIu32,
                fl_msg_name(type), number);
    *out = (fl_codec)number;
    return FL_OK;
}

fl_status fl_items_too_short(uint16_t type, const char *what, uint32_t i)
{
    FL_FAIL(FL_ERR_CORRUPT,
            "a request (%s) ends within the %s of item %" PRIu32
            ", or has other bytes than 0 behind some of them",
            fl_msg_name(type), what, i);
}

fl_status fl_items_unknown(uint16_t type, const char *kind, uint32_t number)
{
    FL_FAIL(FL_ERR_NOTFOUND,
            "a request (%s) is for %s %" PRIu32 ", which was not declared",
            fl_msg_name(type), kind, number);
}

fl_status fl_items_end(fl_items *r, uint16_t type, fl_status st)
{
    if (!st && r->u.at != r->u.end)
        st = fl_err_set(FL_ERR_CORRUPT,
                        "a request (%s) has %td bytes behind its last item",
                        fl_msg_name(type), r->u.end - r->u.at);
    if (st)
        fl_free(r->items);
    return st;
}

/* --- examples ------------------------------------------------------------- */

uint64_t fl_items_example_width(void *unused, uint32_t number)
{
    static const uint64_t widths[] = { 1, 4, 3 };

    (void)unused;
    return number < FL_LEN(widths) ? widths[number] : 0;
}

void fl_items_example_floats(fl_pack *p, uint64_t n)
{
    for (uint64_t i = 0; i < n; i++)
        fl_pack_bytes(p, &(float){ (float)i + 0.5f }, sizeof(float));
}
