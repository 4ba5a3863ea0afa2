/* test_store.c - requests to a store give, to the bit, what direct calls of the
 * tables give; bad ones are refused and change nothing. */
#include "store_kit.h"

#include <math.h>

#include "base/hash.h"
#include "base/rng.h"
#include "ps/sum.h"
#include "table/table.h"
#include "stats_kit.h"

#define EMB "dim=5 init=uniform(-1,1) optimizer=adam"
#define CTR                                                                    \
    "dim=3 init=uniform(-1,1) optimizer=adagrad accessor=ctr "                 \
    "embedx_threshold=2"
#define LOW "dim=2 height=100 init=constant(0.5)"

static const char declared[] =
    "seed 7\n" TABLE_TEXT("emb", EMB) TABLE_TEXT("ctr", CTR) SGD_START("w", "6")
        TABLE_TEXT("low", LOW) SGD_START("v", "2") SERVE_TEXT("1,2")
            SGD_UPDATE("1", "w", "6") SGD_UPDATE("2", "v", "2");

enum { TABLE_EMB, TABLE_CTR, TABLE_LOW };
enum { BLOCK_W, BLOCK_V };

static fl_conf conf;

static fl_store *open_store(void)
{
    fl_store *s = fl_store_new(&fl_ops, &conf);

    assert_ok(fl_store_declare(s, declared, strlen(declared)));
    return s;
}

/* The table that the store has, made directly. */
static fl_table *open_twin(const char *name, const char *settings)
{
    fl_table_config config;
    fl_table *t;

    assert_ok(fl_table_config_parse(&config, name, settings, 7));
    assert_ok(fl_table_create(&t, &config));
    return t;
}

/* --- requests ------------------------------------------------------------- */

static void pack_pushed(fl_pack *p, uint32_t dim, const fl_rows *a)
{
    fl_pack_bytes(p, a->keys, a->n * sizeof(*a->keys));
    fl_pack_bytes(p, a->values, a->n * dim * sizeof(float));
    if (a->shows)
        fl_pack_bytes(p, a->shows, a->n * sizeof(float));
    if (a->clicks)
        fl_pack_bytes(p, a->clicks, a->n * sizeof(float));
    if (a->counts)
        fl_pack_bytes(p, a->counts, a->n * sizeof(uint32_t));
    fl_pack_align(p);
}

static fl_rows_item item_of(uint32_t table, const fl_rows *a)
{
    return (fl_rows_item){
        .table = table,
        .flags = (uint32_t)((a->merged ? FL_PUSH_MERGED : 0) |
                            (a->shows ? FL_PUSH_SHOWS : 0) |
                            (a->clicks ? FL_PUSH_CLICKS : 0) |
                            (a->counts ? FL_PUSH_COUNTS : 0)),
        .rows.n = a->n,
        .rows.lr = a->lr,
    };
}

static fl_status push(fl_store *s, uint32_t table, uint32_t dim,
                      const fl_rows *args)
{
    fl_rows_item it = item_of(table, args);
    fl_pack p = { 0 };
    answer a = { 0 };
    fl_status st;

    pack_rows_head(&p, FL_MSG_PUSH, &it, 1);
    pack_pushed(&p, dim, args);
    st = ask(s, FL_MSG_PUSH, &p, &a);
    assert_int_equal(a.n_calls, 0);
    return st;
}

/* The hash of a table or a block by its place in the reply. */
static uint64_t hash_at(fl_store *s, size_t i)
{
    fl_pack p = { 0 };
    answer a = { 0 };
    uint64_t h;

    assert_ok(ask(s, FL_MSG_HASH, &p, &a));
    assert_int_equal(a.len, 5 * sizeof(uint64_t));
    h = ((const uint64_t *)a.data)[i];
    answer_release(&a);
    return h;
}

/* --- drawing -------------------------------------------------------------- */

#define N_KEYS 9000 /* more than a pull copies at a time */

typedef struct draft {
    uint64_t keys[N_KEYS];
    float grads[N_KEYS * 5], shows[N_KEYS], clicks[N_KEYS];
    uint32_t counts[N_KEYS];
    float out[N_KEYS * 5];
} draft;

