/* cache_kit.h - what the tests of the cache share: a folder, slots, records,
 * and the bytes of a cache file. */
#ifndef FL_TESTS_DATA_CACHE_KIT_H
#define FL_TESTS_DATA_CACHE_KIT_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/file.h"
#include "base/hash.h"
#include "base/log.h"
#include "data/cache/cache_disk.h"

#define FILE_MAX ((size_t)1 << 28)
#define PATH_ROOM 512

/* Fails the test with the library's own sentence. */
#define assert_ok(expr)                                                        \
    do {                                                                       \
        if (expr)                                                              \
            fail_msg("%s", fl_last_error());                                   \
    } while (0)

#define assert_said(part) assert_non_null(strstr(fl_last_error(), part))

static char folder[] = "/tmp/flotilla_cache_XXXXXX";

static const fl_cache_key a_key = { .source = "/data/part-0",
                                    .source_bytes = 1000,
                                    .source_mtime_ns = 77,
                                    .parser_hash = 0x1234 };

/* A bit of everything: label, dense, two ragged ones with and without limit. */
static const fl_slot small_slots[] = {
    { .name = "label", .kind = FL_SLOT_FLOATS, .width = 1 },
    { .name = "dense", .kind = FL_SLOT_FLOATS, .width = 3 },
    { .name = "item", .kind = FL_SLOT_IDS, .width = 0, .height = 1000 },
    { .name = "user", .kind = FL_SLOT_IDS, .width = 2 },
    { .name = "weights", .kind = FL_SLOT_FLOATS, .width = 0 },
};

/* The next number of a sequence that starts at *s. */
static inline uint64_t draw(uint64_t *s)
{
    *s += 0x9e3779b97f4a7c15u;
    return fl_mix64(*s);
}

static inline int make_folder(void **state)
{
    (void)state;
    fl_log_set_level(FL_LOG_WARN);
    return mkdtemp(folder) ? 0 : -1;
}

/* Files in the folder; they are removed as well when `clear` is set. */
static inline size_t count_files(bool clear)
{
    DIR *d = opendir(folder);
    const struct dirent *e;
    size_t n = 0;

    assert_non_null(d);
    while ((e = readdir(d))) {
        char path[PATH_ROOM];

        if (e->d_name[0] == '.')
            continue;
        n++;
        snprintf(path, sizeof(path), "%s/%s", folder, e->d_name);
        if (clear && remove(path) != 0)
            fail_msg("cannot remove %s", path);
    }
    closedir(d);
    return n;
}

static inline int clear_folder(void **state)
{
    (void)state;
    (void)count_files(true);
    return 0;
}

static inline int remove_folder(void **state)
{
    clear_folder(state);
    return rmdir(folder);
}

/* --- records ------------------------------------------------------------- */

static inline fl_schema small_schema(void)
{
    fl_schema s;

    assert_ok(fl_schema_init(&s, small_slots, FL_LEN(small_slots)));
    return s;
}

/* How many values a ragged slot gets: mostly few, now and then none or more
   than a byte counts. */
static inline uint32_t draw_count(uint64_t *seed)
{
    uint64_t x = draw(seed);

    return x % 97 == 0 ? 250 + (uint32_t)(x >> 32) % 300
                       : (uint32_t)(x >> 32) % 4;
}

static inline void add_values(fl_row_writer *w, const fl_slot *slot, uint32_t n,
                              uint64_t *seed)
{
    for (uint32_t i = 0; i < n; i++) {
        uint64_t x = draw(seed);

        if (slot->kind == FL_SLOT_IDS)
            fl_row_id(w, slot->height ? x % slot->height : x);
        else
            fl_row_float(w, (float)(x % 2001) / 8 - 125);
    }
}

