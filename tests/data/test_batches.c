/* test_batches.c - batches between threads: each once, never too many, and
 * every wait ends. */
#include "dataset_kit.h"

#include <stdatomic.h>
#include <unistd.h>

#include "data/batches.h"

#define N_KEYS 4000
#define PER_BATCH 7
#define MAX_THREADS 8

static fl_schema schema;

static int make_schema(void **state)
{
    (void)state;
    return fl_schema_init(&schema, key_slots, FL_LEN(key_slots)) ? -1 : 0;
}

static int drop_schema(void **state)
{
    (void)state;
    fl_schema_release(&schema);
    return 0;
}

/* Asserts are for the test's own thread: others count what went wrong. */
typedef struct workshop {
    fl_batches *batches;
    atomic_uint_fast64_t next_key;
    atomic_int wrong, n_closed, n_ended, n_failed;
    atomic_uint_fast64_t seen[N_KEYS];
    int n_producers;
    atomic_int n_producing;
} workshop;

static fl_status put_one(workshop *w, uint64_t key, size_t n)
{
    fl_records r = { 0 };
    const uint32_t *at[PER_BATCH];
    fl_columns *c;
    fl_status st;

    add_key_records(&schema, key, key + n, &r);
    for (size_t i = 0; i < n; i++)
        at[i] = fl_records_at(&r, i);
    st = fl_batches_empty(w->batches, &c);
    if (!st) {
        st = fl_columns_gather(c, at, n);
        fl_batches_put(w->batches, c);
    }
    fl_records_release(&r);
    return st;
}

static void produce(void *arg)
{
    workshop *w = arg;
    uint64_t key;
    fl_status st = FL_OK;

    while (!st && (key = atomic_fetch_add(&w->next_key, PER_BATCH)) < N_KEYS)
        st = put_one(w, key,
                     N_KEYS - key < PER_BATCH ? N_KEYS - key : PER_BATCH);
    if (st == FL_ERR_CLOSED)
        atomic_fetch_add(&w->n_closed, 1);
    else if (st)
        atomic_fetch_add(&w->wrong, 1);
    if (atomic_fetch_sub(&w->n_producing, 1) == 1 && !st)
        fl_batches_finish(w->batches);
}

static void consume(void *arg)
{
    workshop *w = arg;
    uint64_t waited = 0;
    fl_columns *c = NULL;
    fl_status st;

    while (!(st = fl_batches_take(w->batches, &c, &waited)) && c) {
        const uint64_t *keys = c->cols[0].values;

        for (size_t i = 0; i < c->n_rows; i++)
            atomic_fetch_add(&w->seen[keys[i]], 1);
        fl_batches_give_back(w->batches, c);
    }
    atomic_fetch_add(st ? &w->n_failed : &w->n_ended, 1);
}

static workshop *new_workshop(size_t capacity, int n_producers)
{
    workshop *w = fl_alloc(sizeof(*w));

    w->batches = fl_batches_new(&schema, capacity);
    w->n_producers = n_producers;
    atomic_store(&w->n_producing, n_producers);
    return w;
}

static void free_workshop(workshop *w)
{
    assert_int_equal(atomic_load(&w->wrong), 0);
    fl_batches_free(w->batches);
    fl_free(w);
}

static void start(fl_thread **t, int n, void (*fn)(void *), workshop *w)
{
    for (int i = 0; i < n; i++)
        assert_ok(fl_thread_start(&t[i], "test", fn, w));
}

static void join(fl_thread **t, int n)
{
    for (int i = 0; i < n; i++)
        fl_thread_join(t[i]);
}

static void check_each_once(size_t capacity, int n_producers, int n_consumers)
{
    workshop *w = new_workshop(capacity, n_producers);
    fl_thread *p[MAX_THREADS], *c[MAX_THREADS];

    start(c, n_consumers, consume, w);
    start(p, n_producers, produce, w);
    join(p, n_producers);
    join(c, n_consumers);
    assert_int_equal(atomic_load(&w->n_ended), n_consumers);
    for (size_t i = 0; i < N_KEYS; i++)
        assert_int_equal(atomic_load(&w->seen[i]), 1);
    free_workshop(w);
}

static void every_batch_comes_once(void **state)
{
    (void)state;
    check_each_once(1, 1, 1);
    check_each_once(1, 4, 4);
    check_each_once(3, 8, 2);
    check_each_once(16, 2, 8);
}

