/* test_rounds_servers.c - rounds of two servers: whoever is lost, leaves, begins
 * anew or has to ask again, both apply the same gradients, once. */
#include "sim_job_kit.h"

#define N_KEYS 20
#define WHILE_MS 1000 /* longer than a tick, shorter than any patience */
#define LOST_MS 5000  /* longer than restart_timeout_ms */

enum { SERVERS = 2 };

/* What a trainer has sent for a round to a server. */
typedef struct visit {
    answer rows, round;
} visit;

static void begin(job *j, bool go_on_without)
{
    job_begin(j, go_on_without);
    declare(&j->c, &j->t[0], KIT_TABLE);
}

/* The same rows on either server: their hashes are equal when both have applied
   the same. The dice tell the gradients of incarnations apart. */
static fl_pack pack_rows(uint64_t round, const trainer *t)
{
    uint32_t dice = 100 * (uint32_t)round + 10 * t->me.rank + t->me.incarnation;
    fl_rows_item it = { .rows.n = N_KEYS, .rows.lr = 0.5 };
    fl_pack p = { 0 };

    fl_pack_u64(&p, round);
    pack_rows_head(&p, FL_MSG_ROUND_PUSH, &it, 1);
    for (uint64_t i = 0; i < N_KEYS; i++)
        fl_pack_u64(&p, 3 * t->me.rank + i);
    for (uint64_t i = 0; i < N_KEYS * KIT_DIM; i++) {
        float g = (float)(fl_mix64(((uint64_t)dice << 32) + i) % 8) / 8;

        fl_pack_bytes(&p, &g, sizeof(g));
    }
    return p;
}

static void send_round(const trainer *t, int server, uint64_t round, answer *a)
{
    fl_pack p = { 0 };

    fl_pack_u64(&p, round);
    fl_pack_u64(&p, t->me.rank + 1); /* samples */
    fl_pack_u32(&p, FL_WEIGH_BY_SAMPLES);
    fl_pack_u32(&p, 0); /* blocks */
    send_to(t->links[server], FL_MSG_ROUND, REPEATED, &p, a);
}

static void come(const trainer *t, int server, uint64_t round, visit *v)
{
    fl_pack p = pack_rows(round, t);

    send_to(t->links[server], FL_MSG_ROUND_PUSH, ONCE, &p, &v->rows);
    send_round(t, server, round, &v->round);
}

static void come_everywhere(const trainer *t, uint64_t round, visit v[SERVERS])
{
    for (int s = 0; s < SERVERS; s++)
        come(t, s, round, &v[s]);
}

static void expect_visit(job *j, visit *v, fl_status st, const char *words)
{
    expect_answer(&j->c, &v->rows, FL_OK, "");
    expect_answer(&j->c, &v->round, st, words);
}

static void expect_visits(job *j, visit v[SERVERS], fl_status st,
                          const char *words)
{
    for (int s = 0; s < SERVERS; s++)
        expect_visit(j, &v[s], st, words);
}

/* What was sent over a link that is closed. */
static void forget_visit(visit *v)
{
    assert_true(v->rows.is_done && v->round.is_done);
    answer_release(&v->rows);
    answer_release(&v->round);
}

static void expect_waiting(job *j, visit *v)
{
    run(&j->c, WHILE_MS);
    assert_false(v->round.is_done);
}

/* A round of these trainers, from their coming to its end. */
static void make_round(job *j, uint64_t round, int first, int n)
{
    visit v[TRAINERS][SERVERS];

    for (int i = first; i < first + n; i++)
        come_everywhere(&j->t[i], round, v[i]);
    for (int i = first; i < first + n; i++)
        expect_visits(j, v[i], FL_OK, "");
}

/* Of both servers. */
static uint64_t hash_of_both(job *j)
{
    uint64_t hash = hash_of(&j->c, 0);

    assert_true(hash_of(&j->c, 1) == hash);
    return hash;
}

/* What round 0 of the first n trainers makes, when there is nobody else. */
static uint64_t right_hash(int n)
{
    uint64_t hash;
    job j;

    begin(&j, true);
    for (int i = n; i < TRAINERS; i++)
        trainer_leave(&j.c, &j.t[i]);
    make_round(&j, 0, 0, n);
    hash = hash_of_both(&j);
    job_end(&j);
    return hash;
}

