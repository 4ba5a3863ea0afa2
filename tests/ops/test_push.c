/* test_push.c - push_sparse against a backend that answers at once or later. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <stdio.h>
#include <string.h>

#include "table_kit.h"

/* --- push_sparse ---------------------------------------------------------- */

enum { KEYS, GRAD, LEARNING_RATE, INDEX, SHOW, CLICK };

static const uint64_t pushed_keys[] = { 7, 5, 0, 19 };
static const float gradients[4 * DIM] = {
    1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12
};
static const float rate = 0.5f;

static fl_tensor dense_grad(void)
{
    return fl_tensor_of(FL_DTYPE_F32, gradients, 2, (int64_t[]){ 4, DIM });
}

static fl_tensor rows_grad(uint64_t *rows, int64_t n)
{
    fl_tensor g =
        fl_tensor_of(FL_DTYPE_F32, gradients, 2, (int64_t[]){ n, DIM });

    g.kind = FL_KIND_ROWS;
    g.rows = rows;
    g.height = 4;
    return g;
}

/* An operator with the four keys and this gradient; more inputs follow. */
static void begin_push(table_op *f, const char *grad, const char *more,
                       fl_tensor g)
{
    char op[TEXT_MAX];

    snprintf(op, sizeof(op),
             "op push_sparse (Keys=keys, Grad=%s, LearningRate=lr%s", grad,
             more);
    table_op_begin(f, op);
    table_op_give(f, KEYS,
                  fl_tensor_of(FL_DTYPE_U64, pushed_keys, 1, (int64_t[]){ 4 }));
    table_op_give(f, GRAD, g);
    table_op_give(f, LEARNING_RATE,
                  fl_tensor_of(FL_DTYPE_F32, &rate, 1, (int64_t[]){ 1 }));
}

/* The rows of the keys that were pushed have moved by -rate * moved. */
static void expect_moved(table_op *f, const uint64_t *keys, size_t n,
                         const float *moved)
{
    const fake_table *t = fake_find(f->fake, "t");

    assert_int_equal(f->fake->last.n, n);
    assert_memory_equal(f->fake->last.keys, keys, n * sizeof(*keys));
    assert_int_equal(t->rows.len, n);
    for (size_t i = 0; i < n; i++)
        for (uint32_t d = 0; d < DIM; d++)
            assert_true(t->rows.data[i].value[d] ==
                        fake_first(keys[i], d) - rate * moved[i * DIM + d]);
}

static void push_moves_the_rows_of_its_keys(void **state)
{
    table_op *f = *state;

    begin_push(f, "g", ") -> () {table=t}", dense_grad());
    assert_int_equal(table_op_run(f), FL_OK);
    expect_moved(f, pushed_keys, 4, gradients);
    assert_false(f->fake->last.has_counts || f->fake->last.has_shows ||
                 f->fake->last.has_clicks);
}

static void push_adds_up_rows_before_it_sends_them(void **state)
{
    /* Values 0 and 3 both belong to row 1; row 0 has none. */
    static const uint64_t keys[] = { 5, 0, 19 };
    static const float moved[] = { 11, 13, 15, 4, 5, 6, 7, 8, 9 };
    table_op *f = *state;
    uint64_t rows[] = { 1, 2, 3, 1 };

    begin_push(f, "r", ") -> () {table=t}", rows_grad(rows, 4));
    assert_int_equal(table_op_run(f), FL_OK);
    expect_moved(f, keys, 3, moved);
}

static void push_leaves_the_padding_out(void **state)
{
    table_op *f = *state;

    begin_push(f, "g", ") -> () {table=t, padding_idx=19}", dense_grad());
    assert_int_equal(table_op_run(f), FL_OK);
    expect_moved(f, pushed_keys, 3, gradients);
}

static void push_leaves_the_padding_out_of_rows_too(void **state)
{
    static const uint64_t keys[] = { 5 };
    table_op *f = *state;
    uint64_t rows[] = { 3, 1, 3 };

    begin_push(f, "r", ") -> () {table=t, padding_idx=19}", rows_grad(rows, 3));
    assert_int_equal(table_op_run(f), FL_OK);
    expect_moved(f, keys, 1, gradients + DIM);
}

static void a_padding_that_is_not_the_last_key_is_pushed(void **state)
{
    table_op *f = *state;

    begin_push(f, "g", ") -> () {table=t, padding_idx=5}", dense_grad());
    assert_int_equal(table_op_run(f), FL_OK);
    expect_moved(f, pushed_keys, 4, gradients);
}

static void push_names_a_row_that_has_no_key(void **state)
{
    table_op *f = *state;
    uint64_t rows[] = { 0, 9 };

    begin_push(f, "r", ") -> () {table=t}", rows_grad(rows, 2));
    assert_int_equal(table_op_run(f), FL_ERR_INVAL);
    expect_said("row 9 at place 1 is not one of 4 keys");
}

