/* message.c - the list of messages. */
#include "ps/msg/message.h"

#define TRAINERS FL_MSG_FROM_TRAINERS
#define SERVERS FL_MSG_FROM_SERVERS
#define TOOLS FL_MSG_FROM_TOOLS

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
