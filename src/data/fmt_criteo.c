/* fmt_criteo.c - the lines of Criteo's click logs: a label, 13 integers and 26
 * categories, apart by tabs. docs/formats/criteo.md has the rules.
 *
 * A record has the same size whatever the line says, since a category is one id
 * even when it is missing. So the place of each slot in a record is known
 * beforehand, and the columns are written there as they come.
 */
#include "data/fmt_help.h"

#include <inttypes.h>
#include <stdio.h>

#include "base/hash.h"
#include "data/scan_fast.h"

#define N_INTS 13
#define N_CATEGORIES 26
#define FIRST_CATEGORY (1 + N_INTS) /* column number; the label is column 0 */
#define N_VALUES (1 + N_INTS + N_CATEGORIES)
#define HEX_DIGITS 8
#define SHOWN_MAX 40 /* bytes of a field that a reason repeats */
#define HASH_SIZE_MAX (INT64_C(1) << 62)

/* Values of the integer columns become (x - low) / span. */
static const double lows[N_INTS] = { 0, -3, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0 };
static const double spans[N_INTS] = { 20, 603, 100, 50, 64000, 500, 100,
                                      50, 500, 10,  10, 10,    50 };

/* Where a column goes. */
typedef struct target {
    int slot;      /* FL_NO_SLOT: it is not wanted */
    uint32_t word; /* in a record, behind the counts */
} target;

typedef struct wanted_category {
    uint32_t category, word;
} wanted_category;

typedef struct criteo {
    bool has_label;
    uint64_t hash_size;  /* 0: ids are whole hashes */
    uint64_t reciprocal; /* 2^64 / hash_size, rounded down */
    target label, ints;
    wanted_category wanted[N_CATEGORIES];
    uint32_t n_wanted;
    uint32_t n_words; /* of a record's values */
} criteo;

/* --- ids of categories --------------------------------------------------- */

__extension__ typedef unsigned __int128 uint128;

/* hash % size: the estimate of the quotient is right or one too small. */
static inline uint64_t id_of_hash(uint64_t hash, uint64_t size,
                                  uint64_t reciprocal)
{
    uint64_t quotient = (uint64_t)((uint128)hash * reciprocal >> 64);
    uint64_t rest = hash - quotient * size;

    return rest >= size ? rest - size : rest;
}

/* What is mixed into the id of a value: the column from bit 32 on, above it
   whether the value is a number, missing or other text, below it the number. */
static inline uint64_t key_of_column(unsigned column)
{
    return (uint64_t)column << 32;
}
#define MISSING (UINT64_C(1) << 40)
#define TEXT (UINT64_C(2) << 40)

/* Value of eight hexadecimal digits, the first one highest; false when they are
   none. They are when their values, written as digits again, give the same
   bytes: '0' and the value, and 39 more from 'a' on. */
static inline bool read_hex(uint64_t w, uint32_t *out)
{
    uint64_t x = (w & 0x0f * FL_EVERY_BYTE) + (w >> 6 & FL_EVERY_BYTE) * 9;
    uint64_t letter = (x + 6 * FL_EVERY_BYTE) >> 4 & FL_EVERY_BYTE;
    uint64_t again = x + 0x30 * FL_EVERY_BYTE + 39 * letter;
    uint64_t odd = (again ^ (w | letter << 5)) | (x & 0xf0 * FL_EVERY_BYTE);

    x = (x << 4 | x >> 8) & UINT64_C(0x00ff00ff00ff00ff);
    x = (x << 8 | x >> 16) & UINT64_C(0x0000ffff0000ffff);
    *out = (uint32_t)(x << 16 | x >> 32);
    return odd == 0;
}

/* --- what is wrong ------------------------------------------------------- */

static unsigned count_columns(const fl_line *l)
{
    const char *tab = l->at;
    unsigned n = 1;

    FL_ASSERT(tab);
    while ((tab = memchr(tab, '\t', (size_t)(l->end - tab)))) {
        tab++;
        n++;
    }
    return n;
}

static unsigned expected_columns(const criteo *c)
{
    return (unsigned)c->has_label + N_INTS + N_CATEGORIES;
}

