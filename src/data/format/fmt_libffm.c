/* fmt_libffm.c - LABEL FIELD:INDEX:VALUE ..., as libffm writes it: one slot of
 * ids per field, and one of values where they are asked for.
 * docs/formats/libsvm.md has the rules.
 *
 * A line may name its fields in any order and several times. So it is read
 * twice: once to count what each field has, once to put it there. */
#include "data/format/fmt_help.h"

#include <inttypes.h>
#include <stdio.h>

#include "data/format/scan.h"

#define NAME_MAX_BYTES 16

typedef struct libffm {
    int label;         /* slot, or FL_NO_SLOT */
    uint32_t n_fields; /* that may be wanted */
    bool closed;       /* a line has no other fields */
    int *ids, *values; /* slots of each field, or FL_NO_SLOT */
} libffm;

/* --- opening -------------------------------------------------------------- */

/* Number of the field in a slot name such as F12, or -1. */
static int64_t field_of_name(const char *name)
{
    const char *at = name + 1, *end = name + strlen(name);
    uint64_t field;

    if ((*name != 'F' && *name != 'V') || at >= end ||
        !fl_scan_u64(&at, end, &field) || at != end || field >= FL_SLOTS_MAX)
        return -1;
    return (int64_t)field;
}

/* One more than the largest field that is wanted. */
static uint32_t wanted_fields(const fl_schema *wanted)
{
    int64_t most = -1;

    for (uint32_t i = 0; i < wanted->n_slots; i++) {
        int64_t field = field_of_name(wanted->slots[i].name);

        if (field > most)
            most = field;
    }
    return (uint32_t)(most + 1);
}

static fl_status count_fields(fl_parser *p, libffm *s)
{
    int64_t n;

    FL_TRY(fl_parser_option_int(p, "fields", 0, FL_SLOTS_MAX - 1, &n));
    s->closed = n > 0;
    s->n_fields = n > 0 ? (uint32_t)n : wanted_fields(&p->wanted);
    if (n == 0 && p->wanted.n_slots == 0)
        FL_FAIL(FL_ERR_INVAL,
                "format libffm: the number of fields is not known: say "
                "fields=N or name the wanted slots (label, F0, F1 ...)");
    return FL_OK;
}

/* One group of slots with a letter each: F0, F1 ... or V0, V1 ... */
static void offer_fields(fl_slot *offers, char (*names)[NAME_MAX_BYTES],
                         uint32_t n, char letter, fl_slot_kind kind)
{
    for (uint32_t i = 0; i < n; i++) {
        snprintf(names[i], NAME_MAX_BYTES, "%c%u", letter, i);
        offers[i] = (fl_slot){ .name = names[i], .kind = kind };
    }
}

static fl_status pick_slots(fl_parser *p, libffm *s, fl_slot_kind label,
                            bool values)
{
    uint32_t n = s->n_fields, n_offers = 1 + (values ? 2 * n : n);
    fl_slot *offers = fl_alloc((1 + 2 * (size_t)n) * sizeof(*offers));
    char(*names)[NAME_MAX_BYTES] =
        fl_alloc((1 + 2 * (size_t)n) * sizeof(*names));
    int *slot_of = fl_alloc((1 + 2 * (size_t)n) * sizeof(*slot_of));
    fl_status st;

    offers[0] = (fl_slot){ .name = "label", .kind = label, .width = 1 };
    offer_fields(offers + 1, names, n, 'F', FL_SLOT_IDS);
    offer_fields(offers + 1 + n, names + n, n, 'V', FL_SLOT_FLOATS);
    st = fl_help_pick(p, offers, n_offers, slot_of);
    s->label = slot_of[0];
    for (uint32_t i = 0; i < n; i++) {
        s->ids[i] = slot_of[1 + i];
        s->values[i] = values ? slot_of[1 + n + i] : FL_NO_SLOT;
    }
    fl_free(offers);
    fl_free(names);
    fl_free(slot_of);
    return st;
}

static fl_status libffm_open(fl_parser *p, const char *sample)
{
    libffm *s = fl_alloc(sizeof(*s));
    fl_slot_kind label;
    bool values;

    (void)sample;
    p->state = s;
    FL_TRY(fl_help_label_kind(p, &label));
    FL_TRY(fl_parser_option_bool(p, "values", &values));
    FL_TRY(count_fields(p, s));
    s->ids = fl_alloc((s->n_fields + 1) * sizeof(*s->ids));
    s->values = fl_alloc((s->n_fields + 1) * sizeof(*s->values));
    return pick_slots(p, s, label, values);
}

static void libffm_close(fl_parser *p)
{
    libffm *s = p->state;

    if (!s)
        return;
    fl_free(s->ids);
    fl_free(s->values);
    fl_free(s);
}

/* --- lines ---------------------------------------------------------------- */

/* FIELD: of the word at *at, which moves behind the colon. */
static bool read_field(const libffm *s, const char **at, const char *end,
                       uint64_t *field, fl_bad *bad)
{
    const char *word = *at;

    if (!fl_scan_u64(at, end, field) || *at == end || **at != ':')
        return fl_help_bad(bad, FL_NO_SLOT, "'%.*s' does not begin with FIELD:",
                           fl_help_shown(word, end), word);
    ++*at;
    if (s->closed && *field >= s->n_fields)
        return fl_help_bad(bad, FL_NO_SLOT,
                           "field %" PRIu64 " is not below fields=%u", *field,
                           s->n_fields);
    return true;
}

