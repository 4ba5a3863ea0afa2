/* message.h - the messages between the members of a job.
 *
 * A message is a row of messages.def and a file of this folder. The file says
 * what its request and its reply look like, for both sides; how a client asks
 * (client/client.h) and what a server does, where the store has no file for it.
 *
 * Most payloads are a few numbers and texts: a list of fields says which, and
 * where in a struct they are, and both sides pack and unpack by it. Rows, blocks
 * and lists have code of their own.
 *
 * A payload may lie in memory that a hostile peer still writes to. So every
 * number is copied out once, and only the copy is checked and used.
 */
#ifndef FL_PS_MSG_MESSAGE_H
#define FL_PS_MSG_MESSAGE_H

#include "rpc/wire/frame.h"

/* Numbers are below it. */
#define FL_MSG_MAX 64

typedef enum fl_msg {
#define FL_MESSAGE(NAME, name, number, from, place, delivery, effect, doc)     \
    FL_MSG_##NAME = number,
#include "ps/messages.def"
#undef FL_MESSAGE
} fl_msg;

/* --- payloads ------------------------------------------------------------- */

/* Bytes where they lie. */
typedef struct fl_msg_bytes {
    const void *data;
    uint64_t len;
} fl_msg_bytes;

typedef enum fl_field_kind {
    FL_FIELD_END, /* of the list */
    FL_FIELD_U32,
    FL_FIELD_U64,
    FL_FIELD_F64,
    FL_FIELD_TEXT,  /* char [room]; what is longer is cut when it is packed */
    FL_FIELD_ZERO,  /* u32 0, in no struct */
    FL_FIELD_BYTES, /* fl_msg_bytes: a u64 length, then the bytes; the last */
    FL_FIELD_REST   /* fl_msg_bytes: all that follows; the last */
} fl_field_kind;

typedef struct fl_field {
    fl_field_kind kind;
    uint32_t at, room; /* in the struct */
} fl_field;

#define FL_FIELD(KIND, type, member)                                           \
    {                                                                          \
        FL_FIELD_##KIND, offsetof(type, member), sizeof(((type *)0)->member)   \
    }
#define FL_FIELD_GAP                                                           \
    {                                                                          \
        FL_FIELD_ZERO, 0, 0                                                    \
    }
#define FL_FIELDS_END                                                          \
    {                                                                          \
        FL_FIELD_END, 0, 0                                                     \
    }

/* Structs of fields are not larger. */
#define FL_MSG_STRUCT_MAX 512

/* Names of barriers and passes; the coordinator's own limit is below it. */
#define FL_MSG_NAME_ROOM 128

/* A payload without fields, and one of bytes only (fl_msg_bytes). */
extern const fl_field fl_fields_none[], fl_fields_rest[];

/* Packs all but the bytes at the end, which are given apart. */
fl_msg_bytes fl_fields_pack(fl_pack *p, const fl_field *fields,
                            const void *from);
/* False when they do not make up exactly these bytes; bytes at the end stay
   where they are. */
bool fl_fields_unpack(const fl_field *fields, fl_msg_bytes payload, void *to);

/* What a request or a reply looks like: fields, or code of its own. */
typedef struct fl_msg_payload {
    const fl_field *fields;
    /* Without fields, for the sweep over all messages: unpacks, and packs again
       what was read; and example i, false behind the last. */
    fl_status (*echo)(uint16_t type, fl_msg_bytes payload, fl_pack *again);
    bool (*example)(uint16_t type, int i, fl_pack *out);
} fl_msg_payload;

/* --- the list ------------------------------------------------------------- */

enum fl_msg_from {
    FL_MSG_FROM_TRAINERS = 1,
    FL_MSG_FROM_SERVERS = 2,
    FL_MSG_FROM_TOOLS = 4,
    FL_MSG_FROM_OWNERS = 8 /* tools that know the token */
};

struct fl_server;
struct fl_server_request;
struct fl_store_ctx;

/* A row of it. */
typedef struct fl_msg_def {
    const char *name; /* "pull" */
    unsigned from;    /* fl_msg_from */
    bool once, mutates;
    bool is_for_first, is_locked; /* for server 0; under the server's lock */
    const fl_msg_payload *request, *reply;
    /* One of the two. */
    fl_status (*in_store)(struct fl_store_ctx *c);
    void (*on_server)(struct fl_server *s, const struct fl_server_request *r);
} fl_msg_def;

/* NULL when there is no such message. */
const fl_msg_def *fl_msg_find(uint16_t type);
/* What the transport asks for names (rpc/wire/frame.h). */
const char *fl_msg_find_name(uint16_t type);
/* "pull", or "type 77"; until this thread's next call. */
const char *fl_msg_name(uint16_t type);

/* What there is for each of them. */
#define FL_HANDLER_STORE(name)                                                 \
    FL_MUST_CHECK                                                              \
    fl_status fl_store_##name(struct fl_store_ctx *c);
#define FL_HANDLER_SERVER(name)                                                \
    void fl_server_##name(struct fl_server *s,                                 \
                          const struct fl_server_request *r);
#define FL_HANDLER_COORD(name) FL_HANDLER_SERVER(name)
#define FL_HANDLER_COORD_OPEN(name) FL_HANDLER_SERVER(name)
#define FL_MESSAGE(NAME, name, number, from, place, delivery, effect, doc)     \
    extern const fl_msg_payload fl_msg_##name##_request;                       \
    extern const fl_msg_payload fl_msg_##name##_reply;                         \
    FL_HANDLER_##place(name)
#include "ps/messages.def"
#undef FL_MESSAGE

/* --- requests and replies by their fields --------------------------------- */

/* FL_ERR_CORRUPT for what does not parse. The sentence about a reply goes on
   behind the name of who gave it. */
FL_MUST_CHECK
fl_status fl_msg_read_request(uint16_t type, fl_msg_bytes payload, void *to);
FL_MUST_CHECK
fl_status fl_msg_read_reply(uint16_t type, fl_msg_bytes payload, void *to);
/* Those sentences. */
fl_status fl_msg_bad_request(uint16_t type, uint64_t len);
fl_status fl_msg_bad_reply(uint16_t type, uint64_t len);

#endif
