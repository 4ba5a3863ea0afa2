/* wire.c - protobuf messages by tables.
 *
 * A message is walked twice: once to count what each list will hold, once to
 * fill it. A field is a key (number << 3 | form) and
 *
 *     form 0  a varint: 7 bits a byte, the lowest first
 *     form 1  8 bytes
 *     form 2  a length (varint) and as many bytes
 *     form 5  4 bytes
 *
 * Forms 3 and 4 (groups) are as old as they are rare, and are refused.
 */
#include "paddle18/wire.h"

#include <string.h>

#include "base/alloc.h"

enum { VARINT = 0, BYTES_8 = 1, BYTES = 2, BYTES_4 = 5 };

#define VARINT_BYTES_MAX 10

typedef struct field {
    uint32_t number;
    unsigned form;
    uint64_t value; /* forms 0, 1 and 5 */
    const uint8_t *bytes;
    size_t len; /* form 2 */
} field;

/* Where a message is read, and which. */
typedef struct reader {
    const fl_wire_message *message;
    const uint8_t *start; /* of the outermost message */
    const uint8_t *at, *end;
    fl_arena *arena;
} reader;

static fl_status fail_at(const reader *r, const char *what)
{
    FL_FAIL(FL_ERR_CORRUPT, "%s, byte %zu: %s", r->message->name,
            (size_t)(r->at - r->start), what);
}

static fl_status fail_member(const reader *r, const fl_wire_member *m,
                             const char *what)
{
    FL_FAIL(FL_ERR_CORRUPT, "%s, byte %zu: field %s %s", r->message->name,
            (size_t)(r->at - r->start), m->name, what);
}

/* --- fields --------------------------------------------------------------- */

static bool take_varint(const uint8_t **at, const uint8_t *end, uint64_t *out)
{
    uint64_t v = 0;

    for (int i = 0; i < VARINT_BYTES_MAX && *at < end; i++) {
        uint8_t byte = *(*at)++;

        v |= (uint64_t)(byte & 0x7f) << (7 * i);
        if (!(byte & 0x80)) {
            *out = v;
            return true;
        }
    }
    return false;
}

static fl_status take_fixed(reader *r, size_t n, uint64_t *out)
{
    if ((size_t)(r->end - r->at) < n)
        return fail_at(r, "a number is cut off");
    *out = 0;
    for (size_t i = 0; i < n; i++)
        *out |= (uint64_t)r->at[i] << (8 * i);
    r->at += n;
    return FL_OK;
}

static fl_status take_bytes(reader *r, field *f)
{
    uint64_t len;

    if (!take_varint(&r->at, r->end, &len))
        return fail_at(r, "a length is cut off");
    if (len > (size_t)(r->end - r->at))
        return fail_at(r, "a field is longer than what is left");
    f->bytes = r->at;
    f->len = (size_t)len;
    r->at += len;
    return FL_OK;
}

static fl_status take_field(reader *r, field *f)
{
    uint64_t key;

    *f = (field){ 0 };
    if (!take_varint(&r->at, r->end, &key))
        return fail_at(r, "the key of a field is cut off");
    if (key >> 3 == 0 || key >> 3 > UINT32_MAX >> 3)
        return fail_at(r, "the number of a field is out of range");
    f->number = (uint32_t)(key >> 3);
    f->form = key & 7;
    switch (f->form) {
    case VARINT:
        if (!take_varint(&r->at, r->end, &f->value))
            return fail_at(r, "a number is cut off");
        return FL_OK;
    case BYTES_8:
        return take_fixed(r, 8, &f->value);
    case BYTES_4:
        return take_fixed(r, 4, &f->value);
    case BYTES:
        return take_bytes(r, f);
    default:
        return fail_at(r, "a field has a form that does not exist");
    }
}

static const fl_wire_member *find_member(const fl_wire_message *m,
                                         uint32_t number, size_t *i)
{
    for (*i = 0; *i < m->n_members; ++*i)
        if (m->members[*i].number == number)
            return &m->members[*i];
    return NULL;
}

/* --- counting ------------------------------------------------------------- */

