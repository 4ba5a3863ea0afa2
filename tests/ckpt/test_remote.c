/* test_remote.c - models at places that only a command can reach. The command
 * is a stub that loses, doubles, truncates and spoils what it copies; whatever
 * it does, the model out there is the old or the new one. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/file.h"
#include "base/log.h"
#include "ckpt/dense.h"
#include "ckpt/remote.h"

#define URL "stub://models/ctr"

/* A version is put and got back, then CURRENT is. */
enum { N_STEPS = 4 };

static const char *const faults[] = { "fail",   "lose", "truncate",
                                      "double", "flip", "part" };

static char root[64];

static void expect_ok(fl_status st)
{
    if (st)
        fail_msg("%s", fl_last_error());
}

static void expect_said(const char *part)
{
    if (!strstr(fl_last_error(), part))
        fail_msg("'%s' does not say '%s'", fl_last_error(), part);
}

static void shell(const char *fmt, ...)
{
    char command[512];
    va_list ap;

    va_start(ap, fmt);
    vsnprintf(command, sizeof(command), fmt, ap);
    va_end(ap);
    assert_int_equal(system(command), 0);
}

static int make_root(void **state)
{
    (void)state;
    snprintf(root, sizeof(root), "/tmp/flotilla_remote_XXXXXX");
    if (!mkdtemp(root))
        return -1;
    shell("mkdir %s/store", root);
    fl_log_set_level(FL_LOG_ERROR);
    return 0;
}

static int remove_root(void **state)
{
    (void)state;
    shell("rm -r %s", root);
    return 0;
}

/* Settings of one machine: `cache` is its folder. */
static fl_conf machine(const char *cache, const char *tries)
{
    char text[512];
    fl_conf c;

    expect_ok(fl_conf_init(&c));
    snprintf(text, sizeof(text), "%s %s/store put", REMOTE_STUB, root);
    expect_ok(fl_conf_set(&c, "fs_put", text));
    snprintf(text, sizeof(text), "%s %s/store get", REMOTE_STUB, root);
    expect_ok(fl_conf_set(&c, "fs_get", text));
    snprintf(text, sizeof(text), "%s/%s", root, cache);
    expect_ok(fl_conf_set(&c, "fs_cache", text));
    expect_ok(fl_conf_set(&c, "fs_tries", tries));
    return c;
}

/* What the stub does, call by call. */
static void plan(int at, const char *fault)
{
    shell("rm -f %s/store/faults; i=0; while [ $i -lt %d ]; do echo ok "
          ">>%s/store/faults; i=$((i+1)); done; echo %s >>%s/store/faults",
          root, at, root, fault, root);
}

static void save_here(const char *dir, float value, const char *base)
{
    float w[] = { value, value + 1 };
    int64_t n = 2;
    fl_named_tensor t = { "w", fl_tensor_of(FL_DTYPE_F32, w, 1, &n) };
    fl_model_version *v = NULL;
    fl_manifest m;

    expect_ok(fl_version_begin(&v, dir, &(fl_version_options){ .keep = 9 }));
    fl_manifest_init(&m, base ? FL_MANIFEST_DELTA : FL_MANIFEST_FULL);
    m.base = base;
    expect_ok(fl_dense_save(v, &m, FL_DENSE_FILE, &t, 1));
    expect_ok(fl_version_put(v, &m, "program.txt", "", 0));
    expect_ok(fl_version_commit(v, &m));
    fl_manifest_release(&m);
    fl_version_close(v);
}

static fl_status save_there(const fl_conf *c, float value)
{
    char *local = NULL;

    expect_ok(fl_remote_place(c, URL, &local));
    save_here(local, value, NULL);
    fl_free(local);
    return fl_remote_publish(c, URL);
}

static void expect_model(const char *path, float value)
{
    fl_model_version *v = NULL;
    fl_st_file *f = NULL;

    expect_ok(fl_version_open(&v, path));
    expect_ok(fl_version_verify(v));
    expect_ok(fl_version_map(v, FL_DENSE_FILE, &f));
    assert_true(*(const float *)fl_st_bytes(f, fl_st_at(f, 0)) == value);
    fl_st_close(f);
    fl_version_close(v);
}

/* Another machine loads the model. */
static void expect_there(const char *cache, float value)
{
    fl_conf c = machine(cache, "3");
    char *local = NULL;

    expect_ok(fl_remote_fetch(&c, URL, &local));
    expect_model(local, value);
    fl_free(local);
    fl_conf_release(&c);
}

static void a_path_without_a_scheme_stays_as_it_is(void **state)
{
    fl_conf c = machine("cache", "1");
    char *local = NULL;

    (void)state;
    assert_true(fl_remote_has_scheme("hdfs://a/b"));
    assert_true(fl_remote_has_scheme("s3://a"));
    assert_false(fl_remote_has_scheme("/hdfs://a"));
    assert_false(fl_remote_has_scheme("model"));
    assert_false(fl_remote_has_scheme("://x"));
    assert_false(fl_remote_has_scheme(""));
    expect_ok(fl_remote_place(&c, "model/x", &local));
    assert_string_equal(local, "model/x");
    fl_free(local);
    expect_ok(fl_remote_fetch(&c, "model/x", &local));
    assert_string_equal(local, "model/x");
    fl_free(local);
    expect_ok(fl_remote_publish(&c, "model/x"));
    local = NULL;
    assert_int_equal(fl_remote_place(&c, NULL, &local), FL_ERR_INVAL);
    assert_int_equal(fl_remote_fetch(&c, "", &local), FL_ERR_INVAL);
    expect_said("a model is a folder, and none was named");
    assert_null(local);
    fl_conf_release(&c);
}

