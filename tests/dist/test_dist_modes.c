/* test_dist_modes.c - what half_async, async and geo promise, and what all
 * modes do with clipping, schedules and bad numbers. */
#include <math.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/status.h"
#include "ctx/ctx.h"
#include "dist_kit.h"
#include "mode_list.h"
#include "optim/rule.h"
#include "../make.h"

static void expect_equal(const kit_job *j, const kit_job *alone,
                         double tolerance)
{
    kit_job job = *j;
    kit_model model;
    kit_end end;
    double error;

    kit_train_alone(alone, &model);
    job.awaited = &model;
    job.tolerance = tolerance;
    kit_train(&job, &end);
    error = kit_error(&end.model, &model);
    if (!(error <= tolerance))
        fail_msg("%s: error %g is above %g", j->mode, error, tolerance);
}

/* --- half_async ----------------------------------------------------------- */

static void half_async_averages_the_threads_of_a_trainer(void **state)
{
    kit_job alone = { .n_trainers = 2,
                      .n_steps = 60,
                      .optimizer = "adagrad",
                      .words = "learning_rate=0.05" };
    kit_job j = { .mode = "half_async",
                  .n_servers = 2,
                  .n_steps = 60,
                  .n_threads = 2,
                  .optimizer = "adagrad",
                  .words = "learning_rate=0.05",
                  .settings = { { "prefetch", "false" } } };

    (void)state;
    expect_equal(&j, &alone, 1e-4);
}

static void half_async_threads_may_have_unequal_data(void **state)
{
    kit_job j = { .mode = "half_async",
                  .n_trainers = 2,
                  .n_threads = 2,
                  .n_steps = 30,
                  .steps = { 30, 7, 12, 30 } };
    kit_end end;

    (void)state;
    kit_train(&j, &end);
    for (int i = 0; i < 2; i++)
        assert_int_equal(end.stats[i].gradients_made,
                         end.stats[i].gradients_applied);
}

/* --- async ---------------------------------------------------------------- */

static void async_applies_every_gradient_that_was_made(void **state)
{
    kit_job j = { .mode = "async",
                  .n_servers = 2,
                  .n_trainers = 2,
                  .n_threads = 2,
                  .n_steps = 50,
                  .words = "learning_rate=0.02",
                  .settings = { { "communicator_send_queue_size", "3" },
                                { "communicator_max_merge_var_num", "2" } } };
    kit_end end;

    (void)state;
    kit_train(&j, &end);
    for (int i = 0; i < 2; i++) {
        /* 4 dense parameters and one table, 2 threads, 50 batches. */
        assert_int_equal(end.stats[i].gradients_made, 5 * 2 * 50);
        assert_int_equal(end.stats[i].gradients_applied, 5 * 2 * 50);
    }
}

static fl_status train_and_stop(kit_trainer *t, void *arg)
{
    fl_job_stats *stats = arg;
    fl_status st = FL_OK;

    for (int step = 0; !st && step < t->job->n_steps; step++)
        st = kit_step(t, step);
    if (!st)
        st = fl_job_barrier(fl_transpiler_job(t->transpiler));
    if (!st)
        st = fl_job_stop(fl_transpiler_job(t->transpiler));
    stats[t->rank] = FL_INIT(fl_job_stats);
    must(fl_job_get_stats(fl_transpiler_job(t->transpiler), &stats[t->rank]));
    return st;
}

static void queues_are_drained_at_the_end_in_every_mode(void **state)
{
    (void)state;
    for (size_t i = 0; job_mode_name(i); i++) {
        kit_job j = { .mode = job_mode_name(i),
                      .n_servers = 2,
                      .n_trainers = 2,
                      .n_steps = 23,
                      .words = "learning_rate=0.02",
                      .settings = { { "geo_need_push_nums", "5" } } };
        fl_job_stats stats[2] = { 0 };
        kit_text texts[KIT_MEMBERS] = { 0 };

        kit_run(&j, train_and_stop, stats, NULL, texts);
        for (int k = 0; k < 2; k++) {
            assert_true(stats[k].gradients_made > 0);
            assert_int_equal(stats[k].gradients_made,
                             stats[k].gradients_applied);
        }
    }
}

