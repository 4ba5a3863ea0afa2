/* coord.c - who is in the job: joining, leaving, getting lost and coming back.
 *
 *              join                  leave
 *     ABSENT --------> HERE ---------------------> LEFT
 *                      ^  |  away for
 *          up or join  |  |  restart_timeout_ms
 *                      |  v
 *                      LOST        (or the job ends, by policy)
 *
 * Being down or silent is no state of its own: such a member is HERE, and
 * barriers wait for it, until its time is up. Both count from the moment it was
 * last heard of, and one after the other count together.
 *
 * Incarnations tell the processes of one rank apart. A process id alone cannot:
 * two containers both have a process 1. Hence a process is known again by the
 * incarnation that it carries. One without (its answer was lost, or it has just
 * started) keeps the given one only while nothing was ever done under it;
 * servers would else take the first pushes of a restarted trainer for repeated
 * ones of its forerunner, and drop them.
 *
 * Callbacks come last in every function, when the state is consistent.
 */
#include "ps/coord/coord_inside.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#define RATE_MS_MIN 1000  /* rates over less time than this jump about */
#define RATE_MS_FIRST 100 /* but are better than none */

/* --- small things -------------------------------------------------------- */

static fl_coord_member *find_member(const fl_coord *c, fl_member_role role,
                                    uint32_t rank)
{
    if (role == FL_MEMBER_TRAINER && rank < c->n_trainers)
        return &c->members[rank];
    if (role == FL_MEMBER_SERVER && rank < c->n_members - c->n_trainers)
        return &c->members[c->n_trainers + rank];
    return NULL;
}

static bool is_trainer(const fl_coord_member *m)
{
    return m->id.role == FL_MEMBER_TRAINER;
}

/* The coordinator lives in it: nobody has to tell that it is there. */
static bool is_server_0(const fl_coord_member *m)
{
    return m->id.role == FL_MEMBER_SERVER && m->id.rank == 0;
}

static bool is_away(const fl_coord_member *m)
{
    return m->is_down || m->is_silent;
}

bool fl_coord_is_due(uint64_t *log_ms, uint64_t now_ms)
{
    if (now_ms < *log_ms)
        return false;
    while (*log_ms <= now_ms)
        *log_ms += FL_COORD_LOG_AGAIN_MS;
    return true;
}

void fl_coord_log_line(fl_coord *c, fl_str *line)
{
    c->e.log_line(c->arg, fl_str_text(line));
    fl_str_release(line);
}

/* --- the end ------------------------------------------------------------- */

fl_status fl_coord_fail_over(const fl_coord *c)
{
    if (c->why.status)
        FL_FAIL(FL_ERR_CLOSED, "the job is over: %s", c->why.text);
    FL_FAIL(FL_ERR_CLOSED, "the job is over: its trainers are done");
}

/* With this thread's last error. */
static void end_job(fl_coord *c, fl_status why)
{
    fl_err_save(&c->why, why);
    c->is_over = true;
    c->epoch++;
    fl_coord_drop_barriers(c, why ? why : fl_coord_fail_over(c));
    fl_coord_drop_work(c,
                       why ? fl_err_restore(&c->why) : fl_coord_fail_over(c));
    fl_coord_drop_saves(c,
                        why ? fl_err_restore(&c->why) : fl_coord_fail_over(c));
    (void)fl_err_restore(&c->why);
    c->e.over(c->arg, why);
}

void fl_coord_end(fl_coord *c, fl_status why)
{
    FL_ASSERT(why);
    if (!c->is_over)
        end_job(c, why);
}

/* Answers all of a trainer's questions with this thread's last error, and gives
   its work to others. */
static void withdraw(fl_coord *c, uint32_t rank)
{
    fl_err why;

    fl_err_save(&why, FL_ERR_CLOSED);
    fl_coord_withdraw(c, rank, FL_ERR_CLOSED);
    (void)fl_err_restore(&why);
    fl_coord_withdraw_work(c, rank, FL_ERR_CLOSED);
    (void)fl_err_restore(&why);
    fl_coord_withdraw_save(c, rank, FL_ERR_CLOSED);
}