static void what_was_saved_is_loaded_by_another_machine(void **state)
{
    fl_conf c = machine("a", "1");

    (void)state;
    expect_ok(save_there(&c, 1));
    expect_there("b", 1);
    expect_ok(save_there(&c, 2));
    expect_there("b", 2);
    expect_there("b", 2);
    fl_conf_release(&c);
}

/* With three tries each fault is made good, wherever it strikes. */
static void a_save_outlives_every_fault_of_the_command(void **state)
{
    fl_conf c = machine("a", "3");

    (void)state;
    for (size_t f = 0; f < FL_LEN(faults); f++)
        for (int at = 0; at < N_STEPS; at++) {
            float value = (float)(10 * f + (size_t)at);

            plan(at, faults[f]);
            if (save_there(&c, value))
                fail_msg("%s at step %d: %s", faults[f], at, fl_last_error());
            expect_there("b", value);
        }
    fl_conf_release(&c);
}

/* With one try the save fails, and the old model is what is out there. What
   went wrong on the way back alone is a failure, too: nobody knows. */
static void a_failed_save_leaves_the_old_model(void **state)
{
    fl_conf c = machine("a", "1");

    (void)state;
    plan(0, "ok");
    expect_ok(save_there(&c, 1));
    for (size_t f = 0; f < FL_LEN(faults); f++)
        for (int at = 0; at < N_STEPS - 2; at++) {
            plan(at, faults[f]);
            assert_int_not_equal(save_there(&c, 2), FL_OK);
            expect_said("sending the model to " URL " failed 1 time");
            plan(0, "ok");
            expect_there("b", 1);
        }
    fl_conf_release(&c);
}

static void a_load_outlives_every_fault_of_the_command(void **state)
{
    fl_conf c = machine("a", "1");
    char cache[32];

    (void)state;
    expect_ok(save_there(&c, 5));
    for (size_t f = 0; f < FL_LEN(faults); f++)
        for (int at = 0; at < 2; at++) {
            snprintf(cache, sizeof(cache), "b%zu%d", f, at);
            plan(at, faults[f]);
            expect_there(cache, 5);
        }
    fl_conf_release(&c);
}

static void a_load_that_fails_says_what_the_command_said(void **state)
{
    fl_conf c = machine("a", "2");
    char *local = NULL;

    (void)state;
    shell("printf 'fail\\nfail\\n' >%s/store/faults", root);
    assert_int_equal(fl_remote_fetch(&c, URL, &local), FL_ERR_IO);
    expect_said("asking for the version at " URL " failed 2 times");
    expect_said("ended with status 3 and said 'stub: the name node is in safe "
                "mode'");
    shell("printf 'lose\\nlose\\n' >%s/store/faults", root);
    assert_int_equal(fl_remote_fetch(&c, URL, &local), FL_ERR_IO);
    expect_said("said that it had copied " URL "/CURRENT");
    assert_null(local);
    fl_conf_release(&c);
}

static void a_delta_comes_with_what_it_is_based_on(void **state)
{
    fl_conf a = machine("a", "3"), b = machine("b", "3");
    fl_model_version *v = NULL, *base = NULL;
    char *local = NULL, id[FL_VERSION_ID_MAX];

    (void)state;
    plan(0, "truncate"); /* the base goes out under a second name */
    expect_ok(save_there(&a, 1));
    expect_ok(fl_remote_place(&a, URL, &local));
    expect_ok(fl_version_open(&v, local));
    snprintf(id, sizeof(id), "%s", v->id);
    fl_version_close(v);
    save_here(local, 2, id);
    fl_free(local);
    expect_ok(fl_remote_publish(&a, URL));
    expect_ok(fl_remote_fetch(&b, URL, &local));
    expect_ok(fl_version_open(&v, local));
    expect_ok(fl_version_open_base(&base, v));
    assert_string_equal(base->id, id);
    fl_version_close(base);
    fl_version_close(v);
    fl_free(local);
    fl_conf_release(&a);
    fl_conf_release(&b);
}

static void what_is_missing_among_the_settings_is_named(void **state)
{
    fl_conf c = machine("a", "1");
    char *local = NULL;

    (void)state;
    expect_ok(fl_conf_set(&c, "fs_get", ""));
    assert_int_equal(fl_remote_fetch(&c, URL, &local), FL_ERR_INVAL);
    expect_said("set fs_put and fs_get (fs_get is empty");
    fl_conf_release(&c);
}

static void a_cache_that_others_can_write_to_is_refused(void **state)
{
    fl_conf c = machine("open", "1");
    char *local = NULL;

    (void)state;
    shell("mkdir %s/open && chmod 777 %s/open", root, root);
    assert_int_equal(fl_remote_place(&c, URL, &local), FL_ERR_IO);
    expect_said("is no folder that belongs to this user alone");
    fl_conf_release(&c);
}

#define IN_ROOT(test)                                                          \
    cmocka_unit_test_setup_teardown(test, make_root, remove_root)

int main(void)
{
    const struct CMUnitTest tests[] = {
        IN_ROOT(a_path_without_a_scheme_stays_as_it_is),
        IN_ROOT(what_was_saved_is_loaded_by_another_machine),
        IN_ROOT(a_save_outlives_every_fault_of_the_command),
        IN_ROOT(a_failed_save_leaves_the_old_model),
        IN_ROOT(a_load_outlives_every_fault_of_the_command),
        IN_ROOT(a_load_that_fails_says_what_the_command_said),
        IN_ROOT(a_delta_comes_with_what_it_is_based_on),
        IN_ROOT(what_is_missing_among_the_settings_is_named),
        IN_ROOT(a_cache_that_others_can_write_to_is_refused),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
