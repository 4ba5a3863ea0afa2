/* report.c - REPORT: phase, samples, loss and AUC of a trainer, and how fast the
 * job is. */
#include "ps/client/client_inside.h"
#include "ps/server/server_inside.h"

static const fl_field request[] = {
    FL_FIELD(TEXT, fl_report_request, phase),
    FL_FIELD(U64, fl_report_request, samples),
    FL_FIELD(F64, fl_report_request, loss),
    FL_FIELD(F64, fl_report_request, auc),
    FL_FIELD(U64, fl_report_request, expected),
    FL_FIELDS_END,
};

static const fl_field reply[] = {
    FL_FIELD(F64, fl_report_reply, rate),
    FL_FIELDS_END,
};

const fl_msg_payload fl_msg_report_request = { .fields = request };
const fl_msg_payload fl_msg_report_reply = { .fields = reply };

fl_status fl_client_report(fl_client *c, const fl_report_request *r,
                           fl_report_reply *of_job, fl_ending ending)
{
    fl_call_spec call = { .type = FL_MSG_REPORT, .request = r, .out = of_job };

    return fl_client_call(c, &call, ending);
}

void fl_server_report(fl_server *s, const fl_server_request *r)
{
    fl_status st = fl_server_check_member(s, r);
    fl_report_reply a;

    if (st) {
        fl_reply_error(r->reply, st);
        return;
    }
    fl_coord_report(s->coord, fl_session_who(r->session)->rank, r->request,
                    fl_server_now_ms(s));
    a.rate = fl_coord_rate(s->coord);
    fl_server_reply(r->reply, FL_MSG_REPORT, &a);
}
