/* table_write.c - the rows of a cut, written as columns.
 *
 * The numbers of rows are known before the first byte, so the header is written
 * first and every column has its place. Rows come in blocks, are cut up into
 * one buffer per column, and a buffer that is full is written. Each thread
 * writes a file of its own. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/log.h"
#include "ckpt/table_columns.h"
#include "ckpt/table_file.h"
#include "table/inside.h"

/* All buffers of a kind together: what was cut up is in the second-level cache
   still when it is summed and written. */
#define BUFFER_BYTES ((size_t)512 << 10)
#define BUFFER_ROWS_MIN 64

/* Shard offsets and the columns of every kind. */
#define TENSORS_MAX (FL_CUT_KINDS * (FL_ROW_COLUMNS_MAX + 1))

/* Keys of one kind on their way. */
typedef struct group {
    fl_row_columns columns;
    char *buffers[FL_ROW_COLUMNS_MAX];
    size_t tensor; /* of shards; those of the columns follow */
    uint64_t n;    /* in all of the file; 0: the group is left out */
    uint64_t *begins;
    size_t buffered, cap; /* rows */
    char *memory;
    size_t bytes;
} group;

/* One file. */
typedef struct job {
    const fl_model_version *v;
    const fl_table_save_options *save;
    const fl_row_layout *layout;
    uint32_t first, last;
    char *name; /* relative to the version */
    group groups[FL_CUT_KINDS];
    fl_st_tensor tensors[TENSORS_MAX];
    size_t n_tensors;
    fl_st_writer *writer;
    uint64_t file_bytes;
    uint64_t cpu_ns; /* of the thread when it last told the pace */
    uint64_t sums[TENSORS_MAX];
    fl_err err;
} job;

/* --- plan ----------------------------------------------------------------- */

static fl_status count_rows(job *j)
{
    uint32_t n_shards = j->last - j->first + 1;

    for (int k = 0; k < FL_CUT_KINDS; k++)
        j->groups[k].begins = fl_alloc((n_shards + 1) * sizeof(uint64_t));
    for (uint32_t s = 0; s < n_shards; s++) {
        uint64_t n[FL_CUT_KINDS];

        FL_TRY(fl_table_cut_counts(j->save->cut, j->first + s, n));
        if (j->save->values_only)
            n[FL_CUT_CANDIDATE] = 0;
        for (int k = 0; k < FL_CUT_KINDS; k++) {
            group *g = &j->groups[k];

            g->n += n[k];
            g->begins[s + 1] = g->n;
        }
    }
    return FL_OK;
}

static void add_tensor(job *j, const char *name, fl_st_type type, int64_t n,
                       int64_t len)
{
    fl_st_tensor *t = &j->tensors[j->n_tensors++];

    *t = (fl_st_tensor){ .name = name, .type = type };
    t->shape.rank = len ? 2 : 1;
    t->shape.dim[0] = n;
    t->shape.dim[1] = len;
}

/* A group without rows is left out, except for that of full rows. */
static bool is_written(const job *j, fl_cut_kind kind)
{
    return kind == FL_CUT_FULL || j->groups[kind].n;
}

static void plan_group(job *j, fl_cut_kind kind)
{
    group *g = &j->groups[kind];

    fl_row_columns_of(&g->columns, j->layout, kind, j->save->values_only);
    g->tensor = j->n_tensors;
    add_tensor(j, g->columns.shards, FL_ST_U64, j->last - j->first + 2, 0);
    for (int i = 0; i < g->columns.n; i++) {
        const fl_row_column *c = &g->columns.list[i];

        add_tensor(j, c->name, c->type, (int64_t)g->n,
                   c->field < 0 ? 0 : (int64_t)(c->bytes / sizeof(float)));
    }
}

static fl_status make_buffers(group *g)
{
    size_t row = sizeof(uint64_t); /* of the key, the first column */
    char *at;

    for (int i = 1; i < g->columns.n; i++)
        row += g->columns.list[i].bytes;
    g->cap = BUFFER_BYTES / row;
    g->cap = g->cap < BUFFER_ROWS_MIN ? BUFFER_ROWS_MIN : g->cap;
    g->cap = g->cap > g->n ? (size_t)g->n : g->cap;
    g->bytes = g->cap * row;
    at = g->memory = fl_try_alloc(g->bytes);
    if (!at)
        FL_FAIL(FL_ERR_NOMEM, "no memory for %zu bytes of rows", g->bytes);
    for (int i = 0; i < g->columns.n; i++) {
        g->buffers[i] = at;
        at += g->cap * g->columns.list[i].bytes;
    }
    return FL_OK;
}

static fl_status plan(job *j)
{
    FL_TRY(count_rows(j));
    for (fl_cut_kind k = 0; k < FL_CUT_KINDS; k++) {
        if (!is_written(j, k))
            continue;
        plan_group(j, k);
        FL_TRY(make_buffers(&j->groups[k]));
    }
    return FL_OK;
}

