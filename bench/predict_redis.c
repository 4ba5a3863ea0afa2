/* predict_redis.c - predictions whose rows are in Redis, against a client that
 * reads the same rows and does nothing with them.
 *
 * Both talk to one redis-server and wait for each batch before they ask for the
 * next. The bare client asks for every different row of a batch once, as the
 * library does, by MGET of a hundred keys each, all of a batch in one go. CPU
 * times are those of client and server together.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "flotilla/redis.h"
#include "harness.h"
#include "predict_parts.h"
#include "ps_peers.h"

#define PAIRS 9
#define SIZE 100
#define BATCH_IDS (SIZE * CTR_SLOTS)

_Static_assert(PS_DIM == CTR_DIM, "a row of the peers is one of the model");

typedef struct redis_rows {
    void *peer;
    batches *b;
    uint64_t *keys; /* [n][BATCH_IDS], of which the first lens[k] are used */
    size_t *lens;
    float *values; /* of one batch */
} redis_rows;

/* --- keys ----------------------------------------------------------------- */

static int by_key(const void *a, const void *b)
{
    uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;

    return (x > y) - (x < y);
}

static size_t make_different(uint64_t *keys, size_t n)
{
    size_t len = 0;

    qsort(keys, n, sizeof *keys, by_key);
    for (size_t i = 0; i < n; i++)
        if (!len || keys[len - 1] != keys[i])
            keys[len++] = keys[i];
    return len;
}

static ps_batch batch_at(const redis_rows *r, size_t k)
{
    return (ps_batch){ .keys = r->keys + k * BATCH_IDS,
                       .n = r->lens[k],
                       .out = r->values };
}

/* The bare client's rows are written by it, as many as the model has; any values
   will do. */
static void fill_redis(void *peer)
{
    static uint64_t keys[PS_BATCH];
    static float values[PS_BATCH * PS_DIM];

    for (uint64_t lo = 0; lo < CTR_ROWS; lo += PS_BATCH) {
        ps_batch b = { .keys = keys, .values = values };

        for (; b.n < PS_BATCH && lo + b.n < CTR_ROWS; b.n++)
            keys[b.n] = lo + b.n;
        ps_redis.push(peer, &b, 1);
    }
}

static void rows_init(redis_rows *r, batches *b, void *peer)
{
    const uint64_t *ids = b->m->data.ids;

    *r = (redis_rows){ .peer = peer, .b = b };
    r->keys = bench_alloc(b->n * BATCH_IDS * sizeof *r->keys);
    r->lens = bench_alloc(b->n * sizeof *r->lens);
    r->values = bench_alloc(BATCH_IDS * PS_ROW_BYTES);
    for (size_t k = 0; k < b->n; k++) {
        uint64_t *keys = r->keys + k * BATCH_IDS;

        memcpy(keys, ids + k * BATCH_IDS, BATCH_IDS * sizeof *keys);
        r->lens[k] = make_different(keys, BATCH_IDS);
    }
    fill_redis(peer);
}

static void rows_release(redis_rows *r)
{
    free(r->keys);
    free(r->lens);
    free(r->values);
}

/* --- the two sides -------------------------------------------------------- */

static void read_bare(redis_rows *r)
{
    for (size_t k = 0; k < r->b->n; k++) {
        ps_batch batch = batch_at(r, k);

        ps_redis.pull(r->peer, &batch, 1);
    }
}

static void predict(redis_rows *r)
{
    (void)batches_ours(r->b);
}

/* Of this process and the server's. */
static double cpu_seconds(const redis_rows *r)
{
    struct timespec t;

    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec +
           ps_redis.cpu_seconds(r->peer);
}

static double time_one(redis_rows *r, void (*side)(redis_rows *r))
{
    double start = cpu_seconds(r);

    side(r);
    return cpu_seconds(r) - start;
}

static void compare(redis_rows *r)
{
    size_t n = bench_repeats(PAIRS);
    double *share = bench_alloc(n * sizeof *share);

    predict(r);
    read_bare(r);
    for (size_t i = 0; i < n; i++) {
        double ours = i % 2 ? 0 : time_one(r, predict);
        double bare = time_one(r, read_bare);

        if (i % 2)
            ours = time_one(r, predict);
        share[i] = bare / ours;
    }
    bench_figure("predict.redis", "of_mget", share, n, "");
    free(share);
}

/* --- all ------------------------------------------------------------------ */

static void measure(models *m, void *peer)
{
    redis_rows r;
    batches b;

    batches_init(&b, m, SIZE);
    rows_init(&r, &b, peer);
    compare(&r);
    (void)batches_straight(&b);
    check_scores(b.ours, b.straight, b.n * SIZE);
    rows_release(&r);
    batches_release(&b);
}

void bench_predict_redis(models *m)
{
    void *peer = ps_redis.open(NULL);
    fl_row_source *rows;
    char address[96];

    if (!peer) {
        fprintf(stderr, "bench: predict goes without Redis, which needs "
                        "redis-server and libhiredis-dev\n");
        return;
    }
    ps_redis_address(peer, address, sizeof address);
    bench_check(fl_redis_export(m->dir, NULL, .address = address),
                "bringing rows to Redis");
    bench_check(fl_row_source_of_redis(&rows, .address = address),
                "rows from Redis");
    models_open(m, false, rows);
    measure(m, peer);
    models_close(m);
    ps_redis.close(peer);
}
