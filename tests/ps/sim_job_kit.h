/* sim_job_kit.h - two servers and three trainers in a simulated network. */
#ifndef FL_TESTS_PS_SIM_JOB_KIT_H
#define FL_TESTS_PS_SIM_JOB_KIT_H

#include "server_kit.h"

#define TRAINERS 3

static const fl_sim_faults calm = { .seed = 1, .delay_hi_ms = 2 };

/* Two servers, and so many trainers that have joined. */
typedef struct job {
    sim_cluster c;
    trainer t[TRAINERS];
} job;

static inline void job_begin(job *j, bool go_on_without)
{
    sim_cluster_simulate(&j->c, &calm, 2, TRAINERS);
    j->c.o.go_on_without = go_on_without;
    serve_all(&j->c);
    for (uint32_t i = 0; i < TRAINERS; i++)
        trainer_join(&j->c, &j->t[i], i, 100 + i);
    assert_said(&j->c, "all 5 members are here");
}

static inline void job_end(job *j)
{
    for (int i = 0; i < TRAINERS; i++)
        trainer_die(&j->c, &j->t[i]);
    sim_cluster_release(&j->c);
}

static inline void meet(job *j, const char *name, uint64_t generation)
{
    answer a[TRAINERS];

    for (int i = 0; i < TRAINERS; i++)
        send_barrier(&j->t[i], name, generation, &a[i]);
    for (int i = 0; i < TRAINERS; i++)
        expect_answer(&j->c, &a[i], FL_OK, "");
}

/* Time for servers to end, also when a goodbye was lost. */
#define END_MS 3000

static inline void leave_all(job *j)
{
    for (int i = 0; i < TRAINERS; i++)
        trainer_leave(&j->c, &j->t[i]);
    run(&j->c, END_MS);
}

#endif
