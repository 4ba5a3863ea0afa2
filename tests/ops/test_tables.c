/* test_tables.c - init_table, pull_sparse and push_sparse against a backend
 * that answers at once or later, and lookups that nobody translated. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "fake_comm.h"
#include "ir/program.h"
#include "ops/ops.h"

#define DIM 3
#define TEXT_MAX 2048
#define TENSORS_MAX 10
#define SLOTS_MAX 6
#define ROOM_BYTES 512

static const char *const variables = "var a : i64[-1,1] data lod=1\n"
                                     "var b : u64[-1,1] data\n"
                                     "var keys : u64[-1] data\n"
                                     "var lr : f32[1] data\n"
                                     "var g : f32[-1,3] data\n"
                                     "var r : f32[-1,3] data rows\n"
                                     "var i : i64[-1,1] data lod=1\n"
                                     "var j : i64[-1,1] data\n"
                                     "var k : i64[-1,1] data lod=2\n"
                                     "var show : f32[-1,1] data\n"
                                     "var click : i64[-1] data\n"
                                     "param emb : f32[-1,3] table\n";

/* A waker that counts, in place of an executor. */
typedef struct counter {
    fl_waker waker;
    int n;
} counter;

static void count(fl_waker *w)
{
    ((counter *)w)->n++;
}

/* One operator with its tensors. */
typedef struct fixture {
    fl_program *program;
    const fl_op_node *node;
    fake_comm *fake;
    fl_comm *comm; /* what the operator sees; NULL: nothing */
    counter waker;
    fl_arena scratch;
    void *keep;
    void (*keep_free)(void *keep);
    int n_tensors;
    fl_tensor tensors[TENSORS_MAX];
    _Alignas(64) char room[TENSORS_MAX][ROOM_BYTES]; /* of outputs */
    fl_tensor *in_ptr[SLOTS_MAX][TENSORS_MAX], *out_ptr[SLOTS_MAX][TENSORS_MAX];
    fl_targs in[SLOTS_MAX], out[SLOTS_MAX];
} fixture;

static void forget(fixture *f)
{
    if (f->keep && f->keep_free)
        f->keep_free(f->keep);
    fl_free(f->keep);
    f->keep = NULL;
    fl_program_free(f->program);
    f->program = NULL;
}

static int set_up(void **state)
{
    fixture *f = fl_alloc(sizeof(*f));

    f->fake = fake_comm_new();
    f->comm = &f->fake->port;
    f->waker.waker.wake = count;
    fl_arena_init(&f->scratch, 4 << 10);
    *state = f;
    return f->comm->life->declare(f->comm, "t", "dim=3", 0) ? -1 : 0;
}

static int tear_down(void **state)
{
    fixture *f = *state;

    forget(f);
    fl_comm_free(&f->fake->port);
    fl_arena_release(&f->scratch);
    fl_free(f);
    return 0;
}

static fl_status try_parse(const char *op, fl_program **out)
{
    char text[TEXT_MAX];

    snprintf(text, sizeof(text), "%s%s\n", variables, op);
    return fl_program_parse(text, &fl_ops, out);
}

/* Takes the operator of that text; its tensors follow. */
static void begin(fixture *f, const char *op)
{
    forget(f);
    if (try_parse(op, &f->program))
        fail_msg("%s", fl_last_error());
    f->node = fl_program_main(f->program)->first;
    f->n_tensors = 0;
    memset(f->in, 0, sizeof(f->in));
    memset(f->out, 0, sizeof(f->out));
}

/* One more input of a slot. */
static void give(fixture *f, int slot, fl_tensor t)
{
    fl_targs *a = &f->in[slot];

    a->t = f->in_ptr[slot];
    f->tensors[f->n_tensors] = t;
    a->t[a->n++] = &f->tensors[f->n_tensors++];
}