static bool blame_columns(const criteo *c, const fl_line *l, fl_bad *bad)
{
    if (l->at == l->end)
        return fl_help_bad(bad, FL_NO_SLOT, "the line is empty");
    return fl_help_bad(bad, FL_NO_SLOT,
                       "%u columns apart by tabs, but a line has %u",
                       count_columns(l), expected_columns(c));
}

/* Blames the field at `at`, unless the number of columns is the better reason;
   there is no place to go on from. */
static const char *no_field(const criteo *c, const fl_line *l, const char *at,
                            int slot, const char *what, fl_bad *bad)
{
    int n = 0;

    if (count_columns(l) != expected_columns(c)) {
        blame_columns(c, l, bad);
        return NULL;
    }
    while (at + n < l->end && at[n] != '\t' && n < SHOWN_MAX)
        n++;
    fl_help_bad(bad, slot, "'%.*s' is no %s", n, at, what);
    return NULL;
}

/* --- columns ------------------------------------------------------------- */

/* Behind the next tab; NULL when there is none. */
static inline const char *skip_column(const char *at, const char *end)
{
    const char *tab = memchr(at, '\t', (size_t)(end - at));

    return tab ? tab + 1 : NULL;
}

static const char *read_label(const fl_parser *p, const fl_line *l,
                              const char *at, uint32_t *row, fl_bad *bad)
{
    const criteo *c = p->state;
    const fl_slot *slot = &p->schema.slots[c->label.slot];
    const char *s = at;
    uint64_t id = fl_digit(s);

    /* Almost always one digit. */
    if (id <= 9 && s[1] == '\t')
        s++;
    else if (!fl_scan_u64(&s, l->end, &id) || *s != '\t')
        return no_field(c, l, at, c->label.slot, "label: a whole number", bad);
    if (FL_UNLIKELY(id > slot->height - 1) &&
        !fl_help_check_id(p, (uint32_t)c->label.slot, id, bad))
        return NULL;
    memcpy(row + c->label.word, &id, sizeof(id));
    return s + 1;
}

/* Any whole number before a tab. */
__attribute__((noinline)) static bool read_int(const char **at, const char *end,
                                               int64_t *out)
{
    return fl_scan_i64(at, end, out) && **at == '\t';
}

/* Nothing, or up to seven digits, before a tab. Columns are missing and long by
   chance, so no branch depends on that. *some is whether there is a number. */
FL_HOT bool read_short_int(const char **at, uint32_t *out, bool *some)
{
    uint64_t t = fl_load_digits(*at), stops = fl_stops(t);
    unsigned n;

    if (FL_UNLIKELY(!stops))
        return false;
    n = (unsigned)__builtin_ctzll(stops) / 8;
    t = t << (56 - 8 * n) << 8;
    *out = (uint32_t)fl_eight_digits(t);
    *some = n > 0;
    *at += n;
    return **at == '\t' && !fl_no_digits(t);
}

static inline const char *read_ints(const criteo *c, const fl_line *l,
                                    const char *at, uint32_t *row, fl_bad *bad)
{
    uint32_t *out = row + c->ints.word;

    for (int i = 0; i < N_INTS; i++) {
        const char *s = at;
        uint32_t number, bits;
        double x;
        float value;
        bool some;

        if (FL_LIKELY(read_short_int(&s, &number, &some))) {
            x = number;
        } else {
            const char *word = at;
            int64_t rare;

            if (!read_int(&word, l->end, &rare))
                return no_field(c, l, at, c->ints.slot, "whole number", bad);
            s = word;
            x = (double)rare;
            some = true;
        }
        value = (float)((x - lows[i]) / spans[i]);
        memcpy(&bits, &value, sizeof(bits));
        out[i] = bits & (0 - (uint32_t)some);
        at = s + 1;
    }
    return at;
}

static const char *skip_columns(const criteo *c, const fl_line *l,
                                const char *at, int n, fl_bad *bad)
{
    while (n-- > 0 && at)
        at = skip_column(at, l->end);
    if (!at)
        blame_columns(c, l, bad);
    return at;
}

