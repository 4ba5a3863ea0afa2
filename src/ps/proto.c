/* proto.c - payloads taken apart and put together.
 *
 * A payload may lie in memory that a hostile peer still writes to. So each
 * number of a head is copied out once, into an array of our own, and only the
 * copy is checked and used; whatever the bytes become later, every pointer that
 * is handed out leads to as many bytes within the payload as its copy says.
 */
#include "ps/proto.h"

#include <inttypes.h>

#include "base/alloc.h"
#include "flotilla/table.h"

/* Keys and floats are used where they lie. */
_Static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__,
               "payloads are little-endian and read in place");

#define PUSH_FLAGS                                                             \
    (FL_PUSH_MERGED | FL_PUSH_SHOWS | FL_PUSH_CLICKS | FL_PUSH_COUNTS)

/* Bytes before the heads of the items, and of one head. */
#define COUNT_BYTES 8
#define ITEM_BYTES 16
#define PUSH_ITEM_BYTES 24
#define BLOCK_BYTES 8

/* The same behind the number of the round. */
static bool is_push(uint16_t type)
{
    return type == FL_TYPE_PUSH || type == FL_TYPE_ROUND_PUSH;
}

/* --- reading -------------------------------------------------------------- */

/* n times width bytes where they lie; NULL when there are fewer. */
static const void *take(fl_unpack *u, uint64_t n, uint64_t width)
{
    size_t bytes;

    if (fl_mul_overflow(n, width, &bytes)) {
        u->bad = true;
        return NULL;
    }
    return fl_unpack_bytes(u, bytes);
}

/* How many items there are; their heads are known to be there. `gap` says that
   a zero stands behind the count. */
static fl_status read_count(fl_unpack *u, uint16_t type, uint64_t item_bytes,
                            bool gap, uint32_t *out)
{
    const char *name = fl_frame_type_name(type);
    uint32_t n = fl_unpack_u32(u);
    uint32_t zero = gap ? fl_unpack_u32(u) : 0;

    if (u->bad || n > (uint64_t)(u->end - u->at) / item_bytes)
        FL_FAIL(FL_ERR_CORRUPT,
                "a request (%s) ends within the heads of its %" PRIu32 " items",
                name, n);
    if (zero)
        FL_FAIL(FL_ERR_CORRUPT,
                "a request (%s) has %" PRIu32 " behind its count of items, "
                "where 0 belongs",
                name, zero);
    if (n > FL_ITEMS_MAX)
        FL_FAIL(FL_ERR_CORRUPT,
                "a request (%s) has %" PRIu32 " items, more than %d; send "
                "several requests",
                name, n, FL_ITEMS_MAX);
    *out = n;
    return FL_OK;
}

static fl_status too_short(uint16_t type, const char *what, uint32_t i,
                           const char *kind, uint32_t number)
{
    FL_FAIL(FL_ERR_CORRUPT,
            "a request (%s) ends within the %s of item %" PRIu32 " (%s %" PRIu32
            ")",
            fl_frame_type_name(type), what, i, kind, number);
}

static fl_status check_end(const fl_unpack *u, uint16_t type)
{
    if (u->at != u->end)
        FL_FAIL(FL_ERR_CORRUPT,
                "a request (%s) has %td bytes behind its last item",
                fl_frame_type_name(type), u->end - u->at);
    return FL_OK;
}

/* The zeros behind an item. */
static fl_status skip_padding(fl_unpack *u, const void *base, uint16_t type)
{
    size_t past = (size_t)(u->at - (const uint8_t *)base) % 8;
    const uint8_t *zeros = past ? fl_unpack_bytes(u, 8 - past) : NULL;

    if (u->bad)
        FL_FAIL(FL_ERR_CORRUPT, "a request (%s) ends between two items",
                fl_frame_type_name(type));
    for (size_t i = 0; zeros && i < 8 - past; i++)
        if (zeros[i])
            FL_FAIL(FL_ERR_CORRUPT,
                    "a request (%s) has bytes other than 0 between items",
                    fl_frame_type_name(type));
    return FL_OK;
}

/* --- rows ----------------------------------------------------------------- */

