/* test_dist_save_faults.c - jobs that save themselves while members are killed and
 * their file calls go wrong: the model that counts is whole, the job says which
 * one it is, and another job begins with it.
 */
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "../sys_faults.h"
#include "../folder.h"
#include "ckpt/version.h"
#include "dist_procs.h"

#define HANGS_S 280
#define SERVERS 2
#define TRAINERS 2
#define CALLS_MAX 200 /* of one server in one save */

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
    int victim;        /* the server whose calls go wrong */
    fault_state calls; /* of its files */
    int n_calls;       /* that a save without faults has made */
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
    procs_set(&p, "suspect_ms", "100");
    procs_set(&p, "ping_ms", "20");
    return p;
}

static void expect_whole(const char *dir)
{
    fl_model_version *v;

    assert_ok(fl_version_open(&v, dir));
    assert_ok(fl_version_verify(v));
    fl_version_close(v);
}

static fl_status do_nothing(kit_trainer *t, void *arg)
{
    (void)t;
    (void)arg;
    return FL_OK;
}

/* Another job begins with what is there, and ends well. */
static void expect_loads(board *b)
{
    procs p = new_job("sync", b, do_nothing);

    p.kit.model = b->dir;
    procs_start(&p);
    procs_end(&p);
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
    watch_wait(&w, 2);
    procs_kill(&p, procs_trainer(&p, 1));
    number = watch_current(&w);
    watch_wait(&w, number + 2);
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
    watch_wait(&w, 2);
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

/* --- calls that go wrong --------------------------------------------------- */

/* The victim's calls are counted in memory that trainers see. Trainers make no
   file calls when a job is saved. */
static void take_faults(const procs *p, int member)
{
    board *b = p->arg;

    if (member != b->victim)
        return;
    fault_now = &b->calls;
    fl_sys_replace(&fault_sys);
}

static unsigned long current(const char *dir)
{
    watch w = { dir, -1 };

    return watch_current(&w);
}

/* What counts is what the save has said, and it is whole. */
static fl_status check_said(const char *dir, unsigned long before, fl_status st)
{
    bool is_new = !st || strstr(fl_last_error(), "counts now");
    unsigned long after = current(dir);
    fl_model_version *v;

    if (is_new != (after > before))
        FL_FAIL(FL_ERR_INVAL,
                "version %lu counts behind %lu, and the save said: %s", after,
                before, st ? fl_last_error() : "good");
    FL_TRY(fl_version_open(&v, dir));
    st = fl_version_verify(v);
    fl_version_close(v);
    return st;
}

static fl_status save_with(kit_trainer *t, board *b, fault_kind kind, int at)
{
    unsigned long before = current(b->dir);
    fl_status st;

    b->calls.kind = kind;
    b->calls.at = at;
    b->calls.n = 0;
    st = fl_job_save(fl_transpiler_job(t->transpiler), b->dir);
    return fl_err_ctx(check_said(b->dir, before, st), "fault %d at call %d",
                      (int)kind, at);
}

/* How often a save calls; the second one also removes the first. */
static fl_status count_calls(kit_trainer *t, board *b)
{
    FL_TRY(save_with(t, b, FAULT_FAIL, 0));
    FL_TRY(save_with(t, b, FAULT_FAIL, 0));
    b->n_calls = b->calls.n;
    if (b->n_calls < 4 || b->n_calls > CALLS_MAX)
        FL_FAIL(FL_ERR_INVAL, "a save made %d calls", b->n_calls);
    return FL_OK;
}

static fl_status save_again_and_again(kit_trainer *t, void *arg)
{
    board *b = arg;

    FL_TRY(kit_step(t, 0));
    if (t->rank)
        return FL_OK;
    FL_TRY(count_calls(t, b));
    for (int at = 1; at <= b->n_calls; at++) {
        FL_TRY(save_with(t, b, FAULT_FAIL, at));
        FL_TRY(save_with(t, b, FAULT_FAIL_ALWAYS, at));
        FL_TRY(save_with(t, b, FAULT_SHORT, at));
    }
    return save_with(t, b, FAULT_FAIL, 0);
}

static void every_call_of_every_server_fails_in_turn(void **state)
{
    (void)state;
    alarm(HANGS_S);
    for (int server = 0; server < SERVERS; server++) {
        char name[32];
        board *b;
        procs p;

        snprintf(name, sizeof(name), "calls%d", server);
        b = new_board(name);
        b->victim = server;
        p = new_job("sync", b, save_again_and_again);
        p.first = take_faults;
        procs_start(&p);
        procs_end(&p);
        expect_loads(b);
    }
    alarm(0);
}

/* --- processes that die in a call ------------------------------------------ */

/* Each job goes on from what the one before has left. */
static fl_status save_and_die(kit_trainer *t, void *arg)
{
    board *b = arg;

    FL_TRY(kit_step(t, 0));
    if (t->rank)
        return FL_OK;
    if (!b->n_calls)
        return count_calls(t, b);
    return fl_job_save(fl_transpiler_job(t->transpiler), b->dir);
}

static void live_once(board *b, int at)
{
    procs p = new_job("async", b, save_and_die);

    p.first = take_faults;
    p.kit.n_trainers = 1;
    p.kit.model = b->n_calls ? b->dir : NULL;
    b->calls.kind = FAULT_KILL_BEFORE;
    b->calls.at = at;
    b->calls.n = 0;
    procs_start(&p);
    for (int i = 0; i < procs_count(&p); i++) {
        int status = procs_wait(&p, i);

        if (!at && status)
            fail_msg("member %d: %s", i, p.texts[i]);
    }
    expect_whole(b->dir);
}

static void every_call_of_every_server_is_its_last_in_turn(void **state)
{
    (void)state;
    alarm(HANGS_S);
    for (int server = 0; server < SERVERS; server++) {
        char name[32];
        board *b;

        snprintf(name, sizeof(name), "deaths%d", server);
        b = new_board(name);
        b->victim = server;
        live_once(b, 0);
        for (int at = 1; at <= b->n_calls; at++)
            live_once(b, at);
        expect_loads(b);
    }
    alarm(0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_lost_trainer_leaves_a_job_that_goes_on_saving),
        cmocka_unit_test(a_lost_server_ends_the_job_and_the_model_stays),
        cmocka_unit_test(every_call_of_every_server_fails_in_turn),
        cmocka_unit_test(every_call_of_every_server_is_its_last_in_turn),
    };

    return cmocka_run_group_tests(tests, make_folder, remove_folder);
}
