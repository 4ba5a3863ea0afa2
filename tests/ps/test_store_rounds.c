/* test_store_rounds.c - requests about rounds and changes, as a store gets
 * them: bad ones are refused, good ones counted, and memory may be short. */
#include "store_kit.h"
#include "stats_kit.h"

#include <math.h>

static const char declared[] = TABLE_TEXT("emb", "dim=2 init=constant(1)")
    TABLE_TEXT("low", "dim=2 init=constant(1) height=100") SGD_START("w", "6")
        SERVE_TEXT("1") SGD_UPDATE("1", "w", "6");

static fl_conf conf;

static fl_store *open_store(void)
{
    fl_store *s = fl_store_new(&fl_ops, &conf);

    assert_ok(fl_store_declare(s, declared, strlen(declared)));
    return s;
}

static void pack_rows(fl_pack *p, uint16_t type, uint32_t table, uint64_t from,
                      double lr)
{
    fl_rows_item it = { .table = table, .rows.n = 3, .rows.lr = lr };
    const float grads[6] = { 1, 2, 3, 4, 5, 6 };

    it.flags = FL_PUSH_MERGED;
    pack_rows_head(p, type, &it, 1);
    for (uint64_t i = 0; i < 3; i++)
        fl_pack_u64(p, from + i);
    fl_pack_bytes(p, grads, sizeof(grads));
}

static fl_pack pack_round(uint64_t round, uint32_t table, uint64_t from,
                          double lr)
{
    fl_pack p = { 0 };

    fl_pack_u64(&p, round);
    pack_rows(&p, FL_MSG_ROUND_PUSH, table, from, lr);
    return p;
}

static fl_pack pack_changed(uint32_t table, uint64_t cursor)
{
    fl_pack p = { 0 };

    fl_pack_u32(&p, table);
    fl_pack_u32(&p, 0);
    fl_pack_u64(&p, cursor);
    fl_pack_u64(&p, 0); /* place */
    return p;
}

/* A request to apply a round: members by rank, then blocks. */
static fl_pack pack_apply(uint64_t round, const uint32_t *ranks, uint32_t n,
                          double weight, uint32_t block)
{
    fl_pack p = { 0 };

    fl_pack_u64(&p, round);
    fl_pack_u32(&p, n);
    fl_pack_u32(&p, 1);
    for (uint32_t i = 0; i < n; i++) {
        fl_pack_u32(&p, ranks[i]);
        fl_pack_u32(&p, 0);
        fl_pack_f64(&p, weight);
    }
    fl_pack_u32(&p, block);
    return p;
}

static void bad_rounds_are_refused(void **state)
{
    fl_store *s = open_store();
    answer a = { 0 };
    fl_pack p;

    (void)state;
    p = pack_apply(0, (uint32_t[]){ 2, 1 }, 2, 1, 0);
    assert_error(ask(s, FL_MSG_APPLY, &p, &a), FL_ERR_CORRUPT,
                 "out of the order of ranks");
    p = pack_apply(0, (uint32_t[]){ 1, 1 }, 2, 1, 0);
    assert_error(ask(s, FL_MSG_APPLY, &p, &a), FL_ERR_CORRUPT, "order");
    p = pack_apply(0, NULL, 0, 1, 0);
    assert_error(ask(s, FL_MSG_APPLY, &p, &a), FL_ERR_CORRUPT,
                 "from 1 to 65536 members");
    p = pack_apply(0, (uint32_t[]){ 1 }, 1, NAN, 0);
    assert_error(ask(s, FL_MSG_APPLY, &p, &a), FL_ERR_INVAL, "weight");
    p = pack_apply(0, (uint32_t[]){ 1 }, 1, 1, 99);
    assert_error(ask(s, FL_MSG_APPLY, &p, &a), FL_ERR_NOTFOUND, "block 99");
    p = pack_apply(UINT64_MAX, (uint32_t[]){ 1 }, 1, 1, 0);
    assert_error(ask(s, FL_MSG_APPLY, &p, &a), FL_ERR_INVAL, "round");
    answer_release(&a);
    a.refuse = true;
    p = pack_apply(0, (uint32_t[]){ 1 }, 1, 1, 0);
    assert_error(ask(s, FL_MSG_APPLY, &p, &a), FL_ERR_NOMEM, "reply");
    /* Nothing of that was a round. */
    a.refuse = false;
    p = pack_apply(40, (uint32_t[]){ 1 }, 1, 1, 0);
    assert_ok(ask(s, FL_MSG_APPLY, &p, &a));
    assert_int_equal(a.len, 6 * sizeof(float));
    answer_release(&a);
    assert_int_equal(fl_store_request(s,
                                      &(fl_store_call){ .type = FL_MSG_SHUTDOWN,
                                                        .payload = { NULL, 0 },
                                                        .incarnation = 1 },
                                      &(fl_store_reply){ .reserve = answer_room,
                                                         .arg = &a }),
                     FL_ERR_INVAL);
    fl_store_free(s);
}

static void a_push_for_a_round_is_checked_before_it_is_kept(void **state)
{
    fl_store *s = open_store();
    answer a = { 0 };
    fl_pack p = pack_round(0, 1, 98, 1);

    (void)state;
    assert_error(ask(s, FL_MSG_ROUND_PUSH, &p, &a), FL_ERR_INVAL,
                 "key 100 at place 2 is not below its height 100");
    p = pack_round(0, 0, 1, NAN);
    assert_error(ask(s, FL_MSG_ROUND_PUSH, &p, &a), FL_ERR_INVAL,
                 "learning rate");
    p = pack_round(0, 7, 1, 1);
    assert_error(ask(s, FL_MSG_ROUND_PUSH, &p, &a), FL_ERR_NOTFOUND,
                 "a request (round_push) is for table 7");
    p = pack_apply(0, (uint32_t[]){ 0 }, 1, 1, 0);
    assert_ok(ask(s, FL_MSG_APPLY, &p, &a));
    answer_release(&a);
    p = pack_changed(1, 0);
    assert_ok(ask(s, FL_MSG_CHANGED, &p, &a));
    assert_int_equal(((uint64_t *)a.data)[2], 0);
    answer_release(&a);
    fl_store_free(s);
}

