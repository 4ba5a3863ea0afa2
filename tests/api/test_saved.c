/* test_saved.c - saved models, looked into: variables, tables, rows by turn and
 * by key, and all of it in one file for others. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "../make.h"
#include "base/alloc.h"
#include "base/hash.h"
#include "ckpt/dense.h"
#include "ckpt/table_file.h"
#include "flotilla/saved.h"

#define N_KEYS 200

static char folder[64];
static fl_ctx *ctx;

static const char *path_of(const char *name)
{
    static char path[128];

    snprintf(path, sizeof(path), "%s/%s", folder, name);
    return path;
}

static int set_up(void **state)
{
    (void)state;
    snprintf(folder, sizeof(folder), "/tmp/flotilla_saved_XXXXXX");
    fl_log_set(NULL, NULL, FL_LOG_WARN);
    ctx = make_ctx();
    return mkdtemp(folder) ? 0 : -1;
}

static int tear_down(void **state)
{
    char command[128];

    (void)state;
    fl_ctx_free(ctx);
    snprintf(command, sizeof(command), "rm -r '%s'", folder);
    return system(command);
}

static void expect_said(const char *part)
{
    if (!strstr(fl_last_error(), part))
        fail_msg("'%s' does not say '%s'", fl_last_error(), part);
}

/* --- a model to look into ------------------------------------------------- */

static const float w[] = { 1, 2, 3, 4, 5, 6 };

/* Rows in both forms, and candidates beside them. */
static fl_table *make_table(void)
{
    fl_table_config config;
    fl_table *t;

    must(fl_table_config_parse(&config, "emb",
                               "dim=3 accessor=ctr embedx_threshold=3", 7));
    must(fl_table_create(&t, &config));
    return t;
}

static void push(fl_table *t, uint64_t key, float show)
{
    float grads[] = { 1, -1, (float)key }, click = 1;

    must(fl_table_push(t, &(fl_rows){ .keys = &key,
                                      .values = grads,
                                      .shows = &show,
                                      .clicks = &click,
                                      .n = 1,
                                      .lr = 0.5,
                                      .merged = true }));
}

static void write_parts(fl_model_version *v, fl_manifest *m, fl_table *t)
{
    int64_t dims[] = { 2, 3 };
    fl_named_tensor dense = { "fc.w", fl_tensor_of(FL_DTYPE_F32, w, 2, dims) };
    fl_table_save_options save = { .last = FL_SHARDS - 1, .n_threads = 3 };

    must(fl_version_put(v, m, "program.txt", "seed 1\n", 7));
    must(fl_dense_save(v, m, FL_DENSE_FILE, &dense, 1));
    must(fl_table_cut_begin(&save.cut, t, NULL));
    must(fl_table_file_write(v, m, &save));
    fl_table_cut_end(save.cut);
}

static void save_model(fl_table *t)
{
    fl_model_version *v = NULL;
    fl_manifest m;

    fl_manifest_init(&m, FL_MANIFEST_FULL);
    m.step = 12;
    must(fl_version_begin(&v, path_of("model"), NULL));
    write_parts(v, &m, t);
    must(fl_version_commit(v, &m));
    fl_version_close(v);
    fl_manifest_release(&m);
}

/* Odd keys have short rows, even ones full ones. */
static fl_saved *saved_model(void)
{
    fl_table *t = make_table();
    fl_saved *s = NULL;

    for (uint64_t key = 0; key < N_KEYS; key++)
        push(t, key, key % 2 ? 0 : 100);
    save_model(t);
    fl_table_destroy(t);
    must(fl_saved_open(&s, ctx, path_of("model")));
    return s;
}

/* --- tests ---------------------------------------------------------------- */

static void a_version_says_what_it_is(void **state)
{
    fl_saved *s = saved_model();
    fl_saved_view v = FL_INIT(fl_saved_view);
    fl_saved_table t = FL_INIT(fl_saved_table);
    char *text;

    (void)state;
    must(fl_saved_look(s, &v));
    assert_string_equal(v.kind, "full");
    assert_null(v.base);
    assert_int_equal(v.step, 12);
    assert_int_equal(v.n_tensors, 1);
    assert_int_equal(v.n_tables, 1);
    assert_true(v.bytes > N_KEYS * 8);
    assert_string_equal(fl_saved_version(s, 0), v.id);
    assert_null(fl_saved_version(s, 1));
    assert_null(fl_saved_feed(s, 0));
    assert_null(fl_saved_target(s, 0));
    must(fl_saved_table_at(s, 0, &t));
    assert_string_equal(t.name, "emb");
    assert_string_equal(t.accessor, "ctr");
    assert_int_equal(t.rows, N_KEYS);
    assert_int_equal(t.short_rows, N_KEYS / 2);
    assert_int_equal(fl_saved_table_at(s, 1, &t), FL_ERR_NOTFOUND);
    text = fl_saved_text(s, "program.txt");
    assert_string_equal(text, "seed 1\n");
    fl_text_free(text);
    assert_null(fl_saved_text(s, "startup.txt"));
    expect_said("has no file startup.txt");
    must(fl_saved_verify(s));
    fl_saved_close(s);
}