/* --- tests ---------------------------------------------------------------- */

static void a_round_waits_until_all_have_come_to_all_servers(void **state)
{
    visit v[TRAINERS][SERVERS];
    uint64_t before;
    job j;

    (void)state;
    begin(&j, true);
    before = hash_of_both(&j);
    come_everywhere(&j.t[0], 0, v[0]);
    come_everywhere(&j.t[1], 0, v[1]);
    come(&j.t[2], 0, 0, &v[2][0]);
    expect_waiting(&j, &v[2][0]);
    assert_true(hash_of_both(&j) == before);
    come(&j.t[2], 1, 0, &v[2][1]);
    for (int i = 0; i < TRAINERS; i++)
        expect_visits(&j, v[i], FL_OK, "");
    assert_true(hash_of_both(&j) != before);
    job_end(&j);
}

static void the_order_of_coming_does_not_matter(void **state)
{
    uint64_t right = right_hash(TRAINERS);
    visit v[TRAINERS][SERVERS];
    job j;

    (void)state;
    begin(&j, true);
    for (int s = SERVERS; s--;)
        for (int i = TRAINERS; i--;) {
            come(&j.t[i], s, 0, &v[i][s]);
            run(&j.c, WHILE_MS);
        }
    for (int i = 0; i < TRAINERS; i++)
        expect_visits(&j, v[i], FL_OK, "");
    assert_true(hash_of_both(&j) == right);
    job_end(&j);
}

/* Trainer 2 comes to one server, and is lost. */
static void lose_on_the_way(int server)
{
    uint64_t right = right_hash(2);
    visit v[TRAINERS][SERVERS];
    job j;

    begin(&j, true);
    come(&j.t[2], server, 0, &v[2][0]);
    run(&j.c, WHILE_MS);
    trainer_die(&j.c, &j.t[2]);
    forget_visit(&v[2][0]);
    come_everywhere(&j.t[0], 0, v[0]);
    come_everywhere(&j.t[1], 0, v[1]);
    expect_waiting(&j, &v[0][server]);
    expect_visits(&j, v[0], FL_OK, "");
    expect_visits(&j, v[1], FL_OK, "");
    assert_said(&j.c, "going on without it");
    assert_true(hash_of_both(&j) == right);
    make_round(&j, 1, 0, 2);
    (void)hash_of_both(&j);
    job_end(&j);
}

static void who_is_lost_before_server_0_is_in_no_round(void **state)
{
    (void)state;
    lose_on_the_way(1);
}

static void who_is_lost_before_server_1_is_in_no_round(void **state)
{
    (void)state;
    lose_on_the_way(0);
}

static void who_is_lost_behind_both_servers_is_in_the_round(void **state)
{
    uint64_t right = right_hash(TRAINERS);
    visit v[TRAINERS][SERVERS];
    job j;

    (void)state;
    begin(&j, true);
    come_everywhere(&j.t[2], 0, v[2]);
    run(&j.c, WHILE_MS);
    trainer_die(&j.c, &j.t[2]);
    forget_visit(&v[2][0]);
    forget_visit(&v[2][1]);
    make_round(&j, 0, 0, 2);
    assert_true(hash_of_both(&j) == right);
    job_end(&j);
}

static void a_job_that_needs_all_ends_when_one_is_lost(void **state)
{
    visit v[TRAINERS][SERVERS];
    job j;

    (void)state;
    begin(&j, false);
    come(&j.t[2], 1, 0, &v[2][1]);
    come_everywhere(&j.t[0], 0, v[0]);
    come_everywhere(&j.t[1], 0, v[1]);
    run(&j.c, WHILE_MS);
    trainer_die(&j.c, &j.t[2]);
    forget_visit(&v[2][1]);
    for (int i = 0; i < 2; i++)
        expect_visits(&j, v[i], FL_ERR_CLOSED, "trainer 2");
    run(&j.c, END_MS);
    expect_over(&j.c, FL_ERR_CLOSED, "trainer 2");
    job_end(&j);
}

