/* index.c - from key to row. index.h has the picture. */
#include "table/index.h"

#include "base/alloc.h"

#define SLOTS FL_BUCKET_SLOTS
#define FIRST_CAP 16

/* Buckets behind the last home: room for one run. */
#define TAIL_MAX ((FL_TABLE_RUN_MAX + SLOTS - 1) / SLOTS)

/* Growing starts when 3 of 4 slots are full. While slots move, new keys fill
   the part that has not moved yet: with 10 slots moved for each of them it is
   at most 0.75 + 1/10 full when its turn comes, so runs stay short. Growing by
   1.15 leaves the index 0.65 full: it costs 17 to 20 bytes a row. Moving ends
   (after 0.1 of the old capacity) just before growing starts again (0.11), so
   an index to which keys are only added does the same work in every call. */
#define LOAD_NUM 3
#define LOAD_DEN 4
#define GROW_NUM 23
#define GROW_DEN 20

/* A small array doubles: the buckets behind its last home count for much. */
#define SMALL_CAP 8192

/* A key that passes more full buckets than a run may have is no accident of
   hashing: keys come in the order of their hash, as out of another table, and
   stand close together at one end. The array is then doubled until they stand
   apart; what they have not reached yet takes addresses but no memory. Keys
   that were chosen to be close shall not take all addresses, hence a limit of
   slots per key. */
#define SLOTS_PER_KEY_MAX 1024

static uint64_t place_of(const fl_index *x, uint64_t key)
{
    return fl_index_place(x, fl_index_hash(key));
}

static uint64_t n_buckets(uint64_t cap)
{
    return cap + (cap < TAIL_MAX ? cap : TAIL_MAX);
}

static size_t array_bytes(uint64_t cap)
{
    return (size_t)n_buckets(cap) * sizeof(fl_bucket);
}

static uint64_t larger(uint64_t cap)
{
    if (!cap)
        return FIRST_CAP;
    return cap < SMALL_CAP ? cap * 2 : cap * GROW_NUM / GROW_DEN;
}

static bool is_full(const fl_bucket *b)
{
    return b->ref[SLOTS - 1] != 0;
}

static int count(const fl_bucket *b)
{
    int n = 0;

    while (n < SLOTS && b->ref[n])
        n++;
    return n;
}

/* --- adding --------------------------------------------------------------- */

static void append(fl_bucket *b, uint64_t key, uint32_t ref)
{
    int n = count(b);

    b->key[n] = key;
    b->ref[n] = ref;
}

/* The first bucket from the home on that has a free slot; NULL when that is the
   last slot of the last bucket, which stays free. */
static fl_bucket *find_open(const fl_index_array *a, uint64_t place)
{
    fl_bucket *b = a->buckets + fl_index_home(a->cap, place);
    const fl_bucket *last = a->buckets + n_buckets(a->cap) - 1;

    while (is_full(b))
        b++;
    return b == last && count(b) == SLOTS - 1 ? NULL : b;
}

static void end_move(fl_index *x)
{
    fl_unmap(x->old.buckets, array_bytes(x->old.cap));
    x->old = (fl_index_array){ 0 };
    x->moved = 0;
    x->forgotten = 0;
    x->credit = 0;
}

static void move_bucket(fl_index *x, const fl_bucket *b)
{
    for (int i = 0; i < SLOTS && b->ref[i]; i++) {
        fl_bucket *to = find_open(&x->now, place_of(x, b->key[i]));

        FL_ASSERT(to);
        append(to, b->key[i], b->ref[i]);
    }
    x->slots_moved += SLOTS;
}

/* Moves at least n slots, or all that are left, and stops behind a bucket that
   is not full. The new array has room for them by its load. */
