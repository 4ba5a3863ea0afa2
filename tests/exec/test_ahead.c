/* test_ahead.c - rows of the next batch are asked for while one computes. */
#include "net.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "ctx/ctx.h"
#include "late_comm.h"
#include "../make.h"

#define BATCH 4
#define BATCHES 6
#define HELD 8
#define THREADS 2

/* The loss of a batch is the mean of its keys. */
static const char training[] =
    "var ids : i64[-1,1] data\n"
    "op pull_sparse (Ids=ids) -> (Rows=rows, Index=index, Keys=keys) "
    "{table=t, dim=2}\n"
    "op mean (X=rows) -> (Out=m)\n"
    "op fill_constant () -> (Out=lr) {shape=[1], value=0.5} @lr\n"
    "op push_sparse (Keys=keys, Grad=rows, LearningRate=lr) -> () {table=t} "
    "@rpc\n"
    "fetch m\n";

typedef struct fixture {
    fl_ctx *c;
    fl_executor *e;
    late_comm *late;
    fl_program *train;
    int n_threads, n_batches;
    int bad_batch; /* -1: none */
    int n_ids;     /* of a batch: the first has so many, every other one half */
    int n_held;    /* batches that live at once; 0: as the run says */
    /* By thread. */
    int given[THREADS], done[THREADS];
    int64_t *ids[THREADS][HELD];
    float losses[THREADS][BATCHES];
    int given_before[BATCHES]; /* batches of thread 0, when one was through */
} fixture;

static int set_up(void **state)
{
    fixture *f = fl_alloc(sizeof(*f));

    f->c = make_ctx();
    f->late = late_comm_use(f->c);
    f->late->holds = true;
    f->e = make_executor(f->c);
    f->n_threads = 1;
    f->n_batches = BATCHES;
    f->bad_batch = -1;
    f->n_ids = BATCH;
    *state = f;
    return fl_program_from_text(&f->train, f->c, training) ? -1 : 0;
}

static int tear_down(void **state)
{
    fixture *f = *state;

    for (int i = 0; i < THREADS * HELD; i++)
        fl_free(f->ids[i / HELD][i % HELD]);
    fl_executor_free(f->e);
    fl_program_free(f->train);
    fl_ctx_free(f->c);
    fl_free(f);
    return 0;
}

static uint64_t first_key(int thread, int batch)
{
    return (uint64_t)(thread * 1000 + batch * 10);
}

static int count_ids(const fixture *f, int batch)
{
    return batch % 2 ? f->n_ids / 2 : f->n_ids;
}

/* Memory of the batch that is over is no longer there. */
static bool next_batch(void *arg, int thread, fl_feed *feeds)
{
    fixture *f = arg;
    int no = f->given[thread], n = count_ids(f, no);
    int64_t **ids = &f->ids[thread][no % (f->n_held ? f->n_held : 2)];

    if (no == f->n_batches)
        return false;
    f->given[thread]++;
    fl_free(*ids);
    *ids = fl_alloc((size_t)n * sizeof(**ids));
    for (int i = 0; i < n; i++)
        (*ids)[i] = (int64_t)first_key(thread, no) + i;
    feeds[0].value =
        fl_tensor_of(no == f->bad_batch ? FL_DTYPE_F64 : FL_DTYPE_I64, *ids, 2,
                     (int64_t[]){ n, 1 });
    return true;
}

static void take_loss(void *arg, int thread, const fl_tensor *fetched)
{
    fixture *f = arg;

    if (thread == 0)
        f->given_before[f->done[0]] = f->given[0];
    f->losses[thread][f->done[thread]++] = *(float *)fetched->data;
}

static fl_status run(fixture *f, bool keeps_two)
{
    static const char *const names[] = { "ids" }, *const fetches[] = { "m" };
    fl_hogwild_args h =
        FL_INIT(fl_hogwild_args, .n_threads = f->n_threads, .feed_names = names,
                .n_feeds = 1, .next = next_batch, .fetches = fetches,
                .n_fetches = 1, .on_batch = take_loss, .arg = f,
                .holds_two_batches = keeps_two, .holds_batches = f->n_held);

    return fl_run_hogwild(f->e, f->train, &h);
}

static void begin_again(fixture *f)
{
    memset(f->given, 0, sizeof(f->given));
    memset(f->done, 0, sizeof(f->done));
    memset(f->late->n_pulls, 0, sizeof(f->late->n_pulls));
    memset(f->late->n_pushes, 0, sizeof(f->late->n_pushes));
}

