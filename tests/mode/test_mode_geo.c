/* test_mode_geo.c - trainers with copies of their own that exchange
 * differences, against real servers. */
#include "geo_kit.h"

#include <math.h>

#include "mode/geo_rows.h"

#define KEYS 50
#define ROWS (KEYS * GEO_DIM)
#define SGD GEO_INIT " optimizer=sgd"
#define ADAGRAD GEO_INIT " optimizer=adagrad"

static void draw(float *out, size_t n, uint64_t dice)
{
    for (size_t i = 0; i < n; i++)
        out[i] = (float)(fl_mix64((dice << 20) + i) % 2001) / 1000.0f - 1;
}

/* Different ones, anywhere in 64 bits. */
static void draw_keys(uint64_t *keys, size_t n, uint64_t dice)
{
    for (size_t i = 0; i < n; i++)
        keys[i] = fl_mix64((dice << 20) + i);
}

static void update_dense(float *w, uint64_t dice)
{
    float g[GEO_FLOATS];

    draw(g, GEO_FLOATS, dice);
    for (size_t i = 0; i < GEO_FLOATS; i++)
        w[i] -= 0.1f * g[i];
}

static void update_rows(fl_comm *c, const uint64_t *keys, uint64_t dice)
{
    float g[ROWS];

    draw(g, ROWS, dice);
    assert_ok(push(c, keys, KEYS, g));
}

static void expect_near(const float *a, const float *b, size_t n)
{
    for (size_t i = 0; i < n; i++)
        if (!(fabsf(a[i] - b[i]) < 1e-5f))
            fail_msg("%zu: %g is not %g", i, (double)a[i], (double)b[i]);
}

/* --- one trainer ---------------------------------------------------------- */

static void compare_with_local(int n_servers, const char *period,
                               const char *settings)
{
    uint64_t keys[KEYS];
    float w[GEO_FLOATS], mine[ROWS], theirs[ROWS];
    fl_comm *local = fl_mode_local_new();
    trainer r;
    geo_cluster t;

    geo_cluster_init(&t, n_servers, 1, period);
    trainer_init(&r, &t, 0, settings);
    assert_ok(trainer_start(&r));
    assert_ok(local->life->declare(local, "emb", settings, GEO_SEED));
    memcpy(w, r.w, sizeof(w));
    for (uint64_t batch = 0; batch < 40; batch++) {
        draw_keys(keys, KEYS, batch % 7);
        update_rows(local, keys, batch);
        update_rows(r.comm, keys, batch);
        update_dense(w, batch);
        update_dense(r.w, batch);
        assert_ok(reach_barrier(&r));
    }
    for (uint64_t i = 0; i < 7; i++) {
        draw_keys(keys, KEYS, i);
        assert_ok(pull(local, keys, KEYS, theirs));
        assert_ok(pull(r.comm, keys, KEYS, mine));
        assert_memory_equal(mine, theirs, sizeof(mine));
    }
    assert_memory_equal(r.w, w, sizeof(w));
    fl_comm_free(local);
    end_job(&t, &r, 1);
}

static void one_trainer_trains_as_a_local_process_to_the_bit(void **state)
{
    (void)state;
    compare_with_local(2, "geo_need_push_nums=1", SGD);
    compare_with_local(1, "geo_need_push_nums=3", SGD);
}

static void adagrad_keeps_its_state_through_exchanges(void **state)
{
    (void)state;
    compare_with_local(2, "geo_need_push_nums=1", ADAGRAD);
}

static void the_last_batches_are_exchanged_when_it_stops(void **state)
{
    uint64_t keys[KEYS];
    float mine[ROWS], theirs[ROWS], w[GEO_FLOATS];
    trainer r;
    geo_cluster t;

    (void)state;
    geo_cluster_init(&t, 2, 1, "geo_need_push_nums=1000");
    trainer_init(&r, &t, 0, SGD);
    assert_ok(trainer_start(&r));
    draw_keys(keys, KEYS, 1);
    update_rows(r.comm, keys, 1);
    update_dense(r.w, 1);
    assert_ok(reach_barrier(&r));
    assert_ok(pull(r.comm, keys, KEYS, mine));
    assert_int_equal(push_requests(&t), 0);
    assert_ok(stop(&r));
    assert_int_equal(pushed_rows(&t), KEYS);
    server_rows(&t, keys, KEYS, theirs);
    server_dense(&t, w);
    expect_near(theirs, mine, ROWS);
    expect_near(w, r.w, GEO_FLOATS);
    assert_int_equal(call(&r, r.comm->data->barrier, NULL, 0), FL_ERR_CLOSED);
    end_job(&t, &r, 1);
}

