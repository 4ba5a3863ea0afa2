/* test_backend.c - what a backend is told of the runs: steps, seats, samples,
 * threads that come and go; and who limits its waits. */
#include "net.h"

#include <string.h>

#include "ctx/ctx.h"
#include "exec/executor.h"
#include "late_comm.h"
#include "../make.h"

#define BATCH 4
#define BATCHES 5

/* Rows are pulled and pushed as they are; the barrier keeps them alive. */
static const char training[] =
    "var ids : i64[-1,1] data lod=1\n"
    "op pull_sparse (Ids=ids) -> (Rows=rows, Index=index, Keys=keys) "
    "{table=t, dim=2}\n"
    "op fill_constant () -> (Out=lr) {shape=[1], value=0.5} @lr\n"
    "op push_sparse (Keys=keys, Grad=rows, LearningRate=lr) -> () {table=t} "
    "@rpc\n"
    "op send_barrier (X=[rows,keys]) -> () @rpc\n";

static const char reading[] =
    "var ids : i64[-1,1] data lod=1\n"
    "op pull_sparse (Ids=ids) -> (Rows=rows, Index=index, Keys=keys) "
    "{table=t, dim=2}\n"
    "op mean (X=rows) -> (Out=m)\n"
    "fetch m\n";

typedef struct fixture {
    fl_ctx *c;
    fl_executor *e;
    late_comm *late;
    fl_program *train, *read;
    int64_t ids[2 * BATCH], offsets[BATCH + 1];
    fl_feed feed;
} fixture;

static int set_up(void **state)
{
    fixture *f = fl_alloc(sizeof(*f));

    f->c = make_ctx();
    f->late = late_comm_use(f->c);
    f->e = make_executor(f->c);
    for (int i = 0; i < 2 * BATCH; i++)
        f->ids[i] = i + 1;
    for (int i = 0; i <= BATCH; i++)
        f->offsets[i] = 2 * i;
    f->feed = (fl_feed){ "ids", fl_tensor_ragged(FL_DTYPE_I64, f->ids, 2,
                                                 (int64_t[]){ 2 * BATCH, 1 },
                                                 f->offsets, BATCH) };
    *state = f;
    return fl_program_from_text(&f->train, f->c, training) ||
                   fl_program_from_text(&f->read, f->c, reading)
               ? -1
               : 0;
}

static int tear_down(void **state)
{
    fixture *f = *state;

    fl_executor_free(f->e);
    fl_program_free(f->train);
    fl_program_free(f->read);
    fl_ctx_free(f->c);
    fl_free(f);
    return 0;
}

static fl_status run(fixture *f, fl_program *p)
{
    fl_run_args a = FL_INIT(fl_run_args, .feeds = &f->feed, .n_feeds = 1);

    return fl_run(f->e, p, &a);
}

static const late_event *find_event(const fixture *f, late_kind kind, int part)
{
    for (size_t i = 0; i < f->late->events.len; i++) {
        const late_event *e = &f->late->events.data[i];

        if (e->kind == kind && e->worker.part == part)
            return e;
    }
    fail_msg("no event %d of part %d", (int)kind, part);
    return NULL;
}

/* --- steps ---------------------------------------------------------------- */

static void the_backend_counts_the_steps_of_training(void **state)
{
    fixture *f = *state;

    f->late->next_step = 41;
    assert_ok(run(f, f->read));
    assert_int_equal(fl_scope_step(fl_current_scope(f->c)), 0);
    assert_ok(run(f, f->train));
    assert_int_equal(fl_scope_step(fl_current_scope(f->c)), 42);
    assert_int_equal(find_event(f, LATE_PUSH, 0)->step, 41);
    assert_ok(run(f, f->train));
    assert_int_equal(f->late->next_step, 43);
    assert_int_equal(fl_scope_step(fl_current_scope(f->c)), 43);
}

static void without_a_count_of_its_own_the_scope_counts(void **state)
{
    static fl_comm_life life;
    fixture *f = *state;

    life = *f->late->port.life;
    life.step = NULL;
    f->late->port.life = &life;
    for (uint64_t i = 0; i < 3; i++)
        assert_ok(run(f, f->train));
    assert_int_equal(fl_scope_step(fl_current_scope(f->c)), 3);
    assert_int_equal(find_event(f, LATE_PUSH, 0)->step, 0);
}

/* --- seats and samples ---------------------------------------------------- */

static void a_run_alone_has_one_part_and_its_samples(void **state)
{
    fixture *f = *state;
    const late_event *e;

    assert_ok(run(f, f->train));
    e = find_event(f, LATE_PUSH, 0);
    assert_int_equal(e->worker.n_parts, 1);
    assert_true(e->worker.scale == 1);
    e = find_event(f, LATE_BARRIER, 0);
    assert_int_equal(e->worker.n_parts, 1);
    assert_int_equal(e->samples, BATCH);
}

