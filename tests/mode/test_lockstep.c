/* test_lockstep.c - threads of one trainer meet, with an exchange that the test
 * ends itself, so that there are no servers. */
#include "lockstep_kit.h"

#include <math.h>

#include "base/alloc.h"
#include "base/hash.h"

#define THREADS 4

/* A mode that keeps what it is given. */
typedef struct fake {
    fl_lockstep *core;
    fl_merged merged; /* of the last exchange */
    int n_exchanges;
    int n_freed;
} fake;

typedef struct bench {
    fl_conf conf;
    fl_dist dist;
    fl_cluster *cluster;
    fl_comm *comm;
    fake fake;
    frame frames[THREADS];
} bench;

static void keep_merged(void *mode, const fl_merged *merged)
{
    fake *f = mode;

    f->merged = *merged;
    f->n_exchanges++;
}

static uint64_t fake_step(void *mode)
{
    return (uint64_t)((fake *)mode)->n_exchanges;
}

static void fake_free(void *mode)
{
    ((fake *)mode)->n_freed++;
}

static const fl_lockstep_ops fake_way = { .name = "fake",
                                          .exchange = keep_merged,
                                          .step = fake_step,
                                          .free = fake_free };

static void bench_init_with(bench *b, const fl_lockstep_ops *way, void *mode)
{
    static const char *const servers[] = { "nowhere:1", "nowhere:2" };

    *b = (bench){ 0 };
    alarm(JOB_HANGS_S);
    assert_ok(fl_conf_init(&b->conf));
    dist_init(&b->dist, "fake", servers, 2, 1, 0);
    b->cluster = fl_cluster_new(
        &(fl_cluster_args){ .dist = &b->dist, .conf = &b->conf });
    b->fake.core = fl_lockstep_new(b->cluster, way, mode, FL_WEIGH_EQUALLY);
    b->comm = fl_lockstep_port(b->fake.core);
    for (int i = 0; i < THREADS; i++)
        frame_init(&b->frames[i], i);
}

static void bench_init(bench *b)
{
    bench_init_with(b, &fake_way, &b->fake);
}

static void bench_release(bench *b)
{
    fl_comm_free(b->comm);
    for (int i = 0; i < THREADS; i++)
        frame_release(&b->frames[i]);
    dist_release(&b->dist);
    fl_conf_release(&b->conf);
    alarm(0);
}

/* Keys first, first + 1, ...; all gradients are x. */
static void fill_frame(frame *f, uint64_t first, size_t n, float x)
{
    for (size_t i = 0; i < n; i++)
        f->keys[i] = first + i;
    for (size_t i = 0; i < n * EMB_DIM; i++)
        f->emb_rows[i] = x;
    for (size_t i = 0; i < n; i++)
        f->wide_rows[i] = -x;
    for (size_t i = 0; i < W_FLOATS; i++)
        f->w_grad[i] = x + (float)i;
    for (size_t i = 0; i < B_FLOATS; i++)
        f->b_grad[i] = x - (float)i;
    f->emb.rows.n = f->wide.rows.n = n;
}

static fl_status reach_barrier(bench *b, int thread)
{
    frame *f = &b->frames[thread];

    return begin_call(f, b->comm, b->comm->data->barrier, &f->barrier);
}

/* Hands over everything, and comes to the meeting. */
static void come(bench *b, int thread)
{
    assert_ok(hand_over(&b->frames[thread], b->comm));
    assert_int_equal(reach_barrier(b, thread), FL_PENDING);
}

static bool waits(bench *b, int thread)
{
    return fl_comm_result(&b->frames[thread].barrier.answer) == FL_PENDING;
}

static void expect_went_on(bench *b, int thread)
{
    assert_ok(fl_comm_result(&b->frames[thread].barrier.answer));
}

/* --- merging ------------------------------------------------------------ */

