/* test_mode_async.c - queues, merging and receiving against real servers. */
#include "async_kit.h"

/* --- merging -------------------------------------------------------------- */

static void merged_gradients_are_added_up(void **state)
{
    const uint64_t left[] = { 1, 2 }, right[] = { 2, 3 };
    trainer t;
    job j;

    (void)state;
    start_servers(&j, 1, 1, "");
    trainer_open(&t, &j, 0, PATIENT "cpu_num=2");
    for (float g = 1; g < 8; g *= 2)
        assert_ok(good(send_w(&t, g)));
    assert_ok(good(send_w(&t, 16)));
    assert_ok(push_rows(&t, left, 1, 0.5, alone));
    assert_ok(push_rows(&t, right, 4, 0.25, alone));
    wait_until_applied(&t);
    assert_int_equal(n_requests(&t, FL_MSG_PUSH_DENSE), 2);
    assert_int_equal(n_requests(&t, FL_MSG_PUSH), 1);
    /* The rate is that of the newest. */
    assert_true(pull_row(&t, 1) == 1 - 1 * 0.25f);
    assert_true(pull_row(&t, 2) == 1 - 5 * 0.25f);
    assert_true(pull_row(&t, 3) == 1 - 4 * 0.25f);
    assert_ok(t.comm->life->stop(t.comm));
    for (int i = 0; i < N_W; i++)
        assert_true(t.w[i] == -0.5f * 23);
    assert_true(t.b[0] == 0);
    stop_and_free(&t);
    end_servers(&j);
}

static void merged_gradients_are_averaged_when_that_is_set(void **state)
{
    const uint64_t left[] = { 1, 2 }, right[] = { 2, 3 };
    trainer t;
    job j;

    (void)state;
    start_servers(&j, 2, 1, "");
    trainer_open(&t, &j, 0,
                 PATIENT "communicator_is_sgd_optimizer=0 "
                         "communicator_max_merge_var_num=2 "
                         "communicator_send_queue_size=2");
    assert_ok(send_w(&t, 2));
    assert_ok(send_w(&t, 6));
    assert_ok(push_rows(&t, left, 1, 0.5, alone));
    assert_ok(push_rows(&t, right, 4, 0.5, alone));
    wait_until_applied(&t);
    assert_true(pull_row(&t, 1) == 1 - 0.5f * 0.5f);
    assert_true(pull_row(&t, 2) == 1 - 2.5f * 0.5f);
    assert_true(pull_row(&t, 3) == 1 - 2.0f * 0.5f);
    assert_ok(t.comm->life->stop(t.comm));
    assert_true(t.w[0] == -0.5f * 4 && t.w[3] == -0.5f * 4);
    stop_and_free(&t);
    end_servers(&j);
}

static void a_short_merge_is_sent_without_more_to_come(void **state)
{
    trainer t;
    job j;

    (void)state;
    start_servers(&j, 1, 1, "");
    trainer_open(&t, &j, 0,
                 QUICK "communicator_max_merge_var_num=1000 "
                       "communicator_thread_pool_size=1");
    assert_ok(send_w(&t, 1));
    wait_until_applied(&t);
    stop_and_free(&t);
    end_servers(&j);
}

static void a_full_queue_holds_the_training_thread(void **state)
{
    trainer t;
    job j;

    (void)state;
    start_servers(&j, 1, 1, "");
    trainer_open(&t, &j, 0,
                 PATIENT "communicator_max_merge_var_num=10 "
                         "communicator_send_queue_size=2");
    assert_ok(send_w(&t, 1));
    assert_ok(send_w(&t, 1));
    assert_int_equal(send_w(&t, 1), FL_PENDING);
    assert_true(t.counts->wait > 0);
    wait_until_applied(&t);
    assert_int_equal(n_requests(&t, FL_MSG_PUSH_DENSE), 1);
    stop_and_free(&t);
    end_servers(&j);
}

