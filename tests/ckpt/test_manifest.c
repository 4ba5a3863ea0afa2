/* test_manifest.c - manifests: printed and read, merged, damaged. */
#include "kit.h"

#include "ckpt/manifest.h"

static void fill(fl_manifest *m)
{
    static const fl_manifest_field fields[] = { { "value", 8 },
                                                { "moment1", 8 } };
    static const fl_manifest_shards files[] = {
        { "tables/emb/0000-0511.safetensors", 0, 511 },
        { "tables/emb/0512-1023.safetensors", 512, 1023 },
    };
    static const uint32_t days[] = { 3, 9 };
    static const double scalars[] = { 0.9, 0.1 + 0.2 };
    const fl_st_tensor tensors[] = {
        { .name = "w", .shape = fl_shape_of(2, (int64_t[]){ 3, 4 }) },
        { .name = "step", .type = FL_ST_I64, .shape = { .rank = 0 } },
    };

    m->id = "000812-3f9c01";
    m->mode = "sync";
    m->step = 12345;
    m->seed = UINT64_MAX;
    m->time = 1700000000;
    m->main_version = 7;
    m->startup_version = 3;
    fl_manifest_add_file(m, "program.txt", 12, 0xfeedfacecafebeef);
    fl_manifest_add_tensors(m,
                            &(fl_manifest_file){ .name = "dense.safetensors",
                                                 .bytes = 300,
                                                 .tensors = tensors,
                                                 .n_tensors = 2 },
                            (uint64_t[]){ 1, UINT64_MAX });
    fl_manifest_add_tensors(
        m, &(fl_manifest_file){ .name = files[0].file, .bytes = 64 }, NULL);
    fl_manifest_add_tensors(
        m, &(fl_manifest_file){ .name = files[1].file, .bytes = 64 }, NULL);
    fl_manifest_add_table(m, &(fl_manifest_table){
                                 .name = "emb",
                                 .settings = "dim=8, optimizer=adam",
                                 .accessor = "plain",
                                 .seed = 1ull << 63,
                                 .fields = fields,
                                 .n_fields = 2,
                                 .rows = 10,
                                 .short_rows = 1,
                                 .candidates = 2,
                                 .epoch = 4,
                                 .days = days,
                                 .n_days = 2,
                                 .scalars = scalars,
                                 .n_scalars = 2,
                                 .files = files,
                                 .n_files = 2,
                             });
}

static char *printed(fl_manifest_kind kind)
{
    static const char *const names[] = { "x", "y" };
    fl_manifest m;
    char *text;

    fl_manifest_init(&m, kind);
    fill(&m);
    m.base = "000811-000000";
    if (kind == FL_MANIFEST_INFERENCE) {
        fl_manifest_set_inference(&m, names, 2, names + 1, 1);
        m.passes = "opt_dce";
    }
    text = fl_manifest_print(&m);
    fl_manifest_release(&m);
    return text;
}

static void what_is_printed_is_read_and_printed_the_same(void **state)
{
    (void)state;
    for (int k = FL_MANIFEST_FULL; k <= FL_MANIFEST_PART; k++) {
        char *text = printed((fl_manifest_kind)k), *again;
        fl_manifest m;

        assert_ok(fl_manifest_parse(&m, text, strlen(text), "M"));
        assert_int_equal(m.kind, k);
        again = fl_manifest_print(&m);
        assert_string_equal(text, again);
        fl_manifest_release(&m);
        fl_free(again);
        fl_free(text);
    }
}

static void everything_comes_back(void **state)
{
    char *text = printed(FL_MANIFEST_FULL);
    const fl_manifest_table *t;
    const fl_manifest_file *f;
    fl_manifest m;

    (void)state;
    assert_ok(fl_manifest_parse(&m, text, strlen(text), "M"));
    assert_string_equal(m.id, "000812-3f9c01");
    assert_true(m.seed == UINT64_MAX);
    assert_int_equal(m.step, 12345);
    f = fl_manifest_find_file(&m, "dense.safetensors");
    assert_int_equal(f->n_tensors, 2);
    assert_string_equal(f->tensors[0].name, "w");
    assert_int_equal(f->tensors[0].shape.dim[1], 4);
    assert_true(f->tensors[1].xxh3 == UINT64_MAX);
    t = fl_manifest_find_table(&m, "emb");
    assert_true(t->seed == 1ull << 63);
    assert_int_equal(t->epoch, 4);
    assert_int_equal(t->days[1], 9);
    assert_true(t->scalars[1] == 0.1 + 0.2);
    assert_string_equal(t->fields[1].name, "moment1");
    assert_int_equal(t->files[1].first, 512);
    assert_null(fl_manifest_find_table(&m, "emb2"));
    fl_manifest_release(&m);
    fl_free(text);
}

/* Replaces the first `what` of a good manifest and reads that. */
static fl_status parse_with(const char *what, const char *by)
{
    char *text = printed(FL_MANIFEST_FULL);
    char *at = strstr(text, what);
    fl_str s = { 0 };
    fl_manifest m;
    fl_status st;

    assert_non_null(at);
    fl_str_addf(&s, "%.*s%s%s", (int)(at - text), text, by, at + strlen(what));
    st = fl_manifest_parse(&m, s.data, s.len, "M");
    if (!st)
        fl_manifest_release(&m);
    fl_str_release(&s);
    fl_free(text);
    return st;
}

static void a_later_version_may_say_more(void **state)
{
    (void)state;
    assert_ok(parse_with("\"kind\"", "\"author\":{\"x\":[1]},\"kind\""));
    assert_ok(parse_with("\"settings\"", "\"colour\":7,\"settings\""));
}

