/* test_sim_loop.c - the clock of the simulated network: timers, posts, and when
 * a run ends. All times here are virtual. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "rpc/sim/sim.h"

typedef struct diary {
    fl_sim *sim;
    char text[64];
    size_t len;
    uint64_t n;
    bool stop;
} diary;

typedef struct entry {
    diary *d;
    char mark;
} entry;

static void write_entry(void *arg)
{
    const entry *e = arg;

    assert_true(e->d->len < sizeof(e->d->text) - 1);
    e->d->text[e->d->len++] = e->mark;
    e->d->stop = e->mark == '!';
}

static void timers_and_posts_come_in_order(void **state)
{
    diary d = { .sim = fl_sim_new(&(fl_sim_faults){ .seed = 1 }) };
    fl_loop *l = fl_sim_loop(d.sim);
    entry e[6];

    (void)state;
    for (int i = 0; i < 6; i++)
        e[i] = (entry){ &d, (char)('a' + i) };
    assert_true(fl_loop_is_mine(l));
    fl_loop_timer(l, 10, write_entry, &e[3]);
    fl_loop_timer(l, 5, write_entry, &e[2]);
    fl_loop_timer(l, 10, write_entry, &e[4]);
    fl_loop_post(l, write_entry, &e[0]);
    fl_loop_timer(l, 0, write_entry, &e[1]);
    fl_sim_run(d.sim, 10, NULL);
    assert_string_equal(d.text, "abc"); /* 10 ms is not before 10 ms */
    assert_int_equal(fl_loop_now_ms(l), 10);
    fl_sim_run(d.sim, 5, NULL);
    assert_int_equal(fl_sim_now_ms(d.sim), 10); /* never back */
    fl_sim_run(d.sim, UINT64_MAX, NULL);
    assert_string_equal(d.text, "abcde");
    fl_loop_timer(l, UINT64_MAX, write_entry, &e[5]);
    fl_sim_run(d.sim, UINT64_MAX, NULL);
    assert_string_equal(d.text, "abcde");
    fl_sim_free(d.sim);
}

static void a_cancelled_timer_never_fires(void **state)
{
    diary d = { .sim = fl_sim_new(&(fl_sim_faults){ .seed = 1 }) };
    fl_loop *l = fl_sim_loop(d.sim);
    entry a = { &d, 'a' }, b = { &d, 'b' };
    uint64_t id = fl_loop_timer(l, 10, write_entry, &a);

    (void)state;
    assert_int_not_equal(id, 0);
    fl_loop_cancel(l, id);
    id = fl_loop_timer(l, 10, write_entry, &b);
    fl_sim_run(d.sim, 20, NULL);
    assert_string_equal(d.text, "b");
    fl_loop_timer(l, 10, write_entry, &a);
    fl_loop_cancel(l, id); /* over: must not hit the one that came after */
    fl_loop_cancel(l, 0);
    fl_sim_run(d.sim, 40, NULL);
    assert_string_equal(d.text, "ba");
    fl_sim_free(d.sim);
}

static void the_run_ends_at_the_flag(void **state)
{
    diary d = { .sim = fl_sim_new(&(fl_sim_faults){ .seed = 1 }) };
    fl_loop *l = fl_sim_loop(d.sim);
    entry stop = { &d, '!' }, after = { &d, 'z' };

    (void)state;
    fl_loop_timer(l, 10, write_entry, &stop);
    fl_loop_timer(l, 10, write_entry, &after);
    fl_sim_run(d.sim, 100, &d.stop);
    assert_string_equal(d.text, "!");
    assert_int_equal(fl_sim_now_ms(d.sim), 10);
    fl_sim_run(d.sim, 100, &d.stop);
    assert_string_equal(d.text, "!");
    d.stop = false;
    fl_sim_run(d.sim, 100, &d.stop);
    assert_string_equal(d.text, "!z");
    assert_int_equal(fl_sim_now_ms(d.sim), 100);
    fl_sim_free(d.sim);
}

static void what_is_posted_runs_before_the_end(void **state)
{
    diary d = { .sim = fl_sim_new(&(fl_sim_faults){ .seed = 1 }) };
    fl_loop *l = fl_sim_loop(d.sim);
    entry a = { &d, 'a' }, b = { &d, 'b' }, c = { &d, 'c' };

    (void)state;
    fl_loop_timer(l, 0, write_entry, &c);
    fl_loop_post(l, write_entry, &a);
    fl_loop_post(l, write_entry, &b);
    fl_sim_free(d.sim);
    assert_string_equal(d.text, "ab");
    fl_sim_free(NULL);
}

static void beat(void *arg)
{
    diary *d = arg;

    d->n++;
    fl_loop_timer(fl_sim_loop(d->sim), d->n % 7, beat, d);
}

static void a_million_events_are_no_burden(void **state)
{
    diary d = { .sim = fl_sim_new(&(fl_sim_faults){ .seed = 1 }) };

    (void)state;
    for (int i = 0; i < 100; i++)
        beat(&d);
    while (d.n < 1000000)
        fl_sim_run(d.sim, fl_sim_now_ms(d.sim) + 1000, NULL);
    fl_sim_free(d.sim);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(timers_and_posts_come_in_order),
        cmocka_unit_test(a_cancelled_timer_never_fires),
        cmocka_unit_test(the_run_ends_at_the_flag),
        cmocka_unit_test(what_is_posted_runs_before_the_end),
        cmocka_unit_test(a_million_events_are_no_burden),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
