/* test_feeder.c - samples and columns become feeds; what does not fit is
   named. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <math.h>
#include <string.h>

#include "base/alloc.h"
#include "data/reader/feeder.h"
#include "flotilla/flotilla.h"
#include "../make.h"

#define assert_ok(expr)                                                        \
    do {                                                                       \
        if (expr)                                                              \
            fail_msg("%s", fl_last_error());                                   \
    } while (0)

#define assert_refused(expr, status, words)                                    \
    do {                                                                       \
        assert_int_equal(expr, status);                                        \
        if (!strstr(fl_last_error(), words))                                   \
            fail_msg("expected '%s' in '%s'", words, fl_last_error());         \
    } while (0)

static const fl_slot slots[] = {
    { .name = "ids", .kind = FL_SLOT_IDS },
    { .name = "dense", .kind = FL_SLOT_FLOATS, .width = 3 },
    { .name = "label", .kind = FL_SLOT_IDS, .width = 1 },
    { .name = "weights", .kind = FL_SLOT_FLOATS },
};
enum { IDS, DENSE, LABEL, WEIGHTS };

static int make(void **state)
{
    fl_feeder *f = NULL;

    assert_ok(fl_feeder_make(&f, slots, NULL, FL_LEN(slots)));
    fl_feeder_begin(f);
    *state = f;
    return 0;
}

static int drop(void **state)
{
    fl_feeder_free(*state);
    return 0;
}

/* A sample whose numbers follow from i; `i` ids. */
static void give(fl_feeder *f, uint64_t i)
{
    uint64_t ids[64], label = i % 2;
    float x[3] = { (float)i, (float)i + 0.5f, -(float)i };
    size_t n = i % 64;

    for (size_t k = 0; k < n; k++)
        ids[k] = i * 1000 + k;
    assert_ok(fl_feeder_ids(f, "ids", ids, n));
    assert_ok(fl_feeder_floats(f, "dense", x, 3));
    assert_ok(fl_feeder_ids(f, "label", &label, 1));
    assert_ok(fl_feeder_floats(f, "weights", x, n % 3));
    assert_ok(fl_feeder_end_sample(f));
}

static const fl_feed *feeds_of(fl_feeder *f, size_t n_rows)
{
    const fl_feed *feeds = NULL;
    size_t n = 0;

    assert_ok(fl_feeder_feeds(f, &feeds, &n));
    assert_int_equal(n, n_rows);
    return feeds;
}

static void check_shape(const fl_tensor *t, int64_t rows, int64_t width)
{
    assert_int_equal(t->shape.rank, 2);
    assert_int_equal(t->shape.dim[0], rows);
    assert_int_equal(t->shape.dim[1], width);
}

static void samples_come_out_as_columns(void **state)
{
    fl_feeder *f = *state;
    const fl_feed *feeds;
    const uint64_t *ids;

    for (uint64_t i = 0; i < 500; i++)
        give(f, i);
    feeds = feeds_of(f, 500);
    ids = feeds[IDS].value.data;
    assert_string_equal(feeds[IDS].name, "ids");
    assert_int_equal(feeds[IDS].value.dtype, FL_DTYPE_I64);
    assert_int_equal(feeds[IDS].value.lod_len[0], 501);
    check_shape(&feeds[DENSE].value, 500, 3);
    for (size_t i = 0; i < 500; i++) {
        const int64_t *at = feeds[IDS].value.lod[0] + i;

        assert_int_equal(at[1] - at[0], i % 64);
        for (size_t k = 0; k < i % 64; k++)
            assert_int_equal(ids[(size_t)at[0] + k], i * 1000 + k);
        assert_float_equal(((float *)feeds[DENSE].value.data)[i * 3 + 1],
                           (float)i + 0.5f, 0);
        assert_int_equal(((int64_t *)feeds[LABEL].value.data)[i], i % 2);
    }
    assert_int_equal(feeds[IDS].value.shape.dim[0],
                     feeds[IDS].value.lod[0][500]);
}

