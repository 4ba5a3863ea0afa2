/* test_workers.c - readers with processes: shared memory, deaths, limits. */
#include "reader_kit.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <sys/wait.h>

static fl_reader *make_processes(int n_workers, size_t capacity)
{
    return make_reader(FL_INIT(fl_reader_args, .workers = FL_READER_PROCESSES,
                               .n_workers = n_workers, .ordered = true,
                               .capacity = capacity));
}

/* Batches without end from every worker. */
static fl_reader *start_endless(int n_workers, fl_generator fn)
{
    static counting c;
    fl_reader *r = make_processes(n_workers, (size_t)n_workers);

    for (int i = 0; i < n_workers; i++)
        c.n[i] = UINT64_MAX;
    rewind_counting(&c);
    fl_reader_decorate_batch_generator(r, fn, &c);
    assert_ok(fl_reader_start(r));
    return r;
}

static const fl_feed *next_batch(fl_reader *r)
{
    const fl_feed *feeds = NULL;
    size_t n;

    assert_ok(fl_reader_next(r, 0, &feeds, &n));
    assert_non_null(feeds);
    return feeds;
}

/* Reads until the error comes, which it must. */
static void expect_error(fl_reader *r, fl_status want, const char *words)
{
    const fl_feed *feeds;
    fl_status st = FL_OK;
    size_t n;

    while (!st) {
        st = fl_reader_next(r, 0, &feeds, &n);
        assert_true(st || feeds);
    }
    assert_int_equal(st, want);
    assert_said(words);
}

static void assert_no_children(void)
{
    assert_int_equal(waitpid(-1, NULL, WNOHANG), -1);
    assert_int_equal(errno, ECHILD);
}

static size_t open_descriptors(void)
{
    DIR *d = opendir("/proc/self/fd");
    size_t n = 0;

    assert_non_null(d);
    while (readdir(d))
        n++;
    closedir(d);
    return n;
}

/* --- deaths --------------------------------------------------------------- */

static void a_killed_worker_is_named(void **state)
{
    size_t n_open = open_descriptors();
    fl_reader *r = start_endless(3, count_batches);
    char words[96];
    int victim = 0;

    (void)state;
    for (int i = 0; i < 6; i++) {
        const fl_feed *feeds = next_batch(r);

        assert_int_equal(worker_of(feeds), i % 3);
        if (i % 3 == 1)
            victim = process_of(feeds);
    }
    assert_int_not_equal(victim, getpid());
    assert_int_equal(kill(victim, SIGKILL), 0);
    snprintf(words, sizeof(words),
             "worker 1 (process %d) was ended by signal 9", victim);
    expect_error(r, FL_ERR_IO, words);
    assert_said(" batches");
    fl_reader_reset(r);
    assert_no_children();
    assert_ok(fl_reader_start(r));
    assert_int_not_equal(process_of(next_batch(r)), victim);
    fl_reader_free(r);
    assert_no_children();
    assert_int_equal(open_descriptors(), n_open);
}

static fl_status leave_early(void *arg, int worker, fl_feeder *into, bool *end)
{
    const counting *c = arg;

    if (c->shares[worker].at == 17)
        _exit(3);
    return count_batches(arg, worker, into, end);
}

static void a_worker_that_leaves_is_named_with_its_batches(void **state)
{
    fl_reader *r = start_endless(1, leave_early);

    (void)state;
    expect_error(r, FL_ERR_IO, "left with status 3 after 17 batches");
    fl_reader_free(r);
    assert_no_children();
}

static fl_status crash(void *arg, int worker, fl_feeder *into, bool *end)
{
    (void)arg, (void)worker, (void)into, (void)end;
    (void)raise(SIGUSR1);
    return FL_OK;
}

static void on_signal(int number)
{
    (void)number;
}

static void handlers_of_the_parent_are_not_the_workers(void **state)
{
    struct sigaction mine = { .sa_handler = on_signal }, old;
    fl_reader *r;

    (void)state;
    assert_int_equal(sigaction(SIGUSR1, &mine, &old), 0);
    r = start_endless(1, crash);
    expect_error(r, FL_ERR_IO, "was ended by signal 10");
    fl_reader_free(r);
    assert_int_equal(sigaction(SIGUSR1, &old, NULL), 0);
}

/* A process that the worker starts keeps the worker's pipe open. */
static int grandchild_pipe[2];

static fl_status start_grandchild(void *arg, int worker, fl_feeder *into,
                                  bool *end)
{
    const counting *c = arg;
    char byte;

    if (c->shares[worker].at == 0 && fork() == 0) {
        close(grandchild_pipe[1]);
        _exit(read(grandchild_pipe[0], &byte, 1) < 0);
    }
    return count_batches(arg, worker, into, end);
}

