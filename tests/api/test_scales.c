/* test_scales.c - raw columns whose scale would ruin training are told of, once
 * and with the line to write. */
#include <stdio.h>
#include <unistd.h>

#include "api.h"
#include "../folder.h"
#include "../make.h"

static char heard[4096];

static void hear(void *arg, fl_log_level level, const char *area,
                 const char *text)
{
    (void)arg;
    (void)level;
    (void)area;
    snprintf(heard + strlen(heard), sizeof(heard) - strlen(heard), "%s\n",
             text);
}

typedef struct fixture {
    char dir[FOLDER_BYTES], path[FOLDER_BYTES + 8];
    fl_ctx *ctx;
    fl_executor *exe;
    fl_dataset *data;
} fixture;

static const fl_slot slots[] = {
    { .name = "age", .kind = FL_SLOT_FLOATS, .width = 1 },
    { .name = "income", .kind = FL_SLOT_FLOATS, .width = 1 },
    { .name = "share", .kind = FL_SLOT_FLOATS, .width = 1 },
    { .name = "year", .kind = FL_SLOT_FLOATS, .width = 1 },
    { .name = "y", .kind = FL_SLOT_FLOATS, .width = 1 },
};
enum { N_SLOTS = sizeof(slots) / sizeof(slots[0]) };

/* The label is large, too, but meets no weights. */
static void write_lines(const char *path)
{
    FILE *f = fopen(path, "w");

    assert_non_null(f);
    for (int i = 0; i < 50; i++)
        fprintf(f, "%d,%d,%g,%d,%d\n", 20 + i, 1000 * i, i / 50.0,
                1980 + i % 40, 500 + i);
    assert_int_equal(fclose(f), 0);
}

/* A line through all columns as features make them. */
static void build_net(fixture *f, const char *text)
{
    fl_feature_column c = FL_INIT(fl_feature_column);
    fl_features *features = NULL;
    fl_var *x[N_SLOTS], *loss;
    size_t n;

    assert_ok(fl_features_new(&features, text, slots, N_SLOTS, .label = "y"));
    assert_ok(fl_features_build(features, f->ctx));
    n = fl_features_n_columns(features);
    for (size_t i = 0; i < n; i++) {
        assert_ok(fl_features_column_at(features, i, &c));
        x[i] = c.var;
    }
    fl_features_free(features);
    loss = fl_layers_mean(fl_layers_square_error_cost(
        fl_layers_fc(fl_layers_concat(x, n, 1), 1),
        fl_program_var(fl_default_main_program(f->ctx), "y")));
    assert_non_null(loss);
    assert_ok(fl_minimize(
        make_optimizer(f->ctx, "sgd", "learning_rate=0.0000000000001"), loss));
}

static void open_all(fixture *f, const char *text)
{
    const char *path = f->path;

    assert_true(folder_make(f->dir, "scales"));
    snprintf(f->path, sizeof(f->path), "%s/data", f->dir);
    write_lines(f->path);
    f->ctx = make_ctx();
    build_net(f, text);
    f->exe = make_executor(f->ctx);
    assert_ok(fl_run(f->exe, fl_default_startup_program(f->ctx), NULL));
    assert_ok(fl_dataset_new(&f->data, f->ctx, "QueueDataset"));
    assert_ok(fl_dataset_set_slots(f->data, slots, N_SLOTS));
    assert_ok(fl_dataset_set_format(
        f->data, "csv:columns=age:float income:float share:float year:float "
                 "y:float"));
    assert_ok(fl_dataset_set_filelist(f->data, &path, 1));
    *heard = '\0';
    fl_log_set(hear, NULL, FL_LOG_WARN);
}

static void close_all(fixture *f)
{
    fl_log_set(NULL, NULL, FL_LOG_WARN);
    fl_dataset_free(f->data);
    fl_executor_free(f->exe);
    fl_ctx_free(f->ctx);
    unlink(f->path);
    rmdir(f->dir);
}

static void train(fixture *f)
{
    assert_ok(fl_train_from_dataset(f->exe, fl_default_main_program(f->ctx),
                                    f->data, NULL, .print_period = -1));
}

static void a_scale_that_ruins_training_is_told_once(void **state)
{
    fixture f;

    (void)state;
    open_all(&f, NULL);
    train(&f);
    assert_text_has(heard, "column income is about");
    assert_text_has(heard, "income = standard(log(income))");
    assert_text_has(heard, "age = standard(age)");
    assert_null(strstr(heard, "column share"));
    assert_null(strstr(heard, "column y "));
    *heard = '\0';
    train(&f);
    assert_string_equal(heard, "");
    close_all(&f);
}

static void what_a_feature_mends_is_not_told(void **state)
{
    fixture f;

    (void)state;
    open_all(&f, "age = standard(age, 45, 15); income = log(income);"
                 "year = scale(year, 1980, 2020)");
    train(&f);
    assert_string_equal(heard, "");
    close_all(&f);
}

static void a_pass_that_learns_nothing_does_not_care(void **state)
{
    fixture f;

    (void)state;
    open_all(&f, NULL);
    assert_ok(fl_infer_from_dataset(f.exe, fl_default_main_program(f.ctx),
                                    f.data, NULL, .print_period = -1));
    assert_string_equal(heard, "");
    close_all(&f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_scale_that_ruins_training_is_told_once),
        cmocka_unit_test(what_a_feature_mends_is_not_told),
        cmocka_unit_test(a_pass_that_learns_nothing_does_not_care),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
