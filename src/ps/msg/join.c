/* join.c - JOIN: a member says that it is there. */
#include "ps/server/server_inside.h"

static const fl_field reply[] = {
    FL_FIELD(U32, fl_join_reply, incarnation),
    FL_FIELDS_END,
};

const fl_msg_payload fl_msg_join_request = { .fields = fl_fields_none };
const fl_msg_payload fl_msg_join_reply = { .fields = reply };

/* A server is known to people by the address that everybody has of it. */
static const char *place_of(const fl_server_request *r)
{
    const fl_identity *who = fl_session_who(r->session);

    return who->role == FL_MEMBER_SERVER ? who->address
                                         : fl_session_peer(r->session);
}

/* A server that comes after the end hears what became of the job: of a good end
   by the answer to its question for it. */
static void join_after_end(fl_server *s, const fl_server_request *r)
{
    const fl_identity *who = fl_session_who(r->session);

    if (s->why.status)
        fl_server_member(s, who->role, who->rank)->is_told = true;
    fl_server_reply_empty(r, s->why.status ? fl_err_restore(&s->why) : FL_OK);
}

void fl_server_join(fl_server *s, const fl_server_request *r)
{
    const fl_identity *who = fl_session_who(r->session);
    fl_join_reply a;
    fl_status st;

    if (who->role == FL_MEMBER_SERVER && s->phase != FL_SERVER_SERVING) {
        join_after_end(s, r);
        return;
    }
    s->level = FL_LOG_INFO;
    st = fl_coord_join(s->coord, who, place_of(r), fl_server_now_ms(s),
                       &a.incarnation);
    if (st) {
        fl_reply_error(r->reply, st);
        return;
    }
    fl_server_set_member(s, r->session, a.incarnation);
    fl_server_reply(r->reply, FL_MSG_JOIN, &a);
}
