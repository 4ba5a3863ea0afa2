/* schema.h - the slots of a data set, in their order. */
#ifndef FL_DATA_SCHEMA_H
#define FL_DATA_SCHEMA_H

#include "base/status.h"
#include "flotilla/data.h"

#define FL_SLOTS_MAX 4096

typedef struct fl_schema {
    fl_slot *slots; /* with names of their own */
    uint32_t n_slots;
    uint32_t n_ragged;    /* slots of width 0 */
    uint32_t count_words; /* words that their counts take in a row */
} fl_schema;

/* Copies the slots. Names must differ and not be empty. */
FL_MUST_CHECK
fl_status fl_schema_init(fl_schema *s, const fl_slot *slots, size_t n_slots);
void fl_schema_release(fl_schema *s);

/* Slot of that name, or -1. */
int fl_schema_find(const fl_schema *s, const char *name);

/* Equal names, kinds, widths and heights in equal order give equal hashes. */
uint64_t fl_schema_hash(const fl_schema *s);

/* Bytes of one value. */
static inline uint32_t fl_slot_bytes(const fl_slot *s)
{
    return s->kind == FL_SLOT_IDS ? 8 : 4;
}

#endif
