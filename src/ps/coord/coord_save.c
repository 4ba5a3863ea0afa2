/* coord_save.c - saves of the whole job.
 *
 * A seat says how far a member has come, and of which save; the phase says what
 * it has to do next. So what to tell a member follows from both, whenever it has
 * a question open, and a repeated question gets the same answer.
 *
 * In mode sync a trainer stops before a round, and others may be in it already:
 *
 *     IDLE,     stopped by chance, or behind the round that it was told before
 *     READY     another was told a later one: it is let go, makes the round that
 *               others are in, and comes again
 *     CALLING   its program waits in a call that the cut ends: the round cannot
 *               end before, so that those who wait in it are at the cut (HELD)
 *
 * A trainer that waits at a cut is not left out of rounds: it waits at no
 * barrier.
 */
#include "ps/coord/coord_inside.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

typedef fl_coord_saves saves;

/* --- seats ---------------------------------------------------------------- */

static uint32_t n_servers(const fl_coord *c)
{
    return c->n_members - c->n_trainers;
}

static fl_save_seat *server_seat(const fl_coord *c, uint32_t rank)
{
    return &c->saves.seats[c->n_trainers + rank];
}

static bool is_live(const fl_coord *c, uint32_t rank)
{
    return c->members[rank].state == FL_MEMBER_HERE;
}

static bool is_gathering(const fl_coord *c)
{
    return c->saves.phase == FL_SAVES_GATHERING ||
           c->saves.phase == FL_SAVES_CUTTING;
}

/* At the cut, with nothing under way. Who is held is so while its round is. */
static bool is_ready(const fl_coord *c, uint32_t rank)
{
    const fl_save_seat *seat = &c->saves.seats[rank];

    if (seat->number != c->saves.number)
        return false;
    return seat->state == FL_CUT_READY || seat->state == FL_CUT_IDLE ||
           seat->state == FL_CUT_CALLING ||
           (seat->state == FL_CUT_HELD && fl_coord_waits_in_round(c, rank));
}

static bool server_is(const fl_coord *c, uint32_t rank, fl_save_state state)
{
    const fl_save_seat *seat = server_seat(c, rank);

    return seat->number == c->saves.number && seat->state == state;
}

static bool all_ready(const fl_coord *c)
{
    for (uint32_t rank = 0; rank < c->n_trainers; rank++)
        if (is_live(c, rank) && !is_ready(c, rank))
            return false;
    return true;
}

static bool all_servers_are(const fl_coord *c, fl_save_state state)
{
    for (uint32_t rank = 0; rank < n_servers(c); rank++)
        if (!server_is(c, rank, state))
            return false;
    return true;
}

static void release_part(fl_save_part *p)
{
    fl_data_free(p->bytes, (size_t)p->len);
    *p = (fl_save_part){ 0 };
}

/* Copies what came with a question; it may be empty. */
static fl_status take_part(fl_save_part *p, uint32_t rank, fl_msg_bytes from)
{
    release_part(p);
    p->rank = rank;
    if (!from.len)
        return FL_OK;
    p->bytes = fl_try_alloc((size_t)from.len);
    if (!p->bytes)
        FL_FAIL(FL_ERR_NOMEM,
                "no memory for the %" PRIu64 " bytes that a member brings to a "
                "save",
                from.len);
    memcpy(p->bytes, from.data, (size_t)from.len);
    p->len = from.len;
    return FL_OK;
}

/* --- parts ---------------------------------------------------------------- */

void fl_save_parts_free(fl_save_parts *p)
{
    if (!p)
        return;
    for (uint32_t i = 0; i < p->n_trainers; i++)
        release_part(&p->trainers[i]);
    for (uint32_t i = 0; i < p->n_servers; i++)
        release_part(&p->servers[i]);
    fl_free(p->trainers);
    fl_free(p->servers);
    fl_free(p);
}

