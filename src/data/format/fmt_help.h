/* fmt_help.h - what the formats of named values share: choosing slots by name,
 * labels and features, and the values of a packed row in any order.
 *
 * A record is packed in the order of its slots, but a line may name them in
 * another. So the places come first (fl_help_place) and the values are put
 * there as the line is read. Any thread.
 */
#ifndef FL_DATA_FORMAT_FMT_HELP_H
#define FL_DATA_FORMAT_FMT_HELP_H

#include "data/format/format.h"

/* Fills *bad, unless it is NULL because nobody asks why; always false. Bytes
   that are no printable ASCII become '?'. */
bool fl_help_bad(fl_bad *bad, int slot, const char *fmt, ...) FL_PRINTF(3, 4);

/* Makes p->schema: all slots that the format offers, or the wanted ones among
   them by name. slot_of[i] becomes the slot of offer i, FL_NO_SLOT when it is
   not wanted. A wanted width may fix a ragged offer or loosen a fixed one. */
FL_MUST_CHECK
fl_status fl_help_pick(fl_parser *p, const fl_slot *offers, size_t n_offers,
                       int *slot_of);

/* --- lines --------------------------------------------------------------- */

static inline bool fl_help_is_blank(char c)
{
    return c == ' ' || c == '\t';
}

static inline const char *fl_help_skip_blanks(const char *at, const char *end)
{
    while (at < end && fl_help_is_blank(*at))
        at++;
    return at;
}

static inline const char *fl_help_skip_word(const char *at, const char *end)
{
    while (at < end && !fl_help_is_blank(*at))
        at++;
    return at;
}

/* Does the line end here? `end` is its own or that of the text. */
static inline bool fl_help_ends_line(const char *at, const char *end)
{
    return *at == '\n' || at == end || (*at == '\r' && at[1] == '\n');
}

/* From the end of a line to the begin of the next one, or to the end of the
   text. */
static inline const char *fl_help_next_line(const char *at, const char *end)
{
    at += *at == '\r';
    return at < end ? at + 1 : end;
}

/* Bytes of the word at `at` that a reason shows. */
int fl_help_shown(const char *at, const char *end);

/* For what a line draws: from the stream of the format, the file, the line and
   the pass over the data. */
uint64_t fl_help_line_stream(uint64_t stream, const fl_line *l);

/* Words of the text, apart by blanks. */
uint32_t fl_help_count_words(const char *at, const char *end);

/* How formats with a label offer it: as the option of this name says, or as
   the wanted slot called label has it. */
#define FL_LABEL_OPTION                                                        \
    {                                                                          \
        .name = "label", .otherwise = "auto",                                  \
        .doc = "floats, ids (then -1 becomes 0) or auto: as the wanted slot "  \
               "has it, else floats"                                           \
    }
FL_MUST_CHECK
fl_status fl_help_label_kind(const fl_parser *p, fl_slot_kind *kind);

/* Kind of the label's slot; floats when it is FL_NO_SLOT. */
static inline fl_slot_kind fl_help_label_slot(const fl_parser *p, int slot)
{
    return slot == FL_NO_SLOT ? FL_SLOT_FLOATS : p->schema.slots[slot].kind;
}

/* The label that begins a line: as float whatever number it is, as id a whole
   number with an optional plus, where -1 is 0. */
typedef struct fl_label {
    uint64_t id;
    float value;
} fl_label;
bool fl_help_label(const char **at, const char *end, fl_slot_kind kind,
                   fl_label *out, fl_bad *bad);

/* INDEX:VALUE, or INDEX alone for the value 1; must end at a blank. */
bool fl_help_feature(const char **at, const char *end, uint64_t *index,
                     float *value, fl_bad *bad);

/* --- values of a row ----------------------------------------------------- */

/* May the slot have n values in a record? */
bool fl_help_check_count(const fl_parser *p, uint32_t slot, uint32_t n,
                         fl_bad *bad);
/* Is the id below the slot's height? */
bool fl_help_check_id(const fl_parser *p, uint32_t slot, uint64_t id,
                      fl_bad *bad);

/* Puts the label into its slot at `place`; nothing when it has no slot. */
bool fl_help_put_label(const fl_parser *p, int slot, const fl_label *label,
                       uint32_t *place, fl_bad *bad);

/* Leaves room for n values of the slot in the open record, and says where. */
uint32_t *fl_help_place(fl_row_writer *w, const fl_slot *slot, uint32_t ragged,
                        uint32_t n);

typedef struct fl_row_part {
    const uint32_t *at;
    uint32_t n; /* values */
} fl_row_part;

/* Where the values of each slot are in a row; one part per slot. */
void fl_help_parts(const fl_schema *s, const uint32_t *row, fl_row_part *parts);

uint64_t fl_help_id(const fl_row_part *part, uint32_t i);
float fl_help_float(const fl_row_part *part, uint32_t i);

/* A label of a slot of this kind; 0 when the slot is not there. */
void fl_help_print_label(fl_str *out, const fl_schema *s, int slot,
                         const fl_row_part *parts);
/* INDEX:VALUE number i; index 0 and value 1 stand for what is not there. */
void fl_help_print_feature(fl_str *out, const fl_row_part *ids,
                           const fl_row_part *values, uint32_t i);

#endif
