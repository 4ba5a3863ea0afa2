/* test_rule.c - what every update rule must hold, row by row of optims.def. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

#include <math.h>
#include <string.h>

#include "base/hash.h"
#include "optim/rule.h"

#define N 53

#define DECLARE(name, isa) extern const fl_rule name##_##isa;
#define ADDR(name, isa) &name##_##isa,
#define FL_OPTIM(name) FL_ISA_MAP(DECLARE, fl_rule_##name)
#include "optim/optims.def"
#undef FL_OPTIM
static const fl_rule *const rules[][FL_ISA_AVX512 + 1] = {
#define FL_OPTIM(name) { FL_ISA_MAP(ADDR, fl_rule_##name) },
#include "optim/optims.def"
#undef FL_OPTIM
};

/* Weights and state of one parameter, in both precisions. */
typedef struct param {
    float w[N], s[FL_RULE_STATE_MAX][N];
    double w64[N], s64[FL_RULE_STATE_MAX][N];
} param;

static double sample(uint64_t seed, size_t i)
{
    uint64_t bits = fl_mix64(seed * 0x9e3779b97f4a7c15u + i + 1);

    return (double)(int64_t)bits / 9223372036854775808.0;
}

static double setting(const fl_rule *r, const char *name)
{
    for (int i = 0; i < fl_rule_n_params(r); i++)
        if (strcmp(r->params[i].name, name) == 0)
            return r->params[i].value;
    fail_msg("%s has no setting %s", r->name, name);
    return 0;
}

static fl_hyper hyper(const fl_rule *r, double lr)
{
    fl_hyper h = { .lr = lr };

    for (int i = 0; i < fl_rule_n_params(r); i++)
        h.p[i] = r->params[i].value;
    for (int i = 0; i < fl_rule_n_scalars(r); i++)
        h.scalar[i] = r->scalars[i].first_from
                          ? setting(r, r->scalars[i].first_from)
                          : r->scalars[i].first;
    return h;
}

static void start(param *p, const fl_rule *r)
{
    memset(p, 0, sizeof(*p));
    for (size_t i = 0; i < N; i++)
        p->w64[i] = p->w[i] = (float)sample(1, i);
    for (int s = 0; s < fl_rule_n_states(r); s++)
        for (size_t i = 0; i < N; i++)
            p->s64[s][i] = p->s[s][i] = (float)r->states[s].first;
}

static void update_f32(const fl_rule *r, param *p, const float *g, size_t lo,
                       size_t hi, const fl_hyper *h)
{
    float *const state[] = { p->s[0] + lo, p->s[1] + lo, p->s[2] + lo };

    r->update_f32(p->w + lo, state, g + lo, hi - lo, h);
}

static void update_f64(const fl_rule *r, param *p, const double *g, size_t lo,
                       size_t hi, const fl_hyper *h)
{
    double *const state[] = { p->s64[0] + lo, p->s64[1] + lo, p->s64[2] + lo };

    r->update_f64(p->w64 + lo, state, g + lo, hi - lo, h);
}

/* `steps` steps with made-up gradients, in pieces of `piece` weights. */
static void run(const fl_rule *r, param *p, fl_hyper h, int steps, size_t piece)
{
    start(p, r);
    for (int step = 0; step < steps; step++) {
        float g[N];
        double g64[N];

        for (size_t i = 0; i < N; i++)
            g64[i] = g[i] = (float)sample(2 + (uint64_t)step, i);
        if (r->prepare)
            r->prepare(&h);
        for (size_t lo = 0; lo < N; lo += piece) {
            size_t hi = lo + piece < N ? lo + piece : N;

            update_f32(r, p, g, lo, hi, &h);
            update_f64(r, p, g64, lo, hi, &h);
        }
        if (r->advance)
            r->advance(&h);
    }
}

/* Calls check(rule, hyper) for each rule, with its flags off and on, and for
   rules with a power also with one that is not the default. */
static void for_each_rule(void (*check)(const fl_rule *r, const fl_hyper *h))
{
    for (size_t i = 0; i < fl_rule_count(); i++) {
        const fl_rule *r = fl_rule_at(i);
        /* lars_momentum takes a thousandth of it. */
        fl_hyper h = hyper(r, strcmp(r->name, "lars_momentum") ? 0.05 : 5);

        if (strcmp(r->name, "dpsgd") == 0)
            h.p[2] = 0.1; /* sigma: noise that f32 can see */
        check(r, &h);
        for (int k = 0; k < fl_rule_n_params(r); k++)
            if (r->params[k].is_flag) {
                h.p[k] = 1;
                check(r, &h);
            }
        if (strcmp(r->name, "ftrl") != 0)
            continue;
        h.p[0] = h.p[1] = 0.1;
        check(r, &h);
        h.p[2] = -0.7;
        check(r, &h);
    }
}