/* Bytes of one entry in memory, by kind. */
static size_t item_bytes(const fl_wire_member *m)
{
    switch (m->kind) {
    case FL_WIRE_INTS:
        return sizeof(int64_t);
    case FL_WIRE_FLOATS:
        return sizeof(double);
    case FL_WIRE_TEXTS:
        return sizeof(const char *);
    case FL_WIRE_MESSAGES:
        return m->message->bytes;
    default:
        return 0; /* no list */
    }
}

/* The least that a message with all its required fields can have: a key and a
   length or value each. What is shorter is refused before it takes memory. */
static size_t least_bytes(const fl_wire_message *m)
{
    size_t n = 0;

    for (size_t i = 0; i < m->n_members; i++)
        n += m->members[i].is_required ? 2 : 0;
    return n;
}

static size_t count_packed(const fl_wire_member *m, const field *f)
{
    size_t n = 0;

    if (m->kind == FL_WIRE_FLOATS)
        return f->len / sizeof(float);
    for (size_t i = 0; i < f->len; i++)
        n += !(f->bytes[i] & 0x80);
    return n;
}

/* How many entries a field adds to its list. */
static fl_status count_field(const reader *r, const fl_wire_member *m,
                             const field *f, size_t *n)
{
    bool is_number = m->kind == FL_WIRE_INTS || m->kind == FL_WIRE_FLOATS;

    if (m->kind == FL_WIRE_MESSAGES && f->len < least_bytes(m->message))
        return fail_member(r, m, "lacks what it must have");
    *n += is_number && f->form == BYTES ? count_packed(m, f) : 1;
    return FL_OK;
}

static fl_status count_members(reader r, size_t *counts)
{
    const fl_wire_member *m;
    field f;
    size_t i;

    while (r.at < r.end) {
        FL_TRY(take_field(&r, &f));
        m = find_member(r.message, f.number, &i);
        if (m)
            FL_TRY(count_field(&r, m, &f, &counts[i]));
    }
    return FL_OK;
}

static fl_status make_lists(const reader *r, const size_t *counts, char *out)
{
    for (size_t i = 0; i < r->message->n_members; i++) {
        const fl_wire_member *m = &r->message->members[i];
        fl_wire_list list = { 0 };
        size_t bytes;

        if (m->is_required && !counts[i])
            return fail_member(r, m, "is missing");
        if (!item_bytes(m))
            continue;
        if (fl_mul_overflow(counts[i], item_bytes(m), &bytes))
            return fail_member(r, m, "has too many entries");
        if (bytes) {
            list.items = fl_arena_try_alloc(r->arena, bytes);
            if (!list.items)
                FL_FAIL(FL_ERR_NOMEM, "no memory for %zu entries of %s",
                        counts[i], m->name);
            memset(list.items, 0, bytes);
        }
        memcpy(out + m->offset, &list, sizeof(list));
    }
    return FL_OK;
}

/* --- filling -------------------------------------------------------------- */

static fl_status read_text(const reader *r, const fl_wire_member *m,
                           const field *f, const char **out)
{
    char *text;

    if (f->form != BYTES)
        return fail_member(r, m, "is no text");
    if (f->len && memchr(f->bytes, 0, f->len))
        return fail_member(r, m, "has a zero byte in its text");
    text = fl_arena_try_alloc(r->arena, f->len + 1);
    if (!text)
        FL_FAIL(FL_ERR_NOMEM, "no memory for %zu bytes of %s", f->len, m->name);
    if (f->len)
        memcpy(text, f->bytes, f->len);
    text[f->len] = '\0';
    *out = text;
    return FL_OK;
}

static double float_of(uint64_t bits)
{
    uint32_t low = (uint32_t)bits;
    float f;

    memcpy(&f, &low, sizeof(f));
    return (double)f;
}