static void a_death_is_noticed_though_its_pipe_stays_open(void **state)
{
    fl_reader *r;

    (void)state;
    assert_int_equal(pipe2(grandchild_pipe, O_CLOEXEC), 0);
    r = start_endless(1, start_grandchild);
    assert_int_equal(kill(process_of(next_batch(r)), SIGKILL), 0);
    expect_error(r, FL_ERR_IO, "was ended by signal 9");
    fl_reader_free(r);
    close(grandchild_pipe[0]);
    close(grandchild_pipe[1]);
}

/* --- stopped workers ------------------------------------------------------ */

static char state_of(int process)
{
    char path[64], text[256] = "";
    const char *end;
    FILE *f;

    snprintf(path, sizeof(path), "/proc/%d/stat", process);
    f = fopen(path, "r");
    if (!f)
        return '-';
    (void)!fgets(text, sizeof(text), f);
    fclose(f);
    end = strrchr(text, ')');
    return end && end[1] ? end[2] : '-';
}

static int stop_worker(fl_reader *r)
{
    uint64_t deadline = fl_now_ns() + DEADLINE_NS;
    int victim = process_of(next_batch(r));

    assert_int_equal(kill(victim, SIGSTOP), 0);
    while (state_of(victim) != 'T') {
        assert_true(fl_now_ns() < deadline);
        sched_yield();
    }
    return victim;
}

/* What a thread does to a reader, and what came of it. */
typedef struct errand {
    fl_reader *reader;
    fl_status st;
    size_t n_rows;
} errand;

static void take_a_hundred(void *arg)
{
    errand *e = arg;
    const fl_feed *feeds;
    size_t n;

    for (int i = 0; i < 100 && !e->st; i++) {
        e->st = fl_reader_next(e->reader, 0, &feeds, &n);
        e->n_rows += e->st ? 0 : n;
    }
}

static void a_stopped_worker_goes_on_when_it_is_continued(void **state)
{
    fl_reader *r = start_endless(2, count_batches);
    int victim = stop_worker(r);
    errand e = { .reader = r };
    fl_thread *t = NULL;

    (void)state;
    assert_ok(fl_thread_start(&t, "consumer", take_a_hundred, &e));
    assert_int_equal(kill(victim, SIGCONT), 0);
    fl_thread_join(t);
    assert_int_equal(e.st, FL_OK);
    assert_int_equal(e.n_rows, 300);
    fl_reader_free(r);
    assert_no_children();
}

static void a_stopped_worker_does_not_hold_up_a_reset(void **state)
{
    fl_reader *r = start_endless(2, count_batches);

    (void)state;
    (void)stop_worker(r);
    fl_reader_reset(r);
    assert_no_children();
    fl_reader_free(r);
}

static fl_status never_return(void *arg, int worker, fl_feeder *into, bool *end)
{
    (void)worker, (void)into, (void)end;
    do {
        pause();
    } while (arg);
    return FL_OK;
}

static void a_generator_that_never_returns_does_not_either(void **state)
{
    fl_reader *r = start_endless(2, never_return);

    (void)state;
    fl_reader_free(r);
    assert_no_children();
}

/* --- parents -------------------------------------------------------------- */

/* Runs in a process of its own, which is killed. Its workers hold the other end
   of the pipe as well: it ends when all of them are gone. */
static void run_parent(int fd)
{
    fl_reader *r = start_endless(3, count_batches);

    (void)next_batch(r);
    if (write(fd, "r", 1) != 1)
        _exit(1);
    for (;;)
        pause();
}

static void workers_die_with_their_parent(void **state)
{
    struct pollfd p = { .events = POLLIN };
    int ends[2];
    pid_t parent;
    char byte;

    (void)state;
    assert_int_equal(pipe2(ends, O_CLOEXEC), 0);
    parent = fork();
    if (parent == 0)
        run_parent(ends[1]);
    close(ends[1]);
    p.fd = ends[0];
    assert_int_equal(poll(&p, 1, 60000), 1);
    assert_int_equal(read(ends[0], &byte, 1), 1);
    assert_int_equal(kill(parent, SIGKILL), 0);
    assert_int_equal(waitpid(parent, NULL, 0), parent);
    assert_int_equal(poll(&p, 1, 60000), 1);
    assert_int_equal(read(ends[0], &byte, 1), 0);
    close(ends[0]);
}

static void start_only(void *arg)
{
    errand *e = arg;

    e->st = fl_reader_start(e->reader);
}

static void workers_outlive_the_thread_that_starts_them(void **state)
{
    static counting c = { .n = { 50, 50 } };
    fl_reader *r = make_processes(2, 2);
    errand e = { .reader = r };
    fl_thread *t = NULL;

    (void)state;
    fl_reader_decorate_sample_generator(r, count_samples, &c, 10, false);
    assert_ok(fl_thread_start(&t, "starter", start_only, &e));
    fl_thread_join(t);
    assert_int_equal(e.st, FL_OK);
    assert_int_equal(read_all(r, 10, false, &c), 100);
    fl_reader_free(r);
}

/* --- memory --------------------------------------------------------------- */

