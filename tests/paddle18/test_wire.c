/* test_wire.c - messages by tables: what is read, what is skipped, what is
 * refused and how. */
#include "kit.h"

#include "paddle18/wire.h"

typedef struct leaf {
    int64_t x;
} leaf;

typedef struct tree {
    int64_t count;
    double weight;
    const char *name;
    leaf *only;
    fl_wire_list ints, floats, texts, leaves;
} tree;

static const fl_wire_member leaf_members[] = {
    { 1, FL_WIRE_INT, offsetof(leaf, x), "x", true, NULL },
};
static const fl_wire_message leaf_message = { "Leaf", sizeof(leaf),
                                              leaf_members, 1 };
static const fl_wire_member tree_members[] = {
    { 1, FL_WIRE_INT, offsetof(tree, count), "count", true, NULL },
    { 2, FL_WIRE_FLOAT, offsetof(tree, weight), "weight", false, NULL },
    { 3, FL_WIRE_TEXT, offsetof(tree, name), "name", false, NULL },
    { 4, FL_WIRE_MESSAGE, offsetof(tree, only), "only", false, &leaf_message },
    { 5, FL_WIRE_INTS, offsetof(tree, ints), "ints", false, NULL },
    { 6, FL_WIRE_FLOATS, offsetof(tree, floats), "floats", false, NULL },
    { 7, FL_WIRE_TEXTS, offsetof(tree, texts), "texts", false, NULL },
    { 8, FL_WIRE_MESSAGES, offsetof(tree, leaves), "leaves", false,
      &leaf_message },
};
static const fl_wire_message tree_message = { "Tree", sizeof(tree),
                                              tree_members,
                                              FL_LEN(tree_members) };

/* One reading; the arena dies with it. */
typedef struct reading {
    fl_arena arena;
    tree t;
    fl_status st;
} reading;

static reading *read_bytes(const bytes *b, size_t len)
{
    reading *r = fl_alloc(sizeof(*r));

    fl_arena_init(&r->arena, 4096);
    r->st = fl_wire_read(&tree_message, b->data, len, &r->arena, &r->t);
    return r;
}

static void end(reading *r, bytes *b)
{
    fl_arena_release(&r->arena);
    fl_free(r);
    if (b)
        fl_vec_release(b);
}

static void add_leaf(bytes *b, uint32_t number, int64_t x)
{
    bytes inner = { 0 };

    field_int(&inner, 1, x);
    field_message(b, number, &inner);
}

static bytes whole_tree(void)
{
    bytes b = { 0 };

    field_int(&b, 1, -7);
    field_float(&b, 2, 0.5f);
    field_text(&b, 3, "oak");
    add_leaf(&b, 4, 1);
    field_int(&b, 5, 10);
    field_int(&b, 5, -11);
    field_float(&b, 6, 1.5f);
    field_text(&b, 7, "");
    field_text(&b, 7, "two");
    add_leaf(&b, 8, 2);
    add_leaf(&b, 8, 3);
    return b;
}

static void expect_whole_tree(const tree *t)
{
    assert_int_equal(t->count, -7);
    assert_true(t->weight == 0.5);
    assert_string_equal(t->name, "oak");
    assert_int_equal(t->only->x, 1);
    assert_int_equal(t->ints.n, 2);
    assert_int_equal(((int64_t *)t->ints.items)[1], -11);
    assert_int_equal(t->floats.n, 1);
    assert_true(((double *)t->floats.items)[0] == 1.5);
    assert_int_equal(t->texts.n, 2);
    assert_string_equal(((char **)t->texts.items)[0], "");
    assert_string_equal(((char **)t->texts.items)[1], "two");
    assert_int_equal(t->leaves.n, 2);
    assert_int_equal(((leaf *)t->leaves.items)[1].x, 3);
}

static void numbers_texts_lists_and_messages_are_read(void **state)
{
    bytes b = whole_tree();
    reading *r = read_bytes(&b, b.len);

    (void)state;
    expect_ok(r->st);
    expect_whole_tree(&r->t);
    end(r, &b);
}

static void what_no_table_has_is_skipped(void **state)
{
    bytes b = { 0 }, tail = whole_tree();
    uint64_t eight = 1;
    reading *r;

    (void)state;
    field_int(&b, 90, 5);
    field_float(&b, 91, 5);
    field_text(&b, 92, "unknown");
    put_varint(&b, 93 << 3 | 1);
    put(&b, &eight, sizeof(eight));
    put(&b, tail.data, tail.len);
    r = read_bytes(&b, b.len);
    expect_ok(r->st);
    expect_whole_tree(&r->t);
    fl_vec_release(&tail);
    end(r, &b);
}

