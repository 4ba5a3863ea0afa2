/* test_gather.c - gathers through servers, in a simulated network: bytes
 * that come back, cuts, and requests that are refused. */
#include "server_kit.h"

#include "ps/coord/gathered.h"

#define TRAINERS 3

static const fl_sim_faults calm = { .seed = 1, .delay_hi_ms = 2 };

typedef struct job {
    sim_cluster c;
    trainer t[TRAINERS];
} job;

static void job_begin(job *j, const fl_sim_faults *f, uint64_t max_bytes)
{
    sim_cluster_simulate(&j->c, f, 2, TRAINERS);
    j->c.o.max_message_bytes = max_bytes;
    serve_all(&j->c);
    for (uint32_t i = 0; i < TRAINERS; i++)
        trainer_join(&j->c, &j->t[i], i, 100 + i);
}

static void job_end(job *j)
{
    for (int i = 0; i < TRAINERS; i++)
        trainer_die(&j->c, &j->t[i]);
    sim_cluster_release(&j->c);
}

static fl_pack pack_gather(uint64_t generation, uint64_t len, uint8_t byte)
{
    fl_pack p = { 0 };

    fl_pack_text(&p, "sum");
    fl_pack_u64(&p, generation);
    fl_pack_u64(&p, len);
    for (uint64_t i = 0; i < len; i++)
        fl_pack_u8(&p, (uint8_t)(byte + i));
    return p;
}

static void send_gather(trainer *t, uint64_t generation, uint64_t len,
                        answer *a)
{
    fl_pack p = pack_gather(generation, len, (uint8_t)t->me.rank);

    send_to(t->links[0], FL_MSG_GATHER, REPEATED, &p, a);
}

/* Trainer i brought lens[i] bytes that count on from i. */
static void expect_all(sim_cluster *c, answer *a, const uint64_t lens[TRAINERS])
{
    fl_unpack u;

    await(c, a);
    if (a->st)
        fail_msg("%s", a->text);
    u = (fl_unpack){ .at = a->bytes, .end = a->bytes + a->len };
    assert_int_equal(fl_unpack_u32(&u), TRAINERS);
    assert_int_equal(fl_unpack_u32(&u), 0);
    for (uint32_t i = 0; i < TRAINERS; i++) {
        const uint8_t *bytes;

        assert_int_equal(fl_unpack_u32(&u), i);
        assert_int_equal(fl_unpack_u32(&u), 0);
        assert_int_equal(fl_unpack_u64(&u), lens[i]);
        bytes = fl_unpack_bytes(&u, lens[i]);
        for (uint64_t k = 0; k < lens[i]; k++)
            assert_int_equal(bytes[k], (uint8_t)(i + k));
        fl_unpack_align(&u, a->bytes);
    }
    assert_true(!u.bad && u.at == u.end);
    answer_release(a);
}

static void gather_all(job *j, uint64_t generation,
                       const uint64_t lens[TRAINERS])
{
    answer a[TRAINERS];

    for (int i = 0; i < TRAINERS; i++)
        send_gather(&j->t[i], generation, lens[i], &a[i]);
    for (int i = 0; i < TRAINERS; i++)
        expect_all(&j->c, &a[i], lens);
}

static void bytes_of_all_come_back_in_the_order_of_ranks(void **state)
{
    job j;

    (void)state;
    job_begin(&j, &calm, 1 << 20);
    gather_all(&j, 1, (uint64_t[]){ 5, 0, 8 });
    gather_all(&j, 2, (uint64_t[]){ 0, 0, 0 });
    gather_all(&j, 3, (uint64_t[]){ 100000, 1, 77777 });
    job_end(&j);
}

static void gathers_survive_cuts(void **state)
{
    static const fl_sim_faults rough = { .seed = 5,
                                         .delay_hi_ms = 5,
                                         .cut_after_bytes = 4000 };
    job j;

    (void)state;
    job_begin(&j, &rough, 1 << 20);
    for (uint64_t i = 1; i <= 40; i++)
        gather_all(&j, i, (uint64_t[]){ i, 2 * i, 3 * i });
    assert_true(fl_sim_cuts(j.c.sim) > 0);
    job_end(&j);
}

static void a_reply_that_would_be_too_large_is_refused_to_all(void **state)
{
    answer a[TRAINERS];
    job j;

    (void)state;
    job_begin(&j, &calm, 100000);
    for (int i = 0; i < TRAINERS; i++)
        send_gather(&j.t[i], 1, 40000, &a[i]);
    for (int i = 0; i < TRAINERS; i++)
        expect_answer(&j.c, &a[i], FL_ERR_INVAL, "max_message_bytes is 100000");
    gather_all(&j, 2, (uint64_t[]){ 30000, 30000, 30000 });
    job_end(&j);
}

static void wrong_requests_are_refused(void **state)
{
    fl_pack far = pack_gather(1, 8, 0), small = pack_gather(1, 8, 0),
            empty = pack_text("x"), again = pack_gather(1, 8, 0),
            tools = pack_gather(1, 8, 0), early = pack_gather(1, 8, 0);
    fl_rpc_client *tool, *newcomer;
    job j;

    (void)state;
    job_begin(&j, &calm, 1 << 20);
    tool = open_tool(&j.c, 0);
    newcomer = open_link(
        &j.c, 0, &(fl_identity){ .role = FL_MEMBER_TRAINER, .rank = 1 });
    small.len--;
    ask_bad(&j.c, j.t[0].links[1], FL_MSG_GATHER, REPEATED, &far,
            "is for the coordinator, which is server 0");
    ask_bad(&j.c, j.t[0].links[0], FL_MSG_GATHER, REPEATED, &small,
            "does not parse");
    ask_bad(&j.c, j.t[0].links[0], FL_MSG_GATHER, REPEATED, &empty,
            "does not parse");
    ask_bad(&j.c, j.t[0].links[0], FL_MSG_GATHER, REPEATED, NULL,
            "does not parse");
    ask_bad(&j.c, j.t[0].links[0], FL_MSG_GATHER, ONCE, &again,
            "has a sequence number");
    ask_bad(&j.c, tool, FL_MSG_GATHER, REPEATED, &tools, "a tool must not");
    ask_bad(&j.c, newcomer, FL_MSG_GATHER, REPEATED, &early,
            "incarnation 1 (process 101) is the one that counts");
    close_link(&j.c, tool);
    close_link(&j.c, newcomer);
    gather_all(&j, 1, (uint64_t[]){ 1, 2, 3 });
    job_end(&j);
}

static void more_than_64_mb_are_refused(void **state)
{
    fl_pack p = pack_gather(1, FL_GATHER_BYTES_MAX + 1, 0);
    job j;

    (void)state;
    job_begin(&j, &calm, FL_GATHER_BYTES_MAX * 2);
    ask_bad(&j.c, j.t[0].links[0], FL_MSG_GATHER, REPEATED, &p,
            "at most 67108864 are taken");
    gather_all(&j, 1, (uint64_t[]){ 1, 2, 3 });
    job_end(&j);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(bytes_of_all_come_back_in_the_order_of_ranks),
        cmocka_unit_test(gathers_survive_cuts),
        cmocka_unit_test(a_reply_that_would_be_too_large_is_refused_to_all),
        cmocka_unit_test(wrong_requests_are_refused),
        cmocka_unit_test(more_than_64_mb_are_refused),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