static draft *draw(uint64_t no)
{
    draft *d = fl_alloc(sizeof(*d));

    for (size_t i = 0; i < N_KEYS; i++) {
        d->keys[i] = fl_mix64(no / 3 * N_KEYS + i + 1);
        d->shows[i] = (float)(i % 4);
        d->clicks[i] = (float)(i % 2);
        d->counts[i] = (uint32_t)(i % 3 + 1);
    }
    for (size_t i = 0; i < N_KEYS * 5; i++)
        d->grads[i] = (float)fl_rng_normal(no, 1, i);
    return d;
}

static fl_rows args_of(const draft *d, size_t n, bool merged)
{
    return (fl_rows){ .keys = d->keys,
                      .values = d->grads,
                      .shows = d->shows,
                      .clicks = d->clicks,
                      .counts = d->counts,
                      .n = n,
                      .lr = 0.25,
                      .merged = merged };
}

static void expect_same_rows(fl_store *s, uint32_t table, fl_table *twin,
                             draft *d, size_t n)
{
    uint32_t dim = fl_table_dim(twin);
    answer a = { 0 };

    pull_into(s, table, FL_PULL_CREATE, d->keys, n, &a);
    assert_int_equal(a.n_calls, 1);
    assert_int_equal(a.len, n * dim * sizeof(float));
    assert_ok(fl_table_pull(twin, d->keys, n, FL_PULL_CREATE, d->out));
    assert_memory_equal(a.data, d->out, a.len);
    answer_release(&a);
}

/* --- rows ----------------------------------------------------------------- */

static void train_both(fl_store *s, uint32_t table, fl_table *twin)
{
    for (uint64_t round = 0; round < 4; round++) {
        draft *d = draw(round);
        size_t n = N_KEYS - 1000 * round - 1;
        fl_rows a = args_of(d, n, round % 2);

        if (round == 2) {
            a.shows = NULL;
            a.counts = NULL;
        }
        expect_same_rows(s, table, twin, d, n);
        assert_ok(push(s, table, fl_table_dim(twin), &a));
        assert_ok(fl_table_push(twin, &a));
        expect_same_rows(s, table, twin, d, n);
        fl_free(d);
    }
}

static void pulls_and_pushes_give_what_direct_calls_give(void **state)
{
    fl_store *s = open_store();
    fl_table *emb = open_twin("emb", EMB), *ctr = open_twin("ctr", CTR);
    fl_table_stats a = FL_INIT(fl_table_stats);

    (void)state;
    train_both(s, TABLE_EMB, emb);
    train_both(s, TABLE_CTR, ctr);
    fl_table_count(ctr, &a);
    assert_true(a.short_rows > 0 && a.short_rows < a.rows);
    fl_table_destroy(emb);
    fl_table_destroy(ctr);
    fl_store_free(s);
}

static void items_of_several_tables_travel_together(void **state)
{
    fl_store *s = open_store();
    fl_table *emb = open_twin("emb", EMB), *ctr = open_twin("ctr", CTR);
    draft *d = draw(1);
    fl_rows a = args_of(d, 7, true), b = args_of(d, 5, false);
    fl_rows_item items[] = { item_of(TABLE_CTR, &a), item_of(TABLE_EMB, &b) };
    fl_rows_item pulls[] = { { .table = TABLE_CTR, .rows.n = 7 },
                             { .table = TABLE_LOW },
                             { .table = TABLE_EMB, .flags = 1, .rows.n = 5 } };
    fl_pack p = { 0 };
    answer got = { 0 };
    float right[7 * 3 + 5 * 5];

    (void)state;
    pack_rows_head(&p, FL_MSG_PUSH, items, 2);
    pack_pushed(&p, 3, &a);
    pack_pushed(&p, 5, &b);
    assert_ok(ask(s, FL_MSG_PUSH, &p, &got));
    pack_rows_head(&p, FL_MSG_PULL, pulls, 3);
    fl_pack_bytes(&p, d->keys, 7 * sizeof(uint64_t));
    fl_pack_bytes(&p, d->keys, 5 * sizeof(uint64_t));
    assert_ok(ask(s, FL_MSG_PULL, &p, &got));
    assert_ok(fl_table_push(ctr, &a));
    assert_ok(fl_table_push(emb, &b));
    assert_ok(fl_table_pull(ctr, d->keys, 7, FL_PULL_CREATE, right));
    assert_ok(fl_table_pull(emb, d->keys, 5, FL_PULL_ONLY, right + 21));
    assert_int_equal(got.len, sizeof(right));
    assert_memory_equal(got.data, right, sizeof(right));
    answer_release(&got);
    fl_table_destroy(emb);
    fl_table_destroy(ctr);
    fl_free(d);
    fl_store_free(s);
}

