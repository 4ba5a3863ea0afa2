/* step.c - STEP: adds to the job's step and gives it. */
#include "ps/client/client_inside.h"
#include "ps/server/server_inside.h"

typedef struct step_request {
    uint64_t add;
} step_request;

typedef struct step_reply {
    uint64_t step;
} step_reply;

static const fl_field request[] = {
    FL_FIELD(U64, step_request, add),
    FL_FIELDS_END,
};

static const fl_field reply[] = {
    FL_FIELD(U64, step_reply, step),
    FL_FIELDS_END,
};

const fl_msg_payload fl_msg_step_request = { .fields = request };
const fl_msg_payload fl_msg_step_reply = { .fields = reply };

fl_status fl_client_step(fl_client *c, uint64_t add, uint64_t *step,
                         fl_ending ending)
{
    _Static_assert(sizeof(step_reply) == sizeof(*step), "it is read in place");
    fl_call_spec call = { .type = FL_MSG_STEP,
                          .request = &(step_request){ add },
                          .out = step };

    return fl_client_call(c, &call, ending);
}

void fl_server_step(fl_server *s, const fl_server_request *r)
{
    const step_request *q = r->request;
    fl_status st = fl_server_check_member(s, r);
    step_reply a;

    if (!st)
        st = fl_coord_check_asker(s->coord, r->frame->rank,
                                  fl_session_who(r->session)->incarnation,
                                  "the step");
    if (st) {
        fl_reply_error(r->reply, st);
        return;
    }
    a.step = fl_coord_step(s->coord, q->add);
    fl_server_raise_step(s, a.step);
    fl_server_reply(r->reply, FL_MSG_STEP, &a);
}
