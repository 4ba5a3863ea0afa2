/* test_dist_save_calls.c - every file call of every server of a job goes wrong in
 * turn while the job is saved: the model that counts is whole, the save said which
 * one it is, and it can be used. With a second argument N only each Nth call does.
 * The first is the kind of the save:
 *
 *     whole      all that there is, by servers that share a folder
 *     inference  a model for prediction
 *     gathered   server 1 has other storage and sends its part to server 0
 */
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "../sys_faults.h"
#include "../folder.h"
#include "ckpt/version.h"
#include "dist_procs.h"
#include "flotilla/predict.h"

#define HANGS_S 280
/* Who was killed is known by its connection; who is only slow is not lost. */
#define SUSPECT_MS "20000"
#define SERVERS 2
#define CALLS_MAX 200 /* of one server in one save */

static char folder[FOLDER_BYTES], cache[FOLDER_BYTES + 32];

/* What the members of a job share. */
typedef struct board {
    char shared[FOLDER_BYTES + 32]; /* the folder that servers may not share */
    char dir[FOLDER_BYTES + 48];    /* the model in it */
    int victim;                     /* the server whose calls go wrong */
    fault_state calls;              /* of its files */
    int n_calls;                    /* that a save without faults has made */
} board;

typedef struct kind {
    const char *name;
    fl_status (*save)(kit_trainer *t, const char *dir);
    void (*use)(board *b); /* what is there can be used */
    bool is_begun_with;    /* a job of the same members begins with it */
    bool is_apart;         /* server 1 has other storage */
} kind;

static const kind *now;
static int stride = 1; /* of the calls that go wrong */

/* Another one for each server. */
static int first_call(const board *b)
{
    return 1 + b->victim % stride;
}

static int make_folder(void **state)
{
    (void)state;
    if (!folder_make(folder, "calls"))
        return -1;
    snprintf(cache, sizeof(cache), "%s/cache", folder);
    return 0;
}

static int remove_folder(void **state)
{
    char command[128];

    (void)state;
    snprintf(command, sizeof(command), "rm -rf %s", folder);
    return system(command);
}

static board *new_board(const char *name, int victim)
{
    board *b = procs_share(sizeof(*b));

    snprintf(b->shared, sizeof(b->shared), "%s/%s%d", folder, name, victim);
    snprintf(b->dir, sizeof(b->dir), "%s/model", b->shared);
    assert_int_equal(mkdir(b->shared, 0755), 0);
    b->victim = victim;
    return b;
}

/* --- jobs ----------------------------------------------------------------- */

/* The victim's calls are counted in memory that trainers see. Trainers make no
   file calls when a job is saved. */
static void begin_member(const procs *p, int member)
{
    board *b = p->arg;

    if (now->is_apart && member == 1 && !procs_hide(b->shared))
        _exit(9);
    if (member != b->victim)
        return;
    fault_now = &b->calls;
    fl_sys_replace(&fault_sys);
}

static procs new_job(const char *mode, board *b, kit_work work)
{
    procs p = { .kit = { .mode = mode,
                         .n_servers = SERVERS,
                         .n_trainers = 1,
                         .optimizer = "adagrad",
                         .words = "learning_rate=0.05" },
                .work = work,
                .arg = b };

    procs_set(&p, "restart_timeout_ms", "200");
    procs_set(&p, "suspect_ms", SUSPECT_MS);
    procs_set(&p, "fs_cache", cache);
    procs_set(&p, "save_gather", now->is_apart ? "true" : "false");
    return p;
}

/* --- kinds ---------------------------------------------------------------- */

static fl_status save_whole(kit_trainer *t, const char *dir)
{
    return fl_job_save(fl_transpiler_job(t->transpiler), dir);
}

static fl_status save_scores(kit_trainer *t, const char *dir)
{
    return kit_save_scores(t->exe, fl_default_main_program(t->ctx), dir);
}

/* Another job begins with it, and ends well. */
static void begin_with(board *b)
{
    procs_begin_with(new_job("sync", b, NULL), b->dir);
}

