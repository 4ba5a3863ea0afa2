/* rounds.c - what was sent for a round, kept by rank until it is applied.
 *
 *     share    of a rank: its loads of one round
 *     load     what one request brought, copied into memory of ours; rows are
 *              dealt into the parts that threads take (round_work.h)
 *
 * Memory of loads is used again in the next round, so that steady training
 * allocates nothing here.
 *
 * A round that fails before anything was changed can be asked for again. One
 * that fails in its midst cannot be repeated and has no end: from then on all
 * is refused with the reason.
 */
#include "ps/store/rounds.h"

#include <inttypes.h>

#include "kernel/keys.h"
#include "ps/store/round_work.h"

/* Those of a kind are about equally large from round to round. */
typedef enum load_kind { LOAD_ROWS, LOAD_BLOCKS, LOAD_KINDS } load_kind;

typedef struct load {
    load_kind kind;
    fl_buf memory;
    FL_VEC(fl_round_rows) rows;
    FL_VEC(fl_block_item) blocks;
} load;

typedef FL_VEC(load *) load_list;

typedef struct share {
    uint32_t rank, incarnation;
    uint64_t round;
    load_list loads;
} share;

struct fl_rounds {
    fl_mutex mu; /* guards everything below */
    bool has_begun;
    uint64_t next; /* round to be applied, once it has begun */
    fl_err broken; /* a round failed in its midst */
    FL_VEC(share) shares;
    load_list spare[LOAD_KINDS];

    /* Of the round that is being applied: until it is over nobody else changes
       anything here. */
    atomic_uint is_applying;
    fl_cond over;
    fl_round_work *work;
};

/* --- memory --------------------------------------------------------------- */

static fl_status reserve(fl_buf *b, size_t bytes, uint64_t round)
{
    if (!fl_buf_reserve(b, bytes))
        FL_FAIL(FL_ERR_NOMEM,
                "no memory for the gradients of round %" PRIu64 " (%zu bytes)",
                round, bytes);
    return FL_OK;
}

fl_rounds *fl_rounds_new(void)
{
    fl_rounds *r = fl_alloc(sizeof(*r));

    fl_mutex_init(&r->mu);
    fl_cond_init(&r->over);
    r->work = fl_round_work_new(&r->mu);
    return r;
}

static void load_free(load *l)
{
    fl_buf_release(&l->memory);
    fl_vec_release(&l->rows);
    fl_vec_release(&l->blocks);
    fl_free(l);
}

static void free_loads(load_list *list)
{
    for (size_t i = 0; i < list->len; i++)
        load_free(list->data[i]);
    fl_vec_release(list);
}

void fl_rounds_free(fl_rounds *r)
{
    if (!r)
        return;
    for (size_t i = 0; i < r->shares.len; i++)
        free_loads(&r->shares.data[i].loads);
    fl_vec_release(&r->shares);
    for (int kind = 0; kind < LOAD_KINDS; kind++)
        free_loads(&r->spare[kind]);
    fl_round_work_free(r->work);
    fl_cond_release(&r->over);
    fl_mutex_release(&r->mu);
    fl_free(r);
}

/* Under the lock, which others may have meanwhile. */
static void wait_until_over(fl_rounds *r)
{
    fl_wait_for_zero(&r->over, &r->mu, &r->is_applying);
}

/* --- keeping, under the lock ---------------------------------------------- */

static share *find_share(const fl_rounds *r, uint32_t rank)
{
    for (size_t i = 0; i < r->shares.len; i++)
        if (r->shares.data[i].rank == rank)
            return &r->shares.data[i];
    return NULL;
}

static fl_status check_round(const fl_rounds *r, const fl_store_call *from,
                             uint64_t round)
{
    const share *s = find_share(r, from->rank);

    if (r->broken.status)
        return fl_err_restore(&r->broken);
    if (round == UINT64_MAX)
        FL_FAIL(FL_ERR_INVAL, "a round has no number as high as %" PRIu64,
                round);
    if (r->has_begun && round < r->next)
        FL_FAIL(FL_ERR_INVAL,
                "trainer %" PRIu32 " sends gradients of round %" PRIu64
                ", which was applied already: the next round is %" PRIu64,
                from->rank, round, r->next);
    if (s && from->incarnation < s->incarnation)
        FL_FAIL(FL_ERR_CLOSED,
                "incarnation %" PRIu32 " of trainer %" PRIu32
                " was replaced by incarnation %" PRIu32,
                from->incarnation, from->rank, s->incarnation);
    if (s && from->incarnation == s->incarnation && round < s->round)
        FL_FAIL(FL_ERR_INVAL,
                "trainer %" PRIu32 " sends gradients of round %" PRIu64
                " after those of round %" PRIu64,
                from->rank, round, s->round);
    return FL_OK;
}

static void spare_load(fl_rounds *r, load *l)
{
    fl_vec_push(&r->spare[l->kind], l);
}

