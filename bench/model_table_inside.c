/* model_table_inside.c - a table of many rows of 10 floats with adam:
 * saved and loaded, against writing and reading the same bytes.
 *
 * Both sides make new files each time and sync them; files are removed and
 * tables freed outside of the clock. BENCH_MODEL_DIR is a folder on a disk. */
#include <fcntl.h>
#include <ftw.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/hash.h"
#include "base/log.h"
#include "base/thread.h"
#include "ckpt/table_file.h"
#include "harness.h"
#include "model_parts.h"
#include "table/table.h"

#define DIM 10
#define CHANGED (MODEL_ROWS / 1000)
#define BATCH 10000
#define PAIRS 9
#define CHUNK ((size_t)1 << 20)
#define PATH_BYTES 4096
#define LAST (FL_TABLE_SHARDS - 1)

static const char settings[] = "dim=10 optimizer=adam init=uniform(-0.01,0.01)";

typedef struct model {
    fl_table *t;
    uint64_t n_rows;
    char dir[PATH_BYTES];   /* where versions go, in memory or on disk */
    char plain[PATH_BYTES]; /* the other side's file */
    char *bytes;            /* what the files of a version have */
    size_t n_bytes;
    fl_model_version *saved; /* what is loaded */
    uint32_t epoch;          /* of the last cut */
    char id[FL_VERSION_ID_MAX];
    uint64_t round;
    fl_table *old; /* what a load and a read have replaced */
    char *old_bytes;
} model;

/* --- rows ----------------------------------------------------------------- */

static fl_table *new_table(void)
{
    fl_table_config config;
    fl_table *t;

    bench_check(fl_table_config_parse(&config, "emb", settings, 1), "settings");
    bench_check(fl_table_create(&t, &config), "making a table");
    return t;
}

static void push(fl_table *t, uint64_t lo, size_t n, uint64_t n_rows)
{
    static uint64_t keys[BATCH];
    static float grads[BATCH * DIM];

    for (size_t i = 0; i < n; i++)
        keys[i] = fl_mix64((lo + i) % n_rows);
    for (size_t i = 0; i < n * DIM; i++)
        grads[i] = (float)(i % 7);
    bench_check(fl_table_push(t, &(fl_rows){ .keys = keys,
                                             .values = grads,
                                             .n = n,
                                             .lr = 0.001,
                                             .merged = true }),
                "pushing");
}

static void fill(model *m)
{
    m->t = new_table();
    for (uint64_t lo = 0; lo < m->n_rows; lo += BATCH) {
        uint64_t n = m->n_rows - lo < BATCH ? m->n_rows - lo : BATCH;

        push(m->t, lo, (size_t)n, m->n_rows);
    }
}

/* --- folders -------------------------------------------------------------- */

static int remove_one(const char *path, const struct stat *is, int type,
                      struct FTW *walk)
{
    (void)is;
    (void)type;
    (void)walk;
    return remove(path);
}

static void remove_all(const char *path)
{
    nftw(path, remove_one, 16, FTW_DEPTH | FTW_PHYS);
}

static void set_folder(model *m, const char *where)
{
    snprintf(m->dir, sizeof m->dir, "%s/fl_bench_model_%d", where,
             (int)getpid());
    snprintf(m->plain, sizeof m->plain, "%.4000s.plain", m->dir);
}

/* --- saving --------------------------------------------------------------- */

/* A version of the rows since an epoch (0: all). */
static void save(model *m, uint32_t since)
{
    fl_model_version *v = NULL;
    fl_table_cut *c = NULL;
    fl_manifest manifest;

    fl_manifest_init(&manifest, since ? FL_MANIFEST_DELTA : FL_MANIFEST_FULL);
    bench_check(fl_version_begin(&v, m->dir, &(fl_version_options){ 0 }),
                "beginning a version");
    bench_check(
        fl_table_cut_begin(&c, m->t,
                           &(fl_cut_options){ .since = since, .watch = true }),
        "cutting");
    m->epoch = fl_table_cut_moment(c)->epoch;
    manifest.base = since ? fl_manifest_text(&manifest, m->id) : NULL;
    bench_check(fl_table_file_write(
                    v, &manifest,
                    &(fl_table_save_options){
                        .cut = c, .last = LAST, .n_threads = fl_cpu_count() }),
                "writing");
    bench_check(fl_version_commit(v, &manifest), "committing");
    snprintf(m->id, sizeof m->id, "%s", v->id);
    fl_table_cut_end(c);
    fl_version_close(v);
    fl_manifest_release(&manifest);
}

static double save_all(void *arg)
{
    save(arg, 0);
    return 0;
}

static double save_delta(void *arg)
{
    model *m = arg;

    save(m, m->epoch);
    return 0;
}

static void check_io(bool ok, const char *what)
{
    if (!ok) {
        perror(what);
        exit(1);
    }
}

