/* test_tables.c - pull_sparse and push_sparse against a backend: one that
 * answers at once (arrays) and one that answers later. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <string.h>

#include "base/alloc.h"
#include "ir/comm.h"
#include "ir/program.h"
#include "ops/ops.h"

#define DIM 3
#define HEIGHT 20
#define IDS_MAX 8

static const char *const program_text =
    "var a : i64[-1,1] data lod=1\n"
    "var b : u64[-1,1] data\n"
    "var lr : f32[1] data\n"
    "var g : f32[-1,3] data\n"
    "var r : f32[-1,3] data rows\n"
    "op pull_sparse (Ids=[a,b]) -> (Rows=rows, Index=[ia,ib], Keys=keys)"
    " {table=t, dim=3}\n"
    "op push_sparse (Keys=keys, Grad=g, LearningRate=lr) -> () {table=t}\n"
    "op push_sparse (Keys=keys, Grad=r, LearningRate=lr) -> () {table=t}\n";

/* A waker that counts, in place of an executor. */
typedef struct counter {
    fl_waker waker;
    int n;
} counter;

static void count(fl_waker *w)
{
    ((counter *)w)->n++;
}

/* A backend that keeps the request until the test answers it. */
typedef struct slow_comm {
    fl_comm port;
    fl_comm *behind;
    fl_comm_request *waiting;
} slow_comm;

static fl_status slow_pull(fl_comm *c, fl_comm_request *r)
{
    ((slow_comm *)c)->waiting = r;
    return FL_PENDING;
}

static const int64_t offsets_a[] = { 0, 2, 2, 4 };
static const int64_t ids_a[] = { 7, 5, 7, 0 };
static const uint64_t ids_b[] = { 5, 19, 0 };
static const uint64_t keys_wanted[] = { 7, 5, 0, 19 };

/* One operator of the program with room for its outputs. */
typedef struct fixture {
    fl_program *program;
    fl_comm *comm;
    counter waker;
    fl_arena scratch;
    void *keep;
    void (*keep_free)(void *keep);
    float rows[IDS_MAX * DIM];
    int64_t index[2][IDS_MAX];
    uint64_t keys[IDS_MAX];
    fl_tensor t_in[3], t_out[4], *in_ptr[3], *out_ptr[4];
    fl_targs in[3], out[3];
} fixture;

static fl_status declare(fl_comm *comm)
{
    fl_table_spec spec = { .name = "t",
                           .dim = DIM,
                           .height = HEIGHT,
                           .init = { FL_INIT_UNIFORM, -1, 1, 3 },
                           .rule = "sgd" };

    return comm->declare(comm, &spec);
}

static void forget(fixture *f)
{
    if (f->keep && f->keep_free)
        f->keep_free(f->keep);
    fl_free(f->keep);
    f->keep = NULL;
}

static int set_up(void **state)
{
    fixture *f = fl_alloc(sizeof(*f));

    if (fl_program_parse(program_text, &fl_ops, &f->program))
        return -1;
    f->comm = fl_comm_array_new();
    f->waker.waker.wake = count;
    fl_arena_init(&f->scratch, 4 << 10);
    for (int i = 0; i < 3; i++)
        f->in_ptr[i] = &f->t_in[i];
    for (int i = 0; i < 4; i++)
        f->out_ptr[i] = &f->t_out[i];
    *state = f;
    return declare(f->comm) ? -1 : 0;
}

static int tear_down(void **state)
{
    fixture *f = *state;

    forget(f);
    fl_comm_free(f->comm);
    fl_program_free(f->program);
    fl_arena_release(&f->scratch);
    fl_free(f);
    return 0;
}

static fl_status call(fixture *f, const fl_op_node *n, bool resumed)
{
    fl_op_ctx c = { .node = n,
                    .in = f->in,
                    .out = f->out,
                    .nth = 1,
                    .scratch = &f->scratch,
                    .keep = &f->keep,
                    .keep_free = &f->keep_free,
                    .comm = f->comm,
                    .waker = &f->waker.waker,
                    .resumed = resumed };
    fl_status st = n->def->run(&c);

    fl_arena_clear(&f->scratch);
    return st;
}

static const fl_op_node *pull_node(const fixture *f)
{
    return fl_program_main(f->program)->first;
}

