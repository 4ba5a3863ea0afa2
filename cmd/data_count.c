/* data_count.c - flotilla data count: what is in the files, slot by slot. */
#include "data_stats.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

typedef struct counting {
    const data_args *args;
    const data_input *in;
    slot_count *slots; /* n_slots for each thread, which touches its own */
} counting;

static slot_count *of_worker(const counting *c, size_t worker)
{
    return c->slots + worker * c->in->n_slots;
}

static void count_ids(slot_count *s, const uint64_t *ids, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        s->zeros += ids[i] == 0;
        distinct_add(s->ids, ids[i]);
    }
    s->values += n;
}

/* What is there; false without memory. */
static bool count_float(slot_count *s, float x)
{
    double before = s->mean;

    if (!s->values || x < s->least)
        s->least = x;
    if (!s->values || x > s->largest)
        s->largest = x;
    s->zeros += x == 0;
    s->values++;
    s->sum += (double)x;
    s->mean += ((double)x - before) / (double)s->values;
    s->squares += ((double)x - before) * ((double)x - s->mean);
    return !s->floats || sketch_add(s->floats, x);
}

static bool count_floats(slot_count *s, const float *x, size_t n)
{
    bool done = true;

    for (size_t i = 0; i < n; i++)
        if (isnan(x[i]))
            s->missing++;
        else
            done &= count_float(s, x[i]);
    return done;
}

static bool count_record(slot_count *s, const fl_feed *feed, size_t row)
{
    size_t n;
    const void *values = data_values(feed, row, &n);
    bool done = true;

    if (!s->records || n < s->fewest)
        s->fewest = n;
    if (n > s->most)
        s->most = n;
    s->records++;
    if (s->ids)
        count_ids(s, values, n);
    else
        done = count_floats(s, values, n);
    return done;
}

static data_verdict count_batch(void *arg, int worker, const fl_feed *feeds,
                                size_t n_rows, char why[DATA_WHY_BYTES])
{
    counting *c = arg;
    slot_count *slots = of_worker(c, (size_t)worker);

    for (size_t s = 0; s < c->in->n_slots; s++)
        for (size_t i = 0; i < n_rows; i++)
            if (!count_record(&slots[s], &feeds[s], i)) {
                snprintf(why, DATA_WHY_BYTES, "no memory to count %s",
                         c->in->slots[s].name);
                return DATA_FAILED;
            }
    return DATA_MORE;
}

/* Mean and squares of both together (Chan, Golub and LeVeque). */
static void merge_means(slot_count *into, const slot_count *from)
{
    double n = (double)into->values, m = (double)from->values;
    double apart = from->mean - into->mean;

    if (!from->values)
        return;
    into->sum += from->sum;
    into->mean += apart * m / (n + m);
    into->squares += from->squares + apart * apart * n * m / (n + m);
}

/* False without memory. */
static bool merge(slot_count *into, const slot_count *from)
{
    if (!from->records)
        return true;
    if (!into->records || from->fewest < into->fewest)
        into->fewest = from->fewest;
    if (from->most > into->most)
        into->most = from->most;
    if (from->values && (!into->values || from->least < into->least))
        into->least = from->least;
    if (from->values && (!into->values || from->largest > into->largest))
        into->largest = from->largest;
    merge_means(into, from);
    into->records += from->records;
    into->values += from->values;
    into->zeros += from->zeros;
    into->missing += from->missing;
    if (into->ids)
        distinct_merge(into->ids, from->ids);
    return !into->floats || sketch_merge(into->floats, from->floats);
}

/* --- telling it ----------------------------------------------------------- */

static double per(uint64_t x, uint64_t n)
{
    return n ? (double)x / (double)n : 0;
}

static void print_row(const fl_slot *slot, const slot_count *s)
{
    printf("%-12s %-6s %7" PRIu64 " %9.2f %7" PRIu64 " %12" PRIu64 " %6.2f %%",
           slot->name, s->ids ? "u64" : "float", s->fewest,
           per(s->values, s->records), s->most, s->values,
           100 * per(s->zeros, s->values));
    if (s->ids)
        printf(" %11.0f\n", distinct_estimate(s->ids));
    else if (s->values)
        printf(" %11s %11.6g %11.6g %11.6g\n", "-", (double)s->least, s->mean,
               (double)s->largest);
    else
        printf(" %11s %11s %11s %11s\n", "-", "-", "-", "-");
}

