/* data_sample.c - flotilla data sample: a seeded part of the records.
 *
 * Record i (from 0, in the order of the files) gets a number from the seed and
 * i. With a share P those below P stay. With a count N the N lowest stay: a
 * heap holds the lowest so far with the largest at its top, and at the end they
 * are written in their order. Both are the same records on every run.
 */
#include "data.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct kept {
    uint64_t draw, index;
    size_t line; /* among the lines: those stay while the heap moves */
} kept;

typedef struct stored {
    char *text;
    size_t cap;
} stored;

typedef struct sampling {
    const data_args *args;
    data_writer *writer;
    uint64_t index; /* of the next record */
    kept *heap;     /* with --lines */
    stored *lines;  /* one for each in the heap */
    size_t n_kept, cap;
} sampling;

static uint64_t mix(uint64_t z)
{
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    return z ^ (z >> 31);
}

static uint64_t draw(uint64_t seed, uint64_t index)
{
    const uint64_t golden = 0x9e3779b97f4a7c15u;

    return mix(mix(seed + golden) + (index + 1) * golden);
}

/* --- a share -------------------------------------------------------------- */

static data_verdict share_batch(void *arg, int worker, const fl_feed *feeds,
                                size_t n_rows, char why[DATA_WHY_BYTES])
{
    sampling *s = arg;

    for (size_t i = 0; i < n_rows; i++) {
        uint64_t bits = draw(s->args->seed, s->index++) >> 11;
        const char *line;

        if ((double)bits / ((uint64_t)1 << 53) >= s->args->share)
            continue;
        line = data_writer_text(s->writer, worker, feeds, i, why);
        if (!line || !data_writer_add(s->writer, worker, line, why))
            return DATA_FAILED;
    }
    return DATA_MORE;
}

/* --- a number of them ----------------------------------------------------- */

static void swap(kept *a, kept *b)
{
    kept c = *a;

    *a = *b;
    *b = c;
}

static void sift_up(kept *heap, size_t i)
{
    while (i && heap[(i - 1) / 2].draw < heap[i].draw) {
        swap(&heap[(i - 1) / 2], &heap[i]);
        i = (i - 1) / 2;
    }
}

static void sift_down(kept *heap, size_t n)
{
    size_t i = 0;

    for (;;) {
        size_t largest = i;

        for (size_t child = 2 * i + 1; child < n && child <= 2 * i + 2; child++)
            if (heap[child].draw > heap[largest].draw)
                largest = child;
        if (largest == i)
            return;
        swap(&heap[i], &heap[largest]);
        i = largest;
    }
}

static bool make_room(sampling *s)
{
    size_t cap = s->cap ? 2 * s->cap : 1024;
    stored *lines;
    kept *heap;

    if (s->n_kept < s->cap)
        return true;
    heap = realloc(s->heap, cap * sizeof(*heap));
    if (!heap)
        return false;
    s->heap = heap;
    lines = realloc(s->lines, cap * sizeof(*lines));
    if (!lines)
        return false;
    s->lines = lines;
    memset(lines + s->cap, 0, (cap - s->cap) * sizeof(*lines));
    s->cap = cap;
    return true;
}

/* Into the memory of the line that was there, if it has room. */
static bool store(stored *l, const char *line)
{
    size_t bytes = strlen(line) + 1;

    if (bytes > l->cap) {
        char *more = realloc(l->text, bytes);

        if (!more)
            return false;
        l->text = more;
        l->cap = bytes;
    }
    memcpy(l->text, line, bytes);
    return true;
}

/* With all places taken, the largest one goes. */
static bool keep(sampling *s, kept k, const char *line)
{
    if (s->n_kept == s->args->lines) {
        k.line = s->heap[0].line;
        s->heap[0] = k;
        sift_down(s->heap, s->n_kept);
    } else {
        if (!make_room(s))
            return false;
        k.line = s->n_kept;
        s->heap[s->n_kept] = k;
        sift_up(s->heap, s->n_kept++);
    }
    return store(&s->lines[k.line], line);
}

static data_verdict lines_batch(void *arg, int worker, const fl_feed *feeds,
                                size_t n_rows, char why[DATA_WHY_BYTES])
{
    sampling *s = arg;

    for (size_t i = 0; i < n_rows; i++) {
        kept k = { .index = s->index++ };
        const char *line;

        k.draw = draw(s->args->seed, k.index);
        if (s->n_kept == s->args->lines && k.draw >= s->heap[0].draw)
            continue;
        line = data_writer_text(s->writer, worker, feeds, i, why);
        if (!line)
            return DATA_FAILED;
        if (!keep(s, k, line)) {
            snprintf(why, DATA_WHY_BYTES,
                     "no memory for %" PRIu64 " records; take fewer, or use "
                     "--share, which keeps none",
                     s->args->lines);
            return DATA_FAILED;
        }
    }
    return DATA_MORE;
}

static int by_index(const void *a, const void *b)
{
    uint64_t x = ((const kept *)a)->index, y = ((const kept *)b)->index;

    return (x > y) - (x < y);
}

static int write_kept(sampling *s)
{
    char why[DATA_WHY_BYTES];

    if (s->n_kept)
        qsort(s->heap, s->n_kept, sizeof(*s->heap), by_index);
    for (size_t i = 0; i < s->n_kept; i++)
        if (!data_writer_add(s->writer, 0, s->lines[s->heap[i].line].text, why))
            return cmd_failed(s->args->self, "%s", why);
    return CMD_OK;
}

/* --- both ----------------------------------------------------------------- */

static int sample(const data_args *a, data_input *in)
{
    sampling s = { .args = a };
    int code;

    s.writer = data_writer_open(a, in);
    if (!s.writer)
        return CMD_FAILED;
    code = data_pass(a, in, a->has_lines ? lines_batch : share_batch, &s);
    if (!code)
        code = write_kept(&s);
    for (size_t i = 0; i < s.cap; i++)
        free(s.lines[i].text);
    free(s.lines);
    free(s.heap);
    return data_writer_close(s.writer, code);
}

int data_sample(const data_args *a)
{
    data_input in;
    int code;

    if (a->has_lines == a->has_share)
        return cmd_misused(a->self, "sample needs --share P or --lines N, one "
                                    "of them");
    if (!a->to)
        return cmd_misused(a->self, "sample needs --to FORMAT; `flotilla data "
                                    "formats` lists them");
    code = data_open_ctx(a, &in);
    if (!code)
        code = data_open(a, &in);
    if (!code)
        code = sample(a, &in);
    data_close(&in);
    return code;
}
