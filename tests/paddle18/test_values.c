/* test_values.c - saved variables: tensors, sequences, rows, and files that are
 * not what they should be. */
#include "kit.h"

#include "paddle18/values.h"

/* One variable of memory that ends where the file does. */
typedef struct reading {
    fl_arena arena;
    bytes file;
    fl_p18_bytes at;
    fl_p18_value v;
    fl_status st;
} reading;

typedef fl_status (*read_fn)(fl_p18_bytes *b, const char *name, fl_arena *arena,
                             fl_p18_value *out);

static void read_file(reading *r, read_fn read, const bytes *file, size_t len)
{
    memset(r, 0, sizeof(*r));
    fl_arena_init(&r->arena, 4096);
    put(&r->file, file->data, len);
    r->at = (fl_p18_bytes){ r->file.data, r->file.data,
                            r->file.data + r->file.len };
    r->st = read(&r->at, "w", &r->arena, &r->v);
}

static void end(reading *r)
{
    fl_arena_release(&r->arena);
    fl_vec_release(&r->file);
}

static void a_tensor_is_found_where_it_lies(void **state)
{
    bytes f = { 0 };
    reading r;
    float got[2];

    (void)state;
    put_floats(&f, 5, 2);
    put_u32(&f, 99); /* the next one */
    read_file(&r, fl_p18_read_tensor, &f, f.len);
    expect_ok(r.st);
    assert_int_equal(r.v.tensor.dtype, FL_DTYPE_F32);
    assert_int_equal(r.v.tensor.shape.rank, 1);
    assert_int_equal(r.v.n_bytes, sizeof(got));
    memcpy(got, r.v.tensor.data, sizeof(got));
    assert_true(got[0] == 5 && got[1] == 6);
    assert_int_equal(r.at.end - r.at.at, 4);
    end(&r);
    fl_vec_release(&f);
}

static bytes with_offsets(const uint64_t *offsets, size_t n, int64_t rows)
{
    bytes f = { 0 };
    int64_t zero = 0;

    put_u32(&f, 0);
    put_u64(&f, 1);
    put_u64(&f, n * sizeof(*offsets));
    put(&f, offsets, n * sizeof(*offsets));
    put_tensor(&f, FL_P18_INT64, 1, &rows);
    for (int64_t i = 0; i < rows; i++)
        put(&f, &zero, sizeof(zero));
    return f;
}

static void offsets_of_sequences_are_checked(void **state)
{
    static const struct {
        uint64_t offsets[3];
        const char *said; /* NULL: they are good */
    } cases[] = {
        { { 0, 2, 3 }, NULL },
        { { 1, 2, 3 }, "its offsets do not ascend from 0" },
        { { 0, 3, 2 }, "its offsets do not ascend from 0" },
        { { 0, 2, 4 }, "its offsets do not end with its rows" },
    };

    (void)state;
    for (size_t i = 0; i < FL_LEN(cases); i++) {
        bytes f = with_offsets(cases[i].offsets, 3, 3);
        reading r;

        read_file(&r, fl_p18_read_tensor, &f, f.len);
        assert_int_equal(r.st, cases[i].said ? FL_ERR_CORRUPT : FL_OK);
        if (cases[i].said)
            expect_said(cases[i].said);
        else
            assert_int_equal(r.v.n_lod, 1);
        end(&r);
        fl_vec_release(&f);
    }
}

static bytes saved_rows(uint64_t n_rows, int64_t n_values)
{
    int64_t dims[] = { n_values, 2 };
    bytes f = { 0 };

    put_u32(&f, 0);
    put_u64(&f, n_rows);
    for (uint64_t i = 0; i < n_rows; i++)
        put_u64(&f, 10 * i);
    put_u64(&f, 1000);
    put_tensor(&f, FL_P18_FP32, 2, dims);
    for (int64_t i = 0; i < 2 * n_values; i++)
        put_u32(&f, 0);
    return f;
}

