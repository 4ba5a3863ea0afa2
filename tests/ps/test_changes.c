/* test_changes.c - the log of pushed keys: everybody hears of what the others
 * did, nothing is missed, and the log stays small. */
#include "client_kit.h"

#include <stdlib.h>

#include "base/alloc.h"
#include "base/hash.h"
#include "base/thread.h"
#include "ps/store/changes.h"

#define MANY                                                                   \
    UINT64_MAX /                                                               \
        FL_CHANGES_PER_ROW /* rows: the log forgets nothing           \
                                     */

/* --- the log alone -------------------------------------------------------- */

typedef struct news {
    uint64_t keys[64];
    size_t n;
    bool is_all;
    uint64_t next;
} news;

static int by_key(const void *a, const void *b)
{
    uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;

    return (x > y) - (x < y);
}

/* They come in the order of their hashes, and are compared in their own. */
static news news_of(fl_changed *changed)
{
    news s = { .n = changed->n,
               .is_all = changed->is_all,
               .next = changed->next };

    assert_in_range(s.n, 0, FL_LEN(s.keys));
    for (size_t i = 1; i < s.n; i++)
        assert_true(fl_hash_key(changed->keys[i - 1]) <
                    fl_hash_key(changed->keys[i]));
    if (s.n)
        memcpy(s.keys, changed->keys, s.n * sizeof(*s.keys));
    qsort(s.keys, s.n, sizeof(*s.keys), by_key);
    fl_data_free(changed->keys, changed->bytes);
    return s;
}

static news since(fl_changes *c, uint32_t rank, uint64_t cursor)
{
    fl_changed changed;

    assert_ok(fl_changes_since(c, rank, cursor, &changed));
    fl_changes_seen(c, rank, changed.is_all ? changed.next : cursor);
    return news_of(&changed);
}

static news again(fl_changes *c, uint32_t rank, uint64_t cursor)
{
    fl_changed changed;

    assert_ok(fl_changes_since(c, rank, cursor, &changed));
    return news_of(&changed);
}

#define note(c, rank, ...)                                                     \
    fl_changes_note(c, rank, (const uint64_t[]){ __VA_ARGS__ },                \
                    FL_LEN(((const uint64_t[]){ __VA_ARGS__ })), MANY)

#define expect_keys(s, ...)                                                    \
    do {                                                                       \
        const uint64_t right[] = { __VA_ARGS__ };                              \
                                                                               \
        assert_false((s).is_all);                                              \
        assert_int_equal((s).n, FL_LEN(right));                                \
        assert_memory_equal((s).keys, right, sizeof(right));                   \
    } while (0)

static void everybody_hears_of_the_others_once(void **state)
{
    fl_changes *c = fl_changes_new();
    uint64_t at[3];
    news s;

    (void)state;
    for (uint32_t rank = 0; rank < 3; rank++) {
        s = since(c, rank, 0);
        assert_true(s.is_all && !s.n);
        at[rank] = s.next;
    }
    note(c, 0, 5, 6);
    note(c, 1, 7, 5, 7);
    note(c, 0, 8, 6);
    s = since(c, 0, at[0]);
    expect_keys(s, 5, 7);
    s = since(c, 1, at[1]);
    expect_keys(s, 5, 6, 8);
    at[1] = s.next;
    /* Its answer was lost on the way, or it is asked twice. */
    s = since(c, 2, at[2]);
    expect_keys(s, 5, 6, 7, 8);
    note(c, 2, 1);
    s = since(c, 2, at[2]);
    expect_keys(s, 5, 6, 7, 8);
    s = since(c, 2, s.next);
    assert_true(!s.n && !s.is_all);
    s = since(c, 1, at[1]);
    expect_keys(s, 1);
    fl_changes_free(c);
}

static void a_cursor_that_was_never_given_is_refused(void **state)
{
    fl_changes *c = fl_changes_new();
    fl_changed changed;

    (void)state;
    assert_int_equal(fl_changes_since(c, 4, 99, &changed), FL_ERR_INVAL);
    assert_has(fl_last_error(), "trainer 4 asks for changes from 99 on");
    fl_changes_free(c);
}