static void parts_of_a_step_are_one_gradient(void **state)
{
    const uint64_t left[] = { 1, 2 }, right[] = { 2, 3 };
    fl_worker_id worker = { .part = 1, .n_parts = 2, .scale = 0.5 };
    trainer t;
    job j;

    (void)state;
    start_servers(&j, 1, 1, "");
    trainer_open(&t, &j, 0, QUICK "cpu_num=1");
    assert_ok(push_rows(&t, left, 2, 0.5, worker));
    assert_int_equal(t.counts->gradients_made, 0);
    worker.part = 0;
    assert_ok(push_rows(&t, right, 6, 0.5, worker));
    assert_int_equal(t.counts->gradients_made, 1);
    wait_until_applied(&t);
    assert_int_equal(n_requests(&t, FL_MSG_PUSH), 1);
    assert_true(pull_row(&t, 1) == 1 - 1 * 0.5f);
    assert_true(pull_row(&t, 2) == 1 - 4 * 0.5f);
    assert_true(pull_row(&t, 3) == 1 - 3 * 0.5f);
    stop_and_free(&t);
    end_servers(&j);
}

/* --- parameters come back ------------------------------------------------- */

#define N_FIRST 16 /* batches of a trainer that wait for what they made */

/* Before the job is reached: nothing is pulled. */
static void be_past_the_first(trainer *t)
{
    for (int i = 0; i < N_FIRST; i++)
        t->comm->life->end_group(t->comm);
}

static void train_the_first(trainer *t)
{
    for (int i = 1; i <= N_FIRST; i++) {
        assert_ok(good(send_w(t, 1)));
        assert_ok(good(send_b(t, 2)));
        t->comm->life->end_group(t->comm);
        for (int k = 0; k < N_W; k++)
            assert_true(look(&t->w[k]) == -0.5f * (float)i);
        assert_true(look(&t->b[0]) == -1.0f * (float)i);
    }
}

static void check_first(const char *settings)
{
    uint64_t n;
    trainer t;
    job j;

    start_servers(&j, 2, 1, "");
    trainer_open(&t, &j, 0, settings);
    train_the_first(&t);
    n = n_requests(&t, FL_MSG_PUSH_DENSE);
    assert_ok(good(send_b(&t, 2)));
    t.comm->life->end_group(t.comm);
    assert_int_equal(n_requests(&t, FL_MSG_PUSH_DENSE), n);
    stop_and_free(&t);
    end_servers(&j);
}

static void the_first_batches_wait_for_fresh_parameters(void **state)
{
    (void)state;
    check_first(PATIENT "cpu_num=2");
    check_first(PATIENT "cpu_num=2 communicator_independent_recv_thread=0");
}

static void parameters_come_back_after_enough_gradients(void **state)
{
    trainer t;
    job j;

    (void)state;
    start_servers(&j, 2, 1, "");
    trainer_open(&t, &j, 0,
                 QUICK "communicator_min_send_grad_num_before_recv=2");
    be_past_the_first(&t);
    assert_ok(good(send_w(&t, 1)));
    assert_ok(good(send_b(&t, 2)));
    assert_ok(good(send_w(&t, 1)));
    wait_until_applied(&t);
    assert_int_equal(n_requests(&t, FL_MSG_PULL_DENSE), 0);
    assert_ok(good(send_b(&t, 2)));
    t.comm->life->end_group(t.comm);
    wait_for_value(&t.w[0], -1);
    wait_for_value(&t.b[0], -2);
    stop_and_free(&t);
    end_servers(&j);
}

static void without_the_thread_a_parameter_follows_its_gradient(void **state)
{
    trainer t;
    job j;

    (void)state;
    start_servers(&j, 2, 1, "");
    trainer_open(&t, &j, 0, QUICK "communicator_independent_recv_thread=0");
    assert_ok(send_w(&t, 1));
    wait_for_value(&t.w[0], -0.5f);
    wait_for_value(&t.w[3], -0.5f);
    assert_true(look(&t.b[0]) == 100);
    assert_ok(good(send_w(&t, 1)));
    wait_for_value(&t.w[1], -1);
    stop_and_free(&t);
    end_servers(&j);
}

