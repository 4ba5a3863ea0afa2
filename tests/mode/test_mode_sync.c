/* test_mode_sync.c - trainers that make every step together, with servers. */
#include "local_cluster_kit.h"

#define BATCHES 8

/* --- the same bits ------------------------------------------------------ */

static uint64_t run_noisy(int n_servers, int n_trainers, int n_threads,
                          const char *weight)
{
    uint64_t hash;
    local_cluster c;

    local_cluster_init(&c, "sync", n_servers, n_trainers, noisy_batch);
    assert_ok(fl_conf_set(&c.conf, "gradient_weight", weight));
    for (int i = 0; i < n_trainers; i++) {
        local_cluster_batches(&c, i, n_threads, BATCHES);
        c.trainers[i].samples = 10 + (uint64_t)i;
    }
    local_cluster_run(&c);
    local_cluster_check(&c);
    hash = c.trainers[0].hash;
    for (int i = 0; i < n_trainers; i++) {
        assert_true(c.trainers[i].hash == hash);
        assert_memory_equal(c.trainers[i].w, c.trainers[0].w, sizeof(float[6]));
        assert_memory_equal(c.trainers[i].b, c.trainers[0].b, sizeof(float[3]));
        assert_int_equal(c.trainers[i].last_step, BATCHES - 1);
        assert_int_equal(counts_of(&c, i)->gradients_made,
                         counts_of(&c, i)->gradients_applied);
        assert_int_equal(counts_of(&c, i)->gradients_made,
                         4 * BATCHES * n_threads);
    }
    local_cluster_release(&c);
    return hash;
}

static void any_number_of_servers_gives_the_same_bits(void **state)
{
    uint64_t hash;

    (void)state;
    hash = run_noisy(1, 2, 1, "mean");
    assert_true(hash != 0);
    assert_true(run_noisy(2, 2, 1, "mean") == hash);
    assert_true(run_noisy(3, 2, 1, "mean") == hash);
}

static void the_same_job_twice_gives_the_same_bits(void **state)
{
    uint64_t hash;

    (void)state;
    hash = run_noisy(2, 3, 2, "samples");
    assert_true(run_noisy(2, 3, 2, "samples") == hash);
    assert_true(run_noisy(3, 3, 2, "samples") == hash);
}

static void weights_make_a_difference(void **state)
{
    uint64_t mean, samples, sum;

    (void)state;
    mean = run_noisy(1, 2, 1, "mean");
    samples = run_noisy(1, 2, 1, "samples");
    sum = run_noisy(1, 2, 1, "sum");
    assert_true(mean != samples && mean != sum && samples != sum);
}

/* --- numbers ------------------------------------------------------------ */

/* All gradients of a trainer are its rank + 1; the keys are all the same. */
static void plain_batch(trainer *t, frame *f, int thread, int batch)
{
    float g = (float)(t->rank + 1);

    (void)thread;
    (void)batch;
    choose_keys(f, 0, BATCH_KEYS);
    for (size_t i = 0; i < BATCH_KEYS * EMB_DIM; i++)
        f->emb_rows[i] = g;
    for (size_t i = 0; i < BATCH_KEYS; i++)
        f->wide_rows[i] = g;
    for (size_t i = 0; i < W_FLOATS; i++)
        f->w_grad[i] = g;
    for (size_t i = 0; i < B_FLOATS; i++)
        f->b_grad[i] = g;
}

/* Trainers with 10 and 30 samples: gradients 1 and 2. */
static void expect_update(const char *weight, float g)
{
    local_cluster c;

    local_cluster_init(&c, "sync", 2, 2, plain_batch);
    assert_ok(fl_conf_set(&c.conf, "gradient_weight", weight));
    local_cluster_batches(&c, 0, 1, 1);
    local_cluster_batches(&c, 1, 1, 1);
    c.trainers[1].samples = 30;
    local_cluster_run(&c);
    local_cluster_check(&c);
    for (int i = 0; i < 2; i++) {
        assert_true(c.trainers[i].w[0] == -0.5f * g);
        assert_true(c.trainers[i].w[5] == -0.5f * g);
        assert_true(c.trainers[i].b[2] == -0.5f * g);
    }
    local_cluster_release(&c);
}

static void gradients_of_trainers_are_weighed_by_the_setting(void **state)
{
    (void)state;
    expect_update("mean", 1.5f);
    expect_update("samples", 1.75f);
    expect_update("sum", 3);
}

