/* records.h - records packed one behind the other, the way parsers write them.
 *
 * A record is a run of 32-bit words, in the order of the slots:
 *
 *     counts      one byte per ragged slot, in their order, padded with zeros
 *                 to a word; 255: the slot's values begin with their count
 *     slot 0      its values: an id is two words (low first), a float one
 *     slot 1 ...
 *
 * A block of rows grows; it does not need its records to be of one size.
 * Writing goes line by line:
 *
 *     fl_row_open(w, room)         room for that many values, made once
 *     fl_row_slot(w, slot, n)      then n values of this slot
 *     fl_row_id / fl_row_float
 *     fl_row_close(w)              the record is there
 *     fl_row_drop(w)               or: it never was
 *
 * Owner thread only.
 */
#ifndef FL_DATA_RECORDS_H
#define FL_DATA_RECORDS_H

#include <string.h>

#include "data/schema.h"

#define FL_ROW_LONG 255

typedef struct fl_records {
    uint32_t *words;
    size_t len, cap; /* words */
    size_t *starts;  /* first word of each record */
    size_t n, starts_cap;
    size_t n_skipped; /* lines that were good and gave none */
} fl_records;

void fl_records_release(fl_records *r);
static inline void fl_records_clear(fl_records *r)
{
    r->len = r->n = r->n_skipped = 0;
}

static inline const uint32_t *fl_records_at(const fl_records *r, size_t i)
{
    return r->words + r->starts[i];
}

/* Words of one record. */
size_t fl_row_words(const fl_schema *s, const uint32_t *row);

/* Room for that many more; fails with FL_ERR_NOMEM. */
FL_MUST_CHECK
fl_status fl_records_reserve(fl_records *r, size_t n_words, size_t n_rows);

/* The first n go. */
void fl_records_drop(fl_records *r, size_t n);

/* The records [from, n) move to the end of `to`. */
FL_MUST_CHECK
fl_status fl_records_move_tail(fl_records *r, size_t from, fl_records *to);

typedef struct fl_row_writer {
    const fl_schema *schema;
    fl_records *rows;
    uint32_t *at;    /* next word of the open record */
    uint8_t *counts; /* of the open record */
} fl_row_writer;

/* Opens a record with room for n_values values in all: a value takes two words
   at most, a long count one more. A second record may be opened for the same
   line. Fails with FL_ERR_NOMEM. */
FL_MUST_CHECK
static inline fl_status fl_row_open(fl_row_writer *w, size_t n_values)
{
    const fl_schema *s = w->schema;
    fl_records *r = w->rows;
    size_t words = s->count_words + 2 * n_values + s->n_ragged;

    if (!r->words || words > r->cap - r->len || r->n == r->starts_cap)
        FL_TRY(fl_records_reserve(r, words, 1));
    w->at = r->words + r->len;
    w->counts = (uint8_t *)w->at;
    for (uint32_t i = 0; i < s->count_words; i++)
        *w->at++ = 0;
    return FL_OK;
}

/* Slots come in their order. ragged is the number of the slot among the ragged
   ones, and is looked at only when the slot is one. */
static inline void fl_row_slot(fl_row_writer *w, const fl_slot *slot,
                               uint32_t ragged, uint32_t n)
{
    if (slot->width)
        return;
    w->counts[ragged] = (uint8_t)(n < FL_ROW_LONG ? n : FL_ROW_LONG);
    if (n >= FL_ROW_LONG)
        *w->at++ = n;
}

static inline void fl_row_id(fl_row_writer *w, uint64_t id)
{
    memcpy(w->at, &id, sizeof(id));
    w->at += 2;
}

static inline void fl_row_float(fl_row_writer *w, float x)
{
    memcpy(w->at, &x, sizeof(x));
    w->at++;
}

static inline void fl_row_close(fl_row_writer *w)
{
    fl_records *r = w->rows;

    r->starts[r->n++] = r->len;
    r->len = (size_t)(w->at - r->words);
    w->at = NULL;
}

static inline void fl_row_drop(fl_row_writer *w)
{
    w->at = NULL;
}

#endif