static bool count_features(const libffm *s, const char *at, const char *end,
                           uint32_t *counts, fl_bad *bad)
{
    uint64_t field;

    memset(counts, 0, s->n_fields * sizeof(*counts));
    for (at = fl_help_skip_blanks(at, end); at < end;
         at = fl_help_skip_blanks(at, end)) {
        if (!read_field(s, &at, end, &field, bad))
            return false;
        if (field < s->n_fields)
            counts[field]++;
        at = fl_help_skip_word(at, end);
    }
    return true;
}

/* Turns the counts of fields into counts of slots, and judges them. */
static bool count_slots(const fl_parser *p, const uint32_t *of_field,
                        uint32_t *of_slot, size_t *total, fl_bad *bad)
{
    const libffm *s = p->state;

    *total = 0;
    if (s->label != FL_NO_SLOT)
        of_slot[s->label] = 1;
    for (uint32_t i = 0; i < s->n_fields; i++) {
        if (s->ids[i] != FL_NO_SLOT)
            of_slot[s->ids[i]] = of_field[i];
        if (s->values[i] != FL_NO_SLOT)
            of_slot[s->values[i]] = of_field[i];
    }
    for (uint32_t i = 0; i < p->schema.n_slots; i++) {
        if (!fl_help_check_count(p, i, of_slot[i], bad))
            return false;
        *total += of_slot[i];
    }
    return true;
}

static void make_places(const fl_schema *schema, fl_row_writer *w,
                        const uint32_t *of_slot, uint32_t **places)
{
    uint32_t ragged = 0;

    for (uint32_t i = 0; i < schema->n_slots; i++) {
        const fl_slot *slot = &schema->slots[i];

        places[i] = fl_help_place(w, slot, ragged, of_slot[i]);
        ragged += slot->width == 0;
    }
}

static bool put_feature(const fl_parser *p, uint64_t field, uint64_t index,
                        float value, uint32_t **places, fl_bad *bad)
{
    const libffm *s = p->state;
    int ids, values;

    if (field >= s->n_fields)
        return true;
    ids = s->ids[field];
    values = s->values[field];
    if (ids != FL_NO_SLOT) {
        if (!fl_help_check_id(p, (uint32_t)ids, index, bad))
            return false;
        memcpy(places[ids], &index, sizeof(index));
        places[ids] += 2;
    }
    if (values != FL_NO_SLOT)
        memcpy(places[values]++, &value, sizeof(value));
    return true;
}

static bool put_features(const fl_parser *p, const char *at, const char *end,
                         uint32_t **places, fl_bad *bad)
{
    uint64_t field, index;
    float value;

    for (at = fl_help_skip_blanks(at, end); at < end;
         at = fl_help_skip_blanks(at, end))
        if (!read_field(p->state, &at, end, &field, bad) ||
            !fl_help_feature(&at, end, &index, &value, bad) ||
            !put_feature(p, field, index, value, places, bad))
            return false;
    return true;
}

static bool libffm_line(const fl_parser *p, const fl_line *l, fl_row_writer *w,
                        fl_bad *bad, fl_status *st)
{
    const libffm *s = p->state;
    const char *at = fl_help_skip_blanks(l->at, l->end);
    uint32_t of_field[FL_SLOTS_MAX], of_slot[FL_SLOTS_MAX];
    uint32_t *places[FL_SLOTS_MAX], *label_place;
    fl_label label;
    size_t total;

    if (!fl_help_label(&at, l->end, fl_help_label_slot(p, s->label), &label,
                       bad) ||
        !count_features(s, at, l->end, of_field, bad) ||
        !count_slots(p, of_field, of_slot, &total, bad))
        return false;
    *st = fl_row_open(w, total);
    if (*st)
        return false;
    make_places(&p->schema, w, of_slot, places);
    label_place = s->label == FL_NO_SLOT ? NULL : places[s->label];
    if (!fl_help_put_label(p, s->label, &label, label_place, bad) ||
        !put_features(p, at, l->end, places, bad)) {
        fl_row_drop(w);
        return false;
    }
    fl_row_close(w);
    return true;
}

/* --- printing ------------------------------------------------------------- */

static fl_row_part part_of(const fl_row_part *parts, int slot)
{
    return slot == FL_NO_SLOT ? (fl_row_part){ 0 } : parts[slot];
}

/* Fields come out in their order, whatever it was in the line. */
static void libffm_print(const fl_parser *p, const uint32_t *row, fl_str *out)
{
    const libffm *s = p->state;
    fl_row_part parts[FL_SLOTS_MAX];

    fl_help_parts(&p->schema, row, parts);
    fl_help_print_label(out, &p->schema, s->label, parts);
    for (uint32_t f = 0; f < s->n_fields; f++) {
        fl_row_part ids = part_of(parts, s->ids[f]);
        fl_row_part values = part_of(parts, s->values[f]);
        uint32_t n = ids.n > values.n ? ids.n : values.n;

        for (uint32_t i = 0; i < n; i++) {
            fl_str_addf(out, " %u:", f);
            fl_help_print_feature(out, &ids, &values, i);
        }
    }
}

const fl_format fl_format_libffm = {
    .name = "libffm",
    .doc = "LABEL FIELD:INDEX:VALUE ..., as libffm writes it; slots label, "
           "F0, F1 ... (ids of each field) and V0, V1 ... (their values)",
    .options = {
        { .name = "fields", .otherwise = "0",
          .doc = "number of fields; 0: as many as the wanted slots name, "
                 "others are skipped" },
        { .name = "values", .otherwise = "no",
          .doc = "yes: the slots V0, V1 ... are there as well" },
        FL_LABEL_OPTION,
    },
    .open = libffm_open,
    .close = libffm_close,
    .line = libffm_line,
    .print = libffm_print,
};
