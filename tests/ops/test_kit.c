/* test_kit.c - choosing a kernel by the type of a tensor: what has no form for a
 * type says so and runs no other. */
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "ops/kit.h"
#include "ops/ops.h"

#define KERNELS(T, t)                                                          \
    static void twice_##t(T *x)                                                \
    {                                                                          \
        *x *= 2;                                                               \
    }
FL_FLOATS(KERNELS)

static void by_macro(const fl_tensor *t)
{
    FL_BY_DTYPE(t->dtype, twice, t->data);
}

static void by_number(const fl_tensor *t)
{
    (void)fl_float_at(t, 0);
}

static void by_index(const fl_tensor *t)
{
    fl_op_node n = { .def = fl_ops.find("leaky_relu") };

    (void)fl_float_index(t->dtype, &n);
}

/* What a child says that is asked for it with whole numbers, and is ended. */
static void expect_end(void (*choose)(const fl_tensor *t), const char *said)
{
    int64_t x = 7;
    fl_tensor t = { .dtype = FL_DTYPE_I64, .data = &x };
    char text[512] = "";
    int fds[2], status;
    pid_t pid;

    assert_int_equal(pipe(fds), 0);
    pid = fork();
    assert_true(pid >= 0);
    if (pid == 0) {
        signal(SIGABRT, SIG_DFL);
        dup2(fds[1], STDERR_FILENO);
        choose(&t);
        _exit(0);
    }
    close(fds[1]);
    assert_true(read(fds[0], text, sizeof(text) - 1) > 0);
    close(fds[0]);
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_true(WIFSIGNALED(status) && WTERMSIG(status) == SIGABRT);
    if (!strstr(text, said))
        fail_msg("'%s' does not say '%s'", text, said);
}

static void a_type_without_a_kernel_is_named(void **state)
{
    (void)state;
    expect_end(by_macro, "twice has no form for i64");
    expect_end(by_number, "i64 is no float");
    expect_end(by_index, "op leaky_relu has no form for i64");
}

static void both_float_types_have_their_kernel(void **state)
{
    float x = 1.5f;
    double y = 0.25;
    fl_tensor f32 = { .dtype = FL_DTYPE_F32, .data = &x };
    fl_tensor f64 = { .dtype = FL_DTYPE_F64, .data = &y };

    (void)state;
    by_macro(&f32);
    by_macro(&f64);
    assert_true(fl_float_at(&f32, 0) == 3 && fl_float_at(&f64, 0) == 0.5);
    assert_int_equal(fl_float_index(FL_DTYPE_F32, NULL), 0);
    assert_int_equal(fl_float_index(FL_DTYPE_F64, NULL), 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_type_without_a_kernel_is_named),
        cmocka_unit_test(both_float_types_have_their_kernel),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
