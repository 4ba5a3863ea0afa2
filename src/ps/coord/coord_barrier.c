/* coord_barrier.c - barriers: all live trainers, or nobody. What is said here
 * of barriers is true of gathers and of rounds on several servers; coord_gather.c
 * and coord_meet.c have what they have besides.
 *
 * A barrier is a name and a generation; generations of a name pass in order, so
 * that one number per name remembers all that are over. Who asks for one of
 * those lost its answer on the way, or is a new incarnation that counts from
 * the beginning: either goes on at once.
 *
 * Only live trainers ever wait: who leaves or is replaced is withdrawn. A
 * barrier is over when nobody is missing, and whatever may end that is followed
 * by fl_coord_check_barriers.
 *
 * Barriers of rounds do not wait for trainers that wait elsewhere: those are
 * done with their data, and come to no round before the others come to them.
 * Only who waits in an older round is on its way, and is waited for.
 */
#include "ps/coord/coord_inside.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

const char *fl_barrier_kind_name(const fl_barrier *b)
{
    return b->kind == FL_BARRIER_GATHER ? "gather" : "barrier";
}

static fl_barrier_id id_of(const fl_barrier *b)
{
    return (fl_barrier_id){ b->kind, b->name, b->generation };
}

static bool has_name(const fl_barrier *b, const fl_barrier_id *id)
{
    return b->kind == id->kind && strcmp(b->name, id->name) == 0;
}

static void refuse(const fl_coord *c, fl_barrier_kind kind, void *question,
                   fl_status st)
{
    if (kind == FL_BARRIER_GATHER)
        c->e.gathered(c->arg, question, st, NULL);
    else
        c->e.answer(c->arg, question, st, NULL, 0);
}

/* --- what is over -------------------------------------------------------- */

static fl_passed *find_passed(const fl_coord *c, const fl_barrier_id *id)
{
    for (size_t i = 0; i < c->passed.len; i++)
        if (c->passed.data[i].kind == id->kind &&
            strcmp(c->passed.data[i].name, id->name) == 0)
            return &c->passed.data[i];
    return NULL;
}

static bool is_passed(const fl_coord *c, const fl_barrier_id *id)
{
    const fl_passed *p = find_passed(c, id);

    return p && id->generation <= p->generation;
}

static void list_came(const fl_coord *c, const fl_barrier *b, fl_came_list *out)
{
    out->len = 0;
    for (uint32_t rank = 0; rank < c->n_trainers; rank++)
        if (b->by_rank[rank].came && !fl_meet_lacks(c, b, rank))
            fl_vec_push(out, ((fl_came){ rank, b->by_rank[rank].share }));
}

static void remember_passed(fl_coord *c, fl_barrier *b)
{
    fl_barrier_id id = id_of(b);
    fl_passed *p = find_passed(c, &id);

    if (!p) {
        fl_vec_push(&c->passed, (fl_passed){ .kind = b->kind });
        p = &c->passed.data[c->passed.len - 1];
        (void)snprintf(p->name, sizeof(p->name), "%s", b->name);
    }
    if (b->generation < p->generation)
        return;
    p->generation = b->generation;
    if (b->kind == FL_BARRIER_GATHER)
        fl_coord_remember_parts(c, b, p);
    else
        list_came(c, b, &p->came);
}

/* Its answer was lost. Who came to an older generation is known no more. */
static void answer_passed(const fl_coord *c, const fl_passed *p,
                          uint64_t generation, void *question)
{
    bool is_last = generation == p->generation;

    if (p->kind == FL_BARRIER_GATHER) {
        fl_coord_answer_gather(c, p, generation, question);
        return;
    }
    c->e.answer(c->arg, question, FL_OK, is_last ? p->came.data : NULL,
                is_last ? p->came.len : 0);
}

static void free_barrier(const fl_coord *c, fl_barrier *b)
{
    for (uint32_t rank = 0; rank < c->n_trainers; rank++)
        fl_gather_part_release(&b->by_rank[rank].part);
    fl_meet_release(&b->meeting);
    fl_free(b);
}

void fl_coord_release_barriers(fl_coord *c)
{
    for (size_t i = 0; i < c->open.len; i++)
        free_barrier(c, c->open.data[i]);
    for (size_t i = 0; i < c->passed.len; i++) {
        fl_vec_release(&c->passed.data[i].came);
        fl_coord_release_records(&c->passed.data[i]);
    }
    fl_vec_release(&c->open);
    fl_vec_release(&c->passed);
}

/* --- what is open -------------------------------------------------------- */

static fl_barrier *find_open(const fl_coord *c, const fl_barrier_id *id)
{
    for (size_t i = 0; i < c->open.len; i++) {
        fl_barrier *b = c->open.data[i];

        if (b->generation == id->generation && has_name(b, id))
            return b;
    }
    return NULL;
}