/* What is mixed for a category that is neither a number nor missing. */
__attribute__((noinline)) static uint64_t key_of_text(const char **at,
                                                      const char *end)
{
    const char *tab = memchr(*at, '\t', (size_t)(end - *at));
    const char *stop = tab ? tab : end;
    uint64_t hash = fl_hash_bytes(*at, (size_t)(stop - *at));

    *at = stop;
    return hash ^ TEXT;
}

/* What is mixed for the category at *at, which moves to the tab or the end. */
FL_HOT uint64_t key_of_category(const char **at, const char *end)
{
    const char *s = *at, *text = s;
    uint32_t number;
    uint64_t key;

    if (*s == '\t' || s == end)
        return MISSING;
    if (FL_LIKELY(read_hex(fl_load8(s), &number) &&
                  (s[HEX_DIGITS] == '\t' || s + HEX_DIGITS == end))) {
        *at = s + HEX_DIGITS;
        return number;
    }
    key = key_of_text(&text, end);
    *at = text;
    return key;
}

/* First the keys, where branches cannot be foretold, then the ids, where there
   are none. */
static inline bool read_categories(const criteo *c, const fl_line *l,
                                   const char *at, uint32_t *row, fl_bad *bad)
{
    uint64_t size = c->hash_size, reciprocal = c->reciprocal;
    uint64_t keys[N_CATEGORIES];
    const char *end = l->end;

    for (unsigned i = 0; i < N_CATEGORIES; i++) {
        keys[i] = key_of_category(&at, end) ^ key_of_column(FIRST_CATEGORY + i);
        if (i + 1 < N_CATEGORIES && *at++ != '\t')
            return blame_columns(c, l, bad);
    }
    if (at != end)
        return blame_columns(c, l, bad);
    for (unsigned i = 0; i < c->n_wanted; i++) {
        uint64_t hash = fl_mix64(keys[c->wanted[i].category]);
        uint64_t id = id_of_hash(hash, size, reciprocal);

        memcpy(row + c->wanted[i].word, &id, sizeof(id));
    }
    return true;
}

static bool criteo_line(const fl_parser *p, const fl_line *l, fl_row_writer *w,
                        fl_bad *bad, fl_status *st)
{
    const criteo *c = p->state;
    const char *at = l->at;

    *st = fl_row_open(w, N_VALUES);
    if (*st)
        return false;
    if (p->schema.n_ragged)
        memset(w->counts, 1, p->schema.n_ragged);
    if (c->label.slot != FL_NO_SLOT)
        at = read_label(p, l, at, w->at, bad);
    else if (c->has_label)
        at = skip_columns(c, l, at, 1, bad);
    if (!at)
        return false;
    if (c->ints.slot != FL_NO_SLOT)
        at = read_ints(c, l, at, w->at, bad);
    else
        at = skip_columns(c, l, at, N_INTS, bad);
    if (!at || !read_categories(c, l, at, w->at, bad))
        return false;
    w->at += c->n_words;
    fl_row_close(w);
    return true;
}

/* --- opening ------------------------------------------------------------- */

/* Number of the category that a slot is called after, from 0; -1: none. */
static int category_of(const char *name)
{
    const char *at = name + 1;
    uint64_t n;

    if (name[0] != 'C' || name[1] == '0' ||
        !fl_scan_u64(&at, at + strlen(at), &n) || *at || n > N_CATEGORIES)
        return -1;
    return (int)n - 1;
}

static fl_status check_category(const criteo *c, const fl_slot *slot)
{
    if (slot->kind != FL_SLOT_IDS || slot->width > 1)
        FL_FAIL(FL_ERR_INVAL,
                "format criteo: slot %s is a category: ids, ragged or of "
                "width 1",
                slot->name);
    if (slot->height && (!c->hash_size || c->hash_size > slot->height))
        FL_FAIL(FL_ERR_INVAL,
                "format criteo: slot %s takes ids below %" PRIu64
                ", but hash_size=%" PRIu64 " gives larger ones: set hash_size "
                "to the height of the table",
                slot->name, slot->height, c->hash_size);
    return FL_OK;
}

static fl_status check_ints(const criteo *c, const fl_slot *slot)
{
    if (slot->width != N_INTS)
        FL_FAIL(FL_ERR_INVAL,
                "format criteo: slot %s: floats are the 13 integers together, "
                "of width 13",
                slot->name);
    if (c->ints.slot != FL_NO_SLOT)
        FL_FAIL(FL_ERR_INVAL,
                "format criteo: slot %s is a second one for the 13 integers",
                slot->name);
    return FL_OK;
}