/* Who reads page by page has its cursor of the first page still to come. */
static void a_reader_that_asks_again_has_not_seen_more(void **state)
{
    fl_changes *c = fl_changes_new();
    uint64_t next;
    news s;

    (void)state;
    next = since(c, 0, 0).next;
    note(c, 1, 5);
    s = again(c, 0, 0);
    assert_true(s.is_all && !s.n);
    note(c, 1, 6);
    s = since(c, 0, next);
    expect_keys(s, 5, 6);
    note(c, 1, 7);
    s = again(c, 0, next);
    expect_keys(s, 5, 6, 7);
    s = since(c, 0, next);
    expect_keys(s, 5, 6, 7);
    fl_changes_free(c);
}

static void what_all_have_seen_is_dropped(void **state)
{
    fl_changes *c = fl_changes_new();
    uint64_t at[2] = { since(c, 0, 0).next, since(c, 1, 0).next };
    size_t before;

    (void)state;
    for (uint64_t i = 0; i < 100; i++) {
        note(c, 0, i, i + 1);
        at[0] = since(c, 0, at[0]).next;
        at[1] = since(c, 1, at[1]).next;
    }
    before = fl_data_bytes();
    for (uint64_t i = 0; i < 100000; i++) {
        news s;

        note(c, i % 2, i, i + 1, i + 2);
        s = since(c, 0, at[0]);
        at[0] = s.next;
        assert_int_equal(s.n, i % 2 ? 3 : 0);
        at[1] = since(c, 1, at[1]).next;
    }
    assert_true(fl_data_bytes() == before);
    fl_changes_free(c);
}

static void a_reader_that_is_gone_does_not_make_the_log_grow(void **state)
{
    fl_changes *c = fl_changes_new();
    size_t before = fl_data_bytes();
    uint64_t gone = since(c, 0, 0).next, late;
    const uint64_t n_rows = 100;
    news s;

    (void)state;
    for (uint64_t i = 0; i < 100000; i++) {
        uint64_t keys[] = { i % n_rows, (i + 1) % n_rows };

        fl_changes_note(c, 1, keys, 2, n_rows);
    }
    assert_true(fl_data_bytes() - before < 64 << 10);
    s = since(c, 0, gone);
    assert_true(s.is_all && !s.n);
    /* From there on it is up to date, and what is left is what fits. */
    late = s.next;
    for (uint64_t i = 0; i < n_rows; i++)
        fl_changes_note(c, 1, &i, 1, n_rows);
    for (uint64_t i = 0; i < 3; i++)
        fl_changes_note(c, 1, &i, 1, n_rows);
    s = since(c, 0, late + n_rows);
    expect_keys(s, 0, 1, 2);
    fl_changes_free(c);
}

static void without_memory_the_log_is_forgotten_and_says_so(void **state)
{
    fl_changes *c = fl_changes_new();
    uint64_t at = since(c, 0, 0).next, key = 3;
    fl_changed changed;
    news s;

    (void)state;
    note(c, 1, 1, 2, 1);
    /* For the keys, and to put them in order. */
    for (uint64_t i = 1; i <= 2; i++) {
        fl_alloc_fail_after(i);
        assert_int_equal(fl_changes_since(c, 0, at, &changed), FL_ERR_NOMEM);
        fl_alloc_fail_after(0);
    }
    s = since(c, 0, at);
    expect_keys(s, 1, 2);
    at = s.next;
    /* The first note takes memory for keys and for pushes. */
    fl_changes_free(c);
    for (uint64_t i = 1; i <= 2; i++) {
        c = fl_changes_new();
        at = since(c, 0, 0).next;
        fl_alloc_fail_after(i);
        fl_changes_note(c, 1, &key, 1, MANY);
        fl_alloc_fail_after(0);
        s = since(c, 0, at);
        assert_true(s.is_all);
        note(c, 1, 9);
        s = since(c, 0, s.next);
        expect_keys(s, 9);
        fl_changes_free(c);
    }
}

/* --- threads -------------------------------------------------------------- */

#define N_THREADS 4
#define N_PUSHES 2000

typedef struct worker {
    fl_changes *c;
    uint32_t rank;
    uint64_t cursor;
    uint64_t n_heard[N_THREADS];
    fl_thread *thread;
} worker;

static void hear(worker *w)
{
    fl_changed changed;

    if (fl_changes_since(w->c, w->rank, w->cursor, &changed))
        fl_die(__FILE__, __LINE__, "%s", fl_last_error());
    fl_changes_seen(w->c, w->rank, changed.is_all ? changed.next : w->cursor);
    w->cursor = changed.next;
    /* All keys differ, so that each is heard of once. */
    for (size_t i = 0; i < changed.n; i++)
        w->n_heard[changed.keys[i] % N_THREADS]++;
    fl_data_free(changed.keys, changed.bytes);
}

