/* test_records.c - slots, packed rows and columns: what goes in comes out, long
 * lists and dropped records included. */
#include "dataset_kit.h"

#include "base/vec.h"

#define N 500

static fl_schema schema;

static int make_schema(void **state)
{
    (void)state;
    return fl_schema_init(&schema, key_slots, FL_LEN(key_slots)) ? -1 : 0;
}

static int drop_schema(void **state)
{
    (void)state;
    fl_schema_release(&schema);
    return 0;
}

static const uint32_t **pointers(const fl_records *r)
{
    const uint32_t **at = fl_alloc(r->n * sizeof(*at));

    for (size_t i = 0; i < r->n; i++)
        at[i] = fl_records_at(r, i);
    return at;
}

static void check_rows(const fl_records *r, uint64_t n_keys)
{
    uint32_t *seen = fl_alloc(n_keys * sizeof(*seen));
    const uint32_t **at = pointers(r);
    fl_columns c;

    fl_columns_init(&c, &schema);
    assert_ok(fl_columns_gather(&c, at, r->n));
    assert_int_equal(c.n_rows, r->n);
    check_key_feeds(c.feeds, c.n_rows, seen, n_keys);
    assert_int_equal(r->n, n_keys);
    assert_each_once(seen, n_keys);
    fl_columns_release(&c);
    fl_free(at);
    fl_free(seen);
}

static void records_come_back_from_columns(void **state)
{
    fl_records r = { 0 };

    (void)state;
    add_key_records(&schema, 0, N, &r);
    check_rows(&r, N);
    fl_records_release(&r);
}

static void columns_pack_into_the_same_rows(void **state)
{
    fl_records r = { 0 }, back = { 0 };
    const uint32_t **at;
    fl_columns c;

    (void)state;
    add_key_records(&schema, 0, N, &r);
    at = pointers(&r);
    fl_columns_init(&c, &schema);
    assert_ok(fl_columns_gather(&c, at, r.n));
    assert_ok(fl_columns_pack(&c, 0, 100, &back));
    assert_ok(fl_columns_pack(&c, 100, N, &back));
    assert_int_equal(back.n, r.n);
    assert_int_equal(back.len, r.len);
    assert_memory_equal(back.words, r.words, r.len * sizeof(*r.words));
    assert_memory_equal(back.starts, r.starts, r.n * sizeof(*r.starts));
    fl_columns_release(&c);
    fl_free(at);
    fl_records_release(&back);
    fl_records_release(&r);
}

static void the_words_of_a_record_end_where_the_next_begins(void **state)
{
    fl_records r = { 0 };

    (void)state;
    add_key_records(&schema, 0, N, &r);
    for (size_t i = 0; i < r.n; i++) {
        size_t end = i + 1 < r.n ? r.starts[i + 1] : r.len;

        assert_int_equal(fl_row_words(&schema, fl_records_at(&r, i)),
                         end - r.starts[i]);
    }
    fl_records_release(&r);
}

/* One slot of each kind with exactly n values. */
static void check_count(uint32_t n)
{
    const fl_slot slots[] = {
        { .name = "a", .kind = FL_SLOT_FLOATS },
        { .name = "b", .kind = FL_SLOT_IDS },
        { .name = "end", .kind = FL_SLOT_IDS, .width = 1 }
    };
    fl_row_writer w = { 0 };
    fl_records r = { 0 };
    const uint32_t *at;
    fl_columns c;
    fl_schema s;

    assert_ok(fl_schema_init(&s, slots, FL_LEN(slots)));
    w.schema = &s;
    w.rows = &r;
    assert_ok(fl_row_open(&w, 2 * (size_t)n + 1));
    fl_row_slot(&w, &s.slots[0], 0, n);
    for (uint32_t i = 0; i < n; i++)
        fl_row_float(&w, (float)i);
    fl_row_slot(&w, &s.slots[1], 1, n);
    for (uint32_t i = 0; i < n; i++)
        fl_row_id(&w, UINT64_MAX - i);
    fl_row_slot(&w, &s.slots[2], 2, 1);
    fl_row_id(&w, 42);
    fl_row_close(&w);
    at = fl_records_at(&r, 0);
    assert_int_equal(fl_row_words(&s, at), r.len);
    fl_columns_init(&c, &s);
    assert_ok(fl_columns_gather(&c, &at, 1));
    assert_int_equal(c.cols[0].n_values, n);
    assert_int_equal(c.cols[1].n_values, n);
    for (uint32_t i = 0; i < n; i++) {
        assert_true(((float *)c.cols[0].values)[i] == (float)i);
        assert_true(((uint64_t *)c.cols[1].values)[i] == UINT64_MAX - i);
    }
    assert_int_equal(((uint64_t *)c.cols[2].values)[0], 42);
    fl_columns_release(&c);
    fl_records_release(&r);
    fl_schema_release(&s);
}