static void the_startup_program_gets_what_the_servers_have(void **state)
{
    float w[N_W] = { 5, 5, 5, 5 };
    fl_param_values v = { "w", w, N_W };
    fl_comm_call r = { .values = &v, .n = 1 };
    sleeper sl;
    trainer t;
    job j;

    (void)state;
    start_servers(&j, 1, 1, "");
    trainer_open(&t, &j, 0, "");
    sleeper_init(&sl);
    fl_comm_begin(&r.answer, &sl.port);
    assert_ok(sleeper_result(&sl, &r.answer, t.comm->data->recv(t.comm, &r)));
    sleeper_release(&sl);
    assert_true(w[0] == 0 && w[N_W - 1] == 0);
    assert_ok(t.comm->life->declare(t.comm, "emb", EMB, 0));
    assert_int_equal(t.comm->life->step(t.comm), 0);
    assert_int_equal(t.comm->life->step(t.comm), 1);
    stop_and_free(&t);
    end_servers(&j);
}

/* --- many at once --------------------------------------------------------- */

#define N_THREADS 3
#define N_STEPS 200

typedef struct worker {
    trainer *trainer;
    int number;
    fl_err err;
} worker;

static fl_status train_some(const worker *w)
{
    for (int i = 0; i < N_STEPS; i++) {
        uint64_t keys[] = { (uint64_t)i % 10, 10 + (uint64_t)w->number };

        FL_TRY(good(push_rows(w->trainer, keys, 1, 0.5, alone)));
        FL_TRY(good(send_w(w->trainer, 1)));
        FL_TRY(good(send_b(w->trainer, 2)));
        (void)w->trainer->comm->life->step(w->trainer->comm);
    }
    return FL_OK;
}

static void run_worker(void *arg)
{
    worker *w = arg;

    fl_err_save(&w->err, train_some(w));
}

static void check_worker(const worker *w)
{
    if (w->err.status)
        fail_msg("thread %d: %s", w->number, w->err.text);
}

static void run_workers(trainer *trainers, int n)
{
    worker workers[2 * N_THREADS];
    fl_thread *threads[2 * N_THREADS];

    for (int i = 0; i < n * N_THREADS; i++) {
        workers[i] =
            (worker){ .trainer = &trainers[i / N_THREADS], .number = i };
        assert_ok(
            fl_thread_start(&threads[i], "worker", run_worker, &workers[i]));
    }
    for (int i = 0; i < n * N_THREADS; i++) {
        fl_thread_join(threads[i]);
        check_worker(&workers[i]);
    }
}

static void check_result(trainer *t, int n_trainers)
{
    float n_steps = (float)(n_trainers * N_THREADS * N_STEPS);

    assert_int_equal(t->counts->gradients_made, 3 * N_THREADS * N_STEPS);
    for (uint64_t key = 0; key < 10; key++)
        assert_true(pull_row(t, key) == 1 - 0.5f * n_steps / 10);
    assert_ok(t->comm->life->stop(t->comm));
    for (int i = 0; i < N_W; i++)
        assert_true(t->w[i] == -0.5f * n_steps);
    assert_true(t->b[0] == -n_steps);
}

static void train_all(int n_trainers, const char *settings)
{
    trainer t[2];
    job j;

    start_servers(&j, 2, n_trainers, "");
    for (int i = 0; i < n_trainers; i++)
        trainer_open(&t[i], &j, i, settings);
    run_workers(t, n_trainers);
    for (int i = 0; i < n_trainers; i++)
        wait_until_applied(&t[i]);
    for (int i = 0; i < n_trainers; i++) {
        check_result(&t[i], n_trainers);
        stop_and_free(&t[i]);
    }
    end_servers(&j);
}

static void what_many_threads_made_is_applied_once_each(void **state)
{
    (void)state;
    train_all(1, "cpu_num=3 communicator_send_wait_times=1");
    train_all(1, "cpu_num=3 communicator_thread_pool_size=1 "
                 "communicator_independent_recv_thread=0");
}

static void trainers_do_not_wait_for_each_other(void **state)
{
    (void)state;
    train_all(2, "cpu_num=2 communicator_send_wait_times=1 "
                 "communicator_send_queue_size=7");
}

/* --- the end -------------------------------------------------------------- */