static void variables_come_in_any_order(void **state)
{
    fl_feeder *f = *state;
    const uint64_t id = 7;
    const float x[] = { 1, 2, 3 };
    const fl_feed *feeds;

    assert_ok(fl_feeder_ids(f, "label", &id, 1));
    assert_ok(fl_feeder_floats(f, "weights", NULL, 0));
    assert_ok(fl_feeder_ids(f, "ids", &id, 1));
    assert_ok(fl_feeder_floats(f, "dense", x, 3));
    assert_ok(fl_feeder_end_sample(f));
    feeds = feeds_of(f, 1);
    assert_non_null(feeds[WEIGHTS].value.data);
    assert_int_equal(feeds[WEIGHTS].value.shape.dim[0], 0);
    assert_int_equal(((int64_t *)feeds[LABEL].value.data)[0], 7);
}

static void a_repeated_batch_asks_for_no_memory(void **state)
{
    fl_feeder *f = *state;
    uint64_t calls;

    for (uint64_t i = 0; i < 300; i++)
        give(f, i);
    (void)feeds_of(f, 300);
    calls = fl_data_calls();
    for (int round = 0; round < 5; round++) {
        fl_feeder_begin(f);
        for (uint64_t i = 0; i < 300; i++)
            give(f, i);
        (void)feeds_of(f, 300);
    }
    assert_int_equal(fl_data_calls(), calls);
}

static void a_wrong_count_for_a_dense_variable_is_refused(void **state)
{
    const float x[] = { 1, 2, 3, 4 };

    assert_refused(fl_feeder_floats(*state, "dense", x, 4), FL_ERR_INVAL,
                   "feed dense: sample 0 gives 4 values, the variable takes 3");
    assert_ok(fl_feeder_floats(*state, "dense", x, 3));
}

static void an_unknown_name_is_refused_with_the_nearest(void **state)
{
    assert_refused(fl_feeder_ids(*state, "labl", NULL, 0), FL_ERR_NOTFOUND,
                   "did you mean label?");
    assert_refused(fl_feeder_ids(*state, "zzzzzzzz", NULL, 0), FL_ERR_NOTFOUND,
                   "zzzzzzzz");
    assert_refused(fl_feeder_ids(*state, NULL, NULL, 0), FL_ERR_INVAL,
                   "no name");
}

static void a_variable_twice_in_a_sample_is_refused(void **state)
{
    const uint64_t id = 1;

    give(*state, 1);
    assert_ok(fl_feeder_ids(*state, "ids", &id, 1));
    assert_refused(fl_feeder_ids(*state, "ids", &id, 1), FL_ERR_INVAL,
                   "feed ids: sample 1 has it already");
}

static void a_missing_variable_is_named_and_can_still_be_given(void **state)
{
    fl_feeder *f = *state;
    const uint64_t id = 1;
    const float x[] = { 1, 2, 3 };

    assert_ok(fl_feeder_ids(f, "ids", &id, 1));
    assert_ok(fl_feeder_floats(f, "dense", x, 3));
    assert_ok(fl_feeder_floats(f, "weights", x, 2));
    assert_refused(fl_feeder_end_sample(f), FL_ERR_INVAL,
                   "sample 0 has no label");
    assert_ok(fl_feeder_ids(f, "label", &id, 1));
    assert_ok(fl_feeder_end_sample(f));
    (void)feeds_of(f, 1);
}

static void a_sample_that_is_not_ended_is_refused(void **state)
{
    const uint64_t id = 1;
    const fl_feed *feeds;
    size_t n;

    give(*state, 1);
    assert_ok(fl_feeder_ids(*state, "ids", &id, 1));
    assert_refused(fl_feeder_feeds(*state, &feeds, &n), FL_ERR_INVAL,
                   "sample 1 is not ended");
}

static void a_batch_of_nothing_is_refused(void **state)
{
    const fl_feed *feeds;
    size_t n;

    assert_refused(fl_feeder_feeds(*state, &feeds, &n), FL_ERR_INVAL,
                   "the batch has no ids");
}

/* --- columns -------------------------------------------------------------- */

static const size_t lens[] = { 2, 0, 1 };
static const int64_t three[] = { 4, 5, 6 };
static const float nine[] = { 1, 2, 3, 4, 5, 6, 7, 8, 9 };

