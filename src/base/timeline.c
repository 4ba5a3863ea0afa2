/* timeline.c - what the threads of this process did when.
 *
 * Events are kept under one lock: they are few beside what they tell of, and
 * beyond EVENTS_MAX they are only counted. A child that was forked writes
 * nothing, as what it has is its parent's.
 */
#include "base/timeline.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/file.h"
#include "base/json.h"
#include "base/log.h"
#include "base/vec.h"

#define TEXT_MAX 48
#define HOST_MAX 256
/* About 120 MB; a run long enough to pass it has shown what it has to show. */
#define EVENTS_MAX (1u << 20)

typedef struct event {
    char kind[8], name[TEXT_MAX], what[TEXT_MAX];
    int32_t thread;
    uint64_t since_ns, until_ns;
} event;

typedef struct thread_row {
    int32_t id;
    char name[16];
} thread_row;

typedef struct timeline {
    fl_mutex mu;
    /* All guarded by mu. */
    char *folder;
    char role[TEXT_MAX], job[64];
    int number;
    pid_t process;
    uint64_t began_ns, error_ns, n_dropped;
    int64_t ahead_ns;
    FL_VEC(event) events;
    FL_VEC(thread_row) threads;
} timeline;

atomic_bool fl_timeline_on;
static timeline own = { .mu = PTHREAD_MUTEX_INITIALIZER, .role = "process" };
static _Thread_local int32_t thread_id; /* 0: it has no row yet */

/* --- what happens --------------------------------------------------------- */

/* Under mu. The first thread has the name of the program. */
static int32_t own_thread(timeline *t)
{
    thread_row row = { .id = (int32_t)gettid() };

    if (thread_id)
        return thread_id;
    if (row.id == (int32_t)getpid())
        (void)snprintf(row.name, sizeof(row.name), "main");
    else if (pthread_getname_np(pthread_self(), row.name, sizeof(row.name)))
        (void)snprintf(row.name, sizeof(row.name), "?");
    fl_vec_push(&t->threads, row);
    thread_id = row.id;
    return thread_id;
}

static void set_text(char *out, size_t cap, const char *text)
{
    (void)snprintf(out, cap, "%s", text ? text : "");
}

void fl_timeline_add(const char *kind, const char *name, const char *what,
                     uint64_t since)
{
    event e = { .since_ns = since, .until_ns = fl_now_ns() };

    if (!since)
        return;
    set_text(e.kind, sizeof(e.kind), kind);
    set_text(e.name, sizeof(e.name), name);
    set_text(e.what, sizeof(e.what), what);
    fl_lock(&own.mu);
    e.thread = own_thread(&own);
    if (own.events.len < EVENTS_MAX)
        fl_vec_push(&own.events, e);
    else
        own.n_dropped++;
    fl_unlock(&own.mu);
}

void fl_timeline_name(const char *role, int number, const char *job)
{
    fl_lock(&own.mu);
    set_text(own.role, sizeof(own.role), role);
    set_text(own.job, sizeof(own.job), job);
    own.number = number;
    fl_unlock(&own.mu);
}

void fl_timeline_set_clock(int64_t ahead_ns, uint64_t error_ns)
{
    fl_lock(&own.mu);
    own.ahead_ns = ahead_ns;
    own.error_ns = error_ns;
    fl_unlock(&own.mu);
}

/* --- the file ------------------------------------------------------------- */

static char *head_text(const timeline *t)
{
    char host[HOST_MAX] = "";
    fl_json j = { 0 };

    (void)gethostname(host, sizeof(host) - 1);
    fl_json_object(&j, NULL);
    fl_json_text(&j, "format", "flotilla-trace-1");
    fl_json_text(&j, "job", t->job);
    fl_json_text(&j, "role", t->role);
    fl_json_i64(&j, "number", t->number);
    fl_json_text(&j, "host", host);
    fl_json_u64(&j, "process", (uint64_t)t->process);
    /* In nanoseconds, a hundred days are more than a JSON number holds. */
    fl_json_u64(&j, "began_us", t->began_ns / 1000);
    fl_json_i64(&j, "ahead_ns", t->ahead_ns);
    fl_json_u64(&j, "error_ns", t->error_ns);
    fl_json_u64(&j, "events", t->events.len);
    fl_json_u64(&j, "events_not_kept", t->n_dropped);
    fl_json_end(&j);
    return fl_json_take(&j);
}

