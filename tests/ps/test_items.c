/* test_items.c - payloads of rows and blocks: what is packed is read again, and
 * every byte that is missing or too many is refused. */
#include "store_kit.h"

#include "flotilla/table.h"

/* Tables 0, 1 and 2 have these widths; blocks these lengths. */
static const uint32_t dims[] = { 1, 4, 3 };
static const uint64_t lens[] = { 5, 2 };

static uint64_t dim_of(void *arg, uint32_t table)
{
    (void)arg;
    return table < FL_LEN(dims) ? dims[table] : 0;
}

static uint64_t len_of(void *arg, uint32_t block)
{
    (void)arg;
    return block < FL_LEN(lens) ? lens[block] : 0;
}

static fl_status unpack(uint16_t type, const void *bytes, size_t len,
                        fl_rows_item **items, uint32_t *n)
{
    fl_items_source from = { type, { bytes, len }, dim_of, NULL };
    fl_rows_request r;

    FL_TRY(fl_rows_unpack(&from, &r));
    *items = r.items;
    *n = r.n;
    return FL_OK;
}

static fl_status unpack_blocks(uint16_t type, const void *bytes, size_t len,
                               fl_block_item **items, uint32_t *n)
{
    fl_items_source from = { type, { bytes, len }, len_of, NULL };
    fl_blocks_request r;

    FL_TRY(fl_blocks_unpack(&from, &r));
    *items = r.items;
    *n = r.n;
    return FL_OK;
}

static void pack_keys(fl_pack *p, uint64_t first, uint64_t n)
{
    for (uint64_t i = 0; i < n; i++)
        fl_pack_u64(p, first + i);
}

static void pack_floats(fl_pack *p, float first, uint64_t n)
{
    for (uint64_t i = 0; i < n; i++) {
        float x = first + (float)i;

        fl_pack_bytes(p, &x, sizeof(x));
    }
}

/* --- samples -------------------------------------------------------------- */

static void pack_pull(fl_pack *p)
{
    static const fl_rows_item items[] = {
        { .table = 2, .flags = FL_PULL_ONLY, .rows.n = 2 },
        { .table = 0, .flags = FL_PULL_CREATE, .rows.n = 3 },
    };

    pack_rows_head(p, FL_MSG_PULL, items, 2);
    pack_keys(p, 100, 2);
    pack_keys(p, 200, 3);
}

static void pack_assign(fl_pack *p)
{
    static const fl_rows_item items[] = { { .table = 0, .rows.n = 1 },
                                          { .table = 1, .rows.n = 2 } };

    pack_rows_head(p, FL_MSG_ASSIGN, items, 2);
    pack_keys(p, 7, 1);
    pack_keys(p, 8, 2);
    pack_floats(p, 0, 1 + 2 * 4);
}

/* The first item is of an odd number of floats, so that padding follows. */
static void pack_push(fl_pack *p)
{
    static const fl_rows_item items[] = {
        { .table = 2,
          .flags = FL_PUSH_MERGED | FL_PUSH_SHOWS | FL_PUSH_COUNTS,
          .rows.n = 1,
          .rows.lr = 0.25 },
        { .table = 1, .flags = FL_PUSH_CLICKS, .rows.n = 3, .rows.lr = 2 },
    };
    uint32_t count = 9;

    pack_rows_head(p, FL_MSG_PUSH, items, 2);
    pack_keys(p, 50, 1);
    pack_floats(p, 1, 3);
    pack_floats(p, 30, 1);
    fl_pack_bytes(p, &count, sizeof(count));
    fl_pack_align(p);
    pack_keys(p, 60, 3);
    pack_floats(p, 10, 12);
    pack_floats(p, 40, 3);
}

/* One row of an odd number of words, and none of the other table: no zeros are
   sent behind it. */
static void pack_push_without_rows(fl_pack *p)
{
    static const fl_rows_item items[] = {
        { .table = 2, .flags = FL_PUSH_SHOWS, .rows.n = 0, .rows.lr = 1 },
        { .table = 0, .flags = FL_PUSH_MERGED, .rows.n = 1, .rows.lr = 1 },
        { .table = 1, .flags = FL_PUSH_CLICKS, .rows.n = 0, .rows.lr = 2 },
    };

    pack_rows_head(p, FL_MSG_PUSH, items, 3);
    pack_keys(p, 50, 1);
    pack_floats(p, 1, 1);
}

