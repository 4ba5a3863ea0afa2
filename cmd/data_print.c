/* data_print.c - flotilla data print and convert: records as text. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "data.h"

/* --- convert -------------------------------------------------------------- */

typedef struct conversion {
    data_writer *writer;
    uint64_t left; /* records; used with one thread only */
} conversion;

static data_verdict convert_batch(void *arg, int worker, const fl_feed *feeds,
                                  size_t n_rows, char why[DATA_WHY_BYTES])
{
    data_writer *w = ((conversion *)arg)->writer;

    for (size_t i = 0; i < n_rows; i++) {
        const char *line = data_writer_text(w, worker, feeds, i, why);

        if (!line || !data_writer_add(w, worker, line, why))
            return DATA_FAILED;
    }
    return DATA_MORE;
}

/* Opens everything, runs `fn`, and keeps what was written if all went well. */
static int run_writer(const data_args *a, data_on_batch fn)
{
    conversion c = { .left = a->lines };
    data_input in;
    int code = data_open_ctx(a, &in);

    if (!code)
        code = data_open(a, &in);
    if (!code) {
        c.writer = data_writer_open(a, &in);
        code = c.writer ? data_pass(a, &in, fn, &c) : CMD_FAILED;
    }
    if (c.writer)
        code = data_writer_close(c.writer, code);
    data_close(&in);
    return code;
}

int data_convert(const data_args *a)
{
    if (!a->to)
        return cmd_misused(a->self, "convert needs --to FORMAT; `flotilla data "
                                    "formats` lists them");
    return run_writer(a, convert_batch);
}

/* --- print ---------------------------------------------------------------- */

/* The shortest text that reads back as the same float. */
static void print_float(float x)
{
    char text[32];

    for (int digits = 6; digits <= 9; digits++) {
        snprintf(text, sizeof(text), "%.*g", digits, (double)x);
        if (strtof(text, NULL) == x)
            break;
    }
    fputs(text, stdout);
}

static void print_slot(const fl_feed *feed, size_t row)
{
    size_t n;
    const void *values = data_values(feed, row, &n);

    printf("%s=", feed->name);
    for (size_t i = 0; i < n; i++) {
        if (i)
            putchar(',');
        if (feed->value.dtype == FL_DTYPE_F32)
            print_float(((const float *)values)[i]);
        else
            printf("%" PRIu64, ((const uint64_t *)values)[i]);
    }
}

typedef struct printing {
    size_t n_slots;
    uint64_t left;
} printing;

static data_verdict print_batch(void *arg, int worker, const fl_feed *feeds,
                                size_t n_rows, char why[DATA_WHY_BYTES])
{
    printing *p = arg;

    (void)worker;
    (void)why;
    for (size_t i = 0; i < n_rows && p->left; i++, p->left--) {
        for (size_t s = 0; s < p->n_slots; s++) {
            if (s)
                putchar(' ');
            print_slot(&feeds[s], i);
        }
        putchar('\n');
    }
    return p->left ? DATA_MORE : DATA_ENOUGH;
}

static data_verdict print_lines(void *arg, int worker, const fl_feed *feeds,
                                size_t n_rows, char why[DATA_WHY_BYTES])
{
    conversion *c = arg;
    size_t n = c->left < n_rows ? (size_t)c->left : n_rows;
    data_verdict v = convert_batch(arg, worker, feeds, n, why);

    c->left -= n;
    return v == DATA_MORE && !c->left ? DATA_ENOUGH : v;
}

int data_print(const data_args *a)
{
    printing p = { .left = a->lines };
    data_args few = *a;
    data_input in;
    int code;

    /* No more than is shown. */
    if (few.batch > few.lines)
        few.batch = few.lines;
    if (a->to)
        return run_writer(&few, print_lines);
    code = data_open_ctx(&few, &in);
    if (!code)
        code = data_open(&few, &in);
    p.n_slots = in.n_slots;
    if (!code)
        code = data_pass(&few, &in, print_batch, &p);
    data_close(&in);
    return code;
}