static void work(void *arg)
{
    worker *w = arg;

    for (uint64_t i = 0; i < N_PUSHES; i++) {
        uint64_t keys[2] = { (2 * i) * N_THREADS + w->rank,
                             (2 * i + 1) * N_THREADS + w->rank };

        fl_changes_note(w->c, w->rank, keys, 2, MANY);
        if (i % 7 == w->rank)
            hear(w);
    }
}

static void threads_note_and_read_at_once(void **state)
{
    fl_changes *c = fl_changes_new();
    worker w[N_THREADS];

    (void)state;
    for (uint32_t i = 0; i < N_THREADS; i++)
        w[i] = (worker){ .c = c, .rank = i, .cursor = since(c, i, 0).next };
    for (uint32_t i = 0; i < N_THREADS; i++)
        assert_ok(fl_thread_start(&w[i].thread, "worker", work, &w[i]));
    for (uint32_t i = 0; i < N_THREADS; i++)
        fl_thread_join(w[i].thread);
    for (uint32_t i = 0; i < N_THREADS; i++) {
        hear(&w[i]);
        for (uint32_t k = 0; k < N_THREADS; k++)
            assert_int_equal(w[i].n_heard[k], i == k ? 0 : 2 * N_PUSHES);
    }
    fl_changes_free(c);
}

/* --- through clients and servers ------------------------------------------ */

#define TABLES                                                                 \
    TABLE_TEXT("emb", "dim=4 init=uniform(-1,1)")                              \
    TABLE_TEXT("other", "dim=1 init=constant(0)") SERVE_TEXT("")

#define KEYS_MAX 400
#define PIECE 100

typedef struct rows {
    outcome o;
    uint64_t keys[KEYS_MAX];
    float values[KEYS_MAX * DIM];
    size_t n;
    int n_calls;
} rows;

static void on_rows(void *arg, const uint64_t *keys, size_t n,
                    const float *values)
{
    rows *r = arg;

    assert_false(r->o.is_over);
    assert_in_range(r->n + n, 0, KEYS_MAX);
    memcpy(r->keys + r->n, keys, n * sizeof(*keys));
    memcpy(r->values + r->n * DIM, values, n * DIM * sizeof(*values));
    r->n += n;
    r->n_calls++;
}

static void changed(job *j, int trainer, uint64_t *cursors, rows *r)
{
    *r = (rows){ 0 };
    assert_ok(fl_client_changed(j->clients[trainer],
                                &(fl_client_changes){ 0, DIM, cursors },
                                on_rows, (fl_ending){ on_outcome, r }));
    assert_ok(job_end(j, &r->o));
    assert_true(r->n_calls >= j->n_servers);
}

static void push(job *j, int trainer, uint64_t from, uint64_t n)
{
    static const uint32_t dim = DIM;
    uint64_t keys[KEYS_MAX];
    float grads[KEYS_MAX * DIM];
    fl_job_push_item item = { .rows = {
                                  .keys = keys, .values = grads, .n = n } };
    outcome o = { 0 };

    item.rows.lr = 1;
    item.rows.merged = true;
    for (uint64_t i = 0; i < n; i++)
        keys[i] = from + i;
    for (uint64_t i = 0; i < n * DIM; i++)
        grads[i] = (float)(i % 8) - 3;
    assert_ok(fl_client_push(j->clients[trainer], &item, &dim, 1,
                             (fl_ending){ on_outcome, &o }));
    assert_ok(job_end(j, &o));
}

/* In pieces that fit into a small message. */
static void pull(job *j, const uint64_t *keys, size_t n, float *out)
{
    static const uint32_t dim = DIM;

    for (size_t lo = 0; lo < n; lo += PIECE) {
        size_t some = n - lo < PIECE ? n - lo : PIECE;
        fl_job_pull_item item = { .keys = keys + lo,
                                  .n = some,
                                  .kind = FL_PULL_ONLY,
                                  .out = out + lo * DIM };
        outcome o = { 0 };

        assert_ok(fl_client_pull(j->clients[0], &item, &dim, 1,
                                 (fl_ending){ on_outcome, &o }));
        assert_ok(job_end(j, &o));
    }
}