/* Moves them out of the seats. Trainers that have gone since are among them. */
static fl_save_parts *collect_parts(const fl_coord *c)
{
    fl_save_parts *p = fl_alloc(sizeof(*p));

    p->trainers = fl_alloc(c->n_trainers * sizeof(*p->trainers));
    p->servers = fl_alloc(n_servers(c) * sizeof(*p->servers));
    for (uint32_t i = 0; i < c->n_members; i++) {
        fl_save_seat *seat = &c->saves.seats[i];
        bool trains = i < c->n_trainers;

        if (seat->number != c->saves.number || !seat->part.bytes)
            continue;
        if (trains)
            p->trainers[p->n_trainers++] = seat->part;
        else
            p->servers[p->n_servers++] = seat->part;
        seat->part = (fl_save_part){ 0 };
    }
    return p;
}

/* --- telling -------------------------------------------------------------- */

/* What is asked for begins with it, and has a NUL behind it. */
static const char *dir_of(const fl_coord *c)
{
    return c->saves.now.data[0].dir;
}

static uint32_t kind_of(const fl_coord *c)
{
    return c->saves.now.data[0].kind;
}

static void tell_trainer(fl_coord *c, uint32_t rank, fl_cut_order order,
                         uint64_t round)
{
    fl_save_seat *seat = &c->saves.seats[rank];
    void *question = seat->question;
    fl_cut_reply r = { .number = order == FL_CUT_GO_ON ? seat->number
                                                       : c->saves.number,
                       .order = (uint32_t)order,
                       .round = round };

    if (!question)
        return;
    seat->question = NULL;
    c->e.cut(c->arg, question, FL_OK, &r);
}

/* What is said at any time; not while it is on its way. */
static void settle_trainer(fl_coord *c, uint32_t rank)
{
    const fl_save_seat *seat = &c->saves.seats[rank];
    bool is_at_it = is_gathering(c) && seat->number == c->saves.number;

    if (!seat->question)
        return;
    if (seat->state == FL_CUT_WATCHING && is_gathering(c) && !is_at_it)
        tell_trainer(c, rank, FL_CUT_COME, fl_coord_next_round(c) + 1);
    else if (seat->state != FL_CUT_WATCHING && !is_at_it)
        tell_trainer(c, rank, FL_CUT_GO_ON, 0);
}

/* What a server has to do, 0: nothing now. */
static fl_save_order_kind order_for(const fl_coord *c, uint32_t rank)
{
    const fl_save_seat *seat = server_seat(c, rank);
    fl_save_phase phase = c->saves.phase;

    if (seat->state == FL_SAVE_IDLE)
        return phase == FL_SAVES_GATHERING &&
                       (!rank || server_is(c, 0, FL_SAVE_PREPARED))
                   ? FL_SAVE_PREPARE
                   : 0;
    if (phase == FL_SAVES_NONE || seat->number != c->saves.number)
        return FL_SAVE_END;
    if (phase == FL_SAVES_CUTTING && seat->state == FL_SAVE_PREPARED)
        return FL_SAVE_TAKE_CUT;
    return phase == FL_SAVES_COMMITTING && !rank &&
                   seat->state == FL_SAVE_WRITTEN
               ? FL_SAVE_COMMIT
               : 0;
}

static fl_save_work_reply work_of(const fl_coord *c, fl_save_order_kind order)
{
    fl_save_work_reply r = { .number = c->saves.number,
                             .step = c->saves.step,
                             .order = (uint32_t)order,
                             .keep = c->saves.now.data[0].keep,
                             .kind = kind_of(c),
                             .dir = { dir_of(c),
                                      c->saves.now.data[0].dir_len } };

    fl_msg_text(r.version, c->saves.version);
    fl_msg_text(r.base, c->saves.base);
    return r;
}

/* Another save may have begun since. */
static fl_save_work_reply end_of(const fl_coord *c, const fl_save_seat *seat)
{
    fl_save_work_reply r = { .number = seat->number, .order = FL_SAVE_END };

    r.has_cuts = seat->number == c->saves.cut_number;
    if (seat->number == c->saves.counts_number)
        fl_msg_text(r.version, c->saves.counts);
    return r;
}