static void spare_loads(fl_rounds *r, share *s)
{
    while (s->loads.len)
        spare_load(r, s->loads.data[--s->loads.len]);
}

/* The share of the rank for this round: what it had of another round, or of an
   older incarnation, is dropped. */
static fl_status open_share(const fl_store_ctx *c, uint64_t round, share **out)
{
    const fl_store_call *from = c->call;
    fl_rounds *r = c->store->rounds;
    share *s;

    FL_TRY(check_round(r, from, round));
    (void)fl_store_commit(from, &c->store->kept);
    s = find_share(r, from->rank);
    if (!s) {
        fl_vec_push(&r->shares, ((share){ .rank = from->rank }));
        s = &r->shares.data[r->shares.len - 1];
    }
    if (from->incarnation != s->incarnation || round != s->round)
        spare_loads(r, s);
    s->incarnation = from->incarnation;
    s->round = round;
    *out = s;
    return FL_OK;
}

static fl_status add_to_share(const fl_store_ctx *c, uint64_t round, load *l)
{
    share *s = NULL;

    FL_TRY(open_share(c, round, &s));
    fl_vec_push(&s->loads, l);
    return FL_OK;
}

/* --- loads, without the lock ---------------------------------------------- */

/* Of a copy in parts, with the part of each row before it. */
static size_t part_bytes(const fl_rows *r)
{
    return (r->n * sizeof(uint16_t) + 7) / 8 * 8;
}

static fl_status dealt_bytes(const fl_rows *r, size_t *bytes)
{
    FL_TRY(fl_rows_bytes(r, bytes));
    *bytes += part_bytes(r) + FL_ROUND_PARTS * sizeof(uint64_t);
    return FL_OK;
}

static fl_status count_bytes(const fl_rows_item *items, uint32_t n,
                             size_t *bytes)
{
    *bytes = 0;
    for (uint32_t i = 0; i < n; i++) {
        size_t more;

        FL_TRY(dealt_bytes(&items[i].rows, &more));
        *bytes += more;
    }
    return FL_OK;
}

/* Whether rows come part by part, as those of a pull do: all of one server's
   range. Fills part. */
static bool find_parts(const fl_rows *r, int n_servers, uint16_t *part)
{
    bool in_order = fl_key_loops()->servers(part, r->keys, r->n,
                                            n_servers * FL_ROUND_PARTS);

    return in_order && (!r->n || part[0] / FL_ROUND_PARTS ==
                                     part[r->n - 1] / FL_ROUND_PARTS);
}

static void cut_parts(const fl_rows *all, const uint16_t *part, fl_rows *parts)
{
    size_t at = 0;

    for (size_t p = 0; p < FL_ROUND_PARTS; p++) {
        size_t lo = at;

        while (at < all->n && part[at] % FL_ROUND_PARTS == p)
            at++;
        parts[p] = fl_rows_slice(all, lo, at - lo);
    }
}

/* Parts of a server's range of hashes: a server of so many more would have one. */
static void deal(const fl_rows_item *it, int n_servers, uint8_t *memory,
                 fl_round_rows *out)
{
    uint16_t *part = (uint16_t *)memory;
    uint8_t *copy = memory + part_bytes(&it->rows);
    fl_rows rows = it->rows;

    rows.merged = false; /* whatever the sender says */
    out->table = it->table;
    if (find_parts(&rows, n_servers, part)) {
        rows = fl_rows_copy(&rows, copy);
        cut_parts(&rows, part, out->parts);
    } else {
        for (size_t i = 0; i < rows.n; i++)
            part[i] %= FL_ROUND_PARTS;
        fl_rows_deal(&rows, part, FL_ROUND_PARTS, copy, out->parts);
    }
}

static fl_status fill_rows(load *l, const fl_store_ctx *c, uint64_t round)
{
    size_t bytes, more;
    uint8_t *at;

    FL_TRY(count_bytes(c->rows, c->n_rows, &bytes));
    FL_TRY(reserve(&l->memory, bytes, round));
    at = l->memory.data;
    for (uint32_t i = 0; i < c->n_rows; i++) {
        fl_round_rows kept;

        deal(&c->rows[i], c->store->n_servers, at, &kept);
        fl_vec_push(&l->rows, kept);
        FL_TRY(dealt_bytes(&c->rows[i].rows, &more));
        at += more;
    }
    return FL_OK;
}

static fl_status fill_blocks(load *l, const fl_store_ctx *c, uint64_t round)
{
    size_t floats = 0;
    float *at;

    for (uint32_t i = 0; i < c->n_blocks; i++)
        floats += (size_t)c->blocks[i].n;
    FL_TRY(reserve(&l->memory, floats * sizeof(float), round));
    at = l->memory.data;
    for (uint32_t i = 0; i < c->n_blocks; i++) {
        fl_block_item it = c->blocks[i];

        fl_codec_decode(it.codec, it.coded, it.n, at);
        it.values = at;
        at += it.n;
        fl_vec_push(&l->blocks, it);
    }
    return FL_OK;
}

