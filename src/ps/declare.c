/* declare.c - the text of a declaration, line by line. */
#include "ps/declare.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/map.h"
#include "ir/program.h"

/* Between the lines that start a program and those that run for a gradient. */
#define CUT "---"

#define NAME_MAX_BYTES 1024
#define NUMBER_MAX_BYTES 20

/* What a message shows of a line, and how much of it before the place where
   two lines differ. */
#define SHOWN_MAX 160
#define SHOWN_BEFORE 60

/* A piece of the text, not NUL-terminated. */
typedef struct piece {
    const char *at, *end;
} piece;

typedef struct reader {
    fl_declaration *d;
    fl_map tables, blocks; /* names so far */
    size_t line;
    fl_declared *open; /* the program that lines with a bar belong to */
    fl_str lines;      /* those since the program's line or its cut */
    bool is_cut;       /* the open program has had its cut */
} reader;

/* --- pieces --------------------------------------------------------------- */

static size_t piece_len(piece p)
{
    return (size_t)(p.end - p.at);
}

static bool piece_is(piece p, const char *text)
{
    return piece_len(p) == strlen(text) && !memcmp(p.at, text, piece_len(p));
}

static int shown_len(piece p)
{
    return (int)(piece_len(p) < SHOWN_MAX ? piece_len(p) : SHOWN_MAX);
}

/* Up to the next byte `stop`, which is dropped. */
static piece cut(piece *rest, char stop)
{
    const char *found = memchr(rest->at, stop, piece_len(*rest));
    piece p = { rest->at, found ? found : rest->end };

    rest->at = found ? found + 1 : rest->end;
    return p;
}

static char *piece_copy(piece p)
{
    char *copy = fl_alloc(piece_len(p) + 1);

    memcpy(copy, p.at, piece_len(p));
    return copy;
}

/* Digits alone: strtoull would take a sign and spaces. */
static bool read_number(piece p, uint64_t *out)
{
    char buf[NUMBER_MAX_BYTES + 1] = "";

    if (p.at == p.end || piece_len(p) > NUMBER_MAX_BYTES)
        return false;
    memcpy(buf, p.at, piece_len(p));
    errno = 0;
    *out = strtoull(buf, NULL, 10);
    return !errno && strspn(buf, "0123456789") == piece_len(p);
}

/* --- declarations --------------------------------------------------------- */

static fl_status read_name(const reader *r, piece p, char **out)
{
    char *name;
    fl_status st;

    if (p.at == p.end)
        FL_FAIL(FL_ERR_INVAL, "line %zu has no name", r->line);
    if (piece_len(p) > NAME_MAX_BYTES)
        FL_FAIL(FL_ERR_INVAL, "line %zu: a name of %zu bytes is too long",
                r->line, piece_len(p));
    name = piece_copy(p);
    st = fl_err_ctx(fl_check_name(name), "line %zu", r->line);
    if (st) {
        fl_free(name);
        return st;
    }
    *out = name;
    return FL_OK;
}

/* Names are told apart within their kind, which has a largest number. */
static fl_status check_new(const reader *r, fl_declared_kind kind,
                           const char *name)
{
    const fl_map *m = kind == FL_DECLARED_TABLE ? &r->tables : &r->blocks;
    const char *what = kind == FL_DECLARED_TABLE ? "table" : "block";

    if (fl_map_find(m, name))
        FL_FAIL(FL_ERR_INVAL, "line %zu: there is a %s %s already", r->line,
                what, name);
    if (m->len >= FL_DECLARED_MAX)
        FL_FAIL(FL_ERR_INVAL, "line %zu: there are more than %d %ss", r->line,
                FL_DECLARED_MAX, what);
    return FL_OK;
}

/* Takes the name, also on failure. */
static fl_status add(reader *r, fl_declared_kind kind, char *name)
{
    fl_map *m = kind == FL_DECLARED_TABLE ? &r->tables : &r->blocks;
    fl_status st = check_new(r, kind, name);

    if (st) {
        fl_free(name);
        return st;
    }
    fl_vec_push(&r->d->items,
                ((fl_declared){ .kind = kind, .line = r->line, .name = name }));
    fl_map_put(m, name, r);
    return FL_OK;
}

static fl_declared *last_item(const reader *r)
{
    return &r->d->items.data[r->d->items.len - 1];
}

static fl_status read_table(reader *r, piece rest)
{
    char *name;

    FL_TRY(read_name(r, cut(&rest, ' '), &name));
    FL_TRY(add(r, FL_DECLARED_TABLE, name));
    last_item(r)->text = piece_copy(rest);
    return FL_OK;
}

static fl_status read_program(reader *r, piece rest)
{
    char *name;
    uint64_t n;

    FL_TRY(read_name(r, cut(&rest, ' '), &name));
    FL_TRY(add(r, FL_DECLARED_PROGRAM, name));
    if (!read_number(rest, &n) || !n)
        FL_FAIL(FL_ERR_INVAL,
                "line %zu: block %s has the size '%.*s'; say program NAME N "
                "with N floats from 1 on",
                r->line, name, shown_len(rest), rest.at);
    last_item(r)->n = n;
    r->open = last_item(r);
    return FL_OK;
}

static fl_status read_seed(reader *r, piece rest)
{
    if (r->line != 1)
        FL_FAIL(FL_ERR_INVAL, "line %zu: the seed belongs in the first line",
                r->line);
    if (!read_number(rest, &r->d->seed))
        FL_FAIL(FL_ERR_INVAL, "line %zu: the seed '%.*s' is no whole number",
                r->line, shown_len(rest), rest.at);
    return FL_OK;
}

