/* test_examine.c - other data is examined while a pass trains. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "api.h"
#include "../make.h"

#define ROWS 600
#define BATCH 10
#define BATCHES (ROWS / BATCH)
#define TEST_ROWS 90
#define TESTS_MAX 16

/* A classifier with an AUC, its data and what is held out. */
typedef struct fixture {
    char dir[64], train[96], test[96];
    fl_ctx *ctx;
    fl_executor *exe;
    fl_var *loss, *auc, *stat_pos, *stat_neg;
    fl_dataset *data, *held_out;
    const char *model; /* saved every 25 steps, and gone on from; NULL: none */
} fixture;

/* What examinations have told. */
typedef struct told {
    const fixture *f;
    int n;
    double loss[TESTS_MAX], auc[TESTS_MAX];
    int64_t counted[TESTS_MAX], trained[TESTS_MAX];
    fl_status answer;
} told;

static void write_lines(const char *path, int first, int n)
{
    FILE *f = fopen(path, "w");

    assert_non_null(f);
    for (int i = first; i < first + n; i++) {
        double a = (i * 37 % 101) / 101.0, b = (i * 53 % 97) / 97.0;

        fprintf(f, "2 %.6f %.6f 1 %d\n", a, b, a > b || i % 7 == 0);
    }
    assert_int_equal(fclose(f), 0);
}

static void build_net(fixture *f)
{
    fl_var *x, *label, *p;

    f->ctx = make_ctx();
    if (f->model) {
        assert_ok(fl_ctx_set(f->ctx, "save_dir", f->model));
        assert_ok(fl_ctx_set(f->ctx, "save_every_steps", "25"));
        assert_ok(fl_ctx_set(f->ctx, "resume", f->model));
    }
    fl_program_set_seed(fl_default_startup_program(f->ctx), 7);
    x = data2(f->ctx, "x", 2);
    label = fl_layers_data(f->ctx, "label", FL_DTYPE_I64, 2,
                           (int64_t[]){ -1, 1 }, 0);
    p = fl_layers_fc(fl_layers_fc(x, 4, .act = "tanh"), 2, .act = "softmax");
    f->loss = fl_layers_mean(fl_layers_cross_entropy(p, label));
    f->auc = fl_layers_auc(p, label, NULL, .stat_pos = &f->stat_pos,
                           .stat_neg = &f->stat_neg);
    assert_non_null(f->auc);
    assert_ok(fl_minimize(make_optimizer(f->ctx, "adam", "learning_rate=0.02"),
                          f->loss));
    f->exe = make_executor(f->ctx);
    assert_ok(fl_run(f->exe, fl_default_startup_program(f->ctx), NULL));
}

static fl_dataset *open_data(fixture *f, const char *path)
{
    static const char *const names[] = { "x", "label" };
    fl_dataset *d;

    assert_ok(fl_dataset_new(&d, f->ctx, "QueueDataset"));
    assert_ok(
        fl_dataset_set_use_var(d, fl_default_main_program(f->ctx), names, 2));
    assert_ok(fl_dataset_set_filelist(d, &path, 1));
    fl_dataset_set_batch_size(d, BATCH);
    return d;
}

/* Trains on the first n records. */
static void open_all(fixture *f, int n)
{
    strcpy(f->dir, "/tmp/flotilla-examine-XXXXXX");
    assert_non_null(mkdtemp(f->dir));
    snprintf(f->train, sizeof(f->train), "%s/train", f->dir);
    snprintf(f->test, sizeof(f->test), "%s/test", f->dir);
    write_lines(f->train, 0, n);
    write_lines(f->test, ROWS, TEST_ROWS);
    build_net(f);
    f->data = open_data(f, f->train);
    f->held_out = open_data(f, f->test);
}

static void close_all(fixture *f)
{
    fl_dataset_free(f->held_out);
    fl_dataset_free(f->data);
    fl_executor_free(f->exe);
    fl_ctx_free(f->ctx);
    unlink(f->train);
    unlink(f->test);
    rmdir(f->dir);
}

static int set_up(void **state)
{
    fixture *f = calloc(1, sizeof(*f));

    open_all(f, ROWS);
    *state = f;
    return 0;
}

static int tear_down(void **state)
{
    close_all(*state);
    free(*state);
    return 0;
}

static fl_program *main_of(const fixture *f)
{
    return fl_default_main_program(f->ctx);
}

static int64_t sum_of(fl_scope *s, const fl_var *v)
{
    int64_t sum = 0;
    fl_tensor t;

    assert_ok(fl_scope_get(s, fl_var_name(v), &t));
    for (int64_t i = 0; i < fl_tensor_numel(&t); i++)
        sum += ((const int64_t *)t.data)[i];
    return sum;
}

