/* test_dist_sync.c - sync training on servers equals training alone on the
 * joined batches. */
#include <stdio.h>
#include <string.h>

#include "dist_kit.h"
#include "optim/rule.h"

#define STEPS 200

static void expect_equal(const kit_job *j, double tolerance)
{
    kit_model alone;
    kit_end end;
    double error;

    kit_train_alone(j, &alone);
    kit_train(j, &end);
    error = kit_error(&end.model, &alone);
    if (!(error <= tolerance))
        fail_msg("%s: error %g is above %g", j->optimizer, error, tolerance);
    assert_int_equal(end.step, j->n_steps);
}

/* --- every optimizer ------------------------------------------------------ */

static void sums_equal_one_process_to_the_last_digits(void **state)
{
    static const char *const optimizers[][2] = {
        { "sgd", "learning_rate=0.1" },
        { "momentum", "learning_rate=0.02, momentum=0.9" },
    };

    (void)state;
    for (size_t i = 0; i < FL_LEN(optimizers); i++)
        expect_equal(&(kit_job){ .n_servers = 2,
                                 .n_trainers = 2,
                                 .n_steps = STEPS,
                                 .optimizer = optimizers[i][0],
                                 .words = optimizers[i][1] },
                     1e-6);
}

/* Roots and quotients make more of a difference in the last digit. One that
   needs all of a parameter has no table. */
static void every_optimizer_equals_one_process_on_the_joined_batch(void **state)
{
    (void)state;
    for (size_t i = 0; i < fl_rule_count(); i++)
        expect_equal(&(kit_job){ .n_servers = 2,
                                 .n_trainers = 2,
                                 .n_steps = STEPS / 2,
                                 .optimizer = fl_rule_at(i)->name,
                                 .words = "learning_rate=0.05",
                                 .is_dense = fl_rule_at(i)->whole },
                     1e-4);
}

static void a_server_draws_the_noise_that_one_process_draws(void **state)
{
    (void)state;
    expect_equal(&(kit_job){ .n_servers = 2,
                             .n_trainers = 2,
                             .n_steps = 20,
                             .optimizer = "dpsgd",
                             .words = "learning_rate=0.1, clip=0.5, "
                                      "batch_size=16, sigma=1",
                             .is_dense = true },
                 1e-5);
}

/* --- several batches per update --------------------------------------------- */

/* n_alone trainers in one; roots and quotients as above. */
static void expect_accumulated(kit_job *j, int n_alone, const char *optimizer,
                               double tolerance)
{
    kit_job alone = { .n_trainers = n_alone,
                      .n_steps = j->n_steps / 4,
                      .joined = 4,
                      .optimizer = optimizer,
                      .words = "learning_rate=0.01" };
    kit_model model;
    kit_end end;
    double error;

    j->n_servers = 2;
    j->optimizer = optimizer;
    j->words = "learning_rate=0.01, accumulate=4";
    kit_train_alone(&alone, &model);
    kit_train(j, &end);
    error = kit_error(&end.model, &model);
    if (!(error <= tolerance))
        fail_msg("%s: error %g is above %g", optimizer, error, tolerance);
    assert_int_equal(end.step, alone.n_steps);
}

/* Batches of trainers, of threads of a trainer, and of its replicas. */
static void accumulated_batches_equal_one_batch_of_all(void **state)
{
    kit_job jobs[] = {
        { .n_trainers = 1, .n_steps = 40 },
        { .n_trainers = 3, .n_steps = 40 },
        { .n_trainers = 1, .n_steps = 40, .n_threads = 2 },
        { .n_trainers = 1, .n_steps = 40, .n_replicas = 2 },
    };
    static const int n_alone[] = { 1, 3, 2, 2 };

    (void)state;
    for (size_t i = 0; i < FL_LEN(jobs); i++) {
        expect_accumulated(&jobs[i], n_alone[i], "sgd", 1e-6);
        expect_accumulated(&jobs[i], n_alone[i], "adam", 1e-4);
    }
}

static void a_sum_of_losses_accumulates_the_sum_of_gradients(void **state)
{
    kit_job j = { .n_servers = 1,
                  .n_trainers = 2,
                  .n_steps = 40,
                  .words = "learning_rate=0.01, accumulate=2",
                  .is_sum = true,
                  .settings = { { "gradient_weight", "sum" } } };
    kit_job alone = j;
    kit_model model;
    kit_end end;

    (void)state;
    alone.n_steps = 20;
    alone.joined = 2;
    alone.words = "learning_rate=0.01";
    kit_train_alone(&alone, &model);
    kit_train(&j, &end);
    assert_true(kit_error(&end.model, &model) <= 1e-6);
}