static void a_pull_that_only_looks_makes_no_rows(void **state)
{
    static const uint64_t keys[] = { 4, 5, 4 };
    fl_store *s = open_store();
    answer a = { 0 };

    (void)state;
    pull_into(s, TABLE_EMB, FL_PULL_ONLY, keys, 3, &a);
    assert_int_equal(a.len, 3 * 5 * sizeof(float));
    answer_release(&a);
    assert_int_equal(hash_at(s, TABLE_EMB), 0);
    pull_into(s, TABLE_EMB, FL_PULL_CREATE, keys, 3, &a);
    answer_release(&a);
    assert_int_not_equal(hash_at(s, TABLE_EMB), 0);
    fl_store_free(s);
}

static fl_status peek(fl_store *s, uint32_t table, const void *keys,
                      size_t bytes, answer *a)
{
    fl_pack p = { 0 };

    fl_pack_u32(&p, table);
    fl_pack_u32(&p, 0);
    fl_pack_bytes(&p, keys, bytes);
    return ask(s, FL_MSG_PEEK, &p, a);
}

static void who_peeks_is_told_which_keys_have_no_row(void **state)
{
    static const uint64_t keys[] = { 4, 5, 4, 6 };
    fl_store *s = open_store();
    answer a = { 0 }, pulled = { 0 };
    uint64_t hash;

    (void)state;
    pull_into(s, TABLE_EMB, FL_PULL_CREATE, keys, 1, &a);
    answer_release(&a);
    hash = hash_at(s, TABLE_EMB);
    assert_ok(peek(s, TABLE_EMB, keys, sizeof(keys), &a));
    assert_int_equal(a.len, 8 + 4 * (5 * sizeof(float) + 1));
    assert_int_equal(*(const uint32_t *)a.data, 5);
    pull_into(s, TABLE_EMB, FL_PULL_ONLY, keys, 4, &pulled);
    assert_memory_equal((const char *)a.data + 8, pulled.data, pulled.len);
    assert_memory_equal((const char *)a.data + 8 + pulled.len,
                        ((const uint8_t[]){ 0, 1, 0, 1 }), 4);
    answer_release(&a);
    answer_release(&pulled);
    assert_int_equal(hash_at(s, TABLE_EMB), hash);
    fl_store_free(s);
}

static void a_bad_peek_is_refused(void **state)
{
    static const uint64_t keys[] = { 4, 100 };
    fl_store *s = open_store();
    answer a = { 0 };

    (void)state;
    assert_error(peek(s, 3, keys, 8, &a), FL_ERR_NOTFOUND, "table 3");
    assert_error(peek(s, TABLE_EMB, keys, 9, &a), FL_ERR_CORRUPT, "peek");
    assert_int_not_equal(peek(s, TABLE_LOW, keys, 16, &a), FL_OK);
    assert_int_equal(a.n_calls, 0);
    assert_ok(peek(s, TABLE_LOW, keys, 0, &a));
    assert_int_equal(a.len, 8);
    answer_release(&a);
    fl_store_free(s);
}

static void assigned_values_are_pulled(void **state)
{
    static const uint64_t keys[] = { 3, UINT64_MAX, 99 };
    static const fl_rows_item items[] = { { .table = TABLE_EMB, .rows.n = 2 },
                                          { .table = TABLE_LOW, .rows.n = 1 } };
    fl_store *s = open_store();
    float values[2 * 5 + 2];
    fl_pack p = { 0 };
    answer a = { 0 };

    (void)state;
    for (size_t i = 0; i < FL_LEN(values); i++)
        values[i] = (float)i;
    pack_rows_head(&p, FL_MSG_ASSIGN, items, 2);
    fl_pack_bytes(&p, keys, sizeof(keys));
    fl_pack_bytes(&p, values, sizeof(values));
    assert_ok(ask(s, FL_MSG_ASSIGN, &p, &a));
    assert_int_equal(a.n_calls, 0);
    pull_into(s, TABLE_EMB, FL_PULL_ONLY, keys, 2, &a);
    assert_memory_equal(a.data, values, 10 * sizeof(float));
    answer_release(&a);
    pull_into(s, TABLE_LOW, FL_PULL_ONLY, keys + 2, 1, &a);
    assert_memory_equal(a.data, values + 10, 2 * sizeof(float));
    answer_release(&a);
    fl_store_free(s);
}

