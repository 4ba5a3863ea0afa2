/* reader_kit.h - a reader over two slots and a generator that counts, shared by
 * the tests of threads and of processes. */
#ifndef FL_TESTS_DATA_READER_KIT_H
#define FL_TESTS_DATA_READER_KIT_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <stdbool.h>
#include <string.h>
#include <unistd.h>

#include "base/thread.h"
#include "data/reader/reader.h"

#define WORKERS_MAX 16
#define NS_PER_S UINT64_C(1000000000)
#define DEADLINE_NS (60 * NS_PER_S)

#define assert_ok(expr)                                                        \
    do {                                                                       \
        if (expr)                                                              \
            fail_msg("%s", fl_last_error());                                   \
    } while (0)

#define assert_said(words)                                                     \
    do {                                                                       \
        if (!strstr(fl_last_error(), words))                                   \
            fail_msg("expected '%s' in '%s'", words, fl_last_error());         \
    } while (0)

/* "key" is worker * KEY_STEP + number of the sample; "who" says more. */
#define KEY_STEP 1000000
enum { KEY, LIST, WHO, N_SLOTS };
static const fl_slot kit_slots[N_SLOTS] = {
    { .name = "key", .kind = FL_SLOT_IDS, .width = 1 },
    { .name = "list", .kind = FL_SLOT_IDS },
    { .name = "who", .kind = FL_SLOT_FLOATS, .width = 2 },
};

/* What a worker's generator has done; one line of cache each. */
typedef struct share {
    _Alignas(64) uint64_t at; /* samples or batches given */
} share;

typedef struct counting {
    uint64_t n[WORKERS_MAX]; /* samples or batches that each worker has */
    uint64_t fail_at;        /* fails instead of giving this one; 0: never */
    share shares[WORKERS_MAX];
} counting;

static inline fl_status give_sample(fl_feeder *f, int worker, uint64_t i)
{
    uint64_t key = (uint64_t)worker * KEY_STEP + i;
    uint64_t list[8];
    float who[2] = { (float)worker, (float)getpid() };

    for (uint64_t k = 0; k < i % 8; k++)
        list[k] = key + k;
    FL_TRY(fl_feeder_ids(f, "key", &key, 1));
    FL_TRY(fl_feeder_ids(f, "list", list, i % 8));
    return fl_feeder_floats(f, "who", who, 2);
}

/* The sample is left to be ended by the reader. */
static inline fl_status count_samples(void *arg, int worker, fl_feeder *into,
                                      bool *end)
{
    counting *c = arg;
    uint64_t i = c->shares[worker].at++;

    if (c->fail_at && i == c->fail_at)
        return fl_err_set(FL_ERR_IO, "the sky fell at %d", (int)i);
    *end = i >= c->n[worker];
    return *end ? FL_OK : give_sample(into, worker, i);
}

/* Batches of three rows. */
static inline fl_status count_batches(void *arg, int worker, fl_feeder *into,
                                      bool *end)
{
    counting *c = arg;
    uint64_t i = c->shares[worker].at++;

    *end = i >= c->n[worker];
    for (uint64_t k = 0; !*end && k < 3; k++) {
        FL_TRY(give_sample(into, worker, i * 3 + k));
        FL_TRY(fl_feeder_end_sample(into));
    }
    return FL_OK;
}

static inline void rewind_counting(counting *c)
{
    for (int i = 0; i < WORKERS_MAX; i++)
        c->shares[i].at = 0;
}

static inline fl_reader *make_reader(fl_reader_args args)
{
    fl_reader *r = NULL;

    assert_ok(fl_reader_make(&r, kit_slots, NULL, N_SLOTS, &args));
    return r;
}

/* Every number of a batch of samples from one worker, [first, first + n). */
static inline void check_batch(const fl_feed *feeds, size_t n_rows, int worker,
                               uint64_t first)
{
    const uint64_t *keys = feeds[KEY].value.data;
    const uint64_t *list = feeds[LIST].value.data;
    const int64_t *at = feeds[LIST].value.lod[0];

    assert_int_equal(feeds[KEY].value.shape.dim[0], n_rows);
    assert_int_equal(feeds[LIST].value.lod_len[0], n_rows + 1);
    for (size_t r = 0; r < n_rows; r++) {
        uint64_t key = (uint64_t)worker * KEY_STEP + first + r;

        assert_int_equal(keys[r], key);
        assert_int_equal(at[r + 1] - at[r], (first + r) % 8);
        for (int64_t k = at[r]; k < at[r + 1]; k++)
            assert_int_equal(list[k], key + (uint64_t)(k - at[r]));
    }
}

static inline int worker_of(const fl_feed *feeds)
{
    return (int)((const float *)feeds[WHO].value.data)[0];
}

static inline int process_of(const fl_feed *feeds)
{
    return (int)((const float *)feeds[WHO].value.data)[1];
}

/* Reads to the end as consumer 0; checks every batch of batch_size samples,
   and gives the number of rows. */
static inline size_t read_all(fl_reader *r, size_t batch_size, bool drop_last,
                              const counting *c)
{
    uint64_t seen[WORKERS_MAX] = { 0 };
    const fl_feed *feeds;
    size_t n, total = 0;

    for (;;) {
        int w;
        uint64_t left;

        assert_ok(fl_reader_next(r, 0, &feeds, &n));
        if (!feeds)
            break;
        w = worker_of(feeds);
        check_batch(feeds, n, w, seen[w]);
        left = c->n[w] - seen[w];
        assert_int_equal(n, left < batch_size ? left : batch_size);
        if (drop_last)
            assert_int_equal(n, batch_size);
        seen[w] += n;
        total += n;
    }
    return total;
}

#endif