static void counts_around_one_byte_are_kept(void **state)
{
    static const uint32_t counts[] = {
        0, 1, 3, 253, 254, 255, 256, 257, 70000
    };

    (void)state;
    for (size_t i = 0; i < FL_LEN(counts); i++)
        check_count(counts[i]);
}

/* --- one value each -------------------------------------------------------- */

static const fl_slot click_slots[] = {
    { .name = "label", .kind = FL_SLOT_IDS, .width = 1 },
    { .name = "x", .kind = FL_SLOT_FLOATS, .width = 3 },
    { .name = "price", .kind = FL_SLOT_FLOATS },
    { .name = "user", .kind = FL_SLOT_IDS },
    { .name = "item", .kind = FL_SLOT_IDS }
};

/* Record i; its item has n values, everything else one. */
static void add_click(fl_row_writer *w, uint64_t i, uint32_t n)
{
    const fl_slot *slots = w->schema->slots;

    assert_ok(fl_row_open(w, 6 + (size_t)n));
    fl_row_slot(w, &slots[0], 0, 1);
    fl_row_id(w, i % 2);
    fl_row_slot(w, &slots[1], 0, 3);
    for (int k = 0; k < 3; k++)
        fl_row_float(w, (float)i + (float)k / 4);
    fl_row_slot(w, &slots[2], 0, 1);
    fl_row_float(w, (float)i / 2);
    fl_row_slot(w, &slots[3], 1, 1);
    fl_row_id(w, UINT64_MAX - i);
    fl_row_slot(w, &slots[4], 2, n);
    for (uint32_t k = 0; k < n; k++)
        fl_row_id(w, 10 * i + k);
    fl_row_close(w);
}

static void check_clicks(const fl_columns *c, size_t n)
{
    const float *x = c->feeds[1].value.data, *price = c->feeds[2].value.data;
    const uint64_t *label = c->feeds[0].value.data;
    const uint64_t *user = c->feeds[3].value.data;
    const uint64_t *item = c->feeds[4].value.data;

    for (size_t i = 0; i < n; i++) {
        assert_int_equal(label[i], i % 2);
        for (size_t k = 0; k < 3; k++)
            assert_true(x[3 * i + k] == (float)i + (float)k / 4);
        assert_true(price[i] == (float)i / 2);
        assert_true(user[i] == UINT64_MAX - i);
        assert_int_equal(item[c->feeds[4].value.lod[0][i]], 10 * i);
        for (int s = 2; s < 4; s++)
            assert_int_equal(c->feeds[s].value.lod[0][i + 1], i + 1);
    }
}

/* Batches with one value each, and such in which a record has more. */
static void records_of_one_value_each_share_their_offsets(void **state)
{
    static const uint32_t last_counts[] = { 1, 2, 1, 0, 1 };
    fl_columns c;
    fl_schema s;

    (void)state;
    assert_ok(fl_schema_init(&s, click_slots, FL_LEN(click_slots)));
    fl_columns_init(&c, &s);
    for (size_t round = 0; round < FL_LEN(last_counts); round++) {
        bool is_even = last_counts[round] == 1;
        fl_records r = { 0 };
        fl_row_writer w = { .schema = &s, .rows = &r };
        const uint32_t **at;

        for (uint64_t i = 0; i + 1 < N; i++)
            add_click(&w, i, 1);
        add_click(&w, N - 1, last_counts[round]);
        at = pointers(&r);
        assert_ok(fl_columns_gather(&c, at, N));
        check_clicks(&c, N - !is_even);
        assert_int_equal(c.cols[4].n_values, N - 1 + last_counts[round]);
        assert_int_equal(c.cols[4].offsets[N], c.cols[4].n_values);
        assert_int_equal(c.feeds[2].value.lod[0] == c.feeds[4].value.lod[0],
                         is_even);
        fl_free(at);
        fl_records_release(&r);
    }
    fl_columns_release(&c);
    fl_schema_release(&s);
}

static void a_dropped_record_never_was(void **state)
{
    fl_records r = { 0 };
    fl_row_writer w = { .schema = &schema, .rows = &r };

    (void)state;
    for (uint64_t key = 0; key < N; key++) {
        assert_ok(fl_row_open(&w, 900));
        for (int i = 0; i < 700; i++)
            fl_row_id(&w, 77);
        fl_row_drop(&w);
        add_key_record(&w, key);
    }
    check_rows(&r, N);
    fl_records_release(&r);
}

