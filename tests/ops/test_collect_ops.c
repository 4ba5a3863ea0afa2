/* test_collect_ops.c - what all workers run together, against a backend that
 * plays the other two: worker r of three has 2^r times what worker 0 has. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/buf.h"
#include "ir/comm.h"
#include "ir/program.h"
#include "ops/ops.h"

#define WORKERS 3
#define TEXT_MAX 1024
#define TENSORS_MAX 4
#define ROOM 64 /* numbers of a tensor */
#define SAMPLES 9

static const char *const variables = "var x : f32[2,3] data\n"
                                     "var y : f32[2] data\n"
                                     "var d : f64[2,3] data\n"
                                     "var s : f64[1] data\n"
                                     "var k : i64[4] data\n"
                                     "var u : u64[4] data\n"
                                     "var l : f32[-1,3] data lod=1\n"
                                     "var r : f32[-1,3] data rows\n";

typedef struct workers {
    fl_comm port;
    bool slow;
    fl_comm_collect *waiting;
    fl_comm_collect last;
} workers;

static void copy_f32(const fl_comm_collect *r, float *to, float by)
{
    for (size_t i = 0; i < r->n; i++)
        to[i] = by * ((const float *)r->in)[i];
}

/* Rows of all workers are those of this one. */
static fl_status gather_rows(fl_comm_collect *r)
{
    uint64_t counts[WORKERS] = { r->n, r->n, r->n };
    char *to = r->room(r, counts, r->n * WORKERS);

    if (!to)
        FL_FAIL(FL_ERR_NOMEM, "no room");
    for (int i = 0; i < WORKERS; i++)
        memcpy(to + (size_t)i * r->n, r->in, r->n);
    return FL_OK;
}

static fl_status make(fl_comm_collect *r)
{
    float factor = r->op == FL_COLLECT_SUM   ? 7
                   : r->op == FL_COLLECT_MAX ? 4
                                             : 1;

    if (r->room)
        return gather_rows(r);
    if (r->dtype != FL_DTYPE_F32)
        memcpy(r->out, r->in, r->n * fl_dtype_bytes(r->dtype));
    else if (r->kind == FL_COLLECT_ALLGATHER)
        for (int i = 0; i < WORKERS; i++)
            copy_f32(r, (float *)r->out + (size_t)i * r->n, (float)(1 << i));
    else if (r->kind != FL_COLLECT_BARRIER)
        copy_f32(r, r->out, r->kind == FL_COLLECT_BROADCAST ? 4 : factor);
    return FL_OK;
}

static fl_status collect(fl_comm *c, fl_comm_collect *r)
{
    workers *w = (workers *)c;

    w->last = *r;
    if (!w->slow)
        return make(r);
    w->waiting = r;
    return FL_PENDING;
}

static fl_status share(fl_comm *c, fl_comm_share *r)
{
    (void)c;
    r->share = 1.0 / (double)r->samples;
    return FL_OK;
}

static void answer(workers *w)
{
    fl_comm_collect *r = w->waiting;

    w->waiting = NULL;
    fl_comm_finish(&r->answer, make(r));
}

static const fl_comm_data data = { .collect = collect, .share = share };
static const fl_comm_data no_data = { 0 };

/* One operator with its tensors. */
typedef struct fixture {
    workers workers;
    fl_program *program;
    const fl_op_node *node;
    fl_comm *comm;
    fl_arena scratch;
    fl_block_port blocks;
    fl_waker waker;
    int n_woken;
    void *keep;
    void (*keep_free)(void *keep);
    fl_tensor tensors[2][TENSORS_MAX]; /* inputs, outputs */
    double room[2][TENSORS_MAX][ROOM];
    uint64_t rows[2][TENSORS_MAX][ROOM];
    fl_tensor *ptrs[2][TENSORS_MAX];
    fl_targs in[2], out[2];
} fixture;

