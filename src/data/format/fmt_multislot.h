/* fmt_multislot.h - what the two MultiSlot formats share. `at` is the place in
 * a line, at its begin or behind a number and one blank. Any thread. */
#ifndef FL_DATA_FORMAT_FMT_MULTISLOT_H
#define FL_DATA_FORMAT_FMT_MULTISLOT_H

#include "data/format/format.h"

/* A whole line whose slots stand in the order of the schema. */
const char *fl_multislot_take(const fl_parser *p, const fl_line *l,
                              fl_row_writer *w, fl_status *st);
bool fl_multislot_line(const fl_parser *p, const fl_line *l, fl_row_writer *w,
                       fl_bad *bad, fl_status *st);

/* Opens a record with room for whatever the line has. */
FL_MUST_CHECK
fl_status fl_multislot_open(fl_row_writer *w, const fl_line *l);

/* Reads slot i, which is number `ragged` of the ragged ones and with which l
   begins, into the open record. */
bool fl_multislot_slot(const fl_parser *p, const fl_line *l, uint32_t i,
                       uint32_t ragged, fl_row_writer *w, fl_bad *bad);

/* Passes over a slot; its values are not looked at. Slot number `slot` is to
   blame when they are too few. */
bool fl_multislot_skip(const char **at, const char *end, int slot, fl_bad *bad);

/* Nothing but blanks may be left. */
bool fl_multislot_end(const char *at, const char *end, fl_bad *bad);

/* A record as a line. */
void fl_multislot_print(const fl_parser *p, const uint32_t *row, fl_str *out);

#endif
