/* test_tables.c - init_table and pull_sparse against a backend that answers at
 * once or later, and lookups that nobody translated. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <stdio.h>
#include <string.h>

#include "base/hash.h"
#include "table_kit.h"

/* --- init_table ----------------------------------------------------------- */

static void init_table_makes_a_table_with_the_seed_of_the_program(void **state)
{
    table_op *f = *state;

    table_op_begin(f, "op init_table () -> () {table=new, settings=\"dim=2\"}");
    assert_int_equal(table_op_run(f), FL_OK);
    assert_non_null(fake_find(f->fake, "new"));
    assert_int_equal(fake_find(f->fake, "new")->dim, 2);
    assert_int_equal(fake_find(f->fake, "new")->seed, 5);
}

static void init_table_passes_the_error_of_the_backend_on(void **state)
{
    table_op *f = *state;

    table_op_begin(f, "op init_table () -> () {table=t, settings=\"dim=2\"}");
    assert_int_equal(table_op_run(f), FL_ERR_INVAL);
    expect_said("table t has other settings");
}

static void init_table_without_a_backend_is_refused(void **state)
{
    table_op *f = *state;

    table_op_begin(f, "op init_table () -> () {table=t, settings=\"dim=3\"}");
    f->comm = NULL;
    assert_int_equal(table_op_run(f), FL_ERR_INVAL);
    expect_said("table t: init_table needs a table backend");
}

static void init_table_needs_a_name(void **state)
{
    fl_program *p;

    (void)state;
    assert_int_equal(table_op_parse("op init_table () -> ()", &p),
                     FL_ERR_INVAL);
    expect_said("table is not given");
}

/* --- pull_sparse ---------------------------------------------------------- */

enum { ROWS, INDEX_OUT, KEYS_OUT };

static const int64_t offsets_a[] = { 0, 2, 2, 4 };
static const int64_t ids_a[] = { 7, 5, 7, 0 };
static const uint64_t ids_b[] = { 5, 19, 0 };

static void give_ids(table_op *f)
{
    table_op_give(f, 0, list_of(ids_a, offsets_a, 3));
    table_op_give(f, 0,
                  fl_tensor_of(FL_DTYPE_U64, ids_b, 2, (int64_t[]){ 3, 1 }));
}

static void begin_pull(table_op *f, const char *attrs)
{
    char op[TEXT_MAX];

    snprintf(op, sizeof(op),
             "op pull_sparse (Ids=[a,b]) -> (Rows=rows, Index=[ia,ib], "
             "Keys=found) {table=t, dim=3%s}",
             attrs);
    table_op_begin(f, op);
    give_ids(f);
}

static void expect_keys(const table_op *f, const uint64_t *keys, int64_t n)
{
    const fl_tensor *rows = f->out[ROWS].t[0], *found = f->out[KEYS_OUT].t[0];

    assert_int_equal(rows->shape.dim[0], n);
    assert_int_equal(found->shape.dim[0], n);
    assert_memory_equal(found->data, keys, (size_t)n * sizeof(*keys));
}

static void expect_index(const table_op *f, int list, const int64_t *want)
{
    const fl_tensor *index = f->out[INDEX_OUT].t[list];

    assert_memory_equal(index->data, want,
                        (size_t)fl_tensor_numel(index) * sizeof(*want));
}

static void expect_first_rows(const table_op *f, const uint64_t *keys, size_t n)
{
    const float *rows = f->out[ROWS].t[0]->data;

    for (size_t i = 0; i < n; i++)
        for (uint32_t d = 0; d < DIM; d++)
            assert_true(rows[i * DIM + d] == fake_first(keys[i], d));
}

static void expect_pulled(const table_op *f)
{
    static const uint64_t keys[] = { 7, 5, 0, 19 };
    static const int64_t want_a[] = { 0, 1, 0, 2 }, want_b[] = { 1, 3, 2 };

    expect_keys(f, keys, 4);
    expect_index(f, 0, want_a);
    expect_index(f, 1, want_b);
    assert_int_equal(f->out[INDEX_OUT].t[0]->lod_len[0], 4);
    expect_first_rows(f, keys, 4);
}