static fl_barrier *open_barrier(fl_coord *c, const fl_barrier_id *id,
                                uint64_t now_ms)
{
    fl_barrier *b = fl_alloc(sizeof(*b) + c->n_trainers * sizeof(*b->by_rank));

    b->kind = id->kind;
    (void)snprintf(b->name, sizeof(b->name), "%s", id->name);
    b->generation = id->generation;
    b->since_ms = now_ms;
    b->log_ms = now_ms + FL_COORD_LOG_FIRST_MS;
    if (b->kind == FL_BARRIER_MEET)
        fl_meet_init(&b->meeting, c);
    fl_vec_push(&c->open, b);
    return b;
}

static fl_barrier *take_open(fl_coord *c, size_t i)
{
    fl_barrier *b = c->open.data[i];

    c->open.len--;
    memmove(&c->open.data[i], &c->open.data[i + 1],
            (c->open.len - i) * sizeof(b));
    return b;
}

/* Nobody is missing: answers all who came with the same, and frees. */
static void pass_barrier(fl_coord *c, fl_barrier *b)
{
    fl_barrier_id id = id_of(b);
    fl_came_list came = { 0 };

    remember_passed(c, b);
    if (b->kind != FL_BARRIER_GATHER)
        list_came(c, b, &came);
    fl_meet_answer(c, b, FL_OK, &came);
    for (uint32_t rank = 0; rank < c->n_trainers; rank++) {
        const fl_asked *asked = &b->by_rank[rank];

        if (!asked->came)
            continue;
        if (b->kind == FL_BARRIER_GATHER)
            answer_passed(c, find_passed(c, &id), b->generation,
                          asked->question);
        else
            c->e.answer(c->arg, asked->question, FL_OK, came.data, came.len);
    }
    fl_vec_release(&came);
    free_barrier(c, b);
}

/* Answers all who came with an error, and frees. */
static void drop_barrier(fl_coord *c, fl_barrier *b, const fl_err *why)
{
    for (uint32_t rank = 0; rank < c->n_trainers; rank++)
        if (b->by_rank[rank].came)
            refuse(c, b->kind, b->by_rank[rank].question, fl_err_restore(why));
    fl_meet_answer(c, b, fl_err_restore(why), NULL);
    free_barrier(c, b);
}

static bool is_of_rounds(fl_barrier_kind kind)
{
    return kind == FL_BARRIER_ROUND || kind == FL_BARRIER_MEET;
}

static bool is_round(const fl_barrier *b)
{
    return is_of_rounds(b->kind);
}

/* Whether a trainer that waits at `at` is left out of b. */
static bool is_elsewhere(const fl_barrier *b, const fl_barrier *at)
{
    fl_barrier_id id = id_of(b);

    return !has_name(at, &id) || at->generation > b->generation;
}

bool fl_coord_is_missing(const fl_coord *c, const fl_barrier *b, uint32_t rank)
{
    if (c->members[rank].state != FL_MEMBER_HERE)
        return false;
    if (b->by_rank[rank].came)
        return fl_meet_lacks(c, b, rank) != 0;
    for (size_t i = 0; is_round(b) && i < c->open.len; i++)
        if (c->open.data[i]->by_rank[rank].came &&
            is_elsewhere(b, c->open.data[i]))
            return false;
    return true;
}

static uint32_t count_missing(const fl_coord *c, const fl_barrier *b)
{
    uint32_t n = 0;

    for (uint32_t rank = 0; rank < c->n_trainers; rank++)
        n += fl_coord_is_missing(c, b, rank);
    return n;
}

/* Asked whenever somebody comes: all are looked at only where some may be
   elsewhere, or on their way to another server, or a round of many would cost the
   square of their number. */
static bool is_due(const fl_coord *c, const fl_barrier *b)
{
    bool are_all = b->n_came == c->n_live;
    fl_barrier_id id = id_of(b);

    if (!c->is_complete || is_passed(c, &id))
        return c->is_complete;
    if (!b->n_came || !fl_meet_is_told(c, b))
        return false;
    if (b->kind == FL_BARRIER_MEET || !are_all)
        return is_round(b) && (are_all || c->open.len > 1) &&
               !count_missing(c, b);
    return true;
}

void fl_coord_check_barriers(fl_coord *c)
{
    for (size_t i = 0; i < c->open.len;) {
        fl_barrier *b = c->open.data[i];

        if (!is_due(c, b)) {
            i++;
            continue;
        }
        pass_barrier(c, take_open(c, i));
        i = 0; /* older generations of this name may have become due */
    }
}