/* wide starts as ones, its rate is 0.1, and rows are pulled again. */
static fl_status pull_wide(trainer *t, int thread, int batch)
{
    frame *f = &t->frames[thread];

    (void)batch;
    return do_rows(f, t->comm, t->comm->data->pull, &f->wide);
}

static void a_trainer_alone_trains_rows_and_parameters(void **state)
{
    float want = 1;
    local_cluster c;

    (void)state;
    local_cluster_init(&c, "sync", 2, 1, plain_batch);
    c.after = pull_wide;
    local_cluster_batches(&c, 0, 1, 5);
    local_cluster_run(&c);
    local_cluster_check(&c);
    for (int i = 0; i < 5; i++)
        want -= 0.1f;
    for (size_t i = 0; i < BATCH_KEYS; i++)
        assert_float_equal(c.trainers[0].frames[0].wide_rows[i], want, 1e-6);
    assert_true(c.trainers[0].b[0] == -2.5f);
    assert_int_equal(c.trainers[0].last_step, 4);
    assert_true(counts_of(&c, 0)->wait > 0);
    local_cluster_release(&c);
}

/* --- rows of the next batch ---------------------------------------------- */

/* By trainer: asked for while a batch is trained, as for the next one. */
static frame next_frames[CREW_TRAINERS];

static void ask_for_next(trainer *t, frame *f, int thread, int batch)
{
    frame *next = &next_frames[t->rank];

    plain_batch(t, f, thread, batch);
    choose_keys(next, 0, BATCH_KEYS);
    next->wide.is_behind = true;
    if (begin_rows(next, t->comm, t->comm->data->pull, &next->wide) !=
        FL_PENDING)
        abort();
}

/* What was asked for has what the batch did; trainers may be a round ahead here
   as little as there. */
static fl_status compare_next(trainer *t, int thread, int batch)
{
    frame *next = &next_frames[t->rank];

    FL_TRY(answer_of(&next->caller, &next->wide.answer, FL_PENDING));
    FL_TRY(pull_wide(t, thread, batch));
    if (memcmp(next->wide_rows, t->frames[thread].wide_rows,
               BATCH_KEYS * sizeof(float)))
        return fl_err_set(FL_ERR_CORRUPT, "batch %d: rows of before", batch);
    return FL_OK;
}

static void
rows_that_are_asked_for_early_have_what_the_batch_before_did(void **state)
{
    (void)state;
    for (int n_servers = 1; n_servers <= CREW_SERVERS; n_servers++) {
        local_cluster c;

        local_cluster_init(&c, "sync", n_servers, 2, ask_for_next);
        c.after = compare_next;
        for (int i = 0; i < 2; i++) {
            frame_init(&next_frames[i], 0);
            local_cluster_batches(&c, i, 1, BATCHES);
        }
        local_cluster_run(&c);
        local_cluster_check(&c);
        assert_true(c.trainers[0].comm->n_ahead);
        local_cluster_release(&c);
        for (int i = 0; i < 2; i++)
            frame_release(&next_frames[i]);
    }
}

/* --- unequal data ------------------------------------------------------- */

/* Gradients 1 and 2: their mean for 3 rounds, then those of the second. */
static void expect_unequal(bool leaves_early)
{
    local_cluster c;

    local_cluster_init(&c, "sync", 2, 2, plain_batch);
    local_cluster_batches(&c, 0, 1, 3);
    local_cluster_batches(&c, 1, 1, 7);
    c.trainers[0].leaves_early = leaves_early;
    local_cluster_run(&c);
    local_cluster_check(&c);
    assert_true(c.trainers[0].b[0] == -0.5f * (3 * 1.5f));
    assert_true(c.trainers[1].b[0] == -0.5f * (3 * 1.5f + 4 * 2));
    assert_int_equal(c.trainers[1].last_step, 6);
    local_cluster_release(&c);
}

static void a_trainer_that_leaves_early_lets_the_others_go_on(void **state)
{
    (void)state;
    expect_unequal(true);
}

static void a_trainer_that_waits_for_the_end_lets_the_others_go_on(void **state)
{
    (void)state;
    expect_unequal(false);
}

static void threads_with_unequal_data_train_until_the_last_is_done(void **state)
{
    local_cluster c;

    (void)state;
    local_cluster_init(&c, "sync", 2, 2, plain_batch);
    local_cluster_batches(&c, 0, 3, 6);
    local_cluster_batches(&c, 1, 2, 4);
    c.trainers[0].n_batches[1] = 2;
    c.trainers[0].n_batches[2] = 0;
    local_cluster_run(&c);
    local_cluster_check(&c);
    assert_true(c.trainers[0].b[0] == -0.5f * (4 * 1.5f + 2 * 1));
    assert_int_equal(counts_of(&c, 0)->gradients_made, 4 * 8);
    assert_int_equal(counts_of(&c, 0)->gradients_applied, 4 * 8);
    local_cluster_release(&c);
}

