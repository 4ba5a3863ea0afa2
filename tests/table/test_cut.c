/* test_cut.c - a cut is the table of one moment: whatever happens to the table
 * while it is read, what is read is what a copy of the table would have given
 * when the cut began. */
#include "kit.h"

#include <inttypes.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/thread.h"
#include "base/vec.h"
#include "table/cut.h"
#include "table/inside.h"
#include "table/row.h"

#define DIM 4
#define N_KEYS 6000u

static fl_table *make(const char *settings)
{
    fl_table_config config;
    fl_table *t;

    assert_ok(fl_table_config_parse(&config, "rows", settings, 7));
    assert_ok(fl_table_create(&t, &config));
    return t;
}

static uint64_t key_of(size_t i)
{
    return fl_mix64(i + 1);
}

/* --- everything that was read --------------------------------------------- */

typedef struct entry {
    uint64_t key;
    fl_cut_kind kind;
    size_t n;
    char *bytes;
} entry;

typedef FL_VEC(entry) entries;

static fl_status note(void *arg, const fl_cut_block *b)
{
    entries *to = arg;

    for (size_t i = 0; i < b->n; i++) {
        entry e = { b->keys[i], b->kind, b->stride, NULL };

        e.bytes = malloc(b->stride + 1);
        if (b->rows)
            memcpy(e.bytes, b->rows + i * b->stride, b->stride);
        fl_vec_push(to, e);
    }
    return FL_OK;
}

/* Blocks of a kind are in the order of the hash, and as many as was said. */
static void check_shard(fl_table_cut *c, uint32_t shard, const entries *from,
                        size_t lo, const uint64_t n[FL_CUT_KINDS])
{
    uint64_t seen[FL_CUT_KINDS] = { 0 }, last[FL_CUT_KINDS] = { 0 };

    (void)c;
    for (size_t i = lo; i < from->len; i++) {
        const entry *e = &from->data[i];
        uint64_t hash = fl_hash_key(e->key);

        assert_int_equal(fl_table_shard_of(e->key), shard);
        assert_true(!seen[e->kind] || hash > last[e->kind]);
        last[e->kind] = hash;
        seen[e->kind]++;
    }
    for (int k = 0; k < FL_CUT_KINDS; k++)
        assert_int_equal(seen[k], n[k]);
}

static void read_shard(fl_table_cut *c, uint32_t shard, entries *to)
{
    uint64_t n[FL_CUT_KINDS];
    size_t lo = to->len;

    assert_ok(fl_table_cut_counts(c, shard, n));
    assert_ok(fl_table_cut_read(c, shard, note, to));
    check_shard(c, shard, to, lo, n);
}

static entries read_all(fl_table_cut *c)
{
    entries all = { 0 };

    for (uint32_t s = 0; s < FL_TABLE_SHARDS; s++)
        read_shard(c, s, &all);
    return all;
}

static void release(entries *all)
{
    for (size_t i = 0; i < all->len; i++)
        free(all->data[i].bytes);
    fl_vec_release(all);
}

static int by_key(const void *a, const void *b)
{
    const entry *x = a, *y = b;

    if (x->key != y->key)
        return x->key < y->key ? -1 : 1;
    return (x->kind > y->kind) - (x->kind < y->kind);
}

static void assert_same(entries *a, entries *b)
{
    assert_int_equal(a->len, b->len);
    if (!a->len)
        return;
    qsort(a->data, a->len, sizeof(entry), by_key);
    qsort(b->data, b->len, sizeof(entry), by_key);
    for (size_t i = 0; i < a->len; i++) {
        assert_true(a->data[i].key == b->data[i].key);
        assert_int_equal(a->data[i].kind, b->data[i].kind);
        assert_memory_equal(a->data[i].bytes, b->data[i].bytes, a->data[i].n);
    }
}

/* What a cut that nobody disturbs gives. */
static entries snapshot(fl_table *t, const fl_cut_options *o)
{
    fl_table_cut *c;
    entries all;

    assert_ok(fl_table_cut_begin(&c, t, o));
    all = read_all(c);
    fl_table_cut_end(c);
    return all;
}

