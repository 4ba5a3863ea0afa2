/* feed_numbers.h - numbers of any type become the numbers of a slot.
 *
 * Ids take whole numbers from -2^63 to 2^64 - 1; a negative one is kept as its
 * bits, as int64 has it. Floats take any number whose nearest float is finite
 * (and infinities and NaN as they are).
 *
 * Any thread.
 */
#ifndef FL_DATA_READER_FEED_NUMBERS_H
#define FL_DATA_READER_FEED_NUMBERS_H

#include "data/schema.h"

/* Numbers that somebody gives. */
typedef struct fl_feed_array {
    fl_dtype dtype;
    const void *data;
    size_t n;
} fl_feed_array;

/* Where a run of values goes, for messages: row `row` on, rows of `width`
   values; of a whole ragged column the lists that the offsets say. */
typedef struct fl_feed_place {
    size_t row, width;
    const int64_t *offsets, *inner;
} fl_feed_place;

/* Where list i of a place ends, in rows. */
size_t fl_feed_list_end(const fl_feed_place *at, size_t i);

/* Copies where it can: most data has the right type already. */
FL_MUST_CHECK
fl_status fl_feed_numbers(const fl_slot *slot, const fl_feed_array *from,
                          void *to, fl_feed_place at);

#endif