static void a_thread_alone_sends_from_where_its_gradients_are(void **state)
{
    const fl_merged *m;
    bench b;

    (void)state;
    bench_init(&b);
    fill_frame(&b.frames[0], 100, 3, 2);
    come(&b, 0);
    assert_int_equal(b.fake.n_exchanges, 1);
    m = &b.fake.merged;
    assert_int_equal(m->n_items, 2);
    assert_int_equal(m->items[0].table, 0);
    assert_ptr_equal(m->items[0].rows.keys, b.frames[0].keys);
    assert_ptr_equal(m->items[0].rows.values, b.frames[0].emb_rows);
    assert_int_equal(m->items[0].rows.n, 3);
    assert_true(m->items[0].rows.lr == 0.1);
    assert_int_equal(m->items[1].table, 1);
    assert_int_equal(m->dims[0], EMB_DIM);
    assert_int_equal(m->dims[1], 1);
    assert_int_equal(m->samples, 10);
    assert_int_equal(m->grads->blocks.len, 3);
    assert_ptr_equal(m->grads->data.data[0], b.frames[0].w_grad);
    assert_ptr_equal(m->grads->data.data[1], b.frames[0].w_grad + 4);
    assert_ptr_equal(m->grads->data.data[2], b.frames[0].b_grad);
    assert_true(waits(&b, 0));
    fl_lockstep_end(b.fake.core, FL_OK);
    expect_went_on(&b, 0);
    bench_release(&b);
    assert_int_equal(b.fake.n_freed, 1);
}

/* The place of a key, of which there is one. */
static size_t place_of(const fl_rows *r, uint64_t key)
{
    size_t i = 0;

    while (i < r->n && r->keys[i] != key)
        i++;
    assert_true(i < r->n);
    return i;
}

static float value_of(const fl_rows *r, uint64_t key)
{
    return r->values[place_of(r, key) * EMB_DIM];
}

static void expect_by_hash(const fl_rows *r)
{
    for (size_t i = 1; i < r->n; i++)
        assert_true(fl_hash_key(r->keys[i - 1]) < fl_hash_key(r->keys[i]));
}

static int by_hash(const void *a, const void *b)
{
    uint64_t x = fl_hash_key(*(const uint64_t *)a);
    uint64_t y = fl_hash_key(*(const uint64_t *)b);

    return (x > y) - (x < y);
}

/* Threads come as they like; what is merged is in the order of their numbers.
   Keys 100..102, 101..103 and 102..104, as a pull has them. */
static void the_gradient_of_threads_is_their_mean_in_order(void **state)
{
    static const float x[3] = { 0.1f, 0.7f, 1.3f };
    const float third = (float)(1.0 / 3);
    const fl_rows *a;
    bench b;

    (void)state;
    bench_init(&b);
    b.comm->life->enter(b.comm, 3);
    for (int i = 2; i >= 0; i--) {
        frame *f = &b.frames[i];

        fill_frame(f, 100 + (uint64_t)i, 3, x[i]);
        qsort(f->keys, 3, sizeof(*f->keys), by_hash);
        assert_int_equal(b.fake.n_exchanges, 0);
        come(&b, i);
    }
    a = &b.fake.merged.items[0].rows;
    assert_int_equal(a->n, 5);
    expect_by_hash(a);
    assert_true(value_of(a, 100) == third * x[0]);
    assert_true(value_of(a, 101) == third * x[0] + third * x[1]);
    assert_true(value_of(a, 102) == third * x[0] + third * x[1] + third * x[2]);
    assert_true(value_of(a, 104) == third * x[2]);
    assert_int_equal(a->counts[place_of(a, 102)], 3);
    assert_int_equal(a->counts[place_of(a, 104)], 1);
    for (size_t i = 0; i < 4; i++) {
        float want = third * (x[0] + (float)i);

        want += third * (x[1] + (float)i);
        want += third * (x[2] + (float)i);
        assert_true(b.fake.merged.grads->data.data[0][i] == want);
    }
    assert_int_equal(b.fake.merged.samples, 30);
    fl_lockstep_end(b.fake.core, FL_OK);
    for (int i = 0; i < 3; i++)
        expect_went_on(&b, i);
    bench_release(&b);
}

