/* coord_barrier.c - barriers: all live trainers, or nobody.
 *
 * A barrier is a name and a generation; generations of a name pass in order, so
 * that one number per name remembers all that are over. Who asks for one of
 * those lost its answer on the way, or is a new incarnation that counts from
 * the beginning: either goes on at once.
 *
 * Only live trainers ever wait: who leaves or is replaced is withdrawn. Hence a
 * barrier is over when as many came as are live, and every change of that
 * number is followed by fl_coord_check_barriers.
 */
#include "ps/coord_inside.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

/* --- what is over -------------------------------------------------------- */

static fl_passed *find_passed(const fl_coord *c, const char *name)
{
    for (size_t i = 0; i < c->passed.len; i++)
        if (strcmp(c->passed.data[i].name, name) == 0)
            return &c->passed.data[i];
    return NULL;
}

static bool is_passed(const fl_coord *c, const char *name, uint64_t generation)
{
    const fl_passed *p = find_passed(c, name);

    return p && generation <= p->generation;
}

static void remember_passed(fl_coord *c, const fl_barrier *b)
{
    fl_passed *p = find_passed(c, b->name);

    if (!p) {
        fl_vec_push(&c->passed, (fl_passed){ 0 });
        p = &c->passed.data[c->passed.len - 1];
        (void)snprintf(p->name, sizeof(p->name), "%s", b->name);
    }
    if (b->generation > p->generation)
        p->generation = b->generation;
}

/* --- what is open -------------------------------------------------------- */

static fl_barrier *find_open(const fl_coord *c, const char *name,
                             uint64_t generation)
{
    for (size_t i = 0; i < c->open.len; i++) {
        fl_barrier *b = c->open.data[i];

        if (b->generation == generation && strcmp(b->name, name) == 0)
            return b;
    }
    return NULL;
}