static void async_learns(void **state)
{
    kit_job j = { .mode = "async",
                  .n_servers = 1,
                  .n_trainers = 2,
                  .n_steps = 150,
                  .words = "learning_rate=0.05" };
    kit_end end;

    (void)state;
    kit_train(&j, &end);
    assert_true(isfinite(end.last_loss));
    assert_true(end.last_loss < 1.5);
}

static void async_replicas_end(void **state)
{
    kit_job j = { .mode = "async",
                  .n_servers = 1,
                  .n_trainers = 2,
                  .n_replicas = 2,
                  .n_steps = 40,
                  .words = "learning_rate=0.05" };
    kit_end end;

    (void)state;
    kit_train(&j, &end);
    assert_true(isfinite(end.last_loss) && end.last_loss < 3);
}

static void async_without_its_recv_thread_works(void **state)
{
    kit_job j = { .mode = "async",
                  .n_servers = 2,
                  .n_trainers = 2,
                  .n_steps = 40,
                  .words = "learning_rate=0.05",
                  .settings = {
                      { "communicator_independent_recv_thread", "false" },
                      { "communicator_is_sgd_optimizer", "false" },
                      { "communicator_thread_pool_size", "1" } } };
    kit_end end;

    (void)state;
    kit_train(&j, &end);
    assert_true(isfinite(end.last_loss) && end.last_loss < 3);
}

static double bias_of(const kit_trainer *t)
{
    fl_tensor b = { 0 };

    if (fl_scope_get(fl_current_scope(t->ctx), "fc2_b", &b))
        return NAN;
    return ((const float *)b.data)[0];
}

/* --- geo ------------------------------------------------------------------ */

static void geo_with_one_trainer_and_every_step_is_local_training(void **state)
{
    kit_job j = { .mode = "geo",
                  .n_servers = 2,
                  .n_steps = 60,
                  .settings = { { "geo_need_push_nums", "1" } } };

    (void)state;
    expect_equal(&j, &j, 1e-6);
    j.optimizer = "adagrad";
    expect_equal(&j, &j, 1e-6);
}

static void geo_without_a_table_exchanges_dense_parameters(void **state)
{
    kit_job j = { .mode = "geo",
                  .n_servers = 1,
                  .n_trainers = 2,
                  .n_steps = 60,
                  .is_dense = true,
                  .settings = { { "geo_need_push_nums", "4" } } };
    kit_model first;
    kit_end end;

    (void)state;
    j.n_steps = 0;
    kit_train_alone(&j, &first);
    j.n_steps = 60;
    kit_train(&j, &end);
    assert_true(kit_error(&end.model, &first) > 0.01);
}

static fl_status settle(const kit_trainer *t)
{
    return t->ctx->comm->life->settle(t->ctx->comm);
}

/* Trainer 1 has all of the data, and waits until trainer 0 has what was there
   before it; trainer 0 looks again when that is trained. */
static fl_status train_or_look_on(kit_trainer *t, void *arg)
{
    fl_job *job = fl_transpiler_job(t->transpiler);
    double before = bias_of(t);
    fl_status st = fl_job_barrier(job);

    (void)arg;
    for (int i = 0; t->rank == 1 && i < t->job->n_steps && !st; i++)
        st = kit_step(t, i);
    FL_TRY(st);
    FL_TRY(settle(t));
    FL_TRY(fl_job_barrier(job));
    FL_TRY(settle(t));
    if (bias_of(t) == before)
        FL_FAIL(FL_ERR_INVAL, "trainer %d has learned nothing", t->rank);
    return FL_OK;
}

static void geo_brings_news_to_a_trainer_without_a_batch(void **state)
{
    kit_job j = {
        .mode = "geo", .n_servers = 1, .n_trainers = 2, .n_steps = 10
    };
    kit_text texts[KIT_MEMBERS] = { 0 };

    (void)state;
    kit_run(&j, train_or_look_on, NULL, NULL, texts);
    for (int i = 0; i < KIT_MEMBERS; i++)
        assert_string_equal(texts[i], "");
}

static void expect_refused_in_geo(const fl_rule *r)
{
    kit_job j = {
        .mode = "geo", .n_steps = 1, .optimizer = r->name, .is_dense = r->whole
    };
    fl_ctx *c = make_ctx();
    fl_transpiler *t;

    assert_non_null(kit_build(c, &j));
    assert_int_not_equal(
        fl_transpile(&t, c, .pservers = "127.0.0.1:7000", .mode = "geo"),
        FL_OK);
    assert_non_null(strstr(fl_last_error(), r->name));
    assert_non_null(strstr(fl_last_error(), "adagrad"));
    fl_ctx_free(c);
}

