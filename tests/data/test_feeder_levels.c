/* test_feeder_levels.c - ragged variables with rows of several values, and
 * with lists of lists, by feeder and by reader. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <string.h>

#include "base/alloc.h"
#include "base/status.h"
#include "flotilla/flotilla.h"
#include "../make.h"

#define assert_ok(expr)                                                        \
    do {                                                                       \
        if (expr)                                                              \
            fail_msg("%s", fl_last_error());                                   \
    } while (0)

#define assert_refused(expr, words)                                            \
    do {                                                                       \
        assert_int_not_equal(expr, FL_OK);                                     \
        if (!strstr(fl_last_error(), words))                                   \
            fail_msg("expected '%s' in '%s'", words, fl_last_error());         \
    } while (0)

#define assert_offsets(t, level, ...)                                          \
    do {                                                                       \
        const int64_t want[] = { __VA_ARGS__ };                                \
                                                                               \
        assert_int_equal((t)->lod_len[level], FL_LEN(want));                   \
        assert_memory_equal((t)->lod[level], want, sizeof(want));              \
    } while (0)

/* label [-1, 3] with one level, words [-1, 1] with two, x dense. */
static const char *const names[] = { "label", "words", "x" };
enum { LABEL, WORDS, DENSE, N_VARS };

static fl_ctx *make_program(void)
{
    fl_ctx *c = make_ctx();

    assert_non_null(
        fl_layers_data(c, "label", FL_DTYPE_I64, 2, (int64_t[]){ -1, 3 }, 1));
    assert_non_null(
        fl_layers_data(c, "words", FL_DTYPE_F32, 2, (int64_t[]){ -1, 1 }, 2));
    assert_non_null(
        fl_layers_data(c, "x", FL_DTYPE_F32, 2, (int64_t[]){ -1, 2 }, 0));
    return c;
}

typedef struct fixture {
    fl_ctx *c;
    fl_feeder *f;
} fixture;

static int make(void **state)
{
    fixture *t = fl_alloc(sizeof(*t));

    t->c = make_program();
    assert_ok(
        fl_feeder_new(&t->f, fl_default_main_program(t->c), names, N_VARS));
    fl_feeder_begin(t->f);
    *state = t;
    return 0;
}

static int drop(void **state)
{
    fixture *t = *state;

    fl_feeder_free(t->f);
    fl_ctx_free(t->c);
    fl_free(t);
    return 0;
}

static const uint64_t labels[] = { 1, 2, 3, 4, 5, 6, 7, 8, 9 };
static const float words[] = { .5f, 1.5f, 2.5f, 3.5f };

/* Three samples: labels of 2, 0 and 1 rows; words of lists (2, 0), none, and
   (1, 1). */
static fl_status give_samples(fl_feeder *f)
{
    static const struct {
        size_t label, n_labels, word, n_lists, lens[2];
    } samples[] = { { 0, 2, 0, 2, { 2, 0 } },
                    { 6, 0, 2, 0, { 0 } },
                    { 6, 1, 2, 2, { 1, 1 } } };
    const float x[] = { 1, 2 };

    for (size_t i = 0; i < FL_LEN(samples); i++) {
        FL_TRY(fl_feeder_ids(f, "label", labels + samples[i].label,
                             3 * samples[i].n_labels));
        FL_TRY(fl_feeder_lists(f, "words", FL_DTYPE_F32,
                               words + samples[i].word, samples[i].lens,
                               samples[i].n_lists));
        FL_TRY(fl_feeder_floats(f, "x", x, 2));
        FL_TRY(fl_feeder_end_sample(f));
    }
    return FL_OK;
}

static void check_feeds(const fl_feed *feeds)
{
    const fl_tensor *label = &feeds[LABEL].value, *w = &feeds[WORDS].value;

    assert_int_equal(label->n_lod, 1);
    assert_int_equal(label->shape.dim[0], 3);
    assert_int_equal(label->shape.dim[1], 3);
    assert_offsets(label, 0, 0, 2, 2, 3);
    assert_memory_equal(label->data, labels, sizeof(labels));
    assert_int_equal(w->n_lod, 2);
    assert_int_equal(w->shape.dim[0], 4);
    assert_offsets(w, 0, 0, 2, 2, 4);
    assert_offsets(w, 1, 0, 2, 2, 3, 4);
    assert_memory_equal(w->data, words, sizeof(words));
}