/* --- rows ----------------------------------------------------------------- */

/* What this thread has done since it told the pace last. */
static void keep_pace(job *j, size_t bytes)
{
    uint64_t before = j->cpu_ns;

    j->cpu_ns = fl_thread_cpu_ns();
    fl_pace_wait(j->save->pace, (fl_pace_use){ bytes, j->cpu_ns - before });
}

static fl_status flush(job *j, group *g)
{
    size_t bytes = 0;

    for (int i = 0; i < g->columns.n; i++) {
        size_t n = g->buffered * g->columns.list[i].bytes;

        FL_TRY(fl_st_writer_put(j->writer, g->tensor + 1 + (size_t)i,
                                g->buffers[i], n));
        bytes += n;
    }
    g->buffered = 0;
    keep_pace(j, bytes);
    return FL_OK;
}

/* The sizes of most fields, so that a copy is not a call. */
#define COPY_OF(size)                                                          \
    case size:                                                                 \
        for (size_t i = 0; i < n; i++)                                         \
            memcpy(to + i * (size), from + i * stride, size);                  \
        return

static void copy_column(char *to, const char *from, size_t stride, size_t bytes,
                        size_t n)
{
    switch (bytes) {
        COPY_OF(4);
        COPY_OF(16);
        COPY_OF(32);
        COPY_OF(36);
        COPY_OF(40);
        COPY_OF(64);
        COPY_OF(128);
    default:
        for (size_t i = 0; i < n; i++)
            memcpy(to + i * bytes, from + i * stride, bytes);
    }
}

static void cut_up(group *g, const fl_cut_block *b, size_t lo, size_t n)
{
    for (int i = 0; i < g->columns.n; i++) {
        const fl_row_column *c = &g->columns.list[i];
        char *to = g->buffers[i] + g->buffered * c->bytes;

        if (c->is_key)
            memcpy(to, b->keys + lo, n * c->bytes);
        else
            copy_column(to, b->rows + lo * b->stride + c->offset, b->stride,
                        c->bytes, n);
    }
    g->buffered += n;
}

static fl_status take_block(void *arg, const fl_cut_block *b)
{
    job *j = arg;
    group *g = &j->groups[b->kind];

    if (b->kind == FL_CUT_CANDIDATE && j->save->values_only)
        return FL_OK;
    for (size_t lo = 0, n; lo < b->n; lo += n) {
        n = g->cap - g->buffered;
        n = n < b->n - lo ? n : b->n - lo;
        cut_up(g, b, lo, n);
        if (g->buffered == g->cap)
            FL_TRY(flush(j, g));
    }
    return FL_OK;
}

static fl_status write_shards(job *j)
{
    size_t bytes = (j->last - j->first + 2) * sizeof(uint64_t);

    for (fl_cut_kind k = 0; k < FL_CUT_KINDS; k++)
        if (is_written(j, k))
            FL_TRY(fl_st_writer_put(j->writer, j->groups[k].tensor,
                                    j->groups[k].begins, bytes));
    for (uint32_t s = j->first; s <= j->last; s++)
        FL_TRY(fl_table_cut_read(j->save->cut, s, take_block, j));
    for (fl_cut_kind k = 0; k < FL_CUT_KINDS; k++)
        if (is_written(j, k))
            FL_TRY(flush(j, &j->groups[k]));
    return FL_OK;
}

/* --- a file --------------------------------------------------------------- */

static fl_status write_file(job *j)
{
    char *path;
    fl_status st;

    FL_TRY(plan(j));
    path = fl_version_file(j->v, j->name);
    st = fl_st_writer_open(&j->writer, path, j->tensors, j->n_tensors);
    fl_free(path);
    FL_TRY(st);
    FL_TRY(write_shards(j));
    st = fl_st_writer_commit(j->writer, &j->file_bytes, j->sums);
    j->writer = NULL;
    return st;
}

static void run_job(void *arg)
{
    job *j = arg;

    j->cpu_ns = fl_thread_cpu_ns();
    fl_err_save(&j->err, write_file(j));
}

static void release_job(job *j)
{
    for (int k = 0; k < FL_CUT_KINDS; k++) {
        fl_free(j->groups[k].begins);
        fl_data_free(j->groups[k].memory, j->groups[k].bytes);
    }
    fl_st_writer_drop(j->writer);
    fl_free(j->name);
}

/* --- all files ------------------------------------------------------------ */

typedef struct jobs {
    job *list;
    int n;
} jobs;

