/* test_text.c - tables as text: what is dumped comes back to the bit, and what
 * is no dump is refused. */
#include "kit.h"

#include <dirent.h>
#include <float.h>
#include <math.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/file.h"
#include "base/vec.h"
#include "table/inside.h"

#define N_KEYS 500
#define FILE_MAX (1 << 24)

static char folder[] = "/tmp/flotilla_text_XXXXXX";
static char path[64];

static int make_folder(void **state)
{
    (void)state;
    if (!mkdtemp(folder))
        return -1;
    snprintf(path, sizeof(path), "%s/table.txt", folder);
    return 0;
}

static int remove_folder(void **state)
{
    (void)state;
    unlink(path);
    return rmdir(folder);
}

static fl_table *make_table(const char *settings)
{
    fl_table_config c;
    fl_table *t = NULL;

    assert_ok(fl_table_config_parse(&c, "emb", settings, 3));
    assert_ok(fl_table_create(&t, &c));
    return t;
}

static void write_file(const char *text)
{
    assert_ok(fl_file_write(path, text, strlen(text)));
}

static char *read_file(void)
{
    char *text = NULL;
    size_t len;

    assert_ok(fl_file_read(path, FILE_MAX, &text, &len));
    return text;
}

static void expect_refused(fl_table *t, const char *text, const char *said)
{
    write_file(text);
    assert_int_equal(fl_table_load(t, path), FL_ERR_CORRUPT);
    if (!strstr(fl_last_error(), said))
        fail_msg("'%s' does not say '%s'", fl_last_error(), said);
}

static uint64_t key_at(size_t i)
{
    static const uint64_t ends[] = { 0, 1, UINT64_MAX, UINT64_MAX - 1 };

    return i < FL_LEN(ends) ? ends[i] : fl_mix64(i);
}

/* A few epochs of pushes; every third key is clicked and grows. */
static void train(fl_table *t)
{
    uint32_t dim = fl_table_dim(t);
    float *grad = fl_alloc(dim * sizeof(*grad));

    for (uint64_t round = 0; round < 3; round++) {
        for (size_t i = 0; i < N_KEYS; i += 1 + round) {
            uint64_t key = key_at(i);
            float show = 20, click = i % 3 ? 0 : 15;
            fl_rows a = { .keys = &key,
                          .values = grad,
                          .shows = &show,
                          .clicks = &click,
                          .n = 1,
                          .lr = 0.1,
                          .merged = true };

            for (uint32_t j = 0; j < dim; j++)
                grad[j] = (float)fl_rng_normal(round, i, j);
            assert_ok(fl_table_push(t, &a));
        }
        (void)fl_table_advance_epoch(t);
    }
    fl_free(grad);
}

/* --- comparing ------------------------------------------------------------ */

typedef struct copy_list {
    FL_VEC(fl_row_view) rows; /* of rows that are copies */
    const fl_row_layout *layout;
} copy_list;

static bool copy_row(void *arg, const fl_row_view *v)
{
    copy_list *l = arg;
    size_t bytes = v->is_short ? l->layout->short_bytes : l->layout->bytes;
    fl_row_view copy = *v;
    char *row = fl_alloc(bytes);

    memcpy(row, v->row, bytes);
    copy.row = row;
    fl_vec_push(&l->rows, copy);
    return true;
}

static int by_key(const void *a, const void *b)
{
    uint64_t x = ((const fl_row_view *)a)->key;
    uint64_t y = ((const fl_row_view *)b)->key;

    return (x > y) - (x < y);
}

static copy_list copy_table(fl_table *t)
{
    copy_list l = { .layout = &fl_table_acc(t)->layout };

    for (uint32_t shard = 0; shard < FL_TABLE_SHARDS; shard++)
        assert_ok(fl_table_scan(t, shard, 0, copy_row, &l));
    qsort(l.rows.data, l.rows.len, sizeof(*l.rows.data), by_key);
    return l;
}

static void release_copy(copy_list *l)
{
    for (size_t i = 0; i < l->rows.len; i++)
        fl_free((void *)(uintptr_t)l->rows.data[i].row);
    fl_vec_release(&l->rows);
}

static void expect_same_rows(fl_table *a, fl_table *b)
{
    copy_list x = copy_table(a), y = copy_table(b);

    assert_int_equal(x.rows.len, y.rows.len);
    for (size_t i = 0; i < x.rows.len; i++) {
        const fl_row_view *v = &x.rows.data[i];
        const fl_row_view *w = &y.rows.data[i];

        assert_true(v->key == w->key && v->epoch == w->epoch);
        assert_int_equal(v->is_short, w->is_short);
        for (int f = 0; f < x.layout->n_fields; f++) {
            const fl_row_field *to = &x.layout->fields[f];

            if (v->is_short && to->offset >= x.layout->short_bytes)
                continue;
            assert_memory_equal((const char *)v->row + to->offset,
                                (const char *)w->row + to->offset,
                                to->len * sizeof(float));
        }
    }
    release_copy(&x);
    release_copy(&y);
}

