/* test_layers_collective.c - layers that all workers run together, in a process
 * that is alone. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <string.h>

#include "../make.h"

static fl_var *input(fl_ctx *c)
{
    return fl_layers_data(c, "x", FL_DTYPE_F32, 2, (int64_t[]){ -1, 2 }, 0);
}

static fl_var *all_of_them(fl_var *x)
{
    static const char *const ops[] = { "sum", "max", "min", "prod" };

    for (size_t i = 0; i < sizeof(ops) / sizeof(*ops); i++)
        x = fl_layers_c_allreduce(x, ops[i], .ring_id = (int)i);
    x = fl_layers_c_broadcast(x, .root = 0, .use_calc_stream = true);
    x = fl_layers_c_reduce_sum(x);
    x = fl_layers_c_allgather(x, 1);
    x = fl_layers_c_reducescatter(x, 1);
    return fl_layers_barrier(x);
}

static void a_worker_alone_gets_what_it_has(void **state)
{
    fl_ctx *c = make_ctx();
    fl_executor *e = make_executor(c);
    fl_var *y = all_of_them(input(c));
    const float values[] = { 1, 2, 3, 4 };
    fl_feed feed = { "x", fl_tensor_of(FL_DTYPE_F32, values, 2,
                                       (int64_t[]){ 2, 2 }) };
    const char *fetches[1];
    fl_tensor out;

    (void)state;
    assert_non_null(y);
    fetches[0] = fl_var_name(y);
    must(fl_run(e, fl_default_main_program(c),
                &FL_INIT(fl_run_args, .feeds = &feed, .n_feeds = 1,
                         .fetches = fetches, .n_fetches = 1, .out = &out)));
    assert_memory_equal(out.data, values, sizeof(values));
    fl_executor_free(e);
    fl_ctx_free(c);
}

static void expect_refused(fl_var *v, const char *why)
{
    assert_null(v);
    if (!strstr(fl_last_error(), why))
        fail_msg("'%s' does not say '%s'", fl_last_error(), why);
}

static void what_means_nothing_is_refused(void **state)
{
    fl_ctx *c = make_ctx();
    fl_var *x = input(c);

    (void)state;
    expect_refused(fl_layers_c_allreduce(x, "mean"), "none of sum, max");
    expect_refused(fl_layers_c_allreduce(x, NULL), "none of sum, max");
    expect_refused(fl_layers_c_allreduce(x, "sum", .root = 1), "root=1");
    expect_refused(fl_layers_c_allgather(x, 2, .root = 1), "root=1");
    expect_refused(fl_layers_c_reducescatter(x, 2, .root = 1), "root=1");
    expect_refused(fl_layers_barrier(x, .root = 1), "root=1");
    expect_refused(fl_layers_c_broadcast(x, .ring_id = 99), "ring_id=99");
    expect_refused(fl_layers_c_allgather(x, 0), "no number of workers");
    fl_ctx_free(c);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_worker_alone_gets_what_it_has),
        cmocka_unit_test(what_means_nothing_is_refused),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