static jobs make_jobs(const fl_model_version *v, const fl_table_save_options *s,
                      const char *folder)
{
    fl_table *t = fl_table_cut_table(s->cut);
    uint32_t n_shards = s->last - s->first + 1;
    uint32_t n = s->n_threads > 1 ? (uint32_t)s->n_threads : 1;
    jobs all;

    n = n < n_shards ? n : n_shards;
    all = (jobs){ fl_alloc(n * sizeof(job)), (int)n };
    for (uint32_t i = 0; i < n; i++) {
        job *j = &all.list[i];
        fl_str name = { 0 };

        j->v = v;
        j->save = s;
        j->layout = &fl_table_acc(t)->layout;
        j->first = s->first + i * n_shards / n;
        j->last = s->first + (i + 1) * n_shards / n - 1;
        fl_str_addf(&name, "%s/%04u-%04u.safetensors", folder, j->first,
                    j->last);
        j->name = fl_str_take(&name);
    }
    return all;
}

static void release_jobs(jobs *all)
{
    for (int i = 0; i < all->n; i++)
        release_job(&all->list[i]);
    fl_free(all->list);
}

/* The last one is this thread's own, as is any that gets no thread. */
static fl_status run_jobs(jobs *all)
{
    fl_thread **threads = fl_alloc(sizeof(*threads) * (size_t)all->n);
    fl_status st = FL_OK;

    for (int i = 0; i + 1 < all->n; i++)
        if (fl_thread_start(&threads[i], "save", run_job, &all->list[i]))
            run_job(&all->list[i]);
    run_job(&all->list[all->n - 1]);
    for (int i = 0; i < all->n; i++) {
        fl_thread_join(threads[i]);
        if (!st)
            st = fl_err_restore(&all->list[i].err);
    }
    fl_free(threads);
    return st;
}

/* --- the manifest --------------------------------------------------------- */

static void note_files(fl_manifest *m, const jobs *all)
{
    for (int i = 0; i < all->n; i++) {
        const job *j = &all->list[i];
        fl_manifest_file f = { .name = j->name,
                               .bytes = j->file_bytes,
                               .has_tensors = true,
                               .tensors = j->tensors,
                               .n_tensors = j->n_tensors };

        fl_manifest_add_tensors(m, &f, j->sums);
    }
}

static void note_fields(fl_manifest_table *out, fl_manifest_field *fields,
                        const job *j)
{
    const fl_row_columns *c = &j->groups[FL_CUT_FULL].columns;

    out->fields = fields;
    for (int i = 0; i < c->n; i++)
        if (c->list[i].field >= 0)
            fields[out->n_fields++] = (fl_manifest_field){
                c->list[i].name, c->list[i].bytes / (uint32_t)sizeof(float)
            };
}

static void note_table(fl_manifest *m, const fl_table_save_options *s,
                       const jobs *all)
{
    const fl_cut_moment *moment = fl_table_cut_moment(s->cut);
    fl_table *t = fl_table_cut_table(s->cut);
    const fl_table_config *config = fl_table_acc(t)->config;
    fl_manifest_field fields[FL_ROW_FIELDS_MAX];
    fl_manifest_shards *files = fl_alloc(sizeof(*files) * (size_t)all->n);
    fl_manifest_table out = { .name = config->name,
                              .settings = config->settings,
                              .accessor = config->accessor,
                              .seed = config->seed,
                              .epoch = moment->epoch,
                              .days = moment->days,
                              .n_days = moment->n_days,
                              .scalars = moment->scalars,
                              .n_scalars = (size_t)moment->n_scalars,
                              .files = files,
                              .n_files = (size_t)all->n };

    note_fields(&out, fields, &all->list[0]);
    for (int i = 0; i < all->n; i++) {
        const job *j = &all->list[i];

        files[i] = (fl_manifest_shards){ j->name, j->first, j->last };
        out.rows += j->groups[FL_CUT_FULL].n + j->groups[FL_CUT_SHORT].n;
        out.short_rows += j->groups[FL_CUT_SHORT].n;
        out.candidates += j->groups[FL_CUT_CANDIDATE].n;
    }
    fl_manifest_add_table(m, &out);
    fl_free(files);
}

/* What the save cost beyond its files, for who wonders about memory. */
static void tell(const fl_table_save_options *s, const char *name)
{
    fl_cut_stats n;

    fl_table_cut_stats(s->cut, &n);
    FL_INFO("ckpt",
            "wrote table=%s shards=%u-%u copied_rows=%" PRIu64
            " copied_bytes=%" PRIu64 " log_bytes=%" PRIu64,
            name, s->first, s->last, n.copies, n.copies_bytes, n.log_bytes);
}

fl_status fl_table_file_write(const fl_model_version *v, fl_manifest *m,
                              const fl_table_save_options *save)
{
    const char *name = fl_table_name(fl_table_cut_table(save->cut));
    char *folder = fl_version_table_folder(name);
    fl_status st = fl_version_folder(v, folder);
    jobs all = make_jobs(v, save, folder);

    if (!st)
        st = run_jobs(&all);
    if (!st) {
        note_files(m, &all);
        note_table(m, save, &all);
        tell(save, name);
    }
    release_jobs(&all);
    fl_free(folder);
    return fl_err_ctx(st, "saving table %s", name);
}