static void make_room(fixture *f)
{
    for (int s = 0; s < fl_node_n_out(f->node); s++) {
        f->out[s].n = f->node->out[s].n;
        f->out[s].t = f->out_ptr[s];
        for (int i = 0; i < f->out[s].n; i++) {
            fl_tensor *t = &f->tensors[f->n_tensors];

            t->data = f->room[f->n_tensors++];
            f->out[s].t[i] = t;
        }
    }
}

static fl_status call(fixture *f, bool resumed)
{
    fl_op_ctx c = { .node = f->node,
                    .in = f->in,
                    .out = f->out,
                    .nth = 1,
                    .scratch = &f->scratch,
                    .seed = 5,
                    .keep = &f->keep,
                    .keep_free = &f->keep_free,
                    .comm = f->comm,
                    .waker = &f->waker.waker,
                    .resumed = resumed };
    fl_status st = f->node->def->run(&c);

    fl_arena_clear(&f->scratch);
    return st;
}

/* Infers and runs, as an executor would. */
static fl_status run(fixture *f)
{
    fl_infer infer = { f->node, f->in, f->out, true, NULL };

    make_room(f);
    if (f->node->def->infer(&infer))
        fail_msg("%s", fl_last_error());
    return call(f, false);
}

static void expect_said(const char *part)
{
    if (!strstr(fl_last_error(), part))
        fail_msg("'%s' does not say '%s'", fl_last_error(), part);
}

static fl_tensor ids_of(const int64_t *ids, int64_t n)
{
    return fl_tensor_of(FL_DTYPE_I64, ids, 2, (int64_t[]){ n, 1 });
}

static fl_tensor list_of(const int64_t *ids, const int64_t *offsets,
                         int64_t n_seq)
{
    return fl_tensor_ragged(FL_DTYPE_I64, ids, 2,
                            (int64_t[]){ offsets[n_seq], 1 }, offsets, n_seq);
}

/* --- init_table ----------------------------------------------------------- */

static void init_table_makes_a_table_with_the_seed_of_the_program(void **state)
{
    fixture *f = *state;

    begin(f, "op init_table () -> () {table=new, settings=\"dim=2\"}");
    assert_int_equal(run(f), FL_OK);
    assert_non_null(fake_find(f->fake, "new"));
    assert_int_equal(fake_find(f->fake, "new")->dim, 2);
    assert_int_equal(fake_find(f->fake, "new")->seed, 5);
}

static void init_table_passes_the_error_of_the_backend_on(void **state)
{
    fixture *f = *state;

    begin(f, "op init_table () -> () {table=t, settings=\"dim=2\"}");
    assert_int_equal(run(f), FL_ERR_INVAL);
    expect_said("table t has other settings");
}

static void init_table_without_a_backend_is_refused(void **state)
{
    fixture *f = *state;

    begin(f, "op init_table () -> () {table=t, settings=\"dim=3\"}");
    f->comm = NULL;
    assert_int_equal(run(f), FL_ERR_INVAL);
    expect_said("table t: init_table needs a table backend");
}

static void init_table_needs_a_name(void **state)
{
    fl_program *p;

    (void)state;
    assert_int_equal(try_parse("op init_table () -> ()", &p), FL_ERR_INVAL);
    expect_said("table is not given");
}

/* --- pull_sparse ---------------------------------------------------------- */

enum { ROWS, INDEX_OUT, KEYS_OUT };

static const int64_t offsets_a[] = { 0, 2, 2, 4 };
static const int64_t ids_a[] = { 7, 5, 7, 0 };
static const uint64_t ids_b[] = { 5, 19, 0 };

static void give_ids(fixture *f)
{
    give(f, 0, list_of(ids_a, offsets_a, 3));
    give(f, 0, fl_tensor_of(FL_DTYPE_U64, ids_b, 2, (int64_t[]){ 3, 1 }));
}

static void begin_pull(fixture *f, const char *attrs)
{
    char op[TEXT_MAX];

    snprintf(op, sizeof(op),
             "op pull_sparse (Ids=[a,b]) -> (Rows=rows, Index=[ia,ib], "
             "Keys=found) {table=t, dim=3%s}",
             attrs);
    begin(f, op);
    give_ids(f);
}

