/* coord_text.c - the words of the coordinator: times, members, lists of them.
 *
 * Lists name the first few and count the others, so that a line about a large
 * job stays a line.
 */
#include "ps/coord/coord_inside.h"

#include <inttypes.h>
#include <stdio.h>

#define NAMED_MAX 8

#define MS_PER_S 1000u
#define S_PER_MIN 60u
#define MIN_PER_H 60u

/* Up to here a time is told in seconds: people set timeouts in them. */
#define SECONDS_MAX 120u

fl_text64 fl_text_of_ms(uint64_t ms)
{
    uint64_t s = ms / MS_PER_S, tenth = ms % MS_PER_S / 100;
    uint64_t min = s / S_PER_MIN, h = min / MIN_PER_H;
    fl_text64 t;

    if (ms && ms < 100)
        (void)snprintf(t.s, sizeof(t.s), "%" PRIu64 " ms", ms);
    else if (s < 10 && tenth)
        (void)snprintf(t.s, sizeof(t.s), "%" PRIu64 ".%" PRIu64 " s", s, tenth);
    else if (s <= SECONDS_MAX)
        (void)snprintf(t.s, sizeof(t.s), "%" PRIu64 " s", s);
    else if (!h && s % S_PER_MIN)
        (void)snprintf(t.s, sizeof(t.s), "%" PRIu64 " min %" PRIu64 " s", min,
                       s % S_PER_MIN);
    else if (!h)
        (void)snprintf(t.s, sizeof(t.s), "%" PRIu64 " min", min);
    else
        (void)snprintf(t.s, sizeof(t.s), "%" PRIu64 " h %" PRIu64 " min", h,
                       min % MIN_PER_H);
    return t;
}

fl_text64 fl_text_of_rank(const fl_coord_member *m)
{
    fl_text64 t;

    (void)snprintf(t.s, sizeof(t.s), "%s %" PRIu32, m->role, m->id.rank);
    return t;
}

void fl_text_add_member(fl_str *s, const fl_coord_member *m)
{
    char text[FL_ADDRESS_MAX + 64];

    fl_str_add(
        s, fl_identity_text_as(m->role, &m->id, m->peer, text, sizeof(text)));
}

/* --- lists --------------------------------------------------------------- */

/* Whom a list is about. */
typedef struct about {
    const fl_coord *c;
    const fl_barrier *b;
    uint64_t now_ms;
} about;

typedef bool (*belongs_fn)(const about *a, uint32_t member);
typedef void (*add_fn)(fl_str *s, const about *a, const fl_coord_member *m);

/* A worker is two members, and is named once. */
static bool is_absent(const about *a, uint32_t i)
{
    const fl_coord_member *m = &a->c->members[i];
    const fl_coord_member *first = a->c->o.are_workers && i >= a->c->n_trainers
                                       ? &a->c->members[m->id.rank]
                                       : m;

    return m->state == FL_MEMBER_ABSENT &&
           (first == m || first->state != FL_MEMBER_ABSENT);
}

static bool came(const about *a, uint32_t i)
{
    return i < a->c->n_trainers && a->b->by_rank[i].came;
}

static bool is_missing(const about *a, uint32_t i)
{
    return i < a->c->n_trainers && fl_coord_is_missing(a->c, a->b, i);
}

static void add_rank(fl_str *s, const about *a, const fl_coord_member *m)
{
    (void)a;
    fl_str_add(s, fl_text_of_rank(m).s);
}

/* "trainer 1 (down for 4 s, last seen at step 12)". One that waits at another
   barrier shows trainers that do not do the same. */
static void add_why(fl_str *s, const about *a, const fl_coord_member *m)
{
    const fl_barrier *other = fl_coord_waits_at(a->c, m->id.rank);
    bool is_here = a->b->by_rank[m->id.rank].came;
    uint64_t away_ms = fl_coord_between(m->away_ms, a->now_ms);

    fl_str_addf(s, "%s (", fl_text_of_rank(m).s);
    if (m->is_down)
        fl_str_addf(s, "down for %s, ", fl_text_of_ms(away_ms).s);
    else if (m->is_silent)
        fl_str_addf(s, "silent for %s, ", fl_text_of_ms(away_ms).s);
    else if (is_here)
        fl_str_addf(s, "not at server %" PRIu32 " yet, ",
                    fl_meet_lacks(a->c, a->b, m->id.rank));
    else if (other)
        fl_str_addf(s, "waits at %s \"%s\" instead, ",
                    fl_barrier_kind_name(other), other->name);
    fl_str_addf(s, "last seen at step %" PRIu64 ")", m->step);
}

static void add_list(fl_str *s, const about *a, belongs_fn belongs, add_fn add)
{
    uint32_t n = 0, nth = 0, n_named;

    for (uint32_t i = 0; i < a->c->n_members; i++)
        n += belongs(a, i);
    /* "and 1 other" is no shorter than its name. */
    n_named = n <= NAMED_MAX + 1 ? n : NAMED_MAX;
    for (uint32_t i = 0; i < a->c->n_members && nth < n_named; i++) {
        if (!belongs(a, i))
            continue;
        if (nth > 0)
            fl_str_add(s, nth + 1 == n ? " and " : ", ");
        add(s, a, &a->c->members[i]);
        nth++;
    }
    if (n > n_named)
        fl_str_addf(s, " and %" PRIu32 " others", n - n_named);
}

void fl_text_add_absent(fl_str *s, const fl_coord *c)
{
    add_list(s, &(about){ .c = c }, is_absent, add_rank);
}

fl_text64 fl_text_of_here(const fl_coord *c)
{
    const fl_coord_member *m = c->members;
    uint32_t n = 0;
    fl_text64 t;

    for (uint32_t i = 0; c->o.are_workers && i < c->n_trainers; i++)
        n += m[i].state != FL_MEMBER_ABSENT &&
             m[c->n_trainers + i].state != FL_MEMBER_ABSENT;
    if (c->o.are_workers)
        (void)snprintf(t.s, sizeof(t.s), "%" PRIu32 " of %" PRIu32 " workers",
                       n, c->n_trainers);
    else
        (void)snprintf(t.s, sizeof(t.s), "%" PRIu32 " of %" PRIu32 " members",
                       c->n_joined, c->n_members);
    return t;
}

void fl_text_add_came(fl_str *s, const fl_coord *c, const fl_barrier *b)
{
    add_list(s, &(about){ .c = c, .b = b }, came, add_rank);
}

void fl_text_add_missing(fl_str *s, const fl_coord *c, const fl_barrier *b)
{
    add_list(s, &(about){ .c = c, .b = b }, is_missing, add_rank);
}

void fl_text_add_missing_why(fl_str *s, const fl_coord *c, const fl_barrier *b,
                             uint64_t now_ms)
{
    add_list(s, &(about){ .c = c, .b = b, .now_ms = now_ms }, is_missing,
             add_why);
}
