/* rows.c - PULL, PUSH, ASSIGN and ROUND_PUSH: rows of tables by key. */
#include <inttypes.h>

#include "base/alloc.h"
#include "flotilla/table.h"
#include "ps/msg/items.h"

#define PUSH_FLAGS                                                             \
    (FL_PUSH_MERGED | FL_PUSH_SHOWS | FL_PUSH_CLICKS | FL_PUSH_COUNTS)

/* Where, in the flags of a head, the codec of the values and the bytes of a key
   are; the flags proper are below. */
#define CODEC_SHIFT 8
#define KEY_SHIFT 12
#define FLAGS_MASK UINT32_C(0xff)
#define FIELD_MASK UINT32_C(0xf)

/* Bytes before the heads of the items, and of one head. */
#define COUNT_BYTES 8
#define ITEM_BYTES 16
#define PUSH_ITEM_BYTES 24

static bool is_push(uint16_t type)
{
    return type == FL_MSG_PUSH || type == FL_MSG_ROUND_PUSH;
}

/* --- unpacking ------------------------------------------------------------ */

static fl_status check_flags(uint16_t type, const fl_rows_item *it)
{
    bool good = type == FL_MSG_PULL ? it->flags <= FL_PULL_ONLY
                : is_push(type)     ? !(it->flags & ~(uint32_t)PUSH_FLAGS)
                                    : !it->flags;

    if (!good)
        FL_FAIL(FL_ERR_CORRUPT,
                "a request (%s) has the unknown %s %" PRIu32 " for table "
                "%" PRIu32,
                fl_msg_name(type), is_push(type) ? "flags" : "kind", it->flags,
                it->table);
    return FL_OK;
}

/* A width of 8 is written as 0, and no other way. */
static fl_status read_forms(uint16_t type, fl_rows_item *it)
{
    uint32_t all = it->flags;

    FL_TRY(fl_items_codec(type, all >> CODEC_SHIFT & FIELD_MASK, &it->codec));
    it->key_width = all >> KEY_SHIFT & FIELD_MASK;
    it->flags = all & FLAGS_MASK;
    if (it->key_width >= FL_KEY_WIDTH ||
        all >> KEY_SHIFT != (all >> KEY_SHIFT & FIELD_MASK))
        FL_FAIL(FL_ERR_CORRUPT,
                "a request (%s) has the unknown flags %" PRIu32 " for table "
                "%" PRIu32,
                fl_msg_name(type), all, it->table);
    return check_flags(type, it);
}

static fl_status read_heads(fl_unpack *u, uint16_t type, fl_rows_item *items,
                            uint32_t n)
{
    for (uint32_t i = 0; i < n; i++) {
        items[i].table = fl_unpack_u32(u);
        items[i].flags = fl_unpack_u32(u);
        items[i].rows.n = fl_unpack_u64(u);
        if (is_push(type))
            items[i].rows.lr = fl_unpack_f64(u);
        FL_TRY(read_forms(type, &items[i]));
    }
    return FL_OK;
}

/* The zeros behind an item. */
static fl_status skip_padding(fl_unpack *u, uint16_t type, const void *base)
{
    size_t past = (size_t)(u->at - (const uint8_t *)base) % 8;
    const uint8_t *zeros = past ? fl_unpack_bytes(u, 8 - past) : NULL;

    if (u->bad)
        FL_FAIL(FL_ERR_CORRUPT, "a request (%s) ends between two items",
                fl_msg_name(type));
    for (size_t i = 0; zeros && i < 8 - past; i++)
        if (zeros[i])
            FL_FAIL(FL_ERR_CORRUPT,
                    "a request (%s) has bytes other than 0 between items",
                    fl_msg_name(type));
    return FL_OK;
}

static void read_keys(fl_unpack *u, fl_rows_item *it)
{
    uint32_t width = it->key_width ? it->key_width : FL_KEY_WIDTH;

    it->coded_keys = fl_items_take_units(u, it->rows.n, width, FL_KEY_WIDTH);
    if (!it->key_width)
        it->rows.keys = it->coded_keys;
}

static void read_values(fl_unpack *u, fl_rows_item *it)
{
    uint64_t width = (uint64_t)it->rows.dim * fl_codec_width(it->codec);

    it->coded_values = fl_items_take_units(u, it->rows.n, width, sizeof(float));
    if (it->codec == FL_CODEC_F32)
        it->rows.values = it->coded_values;
}