static void give_columns(fl_feeder *f)
{
    assert_ok(fl_feeder_ragged(f, "ids", FL_DTYPE_I64, three, lens, 3));
    assert_ok(fl_feeder_dense(f, "dense", FL_DTYPE_F32, nine, 3));
    assert_ok(fl_feeder_dense(f, "label", FL_DTYPE_I64, three, 3));
    assert_ok(fl_feeder_ragged(f, "weights", FL_DTYPE_F32, nine, lens, 3));
}

static void whole_columns_come_out_as_they_are(void **state)
{
    static const int64_t offsets[] = { 0, 2, 2, 3 };
    const fl_feed *feeds;
    uint64_t calls;

    give_columns(*state);
    feeds = feeds_of(*state, 3);
    assert_memory_equal(feeds[IDS].value.data, three, sizeof(three));
    assert_memory_equal(feeds[IDS].value.lod[0], offsets, sizeof(offsets));
    assert_memory_equal(feeds[DENSE].value.data, nine, sizeof(nine));
    check_shape(&feeds[DENSE].value, 3, 3);
    check_shape(&feeds[WEIGHTS].value, 3, 1);
    calls = fl_data_calls();
    fl_feeder_begin(*state);
    give_columns(*state);
    assert_int_equal(fl_data_calls(), calls);
}

static void columns_of_no_rows_are_a_batch(void **state)
{
    fl_feeder *f = *state;

    assert_ok(fl_feeder_ragged(f, "ids", FL_DTYPE_I64, NULL, NULL, 0));
    assert_ok(fl_feeder_dense(f, "dense", FL_DTYPE_F32, NULL, 0));
    assert_ok(fl_feeder_dense(f, "label", FL_DTYPE_I64, NULL, 0));
    assert_ok(fl_feeder_ragged(f, "weights", FL_DTYPE_F32, NULL, NULL, 0));
    assert_non_null(feeds_of(f, 0)[DENSE].value.data);
}

static void columns_that_differ_in_rows_are_refused(void **state)
{
    fl_feeder *f = *state;
    const fl_feed *feeds;
    size_t n;

    assert_ok(fl_feeder_ragged(f, "ids", FL_DTYPE_I64, three, lens, 3));
    assert_ok(fl_feeder_dense(f, "dense", FL_DTYPE_F32, nine, 2));
    assert_ok(fl_feeder_dense(f, "label", FL_DTYPE_I64, three, 3));
    assert_refused(fl_feeder_feeds(f, &feeds, &n), FL_ERR_INVAL,
                   "the batch has no weights");
    assert_ok(fl_feeder_ragged(f, "weights", FL_DTYPE_F32, nine, lens, 3));
    assert_refused(fl_feeder_feeds(f, &feeds, &n), FL_ERR_INVAL,
                   "ids has 3, dense has 2");
}

static void a_column_twice_or_of_the_wrong_form_is_refused(void **state)
{
    fl_feeder *f = *state;

    assert_ok(fl_feeder_dense(f, "label", FL_DTYPE_I64, three, 3));
    assert_refused(fl_feeder_dense(f, "label", FL_DTYPE_I64, three, 3),
                   FL_ERR_INVAL, "has it already");
    assert_refused(fl_feeder_dense(f, "ids", FL_DTYPE_I64, three, 3),
                   FL_ERR_INVAL, "fl_feeder_ragged");
    assert_refused(fl_feeder_ragged(f, "dense", FL_DTYPE_F32, nine, lens, 3),
                   FL_ERR_INVAL, "fl_feeder_dense");
    assert_refused(fl_feeder_ragged(f, "ids", FL_DTYPE_I64, three, NULL, 3),
                   FL_ERR_INVAL, "no lengths");
    assert_refused(fl_feeder_ragged(f, "ids", FL_DTYPE_I64, NULL, lens, 3),
                   FL_ERR_INVAL, "no data");
    assert_refused(fl_feeder_dense(f, "dense", (fl_dtype)77, nine, 3),
                   FL_ERR_INVAL, "no number type 77");
}

