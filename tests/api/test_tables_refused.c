/* test_tables_refused.c - tables that layers and optimizers do not take. */
#include "api.h"
#include "../make.h"

static void wrong_words_are_refused_where_they_are_written(void **state)
{
    fl_ctx *c = make_ctx();
    fl_var *i =
        fl_layers_data(c, "i", FL_DTYPE_I64, 2, (int64_t[]){ -1, 1 }, 0);

    (void)state;
    assert_null(fl_layers_sparse_embedding(i, 4, .entry = "count_filter:5"));
    assert_said("'count_filter:5' is no entry policy");
    assert_null(fl_layers_sparse_embedding(i, 4, .accessor = "crt"));
    assert_said("no accessor is called 'crt'; there are plain, ctr");
    assert_null(fl_layers_sparse_embedding(i, 4, .table = "max_row=10"));
    assert_said("did you mean max_rows?");
    assert_null(fl_layers_sparse_embedding(i, 4, .table = "dim=5"));
    assert_said("dim=5 is not the width 4");
    assert_null(
        fl_layers_sparse_embedding(i, 4, .param = { .init = "unifrom(0,1)" }));
    assert_said("unifrom");
    assert_null(fl_layers_sparse_embedding(i, 4, .dtype = FL_DTYPE_F64));
    assert_said("the rows of a table are f32");
    assert_null(fl_layers_sparse_embedding(i, 0, ));
    assert_said("0 rows of 0 values is no table");
    assert_null(fl_layers_embedding(i, -1, 4, .is_distributed = true));
    assert_null(fl_layers_embedding(i, 0, 4, .is_sparse = true));
    assert_null(fl_layers_embedding(i, 10, 4, .entry = "count_filter_entry:5"));
    assert_said("are for is_distributed alone");
    fl_ctx_free(c);
}

static void embeddings_that_share_a_table_agree_on_it(void **state)
{
    fl_ctx *c = make_ctx();
    fl_var *i =
        fl_layers_data(c, "i", FL_DTYPE_I64, 2, (int64_t[]){ -1, 1 }, 0);
    fl_param_attr p = { .name = "emb" };
    char *start;

    (void)state;
    assert_non_null(fl_layers_sparse_embedding(i, 4, .param = p,
                                               .entry = "count_filter_entry:5",
                                               .table = "max_rows=100"));
    assert_non_null(fl_layers_sparse_embedding(i, 4, .param = p));
    assert_non_null(fl_layers_sparse_embedding(
        i, 4, .param = p, .entry = "count_filter_entry:5"));
    assert_null(fl_layers_sparse_embedding(i, 5, .param = p));
    assert_said("table emb has rows of 4, but this layer wants 5");
    assert_null(fl_layers_sparse_embedding(i, 4, .param = p,
                                           .entry = "count_filter_entry:50"));
    assert_said("cannot add 'entry=count_filter_entry:50'");
    assert_null(fl_layers_embedding(i, 10, 4, .is_sparse = true, .param = p));
    assert_said("parameter emb is a table");
    assert_non_null(
        fl_layers_embedding(i, 10, 4, .param = { .name = "array" }));
    assert_null(fl_layers_embedding(i, 10, 4, .is_distributed = true,
                                    .param = { .name = "array" }));
    assert_said("variable array is no table");
    start = fl_program_to_text(fl_default_startup_program(c));
    assert_null(strstr(strstr(start, "init_table") + 1, "init_table"));
    fl_text_free(start);
    fl_ctx_free(c);
}

static fl_status minimize(fl_ctx *c, fl_var *rows, const char *rule,
                          const char *settings)
{
    return fl_minimize(make_optimizer(c, rule, settings), fl_layers_mean(rows));
}

static void a_table_has_one_update_rule(void **state)
{
    fl_ctx *c = make_ctx();
    fl_var *i =
        fl_layers_data(c, "i", FL_DTYPE_I64, 2, (int64_t[]){ -1, 1 }, 0);
    fl_var *rows = fl_layers_sparse_embedding(i, 4, );

    (void)state;
    assert_int_equal(minimize(c, rows, "adam", "lazy_mode=false"),
                     FL_ERR_INVAL);
    assert_said("lazy_mode=false is not for it");
    assert_int_equal(
        minimize(c, rows, "adagrad", "initial_accumulator_value=0.1"),
        FL_ERR_INVAL);
    assert_said("initial_accumulator_value is not for it");
    assert_ok(minimize(c, rows, "adam", NULL));
    assert_int_equal(minimize(c, rows, "sgd", NULL), FL_ERR_INVAL);
    assert_said("has an update rule already");
    assert_said("optimizer=adam beta1=0.9 ");
    fl_ctx_free(c);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(wrong_words_are_refused_where_they_are_written),
        cmocka_unit_test(embeddings_that_share_a_table_agree_on_it),
        cmocka_unit_test(a_table_has_one_update_rule),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