static fl_status check_label(const criteo *c, const fl_slot *slot)
{
    if (!c->has_label)
        FL_FAIL(FL_ERR_INVAL,
                "format criteo: slot %s: with label=no, ids are C1 to C26",
                slot->name);
    if (slot->width != 1)
        FL_FAIL(FL_ERR_INVAL,
                "format criteo: slot %s: ids are C1 to C26 and one label of "
                "width 1",
                slot->name);
    if (c->label.slot != FL_NO_SLOT)
        FL_FAIL(FL_ERR_INVAL,
                "format criteo: slot %s is a second one for the label; "
                "categories are called C1 to C26",
                slot->name);
    return FL_OK;
}

/* Slot number i takes the next words of a record. */
static fl_status place_slot(criteo *c, const fl_slot *slot, int i)
{
    int category = category_of(slot->name);
    target here = { .slot = i, .word = c->n_words };

    if (category >= 0) {
        FL_TRY(check_category(c, slot));
        c->wanted[c->n_wanted++] =
            (wanted_category){ (uint32_t)category, c->n_words };
    } else if (slot->kind == FL_SLOT_FLOATS) {
        FL_TRY(check_ints(c, slot));
        c->ints = here;
    } else {
        FL_TRY(check_label(c, slot));
        c->label = here;
    }
    c->n_words += (slot->width ? slot->width : 1) * fl_slot_bytes(slot) / 4;
    return FL_OK;
}

static fl_status place_slots(const fl_parser *p, criteo *c)
{
    for (uint32_t i = 0; i < p->schema.n_slots; i++)
        FL_TRY(place_slot(c, &p->schema.slots[i], (int)i));
    return FL_OK;
}

/* label, dense, C1 to C26. */
static fl_status default_slots(fl_parser *p, const criteo *c)
{
    char names[N_CATEGORIES][sizeof("C26")];
    fl_slot slots[2 + N_CATEGORIES];
    size_t n = 0;

    if (c->has_label)
        slots[n++] = (fl_slot){ "label", FL_SLOT_IDS, 1, 0 };
    slots[n++] = (fl_slot){ "dense", FL_SLOT_FLOATS, N_INTS, 0 };
    for (int i = 0; i < N_CATEGORIES; i++) {
        snprintf(names[i], sizeof(names[i]), "C%d", i + 1);
        slots[n++] = (fl_slot){ names[i], FL_SLOT_IDS, 1, c->hash_size };
    }
    return fl_schema_init(&p->schema, slots, n);
}

static fl_status criteo_open(fl_parser *p, const char *sample)
{
    criteo *c = fl_alloc(sizeof(*c));
    int64_t size;

    (void)sample;
    p->state = c;
    FL_TRY(fl_parser_option_bool(p, "label", &c->has_label));
    FL_TRY(fl_parser_option_int(p, "hash_size", 0, HASH_SIZE_MAX, &size));
    c->hash_size = (uint64_t)size;
    c->reciprocal = size ? UINT64_MAX / c->hash_size : 0;
    c->label.slot = c->ints.slot = FL_NO_SLOT;
    if (p->wanted.n_slots)
        FL_TRY(fl_schema_init(&p->schema, p->wanted.slots, p->wanted.n_slots));
    else
        FL_TRY(default_slots(p, c));
    return place_slots(p, c);
}

static void criteo_close(fl_parser *p)
{
    fl_free(p->state);
}

const fl_format fl_format_criteo = {
    .name = "criteo",
    .doc = "label, 13 integers and 26 categories, apart by tabs; the integers "
           "are scaled, the categories hashed",
    .options = {
        { .name = "hash_size",
          .doc = "ids of categories are below it; 0: whole 64-bit hashes",
          .otherwise = "1000001" },
        { .name = "label",
          .doc = "yes, or no for test files, whose lines lack the label",
          .otherwise = "yes" },
    },
    .open = criteo_open,
    .close = criteo_close,
    .line = criteo_line,
};
