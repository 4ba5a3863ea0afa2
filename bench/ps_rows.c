/* ps_rows.c - rows through servers, against the table called directly and
 * against other servers.
 *
 * All of them take turns within each round, on the same batches: PS_BATCH keys,
 * drawn anew for every round from those that are there, none twice, in no
 * order. What counts is the CPU time of the server's process, not of its
 * client. Afterwards all must hold the same rows, or the program fails: then
 * they did not do the same work.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "harness.h"
#include "ps_peers.h"

#define BATCHES 50 /* of one turn; their rows do not fit into the cache */
#define WARM_BATCHES 10
#define ROUNDS 15
#define KINDS_MAX 6
#define SEED 11

/* A rate of one kind, or how many times that of another it is. */
typedef struct figure {
    const char *prefix, *name;
    const ps_kind *ours, *its; /* its NULL: the rate */
} figure;

typedef struct rows_case {
    const char *size_name; /* of its figures, behind pull and push */
    ps_shape shape;
    const ps_kind *kinds[KINDS_MAX]; /* the table first */
    const figure *figures;
    size_t n_figures;
} rows_case;

typedef struct contest {
    const rows_case *what;
    const ps_kind *kinds[KINDS_MAX];
    void *peers[KINDS_MAX];
    size_t n_kinds;
    uint64_t *keys, *rows; /* of the batches of a round */
    float *values;         /* what pushes make of them */
    float *grads;          /* of every batch */
    float *out;            /* of PS_DEPTH pulls */
    ps_batch batches[BATCHES], warm[WARM_BATCHES];
    uint32_t *drawn_in; /* by row: the batch that had it last */
    uint32_t n_drawn;
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

static uint64_t next_random(uint64_t *state)
{
    return key_of(*state += UINT64_C(0x9e3779b97f4a7c15));
}

static uint32_t draw_row(contest *c)
{
    uint64_t r = next_random(&c->random) >> 32;

    return (uint32_t)(r * c->what->shape.n_rows >> 32);
}

/* The i-th batch of this round, of rows that are all different. */
static void draw_batch(contest *c, size_t i, ps_batch *out)
{
    uint64_t *keys = c->keys + i * PS_BATCH, *rows = c->rows + i * PS_BATCH;
    uint32_t batch = ++c->n_drawn, row;

    for (size_t k = 0; k < PS_BATCH; k++) {
        do
            row = draw_row(c);
        while (c->drawn_in[row] == batch);
        c->drawn_in[row] = batch;
        rows[k] = row;
        keys[k] = key_of(row);
    }
    *out = (ps_batch){ .keys = keys,
                       .rows = rows,
                       .n = PS_BATCH,
                       .grads = c->grads,
                       .values = c->values + i * PS_BATCH * PS_DIM,
                       .out = c->out + i % PS_DEPTH * PS_BATCH * PS_DIM };
}

static void draw_round(contest *c)
{
    for (size_t i = 0; i < BATCHES; i++)
        draw_batch(c, i, &c->batches[i]);
    for (size_t i = 0; i < WARM_BATCHES; i++)
        draw_batch(c, BATCHES + i, &c->warm[i]);
}

/* --- all rows ------------------------------------------------------------ */

/* The rows from `lo` on, as the table has them. */
static ps_batch rows_from(contest *c, size_t lo)
{
    ps_batch b = { .keys = c->keys,
                   .rows = c->rows,
                   .n = PS_BATCH,
                   .values = c->values,
                   .out = c->values };

    for (size_t k = 0; k < PS_BATCH; k++) {
        c->rows[k] = lo + k;
        c->keys[k] = key_of(lo + k);
    }
    ps_direct.pull(c->peers[0], &b, 1);
    b.out = c->out;
    return b;
}

/* Rows of a table are born when they are pulled, others get their values. */
static void fill(contest *c)
{
    for (size_t lo = 0; lo < c->what->shape.n_rows; lo += PS_BATCH) {
        ps_batch b = rows_from(c, lo);

        for (size_t i = 1; i < c->n_kinds; i++) {
            if (c->kinds[i]->overwrites)
                c->kinds[i]->push(c->peers[i], &b, 1);
            else
                c->kinds[i]->pull(c->peers[i], &b, 1);
        }
    }
}

/* To the bit: all have done the same sums in the same order. */
static bool same_bytes(const void *a, const void *b, size_t n)
{
    return memcmp(a, b, n) == 0;
}

static bool all_hold_the_same(contest *c)
{
    for (size_t lo = 0; lo < c->what->shape.n_rows; lo += PS_BATCH) {
        ps_batch b = rows_from(c, lo);

        for (size_t i = 1; i < c->n_kinds; i++) {
            c->kinds[i]->pull(c->peers[i], &b, 1);
            if (same_bytes(b.out, b.values, PS_BATCH * PS_ROW_BYTES))
                continue;
            fprintf(stderr, "bench: ps: rows of %s differ from the table's\n",
                    c->kinds[i]->name);
            return false;
        }
    }
    return true;
}

/* --- who takes part ------------------------------------------------------ */

static void enter(contest *c, const ps_kind *kind)
{
    void *peer = kind->open(&c->what->shape);

    if (!peer) {
        fprintf(stderr, "bench: %s is not installed: ps goes without it\n",
                kind->name);
        return;
    }
    c->kinds[c->n_kinds] = kind;
    c->peers[c->n_kinds++] = peer;
}

static void contest_init(contest *c, const rows_case *k)
{
    size_t n = (BATCHES + WARM_BATCHES) * PS_BATCH;

    *c = (contest){ .what = k, .random = SEED };
    c->keys = bench_alloc(n * sizeof *c->keys);
    c->rows = bench_alloc(n * sizeof *c->rows);
    c->values = bench_alloc(n * PS_ROW_BYTES);
    c->grads = bench_alloc(PS_BATCH * PS_ROW_BYTES);
    c->out = bench_alloc(PS_DEPTH * PS_BATCH * PS_ROW_BYTES);
    c->drawn_in = bench_alloc(k->shape.n_rows * sizeof *c->drawn_in);
    for (size_t i = 0; i < PS_BATCH * PS_DIM; i++)
        c->grads[i] = 1e-9f * (float)(int32_t)next_random(&c->random);
    for (size_t i = 0; i < KINDS_MAX && k->kinds[i]; i++)
        enter(c, k->kinds[i]);
    fill(c);
}

static void contest_release(contest *c)
{
    for (size_t i = 0; i < c->n_kinds; i++)
        c->kinds[i]->close(c->peers[i]);
    free(c->keys);
    free(c->rows);
    free(c->values);
    free(c->grads);
    free(c->out);
    free(c->drawn_in);
}

/* --- rounds -------------------------------------------------------------- */

typedef enum action { PULL, PUSH } action;
static const char *const action_names[] = { "pull", "push" };

/* CPU seconds of one server for all batches. Other rows are pulled first: what
   the one before left in the caches is not this one's cost. */
static double take_turn(contest *c, action a, size_t i)
{
    const ps_kind *kind = c->kinds[i];
    double before;

    kind->pull(c->peers[i], c->warm, WARM_BATCHES);
    before = kind->cpu_seconds(c->peers[i]);
    (a == PULL ? kind->pull : kind->push)(c->peers[i], c->batches, BATCHES);
    return kind->cpu_seconds(c->peers[i]) - before;
}

/* Who begins changes from round to round. Those that overwrite come behind the
   others: they get what the table has made of its rows. */
static void run_round(contest *c, action a, size_t round, double *seconds)
{
    draw_round(c);
    for (int overwriting = 0; overwriting < 2; overwriting++) {
        for (size_t k = 0; k < c->n_kinds; k++) {
            size_t i = (round + k) % c->n_kinds;

            if (c->kinds[i]->overwrites == overwriting)
                seconds[i] = take_turn(c, a, i);
        }
        for (size_t b = 0; b < BATCHES && !overwriting; b++) {
            ps_batch all = c->batches[b];

            all.out = c->values + b * PS_BATCH * PS_DIM;
            ps_direct.pull(c->peers[0], &all, 1);
        }
    }
}

/* --- figures ------------------------------------------------------------- */

/* Where a kind stands; n_kinds when it is not there. */
static size_t place_of(const contest *c, const ps_kind *kind)
{
    size_t i = 0;

    while (i < c->n_kinds && c->kinds[i] != kind)
        i++;
    return i;
}

static void put_figure(const contest *c, const figure *f, action a,
                       const double *seconds, size_t n)
{
    size_t ours = place_of(c, f->ours), its = place_of(c, f->its);
    double *x = bench_alloc(n * sizeof *x);
    char prefix[48];

    for (size_t i = 0; i < n && ours < c->n_kinds; i++) {
        const double *round = seconds + i * KINDS_MAX;

        x[i] = f->its ? (its < c->n_kinds ? round[its] : 0) / round[ours]
                      : 1e-6 * BATCHES * PS_BATCH / round[ours];
    }
    snprintf(prefix, sizeof prefix, "%s.%s%s", f->prefix, action_names[a],
             c->what->size_name);
    if (ours < c->n_kinds && (!f->its || its < c->n_kinds))
        bench_figure(prefix, f->name, x, n, f->its ? "ratio" : "M rows/s");
    free(x);
}

static void measure_action(contest *c, action a)
{
    size_t n = bench_repeats(ROUNDS);
    double *seconds = bench_alloc(n * KINDS_MAX * sizeof *seconds);

    for (size_t i = 0; i < n; i++)
        run_round(c, a, i, seconds + i * KINDS_MAX);
    for (size_t i = 0; i < c->what->n_figures; i++)
        put_figure(c, &c->what->figures[i], a, seconds, n);
    free(seconds);
}

static bool measure(const rows_case *k)
{
    contest c;
    bool same;

    contest_init(&c, k);
    measure_action(&c, PULL);
    measure_action(&c, PUSH);
    same = all_hold_the_same(&c);
    contest_release(&c);
    return same;
}

bool bench_ps_rows(void)
{
    static const figure adam[] = {
        { "ps", "rate", &ps_local, NULL },
        { "ps", "of_direct", &ps_local, &ps_direct },
        { "ps.tcp", "rate", &ps_tcp, NULL },
        { "ps.tcp", "of_direct", &ps_tcp, &ps_direct },
        { "ps.direct", "rate", &ps_direct, NULL },
    };
    static const figure plain[] = {
        { "ps.plain", "rate", &ps_local, NULL },
        { "ps.plain", "of_direct", &ps_local, &ps_direct },
        { "ps.plain.tcp", "rate", &ps_tcp, NULL },
        { "ps.plain.tcp", "of_direct", &ps_tcp, &ps_direct },
        { "ps.flat", "rate", &ps_flat, NULL },
        { "ps.plain.tcp", "of_flat", &ps_tcp, &ps_flat },
        { "ps.redis", "rate", &ps_redis, NULL },
        { "ps", "of_redis", &ps_local, &ps_redis },
        { "ps.redis.tcp", "rate", &ps_redis_tcp, NULL },
        { "ps.tcp", "of_redis", &ps_tcp, &ps_redis_tcp },
    };
    static const rows_case cases[] = {
        { ".1m",
          { 1000000, "optimizer=adam" },
          { &ps_direct, &ps_local, &ps_tcp },
          adam,
          sizeof adam / sizeof *adam },
        { ".10m",
          { 10000000, "optimizer=adam" },
          { &ps_direct, &ps_local, &ps_tcp },
          adam,
          sizeof adam / sizeof *adam },
        { "",
          { 1000000, "optimizer=sgd" },
          { &ps_direct, &ps_local, &ps_tcp, &ps_flat, &ps_redis,
            &ps_redis_tcp },
          plain,
          sizeof plain / sizeof *plain },
    };
    bool same = true;

    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        same = measure(&cases[i]) && same;
    return same;
}
