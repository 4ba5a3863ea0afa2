/* data_stats.c - statistics of columns as a file of JSON. */
#include "data_stats.h"

#include <inttypes.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "sink.h"

#define N_POINTS 1001 /* quantiles */
#define PIECE_BYTES 256

double data_deviation(const slot_count *s)
{
    return s->values ? sqrt(s->squares / (double)s->values) : 0;
}

/* A failure is kept in the sink and told at its end. */
__attribute__((format(printf, 2, 3))) static void put(sink *to, const char *fmt,
                                                      ...)
{
    char piece[PIECE_BYTES];
    va_list ap;
    int n;

    va_start(ap, fmt);
    n = vsnprintf(piece, sizeof(piece), fmt, ap);
    va_end(ap);
    (void)sink_write(to, piece, (size_t)n);
}

static void put_name(sink *to, const char *name)
{
    put(to, "\"");
    for (; *name; name++)
        if (*name == '"' || *name == '\\' || (unsigned char)*name < ' ')
            put(to, "\\u%04x", (unsigned char)*name);
        else
            (void)sink_write(to, name, 1);
    put(to, "\"");
}

static bool put_floats(sink *to, const slot_count *s)
{
    double *at = malloc(N_POINTS * sizeof(*at));

    if (!at || !sketch_quantiles(s->floats, at, N_POINTS)) {
        free(at);
        return false;
    }
    at[0] = (double)s->least;
    at[N_POINTS - 1] = (double)s->largest;
    put(to,
        ", \"least\": %.9g, \"most\": %.9g, \"mean\": %.17g, "
        "\"deviation\": %.17g,\n     \"quantiles\": [",
        (double)s->least, (double)s->largest, s->sum / (double)s->values,
        data_deviation(s));
    for (size_t i = 0; i < N_POINTS; i++)
        put(to, i ? ",%.9g" : "%.9g", at[i]);
    put(to, "]");
    free(at);
    return true;
}

static bool put_column(sink *to, const char *name, const slot_count *s)
{
    bool done = true;

    put_name(to, name);
    put(to, ": {\"kind\": \"%s\", \"values\": %" PRIu64,
        s->ids ? "id" : "float", s->values);
    if (!s->ids)
        put(to, ", \"missing\": %" PRIu64, s->missing);
    put(to, ", \"zeros\": %" PRIu64, s->zeros);
    if (s->ids)
        put(to, ", \"distinct\": %.0f", distinct_estimate(s->ids));
    else if (s->values)
        done = put_floats(to, s);
    put(to, "}");
    return done;
}

int data_write_stats(const data_args *a, const data_input *in,
                     const slot_count *slots, uint64_t records)
{
    bool done = true;
    sink to;

    if (!sink_open(&to, a->stats, "--stats"))
        return sink_failed(&to, a->self);
    put(&to, "{\"version\": 1, \"records\": %" PRIu64 ", \"columns\": {",
        records);
    for (size_t i = 0; done && i < in->n_slots; i++) {
        put(&to, i ? ",\n  " : "\n  ");
        done = put_column(&to, in->slots[i].name, &slots[i]);
    }
    put(&to, "}}\n");
    if (!done) {
        sink_abandon(&to);
        return cmd_failed(a->self, "no memory for the quantiles");
    }
    return sink_close(&to) ? CMD_OK : sink_failed(&to, a->self);
}
