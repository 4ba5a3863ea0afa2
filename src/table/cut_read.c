/* cut_read.c - the rows of a cut, shard by shard.
 *
 * A shard is read in pieces, ranges of the hash that fit into a reader: under
 * the partition's lock the slots of a piece are gathered and put in the order
 * of the hash, then rows are copied, with others on their way into the cache.
 * What is done with them happens without a lock. Slots lie nearly in order, so
 * sorting them costs little. */
#include <string.h>

#include "table/batch.h"
#include "table/cut_inside.h"

/* Rows and slots that a reader holds at a time. */
#define PIECE_BYTES ((size_t)256 << 10)
#define PIECE_MIN 16
#define PIECE_MAX 2048

/* Rows that are on their way while one is copied. */
#define AHEAD 12

typedef struct slot_item {
    uint64_t hash, key;
    uint32_t ref;
} slot_item;

/* Slots of a piece, in order: of the table, and behind them of the copies. */
typedef struct slot_list {
    slot_item *items;
    size_t n_live, n;
    size_t live, kept; /* next ones */
} slot_list;

typedef struct out_block {
    uint64_t *keys;
    char *rows;
    size_t n, stride;
} out_block;

/* What one thread needs to read. */
typedef struct fl_cut_reader {
    struct fl_cut_reader *next;
    size_t cap;
    slot_list rows, candidates;
    out_block out[FL_CUT_KINDS];
    char *memory;
    size_t bytes;
} fl_cut_reader;

/* One call: a shard, to be copied or counted. */
typedef struct reading {
    fl_table_cut *cut;
    fl_cut_reader *r;
    fl_partition *p;
    fl_cut_part *part;
    uint32_t shard;
    bool counts_only;
} reading;

/* --- readers -------------------------------------------------------------- */

static size_t piece_cap(const fl_row_layout *l)
{
    size_t n = PIECE_BYTES / l->bytes;

    n = n > PIECE_MAX ? PIECE_MAX : n;
    return n < PIECE_MIN ? PIECE_MIN : n;
}

static size_t piece_bytes(const fl_row_layout *l)
{
    return 2 * sizeof(slot_item) + FL_CUT_KINDS * sizeof(uint64_t) + l->bytes +
           l->short_bytes + sizeof(fl_candidate);
}

/* Lays the arrays into the reader's memory, those with wider items first. */
static void lay_out(fl_cut_reader *r, const fl_row_layout *l)
{
    const size_t strides[FL_CUT_KINDS] = { l->bytes, l->short_bytes,
                                           sizeof(fl_candidate), 0 };
    char *at = r->memory;

    r->rows.items = (slot_item *)at;
    at += r->cap * sizeof(slot_item);
    r->candidates.items = (slot_item *)at;
    at += r->cap * sizeof(slot_item);
    for (int i = 0; i < FL_CUT_KINDS; i++) {
        r->out[i].keys = (uint64_t *)at;
        at += r->cap * sizeof(uint64_t);
    }
    for (int i = 0; i < FL_CUT_KINDS; i++) {
        r->out[i].rows = strides[i] ? at : NULL;
        r->out[i].stride = strides[i];
        at += r->cap * strides[i];
    }
}

static fl_status new_reader(fl_cut_reader **out, const fl_table *t)
{
    fl_cut_reader *r = fl_alloc(sizeof(*r));

    r->cap = piece_cap(&t->acc.layout);
    r->bytes = r->cap * piece_bytes(&t->acc.layout);
    r->memory = fl_try_alloc(r->bytes);
    if (!r->memory) {
        fl_free(r);
        FL_FAIL(FL_ERR_NOMEM, "table %s: no memory to read it", t->name);
    }
    lay_out(r, &t->acc.layout);
    *out = r;
    return FL_OK;
}

static fl_status take_reader(fl_table_cut *c, fl_cut_reader **out)
{
    fl_lock(&c->mu);
    *out = c->idle;
    if (c->idle)
        c->idle = c->idle->next;
    fl_unlock(&c->mu);
    return *out ? FL_OK : new_reader(out, c->t);
}

static void give_reader(fl_table_cut *c, fl_cut_reader *r)
{
    fl_lock(&c->mu);
    r->next = c->idle;
    c->idle = r;
    fl_unlock(&c->mu);
}