static void pull_asks_for_each_id_once(void **state)
{
    table_op *f = *state;

    begin_pull(f, "");
    assert_int_equal(table_op_run(f), FL_OK);
    expect_pulled(f);
    assert_int_equal(f->fake->n_asked, 4);
    assert_int_equal(fake_find(f->fake, "t")->rows.len, 4);
}

static void pull_without_create_makes_no_rows(void **state)
{
    table_op *f = *state;

    begin_pull(f, ", create=false");
    assert_int_equal(table_op_run(f), FL_OK);
    expect_pulled(f);
    assert_int_equal(fake_find(f->fake, "t")->rows.len, 0);
}

static void the_padding_comes_last_as_zeros_and_is_not_asked_for(void **state)
{
    static const uint64_t keys[] = { 7, 0, 19, 5 };
    static const int64_t want_a[] = { 0, 3, 0, 1 }, want_b[] = { 3, 2, 1 };
    static const float zeros[DIM];
    table_op *f = *state;

    begin_pull(f, ", padding_idx=5");
    memset(f->room, 0xff, sizeof(f->room));
    assert_int_equal(table_op_run(f), FL_OK);
    expect_keys(f, keys, 4);
    expect_index(f, 0, want_a);
    expect_index(f, 1, want_b);
    expect_first_rows(f, keys, 3);
    assert_memory_equal((float *)f->out[ROWS].t[0]->data + 3 * DIM, zeros,
                        sizeof(zeros));
    assert_int_equal(f->fake->n_asked, 3);
}

static void ids_are_asked_for_in_the_order_of_the_hash(void **state)
{
    static const int64_t ids[] = { 19, 7, 0, 5, 19 };
    static const uint64_t keys[] = { 5, 7, 19, 0 };
    static const int64_t want[] = { 2, 1, 3, 0, 2 };
    table_op *f = *state;

    for (size_t i = 1; i < 4; i++)
        assert_true(fl_hash_key(keys[i - 1]) < fl_hash_key(keys[i]));
    f->fake->port.by_hash = true;
    table_op_begin(f,
                   "op pull_sparse (Ids=j) -> (Rows=rows, Index=x, Keys=found) "
                   "{table=t, dim=3}");
    table_op_give(f, 0, ids_of(ids, 5));
    assert_int_equal(table_op_run(f), FL_OK);
    expect_keys(f, keys, 4);
    expect_index(f, 0, want);
    expect_first_rows(f, keys, 4);
}

static void a_padding_that_does_not_occur_changes_nothing(void **state)
{
    table_op *f = *state;

    begin_pull(f, ", padding_idx=8");
    assert_int_equal(table_op_run(f), FL_OK);
    expect_pulled(f);
}

static void padding_alone_asks_for_nothing(void **state)
{
    static const int64_t ids[] = { 4, 4 }, want[] = { 0, 0 };
    static const uint64_t keys[] = { 4 };
    table_op *f = *state;

    table_op_begin(f,
                   "op pull_sparse (Ids=j) -> (Rows=rows, Index=x, Keys=found) "
                   "{table=t, dim=3, padding_idx=4}");
    table_op_give(f, 0, ids_of(ids, 2));
    assert_int_equal(table_op_run(f), FL_OK);
    expect_keys(f, keys, 1);
    expect_index(f, 0, want);
    assert_int_equal(f->fake->n_asked, 0);
}

static void pull_without_a_backend_is_refused(void **state)
{
    table_op *f = *state;

    begin_pull(f, "");
    f->comm = NULL;
    assert_int_equal(table_op_run(f), FL_ERR_INVAL);
    expect_said("table t: pull_sparse needs a table backend");
}

static void a_pending_pull_is_resumed_when_its_answer_is_there(void **state)
{
    table_op *f = *state;

    begin_pull(f, ", padding_idx=19");
    f->fake->slow = true;
    assert_int_equal(table_op_run(f), FL_PENDING);
    assert_int_equal(table_op_call(f, true), FL_PENDING);
    fake_answer(f->fake);
    assert_int_equal(f->waker.n, 1);
    /* Shapes may have been inferred again in between. */
    f->out[ROWS].t[0]->shape.dim[0] = f->out[KEYS_OUT].t[0]->shape.dim[0] = 7;
    assert_int_equal(table_op_call(f, true), FL_OK);
    assert_int_equal(f->out[ROWS].t[0]->shape.dim[0], 4);
    assert_int_equal(f->out[KEYS_OUT].t[0]->shape.dim[0], 4);
    expect_first_rows(f, (uint64_t[]){ 7, 5, 0 }, 3);
}

