/* test_coord_gather.c - gathers: what all trainers bring comes to all of them,
 * once, whoever is late, lost or asks again. */
#include "coord_kit.h"

#include "rpc/wire/frame.h"

#define TRAINER FL_MEMBER_TRAINER
#define HEAD 8
#define PART_HEAD 16

/* Gathered bytes are at most max_bytes, heads included; 0: any number. */
static world *make_full(int n_trainers, uint64_t max_bytes)
{
    world *w = world_new(&(fl_coord_options){ .n_servers = 1,
                                              .n_trainers = n_trainers,
                                              .connect_timeout_ms = 30000,
                                              .restart_timeout_ms = 5000,
                                              .go_on_without = true,
                                              .max_gathered_bytes = max_bytes,
                                              .max_record_bytes = 10000 });

    for (uint32_t i = 0; i < (uint32_t)n_trainers; i++)
        (void)join(w, TRAINER, i, 70 + i);
    forget_lines(w);
    return w;
}

static size_t bring_as(world *w, uint32_t rank, uint32_t incarnation,
                       const char *name, uint64_t generation, const char *text)
{
    size_t i = w->n_asked++;
    fl_gather_part part;

    assert_ok(fl_gather_part_make(&part, rank, text, strlen(text)));
    fl_coord_gather(
        w->c,
        &(fl_coord_asker){ rank, incarnation, &w->n_answers[i], w->now_ms },
        name, generation, &part);
    return i;
}

static size_t bring(world *w, uint32_t rank, uint64_t generation,
                    const char *text)
{
    return bring_as(w, rank, fl_coord_incarnation(w->c, TRAINER, rank), "sum",
                    generation, text);
}

/* The last good answer has these, in the form "0:abc 2:". */
static void expect_gathered(const world *w, const char *want)
{
    fl_unpack u = { .at = w->gathered, .end = w->gathered + w->gathered_bytes };
    uint32_t n = fl_unpack_u32(&u);
    fl_str s = { 0 };

    assert_int_equal(fl_unpack_u32(&u), 0);
    for (uint32_t i = 0; i < n; i++) {
        uint32_t rank = fl_unpack_u32(&u), zero = fl_unpack_u32(&u);
        uint64_t len = fl_unpack_u64(&u);
        const char *bytes = fl_unpack_bytes(&u, len);

        assert_int_equal(zero, 0);
        fl_unpack_align(&u, w->gathered);
        fl_str_addf(&s, "%s%" PRIu32 ":%.*s", i ? " " : "", rank, (int)len,
                    bytes);
    }
    assert_true(!u.bad && u.at == u.end);
    assert_string_equal(fl_str_text(&s), want);
    fl_str_release(&s);
}

static void everybody_gets_what_all_have_brought(void **state)
{
    world *w = make_full(3, 0);
    size_t q2 = bring(w, 2, 1, "of two"), q0 = bring(w, 0, 1, ""), q1;

    (void)state;
    assert_true(is_open(w, q2) && is_open(w, q0));
    q1 = bring(w, 1, 1, "nine bytes");
    assert_true(has_answer(w, q0, FL_OK) && has_answer(w, q1, FL_OK) &&
                has_answer(w, q2, FL_OK));
    expect_gathered(w, "0: 1:nine bytes 2:of two");
    assert_int_equal(w->gathered_bytes, HEAD + 3 * PART_HEAD + 16 + 8);
    expect_quiet(w);
    world_free(w);
}

static void answers_are_given_again_also_of_generations_long_over(void **state)
{
    world *w = make_full(2, 0);

    (void)state;
    (void)bring(w, 0, 1, "a");
    (void)bring(w, 1, 1, "b");
    assert_true(has_answer(w, bring(w, 0, 1, "changed"), FL_OK));
    expect_gathered(w, "0:a 1:b");
    (void)bring(w, 0, 2, "c");
    assert_true(has_answer(w, bring(w, 1, 1, ""), FL_OK));
    expect_gathered(w, "0:a 1:b");
    (void)bring(w, 1, 2, "d");
    expect_gathered(w, "0:c 1:d");
    assert_true(has_answer(w, bring(w, 0, 1, ""), FL_OK));
    expect_gathered(w, "0:a 1:b");
    world_free(w);
}

