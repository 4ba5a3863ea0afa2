/* test_entry.c - who gets a row: entry policies and the limit on rows. */
#include "kit.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#define DIM 3
#define MANY 100000u

/* A table whose rows start from random values, so that the first value of a
   key is not that of any other. */
static fl_table *new_table(fl_entry_kind kind, double limit, uint64_t seed)
{
    fl_table_config config = {
        .name = "doors",
        .dim = DIM,
        .init = { .kind = FL_INIT_UNIFORM,
                  .a = -1,
                  .b = 1,
                  .stream = fl_rng_stream(seed, "doors") },
        .n_partitions = 2,
        .entry = { kind, limit },
    };
    fl_table *t;

    fl_table_config_ctr(&config);
    assert_ok(fl_table_create(&t, &config));
    return t;
}

static void first_value(uint64_t seed, uint64_t key, float *value)
{
    fl_init init = { .kind = FL_INIT_UNIFORM,
                     .a = -1,
                     .b = 1,
                     .stream = fl_rng_stream(seed, "doors") };

    fl_init_row(&init, key, value, DIM);
}

/* Pushes a gradient of `g` in every column, at rate 1. */
static void push_one(fl_table *t, uint64_t key, float g, const uint32_t *count,
                     const float *show, const float *click)
{
    const float grad[DIM] = { g, g, g };
    fl_rows a = { .keys = &key,
                  .values = grad,
                  .shows = show,
                  .clicks = click,
                  .counts = count,
                  .n = 1,
                  .lr = 1,
                  .merged = true };

    assert_ok(fl_table_push(t, &a));
}

static void assert_value(fl_table *t, uint64_t key, const float *value)
{
    float got[DIM];

    assert_ok(fl_table_pull(t, &key, 1, FL_PULL_CREATE, got));
    assert_memory_equal(got, value, sizeof(got));
}

static void assert_first_value(fl_table *t, uint64_t key)
{
    float value[DIM];

    first_value(1, key, value);
    assert_value(t, key, value);
}

/* Its first value less the sum of what was pushed. */
static void assert_pushed_value(fl_table *t, uint64_t key, float sum)
{
    float value[DIM];

    first_value(1, key, value);
    for (int d = 0; d < DIM; d++)
        value[d] -= sum;
    assert_value(t, key, value);
}

static void without_a_policy_a_pull_makes_a_row(void **state)
{
    fl_table *t = new_table(FL_ENTRY_NONE, 0, 1);
    uint64_t key = 7;
    float value[DIM];

    (void)state;
    assert_ok(fl_table_pull(t, &key, 1, FL_PULL_ONLY, value));
    assert_int_equal(stats_of(t).rows, 0);
    assert_first_value(t, 7);
    assert_int_equal(stats_of(t).rows, 1);
    push_one(t, 8, 0.5f, NULL, NULL, NULL);
    assert_int_equal(stats_of(t).rows, 2);
    assert_pushed_value(t, 8, 0.5f);
    fl_table_destroy(t);
}

static void a_count_filter_admits_at_the_nth_push(void **state)
{
    fl_table *t = new_table(FL_ENTRY_COUNT, 5, 1);

    (void)state;
    for (int i = 1; i < 5; i++) {
        push_one(t, UINT64_MAX, 1, NULL, NULL, NULL);
        assert_first_value(t, UINT64_MAX);
        assert_int_equal(stats_of(t).rows, 0);
        assert_int_equal(stats_of(t).candidates, 1);
    }
    push_one(t, UINT64_MAX, 0.25f, NULL, NULL, NULL);
    assert_int_equal(stats_of(t).rows, 1);
    assert_int_equal(stats_of(t).candidates, 0);
    assert_pushed_value(t, UINT64_MAX, 0.25f);
    fl_table_destroy(t);
}

