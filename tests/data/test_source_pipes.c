/* test_source_pipes.c - text out of named pipes and through commands: nothing
 * is waited for, no process stays behind, and a failure is said. */
#include "source_kit.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/stat.h>
#include <sys/wait.h>

#include "base/thread.h"

/* --- pipes ---------------------------------------------------------------- */

typedef struct writing {
    char path[128];
    const char *bytes;
    size_t len, step;
} writing;

static void write_fifo(void *arg)
{
    const writing *w = arg;
    int fd = open(w->path, O_WRONLY | O_CLOEXEC);

    for (size_t at = 0; fd >= 0 && at < w->len; at += w->step) {
        size_t n = w->len - at < w->step ? w->len - at : w->step;

        if (write(fd, w->bytes + at, n) != (ssize_t)n)
            break;
    }
    if (fd >= 0)
        close(fd);
}

static void expect_from_fifo(const fl_source_options *o, const char *bytes,
                             size_t len, size_t step, const char *text,
                             size_t text_len)
{
    writing w = { .bytes = bytes, .len = len, .step = step };
    fl_thread *writer = NULL;

    snprintf(w.path, sizeof(w.path), "%s", in_folder("fifo"));
    assert_int_equal(mkfifo(w.path, 0600), 0);
    assert_ok(fl_thread_start(&writer, "writer", write_fifo, &w));
    expect_text(w.path, o, text, text_len);
    fl_thread_join(writer);
    unlink(w.path);
}

static void a_fifo_may_come_byte_by_byte(void **state)
{
    enum { LEN = 2000 };
    static unsigned char packed[PACKED_MAX];
    fl_source_options o = options(50, 30);
    char text[LEN];
    size_t n;

    (void)state;
    make_text(text, LEN, 6, 40);
    expect_from_fifo(&o, text, LEN, 1, text, LEN);
    n = gzip(packed, text, LEN);
    expect_from_fifo(&o, (char *)packed, n, 1, text, LEN);
    n = zstd(packed, text, LEN);
    expect_from_fifo(&o, (char *)packed, n, 1, text, LEN);
    expect_from_fifo(&o, text, LEN, LEN, text, LEN);
    expect_from_fifo(&usual, text, 0, 1, text, 0);
}

static void a_command_may_read_a_fifo(void **state)
{
    fl_source_options o = usual;

    (void)state;
    o.pipe_command = "cat";
    for (int i = 0; i < 20; i++)
        expect_from_fifo(&o, "one\ntwo\n", 8, 8, "one\ntwo\n", 8);
}

/* The next state, which must be this one. */
static void expect_state(fl_source *s, fl_text *t, fl_source_state wanted)
{
    fl_source_state got;

    assert_ok(fl_source_next(s, t, &got));
    assert_int_equal(got, wanted);
}

static void a_silent_fifo_says_wait(void **state)
{
    const char *path = in_folder("fifo");
    fl_text t = { 0 };
    fl_source *s;
    int fd;

    (void)state;
    assert_int_equal(mkfifo(path, 0600), 0);
    s = open_source(path, &usual);
    expect_state(s, &t, FL_SOURCE_WAIT); /* nobody writes yet */
    fd = open(path, O_WRONLY | O_CLOEXEC);
    assert_true(fd >= 0);
    expect_state(s, &t, FL_SOURCE_WAIT);
    assert_int_equal(write(fd, "one\ntw", 6), 6);
    expect_state(s, &t, FL_SOURCE_TEXT); /* a whole line need not wait */
    assert_string_equal(t.data, "one\n");
    expect_state(s, &t, FL_SOURCE_WAIT);
    assert_int_equal(t.n_lines, 0);
    assert_int_equal(write(fd, "o", 1), 1);
    expect_state(s, &t, FL_SOURCE_WAIT);
    close(fd);
    expect_state(s, &t, FL_SOURCE_TEXT);
    assert_string_equal(t.data, "two\n");
    assert_int_equal(t.first_line, 2);
    expect_state(s, &t, FL_SOURCE_END);
    expect_state(s, &t, FL_SOURCE_END);
    fl_text_release(&t);
    fl_source_close(s);
}

/* --- commands ------------------------------------------------------------- */

static void a_command_gets_the_file_and_gives_the_text(void **state)
{
    static unsigned char packed[256];
    fl_source_options o = through("tr a-z A-Z");

    (void)state;
    expect_lines(put("a", "one\ntwo"), &o, "ONE\nTWO");
    o = through("gzip -c");
    expect_lines(put("a", "one\ntwo"), &o, "one\ntwo");
    o = through("gunzip | sed s/o/0/ | cat");
    expect_lines(put_bytes("b", packed, gzip(packed, "one\ntwo\n", 8)), &o,
                 "0ne\ntw0\n");
    o = through("cat >/dev/null");
    expect_lines(put("a", "one\n"), &o, "");
    o = through("exec 1>&-; sleep 0.05");
    expect_lines(put("a", "one\n"), &o, "");
}

