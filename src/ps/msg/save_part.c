/* save_part.c - SAVE_PART: values of dense blocks, which server 0 puts together
 * to whole variables. */
#include "ps/server/saver.h"
#include "ps/server/server_inside.h"

static const fl_field request[] = {
    FL_FIELD(U64, fl_save_part_request, number),
    FL_FIELD(REST, fl_save_part_request, bytes),
    FL_FIELDS_END,
};

const fl_msg_payload fl_msg_save_part_request = { .fields = request };
const fl_msg_payload fl_msg_save_part_reply = { .fields = fl_fields_none };

void fl_server_save_part(fl_server *s, const fl_server_request *r)
{
    const fl_save_part_request *q = r->request;

    fl_server_reply_empty(r,
                          fl_saver_add_values(s->saver, q->number, q->bytes));
}
