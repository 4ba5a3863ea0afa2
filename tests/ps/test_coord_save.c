/* test_coord_save.c - saves of a job: phases, rounds, and members that fail. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "ps/coord/coord_save.h"

#define START_MS 1000
#define TIMEOUT_MS 5000
#define MEMBERS_MAX 4

/* What a question was answered with; its address is the question. */
typedef struct answer {
    int n;
    fl_status st;
    uint32_t order, kind, has_cuts;
    uint64_t round, number;
    char text[FL_ERR_TEXT_MAX]; /* an error, or a version */
    char base[FL_SAVE_VERSION_ROOM], whole[FL_SAVE_WHOLE_ROOM];
} answer;

typedef struct world {
    fl_coord *c;
    uint64_t now_ms;
    answer trainers[MEMBERS_MAX], servers[MEMBERS_MAX];
    answer old; /* a question that a newer one has replaced */
    answer saves[MEMBERS_MAX];
    uint32_t n_trainer_parts, n_server_parts; /* of the last commit */
    char lines[4096];
} world;

/* --- events --------------------------------------------------------------- */

static void note(answer *a, fl_status st)
{
    a->n++;
    a->st = st;
    a->order = 0;
    (void)snprintf(a->text, sizeof(a->text), "%s", st ? fl_last_error() : "");
}

static void on_saved(void *arg, void *question, fl_status st,
                     const fl_save_reply *r)
{
    answer *a = question;

    (void)arg;
    note(a, st);
    if (st)
        return;
    (void)snprintf(a->text, sizeof(a->text), "%s", r->version);
    memcpy(a->base, r->base, sizeof(a->base));
    memcpy(a->whole, r->whole, sizeof(a->whole));
}

static void on_cut(void *arg, void *question, fl_status st,
                   const fl_cut_reply *r)
{
    answer *a = question;

    (void)arg;
    note(a, st);
    if (st)
        return;
    a->order = r->order;
    a->round = r->round;
    a->number = r->number;
}

static void on_work(void *arg, void *question, fl_status st,
                    const fl_save_work_reply *r, fl_save_parts *parts)
{
    world *w = arg;
    answer *a = question;

    note(a, st);
    if (!st) {
        a->order = r->order;
        a->number = r->number;
        a->kind = r->kind;
        a->has_cuts = r->has_cuts;
        (void)snprintf(a->text, sizeof(a->text), "%s", r->version);
        memcpy(a->base, r->base, sizeof(a->base));
    }
    if (parts) {
        w->n_trainer_parts = parts->n_trainers;
        w->n_server_parts = parts->n_servers;
        fl_save_parts_free(parts);
    }
}

static void on_answer(void *arg, void *question, fl_status st,
                      const fl_came *came, size_t n_came)
{
    (void)arg;
    (void)came;
    (void)n_came;
    note(question, st);
}

static void on_line(void *arg, const char *line)
{
    world *w = arg;
    size_t len = strlen(w->lines);

    (void)snprintf(w->lines + len, sizeof(w->lines) - len, "%s\n", line);
}

static void on_over(void *arg, fl_status why)
{
    (void)arg;
    (void)why;
}

/* --- a world -------------------------------------------------------------- */

static void join(world *w, fl_member_role role, uint32_t rank)
{
    fl_identity who = { .role = role, .rank = rank, .process = 100 + rank };
    uint32_t incarnation;

    assert_int_equal(fl_coord_join(w->c, &who, "here", w->now_ms, &incarnation),
                     FL_OK);
}

static world *make(int n_servers, int n_trainers, const fl_coord_options *more)
{
    static const fl_coord_events events = { .answer = on_answer,
                                            .saved = on_saved,
                                            .cut = on_cut,
                                            .save_work = on_work,
                                            .log_line = on_line,
                                            .over = on_over };
    fl_coord_options o = more ? *more : (fl_coord_options){ 0 };
    world *w = fl_alloc(sizeof(*w));

    o.n_servers = n_servers;
    o.n_trainers = n_trainers;
    o.connect_timeout_ms = o.restart_timeout_ms = 60000;
    o.save_timeout_ms = TIMEOUT_MS;
    w->now_ms = START_MS;
    w->c = fl_coord_new(&o, &events, w, w->now_ms);
    for (int i = 0; i < n_trainers; i++)
        join(w, FL_MEMBER_TRAINER, (uint32_t)i);
    for (int i = 1; i < n_servers; i++)
        join(w, FL_MEMBER_SERVER, (uint32_t)i);
    return w;
}