static void expect_keys(const fixture *f, const uint64_t *keys, int64_t n)
{
    const fl_tensor *rows = f->out[ROWS].t[0], *found = f->out[KEYS_OUT].t[0];

    assert_int_equal(rows->shape.dim[0], n);
    assert_int_equal(found->shape.dim[0], n);
    assert_memory_equal(found->data, keys, (size_t)n * sizeof(*keys));
}

static void expect_index(const fixture *f, int list, const int64_t *want)
{
    const fl_tensor *index = f->out[INDEX_OUT].t[list];

    assert_memory_equal(index->data, want,
                        (size_t)fl_tensor_numel(index) * sizeof(*want));
}

static void expect_first_rows(const fixture *f, const uint64_t *keys, size_t n)
{
    const float *rows = f->out[ROWS].t[0]->data;

    for (size_t i = 0; i < n; i++)
        for (uint32_t d = 0; d < DIM; d++)
            assert_true(rows[i * DIM + d] == fake_first(keys[i], d));
}

static void expect_pulled(const fixture *f)
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
    fixture *f = *state;

    begin_pull(f, "");
    assert_int_equal(run(f), FL_OK);
    expect_pulled(f);
    assert_int_equal(f->fake->n_asked, 4);
    assert_int_equal(fake_find(f->fake, "t")->rows.len, 4);
}

static void pull_without_create_makes_no_rows(void **state)
{
    fixture *f = *state;

    begin_pull(f, ", create=false");
    assert_int_equal(run(f), FL_OK);
    expect_pulled(f);
    assert_int_equal(fake_find(f->fake, "t")->rows.len, 0);
}

static void the_padding_comes_last_as_zeros_and_is_not_asked_for(void **state)
{
    static const uint64_t keys[] = { 7, 0, 19, 5 };
    static const int64_t want_a[] = { 0, 3, 0, 1 }, want_b[] = { 3, 2, 1 };
    static const float zeros[DIM];
    fixture *f = *state;

    begin_pull(f, ", padding_idx=5");
    memset(f->room, 0xff, sizeof(f->room));
    assert_int_equal(run(f), FL_OK);
    expect_keys(f, keys, 4);
    expect_index(f, 0, want_a);
    expect_index(f, 1, want_b);
    expect_first_rows(f, keys, 3);
    assert_memory_equal((float *)f->out[ROWS].t[0]->data + 3 * DIM, zeros,
                        sizeof(zeros));
    assert_int_equal(f->fake->n_asked, 3);
}

static void a_padding_that_does_not_occur_changes_nothing(void **state)
{
    fixture *f = *state;

    begin_pull(f, ", padding_idx=8");
    assert_int_equal(run(f), FL_OK);
    expect_pulled(f);
}

static void padding_alone_asks_for_nothing(void **state)
{
    static const int64_t ids[] = { 4, 4 }, want[] = { 0, 0 };
    static const uint64_t keys[] = { 4 };
    fixture *f = *state;

    begin(f, "op pull_sparse (Ids=j) -> (Rows=rows, Index=x, Keys=found) "
             "{table=t, dim=3, padding_idx=4}");
    give(f, 0, ids_of(ids, 2));
    assert_int_equal(run(f), FL_OK);
    expect_keys(f, keys, 1);
    expect_index(f, 0, want);
    assert_int_equal(f->fake->n_asked, 0);
}

static void pull_without_a_backend_is_refused(void **state)
{
    fixture *f = *state;

    begin_pull(f, "");
    f->comm = NULL;
    assert_int_equal(run(f), FL_ERR_INVAL);
    expect_said("table t: pull_sparse needs a table backend");
}

