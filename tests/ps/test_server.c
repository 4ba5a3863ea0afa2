/* test_server.c - servers and trainers of one job, in a simulated network: how
 * it begins, goes wrong, goes on and ends. */
#include "sim_job_kit.h"

/* --- a job as it should be ------------------------------------------------ */

static void expect_rows(sim_cluster *c, trainer *t, float want)
{
    for (int i = 0; i < c->o.n_servers; i++) {
        fl_pack p = pack_pull(1, 1000);
        const float *row;
        answer a;

        ask(c, t->links[i], FL_MSG_PULL, REPEATED, &p, &a);
        assert_int_equal(a.st, FL_OK);
        assert_int_equal(a.len, 1000 * KIT_DIM * sizeof(float));
        row = (const float *)a.bytes;
        for (size_t k = 0; k < 1000 * KIT_DIM; k++)
            assert_true(row[k] == want);
        answer_release(&a);
    }
}

static uint64_t add_step(sim_cluster *c, trainer *t, uint64_t add)
{
    fl_pack p = { 0 };
    uint64_t step;
    answer a;

    fl_pack_u64(&p, add);
    ask(c, t->links[0], FL_MSG_STEP, ONCE, &p, &a);
    assert_int_equal(a.st, FL_OK);
    assert_int_equal(a.len, sizeof(step));
    memcpy(&step, a.bytes, sizeof(step));
    answer_release(&a);
    return step;
}

static void report(sim_cluster *c, trainer *t, const char *phase)
{
    fl_pack p = { 0 };

    fl_pack_text(&p, phase);
    fl_pack_u64(&p, 4096);
    fl_pack_f64(&p, 0.25);
    fl_pack_f64(&p, 0.75);
    fl_pack_u64(&p, 0);
    ask_ok(c, t->links[0], FL_MSG_REPORT, REPEATED, &p);
}

static void a_job_runs_from_joining_to_leaving(void **state)
{
    answer a;
    fl_rpc_client *tool;
    job j;

    (void)state;
    job_begin(&j, false);
    for (int i = 0; i < TRAINERS; i++)
        declare(&j.c, &j.t[i], KIT_TABLE);
    meet(&j, "start", 0);
    expect_rows(&j.c, &j.t[0], 1);
    for (int i = 0; i < TRAINERS; i++) {
        fl_pack p = pack_push(1, 1000, 7);

        ask_ok(&j.c, j.t[i].links[1], FL_MSG_PUSH, ONCE, &p);
        assert_int_equal(add_step(&j.c, &j.t[i], 2), 2 * i + 2);
    }
    report(&j.c, &j.t[1], "train");
    tool = open_tool(&j.c, 0);
    ask(&j.c, tool, FL_MSG_STATUS, REPEATED, NULL, &a);
    assert_int_equal(a.st, FL_OK);
    assert_non_null(memmem(a.bytes, a.len, "train", 5));
    assert_non_null(memmem(a.bytes, a.len, "server1:1", 9));
    answer_release(&a);
    close_link(&j.c, tool);
    meet(&j, "done", 0);
    assert_false(fl_server_is_over(j.c.servers[0]));
    leave_all(&j);
    assert_said(&j.c, "all 3 trainers are done");
    assert_said(&j.c, "server 1 ends: the job is over");
    expect_over(&j.c, FL_OK, "");
    job_end(&j);
}

/* Last answers are on their way when all connections break: to the trainer
   that has left, and to the other server that waits for the end. */
static void lose_last_answers(int n_servers)
{
    static const fl_sim_faults slow = { .delay_lo_ms = 20, .delay_hi_ms = 20 };
    bool has_heard = n_servers == 1;
    answer a;
    trainer t;
    sim_cluster c;

    sim_cluster_simulate(&c, &calm, n_servers, 1);
    serve_all(&c);
    trainer_join(&c, &t, 0, 100);
    fl_sim_set_faults(c.sim, &slow);
    send_to(t.links[0], FL_MSG_LEAVE, REPEATED, NULL, &a);
    for (int ms = 0; ms < 100 && !has_said(&c, "trainer is done"); ms++)
        run(&c, 1);
    assert_said(&c, "trainer is done");
    assert_false(a.is_done);
    fl_sim_cut_all(c.sim);
    while (!a.is_done || !has_heard) {
        assert_false(fl_server_is_over(c.servers[0]));
        run(&c, 1);
        has_heard |= has_said(&c, "server 1 ends: the job is over");
    }
    expect_answer(&c, &a, FL_OK, "");
    trainer_die(&c, &t);
    run(&c, END_MS);
    expect_over(&c, FL_OK, "");
    sim_cluster_release(&c);
}