void fl_cut_readers_free(fl_table_cut *c)
{
    while (c->idle) {
        fl_cut_reader *r = c->idle;

        c->idle = r->next;
        fl_data_free(r->memory, r->bytes);
        fl_free(r);
    }
}

/* --- slots of a piece ----------------------------------------------------- */

/* Hashes [lo, lo + width). */
typedef struct piece {
    uint64_t lo, width;
} piece;

/* Adds the slots of an index; false when there are too many. */
static bool gather(const fl_index *x, const piece *pc, slot_list *l, size_t cap)
{
    fl_index_range r;

    fl_index_range_of(x, fl_index_place(x, pc->lo),
                      fl_index_place(x, pc->lo + pc->width - 1), &r);
    for (int i = 0; i < r.n; i++)
        for (const fl_bucket *b = r.from[i]; b < r.to[i]; b++)
            for (int k = 0; k < FL_BUCKET_SLOTS && b->ref[k]; k++) {
                uint64_t hash = fl_index_hash(b->key[k]);

                if (hash - pc->lo >= pc->width)
                    continue;
                if (l->n == cap)
                    return false;
                l->items[l->n++] = (slot_item){ hash, b->key[k], b->ref[k] };
            }
    return true;
}

/* By insertion: almost all of them stand where they belong. */
static void sort_slots(slot_item *items, size_t n)
{
    for (size_t i = 1; i < n; i++) {
        slot_item x = items[i];
        size_t at = i;

        for (; at > 0 && items[at - 1].hash > x.hash; at--)
            items[at] = items[at - 1];
        items[at] = x;
    }
}

static bool gather_both(const fl_index *live, const fl_index *kept,
                        const piece *pc, slot_list *l, size_t cap)
{
    l->n = l->live = 0;
    if (live && !gather(live, pc, l, cap))
        return false;
    l->n_live = l->kept = l->n;
    if (!gather(kept, pc, l, cap))
        return false;
    sort_slots(l->items, l->n_live);
    sort_slots(l->items + l->n_live, l->n - l->n_live);
    return true;
}

static bool gather_piece(const reading *g, const piece *pc)
{
    bool is_kept = g->cut->shards[g->shard].is_kept;
    fl_partition *kept = &g->part->kept;

    return gather_both(is_kept ? NULL : &g->p->index, &kept->index, pc,
                       &g->r->rows, g->r->cap) &&
           (g->cut->options.pick ||
            gather_both(is_kept ? NULL : &g->p->waiting, &kept->waiting, pc,
                        &g->r->candidates, g->r->cap));
}

/* The next slot in the order of the hash; NULL: all are done. */
static const slot_item *next_slot(slot_list *l, bool *is_kept)
{
    const slot_item *live = l->live < l->n_live ? &l->items[l->live] : NULL;
    const slot_item *kept = l->kept < l->n ? &l->items[l->kept] : NULL;

    *is_kept = kept && (!live || kept->hash < live->hash);
    if (*is_kept)
        l->kept++;
    else if (live)
        l->live++;
    return *is_kept ? kept : live;
}

/* --- rows of a piece ------------------------------------------------------ */

static fl_status note_spent(fl_cut_part *c, uint64_t key, float score)
{
    uint32_t n;

    FL_TRY(fl_pool_take(&c->spent, &n));
    *(fl_spent *)fl_pool_row(&c->spent, n) =
        (fl_spent){ { (uint32_t)key, (uint32_t)(key >> 32) }, score };
    return FL_OK;
}

/* Puts a row, which belongs to the cut, into the block of its kind. */
static fl_status take(const reading *g, fl_cut_kind kind, uint64_t key,
                      const char *row)
{
    out_block *out = &g->r->out[kind];
    float score = 0;

    if (kind < FL_CUT_CANDIDATE && g->cut->options.pick) {
        if (!fl_cut_picks(g->cut, row, &score))
            return FL_OK;
        if (!g->counts_only && g->cut->t->accessor->spend)
            FL_TRY(note_spent(g->part, key, score));
    }
    if (!g->counts_only) {
        out->keys[out->n] = key;
        if (row)
            memcpy(out->rows + out->n * out->stride, row, out->stride);
    }
    out->n++;
    return FL_OK;
}

static void ask_ahead(const reading *g, const slot_list *l)
{
    uint32_t ref;

    if (l->live + AHEAD >= l->n_live)
        return;
    ref = l->items[l->live + AHEAD].ref;
    fl_prefetch_row(fl_partition_row(g->p, ref), 0,
                    fl_ref_is_short(ref) ? g->p->pools[1].stride
                                         : g->p->pools[0].stride);
}

