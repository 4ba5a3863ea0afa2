/* test_io_faults.c - every file call of a save goes wrong in turn, in a process
 * of its own: afterwards the old or the new model verifies and can be used, the
 * save said which, and the next one leaves nothing of it behind. So for models
 * that training goes on from, and for those that predict. */
#include "io_kit.h"

#include <dirent.h>
#include <sys/wait.h>

#include "../sys_faults.h"
#include "../folder.h"
#include "ckpt/version.h"
#include "ctx/ctx.h"
#include "flotilla/io.h"
#include "flotilla/predict.h"

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

/* Two rows of a table, and a weight that they are multiplied with. */
static void build(void)
{
    fl_table *t;

    assert_ok(fl_ctx_new(&ctx));
    assert_ok(fl_executor_new(&exe, ctx));
    assert_ok(fl_program_add(fl_default_main_program(ctx),
                             "var ids : i64[-1,1] data\n"
                             "param w : f32[3] init=constant(1) trainable\n"
                             "param emb : f32[-1,3] table trainable\n"
                             "op lookup_table (W=emb, Ids=ids) -> (Out=rows) "
                             "{is_sparse=true, is_distributed=true}\n"
                             "op elementwise_mul (X=rows, Y=w) -> "
                             "(Out=score)\n"));
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

/* --- kinds of models ------------------------------------------------------ */

typedef struct model_kind {
    fl_status (*save)(void);
    void (*use)(void);
} model_kind;

static const model_kind *now;

static fl_status save_all(void)
{
    return fl_save_persistables(exe, model, NULL);
}

static void load_all(void)
{
    assert_ok(fl_load_persistables(exe, model, NULL));
}

static fl_status save_scores(void)
{
    const char *feed = "ids", *target = "score";

    return fl_save_inference_model(exe, model, .feeds = &feed, .n_feeds = 1,
                                   .targets = &target, .n_targets = 1);
}

static void score(void)
{
    static const int64_t ids[] = { 9, 7 };
    fl_feed feed = { "ids",
                     fl_tensor_of(FL_DTYPE_I64, ids, 2, (int64_t[]){ 2, 1 }) };
    fl_predictor *p;
    fl_model *m;
    fl_tensor t;

    assert_ok(fl_model_open(&m, model));
    assert_ok(fl_predictor_new(&p, m));
    assert_ok(fl_predictor_run(p, &feed, 1, &t, 1));
    assert_memory_equal(t.data, ((float[]){ 4, 5, 6, 1, 2, 3 }),
                        6 * sizeof(float));
    fl_predictor_free(p);
    fl_model_close(m);
}

static const model_kind kinds[] = { { save_all, load_all },
                                    { save_scores, score } };

static void for_every_kind(void (*test)(void))
{
    for (size_t i = 0; i < sizeof(kinds) / sizeof(kinds[0]); i++) {
        now = &kinds[i];
        test();
        io_remove(model);
    }
}

/* --- saves that go wrong -------------------------------------------------- */

/* In a process of its own. */
static int save_apart(fault_kind kind, int at)
{
    pid_t pid = fork();
    int status;

    assert_true(pid >= 0);
    if (!pid) {
        fl_status st;

        faults_begin(kind, at);
        st = now->save();
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

/* What is there verifies and can be used; gives its step. */
static uint64_t used_step(void)
{
    fl_model_version *v = NULL;
    uint64_t step;

    assert_ok(fl_version_open(&v, model));
    assert_ok(fl_version_verify(v));
    step = v->manifest.step;
    fl_version_close(v);
    now->use();
    return step;
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
    assert_ok(now->save());
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
    assert_ok(now->save());
    set_step(2);
    result = save_apart(kind, at);
    step = used_step();
    if (result == SAVED || result == SAVED_UNSURE)
        assert_int_equal(step, 2);
    else if (result == NOT_SAVED)
        assert_int_equal(step, 1);
    else
        assert_in_range(step, 1, 2);
    set_step(3);
    assert_ok(now->save());
    assert_int_equal(used_step(), 3);
    assert_int_equal(count_entries(), 2); /* CURRENT and one version */
}

static void every_call_of_a_save_goes_wrong_in_turn(fault_kind kind)
{
    int n;

    assert_ok(now->save());
    n = count_calls();
    for (int at = 1; at <= n; at++)
        one_goes_wrong(kind, at);
}

static void fail_in_turn(void)
{
    every_call_of_a_save_goes_wrong_in_turn(FAULT_FAIL);
}

static void every_call_fails_in_turn(void **state)
{
    (void)state;
    for_every_kind(fail_in_turn);
}

static void fill_the_disk_in_turn(void)
{
    every_call_of_a_save_goes_wrong_in_turn(FAULT_FAIL_ALWAYS);
}

static void the_disk_is_full_from_every_call_on(void **state)
{
    (void)state;
    for_every_kind(fill_the_disk_in_turn);
}

static void be_short_in_turn(void)
{
    int n;

    assert_ok(now->save());
    n = count_calls();
    for (int at = 1; at <= n; at++)
        assert_int_equal(save_apart(FAULT_SHORT, at), SAVED);
    (void)used_step();
}

static void every_write_is_short_in_turn(void **state)
{
    (void)state;
    for_every_kind(be_short_in_turn);
}

static void die_in_turn(void)
{
    every_call_of_a_save_goes_wrong_in_turn(FAULT_KILL_BEFORE);
    every_call_of_a_save_goes_wrong_in_turn(FAULT_KILL_AFTER);
}

static void every_call_is_the_last_one_in_turn(void **state)
{
    (void)state;
    for_every_kind(die_in_turn);
}

static void die_in_the_first_save(void)
{
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

/* Without a model before, there is none or the new one. */
static void the_first_save_leaves_a_model_or_none(void **state)
{
    (void)state;
    for_every_kind(die_in_the_first_save);
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
