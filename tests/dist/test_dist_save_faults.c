/* test_dist_save_faults.c - jobs that save themselves while members are killed:
 * the model that counts is whole, and another job begins with it.
 */
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "../folder.h"
#include "ckpt/version.h"
#include "dist_procs.h"

#define HANGS_S 280
/* Who was killed is known by its connection; who is only slow is not lost. */
#define SUSPECT_MS "20000"
#define SERVERS 2
#define TRAINERS 2

static char folder[FOLDER_BYTES];

static int make_folder(void **state)
{
    (void)state;
    return folder_make(folder, "faults") ? 0 : -1;
}

static int remove_folder(void **state)
{
    char command[128];

    (void)state;
    snprintf(command, sizeof(command), "rm -rf %s", folder);
    return system(command);
}

/* --- jobs ----------------------------------------------------------------- */

/* What the members of a job share. */
typedef struct board {
    char dir[FOLDER_BYTES + 32];
    atomic_bool is_enough;
} board;

static board *new_board(const char *name)
{
    board *b = procs_share(sizeof(*b));

    snprintf(b->dir, sizeof(b->dir), "%s/%s", folder, name);
    return b;
}

static procs new_job(const char *mode, board *b, kit_work work)
{
    procs p = { .kit = { .mode = mode,
                         .n_servers = SERVERS,
                         .n_trainers = TRAINERS,
                         .optimizer = "adagrad",
                         .words = "learning_rate=0.05" },
                .work = work,
                .arg = b };

    procs_set(&p, "restart_timeout_ms", "200");
    procs_set(&p, "suspect_ms", SUSPECT_MS);
    return p;
}

static void expect_whole(const char *dir)
{
    fl_model_version *v;

    assert_ok(fl_version_open(&v, dir));
    assert_ok(fl_version_verify(v));
    fl_version_close(v);
}

/* Another job begins with what is there, and ends well. */
static void expect_loads(board *b)
{
    procs_begin_with(new_job("sync", b, NULL), b->dir);
}

/* --- members that are killed ---------------------------------------------- */

static fl_status train_until_enough(kit_trainer *t, void *arg)
{
    board *b = arg;
    fl_status st = FL_OK;

    for (int step = 0; !b->is_enough && !st; step++)
        st = kit_step(t, step % 50);
    return st;
}

static void save_always(procs *p, const char *dir)
{
    procs_set(p, "save_dir", dir);
    procs_set(p, "save_every_steps", "1");
    procs_set(p, "save_timeout_ms", "2000");
}

static void a_lost_trainer_leaves_a_job_that_goes_on_saving(void **state)
{
    board *b = new_board("trainer");
    procs p = new_job("async", b, train_until_enough);
    watch w = watch_begin(b->dir);
    unsigned long number;

    (void)state;
    alarm(HANGS_S);
    save_always(&p, b->dir);
    procs_set(&p, "go_on_without_lost_trainers", "true");
    procs_start(&p);
    watch_wait(&w, &p, 2);
    procs_kill(&p, procs_trainer(&p, 1));
    number = watch_current(&w);
    watch_wait(&w, &p, number + 2);
    b->is_enough = true;
    procs_end(&p);
    expect_whole(b->dir);
    expect_loads(b);
    watch_end(&w);
    alarm(0);
}

static void lose_server(const char *mode, int server)
{
    char name[32];
    board *b;
    procs p;
    watch w;

    snprintf(name, sizeof(name), "%s%d", mode, server);
    b = new_board(name);
    p = new_job(mode, b, train_until_enough);
    w = watch_begin(b->dir);
    save_always(&p, b->dir);
    procs_start(&p);
    watch_wait(&w, &p, 2);
    procs_kill(&p, server);
    for (int i = 0; i < procs_count(&p); i++)
        if (p.pids[i])
            assert_int_not_equal(procs_wait(&p, i), 0);
    expect_whole(b->dir);
    expect_loads(b);
    watch_end(&w);
}

static void a_lost_server_ends_the_job_and_the_model_stays(void **state)
{
    (void)state;
    alarm(HANGS_S);
    for (int server = 0; server < SERVERS; server++) {
        lose_server("sync", server);
        lose_server("async", server);
    }
    alarm(0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_lost_trainer_leaves_a_job_that_goes_on_saving),
        cmocka_unit_test(a_lost_server_ends_the_job_and_the_model_stays),
    };

    return cmocka_run_group_tests(tests, make_folder, remove_folder);
}