static fl_status take_rows(const reading *g)
{
    slot_list *l = &g->r->rows;
    const slot_item *x;
    bool is_kept;

    while ((x = next_slot(l, &is_kept))) {
        const fl_partition *from = is_kept ? &g->part->kept : g->p;
        const char *row = fl_partition_row(from, x->ref);

        ask_ahead(g, l);
        if (is_kept || fl_cut_has(g->cut, row))
            FL_TRY(take(g, fl_ref_kind(x->ref), x->key, row));
    }
    return FL_OK;
}

static fl_status take_candidates(const reading *g)
{
    slot_list *l = &g->r->candidates;
    const slot_item *x;
    bool is_kept;

    while ((x = next_slot(l, &is_kept))) {
        const fl_partition *from = is_kept ? &g->part->kept : g->p;
        const char *row = fl_pool_row(&from->candidates, x->ref - 1);

        if (is_kept || fl_cut_has(g->cut, row))
            FL_TRY(take(g, FL_CUT_CANDIDATE, x->key, row));
    }
    return FL_OK;
}

static fl_status check_copies(const reading *g)
{
    if (g->part->failed)
        FL_FAIL(FL_ERR_NOMEM,
                "table %s: no memory to copy a row that changed while the "
                "table was saved",
                g->cut->t->name);
    return FL_OK;
}

/* The piece from *at on, *width wide or as much as a reader holds; *at moves
   behind it. */
static fl_status take_piece(const reading *g, uint64_t *width, uint64_t *at)
{
    piece pc = { g->shard * FL_SHARD_WIDTH + *at, *width };

    FL_TRY(check_copies(g));
    if (pc.width > FL_SHARD_WIDTH - *at)
        pc.width = FL_SHARD_WIDTH - *at;
    while (!gather_piece(g, &pc))
        *width = pc.width /= 2;
    FL_TRY(take_rows(g));
    if (!g->cut->options.pick)
        FL_TRY(take_candidates(g));
    *at += pc.width;
    if (!g->counts_only)
        g->cut->shards[g->shard].unread = *at;
    return FL_OK;
}

/* --- a shard -------------------------------------------------------------- */

typedef struct sink {
    fl_cut_fn fn; /* NULL: only counts */
    void *arg;
    uint64_t n[FL_CUT_KINDS];
} sink;

static fl_status give_blocks(const reading *g, sink *to)
{
    for (int i = FL_CUT_KINDS; i-- > 0;) {
        out_block *out = &g->r->out[i];
        fl_cut_block b = { (fl_cut_kind)i, out->n, out->keys, out->rows,
                           out->stride };

        out->n = 0;
        to->n[i] += b.n;
        if (b.n && to->fn)
            FL_TRY(to->fn(to->arg, &b));
    }
    return FL_OK;
}

/* Half of what a reader holds, on average: the next range is as wide and may
   have more. */
static uint64_t piece_width(const reading *g)
{
    const fl_shard_counts *n = &g->cut->counts[g->shard];
    uint64_t most = (uint64_t)n->n[FL_CUT_FULL] + n->n[FL_CUT_SHORT];

    if (n->n[FL_CUT_CANDIDATE] > most)
        most = n->n[FL_CUT_CANDIDATE];
    return FL_SHARD_WIDTH / (1 + 2 * most / g->r->cap);
}

static fl_status read_all(const reading *g, sink *to)
{
    uint64_t width = piece_width(g);

    for (uint64_t at = 0; at < FL_SHARD_WIDTH;) {
        fl_status st;

        fl_lock(&g->p->mu);
        st = take_piece(g, &width, &at);
        fl_unlock(&g->p->mu);
        FL_TRY(st);
        FL_TRY(give_blocks(g, to));
    }
    return FL_OK;
}

/* The first key of the list whose hash is at least that. */
static size_t list_begin(const fl_cut_part *c, uint64_t hash)
{
    size_t lo = 0, hi = c->n_list;

    while (lo < hi) {
        size_t mid = (lo + hi) / 2;

        if (c->list[mid].hash < hash)
            lo = mid + 1;
        else
            hi = mid;
    }
    return lo;
}

static size_t list_end(const fl_cut_part *c, uint32_t shard)
{
    return shard + 1 == FL_TABLE_SHARDS
               ? c->n_list
               : list_begin(c, (shard + 1) * FL_SHARD_WIDTH);
}

