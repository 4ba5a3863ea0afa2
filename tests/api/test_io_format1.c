/* test_io_format1.c - models of format 1 load for ever.
 *
 * tests/api/format1 has a few, as they were saved once, each with the rows of
 * its table as text beside it. They are never made anew; a model for what the
 * format learns to say is added with
 *
 *     test_api_io_format1 --make NAME DIR
 */
#include "io_kit.h"
#include "../make.h"

#include <dirent.h>

#include "ckpt/version.h"
#include "exec/executor.h"

#define DIM 3
#define DAYS 3

typedef struct sample {
    const char *name;
    const char *settings; /* of its table; NULL: it has none */
    const char *lines;    /* of its program */
} sample;

static const sample samples[] = {
    { "adam", "dim=3 optimizer=adam", "" },
    { "ctr", "dim=3 optimizer=adagrad accessor=ctr embedx_threshold=3", "" },
    { "entry", "dim=3 optimizer=ftrl entry=count_filter_entry:3", "" },
    { "dense", NULL,
      "param deep : f64[2,1,2] init=constant(0.5) trainable\n"
      "var counts : i64[4] persist\n"
      "var flag : bool[1] persist\n" },
};

static char scratch[] = "/tmp/fl_test_format1_XXXXXX";

/* --- making --------------------------------------------------------------- */

static fl_executor *build(const sample *s)
{
    fl_ctx *c = make_ctx();
    fl_executor *e = make_executor(c);
    char line[256];

    must(fl_program_add(fl_default_main_program(c),
                        "param w : f32[2,3] init=uniform(-1,1) trainable\n"));
    must(fl_program_add(fl_default_main_program(c), s->lines));
    if (!s->settings)
        return e;
    must(fl_program_add(fl_default_main_program(c),
                        "param emb : f32[-1,3] table trainable\n"));
    snprintf(line, sizeof(line),
             "op init_table () -> () {table=emb, settings=\"%s\"}\n",
             s->settings);
    must(fl_program_add(fl_default_startup_program(c), line));
    return e;
}

static void push(fl_table *t, uint64_t key, uint64_t i, uint64_t day)
{
    float g[DIM] = { (float)i / 8, -(float)day, 0.25f };
    float show = 2, click = (float)(i % 2);

    must(fl_table_push(t, &(fl_rows){ .keys = &key,
                                      .values = g,
                                      .shows = &show,
                                      .clicks = &click,
                                      .n = 1,
                                      .lr = 0.1,
                                      .merged = true }));
}

/* Eleven keys over days, and one that is seen once. */
static void fill_table(fl_ctx *c)
{
    fl_table *t;

    must(fl_ctx_table(c, "emb", &t));
    for (uint64_t day = 0; day < DAYS; day++) {
        for (uint64_t i = 0; i < 20; i++)
            push(t, i * i * i % 11 * 1000003, i, day);
        fl_table_end_day(t);
        (void)fl_table_advance_epoch(t);
    }
    push(t, UINT64_MAX, 0, DAYS);
}

static void fill_dense(fl_ctx *c)
{
    static const int64_t counts[] = { 1, -2, INT64_MAX, INT64_MIN };
    static const bool flag = true;
    fl_tensor t = fl_tensor_of(FL_DTYPE_I64, counts, 1, (int64_t[]){ 4 });

    must(fl_scope_set(fl_current_scope(c), "counts", &t));
    t = fl_tensor_of(FL_DTYPE_BOOL, &flag, 1, (int64_t[]){ 1 });
    must(fl_scope_set(fl_current_scope(c), "flag", &t));
}

static int make(const char *name, const char *dir)
{
    for (size_t i = 0; i < FL_LEN(samples); i++) {
        const sample *s = &samples[i];
        fl_executor *e;
        fl_table *t;
        char path[PATH_MAX], *rows;

        if (strcmp(s->name, name) != 0)
            continue;
        e = build(s);
        must(fl_run(e, fl_default_startup_program(e->ctx), NULL));
        (s->settings ? fill_table : fill_dense)(e->ctx);
        fl_scope_set_step(fl_current_scope(e->ctx), 1234);
        snprintf(path, sizeof(path), "%s/%s", dir, name);
        must(fl_save_persistables(e, path, NULL));
        snprintf(path, sizeof(path), "%s/%s.rows", dir, name);
        if (!s->settings)
            return 0;
        must(fl_ctx_table(e->ctx, "emb", &t));
        rows = io_rows(t, dir);
        must(fl_file_write(path, rows, strlen(rows)));
        return 0;
    }
    fprintf(stderr, "there is no sample %s\n", name);
    return 1;
}

