/* floor_w2v.c - skip-gram in straight C.
 *
 * Rows are filled up to whole vectors. The words of the next negatives, and
 * then their rows, are asked for one step ahead; the sigmoid comes from a table
 * of a thousand numbers, as in the program that made word2vec known.
 */
#include "floor_w2v.h"

#include <math.h>
#include <pthread.h>
#include <stdlib.h>

#include "harness.h"

enum {
    WINDOW = FLOOR_W2V_WINDOW,
    NEGATIVES = FLOOR_W2V_NEGATIVES,
    TARGETS = 1 + NEGATIVES,
    LANES = 8,
    SIGMOIDS = 1000,
    THREADS_MAX = 8,
};
#define DRAWS ((size_t)10000000) /* words to draw from, by their chance */
#define SIGMOID_MAX 6
#define RATE 0.025f

typedef float lanes __attribute__((vector_size(32)));

struct floor_w2v {
    const int32_t *ids;
    size_t len, n_rows;
    size_t ld; /* numbers of a row */
    float *x, *y;
    int32_t *draws;
    float sigmoids[SIGMOIDS + 1];
};

typedef struct work {
    const floor_w2v *f;
    size_t at, n; /* the next word, and how many are to come */
    uint64_t random;
    uint64_t numbers[TARGETS]; /* behind the draws after the next */
    int32_t drawn[TARGETS];    /* the next */
    float *moves;              /* of one row */
    bool shared;
} work;

static uint64_t draw(uint64_t *random)
{
    *random = *random * 25214903917u + 11;
    return *random >> 16;
}

static float sigmoid(const floor_w2v *f, float z)
{
    if (z > SIGMOID_MAX)
        return 1;
    if (z < -SIGMOID_MAX)
        return 0;
    return f
        ->sigmoids[(int)((z + SIGMOID_MAX) * (SIGMOIDS / (2.f * SIGMOID_MAX)))];
}

typedef float four __attribute__((vector_size(16)));

static float sum_of(lanes v)
{
    four a = __builtin_shufflevector(v, v, 0, 1, 2, 3) +
             __builtin_shufflevector(v, v, 4, 5, 6, 7);

    a += __builtin_shufflevector(a, a, 2, 3, 2, 3);
    return a[0] + a[1];
}

static void ask(const float *row, size_t ld)
{
    for (size_t k = 0; k < ld; k += 64 / sizeof(float))
        __builtin_prefetch(row + k);
}

/* Fills target with the right word and drawn ones, and asks for the next. */
static void choose(work *w, int32_t right, int32_t *target)
{
    const floor_w2v *f = w->f;

    target[0] = right;
    for (int d = 1; d < TARGETS; d++) {
        target[d] = w->drawn[d];
        w->drawn[d] = f->draws[w->numbers[d] % DRAWS];
        w->numbers[d] = draw(&w->random);
        __builtin_prefetch(f->draws + w->numbers[d] % DRAWS);
        ask(f->y + (size_t)w->drawn[d] * f->ld, f->ld);
    }
}

/* --- a pair at a time ----------------------------------------------------- */

static float product(const float *x, const float *y, size_t ld)
{
    lanes a = { 0 }, b = { 0 };
    size_t k = 0;

    for (; k + 2 * LANES <= ld; k += 2 * LANES) {
        a += *(const lanes *)(x + k) * *(const lanes *)(y + k);
        b += *(const lanes *)(x + k + LANES) * *(const lanes *)(y + k + LANES);
    }
    if (k < ld)
        a += *(const lanes *)(x + k) * *(const lanes *)(y + k);
    return sum_of(a + b);
}

static void meet(const work *w, const float *x, int32_t target, bool is_right)
{
    const floor_w2v *f = w->f;
    float *y = f->y + (size_t)target * f->ld;
    float g = ((float)is_right - sigmoid(f, product(x, y, f->ld))) * RATE;

    for (size_t k = 0; k < f->ld; k += LANES) {
        lanes v = *(lanes *)(y + k);

        *(lanes *)(w->moves + k) += g * v;
        *(lanes *)(y + k) = v + g * *(const lanes *)(x + k);
    }
}

static void train_pair(work *w, int32_t word, int32_t input)
{
    const floor_w2v *f = w->f;
    float *x = f->x + (size_t)input * f->ld;
    int32_t target[TARGETS];

    for (size_t k = 0; k < f->ld; k += LANES)
        *(lanes *)(w->moves + k) = (lanes){ 0 };
    choose(w, word, target);
    for (int d = 0; d < TARGETS; d++)
        if (!d || target[d] != word)
            meet(w, x, target[d], d == 0);
    for (size_t k = 0; k < f->ld; k += LANES)
        *(lanes *)(x + k) += *(lanes *)(w->moves + k);
}

/* --- a window at a time --------------------------------------------------- */

typedef struct window {
    float *x[2 * WINDOW], *y[TARGETS];
    float slopes[2 * WINDOW][LANES];
    int n;
} window;

/* The slopes of two inputs, which all windows have an even number of. */
static void measure(const floor_w2v *f, window *v, int i)
{
    lanes a[TARGETS] = { 0 }, b[TARGETS] = { 0 };

    for (size_t k = 0; k < f->ld; k += LANES) {
        lanes s = *(lanes *)(v->x[i] + k), t = *(lanes *)(v->x[i + 1] + k);

#pragma GCC unroll 6
        for (int j = 0; j < TARGETS; j++) {
            lanes y = *(lanes *)(v->y[j] + k);

            a[j] += s * y;
            b[j] += t * y;
        }
    }
    for (int j = 0; j < TARGETS; j++) {
        float right = j == 0;

        v->slopes[i][j] = (right - sigmoid(f, sum_of(a[j]))) * RATE;
        v->slopes[i + 1][j] = (right - sigmoid(f, sum_of(b[j]))) * RATE;
    }
}