static const fl_feed *feeds_of(fl_feeder *f, size_t n_rows)
{
    const fl_feed *feeds = NULL;
    size_t n = 0;

    assert_ok(fl_feeder_feeds(f, &feeds, &n));
    assert_int_equal(n, n_rows);
    return feeds;
}

static void samples_have_rows_and_lists(void **state)
{
    fixture *t = *state;

    for (int i = 0; i < 3; i++) {
        fl_feeder_begin(t->f);
        assert_ok(give_samples(t->f));
        check_feeds(feeds_of(t->f, 3));
    }
}

static const int64_t words_0[] = { 0, 2, 2, 4 }, words_1[] = { 0, 2, 2, 3, 4 };

static fl_tensor words_tensor(void)
{
    fl_tensor t = fl_tensor_ragged(FL_DTYPE_F32, words, 2, (int64_t[]){ 4, 1 },
                                   words_0, 3);

    t.n_lod = 2;
    t.lod[1] = words_1;
    t.lod_len[1] = FL_LEN(words_1);
    return t;
}

static void whole_columns_have_rows_and_lists(void **state)
{
    const float x[] = { 1, 2, 3, 4, 5, 6 };
    fixture *t = *state;
    fl_tensor w = words_tensor();
    fl_tensor label =
        fl_tensor_ragged(FL_DTYPE_I64, labels, 2, (int64_t[]){ 3, 3 },
                         (int64_t[]){ 0, 2, 2, 3 }, 3);
    fl_tensor dense = fl_tensor_of(FL_DTYPE_F32, x, 2, (int64_t[]){ 3, 2 });

    assert_ok(fl_feeder_ragged(t->f, "label", FL_DTYPE_U64, labels,
                               (size_t[]){ 2, 0, 1 }, 3));
    assert_ok(fl_feeder_tensor(t->f, "words", &w));
    assert_ok(fl_feeder_dense(t->f, "x", FL_DTYPE_F32, x, 3));
    check_feeds(feeds_of(t->f, 3));
    fl_feeder_begin(t->f);
    assert_ok(fl_feeder_tensor(t->f, "label", &label));
    assert_ok(fl_feeder_tensor(t->f, "words", &w));
    assert_ok(fl_feeder_tensor(t->f, "x", &dense));
    check_feeds(feeds_of(t->f, 3));
}

static void part_of_a_row_is_refused(void **state)
{
    fixture *t = *state;
    fl_tensor narrow = fl_tensor_ragged(
        FL_DTYPE_I64, labels, 2, (int64_t[]){ 4, 2 }, (int64_t[]){ 0, 4 }, 1);

    assert_refused(fl_feeder_ids(t->f, "label", labels, 4),
                   "sample 0 gives 4 values, the variable takes rows of 3");
    assert_refused(fl_feeder_tensor(t->f, "label", &narrow),
                   "the tensor is [4,2], the variable takes rows of 3");
}

static void levels_that_do_not_fit_are_refused(void **state)
{
    fixture *t = *state;
    fl_tensor w = words_tensor(), broken = words_tensor();
    size_t lens[] = { 1, SIZE_MAX };

    assert_refused(fl_feeder_floats(t->f, "words", words, 2),
                   "give samples of it with fl_feeder_lists");
    assert_refused(fl_feeder_ragged(t->f, "words", FL_DTYPE_F32, words,
                                    (size_t[]){ 4 }, 1),
                   "a whole column with fl_feeder_tensor");
    assert_refused(fl_feeder_lists(t->f, "label", FL_DTYPE_U64, labels,
                                   (size_t[]){ 3 }, 1),
                   "the variable has 1 levels of offsets");
    assert_refused(fl_feeder_lists(t->f, "words", FL_DTYPE_F32, words, lens, 2),
                   "more than any memory holds");
    assert_refused(fl_feeder_lists(t->f, "words", FL_DTYPE_F32, words, NULL, 2),
                   "no lengths");
    w.n_lod = 1;
    assert_refused(fl_feeder_tensor(t->f, "words", &w), "has 1 levels");
    broken.lod_len[1]--;
    assert_refused(fl_feeder_tensor(t->f, "words", &broken), "feed words");
    assert_ok(give_samples(t->f));
    check_feeds(feeds_of(t->f, 3));
}

