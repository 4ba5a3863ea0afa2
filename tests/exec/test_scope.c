/* test_scope.c - values of every kind between runs. */
#include "net.h"

#include <string.h>

#include "../make.h"
#include "exec/scope.h"

typedef struct world {
    fl_ctx *ctx;
    fl_executor *executor;
    fl_scope *scope;
} world;

static int setup(void **state)
{
    static world w;

    w.ctx = make_ctx();
    w.executor = make_executor(w.ctx);
    w.scope = fl_current_scope(w.ctx);
    *state = &w;
    return 0;
}

static int teardown(void **state)
{
    world *w = *state;

    fl_executor_free(w->executor);
    fl_ctx_free(w->ctx);
    return 0;
}

static fl_tensor get(const world *w, const char *name)
{
    fl_tensor t;

    assert_ok(fl_scope_get(w->scope, name, &t));
    return t;
}

/* Runs a program of its own over the scope. */
static fl_status run_text(world *w, const char *text, const fl_feed *feed)
{
    fl_run_args a =
        FL_INIT(fl_run_args, .feeds = feed, .n_feeds = feed != NULL);
    fl_program *p;
    fl_status st;

    assert_ok(fl_program_from_text(&p, w->ctx, text));
    st = fl_run(w->executor, p, &a);
    fl_program_free(p);
    return st;
}

static fl_feed feed_x(const float *x, int64_t rows)
{
    return (fl_feed){ "x", fl_tensor_of(FL_DTYPE_F32, x, 2,
                                        (int64_t[]){ rows, 2 }) };
}

static void a_scope_keeps_sequences(void **state)
{
    world *w = *state;
    int64_t ids[] = { 7, 8, 9 }, offsets[] = { 0, 1, 3 };
    fl_tensor t =
        fl_tensor_ragged(FL_DTYPE_I64, ids, 2, (int64_t[]){ 3, 1 }, offsets, 2);

    assert_ok(fl_scope_set(w->scope, "s", &t));
    memset(ids, 0, sizeof(ids));
    memset(offsets, 0, sizeof(offsets));
    t = get(w, "s");
    assert_int_equal(t.kind, FL_KIND_RAGGED);
    assert_int_equal(t.lod_len[0], 3);
    assert_memory_equal(t.lod[0], ((int64_t[]){ 0, 1, 3 }), sizeof(offsets));
    assert_memory_equal(t.data, ((int64_t[]){ 7, 8, 9 }), sizeof(ids));
}

static void a_scope_keeps_rows(void **state)
{
    world *w = *state;
    float values[] = { 1, 2, 3, 4 };
    uint64_t rows[] = { 5, 0 };
    fl_tensor t = fl_tensor_of(FL_DTYPE_F32, values, 2, (int64_t[]){ 2, 2 });

    t.kind = FL_KIND_ROWS;
    t.rows = rows;
    t.height = 9;
    assert_ok(fl_scope_set(w->scope, "g", &t));
    rows[0] = 1;
    t = get(w, "g");
    assert_int_equal(t.kind, FL_KIND_ROWS);
    assert_int_equal(t.height, 9);
    assert_memory_equal(t.rows, ((uint64_t[]){ 5, 0 }), sizeof(rows));
    assert_memory_equal(t.data, values, sizeof(values));
}