static void a_variable_is_found_by_number_and_name(void **state)
{
    fl_saved *s = saved_model();
    const char *name;
    fl_tensor t;

    (void)state;
    must(fl_saved_tensor(s, 0, &name, &t));
    assert_string_equal(name, "fc.w");
    assert_memory_equal(t.data, w, sizeof(w));
    assert_int_equal(t.shape.dim[1], 3);
    assert_int_equal(fl_saved_tensor(s, 1, &name, &t), FL_ERR_NOTFOUND);
    must(fl_saved_find(s, "fc.w", &t));
    assert_int_equal(fl_saved_find(s, "fc.v", &t), FL_ERR_NOTFOUND);
    expect_said("has no variable fc.v; did you mean fc.w?");
    fl_saved_close(s);
}

static const fl_saved_field *field(const fl_saved_row *r, const char *name)
{
    for (uint32_t i = 0; i < r->n_fields; i++)
        if (!strcmp(r->fields[i].name, name))
            return &r->fields[i];
    return NULL;
}

static void expect_row(const fl_saved_row *r)
{
    assert_string_equal(r->kind, r->key % 2 ? "short" : "full");
    assert_non_null(field(r, "show"));
    assert_true(field(r, "show")->values[0] == (r->key % 2 ? 0 : 100));
    assert_true(field(r, "click")->values[0] == 1);
}

static void every_row_comes_once_and_is_found_by_its_key(void **state)
{
    fl_saved *s = saved_model();
    fl_saved_rows *rows = NULL;
    fl_saved_row r = FL_INIT(fl_saved_row);
    bool seen[N_KEYS] = { 0 };
    size_t n = 0;

    (void)state;
    must(fl_saved_rows_open(&rows, s, "emb"));
    for (; fl_saved_rows_next(rows, &r); n++) {
        assert_true(r.key < N_KEYS && !seen[r.key]);
        seen[r.key] = true;
        expect_row(&r);
    }
    assert_int_equal(n, N_KEYS);
    for (uint64_t key = 0; key < N_KEYS; key++) {
        assert_true(fl_saved_rows_find(rows, key, &r));
        assert_int_equal(r.key, key);
        expect_row(&r);
    }
    assert_false(fl_saved_rows_find(rows, N_KEYS, &r));
    fl_saved_rows_close(rows);
    assert_int_equal(fl_saved_rows_open(&rows, s, "emd"), FL_ERR_NOTFOUND);
    expect_said("has no table emd; it has emb");
    fl_saved_close(s);
}

/* What a column of the exported file says of key number i. */
static float exported(fl_st_file *f, const char *name, size_t i)
{
    const fl_st_tensor *t = fl_st_find(f, name);

    assert_non_null(t);
    return ((const float *)fl_st_bytes(f, t))[i * (size_t)t->shape.dim[1]];
}

static void an_export_has_variables_and_whole_columns(void **state)
{
    fl_saved *s = saved_model();
    fl_st_file *f = NULL;
    const fl_st_tensor *keys;

    (void)state;
    must(fl_saved_export(s, path_of("all.safetensors")));
    must(fl_st_open(&f, path_of("all.safetensors")));
    assert_memory_equal(fl_st_bytes(f, fl_st_find(f, "fc.w")), w, sizeof(w));
    keys = fl_st_find(f, "emb.key");
    assert_int_equal(keys->shape.dim[0], N_KEYS / 2);
    assert_int_equal(fl_st_find(f, "emb.short.key")->shape.dim[0], N_KEYS / 2);
    for (size_t i = 0; i < N_KEYS / 2; i++) {
        assert_int_equal(((const uint64_t *)fl_st_bytes(f, keys))[i] % 2, 0);
        assert_true(exported(f, "emb.show", i) == 100);
        assert_true(exported(f, "emb.short.show", i) == 0);
    }
    fl_st_close(f);
    fl_saved_close(s);
}

static void what_is_no_model_is_refused(void **state)
{
    fl_saved *s = NULL;

    (void)state;
    assert_int_equal(fl_saved_open(&s, ctx, path_of("nowhere")),
                     FL_ERR_NOTFOUND);
    assert_int_equal(fl_saved_open(&s, ctx, folder), FL_ERR_NOTFOUND);
    expect_said("is no model");
    assert_null(s);
}

#define IN_FOLDER(test) cmocka_unit_test_setup_teardown(test, set_up, tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        IN_FOLDER(a_version_says_what_it_is),
        IN_FOLDER(a_variable_is_found_by_number_and_name),
        IN_FOLDER(every_row_comes_once_and_is_found_by_its_key),
        IN_FOLDER(an_export_has_variables_and_whole_columns),
        IN_FOLDER(what_is_no_model_is_refused),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
