/* test_thread.c - threads, waiting with a deadline, clocks. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <sched.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/thread.h"

#define MINUTE_NS 60000000000u

typedef struct box {
    fl_mutex mu;
    fl_cond changed;
    int turn;   /* guarded by mu */
    long count; /* guarded by mu */
    char name[16];
} box;

static void box_init(box *b)
{
    *b = (box){ 0 };
    fl_mutex_init(&b->mu);
    fl_cond_init(&b->changed);
}

static void box_release(box *b)
{
    fl_cond_release(&b->changed);
    fl_mutex_release(&b->mu);
}

static void tell_name(void *arg)
{
    box *b = arg;

    pthread_getname_np(pthread_self(), b->name, sizeof(b->name));
}

static void a_thread_shows_fifteen_characters_of_its_name(void **state)
{
    fl_thread *t = NULL;
    box b;

    (void)state;
    box_init(&b);
    assert_int_equal(fl_thread_start(&t, "flotilla-reader-12", tell_name, &b),
                     FL_OK);
    fl_thread_join(t);
    assert_string_equal(b.name, "flotilla-reader");
    fl_thread_join(NULL);
    box_release(&b);
}

static bool child_is_cut_off(void)
{
    int status = 0;
    pid_t child = fork();

    if (!child)
        _exit(fl_is_cut_off());
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFEXITED(status));
    return WEXITSTATUS(status);
}

static void a_child_is_cut_off_from_the_threads_of_its_parent(void **state)
{
    fl_thread *t = NULL;
    box b;

    (void)state;
    box_init(&b);
    assert_false(child_is_cut_off());
    assert_int_equal(fl_thread_start(&t, "named", tell_name, &b), FL_OK);
    assert_true(child_is_cut_off());
    fl_thread_join(t);
    assert_false(child_is_cut_off());
    assert_false(fl_is_cut_off());
    box_release(&b);
}

#define ADDS 20000

static void add_many(void *arg)
{
    box *b = arg;

    for (int i = 0; i < ADDS; i++) {
        fl_lock(&b->mu);
        b->count++;
        fl_unlock(&b->mu);
    }
}

static void the_mutex_keeps_two_threads_apart(void **state)
{
    fl_thread *t = NULL;
    box b;

    (void)state;
    box_init(&b);
    assert_int_equal(fl_thread_start(&t, "adder", add_many, &b), FL_OK);
    add_many(&b);
    fl_thread_join(t);
    assert_int_equal(b.count, 2 * ADDS);
    box_release(&b);
}

static void add_many_soon(void *arg)
{
    box *b = arg;

    for (int i = 0; i < ADDS; i++) {
        fl_lock_soon(&b->mu);
        b->count++;
        fl_unlock(&b->mu);
    }
}

/* At first it is held for longer than anybody looks. */
static void who_looks_for_the_mutex_gets_it(void **state)
{
    fl_thread *t = NULL;
    box b;

    (void)state;
    box_init(&b);
    fl_lock(&b.mu);
    assert_int_equal(fl_thread_start(&t, "adder", add_many_soon, &b), FL_OK);
    usleep(2000);
    fl_unlock(&b.mu);
    add_many_soon(&b);
    fl_thread_join(t);
    assert_int_equal(b.count, 2 * ADDS);
    box_release(&b);
}

typedef struct workers {
    box box;
    atomic_uint n;
    useconds_t work_us;
} workers;

static void end_work(void *arg)
{
    workers *w = arg;

    usleep(w->work_us);
    fl_lock(&w->box.mu);
    w->box.count++;
    atomic_store(&w->n, 0);
    fl_cond_wake_all(&w->box.changed);
    fl_unlock(&w->box.mu);
}