/* Samples that the AUC of a scope has counted. */
static int64_t samples_in(fl_scope *s, const fixture *f)
{
    return sum_of(s, f->stat_pos) + sum_of(s, f->stat_neg);
}

static fl_status on_test(void *arg, const fl_dataset_report *r,
                         fl_scope *counts)
{
    told *t = arg;

    assert_true(t->n < TESTS_MAX);
    assert_int_equal(r->samples, TEST_ROWS);
    t->loss[t->n] = r->loss;
    t->auc[t->n] = r->auc;
    t->counted[t->n] = samples_in(counts, t->f);
    t->trained[t->n++] = samples_in(fl_current_scope(t->f->ctx), t->f);
    return t->answer;
}

static told train(fixture *f, uint64_t every, int n_threads,
                  fl_dataset_report *r)
{
    told t = { .f = f };

    assert_ok(fl_train_from_dataset(
        f->exe, main_of(f), f->data, r, .n_threads = n_threads,
        .loss = fl_var_name(f->loss), .auc = fl_var_name(f->auc),
        .test = every ? f->held_out : NULL, .test_every = every,
        .on_test = on_test, .test_arg = &t));
    return t;
}

static void assert_same_weights(const fixture *a, const fixture *b)
{
    static const char *const names[] = { "fc_0.w_0", "fc_0.b_0", "fc_1.w_0",
                                         "fc_1.b_0" };
    fl_tensor x, y;

    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
        assert_ok(fl_scope_get(fl_current_scope(a->ctx), names[i], &x));
        assert_ok(fl_scope_get(fl_current_scope(b->ctx), names[i], &y));
        assert_memory_equal(x.data, y.data,
                            (size_t)fl_tensor_numel(&x) * sizeof(float));
    }
}

/* --- what is told ---------------------------------------------------------- */

static void every_so_many_batches_it_is_as_if_training_had_ended(void **state)
{
    fixture *f = *state;
    told t = train(f, 25, 1, NULL);

    assert_int_equal(t.n, BATCHES / 25);
    for (int i = 0; i < t.n; i++) {
        fl_dataset_report r = FL_INIT(fl_dataset_report);
        fixture cut = { 0 };

        open_all(&cut, (i + 1) * 25 * BATCH);
        (void)train(&cut, 0, 1, NULL);
        assert_ok(fl_infer_from_dataset(
            cut.exe, main_of(&cut), cut.held_out, &r, .n_threads = 1,
            .loss = fl_var_name(cut.loss), .auc = fl_var_name(cut.auc)));
        assert_true(r.loss == t.loss[i]);
        assert_true(r.auc == t.auc[i]);
        close_all(&cut);
    }
}

static void training_is_the_same_with_examinations(void **state)
{
    fixture *f = *state, other = { 0 };
    fl_dataset_report with = FL_INIT(fl_dataset_report), without = with;

    open_all(&other, ROWS);
    assert_int_equal(train(f, 7, 1, &with).n, BATCHES / 7);
    assert_int_equal(train(&other, 0, 1, &without).n, 0);
    assert_same_weights(f, &other);
    assert_true(with.loss == without.loss && with.auc == without.auc);
    assert_int_equal(with.samples, ROWS);
    assert_int_equal(with.batches, without.batches);
    assert_int_equal(fl_scope_step(fl_current_scope(f->ctx)), BATCHES);
    close_all(&other);
}

static void both_count_their_own_samples(void **state)
{
    fixture *f = *state;
    told t = train(f, 20, 1, NULL);

    for (int i = 0; i < t.n; i++) {
        assert_int_equal(t.counted[i], TEST_ROWS);
        assert_int_equal(t.trained[i], (i + 1) * 20 * BATCH);
    }
    assert_int_equal(samples_in(fl_current_scope(f->ctx), f), ROWS);
}

static void threads_come_to_rest_and_go_on(void **state)
{
    fixture *f = *state;
    fl_dataset_report r = FL_INIT(fl_dataset_report);
    told t = train(f, 15, 3, &r);

    assert_int_equal(t.n, BATCHES / 15);
    for (int i = 0; i < t.n; i++)
        assert_int_equal(t.trained[i], (i + 1) * 15 * BATCH);
    assert_int_equal(r.samples, ROWS);
}

static void fewer_batches_than_that_are_not_examined(void **state)
{
    fixture *f = *state;

    assert_int_equal(train(f, BATCHES + 1, 1, NULL).n, 0);
    assert_int_equal(train(f, BATCHES, 1, NULL).n, 1);
}

