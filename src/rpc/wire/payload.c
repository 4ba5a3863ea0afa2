/* payload.c - buffers of received messages, kept for the next ones.
 *
 * A payload of up to FL_PAYLOAD_STEP is allocated when its head was read. A
 * longer one starts with a buffer of that size; once the peer has really sent
 * as much, it moves to a map of its full length, which takes memory only where
 * bytes arrive. So a peer that announces much and sends little holds little,
 * and one that sends much pays one short copy.
 */
#include "rpc/wire/payload.h"

#include <string.h>

#include "base/alloc.h"

/* Buffers that a connection keeps, and their bytes together. */
#define SPARE_MAX 16
#define SPARE_BYTES ((uint64_t)8 << 20)
#define SMALLEST 256

struct fl_payload {
    fl_payload_home *home;
    fl_arena_in *arena; /* NULL: data is a buffer of `cap` bytes */
    const uint8_t *data;
    uint64_t len;
    uint64_t cap;
    uint64_t place; /* in the arena */
    uint8_t *buffer;
    bool is_map;
};

struct fl_payload_home {
    fl_give_back_fn give_back; /* NULL: the connection is gone */
    void *arg;
    size_t n_refs;
    fl_payload *spare[SPARE_MAX]; /* oldest first */
    size_t n_spare;
    uint64_t spare_bytes;
};

fl_payload_home *fl_payload_home_new(fl_give_back_fn give_back, void *arg)
{
    fl_payload_home *h = fl_alloc(sizeof(*h));

    h->give_back = give_back;
    h->arg = arg;
    h->n_refs = 1;
    return h;
}

static void unref_home(fl_payload_home *h)
{
    if (--h->n_refs == 0)
        fl_free(h);
}

static void free_buffer(fl_payload *p)
{
    if (p->is_map)
        fl_unmap(p->buffer, p->cap);
    else
        fl_data_free(p->buffer, p->cap);
    fl_free(p);
}

static fl_payload *remove_spare(fl_payload_home *h, size_t i)
{
    fl_payload *p = h->spare[i];

    h->n_spare--;
    memmove(h->spare + i, h->spare + i + 1,
            (h->n_spare - i) * sizeof(*h->spare));
    h->spare_bytes -= p->cap;
    return p;
}

void fl_payload_home_leave(fl_payload_home *h)
{
    h->give_back = NULL;
    while (h->n_spare)
        free_buffer(remove_spare(h, h->n_spare - 1));
    unref_home(h);
}

/* Four sizes from one power of two to the next, so that messages of about one
   length share their buffers and a quarter at most is wasted. */
static uint64_t round_up(uint64_t len)
{
    uint64_t step = SMALLEST / 4;

    if (len <= SMALLEST)
        return SMALLEST;
    while (step * 8 < len)
        step *= 2;
    return (len + step - 1) / step * step;
}

/* The smallest spare buffer that is large enough and not far too large. */
static fl_payload *take_spare(fl_payload_home *h, uint64_t cap)
{
    size_t best = h->n_spare;

    for (size_t i = 0; i < h->n_spare; i++) {
        uint64_t has = h->spare[i]->cap;

        if (has >= cap && has <= 2 * cap &&
            (best == h->n_spare || has < h->spare[best]->cap))
            best = i;
    }
    return best < h->n_spare ? remove_spare(h, best) : NULL;
}

fl_payload *fl_payload_new(fl_payload_home *h, uint64_t len)
{
    uint64_t cap = len < FL_PAYLOAD_STEP ? round_up(len) : FL_PAYLOAD_STEP;
    fl_payload *p = take_spare(h, cap);
    uint8_t *buffer;

    if (!p) {
        buffer = fl_try_alloc(cap);
        if (!buffer)
            return NULL;
        p = fl_alloc(sizeof(*p));
        p->buffer = buffer;
        p->data = buffer;
        p->cap = cap;
        p->home = h;
    }
    p->len = len;
    h->n_refs++;
    return p;
}

fl_payload *fl_payload_of_arena(fl_payload_home *h, fl_arena_in *arena,
                                uint64_t place, uint64_t len)
{
    fl_payload *p = fl_alloc(sizeof(*p));

    p->home = h;
    p->arena = fl_arena_in_ref(arena);
    p->data = fl_arena_in_at(arena, place, len);
    FL_ASSERT(p->data);
    p->len = len;
    p->place = place;
    h->n_refs++;
    return p;
}

uint8_t *fl_payload_space(fl_payload *p, uint64_t got, size_t *n)
{
    if (got == p->cap) {
        uint8_t *map = fl_try_map(p->len);

        if (!map)
            return NULL;
        memcpy(map, p->buffer, got);
        fl_data_free(p->buffer, p->cap);
        p->buffer = map;
        p->data = map;
        p->cap = p->len;
        p->is_map = true;
    }
    *n = (p->cap < p->len ? p->cap : p->len) - got;
    return p->buffer + got;
}

const uint8_t *fl_payload_data(const fl_payload *p)
{
    return p->data;
}

uint64_t fl_payload_len(const fl_payload *p)
{
    return p->len;
}

/* The oldest ones go first: their sizes are those of the past. */
static void keep_spare(fl_payload_home *h, fl_payload *p)
{
    while (h->n_spare == SPARE_MAX || h->spare_bytes + p->cap > SPARE_BYTES)
        free_buffer(remove_spare(h, 0));
    h->spare[h->n_spare++] = p;
    h->spare_bytes += p->cap;
}

static void free_in_arena(fl_payload *p)
{
    if (p->home->give_back)
        p->home->give_back(p->home->arg, p->place, p->len);
    fl_arena_in_unref(p->arena);
    fl_free(p);
}

void fl_payload_free(fl_payload *p)
{
    fl_payload_home *h;

    if (!p)
        return;
    h = p->home;
    if (p->arena)
        free_in_arena(p);
    else if (h->give_back && !p->is_map && p->cap <= SPARE_BYTES)
        keep_spare(h, p);
    else
        free_buffer(p);
    unref_home(h);
}