/* --- things that happen to a table ---------------------------------------- */

static uint64_t random_state = 1;

static void push_some(fl_table *t, size_t n)
{
    uint64_t *keys = malloc(n * sizeof(*keys));
    float *grads = malloc(n * DIM * sizeof(*grads));
    float *shows = malloc(n * sizeof(*shows));

    for (size_t i = 0; i < n; i++) {
        keys[i] = key_of(draw(&random_state) % N_KEYS);
        shows[i] = (float)(draw(&random_state) % 8);
        for (size_t d = 0; d < DIM; d++)
            grads[i * DIM + d] = (float)(draw(&random_state) % 100) - 50;
    }
    assert_ok(fl_table_push(t, &(fl_rows){ .keys = keys,
                                           .values = grads,
                                           .shows = shows,
                                           .n = n,
                                           .lr = 0.01 }));
    free(keys);
    free(grads);
    free(shows);
}

static void remove_some(fl_table *t)
{
    uint64_t keys[100];

    for (size_t i = 0; i < FL_LEN(keys); i++)
        keys[i] = key_of(draw(&random_state) % N_KEYS);
    fl_table_remove(t, keys, FL_LEN(keys), NULL);
}

static void assign_some(fl_table *t)
{
    uint64_t keys[50];
    float values[50 * DIM] = { 1 };

    for (size_t i = 0; i < FL_LEN(keys); i++)
        keys[i] = key_of(draw(&random_state) % N_KEYS);
    assert_ok(fl_table_assign(t, keys, FL_LEN(keys), values));
    assert_ok(fl_table_add(t, keys, FL_LEN(keys), values));
}

static void push_a_few(fl_table *t)
{
    push_some(t, 60);
}

static void pull_new(fl_table *t)
{
    uint64_t keys[50];
    float values[50 * DIM];

    for (size_t i = 0; i < FL_LEN(keys); i++)
        keys[i] = key_of(draw(&random_state) % (2 * N_KEYS));
    assert_ok(fl_table_pull(t, keys, FL_LEN(keys), FL_PULL_CREATE, values));
}

static void end_day(fl_table *t)
{
    fl_table_end_day(t);
}

static void shrink(fl_table *t)
{
    assert_ok(fl_table_shrink(t, 2, NULL));
}

static void clear(fl_table *t)
{
    fl_table_clear(t);
}

typedef void (*happening)(fl_table *t);

static const happening usual[] = { push_a_few,  remove_some, assign_some,
                                   pull_new,    end_day,     push_a_few,
                                   assign_some, push_a_few };

static const char *const kinds[] = {
    "dim=4 optimizer=adam partitions=1",
    "dim=4 optimizer=sgd partitions=32 init=uniform(-1,1)",
    "dim=4 accessor=ctr optimizer=adagrad partitions=2 embedx_threshold=1",
    ("dim=4 accessor=ctr optimizer=adam partitions=4 embedx_threshold=2 "
     "entry=show_click_entry:1"),
    "dim=4 optimizer=momentum partitions=2 entry=count_filter_entry:3",
};

/* A twin gets the same calls up to the cut and gives the table as it was. */
static void fill(fl_table *t)
{
    for (int i = 0; i < 6; i++) {
        push_some(t, N_KEYS / 2);
        remove_some(t);
        if (i % 2)
            fl_table_end_day(t);
    }
}

static void cut_among(const char *settings, const happening *list, size_t n,
                      const fl_cut_options *o)
{
    fl_table *t = make(settings);
    entries before, during = { 0 };
    fl_table_cut *c;
    size_t next = 0;

    random_state = 1;
    fill(t);
    before = snapshot(t, o);
    assert_true(before.len > N_KEYS / 4);
    assert_ok(fl_table_cut_begin(&c, t, o));
    for (uint32_t s = 0; s < FL_TABLE_SHARDS; s++) {
        if (s % 16 == 0)
            list[next++ % n](t);
        read_shard(c, s, &during);
    }
    assert_same(&before, &during);
    fl_table_cut_end(c);
    release(&before);
    release(&during);
    fl_table_destroy(t);
}

