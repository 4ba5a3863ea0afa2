/* test_dist_collective.c - workers without servers that add up their gradients:
 * equal to one process on the joined batches, the same bits on all of them and
 * again, with threads, replicas, rows, unequal data. */
#include "dist_kit.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "optim/rule.h"
#include "../folder.h"

/* What each of them had in the end. */
typedef struct ends {
    kit_model models[KIT_TRAINERS];
    uint64_t steps[KIT_TRAINERS];
    const char *save; /* by worker 0, after that step; NULL: it is not saved */
    int from, save_after;
} ends;

static fl_status copy(fl_ctx *c, const char *name, float *to, size_t n)
{
    fl_tensor t;
    fl_status st = fl_scope_get(fl_current_scope(c), name, &t);

    if (!st)
        memcpy(to, t.data, n * sizeof(*to));
    return st;
}

/* Rows of a table are with all of them. */
static fl_status take_emb(kit_trainer *t, kit_model *m)
{
    fl_job *job = fl_transpiler_job(t->transpiler);
    uint64_t keys[KIT_HEIGHT];
    int emb = 0;
    fl_status st;

    if (!t->job->is_table)
        return copy(t->ctx, "emb", m->emb, sizeof(m->emb) / sizeof(float));
    for (uint64_t i = 0; i < KIT_HEIGHT; i++)
        keys[i] = i;
    st = fl_job_find_table(job, "emb", &emb);
    return st ? st
              : fl_job_pull(job, emb, keys, KIT_HEIGHT, FL_PULL_ONLY, m->emb);
}

static fl_status take(kit_trainer *t, kit_model *m)
{
    const struct {
        const char *name;
        float *to;
        size_t n;
    } parts[] = {
        { "fc1_w", m->fc1_w, sizeof(m->fc1_w) / sizeof(float) },
        { "fc1_b", m->fc1_b, sizeof(m->fc1_b) / sizeof(float) },
        { "fc2_w", m->fc2_w, sizeof(m->fc2_w) / sizeof(float) },
        { "fc2_b", m->fc2_b, sizeof(m->fc2_b) / sizeof(float) },
    };
    fl_status st = take_emb(t, m);

    for (size_t i = 0; i < sizeof(parts) / sizeof(*parts) && !st; i++)
        st = copy(t->ctx, parts[i].name, parts[i].to, parts[i].n);
    return st;
}

static fl_status train(kit_trainer *t, const ends *e)
{
    int n = t->job->steps[t->rank] ? t->job->steps[t->rank] : t->job->n_steps;
    fl_status st = FL_OK;

    if (t->job->n_threads)
        return kit_threads(t);
    for (int i = e->from; i < n && !st; i++) {
        st = kit_step(t, i);
        if (!st && e->save && i + 1 == e->save_after && !t->rank)
            st = fl_job_save(fl_transpiler_job(t->transpiler), e->save);
    }
    return st;
}

/* Whoever has no more batches is part of the others' steps until the barrier. */
static fl_status work(kit_trainer *t, void *arg)
{
    ends *e = arg;
    fl_status st = train(t, e);

    if (!st)
        st = fl_job_barrier(fl_transpiler_job(t->transpiler));
    if (!st)
        st = take(t, &e->models[t->rank]);
    e->steps[t->rank] = fl_scope_step(fl_current_scope(t->ctx));
    return st;
}

static void run(kit_job j, ends *out)
{
    kit_text texts[KIT_MEMBERS] = { 0 };

    memset(out->models, 0, sizeof(out->models));
    j.mode = "collective";
    j.workers_serve = true;
    kit_run(&j, work, out, NULL, texts);
    for (int i = 0; i < KIT_MEMBERS; i++)
        if (texts[i][0])
            fail_msg("worker %d: %s", i, texts[i]);
}

static void expect_same_bits(const ends *e, int n)
{
    for (int i = 1; i < n; i++)
        assert_memory_equal(&e->models[0], &e->models[i], sizeof(kit_model));
}