static void lengths_beyond_memory_are_refused(void **state)
{
    static const size_t huge[] = { SIZE_MAX / 2, 7, 1 };
    static const size_t large[] = { 1, SIZE_MAX / 4, 1 };

    assert_refused(
        fl_feeder_ragged(*state, "ids", FL_DTYPE_I64, three, huge, 3),
        FL_ERR_INVAL, "up to row 1 add up");
    assert_refused(
        fl_feeder_ragged(*state, "ids", FL_DTYPE_I64, three, large, 3),
        FL_ERR_NOMEM, "feed ids");
    assert_refused(
        fl_feeder_dense(*state, "dense", FL_DTYPE_F32, nine, SIZE_MAX / 3),
        FL_ERR_NOMEM, "feed dense");
}

static void samples_and_columns_do_not_mix(void **state)
{
    const uint64_t id = 1;

    assert_ok(fl_feeder_ids(*state, "ids", &id, 1));
    assert_refused(fl_feeder_dense(*state, "label", FL_DTYPE_I64, three, 3),
                   FL_ERR_INVAL, "given in samples");
    fl_feeder_begin(*state);
    assert_ok(fl_feeder_dense(*state, "label", FL_DTYPE_I64, three, 3));
    assert_refused(fl_feeder_ids(*state, "ids", &id, 1), FL_ERR_INVAL,
                   "given in whole columns");
    assert_refused(fl_feeder_end_sample(*state), FL_ERR_INVAL,
                   "no sample to end");
}

/* --- numbers -------------------------------------------------------------- */

static const void *label_after(fl_feeder *f, fl_dtype dtype, const void *data)
{
    fl_feeder_begin(f);
    assert_ok(fl_feeder_ragged(f, "ids", FL_DTYPE_I64, three, lens, 3));
    assert_ok(fl_feeder_dense(f, "dense", FL_DTYPE_F32, nine, 3));
    assert_ok(fl_feeder_dense(f, "label", dtype, data, 3));
    assert_ok(fl_feeder_ragged(f, "weights", dtype, data, lens, 3));
    return feeds_of(f, 3)[LABEL].value.data;
}

static void every_number_type_becomes_ids_and_floats(void **state)
{
    static const float f32[] = { 0, 3, 255 };
    static const double f64[] = { 0, 3, 255 };
    static const int32_t i32[] = { 0, 3, 255 };
    static const int64_t i64[] = { 0, 3, 255 };
    static const uint64_t u64[] = { 0, 3, 255 };
    static const uint8_t u8[] = { 0, 3, 255 };
    static const void *const all[] = {
        [FL_DTYPE_F32] = f32, [FL_DTYPE_F64] = f64, [FL_DTYPE_I32] = i32,
        [FL_DTYPE_I64] = i64, [FL_DTYPE_U64] = u64, [FL_DTYPE_U8] = u8
    };

    for (size_t d = 0; d < FL_LEN(all); d++) {
        const void *got = label_after(*state, (fl_dtype)d, all[d]);

        assert_memory_equal(got, u64, sizeof(u64));
        assert_memory_equal(feeds_of(*state, 3)[WEIGHTS].value.data, f32,
                            sizeof(f32));
    }
}

static void bools_become_zeros_and_ones(void **state)
{
    static const bool bools[] = { true, false, true };
    static const uint64_t ids[] = { 1, 0, 1 };
    static const float floats[] = { 1, 0, 1 };
    const void *got = label_after(*state, FL_DTYPE_BOOL, bools);

    assert_memory_equal(got, ids, sizeof(ids));
    assert_memory_equal(feeds_of(*state, 3)[WEIGHTS].value.data, floats,
                        sizeof(floats));
}

static void ids_at_the_ends_of_their_range_keep_their_bits(void **state)
{
    static const double f64[] = { -0x1p63, 0x1.fffffffffffffp63, -1 };
    static const int32_t i32[] = { INT32_MIN, INT32_MAX, -1 };
    static const uint64_t u64[] = { UINT64_MAX, UINT64_C(1) << 63, 0 };
    const uint64_t *got = label_after(*state, FL_DTYPE_F64, f64);

    assert_int_equal(got[0], UINT64_C(1) << 63);
    assert_int_equal(got[1], UINT64_MAX - 2047);
    assert_int_equal(got[2], UINT64_MAX);
    got = label_after(*state, FL_DTYPE_I32, i32);
    assert_int_equal(got[0], (uint64_t)INT32_MIN);
    assert_int_equal(got[2], UINT64_MAX);
    got = label_after(*state, FL_DTYPE_U64, u64);
    assert_memory_equal(got, u64, sizeof(u64));
}

