/* table.c - how fast the sparse table finds and updates rows, against others.
 *
 * Library, std::unordered_map, a C hash table and the bound of the memory take
 * turns within one process, on the same batches: 10,000 keys each, drawn anew
 * for every round from those that are there, none twice, in no order.
 * Afterwards all of them must hold the same rows, or the program fails: then
 * they did not do the same work. One thread.
 */
#include <math.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "flotilla/flotilla.h"
#include "flotilla/table.h"
#include "harness.h"
#include "table_peers.h"

#define BATCH 10000
#define BATCHES 50 /* of one run; their rows do not fit into the cache */
#define ROUNDS 15
#define BUILDS 3 /* of the largest table, to time inserts */
#define KINDS_MAX 4
#define TOLERANCE 1e-5 /* between rows that were updated alike */
#define SEED 11

/* A table that is measured. */
typedef struct table_case {
    const char *name; /* of its figures, before pull and push */
    const char *settings;
    const char *size_name;
    size_t n_rows, n_floats;
    bool pushes;   /* else it is pulled alone */
    bool building; /* how fast it grows and how large it gets is reported */
} table_case;

static const table_case cases[] = {
    { "table", "optimizer=adam", "1m", 1000000, ADAM_FLOATS, true, false },
    { "table", "optimizer=adam", "10m", 10000000, ADAM_FLOATS, true, true },
    { "table.plain", "optimizer=sgd", "1m", 1000000, PLAIN_FLOATS, false,
      false },
    { "table.plain", "optimizer=sgd", "10m", 10000000, PLAIN_FLOATS, false,
      false },
};

/* Everything that takes turns, the library first. */
typedef struct contest {
    const table_case *what;
    const table_kind *kinds[KINDS_MAX];
    void *tables[KINDS_MAX];
    int n_kinds;
    uint64_t *keys; /* of the batches of a round */
    uint32_t *rows;
    uint64_t *warm_keys; /* the same, to get used to the memory again */
    uint32_t *warm_rows;
    uint32_t *drawn_in; /* by row: the batch that had it last */
    float *grads;       /* of every batch */
    float *out;         /* of a pull */
    float rates[BATCHES];
    uint32_t n_batches; /* drawn so far */
    int n_pushes;
    uint64_t random;
} contest;

/* --- keys ---------------------------------------------------------------- */

/* The i-th key: any two differ, and they follow no order. */
static uint64_t key_of(uint64_t i)
{
    i = (i ^ i >> 33) * UINT64_C(0xff51afd7ed558ccd);
    i = (i ^ i >> 33) * UINT64_C(0xc4ceb9fe1a85ec53);
    return i ^ i >> 33;
}

static void make_keys(uint64_t *keys, size_t lo)
{
    for (size_t i = 0; i < BATCH; i++)
        keys[i] = key_of(lo + i);
}

static uint64_t next_random(uint64_t *state)
{
    return key_of(*state += UINT64_C(0x9e3779b97f4a7c15));
}

static uint32_t draw_row(contest *c)
{
    uint64_t r = next_random(&c->random) >> 32;

    return (uint32_t)(r * c->what->n_rows >> 32);
}

/* A batch of rows that are all different. */
static void draw_batch(contest *c, uint64_t *keys, uint32_t *rows)
{
    uint32_t batch = ++c->n_batches;

    for (size_t i = 0; i < BATCH; i++) {
        do
            rows[i] = draw_row(c);
        while (c->drawn_in[rows[i]] == batch);
        c->drawn_in[rows[i]] = batch;
        keys[i] = key_of(rows[i]);
    }
}

static void draw_pulls(contest *c)
{
    for (size_t b = 0; b < BATCHES; b++) {
        draw_batch(c, c->warm_keys + b * BATCH, c->warm_rows + b * BATCH);
        draw_batch(c, c->keys + b * BATCH, c->rows + b * BATCH);
    }
}

/* The rate of adam's step t, from 1 on, with its bias corrections. */
static float rate_of_step(int t)
{
    return (float)(TABLE_LR * sqrt(1 - pow(ADAM_BETA2, t)) /
                   (1 - pow(ADAM_BETA1, t)));
}

static void draw_pushes(contest *c)
{
    draw_pulls(c);
    for (size_t b = 0; b < BATCHES; b++)
        c->rates[b] = rate_of_step(++c->n_pushes);
}

