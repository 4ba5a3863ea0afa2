/* items.h - what requests for several tables or blocks have in common; for the
 * files of this folder, the store and the client.
 *
 * A request has a number of items, a head for each, and then what belongs to
 * them. What the pointers of an item lead to may change meanwhile when a hostile
 * peer shares the memory: it is read once, or does no harm whatever it is. Every
 * pointer leads to as many bytes within the payload as the copied head says.
 */
#ifndef FL_PS_MSG_ITEMS_H
#define FL_PS_MSG_ITEMS_H

#include "conf/weigh.h"
#include "ps/msg/calls.h"
#include "ps/msg/codec.h"
#include "ps/msg/message.h"
#include "tensor/rows.h"

#define FL_ITEMS_MAX 4096

/* A request to be read; its payload is 8-byte aligned. */
typedef struct fl_items_source {
    uint16_t type;
    fl_msg_bytes payload;
    /* The floats of a table's row, or of a block; 0 when there is none. */
    uint64_t (*width_of)(void *arg, uint32_t number);
    void *arg;
} fl_items_source;

/* --- rows (rows.c) -------------------------------------------------------- */

enum fl_push_flag {
    FL_PUSH_MERGED = 1,
    FL_PUSH_SHOWS = 2,
    FL_PUSH_CLICKS = 4,
    FL_PUSH_COUNTS = 8
};

/* One item of a PULL, PUSH, ROUND_PUSH or ASSIGN. Keys are 8-byte aligned in
   the payload; values are the gradients of a push. What travels as it is in
   memory is used where it lies: the pointers of rows lead to it. Else they are
   NULL until who has memory for it decodes it. */
typedef struct fl_rows_item {
    uint32_t table, flags; /* kind of a pull */
    fl_codec codec;        /* of the values; of a pull, of those wanted */
    uint32_t key_width;    /* 0: 8 bytes, as in memory */
    fl_rows rows;
    const void *coded_keys, *coded_values; /* as they travel */
} fl_rows_item;

typedef struct fl_rows_request {
    uint64_t round;      /* of a ROUND_PUSH */
    fl_rows_item *items; /* freed with fl_free */
    uint32_t n;
} fl_rows_request;

/* FL_ERR_CORRUPT when it does not add up, FL_ERR_NOTFOUND for an unknown table;
   *out is untouched then. */
FL_MUST_CHECK
fl_status fl_rows_unpack(const fl_items_source *from, fl_rows_request *out);
/* All but keys and what follows them; padding included, so that keys come next.
 */
void fl_rows_pack_head(fl_pack *p, uint16_t type, const fl_rows_request *r);

/* --- blocks (blocks.c) ---------------------------------------------------- */

/* One item of a PULL_DENSE, PUSH_DENSE, ASSIGN_DENSE or ROUND_DENSE. */
typedef struct fl_block_item {
    uint32_t block;
    uint64_t n;
    const float *values; /* where they lie as f32; NULL in a pull */
    fl_codec codec;      /* of the values; of a pull, of those wanted */
    const void *coded;   /* as they travel; NULL in a pull */
} fl_block_item;

typedef struct fl_blocks_request {
    uint64_t round;       /* of a ROUND_DENSE */
    fl_block_item *items; /* freed with fl_free */
    uint32_t n;
} fl_blocks_request;

FL_MUST_CHECK
fl_status fl_blocks_unpack(const fl_items_source *from, fl_blocks_request *out);
/* A block and the codec of its values, as one number of a request. */
void fl_block_pack(fl_pack *p, const fl_block_item *it);
/* The same read, and how many values it has. */
FL_MUST_CHECK
fl_status fl_block_unpack(fl_unpack *u, const fl_items_source *from,
                          fl_block_item *it);
/* All but the values. */
void fl_blocks_pack_head(fl_pack *p, uint16_t type, const fl_blocks_request *r);

/* --- APPLY (apply.c) ------------------------------------------------------ */

/* Members of a round. */
#define FL_MEMBERS_MAX 65536

typedef struct fl_round_member {
    uint32_t rank;
    double weight;
} fl_round_member;

typedef struct fl_apply_request {
    uint64_t round;
    fl_round_member *members; /* in the order of ranks; freed with fl_free */
    fl_block_item *blocks;    /* that are wanted; freed with fl_free */
    uint32_t n_members, n_blocks;
} fl_apply_request;

FL_MUST_CHECK
fl_status fl_apply_unpack(const fl_items_source *from, fl_apply_request *out);
void fl_apply_pack(fl_pack *p, const fl_apply_request *r);
/* Without its blocks, so many of which follow. */
void fl_apply_pack_head(fl_pack *p, const fl_apply_request *r,
                        uint32_t n_blocks);

/* --- CHANGED (changed.c) -------------------------------------------------- */

typedef struct fl_changed_request {
    uint32_t table;
    uint64_t cursor, place;
} fl_changed_request;

/* Before the keys and values of a reply. */
typedef struct fl_changed_head {
    uint64_t cursor, place, n;
} fl_changed_head;

/* Of rows with so many floats. */
uint64_t fl_changed_bytes(uint64_t n, uint32_t dim);
/* Writes the head and gives where keys come, then values. */
void *fl_changed_pack_head(void *buf, const fl_changed_head *h);
/* The number of rows follows from the length, which does not change in shared
   memory, and is checked against the head. */
typedef struct fl_changed_reply {
    fl_changed_head head;
    const uint64_t *keys;
    const float *values;
} fl_changed_reply;
FL_MUST_CHECK
fl_status fl_changed_unpack_reply(fl_msg_bytes payload, uint32_t dim,
                                  fl_changed_reply *out);

/* --- reading (items.c) ---------------------------------------------------- */

/* The number of the round at the front of a request of a round. */
FL_MUST_CHECK
fl_status fl_items_round(fl_unpack *u, uint16_t type, uint64_t *round);
/* Items that are being read. */
typedef struct fl_items {
    fl_unpack u;
    uint64_t round; /* of a message of a round */
    void *items;    /* freed with fl_free */
    uint32_t n;
} fl_items;

/* Memory for the items; heads of so many bytes are known to be there. */
FL_MUST_CHECK
fl_status fl_items_begin(const fl_items_source *from, uint64_t head_bytes,
                         size_t item_bytes, fl_items *out);
/* They were read, or not (st): that nothing is behind the last one. */
FL_MUST_CHECK
fl_status fl_items_end(fl_items *r, uint16_t type, fl_status st);
/* n times width bytes where they lie; NULL when there are fewer. */
const void *fl_items_take(fl_unpack *u, uint64_t n, uint64_t width);
/* The same with zeros behind them up to a multiple of `unit` bytes. */
const void *fl_items_take_units(fl_unpack *u, uint64_t n, uint64_t width,
                                uint64_t unit);
/* The codec of that number, if there is one. */
FL_MUST_CHECK
fl_status fl_items_codec(uint16_t type, uint32_t number, fl_codec *out);
/* Sentences: the request ends within `what` of item i, a table or a block, or has
   no zeros behind them; it is for something that was not declared. */
fl_status fl_items_too_short(uint16_t type, const char *what, uint32_t i);
fl_status fl_items_unknown(uint16_t type, const char *kind, uint32_t number);

/* --- examples ------------------------------------------------------------- */

/* Widths for echoes and examples: of tables and blocks 0 to 2. */
uint64_t fl_items_example_width(void *unused, uint32_t number);
void fl_items_example_floats(fl_pack *p, uint64_t n);

#endif