static void pack_push_dense(fl_pack *p)
{
    pack_blocks_head(p, FL_MSG_PUSH_DENSE, (uint32_t[]){ 1, 0 }, 2);
    pack_floats(p, 1, 2 + 5);
}

/* --- good ones ------------------------------------------------------------ */

static void a_push_may_end_with_tables_that_have_no_rows(void **state)
{
    fl_rows_item *items = NULL;
    fl_pack p = { 0 };
    received r;
    uint32_t n;

    (void)state;
    pack_push_without_rows(&p);
    r = receive(p.data, p.len);
    assert_ok(unpack(FL_MSG_PUSH, r.data, r.len, &items, &n));
    assert_int_equal(n, 3);
    assert_int_equal(items[1].rows.keys[0], 50);
    assert_true(items[1].rows.values[0] == 1);
    assert_int_equal(items[2].rows.n, 0);
    fl_free(items);
    received_free(&r);
    fl_pack_release(&p);
}

static void a_packed_pull_is_read_again(void **state)
{
    fl_rows_item *items = NULL;
    fl_pack p = { 0 };
    received r;
    uint32_t n;

    (void)state;
    pack_pull(&p);
    assert_int_equal(p.len, 8 + 2 * 16 + 5 * 8);
    r = receive(p.data, p.len);
    assert_ok(unpack(FL_MSG_PULL, r.data, r.len, &items, &n));
    assert_int_equal(n, 2);
    assert_int_equal(items[0].table, 2);
    assert_int_equal(items[0].flags, FL_PULL_ONLY);
    assert_int_equal(items[0].rows.n, 2);
    assert_int_equal(items[0].rows.keys[1], 101);
    assert_int_equal(items[1].table, 0);
    assert_int_equal(items[1].rows.keys[2], 202);
    assert_null(items[1].rows.values);
    fl_free(items);
    received_free(&r);
    fl_pack_release(&p);
}

static void a_packed_assign_is_read_again(void **state)
{
    fl_rows_item *items = NULL;
    fl_pack p = { 0 };
    received r;
    uint32_t n;

    (void)state;
    pack_assign(&p);
    r = receive(p.data, p.len);
    assert_ok(unpack(FL_MSG_ASSIGN, r.data, r.len, &items, &n));
    assert_int_equal(n, 2);
    assert_int_equal(items[1].rows.keys[1], 9);
    assert_true(items[0].rows.values[0] == 0 && items[1].rows.values[7] == 8);
    fl_free(items);
    received_free(&r);
    fl_pack_release(&p);
}

static void a_packed_push_is_read_again(void **state)
{
    fl_rows_item *items = NULL;
    fl_pack p = { 0 };
    received r;
    uint32_t n;

    (void)state;
    pack_push(&p);
    r = receive(p.data, p.len);
    assert_ok(unpack(FL_MSG_PUSH, r.data, r.len, &items, &n));
    assert_int_equal(n, 2);
    assert_true(items[0].rows.lr == 0.25 && items[1].rows.lr == 2);
    assert_int_equal(items[0].rows.keys[0], 50);
    assert_true(items[0].rows.values[2] == 3 && items[0].rows.shows[0] == 30);
    assert_null(items[0].rows.clicks);
    assert_int_equal(items[0].rows.counts[0], 9);
    assert_int_equal((uintptr_t)items[1].rows.keys % 8, 0);
    assert_int_equal(items[1].rows.keys[2], 62);
    assert_true(items[1].rows.values[11] == 21 &&
                items[1].rows.clicks[2] == 42);
    assert_null(items[1].rows.shows);
    assert_null(items[1].rows.counts);
    fl_free(items);
    received_free(&r);
    fl_pack_release(&p);
}

static void zeros_behind_the_last_item_may_be_there(void **state)
{
    fl_rows_item *items = NULL;
    fl_pack p = { 0 };
    received r;
    uint32_t n;

    (void)state;
    pack_push(&p);
    assert_int_not_equal(p.len % 8, 0);
    fl_pack_align(&p);
    r = receive(p.data, p.len);
    assert_ok(unpack(FL_MSG_PUSH, r.data, r.len, &items, &n));
    fl_free(items);
    received_free(&r);
    fl_pack_release(&p);
}