/* Parts come from any thread of a team, the dense gradients once. */
static void
parts_of_replicas_are_scaled_and_merged_gradients_are_not(void **state)
{
    const fl_rows *a;
    bench b;

    (void)state;
    bench_init(&b);
    for (int i = 2; i >= 0; i--) {
        frame *f = &b.frames[i];

        fill_frame(f, 100 + (uint64_t)i, 1, 4);
        f->emb.worker = (fl_worker_id){
            .thread = 0, .part = i, .n_parts = 3, .scale = 0.25
        };
        f->emb.rows.scale = 0.25;
        assert_ok(do_rows(f, b.comm, b.comm->data->push, &f->emb));
    }
    b.frames[0].w.worker = b.frames[0].emb.worker;
    assert_ok(
        do_call(&b.frames[0], b.comm, b.comm->data->send, &b.frames[0].w));
    b.frames[0].barrier.worker = b.frames[0].emb.worker;
    assert_int_equal(reach_barrier(&b, 0), FL_PENDING);
    a = &b.fake.merged.items[0].rows;
    assert_int_equal(b.fake.merged.n_items, 1);
    assert_int_equal(a->n, 3);
    for (uint64_t i = 0; i < 3; i++)
        assert_true(value_of(a, 100 + i) == 1);
    assert_ptr_equal(b.fake.merged.grads->data.data[0], b.frames[0].w_grad);
    fl_lockstep_end(b.fake.core, FL_OK);
    assert_int_equal(fl_cluster_stats_of(b.cluster)->gradients_made, 2);
    assert_int_equal(fl_cluster_stats_of(b.cluster)->gradients_applied, 2);
    bench_release(&b);
}

static void a_table_without_keys_gets_its_push(void **state)
{
    bench b;

    (void)state;
    bench_init(&b);
    b.comm->life->enter(b.comm, 2);
    for (int i = 0; i < 2; i++) {
        fill_frame(&b.frames[i], 1, 0, 1);
        come(&b, i);
    }
    assert_int_equal(b.fake.merged.n_items, 2);
    assert_int_equal(b.fake.merged.items[0].rows.n, 0);
    assert_int_equal(b.fake.merged.items[1].rows.n, 0);
    fl_lockstep_end(b.fake.core, FL_OK);
    bench_release(&b);
}

/* --- coming and going --------------------------------------------------- */

static void a_thread_that_leaves_lets_the_others_go_on(void **state)
{
    bench b;

    (void)state;
    bench_init(&b);
    b.comm->life->enter(b.comm, 3);
    for (int i = 0; i < 3; i++)
        fill_frame(&b.frames[i], 100, 2, (float)(2 * i));
    come(&b, 0);
    come(&b, 2);
    assert_int_equal(b.fake.n_exchanges, 0);
    b.comm->life->leave(b.comm, 1);
    assert_int_equal(b.fake.n_exchanges, 1);
    assert_true(b.fake.merged.items[0].rows.values[0] == 2);
    assert_true(b.fake.merged.grads->data.data[0][0] == 2);
    assert_int_equal(b.fake.merged.samples, 20);
    fl_lockstep_end(b.fake.core, FL_OK);
    expect_went_on(&b, 0);
    expect_went_on(&b, 2);
    come(&b, 0);
    b.comm->life->leave(b.comm, 2);
    assert_int_equal(b.fake.n_exchanges, 2);
    fl_lockstep_end(b.fake.core, FL_OK);
    b.comm->life->leave(b.comm, 0);
    assert_int_equal(b.fake.n_exchanges, 2);
    bench_release(&b);
}

static void what_a_leaving_thread_handed_over_goes_with_it(void **state)
{
    bench b;

    (void)state;
    bench_init(&b);
    b.comm->life->enter(b.comm, 2);
    fill_frame(&b.frames[0], 100, 2, 1);
    fill_frame(&b.frames[1], 200, 2, 5);
    assert_ok(hand_over(&b.frames[1], b.comm));
    come(&b, 0);
    b.comm->life->leave(b.comm, 1);
    assert_int_equal(b.fake.n_exchanges, 1);
    assert_int_equal(b.fake.merged.items[0].rows.n, 2);
    assert_int_equal(b.fake.merged.items[0].rows.keys[0], 100);
    assert_ptr_equal(b.fake.merged.grads->data.data[0], b.frames[0].w_grad);
    fl_lockstep_end(b.fake.core, FL_OK);
    expect_went_on(&b, 0);
    assert_int_equal(fl_cluster_stats_of(b.cluster)->gradients_made, 8);
    assert_int_equal(fl_cluster_stats_of(b.cluster)->gradients_applied, 4);
    bench_release(&b);
}