/* --- loading -------------------------------------------------------------- */

static fl_program *read_program(fl_ctx *c, const fl_model_version *v,
                                const char *file)
{
    fl_program *p = NULL;
    char *text;
    size_t len;

    assert_ok(fl_version_read(v, file, &text, &len));
    assert_ok(fl_program_from_text(&p, c, text));
    fl_free(text);
    return p;
}

static void assert_same_file(const char *a, const char *b)
{
    char *x, *y;
    size_t n, m;

    assert_ok(fl_file_read(a, (size_t)1 << 20, &x, &n));
    assert_ok(fl_file_read(b, (size_t)1 << 20, &y, &m));
    assert_int_equal(n, m);
    assert_memory_equal(x, y, n);
    fl_free(x);
    fl_free(y);
}

static void check_rows(fl_table *t, const char *want)
{
    char *is = io_rows(t, scratch), *was;
    size_t len;

    assert_ok(fl_file_read(want, (size_t)1 << 20, &was, &len));
    assert_string_equal(is, was);
    fl_free(is);
    fl_free(was);
}

/* What is loaded and saved again has the same numbers. */
static void check_dense(fl_executor *e, fl_program *p,
                        const fl_model_version *v)
{
    char path[PATH_MAX], *a = fl_version_file(v, "dense.safetensors"), *b;
    fl_model_version *again = NULL;

    snprintf(path, sizeof(path), "%s/again", scratch);
    assert_ok(fl_save_persistables(e, path, p));
    assert_ok(fl_version_open(&again, path));
    b = fl_version_file(again, "dense.safetensors");
    assert_same_file(a, b);
    fl_version_close(again);
    fl_free(a);
    fl_free(b);
}

static void check_model(const char *dir, const char *rows)
{
    fl_ctx *c = make_ctx();
    fl_executor *e = make_executor(c);
    fl_model_version *v = NULL;
    fl_program *p, *startup;
    fl_table *t;

    assert_ok(fl_version_open(&v, dir));
    assert_ok(fl_version_verify(v));
    p = read_program(c, v, "program.txt");
    startup = read_program(c, v, "startup.txt");
    assert_ok(fl_run(e, startup, NULL));
    assert_ok(fl_load_persistables(e, dir, p));
    assert_int_equal(fl_scope_step(fl_current_scope(c)), 1234);
    check_dense(e, p, v);
    if (!fl_ctx_table(c, "emb", &t))
        check_rows(t, rows);
    fl_version_close(v);
    fl_program_free(p);
    fl_program_free(startup);
    fl_executor_free(e);
    fl_ctx_free(c);
}

static void every_model_of_the_corpus_loads(void **state)
{
    const char *corpus = getenv("FORMAT1");
    char dir[PATH_MAX], rows[PATH_MAX + 8];
    int n = 0;
    DIR *d;

    (void)state;
    d = corpus ? opendir(corpus) : NULL;
    for (struct dirent *e; d && (e = readdir(d));) {
        struct stat is;

        snprintf(dir, sizeof(dir), "%s/%s", corpus, e->d_name);
        if (e->d_name[0] == '.' || stat(dir, &is) || !S_ISDIR(is.st_mode))
            continue;
        snprintf(rows, sizeof(rows), "%s.rows", dir);
        check_model(dir, rows);
        n++;
    }
    if (d)
        closedir(d);
    assert_true(n >= (int)FL_LEN(samples));
}

static int set_up(void **state)
{
    (void)state;
    return mkdtemp(scratch) ? 0 : -1;
}

static int tear_down(void **state)
{
    (void)state;
    io_remove(scratch);
    return 0;
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(every_model_of_the_corpus_loads, set_up,
                                        tear_down),
    };

    if (argc == 4 && !strcmp(argv[1], "--make"))
        return make(argv[2], argv[3]);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
