/* format.h - how lines of text become records.
 *
 * A format is a const descriptor in its own file (fmt_NAME.c) plus one row in
 * formats.def. It is opened with its options and the wanted slots, and then
 * turns lines into rows; an open format (fl_parser) is read by many threads at
 * once and does not change.
 *
 * A line is given without its newline and without a '\r' before it; the byte at
 * `end` is '\n', '\r' or 0, and FL_TEXT_PADDING bytes behind it can be read, so
 * a scan may run over the end by less than that.
 */
#ifndef FL_DATA_FORMAT_FORMAT_H
#define FL_DATA_FORMAT_FORMAT_H

#include "base/vec.h"
#include "data/format/part.h"
#include "data/records.h"
#include "flotilla/experimental/format.h"

#define FL_BAD_REASON_MAX 160
#define FL_NO_SLOT (-1)

/* Why a line was not taken. */
typedef struct fl_bad {
    int slot; /* FL_NO_SLOT: the line as a whole */
    char reason[FL_BAD_REASON_MAX];
} fl_bad;

typedef struct fl_line {
    const char *at, *end;
    uint64_t number;  /* in its file, from 1 */
    uint64_t file;    /* hash of the path: with number and epoch it seeds */
    uint64_t epoch;   /* pass over the data, from 0 */
    const void *head; /* what the format made of this file's first line */
} fl_line;

typedef struct fl_parser fl_parser;

/* Those of part.h, which every format has. */
extern const fl_format_option fl_part_options[FL_PART_OPTIONS];

typedef struct fl_format {
    const char *name, *doc;
    fl_format_option options[FL_FORMAT_OPTIONS_MAX]; /* ends with name NULL */
    bool draws; /* records differ from pass to pass; `open` may clear it */
    uint32_t version; /* as PARSER_VERSION of format.c, for this one alone */

    /* Checks wanted slots (p->wanted, may have none) against the options, sets
       p->schema and p->state. `sample` is the first line of the first file, or
       NULL when there is none: a format may learn its slots from it. */
    fl_status (*open)(fl_parser *p, const char *sample);
    void (*close)(fl_parser *p); /* frees p->state; may be NULL */

    /* The first line of every file, for formats with a header; NULL otherwise.
       *head is freed with fl_free, and must not own anything else. Where it
       stays NULL the line is a record like any other; else it is not given to
       `line`. An error ends the job: it says what the header lacks. */
    fl_status (*head)(const fl_parser *p, const fl_line *l, void **head);

    /* Writes the record or records of a line; a line without one is counted
       as skipped. Returns false and fills *bad when
       the line is not good; nothing of it is then kept. Memory failure goes to
       *st. An empty line is asked for as well. */
    bool (*line)(const fl_parser *p, const fl_line *l, fl_row_writer *w,
                 fl_bad *bad, fl_status *st);

    /* For formats that see where a line ends as they read it, else NULL. Writes
       one record as `line` does, but l->end is the end of the text. Returns
       where the next line begins, or NULL when `line` should be asked: nothing
       is kept then, and nobody was told why. Memory failure goes to *st. */
    const char *(*take)(const fl_parser *p, const fl_line *l, fl_row_writer *w,
                        fl_status *st);

    /* For formats whose columns are told apart before they are read, else NULL:
       the number of the column of that name, or -1; and a hash of what stands
       there in a line, the same wherever it stands. False when the line has
       no such column. */
    int (*find_column)(const fl_parser *p, const char *name);
    bool (*hash_column)(const fl_parser *p, const fl_line *l, int column,
                        uint64_t *hash);

    /* The way back: a record as a line without newline; NULL when the format
       cannot be written. print_head gives the lines before it, or is NULL. */
    void (*print)(const fl_parser *p, const uint32_t *row, fl_str *out);
    void (*print_head)(const fl_parser *p, fl_str *out);
} fl_format;

struct fl_parser {
    const fl_format *format;
    fl_schema wanted; /* n_slots 0: whatever the format has */
    fl_schema schema; /* what it gives */
    void *state;      /* the format's own */
    bool empty_slots; /* a count of 0 is allowed where the slot is ragged */
    bool draws;       /* records differ: they are never cached */
    uint64_t seed;    /* for formats that draw */
    char *spec;       /* as given */
    const char *values[FL_FORMAT_OPTIONS_MAX]; /* of the options, in order */
    const char *part_values[FL_PART_OPTIONS];  /* of those of part.h, or NULL */
    fl_part part;                              /* which records are taken */
};

/* spec is NAME or NAME:key=value,key=value. Unknown names and keys are refused
   with the nearest right one. wanted may be NULL. */
typedef struct fl_parser_args {
    const char *spec;
    const char *options; /* more of them, key=value,key=value; or NULL */
    const fl_slot *wanted;
    size_t n_wanted;
    const char *sample; /* first line of the first file, or NULL */
    bool empty_slots;
    uint64_t seed;
} fl_parser_args;
FL_MUST_CHECK
fl_status fl_parser_new(fl_parser **out, const fl_parser_args *args);
void fl_parser_free(fl_parser *p);

/* Value of an option, as given or as its `otherwise`. */
const char *fl_parser_option(const fl_parser *p, const char *name);
FL_MUST_CHECK
fl_status fl_parser_option_bool(const fl_parser *p, const char *name,
                                bool *out);
FL_MUST_CHECK
fl_status fl_parser_option_int(const fl_parser *p, const char *name, int64_t lo,
                               int64_t hi, int64_t *out);

/* Changes when the same text would give other records: format, options, slots,
   empty_slots. */
uint64_t fl_parser_hash(const fl_parser *p);

/* Those of formats.def, and behind them those of programs (fmt_own.c). */
size_t fl_format_count(void);
const fl_format *fl_format_at(size_t i);
const fl_format *fl_format_find(const char *name);
size_t fl_own_format_count(void);
const fl_format *fl_own_format_at(size_t i);

/* Of a text at l->at up to l->end the first line: its end becomes l->end.
   Returns where the next one begins. */
const char *fl_line_cut(fl_line *l);

/* The first record of one line, whatever part it is in, in `room`; NULL when
   the line is bad or has none. */
FL_MUST_CHECK
fl_status fl_parse_row(const fl_parser *p, const fl_line *l, fl_records *room,
                       const uint32_t **row);

/* Parses all lines of a text, at first.at up to first.end, into rows; the head
   of a file, line 1 with first.head, is passed over. on_bad is called for each
   bad line. */
typedef fl_status (*fl_on_bad)(void *arg, const fl_line *l, const fl_bad *bad);
FL_MUST_CHECK
fl_status fl_parse_lines(const fl_parser *p, fl_line first, fl_records *to,
                         fl_on_bad on_bad, void *arg);

#endif