static void only_rows_that_were_trained_travel(void **state)
{
    uint64_t keys[KEYS];
    fl_cluster_stats *counts;
    float rows[ROWS];
    trainer r;
    geo_cluster t;

    (void)state;
    geo_cluster_init(&t, 2, 1, "geo_need_push_nums=5");
    trainer_init(&r, &t, 0, SGD);
    assert_ok(trainer_start(&r));
    draw_keys(keys, KEYS, 1);
    assert_ok(pull(r.comm, keys, KEYS, rows));
    for (int batch = 0; batch < 5; batch++) {
        assert_ok(push(r.comm, keys, 10, rows));
        assert_ok(reach_barrier(&r));
    }
    assert_ok(stop(&r));
    counts = fl_cluster_stats_of(r.cluster);
    assert_int_equal(pushed_rows(&t), 10);
    /* Rows once; the dense parameter in the exchange and at the end. */
    assert_int_equal(atomic_load(&counts->gradients_made), 10 + 2);
    assert_int_equal(atomic_load(&counts->gradients_applied), 10 + 2);
    end_job(&t, &r, 1);
}

static void ids_have_64_bits(void **state)
{
    uint64_t keys[] = { 0, 5, 5 + (UINT64_C(1) << 32), UINT64_MAX };
    float first[FL_LEN(keys) * GEO_DIM], g[FL_LEN(keys) * GEO_DIM];
    float now[FL_LEN(keys) * GEO_DIM];
    size_t n = FL_LEN(keys);
    trainer r;
    geo_cluster t;

    (void)state;
    geo_cluster_init(&t, 2, 1, "");
    trainer_init(&r, &t, 0, SGD);
    assert_ok(trainer_start(&r));
    server_rows(&t, keys, n, first);
    for (size_t i = 0; i < n * GEO_DIM; i++)
        g[i] = (float)(i / GEO_DIM);
    assert_ok(push(r.comm, keys, n, g));
    assert_ok(reach_barrier(&r));
    assert_ok(stop(&r));
    server_rows(&t, keys, n, now);
    for (size_t i = 0; i < n * GEO_DIM; i++)
        first[i] -= 0.5f * g[i];
    expect_near(now, first, n * GEO_DIM);
    end_job(&t, &r, 1);
}

static void large_exchanges_travel_in_many_messages(void **state)
{
    enum { MANY = 20000 };
    uint64_t *keys = fl_alloc(MANY * sizeof(*keys));
    float *g = fl_alloc(MANY * GEO_DIM * sizeof(*g));
    float *mine = fl_alloc(MANY * GEO_DIM * sizeof(*mine));
    float *theirs = fl_alloc(MANY * GEO_DIM * sizeof(*theirs));
    trainer r;
    geo_cluster t;

    (void)state;
    geo_cluster_init(&t, 1, 1, "geo_need_push_nums=2 max_message_bytes=65536");
    trainer_init(&r, &t, 0, SGD);
    assert_ok(trainer_start(&r));
    draw_keys(keys, MANY, 1);
    draw(g, MANY * GEO_DIM, 1);
    for (int i = 0; i < 2; i++) {
        assert_ok(push(r.comm, keys, MANY, g));
        assert_ok(reach_barrier(&r));
    }
    assert_ok(stop(&r));
    assert_true(push_requests(&t) > 10);
    assert_int_equal(pushed_rows(&t), MANY);
    assert_ok(pull(r.comm, keys, MANY, mine));
    server_rows(&t, keys, MANY, theirs);
    expect_near(theirs, mine, MANY * GEO_DIM);
    end_job(&t, &r, 1);
    fl_free(keys);
    fl_free(g);
    fl_free(mine);
    fl_free(theirs);
}

static void
a_startup_program_that_runs_again_takes_the_servers_rows(void **state)
{
    uint64_t keys[KEYS];
    float before[ROWS], after[ROWS], w[GEO_FLOATS];
    trainer r;
    geo_cluster t;

    (void)state;
    geo_cluster_init(&t, 2, 1, "geo_need_push_nums=1");
    trainer_init(&r, &t, 0, SGD);
    assert_ok(trainer_start(&r));
    draw_keys(keys, KEYS, 1);
    update_rows(r.comm, keys, 1);
    update_dense(r.w, 1);
    assert_ok(reach_barrier(&r));
    assert_ok(pull(r.comm, keys, KEYS, before));
    memcpy(w, r.w, sizeof(w));
    assert_ok(trainer_start(&r));
    assert_ok(pull(r.comm, keys, KEYS, after));
    expect_near(after, before, ROWS);
    expect_near(r.w, w, GEO_FLOATS);
    end_job(&t, &r, 1);
}