static void score(board *b)
{
    const kit_job j = { 0 };
    kit_batch *batch = kit_batch_make(&j, 0, 1, 0);
    fl_predictor *p;
    fl_model *m;
    fl_tensor t;

    assert_ok(fl_model_open(&m, b->dir, .verify = true));
    assert_ok(fl_predictor_new(&p, m));
    assert_ok(fl_predictor_run(p, kit_batch_feeds(batch), KIT_INPUTS, &t, 1));
    fl_predictor_free(p);
    fl_model_close(m);
    kit_batch_free(batch);
}

static const kind kinds[] = {
    { .name = "whole",
      .save = save_whole,
      .use = begin_with,
      .is_begun_with = true },
    { .name = "inference", .save = save_scores, .use = score },
    { .name = "gathered",
      .save = save_whole,
      .use = begin_with,
      .is_apart = true },
};

/* --- calls that go wrong --------------------------------------------------- */

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

static fl_status save_with(kit_trainer *t, board *b, fault_kind how, int at)
{
    unsigned long before = current(b->dir);
    fl_status st;

    b->calls.kind = how;
    b->calls.at = at;
    b->calls.n = 0;
    st = now->save(t, b->dir);
    return fl_err_ctx(check_said(b->dir, before, st), "fault %d at call %d",
                      (int)how, at);
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
    FL_TRY(count_calls(t, b));
    for (int at = first_call(b); at <= b->n_calls; at += stride) {
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
        board *b = new_board("calls", server);
        procs p = new_job("sync", b, save_again_and_again);

        p.first = begin_member;
        procs_start(&p);
        procs_end(&p);
        now->use(b);
    }
    alarm(0);
}

/* --- processes that die in a call ------------------------------------------ */

static fl_status save_and_die(kit_trainer *t, void *arg)
{
    board *b = arg;

    FL_TRY(kit_step(t, 0));
    return b->n_calls ? now->save(t, b->dir) : count_calls(t, b);
}

/* A job goes on from what the one before has left, where it can. */
static void live_once(board *b, int at)
{
    procs p = new_job("async", b, save_and_die);
    fl_model_version *v;

    p.first = begin_member;
    p.kit.model = b->n_calls && now->is_begun_with ? b->dir : NULL;
    b->calls.kind = FAULT_KILL_BEFORE;
    b->calls.at = at;
    b->calls.n = 0;
    if (at) /* who dies before it has joined is waited for so long */
        procs_set(&p, "connect_timeout_ms", "3000");
    procs_start(&p);
    for (int i = 0; i < procs_count(&p); i++) {
        int status = procs_wait(&p, i);

        if (!at && status)
            fail_msg("member %d: %s", i, p.texts[i]);
    }
    assert_ok(fl_version_open(&v, b->dir));
    assert_ok(fl_version_verify(v));
    fl_version_close(v);
}

static void every_call_of_every_server_is_its_last_in_turn(void **state)
{
    (void)state;
    alarm(HANGS_S);
    for (int server = 0; server < SERVERS; server++) {
        board *b = new_board("deaths", server);

        live_once(b, 0);
        for (int at = first_call(b); at <= b->n_calls; at += stride)
            live_once(b, at);
        now->use(b);
    }
    alarm(0);
}

/* --- all ------------------------------------------------------------------- */

/* A process that meson counts as skipped. */
#define SKIPPED 77

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_call_of_every_server_fails_in_turn),
        cmocka_unit_test(every_call_of_every_server_is_its_last_in_turn),
    };

    for (size_t i = 0; i < sizeof(kinds) / sizeof(kinds[0]); i++)
        if (argc > 1 && !strcmp(argv[1], kinds[i].name))
            now = &kinds[i];
    if (argc > 2)
        stride = atoi(argv[2]);
    if (!now || stride < 1) {
        fprintf(stderr, "usage: %s whole|inference|gathered [N]\n", argv[0]);
        return 2;
    }
    if (now->is_apart && !procs_can_hide("/tmp"))
        return SKIPPED;
    return cmocka_run_group_tests(tests, make_folder, remove_folder);
}