static void a_cut_is_the_table_of_its_moment_whatever_happens(void **state)
{
    (void)state;
    for (size_t i = 0; i < FL_LEN(kinds); i++)
        cut_among(kinds[i], usual, FL_LEN(usual), NULL);
}

static void rows_that_age_or_go_all_at_once_are_in_the_cut(void **state)
{
    static const happening shrinking[] = { push_a_few, shrink, end_day,
                                           shrink };
    static const happening clearing[] = { push_a_few, clear, push_a_few,
                                          pull_new, clear };

    (void)state;
    for (size_t i = 0; i < FL_LEN(kinds); i++) {
        cut_among(kinds[i], shrinking, FL_LEN(shrinking), NULL);
        cut_among(kinds[i], clearing, FL_LEN(clearing), NULL);
    }
}

/* --- what else belongs to the moment -------------------------------------- */

static void a_cut_has_epoch_days_and_scalars_of_its_moment(void **state)
{
    fl_table *t = make("dim=4 optimizer=adam beta1=0.5");
    const fl_cut_moment *m;
    fl_table_cut *c;

    (void)state;
    push_some(t, 10);
    fl_table_end_day(t);
    push_some(t, 10);
    assert_ok(fl_table_cut_begin(&c, t, NULL));
    m = fl_table_cut_moment(c);
    push_some(t, 10);
    fl_table_end_day(t);
    assert_int_equal(m->epoch, 3);
    assert_int_equal(fl_table_epoch(t), 4);
    assert_int_equal(m->n_days, 1);
    assert_int_equal(m->days[0], 2);
    assert_int_equal(m->n_scalars, 2);
    assert_true(m->scalars[0] == 0.5 * 0.5 * 0.5 || m->scalars[0] == 0.5 * 0.5);
    fl_table_cut_end(c);
    fl_table_destroy(t);
}

static void there_is_one_cut_at_a_time(void **state)
{
    fl_table *t = make("dim=4");
    fl_table_cut *c, *other;

    (void)state;
    assert_ok(fl_table_cut_begin(&c, t, NULL));
    assert_int_equal(fl_table_cut_begin(&other, t, NULL), FL_ERR_INVAL);
    assert_non_null(strstr(fl_last_error(), "a save is under way"));
    fl_table_cut_end(c);
    assert_ok(fl_table_cut_begin(&c, t, NULL));
    fl_table_cut_end(c);
    fl_table_cut_end(NULL);
    fl_table_destroy(t);
}

static void copies_are_counted_and_only_made_of_what_changes(void **state)
{
    fl_table *t = make("dim=4 partitions=2");
    size_t data = fl_data_bytes();
    fl_cut_stats s;
    fl_table_cut *c;
    uint64_t keys[3] = { key_of(1), key_of(2), key_of(3) };
    float grads[3 * DIM] = { 0 };
    fl_rows push = {
        .keys = keys, .values = grads, .n = 3, .lr = 1, .merged = true
    };

    (void)state;
    fill(t);
    assert_ok(fl_table_push(t, &push));
    data = fl_data_bytes();
    assert_ok(fl_table_cut_begin(&c, t, NULL));
    for (int i = 0; i < 3; i++)
        assert_ok(fl_table_push(t, &push));
    pull_new(t);
    fl_table_cut_stats(c, &s);
    assert_int_equal(s.copies, 3);
    assert_true(s.copies_bytes >= 3 * (4 + DIM * sizeof(float)));
    assert_true(s.copies_bytes <= fl_data_bytes() - data);
    fl_table_cut_end(c);
    fl_table_destroy(t);
}