/* --- blocks --------------------------------------------------------------- */

static void blocks_are_assigned_pushed_and_pulled(void **state)
{
    static const float values[] = { 1, 2, 3, 4, 5, 6, 7, 8 };
    static const float grads[] = { 2, 4, 0, 0, 0, 0, 0, -2 };
    static const float right[] = { 1, 2, 3, 4, 5, 6 + 1, 7 - 1, 8 - 2 };
    fl_store *s = open_store();
    fl_pack p = { 0 };
    answer a = { 0 };

    (void)state;
    pack_blocks_head(&p, FL_MSG_ASSIGN_DENSE, (uint32_t[]){ BLOCK_W, BLOCK_V },
                     2);
    fl_pack_bytes(&p, values, sizeof(values));
    assert_ok(ask(s, FL_MSG_ASSIGN_DENSE, &p, &a));
    pack_blocks_head(&p, FL_MSG_PUSH_DENSE, (uint32_t[]){ BLOCK_V, BLOCK_W },
                     2);
    fl_pack_bytes(&p, grads, sizeof(grads));
    assert_ok(ask(s, FL_MSG_PUSH_DENSE, &p, &a));
    pack_blocks_head(&p, FL_MSG_PULL_DENSE, (uint32_t[]){ BLOCK_W, BLOCK_V },
                     2);
    assert_ok(ask(s, FL_MSG_PULL_DENSE, &p, &a));
    assert_int_equal(a.len, sizeof(right));
    assert_memory_equal(a.data, right, sizeof(right));
    answer_release(&a);
    fl_store_free(s);
}

/* --- declarations --------------------------------------------------------- */

static void a_second_declaration_must_be_the_same(void **state)
{
    fl_store *s = fl_store_new(&fl_ops, &conf);
    static const char other[] =
        "seed 7\n" TABLE_TEXT("emb", "dim=6") SERVE_TEXT("");

    (void)state;
    assert_null(fl_store_declaration(s));
    assert_ok(fl_store_declare(s, declared, strlen(declared)));
    assert_string_equal(fl_store_declaration(s), declared);
    assert_ok(fl_store_declare(s, declared, strlen(declared)));
    assert_error(fl_store_declare(s, other, strlen(other)), FL_ERR_INVAL,
                 "differ in line 2: 'op init_table () -> () {table=emb, ");
    assert_string_equal(fl_store_declaration(s), declared);
    fl_store_free(s);
}

static void a_bad_declaration_leaves_the_store_empty(void **state)
{
    static const char *const bad[] = {
        "what\n",
        "op nothing () -> ()\n",
        TABLE_TEXT("a", "dim=1"),
        TABLE_TEXT("a", "dim=1") TABLE_TEXT("b", "dim=none") SERVE_TEXT(""),
        SERVE_TEXT("") SERVE_TEXT(""),
        SERVE_TEXT("1"),
        SGD_START("w", "3") SERVE_TEXT("1,1") SGD_UPDATE("1", "w", "3"),
        SGD_START("w", "3") SERVE_TEXT("1") SGD_UPDATE("1", "w", "4"),
        "var x : f32[1] data\n" SERVE_TEXT(""),
        "var x : f32[1] persist\n"
        "op fill_constant () -> (Out=x) {shape=[1]}\n"
        "op print (In=x) -> (Out=y)\n" SERVE_TEXT(""),
        "var x : f32[4000000000000] persist\n" SERVE_TEXT(""),
    };
    static const char nul[] = "seed 3\n\0\n";
    fl_store *s = fl_store_new(&fl_ops, &conf);

    (void)state;
    for (size_t i = 0; i < FL_LEN(bad); i++) {
        assert_int_not_equal(fl_store_declare(s, bad[i], strlen(bad[i])),
                             FL_OK);
        assert_non_null(strstr(fl_last_error(), "declaration: "));
        assert_null(fl_store_declaration(s));
    }
    assert_error(fl_store_declare(s, nul, sizeof(nul) - 1), FL_ERR_INVAL,
                 "declaration: line 2 has the control character 0x00");
    assert_error(fl_store_declare(s, nul, (size_t)FL_DECLARE_BYTES_MAX + 1),
                 FL_ERR_INVAL, "16777217 bytes");
    fl_alloc_fail_after(1);
    assert_error(fl_store_declare(s, declared, strlen(declared)), FL_ERR_NOMEM,
                 "declaration");
    assert_ok(fl_store_declare(s, declared, strlen(declared)));
    fl_store_free(s);
}

