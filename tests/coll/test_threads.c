/* test_threads.c - ranks that wait for their calls, each in a thread, and a way
 * between them in threads of its own. */
#include "coll_kit.h"

#include "base/thread.h"

#define RANKS 4
#define N_CALLS 60
#define MOST 100000

typedef struct world world;

/* What is on its way to a rank, and the thread that brings it. */
typedef struct post {
    struct post *next;
    fl_coll_out o;
    int from;
} post;

typedef struct member {
    world *w;
    int rank;
    fl_coll *c;
    fl_thread *postman, *worker;
    fl_mutex mu;
    fl_cond more;
    post *first, **end; /* guarded by mu */
    bool is_over;       /* guarded by mu */
    fl_status st;
    uint64_t hash;
    char text[FL_ERR_TEXT_MAX];
} member;

struct world {
    member m[RANKS];
    int fails_at; /* rank 1 fails before this call; -1: never */
};

static fl_status put(void *arg, const fl_coll_out *o)
{
    member *from = arg, *to = &from->w->m[o->to];
    post *p = fl_alloc(sizeof(*p));

    p->o = *o;
    p->from = from->rank;
    fl_lock(&to->mu);
    *to->end = p;
    to->end = &p->next;
    fl_cond_wake_all(&to->more);
    fl_unlock(&to->mu);
    return FL_OK;
}

static void give_receipt(void *arg, fl_status st)
{
    post *p = arg;

    (void)st;
    p->o.ended(p->o.arg, FL_OK);
    fl_free(p);
}

static void bring(member *m, post *p)
{
    size_t n = p->o.head_bytes + p->o.n;
    uint8_t *bytes = fl_try_alloc(n);

    memcpy(bytes, p->o.head, p->o.head_bytes);
    if (p->o.n)
        memcpy(bytes + p->o.head_bytes, p->o.bytes, p->o.n);
    fl_coll_on_part(m->c, p->from, bytes, n,
                    (fl_coll_receipt){ give_receipt, p });
    fl_data_free(bytes, n);
}

static void deliver(void *arg)
{
    member *m = arg;

    fl_lock(&m->mu);
    while (m->first || !m->is_over) {
        post *p = m->first;

        if (!p) {
            fl_cond_wait(&m->more, &m->mu);
            continue;
        }
        m->first = p->next;
        if (!p->next)
            m->end = &m->first;
        fl_unlock(&m->mu);
        bring(m, p);
        fl_lock(&m->mu);
    }
    fl_unlock(&m->mu);
}

static fl_status one_call(member *m, float *v, int i)
{
    fl_coll_call a = { .kind = i % 7 == 6 ? FL_COLL_BARRIER : FL_COLL_ALLREDUCE,
                       .in = v,
                       .out = v,
                       .n = (size_t)i * 1999 % MOST };

    if (a.kind == FL_COLL_BARRIER)
        a.n = 0;
    if (m->rank == 1 && i == m->w->fails_at)
        fl_coll_fail(m->c, fl_err_set(FL_ERR_NUMERIC, "worker 1 has a NaN"));
    for (size_t j = 0; j < a.n; j++)
        v[j] = (float)((double)fl_mix64(j + (uint64_t)m->rank) / 1e19);
    FL_TRY(fl_coll_run(m->c, &a));
    for (size_t j = 0; j < a.n; j++)
        m->hash = fl_mix64(m->hash ^ (uint64_t)(v[j] * 1e7f));
    return FL_OK;
}

static void work(void *arg)
{
    member *m = arg;
    float *v = fl_try_alloc(MOST * sizeof(float));

    for (int i = 0; i < N_CALLS && !m->st; i++)
        m->st = one_call(m, v, i);
    if (m->st)
        (void)snprintf(m->text, sizeof(m->text), "%s", fl_last_error());
    fl_data_free(v, MOST * sizeof(float));
}

static void open_world(world *w, const char *machine)
{
    for (int r = 0; r < RANKS; r++) {
        member *m = &w->m[r];
        fl_coll_options o = {
            .rank = r, .n_ranks = RANKS, .machine = machine, .link = { put, m }
        };

        *m = (member){ .w = w, .rank = r };
        m->end = &m->first;
        fl_mutex_init(&m->mu);
        fl_cond_init(&m->more);
        assert_ok(fl_coll_new(&m->c, &o));
    }
    for (int r = 0; r < RANKS; r++)
        assert_ok(fl_thread_start(&w->m[r].postman, "post", deliver, &w->m[r]));
}

static void run_world(world *w, const char *machine)
{
    open_world(w, machine);
    for (int r = 0; r < RANKS; r++)
        assert_ok(fl_thread_start(&w->m[r].worker, "work", work, &w->m[r]));
    for (int r = 0; r < RANKS; r++)
        fl_thread_join(w->m[r].worker);
    for (int r = 0; r < RANKS; r++) {
        fl_lock(&w->m[r].mu);
        w->m[r].is_over = true;
        fl_cond_wake_all(&w->m[r].more);
        fl_unlock(&w->m[r].mu);
    }
    for (int r = 0; r < RANKS; r++)
        fl_thread_join(w->m[r].postman);
    for (int r = 0; r < RANKS; r++) {
        fl_coll_free(w->m[r].c);
        fl_cond_release(&w->m[r].more);
        fl_mutex_release(&w->m[r].mu);
    }
}

static void threads_get_the_same_sums(void **state)
{
    world w = { .fails_at = -1 };
    (void)state;

    run_world(&w, "");
    for (int r = 0; r < RANKS; r++) {
        if (w.m[r].st)
            fail_msg("rank %d: %s", r, w.m[r].text);
        assert_int_equal(w.m[r].hash, w.m[0].hash);
    }
}

static void a_failure_ends_all_threads(void **state)
{
    world w = { .fails_at = N_CALLS / 2 };
    (void)state;

    run_world(&w, "");
    for (int r = 0; r < RANKS; r++) {
        assert_int_equal(w.m[r].st, FL_ERR_NUMERIC);
        assert_non_null(strstr(w.m[r].text, "worker 1 has a NaN"));
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(threads_get_the_same_sums),
        cmocka_unit_test(a_failure_ends_all_threads),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