static table_batch batch_of(const contest *c, size_t b)
{
    return (table_batch){ .keys = c->keys + b * BATCH,
                          .rows = c->rows + b * BATCH,
                          .grads = c->grads,
                          .rate = c->rates[b],
                          .n = BATCH };
}

/* --- the library --------------------------------------------------------- */

typedef struct library {
    const table_case *what;
    fl_ctx *ctx;
    fl_table *table;
} library;

/* A table with no rows yet. */
static library *library_new(const table_case *k)
{
    library *l = bench_alloc(sizeof *l);
    char settings[128];

    snprintf(settings, sizeof settings, "dim=%d, init=uniform(-0.01,0.01), %s",
             TABLE_DIM, k->settings);
    l->what = k;
    bench_check(fl_ctx_new(&l->ctx), "settings");
    bench_check(fl_table_new(&l->table, l->ctx, "rows", settings),
                "making a table");
    return l;
}

static void library_close(void *table)
{
    library *l = table;

    fl_ctx_free(l->ctx);
    free(l);
}

static void library_pull(void *table, const table_batch *b, float *out)
{
    library *l = table;

    bench_check(fl_table_pull(l->table, b->keys, b->n, FL_PULL_CREATE, out),
                "pulling");
}

static void library_push(void *table, const table_batch *b)
{
    library *l = table;

    bench_check(fl_table_push(l->table, &(fl_rows){ .keys = b->keys,
                                                    .values = b->grads,
                                                    .n = b->n,
                                                    .lr = TABLE_LR,
                                                    .merged = true }),
                "pushing");
}

/* Rows come into being by being pulled. */
static double library_fill(void *table)
{
    library *l = table;
    uint64_t *keys = bench_alloc(BATCH * sizeof *keys);
    float *out = bench_alloc(BATCH * TABLE_DIM * sizeof *out);

    for (size_t lo = 0; lo < l->what->n_rows; lo += BATCH) {
        make_keys(keys, lo);
        library_pull(l, &(table_batch){ .keys = keys, .n = BATCH }, out);
    }
    free(keys);
    free(out);
    return 0;
}

static const table_kind table_library = { .name = "library",
                                          .pull = library_pull,
                                          .push = library_push,
                                          .close = library_close };

/* --- who takes part ------------------------------------------------------ */

/* The others get the values that the library's rows were born with. */
static void copy_rows(contest *c, const table_kind *kind, void *to)
{
    for (size_t lo = 0; lo < c->what->n_rows; lo += BATCH) {
        make_keys(c->keys, lo);
        library_pull(c->tables[0],
                     &(table_batch){ .keys = c->keys, .n = BATCH }, c->out);
        kind->add(to, c->keys, c->out, BATCH);
    }
}

static fl_table_stats stats_of(const contest *c)
{
    const library *l = c->tables[0];
    fl_table_stats stats = FL_INIT(fl_table_stats);

    bench_check(fl_table_stats_get(l->table, &stats), "counters");
    return stats;
}

static void enter(contest *c, const table_kind *kind)
{
    fl_table_stats stats = stats_of(c);
    table_shape shape = { .n_rows = c->what->n_rows,
                          .n_floats = c->what->n_floats,
                          .row_bytes = stats.row_bytes / stats.rows };
    void *table = kind->open(&shape);

    if (kind->add)
        copy_rows(c, kind, table);
    c->kinds[c->n_kinds] = kind;
    c->tables[c->n_kinds++] = table;
}

static void make_grads(contest *c)
{
    for (size_t i = 0; i < BATCH * TABLE_DIM; i++)
        c->grads[i] = 1e-9f * (float)(int32_t)next_random(&c->random);
}

/* Takes the library's table over, filled, and makes the others. */
static void contest_init(contest *c, const table_case *k, library *l)
{
    *c = (contest){ .what = k,
                    .kinds = { &table_library },
                    .tables = { l },
                    .n_kinds = 1,
                    .random = SEED };
    c->keys = bench_alloc(BATCHES * BATCH * sizeof *c->keys);
    c->rows = bench_alloc(BATCHES * BATCH * sizeof *c->rows);
    c->warm_keys = bench_alloc(BATCHES * BATCH * sizeof *c->warm_keys);
    c->warm_rows = bench_alloc(BATCHES * BATCH * sizeof *c->warm_rows);
    c->drawn_in = bench_alloc(k->n_rows * sizeof *c->drawn_in);
    c->grads = bench_alloc(BATCH * TABLE_DIM * sizeof *c->grads);
    c->out = bench_alloc(BATCH * TABLE_DIM * sizeof *c->out);
    make_grads(c);
#ifdef BENCH_UNORDERED_MAP
    enter(c, &table_unordered_map);
#endif
#ifdef BENCH_KHASH
    enter(c, &table_khash);
#endif
    enter(c, &table_bound);
}