static void a_pending_pull_is_resumed_when_its_answer_is_there(void **state)
{
    fixture *f = *state;

    begin_pull(f, ", padding_idx=19");
    f->fake->slow = true;
    assert_int_equal(run(f), FL_PENDING);
    assert_int_equal(call(f, true), FL_PENDING);
    fake_answer(f->fake);
    assert_int_equal(f->waker.n, 1);
    /* Shapes may have been inferred again in between. */
    f->out[ROWS].t[0]->shape.dim[0] = f->out[KEYS_OUT].t[0]->shape.dim[0] = 7;
    assert_int_equal(call(f, true), FL_OK);
    assert_int_equal(f->out[ROWS].t[0]->shape.dim[0], 4);
    assert_int_equal(f->out[KEYS_OUT].t[0]->shape.dim[0], 4);
    expect_first_rows(f, (uint64_t[]){ 7, 5, 0 }, 3);
}

static void a_pending_pull_gives_its_error_to_the_operator(void **state)
{
    fixture *f = *state;

    begin_pull(f, "");
    f->fake->slow = true;
    assert_int_equal(run(f), FL_PENDING);
    fl_comm_finish(&f->fake->waiting->answer,
                   fl_err_set(FL_ERR_TIMEOUT, "server 3 sleeps"));
    (void)fl_err_set(FL_ERR_INVAL, "something else");
    assert_int_equal(call(f, true), FL_ERR_TIMEOUT);
    assert_string_equal(fl_last_error(), "server 3 sleeps");
}

/* --- fused_find_pool_concat ----------------------------------------------- */

