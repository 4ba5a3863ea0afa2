/* test_delta.c - a whole save and the deltas since, put one on the other, are
 * the table; a delta looks at what changed and at nothing else. */
#include "kit.h"

#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "table/cut.h"
#include "table/inside.h"
#include "table/restore.h"
#include "table/row.h"

#define DIM 3
#define N_KEYS 5000u

static fl_table *make(const char *settings)
{
    fl_table_config config;
    fl_table *t;

    assert_ok(fl_table_config_parse(&config, "rows", settings, 7));
    assert_ok(fl_table_create(&t, &config));
    return t;
}

static uint64_t random_state;

static uint64_t some_key(void)
{
    return fl_mix64(draw(&random_state) % N_KEYS);
}

static void push_some(fl_table *t, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        uint64_t key = some_key();
        float grads[DIM] = { (float)i, 1, -2 }, show = (float)(i % 5);

        assert_ok(fl_table_push(t, &(fl_rows){ .keys = &key,
                                               .values = grads,
                                               .shows = &show,
                                               .n = 1,
                                               .lr = 0.5,
                                               .merged = true }));
    }
}

static void remove_some(fl_table *t, size_t n)
{
    for (size_t i = 0; i < n; i++)
        fl_table_remove(t, (uint64_t[]){ some_key() }, 1, NULL);
}

/* --- from one table into another ------------------------------------------ */

typedef struct target {
    fl_table *t;
    uint64_t n[FL_CUT_KINDS];
} target;

/* Cuts the rows of a block up into columns, as a file has them. */
static void restore_block(fl_table *t, const fl_cut_block *b)
{
    const fl_row_layout *l = &fl_table_acc(t)->layout;
    fl_restore_rows r = { .kind = b->kind, .n = b->n, .keys = b->keys };
    uint32_t *epochs = malloc(b->n * sizeof(*epochs));
    float *columns[FL_ROW_FIELDS_MAX] = { 0 };
    int n = b->kind == FL_CUT_CANDIDATE ? 2 : l->n_fields;

    for (int f = 0; f < n; f++) {
        uint32_t at = b->kind == FL_CUT_CANDIDATE
                          ? (uint32_t)(4 + f * (int)sizeof(float))
                          : l->fields[f].offset;
        uint32_t len = b->kind == FL_CUT_CANDIDATE ? 1 : l->fields[f].len;

        if (at >= b->stride)
            break;
        columns[f] = malloc(b->n * len * sizeof(float));
        for (size_t i = 0; i < b->n; i++)
            memcpy(columns[f] + i * len, b->rows + i * b->stride + at,
                   len * sizeof(float));
        r.columns[f] = (fl_restore_column){ columns[f], len };
    }
    for (size_t i = 0; i < b->n; i++)
        epochs[i] = fl_row_epoch(b->rows + i * b->stride);
    r.epochs = epochs;
    assert_ok(fl_table_restore_rows(t, &r));
    for (int f = 0; f < FL_ROW_FIELDS_MAX; f++)
        free(columns[f]);
    free(epochs);
}

/* Keys that went come first in a shard that is read for them alone. */
static fl_status apply(void *arg, const fl_cut_block *b)
{
    target *to = arg;

    to->n[b->kind] += b->n;
    if (b->kind == FL_CUT_GONE)
        fl_table_remove(to->t, b->keys, b->n, NULL);
    else
        restore_block(to->t, b);
    return FL_OK;
}

static void apply_cut(fl_table_cut *c, target *to)
{
    for (uint32_t s = 0; s < FL_TABLE_SHARDS; s++)
        assert_ok(fl_table_cut_read(c, s, apply, to));
    assert_ok(fl_table_restore_moment(to->t, fl_table_cut_moment(c)));
}

/* Returns the epoch of the cut. */
static uint32_t save_into(fl_table *from, target *to, const fl_cut_options *o)
{
    fl_table_cut *c;
    uint32_t epoch;

    memset(to->n, 0, sizeof(to->n));
    assert_ok(fl_table_cut_begin(&c, from, o));
    epoch = fl_table_cut_moment(c)->epoch;
    apply_cut(c, to);
    fl_table_cut_end(c);
    return epoch;
}

