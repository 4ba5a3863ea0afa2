/* test_reply_buffers.c - memory that replies are made in. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "ps/server/buffers.h"

static void buffers_are_used_again(void **state)
{
    fl_reply_buffers b;
    fl_reply_buffer *first, *second;

    (void)state;
    fl_reply_buffers_init(&b);
    first = fl_reply_buffers_take(&b, 5000);
    assert_non_null(first);
    assert_int_equal((uintptr_t)fl_reply_buffer_data(first) % 64, 0);
    memset(fl_reply_buffer_data(first), 1, 5000);
    second = fl_reply_buffers_take(&b, 5000);
    assert_true(second != first);
    fl_reply_buffer_put(first);
    fl_reply_buffer_put(second);
    assert_true(fl_reply_buffers_take(&b, 8192) == second);
    assert_true(fl_reply_buffers_take(&b, 4097) == first);
    fl_reply_buffer_put(first);
    fl_reply_buffer_put(second);
    fl_reply_buffer_put(NULL);
    assert_null(fl_reply_buffers_take(&b, UINT64_MAX));
    /* What is larger than all that may lie idle is given back. */
    first = fl_reply_buffers_take(&b, (uint64_t)65 << 20);
    assert_non_null(first);
    fl_reply_buffer_put(first);
    assert_true(b.idle_bytes < 1 << 20);
    fl_reply_buffers_release(&b);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(buffers_are_used_again),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
