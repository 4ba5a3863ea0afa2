/* test_mode_half_async.c - threads of a trainer meet, trainers do not; with
 * servers. Gradients and rates are such that every sum is exact, as nobody
 * knows in which order they arrive. */
#include "local_cluster_kit.h"

#define BATCHES 8

/* Of thread 0 and 1 of trainer r: 2r + 1 and 2r + 3, so their mean is 2r +
   2. */
static void exact_batch(trainer *t, frame *f, int thread, int batch)
{
    float g = (float)(2 * t->rank + 2 * thread + 1);

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
    f->wide.rows.lr = 0.5;
}

static void look_at_all(float *w, float *b, local_cluster *c)
{
    for (int i = 0; i < c->n_trainers; i++) {
        const trainer *t = &c->trainers[i];

        for (size_t k = 0; k < W_FLOATS; k++)
            w[k] = t->w[k] < w[k] ? t->w[k] : w[k];
        for (size_t k = 0; k < B_FLOATS; k++)
            b[k] = t->b[k] < b[k] ? t->b[k] : b[k];
    }
}

/* Who meets last sees what all have done, and values only go down. */
static void every_gradient_is_applied_once(void **state)
{
    float w[W_FLOATS] = { 0 }, b[B_FLOATS] = { 0 };
    local_cluster c;

    (void)state;
    local_cluster_init(&c, "half_async", 2, 2, exact_batch);
    local_cluster_batches(&c, 0, 2, BATCHES);
    local_cluster_batches(&c, 1, 2, BATCHES);
    local_cluster_run(&c);
    local_cluster_check(&c);
    look_at_all(w, b, &c);
    for (size_t k = 0; k < W_FLOATS; k++)
        assert_true(w[k] == -0.5f * BATCHES * (2 + 4));
    for (size_t k = 0; k < B_FLOATS; k++)
        assert_true(b[k] == -0.5f * BATCHES * (2 + 4));
    for (int i = 0; i < 2; i++) {
        assert_int_equal(counts_of(&c, i)->gradients_made, 2 * 4 * BATCHES);
        assert_int_equal(counts_of(&c, i)->gradients_applied, 2 * 4 * BATCHES);
    }
    local_cluster_release(&c);
}

static uint64_t run_alone(int n_servers)
{
    uint64_t hash;
    local_cluster c;

    local_cluster_init(&c, "half_async", n_servers, 1, noisy_batch);
    local_cluster_batches(&c, 0, 2, BATCHES);
    local_cluster_run(&c);
    local_cluster_check(&c);
    hash = c.trainers[0].hash;
    local_cluster_release(&c);
    return hash;
}

static void one_trainer_gives_the_same_bits_with_any_servers(void **state)
{
    uint64_t hash;

    (void)state;
    hash = run_alone(1);
    assert_true(hash != 0);
    assert_true(run_alone(2) == hash);
    assert_true(run_alone(3) == hash);
}

static void trainers_with_unequal_data_do_not_wait(void **state)
{
    local_cluster c;

    (void)state;
    local_cluster_init(&c, "half_async", 2, 3, noisy_batch);
    local_cluster_batches(&c, 0, 1, 1);
    local_cluster_batches(&c, 1, 2, BATCHES);
    local_cluster_batches(&c, 2, 1, 0);
    c.trainers[0].leaves_early = true;
    local_cluster_run(&c);
    local_cluster_check(&c);
    assert_true(c.trainers[1].hash == c.trainers[2].hash);
    assert_true(c.trainers[1].hash != 0);
    local_cluster_release(&c);
}

static uint64_t steps_at_the_end;

/* When the last batch of the only thread is over its step has been counted:
   requests to a server are answered in their order. */
static fl_status ask_steps(trainer *t, int thread, int batch)
{
    (void)thread;
    if (batch < BATCHES - 1)
        return FL_OK;
    return fl_client_step(fl_cluster_client(t->cluster), 0, &steps_at_the_end,
                          FL_WAIT);
}

static void batches_are_counted_as_steps(void **state)
{
    local_cluster c;

    (void)state;
    local_cluster_init(&c, "half_async", 1, 1, noisy_batch);
    c.after = ask_steps;
    local_cluster_batches(&c, 0, 1, BATCHES);
    local_cluster_run(&c);
    local_cluster_check(&c);
    assert_int_equal(c.trainers[0].last_step, BATCHES - 1);
    /* They are told now and then, the rest as the trainer leaves. */
    assert_true(steps_at_the_end <= BATCHES - 1);
    local_cluster_release(&c);
}

static void a_meeting_is_one_request_of_each_kind_per_server(void **state)
{
    local_cluster c;

    (void)state;
    local_cluster_init(&c, "half_async", CREW_SERVERS, 1, noisy_batch);
    local_cluster_batches(&c, 0, 3, BATCHES);
    local_cluster_run(&c);
    local_cluster_check(&c);
    for (int s = 0; s < CREW_SERVERS; s++) {
        fl_client *k = fl_cluster_client(c.trainers[0].cluster);

        assert_int_equal(fl_client_requests(k, s, FL_MSG_PUSH), BATCHES);
        assert_in_range(fl_client_requests(k, s, FL_MSG_PUSH_DENSE), 0,
                        BATCHES);
        /* One more at the start. */
        assert_in_range(fl_client_requests(k, s, FL_MSG_PULL_DENSE), 0,
                        BATCHES + 1);
    }
    local_cluster_release(&c);
}

static void the_end_of_the_job_is_told_to_all_threads(void **state)
{
    local_cluster c;

    (void)state;
    local_cluster_init(&c, "half_async", 2, 1, noisy_batch);
    local_cluster_batches(&c, 0, 3, 1000);
    local_cluster_run_to_early_end(&c);
    for (int k = 0; k < 3; k++)
        assert_true(c.trainers[0].errs[k].status != FL_OK);
    local_cluster_release(&c);
}

static void can_prefetch(const char *prefetch, bool want)
{
    local_cluster c;

    local_cluster_init(&c, "half_async", 1, 1, noisy_batch);
    assert_ok(fl_conf_set(&c.conf, "prefetch", prefetch));
    local_cluster_batches(&c, 0, 1, 1);
    local_cluster_run(&c);
    local_cluster_check(&c);
    assert_int_equal(c.trainers[0].comm->n_ahead, want);
    assert_true(c.trainers[0].comm->has_own_deadline);
    local_cluster_release(&c);
}

static void rows_are_pulled_ahead_by_the_setting(void **state)
{
    (void)state;
    can_prefetch("true", true);
    can_prefetch("false", false);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_gradient_is_applied_once),
        cmocka_unit_test(one_trainer_gives_the_same_bits_with_any_servers),
        cmocka_unit_test(trainers_with_unequal_data_do_not_wait),
        cmocka_unit_test(batches_are_counted_as_steps),
        cmocka_unit_test(a_meeting_is_one_request_of_each_kind_per_server),
        cmocka_unit_test(the_end_of_the_job_is_told_to_all_threads),
        cmocka_unit_test(rows_are_pulled_ahead_by_the_setting),
    };

    be_quiet();
    return cmocka_run_group_tests(tests, NULL, NULL);
}