static void move(const floor_w2v *f, const window *v)
{
    for (size_t k = 0; k < f->ld; k += LANES) {
        lanes y[TARGETS], a[TARGETS];

#pragma GCC unroll 6
        for (int j = 0; j < TARGETS; j++)
            a[j] = y[j] = *(lanes *)(v->y[j] + k);
        for (int i = 0; i < v->n; i++) {
            lanes x = *(lanes *)(v->x[i] + k), o = x;

#pragma GCC unroll 6
            for (int j = 0; j < TARGETS; j++) {
                o += v->slopes[i][j] * y[j];
                a[j] += v->slopes[i][j] * x;
            }
            *(lanes *)(v->x[i] + k) = o;
        }
#pragma GCC unroll 6
        for (int j = 0; j < TARGETS; j++)
            *(lanes *)(v->y[j] + k) = a[j];
    }
}

static void train_window(work *w, int far)
{
    const floor_w2v *f = w->f;
    const int32_t *at = f->ids + w->at;
    int32_t target[TARGETS];
    window v = { .n = 0 };

    for (int a = -far; a <= far; a++)
        if (a)
            v.x[v.n++] = f->x + (size_t)at[a] * f->ld;
    choose(w, *at, target);
    for (int d = 0; d < TARGETS; d++) {
        if (d && target[d] == *at)
            target[d] = (target[d] + 1) % (int32_t)f->n_rows;
        v.y[d] = f->y + (size_t)target[d] * f->ld;
    }
    ask(f->y + (size_t)at[1] * f->ld, f->ld);
    for (int i = 0; i < v.n; i += 2)
        measure(f, &v, i);
    move(f, &v);
}

/* --- threads -------------------------------------------------------------- */

static void train_word(work *w)
{
    const floor_w2v *f = w->f;
    int far = WINDOW - (int)(draw(&w->random) % WINDOW);

    if (w->at < WINDOW || w->at + 2 * WINDOW >= f->len)
        w->at = WINDOW;
    ask(f->x + (size_t)f->ids[w->at + WINDOW + 1] * f->ld, f->ld);
    if (w->shared)
        train_window(w, far);
    for (int a = -far; a <= far && !w->shared; a++)
        if (a)
            train_pair(w, f->ids[w->at], f->ids[(int64_t)w->at + a]);
    w->at++;
}

static void *run(void *arg)
{
    work *w = arg;

    for (int d = 1; d < TARGETS; d++) {
        w->drawn[d] = w->f->draws[draw(&w->random) % DRAWS];
        w->numbers[d] = draw(&w->random);
    }
    for (; w->n; w->n--)
        train_word(w);
    return NULL;
}

void floor_w2v_train(floor_w2v *f, size_t n_words, int n_threads, bool shared)
{
    pthread_t threads[THREADS_MAX];
    work works[THREADS_MAX];

    for (int i = 0; i < n_threads; i++) {
        works[i] = (work){ .f = f,
                           .at = f->len / (size_t)n_threads * (size_t)i,
                           .n = n_words / (size_t)n_threads,
                           .random = (uint64_t)i * 7919 + 1,
                           .moves = bench_alloc(f->ld * sizeof(float)),
                           .shared = shared };
        if (pthread_create(&threads[i], NULL, run, &works[i]))
            abort();
    }
    for (int i = 0; i < n_threads; i++) {
        (void)pthread_join(threads[i], NULL);
        free(works[i].moves);
    }
}

/* --- life ----------------------------------------------------------------- */

static void fill_draws(floor_w2v *f, const uint64_t *counts)
{
    double sum = 0, share;
    size_t i = 0;

    for (size_t k = 0; k < f->n_rows; k++)
        sum += pow((double)counts[k], 0.75);
    share = pow((double)counts[0], 0.75) / sum;
    for (size_t k = 0; k < DRAWS; k++) {
        f->draws[k] = (int32_t)i;
        if ((double)k / (double)DRAWS > share && i + 1 < f->n_rows)
            share += pow((double)counts[++i], 0.75) / sum;
    }
}

floor_w2v *floor_w2v_new(const int32_t *ids, size_t len, const uint64_t *counts,
                         size_t n_words, int dim)
{
    floor_w2v *f = bench_alloc(sizeof *f);
    uint64_t random = 1;

    f->ids = ids;
    f->len = len;
    f->n_rows = n_words;
    f->ld = ((size_t)dim + LANES - 1) / LANES * LANES;
    f->x = bench_alloc(n_words * f->ld * sizeof *f->x);
    f->y = bench_alloc(n_words * f->ld * sizeof *f->y);
    f->draws = bench_alloc(DRAWS * sizeof *f->draws);
    for (size_t i = 0; i < n_words * f->ld; i++)
        if (i % f->ld < (size_t)dim)
            f->x[i] =
                ((float)(draw(&random) & 0xffff) / 65536 - 0.5f) / (float)dim;
    for (int i = 0; i <= SIGMOIDS; i++)
        f->sigmoids[i] =
            1 / (1 + expf(-((float)i * 2 / SIGMOIDS - 1) * SIGMOID_MAX));
    fill_draws(f, counts);
    return f;
}

void floor_w2v_free(floor_w2v *f)
{
    free(f->x);
    free(f->y);
    free(f->draws);
    free(f);
}

double floor_w2v_norm(const floor_w2v *f)
{
    double sum = 0;

    for (size_t i = 0; i < f->n_rows * f->ld; i++)
        sum += (double)f->x[i] * (double)f->x[i];
    return sum;
}
