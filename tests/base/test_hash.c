/* test_hash.c - pinned values, and names that were meant. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "base/hash.h"
#include "base/status.h"
#include "flotilla/words.h"

/* Computed by a second implementation; models at rest depend on them. */
static void hash_values_never_change(void **state)
{
    (void)state;
    assert_true(fl_hash_str("") == 0xf52a15e9a9b5e89bu);
    assert_true(fl_hash_str("a") == 0x02c0bdbf481420f8u);
    assert_true(fl_hash_str("embedding") == 0x325b4adc7b755e80u);
    assert_true(fl_mix64(1) == 0x5692161d100b05e5u);
}

static void a_key_is_found_by_its_hash(void **state)
{
    (void)state;
    for (uint64_t i = 0; i < 1000; i++) {
        uint64_t key = fl_mix64(i);

        assert_true(fl_hash_origin(fl_hash_key(key)) == key);
        assert_true(fl_hash_origin(fl_hash_key(i)) == i);
        assert_true(fl_hash_origin(fl_hash_key(-i)) == -i);
    }
}

static void bytes_and_text_hash_alike(void **state)
{
    const char with_nul[] = "ab\0c";

    (void)state;
    assert_true(fl_hash_bytes("ab", 2) == fl_hash_str("ab"));
    assert_true(fl_hash_bytes(with_nul, 4) != fl_hash_str("ab"));
    assert_true(fl_hash_bytes("\xff", 1) == fl_hash_str("\xff"));
}

static void one_bit_of_input_turns_half_of_the_output(void **state)
{
    int turned = 0;

    (void)state;
    for (uint64_t x = 0; x < 1000; x++) {
        for (int bit = 0; bit < 64; bit++) {
            uint64_t y = x ^ ((uint64_t)1 << bit);

            turned += __builtin_popcountll(fl_mix64(x) ^ fl_mix64(y));
        }
    }
    assert_true(turned > 64000 * 31 && turned < 64000 * 33);
}

static const char *const names[] = {
    "learning_rate", "batch_size", "threads", "seed", "epochs", "k",
};

static const char *nearest(const char *word)
{
    return fl_nearest_name(word, names, FL_LEN(names));
}

static void a_typing_error_finds_its_name(void **state)
{
    (void)state;
    assert_string_equal(nearest("learning_rate"), "learning_rate");
    assert_string_equal(nearest("learnig_rate"), "learning_rate");
    assert_string_equal(nearest("leraning_rate"), "learning_rate");
    assert_string_equal(nearest("lerning_ratte"), "learning_rate");
    assert_string_equal(nearest("batchsize"), "batch_size");
    assert_string_equal(nearest("thread"), "threads");
    assert_string_equal(nearest("sede"), "seed");
}

static void long_names_forgive_a_third(void **state)
{
    (void)state;
    assert_string_equal(nearest("larnin_rite"), "learning_rate");
    assert_null(nearest("lrnng_rt"));
}

static void a_far_word_finds_nothing(void **state)
{
    (void)state;
    assert_null(nearest("optimizer"));
    assert_null(nearest(""));
    assert_null(nearest("zz"));
    assert_null(fl_nearest_name("seed", names, 0));
}

static void of_two_near_names_the_nearer_wins(void **state)
{
    const char *const near[] = { "adamax", "adam", "adama" };

    (void)state;
    assert_string_equal(fl_nearest_name("adm", near, 3), "adam");
    assert_string_equal(fl_nearest_name("adamay", near, 3), "adamax");
}

static void two_slips_in_three_letters_are_another_word(void **state)
{
    const char *const operators[] = { "auc", "relu", "sum", "mul" };

    (void)state;
    assert_null(fl_nearest_name("abs", operators, 4));
    assert_string_equal(fl_nearest_name("rleu", operators, 4), "relu");
    assert_string_equal(fl_nearest_name("sun", operators, 4), "sum");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(hash_values_never_change),
        cmocka_unit_test(a_key_is_found_by_its_hash),
        cmocka_unit_test(bytes_and_text_hash_alike),
        cmocka_unit_test(one_bit_of_input_turns_half_of_the_output),
        cmocka_unit_test(a_typing_error_finds_its_name),
        cmocka_unit_test(long_names_forgive_a_third),
        cmocka_unit_test(a_far_word_finds_nothing),
        cmocka_unit_test(of_two_near_names_the_nearer_wins),
        cmocka_unit_test(two_slips_in_three_letters_are_another_word),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
