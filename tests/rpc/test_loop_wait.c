/* test_loop_wait.c - threads that wait for a loop and work for it meanwhile. */
#include "loop_kit.h"

#include <stdatomic.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/alloc.h"

#define N_THREADS 4
#define N_TURNS 2000
#define N_CHAINS 100

static fl_loop *new_loop(void)
{
    fl_loop *l = NULL;

    assert_ok(fl_loop_new(&l, "test-loop"));
    return l;
}

/* --- flags ---------------------------------------------------------------- */

/* What one thread waits for. */
typedef struct flag {
    fl_loop *loop;
    atomic_bool is_set;
    bool was_mine; /* whether it was set in a callback */
} flag;

static bool is_set(void *arg)
{
    return atomic_load(&((flag *)arg)->is_set);
}

/* As callbacks do: whoever waits may be another than who runs it. */
static void set(void *arg)
{
    flag *f = arg;
    fl_loop *l = f->loop;

    f->was_mine = fl_loop_is_mine(l);
    atomic_store(&f->is_set, true);
    fl_poller_notify(fl_loop_poller(l));
}

static void wait_for(flag *f)
{
    fl_poller *p = fl_loop_poller(f->loop);

    p->wait(p, is_set, f);
}

/* --- waiting -------------------------------------------------------------- */

static void a_wait_ends_with_what_was_posted(void **state)
{
    fl_loop *l = new_loop();
    flag plain = { .loop = l }, deferred = { .loop = l };

    (void)state;
    fl_loop_post(l, set, &plain);
    wait_for(&plain);
    fl_loop_post_deferred(l, set, &deferred);
    wait_for(&deferred);
    assert_true(plain.was_mine && deferred.was_mine);
    assert_false(fl_loop_is_mine(l));
    fl_loop_free(l);
}

static void what_is_deferred_runs_though_nobody_waits(void **state)
{
    fl_loop *l = new_loop();
    flag helped = { .loop = l };
    gate ran;

    (void)state;
    gate_init(&ran);
    fl_loop_post(l, set, &helped);
    wait_for(&helped);
    fl_loop_post_deferred(l, (fl_loop_fn)gate_add, &ran);
    gate_wait(&ran, 1);
    fl_loop_free(l);
    gate_release(&ran);
}

typedef struct asker {
    fl_loop *loop;
    int number;
    int n_done;
    fl_thread *thread;
} asker;

static void ask_often(void *arg)
{
    asker *a = arg;

    for (int i = 0; i < N_TURNS; i++) {
        flag f = { .loop = a->loop };

        if ((a->number + i) % 3)
            fl_loop_post_deferred(a->loop, set, &f);
        else
            fl_loop_post(a->loop, set, &f);
        if (i % 2)
            fl_poller_flush(fl_loop_poller(a->loop));
        wait_for(&f);
        a->n_done += f.was_mine;
    }
}

static void many_threads_wait_each_for_its_own(void **state)
{
    fl_loop *l = new_loop();
    asker askers[N_THREADS];

    (void)state;
    for (int i = 0; i < N_THREADS; i++) {
        askers[i] = (asker){ .loop = l, .number = i };
        assert_ok(
            fl_thread_start(&askers[i].thread, "asker", ask_often, &askers[i]));
    }
    for (int i = 0; i < N_THREADS; i++) {
        fl_thread_join(askers[i].thread);
        assert_int_equal(askers[i].n_done, N_TURNS);
    }
    fl_loop_free(l);
}

static void set_after_a_while(void *arg)
{
    usleep(20000);
    set(arg);
}

static void a_notify_of_another_thread_ends_a_wait(void **state)
{
    fl_loop *l = new_loop();
    flag f = { .loop = l };
    fl_thread *thread;

    (void)state;
    assert_ok(fl_thread_start(&thread, "notifier", set_after_a_while, &f));
    wait_for(&f);
    assert_false(f.was_mine);
    fl_thread_join(thread);
    fl_loop_free(l);
}

/* Posts that post the next, and who ran the first. */
typedef struct chain {
    flag end;
    int n_left;
    pthread_t runner;
} chain;

static void run_chain(void *arg)
{
    chain *c = arg;

    if (c->n_left == 3)
        c->runner = pthread_self();
    if (--c->n_left)
        fl_loop_post_deferred(c->end.loop, run_chain, c);
    else
        set(&c->end);
}

