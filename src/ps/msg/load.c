/* load.c - LOAD: rows and blocks of a saved model. */
#include <string.h>

#include "ps/client/client_inside.h"
#include "ps/server/saver.h"
#include "ps/server/server_inside.h"

#define PLAN_MAX ((uint64_t)64 << 20)

const fl_msg_payload fl_msg_load_request = { .fields = fl_fields_rest };
const fl_msg_payload fl_msg_load_reply = { .fields = fl_fields_none };

fl_status fl_client_load(fl_client *c, fl_msg_bytes what, fl_ending ending)
{
    fl_call_spec call = { .type = FL_MSG_LOAD,
                          .server = FL_ALL_SERVERS,
                          .request = &what };

    return fl_client_call(c, &call, ending);
}

/* Reading takes its time, and is not for the loop of a connection. */
void fl_server_load(fl_server *s, const fl_server_request *r)
{
    fl_save_place p = fl_save_split(*(const fl_msg_bytes *)r->request);
    char path[FL_SAVE_DIR_MAX + 1];
    fl_status st = fl_save_read_dir(p.path, path);

    if (!st && p.rest.len > PLAN_MAX)
        st = fl_err_set(FL_ERR_INVAL, "what is to be loaded is too long");
    if (!st && !s->saver)
        st = fl_err_set(FL_ERR_INVAL, "this server loads no models");
    if (st)
        fl_reply_error(r->reply, st);
    else
        fl_saver_load(s->saver, path, p.rest, r->reply);
}
