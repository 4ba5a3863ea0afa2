/* fmt_multislot.c - MultiSlot lines: for each slot a count and that many
 * values. docs/formats/multislot.md has the rules.
 *
 * The loops take a number and one blank behind it at a time. Whatever is rare
 * (more blanks, tabs, the end of the line, an error) goes through functions of
 * its own, which read the number once more and know what to say. A number at
 * the end of the line stops there by itself, since no digit follows; so `end`
 * may be that of the text as well, as long as nobody asks what is wrong.
 */
#include "data/format/fmt_multislot.h"

#include <inttypes.h>

#include "data/format/fmt_help.h"
#include "data/format/scan_fast.h"

#define RARE __attribute__((noinline, cold))

/* A number is read: a blank or the end of the line must follow. */
static inline bool step_over(const char **at, const char *end)
{
    if (FL_LIKELY(**at == ' ' || **at == '\t')) {
        ++*at;
        return true;
    }
    return fl_help_ends_line(*at, end);
}

/* --- the rare cases ------------------------------------------------------ */

/* Where the next number begins; NULL when the line ends before it. */
static const char *find_word(const char *at, const char *end, int slot,
                             const char *what, fl_bad *bad)
{
    at = fl_help_skip_blanks(at, end);
    if (at < end)
        return at;
    fl_help_bad(bad, slot, "the line ends where %s is expected", what);
    return NULL;
}

RARE static bool rare_count(const char **at, const char *end, int slot,
                            uint64_t *n, fl_bad *bad)
{
    const char *word = find_word(*at, end, slot, "a count", bad);

    if (!word)
        return false;
    *at = word;
    if (!fl_scan_u64(at, end, n) || !step_over(at, end))
        return fl_help_bad(bad, slot, "'%.*s' is no count",
                           fl_help_shown(word, end), word);
    return true;
}

RARE static bool rare_id(const fl_parser *p, const char **at, const char *end,
                         uint32_t slot, uint64_t *id, fl_bad *bad)
{
    const char *word = find_word(*at, end, (int)slot, "an id", bad);

    if (!word)
        return false;
    *at = word;
    if (!fl_scan_u64(at, end, id) || !step_over(at, end))
        return fl_help_bad(bad, (int)slot,
                           "'%.*s' is no id: a whole number below 2^64",
                           fl_help_shown(word, end), word);
    return fl_help_check_id(p, slot, *id, bad);
}

RARE static bool rare_float(const char **at, const char *end, uint32_t slot,
                            float *x, fl_bad *bad)
{
    const char *word = find_word(*at, end, (int)slot, "a number", bad);

    if (!word)
        return false;
    *at = word;
    if (!fl_scan_f32(at, end, x) || !step_over(at, end))
        return fl_help_bad(bad, (int)slot, "'%.*s' is no number for a float",
                           fl_help_shown(word, end), word);
    return true;
}

/* Says why count_fits() is false. */
RARE static bool blame_count(const fl_slot *slot, int i, uint64_t n,
                             size_t left, fl_bad *bad)
{
    if (slot->width && n != slot->width)
        return fl_help_bad(bad, i, "%" PRIu64 " values, but the slot has %u", n,
                           slot->width);
    if (n == 0)
        return fl_help_bad(bad, i,
                           "no values; the setting empty_slots allows that");
    return fl_help_bad(bad, i,
                       "%" PRIu64 " values cannot stand in the %zu bytes that "
                       "are left of the line",
                       n, left);
}

/* --- slots --------------------------------------------------------------- */

/* Where reading and writing stand; a local of the loops, so it lives in
   registers. */
typedef struct place {
    const char *at, *end;
    uint32_t *out;
    const uint32_t *out_end; /* behind it is room for one value of each slot */
} place;

FL_HOT bool read_ids(const fl_parser *p, uint32_t i, uint32_t n, place *c,
                     fl_bad *bad)
{
    /* No height, 0, becomes the largest id. */
    uint64_t last = p->schema.slots[i].height - 1;

    for (uint32_t k = 0; k < n; k++) {
        const char *s = c->at;
        uint64_t id;

        if (FL_UNLIKELY(!fl_fast_u64(&s, c->end, &id) ||
                        !step_over(&s, c->end) || id > last)) {
            const char *word = c->at;
            uint64_t rare;

            if (!rare_id(p, &word, c->end, i, &rare, bad))
                return false;
            s = word;
            id = rare;
        }
        c->at = s;
        memcpy(c->out, &id, sizeof(id));
        c->out += 2;
    }
    return true;
}

