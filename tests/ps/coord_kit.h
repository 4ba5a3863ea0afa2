/* coord_kit.h - a coordinator with a clock of its own that remembers all it
 * said and answered. */
#ifndef FL_TESTS_PS_COORD_KIT_H
#define FL_TESTS_PS_COORD_KIT_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/hash.h"
#include "base/vec.h"
#include "ps/coord/coord.h"
#include "ps/status.h"
#include "../../cmd/status_page.h"

#define assert_ok(expr)                                                        \
    do {                                                                       \
        if (expr)                                                              \
            fail_msg("%s", fl_last_error());                                   \
    } while (0)

#define N_QUESTIONS 65536
#define START_MS 1000000

typedef struct world {
    fl_coord *c;
    uint64_t now_ms;
    FL_VEC(char *) lines; /* said since they were looked at */
    uint8_t n_answers[N_QUESTIONS];
    fl_status answers[N_QUESTIONS];
    char reason[FL_ERR_TEXT_MAX]; /* of the last answer that was an error */
    /* Who came to the barrier of the last good answer: "0:10 2:30". */
    char came[256];
    uint64_t items[N_QUESTIONS]; /* of questions for work */
    uint8_t gathered[4096];      /* the last answer to a gather */
    size_t gathered_bytes;
    size_t n_asked;
    int n_over;
    fl_err over;
} world;

/* The page of `flotilla status`, from what a tool is sent. Not inlined: gcc 12
   takes the text for the pointer that the stream keeps. */
__attribute__((noinline, unused)) static char *page_of(const world *w,
                                                       uint64_t now_ms)
{
    fl_job_status *sent = fl_coord_status(w->c, now_ms), *s = NULL;
    fl_pack p = { 0 };
    char *page = NULL;
    size_t len;
    FILE *f = open_memstream(&page, &len);

    assert_non_null(f);
    fl_job_status_pack(sent, &p);
    assert_ok(fl_job_status_unpack(&s, (fl_msg_bytes){ p.data, p.len }));
    status_page(f, s);
    assert_int_equal(fclose(f), 0);
    fl_pack_release(&p);
    fl_job_status_free(s);
    fl_job_status_free(sent);
    return page;
}

/* A question is known by its place in n_answers. */
static void on_answer(void *arg, void *question, fl_status st,
                      const fl_came *came, size_t n_came)
{
    world *w = arg;
    size_t i = (size_t)((uint8_t *)question - w->n_answers);
    int at = 0;

    assert_true(i < w->n_asked);
    w->n_answers[i]++;
    w->answers[i] = st;
    if (st)
        (void)snprintf(w->reason, sizeof(w->reason), "%s", fl_last_error());
    else
        w->came[0] = '\0';
    for (size_t k = 0; k < n_came; k++) {
        assert_true(!st && (!k || came[k - 1].rank < came[k].rank));
        if (at < (int)sizeof(w->came))
            at += snprintf(w->came + at, sizeof(w->came) - (size_t)at,
                           "%s%" PRIu32 ":%" PRIu64, k ? " " : "", came[k].rank,
                           came[k].share);
    }
}

static void on_dispatched(void *arg, void *question, fl_status st,
                          uint64_t item)
{
    world *w = arg;

    w->items[(uint8_t *)question - w->n_answers] = item;
    on_answer(arg, question, st, NULL, 0);
}

static void on_gathered(void *arg, void *question, fl_status st, fl_gathered *g)
{
    world *w = arg;
    const struct iovec *pieces;
    size_t at = 0;
    int n = 0;

    on_answer(arg, question, st, NULL, 0);
    assert_true(!st == (g != NULL));
    pieces = g ? fl_gathered_pieces(g, &n) : NULL;
    for (int i = 0; i < n; at += pieces[i++].iov_len) {
        assert_true(at + pieces[i].iov_len <= sizeof(w->gathered));
        memcpy(w->gathered + at, pieces[i].iov_base, pieces[i].iov_len);
    }
    w->gathered_bytes = at;
}

static void on_say(void *arg, const char *line)
{
    world *w = arg;

    assert_null(strchr(line, '\n'));
    fl_vec_push(&w->lines, fl_strdup(line));
}