static void what_is_remembered_of_gathers_has_a_limit(void **state)
{
    world *w = make_full(2, 0);
    char bytes[2000];

    (void)state;
    memset(bytes, 'x', sizeof(bytes) - 1);
    bytes[sizeof(bytes) - 1] = '\0';
    for (uint64_t i = 1; i <= 6; i++) {
        (void)bring(w, 0, i, bytes);
        (void)bring(w, 1, i, bytes);
    }
    assert_true(has_answer(w, bring(w, 0, 6, ""), FL_OK));
    assert_true(has_answer(w, bring(w, 0, 5, ""), FL_OK));
    assert_true(has_answer(w, bring(w, 0, 1, ""), FL_ERR_CLOSED));
    assert_non_null(strstr(w->reason, "cannot catch up"));
    world_free(w);
}

static void a_trainer_that_asks_again_replaces_what_it_brought(void **state)
{
    world *w = make_full(2, 0);
    size_t first = bring(w, 0, 1, "old"), second = bring(w, 0, 1, "new");

    (void)state;
    assert_true(has_answer(w, first, FL_ERR_CLOSED));
    assert_string_equal(w->reason, "trainer 0 asked again for gather \"sum\"");
    assert_true(is_open(w, second));
    (void)bring(w, 1, 1, "b");
    assert_true(has_answer(w, second, FL_OK));
    expect_gathered(w, "0:new 1:b");
    world_free(w);
}

static void who_left_or_is_lost_is_left_out(void **state)
{
    world *w = make_full(3, 0);
    size_t q0, q1 = bring(w, 1, 1, "b");

    (void)state;
    fl_coord_leave(w->c, TRAINER, 1, w->now_ms);
    assert_true(has_answer(w, q1, FL_ERR_CLOSED));
    assert_string_equal(w->reason, "trainer 1 has left the job");
    q0 = bring(w, 0, 1, "a");
    assert_true(is_open(w, q0));
    fl_coord_down(w->c, TRAINER, 2, "killed", w->now_ms);
    pass_ms(w, 5000);
    assert_true(has_answer(w, q0, FL_OK));
    expect_gathered(w, "0:a");
    assert_true(has_answer(w, bring(w, 2, 1, "c"), FL_ERR_CLOSED));
    world_free(w);
}

static void a_replaced_trainer_takes_its_bytes_with_it(void **state)
{
    world *w = make_full(2, 0);
    size_t q1 = bring(w, 1, 1, "old"), q0 = bring(w, 0, 2, "a");

    (void)state;
    fl_coord_down(w->c, TRAINER, 1, "killed", w->now_ms);
    assert_int_equal(join(w, TRAINER, 1, 99), 2);
    assert_true(has_answer(w, q1, FL_ERR_CLOSED));
    assert_true(has_answer(w, bring_as(w, 1, 1, "sum", 1, "x"), FL_ERR_CLOSED));
    assert_true(is_open(w, q0));
    (void)bring(w, 1, 2, "new");
    assert_true(has_answer(w, q0, FL_OK));
    expect_gathered(w, "0:a 1:new");
    world_free(w);
}

static void gathers_and_barriers_have_names_of_their_own(void **state)
{
    world *w = make_full(2, 0);
    size_t gather = bring(w, 0, 1, "a"), barrier = ask(w, 1, "sum", 1);

    (void)state;
    assert_true(is_open(w, gather) && is_open(w, barrier));
    pass_ms(w, 3100);
    assert_int_equal(w->lines.len, 2);
    assert_string_equal(w->lines.data[0],
                        "trainer 0 has been waiting at gather \"sum\" for 3 s; "
                        "missing is trainer 1 (waits at barrier \"sum\" "
                        "instead, last seen at step 0)");
    assert_string_equal(w->lines.data[1],
                        "trainer 1 has been waiting at barrier \"sum\" for "
                        "3 s; missing is trainer 0 (waits at gather \"sum\" "
                        "instead, last seen at step 0)");
    assert_true(has_answer(w, ask(w, 0, "sum", 1), FL_OK));
    assert_true(has_answer(w, barrier, FL_OK) && is_open(w, gather));
    (void)bring(w, 1, 1, "b");
    assert_true(has_answer(w, gather, FL_OK));
    world_free(w);
}

