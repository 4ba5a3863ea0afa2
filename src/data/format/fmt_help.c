/* fmt_help.c - what the formats of named values share. */
#include "data/format/fmt_help.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>

#include "base/hash.h"
#include "data/format/scan.h"

/* So much of an offending text is shown. */
#define SHOWN_MAX 40

bool fl_help_bad(fl_bad *bad, int slot, const char *fmt, ...)
{
    va_list ap;

    if (!bad)
        return false;
    bad->slot = slot;
    va_start(ap, fmt);
    vsnprintf(bad->reason, sizeof(bad->reason), fmt, ap);
    va_end(ap);
    for (char *c = bad->reason; *c; c++)
        if (*c < ' ' || *c > '~')
            *c = '?';
    return false;
}

/* --- slots ---------------------------------------------------------------- */

static const char *kind_name(fl_slot_kind kind)
{
    return kind == FL_SLOT_IDS ? "ids" : "floats";
}

static fl_status no_such_slot(const fl_parser *p, const char *name,
                              const fl_slot *offers, size_t n_offers)
{
    fl_str have = { 0 };

    for (size_t i = 0; i < n_offers && have.len < SHOWN_MAX; i++)
        fl_str_addf(&have, "%s%s", i ? ", " : "", offers[i].name);
    (void)fl_err_set(FL_ERR_NOTFOUND,
                     "format %s has no slot called %s: it has %s%s",
                     p->format->name, name, fl_str_text(&have),
                     have.len >= SHOWN_MAX ? " ..." : "");
    fl_str_release(&have);
    return FL_ERR_NOTFOUND;
}

/* The wanted slot as it will be given, in *out. */
static fl_status match(const fl_slot *offer, const fl_slot *wanted,
                       fl_slot *out)
{
    if (offer->kind != wanted->kind)
        FL_FAIL(FL_ERR_INVAL, "slot %s has %s in this format, wanted are %s",
                wanted->name, kind_name(offer->kind), kind_name(wanted->kind));
    if (offer->width && wanted->width && offer->width != wanted->width)
        FL_FAIL(FL_ERR_INVAL,
                "slot %s has %u values a record in this format, wanted are %u",
                wanted->name, offer->width, wanted->width);
    if (wanted->height && offer->height > wanted->height)
        FL_FAIL(FL_ERR_INVAL,
                "slot %s: the format gives ids below %" PRIu64
                ", wanted are ids below %" PRIu64
                ": make the table larger or the format's range smaller",
                wanted->name, offer->height, wanted->height);
    *out = *wanted;
    if (!out->height)
        out->height = offer->height;
    return FL_OK;
}

static fl_status pick_wanted(fl_parser *p, const fl_slot *offers,
                             size_t n_offers, int *slot_of, fl_slot *picked)
{
    for (uint32_t w = 0; w < p->wanted.n_slots; w++) {
        const fl_slot *wanted = &p->wanted.slots[w];
        size_t i = 0;

        while (i < n_offers && strcmp(offers[i].name, wanted->name) != 0)
            i++;
        if (i == n_offers)
            return no_such_slot(p, wanted->name, offers, n_offers);
        FL_TRY(match(&offers[i], wanted, &picked[w]));
        slot_of[i] = (int)w;
    }
    return fl_schema_init(&p->schema, picked, p->wanted.n_slots);
}

fl_status fl_help_pick(fl_parser *p, const fl_slot *offers, size_t n_offers,
                       int *slot_of)
{
    bool all = p->wanted.n_slots == 0;
    fl_slot *picked;
    fl_status st;

    for (size_t i = 0; i < n_offers; i++)
        slot_of[i] = all ? (int)i : FL_NO_SLOT;
    if (all)
        return fl_schema_init(&p->schema, offers, n_offers);
    picked = fl_alloc(p->wanted.n_slots * sizeof(*picked));
    st = pick_wanted(p, offers, n_offers, slot_of, picked);
    fl_free(picked);
    return st;
}

/* --- lines ---------------------------------------------------------------- */

uint64_t fl_help_line_stream(uint64_t stream, const fl_line *l)
{
    uint64_t h = fl_mix64(stream ^ l->file);

    h = fl_mix64(h + fl_mix64(l->number));
    return fl_mix64(h + fl_mix64(l->epoch + 1));
}

uint32_t fl_help_count_words(const char *at, const char *end)
{
    uint32_t n = 0;

    for (at = fl_help_skip_blanks(at, end); at < end;
         at = fl_help_skip_blanks(at, end)) {
        at = fl_help_skip_word(at, end);
        n++;
    }
    return n;
}

int fl_help_shown(const char *at, const char *end)
{
    if (end - at > SHOWN_MAX)
        end = at + SHOWN_MAX;
    return (int)(fl_help_skip_word(at, end) - at);
}

static bool word_ends(const char *at, const char *end)
{
    return at == end || fl_help_is_blank(*at);
}

fl_status fl_help_label_kind(const fl_parser *p, fl_slot_kind *kind)
{
    const char *how = fl_parser_option(p, "label");
    int wanted = fl_schema_find(&p->wanted, "label");

    *kind = FL_SLOT_FLOATS;
    if (strcmp(how, "ids") == 0)
        *kind = FL_SLOT_IDS;
    else if (strcmp(how, "auto") == 0 && wanted >= 0)
        *kind = p->wanted.slots[wanted].kind;
    else if (strcmp(how, "auto") != 0 && strcmp(how, "floats") != 0)
        FL_FAIL(FL_ERR_INVAL,
                "format %s: label=%s is none of floats, ids and auto",
                p->format->name, how);
    return FL_OK;
}

