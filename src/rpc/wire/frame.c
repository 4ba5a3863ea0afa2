/* frame.c - heads of messages, and numbers in their payloads, as bytes.
 *
 * Bytes are put together by shifts, so the wire is little-endian on every
 * machine and nothing has to be aligned. A head is read strictly: what this
 * version does not know is refused, so that a later version can give it a
 * meaning.
 */
#include "rpc/wire/frame.h"

#include <ctype.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"

enum place {
    AT_MAGIC = 0,
    AT_TYPE = 4,
    AT_FLAGS = 6,
    AT_LENGTH = 8,
    AT_REQUEST = 16,
    AT_TRACE = 24,
    AT_SEQUENCE = 32,
    AT_RANK = 40,
    AT_INCARNATION = 44,
    AT_STEP = 48,
    AT_ARENA = 56
};

#define ALL_FLAGS (FL_FRAME_REPLY | FL_FRAME_ERROR | FL_FRAME_ARENA)

#define TYPE_NAME_MAX 24

#define PACK_MIN 64

/* --- bytes ---------------------------------------------------------------- */

static void put16(uint8_t *to, uint16_t x)
{
    to[0] = (uint8_t)x;
    to[1] = (uint8_t)(x >> 8);
}

static void put32(uint8_t *to, uint32_t x)
{
    put16(to, (uint16_t)x);
    put16(to + 2, (uint16_t)(x >> 16));
}

static void put64(uint8_t *to, uint64_t x)
{
    put32(to, (uint32_t)x);
    put32(to + 4, (uint32_t)(x >> 32));
}

static uint16_t get16(const uint8_t *from)
{
    return (uint16_t)(from[0] | from[1] << 8);
}

static uint32_t get32(const uint8_t *from)
{
    return get16(from) | (uint32_t)get16(from + 2) << 16;
}

static uint64_t get64(const uint8_t *from)
{
    return get32(from) | (uint64_t)get32(from + 4) << 32;
}

/* --- types ---------------------------------------------------------------- */

static const char *type_text(uint16_t type, fl_type_name_fn names)
{
    switch (type) {
#define FL_TYPE(name, number, doc)                                             \
    case number:                                                               \
        return #name;
#include "rpc/wire/types.def"
#undef FL_TYPE
    default:
        return names && type > FL_TYPE_OWN_MAX ? names(type) : NULL;
    }
}

const char *fl_frame_type_name(uint16_t type, fl_type_name_fn names)
{
    static _Thread_local char buf[TYPE_NAME_MAX];
    const char *text = type_text(type, names);

    if (!text) {
        snprintf(buf, sizeof(buf), "type %u", type);
        return buf;
    }
    snprintf(buf, sizeof(buf), "%s", text);
    for (char *p = buf; *p; p++)
        *p = (char)tolower((unsigned char)*p);
    return buf;
}

/* --- heads ---------------------------------------------------------------- */

void fl_frame_write(const fl_frame *f, uint8_t out[FL_FRAME_BYTES])
{
    put32(out + AT_MAGIC, FL_FRAME_MAGIC);
    put16(out + AT_TYPE, f->type);
    put16(out + AT_FLAGS, f->flags);
    put64(out + AT_LENGTH, f->length);
    put64(out + AT_REQUEST, f->request);
    put64(out + AT_TRACE, f->trace);
    put64(out + AT_SEQUENCE, f->sequence);
    put32(out + AT_RANK, f->rank);
    put32(out + AT_INCARNATION, f->incarnation);
    put64(out + AT_STEP, f->step);
    put64(out + AT_ARENA, f->arena);
}

/* What people connect to the wrong port, by its first bytes. */
static const struct {
    const char *start;
    const char *text;
} strangers[] = {
    { "GET ", "HTTP" },    { "POST", "HTTP" },
    { "HEAD", "HTTP" },    { "PUT ", "HTTP" },
    { "OPTI", "HTTP" },    { "CONN", "HTTP" },
    { "PRI ", "HTTP" },    { "HTTP", "HTTP" },
    { "\x16\x03", "TLS" }, { "\x15\x03", "TLS" },
    { "SSH-", "SSH" },     { "FLT", "another version of this protocol" },
};

static const char *looks_like(const uint8_t *in)
{
    for (size_t i = 0; i < FL_LEN(strangers); i++) {
        const char *start = strangers[i].start;

        if (memcmp(in, start, strlen(start)) == 0)
            return strangers[i].text;
    }
    return NULL;
}

static fl_status refuse_magic(const uint8_t *in)
{
    const char *text = looks_like(in);

    if (text)
        FL_FAIL(FL_ERR_CORRUPT,
                "the peer does not speak Flotilla: its first bytes (%02x %02x "
                "%02x %02x) look like %s; check the address and that both "
                "sides have the same TLS settings and version",
                in[0], in[1], in[2], in[3], text);
    FL_FAIL(FL_ERR_CORRUPT,
            "a message does not start with FLT1 but with the bytes %02x %02x "
            "%02x %02x; check that the peer is a Flotilla process",
            in[0], in[1], in[2], in[3]);
}

static fl_status check_flags(const fl_frame *f, fl_type_name_fn names)
{
    if (f->flags & ~ALL_FLAGS)
        FL_FAIL(FL_ERR_CORRUPT,
                "a message (%s) has unknown flags 0x%04x; this version knows "
                "0x%04x",
                fl_frame_type_name(f->type, names), f->flags, ALL_FLAGS);
    if ((f->flags & FL_FRAME_ERROR) && !(f->flags & FL_FRAME_REPLY))
        FL_FAIL(FL_ERR_CORRUPT,
                "a message (%s) is marked as an error but not as a reply",
                fl_frame_type_name(f->type, names));
    if (f->arena && !(f->flags & FL_FRAME_ARENA))
        FL_FAIL(FL_ERR_CORRUPT,
                "a message (%s) gives the place %" PRIu64 " in the arena "
                "without the flag for it",
                fl_frame_type_name(f->type, names), f->arena);
    return FL_OK;
}