/* Where the parts of one pushed item are. */
static void read_pushed(fl_unpack *u, fl_rows_item *it)
{
    fl_rows *r = &it->rows;

    r->merged = it->flags & FL_PUSH_MERGED;
    read_keys(u, it);
    read_values(u, it);
    if (it->flags & FL_PUSH_SHOWS)
        r->shows = fl_items_take(u, r->n, sizeof(float));
    if (it->flags & FL_PUSH_CLICKS)
        r->clicks = fl_items_take(u, r->n, sizeof(float));
    if (it->flags & FL_PUSH_COUNTS)
        r->counts = fl_items_take(u, r->n, sizeof(uint32_t));
}

static fl_status read_push(fl_unpack *u, const fl_items_source *from,
                           fl_rows_item *items, uint32_t n)
{
    for (uint32_t i = 0; i < n; i++) {
        read_pushed(u, &items[i]);
        if (u->bad)
            return fl_items_too_short(from->type, "rows", i);
        /* Nothing stands behind the last one that has rows. */
        if (u->at != u->end)
            FL_TRY(skip_padding(u, from->type, from->payload.data));
    }
    return FL_OK;
}

/* Keys of all items, then, of an assign, values of all. */
static fl_status read_columns(fl_unpack *u, uint16_t type, fl_rows_item *items,
                              uint32_t n)
{
    for (uint32_t i = 0; i < n; i++) {
        read_keys(u, &items[i]);
        if (u->bad)
            return fl_items_too_short(type, "keys", i);
    }
    for (uint32_t i = 0; type == FL_MSG_ASSIGN && i < n; i++) {
        read_values(u, &items[i]);
        if (u->bad)
            return fl_items_too_short(type, "values", i);
    }
    return FL_OK;
}

static fl_status find_dims(const fl_items_source *from, fl_rows_item *items,
                           uint32_t n)
{
    for (uint32_t i = 0; i < n; i++) {
        items[i].rows.dim = (uint32_t)from->width_of(from->arg, items[i].table);
        if (!items[i].rows.dim)
            return fl_items_unknown(from->type, "table", items[i].table);
    }
    return FL_OK;
}

static fl_status read_items(fl_unpack *u, const fl_items_source *from,
                            fl_rows_item *items, uint32_t n)
{
    FL_TRY(read_heads(u, from->type, items, n));
    FL_TRY(find_dims(from, items, n));
    return is_push(from->type) ? read_push(u, from, items, n)
                               : read_columns(u, from->type, items, n);
}

fl_status fl_rows_unpack(const fl_items_source *from, fl_rows_request *out)
{
    fl_items r;

    FL_TRY(fl_items_begin(from,
                          is_push(from->type) ? PUSH_ITEM_BYTES : ITEM_BYTES,
                          sizeof(fl_rows_item), &r));
    FL_TRY(fl_items_end(&r, from->type, read_items(&r.u, from, r.items, r.n)));
    *out = (fl_rows_request){ r.round, r.items, r.n };
    return FL_OK;
}

/* --- packing -------------------------------------------------------------- */

void fl_rows_pack_head(fl_pack *p, uint16_t type, const fl_rows_request *r)
{
    _Static_assert(COUNT_BYTES % 8 == 0 && ITEM_BYTES % 8 == 0 &&
                       PUSH_ITEM_BYTES % 8 == 0,
                   "keys behind the heads are aligned");
    if (type == FL_MSG_ROUND_PUSH)
        fl_pack_u64(p, r->round);
    fl_pack_u32(p, r->n);
    fl_pack_u32(p, 0);
    for (uint32_t i = 0; i < r->n; i++) {
        fl_pack_u32(p, r->items[i].table);
        fl_pack_u32(p, r->items[i].flags |
                           (uint32_t)r->items[i].codec << CODEC_SHIFT |
                           r->items[i].key_width << KEY_SHIFT);
        fl_pack_u64(p, r->items[i].rows.n);
        if (is_push(type))
            fl_pack_f64(p, r->items[i].rows.lr);
    }
}

/* --- the sweep ------------------------------------------------------------ */

static void pack_part(fl_pack *p, const void *bytes, uint64_t len)
{
    if (bytes && len)
        fl_pack_bytes(p, bytes, (size_t)len);
}

static void pack_keys(fl_pack *p, const fl_rows_item *it)
{
    uint32_t width = it->key_width ? it->key_width : FL_KEY_WIDTH;

    pack_part(p, it->coded_keys, fl_keys_bytes(it->rows.n, width));
}