/* --- threads -------------------------------------------------------------- */

#define THREADS 4
#define BATCHES 200

typedef struct hogwild {
    trainer *r;
    uint64_t keys[KEYS];
    fl_err err;
} hogwild;

/* Every thread adds 0.5 to every key in every batch: sums are exact. */
static fl_status train_batches(hogwild *h)
{
    float g[ROWS];

    for (size_t i = 0; i < ROWS; i++)
        g[i] = -1;
    for (int i = 0; i < BATCHES; i++) {
        FL_TRY(push(h->r->comm, h->keys, KEYS, g));
        FL_TRY(reach_barrier(h->r));
    }
    return FL_OK;
}

static void run_hogwild(void *arg)
{
    hogwild *h = arg;

    fl_err_save(&h->err, train_batches(h));
}

static void no_update_of_many_threads_is_lost(void **state)
{
    fl_thread *threads[THREADS];
    hogwild h[THREADS];
    float first[ROWS], now[ROWS];
    trainer r;
    geo_cluster t;

    (void)state;
    geo_cluster_init(&t, 2, 1, "geo_need_push_nums=3");
    trainer_init(&r, &t, 0, "dim=3 init=uniform(-1,1)");
    assert_ok(trainer_start(&r));
    for (int i = 0; i < THREADS; i++) {
        h[i].r = &r;
        draw_keys(h[i].keys, KEYS, 1);
    }
    assert_ok(pull(r.comm, h[0].keys, KEYS, first));
    for (int i = 0; i < THREADS; i++)
        assert_ok(fl_thread_start(&threads[i], "hogwild", run_hogwild, &h[i]));
    for (int i = 0; i < THREADS; i++)
        fl_thread_join(threads[i]);
    for (int i = 0; i < THREADS; i++)
        if (h[i].err.status)
            fail_msg("%s", h[i].err.text);
    assert_ok(stop(&r));
    server_rows(&t, h[0].keys, KEYS, now);
    for (size_t i = 0; i < ROWS; i++)
        assert_true(fabsf(now[i] - first[i] - THREADS * BATCHES * 0.5f) <
                    0.01f);
    end_job(&t, &r, 1);
}

/* --- several trainers ----------------------------------------------------- */

/* Nothing more is learned: what is left of differences is published. */
static void settle_down(trainer *r, int n, const uint64_t *keys, size_t n_keys)
{
    float *zeros = fl_alloc(n_keys * GEO_DIM * sizeof(*zeros));

    for (int i = 0; i < 60; i++)
        for (int k = 0; k < n; k++) {
            if (r[k].settings)
                assert_ok(push(r[k].comm, keys, n_keys, zeros));
            assert_ok(reach_barrier(&r[k]));
        }
    fl_free(zeros);
}

static void two_trainers_come_to_the_same_values(void **state)
{
    uint64_t keys[2 * KEYS];
    float values[2][2 * ROWS], theirs[2 * ROWS], w[GEO_FLOATS], first[ROWS];
    trainer r[2];
    geo_cluster t;

    (void)state;
    geo_cluster_init(&t, 2, 2, "geo_need_push_nums=1");
    for (int i = 0; i < 2; i++)
        trainer_init(&r[i], &t, i, SGD);
    at_once(r, 2, trainer_start);
    assert_memory_equal(r[0].w, r[1].w, sizeof(r[0].w));
    draw_keys(keys, 2 * KEYS, 3);
    assert_ok(pull(r[1].comm, keys, KEYS, first));
    /* Each has rows of its own, and the second half of the keys is trained by
       both. */
    for (uint64_t batch = 0; batch < 10; batch++)
        for (int i = 0; i < 2; i++) {
            update_rows(r[i].comm, keys + (i && batch % 2 ? KEYS : 0),
                        batch * 2 + (uint64_t)i);
            update_dense(r[i].w, batch * 2 + (uint64_t)i);
            assert_ok(reach_barrier(&r[i]));
        }
    settle_down(r, 2, keys, 2 * KEYS);
    for (int i = 0; i < 2; i++)
        assert_ok(pull(r[i].comm, keys, 2 * KEYS, values[i]));
    server_rows(&t, keys, 2 * KEYS, theirs);
    server_dense(&t, w);
    expect_near(values[0], theirs, 2 * ROWS);
    expect_near(values[1], theirs, 2 * ROWS);
    expect_near(r[0].w, w, GEO_FLOATS);
    expect_near(r[1].w, w, GEO_FLOATS);
    assert_true(memcmp(first, theirs, sizeof(first)) != 0);
    end_job(&t, r, 2);
}

