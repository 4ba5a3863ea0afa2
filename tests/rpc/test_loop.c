/* test_loop.c - the real loop: posts, timers and watches, and their ends. */
#include "loop_kit.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/hash.h"
#include "rpc/loop/timers.h"

#define N_POSTS 10000
#define N_THREADS 4
#define N_WATCHES 20

static fl_loop *new_loop(void)
{
    fl_loop *l = NULL;

    assert_ok(fl_loop_new(&l, "test-loop"));
    return l;
}

/* --- posts ---------------------------------------------------------------- */

typedef struct log_line {
    struct numbers *log;
    size_t number;
} log_line;

typedef struct numbers {
    FL_VEC(size_t) got;
    gate done;
    fl_loop *loop;
    log_line lines[N_POSTS];
    bool is_mine;
} numbers;

static numbers *numbers_new(fl_loop *l)
{
    numbers *n = fl_alloc(sizeof(*n));

    gate_init(&n->done);
    n->loop = l;
    for (size_t i = 0; i < N_POSTS; i++)
        n->lines[i] = (log_line){ n, i };
    return n;
}

static void numbers_free(numbers *n)
{
    gate_release(&n->done);
    fl_vec_release(&n->got);
    fl_free(n);
}

static void note(void *arg)
{
    log_line *line = arg;
    numbers *n = line->log;

    n->is_mine = fl_loop_is_mine(n->loop);
    fl_vec_push(&n->got, line->number);
    gate_add(&n->done);
}

static void posts_run_in_the_loop_in_their_order(void **state)
{
    fl_loop *l = new_loop();
    numbers *n = numbers_new(l);

    (void)state;
    assert_false(fl_loop_is_mine(l));
    for (size_t i = 0; i < N_POSTS; i++)
        fl_loop_post(l, note, &n->lines[i]);
    gate_wait(&n->done, N_POSTS);
    assert_true(n->is_mine);
    for (size_t i = 0; i < N_POSTS; i++)
        assert_int_equal(n->got.data[i], i);
    fl_loop_free(l);
    numbers_free(n);
}

typedef struct poster {
    numbers *log;
    size_t first;
    fl_thread *thread;
} poster;

static void post_share(void *arg)
{
    poster *p = arg;

    for (size_t i = p->first; i < N_POSTS; i += N_THREADS)
        fl_loop_post(p->log->loop, note, &p->log->lines[i]);
}

static void posts_of_many_threads_all_run(void **state)
{
    fl_loop *l = new_loop();
    numbers *n = numbers_new(l);
    poster posters[N_THREADS];
    size_t last[N_THREADS];

    (void)state;
    for (size_t t = 0; t < N_THREADS; t++) {
        posters[t] = (poster){ .log = n, .first = t };
        assert_ok(fl_thread_start(&posters[t].thread, "poster", post_share,
                                  &posters[t]));
    }
    gate_wait(&n->done, N_POSTS);
    for (size_t t = 0; t < N_THREADS; t++)
        fl_thread_join(posters[t].thread);
    for (size_t t = 0; t < N_THREADS; t++)
        last[t] = SIZE_MAX;
    for (size_t i = 0; i < N_POSTS; i++) {
        size_t x = n->got.data[i], t = x % N_THREADS;

        assert_true(last[t] == SIZE_MAX ? x == t : x == last[t] + N_THREADS);
        last[t] = x;
    }
    fl_loop_free(l);
    numbers_free(n);
}

typedef struct chain {
    fl_loop *loop;
    int left;
    gate *at_end;
} chain;

static void post_next(void *arg)
{
    chain *c = arg;

    if (--c->left > 0)
        fl_loop_post(c->loop, post_next, c);
    else if (c->at_end)
        gate_add(c->at_end);
}

static void a_post_may_post(void **state)
{
    fl_loop *l = new_loop();
    gate end;
    chain c = { l, 1000, &end };

    (void)state;
    gate_init(&end);
    fl_loop_post(l, post_next, &c);
    gate_wait(&end, 1);
    assert_int_equal(c.left, 0);
    fl_loop_free(l);
    gate_release(&end);
}