static uint32_t count_trainers(const fl_coord *c, fl_member_state state)
{
    uint32_t n = 0;

    for (uint32_t i = 0; i < c->n_trainers; i++)
        n += c->members[i].state == state;
    return n;
}

/* The job is over when its last trainer goes. */
static void check_trainers(fl_coord *c, uint64_t now_ms)
{
    uint64_t age_ms = fl_coord_between(c->start_ms, now_ms);
    uint32_t n_lost = count_trainers(c, FL_MEMBER_LOST);
    uint32_t n_left = count_trainers(c, FL_MEMBER_LEFT);
    fl_str line = { 0 };

    if (c->is_over || n_lost + n_left < c->n_trainers)
        return;
    if (!n_left) {
        fl_err_set(FL_ERR_CLOSED,
                   "every trainer of the job (%" PRIu32
                   ") is lost: see why they ended, and start the job again",
                   n_lost);
        end_job(c, FL_ERR_CLOSED);
        return;
    }
    if (n_lost)
        fl_str_addf(&line,
                    "%" PRIu32 " of %" PRIu32 " trainers %s done and %" PRIu32
                    " %s lost",
                    n_left, c->n_trainers, n_left == 1 ? "is" : "are", n_lost,
                    n_lost == 1 ? "is" : "are");
    else if (n_left == 1)
        fl_str_add(&line, "the only trainer is done");
    else
        fl_str_addf(&line, "all %" PRIu32 " trainers are done", n_left);
    fl_str_addf(&line, "; the job is over after %s, at step %" PRIu64,
                fl_text_of_ms(age_ms).s, c->step);
    fl_coord_log_line(c, &line);
    end_job(c, FL_OK);
}

/* --- being away and coming back ------------------------------------------ */

/* A worker is two members of the job: what people were told of one of them they
   are not told of the other. Releases the line. */
static void tell_of(fl_coord *c, const fl_coord_member *m, fl_str *line)
{
    const fl_coord_member *other = find_member(
        c, is_trainer(m) ? FL_MEMBER_SERVER : FL_MEMBER_TRAINER, m->id.rank);

    if (c->o.are_workers && other && is_away(other) &&
        other->is_down >= m->is_down)
        fl_str_release(line);
    else
        fl_coord_log_line(c, line);
}

static void add_step(fl_str *s, const fl_coord_member *m)
{
    if (is_trainer(m))
        fl_str_addf(s, ", last seen at step %" PRIu64, m->step);
}

/* What happens when somebody is away, now and later. */
static void add_what_now(fl_str *s, const fl_coord *c, const fl_coord_member *m,
                         uint64_t now_ms)
{
    uint64_t away_ms = fl_coord_between(m->away_ms, now_ms);
    const char *then = is_trainer(m) && c->o.go_on_without
                           ? "going on without it"
                           : "the job ends";

    if (away_ms < c->o.restart_timeout_ms)
        fl_str_addf(s, "; waiting up to %s for its return, then %s",
                    fl_text_of_ms(c->o.restart_timeout_ms - away_ms).s, then);
    else
        fl_str_addf(s, "; %s", then);
}

static void add_not_back(fl_str *s, const fl_coord *c, const fl_coord_member *m)
{
    fl_text_add_member(s, m);
    if (c->o.restart_timeout_ms)
        fl_str_addf(s, " did not come back within %s",
                    fl_text_of_ms(c->o.restart_timeout_ms).s);
    else
        fl_str_add(s, " is lost");
    add_step(s, m);
}

static void end_without(fl_coord *c, const fl_coord_member *m)
{
    fl_str who = { 0 };

    add_not_back(&who, c, m);
    fl_err_set(FL_ERR_CLOSED,
               "%s, and the job cannot go on without %s: start the job again, "
               "or raise restart_timeout_ms if it only needs more time",
               fl_str_text(&who),
               is_trainer(m) ? "it" : "the rows that it held");
    fl_str_release(&who);
    end_job(c, FL_ERR_CLOSED);
}