static void destroy(world *w)
{
    fl_coord_free(w->c);
    fl_free(w);
}

static void cut(world *w, uint32_t rank, fl_cut_state state, const char *brings)
{
    fl_coord_asker who = { .rank = rank,
                           .incarnation = 1,
                           .question = &w->trainers[rank],
                           .now_ms = w->now_ms };
    fl_cut_request q = { .number = w->trainers[rank].number,
                         .state = (uint32_t)state,
                         .bytes = { brings, brings ? strlen(brings) : 0 } };

    fl_coord_cut(w->c, &who, &q);
}

static void work(world *w, uint32_t rank, fl_save_state state,
                 const char *brings)
{
    fl_coord_asker who = { .rank = rank,
                           .question = &w->servers[rank],
                           .now_ms = w->now_ms };
    fl_save_work_request q = { .number = w->servers[rank].number,
                               .state = (uint32_t)state,
                               .bytes = { brings,
                                          brings ? strlen(brings) : 0 } };

    fl_coord_save_work(w->c, &who, &q);
}

/* A server that is ready, and says what it knows of the version before. */
static void prepared(world *w, uint32_t rank, const char *base,
                     const char *whole)
{
    fl_coord_asker who = { .rank = rank,
                           .question = &w->servers[rank],
                           .now_ms = w->now_ms };
    fl_save_work_request q = { .number = w->servers[rank].number,
                               .state = FL_SAVE_PREPARED,
                               .bytes = { "000002-abcdef", rank ? 0 : 13 } };

    assert_int_equal(w->servers[rank].order, FL_SAVE_PREPARE);
    assert_int_equal(w->servers[rank].kind, FL_SAVE_KIND_DELTA);
    fl_msg_text(q.base, base);
    fl_msg_text(q.whole, whole);
    fl_coord_save_work(w->c, &who, &q);
}

static void come_to_round(world *w, uint32_t rank, uint64_t round,
                          answer *question)
{
    fl_coord_asker who = { .rank = rank,
                           .incarnation = 1,
                           .question = question,
                           .now_ms = w->now_ms };

    fl_coord_barrier(w->c, &who,
                     &(fl_barrier_request){ .name = "round",
                                            .generation = round,
                                            .kind = FL_BARRIER_ROUND });
}

/* Servers with nothing to do and trainers that train. */
static void watch(world *w, uint32_t n_servers, uint32_t n_trainers)
{
    for (uint32_t i = 0; i < n_servers; i++)
        work(w, i, FL_SAVE_IDLE, NULL);
    for (uint32_t i = 0; i < n_trainers; i++)
        cut(w, i, FL_CUT_WATCHING, NULL);
}

static void ask_save(world *w, int i, const char *dir)
{
    fl_coord_save(w->c, &w->saves[i],
                  &(fl_save_wanted){ .dir = { dir, strlen(dir) } }, w->now_ms);
}

static void ask_delta(world *w, int i, const char *dir)
{
    fl_coord_save(w->c, &w->saves[i],
                  &(fl_save_wanted){ .dir = { dir, strlen(dir) },
                                     .kind = FL_SAVE_KIND_DELTA },
                  w->now_ms);
}

static void prepare(world *w, uint32_t n_servers)
{
    for (uint32_t i = 0; i < n_servers; i++) {
        assert_int_equal(w->servers[i].order, FL_SAVE_PREPARE);
        work(w, i, FL_SAVE_PREPARED, i ? NULL : "000001-abcdef");
    }
}

static void expect_orders(const world *w, uint32_t n, fl_cut_order order)
{
    for (uint32_t i = 0; i < n; i++)
        assert_int_equal(w->trainers[i].order, order);
}

/* --- tests ---------------------------------------------------------------- */

