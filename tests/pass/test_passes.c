/* test_passes.c - the list of passes and their runner. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/file.h"
#include "ops/ops.h"
#include "pass/pass.h"

#define PATH_MAX_BYTES 256
#define TEXT_MAX_BYTES (1 << 16)

static const char layer_text[] = "var x : f32[-1,4] data\n"
                                 "param w : f32[4,2] init=xavier trainable\n"
                                 "param b : f32[2] init=constant(0) trainable\n"
                                 "op mul (X=x, Y=w) -> (Out=t)\n"
                                 "op elementwise_add (X=t, Y=b) -> (Out=y)\n"
                                 "op relu (X=y) -> (Out=dead)\n"
                                 "fetch y\n";

static const char no_dead_text[] =
    "var x : f32[-1,4] data\n"
    "param w : f32[4,2] init=xavier trainable\n"
    "param b : f32[2] init=constant(0) trainable\n"
    "op mul (X=x, Y=w) -> (Out=t)\n"
    "op elementwise_add (X=t, Y=b) -> (Out=y)\n"
    "fetch y\n";

static const char fused_text[] = "var x : f32[-1,4] data\n"
                                 "param w : f32[4,2] init=xavier trainable\n"
                                 "param b : f32[2] init=constant(0) trainable\n"
                                 "op fc (Input=x, W=w, Bias=b) -> (Out=y)\n"
                                 "fetch y\n";

static fl_program *parse(const char *text)
{
    fl_program *p = NULL;

    if (fl_program_parse(text, &fl_ops, &p))
        fail_msg("%s", fl_last_error());
    return p;
}

static void expect_after(const fl_pass_options *o, const char *want)
{
    fl_program *p = parse(layer_text);
    char *text;

    assert_int_equal(fl_passes_run(p, o), FL_OK);
    text = fl_program_print(p);
    assert_string_equal(text, want);
    fl_free(text);
    fl_program_free(p);
}

static void every_pass_has_a_name_and_a_sentence(void **state)
{
    (void)state;
    assert_true(fl_pass_count() > 0);
    for (size_t i = 0; i < fl_pass_count(); i++) {
        const fl_pass *pass = fl_pass_at(i);

        assert_true(*pass->name && *pass->doc);
        assert_true(pass->run || pass->mark || pass->spread);
        assert_ptr_equal(fl_pass_find(pass->name), pass);
    }
    assert_string_equal(fl_pass_at(0)->name, "canon_decay");
    assert_true(fl_pass_at(0)->required);
}

static void an_unknown_pass_is_not_found(void **state)
{
    (void)state;
    assert_null(fl_pass_find("opt_nothing"));
    assert_null(fl_pass_find("opt_fcc"));
    assert_null(fl_pass_find("opt_f"));
    assert_null(fl_pass_find(""));
}

static void all_passes_run_in_order(void **state)
{
    (void)state;
    expect_after(&(fl_pass_options){ .optimize = true }, fused_text);
    expect_after(&(fl_pass_options){ .optimize = true, .skip = "" },
                 fused_text);
}

static void without_optimize_nothing_is_optimized(void **state)
{
    (void)state;
    expect_after(&(fl_pass_options){ .optimize = false }, layer_text);
}

static void skipped_passes_do_not_run(void **state)
{
    (void)state;
    expect_after(&(fl_pass_options){ .optimize = true, .skip = "opt_fc" },
                 no_dead_text);
    expect_after(
        &(fl_pass_options){ .optimize = true, .skip = "opt_fc,opt_dce" },
        layer_text);
    expect_after(
        &(fl_pass_options){ .optimize = true, .skip = " opt_dce , opt_fc, " },
        layer_text);
}

static const char table_text[] =
    "var ids : i64[-1,1] data\n"
    "param t : f32[-1,4] init=xavier trainable table\n"
    "op lookup_table (W=t, Ids=ids) -> (Out=y) {is_distributed=true}\n"
    "op relu (X=y) -> (Out=dead)\n"
    "fetch y\n";

static const char pulled_text[] =
    "var ids : i64[-1,1] data\n"
    "param t : f32[-1,4] init=xavier trainable table\n"
    "op pull_sparse (Ids=ids) -> (Rows=t@ROWS, Index=ids@INDEX@t, "
    "Keys=t@KEYS) {table=t, dim=4, create=false}\n"
    "op lookup_table (W=t@ROWS, Ids=ids@INDEX@t) -> (Out=y)\n"
    "op relu (X=y) -> (Out=dead)\n"
    "fetch y\n";

static void required_passes_run_without_optimize(void **state)
{
    fl_pass_options o = { .optimize = false, .skip = "opt_fc" };
    fl_program *p = parse(table_text);
    char *text;

    (void)state;
    assert_int_equal(fl_passes_run(p, &o), FL_OK);
    text = fl_program_print(p);
    assert_string_equal(text, pulled_text);
    fl_free(text);
    fl_program_free(p);
}

static const char pooled_text[] =
    "var ids : i64[-1,1] lod=1 data\n"
    "op pull_sparse (Ids=ids) -> (Rows=r, Index=i, Keys=k) {table=t, dim=4, "
    "create=false}\n"
    "op fused_embedding_pool_concat (W=r, Ids=i) -> (Out=y) {order=[0]}\n"
    "fetch y\n";

static const char found_text[] =
    "var ids : i64[-1,1] lod=1 data\n"
    "op fused_find_pool_concat (Ids=ids) -> (Out=y) {order=[0], table=t, "
    "dim=4}\n"
    "fetch y\n";

static void expect_pooled(const fl_pass_options *o, const char *want)
{
    fl_program *p = parse(pooled_text);
    char *text;

    assert_int_equal(fl_passes_run(p, o), FL_OK);
    text = fl_program_print(p);
    assert_string_equal(text, want);
    fl_free(text);
    fl_program_free(p);
}

static void some_passes_are_for_frozen_tables_alone(void **state)
{
    (void)state;
    expect_pooled(&(fl_pass_options){ .optimize = true }, pooled_text);
    expect_pooled(&(fl_pass_options){ .is_frozen = true }, pooled_text);
    expect_pooled(&(fl_pass_options){ .optimize = true,
                                      .is_frozen = true,
                                      .skip = "opt_find" },
                  pooled_text);
    expect_pooled(&(fl_pass_options){ .optimize = true, .is_frozen = true },
                  found_text);
}

static void a_required_pass_cannot_be_skipped(void **state)
{
    fl_pass_options o = { .optimize = true, .skip = "opt_fc,dist_pull" };
    fl_program *p = parse(table_text);

    (void)state;
    assert_int_equal(fl_passes_run(p, &o), FL_ERR_INVAL);
    assert_non_null(strstr(fl_last_error(), "dist_pull is required"));
    o.optimize = false;
    assert_int_equal(fl_passes_run(p, &o), FL_ERR_INVAL);
    fl_program_free(p);
}

static void a_pass_of_a_training_mode_cannot_be_skipped(void **state)
{
    fl_pass_options o = { .optimize = true, .skip = "dist_send" };
    fl_program *p = parse(layer_text);

    (void)state;
    assert_int_equal(fl_passes_run(p, &o), FL_ERR_INVAL);
    assert_non_null(strstr(fl_last_error(), "part of a training mode"));
    fl_program_free(p);
}

/* It follows from a setting, with or without the optimise passes. */
static void products_are_marked_where_bf16_is_asked_for(void **state)
{
    static const char text[] = "var x : f32[-1,32] data\n"
                               "param w : f32[32,32] init=xavier trainable\n"
                               "op mul (X=x, Y=w) -> (Out=h)\n"
                               "op mul (X=h, Y=w) -> (Out=y)\n"
                               "fetch y\n";
    fl_pass_options o = { .precision = { true, "", "" } };
    fl_program *p = parse(text);
    char *got;

    (void)state;
    assert_int_equal(fl_passes_run(p, &o), FL_OK);
    got = fl_program_print(p);
    assert_non_null(strstr(got, "(Out=h) {precision=bf16}"));
    fl_free(got);
    o.skip = "opt_precision";
    assert_int_equal(fl_passes_run(p, &o), FL_ERR_INVAL);
    assert_non_null(strstr(fl_last_error(), "opt_precision is required"));
    fl_program_free(p);
}