FL_HOT bool read_floats(uint32_t i, uint32_t n, place *c, fl_bad *bad)
{
    for (uint32_t k = 0; k < n; k++) {
        const char *s = c->at;
        float x;

        if (FL_UNLIKELY(!(fl_unit_f32(&s, &x) || fl_short_f32(&s, &x)) ||
                        !step_over(&s, c->end))) {
            const char *word = c->at;
            float rare;

            if (!rare_float(&word, c->end, i, &rare, bad))
                return false;
            s = word;
            x = rare;
        }
        c->at = s;
        memcpy(c->out++, &x, sizeof(x));
    }
    return true;
}

FL_HOT bool read_count(const char **at, const char *end, int slot, uint64_t *n,
                       fl_bad *bad)
{
    const char *s = *at;
    uint64_t n_digits;

    if (FL_LIKELY(fl_digit(s) <= 9 && s[1] == ' ')) {
        *n = fl_digit(s);
        *at = s + 2;
        return true;
    }
    n_digits = fl_short_u64(s, n);
    s += n_digits;
    if (FL_UNLIKELY(!n_digits || !step_over(&s, end))) {
        const char *word = *at;
        uint64_t rare;

        if (!rare_count(&word, end, slot, &rare, bad))
            return false;
        s = word;
        *n = rare;
    }
    *at = s;
    return true;
}

/* The bytes that follow have so many values only. Where they are not those of
   the line alone, the room of the record may be too small for them. */
FL_HOT bool count_fits(const fl_parser *p, const fl_slot *slot, uint64_t n,
                       const place *c)
{
    if (FL_LIKELY(n == 1))
        return slot->width <= 1;
    if (slot->width ? n != slot->width : n == 0 && !p->empty_slots)
        return false;
    return n <= (size_t)(c->end - c->at) / 2 + 1 && n <= UINT32_MAX &&
           (ptrdiff_t)(2 * n + 1) <= c->out_end - c->out;
}

/* `count` is where the count of the slot goes if it is ragged. Not inlined, so
   that the loop over the slots keeps its registers. */
__attribute__((noinline)) static bool read_slot(const fl_parser *p, uint32_t i,
                                                uint8_t *count, place *from,
                                                fl_bad *bad)
{
    const fl_slot *slot = &p->schema.slots[i];
    place c = *from;
    uint64_t n;
    bool good;

    if (!read_count(&c.at, c.end, (int)i, &n, bad))
        return false;
    if (FL_UNLIKELY(!count_fits(p, slot, n, &c)))
        return blame_count(slot, (int)i, n, (size_t)(c.end - c.at), bad);
    if (!slot->width) {
        *count = (uint8_t)(n < FL_ROW_LONG ? n : FL_ROW_LONG);
        if (FL_UNLIKELY(n >= FL_ROW_LONG))
            *c.out++ = (uint32_t)n;
    }
    good = slot->kind == FL_SLOT_IDS ? read_ids(p, i, (uint32_t)n, &c, bad)
                                     : read_floats(i, (uint32_t)n, &c, bad);
    *from = c;
    return good;
}

/* Most slots have one id of few digits. Where this one has not, nothing is
   changed and the answer is false. */
FL_HOT bool read_one_id(const fl_slot *slot, uint8_t *count, place *c)
{
    const char *next;
    uint64_t id, n;

    if (slot->kind != FL_SLOT_IDS || slot->width > 1 ||
        memcmp(c->at, "1 ", 2) != 0)
        return false;
    n = fl_short_u64(c->at + 2, &id);
    next = c->at + 3 + n;
    if (!n || id > slot->height - 1)
        return false;
    if (FL_UNLIKELY(next[-1] != ' ') && !fl_help_ends_line(--next, c->end))
        return false;
    if (!slot->width)
        *count = 1;
    memcpy(c->out, &id, sizeof(id));
    c->out += 2;
    c->at = next;
    return true;
}

static const uint32_t *place_end(const fl_row_writer *w)
{
    const fl_schema *s = w->schema;

    return w->rows->words + w->rows->cap - 2 * (size_t)s->n_slots - s->n_ragged;
}

bool fl_multislot_slot(const fl_parser *p, const fl_line *l, uint32_t i,
                       uint32_t ragged, fl_row_writer *w, fl_bad *bad)
{
    place c = { l->at, l->end, w->at, place_end(w) };
    bool good = read_slot(p, i, w->counts + ragged, &c, bad);

    w->at = c.out;
    return good;
}

