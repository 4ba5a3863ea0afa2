/* test_in_order.c - runs with a backend that is prompt: one step after the
 * other, also when an answer comes late after all. */
#include "net.h"

#include <string.h>

#include "ctx/ctx.h"
#include "late_comm.h"
#include "../make.h"

#define BATCH 4

/* The second pull and the square need nothing but the feed: only the order of
   the program puts them behind the first pull and the barrier. */
static const char training[] =
    "var ids : i64[-1,1] data\n"
    "op pull_sparse (Ids=ids) -> (Rows=rows, Index=index, Keys=keys) "
    "{table=t, dim=2}\n"
    "op pull_sparse (Ids=ids) -> (Rows=more, Index=index2, Keys=keys2) "
    "{table=u, dim=2, create=false}\n"
    "op fill_constant () -> (Out=lr) {shape=[1], value=0.5} @lr\n"
    "op push_sparse (Keys=keys, Grad=rows, LearningRate=lr) -> () {table=t} "
    "@rpc\n"
    "op send_barrier (X=[rows,keys]) -> () @rpc\n"
    "op fill_constant () -> (Out=two) {shape=[1], value=2}\n"
    "op square (X=two) -> (Out=four)\n"
    "op mean (X=more) -> (Out=m)\n"
    "op elementwise_add (X=m, Y=four) -> (Out=s)\n"
    "fetch s\n";

typedef struct fixture {
    fl_ctx *c;
    fl_executor *e;
    late_comm *late;
    fl_program *train;
    int64_t ids[BATCH];
} fixture;

static int set_up(void **state)
{
    fixture *f = fl_alloc(sizeof(*f));

    f->c = make_ctx();
    f->late = late_comm_use(f->c);
    f->late->port.is_synchronous = true;
    f->late->pulls_at_once = true;
    f->late->barrier_answer = BARRIER_LATE;
    f->e = make_executor(f->c);
    for (int i = 0; i < BATCH; i++)
        f->ids[i] = i + 1;
    *state = f;
    /* An answer that is lost is told, instead of a test that hangs. */
    return fl_ctx_set(f->c, "pending_timeout_ms", "10000") ||
                   fl_program_from_text(&f->train, f->c, training)
               ? -1
               : 0;
}

static int tear_down(void **state)
{
    fixture *f = *state;

    fl_executor_free(f->e);
    fl_program_free(f->train);
    fl_ctx_free(f->c);
    fl_free(f);
    return 0;
}

static fl_status run(fixture *f)
{
    fl_feed feed = { "ids", fl_tensor_of(FL_DTYPE_I64, f->ids, 2,
                                         (int64_t[]){ BATCH, 1 }) };
    const char *fetch = "s";
    fl_tensor out;
    fl_run_args a = FL_INIT(fl_run_args, .feeds = &feed, .n_feeds = 1,
                            .fetches = &fetch, .n_fetches = 1, .out = &out);

    FL_TRY(fl_run(f->e, f->train, &a));
    assert_true(*(float *)out.data == (BATCH + 1) / 2.0f + 4);
    return FL_OK;
}

/* All that happened since it was asked the last time. */
static void expect_events(fixture *f, const late_kind *kinds, size_t n)
{
    late_kind got[16];
    size_t n_got;

    fl_lock(&f->late->mu);
    n_got = f->late->events.len;
    for (size_t i = 0; i < n_got && i < FL_LEN(got); i++)
        got[i] = f->late->events.data[i].kind;
    f->late->events.len = 0;
    fl_unlock(&f->late->mu);
    assert_int_equal(n_got, n);
    for (size_t i = 0; i < n; i++)
        assert_int_equal(got[i], kinds[i]);
}

static const late_kind in_order[] = { LATE_PULL, LATE_PULL, LATE_PUSH,
                                      LATE_BARRIER, LATE_PASSED };

static void a_late_answer_is_waited_for(void **state)
{
    fixture *f = *state;

    for (int i = 0; i < 3; i++) {
        assert_ok(run(f));
        expect_events(f, in_order, FL_LEN(in_order));
    }
}

