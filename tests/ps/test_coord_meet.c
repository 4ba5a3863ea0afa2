/* test_coord_meet.c - thousands of random rounds on several servers: whatever
 * happens in whatever order, a round is decided once, with those that have come to
 * all servers and nobody else, and all that ask are told the same. */
#include "coord_kit.h"

#define N_JOBS 500
#define N_EVENTS 200
#define TRAINERS 4
#define SERVERS_MAX 4
#define LOST_MS 1000

/* A job, and what is true of it as far as the test knows. */
typedef struct job {
    uint64_t draws, round, n_rounds;
    uint32_t n_servers, n_live;
    world *w;
    bool is_live[TRAINERS];
    uint32_t process;
    /* By server and trainer: the incarnation that has come to this round, and
       whether server 0 was told. */
    uint32_t came[SERVERS_MAX][TRAINERS], told[SERVERS_MAX][TRAINERS];
    size_t by_trainer[TRAINERS],
        by_server[SERVERS_MAX]; /* questions; 0: none */
} job;

static uint32_t draw(job *j, uint32_t n)
{
    j->draws += 0x9e3779b97f4a7c15u;
    return (uint32_t)(fl_mix64(j->draws) % n);
}

static uint32_t incarnation_of(const job *j, uint32_t rank)
{
    return fl_coord_incarnation(j->w->c, FL_MEMBER_TRAINER, rank);
}

/* --- what must be true after every event --------------------------------- */

static bool has_come(const job *j, uint32_t rank)
{
    for (uint32_t s = 0; s < j->n_servers; s++)
        if (j->told[s][rank] != incarnation_of(j, rank))
            return false;
    return j->is_live[rank];
}

static bool have_all_come(const job *j)
{
    for (uint32_t rank = 0; rank < TRAINERS; rank++)
        if (j->is_live[rank] && !has_come(j, rank))
            return false;
    return true;
}

static bool is_over(const job *j, size_t question)
{
    return question && has_answer(j->w, question, FL_OK);
}

static bool is_decided(const job *j)
{
    for (uint32_t rank = 0; rank < TRAINERS; rank++)
        if (is_over(j, j->by_trainer[rank]))
            return true;
    for (uint32_t s = 1; s < j->n_servers; s++)
        if (is_over(j, j->by_server[s]))
            return true;
    return false;
}

/* Everybody who waits is told. */
static void expect_decided(const job *j)
{
    char right[64] = "";
    int at = 0;

    for (uint32_t rank = 0; rank < TRAINERS; rank++) {
        if (j->by_trainer[rank] && j->is_live[rank])
            assert_true(is_over(j, j->by_trainer[rank]));
        if (has_come(j, rank))
            at += snprintf(right + at, sizeof(right) - (size_t)at, "%s%u:%u",
                           at ? " " : "", rank, rank + 1);
    }
    for (uint32_t s = 1; s < j->n_servers; s++)
        assert_true(is_over(j, j->by_server[s]));
    assert_string_equal(j->w->came, right);
}

static void check(job *j)
{
    forget_lines(j->w);
    assert_int_equal(j->w->n_over, 0);
    assert_true(is_decided(j) == have_all_come(j));
    if (!is_decided(j))
        return;
    expect_decided(j);
    j->round++;
    j->n_rounds++;
    memset(j->came, 0, sizeof(j->came));
    memset(j->told, 0, sizeof(j->told));
    memset(j->by_trainer, 0, sizeof(j->by_trainer));
    memset(j->by_server, 0, sizeof(j->by_server));
}

/* --- events ---------------------------------------------------------------- */

static fl_coord_asker asker(job *j, uint32_t rank, size_t *question)
{
    *question = j->w->n_asked++; /* the first is never asked, as 0 is none */
    return (fl_coord_asker){ rank, incarnation_of(j, rank),
                             &j->w->n_answers[*question], j->w->now_ms };
}