static void a_save_goes_through_its_phases(void **state)
{
    world *w = make(2, 2, NULL);

    (void)state;
    watch(w, 2, 2);
    ask_save(w, 0, "/m");
    expect_orders(w, 2, FL_CUT_COME);
    assert_int_equal(w->servers[0].order, FL_SAVE_PREPARE);
    assert_int_equal(w->servers[1].order, 0); /* the version is not named yet */
    prepare(w, 2);
    cut(w, 0, FL_CUT_READY, "zero");
    assert_int_equal(w->servers[0].order, FL_SAVE_PREPARE);
    cut(w, 1, FL_CUT_READY, "one");
    assert_int_equal(w->servers[0].order, FL_SAVE_TAKE_CUT);
    assert_int_equal(w->servers[1].order, FL_SAVE_TAKE_CUT);
    work(w, 0, FL_SAVE_CUT, NULL);
    expect_orders(w, 2, FL_CUT_COME); /* not before all servers have it */
    work(w, 1, FL_SAVE_CUT, NULL);
    expect_orders(w, 2, FL_CUT_GO_ON);
    work(w, 0, FL_SAVE_WRITTEN, "part 0");
    work(w, 1, FL_SAVE_WRITTEN, "part 1");
    assert_int_equal(w->servers[0].order, FL_SAVE_COMMIT);
    assert_int_equal(w->n_trainer_parts, 2);
    assert_int_equal(w->n_server_parts, 2);
    assert_int_equal(w->saves[0].n, 0);
    work(w, 0, FL_SAVE_COMMITTED, NULL);
    assert_int_equal(w->saves[0].n, 1);
    assert_string_equal(w->saves[0].text, "000001-abcdef");
    assert_int_equal(w->servers[0].order, FL_SAVE_END);
    assert_int_equal(w->servers[1].order, FL_SAVE_END);
    destroy(w);
}

/* From the cut to the end. */
static void write_and_commit(world *w, uint32_t n_servers)
{
    for (uint32_t i = 0; i < n_servers; i++) {
        assert_int_equal(w->servers[i].order, FL_SAVE_TAKE_CUT);
        work(w, i, FL_SAVE_CUT, NULL);
    }
    for (uint32_t i = 0; i < n_servers; i++)
        work(w, i, FL_SAVE_WRITTEN, "part");
    work(w, 0, FL_SAVE_COMMITTED, NULL);
}

static void a_delta_is_made_when_all_servers_know_what_changed(void **state)
{
    world *w = make(2, 1, NULL);

    (void)state;
    watch(w, 2, 1);
    ask_delta(w, 0, "/m");
    prepared(w, 0, "000001-123456", "");
    assert_string_equal(w->servers[1].base, "000001-123456");
    prepared(w, 1, "", "");
    cut(w, 0, FL_CUT_READY, "zero");
    for (int i = 0; i < 2; i++)
        assert_string_equal(w->servers[i].base, "000001-123456");
    write_and_commit(w, 2);
    assert_string_equal(w->saves[0].text, "000002-abcdef");
    assert_string_equal(w->saves[0].base, "000001-123456");
    assert_string_equal(w->saves[0].whole, "");
    assert_non_null(strstr(w->lines, "it has what changed since 000001-1"));
    for (int i = 0; i < 2; i++) { /* what they stand on from now on */
        assert_int_equal(w->servers[i].order, FL_SAVE_END);
        assert_string_equal(w->servers[i].text, "000002-abcdef");
    }
    destroy(w);
}

static void one_server_that_does_not_know_makes_it_a_whole_save(void **state)
{
    world *w = make(2, 1, NULL);

    (void)state;
    watch(w, 2, 1);
    ask_delta(w, 0, "/m");
    prepared(w, 0, "000001-123456", "");
    prepared(w, 1, "", "it was emptied");
    cut(w, 0, FL_CUT_READY, "zero");
    for (int i = 0; i < 2; i++)
        assert_string_equal(w->servers[i].base, "");
    write_and_commit(w, 2);
    assert_string_equal(w->saves[0].base, "");
    assert_string_equal(w->saves[0].whole, "server 1: it was emptied");
    assert_non_null(
        strstr(w->lines, "it is a whole one: server 1: it was emptied"));
    destroy(w);
}

static void a_delta_and_a_whole_save_are_two(void **state)
{
    world *w = make(1, 1, NULL);

    (void)state;
    watch(w, 1, 1);
    ask_delta(w, 0, "/m");
    ask_save(w, 1, "/m");
    ask_delta(w, 2, "/m");
    prepared(w, 0, "", "there is no version yet");
    cut(w, 0, FL_CUT_READY, "zero");
    write_and_commit(w, 1);
    assert_int_equal(w->saves[0].n, 1);
    assert_int_equal(w->saves[1].n, 0);
    assert_int_equal(w->saves[2].n, 1);
    destroy(w);
}