/* A pass may run in a scope of one's own, its examinations over that. */
static void a_scope_of_ones_own_is_examined(void **state)
{
    fixture *f = *state;
    told t = { .f = f };
    fl_scope *own;

    assert_ok(fl_scope_new(&own, NULL));
    assert_ok(fl_run(f->exe, fl_default_startup_program(f->ctx),
                     FL_OPTIONS(fl_run_args, .scope = own)));
    assert_ok(fl_train_from_dataset(f->exe, main_of(f), f->data, NULL,
                                    .auc = fl_var_name(f->auc), .scope = own,
                                    .test = f->held_out, .test_every = 30,
                                    .on_test = on_test, .test_arg = &t));
    assert_int_equal(t.n, 2);
    assert_int_equal(samples_in(own, f), ROWS);
    assert_int_equal(samples_in(fl_current_scope(f->ctx), f), 0);
    assert_int_equal(fl_scope_step(own), BATCHES);
    fl_scope_free(own);
}

/* The run that goes on makes the examinations that are left: those that were made
   are no passes of their own. */
static void a_run_that_goes_on_examines_what_is_left(void **state)
{
    char model[] = "/tmp/flotilla-examined-XXXXXX", command[64];
    fixture first = { .model = model }, second = { .model = model };
    told whole, rest;

    (void)state;
    assert_non_null(mkdtemp(model));
    open_all(&first, ROWS);
    whole = train(&first, 20, 1, NULL);
    assert_int_equal(whole.n, 3);
    open_all(&second, ROWS);
    fl_dataset_free(second.data);
    second.data = open_data(&second, first.train);
    rest = train(&second, 20, 1, NULL);
    assert_int_equal(rest.n, 1);
    assert_true(rest.loss[0] == whole.loss[2] && rest.auc[0] == whole.auc[2]);
    assert_same_weights(&first, &second);
    close_all(&first);
    close_all(&second);
    snprintf(command, sizeof(command), "rm -r %s", model);
    assert_int_equal(system(command), 0);
}

/* --- what goes wrong -------------------------------------------------------- */

static void what_makes_no_sense_is_refused(void **state)
{
    fixture *f = *state;

    assert_int_equal(fl_train_from_dataset(f->exe, main_of(f), f->data, NULL,
                                           .test = f->held_out),
                     FL_ERR_INVAL);
    assert_said("how often (test_every)");
    assert_int_equal(fl_train_from_dataset(f->exe, main_of(f), f->data, NULL,
                                           .test_every = 5),
                     FL_ERR_INVAL);
    assert_said("data (test)");
    assert_int_equal(fl_train_from_dataset(f->exe, main_of(f), f->data, NULL,
                                           .test = f->data, .test_every = 5),
                     FL_ERR_INVAL);
    assert_said("open a second one");
    assert_int_equal(fl_infer_from_dataset(f->exe, main_of(f), f->data, NULL,
                                           .test = f->held_out,
                                           .test_every = 5),
                     FL_ERR_INVAL);
    assert_said("leave test and test_every out");
}

static void an_error_of_the_handler_ends_the_pass(void **state)
{
    fixture *f = *state;
    told t = { .f = f, .answer = FL_ERR_CLOSED };

    assert_int_equal(fl_train_from_dataset(
                         f->exe, main_of(f), f->data, NULL, .test = f->held_out,
                         .test_every = 10, .auc = fl_var_name(f->auc),
                         .on_test = on_test, .test_arg = &t),
                     FL_ERR_CLOSED);
    assert_int_equal(t.n, 1);
    assert_int_equal(fl_scope_step(fl_current_scope(f->ctx)), 10);
    (void)train(f, 30, 1, NULL);
}

static void data_that_fails_is_named_with_the_batch(void **state)
{
    fixture *f = *state;

    fl_dataset_set_pipe_command(f->held_out, "cat; exit 3");
    assert_true(fl_train_from_dataset(f->exe, main_of(f), f->data, NULL,
                                      .test = f->held_out, .test_every = 10));
    assert_said("examining behind batch 10");
    assert_said("exit 3");
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)
    const struct CMUnitTest tests[] = {
        TEST(every_so_many_batches_it_is_as_if_training_had_ended),
        TEST(training_is_the_same_with_examinations),
        TEST(both_count_their_own_samples),
        TEST(threads_come_to_rest_and_go_on),
        TEST(fewer_batches_than_that_are_not_examined),
        TEST(a_scope_of_ones_own_is_examined),
        cmocka_unit_test(a_run_that_goes_on_examines_what_is_left),
        TEST(what_makes_no_sense_is_refused),
        TEST(an_error_of_the_handler_ends_the_pass),
        TEST(data_that_fails_is_named_with_the_batch),
    };
#undef TEST

    return cmocka_run_group_tests(tests, NULL, NULL);
}