static void settle_server(fl_coord *c, uint32_t rank)
{
    fl_save_seat *seat = server_seat(c, rank);
    fl_save_order_kind order = order_for(c, rank);
    void *question = seat->question;
    fl_save_work_reply r;

    if (!question || !order)
        return;
    seat->question = NULL;
    r = order == FL_SAVE_END ? end_of(c, seat) : work_of(c, order);
    c->e.save_work(c->arg, question, FL_OK, &r,
                   order == FL_SAVE_COMMIT ? collect_parts(c) : NULL);
}

static void settle(fl_coord *c)
{
    for (uint32_t rank = 0; rank < c->n_trainers; rank++)
        settle_trainer(c, rank);
    for (uint32_t rank = 0; rank < n_servers(c); rank++)
        settle_server(c, rank);
}

/* --- the end of a save ---------------------------------------------------- */

static void answer_wishes(fl_coord *c, const fl_err *why)
{
    fl_save_reply r = { .step = c->saves.step };

    fl_msg_text(r.version, c->saves.version);
    fl_msg_text(r.base, c->saves.base);
    fl_msg_text(r.whole, c->saves.whole);
    for (size_t i = 0; i < c->saves.now.len; i++) {
        const fl_save_wish *w = &c->saves.now.data[i];
        fl_status st = why->status ? fl_err_restore(why) : FL_OK;

        if (w->question)
            c->e.saved(c->arg, w->question, st, st ? NULL : &r);
        fl_free(w->dir);
    }
    c->saves.now.len = 0;
}

static void end_save(fl_coord *c, const fl_err *why)
{
    c->saves.phase = FL_SAVES_NONE;
    answer_wishes(c, why);
    for (uint32_t i = 0; i < c->n_members; i++)
        release_part(&c->saves.seats[i].part);
}

/* With this thread's last error. */
static void fail_save(fl_coord *c, fl_status st)
{
    fl_str line = { 0 };
    fl_err why;

    fl_err_save(&why, fl_err_ctx(st, "saving to %s", dir_of(c)));
    fl_str_addf(&line, "%s; the model that was there stays as it was",
                why.text);
    fl_coord_log_line(c, &line);
    end_save(c, &why);
}

static void finish_save(fl_coord *c, uint64_t now_ms)
{
    saves *s = &c->saves;
    fl_err good = { 0 };
    fl_str line = { 0 };

    fl_str_addf(&line,
                "saved %s/%s, as of step %" PRIu64 ", in %s; the cut took %s",
                dir_of(c), s->version, s->step,
                fl_text_of_ms(fl_coord_between(s->since_ms, now_ms)).s,
                fl_text_of_ms(s->cut_ms).s);
    if (*s->base)
        fl_str_addf(&line, "; it has what changed since %s", s->base);
    else if (*s->whole)
        fl_str_addf(&line, "; it is a whole one: %s", s->whole);
    fl_coord_log_line(c, &line);
    s->counts_number = s->number;
    fl_msg_text(s->counts, s->version);
    end_save(c, &good);
}

/* --- the way of a save ---------------------------------------------------- */

static bool is_like(const fl_save_wish *a, const fl_save_wish *b)
{
    return a->kind == b->kind && a->dir_len == b->dir_len &&
           !memcmp(a->dir, b->dir, a->dir_len);
}

/* All who want the same in the same directory are served by one. */
static bool begin_next(fl_coord *c, uint64_t now_ms)
{
    saves *s = &c->saves;
    size_t n = 0;

    if (!s->next.len || !c->is_complete)
        return false;
    for (size_t i = 0; i < s->next.len; i++) {
        fl_save_wish w = s->next.data[i];

        if (s->now.len && !is_like(&w, &s->now.data[0]))
            s->next.data[n++] = w;
        else
            fl_vec_push(&s->now, w);
    }
    s->next.len = n;
    s->number++;
    s->phase = FL_SAVES_GATHERING;
    s->since_ms = now_ms;
    s->log_ms = now_ms + FL_COORD_LOG_FIRST_MS;
    *s->version = *s->base = *s->whole = '\0';
    return true;
}

/* It is on its way again, and brings anew what it has: the round changes it. */
static void reopen(fl_coord *c, uint32_t rank, uint64_t round)
{
    tell_trainer(c, rank, FL_CUT_REOPEN, round);
    c->saves.seats[rank].state = FL_CUT_BUSY;
}