/* Lays out inputs and outputs of the pull and infers them. */
static void prepare_pull(fixture *f)
{
    fl_infer infer = { pull_node(f), f->in, f->out, true };

    f->t_in[0] = fl_tensor_ragged(FL_DTYPE_I64, ids_a, 2, (int64_t[]){ 4, 1 },
                                  offsets_a, 3);
    f->t_in[1] = fl_tensor_of(FL_DTYPE_U64, ids_b, 2, (int64_t[]){ 3, 1 });
    f->in[0] = (fl_targs){ &f->in_ptr[0], 2 };
    f->out[0] = (fl_targs){ &f->out_ptr[0], 1 };
    f->out[1] = (fl_targs){ &f->out_ptr[1], 2 };
    f->out[2] = (fl_targs){ &f->out_ptr[3], 1 };
    assert_int_equal(infer.node->def->infer(&infer), FL_OK);
    assert_int_equal(f->t_out[0].shape.dim[0], 7);
    f->t_out[0].data = f->rows;
    f->t_out[1].data = f->index[0];
    f->t_out[2].data = f->index[1];
    f->t_out[3].data = f->keys;
}

static void check_pulled(const fixture *f)
{
    static const int64_t want_a[] = { 0, 1, 0, 2 }, want_b[] = { 1, 3, 2 };
    fl_init init = { FL_INIT_UNIFORM, -1, 1, 3 };
    float row[DIM];

    assert_int_equal(f->t_out[0].shape.dim[0], 4);
    assert_int_equal(f->t_out[3].shape.dim[0], 4);
    assert_memory_equal(f->keys, keys_wanted, sizeof(keys_wanted));
    assert_memory_equal(f->index[0], want_a, sizeof(want_a));
    assert_memory_equal(f->index[1], want_b, sizeof(want_b));
    assert_int_equal(f->t_out[1].lod_len[0], 4);
    for (int i = 0; i < 4; i++) {
        fl_init_row(&init, keys_wanted[i], row, DIM);
        assert_memory_equal(f->rows + i * DIM, row, sizeof(row));
    }
}

static void pull_asks_for_each_id_once(void **state)
{
    fixture *f = *state;

    prepare_pull(f);
    assert_int_equal(call(f, pull_node(f), false), FL_OK);
    check_pulled(f);
}

static void pull_without_a_backend_is_refused(void **state)
{
    fixture *f = *state;
    fl_comm *comm = f->comm;

    prepare_pull(f);
    f->comm = NULL;
    assert_int_equal(call(f, pull_node(f), false), FL_ERR_INVAL);
    assert_non_null(strstr(fl_last_error(), "table t"));
    f->comm = comm;
}

static void a_pending_pull_is_resumed_when_its_answer_is_there(void **state)
{
    fixture *f = *state;
    slow_comm slow = { .port = { .name = "slow", .pull = slow_pull },
                       .behind = f->comm };

    prepare_pull(f);
    f->comm = &slow.port;
    assert_int_equal(call(f, pull_node(f), false), FL_PENDING);
    assert_int_equal(call(f, pull_node(f), true), FL_PENDING);
    fl_comm_finish(slow.waiting, slow.behind->pull(slow.behind, slow.waiting));
    assert_int_equal(f->waker.n, 1);
    /* Shapes may have been inferred again in between. */
    f->t_out[0].shape.dim[0] = f->t_out[3].shape.dim[0] = 7;
    assert_int_equal(call(f, pull_node(f), true), FL_OK);
    check_pulled(f);
    f->comm = slow.behind;
}

static void a_pending_pull_gives_its_error_to_the_operator(void **state)
{
    fixture *f = *state;
    slow_comm slow = { .port = { .name = "slow", .pull = slow_pull },
                       .behind = f->comm };

    prepare_pull(f);
    f->comm = &slow.port;
    assert_int_equal(call(f, pull_node(f), false), FL_PENDING);
    fl_comm_finish(slow.waiting, fl_err_set(FL_ERR_TIMEOUT, "server 3 sleeps"));
    (void)fl_err_set(FL_ERR_INVAL, "something else");
    assert_int_equal(call(f, pull_node(f), true), FL_ERR_TIMEOUT);
    assert_string_equal(fl_last_error(), "server 3 sleeps");
    f->comm = slow.behind;
}

