/* data_parse_inside.c - how fast lines of text become records.
 *
 * The text is in memory and is taken block by block, as the reading threads
 * take it; the memory for the records is used again for each block. A parser
 * by hand that checks nothing and a first attempt (floor_parse.h) take turns
 * with the library, and must give the same values, or the program fails. One
 * thread.
 *
 * The dataset cannot be asked for this: it reads files and cuts batches with
 * threads of its own. So this file includes headers of src/ and is linked with
 * the library's inside.
 */
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/vec.h"
#include "data/format/format.h"
#include "data_parse.h"
#include "data_text.h"
#include "floor_parse.h"
#include "harness.h"

#define N_LINES 50000
#define BLOCK 262144
#define ROUNDS 15
#define SIDES 3 /* library, by hand, first attempt */

typedef struct text {
    char *data;
    size_t len;
} text;

/* What takes turns on one text. */
typedef struct contest {
    const char *prefix;
    text text;
    fl_parser *parser;
    fl_records rows;
    floor_record *records;
    floor_parser *hand, *naive; /* NULL: the library is alone */
} contest;

/* --- sides --------------------------------------------------------------- */

/* The end of the block of whole lines that begins at lo. */
static size_t block_end(const text *t, size_t lo)
{
    const char *stop;

    if (t->len - lo <= BLOCK)
        return t->len;
    stop = memchr(t->data + lo + BLOCK, '\n', t->len - lo - BLOCK);
    return (size_t)(stop - t->data) + 1;
}

static fl_status on_bad(void *arg, const fl_line *l, const fl_bad *bad)
{
    (void)arg;
    FL_FAIL(FL_ERR_CORRUPT, "line %llu: %s", (unsigned long long)l->number,
            bad->reason);
}

static size_t parse_block(contest *c, size_t lo, size_t hi)
{
    fl_line all = { .at = c->text.data + lo,
                    .end = c->text.data + hi,
                    .number = 1 };

    fl_records_clear(&c->rows);
    bench_check(fl_parse_lines(c->parser, all, &c->rows, on_bad, NULL),
                c->prefix);
    return c->rows.n;
}

static double run_library(void *arg)
{
    contest *c = arg;
    size_t n = 0;

    for (size_t lo = 0, hi; lo < c->text.len; lo = hi) {
        hi = block_end(&c->text, lo);
        n += parse_block(c, lo, hi);
    }
    return (double)n;
}

static double run_peer(contest *c, floor_parser *parser)
{
    size_t n = 0;

    for (size_t lo = 0, hi; lo < c->text.len; lo = hi) {
        hi = block_end(&c->text, lo);
        n += parser(c->text.data + lo, hi - lo, c->records);
    }
    return (double)n;
}

static double run_hand(void *arg)
{
    contest *c = arg;

    return run_peer(c, c->hand);
}

static double run_naive(void *arg)
{
    contest *c = arg;

    return run_peer(c, c->naive);
}

/* --- the same values ----------------------------------------------------- */

/* A packed record, whose slots are called and sized as those of the peers. */
static floor_record unpack(const fl_schema *s, const uint32_t *row)
{
    const uint32_t *at = row + s->count_words;
    size_t n_ids = 0;
    floor_record r;

    for (uint32_t i = 0; i < s->n_slots; i++) {
        const fl_slot *slot = &s->slots[i];
        size_t bytes = slot->width > 1 ? sizeof r.floats : sizeof r.label;

        if (slot->kind == FL_SLOT_FLOATS)
            memcpy(r.floats, at, bytes);
        else if (!strcmp(slot->name, "label"))
            memcpy(&r.label, at, bytes);
        else
            memcpy(&r.ids[n_ids++], at, bytes);
        at += bytes / sizeof *at;
    }
    return r;
}

static bool same_floats(const float *a, const float *b)
{
    for (size_t i = 0; i < FLOOR_FLOATS; i++)
        if (a[i] != b[i])
            return false;
    return true;
}

static bool same(const floor_record *a, const floor_record *b)
{
    return a->label == b->label && same_floats(a->floats, b->floats) &&
           !memcmp(a->ids, b->ids, sizeof a->ids);
}

static void compare_block(contest *c, floor_parser *peer, size_t lo, size_t hi)
{
    size_t n = peer(c->text.data + lo, hi - lo, c->records);
    bool equal = n == parse_block(c, lo, hi);

    for (size_t i = 0; i < n && equal; i++) {
        floor_record r = unpack(&c->parser->schema, fl_records_at(&c->rows, i));

        equal = same(&r, &c->records[i]);
    }
    if (equal)
        return;
    fprintf(stderr, "bench: %s: the parsers do not agree\n", c->prefix);
    exit(1);
}

static void compare(contest *c, floor_parser *peer)
{
    for (size_t lo = 0, hi; lo < c->text.len; lo = hi) {
        hi = block_end(&c->text, lo);
        compare_block(c, peer, lo, hi);
    }
}

