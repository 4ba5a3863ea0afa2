/* save_file.c - SAVE_FILE: bytes of a file that a server has written where server
 * 0 does not see it. */
#include "ps/server/saver.h"
#include "ps/server/server_inside.h"

static const fl_field request[] = {
    FL_FIELD(U64, fl_save_file_request, number),
    FL_FIELD(U64, fl_save_file_request, offset),
    FL_FIELD(U32, fl_save_file_request, is_last),
    FL_FIELD_GAP,
    FL_FIELD(REST, fl_save_file_request, bytes),
    FL_FIELDS_END,
};

const fl_msg_payload fl_msg_save_file_request = { .fields = request };
const fl_msg_payload fl_msg_save_file_reply = { .fields = fl_fields_none };

/* A disk is not for the loop of a connection. */
void fl_server_save_file(fl_server *s, const fl_server_request *r)
{
    if (s->saver)
        fl_saver_take_file(s->saver, r->request, r->reply);
    else
        fl_reply_error(
            r->reply,
            fl_err_set(FL_ERR_INVAL, "this server takes no part in saves"));
}