/* Servers that took no cut count it nevertheless, and none stands on it. */
static void the_end_of_a_save_says_whether_it_counts_and_has_cuts(void **state)
{
    world *w = make(2, 1, NULL);

    (void)state;
    watch(w, 2, 1);
    ask_save(w, 0, "/m");
    prepare(w, 2);
    work(w, 1, FL_SAVE_FAILED, "no room"); /* while trainers come */
    assert_int_equal(w->servers[0].order, FL_SAVE_END);
    assert_int_equal(w->servers[0].has_cuts, 0);
    watch(w, 2, 1);
    ask_save(w, 1, "/m");
    prepare(w, 2);
    cut(w, 0, FL_CUT_READY, "zero");
    work(w, 0, FL_SAVE_CUT, NULL);
    work(w, 1, FL_SAVE_FAILED, "no memory");
    for (int i = 0; i < 2; i++) {
        assert_int_equal(w->servers[i].order, FL_SAVE_END);
        assert_int_equal(w->servers[i].has_cuts, 1);
        assert_string_equal(w->servers[i].text, "");
    }
    assert_int_equal(w->saves[1].n, 1);
    destroy(w);
}

static void deltas_are_made_between_whole_saves_by_time(void **state)
{
    fl_coord_options o = { .save_dir = "/auto",
                           .save_every_ms = 10000,
                           .save_delta_every_ms = 1000 };
    world *w = make(1, 1, &o);
    uint32_t kinds[11];

    (void)state;
    watch(w, 1, 1);
    fl_coord_tick(w->c, w->now_ms);
    for (int i = 0; i < 11; i++) {
        w->now_ms += 999;
        fl_coord_tick(w->c, w->now_ms);
        w->now_ms += 1;
        fl_coord_tick(w->c, w->now_ms);
        assert_int_equal(w->servers[0].order, FL_SAVE_PREPARE);
        kinds[i] = w->servers[0].kind;
        work(w, 0, FL_SAVE_PREPARED, "000001-abcdef");
        cut(w, 0, FL_CUT_READY, "zero");
        write_and_commit(w, 1);
        watch(w, 1, 1);
    }
    for (int i = 0; i < 11; i++)
        assert_int_equal(kinds[i],
                         i == 9 ? FL_SAVE_KIND_FULL : FL_SAVE_KIND_DELTA);
    destroy(w);
}

static void who_asks_for_the_same_directory_gets_the_same_save(void **state)
{
    world *w = make(1, 1, NULL);

    (void)state;
    watch(w, 1, 1);
    ask_save(w, 0, "/m");
    ask_save(w, 1, "/m");
    ask_save(w, 2, "/other");
    prepare(w, 1);
    cut(w, 0, FL_CUT_READY, "x");
    work(w, 0, FL_SAVE_CUT, NULL);
    ask_save(w, 3, "/m"); /* too late for this one */
    work(w, 0, FL_SAVE_WRITTEN, "p");
    work(w, 0, FL_SAVE_COMMITTED, NULL);
    assert_int_equal(w->saves[0].n, 1);
    assert_int_equal(w->saves[1].n, 1);
    assert_int_equal(w->saves[2].n, 0);
    assert_int_equal(w->saves[3].n, 0);
    work(w, 0, FL_SAVE_IDLE, NULL);
    assert_int_equal(w->servers[0].order, FL_SAVE_PREPARE);
    assert_int_equal(w->servers[0].number, 2);
    destroy(w);
}

static void trainers_that_do_not_come_are_named(void **state)
{
    world *w = make(1, 3, NULL);

    (void)state;
    watch(w, 1, 3);
    ask_save(w, 0, "/m");
    prepare(w, 1);
    cut(w, 0, FL_CUT_READY, "x");
    cut(w, 1, FL_CUT_BUSY, NULL);
    w->now_ms += TIMEOUT_MS;
    fl_coord_tick(w->c, w->now_ms);
    assert_int_equal(w->saves[0].st, FL_ERR_TIMEOUT);
    assert_non_null(strstr(w->saves[0].text,
                           "trainer 1 (a batch is under way), trainer 2"));
    assert_int_equal(w->trainers[0].order, FL_CUT_GO_ON);
    assert_int_equal(w->trainers[1].order, FL_CUT_GO_ON);
    assert_int_equal(w->servers[0].order, FL_SAVE_END);
    assert_non_null(
        strstr(w->lines, "the model that was there stays as it was"));
    cut(w, 2, FL_CUT_READY, "late");
    assert_int_equal(w->trainers[2].order, FL_CUT_GO_ON);
    destroy(w);
}

