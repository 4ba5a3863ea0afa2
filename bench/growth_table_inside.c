/* growth_table_inside.c - two threads of a server over its rows, which are those of
 * one range of hashes, with more and more servers. */
#include <stdio.h>

#include "base/hash.h"
#include "base/thread.h"
#include "growth.h"
#include "harness.h"
#include "table/table.h"

#define DIM 8
#define N_THREADS 2
#define N_ROWS 200000u
#define BATCH 1000u
#define BATCHES 300u /* of a thread, in one repeat */
#define REPEATS 15
#define N_SIZES 4

typedef struct shop {
    fl_table *table;
    uint64_t n_servers;
} shop;

typedef struct hand {
    const shop *shop;
    uint64_t seed;
} hand;

static uint64_t draw(uint64_t *seed)
{
    return fl_mix64(*seed += 0x9e3779b97f4a7c15u);
}

/* A key of server 0. */
static uint64_t key_of(const shop *s, uint64_t row)
{
    return fl_hash_origin(fl_mix64(row + 1) / s->n_servers);
}

static void work(void *arg)
{
    hand *h = arg;
    uint64_t keys[BATCH];
    float values[BATCH * DIM];
    fl_rows rows = {
        .keys = keys, .values = values, .n = BATCH, .dim = DIM, .lr = 0.01
    };

    for (uint32_t b = 0; b < BATCHES; b++) {
        for (uint32_t i = 0; i < BATCH; i++)
            keys[i] = key_of(h->shop, draw(&h->seed) % N_ROWS);
        bench_check(
            fl_table_pull(h->shop->table, keys, BATCH, FL_PULL_CREATE, values),
            "a pull");
        bench_check(fl_table_push(h->shop->table, &rows), "a push");
    }
}

/* Million rows a second, each pulled and pushed. */
static double measure(const shop *s, uint64_t seed)
{
    fl_thread *threads[N_THREADS];
    hand hands[N_THREADS];
    uint64_t start = fl_now_ns();

    for (uint64_t i = 0; i < N_THREADS; i++) {
        hands[i] = (hand){ s, seed + i };
        bench_check(fl_thread_start(&threads[i], "hand", work, &hands[i]),
                    "a thread");
    }
    for (int i = 0; i < N_THREADS; i++)
        fl_thread_join(threads[i]);
    return 1e3 * N_THREADS * BATCHES * BATCH / (double)(fl_now_ns() - start);
}

static void open_shop(shop *s, int n_servers)
{
    fl_table_config config = { .name = "rows",
                               .dim = DIM,
                               .init = { .kind = FL_INIT_CONSTANT },
                               .rule = "adagrad",
                               .n_holders = n_servers };

    s->n_servers = (uint64_t)n_servers;
    bench_check(fl_table_create(&s->table, &config), "a table");
    (void)measure(s, 0);
}

void growth_tables(void)
{
    static const int sizes[N_SIZES] = { 1, 4, 16, 64 };
    double rates[N_SIZES][REPEATS];
    size_t n = bench_repeats(REPEATS);
    shop shops[N_SIZES];
    char prefix[48];

    n = n < REPEATS ? n : REPEATS;
    for (int s = 0; s < N_SIZES; s++)
        open_shop(&shops[s], sizes[s]);
    for (size_t i = 0; i < n; i++)
        for (int s = 0; s < N_SIZES; s++)
            rates[s][i] = measure(&shops[s], 100 * i);
    for (int s = N_SIZES - 1; s >= 0; s--) {
        snprintf(prefix, sizeof prefix, "growth.table.s%d", sizes[s]);
        bench_figure(prefix, "rate", rates[s], n, "M rows/s");
        for (size_t i = 0; i < n; i++)
            rates[s][i] /= rates[0][i];
        bench_figure(prefix, "of_s1", rates[s], n, "ratio");
        fl_table_destroy(shops[s].table);
    }
}