static void on_over(void *arg, fl_status why)
{
    world *w = arg;

    w->n_over++;
    fl_err_save(&w->over, why);
}

static inline world *world_new(const fl_coord_options *o)
{
    static const fl_coord_events events = { .answer = on_answer,
                                            .dispatched = on_dispatched,
                                            .gathered = on_gathered,
                                            .log_line = on_say,
                                            .over = on_over };
    world *w = fl_alloc(sizeof(*w));

    w->now_ms = START_MS;
    w->c = fl_coord_new(o, &events, w, w->now_ms);
    return w;
}

static inline void forget_lines(world *w)
{
    for (size_t i = 0; i < w->lines.len; i++)
        fl_free(w->lines.data[i]);
    w->lines.len = 0;
}

static inline void world_free(world *w)
{
    forget_lines(w);
    fl_vec_release(&w->lines);
    fl_coord_free(w->c);
    fl_free(w);
}

/* Time passes as it does on a server: in small steps. */
static inline void pass_ms(world *w, uint64_t ms)
{
    for (uint64_t end = w->now_ms + ms; w->now_ms < end;) {
        w->now_ms += end - w->now_ms < 100 ? end - w->now_ms : 100;
        fl_coord_tick(w->c, w->now_ms);
    }
}

static inline fl_identity member(fl_member_role role, uint32_t rank,
                                 uint32_t process)
{
    return (fl_identity){ .role = role,
                          .rank = rank,
                          .process = process,
                          .boot_id = role == FL_MEMBER_SERVER ? process : 0,
                          .job = "test" };
}

/* Joins from 10.0.0.RANK:4000, and gives the incarnation. */
static inline uint32_t join(world *w, fl_member_role role, uint32_t rank,
                            uint32_t process)
{
    fl_identity who = member(role, rank, process);
    uint32_t incarnation = 0;
    char peer[32];

    (void)snprintf(peer, sizeof(peer), "10.0.0.%u:4000", rank);
    assert_ok(fl_coord_join(w->c, &who, peer, w->now_ms, &incarnation));
    return incarnation;
}

/* The number of the question, for has_answer. Its share is 10 times the rank
   plus 1. */
static inline size_t ask_as(world *w, uint32_t rank, uint32_t incarnation,
                            const char *name, uint64_t generation)
{
    fl_barrier_request q = { .generation = generation,
                             .share = 10 * (uint64_t)rank + 1,
                             .kind = strcmp(name, "round") ? FL_BARRIER_PLAIN
                                                           : FL_BARRIER_ROUND };
    size_t i = w->n_asked++;

    assert_true(i < N_QUESTIONS);
    fl_msg_text(q.name, name);
    fl_coord_barrier(
        w->c,
        &(fl_coord_asker){ rank, incarnation, &w->n_answers[i], w->now_ms },
        &q);
    return i;
}

static inline size_t ask(world *w, uint32_t rank, const char *name,
                         uint64_t generation)
{
    return ask_as(w, rank, fl_coord_incarnation(w->c, FL_MEMBER_TRAINER, rank),
                  name, generation);
}

static inline bool is_open(const world *w, size_t question)
{
    return w->n_answers[question] == 0;
}

static inline bool has_answer(const world *w, size_t question, fl_status st)
{
    return w->n_answers[question] == 1 && w->answers[question] == st;
}

/* All that was said since the last look is this one line, or nothing. */
#define expect_said(w, line)                                                   \
    do {                                                                       \
        if ((w)->lines.len != 1)                                               \
            fail_msg("%zu lines, not '%s'", (w)->lines.len, line);             \
        assert_string_equal((w)->lines.data[0], line);                         \
        forget_lines(w);                                                       \
    } while (0)
#define expect_quiet(w)                                                        \
    do {                                                                       \
        if ((w)->lines.len)                                                    \
            fail_msg("said '%s'", (w)->lines.data[0]);                         \
    } while (0)
#define expect_over(w, st, said)                                               \
    do {                                                                       \
        assert_int_equal((w)->n_over, 1);                                      \
        assert_int_equal((w)->over.status, st);                                \
        assert_string_equal((w)->over.text, said);                             \
    } while (0)

#endif
