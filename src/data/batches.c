/* batches.c - a bounded queue of recycled batches.
 *
 *     free --empty--> filling --put--> ready --take--> taken
 *       ^                |                               |
 *       +---give_back----+-----------give_back-----------+
 *
 * `capacity` limits filling and ready together: a batch is promised its place
 * before it is filled, so a put never waits. How many are taken is up to the
 * consumers, who hold one each.
 */
#include "data/batches.h"

#include "base/vec.h"

typedef enum batch_state {
    BATCH_FREE,
    BATCH_FILLING,
    BATCH_READY,
    BATCH_TAKEN
} batch_state;

/* The columns come first: what callers hold is the address of both. */
typedef struct batch {
    fl_columns columns;
    batch_state state;  /* guarded by mu */
    struct batch *next; /* in the list it is in */
} batch;

struct fl_batches {
    const fl_schema *schema;
    size_t capacity;
    fl_mutex mu; /* guards all below */
    fl_cond has_room, has_news;
    FL_VEC(batch *) all;
    batch *free;
    batch *first, *last; /* ready, the oldest first */
    size_t n_promised;   /* filling or ready */
    bool finished, failed, closed;
    fl_err err; /* when failed */
};

fl_batches *fl_batches_new(const fl_schema *s, size_t capacity)
{
    fl_batches *b = fl_alloc(sizeof(*b));

    FL_ASSERT(capacity > 0);
    b->schema = s;
    b->capacity = capacity;
    fl_mutex_init(&b->mu);
    fl_cond_init(&b->has_room);
    fl_cond_init(&b->has_news);
    return b;
}

void fl_batches_free(fl_batches *b)
{
    if (!b)
        return;
    for (size_t i = 0; i < b->all.len; i++) {
        fl_columns_release(&b->all.data[i]->columns);
        fl_free(b->all.data[i]);
    }
    fl_vec_release(&b->all);
    fl_cond_release(&b->has_news);
    fl_cond_release(&b->has_room);
    fl_mutex_release(&b->mu);
    fl_free(b);
}

/* --- producers ----------------------------------------------------------- */

static batch *free_batch(fl_batches *b)
{
    batch *one = b->free;

    if (one) {
        b->free = one->next;
        return one;
    }
    one = fl_alloc(sizeof(*one));
    fl_columns_init(&one->columns, b->schema);
    fl_vec_push(&b->all, one);
    return one;
}

fl_status fl_batches_empty(fl_batches *b, fl_columns **out)
{
    batch *one = NULL;

    fl_lock(&b->mu);
    while (b->n_promised >= b->capacity && !b->closed && !b->failed)
        fl_cond_wait(&b->has_room, &b->mu);
    if (!b->closed && !b->failed) {
        one = free_batch(b);
        one->state = BATCH_FILLING;
        b->n_promised++;
    }
    fl_unlock(&b->mu);
    if (!one)
        FL_FAIL(FL_ERR_CLOSED, "nobody takes batches any more");
    *out = &one->columns;
    return FL_OK;
}

void fl_batches_put(fl_batches *b, fl_columns *c)
{
    batch *one = (batch *)c;

    fl_lock(&b->mu);
    FL_ASSERT(one->state == BATCH_FILLING);
    one->state = BATCH_READY;
    one->next = NULL;
    if (b->first)
        b->last->next = one;
    else
        b->first = one;
    b->last = one;
    fl_unlock(&b->mu);
    fl_cond_wake_one(&b->has_news);
}

/* --- consumers ----------------------------------------------------------- */

static bool has_news(const fl_batches *b)
{
    return b->first || b->finished || b->failed || b->closed;
}

static void wait_for_news(fl_batches *b, uint64_t *waited_ns)
{
    uint64_t since;

    if (has_news(b))
        return;
    since = fl_now_ns();
    while (!has_news(b))
        fl_cond_wait(&b->has_news, &b->mu);
    *waited_ns += fl_now_ns() - since;
}

/* Producers that wait go on when half of what may wait is gone, or nothing is
   ready: to wake one for each batch costs more than many a batch does. */
static bool has_much_room(const fl_batches *b)
{
    return b->n_promised <= b->capacity / 2 || !b->first;
}

static batch *take_first(fl_batches *b)
{
    batch *one = b->first;

    if (!one)
        return NULL;
    b->first = one->next;
    one->state = BATCH_TAKEN;
    b->n_promised--;
    return one;
}

fl_status fl_batches_take(fl_batches *b, fl_columns **out, uint64_t *waited_ns)
{
    batch *one = NULL;
    bool failed, is_wanted;

    fl_lock(&b->mu);
    wait_for_news(b, waited_ns);
    failed = b->failed;
    if (!failed && !b->closed)
        one = take_first(b);
    is_wanted = one && has_much_room(b);
    fl_unlock(&b->mu);
    if (is_wanted)
        fl_cond_wake_all(&b->has_room);
    /* The error stays as it is once it is there. */
    if (failed)
        return fl_err_restore(&b->err);
    *out = one ? &one->columns : NULL;
    return FL_OK;
}

void fl_batches_give_back(fl_batches *b, fl_columns *c)
{
    batch *one = (batch *)c;

    if (!one)
        return;
    fl_lock(&b->mu);
    FL_ASSERT(one->state == BATCH_FILLING || one->state == BATCH_TAKEN);
    if (one->state == BATCH_FILLING) {
        b->n_promised--;
        if (has_much_room(b))
            fl_cond_wake_all(&b->has_room);
    }
    one->state = BATCH_FREE;
    one->next = b->free;
    b->free = one;
    fl_unlock(&b->mu);
}

/* --- ends ---------------------------------------------------------------- */

static void wake_everybody(fl_batches *b)
{
    fl_cond_wake_all(&b->has_room);
    fl_cond_wake_all(&b->has_news);
}

void fl_batches_finish(fl_batches *b)
{
    fl_lock(&b->mu);
    b->finished = true;
    wake_everybody(b);
    fl_unlock(&b->mu);
}

void fl_batches_fail(fl_batches *b, fl_status st)
{
    fl_lock(&b->mu);
    if (!b->failed)
        fl_err_save(&b->err, st);
    b->failed = true;
    wake_everybody(b);
    fl_unlock(&b->mu);
}

void fl_batches_close(fl_batches *b)
{
    fl_lock(&b->mu);
    b->closed = true;
    wake_everybody(b);
    fl_unlock(&b->mu);
}