static void who_did_not_hear_the_last_word_can_ask_again(void **state)
{
    (void)state;
    lose_last_answers(1);
    lose_last_answers(2);
}

/* The last trainer's connection is kept for as long as it needs to hear that
   it has left, and not for ever. */
static void an_end_is_put_off_for_two_seconds_at_most(void **state)
{
    sim_cluster c;
    trainer t;

    (void)state;
    sim_cluster_simulate(&c, &calm, 1, 1);
    serve_all(&c);
    trainer_join(&c, &t, 0, 100);
    ask_ok(&c, t.links[0], FL_MSG_LEAVE, REPEATED, NULL);
    run(&c, 1500);
    assert_false(fl_server_is_over(c.servers[0]));
    run(&c, 700);
    assert_true(fl_server_is_over(c.servers[0]));
    assert_int_equal(fl_server_wait(c.servers[0]), FL_OK);
    trainer_die(&c, &t);
    sim_cluster_release(&c);
}

static void trainers_that_disagree_are_told_the_line(void **state)
{
    fl_pack p =
        pack_text(TABLE_TEXT("emb", "dim=3 optimizer=sgd") SERVE_TEXT(""));
    job j;

    (void)state;
    job_begin(&j, false);
    declare(&j.c, &j.t[0], KIT_TABLE);
    ask_bad(&j.c, j.t[1].links[0], FL_MSG_DECLARE, REPEATED, &p, "dim=3");
    run(&j.c, 3000);
    expect_over(&j.c, FL_ERR_INVAL, "the declarations differ in line 1");
    job_end(&j);
}

/* --- rounds --------------------------------------------------------------- */

static void expect_came(sim_cluster *c, answer *a, const uint64_t *shares,
                        const uint32_t *ranks, uint32_t n)
{
    fl_unpack u;

    await(c, a);
    assert_int_equal(a->st, FL_OK);
    u = (fl_unpack){ .at = a->bytes, .end = a->bytes + a->len };
    assert_int_equal(fl_unpack_u32(&u), n);
    assert_int_equal(fl_unpack_u32(&u), 0);
    for (uint32_t i = 0; i < n; i++) {
        assert_int_equal(fl_unpack_u32(&u), ranks[i]);
        assert_int_equal(fl_unpack_u32(&u), 0);
        assert_int_equal(fl_unpack_u64(&u), shares[i]);
    }
    assert_true(!u.bad && u.at == u.end);
    answer_release(a);
}

/* A push with a round before it. */
static fl_pack pack_round(uint64_t round)
{
    fl_pack push = pack_push(1, 10, 0), p = { 0 };

    fl_pack_u64(&p, round);
    fl_pack_bytes(&p, push.data, push.len);
    fl_pack_release(&push);
    return p;
}

static fl_pack pack_apply(uint64_t round, uint32_t n_members)
{
    fl_pack p = { 0 };

    fl_pack_u64(&p, round);
    fl_pack_u32(&p, n_members);
    fl_pack_u32(&p, 0);
    for (uint32_t i = 0; i < n_members; i++) {
        fl_pack_u32(&p, i);
        fl_pack_u32(&p, 0);
        fl_pack_f64(&p, 0.5);
    }
    return p;
}

static fl_pack pack_meet(uint64_t round, uint32_t weighing)
{
    fl_pack p = { 0 };

    fl_pack_u64(&p, round);
    fl_pack_u64(&p, 1); /* share */
    fl_pack_u32(&p, weighing);
    fl_pack_u32(&p, 0);
    return p;
}