static void print_counts(const counting *c)
{
    fl_dataset_stats st = FL_INIT(fl_dataset_stats);
    bool has_ids = false;

    if (fl_dataset_stats_get(c->in->set, &st))
        return;
    printf("files      %" PRIu64 " (empty %" PRIu64 ", from the cache %" PRIu64
           ")\n",
           st.files, st.empty_files, st.cached_files);
    printf("lines      %" PRIu64 "\n", st.lines);
    printf("records    %" PRIu64 "\n", st.records);
    printf("bad lines  %" PRIu64 "\n", st.bad_lines);
    if (st.skipped_lines)
        printf("skipped    %" PRIu64 "\n", st.skipped_lines);
    printf("bytes      %" PRIu64 "\n\n", st.bytes);
    printf("%-12s %-6s %7s %9s %7s %12s %8s %11s %11s %11s %11s\n", "slot",
           "kind", "fewest", "mean", "most", "values", "zeros", "distinct",
           "least", "mean", "largest");
    for (size_t s = 0; s < c->in->n_slots; s++) {
        print_row(&c->in->slots[s], &c->slots[s]);
        has_ids |= c->slots[s].ids != NULL;
    }
    if (has_ids)
        puts("\ndistinct is an estimate with a standard error of 0.8 %.");
}

/* --- the action ----------------------------------------------------------- */

static void free_counts(counting *c)
{
    size_t n = c->in->n_slots * (size_t)c->args->threads;

    for (size_t i = 0; c->slots && i < n; i++) {
        if (c->slots[i].floats)
            sketch_release(c->slots[i].floats);
        free(c->slots[i].floats);
        free(c->slots[i].ids);
    }
    free(c->slots);
}

static bool new_counts(counting *c)
{
    size_t n = c->in->n_slots * (size_t)c->args->threads;

    c->slots = calloc(n, sizeof(*c->slots));
    for (size_t i = 0; c->slots && i < n; i++) {
        slot_count *s = &c->slots[i];
        bool has_ids = c->in->slots[i % c->in->n_slots].kind == FL_SLOT_IDS;

        if (has_ids)
            s->ids = calloc(1, sizeof(*s->ids));
        else if (c->args->stats)
            s->floats = calloc(1, sizeof(*s->floats));
        if (!s->ids && !s->floats && (has_ids || c->args->stats))
            return false;
    }
    return c->slots;
}

/* What all threads counted becomes the first one's. */
static bool put_together(const counting *c)
{
    bool done = true;

    for (size_t w = 1; w < c->args->threads; w++)
        for (size_t s = 0; s < c->in->n_slots; s++)
            done &= merge(&c->slots[s], &of_worker(c, w)[s]);
    return done;
}

static int tell(const data_args *a, const counting *c)
{
    fl_dataset_stats st = FL_INIT(fl_dataset_stats);

    if (!put_together(c))
        return cmd_failed(a->self, "no memory to count");
    print_counts(c);
    if (!a->stats || fl_dataset_stats_get(c->in->set, &st))
        return CMD_OK;
    return data_write_stats(a, c->in, c->slots, st.records);
}

static int count(const data_args *a, data_input *in)
{
    counting c = { .args = a, .in = in };
    int code;

    if (!new_counts(&c))
        code = cmd_failed(a->self,
                          "no memory to count %zu slots; ask for "
                          "fewer --threads",
                          in->n_slots);
    else
        code = data_pass(a, in, count_batch, &c);
    if (!code)
        code = tell(a, &c);
    free_counts(&c);
    return code;
}

int data_count(const data_args *a)
{
    data_input in;
    int code = data_open_ctx(a, &in);

    if (!code)
        code = data_open(a, &in);
    if (!code)
        code = count(a, &in);
    data_close(&in);
    return code;
}
