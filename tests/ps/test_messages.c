/* test_messages.c - a sweep over messages.def: what is packed is read again, bytes
 * that are none of it are refused, and each message has its section in wire.md. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/hash.h"
#include "base/vec.h"
#include "ps/msg/message.h"

#define N_DRAWS 400
#define EXAMPLES_MAX 16

/* Fails with the message, and which half of it. */
#define expect(m, what, is_good)                                               \
    do {                                                                       \
        if (!(is_good))                                                        \
            fail_msg("%s (%s): %s", (m)->name, what, #is_good);                \
    } while (0)

/* One half of a message. */
typedef struct half {
    const fl_msg_def *m;
    uint16_t type;
    const char *what;
    const fl_msg_payload *p;
} half;

typedef void (*check_fn)(const half *h);

static void for_all(check_fn check)
{
    int n = 0;

    for (uint16_t type = 0; type < FL_MSG_MAX; type++) {
        const fl_msg_def *m = fl_msg_find(type);

        if (!m)
            continue;
        check(&(half){ m, type, "request", m->request });
        check(&(half){ m, type, "reply", m->reply });
        n++;
    }
    assert_in_range(n, 20, FL_MSG_MAX);
}

/* --- one payload ---------------------------------------------------------- */

static uint64_t draw(uint64_t i)
{
    return fl_mix64(i + 1);
}

static void pack_fields(const fl_msg_payload *p, const void *from, fl_pack *out)
{
    fl_msg_bytes end = fl_fields_pack(out, p->fields, from);

    if (end.len)
        fl_pack_bytes(out, end.data, (size_t)end.len);
}

/* Unpacks the bytes, from memory of their own, and packs what was read. */
static fl_status echo(const half *h, const fl_pack *in, fl_pack *out)
{
    const fl_msg_payload *p = h->p;
    _Alignas(max_align_t) uint8_t fields[FL_MSG_STRUCT_MAX] = { 0 };
    void *copy = fl_try_alloc(in->len);
    fl_msg_bytes bytes = { copy, in->len };
    fl_status st;

    assert_non_null(copy);
    if (in->len)
        memcpy(copy, in->data, in->len);
    if (!p->fields) {
        st = p->echo(h->type, bytes, out);
    } else {
        st =
            fl_fields_unpack(p->fields, bytes, fields) ? FL_OK : FL_ERR_CORRUPT;
        if (!st)
            pack_fields(p, fields, out);
    }
    fl_data_free(copy, in->len);
    return st;
}

static bool is_same(const fl_pack *a, const fl_pack *b)
{
    return a->len == b->len && (!a->len || !memcmp(a->data, b->data, a->len));
}

/* --- examples ------------------------------------------------------------- */

static void draw_field(const fl_field *f, void *at, uint64_t seed)
{
    static const char letters[] = "a barrier of one's own";
    fl_msg_bytes bytes = { letters, draw(seed) % sizeof(letters) };

    switch (f->kind) {
    case FL_FIELD_U32:
        *(uint32_t *)at = (uint32_t)draw(seed);
        break;
    case FL_FIELD_U64:
        *(uint64_t *)at = draw(seed);
        break;
    case FL_FIELD_F64:
        *(double *)at = seed % 2 ? (double)draw(seed) : (double)NAN;
        break;
    case FL_FIELD_TEXT:
        (void)snprintf(at, f->room, "%.*s", (int)bytes.len, letters);
        break;
    case FL_FIELD_BYTES:
    case FL_FIELD_REST:
        *(fl_msg_bytes *)at = bytes;
        break;
    case FL_FIELD_ZERO:
    case FL_FIELD_END:
        break;
    }
}

/* Of fields as many as one likes, of the others those of their file. */
static bool example(const half *h, int i, fl_pack *out)
{
    const fl_msg_payload *p = h->p;
    _Alignas(max_align_t) uint8_t fields[FL_MSG_STRUCT_MAX] = { 0 };
    uint64_t seed = (uint64_t)i * 100;

    out->len = 0;
    if (!p->fields)
        return p->example(h->type, i, out);
    for (const fl_field *f = p->fields; f->kind != FL_FIELD_END; f++)
        draw_field(f, fields + f->at, seed++);
    pack_fields(p, fields, out);
    return i < EXAMPLES_MAX;
}

static void check_examples(const half *h)
{
    fl_pack in = { 0 }, out = { 0 };
    int n = 0;

    for (; example(h, n, &in); n++) {
        out.len = 0;
        if (echo(h, &in, &out))
            fail_msg("%s (%s): example %d: %s", h->m->name, h->what, n,
                     fl_last_error());
        expect(h->m, h->what, is_same(&in, &out));
    }
    expect(h->m, h->what, n >= 2 && n <= EXAMPLES_MAX);
    fl_pack_release(&in);
    fl_pack_release(&out);
}

static void what_is_packed_is_read_again(void **state)
{
    (void)state;
    for_all(check_examples);
}

/* --- other bytes ---------------------------------------------------------- */

/* Refused, or read to what packs to the same bytes: the zeros of an align are
   not looked at, and are written as zeros. */
static void check_bytes(const half *h, const fl_pack *in)
{
    fl_pack out = { 0 };
    fl_status st = echo(h, in, &out);

    expect(h->m, h->what,
           !st || st == FL_ERR_CORRUPT || st == FL_ERR_NOTFOUND ||
               st == FL_ERR_INVAL);
    expect(h->m, h->what, st || out.len == in->len);
    fl_pack_release(&out);
}

/* An example that was cut, made longer, or changed in some bytes. */
static void spoil(fl_pack *p, uint64_t seed)
{
    switch (draw(seed) % 4) {
    case 0:
        p->len = p->len ? (size_t)(draw(seed + 1) % p->len) : 0;
        break;
    case 1:
        fl_pack_u64(p, draw(seed + 2));
        break;
    default:
        for (uint64_t i = 0; p->len && i < 1 + draw(seed + 3) % 3; i++)
            p->data[draw(seed + 4 + i) % p->len] = (uint8_t)draw(seed + 9 + i);
    }
}

static void check_spoilt(const half *h)
{
    fl_pack in = { 0 };

    for (int i = 0; i < N_DRAWS; i++) {
        int n = 0;

        while (example(h, n, &in))
            n++;
        (void)example(h, i % n, &in);
        spoil(&in, (uint64_t)i * 1000);
        check_bytes(h, &in);
    }
    fl_pack_release(&in);
}

static void check_random(const half *h)
{
    fl_pack in = { 0 };

    for (uint64_t i = 0; i < N_DRAWS; i++) {
        in.len = 0;
        for (uint64_t k = 0; k < draw(i) % 90; k++)
            fl_pack_u8(&in, (uint8_t)(draw(i * 100 + k) % 3));
        check_bytes(h, &in);
    }
    fl_pack_release(&in);
}

static void bytes_that_are_none_of_it_are_refused(void **state)
{
    (void)state;
    for_all(check_spoilt);
    for_all(check_random);
}

/* --- the list ------------------------------------------------------------- */

static void check_struct(const half *h)
{
    const fl_msg_payload *p = h->p;
    expect(h->m, h->what, !p->fields == (p->echo && p->example));
    for (const fl_field *f = p->fields; f && f->kind != FL_FIELD_END; f++)
        expect(h->m, h->what, f->at + f->room <= FL_MSG_STRUCT_MAX);
}

static void every_message_has_one_handler_and_payloads_that_fit(void **state)
{
    (void)state;
    for_all(check_struct);
    for (uint16_t type = 0; type < FL_MSG_MAX; type++) {
        const fl_msg_def *m = fl_msg_find(type);

        if (m)
            expect(m, "handler", !m->in_store != !m->on_server);
        if (m && m->on_server)
            expect(m, "request", m->request->fields != NULL);
    }
}

static char *read_page(void)
{
    FILE *f = fopen(WIRE_PAGE, "r");
    fl_str text = { 0 };
    char line[512];

    assert_non_null(f);
    while (fgets(line, sizeof(line), f))
        fl_str_add(&text, line);
    (void)fclose(f);
    return fl_str_take(&text);
}

static void every_message_has_a_section_in_the_page_of_the_wire(void **state)
{
    char *page = read_page(), title[64];

    (void)state;
#define FL_MESSAGE(NAME, name, number, from, place, delivery, effect, doc)     \
    (void)snprintf(title, sizeof(title), "\n### %s\n", #NAME);                 \
    if (!strstr(page, title))                                                  \
        fail_msg("%s has no section %s", WIRE_PAGE, #NAME);                    \
    (void)snprintf(title, sizeof(title), "\n| %d | %s | ", number, #NAME);     \
    if (!strstr(page, title))                                                  \
        fail_msg("%s has no row for %s", WIRE_PAGE, #NAME);
#include "ps/messages.def"
#undef FL_MESSAGE
    fl_free(page);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_is_packed_is_read_again),
        cmocka_unit_test(bytes_that_are_none_of_it_are_refused),
        cmocka_unit_test(every_message_has_one_handler_and_payloads_that_fit),
        cmocka_unit_test(every_message_has_a_section_in_the_page_of_the_wire),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