static void a_round_that_cannot_be_is_refused(void **state)
{
    fl_pack p;
    job j;

    (void)state;
    job_begin(&j, false);
    declare(&j.c, &j.t[0], KIT_TABLE);
    p = pack_meet(0, 3);
    ask_bad(&j.c, j.t[0].links[0], FL_MSG_ROUND, REPEATED, &p,
            "in way 3, which there is not");
    p = pack_meet(0, 3);
    ask_bad(&j.c, j.t[0].links[1], FL_MSG_ROUND, REPEATED, &p,
            "in way 3, which there is not");
    p = pack_meet(0, 0);
    ask_bad(&j.c, j.t[0].links[0], FL_MSG_ROUND, ONCE, &p,
            "has a sequence number");
    p = pack_meet(0, 0);
    p.len -= 4;
    ask_bad(&j.c, j.t[0].links[0], FL_MSG_ROUND, REPEATED, &p, "round");
    job_end(&j);
}

static void a_round_is_met_for_and_applied(void **state)
{
    fl_pack third = pack_barrier("epoch", 1), p;
    answer a[TRAINERS];
    uint64_t hash;
    job j;

    (void)state;
    job_begin(&j, false);
    declare(&j.c, &j.t[0], KIT_TABLE);
    hash = hash_of(&j.c, 1);
    /* Trainer 2 is out of data, and waits for the end of the others'. */
    send_to(j.t[2].links[0], FL_MSG_BARRIER, REPEATED, &third, &a[2]);
    for (int i = 0; i < 2; i++) {
        p = pack_round(7);
        ask_ok(&j.c, j.t[i].links[1], FL_MSG_ROUND_PUSH, ONCE, &p);
        p = pack_share("round", 7, 100 + (uint64_t)i);
        send_to(j.t[i].links[0], FL_MSG_BARRIER, REPEATED, &p, &a[i]);
    }
    for (int i = 0; i < 2; i++)
        expect_came(&j.c, &a[i], (uint64_t[]){ 100, 101 }, (uint32_t[]){ 0, 1 },
                    2);
    assert_true(hash_of(&j.c, 1) == hash);
    for (int i = 0; i < 2; i++)
        for (int s = 0; s < 2; s++) {
            p = pack_apply(7, 2);
            ask_ok(&j.c, j.t[i].links[s], FL_MSG_APPLY, REPEATED, &p);
        }
    assert_true(hash_of(&j.c, 1) != hash);
    hash = hash_of(&j.c, 1);
    /* The step is the number of the next round. */
    assert_int_equal(add_step(&j.c, &j.t[0], 0), 8);
    p = pack_apply(7, 2);
    ask_bad(&j.c, j.t[0].links[1], FL_MSG_APPLY, ONCE, &p,
            "has a sequence number");
    p = pack_apply(6, 2);
    ask_bad(&j.c, j.t[0].links[1], FL_MSG_APPLY, REPEATED, &p,
            "the next one is 8");
    p = pack_round(8);
    ask_bad(&j.c, j.t[0].links[1], FL_MSG_ROUND_PUSH, REPEATED, &p,
            "has no sequence number");
    assert_true(hash_of(&j.c, 1) == hash);
    for (int i = 0; i < 2; i++)
        send_barrier(&j.t[i], "epoch", 1, &a[i]);
    for (int i = 0; i < TRAINERS; i++)
        expect_answer(&j.c, &a[i], FL_OK, "");
    job_end(&j);
}

/* --- members that are missing, or go -------------------------------------- */

static void a_job_without_its_trainers_ends(void **state)
{
    trainer t;
    sim_cluster c;

    (void)state;
    sim_cluster_simulate(&c, &calm, 2, 2);
    serve_all(&c);
    trainer_join(&c, &t, 1, 100);
    run(&c, 4000);
    assert_said(&c, "waiting for trainer 0 (3 of 4 members are here)");
    run(&c, 4000);
    expect_over(&c, FL_ERR_TIMEOUT, "trainer 0 did not come");
    trainer_die(&c, &t);
    sim_cluster_release(&c);
}

static void a_trainer_that_disappears_ends_the_job(void **state)
{
    answer a[2];
    job j;

    (void)state;
    job_begin(&j, false);
    send_barrier(&j.t[0], "x", 0, &a[0]);
    send_barrier(&j.t[1], "x", 0, &a[1]);
    run(&j.c, 500);
    trainer_die(&j.c, &j.t[2]);
    run(&j.c, 1000);
    assert_said(&j.c, "trainer 2");
    assert_said(&j.c, "is down (it closed its connection)");
    assert_false(a[0].is_done);
    expect_answer(&j.c, &a[0], FL_ERR_CLOSED, "trainer 2");
    expect_answer(&j.c, &a[1], FL_ERR_CLOSED, "trainer 2");
    run(&j.c, 3000);
    expect_over(&j.c, FL_ERR_CLOSED, "trainer 2");
    job_end(&j);
}