static void an_operator_without_bf16_cannot_be_allowed(void **state)
{
    fl_pass_options o = { .precision = { true, "fc,softmax", "" } };
    fl_program *p = parse(layer_text);

    (void)state;
    assert_int_equal(fl_passes_run(p, &o), FL_ERR_INVAL);
    assert_string_equal(fl_last_error(),
                        "pass opt_precision: precision_allow: operator softmax "
                        "is always computed in f32; fc and mul have bf16");
    fl_program_free(p);
}

static void an_unknown_name_in_skip_is_refused(void **state)
{
    fl_pass_options o = { .optimize = true, .skip = "opt_dce,opt_fd" };
    fl_program *p = parse(layer_text);

    (void)state;
    assert_int_equal(fl_passes_run(p, &o), FL_ERR_NOTFOUND);
    assert_non_null(strstr(fl_last_error(), "opt_fd"));
    assert_non_null(strstr(fl_last_error(), "did you mean"));
    fl_program_free(p);
}

static void a_pass_that_fails_is_named(void **state)
{
    fl_pass_options o = { .optimize = true };
    fl_program *p = parse(layer_text);

    (void)state;
    fl_block_find_var(fl_program_main(p), "w")->meta.shape.dim[0] = 3;
    assert_int_not_equal(fl_passes_run(p, &o), FL_OK);
    assert_memory_equal(fl_last_error(), "pass opt_", strlen("pass opt_"));
    fl_program_free(p);
}

/* --- dumps ---------------------------------------------------------------- */

typedef struct dump_dir {
    char base[PATH_MAX_BYTES / 4], path[PATH_MAX_BYTES / 2];
    int n_made;
} dump_dir;

