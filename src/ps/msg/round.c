/* round.c - ROUND: comes to a round on a server and, when all have come to all
 * servers, applies it with them.
 *
 * It is BARRIER and APPLY in one, so that nobody waits for a word in between:
 * what APPLY wants to know of the members the server makes of who came. Server 0
 * decides who that is (coord/coord_meet.c), the others ask it (server_rounds.c).
 * Rows that are pulled behind it are those of the next batch: they wait for it.
 *
 * A question belongs to the loop of its connection, but for the answer, which is
 * written under mu before the loop hears of it.
 */
#include <inttypes.h>

#include "base/alloc.h"
#include "base/timeline.h"
#include "ps/client/client_inside.h"
#include "ps/server/server_inside.h"

typedef struct round_request {
    uint64_t round, share;
    uint32_t weighing; /* fl_weighing */
    uint32_t n_blocks;
    fl_msg_bytes blocks; /* that are wanted, as in APPLY */
} round_request;

static const fl_field request[] = {
    FL_FIELD(U64, round_request, round),
    FL_FIELD(U64, round_request, share),
    FL_FIELD(U32, round_request, weighing),
    FL_FIELD(U32, round_request, n_blocks),
    FL_FIELD(REST, round_request, blocks),
    FL_FIELDS_END,
};

const fl_msg_payload fl_msg_round_request = { .fields = request };
/* The values of the blocks behind one another. */
const fl_msg_payload fl_msg_round_reply = { .fields = fl_fields_rest };

/* --- the client ----------------------------------------------------------- */

void fl_round_pack(fl_pack *p, const fl_client_round *round,
                   const fl_block_item *blocks, size_t n)
{
    round_request r = { .round = round->number,
                        .share = round->share,
                        .weighing = (uint32_t)round->weighing,
                        .n_blocks = (uint32_t)n };

    (void)fl_fields_pack(p, request, &r);
    for (size_t i = 0; i < n; i++)
        fl_block_pack(p, &blocks[i]);
}

/* --- the server ----------------------------------------------------------- */

/* A pull that waits. */
typedef struct waiting {
    fl_frame frame;
    fl_payload *payload;
    fl_reply *reply;
} waiting;

typedef struct round_question {
    fl_barrier_question base; /* the first member */
    fl_server *server;
    fl_frame frame; /* as of an APPLY */
    uint64_t round;
    uint32_t weighing, n_blocks;
    fl_pack blocks;
    fl_pack apply; /* the request that the store gets */
    fl_err err;    /* or why there is none */
    FL_VEC(waiting) pulls;
    bool is_orphan; /* its connection is down */
} round_question;

static void question_free(round_question *q)
{
    fl_pack_release(&q->blocks);
    fl_pack_release(&q->apply);
    fl_vec_release(&q->pulls);
    fl_free(q);
}

static fl_status check_came(const round_question *q, const fl_came *came,
                            size_t n)
{
    for (size_t i = 0; i < n; i++)
        if (came[i].rank == q->frame.rank)
            return FL_OK;
    FL_FAIL(FL_ERR_CLOSED,
            "round %" PRIu64 " was made without trainer %" PRIu32
            ", which has joined since: start it again",
            q->round, q->frame.rank);
}

/* What those that came count. */
static void weigh(const fl_came *came, size_t n, fl_weighing how,
                  fl_round_member *out)
{
    double all = 0;

    for (size_t i = 0; i < n; i++)
        all += (double)came[i].share;
    for (size_t i = 0; i < n; i++)
        out[i] =
            (fl_round_member){ came[i].rank,
                               fl_weight(how, (double)came[i].share, all, n) };
}

static fl_status make_apply(round_question *q, const fl_came *came, size_t n)
{
    fl_apply_request a = { .round = q->round, .n_members = (uint32_t)n };

    FL_TRY(check_came(q, came, n));
    a.members = fl_alloc(n * sizeof(*a.members));
    weigh(came, n, (fl_weighing)q->weighing, a.members);
    fl_apply_pack_head(&q->apply, &a, q->n_blocks);
    fl_pack_bytes(&q->apply, q->blocks.data, q->blocks.len);
    fl_free(a.members);
    return FL_OK;
}