static void expect_all_losses(const fixture *f)
{
    for (int t = 0; t < f->n_threads; t++) {
        assert_int_equal(f->done[t], f->n_batches);
        for (int i = 0; i < f->n_batches; i++)
            assert_float_equal(f->losses[t][i],
                               (float)first_key(t, i) +
                                   (float)(count_ids(f, i) - 1) / 2,
                               1e-3);
    }
}

/* Where in the list of events a thread asked for, or pushed, a batch. */
static size_t place_of(const fixture *f, late_kind kind, int thread, int batch)
{
    for (size_t i = 0; i < f->late->events.len; i++) {
        const late_event *e = &f->late->events.data[i];

        if (e->kind == kind && e->key == first_key(thread, batch))
            return i;
    }
    fail_msg("thread %d: batch %d is missing", thread, batch);
    return 0;
}

static void rows_are_asked_for_while_the_batch_before_computes(void **state)
{
    fixture *f = *state;

    f->n_threads = THREADS;
    assert_ok(run(f, true));
    expect_all_losses(f);
    for (int t = 0; t < THREADS; t++)
        for (int i = 0; i + 1 < BATCHES; i++) {
            assert_true(place_of(f, LATE_PULL, t, i + 1) <
                        place_of(f, LATE_PUSH, t, i));
            assert_true(place_of(f, LATE_PUSH, t, i) <
                        place_of(f, LATE_PUSH, t, i + 1));
        }
    assert_int_equal(late_count(f->late, LATE_PULL), THREADS * BATCHES);
}

/* All but the first: a backend that owes them what the batches before do holds
   them back. */
static void what_is_asked_for_early_says_so(void **state)
{
    fixture *f = *state;

    assert_ok(run(f, true));
    for (int i = 0; i < BATCHES; i++)
        assert_int_equal(
            f->late->events.data[place_of(f, LATE_PULL, 0, i)].is_behind,
            i > 0);
}

static void batches_that_do_not_stay_are_taken_one_by_one(void **state)
{
    fixture *f = *state;

    assert_ok(run(f, false));
    expect_all_losses(f);
    for (int i = 0; i + 1 < BATCHES; i++)
        assert_true(place_of(f, LATE_PUSH, 0, i) <
                    place_of(f, LATE_PULL, 0, i + 1));
}

static void a_backend_that_does_not_look_ahead_is_not_asked_early(void **state)
{
    fixture *f = *state;

    f->late->port.n_ahead = 0;
    assert_ok(run(f, true));
    expect_all_losses(f);
    for (int i = 0; i + 1 < BATCHES; i++)
        assert_true(place_of(f, LATE_PUSH, 0, i) <
                    place_of(f, LATE_PULL, 0, i + 1));
}

static void any_number_of_batches_ends_well(void **state)
{
    fixture *f = *state;

    for (f->n_batches = 0; f->n_batches <= 3; f->n_batches++) {
        begin_again(f);
        assert_ok(run(f, true));
        expect_all_losses(f);
    }
}

static void a_bad_batch_is_told_when_it_is_its_turn(void **state)
{
    fixture *f = *state;

    f->bad_batch = 3;
    assert_error(run(f, true), FL_ERR_TYPE,
                 "training thread 0: feed ids: got f64 values");
    assert_int_equal(f->done[0], 3);
    assert_int_equal(late_count(f->late, LATE_PUSH), 3);
}

/* The pull of batch 3 is on its way when the push of batch 2 fails, and is
   answered once the thread has left. */
static void an_error_waits_for_what_was_asked_for(void **state)
{
    fixture *f = *state;

    assert_ok(fl_ctx_set(f->c, "pending_timeout_ms", "5000"));
    f->late->fails_at = 2;
    f->late->delay_ns = 5000000;
    assert_error(run(f, true), FL_ERR_IO, "the wire is cut");
    assert_int_equal(f->done[0], 2);
    assert_int_equal(late_count(f->late, LATE_PULL), 4);
    assert_int_equal(f->late->waits.len, 0);
    /* The frames are free again. */
    f->late->fails_at = -1;
    f->late->holds = false;
    memset(f->given, 0, sizeof(f->given));
    memset(f->done, 0, sizeof(f->done));
    assert_ok(run(f, true));
    expect_all_losses(f);
}

