/* test_coll_part.c - three workers that serve themselves make collective calls,
 * whose parts are messages between them. */
#include "client_kit.h"

#include "coll/coll.h"

#define WORKERS 3
#define LARGE 100000

typedef struct worker {
    job *j;
    int rank;
    fl_coll *c;
    outcome o;
} worker;

static float v[WORKERS][LARGE];

/* --- the way ---------------------------------------------------------------- */

static fl_status send_part(void *arg, const fl_coll_out *o)
{
    worker *w = arg;
    fl_client_part p = { { o->head, o->head_bytes }, { o->bytes, o->n } };

    return fl_client_send_part(w->j->clients[w->rank], o->to, &p,
                               (fl_ending){ o->ended, o->arg });
}

static void take_part(void *arg, int from, const void *part, size_t len,
                      struct fl_reply *reply)
{
    worker *w = arg;

    fl_coll_on_part(w->c, from, part, len,
                    (fl_coll_receipt){ fl_server_part_taken, reply });
}

static void open_workers(job *j, worker *w, const fl_sim_faults *f)
{
    job_init(j, WORKERS, WORKERS, f);
    job_wait(j);
    for (int r = 0; r < WORKERS; r++) {
        fl_coll_options o = { .rank = r,
                              .n_ranks = WORKERS,
                              .machine = "",
                              .link = { send_part, &w[r] } };

        w[r] = (worker){ .j = j, .rank = r };
        assert_ok(fl_coll_new(&w[r].c, &o));
        fl_server_on_part(j->servers[r], take_part, &w[r]);
    }
}

static void close_workers(job *j, worker *w)
{
    for (int r = 0; r < WORKERS; r++) {
        fl_server_on_part(j->servers[r], NULL, NULL);
        fl_coll_free(w[r].c);
    }
    job_release(j);
}

static void begin_sum(worker *w, size_t n)
{
    fl_coll_call a = { .kind = FL_COLL_ALLREDUCE,
                       .in = v[w->rank],
                       .out = v[w->rank],
                       .n = n,
                       .done = on_outcome,
                       .arg = &w->o };

    w->o = (outcome){ 0 };
    for (size_t i = 0; i < n; i++)
        v[w->rank][i] = (float)(w->rank + 1) * (float)(i % 100);
    fl_coll_begin(w->c, &a);
}

static void expect_sum(worker *w, size_t n)
{
    for (size_t i = 0; i < n; i++)
        assert_true(v[w->rank][i] == 6 * (float)(i % 100));
}

/* --- tests ------------------------------------------------------------------ */

static void parts_travel_between_workers_that_serve(void **state)
{
    static const fl_sim_faults faults[] = {
        { .seed = 1, .delay_hi_ms = 3 },
        { .seed = 2, .delay_hi_ms = 3, .cut_after_bytes = 300000 },
    };
    static const size_t sizes[] = { 10, LARGE, 1000 };
    worker w[WORKERS];
    job j;
    (void)state;

    for (size_t f = 0; f < FL_LEN(faults); f++) {
        open_workers(&j, w, &faults[f]);
        for (size_t i = 0; i < FL_LEN(sizes); i++) {
            for (int r = 0; r < WORKERS; r++)
                begin_sum(&w[r], sizes[i]);
            for (int r = 0; r < WORKERS; r++) {
                assert_ok(job_end(&j, &w[r].o));
                expect_sum(&w[r], sizes[i]);
            }
        }
        close_workers(&j, w);
    }
}

/* Trainer 1 has not begun the call: its server owes the reply. */
static void a_part_is_answered_when_it_is_taken(void **state)
{
    worker w[WORKERS];
    job j;
    (void)state;

    open_workers(&j, w, &(fl_sim_faults){ .seed = 1, .delay_hi_ms = 3 });
    begin_sum(&w[0], 10);
    begin_sum(&w[2], 10);
    job_run(&j, 5000);
    assert_int_equal(w[0].o.n_calls, 0);
    begin_sum(&w[1], 10);
    for (int r = 0; r < WORKERS; r++) {
        assert_ok(job_end(&j, &w[r].o));
        expect_sum(&w[r], 10);
    }
    close_workers(&j, w);
}

static void a_server_whose_worker_makes_no_calls_says_so(void **state)
{
    worker w[WORKERS];
    job j;
    (void)state;

    open_workers(&j, w, &(fl_sim_faults){ .seed = 1, .delay_hi_ms = 3 });
    fl_server_on_part(j.servers[0], NULL, NULL);
    begin_sum(&w[1], 10);
    assert_int_equal(job_end(&j, &w[1].o), FL_ERR_CLOSED);
    assert_has(fl_last_error(), "worker 0: server 0: nobody makes collective "
                                "calls at server 0");
    close_workers(&j, w);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(parts_travel_between_workers_that_serve),
        cmocka_unit_test(a_part_is_answered_when_it_is_taken),
        cmocka_unit_test(a_server_whose_worker_makes_no_calls_says_so),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