/* --- identity ------------------------------------------------------------- */

static void check_round_trip(const char *settings)
{
    fl_table *a = make_table(settings), *b = make_table(settings);

    train(a);
    assert_ok(fl_table_dump(a, path));
    assert_ok(fl_table_load(b, path));
    expect_same_rows(a, b);
    assert_ok(fl_table_load(b, path)); /* replaces what is there */
    expect_same_rows(a, b);
    fl_table_destroy(a);
    fl_table_destroy(b);
}

static void what_is_dumped_loads_to_the_bit(void **state)
{
    char settings[128];

    (void)state;
    for (size_t a = 0; a < fl_accessor_count(); a++)
        for (size_t r = 0; r < fl_rule_count(); r++)
            for (int dim = 1; dim <= 17 && !fl_rule_at(r)->whole; dim += 8) {
                snprintf(settings, sizeof(settings),
                         "dim=%d accessor=%s optimizer=%s partitions=4", dim,
                         fl_accessor_at(a)->name, fl_rule_at(r)->name);
                check_round_trip(settings);
            }
}

static void the_widest_row_fits_a_line(void **state)
{
    fl_table *a = make_table("dim=4096 optimizer=adam");
    fl_table *b = make_table("dim=4096 optimizer=adam");
    float *value = fl_alloc(4096 * sizeof(*value));
    uint64_t key = UINT64_MAX;

    (void)state;
    for (size_t i = 0; i < 4096; i++)
        value[i] = -1.23456789e-38f;
    assert_ok(fl_table_assign(a, &key, 1, value));
    assert_ok(fl_table_dump(a, path));
    assert_ok(fl_table_load(b, path));
    expect_same_rows(a, b);
    fl_free(value);
    fl_table_destroy(a);
    fl_table_destroy(b);
}

static void odd_floats_come_back(void **state)
{
    const float odd[8] = { 0,        -0.0f,    FLT_MIN,   FLT_TRUE_MIN,
                           -FLT_MAX, INFINITY, -INFINITY, 0.1f };
    fl_table *a = make_table("dim=8"), *b = make_table("dim=8");
    uint64_t key = 9;

    (void)state;
    assert_ok(fl_table_assign(a, &key, 1, odd));
    assert_ok(fl_table_dump(a, path));
    assert_ok(fl_table_load(b, path));
    expect_same_rows(a, b);
    fl_table_destroy(a);
    fl_table_destroy(b);
}

static void an_empty_table_is_an_empty_file(void **state)
{
    fl_table *t = make_table("dim=3");
    char *text;

    (void)state;
    assert_ok(fl_table_dump(t, path));
    text = read_file();
    assert_string_equal(text, "");
    fl_free(text);
    assert_ok(fl_table_load(t, path));
    assert_int_equal(stats_of(t).rows, 0);
    fl_table_destroy(t);
}

static void a_line_reads_as_documented(void **state)
{
    fl_table *t = make_table("dim=3 optimizer=adagrad");
    float value[3] = { 1, -0.5f, 0.1f };
    uint64_t key = 42;
    char *text;

    (void)state;
    (void)fl_table_advance_epoch(t);
    assert_ok(fl_table_assign(t, &key, 1, value));
    assert_ok(fl_table_dump(t, path));
    text = read_file();
    assert_string_equal(text,
                        "42 2 full value=1,-0.5,0.100000001 moment=0,0,0\n");
    fl_free(text);
    fl_table_destroy(t);
}

/* --- refusing ------------------------------------------------------------- */

#define GOOD "7 1 full value=1,2 moment=3,4\n"