static load *take_load(fl_rounds *r, load_kind kind)
{
    load_list *spare = &r->spare[kind];
    load *l = NULL;

    fl_lock_soon(&r->mu);
    if (spare->len)
        l = spare->data[--spare->len];
    fl_unlock(&r->mu);
    if (!l)
        l = fl_alloc(sizeof(*l));
    l->kind = kind;
    l->rows.len = l->blocks.len = 0;
    return l;
}

/* Trainers send at the same time: what takes long is done before the lock. */
static fl_status keep(const fl_store_ctx *c, uint64_t round, load_kind kind)
{
    fl_rounds *r = c->store->rounds;
    load *l = take_load(r, kind);
    fl_status st =
        kind == LOAD_ROWS ? fill_rows(l, c, round) : fill_blocks(l, c, round);

    fl_lock_soon(&r->mu);
    wait_until_over(r);
    if (!st)
        st = add_to_share(c, round, l);
    if (st)
        spare_load(r, l);
    fl_unlock(&r->mu);
    return st;
}

fl_status fl_rounds_keep_rows(const fl_store_ctx *c, uint64_t round)
{
    return keep(c, round, LOAD_ROWS);
}

fl_status fl_rounds_keep_blocks(const fl_store_ctx *c, uint64_t round)
{
    return keep(c, round, LOAD_BLOCKS);
}

/* --- applying ------------------------------------------------------------- */

static void add_load(fl_rounds *r, const load *l, float weight)
{
    for (size_t i = 0; i < l->rows.len; i++)
        fl_round_work_add_rows(r->work, &l->rows.data[i], weight);
    for (size_t i = 0; i < l->blocks.len; i++)
        fl_round_work_add_block(r->work, &l->blocks.data[i], weight);
}

static void gather(fl_rounds *r, const fl_apply_request *a)
{
    fl_round_work_clear(r->work, a->round);
    for (size_t i = 0; i < a->n_members; i++) {
        const share *s = find_share(r, a->members[i].rank);

        for (size_t k = 0; s && s->round == a->round && k < s->loads.len; k++)
            add_load(r, s->loads.data[k], (float)a->members[i].weight);
    }
}

static bool is_member(const fl_round_member *members, size_t n, uint32_t rank)
{
    for (size_t i = 0; i < n; i++)
        if (members[i].rank == rank)
            return true;
    return false;
}

/* Who took no part may be gone for good, and its memory goes, unless it is for
   a later round. */
static void drop_applied(fl_rounds *r, const fl_round_member *members,
                         size_t n_members)
{
    for (size_t i = 0; i < r->shares.len; i++) {
        share *s = &r->shares.data[i];

        if (s->round >= r->next)
            continue;
        if (is_member(members, n_members, s->rank))
            spare_loads(r, s);
        else
            free_loads(&s->loads);
    }
}

static fl_status do_work(fl_rounds *r, bool *is_touched)
{
    fl_status st;

    atomic_store(&r->is_applying, 1);
    fl_round_work_do(r->work);
    st = fl_round_work_end(r->work, is_touched);
    atomic_store(&r->is_applying, 0);
    fl_cond_wake_all(&r->over);
    return st;
}

static fl_status apply_next(fl_rounds *r, const fl_store_ctx *c,
                            const fl_apply_request *a)
{
    bool is_touched;
    fl_status st;

    (void)fl_store_commit(c->call, &c->store->kept);
    r->next = a->round;
    gather(r, a);
    fl_round_work_begin(r->work, c);
    st = do_work(r, &is_touched);
    if (!st) {
        r->has_begun = true;
        r->next = a->round + 1;
        drop_applied(r, a->members, a->n_members);
    } else if (is_touched) {
        st = fl_err_ctx(st,
                        "round %" PRIu64 " was applied in part only, start "
                        "the job again",
                        a->round);
        fl_err_save(&r->broken, st);
    }
    return st;
}

static fl_status apply(fl_rounds *r, const fl_store_ctx *c,
                       const fl_apply_request *a)
{
    if (r->broken.status)
        return fl_err_restore(&r->broken);
    if (r->has_begun && a->round + 1 == r->next)
        return FL_OK;
    if (a->round == UINT64_MAX || (r->has_begun && a->round != r->next))
        FL_FAIL(FL_ERR_INVAL,
                "round %" PRIu64 " is to be applied, but the next one is "
                "%" PRIu64,
                a->round, r->next);
    return apply_next(r, c, a);
}

/* All members ask for it at about the same time: who comes while it is being
   applied lends a hand. */
fl_status fl_rounds_apply(const fl_store_ctx *c, const fl_apply_request *a)
{
    fl_rounds *r = c->store->rounds;
    fl_status st;

    fl_lock_soon(&r->mu);
    if (atomic_load(&r->is_applying))
        fl_round_work_do(r->work);
    wait_until_over(r);
    st = apply(r, c, a);
    fl_unlock(&r->mu);
    return st;
}
