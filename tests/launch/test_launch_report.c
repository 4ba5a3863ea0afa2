/* test_launch_report.c - a trainer that goes over data tells server 0 how far
 * it is, so that somebody can look at it from outside. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "dist/transpile.h"
#include "base/thread.h"
#include "dist_kit.h"
#include "../make.h"

#define SAMPLES 32
#define WAIT_NS (UINT64_C(60) * 1000000000u)

/* Somebody outside, with a context of its own. */
typedef struct onlooker {
    char address[64];
    char folder[64], data[96], go[96]; /* the data waits for the file `go` */
    bool saw_train, saw_idle, saw_short;
} onlooker;

static bool has_phase(const fl_job_status *s, const char *phase)
{
    fl_member_status m = FL_INIT(fl_member_status);

    return fl_job_status_member(s, 0, &m) && !strcmp(m.phase, phase);
}

/* Idle, with so many samples behind it. */
static bool is_seen(const fl_job_status *s, const char *phase, uint64_t samples)
{
    fl_member_status m = FL_INIT(fl_member_status);

    return has_phase(s, phase) && fl_job_status_member(s, 0, &m) &&
           m.samples >= samples;
}

static bool wait_for(const onlooker *o, const char *phase, uint64_t samples)
{
    const struct timespec pause = { .tv_nsec = 20 * 1000 * 1000 };
    uint64_t until = fl_now_ns() + WAIT_NS;
    fl_ctx *c = make_ctx();
    bool is_there = false;

    while (c && !is_there && fl_now_ns() < until) {
        fl_job_status *s;

        if (!fl_job_status_get(&s, c, o->address)) {
            is_there = is_seen(s, phase, samples);
            fl_job_status_free(s);
        }
        nanosleep(&pause, NULL);
    }
    fl_ctx_free(c);
    return is_there;
}

static void look(void *arg)
{
    onlooker *o = arg;
    FILE *f;

    o->saw_train = wait_for(o, "train", 0);
    f = fopen(o->go, "w");
    if (f)
        fclose(f);
}

static fl_status open_data(fl_dataset **out, kit_trainer *t, const onlooker *o)
{
    static const char *const names[] = { "s0", "s1", "s2", "dense", "label" };
    const char *path = o->data;
    char command[256];

    (void)snprintf(command, sizeof(command),
                   "n=0; until [ -e %s ] || [ $n -gt 1200 ]; do sleep 0.1; "
                   "n=$((n + 1)); done; cat",
                   o->go);
    FL_TRY(fl_dataset_new(out, t->ctx, "QueueDataset"));
    fl_dataset_set_pipe_command(*out, command);
    fl_dataset_set_batch_size(*out, 8);
    FL_TRY(fl_dataset_set_filelist(*out, &path, 1));
    return fl_dataset_set_use_var(*out, fl_transpiler_trainer(t->transpiler),
                                  names, FL_LEN(names));
}

static fl_status train(kit_trainer *t, void *arg)
{
    onlooker *o = arg;
    fl_thread *thread = NULL;
    fl_dataset *d = NULL;
    fl_status st = open_data(&d, t, o);

    (void)snprintf(o->address, sizeof(o->address), "%s",
                   t->transpiler->job->net.servers.data[0]);
    if (!st)
        st = fl_thread_start(&thread, "onlooker", look, o);
    if (!st)
        st = fl_train_from_dataset(t->exe, fl_transpiler_trainer(t->transpiler),
                                   d, NULL, .n_threads = 1, .print_period = -1);
    fl_thread_join(thread);
    if (!st)
        o->saw_idle = wait_for(o, "idle", SAMPLES);
    /* The data does not wait any more. */
    if (!st)
        st = fl_train_from_dataset(t->exe, fl_transpiler_trainer(t->transpiler),
                                   d, NULL, .n_threads = 1, .print_period = -1);
    if (!st)
        o->saw_short = wait_for(o, "idle", 2 * SAMPLES);
    fl_dataset_free(d);
    return st;
}

static void make_data(onlooker *o)
{
    FILE *f;

    (void)snprintf(o->folder, sizeof(o->folder), "/tmp/flotilla_look_XXXXXX");
    assert_non_null(mkdtemp(o->folder));
    (void)snprintf(o->data, sizeof(o->data), "%s/data", o->folder);
    (void)snprintf(o->go, sizeof(o->go), "%s/go", o->folder);
    f = fopen(o->data, "w");
    assert_non_null(f);
    for (int i = 0; i < SAMPLES; i++)
        fprintf(f, "1 %d 1 %d 1 %d 4 0.1 0.2 0.3 0.4 1 %d\n", i % 50, i % 7,
                i % 13, i % 2);
    fclose(f);
}

static void a_pass_over_data_is_seen_from_outside(void **state)
{
    kit_job j = { .mode = "async", .n_servers = 1, .n_trainers = 1 };
    kit_text texts[KIT_MEMBERS] = { "" };
    onlooker o = { .saw_train = false };

    (void)state;
    make_data(&o);
    kit_run(&j, train, &o, NULL, texts);
    unlink(o.data);
    unlink(o.go);
    rmdir(o.folder);
    for (int i = 0; i < KIT_MEMBERS; i++)
        if (texts[i][0])
            fail_msg("member %d: %s", i, texts[i]);
    assert_true(o.saw_train);
    assert_true(o.saw_idle);
    assert_true(o.saw_short);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_pass_over_data_is_seen_from_outside),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
