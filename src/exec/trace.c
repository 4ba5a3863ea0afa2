/* trace.c - profiles and timelines from events. */
#include "exec/trace.h"

#include <inttypes.h>

#include "base/json.h"

/* About 120 MB; a run long enough to pass it has shown what it has to show. */
#define EVENTS_MAX (1u << 20)

typedef struct total {
    const char *name;
    uint64_t calls, ns;
} total;

void fl_trace_init(fl_trace *t)
{
    memset(t, 0, sizeof(*t));
    fl_mutex_init(&t->mu);
}

void fl_trace_release(fl_trace *t)
{
    fl_vec_release(&t->events);
    fl_mutex_release(&t->mu);
}

void fl_trace_clear(fl_trace *t)
{
    fl_lock(&t->mu);
    t->events.len = 0;
    t->dropped = 0;
    fl_unlock(&t->mu);
}

void fl_trace_add(fl_trace *t, const fl_trace_event *e)
{
    fl_lock(&t->mu);
    if (t->events.len < EVENTS_MAX)
        fl_vec_push(&t->events, *e);
    else
        t->dropped++;
    fl_unlock(&t->mu);
}

static int by_time(const void *a, const void *b)
{
    uint64_t x = ((const total *)a)->ns, y = ((const total *)b)->ns;

    return (x < y) - (x > y);
}

static total *find_total(total *totals, size_t *n, const char *name)
{
    for (size_t i = 0; i < *n; i++)
        if (!strcmp(totals[i].name, name))
            return &totals[i];
    totals[*n] = (total){ .name = name };
    return &totals[(*n)++];
}

/* What a profile is made of: operators, the longest first. */
typedef struct profile {
    total *totals;
    size_t n;
    uint64_t ns;
} profile;

static profile add_up(const fl_trace *t)
{
    profile p = { .totals = fl_alloc(sizeof(total) * (t->events.len + 1)) };

    for (size_t i = 0; i < t->events.len; i++) {
        const fl_trace_event *e = &t->events.data[i];
        total *to = find_total(p.totals, &p.n, e->name);

        to->calls++;
        to->ns += e->end_ns - e->start_ns;
        p.ns += e->end_ns - e->start_ns;
    }
    qsort(p.totals, p.n, sizeof(*p.totals), by_time);
    return p;
}

char *fl_trace_profile(fl_trace *t)
{
    profile p = add_up(t);
    fl_str out = { 0 };

    fl_str_addf(&out, "%-36s %10s %12s %10s %7s\n", "operator", "calls",
                "total ms", "mean us", "share");
    for (size_t i = 0; i < p.n; i++)
        fl_str_addf(&out, "%-36s %10" PRIu64 " %12.3f %10.1f %6.1f%%\n",
                    p.totals[i].name, p.totals[i].calls,
                    (double)p.totals[i].ns / 1e6,
                    (double)p.totals[i].ns / 1e3 / (double)p.totals[i].calls,
                    p.ns ? 100.0 * (double)p.totals[i].ns / (double)p.ns : 0);
    if (t->dropped)
        fl_str_addf(&out, "(%" PRIu64 " later calls were not recorded)\n",
                    t->dropped);
    fl_free(p.totals);
    return fl_str_take(&out);
}

char *fl_trace_profile_json(fl_trace *t)
{
    profile p = add_up(t);
    fl_json j = { 0 };

    fl_json_object(&j, NULL);
    fl_json_f64(&j, "total_seconds", 1e-9 * (double)p.ns);
    fl_json_u64(&j, "calls_not_recorded", t->dropped);
    fl_json_array(&j, "operators");
    for (size_t i = 0; i < p.n; i++) {
        fl_json_object(&j, NULL);
        fl_json_text(&j, "name", p.totals[i].name);
        fl_json_u64(&j, "calls", p.totals[i].calls);
        fl_json_f64(&j, "total_seconds", 1e-9 * (double)p.totals[i].ns);
        fl_json_end(&j);
    }
    fl_json_end(&j);
    fl_json_end(&j);
    fl_free(p.totals);
    return fl_json_take(&j);
}

char *fl_trace_json(fl_trace *t)
{
    uint64_t zero = UINT64_MAX;
    fl_str out = { 0 };

    for (size_t i = 0; i < t->events.len; i++)
        if (t->events.data[i].start_ns < zero)
            zero = t->events.data[i].start_ns;
    fl_str_add(&out, "{\"traceEvents\":[");
    for (size_t i = 0; i < t->events.len; i++) {
        const fl_trace_event *e = &t->events.data[i];

        fl_str_addf(&out,
                    "%s\n{\"name\":\"%s\",\"cat\":\"op\",\"ph\":\"X\",\"pid\":"
                    "1,\"tid\":%d,\"ts\":%.3f,\"dur\":%.3f,\"args\":{\"out\":"
                    "\"%s\"}}",
                    i ? "," : "", e->name, e->thread,
                    (double)(e->start_ns - zero) / 1e3,
                    (double)(e->end_ns - e->start_ns) / 1e3, e->what);
    }
    fl_str_add(&out, "\n]}\n");
    return fl_str_take(&out);
}
