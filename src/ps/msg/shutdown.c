/* shutdown.c - SHUTDOWN: a tool ends the server. */
#include "ps/server/server_inside.h"

const fl_msg_payload fl_msg_shutdown_request = { .fields = fl_fields_none };
const fl_msg_payload fl_msg_shutdown_reply = { .fields = fl_fields_none };

void fl_server_shutdown(fl_server *s, const fl_server_request *r)
{
    char text[FL_ADDRESS_MAX + 64];

    (void)fl_identity_text(fl_session_who(r->session),
                           fl_session_peer(r->session), text, sizeof(text));
    fl_server_reply_empty(r, FL_OK);
    fl_lock(&s->mu);
    fl_server_end_asked(s, text);
    fl_unlock(&s->mu);
}