/* Those whom this round waits for are let go, when they can. */
static void resolve_round(fl_coord *c, uint32_t rank)
{
    const fl_barrier *b = fl_coord_waits_in_round(c, rank);
    uint32_t n_calling = 0, n_missing = 0;

    if (!b || c->saves.seats[rank].state != FL_CUT_BUSY)
        return;
    for (uint32_t i = 0; i < c->n_trainers; i++) {
        const fl_save_seat *seat = &c->saves.seats[i];

        if (!fl_coord_is_missing(c, b, i))
            continue;
        n_missing++;
        n_calling += is_ready(c, i) && seat->state == FL_CUT_CALLING;
        if (is_ready(c, i) &&
            (seat->state == FL_CUT_IDLE || seat->state == FL_CUT_READY))
            reopen(c, i, b->generation + 1);
    }
    if (n_missing && n_calling == n_missing)
        tell_trainer(c, rank, FL_CUT_HOLD, b->generation);
}

/* One of those that should be there has gone on: servers may have applied what
   it sent, or not. */
static fl_status check_stays(const fl_coord *c)
{
    for (uint32_t rank = 0; rank < c->n_trainers; rank++)
        if (is_live(c, rank) && !is_ready(c, rank))
            FL_FAIL(FL_ERR_CLOSED,
                    "trainer %" PRIu32 " came or went on while the servers "
                    "took their cuts",
                    rank);
    return FL_OK;
}

static bool advance_gathering(fl_coord *c, uint64_t now_ms)
{
    for (uint32_t rank = 0; rank < c->n_trainers; rank++)
        if (c->saves.seats[rank].number == c->saves.number)
            resolve_round(c, rank);
    if (!c->n_live || !all_ready(c) || !all_servers_are(c, FL_SAVE_PREPARED))
        return false;
    c->saves.phase = FL_SAVES_CUTTING;
    c->saves.cut_number = c->saves.number;
    c->saves.cut_ms = now_ms;
    c->saves.step = c->step;
    return true;
}

static bool advance_cutting(fl_coord *c, uint64_t now_ms)
{
    fl_status st = check_stays(c);

    if (st) {
        fail_save(c, st);
        return true;
    }
    for (uint32_t rank = 0; rank < n_servers(c); rank++)
        if (!server_is(c, rank, FL_SAVE_CUT) &&
            !server_is(c, rank, FL_SAVE_WRITTEN))
            return false;
    c->saves.phase = FL_SAVES_WRITING;
    c->saves.cut_ms = fl_coord_between(c->saves.cut_ms, now_ms);
    c->saves.log_ms = now_ms + FL_COORD_LOG_AGAIN_MS;
    return true;
}

/* Whether the phase has changed. */
static bool advance(fl_coord *c, uint64_t now_ms)
{
    switch (c->saves.phase) {
    case FL_SAVES_NONE:
        return begin_next(c, now_ms);
    case FL_SAVES_GATHERING:
        return advance_gathering(c, now_ms);
    case FL_SAVES_CUTTING:
        return advance_cutting(c, now_ms);
    case FL_SAVES_WRITING:
        if (!all_servers_are(c, FL_SAVE_WRITTEN))
            return false;
        c->saves.phase = FL_SAVES_COMMITTING;
        return true;
    case FL_SAVES_COMMITTING:
        if (!server_is(c, 0, FL_SAVE_COMMITTED))
            return false;
        finish_save(c, now_ms);
        return true;
    }
    return false;
}

void fl_coord_check_save(fl_coord *c, uint64_t now_ms)
{
    if (c->is_over)
        return;
    do
        settle(c);
    while (advance(c, now_ms));
}

/* --- questions ------------------------------------------------------------ */

static fl_save_wish wish_of(const fl_coord *c, const fl_save_wanted *wanted)
{
    uint32_t keep = wanted->keep;
    fl_save_wish w = { .dir_len = (size_t)wanted->dir.len,
                       .kind = wanted->kind };

    w.dir = fl_alloc(w.dir_len + 1);
    memcpy(w.dir, wanted->dir.data, w.dir_len);
    w.keep = keep ? keep : c->o.save_keep ? c->o.save_keep : 1;
    return w;
}