static void a_count_filter_counts_what_the_push_says(void **state)
{
    fl_table *t = new_table(FL_ENTRY_COUNT, 5, 1);

    (void)state;
    push_one(t, 0, 1, &(uint32_t){ 4 }, NULL, NULL);
    assert_int_equal(stats_of(t).rows, 0);
    push_one(t, 0, 0.25f, &(uint32_t){ 1 }, NULL, NULL);
    assert_int_equal(stats_of(t).rows, 1);
    assert_pushed_value(t, 0, 0.25f);
    push_one(t, 1, 0.5f, &(uint32_t){ 5 }, NULL, NULL);
    assert_int_equal(stats_of(t).rows, 2);
    assert_pushed_value(t, 1, 0.5f);
    fl_table_destroy(t);
}

/* A batch that was not merged counts a key as often as it occurs. */
static void repeats_in_a_push_count_each(void **state)
{
    const uint64_t keys[] = { 3, 4, 3, 3 };
    const float grads[4 * DIM] = { 1, 1, 1, 1, 1, 1, 1, 1, 1, 2, 2, 2 };
    fl_rows a = { .keys = keys, .values = grads, .n = 4, .lr = 1 };
    fl_table *t = new_table(FL_ENTRY_COUNT, 3, 1);

    (void)state;
    assert_ok(fl_table_push(t, &a));
    assert_int_equal(stats_of(t).rows, 1);
    assert_int_equal(stats_of(t).candidates, 1);
    assert_pushed_value(t, 3, 4);
    assert_first_value(t, 4);
    fl_table_destroy(t);
}

static void pulls_do_not_count(void **state)
{
    fl_table *t = new_table(FL_ENTRY_COUNT, 2, 1);

    (void)state;
    for (int i = 0; i < 10; i++)
        assert_first_value(t, 9);
    assert_int_equal(stats_of(t).rows, 0);
    assert_int_equal(stats_of(t).candidates, 0);
    push_one(t, 9, 1, NULL, NULL, NULL);
    for (int i = 0; i < 10; i++)
        assert_first_value(t, 9);
    assert_int_equal(stats_of(t).rows, 0);
    push_one(t, 9, 1, NULL, NULL, NULL);
    assert_int_equal(stats_of(t).rows, 1);
    fl_table_destroy(t);
}

/* The score is nonclk_coeff * (shows - clicks) + click_coeff * clicks, with
   0.1 and 1 unless the table says otherwise. */
static void show_click_admits_by_score(void **state)
{
    fl_table *t = new_table(FL_ENTRY_SHOW_CLICK, 2, 1);

    (void)state;
    for (int i = 0; i < 19; i++)
        push_one(t, 5, 1, NULL, NULL, NULL); /* a show each: 1.9 in all */
    assert_int_equal(stats_of(t).rows, 0);
    assert_int_equal(stats_of(t).candidates, 1);
    assert_first_value(t, 5);
    push_one(t, 5, 0.5f, NULL, &(float){ 2 }, &(float){ 0 });
    assert_int_equal(stats_of(t).rows, 1);
    assert_pushed_value(t, 5, 0.5f);

    push_one(t, 6, 1, NULL, &(float){ 1 }, &(float){ 1 });
    assert_int_equal(stats_of(t).rows, 1);
    push_one(t, 6, 0.5f, NULL, &(float){ 1 }, &(float){ 1 });
    assert_int_equal(stats_of(t).rows, 2);
    assert_pushed_value(t, 6, 0.5f);
    assert_int_equal(stats_of(t).candidates, 0);
    fl_table_destroy(t);
}

/* --- probability ---------------------------------------------------------- */

