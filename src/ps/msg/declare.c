/* declare.c - DECLARE: the program that a server runs, as text (ps/declare.h).
 */
#include <string.h>

#include "ps/client/client_inside.h"
#include "ps/server/server_inside.h"

const fl_msg_payload fl_msg_declare_request = { .fields = fl_fields_rest };
const fl_msg_payload fl_msg_declare_reply = { .fields = fl_fields_none };

fl_status fl_client_declare(fl_client *c, int server, const char *text,
                            fl_ending ending)
{
    fl_call_spec call = { .type = FL_MSG_DECLARE,
                          .server = server,
                          .request = &(fl_msg_bytes){ text, strlen(text) } };

    return fl_client_call(c, &call, ending);
}

/* Trainers that are here for the first time wait for one another before they
   train: the job has not begun, and who waits is told why it never will. */
static void end_undeclared(fl_server *s, const fl_err *why)
{
    fl_lock(&s->mu);
    fl_coord_end(s->coord, fl_err_restore(why));
    fl_unlock(&s->mu);
}

void fl_server_declare(fl_server *s, const fl_server_request *r)
{
    const fl_msg_bytes *text = r->request;
    fl_status st = fl_store_declare(s->store, text->data, (size_t)text->len);
    fl_err why;

    fl_err_save(&why, st);
    fl_server_reply_empty(r, st);
    if (st && s->o.rank == 0 && fl_session_who(r->session)->incarnation == 1)
        end_undeclared(s, &why);
}