static void requests_before_the_declaration_are_refused(void **state)
{
    fl_store *s = fl_store_new(&fl_ops, &conf);
    fl_pack p = { 0 };
    answer a = { 0 };

    (void)state;
    for (uint16_t type = FL_MSG_PULL; type <= FL_MSG_HASH; type++)
        if (type != FL_MSG_STATS)
            assert_error(ask(s, type, &p, &a), FL_ERR_INVAL,
                         "before tables and blocks were declared");
    assert_ok(ask(s, FL_MSG_STATS, &p, &a));
    answer_release(&a);
    assert_error(ask(s, FL_MSG_SHUTDOWN, &p, &a), FL_ERR_INVAL, "shutdown");
    assert_error(ask(s, FL_TYPE_HELLO, &p, &a), FL_ERR_INVAL, "hello");
    fl_store_free(s);
}

/* --- bad requests --------------------------------------------------------- */

static void bad_payloads_of_every_type_are_refused(void **state)
{
    fl_store *s = open_store();
    answer a = { 0 };

    (void)state;
    for (uint16_t type = FL_MSG_PULL; type <= FL_MSG_CHANGED; type++) {
        fl_pack p = { 0 };

        if (type == FL_MSG_SHUTDOWN)
            continue;
        fl_pack_u8(&p, 1);
        assert_int_equal(ask(s, type, &p, &a), FL_ERR_CORRUPT);
        for (int i = 0; i < 40; i++)
            fl_pack_u8(&p, 0xff);
        assert_int_equal(ask(s, type, &p, &a), FL_ERR_CORRUPT);
    }
    assert_int_equal(a.n_calls, 0);
    assert_int_equal(fl_store_count(s, FL_MSG_PUSH)->requests, 2);
    assert_int_equal(fl_store_count(s, FL_MSG_PUSH)->pushed_rows, 0);
    fl_store_free(s);
}

static void unknown_tables_are_not_found(void **state)
{
    static const fl_rows_item it = { .table = 3 };
    fl_store *s = open_store();
    fl_pack p = { 0 };
    answer a = { 0 };

    (void)state;
    pack_rows_head(&p, FL_MSG_PULL, &it, 1);
    assert_error(ask(s, FL_MSG_PULL, &p, &a), FL_ERR_NOTFOUND, "table 3");
    fl_pack_u32(&p, 3);
    assert_error(ask(s, FL_MSG_CLEAR, &p, &a), FL_ERR_NOTFOUND, "table 3");
    fl_pack_u32(&p, 4);
    fl_pack_u32(&p, 1);
    assert_error(ask(s, FL_MSG_SHRINK, &p, &a), FL_ERR_NOTFOUND, "table 4");
    fl_pack_u32(&p, 0);
    fl_pack_u32(&p, UINT32_MAX);
    assert_error(ask(s, FL_MSG_SHRINK, &p, &a), FL_ERR_INVAL, "table emb");
    pack_blocks_head(&p, FL_MSG_PULL_DENSE, (uint32_t[]){ 2 }, 1);
    assert_error(ask(s, FL_MSG_PULL_DENSE, &p, &a), FL_ERR_NOTFOUND, "block 2");
    fl_store_free(s);
}

static void learning_rates_that_are_none_are_refused(void **state)
{
    static const double rates[] = { -0.5, (double)NAN, (double)INFINITY,
                                    -(double)INFINITY };
    fl_store *s = open_store();
    draft *d = draw(1);
    fl_rows a = args_of(d, 3, true);

    (void)state;
    for (size_t i = 0; i < FL_LEN(rates); i++) {
        a.lr = rates[i];
        assert_error(push(s, TABLE_EMB, 5, &a), FL_ERR_INVAL, "table emb");
    }
    assert_int_equal(hash_at(s, TABLE_EMB), 0);
    a.lr = 0;
    assert_ok(push(s, TABLE_EMB, 5, &a));
    fl_free(d);
    fl_store_free(s);
}

