/* dispatch.c - DISPATCH: the next piece of work of a pass. */
#include "ps/client/client_inside.h"
#include "ps/server/server_inside.h"

typedef struct dispatch_reply {
    uint64_t item;
} dispatch_reply;

static const fl_field request[] = {
    FL_FIELD(TEXT, fl_dispatch_request, name),
    FL_FIELD(U64, fl_dispatch_request, number),
    FL_FIELD(U64, fl_dispatch_request, n),
    FL_FIELD(U64, fl_dispatch_request, question),
    FL_FIELD(U64, fl_dispatch_request, finished),
    FL_FIELD(U32, fl_dispatch_request, is_hasty),
    FL_FIELDS_END,
};

static const fl_field reply[] = {
    FL_FIELD(U64, dispatch_reply, item),
    FL_FIELDS_END,
};

const fl_msg_payload fl_msg_dispatch_request = { .fields = request };
const fl_msg_payload fl_msg_dispatch_reply = { .fields = reply };

fl_status fl_client_dispatch(fl_client *c, const fl_dispatch_request *r,
                             uint64_t *item, fl_ending ending)
{
    _Static_assert(sizeof(dispatch_reply) == sizeof(*item),
                   "it is read in place");
    fl_call_spec call = { .type = FL_MSG_DISPATCH, .request = r, .out = item };

    return fl_client_call(c, &call, ending);
}

void fl_server_dispatch(fl_server *s, const fl_server_request *r)
{
    fl_coord_asker who = fl_server_asker(s, r);

    fl_coord_dispatch(s->coord, &who, r->request);
}

void fl_server_answer_dispatch(void *arg, void *question, fl_status st,
                               uint64_t item)
{
    (void)arg;
    if (st)
        fl_reply_error(question, st);
    else
        fl_server_reply(question, FL_MSG_DISPATCH, &(dispatch_reply){ item });
}