static void a_server_that_fails_ends_the_save(void **state)
{
    world *w = make(2, 1, NULL);

    (void)state;
    watch(w, 2, 1);
    ask_save(w, 0, "/m");
    prepare(w, 2);
    cut(w, 0, FL_CUT_READY, "x");
    work(w, 0, FL_SAVE_CUT, NULL);
    work(w, 1, FL_SAVE_FAILED, "no room on the disk");
    assert_int_equal(w->saves[0].st, FL_ERR_IO);
    assert_non_null(
        strstr(w->saves[0].text, "saving to /m: server 1: no room on"));
    assert_int_equal(w->trainers[0].order, FL_CUT_GO_ON);
    assert_int_equal(w->servers[0].order, FL_SAVE_END);
    assert_int_equal(w->servers[1].order, FL_SAVE_END);
    destroy(w);
}

/* Trainer 0 has stopped before round 0, and trainer 1 is in it. */
static void make_round_and_come_again(fl_cut_state stopped)
{
    world *w = make(1, 2, NULL);
    answer in_round = { 0 };

    watch(w, 1, 2);
    ask_save(w, 0, "/m");
    prepare(w, 1);
    cut(w, 0, stopped, "x");
    cut(w, 1, FL_CUT_BUSY, NULL);
    come_to_round(w, 1, 0, &in_round);
    assert_int_equal(in_round.n, 0); /* it is not made without trainer 0 */
    fl_coord_tick(w->c, w->now_ms);
    assert_int_equal(w->trainers[0].order, FL_CUT_REOPEN);
    assert_int_equal(w->trainers[0].round, 1);
    come_to_round(w, 0, 0, &w->old);
    assert_int_equal(in_round.n, 1);
    cut(w, 1, FL_CUT_READY, "y");
    /* What trainer 0 brought was of before the round. */
    assert_int_not_equal(w->servers[0].order, FL_SAVE_TAKE_CUT);
    cut(w, 0, FL_CUT_READY, "x");
    assert_int_equal(w->servers[0].order, FL_SAVE_TAKE_CUT);
    destroy(w);
}

static void an_idle_trainer_makes_the_round_that_others_wait_in(void **state)
{
    (void)state;
    make_round_and_come_again(FL_CUT_IDLE);
}

static void so_does_one_that_was_told_an_earlier_round(void **state)
{
    (void)state;
    make_round_and_come_again(FL_CUT_READY);
}

static void who_waits_for_a_calling_trainer_is_held(void **state)
{
    world *w = make(1, 2, NULL);
    answer in_round = { 0 };

    (void)state;
    watch(w, 1, 2);
    ask_save(w, 0, "/m"); /* trainer 0's program waits for it */
    prepare(w, 1);
    cut(w, 0, FL_CUT_CALLING, "x");
    cut(w, 1, FL_CUT_BUSY, NULL);
    come_to_round(w, 1, 0, &in_round);
    fl_coord_tick(w->c, w->now_ms);
    assert_int_equal(w->trainers[1].order, FL_CUT_HOLD);
    cut(w, 1, FL_CUT_HELD, "y");
    assert_int_equal(w->servers[0].order, FL_SAVE_TAKE_CUT);
    assert_int_equal(in_round.n, 0);
    work(w, 0, FL_SAVE_CUT, NULL);
    expect_orders(w, 2, FL_CUT_GO_ON);
    destroy(w);
}

/* It has come to server 0, and its gradients are on their way to server 1. */
static void who_is_on_its_way_to_a_server_is_not_held_yet(void **state)
{
    world *w = make(2, 2, NULL);
    fl_round_guest one = { .rank = 1, .incarnation = 1 };
    fl_round_guests guests = { .data = &one, .len = 1 };
    answer in_round = { 0 }, told = { 0 };
    fl_coord_asker trainer = {
        .rank = 1, .incarnation = 1, .question = &in_round, .now_ms = w->now_ms
    };
    fl_coord_asker server = { .rank = 1,
                              .question = &told,
                              .now_ms = w->now_ms };

    (void)state;
    watch(w, 2, 2);
    ask_save(w, 0, "/m");
    prepare(w, 2);
    cut(w, 0, FL_CUT_CALLING, "x");
    cut(w, 1, FL_CUT_BUSY, NULL);
    fl_coord_meet(w->c, &trainer, 0, 1);
    fl_coord_tick(w->c, w->now_ms);
    assert_int_not_equal(w->trainers[1].order, FL_CUT_HOLD);
    fl_coord_round_came(w->c, &server, 0, &guests);
    assert_int_equal(w->trainers[1].order, FL_CUT_HOLD);
    cut(w, 1, FL_CUT_HELD, "y");
    assert_int_equal(w->servers[1].order, FL_SAVE_TAKE_CUT);
    assert_int_equal(in_round.n + told.n, 0);
    destroy(w);
}