static void a_pending_pull_gives_its_error_to_the_operator(void **state)
{
    table_op *f = *state;

    begin_pull(f, "");
    f->fake->slow = true;
    assert_int_equal(table_op_run(f), FL_PENDING);
    fl_comm_finish(&f->fake->waiting->answer,
                   fl_err_set(FL_ERR_TIMEOUT, "server 3 sleeps"));
    (void)fl_err_set(FL_ERR_INVAL, "something else");
    assert_int_equal(table_op_call(f, true), FL_ERR_TIMEOUT);
    assert_string_equal(fl_last_error(), "server 3 sleeps");
}

/* --- pull_sparse from several tables -------------------------------------- */

enum { OTHER_DIM = 2 };

/* Keeps what it is asked until the test answers, but for a table that is not
   there. */
typedef struct keeper {
    fl_comm port;
    fl_comm_request *asked[2];
    int n;
} keeper;

static fl_status keep_pull(fl_comm *c, fl_comm_request *r)
{
    keeper *k = (keeper *)c;

    if (!strcmp(r->table, "gone"))
        FL_FAIL(FL_ERR_NOTFOUND, "there is no table gone");
    k->asked[k->n++] = r;
    return FL_PENDING;
}

static const fl_comm_data keeper_data = { .pull = keep_pull };

static void begin_pull_of_two(table_op *f, const char *other)
{
    char op[TEXT_MAX];

    snprintf(op, sizeof(op),
             "op pull_sparse (Ids=[a,b]) -> (Rows=[rows,more], Index=[ia,ib], "
             "Keys=found) {table=t, dim=3, padding_idx=5, tables_too=[%s], "
             "dims_too=[2]}",
             other);
    table_op_begin(f, op);
    give_ids(f);
}

static void tables_are_asked_for_the_same_keys(void **state)
{
    static const uint64_t keys[] = { 7, 0, 19, 5 };
    table_op *f = *state;
    const float *more;

    assert_int_equal(f->comm->life->declare(f->comm, "u", "dim=2", 1), FL_OK);
    begin_pull_of_two(f, "u");
    memset(f->room, 0xff, sizeof(f->room));
    assert_int_equal(table_op_run(f), FL_OK);
    expect_keys(f, keys, 4);
    expect_first_rows(f, keys, 3);
    assert_int_equal(f->out[ROWS].t[1]->shape.dim[0], 4);
    assert_int_equal(f->out[ROWS].t[1]->shape.dim[1], OTHER_DIM);
    more = f->out[ROWS].t[1]->data;
    for (size_t i = 0; i < 4; i++)
        for (uint32_t d = 0; d < OTHER_DIM; d++)
            assert_true(more[i * OTHER_DIM + d] ==
                        (i < 3 ? fake_first(keys[i], d) : 0));
    assert_int_equal(fake_find(f->fake, "t")->rows.len, 3);
    assert_int_equal(fake_find(f->fake, "u")->rows.len, 3);
}

static void the_last_answer_wakes_the_operator(void **state)
{
    static keeper k = { .port = { .name = "keeper", .data = &keeper_data } };
    table_op *f = *state;

    for (int last = 0; last < 2; last++) {
        begin_pull_of_two(f, "u");
        f->comm = &k.port;
        k.n = 0;
        assert_int_equal(table_op_run(f), FL_PENDING);
        assert_int_equal(k.n, 2);
        fl_comm_finish(&k.asked[1 - last]->answer, FL_OK);
        assert_int_equal(f->waker.n, last);
        fl_comm_finish(&k.asked[last]->answer, FL_OK);
        assert_int_equal(f->waker.n, last + 1);
        assert_int_equal(table_op_call(f, true), FL_OK);
    }
}

/* The memory of the other request is in use until it is answered. */
static void an_error_of_one_table_waits_for_the_other(void **state)
{
    static keeper k = { .port = { .name = "keeper", .data = &keeper_data } };
    table_op *f = *state;

    begin_pull_of_two(f, "gone");
    f->comm = &k.port;
    assert_int_equal(table_op_run(f), FL_PENDING);
    fl_comm_finish(&k.asked[0]->answer, FL_OK);
    assert_int_equal(f->waker.n, 1);
    assert_int_equal(table_op_call(f, true), FL_ERR_NOTFOUND);
    expect_said("there is no table gone");
}

