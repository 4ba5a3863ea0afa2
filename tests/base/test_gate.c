/* test_gate.c - threads that come to rest together. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>
#include <stdatomic.h>

#include "base/gate.h"
#include "base/thread.h"

#define THREADS 4
#define PIECES 2000

typedef struct crowd {
    fl_gate *gate;
    atomic_int n_working;
    atomic_int n_rests, n_disturbed;
    atomic_int n_pieces;
    int fails_at; /* this piece fails; -1: none */
} crowd;

static void look_around(void *arg)
{
    crowd *c = arg;

    atomic_fetch_add(&c->n_rests, 1);
    if (atomic_load(&c->n_working))
        atomic_fetch_add(&c->n_disturbed, 1);
}

static void work(void *arg)
{
    crowd *c = arg;
    bool has_failed = false;

    for (int i = 0; i < PIECES && !has_failed; i++) {
        int piece;

        fl_gate_enter(c->gate);
        atomic_fetch_add(&c->n_working, 1);
        piece = atomic_fetch_add(&c->n_pieces, 1);
        if (piece % 97 == 0)
            fl_gate_ask(c->gate);
        has_failed = piece == c->fails_at;
        atomic_fetch_sub(&c->n_working, 1);
    }
    fl_gate_leave(c->gate, has_failed);
}

static void run(crowd *c)
{
    fl_thread *threads[THREADS];

    c->gate = fl_gate_new(THREADS, look_around, c);
    for (int i = 0; i < THREADS; i++)
        assert_int_equal(fl_thread_start(&threads[i], "worker", work, c), 0);
    for (int i = 0; i < THREADS; i++)
        fl_thread_join(threads[i]);
    fl_gate_free(c->gate);
}

static void nobody_works_while_all_rest(void **state)
{
    crowd c = { .fails_at = -1 };

    (void)state;
    run(&c);
    assert_int_equal(c.n_pieces, THREADS * PIECES);
    assert_true(c.n_rests > 0);
    assert_int_equal(c.n_disturbed, 0);
}

static void a_thread_that_fails_keeps_nobody_waiting(void **state)
{
    (void)state;
    for (int i = 0; i < 50; i++) {
        crowd c = { .fails_at = i * 13 };

        run(&c);
        assert_int_equal(c.n_disturbed, 0);
        assert_true(c.n_pieces >= (THREADS - 1) * PIECES);
    }
}

static void one_thread_alone_rests_where_it_asks(void **state)
{
    crowd c = { .fails_at = -1 };

    (void)state;
    c.gate = fl_gate_new(1, look_around, &c);
    fl_gate_enter(c.gate);
    assert_int_equal(c.n_rests, 0);
    fl_gate_ask(c.gate);
    fl_gate_ask(c.gate);
    fl_gate_enter(c.gate);
    assert_int_equal(c.n_rests, 1);
    fl_gate_enter(c.gate);
    assert_int_equal(c.n_rests, 1);
    fl_gate_ask(c.gate);
    fl_gate_leave(c.gate, false);
    assert_int_equal(c.n_rests, 1);
    fl_gate_free(c.gate);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(nobody_works_while_all_rest),
        cmocka_unit_test(a_thread_that_fails_keeps_nobody_waiting),
        cmocka_unit_test(one_thread_alone_rests_where_it_asks),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