/* The loop's own thread may come first; it stays away for a slice after a wait,
   so that it rarely does. */
static void one_flush_runs_a_chain_of_three_posts(void **state)
{
    fl_loop *l = new_loop();
    int n_mine = 0;

    (void)state;
    for (int i = 0; i < N_CHAINS; i++) {
        chain c = { .end = { .loop = l }, .n_left = 3 };
        flag helped = { .loop = l };
        bool is_over, is_mine;

        fl_loop_post(l, set, &helped);
        wait_for(&helped);
        fl_loop_post_deferred(l, run_chain, &c);
        fl_poller_flush(fl_loop_poller(l));
        is_over = is_set(&c.end);
        wait_for(&c.end);
        is_mine = pthread_equal(c.runner, pthread_self());
        assert_true(is_over || !is_mine);
        n_mine += is_mine;
    }
    assert_true(n_mine > 0);
    fl_loop_free(l);
}

/* --- what else the loop does ---------------------------------------------- */

static void start_timer(void *arg)
{
    flag *f = arg;

    (void)fl_loop_timer(f->loop, 5, set, f);
}

/* The thread sleeps with a timer that is far off; then one comes before it. */
static void start_far_timer(void *arg)
{
    flag *f = arg;

    (void)fl_loop_timer(f->loop, 3600 * 1000, set, f);
}

static void timers_fire_for_who_waits(void **state)
{
    fl_loop *l = new_loop();
    flag far = { .loop = l }, near = { .loop = l }, again = { .loop = l };

    (void)state;
    fl_loop_post(l, start_far_timer, &far);
    fl_loop_post(l, start_timer, &near);
    wait_for(&near);
    fl_loop_post_deferred(l, start_timer, &again);
    fl_poller_flush(fl_loop_poller(l));
    wait_for(&again);
    assert_false(is_set(&far));
    fl_loop_free(l);
}

typedef struct ear {
    flag heard;
    fl_watch *watch;
    int fds[2];
    atomic_bool is_bad;
} ear;

static void listen_to(void *arg, unsigned events)
{
    ear *e = arg;
    char c;

    if (!(events & FL_IO_READ) || read(e->fds[0], &c, 1) != 1)
        atomic_store(&e->is_bad, true);
    fl_watch_end(e->watch);
    set(&e->heard);
}

static void start_listening(void *arg)
{
    ear *e = arg;

    if (fl_loop_watch(e->heard.loop, e->fds[0], FL_IO_READ, listen_to, e,
                      &e->watch))
        atomic_store(&e->is_bad, true);
}

static void say_something(void *arg)
{
    ear *e = arg;

    usleep(10000);
    if (write(e->fds[1], "x", 1) != 1)
        atomic_store(&e->is_bad, true);
}

static void events_are_told_to_who_waits(void **state)
{
    ear e = { .heard = { .loop = new_loop() } };
    fl_thread *thread;

    (void)state;
    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM, 0, e.fds), 0);
    fl_loop_post(e.heard.loop, start_listening, &e);
    assert_ok(fl_thread_start(&thread, "speaker", say_something, &e));
    wait_for(&e.heard);
    fl_thread_join(thread);
    assert_false(atomic_load(&e.is_bad));
    fl_loop_free(e.heard.loop);
    close(e.fds[0]);
    close(e.fds[1]);
}

static void do_nothing(void *arg)
{
    (void)arg;
}

/* Who flushes; the loop's own thread may come first, as above. */
static void hear_by_flushing(fl_loop *l, int *n_mine)
{
    ear e = { .heard = { .loop = l } };
    flag helped = { .loop = l };

    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM, 0, e.fds), 0);
    fl_loop_post(l, start_listening, &e);
    fl_loop_post(l, set, &helped);
    wait_for(&helped);
    assert_int_equal(write(e.fds[1], "x", 1), 1);
    fl_loop_post_deferred(l, do_nothing, NULL);
    fl_poller_flush(fl_loop_poller(l));
    *n_mine += is_set(&e.heard);
    wait_for(&e.heard);
    assert_false(atomic_load(&e.is_bad));
    close(e.fds[0]);
    close(e.fds[1]);
}

static void a_flush_takes_in_what_has_arrived(void **state)
{
    fl_loop *l = new_loop();
    int n_mine = 0;

    (void)state;
    for (int i = 0; i < N_CHAINS; i++)
        hear_by_flushing(l, &n_mine);
    assert_true(n_mine > 0);
    fl_loop_free(l);
}

