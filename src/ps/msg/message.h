/* message.h - the messages between the members of a job (messages.def).
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

enum fl_msg_from {
    FL_MSG_FROM_TRAINERS = 1,
    FL_MSG_FROM_SERVERS = 2,
    FL_MSG_FROM_TOOLS = 4
};

struct fl_server;
struct fl_server_request;
struct fl_store_ctx;

/* A row of the list. */
typedef struct fl_msg_def {
    const char *name; /* "pull" */
    unsigned from;    /* fl_msg_from */
    bool once, mutates;
    bool is_for_first, is_locked; /* for server 0; under the server's lock */
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

/* Their handlers. */
#define FL_HANDLER_STORE(name)                                                 \
    FL_MUST_CHECK                                                              \
    fl_status fl_store_##name(struct fl_store_ctx *c);
#define FL_HANDLER_SERVER(name)                                                \
    void fl_server_##name(struct fl_server *s,                                 \
                          const struct fl_server_request *r);
#define FL_HANDLER_COORD(name) FL_HANDLER_SERVER(name)
#define FL_HANDLER_COORD_OPEN(name) FL_HANDLER_SERVER(name)
#define FL_MESSAGE(NAME, name, number, from, place, delivery, effect, doc)     \
    FL_HANDLER_##place(name)
#include "ps/messages.def"
#undef FL_MESSAGE

#endif