static void packed_blocks_are_read_again(void **state)
{
    fl_block_item *items = NULL;
    fl_pack p = { 0 };
    received r;
    uint32_t n;

    (void)state;
    pack_push_dense(&p);
    r = receive(p.data, p.len);
    assert_ok(unpack_blocks(FL_MSG_PUSH_DENSE, r.data, r.len, &items, &n));
    assert_int_equal(n, 2);
    assert_int_equal(items[0].block, 1);
    assert_int_equal(items[0].n, 2);
    assert_true(items[0].values[1] == 2 && items[1].values[4] == 7);
    fl_free(items);
    received_free(&r);
    fl_pack_release(&p);
    pack_blocks_head(&p, FL_MSG_PULL_DENSE, (uint32_t[]){ 0, 1, 0 }, 3);
    assert_int_equal(p.len, 16);
    assert_ok(unpack_blocks(FL_MSG_PULL_DENSE, p.data, p.len, &items, &n));
    assert_int_equal(n, 3);
    assert_int_equal(items[2].n, 5);
    assert_null(items[2].values);
    fl_free(items);
    fl_pack_release(&p);
}

static void a_request_may_have_no_items_and_items_no_keys(void **state)
{
    static const fl_rows_item none = { .table = 1 };
    fl_rows_item *items = NULL;
    fl_pack p = { 0 };
    uint32_t n = 7;

    (void)state;
    pack_rows_head(&p, FL_MSG_PUSH, NULL, 0);
    assert_ok(unpack(FL_MSG_PUSH, p.data, p.len, &items, &n));
    assert_int_equal(n, 0);
    fl_free(items);
    fl_pack_release(&p);
    pack_rows_head(&p, FL_MSG_PUSH, &none, 1);
    assert_ok(unpack(FL_MSG_PUSH, p.data, p.len, &items, &n));
    assert_int_equal(n, 1);
    fl_free(items);
    fl_pack_release(&p);
}

/* Narrow keys, values of bf16, and zeros behind both. */
static void pack_coded(fl_pack *p)
{
    static const fl_rows_item items[] = {
        { .table = 2,
          .flags = FL_PUSH_SHOWS,
          .codec = FL_CODEC_BF16,
          .key_width = 3,
          .rows.n = 1,
          .rows.lr = 1 },
    };
    static const uint8_t key[8] = { 1, 2, 3 };
    static const uint16_t values[4] = { 0x3f80, 0x4000, 0x4040 };

    pack_rows_head(p, FL_MSG_PUSH, items, 1);
    fl_pack_bytes(p, key, sizeof(key));
    fl_pack_bytes(p, values, sizeof(values));
    pack_floats(p, 30, 1);
}

static void a_coded_push_says_where_its_parts_are(void **state)
{
    fl_rows_item *items = NULL;
    fl_pack p = { 0 };
    float values[3];
    uint64_t key;
    received r;
    uint32_t n;

    (void)state;
    pack_coded(&p);
    r = receive(p.data, p.len);
    assert_ok(unpack(FL_MSG_PUSH, r.data, r.len, &items, &n));
    assert_int_equal(items[0].codec, FL_CODEC_BF16);
    assert_int_equal(items[0].flags, FL_PUSH_SHOWS);
    assert_null(items[0].rows.keys);
    assert_null(items[0].rows.values);
    fl_keys_decode(&(fl_coded_keys){ items[0].coded_keys, 1, 3 }, 0, 1, &key);
    assert_int_equal(key, 0x030201);
    fl_codec_decode(items[0].codec, items[0].coded_values, 3, values);
    assert_true(values[0] == 1 && values[1] == 2 && values[2] == 3);
    assert_true(items[0].rows.shows[0] == 30);
    fl_free(items);
    received_free(&r);
    fl_pack_release(&p);
}

/* --- bad ones ------------------------------------------------------------- */

/* Every shorter payload is refused, and one byte more is. */
static void expect_exact(uint16_t type, const fl_pack *p, bool is_rows)
{
    fl_rows_item *items = NULL;
    fl_block_item *blocks = NULL;
    uint32_t n;

    for (size_t len = 0; len <= p->len + 1; len++) {
        received r = { fl_try_alloc(len), len };

        memset(r.data, 1, len);
        memcpy(r.data, p->data, len < p->len ? len : p->len);
        if (len != p->len)
            assert_int_equal(
                is_rows ? unpack(type, r.data, len, &items, &n)
                        : unpack_blocks(type, r.data, len, &blocks, &n),
                FL_ERR_CORRUPT);
        received_free(&r);
    }
    assert_null(items);
    assert_null(blocks);
}

