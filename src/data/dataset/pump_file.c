/* pump_file.c - one file of a pass: where its records come from.
 *
 * Either a source gives blocks of text, or a cache that fits gives chunks of
 * records. The header of a text file is looked at by the thread that reads the
 * first block, before any other can read on, so that every block has it. */
#include "data/dataset/pump_file.h"

#include <inttypes.h>
#include <string.h>
#include <sys/stat.h>

#include "base/hash.h"
#include "base/log.h"

/* --- opening -------------------------------------------------------------- */

/* The bytes of a FIFO or a device are not known by its name and time. What was
   begun as text goes on as text: a cache that several threads have written has
   another order. */
static bool can_be_cached(const fl_pump_job *job, const fl_pump_file *f)
{
    struct stat info;

    if (!job->args.cache || stat(f->path, &info))
        return false;
    if (f->before && !f->before->is_cached)
        return false;
    if (S_ISREG(info.st_mode))
        return true;
    FL_INFO("data", "not cached, for it is no regular file: path=%s", f->path);
    return false;
}

static void warn_of_text(const fl_pump_file *f)
{
    if (f->before && f->before->is_cached)
        FL_WARN("data",
                "some of it was trained out of a cache that is gone; read by "
                "several threads, its order may have been another: path=%s",
                f->path);
}

static fl_status open_cached(const fl_pump_job *job, fl_pump_file *f,
                             const fl_cache_key *key, fl_pump_unit *u)
{
    FL_TRY(fl_cache_open(&f->cache, job->args.cache, key,
                         &job->args.parser->schema));
    if (!f->cache)
        return FL_OK;
    u->lines = fl_cache_lines(f->cache);
    u->bad_lines = fl_cache_bad_lines(f->cache);
    fl_bad_log_lines(job->bad, u->lines);
    return fl_bad_log_add_known(job->bad, f->path, u->bad_lines);
}

static fl_status open_file(const fl_pump_job *job, fl_pump_file *f,
                           fl_pump_unit *u)
{
    const fl_pump_args *a = &job->args;
    bool cached = can_be_cached(job, f);
    fl_cache_key key;

    f->is_open = true;
    f->hash = fl_hash_str(f->path);
    if (cached) {
        FL_TRY(fl_cache_key_of(&key, f->path, job->parser_hash,
                               a->source.pipe_command));
        FL_TRY(open_cached(job, f, &key, u));
        if (f->cache)
            return FL_OK;
    }
    warn_of_text(f);
    FL_TRY(fl_source_open(&f->source, f->path, &a->source));
    if (!cached)
        return FL_OK;
    return fl_cache_writer_new(&f->writer, a->cache, &key, &a->parser->schema);
}

/* --- reading -------------------------------------------------------------- */

static fl_line line_of(const fl_pump_job *job, const fl_pump_file *f,
                       const char *at, size_t len, uint64_t number)
{
    return (fl_line){ .at = at,
                      .end = at + len,
                      .number = number,
                      .file = f->hash,
                      .epoch = job->args.epoch,
                      .head = f->head };
}

/* The first line of the file goes to the format, if it wants it. */
static fl_status read_head(const fl_pump_job *job, fl_pump_file *f,
                           const fl_text *t)
{
    const fl_parser *parser = job->args.parser;
    const char *at = t->data;
    const char *end;
    fl_line l;

    if (!parser->format->head)
        return FL_OK;
    if (t->n_lines == 0 || t->first_line != 1)
        FL_FAIL(FL_ERR_CORRUPT,
                "%s:1: the first line, which may be a header, is longer than "
                "max_line_bytes=%zu; raise this setting if it is right",
                f->path, job->args.source.line_max);
    end = memchr(at, '\n', t->len);
    FL_ASSERT(end);
    l = line_of(job, f, at, (size_t)(end - at), 1);
    if (l.end > l.at && l.end[-1] == '\r')
        l.end--;
    return fl_err_ctx(parser->format->head(parser, &l, &f->head), "%s:1",
                      f->path);
}

static fl_status read_text(const fl_pump_job *job, fl_pump_file *f,
                           fl_pump_unit *u, fl_source_state *state)
{
    FL_TRY(fl_source_next(f->source, &u->text, state));
    if (*state == FL_SOURCE_WAIT)
        return FL_OK;
    if (*state == FL_SOURCE_END) {
        fl_source_close(f->source);
        f->source = NULL;
        return FL_OK;
    }
    u->lines = u->text.n_lines + u->text.too_long.len;
    u->bytes = u->text.len;
    fl_bad_log_lines(job->bad, u->lines);
    if (f->is_begun)
        return FL_OK;
    f->is_begun = true;
    return read_head(job, f, &u->text);
}

fl_status fl_pump_file_read(const fl_pump_job *job, fl_pump_file *f,
                            fl_pump_unit *u, fl_source_state *state)
{
    u->lines = u->bad_lines = u->skipped_lines = u->bytes = 0;
    if (!f->is_open)
        FL_TRY(open_file(job, f, u));
    if (!f->cache) {
        FL_TRY(read_text(job, f, u, state));
    } else if (f->next_chunk == fl_cache_chunks(f->cache)) {
        *state = FL_SOURCE_END;
    } else {
        u->chunk = f->next_chunk++;
        *state = FL_SOURCE_TEXT;
    }
    if (*state == FL_SOURCE_TEXT)
        u->block = f->n_blocks++;
    return FL_OK;
}