static void a_number_that_is_no_id_is_named_with_its_place(void **state)
{
    static const double half[] = { 1, 2, 2.5 };
    static const double large[] = { 1, 0x1p64, 1 };
    static const float nan32[] = { NAN, 2, 3 };

    assert_refused(fl_feeder_dense(*state, "label", FL_DTYPE_F64, half, 3),
                   FL_ERR_NUMERIC, "feed label: value 0 of row 2 is 2.5");
    assert_refused(fl_feeder_ragged(*state, "ids", FL_DTYPE_F64, half, lens, 3),
                   FL_ERR_NUMERIC, "feed ids: value 0 of row 2 is 2.5");
    assert_refused(
        fl_feeder_ragged(*state, "ids", FL_DTYPE_F64, large, lens, 3),
        FL_ERR_NUMERIC, "value 1 of row 0");
    assert_refused(fl_feeder_dense(*state, "label", FL_DTYPE_F32, nan32, 3),
                   FL_ERR_NUMERIC, "value 0 of row 0 is nan");
    assert_refused(fl_feeder_dense(*state, "label", FL_DTYPE_F16,
                                   (uint16_t[]){ 0x4100 }, 1),
                   FL_ERR_NUMERIC, "value 0 of row 0 is 2.5");
    assert_ok(fl_feeder_dense(*state, "label", FL_DTYPE_I64, three, 3));
}

static void a_number_too_large_for_a_float_is_named(void **state)
{
    double x[9] = { INFINITY, -INFINITY, 0x1.fffffep127, -0x1.fffffep127 };

    x[7] = 1e39;
    assert_refused(fl_feeder_dense(*state, "dense", FL_DTYPE_F64, x, 3),
                   FL_ERR_NUMERIC, "feed dense: value 1 of row 2 is 1e+39");
    x[7] = -0x1.ffffffp127;
    assert_refused(fl_feeder_dense(*state, "dense", FL_DTYPE_F64, x, 3),
                   FL_ERR_NUMERIC, "value 1 of row 2");
    x[7] = -0x1.fffffefp127;
    assert_ok(fl_feeder_dense(*state, "dense", FL_DTYPE_F64, x, 3));
}

static void samples_convert_between_ids_and_floats(void **state)
{
    fl_feeder *f = *state;
    const uint64_t ids[] = { 1, 2, 3 };
    const float one = 1, half = 0.5f;
    const fl_feed *feeds;

    assert_ok(fl_feeder_ids(f, "ids", ids, 3));
    assert_ok(fl_feeder_ids(f, "dense", ids, 3));
    assert_refused(fl_feeder_floats(f, "label", &half, 1), FL_ERR_NUMERIC,
                   "value 0 of row 0 is 0.5");
    assert_ok(fl_feeder_floats(f, "label", &one, 1));
    assert_ok(fl_feeder_ids(f, "weights", ids, 1));
    assert_ok(fl_feeder_end_sample(f));
    feeds = feeds_of(f, 1);
    assert_memory_equal(feeds[DENSE].value.data, nine, 3 * sizeof(float));
    assert_int_equal(((int64_t *)feeds[LABEL].value.data)[0], 1);
}

static void without_memory_the_sample_can_be_given_again(void **state)
{
    fl_feeder *f = *state;
    uint64_t ids[64] = { 0 };

    for (uint64_t n = 1; n < 3; n++) {
        fl_feeder_free(f);
        (void)make((void **)&f);
        fl_alloc_fail_after(n);
        assert_refused(fl_feeder_ids(f, "ids", ids, 5), FL_ERR_NOMEM,
                       "feed ids: no memory");
        fl_alloc_fail_after(0);
        give(f, 5);
        assert_int_equal(feeds_of(f, 1)[IDS].value.shape.dim[0], 5);
    }
    *state = f;
}

/* --- variables of a program ----------------------------------------------- */

static const char program_text[] = "var x : f32[-1,2,3] data\n"
                                   "var ids : i64[-1,1] lod=1 data\n"
                                   "var d : f64[-1,3] data\n"
                                   "var free : f32[-1,-1] data\n"
                                   "op relu (X=x) -> (Out=y)\n"
                                   "fetch y\n";

