/* test_tensor.c - shapes, types, sizes and offsets. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <math.h>
#include <string.h>

#include "tensor/tensor.h"

#define DIMS(...) ((int64_t[]){ __VA_ARGS__ })

static void expect_said(const char *part)
{
    if (!strstr(fl_last_error(), part))
        fail_msg("'%s' does not say '%s'", fl_last_error(), part);
}

static void shapes_have_a_text(void **state)
{
    char buf[FL_SHAPE_TEXT_MAX];
    fl_shape s = fl_shape_of(0, NULL);

    (void)state;
    assert_string_equal(fl_shape_text(&s, buf), "[]");
    s = fl_shape_of(2, DIMS(-1, 13));
    assert_string_equal(fl_shape_text(&s, buf), "[-1,13]");
}

static void the_longest_shape_fits_its_text(void **state)
{
    char buf[FL_SHAPE_TEXT_MAX];
    fl_shape s = { .rank = FL_RANK_MAX };

    (void)state;
    for (int i = 0; i < FL_RANK_MAX; i++)
        s.dim[i] = INT64_MIN;
    fl_shape_text(&s, buf);
    assert_int_equal(buf[strlen(buf) - 1], ']');
}

static void counting_stops_at_the_unknown(void **state)
{
    fl_shape s = fl_shape_of(3, DIMS(-1, 4, 5));

    (void)state;
    assert_int_equal(fl_shape_numel(&s), -1);
    assert_int_equal(fl_shape_count(&s, 1, 3), 20);
    assert_int_equal(fl_shape_count(&s, 2, 2), 1);
    s.dim[0] = 0;
    assert_int_equal(fl_shape_numel(&s), 0);
}

static void an_unknown_dimension_matches_any(void **state)
{
    fl_shape a = fl_shape_of(2, DIMS(-1, 4));
    fl_shape b = fl_shape_of(2, DIMS(7, 4));
    fl_shape c = fl_shape_of(2, DIMS(7, 5));
    fl_shape d = fl_shape_of(1, DIMS(-1));

    (void)state;
    assert_true(fl_shape_matches(&a, &b));
    assert_true(fl_shape_matches(&b, &a));
    assert_false(fl_shape_matches(&a, &c));
    assert_false(fl_shape_matches(&a, &d));
    assert_false(fl_shape_equal(&a, &b));
    assert_true(fl_shape_equal(&b, &b));
}

static void negative_axes_count_from_the_end(void **state)
{
    fl_shape s = fl_shape_of(3, DIMS(2, 3, 4));

    (void)state;
    assert_int_equal(fl_shape_axis(&s, 0), 0);
    assert_int_equal(fl_shape_axis(&s, -1), 2);
    assert_int_equal(fl_shape_axis(&s, -3), 0);
    assert_int_equal(fl_shape_axis(&s, 3), -1);
    assert_int_equal(fl_shape_axis(&s, -4), -1);
}

static void types_are_known_by_both_names(void **state)
{
    fl_dtype d;

    (void)state;
#define X(name, value, type, text, long_text)                                  \
    assert_true(fl_dtype_parse(text, &d) && d == FL_DTYPE_##name);             \
    assert_true(fl_dtype_parse(long_text, &d) && d == FL_DTYPE_##name);        \
    assert_int_equal(fl_dtype_bytes(d), sizeof(type));                         \
    assert_string_equal(fl_dtype_text(d), text);                               \
    assert_int_equal(d, value);
    FL_DTYPE_MAP(X)
#undef X
    d = FL_DTYPE_U8;
    assert_false(fl_dtype_parse("f8", &d));
    assert_false(fl_dtype_parse("", &d));
    assert_false(fl_dtype_parse("F32", &d));
    assert_int_equal(d, FL_DTYPE_U8);
}

static void every_half_is_its_own_nearest(void **state)
{
    (void)state;
    for (int bits = 0; bits <= UINT16_MAX; bits++) {
        float v = fl_half_value((uint16_t)bits);

        if (isnan(v))
            assert_true(isnan(fl_half_value(fl_half_of((double)v))));
        else
            assert_int_equal(fl_half_of((double)v), bits);
    }
}

static void numbers_round_to_the_nearest_half(void **state)
{
    static const struct {
        double v;
        uint16_t bits;
    } cases[] = {
        { 1, 0x3c00 },
        { -2, 0xc000 },
        { 65504, 0x7bff },
        { 65519, 0x7bff },
        { 65520, 0x7c00 },
        { -1e300, 0xfc00 },
        { 1 + 0x1p-11, 0x3c00 },           /* a tie goes to the even one */
        { 1 + 3 * 0x1p-11, 0x3c02 },       /* here as well */
        { 1 + 0x1p-11 + 0x1p-40, 0x3c01 }, /* no tie */
        { 2 - 0x1p-12, 0x4000 },           /* carries */
        { 0x1p-24, 1 },
        { 0x1p-25, 0 },
        { 0x1p-14 - 0x1p-26, 0x0400 },
        { -0.0, 0x8000 },
    };

    (void)state;
    for (size_t i = 0; i < FL_LEN(cases); i++)
        assert_int_equal(fl_half_of(cases[i].v), cases[i].bits);
    assert_true(fl_half_value(0x0001) == 0x1p-24f);
    assert_true(fl_half_value(0x3555) == 0x1.554p-2f);
}