/* A trainer alone knows of a row: the other gets it all the same. */
static void a_trainer_gets_rows_that_it_has_never_seen(void **state)
{
    uint64_t keys[KEYS];
    float theirs[ROWS], mine[ROWS];
    trainer r[2];
    geo_cluster t;

    (void)state;
    geo_cluster_init(&t, 2, 2, "geo_need_push_nums=1");
    for (int i = 0; i < 2; i++)
        trainer_init(&r[i], &t, i, SGD);
    at_once(r, 2, trainer_start);
    draw_keys(keys, KEYS, 3);
    update_rows(r[0].comm, keys, 1);
    for (int i = 0; i < 3; i++)
        assert_ok(reach_barrier(&r[0]));
    for (int i = 0; i < 3; i++)
        assert_ok(reach_barrier(&r[1]));
    server_rows(&t, keys, KEYS, theirs);
    assert_ok(pull(r[1].comm, keys, KEYS, mine));
    expect_near(mine, theirs, ROWS);
    end_job(&t, r, 2);
}

static fl_status connect_only(trainer *r)
{
    return fl_cluster_ready(r->cluster);
}

static void a_trainer_that_comes_late_starts_with_what_was_learned(void **state)
{
    uint64_t keys[KEYS];
    float theirs[ROWS], mine[ROWS], first[ROWS];
    trainer r[2];
    geo_cluster t;

    (void)state;
    geo_cluster_init(&t, 2, 2, "geo_need_push_nums=1");
    for (int i = 0; i < 2; i++)
        trainer_init(&r[i], &t, i, SGD);
    at_once(r, 2, connect_only);
    assert_ok(trainer_start(&r[0]));
    draw_keys(keys, KEYS, 3);
    assert_ok(pull(r[0].comm, keys, KEYS, first));
    update_rows(r[0].comm, keys, 1);
    update_dense(r[0].w, 1);
    for (int i = 0; i < 3; i++)
        assert_ok(reach_barrier(&r[0]));
    assert_ok(trainer_start(&r[1]));
    server_rows(&t, keys, KEYS, theirs);
    assert_ok(pull(r[1].comm, keys, KEYS, mine));
    expect_near(mine, theirs, ROWS);
    assert_true(memcmp(mine, first, sizeof(mine)) != 0);
    end_job(&t, r, 2);
}

/* More rows than a message holds, in the first exchange and in a later one. */
static void a_large_table_comes_late_and_in_pages(void **state)
{
    enum { MANY = 9000 };
    uint64_t *keys = fl_alloc(MANY * sizeof(*keys));
    size_t floats = (size_t)MANY * GEO_DIM, bytes = floats * sizeof(float);
    float *theirs = fl_alloc(bytes), *mine = fl_alloc(bytes);
    trainer r[2];
    geo_cluster t;

    (void)state;
    geo_cluster_init(&t, 2, 2, "geo_need_push_nums=1 max_message_bytes=65536");
    for (int i = 0; i < 2; i++)
        trainer_init(&r[i], &t, i, SGD);
    at_once(r, 2, connect_only);
    assert_ok(trainer_start(&r[0]));
    draw_keys(keys, MANY, 3);
    for (uint64_t round = 0; round < 2; round++) {
        draw(mine, floats, round);
        assert_ok(push(r[0].comm, keys, MANY, mine));
        for (int i = 0; i < 3; i++)
            assert_ok(reach_barrier(&r[0]));
        if (!round)
            assert_ok(trainer_start(&r[1]));
        for (int i = 0; i < 3; i++)
            assert_ok(reach_barrier(&r[1]));
        server_rows(&t, keys, MANY, theirs);
        assert_ok(pull(r[1].comm, keys, MANY, mine));
        expect_near(mine, theirs, floats);
    }
    end_job(&t, r, 2);
    fl_free(keys);
    fl_free(theirs);
    fl_free(mine);
}

