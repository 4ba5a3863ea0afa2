/* test_arena.c - shared memory: blocks, and descriptors that can be trusted. */
#include "wire_kit.h"

#include <fcntl.h>
#include <sys/mman.h>

#include "rpc/stream/shared_arena.h"

#define UNIT FL_ARENA_UNIT
#define ARENA_BYTES ((uint64_t)1 << 20)

/* --- blocks --------------------------------------------------------------- */

static fl_arena_out *make_arena(uint64_t bytes)
{
    fl_arena_out *a = NULL;

    assert_ok(fl_arena_out_new(&a, bytes));
    return a;
}

static void sizes_that_cannot_be_are_refused(void **state)
{
    fl_arena_out *a = NULL;

    (void)state;
    assert_int_equal(fl_arena_out_new(&a, 0), FL_ERR_INVAL);
    assert_int_equal(fl_arena_out_new(&a, FL_ARENA_MAX + 1), FL_ERR_INVAL);
    fl_alloc_fail_after(1);
    assert_int_equal(fl_arena_out_new(&a, ARENA_BYTES), FL_ERR_NOMEM);
    fl_alloc_fail_after(0);
    assert_null(a);
    a = make_arena(1);
    assert_int_equal(fl_arena_out_bytes(a), UNIT);
    fl_arena_out_free(a);
    fl_arena_out_free(NULL);
}

static void a_full_arena_gives_nothing_and_is_whole_again_later(void **state)
{
    fl_arena_out *a = make_arena(8 * UNIT);
    uint64_t place[8], all;

    (void)state;
    assert_null(fl_arena_out_take(a, 0, &all));
    assert_null(fl_arena_out_take(a, 8 * UNIT + 1, &all));
    assert_null(fl_arena_out_take(a, UINT64_MAX, &all));
    for (int i = 0; i < 8; i++) {
        assert_non_null(fl_arena_out_take(a, 1 + i * 500, &place[i]));
        assert_int_equal(place[i], i * UNIT);
    }
    assert_null(fl_arena_out_take(a, 1, &all));
    assert_int_equal(fl_arena_out_used(a), 8 * UNIT);
    for (int i = 0; i < 8; i++)
        assert_true(fl_arena_out_give(a, place[(i * 3) % 8]));
    assert_int_equal(fl_arena_out_used(a), 0);
    assert_non_null(fl_arena_out_take(a, 8 * UNIT, &all));
    assert_int_equal(all, 0);
    fl_arena_out_free(a);
}

static void the_lowest_block_that_will_do_is_taken(void **state)
{
    fl_arena_out *a = make_arena(16 * UNIT);
    uint64_t p[5], q;

    (void)state;
    for (int i = 0; i < 5; i++)
        assert_non_null(fl_arena_out_take(a, (i + 1) * UNIT, &p[i]));
    assert_true(fl_arena_out_give(a, p[1]));
    assert_true(fl_arena_out_give(a, p[3]));
    assert_non_null(fl_arena_out_take(a, 3 * UNIT, &q));
    assert_int_equal(q, p[3]);
    assert_non_null(fl_arena_out_take(a, UNIT, &q));
    assert_int_equal(q, p[1]);
    assert_non_null(fl_arena_out_take(a, UNIT, &q));
    assert_int_equal(q, p[1] + UNIT);
    fl_arena_out_free(a);
}

static void places_that_are_not_in_use_are_refused(void **state)
{
    fl_arena_out *a = make_arena(16 * UNIT);
    uint64_t p;

    (void)state;
    assert_false(fl_arena_out_give(a, 0));
    assert_non_null(fl_arena_out_take(a, 3 * UNIT, &p));
    assert_false(fl_arena_out_give(a, p + 1));
    assert_false(fl_arena_out_give(a, p + UNIT));
    assert_false(fl_arena_out_give(a, p + 2 * UNIT));
    assert_false(fl_arena_out_give(a, p + 3 * UNIT));
    assert_false(fl_arena_out_give(a, 16 * UNIT));
    assert_false(fl_arena_out_give(a, (uint64_t)1 << 44));
    assert_false(fl_arena_out_give(a, UINT64_MAX / UNIT * UNIT));
    assert_true(fl_arena_out_give(a, p));
    assert_false(fl_arena_out_give(a, p));
    assert_int_equal(fl_arena_out_used(a), 0);
    fl_arena_out_free(a);
}

/* Random blocks, each filled with its own byte for as long as it lives. */
static void blocks_never_overlap(void **state)
{
    enum { N = 64, UNITS = 256 };
    static struct {
        uint8_t *at;
        uint64_t place, len;
    } b[N];
    fl_arena_out *a = make_arena(UNITS * UNIT);
    uint64_t s = 1, all;

    (void)state;
    memset(b, 0, sizeof(b));
    for (int i = 0; i < 20000; i++) {
        size_t k = fl_mix64(++s) % N;

        if (b[k].at) {
            for (uint64_t j = 0; j < b[k].len; j += 997)
                assert_int_equal(b[k].at[j], k);
            assert_int_equal(b[k].at[b[k].len - 1], k);
            assert_true(fl_arena_out_give(a, b[k].place));
            b[k].at = NULL;
            continue;
        }
        b[k].len = 1 + fl_mix64(++s) % (10 * UNIT);
        b[k].at = fl_arena_out_take(a, b[k].len, &b[k].place);
        if (b[k].at)
            memset(b[k].at, (int)k, b[k].len);
    }
    for (size_t k = 0; k < N; k++)
        assert_true(!b[k].at || fl_arena_out_give(a, b[k].place));
    assert_non_null(fl_arena_out_take(a, UNITS * UNIT, &all));
    fl_arena_out_free(a);
}