/* As one process that trains on the joined batches of `n_batches`. */
static void expect_as_alone(kit_job j, int n_batches, double tolerance)
{
    kit_model *alone = fl_alloc(sizeof(*alone));
    ends *a = fl_alloc(sizeof(*a)), *b = fl_alloc(sizeof(*b));
    kit_job joined = j;
    double error;

    joined.n_trainers = n_batches;
    kit_train_alone(&joined, alone);
    run(j, a);
    error = kit_error(&a->models[0], alone);
    if (!(error <= tolerance))
        fail_msg("%d workers with %s are %g away from one process",
                 j.n_trainers, j.optimizer ? j.optimizer : "sgd", error);
    expect_same_bits(a, j.n_trainers);
    run(j, b);
    assert_memory_equal(a, b, sizeof(*a));
    fl_free(alone);
    fl_free(a);
    fl_free(b);
}

/* --- equality ------------------------------------------------------------- */

/* Of trained parameters, as an error over max(1, |w|). Rules that divide by small
   numbers have the tolerance of the golden runs. */
static double tolerance_of(const fl_rule *r)
{
    bool divides = strcmp(r->name, "sgd") && strcmp(r->name, "momentum");

    return divides ? 2e-4 : 1e-6;
}

/* A step of lamb is a share of the parameter's own length, and grows with it. */
static const char *rate_of(const fl_rule *r)
{
    return strcmp(r->name, "lamb") ? "learning_rate=0.05"
                                   : "learning_rate=0.001";
}

static void any_number_of_workers_is_as_one_process_by_every_rule(void **state)
{
    const fl_rule *r;

    (void)state;
    for (size_t i = 0; i < fl_rule_count(); i++) {
        r = fl_rule_at(i);
        for (int n = 1; n <= KIT_TRAINERS; n++)
            expect_as_alone((kit_job){ .n_trainers = n,
                                       .n_steps = 200,
                                       .optimizer = r->name,
                                       .words = rate_of(r),
                                       .is_dense = r->whole },
                            n, tolerance_of(r));
    }
}

static void it_is_clipped_and_decayed_behind_the_sum(void **state)
{
    (void)state;
    expect_as_alone(
        (kit_job){ .n_trainers = 3, .n_steps = 40, .has_own = true }, 3, 1e-6);
    expect_as_alone((kit_job){ .n_trainers = 2,
                               .n_steps = 40,
                               .words = "learning_rate=0.1 "
                                        "grad_clip=global_norm(0.05) "
                                        "regularization=l2(0.01)" },
                    2, 1e-6);
}

static void schedules_follow_the_step_of_all(void **state)
{
    const kit_schedule *s;

    (void)state;
    for (size_t i = 0; (s = kit_schedule_at(i)); i++)
        expect_as_alone(
            (kit_job){ .n_trainers = 2, .n_steps = 12, .schedule = s->make }, 2,
            1e-6);
}

/* --- inside a worker ------------------------------------------------------ */

static void threads_of_a_worker_meet_first(void **state)
{
    (void)state;
    expect_as_alone((kit_job){ .n_trainers = 2, .n_threads = 2, .n_steps = 40 },
                    4, 1e-6);
    expect_as_alone((kit_job){ .n_trainers = 1, .n_threads = 3, .n_steps = 40 },
                    3, 1e-6);
}

static void replicas_of_a_worker_are_merged_first(void **state)
{
    (void)state;
    expect_as_alone(
        (kit_job){ .n_trainers = 2, .n_replicas = 2, .n_steps = 20 }, 4, 1e-6);
}

/* --- how gradients travel ------------------------------------------------- */

static void buckets_change_nothing(void **state)
{
    kit_job all = { .n_trainers = 3, .n_steps = 20 };
    kit_job each = all, last = all;
    ends *a = fl_alloc(sizeof(*a)), *b = fl_alloc(sizeof(*b));

    (void)state;
    each.settings[0] = (kit_setting){ "fuse_all_reduce_ops", "false" };
    last.settings[0] = (kit_setting){ "last_comm_group_size_MB", "0.0005" };
    run(all, a);
    run(each, b);
    assert_memory_equal(a, b, sizeof(*a));
    run(last, b);
    assert_memory_equal(a, b, sizeof(*a));
    fl_free(a);
    fl_free(b);
}

