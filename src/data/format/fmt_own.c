/* fmt_own.c - formats that users define: their line functions put values in any
 * order, here these become a packed record. */
#include <stdarg.h>
#include <stdio.h>

#include "base/added.h"
#include "base/alloc.h"
#include "data/format/fmt_help.h"

typedef struct own_format {
    fl_format format; /* the first member */
    const fl_format_def *def;
} own_format;

static fl_added added = FL_ADDED_EMPTY;

/* An open one. */
typedef struct own_parser {
    const fl_format_def *def;
    void *state;                      /* the user's */
    int slot_of[FL_FORMAT_SLOTS_MAX]; /* FL_NO_SLOT: not wanted */
} own_parser;

/* Values of a slot among the words of the record. */
typedef struct part {
    size_t from;
    uint32_t n;
    bool given;
} part;

struct fl_format_record {
    const own_parser *own;
    FL_VEC(uint32_t) words;
    part parts[FL_FORMAT_SLOTS_MAX];
    size_t n_given;
    fl_bad *bad;
    bool is_bad;
};

/* --- what a line function calls ------------------------------------------- */

bool fl_format_bad(fl_format_record *r, const char *fmt, ...)
{
    char why[FL_BAD_REASON_MAX];
    va_list args;

    va_start(args, fmt);
    vsnprintf(why, sizeof(why), fmt, args);
    va_end(args);
    if (!r->is_bad)
        fl_help_bad(r->bad, FL_NO_SLOT, "%s", why);
    r->is_bad = true;
    return false;
}

static bool may_put(fl_format_record *r, size_t slot, fl_slot_kind kind)
{
    const fl_format_def *def = r->own->def;

    if (slot >= def->n_slots)
        return fl_format_bad(r, "format %s puts slot %zu, but has %zu",
                             def->name, slot, def->n_slots);
    if (def->slots[slot].kind != kind)
        return fl_format_bad(r, "format %s puts values of another kind into %s",
                             def->name, def->slots[slot].name);
    if (r->parts[slot].given)
        return fl_format_bad(r, "format %s puts %s twice", def->name,
                             def->slots[slot].name);
    return true;
}

static void put(fl_format_record *r, size_t slot, const void *values, size_t n)
{
    size_t n_words = n * fl_slot_bytes(&r->own->def->slots[slot]) / 4;
    const char *at = values;

    r->parts[slot] = (part){ r->words.len, (uint32_t)n, true };
    r->n_given++;
    for (size_t i = 0; i < n_words; i++) {
        uint32_t word;

        memcpy(&word, at + 4 * i, sizeof(word));
        fl_vec_push(&r->words, word);
    }
}

void fl_format_put_ids(fl_format_record *r, size_t slot, const uint64_t *ids,
                       size_t n)
{
    if (may_put(r, slot, FL_SLOT_IDS))
        put(r, slot, ids, n);
}

void fl_format_put_floats(fl_format_record *r, size_t slot, const float *x,
                          size_t n)
{
    if (may_put(r, slot, FL_SLOT_FLOATS))
        put(r, slot, x, n);
}

/* --- the format ----------------------------------------------------------- */

static fl_status own_open(fl_parser *p, const char *sample)
{
    const own_format *f = (const own_format *)p->format;
    const char *values[FL_FORMAT_OPTIONS_MAX];
    own_parser *own = fl_alloc(sizeof(*own));

    (void)sample;
    own->def = f->def;
    p->state = own;
    FL_TRY(fl_help_pick(p, f->def->slots, f->def->n_slots, own->slot_of));
    for (size_t i = 0; i < f->def->n_options; i++)
        values[i] = fl_parser_option(p, f->def->options[i].name);
    return f->def->open ? fl_err_ctx(f->def->open(values, &own->state),
                                     "format %s", f->def->name)
                        : FL_OK;
}

static void own_close(fl_parser *p)
{
    own_parser *own = p->state;

    if (own->state && own->def->close)
        own->def->close(own->state);
    fl_free(own);
}

/* Each slot that is wanted has as many values as it should, and ids that it may
   have. */