static void stopping_applies_what_is_queued(void **state)
{
    trainer t;
    job j;

    (void)state;
    start_servers(&j, 1, 1, "");
    trainer_open(&t, &j, 0, PATIENT "cpu_num=100");
    for (int i = 0; i < 50; i++)
        assert_ok(send_w(&t, 1));
    assert_int_equal(t.counts->gradients_made, 50);
    assert_int_equal(t.counts->gradients_applied, 0);
    assert_ok(t.comm->life->stop(t.comm));
    assert_int_equal(t.counts->gradients_applied, 50);
    assert_true(t.w[0] == -25);
    assert_int_equal(send_w(&t, 1), FL_ERR_CLOSED);
    stop_and_free(&t);
    end_servers(&j);
}

/* --- groups --------------------------------------------------------------- */

/* How many batches may be asked for together, with dense parameters or none. */
static int n_ahead(const char *settings, bool has_params)
{
    job j = { .n_servers = 1, .n_trainers = 1, .servers = "127.0.0.1:1" };
    trainer t;
    int n;

    trainer_open(&t, &j, 0, settings);
    if (!has_params) {
        fl_comm_free(t.comm);
        t.dist.params.len = t.dist.blocks.len = 0;
        t.cluster = fl_cluster_new(&(fl_cluster_args){ .dist = &t.dist,
                                                       .net = t.net,
                                                       .conf = &t.conf,
                                                       .scope = &t.scope });
        t.counts = fl_cluster_stats_of(t.cluster);
        t.comm = fl_mode_find("async")->open(t.cluster);
    }
    n = t.comm->n_ahead;
    stop_and_free(&t);
    return n;
}

static void only_rows_alone_are_asked_for_in_groups(void **state)
{
    (void)state;
    assert_int_equal(n_ahead("", true), 1);
    assert_int_equal(n_ahead("", false), 8);
    assert_int_equal(n_ahead("communicator_send_queue_size=3", false), 3);
    assert_int_equal(n_ahead("prefetch=0", false), 0);
}

/* In the order in which they were made, though they wait for the group. */
static void gradients_of_a_group_leave_at_its_end(void **state)
{
    const uint64_t keys[] = { 1, 2 };
    trainer t;
    job j;

    (void)state;
    start_servers(&j, 1, 1, "");
    trainer_open(&t, &j, 0, PATIENT "communicator_send_queue_size=9");
    be_past_the_first(&t);
    for (float g = 1; g < 8; g *= 2)
        assert_ok(push_rows(&t, keys, g, 1, alone));
    assert_int_equal(t.counts->gradients_made, 3);
    assert_int_equal(t.counts->gradients_applied, 0);
    t.comm->life->end_group(t.comm);
    wait_until_applied(&t);
    assert_true(pull_row(&t, 1) == 1 - 7);
    stop_and_free(&t);
    end_servers(&j);
}

static void what_is_to_be_merged_waits_beyond_its_group(void **state)
{
    const uint64_t keys[] = { 1, 2 };
    trainer t;
    job j;

    (void)state;
    start_servers(&j, 1, 1, "");
    trainer_open(&t, &j, 0, PATIENT "communicator_max_merge_var_num=2");
    be_past_the_first(&t);
    assert_ok(good(push_rows(&t, keys, 1, 1, alone)));
    t.comm->life->end_group(t.comm);
    assert_int_equal(n_requests(&t, FL_MSG_PUSH), 0);
    assert_ok(good(push_rows(&t, keys, 1, 1, alone)));
    wait_until_applied(&t);
    assert_int_equal(n_requests(&t, FL_MSG_PUSH), 1);
    assert_true(pull_row(&t, 1) == 1 - 2);
    stop_and_free(&t);
    end_servers(&j);
}

static void a_trainer_that_never_trained_stops(void **state)
{
    job j = { .n_servers = 1, .n_trainers = 1, .servers = "127.0.0.1:1" };
    trainer t;

    (void)state;
    trainer_open(&t, &j, 0, "prefetch=0");
    assert_false(t.comm->n_ahead);
    assert_true(t.comm->has_own_deadline);
    stop_and_free(&t);
}

