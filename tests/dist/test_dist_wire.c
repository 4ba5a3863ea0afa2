/* test_dist_wire.c - jobs whose values and gradients travel as bf16: what they
 * learn, what they send, and who does not agree. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/status.h"
#include "dist_procs.h"
#include "mode_list.h"
#include "../make.h"

#define STEPS 60
#define BF16                                                                   \
    { "wire_pull", "bf16" },                                                   \
    {                                                                          \
        "wire_push", "bf16"                                                    \
    }

static bool reads_wire(const char *mode)
{
    return fl_mode_reads(fl_mode_find(mode), "wire_pull");
}

/* --- jobs of processes ---------------------------------------------------- */

/* What trainer 0 saw. */
typedef struct seen {
    double loss; /* of all steps, on the average */
    uint64_t bytes;
} seen;

static fl_status train(kit_trainer *t, void *arg)
{
    seen *s = arg;
    fl_job_stats stats = FL_INIT(fl_job_stats);
    fl_status st = FL_OK;
    double sum = 0;

    for (int step = 0; !st && step < STEPS; step++) {
        st = kit_step(t, step);
        sum += t->last_loss;
    }
    if (!st)
        st = fl_job_get_stats(fl_transpiler_job(t->transpiler), &stats);
    if (t->rank == 0)
        *s = (seen){ sum / STEPS, stats.sent_bytes + stats.received_bytes };
    return st;
}

static seen run(const char *mode, const char *wire)
{
    procs p = { .kit = { .mode = mode,
                         .n_servers = 2,
                         .n_trainers = 2,
                         .n_steps = STEPS,
                         .words = "learning_rate=0.05",
                         .settings = { { "wire_pull", wire },
                                       { "wire_push", wire } } },
                .work = train,
                .arg = procs_share(sizeof(seen)) };

    procs_start(&p);
    procs_end(&p);
    return *(seen *)p.arg;
}

static void every_mode_that_can_trains_alike_with_fewer_bytes(void **state)
{
    int n = 0;

    (void)state;
    for (size_t i = 0; mode_name(i); i++) {
        seen f32, bf16;

        if (!reads_wire(mode_name(i)))
            continue;
        n++;
        f32 = run(mode_name(i), "f32");
        bf16 = run(mode_name(i), "bf16");
        assert_true(fabs(bf16.loss - f32.loss) < 0.05);
        if (!(bf16.bytes < f32.bytes * 3 / 4))
            fail_msg("%s: %llu bytes with bf16, %llu with f32", mode_name(i),
                     (unsigned long long)bf16.bytes,
                     (unsigned long long)f32.bytes);
    }
    assert_int_equal(n, 3);
}

/* --- what is promised ----------------------------------------------------- */

static kit_job sync_job(int n_servers)
{
    return (kit_job){ .n_servers = n_servers,
                      .n_trainers = 2,
                      .n_steps = STEPS,
                      .settings = { BF16 } };
}

static void sync_has_the_same_bits_on_any_number_of_servers(void **state)
{
    kit_job one = sync_job(1), three = sync_job(3);
    kit_end a, b;

    (void)state;
    kit_train(&one, &a);
    kit_train(&three, &b);
    assert_memory_equal(&a.model, &b.model, sizeof(a.model));
}

/* Numbers of 8 bits, 60 steps. */
static void sync_is_near_training_alone(void **state)
{
    kit_job j = sync_job(2);
    kit_model alone;
    kit_end end;
    double error;

    (void)state;
    kit_train_alone(&j, &alone);
    kit_train(&j, &end);
    error = kit_error(&end.model, &alone);
    if (!(error > 0 && error < 0.02))
        fail_msg("error %g", error);
}

/* In async a trainer leaves with what the servers have, bit by bit. */
static fl_status train_and_leave(kit_trainer *t, void *arg)
{
    fl_job *job = fl_transpiler_job(t->transpiler);
    float *pulled = arg;
    fl_status st = FL_OK;
    fl_tensor here;

    for (int step = 0; !st && step < t->job->n_steps; step++)
        st = kit_step(t, step);
    if (!st)
        st = fl_job_stop(job);
    if (!st)
        st = fl_scope_get(fl_current_scope(t->ctx), "fc1_w", &here);
    if (!st)
        memcpy(pulled, here.data, sizeof(((kit_model *)0)->fc1_w));
    return st;
}

static bool is_short(float x)
{
    uint32_t bits;

    memcpy(&bits, &x, sizeof(bits));
    return !(bits & 0xffff);
}

static void what_a_trainer_has_in_the_end_is_not_rounded(void **state)
{
    kit_job j = { .mode = "async",
                  .n_servers = 1,
                  .n_trainers = 1,
                  .n_steps = 20,
                  .settings = { BF16 } };
    float w[sizeof(((kit_model *)0)->fc1_w) / sizeof(float)] = { 0 };
    kit_text texts[KIT_MEMBERS] = { 0 };
    size_t n_short = 0;

    (void)state;
    kit_run(&j, train_and_leave, w, NULL, texts);
    for (size_t i = 0; i < FL_LEN(w); i++)
        n_short += is_short(w[i]);
    assert_in_range(n_short, 0, FL_LEN(w) / 4);
}

/* --- who does not agree --------------------------------------------------- */

static void disagree(const procs *p, int member)
{
    if (member == procs_trainer(p, 1))
        setenv("FLOTILLA_WIRE_PUSH", "bf16", 1);
}

static void a_trainer_with_another_setting_is_refused_by_name(void **state)
{
    procs p = { .kit = { .n_servers = 1, .n_trainers = 2, .n_steps = STEPS },
                .work = kit_do_nothing,
                .first = disagree };
    const char *text;

    (void)state;
    /* The other one may come, or come back from joining, when the job has ended,
       and looks for it so long. */
    procs_set(&p, "connect_timeout_ms", "5000");
    procs_set(&p, "restart_timeout_ms", "5000");
    procs_start(&p);
    for (int i = 0; i < procs_count(&p); i++)
        (void)procs_wait(&p, i);
    text = p.texts[procs_trainer(&p, 1)];
    if (!strstr(text, "wire_push=bf16"))
        fail_msg("expected wire_push=bf16 in '%s'", text);
}

static void modes_that_add_up_differences_refuse_it(void **state)
{
    (void)state;
    for (size_t i = 0; job_mode_name(i); i++) {
        const char *mode = job_mode_name(i);
        fl_ctx *c = make_ctx();
        fl_transpiler *t = NULL;
        kit_job j = { .mode = mode };

        assert_non_null(kit_build(c, &j));
        assert_ok(fl_ctx_set(c, "wire_push", "bf16"));
        if (!reads_wire(mode)) {
            assert_int_equal(fl_transpile(&t, c, .role = FL_ROLE_WORKER,
                                          .pservers = "127.0.0.1:1",
                                          .mode = mode),
                             FL_ERR_INVAL);
            assert_non_null(strstr(fl_last_error(), mode));
            assert_non_null(strstr(fl_last_error(), "wire_push=bf16"));
        }
        fl_ctx_free(c);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_mode_that_can_trains_alike_with_fewer_bytes),
        cmocka_unit_test(sync_has_the_same_bits_on_any_number_of_servers),
        cmocka_unit_test(sync_is_near_training_alone),
        cmocka_unit_test(what_a_trainer_has_in_the_end_is_not_rounded),
        cmocka_unit_test(a_trainer_with_another_setting_is_refused_by_name),
        cmocka_unit_test(modes_that_add_up_differences_refuse_it),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