static void begin_find(fixture *f, const char *attrs)
{
    char op[TEXT_MAX];

    snprintf(op, sizeof(op),
             "op fused_find_pool_concat (Ids=[a,b]) -> (Out=out) {order=[1,0], "
             "table=t, dim=3%s}",
             attrs);
    begin(f, op);
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
static void expect_found(const fixture *f, int64_t i, const uint64_t *b,
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
    fixture *f = *state;

    begin_find(f, "");
    assert_int_equal(run(f), FL_OK);
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
    fixture *f = *state;

    begin_find(f, ", padding_idx=0");
    assert_int_equal(run(f), FL_OK);
    assert_int_equal(f->fake->n_asked, 5);
    expect_found(f, 0, (uint64_t[]){ 5 }, (uint64_t[]){ 7, 5 }, 2);
    expect_found(f, 1, (uint64_t[]){ 19 }, NULL, 0);
    expect_found(f, 2, NULL, (uint64_t[]){ 7 }, 1);
}

static void rows_that_lie_elsewhere_are_not_found(void **state)
{
    fixture *f = *state;
    fl_comm_data data = *f->comm->data;

    data.find = NULL;
    f->comm->data = &data;
    begin_find(f, "");
    assert_int_equal(run(f), FL_ERR_INVAL);
    expect_said("table t: fused_find_pool_concat needs rows of a frozen model");
    f->comm = NULL;
    begin_find(f, "");
    assert_int_equal(run(f), FL_ERR_INVAL);
    expect_said("others are pulled (pull_sparse)");
}

static void the_table_of_a_search_is_named_and_fits(void **state)
{
    fixture *f = *state;
    fl_program *p;

    assert_int_equal(try_parse("op fused_find_pool_concat (Ids=a) -> (Out=out) "
                               "{order=[0], dim=3}",
                               &p),
                     FL_ERR_INVAL);
    expect_said("table is not given");
    assert_int_equal(try_parse("op fused_find_pool_concat (Ids=a) -> (Out=out) "
                               "{order=[0], table=t}",
                               &p),
                     FL_ERR_INVAL);
    expect_said("dim=0 of table t is not positive");
    assert_int_equal(try_parse("op fused_find_pool_concat (Ids=a) -> (Out=out) "
                               "{order=[0], table=t, dim=3, padding_idx=-2}",
                               &p),
                     FL_ERR_INVAL);
    expect_said("padding_idx=-2 of table t is neither -1 nor an id");
    begin(f, "op fused_find_pool_concat (Ids=b) -> (Out=out) {order=[0], "
             "table=t, dim=2}");
    give(f, 0, fl_tensor_of(FL_DTYPE_U64, ids_b, 2, (int64_t[]){ 3, 1 }));
    assert_int_equal(run(f), FL_ERR_INVAL);
    expect_said("table t has rows of 3, not of 2");
}

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
static void begin_push(fixture *f, const char *grad, const char *more,
                       fl_tensor g)
{
    char op[TEXT_MAX];

    snprintf(op, sizeof(op),
             "op push_sparse (Keys=keys, Grad=%s, LearningRate=lr%s", grad,
             more);
    begin(f, op);
    give(f, KEYS, fl_tensor_of(FL_DTYPE_U64, pushed_keys, 1, (int64_t[]){ 4 }));
    give(f, GRAD, g);
    give(f, LEARNING_RATE,
         fl_tensor_of(FL_DTYPE_F32, &rate, 1, (int64_t[]){ 1 }));
}

/* The rows of the keys that were pushed have moved by -rate * moved. */
static void expect_moved(fixture *f, const uint64_t *keys, size_t n,
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
    fixture *f = *state;

    begin_push(f, "g", ") -> () {table=t}", dense_grad());
    assert_int_equal(run(f), FL_OK);
    expect_moved(f, pushed_keys, 4, gradients);
    assert_false(f->fake->last.has_counts || f->fake->last.has_shows ||
                 f->fake->last.has_clicks);
}

static void push_adds_up_rows_before_it_sends_them(void **state)
{
    /* Values 0 and 3 both belong to row 1; row 0 has none. */
    static const uint64_t keys[] = { 5, 0, 19 };
    static const float moved[] = { 11, 13, 15, 4, 5, 6, 7, 8, 9 };
    fixture *f = *state;
    uint64_t rows[] = { 1, 2, 3, 1 };

    begin_push(f, "r", ") -> () {table=t}", rows_grad(rows, 4));
    assert_int_equal(run(f), FL_OK);
    expect_moved(f, keys, 3, moved);
}

static void push_leaves_the_padding_out(void **state)
{
    fixture *f = *state;

    begin_push(f, "g", ") -> () {table=t, padding_idx=19}", dense_grad());
    assert_int_equal(run(f), FL_OK);
    expect_moved(f, pushed_keys, 3, gradients);
}

static void push_leaves_the_padding_out_of_rows_too(void **state)
{
    static const uint64_t keys[] = { 5 };
    fixture *f = *state;
    uint64_t rows[] = { 3, 1, 3 };

    begin_push(f, "r", ") -> () {table=t, padding_idx=19}", rows_grad(rows, 3));
    assert_int_equal(run(f), FL_OK);
    expect_moved(f, keys, 1, gradients + DIM);
}

static void a_padding_that_is_not_the_last_key_is_pushed(void **state)
{
    fixture *f = *state;

    begin_push(f, "g", ") -> () {table=t, padding_idx=5}", dense_grad());
    assert_int_equal(run(f), FL_OK);
    expect_moved(f, pushed_keys, 4, gradients);
}

static void push_names_a_row_that_has_no_key(void **state)
{
    fixture *f = *state;
    uint64_t rows[] = { 0, 9 };

    begin_push(f, "r", ") -> () {table=t}", rows_grad(rows, 2));
    assert_int_equal(run(f), FL_ERR_INVAL);
    expect_said("row 9 at place 1 is not one of 4 keys");
}

static void push_without_a_backend_is_refused(void **state)
{
    fixture *f = *state;

    begin_push(f, "g", ") -> () {table=t}", dense_grad());
    f->comm = NULL;
    assert_int_equal(run(f), FL_ERR_INVAL);
    expect_said("table t: push_sparse needs a table backend");
}

/* --- counts, shows and clicks --------------------------------------------- */

/* Three samples: keys 0, 0, 1 | none | 1, 2, and one key each: 0, 0, 3. */
static const int64_t offsets_i[] = { 0, 3, 3, 5 };
static const int64_t entries_i[] = { 0, 0, 1, 1, 2 };
static const int64_t entries_j[] = { 0, 0, 3 };
static const float shows[] = { 1, 10, 100 };
static const int64_t clicks[] = { 0, 1, 1 };

static void give_index(fixture *f)
{
    give(f, INDEX, list_of(entries_i, offsets_i, 3));
    give(f, INDEX, ids_of(entries_j, 3));
}

static void give_samples(fixture *f)
{
    give_index(f);
    give(f, SHOW, fl_tensor_of(FL_DTYPE_F32, shows, 2, (int64_t[]){ 3, 1 }));
    give(f, CLICK, fl_tensor_of(FL_DTYPE_I64, clicks, 1, (int64_t[]){ 3 }));
}

static void expect_counts(const fixture *f, const uint32_t *want, size_t n)
{
    assert_true(f->fake->last.has_counts);
    assert_int_equal(f->fake->last.n, n);
    assert_memory_equal(f->fake->last.counts, want, n * sizeof(*want));
}

static void expect_sums(const fixture *f, const float *show, const float *click,
                        size_t n)
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
    fixture *f = *state;

    begin_push(f, "g", ", Index=[i,j]) -> () {table=t}", dense_grad());
    give_index(f);
    assert_int_equal(run(f), FL_OK);
    expect_counts(f, want, 4);
    assert_false(f->fake->last.has_shows || f->fake->last.has_clicks);
}