static void a_batch_that_failed_leaves_nothing_to_the_next(void **state)
{
    bench b;

    (void)state;
    bench_init(&b);
    assert_int_equal(b.comm->life->step(b.comm), 0);
    fill_frame(&b.frames[0], 100, 2, 1);
    assert_ok(hand_over(&b.frames[0], b.comm));
    assert_int_equal(b.comm->life->step(b.comm), 0);
    fill_frame(&b.frames[0], 300, 1, 1);
    come(&b, 0);
    assert_int_equal(b.fake.merged.items[0].rows.n, 1);
    assert_int_equal(b.fake.merged.items[0].rows.keys[0], 300);
    fl_lockstep_end(b.fake.core, FL_OK);
    assert_int_equal(b.comm->life->step(b.comm), 1);
    bench_release(&b);
}

static void a_second_run_at_the_same_time_is_refused(void **state)
{
    bench b;

    (void)state;
    bench_init(&b);
    come(&b, 0);
    b.frames[1].barrier.worker = b.frames[1].emb.worker = worker_of(0);
    assert_int_equal(
        begin_rows(&b.frames[1], b.comm, b.comm->data->push, &b.frames[1].emb),
        FL_ERR_INVAL);
    assert_says("threads of one run");
    assert_int_equal(reach_barrier(&b, 1), FL_ERR_INVAL);
    fl_lockstep_end(b.fake.core, FL_OK);
    expect_went_on(&b, 0);
    bench_release(&b);
}

/* --- pulls that are held ------------------------------------------------- */

/* As many bytes as the pulls have. */
static void holding_init(bench *b)
{
    static fl_lockstep_ops way;

    way = fake_way;
    way.held_bytes = 3 * (sizeof(uint64_t) + EMB_DIM * sizeof(float));
    bench_init_with(b, &way, &b->fake);
}

static fl_status pull_behind(bench *b, int thread)
{
    frame *f = &b->frames[thread];

    fill_frame(f, 0, 3, 1);
    f->emb.is_behind = true;
    return begin_rows(f, b->comm, b->comm->data->pull, &f->emb);
}

/* Which nobody does here, where there are no servers. */
static void pulls_behind_a_batch_are_for_the_mode_to_send(void **state)
{
    fl_pull_list pulls;
    bench b;

    (void)state;
    holding_init(&b);
    b.comm->life->enter(b.comm, 2);
    assert_int_equal(pull_behind(&b, 2), FL_PENDING);
    assert_int_equal(pull_behind(&b, 3), FL_PENDING);
    come(&b, 0);
    come(&b, 1);
    pulls = fl_lockstep_take_pulls(b.fake.core);
    assert_int_equal(pulls.len, 2);
    assert_ptr_equal(pulls.data[0], &b.frames[2].emb);
    assert_ptr_equal(pulls.data[1], &b.frames[3].emb);
    fl_vec_release(&pulls);
    fl_lockstep_end(b.fake.core, FL_OK);
    for (int i = 2; i < 4; i++)
        assert_int_equal(fl_comm_result(&b.frames[i].emb.answer), FL_PENDING);
    pulls = fl_lockstep_take_pulls(b.fake.core);
    assert_int_equal(pulls.len, 0);
    bench_release(&b);
}

