/* test_util.c - what workers do together: folding, gathering, shares of files,
 * and what they are told when they do not do the same. */
#include "worker_kit.h"
#include "../dist/mode_list.h"

#include "fleet/allgather.h"

/* Different for every worker and place, and sums of it depend on the order. */
static double value_of(int rank, size_t i)
{
    uint64_t h = fl_mix64(((uint64_t)rank << 32) + i + 1);

    return ldexp((double)(h >> 11) - 0x1p52, (int)(h % 40) - 60);
}

static double fold_of(fl_reduce_kind kind, int n, size_t i)
{
    double a = value_of(0, i);

    for (int rank = 1; rank < n; rank++) {
        double x = value_of(rank, i);

        if (kind == FL_REDUCE_SUM)
            a += x;
        else if (kind == FL_REDUCE_MIN ? x < a : x > a)
            a = x;
    }
    return a;
}

/* --- all_reduce ----------------------------------------------------------- */

static fl_status reduce_n(worker *w, fl_reduce_kind kind, size_t n)
{
    double *values = calloc(n + 1, sizeof(*values));
    bool is_right = true;
    fl_status st;

    for (size_t i = 0; i < n; i++)
        values[i] = value_of(w->rank, i);
    values[n] = 7;
    st = fl_fleet_util_all_reduce(w->fleet, kind, values, n);
    for (size_t i = 0; !st && i < n; i++)
        is_right &= values[i] == fold_of(kind, w->n, i);
    is_right &= values[n] == 7;
    free(values);
    if (!st)
        need(is_right);
    return st;
}

static fl_status reduce_all(worker *w)
{
    static const size_t sizes[] = { 0, 1, 2, 100, 300000 };

    for (size_t i = 0; i < FL_LEN(sizes); i++)
        for (int kind = FL_REDUCE_SUM; kind <= FL_REDUCE_MAX; kind++) {
            fl_status st = reduce_n(w, (fl_reduce_kind)kind, sizes[i]);

            if (st)
                return st;
        }
    return FL_OK;
}

static void values_are_folded_in_the_order_of_ranks(void **state)
{
    (void)state;
    local_workers_run_all(reduce_all, NULL);
}

static fl_status reduce_many(worker *w)
{
    return reduce_n(w, FL_REDUCE_SUM, 20000);
}

static void small_messages_take_more_rounds(void **state)
{
    (void)state;
    local_workers_run(&(local_workers){
        .n = 3, .work = reduce_many, .max_message_bytes = "65536" });
}

static fl_status reduce_nan(worker *w)
{
    for (int kind = FL_REDUCE_SUM; kind <= FL_REDUCE_MAX; kind++) {
        double values[] = { w->rank == w->n - 1 ? (double)NAN : 1,
                            w->rank == 0 ? (double)NAN : 1, 1 };
        fl_status st =
            fl_fleet_util_all_reduce(w->fleet, (fl_reduce_kind)kind, values, 3);

        if (st)
            return st;
        need(isnan(values[0]) && isnan(values[1]) && values[2] >= 1);
    }
    return FL_OK;
}

static void a_value_that_is_none_is_seen_by_all(void **state)
{
    (void)state;
    local_workers_run_all(reduce_nan, NULL);
}

/* --- all_gather ----------------------------------------------------------- */

static fl_status gather_n(worker *w, size_t n)
{
    size_t total = n * (size_t)w->n;
    double *values = calloc(n + 1, sizeof(*values));
    double *out = calloc(total + 1, sizeof(*out));
    bool is_right = true;
    fl_status st;

    for (size_t i = 0; i < n; i++)
        values[i] = value_of(w->rank, i);
    out[total] = 7;
    st = fl_fleet_util_all_gather(w->fleet, values, n, out);
    for (size_t i = 0; !st && i < total; i++)
        is_right &= out[i] == value_of((int)(i / n), i % n);
    is_right &= out[total] == 7;
    free(values);
    free(out);
    if (!st)
        need(is_right);
    return st;
}

static fl_status gather_all(worker *w)
{
    static const size_t sizes[] = { 0, 1, 17, 200000 };
    fl_status st = FL_OK;

    for (size_t i = 0; !st && i < FL_LEN(sizes); i++)
        st = gather_n(w, sizes[i]);
    return st;
}

