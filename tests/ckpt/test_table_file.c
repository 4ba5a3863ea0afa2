/* test_table_file.c - tables in the files of a version: written from a cut,
 * searched where they lie, loaded by any number of threads into any range of
 * shards, and never believed. */
#include "kit.h"

#include "base/hash.h"
#include "base/thread.h"
#include "ckpt/table_file.h"
#include "ckpt/table_map.h"
#include "table/inside.h"

#define DIM 3
#define N_KEYS 3000u
#define LAST (FL_TABLE_SHARDS - 1)

static const fl_table_load_options everything = { .last = LAST };
static const fl_table_load_options unverified = { .last = LAST,
                                                  .is_verified = true };

static fl_table *make(const char *settings)
{
    fl_table_config config;
    fl_table *t;

    assert_ok(fl_table_config_parse(&config, "emb/a", settings, 7));
    assert_ok(fl_table_create(&t, &config));
    return t;
}

static uint64_t key_of(size_t i)
{
    return fl_mix64(i + 1);
}

static void push_key(fl_table *t, uint64_t key, float x)
{
    float grads[DIM] = { x, -x, 1 }, show = 3, click = 1;

    assert_ok(fl_table_push(t, &(fl_rows){ .keys = &key,
                                           .values = grads,
                                           .shows = &show,
                                           .clicks = &click,
                                           .n = 1,
                                           .lr = 0.5,
                                           .merged = true }));
}

static void fill(fl_table *t)
{
    for (size_t i = 0; i < N_KEYS; i++) {
        push_key(t, key_of(i), (float)i);
        if (i % 3 == 0)
            push_key(t, key_of(i), 1);
        if (i % 1000 == 0)
            fl_table_end_day(t);
    }
}

/* --- saving --------------------------------------------------------------- */

typedef struct saving {
    fl_cut_options cut;
    int n_threads;
    bool values_only;
} saving;

/* Into the folder of the test; a delta is based on what was saved last. */
static uint32_t save(fl_table *t, const char *dir, const saving *s)
{
    static char last[FL_VERSION_ID_MAX];
    fl_model_version *v = NULL;
    fl_table_cut *c;
    fl_manifest m;
    fl_pace pace;
    uint32_t epoch;

    fl_pace_init(&pace, &(fl_pace_limits){ 0 });
    fl_manifest_init(&m, s->cut.since ? FL_MANIFEST_DELTA : FL_MANIFEST_FULL);
    assert_ok(fl_table_cut_begin(&c, t, &s->cut));
    epoch = fl_table_cut_moment(c)->epoch;
    m.base = s->cut.since ? fl_manifest_text(&m, last) : NULL;
    assert_ok(fl_version_begin(&v, dir, &(fl_version_options){ 0 }));
    assert_ok(fl_table_file_write(
        v, &m,
        &(fl_table_save_options){ .cut = c,
                                  .last = LAST,
                                  .n_threads = s->n_threads,
                                  .values_only = s->values_only,
                                  .pace = &pace }));
    assert_ok(fl_version_commit(v, &m));
    snprintf(last, sizeof(last), "%s", v->id);
    fl_table_cut_end(c);
    fl_version_close(v);
    fl_manifest_release(&m);
    fl_pace_release(&pace);
    return epoch;
}

static fl_model_version *open_model(const char *dir)
{
    fl_model_version *v = NULL;

    assert_ok(fl_version_open(&v, dir));
    assert_ok(fl_version_verify(v));
    return v;
}

static fl_table *load_new(const char *settings, const char *dir,
                          const fl_table_load_options *wanted)
{
    fl_table *t = make(settings);
    fl_model_version *v = open_model(dir);

    assert_ok(fl_table_file_load(t, v, "emb/a", wanted));
    fl_version_close(v);
    return t;
}

static int by_text(const void *a, const void *b)
{
    return strcmp(*(const char *const *)a, *(const char *const *)b);
}

/* What a table holds, as lines in the order of their text: that of a dump
   depends on how the table came about. */