static void batches_of_unequal_size_count_by_their_samples(void **state)
{
    (void)state;
    expect_as_alone(
        (kit_job){ .n_trainers = 3,
                   .n_steps = 40,
                   .rows = { 8, 3, 5 },
                   .settings = { { "gradient_weight", "samples" } } },
        3, 1e-6);
    expect_as_alone((kit_job){ .n_trainers = 2,
                               .n_steps = 40,
                               .is_sum = true,
                               .words = "learning_rate=0.01",
                               .settings = { { "gradient_weight", "sum" } } },
                    2, 1e-6);
}

/* --- unequal data --------------------------------------------------------- */

static void who_has_no_more_data_stays_with_the_others(void **state)
{
    ends *e = fl_alloc(sizeof(*e));

    (void)state;
    run((kit_job){ .n_trainers = 3, .steps = { 30, 2, 10 } }, e);
    expect_same_bits(e, 3);
    for (int i = 0; i < 3; i++)
        assert_int_equal(e->steps[i], 30);
    run((kit_job){ .n_trainers = 3, .steps = { 2, 30, 10 }, .is_table = true },
        e);
    expect_same_bits(e, 3);
    for (int i = 0; i < 3; i++)
        assert_int_equal(e->steps[i], 30);
    fl_free(e);
}

/* --- tables --------------------------------------------------------------- */

/* Rows that are dealt over the workers, against servers in mode sync. */
static void rows_are_dealt_over_the_workers(void **state)
{
    (void)state;
    for (int n = 2; n <= 3; n++) {
        kit_job j = {
            .n_trainers = n, .n_servers = 2, .n_steps = 100, .is_table = true
        };
        kit_end *sync = fl_alloc(sizeof(*sync));
        ends *e = fl_alloc(sizeof(*e));
        double error;

        kit_train(&j, sync);
        run(j, e);
        expect_same_bits(e, n);
        error = kit_error(&e->models[0], &sync->model);
        if (!(error <= 1e-6))
            fail_msg("%d workers are %g away from servers", n, error);
        fl_free(sync);
        fl_free(e);
    }
}

/* --- calls of the program's own ------------------------------------------- */

#define OWN_WORKERS 3

/* The losses of all workers, and the largest of them, behind the update. */
static fl_var *build_with_calls(fl_ctx *c, const kit_job *j)
{
    fl_var *loss = kit_build(c, j);
    fl_var *all = fl_layers_c_allgather(loss, OWN_WORKERS, .name = "losses");
    fl_var *most =
        fl_layers_c_allreduce(loss, "max", .ring_id = 3, .name = "most");

    return all && most ? loss : NULL;
}

static fl_status call_others(kit_trainer *t, void *arg)
{
    const char *fetches[] = { fl_var_name(t->loss), "losses.tmp_0",
                              "most.tmp_0" };
    kit_batch *b = kit_batch_make(t->job, t->rank, t->rank + 1, 0);
    fl_tensor out[3];
    fl_run_args args =
        FL_INIT(fl_run_args, .feeds = kit_batch_feeds(b), .n_feeds = KIT_FEEDS,
                .fetches = fetches, .n_fetches = 3, .out = out);
    fl_status st = fl_run(t->exe, fl_transpiler_trainer(t->transpiler), &args);
    float(*seen)[OWN_WORKERS + 2] = arg;

    if (!st) {
        seen[t->rank][0] = *(const float *)out[0].data;
        memcpy(&seen[t->rank][1], out[1].data, OWN_WORKERS * sizeof(float));
        seen[t->rank][OWN_WORKERS + 1] = *(const float *)out[2].data;
    }
    kit_batch_free(b);
    return st;
}

