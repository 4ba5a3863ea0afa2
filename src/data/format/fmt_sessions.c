/* fmt_sessions.c - what people clicked on, one session per line: a record is
 * the items and the same list one click later, with items drawn at random
 * beside them where they are wanted. docs/formats/sessions.md has the rules.
 *
 * Nothing here has a state: what is drawn depends on the seed, the file, the
 * line, the epoch and the place in the line, by counter.
 *
 * A session that is cut ends at a drawn click. All of its line is read even so:
 * whether a line is bad does not depend on a draw.
 */
#include "data/format/fmt_help.h"

#include <inttypes.h>

#include "base/rng.h"
#include "data/format/scan.h"

#define ITEMS_MAX UINT32_MAX
#define LEN_MAX (1 << 20)
#define NEGATIVES_MAX 1024

enum { ITEMS, NEXT, DRAWN, N_OFFERS };

typedef struct sessions {
    uint64_t n_items; /* 0: any id */
    uint32_t max_len, n_negatives;
    bool cut;
    uint64_t stream, cut_stream;
    int offer[N_OFFERS]; /* that each slot has, in the order of the slots */
} sessions;

/* Of a line `all` clicks are read, and the first n make the record. */
typedef struct clicks {
    uint32_t all, n;
} clicks;

/* --- opening -------------------------------------------------------------- */

static fl_status read_options(const fl_parser *p, sessions *s)
{
    int64_t items, max_len, negatives;

    FL_TRY(fl_parser_option_int(p, "items", 0, ITEMS_MAX, &items));
    FL_TRY(fl_parser_option_int(p, "max_len", 2, LEN_MAX, &max_len));
    FL_TRY(fl_parser_option_int(p, "negatives", 0, NEGATIVES_MAX, &negatives));
    FL_TRY(fl_parser_option_bool(p, "cut", &s->cut));
    if (negatives && !items)
        FL_FAIL(FL_ERR_INVAL,
                "format sessions: negatives=%" PRId64 " are drawn from ids "
                "below items=N: say how many there are",
                negatives);
    s->n_items = (uint64_t)items;
    s->max_len = (uint32_t)max_len;
    s->n_negatives = (uint32_t)negatives;
    return FL_OK;
}

static fl_status sessions_open(fl_parser *p, const char *sample)
{
    fl_slot offers[N_OFFERS] = {
        [ITEMS] = { .name = "items", .kind = FL_SLOT_IDS },
        [NEXT] = { .name = "next", .kind = FL_SLOT_IDS },
        [DRAWN] = { .name = "drawn", .kind = FL_SLOT_IDS },
    };
    sessions *s = fl_alloc(sizeof(*s));
    int slot_of[N_OFFERS];
    size_t n;

    (void)sample;
    p->state = s;
    s->stream = fl_rng_stream(p->seed, "sessions");
    s->cut_stream = fl_rng_stream(p->seed, "sessions.cut");
    FL_TRY(read_options(p, s));
    n = s->n_negatives ? N_OFFERS : DRAWN;
    for (size_t i = 0; i < n; i++)
        offers[i].height = s->n_items;
    FL_TRY(fl_help_pick(p, offers, n, slot_of));
    for (size_t i = 0; i < n; i++)
        if (slot_of[i] != FL_NO_SLOT)
            s->offer[slot_of[i]] = (int)i;
    p->draws = s->n_negatives > 0 || s->cut;
    return FL_OK;
}

static void sessions_close(fl_parser *p)
{
    fl_free(p->state);
}

/* --- lines ---------------------------------------------------------------- */

/* The clicks of a line of n words, two or more. */
static clicks clicks_of(const sessions *s, const fl_line *l, uint32_t n)
{
    clicks k = { .all = n < s->max_len ? n : s->max_len };
    uint64_t bits;

    k.n = k.all;
    if (!s->cut)
        return k;
    bits = fl_rng_bits(fl_help_line_stream(s->cut_stream, l), 0, 0);
    k.n = 2 + (uint32_t)(((bits >> 32) * (k.all - 1)) >> 32);
    return k;
}