/* Keys [from, to), in any order, with the values that a pull gives. */
static void expect_rows(job *j, const rows *r, uint64_t from, uint64_t to)
{
    float values[KEYS_MAX * DIM];
    bool seen[KEYS_MAX] = { false };

    assert_int_equal(r->n, to - from);
    for (size_t i = 0; i < r->n; i++) {
        assert_in_range(r->keys[i], from, to - 1);
        assert_false(seen[r->keys[i] - from]);
        seen[r->keys[i] - from] = true;
    }
    pull(j, r->keys, r->n, values);
    assert_memory_equal(r->values, values, r->n * DIM * sizeof(float));
}

static void check_servers(int n_servers)
{
    uint64_t mine[SERVERS_MAX] = { 0 }, theirs[SERVERS_MAX] = { 0 };
    static rows r;
    job j;

    job_init(&j, n_servers, 2, &(fl_sim_faults){ .seed = 1 });
    job_wait(&j);
    assert_ok(job_declare(&j, 0, TABLES));
    /* Before anybody asks nothing is noted: then every row counts. */
    push(&j, 0, 0, 50);
    changed(&j, 1, theirs, &r);
    expect_rows(&j, &r, 0, 50);
    changed(&j, 0, mine, &r);
    expect_rows(&j, &r, 0, 50);
    changed(&j, 0, mine, &r);
    assert_int_equal(r.n, 0);
    push(&j, 0, 40, 100);
    push(&j, 1, 140, 100);
    changed(&j, 1, theirs, &r);
    expect_rows(&j, &r, 40, 140);
    changed(&j, 0, mine, &r);
    expect_rows(&j, &r, 140, 240);
    push(&j, 0, 40, 100);
    changed(&j, 1, theirs, &r);
    expect_rows(&j, &r, 40, 140);
    changed(&j, 1, theirs, &r);
    assert_int_equal(r.n, 0);
    job_release(&j);
}

static void trainers_hear_of_changed_rows_from_all_servers(void **state)
{
    (void)state;
    for (int n = 1; n <= SERVERS_MAX; n++)
        check_servers(n);
}

static void nothing_is_missed_when_connections_break(void **state)
{
    fl_sim_faults faults = { .seed = 3,
                             .delay_hi_ms = 8,
                             .cut_after_bytes = 20000,
                             .refuse_share = 0.2 };
    uint64_t cursors[SERVERS_MAX] = { 0 };
    static rows r;
    job j;

    (void)state;
    job_init(&j, 2, 2, &faults);
    job_wait(&j);
    assert_ok(job_declare(&j, 0, TABLES));
    changed(&j, 1, cursors, &r);
    for (uint64_t i = 0; i < 40; i++) {
        push(&j, 0, i * 10, 100);
        changed(&j, 1, cursors, &r);
        expect_rows(&j, &r, i * 10, i * 10 + 100);
    }
    assert_true(fl_sim_cuts(j.sim) > 5);
    job_release(&j);
}

/* --- more than fits into a message ---------------------------------------- */

#define SMALL 4096

/* All rows of the table first, and then those of the log. */
static void check_pages(int n_servers)
{
    uint64_t cursors[SERVERS_MAX] = { 0 };
    static rows r;
    job j;

    job_init_small(&j, n_servers, 2, &(fl_sim_faults){ .seed = 1 }, SMALL);
    job_wait(&j);
    assert_ok(job_declare(&j, 0, TABLES));
    for (int round = 0; round < 3; round++) {
        for (uint64_t from = 0; from < KEYS_MAX; from += PIECE)
            push(&j, 0, from, PIECE);
        changed(&j, 1, cursors, &r);
        expect_rows(&j, &r, 0, KEYS_MAX);
        if (n_servers == 1)
            assert_in_range(r.n_calls, 3, 8);
        changed(&j, 1, cursors, &r);
        assert_int_equal(r.n, 0);
        assert_int_equal(r.n_calls, n_servers);
    }
    job_release(&j);
}

static void more_rows_than_a_message_holds_come_in_pages(void **state)
{
    (void)state;
    for (int n = 1; n <= SERVERS_MAX; n++)
        check_pages(n);
}

/* A copy of the rows, by key; what is given twice is the same or newer. */
static void keep_copy(const rows *r, float *copy)
{
    for (size_t i = 0; i < r->n; i++)
        memcpy(copy + r->keys[i] * DIM, r->values + i * DIM,
               DIM * sizeof(*copy));
}

