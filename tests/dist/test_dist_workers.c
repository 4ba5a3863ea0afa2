/* test_dist_workers.c - jobs without servers: every trainer is one, too. */
#include "dist_kit.h"
#include "mode_list.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "dist/job.h"

/* --- what they come to ---------------------------------------------------- */

static void expect_as_alone(kit_job j, double tolerance)
{
    kit_model *alone = fl_alloc(sizeof(*alone));
    kit_end *end = fl_alloc(sizeof(*end));
    double error;

    kit_train_alone(&j, alone);
    kit_train(&j, end);
    error = kit_error(&end->model, alone);
    if (error > tolerance)
        fail_msg("%d workers are %g away from one process", j.n_trainers,
                 error);
    fl_free(end);
    fl_free(alone);
}

static void workers_in_step_are_as_one_process(void **state)
{
    (void)state;
    for (int n = 1; n <= KIT_TRAINERS; n++)
        expect_as_alone(
            (kit_job){ .workers_serve = true, .n_trainers = n, .n_steps = 20 },
            1e-6);
    expect_as_alone((kit_job){ .workers_serve = true,
                               .n_trainers = 3,
                               .n_steps = 20,
                               .optimizer = "adam",
                               .words = "learning_rate=0.01" },
                    1e-4);
}

static void they_hold_what_servers_would(void **state)
{
    kit_job with = { .n_servers = 2, .n_trainers = 3, .n_steps = 10 };
    kit_job without = { .workers_serve = true, .n_trainers = 3, .n_steps = 10 };
    kit_end *a = fl_alloc(sizeof(*a)), *b = fl_alloc(sizeof(*b));

    (void)state;
    kit_train(&with, a);
    kit_train(&without, b);
    assert_int_equal(a->hash, b->hash);
    assert_int_equal(a->step, b->step);
    fl_free(a);
    fl_free(b);
}

static void workers_train_in_every_mode(void **state)
{
    const char *mode;
    kit_end *end = fl_alloc(sizeof(*end));

    (void)state;
    for (size_t i = 0; (mode = mode_name(i)); i++) {
        kit_job j = {
            .mode = mode, .workers_serve = true, .n_trainers = 2, .n_steps = 60
        };

        kit_train(&j, end);
        if (!(end->last_loss < 3))
            fail_msg("mode %s: the loss is %g", mode, end->last_loss);
    }
    fl_free(end);
}

static void a_worker_that_is_done_serves_the_others(void **state)
{
    kit_job j = { .workers_serve = true,
                  .n_trainers = 3,
                  .steps = { 30, 2, 10 } };
    kit_end *end = fl_alloc(sizeof(*end));

    (void)state;
    kit_train(&j, end);
    assert_int_equal(end->step, 30);
    fl_free(end);
}

/* --- what is refused ------------------------------------------------------ */

static void refuses(const fl_transpile_args *a, const char *says)
{
    kit_job j = { .n_trainers = 2 };
    fl_transpiler *t = NULL;
    fl_ctx *c = NULL;

    assert_ok(fl_ctx_new(&c));
    assert_non_null(kit_build(c, &j));
    assert_int_equal(fl_transpile_with(&t, c, a), FL_ERR_INVAL);
    if (!strstr(fl_last_error(), says))
        fail_msg("'%s' does not say '%s'", fl_last_error(), says);
    fl_ctx_free(c);
}

static void every_worker_has_one_address(void **state)
{
    (void)state;
    refuses(FL_OPTIONS(fl_transpile_args, .workers_serve = true,
                       .n_trainers = 3, .pservers = "a:1,b:1"),
            "3 workers serve, and there are 2 addresses");
    refuses(FL_OPTIONS(fl_transpile_args, .workers_serve = true,
                       .n_trainers = 2, .role = FL_ROLE_SERVER,
                       .pservers = "a:1,b:1"),
            "every process is a worker");
}

/* --- what ends them ------------------------------------------------------- */