bool fl_multislot_skip(const char **at, const char *end, int slot, fl_bad *bad)
{
    uint64_t n;

    if (!read_count(at, end, slot, &n, bad))
        return false;
    for (; n > 0; n--) {
        *at = fl_help_skip_blanks(*at, end);
        if (*at == end)
            return fl_help_bad(bad, slot,
                               "the line ends where a value is expected");
        *at = fl_help_skip_word(*at, end);
    }
    return true;
}

/* --- lines --------------------------------------------------------------- */

bool fl_multislot_end(const char *at, const char *end, fl_bad *bad)
{
    at = fl_help_skip_blanks(at, end);
    if (at == end)
        return true;
    return fl_help_bad(bad, FL_NO_SLOT, "'%.*s' stands behind the last slot",
                       fl_help_shown(at, end), at);
}

/* A value takes two bytes, the last one of a line one; a count may promise one
   value more than there are. */
fl_status fl_multislot_open(fl_row_writer *w, const fl_line *l)
{
    size_t most = (size_t)(l->end - l->at) / 2 + 2;

    return fl_row_open(w, most + w->schema->n_slots);
}

/* Reads all slots into the open record. Where the last one ends; NULL when it
   is bad. */
FL_HOT const char *read_slots(const fl_parser *p, const fl_line *l,
                              fl_row_writer *w, fl_bad *bad)
{
    const fl_slot *slots = p->schema.slots;
    uint32_t n_slots = p->schema.n_slots;
    place c = { l->at, l->end, w->at, place_end(w) };
    uint8_t *count = w->counts;

    for (uint32_t i = 0; i < n_slots; i++) {
        if (FL_UNLIKELY(!read_one_id(&slots[i], count, &c))) {
            place copy = c;

            if (!read_slot(p, i, count, &copy, bad))
                return NULL;
            c = copy;
        }
        count += slots[i].width == 0;
    }
    w->at = c.out;
    return c.at;
}

const char *fl_multislot_take(const fl_parser *p, const fl_line *l,
                              fl_row_writer *w, fl_status *st)
{
    const char *at;

    *st = fl_row_open(w, p->schema.n_slots);
    if (*st)
        return NULL;
    at = read_slots(p, l, w, NULL);
    if (!at)
        return NULL;
    at = fl_help_skip_blanks(at, l->end);
    if (!fl_help_ends_line(at, l->end))
        return NULL;
    fl_row_close(w);
    return fl_help_next_line(at, l->end);
}

bool fl_multislot_line(const fl_parser *p, const fl_line *l, fl_row_writer *w,
                       fl_bad *bad, fl_status *st)
{
    const char *at;

    if (fl_help_skip_blanks(l->at, l->end) == l->end)
        return fl_help_bad(bad, FL_NO_SLOT, "the line is empty");
    *st = fl_multislot_open(w, l);
    if (*st)
        return false;
    at = read_slots(p, l, w, bad);
    if (!at || !fl_multislot_end(at, l->end, bad))
        return false;
    fl_row_close(w);
    return true;
}

void fl_multislot_print(const fl_parser *p, const uint32_t *row, fl_str *out)
{
    const fl_schema *s = &p->schema;
    fl_row_part parts[FL_SLOTS_MAX];

    fl_help_parts(s, row, parts);
    for (uint32_t i = 0; i < s->n_slots; i++) {
        fl_str_addf(out, "%s%u", i ? " " : "", parts[i].n);
        for (uint32_t k = 0; k < parts[i].n; k++) {
            fl_str_add(out, " ");
            if (s->slots[i].kind == FL_SLOT_IDS)
                fl_str_addf(out, "%" PRIu64, fl_help_id(&parts[i], k));
            else
                fl_print_f32(out, fl_help_float(&parts[i], k));
        }
    }
}

static fl_status multislot_open(fl_parser *p, const char *sample)
{
    (void)sample;
    if (!p->wanted.n_slots)
        FL_FAIL(FL_ERR_INVAL,
                "format multislot: the lines do not say what their slots are; "
                "name them (set_slots, set_use_var), or use multislot_header");
    return fl_schema_init(&p->schema, p->wanted.slots, p->wanted.n_slots);
}

const fl_format fl_format_multislot = {
    .name = "multislot",
    .doc = "per slot a count and that many ids or floats, apart by blanks",
    .open = multislot_open,
    .take = fl_multislot_take,
    .line = fl_multislot_line,
    .print = fl_multislot_print,
};
