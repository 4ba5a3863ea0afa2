/* test_rpc_ops.c - send, send_barrier, recv and listen_and_serv against a
 * backend that answers at once or later. */
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

#define TEXT_MAX 1024
#define TENSORS_MAX 4
#define ROOM 32 /* floats of a tensor */
#define SAMPLES 9

static const char *const variables = "param w : f32[3,4]\n"
                                     "param b : f32[5]\n"
                                     "param wide : f32[-1,4]\n"
                                     "var g : f32[3,4] data\n"
                                     "var d : f64[3,4] data\n"
                                     "var r : f32[-1,4] data rows\n"
                                     "var keys : u64[-1] data\n";

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
    fl_tensor tensors[2][TENSORS_MAX]; /* inputs, outputs */
    float room[2][TENSORS_MAX][ROOM];
    fl_tensor *ptrs[2][TENSORS_MAX];
    fl_targs in[2], out[2];
} fixture;

static int set_up(void **state)
{
    fixture *f = fl_alloc(sizeof(*f));

    f->fake = fake_comm_new();
    f->comm = &f->fake->port;
    f->waker.waker.wake = count;
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

/* Tensors of one side, like the variables; inputs count from 1. */
static void bind_side(fixture *f, int side, const fl_args *args, int n_slots,
                      fl_targs *to)
{
    int at = 0;

    for (int s = 0; s < n_slots; s++) {
        to[s] = (fl_targs){ &f->ptrs[side][at], args[s].n };
        for (int i = 0; i < args[s].n; i++, at++) {
            f->tensors[side][at] = args[s].vars[i]->meta;
            f->tensors[side][at].data = f->room[side][at];
            f->ptrs[side][at] = &f->tensors[side][at];
            for (int k = 0; k < ROOM && !side; k++)
                f->room[side][at][k] = (float)(at * 100 + k + 1);
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
}

static fl_status call(fixture *f, bool resumed)
{
    fl_op_ctx c = { .node = f->node,
                    .in = f->in,
                    .out = f->out,
                    .nth = 1,
                    .scratch = &f->scratch,
                    .worker = { .thread = 2, .n_parts = 1, .scale = 1 },
                    .samples = SAMPLES,
                    .keep = &f->keep,
                    .keep_free = &f->keep_free,
                    .comm = f->comm,
                    .waker = &f->waker.waker,
                    .resumed = resumed };

    return f->node->def->run(&c);
}

static void expect_said(const char *part)
{
    if (!strstr(fl_last_error(), part))
        fail_msg("'%s' does not say '%s'", fl_last_error(), part);
}

static void expect_refused(const char *op, const char *part)
{
    fl_program *p;

    assert_int_equal(try_parse(op, &p), FL_ERR_INVAL);
    expect_said(part);
}

static const char *const send_op = "op send (Param=w, X=g) -> () @rpc";
static const char *const barrier_op =
    "op send_barrier (X=[g,r,keys]) -> () @rpc";
static const char *const recv_op = "op recv () -> (Out=[w,b]) @rpc";

/* --- send ----------------------------------------------------------------- */

static void send_hands_the_gradient_of_its_parameter_over(void **state)
{
    fixture *f = *state;
    const fake_call *last = &f->fake->last_call;

    begin(f, send_op);
    assert_int_equal(call(f, false), FL_OK);
    assert_int_equal(f->fake->n_sends, 1);
    assert_int_equal(last->n, 1);
    assert_string_equal(last->params[0], "w");
    assert_int_equal(last->lens[0], 12);
    assert_true(last->firsts[0] == f->room[0][1][0]);
    assert_int_equal(last->worker.thread, 2);
    assert_int_equal(last->samples, SAMPLES);
}

static void send_wants_a_dense_f32_gradient_like_its_parameter(void **state)
{
    (void)state;
    expect_refused("op send (Param=w, X=d) -> ()", "must be dense f32");
    expect_refused("op send (Param=w, X=b) -> ()", "different shapes");
    expect_refused("op send (Param=wide, X=r) -> ()", "takes dense values");
}

/* --- send_barrier --------------------------------------------------------- */

static void a_barrier_takes_whatever_was_handed_over(void **state)
{
    fixture *f = *state;

    begin(f, barrier_op);
    assert_int_equal(call(f, false), FL_OK);
    assert_int_equal(f->fake->n_meets, 1);
    assert_int_equal(f->fake->last_call.n, 0);
    assert_int_equal(f->fake->last_call.worker.thread, 2);
    assert_int_equal(f->fake->last_call.samples, SAMPLES);
}

/* --- recv ----------------------------------------------------------------- */

static void recv_fills_all_its_parameters(void **state)
{
    fixture *f = *state;

    begin(f, recv_op);
    assert_int_equal(call(f, false), FL_OK);
    assert_int_equal(f->fake->n_recvs, 1);
    assert_int_equal(f->fake->last_call.n, 2);
    assert_string_equal(f->fake->last_call.params[1], "b");
    assert_int_equal(f->out[0].t[0]->shape.dim[1], 4);
    for (size_t i = 0; i < 12; i++)
        assert_true(f->room[1][0][i] == fake_value(i));
    for (size_t i = 0; i < 5; i++)
        assert_true(f->room[1][1][i] == fake_value(i));
}

static void recv_wants_parameters_whose_shape_is_known(void **state)
{
    (void)state;
    expect_refused("op recv () -> (Out=nobody)", "declare the parameter first");
    expect_refused("op recv () -> (Out=wide)", "of a known shape");
    expect_refused("op recv () -> (Out=[w,keys])", "Out[1] (keys: u64");
}

/* --- listen_and_serv ------------------------------------------------------ */

static void a_server_serves_at_its_endpoint(void **state)
{
    fixture *f = *state;

    begin(f, "op listen_and_serv () -> () {endpoint=\"10.0.0.1:7\"} @rpc");
    assert_int_equal(call(f, false), FL_OK);
    assert_string_equal(f->fake->served, "10.0.0.1:7 0");
    expect_refused("op listen_and_serv () -> () "
                   "{endpoint=\"a:1\", optimize_blocks=[0]}",
                   "optimize_blocks[0]=0");
    expect_refused("op listen_and_serv () -> () {wire_push=f16}",
                   "wire_push=f16 is no way for values to travel");
}

/* --- all of them ---------------------------------------------------------- */

static void a_late_answer_resumes_the_operator(void **state)
{
    fixture *f = *state;
    const char *const ops[] = { send_op, barrier_op, recv_op };

    for (size_t i = 0; i < FL_LEN(ops); i++) {
        begin(f, ops[i]);
        f->fake->slow = true;
        f->waker.n = 0;
        assert_int_equal(call(f, false), FL_PENDING);
        assert_int_equal(call(f, true), FL_PENDING);
        fake_answer(f->fake);
        assert_int_equal(f->waker.n, 1);
        assert_int_equal(call(f, true), FL_OK);
        tear_down(state);
        set_up(state);
        f = *state;
    }
}

static void a_late_error_is_the_operators(void **state)
{
    fixture *f = *state;

    begin(f, barrier_op);
    f->fake->slow = true;
    assert_int_equal(call(f, false), FL_PENDING);
    fl_comm_finish(&f->fake->waiting_call->answer,
                   fl_err_set(FL_ERR_TIMEOUT, "trainer 3 sleeps"));
    (void)fl_err_set(FL_ERR_INVAL, "something else");
    assert_int_equal(call(f, true), FL_ERR_TIMEOUT);
    assert_string_equal(fl_last_error(), "trainer 3 sleeps");
}

static void who_is_no_server_is_told_to_say_its_role(void **state)
{
    fixture *f = *state;
    fl_comm_life no_life = { .free = f->fake->port.life->free };

    begin(f, "op listen_and_serv () -> () {endpoint=\"a:1\"}");
    f->fake->port.life = &no_life;
    assert_int_equal(call(f, false), FL_ERR_INVAL);
    expect_said("op listen_and_serv: this process is not a server");
    expect_said(".role = FL_ROLE_SERVER");
    f->comm = NULL;
    assert_int_equal(call(f, false), FL_ERR_INVAL);
    expect_said(".role = FL_ROLE_SERVER");
    tear_down(state);
    set_up(state);
}

static void without_servers_the_next_step_is_told(void **state)
{
    static const char *const ops[] = { "op send (Param=w, X=g) -> ()",
                                       "op send_barrier (X=g) -> ()",
                                       "op recv () -> (Out=w)" };
    static const fl_comm_data no_data;
    fixture *f = *state;
    fl_comm_life no_life = { .free = f->fake->port.life->free };

    for (size_t i = 0; i < FL_LEN(ops); i++) {
        begin(f, ops[i]);
        f->fake->port.data = &no_data;
        f->fake->port.life = &no_life;
        assert_int_equal(call(f, false), FL_ERR_INVAL);
        expect_said(f->node->def->name);
        expect_said("the backend fake has none behind it");
        expect_said("fl_transpile");
        f->comm = NULL;
        assert_int_equal(call(f, false), FL_ERR_INVAL);
        expect_said("this context has none behind it");
        tear_down(state);
        set_up(state);
        f = *state;
    }
}

static void a_clone_for_test_talks_to_no_server(void **state)
{
    fl_program *p, *test;
    char *text;

    (void)state;
    assert_int_equal(try_parse("op relu (X=g) -> (Out=y)\n"
                               "op send (Param=w, X=g) -> () @rpc\n"
                               "op send_barrier (X=g) -> () @rpc\n"
                               "op recv () -> (Out=w) @rpc",
                               &p),
                     FL_OK);
    assert_int_equal(fl_program_clone(p, FL_CLONE_FOR_TEST, &test), FL_OK);
    text = fl_program_print(test);
    assert_non_null(strstr(text, "op relu"));
    assert_null(strstr(text, "@rpc"));
    fl_free(text);
    fl_program_free(test);
    fl_program_free(p);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)
    const struct CMUnitTest tests[] = {
        TEST(send_hands_the_gradient_of_its_parameter_over),
        TEST(send_wants_a_dense_f32_gradient_like_its_parameter),
        TEST(a_barrier_takes_whatever_was_handed_over),
        TEST(recv_fills_all_its_parameters),
        TEST(recv_wants_parameters_whose_shape_is_known),
        TEST(a_server_serves_at_its_endpoint),
        TEST(a_late_answer_resumes_the_operator),
        TEST(a_late_error_is_the_operators),
        TEST(who_is_no_server_is_told_to_say_its_role),
        TEST(without_servers_the_next_step_is_told),
        TEST(a_clone_for_test_talks_to_no_server),
    };
#undef TEST

    return cmocka_run_group_tests(tests, NULL, NULL);
}