static void move_some(fl_index *x, uint64_t n)
{
    uint64_t all = n_buckets(x->old.cap);
    uint64_t at = x->moved;
    bool full = true;

    for (; at < all && (n || full); at++) {
        move_bucket(x, &x->old.buckets[at]);
        full = is_full(&x->old.buckets[at]);
        n -= n < SLOTS ? n : SLOTS;
    }
    x->moved = at;
    x->forgotten = fl_map_forget(x->old.buckets, array_bytes(x->old.cap),
                                 x->forgotten, (size_t)at * sizeof(fl_bucket));
    if (at == all)
        end_move(x);
}

/* Each new key pays for a few slots; what a run took beyond that is saved
   afterwards. */
static void move_on(fl_index *x)
{
    uint64_t before = x->slots_moved;

    if (!x->old.buckets)
        return;
    x->credit += FL_TABLE_MOVES_PER_KEY;
    if (x->credit <= 0)
        return;
    move_some(x, (uint64_t)x->credit);
    if (x->old.buckets)
        x->credit -= (int64_t)(x->slots_moved - before);
}

void fl_index_go_on(fl_index *x, uint64_t n)
{
    if (x->old.buckets)
        move_some(x, n);
}

/* A new array; what is there starts to move. */
static fl_status begin_move(fl_index *x, uint64_t cap)
{
    fl_bucket *buckets = fl_try_map(array_bytes(cap));

    if (!buckets)
        FL_FAIL(FL_ERR_NOMEM, "no memory for an index of %zu bytes",
                array_bytes(cap));
    if (x->old.buckets)
        move_some(x, UINT64_MAX);
    x->old = x->now;
    x->now = (fl_index_array){ buckets, cap };
    return FL_OK;
}

/* Without memory the index fills up beyond its load; only a full one fails. */
static fl_status make_room(fl_index *x)
{
    uint64_t slots = x->now.cap * SLOTS;
    fl_status st;

    if ((x->len + 1) * LOAD_DEN <= slots * LOAD_NUM)
        return FL_OK;
    st = begin_move(x, larger(x->now.cap));
    if (st && x->now.buckets && (x->len + 1) * 20 <= slots * 19)
        return FL_OK;
    return st;
}

static const fl_index_array *array_for(const fl_index *x, uint64_t place)
{
    if (x->old.buckets && fl_index_home(x->old.cap, place) >= x->moved)
        return &x->old;
    return &x->now;
}

/* How many full buckets a key of this place passed on its way to b. */
static uint64_t distance(const fl_index_array *a, uint64_t place,
                         const fl_bucket *b)
{
    return (uint64_t)(b - a->buckets) - fl_index_home(a->cap, place);
}

/* Twice the capacity, at once. */
static fl_status widen(fl_index *x)
{
    FL_TRY(begin_move(x, 2 * x->now.cap));
    move_some(x, UINT64_MAX);
    x->least_cap = x->now.cap;
    return FL_OK;
}

static bool is_crowded(const fl_index *x, const fl_index_array *a,
                       uint64_t place, const fl_bucket *b)
{
    return distance(a, place, b) > TAIL_MAX &&
           x->now.cap * SLOTS / SLOTS_PER_KEY_MAX <= x->len;
}

fl_status fl_index_add(fl_index *x, uint64_t key, uint64_t place, uint32_t ref)
{
    const fl_index_array *a;
    fl_status st = FL_OK;
    fl_bucket *b;

    FL_TRY(make_room(x));
    move_on(x);
    /* Without memory, keys that stand close stay so. */
    while (a = array_for(x, place), b = find_open(a, place),
           !st && (!b || is_crowded(x, a, place, b)))
        st = widen(x);
    if (!b)
        return st;
    x->passed += distance(a, place, b);
    append(b, key, ref);
    x->len++;
    return FL_OK;
}

/* The capacity that n keys leave as full as growing does. */
static uint64_t cap_for(uint64_t n)
{
    uint64_t cap = n * LOAD_DEN / LOAD_NUM * GROW_NUM / GROW_DEN / SLOTS;

    return cap < FIRST_CAP ? FIRST_CAP : cap;
}

