/* test_model.c - directories that PaddlePaddle 1.8 saved: a file per variable,
 * one for all, with and without a program. */
#include "kit.h"

#include <sys/stat.h>
#include <unistd.h>

#include "base/file.h"
#include "paddle18/model.h"

#define VAR(...) (&(var_desc){ __VA_ARGS__ })

static char folder[64];

static const char *path_of(const char *name)
{
    static char path[256];

    snprintf(path, sizeof(path), "%s/%s", folder, name);
    return path;
}

static void write_bytes(const char *name, bytes *b)
{
    expect_ok(fl_file_write(path_of(name), b->data, b->len));
    fl_vec_release(b);
}

static void write_floats(const char *name, float first, int64_t n)
{
    bytes b = { 0 };

    put_floats(&b, first, n);
    write_bytes(name, &b);
}

/* out = x + bias, scaled by gain. */
static void write_program(void)
{
    bytes block = { 0 }, program = { 0 }, op = { 0 };

    add_var(&block, VAR("x", FL_P18_FP32, 2, { -1, 3 }, 0, false));
    add_var(&block, VAR("gain", FL_P18_FP32, 1, { 3 }, 0, true));
    add_var(&block, VAR("bias", FL_P18_FP32, 1, { 3 }, 0, true));
    add_feed(&block, "x", 0);
    add_arg(&op, IN, "X", "x");
    add_arg(&op, IN, "Y", "bias");
    add_arg(&op, OUT, "Out", "y");
    add_op(&block, "elementwise_add", &op);
    add_arg(&op, IN, "X", "y");
    add_arg(&op, IN, "Y", "gain");
    add_arg(&op, OUT, "Out", "z");
    add_op(&block, "elementwise_mul", &op);
    add_fetch(&block, "z", 0);
    add_block(&program, 0, -1, &block);
    write_bytes("__model__", &program);
}

static int make_folder(void **state)
{
    (void)state;
    snprintf(folder, sizeof(folder), "/tmp/flotilla_p18_XXXXXX");
    return mkdtemp(folder) ? 0 : -1;
}

static int remove_folder(void **state)
{
    char command[128];

    (void)state;
    snprintf(command, sizeof(command), "rm -r '%s'", folder);
    return system(command);
}

static fl_p18_model *open_model(const fl_p18_args *args)
{
    fl_p18_model *m = NULL;

    expect_ok(fl_p18_open(&m, folder, args, &fl_ops));
    return m;
}

static void expect_refused(const fl_p18_args *args, fl_status st,
                           const char *part)
{
    fl_p18_model *m = NULL;

    assert_int_equal(fl_p18_open(&m, folder, args, &fl_ops), st);
    assert_null(m);
    expect_said(part);
}

static void expect_var(const fl_p18_model *m, size_t i, const char *name,
                       float first)
{
    const fl_p18_var *v = fl_p18_var_at(m, i);
    float got;

    assert_non_null(v);
    assert_string_equal(v->name, name);
    memcpy(&got, v->value.tensor.data, sizeof(got));
    assert_true(got == first);
}

static void a_file_per_variable(void **state)
{
    fl_p18_model *m;

    (void)state;
    write_program();
    write_floats("bias", 1, 3);
    write_floats("gain", 2, 3);
    write_floats("nobody_asks_for_it", 9, 3);
    m = open_model(&(fl_p18_args){ 0 });
    expect_var(m, 0, "bias", 1);
    expect_var(m, 1, "gain", 2);
    assert_null(fl_p18_var_at(m, 2));
    assert_string_equal(fl_p18_program_of(m)->targets.data[0], "z");
    fl_p18_close(m);
}

/* One file has them in the order of their names, not of the program. */
static void one_file_for_all_variables(void **state)
{
    bytes b = { 0 };
    fl_p18_model *m;

    (void)state;
    write_program();
    put_floats(&b, 1, 3);
    put_floats(&b, 2, 3);
    write_bytes("__params__", &b);
    m = open_model(&(fl_p18_args){ 0 });
    expect_var(m, 0, "bias", 1);
    expect_var(m, 1, "gain", 2);
    fl_p18_close(m);
}

static void one_file_of_another_name_and_a_program_of_another(void **state)
{
    char other[sizeof(folder) + 8];
    bytes b = { 0 };
    fl_p18_model *m;

    (void)state;
    snprintf(other, sizeof(other), "%s/network", folder);
    write_program();
    assert_int_equal(link(path_of("__model__"), other), 0);
    assert_int_equal(unlink(path_of("__model__")), 0);
    put_floats(&b, 1, 3);
    put_floats(&b, 2, 3);
    write_bytes("all", &b);
    m = open_model(&(fl_p18_args){ .params = "all", .program = "network" });
    expect_var(m, 1, "gain", 2);
    fl_p18_close(m);
    expect_refused(&(fl_p18_args){ .program = "net" }, FL_ERR_NOTFOUND, "net");
}

