/* data_cache_inside.c - how fast a mapped cache becomes columns.
 *
 * The peer is memcpy of the same bytes, chunk by chunk, out of a map of the
 * same file into memory that is used again and again, as the columns are. The
 * two take turns and both find the file in the page cache. One thread.
 *
 * The dataset cannot be asked for this: behind it, batches are cut and handed
 * from thread to thread. So this file includes headers of src/ and is linked
 * with the library's inside.
 */
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/hash.h"
#include "data/cache/cache.h"
#include "data_cache.h"
#include "harness.h"

#define N_IDS 26
#define N_FLOATS 13
#define N_SLOTS (2 + N_IDS)
#define N_VALUES (1 + N_FLOATS + N_IDS)
#define ADD_RECORDS 4096 /* at a time, and in a chunk */
#define N_ADDS 100       /* the file is far larger than the processor's cache */
#define ROUNDS 15
#define PATH_ROOM 512

typedef struct cache_case {
    const char *name;
    uint32_t id_width; /* 0: ragged, with one id in each record all the same */
} cache_case;

static const cache_case cases[] = { { "data.cache", 0 },
                                    { "data.cache.dense", 1 } };

/* A cache on disk, opened, and the same file as plain bytes. */
typedef struct contest {
    fl_schema schema;
    char folder[32], path[PATH_ROOM];
    fl_cache *cache;
    fl_columns columns;
    fl_records rows;
    const char *map;
    size_t map_bytes;
    char *copy;
    size_t copy_bytes; /* about those of a chunk */
} contest;

/* --- the file ------------------------------------------------------------ */

static void make_schema(fl_schema *s, uint32_t id_width)
{
    fl_slot slots[N_SLOTS] = {
        { .name = "label", .kind = FL_SLOT_FLOATS, .width = 1 },
        { .name = "dense", .kind = FL_SLOT_FLOATS, .width = N_FLOATS },
    };
    char names[N_IDS][8];

    for (int i = 0; i < N_IDS; i++) {
        snprintf(names[i], sizeof names[i], "C%d", i + 1);
        slots[2 + i] = (fl_slot){ .name = names[i],
                                  .kind = FL_SLOT_IDS,
                                  .width = id_width };
    }
    bench_check(fl_schema_init(s, slots, N_SLOTS), "slots");
}

static void write_record(fl_row_writer *w, uint64_t seed)
{
    const fl_slot *slots = w->schema->slots;

    if (fl_row_open(w, N_VALUES)) {
        fprintf(stderr, "bench: a record: %s\n", fl_last_error());
        exit(1);
    }
    fl_row_float(w, (float)(seed & 1));
    for (int i = 0; i < N_FLOATS; i++)
        fl_row_float(w, (float)((seed >> i) & 1023));
    for (uint32_t i = 0; i < N_IDS; i++) {
        fl_row_slot(w, &slots[2 + i], i, 1);
        fl_row_id(w, fl_mix64(seed * N_IDS + i));
    }
    fl_row_close(w);
}

static void write_cache(contest *c, const fl_cache_key *key)
{
    fl_cache_writer *writer = NULL;
    fl_records rows = { 0 };
    fl_row_writer w = { .schema = &c->schema, .rows = &rows };

    bench_check(fl_cache_writer_new(&writer, c->folder, key, &c->schema),
                "making a cache");
    for (uint64_t i = 0; i < N_ADDS; i++) {
        fl_records_clear(&rows);
        for (uint64_t r = 0; r < ADD_RECORDS; r++)
            write_record(&w, i * ADD_RECORDS + r);
        bench_check(fl_cache_writer_add(writer, &rows), "writing a cache");
    }
    bench_check(fl_cache_writer_commit(writer, N_ADDS * ADD_RECORDS, 0),
                "ending a cache");
    fl_records_release(&rows);
}

static void map_file(contest *c)
{
    int fd = open(c->path, O_RDONLY | O_CLOEXEC);
    struct stat st;
    void *p;

    if (fd < 0 || fstat(fd, &st) != 0) {
        perror(c->path);
        exit(1);
    }
    p = mmap(NULL, (size_t)st.st_size, PROT_READ, MAP_SHARED, fd, 0);
    close(fd);
    bench_check_new(p == MAP_FAILED ? NULL : p, "a map of the cache");
    c->map = p;
    c->map_bytes = (size_t)st.st_size;
}