static void replicas_are_parts_of_one_step(void **state)
{
    fixture *f = *state;
    fl_compiled_program *cp = make_compiled(f->train);
    fl_exec_strategy two = FL_INIT(fl_exec_strategy, .n_replicas = 2);
    fl_run_args a = FL_INIT(fl_run_args, .feeds = &f->feed, .n_feeds = 1);

    assert_ok(fl_compiled_program_with_data_parallel(cp, NULL, NULL, &two));
    assert_ok(fl_run_compiled(f->e, cp, &a));
    assert_int_equal(late_count(f->late, LATE_PUSH), 2);
    for (int i = 0; i < 2; i++) {
        const late_event *e = find_event(f, LATE_PUSH, i);

        assert_int_equal(e->worker.n_parts, 2);
        assert_true(e->worker.scale == 0.5);
        assert_int_equal(e->n, BATCH);
        assert_int_equal(find_event(f, LATE_PULL, i)->worker.n_parts, 2);
    }
    /* They meet the others once, as a whole. */
    assert_int_equal(late_count(f->late, LATE_BARRIER), 1);
    assert_int_equal(find_event(f, LATE_BARRIER, 0)->worker.n_parts, 1);
    assert_int_equal(find_event(f, LATE_BARRIER, 0)->samples, BATCH);
    fl_compiled_program_free(cp);
}

/* --- threads -------------------------------------------------------------- */

typedef struct source {
    fixture *f;
    int given[2], bad_thread; /* -1: none */
} source;

static bool next_batch(void *arg, int thread, fl_feed *feeds)
{
    source *s = arg;

    if (s->given[thread] == (thread ? BATCHES : 1))
        return false;
    s->given[thread]++;
    feeds[0] = s->f->feed;
    if (thread == s->bad_thread)
        feeds[0].value.dtype = FL_DTYPE_F32;
    return true;
}

static fl_status run_threads(fixture *f, fl_program *p, int bad_thread)
{
    static const char *const names[] = { "ids" };
    source s = { .f = f, .bad_thread = bad_thread };
    fl_hogwild_args h =
        FL_INIT(fl_hogwild_args, .n_threads = 2, .feed_names = names,
                .n_feeds = 1, .next = next_batch, .arg = &s);

    return fl_run_hogwild(f->e, p, &h);
}

static void threads_enter_together_and_leave_one_by_one(void **state)
{
    fixture *f = *state;
    size_t of_thread[2] = { 0 };

    assert_ok(run_threads(f, f->train, -1));
    assert_int_equal(f->late->n_entered, 2);
    assert_int_equal(f->late->n_left[0], 1);
    assert_int_equal(f->late->n_left[1], 1);
    for (size_t i = 0; i < f->late->events.len; i++)
        if (f->late->events.data[i].kind == LATE_BARRIER)
            of_thread[f->late->events.data[i].worker.thread]++;
    assert_int_equal(of_thread[0], 1);
    assert_int_equal(of_thread[1], BATCHES);
}

static void a_thread_that_fails_leaves_too(void **state)
{
    fixture *f = *state;

    assert_error(run_threads(f, f->train, 1), FL_ERR_TYPE, "training thread 1");
    assert_int_equal(f->late->n_left[0], 1);
    assert_int_equal(f->late->n_left[1], 1);
}

static void threads_that_only_read_do_not_enter(void **state)
{
    fixture *f = *state;

    assert_ok(run_threads(f, f->read, -1));
    assert_int_equal(f->late->n_entered, 0);
    assert_int_equal(f->late->n_left[0] + f->late->n_left[1], 0);
}

/* --- waits ---------------------------------------------------------------- */

static void a_backend_with_deadlines_of_its_own_is_given_its_time(void **state)
{
    fixture *f = *state;

    assert_ok(fl_ctx_set(f->c, "pending_timeout_ms", "1"));
    f->late->delay_ns = 50000000;
    f->late->port.has_own_deadline = true;
    assert_ok(run(f, f->train));
}

static void a_thread_that_waits_helps_the_backend(void **state)
{
    fixture *f = *state;

    late_comm_take_help(f->late);
    late_comm_set_answers(f->late, ANSWER_HELPER);
    for (int i = 1; i <= 3; i++) {
        assert_ok(run(f, f->train));
        assert_int_equal(f->late->n_helped, i);
        assert_int_equal(f->late->n_waits, i);
    }
    assert_int_equal(f->late->n_inside, 0);
    assert_int_equal(f->late->n_forgotten, 0);
}

/* The answer comes when the thread is at the backend, which has to be told. */
static void an_answer_from_elsewhere_ends_the_wait(void **state)
{
    fixture *f = *state;

    late_comm_take_help(f->late);
    late_comm_set_answers(f->late, ANSWER_WHO_WAITS);
    for (int i = 1; i <= 3; i++) {
        assert_ok(run(f, f->train));
        assert_true(late_reaches(f->late, i, (uint64_t)i));
        assert_int_equal(f->late->n_waits, i);
    }
    assert_int_equal(f->late->n_helped, 0);
    assert_int_equal(f->late->n_forgotten, 0);
}