static void wake(fl_waker *w)
{
    ((fixture *)((char *)w - offsetof(fixture, waker)))->n_woken++;
}

/* Tensors have room enough. */
static fl_status place(fl_block_port *p, fl_tensor *out)
{
    (void)p;
    assert_true(out->shape.dim[0] * out->shape.dim[1] <= ROOM);
    return FL_OK;
}

static int set_up(void **state)
{
    fixture *f = fl_alloc(sizeof(*f));

    f->workers.port =
        (fl_comm){ .name = "three", .data = &data, .n_workers = WORKERS };
    f->comm = &f->workers.port;
    f->waker.wake = wake;
    f->blocks.place = place;
    fl_arena_init(&f->scratch, 4 << 10);
    *state = f;
    return 0;
}

static int tear_down(void **state)
{
    fixture *f = *state;

    if (f->keep && f->keep_free)
        f->keep_free(f->keep);
    fl_free(f->keep);
    fl_program_free(f->program);
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

static void fill(fl_tensor *t, uint64_t *rows)
{
    size_t n;

    if (t->shape.dim[0] < 0)
        t->shape.dim[0] = 2;
    n = (size_t)fl_tensor_numel(t);
    if (t->kind == FL_KIND_ROWS)
        t->rows = rows;
    for (size_t i = 0; i < 2; i++)
        rows[i] = 5 - i;
    for (size_t i = 0; i < n; i++)
        if (t->dtype == FL_DTYPE_F32)
            ((float *)t->data)[i] = (float)i + 1;
        else if (t->dtype == FL_DTYPE_F64)
            ((double *)t->data)[i] = (double)i + 1;
}

static void bind_side(fixture *f, int side, const fl_args *args, int n_slots,
                      fl_targs *to)
{
    int at = 0;

    for (int s = 0; s < n_slots; s++) {
        to[s] = (fl_targs){ &f->ptrs[side][at], args[s].n };
        for (int i = 0; i < args[s].n; i++, at++) {
            fl_tensor *t = &f->tensors[side][at];

            *t = args[s].vars[i]->meta;
            t->data = f->room[side][at];
            f->ptrs[side][at] = t;
            if (!side)
                fill(t, f->rows[side][at]);
        }
    }
}

static void begin(fixture *f, const char *op)
{
    fl_infer infer;

    if (try_parse(op, &f->program))
        fail_msg("%s", fl_last_error());
    f->node = fl_program_main(f->program)->first;
    bind_side(f, 0, f->node->in, fl_node_n_in(f->node), f->in);
    bind_side(f, 1, f->node->out, fl_node_n_out(f->node), f->out);
    infer = (fl_infer){ f->node, f->in, f->out, true, NULL };
    if (f->node->def->infer(&infer))
        fail_msg("%s", fl_last_error());
    for (int i = 0; i < f->node->out[0].n; i++)
        if (f->tensors[1][i].kind == FL_KIND_ROWS)
            f->tensors[1][i].rows = f->rows[1][i];
}

static fl_status call(fixture *f, bool resumed)
{
    fl_op_ctx c = { .node = f->node,
                    .in = f->in,
                    .out = f->out,
                    .nth = 1,
                    .scratch = &f->scratch,
                    .worker = { .n_parts = 1, .scale = 1 },
                    .samples = SAMPLES,
                    .keep = &f->keep,
                    .keep_free = &f->keep_free,
                    .comm = f->comm,
                    .waker = &f->waker,
                    .blocks = &f->blocks,
                    .resumed = resumed };

    return f->node->def->run(&c);
}

static float out_at(const fixture *f, int i, size_t k)
{
    return ((const float *)f->tensors[1][i].data)[k];
}

static void expect_said(const char *part)
{
    if (!strstr(fl_last_error(), part))
        fail_msg("'%s' does not say '%s'", fl_last_error(), part);
}

static void expect_refused(const char *op, const char *part)
{
    fl_program *p;

    assert_int_not_equal(try_parse(op, &p), FL_OK);
    expect_said(part);
}

/* --- sums ----------------------------------------------------------------- */

static void a_sum_is_over_all_workers(void **state)
{
    fixture *f = *state;

    begin(f, "op c_allreduce_sum (X=x) -> (Out=o) {ring_id=2}");
    assert_int_equal(call(f, false), FL_OK);
    for (size_t i = 0; i < 6; i++)
        assert_true(out_at(f, 0, i) == 7 * ((float)i + 1));
    assert_int_equal(f->workers.last.ring, 2);
    assert_int_equal(f->workers.last.n, 6);
}

static void several_tensors_are_one_message(void **state)
{
    fixture *f = *state;

    begin(f, "op c_allreduce_max (X=[x,y]) -> (Out=[o,p])");
    assert_int_equal(call(f, false), FL_OK);
    assert_int_equal(f->workers.last.n, 8);
    assert_true(out_at(f, 0, 5) == 24);
    assert_true(out_at(f, 1, 1) == 8);
}

static void a_share_is_what_this_worker_counts(void **state)
{
    fixture *f = *state;

    begin(f, "op c_allreduce_sum (X=[x,y], Share=s) -> (Out=[o,p])");
    f->room[0][2][0] = 0.5;
    assert_int_equal(call(f, false), FL_OK);
    assert_true(out_at(f, 0, 1) == 7);
    assert_true(out_at(f, 1, 0) == 3.5f);
}

static void an_answer_may_come_later(void **state)
{
    fixture *f = *state;

    f->workers.slow = true;
    begin(f, "op c_allreduce_sum (X=[x,y]) -> (Out=[o,p])");
    assert_int_equal(call(f, false), FL_PENDING);
    assert_int_equal(f->n_woken, 0);
    answer(&f->workers);
    assert_int_equal(f->n_woken, 1);
    assert_int_equal(call(f, true), FL_OK);
    assert_true(out_at(f, 1, 1) == 14);
}

static void rows_of_all_workers_stand_in_the_order_of_ranks(void **state)
{
    fixture *f = *state;
    const fl_tensor *out = &f->tensors[1][0];

    f->workers.slow = true;
    begin(f, "op c_allreduce_sum (X=r, Share=s) -> (Out=o)");
    f->room[0][1][0] = 2;
    assert_int_equal(call(f, false), FL_PENDING);
    answer(&f->workers);
    assert_int_equal(call(f, true), FL_OK);
    assert_int_equal(out->shape.dim[0], 2 * WORKERS);
    for (size_t i = 0; i < 2 * WORKERS; i++) {
        assert_int_equal(out->rows[i], 5 - i % 2);
        assert_true(out_at(f, 0, 3 * i) == (i % 2 ? 8 : 2));
    }
}

/* --- the others ----------------------------------------------------------- */

static void a_gather_has_the_rows_of_all(void **state)
{
    fixture *f = *state;

    begin(f, "op c_allgather (X=x) -> (Out=o) {nranks=3}");
    assert_int_equal(f->tensors[1][0].shape.dim[0], 6);
    assert_int_equal(call(f, false), FL_OK);
    for (size_t i = 0; i < 18; i++)
        assert_true(out_at(f, 0, i) ==
                    (float)(1 << i / 6) * ((float)(i % 6) + 1));
}

static void the_root_says_what_is_broadcast(void **state)
{
    fixture *f = *state;

    begin(f, "op c_broadcast (X=x) -> (Out=o) {root=2}");
    assert_int_equal(call(f, false), FL_OK);
    assert_int_equal(f->workers.last.root, 2);
    assert_true(out_at(f, 0, 0) == 4);
}

static void a_barrier_gives_what_came(void **state)
{
    fixture *f = *state;

    f->workers.slow = true;
    begin(f, "op barrier (X=x) -> (Out=o)");
    assert_int_equal(call(f, false), FL_PENDING);
    answer(&f->workers);
    assert_int_equal(call(f, true), FL_OK);
    assert_true(out_at(f, 0, 5) == 6);
}

static void a_share_follows_from_the_samples(void **state)
{
    fixture *f = *state;

    begin(f, "op batch_share () -> (Out=o)");
    assert_int_equal(call(f, false), FL_OK);
    assert_true(f->room[1][0][0] == 1.0 / SAMPLES);
    f->comm = NULL;
    assert_int_equal(call(f, false), FL_OK);
    assert_true(f->room[1][0][0] == 1);
}

/* --- errors --------------------------------------------------------------- */

static void what_workers_cannot_make_together_is_refused(void **state)
{
    (void)state;
    expect_refused("op c_allreduce_sum (X=x) -> (Out=o) {ring_id=16}",
                   "ring_id=16 is not in 0..15");
    expect_refused("op c_allreduce_sum (X=u) -> (Out=o)", "f32, f64, i32 or");
    expect_refused("op c_allreduce_max (X=l) -> (Out=o)", "without offsets");
    expect_refused("op c_allreduce_sum (X=[x,d]) -> (Out=[o,p])",
                   "must have one type");
    expect_refused("op c_allreduce_sum (X=[x,y]) -> (Out=o)",
                   "each X has its Out");
    expect_refused("op c_allreduce_sum (X=[r,r]) -> (Out=[o,p])",
                   "go each for itself");
    expect_refused("op c_allreduce_sum (X=x, Share=y) -> (Out=o)",
                   "must be one f64 number");
    expect_refused("op c_allreduce_sum (X=k, Share=s) -> (Out=o)",
                   "f32 or f64");
    expect_refused("op c_allgather (X=x) -> (Out=o) {nranks=0}",
                   "is no number of workers");
    expect_refused("op c_reducescatter (X=x) -> (Out=o) {nranks=3}",
                   "cannot be dealt to 3 workers");
}

static void expect_run_refused(fixture *f, const char *op, const char *part)
{
    begin(f, op);
    assert_int_equal(call(f, false), FL_ERR_INVAL);
    expect_said(part);
    fl_program_free(f->program);
    f->program = NULL;
}

static void ranks_are_those_of_the_job(void **state)
{
    fixture *f = *state;

    expect_run_refused(f, "op c_broadcast (X=x) -> (Out=o) {root=3}",
                       "root=3 is none of the 3 workers");
    expect_run_refused(f, "op c_reduce_sum (X=x) -> (Out=o) {root_id=-1}",
                       "root_id=-1 is none");
    expect_run_refused(f, "op c_allgather (X=x) -> (Out=o) {nranks=2}",
                       "nranks=2, and there are 3 workers");
    f->comm = NULL;
    expect_run_refused(f, "op c_reducescatter (X=x) -> (Out=o) {nranks=2}",
                       "there is 1 worker;");
}

static void trainers_with_servers_make_nothing_together(void **state)
{
    fixture *f = *state;

    f->workers.port.data = &no_data;
    expect_run_refused(f, "op c_allreduce_sum (X=x) -> (Out=o)",
                       "mode collective");
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)
    const struct CMUnitTest tests[] = {
        TEST(a_sum_is_over_all_workers),
        TEST(several_tensors_are_one_message),
        TEST(a_share_is_what_this_worker_counts),
        TEST(an_answer_may_come_later),
        TEST(rows_of_all_workers_stand_in_the_order_of_ranks),
        TEST(a_gather_has_the_rows_of_all),
        TEST(the_root_says_what_is_broadcast),
        TEST(a_barrier_gives_what_came),
        TEST(a_share_follows_from_the_samples),
        TEST(what_workers_cannot_make_together_is_refused),
        TEST(ranks_are_those_of_the_job),
        TEST(trainers_with_servers_make_nothing_together),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
