/* coll_part.c - COLL_PART: parts of collective calls, from worker to worker. What
 * is in them is not known here. */
#include "ps/client/client_inside.h"
#include "ps/server/server_inside.h"

const fl_msg_payload fl_msg_coll_part_request = { .fields = fl_fields_rest };
const fl_msg_payload fl_msg_coll_part_reply = { .fields = fl_fields_none };

/* --- the client ----------------------------------------------------------- */

fl_status fl_client_send_part(fl_client *c, int server, const fl_client_part *p,
                              fl_ending ending)
{
    fl_request *r;

    FL_ASSERT(server >= 0 && server < c->o.n_servers);
    FL_TRY(fl_request_new(c, FL_MSG_COLL_PART, ending, &r));
    fl_part_add(&r->parts[server], p->head.data, p->head.len);
    fl_part_add(&r->parts[server], p->bytes.data, p->bytes.len);
    return fl_request_send(r);
}

/* --- the server ----------------------------------------------------------- */

void fl_server_on_part(fl_server *s, fl_server_part_fn fn, void *arg)
{
    fl_server_parts *p = &s->parts;

    fl_lock(&p->mu);
    p->fn = fn;
    p->arg = arg;
    while (!fn && p->n_inside)
        fl_cond_wait(&p->idle, &p->mu);
    fl_unlock(&p->mu);
}

void fl_server_part_taken(void *reply, fl_status st)
{
    if (st)
        fl_reply_error(reply, st);
    else
        fl_reply_send(reply, NULL, 0);
}

static fl_status refuse(const fl_server *s)
{
    FL_FAIL(FL_ERR_CLOSED,
            "nobody makes collective calls at server %d: its worker has not "
            "begun, has ended, or the job has servers of its own",
            s->o.rank);
}

void fl_server_coll_part(fl_server *s, const fl_server_request *r)
{
    fl_server_parts *p = &s->parts;
    fl_server_part_fn fn;
    void *arg;

    fl_lock(&p->mu);
    fn = p->fn;
    arg = p->arg;
    p->n_inside++;
    fl_unlock(&p->mu);
    if (fn)
        fn(arg, (int)r->frame->rank, r->payload.data, (size_t)r->payload.len,
           r->reply);
    else
        fl_reply_error(r->reply, refuse(s));
    fl_lock(&p->mu);
    if (--p->n_inside == 0)
        fl_cond_wake_all(&p->idle);
    fl_unlock(&p->mu);
}
