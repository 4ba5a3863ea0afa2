/* test_safetensors.c - files of tensors: written, read in place, and refused
 * when anything in them is not as it should be. */
#include "kit.h"

#include <xxhash.h>

#include "ckpt/safetensors.h"

#define N_ROWS 1000

static fl_st_tensor tensor(const char *name, fl_st_type type, int rank,
                           const int64_t *dims)
{
    return (fl_st_tensor){ .name = name,
                           .type = type,
                           .shape = fl_shape_of(rank, dims) };
}

/* A row per key, in two columns that grow side by side. */
static void columns_are_written_side_by_side_and_read_in_place(void **state)
{
    const char *path = kit_path("t.safetensors");
    fl_st_tensor plan[] = {
        tensor("flag", FL_ST_BOOL, 1, (int64_t[]){ 3 }),
        tensor("value", FL_ST_F32, 2, (int64_t[]){ N_ROWS, 2 }),
        tensor("key", FL_ST_U64, 1, (int64_t[]){ N_ROWS }),
    };
    uint64_t sums[3], bytes, keys[N_ROWS];
    float values[N_ROWS][2];
    fl_st_writer *w = NULL;
    fl_st_file *f = NULL;
    const fl_st_tensor *t;

    (void)state;
    assert_ok(fl_st_writer_open(&w, path, plan, FL_LEN(plan)));
    for (size_t i = 0; i < N_ROWS; i++) {
        keys[i] = i * i;
        values[i][0] = (float)i;
        values[i][1] = -(float)i;
        assert_ok(fl_st_writer_put(w, 2, &keys[i], sizeof(keys[i])));
        assert_ok(fl_st_writer_put(w, 1, values[i], sizeof(values[i])));
    }
    assert_ok(fl_st_writer_put(w, 0, "\1\0\1", 3));
    assert_int_equal(access(path, F_OK), -1);
    assert_ok(fl_st_writer_commit(w, &bytes, sums));
    assert_true(sums[2] == XXH3_64bits(keys, sizeof(keys)));

    assert_ok(fl_st_open(&f, path));
    assert_int_equal(fl_st_file_bytes(f), bytes);
    t = fl_st_find(f, "key");
    assert_ptr_equal(t, fl_st_at(f, 0));
    assert_int_equal(t->offset % 64, 0);
    assert_memory_equal(fl_st_bytes(f, t), keys, sizeof(keys));
    assert_ok(fl_st_verify(f, t, sums[2]));
    assert_refused(fl_st_verify(f, t, sums[1]), FL_ERR_CORRUPT,
                   "tensor key has the checksum");
    t = fl_st_find(f, "value");
    assert_int_equal(t->shape.rank, 2);
    assert_int_equal(t->shape.dim[0], N_ROWS);
    assert_memory_equal(fl_st_bytes(f, t), values, sizeof(values));
    assert_memory_equal(fl_st_bytes(f, fl_st_find(f, "flag")), "\1\0\1", 3);
    assert_null(fl_st_at(f, 3));
    assert_null(fl_st_find(f, "keys"));
    fl_st_close(f);
}

static void every_type_and_shape_comes_back(void **state)
{
    const char *path = kit_path("t.safetensors");
    uint64_t n, sums[16], bytes;
    fl_st_writer *w = NULL;
    fl_st_file *f = NULL;
    fl_st_tensor plan[] = {
#define X(name, value, bytes) tensor(#name, FL_ST_##name, 1, (int64_t[]){ 5 }),
        FL_ST_TYPE_MAP(X)
#undef X
            tensor("scalar", FL_ST_F64, 0, NULL),
        tensor("empty \"\xC3\xA4\"", FL_ST_F32, 2, (int64_t[]){ 0, 8 }),
    };
    static const char zeros[64];

    (void)state;
    assert_ok(fl_st_writer_open(&w, path, plan, FL_LEN(plan)));
    for (size_t i = 0; i < FL_LEN(plan); i++) {
        assert_ok(fl_st_tensor_bytes(&plan[i], &n));
        assert_ok(fl_st_writer_put(w, i, zeros, n));
    }
    assert_ok(fl_st_writer_commit(w, &bytes, sums));
    assert_ok(fl_st_open(&f, path));
    for (size_t i = 0; i < FL_LEN(plan); i++) {
        const fl_st_tensor *t = fl_st_find(f, plan[i].name);

        assert_non_null(t);
        assert_int_equal(t->type, plan[i].type);
        assert_true(fl_shape_equal(&t->shape, &plan[i].shape));
    }
    fl_st_close(f);
}