static void rounds_go_on_behind_one_that_leaves(void **state)
{
    job j;

    (void)state;
    begin(&j, false);
    make_round(&j, 0, 0, TRAINERS);
    trainer_leave(&j.c, &j.t[2]);
    make_round(&j, 1, 0, 2);
    trainer_leave(&j.c, &j.t[0]);
    make_round(&j, 2, 1, 1);
    make_round(&j, 3, 1, 1);
    (void)hash_of_both(&j);
    trainer_leave(&j.c, &j.t[1]);
    run(&j.c, END_MS);
    expect_over(&j.c, FL_OK, "");
    job_end(&j);
}

static void who_leaves_ends_the_wait_of_the_others(void **state)
{
    visit v[2][SERVERS];
    job j;

    (void)state;
    begin(&j, false);
    make_round(&j, 0, 0, TRAINERS);
    come_everywhere(&j.t[0], 1, v[0]);
    come_everywhere(&j.t[1], 1, v[1]);
    expect_waiting(&j, &v[0][1]);
    trainer_leave(&j.c, &j.t[2]);
    expect_visits(&j, v[0], FL_OK, "");
    expect_visits(&j, v[1], FL_OK, "");
    (void)hash_of_both(&j);
    job_end(&j);
}

static void who_waits_elsewhere_is_in_no_round_and_comes_back(void **state)
{
    answer end[TRAINERS];
    job j;

    (void)state;
    begin(&j, false);
    make_round(&j, 0, 0, TRAINERS);
    send_barrier(&j.t[2], "pass", 0, &end[2]);
    make_round(&j, 1, 0, 2);
    for (int i = 0; i < 2; i++)
        send_barrier(&j.t[i], "pass", 0, &end[i]);
    for (int i = 0; i < TRAINERS; i++)
        expect_answer(&j.c, &end[i], FL_OK, "");
    make_round(&j, 2, 0, TRAINERS);
    (void)hash_of_both(&j);
    job_end(&j);
}

static void a_trainer_that_begins_anew_comes_anew(void **state)
{
    visit v[TRAINERS][SERVERS];
    uint64_t before;
    job j;

    (void)state;
    begin(&j, true);
    come(&j.t[2], 1, 0, &v[2][1]);
    run(&j.c, WHILE_MS);
    trainer_die(&j.c, &j.t[2]);
    forget_visit(&v[2][1]);
    run(&j.c, WHILE_MS);
    trainer_join(&j.c, &j.t[2], 2, 202);
    assert_int_equal(j.t[2].me.incarnation, 2);
    before = hash_of_both(&j);
    come_everywhere(&j.t[0], 0, v[0]);
    come_everywhere(&j.t[1], 0, v[1]);
    come(&j.t[2], 0, 0, &v[2][0]);
    /* What server 1 has is of the incarnation before. */
    expect_waiting(&j, &v[2][0]);
    assert_true(hash_of_both(&j) == before);
    come(&j.t[2], 1, 0, &v[2][1]);
    for (int i = 0; i < TRAINERS; i++)
        expect_visits(&j, v[i], FL_OK, "");
    assert_true(hash_of_both(&j) != before);
    job_end(&j);
}

/* Its connection to server 1 stays, and it waits there for the round. */
static void who_is_lost_and_returns_need_not_come_again(void **state)
{
    uint64_t right = right_hash(TRAINERS);
    visit v[TRAINERS][SERVERS];
    job j;

    (void)state;
    begin(&j, true);
    come(&j.t[2], 1, 0, &v[2][1]);
    run(&j.c, WHILE_MS);
    close_link(&j.c, j.t[2].links[0]);
    run(&j.c, LOST_MS);
    assert_said(&j.c, "going on without it");
    j.t[2].links[0] = open_link(&j.c, 0, &j.t[2].me);
    run(&j.c, WHILE_MS);
    assert_said(&j.c, "counts again");
    come_everywhere(&j.t[0], 0, v[0]);
    come_everywhere(&j.t[1], 0, v[1]);
    expect_waiting(&j, &v[0][0]);
    come(&j.t[2], 0, 0, &v[2][0]);
    for (int i = 0; i < TRAINERS; i++)
        expect_visits(&j, v[i], FL_OK, "");
    assert_true(hash_of_both(&j) == right);
    job_end(&j);
}