static void contest_release(contest *c)
{
    for (int i = 0; i < c->n_kinds; i++)
        c->kinds[i]->close(c->tables[i]);
    free(c->keys);
    free(c->rows);
    free(c->warm_keys);
    free(c->warm_rows);
    free(c->drawn_in);
    free(c->grads);
    free(c->out);
}

/* --- rounds -------------------------------------------------------------- */

/* One kind's turn: all batches of the round. */
typedef struct turn {
    const contest *contest;
    int kind;
} turn;

static double pull_all(void *arg)
{
    const turn *t = arg;
    const contest *c = t->contest;

    for (size_t b = 0; b < BATCHES; b++) {
        table_batch batch = batch_of(c, b);

        c->kinds[t->kind]->pull(c->tables[t->kind], &batch, c->out);
    }
    return 0;
}

static double push_all(void *arg)
{
    const turn *t = arg;
    const contest *c = t->contest;

    for (size_t b = 0; b < BATCHES; b++) {
        table_batch batch = batch_of(c, b);

        c->kinds[t->kind]->push(c->tables[t->kind], &batch);
    }
    return 0;
}

/* What is measured. */
typedef struct action {
    const char *name;
    void (*draw)(contest *c); /* the batches of a round */
    double (*run)(void *turn);
} action;

static const action pulling = { "pull", draw_pulls, pull_all };
static const action pushing = { "push", draw_pushes, push_all };

/* Other rows are pulled before the clock starts: what the one before left in
   the caches, those of address translation above all, is not this one's cost.
 */
static void warm_up(const contest *c, int kind)
{
    for (size_t b = 0; b < BATCHES; b++) {
        table_batch batch = { .keys = c->warm_keys + b * BATCH,
                              .rows = c->warm_rows + b * BATCH,
                              .n = BATCH };

        c->kinds[kind]->pull(c->tables[kind], &batch, c->out);
    }
}

/* One round; who begins changes from round to round. */
static void run_round(contest *c, const action *a, size_t round,
                      bench_sample *samples)
{
    a->draw(c);
    for (int i = 0; i < c->n_kinds; i++) {
        turn t = { c, (int)((round + (size_t)i) % (size_t)c->n_kinds) };
        bench_side side = { a->run, &t };

        warm_up(c, t.kind);
        samples[t.kind] = bench_run(&side);
    }
}

/* --- figures ------------------------------------------------------------- */

/* Samples of all rounds, those of one round together. */
typedef struct rounds {
    const contest *contest;
    char prefix[32];
    bench_sample *samples;
    size_t n;
} rounds;

static const bench_sample *sample(const rounds *r, size_t round, int kind)
{
    return r->samples + round * KINDS_MAX + kind;
}

static void put_rate(const rounds *r)
{
    double *wall = bench_alloc(r->n * sizeof *wall);
    double *cpu = bench_alloc(r->n * sizeof *cpu);

    for (size_t i = 0; i < r->n; i++) {
        wall[i] = 1e-6 * BATCHES * BATCH / sample(r, i, 0)->seconds;
        cpu[i] = 1e-6 * BATCHES * BATCH / sample(r, i, 0)->cpu_seconds;
    }
    bench_figure(r->prefix, "rate", wall, r->n, "M rows/s");
    bench_figure(r->prefix, "cpu_rate", cpu, r->n, "M rows/s");
    free(wall);
    free(cpu);
}

/* How many times as fast as that kind the library was, round by round. */
static void put_ratio(const rounds *r, int kind)
{
    double *wall = bench_alloc(r->n * sizeof *wall);
    double *cpu = bench_alloc(r->n * sizeof *cpu);
    char name[32];

    for (size_t i = 0; i < r->n; i++) {
        const bench_sample *ours = sample(r, i, 0), *its = sample(r, i, kind);

        wall[i] = its->seconds / ours->seconds;
        cpu[i] = its->cpu_seconds / ours->cpu_seconds;
    }
    snprintf(name, sizeof name, "of_%s", r->contest->kinds[kind]->name);
    bench_figure(r->prefix, name, wall, r->n, "ratio");
    snprintf(name, sizeof name, "cpu_of_%s", r->contest->kinds[kind]->name);
    bench_figure(r->prefix, name, cpu, r->n, "ratio");
    free(wall);
    free(cpu);
}

