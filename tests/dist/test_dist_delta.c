/* test_dist_delta.c - a job that saves what changed, and jobs that begin with
 * such a chain: in every mode, on any number of servers. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "ckpt/version.h"
#include "dist_kit.h"
#include "mode_list.h"
#include "../folder.h"

#define HOUR 2 /* steps */
#define HOURS 3
#define SERVERS_MAX 3
#define NEVER_MS "31536000000" /* changes are logged, nothing comes by itself */

static char folder[FOLDER_BYTES];

static int make_folder(void **state)
{
    (void)state;
    return folder_make(folder, "delta") ? 0 : -1;
}

static int remove_folder(void **state)
{
    char command[128];

    (void)state;
    snprintf(command, sizeof(command), "rm -rf %s", folder);
    return system(command);
}

typedef char path[96];

static void new_dir(path out)
{
    static int n;

    snprintf(out, sizeof(path), "%s/%d", folder, n++);
}

/* --- versions ------------------------------------------------------------- */

static fl_model_version *newest(const char *dir)
{
    fl_model_version *v = NULL;

    assert_ok(fl_version_open(&v, dir));
    assert_ok(fl_version_verify(v));
    return v;
}

/* How many deltas stand on a whole version. */
static int chain_len(const char *dir)
{
    fl_model_version *v = newest(dir), *base;
    int n = 0;

    for (; v->manifest.kind == FL_MANIFEST_DELTA; n++) {
        assert_ok(fl_version_open_base(&base, v));
        fl_version_close(v);
        v = base;
    }
    assert_int_equal(v->manifest.kind, FL_MANIFEST_FULL);
    fl_version_close(v);
    return n;
}

/* --- hours ---------------------------------------------------------------- */

/* Steps from `from` on, in hours; behind each of them trainer 0 saves what
   changed, and at the end everything. */
typedef struct hours {
    int from, n;
    const char *deltas, *whole; /* NULL: not */
    fl_job_saved saved[HOURS];
} hours;

static fl_status save_delta(const kit_trainer *t, const char *dir,
                            fl_job_saved *saved)
{
    *saved = (fl_job_saved)FL_INIT(fl_job_saved);
    return fl_job_save_with(fl_transpiler_job(t->transpiler), dir,
                            FL_OPTIONS(fl_job_save_args, .delta = true), saved);
}

/* Nobody trains meanwhile. */
static fl_status save_hour(kit_trainer *t, hours *h, int hour)
{
    fl_job *j = fl_transpiler_job(t->transpiler);

    FL_TRY(fl_job_barrier(j));
    if (!t->rank && h->deltas)
        FL_TRY(save_delta(t, h->deltas, &h->saved[hour]));
    if (!t->rank && h->whole && hour + 1 == h->n)
        FL_TRY(fl_job_save(j, h->whole));
    return fl_job_barrier(j);
}

static fl_status train_hours(kit_trainer *t, void *arg)
{
    hours *h = arg;

    for (int hour = 0; hour < h->n; hour++) {
        for (int i = 0; i < HOUR; i++)
            FL_TRY(kit_step(t, h->from + hour * HOUR + i));
        FL_TRY(save_hour(t, h, hour));
    }
    return FL_OK;
}

static void live(const kit_job *j, hours *h, kit_end *out)
{
    kit_text texts[KIT_MEMBERS] = { 0 };
    kit_end end;

    memset(&end, 0, sizeof(end));
    kit_run(j, train_hours, h, &end, texts);
    for (int i = 0; i < KIT_MEMBERS; i++)
        if (texts[i][0])
            fail_msg("member %d: %s", i, texts[i]);
    if (out)
        *out = end;
}

static const kit_job sync_job = { .mode = "sync",
                                  .n_servers = 2,
                                  .n_trainers = 2,
                                  .optimizer = "adam",
                                  .words = "learning_rate=0.05",
                                  .settings = { { "min_block_size", "16" } } };

/* --- tests ---------------------------------------------------------------- */

/* In mode geo trainers exchange once more before the second save. */
static void every_mode_makes_chains_that_are_what_the_job_has(void **state)
{
    (void)state;
    for (size_t i = 0; mode_name(i); i++) {
        kit_job j = { .mode = mode_name(i), .n_servers = 2, .n_trainers = 2 };
        kit_model chain, whole;
        path deltas, all;
        hours h = { .n = HOURS, .deltas = deltas, .whole = all };

        new_dir(deltas);
        new_dir(all);
        live(&j, &h, NULL);
        assert_int_equal(chain_len(deltas), HOURS - 1);
        kit_begin_with(j, strcmp(j.mode, "geo") ? all : deltas, "sync", 1,
                       &whole);
        for (size_t k = 0; mode_name(k); k++) {
            kit_begin_with(j, deltas, mode_name(k), 1 + (int)(k % SERVERS_MAX),
                           &chain);
            assert_memory_equal(&chain, &whole, sizeof(whole));
        }
    }
}

static void the_first_delta_is_a_whole_save_and_says_so(void **state)
{
    path deltas;
    hours h = { .n = HOURS, .deltas = deltas };

    (void)state;
    new_dir(deltas);
    live(&sync_job, &h, NULL);
    assert_string_equal(h.saved[0].base, "");
    assert_string_equal(h.saved[0].whole, "server 0: there is no version yet");
    for (int i = 1; i < HOURS; i++) {
        assert_string_equal(h.saved[i].base, h.saved[i - 1].version);
        assert_string_equal(h.saved[i].whole, "");
        assert_int_equal(h.saved[i].step, HOUR * (i + 1));
    }
}