static void a_round_is_made_once_when_every_connection_breaks(void **state)
{
    uint64_t right = right_hash(TRAINERS);

    (void)state;
    /* So many milliseconds after the last one came: before it is heard of, on
       the way between servers, and behind the end. */
    for (uint64_t ms = 0; ms < 12; ms++) {
        visit v[TRAINERS][SERVERS];
        job j;

        begin(&j, false);
        for (int i = 0; i < TRAINERS; i++)
            come_everywhere(&j.t[i], 0, v[i]);
        run(&j.c, ms);
        fl_sim_cut_all(j.c.sim);
        for (int i = 0; i < TRAINERS; i++)
            expect_visits(&j, v[i], FL_OK, "");
        assert_true(hash_of_both(&j) == right);
        make_round(&j, 1, 0, TRAINERS);
        (void)hash_of_both(&j);
        job_end(&j);
    }
}

static void a_round_that_is_over_is_answered_again(void **state)
{
    uint64_t hash;
    answer a;
    job j;

    (void)state;
    begin(&j, false);
    make_round(&j, 0, 0, TRAINERS);
    make_round(&j, 1, 0, TRAINERS);
    hash = hash_of_both(&j);
    for (int s = 0; s < SERVERS; s++) {
        send_round(&j.t[1], s, 1, &a);
        expect_answer(&j.c, &a, FL_OK, "");
        /* Who was in it is not known any more. */
        send_round(&j.t[1], s, 0, &a);
        expect_answer(&j.c, &a, FL_ERR_CLOSED, "was made without trainer 1");
    }
    assert_true(hash_of_both(&j) == hash);
    make_round(&j, 2, 0, TRAINERS);
    job_end(&j);
}

static void a_repeated_question_ends_the_earlier_one(void **state)
{
    visit v[TRAINERS][SERVERS];
    answer again;
    job j;

    (void)state;
    begin(&j, false);
    come_everywhere(&j.t[0], 0, v[0]);
    expect_waiting(&j, &v[0][1]);
    send_round(&j.t[0], 1, 0, &again);
    expect_visit(&j, &v[0][1], FL_ERR_CLOSED, "asked again");
    come_everywhere(&j.t[1], 0, v[1]);
    come_everywhere(&j.t[2], 0, v[2]);
    expect_answer(&j.c, &again, FL_OK, "");
    expect_visit(&j, &v[0][0], FL_OK, "");
    expect_visits(&j, v[1], FL_OK, "");
    expect_visits(&j, v[2], FL_OK, "");
    job_end(&j);
}

static void rows_that_are_pulled_behind_a_round_have_it(void **state)
{
    visit v[TRAINERS][SERVERS];
    answer old, fresh[SERVERS];
    fl_pack p = pack_pull(0, 4);
    job j;

    (void)state;
    begin(&j, false);
    ask(&j.c, j.t[0].links[1], FL_MSG_PULL, REPEATED, &p, &old);
    come_everywhere(&j.t[0], 0, v[0]);
    for (int s = 0; s < SERVERS; s++) {
        p = pack_pull(0, 4);
        send_to(j.t[0].links[s], FL_MSG_PULL, REPEATED, &p, &fresh[s]);
    }
    expect_waiting(&j, &v[0][1]);
    assert_false(fresh[1].is_done);
    come_everywhere(&j.t[1], 0, v[1]);
    come_everywhere(&j.t[2], 0, v[2]);
    for (int i = 0; i < TRAINERS; i++)
        expect_visits(&j, v[i], FL_OK, "");
    for (int s = 0; s < SERVERS; s++) {
        await(&j.c, &fresh[s]);
        assert_int_equal(fresh[s].len, old.len);
        assert_memory_not_equal(fresh[s].bytes, old.bytes, old.len);
    }
    assert_memory_equal(fresh[0].bytes, fresh[1].bytes, old.len);
    for (int s = 0; s < SERVERS; s++)
        answer_release(&fresh[s]);
    answer_release(&old);
    job_end(&j);
}