void fl_coord_save(fl_coord *c, void *question, const fl_save_wanted *wanted,
                   uint64_t now_ms)
{
    const saves *s = &c->saves;
    fl_save_wish w;

    if (c->is_over) {
        if (question)
            c->e.saved(c->arg, question, fl_coord_fail_over(c), NULL);
        return;
    }
    w = wish_of(c, wanted);
    w.question = question;
    if (s->phase == FL_SAVES_GATHERING && s->now.len &&
        is_like(&w, &s->now.data[0]))
        fl_vec_push(&c->saves.now, w);
    else
        fl_vec_push(&c->saves.next, w);
    fl_coord_check_save(c, now_ms);
}

static fl_status check_cut(const fl_coord *c, const fl_coord_asker *who,
                           const fl_cut_request *q)
{
    FL_TRY(fl_coord_check_asker(c, who->rank, who->incarnation, "a cut"));
    if (q->state > FL_CUT_FAILED || q->number > c->saves.number)
        FL_FAIL(FL_ERR_INVAL,
                "trainer %" PRIu32 " is at cut %" PRIu64 " in state %" PRIu32
                ", which there is not",
                who->rank, q->number, q->state);
    return FL_OK;
}

/* "..., because ...", of a member that could not do its part. */
static fl_status fail_member(const fl_coord_member *m, fl_msg_bytes why)
{
    FL_FAIL(FL_ERR_IO, "%s: %.*s", fl_text_of_rank(m).s,
            (int)(why.len < 1024 ? why.len : 1024), (const char *)why.data);
}

void fl_coord_cut(fl_coord *c, const fl_coord_asker *who,
                  const fl_cut_request *q)
{
    fl_status st = check_cut(c, who, q);
    fl_save_seat *seat = st ? NULL : &c->saves.seats[who->rank];
    bool brings = q->state >= FL_CUT_READY && q->state <= FL_CUT_HELD;

    if (!st && brings && is_gathering(c) && q->number == c->saves.number)
        st = take_part(&seat->part, who->rank, q->bytes);
    if (st) {
        c->e.cut(c->arg, who->question, st, NULL);
        return;
    }
    if (seat->question)
        c->e.cut(c->arg, seat->question,
                 fl_err_set(FL_ERR_CLOSED,
                            "trainer %" PRIu32 " has come further", who->rank),
                 NULL);
    c->members[who->rank].uses_incarnation = true;
    seat->question = who->question;
    seat->state = q->state;
    seat->number = q->number;
    if (q->state == FL_CUT_FAILED && is_gathering(c) &&
        q->number == c->saves.number)
        fail_save(c, fail_member(&c->members[who->rank], q->bytes));
    fl_coord_check_save(c, who->now_ms);
}

static fl_status check_work(const fl_coord *c, const fl_coord_asker *who,
                            const fl_save_work_request *q)
{
    if (c->is_over)
        return fl_coord_fail_over(c);
    if (who->rank >= n_servers(c) || q->state > FL_SAVE_FAILED ||
        q->number > c->saves.number)
        FL_FAIL(FL_ERR_INVAL,
                "server %" PRIu32 " is at save %" PRIu64 " in state %" PRIu32
                ", which there is not",
                who->rank, q->number, q->state);
    return FL_OK;
}

/* The version that server 0 has begun, and what it would change. */
static void take_version(fl_coord *c, const fl_save_work_request *q)
{
    (void)snprintf(c->saves.version, sizeof(c->saves.version), "%.*s",
                   (int)q->bytes.len, (const char *)q->bytes.data);
    fl_msg_text(c->saves.base, q->base);
}

