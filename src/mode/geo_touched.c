/* geo_touched.c - which rows of a table were trained since the last
   exchange. */
#include "mode/geo_touched.h"

#include <string.h>

#include "base/alloc.h"

#define CAP_MIN ((size_t)1 << 12)

static void release_keys(fl_geo_keys *k)
{
    if (k->data)
        fl_data_free(k->data, k->cap * sizeof(*k->data));
    *k = (fl_geo_keys){ 0 };
}

static fl_status no_memory(size_t n)
{
    FL_FAIL(FL_ERR_NOMEM,
            "no memory for a list of %zu trained rows; a smaller "
            "geo_need_push_nums makes it shorter",
            n);
}

/* Moves the keys to a list with that room. */
static fl_status move(fl_geo_keys *k, size_t cap)
{
    fl_geo_keys to = { .n = k->n, .cap = cap };
    size_t bytes;

    if (fl_mul_overflow(cap, sizeof(*to.data), &bytes))
        return no_memory(cap);
    to.data = fl_try_alloc(bytes);
    if (!to.data)
        return no_memory(cap);
    if (k->n)
        memcpy(to.data, k->data, k->n * sizeof(*to.data));
    release_keys(k);
    *k = to;
    return FL_OK;
}

void fl_geo_uniter_release(fl_geo_uniter *u)
{
    fl_unique_release(&u->unique);
    release_keys(&u->other);
    fl_buf_release(&u->index);
    *u = (fl_geo_uniter){ 0 };
}

fl_status fl_geo_keys_unite(fl_geo_keys *k, fl_geo_uniter *u)
{
    fl_geo_keys to;

    if (!k->n)
        return FL_OK;
    if (!fl_buf_reserve(&u->index, k->cap * sizeof(uint32_t)))
        return no_memory(k->cap);
    u->other.n = 0;
    if (u->other.cap < k->cap)
        FL_TRY(move(&u->other, k->cap));
    to = u->other;
    FL_TRY(fl_unique_run(&u->unique, k->data, k->n, to.data, u->index.data,
                         &to.n));
    u->other = *k;
    *k = to;
    return FL_OK;
}

void fl_geo_touched_init(fl_geo_touched *t)
{
    *t = (fl_geo_touched){ 0 };
    fl_mutex_init(&t->mu);
}

void fl_geo_touched_release(fl_geo_touched *t)
{
    release_keys(&t->keys);
    release_keys(&t->spare);
    fl_geo_uniter_release(&t->uniter);
    fl_mutex_release(&t->mu);
}

/* Room for n more. It doubles when more than half of the list are different
   keys, so that uniting them again pays off. Under mu. */
static fl_status make_room(fl_geo_touched *t, size_t n)
{
    fl_geo_keys *k = &t->keys;
    size_t cap = k->cap ? k->cap : CAP_MIN;

    if (k->cap - k->n >= n)
        return FL_OK;
    FL_TRY(fl_geo_keys_unite(k, &t->uniter));
    while (cap / 2 < k->n || cap - k->n < n)
        cap *= 2;
    return cap > k->cap ? move(k, cap) : FL_OK;
}

fl_status fl_geo_touched_note(fl_geo_touched *t, const uint64_t *keys, size_t n)
{
    fl_status st;

    if (!n)
        return FL_OK;
    fl_lock(&t->mu);
    st = make_room(t, n);
    if (!st) {
        memcpy(t->keys.data + t->keys.n, keys, n * sizeof(*keys));
        t->keys.n += n;
    }
    fl_unlock(&t->mu);
    return st;
}

fl_geo_keys fl_geo_touched_cut(fl_geo_touched *t)
{
    fl_geo_keys keys;

    fl_lock(&t->mu);
    keys = t->keys;
    t->keys = t->spare;
    t->spare = (fl_geo_keys){ 0 };
    fl_unlock(&t->mu);
    return keys;
}

void fl_geo_touched_give_back(fl_geo_touched *t, fl_geo_keys *keys)
{
    keys->n = 0;
    fl_lock(&t->mu);
    if (keys->cap > t->spare.cap) {
        fl_geo_keys smaller = t->spare;

        t->spare = *keys;
        *keys = smaller;
    }
    fl_unlock(&t->mu);
    release_keys(keys);
}
