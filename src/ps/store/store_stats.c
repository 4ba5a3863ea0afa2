/* store_stats.c - counters, and hashes of contents. */
#include "base/json.h"
#include "ps/store/store_inside.h"
#include "ps/sum.h"
#include "table/row.h"

/* --- counting ------------------------------------------------------------- */

/* Under ranks_mu. */
static fl_store_counts *rank_of(fl_store *s, uint32_t rank)
{
    for (size_t i = 0; i < s->by_rank.len; i++)
        if (s->by_rank.data[i].rank == rank)
            return &s->by_rank.data[i].counts;
    fl_vec_push(&s->by_rank, ((fl_rank_counts){ .rank = rank }));
    return &s->by_rank.data[s->by_rank.len - 1].counts;
}

/* Adds an item to its table's counters and to those of the request. */
static void note_rows(const fl_store_ctx *c, const fl_rows_item *it,
                      fl_store_counts *sum)
{
    fl_table_counts *t = &c->schema->tables.data[it->table].counts;
    uint64_t merged = it->flags & FL_PUSH_MERGED ? it->rows.n : 0;

    if (c->call->type == FL_MSG_PULL || c->call->type == FL_MSG_CHANGED) {
        fl_stat_add(&t->pulls, 1);
        fl_stat_add(&t->pulled_rows, it->rows.n);
        fl_stat_add(&sum->pulled_rows, it->rows.n);
    } else if (c->call->type == FL_MSG_PUSH ||
               c->call->type == FL_MSG_ROUND_PUSH) {
        fl_stat_add(&t->pushes, 1);
        fl_stat_add(&t->pushed_rows, it->rows.n);
        fl_stat_add(&t->merged_rows, merged);
        fl_stat_add(&sum->pushed_rows, it->rows.n);
        fl_stat_add(&sum->merged_rows, merged);
    }
}

static void note_block(const fl_store_ctx *c, const fl_block_item *it)
{
    fl_block_counts *b = &c->schema->blocks.data[it->block].counts;
    uint16_t type = c->call->type;

    fl_stat_add(&b->pulls, type == FL_MSG_PULL_DENSE || type == FL_MSG_APPLY);
    fl_stat_add(&b->pushes,
                type == FL_MSG_PUSH_DENSE || type == FL_MSG_ROUND_DENSE);
}

void fl_store_note(fl_store *s, const fl_store_ctx *c, fl_status st)
{
    fl_store_counts sum = { .requests = 1, .in = c->call->payload.len };

    for (uint32_t i = 0; i < c->n_rows && !st; i++)
        note_rows(c, &c->rows[i], &sum);
    for (uint32_t i = 0; i < c->n_blocks && !st; i++)
        note_block(c, &c->blocks[i]);
    fl_stat_add(&sum.out, st ? 0 : c->out_bytes);
    fl_stats_add(&fl_store_counts_list, &s->by_type[c->call->type], &sum);
    fl_lock(&s->ranks_mu);
    fl_stats_add(&fl_store_counts_list, rank_of(s, c->call->rank), &sum);
    fl_unlock(&s->ranks_mu);
}

uint64_t fl_store_requests(const fl_store *s)
{
    uint64_t n = 0;

    for (size_t i = 0; i < FL_LEN(s->by_type); i++)
        n += fl_stat_get(&s->by_type[i].requests);
    return n;
}

const fl_store_counts *fl_store_count(const fl_store *s, uint16_t type)
{
    FL_ASSERT(type < FL_MSG_MAX);
    return &s->by_type[type];
}

/* --- as JSON -------------------------------------------------------------- */

static void add_table(fl_json *j, const fl_store_table *t)
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
    fl_stats_json(j, &fl_table_counts_list, &t->counts);
    fl_json_end(j);
}

static void add_block(fl_json *j, const fl_store_block *b)
{
    fl_json_object(j, NULL);
    fl_json_text(j, "name", fl_dense_name(b->dense));
    fl_json_u64(j, "floats", fl_dense_len(b->dense));
    fl_json_u64(j, "held_bytes", fl_dense_bytes(b->dense));
    fl_stats_json(j, &fl_block_counts_list, &b->counts);
    fl_json_end(j);
}

/* Under ranks_mu. */
static void add_rank(fl_json *j, const fl_rank_counts *r)
{
    fl_json_object(j, NULL);
    fl_json_u64(j, "rank", r->rank);
    fl_stats_json(j, &fl_store_counts_list, &r->counts);
    fl_json_end(j);
}

char *fl_store_stats_json(fl_store *s)
{
    const fl_store_schema *w = atomic_load(&s->schema);
    fl_json j = { 0 };

    fl_json_object(&j, NULL);
    fl_json_array(&j, "tables");
    for (size_t i = 0; w && i < w->tables.len; i++)
        add_table(&j, &w->tables.data[i]);
    fl_json_end(&j);
    fl_json_array(&j, "blocks");
    for (size_t i = 0; w && i < w->blocks.len; i++)
        add_block(&j, &w->blocks.data[i]);
    fl_json_end(&j);
    fl_json_array(&j, "trainers");
    fl_lock(&s->ranks_mu);
    for (size_t i = 0; i < s->by_rank.len; i++)
        add_rank(&j, &s->by_rank.data[i]);
    fl_unlock(&s->ranks_mu);
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