static void a_model_without_tables_exchanges_its_parameters(void **state)
{
    float w[GEO_FLOATS];
    trainer r[3];
    geo_cluster t;

    (void)state;
    geo_cluster_init(&t, 2, 3, "geo_need_push_nums=1");
    for (int i = 0; i < 3; i++)
        trainer_init(&r[i], &t, i, NULL);
    at_once(r, 3, trainer_start);
    for (int i = 0; i < 3; i++)
        for (uint64_t batch = 0; batch < 5; batch++) {
            update_dense(r[i].w, 5 * (uint64_t)i + batch);
            assert_ok(reach_barrier(&r[i]));
        }
    settle_down(r, 3, NULL, 0);
    server_dense(&t, w);
    for (int i = 0; i < 3; i++)
        expect_near(r[i].w, w, GEO_FLOATS);
    assert_int_equal(push_requests(&t), 0);
    end_job(&t, r, 3);
}

/* --- failures ------------------------------------------------------------- */

static void servers_that_are_gone_are_told_at_every_batch_and_stop(void **state)
{
    fl_status st = FL_OK;
    trainer r;
    geo_cluster t;

    (void)state;
    geo_cluster_init(&t, 2, 1,
                     "geo_need_push_nums=1 restart_timeout_ms=1000 "
                     "connect_timeout_ms=5000");
    trainer_init(&r, &t, 0, SGD);
    assert_ok(trainer_start(&r));
    geo_cluster_close_servers(&t);
    while (!st)
        st = reach_barrier(&r);
    assert_says("mode geo: an exchange");
    assert_int_equal(reach_barrier(&r), st);
    assert_says("mode geo: an exchange");
    assert_int_equal(stop(&r), st);
    assert_says("mode geo: an exchange");
    trainer_release(&r);
    geo_cluster_release(&t);
}

static void what_has_no_first_values_is_not_exchanged(void **state)
{
    float g[GEO_DIM] = { 0 };
    uint64_t key = 1;
    fl_status st;
    trainer r;
    geo_cluster t;

    (void)state;
    geo_cluster_init(&t, 1, 1, "geo_need_push_nums=1");
    trainer_init(&r, &t, 0, SGD);
    assert_int_equal(push(r.comm, &key, 1, g), FL_ERR_NOTFOUND);
    assert_says("run the startup program");
    do
        st = reach_barrier(&r);
    while (!st);
    assert_int_equal(st, FL_ERR_INVAL);
    assert_says("parameter w has no first values");
    assert_int_equal(stop(&r), FL_ERR_INVAL);
    trainer_release(&r);
    geo_cluster_expect_over(&t);
    geo_cluster_release(&t);
}

static void a_trainer_that_never_trained_stops_in_peace(void **state)
{
    trainer r;
    geo_cluster t;

    (void)state;
    geo_cluster_init(&t, 1, 1, "");
    trainer_init(&r, &t, 0, SGD);
    assert_ok(stop(&r));
    assert_ok(stop(&r));
    trainer_release(&r);
    geo_cluster_release(&t);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(one_trainer_trains_as_a_local_process_to_the_bit),
        cmocka_unit_test(adagrad_keeps_its_state_through_exchanges),
        cmocka_unit_test(the_last_batches_are_exchanged_when_it_stops),
        cmocka_unit_test(only_rows_that_were_trained_travel),
        cmocka_unit_test(ids_have_64_bits),
        cmocka_unit_test(large_exchanges_travel_in_many_messages),
        cmocka_unit_test(
            a_startup_program_that_runs_again_takes_the_servers_rows),
        cmocka_unit_test(no_update_of_many_threads_is_lost),
        cmocka_unit_test(two_trainers_come_to_the_same_values),
        cmocka_unit_test(a_trainer_gets_rows_that_it_has_never_seen),
        cmocka_unit_test(
            a_trainer_that_comes_late_starts_with_what_was_learned),
        cmocka_unit_test(a_large_table_comes_late_and_in_pages),
        cmocka_unit_test(a_model_without_tables_exchanges_its_parameters),
        cmocka_unit_test(
            servers_that_are_gone_are_told_at_every_batch_and_stop),
        cmocka_unit_test(what_has_no_first_values_is_not_exchanged),
        cmocka_unit_test(a_trainer_that_never_trained_stops_in_peace),
    };

    be_quiet();
    return cmocka_run_group_tests(tests, NULL, NULL);
}