/* Pushes MANY keys three times; admitted[i] says which ones got a row. */
static size_t push_many(uint64_t seed, double p, unsigned char *admitted)
{
    fl_table *t = new_table(FL_ENTRY_PROBABILITY, p, seed);
    uint64_t *keys = malloc(MANY * sizeof(*keys));
    float *grads = malloc(MANY * DIM * sizeof(*grads));
    fl_rows a = {
        .keys = keys, .values = grads, .n = MANY, .lr = 1, .merged = true
    };
    size_t n_rows = 0;

    for (size_t i = 0; i < MANY; i++)
        keys[i] = i;
    for (int again = 0; again < 3; again++) {
        for (size_t i = 0; i < MANY * DIM; i++)
            grads[i] = 4;
        assert_ok(fl_table_push(t, &a));
        assert_ok(fl_table_pull(t, keys, MANY, FL_PULL_CREATE, grads));
        if (again == 0)
            n_rows = (size_t)stats_of(t).rows;
        assert_int_equal(stats_of(t).rows, n_rows);
    }
    /* First values are above -1; three pushes of 4 leave less than -11. */
    for (size_t i = 0; i < MANY; i++)
        admitted[i] = grads[i * DIM] < -1;
    free(keys);
    free(grads);
    fl_table_destroy(t);
    return n_rows;
}

static size_t count(const unsigned char *flags)
{
    size_t n = 0;

    for (size_t i = 0; i < MANY; i++)
        n += flags[i];
    return n;
}

static void probability_admits_its_share_once_and_for_all(void **state)
{
    static const double shares[] = { 0.02, 0.3, 0.9 };
    unsigned char *first = malloc(MANY), *second = malloc(MANY);

    (void)state;
    for (size_t i = 0; i < FL_LEN(shares); i++) {
        double p = shares[i];
        double sigma = sqrt(MANY * p * (1 - p));
        size_t n = push_many(1, p, first), same = 0;

        assert_int_equal(n, count(first));
        assert_true(fabs((double)n - MANY * p) <= 3 * sigma);
        assert_int_equal(push_many(1, p, second), n);
        assert_memory_equal(first, second, MANY);

        /* With another seed other keys: those in both are p * p by chance. */
        push_many(2, p, second);
        for (size_t k = 0; k < MANY; k++)
            same += first[k] && second[k];
        p *= p;
        assert_true(fabs((double)same - MANY * p) <=
                    4 * sqrt(MANY * p * (1 - p)));
    }
    free(first);
    free(second);
}

static void
a_key_that_chance_turns_away_answers_with_its_first_value(void **state)
{
    fl_table *t = new_table(FL_ENTRY_PROBABILITY, 0.5, 1);
    uint64_t away = 0;

    (void)state;
    while (push_one(t, away, 1, NULL, NULL, NULL), stats_of(t).rows == away + 1)
        away++;
    assert_first_value(t, away);
    push_one(t, away, 1, NULL, NULL, NULL);
    assert_first_value(t, away);
    assert_int_equal(stats_of(t).rows, away);
    fl_table_destroy(t);
}

/* --- the limit on rows ---------------------------------------------------- */

static void keys_beyond_max_rows_get_no_row_until_others_leave(void **state)
{
    fl_table_config config = adding_config(DIM, 1);
    uint64_t keys[] = { 1, 2, 3, 4, 5 };
    const float ones[5 * DIM] = { -1, -1, -1, -1, -1, -1, -1, -1,
                                  -1, -1, -1, -1, -1, -1, -1 };
    fl_rows a = {
        .keys = keys, .values = ones, .n = 5, .lr = 1, .merged = true
    };
    float values[5 * DIM], sum = 0;
    fl_table *t;

    (void)state;
    config.max_rows = 3;
    assert_ok(fl_table_create(&t, &config));
    assert_ok(fl_table_push(t, &a));
    assert_int_equal(stats_of(t).rows, 3);
    assert_int_equal(stats_of(t).refused, 2);
    assert_ok(fl_table_pull(t, keys, 5, FL_PULL_CREATE, values));
    for (int i = 0; i < 5 * DIM; i++)
        sum += values[i];
    assert_true(sum == 3 * DIM);

    fl_table_remove(t, keys, 5, NULL);
    assert_int_equal(stats_of(t).rows, 0);
    a.n = 3;
    assert_ok(fl_table_push(t, &a));
    assert_int_equal(stats_of(t).rows, 3);
    fl_table_destroy(t);
}

/* --- the height ----------------------------------------------------------- */

