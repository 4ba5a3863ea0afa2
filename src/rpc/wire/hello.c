/* hello.c - identities as bytes and as text.
 *
 *     u32  role      u32  rank     u32  incarnation   u32  process
 *     u64  boot id      u64  features
 *     text job       text address      (u32 length, then the bytes)
 *
 * An identity comes from somebody who has proved nothing yet and ends up in
 * messages and logs, so texts with bytes that would move a terminal's cursor or
 * hide what follows them are refused like any other malformed payload.
 */
#include "rpc/wire/hello.h"

#include <stdio.h>
#include <string.h>

static const char *const role_names[] = {
    [FL_MEMBER_SERVER] = "server",
    [FL_MEMBER_TRAINER] = "trainer",
    [FL_MEMBER_TOOL] = "tool",
};

static bool role_is_known(uint32_t role)
{
    return role < FL_LEN(role_names) && role_names[role];
}

const char *fl_member_role_name(fl_member_role r)
{
    return role_is_known((uint32_t)r) ? role_names[r] : "member";
}

void fl_identity_pack(fl_pack *p, const fl_identity *id)
{
    fl_pack_u32(p, (uint32_t)id->role);
    fl_pack_u32(p, id->rank);
    fl_pack_u32(p, id->incarnation);
    fl_pack_u32(p, id->process);
    fl_pack_u64(p, id->boot_id);
    fl_pack_u64(p, id->features);
    fl_pack_text(p, id->job);
    fl_pack_text(p, id->address);
}

static bool is_plain(const char *text)
{
    for (; *text; text++)
        if ((unsigned char)*text < ' ' || *text == 0x7f)
            return false;
    return true;
}

/* The length is read twice: a NUL inside would otherwise make two texts that
   differ on the wire look equal. */
static void unpack_plain(fl_unpack *u, char *out, size_t cap)
{
    fl_unpack ahead = *u;
    uint32_t len = fl_unpack_u32(&ahead);

    fl_unpack_text(u, out, cap);
    if (!u->bad && (strlen(out) != len || !is_plain(out)))
        u->bad = true;
}

void fl_identity_unpack(fl_unpack *u, fl_identity *id)
{
    fl_identity got = { 0 };
    uint32_t role = fl_unpack_u32(u);

    got.rank = fl_unpack_u32(u);
    got.incarnation = fl_unpack_u32(u);
    got.process = fl_unpack_u32(u);
    got.boot_id = fl_unpack_u64(u);
    got.features = fl_unpack_u64(u);
    unpack_plain(u, got.job, sizeof(got.job));
    unpack_plain(u, got.address, sizeof(got.address));
    if (!role_is_known(role) || (got.boot_id && role != FL_MEMBER_SERVER))
        u->bad = true;
    if (u->bad)
        return;
    got.role = (fl_member_role)role;
    *id = got;
}

const char *fl_identity_text_as(const char *role, const fl_identity *id,
                                const char *peer, char *buf, size_t cap)
{
    const char *where = peer && *peer ? peer : id->address;

    (void)snprintf(buf, cap, "%s %u (%s%sprocess %u)", role, id->rank, where,
                   *where ? ", " : "", id->process);
    return buf;
}

const char *fl_identity_text(const fl_identity *id, const char *peer, char *buf,
                             size_t cap)
{
    return fl_identity_text_as(fl_member_role_name(id->role), id, peer, buf,
                               cap);
}