static fl_barrier *open_barrier(fl_coord *c, const char *name,
                                uint64_t generation, uint64_t now_ms)
{
    fl_barrier *b = fl_alloc(sizeof(*b) + c->n_trainers * sizeof(*b->by_rank));

    (void)snprintf(b->name, sizeof(b->name), "%s", name);
    b->generation = generation;
    b->since_ms = now_ms;
    b->say_ms = now_ms + FL_COORD_SAY_FIRST_MS;
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

/* Answers all who came with the same, and frees. */
static void close_barrier(fl_coord *c, fl_barrier *b, fl_status st)
{
    fl_err err;

    fl_err_save(&err, st);
    for (uint32_t rank = 0; rank < c->n_trainers; rank++) {
        if (!b->by_rank[rank].came)
            continue;
        (void)fl_err_restore(&err);
        c->e.answer(c->arg, b->by_rank[rank].question, st);
    }
    fl_free(b);
}

static bool is_due(const fl_coord *c, const fl_barrier *b)
{
    return c->is_complete &&
           (b->n_came == c->n_live || is_passed(c, b->name, b->generation));
}

void fl_coord_check_barriers(fl_coord *c)
{
    for (size_t i = 0; i < c->open.len;) {
        fl_barrier *b = c->open.data[i];

        if (!is_due(c, b)) {
            i++;
            continue;
        }
        remember_passed(c, b);
        close_barrier(c, take_open(c, i), FL_OK);
        i = 0; /* older generations of this name may have become due */
    }
}

void fl_coord_withdraw(fl_coord *c, uint32_t rank, fl_status st)
{
    fl_err err;

    fl_err_save(&err, st);
    for (size_t i = 0; i < c->open.len;) {
        fl_barrier *b = c->open.data[i];
        fl_asked asked = b->by_rank[rank];

        if (!asked.came) {
            i++;
            continue;
        }
        b->by_rank[rank] = (fl_asked){ 0 };
        if (--b->n_came)
            i++;
        else
            fl_free(take_open(c, i));
        (void)fl_err_restore(&err);
        c->e.answer(c->arg, asked.question, st);
    }
}

void fl_coord_drop_barriers(fl_coord *c, fl_status st)
{
    fl_err err;

    fl_err_save(&err, st);
    while (c->open.len) {
        (void)fl_err_restore(&err);
        close_barrier(c, take_open(c, 0), st);
    }
}

const fl_barrier *fl_coord_waits_at(const fl_coord *c, uint32_t rank)
{
    for (size_t i = 0; i < c->open.len; i++)
        if (c->open.data[i]->by_rank[rank].came)
            return c->open.data[i];
    return NULL;
}

/* --- questions ----------------------------------------------------------- */

static fl_status check_asker(const fl_coord *c, uint32_t rank,
                             uint32_t incarnation)
{
    const fl_member *m = rank < c->n_trainers ? &c->members[rank] : NULL;

    if (c->is_over)
        return fl_coord_fail_over(c);
    if (!m || m->state == FL_MEMBER_ABSENT)
        FL_FAIL(FL_ERR_INVAL,
                "trainer %" PRIu32 " asks for a barrier and has not joined",
                rank);
    if (m->incarnation != incarnation)
        FL_FAIL(FL_ERR_CLOSED,
                "incarnation %" PRIu32 " of trainer %" PRIu32
                " asks for a barrier, but incarnation %" PRIu32
                " (process %" PRIu32 ") is the one that counts",
                incarnation, rank, m->incarnation, m->id.process);
    if (m->state == FL_MEMBER_LEFT)
        FL_FAIL(FL_ERR_CLOSED,
                "trainer %" PRIu32 " asks for a barrier and has left the job",
                rank);
    if (m->state == FL_MEMBER_LOST)
        FL_FAIL(FL_ERR_CLOSED,
                "trainer %" PRIu32 " was away for too long, and the job goes "
                "on without it: start it again",
                rank);
    return FL_OK;
}

/* A peer chooses names, and lines for people have them. */
static fl_status check_name(const char *name)
{
    if (strlen(name) > FL_BARRIER_NAME_MAX)
        FL_FAIL(FL_ERR_INVAL,
                "a barrier's name has at most %d characters, not %zu",
                FL_BARRIER_NAME_MAX, strlen(name));
    for (const char *s = name; *s; s++)
        if (*s < ' ' || *s > '~')
            FL_FAIL(FL_ERR_INVAL,
                    "a barrier's name has the byte 0x%02x in it, which cannot "
                    "be printed",
                    (unsigned char)*s);
    return FL_OK;
}

static fl_status check_room(const fl_coord *c, const char *name)
{
    if (c->open.len < FL_BARRIERS_MAX &&
        (c->passed.len < FL_BARRIERS_MAX || find_passed(c, name)))
        return FL_OK;
    FL_FAIL(FL_ERR_INVAL,
            "barrier \"%s\" is one too many: a job has at most %d names of "
            "barriers, and as many that wait; use a name again with the next "
            "generation",
            name, FL_BARRIERS_MAX);
}

static fl_status check_question(const fl_coord *c, uint32_t rank,
                                uint32_t incarnation, const char *name,
                                uint64_t generation)
{
    FL_TRY(check_asker(c, rank, incarnation));
    FL_TRY(check_name(name));
    if (is_passed(c, name, generation) || find_open(c, name, generation))
        return FL_OK;
    return check_room(c, name);
}

static void wait_at(fl_coord *c, fl_barrier *b, uint32_t rank, void *question)
{
    fl_asked was = b->by_rank[rank];

    b->by_rank[rank] = (fl_asked){ .came = true, .question = question };
    if (!was.came) {
        b->n_came++;
        return;
    }
    fl_err_set(FL_ERR_CLOSED,
               "trainer %" PRIu32 " asked again for barrier \"%s\"", rank,
               b->name);
    c->e.answer(c->arg, was.question, FL_ERR_CLOSED);
}

void fl_coord_barrier(fl_coord *c, uint32_t rank, uint32_t incarnation,
                      const char *name, uint64_t generation, void *question,
                      uint64_t now_ms)
{
    fl_status st = check_question(c, rank, incarnation, name, generation);
    fl_barrier *b;

    if (st) {
        c->e.answer(c->arg, question, st);
        return;
    }
    c->members[rank].uses_incarnation = true;
    c->members[rank].step = c->step;
    if (is_passed(c, name, generation)) {
        c->e.answer(c->arg, question, FL_OK);
        return;
    }
    b = find_open(c, name, generation);
    if (!b)
        b = open_barrier(c, name, generation, now_ms);
    wait_at(c, b, rank, question);
    fl_coord_check_barriers(c);
}

/* --- time ---------------------------------------------------------------- */

static void say_waiting(fl_coord *c, const fl_barrier *b, uint64_t now_ms)
{
    fl_str line = { 0 };

    fl_text_add_came(&line, c, b);
    fl_str_addf(&line, " %s been waiting at barrier \"%s\" for %s; missing %s ",
                b->n_came == 1 ? "has" : "have", b->name,
                fl_text_of_ms(fl_coord_between(b->since_ms, now_ms)).s,
                c->n_live - b->n_came == 1 ? "is" : "are");
    fl_text_add_missing_why(&line, c, b, now_ms);
    fl_coord_say(c, &line);
}

void fl_coord_tick_barriers(fl_coord *c, uint64_t now_ms)
{
    for (size_t i = 0; i < c->open.len; i++)
        if (fl_coord_is_due(&c->open.data[i]->say_ms, now_ms))
            say_waiting(c, c->open.data[i], now_ms);
}
