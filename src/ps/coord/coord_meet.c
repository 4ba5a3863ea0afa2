/* coord_meet.c - rounds to which trainers come on every server.
 *
 * Trainers send their gradients and ROUND to all servers at once. Those that come
 * to server 0 wait at a barrier, as at any other; each of the other servers tells
 * who has come to it and waits for the answer at the same barrier. It counts a
 * trainer when all servers have it: what is decided here can be applied
 * everywhere.
 *
 * What a server has it has of an incarnation, and keeps it until the round is
 * over. So a trainer that is lost and returns need not come there again, and one
 * that begins anew has to.
 */
#include "ps/coord/coord_inside.h"

#include <inttypes.h>

#include "base/alloc.h"

static uint32_t n_others(const fl_coord *c)
{
    return c->n_members - c->n_trainers - 1;
}

void fl_meet_init(fl_meet *m, const fl_coord *c)
{
    size_t n = n_others(c);

    *m = (fl_meet){ 0 };
    if (!n)
        return;
    m->questions = fl_alloc(n * sizeof(*m->questions));
    m->has = fl_alloc(n * c->n_trainers * sizeof(*m->has));
}

void fl_meet_release(fl_meet *m)
{
    fl_free(m->questions);
    fl_free(m->has);
}

bool fl_meet_is_told(const fl_coord *c, const fl_barrier *b)
{
    return b->kind != FL_BARRIER_MEET || b->meeting.n_asked == n_others(c);
}

uint32_t fl_meet_lacks(const fl_coord *c, const fl_barrier *b, uint32_t rank)
{
    uint32_t incarnation = c->members[rank].incarnation;

    if (b->kind != FL_BARRIER_MEET)
        return 0;
    for (uint32_t i = 0; i < n_others(c); i++)
        if (b->meeting.has[i * c->n_trainers + rank] != incarnation)
            return i + 1;
    return 0;
}

void fl_meet_answer(const fl_coord *c, const fl_barrier *b, fl_status st,
                    const fl_came_list *came)
{
    fl_err why;

    fl_err_save(&why, st);
    for (uint32_t i = 0; b->meeting.n_asked && i < n_others(c); i++) {
        void *question = b->meeting.questions[i];

        if (question && st)
            c->e.answer(c->arg, question, fl_err_restore(&why), NULL, 0);
        else if (question)
            c->e.answer(c->arg, question, FL_OK, came->data, came->len);
    }
}

/* --- questions ------------------------------------------------------------ */

void fl_coord_meet(fl_coord *c, const fl_coord_asker *who, uint64_t round,
                   uint64_t share)
{
    fl_barrier_id id = { FL_BARRIER_MEET, FL_ROUND_BARRIER, round };
    fl_asked asked = { .share = share };

    fl_coord_enter_barrier(c, who, &id, &asked);
}

static fl_status check_guests(const fl_coord *c, const fl_coord_asker *who,
                              const fl_round_guests *guests)
{
    if (c->is_over)
        return fl_coord_fail_over(c);
    if (!who->rank || who->rank > n_others(c))
        FL_FAIL(FL_ERR_INVAL,
                "server %" PRIu32 " tells who came to a round: servers from 1 "
                "to %" PRIu32 " do",
                who->rank, n_others(c));
    for (size_t i = 0; i < guests->len; i++)
        if (guests->data[i].rank >= c->n_trainers)
            FL_FAIL(FL_ERR_INVAL,
                    "server %" PRIu32 " says that trainer %" PRIu32
                    " came to a round, and the job has %" PRIu32,
                    who->rank, guests->data[i].rank, c->n_trainers);
    return FL_OK;
}

static void keep_guests(const fl_coord *c, const fl_coord_asker *who,
                        fl_meet *m, const fl_round_guests *guests)
{
    void **seat = &m->questions[who->rank - 1], *was = *seat;

    for (size_t i = 0; i < guests->len; i++)
        m->has[(who->rank - 1) * c->n_trainers + guests->data[i].rank] =
            guests->data[i].incarnation;
    *seat = who->question;
    m->n_asked += !was;
    if (was)
        c->e.answer(c->arg, was,
                    fl_err_set(FL_ERR_CLOSED,
                               "server %" PRIu32 " told again who came",
                               who->rank),
                    NULL, 0);
}

void fl_coord_round_came(fl_coord *c, const fl_coord_asker *who, uint64_t round,
                         const fl_round_guests *guests)
{
    fl_barrier_id id = { FL_BARRIER_MEET, FL_ROUND_BARRIER, round };
    fl_status st = check_guests(c, who, guests);
    fl_barrier *b;

    if (!st)
        st = fl_coord_check_room(c, &id);
    if (st) {
        c->e.answer(c->arg, who->question, st, NULL, 0);
        return;
    }
    b = fl_coord_reach_barrier(c, who, &id);
    if (!b)
        return;
    keep_guests(c, who, &b->meeting, guests);
    fl_coord_check_came(c, who->now_ms);
}