static void a_batch_stays_until_its_consumer_asks_again(void **state)
{
    fl_reader *r = start_endless(1, count_batches);
    const fl_feed *kept = NULL, *feeds = NULL;
    size_t n;

    (void)state;
    assert_ok(fl_reader_next(r, 1, &kept, &n));
    for (uint64_t i = 1; i < 100; i++) {
        assert_ok(fl_reader_next(r, 0, &feeds, &n));
        check_batch(feeds, n, 0, 3 * i);
        check_batch(kept, 3, 0, 0);
    }
    fl_reader_free(r);
}

static void large_batches_come_whole(void **state)
{
    static counting c = { .n = { 50000, 30001 } };
    fl_reader *r = make_processes(2, 4);

    (void)state;
    fl_reader_decorate_sample_generator(r, count_samples, &c, 20000, false);
    assert_ok(fl_reader_start(r));
    assert_int_equal(read_all(r, 20000, false, &c), 80001);
    fl_reader_free(r);
}

static void a_batch_too_large_names_its_limit(void **state)
{
    static counting c = { .n = { 100000 } };
    static const size_t limits[] = { 1, 4096, 100000 };

    (void)state;
    for (size_t i = 0; i < FL_LEN(limits); i++) {
        fl_reader *r =
            make_reader(FL_INIT(fl_reader_args, .workers = FL_READER_PROCESSES,
                                .batch_bytes_max = limits[i]));

        fl_reader_decorate_sample_generator(r, count_samples, &c, 10000, true);
        assert_ok(fl_reader_start(r));
        expect_error(r, FL_ERR_INVAL, "raise batch_bytes_max");
        assert_said("a batch of 10000 rows");
        fl_reader_free(r);
    }
}

static void a_limit_beyond_memory_is_refused_at_the_start(void **state)
{
    static counting c;
    static const size_t limits[] = { SIZE_MAX, SIZE_MAX / 2, SIZE_MAX / 64 };

    (void)state;
    for (size_t i = 0; i < FL_LEN(limits); i++) {
        fl_reader *r =
            make_reader(FL_INIT(fl_reader_args, .workers = FL_READER_PROCESSES,
                                .batch_bytes_max = limits[i]));

        fl_reader_decorate_sample_generator(r, count_samples, &c, 10, true);
        assert_int_equal(fl_reader_start(r), FL_ERR_NOMEM);
        assert_said("batch_bytes_max");
        fl_reader_free(r);
    }
    assert_no_children();
}

/* Pipes that a process inherits are not closed by exec; the worker's is. */
static bool is_message_pipe(int fd)
{
    struct stat s;
    int how = fcntl(fd, F_GETFL), flags = fcntl(fd, F_GETFD);

    return how >= 0 && (how & O_ACCMODE) == O_WRONLY && flags >= 0 &&
           (flags & FD_CLOEXEC) && fstat(fd, &s) == 0 && S_ISFIFO(s.st_mode);
}

static uint32_t lie[2];

static fl_status tell_lies(void *arg, int worker, fl_feeder *into, bool *end)
{
    (void)arg, (void)worker, (void)into;
    for (int fd = 3; fd < 256; fd++)
        if (is_message_pipe(fd) && write(fd, lie, sizeof(lie)) < 0)
            return FL_ERR_IO;
    *end = true;
    return FL_OK;
}

static void what_a_worker_says_is_checked(void **state)
{
    static const uint32_t lies[][2] = { { 1, 9999 }, { 7, 0 }, { 3, 0 } };
    static const fl_status want[] = { FL_ERR_CORRUPT, FL_ERR_CORRUPT,
                                      FL_ERR_INVAL };

    (void)state;
    for (size_t i = 0; i < FL_LEN(lies); i++) {
        fl_reader *r;

        memcpy(lie, lies[i], sizeof(lie));
        r = start_endless(1, tell_lies);
        expect_error(r, want[i], "worker 0");
        fl_reader_free(r);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_killed_worker_is_named),
        cmocka_unit_test(a_worker_that_leaves_is_named_with_its_batches),
        cmocka_unit_test(handlers_of_the_parent_are_not_the_workers),
        cmocka_unit_test(a_death_is_noticed_though_its_pipe_stays_open),
        cmocka_unit_test(a_stopped_worker_goes_on_when_it_is_continued),
        cmocka_unit_test(a_stopped_worker_does_not_hold_up_a_reset),
        cmocka_unit_test(a_generator_that_never_returns_does_not_either),
        cmocka_unit_test(workers_die_with_their_parent),
        cmocka_unit_test(workers_outlive_the_thread_that_starts_them),
        cmocka_unit_test(a_batch_stays_until_its_consumer_asks_again),
        cmocka_unit_test(large_batches_come_whole),
        cmocka_unit_test(a_batch_too_large_names_its_limit),
        cmocka_unit_test(a_limit_beyond_memory_is_refused_at_the_start),
        cmocka_unit_test(what_a_worker_says_is_checked),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