static void a_file_without_tensors_is_a_file(void **state)
{
    const char *path = kit_path("t.safetensors");
    fl_st_writer *w = NULL;
    fl_st_file *f = NULL;
    uint64_t bytes;

    (void)state;
    assert_ok(fl_st_writer_open(&w, path, NULL, 0));
    assert_ok(fl_st_writer_commit(w, &bytes, NULL));
    assert_ok(fl_st_open(&f, path));
    assert_null(fl_st_at(f, 0));
    fl_st_close(f);
}

static void what_is_dropped_leaves_nothing_behind(void **state)
{
    fl_st_tensor plan = tensor("x", FL_ST_F32, 1, (int64_t[]){ 2 });
    fl_st_writer *w = NULL;

    (void)state;
    assert_ok(fl_st_writer_open(&w, kit_path("t"), &plan, 1));
    assert_ok(fl_st_writer_put(w, 0, "1234", 4));
    fl_st_writer_drop(w);
    fl_st_writer_drop(NULL);
    assert_int_equal(rmdir(kit_dir), 0);
    assert_int_equal(mkdir(kit_dir, 0700), 0);
}

static void a_tensor_larger_than_any_file_is_refused(void **state)
{
    fl_st_tensor plan = tensor("x", FL_ST_F32, 3,
                               (int64_t[]){ INT64_MAX, INT64_MAX, INT64_MAX });
    fl_st_writer *w = NULL;

    (void)state;
    assert_refused(fl_st_writer_open(&w, kit_path("t"), &plan, 1), FL_ERR_INVAL,
                   "tensor x is larger than any file");
}

/* --- what is not as it should be ------------------------------------------ */

/* A file with this header and so many bytes of zeros. */
static fl_status open_with(const char *header, size_t n_data)
{
    const char *path = kit_path("bad");
    fl_st_file *f = NULL;
    fl_str s = { 0 };
    fl_status st;

    fl_str_addf(&s, "%8s%s%*s", "", header, (int)n_data, "");
    for (size_t i = 0; i < 8; i++)
        s.data[i] = (char)(strlen(header) >> (8 * i));
    kit_write(path, s.data, s.len);
    fl_str_release(&s);
    st = fl_st_open(&f, path);
    fl_st_close(f);
    return st;
}

