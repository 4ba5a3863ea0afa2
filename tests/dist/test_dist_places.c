/* test_dist_places.c - jobs whose servers do not share the folder of a save, and
 * jobs that save to places which only a command reaches.
 *
 * Where no folder can be hidden from a process the tests of the former are
 * skipped.
 */
#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "ckpt/version.h"
#include "dist_procs.h"
#include "flotilla/io.h"
#include "../folder.h"

#define HANGS_S 120
#define STEPS 3

static char folder[FOLDER_BYTES];
static char shared[64], cache[64], copier[256];

static int make_folder(void **state)
{
    (void)state;
    if (!folder_make(folder, "places"))
        return -1;
    snprintf(shared, sizeof(shared), "%s/shared", folder);
    snprintf(cache, sizeof(cache), "%s/cache", folder);
    return mkdir(shared, 0755);
}

static int remove_folder(void **state)
{
    char command[128];

    (void)state;
    snprintf(command, sizeof(command), "rm -rf %s", folder);
    return system(command);
}

/* --- jobs ----------------------------------------------------------------- */

/* Server 1 is on another host, as far as that folder goes. */
static void move_server_1(const procs *p, int member)
{
    (void)p;
    if (member == 1 && !procs_hide(shared))
        _exit(9);
}

/* What trainer 0 saves to, and what it is told; NULL: that it is saved. */
typedef struct plan {
    const char *dir, *says[4];
} plan;

static fl_status train(kit_trainer *t)
{
    for (int step = 0; step < STEPS; step++)
        FL_TRY(kit_step(t, step));
    return fl_job_barrier(fl_transpiler_job(t->transpiler));
}

static fl_status check_said(const plan *p, fl_status st)
{
    if (!p->says[0])
        return st;
    if (!st)
        FL_FAIL(FL_ERR_INVAL, "the save was not refused");
    for (int i = 0; i < 4 && p->says[i]; i++)
        if (!strstr(fl_last_error(), p->says[i]))
            FL_FAIL(FL_ERR_INVAL, "'%s' is not in '%s'", p->says[i],
                    fl_last_error());
    return FL_OK;
}

/* The job goes on whatever becomes of the save. */
static fl_status train_and_save(kit_trainer *t, void *arg)
{
    const plan *p = arg;

    FL_TRY(train(t));
    if (!t->rank)
        FL_TRY(check_said(
            p, fl_job_save(fl_transpiler_job(t->transpiler), p->dir)));
    return train(t);
}

static procs new_job(plan *p)
{
    procs j = { .kit = { .mode = "sync",
                         .n_servers = 2,
                         .n_trainers = 2,
                         .optimizer = "adam",
                         .words = "learning_rate=0.05",
                         .settings = { { "min_block_size", "16" } } },
                .work = train_and_save,
                .arg = p };

    procs_set(&j, "fs_cache", cache);
    return j;
}

/* What the same job saves where all servers see it. */
static void expect_like_shared(const procs *like, const char *dir)
{
    char other[96];
    plan p = { .dir = other };
    procs j = *like;
    kit_model here, there;

    snprintf(other, sizeof(other), "%s/other", folder);
    j.first = NULL;
    j.arg = &p;
    procs_start(&j);
    procs_end(&j);
    kit_begin_with(like->kit, other, like->kit.mode, 2, &here);
    kit_begin_with(like->kit, dir, like->kit.mode, 3, &there);
    assert_memory_equal(&here, &there, sizeof(here));
}

static int count_versions(const char *path)
{
    DIR *d = opendir(path);
    struct dirent *e;
    int n = 0;

    while (d && (e = readdir(d)))
        n += strchr(e->d_name, '-') != NULL;
    if (d)
        closedir(d);
    return n;
}

