/* test_layers_sequence.c - layers over ragged rows: the names users know, what
 * they compute, and what is said when something does not fit. */
#include "api.h"
#include "../make.h"

#define COUNT(a) (sizeof(a) / sizeof((a)[0]))

static fl_var *rows2(fl_ctx *c, const char *name, int64_t width)
{
    return fl_layers_data(c, name, FL_DTYPE_F32, 2, (int64_t[]){ -1, width },
                          1);
}

static void expect_text(fl_ctx *c, const char *const *lines, size_t n)
{
    char *text = fl_program_to_text(fl_default_main_program(c));

    for (size_t i = 0; i < n; i++)
        assert_text_has(text, lines[i]);
    fl_text_free(text);
}

static void a_gru_has_the_names_users_know(void **state)
{
    static const char *const lines[] = {
        "param gru_0.w_0 : f32[4,12] init=xavier trainable",
        "param gru_0.b_0 : f32[1,12] init=constant(0)",
        "op gru (Input=x, H0=h, Weight=gru_0.w_0, Bias=gru_0.b_0) -> "
        "(BatchGate=gru_0.tmp_1, BatchResetHiddenPrev=gru_0.tmp_2, "
        "BatchHidden=gru_0.tmp_3, Hidden=gru_0.tmp_0)",
    };
    fl_ctx *c = make_ctx();
    fl_var *y =
        fl_layers_dynamic_gru(rows2(c, "x", 12), 4, .h_0 = data2(c, "h", 4));

    (void)state;
    assert_non_null(y);
    assert_string_equal(fl_var_name(y), "gru_0.tmp_0");
    expect_text(c, lines, COUNT(lines));
    fl_ctx_free(c);
}

static void a_convolution_is_filter_bias_and_activation(void **state)
{
    static const char *const lines[] = {
        "param sequence_conv_0.w_0 : f32[15,6]",
        "op sequence_conv (X=x, Filter=sequence_conv_0.w_0) -> "
        "(Out=sequence_conv_0.tmp_0) {contextLength=5, contextStart=-2}",
        "op elementwise_add (X=sequence_conv_0.tmp_0, "
        "Y=sequence_conv_0.b_0) -> (Out=sequence_conv_0.tmp_1) {axis=1}",
        "op tanh (X=sequence_conv_0.tmp_1)",
        "op sequence_pool (X=sequence_conv_0.tmp_2)",
        "op sequence_conv (X=x, Filter=ahead.w_0) -> (Out=ahead.tmp_0) "
        "{contextLength=3}",
    };
    fl_ctx *c = make_ctx();
    fl_var *x = rows2(c, "x", 3);

    (void)state;
    assert_non_null(fl_layers_sequence_conv_pool(x, 6, 5, .act = "tanh"));
    assert_non_null(fl_layers_sequence_conv(x, 6,
                                            .padding_start = &(int64_t){ 0 },
                                            .name = "ahead", .no_bias = true));
    expect_text(c, lines, COUNT(lines));
    fl_ctx_free(c);
}

/* Two sequences of single numbers: 1 2 3 and 4. */
static const int64_t offsets[] = { 0, 3, 4 };

typedef struct net {
    fl_ctx *c;
    fl_executor *e;
    fl_var *x;
} net;

static net make_net(void)
{
    net n = { .c = make_ctx() };

    n.e = make_executor(n.c);
    n.x = rows2(n.c, "x", 1);
    return n;
}

static fl_tensor run_net(const net *n, fl_var *y)
{
    float xs[] = { 1, 2, 3, 4 };
    fl_feed feed = { "x", fl_tensor_ragged(FL_DTYPE_F32, xs, 2,
                                           (int64_t[]){ 4, 1 }, offsets, 2) };
    const char *fetch;
    fl_tensor out;
    fl_run_args a = FL_INIT(fl_run_args, .feeds = &feed, .n_feeds = 1,
                            .fetches = &fetch, .n_fetches = 1, .out = &out);

    assert_non_null(y);
    fetch = fl_var_name(y);
    assert_ok(fl_run(n->e, fl_default_startup_program(n->c), NULL));
    assert_ok(fl_run(n->e, fl_default_main_program(n->c), &a));
    return out;
}