static void an_error_of_one_thread_ends_the_others(void **state)
{
    fixture *f = *state;

    f->n_threads = THREADS;
    f->late->fails_at = 1;
    assert_error(run(f, true), FL_ERR_IO, "the wire is cut");
    assert_int_equal(f->late->n_left[0], 1);
    assert_int_equal(f->late->n_left[1], 1);
    assert_int_equal(f->late->waits.len, 0);
}

/* --- a batch more --------------------------------------------------------- */

/* No batch is through before its rows are there, and these take a while. */
static void a_thread_that_waits_takes_one_batch_more(void **state)
{
    fixture *f = *state;

    f->late->delay_ns = 1000000;
    for (f->n_held = 2; f->n_held <= 5; f->n_held++) {
        int n_taken = f->n_held > 2 ? 3 : 2;

        begin_again(f);
        assert_ok(run(f, false));
        expect_all_losses(f);
        for (int i = 0; i < BATCHES; i++)
            assert_int_equal(f->given_before[i],
                             i + n_taken < BATCHES ? i + n_taken : BATCHES);
    }
}

/* Also when batches differ in size, so that what was made ready moves. */
static void what_was_made_ready_is_asked_for_in_its_turn(void **state)
{
    fixture *f = *state;

    f->late->delay_ns = 100000;
    f->n_held = 3;
    f->n_threads = THREADS;
    for (f->n_ids = 2; f->n_ids <= 8; f->n_ids += 3) {
        begin_again(f);
        assert_ok(run(f, false));
        expect_all_losses(f);
        for (int t = 0; t < THREADS; t++)
            for (int i = 0; i + 2 < BATCHES; i++)
                assert_true(place_of(f, LATE_PUSH, t, i) <
                            place_of(f, LATE_PULL, t, i + 2));
        f->late->events.len = 0;
    }
}

static void a_bad_batch_that_was_taken_early_has_its_turn(void **state)
{
    fixture *f = *state;

    f->late->delay_ns = 1000000;
    f->n_held = 3;
    f->bad_batch = 3;
    assert_error(run(f, false), FL_ERR_TYPE,
                 "training thread 0: feed ids: got f64 values");
    assert_int_equal(f->done[0], 3);
}

/* After an error, a batch that was made ready is not there any more. */
static void what_was_made_ready_in_vain_is_forgotten(void **state)
{
    fixture *f = *state;

    f->late->delay_ns = 1000000;
    f->n_held = 3;
    for (int fails_at = 0; fails_at < 3; fails_at++) {
        f->late->fails_at = fails_at;
        f->late->holds = true;
        begin_again(f);
        assert_error(run(f, false), FL_ERR_IO, "the wire is cut");
        f->late->fails_at = -1;
        f->late->holds = false;
        begin_again(f);
        assert_ok(run(f, false));
        expect_all_losses(f);
    }
}

/* --- groups --------------------------------------------------------------- */

/* What the backend saw of one thread: P a pull, p a push, | the end of a group. */
static const char *seen(const fixture *f, char *text)
{
    char *at = text;

    for (size_t i = 0; i < f->late->events.len; i++) {
        late_kind kind = f->late->events.data[i].kind;

        if (kind == LATE_PULL || kind == LATE_PUSH || kind == LATE_GROUP)
            *at++ = kind == LATE_PULL ? 'P' : kind == LATE_PUSH ? 'p' : '|';
    }
    *at = '\0';
    return text;
}

static void small_batches_are_asked_for_in_groups(void **state)
{
    fixture *f = *state;
    char text[64];

    f->late->port.n_ahead = 2;
    f->n_held = 4;
    assert_ok(run(f, false));
    expect_all_losses(f);
    assert_string_equal(seen(f, text), "PPPPpp|PPpp|pp|");
}

static void a_group_that_is_not_full_ends_as_well(void **state)
{
    fixture *f = *state;
    char text[64];

    f->late->port.n_ahead = 4;
    f->n_held = 8;
    assert_ok(run(f, false));
    expect_all_losses(f);
    assert_string_equal(seen(f, text), "PPPPPPpppp|pp|");
}

/* Neither more than the source holds, nor more than the backend bears. */
static void groups_are_as_large_as_both_allow(void **state)
{
    fixture *f = *state;
    char text[64];

    f->late->port.n_ahead = 4;
    f->n_held = 3;
    assert_ok(run(f, false));
    assert_string_equal(seen(f, text), "PPp|Pp|Pp|Pp|Pp|p|");
}

static void fewer_batches_than_none_are_refused(void **state)
{
    fixture *f = *state;

    f->n_held = -1;
    assert_error(run(f, false), FL_ERR_INVAL, "holds_batches=-1 is negative");
}

