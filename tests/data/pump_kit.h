/* pump_kit.h - what the tests of the pump share: a format with a number per
 * line, files of numbers, and a sink that counts what comes. */
#ifndef FL_TESTS_DATA_PUMP_KIT_H
#define FL_TESTS_DATA_PUMP_KIT_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <dirent.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/file.h"
#include "base/hash.h"
#include "base/log.h"
#include "base/thread.h"
#include "data/dataset/pump.h"

#define FILE_MAX (1 << 26)
#define IDS_MAX 200000
#define DEADLINE_NS UINT64_C(60000000000)

#define assert_ok(expr)                                                        \
    do {                                                                       \
        if (expr)                                                              \
            fail_msg("%s", fl_last_error());                                   \
    } while (0)

/* --- a format: a number per line ------------------------------------------ */

/* Its header is "#N": N is added to the numbers of the file. */
static inline fl_status read_base(const fl_parser *p, const fl_line *l,
                                  void **head)
{
    uint64_t *base;

    (void)p;
    if (l->at == l->end || *l->at != '#')
        return FL_OK;
    if (l->end - l->at < 2)
        FL_FAIL(FL_ERR_CORRUPT, "no number behind the #");
    base = fl_alloc(sizeof(*base));
    *base = strtoull(l->at + 1, NULL, 10);
    *head = base;
    return FL_OK;
}

static inline bool read_number(const fl_parser *p, const fl_line *l,
                               fl_row_writer *w, fl_bad *bad, fl_status *st)
{
    char *end;
    uint64_t id = strtoull(l->at, &end, 10);

    (void)p;
    if (l->at == l->end || end != l->end) {
        bad->slot = 0;
        snprintf(bad->reason, sizeof(bad->reason), "no number");
        return false;
    }
    if (l->head)
        id += *(const uint64_t *)l->head;
    *st = fl_row_open(w, 1);
    if (*st)
        return false;
    fl_row_slot(w, &w->schema->slots[0], 0, 1);
    fl_row_id(w, id);
    fl_row_close(w);
    return true;
}

/* Gives what a line is told about itself. */
static inline bool read_place(const fl_parser *p, const fl_line *l,
                              fl_row_writer *w, fl_bad *bad, fl_status *st)
{
    (void)p;
    (void)bad;
    *st = fl_row_open(w, 1);
    if (*st)
        return false;
    fl_row_slot(w, &w->schema->slots[0], 0, 1);
    fl_row_id(w, l->file ^ fl_mix64(l->number) ^ l->epoch);
    fl_row_close(w);
    return true;
}

static const fl_format numbers = { .name = "numbers", .line = read_number };
static const fl_format with_base = { .name = "with_base",
                                     .line = read_number,
                                     .head = read_base };
static const fl_format places = { .name = "places", .line = read_place };
static const fl_format drawing = { .name = "drawing",
                                   .line = read_number,
                                   .draws = true };

/* --- files ---------------------------------------------------------------- */

static char folder[] = "/tmp/flotilla_pump_XXXXXX";
static char quarantine[64], cache[64];
static fl_parser parser;
static fl_paths paths;

static inline int make_folder(void **state)
{
    static const fl_slot slot = { .name = "n", .width = 1 };

    (void)state;
    if (!mkdtemp(folder) || fl_schema_init(&parser.schema, &slot, 1))
        return -1;
    parser.spec = "numbers";
    snprintf(quarantine, sizeof(quarantine), "%s/quarantine", folder);
    snprintf(cache, sizeof(cache), "%s/cache", folder);
    fl_log_set_level(FL_LOG_ERROR);
    return 0;
}

static inline void empty_folder(const char *path)
{
    DIR *d = opendir(path);
    struct dirent *e;

    while (d && (e = readdir(d))) {
        char at[512];

        snprintf(at, sizeof(at), "%s/%s", path, e->d_name);
        if (e->d_name[0] != '.')
            unlink(at);
    }
    if (d)
        closedir(d);
}

static inline int remove_folder(void **state)
{
    (void)state;
    fl_schema_release(&parser.schema);
    return rmdir(folder);
}

static inline int remove_files(void **state)
{
    (void)state;
    empty_folder(cache);
    rmdir(cache);
    empty_folder(folder);
    fl_paths_release(&paths);
    return 0;
}

static inline const char *add_path(const char *name)
{
    char path[128];

    snprintf(path, sizeof(path), "%s/%s", folder, name);
    fl_vec_push(&paths, fl_strdup(path));
    return paths.data[paths.len - 1];
}

static inline void add_file(const char *name, const char *text)
{
    assert_ok(fl_file_write(add_path(name), text, strlen(text)));
}