static void a_scope_keeps_arrays_of_values(void **state)
{
    world *w = *state;
    float values[] = { 1, 2, 3 };
    int64_t offsets[] = { 0, 2, 3 };
    const fl_tensor items[] = {
        fl_tensor_of(FL_DTYPE_F32, values, 1, (int64_t[]){ 2 }),
        fl_tensor_ragged(FL_DTYPE_F32, values, 2, (int64_t[]){ 3, 1 }, offsets,
                         2),
    };
    fl_tensor t = fl_tensor_array(items, 2), inner;
    const fl_tensor *got;

    assert_ok(fl_scope_set(w->scope, "a", &t));
    memset(values, 0, sizeof(values));
    t = get(w, "a");
    got = t.data;
    assert_int_equal(t.kind, FL_KIND_ARRAY);
    assert_int_equal(t.shape.dim[0], 2);
    assert_memory_equal(got[0].data, ((float[]){ 1, 2 }), 2 * sizeof(float));
    assert_memory_equal(got[1].data, ((float[]){ 1, 2, 3 }), sizeof(values));
    assert_memory_equal(got[1].lod[0], offsets, sizeof(offsets));
    inner = t;
    t = fl_tensor_array(&inner, 1);
    assert_error(fl_scope_set(w->scope, "b", &t), FL_ERR_UNSUPPORTED,
                 "variable b: an array of arrays");
}

static void a_value_with_bad_offsets_is_refused_by_name(void **state)
{
    world *w = *state;
    int64_t ids[] = { 7, 8, 9 }, offsets[] = { 0, 1, 2 };
    fl_tensor t =
        fl_tensor_ragged(FL_DTYPE_I64, ids, 2, (int64_t[]){ 3, 1 }, offsets, 2);

    assert_error(fl_scope_set(w->scope, "s", &t), FL_ERR_INVAL,
                 "variable s: offsets of level 0 end at 2");
    assert_false(fl_scope_find(w->scope, "s", &t));
}

static void an_operator_leaves_rows_that_another_program_reads(void **state)
{
    world *w = *state;
    int64_t ids[] = { 3, 1, 3 };
    float table[8] = { 0 }, rate = 0.5f;
    fl_feed feed = { "ids",
                     fl_tensor_of(FL_DTYPE_I64, ids, 2, (int64_t[]){ 3, 1 }) };
    fl_tensor t = fl_tensor_of(FL_DTYPE_F32, table, 2, (int64_t[]){ 4, 2 });

    assert_ok(fl_scope_set(w->scope, "w", &t));
    t = fl_tensor_of(FL_DTYPE_F32, &rate, 1, (int64_t[]){ 1 });
    assert_ok(fl_scope_set(w->scope, "rate", &t));
    assert_ok(run_text(
        w,
        "var ids : i64[-1,1] data\n"
        "param w : f32[4,2]\n"
        "var g : f32[-1,2] rows persist\n"
        "op lookup_table (W=w, Ids=ids) -> (Out=y) {is_sparse=true}\n"
        "op fill_any_like (X=y) -> (Out=one) {value=1}\n"
        "op lookup_table_grad (W=w, Ids=ids, Out@GRAD=one) -> (W@GRAD=g) "
        "{is_sparse=true}\n",
        &feed));
    t = get(w, "g");
    assert_int_equal(t.kind, FL_KIND_ROWS);
    assert_int_equal(t.shape.dim[0], 3);
    assert_ok(run_text(w,
                       "param w : f32[4,2]\n"
                       "var rate : f32[1] persist\n"
                       "var g : f32[-1,2] rows persist\n"
                       "op sgd (Param=w, Grad=g, LearningRate=rate) -> "
                       "(ParamOut=w) @optimize\n",
                       NULL));
    t = get(w, "w");
    assert_memory_equal(t.data, ((float[]){ 0, 0, -0.5f, -0.5f, 0, 0, -1, -1 }),
                        sizeof(table));
}

static void a_larger_batch_fits_in_the_scope(void **state)
{
    static const char *const text = "var x : f32[-1,2] data\n"
                                    "var y : f32[-1,2] persist\n"
                                    "op relu (X=x) -> (Out=y)\n";
    world *w = *state;
    const float x[8] = { 1, -1, 2, -2, 3, -3, 4, -4 };
    fl_feed feed = feed_x(x, 1);

    assert_ok(run_text(w, text, &feed));
    assert_int_equal(get(w, "y").shape.dim[0], 1);
    feed = feed_x(x, 4);
    assert_ok(run_text(w, text, &feed));
    assert_int_equal(get(w, "y").shape.dim[0], 4);
    assert_memory_equal(get(w, "y").data, ((float[]){ 1, 0, 2, 0, 3, 0, 4, 0 }),
                        sizeof(x));
}