/* Rows of 2 numbers, with keys and places 24 bytes for each id. */
static void large_batches_go_one_by_one(void **state)
{
    fixture *f = *state;
    char text[64];

    f->late->port.n_ahead = 4;
    f->n_held = 8;
    f->n_ids = 20000;
    assert_ok(run(f, false));
    assert_string_equal(seen(f, text), "PPp|Pp|Pp|Pp|Pp|p|");
}

/* Frames share memory, which moves when a batch is larger. */
static void batches_of_a_group_may_differ_in_size(void **state)
{
    fixture *f = *state;

    f->late->port.n_ahead = 3;
    f->n_held = 6;
    f->n_threads = THREADS;
    for (f->n_ids = 2; f->n_ids <= 8; f->n_ids += 3) {
        begin_again(f);
        assert_ok(run(f, false));
        expect_all_losses(f);
    }
}

/* What was handed over before it leaves. */
static void an_error_ends_the_group(void **state)
{
    fixture *f = *state;
    char text[64];

    f->late->port.n_ahead = 3;
    f->n_held = 6;
    f->bad_batch = 1;
    assert_error(run(f, false), FL_ERR_TYPE,
                 "training thread 0: feed ids: got f64 values");
    assert_int_equal(f->done[0], 1);
    assert_string_equal(seen(f, text), "PPPPPp|");
}

/* --- backends that keep back, and borrow threads -------------------------- */

/* Rows of the next batch leave with what the last one pushed, before a batch
   is computed. */
static void threads_flush_between_batches(void **state)
{
    fixture *f = *state;
    int n_flushes = 0, n_pushes = 0, n_pulls = 0;

    assert_ok(fl_ctx_set(f->c, "pending_timeout_ms", "5000"));
    late_comm_take_help(f->late); /* who helps need not flush before */
    late_comm_keep_back(f->late);
    assert_ok(run(f, true));
    expect_all_losses(f);
    for (size_t i = 0; i < f->late->events.len; i++) {
        late_kind kind = f->late->events.data[i].kind;

        if (kind == LATE_FLUSH) {
            /* The batch that is next, and the one behind it if there is. */
            assert_int_equal(n_pushes, n_flushes);
            assert_int_equal(n_pulls,
                             n_flushes + 2 < BATCHES ? n_flushes + 2 : BATCHES);
            n_flushes++;
        }
        n_pushes += kind == LATE_PUSH;
        n_pulls += kind == LATE_PULL;
    }
    assert_int_equal(n_flushes, BATCHES);
    assert_int_equal(n_pushes, BATCHES);
}

static void check_helpers(fixture *f, late_answers answers)
{
    begin_again(f);
    late_comm_set_answers(f->late, answers);
    f->late->events.len = 0;
    f->late->n_answered = f->late->n_helped = 0;
    assert_ok(run(f, true));
    expect_all_losses(f);
    assert_true(late_reaches(f->late, THREADS * BATCHES, 0));
    assert_int_equal(f->late->n_helped,
                     answers == ANSWER_HELPER ? THREADS * BATCHES : 0);
    assert_int_equal(late_count(f->late, LATE_FLUSH), THREADS * BATCHES);
    assert_int_equal(f->late->n_inside, 0);
    assert_int_equal(f->late->n_forgotten, 0);
}

/* Each answers what it finds, also what the other waits for. */
static void threads_that_help_end_well(void **state)
{
    fixture *f = *state;

    f->n_threads = THREADS;
    late_comm_take_help(f->late);
    late_comm_keep_back(f->late);
    for (int i = 0; i < 50; i++) {
        check_helpers(f, ANSWER_SOON);
        check_helpers(f, ANSWER_WHO_WAITS);
        check_helpers(f, ANSWER_HELPER);
    }
}

/* --- from a dataset ------------------------------------------------------- */

#define RECORDS 101

typedef struct file {
    char path[64];
} file;

static void write_ids(file *f, const char *last_line)
{
    FILE *out;
    int fd;

    strcpy(f->path, "/tmp/flotilla-ahead-XXXXXX");
    fd = mkstemp(f->path);
    assert_true(fd >= 0);
    out = fdopen(fd, "w");
    for (int i = 0; i < RECORDS; i++)
        fprintf(out, "1 %d\n", i);
    fputs(last_line, out);
    assert_int_equal(fclose(out), 0);
}

