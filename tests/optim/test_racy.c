/* test_racy.c - threads train the same weights without locks, as hogwild does.
 * Says nothing about values; under ThreadSanitizer it shows that every read and
 * write of shared weights is marked as wanted. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

#include <math.h>

#include "base/thread.h"
#include "kernel/gemm.h"
#include "kernel/rows.h"
#include "kernel/vec.h"
#include "optim/rule.h"

#define N_THREADS 3
#define N_STEPS 20
#define BATCH 20
#define IN 50
#define WIDTH 40 /* at least what our thin loops take */

/* What the threads share: rows, and layers of a usual, a narrow and an odd
   shape, each with the state of a rule. */
static float rows[IN * WIDTH];
static float wide[IN * WIDTH], narrow[IN * 2], bias[WIDTH];
#define RULES_MAX 32
static float states[RULES_MAX][FL_RULE_STATE_MAX][IN * WIDTH];

static void product(fl_trans tb, int64_t n, int64_t k, const float *x,
                    const float *w, float *y)
{
    fl_gemm_shape s = { .tb = tb,
                        .m = BATCH,
                        .n = n,
                        .k = k,
                        .lda = k,
                        .ldb = tb ? k : n,
                        .ldc = n };

    fl_gemm_f32(&s, 1, x, w, 0, y);
}

static void update_all(const float *g)
{
    float *const none[FL_RULE_STATE_MAX] = { NULL };

    for (size_t i = 0; i < fl_rule_count(); i++) {
        float *const state[] = { states[i][0], states[i][1], states[i][2] };
        const fl_rule *r = fl_rule_at(i);
        fl_hyper h = { .lr = 1e-3 };

        fl_rule_defaults(r, h.p);
        if (r->prepare)
            r->prepare(&h);
        r->update_f32(wide, state, g, IN * WIDTH, &h);
    }
    fl_rule_find("sgd")->update_f32(narrow, none, g, IN * 2,
                                    &(fl_hyper){ .lr = 1e-3 });
    fl_rule_find("sgd")->update_f32(bias, none, g, WIDTH,
                                    &(fl_hyper){ .lr = 1e-3 });
}

static void train(void *arg)
{
    static const uint64_t index[BATCH] = { 3, 1, 4, 1, 5, 9, 2, 6 };
    float x[BATCH * IN], y[BATCH * IN], g[IN * WIDTH];

    (void)arg;
    for (size_t i = 0; i < IN * WIDTH; i++)
        g[i] = 0.01f;
    for (size_t i = 0; i < BATCH * IN; i++)
        x[i] = 0.1f;
    for (int step = 0; step < N_STEPS; step++) {
        fl_rows_f32()->gather(x, IN, rows, index, BATCH, WIDTH);
        product(FL_NO_TRANS, WIDTH, IN, x, wide, y);
        product(FL_TRANS, IN, WIDTH, x, wide, y);
        product(FL_NO_TRANS, 2, IN, x, narrow, y);
        product(FL_TRANS, IN, 2, x, narrow, y);
        fl_vec_f32()->bias_act(y, bias, BATCH, WIDTH, WIDTH, FL_ACT_RELU);
        fl_rows_f32()->scatter_axpy(rows, index, BATCH, WIDTH, -0.1f, g, WIDTH);
        update_all(g);
    }
}

static void threads_share_weights_without_locks(void **state)
{
    fl_thread *threads[N_THREADS];

    (void)state;
    assert_true(fl_rule_count() <= RULES_MAX);
    for (size_t i = 0; i < N_THREADS; i++)
        assert_int_equal(fl_thread_start(&threads[i], "racy", train, NULL),
                         FL_OK);
    for (size_t i = 0; i < N_THREADS; i++)
        fl_thread_join(threads[i]);
    assert_int_equal(fl_vec_f32()->find_not_finite(wide, IN * WIDTH),
                     IN * WIDTH);
    assert_true(rows[WIDTH] < 0 && narrow[0] < 0 && bias[0] < 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(threads_share_weights_without_locks),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