static void offsets_in_the_scope_outlive_those_that_were_fed(void **state)
{
    world *w = *state;
    float x[] = { 1, 2, 3 };
    int64_t offsets[] = { 0, 2, 3 };
    fl_feed feed = { "x", fl_tensor_ragged(FL_DTYPE_F32, x, 2,
                                           (int64_t[]){ 3, 1 }, offsets, 2) };
    fl_tensor t;

    assert_ok(run_text(w,
                       "var x : f32[-1,1] lod=1 data\n"
                       "var y : f32[-1,1] lod=1 persist\n"
                       "op relu (X=x) -> (Out=y)\n",
                       &feed));
    memset(offsets, 0, sizeof(offsets));
    t = get(w, "y");
    assert_int_equal(t.n_lod, 1);
    assert_memory_equal(t.lod[0], ((int64_t[]){ 0, 2, 3 }), sizeof(offsets));
}

static void what_is_written_first_may_change_its_shape_and_type(void **state)
{
    world *w = *state;

    assert_ok(run_text(w,
                       "var v : f32[2] persist\n"
                       "op fill_constant () -> (Out=v) {shape=[2], value=1}\n",
                       NULL));
    assert_ok(run_text(w,
                       "var v : i64[3] persist\n"
                       "op fill_constant () -> (Out=v) {shape=[3], value=7, "
                       "dtype=int64}\n",
                       NULL));
    assert_int_equal(get(w, "v").dtype, FL_DTYPE_I64);
    assert_memory_equal(get(w, "v").data, ((int64_t[]){ 7, 7, 7 }),
                        3 * sizeof(int64_t));
    assert_error(run_text(w,
                          "var v : f32[2] persist\n"
                          "var y : f32[2] persist\n"
                          "op relu (X=v) -> (Out=y)\n",
                          NULL),
                 FL_ERR_INVAL,
                 "variable v is i64[3] in the scope, but the program wants "
                 "f32[2]");
}

static void what_is_written_twice_is_what_the_last_operator_made(void **state)
{
    world *w = *state;
    fl_program *p;
    fl_op_args a = FL_INIT(fl_op_args, .redeclares = true,
                           .outputs = FL_ARGS({ "Out", "v" }));

    for (int round = 0; round < 2; round++) {
        assert_ok(fl_program_from_text(
            &p, w->ctx,
            "var v : f32[2] persist\n"
            "op fill_constant () -> (Out=v) {shape=[2], value=1}\n"));
        a.attrs = FL_ATTRS(
            fl_list_attr("shape", FL_ATTR_INTS, (int64_t[]){ 10, 5, 4 }, 3),
            fl_float_attr("value", 2));
        assert_ok(fl_append_op_with(NULL, fl_program_block(p, 0),
                                    "fill_constant", &a));
        assert_ok(fl_run(w->executor, p, NULL));
        assert_int_equal(get(w, "v").shape.rank, 3);
        assert_true(((const float *)get(w, "v").data)[199] == 2);
        fl_program_free(p);
    }
}

static void rows_in_the_scope_are_not_read_as_dense_values(void **state)
{
    world *w = *state;
    float values[] = { 1, 2 };
    uint64_t rows[] = { 5 };
    fl_tensor t = fl_tensor_of(FL_DTYPE_F32, values, 2, (int64_t[]){ 1, 2 });

    t.kind = FL_KIND_ROWS;
    t.rows = rows;
    assert_ok(fl_scope_set(w->scope, "v", &t));
    assert_error(run_text(w,
                          "var v : f32[1,2] persist\n"
                          "var y : f32[1,2] persist\n"
                          "op relu (X=v) -> (Out=y)\n",
                          NULL),
                 FL_ERR_INVAL, "variable v is f32[1,2] rows in the scope");
}

