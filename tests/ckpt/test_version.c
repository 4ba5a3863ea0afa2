/* test_version.c - versions of a model: the old one counts until the new one
 * is whole. */
#include "kit.h"

#include <fcntl.h>

#include "ckpt/folder.h"
#include "ckpt/version.h"

/* A model of one text and one tensor of this number. */
static fl_status write_files(fl_model_version *v, fl_manifest *m, float number)
{
    const fl_st_tensor t = { .name = "w",
                             .shape = fl_shape_of(1, (int64_t[]){ 1 }) };
    char *path = fl_version_file(v, "dense.safetensors");
    fl_st_writer *w = NULL;
    uint64_t bytes, sum;

    assert_ok(fl_st_writer_open(&w, path, &t, 1));
    assert_ok(fl_st_writer_put(w, 0, &number, sizeof(number)));
    assert_ok(fl_st_writer_commit(w, &bytes, &sum));
    fl_free(path);
    fl_manifest_add_tensors(m,
                            &(fl_manifest_file){ .name = "dense.safetensors",
                                                 .bytes = bytes,
                                                 .tensors = &t,
                                                 .n_tensors = 1 },
                            &sum);
    return fl_version_put(v, m, "program.txt", "fetch x\n", 8);
}

/* Saves one and gives its id. */
static const char *save(const char *dir, float number, uint32_t keep,
                        const char *base)
{
    static char ids[16][FL_VERSION_ID_MAX];
    static size_t next;
    char *id = ids[next++ % FL_LEN(ids)];
    fl_model_version *v = NULL;
    fl_manifest m;

    fl_manifest_init(&m, base ? FL_MANIFEST_DELTA : FL_MANIFEST_FULL);
    m.base = base;
    assert_ok(fl_version_begin(&v, dir, &(fl_version_options){ keep }));
    assert_ok(write_files(v, &m, number));
    assert_ok(fl_version_commit(v, &m));
    snprintf(id, FL_VERSION_ID_MAX, "%s", v->id);
    fl_version_close(v);
    fl_manifest_release(&m);
    return id;
}

static float number_of(const char *path)
{
    fl_model_version *v = NULL;
    fl_st_file *f = NULL;
    float number;

    assert_ok(fl_version_open(&v, path));
    assert_ok(fl_version_verify(v));
    assert_ok(fl_version_map(v, "dense.safetensors", &f));
    memcpy(&number, fl_st_bytes(f, fl_st_find(f, "w")), sizeof(number));
    fl_st_close(f);
    fl_version_close(v);
    return number;
}

static size_t count_versions(const char *dir)
{
    fl_version_names names = { 0 };
    size_t n;

    assert_ok(fl_folder_list(dir, &names));
    n = names.len;
    fl_version_names_release(&names);
    return n;
}

static void a_model_is_saved_and_opened(void **state)
{
    const char *dir = kit_path("a/b/model");
    fl_model_version *v = NULL;
    char *text;
    size_t len;

    (void)state;
    assert_int_equal(fl_version_number(save(dir, 1, 0, NULL)), 1);
    assert_ok(fl_version_open(&v, dir));
    assert_ok(fl_version_read(v, "program.txt", &text, &len));
    assert_string_equal(text, "fetch x\n");
    fl_free(text);
    assert_has(v->manifest.writer, "flotilla ");
    fl_version_close(v);
    assert_true(number_of(dir) == 1);
}

static void saving_again_adds_a_version_and_removes_the_old_one(void **state)
{
    const char *dir = kit_path("model");
    const char *first, *second;

    (void)state;
    first = save(dir, 1, 1, NULL);
    second = save(dir, 2, 1, NULL);
    assert_int_equal(fl_version_number(second), 2);
    assert_true(number_of(dir) == 2);
    assert_int_equal(count_versions(dir), 1);
    assert_false(fl_folder_has(dir, first));
    assert_logged("ckpt: saved model=");
}

static void keep_says_how_many_versions_stay(void **state)
{
    const char *dir = kit_path("model");
    const char *ids[4];
    fl_model_version *v = NULL;

    (void)state;
    for (int i = 0; i < 4; i++)
        ids[i] = save(dir, (float)i, 3, NULL);
    assert_int_equal(count_versions(dir), 3);
    assert_false(fl_folder_has(dir, ids[0]));
    assert_ok(fl_version_open_id(&v, dir, ids[1]));
    assert_ok(fl_version_verify(v));
    fl_version_close(v);
    assert_true(number_of(dir) == 3);
}

static void a_base_that_a_delta_needs_stays(void **state)
{
    const char *dir = kit_path("model");
    const char *base, *middle;

    (void)state;
    (void)save(dir, 0, 1, NULL);
    base = save(dir, 1, 1, NULL);
    middle = save(dir, 2, 1, base);
    (void)save(dir, 3, 1, middle);
    assert_int_equal(count_versions(dir), 3);
    assert_true(fl_folder_has(dir, base));
    (void)save(dir, 4, 1, NULL);
    assert_int_equal(count_versions(dir), 1);
}

