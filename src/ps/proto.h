/* proto.h - the payloads between trainers and servers. docs/formats/wire.md is
 * their description; numbers are packed as rpc/wire/frame.h packs them.
 *
 * DECLARE   text (see declare.h). Reply: empty.
 *
 * PULL      u32 n, u32 0, then n times:
 *               u32 table, u32 kind (fl_pull_kind), u64 n_keys
 *           then the keys of all items, u64 each.
 *           Reply: the values of all items behind one another, f32.
 *
 * PUSH      u32 n, u32 0, then n times:
 *               u32 table, u32 flags (FL_PUSH_*), u64 n_keys, f64 lr
 *           then per item: keys u64; gradients f32 [n_keys, dim]; shows f32,
 *           clicks f32, counts u32, each where its flag says so; zeros up to
 *           a multiple of 8 bytes from the payload's start, which may be left
 *           out behind the last item. Reply: empty.
 *
 * ASSIGN    as PULL's head with kind 0, then keys of all items, then values f32
 *           of all items. Reply: empty.
 *
 * PULL_DENSE    u32 n, then n times u32 block. Reply: values f32 of all blocks.
 * PUSH_DENSE    u32 n, u32 0, then n times: u32 block, u32 0; then the
 *               gradients f32 of all blocks behind one another. Reply: empty.
 * ASSIGN_DENSE  the same with values.
 *
 * CLEAR     u32 table. Reply: empty.
 * SHRINK    u32 table, u32 unseen_days. Reply: u64 rows removed.
 * STATS     empty. Reply: text.
 * HASH      empty. Reply: u64 per table, then u64 per block, to be added up
 *           over servers.
 *
 * Rounds (rounds.h): what the members of a round send is kept, and applied as
 * one gradient when one of them asks for it.
 *
 * ROUND_PUSH    u64 round, then as PUSH. Reply: empty.
 * ROUND_DENSE   u64 round, then as PUSH_DENSE. Reply: empty.
 * APPLY         u64 round, u32 n members, u32 n blocks, then per member in the
 *               order of ranks: u32 rank, u32 0, f64 weight; then u32 per
 *               block. The first one applies the round, which must be the next;
 *               one for the round that was applied last changes nothing. Reply:
 *               values f32 of the blocks.
 *
 * CHANGED   u32 table, u32 0, u64 cursor, u64 place. Rows that other ranks have
 *           pushed since the cursor (0: since the beginning; else what an
 *           earlier reply gave), each once. Reply: u64 cursor for the next
 *           time, u64 place, u64 n, then n keys u64, then values f32 [n, dim].
 *           Place 0 in a request asks for the first page. A reply with a place
 *           other than 0 is not the last one: the next page is asked for with
 *           that place and the cursor of the first request.
 *
 * Mail (relay.h):
 *
 * MAIL      u32 rank of the receiver, u32 0, u64 generation, then any bytes.
 *           Reply: u32, 0 taken, 1 not taken because the box is full.
 * TAKE      u64 generation, u64 number of its mails that were received so far
 *           from this server, which lets go of them. Reply: the next ones, each
 *           with its length (u64) before it; empty when there are none.
 *
 * SHUTDOWN  empty. Reply: empty, and the server ends.
 *
 * With the coordinator (server 0):
 *
 * JOIN      empty (the sender is known by its handshake; its incarnation may be
 *           0). Reply: u32 incarnation, at once.
 * BARRIER   text name, u64 generation, u64 share (any number). Answered when
 *           every live trainer has come to the same one; in one whose name
 *           begins with "round" those are left out that wait in another. The
 *           reply has who came, in the order of ranks: u32 n, u32 0, then per
 *           member u32 rank, u32 0, u64 share; or it is an error that names who
 *           left. The name "end" is reserved: the other servers ask for it
 *           (generation 0), and the reply comes when the job is over, empty or
 *           with the reason why it failed.
 * GATHER    text name, u64 generation, u64 len, then so many bytes. Answered as
 *           a barrier is; gathers have names of their own. The reply has what
 *           was brought, in the order of ranks: u32 n, u32 0, then per member
 *           u32 rank, u32 0, u64 len, the bytes, zeros up to a multiple of 8.
 *           A member brings at most 64 MB. Only the last generation of a name
 *           is remembered, and an older one is an error.
 * LEAVE     empty. Reply: empty.
 * STEP      u64 add. Reply: u64 step.
 * REPORT    text phase, u64 samples, f64 loss, f64 auc. Reply: empty.
 * STATUS    empty. Reply: text.
 * DEAL      text name of the pass, u64 its number, u64 n items, u64 number of
 *           the question (from 1 on, per trainer and pass; 0: no item is asked
 *           for), u64 item that is finished (2^64-1: none), u32 1 when the
 *           trainer does not wait for items that others have, else 0. Reply:
 *           u64 item; 2^64-1 when there is none left and none can come back;
 *           2^64-2 when that is not known yet, after a while: ask again. The
 *           last question may be repeated and has the same answer.
 *
 * What changes state (PUSH, ASSIGN, ROUND_PUSH, *_DENSE but the pull, CLEAR,
 * SHRINK, MAIL, STEP) is sent once (rpc/client/rpc_client.h); the rest may be
 * repeated.
 */
