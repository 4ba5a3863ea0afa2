/* test_dist_own.c - modes that users define. */
#include <math.h>
#include <stdatomic.h>
#include <string.h>

#include "dist_kit.h"
#include "flotilla/experimental/mode.h"
#include "../make.h"

/* Counts what it is asked, and leaves the rest to the library. */
typedef struct counting {
    fl_job *job;
    atomic_int n_pulls, n_pushes, n_sends, n_stops;
} counting;

static counting seen[KIT_TRAINERS];

static void *open_counting(fl_job *job)
{
    counting *c = &seen[fl_job_rank(job)];

    c->job = job;
    return c;
}

static fl_status count_pull(void *mode, const char *table, const fl_rows *rows,
                            fl_pull_kind kind, float *out)
{
    counting *c = mode;

    atomic_fetch_add(&c->n_pulls, 1);
    return fl_mode_pull(c->job, table, rows, kind, out);
}

static fl_status count_push(void *mode, const char *table, const fl_rows *rows)
{
    counting *c = mode;

    atomic_fetch_add(&c->n_pushes, 1);
    return fl_mode_push(c->job, table, rows);
}

/* Parameters are fresh after every gradient. */
static fl_status count_send(void *mode, const fl_param_values *v)
{
    counting *c = mode;
    fl_status st = fl_mode_send(c->job, v);

    atomic_fetch_add(&c->n_sends, 1);
    return st ? st : fl_mode_recv_all(c->job);
}

static fl_status count_stop(void *mode)
{
    counting *c = mode;

    atomic_fetch_add(&c->n_stops, 1);
    return FL_OK;
}

static const fl_mode_def counting_mode = {
    .size = sizeof(fl_mode_def),
    .name = "counting",
    .doc = "gradients are applied at once, parameters are always fresh",
    .open = open_counting,
    .pull = count_pull,
    .push = count_push,
    .send = count_send,
    .stop = count_stop,
};

static const fl_mode_def plain_mode = {
    .size = sizeof(fl_mode_def),
    .name = "plain",
    .doc = "as the library does it, with a barrier that does nothing",
    .passes = "dist_sparse dist_pull dist_place dist_server dist_send "
              "dist_recv dist_startup",
};

static fl_var *build(fl_ctx *c, const kit_job *j)
{
    if (fl_ctx_add_mode(c, &counting_mode) || fl_ctx_add_mode(c, &plain_mode))
        return NULL;
    return kit_build(c, j);
}

static void its_functions_are_called_in_place_of_the_librarys(void **state)
{
    kit_job j = { .mode = "counting",
                  .n_servers = 2,
                  .n_trainers = 2,
                  .n_steps = 20,
                  .build = build };
    kit_end end;

    (void)state;
    memset(seen, 0, sizeof(seen));
    kit_train(&j, &end);
    for (int i = 0; i < 2; i++) {
        assert_int_equal(atomic_load(&seen[i].n_pulls), 20);
        assert_int_equal(atomic_load(&seen[i].n_pushes), 20);
        assert_int_equal(atomic_load(&seen[i].n_sends), 4 * 20);
        assert_true(atomic_load(&seen[i].n_stops) >= 1);
    }
}

static void what_is_left_out_is_done_with_the_servers(void **state)
{
    kit_job alone = { .n_steps = 30, .optimizer = "adagrad" };
    kit_job j = { .mode = "plain",
                  .n_servers = 2,
                  .n_steps = 30,
                  .optimizer = "adagrad",
                  .build = build };
    kit_model model;
    kit_end end;

    (void)state;
    kit_train_alone(&alone, &model);
    kit_train(&j, &end);
    assert_true(kit_error(&end.model, &model) <= 1e-4);
}

static void replicas_push_their_share(void **state)
{
    kit_job alone = { .n_trainers = 2, .n_steps = 20 };
    kit_job j = { .mode = "plain",
                  .n_servers = 1,
                  .n_steps = 20,
                  .n_replicas = 2,
                  .build = build };
    kit_model model;
    kit_end end;

    (void)state;
    kit_train_alone(&alone, &model);
    kit_train(&j, &end);
    assert_true(kit_error(&end.model, &model) <= 1e-6);
}

static void a_name_that_exists_is_refused(void **state)
{
    fl_mode_def sync = FL_INIT(fl_mode_def, .name = "sync");
    fl_ctx *c = make_ctx();

    (void)state;
    assert_int_equal(fl_ctx_add_mode(c, &sync), FL_ERR_EXISTS);
    assert_ok(fl_ctx_add_mode(c, &plain_mode));
    assert_int_equal(fl_ctx_add_mode(c, &plain_mode), FL_ERR_EXISTS);
    assert_non_null(strstr(fl_last_error(), "plain"));
    fl_ctx_free(c);
}

static void
a_name_that_nobody_has_added_is_told_with_those_there_are(void **state)
{
    kit_job j = { .n_steps = 1 };
    fl_ctx *c = make_ctx();
    fl_transpiler *t;

    (void)state;
    assert_ok(fl_ctx_add_mode(c, &plain_mode));
    assert_non_null(kit_build(c, &j));
    assert_int_not_equal(
        fl_transpile(&t, c, .pservers = "127.0.0.1:7002", .mode = "plan"),
        FL_OK);
    assert_non_null(strstr(fl_last_error(), "plain, sync"));
    fl_ctx_free(c);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(its_functions_are_called_in_place_of_the_librarys),
        cmocka_unit_test(what_is_left_out_is_done_with_the_servers),
        cmocka_unit_test(replicas_push_their_share),
        cmocka_unit_test(a_name_that_exists_is_refused),
        cmocka_unit_test(
            a_name_that_nobody_has_added_is_told_with_those_there_are),
    };

    return cmocka_run_group_tests_name("dist own", tests, NULL, NULL);
}