static void an_id_beyond_the_height_is_refused_and_named(void **state)
{
    fl_table_config config = adding_config(1, 2);
    uint64_t keys[] = { 3, 9, 10 };
    float values[3] = { 0 };
    fl_rows a = { .keys = keys, .values = values, .n = 3, .lr = 1 };
    size_t n_removed;
    fl_table *t;

    (void)state;
    config.height = 10;
    assert_ok(fl_table_create(&t, &config));
    assert_int_equal(fl_table_pull(t, keys, 3, FL_PULL_CREATE, values),
                     FL_ERR_INVAL);
    assert_non_null(strstr(fl_last_error(), "id 10 "));
    assert_int_equal(fl_table_push(t, &a), FL_ERR_INVAL);
    assert_int_equal(fl_table_assign(t, keys, 3, values), FL_ERR_INVAL);
    assert_int_equal(stats_of(t).rows, 0);
    assert_ok(fl_table_pull(t, keys, 2, FL_PULL_CREATE, values));
    assert_int_equal(stats_of(t).rows, 2);

    /* What has no row cannot be removed, and is no error there. */
    fl_table_remove(t, keys, 3, &n_removed);
    assert_int_equal(n_removed, 2);
    assert_int_equal(stats_of(t).rows, 0);
    fl_table_destroy(t);
}

/* --- widths --------------------------------------------------------------- */

static void a_push_of_another_width_is_refused(void **state)
{
    const uint64_t key = 3;
    const float values[3] = { 1, 2, 3 };
    fl_rows rows = { .keys = &key, .values = values, .n = 1, .lr = 1 };
    fl_table_config c;
    fl_table *t = NULL;

    (void)state;
    assert_ok(fl_table_config_parse(&c, "emb", "dim=2", 3));
    assert_ok(fl_table_create(&t, &c));
    rows.dim = 3;
    assert_int_equal(fl_table_push(t, &rows), FL_ERR_INVAL);
    rows.dim = 2;
    assert_ok(fl_table_push(t, &rows));
    fl_table_destroy(t);
}

static bool heeds_counts(fl_entry_kind kind, const char *accessor)
{
    fl_table_config config = {
        .name = "doors",
        .dim = DIM,
        .init = { .kind = FL_INIT_CONSTANT },
        .accessor = accessor,
        .entry = { kind, 1 },
    };
    fl_table *t;
    bool yes;

    fl_table_config_ctr(&config);
    assert_ok(fl_table_create(&t, &config));
    yes = fl_table_heeds_counts(t);
    fl_table_destroy(t);
    return yes;
}

static void counts_of_a_push_are_for_filters_and_statistics(void **state)
{
    (void)state;
    assert_false(heeds_counts(FL_ENTRY_NONE, "plain"));
    assert_false(heeds_counts(FL_ENTRY_PROBABILITY, "plain"));
    assert_true(heeds_counts(FL_ENTRY_COUNT, "plain"));
    assert_true(heeds_counts(FL_ENTRY_SHOW_CLICK, "plain"));
    assert_true(heeds_counts(FL_ENTRY_NONE, "ctr"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_push_of_another_width_is_refused),
        cmocka_unit_test(without_a_policy_a_pull_makes_a_row),
        cmocka_unit_test(a_count_filter_admits_at_the_nth_push),
        cmocka_unit_test(a_count_filter_counts_what_the_push_says),
        cmocka_unit_test(repeats_in_a_push_count_each),
        cmocka_unit_test(counts_of_a_push_are_for_filters_and_statistics),
        cmocka_unit_test(pulls_do_not_count),
        cmocka_unit_test(show_click_admits_by_score),
        cmocka_unit_test(probability_admits_its_share_once_and_for_all),
        cmocka_unit_test(
            a_key_that_chance_turns_away_answers_with_its_first_value),
        cmocka_unit_test(keys_beyond_max_rows_get_no_row_until_others_leave),
        cmocka_unit_test(an_id_beyond_the_height_is_refused_and_named),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