static void go_on_without(fl_coord *c, fl_coord_member *m, uint64_t now_ms)
{
    fl_str line = { 0 };

    m->state = FL_MEMBER_LOST;
    c->n_live--;
    c->epoch++;
    add_not_back(&line, c, m);
    fl_str_add(&line, "; going on without it, and what it had not trained yet "
                      "stays untrained");
    if (m->progress.is_known)
        fl_str_addf(&line, " (it reported %" PRIu64 " samples)",
                    m->progress.samples);
    fl_coord_log_line(c, &line);
    fl_err_set(FL_ERR_CLOSED,
               "trainer %" PRIu32 " was away for too long, and the job goes on "
               "without it",
               m->id.rank);
    withdraw(c, m->id.rank);
    fl_coord_check_barriers(c);
    fl_coord_check_save(c, now_ms);
    check_trainers(c, now_ms);
}

static void lose_if_late(fl_coord *c, fl_coord_member *m, uint64_t now_ms)
{
    if (m->state != FL_MEMBER_HERE || !is_away(m) ||
        fl_coord_between(m->away_ms, now_ms) < c->o.restart_timeout_ms)
        return;
    if (is_trainer(m) && c->o.go_on_without)
        go_on_without(c, m, now_ms);
    else
        end_without(c, m);
}

/* It is heard of again: says so when that is news. */
static void come_back(fl_coord *c, fl_coord_member *m, uint64_t now_ms)
{
    bool was_lost = m->state == FL_MEMBER_LOST;
    fl_str line = { 0 };

    if (!was_lost && !is_away(m))
        return;
    fl_text_add_member(&line, m);
    fl_str_addf(&line, " is back after %s",
                fl_text_of_ms(fl_coord_between(m->away_ms, now_ms)).s);
    if (was_lost) {
        fl_str_add(&line, " and counts again");
        m->state = FL_MEMBER_HERE;
        c->n_live++;
    }
    m->is_down = m->is_silent = false;
    c->epoch++;
    tell_of(c, m, &line);
}

/* Whose connection and silence matter. */
static fl_coord_member *find_watched(const fl_coord *c, fl_member_role role,
                                     uint32_t rank)
{
    fl_coord_member *m = find_member(c, role, rank);

    if (c->is_over || !m || is_server_0(m) || m->state == FL_MEMBER_ABSENT ||
        m->state == FL_MEMBER_LEFT)
        return NULL;
    return m;
}

void fl_coord_down(fl_coord *c, fl_member_role role, uint32_t rank,
                   const char *why, uint64_t now_ms)
{
    fl_coord_member *m = find_watched(c, role, rank);
    fl_str line = { 0 };

    if (!m || m->state == FL_MEMBER_LOST || m->is_down)
        return;
    fl_text_add_member(&line, m);
    fl_str_add(&line, " is down");
    if (why && *why)
        fl_str_addf(&line, " (%s)", why);
    if (m->is_silent)
        fl_str_addf(&line, " after %s of silence",
                    fl_text_of_ms(fl_coord_between(m->away_ms, now_ms)).s);
    else
        m->away_ms = now_ms;
    m->is_down = true;
    c->epoch++;
    add_step(&line, m);
    add_what_now(&line, c, m, now_ms);
    tell_of(c, m, &line);
    lose_if_late(c, m, now_ms);
}

void fl_coord_up(fl_coord *c, fl_member_role role, uint32_t rank,
                 uint64_t now_ms)
{
    fl_coord_member *m = find_watched(c, role, rank);

    if (m)
        come_back(c, m, now_ms);
}

static void fall_silent(fl_coord *c, fl_coord_member *m, uint64_t heard_ms_ago,
                        uint64_t now_ms)
{
    fl_str line = { 0 };

    m->is_silent = true;
    m->away_ms = fl_coord_between(heard_ms_ago, now_ms);
    c->epoch++;
    fl_text_add_member(&line, m);
    fl_str_addf(&line, " has been silent for %s",
                fl_text_of_ms(heard_ms_ago).s);
    add_step(&line, m);
    add_what_now(&line, c, m, now_ms);
    tell_of(c, m, &line);
    lose_if_late(c, m, now_ms);
}

/* A sign of life, or its lack; the member when that is news. Who is down or lost
   is silent anyway; a new connection ends that. */