/* --- figures ------------------------------------------------------------- */

/* Samples of n rounds, those of a round together. */
static void put_rates(const contest *c, const bench_sample *samples, size_t n)
{
    double *lines = bench_alloc(n * sizeof *lines);
    double *bytes = bench_alloc(n * sizeof *bytes);

    for (size_t i = 0; i < n; i++) {
        lines[i] = 1e-6 * N_LINES / samples[i * SIDES].seconds;
        bytes[i] = 1e-6 * (double)c->text.len / samples[i * SIDES].seconds;
    }
    bench_figure(c->prefix, "rate", lines, n, "M lines/s");
    bench_figure(c->prefix, "mb_s", bytes, n, "MB/s");
    free(lines);
    free(bytes);
}

/* How many times as fast as that side the library was, round by round. */
static void put_ratio(const contest *c, const bench_sample *samples, size_t n,
                      size_t side, const char *name)
{
    double *x = bench_alloc(n * sizeof *x);

    for (size_t i = 0; i < n; i++)
        x[i] = samples[i * SIDES + side].seconds / samples[i * SIDES].seconds;
    bench_figure(c->prefix, name, x, n, "ratio");
    free(x);
}

static void measure(contest *c)
{
    const bench_side sides[SIDES] = { { run_library, c },
                                      { run_hand, c },
                                      { run_naive, c } };
    size_t n = bench_repeats(ROUNDS), n_sides = c->hand ? SIDES : 1;
    bench_sample *samples = bench_alloc(n * SIDES * sizeof *samples);

    if (c->hand) {
        compare(c, c->hand);
        compare(c, c->naive);
    }
    for (size_t i = 0; i < n; i++)
        for (size_t k = 0; k < n_sides; k++) {
            size_t side = (i + k) % n_sides;

            samples[i * SIDES + side] = bench_run(&sides[side]);
        }
    put_rates(c, samples, n);
    if (c->hand) {
        put_ratio(c, samples, n, 1, "of_hand");
        put_ratio(c, samples, n, 2, "of_naive");
    }
    free(samples);
}

/* --- formats ------------------------------------------------------------- */

static void run_contest(contest *c, text_kind kind, const fl_parser_args *args)
{
    c->text.data = bench_text(kind, N_LINES, &c->text.len);
    c->records = bench_alloc(N_LINES * sizeof *c->records);
    bench_check(fl_parser_new(&c->parser, args), c->prefix);
    measure(c);
    fl_parser_free(c->parser);
    fl_records_release(&c->rows);
    free(c->records);
    free(c->text.data);
}

static void multislot(void)
{
    contest c = { .prefix = "data.multislot",
                  .hand = floor_multislot,
                  .naive = naive_multislot };
    char names[TEXT_CATEGORIES][sizeof "C26"];
    fl_slot slots[2 + TEXT_CATEGORIES] = { { "dense", FL_SLOT_FLOATS, TEXT_INTS,
                                             0 } };
    fl_parser_args args = { .spec = "multislot",
                            .wanted = slots,
                            .n_wanted = 2 + TEXT_CATEGORIES };

    for (int i = 0; i < TEXT_CATEGORIES; i++) {
        snprintf(names[i], sizeof names[i], "C%d", i + 1);
        slots[1 + i] = (fl_slot){ names[i], FL_SLOT_IDS, 0, FLOOR_HASH_SIZE };
    }
    slots[1 + TEXT_CATEGORIES] = (fl_slot){ "label", FL_SLOT_IDS, 1, 2 };
    run_contest(&c, TEXT_MULTISLOT, &args);
}

static void criteo(void)
{
    contest c = { .prefix = "data.criteo",
                  .hand = floor_criteo,
                  .naive = naive_criteo };
    fl_parser_args args = { .spec = "criteo" };

    run_contest(&c, TEXT_CRITEO, &args);
}

static void libsvm(void)
{
    contest c = { .prefix = "data.libsvm" };
    fl_parser_args args = { .spec = "libsvm" };

    run_contest(&c, TEXT_LIBSVM, &args);
}

static void csv(void)
{
    contest c = { .prefix = "data.csv" };
    fl_str spec = { 0 };
    fl_parser_args args;

    fl_str_add(&spec, "csv:columns=label:id");
    for (int i = 0; i < TEXT_INTS; i++)
        fl_str_addf(&spec, " I%d:float", i + 1);
    for (int i = 0; i < TEXT_CATEGORIES; i++)
        fl_str_addf(&spec, " C%d:hash", i + 1);
    args = (fl_parser_args){ .spec = fl_str_text(&spec) };
    run_contest(&c, TEXT_CSV, &args);
    fl_str_release(&spec);
}

void bench_data_parse(void)
{
    multislot();
    criteo();
    libsvm();
    csv();
}