static void every_rule_is_found_by_its_name(void **state)
{
    const char *const names[] = {
        "sgd",    "momentum",        "adagrad", "adam",
        "ftrl",   "decayed_adagrad", "rmsprop", "lars_momentum",
        "adamax", "adadelta",        "lamb",    "dpsgd"
    };

    (void)state;
    assert_int_equal(fl_rule_count(), FL_LEN(names));
    for (size_t i = 0; i < FL_LEN(names); i++) {
        const fl_rule *r = fl_rule_find(names[i]);

        assert_ptr_equal(r, fl_rule_at(i));
        assert_string_equal(r->name, names[i]);
        assert_true(r->doc && r->doc[0]);
    }
    assert_null(fl_rule_find("none"));
}

static void counts_tell_states_scalars_and_settings(void **state)
{
    const fl_rule *adam = fl_rule_find("adam"), *sgd = fl_rule_find("sgd");

    (void)state;
    assert_int_equal(fl_rule_n_states(adam), 2);
    assert_int_equal(fl_rule_n_scalars(adam), 2);
    assert_int_equal(fl_rule_n_params(adam), 3);
    assert_int_equal(fl_rule_n_states(sgd), 0);
    assert_int_equal(fl_rule_n_scalars(sgd), 0);
    assert_int_equal(fl_rule_n_params(sgd), 0);
}

static void descends(const fl_rule *r, const fl_hyper *start_at)
{
    static param p;
    fl_hyper h = *start_at;
    double before = 0, after = 0;

    start(&p, r);
    for (size_t i = 0; i < N; i++)
        before += (double)(p.w[i] - 0.5f) * (double)(p.w[i] - 0.5f);
    for (int step = 0; step < 300; step++) {
        float g[N];

        for (size_t i = 0; i < N; i++)
            g[i] = p.w[i] - 0.5f;
        if (r->prepare)
            r->prepare(&h);
        update_f32(r, &p, g, 0, N, &h);
        if (r->advance)
            r->advance(&h);
    }
    for (size_t i = 0; i < N; i++)
        after += (double)(p.w[i] - 0.5f) * (double)(p.w[i] - 0.5f);
    assert_true(after < 0.5 * before);
}

static void every_rule_descends_a_quadratic(void **state)
{
    (void)state;
    for_each_rule(descends);
}

static void rows_equal_the_whole(const fl_rule *r, const fl_hyper *h)
{
    static param whole, rows;

    if (r->whole)
        return;
    run(r, &whole, *h, 7, N);
    for (size_t dim = 1; dim <= 17; dim += 4) {
        run(r, &rows, *h, 7, dim);
        assert_memory_equal(&rows, &whole, sizeof(whole));
    }
}

static void row_by_row_gives_the_bits_of_all_at_once(void **state)
{
    (void)state;
    for_each_rule(rows_equal_the_whole);
}

static void precisions_are_near(const fl_rule *r, const fl_hyper *h)
{
    static param p;

    run(r, &p, *h, 20, N);
    for (size_t i = 0; i < N; i++) {
        assert_true(fabs((double)p.w[i] - p.w64[i]) < 1e-5);
        for (int s = 0; s < fl_rule_n_states(r); s++)
            assert_true(fabs((double)p.s[s][i] - p.s64[s][i]) <
                        1e-5 * fmax(1, fabs(p.s64[s][i])));
    }
}

static void single_precision_stays_near_double(void **state)
{
    (void)state;
    for_each_rule(precisions_are_near);
}

static void zero_gradient(const fl_rule *r, const fl_hyper *start_at)
{
    static param p, old;
    const float g[N] = { 0 };
    fl_hyper h = *start_at;
    bool same;

    run(r, &p, h, 3, N);
    p.w[0] = 0.5f; /* ftrl recomputes it from its sums */
    old = p;
    if (r->prepare)
        r->prepare(&h);
    update_f32(r, &p, g, 0, N, &h);
    same = memcmp(&p, &old, sizeof(p)) == 0;
    assert_int_equal(same, r->zero_is_noop);
}