/* --- descriptors ---------------------------------------------------------- */

static void the_receiver_sees_what_the_sender_writes(void **state)
{
    fl_arena_out *a = make_arena(ARENA_BYTES);
    fl_arena_in *in = NULL;
    uint64_t place;
    uint8_t *room;

    (void)state;
    assert_ok(fl_arena_in_new(&in, fl_arena_out_fd(a), ARENA_BYTES));
    assert_int_equal(fl_arena_in_bytes(in), ARENA_BYTES);
    assert_non_null(fl_arena_out_take(a, UNIT, &place));
    room = fl_arena_out_take(a, 100, &place);
    memset(room, 77, 100);
    assert_int_equal(fl_arena_in_at(in, place, 100)[99], 77);
    fl_arena_out_free(a);
    assert_int_equal(fl_arena_in_at(in, place, 100)[0], 77);
    fl_arena_in_unref(fl_arena_in_ref(in));
    fl_arena_in_unref(in);
    fl_arena_in_unref(NULL);
}

static void places_outside_of_the_mapping_are_refused(void **state)
{
    fl_arena_out *a = make_arena(ARENA_BYTES);
    fl_arena_in *in = NULL;

    (void)state;
    assert_ok(fl_arena_in_new(&in, fl_arena_out_fd(a), ARENA_BYTES));
    assert_non_null(fl_arena_in_at(in, 0, ARENA_BYTES));
    assert_non_null(fl_arena_in_at(in, ARENA_BYTES - UNIT, UNIT));
    assert_null(fl_arena_in_at(in, 0, ARENA_BYTES + 1));
    assert_null(fl_arena_in_at(in, 1, 10));
    assert_null(fl_arena_in_at(in, 64, 10));
    assert_null(fl_arena_in_at(in, ARENA_BYTES, 1));
    assert_null(fl_arena_in_at(in, ARENA_BYTES - UNIT, UNIT + 1));
    assert_null(fl_arena_in_at(in, UINT64_MAX - UNIT + 1, UNIT));
    assert_null(fl_arena_in_at(in, UNIT, UINT64_MAX));
    fl_arena_in_unref(in);
    fl_arena_out_free(a);
}

static void the_memory_can_neither_shrink_nor_be_written_by_a_peer(void **state)
{
    fl_arena_out *a = make_arena(ARENA_BYTES);
    int fd = fl_arena_out_fd(a);

    (void)state;
    assert_int_not_equal(ftruncate(fd, 0), 0);
    assert_int_not_equal(ftruncate(fd, 2 * ARENA_BYTES), 0);
    assert_int_not_equal(fcntl(fd, F_ADD_SEALS, F_SEAL_WRITE), 0);
    if (fcntl(fd, F_GET_SEALS) & 0x10) { /* FUTURE_WRITE, since Linux 5.1 */
        assert_ptr_equal(
            mmap(NULL, UNIT, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0),
            MAP_FAILED);
        assert_int_equal(pwrite(fd, "x", 1, 0), -1);
    }
    fl_arena_out_free(a);
}

static void expect_no_arena(int fd, uint64_t bytes, const char *says)
{
    fl_arena_in *in = NULL;

    assert_int_equal(fl_arena_in_new(&in, fd, bytes), FL_ERR_CORRUPT);
    assert_says(says);
    assert_null(in);
}

static void descriptors_that_are_no_arena_are_refused(void **state)
{
    fl_arena_out *a = make_arena(ARENA_BYTES);
    FILE *file = tmpfile();
    int fd = memfd_create("test", MFD_CLOEXEC | MFD_ALLOW_SEALING);
    int ends[2];

    (void)state;
    assert_int_equal(pipe(ends), 0);
    assert_int_equal(ftruncate(fd, ARENA_BYTES), 0);
    expect_no_arena(ends[0], ARENA_BYTES, "sealed");
    expect_no_arena(fileno(file), ARENA_BYTES, "sealed");
    expect_no_arena(fd, ARENA_BYTES, "sealed");
    assert_int_equal(fcntl(fd, F_ADD_SEALS, F_SEAL_GROW), 0);
    expect_no_arena(fd, ARENA_BYTES, "sealed");
    expect_no_arena(fl_arena_out_fd(a), ARENA_BYTES - 1, "1048575");
    expect_no_arena(fl_arena_out_fd(a), 0, "has 1048576");
    expect_no_arena(fl_arena_out_fd(a), UINT64_MAX, "has 1048576");
    fclose(file);
    close(fd);
    close(ends[0]);
    close(ends[1]);
    fl_arena_out_free(a);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(sizes_that_cannot_be_are_refused),
        cmocka_unit_test(a_full_arena_gives_nothing_and_is_whole_again_later),
        cmocka_unit_test(the_lowest_block_that_will_do_is_taken),
        cmocka_unit_test(places_that_are_not_in_use_are_refused),
        cmocka_unit_test(blocks_never_overlap),
        cmocka_unit_test(the_receiver_sees_what_the_sender_writes),
        cmocka_unit_test(places_outside_of_the_mapping_are_refused),
        cmocka_unit_test(
            the_memory_can_neither_shrink_nor_be_written_by_a_peer),
        cmocka_unit_test(descriptors_that_are_no_arena_are_refused),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