/* Values of an offer in a record of n clicks. */
static uint32_t n_values(const sessions *s, int offer, uint32_t n_clicks)
{
    return (n_clicks - 1) * (offer == DRAWN ? s->n_negatives : 1);
}

static bool put_ids(const fl_parser *p, const fl_line *l, uint32_t slot,
                    clicks k, fl_row_writer *w, fl_bad *bad)
{
    const sessions *s = p->state;
    const char *at = fl_help_skip_blanks(l->at, l->end);

    for (uint32_t i = 0; i < k.all; i++) {
        const char *word = at;
        uint64_t id;

        if (!fl_scan_u64(&at, l->end, &id) ||
            (at < l->end && !fl_help_is_blank(*at)))
            return fl_help_bad(bad, (int)slot, "'%.*s' is no item id",
                               fl_help_shown(word, l->end), word);
        if (!fl_help_check_id(p, slot, id, bad))
            return false;
        if (s->offer[slot] == ITEMS ? i + 1 < k.n : i > 0 && i < k.n)
            fl_row_id(w, id);
        at = fl_help_skip_blanks(at, l->end);
    }
    return true;
}

/* The negatives of click i are n_negatives * i and on. */
static void put_drawn(const sessions *s, const fl_line *l, uint32_t n,
                      fl_row_writer *w)
{
    uint64_t stream = fl_help_line_stream(s->stream, l);

    for (uint32_t i = 0; i < n; i++) {
        uint64_t bits =
            fl_rng_bits(stream, i / s->n_negatives, i % s->n_negatives);

        fl_row_id(w, ((bits >> 32) * s->n_items) >> 32);
    }
}

static bool put_slots(const fl_parser *p, const fl_line *l, clicks k,
                      fl_row_writer *w, fl_bad *bad)
{
    const sessions *s = p->state;
    uint32_t ragged = 0;

    for (uint32_t i = 0; i < p->schema.n_slots; i++) {
        uint32_t n = n_values(s, s->offer[i], k.n);

        if (!fl_help_check_count(p, i, n, bad))
            return false;
        fl_row_slot(w, &p->schema.slots[i], ragged, n);
        ragged += p->schema.slots[i].width == 0;
        if (s->offer[i] == DRAWN)
            put_drawn(s, l, n, w);
        else if (!put_ids(p, l, i, k, w, bad))
            return false;
    }
    return true;
}

/* A session of one click has nothing to tell: it gives no record. */
static bool sessions_line(const fl_parser *p, const fl_line *l,
                          fl_row_writer *w, fl_bad *bad, fl_status *st)
{
    const sessions *s = p->state;
    uint32_t n = fl_help_count_words(l->at, l->end);
    size_t room = 0;
    clicks k;

    if (n < 2)
        return true;
    k = clicks_of(s, l, n);
    for (uint32_t i = 0; i < p->schema.n_slots; i++)
        room += n_values(s, s->offer[i], k.n);
    *st = fl_row_open(w, room);
    if (*st)
        return false;
    if (!put_slots(p, l, k, w, bad)) {
        fl_row_drop(w);
        return false;
    }
    fl_row_close(w);
    return true;
}

const fl_format fl_format_sessions = {
    .name = "sessions",
    .doc = "item ids of a session in the order of its clicks; a record is all "
           "but the last one, and the same list one click later: slots items, "
           "next, and drawn where there are negatives",
    .options = {
        { .name = "items", .otherwise = "0",
          .doc = "ids are below it; 0: any id" },
        { .name = "max_len", .otherwise = "200",
          .doc = "lines are cut behind so many items" },
        { .name = "negatives", .otherwise = "0",
          .doc = "items drawn at random for each click; needs items" },
        { .name = "cut", .otherwise = "no",
          .doc = "yes: a session ends at a drawn click, in every pass another" },
    },
    .draws = true,
    .open = sessions_open,
    .close = sessions_close,
    .line = sessions_line,
};