fl_status fl_index_reserve(fl_index *x, uint64_t n)
{
    uint64_t cap = cap_for(n);

    if (cap <= x->now.cap)
        return FL_OK;
    FL_TRY(begin_move(x, cap));
    if (x->old.buckets)
        move_some(x, UINT64_MAX);
    return FL_OK;
}

/* --- removing ------------------------------------------------------------- */

static const fl_index_array *array_of(const fl_index *x, const fl_bucket *b)
{
    const fl_index_array *a = &x->old;

    if (a->buckets && b >= a->buckets && b < a->buckets + n_buckets(a->cap))
        return a;
    return &x->now;
}

/* The last key of the bucket takes the place of number i. */
static void take_out(fl_bucket *b, int i)
{
    int last = count(b) - 1;

    b->key[i] = b->key[last];
    b->ref[i] = b->ref[last];
    b->ref[last] = 0;
}

/* A key of bucket c that would rather be in b or before; -1: none. */
static int find_guest(const fl_index *x, const fl_index_array *a,
                      const fl_bucket *b, const fl_bucket *c)
{
    for (int i = 0; i < SLOTS && c->ref[i]; i++)
        if (a->buckets + fl_index_home(a->cap, place_of(x, c->key[i])) <= b)
            return i;
    return -1;
}

/* A bucket that was full has room now: a key behind it that passed it by comes
   back, and so on until the end of the run. */
static void close_run(const fl_index *x, fl_bucket *b)
{
    const fl_index_array *a = array_of(x, b);

    for (fl_bucket *c = b + 1;; c++) {
        int i = find_guest(x, a, b, c);
        bool was_full = is_full(c);

        if (i >= 0) {
            append(b, c->key[i], c->ref[i]);
            take_out(c, i);
            b = c;
        }
        if (!was_full)
            return;
    }
}

void fl_index_remove(fl_index *x, uint32_t *ref)
{
    fl_bucket *b =
        (fl_bucket *)((uintptr_t)ref / sizeof(fl_bucket) * sizeof(fl_bucket));
    bool was_full = is_full(b);

    take_out(b, (int)(ref - b->ref));
    x->len--;
    if (was_full)
        close_run(x, b);
}

void fl_index_fit(fl_index *x)
{
    uint64_t cap = cap_for(x->len);

    if (x->old.buckets)
        move_some(x, UINT64_MAX);
    cap = cap < x->least_cap ? x->least_cap : cap;
    if (cap < x->now.cap / 2 && !begin_move(x, cap))
        move_some(x, UINT64_MAX);
}

/* --- looking through ------------------------------------------------------ */

/* From the home of lo to behind the first bucket from the home of hi on that
   is not full. */
static void add_range(const fl_index_array *a, uint64_t lo, uint64_t hi,
                      fl_index_range *out)
{
    fl_bucket *to = a->buckets + fl_index_home(a->cap, hi);

    while (is_full(to))
        to++;
    out->from[out->n] = a->buckets + fl_index_home(a->cap, lo);
    out->to[out->n++] = to + 1;
}

/* Pages of the old array that were given back read as free slots. */
void fl_index_range_of(const fl_index *x, uint64_t lo, uint64_t hi,
                       fl_index_range *out)
{
    out->n = 0;
    if (x->now.buckets)
        add_range(&x->now, lo, hi, out);
    if (x->old.buckets) {
        fl_bucket *first = x->old.buckets + x->moved;

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
    size_t now = x->now.buckets ? array_bytes(x->now.cap) : 0;

    if (!x->old.buckets)
        return now;
    return (size_t)((double)now * (double)x->moved /
                    (double)n_buckets(x->old.cap)) +
           array_bytes(x->old.cap) - x->forgotten;
}

void fl_index_release(fl_index *x)
{
    int bits = x->bits;

    if (x->old.buckets)
        end_move(x);
    fl_unmap(x->now.buckets, array_bytes(x->now.cap));
    *x = (fl_index){ .bits = bits };
}
