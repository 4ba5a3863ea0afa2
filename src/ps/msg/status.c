/* status.c - STATUS: members, phases and what they wait for, as text. */
#include <string.h>

#include "base/alloc.h"
#include "ps/server/server_inside.h"

const fl_msg_payload fl_msg_status_request = { .fields = fl_fields_none };
const fl_msg_payload fl_msg_status_reply = { .fields = fl_fields_rest };

void fl_server_status(fl_server *s, const fl_server_request *r)
{
    char *text = fl_coord_status(s->coord, fl_server_now_ms(s));

    fl_reply_send(r->reply, text, strlen(text));
    fl_free(text);
}