static fl_coord_member *take_sign(fl_coord *c, fl_member_role role,
                                  uint32_t rank, uint64_t step, bool is_silent)
{
    fl_coord_member *m = find_watched(c, role, rank);

    if (m && step > m->step)
        m->step = step;
    return m && m->state != FL_MEMBER_LOST && !m->is_down &&
                   is_silent != m->is_silent
               ? m
               : NULL;
}

void fl_coord_silent(fl_coord *c, fl_member_role role, uint32_t rank,
                     uint64_t heard_ms_ago, uint64_t step, uint64_t now_ms)
{
    fl_coord_member *m = take_sign(c, role, rank, step, true);

    if (m)
        fall_silent(c, m, heard_ms_ago, now_ms);
}

void fl_coord_heard(fl_coord *c, fl_member_role role, uint32_t rank,
                    uint64_t step, uint64_t now_ms)
{
    fl_coord_member *m = take_sign(c, role, rank, step, false);

    if (m)
        come_back(c, m, now_ms);
}

/* --- joining and leaving ------------------------------------------------- */

static bool is_same_host(const char *a, const char *b)
{
    const char *a_port = strrchr(a, ':'), *b_port = strrchr(b, ':');

    if (!a_port || !b_port)
        return strcmp(a, b) == 0;
    return a_port - a == b_port - b && memcmp(a, b, (size_t)(a_port - a)) == 0;
}

/* Whether this is the process that joined before; see the top of the file. */
static bool is_same_process(const fl_coord_member *m, const fl_identity *who,
                            const char *peer)
{
    if (who->process != m->id.process)
        return false;
    if (!is_trainer(m))
        return who->boot_id == m->id.boot_id;
    if (who->incarnation)
        return who->incarnation == m->incarnation;
    return !m->uses_incarnation && m->state != FL_MEMBER_LEFT &&
           is_same_host(m->peer, peer);
}

static void take_identity(fl_coord_member *m, const fl_identity *who,
                          const char *peer)
{
    m->id = *who;
    (void)snprintf(m->peer, sizeof(m->peer), "%s", peer);
}

static void check_complete(fl_coord *c, uint64_t now_ms)
{
    fl_str line = { 0 };

    if (c->is_complete || c->n_joined < c->n_members)
        return;
    c->is_complete = true;
    fl_str_addf(&line, "all %" PRIu32 " %s are here after %s",
                c->o.are_workers ? c->n_trainers : c->n_members,
                c->o.are_workers ? "workers" : "members",
                fl_text_of_ms(fl_coord_between(c->start_ms, now_ms)).s);
    fl_coord_log_line(c, &line);
    /* Who came early has not waited for other trainers at the barrier, but for
       the rendezvous, and that was told already. */
    for (size_t i = 0; i < c->open.len; i++)
        c->open.data[i]->log_ms = now_ms + FL_COORD_LOG_FIRST_MS;
    fl_coord_check_barriers(c);
}

static void join_first(fl_coord *c, fl_coord_member *m, const fl_identity *who,
                       const char *peer, uint64_t now_ms)
{
    take_identity(m, who, peer);
    m->state = FL_MEMBER_HERE;
    m->incarnation = 1;
    m->step = c->step;
    c->n_joined++;
    c->n_live += is_trainer(m);
    c->epoch++;
    check_complete(c, now_ms);
}

static void join_again(fl_coord *c, fl_coord_member *m, const fl_identity *who,
                       const char *peer, uint64_t now_ms)
{
    take_identity(m, who, peer);
    m->uses_incarnation |= who->incarnation != 0;
    if (m->state != FL_MEMBER_LEFT)
        come_back(c, m, now_ms);
}