typedef struct sums {
    uint64_t rows, bytes, candidates;
} sums;

static fl_status add_up(void *arg, const fl_cut_block *b)
{
    sums *s = arg;

    for (size_t i = 0; i < b->n; i++) {
        /* Padding behind the fields is nobody's. */
        size_t n =
            b->kind == FL_CUT_CANDIDATE ? b->stride : 4 + DIM * sizeof(float);

        s->bytes += fl_mix64(fl_hash_bytes(b->rows + i * b->stride, n) ^
                             fl_mix64(b->keys[i]));
    }
    *(b->kind == FL_CUT_CANDIDATE ? &s->candidates : &s->rows) += b->n;
    return FL_OK;
}

static sums sums_of(fl_table *t)
{
    sums s = { 0 };
    fl_table_cut *c;

    assert_ok(fl_table_cut_begin(&c, t, NULL));
    for (uint32_t i = 0; i < FL_TABLE_SHARDS; i++)
        assert_ok(fl_table_cut_read(c, i, add_up, &s));
    fl_table_cut_end(c);
    return s;
}

static void assert_equal_tables(fl_table *a, fl_table *b)
{
    sums x = sums_of(a), y = sums_of(b);

    assert_int_equal(x.rows, y.rows);
    assert_int_equal(x.candidates, y.candidates);
    assert_true(x.bytes == y.bytes);
}

/* --- chains --------------------------------------------------------------- */

static const char *const kinds[] = {
    "dim=3 optimizer=adam partitions=2",
    "dim=3 accessor=ctr optimizer=adagrad partitions=32 embedx_threshold=1",
    "dim=3 partitions=1 entry=count_filter_entry:3",
};

static void a_chain_of_deltas_on_its_base_is_the_table(void **state)
{
    (void)state;
    for (size_t k = 0; k < FL_LEN(kinds); k++) {
        fl_table *t = make(kinds[k]);
        target to = { .t = make(kinds[k]) };
        uint32_t epoch;

        random_state = k;
        push_some(t, 3 * N_KEYS);
        epoch = save_into(t, &to, &(fl_cut_options){ .watch = true });
        assert_equal_tables(t, to.t);
        for (int round = 0; round < 4; round++) {
            push_some(t, 150);
            remove_some(t, 60);
            push_some(t, 50);
            epoch = save_into(t, &to, &(fl_cut_options){ .since = epoch });
            assert_true(to.n[FL_CUT_GONE] > 0 && to.n[FL_CUT_GONE] <= 60);
            assert_true(to.n[FL_CUT_FULL] + to.n[FL_CUT_SHORT] +
                            to.n[FL_CUT_CANDIDATE] <=
                        200);
            assert_equal_tables(t, to.t);
        }
        fl_table_destroy(t);
        fl_table_destroy(to.t);
    }
}

/* A delta that could not be written is asked for again. */
static void a_delta_since_an_older_save_has_everything_since(void **state)
{
    fl_table *t = make(kinds[1]);
    target base = { .t = make(kinds[1]) }, lost = { .t = make(kinds[1]) };
    uint32_t epoch;

    (void)state;
    random_state = 5;
    push_some(t, N_KEYS);
    epoch = save_into(t, &base, &(fl_cut_options){ .watch = true });
    for (int round = 0; round < 3; round++) {
        push_some(t, 100);
        remove_some(t, 10);
        (void)save_into(t, &lost, &(fl_cut_options){ .since = epoch });
    }
    push_some(t, 100);
    (void)save_into(t, &base, &(fl_cut_options){ .since = epoch });
    assert_equal_tables(t, base.t);
    fl_table_destroy(t);
    fl_table_destroy(base.t);
    fl_table_destroy(lost.t);
}