static void values_are_gathered_by_rank(void **state)
{
    (void)state;
    local_workers_run_all(gather_all, NULL);
}

/* --- workers that leave --------------------------------------------------- */

/* Worker 1 leaves, and the others go on without it. */
static fl_status go_on(worker *w)
{
    double x = w->rank + 1, out[3] = { 0 };
    fl_status st = fl_fleet_util_all_reduce(w->fleet, FL_REDUCE_SUM, &x, 1);

    if (st)
        return st;
    need(x == 6);
    if (w->rank == 1) {
        st = fl_fleet_stop_worker(w->fleet);
        if (st)
            return st;
        need_error(fl_fleet_util_all_reduce(w->fleet, FL_REDUCE_SUM, &x, 1),
                   FL_ERR_CLOSED,
                   "fl_fleet_util_all_reduce (sum): worker 1 has left the job");
        return FL_OK;
    }
    x = w->rank + 1;
    st = fl_fleet_util_all_gather(w->fleet, &x, 1, out);
    if (st)
        return st;
    need(out[0] == 1 && isnan(out[1]) && out[2] == 3);
    st = fl_fleet_util_all_reduce(w->fleet, FL_REDUCE_MAX, &x, 1);
    need(st || x == 3);
    return st;
}

static void a_worker_that_left_is_left_out(void **state)
{
    (void)state;
    local_workers_run(&(local_workers){ .n = 3, .work = go_on });
}

/* Worker 1 leaves after the first round of a fold that has several. */
static fl_status leave_in_the_middle(worker *w, size_t n)
{
    fl_allgather_round t;
    fl_status st = fl_allgather_begin(&t, w->fleet, FL_CALL_REDUCE_SUM);
    double *values = fl_allgather_words(&t);

    if (!st && t.cap >= n)
        st = fl_err_set(FL_ERR_INVAL, "%zu values are one round", n);
    for (size_t i = 0; !st && i < t.cap; i++)
        values[i] = 100;
    if (!st)
        st = fl_allgather_run_round(&t, t.cap, n);
    fl_allgather_end(&t);
    return st ? st : fl_fleet_stop_worker(w->fleet);
}

static fl_status fold_without_one(worker *w)
{
    enum { N = 10000 };
    double *values;
    bool is_right = true;
    fl_status st;

    if (w->rank == 1)
        return leave_in_the_middle(w, N);
    values = calloc(N, sizeof(*values));
    for (size_t i = 0; i < N; i++)
        values[i] = w->rank + 1;
    st = fl_fleet_util_all_reduce(w->fleet, FL_REDUCE_SUM, values, N);
    for (size_t i = 0; !st && i < N; i++)
        is_right &= values[i] == 1 + 3;
    free(values);
    if (!st)
        need(is_right);
    return st;
}

static void a_fold_begins_anew_without_who_leaves_in_it(void **state)
{
    (void)state;
    local_workers_run(&(local_workers){
        .n = 3, .work = fold_without_one, .max_message_bytes = "65536" });
}

/* --- workers that disagree ------------------------------------------------ */

static fl_status disagree(worker *w)
{
    double values[4] = { 1, 2, 3, 4 }, out[16];
    size_t n = w->rank == 1 ? 3 : 4;

    need_error(fl_fleet_util_all_reduce(w->fleet, FL_REDUCE_SUM, values, n),
               FL_ERR_INVAL,
               "fl_fleet_util_all_reduce (sum): worker 0 brings 4 values and "
               "worker 1 brings 3; all workers bring the same number");
    need(values[0] == 1 && values[3] == 4);
    need_error(fl_fleet_util_all_gather(w->fleet, values, n, out), FL_ERR_INVAL,
               "fl_fleet_util_all_gather: worker 0 brings 4 values and worker "
               "1 brings 3");
    need_error(w->rank == 2 ? fl_fleet_util_all_reduce(w->fleet, FL_REDUCE_MIN,
                                                       values, 4)
                            : fl_fleet_metrics_sum(w->fleet, 1, values),
               FL_ERR_INVAL,
               "worker 0 in fl_fleet_metrics_sum, worker 2 in "
               "fl_fleet_util_all_reduce (min); all workers make the same "
               "calls in the same order");
    /* After an error they are together again. */
    return fl_fleet_util_all_reduce(w->fleet, FL_REDUCE_SUM, values, 4);
}

