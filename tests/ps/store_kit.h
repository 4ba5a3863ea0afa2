/* store_kit.h - what the tests of a server's contents share. */
#ifndef FL_TESTS_PS_STORE_KIT_H
#define FL_TESTS_PS_STORE_KIT_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "ops/ops.h"
#include "pack_kit.h"
#include "ps/store/store.h"
#include "../server_text.h"

/* Fails the test with the library's own sentence. */
#define assert_ok(expr)                                                        \
    do {                                                                       \
        if (expr)                                                              \
            fail_msg("%s", fl_last_error());                                   \
    } while (0)

#define assert_error(expr, code, words)                                        \
    do {                                                                       \
        assert_int_equal(expr, code);                                          \
        if (!strstr(fl_last_error(), words))                                   \
            fail_msg("'%s' does not say '%s'", fl_last_error(), words);        \
    } while (0)

/* A copy of a payload as it would be received: 64-byte aligned, and nothing
   behind its end, for the sanitizer to see. */
typedef struct received {
    void *data;
    size_t len;
} received;

static inline received receive(const void *bytes, size_t len)
{
    received r = { fl_try_alloc(len), len };

    assert_non_null(r.data);
    if (len)
        memcpy(r.data, bytes, len);
    return r;
}

static inline void received_free(received *r)
{
    fl_data_free(r->data, r->len);
}

/* A reply's room, and how often it was asked for. */
typedef struct answer {
    void *data;
    uint64_t len;
    int n_calls;
    bool refuse;
} answer;

static inline void *answer_room(void *arg, uint64_t len)
{
    answer *a = arg;

    a->n_calls++;
    if (a->refuse)
        return NULL;
    a->len = len;
    a->data = fl_alloc(len);
    return a->data;
}

static inline void answer_release(answer *a)
{
    fl_free(a->data);
    *a = (answer){ 0 };
}

/* Sends what was packed, as rank 0 at step 0. Releases the pack. */
static inline fl_status ask(fl_store *s, uint16_t type, fl_pack *p, answer *a)
{
    received r = receive(p->data, p->len);
    fl_store_reply reply = { .reserve = answer_room, .arg = a };
    fl_status st = fl_store_request(
        s,
        &(fl_store_call){
            .type = type, .payload = { r.data, r.len }, .incarnation = 1 },
        &reply);

    received_free(&r);
    fl_pack_release(p);
    return st;
}

/* What is pulled goes to the answer. */
static inline void pull_into(fl_store *s, uint32_t table, fl_pull_kind kind,
                             const uint64_t *keys, uint64_t n, answer *a)
{
    fl_rows_item it = { .table = table, .flags = kind, .rows.n = n };
    fl_pack p = { 0 };

    pack_rows_head(&p, FL_MSG_PULL, &it, 1);
    fl_pack_bytes(&p, keys, n * sizeof(*keys));
    assert_ok(ask(s, FL_MSG_PULL, &p, a));
}

#endif