static void a_command_may_give_more_than_a_pipe_holds(void **state)
{
    enum { LEN = 4 << 20 };
    fl_source_options o = through("cat");
    char *text = fl_alloc(LEN);

    (void)state;
    make_text(text, LEN, 7, 500);
    expect_text(put_bytes("a", text, LEN), &o, text, LEN);
    fl_free(text);
}

static void a_command_that_fails_is_an_error(void **state)
{
    static const char *const cases[][2] = {
        { "cat; exit 3", "ended with status 3 after 4 bytes" },
        { "exec 1>&-; sleep 0.05; exit 3", "ended with status 3" },
        { "kill -9 $$", "ended by signal 9" },
        { "no_such_program_at_all 2>/dev/null", "status 127 (not found)" },
        { "gzip -c | head -c 12; exit 4", "status 4" },
        { "gzip -c | head -c 12", "is cut" },
    };
    const char *path = put("a", "one\n");

    (void)state;
    for (size_t i = 0; i < FL_LEN(cases); i++) {
        fl_source_options o = through(cases[i][0]);

        expect_failure(path, &o, i == 5 ? FL_ERR_CORRUPT : FL_ERR_IO,
                       cases[i][1]);
        expect_said(cases[i][0]);
    }
}

/* With SIGPIPE ignored, as servers have it, "yes" would complain and go on. */
static void a_command_has_default_signals(void **state)
{
    fl_source_options o = through("yes | head -n 1; kill -PIPE $$; echo here");
    void (*was)(int) = signal(SIGPIPE, SIG_IGN);

    (void)state;
    expect_failure(put("a", ""), &o, FL_ERR_IO, "ended by signal 13");
    (void)signal(SIGPIPE, was);
}

/* All processes of the command hold the writing end of a named pipe, which
   hangs up when the last of them is gone. */
static void closing_ends_the_whole_pipeline(void **state)
{
    fl_source_options o = through("exec 3>\"$(cat)\"; echo $$; "
                                  "sleep 1000 | sleep 1000 & "
                                  "sleep 1000 | cat");
    const char *path = in_folder("held");
    struct pollfd held = { .events = POLLIN };
    fl_text t = { 0 };
    fl_source *s;
    pid_t leader;

    (void)state;
    assert_int_equal(mkfifo(path, 0600), 0);
    held.fd = open(path, O_RDONLY | O_NONBLOCK | O_CLOEXEC);
    assert_true(held.fd >= 0);
    s = open_source(put("a", path), &o);
    wait_for(s);
    expect_state(s, &t, FL_SOURCE_TEXT);
    leader = (pid_t)strtol(t.data, NULL, 10);
    assert_true(leader > 1);
    expect_state(s, &t, FL_SOURCE_WAIT);
    assert_int_equal(poll(&held, 1, 0), 0);
    fl_source_close(s);
    fl_text_release(&t);
    assert_int_equal(poll(&held, 1, WAIT_MS), 1);
    assert_true(held.revents & POLLHUP);
    close(held.fd);
    assert_int_equal(waitpid(leader, NULL, WNOHANG), -1); /* no zombie */
    assert_int_equal(errno, ECHILD);
}

static void a_program_that_ignores_its_children_is_told(void **state)
{
    fl_source_options o = through("cat");
    void (*was)(int) = signal(SIGCHLD, SIG_IGN);

    (void)state;
    expect_failure(put("a", "one\n"), &o, FL_ERR_IO, "SIGCHLD");
    (void)signal(SIGCHLD, was);
}

/* In a process that has closed its standard descriptors, new ones take their
   numbers. */
static void closed_standard_descriptors_do_not_matter(void **state)
{
    fl_source_options o = through("cat");
    const char *path = put("a", "one\n");
    int status = -1;
    pid_t pid = fork();

    (void)state;
    assert_true(pid >= 0);
    if (pid == 0) {
        fl_source_state got = FL_SOURCE_WAIT;
        fl_source *s = NULL;
        fl_text t = { 0 };
        bool ok;

        for (int fd = 0; fd < 3; fd++)
            close(fd);
        ok = !fl_source_open(&s, path, &o);
        for (int i = 0; ok && i < 1000 && got == FL_SOURCE_WAIT; i++) {
            struct pollfd p = { .fd = fl_source_fd(s), .events = POLLIN };

            poll(&p, 1, WAIT_MS);
            ok = !fl_source_next(s, &t, &got);
        }
        _exit(ok && got == FL_SOURCE_TEXT && t.len == 4 ? 0 : 1);
    }
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_int_equal(status, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(a_fifo_may_come_byte_by_byte),
        TEST(a_command_may_read_a_fifo),
        TEST(a_silent_fifo_says_wait),
        TEST(a_command_gets_the_file_and_gives_the_text),
        TEST(a_command_may_give_more_than_a_pipe_holds),
        TEST(a_command_that_fails_is_an_error),
        TEST(a_command_has_default_signals),
        TEST(closing_ends_the_whole_pipeline),
        TEST(a_program_that_ignores_its_children_is_told),
        TEST(closed_standard_descriptors_do_not_matter),
    };

    return cmocka_run_group_tests_name("source_pipes", tests, make_folder,
                                       remove_folder);
}
