/* text.c - tables as text, for debugging.
 *
 *     KEY EPOCH short|full FIELD=V,V,... FIELD=V,...
 *
 * One line per row, shard by shard, fields in the order of the accessor's
 * layout, floats with the nine digits that bring back every bit. A short row
 * has the fields of its short form.
 *
 * A load checks every line against the layout before the row goes in; rows of
 * the lines before a bad one stay.
 */
#include "flotilla/table.h"

#include <ctype.h>
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/file.h"
#include "base/file_writer.h"
#include "base/vec.h"
#include "table/inside.h"
#include "table/row.h"

/* "-1.23456789e-38," with the separator. */
#define FLOAT_TEXT_MAX 16

/* Key, epoch, form, separators and the end of the line. */
#define LINE_START_MAX 64

/* Lines of a dump are gathered to about so many bytes. */
#define FLUSH_BYTES ((size_t)256 << 10)

static bool has_field(const fl_row_layout *l, const fl_row_field *f,
                      bool is_short)
{
    return !is_short || f->offset < l->short_bytes;
}

/* --- dump ----------------------------------------------------------------- */

typedef struct writer {
    fl_file_writer *file;
    const fl_row_layout *layout;
    fl_str text; /* lines on their way to the file */
    fl_status st;
} writer;

static void print_field(fl_str *to, const void *row, const fl_row_field *f)
{
    const float *v = (const float *)((const char *)row + f->offset);

    fl_str_addf(to, " %s=", f->name);
    for (uint32_t i = 0; i < f->len; i++)
        fl_str_addf(to, i ? ",%.9g" : "%.9g", (double)v[i]);
}

static fl_status flush(writer *w)
{
    fl_status st =
        fl_file_writer_add(w->file, fl_str_text(&w->text), w->text.len);

    w->text.len = 0;
    return st;
}

static bool print_row(void *arg, const fl_row_view *view)
{
    writer *w = arg;

    fl_str_addf(&w->text, "%" PRIu64 " %" PRIu32 " %s", view->key, view->epoch,
                view->is_short ? "short" : "full");
    for (int i = 0; i < w->layout->n_fields; i++)
        if (has_field(w->layout, &w->layout->fields[i], view->is_short))
            print_field(&w->text, view->row, &w->layout->fields[i]);
    fl_str_add(&w->text, "\n");
    if (w->text.len >= FLUSH_BYTES)
        w->st = flush(w);
    return !w->st;
}

static fl_status dump_rows(fl_table *t, writer *w)
{
    for (uint32_t shard = 0; shard < FL_TABLE_SHARDS; shard++) {
        FL_TRY(fl_table_scan(t, shard, 0, print_row, w));
        FL_TRY(w->st);
    }
    return flush(w);
}

static fl_status dump(fl_table *t, const char *path)
{
    writer w = { .layout = &fl_table_acc(t)->layout };
    fl_status st;

    FL_TRY(fl_file_writer_open(&w.file, path));
    st = dump_rows(t, &w);
    fl_str_release(&w.text);
    if (!st)
        return fl_file_writer_commit(w.file);
    fl_file_writer_drop(w.file);
    return st;
}

fl_status fl_table_dump(fl_table *t, const char *path)
{
    return fl_err_ctx(dump(t, path), "dumping table %s", fl_table_name(t));
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
    return ferror(r->file) ? fl_file_failed("read", r->path, errno) : FL_OK;
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
        return fl_file_failed("open", path, errno);
    r.line = fl_try_alloc(r.line_bytes);
    r.row = fl_try_alloc(r.layout->bytes);
    st = r.line && r.row ? load_lines(&r)
                         : fl_err_set(FL_ERR_NOMEM, "no memory for a row");
    fl_data_free(r.line, r.line_bytes);
    fl_data_free(r.row, r.layout->bytes);
    fclose(r.file);
    return fl_err_ctx(st, "loading table %s", fl_table_name(t));
}