void fl_coord_withdraw(fl_coord *c, uint32_t rank, fl_status st)
{
    fl_err err;

    fl_err_save(&err, st);
    for (size_t i = 0; i < c->open.len;) {
        fl_barrier *b = c->open.data[i];
        fl_barrier_kind kind = b->kind;
        fl_asked asked = b->by_rank[rank];

        if (!asked.came) {
            i++;
            continue;
        }
        fl_coord_drop_part(b, &b->by_rank[rank]);
        b->by_rank[rank] = (fl_asked){ 0 };
        if (--b->n_came || b->meeting.n_asked)
            i++;
        else
            free_barrier(c, take_open(c, i));
        refuse(c, kind, asked.question, fl_err_restore(&err));
    }
}

void fl_coord_drop_barriers(fl_coord *c, fl_status st)
{
    fl_err err;

    fl_err_save(&err, st);
    while (c->open.len)
        drop_barrier(c, take_open(c, 0), &err);
}

const fl_barrier *fl_coord_waits_at(const fl_coord *c, uint32_t rank)
{
    for (size_t i = 0; i < c->open.len; i++)
        if (c->open.data[i]->by_rank[rank].came)
            return c->open.data[i];
    return NULL;
}

const fl_barrier *fl_coord_waits_by_name(const fl_coord *c, uint32_t rank,
                                         const fl_barrier_id *id)
{
    for (size_t i = 0; i < c->open.len; i++)
        if (c->open.data[i]->by_rank[rank].came &&
            has_name(c->open.data[i], id))
            return c->open.data[i];
    return NULL;
}

const fl_barrier *fl_coord_waits_in_round(const fl_coord *c, uint32_t rank)
{
    for (size_t i = 0; i < c->open.len; i++)
        if (c->open.data[i]->by_rank[rank].came && is_round(c->open.data[i]))
            return c->open.data[i];
    return NULL;
}

/* The last one that was made, of any name. */
uint64_t fl_coord_next_round(const fl_coord *c)
{
    uint64_t next = c->step;

    for (size_t i = 0; i < c->passed.len; i++)
        if (is_of_rounds(c->passed.data[i].kind) &&
            c->passed.data[i].generation >= next)
            next = c->passed.data[i].generation + 1;
    return next;
}

/* --- questions ----------------------------------------------------------- */

fl_status fl_coord_check_asker(const fl_coord *c, uint32_t rank,
                               uint32_t incarnation, const char *what)
{
    const fl_coord_member *m = rank < c->n_trainers ? &c->members[rank] : NULL;

    if (c->is_over)
        return fl_coord_fail_over(c);
    if (!m || m->state == FL_MEMBER_ABSENT)
        FL_FAIL(FL_ERR_INVAL,
                "trainer %" PRIu32 " asks for %s and has not joined", rank,
                what);
    if (m->incarnation != incarnation)
        FL_FAIL(FL_ERR_CLOSED,
                "incarnation %" PRIu32 " of trainer %" PRIu32
                " asks for %s, but incarnation %" PRIu32 " (process %" PRIu32
                ") is the one that counts",
                incarnation, rank, what, m->incarnation, m->id.process);
    if (m->state == FL_MEMBER_LEFT)
        FL_FAIL(FL_ERR_CLOSED,
                "trainer %" PRIu32 " asks for %s and has left the job", rank,
                what);
    if (m->state == FL_MEMBER_LOST)
        FL_FAIL(FL_ERR_CLOSED,
                "trainer %" PRIu32 " was away for too long, and the job goes "
                "on without it: start it again",
                rank);
    return FL_OK;
}

/* A peer chooses names, and lines for people have them. */
fl_status fl_coord_check_name(const char *what, const char *name)
{
    if (strlen(name) > FL_BARRIER_NAME_MAX)
        FL_FAIL(FL_ERR_INVAL, "%s's name has at most %d characters, not %zu",
                what, FL_BARRIER_NAME_MAX, strlen(name));
    for (const char *s = name; *s; s++)
        if (*s < ' ' || *s > '~')
            FL_FAIL(FL_ERR_INVAL,
                    "%s's name has the byte 0x%02x in it, which cannot be "
                    "printed",
                    what, (unsigned char)*s);
    return FL_OK;
}

static size_t count_names(const fl_coord *c, fl_barrier_kind kind)
{
    size_t n = 0;

    for (size_t i = 0; i < c->passed.len; i++)
        n += c->passed.data[i].kind == kind;
    return n;
}

static size_t count_open(const fl_coord *c, fl_barrier_kind kind)
{
    size_t n = 0;

    for (size_t i = 0; i < c->open.len; i++)
        n += c->open.data[i]->kind == kind;
    return n;
}