/* --- variations ----------------------------------------------------------- */

static void a_dense_embedding_is_sent_whole(void **state)
{
    kit_job j = { .n_servers = 2,
                  .n_trainers = 2,
                  .n_steps = 50,
                  .optimizer = "sgd",
                  .is_dense = true };

    (void)state;
    expect_equal(&j, 1e-6);
}

static void one_trainer_works(void **state)
{
    kit_job j = {
        .n_servers = 1, .n_trainers = 1, .n_steps = 50, .optimizer = "sgd"
    };

    (void)state;
    expect_equal(&j, 1e-6);
}

static void schedules_follow_the_rounds(void **state)
{
    const kit_schedule *s;

    (void)state;
    for (size_t i = 0; (s = kit_schedule_at(i)); i++)
        expect_equal(&(kit_job){ .n_servers = 2,
                                 .n_trainers = 2,
                                 .n_steps = 20,
                                 .optimizer = "sgd",
                                 .schedule = s->make },
                     1e-6);
}

/* Decay is made on the servers, clipping by each trainer of its own. */
static void decay_and_clipping_go_with_every_optimizer(void **state)
{
    static const char *const words[] = {
        "learning_rate=0.05, regularization=l2(0.01)",
        "learning_rate=0.05, regularization=l1(0.001)",
        "learning_rate=0.05, grad_clip=value(-0.01,0.01)",
        "learning_rate=0.05, grad_clip=norm(0.05)",
        ("learning_rate=0.05, grad_clip=global_norm(0.1), "
         "regularization=l2(0.01)"),
    };

    (void)state;
    for (size_t i = 0; i < fl_rule_count(); i++)
        for (size_t k = 0; k < FL_LEN(words); k++)
            expect_equal(
                &(kit_job){
                    .n_servers = 2,
                    .n_trainers = 1,
                    .n_steps = 10,
                    .optimizer = fl_rule_at(i)->name,
                    .words = words[k],
                    .is_dense = true,
                    .settings = { { "min_block_size", "16" } },
                },
                1e-5);
}

/* Rate, decay and clip of one parameter, under those of all. */
static void a_parameter_keeps_its_own_with_every_optimizer(void **state)
{
    kit_job j = { .n_servers = 2,
                  .n_trainers = 1,
                  .n_steps = 10,
                  .words = "learning_rate=0.05, regularization=l2(0.1), "
                           "grad_clip=global_norm(0.1)",
                  .is_dense = true };
    kit_model with, without;

    (void)state;
    for (size_t i = 0; i < fl_rule_count(); i++) {
        j.optimizer = fl_rule_at(i)->name;
        j.has_own = true;
        expect_equal(&j, 1e-5);
        kit_train_alone(&j, &with);
        j.has_own = false;
        kit_train_alone(&j, &without);
        assert_true(kit_error(&with, &without) > 1e-5);
    }
}

static void regularizers_work_on_the_servers(void **state)
{
    kit_job j = { .n_servers = 2,
                  .n_trainers = 2,
                  .n_steps = 50,
                  .optimizer = "sgd",
                  .words = "learning_rate=0.1, regularization=l2(0.01)",
                  .is_dense = true };

    (void)state;
    expect_equal(&j, 1e-6);
}

static void sliced_parameters_are_put_together_again(void **state)
{
    kit_job j = { .n_servers = 3,
                  .n_trainers = 2,
                  .n_steps = 50,
                  .optimizer = "adam",
                  .words = "learning_rate=0.01",
                  .settings = { { "min_block_size", "16" },
                                { "split_method", "round_robin" } } };

    (void)state;
    expect_equal(&j, 1e-4);
}

static void a_sum_of_losses_wants_the_sum_of_gradients(void **state)
{
    kit_job j = { .n_servers = 1,
                  .n_trainers = 2,
                  .n_steps = 50,
                  .optimizer = "sgd",
                  .words = "learning_rate=0.01",
                  .is_sum = true,
                  .settings = { { "gradient_weight", "sum" } } };

    (void)state;
    expect_equal(&j, 1e-6);
}

static void unequal_batches_want_weights_by_samples(void **state)
{
    kit_job j = { .n_servers = 1,
                  .n_trainers = 2,
                  .n_steps = 50,
                  .optimizer = "sgd",
                  .rows = { 12, 4 },
                  .settings = { { "gradient_weight", "samples" } } };

    (void)state;
    expect_equal(&j, 1e-6);
}