static fl_dataset *open_dataset(fixture *f, const char *kind, const file *from)
{
    static const char *const names[] = { "ids" };
    const char *path = from->path;
    fl_dataset *d;

    assert_ok(fl_dataset_new(&d, f->c, kind));
    assert_ok(fl_dataset_set_use_var(d, f->train, names, 1));
    assert_ok(fl_dataset_set_filelist(d, &path, 1));
    fl_dataset_set_batch_size(d, BATCH);
    return d;
}

/* Every record was pushed once; keys of a batch follow each other here. */
static size_t count_pushed(const fixture *f)
{
    size_t n = 0;

    for (size_t i = 0; i < f->late->events.len; i++)
        if (f->late->events.data[i].kind == LATE_PUSH)
            n += f->late->events.data[i].n;
    return n;
}

static void check_every_record_once(fixture *f, const char *kind, int threads)
{
    fl_dataset_report r = FL_INIT(fl_dataset_report);
    fl_dataset *d;
    file from;

    write_ids(&from, "");
    d = open_dataset(f, kind, &from);
    if (!strcmp(kind, "InMemoryDataset"))
        assert_ok(fl_dataset_load_into_memory(d));
    f->late->events.len = 0;
    memset(f->late->n_pulls, 0, sizeof(f->late->n_pulls));
    memset(f->late->n_pushes, 0, sizeof(f->late->n_pushes));
    assert_ok(fl_train_from_dataset(f->e, f->train, d, &r, .n_threads = threads,
                                    .loss = "m"));
    assert_int_equal(r.samples, RECORDS);
    assert_int_equal(r.batches, (RECORDS + BATCH - 1) / BATCH);
    assert_float_equal(r.loss, (RECORDS - 1) / 2.0, 1e-3);
    assert_int_equal(count_pushed(f), RECORDS);
    fl_dataset_free(d);
    unlink(from.path);
}

static void every_record_of_a_dataset_is_trained_once(void **state)
{
    static const char *const kinds[] = { "QueueDataset", "InMemoryDataset" };
    fixture *f = *state;

    for (size_t k = 0; k < FL_LEN(kinds); k++)
        for (int threads = 1; threads <= THREADS; threads++)
            for (f->late->port.n_ahead = 1; f->late->port.n_ahead <= 9;
                 f->late->port.n_ahead += 4)
                check_every_record_once(f, kinds[k], threads);
}

static void an_error_of_the_data_is_told(void **state)
{
    fixture *f = *state;
    fl_dataset *d;
    file from;

    write_ids(&from, "this is no record\n");
    d = open_dataset(f, "QueueDataset", &from);
    assert_ok(fl_ctx_set(f->c, "max_bad_lines", "0"));
    assert_ok(fl_ctx_set(f->c, "quarantine", "/dev/null"));
    assert_int_not_equal(
        fl_train_from_dataset(f->e, f->train, d, NULL, .n_threads = THREADS),
        FL_OK);
    assert_non_null(strstr(fl_last_error(), "max_bad_lines"));
    fl_dataset_free(d);
    unlink(from.path);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)
    const struct CMUnitTest tests[] = {
        TEST(rows_are_asked_for_while_the_batch_before_computes),
        TEST(what_is_asked_for_early_says_so),
        TEST(batches_that_do_not_stay_are_taken_one_by_one),
        TEST(a_backend_that_does_not_look_ahead_is_not_asked_early),
        TEST(any_number_of_batches_ends_well),
        TEST(a_bad_batch_is_told_when_it_is_its_turn),
        TEST(an_error_waits_for_what_was_asked_for),
        TEST(an_error_of_one_thread_ends_the_others),
        TEST(a_thread_that_waits_takes_one_batch_more),
        TEST(what_was_made_ready_is_asked_for_in_its_turn),
        TEST(a_bad_batch_that_was_taken_early_has_its_turn),
        TEST(what_was_made_ready_in_vain_is_forgotten),
        TEST(small_batches_are_asked_for_in_groups),
        TEST(a_group_that_is_not_full_ends_as_well),
        TEST(groups_are_as_large_as_both_allow),
        TEST(fewer_batches_than_none_are_refused),
        TEST(large_batches_go_one_by_one),
        TEST(batches_of_a_group_may_differ_in_size),
        TEST(an_error_ends_the_group),
        TEST(threads_flush_between_batches),
        TEST(threads_that_help_end_well),
        TEST(every_record_of_a_dataset_is_trained_once),
        TEST(an_error_of_the_data_is_told),
    };
#undef TEST

    return cmocka_run_group_tests(tests, NULL, NULL);
}