static void rows_of_another_width_are_refused(void **state)
{
    fixture *f = *state;
    uint64_t key = 1;
    float row[2 * DIM];
    fl_comm_request r = {
        .table = "t", .dim = DIM + 1, .keys = &key, .n = 1, .rows = row
    };

    assert_int_equal(f->comm->pull(f->comm, &r), FL_ERR_INVAL);
}

/* Pulls, pushes by `n`, pulls again: rows must have moved by -lr * moved. */
static void check_push(fixture *f, const fl_op_node *n, const fl_tensor *grad,
                       const float *moved)
{
    static const float lr = 0.5f;
    float before[4 * DIM];
    fl_tensor keys;

    prepare_pull(f);
    assert_int_equal(call(f, pull_node(f), false), FL_OK);
    memcpy(before, f->rows, sizeof(before));
    keys = f->t_out[3];
    forget(f);

    f->t_in[0] = keys;
    f->t_in[1] = *grad;
    f->t_in[2] = fl_tensor_of(FL_DTYPE_F32, &lr, 1, (int64_t[]){ 1 });
    for (int i = 0; i < 3; i++)
        f->in[i] = (fl_targs){ &f->in_ptr[i], 1 };
    assert_int_equal(n->def->infer(&(fl_infer){ n, f->in, f->out, true }),
                     FL_OK);
    assert_int_equal(call(f, n, false), FL_OK);
    forget(f);

    prepare_pull(f);
    assert_int_equal(call(f, pull_node(f), false), FL_OK);
    for (int i = 0; i < 4 * DIM; i++)
        assert_float_equal(f->rows[i], before[i] - lr * moved[i], 1e-6);
}

static const float gradients[4 * DIM] = {
    1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12
};

static void push_moves_the_rows_of_its_keys(void **state)
{
    fixture *f = *state;
    fl_tensor g =
        fl_tensor_of(FL_DTYPE_F32, gradients, 2, (int64_t[]){ 4, DIM });

    check_push(f, pull_node(f)->next, &g, gradients);
}

static void push_adds_up_rows_before_it_sends_them(void **state)
{
    /* Values 0 and 3 both belong to row 1. */
    static const float moved[4 * DIM] = {
        0, 0, 0, 11, 13, 15, 4, 5, 6, 7, 8, 9
    };
    fixture *f = *state;
    uint64_t rows[] = { 1, 2, 3, 1 };
    fl_tensor g =
        fl_tensor_of(FL_DTYPE_F32, gradients, 2, (int64_t[]){ 4, DIM });

    g.kind = FL_KIND_ROWS;
    g.rows = rows;
    g.height = 4;
    check_push(f, pull_node(f)->next->next, &g, moved);
}

static void push_names_a_row_that_has_no_key(void **state)
{
    fixture *f = *state;
    const fl_op_node *n = pull_node(f)->next->next;
    uint64_t rows[] = { 0, 9 }, keys[] = { 4, 5 };
    static const float lr = 1;

    f->t_in[0] = fl_tensor_of(FL_DTYPE_U64, keys, 1, (int64_t[]){ 2 });
    f->t_in[1] =
        fl_tensor_of(FL_DTYPE_F32, gradients, 2, (int64_t[]){ 2, DIM });
    f->t_in[1].kind = FL_KIND_ROWS;
    f->t_in[1].rows = rows;
    f->t_in[2] = fl_tensor_of(FL_DTYPE_F32, &lr, 1, (int64_t[]){ 1 });
    for (int i = 0; i < 3; i++)
        f->in[i] = (fl_targs){ &f->in_ptr[i], 1 };
    assert_int_equal(call(f, n, false), FL_ERR_INVAL);
    assert_non_null(strstr(fl_last_error(), "row 9 at place 1"));
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)
    const struct CMUnitTest tests[] = {
        TEST(pull_asks_for_each_id_once),
        TEST(pull_without_a_backend_is_refused),
        TEST(a_pending_pull_is_resumed_when_its_answer_is_there),
        TEST(a_pending_pull_gives_its_error_to_the_operator),
        TEST(rows_of_another_width_are_refused),
        TEST(push_moves_the_rows_of_its_keys),
        TEST(push_adds_up_rows_before_it_sends_them),
        TEST(push_names_a_row_that_has_no_key),
    };
#undef TEST

    return cmocka_run_group_tests(tests, NULL, NULL);
}
