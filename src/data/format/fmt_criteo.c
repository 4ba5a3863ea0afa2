/* fmt_criteo.c - the lines of Criteo's click logs: a label, 13 integers and 26
 * categories, apart by tabs. docs/formats/criteo.md has the rules.
 *
 * A record has the same size whatever the line says, since a category is one id
 * even when it is missing. So the place of each slot in a record is known
 * beforehand, and the columns are written there as they come.
 */
#include "data/format/fmt_help.h"

#include <inttypes.h>
#include <stdio.h>

#include "base/hash.h"
#include "data/format/scan_fast.h"

#define N_INTS 13
#define N_CATEGORIES 26
#define FIRST_CATEGORY (1 + N_INTS) /* column number; the label is column 0 */
#define N_VALUES (1 + N_INTS + N_CATEGORIES)
#define HEX_DIGITS 8
#define SHOWN_MAX 40 /* bytes of a field that a reason repeats */
#define HASH_SIZE_MAX (INT64_C(1) << 62)

/* Values of the integer columns become (x - low) / span. */
static const int32_t lows[N_INTS] = { 0, -3, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0 };
static const double spans[N_INTS] = { 20, 603, 100, 50, 64000, 500, 100,
                                      50, 500, 10,  10, 10,    50 };

/* Where a column goes. */
typedef struct target {
    int slot;      /* FL_NO_SLOT: it is not wanted */
    uint32_t word; /* in a record, behind the counts */
} target;

typedef struct wanted_category {
    uint64_t column; /* what is mixed into its ids */
    uint32_t category, word;
} wanted_category;