static void shows_and_clicks_count_once_per_sample_and_key(void **state)
{
    static const uint32_t counts[] = { 4, 2, 1, 1 };
    static const float show[] = { 11, 101, 100, 100 };
    static const float click[] = { 1, 1, 1, 1 };
    fixture *f = *state;

    begin_push(f, "g", ", Index=[i,j], Show=show, Click=click) -> () {table=t}",
               dense_grad());
    give_samples(f);
    assert_int_equal(run(f), FL_OK);
    expect_counts(f, counts, 4);
    expect_sums(f, show, click, 4);
}

static void counts_follow_the_keys_that_have_a_gradient(void **state)
{
    static const uint64_t keys[] = { 5, 19 };
    static const uint32_t counts[] = { 2, 1 };
    static const float show[] = { 101, 100 }, click[] = { 1, 1 };
    fixture *f = *state;
    uint64_t rows[] = { 3, 1 };

    begin_push(f, "r", ", Index=[i,j], Show=show, Click=click) -> () {table=t}",
               rows_grad(rows, 2));
    give_samples(f);
    assert_int_equal(run(f), FL_OK);
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
    fixture *f = *state;
    fl_tensor t = ids_of(entries, 4);

    t.kind = FL_KIND_RAGGED;
    t.n_lod = 2;
    t.lod[0] = outer;
    t.lod_len[0] = 3;
    t.lod[1] = inner;
    t.lod_len[1] = 4;
    begin_push(f, "g", ", Index=k, Show=show) -> () {table=t}", dense_grad());
    give(f, INDEX, t);
    give(f, SHOW, fl_tensor_of(FL_DTYPE_F32, shows, 2, (int64_t[]){ 2, 1 }));
    assert_int_equal(run(f), FL_OK);
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
    fixture *f = *state;
    uint64_t rows[] = { 1, 2, 3, 1 };

    begin_push(f, "r", ", Index=[i,j], Show=show, Click=click) -> () {table=t}",
               rows_grad(rows, 4));
    give_samples(f);
    f->fake->slow = true;
    assert_int_equal(run(f), FL_PENDING);
    assert_int_equal(call(f, true), FL_PENDING);
    fake_answer(f->fake);
    assert_int_equal(f->waker.n, 1);
    assert_int_equal(call(f, true), FL_OK);
    expect_moved(f, keys, 3, moved);
    expect_counts(f, counts, 3);
    expect_sums(f, show, click, 3);
}