static fl_status check_flags(uint16_t type, const fl_rows_item *it)
{
    bool good = type == FL_TYPE_PULL ? it->flags <= FL_PULL_ONLY
                : is_push(type)      ? !(it->flags & ~(uint32_t)PUSH_FLAGS)
                                     : !it->flags;

    if (!good)
        FL_FAIL(FL_ERR_CORRUPT,
                "a request (%s) has the unknown %s %" PRIu32 " for table "
                "%" PRIu32,
                fl_frame_type_name(type), is_push(type) ? "flags" : "kind",
                it->flags, it->table);
    return FL_OK;
}

static fl_status read_heads(fl_unpack *u, uint16_t type, fl_rows_item *items,
                            uint32_t n)
{
    for (uint32_t i = 0; i < n; i++) {
        items[i].table = fl_unpack_u32(u);
        items[i].flags = fl_unpack_u32(u);
        items[i].n = fl_unpack_u64(u);
        if (is_push(type))
            items[i].lr = fl_unpack_f64(u);
        FL_TRY(check_flags(type, &items[i]));
    }
    return FL_OK;
}

/* Where the parts of one pushed item are. */
static fl_status read_pushed(fl_unpack *u, uint16_t type, fl_rows_item *it,
                             uint32_t i, uint32_t dim)
{
    it->keys = take(u, it->n, sizeof(uint64_t));
    it->values = take(u, it->n, dim * sizeof(float));
    if (it->flags & FL_PUSH_SHOWS)
        it->shows = take(u, it->n, sizeof(float));
    if (it->flags & FL_PUSH_CLICKS)
        it->clicks = take(u, it->n, sizeof(float));
    if (it->flags & FL_PUSH_COUNTS)
        it->counts = take(u, it->n, sizeof(uint32_t));
    return u->bad ? too_short(type, "rows", i, "table", it->table) : FL_OK;
}

static fl_status read_push(fl_unpack *u, uint16_t type, const void *base,
                           fl_rows_item *items, const uint32_t *dims,
                           uint32_t n)
{
    for (uint32_t i = 0; i < n; i++) {
        FL_TRY(read_pushed(u, type, &items[i], i, dims[i]));
        if (i + 1 < n || u->at != u->end)
            FL_TRY(skip_padding(u, base, type));
    }
    return FL_OK;
}

/* Keys of all items, then, of an assign, values of all. */
static fl_status read_columns(fl_unpack *u, uint16_t type, fl_rows_item *items,
                              const uint32_t *dims, uint32_t n)
{
    for (uint32_t i = 0; i < n; i++) {
        items[i].keys = take(u, items[i].n, sizeof(uint64_t));
        if (u->bad)
            return too_short(type, "keys", i, "table", items[i].table);
    }
    for (uint32_t i = 0; type == FL_TYPE_ASSIGN && i < n; i++) {
        items[i].values = take(u, items[i].n, dims[i] * sizeof(float));
        if (u->bad)
            return too_short(type, "values", i, "table", items[i].table);
    }
    return FL_OK;
}

static fl_status find_dims(uint16_t type, const fl_rows_item *items, uint32_t n,
                           fl_dim_of dim_of, void *arg, uint32_t *dims)
{
    for (uint32_t i = 0; i < n; i++) {
        dims[i] = dim_of(arg, items[i].table);
        if (!dims[i])
            FL_FAIL(FL_ERR_NOTFOUND,
                    "a request (%s) is for table %" PRIu32 ", which was not "
                    "declared",
                    fl_frame_type_name(type), items[i].table);
    }
    return FL_OK;
}

static fl_status read_rows(fl_unpack *u, uint16_t type, const void *base,
                           fl_dim_of dim_of, void *arg, fl_rows_item *items,
                           uint32_t n)
{
    uint32_t *dims = fl_alloc(sizeof(*dims) * n);
    fl_status st = read_heads(u, type, items, n);

    if (!st)
        st = find_dims(type, items, n, dim_of, arg, dims);
    if (!st)
        st = is_push(type) ? read_push(u, type, base, items, dims, n)
                           : read_columns(u, type, items, dims, n);
    fl_free(dims);
    return st ? st : check_end(u, type);
}