/* Asks again when it waits there already. */
static void come_to_server_0(job *j, uint32_t rank)
{
    size_t was = j->by_trainer[rank];
    fl_coord_asker who = asker(j, rank, &j->by_trainer[rank]);

    j->came[0][rank] = j->told[0][rank] = incarnation_of(j, rank);
    fl_coord_meet(j->w->c, &who, j->round, rank + 1);
    if (was)
        assert_int_equal(j->w->n_answers[was], 1);
}

static void tell(job *j, uint32_t server)
{
    fl_round_guest guests[TRAINERS];
    fl_round_guests list = { .data = guests };
    size_t was = j->by_server[server];
    fl_coord_asker who = asker(j, server, &j->by_server[server]);

    for (uint32_t rank = 0; rank < TRAINERS; rank++) {
        if (!j->came[server][rank])
            continue;
        j->told[server][rank] = j->came[server][rank];
        guests[list.len++] = (fl_round_guest){ rank, j->came[server][rank] };
    }
    fl_coord_round_came(j->w->c, &who, j->round, &list);
    if (was)
        assert_true(has_answer(j->w, was, FL_ERR_CLOSED));
}

static void come(job *j, uint32_t rank)
{
    uint32_t server = draw(j, j->n_servers);

    if (!j->is_live[rank])
        return;
    if (!server) {
        come_to_server_0(j, rank);
        return;
    }
    j->came[server][rank] = incarnation_of(j, rank);
    if (draw(j, 2))
        tell(j, server);
}

/* Its question is answered, and it comes to server 0 again if it returns. */
static void withdraw(job *j, uint32_t rank)
{
    if (j->by_trainer[rank])
        assert_true(has_answer(j->w, j->by_trainer[rank], FL_ERR_CLOSED));
    j->by_trainer[rank] = 0;
    j->came[0][rank] = j->told[0][rank] = 0;
}

static void begin_anew(job *j, uint32_t rank)
{
    fl_coord_down(j->w->c, FL_MEMBER_TRAINER, rank, "", j->w->now_ms);
    (void)join(j->w, FL_MEMBER_TRAINER, rank, ++j->process);
    j->n_live += !j->is_live[rank];
    j->is_live[rank] = true;
    withdraw(j, rank);
}

static void lose(job *j, uint32_t rank)
{
    if (!j->is_live[rank] || j->n_live == 1)
        return;
    j->is_live[rank] = false;
    j->n_live--;
    if (draw(j, 2)) {
        fl_coord_leave(j->w->c, FL_MEMBER_TRAINER, rank, j->w->now_ms);
    } else {
        fl_coord_down(j->w->c, FL_MEMBER_TRAINER, rank, "", j->w->now_ms);
        pass_ms(j->w, LOST_MS + 100);
    }
    withdraw(j, rank);
}

/* One that was lost is back, and waits on the other servers still. */
static void come_back(job *j, uint32_t rank)
{
    fl_coord_up(j->w->c, FL_MEMBER_TRAINER, rank, j->w->now_ms);
    for (size_t i = 0; i < j->w->lines.len; i++)
        if (strstr(j->w->lines.data[i], "counts again")) {
            j->is_live[rank] = true;
            j->n_live++;
        }
}

static void happen(job *j)
{
    uint32_t rank = draw(j, TRAINERS), dice = draw(j, 40);

    if (dice == 0)
        lose(j, rank);
    else if (dice == 1)
        begin_anew(j, rank);
    else if (dice < 4)
        come_back(j, rank);
    else if (dice < 10 && j->n_servers > 1)
        tell(j, 1 + draw(j, j->n_servers - 1));
    else
        come(j, rank);
    check(j);
}

/* --- tests ----------------------------------------------------------------- */