static void a_zero_gradient_does_nothing_where_the_rule_says_so(void **state)
{
    (void)state;
    for_each_rule(zero_gradient);
}

static void no_weights_are_fine(const fl_rule *r, const fl_hyper *start_at)
{
    static param p;
    const float g[1] = { 1 };
    fl_hyper h = *start_at;

    if (r->prepare)
        r->prepare(&h);
    start(&p, r);
    update_f32(r, &p, g, 0, 0, &h);
    assert_true(p.w[0] == (float)sample(1, 0));
}

static void an_empty_parameter_is_fine(void **state)
{
    (void)state;
    for_each_rule(no_weights_are_fine);
}

static void sets_agree(const fl_rule *r, const fl_hyper *h)
{
    static param base, other;
    size_t i = 0;

    while (fl_rule_at(i) != r)
        i++;
    run(rules[i][FL_ISA_BASE], &base, *h, 10, N);
    for (int isa = FL_ISA_AVX2; isa <= (int)fl_isa(); isa++) {
        run(rules[i][isa], &other, *h, 10, N);
        assert_memory_equal(&other, &base, sizeof(base));
    }
}

static void all_instruction_sets_give_the_same_bits(void **state)
{
    (void)state;
    for_each_rule(sets_agree);
}

/* First steps by hand, with g = 2 on w = 1 and a rate of 0.1. */
static void first_steps_follow_the_formulas(void **state)
{
    const struct {
        const char *rule;
        double w;
    } cases[] = {
        { "sgd", 1 - 0.1 * 2 },
        { "momentum", 1 - 0.1 * 2 },
        { "adagrad", 1 - 0.1 * 2 / (2 + 1e-6) },
        { "adam", 1 - 0.1 },
        { "ftrl", (2 / 0.1 - 2) / (2 / 0.1) },
        { "decayed_adagrad", 1 - 0.1 * 2 / (sqrt(0.05 * 4) + 1e-6) },
        { "rmsprop", 1 - 0.1 * 2 / sqrt(0.05 * 4 + 1e-6) },
        { "lars_momentum", 1 - 0.1 * 0.001 / 2.0005 * 2.0005 },
        { "adamax", 1 - 0.1 },
        { "adadelta", 1 - sqrt(1e-6 / (0.05 * 4 + 1e-6)) * 2 },
        { "lamb", 1 - 0.1 },
        { "dpsgd", 1 - 0.1 * 0.9 },
    };

    (void)state;
    for (size_t i = 0; i < FL_LEN(cases); i++) {
        const fl_rule *r = fl_rule_find(cases[i].rule);
        fl_hyper h = hyper(r, 0.1);
        double w = 1, s[FL_RULE_STATE_MAX] = { 0 }, g = 2;
        double *const states[] = { &s[0], &s[1], &s[2] };

        if (r->prepare)
            r->prepare(&h);
        r->update_f64(&w, states, &g, 1, &h);
        assert_true(fabs(w - cases[i].w) < 1e-7);
    }
}

static void adam_advances_its_powers_after_the_step(void **state)
{
    const fl_rule *r = fl_rule_find("adam");
    fl_hyper h = hyper(r, 0.1);

    (void)state;
    assert_true(h.scalar[0] == 0.9 && h.scalar[1] == 0.999);
    r->prepare(&h);
    assert_true(h.scalar[0] == 0.9 && h.scalar[1] == 0.999);
    r->advance(&h);
    assert_true(h.scalar[0] == 0.9 * 0.9 && h.scalar[1] == 0.999 * 0.999);
}

static void ftrl_cuts_weights_within_l1_to_zero(void **state)
{
    const fl_rule *r = fl_rule_find("ftrl");
    fl_hyper h = hyper(r, 0.1);
    float w[3] = { 0.3f, 0, 0 }, sq[3] = { 0 }, z[3] = { 0 };
    const float g[3] = { 0, 0.05f, -0.5f };
    float *const states[] = { sq, z };

    (void)state;
    h.p[0] = 0.1;
    r->update_f32(w, states, g, 3, &h);
    assert_true(w[0] == 0 && !signbit(w[0]));
    assert_true(w[1] == 0 && !signbit(w[1]));
    assert_true(w[2] > 0);
}

/* Two weights of different size share one rate: that of lamb is |w| / |r|, and
   the correction makes the first r the sign of the gradient. */
