/* fmt_csv.c - tables in text: columns apart by a character, quoted as in RFC
 * 4180, with or without a header. docs/formats/csv.md has the rules.
 *
 * A line is cut into fields first, then the slots are written in their order:
 * a header may have the columns in another one. */
#include "data/format/fmt_csv.h"

#include <inttypes.h>
#include <math.h>

#include "base/hash.h"
#include "data/format/fmt_help.h"
#include "data/format/scan.h"

#define SEP_BYTES 8

typedef struct csv {
    fl_csv_columns columns;
    uint32_t *column_of; /* of each slot */
    char sep[SEP_BYTES];
    size_t sep_len;
    bool quote, header;
    const char *na;     /* a number that is written like this is missing */
    uint64_t hash_size; /* 0: all 64 bits */
} csv;

/* --- opening -------------------------------------------------------------- */

static bool in_numbers(char c)
{
    return strchr("\"\r\n+-.", c) || (c >= '0' && c <= '9') ||
           (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
}

static bool is_separator(const char *text)
{
    size_t len = strlen(text);

    for (size_t i = 0; i < len; i++)
        if (in_numbers(text[i]))
            return false;
    return len > 0 && len < SEP_BYTES;
}

static fl_status read_separator(const fl_parser *p, csv *s)
{
    static const struct {
        const char *name, *sep;
    } names[] = { { "comma", "," },
                  { "tab", "\t" },
                  { "semicolon", ";" },
                  { "space", " " } };
    const char *text = fl_parser_option(p, "sep");

    for (size_t i = 0; i < FL_LEN(names); i++)
        if (strcmp(text, names[i].name) == 0)
            text = names[i].sep;
    if (!is_separator(text))
        FL_FAIL(FL_ERR_INVAL,
                "format csv: sep=%s: a separator is comma, tab, semicolon, "
                "space or up to %d characters that are in no number",
                text, SEP_BYTES - 1);
    s->sep_len = strlen(text);
    memcpy(s->sep, text, s->sep_len);
    return FL_OK;
}

static fl_status read_missing(const fl_parser *p, float *out)
{
    const char *text = fl_parser_option(p, "missing");

    if (!fl_csv_read_missing(text, out))
        FL_FAIL(FL_ERR_INVAL, "format csv: missing=%s is no number and not nan",
                text);
    return FL_OK;
}

static fl_status read_options(const fl_parser *p, csv *s)
{
    int64_t hash_size;

    FL_TRY(read_separator(p, s));
    FL_TRY(read_missing(p, &s->columns.missing));
    s->na = fl_parser_option(p, "na");
    FL_TRY(fl_parser_option_bool(p, "quote", &s->quote));
    FL_TRY(fl_parser_option_bool(p, "header", &s->header));
    FL_TRY(fl_parser_option_bool(p, "shared", &s->columns.shared));
    FL_TRY(fl_parser_option_int(p, "hash_size", 0, INT64_MAX, &hash_size));
    s->hash_size = (uint64_t)hash_size;
    return fl_csv_columns_parse(&s->columns, fl_parser_option(p, "columns"));
}

/* Names that a header could not have. */
static fl_status check_name(const csv *s, const char *name)
{
    if (s->header && s->quote && strchr(name, '"'))
        FL_FAIL(FL_ERR_INVAL,
                "format csv: column %s has a quote in its name: such a header "
                "needs quote=no",
                name);
    if (s->header && !s->quote && strstr(name, s->sep))
        FL_FAIL(FL_ERR_INVAL,
                "format csv: column %s has the separator in its name: such a "
                "header needs quote=yes",
                name);
    return FL_OK;
}

static fl_status check_columns(const csv *s)
{
    for (size_t i = 0; i < s->columns.list.len; i++) {
        const fl_csv_column *c = &s->columns.list.data[i];

        FL_TRY(check_name(s, c->name));
        if (fl_csv_is_list(c->kind) && strchr(s->sep, c->bar))
            FL_FAIL(FL_ERR_INVAL,
                    "format csv: column %s is a list, whose values are apart "
                    "by %c: that cannot be the separator as well; write "
                    "%s:hashes(;) where it is another",
                    c->name, c->bar, c->name);
    }
    return FL_OK;
}

static fl_status csv_open(fl_parser *p, const char *sample)
{
    csv *s = fl_alloc(sizeof(*s));

    (void)sample;
    p->state = s;
    FL_TRY(read_options(p, s));
    FL_TRY(check_columns(s));
    FL_TRY(fl_csv_columns_pick(&s->columns, p, s->hash_size));
    s->column_of = fl_alloc(p->schema.n_slots * sizeof(*s->column_of));
    for (uint32_t i = 0; i < s->columns.list.len; i++)
        if (s->columns.list.data[i].slot != FL_NO_SLOT)
            s->column_of[s->columns.list.data[i].slot] = i;
    return FL_OK;
}

static void csv_close(fl_parser *p)
{
    csv *s = p->state;

    if (!s)
        return;
    fl_csv_columns_release(&s->columns);
    fl_free(s->column_of);
    fl_free(s);
}

/* --- fields --------------------------------------------------------------- */

static bool at_separator(const csv *s, const char *p, const char *end)
{
    return *p == *s->sep &&
           (s->sep_len == 1 || ((size_t)(end - p) >= s->sep_len &&
                                memcmp(p, s->sep, s->sep_len) == 0));
}

/* Reads the field at *at and moves it behind the separator, or to NULL behind
   the last field. */
static bool next_field(const csv *s, const char **at, const char *end,
                       fl_csv_field *out, fl_bad *bad)
{
    const char *p = *at;

    out->quoted = s->quote && p < end && *p == '"';
    out->at = p + out->quoted;
    if (out->quoted) {
        for (p++; p < end && (*p != '"' || (p + 1 < end && p[1] == '"')); p++)
            p += *p == '"';
        if (p == end)
            return fl_help_bad(bad, FL_NO_SLOT,
                               "a quote is not closed in its line (line breaks "
                               "inside quotes are not taken)");
        out->end = p++;
        if (p < end && !at_separator(s, p, end))
            return fl_help_bad(bad, FL_NO_SLOT, "text follows a closing quote");
    } else {
        while (p < end && !at_separator(s, p, end))
            p++;
        out->end = p;
    }
    *at = p < end ? p + s->sep_len : NULL;
    return true;
}

static fl_csv_field trim(fl_csv_field f)
{
    while (f.at < f.end && fl_help_is_blank(*f.at))
        f.at++;
    while (f.end > f.at && fl_help_is_blank(f.end[-1]))
        f.end--;
    return f;
}

static int shown(const fl_csv_field *f)
{
    return f->end - f->at < 40 ? (int)(f->end - f->at) : 40;
}

/* --- header --------------------------------------------------------------- */

/* The columns of one file in their order: fields of described ones. */
typedef struct csv_head {
    size_t n;
    int column[]; /* -1: not described */
} csv_head;

#define BOM "\xef\xbb\xbf"

static const char *skip_bom(const char *at, const char *end)
{
    return end - at >= 3 && memcmp(at, BOM, 3) == 0 ? at + 3 : at;
}

static fl_status name_column(const csv *s, const fl_csv_field *f,
                             csv_head *head)
{
    int column =
        fl_csv_columns_find(&s->columns, f->at, (size_t)(f->end - f->at));

    if (column < 0 && !s->columns.rest)
        FL_FAIL(FL_ERR_INVAL,
                "the header has a column '%.*s' that is not described: add "
                "%.*s:skip, or * for all others",
                shown(f), f->at, shown(f), f->at);
    for (size_t i = 0; i < head->n && column >= 0; i++)
        if (head->column[i] == column)
            FL_FAIL(FL_ERR_INVAL, "the header has the column '%.*s' twice",
                    shown(f), f->at);
    head->column[head->n++] = column;
    return FL_OK;
}

static fl_status name_columns(const csv *s, const fl_line *l, csv_head *head)
{
    const char *at = skip_bom(l->at, l->end);
    fl_bad bad;
    fl_csv_field f;

    while (at) {
        if (!next_field(s, &at, l->end, &f, &bad))
            FL_FAIL(FL_ERR_INVAL, "the header cannot be read: %s", bad.reason);
        f = trim(f);
        FL_TRY(name_column(s, &f, head));
    }
    return FL_OK;
}

static fl_status check_header(const fl_parser *p, const csv_head *head)
{
    const csv *s = p->state;

    for (size_t i = 0; i < s->columns.list.len; i++) {
        const fl_csv_column *c = &s->columns.list.data[i];
        size_t k = 0;

        while (k < head->n && head->column[k] != (int)c->field)
            k++;
        if (k == head->n &&
            (c->slot != FL_NO_SLOT || p->part.column == (int)c->field))
            FL_FAIL(FL_ERR_INVAL, "the header has no column called %s",
                    c->name);
    }
    return FL_OK;
}

static fl_status csv_read_head(const fl_parser *p, const fl_line *l,
                               void **head)
{
    const csv *s = p->state;
    size_t n_max = (size_t)(l->end - l->at) + 1;
    csv_head *h;
    fl_status st;

    if (!s->header)
        return FL_OK;
    h = fl_alloc(sizeof(*h) + n_max * sizeof(*h->column));
    st = name_columns(s, l, h);
    if (!st)
        st = check_header(p, h);
    if (st)
        fl_free(h);
    else
        *head = h;
    return st;
}

/* --- lines ---------------------------------------------------------------- */

static bool bad_field(fl_bad *bad, const fl_csv_column *c,
                      const fl_csv_field *f, const char *what)
{
    return fl_help_bad(bad, c->slot, "column %.40s: '%.*s' is no %s", c->name,
                       shown(f), f->at, what);
}

static bool wrong_length(const csv *s, const csv_head *head, size_t n,
                         fl_bad *bad)
{
    size_t right = head ? head->n : s->columns.n_fields;

    if (head)
        return fl_help_bad(bad, FL_NO_SLOT,
                           "the line has %zu columns, its header %zu", n,
                           right);
    return fl_help_bad(bad, FL_NO_SLOT,
                       "the line has %zu columns, described are %zu", n, right);
}

/* Puts the fields of described columns in their places. */
static bool split(const csv *s, const fl_line *l, fl_csv_field *fields,
                  fl_bad *bad)
{
    const csv_head *head = l->head;
    size_t n_known = head ? head->n : s->columns.n_fields;
    const char *at = l->at;
    size_t n = 0;
    fl_csv_field f;

    for (; at; n++) {
        if (!next_field(s, &at, l->end, &f, bad))
            return false;
        if (n < n_known && (!head || head->column[n] >= 0))
            fields[head ? (size_t)head->column[n] : n] = f;
    }
    if (n < n_known || (n > n_known && (head || !s->columns.rest)))
        return wrong_length(s, head, n, bad);
    return true;
}

static bool is_text(const fl_csv_field *f, const char *text, size_t len)
{
    return (size_t)(f->end - f->at) == len && memcmp(f->at, text, len) == 0;
}

static bool put_float(const csv *s, const fl_csv_column *c,
                      const fl_csv_field *f, fl_row_writer *w, fl_bad *bad)
{
    fl_csv_field t = trim(*f);
    float x = c->missing;

    if (t.at < t.end && !is_text(&t, s->na, strlen(s->na)) &&
        (!fl_scan_f32(&t.at, t.end, &x) || t.at != t.end))
        return bad_field(bad, c, f, "number");
    fl_row_float(w, x);
    return true;
}

static bool put_id(const fl_parser *p, const fl_csv_column *c,
                   const fl_csv_field *f, fl_row_writer *w, fl_bad *bad)
{
    bool hex = c->kind == FL_CSV_HEX;
    fl_csv_field t = trim(*f);
    uint64_t id;
    bool good = t.at < t.end && (hex ? fl_scan_hex(&t.at, t.end, &id)
                                     : fl_scan_u64(&t.at, t.end, &id));

    if (!good || t.at != t.end)
        return bad_field(bad, c, f, hex ? "hexadecimal id" : "decimal id");
    fl_row_id(w, id);
    return fl_help_check_id(p, (uint32_t)c->slot, id, bad);
}

/* 1 for one of the texts of the column, which are apart by bars, else 0. */
static bool put_label(const fl_parser *p, const fl_csv_column *c,
                      const fl_csv_field *f, fl_row_writer *w, fl_bad *bad)
{
    fl_csv_field t = trim(*f);
    bool is_one = false;
    size_t len;

    if (t.at == t.end)
        return bad_field(bad, c, f, "label");
    for (const char *at = c->arg; at; at = at[len] ? at + len + 1 : NULL) {
        len = strcspn(at, "|");
        is_one |= is_text(&t, at, len);
    }
    if (p->schema.slots[c->slot].kind == FL_SLOT_FLOATS)
        fl_row_float(w, is_one);
    else
        fl_row_id(w, is_one);
    return true;
}

static bool put_time(const fl_csv_column *c, const fl_csv_field *f,
                     fl_row_writer *w, fl_bad *bad)
{
    fl_csv_field t = trim(*f);
    int64_t seconds;

    if (!fl_csv_time_read(c->arg, t.at, t.end, &seconds))
        return fl_help_bad(bad, c->slot,
                           "column %.40s: '%.*s' is no time of the form %.40s",
                           c->name, shown(f), f->at, c->arg);
    fl_row_id(w, (uint64_t)seconds);
    return true;
}

static void put_hash(const csv *s, const fl_csv_column *c,
                     const fl_csv_field *f, fl_row_writer *w)
{
    uint64_t h = c->hash;

    for (const char *at = f->at; at < f->end; at++) {
        h = fl_csv_hash_step(h, *at);
        at += f->quoted && *at == '"';
    }
    fl_row_id(w, fl_csv_id(h, s->hash_size));
}

static int csv_find_column(const fl_parser *p, const char *name)
{
    const csv *s = p->state;

    return fl_csv_columns_find(&s->columns, name, strlen(name));
}

/* The text without quotes and without blanks around it. */
static bool csv_hash_column(const fl_parser *p, const fl_line *l, int column,
                            uint64_t *hash)
{
    fl_csv_field fields[FL_CSV_COLUMNS_MAX];
    uint64_t h = FL_CSV_HASH_START;
    fl_csv_field f;

    if (!split(p->state, l, fields, NULL))
        return false;
    f = trim(fields[column]);
    for (const char *at = f.at; at < f.end; at++) {
        h = fl_csv_hash_step(h, *at);
        at += f.quoted && *at == '"';
    }
    *hash = fl_mix64(h);
    return true;
}

static uint32_t count_values(const fl_csv_column *c, const fl_csv_field *f)
{
    uint32_t n = 1;

    if (fl_csv_is_text(c->kind))
        return fl_csv_text_count(c->kind, f);
    if (!fl_csv_is_list(c->kind))
        return 1;
    if (f->at == f->end)
        return 0;
    for (const char *at = f->at; at < f->end; at++)
        n += *at == c->bar;
    return n;
}

/* One value of a column: all of the field, or a piece of a list. */
static bool put_value(const fl_parser *p, const fl_csv_column *c,
                      const fl_csv_field *f, fl_row_writer *w, fl_bad *bad)
{
    const csv *s = p->state;

    if (c->kind == FL_CSV_FLOAT)
        return put_float(s, c, f, w, bad);
    if (c->kind == FL_CSV_LABEL)
        return put_label(p, c, f, w, bad);
    if (c->kind == FL_CSV_TIME)
        return put_time(c, f, w, bad);
    if (!fl_csv_is_hash(c->kind))
        return put_id(p, c, f, w, bad);
    put_hash(s, c, f, w);
    return true;
}

static bool put_field(const fl_parser *p, const fl_csv_column *c,
                      fl_csv_field f, uint32_t n, fl_row_writer *w, fl_bad *bad)
{
    fl_csv_field piece = f;

    for (uint32_t i = 0; i < n; i++) {
        while (fl_csv_is_list(c->kind) && f.at < f.end && *f.at != c->bar)
            f.at++;
        if (fl_csv_is_list(c->kind))
            piece.end = f.at++;
        if (!put_value(p, c, &piece, w, bad))
            return false;
        piece.at = f.at;
    }
    return true;
}

static bool put_fields(const fl_parser *p, const fl_csv_field *fields,
                       fl_row_writer *w, fl_bad *bad)
{
    const csv *s = p->state;
    uint32_t ragged = 0;

    for (uint32_t slot = 0; slot < p->schema.n_slots; slot++) {
        uint32_t i = s->column_of[slot];
        const fl_csv_column *c = &s->columns.list.data[i];
        uint32_t n = count_values(c, &fields[c->field]);

        if (!fl_help_check_count(p, slot, n, bad))
            return false;
        fl_row_slot(w, &p->schema.slots[slot], ragged, n);
        ragged += p->schema.slots[slot].width == 0;
        if (fl_csv_is_text(c->kind))
            fl_csv_text_put(c, &fields[c->field], s->hash_size, w);
        else if (!put_field(p, c, fields[c->field], n, w, bad))
            return false;
    }
    return true;
}

static size_t count_all(const fl_parser *p, const fl_csv_field *fields)
{
    const csv *s = p->state;
    size_t n = 0;

    for (uint32_t slot = 0; slot < p->schema.n_slots; slot++) {
        const fl_csv_column *c = &s->columns.list.data[s->column_of[slot]];

        n += count_values(c, &fields[c->field]);
    }
    return n;
}

static bool csv_line(const fl_parser *p, const fl_line *l, fl_row_writer *w,
                     fl_bad *bad, fl_status *st)
{
    fl_csv_field fields[FL_CSV_COLUMNS_MAX];

    if (!split(p->state, l, fields, bad))
        return false;
    *st = fl_row_open(w, count_all(p, fields));
    if (*st)
        return false;
    if (!put_fields(p, fields, w, bad)) {
        fl_row_drop(w);
        return false;
    }
    fl_row_close(w);
    return true;
}

/* --- printing ------------------------------------------------------------- */

/* What is missing stays empty. */
static void print_float(float x, fl_str *out)
{
    if (!isnan(x))
        fl_print_f32(out, x);
}

static void print_values(const fl_parser *p, const fl_csv_column *c,
                         const fl_row_part *part, fl_str *out)
{
    for (uint32_t i = 0; i < part->n; i++) {
        if (i)
            fl_str_addf(out, "%c", c->bar);
        if (p->schema.slots[c->slot].kind == FL_SLOT_FLOATS)
            print_float(fl_help_float(part, i), out);
        else if (c->kind == FL_CSV_HEX)
            fl_str_addf(out, "%" PRIx64, fl_help_id(part, i));
        else
            fl_str_addf(out, "%" PRIu64, fl_help_id(part, i));
    }
}

/* Columns that are not wanted stay empty. Of a hashed one only the id is
   known, so that is printed; it has to be read back as an id, and so have
   labels and times. Of several ways
   to read a column the first is printed. */
static void csv_print(const fl_parser *p, const uint32_t *row, fl_str *out)
{
    const csv *s = p->state;
    fl_row_part parts[FL_SLOTS_MAX];

    fl_help_parts(&p->schema, row, parts);
    for (size_t i = 0; i < s->columns.list.len; i++) {
        const fl_csv_column *c = &s->columns.list.data[i];

        if (!fl_csv_is_first(&s->columns, i))
            continue;
        if (i)
            fl_str_add(out, s->sep);
        if (c->slot != FL_NO_SLOT)
            print_values(p, c, &parts[c->slot], out);
    }
}

static void csv_print_head(const fl_parser *p, fl_str *out)
{
    const csv *s = p->state;

    if (!s->header)
        return;
    for (size_t i = 0; i < s->columns.list.len; i++) {
        const char *name = s->columns.list.data[i].name;

        if (!fl_csv_is_first(&s->columns, i))
            continue;
        if (i)
            fl_str_add(out, s->sep);
        fl_str_addf(out, strstr(name, s->sep) ? "\"%s\"" : "%s", name);
    }
    fl_str_add(out, "\n");
}

const fl_format fl_format_csv = {
    .name = "csv",
    .doc = "a table: columns apart by a character, quoted as in RFC 4180; one "
           "slot per column, named like it",
    .options = {
        { .name = "columns", .otherwise = "",
          .doc = "the columns in their order, or by name with a header: "
                 "NAME:KIND NAME:KIND ..., where KIND is float, id, ids, hex, "
                 "hash, hashes, words, trigrams, label(TEXT), time(FORM) or "
                 "skip, or several as KIND+KIND; a last * skips all others" },
        { .name = "sep", .otherwise = "comma",
          .doc = "comma, tab, semicolon, space or a few characters" },
        { .name = "header", .otherwise = "no",
          .doc = "yes: the first line of each file names its columns" },
        { .name = "quote", .otherwise = "yes",
          .doc = "no: a double quote is a character like any other" },
        { .name = "missing", .otherwise = "0",
          .doc = "value of an empty float; nan: it is missing" },
        { .name = "na", .otherwise = "",
          .doc = "a float that is written like this is empty, too" },
        { .name = "hash_size", .otherwise = "1000001",
          .doc = "hashed texts become ids below it; 0: of 64 bits" },
        { .name = "shared", .otherwise = "no",
          .doc = "yes: a text has the same id in all columns" },
    },
    .open = csv_open,
    .close = csv_close,
    .head = csv_read_head,
    .line = csv_line,
    .find_column = csv_find_column,
    .hash_column = csv_hash_column,
    .print = csv_print,
    .print_head = csv_print_head,
};
