/* server_rounds.c - rounds on the servers that do not decide them.
 *
 * A trainer that has come to a round sits here until server 0 says who is in it.
 * Who sits is told there when all are back who were in the round before, so that
 * a round is one question; what does not go that way (one has left, or is late) a
 * tick tells. A question says all that is known of its round, and the link repeats
 * it when the connection breaks: server 0 remembers the last round, as does this.
 *
 * All under mu.
 */
#include "ps/server/server_inside.h"

#include <inttypes.h>

#include "base/alloc.h"

/* A question to server 0; it lives until its answer. */
typedef struct report {
    fl_server *server;
    uint64_t number, round;
    fl_pack payload;
    struct iovec piece;
} report;

static uint32_t n_trainers(const fl_server *s)
{
    return (uint32_t)s->o.n_trainers;
}

static bool sits_in(const fl_server *s, uint32_t rank, uint64_t round)
{
    const fl_round_seat *seat = &s->rounds.seats[rank];

    return seat->question && seat->round == round;
}

static fl_barrier_question *stand_up(fl_server *s, uint32_t rank)
{
    fl_round_seat *seat = &s->rounds.seats[rank];
    fl_barrier_question *q = seat->question;

    seat->question = NULL;
    s->rounds.n_seated--;
    return q;
}

static void refuse(fl_server *s, uint32_t rank, fl_status st)
{
    fl_barrier_question *q = stand_up(s, rank);

    q->answer(q, st, NULL, 0);
}

/* --- what server 0 says --------------------------------------------------- */

/* A member that sits here no more has begun anew meanwhile, and what it had sent
   is gone; the other servers have it. */
static fl_status check_members(const fl_server *s, uint64_t round,
                               const fl_came_list *came)
{
    for (size_t i = 0; i < came->len; i++) {
        uint32_t rank = came->data[i].rank;

        if (rank >= n_trainers(s) || !sits_in(s, rank, round))
            FL_FAIL(FL_ERR_CLOSED,
                    "round %" PRIu64 " was made with trainer %" PRIu32
                    ", whose gradients server %d does not have: start the job "
                    "again",
                    round, rank, s->o.rank);
    }
    return FL_OK;
}

static void remember(fl_server_rounds *r, uint64_t round, fl_came_list *came)
{
    fl_came_list was = r->came;

    r->has_last = true;
    r->last = round;
    r->came = *came;
    *came = was;
}

static fl_status settle(fl_server *s, uint64_t round, fl_came_list *came)
{
    fl_server_rounds *r = &s->rounds;

    /* Of a round that is long over nobody knows who was in it. */
    if (came->len && (!r->has_last || round > r->last)) {
        FL_TRY(check_members(s, round, came));
        remember(r, round, came);
        came = &r->came;
    }
    for (uint32_t rank = 0; rank < n_trainers(s); rank++) {
        fl_barrier_question *q;

        if (!sits_in(s, rank, round))
            continue;
        q = stand_up(s, rank);
        q->answer(q, FL_OK, came->data, came->len);
    }
    return FL_OK;
}

/* Who was told of again since waits for a later answer. */
static void refuse_told(fl_server *s, const report *p, fl_status st)
{
    fl_err why;

    fl_err_save(&why, st);
    for (uint32_t rank = 0; rank < n_trainers(s); rank++)
        if (sits_in(s, rank, p->round) &&
            s->rounds.seats[rank].report == p->number)
            refuse(s, rank, fl_err_restore(&why));
}

/* In loop 0. */
static void on_decided(void *arg, fl_status st, const fl_frame *f,
                       fl_payload *payload)
{
    report *p = arg;
    fl_server *s = p->server;
    fl_came_list came = { 0 };
    fl_err broken = { 0 };

    (void)f;
    if (!st)
        st = fl_came_unpack(fl_server_bytes(payload), &came);
    fl_lock(&s->mu);
    if (st)
        refuse_told(s, p, st);
    else
        fl_err_save(&broken, settle(s, p->round, &came));
    fl_unlock(&s->mu);
    if (broken.status)
        fl_server_give_up(s, broken.text);
    fl_vec_release(&came);
    fl_payload_free(payload);
    fl_pack_release(&p->payload);
    fl_free(p);
}

/* --- what is told --------------------------------------------------------- */