static void a_thread_that_leaves_takes_its_held_pulls_along(void **state)
{
    bench b;

    (void)state;
    holding_init(&b);
    b.comm->life->enter(b.comm, 2);
    assert_int_equal(pull_behind(&b, 0), FL_PENDING);
    assert_int_equal(pull_behind(&b, 1), FL_PENDING);
    b.comm->life->leave(b.comm, 1);
    assert_int_equal(fl_comm_result(&b.frames[0].emb.answer), FL_PENDING);
    assert_int_equal(fl_comm_result(&b.frames[1].emb.answer), FL_ERR_CLOSED);
    assert_says("thread 1 has ended");
    b.comm->life->leave(b.comm, 0);
    assert_int_equal(fl_comm_result(&b.frames[0].emb.answer), FL_ERR_CLOSED);
    bench_release(&b);
}

static void an_exchange_that_fails_refuses_what_is_held(void **state)
{
    bench b;

    (void)state;
    holding_init(&b);
    assert_int_equal(pull_behind(&b, 1), FL_PENDING);
    come(&b, 0);
    fl_lockstep_end(b.fake.core,
                    fl_err_set(FL_ERR_TIMEOUT, "server 1 is gone"));
    assert_int_equal(fl_comm_result(&b.frames[1].emb.answer), FL_ERR_TIMEOUT);
    assert_says("server 1 is gone");
    assert_int_equal(pull_behind(&b, 2), FL_ERR_TIMEOUT);
    bench_release(&b);
}

/* --- errors ------------------------------------------------------------- */

static void an_error_reaches_all_who_wait_and_all_who_come_later(void **state)
{
    bench b;

    (void)state;
    bench_init(&b);
    b.comm->life->enter(b.comm, 2);
    come(&b, 0);
    come(&b, 1);
    fl_lockstep_end(b.fake.core,
                    fl_err_set(FL_ERR_TIMEOUT, "server 1 is gone"));
    for (int i = 0; i < 2; i++) {
        fl_err_set(FL_ERR_IO, "something else");
        assert_int_equal(fl_comm_result(&b.frames[i].barrier.answer),
                         FL_ERR_TIMEOUT);
        assert_says("server 1 is gone");
    }
    assert_int_equal(reach_barrier(&b, 0), FL_ERR_TIMEOUT);
    assert_int_equal(hand_over(&b.frames[1], b.comm), FL_ERR_TIMEOUT);
    assert_int_equal(
        do_call(&b.frames[0], b.comm, b.comm->data->recv, &b.frames[0].recv),
        FL_ERR_TIMEOUT);
    b.comm->life->leave(b.comm, 0);
    b.comm->life->leave(b.comm, 1);
    assert_int_equal(b.fake.n_exchanges, 1);
    fl_err_set(FL_ERR_IO, "something else");
    assert_int_equal(b.comm->life->stop(b.comm), FL_ERR_TIMEOUT);
    assert_says("server 1 is gone");
    assert_int_equal(fl_cluster_stats_of(b.cluster)->gradients_applied, 0);
    bench_release(&b);
}

static void no_memory_to_merge_is_told_to_all(void **state)
{
    bench b;

    (void)state;
    for (uint64_t n = 1; n <= 2; n++) {
        bench_init(&b);
        b.comm->life->enter(b.comm, 2);
        fill_frame(&b.frames[0], 1, 2, 1);
        fill_frame(&b.frames[1], 1, 2, 1);
        come(&b, 0);
        assert_ok(hand_over(&b.frames[1], b.comm));
        fl_alloc_fail_after(n);
        assert_int_equal(reach_barrier(&b, 1), FL_PENDING);
        fl_alloc_fail_after(0);
        assert_int_equal(b.fake.n_exchanges, 0);
        for (int i = 0; i < 2; i++)
            assert_int_equal(fl_comm_result(&b.frames[i].barrier.answer),
                             FL_ERR_NOMEM);
        bench_release(&b);
    }
}