static void a_cut_without_memory_for_copies_fails_and_no_push_does(void **state)
{
    fl_table *t = make("dim=4 partitions=1");
    entries all = { 0 };
    fl_table_cut *c;
    uint64_t key = 5;
    float grads[DIM] = { 0 };
    fl_rows push = {
        .keys = &key, .values = grads, .n = 1, .lr = 1, .merged = true
    };
    fl_status st;

    (void)state;
    fill(t);
    assert_ok(fl_table_push(t, &push));
    assert_ok(fl_table_cut_begin(&c, t, NULL));
    fl_alloc_fail_after(1);
    assert_ok(fl_table_push(t, &push));
    fl_alloc_fail_after(0);
    st = fl_table_cut_read(c, 0, note, &all);
    assert_int_equal(st, FL_ERR_NOMEM);
    assert_non_null(strstr(fl_last_error(), "copy a row that changed"));
    fl_table_cut_end(c);
    release(&all);
    all = snapshot(t, NULL);
    assert_int_equal(all.len, stats_of(t).rows);
    release(&all);
    fl_table_destroy(t);
}

/* --- threads -------------------------------------------------------------- */

typedef struct pusher {
    fl_table *t;
    uint64_t seed;
    atomic_bool *stop;
} pusher;

static void push_on(void *arg)
{
    pusher *p = arg;
    uint64_t keys[64], s = p->seed;
    float grads[64 * DIM];

    for (size_t i = 0; i < FL_LEN(grads); i++)
        grads[i] = 1;
    while (!atomic_load(p->stop)) {
        for (size_t i = 0; i < FL_LEN(keys); i++)
            keys[i] = key_of(draw(&s) % (N_KEYS + N_KEYS / 8));
        assert_ok(fl_table_push(p->t, &(fl_rows){ .keys = keys,
                                                  .values = grads,
                                                  .n = FL_LEN(keys),
                                                  .lr = 1 }));
        if (draw(&s) % 16 == 0)
            fl_table_remove(p->t, keys, 4, NULL);
    }
}

typedef struct reader {
    fl_table_cut *c;
    uint32_t lo, hi;
    entries all;
} reader;

static void read_range(void *arg)
{
    reader *r = arg;

    for (uint32_t s = r->lo; s < r->hi; s++)
        read_shard(r->c, s, &r->all);
}

static void read_by_two(fl_table_cut *c, entries *out)
{
    reader r[2] = { { c, 0, FL_TABLE_SHARDS / 2, { 0 } },
                    { c, FL_TABLE_SHARDS / 2, FL_TABLE_SHARDS, { 0 } } };
    fl_thread *thread;

    assert_ok(fl_thread_start(&thread, "reader", read_range, &r[0]));
    read_range(&r[1]);
    fl_thread_join(thread);
    *out = r[0].all;
    for (size_t i = 0; i < r[1].all.len; i++)
        fl_vec_push(out, r[1].all.data[i]);
    fl_vec_release(&r[1].all);
}

/* Pushers start behind the first cut, so the one before it has the same rows;
   epochs of the two differ by nothing, for nothing was pushed between. */
static void threads_push_while_others_read_a_cut(void **state)
{
    fl_table *t = make("dim=4 partitions=4 init=constant(0)");
    atomic_bool stop = false;
    pusher p[2] = { { t, 1, &stop }, { t, 2, &stop } };
    fl_thread *threads[2];
    entries before, during;
    fl_table_cut *c;

    (void)state;
    fill(t);
    before = snapshot(t, NULL);
    assert_ok(fl_table_cut_begin(&c, t, NULL));
    for (int i = 0; i < 2; i++)
        assert_ok(fl_thread_start(&threads[i], "pusher", push_on, &p[i]));
    read_by_two(c, &during);
    atomic_store(&stop, true);
    for (int i = 0; i < 2; i++)
        fl_thread_join(threads[i]);
    assert_same(&before, &during);
    fl_table_cut_end(c);
    release(&before);
    release(&during);
    fl_table_destroy(t);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_cut_is_the_table_of_its_moment_whatever_happens),
        cmocka_unit_test(rows_that_age_or_go_all_at_once_are_in_the_cut),
        cmocka_unit_test(a_cut_has_epoch_days_and_scalars_of_its_moment),
        cmocka_unit_test(there_is_one_cut_at_a_time),
        cmocka_unit_test(copies_are_counted_and_only_made_of_what_changes),
        cmocka_unit_test(
            a_cut_without_memory_for_copies_fails_and_no_push_does),
        cmocka_unit_test(threads_push_while_others_read_a_cut),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