static void packed_lists_are_the_same_as_single_fields(void **state)
{
    bytes b = { 0 }, ints = { 0 };
    float floats[] = { 1, 2, 3 };
    reading *r;

    (void)state;
    field_int(&b, 1, 0);
    field_int(&b, 5, 1);
    put_varint(&ints, 300);
    put_varint(&ints, (uint64_t)-1);
    field_message(&b, 5, &ints);
    field_bytes(&b, 6, floats, sizeof(floats));
    r = read_bytes(&b, b.len);
    expect_ok(r->st);
    assert_int_equal(r->t.ints.n, 3);
    assert_int_equal(((int64_t *)r->t.ints.items)[1], 300);
    assert_int_equal(((int64_t *)r->t.ints.items)[2], -1);
    assert_int_equal(r->t.floats.n, 3);
    assert_true(((double *)r->t.floats.items)[2] == 3);
    end(r, &b);
}

/* What ends behind a field is a message as well, unless something is missing;
   whatever comes of it, nothing is read behind the end. */
static void a_message_cut_anywhere_is_refused_or_shorter(void **state)
{
    bytes b = whole_tree();
    size_t n_refused = 0;

    (void)state;
    for (size_t len = 0; len < b.len; len++) {
        bytes cut = { 0 };
        reading *r;

        put(&cut, b.data, len); /* memory that ends there */
        r = read_bytes(&cut, len);
        n_refused += r->st == FL_ERR_CORRUPT;
        assert_true(!r->st || r->st == FL_ERR_CORRUPT);
        end(r, &cut);
    }
    assert_true(n_refused > b.len / 2);
    fl_vec_release(&b);
}

static void expect_refused(bytes *b, const char *part)
{
    reading *r = read_bytes(b, b->len);

    assert_int_equal(r->st, FL_ERR_CORRUPT);
    expect_said(part);
    end(r, b);
}

static void what_is_wrong_is_named_with_its_place(void **state)
{
    bytes none = { 0 }, text = { 0 }, zero = { 0 }, leafless = { 0 };
    bytes empty = { 0 }, number = { 0 }, form = { 0 }, odd = { 0 };

    (void)state;
    field_text(&none, 3, "no count");
    expect_refused(&none, "Tree, byte 0: field count is missing");
    field_text(&text, 1, "x");
    expect_refused(&text, "field count is no whole number");
    field_int(&zero, 1, 1);
    field_bytes(&zero, 3, "a\0b", 3);
    expect_refused(&zero, "field name has a zero byte in its text");
    field_int(&leafless, 1, 1);
    field_int(&leafless, 4, 1);
    expect_refused(&leafless, "field only is no message");
    field_int(&empty, 1, 1);
    field_bytes(&empty, 8, "", 0);
    expect_refused(&empty, "field leaves lacks what it must have");
    field_int(&number, 1, 1);
    put_varint(&number, 0);
    expect_refused(&number, "the number of a field is out of range");
    put_varint(&form, 1 << 3 | 3);
    expect_refused(&form, "a field has a form that does not exist");
    field_int(&odd, 1, 1);
    field_bytes(&odd, 6, "12345", 5);
    expect_refused(&odd, "a number is cut off");
}

static void a_length_beyond_the_end_is_refused(void **state)
{
    bytes b = { 0 };

    (void)state;
    field_int(&b, 1, 1);
    put_varint(&b, 3 << 3 | 2);
    put_varint(&b, UINT64_MAX);
    expect_refused(&b, "a field is longer than what is left");
}

static void no_memory_is_told(void **state)
{
    bytes b = whole_tree();
    reading *r;

    (void)state;
    fl_alloc_fail_after(1);
    r = read_bytes(&b, b.len);
    fl_alloc_fail_after(0);
    assert_int_equal(r->st, FL_ERR_NOMEM);
    end(r, &b);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(numbers_texts_lists_and_messages_are_read),
        cmocka_unit_test(what_no_table_has_is_skipped),
        cmocka_unit_test(packed_lists_are_the_same_as_single_fields),
        cmocka_unit_test(a_message_cut_anywhere_is_refused_or_shorter),
        cmocka_unit_test(what_is_wrong_is_named_with_its_place),
        cmocka_unit_test(a_length_beyond_the_end_is_refused),
        cmocka_unit_test(no_memory_is_told),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
