/* store_blocks.c - dense blocks: pull, push, assign, and rounds.
 *
 * Gradients and values that are not coded are used where they lie in the payload;
 * lengths are those that were declared.
 */
#include <inttypes.h>

#include "ps/store/rounds.h"

/* --- blocks --------------------------------------------------------------- */

static uint64_t len_of(void *arg, uint32_t block)
{
    const fl_store_schema *w = arg;

    return block < w->blocks.len ? fl_dense_len(w->blocks.data[block].dense)
                                 : 0;
}

static fl_store_block *block_of(const fl_store_ctx *c, uint32_t item)
{
    return &c->schema->blocks.data[c->blocks[item].block];
}

static fl_items_source source_of(const fl_store_ctx *c)
{
    return (fl_items_source){ .type = c->call->type,
                              .payload = c->call->payload,
                              .width_of = len_of,
                              .arg = c->schema };
}

static fl_status read_blocks(fl_store_ctx *c, uint64_t *round)
{
    fl_items_source from = source_of(c);
    fl_blocks_request r;

    FL_TRY(fl_blocks_unpack(&from, &r));
    c->blocks = r.items;
    c->n_blocks = r.n;
    *round = r.round;
    return FL_OK;
}

/* Lengths were declared by peers: their sum may be anything. */
static fl_status sum_blocks(const fl_store_ctx *c, uint64_t *bytes)
{
    uint64_t n = 0;

    *bytes = 0;
    for (uint32_t i = 0; i < c->n_blocks; i++) {
        *bytes += fl_codec_bytes(c->blocks[i].codec, c->blocks[i].n);
        if (__builtin_add_overflow(n, c->blocks[i].n, &n))
            n = UINT64_MAX;
    }
    if (n > UINT64_MAX / sizeof(float))
        FL_FAIL(FL_ERR_NOMEM,
                "no memory for a reply (%s) of %" PRIu64 " floats",
                fl_msg_name(c->call->type), n);
    return FL_OK;
}

static fl_status reserve_values(fl_store_ctx *c, uint8_t **out)
{
    uint64_t bytes;
    void *buf;

    FL_TRY(sum_blocks(c, &bytes));
    FL_TRY(fl_store_reserve(c, bytes, &buf));
    *out = buf;
    return FL_OK;
}

static void give_values(const fl_store_ctx *c, uint8_t *out)
{
    for (uint32_t i = 0; i < c->n_blocks; i++) {
        const fl_block_item *it = &c->blocks[i];

        fl_dense_pull(block_of(c, i)->dense, it->codec, out);
        out += fl_codec_bytes(it->codec, it->n);
    }
}

fl_status fl_store_pull_dense(fl_store_ctx *c)
{
    uint64_t round;
    uint8_t *out;

    FL_TRY(read_blocks(c, &round));
    FL_TRY(reserve_values(c, &out));
    give_values(c, out);
    return FL_OK;
}

fl_status fl_store_push_dense(fl_store_ctx *c)
{
    uint64_t round;

    FL_TRY(read_blocks(c, &round));
    for (uint32_t i = 0; i < c->n_blocks; i++) {
        const fl_block_item *it = &c->blocks[i];

        (void)fl_store_commit(c->call, &block_of(c, i)->log);
        FL_TRY(fl_dense_push(block_of(c, i)->dense, it->codec, it->coded,
                             c->call->step));
    }
    return FL_OK;
}

fl_status fl_store_assign_dense(fl_store_ctx *c)
{
    uint64_t round;

    FL_TRY(read_blocks(c, &round));
    for (uint32_t i = 0; i < c->n_blocks; i++) {
        const fl_block_item *it = &c->blocks[i];

        (void)fl_store_commit(c->call, &block_of(c, i)->log);
        fl_dense_assign(block_of(c, i)->dense, it->codec, it->coded);
    }
    return FL_OK;
}

/* --- rounds --------------------------------------------------------------- */

fl_status fl_store_round_dense(fl_store_ctx *c)
{
    uint64_t round;

    FL_TRY(read_blocks(c, &round));
    return fl_rounds_keep_blocks(c, round);
}

static fl_status apply(fl_store_ctx *c, const fl_apply_request *r)
{
    uint8_t *out;

    FL_TRY(reserve_values(c, &out));
    FL_TRY(fl_rounds_apply(c, r));
    c->reply->step = r->round + 1;
    give_values(c, out);
    return FL_OK;
}

fl_status fl_store_apply(fl_store_ctx *c)
{
    fl_items_source from = source_of(c);
    fl_apply_request r;
    fl_status st;

    FL_TRY(fl_apply_unpack(&from, &r));
    c->blocks = r.blocks;
    c->n_blocks = r.n_blocks;
    st = apply(c, &r);
    fl_free(r.members);
    return st;
}