static void push_without_a_backend_is_refused(void **state)
{
    table_op *f = *state;

    begin_push(f, "g", ") -> () {table=t}", dense_grad());
    f->comm = NULL;
    assert_int_equal(table_op_run(f), FL_ERR_INVAL);
    expect_said("table t: push_sparse needs a table backend");
}

/* --- counts, shows and clicks --------------------------------------------- */

/* Three samples: keys 0, 0, 1 | none | 1, 2, and one key each: 0, 0, 3. */
static const int64_t offsets_i[] = { 0, 3, 3, 5 };
static const int64_t entries_i[] = { 0, 0, 1, 1, 2 };
static const int64_t entries_j[] = { 0, 0, 3 };
static const float shows[] = { 1, 10, 100 };
static const int64_t clicks[] = { 0, 1, 1 };

static void give_index(table_op *f)
{
    table_op_give(f, INDEX, list_of(entries_i, offsets_i, 3));
    table_op_give(f, INDEX, ids_of(entries_j, 3));
}

static void give_samples(table_op *f)
{
    give_index(f);
    table_op_give(f, SHOW,
                  fl_tensor_of(FL_DTYPE_F32, shows, 2, (int64_t[]){ 3, 1 }));
    table_op_give(f, CLICK,
                  fl_tensor_of(FL_DTYPE_I64, clicks, 1, (int64_t[]){ 3 }));
}

static void expect_counts(const table_op *f, const uint32_t *want, size_t n)
{
    assert_true(f->fake->last.has_counts);
    assert_int_equal(f->fake->last.n, n);
    assert_memory_equal(f->fake->last.counts, want, n * sizeof(*want));
}

static void expect_sums(const table_op *f, const float *show,
                        const float *click, size_t n)
{
    assert_true(f->fake->last.has_shows && f->fake->last.has_clicks);
    for (size_t i = 0; i < n; i++) {
        assert_true(f->fake->last.shows[i] == show[i]);
        assert_true(f->fake->last.clicks[i] == click[i]);
    }
}

static void push_counts_how_often_a_key_occurs(void **state)
{
    static const uint32_t want[] = { 4, 2, 1, 1 };
    table_op *f = *state;

    begin_push(f, "g", ", Index=[i,j]) -> () {table=t}", dense_grad());
    give_index(f);
    assert_int_equal(table_op_run(f), FL_OK);
    expect_counts(f, want, 4);
    assert_false(f->fake->last.has_shows || f->fake->last.has_clicks);
}

static void shows_and_clicks_count_once_per_sample_and_key(void **state)
{
    static const uint32_t counts[] = { 4, 2, 1, 1 };
    static const float show[] = { 11, 101, 100, 100 };
    static const float click[] = { 1, 1, 1, 1 };
    table_op *f = *state;

    begin_push(f, "g", ", Index=[i,j], Show=show, Click=click) -> () {table=t}",
               dense_grad());
    give_samples(f);
    assert_int_equal(table_op_run(f), FL_OK);
    expect_counts(f, counts, 4);
    expect_sums(f, show, click, 4);
}

static void counts_follow_the_keys_that_have_a_gradient(void **state)
{
    static const uint64_t keys[] = { 5, 19 };
    static const uint32_t counts[] = { 2, 1 };
    static const float show[] = { 101, 100 }, click[] = { 1, 1 };
    table_op *f = *state;
    uint64_t rows[] = { 3, 1 };

    begin_push(f, "r", ", Index=[i,j], Show=show, Click=click) -> () {table=t}",
               rows_grad(rows, 2));
    give_samples(f);
    assert_int_equal(table_op_run(f), FL_OK);
    assert_memory_equal(f->fake->last.keys, keys, sizeof(keys));
    expect_counts(f, counts, 2);
    expect_sums(f, show, click, 2);
}

static void a_sample_of_two_levels_is_one_outer_sequence(void **state)
{
    /* Samples: [[0, 1], []] and [[2, 2]]. */
    static const int64_t outer[] = { 0, 2, 3 }, inner[] = { 0, 2, 2, 4 };
    static const int64_t entries[] = { 0, 1, 2, 2 };
    static const uint32_t counts[] = { 1, 1, 2, 0 };
    table_op *f = *state;
    fl_tensor t = ids_of(entries, 4);

    t.kind = FL_KIND_RAGGED;
    t.n_lod = 2;
    t.lod[0] = outer;
    t.lod_len[0] = 3;
    t.lod[1] = inner;
    t.lod_len[1] = 4;
    begin_push(f, "g", ", Index=k, Show=show) -> () {table=t}", dense_grad());
    table_op_give(f, INDEX, t);
    table_op_give(f, SHOW,
                  fl_tensor_of(FL_DTYPE_F32, shows, 2, (int64_t[]){ 2, 1 }));
    assert_int_equal(table_op_run(f), FL_OK);
    expect_counts(f, counts, 4);
    assert_true(f->fake->last.shows[0] == 1 && f->fake->last.shows[1] == 1);
    assert_true(f->fake->last.shows[2] == 10 && f->fake->last.shows[3] == 0);
    assert_false(f->fake->last.has_clicks);
}