fl_status fl_rows_unpack(uint16_t type, const void *payload, uint64_t len,
                         fl_dim_of dim_of, void *arg, fl_rows_item **items,
                         uint32_t *n_items)
{
    fl_unpack u = { .at = payload };
    fl_rows_item *list;
    fl_status st;
    uint32_t n;

    u.end = len ? u.at + len : u.at;
    FL_TRY(read_count(&u, type, is_push(type) ? PUSH_ITEM_BYTES : ITEM_BYTES,
                      true, &n));
    list = fl_alloc(sizeof(*list) * n);
    st = read_rows(&u, type, payload, dim_of, arg, list, n);
    if (st) {
        fl_free(list);
        return st;
    }
    *items = list;
    *n_items = n;
    return FL_OK;
}

void fl_rows_pack_head(fl_pack *p, uint16_t type, const fl_rows_item *items,
                       uint32_t n_items)
{
    _Static_assert(COUNT_BYTES % 8 == 0 && ITEM_BYTES % 8 == 0 &&
                       PUSH_ITEM_BYTES % 8 == 0,
                   "keys behind the heads are aligned");
    fl_pack_u32(p, n_items);
    fl_pack_u32(p, 0);
    for (uint32_t i = 0; i < n_items; i++) {
        fl_pack_u32(p, items[i].table);
        fl_pack_u32(p, items[i].flags);
        fl_pack_u64(p, items[i].n);
        if (is_push(type))
            fl_pack_f64(p, items[i].lr);
    }
}

/* --- blocks --------------------------------------------------------------- */

static fl_status read_block(fl_unpack *u, uint16_t type, uint32_t i,
                            fl_len_of len_of, void *arg, fl_block_item *it)
{
    it->block = fl_unpack_u32(u);
    if (type != FL_TYPE_PULL_DENSE && fl_unpack_u32(u))
        FL_FAIL(FL_ERR_CORRUPT,
                "a request (%s) has another number than 0 behind block "
                "%" PRIu32 " (item %" PRIu32 ")",
                fl_frame_type_name(type), it->block, i);
    it->n = len_of(arg, it->block);
    if (!it->n)
        FL_FAIL(FL_ERR_NOTFOUND,
                "a request (%s) is for block %" PRIu32 ", which was not "
                "declared",
                fl_frame_type_name(type), it->block);
    return FL_OK;
}

static fl_status read_blocks(fl_unpack *u, uint16_t type, fl_len_of len_of,
                             void *arg, fl_block_item *items, uint32_t n)
{
    for (uint32_t i = 0; i < n; i++)
        FL_TRY(read_block(u, type, i, len_of, arg, &items[i]));
    for (uint32_t i = 0; type != FL_TYPE_PULL_DENSE && i < n; i++) {
        items[i].values = take(u, items[i].n, sizeof(float));
        if (u->bad)
            return too_short(type, "values", i, "block", items[i].block);
    }
    return check_end(u, type);
}

fl_status fl_blocks_unpack(uint16_t type, const void *payload, uint64_t len,
                           fl_len_of len_of, void *arg, fl_block_item **items,
                           uint32_t *n_items)
{
    bool is_pull = type == FL_TYPE_PULL_DENSE;
    fl_unpack u = { .at = payload };
    fl_block_item *list;
    fl_status st;
    uint32_t n;

    u.end = len ? u.at + len : u.at;
    FL_TRY(read_count(&u, type, is_pull ? sizeof(uint32_t) : BLOCK_BYTES,
                      !is_pull, &n));
    list = fl_alloc(sizeof(*list) * n);
    st = read_blocks(&u, type, len_of, arg, list, n);
    if (st) {
        fl_free(list);
        return st;
    }
    *items = list;
    *n_items = n;
    return FL_OK;
}

void fl_blocks_pack_head(fl_pack *p, uint16_t type, const uint32_t *blocks,
                         uint32_t n_blocks)
{
    bool is_pull = type == FL_TYPE_PULL_DENSE;

    fl_pack_u32(p, n_blocks);
    if (!is_pull)
        fl_pack_u32(p, 0);
    for (uint32_t i = 0; i < n_blocks; i++) {
        fl_pack_u32(p, blocks[i]);
        if (!is_pull)
            fl_pack_u32(p, 0);
    }
}