static void a_trainer_that_leaves_is_not_waited_for(void **state)
{
    world *w = make(1, 2, NULL);

    (void)state;
    watch(w, 1, 2);
    ask_save(w, 0, "/m");
    prepare(w, 1);
    cut(w, 0, FL_CUT_READY, "x");
    fl_coord_leave(w->c, FL_MEMBER_TRAINER, 1, w->now_ms);
    assert_int_equal(w->servers[0].order, FL_SAVE_TAKE_CUT);
    destroy(w);
}

static void a_trainer_that_comes_during_the_cuts_ends_the_save(void **state)
{
    world *w = make(1, 2, NULL);

    (void)state;
    watch(w, 1, 2);
    ask_save(w, 0, "/m");
    prepare(w, 1);
    cut(w, 0, FL_CUT_READY, "x");
    cut(w, 1, FL_CUT_READY, "y");
    cut(w, 1, FL_CUT_WATCHING, NULL); /* as a new process does */
    assert_int_equal(w->saves[0].st, FL_ERR_CLOSED);
    assert_int_equal(w->trainers[0].order, FL_CUT_GO_ON);
    destroy(w);
}

static void a_job_saves_itself_by_steps(void **state)
{
    fl_coord_options o = { .save_dir = "/auto", .save_every_steps = 10 };
    world *w = make(1, 1, &o);

    (void)state;
    watch(w, 1, 1);
    fl_coord_tick(w->c, w->now_ms);
    (void)fl_coord_step(w->c, 9);
    fl_coord_tick(w->c, w->now_ms);
    assert_int_equal(w->servers[0].order, 0);
    (void)fl_coord_step(w->c, 1);
    fl_coord_tick(w->c, w->now_ms);
    assert_int_equal(w->servers[0].order, FL_SAVE_PREPARE);
    expect_orders(w, 1, FL_CUT_COME);
    destroy(w);
}

static void the_end_of_the_job_ends_its_saves(void **state)
{
    world *w = make(1, 1, NULL);

    (void)state;
    watch(w, 1, 1);
    ask_save(w, 0, "/m");
    ask_save(w, 1, "/other");
    fl_coord_leave(w->c, FL_MEMBER_TRAINER, 0, w->now_ms);
    assert_int_equal(w->saves[0].n, 1);
    assert_int_equal(w->saves[1].n, 1);
    assert_int_equal(w->saves[1].st, FL_ERR_CLOSED);
    ask_save(w, 2, "/m");
    assert_int_equal(w->saves[2].st, FL_ERR_CLOSED);
    destroy(w);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_save_goes_through_its_phases),
        cmocka_unit_test(a_delta_is_made_when_all_servers_know_what_changed),
        cmocka_unit_test(one_server_that_does_not_know_makes_it_a_whole_save),
        cmocka_unit_test(a_delta_and_a_whole_save_are_two),
        cmocka_unit_test(the_end_of_a_save_says_whether_it_counts_and_has_cuts),
        cmocka_unit_test(deltas_are_made_between_whole_saves_by_time),
        cmocka_unit_test(who_asks_for_the_same_directory_gets_the_same_save),
        cmocka_unit_test(trainers_that_do_not_come_are_named),
        cmocka_unit_test(a_server_that_fails_ends_the_save),
        cmocka_unit_test(an_idle_trainer_makes_the_round_that_others_wait_in),
        cmocka_unit_test(so_does_one_that_was_told_an_earlier_round),
        cmocka_unit_test(who_waits_for_a_calling_trainer_is_held),
        cmocka_unit_test(who_is_on_its_way_to_a_server_is_not_held_yet),
        cmocka_unit_test(a_trainer_that_leaves_is_not_waited_for),
        cmocka_unit_test(a_trainer_that_comes_during_the_cuts_ends_the_save),
        cmocka_unit_test(a_job_saves_itself_by_steps),
        cmocka_unit_test(the_end_of_the_job_ends_its_saves),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
