/* handshake.c - the payloads of a handshake, and of replies that are errors. */
#include "rpc/wire/handshake.h"

#include <string.h>

_Static_assert(FL_NONCE_BYTES == 32 && FL_PROOF_BYTES == 32,
               "a challenge and a proof are read the same way");

fl_unpack fl_unpack_of(const fl_payload *p)
{
    fl_unpack u = { 0 };

    if (p) {
        u.at = fl_payload_data(p);
        u.end = u.at + fl_payload_len(p);
    }
    return u;
}

/* The next n bytes, copied; zeros when there are fewer. */
static void unpack_copy(fl_unpack *u, void *out, size_t n)
{
    const void *bytes = fl_unpack_bytes(u, n);

    if (bytes)
        memcpy(out, bytes, n);
}

static bool is_at_end(const fl_unpack *u)
{
    return !u->bad && u->at == u->end;
}

void fl_hello_pack(fl_pack *p, const fl_hello *h)
{
    fl_pack_u32(p, h->version);
    fl_pack_u32(p, (uint32_t)h->wanted_role);
    fl_pack_u32(p, h->wanted_rank);
    fl_pack_bytes(p, h->nonce, sizeof(h->nonce));
    fl_identity_pack(p, &h->who);
}

fl_status fl_hello_read(const fl_payload *p, fl_hello *out)
{
    fl_unpack u = fl_unpack_of(p);
    fl_hello h = { 0 };

    h.version = fl_unpack_u32(&u);
    if (!u.bad && h.version != FL_PROTOCOL_VERSION) {
        *out = h;
        return FL_OK;
    }
    h.wanted_role = (fl_member_role)fl_unpack_u32(&u);
    h.wanted_rank = fl_unpack_u32(&u);
    unpack_copy(&u, h.nonce, sizeof(h.nonce));
    fl_identity_unpack(&u, &h.who);
    if (!is_at_end(&u))
        FL_FAIL(FL_ERR_CORRUPT, "a HELLO that does not parse");
    *out = h;
    return FL_OK;
}

void fl_welcome_pack(fl_pack *p, const fl_welcome *w)
{
    fl_identity_pack(p, &w->who);
    fl_pack_u64(p, w->sequence);
}

fl_status fl_welcome_read(const fl_payload *p, fl_welcome *out, size_t *proved)
{
    fl_unpack u = fl_unpack_of(p);
    fl_welcome w = { 0 };

    fl_identity_unpack(&u, &w.who);
    w.sequence = fl_unpack_u64(&u);
    unpack_copy(&u, w.proof, sizeof(w.proof));
    if (!is_at_end(&u))
        FL_FAIL(FL_ERR_CORRUPT, "a WELCOME that does not parse");
    *out = w;
    *proved = (size_t)fl_payload_len(p) - sizeof(w.proof);
    return FL_OK;
}

fl_status fl_handshake_read32(const fl_payload *p, uint8_t out[32])
{
    fl_unpack u = fl_unpack_of(p);

    unpack_copy(&u, out, 32);
    if (!is_at_end(&u))
        FL_FAIL(FL_ERR_CORRUPT, "a challenge or a proof that is not 32 bytes");
    return FL_OK;
}

void fl_error_pack(fl_pack *p, fl_status st, const char *text)
{
    fl_pack_u32(p, (uint32_t)st);
    fl_pack_text(p, text);
}

static bool is_an_error(uint32_t status)
{
    switch (status) {
#define X(name, value, text) case value:
        FL_STATUS_MAP(X)
#undef X
        return true;
    default:
        return false;
    }
}

void fl_make_printable(char *text)
{
    for (char *c = text; *c; c++)
        if (((unsigned char)*c < ' ' && *c != '\n') || *c == 0x7f)
            *c = '?';
}

fl_status fl_error_read(const fl_payload *p)
{
    fl_unpack u = fl_unpack_of(p);
    uint32_t status = fl_unpack_u32(&u);
    char text[FL_ERR_TEXT_MAX];

    fl_unpack_text(&u, text, sizeof(text));
    if (!is_at_end(&u) || !is_an_error(status))
        FL_FAIL(FL_ERR_CORRUPT, "the peer sent an error that does not parse");
    fl_make_printable(text);
    return fl_err_set((fl_status)status, "%s", text);
}