fl_status fl_frame_read(const uint8_t in[FL_FRAME_BYTES], uint64_t max_bytes,
                        fl_type_name_fn names, fl_frame *out)
{
    fl_frame f = {
        .type = get16(in + AT_TYPE),
        .flags = get16(in + AT_FLAGS),
        .length = get64(in + AT_LENGTH),
        .request = get64(in + AT_REQUEST),
        .trace = get64(in + AT_TRACE),
        .sequence = get64(in + AT_SEQUENCE),
        .rank = get32(in + AT_RANK),
        .incarnation = get32(in + AT_INCARNATION),
        .step = get64(in + AT_STEP),
        .arena = get64(in + AT_ARENA),
    };

    if (get32(in + AT_MAGIC) != FL_FRAME_MAGIC)
        return refuse_magic(in);
    if (!type_text(f.type, names))
        FL_FAIL(FL_ERR_CORRUPT,
                "a message has the unknown type %u; the peer may be of "
                "another version",
                f.type);
    FL_TRY(check_flags(&f, names));
    if (f.length > max_bytes)
        FL_FAIL(FL_ERR_CORRUPT,
                "a message (%s) announces %" PRIu64 " bytes, more than the "
                "%" PRIu64 " that are allowed",
                fl_frame_type_name(f.type, names), f.length, max_bytes);
    *out = f;
    return FL_OK;
}

/* --- reading payloads ----------------------------------------------------- */

fl_unpack fl_unpack_from(const void *payload, uint64_t len)
{
    const uint8_t *at = payload;

    return (fl_unpack){ .at = at, .end = len ? at + len : at };
}

const void *fl_unpack_bytes(fl_unpack *u, uint64_t n)
{
    const uint8_t *at = u->at;

    if (u->bad || n > (uint64_t)(u->end - at)) {
        u->bad = true;
        return NULL;
    }
    if (n)
        u->at = at + n;
    return at;
}

uint8_t fl_unpack_u8(fl_unpack *u)
{
    const uint8_t *p = fl_unpack_bytes(u, 1);

    return p ? *p : 0;
}

uint32_t fl_unpack_u32(fl_unpack *u)
{
    const uint8_t *p = fl_unpack_bytes(u, 4);

    return p ? get32(p) : 0;
}

uint64_t fl_unpack_u64(fl_unpack *u)
{
    const uint8_t *p = fl_unpack_bytes(u, 8);

    return p ? get64(p) : 0;
}

double fl_unpack_f64(fl_unpack *u)
{
    uint64_t bits = fl_unpack_u64(u);
    double x;

    memcpy(&x, &bits, sizeof(x));
    return x;
}

void fl_unpack_text(fl_unpack *u, char *out, size_t cap)
{
    uint32_t len = fl_unpack_u32(u);
    const char *text = fl_unpack_bytes(u, len);

    out[0] = '\0';
    if (!text)
        return;
    if (len >= cap || memchr(text, '\0', len)) {
        u->bad = true;
        return;
    }
    memcpy(out, text, len);
    out[len] = '\0';
}

void fl_unpack_align(fl_unpack *u, const void *base)
{
    size_t past = (size_t)(u->at - (const uint8_t *)base) % 8;

    if (past)
        (void)fl_unpack_bytes(u, 8 - past);
}

/* --- writing payloads ----------------------------------------------------- */

/* Room for n more bytes, which count as written. */
static uint8_t *pack_room(fl_pack *p, size_t n)
{
    uint8_t *to;

    FL_ASSERT(n <= SIZE_MAX / 2 && p->len <= SIZE_MAX / 2 - n);
    if (p->len + n > p->cap) {
        size_t cap = p->cap ? p->cap * 2 : PACK_MIN;

        p->cap = cap < p->len + n ? p->len + n : cap;
        p->data = fl_realloc(p->data, p->cap);
    }
    to = p->data + p->len;
    p->len += n;
    return to;
}

void fl_pack_release(fl_pack *p)
{
    fl_free(p->data);
    *p = (fl_pack){ 0 };
}

void fl_pack_u8(fl_pack *p, uint8_t x)
{
    *pack_room(p, 1) = x;
}

void fl_pack_u32(fl_pack *p, uint32_t x)
{
    put32(pack_room(p, 4), x);
}

void fl_pack_u64(fl_pack *p, uint64_t x)
{
    put64(pack_room(p, 8), x);
}

void fl_pack_f64(fl_pack *p, double x)
{
    uint64_t bits;

    memcpy(&bits, &x, sizeof(bits));
    fl_pack_u64(p, bits);
}

void fl_pack_bytes(fl_pack *p, const void *bytes, size_t n)
{
    if (n)
        memcpy(pack_room(p, n), bytes, n);
}

void fl_pack_text(fl_pack *p, const char *text)
{
    size_t len = strlen(text);

    FL_ASSERT(len <= UINT32_MAX);
    fl_pack_u32(p, (uint32_t)len);
    fl_pack_bytes(p, text, len);
}

void fl_pack_align(fl_pack *p)
{
    size_t past = p->len % 8;

    if (past)
        memset(pack_room(p, 8 - past), 0, 8 - past);
}
