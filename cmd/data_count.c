/* data_count.c - flotilla data count: what is in the files, slot by slot. */
#include "data.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "distinct.h"

typedef struct slot_count {
    uint64_t records, values, zeros;
    uint64_t fewest, most; /* values of a record */
    double sum;
    float least, largest;
    distinct *ids; /* NULL for floats */
} slot_count;

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
}

static void count_floats(slot_count *s, const float *x, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        bool is_first = s->values + i == 0;

        s->zeros += x[i] == 0;
        s->sum += (double)x[i];
        if (is_first || x[i] < s->least)
            s->least = x[i];
        if (is_first || x[i] > s->largest)
            s->largest = x[i];
    }
}

static void count_record(slot_count *s, const fl_feed *feed, size_t row)
{
    size_t n;
    const void *values = data_values(feed, row, &n);

    if (s->ids)
        count_ids(s, values, n);
    else
        count_floats(s, values, n);
    if (!s->records || n < s->fewest)
        s->fewest = n;
    if (n > s->most)
        s->most = n;
    s->values += n;
    s->records++;
}

static data_verdict count_batch(void *arg, int worker, const fl_feed *feeds,
                                size_t n_rows, char why[DATA_WHY_BYTES])
{
    counting *c = arg;
    slot_count *slots = of_worker(c, (size_t)worker);

    (void)why;
    for (size_t s = 0; s < c->in->n_slots; s++)
        for (size_t i = 0; i < n_rows; i++)
            count_record(&slots[s], &feeds[s], i);
    return DATA_MORE;
}

static void merge(slot_count *into, const slot_count *from)
{
    if (!from->records)
        return;
    if (!into->records || from->fewest < into->fewest)
        into->fewest = from->fewest;
    if (from->most > into->most)
        into->most = from->most;
    if (from->values && (!into->values || from->least < into->least))
        into->least = from->least;
    if (from->values && (!into->values || from->largest > into->largest))
        into->largest = from->largest;
    into->records += from->records;
    into->values += from->values;
    into->zeros += from->zeros;
    into->sum += from->sum;
    if (into->ids)
        distinct_merge(into->ids, from->ids);
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
        printf(" %11s %11.6g %11.6g %11.6g\n", "-", (double)s->least,
               s->sum / (double)s->values, (double)s->largest);
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

    for (size_t i = 0; c->slots && i < n; i++)
        free(c->slots[i].ids);
    free(c->slots);
}

static bool new_counts(counting *c)
{
    size_t n = c->in->n_slots * (size_t)c->args->threads;

    c->slots = calloc(n, sizeof(*c->slots));
    for (size_t i = 0; c->slots && i < n; i++) {
        if (c->in->slots[i % c->in->n_slots].kind != FL_SLOT_IDS)
            continue;
        c->slots[i].ids = calloc(1, sizeof(distinct));
        if (!c->slots[i].ids)
            return false;
    }
    return c->slots;
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
    if (!code) {
        for (size_t w = 1; w < a->threads; w++)
            for (size_t s = 0; s < in->n_slots; s++)
                merge(&c.slots[s], &of_worker(&c, w)[s]);
        print_counts(&c);
    }
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