static void measure_action(contest *c, const action *a)
{
    rounds r = { .contest = c, .n = bench_repeats(ROUNDS) };

    r.samples = bench_alloc(r.n * KINDS_MAX * sizeof *r.samples);
    for (size_t i = 0; i < r.n; i++)
        run_round(c, a, i, r.samples + i * KINDS_MAX);
    snprintf(r.prefix, sizeof r.prefix, "%s.%s.%s", c->what->name, a->name,
             c->what->size_name);
    put_rate(&r);
    for (int i = 1; i < c->n_kinds; i++)
        put_ratio(&r, i);
    free(r.samples);
}

/* Whether a kind's rows of this batch are the library's. */
static bool holds_the_same(const contest *c, int kind, const table_batch *b)
{
    float *other = bench_alloc(BATCH * TABLE_DIM * sizeof *other);
    double most = 0;

    c->kinds[0]->pull(c->tables[0], b, c->out);
    c->kinds[kind]->pull(c->tables[kind], b, other);
    for (size_t i = 0; i < BATCH * TABLE_DIM; i++)
        most = fmax(most, fabs((double)c->out[i] - other[i]));
    free(other);
    if (most <= TOLERANCE)
        return true;
    fprintf(stderr, "bench: %s.%s: rows differ from those of %s by %g\n",
            c->what->name, c->what->size_name, c->kinds[kind]->name, most);
    return false;
}

static bool all_hold_the_same(contest *c)
{
    bool same = true;

    for (int i = 1; i < c->n_kinds; i++)
        for (size_t b = 0; b < BATCHES && c->kinds[i]->add && same; b++) {
            table_batch batch = batch_of(c, b);

            same = holds_the_same(c, i, &batch);
        }
    return same;
}

/* --- building ------------------------------------------------------------ */

/* Bytes that a row costs beyond its value and state. */
static void put_overhead(const library *l)
{
    fl_table_stats s = FL_INIT(fl_table_stats);
    double bytes;

    bench_check(fl_table_stats_get(l->table, &s), "counters");
    bytes = (double)(s.index_bytes + s.row_bytes) / (double)s.rows -
            (double)(l->what->n_floats * sizeof(float));
    bench_figure("table", "overhead_bytes", &bytes, 1, "bytes/row");
}

static void put_inserts(const table_case *k, const bench_sample *builds)
{
    double wall[BUILDS], cpu[BUILDS];

    for (int i = 0; i < BUILDS; i++) {
        wall[i] = 1e-6 * (double)k->n_rows / builds[i].seconds;
        cpu[i] = 1e-6 * (double)k->n_rows / builds[i].cpu_seconds;
    }
    bench_figure("table.insert", "rate", wall, BUILDS, "M rows/s");
    bench_figure("table.insert", "cpu_rate", cpu, BUILDS, "M rows/s");
}

static library *build(const table_case *k)
{
    library *l = library_new(k);

    library_fill(l);
    return l;
}

/* The same, timed: builds a few and keeps the last. */
static library *build_timed(const table_case *k)
{
    bench_sample builds[BUILDS];
    library *l = NULL;

    for (int i = 0; i < BUILDS; i++) {
        if (l)
            library_close(l);
        l = library_new(k);
        builds[i] = bench_run(&(bench_side){ library_fill, l });
    }
    put_inserts(k, builds);
    put_overhead(l);
    return l;
}

static bool measure(const table_case *k)
{
    contest c;
    bool same;

    contest_init(&c, k, k->building ? build_timed(k) : build(k));
    measure_action(&c, &pulling);
    if (k->pushes)
        measure_action(&c, &pushing);
    same = all_hold_the_same(&c);
    contest_release(&c);
    return same;
}

/* False, with a message, when rows will be missing. */
static bool check_complete(void)
{
    bool complete = true;

#ifndef BENCH_UNORDERED_MAP
    fprintf(stderr, "bench: of_unordered_map is missing; it needs g++\n");
    complete = false;
#endif
#ifndef BENCH_KHASH
    fprintf(stderr, "bench: of_clib is missing; it needs libhts-dev\n");
    complete = false;
#endif
    return complete;
}

int main(void)
{
    bool good = check_complete();

    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        good = measure(&cases[i]) && good;
    return good ? 0 : 1;
}
