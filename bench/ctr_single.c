/* ctr_single.c - one thread that trains the click network. */
#include "ctr_single.h"

#include <stdio.h>
#include <stdlib.h>

#include "harness.h"

void ctr_single_open(ctr_single *s, const ctr_single_spec *spec)
{
    const ctr_net_spec net = { .optimizer = spec->optimizer,
                               .settings = spec->settings };
    char seed[16];

    snprintf(seed, sizeof seed, "%u", spec->seed);
    bench_check(fl_ctx_new(&s->ctx), "settings");
    bench_check(fl_ctx_set(s->ctx, "seed", seed), "the setting seed");
    bench_check(fl_ctx_set(s->ctx, "precision", spec->precision),
                "the setting precision");
    s->batch = ctr_batch_new();
    s->loss = ctr_net_build(s->ctx, &net).loss;
    bench_check(fl_executor_new(&s->exe, s->ctx), "an executor");
    bench_check(fl_run(s->exe, fl_default_startup_program(s->ctx), NULL),
                "running the startup program");
}

void ctr_single_close(ctr_single *s)
{
    fl_executor_free(s->exe);
    fl_ctx_free(s->ctx);
    free(s->batch);
}

void ctr_single_train(ctr_single *s, const ctr_data *d, size_t first, size_t n)
{
    fl_feed feeds[CTR_FEEDS];
    fl_tensor out;
    fl_run_args args =
        FL_INIT(fl_run_args, .feeds = feeds, .n_feeds = CTR_FEEDS,
                .fetches = &s->loss, .n_fetches = 1, .out = &out);

    for (size_t at = first; at < first + n; at++) {
        ctr_batch_fill(s->batch, d, at, 1, feeds);
        bench_check(fl_run(s->exe, fl_default_main_program(s->ctx), &args),
                    "training step");
    }
}

double ctr_single_auc(const ctr_single *s, const ctr_data *d)
{
    ctr_judge *j = ctr_judge_new();
    double auc;

    for (size_t i = 0; i < CTR_PARTS; i++) {
        fl_tensor t;

        bench_check(
            fl_scope_get(fl_current_scope(s->ctx), ctr_parts[i].name, &t),
            "looking at what was learnt");
        ctr_judge_set(j, &ctr_parts[i], t.data);
    }
    auc = ctr_judge_auc(j, d);
    ctr_judge_free(j);
    return auc;
}
