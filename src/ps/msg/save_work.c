/* save_work.c - SAVE_WORK: how far a server is with its part of a save. */
#include "ps/coord/coord_save.h"
#include "ps/server/saver.h"
#include "ps/server/server_inside.h"

static const fl_field request[] = {
    FL_FIELD(U64, fl_save_work_request, number),
    FL_FIELD(U32, fl_save_work_request, state),
    FL_FIELD_GAP,
    FL_FIELD(TEXT, fl_save_work_request, base),
    FL_FIELD(TEXT, fl_save_work_request, whole),
    FL_FIELD(REST, fl_save_work_request, bytes),
    FL_FIELDS_END,
};

static const fl_field reply[] = {
    FL_FIELD(U64, fl_save_work_reply, number),
    FL_FIELD(U64, fl_save_work_reply, step),
    FL_FIELD(U32, fl_save_work_reply, order),
    FL_FIELD(U32, fl_save_work_reply, keep),
    FL_FIELD(U32, fl_save_work_reply, kind),
    FL_FIELD(U32, fl_save_work_reply, has_cuts),
    FL_FIELD(TEXT, fl_save_work_reply, version),
    FL_FIELD(TEXT, fl_save_work_reply, base),
    FL_FIELD(REST, fl_save_work_reply, dir),
    FL_FIELDS_END,
};

const fl_msg_payload fl_msg_save_work_request = { .fields = request };
const fl_msg_payload fl_msg_save_work_reply = { .fields = reply };

void fl_server_save_work(fl_server *s, const fl_server_request *r)
{
    fl_coord_asker who = fl_server_asker(s, r);
    fl_status st = fl_server_check_member(s, r);

    s->level = FL_LOG_INFO;
    if (st)
        fl_reply_error(r->reply, st);
    else
        fl_coord_save_work(s->coord, &who, r->request);
}

/* Server 0 asks itself; the others are sent a reply. */
void fl_server_answer_save_work(void *arg, void *question, fl_status st,
                                const fl_save_work_reply *r,
                                fl_save_parts *parts)
{
    fl_server *s = arg;
    fl_pack p = { 0 };
    fl_msg_bytes dir;

    if (question == s->saver) {
        fl_saver_take_order(s->saver, st, r, parts);
        return;
    }
    FL_ASSERT(!parts);
    if (st) {
        fl_reply_error(question, st);
        return;
    }
    dir = fl_fields_pack(&p, reply, r);
    if (dir.len)
        fl_pack_bytes(&p, dir.data, (size_t)dir.len);
    fl_reply_send(question, p.data, p.len);
    fl_pack_release(&p);
}
