/* rounds.c - what was sent for a round, kept by rank, and the sum of it.
 *
 *     share    of a rank: its loads of one round
 *     load     what one request brought, copied into memory of ours
 *     piece    an item of a load with the weight of its member
 *
 * The pieces of all members, in the order of ranks, are sorted by what they are
 * for; then each table and each block has its pieces side by side and in the
 * order in which they are added up. Memory of loads and sums is used again in
 * the next round, so that steady training allocates nothing here.
 *
 * A round that fails before anything was changed can be asked for again. One
 * that fails in its midst cannot be repeated and has no end: from then on all
 * is refused with the reason.
 */
#include "ps/store/rounds.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "kernel/merge.h"
#include "kernel/vec.h"

typedef struct load {
    fl_buf memory;
    FL_VEC(fl_rows_item) rows;
    FL_VEC(fl_block_item) blocks;
} load;

typedef struct share {
    uint32_t rank, incarnation;
    uint64_t round;
    FL_VEC(load) loads;
    size_t n_loads; /* that are used; the others keep memory */
} share;

typedef struct piece {
    uint32_t number; /* of its table or block */
    float weight;
    size_t order;
    const fl_rows *rows;
    const fl_block_item *block;
} piece;

typedef FL_VEC(piece) pieces;

struct fl_rounds {
    fl_mutex mu; /* guards everything below */
    bool has_begun;
    uint64_t next;   /* round to be applied, once it has begun */
    bool is_touched; /* by the round that is being applied */
    fl_err broken;   /* a round failed in its midst */
    FL_VEC(share) shares;

    /* Of the round that is being applied. */
    pieces rows, blocks;
    FL_VEC(fl_rows) batches; /* of one table */
    fl_merger merger;
    fl_buf sum; /* of one block */
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
    return r;
}

static void share_release(share *s)
{
    for (size_t i = 0; i < s->loads.len; i++) {
        load *l = &s->loads.data[i];

        fl_buf_release(&l->memory);
        fl_vec_release(&l->rows);
        fl_vec_release(&l->blocks);
    }
    fl_vec_release(&s->loads);
    s->n_loads = 0;
}

void fl_rounds_free(fl_rounds *r)
{
    if (!r)
        return;
    for (size_t i = 0; i < r->shares.len; i++)
        share_release(&r->shares.data[i]);
    fl_vec_release(&r->shares);
    fl_vec_release(&r->rows);
    fl_vec_release(&r->blocks);
    fl_vec_release(&r->batches);
    fl_merger_release(&r->merger);
    fl_buf_release(&r->sum);
    fl_mutex_release(&r->mu);
    fl_free(r);
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
        s->n_loads = 0;
    s->incarnation = from->incarnation;
    s->round = round;
    *out = s;
    return FL_OK;
}

/* An empty load with so much memory, which counts once it is filled. */
static fl_status open_load(share *s, size_t bytes, load **out)
{
    load *l;

    if (s->n_loads == s->loads.len)
        fl_vec_push(&s->loads, (load){ 0 });
    l = &s->loads.data[s->n_loads];
    l->rows.len = l->blocks.len = 0;
    FL_TRY(reserve(&l->memory, bytes, s->round));
    *out = l;
    return FL_OK;
}

static fl_status count_bytes(const fl_rows_item *items, uint32_t n,
                             size_t *bytes)
{
    *bytes = 0;
    for (uint32_t i = 0; i < n; i++) {
        size_t more;

        FL_TRY(fl_rows_bytes(&items[i].rows, &more));
        *bytes += more;
    }
    return FL_OK;
}

static fl_status keep_rows(share *s, const fl_rows_item *items, uint32_t n)
{
    size_t bytes, more;
    load *l;
    char *at;

    FL_TRY(count_bytes(items, n, &bytes));
    FL_TRY(open_load(s, bytes, &l));
    at = l->memory.data;
    for (uint32_t i = 0; i < n; i++) {
        fl_rows_item kept = items[i];

        FL_TRY(fl_rows_bytes(&kept.rows, &more));
        kept.rows = fl_rows_copy(&kept.rows, at);
        kept.rows.merged = false; /* whatever the sender says */
        fl_vec_push(&l->rows, kept);
        at += more;
    }
    s->n_loads++;
    return FL_OK;
}

static fl_status keep_blocks(share *s, const fl_block_item *items, uint32_t n)
{
    size_t floats = 0;
    load *l;
    float *at;

    for (uint32_t i = 0; i < n; i++)
        floats += (size_t)items[i].n;
    FL_TRY(open_load(s, floats * sizeof(float), &l));
    at = l->memory.data;
    for (uint32_t i = 0; i < n; i++) {
        fl_block_item it = items[i];

        fl_codec_decode(it.codec, it.coded, it.n, at);
        it.values = at;
        at += it.n;
        fl_vec_push(&l->blocks, it);
    }
    s->n_loads++;
    return FL_OK;
}

fl_status fl_rounds_keep_rows(const fl_store_ctx *c, uint64_t round)
{
    fl_rounds *r = c->store->rounds;
    share *s = NULL;
    fl_status st;

    fl_lock(&r->mu);
    st = open_share(c, round, &s);
    if (!st)
        st = keep_rows(s, c->rows, c->n_rows);
    fl_unlock(&r->mu);
    return st;
}