static void geo_refuses_what_is_not_safe(void **state)
{
    (void)state;
    for (size_t i = 0; i < fl_rule_count(); i++)
        if (!fl_rule_at(i)->geo_safe)
            expect_refused_in_geo(fl_rule_at(i));
}

/* Whose norm no server could know. */
static void rules_that_need_a_whole_parameter_have_no_tables(void **state)
{
    (void)state;
    for (size_t i = 0; i < fl_rule_count(); i++) {
        const fl_rule *r = fl_rule_at(i);
        kit_job j = { .n_steps = 1, .optimizer = r->name };
        fl_ctx *c = make_ctx();
        fl_transpiler *t;

        if (r->whole) {
            assert_non_null(kit_build(c, &j));
            assert_int_not_equal(
                fl_transpile(&t, c, .pservers = "127.0.0.1:7000"), FL_OK);
            assert_non_null(strstr(fl_last_error(), r->name));
            assert_non_null(strstr(fl_last_error(), "tables do not have"));
        }
        fl_ctx_free(c);
    }
}

/* --- all modes ------------------------------------------------------------ */

/* One trainer that waits for each of its steps is training alone; async does
   not wait. */
static void expect_like_alone(kit_job *j, double tolerance)
{
    j->n_servers = 2;
    j->settings[0] = (kit_setting){ "prefetch", "false" };
    j->settings[1] = (kit_setting){ "geo_need_push_nums", "1" };
    if (strcmp(j->mode, "async"))
        expect_equal(j, j, tolerance);
    else
        kit_train(j, &(kit_end){ 0 });
}

static void clipping_works_in_every_mode(void **state)
{
    (void)state;
    for (size_t i = 0; job_mode_name(i); i++) {
        kit_job j = { .mode = job_mode_name(i),
                      .n_steps = 30,
                      .words = "learning_rate=0.1, "
                               "grad_clip=global_norm(0.1)" };

        expect_like_alone(&j, 1e-6);
    }
}

static void every_schedule_follows_the_global_step(void **state)
{
    const kit_schedule *s;

    (void)state;
    for (size_t k = 0; (s = kit_schedule_at(k)); k++)
        for (size_t i = 0; job_mode_name(i); i++) {
            kit_job j = { .mode = job_mode_name(i),
                          .n_steps = 14,
                          .schedule = s->make };

            expect_like_alone(&j, 1e-6);
        }
}

static bool allows(const char *mode, const fl_rule *r)
{
    return r->geo_safe || strcmp(mode, "geo");
}

static void every_optimizer_works_in_the_modes_that_allow_it(void **state)
{
    (void)state;
    for (size_t k = 0; k < fl_rule_count(); k++)
        for (size_t i = 0; job_mode_name(i); i++) {
            const fl_rule *r = fl_rule_at(k);
            kit_job j = { .mode = job_mode_name(i),
                          .n_steps = 20,
                          .optimizer = r->name,
                          .words = "learning_rate=0.05",
                          .is_dense = r->whole };

            if (allows(j.mode, r))
                expect_like_alone(&j, 1e-4);
        }
}

static void accumulation_works_in_every_mode(void **state)
{
    kit_job alone = { .n_steps = 10, .joined = 3, .optimizer = "adagrad" };

    (void)state;
    for (size_t i = 0; job_mode_name(i); i++) {
        kit_job j = { .mode = job_mode_name(i),
                      .n_servers = 2,
                      .n_steps = 30,
                      .optimizer = "adagrad",
                      .words = "learning_rate=0.1, accumulate=3",
                      .settings = { { "prefetch", "false" },
                                    { "geo_need_push_nums", "1" } } };

        if (strcmp(j.mode, "async"))
            expect_equal(&j, &alone, 1e-4); /* three sums in another order */
        else
            kit_train(&j, &(kit_end){ 0 });
    }
}

/* Every member is a thread that builds its own; servers do not use it. */
static _Thread_local fl_average *average;
static fl_average *averages[MODES_MAX * KIT_MEMBERS];
static atomic_size_t n_averages;

