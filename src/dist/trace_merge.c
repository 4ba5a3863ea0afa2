/* trace_merge.c - the timelines of a job's processes in one file, on one clock
 * (docs/formats/trace.md).
 *
 * Every event is a line that begins with its time and its process. Only these two
 * are rewritten: times become those of the job's clock, and processes are counted
 * through, since machines may give the same number twice.
 */
#include <dirent.h>
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "base/vec.h"
#include "ckpt/json_in.h"
#include "flotilla/executor.h"
#include "flotilla/file.h"

#define ENDING ".trace.json"
#define FORMAT "flotilla-trace-1"
#define HEAD_END "]}"
#define EVENT "{\"ts\":"
#define PIECE_BYTES (1 << 16)

/* A process of the job. */
typedef struct part {
    char *path;
    FILE *file; /* at its first event */
    char role[48];
    uint64_t number, process, began_us;
    int64_t ahead_ns;
} part;

typedef struct merge {
    FL_VEC(part) parts;
    int64_t zero_ns; /* on the job's clock */
    fl_file_writer *out;
    fl_str piece; /* to be written */
    bool has_event;
} merge;

/* --- the parts ------------------------------------------------------------ */

/* Of either sign, as JSON has it. */
static fl_status take_i64(const cJSON *from, const char *key, const char *path,
                          int64_t *out)
{
    const cJSON *value = fl_json_in_find(from, key);

    if (!cJSON_IsNumber(value))
        FL_FAIL(FL_ERR_CORRUPT, "%s: %s is no number", path, key);
    *out = (int64_t)value->valuedouble;
    return FL_OK;
}

static fl_status take_head(part *p, const cJSON *root)
{
    const char *format, *role;
    const cJSON *head;

    FL_TRY(fl_json_in_object(root, "flotilla", p->path, &head));
    FL_TRY(fl_json_in_text(head, "format", p->path, &format));
    if (strcmp(format, FORMAT) != 0)
        FL_FAIL(FL_ERR_CORRUPT, "%s is no %s but %s", p->path, FORMAT, format);
    FL_TRY(fl_json_in_text(head, "role", p->path, &role));
    (void)snprintf(p->role, sizeof(p->role), "%s", role);
    FL_TRY(fl_json_in_u64(head, "number", p->path, &p->number));
    FL_TRY(fl_json_in_u64(head, "process", p->path, &p->process));
    FL_TRY(fl_json_in_u64(head, "began_us", p->path, &p->began_us));
    return take_i64(head, "ahead_ns", p->path, &p->ahead_ns);
}

/* The first line is the head, up to the list of events. */
static fl_status read_head(part *p)
{
    char *line = NULL;
    size_t cap = 0;
    ssize_t n = getline(&line, &cap, p->file);
    fl_str text = { 0 };
    cJSON *root = NULL;
    fl_status st;

    fl_str_add(&text, n > 0 ? line : "");
    fl_str_add(&text, HEAD_END);
    free(line);
    st = fl_json_in_parse(&root, text.data, text.len, p->path);
    if (!st)
        st = take_head(p, root);
    cJSON_Delete(root);
    fl_str_release(&text);
    return fl_err_ctx(st, "a trace that is to be merged");
}

static fl_status add_part(merge *m, const char *folder, const char *name)
{
    fl_str path = { 0 };
    part p = { 0 };

    fl_str_addf(&path, "%s/%s", folder, name);
    p.path = fl_str_take(&path);
    p.file = fopen(p.path, "re");
    fl_vec_push(&m->parts, p);
    if (!p.file)
        return fl_file_failed("open", p.path, errno);
    return read_head(&m->parts.data[m->parts.len - 1]);
}

static bool is_part(const char *name)
{
    size_t n = strlen(name);

    return n > strlen(ENDING) && !strcmp(name + n - strlen(ENDING), ENDING);
}

/* Servers first, then by number; of a process that was started again the first
   one first. */
static int by_role(const void *a, const void *b)
{
    const part *x = a, *y = b;
    int role = strcmp(x->role, y->role);

    if (role)
        return role;
    if (x->number != y->number)
        return x->number < y->number ? -1 : 1;
    return (x->began_us > y->began_us) - (x->began_us < y->began_us);
}