/* --- lines of a program --------------------------------------------------- */

static fl_status read_program_line(reader *r, piece line)
{
    line.at++;
    if (!r->open)
        FL_FAIL(FL_ERR_INVAL,
                "line %zu starts with a bar, but belongs to no program",
                r->line);
    if (piece_is(line, CUT)) {
        if (r->is_cut)
            FL_FAIL(FL_ERR_INVAL, "line %zu: block %s has a second |" CUT,
                    r->line, r->open->name);
        r->is_cut = true;
        r->open->startup = fl_strdup(fl_str_text(&r->lines));
        fl_str_release(&r->lines);
        return FL_OK;
    }
    if (line.at < line.end && *line.at == ' ')
        line.at++;
    fl_str_addf(&r->lines, "%.*s\n", (int)piece_len(line), line.at);
    return FL_OK;
}

static void close_program(reader *r)
{
    if (!r->open)
        return;
    r->open->text = fl_strdup(fl_str_text(&r->lines));
    if (!r->is_cut)
        r->open->startup = fl_strdup("");
    fl_str_release(&r->lines);
    r->open = NULL;
    r->is_cut = false;
}

/* --- the text ------------------------------------------------------------- */

static fl_status read_line(reader *r, piece line)
{
    static const struct {
        const char *word;
        fl_status (*read)(reader *r, piece rest);
    } kinds[] = { { "table", read_table },
                  { "program", read_program },
                  { "seed", read_seed } };
    piece rest = line, word;

    if (line.at < line.end && *line.at == '|')
        return read_program_line(r, line);
    close_program(r);
    word = cut(&rest, ' ');
    for (size_t i = 0; i < FL_LEN(kinds); i++)
        if (piece_is(word, kinds[i].word))
            return kinds[i].read(r, rest);
    FL_FAIL(FL_ERR_INVAL,
            "line %zu is '%.*s'; a line starts with table, program, seed or a "
            "bar",
            r->line, shown_len(line), line.at);
}

/* Nothing that a terminal would take for a command, and no end in mid-text. */
static fl_status check_bytes(const char *text, size_t len)
{
    size_t line = 1;

    for (size_t i = 0; i < len; i++) {
        unsigned char ch = (unsigned char)text[i];

        if (ch == '\n')
            line++;
        else if (ch < ' ' || ch == 0x7f)
            FL_FAIL(FL_ERR_INVAL, "line %zu has the control character 0x%02x",
                    line, ch);
    }
    return FL_OK;
}

static fl_status read_text(reader *r, const char *text, size_t len)
{
    piece rest = { text, text + len };

    if (len > FL_DECLARE_BYTES_MAX)
        FL_FAIL(FL_ERR_INVAL, "the text has %zu bytes, more than %u", len,
                FL_DECLARE_BYTES_MAX);
    FL_TRY(check_bytes(text, len));
    for (r->line = 1; rest.at < rest.end; r->line++)
        FL_TRY(read_line(r, cut(&rest, '\n')));
    close_program(r);
    return FL_OK;
}

fl_status fl_declaration_parse(fl_declaration *out, const char *text,
                               size_t len)
{
    fl_declaration d = { 0 };
    reader r = { .d = &d };
    fl_status st = len ? read_text(&r, text, len) : FL_OK;

    fl_map_release(&r.tables);
    fl_map_release(&r.blocks);
    fl_str_release(&r.lines);
    if (st) {
        fl_declaration_release(&d);
        return fl_err_ctx(st, "declaration");
    }
    *out = d;
    return FL_OK;
}

void fl_declaration_release(fl_declaration *d)
{
    for (size_t i = 0; i < d->items.len; i++) {
        fl_free(d->items.data[i].name);
        fl_free(d->items.data[i].text);
        fl_free(d->items.data[i].startup);
    }
    fl_vec_release(&d->items);
    d->seed = 0;
}

/* --- comparing ------------------------------------------------------------ */

static bool same(piece a, piece b)
{
    return piece_len(a) == piece_len(b) && !memcmp(a.at, b.at, piece_len(a));
}

/* Drops what stands far before the first difference, so that a message shows
   it even in a long line. */
static void skip_equal(piece *a, piece *b)
{
    size_t n = 0;

    while (a->at + n < a->end && b->at + n < b->end && a->at[n] == b->at[n])
        n++;
    if (n > SHOWN_BEFORE &&
        (piece_len(*a) > SHOWN_MAX || piece_len(*b) > SHOWN_MAX)) {
        a->at += n - SHOWN_BEFORE;
        b->at += n - SHOWN_BEFORE;
    }
}

static fl_status differ(size_t line, piece mine, piece theirs)
{
    skip_equal(&mine, &theirs);
    FL_FAIL(FL_ERR_INVAL,
            "the declarations differ in line %zu: '%.*s' was declared first, "
            "'%.*s' came now; all trainers must declare the same, in the same "
            "order",
            line, shown_len(mine), mine.at, shown_len(theirs), theirs.at);
}

fl_status fl_declaration_compare(const char *mine, const char *theirs)
{
    piece a = { mine, mine + strlen(mine) };
    piece b = { theirs, theirs + strlen(theirs) };

    for (size_t line = 1; a.at < a.end || b.at < b.end; line++) {
        piece x = cut(&a, '\n'), y = cut(&b, '\n');

        if (!same(x, y))
            return differ(line, x, y);
    }
    return FL_OK;
}
