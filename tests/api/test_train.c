/* test_train.c - passes over datasets: training, inference, what is told. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "train/progress.h"
#include "api.h"
#include "flotilla/flotilla.h"
#include "../make.h"

#define ROWS 3000

#define assert_fails(expr, words)                                              \
    do {                                                                       \
        assert_true(expr);                                                     \
        assert_said(words);                                                    \
    } while (0)

/* A regression that a line of the data makes exact: y = 2 a - b. */
typedef struct fixture {
    char dir[64], path[96];
    fl_ctx *ctx;
    fl_executor *exe;
    fl_var *loss;
    fl_dataset *data;
} fixture;

static const char *const names[] = { "x", "y" };

static void write_lines(const char *path, int n)
{
    FILE *f = fopen(path, "w");

    assert_non_null(f);
    for (int i = 0; i < n; i++) {
        double a = (i * 7 % 101) / 101.0, b = (i * 13 % 97) / 97.0;

        fprintf(f, "2 %.6f %.6f 1 %.6f\n", a, b, 2 * a - b);
    }
    assert_int_equal(fclose(f), 0);
}

static void build_net(fixture *f)
{
    const int64_t two[] = { -1, 2 }, one[] = { -1, 1 };
    fl_var *x, *y;

    f->ctx = make_ctx();
    assert_non_null(f->ctx);
    x = fl_layers_data(f->ctx, "x", FL_DTYPE_F32, 2, two, 0);
    y = fl_layers_data(f->ctx, "y", FL_DTYPE_F32, 2, one, 0);
    f->loss =
        fl_layers_mean(fl_layers_square_error_cost(fl_layers_fc(x, 1), y));
    assert_non_null(f->loss);
    assert_ok(fl_minimize(make_optimizer(f->ctx, "sgd", "learning_rate=0.1"),
                          f->loss));
    f->exe = make_executor(f->ctx);
    assert_ok(fl_run(f->exe, fl_default_startup_program(f->ctx), NULL));
}

static void open_data(fixture *f, const char *kind)
{
    const char *path = f->path;

    assert_ok(fl_dataset_new(&f->data, f->ctx, kind));
    assert_ok(fl_dataset_set_use_var(f->data, fl_default_main_program(f->ctx),
                                     names, 2));
    assert_ok(fl_dataset_set_filelist(f->data, &path, 1));
    fl_dataset_set_batch_size(f->data, 10);
}

static int set_up(void **state)
{
    fixture *f = calloc(1, sizeof(*f));

    strcpy(f->dir, "/tmp/flotilla-train-XXXXXX");
    assert_non_null(mkdtemp(f->dir));
    snprintf(f->path, sizeof(f->path), "%s/data", f->dir);
    write_lines(f->path, ROWS);
    build_net(f);
    open_data(f, "QueueDataset");
    *state = f;
    return 0;
}

static int tear_down(void **state)
{
    fixture *f = *state;

    fl_dataset_free(f->data);
    fl_executor_free(f->exe);
    fl_ctx_free(f->ctx);
    unlink(f->path);
    rmdir(f->dir);
    free(f);
    return 0;
}

static float first_weight(const fixture *f)
{
    fl_tensor w;

    assert_ok(fl_scope_get(fl_current_scope(f->ctx), "fc_0.w_0", &w));
    return *(const float *)w.data;
}

static fl_program *main_of(const fixture *f)
{
    return fl_default_main_program(f->ctx);
}

/* A program that was pruned to its prediction does not feed the label. */
static void slots_that_the_program_does_not_feed_are_left_out(void **state)
{
    fixture *f = *state;
    const char *target = "fc_0.tmp_1";
    fl_dataset_report r = FL_INIT(fl_dataset_report);
    fl_program *p = NULL;

    assert_ok(fl_program_pruned(&p, main_of(f), &target, 1));
    assert_null(fl_program_var(p, "y"));
    assert_fails(fl_infer_from_dataset(f->exe, p, f->data, &r), "y");
    assert_ok(
        fl_infer_from_dataset(f->exe, p, f->data, &r, .skip_unused = true));
    assert_int_equal(r.samples, ROWS);
    fl_program_free(p);
}

/* --- training ------------------------------------------------------------ */