static void a_folder_without_a_program_is_variables(void **state)
{
    fl_p18_model *m;

    (void)state;
    write_floats("w", 1, 4);
    assert_int_equal(mkdir(path_of("deep"), 0777), 0);
    write_floats("deep/er", 2, 5);
    m = open_model(&(fl_p18_args){ 0 });
    assert_null(fl_p18_program_of(m)->program);
    expect_var(m, 0, "deep/er", 2);
    expect_var(m, 1, "w", 1);
    fl_p18_close(m);
}

static void one_file_without_a_program_needs_names(void **state)
{
    static const char *const names[] = { "a", "b" };
    bytes b = { 0 };
    fl_p18_model *m;

    (void)state;
    put_floats(&b, 1, 3);
    put_floats(&b, 2, 4);
    write_bytes("params", &b);
    expect_refused(&(fl_p18_args){ .params = "params" }, FL_ERR_INVAL,
                   "give their names in the order of the file");
    m = open_model(
        &(fl_p18_args){ .params = "params", .names = names, .n_names = 2 });
    expect_var(m, 1, "b", 2);
    fl_p18_close(m);
    expect_refused(
        &(fl_p18_args){ .params = "params", .names = names, .n_names = 1 },
        FL_ERR_CORRUPT, "bytes behind its 1 variables");
}

static void all_files_that_are_wrong_are_named(void **state)
{
    (void)state;
    write_program();
    write_floats("gain", 1, 2);
    expect_refused(&(fl_p18_args){ 0 }, FL_ERR_NOTFOUND, "/bias: No such file");
    expect_said("variable gain is f32[3] in the program and f32[2] in its "
                "file");
}

static void a_file_with_too_much_is_refused(void **state)
{
    bytes b = { 0 };

    (void)state;
    put_floats(&b, 1, 3);
    put_u32(&b, 7);
    write_bytes("w", &b);
    expect_refused(&(fl_p18_args){ 0 }, FL_ERR_CORRUPT,
                   "variable w: its file has 4 bytes too many");
}

/* One row of two numbers, for the id 7. */
static void write_rows(const char *name)
{
    int64_t dims[] = { 1, 2 };
    bytes b = { 0 };

    put_u32(&b, 0);
    put_u64(&b, 1);
    put_u64(&b, 7);
    put_u64(&b, 100);
    put_tensor(&b, FL_P18_FP32, 2, dims);
    put_u64(&b, 0);
    write_bytes(name, &b);
}

static void rows_of_a_table_are_a_variable_of_their_own_kind(void **state)
{
    const fl_p18_var *v;
    fl_p18_model *m;

    (void)state;
    write_rows("emb");
    m = open_model(&(fl_p18_args){ 0 });
    v = fl_p18_var_at(m, 0);
    assert_string_equal(v->name, "emb");
    assert_true(v->value.is_rows);
    assert_int_equal(v->value.n_rows, 1);
    fl_p18_close(m);
}

static void rows_of_a_table_are_no_parameter_of_a_program(void **state)
{
    (void)state;
    write_program();
    write_rows("bias");
    write_floats("gain", 2, 3);
    expect_refused(&(fl_p18_args){ 0 }, FL_ERR_UNSUPPORTED,
                   "variable bias holds 1 rows of a table");
}

static void a_folder_with_nothing_is_no_model(void **state)
{
    bytes none = { 0 };

    (void)state;
    expect_refused(&(fl_p18_args){ 0 }, FL_ERR_NOTFOUND,
                   "has neither variables nor a program");
    write_bytes("empty", &none);
    expect_refused(&(fl_p18_args){ 0 }, FL_ERR_CORRUPT,
                   "is no file with something in it");
}

static void a_program_that_does_not_parse_is_named(void **state)
{
    bytes b = { 0 };

    (void)state;
    put(&b, "no program", 10);
    write_bytes("__model__", &b);
    expect_refused(&(fl_p18_args){ 0 }, FL_ERR_CORRUPT, "__model__: ");
}

#define IN_FOLDER(test)                                                        \
    cmocka_unit_test_setup_teardown(test, make_folder, remove_folder)

int main(void)
{
    const struct CMUnitTest tests[] = {
        IN_FOLDER(a_file_per_variable),
        IN_FOLDER(one_file_for_all_variables),
        IN_FOLDER(one_file_of_another_name_and_a_program_of_another),
        IN_FOLDER(a_folder_without_a_program_is_variables),
        IN_FOLDER(one_file_without_a_program_needs_names),
        IN_FOLDER(all_files_that_are_wrong_are_named),
        IN_FOLDER(a_file_with_too_much_is_refused),
        IN_FOLDER(rows_of_a_table_are_a_variable_of_their_own_kind),
        IN_FOLDER(rows_of_a_table_are_no_parameter_of_a_program),
        IN_FOLDER(a_folder_with_nothing_is_no_model),
        IN_FOLDER(a_program_that_does_not_parse_is_named),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
