/* row_source.c - rows of a model from the servers of a job. */
#include "serve/source.h"

#include "base/alloc.h"
#include "flotilla/serving.h"

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

static const fl_row_source_ops ops = { .name = "servers",
                                       .read = job_read,
                                       .free = job_free };

fl_status fl_row_source_of_job(fl_row_source **out, fl_job *j)
{
    job_rows *s;

    if (!j)
        FL_FAIL(FL_ERR_INVAL, "there is no job to take rows from: the call "
                              "that should have given it has failed");
    s = fl_alloc(sizeof(*s));
    *s = (job_rows){ .port.ops = &ops, .job = j };
    *out = &s->port;
    return FL_OK;
}