static fl_status read_number(const reader *r, const fl_wire_member *m,
                             const field *f, void *out)
{
    double number;

    if (m->kind == FL_WIRE_INT || m->kind == FL_WIRE_INTS) {
        if (f->form != VARINT)
            return fail_member(r, m, "is no whole number");
        memcpy(out, &f->value, sizeof(f->value));
        return FL_OK;
    }
    if (f->form != BYTES_4)
        return fail_member(r, m, "is no number of 4 bytes");
    number = float_of(f->value);
    memcpy(out, &number, sizeof(number));
    return FL_OK;
}

static fl_status read_inner(const reader *r, const fl_wire_member *m,
                            const field *f, void *out);

/* Numbers one after another in one field. */
static fl_status read_packed(const reader *outer, const fl_wire_member *m,
                             const field *f, fl_wire_list *list)
{
    reader r = *outer;
    char *items = list->items;

    r.at = f->bytes;
    r.end = f->bytes + f->len;
    while (r.at < r.end) {
        field one = { .form = m->kind == FL_WIRE_FLOATS ? BYTES_4 : VARINT };

        if (one.form == BYTES_4)
            FL_TRY(take_fixed(&r, sizeof(float), &one.value));
        else if (!take_varint(&r.at, r.end, &one.value))
            return fail_at(&r, "a number is cut off");
        FL_TRY(read_number(&r, m, &one, items + list->n++ * item_bytes(m)));
    }
    return FL_OK;
}

/* One more entry of a list that has room for it. */
static fl_status read_entry(const reader *r, const fl_wire_member *m,
                            const field *f, char *at)
{
    fl_wire_list list;
    char *item;
    fl_status st;

    memcpy(&list, at, sizeof(list));
    item = (char *)list.items + list.n * item_bytes(m);
    if (m->kind == FL_WIRE_MESSAGES) {
        st = read_inner(r, m, f, item);
        list.n++;
    } else if (m->kind == FL_WIRE_TEXTS) {
        const char *text = NULL;

        st = read_text(r, m, f, &text);
        memcpy(item, &text, sizeof(text));
        list.n++;
    } else if (f->form == BYTES) {
        st = read_packed(r, m, f, &list);
    } else {
        st = read_number(r, m, f, item);
        list.n++;
    }
    memcpy(at, &list, sizeof(list));
    return st;
}

static fl_status read_member(const reader *r, const fl_wire_member *m,
                             const field *f, char *at)
{
    const char *text = NULL;
    void *inner;

    switch (m->kind) {
    case FL_WIRE_INT:
    case FL_WIRE_FLOAT:
        return read_number(r, m, f, at);
    case FL_WIRE_TEXT:
        FL_TRY(read_text(r, m, f, &text));
        memcpy(at, &text, sizeof(text));
        return FL_OK;
    case FL_WIRE_MESSAGE:
        inner = fl_arena_alloc(r->arena, m->message->bytes);
        memcpy(at, &inner, sizeof(inner));
        return read_inner(r, m, f, inner);
    default:
        return read_entry(r, m, f, at);
    }
}

static fl_status read_message(reader *r, char *out)
{
    size_t counts[FL_WIRE_MEMBERS_MAX] = { 0 };
    const fl_wire_member *m;
    field f;
    size_t i;

    FL_ASSERT(r->message->n_members <= FL_WIRE_MEMBERS_MAX);
    FL_TRY(count_members(*r, counts));
    FL_TRY(make_lists(r, counts, out));
    while (r->at < r->end) {
        FL_TRY(take_field(r, &f));
        m = find_member(r->message, f.number, &i);
        if (m)
            FL_TRY(read_member(r, m, &f, out + m->offset));
    }
    return FL_OK;
}

static fl_status read_inner(const reader *r, const fl_wire_member *m,
                            const field *f, void *out)
{
    reader inner = *r;

    if (f->form != BYTES)
        return fail_member(r, m, "is no message");
    inner.message = m->message;
    inner.at = f->bytes;
    inner.end = f->bytes + f->len;
    return read_message(&inner, out);
}

fl_status fl_wire_read(const fl_wire_message *m, const void *bytes, size_t len,
                       fl_arena *arena, void *out)
{
    const uint8_t *start = bytes;
    reader r = { m, start, start, start + len, arena };

    return read_message(&r, out);
}