/* Another process takes the rank over from one that is gone. */
static void join_instead(fl_coord *c, fl_coord_member *m,
                         const fl_identity *who, const char *peer,
                         uint64_t now_ms)
{
    bool was_away = is_away(m);
    fl_str line = { 0 };

    if (is_trainer(m) && m->state != FL_MEMBER_HERE)
        c->n_live++;
    take_identity(m, who, peer);
    m->state = FL_MEMBER_HERE;
    m->incarnation++;
    m->is_down = m->is_silent = m->uses_incarnation = false;
    m->progress = (fl_member_progress){ 0 };
    c->epoch++;
    fl_str_addf(&line, "%s is back as incarnation %" PRIu32 ": ",
                fl_text_of_rank(m).s, m->incarnation);
    if (*m->peer)
        fl_str_addf(&line, "%s, ", m->peer);
    fl_str_addf(&line, "process %" PRIu32, m->id.process);
    if (was_away)
        fl_str_addf(&line, ", after %s",
                    fl_text_of_ms(fl_coord_between(m->away_ms, now_ms)).s);
    fl_coord_log_line(c, &line);
    if (!is_trainer(m))
        return;
    fl_err_set(FL_ERR_CLOSED,
               "trainer %" PRIu32 " was replaced by process %" PRIu32
               " as incarnation %" PRIu32,
               m->id.rank, m->id.process, m->incarnation);
    withdraw(c, m->id.rank);
}

static fl_status refuse_rank(const fl_coord *c, const fl_identity *who)
{
    const char *role = fl_member_role_name(who->role);
    uint32_t n = who->role == FL_MEMBER_TRAINER ? c->n_trainers
                                                : c->n_members - c->n_trainers;

    if (who->role != FL_MEMBER_TRAINER && who->role != FL_MEMBER_SERVER)
        FL_FAIL(FL_ERR_INVAL,
                "a %s cannot join: only servers and trainers are members",
                role);
    FL_FAIL(FL_ERR_INVAL,
            "%s %" PRIu32 " cannot join: the job has %" PRIu32
            " %s%s, with ranks from 0 to %" PRIu32
            "; give all members the same list of servers and number of "
            "trainers",
            role, who->rank, n, role, n == 1 ? "" : "s", n - 1);
}

/* An incarnation that is not the last one given will not become it again. */
static fl_status check_incarnation(const fl_coord_member *m,
                                   const fl_identity *who)
{
    if (!is_trainer(m) || !who->incarnation ||
        who->incarnation == m->incarnation)
        return FL_OK;
    if (who->incarnation < m->incarnation)
        FL_FAIL(FL_ERR_CLOSED,
                "incarnation %" PRIu32 " of trainer %" PRIu32
                " was replaced by incarnation %" PRIu32 " (process %" PRIu32
                ")",
                who->incarnation, m->id.rank, m->incarnation, m->id.process);
    FL_FAIL(FL_ERR_CLOSED,
            "trainer %" PRIu32 " comes as incarnation %" PRIu32
            ", which was never given: it belongs to an earlier run of server "
            "0; start it again",
            who->rank, who->incarnation);
}

static fl_status check_second(const fl_coord_member *m, const fl_identity *who,
                              const char *peer)
{
    char second[FL_ADDRESS_MAX + 64];
    fl_str first = { 0 };

    if (m->state != FL_MEMBER_HERE || is_away(m))
        return FL_OK;
    fl_text_add_member(&first, m);
    fl_err_set(FL_ERR_INVAL,
               "%s is here already, hence %s is refused: give each %s a rank "
               "of its own",
               fl_str_text(&first),
               fl_identity_text(who, peer, second, sizeof(second)),
               fl_member_role_name(who->role));
    fl_str_release(&first);
    return FL_ERR_INVAL;
}

/* A server that starts anew has none of the rows that were trained. Before the
   rendezvous is over there are none. */
static fl_status check_life(fl_coord *c, const fl_coord_member *m,
                            const fl_identity *who, const char *peer)
{
    char text[FL_ADDRESS_MAX + 64];

    if (is_trainer(m) || who->boot_id == m->id.boot_id || !c->is_complete)
        return FL_OK;
    fl_err_set(FL_ERR_CLOSED,
               "%s came back without the rows that it held: start the job "
               "again",
               fl_identity_text(who, peer, text, sizeof(text)));
    end_job(c, FL_ERR_CLOSED);
    return fl_err_restore(&c->why);
}

