/* clock.c - CLOCK: what time it is on server 0, whose clock is the job's.
 *
 * The answer that came fastest tells how far its clock is ahead: the question was
 * answered somewhere between the two moments when it left and when the answer was
 * here, so half of that time is how wrong this may be. Where both are on one
 * machine the clocks are the same, and a difference within the error is none.
 */
#include <inttypes.h>

#include "base/timeline.h"
#include "ps/client/client_inside.h"
#include "ps/server/server_inside.h"

#define QUESTIONS 8

typedef struct clock_reply {
    uint64_t ns;
} clock_reply;

static const fl_field reply[] = {
    FL_FIELD(U64, clock_reply, ns),
    FL_FIELDS_END,
};

const fl_msg_payload fl_msg_clock_request = { .fields = fl_fields_none };
const fl_msg_payload fl_msg_clock_reply = { .fields = reply };

void fl_clock_take(fl_clock_guess *g, uint64_t asked_ns, uint64_t there_ns,
                   uint64_t heard_ns)
{
    uint64_t error = (heard_ns - asked_ns) / 2;
    int64_t ahead = (int64_t)(there_ns - asked_ns - error);

    if (g->n++ && error >= g->error_ns)
        return;
    g->error_ns = error;
    g->ahead_ns = (uint64_t)(ahead < 0 ? -ahead : ahead) <= error ? 0 : ahead;
}

fl_status fl_client_ask_clock(fl_client *c)
{
    fl_clock_guess g = { 0 };
    clock_reply there;

    for (int i = 0; i < QUESTIONS; i++) {
        fl_call_spec call = { .type = FL_MSG_CLOCK, .out = &there };
        uint64_t asked = fl_now_ns();

        FL_TRY(fl_client_call(c, &call, FL_WAIT));
        fl_clock_take(&g, asked, there.ns, fl_now_ns());
    }
    fl_timeline_set_clock(g.ahead_ns, g.error_ns);
    return FL_OK;
}

/* --- another server asks -------------------------------------------------- */

static void on_clock(void *arg, fl_status st, const fl_frame *f,
                     fl_payload *payload)
{
    fl_server *s = arg;
    uint64_t now = fl_now_ns();
    clock_reply there;

    (void)f;
    if (!st && payload)
        st = fl_msg_read_reply(
            FL_MSG_CLOCK,
            (fl_msg_bytes){ fl_payload_data(payload), fl_payload_len(payload) },
            &there);
    fl_payload_free(payload);
    if (st || !payload)
        return; /* the times of this server stay as they are */
    fl_clock_take(&s->clock, s->clock_asked_ns, there.ns, now);
    if (s->clock.n < QUESTIONS)
        fl_server_ask_clock(s);
    else
        fl_timeline_set_clock(s->clock.ahead_ns, s->clock.error_ns);
}

void fl_server_ask_clock(fl_server *s)
{
    if (!s->upstream.link)
        return;
    s->clock_asked_ns = fl_now_ns();
    fl_rpc_client_call(
        s->upstream.link,
        &(fl_rpc_call){ .type = FL_MSG_CLOCK, .on_reply = on_clock, .arg = s });
}

void fl_server_clock(fl_server *s, const fl_server_request *r)
{
    clock_reply a = { .ns = fl_now_ns() };

    (void)s;
    fl_server_reply(r->reply, FL_MSG_CLOCK, &a);
}
