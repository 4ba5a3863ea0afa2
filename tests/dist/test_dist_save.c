/* test_dist_save.c - a job that is saved, and one that begins with what was
 * saved: in every mode, on any number of servers. */
#include <dirent.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/thread.h"
#include "ckpt/version.h"
#include "dist_kit.h"
#include "flotilla/experimental/scan.h"
#include "mode_list.h"
#include "../folder.h"

#define DAY 4 /* steps */
#define SERVERS_MAX 3

static char folder[FOLDER_BYTES];

static int make_folder(void **state)
{
    (void)state;
    return folder_make(folder, "save") ? 0 : -1;
}

static int remove_folder(void **state)
{
    char command[128];

    (void)state;
    snprintf(command, sizeof(command), "rm -rf %s", folder);
    return system(command);
}

static const char *new_dir(void)
{
    static char dir[64];
    static int n;

    snprintf(dir, sizeof(dir), "%s/%d", folder, n++);
    return dir;
}

static void check_texts(kit_text texts[KIT_MEMBERS])
{
    for (int i = 0; i < KIT_MEMBERS; i++)
        if (texts[i][0])
            fail_msg("member %d: %s", i, texts[i]);
}

/* --- days ----------------------------------------------------------------- */

/* Steps [from, to) of a trainer; then some of them save. */
typedef struct day {
    int from, to;
    const char *save; /* by trainer 0, or NULL */
    bool all_save;    /* all trainers ask for it */
    bool meets;       /* all are done before that */
    int save_after;   /* after this step, and training goes on; 0: at the end */
} day;

static fl_status save(const kit_trainer *t, const day *d)
{
    if (d->meets)
        FL_TRY(fl_job_barrier(fl_transpiler_job(t->transpiler)));
    if (!d->save || (t->rank && !d->all_save))
        return FL_OK;
    return fl_job_save(fl_transpiler_job(t->transpiler), d->save);
}

static fl_status train_day(kit_trainer *t, void *arg)
{
    const day *d = arg;
    fl_status st = FL_OK;

    for (int step = d->from; step < d->to && !st; step++) {
        st = kit_step(t, step);
        if (!st && d->save_after && step + 1 == d->save_after)
            st = save(t, d);
    }
    return st || d->save_after ? st : save(t, d);
}

static void live_day(const kit_job *j, const day *d, kit_end *out)
{
    kit_text texts[KIT_MEMBERS] = { 0 };
    kit_end end;

    memset(&end, 0, sizeof(end));
    kit_run(j, train_day, (void *)(uintptr_t)d, out ? out : &end, texts);
    check_texts(texts);
}

static const kit_job sync_job = { .mode = "sync",
                                  .n_trainers = 2,
                                  .optimizer = "adam",
                                  .words = "learning_rate=0.05",
                                  .settings = { { "min_block_size", "16" } } };

/* --- tests ---------------------------------------------------------------- */

static void day_two_goes_on_bit_by_bit_on_any_number_of_servers(void **state)
{
    kit_end whole;
    kit_job j = sync_job;

    (void)state;
    j.n_servers = 2;
    live_day(&j, &(day){ .from = 0, .to = 2 * DAY }, &whole);
    for (int s = 1; s <= SERVERS_MAX; s++) {
        const char *dir = new_dir();

        j.n_servers = s;
        j.model = NULL;
        live_day(&j, &(day){ .from = 0, .to = DAY, .save = dir }, NULL);
        for (int s2 = 1; s2 <= SERVERS_MAX; s2++) {
            kit_end second;

            j.n_servers = s2;
            j.model = dir;
            live_day(&j, &(day){ .from = DAY, .to = 2 * DAY }, &second);
            assert_memory_equal(&second.model, &whole.model,
                                sizeof(whole.model));
            assert_int_equal(second.step, whole.step);
        }
    }
}

/* Trainer 1 is in the next round, or before it, while trainer 0 saves. */
static void a_save_in_the_midst_does_not_change_what_is_trained(void **state)
{
    kit_end whole, disturbed, second;
    const char *dir = new_dir();
    kit_job j = sync_job;

    (void)state;
    j.n_servers = 2;
    live_day(&j, &(day){ .from = 0, .to = 2 * DAY }, &whole);
    live_day(&j,
             &(day){ .from = 0, .to = 2 * DAY, .save = dir, .save_after = DAY },
             &disturbed);
    assert_memory_equal(&disturbed.model, &whole.model, sizeof(whole.model));
    assert_int_equal(disturbed.hash, whole.hash);
    j.model = dir;
    live_day(&j, &(day){ .from = DAY, .to = 2 * DAY }, &second);
    assert_memory_equal(&second.model, &whole.model, sizeof(whole.model));
}

