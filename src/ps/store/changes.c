/* changes.c - the log of pushed keys: two queues, one of pushes and one of the
 * keys of all of them, behind one another.
 *
 *     pushes   first .. next - 1      rank and number of keys
 *     keys     those of `first`, those of first + 1, ...
 *
 * Pushes are numbered from 1, so that the cursor 0 of a reader that knows
 * nothing is always older than the log.
 */
#include "ps/store/changes.h"

#include <inttypes.h>
#include <string.h>

#include "base/alloc.h"
#include "base/hash.h"
#include "base/thread.h"
#include "base/vec.h"
#include "kernel/order.h"

#define QUEUE_BYTES_MIN 4096

/* Bytes that come in at the end and go at the front. */
typedef struct queue {
    char *data;
    size_t head, len, cap;
} queue;

typedef struct noted {
    uint64_t n;
    uint32_t rank;
} noted;

/* It has seen all pushes before its cursor. */
typedef struct reader {
    uint32_t rank;
    uint64_t cursor;
} reader;

struct fl_changes {
    fl_mutex mu;
    uint64_t first, next;   /* push numbers; guarded by mu */
    queue pushes, keys;     /* guarded by mu */
    FL_VEC(reader) readers; /* guarded by mu */
};

/* --- queues --------------------------------------------------------------- */

static bool queue_grow(queue *q, size_t bytes)
{
    size_t cap = bytes < QUEUE_BYTES_MIN / 2 ? QUEUE_BYTES_MIN : 2 * bytes;
    char *data = fl_try_alloc(cap);

    if (!data)
        return false;
    if (q->len)
        memcpy(data, q->data + q->head, q->len);
    fl_data_free(q->data, q->cap);
    *q = (queue){ .data = data, .len = q->len, .cap = cap };
    return true;
}

/* False without memory. What is moved to the front is at most half of the
   memory, so that it has been paid for by what went. */
static bool queue_add(queue *q, const void *bytes, size_t n)
{
    if (q->head + q->len + n > q->cap) {
        if (q->len + n <= q->cap / 2) {
            memmove(q->data, q->data + q->head, q->len);
            q->head = 0;
        } else if (!queue_grow(q, q->len + n)) {
            return false;
        }
    }
    memcpy(q->data + q->head + q->len, bytes, n);
    q->len += n;
    return true;
}

static void queue_drop(queue *q, size_t n)
{
    q->head += n;
    q->len -= n;
}

static void queue_release(queue *q)
{
    fl_data_free(q->data, q->cap);
    *q = (queue){ 0 };
}

/* --- life ----------------------------------------------------------------- */

fl_changes *fl_changes_new(void)
{
    fl_changes *c = fl_alloc(sizeof(*c));

    fl_mutex_init(&c->mu);
    c->first = c->next = 1;
    return c;
}

void fl_changes_free(fl_changes *c)
{
    if (!c)
        return;
    queue_release(&c->pushes);
    queue_release(&c->keys);
    fl_vec_release(&c->readers);
    fl_mutex_release(&c->mu);
    fl_free(c);
}

/* --- forgetting, under the lock ------------------------------------------- */

static const noted *pushes_of(const fl_changes *c)
{
    return (const noted *)(c->pushes.data + c->pushes.head);
}

static void forget_first(fl_changes *c)
{
    queue_drop(&c->keys, pushes_of(c)->n * sizeof(uint64_t));
    queue_drop(&c->pushes, sizeof(noted));
    c->first++;
}

static void forget_half(fl_changes *c)
{
    size_t half = c->keys.len / 2;

    while (c->keys.len > half)
        forget_first(c);
}

static void forget_all(fl_changes *c)
{
    queue_release(&c->pushes);
    queue_release(&c->keys);
    c->first = c->next;
}

static void forget_seen(fl_changes *c)
{
    uint64_t seen = c->next;

    for (size_t i = 0; i < c->readers.len; i++)
        if (c->readers.data[i].cursor < seen)
            seen = c->readers.data[i].cursor;
    while (c->first < seen)
        forget_first(c);
}

/* --- writing -------------------------------------------------------------- */

void fl_changes_note(fl_changes *c, uint32_t rank, const uint64_t *keys,
                     size_t n, uint64_t n_rows)
{
    noted push = { .n = n, .rank = rank };

    if (!n)
        return;
    fl_lock(&c->mu);
    c->next++;
    if (!queue_add(&c->pushes, &push, sizeof(push)) ||
        !queue_add(&c->keys, keys, n * sizeof(*keys)))
        forget_all(c);
    else if (c->keys.len / sizeof(*keys) > FL_CHANGES_PER_ROW * n_rows)
        forget_half(c);
    fl_unlock(&c->mu);
}