static void free_net(net *n)
{
    fl_executor_free(n->e);
    fl_ctx_free(n->c);
}

static void expect_floats(const fl_tensor *t, const float *want, int64_t n)
{
    assert_int_equal(fl_tensor_numel(t), n);
    for (int64_t i = 0; i < n; i++)
        assert_float_equal(((float *)t->data)[i], want[i], 1e-6);
}

#define EXPECT(net, y, ...)                                                    \
    do {                                                                       \
        const float want[] = { __VA_ARGS__ };                                  \
        fl_tensor is = run_net(&(net), y);                                     \
                                                                               \
        expect_floats(&is, want, (int64_t)COUNT(want));                        \
    } while (0)

static void steps_and_turns_of_sequences(void **state)
{
    net n = make_net();

    (void)state;
    EXPECT(n, fl_layers_sequence_first_step(n.x), 1, 4);
    EXPECT(n, fl_layers_sequence_last_step(n.x), 3, 4);
    EXPECT(n, fl_layers_sequence_reverse(n.x), 3, 2, 1, 4);
    EXPECT(n, fl_layers_sequence_concat((fl_var *[]){ n.x, n.x }, 2), 1, 2, 3,
           1, 2, 3, 4, 4);
    EXPECT(n,
           fl_layers_sequence_reshape(
               fl_layers_sequence_concat((fl_var *[]){ n.x, n.x }, 2), 2),
           1, 2, 3, 1, 2, 3, 4, 4);
    EXPECT(n,
           fl_layers_scale(
               fl_layers_sequence_softmax(fl_layers_scale(n.x, 0, 5)), 3, 0),
           1, 1, 1, 3);
    free_net(&n);
}

static void rows_and_sequences_are_repeated(void **state)
{
    net n = make_net();
    fl_var *first = fl_layers_sequence_first_step(n.x);
    fl_tensor got;

    (void)state;
    EXPECT(n, fl_layers_sequence_expand_as(first, n.x), 1, 1, 1, 4);
    EXPECT(n, fl_layers_sequence_expand(first, n.x, -1), 1, 1, 1, 4);
    got = run_net(&n, fl_layers_sequence_expand(n.x, n.x, 0));
    expect_floats(&got, (float[]){ 1, 2, 3, 1, 2, 3, 1, 2, 3, 4 }, 10);
    assert_int_equal(got.n_lod, 1);
    assert_memory_equal(got.lod[0], ((int64_t[]){ 0, 3, 6, 9, 10 }),
                        5 * sizeof(int64_t));
    free_net(&n);
}

static void padding_goes_there_and_back(void **state)
{
    net n = make_net();
    fl_var *length;
    fl_var *fill =
        fl_layers_fill_constant(n.c, FL_DTYPE_F32, 1, (int64_t[]){ 1 }, -1);
    fl_var *lines = fl_layers_sequence_pad(n.x, fill, 4, &length);
    fl_tensor got;

    (void)state;
    EXPECT(n, lines, 1, 2, 3, -1, 4, -1, -1, -1);
    got = run_net(&n, length);
    assert_int_equal(((int64_t *)got.data)[0], 3);
    assert_int_equal(((int64_t *)got.data)[1], 1);
    got = run_net(&n, fl_layers_sequence_unpad(lines, length));
    expect_floats(&got, (float[]){ 1, 2, 3, 4 }, 4);
    assert_memory_equal(got.lod[0], offsets, sizeof(offsets));
    EXPECT(n, fl_layers_sequence_mask(length, -1, FL_DTYPE_F32), 1, 1, 1, 1, 0,
           0);
    EXPECT(n,
           fl_layers_sequence_slice(
               n.x,
               fl_layers_fill_constant(n.c, FL_DTYPE_I64, 2,
                                       (int64_t[]){ 2, 1 }, 0),
               fl_layers_fill_constant(n.c, FL_DTYPE_I64, 2,
                                       (int64_t[]){ 2, 1 }, 1)),
           1, 4);
    EXPECT(n,
           fl_layers_cast(fl_layers_sequence_enumerate(
                              fl_layers_cast(n.x, FL_DTYPE_I64), 2, 9),
                          FL_DTYPE_F32),
           1, 2, 2, 3, 3, 9, 4, 9);
    free_net(&n);
}