/* --- requests ----------------------------------------------------------- */

static bool has_blocks(const trainer *t, int server)
{
    for (size_t i = 0; i < t->dist.blocks.len; i++)
        if (t->dist.blocks.data[i].server == server)
            return true;
    return false;
}

/* One pull per table; all servers have some of so many keys. */
static void a_batch_is_one_request_of_each_kind_per_server(void **state)
{
    const trainer *t;
    local_cluster c;

    (void)state;
    local_cluster_init(&c, "sync", CREW_SERVERS, 1, noisy_batch);
    c.n_keys = KEYS_MAX;
    local_cluster_batches(&c, 0, 1, BATCHES);
    local_cluster_run(&c);
    local_cluster_check(&c);
    t = &c.trainers[0];
    for (int s = 0; s < CREW_SERVERS; s++) {
        const fl_client *k = fl_cluster_client(t->cluster);

        assert_int_equal(fl_client_requests(k, s, FL_MSG_PULL), 2 * BATCHES);
        assert_int_equal(fl_client_requests(k, s, FL_MSG_ROUND_PUSH), BATCHES);
        assert_int_equal(fl_client_requests(k, s, FL_MSG_ROUND_DENSE),
                         has_blocks(t, s) ? BATCHES : 0);
        assert_int_equal(fl_client_requests(k, s, FL_MSG_ROUND), BATCHES);
        assert_int_equal(fl_client_requests(k, s, FL_MSG_APPLY), 0);
        assert_int_equal(fl_client_requests(k, s, FL_MSG_PUSH), 0);
    }
    local_cluster_release(&c);
}

/* --- errors ------------------------------------------------------------- */

/* The first thread spoils the number of the round before its fourth batch. */
static fl_status spoil_round(trainer *t, int thread, int batch)
{
    if (thread == 0 && batch == 2)
        fl_cluster_set_step(t->cluster, 1000);
    return FL_OK;
}

static void what_a_server_refuses_is_told_to_all_threads(void **state)
{
    local_cluster c;

    (void)state;
    local_cluster_init(&c, "sync", 2, 1, noisy_batch);
    c.after = spoil_round;
    local_cluster_batches(&c, 0, 3, BATCHES);
    local_cluster_run(&c);
    for (int i = 0; i < 3; i++) {
        assert_true(c.trainers[0].errs[i].status != FL_OK);
        if (!strstr(c.trainers[0].errs[i].text, "round 1000"))
            fail_msg("thread %d: %s", i, c.trainers[0].errs[i].text);
    }
    assert_true(c.trainers[0].err.status != FL_OK);
    local_cluster_release(&c);
}

static void the_end_of_the_job_is_told_to_all_threads(void **state)
{
    local_cluster c;

    (void)state;
    local_cluster_init(&c, "sync", 2, 2, noisy_batch);
    local_cluster_batches(&c, 0, 2, 1000);
    local_cluster_batches(&c, 1, 2, 1000);
    local_cluster_run_to_early_end(&c);
    for (int i = 0; i < 2; i++)
        for (int k = 0; k < 2; k++)
            assert_true(c.trainers[i].errs[k].status != FL_OK);
    local_cluster_release(&c);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(any_number_of_servers_gives_the_same_bits),
        cmocka_unit_test(the_same_job_twice_gives_the_same_bits),
        cmocka_unit_test(weights_make_a_difference),
        cmocka_unit_test(gradients_of_trainers_are_weighed_by_the_setting),
        cmocka_unit_test(a_trainer_alone_trains_rows_and_parameters),
        cmocka_unit_test(
            rows_that_are_asked_for_early_have_what_the_batch_before_did),
        cmocka_unit_test(a_trainer_that_leaves_early_lets_the_others_go_on),
        cmocka_unit_test(
            a_trainer_that_waits_for_the_end_lets_the_others_go_on),
        cmocka_unit_test(
            threads_with_unequal_data_train_until_the_last_is_done),
        cmocka_unit_test(a_batch_is_one_request_of_each_kind_per_server),
        cmocka_unit_test(what_a_server_refuses_is_told_to_all_threads),
        cmocka_unit_test(the_end_of_the_job_is_told_to_all_threads),
    };

    be_quiet();
    return cmocka_run_group_tests(tests, NULL, NULL);
}