#ifndef FL_PS_PROTO_H
#define FL_PS_PROTO_H

#include "rpc/wire/frame.h"

enum fl_push_flag {
    FL_PUSH_MERGED = 1,
    FL_PUSH_SHOWS = 2,
    FL_PUSH_CLICKS = 4,
    FL_PUSH_COUNTS = 8
};

#define FL_ITEMS_MAX 4096

/* Answers to DEAL that are no item. */
#define FL_DEAL_NONE UINT64_MAX
#define FL_DEAL_LATER (UINT64_MAX - 1)

/* Members of a round. */
#define FL_MEMBERS_MAX 65536

/* One item of a PULL, PUSH, ROUND_PUSH or ASSIGN as it lies in a payload. What
   the pointers lead to may change meanwhile when a hostile peer shares the
   memory: it is read once, or does no harm whatever it is. */
typedef struct fl_rows_item {
    uint32_t table, flags; /* kind of a pull */
    uint64_t n;
    double lr;
    const uint64_t *keys; /* 8-byte aligned in the payload */
    const float *values;  /* gradients of a push, values of an assign */
    const float *shows, *clicks;
    const uint32_t *counts;
} fl_rows_item;

/* Reads the items of a request, whose payload is 8-byte aligned; of a
   ROUND_PUSH only what follows the round is given, and its head is that of a
   PUSH. dim_of gives the width of a table, 0 when there is none. FL_ERR_CORRUPT
   when it does not add up, FL_ERR_NOTFOUND for an unknown table. *items is
   freed with fl_free. */
typedef uint32_t (*fl_dim_of)(void *arg, uint32_t table);
FL_MUST_CHECK
fl_status fl_rows_unpack(uint16_t type, const void *payload, uint64_t len,
                         fl_dim_of dim_of, void *arg, fl_rows_item **items,
                         uint32_t *n_items);

/* Writes the head of a request (all but keys and what follows them); padding
   included, so that keys come next. */
void fl_rows_pack_head(fl_pack *p, uint16_t type, const fl_rows_item *items,
                       uint32_t n_items);

/* One item of a PULL_DENSE, PUSH_DENSE, ASSIGN_DENSE or ROUND_DENSE. */
typedef struct fl_block_item {
    uint32_t block;
    uint64_t n;
    const float *values; /* NULL in a pull */
} fl_block_item;

/* The same for blocks; len_of gives the floats of a block, 0 when there is
   none. */
typedef uint64_t (*fl_len_of)(void *arg, uint32_t block);
FL_MUST_CHECK
fl_status fl_blocks_unpack(uint16_t type, const void *payload, uint64_t len,
                           fl_len_of len_of, void *arg, fl_block_item **items,
                           uint32_t *n_items);
void fl_blocks_pack_head(fl_pack *p, uint16_t type, const uint32_t *blocks,
                         uint32_t n_blocks);

#endif