static void run_pulls(round_question *q)
{
    for (size_t i = 0; i < q->pulls.len; i++) {
        const waiting *w = &q->pulls.data[i];
        fl_server_request r = { .session = fl_reply_session(w->reply),
                                .frame = &w->frame,
                                .payload = fl_server_bytes(w->payload),
                                .reply = w->reply };

        fl_server_ask_store(q->server, &r);
        fl_payload_free(w->payload);
    }
}

/* In the loop of its connection. Its trainer waits for all of the answers: it is
   woken once. */
static void finish(void *arg)
{
    round_question *q = arg;
    fl_server_request r = { .session = fl_reply_session(q->base.reply),
                            .frame = &q->frame,
                            .payload = { q->apply.data, q->apply.len },
                            .reply = q->base.reply };
    fl_conn *held = fl_reply_hold(q->base.reply);
    uint64_t since = fl_timeline_now();

    if (!q->is_orphan && fl_session_data(r.session) == q)
        fl_session_set(r.session, NULL, NULL);
    if (q->err.status)
        fl_reply_error(q->base.reply, fl_err_restore(&q->err));
    else
        fl_server_ask_store(q->server, &r);
    fl_timeline_add("serve", fl_msg_name(FL_MSG_APPLY), NULL, since);
    run_pulls(q);
    if (held)
        fl_conn_let_go(held);
    question_free(q);
}

/* Nobody is there any more to read the replies, which must be given. */
static void drop_pulls(round_question *q)
{
    for (size_t i = 0; i < q->pulls.len; i++) {
        fl_payload_free(q->pulls.data[i].payload);
        fl_reply_send(q->pulls.data[i].reply, NULL, 0);
    }
    q->pulls.len = 0;
}

/* Not in a loop: the server is gone. */
static void give_up(round_question *q)
{
    drop_pulls(q);
    fl_reply_send(q->base.reply, NULL, 0);
    question_free(q);
}

static void on_all_came(fl_barrier_question *question, fl_status st,
                        const fl_came *came, size_t n_came)
{
    round_question *q = (round_question *)question;

    if (!st)
        st = make_apply(q, came, n_came);
    fl_err_save(&q->err, st);
    if (!fl_reply_post(q->base.reply, finish, q))
        give_up(q);
}

static fl_status check(const round_request *r)
{
    if (r->weighing > FL_WEIGH_SUM)
        FL_FAIL(FL_ERR_INVAL,
                "round %" PRIu64 " is to be weighed in way %" PRIu32
                ", which there is not",
                r->round, r->weighing);
    return FL_OK;
}

static round_question *question_new(fl_server *s, const fl_server_request *r)
{
    const round_request *a = r->request;
    round_question *q = fl_alloc(sizeof(*q));

    q->base = (fl_barrier_question){ on_all_came, r->reply };
    q->server = s;
    q->frame = *r->frame;
    q->frame.type = FL_MSG_APPLY;
    q->round = a->round;
    q->weighing = a->weighing;
    q->n_blocks = a->n_blocks;
    fl_pack_bytes(&q->blocks, a->blocks.data, (size_t)a->blocks.len);
    return q;
}

void fl_server_round(fl_server *s, const fl_server_request *r)
{
    const round_request *a = r->request;
    fl_coord_asker who = fl_server_asker(s, r);
    fl_status st = check(a);

    if (st) {
        fl_reply_error(r->reply, st);
        return;
    }
    /* That its gradients were kept its trainer hears when the round is over. */
    fl_reply_defer_others(r->reply);
    who.question = question_new(s, r);
    fl_session_set(r->session, who.question, NULL);
    fl_lock_soon(&s->mu);
    s->level = FL_LOG_INFO;
    if (s->coord)
        fl_coord_meet(s->coord, &who, a->round, a->share);
    else
        fl_server_come_to_round(s, &who, a->round);
    fl_unlock(&s->mu);
}

bool fl_server_wait_for_round(const fl_server_request *r, fl_payload *payload)
{
    round_question *q = fl_session_data(r->session);

    if (!q || r->frame->type != FL_MSG_PULL)
        return false;
    fl_vec_push(&q->pulls, ((waiting){ *r->frame, payload, r->reply }));
    return true;
}

/* The trainer comes back and asks again. */
void fl_server_leave_round(fl_session *session)
{
    round_question *q = fl_session_data(session);

    if (!q)
        return;
    fl_session_set(session, NULL, NULL);
    q->is_orphan = true;
    drop_pulls(q);
}
