/* test_skip_gram.c - windows of skip-gram against plain loops, and on all
 * instruction sets. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>
#include <math.h>
#include <string.h>

#include "kernel/skip_gram.h"
#include "sample.h"

#define N_ROWS 7
#define DIM_MAX 45

#define DECLARE(t, isa)                                                        \
    extern const fl_skip_gram_##t##_table fl_skip_gram_##t##_table_of_##isa;
#define ADDR(t, isa) &fl_skip_gram_##t##_table_of_##isa,
FL_ISA_MAP(DECLARE, f32)
FL_ISA_MAP(DECLARE, f64)
static const fl_skip_gram_f32_table *const f32_sets[] = { FL_ISA_MAP(ADDR,
                                                                     f32) };
static const fl_skip_gram_f64_table *const f64_sets[] = { FL_ISA_MAP(ADDR,
                                                                     f64) };

#define N_SETS (sizeof f32_sets / sizeof *f32_sets)

/* Rows come up more than once on either side. */
static const uint64_t rows_in[] = { 0, 3, 6, 3 };
static const uint64_t rows_out[] = { 5, 1, 5, 0, 2, 6, 3, 3, 4 };

#define ROOM 2048

/* Some inputs against some targets, as gradients or in place. */
typedef struct trial {
    size_t n_in, n_targets, dim;
    int in_place;
} trial;

#define TRIALS(T, t)                                                           \
    typedef struct result_##t {                                                \
        T x[N_ROWS * DIM_MAX], y[N_ROWS * DIM_MAX];                            \
        double loss;                                                           \
    } result_##t;                                                              \
    static void run_##t(const fl_skip_gram_##t##_table *f, const trial *c,     \
                        result_##t *out)                                       \
    {                                                                          \
        T *x = samples_##t(1, N_ROWS * c->dim);                                \
        T *y = samples_##t(2, N_ROWS * c->dim);                                \
        T *room = calloc(ROOM, sizeof(T));                                     \
        uint64_t in[4], target[9];                                             \
        fl_skip_gram_window w = { in, target, c->n_in, c->n_targets };         \
        fl_skip_gram_loss loss = FL_SKIP_GRAM_LOSS_ZERO;                       \
        fl_skip_gram_##t##_rows r = { .dim = c->dim, .room = room };           \
                                                                               \
        assert_true(fl_skip_gram_room(c->dim, 4, 9) <= ROOM);                  \
        for (size_t i = 0; i < 4; i++)                                         \
            in[i] = rows_in[i] * c->dim;                                       \
        for (size_t j = 0; j < 9; j++)                                         \
            target[j] = rows_out[j] * c->dim;                                  \
        memset(out, 0, sizeof(*out));                                          \
        if (c->in_place) {                                                     \
            memcpy(out->x, x, N_ROWS * c->dim * sizeof(T));                    \
            memcpy(out->y, y, N_ROWS * c->dim * sizeof(T));                    \
        }                                                                      \
        r.x = c->in_place ? out->x : x;                                        \
        r.y = c->in_place ? out->y : y;                                        \
        r.to_x = out->x;                                                       \
        r.to_y = out->y;                                                       \
        r.step = c->in_place ? (T)0.1 : -1;                                    \
        f->ahead(&r, &w, &w);                                                  \
        f->window(&r, &w, &loss);                                              \
        out->loss = fl_skip_gram_sum(&loss);                                   \
        free(x);                                                               \
        free(y);                                                               \
        free(room);                                                            \
    }                                                                          \
    static void plain_##t(const trial *c, result_##t *out)                     \
    {                                                                          \
        T *x = samples_##t(1, N_ROWS * c->dim);                                \
        T *y = samples_##t(2, N_ROWS * c->dim);                                \
                                                                               \
        memset(out, 0, sizeof(*out));                                          \
        for (size_t i = 0; i < c->n_in; i++)                                   \
            for (size_t j = 0; j < c->n_targets; j++) {                        \
                size_t a = rows_in[i] * c->dim, b = rows_out[j] * c->dim;      \
                double z = 0, slope;                                           \
                                                                               \
                for (size_t k = 0; k < c->dim; k++)                            \
                    z += (double)x[a + k] * (double)y[b + k];                  \
                slope = 1 / (1 + exp(-z)) - (j == 0);                          \
                out->loss += log1p(exp(j ? z : -z));                           \
                for (size_t k = 0; k < c->dim; k++) {                          \
                    out->x[a + k] += (T)(slope * (double)y[b + k]);            \
                    out->y[b + k] += (T)(slope * (double)x[a + k]);            \
                }                                                              \
            }                                                                  \
        free(x);                                                               \
        free(y);                                                               \
    }                                                                          \
    static void check_##t(const trial *c, double within)                       \
    {                                                                          \
        result_##t want, got;                                                  \
                                                                               \
        plain_##t(c, &want);                                                   \
        run_##t(fl_skip_gram_##t(), c, &got);                                  \
        assert_true(fabs(got.loss - want.loss) <= within * (1 + want.loss));   \
        for (size_t k = 0; k < N_ROWS * c->dim; k++) {                         \
            assert_true(fabs((double)(got.x[k] - want.x[k])) <= 10 * within);  \
            assert_true(fabs((double)(got.y[k] - want.y[k])) <= 10 * within);  \
        }                                                                      \
    }                                                                          \
    static void compare_##t(const trial *c)                                    \
    {                                                                          \
        result_##t want, got;                                                  \
                                                                               \
        run_##t(t##_sets[FL_ISA_BASE], c, &want);                              \
        for (size_t isa = 0; isa < N_SETS && isa <= (size_t)fl_isa(); isa++) { \
            run_##t(t##_sets[isa], c, &got);                                   \
            assert_memory_equal(&got, &want, sizeof(got));                     \
        }                                                                      \
    }