/* --- reading -------------------------------------------------------------- */

static void note_reader(fl_changes *c, uint32_t rank, uint64_t cursor)
{
    for (size_t i = 0; i < c->readers.len; i++)
        if (c->readers.data[i].rank == rank) {
            c->readers.data[i].cursor = cursor;
            return;
        }
    fl_vec_push(&c->readers, ((reader){ rank, cursor }));
}

/* Keys from the cursor on that are not of this rank; to NULL: only counts. */
static size_t copy_keys(const fl_changes *c, uint32_t rank, uint64_t cursor,
                        uint64_t *to)
{
    const uint64_t *from;
    size_t n = 0;

    if (!c->keys.len)
        return 0;
    from = (const uint64_t *)(c->keys.data + c->keys.head);
    for (uint64_t i = 0; i < c->next - c->first; i++) {
        const noted *p = &pushes_of(c)[i];

        if (c->first + i >= cursor && p->rank != rank) {
            if (to)
                memcpy(to + n, from, p->n * sizeof(*to));
            n += p->n;
        }
        from += p->n;
    }
    return n;
}

static fl_status check_cursor(const fl_changes *c, uint32_t rank,
                              uint64_t cursor)
{
    if (cursor > c->next)
        FL_FAIL(FL_ERR_INVAL,
                "trainer %" PRIu32 " asks for changes from %" PRIu64
                " on, but the next one has the number %" PRIu64
                ": begin with 0",
                rank, cursor, c->next);
    return FL_OK;
}

/* What a reader gets, before equal keys are put together. */
static fl_status look(const fl_changes *c, uint32_t rank, uint64_t cursor,
                      fl_changed *out)
{
    *out = (fl_changed){ .next = c->next, .is_all = cursor < c->first };
    if (out->is_all)
        return FL_OK;
    out->n = copy_keys(c, rank, cursor, NULL);
    if (!out->n)
        return FL_OK;
    out->bytes = out->n * sizeof(*out->keys);
    out->keys = fl_try_alloc(out->bytes);
    if (!out->keys)
        FL_FAIL(FL_ERR_NOMEM, "no memory for %zu changed keys", out->n);
    (void)copy_keys(c, rank, cursor, out->keys);
    return FL_OK;
}

/* True when they are in order and all different, as those are that one trainer
   pushed between two of another's questions. */
static bool to_hashes(uint64_t *keys, size_t n)
{
    bool is_ordered = true;

    for (size_t i = 0; i < n; i++) {
        keys[i] = fl_hash_key(keys[i]);
        is_ordered &= !i || keys[i - 1] < keys[i];
    }
    return is_ordered;
}

static fl_status put_in_order(fl_changed *changed)
{
    uint64_t *scratch = fl_try_alloc(changed->bytes);

    if (!scratch)
        FL_FAIL(FL_ERR_NOMEM, "no memory to sort %zu changed keys", changed->n);
    fl_order_hashes(changed->keys, changed->n, scratch);
    changed->n = fl_order_unite(changed->keys, changed->n);
    fl_data_free(scratch, changed->bytes);
    return FL_OK;
}

static fl_status unite(fl_changed *changed)
{
    uint64_t *keys = changed->keys;

    if (!keys)
        return FL_OK;
    if (!to_hashes(keys, changed->n))
        FL_TRY(put_in_order(changed));
    for (size_t i = 0; i < changed->n; i++)
        keys[i] = fl_hash_origin(keys[i]);
    return FL_OK;
}

fl_status fl_changes_since(fl_changes *c, uint32_t rank, uint64_t cursor,
                           fl_changed *out)
{
    fl_changed changed;
    fl_status st;

    fl_lock(&c->mu);
    st = check_cursor(c, rank, cursor);
    if (!st)
        st = look(c, rank, cursor, &changed);
    fl_unlock(&c->mu);
    FL_TRY(st);
    st = unite(&changed);
    if (st)
        fl_data_free(changed.keys, changed.bytes);
    else
        *out = changed;
    return st;
}

void fl_changes_seen(fl_changes *c, uint32_t rank, uint64_t cursor)
{
    fl_lock(&c->mu);
    note_reader(c, rank, cursor);
    forget_seen(c);
    fl_unlock(&c->mu);
}