/* One that does not know what changed makes the save a whole one. */
static void take_prepared(fl_coord *c, uint32_t rank,
                          const fl_save_work_request *q)
{
    const fl_coord_member *m = &c->members[c->n_trainers + rank];
    fl_str why = { 0 };

    if (!rank)
        take_version(c, q);
    if (*q->whole && !*c->saves.whole) {
        fl_str_addf(&why, "%s: %s", fl_text_of_rank(m).s, q->whole);
        fl_msg_text(c->saves.whole, fl_str_text(&why));
        fl_str_release(&why);
    }
    if (*c->saves.whole)
        *c->saves.base = '\0';
}

static bool is_at_work(const fl_coord *c, const fl_save_work_request *q)
{
    return c->saves.phase != FL_SAVES_NONE && q->number == c->saves.number;
}

static void note_work(fl_coord *c, const fl_coord_asker *who,
                      const fl_save_work_request *q)
{
    fl_save_seat *seat = server_seat(c, who->rank);

    seat->question = who->question;
    seat->state = q->state;
    seat->number = q->number;
    if (!is_at_work(c, q))
        return;
    if (q->state == FL_SAVE_PREPARED)
        take_prepared(c, who->rank, q);
    if (q->state == FL_SAVE_FAILED)
        fail_save(
            c, fail_member(&c->members[c->n_trainers + who->rank], q->bytes));
}

void fl_coord_save_work(fl_coord *c, const fl_coord_asker *server,
                        const fl_save_work_request *q)
{
    fl_status st = check_work(c, server, q);
    fl_save_seat *seat = st ? NULL : server_seat(c, server->rank);

    if (!st && q->state == FL_SAVE_WRITTEN && is_at_work(c, q))
        st = take_part(&seat->part, server->rank, q->bytes);
    if (st) {
        c->e.save_work(c->arg, server->question, st, NULL, NULL);
        return;
    }
    if (seat->question && seat->question != server->question)
        c->e.save_work(c->arg, seat->question,
                       fl_err_set(FL_ERR_CLOSED,
                                  "server %" PRIu32 " has come further",
                                  server->rank),
                       NULL, NULL);
    note_work(c, server, q);
    fl_coord_check_save(c, server->now_ms);
}

/* --- members that go ------------------------------------------------------ */

void fl_coord_withdraw_save(fl_coord *c, uint32_t rank, fl_status st)
{
    fl_save_seat *seat = &c->saves.seats[rank];
    void *question = seat->question;

    seat->question = NULL;
    if (is_gathering(c)) { /* behind the cut, what it brought is a part of it */
        release_part(&seat->part);
        seat->state = FL_CUT_WATCHING;
        seat->number = 0;
    }
    if (question)
        c->e.cut(c->arg, question, st, NULL);
}

static void drop_questions(fl_coord *c, const fl_err *why)
{
    for (uint32_t i = 0; i < c->n_members; i++) {
        fl_save_seat *seat = &c->saves.seats[i];
        void *question = seat->question;

        seat->question = NULL;
        if (question && i < c->n_trainers)
            c->e.cut(c->arg, question, fl_err_restore(why), NULL);
        else if (question)
            c->e.save_work(c->arg, question, fl_err_restore(why), NULL, NULL);
    }
}

/* The one under way, and all who wait for another. */
void fl_coord_drop_saves(fl_coord *c, fl_status st)
{
    saves *s = &c->saves;
    fl_err why;

    fl_err_save(&why, st);
    if (s->phase != FL_SAVES_NONE)
        fail_save(c, st);
    for (size_t i = 0; i < s->next.len; i++)
        fl_vec_push(&s->now, s->next.data[i]);
    s->next.len = 0;
    end_save(c, &why);
    drop_questions(c, &why);
}

/* --- time ----------------------------------------------------------------- */

static void add_name(fl_str *s, const fl_coord_member *m, const char *what)
{
    fl_str_addf(s, "%s%s (%s)", s->len ? ", " : "", fl_text_of_rank(m).s, what);
}