static void rounds_go_on_without_those_who_wait_at_a_gather(void **state)
{
    world *w = make_full(2, 0);
    size_t done = bring(w, 0, 1, "a");

    (void)state;
    assert_true(has_answer(w, ask(w, 1, "round", 7), FL_OK));
    assert_string_equal(w->came, "1:11");
    assert_true(is_open(w, done));
    /* A gather is never such a round. */
    assert_true(is_open(w, bring_as(w, 1, 1, "round", 1, "")));
    world_free(w);
}

static void a_trainer_waits_at_one_generation_at_a_time(void **state)
{
    world *w = make_full(2, 0);
    size_t q = bring(w, 0, 4, "a");

    (void)state;
    assert_true(has_answer(w, bring(w, 0, 5, "a"), FL_ERR_INVAL));
    assert_string_equal(w->reason, "trainer 0 asks for generation 5 of gather "
                                   "\"sum\" while it waits at generation 4: "
                                   "one has to be over before the next");
    (void)bring(w, 1, 4, "b");
    assert_true(has_answer(w, q, FL_OK));
    world_free(w);
}

static void too_many_bytes_are_an_error_for_all(void **state)
{
    enum { MAX = HEAD + 2 * (PART_HEAD + 8) };
    world *w = make_full(2, MAX);
    size_t kept, q;

    (void)state;
    (void)bring(w, 0, 1, "exactly8");
    (void)bring(w, 1, 1, "exactly8");
    expect_gathered(w, "0:exactly8 1:exactly8");
    kept = fl_data_bytes();
    q = bring(w, 0, 2, "more than 8");
    assert_true(has_answer(w, bring(w, 1, 2, "exactly8"), FL_ERR_INVAL));
    assert_true(has_answer(w, q, FL_ERR_INVAL));
    assert_string_equal(
        w->reason,
        "the trainers have brought 64 bytes to gather \"sum\", more than a "
        "reply may have (max_message_bytes is 56): bring them in several "
        "gathers, or raise it on all members");
    assert_int_equal(fl_data_bytes(), kept);
    /* Those who ask again get the same, and the next one is good again. */
    assert_true(has_answer(w, bring(w, 0, 2, "a"), FL_ERR_INVAL));
    (void)bring(w, 0, 3, "");
    (void)bring(w, 1, 3, "");
    expect_gathered(w, "0: 1:");
    world_free(w);
}

/* What was too large stays so: other bytes are not kept any more. */
static void bytes_that_are_replaced_do_not_make_room_again(void **state)
{
    world *w = make_full(2, HEAD + 2 * (PART_HEAD + 8));
    size_t q;

    (void)state;
    (void)bring(w, 0, 1, "a");
    (void)bring(w, 0, 1,
                "this is much longer than a reply has room for, sadly");
    q = bring(w, 0, 1, "a");
    assert_true(has_answer(w, bring(w, 1, 1, "b"), FL_ERR_INVAL));
    assert_true(has_answer(w, q, FL_ERR_INVAL));
    world_free(w);
}

static void a_part_is_bounded(void **state)
{
    fl_gather_part part = { 0 };

    (void)state;
    assert_int_equal(
        fl_gather_part_make(&part, 3, NULL, FL_GATHER_BYTES_MAX + 1),
        FL_ERR_INVAL);
    assert_string_equal(fl_last_error(),
                        "trainer 3 brings 67108865 bytes to a gather, and at "
                        "most 67108864 are taken: bring them in several "
                        "gathers");
    fl_alloc_fail_after(1);
    assert_int_equal(fl_gather_part_make(&part, 3, "x", 1), FL_ERR_NOMEM);
    assert_null(part.data);
}

