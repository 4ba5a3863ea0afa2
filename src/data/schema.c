/* schema.c - the slots of a data set. */
#include "data/schema.h"

#include "base/alloc.h"
#include "base/hash.h"

#include <string.h>

static fl_status check_slot(const fl_schema *s, const fl_slot *slot)
{
    if (!slot->name || !*slot->name)
        FL_FAIL(FL_ERR_INVAL, "slot %u has no name", s->n_slots);
    if (fl_schema_find(s, slot->name) >= 0)
        FL_FAIL(FL_ERR_INVAL, "two slots are called %s", slot->name);
    if (slot->kind == FL_SLOT_FLOATS && slot->height)
        FL_FAIL(FL_ERR_INVAL, "slot %s: floats have no height", slot->name);
    return FL_OK;
}

fl_status fl_schema_init(fl_schema *s, const fl_slot *slots, size_t n_slots)
{
    *s = (fl_schema){ 0 };
    if (n_slots < 1 || n_slots > FL_SLOTS_MAX)
        FL_FAIL(FL_ERR_INVAL, "%zu slots: a data set has 1 to %d", n_slots,
                FL_SLOTS_MAX);
    s->slots = fl_alloc(n_slots * sizeof(*s->slots));
    for (size_t i = 0; i < n_slots; i++) {
        fl_status st = check_slot(s, &slots[i]);

        if (st) {
            fl_schema_release(s);
            return st;
        }
        s->slots[i] = slots[i];
        s->slots[i].name = fl_strdup(slots[i].name);
        s->n_slots++;
        s->n_ragged += slots[i].width == 0;
    }
    s->count_words = (s->n_ragged + 3) / 4;
    return FL_OK;
}

void fl_schema_release(fl_schema *s)
{
    for (uint32_t i = 0; i < s->n_slots; i++)
        fl_free((void *)(uintptr_t)s->slots[i].name);
    fl_free(s->slots);
    *s = (fl_schema){ 0 };
}

int fl_schema_find(const fl_schema *s, const char *name)
{
    for (uint32_t i = 0; i < s->n_slots; i++)
        if (strcmp(s->slots[i].name, name) == 0)
            return (int)i;
    return -1;
}

uint64_t fl_schema_hash(const fl_schema *s)
{
    uint64_t h = fl_mix64(s->n_slots);

    for (uint32_t i = 0; i < s->n_slots; i++) {
        const fl_slot *slot = &s->slots[i];

        h = fl_mix64(h ^ fl_hash_str(slot->name));
        h = fl_mix64(h ^ (uint64_t)slot->kind);
        h = fl_mix64(h ^ slot->width);
        h = fl_mix64(h ^ slot->height);
    }
    return h;
}