/* It is resumed where it was, and nothing is done meanwhile. */
static void steps_are_in_the_order_of_the_program(void **state)
{
    static const char *const names[] = {
        "pull_sparse",  "pull_sparse",     "fill_constant", "push_sparse",
        "send_barrier", "send_barrier",    "fill_constant", "square",
        "mean",         "elementwise_add",
    };
    fixture *f = *state;

    assert_ok(fl_ctx_set(f->c, "profile", "true"));
    assert_ok(run(f));
    assert_int_equal(f->e->trace.events.len, FL_LEN(names));
    for (size_t i = 0; i < FL_LEN(names); i++)
        assert_string_equal(f->e->trace.events.data[i].name, names[i]);
}

/* It said that they are not, but nothing depends on it. */
static void pulls_may_be_late_too(void **state)
{
    static const late_kind kinds[] = { LATE_PULL,   LATE_PULLED, LATE_PULL,
                                       LATE_PULLED, LATE_PUSH,   LATE_BARRIER,
                                       LATE_PASSED };
    fixture *f = *state;

    f->late->pulls_at_once = false;
    for (int i = 0; i < 3; i++) {
        assert_ok(run(f));
        expect_events(f, kinds, FL_LEN(kinds));
    }
}

static void an_answer_before_the_call_returned_is_not_lost(void **state)
{
    fixture *f = *state;

    f->late->barrier_answer = BARRIER_BEFORE;
    for (int i = 0; i < 3; i++) {
        assert_ok(run(f));
        expect_events(f, in_order, FL_LEN(in_order) - 1);
    }
}

static void a_late_error_is_that_of_the_run(void **state)
{
    fixture *f = *state;

    f->late->barriers_fail = true;
    assert_error(run(f), FL_ERR_IO, "the others are gone");
    expect_events(f, in_order, FL_LEN(in_order));
    f->late->barriers_fail = false;
    assert_ok(run(f));
    expect_events(f, in_order, FL_LEN(in_order));
}

static void no_answer_in_time_names_the_operator(void **state)
{
    fixture *f = *state;

    assert_ok(fl_ctx_set(f->c, "pending_timeout_ms", "20"));
    late_comm_fall_silent(f->late);
    assert_error(run(f), FL_ERR_TIMEOUT, "op send_barrier");
    assert_non_null(strstr(fl_last_error(), "20 ms for an answer from late"));
    expect_events(f, in_order, FL_LEN(in_order) - 1);
    /* Its memory is not to be used for anything else. */
    assert_error(run(f), FL_ERR_CLOSED,
                 "an operator of an earlier run still waits");
    expect_events(f, NULL, 0);
    late_comm_speak(f->late);
    assert_true(late_reaches(f->late, 1, 0));
    expect_events(f, (late_kind[]){ LATE_PASSED }, 1);
    /* That answer is not taken for one of this run. */
    assert_ok(fl_ctx_set(f->c, "pending_timeout_ms", "60000"));
    assert_ok(run(f));
    expect_events(f, in_order, FL_LEN(in_order));
}

static void a_backend_with_deadlines_of_its_own_is_given_its_time(void **state)
{
    fixture *f = *state;

    assert_ok(fl_ctx_set(f->c, "pending_timeout_ms", "1"));
    f->late->delay_ns = 50000000;
    f->late->port.has_own_deadline = true;
    assert_ok(run(f));
    expect_events(f, in_order, FL_LEN(in_order));
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)
    const struct CMUnitTest tests[] = {
        TEST(a_late_answer_is_waited_for),
        TEST(steps_are_in_the_order_of_the_program),
        TEST(pulls_may_be_late_too),
        TEST(an_answer_before_the_call_returned_is_not_lost),
        TEST(a_late_error_is_that_of_the_run),
        TEST(no_answer_in_time_names_the_operator),
        TEST(a_backend_with_deadlines_of_its_own_is_given_its_time),
    };
#undef TEST

    return cmocka_run_group_tests(tests, NULL, NULL);
}