static void a_pass_trains_on_every_record(void **state)
{
    fixture *f = *state;
    fl_dataset_report first = FL_INIT(fl_dataset_report), last = first;

    assert_ok(fl_train_from_dataset(f->exe, main_of(f), f->data, &first,
                                    .loss = fl_var_name(f->loss)));
    assert_ok(fl_train_from_dataset(f->exe, main_of(f), f->data, &last,
                                    .loss = fl_var_name(f->loss)));
    assert_int_equal(first.samples, ROWS);
    assert_int_equal(first.batches, ROWS / 10);
    assert_true(last.loss < first.loss && last.loss < 1e-3);
    assert_true(first.seconds > 0 && isnan(first.auc));
    assert_true(first.wait_seconds >= 0);
    assert_int_equal(fl_scope_step(fl_current_scope(f->ctx)), 2 * ROWS / 10);
}

static void threads_share_the_records(void **state)
{
    fixture *f = *state;
    fl_dataset_report r = FL_INIT(fl_dataset_report);

    fl_dataset_set_thread(f->data, 3);
    assert_ok(fl_train_from_dataset(f->exe, main_of(f), f->data, &r,
                                    .n_threads = 4,
                                    .loss = fl_var_name(f->loss)));
    assert_int_equal(r.samples, ROWS);
    assert_int_equal(fl_scope_step(fl_current_scope(f->ctx)), r.batches);
}

static void records_in_memory_train_like_a_queue(void **state)
{
    fixture *f = *state;
    fl_dataset_report r = FL_INIT(fl_dataset_report);

    fl_dataset_free(f->data);
    open_data(f, "InMemoryDataset");
    assert_ok(fl_dataset_load_into_memory(f->data));
    assert_ok(fl_dataset_local_shuffle(f->data));
    for (int pass = 0; pass < 2; pass++)
        assert_ok(fl_train_from_dataset(f->exe, main_of(f), f->data, &r,
                                        .n_threads = 2,
                                        .loss = fl_var_name(f->loss)));
    assert_int_equal(r.samples, ROWS);
    assert_true(r.loss < 1e-2);
}

static void inference_changes_nothing(void **state)
{
    fixture *f = *state;
    float before = first_weight(f);
    fl_dataset_report r = FL_INIT(fl_dataset_report);

    assert_ok(fl_infer_from_dataset(f->exe, main_of(f), f->data, &r,
                                    .n_threads = 2,
                                    .loss = fl_var_name(f->loss)));
    assert_int_equal(r.samples, ROWS);
    assert_false(isnan(r.loss));
    assert_float_equal(first_weight(f), before, 0);
    assert_int_equal(fl_scope_step(fl_current_scope(f->ctx)), 0);
}

/* --- what is told -------------------------------------------------------- */

static char *text_of(FILE *stream)
{
    char *text = calloc(1, 1 << 16);

    rewind(stream);
    assert_true(fread(text, 1, (1 << 16) - 1, stream) > 0);
    return text;
}

static void fetches_are_printed_by_period(void **state)
{
    fixture *f = *state;
    FILE *out = tmpfile();
    const char *fetch[] = { fl_var_name(f->loss) };
    const char *info[] = { "cost" };
    char *text;

    assert_ok(fl_train_from_dataset(
        f->exe, main_of(f), f->data, NULL, .fetches = fetch, .fetch_info = info,
        .n_fetches = 1, .print_period = 150, .on_progress = fl_progress_to_file,
        .progress_arg = out));
    text = text_of(out);
    assert_non_null(strstr(text, "batch 150: cost "));
    assert_non_null(strstr(text, "batch 300: cost "));
    assert_null(strstr(text, "batch 100:"));
    assert_non_null(strstr(text, "3.00k samples, "));
    assert_null(strchr(text, '\r'));
    free(text);
    fclose(out);
}

static void the_profile_comes_with_debug(void **state)
{
    fixture *f = *state;
    FILE *out = tmpfile();
    char *text;

    assert_ok(fl_train_from_dataset(
        f->exe, main_of(f), f->data, NULL, .debug = true,
        .on_progress = fl_progress_to_file, .progress_arg = out));
    text = text_of(out);
    assert_non_null(strstr(text, "sgd"));
    assert_string_equal(fl_ctx_get(f->ctx, "profile"), "false");
    free(text);
    fclose(out);
}

typedef struct handled {
    int calls;
    float last;
} handled;

static void handle(void *arg, const fl_tensor *fetched, size_t n)
{
    handled *h = arg;

    assert_int_equal(n, 1);
    h->calls++;
    h->last = *(const float *)fetched[0].data;
}

/* A pipe that is slow enough for the watcher to wake up several times. */
static void a_fetch_handler_is_called_by_period(void **state)
{
    fixture *f = *state;
    const char *fetch[] = { fl_var_name(f->loss) };
    handled h = { .last = -1 };

    fl_dataset_set_pipe_command(f->data, "head -n 500; sleep 1; cat; sleep 1");
    assert_ok(fl_train_from_dataset(f->exe, main_of(f), f->data, NULL,
                                    .fetches = fetch, .n_fetches = 1,
                                    .print_period = -1, .fetch_handler = handle,
                                    .fetch_arg = &h, .period_secs = 0.1));
    assert_true(h.calls >= 1);
    assert_true(h.last >= 0);
}