static void the_others_go_on_without_it_when_they_may(void **state)
{
    answer a[2];
    job j;

    (void)state;
    job_begin(&j, true);
    send_barrier(&j.t[0], "x", 0, &a[0]);
    send_barrier(&j.t[1], "x", 0, &a[1]);
    trainer_die(&j.c, &j.t[2]);
    expect_answer(&j.c, &a[0], FL_OK, "");
    expect_answer(&j.c, &a[1], FL_OK, "");
    assert_said(&j.c, "going on without it");
    trainer_leave(&j.c, &j.t[0]);
    trainer_leave(&j.c, &j.t[1]);
    run(&j.c, END_MS);
    expect_over(&j.c, FL_OK, "");
    job_end(&j);
}

static void a_connection_that_breaks_and_comes_back_is_told_twice(void **state)
{
    job j;

    (void)state;
    job_begin(&j, false);
    run(&j.c, 1000);
    fl_sim_cut_all(j.c.sim);
    run(&j.c, 1000);
    assert_said(&j.c, "trainer 1");
    assert_said(&j.c, "is down at server 1");
    assert_said(&j.c, "is back at server 1");
    assert_said(&j.c, "server 0 (server0:1) is back after");
    meet(&j, "x", 0);
    leave_all(&j);
    expect_over(&j.c, FL_OK, "");
    job_end(&j);
}

static void a_trainer_that_starts_again_is_a_new_incarnation(void **state)
{
    answer a[2];
    trainer old;
    job j;

    (void)state;
    job_begin(&j, false);
    declare(&j.c, &j.t[2], KIT_TABLE);
    send_barrier(&j.t[0], "x", 0, &a[0]);
    send_barrier(&j.t[1], "x", 0, &a[1]);
    run(&j.c, 100);
    trainer_die(&j.c, &j.t[2]);
    run(&j.c, 1000);
    old = j.t[2];
    trainer_join(&j.c, &j.t[2], 2, 200);
    assert_int_equal(j.t[2].me.incarnation, 2);
    assert_said(&j.c, "trainer 2 is back as incarnation 2");
    declare(&j.c, &j.t[2], KIT_TABLE);
    run(&j.c, 5000);
    assert_false(a[0].is_done);

    /* The one it was is not let in any more. */
    old.links[0] = open_link(&j.c, 0, &old.me);
    ask_bad(&j.c, old.links[0], FL_MSG_LEAVE, REPEATED, NULL,
            "incarnation 1 of trainer 2 is over");
    close_link(&j.c, old.links[0]);

    meet(&j, "y", 0);
    leave_all(&j);
    expect_answer(&j.c, &a[0], FL_ERR_CLOSED, "");
    expect_answer(&j.c, &a[1], FL_ERR_CLOSED, "");
    expect_over(&j.c, FL_OK, "");
    job_end(&j);
}

/* Nobody waits for it at a barrier for ever. */
static void a_trainer_that_joins_and_never_connects_is_lost(void **state)
{
    answer a;
    trainer t[2];
    sim_cluster c;

    (void)state;
    sim_cluster_simulate(&c, &calm, 1, 2);
    serve_all(&c);
    trainer_join(&c, &t[0], 0, 100);
    trainer_ask(&c, &t[1], 1, 101, &a);
    trainer_take(&c, &t[1], &a);
    run(&c, 10000);
    assert_false(has_said(&c, "is down"));
    trainer_die(&c, &t[1]);
    run(&c, 1500);
    assert_false(has_said(&c, "is down"));
    run(&c, 1000);
    assert_said(&c, "is down (it joined and did not connect again)");
    run(&c, 6500);
    expect_over(&c, FL_ERR_CLOSED, "trainer 1");
    trainer_die(&c, &t[0]);
    sim_cluster_release(&c);
}

