/* index.c - from key to row. index.h has the picture. */
#include "table/index.h"

#include "base/alloc.h"
#include "flotilla/table.h"

#define SLOT FL_INDEX_SLOT_BYTES
#define FIRST_CAP 64

/* Growing starts when 7 of 10 slots are full. While slots move, new keys fill
   the part that has not moved yet: with 10 slots moved for each of them it is
   at most 0.7 + 1/10 full when its turn comes, so runs stay short. Growing by
   1.15 leaves the index 0.61 full: it costs 17 to 20 bytes a row. Moving ends
   (after 0.1 of the old capacity) just before growing starts again (0.105), so
   a growing table does the same work in every call. */
#define LOAD_NUM 7
#define LOAD_DEN 10
#define GROW_NUM 23
#define GROW_DEN 20

/* A small array doubles: the slots behind its last home count for much. */
#define SMALL_CAP 32768

/* place / 2^64 of the capacity: monotone in the place. */
static uint64_t home_of(uint64_t cap, uint64_t place)
{
    return (uint64_t)((unsigned __int128)place * cap >> 64);
}

static uint64_t place_of(const fl_index *x, const unsigned char *slot)
{
    return fl_index_place(x, fl_index_hash(fl_index_key(slot)));
}

/* Homes, and the slots behind the last one. */
static uint64_t slots_of(uint64_t cap)
{
    return cap + (cap < FL_TABLE_RUN_MAX ? cap : FL_TABLE_RUN_MAX);
}

static size_t array_bytes(uint64_t cap)
{
    return (size_t)slots_of(cap) * SLOT;
}

static uint64_t larger(uint64_t cap)
{
    if (!cap)
        return FIRST_CAP;
    return cap < SMALL_CAP ? cap * 2 : cap * GROW_NUM / GROW_DEN;
}

static unsigned char *end_of(const fl_index_array *a)
{
    return a->slots + array_bytes(a->cap);
}

static const fl_index_array *array_for(const fl_index *x, uint64_t place)
{
    if (x->old.slots && home_of(x->old.cap, place) >= x->moved)
        return &x->old;
    return &x->now;
}

static unsigned char *home_slot(const fl_index *x, uint64_t place)
{
    const fl_index_array *a = array_for(x, place);

    return a->slots + home_of(a->cap, place) * SLOT;
}

/* A run of a few slots often reaches into the next line. */
void fl_index_prefetch(const fl_index *x, uint64_t place)
{
    const unsigned char *slot = x->now.slots ? home_slot(x, place) : NULL;

    if (!slot)
        return;
    __builtin_prefetch(slot);
    __builtin_prefetch(slot + 4 * SLOT);
}

unsigned char *fl_index_find(const fl_index *x, uint64_t key, uint64_t place)
{
    unsigned char *slot;

    if (!x->now.slots)
        return NULL;
    /* The slots behind the last home end every run. */
    for (slot = home_slot(x, place); fl_index_ref(slot); slot += SLOT)
        if (fl_index_key(slot) == key)
            return slot;
    return NULL;
}

/* --- adding ----------------------------------------------------------------
 */

/* False when the run has reached the last slot, which stays free. */
static bool put(const fl_index_array *a, uint64_t key, uint64_t place,
                uint32_t ref)
{
    unsigned char *slot = a->slots + home_of(a->cap, place) * SLOT;
    unsigned char *last = end_of(a) - SLOT;

    while (fl_index_ref(slot))
        slot += SLOT;
    if (slot == last)
        return false;
    memcpy(slot, &key, sizeof(key));
    fl_index_set_ref(slot, ref);
    return true;
}

static void end_move(fl_index *x)
{
    fl_unmap(x->old.slots, array_bytes(x->old.cap));
    x->old = (fl_index_array){ 0 };
    x->moved = 0;
    x->forgotten = 0;
    x->credit = 0;
}

/* Moves at least n slots, or all that are left, and stops behind a free one.
   The new array has room for them by its load. */
static void move_some(fl_index *x, uint64_t n)
{
    uint64_t all = slots_of(x->old.cap);
    uint64_t at = x->moved;
    bool full = true;

    for (; at < all && (n || full); at++) {
        unsigned char *slot = x->old.slots + at * SLOT;
        uint32_t ref = fl_index_ref(slot);

        full = ref != 0;
        if (full)
            FL_ASSERT(put(&x->now, fl_index_key(slot), place_of(x, slot), ref));
        n -= n > 0;
        x->slots_moved++;
    }
    x->moved = at;
    x->forgotten = fl_map_forget(x->old.slots, array_bytes(x->old.cap),
                                 x->forgotten, (size_t)at * SLOT);
    if (at == all)
        end_move(x);
}

/* Each new key pays for a few slots; what a run took beyond that is saved
   afterwards. */