static void a_child_writes_where_its_parent_has_the_value(void **state)
{
    world *w = *state;
    const float x[4] = { 1, 2, 3, 4 };
    fl_feed feed = feed_x(x, 1);
    fl_run_args a = FL_INIT(fl_run_args, .feeds = &feed, .n_feeds = 1);
    fl_scope *child;
    fl_program *p;

    assert_ok(fl_scope_set(w->scope, "y", &feed.value));
    assert_ok(fl_scope_new(&child, w->scope));
    assert_ok(fl_program_from_text(&p, w->ctx,
                                   "var x : f32[-1,2] data\n"
                                   "var y : f32[-1,2] persist\n"
                                   "op relu (X=x) -> (Out=y)\n"));
    feed = feed_x(x, 2);
    a.scope = child;
    assert_ok(fl_run(w->executor, p, &a));
    assert_null(fl_scope_name(child, 0));
    assert_int_equal(get(w, "y").shape.dim[0], 2);
    fl_program_free(p);
    fl_scope_free(child);
}

/* Of an odd number of bytes, and too many for small pages. */
#define MANY 300001

static void values_that_were_joined_are_as_they_were(void **state)
{
    static float many[MANY];
    const int64_t off[] = { 0, 1, 2 };
    const float few[] = { 1, 2, 3 };
    fl_tensor t;
    fl_scope *s;

    (void)state;
    many[MANY - 1] = 5;
    assert_ok(fl_scope_new(&s, NULL));
    t = fl_tensor_of(FL_DTYPE_F32, many, 1, (int64_t[]){ MANY });
    assert_ok(fl_scope_set(s, "many", &t));
    t = fl_tensor_of(FL_DTYPE_F32, few, 1, (int64_t[]){ 3 });
    assert_ok(fl_scope_set(s, "few", &t));
    t = fl_tensor_ragged(FL_DTYPE_F32, few, 2, (int64_t[]){ 2, 1 }, off, 2);
    assert_ok(fl_scope_set(s, "lists", &t));
    fl_scope_join(s);
    assert_ok(fl_scope_get(s, "many", &t));
    assert_memory_equal(t.data, many, sizeof(many));
    assert_ok(fl_scope_get(s, "few", &t));
    assert_memory_equal(t.data, few, sizeof(few));
    assert_int_equal((uintptr_t)t.data % 64, 0);
    assert_ok(fl_scope_get(s, "lists", &t));
    assert_memory_equal(t.data, few, 2 * sizeof(*few));
    assert_memory_equal(t.lod[0], off, sizeof(off));
    t = fl_tensor_of(FL_DTYPE_F32, few + 1, 1, (int64_t[]){ 2 });
    assert_ok(fl_scope_set(s, "few", &t)); /* it has a place of its own again */
    assert_ok(fl_scope_get(s, "few", &t));
    assert_memory_equal(t.data, few + 1, 2 * sizeof(*few));
    fl_scope_free(s);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(a_scope_keeps_sequences),
        TEST(a_scope_keeps_rows),
        TEST(a_scope_keeps_arrays_of_values),
        TEST(a_value_with_bad_offsets_is_refused_by_name),
        TEST(an_operator_leaves_rows_that_another_program_reads),
        TEST(a_larger_batch_fits_in_the_scope),
        TEST(offsets_in_the_scope_outlive_those_that_were_fed),
        TEST(what_is_written_first_may_change_its_shape_and_type),
        TEST(what_is_written_twice_is_what_the_last_operator_made),
        TEST(rows_in_the_scope_are_not_read_as_dense_values),
        TEST(a_child_writes_where_its_parent_has_the_value),
        TEST(values_that_were_joined_are_as_they_were),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