static void a_copy_of_a_version_is_a_model(void **state)
{
    const char *dir = kit_path("model"), *copy = kit_path("copy");
    char *from = fl_folder_join(dir, save(dir, 7, 1, NULL));

    (void)state;
    assert_int_equal(rename(from, copy), 0);
    assert_true(number_of(copy) == 7);
    fl_free(from);
}

/* --- saves that do not end ------------------------------------------------ */

static void what_was_begun_and_dropped_leaves_nothing(void **state)
{
    const char *dir = kit_path("model");
    fl_model_version *v = NULL;

    (void)state;
    (void)save(dir, 1, 1, NULL);
    assert_ok(fl_version_begin(&v, dir, NULL));
    assert_ok(fl_version_folder(v, "tables/emb"));
    assert_int_equal(count_versions(dir), 2);
    fl_version_close(v);
    assert_int_equal(count_versions(dir), 1);
    assert_true(number_of(dir) == 1);
}

static void leftovers_are_removed_and_told(void **state)
{
    const char *dir = kit_path("model");

    (void)state;
    (void)save(dir, 1, 1, NULL);
    assert_int_equal(mkdir(kit_path("model/000009-abcdef"), 0777), 0);
    assert_int_equal(mkdir(kit_path("model/000009-abcdef/tables"), 0777), 0);
    kit_write(kit_path("model/000009-abcdef/tables/x"), "x", 1);
    kit_write(kit_path("model/CURRENT.tmp-12-3"), "x", 1);
    kit_write(kit_path("model/notes.txt"), "mine", 4);
    (void)save(dir, 2, 1, NULL);
    assert_logged("removing what a save that did not end left: ");
    assert_logged("000009-abcdef");
    assert_logged("CURRENT.tmp-12-3");
    assert_int_equal(count_versions(dir), 1);
    assert_false(fl_folder_has(dir, "CURRENT.tmp-12-3"));
    assert_true(fl_folder_has(dir, "notes.txt"));
    assert_true(number_of(dir) == 2);
}

static void two_saves_into_one_folder_are_told_apart(void **state)
{
    const char *dir = kit_path("model");
    fl_model_version *v = NULL, *other = NULL;

    (void)state;
    assert_ok(fl_version_begin(&v, dir, NULL));
    assert_refused(fl_version_begin(&other, dir, NULL), FL_ERR_BUSY,
                   "another save into");
    assert_int_equal(count_versions(dir), 1);
    fl_version_close(v);
    (void)save(dir, 1, 1, NULL);
}

static void others_join_and_write_into_the_same_version(void **state)
{
    const char *dir = kit_path("model");
    fl_model_version *v = NULL, *other = NULL;
    fl_manifest m, part;

    (void)state;
    fl_manifest_init(&m, FL_MANIFEST_FULL);
    fl_manifest_init(&part, FL_MANIFEST_PART);
    assert_ok(fl_version_begin(&v, dir, NULL));
    assert_ok(fl_version_join(&other, dir, v->id));
    assert_ok(fl_version_folder(other, "trainers"));
    assert_ok(fl_version_folder(v, "trainers"));
    assert_ok(fl_version_put(other, &part, "trainers/1.json", "{}", 2));
    fl_version_close(other);
    assert_ok(fl_manifest_merge(&m, &part));
    assert_ok(write_files(v, &m, 5));
    assert_ok(fl_version_commit(v, &m));
    fl_version_close(v);
    assert_true(number_of(dir) == 5);
    assert_refused(fl_version_join(&other, dir, "000009-000000"),
                   FL_ERR_NOTFOUND, "is not seen here");
    assert_refused(fl_version_join(&other, dir, "../x"), FL_ERR_INVAL,
                   "'../x' is not the name of a version");
    fl_manifest_release(&part);
    fl_manifest_release(&m);
}

static void a_place_that_is_none_is_refused(void **state)
{
    fl_model_version *v = NULL;
    char *version;

    (void)state;
    kit_write(kit_path("file"), "", 0);
    assert_refused(fl_version_begin(&v, kit_path("file"), NULL), FL_ERR_INVAL,
                   "is a file; name a folder");
    version =
        fl_folder_join(kit_path("model"), save(kit_path("model"), 1, 1, NULL));
    assert_refused(fl_version_begin(&v, version, NULL), FL_ERR_INVAL,
                   "is a version of a model");
    fl_free(version);
}

/* --- damage --------------------------------------------------------------- */

static void what_is_no_model_is_told(void **state)
{
    fl_model_version *v = NULL;

    (void)state;
    assert_refused(fl_version_open(&v, kit_path("none")), FL_ERR_NOTFOUND,
                   "cannot open the model");
    assert_refused(fl_version_open(&v, kit_dir), FL_ERR_NOTFOUND,
                   "is no model: it has neither CURRENT nor MANIFEST.json");
    kit_write(kit_path("CURRENT"), "../../etc\n", 10);
    assert_refused(fl_version_open(&v, kit_dir), FL_ERR_CORRUPT,
                   "does not have the name of a version");
    kit_write(kit_path("CURRENT"), "000001-000000\n", 14);
    assert_refused(fl_version_open(&v, kit_dir), FL_ERR_NOTFOUND,
                   "000001-000000/MANIFEST.json");
}