static void samples_that_do_not_fit_are_refused(void **state)
{
    fixture *f = *state;

    begin_push(f, "g", ", Index=[i,j], Show=show) -> () {table=t}",
               dense_grad());
    give(f, INDEX, list_of(entries_i, offsets_i, 3));
    give(f, INDEX, ids_of(entries_j, 2));
    give(f, SHOW, fl_tensor_of(FL_DTYPE_F32, shows, 2, (int64_t[]){ 3, 1 }));
    assert_int_equal(run(f), FL_ERR_INVAL);
    expect_said("Index[1] has 2 samples, Index[0] has 3");

    begin_push(f, "g", ", Index=i, Show=show) -> () {table=t}", dense_grad());
    give(f, INDEX, list_of(entries_i, offsets_i, 3));
    give(f, SHOW, fl_tensor_of(FL_DTYPE_F32, shows, 2, (int64_t[]){ 2, 1 }));
    assert_int_equal(run(f), FL_ERR_INVAL);
    expect_said("Show has 2 numbers, Index[0] has 3 samples");
}

static void an_index_without_its_key_is_refused(void **state)
{
    static const int64_t entries[] = { 0, 4 };
    fixture *f = *state;

    begin_push(f, "g", ", Index=j) -> () {table=t}", dense_grad());
    give(f, INDEX, ids_of(entries, 2));
    assert_int_equal(run(f), FL_ERR_INVAL);
    expect_said("Index[0]: 4 at place 1 is not one of 4 keys");
}

static void shows_without_an_index_are_refused(void **state)
{
    fl_program *p;

    (void)state;
    assert_int_equal(try_parse("op push_sparse (Keys=keys, Grad=g, "
                               "LearningRate=lr, Show=show) -> () {table=t}",
                               &p),
                     FL_ERR_INVAL);
    expect_said("needs Index");
}

static void shows_are_one_number_per_sample(void **state)
{
    fl_program *p;

    (void)state;
    assert_int_equal(try_parse("op push_sparse (Keys=keys, Grad=g, "
                               "LearningRate=lr, Index=i, Show=g) -> () "
                               "{table=t}",
                               &p),
                     FL_ERR_INVAL);
    expect_said("must be one number per sample");
}

/* --- lookups -------------------------------------------------------------- */

static void a_lookup_in_a_table_does_not_run_as_it_is(void **state)
{
    static const int64_t ids[] = { 1, 2 };
    fixture *f = *state;
    fl_tensor w = { .dtype = FL_DTYPE_F32 };

    w.shape = (fl_shape){ .rank = 2, .dim = { 0, DIM } };
    begin(f, "op lookup_table (W=emb, Ids=j) -> (Out=y) {is_distributed=true}");
    give(f, 0, w);
    give(f, 1, ids_of(ids, 2));
    assert_int_equal(run(f), FL_ERR_INVAL);
    expect_said("emb is in a table");
    expect_said("dist_pull");
}

static void show_and_click_are_for_tables_alone(void **state)
{
    fl_program *p;

    (void)state;
    assert_int_equal(
        try_parse("op lookup_table (W=emb, Ids=j) -> (Out=y) {show=show}", &p),
        FL_ERR_INVAL);
    expect_said("show and click are for a table");
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)
    const struct CMUnitTest tests[] = {
        TEST(init_table_makes_a_table_with_the_seed_of_the_program),
        TEST(init_table_passes_the_error_of_the_backend_on),
        TEST(init_table_without_a_backend_is_refused),
        TEST(init_table_needs_a_name),
        TEST(pull_asks_for_each_id_once),
        TEST(pull_without_create_makes_no_rows),
        TEST(the_padding_comes_last_as_zeros_and_is_not_asked_for),
        TEST(a_padding_that_does_not_occur_changes_nothing),
        TEST(padding_alone_asks_for_nothing),
        TEST(pull_without_a_backend_is_refused),
        TEST(a_pending_pull_is_resumed_when_its_answer_is_there),
        TEST(a_pending_pull_gives_its_error_to_the_operator),
        TEST(rows_are_pooled_where_they_are_found),
        TEST(a_padding_is_not_looked_for),
        TEST(rows_that_lie_elsewhere_are_not_found),
        TEST(the_table_of_a_search_is_named_and_fits),
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
        TEST(a_lookup_in_a_table_does_not_run_as_it_is),
        TEST(show_and_click_are_for_tables_alone),
    };
#undef TEST

    return cmocka_run_group_tests(tests, NULL, NULL);
}