static void count_ends(void *arg, const fl_progress *p)
{
    int *n = arg;

    if (p->is_last && !p->text) {
        assert_int_equal(p->samples, 3000);
        assert_true(p->loss >= 0);
        n[0]++;
    }
    n[1] += p->text && strstr(p->text, "batch 150: ");
}

static void progress_is_numbers_and_ends_once(void **state)
{
    fixture *f = *state;
    const char *fetch[] = { fl_var_name(f->loss) };
    int n[2] = { 0 };

    assert_ok(fl_train_from_dataset(
        f->exe, main_of(f), f->data, NULL, .fetches = fetch, .n_fetches = 1,
        .print_period = 150, .loss = fetch[0], .on_progress = count_ends,
        .progress_arg = n));
    assert_int_equal(n[0], 1);
    assert_int_equal(n[1], 1);
}

static void progress_lines_are_for_people(void **state)
{
    fl_progress s = FL_INIT(fl_progress, .samples = 1204000, .total = 2800000,
                            .seconds = 20.7, .wait_share = 0.03,
                            .loss = 0.45123, .auc = 0.78111);
    char line[256];

    (void)state;
    fl_progress_line(&s, line, sizeof(line));
    assert_string_equal(line,
                        "1.20M samples, 58.2k/s, loss 0.4512, AUC 0.7811, 3 % "
                        "of the time waiting for input, 43 %, 0:27 left");
    s = FL_INIT(fl_progress, .is_last = true, .samples = 999, .seconds = 3700,
                .loss = NAN, .auc = NAN);
    fl_progress_line(&s, line, sizeof(line));
    assert_string_equal(line, "999 samples, 0/s, 1:01:40 in all");
    s.has_loss = true;
    fl_progress_line(&s, line, sizeof(line));
    assert_string_equal(line, "999 samples, 0/s, loss nan, 1:01:40 in all");
    fl_progress_line(&s, line, 12);
    assert_string_equal(line, "999 samples");
}

static void a_worker_and_its_job_are_told_apart(void **state)
{
    fl_progress s = FL_INIT(fl_progress, .samples = 1204000, .seconds = 20.7,
                            .loss = NAN, .auc = NAN, .worker = 1,
                            .n_workers = 2, .job_samples_per_second = 115000);
    char line[256];

    (void)state;
    fl_progress_line(&s, line, sizeof(line));
    assert_string_equal(line, "worker 1 of 2: 1.20M samples, 58.2k/s (all "
                              "workers 115k/s)");
    s.job_samples_per_second = NAN;
    fl_progress_line(&s, line, sizeof(line));
    assert_string_equal(line, "worker 1 of 2: 1.20M samples, 58.2k/s");
    s.n_workers = 1;
    fl_progress_line(&s, line, sizeof(line));
    assert_string_equal(line, "1.20M samples, 58.2k/s");
}

static void a_pass_below_a_second_is_told(void **state)
{
    fl_progress s = FL_INIT(fl_progress, .is_last = true, .samples = 999,
                            .seconds = 0.0237, .loss = NAN, .auc = NAN);
    char line[256];

    (void)state;
    fl_progress_line(&s, line, sizeof(line));
    assert_string_equal(line, "999 samples, 42.2k/s, 0.024 s in all");
}

/* The first pass over files does not know how long it is, the second does. */
static void take_total(void *arg, const fl_progress *s)
{
    if (s->is_last)
        *(uint64_t *)arg = s->total;
}

static void a_second_pass_knows_its_length(void **state)
{
    fixture *f = *state;
    fl_dataset_report report = FL_INIT(fl_dataset_report);
    uint64_t totals[2] = { 0 };

    for (int i = 0; i < 2; i++)
        assert_ok(fl_train_from_dataset(
            f->exe, main_of(f), f->data, &report, .print_period = -1,
            .on_progress = take_total, .progress_arg = &totals[i]));
    assert_int_equal(totals[1], report.samples);
}

/* --- what goes wrong ----------------------------------------------------- */

static void a_failing_pipe_ends_the_pass_by_name(void **state)
{
    fixture *f = *state;

    fl_dataset_set_pipe_command(f->data, "head -n 100; exit 3");
    assert_fails(fl_train_from_dataset(f->exe, main_of(f), f->data, NULL,
                                       .n_threads = 2),
                 "exit 3");
}

