/* test_hello.c - identities as bytes and as text. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "base/alloc.h"
#include "rpc/wire/hello.h"

/* Where the fields lie, for tests that spoil them. */
enum { ROLE_AT = 0, LIFE_AT = 16, JOB_AT = 32 };

static fl_identity some_identity(void)
{
    return (fl_identity){ .role = FL_MEMBER_SERVER,
                          .rank = 3,
                          .incarnation = 2,
                          .boot_id = UINT64_C(0x0123456789abcdef),
                          .features = UINT64_C(1) << 63,
                          .process = 77,
                          .job = "ctr",
                          .address = "10.0.0.7:4321" };
}

static bool unpacks(const uint8_t *bytes, size_t len, fl_identity *out)
{
    fl_unpack u = { .at = bytes, .end = bytes + len };

    fl_identity_unpack(&u, out);
    return !u.bad && u.at == u.end;
}

static void expect_equal(const fl_identity *a, const fl_identity *b)
{
    assert_int_equal(a->role, b->role);
    assert_int_equal(a->rank, b->rank);
    assert_int_equal(a->incarnation, b->incarnation);
    assert_true(a->boot_id == b->boot_id);
    assert_true(a->features == b->features);
    assert_int_equal(a->process, b->process);
    assert_string_equal(a->job, b->job);
    assert_string_equal(a->address, b->address);
}

static void an_identity_comes_back_as_it_went(void **state)
{
    fl_identity id = some_identity(), got;
    fl_pack p = { 0 };

    (void)state;
    fl_identity_pack(&p, &id);
    assert_true(unpacks(p.data, p.len, &got));
    expect_equal(&id, &got);
    fl_pack_release(&p);
}

static void texts_may_be_empty_or_fill_their_room(void **state)
{
    fl_identity id = { .role = FL_MEMBER_TOOL, .rank = UINT32_MAX }, got;
    fl_pack p = { 0 };

    (void)state;
    fl_identity_pack(&p, &id);
    assert_true(unpacks(p.data, p.len, &got));
    expect_equal(&id, &got);
    fl_pack_release(&p);

    memset(id.job, 'j', sizeof(id.job) - 1);
    memset(id.address, 'a', sizeof(id.address) - 1);
    fl_identity_pack(&p, &id);
    assert_true(unpacks(p.data, p.len, &got));
    expect_equal(&id, &got);
    fl_pack_release(&p);
}

static void a_cut_identity_is_bad_wherever_it_is_cut(void **state)
{
    fl_identity id = some_identity(), got = { .rank = 5 };
    fl_pack p = { 0 };

    (void)state;
    fl_identity_pack(&p, &id);
    for (size_t len = 0; len < p.len; len++) {
        uint8_t *copy = fl_alloc(len + 1); /* so that ASan sees its end */

        memcpy(copy, p.data, len);
        assert_false(unpacks(copy, len, &got));
        fl_free(copy);
    }
    assert_int_equal(got.rank, 5);
    fl_pack_release(&p);
}

/* Packs `id`, sets one byte and expects a refusal. */
static void expect_bad(const fl_identity *id, size_t at, uint8_t value)
{
    fl_identity got;
    fl_pack p = { 0 };

    fl_identity_pack(&p, id);
    assert_true(at < p.len);
    p.data[at] = value;
    assert_false(unpacks(p.data, p.len, &got));
    fl_pack_release(&p);
}

static void unknown_roles_are_bad(void **state)
{
    fl_identity id = some_identity();

    (void)state;
    id.boot_id = 0;
    expect_bad(&id, ROLE_AT, 0);
    expect_bad(&id, ROLE_AT, 4);
    expect_bad(&id, ROLE_AT + 3, 0xff);
}

static void only_a_server_has_a_life(void **state)
{
    fl_identity id = some_identity();

    (void)state;
    id.role = FL_MEMBER_TRAINER;
    id.boot_id = 0;
    expect_bad(&id, LIFE_AT, 1);
}

static void control_characters_and_nul_in_texts_are_bad(void **state)
{
    static const uint8_t bad[] = { 0, '\n', 0x1b, 0x7f };
    fl_identity id = some_identity();
    size_t address_at = JOB_AT + 4 + strlen(id.job) + 4;

    (void)state;
    for (size_t i = 0; i < FL_LEN(bad); i++) {
        expect_bad(&id, JOB_AT + 4, bad[i]);
        expect_bad(&id, address_at + 2, bad[i]);
    }
}

static void expect_bad_texts(size_t job_len, size_t address_len)
{
    fl_identity id = some_identity(), got;
    fl_pack p = { 0 };
    char text[256];

    memset(text, 'x', sizeof(text));
    fl_identity_pack(&p, &id);
    p.len = JOB_AT;
    text[job_len] = 0;
    fl_pack_text(&p, text);
    text[job_len] = 'x';
    text[address_len] = 0;
    fl_pack_text(&p, text);
    assert_false(unpacks(p.data, p.len, &got));
    fl_pack_release(&p);
}

static void texts_that_are_too_long_are_bad(void **state)
{
    (void)state;
    expect_bad_texts(FL_JOB_MAX, 1);
    expect_bad_texts(1, sizeof(((fl_identity *)0)->address));
    expect_bad_texts(255, 255);
}

static void a_length_of_four_billion_is_bad(void **state)
{
    fl_identity id = some_identity(), got;
    fl_pack p = { 0 };

    (void)state;
    fl_identity_pack(&p, &id);
    memset(p.data + JOB_AT, 0xff, 4);
    assert_false(unpacks(p.data, p.len, &got));
    fl_pack_release(&p);
}

static void text_names_role_rank_place_and_process(void **state)
{
    fl_identity id = some_identity();
    char buf[256], small[8];

    (void)state;
    assert_string_equal(fl_identity_text(&id, "10.0.0.9:1", buf, sizeof(buf)),
                        "server 3 (10.0.0.9:1, process 77)");
    assert_string_equal(fl_identity_text(&id, NULL, buf, sizeof(buf)),
                        "server 3 (10.0.0.7:4321, process 77)");
    id.role = FL_MEMBER_TRAINER;
    id.address[0] = 0;
    assert_string_equal(fl_identity_text(&id, "", buf, sizeof(buf)),
                        "trainer 3 (process 77)");
    assert_string_equal(fl_identity_text(&id, "", small, sizeof(small)),
                        "trainer");
}

static void roles_have_names(void **state)
{
    (void)state;
    assert_string_equal(fl_member_role_name(FL_MEMBER_SERVER), "server");
    assert_string_equal(fl_member_role_name(FL_MEMBER_TRAINER), "trainer");
    assert_string_equal(fl_member_role_name(FL_MEMBER_TOOL), "tool");
    assert_string_equal(fl_member_role_name((fl_member_role)0), "member");
    assert_string_equal(fl_member_role_name((fl_member_role)99), "member");
}

int main(void)
{
    static const struct CMUnitTest tests[] = {
        cmocka_unit_test(an_identity_comes_back_as_it_went),
        cmocka_unit_test(texts_may_be_empty_or_fill_their_room),
        cmocka_unit_test(a_cut_identity_is_bad_wherever_it_is_cut),
        cmocka_unit_test(unknown_roles_are_bad),
        cmocka_unit_test(only_a_server_has_a_life),
        cmocka_unit_test(control_characters_and_nul_in_texts_are_bad),
        cmocka_unit_test(texts_that_are_too_long_are_bad),
        cmocka_unit_test(a_length_of_four_billion_is_bad),
        cmocka_unit_test(text_names_role_rank_place_and_process),
        cmocka_unit_test(roles_have_names),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