static char *text_of(fl_table *t)
{
    const char *path = kit_path("dump.txt");
    char *text, *at;
    FL_VEC(char *) lines = { 0 };
    fl_str sorted = { 0 };

    assert_ok(fl_table_dump(t, path));
    at = text = kit_read(path, NULL);
    for (char *end; (end = strchr(at, '\n')); at = end + 1) {
        *end = '\0';
        fl_vec_push(&lines, at);
    }
    if (lines.len)
        qsort(lines.data, lines.len, sizeof(char *), by_text);
    for (size_t i = 0; i < lines.len; i++)
        fl_str_addf(&sorted, "%s\n", lines.data[i]);
    fl_vec_release(&lines);
    fl_free(text);
    return sorted.len ? fl_str_take(&sorted) : fl_strdup("");
}

static void assert_equal_tables(fl_table *a, fl_table *b)
{
    char *x = text_of(a), *y = text_of(b);
    fl_table_stats s = FL_INIT(fl_table_stats), r = FL_INIT(fl_table_stats);

    assert_string_equal(x, y);
    fl_table_count(a, &s);
    fl_table_count(b, &r);
    assert_int_equal(s.candidates, r.candidates);
    fl_free(x);
    fl_free(y);
}

static const char *const kinds[] = {
    "dim=3 optimizer=adam partitions=2",
    "dim=3 accessor=ctr optimizer=adagrad partitions=4 embedx_threshold=3",
    "dim=3 partitions=1 entry=count_filter_entry:2",
};

static void a_table_comes_back_bit_by_bit_with_any_threads(void **state)
{
    (void)state;
    for (size_t k = 0; k < FL_LEN(kinds); k++)
        for (int threads = 1; threads <= 3; threads++) {
            fl_table *t = make(kinds[k]), *back;

            fill(t);
            save(t, kit_path("model"), &(saving){ .n_threads = threads });
            assert_logged("wrote table=emb/a shards=0-1023 copied_rows=0");
            back = load_new(kinds[k], kit_path("model"),
                            &(fl_table_load_options){
                                .last = LAST, .n_threads = 4 - threads });
            assert_equal_tables(t, back);
            assert_int_equal(fl_table_epoch(back), fl_table_epoch(t));
            /* Both go on alike: scalars, days and candidates are the same. */
            fill(t);
            fill(back);
            assert_equal_tables(t, back);
            fl_table_destroy(t);
            fl_table_destroy(back);
        }
}

/* Saved by two servers, loaded by three. */
static void any_range_of_shards_loads_alone(void **state)
{
    static const uint32_t cuts[] = { 0, 341, 682, 1024 };
    fl_table *t = make(kinds[1]), *sum = make(kinds[1]);
    fl_model_version *v;
    uint64_t rows = 0;

    (void)state;
    fill(t);
    save(t, kit_path("model"), &(saving){ .n_threads = 2 });
    v = open_model(kit_path("model"));
    for (int i = 0; i < 3; i++) {
        fl_table_load_options wanted = { .first = cuts[i],
                                         .last = cuts[i + 1] - 1 };
        fl_table_stats s = FL_INIT(fl_table_stats);
        fl_table *part = make(kinds[1]);

        assert_ok(fl_table_file_load(part, v, "emb/a", &wanted));
        fl_table_count(part, &s);
        rows += s.rows;
        fl_table_destroy(part);
        assert_ok(fl_table_file_load(sum, v, "emb/a", &wanted));
    }
    assert_int_equal(rows, N_KEYS);
    assert_equal_tables(t, sum);
    fl_version_close(v);
    fl_table_destroy(t);
    fl_table_destroy(sum);
}