static void move_on(fl_index *x)
{
    uint64_t before = x->slots_moved;

    if (!x->old.slots)
        return;
    x->credit += FL_TABLE_MOVES_PER_KEY;
    if (x->credit <= 0)
        return;
    move_some(x, (uint64_t)x->credit);
    if (x->old.slots)
        x->credit -= (int64_t)(x->slots_moved - before);
}

/* A new array; what is there starts to move. */
static fl_status begin_move(fl_index *x, uint64_t cap)
{
    unsigned char *slots = fl_try_map(array_bytes(cap));

    if (!slots)
        FL_FAIL(FL_ERR_NOMEM, "no memory for an index of %zu bytes",
                array_bytes(cap));
    if (x->old.slots)
        move_some(x, UINT64_MAX);
    x->old = x->now;
    x->now = (fl_index_array){ slots, cap };
    return FL_OK;
}

/* Without memory the index fills up beyond its load; only a full one fails. */
static fl_status make_room(fl_index *x)
{
    fl_status st;

    if ((x->len + 1) * LOAD_DEN <= x->now.cap * LOAD_NUM)
        return FL_OK;
    st = begin_move(x, larger(x->now.cap));
    if (st && x->now.slots && (x->len + 1) * 20 <= x->now.cap * 19)
        return FL_OK;
    return st;
}

fl_status fl_index_add(fl_index *x, uint64_t key, uint64_t place, uint32_t ref)
{
    FL_TRY(make_room(x));
    move_on(x);
    /* A run that fills the slots behind the last home is a freak of hashing;
       a larger array breaks it up. */
    while (!put(array_for(x, place), key, place, ref)) {
        FL_TRY(begin_move(x, larger(x->now.cap)));
        move_some(x, UINT64_MAX);
    }
    x->len++;
    return FL_OK;
}

/* --- removing ---------------------------------------------------------------
 */

static const fl_index_array *array_of(const fl_index *x,
                                      const unsigned char *slot)
{
    if (x->old.slots && slot >= x->old.slots && slot < end_of(&x->old))
        return &x->old;
    return &x->now;
}

/* Slots behind the gap move up unless they are at home there or nearer. */
void fl_index_remove(fl_index *x, unsigned char *slot)
{
    const fl_index_array *a = array_of(x, slot);
    unsigned char *gap = slot;

    for (slot += SLOT; fl_index_ref(slot); slot += SLOT) {
        unsigned char *home =
            a->slots + home_of(a->cap, place_of(x, slot)) * SLOT;

        if (home > gap)
            continue;
        memcpy(gap, slot, SLOT);
        gap = slot;
    }
    fl_index_set_ref(gap, 0);
    x->len--;
}

void fl_index_fit(fl_index *x)
{
    uint64_t cap = x->len * LOAD_DEN / LOAD_NUM * GROW_NUM / GROW_DEN;

    if (x->old.slots)
        move_some(x, UINT64_MAX);
    cap = cap < FIRST_CAP ? FIRST_CAP : cap;
    if (cap < x->now.cap / 2 && !begin_move(x, cap))
        move_some(x, UINT64_MAX);
}

/* --- looking through
 * ---------------------------------------------------------- */

/* From the home of lo to the first free slot behind the home of hi. */
static void add_range(const fl_index_array *a, uint64_t lo, uint64_t hi,
                      fl_index_range *out)
{
    unsigned char *to = a->slots + home_of(a->cap, hi) * SLOT;

    while (fl_index_ref(to))
        to += SLOT;
    out->from[out->n] = a->slots + home_of(a->cap, lo) * SLOT;
    out->to[out->n++] = to;
}

/* Pages of the old array that were given back read as free slots. */
void fl_index_range_of(const fl_index *x, uint64_t lo, uint64_t hi,
                       fl_index_range *out)
{
    out->n = 0;
    if (x->now.slots)
        add_range(&x->now, lo, hi, out);
    if (x->old.slots) {
        unsigned char *first = x->old.slots + x->moved * SLOT;

        add_range(&x->old, lo, hi, out);
        if (out->from[1] < first)
            out->from[1] = first;
        if (out->to[1] < first)
            out->n = 1;
    }
}

/* While slots move, the new array is filled from its start and the rest of it
   takes no memory yet. */
size_t fl_index_bytes(const fl_index *x)
{
    size_t now = x->now.slots ? array_bytes(x->now.cap) : 0;

    if (!x->old.slots)
        return now;
    return (size_t)((double)now * (double)x->moved /
                    (double)slots_of(x->old.cap)) +
           array_bytes(x->old.cap) - x->forgotten;
}

void fl_index_release(fl_index *x)
{
    int bits = x->bits;

    if (x->old.slots)
        end_move(x);
    fl_unmap(x->now.slots, array_bytes(x->now.cap));
    *x = (fl_index){ .bits = bits };
}
