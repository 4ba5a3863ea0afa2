/* test_keys.c - where keys belong, and their hashes: every instruction set, every length. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/hash.h"
#include "kernel/keys.h"

#define LEN_MAX 70

#define DECLARE(t, isa)                                                        \
    extern const fl_key_loops_table fl_key_loops_table_of_##isa;
#define ADDR(t, isa) &fl_key_loops_table_of_##isa,
FL_ISA_MAP(DECLARE, keys)
static const fl_key_loops_table *const sets[] = { FL_ISA_MAP(ADDR, keys) };

static void check(const uint64_t *keys, size_t n, int n_servers,
                  bool is_in_order)
{
    uint16_t got[LEN_MAX];

    for (int s = 0; s <= (int)fl_isa(); s++) {
        assert_int_equal(sets[s]->servers(got, keys, n, n_servers),
                         is_in_order);
        for (size_t i = 0; i < n; i++)
            assert_int_equal(got[i], fl_server_of(keys[i], n_servers));
    }
}

static void each_key_has_its_server(void **state)
{
    uint64_t keys[LEN_MAX];

    (void)state;
    for (size_t i = 0; i < LEN_MAX; i++)
        keys[i] = i % 3 ? fl_mix64(i) : i;
    for (int n_servers = 1; n_servers <= FL_SHARDS; n_servers = n_servers * 3)
        for (size_t n = 0; n <= LEN_MAX; n++) {
            bool is_in_order = true;

            for (size_t i = 1; i < n; i++)
                is_in_order &= fl_server_of(keys[i - 1], n_servers) <=
                               fl_server_of(keys[i], n_servers);
            check(keys, n, n_servers, is_in_order);
        }
}

static void keys_that_come_server_by_server_are_in_order(void **state)
{
    uint64_t keys[LEN_MAX];
    size_t n = 0;

    (void)state;
    for (int s = 0; s < 4; s++)
        for (uint64_t key = 0; n < LEN_MAX / 4 * (size_t)(s + 1); key++)
            if (fl_server_of(key, 4) == s)
                keys[n++] = key;
    check(keys, n, 4, true);
    for (size_t i = 1; i < n; i++)
        if (fl_server_of(keys[i], 4) != fl_server_of(keys[i - 1], 4)) {
            uint64_t key = keys[i];

            keys[i] = keys[i - 1];
            keys[i - 1] = key;
            check(keys, n, 4, false);
            keys[i - 1] = keys[i];
            keys[i] = key;
        }
}

static void check_hashes(const uint64_t *keys, size_t n, bool is_ascending)
{
    uint64_t got[LEN_MAX];

    for (int s = 0; s <= (int)fl_isa(); s++) {
        assert_int_equal(sets[s]->hashes(got, keys, n), is_ascending);
        for (size_t i = 0; i < n; i++)
            assert_true(got[i] == fl_hash_key(keys[i]));
    }
}

/* Keys of given hashes, wherever the one of the two that fall stands. Hashes are
   compared without a sign. */
static void hashes_say_whether_they_ascend(void **state)
{
    uint64_t keys[LEN_MAX] = { 0 };
    const uint64_t step = UINT64_MAX / LEN_MAX;

    (void)state;
    for (size_t n = 0; n <= LEN_MAX; n++) {
        for (size_t i = 0; i < n; i++)
            keys[i] =
                fl_hash_origin(1 + step * (i / 2 * 2)); /* twos are equal */
        check_hashes(keys, n, true);
        for (size_t i = 1; i < n; i++) {
            uint64_t key = keys[i];

            keys[i] = fl_hash_origin(fl_hash_key(keys[i - 1]) - 1);
            check_hashes(keys, n, false);
            keys[i] = key;
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(each_key_has_its_server),
        cmocka_unit_test(keys_that_come_server_by_server_are_in_order),
        cmocka_unit_test(hashes_say_whether_they_ascend),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
