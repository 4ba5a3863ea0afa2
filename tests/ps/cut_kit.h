/* cut_kit.h - pushes over connections that break: what is pushed, and the way
 * over TCP through a proxy. fault_cluster_kit.h has the same in a simulation.
 *
 * Three trainers push to two servers without waiting for one another, several
 * pushes at a time. Each has a table and a block with adam of its own, whose
 * state tells the order and the number of its steps to the last bit; all share
 * a table whose sums are exact. So the contents say whether every push was
 * applied, once, and in its place.
 */
#ifndef FL_TESTS_PS_CUT_KIT_H
#define FL_TESTS_PS_CUT_KIT_H

#include "proxy_kit.h"

#define CUT_SERVERS 2
#define CUT_TRAINERS 3
#define CUT_WINDOW 6 /* pushes of a trainer under way */
#define CUT_KEYS 12
#define CUT_DIM 4
#define CUT_FLOATS 64
#define CUT_DENSE_EVERY 5

enum { CUT_SHARED, CUT_OWN }; /* tables; own ones by rank */

/* What one push has. */
typedef struct cut_push {
    uint64_t shared[CUT_KEYS], own[CUT_KEYS];
    float grads[CUT_KEYS * CUT_DIM], dense[CUT_FLOATS];
    fl_job_push_item items[2];
} cut_push;

static inline bool is_dense(uint64_t number)
{
    return number % CUT_DENSE_EVERY == CUT_DENSE_EVERY - 1;
}

/* Small whole numbers as gradients; 1000 keys each. */
static inline void cut_push_fill(cut_push *p, int rank, uint64_t number)
{
    uint64_t dice = fl_mix64(((uint64_t)rank << 40) + number);

    for (uint64_t i = 0; i < CUT_KEYS; i++) {
        p->shared[i] = fl_mix64(dice + i) % 1000;
        p->own[i] = fl_mix64(dice + 100 + i) % 1000;
    }
    for (uint64_t i = 0; i < CUT_KEYS * CUT_DIM; i++)
        p->grads[i] = (float)(fl_mix64(dice + 200 + i) % 8) - 3;
    for (uint64_t i = 0; i < CUT_FLOATS; i++)
        p->dense[i] = (float)(fl_mix64(dice + 300 + i) % 8) - 3;
    p->items[0] = (fl_job_push_item){
        CUT_SHARED,
        { .keys = p->shared, .values = p->grads, .n = CUT_KEYS, .lr = 0.5 }
    };
    p->items[1] = (fl_job_push_item){
        CUT_OWN + rank,
        { .keys = p->own, .values = p->grads, .n = CUT_KEYS, .lr = 0.01 }
    };
}

/* --- real sockets --------------------------------------------------------- */

/* The same pushes, by the public API: begun in order, several at a time. */
typedef struct cut_slot {
    cut_push push;
    fl_job_request *request; /* NULL: none */
} cut_slot;

static inline fl_status declare_cuts(fl_job *p)
{
    char name[16];
    int number;

    FL_TRY(fl_job_declare_table(
        p, "shared", "dim=4 init=constant(1) optimizer=sgd", &number));
    for (int i = 0; i < 2 * CUT_TRAINERS; i++) {
        (void)snprintf(name, sizeof(name), "own%d", i / 2);
        FL_TRY(i % 2 ? fl_job_declare_dense(p, name, CUT_FLOATS, "adam",
                                            "learning_rate=0.01", &number)
                     : fl_job_declare_table(
                           p, name, "dim=4 init=uniform(-1,1) optimizer=adam",
                           &number));
    }
    return fl_job_start(p);
}

static inline fl_status finish_slot(cut_slot *s)
{
    fl_job_request *r = s->request;

    s->request = NULL;
    return r ? fl_job_wait(r) : FL_OK;
}

static inline fl_status finish_slots(cut_slot *slots, fl_status st)
{
    for (int i = 0; i < CUT_WINDOW; i++) {
        fl_status now = finish_slot(&slots[i]);

        st = st ? st : now;
    }
    return st;
}

static inline fl_status push_number(fl_job *p, int rank, uint64_t number,
                                    cut_slot *s)
{
    FL_TRY(finish_slot(s));
    cut_push_fill(&s->push, rank, number);
    if (is_dense(number))
        return fl_job_push_dense(p, rank, s->push.dense);
    return fl_job_push_begin(&s->request, p, s->push.items, 2);
}

static uint64_t cut_pushes; /* of each trainer */

/* For job_work. */
static inline fl_status push_all(fl_job *p, int rank, told *t)
{
    cut_slot *slots = calloc(CUT_WINDOW, sizeof(*slots));
    fl_status st = declare_cuts(p);

    for (uint64_t i = 0; !st && i < cut_pushes; i++)
        st = push_number(p, rank, i, &slots[i % CUT_WINDOW]);
    st = finish_slots(slots, st);
    free(slots);
    FL_TRY(st);
    FL_TRY(fl_job_barrier(p));
    FL_TRY(fl_job_hash(p, &t->hash));
    return fl_job_barrier(p);
}

/* The contents after all pushes; cut_below as proxies have it. */
static inline uint64_t push_through_proxy(uint64_t cut_below, uint64_t seed,
                                          uint64_t *n_cuts, uint64_t *n_bytes)
{
    proxy *p = calloc(1, sizeof(*p));
    uint64_t hash;
    job j;

    assert_non_null(p);
    p->cut_below = cut_below;
    p->dice = seed << 32;
    job_init(&j, CUT_SERVERS, CUT_TRAINERS, "join_token=t local_transport=off",
             push_all);
    proxy_start(p, j.servers, j.ways);
    job_start_threads(&j);
    job_join_threads(&j);
    proxy_stop(p);
    hash = job_check(&j);
    job_release(&j);
    *n_cuts = p->n_cuts;
    *n_bytes = p->n_bytes;
    free(p);
    return hash;
}

/* A connection is cut before it has passed on cut_below bytes, so that there
   are at least as many cuts as all bytes have such stretches, but for the last
   of each of the connections that are there at a time. */
static inline void expect_once_through_proxy(uint64_t n_pushes, uint64_t n_cuts)
{
    uint64_t stretches = n_cuts + 2 * CUT_SERVERS * CUT_TRAINERS;
    uint64_t seen, bytes, hash;

    cut_pushes = n_pushes / CUT_TRAINERS + 1;
    hash = push_through_proxy(0, 1, &seen, &bytes);
    assert_int_equal(seen, 0);
    assert_true(push_through_proxy(bytes / stretches, 2, &seen, &bytes) ==
                hash);
    printf("%llu pushes over TCP, %llu connections cut\n",
           (unsigned long long)cut_pushes * CUT_TRAINERS,
           (unsigned long long)seen);
    assert_true(seen >= n_cuts);
}

#endif