/* "trainer 1 (a batch is under way), server 2 (writes)". */
static void add_late(fl_str *s, const fl_coord *c)
{
    for (uint32_t i = 0; i < c->n_trainers && is_gathering(c); i++)
        if (is_live(c, i) && !is_ready(c, i))
            add_name(s, &c->members[i],
                     c->saves.seats[i].state == FL_CUT_BUSY &&
                             c->saves.seats[i].number == c->saves.number
                         ? "a batch is under way"
                         : "has not heard of it, or does not train");
    for (uint32_t i = 0; i < n_servers(c); i++) {
        fl_save_state want =
            c->saves.phase == FL_SAVES_GATHERING ? FL_SAVE_PREPARED
            : c->saves.phase == FL_SAVES_CUTTING ? FL_SAVE_CUT
                                                 : FL_SAVE_WRITTEN;

        if (!server_is(c, i, want))
            add_name(s, &c->members[c->n_trainers + i],
                     want == FL_SAVE_WRITTEN ? "writes" : "is not ready");
    }
}

static void tick_phase(fl_coord *c, uint64_t now_ms)
{
    uint64_t age_ms = fl_coord_between(c->saves.since_ms, now_ms);
    fl_str who = { 0 }, line = { 0 };

    add_late(&who, c);
    if (is_gathering(c) && age_ms >= c->o.save_timeout_ms) {
        fl_status st = fl_err_set(
            FL_ERR_TIMEOUT,
            "not all have come to the cut within %s, missing: %s; raise "
            "save_timeout_ms if they only need more time",
            fl_text_of_ms(c->o.save_timeout_ms).s, fl_str_text(&who));

        fail_save(c, st);
    } else if (fl_coord_is_due(&c->saves.log_ms, now_ms)) {
        fl_str_addf(&line, "saving to %s since %s, waiting for %s", dir_of(c),
                    fl_text_of_ms(age_ms).s, fl_str_text(&who));
        fl_coord_log_line(c, &line);
    }
    fl_str_release(&who);
}

static bool has_passed(uint64_t every, uint64_t last, uint64_t now)
{
    return every && now - last >= every;
}

/* A model that was loaded has steps already. */
static void begin_clocks(fl_coord *c, uint64_t now_ms)
{
    if (c->saves.has_begun)
        return;
    c->saves.has_begun = true;
    c->saves.last_ms = c->saves.delta_ms = now_ms;
    c->saves.last_step = c->step;
}

/* A whole save, else a delta, which comes so long after either. */
static bool is_due(fl_coord *c, uint64_t now_ms, fl_save_kind *kind)
{
    const fl_coord_options *o = &c->o;
    saves *s = &c->saves;

    if (!o->save_dir || !*o->save_dir || !c->n_live || s->next.len)
        return false;
    begin_clocks(c, now_ms);
    *kind = FL_SAVE_KIND_FULL;
    if (has_passed(o->save_every_ms, s->last_ms, now_ms) ||
        has_passed(o->save_every_steps, s->last_step, c->step)) {
        s->last_ms = now_ms;
        s->last_step = c->step;
    } else if (has_passed(o->save_delta_every_ms, s->delta_ms, now_ms)) {
        *kind = FL_SAVE_KIND_DELTA;
    } else {
        return false;
    }
    s->delta_ms = now_ms;
    return true;
}

void fl_coord_tick_save(fl_coord *c, uint64_t now_ms)
{
    fl_save_wanted wanted = { 0 };
    fl_save_kind kind;

    if (c->saves.phase != FL_SAVES_NONE) {
        tick_phase(c, now_ms);
    } else if (is_due(c, now_ms, &kind)) {
        wanted.dir = (fl_msg_bytes){ c->o.save_dir, strlen(c->o.save_dir) };
        wanted.kind = (uint32_t)kind;
        fl_coord_save(c, NULL, &wanted, now_ms);
    }
    fl_coord_check_save(c, now_ms);
}

void fl_coord_release_saves(fl_coord *c)
{
    saves *s = &c->saves;

    for (size_t i = 0; i < s->now.len; i++)
        fl_free(s->now.data[i].dir);
    for (size_t i = 0; i < s->next.len; i++)
        fl_free(s->next.data[i].dir);
    fl_vec_release(&s->now);
    fl_vec_release(&s->next);
    for (uint32_t i = 0; i < c->n_members; i++)
        release_part(&s->seats[i].part);
    fl_free(s->seats);
}