static inline void add_record(const fl_schema *s, fl_records *rows,
                              uint64_t *seed)
{
    fl_row_writer w = { .schema = s, .rows = rows };
    uint32_t counts[64];
    uint32_t ragged = 0;
    size_t n_values = 0;

    assert_true(s->n_slots <= FL_LEN(counts));
    for (uint32_t i = 0; i < s->n_slots; i++) {
        uint32_t width = s->slots[i].width;

        counts[i] = width ? width : draw_count(seed);
        n_values += counts[i];
    }
    assert_ok(fl_row_open(&w, n_values));
    for (uint32_t i = 0; i < s->n_slots; i++) {
        fl_row_slot(&w, &s->slots[i], ragged, counts[i]);
        add_values(&w, &s->slots[i], counts[i], seed);
        ragged += s->slots[i].width == 0;
    }
    fl_row_close(&w);
}

static inline fl_records make_rows(const fl_schema *s, size_t n, uint64_t seed)
{
    fl_records rows = { 0 };

    for (size_t i = 0; i < n; i++)
        add_record(s, &rows, &seed);
    return rows;
}

/* --- caches -------------------------------------------------------------- */

static inline void write_rows(const fl_schema *s, const fl_records *rows)
{
    fl_cache_writer *w = NULL;

    assert_ok(fl_cache_writer_new(&w, folder, &a_key, s));
    assert_ok(fl_cache_writer_add(w, rows));
    assert_ok(fl_cache_writer_commit(w, rows->n, 0));
}

static inline fl_cache *open_cache(const fl_schema *s)
{
    fl_cache *c = NULL;

    assert_ok(fl_cache_open(&c, folder, &a_key, s));
    return c;
}

static inline fl_records read_rows(const fl_cache *c)
{
    fl_records rows = { 0 };

    for (size_t i = 0; i < fl_cache_chunks(c); i++)
        assert_ok(fl_cache_rows(c, i, &rows));
    return rows;
}

static inline void assert_same_rows(const fl_records *a, const fl_records *b)
{
    assert_int_equal(a->n, b->n);
    assert_int_equal(a->len, b->len);
    if (a->n == 0)
        return;
    assert_memory_equal(a->starts, b->starts, a->n * sizeof(*a->starts));
    assert_memory_equal(a->words, b->words, a->len * sizeof(*a->words));
}

/* --- bytes --------------------------------------------------------------- */

typedef struct file_bytes {
    char *data;
    size_t len;
} file_bytes;

static inline void cache_path(char *path)
{
    fl_cache_path(&a_key, folder, path, PATH_ROOM);
}

static inline file_bytes load_bytes(void)
{
    char path[PATH_ROOM];
    file_bytes b;

    cache_path(path);
    assert_ok(fl_file_read(path, FILE_MAX, &b.data, &b.len));
    return b;
}

/* Not synced, unlike fl_file_write: some tests do it many thousand times. The
   old file goes first, since file systems sync one that is cut to nothing. */
static inline void store_bytes(const char *data, size_t len)
{
    char path[PATH_ROOM];
    FILE *f;

    cache_path(path);
    (void)remove(path);
    f = fopen(path, "wb");
    assert_non_null(f);
    assert_int_equal(fwrite(data, 1, len, f), len);
    assert_int_equal(fclose(f), 0);
}

/* What came of reading all of it: FL_ERR_NOTFOUND stands for "does not fit". */
static inline fl_status read_all(const fl_schema *s)
{
    fl_cache *c = open_cache(s);
    fl_records rows = { 0 };
    fl_columns columns;
    fl_status st = FL_OK;

    if (!c)
        return FL_ERR_NOTFOUND;
    fl_columns_init(&columns, s);
    for (size_t i = 0; i < fl_cache_chunks(c) && !st; i++) {
        st = fl_cache_columns(c, i, &columns);
        if (!st)
            st = fl_cache_rows(c, i, &rows);
    }
    fl_columns_release(&columns);
    fl_records_release(&rows);
    fl_cache_close(c);
    return st;
}

#endif
