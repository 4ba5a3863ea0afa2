/* test_mode_local.c - the port of ir/comm.h over the tables of this process. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>
#include <stdio.h>
#include <string.h>

#include "base/thread.h"
#include "mode/mode_local.h"

#define SETTINGS "dim=2 init=uniform(-1,1)"

#define assert_ok(expr)                                                        \
    do {                                                                       \
        if (expr)                                                              \
            fail_msg("%s", fl_last_error());                                   \
    } while (0)

#define assert_said(words)                                                     \
    do {                                                                       \
        if (!strstr(fl_last_error(), words))                                   \
            fail_msg("expected '%s' in '%s'", words, fl_last_error());         \
    } while (0)

static fl_comm *one_table(const char *settings)
{
    fl_comm *c = fl_mode_local_new();

    assert_ok(c->life->declare(c, "emb", settings, 1));
    return c;
}

static uint64_t rows_of(fl_comm *c, const char *name)
{
    fl_table_stats s = FL_INIT(fl_table_stats);
    fl_table *t;

    assert_ok(fl_mode_local_find(c, name, &t));
    fl_table_count(t, &s);
    return s.rows;
}

static fl_comm_request request(const uint64_t *keys, size_t n, float *rows)
{
    return (fl_comm_request){
        .table = "emb",
        .rows = { .keys = keys,
                  .values = rows,
                  .n = n,
                  .lr = 1,
                  .merged = true,
                  .dim = 2,
                  .scale = 1 },
        .out = rows,
    };
}

/* --- tables -------------------------------------------------------------- */

static void a_declared_table_is_found_by_its_name(void **state)
{
    fl_comm *c = one_table(SETTINGS);
    fl_table *t = NULL;

    (void)state;
    assert_ok(c->life->declare(c, "other", "dim=5", 1));
    assert_ok(fl_mode_local_find(c, "emb", &t));
    assert_string_equal(fl_table_name(t), "emb");
    assert_int_equal(fl_table_dim(t), 2);
    assert_ok(fl_mode_local_find(c, "other", &t));
    assert_int_equal(fl_table_dim(t), 5);
    assert_int_equal(fl_mode_local_find(c, "ebm", &t), FL_ERR_NOTFOUND);
    assert_said("no table ebm");
    fl_comm_free(c);
}

static void declaring_a_table_again_empties_it(void **state)
{
    fl_comm *c = one_table(SETTINGS);
    uint64_t keys[] = { 3, 4, 5 };
    float rows[6];
    fl_comm_request r = request(keys, 3, rows);
    fl_table *before, *after;

    (void)state;
    r.create = true;
    assert_ok(c->data->pull(c, &r));
    assert_int_equal(rows_of(c, "emb"), 3);
    assert_ok(fl_mode_local_find(c, "emb", &before));
    assert_ok(c->life->declare(c, "emb", SETTINGS, 1));
    assert_int_equal(rows_of(c, "emb"), 0);
    assert_ok(fl_mode_local_find(c, "emb", &after));
    assert_ptr_equal(before, after);
    fl_comm_free(c);
}

static void a_table_cannot_change_its_settings_or_seed(void **state)
{
    fl_comm *c = one_table(SETTINGS);

    (void)state;
    assert_int_equal(c->life->declare(c, "emb", "dim=3", 1), FL_ERR_INVAL);
    assert_said("table emb");
    assert_said("'" SETTINGS "'");
    assert_said("'dim=3'");
    assert_int_equal(c->life->declare(c, "emb", SETTINGS, 2), FL_ERR_INVAL);
    assert_said("seed 1");
    fl_comm_free(c);
}

static void bad_settings_make_no_table(void **state)
{
    fl_comm *c = fl_mode_local_new();
    fl_table *t;

    (void)state;
    assert_int_not_equal(c->life->declare(c, "emb", "dim=0", 1), FL_OK);
    assert_int_not_equal(c->life->declare(c, "emb", "", 1), FL_OK);
    assert_int_not_equal(c->life->declare(c, "emb", "dim=2 wide=3", 1), FL_OK);
    assert_int_equal(fl_mode_local_find(c, "emb", &t), FL_ERR_NOTFOUND);
    fl_comm_free(c);
}

static void a_table_is_made_once(void **state)
{
    fl_comm *c = fl_mode_local_new();
    fl_table *t, *same;

    (void)state;
    assert_ok(fl_mode_local_make(c, "emb", SETTINGS, 1, &t));
    assert_ok(fl_mode_local_find(c, "emb", &same));
    assert_ptr_equal(t, same);
    assert_int_equal(fl_mode_local_make(c, "emb", SETTINGS, 1, &t),
                     FL_ERR_EXISTS);
    assert_said("table emb exists already");
    fl_comm_free(c);
}