fl_status fl_coord_join(fl_coord *c, const fl_identity *who, const char *peer,
                        uint64_t now_ms, uint32_t *incarnation)
{
    fl_coord_member *m = find_member(c, who->role, who->rank);

    if (!peer)
        peer = "";
    if (c->is_over)
        return fl_coord_fail_over(c);
    if (!m)
        return refuse_rank(c, who);
    FL_TRY(check_incarnation(m, who));
    if (m->state == FL_MEMBER_ABSENT) {
        join_first(c, m, who, peer, now_ms);
    } else if (is_server_0(m) && !m->id.process) {
        take_identity(m, who, peer);
    } else if (is_same_process(m, who, peer)) {
        join_again(c, m, who, peer, now_ms);
    } else {
        FL_TRY(check_second(m, who, peer));
        FL_TRY(check_life(c, m, who, peer));
        join_instead(c, m, who, peer, now_ms);
    }
    *incarnation = m->incarnation;
    return FL_OK;
}

static void leave_server(fl_coord *c, fl_coord_member *m)
{
    fl_str who = { 0 };

    m->state = FL_MEMBER_LEFT;
    fl_text_add_member(&who, m);
    fl_err_set(FL_ERR_CLOSED,
               "%s left before the trainers were done, and the rows that it "
               "held are gone: start the job again",
               fl_str_text(&who));
    fl_str_release(&who);
    end_job(c, FL_ERR_CLOSED);
}

void fl_coord_leave(fl_coord *c, fl_member_role role, uint32_t rank,
                    uint64_t now_ms)
{
    fl_coord_member *m = find_member(c, role, rank);

    if (c->is_over || !m || m->state == FL_MEMBER_ABSENT ||
        m->state == FL_MEMBER_LEFT)
        return;
    if (!is_trainer(m)) {
        leave_server(c, m);
        return;
    }
    if (m->state == FL_MEMBER_HERE)
        c->n_live--;
    m->state = FL_MEMBER_LEFT;
    m->is_down = m->is_silent = false;
    c->epoch++;
    fl_err_set(FL_ERR_CLOSED, "trainer %" PRIu32 " has left the job", rank);
    withdraw(c, rank);
    fl_coord_check_barriers(c);
    fl_coord_check_save(c, now_ms);
    check_trainers(c, now_ms);
}

/* --- time ---------------------------------------------------------------- */

static void tick_rendezvous(fl_coord *c, uint64_t now_ms)
{
    uint64_t age_ms = fl_coord_between(c->start_ms, now_ms);
    fl_str line = { 0 };

    if (c->is_complete)
        return;
    if (age_ms >= c->o.connect_timeout_ms) {
        fl_text_add_absent(&line, c);
        fl_err_set(FL_ERR_TIMEOUT,
                   "%s did not come within %s (%s are here): start %s, or "
                   "raise connect_timeout_ms",
                   fl_str_text(&line), fl_text_of_ms(c->o.connect_timeout_ms).s,
                   fl_text_of_here(c).s,
                   c->n_members - c->n_joined == 1 ? "it" : "them");
        fl_str_release(&line);
        end_job(c, FL_ERR_TIMEOUT);
        return;
    }
    if (!fl_coord_is_due(&c->log_ms, now_ms))
        return;
    fl_str_add(&line, "waiting for ");
    fl_text_add_absent(&line, c);
    fl_str_addf(&line, " (%s are here)", fl_text_of_here(c).s);
    fl_coord_log_line(c, &line);
}

void fl_coord_tick(fl_coord *c, uint64_t now_ms)
{
    if (!c->is_over)
        tick_rendezvous(c, now_ms);
    for (uint32_t i = 0; i < c->n_members && !c->is_over; i++)
        lose_if_late(c, &c->members[i], now_ms);
    if (!c->is_over && c->is_complete)
        fl_coord_tick_barriers(c, now_ms);
    if (!c->is_over)
        fl_coord_tick_work(c, now_ms);
    if (!c->is_over && c->is_complete)
        fl_coord_tick_save(c, now_ms);
}

/* --- steps and reports --------------------------------------------------- */

uint64_t fl_coord_step(fl_coord *c, uint64_t add)
{
    c->step = add > UINT64_MAX - c->step ? UINT64_MAX : c->step + add;
    return c->step;
}