/* Every event has a line of its own, and begins with its time and process: so
   lines of several files are put together without reading all of them. */
static void add_meta(fl_str *out, const timeline *t, const char *name,
                     int32_t thread, const char *value)
{
    fl_json j = { 0 };
    char *args;

    fl_json_object(&j, NULL);
    fl_json_text(&j, "name", value);
    fl_json_end(&j);
    args = fl_json_take(&j);
    fl_str_addf(out,
                "{\"ts\":0.000,\"pid\":%d,\"ph\":\"M\",\"tid\":%" PRId32
                ",\"name\":\"%s\",\"args\":%s}",
                (int)t->process, thread, name, args);
    fl_free(args);
}

static void add_names(fl_str *out, const timeline *t)
{
    char name[TEXT_MAX + 16];

    (void)snprintf(name, sizeof(name), "%s %d", t->role, t->number);
    add_meta(out, t, "process_name", (int32_t)t->process, name);
    for (size_t i = 0; i < t->threads.len; i++) {
        fl_str_add(out, ",\n");
        add_meta(out, t, "thread_name", t->threads.data[i].id,
                 t->threads.data[i].name);
    }
}

static void add_ns(fl_str *out, uint64_t ns)
{
    fl_str_addf(out, "%" PRIu64 ".%03" PRIu64, ns / 1000, ns % 1000);
}

static void add_text(fl_str *out, const char *key, const char *text)
{
    fl_json j = { 0 };
    char *value;

    fl_json_text(&j, NULL, text);
    value = fl_json_take(&j);
    fl_str_addf(out, "\"%s\":%s", key, value);
    fl_free(value);
}

static void add_event(fl_str *out, const timeline *t, const event *e)
{
    fl_str_add(out, ",\n{\"ts\":");
    add_ns(out, e->since_ns);
    fl_str_addf(out, ",\"pid\":%d,\"ph\":\"X\",\"tid\":%" PRId32 ",\"dur\":",
                (int)t->process, e->thread);
    add_ns(out, e->until_ns - e->since_ns);
    fl_str_add(out, ",");
    add_text(out, "cat", e->kind);
    fl_str_add(out, ",");
    add_text(out, "name", e->name);
    if (*e->what) {
        fl_str_add(out, ",\"args\":{");
        add_text(out, "what", e->what);
        fl_str_add(out, "}");
    }
    fl_str_add(out, "}");
}

static void write_file(const timeline *t)
{
    fl_str out = { 0 }, path = { 0 };
    char *head = head_text(t);

    fl_str_addf(&out, "{\"flotilla\":%s,\"traceEvents\":[\n", head);
    add_names(&out, t);
    for (size_t i = 0; i < t->events.len; i++)
        add_event(&out, t, &t->events.data[i]);
    fl_str_add(&out, "\n]}\n");
    fl_str_addf(&path, "%s/%s-%d.%d.trace.json", t->folder, t->role, t->number,
                (int)t->process);
    if ((mkdir(t->folder, 0777) && errno != EEXIST) ||
        fl_file_write(path.data, out.data, out.len))
        FL_WARN("trace", "cannot write %s: %s", path.data, strerror(errno));
    if (t->n_dropped)
        FL_WARN("trace", "%s has the first %u events; %" PRIu64 " are missing",
                path.data, EVENTS_MAX, t->n_dropped);
    fl_free(head);
    fl_str_release(&path);
    fl_str_release(&out);
}

/* In a child somebody else may have held the lock, for ever. A process that has
   done nothing, as a tool does, leaves no file. */
static void write_at_end(void)
{
    if (own.process != getpid())
        return;
    atomic_store(&fl_timeline_on, false);
    fl_lock(&own.mu);
    if (own.events.len)
        write_file(&own);
    fl_vec_release(&own.events);
    fl_vec_release(&own.threads);
    fl_free(own.folder);
    own.folder = NULL;
    fl_unlock(&own.mu);
}

void fl_timeline_start(const char *folder)
{
    bool is_first;

    fl_lock(&own.mu);
    is_first = !own.folder;
    if (is_first) {
        own.folder = fl_strdup(folder);
        own.process = getpid();
        own.began_ns = fl_now_ns();
        (void)own_thread(&own);
    }
    fl_unlock(&own.mu);
    if (is_first && !atexit(write_at_end))
        atomic_store(&fl_timeline_on, true);
}
