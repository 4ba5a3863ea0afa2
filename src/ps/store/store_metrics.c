/* store_metrics.c - what a store holds and has done, for Prometheus
 * (docs/formats/metrics.md). */
#include "base/prom.h"
#include "ps/store/store_inside.h"

/* --- tables --------------------------------------------------------------- */

/* A table at one moment. */
typedef struct table_view {
    const fl_store_table *t;
    fl_table_stats stats;
} table_view;

typedef struct table_metric {
    fl_prom_def def;
    double (*value)(const table_view *v);
} table_metric;

#define COUNT(name)                                                            \
    static double get_##name(const table_view *v)                              \
    {                                                                          \
        return (double)fl_stat_get(&v->t->counts.name);                        \
    }
COUNT(pulls)
COUNT(pulled_rows)
COUNT(pushes)
COUNT(pushed_rows)
COUNT(merged_rows)
#undef COUNT

static double get_rows(const table_view *v)
{
    return (double)v->stats.rows;
}

static double get_candidates(const table_view *v)
{
    return (double)v->stats.candidates;
}

static double get_refused(const table_view *v)
{
    return (double)v->stats.refused;
}

static double get_bytes(const table_view *v)
{
    return (double)(v->stats.index_bytes + v->stats.row_bytes +
                    v->stats.candidate_bytes);
}

static const table_metric of_tables[] = {
    { { "table_rows", FL_PROM_GAUGE, "Rows of a table on this server." },
      get_rows },
    { { "table_candidates", FL_PROM_GAUGE,
        "Keys that were seen and have no row yet." },
      get_candidates },
    { { "table_bytes", FL_PROM_GAUGE, "Memory of rows, index and candidates." },
      get_bytes },
    { { "table_refused_keys_total", FL_PROM_COUNTER,
        "Keys that got no row for max_rows." },
      get_refused },
    { { "table_pulls_total", FL_PROM_COUNTER, "Requests for rows." },
      get_pulls },
    { { "table_pulled_rows_total", FL_PROM_COUNTER, "Rows that were read." },
      get_pulled_rows },
    { { "table_pushes_total", FL_PROM_COUNTER, "Requests with gradients." },
      get_pushes },
    { { "table_pushed_rows_total", FL_PROM_COUNTER, "Gradients of rows." },
      get_pushed_rows },
    { { "table_merged_rows_total", FL_PROM_COUNTER,
        "Those that stand for several batches." },
      get_merged_rows },
};

static void add_tables(fl_str *out, const fl_store_schema *w)
{
    table_view *views = fl_alloc((w->tables.len + 1) * sizeof(*views));

    for (size_t i = 0; i < w->tables.len; i++) {
        views[i].t = &w->tables.data[i];
        fl_table_count(views[i].t->table, &views[i].stats);
    }
    for (size_t m = 0; w->tables.len && m < FL_LEN(of_tables); m++) {
        fl_prom_begin(out, &of_tables[m].def);
        for (size_t i = 0; i < w->tables.len; i++)
            fl_prom_add(out, &of_tables[m].def, "table",
                        fl_table_name(views[i].t->table),
                        of_tables[m].value(&views[i]));
    }
    fl_free(views);
}

/* --- dense parameters and requests ---------------------------------------- */

static void add_dense(fl_str *out, const fl_store_schema *w)
{
    static const fl_prom_def bytes = { "dense_bytes", FL_PROM_GAUGE,
                                       "Memory of dense parameters." };
    double sum = 0;

    for (size_t i = 0; i < w->blocks.len; i++)
        sum += (double)fl_dense_bytes(w->blocks.data[i].dense);
    fl_prom_one(out, &bytes, sum);
}

typedef struct request_metric {
    fl_prom_def def;
    size_t at; /* of the counter */
} request_metric;

static const request_metric of_requests[] = {
    { { "server_requests_total", FL_PROM_COUNTER,
        "Requests for rows and blocks." },
      offsetof(fl_store_counts, requests) },
    { { "server_request_bytes_total", FL_PROM_COUNTER,
        "Payloads of requests." },
      offsetof(fl_store_counts, in) },
    { { "server_reply_bytes_total", FL_PROM_COUNTER, "Payloads of replies." },
      offsetof(fl_store_counts, out) },
};

/* By message; those that nobody has sent are left out. */
static void add_requests(fl_str *out, const fl_store *s)
{
    for (size_t m = 0; m < FL_LEN(of_requests); m++) {
        fl_prom_begin(out, &of_requests[m].def);
        for (uint16_t type = 0; type < FL_MSG_MAX; type++) {
            const fl_store_counts *c = fl_store_count(s, type);
            const char *at = (const char *)c + of_requests[m].at;

            if (fl_stat_get(&c->requests))
                fl_prom_add(out, &of_requests[m].def, "message",
                            fl_msg_name(type),
                            (double)fl_stat_get((const fl_stat *)at));
        }
    }
}

void fl_store_metrics(fl_store *s, fl_str *out)
{
    const fl_store_schema *w = atomic_load(&s->schema);

    add_requests(out, s);
    if (!w)
        return;
    add_tables(out, w);
    add_dense(out, w);
}
