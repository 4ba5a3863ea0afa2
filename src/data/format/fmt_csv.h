/* fmt_csv.h - the columns of a table in text: what the csv format knows of
 * them. docs/formats/csv.md has the rules. Read by any thread once made. */
#ifndef FL_DATA_FORMAT_FMT_CSV_H
#define FL_DATA_FORMAT_FMT_CSV_H

#include "data/format/format.h"

#define FL_CSV_COLUMNS_MAX FL_SLOTS_MAX

/* What stands in a column: values, lists apart by a bar, and texts. */
typedef enum fl_csv_kind {
    FL_CSV_SKIP,
    FL_CSV_FLOAT,
    FL_CSV_ID,
    FL_CSV_HEX,
    FL_CSV_LABEL,
    FL_CSV_TIME,
    FL_CSV_HASH,
    FL_CSV_IDS,
    FL_CSV_HASHES,
    FL_CSV_WORDS,
    FL_CSV_TRIGRAMS
} fl_csv_kind;
#define FL_CSV_BAR '|' /* unless the column has another */

static inline bool fl_csv_is_list(fl_csv_kind kind)
{
    return kind == FL_CSV_IDS || kind == FL_CSV_HASHES;
}

static inline bool fl_csv_is_text(fl_csv_kind kind)
{
    return kind >= FL_CSV_WORDS;
}

static inline bool fl_csv_is_hash(fl_csv_kind kind)
{
    return kind == FL_CSV_HASH || kind >= FL_CSV_HASHES;
}

/* What a column of the file is read as; it may be read in several ways. */
typedef struct fl_csv_column {
    char *name; /* may be empty when it is skipped */
    fl_csv_kind kind;
    uint32_t field; /* of the line, from 0 */
    int slot;       /* FL_NO_SLOT: not wanted */
    uint64_t hash;  /* where the hash of its texts starts */
    char *arg;      /* what stood behind the kind in brackets; NULL: nothing */
    char bar;       /* between the values of a list */
    float missing;  /* value of an empty float */
} fl_csv_column;

typedef struct fl_csv_columns {
    FL_VEC(fl_csv_column) list; /* by their fields */
    uint32_t n_fields;
    float missing; /* of columns that do not say it */
    bool shared;   /* a text has the same id in all columns */
    bool rest;     /* more columns may follow, which are skipped */
} fl_csv_columns;

/* NAME:KIND NAME:KIND(ARGUMENT) ... [*] */
FL_MUST_CHECK
fl_status fl_csv_columns_parse(fl_csv_columns *c, const char *text);
void fl_csv_columns_release(fl_csv_columns *c);

/* Field of the column of that name, or -1. */
int fl_csv_columns_find(const fl_csv_columns *c, const char *name, size_t len);

/* Is it the first way to read its field? That is called as the field is. */
static inline bool fl_csv_is_first(const fl_csv_columns *c, size_t i)
{
    return i == 0 || c->list.data[i - 1].field != c->list.data[i].field;
}

/* Makes p->schema of them. ids of hashed columns are below hash_size. */
FL_MUST_CHECK
fl_status fl_csv_columns_pick(fl_csv_columns *c, fl_parser *p,
                              uint64_t hash_size);

/* FNV-1a, as in fl_hash_bytes, but step by step. */
#define FL_CSV_HASH_START 0xcbf29ce484222325u
static inline uint64_t fl_csv_hash_step(uint64_t h, char byte)
{
    return (h ^ (unsigned char)byte) * 0x100000001b3u;
}

/* The id of what was hashed. */
uint64_t fl_csv_id(uint64_t h, uint64_t hash_size);

/* A field without its quotes; quotes inside a quoted one are still doubled. */
typedef struct fl_csv_field {
    const char *at, *end;
    bool quoted;
} fl_csv_field;

/* Words or trigrams of a field, and their ids into the open record. */
uint32_t fl_csv_text_count(fl_csv_kind kind, const fl_csv_field *f);
void fl_csv_text_put(const fl_csv_column *c, const fl_csv_field *f,
                     uint64_t hash_size, fl_row_writer *w);

/* Is the form of a time one that can be read? */
bool fl_csv_time_check(const char *form);

/* The seconds since 1970 that a text of this form says; false for another. */
bool fl_csv_time_read(const char *form, const char *at, const char *end,
                      int64_t *out);

/* A number, or nan. */
bool fl_csv_read_missing(const char *text, float *out);

#endif