static void a_base_and_its_deltas_load_as_the_whole(void **state)
{
    (void)state;
    for (size_t k = 0; k < FL_LEN(kinds); k++) {
        fl_table *t = make(kinds[k]), *back;
        uint32_t epoch;

        fill(t);
        epoch = save(t, kit_path("model"), &(saving){ .cut.watch = true });
        back = load_new(kinds[k], kit_path("model"), &everything);
        for (int round = 0; round < 3; round++) {
            fl_model_version *v;

            for (size_t i = 0; i < 40; i++)
                push_key(t, key_of(i * 7 + (size_t)round * 1000), 2);
            fl_table_remove(t, (uint64_t[]){ key_of(7), key_of(900) }, 2, NULL);
            push_key(t, key_of(7), 1);
            epoch = save(t, kit_path("model"),
                         &(saving){ .cut.since = epoch, .n_threads = 2 });
            v = open_model(kit_path("model"));
            assert_true(v->manifest.tables.data[0].rows <= 41);
            assert_ok(fl_table_file_load(back, v, "emb/a", &everything));
            fl_version_close(v);
            assert_equal_tables(t, back);
        }
        fl_table_destroy(t);
        fl_table_destroy(back);
    }
}

/* --- looking into it ------------------------------------------------------ */

/* Values of n keys; returns how many had no row. */
static size_t pull_mapped(const fl_table_map *m, const uint64_t *keys, size_t n,
                          float *out)
{
    size_t n_missing = 0;
    const float *at;

    for (size_t i = 0; i < n; i++) {
        n_missing += fl_table_map_look(m, &keys[i], 1, out + i * DIM, &at);
        if (at != out + i * DIM)
            memcpy(out + i * DIM, at, DIM * sizeof(*out));
    }
    return n_missing;
}

static void a_mapped_table_gives_the_values_of_the_live_one(void **state)
{
    (void)state;
    for (size_t k = 0; k < FL_LEN(kinds); k++) {
        static uint64_t keys[2 * N_KEYS];
        static float live[2 * N_KEYS * DIM], mapped[2 * N_KEYS * DIM];
        fl_table *t = make(kinds[k]);
        fl_table_stats s = FL_INIT(fl_table_stats);
        fl_model_version *v;
        fl_table_map *m;

        fill(t);
        save(t, kit_path("model"),
             &(saving){ .n_threads = 3, .values_only = k % 2 });
        v = open_model(kit_path("model"));
        assert_ok(fl_table_map_open(&m, v, "emb/a"));
        fl_version_close(v);
        for (size_t i = 0; i < FL_LEN(keys); i++)
            keys[i] = key_of(i);
        assert_ok(fl_table_pull(t, keys, FL_LEN(keys), FL_PULL_ONLY, live));
        fl_table_count(t, &s);
        assert_int_equal(fl_table_map_rows(m), s.rows);
        assert_int_equal(pull_mapped(m, keys, FL_LEN(keys), mapped),
                         FL_LEN(keys) - s.rows);
        assert_memory_equal(live, mapped, sizeof(live));
        fl_table_map_close(m);
        fl_table_destroy(t);
    }
}

typedef struct walk {
    const fl_table_map *m;
    uint64_t n, n_gone;
} walk;

static void visit(void *arg, uint64_t key, uint64_t row)
{
    walk *w = arg;
    uint64_t found;

    fl_table_map_find(w->m, &key, 1, &found);
    w->n++;
    w->n_gone += row == FL_MAP_GONE;
    assert_true(found == row);
}

static void a_mapped_delta_knows_what_went(void **state)
{
    fl_table *t = make(kinds[1]);
    const uint64_t gone[] = { key_of(1), key_of(2) };
    uint64_t rows[3], keys[3] = { key_of(1), key_of(5), key_of(9) };
    fl_model_version *v;
    fl_table_map *m;
    walk w = { 0 };
    uint32_t epoch;

    (void)state;
    fill(t);
    epoch = save(t, kit_path("model"), &(saving){ .cut.watch = true });
    fl_table_remove(t, gone, 2, NULL);
    push_key(t, keys[1], 1);
    save(t, kit_path("model"), &(saving){ .cut.since = epoch });
    v = open_model(kit_path("model"));
    assert_ok(fl_table_map_open(&m, v, "emb/a"));
    fl_version_close(v);
    fl_table_map_find(m, keys, 3, rows);
    assert_true(rows[0] == FL_MAP_GONE);
    assert_true(rows[1] < FL_MAP_GONE);
    assert_true(rows[2] == FL_MAP_NONE);
    w.m = m;
    for (uint32_t s = 0; s < FL_TABLE_SHARDS; s++)
        fl_table_map_each(m, s, visit, &w);
    assert_int_equal(w.n, 3);
    assert_int_equal(w.n_gone, 2);
    fl_table_map_close(m);
    fl_table_destroy(t);
}

