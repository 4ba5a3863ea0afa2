/* dataset_kit.h - what the tests of records, memory and datasets share. */
#ifndef FL_TESTS_DATASET_KIT_H
#define FL_TESTS_DATASET_KIT_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>
#include <string.h>

#include "base/alloc.h"
#include "base/hash.h"
#include "base/status.h"
#include "data/columns.h"

#define assert_ok(expr)                                                        \
    do {                                                                       \
        if (expr)                                                              \
            fail_msg("%s", fl_last_error());                                   \
    } while (0)

#define assert_said(words)                                                     \
    do {                                                                       \
        if (!strstr(fl_last_error(), words))                                   \
            fail_msg("expected '%s' in '%s'", words, fl_last_error());         \
    } while (0)

/* A record that tells which one it is: key, `n` ids of a list made from the
   key, two floats made from it. */
static const fl_slot key_slots[] = {
    { .name = "key", .kind = FL_SLOT_IDS, .width = 1 },
    { .name = "list", .kind = FL_SLOT_IDS },
    { .name = "pair", .kind = FL_SLOT_FLOATS, .width = 2 },
};

static inline uint32_t list_len(uint64_t key)
{
    return key % 97 == 5 ? 300 : (uint32_t)(key % 4) + 1;
}

static inline uint64_t list_at(uint64_t key, uint32_t i)
{
    return fl_mix64(key * 1000 + i);
}

static inline void add_key_record(fl_row_writer *w, uint64_t key)
{
    const fl_slot *slots = w->schema->slots;
    uint32_t n = list_len(key);

    assert_ok(fl_row_open(w, 3 + (size_t)n));
    fl_row_slot(w, &slots[0], 0, 1);
    fl_row_id(w, key);
    fl_row_slot(w, &slots[1], 0, n);
    for (uint32_t i = 0; i < n; i++)
        fl_row_id(w, list_at(key, i));
    fl_row_slot(w, &slots[2], 0, 2);
    fl_row_float(w, (float)key);
    fl_row_float(w, (float)key + 0.5f);
    fl_row_close(w);
}

static inline void add_key_records(const fl_schema *s, uint64_t lo, uint64_t hi,
                                   fl_records *to)
{
    fl_row_writer w = { .schema = s, .rows = to };

    for (uint64_t key = lo; key < hi; key++)
        add_key_record(&w, key);
}

/* Checks every record of a batch against its key, and counts the keys. */
static inline void check_key_feeds(const fl_feed *feeds, size_t n_rows,
                                   uint32_t *seen, uint64_t n_keys)
{
    const uint64_t *keys = feeds[0].value.data;
    const uint64_t *lists = feeds[1].value.data;
    const int64_t *offsets = feeds[1].value.lod[0];
    const float *pairs = feeds[2].value.data;

    assert_int_equal(feeds[1].value.lod_len[0], n_rows + 1);
    for (size_t r = 0; r < n_rows; r++) {
        uint32_t n = list_len(keys[r]);

        assert_true(keys[r] < n_keys);
        assert_int_equal(offsets[r + 1] - offsets[r], n);
        for (uint32_t i = 0; i < n; i++)
            assert_true(lists[(uint32_t)offsets[r] + i] == list_at(keys[r], i));
        assert_true(pairs[2 * r] == (float)keys[r]);
        assert_true(pairs[2 * r + 1] == (float)keys[r] + 0.5f);
        seen[keys[r]]++;
    }
}

static inline void assert_each_once(const uint32_t *seen, uint64_t n_keys)
{
    for (uint64_t i = 0; i < n_keys; i++)
        if (seen[i] != 1)
            fail_msg("record %llu came %u times", (unsigned long long)i,
                     seen[i]);
}

#endif