/* --- parsing -------------------------------------------------------------- */

typedef struct bad_to {
    const fl_pump_job *job;
    const fl_pump_file *file;
    fl_pump_unit *unit;
} bad_to;

static fl_status add_bad(void *arg, const fl_line *l, const fl_bad *bad)
{
    bad_to *to = arg;

    to->unit->bad_lines++;
    return fl_bad_log_add(to->job->bad, to->file->path, l, bad);
}

static fl_status add_long_lines(bad_to *to)
{
    const fl_text *t = &to->unit->text;
    fl_bad bad = { .slot = FL_NO_SLOT };

    snprintf(bad.reason, sizeof(bad.reason),
             "longer than max_line_bytes=%zu allows",
             to->job->args.source.line_max);
    for (size_t i = 0; i < t->too_long.len; i++) {
        const fl_long_line *of = &t->too_long.data[i];
        fl_line l =
            line_of(to->job, to->file, t->data + of->at, of->len, of->number);

        FL_TRY(add_bad(to, &l, &bad));
    }
    return FL_OK;
}

static fl_status parse_text(const fl_pump_job *job, const fl_pump_file *f,
                            fl_pump_unit *u)
{
    const fl_text *t = &u->text;
    fl_line all = line_of(job, f, t->data, t->len, t->first_line);
    bad_to to = { job, f, u };

    FL_TRY(add_long_lines(&to));
    FL_TRY(fl_parse_lines(job->args.parser, all, &u->rows, add_bad, &to));
    u->skipped_lines = u->rows.n_skipped;
    if (!f->writer)
        return FL_OK;
    return fl_cache_writer_add(f->writer, &u->rows);
}

static fl_status parse_chunk(const fl_pump_file *f, fl_pump_unit *u)
{
    FL_TRY(fl_cache_rows(f->cache, u->chunk, &u->rows));
    u->bytes += u->rows.len * sizeof(*u->rows.words);
    return FL_OK;
}

/* A chunk of which everything was trained is not looked at. */
static bool is_chunk_trained(const fl_pump_file *f, fl_pump_unit *u)
{
    u->n_records = fl_cache_chunk_records(f->cache, u->chunk);
    return u->is_passing && fl_pump_unit_fresh(f, u, 0).lo == u->n_records;
}

fl_status fl_pump_file_parse(const fl_pump_job *job, fl_pump_file *f,
                             fl_pump_unit *u)
{
    fl_records_clear(&u->rows);
    u->is_passing = fl_pump_file_is_passing(f);
    u->first = f->n_passed;
    if (!f->cache)
        FL_TRY(parse_text(job, f, u));
    else if (!is_chunk_trained(f, u))
        FL_TRY(parse_chunk(f, u));
    if (!f->cache)
        u->n_records = u->rows.n;
    if (u->is_passing)
        f->n_passed += u->n_records;
    return FL_OK;
}

/* --- records that were trained before -------------------------------------- */

bool fl_pump_file_is_passing(const fl_pump_file *f)
{
    const fl_ranges *t = f->before ? &f->before->trained : NULL;

    return t && t->len && f->n_passed < t->data[t->len - 1].hi;
}

fl_range fl_pump_unit_fresh(const fl_pump_file *f, const fl_pump_unit *u,
                            uint64_t at)
{
    uint64_t lo = u->first + at, hi = u->first + u->n_records;

    for (size_t i = 0; u->is_passing && i < f->before->trained.len; i++) {
        const fl_range *r = &f->before->trained.data[i];

        if (r->lo <= lo && lo < r->hi)
            lo = r->hi < hi ? r->hi : hi;
        else if (r->lo > lo && r->lo < hi)
            hi = r->lo;
    }
    return (fl_range){ lo - u->first, hi - u->first };
}

static fl_status check_passed(const fl_pump_file *f)
{
    const fl_ranges *t = f->before ? &f->before->trained : NULL;

    if (fl_pump_file_is_passing(f))
        FL_FAIL(FL_ERR_CORRUPT,
                "%s has %" PRIu64 " records, but %" PRIu64
                " of it were trained before: it is another file now; go on "
                "without a position, or bring the file back",
                f->path, f->n_passed, t->data[t->len - 1].hi);
    return FL_OK;
}

/* --- the end -------------------------------------------------------------- */

fl_status fl_pump_file_finish(fl_pump_file *f)
{
    fl_cache_writer *w = f->writer;

    f->writer = NULL;
    if (f->lines == 0)
        FL_INFO("data", "empty file: path=%s", f->path);
    fl_pump_file_release(f);
    if (w)
        FL_TRY(fl_cache_writer_commit(w, f->lines, f->bad_lines));
    return check_passed(f);
}

void fl_pump_file_release(fl_pump_file *f)
{
    if (f->source)
        fl_source_close(f->source);
    if (f->cache)
        fl_cache_close(f->cache);
    if (f->writer)
        fl_cache_writer_drop(f->writer);
    fl_free(f->head);
    f->source = NULL;
    f->cache = NULL;
    f->writer = NULL;
    f->head = NULL;
}