static void pack_values(fl_pack *p, const fl_rows_item *it)
{
    pack_part(p, it->coded_values,
              fl_codec_bytes(it->codec, it->rows.n * it->rows.dim));
}

static void pack_pushed(fl_pack *p, const fl_rows_item *it)
{
    const fl_rows *r = &it->rows;

    pack_keys(p, it);
    pack_values(p, it);
    pack_part(p, r->shows, r->n * sizeof(float));
    pack_part(p, r->clicks, r->n * sizeof(float));
    pack_part(p, r->counts, r->n * sizeof(uint32_t));
}

static void pack_columns(fl_pack *p, const fl_rows_request *r)
{
    for (uint32_t i = 0; i < r->n; i++)
        pack_keys(p, &r->items[i]);
    for (uint32_t i = 0; i < r->n; i++)
        pack_values(p, &r->items[i]);
}

static void pack_all(fl_pack *p, uint16_t type, const fl_rows_request *r)
{
    fl_rows_pack_head(p, type, r);
    if (!is_push(type)) {
        pack_columns(p, r);
        return;
    }
    for (uint32_t i = 0; i < r->n; i++) {
        fl_pack_align(p);
        pack_pushed(p, &r->items[i]);
    }
}

static fl_status echo(uint16_t type, fl_msg_bytes payload, fl_pack *again)
{
    fl_items_source from = { .type = type,
                             .payload = payload,
                             .width_of = fl_items_example_width };
    fl_rows_request r = { 0 };

    FL_TRY(fl_rows_unpack(&from, &r));
    pack_all(again, type, &r);
    /* Zeros behind the last item may be there or not. */
    if (is_push(type) && again->len < payload.len)
        fl_pack_align(again);
    fl_free(r.items);
    return FL_OK;
}

/* So many items: one with all there is, plain ones, coded ones, and one without
   keys. Narrow keys and values of bf16 end in zeros. */
static bool example(uint16_t type, int n, fl_pack *out)
{
    static const uint64_t keys[] = { 7, 9, 7 },
                          narrow[] = { 0x0000090008000706 };
    static const float floats[12] = { 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12 };
    static const uint16_t halves[10] = { 1, 2, 3, 4, 5, 6, 7, 8, 9 };
    static const uint32_t counts[] = { 1, 2, 3 };
    const void *values = type == FL_MSG_PULL ? NULL : floats;
    const float *some = is_push(type) ? floats : NULL;
    uint32_t flags = is_push(type)         ? PUSH_FLAGS
                     : type == FL_MSG_PULL ? FL_PULL_ONLY
                                           : 0;
    fl_rows_item items[] = {
        { .table = 2, .flags = flags, .rows = { .n = 1, .lr = 0.25 } },
        { .table = 1, .rows.n = 3 },
        { .table = 2, .codec = FL_CODEC_BF16, .key_width = 2, .rows.n = 3 },
        { .table = 0 },
    };

    for (size_t i = 0; i < FL_LEN(items); i++) {
        items[i].rows.dim =
            (uint32_t)fl_items_example_width(NULL, items[i].table);
        items[i].coded_keys = items[i].key_width ? narrow : keys;
        items[i].coded_values = items[i].codec && values ? halves : values;
    }
    items[0].rows.shows = items[0].rows.clicks = some;
    items[0].rows.counts = some ? counts : NULL;
    if (n < 0 || n > (int)FL_LEN(items))
        return false;
    pack_all(
        out, type,
        &(fl_rows_request){ .round = 3, .items = items, .n = (uint32_t)n });
    return true;
}

const fl_msg_payload fl_msg_pull_request = { .echo = echo, .example = example };
const fl_msg_payload fl_msg_push_request = { .echo = echo, .example = example };
const fl_msg_payload fl_msg_assign_request = { .echo = echo,
                                               .example = example };
const fl_msg_payload fl_msg_round_push_request = { .echo = echo,
                                                   .example = example };

/* The values of all items behind one another. */
const fl_msg_payload fl_msg_pull_reply = { .fields = fl_fields_rest };
const fl_msg_payload fl_msg_push_reply = { .fields = fl_fields_none };
const fl_msg_payload fl_msg_assign_reply = { .fields = fl_fields_none };
const fl_msg_payload fl_msg_round_push_reply = { .fields = fl_fields_none };
