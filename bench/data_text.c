/* data_text.c - lines like those of a click log.
 *
 * Integers are spread over the sizes that Criteo's have and are often missing;
 * categories have few or millions of values, small ones far more often.
 */
#include "data_text.h"

#include <math.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "floor_parse.h"
#include "harness.h"

#define LINE_MAX_BYTES 1024
#define N_IDS 1000001
#define SEED 7

static const double tops[TEXT_INTS] = { 20, 600, 100, 50, 64000, 500, 100,
                                        50, 500, 10,  10, 10,    50 };
/* Shares of the lines where they are missing, in per cent. */
static const unsigned int_gaps[TEXT_INTS] = { 45, 0, 21, 21, 3,  22, 4,
                                              0,  4, 45, 4,  76, 21 };
static const unsigned category_gaps[TEXT_CATEGORIES] = {
    0, 0, 3, 3, 0, 12, 0,  0, 0,  0, 0, 3,  0,
    0, 0, 3, 0, 0, 44, 44, 3, 76, 0, 3, 44, 44,
};
static const double sizes[TEXT_CATEGORIES] = {
    1460,  583,  10131227, 2202608, 305, 24,     12517,   633,    3,
    93145, 5683, 8351593,  3194,    27,  14992,  5461306, 10,     5652,
    2173,  4,    7046547,  18,      15,  286181, 105,     142572,
};

typedef struct sample {
    unsigned label;
    bool has_int[TEXT_INTS], has_category[TEXT_CATEGORIES];
    long ints[TEXT_INTS];
    uint32_t categories[TEXT_CATEGORIES];
} sample;

static uint64_t draw(uint64_t *state)
{
    uint64_t x = *state += UINT64_C(0x9e3779b97f4a7c15);

    x = (x ^ x >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
    x = (x ^ x >> 27) * UINT64_C(0x94d049bb133111eb);
    return x ^ x >> 31;
}

static double unit(uint64_t *state)
{
    return (double)(draw(state) >> 11) * 0x1p-53;
}

static void draw_sample(uint64_t *state, sample *s)
{
    s->label = draw(state) % 4 == 0;
    for (int i = 0; i < TEXT_INTS; i++) {
        s->has_int[i] = draw(state) % 100 >= int_gaps[i];
        s->ints[i] = (long)pow(tops[i] + 1, unit(state)) - (i == 1 ? 3 : 1);
    }
    for (unsigned i = 0; i < TEXT_CATEGORIES; i++) {
        uint64_t value = (uint64_t)pow(sizes[i], unit(state)) * 64 + i;

        s->has_category[i] = draw(state) % 100 >= category_gaps[i];
        s->categories[i] = (uint32_t)draw(&value);
    }
}

/* --- lines --------------------------------------------------------------- */

/* A line under construction. */
typedef struct line {
    char text[LINE_MAX_BYTES];
    size_t len;
} line;

#define add(l, ...)                                                            \
    ((l)->len += (size_t)snprintf((l)->text + (l)->len,                        \
                                  sizeof(l)->text - (l)->len, __VA_ARGS__))

static double scaled(const sample *s, int i)
{
    return s->has_int[i] ? round(1e6 * (double)s->ints[i] / tops[i]) / 1e6 : 0;
}

/* As text without an exponent and without zeros at the end. */
static void add_float(line *l, double x)
{
    add(l, "%.6f", x);
    while (l->text[l->len - 1] == '0')
        l->len--;
    l->len -= l->text[l->len - 1] == '.';
}

static void multislot_line(line *l, const sample *s)
{
    add(l, "%d", TEXT_INTS);
    for (int i = 0; i < TEXT_INTS; i++) {
        add(l, " ");
        add_float(l, scaled(s, i));
    }
    for (int i = 0; i < TEXT_CATEGORIES; i++)
        add(l, " 1 %u", s->has_category[i] ? s->categories[i] % N_IDS : 0);
    add(l, " 1 %u", s->label);
}

static void table_line(line *l, const sample *s, char separator)
{
    add(l, "%u", s->label);
    for (int i = 0; i < TEXT_INTS; i++) {
        add(l, "%c", separator);
        if (s->has_int[i])
            add(l, "%ld", s->ints[i]);
    }
    for (int i = 0; i < TEXT_CATEGORIES; i++) {
        add(l, "%c", separator);
        if (s->has_category[i])
            add(l, "%08x", s->categories[i]);
    }
}

static void criteo_line(line *l, const sample *s)
{
    table_line(l, s, '\t');
}

static void csv_line(line *l, const sample *s)
{
    table_line(l, s, ',');
}

static void libsvm_line(line *l, const sample *s)
{
    add(l, "%u", s->label);
    for (int i = 0; i < TEXT_INTS; i++) {
        add(l, " %d:", i + 1);
        add_float(l, scaled(s, i));
    }
    for (int i = 0; i < TEXT_CATEGORIES; i++)
        add(l, " %u:1", s->categories[i] % N_IDS);
}

char *bench_text(text_kind kind, size_t n_lines, size_t *len)
{
    static void (*const writers[])(line *, const sample *) = {
        [TEXT_MULTISLOT] = multislot_line,
        [TEXT_CRITEO] = criteo_line,
        [TEXT_CSV] = csv_line,
        [TEXT_LIBSVM] = libsvm_line,
    };
    char *text = bench_alloc(n_lines * LINE_MAX_BYTES + FLOOR_PADDING);
    uint64_t state = SEED;
    size_t n = 0;

    for (size_t i = 0; i < n_lines; i++) {
        line l = { .len = 0 };
        sample s;

        draw_sample(&state, &s);
        writers[kind](&l, &s);
        memcpy(text + n, l.text, l.len);
        n += l.len;
        text[n++] = '\n';
    }
    *len = n;
    return text;
}