static void workers_that_disagree_are_all_told(void **state)
{
    (void)state;
    local_workers_run(&(local_workers){ .n = 3, .work = disagree });
}

static fl_status disagree_on_bytes(worker *w)
{
    double x = 1;

    need_error(fl_fleet_util_all_reduce(w->fleet, FL_REDUCE_SUM, &x, 1),
               FL_ERR_INVAL,
               "workers 0 and 1 have different values of max_message_bytes");
    return FL_OK;
}

static void workers_have_messages_of_the_same_size(void **state)
{
    (void)state;
    local_workers_run(&(local_workers){ .n = 2,
                                        .work = disagree_on_bytes,
                                        .max_message_bytes = "100000",
                                        .their_max_bytes = "90000" });
}

static fl_status reduce_by_nothing(worker *w)
{
    double x = 1;

    need_error(fl_fleet_util_all_reduce(w->fleet, (fl_reduce_kind)9, &x, 1),
               FL_ERR_INVAL, "there is no kind 9; use FL_REDUCE_SUM");
    return FL_OK;
}

static void an_unknown_kind_is_refused(void **state)
{
    (void)state;
    local_workers_run(&(local_workers){ .work = reduce_by_nothing });
}

/* --- beside training ------------------------------------------------------ */

static fl_status train(worker *w, int n)
{
    float x[4] = { 1, 2, 3, 4 };
    fl_feed feed = { "x", FL_INIT(fl_tensor, .dtype = FL_DTYPE_F32,
                                  .shape = { .rank = 2, .dim = { 1, 4 } },
                                  .data = x) };
    fl_run_args args = FL_INIT(fl_run_args, .feeds = &feed, .n_feeds = 1);
    fl_status st = FL_OK;

    for (int i = 0; !st && i < n; i++)
        st = fl_run(w->exe, fl_fleet_main_program(w->fleet), &args);
    return st;
}

/* Who has less data waits in the fold while others still make rounds. */
static fl_status train_and_fold(worker *w)
{
    double x = 1;
    fl_status st = FL_OK;

    for (int pass = 0; !st && pass < 3; pass++) {
        st = train(w, 2 + 5 * w->rank);
        if (!st)
            st = fl_fleet_metrics_sum(w->fleet, 1, &x);
        if (!st)
            need(x == w->n);
    }
    return st ? st : fl_fleet_util_barrier(w->fleet);
}

static void workers_fold_between_passes_of_every_mode(void **state)
{

    (void)state;
    for (size_t i = 0; mode_name(i); i++)
        local_workers_run(&(local_workers){
            .n = 3, .work = train_and_fold, .mode = mode_name(i) });
    local_workers_run(
        &(local_workers){ .work = train_and_fold, .mode = "sync" });
}

/* --- calls at the wrong time ---------------------------------------------- */

static fl_fleet *fleet_of(fl_ctx *c, fl_role_kind kind, int id, int n)
{
    fl_fleet *f;

    assert_ok(fl_fleet_init(
        &f, c,
        FL_OPTIONS(fl_role_args, .role = kind, .current_id = id,
                   .worker_num = n,
                   .server_endpoints = "127.0.0.1:1,127.0.0.1:2")));
    return f;
}

static void what_should_have_come_first_is_told(void **state)
{
    fl_ctx *c = make_ctx();
    fl_fleet *f = fleet_of(c, FL_ROLE_WORKER, 0, 2);
    double x = 1;

    (void)state;
    assert_int_equal(fl_fleet_metrics_sum(f, 1, &x), FL_ERR_INVAL);
    assert_non_null(strstr(fl_last_error(), "fl_fleet_metrics_sum: "));
    assert_non_null(strstr(fl_last_error(), "fl_fleet_minimize"));
    fl_fleet_free(f);
    f = fleet_of(c, FL_ROLE_SERVER, 1, 2);
    assert_int_equal(fl_fleet_util_all_reduce(f, FL_REDUCE_SUM, &x, 1),
                     FL_ERR_INVAL);
    assert_non_null(strstr(fl_last_error(), "this process is server 1"));
    fl_fleet_free(f);
    fl_ctx_free(c);
}

/* --- files ---------------------------------------------------------------- */

