/* cut.c - CUT: how far a trainer is on its way to the cut of a save. */
#include "ps/client/client_inside.h"
#include "ps/coord/coord_save.h"
#include "ps/server/server_inside.h"

static const fl_field request[] = {
    FL_FIELD(U64, fl_cut_request, number),
    FL_FIELD(U32, fl_cut_request, state),
    FL_FIELD_GAP,
    FL_FIELD(REST, fl_cut_request, bytes),
    FL_FIELDS_END,
};

static const fl_field reply[] = {
    FL_FIELD(U64, fl_cut_reply, number),
    FL_FIELD(U32, fl_cut_reply, order),
    FL_FIELD_GAP,
    FL_FIELD(U64, fl_cut_reply, round),
    FL_FIELDS_END,
};

const fl_msg_payload fl_msg_cut_request = { .fields = request };
const fl_msg_payload fl_msg_cut_reply = { .fields = reply };

fl_status fl_client_cut(fl_client *c, const fl_cut_request *r,
                        fl_cut_reply *out, fl_ending ending)
{
    fl_call_spec call = { .type = FL_MSG_CUT, .request = r, .out = out };

    return fl_client_call(c, &call, ending);
}

void fl_server_cut(fl_server *s, const fl_server_request *r)
{
    fl_coord_asker who = fl_server_asker(s, r);

    s->level = FL_LOG_INFO;
    fl_coord_cut(s->coord, &who, r->request);
}

void fl_server_answer_cut(void *arg, void *question, fl_status st,
                          const fl_cut_reply *r)
{
    (void)arg;
    if (st)
        fl_reply_error(question, st);
    else
        fl_server_reply(question, FL_MSG_CUT, r);
}
