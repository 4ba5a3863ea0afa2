/* test_io_faults.c - every file call of a save goes wrong in turn, in a process
 * of its own: afterwards the old or the new model verifies and loads, the save
 * said which, and the next one leaves nothing of it behind. */
#include "io_kit.h"

#include <dirent.h>
#include <sys/wait.h>

#include "../sys_faults.h"
#include "../folder.h"
#include "ckpt/version.h"
#include "ctx/ctx.h"
#include "flotilla/io.h"

/* More calls than a save makes. */
#define CALLS_MAX 1000

enum { SAVED, NOT_SAVED, SAVED_UNSURE, KILLED };

static char dir[FOLDER_BYTES], model[80];
static fl_ctx *ctx;
static fl_executor *exe;

static void keep_quiet(void *arg, fl_log_level level, const char *area,
                       const char *text)
{
    (void)arg;
    (void)level;
    (void)area;
    (void)text;
}

/* One weight, and a table with two rows. */
static void build(void)
{
    fl_table *t;

    assert_ok(fl_ctx_new(&ctx));
    assert_ok(fl_executor_new(&exe, ctx));
    assert_ok(fl_program_add(fl_default_main_program(ctx),
                             "param w : f32[2] init=constant(1) trainable\n"
                             "param emb : f32[-1,3] table trainable\n"));
    assert_ok(fl_program_add(fl_default_startup_program(ctx),
                             "op init_table () -> () {table=emb, "
                             "settings=\"dim=3 optimizer=adam\"}\n"));
    assert_ok(fl_run(exe, fl_default_startup_program(ctx), NULL));
    assert_ok(fl_ctx_table(ctx, "emb", &t));
    assert_ok(fl_table_assign(t, (uint64_t[]){ 7, 9 }, 2,
                              (float[]){ 1, 2, 3, 4, 5, 6 }));
}

static int set_up(void **state)
{
    (void)state;
    if (!folder_make(dir, "faults"))
        return -1;
    snprintf(model, sizeof(model), "%s/model", dir);
    fl_log_set(keep_quiet, NULL, FL_LOG_ERROR);
    build();
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    fl_executor_free(exe);
    fl_ctx_free(ctx);
    io_remove(dir);
    return 0;
}

static void set_step(uint64_t step)
{
    fl_scope_set_step(fl_current_scope(ctx), step);
}

/* A save that goes wrong, in a process of its own. */
static int save_apart(fault_kind kind, int at)
{
    pid_t pid = fork();
    int status;

    assert_true(pid >= 0);
    if (!pid) {
        fl_status st;

        faults_begin(kind, at);
        st = fl_save_persistables(exe, model, NULL);
        _exit(!st                                          ? SAVED
              : strstr(fl_last_error(), "counts now, but") ? SAVED_UNSURE
                                                           : NOT_SAVED);
    }
    assert_int_equal(waitpid(pid, &status, 0), pid);
    if (WIFSIGNALED(status)) {
        assert_int_equal(WTERMSIG(status), SIGKILL);
        return KILLED;
    }
    return WEXITSTATUS(status);
}

/* What is there verifies and loads; gives its step. */
static uint64_t loaded_step(void)
{
    fl_model_version *v = NULL;

    assert_ok(fl_version_open(&v, model));
    assert_ok(fl_version_verify(v));
    fl_version_close(v);
    set_step(0);
    assert_ok(fl_load_persistables(exe, model, NULL));
    return fl_scope_step(fl_current_scope(ctx));
}

static size_t count_entries(void)
{
    DIR *d = opendir(model);
    size_t n = 0;

    assert_non_null(d);
    for (struct dirent *e; (e = readdir(d));)
        n += e->d_name[0] != '.';
    closedir(d);
    return n;
}

/* The number of calls of a save that goes well. */
static int count_calls(void)
{
    int n;

    faults_begin(FAULT_FAIL, CALLS_MAX);
    assert_ok(fl_save_persistables(exe, model, NULL));
    n = atomic_load(&faults.n);
    fl_sys_replace(NULL);
    assert_in_range(n, 20, CALLS_MAX - 1);
    return n;
}

static void one_goes_wrong(fault_kind kind, int at)
{
    int result;
    uint64_t step;

    set_step(1);
    assert_ok(fl_save_persistables(exe, model, NULL));
    set_step(2);
    result = save_apart(kind, at);
    step = loaded_step();
    if (result == SAVED || result == SAVED_UNSURE)
        assert_int_equal(step, 2);
    else if (result == NOT_SAVED)
        assert_int_equal(step, 1);
    else
        assert_in_range(step, 1, 2);
    set_step(3);
    assert_ok(fl_save_persistables(exe, model, NULL));
    assert_int_equal(loaded_step(), 3);
    assert_int_equal(count_entries(), 2); /* CURRENT and one version */
}

static void every_call_of_a_save_goes_wrong_in_turn(fault_kind kind)
{
    int n;

    assert_ok(fl_save_persistables(exe, model, NULL));
    n = count_calls();
    for (int at = 1; at <= n; at++)
        one_goes_wrong(kind, at);
}

static void every_call_fails_in_turn(void **state)
{
    (void)state;
    every_call_of_a_save_goes_wrong_in_turn(FAULT_FAIL);
}

static void the_disk_is_full_from_every_call_on(void **state)
{
    (void)state;
    every_call_of_a_save_goes_wrong_in_turn(FAULT_FAIL_ALWAYS);
}

static void every_write_is_short_in_turn(void **state)
{
    int n;

    (void)state;
    assert_ok(fl_save_persistables(exe, model, NULL));
    n = count_calls();
    for (int at = 1; at <= n; at++)
        assert_int_equal(save_apart(FAULT_SHORT, at), SAVED);
    (void)loaded_step();
}

static void every_call_is_the_last_one_in_turn(void **state)
{
    (void)state;
    every_call_of_a_save_goes_wrong_in_turn(FAULT_KILL_BEFORE);
    every_call_of_a_save_goes_wrong_in_turn(FAULT_KILL_AFTER);
}

/* Without a model before, there is none or the new one. */
static void the_first_save_leaves_a_model_or_none(void **state)
{
    (void)state;
    for (int at = 1; at < CALLS_MAX; at++) {
        fl_model_version *v = NULL;
        int result = save_apart(FAULT_KILL_BEFORE, at);

        if (result == SAVED)
            return;
        if (!fl_version_open(&v, model))
            assert_ok(fl_version_verify(v));
        fl_version_close(v);
        io_remove(model);
    }
    fail_msg("the save makes too many calls");
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(every_call_fails_in_turn),
        TEST(the_disk_is_full_from_every_call_on),
        TEST(every_write_is_short_in_turn),
        TEST(every_call_is_the_last_one_in_turn),
        TEST(the_first_save_leaves_a_model_or_none),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