static fl_status fail_on_1(kit_trainer *t, void *arg)
{
    (void)arg;
    for (int i = 0; i < 5; i++)
        FL_TRY(kit_step(t, i));
    if (t->rank == 1) {
        t->ctx->run_failed = true;
        return fl_err_set(FL_ERR_INVAL, "worker 1 has had enough");
    }
    for (int i = 5; i < 100000; i++)
        FL_TRY(kit_step(t, i));
    return FL_OK;
}

static void a_worker_that_fails_is_named_by_all_others(void **state)
{
    kit_job j = { .workers_serve = true, .n_trainers = 3 };
    kit_text texts[KIT_MEMBERS] = { 0 };

    (void)state;
    kit_run(&j, fail_on_1, NULL, NULL, texts);
    assert_string_equal(texts[1], "worker 1 has had enough");
    for (int i = 0; i < 3; i += 2)
        if (!strstr(texts[i], "worker 1 (") && !strstr(texts[i], "server 1 ("))
            fail_msg("worker %d says '%s'", i, texts[i]);
}

static fl_status fail_on_0(kit_trainer *t, void *arg)
{
    (void)arg;
    for (int i = 0; i < 100000; i++) {
        if (t->rank == 0 && i == 5) {
            t->ctx->run_failed = true;
            return fl_err_set(FL_ERR_INVAL, "worker 0 has had enough");
        }
        FL_TRY(kit_step(t, i));
    }
    return FL_OK;
}

static void so_is_the_one_at_which_they_meet(void **state)
{
    kit_job j = { .workers_serve = true, .n_trainers = 3 };
    kit_text texts[KIT_MEMBERS] = { 0 };

    (void)state;
    kit_run(&j, fail_on_0, NULL, NULL, texts);
    assert_string_equal(texts[0], "worker 0 has had enough");
    for (int i = 1; i < 3; i++)
        if (!strstr(texts[i], "worker 0 (") && !strstr(texts[i], "server 0 ("))
            fail_msg("worker %d says '%s'", i, texts[i]);
}

/* --- saved models --------------------------------------------------------- */

static char folder[] = "/tmp/flotilla-workers-XXXXXX";

static int make_folder(void **state)
{
    (void)state;
    return mkdtemp(folder) ? 0 : -1;
}

static int remove_folder(void **state)
{
    char command[128];

    (void)state;
    (void)snprintf(command, sizeof(command), "rm -rf %s", folder);
    return system(command);
}

static fl_status save_after_steps(kit_trainer *t, void *dir)
{
    for (int i = 0; i < 10; i++)
        FL_TRY(kit_step(t, i));
    return fl_job_save(fl_transpiler_job(t->transpiler), dir);
}

static void what_workers_save_servers_and_workers_begin_with(void **state)
{
    kit_job from = { .workers_serve = true, .n_trainers = 3, .n_steps = 10 };
    kit_job to = { .n_servers = 2, .n_trainers = 1, .model = folder };
    kit_end *a = fl_alloc(sizeof(*a)), *b = fl_alloc(sizeof(*b));
    kit_text texts[KIT_MEMBERS] = { 0 };

    (void)state;
    kit_run(&from, save_after_steps, folder, a, texts);
    for (int i = 0; i < 3; i++)
        assert_string_equal(texts[i], "");
    for (int i = 0; i < 2; i++) {
        kit_run(&to, kit_do_nothing, NULL, b, texts);
        assert_string_equal(texts[0], "");
        assert_int_equal(a->hash, b->hash);
        to.workers_serve = true;
        to.n_trainers = 2;
    }
    fl_free(a);
    fl_free(b);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(workers_in_step_are_as_one_process),
        cmocka_unit_test(they_hold_what_servers_would),
        cmocka_unit_test(workers_train_in_every_mode),
        cmocka_unit_test(a_worker_that_is_done_serves_the_others),
        cmocka_unit_test(every_worker_has_one_address),
        cmocka_unit_test(a_worker_that_fails_is_named_by_all_others),
        cmocka_unit_test(so_is_the_one_at_which_they_meet),
        cmocka_unit_test(what_workers_save_servers_and_workers_begin_with),
    };

    return cmocka_run_group_tests(tests, make_folder, remove_folder);
}