static void names_are_bounded(void **state)
{
    world *w = make_full(2, 0);
    char name[16];

    (void)state;
    for (int i = 0; i < 16; i++) {
        (void)snprintf(name, sizeof(name), "sum %d", i);
        (void)bring_as(w, 0, 1, name, 1, "");
    }
    assert_true(has_answer(w, bring_as(w, 0, 1, "more", 1, ""), FL_ERR_INVAL));
    assert_string_equal(w->reason,
                        "gather \"more\" is one too many: a job has at most 16 "
                        "names of gathers, and as many that wait; use a name "
                        "again with the next generation");
    for (int i = 0; i < 16; i++) {
        (void)snprintf(name, sizeof(name), "sum %d", i);
        (void)bring_as(w, 1, 1, name, 1, "");
    }
    assert_true(has_answer(w, bring_as(w, 0, 1, "more", 1, ""), FL_ERR_INVAL));
    assert_true(has_answer(w, bring_as(w, 0, 1, "a\nb", 1, ""), FL_ERR_INVAL));
    assert_string_equal(w->reason, "a gather's name has the byte 0x0a in it, "
                                   "which cannot be printed");
    assert_true(is_open(w, bring_as(w, 0, 1, "sum 3", 2, "")));
    /* Barriers are counted for themselves. */
    assert_true(is_open(w, ask(w, 0, "more", 1)));
    world_free(w);
}

static void the_end_of_the_job_answers_all(void **state)
{
    world *w = make_full(2, 0);
    size_t q = bring(w, 0, 1, "a");

    (void)state;
    fl_coord_end(w->c, fl_err_set(FL_ERR_CLOSED, "somebody ends it"));
    assert_true(has_answer(w, q, FL_ERR_CLOSED));
    assert_string_equal(w->reason, "somebody ends it");
    assert_true(has_answer(w, bring(w, 1, 1, "b"), FL_ERR_CLOSED));
    assert_string_equal(w->reason, "the job is over: somebody ends it");
    world_free(w);
}

static void an_open_gather_is_on_the_status_page(void **state)
{
    world *w = make_full(2, 0);
    char *page;

    (void)state;
    (void)bring(w, 0, 1, "a");
    page = page_of(w, w->now_ms + 4000);
    assert_non_null(strstr(page, "gather \"sum\": open for 4 s, waits for "
                                 "trainer 1 (last seen at step 0) (1 of 2 "
                                 "trainers came)"));
    free(page);
    world_free(w);
}

static void nothing_is_left_behind(void **state)
{
    size_t before = fl_data_bytes();
    world *w = make_full(2, 0);

    (void)state;
    (void)bring(w, 0, 1, "a");
    (void)bring(w, 1, 1, "b");
    (void)bring(w, 0, 2, "open at the end");
    world_free(w);
    assert_int_equal(fl_data_bytes(), before);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(everybody_gets_what_all_have_brought),
        cmocka_unit_test(answers_are_given_again_also_of_generations_long_over),
        cmocka_unit_test(what_is_remembered_of_gathers_has_a_limit),
        cmocka_unit_test(a_trainer_that_asks_again_replaces_what_it_brought),
        cmocka_unit_test(who_left_or_is_lost_is_left_out),
        cmocka_unit_test(a_replaced_trainer_takes_its_bytes_with_it),
        cmocka_unit_test(gathers_and_barriers_have_names_of_their_own),
        cmocka_unit_test(rounds_go_on_without_those_who_wait_at_a_gather),
        cmocka_unit_test(a_trainer_waits_at_one_generation_at_a_time),
        cmocka_unit_test(too_many_bytes_are_an_error_for_all),
        cmocka_unit_test(bytes_that_are_replaced_do_not_make_room_again),
        cmocka_unit_test(a_part_is_bounded),
        cmocka_unit_test(names_are_bounded),
        cmocka_unit_test(the_end_of_the_job_answers_all),
        cmocka_unit_test(an_open_gather_is_on_the_status_page),
        cmocka_unit_test(nothing_is_left_behind),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