/* --- servers that go ------------------------------------------------------ */

static void a_server_that_dies_ends_the_job(void **state)
{
    answer a;
    job j;

    (void)state;
    job_begin(&j, true);
    send_barrier(&j.t[0], "x", 0, &a);
    run(&j.c, 500);
    close_server(&j.c, 1);
    run(&j.c, 1000);
    assert_said(&j.c, "server 1 (server1:1");
    expect_answer(&j.c, &a, FL_ERR_CLOSED, "server 1");
    run(&j.c, 3000);
    expect_over(&j.c, FL_ERR_CLOSED, "the rows that it held");
    job_end(&j);
}

static void a_server_that_comes_back_empty_ends_the_job(void **state)
{
    job j;

    (void)state;
    job_begin(&j, false);
    close_server(&j.c, 1);
    run(&j.c, 500);
    serve(&j.c, 1);
    run(&j.c, 4000);
    expect_over(&j.c, FL_ERR_CLOSED, "came back without the rows");
    job_end(&j);
}

static void without_server_0_the_others_end_and_name_it(void **state)
{
    sim_cluster c;

    (void)state;
    sim_cluster_simulate(&c, &calm, 2, 1);
    serve(&c, 1);
    run(&c, 3500);
    assert_said(&c, "server 1 is waiting for server 0 (server0:1)");
    run(&c, 2500);
    expect_over(&c, FL_ERR_TIMEOUT, "server 0 at server0:1: could not be");
    sim_cluster_release(&c);
}

static void a_server_0_that_dies_takes_the_others_with_it(void **state)
{
    job j;

    (void)state;
    job_begin(&j, false);
    /* Its machine is gone: nobody hears a last word. */
    fl_sim_freeze(j.c.sim, "server0:1", true);
    run(&j.c, 2500);
    assert_said(&j.c, "server 0 (server0:1) has been silent for");
    run(&j.c, 4000);
    assert_true(fl_server_is_over(j.c.servers[1]));
    assert_int_equal(fl_server_wait(j.c.servers[1]), FL_ERR_TIMEOUT);
    assert_text(fl_last_error(), "server 0 at server0:1: said nothing");
    job_end(&j);
}

static void a_second_server_of_a_rank_does_not_harm_the_first(void **state)
{
    fl_server *second = NULL;
    job j;

    (void)state;
    job_begin(&j, false);
    (void)snprintf(j.c.names[1], sizeof(j.c.names[1]), "elsewhere:1");
    assert_ok(try_serve(&j.c, 1, &second));
    run(&j.c, 1000);
    assert_true(fl_server_is_over(second));
    assert_int_equal(fl_server_wait(second), FL_ERR_INVAL);
    assert_text(fl_last_error(), "server 1 is here already");
    fl_server_free(second);
    leave_all(&j);
    expect_over(&j.c, FL_OK, "");
    job_end(&j);
}

/* --- an end that is asked for --------------------------------------------- */

static void a_tool_ends_all_servers_through_server_0(void **state)
{
    fl_rpc_client *tool;
    answer a;
    job j;

    (void)state;
    job_begin(&j, false);
    send_barrier(&j.t[0], "x", 0, &a);
    tool = open_tool(&j.c, 0);
    ask_bad(&j.c, j.t[0].links[0], FL_MSG_SHUTDOWN, REPEATED, NULL,
            "a trainer must not send a request (shutdown)");
    assert_false(fl_server_is_over(j.c.servers[0]));
    ask_ok(&j.c, tool, FL_MSG_SHUTDOWN, REPEATED, NULL);
    close_link(&j.c, tool);
    expect_answer(&j.c, &a, FL_ERR_CLOSED, "asked server 0 to end");
    run(&j.c, 3000);
    expect_over(&j.c, FL_OK, "");
    job_end(&j);
}

static void a_server_that_is_asked_to_end_says_so_to_server_0(void **state)
{
    fl_rpc_client *tool;
    job j;

    (void)state;
    job_begin(&j, false);
    tool = open_tool(&j.c, 1);
    ask_ok(&j.c, tool, FL_MSG_SHUTDOWN, REPEATED, NULL);
    close_link(&j.c, tool);
    run(&j.c, 3000);
    assert_true(fl_server_is_over(j.c.servers[1]));
    assert_int_equal(fl_server_wait(j.c.servers[1]), FL_OK);
    close_server(&j.c, 1);
    expect_over(&j.c, FL_ERR_CLOSED, "left before the trainers were done");
    job_end(&j);
}

