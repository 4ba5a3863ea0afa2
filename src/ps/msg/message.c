/* message.c - the list of messages, and payloads that are fields. */
#include "ps/msg/message.h"

#include <inttypes.h>
#include <string.h>

/* --- fields --------------------------------------------------------------- */

const fl_field fl_fields_none[] = { FL_FIELDS_END };
const fl_field fl_fields_rest[] = { { FL_FIELD_REST, 0, sizeof(fl_msg_bytes) },
                                    FL_FIELDS_END };

static void pack_text(fl_pack *p, const char *text, uint32_t room)
{
    size_t len = strnlen(text, room - 1);

    fl_pack_u32(p, (uint32_t)len);
    if (len)
        fl_pack_bytes(p, text, len);
}

/* Gives the bytes at the end, which are not copied. */
static fl_msg_bytes pack_field(fl_pack *p, const fl_field *f, const void *at)
{
    const fl_msg_bytes *bytes = at;

    switch (f->kind) {
    case FL_FIELD_U32:
        fl_pack_u32(p, *(const uint32_t *)at);
        break;
    case FL_FIELD_U64:
        fl_pack_u64(p, *(const uint64_t *)at);
        break;
    case FL_FIELD_F64:
        fl_pack_f64(p, *(const double *)at);
        break;
    case FL_FIELD_TEXT:
        pack_text(p, at, f->room);
        break;
    case FL_FIELD_ZERO:
        fl_pack_u32(p, 0);
        break;
    case FL_FIELD_BYTES:
        fl_pack_u64(p, bytes->len);
        return *bytes;
    case FL_FIELD_REST:
        return *bytes;
    case FL_FIELD_END:
        break;
    }
    return (fl_msg_bytes){ 0 };
}

fl_msg_bytes fl_fields_pack(fl_pack *p, const fl_field *fields,
                            const void *from)
{
    fl_msg_bytes end = { 0 };

    for (const fl_field *f = fields; f->kind != FL_FIELD_END; f++)
        end = pack_field(p, f, (const char *)from + f->at);
    return end;
}

static void unpack_bytes(fl_unpack *u, uint64_t len, fl_msg_bytes *to)
{
    to->data = fl_unpack_bytes(u, len);
    to->len = u->bad ? 0 : len;
}

static void unpack_field(fl_unpack *u, const fl_field *f, void *at)
{
    switch (f->kind) {
    case FL_FIELD_U32:
        *(uint32_t *)at = fl_unpack_u32(u);
        break;
    case FL_FIELD_U64:
        *(uint64_t *)at = fl_unpack_u64(u);
        break;
    case FL_FIELD_F64:
        *(double *)at = fl_unpack_f64(u);
        break;
    case FL_FIELD_TEXT:
        fl_unpack_text(u, at, f->room);
        break;
    case FL_FIELD_ZERO:
        u->bad |= fl_unpack_u32(u) != 0;
        break;
    case FL_FIELD_BYTES:
        unpack_bytes(u, fl_unpack_u64(u), at);
        break;
    case FL_FIELD_REST:
        unpack_bytes(u, (uint64_t)(u->end - u->at), at);
        break;
    case FL_FIELD_END:
        break;
    }
}

bool fl_fields_unpack(const fl_field *fields, fl_msg_bytes payload, void *to)
{
    fl_unpack u = fl_unpack_from(payload.data, payload.len);

    for (const fl_field *f = fields; f->kind != FL_FIELD_END; f++)
        unpack_field(&u, f, (char *)to + f->at);
    return !u.bad && u.at == u.end;
}

/* --- the list ------------------------------------------------------------- */

#define TRAINERS FL_MSG_FROM_TRAINERS
#define SERVERS FL_MSG_FROM_SERVERS
#define TOOLS FL_MSG_FROM_TOOLS
#define OWNERS FL_MSG_FROM_OWNERS

#define PLACE_STORE(name) .in_store = fl_store_##name
#define PLACE_SERVER(name) .on_server = fl_server_##name
#define PLACE_COORD_OPEN(name) PLACE_SERVER(name), .is_for_first = true
#define PLACE_COORD(name) PLACE_COORD_OPEN(name), .is_locked = true

enum delivery { REPEATED, ONCE };
enum effect { READS, MUTATES };

static const fl_msg_def by_type[FL_MSG_MAX] = {
#define FL_MESSAGE(NAME, name_, number, from_, place, delivery, effect, doc)   \
    [number] = { .name = #name_,                                               \
                 .from = (from_),                                              \
                 .once = (delivery) == ONCE,                                   \
                 .mutates = (effect) == MUTATES,                               \
                 .request = &fl_msg_##name_##_request,                         \
                 .reply = &fl_msg_##name_##_reply,                             \
                 PLACE_##place(name_) },
#include "ps/messages.def"
#undef FL_MESSAGE
};

#define FL_MESSAGE(NAME, name, number, from, place, delivery, effect, doc)     \
    _Static_assert((number) > FL_TYPE_OWN_MAX,                                 \
                   "message " #name " has a number above the transport's");
#include "ps/messages.def"
#undef FL_MESSAGE

const fl_msg_def *fl_msg_find(uint16_t type)
{
    return type < FL_MSG_MAX && by_type[type].name ? &by_type[type] : NULL;
}

const char *fl_msg_find_name(uint16_t type)
{
    const fl_msg_def *m = fl_msg_find(type);

    return m ? m->name : NULL;
}

const char *fl_msg_name(uint16_t type)
{
    return fl_frame_type_name(type, fl_msg_find_name);
}

/* --- requests and replies ------------------------------------------------- */

fl_status fl_msg_bad_request(uint16_t type, uint64_t len)
{
    FL_FAIL(FL_ERR_CORRUPT,
            "a request (%s) of %" PRIu64 " bytes does not parse",
            fl_msg_name(type), len);
}

fl_status fl_msg_bad_reply(uint16_t type, uint64_t len)
{
    FL_FAIL(FL_ERR_CORRUPT,
            "it answers a request (%s) with %" PRIu64
            " bytes that do not parse",
            fl_msg_name(type), len);
}

fl_status fl_msg_read_request(uint16_t type, fl_msg_bytes payload, void *to)
{
    const fl_field *fields = fl_msg_find(type)->request->fields;

    if (fields[0].kind == FL_FIELD_END && payload.len)
        FL_FAIL(FL_ERR_CORRUPT,
                "a request (%s) has %" PRIu64 " bytes and should have none",
                fl_msg_name(type), payload.len);
    return fl_fields_unpack(fields, payload, to)
               ? FL_OK
               : fl_msg_bad_request(type, payload.len);
}

fl_status fl_msg_read_reply(uint16_t type, fl_msg_bytes payload, void *to)
{
    return fl_fields_unpack(fl_msg_find(type)->reply->fields, payload, to)
               ? FL_OK
               : fl_msg_bad_reply(type, payload.len);
}