static void rows_of_a_table_are_read(void **state)
{
    bytes f = saved_rows(3, 3), few = saved_rows(3, 2);
    reading r;

    (void)state;
    read_file(&r, fl_p18_read_rows, &f, f.len);
    expect_ok(r.st);
    assert_int_equal(r.v.n_rows, 3);
    assert_int_equal(r.v.height, 1000);
    assert_int_equal(r.at.end - r.at.at, 0);
    end(&r);
    read_file(&r, fl_p18_read_rows, &few, few.len);
    assert_int_equal(r.st, FL_ERR_CORRUPT);
    expect_said("it has fewer rows of values than rows");
    end(&r);
    fl_vec_release(&f);
    fl_vec_release(&few);
}

static void a_file_cut_anywhere_is_refused(void **state)
{
    uint64_t offsets[] = { 0, 1, 3 };
    bytes tensor = with_offsets(offsets, 3, 3), rows = saved_rows(2, 2);
    reading r;

    (void)state;
    for (size_t len = 0; len < tensor.len; len++) {
        read_file(&r, fl_p18_read_tensor, &tensor, len);
        assert_int_equal(r.st, FL_ERR_CORRUPT);
        expect_said("variable w");
        end(&r);
    }
    for (size_t len = 0; len < rows.len; len++) {
        read_file(&r, fl_p18_read_rows, &rows, len);
        assert_int_equal(r.st, FL_ERR_CORRUPT);
        end(&r);
    }
    fl_vec_release(&tensor);
    fl_vec_release(&rows);
}

static void expect_refused(bytes *f, fl_status st, const char *part)
{
    reading r;

    read_file(&r, fl_p18_read_tensor, f, f->len);
    assert_int_equal(r.st, st);
    expect_said(part);
    end(&r);
    fl_vec_release(f);
}

static bytes head(int type, int rank, const int64_t *dims)
{
    bytes f = { 0 };

    put_u32(&f, 0);
    put_u64(&f, 0);
    put_tensor(&f, type, rank, dims);
    return f;
}

#define WIDE (INT64_C(1) << 48)

/* Sizes that no memory has room for are refused before any is asked for. */
static void sizes_beyond_the_file_are_refused(void **state)
{
    bytes huge = head(FL_P18_FP64, 3, (int64_t[]){ WIDE, WIDE, WIDE });
    bytes large = head(FL_P18_FP32, 1, (int64_t[]){ WIDE });
    bytes open = head(FL_P18_FP32, 1, (int64_t[]){ -1 });
    bytes wide = head(FL_P18_FP32, 1, (int64_t[]){ WIDE + 1 });
    bytes levels = { 0 }, level = { 0 };
    uint64_t calls = fl_data_calls();

    (void)state;
    expect_refused(&huge, FL_ERR_CORRUPT, "is not that of saved values");
    expect_refused(&large, FL_ERR_CORRUPT, "it was cut off");
    expect_refused(&open, FL_ERR_CORRUPT, "is not that of saved values");
    expect_refused(&wide, FL_ERR_CORRUPT, "is no dimension");
    put_u32(&levels, 0);
    put_u64(&levels, UINT64_MAX);
    expect_refused(&levels, FL_ERR_CORRUPT, "levels of offsets");
    put_u32(&level, 0);
    put_u64(&level, 1);
    put_u64(&level, UINT64_MAX - 7);
    expect_refused(&level, FL_ERR_CORRUPT, "an impossible length");
    assert_true(fl_data_calls() - calls < 10);
}

static void types_and_versions_that_there_are_not_are_named(void **state)
{
    bytes none = head(77, 1, (int64_t[]){ 1 });
    bytes version = { 0 };

    (void)state;
    expect_refused(&none, FL_ERR_CORRUPT, "type 77, which does not exist");
    put_u32(&version, 3);
    expect_refused(&version, FL_ERR_UNSUPPORTED,
                   "the version of the variable is 3, only 0 is known");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_tensor_is_found_where_it_lies),
        cmocka_unit_test(offsets_of_sequences_are_checked),
        cmocka_unit_test(rows_of_a_table_are_read),
        cmocka_unit_test(a_file_cut_anywhere_is_refused),
        cmocka_unit_test(sizes_beyond_the_file_are_refused),
        cmocka_unit_test(types_and_versions_that_there_are_not_are_named),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