static void lines_that_are_no_row_are_refused_by_number(void **state)
{
    static const char *const bad[][2] = {
        { "\n", "number" },
        { "x", "no end" },
        { "garbage\n", "number" },
        { "-7 1 full value=1,2 moment=3,4\n", "number" },
        { "18446744073709551616 1 full value=1,2 moment=3,4\n", "number" },
        { "7\n", "number" },
        { "7 \n", "number" },
        { "7 1073741824 full value=1,2 moment=3,4\n", "up to 1073741823" },
        { "7 1 \n", "short or full" },
        { "7 1 fuller value=1,2 moment=3,4\n", "short or full" },
        { "7 1 short value=1,2 moment=3,4\n", "no short form" },
        { "7 1 full\n", "field value is missing" },
        { "7 1 full value=1,2\n", "field moment is missing" },
        { "7 1 full moment=3,4 value=1,2\n", "field value is expected" },
        { "7 1 full value=1,2 velocity=3,4\n", "field moment is expected" },
        { "7 1 full value=1,2 moment=3,4 more=5\n", "more than a row has" },
        { "7 1 full value=1 moment=3,4\n", "value has 1 values and not 2" },
        { "7 1 full value=1,2,3 moment=3,4\n", "comes after its 2 values" },
        { "7 1 full value=1, 2 moment=3,4\n", "does not start with a number" },
        { "7 1 full value=1,two moment=3,4\n", "'two" },
        { "7 1 full value=1,2 moment=3,4\r\n", "comes after" },
        { "7 1 full value=1,2 moment=3,4", "no end" },
    };
    fl_table *t = make_table("dim=2 optimizer=adagrad");
    char text[256];

    (void)state;
    for (size_t i = 0; i < FL_LEN(bad); i++) {
        char place[96];

        snprintf(text, sizeof(text), GOOD GOOD "%s", bad[i][0]);
        expect_refused(t, text, bad[i][1]);
        snprintf(place, sizeof(place), "%s:3: ", path);
        assert_non_null(strstr(fl_last_error(), place));
    }
    assert_int_equal(stats_of(t).rows, 1);
    fl_table_destroy(t);
}

static void a_dump_of_another_table_is_refused(void **state)
{
    fl_table *a = make_table("dim=4 optimizer=adam");
    fl_table *wide = make_table("dim=5 optimizer=adam");
    fl_table *sgd = make_table("dim=4 optimizer=sgd");
    fl_table *ctr = make_table("dim=4 optimizer=adam accessor=ctr");

    (void)state;
    train(a);
    assert_ok(fl_table_dump(a, path));
    assert_int_equal(fl_table_load(wide, path), FL_ERR_CORRUPT);
    assert_int_equal(fl_table_load(sgd, path), FL_ERR_CORRUPT);
    assert_int_equal(fl_table_load(ctr, path), FL_ERR_CORRUPT);
    assert_int_equal(stats_of(wide).rows, 0);
    assert_int_equal(stats_of(sgd).rows, 0);
    assert_int_equal(stats_of(ctr).rows, 0);
    fl_table_destroy(a);
    fl_table_destroy(wide);
    fl_table_destroy(sgd);
    fl_table_destroy(ctr);
}

static void ids_beyond_the_height_are_refused(void **state)
{
    fl_table *t = make_table("dim=1 height=8");

    (void)state;
    expect_refused(t, "7 1 full value=1\n8 1 full value=1\n", "up to 7");
    assert_int_equal(stats_of(t).rows, 1);
    fl_table_destroy(t);
}

static void a_line_without_end_is_refused(void **state)
{
    fl_table *t = make_table("dim=2");
    char *text = fl_alloc(1 << 20);

    (void)state;
    memset(text, '1', (1 << 20) - 1);
    expect_refused(t, text, "longer than a row can be");
    fl_free(text);
    fl_table_destroy(t);
}

/* Bytes of a good dump are changed at random, NUL and newline among them. */
static void broken_bytes_never_crash(void **state)
{
    const char *settings = "dim=3 accessor=ctr optimizer=adam";
    fl_table *a = make_table(settings);
    char *text;
    size_t len = 0;
    uint64_t s = 1;

    (void)state;
    train(a);
    assert_ok(fl_table_dump(a, path));
    assert_ok(fl_file_read(path, FILE_MAX, &text, &len));
    fl_table_destroy(a);
    len = len < 2000 ? len : 2000;
    for (int i = 0; i < 300; i++) {
        fl_table *b = make_table(settings);
        char *broken = fl_alloc(len);
        fl_status st;

        memcpy(broken, text, len);
        for (int n = 0; n < 3; n++)
            broken[draw(&s) % len] = "\0\n =,-.e9shortfull\xff"[draw(&s) % 19];
        assert_ok(fl_file_write(path, broken, draw(&s) % (len + 1)));
        st = fl_table_load(b, path);
        assert_true(st == FL_OK || st == FL_ERR_CORRUPT);
        fl_free(broken);
        fl_table_destroy(b);
    }
    fl_free(text);
}

/* --- files ---------------------------------------------------------------- */