static void a_delta_is_of_its_moment_while_the_table_goes_on(void **state)
{
    fl_table *t = make(kinds[1]), *twin = make(kinds[1]);
    target to = { .t = make(kinds[1]) };
    fl_table_cut *c;
    uint32_t epoch;

    (void)state;
    random_state = 9;
    push_some(t, N_KEYS);
    epoch = save_into(t, &to, &(fl_cut_options){ .watch = true });
    push_some(t, 500);
    remove_some(t, 50);
    (void)save_into(t, &(target){ .t = twin }, NULL);
    assert_ok(fl_table_cut_begin(&c, t, &(fl_cut_options){ .since = epoch }));
    for (uint32_t s = 0; s < FL_TABLE_SHARDS; s++) {
        assert_ok(fl_table_cut_read(c, s, apply, &to));
        push_some(t, 5);
        remove_some(t, 2);
    }
    fl_table_cut_end(c);
    assert_equal_tables(twin, to.t);
    fl_table_destroy(t);
    fl_table_destroy(twin);
    fl_table_destroy(to.t);
}

/* --- when there is none --------------------------------------------------- */

static void expect_no_delta(fl_table *t, uint32_t since, const char *why)
{
    fl_table_cut *c;

    assert_int_equal(
        fl_table_cut_begin(&c, t, &(fl_cut_options){ .since = since }),
        FL_ERR_NOTFOUND);
    if (!strstr(fl_last_error(), why))
        fail_msg("'%s' does not say '%s'", fl_last_error(), why);
}

static void watch_anew(fl_table *t)
{
    push_some(t, 100);
    assert_int_equal(fl_table_watch(t), fl_table_epoch(t));
    assert_int_equal(fl_table_watched_since(t), fl_table_epoch(t));
}

static void a_delta_is_refused_when_changes_are_not_known(void **state)
{
    fl_table *t = make(kinds[1]);
    float value[DIM] = { 0 };
    uint64_t key = 1;

    (void)state;
    random_state = 2;
    assert_int_equal(fl_table_watched_since(t), 0);
    expect_no_delta(t, 1, "is not known; make a whole save first");
    (void)fl_table_advance_epoch(t);
    watch_anew(t);
    expect_no_delta(t, 1, "is known since epoch 2, and not since 1");
    assert_ok(fl_table_shrink(t, 0, NULL));
    assert_int_equal(fl_table_watched_since(t), 0);
    watch_anew(t);
    fl_table_clear(t);
    assert_int_equal(fl_table_watched_since(t), 0);
    watch_anew(t);
    assert_ok(fl_table_restore_rows(
        t, &(fl_restore_rows){
               .n = 1, .keys = &key, .columns = { { value, 1 } } }));
    assert_int_equal(fl_table_watched_since(t), 0);
    fl_table_destroy(t);
}

/* Keys that come and go are told each time: the log has an end. */
static void a_log_that_is_full_is_given_up(void **state)
{
    enum { CALL = 1000, CALLS = 400 };
    fl_table *t = make("dim=3 partitions=1 init=constant(0)");
    static uint64_t keys[CALL];
    static float values[CALL * DIM];
    size_t before = fl_data_bytes(), most = 0;
    int n = 0;

    (void)state;
    (void)fl_table_watch(t);
    for (; n < CALLS && fl_table_watched_since(t); n++) {
        for (size_t i = 0; i < CALL; i++)
            keys[i] = (uint64_t)n * CALL + i;
        assert_ok(fl_table_pull(t, keys, CALL, FL_PULL_CREATE, values));
        fl_table_remove(t, keys, CALL, NULL);
        most = fl_data_bytes() > most ? fl_data_bytes() : most;
    }
    assert_true(n > 50 && n < CALLS);
    assert_true(most - before < (size_t)4 << 20);
    expect_no_delta(t, 1, "make a whole save first");
    fl_table_destroy(t);
}

/* --- saves for serving ---------------------------------------------------- */

static void push_score(fl_table *t, uint64_t key, float show, float click)
{
    float grads[DIM] = { 0 };

    assert_ok(fl_table_push(t, &(fl_rows){ .keys = &key,
                                           .values = grads,
                                           .shows = &show,
                                           .clicks = &click,
                                           .n = 1,
                                           .lr = 1,
                                           .merged = true }));
}

typedef struct picked {
    uint64_t keys[16];
    size_t n;
} picked;

static fl_status note_keys(void *arg, const fl_cut_block *b)
{
    picked *p = arg;

    assert_true(b->kind == FL_CUT_FULL || b->kind == FL_CUT_SHORT);
    for (size_t i = 0; i < b->n; i++)
        p->keys[p->n++] = b->keys[i];
    return FL_OK;
}

