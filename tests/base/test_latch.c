/* test_latch.c - what is under way, counted until all of it has ended. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

#include "base/latch.h"

#define N_THREADS 4
#define N_ROUNDS 200

/* --- a thread that waits -------------------------------------------------- */

static void end_well(void *latch)
{
    fl_latch_done(latch, FL_OK);
}

static void a_wait_ends_with_the_last_of_all(void **state)
{
    (void)state;
    for (int i = 0; i < N_ROUNDS; i++) {
        fl_thread *threads[N_THREADS];
        fl_latch l;

        fl_latch_init(&l, NULL);
        for (int k = 0; k < N_THREADS; k++) {
            fl_latch_add(&l);
            assert_int_equal(fl_thread_start(&threads[k], "done", end_well, &l),
                             FL_OK);
        }
        assert_int_equal(fl_latch_wait(&l), FL_OK);
        for (int k = 0; k < N_THREADS; k++)
            fl_thread_join(threads[k]);
        fl_latch_release(&l);
    }
}

static void a_wait_gives_the_first_error(void **state)
{
    fl_latch l;

    (void)state;
    fl_latch_init(&l, NULL);
    for (int i = 0; i < 3; i++)
        fl_latch_add(&l);
    fl_latch_done(&l, FL_OK);
    fl_latch_done(&l, fl_err_set(FL_ERR_IO, "the first"));
    fl_latch_done(&l, fl_err_set(FL_ERR_CLOSED, "the second"));
    assert_int_equal(fl_latch_wait(&l), FL_ERR_IO);
    assert_string_equal(fl_last_error(), "the first");
    fl_latch_release(&l);
}

/* A loop in which one thing ends per round. */
typedef struct helped {
    fl_poller port;
    fl_latch *latch;
    int n_waits, n_notified;
} helped;

static void wait_and_end(fl_poller *p, bool (*is_over)(void *arg), void *arg)
{
    helped *h = (helped *)p;

    h->n_waits++;
    while (!is_over(arg))
        fl_latch_done(h->latch, FL_OK);
}

static void note_notify(fl_poller *p)
{
    ((helped *)p)->n_notified++;
}

static void a_wait_helps_the_loop_and_only_where_something_is_open(void **state)
{
    helped h = { .port = { .wait = wait_and_end, .notify = note_notify } };
    fl_latch l;

    (void)state;
    fl_latch_init(&l, &h.port);
    h.latch = &l;
    fl_latch_add(&l);
    fl_latch_add(&l);
    assert_int_equal(fl_latch_wait(&l), FL_OK);
    assert_int_equal(h.n_waits, 1);
    assert_int_equal(h.n_notified, 1);
    assert_int_equal(fl_latch_wait(&l), FL_OK);
    assert_int_equal(h.n_waits, 1);
    fl_latch_release(&l);
}

/* --- nobody who waits ----------------------------------------------------- */

typedef struct sequel {
    fl_latch latch;
    int n_calls;
    fl_status st;
} sequel;

static void note_end(void *arg, fl_status st)
{
    sequel *s = arg;

    s->n_calls++;
    s->st = st;
}

static void
what_comes_next_is_called_once_when_all_have_begun_and_ended(void **state)
{
    sequel s = { 0 };

    (void)state;
    fl_latch_init(&s.latch, NULL);
    fl_latch_open(&s.latch, note_end, &s);
    fl_latch_add(&s.latch);
    fl_latch_done(&s.latch, fl_err_set(FL_ERR_IO, "the wire is cut"));
    assert_int_equal(s.n_calls, 0);
    fl_latch_done(&s.latch, FL_OK);
    assert_int_equal(s.n_calls, 1);
    assert_int_equal(s.st, FL_ERR_IO);
    assert_string_equal(fl_last_error(), "the wire is cut");
    fl_latch_release(&s.latch);
}

static void open_again(void *arg, fl_status st)
{
    sequel *s = arg;

    s->n_calls++;
    assert_int_equal(st, FL_ERR_IO);
    fl_latch_open(&s->latch, note_end, s);
    fl_latch_done(&s->latch, FL_OK);
}

static void
what_comes_next_may_open_it_again_without_the_old_error(void **state)
{
    sequel s = { .st = FL_ERR_IO };

    (void)state;
    fl_latch_init(&s.latch, NULL);
    fl_latch_open(&s.latch, open_again, &s);
    fl_latch_done(&s.latch, fl_err_set(FL_ERR_IO, "old"));
    assert_int_equal(s.n_calls, 2);
    assert_int_equal(s.st, FL_OK);
    fl_latch_release(&s.latch);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_wait_ends_with_the_last_of_all),
        cmocka_unit_test(a_wait_gives_the_first_error),
        cmocka_unit_test(
            a_wait_helps_the_loop_and_only_where_something_is_open),
        cmocka_unit_test(
            what_comes_next_is_called_once_when_all_have_begun_and_ended),
        cmocka_unit_test(
            what_comes_next_may_open_it_again_without_the_old_error),
    };

    return cmocka_run_group_tests_name("latch", tests, NULL, NULL);
}