/* Work that is over at once, soon, and later than anybody looks. */
static void a_wait_for_the_last_ends_with_it(void **state)
{
    static const useconds_t times[] = { 0, 10, 3000 };

    (void)state;
    for (size_t i = 0; i < sizeof(times) / sizeof(*times); i++) {
        workers w = { .n = 1, .work_us = times[i] };
        fl_thread *t = NULL;

        box_init(&w.box);
        assert_int_equal(fl_thread_start(&t, "worker", end_work, &w), FL_OK);
        fl_lock(&w.box.mu);
        fl_wait_for_zero(&w.box.changed, &w.box.mu, &w.n);
        assert_int_equal(w.box.count, 1);
        fl_wait_for_zero(&w.box.changed, &w.box.mu, &w.n);
        fl_unlock(&w.box.mu);
        fl_thread_join(t);
        box_release(&w.box);
    }
}

#define TURNS 200

/* Waits for its turns, which the other side gives. A wait that is given up
   leaves the count short. */
static void play(box *b, int own)
{
    const uint64_t deadline = fl_now_ns() + MINUTE_NS;
    bool in_time = true;

    for (int i = 0; i < TURNS; i++) {
        fl_lock(&b->mu);
        while (b->turn != own && in_time)
            in_time = fl_cond_wait_until(&b->changed, &b->mu, deadline);
        b->turn = !own;
        b->count += in_time;
        fl_cond_wake_all(&b->changed);
        fl_unlock(&b->mu);
    }
}

static void play_second(void *arg)
{
    play(arg, 1);
}

static void two_threads_hand_the_turn_to_each_other(void **state)
{
    fl_thread *t = NULL;
    box b;

    (void)state;
    box_init(&b);
    assert_int_equal(fl_thread_start(&t, "second", play_second, &b), FL_OK);
    play(&b, 0);
    fl_thread_join(t);
    assert_int_equal(b.count, 2 * TURNS);
    box_release(&b);
}

static void a_wait_ends_at_its_deadline_and_not_before(void **state)
{
    const uint64_t deadline = fl_now_ns() + 2000000;
    box b;

    (void)state;
    box_init(&b);
    fl_lock(&b.mu);
    while (fl_cond_wait_until(&b.changed, &b.mu, deadline))
        ; /* woken for nothing */
    assert_true(fl_now_ns() >= deadline);
    assert_false(fl_cond_wait_until(&b.changed, &b.mu, 0));
    fl_unlock(&b.mu);
    box_release(&b);
}

static void the_core_count_follows_the_affinity(void **state)
{
    cpu_set_t all, one;
    int first = 0;

    (void)state;
    assert_int_equal(sched_getaffinity(0, sizeof(all), &all), 0);
    assert_int_equal(fl_cpu_count(), CPU_COUNT(&all));
    while (!CPU_ISSET(first, &all))
        first++;
    CPU_ZERO(&one);
    CPU_SET(first, &one);
    assert_int_equal(sched_setaffinity(0, sizeof(one), &one), 0);
    assert_int_equal(fl_cpu_count(), 1);
    assert_int_equal(sched_setaffinity(0, sizeof(all), &all), 0);
}

static void clocks_go_forward(void **state)
{
    uint64_t now = fl_now_ns(), cpu = fl_thread_cpu_ns();

    (void)state;
    assert_true(now > 0);
    while (fl_thread_cpu_ns() == cpu)
        ;
    assert_true(fl_thread_cpu_ns() > cpu);
    assert_true(fl_now_ns() > now);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_thread_shows_fifteen_characters_of_its_name),
        cmocka_unit_test(a_child_is_cut_off_from_the_threads_of_its_parent),
        cmocka_unit_test(the_mutex_keeps_two_threads_apart),
        cmocka_unit_test(who_looks_for_the_mutex_gets_it),
        cmocka_unit_test(a_wait_for_the_last_ends_with_it),
        cmocka_unit_test(two_threads_hand_the_turn_to_each_other),
        cmocka_unit_test(a_wait_ends_at_its_deadline_and_not_before),
        cmocka_unit_test(the_core_count_follows_the_affinity),
        cmocka_unit_test(clocks_go_forward),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