static void a_push_with_a_key_that_is_too_high_changes_no_table(void **state)
{
    static const uint64_t keys[] = { 5, 100 };
    fl_store *s = open_store();
    draft *d = draw(1);
    fl_rows good = args_of(d, 3, true), bad = args_of(d, 2, true);
    fl_rows_item items[2];
    fl_pack p = { 0 };
    answer a = { 0 };

    (void)state;
    bad.keys = keys;
    items[0] = item_of(TABLE_EMB, &good);
    items[1] = item_of(TABLE_LOW, &bad);
    pack_rows_head(&p, FL_MSG_PUSH, items, 2);
    pack_pushed(&p, 5, &good);
    pack_pushed(&p, 2, &bad);
    assert_error(ask(s, FL_MSG_PUSH, &p, &a), FL_ERR_INVAL,
                 "table low: key 100 at place 1 is not below its height 100");
    assert_int_equal(hash_at(s, TABLE_EMB), 0);
    items[0] = (fl_rows_item){ .table = TABLE_LOW, .rows.n = 2 };
    pack_rows_head(&p, FL_MSG_PULL, items, 1);
    fl_pack_bytes(&p, keys, sizeof(keys));
    assert_error(ask(s, FL_MSG_PULL, &p, &a), FL_ERR_INVAL,
                 "table low: key 100");
    answer_release(&a);
    pack_rows_head(&p, FL_MSG_ASSIGN, items, 1);
    fl_pack_bytes(&p, keys, sizeof(keys));
    fl_pack_bytes(&p, d->grads, 4 * sizeof(float));
    assert_error(ask(s, FL_MSG_ASSIGN, &p, &a), FL_ERR_INVAL,
                 "table low: key 100");
    assert_int_equal(hash_at(s, TABLE_LOW), 0);
    fl_free(d);
    fl_store_free(s);
}

/* A row that grows is moved; a second push to it in the same batch would write
   to where it was. */
static void
equal_keys_in_a_merged_push_are_refused_where_rows_grow(void **state)
{
    static const uint64_t keys[] = { 8, 9, 10, 9 };
    static const float shows[] = { 50, 50, 50, 50 };
    fl_store *s = open_store();
    draft *d = draw(1);
    fl_rows a = args_of(d, 4, true);

    (void)state;
    a.keys = keys;
    a.shows = shows;
    assert_error(push(s, TABLE_CTR, 3, &a), FL_ERR_INVAL,
                 "table ctr: key 9 occurs twice");
    assert_int_equal(hash_at(s, TABLE_CTR), 0);
    a.merged = false;
    assert_ok(push(s, TABLE_CTR, 3, &a));
    a.merged = true;
    assert_ok(push(s, TABLE_EMB, 5, &a));
    fl_free(d);
    fl_store_free(s);
}

static void without_memory_a_request_fails_and_the_store_lives_on(void **state)
{
    fl_store *s = open_store();
    draft *d = draw(1);
    fl_rows args = args_of(d, 10, true);
    fl_rows_item it = { .table = TABLE_EMB, .rows.n = 10 };
    fl_pack p = { 0 };
    answer a = { .refuse = true };

    (void)state;
    pack_rows_head(&p, FL_MSG_PULL, &it, 1);
    fl_pack_bytes(&p, d->keys, 10 * sizeof(uint64_t));
    assert_error(ask(s, FL_MSG_PULL, &p, &a), FL_ERR_NOMEM,
                 "a reply (pull) of 200 bytes");
    assert_int_equal(a.n_calls, 1);
    /* The first allocation is the test's own copy of the payload. */
    fl_alloc_fail_after(2);
    assert_error(push(s, TABLE_EMB, 5, &args), FL_ERR_NOMEM, "10 keys");
    fl_alloc_fail_after(0);
    assert_int_equal(hash_at(s, TABLE_EMB), 0);
    assert_ok(push(s, TABLE_EMB, 5, &args));
    fl_free(d);
    fl_store_free(s);
}

/* --- whole tables --------------------------------------------------------- */