static void bytes_are_counted_or_refused(void **state)
{
    fl_tensor t = fl_tensor_of(FL_DTYPE_F64, NULL, 2, DIMS(3, 5));
    size_t bytes = 7;

    (void)state;
    assert_int_equal(fl_tensor_bytes(&t, &bytes), FL_OK);
    assert_int_equal(bytes, 120);
    t.shape.dim[0] = 0;
    assert_int_equal(fl_tensor_bytes(&t, &bytes), FL_OK);
    assert_int_equal(bytes, 0);
    t.shape.dim[0] = -1;
    assert_int_equal(fl_tensor_bytes(&t, &bytes), FL_ERR_INVAL);
    expect_said("[-1,5]");
    t.shape.dim[0] = INT64_MAX;
    assert_int_equal(fl_tensor_bytes(&t, &bytes), FL_ERR_INVAL);
    assert_int_equal(bytes, 0);
}

static fl_status check(const int64_t *offsets, int64_t n_seq, int64_t rows)
{
    fl_tensor t =
        fl_tensor_ragged(FL_DTYPE_I64, NULL, 2, DIMS(rows, 1), offsets, n_seq);

    return fl_lod_check(&t);
}

static void offsets_ascend_from_zero_to_the_rows(void **state)
{
    (void)state;
    assert_int_equal(check(DIMS(0, 2, 2, 7), 3, 7), FL_OK);
    assert_int_equal(check(DIMS(0), 0, 0), FL_OK);
    assert_int_equal(check(DIMS(1, 2), 1, 2), FL_ERR_INVAL);
    expect_said("do not start with 0");
    assert_int_equal(check(DIMS(0, 3, 2), 2, 2), FL_ERR_INVAL);
    expect_said("falls from 3 to 2");
    assert_int_equal(check(DIMS(0, 2, 6), 2, 7), FL_ERR_INVAL);
    expect_said("end at 6, but there are 7 rows");
    assert_int_equal(check(NULL, 1, 2), FL_ERR_INVAL);
    expect_said("has no offsets");
    assert_int_equal(check(DIMS(0), -1, 0), FL_ERR_INVAL);
}

static void two_levels_fit_each_other(void **state)
{
    fl_tensor t =
        fl_tensor_ragged(FL_DTYPE_I64, NULL, 2, DIMS(7, 1), DIMS(0, 1, 3), 2);

    (void)state;
    t.n_lod = 2;
    t.lod[1] = DIMS(0, 2, 2, 7);
    t.lod_len[1] = 4;
    assert_int_equal(fl_lod_check(&t), FL_OK);
    t.lod[0] = DIMS(0, 1, 2);
    assert_int_equal(fl_lod_check(&t), FL_ERR_INVAL);
    expect_said("but there are 3 sequences");
    t.n_lod = 3;
    assert_int_equal(fl_lod_check(&t), FL_ERR_INVAL);
}

static void a_likeness_has_no_data(void **state)
{
    float values[7] = { 0 };
    fl_tensor from =
        fl_tensor_ragged(FL_DTYPE_F32, values, 2, DIMS(7, 1), DIMS(0, 2, 7), 2);
    fl_tensor to = { .flags = FL_TENSOR_MERGED };

    (void)state;
    fl_tensor_like(&to, &from);
    assert_null(to.data);
    assert_true(fl_tensor_is_merged(&to));
    assert_int_equal(to.kind, FL_KIND_RAGGED);
    assert_int_equal(to.n_lod, 1);
    assert_int_equal(to.lod_len[0], 3);
    assert_true(fl_shape_equal(&to.shape, &from.shape));
    assert_int_equal(fl_tensor_numel(&to), 7);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(shapes_have_a_text),
        cmocka_unit_test(the_longest_shape_fits_its_text),
        cmocka_unit_test(counting_stops_at_the_unknown),
        cmocka_unit_test(an_unknown_dimension_matches_any),
        cmocka_unit_test(negative_axes_count_from_the_end),
        cmocka_unit_test(types_are_known_by_both_names),
        cmocka_unit_test(every_half_is_its_own_nearest),
        cmocka_unit_test(numbers_round_to_the_nearest_half),
        cmocka_unit_test(bytes_are_counted_or_refused),
        cmocka_unit_test(offsets_ascend_from_zero_to_the_rows),
        cmocka_unit_test(two_levels_fit_each_other),
        cmocka_unit_test(a_likeness_has_no_data),
    };

    return cmocka_run_group_tests_name("tensor", tests, NULL, NULL);
}