static void an_owner_may_stop_or_free_its_server_at_any_moment(void **state)
{
    answer a;
    job j;

    (void)state;
    job_begin(&j, false);
    send_barrier(&j.t[0], "x", 0, &a);
    run(&j.c, 100);
    fl_server_stop(j.c.servers[0]);
    fl_server_stop(j.c.servers[0]);
    expect_answer(&j.c, &a, FL_ERR_CLOSED, "its owner asked");
    send_barrier(&j.t[1], "x", 0, &a);
    close_server(&j.c, 0);
    close_server(&j.c, 1);
    trainer_die(&j.c, &j.t[1]);
    expect_answer(&j.c, &a, FL_ERR_CLOSED, "");
    job_end(&j);
}

/* --- requests that are refused -------------------------------------------- */

static void only_server_0_is_the_coordinator(void **state)
{
    fl_pack p = pack_barrier("x", 0);
    job j;

    (void)state;
    job_begin(&j, false);
    ask_bad(&j.c, j.t[0].links[1], FL_MSG_BARRIER, REPEATED, &p,
            "is for the coordinator, which is server 0 (server0:1)");
    ask_bad(&j.c, j.t[0].links[1], FL_MSG_JOIN, REPEATED, NULL, "server 0");
    ask_bad(&j.c, j.t[0].links[1], FL_MSG_STATUS, REPEATED, NULL, "server 0");
    job_end(&j);
}

static void requests_against_the_rules_change_nothing(void **state)
{
    fl_pack push = pack_push(1, 10, 1), again = pack_push(1, 10, 1),
            pull = pack_pull(1, 10), end = pack_barrier("end", 0),
            text = pack_text("abc"), more = pack_text("abc"),
            three = pack_text("abc"), early = pack_push(1, 10, 1);
    fl_rpc_client *tool, *newcomer;
    uint64_t hash;
    job j;

    (void)state;
    job_begin(&j, false);
    declare(&j.c, &j.t[0], KIT_TABLE);
    hash = hash_of(&j.c, 0);
    tool = open_tool(&j.c, 0);
    newcomer = open_link(
        &j.c, 0, &(fl_identity){ .role = FL_MEMBER_TRAINER, .rank = 1 });
    ask_bad(&j.c, j.t[0].links[0], FL_MSG_PUSH, REPEATED, &push,
            "has no sequence number");
    ask_bad(&j.c, j.t[0].links[0], FL_MSG_PULL, ONCE, &pull,
            "has a sequence number");
    ask_bad(&j.c, tool, FL_MSG_PUSH, ONCE, &again, "a tool must not");
    ask_bad(&j.c, newcomer, FL_MSG_PUSH, ONCE, &early, "no incarnation");
    ask_bad(&j.c, j.t[0].links[0], FL_MSG_BARRIER, REPEATED, &end,
            "neither asks for the other's");
    ask_bad(&j.c, j.t[0].links[0], FL_MSG_JOIN, REPEATED, &text,
            "has 3 bytes and should have none");
    ask_bad(&j.c, j.t[0].links[0], FL_MSG_BARRIER, REPEATED, &more,
            "does not parse");
    ask_bad(&j.c, j.t[0].links[0], FL_MSG_STEP, ONCE, &three, "does not parse");
    assert_true(hash_of(&j.c, 0) == hash);
    assert_int_equal(add_step(&j.c, &j.t[0], 1), 1);
    close_link(&j.c, tool);
    close_link(&j.c, newcomer);
    meet(&j, "x", 0);
    job_end(&j);
}