static void what_is_posted_still_runs_when_the_loop_is_freed(void **state)
{
    (void)state;
    for (int round = 0; round < 50; round++) {
        fl_loop *l = new_loop();
        chain c = { l, 20, NULL };
        numbers *n = numbers_new(l);

        for (size_t i = 0; i < 100; i++)
            fl_loop_post(l, note, &n->lines[i]);
        fl_loop_post(l, post_next, &c);
        fl_loop_free(l);
        assert_int_equal(n->got.len, 100);
        assert_int_equal(c.left, 0);
        numbers_free(n);
    }
    fl_loop_free(NULL);
}

/* --- timers --------------------------------------------------------------- */

typedef struct alarms {
    fl_loop *loop;
    FL_VEC(int) got;
    bool was_early;
    gate done;
} alarms;

typedef struct alarm_line {
    alarms *all;
    int number;
    uint64_t not_before_ms, id;
} alarm_line;

static void ring(void *arg)
{
    alarm_line *a = arg;

    if (fl_loop_now_ms(a->all->loop) < a->not_before_ms)
        a->all->was_early = true;
    fl_vec_push(&a->all->got, a->number);
    gate_add(&a->all->done);
}

static void set_alarm(alarm_line *a, uint64_t delay_ms)
{
    fl_loop *l = a->all->loop;

    a->not_before_ms = fl_loop_now_ms(l) + delay_ms;
    a->id = fl_loop_timer(l, delay_ms, ring, a);
}

static void set_alarms(void *arg)
{
    alarm_line *a = arg;

    set_alarm(&a[0], 60);
    set_alarm(&a[1], 0);
    set_alarm(&a[2], 30);
    set_alarm(&a[3], 30);
    set_alarm(&a[4], 10);
    set_alarm(&a[5], UINT64_MAX);
    fl_loop_cancel(a->all->loop, a[4].id);
    fl_loop_cancel(a->all->loop, a[4].id);
    fl_loop_cancel(a->all->loop, 0);
}

static void cancel_old(void *arg)
{
    alarm_line *a = arg;

    for (int i = 0; i < 6; i++)
        fl_loop_cancel(a->all->loop, a[i].id);
}

static void timers_fire_in_order_and_never_early(void **state)
{
    static const int expected[] = { 1, 2, 3, 0 };
    alarms all = { .loop = new_loop() };
    alarm_line lines[6];

    (void)state;
    gate_init(&all.done);
    for (int i = 0; i < 6; i++)
        lines[i] = (alarm_line){ .all = &all, .number = i };
    in_loop(all.loop, set_alarms, lines);
    gate_wait(&all.done, FL_LEN(expected));
    in_loop(all.loop, cancel_old, lines);
    fl_loop_free(all.loop);
    assert_int_equal(all.got.len, FL_LEN(expected));
    assert_memory_equal(all.got.data, expected, sizeof(expected));
    assert_false(all.was_early);
    fl_vec_release(&all.got);
    gate_release(&all.done);
}

static void ring_again(void *arg)
{
    chain *c = arg;

    c->left++;
    (void)fl_loop_timer(c->loop, 0, ring_again, c);
}

static void a_timer_that_sets_itself_starves_nobody(void **state)
{
    fl_loop *l = new_loop();
    chain c = { .loop = l };
    gate end;
    chain posts = { l, 100, &end };

    (void)state;
    gate_init(&end);
    in_loop(l, ring_again, &c);
    fl_loop_post(l, post_next, &posts);
    gate_wait(&end, 1);
    fl_loop_free(l);
    assert_true(c.left > 1);
    gate_release(&end);
}

static void nothing(void *arg)
{
    (void)arg;
}