static bool scan_label_id(const char **at, const char *end, uint64_t *out)
{
    if (end - *at >= 2 && (*at)[0] == '-' && (*at)[1] == '1') {
        *at += 2;
        *out = 0;
        return true;
    }
    if (end - *at >= 2 && **at == '+')
        ++*at;
    return fl_scan_u64(at, end, out);
}

bool fl_help_label(const char **at, const char *end, fl_slot_kind kind,
                   fl_label *out, fl_bad *bad)
{
    const char *word = *at;
    bool good;

    if (word == end)
        return fl_help_bad(bad, FL_NO_SLOT, "the line is empty");
    *out = (fl_label){ 0 };
    good = kind == FL_SLOT_IDS ? scan_label_id(at, end, &out->id)
                               : fl_scan_f32(at, end, &out->value);
    if (!good || !word_ends(*at, end))
        return fl_help_bad(bad, FL_NO_SLOT, "the label '%.*s' is no %s",
                           fl_help_shown(word, end), word,
                           kind == FL_SLOT_IDS ? "id" : "number");
    return true;
}

bool fl_help_feature(const char **at, const char *end, uint64_t *index,
                     float *value, fl_bad *bad)
{
    const char *word = *at;
    bool good;

    *value = 1;
    good = word < end && fl_scan_u64(at, end, index);
    if (good && *at < end && **at == ':') {
        ++*at;
        good = *at < end && fl_scan_f32(at, end, value);
    }
    if (!good || !word_ends(*at, end))
        return fl_help_bad(bad, FL_NO_SLOT,
                           "'%.*s' is no feature: INDEX:VALUE or INDEX",
                           fl_help_shown(word, end), word);
    return true;
}

/* --- values of a row ------------------------------------------------------ */

bool fl_help_check_count(const fl_parser *p, uint32_t slot, uint32_t n,
                         fl_bad *bad)
{
    const fl_slot *s = &p->schema.slots[slot];

    if (s->width && n != s->width)
        return fl_help_bad(bad, (int)slot,
                           "the line has %u values, the slot takes %u", n,
                           s->width);
    if (n == 0 && !s->width && !p->empty_slots)
        return fl_help_bad(bad, (int)slot,
                           "the slot has no value (empty_slots allows that)");
    return true;
}

bool fl_help_check_id(const fl_parser *p, uint32_t slot, uint64_t id,
                      fl_bad *bad)
{
    uint64_t height = p->schema.slots[slot].height;

    if (height && id >= height)
        return fl_help_bad(bad, (int)slot,
                           "id %" PRIu64 " is not below %" PRIu64, id, height);
    return true;
}

bool fl_help_put_label(const fl_parser *p, int slot, const fl_label *label,
                       uint32_t *place, fl_bad *bad)
{
    if (slot == FL_NO_SLOT)
        return true;
    if (p->schema.slots[slot].kind == FL_SLOT_FLOATS) {
        memcpy(place, &label->value, sizeof(label->value));
        return true;
    }
    memcpy(place, &label->id, sizeof(label->id));
    return fl_help_check_id(p, (uint32_t)slot, label->id, bad);
}

uint32_t *fl_help_place(fl_row_writer *w, const fl_slot *slot, uint32_t ragged,
                        uint32_t n)
{
    uint32_t *place;

    fl_row_slot(w, slot, ragged, n);
    place = w->at;
    w->at += (size_t)n * (fl_slot_bytes(slot) / sizeof(*w->at));
    return place;
}

void fl_help_parts(const fl_schema *s, const uint32_t *row, fl_row_part *parts)
{
    const uint8_t *counts = (const uint8_t *)row;
    const uint32_t *at = row + s->count_words;

    for (uint32_t i = 0; i < s->n_slots; i++) {
        const fl_slot *slot = &s->slots[i];
        uint32_t n = slot->width;

        if (!slot->width)
            n = *counts++;
        if (!slot->width && n == FL_ROW_LONG)
            n = *at++;
        parts[i] = (fl_row_part){ .at = at, .n = n };
        at += (size_t)n * (fl_slot_bytes(slot) / sizeof(*at));
    }
}

uint64_t fl_help_id(const fl_row_part *part, uint32_t i)
{
    uint64_t id;

    memcpy(&id, part->at + 2 * (size_t)i, sizeof(id));
    return id;
}

float fl_help_float(const fl_row_part *part, uint32_t i)
{
    float x;

    memcpy(&x, part->at + i, sizeof(x));
    return x;
}

void fl_help_print_label(fl_str *out, const fl_schema *s, int slot,
                         const fl_row_part *parts)
{
    if (slot == FL_NO_SLOT || parts[slot].n == 0)
        fl_str_add(out, "0");
    else if (s->slots[slot].kind == FL_SLOT_IDS)
        fl_str_addf(out, "%" PRIu64, fl_help_id(&parts[slot], 0));
    else
        fl_print_f32(out, fl_help_float(&parts[slot], 0));
}

void fl_help_print_feature(fl_str *out, const fl_row_part *ids,
                           const fl_row_part *values, uint32_t i)
{
    fl_str_addf(out, "%" PRIu64 ":", i < ids->n ? fl_help_id(ids, i) : 0);
    fl_print_f32(out, i < values->n ? fl_help_float(values, i) : 1);
}
