/* ctr_inside.c - what bf16 costs in area under the curve, and which operators
 * the time of a training step goes to.
 *
 * The former compares two networks with the same first values that see the same
 * batches in the same order; one thread, so that nothing else differs. A machine
 * that does not multiply bf16 emulates it, with the same rounding.
 */
#include "ctr_inside.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "ctr_single.h"
#include "harness.h"

/* --- area under the curve --------------------------------------------------- */

#define N_SEEDS 5
#define EPOCH_BATCHES (240 * CTR_PER_LARGE)
#define SEED_BATCHES (80 * CTR_PER_LARGE) /* by which their epochs are apart */
#define TEST_BATCHES (50 * CTR_PER_LARGE)
#define TEST_SEED 2

static double auc_of(const ctr_data *d, const ctr_data *test,
                     const ctr_single_spec *spec)
{
    ctr_single s;
    double auc;

    ctr_single_open(&s, spec);
    ctr_single_train(&s, d, spec->seed * SEED_BATCHES, EPOCH_BATCHES);
    auc = ctr_single_auc(&s, test);
    ctr_single_close(&s);
    return auc;
}

void ctr_measure_bf16_auc(const ctr_data *d, const ctr_rule *rule)
{
    ctr_single_spec spec = { .optimizer = rule->name,
                             .settings = rule->settings };
    size_t n = bench_repeats(N_SEEDS);
    double f32[N_SEEDS], off[N_SEEDS], mean = 0;
    char prefix[32];
    ctr_data test;

    n = n < N_SEEDS ? n : N_SEEDS;
    ctr_data_init(&test, TEST_BATCHES, TEST_SEED);
    for (size_t i = 0; i < n; i++) {
        spec.seed = (unsigned)i + 1;
        spec.precision = "f32";
        f32[i] = auc_of(d, &test, &spec);
        spec.precision = "bf16";
        off[i] = auc_of(d, &test, &spec) - f32[i];
        mean += off[i] / (double)n;
    }
    ctr_data_release(&test);
    snprintf(prefix, sizeof prefix, "ctr.bf16.%s", rule->name);
    bench_figure(prefix, "f32_auc", f32, n, "auc");
    bench_figure(prefix, "auc_off", off, n, "auc");
    bench_figure(prefix, "auc_off_mean", &mean, 1, "auc");
}

/* --- shares ----------------------------------------------------------------- */

#define WARM_BATCHES (10 * CTR_PER_LARGE)
#define SHARE_BATCHES (100 * CTR_PER_LARGE)
#define SHOWN 0.001 /* smaller shares are not */

/* One operator of a profile; returns where the next one begins, NULL: none. */
static const char *next_operator(const char *at, char name[64], double *seconds)
{
    const char *time;

    at = strstr(at, "\"name\":\"");
    if (!at)
        return NULL;
    at += strlen("\"name\":\"");
    snprintf(name, 64, "%.*s", (int)strcspn(at, "\""), at);
    time = strstr(at, "\"total_seconds\":");
    *seconds = time ? strtod(time + strlen("\"total_seconds\":"), NULL) : 0;
    return at;
}

static bool is_product(const char *name)
{
    return !strcmp(name, "fc") || !strcmp(name, "fc_grad") ||
           !strcmp(name, "mul") || !strcmp(name, "mul_grad");
}

static void put_shares(const char *prefix, const char *json)
{
    double all = 0, other = 0, x;
    char name[64];

    for (const char *at = json; (at = next_operator(at, name, &x));) {
        all += x;
        other += is_product(name) ? 0 : x;
    }
    for (const char *at = json; (at = next_operator(at, name, &x));) {
        x /= all;
        if (x >= SHOWN)
            bench_figure(prefix, name, &x, 1, "ratio");
    }
    other /= all;
    bench_figure(prefix, "no_product", &other, 1, "ratio");
}

void ctr_measure_shares(const ctr_data *d, const ctr_rule *rule)
{
    const ctr_single_spec spec = { .optimizer = rule->name,
                                   .settings = rule->settings,
                                   .precision = "f32" };
    char prefix[32], *json;
    ctr_single s;

    ctr_single_open(&s, &spec);
    ctr_single_train(&s, d, 0, WARM_BATCHES);
    bench_check(fl_ctx_set(s.ctx, "profile", "true"), "the setting profile");
    ctr_single_train(&s, d, WARM_BATCHES, SHARE_BATCHES);
    json = fl_executor_profile_json(s.exe);
    bench_check_new(json, "a profile");
    snprintf(prefix, sizeof prefix, "ctr.%s.share", rule->name);
    put_shares(prefix, json);
    fl_text_free(json);
    ctr_single_close(&s);
}