/* The others of a team, and its clock, have nobody else. */
static void only_who_runs_alone_and_without_a_limit_helps(void **state)
{
    fixture *f = *state;

    late_comm_take_help(f->late);
    f->late->port.has_own_deadline = false;
    assert_ok(run(f, f->train));
    f->late->port.has_own_deadline = true;
    assert_ok(fl_ctx_set(f->c, "num_threads", "2"));
    assert_ok(run(f, f->train));
    assert_int_equal(f->late->n_waits, 0);
}

/* When the square root fails the rows are still kept back, and a run cannot end
   before the answer. */
static void a_run_that_fails_flushes(void **state)
{
    static const char text[] =
        "var ids : i64[-1,1] data lod=1\n"
        "op pull_sparse (Ids=ids) -> (Rows=rows, Index=index, Keys=keys) "
        "{table=t, dim=2}\n"
        "op fill_constant () -> (Out=n) {shape=[1], value=-1}\n"
        "op sqrt (X=n) -> (Out=r)\n"
        "op mean (X=rows) -> (Out=m)\n"
        "op elementwise_add (X=m, Y=r) -> (Out=s)\n"
        "fetch s\n";
    fixture *f = *state;
    const char *fetch = "s";
    fl_tensor out;
    fl_run_args a = FL_INIT(fl_run_args, .feeds = &f->feed, .n_feeds = 1,
                            .fetches = &fetch, .n_fetches = 1, .out = &out);
    fl_program *p;

    assert_ok(fl_program_from_text(&p, f->c, text));
    assert_ok(fl_ctx_set(f->c, "pending_timeout_ms", "5000"));
    assert_ok(fl_ctx_set(f->c, "check_nan_inf", "true"));
    late_comm_keep_back(f->late);
    for (int i = 1; i <= 3; i++) {
        assert_error(fl_run(f->e, p, &a), FL_ERR_NUMERIC, "op sqrt -> r");
        assert_int_equal(late_count(f->late, LATE_FLUSH), i);
        assert_int_equal(late_count(f->late, LATE_PULLED), i);
    }
    fl_program_free(p);
}

/* Where in the profile an operator first ran. */
static size_t place_in_profile(fixture *f, const char *op)
{
    for (size_t i = 0; i < f->e->trace.events.len; i++)
        if (!strcmp(f->e->trace.events.data[i].name, op))
            return i;
    fail_msg("%s has not run", op);
    return 0;
}

/* The mean stands before the push, and nobody but the caller wants it. */
static void what_nobody_waits_for_is_made_behind_the_barrier(void **state)
{
    static const char text[] =
        "var ids : i64[-1,1] data lod=1\n"
        "op pull_sparse (Ids=ids) -> (Rows=rows, Index=index, Keys=keys) "
        "{table=t, dim=2}\n"
        "op square (X=rows) -> (Out=s)\n"
        "op mean (X=s) -> (Out=m)\n"
        "op fill_constant () -> (Out=lr) {shape=[1], value=0.5} @lr\n"
        "op push_sparse (Keys=keys, Grad=rows, LearningRate=lr) -> () "
        "{table=t} @rpc\n"
        "op send_barrier (X=[rows,keys]) -> () @rpc\n"
        "fetch m\n";
    fixture *f = *state;
    const char *fetch = "m";
    fl_tensor out;
    fl_run_args a = FL_INIT(fl_run_args, .feeds = &f->feed, .n_feeds = 1,
                            .fetches = &fetch, .n_fetches = 1, .out = &out);
    fl_program *p;

    assert_ok(fl_program_from_text(&p, f->c, text));
    assert_ok(fl_ctx_set(f->c, "profile", "true"));
    f->late->barrier_answer = BARRIER_LATE;
    assert_ok(fl_run(f->e, p, &a));
    assert_float_equal(*(float *)out.data, 25.5, 1e-6);
    assert_true(place_in_profile(f, "send_barrier") <
                place_in_profile(f, "square"));
    assert_true(place_in_profile(f, "square") < place_in_profile(f, "mean"));
    fl_program_free(p);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)
    const struct CMUnitTest tests[] = {
        TEST(the_backend_counts_the_steps_of_training),
        TEST(without_a_count_of_its_own_the_scope_counts),
        TEST(a_run_alone_has_one_part_and_its_samples),
        TEST(replicas_are_parts_of_one_step),
        TEST(threads_enter_together_and_leave_one_by_one),
        TEST(a_thread_that_fails_leaves_too),
        TEST(threads_that_only_read_do_not_enter),
        TEST(a_backend_with_deadlines_of_its_own_is_given_its_time),
        TEST(a_thread_that_waits_helps_the_backend),
        TEST(an_answer_from_elsewhere_ends_the_wait),
        TEST(only_who_runs_alone_and_without_a_limit_helps),
        TEST(a_run_that_fails_flushes),
        TEST(what_nobody_waits_for_is_made_behind_the_barrier),
    };
#undef TEST

    return cmocka_run_group_tests(tests, NULL, NULL);
}
