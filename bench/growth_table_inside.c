/* growth_table_inside.c - two threads of a server over its rows, which are those of
 * one range of hashes, with more and more servers; and over a table that has the
 * partitions of a machine with more and more cores, with large and small batches. */
#include <stdio.h>

#include "base/hash.h"
#include "base/thread.h"
#include "growth.h"
#include "harness.h"
#include "table/table.h"

#define DIM 8
#define N_THREADS 2
#define N_ROWS 200000u
#define LARGE 1000u
#define SMALL 100u
#define KEYS 300000u /* of a thread, in one repeat */
#define REPEATS 15

typedef struct shop_kind {
    const char *name, *of; /* the one that it is compared with */
    size_t base;
    int n_servers, n_partitions; /* of one server, 0: by its cores */
    uint32_t batch;
} shop_kind;

static const shop_kind kinds[] = {
    { "s1", "of_s1", 0, 1, 0, LARGE },
    { "s4", "of_s1", 0, 4, 0, LARGE },
    { "s16", "of_s1", 0, 16, 0, LARGE },
    { "s64", "of_s1", 0, 64, 0, LARGE },
    { "cores2", "of_cores2", 4, 1, 4, LARGE },
    { "cores16", "of_cores2", 4, 1, 32, LARGE },
    { "cores64", "of_cores2", 4, 1, 128, LARGE },
    { "cores2.small", "of_cores2", 7, 1, 4, SMALL },
    { "cores16.small", "of_cores2", 7, 1, 32, SMALL },
    { "cores64.small", "of_cores2", 7, 1, 128, SMALL },
};
#define N_KINDS (sizeof kinds / sizeof *kinds)

typedef struct shop {
    fl_table *table;
    uint64_t n_servers;
    uint32_t batch;
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
    uint64_t keys[LARGE];
    float values[LARGE * DIM];
    const uint32_t n = h->shop->batch;
    fl_rows rows = {
        .keys = keys, .values = values, .n = n, .dim = DIM, .lr = 0.01
    };

    for (uint32_t done = 0; done < KEYS; done += n) {
        for (uint32_t i = 0; i < n; i++)
            keys[i] = key_of(h->shop, draw(&h->seed) % N_ROWS);
        bench_check(
            fl_table_pull(h->shop->table, keys, n, FL_PULL_CREATE, values),
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
    return 1e3 * N_THREADS * KEYS / (double)(fl_now_ns() - start);
}

static void open_shop(shop *s, const shop_kind *k)
{
    fl_table_config config = { .name = "rows",
                               .dim = DIM,
                               .init = { .kind = FL_INIT_CONSTANT },
                               .rule = "adagrad",
                               .n_holders = k->n_servers,
                               .n_partitions = k->n_partitions };

    s->n_servers = (uint64_t)k->n_servers;
    s->batch = k->batch;
    bench_check(fl_table_create(&s->table, &config), "a table");
    (void)measure(s, 0);
}

void growth_tables(void)
{
    double rates[N_KINDS][REPEATS];
    size_t n = bench_repeats(REPEATS);
    shop shops[N_KINDS];
    char prefix[48];

    n = n < REPEATS ? n : REPEATS;
    for (size_t s = 0; s < N_KINDS; s++)
        open_shop(&shops[s], &kinds[s]);
    for (size_t i = 0; i < n; i++)
        for (size_t s = 0; s < N_KINDS; s++)
            rates[s][i] = measure(&shops[s], 100 * i);
    for (size_t s = N_KINDS; s-- > 0;) {
        snprintf(prefix, sizeof prefix, "growth.table.%s", kinds[s].name);
        bench_figure(prefix, "rate", rates[s], n, "M rows/s");
        for (size_t i = 0; i < n; i++)
            rates[s][i] /= rates[kinds[s].base][i];
        bench_figure(prefix, kinds[s].of, rates[s], n, "ratio");
        fl_table_destroy(shops[s].table);
    }
}