fl_status fl_coord_check_room(const fl_coord *c, const fl_barrier_id *id)
{
    bool is_gather = id->kind == FL_BARRIER_GATHER;
    const char *kind = is_gather ? "gather" : "barrier";
    size_t max = is_gather ? FL_GATHERS_MAX : FL_BARRIERS_MAX;

    if (is_passed(c, id) || find_open(c, id))
        return FL_OK;
    if (count_open(c, id->kind) < max &&
        (count_names(c, id->kind) < max || find_passed(c, id)))
        return FL_OK;
    FL_FAIL(FL_ERR_INVAL,
            "%s \"%s\" is one too many: a job has at most %zu names of %ss, "
            "and as many that wait; use a name again with the next generation",
            kind, id->name, max, kind);
}

static fl_status check_question(const fl_coord *c, const fl_coord_asker *who,
                                const fl_barrier_id *id)
{
    const char *what = id->kind == FL_BARRIER_GATHER ? "a gather" : "a barrier";

    FL_TRY(fl_coord_check_asker(c, who->rank, who->incarnation, what));
    FL_TRY(fl_coord_check_name(what, id->name));
    if (id->kind == FL_BARRIER_GATHER && !is_passed(c, id))
        FL_TRY(fl_coord_check_gather(c, who->rank, id));
    return fl_coord_check_room(c, id);
}

static void wait_at(fl_coord *c, fl_barrier *b, uint32_t rank, fl_asked *asked)
{
    fl_asked *seat = &b->by_rank[rank], was = *seat;

    fl_coord_drop_part(b, seat);
    fl_coord_keep_part(c, b, asked);
    asked->came = true;
    *seat = *asked;
    if (!was.came) {
        b->n_came++;
        return;
    }
    fl_err_set(FL_ERR_CLOSED, "trainer %" PRIu32 " asked again for %s \"%s\"",
               rank, fl_barrier_kind_name(b), b->name);
    refuse(c, b->kind, was.question, FL_ERR_CLOSED);
}

fl_barrier *fl_coord_reach_barrier(fl_coord *c, const fl_coord_asker *who,
                                   const fl_barrier_id *id)
{
    fl_barrier *b = find_open(c, id);

    if (is_passed(c, id)) {
        answer_passed(c, find_passed(c, id), id->generation, who->question);
        return NULL;
    }
    return b ? b : open_barrier(c, id, who->now_ms);
}

void fl_coord_check_came(fl_coord *c, uint64_t now_ms)
{
    fl_coord_check_barriers(c);
    if (c->saves.phase != FL_SAVES_NONE)
        fl_coord_check_save(c, now_ms); /* a round may wait for a cut */
}

void fl_coord_enter_barrier(fl_coord *c, const fl_coord_asker *who,
                            const fl_barrier_id *id, fl_asked *asked)
{
    fl_status st = check_question(c, who, id);
    fl_barrier *b;

    asked->question = who->question;
    if (st) {
        fl_gather_part_release(&asked->part);
        refuse(c, id->kind, asked->question, st);
        return;
    }
    c->members[who->rank].uses_incarnation = true;
    c->members[who->rank].step = c->step;
    b = fl_coord_reach_barrier(c, who, id);
    if (!b) {
        fl_gather_part_release(&asked->part);
        return;
    }
    wait_at(c, b, who->rank, asked);
    fl_coord_check_came(c, who->now_ms);
}

void fl_coord_barrier(fl_coord *c, const fl_coord_asker *who,
                      const fl_barrier_request *q)
{
    fl_barrier_id id = { (fl_barrier_kind)q->kind, q->name, q->generation };
    fl_asked asked = { .share = q->share };

    fl_coord_enter_barrier(c, who, &id, &asked);
}

/* --- time ---------------------------------------------------------------- */

static void log_waiting(fl_coord *c, const fl_barrier *b, uint64_t now_ms)
{
    fl_str line = { 0 };

    if (b->n_came)
        fl_text_add_came(&line, c, b);
    else
        fl_str_add(&line, "other servers");
    fl_str_addf(&line, " %s been waiting at %s \"%s\" for %s; missing %s ",
                b->n_came == 1 ? "has" : "have", fl_barrier_kind_name(b),
                b->name, fl_text_of_ms(fl_coord_between(b->since_ms, now_ms)).s,
                count_missing(c, b) == 1 ? "is" : "are");
    fl_text_add_missing_why(&line, c, b, now_ms);
    fl_coord_log_line(c, &line);
}

void fl_coord_tick_barriers(fl_coord *c, uint64_t now_ms)
{
    for (size_t i = 0; i < c->open.len; i++)
        if (fl_coord_is_due(&c->open.data[i]->log_ms, now_ms) &&
            count_missing(c, c->open.data[i]))
            log_waiting(c, c->open.data[i], now_ms);
}