static void a_table_without_rows_is_a_table(void **state)
{
    fl_table *t = make(kinds[0]), *back;
    fl_model_version *v;
    fl_table_map *m;
    uint64_t key = 3;
    float value[DIM], live[DIM];

    (void)state;
    save(t, kit_path("model"), &(saving){ .n_threads = 2 });
    back = load_new(kinds[0], kit_path("model"), &everything);
    assert_equal_tables(t, back);
    v = open_model(kit_path("model"));
    assert_ok(fl_table_map_open(&m, v, "emb/a"));
    assert_int_equal(pull_mapped(m, &key, 1, value), 1);
    assert_ok(fl_table_pull(t, &key, 1, FL_PULL_ONLY, live));
    assert_memory_equal(value, live, sizeof(value));
    fl_table_map_close(m);
    fl_version_close(v);
    fl_table_destroy(t);
    fl_table_destroy(back);
}

/* --- other tables --------------------------------------------------------- */

static void expect_misfit(const char *settings, const char *why)
{
    fl_table *t = make(settings);
    fl_model_version *v = open_model(kit_path("model"));
    fl_table_stats s = FL_INIT(fl_table_stats);

    assert_refused(fl_table_file_load(t, v, "emb/a", &everything), FL_ERR_INVAL,
                   why);
    assert_refused(fl_table_file_check(t, v, "emb/a", &everything),
                   FL_ERR_INVAL, why);
    fl_table_count(t, &s);
    assert_int_equal(s.rows, 0);
    fl_version_close(v);
    fl_table_destroy(t);
}

static void a_table_that_does_not_fit_is_told_and_stays_empty(void **state)
{
    fl_table *t = make(kinds[0]);
    fl_model_version *v;

    (void)state;
    fill(t);
    save(t, kit_path("model"), &(saving){ 0 });
    expect_misfit("dim=4 optimizer=adam", "has 4 numbers in value, ");
    expect_misfit("dim=3 optimizer=sgd", "is updated by sgd, that of ");
    expect_misfit("dim=3 optimizer=adam accessor=ctr", "has accessor ctr, ");
    v = open_model(kit_path("model"));
    assert_refused(fl_table_file_load(t, v, "emb/b", &everything),
                   FL_ERR_NOTFOUND, "its tables are: emb/a");
    fl_version_close(v);
    fl_table_destroy(t);
}

/* As other functions do: adam's moments are no use to adagrad. */
static void another_dim_and_optimizer_are_taken_when_asked_for(void **state)
{
    fl_table *t = make(kinds[0]), *back;
    uint64_t key = key_of(4);
    float live[DIM], value[5];

    (void)state;
    fill(t);
    save(t, kit_path("model"), &(saving){ 0 });
    back = load_new("dim=5 optimizer=adagrad init=constant(0.125)",
                    kit_path("model"),
                    &(fl_table_load_options){
                        .last = LAST, .other_dim = true, .other_state = true });
    assert_ok(fl_table_pull(t, &key, 1, FL_PULL_ONLY, live));
    assert_ok(fl_table_pull(back, &key, 1, FL_PULL_ONLY, value));
    assert_memory_equal(live, value, sizeof(live));
    assert_true(value[3] == 0.125f && value[4] == 0.125f);
    fl_table_destroy(t);
    fl_table_destroy(back);
}