/* The numbers [lo, hi), one per line, behind some first text. */
static inline void add_numbers(const char *name, const char *first, uint64_t lo,
                               uint64_t hi)
{
    fl_str s = { 0 };

    fl_str_add(&s, first);
    for (uint64_t i = lo; i < hi; i++)
        fl_str_addf(&s, "%" PRIu64 "\n", i);
    add_file(name, fl_str_text(&s));
    fl_str_release(&s);
}

static inline const char *add_fifo(const char *name)
{
    const char *path = add_path(name);

    assert_int_equal(mkfifo(path, 0600), 0);
    return path;
}

/* --- a pass --------------------------------------------------------------- */

typedef struct sink {
    fl_mutex mu;
    uint32_t *seen;     /* how often each id came */
    uint64_t *in_order; /* the ids as they came */
    size_t n, calls;
    size_t fail_at;    /* this call fails; 0: none */
    fl_status fail_as; /* with this */
    int worker_max;
} sink;

static inline void sink_init(sink *s)
{
    *s = (sink){ 0 };
    fl_mutex_init(&s->mu);
    s->seen = fl_alloc(IDS_MAX * sizeof(*s->seen));
    s->in_order = fl_alloc(IDS_MAX * sizeof(*s->in_order));
}

static inline void sink_release(sink *s)
{
    fl_free(s->seen);
    fl_free(s->in_order);
    fl_mutex_release(&s->mu);
}

static inline fl_status take(void *arg, int worker, fl_row_run from,
                             fl_records *rows)
{
    sink *s = arg;
    bool fails;

    assert_int_equal(from.n, rows->n);
    fl_lock(&s->mu);
    fails = ++s->calls == s->fail_at;
    if (worker > s->worker_max)
        s->worker_max = worker;
    for (size_t i = 0; i < rows->n; i++) {
        uint64_t id;

        memcpy(&id, fl_records_at(rows, i), sizeof(id));
        if (id < IDS_MAX)
            s->seen[id]++;
        if (s->n < IDS_MAX)
            s->in_order[s->n] = id;
        s->n++;
    }
    fl_unlock(&s->mu);
    if (fails)
        FL_FAIL(s->fail_as, "the sink is full");
    return FL_OK;
}

static inline fl_pump_args args_of(sink *s, const fl_format *format,
                                   int n_threads)
{
    parser.format = format;
    parser.draws = format->draws;
    return (fl_pump_args){ .paths = &paths,
                           .parser = &parser,
                           .source = { .block_bytes = 4096, .line_max = 1000 },
                           .limits = { .quarantine = quarantine,
                                       .max_lines = 1000,
                                       .max_share = 1 },
                           .n_threads = n_threads,
                           .take = take,
                           .arg = s };
}

static inline fl_status run(const fl_pump_args *a, fl_pump_stats *stats)
{
    fl_pump *p = NULL;

    FL_TRY(fl_pump_start(&p, a));
    return fl_pump_join(p, stats);
}

static inline void expect_each_once(const sink *s, uint64_t n)
{
    assert_int_equal(s->n, n);
    for (uint64_t i = 0; i < n; i++)
        if (s->seen[i] != 1)
            fail_msg("id %" PRIu64 " came %u times", i, s->seen[i]);
}

static inline void expect_said(const char *text)
{
    if (!strstr(fl_last_error(), text))
        fail_msg("'%s' does not say '%s'", fl_last_error(), text);
}

static inline void nap(void)
{
    usleep(1000);
}

static inline uint64_t files_read(fl_pump *p)
{
    fl_pump_stats stats = fl_pump_progress(p);

    return fl_stat_get(&stats.files);
}

static inline void wait_for_files(fl_pump *p, uint64_t n)
{
    uint64_t end = fl_now_ns() + DEADLINE_NS;

    while (files_read(p) < n) {
        if (fl_now_ns() > end)
            fail_msg("only %" PRIu64 " files were read in a minute",
                     files_read(p));
        nap();
    }
}

static inline void wait_for_calls(sink *s, size_t n)
{
    uint64_t end = fl_now_ns() + DEADLINE_NS;
    size_t calls;

    do {
        nap();
        fl_lock(&s->mu);
        calls = s->calls;
        fl_unlock(&s->mu);
    } while (calls < n && fl_now_ns() < end);
    assert_true(calls >= n);
}

/* Without a reader a FIFO cannot be opened; the pump will come. */
static inline void write_fifo(const char *path, const char *text)
{
    uint64_t end = fl_now_ns() + DEADLINE_NS;
    int fd;

    while ((fd = open(path, O_WRONLY | O_NONBLOCK)) < 0 && fl_now_ns() < end)
        nap();
    assert_true(fd >= 0);
    assert_int_equal(write(fd, text, strlen(text)), (ssize_t)strlen(text));
    close(fd);
}

#endif