static void job_init(job *j, uint64_t seed)
{
    *j = (job){ .draws = seed, .n_live = TRAINERS, .process = 1000 };
    j->n_servers = 1 + draw(j, SERVERS_MAX);
    j->w = world_new(&(fl_coord_options){ .n_servers = (int)j->n_servers,
                                          .n_trainers = TRAINERS,
                                          .connect_timeout_ms = 5000,
                                          .restart_timeout_ms = LOST_MS,
                                          .go_on_without = true });
    j->w->n_asked = 1;
    for (uint32_t s = 1; s < j->n_servers; s++)
        (void)join(j->w, FL_MEMBER_SERVER, s, 50 + s);
    for (uint32_t rank = 0; rank < TRAINERS; rank++) {
        (void)join(j->w, FL_MEMBER_TRAINER, rank, 100 + rank);
        j->is_live[rank] = true;
    }
}

/* Who has not come to it does so now. */
static void end_round(job *j)
{
    uint64_t round = j->round;

    for (uint32_t rank = 0; rank < TRAINERS; rank++) {
        if (!j->is_live[rank] || j->round != round)
            continue;
        for (uint32_t s = 1; s < j->n_servers; s++)
            j->came[s][rank] = incarnation_of(j, rank);
        if (!j->by_trainer[rank])
            come_to_server_0(j, rank);
        check(j);
    }
    for (uint32_t s = 1; s < j->n_servers && j->round == round; s++) {
        tell(j, s);
        check(j);
    }
    assert_true(j->round == round + 1);
}

static void rounds_are_decided_with_those_that_are_everywhere(void **state)
{
    uint64_t n_rounds = 0;

    (void)state;
    for (uint64_t seed = 0; seed < N_JOBS; seed++) {
        job j;

        job_init(&j, seed);
        for (int i = 0; i < N_EVENTS; i++)
            happen(&j);
        end_round(&j);
        end_round(&j);
        n_rounds += j.n_rounds;
        world_free(j.w);
    }
    assert_true(n_rounds > N_JOBS * 4);
}

/* What a server tells that is no server, or of trainers that there are not. */
static void wrong_words_of_servers_are_refused(void **state)
{
    fl_round_guest guest = { .rank = TRAINERS, .incarnation = 1 };
    fl_round_guests guests = { .data = &guest, .len = 1 };
    size_t question;
    fl_coord_asker who;
    job j;

    (void)state;
    for (uint64_t seed = 0;; seed++) {
        job_init(&j, seed);
        if (j.n_servers == 2)
            break;
        world_free(j.w);
    }
    who = asker(&j, 1, &question);
    fl_coord_round_came(j.w->c, &who, 0, &guests);
    assert_true(has_answer(j.w, question, FL_ERR_INVAL));
    assert_non_null(strstr(j.w->reason, "and the job has 4"));
    guests.len = 0;
    for (uint32_t rank = 0; rank < 4; rank += 2) {
        who = asker(&j, rank, &question);
        fl_coord_round_came(j.w->c, &who, 0, &guests);
        assert_true(has_answer(j.w, question, FL_ERR_INVAL));
    }
    world_free(j.w);
}

static void the_end_of_the_job_is_told_to_servers_that_wait(void **state)
{
    job j;

    (void)state;
    job_init(&j, 1);
    while (j.n_servers == 1) {
        world_free(j.w);
        job_init(&j, j.draws);
    }
    come_to_server_0(&j, 0);
    tell(&j, 1);
    fl_coord_end(j.w->c, fl_err_set(FL_ERR_CLOSED, "enough"));
    assert_true(has_answer(j.w, j.by_trainer[0], FL_ERR_CLOSED));
    assert_true(has_answer(j.w, j.by_server[1], FL_ERR_CLOSED));
    j.by_server[1] = 0;
    tell(&j, 1);
    assert_true(has_answer(j.w, j.by_server[1], FL_ERR_CLOSED));
    assert_non_null(strstr(j.w->reason, "enough"));
    world_free(j.w);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(rounds_are_decided_with_those_that_are_everywhere),
        cmocka_unit_test(wrong_words_of_servers_are_refused),
        cmocka_unit_test(the_end_of_the_job_is_told_to_servers_that_wait),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