static fl_var *build_with_average(fl_ctx *c, const kit_job *j)
{
    fl_var *loss = kit_build(c, j);

    if (!loss ||
        fl_average_new(&average, c, "exponential", .settings = "decay=0.8"))
        return NULL;
    averages[atomic_fetch_add(&n_averages, 1)] = average;
    return loss;
}

/* The average against one that is kept by hand, and the parameter again. */
static fl_status check_average(const kit_trainer *t, double want)
{
    double before = bias_of(t), error;

    FL_TRY(fl_average_apply(average));
    error = fabs(bias_of(t) - want);
    FL_TRY(fl_average_restore(average));
    if (!(error < 1e-6) || !(bias_of(t) == before))
        FL_FAIL(FL_ERR_INVAL, "the average is off by %g", error);
    return FL_OK;
}

static fl_status train_with_average(kit_trainer *t, void *arg)
{
    double sum = 0, weight = 0;
    fl_status st = FL_OK;

    (void)arg;
    for (int i = 0; i < t->job->n_steps && !st; i++) {
        st = kit_step(t, i);
        sum = 0.8 * sum + 0.2 * bias_of(t);
        weight = 0.8 * weight + 0.2;
    }
    return st ? st : check_average(t, sum / weight);
}

/* Where parameters change beside the runs, it is applied to none. */
static void averages_take_in_what_the_servers_made(void **state)
{
    (void)state;
    for (size_t i = 0; job_mode_name(i); i++) {
        kit_job j = { .mode = job_mode_name(i),
                      .build = build_with_average,
                      .n_steps = 10 };
        bool beside = !strcmp(j.mode, "async") || !strcmp(j.mode, "geo");
        kit_text texts[KIT_MEMBERS] = { 0 };

        kit_run(&j, train_with_average, NULL, NULL, texts);
        if (beside)
            assert_non_null(strstr(texts[1], "stop the job before"));
        else
            assert_string_equal(texts[1], "");
    }
    for (size_t i = 0; i < n_averages; i++)
        fl_average_free(averages[i]);
}

static fl_status train_side_by_side(kit_trainer *t, void *arg)
{
    fl_status st = FL_OK;

    (void)arg;
    for (int step = 0; !st && step < t->job->n_steps; step++) {
        st = kit_step(t, step);
        if (!st)
            st = fl_job_barrier(fl_transpiler_job(t->transpiler));
    }
    return st;
}

static void the_global_step_is_the_sum_of_the_trainers(void **state)
{
    kit_job j = { .mode = "half_async", .n_trainers = 2, .n_steps = 25 };
    kit_text texts[KIT_MEMBERS] = { 0 };
    kit_end end;

    (void)state;
    kit_run(&j, train_side_by_side, NULL, &end, texts);
    for (int i = 0; i < KIT_MEMBERS; i++)
        assert_string_equal(texts[i], "");
    /* Both have told of at least 22 batches when trainer 0 last heard of it,
       and it has begun two of its own since. */
    assert_in_range(end.step, 2 * 22 + 2, 2 * 25);
}

static fl_status feed_nan(kit_trainer *t, void *arg)
{
    kit_batch *b = kit_batch_make(t->job, t->rank, t->rank + 1, 0);
    const fl_feed *feeds = kit_batch_feeds(b);
    fl_run_args args =
        FL_INIT(fl_run_args, .feeds = feeds, .n_feeds = KIT_FEEDS);
    fl_status st;

    (void)arg;
    ((float *)feeds[KIT_SLOTS].value.data)[0] = NAN;
    st = fl_run(t->exe, fl_transpiler_trainer(t->transpiler), &args);
    kit_batch_free(b);
    return st;
}

static void a_number_that_is_none_is_named_in_every_mode(void **state)
{
    (void)state;
    for (size_t i = 0; job_mode_name(i); i++) {
        kit_job j = { .mode = job_mode_name(i),
                      .n_steps = 1,
                      .settings = { { "check_nan_inf", "true" },
                                    { "restart_timeout_ms", "500" } } };
        kit_text texts[KIT_MEMBERS] = { 0 };

        kit_run(&j, feed_nan, NULL, NULL, texts);
        /* The trainer's, whether there is a server before it or not. */
        if (!strstr(texts[0], "nan") && !strstr(texts[1], "nan"))
            fail_msg("%s: '%s' does not name the NaN", job_mode_name(i),
                     texts[1]);
    }
}

