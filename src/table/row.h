/* row.h - the header of a row: 30 bits of epoch, a mark and a spare bit.
 *
 *     bits 0..29   epoch of the last change
 *     bit 30       it was pushed to since others were told (known.h)
 *     bit 31       spare, 0
 *
 * An epoch is one save or exchange, not one step, so 30 bits last.
 */
#ifndef FL_TABLE_ROW_H
#define FL_TABLE_ROW_H

#include <stdbool.h>
#include <stdint.h>
#include <string.h>

#define FL_ROW_HEADER_BYTES 4
#define FL_ROW_EPOCH_MASK ((UINT32_C(1) << 30) - 1)
#define FL_ROW_MARK (UINT32_C(1) << 30)

/* What is remembered of a key without a row: a header, and two counters. */
typedef struct fl_candidate {
    uint32_t header;
    float show, click; /* a count filter counts in show */
} fl_candidate;

static inline uint32_t fl_row_epoch(const void *row)
{
    uint32_t h;

    memcpy(&h, row, sizeof(h));
    return h & FL_ROW_EPOCH_MASK;
}

static inline void fl_row_set_epoch(void *row, uint32_t epoch)
{
    uint32_t h;

    memcpy(&h, row, sizeof(h));
    h = (h & ~FL_ROW_EPOCH_MASK) | (epoch & FL_ROW_EPOCH_MASK);
    memcpy(row, &h, sizeof(h));
}

static inline bool fl_row_is_marked(const void *row)
{
    uint32_t h;

    memcpy(&h, row, sizeof(h));
    return h & FL_ROW_MARK;
}

static inline void fl_row_set_mark(void *row, bool is_marked)
{
    uint32_t h;

    memcpy(&h, row, sizeof(h));
    h = (h & ~FL_ROW_MARK) | (is_marked ? FL_ROW_MARK : 0);
    memcpy(row, &h, sizeof(h));
}

#endif