static void a_long_wait_names_who_is_missing_where(void **state)
{
    visit v[TRAINERS][SERVERS];
    job j;

    (void)state;
    begin(&j, false);
    come_everywhere(&j.t[0], 0, v[0]);
    come_everywhere(&j.t[1], 0, v[1]);
    come(&j.t[2], 0, 0, &v[2][0]);
    run(&j.c, LOST_MS);
    assert_said(&j.c, "missing is trainer 2 (not at server 1 yet");
    come(&j.t[2], 1, 0, &v[2][1]);
    for (int i = 0; i < TRAINERS; i++)
        expect_visits(&j, v[i], FL_OK, "");
    job_end(&j);
}

static void without_server_0_those_who_wait_are_told(void **state)
{
    visit v[2];
    job j;

    (void)state;
    begin(&j, false);
    come(&j.t[0], 1, 0, &v[0]);
    expect_waiting(&j, &v[0]);
    close_server(&j.c, 0);
    expect_visit(&j, &v[0], FL_ERR_CLOSED, "server 0");
    come(&j.t[1], 1, 0, &v[1]);
    await(&j.c, &v[1].round);
    assert_int_equal(v[1].round.st, FL_ERR_CLOSED);
    await(&j.c, &v[1].rows);
    forget_visit(&v[1]);
    run(&j.c, END_MS);
    expect_over(&j.c, FL_ERR_CLOSED, "server 0");
    job_end(&j);
}

/* Trainer 2 goes on to another round on server 1 before it has heard of this. */
static void
a_server_without_the_gradients_of_a_member_ends_the_job(void **state)
{
    visit v[TRAINERS][SERVERS];
    answer later;
    job j;

    (void)state;
    begin(&j, true);
    come_everywhere(&j.t[2], 0, v[2]);
    come_everywhere(&j.t[1], 0, v[1]);
    expect_waiting(&j, &v[2][1]);
    send_round(&j.t[2], 1, 1, &later);
    come_everywhere(&j.t[0], 0, v[0]);
    for (int i = 0; i < TRAINERS; i++) {
        expect_visit(&j, &v[i][0], FL_OK, "");
        expect_visit(&j, &v[i][1], FL_ERR_CLOSED,
                     i == 2 ? "asked again" : "whose gradients server 1");
    }
    expect_answer(&j.c, &later, FL_ERR_CLOSED, "trainer 2");
    run(&j.c, END_MS);
    expect_over(&j.c, FL_ERR_CLOSED, "start the job again");
    job_end(&j);
}

static void who_has_not_joined_comes_to_no_round(void **state)
{
    trainer stranger = { .me = { .role = FL_MEMBER_TRAINER, .rank = 1 } };
    answer a;
    job j;

    (void)state;
    begin(&j, false);
    stranger.links[1] = open_link(&j.c, 1, &stranger.me);
    send_round(&stranger, 1, 0, &a);
    expect_answer(&j.c, &a, FL_ERR_INVAL, "has not joined");
    trainer_die(&j.c, &stranger);
    job_end(&j);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_round_waits_until_all_have_come_to_all_servers),
        cmocka_unit_test(the_order_of_coming_does_not_matter),
        cmocka_unit_test(who_is_lost_before_server_0_is_in_no_round),
        cmocka_unit_test(who_is_lost_before_server_1_is_in_no_round),
        cmocka_unit_test(who_is_lost_behind_both_servers_is_in_the_round),
        cmocka_unit_test(a_job_that_needs_all_ends_when_one_is_lost),
        cmocka_unit_test(rounds_go_on_behind_one_that_leaves),
        cmocka_unit_test(who_leaves_ends_the_wait_of_the_others),
        cmocka_unit_test(who_waits_elsewhere_is_in_no_round_and_comes_back),
        cmocka_unit_test(a_trainer_that_begins_anew_comes_anew),
        cmocka_unit_test(who_is_lost_and_returns_need_not_come_again),
        cmocka_unit_test(a_round_is_made_once_when_every_connection_breaks),
        cmocka_unit_test(a_round_that_is_over_is_answered_again),
        cmocka_unit_test(a_repeated_question_ends_the_earlier_one),
        cmocka_unit_test(rows_that_are_pulled_behind_a_round_have_it),
        cmocka_unit_test(a_long_wait_names_who_is_missing_where),
        cmocka_unit_test(without_server_0_those_who_wait_are_told),
        cmocka_unit_test(
            a_server_without_the_gradients_of_a_member_ends_the_job),
        cmocka_unit_test(who_has_not_joined_comes_to_no_round),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