static fl_status take_key(const reading *g, const fl_cut_key *k)
{
    const fl_partition *from;
    bool in_copies;
    uint32_t ref;

    if (k->kind == FL_CUT_GONE)
        return take(g, FL_CUT_GONE, k->key, NULL);
    ref = fl_cut_find(g->p, k, &in_copies);
    FL_ASSERT(ref);
    from = in_copies ? &g->part->kept : g->p;
    return take(g, k->kind, k->key, fl_cut_bytes(from, k->kind, ref));
}

/* Up to as many keys of the list as a reader holds. */
static fl_status take_keys(const reading *g, size_t *at, size_t end)
{
    size_t most = *at + g->r->cap;

    FL_TRY(check_copies(g));
    for (; *at < end && *at < most; ++*at)
        FL_TRY(take_key(g, &g->part->list[*at]));
    g->cut->shards[g->shard].unread =
        *at == end ? FL_SHARD_WIDTH : g->part->list[*at].hash % FL_SHARD_WIDTH;
    return FL_OK;
}

static fl_status list_part(const reading *g)
{
    fl_status st;

    fl_lock(&g->p->mu);
    st = check_copies(g);
    if (!st)
        st = fl_cut_list(g->p, g->part);
    fl_unlock(&g->p->mu);
    return st;
}

static fl_status read_list(const reading *g, sink *to)
{
    size_t at, end;

    FL_TRY(list_part(g));
    at = list_begin(g->part, g->shard * FL_SHARD_WIDTH);
    end = list_end(g->part, g->shard);
    do {
        fl_status st;

        fl_lock(&g->p->mu);
        st = take_keys(g, &at, end);
        fl_unlock(&g->p->mu);
        FL_TRY(st);
        FL_TRY(give_blocks(g, to));
    } while (at < end);
    return FL_OK;
}

static fl_status count_list(const reading *g, uint64_t n[FL_CUT_KINDS])
{
    FL_TRY(list_part(g));
    for (size_t i = list_begin(g->part, g->shard * FL_SHARD_WIDTH);
         i < list_end(g->part, g->shard); i++)
        n[g->part->list[i].kind]++;
    return FL_OK;
}

/* --- calls ---------------------------------------------------------------- */

static fl_status begin(fl_table_cut *c, uint32_t shard, reading *g)
{
    int part;

    if (shard >= FL_TABLE_SHARDS)
        FL_FAIL(FL_ERR_INVAL, "table %s: shard %u is not in 0..%d", c->t->name,
                shard, FL_TABLE_SHARDS - 1);
    part = (int)(fl_table_part(c->t, shard * FL_SHARD_WIDTH) - c->t->parts);
    *g = (reading){ .cut = c,
                    .p = &c->t->parts[part],
                    .part = &c->parts[part],
                    .shard = shard };
    return take_reader(c, &g->r);
}

static fl_status finish(const reading *g, fl_status st)
{
    for (int i = 0; i < FL_CUT_KINDS; i++)
        g->r->out[i].n = 0;
    give_reader(g->cut, g->r);
    return st;
}

fl_status fl_table_cut_read(fl_table_cut *c, uint32_t shard, fl_cut_fn fn,
                            void *arg)
{
    sink to = { .fn = fn, .arg = arg };
    reading g;

    FL_TRY(begin(c, shard, &g));
    return finish(&g,
                  c->options.since ? read_list(&g, &to) : read_all(&g, &to));
}

static fl_status count_shard(reading *g, uint64_t n[FL_CUT_KINDS])
{
    sink to = { 0 };

    if (g->cut->options.since)
        return count_list(g, n);
    g->counts_only = true;
    FL_TRY(read_all(g, &to));
    memcpy(n, to.n, sizeof(to.n));
    return FL_OK;
}

fl_status fl_table_cut_counts(fl_table_cut *c, uint32_t shard,
                              uint64_t n[FL_CUT_KINDS])
{
    reading g;

    memset(n, 0, sizeof(*n) * FL_CUT_KINDS);
    FL_TRY(begin(c, shard, &g));
    if (c->options.since || c->options.pick)
        return finish(&g, count_shard(&g, n));
    for (int i = 0; i < FL_CUT_GONE; i++)
        n[i] = c->counts[shard].n[i];
    return finish(&g, FL_OK);
}
