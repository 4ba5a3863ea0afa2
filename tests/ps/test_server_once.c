/* test_server_once.c - what trainers push is applied exactly once, whatever the
 * network does. */
#include "sim_job_kit.h"

#define PUSHES 500
#define ROWS 40

static uint32_t dice_of(int trainer_no, int push_no)
{
    return (uint32_t)(trainer_no * PUSHES + push_no);
}

/* Every trainer pushes to both servers by turns; gives the sum of hashes. */
static uint64_t push_all(const fl_sim_faults *f, uint64_t *cuts)
{
    answer *a = fl_alloc(sizeof(*a) * TRAINERS * PUSHES);
    uint64_t hash, n_applied = 0;
    job j;

    job_begin(&j, false);
    for (int i = 0; i < TRAINERS; i++)
        declare(&j.c, &j.t[i], KIT_TABLE);
    fl_sim_set_faults(j.c.sim, f);
    for (int i = 0; i < PUSHES; i++) {
        for (int t = 0; t < TRAINERS; t++) {
            fl_pack p = pack_push((uint64_t)i % 97, ROWS, dice_of(t, i));

            send_to(j.t[t].links[i % 2], FL_MSG_PUSH, ONCE, &p,
                    &a[t * PUSHES + i]);
        }
    }
    for (int i = 0; i < TRAINERS * PUSHES; i++)
        expect_answer(&j.c, &a[i], FL_OK, "");
    for (int i = 0; i < 2; i++)
        n_applied +=
            fl_store_count(fl_server_store(j.c.servers[i]), FL_MSG_PUSH)
                ->requests;
    assert_int_equal(n_applied, TRAINERS * PUSHES);
    *cuts = fl_sim_cuts(j.c.sim);
    fl_sim_set_faults(j.c.sim, &calm);
    run(&j.c, 3000);
    hash = hash_of(&j.c, 0) ^ fl_mix64(hash_of(&j.c, 1));
    leave_all(&j);
    expect_over(&j.c, FL_OK, "");
    job_end(&j);
    fl_free(a);
    return hash;
}

static void pushes_are_applied_once_through_fifty_cuts(void **state)
{
    fl_sim_faults rough = { .seed = 5,
                            .delay_hi_ms = 3,
                            .cut_after_bytes = 20000 };
    uint64_t no_cuts, cuts, hash;

    (void)state;
    hash = push_all(&calm, &no_cuts);
    assert_int_equal(no_cuts, 0);
    for (rough.seed = 5; rough.seed < 8; rough.seed++) {
        assert_true(push_all(&rough, &cuts) == hash);
        assert_true(cuts >= 50);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(pushes_are_applied_once_through_fifty_cuts),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
