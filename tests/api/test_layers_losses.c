/* test_layers_losses.c - the layers of losses: operators, names, and a network
 * that is trained with them. */
#include "api.h"
#include "../make.h"

/* The main program has this line. */
static void expect_line(fl_ctx *c, fl_var *v, const char *words)
{
    char *text;

    if (!v)
        fail_msg("'%s': %s", words, fl_last_error());
    text = fl_program_to_text(fl_default_main_program(c));
    assert_text_has(text, words);
    fl_text_free(text);
}

static fl_var *ids(fl_ctx *c, const char *name)
{
    return fl_layers_data(c, name, FL_DTYPE_I64, 2, (int64_t[]){ -1, 1 }, 0);
}

static void losses_of_pairs_append_their_operators(void **state)
{
    fl_ctx *c = make_ctx();
    fl_var *x = data2(c, "x", 4), *y = data2(c, "y", 4), *w = data2(c, "w", 4);

    (void)state;
    expect_line(c, fl_layers_log_loss(x, y, 1e-3),
                "op log_loss (Predicted=x, Labels=y) -> (Loss=log_loss_0.tmp_0)"
                " {epsilon=0.001}");
    expect_line(c, fl_layers_hinge_loss(x, y),
                "op hinge_loss (Logits=x, Labels=y) -> "
                "(Loss=hinge_loss_0.tmp_0)");
    expect_line(c, fl_layers_huber_loss(x, y, 2), "{delta=2}");
    expect_line(c, fl_layers_smooth_l1(x, y, NULL, w, 3),
                "op smooth_l1_loss (X=x, Y=y, OutsideWeight=w)");
    expect_line(c, fl_layers_kldiv_loss(x, y, "sum"), "{reduction=sum}");
    expect_line(c, fl_layers_margin_rank_loss(w, x, y, 0.1),
                "op margin_rank_loss (X1=x, X2=y, Label=w)");
    expect_line(c, fl_layers_rank_loss(w, x, y),
                "op rank_loss (Label=w, Left=x, Right=y)");
    expect_line(c, fl_layers_cos_sim(x, y),
                "op cos_sim (X=x, Y=y) -> (Out=cos_sim_0.tmp_0, "
                "XNorm=cos_sim_0.tmp_1, YNorm=cos_sim_0.tmp_2)");
    fl_ctx_free(c);
}

static void losses_of_classes_append_their_operators(void **state)
{
    fl_ctx *c = make_ctx();
    fl_var *x = data2(c, "x", 4), *y = data2(c, "y", 4), *k = ids(c, "k");
    const int64_t three = 3;

    (void)state;
    expect_line(c, fl_layers_bpr_loss(x, k), "op bpr_loss (X=x, Label=k)");
    expect_line(
        c,
        fl_layers_cross_entropy_with(
            x, y, FL_OPTIONS(fl_layers_cross_entropy_args, .soft_label = true)),
        "op cross_entropy (X=x, Label=y) -> (Y=cross_entropy_0.tmp_0) "
        "{soft_label=true}");
    expect_line(
        c,
        fl_layers_cross_entropy_with(
            x, k,
            FL_OPTIONS(fl_layers_cross_entropy_args, .ignore_index = &three)),
        "{ignore_index=3}");
    fl_ctx_free(c);
}

static void a_missing_input_gives_no_layer(void **state)
{
    fl_ctx *c = make_ctx();
    fl_var *x = data2(c, "x", 4);

    (void)state;
    assert_null(fl_layers_log_loss(x, NULL, 0));
    assert_null(fl_layers_hinge_loss(NULL, x));
    assert_null(fl_layers_huber_loss(x, NULL, 1));
    assert_null(fl_layers_smooth_l1(NULL, x, NULL, NULL, 1));
    assert_null(fl_layers_kldiv_loss(x, NULL, NULL));
    assert_null(fl_layers_margin_rank_loss(x, x, NULL, 1));
    assert_null(fl_layers_rank_loss(NULL, x, x));
    assert_null(fl_layers_bpr_loss(x, NULL));
    assert_null(fl_layers_cos_sim(x, NULL));
    assert_null(fl_layers_cross_entropy_with(x, NULL, NULL));
    fl_ctx_free(c);
}

#define ROWS 8
#define STEPS 60

static void feed_pairs(float *x, float *good, float *bad)
{
    for (int i = 0; i < ROWS * 4; i++) {
        x[i] = (float)(i * 7 % 11) / 11 - 0.4f;
        good[i] = (float)(i * 5 % 13) / 13 - 0.5f;
        bad[i] = (float)(i * 3 % 17) / 17 - 0.5f;
    }
}

/* The cosine with one is to be larger than that with the other. */
static fl_var *build_pairs(fl_ctx *c)
{
    fl_var *q = fl_layers_fc(data2(c, "x", 4), 6, );
    fl_var *a = fl_layers_fc(data2(c, "a", 4), 6, .param = { .name = "w" });
    fl_var *b = fl_layers_fc(data2(c, "b", 4), 6, .param = { .name = "w" });
    fl_var *left = fl_layers_cos_sim(q, a);
    fl_var *one = fl_layers_scale(left, 0, 1);
    fl_var *loss = fl_layers_mean(
        fl_layers_margin_rank_loss(one, left, fl_layers_cos_sim(q, b), 0.5));

    if (!loss)
        fail_msg("%s", fl_last_error());
    assert_ok(fl_minimize(make_optimizer(c, "sgd", "learning_rate=0.5"), loss));
    return loss;
}

static void cosines_are_learnt_with_a_margin(void **state)
{
    fl_ctx *c = make_ctx();
    fl_executor *e = make_executor(c);
    const char *fetch = fl_var_name(build_pairs(c));
    const int64_t dims[] = { ROWS, 4 };
    float x[ROWS * 4], good[ROWS * 4], bad[ROWS * 4];
    fl_feed feeds[] = { { "x", fl_tensor_of(FL_DTYPE_F32, x, 2, dims) },
                        { "a", fl_tensor_of(FL_DTYPE_F32, good, 2, dims) },
                        { "b", fl_tensor_of(FL_DTYPE_F32, bad, 2, dims) } };
    fl_tensor out;
    fl_run_args a = FL_INIT(fl_run_args, .feeds = feeds, .n_feeds = 3,
                            .fetches = &fetch, .n_fetches = 1, .out = &out);
    float first = 0;

    (void)state;
    feed_pairs(x, good, bad);
    assert_ok(fl_run(e, fl_default_startup_program(c), NULL));
    for (int i = 0; i < STEPS; i++) {
        assert_ok(fl_run(e, fl_default_main_program(c), &a));
        if (i == 0)
            first = *(float *)out.data;
    }
    assert_true(*(float *)out.data < 0.5f * first);
    fl_executor_free(e);
    fl_ctx_free(c);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(losses_of_pairs_append_their_operators),
        cmocka_unit_test(losses_of_classes_append_their_operators),
        cmocka_unit_test(a_missing_input_gives_no_layer),
        cmocka_unit_test(cosines_are_learnt_with_a_margin),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