/* --- bytes that lie ------------------------------------------------------- */

static char *table_file(void)
{
    fl_model_version *v = open_model(kit_path("model"));
    char *path = fl_version_file(v, v->manifest.tables.data[0].files[0].file);

    fl_version_close(v);
    return path;
}

/* Whatever the bytes of a file are, opening, searching and loading it end
   with an answer or a sentence. */
static void open_anyway(void)
{
    fl_table *to = make(kinds[1]);
    fl_model_version *v = NULL;
    fl_table_map *m = NULL;
    float value[DIM];

    if (!fl_version_open(&v, kit_path("model"))) {
        for (size_t i = 0; i < 300 && (m || !fl_table_map_open(&m, v, "emb/a"));
             i++)
            (void)pull_mapped(m, (uint64_t[]){ key_of(i) }, 1, value);
        if (fl_table_file_load(to, v, "emb/a", &unverified))
            assert_true(strlen(fl_last_error()) > 0);
    }
    fl_table_map_close(m);
    fl_version_close(v);
    fl_table_destroy(to);
}

/* Every other time within the header and what follows it at once. */
static void damaged_files_do_no_harm(void **state)
{
    fl_table *t = make(kinds[1]);
    char *path, *bytes;
    uint64_t seed = 3;
    size_t n;

    (void)state;
    for (size_t i = 0; i < 200; i++)
        push_key(t, key_of(i), (float)i);
    save(t, kit_path("model"), &(saving){ 0 });
    path = table_file();
    bytes = kit_read(path, &n);
    for (int round = 0; round < 300; round++) {
        char *bad = malloc(n);

        memcpy(bad, bytes, n);
        for (int i = 0; i < 4; i++) {
            seed = fl_mix64(seed + 1);
            bad[seed % (round % 2 ? n : 3000)] ^= (char)(seed >> 40 | 1);
        }
        kit_write(path, bad, n);
        open_anyway();
        free(bad);
    }
    fl_free(path);
    fl_free(bytes);
    fl_table_destroy(t);
}

/* The keys of a file stand in the wrong order: a byte of one was changed. */
static void a_key_in_the_wrong_shard_is_named(void **state)
{
    fl_table *t = make(kinds[0]), *to = make(kinds[0]);
    fl_model_version *v = NULL;
    char *path;

    (void)state;
    fill(t);
    save(t, kit_path("model"), &(saving){ 0 });
    path = table_file();
    /* u64 come first: shards, then keys. */
    kit_flip(path, -(long)(N_KEYS * (4 + 3 * DIM * 4) + 8));
    assert_ok(fl_version_open(&v, kit_path("model")));
    assert_refused(fl_table_file_load(to, v, "emb/a", &everything),
                   FL_ERR_CORRUPT, "key");
    assert_refused(fl_table_file_load(to, v, "emb/a", &unverified),
                   FL_ERR_CORRUPT, "is no key of shard 1023");
    fl_version_close(v);
    fl_free(path);
    fl_table_destroy(t);
    fl_table_destroy(to);
}

static void a_save_that_cannot_be_written_leaves_no_file(void **state)
{
    fl_table *t = make(kinds[0]);
    fl_model_version *v = NULL;
    fl_manifest m;
    fl_table_cut *c;
    char *folder;

    (void)state;
    fill(t);
    fl_manifest_init(&m, FL_MANIFEST_FULL);
    assert_ok(
        fl_version_begin(&v, kit_path("model"), &(fl_version_options){ 0 }));
    folder = fl_version_file(v, "tables");
    kit_write(folder, "a file", 6);
    assert_ok(fl_table_cut_begin(&c, t, NULL));
    assert_true(fl_table_file_write(v, &m,
                                    &(fl_table_save_options){
                                        .cut = c, .last = LAST }) != FL_OK);
    assert_said("saving table emb/a");
    assert_int_equal(m.files.len, 0);
    fl_table_cut_end(c);
    fl_version_close(v);
    fl_manifest_release(&m);
    fl_free(folder);
    fl_table_destroy(t);
}