static void each_table_has_a_name_a_width_and_rows(void **state)
{
    static const char *const wrong[] = {
        "Rows=[r,s], Index=x, Keys=k) {table=t, dim=3}",
        "Rows=[r,s], Index=x, Keys=k) {table=t, dim=3, tables_too=[u]}",
        "Rows=r, Index=x, Keys=k) {table=t, dim=3, tables_too=[u], "
        "dims_too=[1]}",
        "Rows=[r,s], Index=x, Keys=k) {table=t, dim=3, tables_too=[u], "
        "dims_too=[0]}",
    };
    static const char *const says[] = { "2 Rows, 0 tables_too and 0 dims_too",
                                        "1 tables_too and 0 dims_too",
                                        "1 Rows, 1 tables_too",
                                        "dim=0 of table u is not positive" };

    (void)state;
    for (size_t i = 0; i < FL_LEN(wrong); i++) {
        char op[TEXT_MAX];
        fl_program *p;

        snprintf(op, sizeof(op), "op pull_sparse (Ids=j) -> (%s", wrong[i]);
        assert_int_equal(table_op_parse(op, &p), FL_ERR_INVAL);
        expect_said(says[i]);
    }
}

/* --- fused_find_pool_concat ----------------------------------------------- */

static void begin_find(table_op *f, const char *attrs)
{
    char op[TEXT_MAX];

    snprintf(op, sizeof(op),
             "op fused_find_pool_concat (Ids=[a,b]) -> (Out=out) {order=[1,0], "
             "table=t, dim=3%s}",
             attrs);
    table_op_begin(f, op);
    give_ids(f);
}

/* Column j of a sum of first values. */
static float sum_of(const uint64_t *keys, size_t n, uint32_t j)
{
    float sum = 0;

    for (size_t i = 0; i < n; i++)
        sum += fake_first(keys[i], j);
    return sum;
}

/* Row i of Out: b's id, then the sum of a's. */
static void expect_found(const table_op *f, int64_t i, const uint64_t *b,
                         const uint64_t *a, size_t n_a)
{
    const float *out = f->out[0].t[0]->data;

    for (uint32_t j = 0; j < DIM; j++) {
        assert_true(out[i * 2 * DIM + j] == sum_of(b, b ? 1 : 0, j));
        assert_true(out[i * 2 * DIM + DIM + j] == sum_of(a, n_a, j));
    }
}

static void rows_are_pooled_where_they_are_found(void **state)
{
    table_op *f = *state;

    begin_find(f, "");
    assert_int_equal(table_op_run(f), FL_OK);
    assert_int_equal(f->out[0].t[0]->shape.dim[0], 3);
    assert_int_equal(f->out[0].t[0]->shape.dim[1], 2 * DIM);
    assert_int_equal(f->fake->n_asked, 7);
    assert_int_equal(fake_find(f->fake, "t")->rows.len, 0);
    expect_found(f, 0, (uint64_t[]){ 5 }, (uint64_t[]){ 7, 5 }, 2);
    expect_found(f, 1, (uint64_t[]){ 19 }, NULL, 0);
    expect_found(f, 2, (uint64_t[]){ 0 }, (uint64_t[]){ 7, 0 }, 2);
}

static void a_padding_is_not_looked_for(void **state)
{
    table_op *f = *state;

    begin_find(f, ", padding_idx=0");
    assert_int_equal(table_op_run(f), FL_OK);
    assert_int_equal(f->fake->n_asked, 5);
    expect_found(f, 0, (uint64_t[]){ 5 }, (uint64_t[]){ 7, 5 }, 2);
    expect_found(f, 1, (uint64_t[]){ 19 }, NULL, 0);
    expect_found(f, 2, NULL, (uint64_t[]){ 7 }, 1);
}

static void rows_that_lie_elsewhere_are_not_found(void **state)
{
    table_op *f = *state;
    fl_comm_data data = *f->comm->data;

    data.find = NULL;
    f->comm->data = &data;
    begin_find(f, "");
    assert_int_equal(table_op_run(f), FL_ERR_INVAL);
    expect_said("table t: fused_find_pool_concat needs rows of a frozen model");
    f->comm = NULL;
    begin_find(f, "");
    assert_int_equal(table_op_run(f), FL_ERR_INVAL);
    expect_said("others are pulled (pull_sparse)");
}