/* --- requests ------------------------------------------------------------ */

static void only_a_pull_that_creates_makes_rows(void **state)
{
    fl_comm *c = one_table(SETTINGS);
    uint64_t keys[] = { 0, UINT64_MAX };
    float first[4], second[4];
    fl_comm_request r = request(keys, 2, first);

    (void)state;
    assert_ok(c->data->pull(c, &r));
    assert_int_equal(rows_of(c, "emb"), 0);
    r.create = true;
    r.out = second;
    assert_ok(c->data->pull(c, &r));
    assert_int_equal(rows_of(c, "emb"), 2);
    assert_memory_equal(first, second, sizeof(first));
    fl_comm_free(c);
}

static void a_push_takes_its_rate_and_gradient(void **state)
{
    fl_comm *c = one_table("dim=2 init=constant(1) optimizer=sgd");
    uint64_t keys[] = { 7, 9 };
    float rows[4], grads[] = { 1, 2, 3, 4 };
    fl_comm_request push = request(keys, 2, grads);
    fl_comm_request pull = request(keys, 2, rows);

    (void)state;
    push.rows.lr = 0.5;
    assert_ok(c->data->push(c, &push));
    assert_ok(c->data->pull(c, &pull));
    for (int i = 0; i < 4; i++)
        assert_float_equal(rows[i], 1 - 0.5f * grads[i], 1e-6);
    fl_comm_free(c);
}

static void a_push_takes_its_counts(void **state)
{
    fl_comm *c = one_table("dim=2 entry=count_filter_entry:3");
    uint64_t keys[] = { 7, 9 };
    uint32_t counts[] = { 1, 3 };
    float grads[4] = { 0 };
    fl_comm_request r = request(keys, 2, grads);

    (void)state;
    r.rows.counts = counts;
    assert_ok(c->data->push(c, &r));
    assert_int_equal(rows_of(c, "emb"), 1);
    fl_comm_free(c);
}

static void a_push_takes_its_shows_and_clicks(void **state)
{
    fl_comm *c = one_table("dim=2 entry=show_click_entry:2 accessor=ctr");
    uint64_t keys[] = { 7, 8, 9 };
    float shows[] = { 9, 9, 9 }, clicks[] = { 0, 3, 0 };
    float grads[6] = { 0 };
    fl_comm_request r = request(keys, 3, grads);

    (void)state;
    r.rows.shows = shows;
    assert_ok(c->data->push(c, &r));
    assert_int_equal(rows_of(c, "emb"), 0);
    r.rows.clicks = clicks;
    assert_ok(c->data->push(c, &r));
    assert_int_equal(rows_of(c, "emb"), 1);
    fl_comm_free(c);
}

/* --- pushes in parts ----------------------------------------------------- */

static void push_part(fl_comm *c, uint64_t step, int part, const uint64_t *keys,
                      size_t n, float grad)
{
    float grads[] = { grad, grad, grad, grad };
    fl_comm_request r = request(keys, n, grads);

    r.step = step;
    r.worker = (fl_worker_id){ .part = part, .n_parts = 2, .scale = 0.5 };
    r.rows.scale = 0.5;
    assert_ok(c->data->push(c, &r));
    memset(grads, 0xff, sizeof(grads)); /* the memory was borrowed */
}

static float value_of(fl_comm *c, uint64_t key)
{
    float row[2];
    fl_comm_request r = request(&key, 1, row);

    assert_ok(c->data->pull(c, &r));
    return row[1];
}

static void parts_of_a_step_are_pushed_when_the_last_has_come(void **state)
{
    static const uint64_t a[] = { 7, 9 }, b[] = { 9 };
    fl_comm *c = one_table("dim=2 init=constant(0) optimizer=sgd "
                           "entry=count_filter_entry:2");

    (void)state;
    push_part(c, 0, 1, b, 1, 8);
    assert_int_equal(rows_of(c, "emb"), 0);
    push_part(c, 0, 0, a, 2, 4);
    /* Key 9 was seen twice, key 7 once. */
    assert_int_equal(rows_of(c, "emb"), 1);
    push_part(c, 1, 0, a, 2, 4);
    push_part(c, 1, 1, b, 1, 8);
    assert_int_equal(rows_of(c, "emb"), 2);
    fl_comm_free(c);
}

static void parts_are_scaled_and_added_up(void **state)
{
    static const uint64_t a[] = { 7, 9 }, b[] = { 9 };
    fl_comm *c = one_table("dim=2 init=constant(0) optimizer=sgd");

    (void)state;
    push_part(c, 0, 0, a, 2, 4);
    assert_float_equal(value_of(c, 9), 0, 0);
    push_part(c, 0, 1, b, 1, 8);
    assert_float_equal(value_of(c, 7), -2, 0);
    assert_float_equal(value_of(c, 9), -6, 0);
    fl_comm_free(c);
}