static void names_and_sizes_are_those_of_the_job(void **state)
{
    bench b;

    (void)state;
    bench_init(&b);
    b.frames[0].emb.table = "other";
    assert_int_equal(
        begin_rows(&b.frames[0], b.comm, b.comm->data->push, &b.frames[0].emb),
        FL_ERR_NOTFOUND);
    b.frames[0].wide.rows.dim = 3;
    assert_int_equal(
        begin_rows(&b.frames[0], b.comm, b.comm->data->push, &b.frames[0].wide),
        FL_ERR_INVAL);
    b.frames[0].w_values.n = 5;
    assert_int_equal(
        begin_call(&b.frames[0], b.comm, b.comm->data->send, &b.frames[0].w),
        FL_ERR_INVAL);
    assert_says("parameter w");
    assert_int_equal(fl_cluster_stats_of(b.cluster)->gradients_made, 0);
    bench_release(&b);
}

/* --- fresh values ------------------------------------------------------- */

/* What the servers would have answered. */
static void put_values(bench *b, float x)
{
    const fl_cluster_blocks *p = fl_lockstep_params(b->fake.core);

    assert_int_equal(p->blocks.len, 3);
    for (size_t i = 0; i < p->blocks.len; i++)
        for (uint64_t k = 0; k < p->blocks.data[i].n; k++)
            p->data.data[i][k] = x + (float)(10 * i + k);
}

static void values_are_copied_once_per_round(void **state)
{
    float w[W_FLOATS] = { 0 }, bias[B_FLOATS] = { 0 };
    bench b;

    (void)state;
    bench_init(&b);
    b.comm->life->enter(b.comm, 2);
    for (int round = 0; round < 2; round++) {
        float x = (float)(1000 * round);

        for (int i = 0; i < 2; i++) {
            frame_params(&b.frames[i], w, bias);
            come(&b, i);
        }
        put_values(&b, x);
        fl_lockstep_end(b.fake.core, FL_OK);
        assert_ok(begin_call(&b.frames[1], b.comm, b.comm->data->recv,
                             &b.frames[1].recv));
        assert_true(w[0] == x && w[3] == x + 3 && w[4] == x + 10);
        assert_true(bias[2] == x + 22);
        w[0] = -1; /* as if it was read and nobody may write any more */
        assert_ok(begin_call(&b.frames[0], b.comm, b.comm->data->recv,
                             &b.frames[0].recv));
        assert_true(w[0] == -1);
    }
    bench_release(&b);
}

/* --- many threads ------------------------------------------------------- */

#define ROUNDS 60

/* Exchanges that are ended by a thread of their own, as a client's loop does.
   Every thread sends the number of its round, so the mean is about that number.
 */
typedef struct clock_mode {
    fl_lockstep *core;
    fl_mutex mu;
    fl_cond cond;
    int n_begun, n_ended;  /* guarded by mu */
    bool is_over;          /* guarded by mu */
    const fl_merged *last; /* guarded by mu */
    uint64_t n_wrong;      /* of the ending thread */
} clock_mode;

static void clock_exchange(void *mode, const fl_merged *merged)
{
    clock_mode *m = mode;
    float mean;

    fl_lock(&m->mu);
    m->last = merged;
    mean = merged->grads->data.data[2][0];
    if (fabsf(mean - (float)m->n_begun) > 0.01f)
        m->n_wrong++;
    m->n_begun++;
    fl_cond_wake_all(&m->cond);
    fl_unlock(&m->mu);
}

static void end_exchanges(void *arg)
{
    clock_mode *m = arg;

    fl_lock(&m->mu);
    for (;;) {
        while (m->n_begun == m->n_ended && !m->is_over)
            fl_cond_wait(&m->cond, &m->mu);
        if (m->n_begun == m->n_ended)
            break;
        m->n_ended++;
        fl_unlock(&m->mu);
        for (size_t i = 0; i < 3; i++)
            fl_lockstep_params(m->core)->data.data[i][0] = (float)m->n_ended;
        fl_lockstep_end(m->core, FL_OK);
        fl_lock(&m->mu);
    }
    fl_unlock(&m->mu);
}

static uint64_t clock_step(void *mode)
{
    (void)mode;
    return 0;
}

static void clock_free(void *mode)
{
    (void)mode;
}

static const fl_lockstep_ops clock_way = { .name = "clock",
                                           .exchange = clock_exchange,
                                           .step = clock_step,
                                           .free = clock_free };