static fl_status find_parts(merge *m, const char *folder)
{
    DIR *dir = opendir(folder);
    const struct dirent *e;
    fl_status st = FL_OK;

    if (!dir)
        return fl_file_failed("open", folder, errno);
    while (!st && (e = readdir(dir)))
        if (is_part(e->d_name))
            st = add_part(m, folder, e->d_name);
    (void)closedir(dir);
    if (st)
        return st;
    if (!m->parts.len)
        FL_FAIL(FL_ERR_NOTFOUND,
                "%s has no file *" ENDING ": did the processes run with the "
                "setting trace, and end in order?",
                folder);
    qsort(m->parts.data, m->parts.len, sizeof(*m->parts.data), by_role);
    return FL_OK;
}

static int64_t first_ns(const merge *m)
{
    int64_t first = INT64_MAX;

    for (size_t i = 0; i < m->parts.len; i++) {
        const part *p = &m->parts.data[i];
        int64_t began = (int64_t)p->began_us * 1000 + p->ahead_ns;

        first = began < first ? began : first;
    }
    return first;
}

/* --- events --------------------------------------------------------------- */

static fl_status flush(merge *m)
{
    fl_status st = fl_file_writer_add(m->out, m->piece.data, m->piece.len);

    m->piece.len = 0;
    return st;
}

static void begin_event(merge *m, int64_t ns, size_t process)
{
    uint64_t at = ns > 0 ? (uint64_t)ns : 0;

    fl_str_addf(&m->piece, "%s" EVENT "%" PRIu64 ".%03" PRIu64 ",\"pid\":%zu",
                m->has_event ? ",\n" : "", at / 1000, at % 1000, process);
    m->has_event = true;
}

static void add_order(merge *m, size_t process)
{
    begin_event(m, 0, process);
    fl_str_addf(&m->piece,
                ",\"ph\":\"M\",\"name\":\"process_sort_index\",\"args\":{"
                "\"sort_index\":%zu}}",
                process);
}

/* "{"ts":12.345,"pid":77,..." with other numbers; what is no event is left out. */
static void add_line(merge *m, const part *p, size_t process, char *line)
{
    uint64_t us, rest;
    char *at;

    if (strncmp(line, EVENT, strlen(EVENT)) != 0)
        return;
    us = strtoull(line + strlen(EVENT), &at, 10);
    rest = *at == '.' ? strtoull(at + 1, &at, 10) : 0;
    at = *at == ',' ? strchr(at + 1, ',') : NULL;
    if (!at)
        return;
    at[strcspn(at, "\n")] = '\0';
    if (at[strlen(at) - 1] == ',')
        at[strlen(at) - 1] = '\0';
    begin_event(m,
                us ? (int64_t)(us * 1000 + rest) + p->ahead_ns - m->zero_ns : 0,
                process);
    fl_str_add(&m->piece, at);
}

static fl_status add_events(merge *m, part *p, size_t process)
{
    char *line = NULL;
    size_t cap = 0;
    fl_status st = FL_OK;

    add_order(m, process);
    while (!st && getline(&line, &cap, p->file) > 0) {
        add_line(m, p, process, line);
        if (m->piece.len >= PIECE_BYTES)
            st = flush(m);
    }
    free(line);
    return st;
}

static fl_status write_all(merge *m)
{
    fl_str_add(&m->piece, "{\"traceEvents\":[\n");
    for (size_t i = 0; i < m->parts.len; i++)
        FL_TRY(add_events(m, &m->parts.data[i], i + 1));
    fl_str_add(&m->piece, "\n]}\n");
    return flush(m);
}

static fl_status merge_to(merge *m, const char *path)
{
    fl_status st;
    fl_err why;

    FL_TRY(fl_file_writer_open(&m->out, path));
    m->zero_ns = first_ns(m);
    st = write_all(m);
    if (!st)
        return fl_file_writer_commit(m->out);
    fl_err_save(&why, st);
    fl_file_writer_drop(m->out);
    return fl_err_restore(&why);
}

fl_status fl_trace_merge(const char *folder, const char *path,
                         size_t *n_processes)
{
    merge m = { 0 };
    fl_status st = find_parts(&m, folder);

    if (!st)
        st = merge_to(&m, path);
    if (!st && n_processes)
        *n_processes = m.parts.len;
    for (size_t i = 0; i < m.parts.len; i++) {
        if (m.parts.data[i].file)
            (void)fclose(m.parts.data[i].file);
        fl_free(m.parts.data[i].path);
    }
    fl_vec_release(&m.parts);
    fl_str_release(&m.piece);
    return st;
}