static size_t count_files(void)
{
    DIR *d = opendir(folder);
    size_t n = 0;

    assert_non_null(d);
    for (struct dirent *e = readdir(d); e; e = readdir(d))
        n += e->d_name[0] != '.';
    closedir(d);
    return n;
}

static void files_that_cannot_be_opened_are_said(void **state)
{
    fl_table *t = make_table("dim=2");
    char missing[96];

    (void)state;
    snprintf(missing, sizeof(missing), "%s/no/such", folder);
    assert_int_equal(fl_table_dump(t, missing), FL_ERR_NOTFOUND);
    assert_non_null(strstr(fl_last_error(), "dumping table emb"));
    assert_non_null(strstr(fl_last_error(), missing));
    assert_int_equal(fl_table_load(t, missing), FL_ERR_NOTFOUND);
    assert_non_null(strstr(fl_last_error(), missing));
    assert_int_equal(fl_table_load(t, folder), FL_ERR_IO);
    fl_table_destroy(t);
}

static void a_dump_keeps_links_and_devices(void **state)
{
    fl_table *t = make_table("dim=2");
    char link_path[96], target[96];
    struct stat st;

    (void)state;
    snprintf(link_path, sizeof(link_path), "%s/link", folder);
    snprintf(target, sizeof(target), "%s/target", folder);
    assert_int_equal(symlink("target", link_path), 0);
    assert_int_equal(fl_table_dump(t, link_path), FL_OK);
    assert_int_equal(lstat(link_path, &st), 0);
    assert_true(S_ISLNK(st.st_mode));
    assert_int_equal(unlink(target), 0);
    unlink(link_path);
    assert_int_equal(symlink("/dev/full", link_path), 0);
    assert_int_equal(
        fl_table_assign(t, (uint64_t[]){ 7 }, 1, (float[]){ 1, 2 }), FL_OK);
    assert_int_equal(fl_table_dump(t, link_path), FL_ERR_IO);
    assert_non_null(strstr(fl_last_error(), "No space left"));
    assert_int_equal(lstat(link_path, &st), 0);
    assert_true(S_ISLNK(st.st_mode));
    unlink(link_path);
    fl_table_destroy(t);
}

/* The last step, taking the name, fails: a folder has it. */
static void a_failed_dump_leaves_nothing_behind(void **state)
{
    fl_table *t = make_table("dim=2");
    char taken[96];
    size_t before;

    (void)state;
    snprintf(taken, sizeof(taken), "%s/taken", folder);
    assert_int_equal(mkdir(taken, 0777), 0);
    train(t);
    before = count_files();
    assert_int_equal(fl_table_dump(t, taken), FL_ERR_IO);
    assert_int_equal(count_files(), before);
    assert_int_equal(rmdir(taken), 0);
    fl_table_destroy(t);
}

/* A limit on the size of files stands for a full disk. */
static void a_dump_that_finds_no_room_is_said(void **state)
{
    struct rlimit limit, was;
    void (*handler)(int) = signal(SIGXFSZ, SIG_IGN);
    fl_table *t = make_table("dim=8");
    size_t before = count_files();
    fl_status st;

    (void)state;
    train(t);
    assert_int_equal(getrlimit(RLIMIT_FSIZE, &was), 0);
    limit = was;
    limit.rlim_cur = 4096;
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &limit), 0);
    st = fl_table_dump(t, path);
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &was), 0);
    (void)signal(SIGXFSZ, handler);
    assert_int_equal(st, FL_ERR_IO);
    assert_non_null(strstr(fl_last_error(), "cannot write"));
    assert_int_equal(count_files(), before);
    fl_table_destroy(t);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_is_dumped_loads_to_the_bit),
        cmocka_unit_test(the_widest_row_fits_a_line),
        cmocka_unit_test(odd_floats_come_back),
        cmocka_unit_test(an_empty_table_is_an_empty_file),
        cmocka_unit_test(a_line_reads_as_documented),
        cmocka_unit_test(lines_that_are_no_row_are_refused_by_number),
        cmocka_unit_test(a_dump_of_another_table_is_refused),
        cmocka_unit_test(ids_beyond_the_height_are_refused),
        cmocka_unit_test(a_line_without_end_is_refused),
        cmocka_unit_test(broken_bytes_never_crash),
        cmocka_unit_test(files_that_cannot_be_opened_are_said),
        cmocka_unit_test(a_dump_keeps_links_and_devices),
        cmocka_unit_test(a_failed_dump_leaves_nothing_behind),
        cmocka_unit_test(a_dump_that_finds_no_room_is_said),
    };

    return cmocka_run_group_tests_name("text", tests, make_folder,
                                       remove_folder);
}