static void every_cut_and_every_byte_too_many_is_refused(void **state)
{
    fl_pack p = { 0 };

    (void)state;
    pack_pull(&p);
    expect_exact(FL_MSG_PULL, &p, true);
    fl_pack_release(&p);
    pack_assign(&p);
    expect_exact(FL_MSG_ASSIGN, &p, true);
    fl_pack_release(&p);
    pack_push(&p);
    expect_exact(FL_MSG_PUSH, &p, true);
    fl_pack_release(&p);
    pack_coded(&p);
    expect_exact(FL_MSG_PUSH, &p, true);
    fl_pack_release(&p);
    pack_push_dense(&p);
    expect_exact(FL_MSG_PUSH_DENSE, &p, false);
    expect_exact(FL_MSG_ASSIGN_DENSE, &p, false);
    fl_pack_release(&p);
    pack_blocks_head(&p, FL_MSG_PULL_DENSE, (uint32_t[]){ 0, 1 }, 2);
    expect_exact(FL_MSG_PULL_DENSE, &p, false);
    fl_pack_release(&p);
}

/* One item with what is said of it, and keys for two. */
static void expect_item(uint16_t type, const fl_rows_item *it, fl_status code,
                        const char *words)
{
    fl_rows_item *items = NULL;
    fl_pack p = { 0 };
    uint32_t n;

    pack_rows_head(&p, type, it, 1);
    pack_keys(&p, 1, 2);
    assert_error(unpack(type, p.data, p.len, &items, &n), code, words);
    fl_pack_release(&p);
}

static void huge_counts_of_keys_do_not_overflow(void **state)
{
    static const uint64_t counts[] = { 3,
                                       UINT64_C(1) << 32,
                                       UINT64_C(1) << 61,
                                       (UINT64_C(1) << 61) + 2,
                                       UINT64_MAX / 8,
                                       UINT64_MAX };

    (void)state;
    for (size_t i = 0; i < FL_LEN(counts); i++) {
        fl_rows_item it = { .table = 1, .rows.n = counts[i] };

        expect_item(FL_MSG_PULL, &it, FL_ERR_CORRUPT, "keys of item 0");
        expect_item(FL_MSG_ASSIGN, &it, FL_ERR_CORRUPT, "keys of item 0");
        expect_item(FL_MSG_PUSH, &it, FL_ERR_CORRUPT, "rows of item 0");
    }
}

static void unknown_tables_blocks_and_flags_are_named(void **state)
{
    static const fl_rows_item no_table = { .table = 3, .rows.n = 2 };
    static const fl_rows_item bad_kind = { .table = 1,
                                           .flags = 2,
                                           .rows.n = 2 };
    static const fl_rows_item bad_flag = { .table = 1,
                                           .flags = 16,
                                           .rows.n = 0 };
    static const fl_rows_item any_kind = { .table = 1,
                                           .flags = 1,
                                           .rows.n = 2 };
    static const fl_rows_item no_codec = { .table = 1,
                                           .flags = 5 << 8,
                                           .rows.n = 2 };
    static const fl_rows_item no_width = { .table = 1,
                                           .key_width = 8,
                                           .rows.n = 2 };
    static const fl_rows_item no_field = { .table = 1,
                                           .flags = 1 << 16,
                                           .rows.n = 2 };
    fl_block_item *blocks;
    fl_pack p = { 0 };
    uint32_t n;

    (void)state;
    expect_item(FL_MSG_PULL, &no_table, FL_ERR_NOTFOUND, "table 3");
    expect_item(FL_MSG_PUSH, &no_table, FL_ERR_NOTFOUND, "table 3");
    expect_item(FL_MSG_PULL, &bad_kind, FL_ERR_CORRUPT, "kind 2");
    expect_item(FL_MSG_PUSH, &bad_flag, FL_ERR_CORRUPT, "flags 16");
    expect_item(FL_MSG_ASSIGN, &any_kind, FL_ERR_CORRUPT, "kind 1");
    expect_item(FL_MSG_PULL, &no_codec, FL_ERR_CORRUPT, "unknown codec 5");
    expect_item(FL_MSG_PULL, &no_width, FL_ERR_CORRUPT, "unknown flags 32768");
    expect_item(FL_MSG_PUSH, &no_field, FL_ERR_CORRUPT, "unknown flags 65536");
    pack_blocks_head(&p, FL_MSG_PULL_DENSE, (uint32_t[]){ 2 }, 1);
    assert_error(unpack_blocks(FL_MSG_PULL_DENSE, p.data, p.len, &blocks, &n),
                 FL_ERR_NOTFOUND, "block 2");
    fl_pack_release(&p);
    pack_blocks_head(&p, FL_MSG_PULL_DENSE, (uint32_t[]){ 3u << 24 }, 1);
    assert_error(unpack_blocks(FL_MSG_PULL_DENSE, p.data, p.len, &blocks, &n),
                 FL_ERR_CORRUPT, "unknown codec 3");
    fl_pack_release(&p);
}