static void begin_push(job *j, uint64_t from, uint64_t *keys, float *grads,
                       outcome *o)
{
    static const uint32_t dim = DIM;
    fl_job_push_item item = {
        .rows = { .keys = keys, .values = grads, .n = PIECE, .lr = 1 }
    };

    for (uint64_t i = 0; i < PIECE; i++)
        keys[i] = (from + i) % KEYS_MAX;
    for (uint64_t i = 0; i < PIECE * DIM; i++)
        grads[i] = (float)(fl_mix64(from * 1000 + i) % 8) - 3;
    *o = (outcome){ 0 };
    assert_ok(fl_client_push(j->clients[0], &item, &dim, 1,
                             (fl_ending){ on_outcome, o }));
}

static void pushes_between_pages_come_the_next_time(void **state)
{
    fl_sim_faults faults = { .seed = 5,
                             .delay_hi_ms = 8,
                             .cut_after_bytes = 40000,
                             .refuse_share = 0.1 };
    uint64_t cursors[SERVERS_MAX] = { 0 }, keys[PIECE], all[KEYS_MAX];
    float grads[PIECE * DIM], values[KEYS_MAX * DIM];
    static float copy[KEYS_MAX * DIM];
    static rows r;
    job j;

    (void)state;
    job_init_small(&j, 2, 2, &faults, SMALL);
    job_wait(&j);
    assert_ok(job_declare(&j, 0, TABLES));
    for (uint64_t from = 0; from < KEYS_MAX; from += PIECE)
        push(&j, 0, from, PIECE);
    for (uint64_t i = 0; i < 40; i++) {
        outcome o;

        r = (rows){ 0 };
        assert_ok(fl_client_changed(j.clients[1],
                                    &(fl_client_changes){ 0, DIM, cursors },
                                    on_rows, (fl_ending){ on_outcome, &r }));
        job_run(&j, i % 10);
        begin_push(&j, fl_mix64(i) % KEYS_MAX, keys, grads, &o);
        assert_ok(job_end(&j, &o));
        assert_ok(job_end(&j, &r.o));
        keep_copy(&r, copy);
    }
    changed(&j, 1, cursors, &r);
    keep_copy(&r, copy);
    for (uint64_t i = 0; i < KEYS_MAX; i++)
        all[i] = i;
    pull(&j, all, KEYS_MAX, values);
    assert_memory_equal(copy, values, sizeof(values));
    assert_true(fl_sim_cuts(j.sim) > 5);
    job_release(&j);
}

static void a_wrong_width_and_an_unknown_table_are_refused(void **state)
{
    uint64_t cursors[SERVERS_MAX] = { 0 };
    static rows r;
    job j;

    (void)state;
    job_init(&j, 2, 1, &(fl_sim_faults){ .seed = 1 });
    job_wait(&j);
    assert_ok(job_declare(&j, 0, TABLES));
    push(&j, 0, 0, 50);
    r = (rows){ 0 };
    assert_ok(fl_client_changed(j.clients[0],
                                &(fl_client_changes){ 0, DIM + 1, cursors },
                                on_rows, (fl_ending){ on_outcome, &r }));
    assert_int_equal(job_end(&j, &r.o), FL_ERR_CORRUPT);
    assert_has(fl_last_error(), "rows of 5 floats");
    r = (rows){ 0 };
    assert_ok(fl_client_changed(j.clients[0],
                                &(fl_client_changes){ 7, DIM, cursors },
                                on_rows, (fl_ending){ on_outcome, &r }));
    assert_int_equal(job_end(&j, &r.o), FL_ERR_NOTFOUND);
    assert_has(fl_last_error(), "table 7");
    assert_int_equal(cursors[0] + cursors[1], 0);
    assert_int_equal(r.n_calls, 0);
    job_release(&j);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(everybody_hears_of_the_others_once),
        cmocka_unit_test(a_cursor_that_was_never_given_is_refused),
        cmocka_unit_test(a_reader_that_asks_again_has_not_seen_more),
        cmocka_unit_test(what_all_have_seen_is_dropped),
        cmocka_unit_test(a_reader_that_is_gone_does_not_make_the_log_grow),
        cmocka_unit_test(without_memory_the_log_is_forgotten_and_says_so),
        cmocka_unit_test(threads_note_and_read_at_once),
        cmocka_unit_test(trainers_hear_of_changed_rows_from_all_servers),
        cmocka_unit_test(nothing_is_missed_when_connections_break),
        cmocka_unit_test(more_rows_than_a_message_holds_come_in_pages),
        cmocka_unit_test(pushes_between_pages_come_the_next_time),
        cmocka_unit_test(a_wrong_width_and_an_unknown_table_are_refused),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