static void a_pending_push_keeps_what_it_sends(void **state)
{
    static const uint64_t keys[] = { 5, 0, 19 };
    static const uint32_t counts[] = { 2, 1, 1 };
    static const float moved[] = { 11, 13, 15, 4, 5, 6, 7, 8, 9 };
    static const float show[] = { 101, 100, 100 }, click[] = { 1, 1, 1 };
    table_op *f = *state;
    uint64_t rows[] = { 1, 2, 3, 1 };

    begin_push(f, "r", ", Index=[i,j], Show=show, Click=click) -> () {table=t}",
               rows_grad(rows, 4));
    give_samples(f);
    f->fake->slow = true;
    assert_int_equal(table_op_run(f), FL_PENDING);
    assert_int_equal(table_op_call(f, true), FL_PENDING);
    fake_answer(f->fake);
    assert_int_equal(f->waker.n, 1);
    assert_int_equal(table_op_call(f, true), FL_OK);
    expect_moved(f, keys, 3, moved);
    expect_counts(f, counts, 3);
    expect_sums(f, show, click, 3);
}

static void samples_that_do_not_fit_are_refused(void **state)
{
    table_op *f = *state;

    begin_push(f, "g", ", Index=[i,j], Show=show) -> () {table=t}",
               dense_grad());
    table_op_give(f, INDEX, list_of(entries_i, offsets_i, 3));
    table_op_give(f, INDEX, ids_of(entries_j, 2));
    table_op_give(f, SHOW,
                  fl_tensor_of(FL_DTYPE_F32, shows, 2, (int64_t[]){ 3, 1 }));
    assert_int_equal(table_op_run(f), FL_ERR_INVAL);
    expect_said("Index[1] has 2 samples, Index[0] has 3");

    begin_push(f, "g", ", Index=i, Show=show) -> () {table=t}", dense_grad());
    table_op_give(f, INDEX, list_of(entries_i, offsets_i, 3));
    table_op_give(f, SHOW,
                  fl_tensor_of(FL_DTYPE_F32, shows, 2, (int64_t[]){ 2, 1 }));
    assert_int_equal(table_op_run(f), FL_ERR_INVAL);
    expect_said("Show has 2 numbers, Index[0] has 3 samples");
}

static void an_index_without_its_key_is_refused(void **state)
{
    static const int64_t entries[] = { 0, 4 };
    table_op *f = *state;

    begin_push(f, "g", ", Index=j) -> () {table=t}", dense_grad());
    table_op_give(f, INDEX, ids_of(entries, 2));
    assert_int_equal(table_op_run(f), FL_ERR_INVAL);
    expect_said("Index[0]: 4 at place 1 is not one of 4 keys");
}

static void shows_without_an_index_are_refused(void **state)
{
    fl_program *p;

    (void)state;
    assert_int_equal(
        table_op_parse("op push_sparse (Keys=keys, Grad=g, "
                       "LearningRate=lr, Show=show) -> () {table=t}",
                       &p),
        FL_ERR_INVAL);
    expect_said("needs Index");
}

static void shows_are_one_number_per_sample(void **state)
{
    fl_program *p;

    (void)state;
    assert_int_equal(table_op_parse("op push_sparse (Keys=keys, Grad=g, "
                                    "LearningRate=lr, Index=i, Show=g) -> () "
                                    "{table=t}",
                                    &p),
                     FL_ERR_INVAL);
    expect_said("must be one number per sample");
}

int main(void)
{
#define TEST(name)                                                             \
    cmocka_unit_test_setup_teardown(name, table_op_set_up, table_op_tear_down)
    const struct CMUnitTest tests[] = {
        TEST(push_moves_the_rows_of_its_keys),
        TEST(push_adds_up_rows_before_it_sends_them),
        TEST(push_leaves_the_padding_out),
        TEST(push_leaves_the_padding_out_of_rows_too),
        TEST(a_padding_that_is_not_the_last_key_is_pushed),
        TEST(push_names_a_row_that_has_no_key),
        TEST(push_without_a_backend_is_refused),
        TEST(push_counts_how_often_a_key_occurs),
        TEST(shows_and_clicks_count_once_per_sample_and_key),
        TEST(counts_follow_the_keys_that_have_a_gradient),
        TEST(a_sample_of_two_levels_is_one_outer_sequence),
        TEST(a_pending_push_keeps_what_it_sends),
        TEST(samples_that_do_not_fit_are_refused),
        TEST(an_index_without_its_key_is_refused),
        TEST(shows_without_an_index_are_refused),
        TEST(shows_are_one_number_per_sample),
    };
#undef TEST

    return cmocka_run_group_tests(tests, NULL, NULL);
}