static void what_must_be_zero_is_checked(void **state)
{
    fl_rows_item *items = NULL;
    fl_block_item *blocks;
    fl_pack p = { 0 };
    uint32_t n;

    (void)state;
    pack_pull(&p);
    p.data[4] = 1;
    assert_error(unpack(FL_MSG_PULL, p.data, p.len, &items, &n), FL_ERR_CORRUPT,
                 "where 0 belongs");
    fl_pack_release(&p);
    pack_push(&p);
    /* Heads, then a key, three gradients, a show and a count. */
    p.data[8 + 2 * 24 + 8 + 12 + 4 + 4 + 2] = 1;
    assert_error(unpack(FL_MSG_PUSH, p.data, p.len, &items, &n), FL_ERR_CORRUPT,
                 "between items");
    fl_pack_release(&p);
    for (size_t i = 3; i < 16; i++) { /* behind the key, and the values */
        if (i >= 8 && i < 14)
            continue;
        pack_coded(&p);
        p.data[8 + 24 + i] = 1;
        assert_error(unpack(FL_MSG_PUSH, p.data, p.len, &items, &n),
                     FL_ERR_CORRUPT, "other bytes than 0");
        fl_pack_release(&p);
    }
    pack_push_dense(&p);
    p.data[12] = 1;
    assert_error(unpack_blocks(FL_MSG_PUSH_DENSE, p.data, p.len, &blocks, &n),
                 FL_ERR_CORRUPT, "behind block 1");
    fl_pack_release(&p);
}

static void too_many_items_are_refused(void **state)
{
    fl_rows_item *many = fl_alloc(sizeof(*many) * (FL_ITEMS_MAX + 1));
    fl_rows_item *items = NULL;
    fl_pack p = { 0 };
    uint32_t n;

    (void)state;
    pack_rows_head(&p, FL_MSG_PULL, many, FL_ITEMS_MAX);
    assert_ok(unpack(FL_MSG_PULL, p.data, p.len, &items, &n));
    assert_int_equal(n, FL_ITEMS_MAX);
    fl_free(items);
    fl_pack_release(&p);
    pack_rows_head(&p, FL_MSG_PULL, many, FL_ITEMS_MAX + 1);
    assert_error(unpack(FL_MSG_PULL, p.data, p.len, &items, &n), FL_ERR_CORRUPT,
                 "several requests");
    fl_pack_release(&p);
    fl_pack_u32(&p, UINT32_MAX);
    fl_pack_u32(&p, 0);
    assert_error(unpack(FL_MSG_PUSH, p.data, p.len, &items, &n), FL_ERR_CORRUPT,
                 "4294967295 items");
    fl_pack_release(&p);
    fl_free(many);
}

static void an_empty_payload_is_refused(void **state)
{
    fl_rows_item *items = NULL;
    fl_block_item *blocks;
    uint32_t n;

    (void)state;
    assert_int_equal(unpack(FL_MSG_PULL, NULL, 0, &items, &n), FL_ERR_CORRUPT);
    assert_int_equal(unpack_blocks(FL_MSG_PULL_DENSE, NULL, 0, &blocks, &n),
                     FL_ERR_CORRUPT);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_push_may_end_with_tables_that_have_no_rows),
        cmocka_unit_test(a_packed_pull_is_read_again),
        cmocka_unit_test(a_packed_assign_is_read_again),
        cmocka_unit_test(a_packed_push_is_read_again),
        cmocka_unit_test(a_coded_push_says_where_its_parts_are),
        cmocka_unit_test(zeros_behind_the_last_item_may_be_there),
        cmocka_unit_test(packed_blocks_are_read_again),
        cmocka_unit_test(a_request_may_have_no_items_and_items_no_keys),
        cmocka_unit_test(every_cut_and_every_byte_too_many_is_refused),
        cmocka_unit_test(huge_counts_of_keys_do_not_overflow),
        cmocka_unit_test(unknown_tables_blocks_and_flags_are_named),
        cmocka_unit_test(what_must_be_zero_is_checked),
        cmocka_unit_test(too_many_items_are_refused),
        cmocka_unit_test(an_empty_payload_is_refused),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