static fl_dump_place place_of(dump_dir *d, const char *who)
{
    return (fl_dump_place){ d->path, who, "main", &d->n_made };
}

static void make_dir(dump_dir *d)
{
    *d = (dump_dir){ 0 };
    snprintf(d->base, sizeof(d->base), "/tmp/flotilla-passes-XXXXXX");
    assert_non_null(mkdtemp(d->base));
    snprintf(d->path, sizeof(d->path), "%s/ir", d->base);
}

static const char *in_dir(const dump_dir *d, const char *name,
                          char path[PATH_MAX_BYTES])
{
    snprintf(path, PATH_MAX_BYTES, "%s/%s", d->path, name);
    return path;
}

static void expect_file(const dump_dir *d, const char *name, const char *want)
{
    char path[PATH_MAX_BYTES];
    char *text;
    size_t len;

    if (fl_file_read(in_dir(d, name, path), TEXT_MAX_BYTES, &text, &len))
        fail_msg("%s", fl_last_error());
    assert_string_equal(text, want);
    fl_free(text);
    unlink(path);
}

/* Nothing else was written. */
static void remove_folder(const dump_dir *d, const char *name)
{
    char path[PATH_MAX_BYTES];

    assert_int_equal(rmdir(in_dir(d, name, path)), 0);
}

static void remove_dir(const dump_dir *d)
{
    assert_int_equal(rmdir(d->path), 0);
    assert_int_equal(rmdir(d->base), 0);
}

static void the_text_after_each_change_is_written(void **state)
{
    dump_dir d;

    (void)state;
    make_dir(&d);
    expect_after(
        &(fl_pass_options){ .optimize = true, .dump = place_of(&d, "") },
        fused_text);
    expect_file(&d, "01-main/00-input.txt", layer_text);
    expect_file(&d, "01-main/04-opt_dce.txt", no_dead_text);
    expect_file(&d, "01-main/05-opt_fc.txt", fused_text);
    remove_folder(&d, "01-main");
    remove_dir(&d);
}

static void programs_are_kept_apart_and_so_are_processes(void **state)
{
    fl_pass_options o = { .optimize = true, .skip = "opt_dce,opt_fc" };
    dump_dir d;

    (void)state;
    make_dir(&d);
    o.dump = place_of(&d, "worker-1");
    expect_after(&o, layer_text);
    o.dump.name = "startup";
    expect_after(&o, layer_text);
    expect_file(&d, "worker-1/01-main/00-input.txt", layer_text);
    expect_file(&d, "worker-1/02-startup/00-input.txt", layer_text);
    remove_folder(&d, "worker-1/01-main");
    remove_folder(&d, "worker-1/02-startup");
    remove_folder(&d, "worker-1");
    remove_dir(&d);
}

static void a_directory_that_exists_is_used(void **state)
{
    dump_dir d;

    (void)state;
    make_dir(&d);
    snprintf(d.path, sizeof(d.path), "%s", d.base);
    expect_after(&(fl_pass_options){ .optimize = true,
                                     .skip = "opt_dce,opt_fc",
                                     .dump = place_of(&d, "") },
                 layer_text);
    expect_file(&d, "01-main/00-input.txt", layer_text);
    remove_folder(&d, "01-main");
    assert_int_equal(rmdir(d.base), 0);
}

static void a_directory_that_cannot_be_made_is_an_error(void **state)
{
    int n = 0;
    fl_pass_options o = { .optimize = true,
                          .dump = { "/proc/no/such/place", "", "main", &n } };
    fl_program *p = parse(layer_text);

    (void)state;
    assert_int_equal(fl_passes_run(p, &o), FL_ERR_IO);
    assert_non_null(strstr(fl_last_error(), "/proc/no/such/place"));
    fl_program_free(p);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_pass_has_a_name_and_a_sentence),
        cmocka_unit_test(an_unknown_pass_is_not_found),
        cmocka_unit_test(all_passes_run_in_order),
        cmocka_unit_test(without_optimize_nothing_is_optimized),
        cmocka_unit_test(skipped_passes_do_not_run),
        cmocka_unit_test(required_passes_run_without_optimize),
        cmocka_unit_test(some_passes_are_for_frozen_tables_alone),
        cmocka_unit_test(a_required_pass_cannot_be_skipped),
        cmocka_unit_test(a_pass_of_a_training_mode_cannot_be_skipped),
        cmocka_unit_test(products_are_marked_where_bf16_is_asked_for),
        cmocka_unit_test(an_operator_without_bf16_cannot_be_allowed),
        cmocka_unit_test(an_unknown_name_in_skip_is_refused),
        cmocka_unit_test(a_pass_that_fails_is_named),
        cmocka_unit_test(the_text_after_each_change_is_written),
        cmocka_unit_test(programs_are_kept_apart_and_so_are_processes),
        cmocka_unit_test(a_directory_that_exists_is_used),
        cmocka_unit_test(a_directory_that_cannot_be_made_is_an_error),
    };

    return cmocka_run_group_tests_name("passes", tests, NULL, NULL);
}