typedef struct criteo {
    bool has_label, skips; /* skips: label or integers are not wanted */
    uint64_t hash_size;    /* 0: ids are whole hashes */
    uint64_t reciprocal;   /* 2^64 / hash_size, rounded down */
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
#define MISSING (UINT64_C(1) << 40)
#define TEXT (UINT64_C(2) << 40)

/* Value of eight hexadecimal digits of either case, the first one highest;
   false when they are none. */
#ifdef __x86_64__
static inline bool read_hex(const char *s, uint32_t *out)
{
    __m128i w = _mm_loadl_epi64((const __m128i *)(const void *)s);
    __m128i letters = _mm_cmpgt_epi8(w, _mm_set1_epi8('9'));
    __m128i lower = _mm_or_si128(w, _mm_set1_epi8(0x20));
    /* Digits become the ten largest bytes, letters the six largest ones. */
    __m128i digits_top = _mm_sub_epi8(w, _mm_set1_epi8('9' + 1));
    __m128i letters_top = _mm_sub_epi8(lower, _mm_set1_epi8('f' + 1));
    __m128i top =
        _mm_max_epu8(digits_top, _mm_subs_epu8(letters_top, _mm_set1_epi8(4)));
    __m128i odd = _mm_subs_epu8(_mm_set1_epi8(-10), top);
    __m128i x = _mm_add_epi8(_mm_and_si128(w, _mm_set1_epi8(0x0f)),
                             _mm_and_si128(letters, _mm_set1_epi8(9)));

    x = _mm_srli_epi16(_mm_mullo_epi16(x, _mm_set1_epi16(0x1001)), 8);
    x = _mm_packus_epi16(x, x);
    *out = __builtin_bswap32((uint32_t)_mm_cvtsi128_si32(x));
    return _mm_cvtsi128_si64(odd) == 0;
}
#else
/* They are when their values, written as digits again, give the same bytes: '0'
   and the value, and 39 more from 'a' on. */
static inline bool read_hex(const char *s, uint32_t *out)
{
    uint64_t w = fl_load8(s);
    uint64_t x = (w & 0x0f * FL_EVERY_BYTE) + (w >> 6 & FL_EVERY_BYTE) * 9;
    uint64_t letter = (x + 6 * FL_EVERY_BYTE) >> 4 & FL_EVERY_BYTE;
    uint64_t again = x + 0x30 * FL_EVERY_BYTE + 39 * letter;
    uint64_t odd = (again ^ (w | letter << 5)) | (x & 0xf0 * FL_EVERY_BYTE);

    x = (x << 4 | x >> 8) & UINT64_C(0x00ff00ff00ff00ff);
    x = (x << 8 | x >> 16) & UINT64_C(0x0000ffff0000ffff);
    *out = (uint32_t)(x << 16 | x >> 32);
    return odd == 0;
}
#endif

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

/* Blames the number of columns, if somebody asks why; there is no place to go
   on from. */
static const char *no_columns(const criteo *c, const fl_line *l, fl_bad *bad)
{
    if (!bad)
        return NULL;
    if (l->at == l->end)
        fl_help_bad(bad, FL_NO_SLOT, "the line is empty");
    else
        fl_help_bad(bad, FL_NO_SLOT,
                    "%u columns apart by tabs, but a line has %u",
                    count_columns(l), expected_columns(c));
    return NULL;
}

/* The same for the field at `at`, unless the number of columns is the better
   reason. */
static const char *no_field(const criteo *c, const fl_line *l, const char *at,
                            int slot, const char *what, fl_bad *bad)
{
    int n = 0;

    if (!bad)
        return NULL;
    if (count_columns(l) != expected_columns(c))
        return no_columns(c, l, bad);
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

/* Nothing, or up to seven digits, before a tab, behind which *at moves; *above
   is by how much they are above `low`, 0 for nothing. Columns are missing and
   long by chance, so no branch depends on that. */
FL_HOT bool read_short_int(const char **at, int32_t low, int32_t *above)
{
    const char *s = *at;
    uint64_t t = fl_load_digits(s), stops = fl_stops(t);
    unsigned n;

    if (FL_UNLIKELY(!stops))
        return false;
    n = (unsigned)__builtin_ctzll(stops) / 8;
    t = t << (56 - 8 * n) << 8;
    *above = ((int32_t)fl_eight_digits(t) - low) & -(n > 0);
    *at = s + 1 + n;
    return s[n] == '\t' && !fl_no_digits(t);
}

static inline const char *read_ints(const criteo *c, const fl_line *l,
                                    const char *at, uint32_t *row, fl_bad *bad)
{
    uint32_t *out = row + c->ints.word;

    for (int i = 0; i < N_INTS; i++) {
        const char *s = at;
        int32_t above;
        double x;
        float value;

        if (FL_LIKELY(read_short_int(&s, lows[i], &above))) {
            x = above;
        } else {
            const char *word = at;
            int64_t rare;

            if (!read_int(&word, l->end, &rare))
                return no_field(c, l, at, c->ints.slot, "whole number", bad);
            s = word + 1;
            x = (double)rare - lows[i];
        }
        value = (float)(x / spans[i]);
        memcpy(&out[i], &value, sizeof(value));
        at = s;
    }
    return at;
}

static const char *skip_columns(const criteo *c, const fl_line *l,
                                const char *at, int n, fl_bad *bad)
{
    while (n-- > 0 && at)
        at = skip_column(at, l->end);
    return at ? at : no_columns(c, l, bad);
}

static inline bool ends_field(const char *at, const char *end)
{
    return *at == '\t' || fl_help_ends_line(at, end);
}

/* What is mixed for a category that is neither a number nor missing. */
__attribute__((noinline)) static uint64_t key_of_text(const char **at,
                                                      const char *end)
{
    const char *stop = *at;
    uint64_t hash;

    while (!ends_field(stop, end))
        stop++;
    hash = fl_hash_bytes(*at, (size_t)(stop - *at));
    *at = stop;
    return hash ^ TEXT;
}

/* What is mixed for the category at *at, which moves to its end. */
__attribute__((noinline)) static uint64_t rare_key(const char **at,
                                                   const char *end)
{
    const char *s = *at;
    uint32_t number;

    if (ends_field(s, end))
        return MISSING;
    if (!read_hex(s, &number) || !ends_field(s + HEX_DIGITS, end))
        return key_of_text(at, end);
    *at = s + HEX_DIGITS;
    return number;
}

/* The same for one before a tab, behind which *at moves; false when there is
   none. */
FL_HOT bool read_category(const char **at, const char *end, uint64_t *key)
{
    const char *s = *at;
    uint32_t number;

    if (*s == '\t') {
        *key = MISSING;
    } else if (FL_LIKELY(read_hex(s, &number) && s[HEX_DIGITS] == '\t')) {
        *key = number;
        s += HEX_DIGITS;
    } else {
        const char *copy = s; /* so that s stays in a register */

        *key = rare_key(&copy, end);
        s = copy;
        if (*s != '\t')
            return false;
    }
    *at = s + 1;
    return true;
}

/* First the keys, where branches cannot be foretold, then the ids, where there
   are none. */
static inline const char *read_categories(const criteo *c, const fl_line *l,
                                          const char *at, uint32_t *row,
                                          fl_bad *bad)
{
    uint64_t size = c->hash_size, reciprocal = c->reciprocal;
    uint64_t keys[N_CATEGORIES];
    const char *stop;

    for (int i = 0; i < N_CATEGORIES - 1; i++)
        if (FL_UNLIKELY(!read_category(&at, l->end, &keys[i])))
            return no_columns(c, l, bad);
    stop = at;
    keys[N_CATEGORIES - 1] = rare_key(&stop, l->end);
    if (FL_UNLIKELY(!fl_help_ends_line(stop, l->end)))
        return no_columns(c, l, bad);
    for (uint32_t i = 0, n = c->n_wanted; i < n; i++) {
        const wanted_category *to = &c->wanted[i];
        uint64_t hash = fl_mix64(keys[to->category] ^ to->column);
        uint64_t id = id_of_hash(hash, size, reciprocal);

        memcpy(row + to->word, &id, sizeof(id));
    }
    return stop;
}

/* Into the open record. Where the line ends, or NULL when it is bad. */
static inline const char *read_columns(const fl_parser *p, const fl_line *l,
                                       fl_row_writer *w, fl_bad *bad)
{
    const criteo *c = p->state;
    const char *at = l->at;

    if (p->schema.n_ragged)
        memset(w->counts, 1, p->schema.n_ragged);
    if (c->label.slot != FL_NO_SLOT)
        at = read_label(p, l, at, w->at, bad);
    else if (c->has_label)
        at = skip_columns(c, l, at, 1, bad);
    if (!at)
        return NULL;
    if (c->ints.slot != FL_NO_SLOT)
        at = read_ints(c, l, at, w->at, bad);
    else
        at = skip_columns(c, l, at, N_INTS, bad);
    if (!at)
        return NULL;
    at = read_categories(c, l, at, w->at, bad);
    w->at += c->n_words;
    return at;
}

/* Columns that nobody wants are passed over by their tabs, which needs the end
   of the line. */
static const char *criteo_take(const fl_parser *p, const fl_line *l,
                               fl_row_writer *w, fl_status *st)
{
    const criteo *c = p->state;
    const char *at;

    if (c->skips)
        return NULL;
    *st = fl_row_open(w, N_VALUES);
    if (*st)
        return NULL;
    at = read_columns(p, l, w, NULL);
    if (!at)
        return NULL;
    fl_row_close(w);
    return fl_help_next_line(at, l->end);
}

static bool criteo_line(const fl_parser *p, const fl_line *l, fl_row_writer *w,
                        fl_bad *bad, fl_status *st)
{
    *st = fl_row_open(w, N_VALUES);
    if (*st || !read_columns(p, l, w, bad))
        return false;
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
        c->wanted[c->n_wanted++] = (wanted_category){
            .column = (uint64_t)(FIRST_CATEGORY + category) << 32,
            .category = (uint32_t)category,
            .word = c->n_words,
        };
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
    c->skips = (c->has_label && c->label.slot == FL_NO_SLOT) ||
               c->ints.slot == FL_NO_SLOT;
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
    .take = criteo_take,
    .line = criteo_line,
};