static void ranks_beyond_the_job_are_not_let_in(void **state)
{
    fl_identity far = { .role = FL_MEMBER_TRAINER, .rank = 3 };
    fl_identity server = { .role = FL_MEMBER_SERVER, .rank = 1, .boot_id = 9 };
    fl_identity later = { .role = FL_MEMBER_TRAINER, .incarnation = 5 };
    fl_rpc_client *l;
    job j;

    (void)state;
    job_begin(&j, false);
    l = open_link(&j.c, 0, &far);
    ask_bad(&j.c, l, FL_MSG_JOIN, REPEATED, NULL,
            "the job has 3 trainers, with ranks from 0 to 2");
    close_link(&j.c, l);
    l = open_link(&j.c, 1, &server);
    ask_bad(&j.c, l, FL_MSG_JOIN, REPEATED, NULL, "servers meet at server 0");
    close_link(&j.c, l);
    l = open_link(&j.c, 0, &later);
    ask_bad(&j.c, l, FL_MSG_LEAVE, REPEATED, NULL, "was never given");
    close_link(&j.c, l);
    meet(&j, "x", 0);
    job_end(&j);
}

static void a_reply_that_would_be_too_large_is_refused(void **state)
{
    /* A table of many floats per key: the reply is larger than the request. */
    const char *wide = TABLE_TEXT("emb", "dim=64 init=constant(1) "
                                         "optimizer=sgd") SERVE_TEXT("");
    fl_pack p = pack_pull(1, 5000);
    job j;

    (void)state;
    job_begin(&j, false);
    declare(&j.c, &j.t[0], wide);
    ask_bad(&j.c, j.t[0].links[0], FL_MSG_PULL, REPEATED, &p,
            "larger than max_message_bytes (1048576)");
    p = pack_pull(1, 4096);
    ask_ok(&j.c, j.t[0].links[0], FL_MSG_PULL, REPEATED, &p);
    job_end(&j);
}

static void options_that_do_not_fit_are_refused(void **state)
{
    fl_server *s = NULL;
    sim_cluster c;

    (void)state;
    sim_cluster_simulate(&c, &calm, 1, 1);
    assert_int_equal(try_serve(&c, 1, &s), FL_ERR_INVAL);
    assert_text(fl_last_error(), "server 1: the job has 1 server");
    c.o.n_trainers = 0;
    assert_int_equal(try_serve(&c, 0, &s), FL_ERR_INVAL);
    c.o.n_trainers = 1;
    serve(&c, 0);
    assert_int_equal(try_serve(&c, 0, &s), FL_ERR_IO);
    assert_text(fl_last_error(), "server 0: cannot listen on server0:1");
    assert_null(s);
    sim_cluster_release(&c);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_round_is_met_for_and_applied),
        cmocka_unit_test(a_round_that_cannot_be_is_refused),
        cmocka_unit_test(a_job_runs_from_joining_to_leaving),
        cmocka_unit_test(who_did_not_hear_the_last_word_can_ask_again),
        cmocka_unit_test(an_end_is_put_off_for_two_seconds_at_most),
        cmocka_unit_test(trainers_that_disagree_are_told_the_line),
        cmocka_unit_test(a_job_without_its_trainers_ends),
        cmocka_unit_test(a_trainer_that_disappears_ends_the_job),
        cmocka_unit_test(the_others_go_on_without_it_when_they_may),
        cmocka_unit_test(a_connection_that_breaks_and_comes_back_is_told_twice),
        cmocka_unit_test(a_trainer_that_starts_again_is_a_new_incarnation),
        cmocka_unit_test(a_trainer_that_joins_and_never_connects_is_lost),
        cmocka_unit_test(a_server_that_dies_ends_the_job),
        cmocka_unit_test(a_server_that_comes_back_empty_ends_the_job),
        cmocka_unit_test(without_server_0_the_others_end_and_name_it),
        cmocka_unit_test(a_server_0_that_dies_takes_the_others_with_it),
        cmocka_unit_test(a_second_server_of_a_rank_does_not_harm_the_first),
        cmocka_unit_test(a_tool_ends_all_servers_through_server_0),
        cmocka_unit_test(a_server_that_is_asked_to_end_says_so_to_server_0),
        cmocka_unit_test(an_owner_may_stop_or_free_its_server_at_any_moment),
        cmocka_unit_test(only_server_0_is_the_coordinator),
        cmocka_unit_test(requests_against_the_rules_change_nothing),
        cmocka_unit_test(ranks_beyond_the_job_are_not_let_in),
        cmocka_unit_test(a_reply_that_would_be_too_large_is_refused),
        cmocka_unit_test(options_that_do_not_fit_are_refused),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