static void rounds_and_changes_are_counted(void **state)
{
    cJSON *root;
    fl_store *s = open_store();
    const float grad[6] = { 0 };
    answer a = { 0 };
    fl_pack p = pack_round(0, 0, 5, 0.5);
    char *text;

    (void)state;
    assert_ok(ask(s, FL_MSG_ROUND_PUSH, &p, &a));
    fl_pack_u64(&p, 0);
    pack_blocks_head(&p, FL_MSG_ROUND_DENSE, (uint32_t[]){ 0 }, 1);
    fl_pack_bytes(&p, grad, sizeof(grad));
    assert_ok(ask(s, FL_MSG_ROUND_DENSE, &p, &a));
    p = pack_apply(0, (uint32_t[]){ 0 }, 1, 1, 0);
    assert_ok(ask(s, FL_MSG_APPLY, &p, &a));
    answer_release(&a);
    p = pack_changed(0, 0);
    assert_ok(ask(s, FL_MSG_CHANGED, &p, &a));
    assert_int_equal(a.len, 24 + 3 * (8 + 2 * 4));
    answer_release(&a);
    assert_int_equal(fl_store_count(s, FL_MSG_ROUND_PUSH)->pushed_rows, 3);
    assert_int_equal(fl_store_count(s, FL_MSG_CHANGED)->pulled_rows, 3);
    assert_int_equal(fl_store_count(s, FL_MSG_APPLY)->out, 24);
    text = fl_store_stats_json(s);
    root = cJSON_ParseWithOpts(text, NULL, 1);
    assert_non_null(root);
    expect_numbers(root, "tables", NULL,
                   "pulls=1 pulled_rows=3 pushes=1 pushed_rows=3 "
                   "merged_rows=3");
    expect_numbers(root, "blocks", "w",
                   "floats=6 held_bytes=28 pulls=1 pushes=1");
    cJSON_Delete(root);
    fl_free(text);
    fl_store_free(s);
}

/* Every allocation of a request fails once; then it goes well. */
static void expect_survival(fl_store *s, uint16_t type,
                            fl_pack (*pack)(uint64_t n))
{
    answer a = { 0 };
    uint64_t n = 1;
    fl_status st;

    do {
        fl_pack p = pack(n);
        received r = receive(p.data, p.len);
        fl_store_reply reply = { .reserve = answer_room, .arg = &a };

        fl_pack_release(&p);
        fl_alloc_fail_after(n++);
        st = fl_store_request(s,
                              &(fl_store_call){ .type = type,
                                                .payload = { r.data, r.len },
                                                .incarnation = 1 },
                              &reply);
        fl_alloc_fail_after(0);
        received_free(&r);
        answer_release(&a);
        if (st)
            assert_int_equal(st, FL_ERR_NOMEM);
    } while (st);
    assert_true(n > 2);
}

static fl_pack pack_a_round(uint64_t n)
{
    return pack_round(n, 0, 10 * n, 0.5);
}

/* At first every row; then those that another rank pushed. */
static fl_pack pack_a_change(uint64_t n)
{
    (void)n;
    return pack_changed(0, 0);
}

static fl_pack pack_the_next_change(uint64_t n)
{
    (void)n;
    return pack_changed(0, 1);
}

static void without_memory_requests_fail_and_the_store_lives_on(void **state)
{
    fl_store *s = open_store();
    answer a = { 0 };
    fl_store_reply reply = { .reserve = answer_room, .arg = &a };
    fl_pack p = { 0 };
    received r;

    (void)state;
    expect_survival(s, FL_MSG_ROUND_PUSH, pack_a_round);
    pack_rows(&p, FL_MSG_PUSH, 0, 1000, 1);
    r = receive(p.data, p.len);
    assert_ok(fl_store_request(s,
                               &(fl_store_call){ .type = FL_MSG_PUSH,
                                                 .payload = { r.data, r.len },
                                                 .rank = 1,
                                                 .incarnation = 1 },
                               &reply));
    expect_survival(s, FL_MSG_CHANGED, pack_a_change);
    assert_ok(fl_store_request(s,
                               &(fl_store_call){ .type = FL_MSG_PUSH,
                                                 .payload = { r.data, r.len },
                                                 .rank = 1,
                                                 .incarnation = 1 },
                               &reply));
    expect_survival(s, FL_MSG_CHANGED, pack_the_next_change);
    /* A page of one row. */
    fl_store_set_page(s, 48);
    expect_survival(s, FL_MSG_CHANGED, pack_a_change);
    expect_survival(s, FL_MSG_CHANGED, pack_the_next_change);
    received_free(&r);
    fl_pack_release(&p);
    fl_store_free(s);
}

static int set_up(void **state)
{
    (void)state;
    return fl_conf_init(&conf);
}

static int tear_down(void **state)
{
    (void)state;
    fl_conf_release(&conf);
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(bad_rounds_are_refused),
        cmocka_unit_test(a_push_for_a_round_is_checked_before_it_is_kept),
        cmocka_unit_test(rounds_and_changes_are_counted),
        cmocka_unit_test(without_memory_requests_fail_and_the_store_lives_on),
    };

    return cmocka_run_group_tests(tests, set_up, tear_down);
}