static void a_tail_moves_behind_what_is_there(void **state)
{
    fl_records a = { 0 }, b = { 0 };

    (void)state;
    add_key_records(&schema, 0, 100, &b);
    add_key_records(&schema, 900, 1000, &a);
    add_key_records(&schema, 100, N, &a);
    assert_ok(fl_records_move_tail(&a, 100, &b));
    assert_int_equal(a.n, 100);
    check_rows(&b, N);
    assert_ok(fl_records_move_tail(&a, 100, &b));
    assert_int_equal(b.n, N);
    /* What is left can be written on. */
    assert_ok(fl_records_move_tail(&a, 0, &b));
    assert_int_equal(a.n, 0);
    assert_int_equal(a.len, 0);
    add_key_records(&schema, 0, N, &a);
    check_rows(&a, N);
    fl_records_release(&a);
    fl_records_release(&b);
}

static void without_memory_rows_and_columns_say_so(void **state)
{
    fl_records r = { 0 };
    fl_row_writer w = { .schema = &schema, .rows = &r };
    const uint32_t **at;
    fl_columns c;

    (void)state;
    fl_alloc_fail_after(1);
    assert_int_equal(fl_row_open(&w, 1 << 20), FL_ERR_NOMEM);
    fl_alloc_fail_after(0);
    add_key_records(&schema, 0, N, &r);
    at = pointers(&r);
    fl_columns_init(&c, &schema);
    for (uint64_t n = 1; n <= 5; n++) {
        fl_alloc_fail_after(n);
        assert_int_equal(fl_columns_gather(&c, at, r.n), FL_ERR_NOMEM);
        fl_columns_release(&c);
        fl_columns_init(&c, &schema);
    }
    fl_alloc_fail_after(0);
    assert_ok(fl_columns_gather(&c, at, r.n));
    fl_columns_release(&c);
    fl_free(at);
    fl_records_release(&r);
}

static void slots_without_a_good_name_are_refused(void **state)
{
    const fl_slot twice[] = { { .name = "a", .width = 1 }, { .name = "a" } };
    const fl_slot none[] = { { .name = "", .width = 1 } };
    const fl_slot tall[] = {
        { .name = "x", .kind = FL_SLOT_FLOATS, .height = 3 }
    };
    fl_schema s;

    (void)state;
    assert_int_equal(fl_schema_init(&s, twice, 2), FL_ERR_INVAL);
    assert_said("two slots are called a");
    assert_int_equal(fl_schema_init(&s, none, 1), FL_ERR_INVAL);
    assert_int_equal(fl_schema_init(&s, tall, 1), FL_ERR_INVAL);
    assert_int_equal(fl_schema_init(&s, tall, 0), FL_ERR_INVAL);
    assert_int_equal(fl_schema_find(&schema, "pair"), 2);
    assert_int_equal(fl_schema_find(&schema, "pears"), -1);
}

static void a_schema_hash_sees_every_field(void **state)
{
    fl_slot slots[] = { { .name = "a", .width = 1 }, { .name = "b" } };
    fl_schema s;
    uint64_t first, hash;

    (void)state;
    assert_ok(fl_schema_init(&s, slots, 2));
    first = fl_schema_hash(&s);
    fl_schema_release(&s);
    for (int i = 0; i < 4; i++) {
        fl_slot other[] = { slots[0], slots[1] };

        other[1].name = i == 0 ? "c" : "b";
        other[1].kind = i == 1 ? FL_SLOT_FLOATS : FL_SLOT_IDS;
        other[1].width = i == 2;
        other[1].height = i == 3;
        assert_ok(fl_schema_init(&s, other, 2));
        hash = fl_schema_hash(&s);
        fl_schema_release(&s);
        assert_true(hash != first);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(records_come_back_from_columns),
        cmocka_unit_test(columns_pack_into_the_same_rows),
        cmocka_unit_test(the_words_of_a_record_end_where_the_next_begins),
        cmocka_unit_test(counts_around_one_byte_are_kept),
        cmocka_unit_test(records_of_one_value_each_share_their_offsets),
        cmocka_unit_test(a_dropped_record_never_was),
        cmocka_unit_test(a_tail_moves_behind_what_is_there),
        cmocka_unit_test(without_memory_rows_and_columns_say_so),
        cmocka_unit_test(slots_without_a_good_name_are_refused),
        cmocka_unit_test(a_schema_hash_sees_every_field),
    };

    return cmocka_run_group_tests(tests, make_schema, drop_schema);
}