static void tell(fl_server *s, uint64_t round)
{
    fl_round_guests guests = { 0 };
    report *p;

    if (!s->upstream.link)
        return; /* a tick finds it open, or this server ends */
    p = fl_alloc(sizeof(*p));
    *p = (report){ .server = s,
                   .number = ++s->rounds.n_reports,
                   .round = round };
    for (uint32_t rank = 0; rank < n_trainers(s); rank++) {
        fl_round_seat *seat = &s->rounds.seats[rank];

        if (!sits_in(s, rank, round))
            continue;
        seat->report = p->number;
        fl_vec_push(&guests, ((fl_round_guest){ rank, seat->incarnation }));
    }
    fl_round_came_pack(&p->payload, round, &guests);
    fl_vec_release(&guests);
    p->piece = (struct iovec){ p->payload.data, p->payload.len };
    fl_rpc_client_call(s->upstream.link,
                       &(fl_rpc_call){ .type = FL_MSG_ROUND_CAME,
                                       .pieces = &p->piece,
                                       .n_pieces = 1,
                                       .on_reply = on_decided,
                                       .arg = p });
}

/* Of the first round nobody knows who comes: all. */
static bool are_all_back(const fl_server *s, uint64_t round)
{
    const fl_server_rounds *r = &s->rounds;
    size_t n = r->has_last ? r->came.len : n_trainers(s);

    if (r->n_seated < n)
        return false;
    for (size_t i = 0; i < n; i++)
        if (!sits_in(s, r->has_last ? r->came.data[i].rank : (uint32_t)i,
                     round))
            return false;
    return true;
}

void fl_server_tick_rounds(fl_server *s)
{
    for (uint32_t rank = 0; s->rounds.n_seated && rank < n_trainers(s); rank++)
        if (s->rounds.seats[rank].question && !s->rounds.seats[rank].report)
            tell(s, s->rounds.seats[rank].round);
}

/* --- who comes and goes --------------------------------------------------- */

static fl_status why_over(const fl_server *s)
{
    if (s->why.status)
        return fl_err_restore(&s->why);
    FL_FAIL(FL_ERR_CLOSED, "server %d has ended: the job is over", s->o.rank);
}

static fl_status check_guest(const fl_server *s, const fl_coord_asker *who)
{
    if (s->phase != FL_SERVER_SERVING)
        return why_over(s);
    if (who->rank >= n_trainers(s) || !who->incarnation)
        FL_FAIL(FL_ERR_INVAL,
                "trainer %" PRIu32 " comes to a round and has not joined",
                who->rank);
    return FL_OK;
}

/* Who sits there already asks again, or begins anew. */
static void sit_down(fl_server *s, const fl_coord_asker *who, uint64_t round)
{
    fl_round_seat *seat = &s->rounds.seats[who->rank], was = *seat;
    bool is_again = was.question && was.round == round &&
                    was.incarnation == who->incarnation;

    *seat = (fl_round_seat){ .question = who->question,
                             .incarnation = who->incarnation,
                             .round = round,
                             .report = is_again ? was.report : 0 };
    s->rounds.n_seated += !was.question;
    if (was.question)
        was.question->answer(was.question,
                             fl_err_set(FL_ERR_CLOSED,
                                        "trainer %" PRIu32
                                        " asked again for a round",
                                        who->rank),
                             NULL, 0);
}

void fl_server_come_to_round(fl_server *s, const fl_coord_asker *who,
                             uint64_t round)
{
    fl_barrier_question *q = who->question;
    const fl_server_rounds *r = &s->rounds;
    fl_status st = check_guest(s, who);

    if (st) {
        q->answer(q, st, NULL, 0);
        return;
    }
    if (r->has_last && round == r->last) {
        q->answer(q, FL_OK, r->came.data, r->came.len);
        return;
    }
    sit_down(s, who, round);
    if (!r->seats[who->rank].report && are_all_back(s, round))
        tell(s, round);
}

void fl_server_drop_rounds(fl_server *s)
{
    for (uint32_t rank = 0; s->rounds.n_seated && rank < n_trainers(s); rank++)
        if (s->rounds.seats[rank].question)
            refuse(s, rank, why_over(s));
}

void fl_server_rounds_init(fl_server *s)
{
    s->rounds.seats = fl_alloc(n_trainers(s) * sizeof(*s->rounds.seats));
}

void fl_server_rounds_release(fl_server *s)
{
    fl_vec_release(&s->rounds.came);
    fl_free(s->rounds.seats);
}