static void clearing_and_shrinking_remove_rows(void **state)
{
    fl_store *s = open_store();
    draft *d = draw(1);
    fl_rows args = args_of(d, 10, true);
    fl_pack p = { 0 };
    answer a = { 0 };

    (void)state;
    for (size_t i = 0; i < 10; i++)
        d->shows[i] = i < 4 ? 0 : 5;
    assert_ok(push(s, TABLE_CTR, 3, &args));
    fl_pack_u32(&p, TABLE_CTR);
    fl_pack_u32(&p, 0);
    assert_ok(ask(s, FL_MSG_SHRINK, &p, &a));
    assert_int_equal(a.len, sizeof(uint64_t));
    assert_true(*(uint64_t *)a.data > 0 && *(uint64_t *)a.data < 10);
    answer_release(&a);
    assert_int_not_equal(hash_at(s, TABLE_CTR), 0);
    fl_pack_u32(&p, TABLE_CTR);
    assert_ok(ask(s, FL_MSG_CLEAR, &p, &a));
    assert_int_equal(a.n_calls, 0);
    assert_int_equal(hash_at(s, TABLE_CTR), 0);
    fl_free(d);
    fl_store_free(s);
}

/* Pushes the keys of d whose number is of that residue. */
static void push_some(fl_store *s, uint32_t table, uint32_t dim, const draft *d,
                      size_t step, size_t from)
{
    for (size_t i = from; i < 300; i += step) {
        fl_rows a = { .keys = &d->keys[i],
                      .values = &d->grads[i * dim],
                      .shows = &d->shows[i],
                      .n = 1,
                      .lr = 0.5,
                      .merged = true };

        assert_ok(push(s, table, dim, &a));
    }
}

static void hashes_add_up_over_servers_whatever_the_order(void **state)
{
    fl_store *one = open_store(), *two = open_store(), *all = open_store();
    draft *d = draw(1);
    static const float w[6] = { 1, 2, 3 };
    fl_store *const stores[] = { all, two };
    answer a = { 0 };

    (void)state;
    push_some(all, TABLE_CTR, 3, d, 1, 0);
    push_some(two, TABLE_CTR, 3, d, 2, 1);
    push_some(one, TABLE_CTR, 3, d, 4, 2);
    push_some(one, TABLE_CTR, 3, d, 4, 0);
    for (size_t i = 0; i < FL_LEN(stores); i++) {
        fl_pack p = { 0 };

        pack_blocks_head(&p, FL_MSG_ASSIGN_DENSE, (uint32_t[]){ BLOCK_W }, 1);
        fl_pack_bytes(&p, w, sizeof(w));
        assert_ok(ask(stores[i], FL_MSG_ASSIGN_DENSE, &p, &a));
    }
    for (size_t i = 0; i < 5; i++)
        assert_true(hash_at(one, i) + hash_at(two, i) == hash_at(all, i));
    assert_int_not_equal(hash_at(all, TABLE_CTR), 0);
    assert_int_not_equal(hash_at(all, 3 + BLOCK_W), 0);
    assert_int_equal(hash_at(all, 3 + BLOCK_V), 0);
    push_some(two, TABLE_CTR, 3, d, 100, 1);
    assert_false(hash_at(one, TABLE_CTR) + hash_at(two, TABLE_CTR) ==
                 hash_at(all, TABLE_CTR));
    fl_free(d);
    fl_store_free(one);
    fl_store_free(two);
    fl_store_free(all);
}

static void the_hash_of_a_model_is_the_sum_of_its_parts(void **state)
{
    static const uint64_t a[] = { 3, 0, 8 }, b[] = { 1, 9 };
    uint64_t sum = 0;

    (void)state;
    fl_sum_model(&sum, b, sizeof(b));
    fl_sum_model(&sum, a, sizeof(a));
    fl_sum_model(&sum, NULL, 0);
    assert_int_equal(sum, 21);
}

/* Nor does it matter which place something has on a server. */
static void a_hash_is_that_of_a_name(void **state)
{
    static const char text[] = "seed 7\n" TABLE_TEXT("ctr", CTR)
        TABLE_TEXT("emb", EMB) TABLE_TEXT("low", LOW) SGD_START("v", "2")
            SGD_START("w", "6") SERVE_TEXT("1,2") SGD_UPDATE("1", "v", "2")
                SGD_UPDATE("2", "w", "6");
    fl_store *one = open_store(), *other = fl_store_new(&fl_ops, &conf);
    draft *d = draw(1);

    (void)state;
    assert_ok(fl_store_declare(other, text, strlen(text)));
    push_some(one, TABLE_EMB, 5, d, 1, 0);
    push_some(other, 1, 5, d, 1, 0);
    assert_true(hash_at(one, TABLE_EMB) == hash_at(other, 1));
    assert_int_equal(hash_at(other, 0), 0);
    fl_free(d);
    fl_store_free(one);
    fl_store_free(other);
}

/* --- counters ------------------------------------------------------------- */