/* What a peer calls its phase ends up on terminals. */
static void take_phase(char out[FL_PHASE_MAX + 1], const char *phase)
{
    size_t n = 0;

    for (; n < FL_PHASE_MAX && phase[n]; n++)
        out[n] = phase[n] < ' ' || phase[n] > '~' ? '?' : phase[n];
    out[n] = '\0';
}

static void take_samples(fl_member_progress *p, uint64_t samples,
                         uint64_t now_ms)
{
    uint64_t ms = fl_coord_between(p->from_ms, now_ms);
    bool is_anew = !p->is_known || samples < p->from_samples;

    p->samples = samples;
    p->at_ms = now_ms;
    if (is_anew)
        p->rate = NAN;
    else if (ms >= RATE_MS_MIN || (isnan(p->rate) && ms >= RATE_MS_FIRST))
        p->rate = (double)(samples - p->from_samples) * 1e3 / (double)ms;
    if (!is_anew && ms < RATE_MS_MIN)
        return;
    p->from_samples = samples;
    p->from_ms = now_ms;
}

void fl_coord_report(fl_coord *c, uint32_t rank, const fl_report_request *r,
                     uint64_t now_ms)
{
    fl_coord_member *m = find_member(c, FL_MEMBER_TRAINER, rank);

    if (!m || m->state == FL_MEMBER_ABSENT)
        return;
    take_phase(m->progress.phase, r->phase);
    take_samples(&m->progress, r->samples, now_ms);
    m->progress.loss = r->loss;
    m->progress.auc = r->auc;
    m->progress.expected = r->expected;
    m->progress.is_known = true;
    m->uses_incarnation = true;
    m->step = c->step;
}

double fl_coord_rate(const fl_coord *c)
{
    double sum = NAN;

    for (uint32_t i = 0; i < c->n_trainers; i++) {
        const fl_coord_member *m = &c->members[i];
        double rate = m->state == FL_MEMBER_HERE && m->progress.is_known
                          ? m->progress.rate
                          : NAN;

        if (!isnan(rate))
            sum = isnan(sum) ? rate : sum + rate;
    }
    return sum;
}

/* --- making and asking --------------------------------------------------- */

fl_coord *fl_coord_new(const fl_coord_options *o, const fl_coord_events *e,
                       void *arg, uint64_t now_ms)
{
    fl_coord *c = fl_alloc(sizeof(*c));
    fl_coord_member *server_0;

    FL_ASSERT(o->n_servers >= 1 && o->n_trainers >= 1);
    c->o = *o;
    c->e = *e;
    c->arg = arg;
    c->start_ms = now_ms;
    c->log_ms = now_ms + FL_COORD_LOG_FIRST_MS;
    c->n_trainers = (uint32_t)o->n_trainers;
    c->n_members = c->n_trainers + (uint32_t)o->n_servers;
    c->members = fl_alloc(c->n_members * sizeof(*c->members));
    for (uint32_t i = 0; i < c->n_members; i++) {
        bool trains = i < c->n_trainers;

        c->members[i].id.role = trains ? FL_MEMBER_TRAINER : FL_MEMBER_SERVER;
        c->members[i].id.rank = trains ? i : i - c->n_trainers;
        c->members[i].role = o->are_workers
                                 ? "worker"
                                 : fl_member_role_name(c->members[i].id.role);
    }
    server_0 = &c->members[c->n_trainers];
    server_0->state = FL_MEMBER_HERE;
    server_0->incarnation = 1;
    c->n_joined = 1;
    c->epoch = 1;
    c->saves.seats = fl_alloc(c->n_members * sizeof(*c->saves.seats));
    return c;
}

void fl_coord_free(fl_coord *c)
{
    if (!c)
        return;
    fl_coord_release_barriers(c);
    fl_coord_release_work(c);
    fl_coord_release_saves(c);
    fl_free(c->members);
    fl_free(c);
}

uint32_t fl_coord_incarnation(const fl_coord *c, fl_member_role role,
                              uint32_t rank)
{
    const fl_coord_member *m = find_member(c, role, rank);

    return m ? m->incarnation : 0;
}

uint64_t fl_coord_epoch(const fl_coord *c)
{
    return c->epoch;
}

bool fl_coord_is_complete(const fl_coord *c)
{
    return c->is_complete;
}