typedef struct racer {
    bench *bench;
    int thread, n_rounds;
    float *w, *b;
    fl_status st;
    bool is_wrong;
} racer;

static fl_status race_round(racer *r, int round)
{
    fl_comm *c = r->bench->comm;
    frame *f = &r->bench->frames[r->thread];

    fill_frame(f, (uint64_t)(r->thread + round), 8, (float)round);
    f->b_grad[0] = (float)round;
    FL_TRY(hand_over(f, c));
    FL_TRY(do_call(f, c, c->data->barrier, &f->barrier));
    FL_TRY(do_call(f, c, c->data->recv, &f->recv));
    r->is_wrong |= r->b[0] != (float)(round + 1);
    return FL_OK;
}

static void race(void *arg)
{
    racer *r = arg;
    frame *f = &r->bench->frames[r->thread];

    frame_params(f, r->w, r->b);
    for (int i = 0; i < r->n_rounds && !r->st; i++)
        r->st = race_round(r, i);
    r->bench->comm->life->leave(r->bench->comm, r->thread);
}

static void threads_with_unequal_data_meet_until_the_last_is_done(void **state)
{
    float w[W_FLOATS] = { 0 }, bias[B_FLOATS] = { 0 };
    fl_thread *ender, *threads[THREADS];
    racer racers[THREADS];
    clock_mode m = { 0 };
    bench b;

    (void)state;
    bench_init_with(&b, &clock_way, &m);
    m.core = b.fake.core;
    fl_mutex_init(&m.mu);
    fl_cond_init(&m.cond);
    assert_ok(fl_thread_start(&ender, "ender", end_exchanges, &m));
    b.comm->life->enter(b.comm, THREADS);
    for (int i = 0; i < THREADS; i++) {
        racers[i] = (racer){ &b, i, ROUNDS - 11 * i, w, bias, FL_OK, false };
        assert_ok(fl_thread_start(&threads[i], "racer", race, &racers[i]));
    }
    for (int i = 0; i < THREADS; i++) {
        fl_thread_join(threads[i]);
        assert_int_equal(racers[i].st, FL_OK);
        assert_false(racers[i].is_wrong);
    }
    fl_lock(&m.mu);
    m.is_over = true;
    fl_cond_wake_all(&m.cond);
    fl_unlock(&m.mu);
    fl_thread_join(ender);
    assert_int_equal(m.n_begun, ROUNDS);
    assert_int_equal(m.n_wrong, 0);
    assert_int_equal(fl_cluster_stats_of(b.cluster)->gradients_made,
                     fl_cluster_stats_of(b.cluster)->gradients_applied);
    bench_release(&b);
    fl_cond_release(&m.cond);
    fl_mutex_release(&m.mu);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_thread_alone_sends_from_where_its_gradients_are),
        cmocka_unit_test(the_gradient_of_threads_is_their_mean_in_order),
        cmocka_unit_test(
            parts_of_replicas_are_scaled_and_merged_gradients_are_not),
        cmocka_unit_test(a_table_without_keys_gets_its_push),
        cmocka_unit_test(a_thread_that_leaves_lets_the_others_go_on),
        cmocka_unit_test(what_a_leaving_thread_handed_over_goes_with_it),
        cmocka_unit_test(a_batch_that_failed_leaves_nothing_to_the_next),
        cmocka_unit_test(a_second_run_at_the_same_time_is_refused),
        cmocka_unit_test(pulls_behind_a_batch_are_for_the_mode_to_send),
        cmocka_unit_test(a_thread_that_leaves_takes_its_held_pulls_along),
        cmocka_unit_test(an_exchange_that_fails_refuses_what_is_held),
        cmocka_unit_test(an_error_reaches_all_who_wait_and_all_who_come_later),
        cmocka_unit_test(no_memory_to_merge_is_told_to_all),
        cmocka_unit_test(names_and_sizes_are_those_of_the_job),
        cmocka_unit_test(values_are_copied_once_per_round),
        cmocka_unit_test(threads_with_unequal_data_meet_until_the_last_is_done),
    };

    be_quiet();
    return cmocka_run_group_tests(tests, NULL, NULL);
}