static void a_program_may_call_the_other_workers(void **state)
{
    kit_job j = { .mode = "collective",
                  .n_trainers = OWN_WORKERS,
                  .build = build_with_calls };
    float seen[OWN_WORKERS][OWN_WORKERS + 2], most = 0;
    kit_text texts[KIT_MEMBERS] = { 0 };

    (void)state;
    kit_run(&j, call_others, seen, NULL, texts);
    for (int i = 0; i < KIT_MEMBERS; i++)
        if (texts[i][0])
            fail_msg("worker %d: %s", i, texts[i]);
    for (int i = 0; i < OWN_WORKERS; i++)
        most = seen[i][0] > most ? seen[i][0] : most;
    for (int i = 0; i < OWN_WORKERS; i++) {
        for (int k = 0; k < OWN_WORKERS; k++)
            assert_true(seen[i][1 + k] == seen[k][0]);
        assert_true(seen[i][OWN_WORKERS + 1] == most);
    }
}

static fl_status call_in_steps(kit_trainer *t, void *arg)
{
    fl_status st = FL_OK;

    for (int i = 0; i < t->job->steps[t->rank] && !st; i++)
        st = call_others(t, arg);
    return st;
}

/* Without a batch there is nothing to call the others with. */
static void calls_of_unequal_number_end_for_all(void **state)
{
    kit_job j = { .mode = "collective",
                  .n_trainers = OWN_WORKERS,
                  .steps = { 3, 1, 3 },
                  .build = build_with_calls };
    float seen[OWN_WORKERS][OWN_WORKERS + 2];
    kit_text texts[KIT_MEMBERS] = { 0 };

    (void)state;
    kit_run(&j, call_in_steps, seen, NULL, texts);
    if (!strstr(texts[1], "give all workers the same number of batches"))
        fail_msg("worker 1: %s", texts[1]);
    for (int i = 0; i < OWN_WORKERS; i++)
        assert_true(texts[i][0]);
}

/* --- strategies ------------------------------------------------------------ */

/* As one process with other words. */
static void expect_as_words(kit_job j, const char *words, double tolerance)
{
    kit_model *alone = fl_alloc(sizeof(*alone));
    ends *e = fl_alloc(sizeof(*e));
    kit_job one = j;
    double error;

    memset(one.settings, 0, sizeof(one.settings));
    one.words = words;
    kit_train_alone(&one, alone);
    run(j, e);
    expect_same_bits(e, j.n_trainers);
    error = kit_error(&e->models[0], alone);
    if (!(error <= tolerance))
        fail_msg("%d workers are %g away from one process with %s",
                 j.n_trainers, error, words);
    fl_free(alone);
    fl_free(e);
}

static void merged_gradients_make_one_update(void **state)
{
    static const int numbers[] = { 1, 2, 3 };
    kit_job j = { .n_steps = 40,
                  .settings = { { "gradient_merge", "true" },
                                { "gradient_merge_k_steps", "4" } } };

    (void)state;
    for (size_t i = 0; i < sizeof(numbers) / sizeof(*numbers); i++) {
        j.n_trainers = numbers[i];
        j.settings[2] = (kit_setting){ 0 };
        expect_as_words(j, "learning_rate=0.1 accumulate=4", 1e-6);
        j.settings[2] = (kit_setting){ "gradient_merge_avg", "false" };
        expect_as_words(j, "learning_rate=0.4 accumulate=4", 1e-6);
    }
}

static void local_steps_end_in_the_mean_of_all(void **state)
{
    kit_job j = { .n_trainers = 3,
                  .n_steps = 20,
                  .settings = { { "localsgd", "true" },
                                { "localsgd_k_steps", "1" } } };
    ends *e = fl_alloc(sizeof(*e));

    (void)state;
    /* One step is a step of the mean gradient. */
    expect_as_words(j, "learning_rate=0.1", 1e-6);
    j.settings[1].value = "4";
    run(j, e);
    expect_same_bits(e, 3);
    j.n_steps = 21;
    run(j, e);
    assert_memory_not_equal(&e->models[0], &e->models[1], sizeof(kit_model));
    fl_free(e);
}

static void expect_refused(kit_job j, const char *says)
{
    kit_text texts[KIT_MEMBERS] = { 0 };
    ends *e = fl_alloc(sizeof(*e));

    j.mode = "collective";
    j.workers_serve = true;
    j.n_trainers = 1;
    kit_run(&j, work, e, NULL, texts);
    if (!strstr(texts[0], says))
        fail_msg("'%s' does not say '%s'", texts[0], says);
    fl_free(e);
}