/* Neither does the cache have a part that was sent. */
static void expect_no_parts(void)
{
    DIR *d = opendir(cache);
    struct dirent *e;
    char path[512];

    assert_non_null(d);
    while ((e = readdir(d))) {
        snprintf(path, sizeof(path), "%s/%s", cache, e->d_name);
        if (e->d_name[0] != '.')
            assert_int_equal(count_versions(path), 0);
    }
    closedir(d);
}

/* --- storage that servers do not share ------------------------------------- */

static void a_server_with_other_storage_is_named(void **state)
{
    char dir[96], host[256] = "";
    plan *p = procs_share(sizeof(*p));
    procs j = new_job(p);

    (void)state;
    if (!procs_can_hide(shared))
        skip();
    alarm(HANGS_S);
    (void)gethostname(host, sizeof(host) - 1);
    snprintf(dir, sizeof(dir), "%s/refused", shared);
    *p = (plan){ .dir = dir,
                 .says = { "server 1: ", host, "does not see",
                           "save_gather=true" } };
    j.first = move_server_1;
    procs_start(&j);
    procs_end(&j);
    assert_int_equal(count_versions(dir), 0);
    alarm(0);
}

static void parts_are_sent_to_server_0_when_asked_for(void **state)
{
    char dir[96];
    plan *p = procs_share(sizeof(*p));
    procs j = new_job(p);
    fl_model_version *v;

    (void)state;
    if (!procs_can_hide(shared))
        skip();
    alarm(HANGS_S);
    snprintf(dir, sizeof(dir), "%s/gathered", shared);
    *p = (plan){ .dir = dir };
    j.first = move_server_1;
    procs_set(&j, "save_gather", "true");
    procs_start(&j);
    procs_end(&j);
    assert_ok(fl_version_open(&v, dir));
    assert_ok(fl_version_verify(v));
    fl_version_close(v);
    expect_no_parts();
    expect_like_shared(&j, dir);
    alarm(0);
}

/* --- places that a command reaches ----------------------------------------- */

/* far://X is a folder of the test. */
static void make_copier(void)
{
    char path[96];
    FILE *f;

    snprintf(path, sizeof(path), "%s/copy.sh", folder);
    f = fopen(path, "w");
    assert_non_null(f);
    fprintf(f,
            "place() { echo \"$1\" | sed 's,^far://,%s/far/,'; }\n"
            "to=$(place \"$2\")\n"
            "mkdir -p \"${to%%/*}\"\n"
            "exec cp -r \"$(place \"$1\")\" \"$to\"\n",
            folder);
    fclose(f);
    snprintf(copier, sizeof(copier), "sh %s", path);
}

static void a_job_saves_to_and_loads_from_where_a_command_reaches(void **state)
{
    plan *p = procs_share(sizeof(*p));
    procs j = new_job(p);
    char near[96];
    fl_model_version *v;

    (void)state;
    alarm(HANGS_S);
    make_copier();
    *p = (plan){ .dir = "far://model" };
    procs_set(&j, "fs_put", copier);
    procs_set(&j, "fs_get", copier);
    procs_start(&j);
    procs_end(&j);
    snprintf(near, sizeof(near), "%s/far/model", folder);
    assert_ok(fl_version_open(&v, near));
    assert_ok(fl_version_verify(v));
    fl_version_close(v);
    expect_like_shared(&j, "far://model");
    alarm(0);
}

static void a_place_without_commands_is_refused(void **state)
{
    plan *p = procs_share(sizeof(*p));
    procs j = new_job(p);

    (void)state;
    alarm(HANGS_S);
    *p = (plan){ .dir = "far://nowhere",
                 .says = { "server 0: ", "set fs_put and fs_get" } };
    procs_start(&j);
    procs_end(&j);
    alarm(0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_server_with_other_storage_is_named),
        cmocka_unit_test(parts_are_sent_to_server_0_when_asked_for),
        cmocka_unit_test(a_job_saves_to_and_loads_from_where_a_command_reaches),
        cmocka_unit_test(a_place_without_commands_is_refused),
    };

    return cmocka_run_group_tests(tests, make_folder, remove_folder);
}
