/* job_work.h - work of three trainers whose result does not depend on who is
 * faster.
 *
 * Where all push to the same rows, the rule is sgd, and gradients and learning
 * rates are such that every sum is exact. Blocks and tables with a memory have
 * one trainer each: adam counts its steps by table and not by row, so that a
 * push of a single row is a step on all servers.
 */
#ifndef FL_TESTS_PS_JOB_WORK_H
#define FL_TESTS_PS_JOB_WORK_H

#include "job_kit.h"

#define WORK_ROUNDS 6
#define WORK_KEYS 300
#define WORK_DIM 4
#define WORK_FLOATS 1000
#define WORK_ASSIGNED 20

/* Own ones by rank, one behind the other. */
enum { SHARED, CLICKS, OWN }; /* tables */
enum { ALL, OWN_BLOCK };      /* blocks */

typedef struct work {
    fl_job *p;
    int rank;
    uint64_t shared[WORK_KEYS], own[WORK_KEYS];
    float grads[WORK_KEYS * WORK_DIM], values[WORK_KEYS * WORK_DIM];
    float shows[WORK_KEYS], clicks[WORK_KEYS];
    float dense[WORK_FLOATS];
} work;

/* From -3 to 4. */
static inline float small_number(uint64_t dice)
{
    return (float)(fl_mix64(dice) % 8) - 3;
}

static inline void fill(float *out, size_t n, uint64_t dice)
{
    for (size_t i = 0; i < n; i++)
        out[i] = small_number((dice << 20) + i);
}

static inline fl_status declare_own(fl_job *p, int rank)
{
    char name[16];
    int number;

    (void)snprintf(name, sizeof(name), "own%d", rank);
    FL_TRY(fl_job_declare_table(
        p, name, "dim=4 init=uniform(-1,1) optimizer=adam", &number));
    return fl_job_declare_dense(p, name, WORK_FLOATS, "adam",
                                "learning_rate=0.01", &number);
}

static inline fl_status declare_work(fl_job *p, int n_trainers)
{
    int number;

    FL_TRY(fl_job_declare_table(
        p, "shared", "dim=4 init=constant(1) optimizer=sgd", &number));
    FL_TRY(fl_job_declare_table(
        p, "clicks", "dim=4 accessor=ctr optimizer=adagrad embedx_threshold=3",
        &number));
    FL_TRY(fl_job_declare_dense(p, "all", WORK_FLOATS, "sgd",
                                "learning_rate=0.5", &number));
    for (int i = 0; i < n_trainers; i++)
        FL_TRY(declare_own(p, i));
    return fl_job_start(p);
}

/* The gradient that rank pushes for a shared key. */
static inline uint64_t shared_dice(int round, int rank)
{
    return 1000 + (uint64_t)(round * JOB_TRAINERS + rank);
}

static inline fl_status push_rows(work *w, int round)
{
    fl_job_push_item items[3] = {
        { SHARED,
          { .keys = w->shared,
            .values = w->grads,
            .n = WORK_KEYS,
            .lr = 0.5 } },
        { OWN + w->rank,
          { .keys = w->own, .values = w->grads, .n = WORK_KEYS, .lr = 0.01 } },
        { CLICKS,
          { .keys = w->own,
            .values = w->grads,
            .shows = w->shows,
            .clicks = w->clicks,
            .n = WORK_KEYS,
            .lr = 0.1,
            .merged = true } },
    };

    fill(w->grads, WORK_KEYS * WORK_DIM, shared_dice(round, w->rank));
    for (int i = 0; i < WORK_KEYS; i++) {
        w->shows[i] = (float)(1 + (i + round) % 3);
        w->clicks[i] = (float)((i + round) % 2);
    }
    return fl_job_push_many(w->p, items, 3);
}

static inline fl_status push_one_row(work *w, int round)
{
    return fl_job_push(
        w->p, OWN + w->rank,
        &(fl_rows){
            .keys = &w->own[round], .values = w->grads, .n = 1, .lr = 0.01 });
}

static inline fl_status push_blocks(work *w, int round)
{
    fill(w->dense, WORK_FLOATS, shared_dice(round, w->rank) + 500);
    FL_TRY(fl_job_push_dense(w->p, ALL, w->dense));
    return fl_job_push_dense(w->p, OWN_BLOCK + w->rank, w->dense);
}

/* What the shared rows must be after a round, to the bit. */
static inline fl_status check_rows(work *w, int round)
{
    FL_TRY(fl_job_pull(w->p, SHARED, w->shared, WORK_KEYS, FL_PULL_ONLY,
                       w->values));
    for (size_t i = 0; i < WORK_KEYS * WORK_DIM; i++) {
        float want = 1;

        for (int r = 0; r <= round; r++)
            for (int k = 0; k < JOB_TRAINERS; k++)
                want -= 0.5f * small_number((shared_dice(r, k) << 20) + i);
        if (w->values[i] != want)
            FL_FAIL(FL_ERR_CORRUPT, "round %d: value %zu is %g instead of %g",
                    round, i, (double)w->values[i], (double)want);
    }
    return FL_OK;
}

static inline fl_status assign_some(work *w)
{
    fill(w->values, WORK_ASSIGNED * WORK_DIM, 77 + (uint64_t)w->rank);
    FL_TRY(
        fl_job_assign(w->p, OWN + w->rank, w->own, WORK_ASSIGNED, w->values));
    fill(w->dense, WORK_FLOATS, 99 + (uint64_t)w->rank);
    return fl_job_assign_dense(w->p, OWN_BLOCK + w->rank, w->dense);
}

static inline fl_status check_steps(fl_job *p, told *t)
{
    uint64_t want = WORK_ROUNDS * JOB_TRAINERS;

    FL_TRY(fl_job_step(p, 0, &t->steps));
    if (t->steps != want)
        FL_FAIL(FL_ERR_CORRUPT, "step %llu instead of %llu",
                (unsigned long long)t->steps, (unsigned long long)want);
    return FL_OK;
}

static inline fl_status work_round(work *w, int round)
{
    FL_TRY(push_rows(w, round));
    FL_TRY(push_one_row(w, round));
    FL_TRY(push_blocks(w, round));
    FL_TRY(fl_job_step(w->p, 1, NULL));
    FL_TRY(fl_job_report(w->p, "round", (uint64_t)round, 0.5, 0.5));
    FL_TRY(fl_job_barrier(w->p));
    FL_TRY(check_rows(w, round));
    return fl_job_barrier(w->p);
}

/* For job_work, of JOB_TRAINERS trainers. */
static inline fl_status whole_work(fl_job *p, int rank, told *t)
{
    work w = { .p = p, .rank = rank };

    for (uint64_t i = 0; i < WORK_KEYS; i++) {
        w.shared[i] = fl_mix64(i);
        w.own[i] = fl_mix64(1000000 * ((uint64_t)rank + 1) + i);
    }
    FL_TRY(declare_work(p, JOB_TRAINERS));
    FL_TRY(assign_some(&w));
    for (int round = 0; round < WORK_ROUNDS; round++)
        FL_TRY(work_round(&w, round));
    FL_TRY(check_steps(p, t));
    return fl_job_hash(p, &t->hash);
}

#endif