static void counters_tell_what_was_done(void **state)
{
    cJSON *root;
    fl_store *s = open_store();
    draft *d = draw(1);
    fl_rows args = args_of(d, 10, true);
    fl_pack p = { 0 };
    answer a = { 0 };
    const fl_store_counts *n;

    (void)state;
    pull_into(s, TABLE_EMB, FL_PULL_CREATE, d->keys, 4, &a);
    answer_release(&a);
    assert_ok(push(s, TABLE_EMB, 5, &args));
    args.merged = false;
    args.n = 3;
    assert_ok(push(s, TABLE_EMB, 5, &args));
    pack_blocks_head(&p, FL_MSG_PULL_DENSE, (uint32_t[]){ BLOCK_V }, 1);
    assert_ok(ask(s, FL_MSG_PULL_DENSE, &p, &a));
    answer_release(&a);
    n = fl_store_count(s, FL_MSG_PULL);
    assert_int_equal(n->requests, 1);
    assert_int_equal(n->pulled_rows, 4);
    assert_int_equal(n->in, 8 + 16 + 4 * 8);
    assert_int_equal(n->out, 4 * 5 * 4);
    n = fl_store_count(s, FL_MSG_PUSH);
    assert_int_equal(n->requests, 2);
    assert_int_equal(n->pushed_rows, 13);
    assert_int_equal(n->merged_rows, 10);
    assert_int_equal(fl_store_requests(s), 4); /* any type */
    assert_ok(ask(s, FL_MSG_STATS, &p, &a));
    a.data = fl_realloc(a.data, a.len + 1);
    ((char *)a.data)[a.len] = '\0';
    root = cJSON_ParseWithOpts(a.data, NULL, 1);
    assert_non_null(root);
    expect_numbers(root, "tables", "emb",
                   "rows=10 pulls=1 pulled_rows=4 pushes=2 pushed_rows=13 "
                   "merged_rows=10");
    expect_numbers(root, "tables", "low", "rows=0 pulls=0");
    expect_numbers(root, "blocks", "w",
                   "floats=6 held_bytes=28 pulls=0 pushes=0");
    expect_numbers(root, "blocks", "v",
                   "floats=2 held_bytes=12 pulls=1 pushes=0");
    expect_numbers(root, "trainers", NULL,
                   "rank=0 requests=4 pulled_rows=4 pushed_rows=13 "
                   "merged_rows=10");
    cJSON_Delete(root);
    answer_release(&a);
    fl_free(d);
    fl_store_free(s);
}

static int set_up(void **state)
{
    (void)state;
    return fl_conf_init(&conf);
}

static int tear_down(void **state)
{
    (void)state;
    fl_conf_release(&conf);
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(pulls_and_pushes_give_what_direct_calls_give),
        cmocka_unit_test(items_of_several_tables_travel_together),
        cmocka_unit_test(a_pull_that_only_looks_makes_no_rows),
        cmocka_unit_test(who_peeks_is_told_which_keys_have_no_row),
        cmocka_unit_test(a_bad_peek_is_refused),
        cmocka_unit_test(assigned_values_are_pulled),
        cmocka_unit_test(blocks_are_assigned_pushed_and_pulled),
        cmocka_unit_test(a_second_declaration_must_be_the_same),
        cmocka_unit_test(a_bad_declaration_leaves_the_store_empty),
        cmocka_unit_test(requests_before_the_declaration_are_refused),
        cmocka_unit_test(bad_payloads_of_every_type_are_refused),
        cmocka_unit_test(unknown_tables_are_not_found),
        cmocka_unit_test(learning_rates_that_are_none_are_refused),
        cmocka_unit_test(a_push_with_a_key_that_is_too_high_changes_no_table),
        cmocka_unit_test(
            equal_keys_in_a_merged_push_are_refused_where_rows_grow),
        cmocka_unit_test(without_memory_a_request_fails_and_the_store_lives_on),
        cmocka_unit_test(clearing_and_shrinking_remove_rows),
        cmocka_unit_test(hashes_add_up_over_servers_whatever_the_order),
        cmocka_unit_test(the_hash_of_a_model_is_the_sum_of_its_parts),
        cmocka_unit_test(a_hash_is_that_of_a_name),
        cmocka_unit_test(counters_tell_what_was_done),
    };

    return cmocka_run_group_tests(tests, set_up, tear_down);
}