static void the_table_of_a_search_is_named_and_fits(void **state)
{
    table_op *f = *state;
    fl_program *p;

    assert_int_equal(
        table_op_parse("op fused_find_pool_concat (Ids=a) -> (Out=out) "
                       "{order=[0], dim=3}",
                       &p),
        FL_ERR_INVAL);
    expect_said("table is not given");
    assert_int_equal(
        table_op_parse("op fused_find_pool_concat (Ids=a) -> (Out=out) "
                       "{order=[0], table=t}",
                       &p),
        FL_ERR_INVAL);
    expect_said("dim=0 of table t is not positive");
    assert_int_equal(
        table_op_parse("op fused_find_pool_concat (Ids=a) -> (Out=out) "
                       "{order=[0], table=t, dim=3, padding_idx=-2}",
                       &p),
        FL_ERR_INVAL);
    expect_said("padding_idx=-2 of table t is neither -1 nor an id");
    table_op_begin(f,
                   "op fused_find_pool_concat (Ids=b) -> (Out=out) {order=[0], "
                   "table=t, dim=2}");
    table_op_give(f, 0,
                  fl_tensor_of(FL_DTYPE_U64, ids_b, 2, (int64_t[]){ 3, 1 }));
    assert_int_equal(table_op_run(f), FL_ERR_INVAL);
    expect_said("table t has rows of 3, not of 2");
}

/* --- lookups -------------------------------------------------------------- */

static void a_lookup_in_a_table_does_not_run_as_it_is(void **state)
{
    static const int64_t ids[] = { 1, 2 };
    table_op *f = *state;
    fl_tensor w = { .dtype = FL_DTYPE_F32 };

    w.shape = (fl_shape){ .rank = 2, .dim = { 0, DIM } };
    table_op_begin(
        f, "op lookup_table (W=emb, Ids=j) -> (Out=y) {is_distributed=true}");
    table_op_give(f, 0, w);
    table_op_give(f, 1, ids_of(ids, 2));
    assert_int_equal(table_op_run(f), FL_ERR_INVAL);
    expect_said("emb is in a table");
    expect_said("dist_pull");
}

static void show_and_click_are_for_tables_alone(void **state)
{
    fl_program *p;

    (void)state;
    assert_int_equal(
        table_op_parse("op lookup_table (W=emb, Ids=j) -> (Out=y) {show=show}",
                       &p),
        FL_ERR_INVAL);
    expect_said("show and click are for a table");
}

int main(void)
{
#define TEST(name)                                                             \
    cmocka_unit_test_setup_teardown(name, table_op_set_up, table_op_tear_down)
    const struct CMUnitTest tests[] = {
        TEST(init_table_makes_a_table_with_the_seed_of_the_program),
        TEST(init_table_passes_the_error_of_the_backend_on),
        TEST(init_table_without_a_backend_is_refused),
        TEST(init_table_needs_a_name),
        TEST(pull_asks_for_each_id_once),
        TEST(pull_without_create_makes_no_rows),
        TEST(the_padding_comes_last_as_zeros_and_is_not_asked_for),
        TEST(ids_are_asked_for_in_the_order_of_the_hash),
        TEST(a_padding_that_does_not_occur_changes_nothing),
        TEST(padding_alone_asks_for_nothing),
        TEST(pull_without_a_backend_is_refused),
        TEST(a_pending_pull_is_resumed_when_its_answer_is_there),
        TEST(a_pending_pull_gives_its_error_to_the_operator),
        TEST(tables_are_asked_for_the_same_keys),
        TEST(the_last_answer_wakes_the_operator),
        TEST(an_error_of_one_table_waits_for_the_other),
        TEST(each_table_has_a_name_a_width_and_rows),
        TEST(rows_are_pooled_where_they_are_found),
        TEST(a_padding_is_not_looked_for),
        TEST(rows_that_lie_elsewhere_are_not_found),
        TEST(the_table_of_a_search_is_named_and_fits),
        TEST(a_lookup_in_a_table_does_not_run_as_it_is),
        TEST(show_and_click_are_for_tables_alone),
    };
#undef TEST

    return cmocka_run_group_tests(tests, NULL, NULL);
}