static void what_contradicts_itself_is_refused(void **state)
{
    static const struct {
        kit_setting a, b;
        const char *says;
    } cases[] = {
        { { "gradient_merge_k_steps", "4" }, { 0 }, "gradient_merge is false" },
        { { "gradient_merge_avg", "false" }, { 0 }, "gradient_merge is false" },
        { { "localsgd_k_steps", "4" }, { 0 }, "localsgd is false" },
        { { "localsgd", "true" }, { "gradient_merge", "true" }, "leave one" },
        { { "localsgd", "true" },
          { "gradient_weight", "sum" },
          "averaged, not added up" },
        { { "gradient_merge", "true" },
          { "gradient_weight", "sum" },
          "accumulate of the optimizer" },
        { { "go_on_without_lost_trainers", "true" }, { 0 }, "needs all of" },
    };

    (void)state;
    for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++)
        expect_refused((kit_job){ .settings = { cases[i].a, cases[i].b } },
                       cases[i].says);
    expect_refused((kit_job){ .words = "learning_rate=0.1 accumulate=2",
                              .settings = { { "gradient_merge", "true" } } },
                   "accumulate=2");
}

/* --- saves ----------------------------------------------------------------- */

static char folder[FOLDER_BYTES];

static int make_folder(void **state)
{
    (void)state;
    return folder_make(folder, "collective") ? 0 : -1;
}

static int remove_folder(void **state)
{
    char command[128];

    (void)state;
    snprintf(command, sizeof(command), "rm -rf %s", folder);
    return system(command);
}

/* Worker 0 saves while the others train; another number of workers goes on. */
static void a_saved_job_goes_on_bit_by_bit(void **state)
{
    kit_job j = { .n_trainers = 2,
                  .n_steps = 12,
                  .optimizer = "adam",
                  .words = "learning_rate=0.01",
                  .is_table = true };
    ends *whole = fl_alloc(sizeof(*whole)), *e = fl_alloc(sizeof(*e));
    char dir[128];
    double error;

    (void)state;
    snprintf(dir, sizeof(dir), "%s/model", folder);
    run(j, whole);
    e->save = dir;
    e->save_after = 6;
    run(j, e);
    assert_memory_equal(e->models, whole->models, sizeof(e->models));
    e->save = NULL;
    e->from = 6;
    j.model = dir;
    run(j, e);
    assert_memory_equal(e->models, whole->models, sizeof(e->models));
    /* One with replicas for both goes on with the same state. */
    j.n_trainers = 1;
    j.n_replicas = 2;
    run(j, e);
    error = kit_error(&e->models[0], &whole->models[0]);
    if (!(error <= 1e-5))
        fail_msg("one worker is %g away from the two", error);
    fl_free(whole);
    fl_free(e);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(any_number_of_workers_is_as_one_process_by_every_rule),
        cmocka_unit_test(it_is_clipped_and_decayed_behind_the_sum),
        cmocka_unit_test(schedules_follow_the_step_of_all),
        cmocka_unit_test(threads_of_a_worker_meet_first),
        cmocka_unit_test(replicas_of_a_worker_are_merged_first),
        cmocka_unit_test(buckets_change_nothing),
        cmocka_unit_test(batches_of_unequal_size_count_by_their_samples),
        cmocka_unit_test(who_has_no_more_data_stays_with_the_others),
        cmocka_unit_test(rows_are_dealt_over_the_workers),
        cmocka_unit_test(a_program_may_call_the_other_workers),
        cmocka_unit_test(calls_of_unequal_number_end_for_all),
        cmocka_unit_test(merged_gradients_make_one_update),
        cmocka_unit_test(local_steps_end_in_the_mean_of_all),
        cmocka_unit_test(what_contradicts_itself_is_refused),
        cmocka_unit_test_setup_teardown(a_saved_job_goes_on_bit_by_bit,
                                        make_folder, remove_folder),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