/* The heap against a plain list, by random additions, removals and takings. */
static void the_heap_of_timers_agrees_with_a_list(void **state)
{
    enum { N = 4000 };
    struct {
        uint64_t id, at;
        bool is_set;
    } *list = fl_alloc(N * sizeof(*list));
    fl_timers t = { 0 };
    uint64_t seed = 1, now = 0;
    size_t n = 0;

    (void)state;
    while (n < N) {
        uint64_t x = fl_mix64(seed++);

        if (x % 4 < 2) {
            list[n].at = now + x / 4 % 50;
            list[n].id = fl_timers_add(&t, list[n].at, nothing, &list[n]);
            list[n++].is_set = true;
        } else if (x % 4 == 2 && n) {
            size_t i = x / 4 % n;

            fl_timers_remove(&t, list[i].id);
            list[i].is_set = false;
        } else {
            fl_loop_fn fn;
            void *arg;
            uint64_t soonest = UINT64_MAX;
            size_t first = 0;

            now++;
            for (size_t i = n; i-- > 0;)
                if (list[i].is_set && list[i].at <= soonest) {
                    soonest = list[i].at;
                    first = i;
                }
            assert_true(fl_timers_next_ms(&t) == soonest);
            if (fl_timers_take(&t, now, UINT64_MAX, &fn, &arg)) {
                assert_ptr_equal(arg, &list[first]);
                list[first].is_set = false;
            } else {
                assert_true(soonest > now);
            }
        }
    }
    fl_timers_release(&t);
    fl_free(list);
}

/* --- watches -------------------------------------------------------------- */

typedef struct ears {
    fl_loop *loop;
    int ends[N_WATCHES][2];
    fl_watch *watches[N_WATCHES];
    int n_told;
    unsigned events;
    gate told;
    fl_status st;
} ears;

static ears *ears_new(void)
{
    ears *e = fl_alloc(sizeof(*e));

    e->loop = new_loop();
    gate_init(&e->told);
    for (int i = 0; i < N_WATCHES; i++)
        assert_int_equal(
            socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, e->ends[i]), 0);
    return e;
}

static void end_watches(void *arg)
{
    ears *e = arg;

    for (int i = 0; i < N_WATCHES; i++) {
        if (e->watches[i])
            fl_watch_end(e->watches[i]);
        e->watches[i] = NULL;
    }
}

static void ears_free(ears *e)
{
    in_loop(e->loop, end_watches, e);
    fl_loop_free(e->loop);
    for (int i = 0; i < N_WATCHES; i++) {
        close(e->ends[i][0]);
        close(e->ends[i][1]);
    }
    gate_release(&e->told);
    fl_free(e);
}

static void count_told(void *arg, unsigned events)
{
    ears *e = arg;

    e->n_told++;
    e->events = events;
    if (e->n_told >= 3)
        fl_watch_set(e->watches[0], 0);
    gate_add(&e->told);
}

static void watch_first_for_reading(void *arg)
{
    ears *e = arg;

    e->st = fl_loop_watch(e->loop, e->ends[0][0], FL_IO_READ, count_told, e,
                          &e->watches[0]);
}

static void watch_first_for_nothing(void *arg)
{
    ears *e = arg;

    e->st =
        fl_loop_watch(e->loop, e->ends[0][0], 0, count_told, e, &e->watches[0]);
}

static void want_to_write(void *arg)
{
    ears *e = arg;

    fl_watch_set(e->watches[0], FL_IO_WRITE);
}

/* Nothing is read, so it is told again and again, until it is not wanted. */
static void an_event_is_told_as_long_as_it_is_there(void **state)
{
    ears *e = ears_new();

    (void)state;
    in_loop(e->loop, watch_first_for_reading, e);
    assert_int_equal(e->st, FL_OK);
    assert_int_equal(gate_count(&e->told), 0);
    assert_int_equal(write(e->ends[0][1], "x", 1), 1);
    gate_wait(&e->told, 3);
    in_loop(e->loop, nothing, NULL);
    in_loop(e->loop, nothing, NULL);
    assert_int_equal(gate_count(&e->told), 3);
    assert_int_equal(e->events, FL_IO_READ);
    in_loop(e->loop, want_to_write, e);
    gate_wait(&e->told, 4);
    assert_int_equal(e->events, FL_IO_WRITE);
    ears_free(e);
}

static void end_first_on_event(void *arg, unsigned events)
{
    ears *e = arg;

    e->events = events;
    fl_watch_end(e->watches[0]);
    e->watches[0] = NULL;
    gate_add(&e->told);
}