fl_status fl_rounds_keep_blocks(const fl_store_ctx *c, uint64_t round)
{
    fl_rounds *r = c->store->rounds;
    share *s = NULL;
    fl_status st;

    fl_lock(&r->mu);
    st = open_share(c, round, &s);
    if (!st)
        st = keep_blocks(s, c->blocks, c->n_blocks);
    fl_unlock(&r->mu);
    return st;
}

/* --- gathering the pieces ------------------------------------------------- */

static void add_load(fl_rounds *r, const load *l, float weight)
{
    for (size_t i = 0; i < l->rows.len; i++) {
        const fl_rows_item *k = &l->rows.data[i];

        fl_vec_push(&r->rows, ((piece){ .number = k->table,
                                        .weight = weight,
                                        .order = r->rows.len,
                                        .rows = &k->rows }));
    }
    for (size_t i = 0; i < l->blocks.len; i++) {
        const fl_block_item *it = &l->blocks.data[i];

        fl_vec_push(&r->blocks, ((piece){ .number = it->block,
                                          .weight = weight,
                                          .order = r->blocks.len,
                                          .block = it }));
    }
}

static int compare(const void *a, const void *b)
{
    const piece *x = a, *y = b;

    if (x->number != y->number)
        return x->number < y->number ? -1 : 1;
    return x->order < y->order ? -1 : x->order > y->order;
}

static void sort(pieces *p)
{
    if (p->len)
        qsort(p->data, p->len, sizeof(*p->data), compare);
}

static void gather(fl_rounds *r, uint64_t round, const fl_round_member *members,
                   size_t n_members)
{
    r->rows.len = r->blocks.len = 0;
    for (size_t i = 0; i < n_members; i++) {
        const share *s = find_share(r, members[i].rank);

        for (size_t k = 0; s && s->round == round && k < s->n_loads; k++)
            add_load(r, &s->loads.data[k], (float)members[i].weight);
    }
    sort(&r->rows);
    sort(&r->blocks);
}

/* How many pieces from this one on are for the same. */
static size_t count_like(const pieces *p, size_t from)
{
    size_t to = from;

    while (to < p->len && p->data[to].number == p->data[from].number)
        to++;
    return to - from;
}

/* --- tables --------------------------------------------------------------- */

static fl_status apply_table(fl_rounds *r, fl_table *t, const piece *p,
                             size_t n_pieces)
{
    fl_rows merged;

    r->batches.len = 0;
    for (size_t i = 0; i < n_pieces; i++) {
        fl_rows rows = *p[i].rows;

        rows.scale = p[i].weight;
        fl_vec_push(&r->batches, rows);
    }
    FL_TRY(fl_merge_rows(&r->merger, r->batches.data, n_pieces, &merged));
    r->is_touched = true;
    return fl_table_push(t, &merged);
}

/* --- blocks --------------------------------------------------------------- */

static fl_status apply_block(fl_rounds *r, fl_dense *d, const piece *p,
                             size_t n_pieces)
{
    size_t n = (size_t)fl_dense_len(d);
    float *grad;

    FL_TRY(reserve(&r->sum, n * sizeof(float), r->next));
    grad = r->sum.data;
    memset(grad, 0, n * sizeof(float));
    for (size_t i = 0; i < n_pieces; i++)
        fl_vec_f32()->axpy(grad, p[i].weight, p[i].block->values, n);
    r->is_touched = true;
    return fl_dense_push(d, FL_CODEC_F32, grad, r->next);
}

/* --- the round ------------------------------------------------------------ */

static fl_status apply_pieces(fl_rounds *r, const fl_store_ctx *c)
{
    size_t n;

    for (size_t i = 0; i < r->rows.len; i += n) {
        const piece *p = &r->rows.data[i];
        fl_store_table *t = &c->schema->tables.data[p->number];

        n = count_like(&r->rows, i);
        (void)fl_store_commit(c->call, &t->log);
        FL_TRY(apply_table(r, t->table, p, n));
    }
    for (size_t i = 0; i < r->blocks.len; i += n) {
        const piece *p = &r->blocks.data[i];
        fl_store_block *b = &c->schema->blocks.data[p->number];

        n = count_like(&r->blocks, i);
        (void)fl_store_commit(c->call, &b->log);
        FL_TRY(apply_block(r, b->dense, p, n));
    }
    return FL_OK;
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
        s->n_loads = 0;
        if (!is_member(members, n_members, s->rank))
            share_release(s);
    }
}

static fl_status apply_next(fl_rounds *r, const fl_store_ctx *c,
                            const fl_apply_request *a)
{
    fl_status st;

    (void)fl_store_commit(c->call, &c->store->kept);
    r->next = a->round;
    r->is_touched = false;
    gather(r, a->round, a->members, a->n_members);
    st = apply_pieces(r, c);
    if (!st) {
        r->has_begun = true;
        r->next = a->round + 1;
        drop_applied(r, a->members, a->n_members);
    } else if (r->is_touched) {
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

fl_status fl_rounds_apply(const fl_store_ctx *c, const fl_apply_request *a)
{
    fl_rounds *r = c->store->rounds;
    fl_status st;

    fl_lock(&r->mu);
    st = apply(r, c, a);
    fl_unlock(&r->mu);
    return st;
}