static void unknown_names_are_refused(void **state)
{
    fixture *f = *state;
    const char *fetch[] = { "nothing" };

    assert_fails(fl_train_from_dataset(f->exe, main_of(f), f->data, NULL,
                                       .fetches = fetch, .n_fetches = 1),
                 "nothing");
    assert_fails(fl_train_from_dataset(f->exe, main_of(f), f->data, NULL,
                                       .auc = "nothing"),
                 "nothing");
    assert_fails(fl_train_from_dataset(f->exe, main_of(f), f->data, NULL,
                                       .n_threads = -1),
                 "-1");
    assert_fails(fl_train_from_dataset(f->exe, main_of(f), f->data, NULL,
                                       .n_fetches = 1),
                 "no names of them");
}

/* The AUC of a pass does not remember the pass before. */
static void the_auc_of_a_pass_starts_anew(void **state)
{
    fixture *f = *state;
    const int64_t two[] = { -1, 2 }, one[] = { -1, 1 };
    const char *const vars[] = { "p", "label" };
    const char *path = f->path;
    FILE *file = fopen(path, "w");
    fl_var *auc, *batch;
    fl_dataset_report r = FL_INIT(fl_dataset_report);
    fl_dataset *d;

    for (int i = 0; i < 100; i++)
        fprintf(file, "2 %g %g 1 %d\n", 1 - i / 100.0, i / 100.0, i % 3 == 0);
    fclose(file);
    auc = fl_layers_auc(
        fl_layers_data(f->ctx, "p", FL_DTYPE_F32, 2, two, 0),
        fl_layers_data(f->ctx, "label", FL_DTYPE_I64, 2, one, 0), &batch);
    assert_non_null(auc);
    assert_ok(fl_run(f->exe, fl_default_startup_program(f->ctx), NULL));
    assert_ok(fl_dataset_new(&d, f->ctx, "QueueDataset"));
    assert_ok(fl_dataset_set_use_var(d, main_of(f), vars, 2));
    assert_ok(fl_dataset_set_filelist(d, &path, 1));
    assert_ok(fl_infer_from_dataset(f->exe, main_of(f), d, &r,
                                    .auc = fl_var_name(auc)));
    assert_true(r.auc > 0.4 && r.auc < 0.6);

    file = fopen(path, "w");
    for (int i = 0; i < 100; i++)
        fprintf(file, "2 %g %g 1 %d\n", 1 - i / 100.0, i / 100.0, i >= 50);
    fclose(file);
    assert_ok(fl_infer_from_dataset(f->exe, main_of(f), d, &r,
                                    .auc = fl_var_name(auc)));
    assert_true(r.auc > 0.999);
    fl_dataset_free(d);
}

/* --- numbers that are not finite ----------------------------------------- */

/* Trains with a learning rate at which the weights grow without end. */
static void let_it_diverge(fixture *f)
{
    float big[] = { 1e19F, 1e19F };
    fl_tensor w;

    assert_ok(fl_scope_get(fl_current_scope(f->ctx), "fc_0.w_0", &w));
    memcpy(w.data, big, sizeof(big));
}

static void a_loss_that_is_not_finite_ends_the_pass(void **state)
{
    fixture *f = *state;
    fl_dataset_report r = FL_INIT(fl_dataset_report, .samples = 7);
    char note[128];
    FILE *file;

    snprintf(note, sizeof(note), "%s/note", f->dir);
    assert_ok(fl_ctx_set(f->ctx, "end_note", note));
    let_it_diverge(f);
    assert_int_equal(fl_train_from_dataset(f->exe, main_of(f), f->data, &r,
                                           .loss = fl_var_name(f->loss)),
                     FL_ERR_NUMERIC);
    assert_said(fl_var_name(f->loss));
    assert_said("is inf at batch 1 of training thread 0");
    assert_said("check_nan_inf=true names the operator");
    assert_said("finite_loss=false");
    assert_int_equal(r.samples, 7);
    file = fopen(note, "r");
    assert_non_null(file);
    fclose(file);
    unlink(note);
}

static void a_loss_that_nobody_named_is_watched_too(void **state)
{
    fixture *f = *state;
    const char *fetch[] = { fl_var_name(f->loss) };

    let_it_diverge(f);
    assert_int_equal(fl_train_from_dataset(f->exe, main_of(f), f->data, NULL,
                                           .n_threads = 2),
                     FL_ERR_NUMERIC);
    assert_said(fl_var_name(f->loss));
    let_it_diverge(f);
    assert_int_equal(fl_train_from_dataset(f->exe, main_of(f), f->data, NULL,
                                           .fetches = fetch, .n_fetches = 1),
                     FL_ERR_NUMERIC);
    assert_said(fl_var_name(f->loss));
    let_it_diverge(f);
    assert_int_equal(fl_infer_from_dataset(f->exe, main_of(f), f->data, NULL,
                                           .loss = fl_var_name(f->loss)),
                     FL_ERR_NUMERIC);
}