static void unequal_batches_differ_with_equal_weights(void **state)
{
    kit_job j = { .n_servers = 1,
                  .n_trainers = 2,
                  .n_steps = 50,
                  .optimizer = "sgd",
                  .rows = { 12, 4 } };
    kit_model alone;
    kit_end end;

    (void)state;
    kit_train_alone(&j, &alone);
    kit_train(&j, &end);
    assert_true(kit_error(&end.model, &alone) > 1e-4);
}

/* --- the same bits -------------------------------------------------------- */

static void any_number_of_servers_gives_the_same_bits(void **state)
{
    kit_job j = { .n_trainers = 3,
                  .n_steps = 30,
                  .optimizer = "adam",
                  .words = "learning_rate=0.01",
                  .settings = { { "min_block_size", "16" },
                                { "slice_var_up", "false" } } };
    uint64_t first = 0;

    (void)state;
    for (int i = 0; i < 6; i++) {
        kit_end end;

        j.n_servers = 1 + i % 3;
        kit_train(&j, &end);
        if (!i)
            first = end.hash;
        assert_true(end.hash == first);
    }
}

/* --- leaving -------------------------------------------------------------- */

static void a_trainer_without_data_leaves_and_the_rest_goes_on(void **state)
{
    kit_job j = { .n_servers = 2,
                  .n_trainers = 3,
                  .n_steps = 40,
                  .optimizer = "sgd",
                  .steps = { 40, 10, 25 } };
    kit_end end;

    (void)state;
    kit_train(&j, &end);
    assert_int_equal(end.step, 40);
}

/* --- threads and replicas ------------------------------------------------- */

static void threads_of_a_trainer_share_a_round(void **state)
{
    kit_job alone = { .n_trainers = 4, .n_steps = 40, .optimizer = "sgd" };
    kit_job j = { .n_servers = 2,
                  .n_trainers = 2,
                  .n_steps = 40,
                  .optimizer = "sgd",
                  .n_threads = 2 };
    kit_model model;
    kit_end end;

    (void)state;
    kit_train_alone(&alone, &model);
    kit_train(&j, &end);
    assert_true(kit_error(&end.model, &model) <= 1e-6);
    assert_int_equal(end.step, 40);
}

static void replicas_of_a_trainer_share_a_round(void **state)
{
    kit_job alone = { .n_trainers = 4, .n_steps = 40, .optimizer = "sgd" };
    kit_job j = { .n_servers = 2,
                  .n_trainers = 2,
                  .n_steps = 40,
                  .optimizer = "sgd",
                  .n_replicas = 2 };
    kit_model model;
    kit_end end;

    (void)state;
    kit_train_alone(&alone, &model);
    kit_train(&j, &end);
    assert_true(kit_error(&end.model, &model) <= 1e-6);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(sums_equal_one_process_to_the_last_digits),
        cmocka_unit_test(
            every_optimizer_equals_one_process_on_the_joined_batch),
        cmocka_unit_test(a_server_draws_the_noise_that_one_process_draws),
        cmocka_unit_test(accumulated_batches_equal_one_batch_of_all),
        cmocka_unit_test(a_sum_of_losses_accumulates_the_sum_of_gradients),
        cmocka_unit_test(a_dense_embedding_is_sent_whole),
        cmocka_unit_test(one_trainer_works),
        cmocka_unit_test(schedules_follow_the_rounds),
        cmocka_unit_test(decay_and_clipping_go_with_every_optimizer),
        cmocka_unit_test(a_parameter_keeps_its_own_with_every_optimizer),
        cmocka_unit_test(regularizers_work_on_the_servers),
        cmocka_unit_test(sliced_parameters_are_put_together_again),
        cmocka_unit_test(a_sum_of_losses_wants_the_sum_of_gradients),
        cmocka_unit_test(unequal_batches_want_weights_by_samples),
        cmocka_unit_test(unequal_batches_differ_with_equal_weights),
        cmocka_unit_test(any_number_of_servers_gives_the_same_bits),
        cmocka_unit_test(a_trainer_without_data_leaves_and_the_rest_goes_on),
        cmocka_unit_test(threads_of_a_trainer_share_a_round),
        cmocka_unit_test(replicas_of_a_trainer_share_a_round),
    };

    return cmocka_run_group_tests_name("dist sync", tests, NULL, NULL);
}