static void contest_init(contest *c, const cache_case *k)
{
    fl_cache_key key = { .source = "bench", .source_bytes = 1 };

    *c = (contest){ .folder = "/tmp/flotilla_bench_XXXXXX" };
    bench_check_new(mkdtemp(c->folder), "a folder below /tmp");
    make_schema(&c->schema, k->id_width);
    write_cache(c, &key);
    fl_cache_path(&key, c->folder, c->path, sizeof c->path);
    bench_check(fl_cache_open(&c->cache, c->folder, &key, &c->schema),
                "opening a cache");
    bench_check_new(c->cache, "a cache that fits");
    fl_columns_init(&c->columns, &c->schema);
    map_file(c);
    c->copy_bytes = c->map_bytes / N_ADDS;
    c->copy = bench_alloc(c->copy_bytes);
}

static void contest_release(contest *c)
{
    munmap((void *)(uintptr_t)c->map, c->map_bytes);
    free(c->copy);
    fl_cache_close(c->cache);
    fl_columns_release(&c->columns);
    fl_records_release(&c->rows);
    fl_schema_release(&c->schema);
    unlink(c->path);
    rmdir(c->folder);
}

/* --- turns --------------------------------------------------------------- */

static double read_columns(void *arg)
{
    contest *c = arg;

    for (size_t i = 0; i < fl_cache_chunks(c->cache); i++)
        bench_check(fl_cache_columns(c->cache, i, &c->columns),
                    "reading a cache");
    return (double)c->columns.n_rows;
}

static double read_rows(void *arg)
{
    contest *c = arg;

    for (size_t i = 0; i < fl_cache_chunks(c->cache); i++) {
        fl_records_clear(&c->rows);
        bench_check(fl_cache_rows(c->cache, i, &c->rows), "reading a cache");
    }
    return (double)c->rows.n;
}

static double copy_bytes(void *arg)
{
    contest *c = arg;

    for (size_t i = 0; i < N_ADDS; i++)
        memcpy(c->copy, c->map + i * c->copy_bytes, c->copy_bytes);
    return (double)c->copy[0];
}

/* --- figures ------------------------------------------------------------- */

static void put_figures(const char *name, const contest *c,
                        const bench_sample *ours, const bench_sample *its,
                        size_t n)
{
    double *rate = bench_alloc(n * sizeof *rate);
    double *bytes = bench_alloc(n * sizeof *bytes);
    double *ratio = bench_alloc(n * sizeof *ratio);

    for (size_t i = 0; i < n; i++) {
        rate[i] = 1e-6 * N_ADDS * ADD_RECORDS / ours[i].seconds;
        bytes[i] = 1e-9 * (double)c->map_bytes / ours[i].seconds;
        ratio[i] = its[i].seconds / ours[i].seconds;
    }
    bench_figure(name, "rate", rate, n, "M records/s");
    bench_figure(name, "bytes", bytes, n, "GB/s");
    bench_figure(name, "of_memcpy", ratio, n, "ratio");
    free(rate);
    free(bytes);
    free(ratio);
}

static void measure(const char *name, contest *c, double (*read)(void *arg))
{
    size_t n = bench_repeats(ROUNDS);
    bench_sample *ours = bench_alloc(n * sizeof *ours);
    bench_sample *its = bench_alloc(n * sizeof *its);
    bench_side reader = { read, c }, copier = { copy_bytes, c };

    (void)bench_run(&reader); /* brings both maps' pages in */
    (void)bench_run(&copier);
    bench_pairs(&reader, &copier, n, ours, its);
    put_figures(name, c, ours, its, n);
    free(ours);
    free(its);
}

void bench_data_cache(void)
{
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char rows_name[64];
        contest c;

        contest_init(&c, &cases[i]);
        measure(cases[i].name, &c, read_columns);
        snprintf(rows_name, sizeof rows_name, "%s.rows", cases[i].name);
        measure(rows_name, &c, read_rows);
        contest_release(&c);
    }
}