/* --- pace ----------------------------------------------------------------- */

/* Columns of rows; where shards begin is no matter of the pace. */
static uint64_t column_bytes(const fl_manifest *m)
{
    uint64_t bytes = 0;

    for (size_t i = 0; i < m->files.len; i++)
        for (size_t k = 0; k < m->files.data[i].n_tensors; k++) {
            const fl_st_tensor *t = &m->files.data[i].tensors[k];
            uint64_t n;

            assert_ok(fl_st_tensor_bytes(t, &n));
            bytes += strstr(t->name, "shards") ? 0 : n;
        }
    return bytes;
}

/* Saves a table by a pace that nobody waits for: it is known until when they
   would. Gives the bytes of its rows. */
static uint64_t save_by_pace(fl_pace *p)
{
    fl_table *t = make("dim=3 optimizer=adam");
    fl_model_version *v = NULL;
    fl_table_cut *c;
    fl_manifest m;
    uint64_t bytes;

    fill(t);
    fl_pace_stop(p);
    fl_manifest_init(&m, FL_MANIFEST_FULL);
    assert_ok(fl_table_cut_begin(&c, t, NULL));
    assert_ok(fl_version_begin(&v, kit_dir, NULL));
    assert_ok(fl_table_file_write(
        v, &m,
        &(fl_table_save_options){
            .cut = c, .last = LAST, .n_threads = 2, .pace = p }));
    bytes = column_bytes(&m);
    fl_table_cut_end(c);
    fl_version_close(v);
    fl_manifest_release(&m);
    fl_table_destroy(t);
    return bytes;
}

/* A byte a second. */
static void every_byte_of_a_save_goes_by_the_pace(void **state)
{
    uint64_t before = fl_now_ns(), ns;
    fl_pace p;

    (void)state;
    fl_pace_init(&p, &(fl_pace_limits){ .bytes_per_s = 1 });
    ns = save_by_pace(&p) * UINT64_C(1000000000);
    assert_true(ns > 0);
    assert_true(p.bytes_due_ns - before >= ns);
    assert_true(p.bytes_due_ns - fl_now_ns() <= ns);
    fl_pace_release(&p);
}

static uint64_t always_more(void *n)
{
    return ++*(uint64_t *)n;
}

/* A microsecond of CPU time takes a day of it. */
static void the_cpu_time_of_a_save_goes_by_the_pace(void **state)
{
    const uint64_t day = UINT64_C(86400000000000);
    uint64_t work = 0, before = fl_now_ns();
    fl_pace p;

    (void)state;
    fl_pace_init(&p, &(fl_pace_limits){ .cores = 1e3 / (double)day,
                                        .work = always_more,
                                        .arg = &work });
    assert_true(save_by_pace(&p) > 0);
    assert_true(p.cores_due_ns > before + day);
    fl_pace_release(&p);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        KIT_TEST(a_table_comes_back_bit_by_bit_with_any_threads),
        KIT_TEST(any_range_of_shards_loads_alone),
        KIT_TEST(a_base_and_its_deltas_load_as_the_whole),
        KIT_TEST(a_mapped_table_gives_the_values_of_the_live_one),
        KIT_TEST(a_mapped_delta_knows_what_went),
        KIT_TEST(a_table_without_rows_is_a_table),
        KIT_TEST(a_table_that_does_not_fit_is_told_and_stays_empty),
        KIT_TEST(another_dim_and_optimizer_are_taken_when_asked_for),
        KIT_TEST(damaged_files_do_no_harm),
        KIT_TEST(a_key_in_the_wrong_shard_is_named),
        KIT_TEST(a_save_that_cannot_be_written_leaves_no_file),
        KIT_TEST(every_byte_of_a_save_goes_by_the_pace),
        KIT_TEST(the_cpu_time_of_a_save_goes_by_the_pace),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
