/* text.c - tables as text, for debugging.
 *
 *     KEY EPOCH short|full FIELD=V,V,... FIELD=V,...
 *
 * One line per row, shard by shard, fields in the order of the accessor's
 * layout, floats with the nine digits that bring back every bit. A short row
 * has the fields of its short form.
 *
 * A dump goes to a temporary name and takes its own at the end. A load checks
 * every line against the layout before the row goes in; rows of the lines
 * before a bad one stay.
 */
#include "flotilla/table.h"

#include <ctype.h>
#include <errno.h>
#include <inttypes.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/vec.h"
#include "table/inside.h"
#include "table/row.h"

/* "-1.23456789e-38," with the separator. */
#define FLOAT_TEXT_MAX 16

/* Key, epoch, form, separators and the end of the line. */
#define LINE_START_MAX 64

static bool has_field(const fl_row_layout *l, const fl_row_field *f,
                      bool is_short)
{
    return !is_short || f->offset < l->short_bytes;
}

/* --- dump ----------------------------------------------------------------- */

typedef struct writer {
    FILE *file;
    const fl_row_layout *layout;
    int err; /* errno of the first failure */
} writer;

static void write_field(FILE *file, const void *row, const fl_row_field *f)
{
    const float *v = (const float *)((const char *)row + f->offset);

    fprintf(file, " %s=", f->name);
    for (uint32_t i = 0; i < f->len; i++)
        fprintf(file, i ? ",%.9g" : "%.9g", (double)v[i]);
}

static bool write_row(void *arg, const fl_row_view *view)
{
    writer *w = arg;

    fprintf(w->file, "%" PRIu64 " %" PRIu32 " %s", view->key, view->epoch,
            view->is_short ? "short" : "full");
    for (int i = 0; i < w->layout->n_fields; i++)
        if (has_field(w->layout, &w->layout->fields[i], view->is_short))
            write_field(w->file, view->row, &w->layout->fields[i]);
    if (putc('\n', w->file) == EOF || ferror(w->file))
        w->err = errno ? errno : EIO;
    return !w->err;
}

static fl_status write_rows(fl_table *t, FILE *file, int *err)
{
    writer w = { .file = file, .layout = &fl_table_acc(t)->layout };

    for (uint32_t shard = 0; shard < FL_TABLE_SHARDS && !w.err; shard++)
        FL_TRY(fl_table_scan(t, shard, 0, write_row, &w));
    if (!w.err && (fflush(file) != 0 || fsync(fileno(file)) != 0))
        w.err = errno;
    *err = w.err;
    return FL_OK;
}

static fl_status cannot(const char *what, const char *path, int err)
{
    FL_FAIL(FL_ERR_IO, "cannot %s %s: %s", what, path, strerror(err));
}

static fl_status dump_as(fl_table *t, const char *temp, const char *path)
{
    FILE *file = fopen(temp, "wxe");
    fl_status st;
    int err = 0;

    if (!file)
        return cannot("create", temp, errno);
    st = write_rows(t, file, &err);
    if (fclose(file) != 0 && !err)
        err = errno;
    if (!st && !err && rename(temp, path) != 0)
        err = errno;
    if (st || err)
        unlink(temp);
    return err && !st ? cannot("write", path, err) : st;
}

fl_status fl_table_dump(fl_table *t, const char *path)
{
    static atomic_uint serial;
    fl_str temp = { 0 };
    fl_status st;

    fl_str_addf(&temp, "%s.tmp-%ld-%u", path, (long)getpid(),
                atomic_fetch_add(&serial, 1));
    st = dump_as(t, temp.data, path);
    fl_str_release(&temp);
    return fl_err_ctx(st, "dumping table %s", fl_table_name(t));
}

/* --- load ----------------------------------------------------------------- */

typedef struct reader {
    fl_table *table;
    const fl_row_layout *layout;
    const char *path;
    FILE *file;
    uint64_t line_no;
    char *line; /* room for the longest line that dump writes */
    size_t line_bytes;
    char *row;
} reader;

#define CORRUPT(r, ...)                                                        \
    do {                                                                       \
        (void)fl_err_set(FL_ERR_CORRUPT, __VA_ARGS__);                         \
        return fl_err_ctx(FL_ERR_CORRUPT, "%s:%" PRIu64, (r)->path,            \
                          (r)->line_no);                                       \
    } while (0)

static fl_status parse_u64(const reader *r, char **at, uint64_t max,
                           uint64_t *out)
{
    char *end = *at;

    errno = 0;
    *out = isdigit((unsigned char)**at) ? strtoull(*at, &end, 10) : 0;
    if (end == *at || errno || *out > max || *end != ' ')
        CORRUPT(r, "'%.40s' does not start with a number up to %" PRIu64, *at,
                max);
    *at = end + 1;
    return FL_OK;
}

