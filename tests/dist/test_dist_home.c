/* test_dist_home.c - a model of one machine starts a job, and comes home again:
 * every variable has the bits that it had, arrays that were tables meanwhile
 * included. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "ckpt/version.h"
#include "dist_kit.h"
#include "flotilla/io.h"
#include "../folder.h"

#define STEPS 5
#define SERVERS_MAX 3

static char folder[FOLDER_BYTES];

static int make_folder(void **state)
{
    (void)state;
    return folder_make(folder, "home") ? 0 : -1;
}

static int remove_folder(void **state)
{
    char command[128];

    (void)state;
    snprintf(command, sizeof(command), "rm -rf %s", folder);
    return system(command);
}

static char *path_of(const char *name)
{
    char *path = malloc(128);

    assert_non_null(path);
    snprintf(path, 128, "%s/%s", folder, name);
    return path;
}

/* --- one machine ---------------------------------------------------------- */

/* Loads a model, unless there is none, trains, and saves. */
static void live_alone(const kit_job *j, const char *from, int n_steps,
                       const char *to)
{
    fl_executor *exe;
    fl_ctx *c;

    assert_ok(fl_ctx_new(&c));
    assert_ok(fl_executor_new(&exe, c));
    assert_non_null(kit_build(c, j));
    assert_ok(fl_run(exe, fl_default_startup_program(c), NULL));
    if (from)
        assert_ok(fl_load_persistables(exe, from, NULL));
    for (int step = 0; step < n_steps; step++) {
        kit_batch *b = kit_batch_make(j, 0, 1, step);
        fl_run_args args = FL_INIT(fl_run_args, .feeds = kit_batch_feeds(b),
                                   .n_feeds = KIT_FEEDS);

        assert_ok(fl_run(exe, fl_default_main_program(c), &args));
        kit_batch_free(b);
    }
    assert_ok(fl_save_persistables(exe, to, NULL));
    fl_executor_free(exe);
    fl_ctx_free(c);
}

/* --- a job ---------------------------------------------------------------- */

static fl_status save(kit_trainer *t, void *arg)
{
    return t->rank ? FL_OK : fl_job_save(fl_transpiler_job(t->transpiler), arg);
}

static void pass_through_job(kit_job j, int n_servers, char *from, char *to)
{
    kit_text texts[KIT_MEMBERS] = { 0 };
    kit_end end;

    memset(&end, 0, sizeof(end));
    j.n_servers = n_servers;
    j.n_trainers = 2;
    j.model = from;
    kit_run(&j, save, to, &end, texts);
    for (int i = 0; i < KIT_MEMBERS; i++)
        if (texts[i][0])
            fail_msg("member %d: %s", i, texts[i]);
}

/* --- comparing ------------------------------------------------------------ */

static void expect_same(const char *a, const char *b)
{
    fl_model_version *x, *y;
    fl_st_file *f, *g;
    const fl_st_tensor *t;

    assert_ok(fl_version_open(&x, a));
    assert_ok(fl_version_open(&y, b));
    assert_int_equal(x->manifest.step, y->manifest.step);
    assert_ok(fl_version_map(x, "dense.safetensors", &f));
    assert_ok(fl_version_map(y, "dense.safetensors", &g));
    for (size_t i = 0; (t = fl_st_at(f, i)); i++) {
        const fl_st_tensor *u = fl_st_find(g, t->name);

        if (!u || u->bytes != t->bytes ||
            memcmp(fl_st_bytes(f, t), fl_st_bytes(g, u), t->bytes) != 0)
            fail_msg("variable %s is not what it was", t->name);
    }
    fl_st_close(f);
    fl_st_close(g);
    fl_version_close(x);
    fl_version_close(y);
}

/* --- tests ---------------------------------------------------------------- */

static void a_model_of_one_machine_comes_home_from_a_job(void **state)
{
    static const char *const optimizers[] = { "sgd", "adagrad", "adam",
                                              "momentum" };

    (void)state;
    for (size_t i = 0; i < sizeof(optimizers) / sizeof(*optimizers); i++)
        for (int n = 1; n <= SERVERS_MAX; n++) {
            kit_job j = { .optimizer = optimizers[i],
                          .words = strcmp(optimizers[i], "momentum")
                                       ? "learning_rate=0.05"
                                       : "learning_rate=0.05 momentum=0.9",
                          .settings = { { "min_block_size", "16" } } };
            char name[64];
            char *out, *away, *home;

            snprintf(name, sizeof(name), "%s%d", optimizers[i], n);
            out = path_of(name);
            away = path_of(strcat(name, "away"));
            home = path_of(strcat(name, "home"));
            live_alone(&j, NULL, STEPS, out);
            pass_through_job(j, n, out, away);
            live_alone(&j, away, 0, home);
            expect_same(out, home);
            free(out);
            free(away);
            free(home);
        }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_model_of_one_machine_comes_home_from_a_job),
    };

    return cmocka_run_group_tests(tests, make_folder, remove_folder);
}
