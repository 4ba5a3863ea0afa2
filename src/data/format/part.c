/* part.c - a share of the records by a hash, and of the negatives a share.
 *
 * The two draws are independent: the negatives have a hash of their own, made
 * of that of the line, so that a share of them is one in every part alike.
 */
#include "data/format/part.h"

#include "base/hash.h"
#include "data/format/fmt_help.h"
#include "data/format/scan.h"

enum { SPLIT, KEY, NEGATIVES };

const fl_format_option fl_part_options[FL_PART_OPTIONS] = {
    [SPLIT] = { .name = "split",
                .otherwise = "",
                .doc = "LO-HI or LO-HI/N: of the records, by a fixed hash, "
                       "those from hundredth (Nth) LO up to HI" },
    [KEY] = { .name = "key",
              .otherwise = "",
              .doc = "a column or slot: records of one value lie in one part "
                     "of split; else lines do" },
    [NEGATIVES] = { .name = "negatives",
                    .otherwise = "1",
                    .doc = "SHARE or SHARE:SLOT: of the records with label 0 "
                           "(in the slot label) this share alone" },
};

#define SPLIT_OF 100
#define SPLIT_OF_MAX 1000000000

/* --- opening -------------------------------------------------------------- */

static bool scan_split(const char *text, fl_part *out)
{
    const char *at = text, *end = text + strlen(text);

    out->of = SPLIT_OF;
    if (at == end || !fl_scan_u64(&at, end, &out->lo) || *at != '-')
        return false;
    at++;
    if (at == end || !fl_scan_u64(&at, end, &out->hi))
        return false;
    if (at == end)
        return true;
    if (*at++ != '/' || at == end || !fl_scan_u64(&at, end, &out->of))
        return false;
    return at == end && out->of <= SPLIT_OF_MAX;
}

static fl_status read_split(fl_part *part, const char *format, const char *text)
{
    if (!scan_split(text, part) || part->lo >= part->hi || part->hi > part->of)
        FL_FAIL(FL_ERR_INVAL,
                "format %s: split=%s is not LO-HI with 0 <= LO < HI <= 100, or "
                "LO-HI/N with HI <= N <= %d; say split=0-80 for four fifths "
                "and split=80-100 for the rest",
                format, text, SPLIT_OF_MAX);
    part->is_share = true;
    return FL_OK;
}

static fl_status read_key(fl_part *part, const fl_parser *p, const char *name)
{
    const fl_format *f = p->format;

    if (!part->is_share)
        FL_FAIL(FL_ERR_INVAL,
                "format %s: key=%s of what? Say split=LO-HI with it", f->name,
                name);
    if (f->find_column) {
        part->column = f->find_column(p, name);
        if (part->column < 0)
            FL_FAIL(FL_ERR_NOTFOUND,
                    "format %s: key=%s is no column that is described; write "
                    "%s:skip where no slot is to be made of it",
                    f->name, name, name);
        return FL_OK;
    }
    part->key = fl_schema_find(&p->schema, name);
    if (part->key < 0)
        FL_FAIL(FL_ERR_NOTFOUND,
                "format %s: key=%s is none of the slots that are read; take it "
                "among them, or leave key out",
                f->name, name);
    return FL_OK;
}

static fl_status read_negatives(fl_part *part, const fl_parser *p,
                                const char *text)
{
    const char *at = text, *end = text + strcspn(text, ":");
    const char *name = *end ? end + 1 : "label";
    float share;

    if (at == end || !fl_scan_f32(&at, end, &share) || at != end ||
        !(share > 0 && share <= 1))
        FL_FAIL(FL_ERR_INVAL,
                "format %s: negatives=%s is no share above 0 and up to 1, with "
                ":SLOT behind it where the label is not called label",
                p->format->name, text);
    part->negatives = (double)share;
    part->label = fl_schema_find(&p->schema, name);
    if (part->label < 0)
        FL_FAIL(FL_ERR_NOTFOUND,
                "format %s: negatives=%s needs the label, and %s is none of "
                "the slots that are read; negatives=SHARE:SLOT names another",
                p->format->name, text, name);
    return FL_OK;
}