static void a_value_that_does_not_fit_is_named_with_its_place(void **state)
{
    const double bad[] = { 1, 2, 3, 4, 5, 6, 7, 8.5, 9 };
    const double far[] = { 0, 0, 0, 1e300 };
    fixture *t = *state;
    fl_tensor w = words_tensor();

    assert_refused(fl_feeder_ragged(t->f, "label", FL_DTYPE_F64, bad,
                                    (size_t[]){ 2, 0, 1 }, 3),
                   "feed label: value 1 of row 2 is 8.5");
    w.dtype = FL_DTYPE_F64;
    w.data = (void *)far;
    assert_refused(fl_feeder_tensor(t->f, "words", &w),
                   "feed words: value 1 of row 2 is 1e+300");
}

/* What is fed runs: the words of every list are added, then those sums. */
static void a_program_takes_both(void **state)
{
    fixture *t = *state;
    fl_program *p = fl_default_main_program(t->c);
    fl_executor *e = make_executor(t->c);
    fl_var *sum = fl_layers_sequence_pool(
        fl_layers_sequence_pool(fl_program_var(p, "words"), "sum"), "sum");
    fl_var *last = fl_layers_sequence_last_step(
        fl_layers_cast(fl_program_var(p, "label"), FL_DTYPE_F32));
    const char *fetches[] = { fl_var_name(sum), fl_var_name(last) };
    fl_tensor out[2];
    fl_run_args a = FL_INIT(fl_run_args, .n_feeds = 2, .fetches = fetches,
                            .n_fetches = 2, .out = out);

    assert_ok(give_samples(t->f));
    a.feeds = feeds_of(t->f, 3);
    assert_ok(fl_run(e, p, &a));
    assert_memory_equal(out[0].data, ((float[]){ 2, 0, 6 }), 3 * sizeof(float));
    assert_memory_equal(out[1].data, ((float[]){ 4, 5, 6, 0, 0, 0, 7, 8, 9 }),
                        9 * sizeof(float));
    fl_executor_free(e);
}

static fl_status generate(void *arg, int worker, fl_feeder *into, bool *end)
{
    int *left = arg;

    (void)worker;
    *end = (*left)-- == 0;
    return *end ? FL_OK : give_samples(into);
}

static void readers_bring_both(void **state)
{
    static const fl_reader_workers kinds[] = { FL_READER_THREADS,
                                               FL_READER_PROCESSES };
    fl_ctx *c = make_program();

    (void)state;
    for (size_t k = 0; k < FL_LEN(kinds); k++) {
        const fl_feed *feeds;
        fl_reader *r = NULL;
        size_t n_rows;
        int left = 2;

        assert_ok(fl_reader_new(&r, fl_default_main_program(c), names, N_VARS,
                                .workers = kinds[k],
                                .batch_bytes_max = 1 << 16));
        fl_reader_decorate_batch_generator(r, generate, &left);
        assert_ok(fl_reader_start(r));
        for (int i = 0; i < 2; i++) {
            assert_ok(fl_reader_next(r, 0, &feeds, &n_rows));
            assert_int_equal(n_rows, 3);
            check_feeds(feeds);
        }
        assert_ok(fl_reader_next(r, 0, &feeds, &n_rows));
        assert_null(feeds);
        fl_reader_free(r);
    }
    fl_ctx_free(c);
}

static void a_dataset_stays_with_lists_of_single_values(void **state)
{
    fl_ctx *c = make_program();
    fl_dataset *d = NULL;

    (void)state;
    assert_ok(fl_dataset_new(&d, c, "QueueDataset"));
    assert_refused(
        fl_dataset_set_use_var(d, fl_default_main_program(c), &names[LABEL], 1),
        "lists of a dataset have single values");
    assert_refused(
        fl_dataset_set_use_var(d, fl_default_main_program(c), &names[WORDS], 1),
        "a dataset has at most one");
    fl_dataset_free(d);
    fl_ctx_free(c);
}

#define WITH(test) cmocka_unit_test_setup_teardown(test, make, drop)

int main(void)
{
    const struct CMUnitTest tests[] = {
        WITH(samples_have_rows_and_lists),
        WITH(whole_columns_have_rows_and_lists),
        WITH(part_of_a_row_is_refused),
        WITH(levels_that_do_not_fit_are_refused),
        WITH(a_value_that_does_not_fit_is_named_with_its_place),
        WITH(a_program_takes_both),
        cmocka_unit_test(readers_bring_both),
        cmocka_unit_test(a_dataset_stays_with_lists_of_single_values),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
