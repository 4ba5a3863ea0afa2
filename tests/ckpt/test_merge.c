/* test_merge.c - a chain of deltas merged into one version is what a load of
 * the chain gives. */
#include "kit.h"

#include "base/hash.h"
#include "ckpt/dense.h"
#include "ckpt/merge.h"
#include "ckpt/table_file.h"

#define LAST (FL_SHARDS - 1)

static fl_table *make(void)
{
    fl_table_config config;
    fl_table *t;

    assert_ok(fl_table_config_parse(&config, "emb", "dim=2 optimizer=adam", 7));
    assert_ok(fl_table_create(&t, &config));
    return t;
}

/* Pushes to keys first..last. */
static void push(fl_table *t, uint64_t first, uint64_t last, float x)
{
    for (uint64_t key = first; key <= last; key++) {
        float grads[] = { x, -x };

        assert_ok(fl_table_push(t, &(fl_rows){ .keys = &key,
                                               .values = grads,
                                               .n = 1,
                                               .lr = 0.5,
                                               .merged = true }));
    }
}

/* A version in `dir`, a delta when there is a base; returns the next `since`. */
static uint32_t save(const char *dir, fl_table *t, uint32_t since,
                     char id[FL_VERSION_ID_MAX])
{
    float w[] = { (float)since };
    int64_t one = 1;
    fl_named_tensor dense = { "w", fl_tensor_of(FL_DTYPE_F32, w, 1, &one) };
    fl_table_save_options save = { .last = LAST };
    fl_model_version *v = NULL;
    fl_manifest m;
    uint32_t epoch;

    fl_manifest_init(&m, since ? FL_MANIFEST_DELTA : FL_MANIFEST_FULL);
    m.base = since ? fl_manifest_text(&m, id) : NULL;
    m.step = since;
    assert_ok(fl_table_cut_begin(
        &save.cut, t, &(fl_cut_options){ .since = since, .watch = true }));
    epoch = fl_table_cut_moment(save.cut)->epoch;
    assert_ok(fl_version_begin(&v, dir, NULL));
    assert_ok(fl_version_folder(v, "trainers"));
    assert_ok(fl_version_put(v, &m, "program.txt", "fetch\n", 6));
    assert_ok(fl_version_put(v, &m, "trainers/0.json", "{}", 2));
    assert_ok(fl_dense_save(v, &m, FL_DENSE_FILE, &dense, 1));
    assert_ok(fl_table_file_write(v, &m, &save));
    assert_ok(fl_version_commit(v, &m));
    fl_table_cut_end(save.cut);
    snprintf(id, FL_VERSION_ID_MAX, "%s", v->id);
    fl_version_close(v);
    fl_manifest_release(&m);
    return epoch;
}

static fl_model_version *open_model(const char *dir)
{
    fl_model_version *v = NULL;

    assert_ok(fl_version_open(&v, dir));
    assert_ok(fl_version_verify(v));
    return v;
}

static int by_text(const void *a, const void *b)
{
    return strcmp(*(const char *const *)a, *(const char *const *)b);
}

/* What a table holds, in the order of the text: that of a dump depends on how
   the table came about. */
static char *text_of(fl_table *t)
{
    FL_VEC(char *) lines = { 0 };
    fl_str sorted = { 0 };
    char *text, *at;

    assert_ok(fl_table_dump(t, kit_path("dump.txt")));
    at = text = kit_read(kit_path("dump.txt"), NULL);
    for (char *line; (line = strsep(&at, "\n"));)
        fl_vec_push(&lines, line);
    qsort(lines.data, lines.len, sizeof(char *), by_text);
    for (size_t i = 0; i < lines.len; i++)
        fl_str_addf(&sorted, "%s\n", lines.data[i]);
    fl_vec_release(&lines);
    fl_free(text);
    return fl_str_take(&sorted);
}

/* The one version of `dir` holds what `t` does. */
static void expect_whole(const char *dir, fl_table *t, uint64_t step)
{
    fl_model_version *v = open_model(dir);
    fl_table *back = make();
    char *want, *got;

    assert_int_equal(v->manifest.kind, FL_MANIFEST_FULL);
    assert_null(v->manifest.base);
    assert_int_equal(v->manifest.step, step);
    assert_non_null(fl_manifest_find_file(&v->manifest, "trainers/0.json"));
    assert_ok(fl_table_file_load(back, v, "emb",
                                 &(fl_table_load_options){ .last = LAST }));
    want = text_of(t);
    got = text_of(back);
    assert_string_equal(got, want);
    fl_free(want);
    fl_free(got);
    fl_table_destroy(back);
    fl_version_close(v);
}

static void a_chain_becomes_one_version(void **state)
{
    char id[FL_VERSION_ID_MAX] = "";
    fl_table *t = make();
    uint32_t since;

    (void)state;
    push(t, 1, 50, 1);
    since = save(kit_path("model"), t, 0, id);
    push(t, 40, 60, 2);
    since = save(kit_path("model"), t, since, id);
    push(t, 1, 3, 3);
    (void)save(kit_path("model"), t, since, id);
    assert_ok(fl_version_merge(kit_path("model"), kit_path("merged")));
    expect_whole(kit_path("merged"), t, since);
    assert_ok(fl_version_merge(kit_path("model"), kit_path("model")));
    expect_whole(kit_path("model"), t, since);
    fl_table_destroy(t);
}

static void what_stands_alone_is_copied(void **state)
{
    char id[FL_VERSION_ID_MAX] = "";
    fl_table *t = make();

    (void)state;
    push(t, 1, 50, 1);
    (void)save(kit_path("model"), t, 0, id);
    assert_ok(fl_version_merge(kit_path("model"), kit_path("merged")));
    expect_whole(kit_path("merged"), t, 0);
    fl_table_destroy(t);
}

static void a_missing_link_is_named_and_nothing_is_written(void **state)
{
    char base[FL_VERSION_ID_MAX] = "", id[FL_VERSION_ID_MAX], path[64];
    fl_table *t = make();
    uint32_t since;

    (void)state;
    push(t, 1, 9, 1);
    since = save(kit_path("model"), t, 0, base);
    memcpy(id, base, sizeof(id));
    push(t, 2, 3, 1);
    (void)save(kit_path("model"), t, since, id);
    snprintf(path, sizeof(path), "model/%s", base);
    kit_remove(kit_path(path));
    assert_int_equal(fl_version_merge(kit_path("model"), kit_path("merged")),
                     FL_ERR_NOTFOUND);
    assert_non_null(strstr(fl_last_error(), base));
    assert_int_not_equal(access(kit_path("merged"), F_OK), 0);
    fl_table_destroy(t);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        KIT_TEST(a_chain_becomes_one_version),
        KIT_TEST(what_stands_alone_is_copied),
        KIT_TEST(a_missing_link_is_named_and_nothing_is_written),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