static fl_status parse_form(const reader *r, char **at, bool *is_short)
{
    size_t n = strcspn(*at, " ");

    *is_short = n == 5 && !strncmp(*at, "short", n);
    if (!*is_short && (n != 4 || strncmp(*at, "full", n)))
        CORRUPT(r, "'%.40s' does not start with short or full", *at);
    if (*is_short && !r->layout->short_bytes)
        CORRUPT(r, "rows of this table have no short form");
    *at += n;
    return FL_OK;
}

static fl_status parse_values(const reader *r, char **at, const fl_row_field *f)
{
    float *v = (float *)(r->row + f->offset);

    for (uint32_t i = 0; i < f->len; i++) {
        char *end;

        if (i && *(*at)++ != ',')
            CORRUPT(r, "%s has %u values and not %u", f->name, i, f->len);
        v[i] = strtof(*at, &end);
        if (end == *at || isspace((unsigned char)**at))
            CORRUPT(r, "%s: '%.40s' does not start with a number", f->name,
                    *at);
        *at = end;
    }
    if (**at && **at != ' ')
        CORRUPT(r, "%s: '%.40s' comes after its %u values", f->name, *at,
                f->len);
    return FL_OK;
}

static fl_status parse_field(const reader *r, char **at, const fl_row_field *f)
{
    size_t n = strlen(f->name);

    if (**at != ' ')
        CORRUPT(r, "field %s is missing", f->name);
    if (strncmp(*at + 1, f->name, n) || (*at)[1 + n] != '=')
        CORRUPT(r, "here is '%.40s', where field %s is expected", *at + 1,
                f->name);
    *at += 1 + n + 1;
    return parse_values(r, at, f);
}

static fl_status parse_fields(const reader *r, char *at, bool is_short)
{
    for (int i = 0; i < r->layout->n_fields; i++)
        if (has_field(r->layout, &r->layout->fields[i], is_short))
            FL_TRY(parse_field(r, &at, &r->layout->fields[i]));
    if (*at)
        CORRUPT(r, "'%.40s' is more than a row has", at + 1);
    return FL_OK;
}

static fl_status parse_key(const reader *r, char **at, uint64_t *key)
{
    uint64_t height = fl_table_acc(r->table)->config->height;

    return parse_u64(r, at, height ? height - 1 : UINT64_MAX, key);
}

static fl_status load_line(const reader *r)
{
    char *at = r->line, *end = strchr(r->line, '\n');
    uint64_t key, epoch;
    bool is_short;

    if (!end)
        CORRUPT(r, "the line has no end or is longer than a row can be");
    *end = '\0';
    memset(r->row, 0, r->layout->bytes);
    FL_TRY(parse_key(r, &at, &key));
    FL_TRY(parse_u64(r, &at, FL_ROW_EPOCH_MASK, &epoch));
    FL_TRY(parse_form(r, &at, &is_short));
    FL_TRY(parse_fields(r, at, is_short));
    fl_row_set_epoch(r->row, (uint32_t)epoch);
    return fl_err_ctx(fl_table_restore(r->table, key, is_short, r->row),
                      "%s:%" PRIu64, r->path, r->line_no);
}

static fl_status load_lines(reader *r)
{
    while (fgets(r->line, (int)r->line_bytes, r->file)) {
        r->line_no++;
        FL_TRY(load_line(r));
    }
    return ferror(r->file) ? cannot("read", r->path, errno) : FL_OK;
}

static size_t longest_line(const fl_row_layout *l)
{
    size_t n = LINE_START_MAX;

    for (int i = 0; i < l->n_fields; i++)
        n += strlen(l->fields[i].name) + 2 +
             (size_t)l->fields[i].len * FLOAT_TEXT_MAX;
    return n;
}

fl_status fl_table_load(fl_table *t, const char *path)
{
    reader r = { .table = t, .path = path };
    fl_status st;

    r.layout = &fl_table_acc(t)->layout;
    r.line_bytes = longest_line(r.layout);
    r.file = fopen(path, "re");
    if (!r.file)
        return cannot("open", path, errno);
    r.line = fl_try_alloc(r.line_bytes);
    r.row = fl_try_alloc(r.layout->bytes);
    st = r.line && r.row ? load_lines(&r)
                         : fl_err_set(FL_ERR_NOMEM, "no memory for a row");
    fl_data_free(r.line, r.line_bytes);
    fl_data_free(r.row, r.layout->bytes);
    fclose(r.file);
    return fl_err_ctx(st, "loading table %s", fl_table_name(t));
}
