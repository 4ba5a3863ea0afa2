/* fmt_libsvm.c - LABEL INDEX:VALUE INDEX:VALUE ..., as libsvm and libFM
 * write it. docs/formats/libsvm.md has the rules. */
#include "data/format/fmt_help.h"

enum { LABEL, IDS, VALUES, N_OFFERS };

typedef struct libsvm {
    int slot[N_OFFERS]; /* FL_NO_SLOT: not wanted */
} libsvm;

static fl_status libsvm_open(fl_parser *p, const char *sample)
{
    fl_slot offers[N_OFFERS] = {
        [LABEL] = { .name = "label", .width = 1 },
        [IDS] = { .name = "ids", .kind = FL_SLOT_IDS },
        [VALUES] = { .name = "values", .kind = FL_SLOT_FLOATS },
    };
    libsvm *s = fl_alloc(sizeof(*s));

    (void)sample;
    p->state = s;
    FL_TRY(fl_help_label_kind(p, &offers[LABEL].kind));
    return fl_help_pick(p, offers, N_OFFERS, s->slot);
}

static void libsvm_close(fl_parser *p)
{
    fl_free(p->state);
}

/* Where the values of the open record go; NULL when they are not wanted. */
typedef struct places {
    uint32_t *at[N_OFFERS];
} places;

static bool check_counts(const fl_parser *p, uint32_t n_features, fl_bad *bad)
{
    const libsvm *s = p->state;

    for (int i = 0; i < N_OFFERS; i++)
        if (s->slot[i] != FL_NO_SLOT &&
            !fl_help_check_count(p, (uint32_t)s->slot[i],
                                 i == LABEL ? 1 : n_features, bad))
            return false;
    return true;
}

static places make_places(const fl_parser *p, fl_row_writer *w,
                          uint32_t n_features)
{
    const libsvm *s = p->state;
    places out = { 0 };
    uint32_t ragged = 0;

    for (uint32_t slot = 0; slot < p->schema.n_slots; slot++) {
        const fl_slot *it = &p->schema.slots[slot];

        for (int i = 0; i < N_OFFERS; i++)
            if (s->slot[i] == (int)slot)
                out.at[i] =
                    fl_help_place(w, it, ragged, i == LABEL ? 1 : n_features);
        ragged += it->width == 0;
    }
    return out;
}

static bool put_features(const fl_parser *p, const char *at, const char *end,
                         places *to, fl_bad *bad)
{
    const libsvm *s = p->state;
    uint64_t index;
    float value;

    for (at = fl_help_skip_blanks(at, end); at < end;
         at = fl_help_skip_blanks(at, end)) {
        if (!fl_help_feature(&at, end, &index, &value, bad))
            return false;
        if (to->at[IDS]) {
            if (!fl_help_check_id(p, (uint32_t)s->slot[IDS], index, bad))
                return false;
            memcpy(to->at[IDS], &index, sizeof(index));
            to->at[IDS] += 2;
        }
        if (to->at[VALUES])
            memcpy(to->at[VALUES]++, &value, sizeof(value));
    }
    return true;
}

static bool libsvm_line(const fl_parser *p, const fl_line *l, fl_row_writer *w,
                        fl_bad *bad, fl_status *st)
{
    const libsvm *s = p->state;
    const char *at = fl_help_skip_blanks(l->at, l->end);
    fl_slot_kind kind = fl_help_label_slot(p, s->slot[LABEL]);
    fl_label label;
    uint32_t n;
    places to;

    if (!fl_help_label(&at, l->end, kind, &label, bad))
        return false;
    n = fl_help_count_words(at, l->end);
    if (!check_counts(p, n, bad))
        return false;
    *st = fl_row_open(w, 1 + 2 * (size_t)n);
    if (*st)
        return false;
    to = make_places(p, w, n);
    if (!fl_help_put_label(p, s->slot[LABEL], &label, to.at[LABEL], bad) ||
        !put_features(p, at, l->end, &to, bad)) {
        fl_row_drop(w);
        return false;
    }
    fl_row_close(w);
    return true;
}

static void libsvm_print(const fl_parser *p, const uint32_t *row, fl_str *out)
{
    const libsvm *s = p->state;
    fl_row_part parts[N_OFFERS] = { 0 };
    fl_row_part ids = { 0 }, values = { 0 };
    uint32_t n;

    fl_help_parts(&p->schema, row, parts);
    if (s->slot[IDS] != FL_NO_SLOT)
        ids = parts[s->slot[IDS]];
    if (s->slot[VALUES] != FL_NO_SLOT)
        values = parts[s->slot[VALUES]];
    n = ids.n > values.n ? ids.n : values.n;
    fl_help_print_label(out, &p->schema, s->slot[LABEL], parts);
    for (uint32_t i = 0; i < n; i++) {
        fl_str_add(out, " ");
        fl_help_print_feature(out, &ids, &values, i);
    }
}

const fl_format fl_format_libsvm = {
    .name = "libsvm",
    .doc = "LABEL INDEX:VALUE ..., as libsvm and libFM write it; "
           "slots label, ids, values",
    .options = { FL_LABEL_OPTION },
    .open = libsvm_open,
    .close = libsvm_close,
    .line = libsvm_line,
    .print = libsvm_print,
};
