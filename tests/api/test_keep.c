/* test_keep.c - fetched values that leave with their memory. */
#include "api.h"

enum { ROWS = 400, WIDTH = 200 };

typedef struct fixture {
    fl_ctx *ctx;
    fl_executor *exe;
    const char *fetch[2];
    float *x;
} fixture;

static void start(fixture *f)
{
    fl_var *y;

    assert_ok(fl_ctx_new(&f->ctx));
    assert_ok(fl_executor_new(&f->exe, f->ctx));
    y = fl_layers_relu(data2(f->ctx, "x", WIDTH));
    f->fetch[0] = fl_var_name(y);
    f->fetch[1] = fl_var_name(fl_layers_mean(y));
    f->x = test_calloc(ROWS * WIDTH, sizeof(float));
}

static void end(fixture *f)
{
    test_free(f->x);
    fl_executor_free(f->exe);
    fl_ctx_free(f->ctx);
}

/* All numbers are `value`, in `rows` rows. */
static void run(fixture *f, float value, int64_t rows, fl_tensor *out,
                fl_mem **keep)
{
    fl_feed feed = { .name = "x",
                     .value = fl_tensor_of(FL_DTYPE_F32, f->x, 2,
                                           (int64_t[]){ rows, WIDTH }) };

    for (int64_t i = 0; i < rows * WIDTH; i++)
        f->x[i] = value;
    assert_ok(fl_run(f->exe, fl_default_main_program(f->ctx),
                     FL_OPTIONS(fl_run_args, .feeds = &feed, .n_feeds = 1,
                                .fetches = f->fetch, .n_fetches = 2, .out = out,
                                .keep = keep)));
}

static float first(const fl_tensor *t)
{
    return *(const float *)t->data;
}

static void a_large_value_stays_when_the_program_runs_again(void **state)
{
    fl_tensor a[2], b[2];
    fl_mem *keep_a[2], *keep_b[2];
    fixture f;

    (void)state;
    start(&f);
    run(&f, 1, ROWS, a, keep_a);
    run(&f, 2, ROWS, b, keep_b);
    assert_non_null(keep_a[0]);
    assert_null(keep_a[1]); /* one number is looked at */
    assert_true(first(&a[0]) == 1 && first(&b[0]) == 2);
    fl_executor_free(f.exe);
    f.exe = NULL;
    assert_true(first(&a[0]) == 1 && first(&b[0]) == 2);
    for (int i = 0; i < 2; i++) {
        fl_mem_release(keep_a[i]);
        fl_mem_release(keep_b[i]);
    }
    end(&f);
}

static void a_small_batch_does_not_take_a_large_place(void **state)
{
    fl_tensor out[2];
    fl_mem *keep[2];
    fixture f;

    (void)state;
    start(&f);
    run(&f, 1, ROWS, out, NULL);
    run(&f, 2, ROWS / 10, out, keep);
    assert_null(keep[0]);
    assert_true(first(&out[0]) == 2);
    end(&f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_large_value_stays_when_the_program_runs_again),
        cmocka_unit_test(a_small_batch_does_not_take_a_large_place),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