static void expect_bad_loss(void *arg, const fl_progress *p)
{
    bool *told = arg;

    if (p->is_last && !p->text)
        *told = p->has_loss && !isfinite(p->loss);
}

static void training_goes_on_when_it_is_told_to(void **state)
{
    fixture *f = *state;
    fl_dataset_report r = FL_INIT(fl_dataset_report);
    bool told = false;

    assert_ok(fl_ctx_set(f->ctx, "finite_loss", "false"));
    assert_ok(fl_ctx_set(f->ctx, "log_level", "error"));
    let_it_diverge(f);
    assert_ok(fl_train_from_dataset(
        f->exe, main_of(f), f->data, &r, .loss = fl_var_name(f->loss),
        .on_progress = expect_bad_loss, .progress_arg = &told));
    assert_int_equal(r.samples, ROWS);
    assert_false(isfinite(r.loss));
    assert_true(told);
}

/* --- batches, one by one -------------------------------------------------- */

typedef struct looked_at {
    _Atomic size_t rows, batches, wrong;
    size_t ends_at; /* batches; 0: never */
} looked_at;

/* What was fetched is the mean over the rows that were fed. */
static bool look_at_batch(void *arg, int thread, const fl_feed *feeds,
                          size_t n_rows, const fl_tensor *fetched)
{
    looked_at *seen = arg;
    const float *y = feeds[1].value.data;
    double sum = 0;

    (void)thread;
    for (size_t i = 0; i < n_rows; i++)
        sum += (double)y[i];
    seen->wrong += fabs(sum / (double)n_rows -
                        (double)*(const float *)fetched[0].data) > 1e-5;
    seen->rows += n_rows;
    return ++seen->batches != seen->ends_at;
}

static void every_batch_can_be_looked_at(void **state)
{
    fixture *f = *state;
    fl_var *mean = fl_layers_mean(fl_program_var(main_of(f), "y"));
    const char *fetches[] = { fl_var_name(mean) };
    looked_at seen = { 0 };

    for (int n = 1; n <= 3; n += 2) {
        seen.rows = 0;
        assert_ok(fl_infer_from_dataset(
            f->exe, main_of(f), f->data, NULL, .n_threads = n,
            .fetches = fetches, .n_fetches = 1, .print_period = -1,
            .on_batch = look_at_batch, .batch_arg = &seen));
        assert_int_equal(seen.rows, ROWS);
        assert_int_equal(seen.wrong, 0);
    }
    seen = (looked_at){ .ends_at = 7 };
    assert_int_equal(fl_infer_from_dataset(
                         f->exe, main_of(f), f->data, NULL, .n_threads = 2,
                         .fetches = fetches, .n_fetches = 1, .print_period = -1,
                         .on_batch = look_at_batch, .batch_arg = &seen),
                     FL_ERR_CLOSED);
    assert_said("on_batch has ended the pass");
    assert_in_range(seen.batches, 7, 8);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)
    const struct CMUnitTest tests[] = {
        TEST(slots_that_the_program_does_not_feed_are_left_out),
        TEST(a_pass_trains_on_every_record),
        TEST(threads_share_the_records),
        TEST(records_in_memory_train_like_a_queue),
        TEST(inference_changes_nothing),
        TEST(fetches_are_printed_by_period),
        TEST(progress_is_numbers_and_ends_once),
        TEST(a_second_pass_knows_its_length),
        TEST(the_profile_comes_with_debug),
        TEST(a_fetch_handler_is_called_by_period),
        cmocka_unit_test(progress_lines_are_for_people),
        cmocka_unit_test(a_worker_and_its_job_are_told_apart),
        cmocka_unit_test(a_pass_below_a_second_is_told),
        TEST(a_failing_pipe_ends_the_pass_by_name),
        TEST(unknown_names_are_refused),
        TEST(the_auc_of_a_pass_starts_anew),
        TEST(a_loss_that_is_not_finite_ends_the_pass),
        TEST(a_loss_that_nobody_named_is_watched_too),
        TEST(training_goes_on_when_it_is_told_to),
        TEST(every_batch_can_be_looked_at),
    };
#undef TEST

    return cmocka_run_group_tests(tests, NULL, NULL);
}
