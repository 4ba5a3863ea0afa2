/* leave.c - LEAVE: a member is done. */
#include "ps/client/client_inside.h"
#include "ps/server/server_inside.h"

const fl_msg_payload fl_msg_leave_request = { .fields = fl_fields_none };
const fl_msg_payload fl_msg_leave_reply = { .fields = fl_fields_none };

/* A trainer that has lost a server is not done, and must not look like it: a
   job whose trainers all left has ended well. */
static fl_status check_links(fl_client *c)
{
    fl_status st = fl_client_state(c);

    for (int i = 0; !st && i < c->o.n_servers; i++)
        st = fl_rpc_client_why(c->links[i].link);
    return st == FL_PENDING ? FL_OK : st;
}

fl_status fl_client_leave(fl_client *c, fl_ending ending)
{
    fl_call_spec call = { .type = FL_MSG_LEAVE };

    FL_TRY(check_links(c));
    atomic_store(&c->is_leaving, true);
    return fl_client_call(c, &call, ending);
}

void fl_server_leave(fl_server *s, const fl_server_request *r)
{
    const fl_identity *who = fl_session_who(r->session);
    fl_status st = fl_server_check_member(s, r);

    if (!st) {
        s->level = FL_LOG_INFO;
        fl_coord_leave(s->coord, who->role, who->rank, fl_server_now_ms(s));
        if (who->role == FL_MEMBER_TRAINER)
            fl_server_member(s, who->role, who->rank)->is_told = true;
    }
    fl_server_reply_empty(r, st);
}
