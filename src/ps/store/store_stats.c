/* store_stats.c - counters, and hashes of contents. */
#include <inttypes.h>

#include "ps/store/store_inside.h"
#include "ps/sum.h"
#include "table/row.h"

/* --- counting ------------------------------------------------------------- */

static fl_store_counts *rank_of(fl_store *s, uint32_t rank)
{
    for (size_t i = 0; i < s->by_rank.len; i++)
        if (s->by_rank.data[i].rank == rank)
            return &s->by_rank.data[i].counts;
    fl_vec_push(&s->by_rank, ((fl_rank_counts){ .rank = rank }));
    return &s->by_rank.data[s->by_rank.len - 1].counts;
}

static void add_counts(fl_store_counts *to, const fl_store_counts *from)
{
    to->requests += from->requests;
    to->pulled_rows += from->pulled_rows;
    to->pushed_rows += from->pushed_rows;
    to->merged_rows += from->merged_rows;
    to->in_bytes += from->in_bytes;
    to->out_bytes += from->out_bytes;
}

/* Adds an item to its table's counters and to those of the request. */
static void note_rows(const fl_store_ctx *c, const fl_rows_item *it,
                      fl_store_counts *sum)
{
    fl_store_table *t = &c->schema->tables.data[it->table];
    uint64_t merged = it->flags & FL_PUSH_MERGED ? it->rows.n : 0;

    if (c->call->type == FL_MSG_PULL || c->call->type == FL_MSG_CHANGED) {
        t->pulls++;
        t->pulled_rows += it->rows.n;
        sum->pulled_rows += it->rows.n;
    } else if (c->call->type == FL_MSG_PUSH ||
               c->call->type == FL_MSG_ROUND_PUSH) {
        t->pushes++;
        t->pushed_rows += it->rows.n;
        t->merged_rows += merged;
        sum->pushed_rows += it->rows.n;
        sum->merged_rows += merged;
    }
}

static void note_block(const fl_store_ctx *c, const fl_block_item *it)
{
    fl_store_block *b = &c->schema->blocks.data[it->block];

    b->pulls +=
        c->call->type == FL_MSG_PULL_DENSE || c->call->type == FL_MSG_APPLY;
    b->pushes += c->call->type == FL_MSG_PUSH_DENSE ||
                 c->call->type == FL_MSG_ROUND_DENSE;
}

void fl_store_note(fl_store *s, const fl_store_ctx *c, fl_status st)
{
    fl_store_counts sum = { .requests = 1, .in_bytes = c->call->payload.len };

    fl_lock(&s->counts_mu);
    if (!st) {
        sum.out_bytes = c->out_bytes;
        for (uint32_t i = 0; i < c->n_rows; i++)
            note_rows(c, &c->rows[i], &sum);
        for (uint32_t i = 0; i < c->n_blocks; i++)
            note_block(c, &c->blocks[i]);
    }
    add_counts(&s->by_type[c->call->type], &sum);
    add_counts(rank_of(s, c->call->rank), &sum);
    fl_unlock(&s->counts_mu);
}

fl_store_counts fl_store_count(fl_store *s, uint16_t type)
{
    fl_store_counts counts;

    FL_ASSERT(type < FL_MSG_MAX);
    fl_lock(&s->counts_mu);
    counts = s->by_type[type];
    fl_unlock(&s->counts_mu);
    return counts;
}

/* --- as text -------------------------------------------------------------- */

static void print_table(fl_store *s, const fl_store_table *t, fl_str *out)
{
    fl_table_stats st;

    fl_table_count(t->table, &st);
    fl_str_addf(out,
                "table %s rows=%" PRIu64 " short_rows=%" PRIu64
                " candidates=%" PRIu64 " refused=%" PRIu64
                " index_bytes=%" PRIu64 " row_bytes=%" PRIu64
                " candidate_bytes=%" PRIu64 " waited=%" PRIu64,
                fl_table_name(t->table), st.rows, st.short_rows, st.candidates,
                st.refused, st.index_bytes, st.row_bytes, st.candidate_bytes,
                st.waited);
    fl_lock(&s->counts_mu);
    fl_str_addf(out,
                " pulls=%" PRIu64 " pulled_rows=%" PRIu64 " pushes=%" PRIu64
                " pushed_rows=%" PRIu64 " merged_rows=%" PRIu64 "\n",
                t->pulls, t->pulled_rows, t->pushes, t->pushed_rows,
                t->merged_rows);
    fl_unlock(&s->counts_mu);
}

static void print_block(fl_store *s, const fl_store_block *b, fl_str *out)
{
    fl_str_addf(out, "block %s floats=%" PRIu64 " bytes=%" PRIu64,
                fl_dense_name(b->dense), fl_dense_len(b->dense),
                fl_dense_bytes(b->dense));
    fl_lock(&s->counts_mu);
    fl_str_addf(out, " pulls=%" PRIu64 " pushes=%" PRIu64 "\n", b->pulls,
                b->pushes);
    fl_unlock(&s->counts_mu);
}

static void print_ranks(fl_store *s, fl_str *out)
{
    fl_lock(&s->counts_mu);
    for (size_t i = 0; i < s->by_rank.len; i++) {
        const fl_store_counts *c = &s->by_rank.data[i].counts;

        fl_str_addf(out,
                    "rank %" PRIu32 " requests=%" PRIu64 " pulled_rows=%" PRIu64
                    " pushed_rows=%" PRIu64 " merged_rows=%" PRIu64
                    " in_bytes=%" PRIu64 " out_bytes=%" PRIu64 "\n",
                    s->by_rank.data[i].rank, c->requests, c->pulled_rows,
                    c->pushed_rows, c->merged_rows, c->in_bytes, c->out_bytes);
    }
    fl_unlock(&s->counts_mu);
}

char *fl_store_stats_text(fl_store *s)
{
    const fl_store_schema *w = atomic_load(&s->schema);
    fl_str out = { 0 };

    for (size_t i = 0; w && i < w->tables.len; i++)
        print_table(s, &w->tables.data[i], &out);
    for (size_t i = 0; w && i < w->blocks.len; i++)
        print_block(s, &w->blocks.data[i], &out);
    print_ranks(s, &out);
    return fl_str_take(&out);
}

/* --- hashes --------------------------------------------------------------- */

typedef struct row_sum {
    const fl_store_table *t;
    uint64_t sum;
} row_sum;

/* All of a row but its header, which says when it was changed. */
static bool add_row(void *arg, const fl_row_view *v)
{
    row_sum *s = arg;
    uint32_t bytes = v->is_short ? s->t->short_bytes : s->t->row_bytes;

    s->sum += fl_sum_bytes(v->key, (const char *)v->row + FL_ROW_HEADER_BYTES,
                           bytes - FL_ROW_HEADER_BYTES);
    return true;
}

fl_status fl_store_hash_table(const fl_store_table *t, uint64_t *out)
{
    row_sum s = { .t = t };

    for (uint32_t shard = 0; shard < FL_TABLE_SHARDS; shard++)
        FL_TRY(fl_table_scan(t->table, shard, 0, add_row, &s));
    *out = (fl_hash_str(fl_table_name(t->table)) | 1) * s.sum;
    return FL_OK;
}