static void every_missing_field_is_named(void **state)
{
    static const char *const fields[] = {
        "format",  "kind",     "id",         "writer",     "time",
        "step",    "mode",     "seed",       "main",       "files",
        "tables",  "bytes",    "xxh3",       "shape",      "type",
        "name",    "settings", "accessor",   "fields",     "len",
        "rows",    "days",     "short_rows", "candidates", "epoch",
        "scalars", "first",    "last",       "startup",    "program_versions",
    };

    (void)state;
    for (size_t i = 0; i < FL_LEN(fields); i++) {
        char what[64], said[64];

        snprintf(what, sizeof(what), "\"%s\":", fields[i]);
        snprintf(said, sizeof(said), "no field \"%s\"", fields[i]);
        assert_refused(parse_with(what, "\"other\":"), FL_ERR_CORRUPT, said);
    }
}

static const struct {
    const char *what, *by;
    fl_status status;
    const char *said;
} bad[] = {
    { "\"format\":1", "\"format\":2", FL_ERR_UNSUPPORTED,
      "M is of format 2, this version reads format 1" },
    { "\"kind\":\"full\"", "\"kind\":\"half\"", FL_ERR_UNSUPPORTED,
      "unknown kind 'half'" },
    { "program.txt", "../program.txt", FL_ERR_CORRUPT, "outside" },
    { "program.txt", "/etc/passwd", FL_ERR_CORRUPT, "outside" },
    { "program.txt", "a/./b", FL_ERR_CORRUPT, "outside" },
    { "program.txt", "a//b", FL_ERR_CORRUPT, "outside" },
    { "program.txt", "a/..", FL_ERR_CORRUPT, "outside" },
    { "program.txt", "", FL_ERR_CORRUPT, "outside" },
    { "program.txt", "dense.safetensors", FL_ERR_CORRUPT,
      "the file dense.safetensors twice" },
    { "\"type\":\"I64\"", "\"type\":\"I65\"", FL_ERR_UNSUPPORTED,
      "the unknown type I65" },
    { "[3,4]", "[3,-4]", FL_ERR_CORRUPT, "\"shape\" is no number" },
    { "[3,4]", "[1,1,1,1,1,1,1,1,1,1]", FL_ERR_CORRUPT, "9 dimensions" },
    { "\"last\":511", "\"last\":5110", FL_ERR_CORRUPT, "shards 0 to 5110" },
    { "\"last\":511", "\"last\":510", FL_ERR_CORRUPT,
      "goes on with shard 512 behind shard 511" },
    { "\"last\":1023", "\"last\":1000", FL_ERR_CORRUPT, "1001 of 1024" },
    { "\"epoch\":4", "\"epoch\":5000000000", FL_ERR_CORRUPT, "too large" },
    { "0.9", "\"x\"", FL_ERR_CORRUPT, "is no number" },
    { "{\"format\"", "{}{\"format\"", FL_ERR_CORRUPT,
      "behind the JSON object are" },
};

static void what_cannot_be_is_refused_by_name(void **state)
{
    (void)state;
    for (size_t i = 0; i < FL_LEN(bad); i++)
        assert_refused(parse_with(bad[i].what, bad[i].by), bad[i].status,
                       bad[i].said);
}

/* --- parts ---------------------------------------------------------------- */

static void add_part(fl_manifest *m, uint32_t first, uint32_t epoch)
{
    static const fl_manifest_field field = { "value", 4 };
    char file[64];

    snprintf(file, sizeof(file), "tables/emb/%04u", first);
    fl_manifest_add_file(m, file, 1, first);
    fl_manifest_add_table(
        m, &(fl_manifest_table){
               .name = "emb",
               .settings = "dim=4",
               .accessor = "plain",
               .fields = &field,
               .n_fields = 1,
               .rows = first + 1,
               .epoch = epoch,
               .files = &(fl_manifest_shards){ file, first, first + 511 },
               .n_files = 1 });
}

static fl_status merge_parts(uint32_t first, uint32_t epoch, fl_manifest *whole)
{
    fl_manifest part;
    fl_status st;

    fl_manifest_init(&part, FL_MANIFEST_PART);
    add_part(&part, first, epoch);
    st = fl_manifest_merge(whole, &part);
    fl_manifest_release(&part);
    return st;
}

static void parts_of_a_table_become_one(void **state)
{
    const fl_manifest_table *t;
    fl_manifest m;

    (void)state;
    fl_manifest_init(&m, FL_MANIFEST_FULL);
    assert_ok(merge_parts(512, 1, &m));
    assert_ok(merge_parts(0, 1, &m));
    t = fl_manifest_find_table(&m, "emb");
    assert_int_equal(t->rows, 514);
    assert_int_equal(t->n_files, 2);
    assert_int_equal(t->files[0].first, 0);
    assert_int_equal(t->files[1].first, 512);
    assert_int_equal(m.files.len, 2);
    assert_refused(merge_parts(0, 1, &m), FL_ERR_EXISTS,
                   "two parts have a file called tables/emb/0000");
    fl_manifest_release(&m);
}

static void parts_of_different_moments_are_refused(void **state)
{
    fl_manifest m;

    (void)state;
    fl_manifest_init(&m, FL_MANIFEST_FULL);
    assert_ok(merge_parts(0, 1, &m));
    assert_refused(merge_parts(512, 2, &m), FL_ERR_INVAL,
                   "two parts of table emb have different epoch");
    fl_manifest_release(&m);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        KIT_TEST(what_is_printed_is_read_and_printed_the_same),
        KIT_TEST(everything_comes_back),
        KIT_TEST(a_later_version_may_say_more),
        KIT_TEST(every_missing_field_is_named),
        KIT_TEST(what_cannot_be_is_refused_by_name),
        KIT_TEST(parts_of_a_table_become_one),
        KIT_TEST(parts_of_different_moments_are_refused),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