static const struct {
    const char *header;
    size_t n_data;
    fl_status status;
    const char *said;
} bad[] = {
    { "[]", 0, FL_ERR_CORRUPT, "is no JSON object" },
    { "{\"x\": 1}", 0, FL_ERR_CORRUPT, "no field \"dtype\"" },
    { "{\"x\":{\"dtype\":\"F8_E4M3\",\"shape\":[],\"data_offsets\":[0,2]}}", 2,
      FL_ERR_UNSUPPORTED, "tensor x is of type F8_E4M3" },
    { "{\"x\":{\"dtype\":\"U8\",\"data_offsets\":[0,2]}}", 2, FL_ERR_CORRUPT,
      "no field \"shape\"" },
    { "{\"x\":{\"dtype\":\"U8\",\"shape\":[2]}}", 2, FL_ERR_CORRUPT,
      "no field \"data_offsets\"" },
    { "{\"x\":{\"dtype\":\"U8\",\"shape\":[2],\"data_offsets\":[0]}}", 2,
      FL_ERR_CORRUPT, "no two data_offsets" },
    { "{\"x\":{\"dtype\":\"U8\",\"shape\":[3],\"data_offsets\":[0,2]}}", 2,
      FL_ERR_CORRUPT, "cannot lie at 0 to 2" },
    { "{\"x\":{\"dtype\":\"U8\",\"shape\":[2],\"data_offsets\":[1,3]}}", 2,
      FL_ERR_CORRUPT, "cannot lie at 1 to 3 of the 2 bytes" },
    { "{\"x\":{\"dtype\":\"U8\",\"shape\":[2],\"data_offsets\":[2,0]}}", 2,
      FL_ERR_CORRUPT, "cannot lie at 2 to 0" },
    { "{\"x\":{\"dtype\":\"U8\",\"shape\":[-1],\"data_offsets\":[0,2]}}", 2,
      FL_ERR_CORRUPT, "\"shape\" is no number" },
    { "{\"x\":{\"dtype\":\"F64\",\"shape\":[9007199254740992,9007199254740992],"
      "\"data_offsets\":[0,2]}}",
      2, FL_ERR_CORRUPT, "larger than any file" },
    { "{\"x\":{\"dtype\":\"U8\",\"shape\":[1,1,1,1,1,1,1,1,1,1],"
      "\"data_offsets\":[0,1]}}",
      1, FL_ERR_CORRUPT, "more than 9 dimensions" },
    { "{\"x\":{\"dtype\":\"U8\",\"shape\":[2],\"data_offsets\":[0,2]}}", 3,
      FL_ERR_CORRUPT, "but its tensors end at" },
    { "{\"x\":{\"dtype\":\"U8\",\"shape\":[2],\"data_offsets\":[1,3]}}", 3,
      FL_ERR_CORRUPT, "the one before it ends" },
    { "{\"x\":{\"dtype\":\"U8\",\"shape\":[2],\"data_offsets\":[0,2]},"
      "\"y\":{\"dtype\":\"U8\",\"shape\":[2],\"data_offsets\":[1,3]}}",
      3, FL_ERR_CORRUPT, "the one before it ends" },
    { "{\"x\":{\"dtype\":\"U8\",\"shape\":[1],\"data_offsets\":[0,1]},"
      "\"x\":{\"dtype\":\"U8\",\"shape\":[1],\"data_offsets\":[1,2]}}",
      2, FL_ERR_CORRUPT, "two tensors called x" },
    { "{\"x\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[0,4]}}", 4,
      FL_ERR_CORRUPT, "cannot be read in place" },
};

static void a_bad_header_is_refused_by_name(void **state)
{
    (void)state;
    for (size_t i = 0; i < FL_LEN(bad); i++)
        assert_refused(open_with(bad[i].header, bad[i].n_data), bad[i].status,
                       bad[i].said);
}

static void metadata_is_passed_over(void **state)
{
    (void)state;
    assert_ok(
        open_with("{\"__metadata__\":{\"format\":\"pt\"},\"x\":{\"dtype\":"
                  "\"U8\",\"shape\":[2],\"data_offsets\":[0,2]}}",
                  2));
}

static void what_is_no_such_file_is_refused(void **state)
{
    const char *path = kit_path("bad");
    fl_st_file *f = NULL;

    (void)state;
    assert_refused(fl_st_open(&f, path), FL_ERR_NOTFOUND, "cannot open");
    assert_refused(fl_st_open(&f, kit_dir), FL_ERR_INVAL, "no regular file");
    kit_write(path, "", 0);
    assert_refused(fl_st_open(&f, path), FL_ERR_CORRUPT, "is empty");
    kit_write(path, "1234567", 7);
    assert_refused(fl_st_open(&f, path), FL_ERR_CORRUPT, "no safetensors file");
    kit_write(path, "\377\377\377\377\377\377\377\377{}", 10);
    assert_refused(fl_st_open(&f, path), FL_ERR_CORRUPT, "no safetensors file");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        KIT_TEST(columns_are_written_side_by_side_and_read_in_place),
        KIT_TEST(every_type_and_shape_comes_back),
        KIT_TEST(a_file_without_tensors_is_a_file),
        KIT_TEST(what_is_dropped_leaves_nothing_behind),
        KIT_TEST(a_tensor_larger_than_any_file_is_refused),
        KIT_TEST(a_bad_header_is_refused_by_name),
        KIT_TEST(metadata_is_passed_over),
        KIT_TEST(what_is_no_such_file_is_refused),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
