/* dataset_files.h - real files of key records (dataset_kit.h), datasets over
 * them, and passes by several threads that check and count every record. */
#ifndef FL_TESTS_DATASET_FILES_H
#define FL_TESTS_DATASET_FILES_H

#include "dataset_kit.h"

#include <dirent.h>
#include <inttypes.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/file.h"
#include "base/thread.h"
#include "base/vec.h"
#include "data/dataset/dataset.h"

#define N_FILES 5
#define PER_FILE 601
#define N_KEYS (N_FILES * PER_FILE)
#define MAX_CONSUMERS 8

static char folder[] = "/tmp/flotilla_dataset_XXXXXX";
static char cache_folder[64];
static fl_conf conf;

/* --- files --------------------------------------------------------------- */

static inline void write_text(const char *name, const char *text)
{
    char path[256];

    snprintf(path, sizeof(path), "%s/%s", folder, name);
    assert_ok(fl_file_write(path, text, strlen(text)));
}

static inline void add_line(fl_str *s, uint64_t key)
{
    fl_str_addf(s, "1 %" PRIu64 " %u", key, list_len(key));
    for (uint32_t i = 0; i < list_len(key); i++)
        fl_str_addf(s, " %" PRIu64, list_at(key, i));
    fl_str_addf(s, " 2 %" PRIu64 " %" PRIu64 ".5\n", key, key);
}

static inline void write_keys(const char *name, uint64_t lo, uint64_t hi)
{
    fl_str s = { 0 };

    for (uint64_t key = lo; key < hi; key++)
        add_line(&s, key);
    write_text(name, fl_str_text(&s));
    fl_str_release(&s);
}

static inline void remove_all(const char *directory)
{
    DIR *d = opendir(directory);
    struct dirent *e;
    char path[512];

    while (d && (e = readdir(d))) {
        snprintf(path, sizeof(path), "%s/%s", directory, e->d_name);
        if (e->d_name[0] != '.')
            unlink(path);
    }
    if (d)
        closedir(d);
    rmdir(directory);
}

static inline int make_folder(void **state)
{
    char name[64];

    (void)state;
    if (!mkdtemp(folder))
        return -1;
    snprintf(cache_folder, sizeof(cache_folder), "%s_cache", folder);
    for (uint64_t i = 0; i < N_FILES; i++) {
        snprintf(name, sizeof(name), "part-%" PRIu64, i);
        write_keys(name, i * PER_FILE, (i + 1) * PER_FILE);
    }
    if (fl_conf_init(&conf))
        return -1;
    snprintf(name, sizeof(name), "%s/quarantine", folder);
    return fl_conf_set(&conf, "quarantine", name) ||
                   fl_conf_set(&conf, "read_block_bytes", "4096")
               ? -1
               : 0;
}

static inline int remove_folder(void **state)
{
    (void)state;
    fl_conf_release(&conf);
    remove_all(cache_folder);
    remove_all(folder);
    return 0;
}

/* --- datasets ------------------------------------------------------------ */

static inline void set_files(fl_dataset *d, const char *pattern)
{
    char path[256];
    const char *one = path;

    snprintf(path, sizeof(path), "%s/%s", folder, pattern);
    assert_ok(fl_dataset_set_filelist(d, &one, 1));
}

static inline fl_dataset *new_dataset(const char *kind, const char *pattern)
{
    fl_dataset *d = NULL;

    assert_ok(fl_dataset_make(&d, &conf, kind));
    assert_ok(fl_dataset_set_slots(d, key_slots, FL_LEN(key_slots)));
    if (pattern)
        set_files(d, pattern);
    return d;
}

/* Reads on one thread; the keys in their order. */
typedef FL_VEC(uint64_t) key_vec;

static inline fl_status read_keys(fl_dataset *d, key_vec *keys)
{
    const fl_feed *feeds = NULL;
    size_t n = 0;

    FL_TRY(fl_dataset_begin(d, 1));
    for (;;) {
        fl_status st = fl_dataset_next(d, 0, &feeds, &n);

        if (st || !feeds) {
            fl_dataset_end(d);
            return st;
        }
        for (size_t i = 0; i < n; i++)
            fl_vec_push(keys, ((uint64_t *)feeds[0].value.data)[i]);
    }
}