static void batches_come_in_the_order_they_were_put(void **state)
{
    workshop *w = new_workshop(4, 1);
    uint64_t waited = 0;
    fl_columns *c;

    (void)state;
    for (uint64_t i = 0; i < 4; i++)
        assert_ok(put_one(w, i * 10, 1));
    fl_batches_finish(w->batches);
    for (uint64_t i = 0; i < 4; i++) {
        assert_ok(fl_batches_take(w->batches, &c, &waited));
        assert_int_equal(*(uint64_t *)c->cols[0].values, i * 10);
        fl_batches_give_back(w->batches, c);
    }
    assert_ok(fl_batches_take(w->batches, &c, &waited));
    assert_null(c);
    assert_int_equal(waited, 0);
    free_workshop(w);
}

static void close_wakes_producers_and_consumers(void **state)
{
    workshop *w = new_workshop(2, 4);
    fl_thread *p[4], *c[2];
    fl_columns *one;
    uint64_t waited = 0;

    (void)state;
    start(p, 4, produce, w);
    /* Two batches wait and fill it; all producers run into the limit. */
    assert_ok(fl_batches_take(w->batches, &one, &waited));
    fl_batches_close(w->batches);
    start(c, 2, consume, w);
    join(p, 4);
    join(c, 2);
    assert_int_equal(atomic_load(&w->n_closed), 4);
    assert_int_equal(atomic_load(&w->n_ended), 2);
    fl_batches_give_back(w->batches, one);
    free_workshop(w);
}

static void a_failure_goes_to_every_consumer_at_once(void **state)
{
    workshop *w = new_workshop(4, 1);
    fl_thread *c[3];
    uint64_t waited = 0;
    fl_columns *one = NULL;

    (void)state;
    start(c, 3, consume, w);
    fl_batches_fail(w->batches, fl_err_set(FL_ERR_CORRUPT, "file 7 is cut"));
    fl_batches_fail(w->batches, fl_err_set(FL_ERR_IO, "another"));
    join(c, 3);
    assert_int_equal(atomic_load(&w->n_failed), 3);
    (void)fl_err_set(FL_ERR_INVAL, "something else");
    assert_int_equal(fl_batches_take(w->batches, &one, &waited),
                     FL_ERR_CORRUPT);
    assert_said("file 7 is cut");
    assert_int_equal(fl_batches_empty(w->batches, &one), FL_ERR_CLOSED);
    free_workshop(w);
}

static void a_batch_that_was_not_filled_frees_its_place(void **state)
{
    workshop *w = new_workshop(1, 1);
    fl_columns *c;

    (void)state;
    for (int i = 0; i < 3; i++) {
        assert_ok(fl_batches_empty(w->batches, &c));
        fl_batches_give_back(w->batches, c);
    }
    assert_ok(put_one(w, 0, 1));
    free_workshop(w);
}

static void put_first(void *arg)
{
    workshop *w = arg;

    if (put_one(w, 0, 1))
        atomic_fetch_add(&w->wrong, 1);
}

/* One that waits is not left to sleep while consumers have nothing: others may
   fill theirs for long. */
static void a_producer_goes_on_when_nothing_is_ready(void **state)
{
    enum { CAPACITY = 4 };
    workshop *w = new_workshop(CAPACITY, 1);
    fl_columns *filling[CAPACITY], *c = NULL;
    uint64_t waited = 0;
    fl_thread *t = NULL;

    (void)state;
    for (int i = 0; i < CAPACITY; i++)
        assert_ok(fl_batches_empty(w->batches, &filling[i]));
    assert_ok(fl_thread_start(&t, "producer", put_first, w));
    usleep(2000); /* so that it mostly waits by then */
    fl_batches_put(w->batches, filling[0]);
    assert_ok(fl_batches_take(w->batches, &c, &waited));
    fl_batches_give_back(w->batches, c);
    fl_thread_join(t);
    assert_int_equal(atomic_load(&w->wrong), 0);
    for (int i = 1; i < CAPACITY; i++)
        fl_batches_give_back(w->batches, filling[i]);
    free_workshop(w);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_batch_comes_once),
        cmocka_unit_test(batches_come_in_the_order_they_were_put),
        cmocka_unit_test(close_wakes_producers_and_consumers),
        cmocka_unit_test(a_failure_goes_to_every_consumer_at_once),
        cmocka_unit_test(a_batch_that_was_not_filled_frees_its_place),
        cmocka_unit_test(a_producer_goes_on_when_nothing_is_ready),
    };

    return cmocka_run_group_tests(tests, make_schema, drop_schema);
}
