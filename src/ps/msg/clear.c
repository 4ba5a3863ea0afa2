/* clear.c - CLEAR: drops the rows of a table. */
#include "ps/client/client_inside.h"
#include "ps/store/store_inside.h"

typedef struct clear_request {
    uint32_t table;
} clear_request;

static const fl_field request[] = {
    FL_FIELD(U32, clear_request, table),
    FL_FIELDS_END,
};

const fl_msg_payload fl_msg_clear_request = { .fields = request };
const fl_msg_payload fl_msg_clear_reply = { .fields = fl_fields_none };

fl_status fl_client_clear(fl_client *c, uint32_t table, fl_ending ending)
{
    fl_call_spec call = { .type = FL_MSG_CLEAR,
                          .server = FL_ALL_SERVERS,
                          .request = &(clear_request){ table } };

    return fl_client_call(c, &call, ending);
}

fl_status fl_store_clear(fl_store_ctx *c)
{
    const clear_request *q = c->request;
    fl_store_table *t;

    FL_TRY(fl_store_find_table(c, q->table, &t));
    (void)fl_store_commit(c->call, &t->log);
    fl_table_clear(t->table);
    return FL_OK;
}