/* With a server that goes while gradients are on their way. */
static void a_lost_server_is_told_to_everybody(void **state)
{
    const char *settings = "restart_timeout_ms=300";
    fl_ctx *c = make_ctx();
    fl_status st = FL_OK;
    trainer t;
    job j;

    (void)state;
    start_servers(&j, 1, 1, settings);
    trainer_open(&t, &j, 0, "restart_timeout_ms=300 " QUICK);
    assert_ok(send_w(&t, 1));
    wait_until_applied(&t);
    assert_ok(fl_job_shutdown(c, j.servers));
    join_servers(&j);
    for (int i = 0; !st && i < 1000000; i++)
        st = good(send_w(&t, 1));
    assert_true(st != FL_OK);
    assert_says("server 0");
    assert_int_equal(send_b(&t, 1), st);
    assert_int_equal(t.comm->life->stop(t.comm), st);
    assert_true(t.counts->gradients_applied < t.counts->gradients_made);
    trainer_free(&t);
    fl_ctx_free(c);
    job_release(&j);
}

static void giving_up_does_not_wait_for_the_servers(void **state)
{
    fl_ctx *c = make_ctx();
    trainer t;
    job j;

    (void)state;
    start_servers(&j, 1, 1, "");
    trainer_open(&t, &j, 0, "cpu_num=4");
    for (int i = 0; i < 20; i++) {
        assert_ok(good(send_w(&t, 1)));
        assert_ok(good(send_b(&t, 1)));
    }
    trainer_free(&t);
    assert_ok(fl_job_shutdown(c, j.servers));
    join_servers(&j);
    fl_ctx_free(c);
    job_release(&j);
}

static void what_the_job_does_not_have_is_refused(void **state)
{
    const uint64_t keys[] = { 1, 2 };
    fl_comm_request r = { .table = "emb",
                          .rows = { .keys = keys, .n = 1, .dim = 5 } };
    fl_comm_call two = { .n = 2 };
    trainer t;
    job j;

    (void)state;
    start_servers(&j, 1, 1, "");
    trainer_open(&t, &j, 0, "");
    assert_int_equal(send_to(&t, "w", 3, 1), FL_ERR_INVAL);
    assert_int_equal(send_to(&t, "other", 1, 1), FL_ERR_NOTFOUND);
    assert_int_equal(t.comm->data->push(t.comm, &r), FL_ERR_INVAL);
    assert_int_equal(t.comm->data->send(t.comm, &two), FL_ERR_INVAL);
    assert_says("a send of its own");
    assert_int_equal(t.counts->gradients_made, 0);
    stop_and_free(&t);
    end_servers(&j);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(merged_gradients_are_added_up),
        cmocka_unit_test(merged_gradients_are_averaged_when_that_is_set),
        cmocka_unit_test(a_short_merge_is_sent_without_more_to_come),
        cmocka_unit_test(a_full_queue_holds_the_training_thread),
        cmocka_unit_test(parts_of_a_step_are_one_gradient),
        cmocka_unit_test(the_first_batches_wait_for_fresh_parameters),
        cmocka_unit_test(parameters_come_back_after_enough_gradients),
        cmocka_unit_test(without_the_thread_a_parameter_follows_its_gradient),
        cmocka_unit_test(the_startup_program_gets_what_the_servers_have),
        cmocka_unit_test(what_many_threads_made_is_applied_once_each),
        cmocka_unit_test(trainers_do_not_wait_for_each_other),
        cmocka_unit_test(stopping_applies_what_is_queued),
        cmocka_unit_test(only_rows_alone_are_asked_for_in_groups),
        cmocka_unit_test(gradients_of_a_group_leave_at_its_end),
        cmocka_unit_test(what_is_to_be_merged_waits_beyond_its_group),
        cmocka_unit_test(a_trainer_that_never_trained_stops),
        cmocka_unit_test(a_lost_server_is_told_to_everybody),
        cmocka_unit_test(giving_up_does_not_wait_for_the_servers),
        cmocka_unit_test(what_the_job_does_not_have_is_refused),
    };

    be_quiet();
    return cmocka_run_group_tests(tests, NULL, NULL);
}