static inline uint64_t *order_of(fl_dataset *d, size_t n)
{
    key_vec keys = { 0 };

    assert_ok(read_keys(d, &keys));
    assert_int_equal(keys.len, n);
    return keys.data;
}

/* --- passes -------------------------------------------------------------- */

typedef struct reading {
    fl_dataset *dataset;
    int consumer;
    size_t batch_size;
    atomic_uint *seen;
    atomic_int *n_short;
    atomic_size_t *n_rows;
    fl_err err;
    bool wrong;
} reading;

/* Not on the test's own thread: counts instead of asserting. */
static inline void check_batch(reading *r, const fl_feed *feeds, size_t n)
{
    const uint64_t *keys = feeds[0].value.data;
    const int64_t *offsets = feeds[1].value.lod[0];

    if (n < r->batch_size)
        atomic_fetch_add(r->n_short, 1);
    r->wrong = r->wrong || n == 0 || n > r->batch_size;
    for (size_t i = 0; i < n; i++) {
        uint32_t len = (uint32_t)(offsets[i + 1] - offsets[i]);
        const uint64_t *list =
            (const uint64_t *)feeds[1].value.data + offsets[i];

        r->wrong = r->wrong || keys[i] >= N_KEYS || len != list_len(keys[i]);
        for (uint32_t k = 0; k < len; k++)
            r->wrong = r->wrong || list[k] != list_at(keys[i], k);
        if (keys[i] < N_KEYS)
            atomic_fetch_add(&r->seen[keys[i]], 1);
    }
    atomic_fetch_add(r->n_rows, n);
}

static inline void read_all(void *arg)
{
    reading *r = arg;
    const fl_feed *feeds = NULL;
    size_t n = 0;
    fl_status st;

    while (!(st = fl_dataset_next(r->dataset, r->consumer, &feeds, &n)) &&
           feeds)
        check_batch(r, feeds, n);
    fl_err_save(&r->err, st);
}

typedef struct outcome {
    fl_err err[MAX_CONSUMERS];
    size_t n_rows;
    int n_short;
} outcome;

/* A pass with several consumers; each key at most `most` times. */
static inline void run_pass(fl_dataset *d, int n_consumers, size_t batch_size,
                            unsigned most, outcome *out)
{
    static atomic_uint seen[N_KEYS];
    atomic_int n_short = 0;
    atomic_size_t n_rows = 0;
    fl_thread *threads[MAX_CONSUMERS];
    reading r[MAX_CONSUMERS];

    for (size_t i = 0; i < N_KEYS; i++)
        atomic_store(&seen[i], 0);
    fl_dataset_set_batch_size(d, batch_size);
    assert_ok(fl_dataset_begin(d, n_consumers));
    for (int i = 0; i < n_consumers; i++) {
        r[i] = (reading){ .dataset = d,
                          .consumer = i,
                          .batch_size = batch_size,
                          .seen = seen,
                          .n_short = &n_short,
                          .n_rows = &n_rows };
        assert_ok(fl_thread_start(&threads[i], "reader", read_all, &r[i]));
    }
    for (int i = 0; i < n_consumers; i++) {
        fl_thread_join(threads[i]);
        assert_false(r[i].wrong);
        out->err[i] = r[i].err;
    }
    fl_dataset_end(d);
    out->n_rows = atomic_load(&n_rows);
    out->n_short = atomic_load(&n_short);
    for (size_t i = 0; i < N_KEYS; i++)
        assert_true(atomic_load(&seen[i]) <= most);
}

static inline void check_full_pass(fl_dataset *d, int n_consumers,
                                   size_t batch_size)
{
    outcome o;

    run_pass(d, n_consumers, batch_size, 1, &o);
    for (int i = 0; i < n_consumers; i++)
        assert_int_equal(o.err[i].status, FL_OK);
    assert_int_equal(o.n_rows, N_KEYS);
    assert_int_equal(o.n_short, N_KEYS % batch_size != 0);
}

#endif
