/* format_kit.h - what tests of formats share: a text in, records out as text.
 *
 * A record is described as "name=v v name=v ...", one per line, in the order
 * of the slots; ids in decimal, floats as %g. */
#ifndef FL_TESTS_DATA_FORMAT_KIT_H
#define FL_TESTS_DATA_FORMAT_KIT_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "data/format/fmt_help.h"
#include "data/format/format.h"
#include "data/dataset/source.h"

/* Fails the test with the library's own sentence. */
#define assert_ok(expr)                                                        \
    do {                                                                       \
        if (expr)                                                              \
            fail_msg("%s", fl_last_error());                                   \
    } while (0)

#define assert_says(text, part)                                                \
    do {                                                                       \
        if (!strstr(text, part))                                               \
            fail_msg("'%s' does not say '%s'", text, part);                    \
    } while (0)

/* A parser and what came out of a text. */
typedef struct parsed {
    fl_parser *parser;
    fl_records rows;
    size_t n_bad;
    uint64_t bad_line; /* the last bad one */
    fl_bad bad;
} parsed;

static inline fl_status keep_bad(void *arg, const fl_line *l, const fl_bad *bad)
{
    parsed *out = arg;

    out->n_bad++;
    out->bad_line = l->number;
    out->bad = *bad;
    return FL_OK;
}

static inline parsed open_format(const fl_parser_args *args)
{
    parsed out = { 0 };

    assert_ok(fl_parser_new(&out.parser, args));
    return out;
}

static inline void close_format(parsed *f)
{
    fl_records_release(&f->rows);
    fl_parser_free(f->parser);
}

/* The text with the zeros behind it that a block of a file has. */
static inline char *pad(const char *text, size_t len)
{
    char *copy = fl_alloc(len + FL_TEXT_PADDING);

    memcpy(copy, text, len);
    return copy;
}

/* Adds the records of the text, whose first line is `first`. */
static inline fl_status feed_lines(parsed *f, const char *text, fl_line first)
{
    size_t len = strlen(text);
    char *copy = pad(text, len);
    fl_status st;

    first.at = copy;
    first.end = copy + len;
    st = fl_parse_lines(f->parser, first, &f->rows, keep_bad, f);
    fl_free(copy);
    return st;
}

/* A whole file; its first line goes through the format's head. */
static inline fl_status feed_file(parsed *f, const char *text)
{
    const fl_format *format = f->parser->format;
    const char *stop = strchr(text, '\n');
    char *copy = pad(text, strlen(text));
    fl_line first = { .number = 1, .at = copy };
    void *head = NULL;
    fl_status st = FL_OK;

    first.end = copy + (stop ? (size_t)(stop - text) : strlen(text));
    if (format->head)
        st = format->head(f->parser, &first, &head);
    first.head = head;
    if (!st)
        st = feed_lines(f, text, first);
    fl_free(head);
    fl_free(copy);
    return st;
}

static inline parsed parse(const char *spec, const char *text)
{
    parsed out = open_format(&(fl_parser_args){ .spec = spec });

    assert_ok(feed_file(&out, text));
    return out;
}

static inline void describe_slot(const fl_slot *slot, const fl_row_part *part,
                                 fl_str *out)
{
    fl_str_addf(out, "%s=", slot->name);
    for (uint32_t i = 0; i < part->n; i++) {
        fl_str_add(out, i ? " " : "");
        if (slot->kind == FL_SLOT_IDS)
            fl_str_addf(out, "%" PRIu64, fl_help_id(part, i));
        else
            fl_str_addf(out, "%g", (double)fl_help_float(part, i));
    }
}

static inline char *describe(const parsed *f)
{
    const fl_schema *s = &f->parser->schema;
    fl_row_part *parts = fl_alloc(s->n_slots * sizeof(*parts));
    fl_str out = { 0 };

    for (size_t r = 0; r < f->rows.n; r++) {
        fl_help_parts(s, fl_records_at(&f->rows, r), parts);
        for (uint32_t i = 0; i < s->n_slots; i++) {
            fl_str_add(&out, i ? " " : "");
            describe_slot(&s->slots[i], &parts[i], &out);
        }
        fl_str_add(&out, "\n");
    }
    fl_free(parts);
    return fl_str_take(&out);
}

static inline void expect_records(const parsed *f, const char *expected)
{
    char *text = describe(f);

    assert_string_equal(text, expected);
    fl_free(text);
}

/* The spec reads the text without a bad line, and gives these records. */
static inline void expect_parsed(const char *spec, const char *text,
                                 const char *expected)
{
    parsed f = parse(spec, text);

    if (f.n_bad)
        fail_msg("line %" PRIu64 ": %s", f.bad_line, f.bad.reason);
    expect_records(&f, expected);
    close_format(&f);
}

/* One line that is not taken, for this reason. */
static inline void expect_bad(const char *spec, const char *line,
                              const char *reason)
{
    parsed f = parse(spec, line);

    if (f.n_bad != 1)
        fail_msg("'%s' was taken", line);
    assert_int_equal(f.rows.n, 0);
    assert_says(f.bad.reason, reason);
    close_format(&f);
}

static inline void expect_spec_refused(const char *spec, const char *why)
{
    fl_parser *p = NULL;

    if (!fl_parser_new(&p, &(fl_parser_args){ .spec = spec }))
        fail_msg("'%s' was taken", spec);
    assert_null(p);
    assert_says(fl_last_error(), why);
}

static inline void expect_wanted_refused(const char *spec, fl_slot wanted,
                                         const char *why)
{
    fl_parser_args args = { .spec = spec, .wanted = &wanted, .n_wanted = 1 };
    fl_parser *p = NULL;

    if (!fl_parser_new(&p, &args))
        fail_msg("slot %s was taken", wanted.name);
    assert_says(fl_last_error(), why);
}

/* Prints all records, reads them again and finds the same. */
static inline void expect_print(parsed *f, const char *expected)
{
    fl_str text = { 0 };
    parsed again = { .parser = f->parser };

    if (f->parser->format->print_head)
        f->parser->format->print_head(f->parser, &text);
    for (size_t i = 0; i < f->rows.n; i++) {
        f->parser->format->print(f->parser, fl_records_at(&f->rows, i), &text);
        fl_str_add(&text, "\n");
    }
    assert_string_equal(fl_str_text(&text), expected);
    assert_ok(feed_file(&again, expected));
    assert_int_equal(again.rows.len, f->rows.len);
    assert_memory_equal(again.rows.words, f->rows.words,
                        f->rows.len * sizeof(*f->rows.words));
    fl_records_release(&again.rows);
    fl_str_release(&text);
}

#endif