static void a_file_of_another_size_is_noticed_when_opening(void **state)
{
    const char *dir = kit_path("model");
    char *folder = fl_folder_join(dir, save(dir, 1, 1, NULL));
    char *file = fl_folder_join(folder, "program.txt");
    fl_model_version *v = NULL;

    (void)state;
    kit_write(file, "fetch", 5);
    assert_refused(fl_version_open(&v, dir), FL_ERR_CORRUPT,
                   "program.txt has 5 bytes instead of 8");
    assert_int_equal(unlink(file), 0);
    assert_refused(fl_version_open(&v, dir), FL_ERR_NOTFOUND, "program.txt");
    fl_free(file);
    fl_free(folder);
}

static void bytes_behind_a_manifest_are_noticed_when_opening(void **state)
{
    static const char *const more[] = { "x", "{}", "\n\n }" };
    const char *dir = kit_path("model");

    (void)state;
    for (size_t i = 0; i < FL_LEN(more); i++) {
        char *folder = fl_folder_join(dir, save(dir, 1, 1, NULL));
        char *file = fl_folder_join(folder, "MANIFEST.json");
        fl_model_version *v = NULL;
        FILE *f = fopen(file, "a");

        assert_non_null(f);
        assert_true(fputs(more[i], f) >= 0);
        assert_int_equal(fclose(f), 0);
        assert_refused(fl_version_open(&v, dir), FL_ERR_CORRUPT,
                       "MANIFEST.json: behind the JSON object are");
        fl_free(file);
        fl_free(folder);
    }
}

static void every_flipped_bit_is_noticed_when_verifying(void **state)
{
    static const char *const names[] = { "program.txt", "dense.safetensors" };
    const char *dir = kit_path("model");

    (void)state;
    for (size_t i = 0; i < FL_LEN(names); i++) {
        char *folder = fl_folder_join(dir, save(dir, 1, 1, NULL));
        char *file = fl_folder_join(folder, names[i]);
        fl_model_version *v = NULL;

        kit_flip(file, -1);
        assert_ok(fl_version_open(&v, dir));
        assert_refused(fl_version_verify(v), FL_ERR_CORRUPT, names[i]);
        fl_version_close(v);
        fl_free(file);
        fl_free(folder);
    }
}

static void a_foreign_file_in_its_place_is_noticed(void **state)
{
    const char *dir = kit_path("model");
    char *folder = fl_folder_join(dir, save(dir, 1, 1, NULL));
    char *file = fl_folder_join(folder, "dense.safetensors"), *bytes;
    fl_model_version *v = NULL;
    size_t len;

    (void)state;
    bytes = kit_read(file, &len);
    assert_int_equal(bytes[10], 'w'); /* the name of the tensor */
    bytes[10] = 'v';
    kit_write(file, bytes, len);
    assert_ok(fl_version_open(&v, dir));
    assert_refused(fl_version_verify(v), FL_ERR_CORRUPT, "has no tensor w");
    fl_version_close(v);
    fl_free(bytes);
    fl_free(file);
    fl_free(folder);
}

static void folders_of_tables_have_names_that_files_may_have(void **state)
{
    char *plain = fl_version_table_folder("emb_0.w_0");
    char *odd = fl_version_table_folder("../a/b%");

    (void)state;
    assert_string_equal(plain, "tables/emb_0.w_0");
    assert_string_equal(odd, "tables/%2E.%2Fa%2Fb%25");
    fl_free(odd);
    fl_free(plain);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        KIT_TEST(a_model_is_saved_and_opened),
        KIT_TEST(saving_again_adds_a_version_and_removes_the_old_one),
        KIT_TEST(keep_says_how_many_versions_stay),
        KIT_TEST(a_base_that_a_delta_needs_stays),
        KIT_TEST(a_copy_of_a_version_is_a_model),
        KIT_TEST(what_was_begun_and_dropped_leaves_nothing),
        KIT_TEST(leftovers_are_removed_and_told),
        KIT_TEST(two_saves_into_one_folder_are_told_apart),
        KIT_TEST(others_join_and_write_into_the_same_version),
        KIT_TEST(a_place_that_is_none_is_refused),
        KIT_TEST(what_is_no_model_is_told),
        KIT_TEST(a_file_of_another_size_is_noticed_when_opening),
        KIT_TEST(bytes_behind_a_manifest_are_noticed_when_opening),
        KIT_TEST(every_flipped_bit_is_noticed_when_verifying),
        KIT_TEST(a_foreign_file_in_its_place_is_noticed),
        KIT_TEST(folders_of_tables_have_names_that_files_may_have),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