static void variables_of_a_program_are_fed_in_their_shape(void **state)
{
    const float x[] = { -1, 2, 3, 4, 5, 6 };
    const char *names[] = { "x" }, *fetches[] = { "y" };
    fl_ctx *c = make_ctx();
    fl_executor *e = make_executor(c);
    fl_program *p = NULL;
    fl_feeder *f = NULL;
    fl_tensor y;
    size_t n;
    fl_run_args a = FL_INIT(fl_run_args, .n_feeds = 1, .fetches = fetches,
                            .n_fetches = 1, .out = &y);

    (void)state;
    assert_ok(fl_program_from_text(&p, c, program_text));
    assert_ok(fl_feeder_new(&f, p, names, 1));
    fl_feeder_begin(f);
    assert_ok(fl_feeder_floats(f, "x", x, 6));
    assert_ok(fl_feeder_end_sample(f));
    assert_ok(fl_feeder_feeds(f, &a.feeds, &n));
    assert_int_equal(a.feeds[0].value.shape.rank, 3);
    assert_ok(fl_run(e, p, &a));
    assert_int_equal(y.shape.dim[2], 3);
    assert_float_equal(((float *)y.data)[0], 0, 0);
    assert_float_equal(((float *)y.data)[5], 6, 0);
    fl_feeder_free(f);
    fl_executor_free(e);
    fl_program_free(p);
    fl_ctx_free(c);
}

static void variables_that_cannot_be_fed_are_refused_by_name(void **state)
{
    fl_ctx *c = make_ctx();
    fl_program *p = NULL;
    fl_feeder *f = NULL;

    (void)state;
    assert_ok(fl_program_from_text(&p, c, program_text));
    assert_refused(fl_feeder_new(&f, p, (const char *[]){ "ids", "idz" }, 2),
                   FL_ERR_NOTFOUND, "did you mean ids?");
    assert_refused(fl_feeder_new(&f, p, (const char *[]){ "d" }, 1),
                   FL_ERR_INVAL, "variable d is f64");
    assert_refused(fl_feeder_new(&f, p, (const char *[]){ "free" }, 1),
                   FL_ERR_INVAL, "variable free of shape [-1,-1]");
    assert_refused(fl_feeder_new(&f, p, (const char *[]){ "x", "x" }, 2),
                   FL_ERR_INVAL, "two slots are called x");
    assert_refused(fl_feeder_new(&f, p, NULL, 0), FL_ERR_INVAL,
                   "0 variables to feed");
    assert_null(f);
    fl_program_free(p);
    fl_ctx_free(c);
}

#define WITH(test) cmocka_unit_test_setup_teardown(test, make, drop)

int main(void)
{
    const struct CMUnitTest tests[] = {
        WITH(samples_come_out_as_columns),
        WITH(variables_come_in_any_order),
        WITH(a_repeated_batch_asks_for_no_memory),
        WITH(a_wrong_count_for_a_dense_variable_is_refused),
        WITH(an_unknown_name_is_refused_with_the_nearest),
        WITH(a_variable_twice_in_a_sample_is_refused),
        WITH(a_missing_variable_is_named_and_can_still_be_given),
        WITH(a_sample_that_is_not_ended_is_refused),
        WITH(a_batch_of_nothing_is_refused),
        WITH(whole_columns_come_out_as_they_are),
        WITH(columns_of_no_rows_are_a_batch),
        WITH(columns_that_differ_in_rows_are_refused),
        WITH(a_column_twice_or_of_the_wrong_form_is_refused),
        WITH(lengths_beyond_memory_are_refused),
        WITH(samples_and_columns_do_not_mix),
        WITH(every_number_type_becomes_ids_and_floats),
        WITH(bools_become_zeros_and_ones),
        WITH(ids_at_the_ends_of_their_range_keep_their_bits),
        WITH(a_number_that_is_no_id_is_named_with_its_place),
        WITH(a_number_too_large_for_a_float_is_named),
        WITH(samples_convert_between_ids_and_floats),
        WITH(without_memory_the_sample_can_be_given_again),
        cmocka_unit_test(variables_of_a_program_are_fed_in_their_shape),
        cmocka_unit_test(variables_that_cannot_be_fed_are_refused_by_name),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