/* --- the lead ------------------------------------------------------------- */

#define N_LEADS 50

static void wait_in_thread(void *arg)
{
    wait_for(arg);
}

/* What the flag's thread waits for has come, but the notify is late. */
static void set_silently(void *arg)
{
    atomic_store(&((flag *)arg)->is_set, true);
}

/* Two threads leave while a third waits for an event: whoever of them was woken
   to lead, somebody polls. */
static void pass_the_lead(void)
{
    ear e = { .heard = { .loop = new_loop() } };
    flag first = { .loop = e.heard.loop }, second = { .loop = e.heard.loop };
    flag *const flags[] = { &first, &second, &e.heard };
    fl_thread *threads[FL_LEN(flags)];

    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM, 0, e.fds), 0);
    fl_loop_post(e.heard.loop, start_listening, &e);
    for (size_t i = 0; i < FL_LEN(flags); i++)
        assert_ok(
            fl_thread_start(&threads[i], "waiter", wait_in_thread, flags[i]));
    set_silently(&second);
    fl_loop_post(e.heard.loop, set_silently, &first);
    say_something(&e);
    for (size_t i = 0; i < FL_LEN(flags); i++)
        fl_thread_join(threads[i]);
    assert_false(atomic_load(&e.is_bad));
    fl_loop_free(e.heard.loop);
    close(e.fds[0]);
    close(e.fds[1]);
}

static void who_leaves_passes_the_lead_on(void **state)
{
    (void)state;
    alarm(60);
    for (int i = 0; i < N_LEADS; i++)
        pass_the_lead();
    alarm(0);
}

static void set_with_an_error(void *arg)
{
    (void)fl_err_set(FL_ERR_IO, "an error of somebody else");
    set(arg);
}

static void who_waits_keeps_its_last_error(void **state)
{
    fl_loop *l = new_loop();
    flag f = { .loop = l };

    (void)state;
    (void)fl_err_set(FL_ERR_INVAL, "an error of the caller");
    fl_loop_post(l, set_with_an_error, &f);
    wait_for(&f);
    assert_says("an error of the caller");
    fl_loop_free(l);
}

/* --- the end -------------------------------------------------------------- */

/* A helper says that it came by what it is waiting for: is_over is looked at
   when it is counted. */
typedef struct helper {
    flag flag;
    atomic_bool has_come;
    fl_thread *thread;
} helper;

static bool comes_and_looks(void *arg)
{
    helper *h = arg;

    atomic_store(&h->has_come, true);
    return is_set(&h->flag);
}

static void visit(void *arg)
{
    helper *h = arg;
    fl_poller *p = fl_loop_poller(h->flag.loop);

    p->wait(p, comes_and_looks, h);
}

static void a_loop_is_freed_after_its_helpers_have_left(void **state)
{
    (void)state;
    for (int i = 0; i < 100; i++) {
        fl_loop *l = new_loop();
        helper helpers[2] = { { .flag.loop = l }, { .flag.loop = l } };

        for (int k = 0; k < 2; k++)
            assert_ok(fl_thread_start(&helpers[k].thread, "helper", visit,
                                      &helpers[k]));
        for (int k = 0; k < 2; k++)
            while (!atomic_load(&helpers[k].has_come))
                usleep(10);
        for (int k = 0; k < 2; k++)
            fl_loop_post(l, set, &helpers[k].flag);
        fl_loop_free(l);
        for (int k = 0; k < 2; k++)
            fl_thread_join(helpers[k].thread);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_wait_ends_with_what_was_posted),
        cmocka_unit_test(what_is_deferred_runs_though_nobody_waits),
        cmocka_unit_test(many_threads_wait_each_for_its_own),
        cmocka_unit_test(a_notify_of_another_thread_ends_a_wait),
        cmocka_unit_test(one_flush_runs_a_chain_of_three_posts),
        cmocka_unit_test(timers_fire_for_who_waits),
        cmocka_unit_test(events_are_told_to_who_waits),
        cmocka_unit_test(a_flush_takes_in_what_has_arrived),
        cmocka_unit_test(who_leaves_passes_the_lead_on),
        cmocka_unit_test(who_waits_keeps_its_last_error),
        cmocka_unit_test(a_loop_is_freed_after_its_helpers_have_left),
    };

    return cmocka_run_group_tests_name("rpc/loop_wait", tests, NULL, NULL);
}