static void lamb_steps_are_as_long_as_the_parameter(void **state)
{
    const fl_rule *r = fl_rule_find("lamb");
    fl_hyper h = hyper(r, 0.1);
    double w[2] = { 3, 4 }, m[2] = { 0 }, v[2] = { 0 };
    double *const states[] = { m, v };
    const double g[2] = { 1e-3, -7 };

    (void)state;
    h.p[3] = 0; /* no decay */
    r->prepare(&h);
    r->update_f64(w, states, g, 2, &h);
    assert_true(fabs(w[0] - (3 - 0.1 * 5 / sqrt(2))) < 1e-3);
    assert_true(fabs(w[1] - (4 + 0.1 * 5 / sqrt(2))) < 1e-3);
    r->advance(&h);
    assert_true(h.scalar[0] == 0.9 * 0.9 && h.scalar[1] == 0.999 * 0.999);
}

static void lamb_and_lars_move_a_parameter_of_zeros(void **state)
{
    static const char *const names[] = { "lamb", "lars_momentum" };

    (void)state;
    for (size_t i = 0; i < FL_LEN(names); i++) {
        const fl_rule *r = fl_rule_find(names[i]);
        fl_hyper h = hyper(r, 0.1);
        float w[2] = { 0 }, s0[2] = { 0 }, s1[2] = { 0 };
        float *const states[] = { s0, s1 };
        const float g[2] = { 1, -1 };

        if (r->prepare)
            r->prepare(&h);
        r->update_f32(w, states, g, 2, &h);
        assert_true(w[0] < 0 && w[1] > 0);
    }
}

static void dpsgd_cuts_the_gradient_and_draws_for_each_weight(void **state)
{
    enum { MANY = 4000 };
    const fl_rule *r = fl_rule_find("dpsgd");
    fl_hyper h = hyper(r, 1);
    static double w[MANY], g[MANY], again[MANY];
    double sum = 0, squares = 0;

    (void)state;
    for (size_t i = 0; i < MANY; i++)
        g[i] = 3;
    h.p[0] = 1;  /* clip: the length of g is 3 sqrt(MANY) */
    h.p[1] = 16; /* batch_size */
    h.p[2] = 8;  /* sigma */
    h.stream = 5;
    r->update_f64(w, NULL, g, MANY, &h);
    r->update_f64(again, NULL, g, MANY, &h);
    assert_memory_equal(w, again, sizeof(w));
    for (size_t i = 0; i < MANY; i++) {
        double noise = w[i] + 1 / sqrt(MANY);

        sum += noise;
        squares += noise * noise;
    }
    assert_true(fabs(sum / MANY) < 0.04);
    assert_true(fabs(sqrt(squares / MANY) - 0.5) < 0.03);
    h.stream = 6;
    r->update_f64(again, NULL, g, MANY, &h);
    assert_true(again[0] - w[0] != w[0]);
}

static void adadelta_does_not_look_at_the_rate(void **state)
{
    const fl_rule *r = fl_rule_find("adadelta");
    static param a, b;

    (void)state;
    assert_true(r->own_rate);
    run(r, &a, hyper(r, 0.1), 5, N);
    run(r, &b, hyper(r, 7), 5, N);
    assert_memory_equal(&a, &b, sizeof(a));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_rule_is_found_by_its_name),
        cmocka_unit_test(counts_tell_states_scalars_and_settings),
        cmocka_unit_test(every_rule_descends_a_quadratic),
        cmocka_unit_test(row_by_row_gives_the_bits_of_all_at_once),
        cmocka_unit_test(single_precision_stays_near_double),
        cmocka_unit_test(a_zero_gradient_does_nothing_where_the_rule_says_so),
        cmocka_unit_test(an_empty_parameter_is_fine),
        cmocka_unit_test(all_instruction_sets_give_the_same_bits),
        cmocka_unit_test(first_steps_follow_the_formulas),
        cmocka_unit_test(adam_advances_its_powers_after_the_step),
        cmocka_unit_test(ftrl_cuts_weights_within_l1_to_zero),
        cmocka_unit_test(lamb_steps_are_as_long_as_the_parameter),
        cmocka_unit_test(lamb_and_lars_move_a_parameter_of_zeros),
        cmocka_unit_test(dpsgd_cuts_the_gradient_and_draws_for_each_weight),
        cmocka_unit_test(adadelta_does_not_look_at_the_rate),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