static void several_pushes_of_a_step_do_not_mix(void **state)
{
    static const uint64_t a[] = { 7 }, b[] = { 9 };
    fl_comm *c = one_table("dim=2 init=constant(0) optimizer=sgd");

    (void)state;
    for (int step = 0; step < 3; step++) {
        float want = -4 * ((float)step + 1);

        /* Part 0 is through before part 1 begins. */
        push_part(c, (uint64_t)step, 0, a, 1, 4);
        push_part(c, (uint64_t)step, 0, b, 1, 4);
        push_part(c, (uint64_t)step, 1, a, 1, 4);
        assert_float_equal(value_of(c, 7), want, 0);
        assert_float_equal(value_of(c, 9), want + 4, 0);
        push_part(c, (uint64_t)step, 1, b, 1, 4);
        assert_float_equal(value_of(c, 9), want, 0);
    }
    fl_comm_free(c);
}

static void parts_of_a_step_that_failed_are_dropped(void **state)
{
    static const uint64_t a[] = { 7 }, b[] = { 9 };
    fl_comm *c = one_table("dim=2 init=constant(0) optimizer=sgd");

    (void)state;
    push_part(c, 5, 0, a, 1, 100);
    push_part(c, 6, 1, b, 1, 8);
    push_part(c, 6, 0, b, 1, 4);
    assert_float_equal(value_of(c, 7), 0, 0);
    assert_float_equal(value_of(c, 9), -6, 0);
    fl_comm_free(c);
}

static void requests_that_do_not_fit_are_refused(void **state)
{
    fl_comm *c = one_table(SETTINGS);
    uint64_t key = 1;
    float rows[4] = { 0 };
    fl_comm_request r = request(&key, 1, rows);

    (void)state;
    r.rows.dim = 4;
    assert_int_equal(c->data->pull(c, &r), FL_ERR_INVAL);
    assert_said("table emb has rows of 2, not of 4");
    assert_int_equal(c->data->push(c, &r), FL_ERR_INVAL);
    assert_said("table emb has rows of 2, not of 4");
    r.table = "none";
    assert_int_equal(c->data->pull(c, &r), FL_ERR_NOTFOUND);
    assert_said("run the startup program first");
    assert_int_equal(c->data->push(c, &r), FL_ERR_NOTFOUND);
    fl_comm_free(c);
}

/* --- threads ------------------------------------------------------------- */

#define N_TABLES 50

static void declare_tables(void *arg)
{
    fl_comm *c = arg;
    char name[16];

    for (int i = 0; i < N_TABLES; i++) {
        snprintf(name, sizeof(name), "t%d", i);
        if (c->life->declare(c, name, "dim=2 partitions=1", 1))
            return;
    }
}

static void tables_are_found_while_others_are_declared(void **state)
{
    fl_comm *c = one_table(SETTINGS);
    uint64_t key = 1;
    float rows[2];
    fl_comm_request r = request(&key, 1, rows);
    fl_thread *threads[2];
    fl_table *t;

    (void)state;
    r.create = true;
    for (int i = 0; i < 2; i++)
        assert_ok(fl_thread_start(&threads[i], "declare", declare_tables, c));
    for (int i = 0; i < 5000; i++)
        assert_ok(c->data->pull(c, &r));
    for (int i = 0; i < 2; i++)
        fl_thread_join(threads[i]);
    for (int i = 0; i < N_TABLES; i++) {
        char name[16];

        snprintf(name, sizeof(name), "t%d", i);
        assert_ok(fl_mode_local_find(c, name, &t));
        assert_string_equal(fl_table_name(t), name);
    }
    fl_comm_free(c);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_declared_table_is_found_by_its_name),
        cmocka_unit_test(declaring_a_table_again_empties_it),
        cmocka_unit_test(a_table_cannot_change_its_settings_or_seed),
        cmocka_unit_test(bad_settings_make_no_table),
        cmocka_unit_test(a_table_is_made_once),
        cmocka_unit_test(only_a_pull_that_creates_makes_rows),
        cmocka_unit_test(a_push_takes_its_rate_and_gradient),
        cmocka_unit_test(a_push_takes_its_counts),
        cmocka_unit_test(a_push_takes_its_shows_and_clicks),
        cmocka_unit_test(parts_of_a_step_are_pushed_when_the_last_has_come),
        cmocka_unit_test(parts_are_scaled_and_added_up),
        cmocka_unit_test(several_pushes_of_a_step_do_not_mix),
        cmocka_unit_test(parts_of_a_step_that_failed_are_dropped),
        cmocka_unit_test(requests_that_do_not_fit_are_refused),
        cmocka_unit_test(tables_are_found_while_others_are_declared),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