static void all_trainers_may_ask_for_one_save(void **state)
{
    const char *dir = new_dir();
    kit_job j = sync_job;
    fl_model_version *v;

    (void)state;
    j.n_servers = 2;
    live_day(&j, &(day){ .from = 0, .to = DAY, .save = dir, .all_save = true },
             NULL);
    assert_ok(fl_version_open(&v, dir));
    assert_ok(fl_version_verify(v));
    assert_int_equal(v->manifest.step, DAY);
    assert_string_equal(v->manifest.mode, "sync");
    fl_version_close(v);
}

/* What one mode has saved another begins with. In mode geo a trainer that leaves
   still brings some of its differences. */
static void every_mode_begins_with_what_any_mode_has_saved(void **state)
{
    (void)state;
    for (size_t i = 0; mode_name(i); i++) {
        kit_job j = { .mode = mode_name(i), .n_servers = 2, .n_trainers = 2 };
        const char *dir = new_dir();
        kit_model saved, model;
        kit_end first;

        live_day(&j, &(day){ .to = DAY, .save = dir, .meets = true }, &first);
        kit_begin_with(j, dir, "sync", 1, &saved);
        if (strcmp(j.mode, "geo"))
            assert_memory_equal(&saved, &first.model, sizeof(saved));
        for (size_t k = 0; mode_name(k); k++) {
            kit_begin_with(j, dir, mode_name(k), 1 + (int)(k % SERVERS_MAX),
                           &model);
            assert_memory_equal(&model, &saved, sizeof(saved));
        }
    }
}

/* --- saves from outside --------------------------------------------------- */

/* Trainers train until a version is there that somebody else has asked for. */
static fl_status train_until_saved(kit_trainer *t, void *arg)
{
    const char *dir = arg;
    fl_model_version *v;
    fl_status st = FL_OK;

    for (int step = 0; !st; step++) {
        st = kit_step(t, step % 50);
        if (!fl_version_open(&v, dir)) {
            fl_version_close(v);
            break;
        }
    }
    return st;
}

static void every_mode_saves_itself_by_steps_while_it_trains(void **state)
{
    (void)state;
    for (size_t i = 0; mode_name(i); i++) {
        const char *dir = new_dir();
        kit_job j = { .mode = mode_name(i),
                      .n_servers = 2,
                      .n_trainers = 2,
                      .settings = { { "save_dir", dir },
                                    { "save_every_steps", "5" } } };
        kit_text texts[KIT_MEMBERS] = { 0 };
        kit_end end;
        fl_model_version *v;

        memset(&end, 0, sizeof(end));
        kit_run(&j, train_until_saved, (void *)(uintptr_t)dir, &end, texts);
        check_texts(texts);
        assert_ok(fl_version_open(&v, dir));
        assert_ok(fl_version_verify(v));
        assert_true(v->manifest.step >= 5);
        fl_version_close(v);
    }
}

/* --- pace ----------------------------------------------------------------- */

static bool has_begun(const char *dir)
{
    DIR *d = opendir(dir);
    struct dirent *e;
    bool has = false;

    while (d && (e = readdir(d)))
        has |= strchr(e->d_name, '-') != NULL;
    if (d)
        closedir(d);
    return has;
}

/* Until a version was begun, which takes for ever, and DAY steps more. */
static fl_status train_beside_a_save(kit_trainer *t, void *arg)
{
    const char *dir = arg;
    fl_status st = FL_OK;

    for (int step = 0; !st && !has_begun(dir); step++)
        st = kit_step(t, step % 50);
    for (int step = 0; !st && step < DAY; step++)
        st = kit_step(t, step);
    return st;
}

/* A byte a second: the job trains on, ends, and waits for no byte. */
static void a_pace_holds_up_the_writing_and_nobody_else(void **state)
{
    const char *dir = new_dir();
    kit_job j = { .mode = "async",
                  .n_servers = 2,
                  .n_trainers = 2,
                  .settings = { { "save_dir", dir },
                                { "save_every_steps", "1" },
                                { "save_mb_per_s", "0.000001" } } };
    kit_text texts[KIT_MEMBERS] = { 0 };
    fl_model_version *v;
    kit_end end;

    (void)state;
    memset(&end, 0, sizeof(end));
    kit_run(&j, train_beside_a_save, (void *)(uintptr_t)dir, &end, texts);
    check_texts(texts);
    assert_int_equal(fl_version_open(&v, dir), FL_ERR_NOTFOUND);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(day_two_goes_on_bit_by_bit_on_any_number_of_servers),
        cmocka_unit_test(a_save_in_the_midst_does_not_change_what_is_trained),
        cmocka_unit_test(all_trainers_may_ask_for_one_save),
        cmocka_unit_test(every_mode_begins_with_what_any_mode_has_saved),
        cmocka_unit_test(every_mode_saves_itself_by_steps_while_it_trains),
        cmocka_unit_test(a_pace_holds_up_the_writing_and_nobody_else),
    };

    return cmocka_run_group_tests(tests, make_folder, remove_folder);
}