/* With all weights 0 a unit keeps half of what it had. */
static void a_unit_is_one_step(void **state)
{
    net n = make_net();
    fl_var *x = fl_layers_scale(
        fl_layers_concat((fl_var *[]){ n.x, n.x, n.x }, 3, 1), 0, 0);
    fl_var *gate, *reset;
    fl_var *h =
        fl_layers_gru_unit(x, n.x, 1, .param = { .init = "constant(0)" },
                           .gate = &gate, .reset_hidden = &reset);

    (void)state;
    EXPECT(n, h, .5f, 1, 1.5f, 2);
    EXPECT(n, reset, .5f, 1, 1.5f, 2);
    EXPECT(n, gate, .5f, .5f, 0, .5f, .5f, 0, .5f, .5f, 0, .5f, .5f, 0);
    EXPECT(n,
           fl_layers_dynamic_gru(
               fl_layers_scale(x, 1, 1), 1, .param = { .init = "constant(0)" },
               .candidate_activation = "identity",
               .gate_activation = "identity", .is_reverse = true),
           1, 1, 1, 1);
    free_net(&n);
}

static void what_does_not_fit_is_refused(void **state)
{
    fl_ctx *c = make_ctx();
    fl_var *x = rows2(c, "x", 12), *dense = data2(c, "d", 12);

    (void)state;
    assert_null(fl_layers_dynamic_gru(x, 5, ));
    assert_said("must have three times as many columns");
    assert_null(fl_layers_dynamic_gru(dense, 4, ));
    assert_said("has no offsets");
    assert_null(fl_layers_dynamic_gru(x, 4, .gate_activation = "sigmiod"));
    assert_said("gate_activation is \"sigmiod\"");
    assert_null(fl_layers_gru_unit(dense, data2(c, "h", 4), 4,
                                   .candidate_activation = "gelu"));
    assert_said("activation is -1");
    assert_null(fl_layers_sequence_conv(x, 0, ));
    assert_said("make no product");
    assert_null(fl_layers_sequence_conv(dense, 3, ));
    assert_said("has no offsets");
    fl_ctx_free(c);
}

static void moves_that_do_not_fit_are_refused(void **state)
{
    fl_ctx *c = make_ctx();
    fl_var *x = rows2(c, "x", 12), *dense = data2(c, "d", 12);

    (void)state;
    assert_null(fl_layers_sequence_softmax(x));
    assert_said("one number per row");
    assert_null(fl_layers_sequence_expand(x, x, 1));
    assert_said("has no level 1");
    assert_null(fl_layers_sequence_pad(x, dense, 0, NULL));
    assert_said("padded_length=0");
    assert_null(fl_layers_sequence_reshape(x, 0));
    assert_said("new_dim=0");
    assert_null(fl_layers_sequence_enumerate(x, 2, 0));
    assert_said("must be i64, u64 or i32");
    assert_null(fl_layers_sequence_unpad(dense, x));
    assert_said("must be i64, u64 or i32");
    assert_null(fl_layers_sequence_concat((fl_var *[]){ x, dense }, 2));
    assert_said("0 levels of offsets");
    assert_null(fl_layers_sequence_last_step(NULL));
    fl_ctx_free(c);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_gru_has_the_names_users_know),
        cmocka_unit_test(a_convolution_is_filter_bias_and_activation),
        cmocka_unit_test(steps_and_turns_of_sequences),
        cmocka_unit_test(rows_and_sequences_are_repeated),
        cmocka_unit_test(padding_goes_there_and_back),
        cmocka_unit_test(a_unit_is_one_step),
        cmocka_unit_test(what_does_not_fit_is_refused),
        cmocka_unit_test(moves_that_do_not_fit_are_refused),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