TRIALS(float, f32)
TRIALS(double, f64)

static void each_trial(void (*use)(const trial *c))
{
    for (size_t n_in = 1; n_in <= 4; n_in++)
        for (size_t n_targets = 1; n_targets <= 9; n_targets++)
            for (size_t dim = 1; dim <= DIM_MAX; dim++)
                use(&(trial){ n_in, n_targets, dim, 0 });
}

static void check_both(const trial *c)
{
    check_f32(c, 1e-6);
    check_f64(c, 1e-12);
}

static void compare_both(const trial *c)
{
    trial in_place = *c;

    in_place.in_place = 1;
    compare_f32(c);
    compare_f64(c);
    compare_f32(&in_place);
    compare_f64(&in_place);
}

static void windows_give_the_gradients_of_plain_loops(void **state)
{
    (void)state;
    each_trial(check_both);
}

static void all_instruction_sets_give_the_same_bits(void **state)
{
    (void)state;
    each_trial(compare_both);
}

/* Products far from 0 leave a loss that is the product, and slopes of 0 or 1. */
static void large_products_stay_finite(void **state)
{
    float x[4] = { 100, 100, 0, 0 }, y[8] = { 100, 0, 0, 0, -100, 0, 0, 0 };
    float dx[4] = { 0 }, dy[8] = { 0 }, room[64] = { 0 };
    uint64_t in = 0, target[] = { 4, 0 };
    fl_skip_gram_window w = { &in, target, 1, 2 };
    fl_skip_gram_loss loss = FL_SKIP_GRAM_LOSS_ZERO;
    fl_skip_gram_f32_rows r = { .x = x,
                                .y = y,
                                .to_x = dx,
                                .to_y = dy,
                                .room = room,
                                .dim = 4,
                                .step = -1 };

    (void)state;
    fl_skip_gram_f32()->window(&r, &w, &loss);
    assert_true(fl_skip_gram_sum(&loss) == 20000);
    assert_true(dx[0] == 200 && dy[4] == -100 && dy[0] == 100);
}

/* One logarithm stands for many windows: their product must not overflow. */
static void the_loss_of_many_windows_is_their_sum(void **state)
{
    float x[4] = { 0 }, y[4] = { 0 }, room[64] = { 0 };
    uint64_t in = 0, target = 0;
    fl_skip_gram_window w = { &in, &target, 1, 1 };
    fl_skip_gram_loss loss = FL_SKIP_GRAM_LOSS_ZERO;
    fl_skip_gram_f32_rows r = {
        .x = x, .y = y, .to_x = x, .to_y = y, .room = room, .dim = 4
    };

    (void)state;
    for (int i = 0; i < 5000; i++)
        fl_skip_gram_f32()->window(&r, &w, &loss);
    assert_true(fabs(fl_skip_gram_sum(&loss) - 5000 * log(2)) < 1e-6);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(windows_give_the_gradients_of_plain_loops),
        cmocka_unit_test(all_instruction_sets_give_the_same_bits),
        cmocka_unit_test(large_products_stay_finite),
        cmocka_unit_test(the_loss_of_many_windows_is_their_sum),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
