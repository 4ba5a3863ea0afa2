/* row_source.c - rows of a model from the servers of a job, for a process that
 * takes part in it and for one that only looks. */
#include "serve/source.h"

#include "base/alloc.h"
#include "dist/job_view.h"
#include "flotilla/serving.h"

/* --- by who takes part ---------------------------------------------------- */

typedef struct job_rows {
    fl_row_source port;
    fl_job *job;
} job_rows;

/* A server answers for a key without a row as the table's rule says, so that
   none is seen to be missing. */
static fl_status job_read(fl_row_source *s, fl_source_read *r)
{
    fl_job *job = ((job_rows *)s)->job;
    int table;

    FL_TRY(fl_job_find_table(job, r->table, &table));
    return fl_job_pull(job, table, r->keys, r->n, FL_PULL_ONLY, r->out);
}

static void job_free(fl_row_source *s)
{
    fl_free(s);
}

static const fl_row_source_ops job_ops = { .name = "servers",
                                           .read = job_read,
                                           .free = job_free };

fl_status fl_row_source_of_job(fl_row_source **out, fl_job *j)
{
    job_rows *s;

    if (!j)
        FL_FAIL(FL_ERR_INVAL, "there is no job to take rows from: the call "
                              "that should have given it has failed");
    s = fl_alloc(sizeof(*s));
    *s = (job_rows){ .port.ops = &job_ops, .job = j };
    *out = &s->port;
    return FL_OK;
}

/* --- by who looks --------------------------------------------------------- */

typedef struct seen_rows {
    fl_row_source port;
    fl_job_view *view;
} seen_rows;

static void fill_missing(fl_source_read *r, const uint8_t *missing)
{
    r->n_missing = 0;
    for (size_t i = 0; i < r->n; i++)
        if (missing[i])
            fl_source_missing(r, i);
}

static fl_status seen_read(fl_row_source *s, fl_source_read *r)
{
    fl_job_view *view = ((seen_rows *)s)->view;
    fl_view_rows rows = { .table = r->table,
                          .keys = r->keys,
                          .n = r->n,
                          .dim = r->dim,
                          .out = r->out,
                          .missing = fl_alloc(r->n + 1) };
    fl_status st = fl_job_view_read(view, &rows);

    if (!st)
        fill_missing(r, rows.missing);
    fl_free(rows.missing);
    return st;
}

static fl_status seen_dense(fl_row_source *s, const char *name,
                            const fl_shape *shape, float *out)
{
    return fl_job_view_dense(((seen_rows *)s)->view, name, shape, out);
}

static void seen_free(fl_row_source *s)
{
    fl_job_view_close(((seen_rows *)s)->view);
    fl_free(s);
}

static const fl_row_source_ops seen_ops = {
    .name = "servers", .read = seen_read, .dense = seen_dense, .free = seen_free
};

fl_status fl_row_source_of_servers(fl_row_source **out, fl_ctx *c,
                                   const char *address)
{
    fl_job_view *view;
    seen_rows *s;

    if (!address || !*address)
        FL_FAIL(FL_ERR_INVAL, "which job? The address of its server 0 is "
                              "missing");
    FL_TRY(fl_job_view_open(&view, c, address));
    s = fl_alloc(sizeof(*s));
    *s = (seen_rows){ .port.ops = &seen_ops, .view = view };
    *out = &s->port;
    return FL_OK;
}
