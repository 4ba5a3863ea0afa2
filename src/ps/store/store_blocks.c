/* store_blocks.c - dense blocks: pull, push, assign, and rounds.
 *
 * Gradients and values are used where they lie in the payload; lengths are
 * those that were declared.
 */
#include <inttypes.h>
#include <math.h>

#include "ps/store/rounds.h"

/* --- blocks --------------------------------------------------------------- */

static uint64_t len_of(void *arg, uint32_t block)
{
    const fl_world *w = arg;

    return block < w->blocks.len ? fl_dense_len(w->blocks.data[block].dense)
                                 : 0;
}

static fl_dense *dense_of(const fl_store_ctx *c, uint32_t item)
{
    return c->world->blocks.data[c->blocks[item].block].dense;
}

static fl_status read_blocks(fl_store_ctx *c)
{
    return fl_blocks_unpack(c->type, c->payload, c->len, len_of, c->world,
                            &c->blocks, &c->n_blocks);
}

/* Lengths were declared by peers: their sum may be anything. */
static fl_status sum_blocks(const fl_store_ctx *c, uint64_t *bytes)
{
    uint64_t n = 0;

    for (uint32_t i = 0; i < c->n_blocks; i++)
        if (__builtin_add_overflow(n, c->blocks[i].n, &n))
            n = UINT64_MAX;
    if (__builtin_mul_overflow(n, sizeof(float), bytes))
        FL_FAIL(FL_ERR_NOMEM,
                "no memory for a reply (%s) of %" PRIu64 " floats",
                fl_frame_type_name(c->type), n);
    return FL_OK;
}

static fl_status make_room(fl_store_ctx *c, float **out)
{
    uint64_t bytes;
    void *room;

    FL_TRY(sum_blocks(c, &bytes));
    FL_TRY(fl_store_room(c, bytes, &room));
    *out = room;
    return FL_OK;
}

static fl_status give_values(const fl_store_ctx *c, float *out)
{
    for (uint32_t i = 0; i < c->n_blocks; i++) {
        FL_TRY(fl_dense_pull(dense_of(c, i), out));
        out += c->blocks[i].n;
    }
    return FL_OK;
}

fl_status fl_store_pull_dense(fl_store_ctx *c)
{
    float *out;

    FL_TRY(read_blocks(c));
    FL_TRY(make_room(c, &out));
    return give_values(c, out);
}

fl_status fl_store_push_dense(fl_store_ctx *c)
{
    FL_TRY(read_blocks(c));
    for (uint32_t i = 0; i < c->n_blocks; i++)
        FL_TRY(fl_dense_push(dense_of(c, i), c->blocks[i].values, c->step));
    return FL_OK;
}

fl_status fl_store_assign_dense(fl_store_ctx *c)
{
    FL_TRY(read_blocks(c));
    for (uint32_t i = 0; i < c->n_blocks; i++)
        FL_TRY(fl_dense_assign(dense_of(c, i), c->blocks[i].values));
    return FL_OK;
}

/* --- rounds --------------------------------------------------------------- */

fl_status fl_store_round_dense(fl_store_ctx *c)
{
    uint64_t round, len;
    const void *rest;

    FL_TRY(fl_store_take_round(c, &round, &rest, &len));
    FL_TRY(fl_blocks_unpack(c->type, rest, len, len_of, c->world, &c->blocks,
                            &c->n_blocks));
    return fl_rounds_keep_blocks(c->rounds, round, c->rank, c->incarnation,
                                 c->blocks, c->n_blocks);
}

/* The counts of an APPLY; all that they announce is there, and no more. */
static fl_status read_counts(fl_unpack *u, uint32_t *n_members,
                             uint32_t *n_blocks)
{
    uint64_t left;

    *n_members = fl_unpack_u32(u);
    *n_blocks = fl_unpack_u32(u);
    left = (uint64_t)(u->end - u->at);
    if (u->bad || left != *n_members * UINT64_C(16) + *n_blocks * UINT64_C(4))
        FL_FAIL(FL_ERR_CORRUPT,
                "a request (apply) for %" PRIu32 " members and %" PRIu32
                " blocks has %" PRIu64 " bytes for them",
                *n_members, *n_blocks, left);
    if (!*n_members || *n_members > FL_MEMBERS_MAX || *n_blocks > FL_ITEMS_MAX)
        FL_FAIL(FL_ERR_CORRUPT,
                "a request (apply) has %" PRIu32 " members and %" PRIu32
                " blocks: a round has from 1 to %d members, and at most %d "
                "blocks are asked for at once",
                *n_members, *n_blocks, FL_MEMBERS_MAX, FL_ITEMS_MAX);
    return FL_OK;
}

static fl_status read_members(fl_unpack *u, fl_client_member *m, uint32_t n)
{
    for (uint32_t i = 0; i < n; i++) {
        uint32_t zero;

        m[i].rank = fl_unpack_u32(u);
        zero = fl_unpack_u32(u);
        m[i].weight = fl_unpack_f64(u);
        if (zero || (i && m[i].rank <= m[i - 1].rank))
            FL_FAIL(FL_ERR_CORRUPT,
                    "a request (apply) has member %" PRIu32 " (trainer %" PRIu32
                    ") out of the order of ranks, or %" PRIu32
                    " behind it, where 0 belongs",
                    i, m[i].rank, zero);
        if (!isfinite(m[i].weight))
            FL_FAIL(FL_ERR_INVAL,
                    "a request (apply) gives trainer %" PRIu32
                    " the weight %g, which is no number",
                    m[i].rank, m[i].weight);
    }
    return FL_OK;
}

static fl_status read_wanted(fl_store_ctx *c, fl_unpack *u, uint32_t n)
{
    c->blocks = fl_alloc(n * sizeof(*c->blocks));
    for (uint32_t i = 0; i < n; i++) {
        fl_block_item *it = &c->blocks[i];

        it->block = fl_unpack_u32(u);
        it->n = len_of(c->world, it->block);
        if (!it->n)
            FL_FAIL(FL_ERR_NOTFOUND,
                    "a request (apply) is for block %" PRIu32
                    ", which was not declared",
                    it->block);
        c->n_blocks++;
    }
    return FL_OK;
}

static fl_status apply_members(fl_store_ctx *c, uint64_t round, fl_unpack *u,
                               fl_client_member *members, uint32_t n_members,
                               uint32_t n_blocks)
{
    bool applied;
    float *out;

    FL_TRY(read_members(u, members, n_members));
    FL_TRY(read_wanted(c, u, n_blocks));
    FL_TRY(make_room(c, &out));
    FL_TRY(fl_rounds_apply(c->rounds, round, members, n_members, c->world,
                           &applied));
    return give_values(c, out);
}

fl_status fl_store_apply(fl_store_ctx *c)
{
    fl_client_member *members;
    uint32_t n_members, n_blocks;
    uint64_t round, len;
    const void *rest;
    fl_unpack u = { 0 };
    fl_status st;

    FL_TRY(fl_store_take_round(c, &round, &rest, &len));
    u.at = rest;
    u.end = u.at + len;
    FL_TRY(read_counts(&u, &n_members, &n_blocks));
    members = fl_alloc(n_members * sizeof(*members));
    st = apply_members(c, round, &u, members, n_members, n_blocks);
    fl_free(members);
    return st;
}
