/* store_stats.c - counters, and hashes of contents. */
#include "base/json.h"
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

/* --- as JSON -------------------------------------------------------------- */

static void add_table(fl_json *j, fl_store *s, const fl_store_table *t)
{
    fl_table_stats st;

    fl_table_count(t->table, &st);
    fl_json_object(j, NULL);
    fl_json_text(j, "name", fl_table_name(t->table));
    fl_json_u64(j, "rows", st.rows);
    fl_json_u64(j, "short_rows", st.short_rows);
    fl_json_u64(j, "candidates", st.candidates);
    fl_json_u64(j, "refused", st.refused);
    fl_json_u64(j, "waited", st.waited);
    fl_json_u64(j, "index_bytes", st.index_bytes);
    fl_json_u64(j, "row_bytes", st.row_bytes);
    fl_json_u64(j, "candidate_bytes", st.candidate_bytes);
    fl_lock(&s->counts_mu);
    fl_json_u64(j, "pulls", t->pulls);
    fl_json_u64(j, "pulled_rows", t->pulled_rows);
    fl_json_u64(j, "pushes", t->pushes);
    fl_json_u64(j, "pushed_rows", t->pushed_rows);
    fl_json_u64(j, "merged_rows", t->merged_rows);
    fl_unlock(&s->counts_mu);
    fl_json_end(j);
}

static void add_block(fl_json *j, fl_store *s, const fl_store_block *b)
{
    fl_json_object(j, NULL);
    fl_json_text(j, "name", fl_dense_name(b->dense));
    fl_json_u64(j, "floats", fl_dense_len(b->dense));
    fl_json_u64(j, "held_bytes", fl_dense_bytes(b->dense));
    fl_lock(&s->counts_mu);
    fl_json_u64(j, "pulls", b->pulls);
    fl_json_u64(j, "pushes", b->pushes);
    fl_unlock(&s->counts_mu);
    fl_json_end(j);
}

/* Under counts_mu. */
static void add_rank(fl_json *j, const fl_rank_counts *r)
{
    const fl_store_counts *c = &r->counts;

    fl_json_object(j, NULL);
    fl_json_u64(j, "rank", r->rank);
    fl_json_u64(j, "requests", c->requests);
    fl_json_u64(j, "pulled_rows", c->pulled_rows);
    fl_json_u64(j, "pushed_rows", c->pushed_rows);
    fl_json_u64(j, "merged_rows", c->merged_rows);
    fl_json_u64(j, "in_bytes", c->in_bytes);
    fl_json_u64(j, "out_bytes", c->out_bytes);
    fl_json_end(j);
}

char *fl_store_stats_json(fl_store *s)
{
    const fl_store_schema *w = atomic_load(&s->schema);
    fl_json j = { 0 };

    fl_json_object(&j, NULL);
    fl_json_array(&j, "tables");
    for (size_t i = 0; w && i < w->tables.len; i++)
        add_table(&j, s, &w->tables.data[i]);
    fl_json_end(&j);
    fl_json_array(&j, "blocks");
    for (size_t i = 0; w && i < w->blocks.len; i++)
        add_block(&j, s, &w->blocks.data[i]);
    fl_json_end(&j);
    fl_json_array(&j, "trainers");
    fl_lock(&s->counts_mu);
    for (size_t i = 0; i < s->by_rank.len; i++)
        add_rank(&j, &s->by_rank.data[i]);
    fl_unlock(&s->counts_mu);
    fl_json_end(&j);
    fl_json_end(&j);
    return fl_json_take(&j);
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