static void a_program_that_was_not_started_says_so(void **state)
{
    kit_job j = { .n_steps = 1 };
    fl_ctx *c = make_ctx();
    fl_executor *e = make_executor(c);
    kit_batch *b = kit_batch_make(&j, 0, 1, 0);
    fl_run_args args =
        FL_INIT(fl_run_args, .feeds = kit_batch_feeds(b), .n_feeds = KIT_FEEDS);
    fl_transpiler *t;

    (void)state;
    assert_ok(fl_ctx_set(c, "connect_timeout_ms", "100"));
    assert_non_null(kit_build(c, &j));
    assert_ok(fl_transpile(&t, c, .pservers = "127.0.0.1:7001"));
    assert_int_not_equal(fl_run(e, fl_transpiler_trainer(t), &args), FL_OK);
    assert_non_null(strstr(fl_last_error(), "startup"));
    fl_transpiler_free(t);
    kit_batch_free(b);
    fl_executor_free(e);
    fl_ctx_free(c);
}

/* What a process is follows from its role, not from what it looks at. */
static void looking_at_programs_does_not_change_a_role(void **state)
{
    kit_job j = { .n_steps = 1 };
    fl_ctx *c = make_ctx();
    fl_executor *e = make_executor(c);
    fl_transpiler *t;

    (void)state;
    assert_non_null(kit_build(c, &j));
    assert_ok(fl_transpile(&t, c, .pservers = "127.0.0.1:7001",
                           .role = FL_ROLE_SERVER));
    assert_non_null(fl_transpiler_trainer(t));
    assert_non_null(fl_transpiler_server(t, "127.0.0.1:7001"));
    assert_int_equal(fl_run(e, fl_transpiler_trainer_startup(t), NULL),
                     FL_ERR_INVAL);
    assert_int_equal(fl_job_barrier(fl_transpiler_job(t)), FL_ERR_INVAL);
    assert_non_null(strstr(fl_last_error(), "this process is a server"));
    fl_transpiler_free(t);
    assert_ok(fl_transpile(&t, c, .pservers = "127.0.0.1:7001"));
    assert_int_equal(fl_run(e, fl_transpiler_server(t, "127.0.0.1:7001"), NULL),
                     FL_ERR_INVAL);
    assert_non_null(strstr(fl_last_error(), "FL_ROLE_SERVER"));
    assert_int_equal(fl_transpile(&t, c, .role = (fl_role_kind)7),
                     FL_ERR_INVAL);
    fl_transpiler_free(t);
    fl_executor_free(e);
    fl_ctx_free(c);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(half_async_averages_the_threads_of_a_trainer),
        cmocka_unit_test(half_async_threads_may_have_unequal_data),
        cmocka_unit_test(async_applies_every_gradient_that_was_made),
        cmocka_unit_test(queues_are_drained_at_the_end_in_every_mode),
        cmocka_unit_test(async_learns),
        cmocka_unit_test(async_replicas_end),
        cmocka_unit_test(async_without_its_recv_thread_works),
        cmocka_unit_test(geo_with_one_trainer_and_every_step_is_local_training),
        cmocka_unit_test(geo_without_a_table_exchanges_dense_parameters),
        cmocka_unit_test(geo_brings_news_to_a_trainer_without_a_batch),
        cmocka_unit_test(geo_refuses_what_is_not_safe),
        cmocka_unit_test(rules_that_need_a_whole_parameter_have_no_tables),
        cmocka_unit_test(clipping_works_in_every_mode),
        cmocka_unit_test(every_schedule_follows_the_global_step),
        cmocka_unit_test(every_optimizer_works_in_the_modes_that_allow_it),
        cmocka_unit_test(accumulation_works_in_every_mode),
        cmocka_unit_test(averages_take_in_what_the_servers_made),
        cmocka_unit_test(the_global_step_is_the_sum_of_the_trainers),
        cmocka_unit_test(a_number_that_is_none_is_named_in_every_mode),
        cmocka_unit_test(a_program_that_was_not_started_says_so),
        cmocka_unit_test(looking_at_programs_does_not_change_a_role),
    };

    return cmocka_run_group_tests_name("dist modes", tests, NULL, NULL);
}