static void training_goes_on_from_a_chain_bit_by_bit(void **state)
{
    path deltas;
    kit_end whole;
    hours h = { .n = HOURS, .deltas = deltas };

    (void)state;
    new_dir(deltas);
    live(&sync_job, &(hours){ .n = HOURS + 1 }, &whole);
    live(&sync_job, &h, NULL);
    for (int s = 1; s <= SERVERS_MAX; s++) {
        hours next = { .from = HOURS * HOUR, .n = 1 };
        kit_job j = sync_job;
        kit_end end;

        j.n_servers = s;
        j.model = deltas;
        live(&j, &next, &end);
        assert_memory_equal(&end.model, &whole.model, sizeof(whole.model));
        assert_int_equal(end.step, whole.step);
    }
}

/* Where deltas are made at all. */
static void servers_go_on_with_the_chain_that_they_loaded(void **state)
{
    path deltas;
    kit_end whole;
    kit_model loaded;
    hours first = { .n = 2, .deltas = deltas };
    hours second = { .from = 2 * HOUR, .n = 1, .deltas = deltas };
    kit_job j = sync_job;

    (void)state;
    new_dir(deltas);
    live(&sync_job, &(hours){ .n = 3 }, &whole);
    live(&sync_job, &first, NULL);
    j.model = deltas;
    j.n_servers = 3;
    j.settings[1] = (kit_setting){ "save_delta_every_ms", NEVER_MS };
    live(&j, &second, NULL);
    assert_string_equal(second.saved[0].base, first.saved[1].version);
    assert_int_equal(chain_len(deltas), 2);
    kit_begin_with(sync_job, deltas, "sync", 2, &loaded);
    assert_memory_equal(&loaded, &whole.model, sizeof(loaded));
}

static void servers_that_do_not_log_begin_with_a_whole_save(void **state)
{
    path deltas;
    hours first = { .n = 1, .deltas = deltas };
    hours second = { .from = HOUR, .n = 1, .deltas = deltas };
    kit_job j = sync_job;

    (void)state;
    new_dir(deltas);
    live(&sync_job, &first, NULL);
    j.model = deltas;
    live(&j, &second, NULL);
    assert_non_null(
        strstr(second.saved[0].whole,
               "nothing was saved yet that a delta could be based"));
    assert_int_equal(chain_len(deltas), 0);
}

static void a_missing_link_is_named(void **state)
{
    path deltas;
    hours h = { .n = HOURS, .deltas = deltas };
    kit_job j = sync_job;
    kit_text texts[KIT_MEMBERS] = { 0 };
    char command[256];
    kit_end end;

    (void)state;
    new_dir(deltas);
    live(&sync_job, &h, NULL);
    snprintf(command, sizeof(command), "rm -r %s/%s", deltas,
             h.saved[1].version);
    assert_int_equal(system(command), 0);
    j.model = deltas;
    /* Trainers look for servers that have ended. */
    j.settings[1] = (kit_setting){ "connect_timeout_ms", "3000" };
    memset(&end, 0, sizeof(end));
    kit_run(&j, train_hours, &h, &end, texts);
    assert_non_null(strstr(texts[0], "is a delta, and its base is needed"));
    assert_non_null(strstr(texts[0], h.saved[1].version));
}

/* --- by time -------------------------------------------------------------- */

static fl_status train_until_delta(kit_trainer *t, void *arg)
{
    const char *dir = arg;
    fl_model_version *v;
    bool is_there = false;

    for (int step = 0; !is_there; step++) {
        FL_TRY(kit_step(t, step % 50));
        if (fl_version_open(&v, dir))
            continue;
        is_there = v->manifest.kind == FL_MANIFEST_DELTA;
        fl_version_close(v);
    }
    return FL_OK;
}

static void every_mode_makes_deltas_by_itself_while_it_trains(void **state)
{
    (void)state;
    for (size_t i = 0; mode_name(i); i++) {
        path dir;
        kit_job j = { .mode = mode_name(i),
                      .n_servers = 2,
                      .n_trainers = 2,
                      .settings = { { "save_dir", dir },
                                    { "save_delta_every_ms", "10" } } };
        kit_text texts[KIT_MEMBERS] = { 0 };
        kit_model model;
        kit_end end;

        new_dir(dir);
        memset(&end, 0, sizeof(end));
        kit_run(&j, train_until_delta, dir, &end, texts);
        for (int k = 0; k < KIT_MEMBERS; k++)
            assert_string_equal(texts[k], "");
        assert_true(chain_len(dir) > 0);
        kit_begin_with(j, dir, "sync", 1, &model);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_mode_makes_chains_that_are_what_the_job_has),
        cmocka_unit_test(the_first_delta_is_a_whole_save_and_says_so),
        cmocka_unit_test(training_goes_on_from_a_chain_bit_by_bit),
        cmocka_unit_test(servers_go_on_with_the_chain_that_they_loaded),
        cmocka_unit_test(servers_that_do_not_log_begin_with_a_whole_save),
        cmocka_unit_test(a_missing_link_is_named),
        cmocka_unit_test(every_mode_makes_deltas_by_itself_while_it_trains),
    };

    return cmocka_run_group_tests(tests, make_folder, remove_folder);
}
