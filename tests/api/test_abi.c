/* test_abi.c - what crosses the boundary of the library: sizes of structs,
 * tensors that cannot be read, the log, the version. */
#include "api.h"
#include "../make.h"

typedef struct fixture {
    fl_ctx *c;
    fl_executor *e;
    float x[4];
    fl_feed feed;
    const char *fetch;
    fl_tensor out;
    fl_run_args args;
} fixture;

static int set_up(void **state)
{
    fixture *f = calloc(1, sizeof(*f));
    fl_var *mean;

    f->c = make_ctx();
    f->e = make_executor(f->c);
    mean = fl_layers_mean(data2(f->c, "x", 2));
    if (!mean)
        return -1;
    f->fetch = fl_var_name(mean);
    f->feed = (fl_feed){ "x", fl_tensor_of(FL_DTYPE_F32, f->x, 2,
                                           FL_ARRAY(int64_t, 2, 2)) };
    f->args = FL_INIT(fl_run_args, .feeds = &f->feed, .n_feeds = 1,
                      .fetches = &f->fetch, .n_fetches = 1, .out = &f->out);
    *state = f;
    return 0;
}

static int tear_down(void **state)
{
    fixture *f = *state;

    fl_executor_free(f->e);
    fl_ctx_free(f->c);
    free(f);
    return 0;
}

static fl_status run(fixture *f)
{
    return fl_run(f->e, fl_default_main_program(f->c), &f->args);
}

static void arguments_without_their_size_are_told_the_macro(void **state)
{
    fixture *f = *state;

    assert_ok(run(f));
    f->args.size = 0;
    assert_int_equal(run(f), FL_ERR_INVAL);
    assert_said("FL_INIT(fl_run_args, ...)");
    f->args.size = sizeof(uint32_t) + sizeof(void *);
    assert_ok(fl_run(f->e, fl_default_startup_program(f->c), &f->args));
}

static void options_of_a_layer_have_a_size_too(void **state)
{
    fixture *f = *state;
    fl_var *x = fl_program_var(fl_default_main_program(f->c), "x");
    fl_layers_fc_args none = FL_INIT(fl_layers_fc_args, .act = "relu");

    none.size = 0;
    assert_null(fl_layers_fc_with(&x, 1, 3, &none));
    assert_int_equal(fl_last_status(), FL_ERR_INVAL);
    assert_said("fl_layers_fc_args");
    assert_non_null(fl_layers_fc_with(&x, 1, 3, NULL));
}

static void what_a_younger_program_asks_for_is_refused(void **state)
{
    fixture *f = *state;
    struct {
        fl_run_args now;
        void *later;
    } young = { .now = f->args };

    young.now.size = sizeof(young);
    assert_ok(fl_run(f->e, fl_default_main_program(f->c), &young.now));
    young.later = f;
    assert_int_equal(fl_run(f->e, fl_default_main_program(f->c), &young.now),
                     FL_ERR_UNSUPPORTED);
}

static void a_tensor_that_cannot_be_read_is_refused_by_name(void **state)
{
    const int64_t compact[] = { 2, 1 }, turned[] = { 1, 2 };
    fixture *f = *state;
    const fl_tensor good = f->feed.value;
    fl_tensor *t = &f->feed.value;

    t->strides = compact;
    t->flags = FL_TENSOR_READ_ONLY;
    assert_ok(run(f));
    t->strides = turned;
    assert_int_equal(run(f), FL_ERR_UNSUPPORTED);
    assert_said("feed x: the strides");
    *t = good;
    t->device.id = 1;
    assert_int_equal(run(f), FL_ERR_UNSUPPORTED);
    assert_said("feed x: the memory is on device 0:1");
    *t = good;
    t->flags = UINT64_C(1) << 40;
    assert_int_equal(run(f), FL_ERR_UNSUPPORTED);
    *t = good;
    t->size = 0;
    assert_int_equal(run(f), FL_ERR_INVAL);
    assert_said("fl_tensor_of");
    *t = good;
    t->shape.rank = FL_RANK_MAX + 1;
    assert_int_equal(run(f), FL_ERR_INVAL);
}

static void what_was_fetched_can_be_fed(void **state)
{
    fixture *f = *state;

    f->fetch = "x";
    assert_ok(run(f));
    f->feed.value = f->out;
    assert_ok(run(f));
}

static void a_tensor_has_nine_dimensions_and_four_levels(void **state)
{
    fixture *f = *state;
    const int64_t nine[] = { -1, 1, 1, 1, 1, 1, 1, 1, 2 };

    assert_non_null(fl_layers_data(f->c, "nine", FL_DTYPE_F32, 9, nine, 0));
    assert_non_null(fl_layers_data(f->c, "deep", FL_DTYPE_I64, 2, nine, 4));
    assert_null(fl_layers_data(f->c, "deeper", FL_DTYPE_I64, 2, nine, 5));
}

static void hear(void *arg, fl_log_level level, const char *area,
                 const char *text)
{
    (void)level;
    (void)area;
    (void)text;
    ++*(int *)arg;
}

/* A context that is made later leaves the level alone. */
static void the_log_can_be_heard_and_hushed(void **state)
{
    int n = 0;

    (void)state;
    fl_log_set(hear, &n, FL_LOG_ERROR);
    fl_ctx_free(make_ctx());
    fl_log_set(NULL, NULL, FL_LOG_INFO);
    assert_int_equal(n, 0);
}

static void the_version_is_that_of_the_header(void **state)
{
    char want[64], *text = fl_version_text();

    (void)state;
    assert_int_equal(fl_version(), FL_VERSION_NUMBER);
    snprintf(want, sizeof(want), "flotilla %d.%d.%d\n", FL_VERSION_MAJOR,
             FL_VERSION_MINOR, FL_VERSION_PATCH);
    assert_text_has(text, want);
    fl_text_free(text);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(arguments_without_their_size_are_told_the_macro),
        TEST(options_of_a_layer_have_a_size_too),
        TEST(what_a_younger_program_asks_for_is_refused),
        TEST(a_tensor_that_cannot_be_read_is_refused_by_name),
        TEST(what_was_fetched_can_be_fed),
        TEST(a_tensor_has_nine_dimensions_and_four_levels),
        cmocka_unit_test(the_log_can_be_heard_and_hushed),
        cmocka_unit_test(the_version_is_that_of_the_header),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
