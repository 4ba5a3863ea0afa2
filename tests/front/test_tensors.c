/* test_tensors.c - named tensors as bytes. */
#include "../api/api.h"

#include <stdint.h>
#include <stdlib.h>

#include "base/alloc.h"
#include "front/tensors.h"

static const int64_t ids[] = { 5, 6, 7, 8 };
static const int64_t offsets[] = { 0, 1, 1, 4 };
static const float x[] = { 0.5f, -1, 2 };
static const uint8_t bits[] = { 1, 0, 1 };

static void make_feeds(fl_feed out[3])
{
    out[0] =
        (fl_feed){ "ids", fl_tensor_ragged(FL_DTYPE_I64, ids, 2,
                                           (int64_t[]){ 4, 1 }, offsets, 3) };
    out[1] =
        (fl_feed){ "x", fl_tensor_of(FL_DTYPE_F32, x, 2, (int64_t[]){ 3, 1 }) };
    out[2] = (fl_feed){ "bits", fl_tensor_of(FL_DTYPE_BOOL, bits, 1,
                                             (int64_t[]){ 3 }) };
}

static fl_pack pack_all(void)
{
    fl_pack p = { 0 };
    fl_feed feeds[3];

    make_feeds(feeds);
    fl_tensors_pack(&p, feeds, 3);
    return p;
}

/* Bytes at the end of memory of their own, so that a read beyond is seen. */
static fl_status unpack(const uint8_t *bytes, size_t len, fl_arena *arena,
                        fl_feed **feeds, size_t *n)
{
    uint8_t *copy = fl_try_alloc(len ? len : 1);
    fl_status st;

    memcpy(copy, bytes, len);
    st = fl_tensors_unpack(copy, len, arena, feeds, n);
    fl_data_free(copy, len ? len : 1);
    return st;
}

static void what_was_packed_is_read_again(void **state)
{
    fl_pack p = pack_all();
    fl_arena arena;
    fl_feed *got;
    size_t n;

    (void)state;
    fl_arena_init(&arena, 4096);
    assert_ok(fl_tensors_unpack(p.data, p.len, &arena, &got, &n));
    assert_int_equal(n, 3);
    assert_string_equal(got[0].name, "ids");
    assert_int_equal(got[0].value.n_lod, 1);
    assert_int_equal(got[0].value.lod_len[0], 4);
    assert_memory_equal(got[0].value.lod[0], offsets, sizeof(offsets));
    assert_memory_equal(got[0].value.data, ids, sizeof(ids));
    assert_string_equal(got[1].name, "x");
    assert_memory_equal(got[1].value.data, x, sizeof(x));
    assert_int_equal(got[2].value.dtype, FL_DTYPE_BOOL);
    assert_memory_equal(got[2].value.data, bits, sizeof(bits));
    fl_arena_release(&arena);
    fl_pack_release(&p);
}

static void every_shorter_message_is_refused(void **state)
{
    fl_pack p = pack_all();
    fl_arena arena;
    fl_feed *got;
    size_t n;

    (void)state;
    fl_arena_init(&arena, 4096);
    for (size_t len = 0; len < p.len; len++)
        assert_int_equal(unpack(p.data, len, &arena, &got, &n), FL_ERR_CORRUPT);
    fl_arena_release(&arena);
    fl_pack_release(&p);
}

static void a_longer_message_is_refused(void **state)
{
    fl_pack p = pack_all();
    fl_arena arena;
    fl_feed *got;
    size_t n;

    (void)state;
    fl_arena_init(&arena, 4096);
    fl_pack_u8(&p, 0);
    assert_int_equal(unpack(p.data, p.len, &arena, &got, &n), FL_ERR_CORRUPT);
    assert_said("1 bytes follow the last tensor");
    fl_arena_release(&arena);
    fl_pack_release(&p);
}

/* A changed message is read or refused, and never more than it has is read. */
static void changed_bytes_do_no_harm(void **state)
{
    fl_pack p = pack_all();
    fl_arena arena;
    fl_feed *got;
    size_t n;

    (void)state;
    fl_arena_init(&arena, 4096);
    for (size_t i = 0; i < p.len; i++)
        for (int bit = 0; bit < 8; bit++) {
            p.data[i] ^= (uint8_t)(1 << bit);
            (void)unpack(p.data, p.len, &arena, &got, &n);
            p.data[i] ^= (uint8_t)(1 << bit);
            fl_arena_clear(&arena);
        }
    fl_arena_release(&arena);
    fl_pack_release(&p);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_was_packed_is_read_again),
        cmocka_unit_test(every_shorter_message_is_refused),
        cmocka_unit_test(a_longer_message_is_refused),
        cmocka_unit_test(changed_bytes_do_no_harm),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