static void watch_first_until_told(void *arg)
{
    ears *e = arg;

    e->st = fl_loop_watch(e->loop, e->ends[0][0], 0, end_first_on_event, e,
                          &e->watches[0]);
}

static void a_hang_up_is_told_without_being_wanted(void **state)
{
    ears *e = ears_new();

    (void)state;
    in_loop(e->loop, watch_first_until_told, e);
    assert_int_equal(write(e->ends[0][1], "x", 1), 1);
    in_loop(e->loop, nothing, NULL);
    assert_int_equal(gate_count(&e->told), 0);
    assert_int_equal(shutdown(e->ends[0][1], SHUT_RDWR), 0);
    gate_wait(&e->told, 1);
    assert_int_equal(e->events, FL_IO_READ | FL_IO_WRITE);
    ears_free(e);
}

/* The first one that is told ends all of them, itself among them, and closes
   their descriptors. */
static void end_all_on_event(void *arg, unsigned events)
{
    ears *e = arg;

    (void)events;
    e->n_told++;
    end_watches(e);
    for (int i = 0; i < N_WATCHES; i++) {
        close(e->ends[i][0]);
        e->ends[i][0] = -1;
    }
    gate_add(&e->told);
}

/* All are ready before the next round, which then has the events of all. */
static void watch_all(void *arg)
{
    ears *e = arg;

    for (int i = 0; i < N_WATCHES && !e->st; i++)
        e->st = fl_loop_watch(e->loop, e->ends[i][0], FL_IO_READ,
                              end_all_on_event, e, &e->watches[i]);
}

static void a_callback_may_end_all_watches_of_its_round(void **state)
{
    ears *e = ears_new();

    (void)state;
    for (int i = 0; i < N_WATCHES; i++)
        assert_int_equal(write(e->ends[i][1], "x", 1), 1);
    in_loop(e->loop, watch_all, e);
    assert_int_equal(e->st, FL_OK);
    gate_wait(&e->told, 1);
    in_loop(e->loop, nothing, NULL);
    in_loop(e->loop, nothing, NULL);
    assert_int_equal(e->n_told, 1);
    for (int i = 0; i < N_WATCHES; i++)
        e->ends[i][0] = dup(e->ends[i][1]); /* for ears_free to close */
    ears_free(e);
}

static void watch_closed(void *arg)
{
    ears *e = arg;

    e->st =
        fl_loop_watch(e->loop, -1, FL_IO_READ, count_told, e, &e->watches[0]);
    if (e->st == FL_ERR_IO && strstr(fl_last_error(), "descriptor -1"))
        gate_add(&e->told);
}

static void watching_what_is_closed_is_an_error(void **state)
{
    ears *e = ears_new();

    (void)state;
    in_loop(e->loop, watch_closed, e);
    assert_int_equal(gate_count(&e->told), 1);
    assert_null(e->watches[0]);
    ears_free(e);
}

/* A watch that is always ready keeps neither posts nor the end waiting. */
static void a_busy_loop_can_be_freed(void **state)
{
    ears *e = ears_new();

    (void)state;
    e->n_told = INT32_MIN;
    in_loop(e->loop, watch_first_for_nothing, e);
    in_loop(e->loop, want_to_write, e);
    gate_wait(&e->told, 100);
    ears_free(e);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(posts_run_in_the_loop_in_their_order),
        cmocka_unit_test(posts_of_many_threads_all_run),
        cmocka_unit_test(a_post_may_post),
        cmocka_unit_test(what_is_posted_still_runs_when_the_loop_is_freed),
        cmocka_unit_test(timers_fire_in_order_and_never_early),
        cmocka_unit_test(a_timer_that_sets_itself_starves_nobody),
        cmocka_unit_test(the_heap_of_timers_agrees_with_a_list),
        cmocka_unit_test(an_event_is_told_as_long_as_it_is_there),
        cmocka_unit_test(a_hang_up_is_told_without_being_wanted),
        cmocka_unit_test(a_callback_may_end_all_watches_of_its_round),
        cmocka_unit_test(watching_what_is_closed_is_an_error),
        cmocka_unit_test(a_busy_loop_can_be_freed),
    };

    return cmocka_run_group_tests_name("rpc/loop", tests, NULL, NULL);
}