fl_status fl_part_open(fl_part *part, const fl_parser *p,
                       const char *const values[FL_PART_OPTIONS])
{
    *part = (fl_part){ .column = -1, .key = FL_NO_SLOT, .label = FL_NO_SLOT };
    if (values[SPLIT])
        FL_TRY(read_split(part, p->format->name, values[SPLIT]));
    if (values[KEY])
        FL_TRY(read_key(part, p, values[KEY]));
    return values[NEGATIVES] ? read_negatives(part, p, values[NEGATIVES])
                             : FL_OK;
}

/* --- records -------------------------------------------------------------- */

static uint64_t line_hash(const fl_line *l)
{
    return fl_hash_bytes(l->at, (size_t)(l->end - l->at));
}

static bool lies_inside(const fl_part *part, uint64_t hash)
{
    uint64_t at = fl_part_place(hash, part->of);

    return part->lo <= at && at < part->hi;
}

bool fl_part_leaves_out(const fl_parser *p, const fl_line *l)
{
    const fl_part *part = &p->part;
    uint64_t hash;

    if (!part->is_share || part->key != FL_NO_SLOT)
        return false;
    if (part->column < 0)
        return !lies_inside(part, line_hash(l));
    /* A line that cannot be cut into columns is told by whoever reads it. */
    return p->format->hash_column(p, l, part->column, &hash) &&
           !lies_inside(part, hash);
}

static bool is_negative(const fl_slot *slot, const fl_row_part *label)
{
    if (label->n != 1)
        return false;
    if (slot->kind == FL_SLOT_IDS)
        return fl_help_id(label, 0) == 0;
    return fl_help_float(label, 0) <= 0;
}

#define NEGATIVES_SALT 0x6e656761746976u /* another draw than that of split */

static bool draws_negative(const fl_part *part, const fl_line *l)
{
    uint64_t hash = fl_mix64(line_hash(l) ^ NEGATIVES_SALT);

    return (double)(hash >> 11) * 0x1p-53 < part->negatives;
}

static uint64_t slot_hash(const fl_slot *slot, const fl_row_part *values)
{
    return fl_hash_bytes(values->at, (size_t)values->n * fl_slot_bytes(slot));
}

fl_status fl_part_hash(const fl_parser *p, const fl_line *l, fl_records *room,
                       uint64_t *hash)
{
    fl_row_part values[FL_SLOTS_MAX];
    const uint32_t *row = NULL;
    int key = p ? p->part.key : FL_NO_SLOT;

    if (p && p->part.column >= 0 &&
        p->format->hash_column(p, l, p->part.column, hash))
        return FL_OK;
    *hash = line_hash(l);
    if (key == FL_NO_SLOT)
        return FL_OK;
    FL_TRY(fl_parse_row(p, l, room, &row));
    if (!row)
        return FL_OK;
    fl_help_parts(&p->schema, row, values);
    *hash = slot_hash(&p->schema.slots[key], &values[key]);
    return FL_OK;
}

static bool keeps(const fl_parser *p, const fl_line *l, const uint32_t *row)
{
    const fl_part *part = &p->part;
    const fl_slot *slots = p->schema.slots;
    fl_row_part values[FL_SLOTS_MAX];

    fl_help_parts(&p->schema, row, values);
    if (part->key != FL_NO_SLOT &&
        !lies_inside(part, slot_hash(&slots[part->key], &values[part->key])))
        return false;
    return part->label == FL_NO_SLOT ||
           !is_negative(&slots[part->label], &values[part->label]) ||
           draws_negative(part, l);
}

void fl_part_keep(const fl_parser *p, const fl_line *l, fl_records *rows,
                  size_t first)
{
    size_t n = first, end = rows->len, at;

    if ((p->part.key == FL_NO_SLOT && p->part.label == FL_NO_SLOT) ||
        rows->n == first)
        return;
    at = rows->starts[first];
    for (size_t i = first; i < rows->n; i++) {
        size_t from = rows->starts[i];
        size_t len = (i + 1 < rows->n ? rows->starts[i + 1] : end) - from;

        if (!keeps(p, l, rows->words + from))
            continue;
        memmove(rows->words + at, rows->words + from,
                len * sizeof(*rows->words));
        rows->starts[n++] = at;
        at += len;
    }
    rows->n_skipped += n == first;
    rows->n = n;
    rows->len = at;
}