static bool check_slots(const fl_parser *p, const fl_format_record *r)
{
    const own_parser *own = p->state;

    for (size_t i = 0; i < own->def->n_slots; i++) {
        const part *it = &r->parts[i];
        uint32_t slot = (uint32_t)own->slot_of[i];

        if (own->slot_of[i] == FL_NO_SLOT)
            continue;
        if (!fl_help_check_count(p, slot, it->n, r->bad))
            return false;
        for (uint32_t k = 0;
             own->def->slots[i].kind == FL_SLOT_IDS && k < it->n; k++) {
            uint64_t id;

            memcpy(&id, r->words.data + it->from + 2 * (size_t)k, sizeof(id));
            if (!fl_help_check_id(p, slot, id, r->bad))
                return false;
        }
    }
    return true;
}

static void pack(const fl_parser *p, const fl_format_record *r,
                 fl_row_writer *w)
{
    const own_parser *own = p->state;
    uint32_t ragged = 0;

    for (uint32_t slot = 0; slot < p->schema.n_slots; slot++) {
        const fl_slot *it = &p->schema.slots[slot];

        for (size_t i = 0; i < own->def->n_slots; i++) {
            const part *v = &r->parts[i];

            if (own->slot_of[i] == (int)slot)
                memcpy(fl_help_place(w, it, ragged, v->n),
                       r->words.data + v->from,
                       v->n * (size_t)fl_slot_bytes(it));
        }
        ragged += it->width == 0;
    }
}

static bool write_record(const fl_parser *p, const fl_format_record *r,
                         fl_row_writer *w, fl_status *st)
{
    if (!check_slots(p, r))
        return false;
    *st = fl_row_open(w, r->words.len);
    if (*st)
        return false;
    pack(p, r, w);
    fl_row_close(w);
    return true;
}

static bool own_line(const fl_parser *p, const fl_line *l, fl_row_writer *w,
                     fl_bad *bad, fl_status *st)
{
    const own_parser *own = p->state;
    fl_format_record r = { .own = own, .bad = bad };
    bool good = own->def->line(own->state, l->at, l->end, &r);

    if (!good && !r.is_bad)
        fl_format_bad(&r, "format %s does not take it", own->def->name);
    good = !r.is_bad && (!r.n_given || write_record(p, &r, w, st));
    fl_vec_release(&r.words);
    return good;
}

/* --- adding --------------------------------------------------------------- */

size_t fl_own_format_count(void)
{
    return fl_added_count(&added);
}

const fl_format *fl_own_format_at(size_t i)
{
    const own_format *f = fl_added_at(&added, i);

    return &f->format;
}

static const void *find_any(const char *name)
{
    return fl_format_find(name);
}

static fl_status check(const fl_format_def *def)
{
    FL_TRY(fl_added_check_size("format", def->size, sizeof(*def)));
    if (!def->line || !def->doc || !def->n_slots ||
        def->n_slots > FL_FORMAT_SLOTS_MAX ||
        def->n_options > FL_FORMAT_OPTIONS_MAX)
        FL_FAIL(FL_ERR_INVAL,
                "format %s needs line, doc, 1 to %d slots and at most %d "
                "options",
                def->name ? def->name : "", FL_FORMAT_SLOTS_MAX,
                FL_FORMAT_OPTIONS_MAX);
    return FL_OK;
}

/* Was this very descriptor added before? */
static bool is_added(const fl_format_def *def)
{
    for (size_t i = 0; i < fl_own_format_count(); i++)
        if (((const own_format *)fl_added_at(&added, i))->def == def)
            return true;
    return false;
}

fl_status fl_format_add(const fl_format_def *def)
{
    own_format *f;
    fl_status st;

    FL_TRY(check(def));
    if (is_added(def))
        return FL_OK;
    f = fl_alloc(sizeof(*f));
    f->def = def;
    f->format = (fl_format){ .name = def->name,
                             .doc = def->doc,
                             .version = def->version,
                             .open = own_open,
                             .close = own_close,
                             .line = own_line };
    for (size_t i = 0; i < def->n_options; i++)
        f->format.options[i] = def->options[i];
    st = fl_added_push(&added, &(fl_addition){ .item = f,
                                               .what = "format",
                                               .name = def->name,
                                               .find = find_any });
    if (st)
        fl_free(f);
    return st;
}