static void files_are_dealt_in_blocks_that_cover_all(void **state)
{
    static const char *const files[] = { "0", "1", "2", "3", "4", "5", "6" };
    fl_ctx *c = make_ctx();

    (void)state;
    for (int n_workers = 1; n_workers <= 9; n_workers++)
        for (size_t n = 0; n <= FL_LEN(files); n++) {
            size_t next = 0;

            for (int i = 0; i < n_workers; i++) {
                fl_fleet *f = fleet_of(c, FL_ROLE_WORKER, i, n_workers);
                const char *const *some;
                size_t n_some;

                assert_ok(
                    fl_fleet_util_get_file_shard(f, files, n, &some, &n_some));
                assert_ptr_equal(some, files + next);
                /* The first ones have one more. */
                assert_int_equal(n_some,
                                 n / (size_t)n_workers +
                                     ((size_t)i < n % (size_t)n_workers));
                next += n_some;
                fl_fleet_free(f);
            }
            assert_int_equal(next, n);
        }
    fl_ctx_free(c);
}

static void servers_have_no_files(void **state)
{
    fl_ctx *c = make_ctx();
    fl_fleet *f = fleet_of(c, FL_ROLE_SERVER, 1, 2);
    const char *const *some;
    size_t n;

    (void)state;
    assert_int_equal(fl_fleet_util_get_file_shard(
                         f, (const char *const[]){ "a" }, 1, &some, &n),
                     FL_ERR_INVAL);
    assert_non_null(strstr(fl_last_error(), "this process is server 1"));
    fl_fleet_free(f);
    f = fleet_of(c, FL_ROLE_WORKER, 1, 2);
    assert_int_equal(fl_fleet_util_get_file_shard(f, NULL, 3, &some, &n),
                     FL_ERR_INVAL);
    assert_ok(fl_fleet_util_get_file_shard(f, NULL, 0, &some, &n));
    assert_int_equal(n, 0);
    fl_fleet_free(f);
    fl_ctx_free(c);
}

/* --- lines ---------------------------------------------------------------- */

static void a_line_is_printed_by_its_worker_alone(void **state)
{
    static const struct {
        fl_role_kind kind;
        int id, rank;
    } cases[] = { { FL_ROLE_WORKER, 1, 1 },
                  { FL_ROLE_WORKER, 0, 1 },
                  { FL_ROLE_SERVER, 1, 1 },
                  { FL_ROLE_WORKER, 0, 0 } };
    fl_ctx *c = make_ctx();
    int out = dup(STDOUT_FILENO), pipes[2];
    char text[64];
    ssize_t n;

    (void)state;
    assert_int_equal(pipe(pipes), 0);
    (void)fflush(stdout);
    (void)dup2(pipes[1], STDOUT_FILENO);
    for (size_t i = 0; i < FL_LEN(cases); i++) {
        fl_fleet *f = fleet_of(c, cases[i].kind, cases[i].id, 2);

        (void)snprintf(text, sizeof(text), "line %zu", i);
        fl_fleet_util_print_on_rank(f, cases[i].rank, text);
        fl_fleet_free(f);
    }
    (void)dup2(out, STDOUT_FILENO);
    close(pipes[1]);
    n = read(pipes[0], text, sizeof(text) - 1);
    text[n > 0 ? n : 0] = '\0';
    close(pipes[0]);
    close(out);
    assert_string_equal(text, "line 0\nline 3\n");
    fl_ctx_free(c);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(values_are_folded_in_the_order_of_ranks),
        cmocka_unit_test(small_messages_take_more_rounds),
        cmocka_unit_test(a_value_that_is_none_is_seen_by_all),
        cmocka_unit_test(values_are_gathered_by_rank),
        cmocka_unit_test(a_worker_that_left_is_left_out),
        cmocka_unit_test(a_fold_begins_anew_without_who_leaves_in_it),
        cmocka_unit_test(workers_that_disagree_are_all_told),
        cmocka_unit_test(workers_have_messages_of_the_same_size),
        cmocka_unit_test(an_unknown_kind_is_refused),
        cmocka_unit_test(workers_fold_between_passes_of_every_mode),
        cmocka_unit_test(what_should_have_come_first_is_told),
        cmocka_unit_test(files_are_dealt_in_blocks_that_cover_all),
        cmocka_unit_test(servers_have_no_files),
        cmocka_unit_test(a_line_is_printed_by_its_worker_alone),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