static double write_plain(void *arg)
{
    const model *m = arg;
    int fd = open(m->plain, O_WRONLY | O_CREAT | O_EXCL, 0666);

    check_io(fd >= 0, m->plain);
    for (size_t at = 0; at < m->n_bytes; at += CHUNK) {
        size_t n = m->n_bytes - at < CHUNK ? m->n_bytes - at : CHUNK;

        check_io(write(fd, m->bytes + at, n) == (ssize_t)n, "write");
    }
    check_io(fsync(fd) == 0, "fsync");
    close(fd);
    return 0;
}

/* --- loading -------------------------------------------------------------- */

static double load_table(void *arg)
{
    model *m = arg;
    fl_table *t = new_table();

    bench_check(
        fl_table_file_load(t, m->saved, "emb",
                           &(fl_table_load_options){
                               .last = LAST, .n_threads = fl_cpu_count() }),
        "loading");
    m->old = m->t;
    m->t = t;
    return 0;
}

/* Reads the files of a version into one block of fresh memory. */
static char *read_files(const fl_model_version *v, size_t *n_bytes)
{
    size_t at = 0, all = 0;
    char *bytes;

    for (size_t i = 0; i < v->manifest.files.len; i++)
        all += v->manifest.files.data[i].bytes;
    bytes = malloc(all + 1);
    check_io(bytes, "memory");
    for (size_t i = 0; i < v->manifest.files.len; i++) {
        char *path = fl_version_file(v, v->manifest.files.data[i].name);
        int fd = open(path, O_RDONLY);
        ssize_t n;

        check_io(fd >= 0, path);
        while ((n = read(fd, bytes + at, CHUNK)) > 0)
            at += (size_t)n;
        close(fd);
        fl_free(path);
    }
    *n_bytes = at;
    return bytes;
}

static double read_plain(void *arg)
{
    model *m = arg;

    m->old_bytes = m->bytes;
    m->bytes = read_files(m->saved, &m->n_bytes);
    return 0;
}

static void free_old(model *m)
{
    fl_table_destroy(m->old);
    free(m->old_bytes);
    m->old = NULL;
    m->old_bytes = NULL;
}

/* --- pairs ---------------------------------------------------------------- */

typedef struct pair {
    const char *name;
    bench_side ours, theirs;
    void (*prepare)(model *m);
} pair;

/* Theirs against ours by the clock, who begins changing from pair to pair. */
static void measure(model *m, const pair *p)
{
    size_t n = bench_repeats(PAIRS);
    double *wall = bench_alloc(n * sizeof *wall);
    double *cpu = bench_alloc(n * sizeof *cpu);
    double *seconds = bench_alloc(n * sizeof *seconds);
    char name[64];

    for (size_t i = 0; i < n; i++) {
        bench_sample s[2];

        for (size_t k = 0; k < 2; k++) {
            size_t side = (i + k) % 2;

            if (p->prepare)
                p->prepare(m);
            s[side] = bench_run(side ? &p->theirs : &p->ours);
        }
        wall[i] = s[1].seconds / s[0].seconds;
        cpu[i] = s[1].cpu_seconds / s[0].cpu_seconds;
        seconds[i] = s[0].seconds;
    }
    bench_figure("model", p->name, wall, n, "ratio");
    snprintf(name, sizeof name, "%s.cpu", p->name);
    bench_figure("model", name, cpu, n, "ratio");
    snprintf(name, sizeof name, "%s.seconds", p->name);
    bench_figure("model", name, seconds, n, "s");
    free(wall);
    free(cpu);
    free(seconds);
}

static void remove_files(model *m)
{
    remove_all(m->dir);
    unlink(m->plain);
}

static void change_some(model *m)
{
    push(m->t, ++m->round * CHANGED, CHANGED, m->n_rows);
}

/* --- all ------------------------------------------------------------------ */

static void measure_saves(model *m)
{
    const char *disk = getenv("BENCH_MODEL_DIR");
    pair p = {
        "save.of_write", { save_all, m }, { write_plain, m }, remove_files
    };

    measure(m, &p);
    remove_files(m);
    set_folder(m, disk ? disk : ".");
    p.name = "save.of_dd";
    measure(m, &p);
    remove_files(m);
}

/* A share of the time of a whole save, so ours stands where theirs does. */
static void measure_delta(model *m)
{
    pair p = {
        "delta.of_full", { save_all, m }, { save_delta, m }, change_some
    };

    set_folder(m, "/dev/shm");
    save(m, 0);
    measure(m, &p);
    remove_files(m);
}

static void measure_load(model *m)
{
    pair p = {
        "load.of_bound", { load_table, m }, { read_plain, m }, free_old
    };

    measure(m, &p);
    free_old(m);
}

void bench_model_table(void)
{
    model m = { .n_rows = bench_model_rows() };

    fl_log_set_level(FL_LOG_WARN);
    fill(&m);
    set_folder(&m, "/dev/shm");
    save(&m, 0);
    bench_check(fl_version_open(&m.saved, m.dir), "opening");
    m.bytes = read_files(m.saved, &m.n_bytes);
    if (bench_model_wants("load"))
        measure_load(&m);
    fl_version_close(m.saved);
    remove_files(&m);
    if (bench_model_wants("save"))
        measure_saves(&m);
    if (bench_model_wants("delta"))
        measure_delta(&m);
    free(m.bytes);
    fl_table_destroy(m.t);
}