static picked pick(fl_table *t, fl_cut_pick how, bool is_saved)
{
    picked p = { 0 };
    fl_table_cut *c;
    uint64_t n[FL_CUT_KINDS], sum = 0;

    assert_ok(fl_table_cut_begin(&c, t, &(fl_cut_options){ .pick = how }));
    for (uint32_t s = 0; s < FL_TABLE_SHARDS; s++) {
        assert_ok(fl_table_cut_counts(c, s, n));
        sum += n[FL_CUT_FULL] + n[FL_CUT_SHORT];
        assert_ok(fl_table_cut_read(c, s, note_keys, &p));
    }
    assert_int_equal(p.n, sum);
    if (is_saved)
        fl_table_cut_spend(c);
    fl_table_cut_end(c);
    return p;
}

static bool has(const picked *p, uint64_t key)
{
    for (size_t i = 0; i < p->n; i++)
        if (p->keys[i] == key)
            return true;
    return false;
}

/* Scores are (show - click) * 0.1 + click. */
static void a_save_for_serving_takes_rows_by_their_scores(void **state)
{
    fl_table *t = make("dim=3 accessor=ctr delta_keep_days=1");
    picked p;

    (void)state;
    push_score(t, 1, 10, 1); /* 1.9 */
    push_score(t, 2, 10, 0); /* 1.0: below base_threshold */
    push_score(t, 3, 2, 2);  /* 2.0 */
    p = pick(t, FL_PICK_BASE, true);
    assert_true(p.n == 2 && has(&p, 1) && has(&p, 3));
    p = pick(t, FL_PICK_DELTA, true);
    assert_int_equal(p.n, 0);

    push_score(t, 1, 1, 0); /* 0.1: below delta_threshold */
    push_score(t, 2, 0, 1); /* 0.9 on top: 1.9 in all */
    p = pick(t, FL_PICK_DELTA, false);
    assert_true(p.n == 1 && has(&p, 2));
    p = pick(t, FL_PICK_DELTA, true);
    assert_true(p.n == 1 && has(&p, 2));
    push_score(t, 1, 2, 0); /* 0.3 since the base */
    p = pick(t, FL_PICK_DELTA, true);
    assert_true(p.n == 1 && has(&p, 1));

    fl_table_end_day(t);
    push_score(t, 3, 1, 1);
    fl_table_end_day(t);
    p = pick(t, FL_PICK_BASE, true);
    assert_true(p.n == 1 && has(&p, 3));
    fl_table_destroy(t);
}

static void what_is_pushed_behind_a_cut_is_not_spent(void **state)
{
    fl_table *t = make("dim=3 accessor=ctr");
    picked p = { 0 };
    fl_table_cut *c;

    (void)state;
    push_score(t, 1, 2, 2);
    assert_ok(
        fl_table_cut_begin(&c, t, &(fl_cut_options){ .pick = FL_PICK_BASE }));
    push_score(t, 1, 1, 1);
    for (uint32_t s = 0; s < FL_TABLE_SHARDS; s++)
        assert_ok(fl_table_cut_read(c, s, note_keys, &p));
    fl_table_cut_spend(c);
    fl_table_cut_end(c);
    assert_int_equal(p.n, 1);
    p = pick(t, FL_PICK_DELTA, true);
    assert_int_equal(p.n, 1);
    p = pick(t, FL_PICK_DELTA, true);
    assert_int_equal(p.n, 0);
    fl_table_destroy(t);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_chain_of_deltas_on_its_base_is_the_table),
        cmocka_unit_test(a_delta_since_an_older_save_has_everything_since),
        cmocka_unit_test(a_delta_is_of_its_moment_while_the_table_goes_on),
        cmocka_unit_test(a_delta_is_refused_when_changes_are_not_known),
        cmocka_unit_test(a_log_that_is_full_is_given_up),
        cmocka_unit_test(a_save_for_serving_takes_rows_by_their_scores),
        cmocka_unit_test(what_is_pushed_behind_a_cut_is_not_spent),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
