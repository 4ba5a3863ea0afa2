/* test_redis.c - rows of a model in a real Redis: the same scores, whatever is
 * brought there and whatever goes wrong. */
#include "../check/check_kit.h"

#include <signal.h>
#include <stdatomic.h>
#include <sys/prctl.h>
#include <sys/wait.h>

#include "base/thread.h"
#include "flotilla/redis.h"
#include "redis/link.h"

#define SCORERS 3
#define SWITCHES 6
#define PASSWORD "sesame"

static pid_t server;
static char address[300];

/* --- a Redis of the test's own -------------------------------------------- */

static void be_redis(const char *socket)
{
    prctl(PR_SET_PDEATHSIG, SIGKILL); /* it does not outlive the test */
    execlp("redis-server", "redis-server", "--port", "0", "--unixsocket",
           socket, "--save", "", "--appendonly", "no", "--requirepass",
           PASSWORD, "--loglevel", "warning", "--dir", kit_folder,
           (char *)NULL);
    _exit(127);
}

static fl_status open_link(fl_redis_link *l, fl_redis_place *place)
{
    fl_redis_args args =
        FL_INIT(fl_redis_args, .address = address, .password = PASSWORD);

    FL_TRY(fl_redis_place_init(place, &args));
    return fl_redis_link_open(l, place);
}

/* Until it answers, or ten seconds are over. */
static bool is_up(void)
{
    for (int i = 0; i < 1000; i++) {
        fl_redis_place place;
        fl_redis_link l = { 0 };
        fl_status st = open_link(&l, &place);

        fl_redis_link_close(&l);
        fl_redis_place_release(&place);
        if (!st)
            return true;
        usleep(10000);
    }
    return false;
}

static int start_redis(void **state)
{
    char socket[256];

    if (kit_setup(state))
        return -1;
    snprintf(address, sizeof(address), "unix:%s", kit_path("redis", socket));
    server = fork();
    if (!server)
        be_redis(socket);
    return server > 0 && is_up() ? 0 : -1;
}

static int stop_redis(void **state)
{
    kill(server, SIGKILL);
    waitpid(server, NULL, 0);
    return kit_teardown(state);
}

/* How many keys of a pattern Redis has. */
static size_t count_keys(const char *pattern)
{
    const char *words[] = { "KEYS", pattern, NULL };
    fl_redis_place place;
    fl_redis_link l = { 0 };
    redisReply *r;
    size_t n;

    must(open_link(&l, &place));
    must(fl_redis_ask(&l, REDIS_REPLY_ARRAY, &r, words));
    n = r->elements;
    freeReplyObject(r);
    fl_redis_link_close(&l);
    fl_redis_place_release(&place);
    return n;
}

static void command(const char *const *words, int type)
{
    fl_redis_place place;
    fl_redis_link l = { 0 };

    must(open_link(&l, &place));
    must(fl_redis_ask(&l, type, NULL, words));
    fl_redis_link_close(&l);
    fl_redis_place_release(&place);
}

/* --- models --------------------------------------------------------------- */

static fl_redis_report export_as(const char *dir, const char *name)
{
    fl_redis_report report = FL_INIT(fl_redis_report);

    must(fl_redis_export(dir, &report, .address = address, .name = name,
                         .password = PASSWORD));
    return report;
}

/* A model whose rows are Redis's. */
typedef struct far_model {
    fl_model *m;
    fl_predictor *p;
} far_model;

static far_model far_open(const char *dir, const char *name)
{
    fl_row_source *rows;
    far_model f;

    must(fl_row_source_of_redis(&rows, .address = address, .name = name,
                                .password = PASSWORD));
    must(fl_model_open(&f.m, dir, .rows = rows));
    must(fl_predictor_new(&f.p, f.m));
    return f;
}

static void far_close(far_model *f)
{
    fl_predictor_free(f->p);
    fl_model_close(f->m);
}

static void expect_scores(kit_net *n, fl_predictor *p, uint32_t seed)
{
    float expected[KIT_BATCH];
    kit_batch b;
    fl_tensor t;

    kit_batch_draw(&b, seed);
    kit_expect(n, &b, expected);
    assert_ok(fl_predictor_run(p, b.feeds, 3, &t, 1));
    assert_memory_equal(t.data, expected, sizeof(expected));
}

/* --- whole versions ------------------------------------------------------- */

static void scores_are_those_of_the_program_that_trained(void **state)
{
    kit_net n = kit_net_new(&kit_in_table);
    fl_redis_report report;
    char dir[256];
    far_model f;

    (void)state;
    kit_train(&n, 1, 5);
    must(kit_save(&n, kit_path("whole", dir)));
    report = export_as(dir, "whole");
    assert_true(report.rows > 50 && !report.is_delta && !report.gone);
    assert_int_equal(report.bytes, report.rows * (8 + KIT_WIDTH * 4));
    f = far_open(dir, "whole");
    for (uint32_t seed = 1; seed < 20; seed++)
        expect_scores(&n, f.p, seed);
    /* Some ids were never seen: their first values come from the rule. */
    assert_true(kit_stats(f.m).missing_rows > 0);
    far_close(&f);
    kit_net_free(&n);
}

static void the_old_version_goes_when_the_new_one_counts(void **state)
{
    kit_net n = kit_net_new(&kit_in_table);
    far_model before, after;
    fl_redis_report report;
    char dir[256];
    size_t n_keys;

    (void)state;
    kit_train(&n, 1, 5);
    must(kit_save(&n, kit_path("switch", dir)));
    export_as(dir, "switch");
    n_keys = count_keys("flotilla:switch:*");
    before = far_open(dir, "switch");
    report = export_as(dir, "switch");
    assert_int_equal(report.rows, 0); /* it is there already */
    must(kit_save(&n, dir));
    report = export_as(dir, "switch");
    assert_int_equal(report.removed_versions, 1);
    assert_int_equal(count_keys("flotilla:switch:*"), n_keys);
    after = far_open(dir, "switch");
    expect_scores(&n, before.p, 3); /* it has noticed */
    expect_scores(&n, after.p, 3);
    far_close(&before);
    far_close(&after);
    kit_net_free(&n);
}

/* --- deltas --------------------------------------------------------------- */

static void drop_rows(kit_net *n, uint64_t first)
{
    uint64_t keys[10];
    size_t n_removed;
    fl_table *t;

    for (size_t i = 0; i < FL_LEN(keys); i++)
        keys[i] = first + i;
    must(fl_ctx_table(n->c, "emb", &t));
    fl_table_remove(t, keys, FL_LEN(keys), &n_removed);
}

static void deltas_are_layers_until_there_are_too_many(void **state)
{
    kit_net n = kit_net_new(&kit_in_table);
    fl_redis_report report;
    uint32_t epoch;
    size_t n_whole = 0;
    char dir[256];
    fl_table *t;

    (void)state;
    kit_train(&n, 1, 10);
    must(fl_ctx_table(n.c, "emb", &t));
    epoch = fl_table_watch(t);
    must(kit_save(&n, kit_path("deltas", dir)));
    export_as(dir, "deltas");
    for (uint32_t i = 0; i < 12; i++) {
        far_model f;

        kit_train(&n, 100 + i, 1);
        drop_rows(&n, i * 15);
        epoch = kit_save_delta(&n, dir, epoch);
        report = export_as(dir, "deltas");
        n_whole += !report.is_delta;
        assert_true(report.gone > 0);
        f = far_open(dir, "deltas");
        for (uint32_t seed = 0; seed < 5; seed++)
            expect_scores(&n, f.p, 50 + seed);
        far_close(&f);
    }
    assert_int_equal(n_whole, 1);
    kit_net_free(&n);
}

/* --- many at once --------------------------------------------------------- */

typedef struct scorer {
    fl_thread *thread;
    fl_model *m;
    const kit_batch *batch;
    const float *expected;
    const atomic_bool *stop;
    size_t n_runs;
    bool is_wrong;
} scorer;

static void score_on(void *arg)
{
    scorer *s = arg;
    fl_predictor *p;
    fl_tensor t;

    must(fl_predictor_new(&p, s->m));
    while (!atomic_load(s->stop) || !s->n_runs) {
        must(fl_predictor_run(p, s->batch->feeds, 3, &t, 1));
        for (int i = 0; i < KIT_BATCH; i++)
            s->is_wrong |= ((const float *)t.data)[i] != s->expected[i];
        s->n_runs++;
    }
    fl_predictor_free(p);
}

/* Versions come and go, with the same rows: nobody may see half of one. */
static void nobody_sees_half_a_version(void **state)
{
    kit_net n = kit_net_new(&kit_in_table);
    float expected[KIT_BATCH];
    scorer scorers[SCORERS];
    atomic_bool stop = false;
    kit_batch b;
    char dir[256];
    far_model f;

    (void)state;
    kit_train(&n, 1, 5);
    must(kit_save(&n, kit_path("many", dir)));
    export_as(dir, "many");
    f = far_open(dir, "many");
    kit_batch_draw(&b, 1);
    kit_expect(&n, &b, expected);
    for (int i = 0; i < SCORERS; i++) {
        scorers[i] = (scorer){
            .m = f.m, .batch = &b, .expected = expected, .stop = &stop
        };
        must(fl_thread_start(&scorers[i].thread, "scorer", score_on,
                             &scorers[i]));
    }
    for (int i = 0; i < SWITCHES; i++) {
        must(kit_save(&n, dir));
        export_as(dir, "many");
    }
    atomic_store(&stop, true);
    for (int i = 0; i < SCORERS; i++) {
        fl_thread_join(scorers[i].thread);
        assert_false(scorers[i].is_wrong);
    }
    far_close(&f);
    kit_net_free(&n);
}

/* --- what goes wrong ------------------------------------------------------ */

static void what_a_dead_export_left_is_removed(void **state)
{
    const char *const note[] = { "SADD", "flotilla:dead:versions", "000001-abc",
                                 NULL };
    const char *const tables[] = { "SADD", "flotilla:dead:000001-abc:tables",
                                   "emb", NULL };
    const char *const row[] = { "HSET", "flotilla:dead:000001-abc:emb:07", "k",
                                "v", NULL };
    kit_net n = kit_net_new(&kit_in_table);
    char dir[256];

    (void)state;
    command(note, REDIS_REPLY_INTEGER);
    command(tables, REDIS_REPLY_INTEGER);
    command(row, REDIS_REPLY_INTEGER);
    kit_train(&n, 1, 2);
    must(kit_save(&n, kit_path("dead", dir)));
    assert_int_equal(export_as(dir, "dead").removed_versions, 1);
    assert_int_equal(count_keys("flotilla:dead:000001-abc*"), 0);
    kit_net_free(&n);
}

static void faults_are_named(void **state)
{
    const char *const wrong[] = { "SET", "flotilla:odd:versions", "x", NULL };
    kit_net n = kit_net_new(&kit_in_table);
    fl_row_source *rows;
    char dir[256];

    (void)state;
    must(kit_save(&n, kit_path("faults", dir)));
    assert_int_equal(fl_redis_export(dir, NULL, .address = "nowhere"),
                     FL_ERR_INVAL);
    assert_said("\"nowhere\" is no address of Redis");
    assert_int_equal(fl_redis_export(dir, NULL), FL_ERR_INVAL);
    assert_said("which Redis?");
    assert_int_equal(
        fl_redis_export(dir, NULL, .address = address, .name = "a:b"),
        FL_ERR_INVAL);
    assert_said("have no colon");
    assert_int_equal(
        fl_redis_export(dir, NULL, .address = address, .password = "wrong"),
        FL_ERR_IO);
    assert_said("the password");
    assert_int_equal(fl_redis_export(dir, NULL, .address = address), FL_ERR_IO);
    assert_said("NOAUTH");
    assert_int_equal(fl_redis_export(dir, NULL, .address = "unix:/nowhere"),
                     FL_ERR_IO);
    assert_said("Redis at unix:/nowhere");
    assert_int_equal(fl_row_source_of_redis(&rows, .address = address,
                                            .name = "none",
                                            .password = PASSWORD),
                     FL_ERR_NOTFOUND);
    assert_said("has no model none");
    command(wrong, REDIS_REPLY_STATUS);
    assert_int_equal(fl_redis_export(dir, NULL, .address = address,
                                     .name = "odd", .password = PASSWORD),
                     FL_ERR_IO);
    assert_said("WRONGTYPE");
    kit_net_free(&n);
}

static void put_bytes(const char *hash, uint64_t key, const void *value,
                      size_t len)
{
    fl_redis_words w = { 0 };
    fl_redis_link l = { 0 };
    fl_redis_place place;

    must(open_link(&l, &place));
    fl_redis_words_text(&w, "HSET");
    fl_redis_words_text(&w, hash);
    fl_redis_words_add(&w, &key, sizeof(key));
    fl_redis_words_add(&w, value, len);
    must(fl_redis_send(&l, &w));
    must(fl_redis_skip(&l, REDIS_REPLY_INTEGER));
    fl_redis_words_release(&w);
    fl_redis_link_close(&l);
    fl_redis_place_release(&place);
}

static void a_row_of_another_width_is_named(void **state)
{
    kit_net n = kit_net_new(&kit_in_table);
    fl_redis_place place = { .name = (char *)"width" };
    fl_model_version *v;
    uint64_t key;
    kit_batch b;
    fl_tensor t;
    char dir[256], *hash;
    far_model f;

    (void)state;
    kit_train(&n, 1, 5);
    must(kit_save(&n, kit_path("width", dir)));
    export_as(dir, "width");
    must(fl_version_open(&v, dir));
    f = far_open(dir, "width");
    kit_batch_draw(&b, 1);
    key = (uint64_t)b.ids[0][0];
    hash = fl_redis_shard_key(&place, v->id, "emb", fl_table_shard_of(key));
    put_bytes(hash, key, "short", 5);
    assert_int_equal(fl_predictor_run(f.p, b.feeds, 3, &t, 1), FL_ERR_CORRUPT);
    assert_said("has 5 bytes where 32 are due");
    fl_free(hash);
    fl_version_close(v);
    far_close(&f);
    kit_net_free(&n);
}

/* --- against the model ---------------------------------------------------- */

static void drop_row(const char *hash, uint64_t key)
{
    fl_redis_words w = { 0 };
    fl_redis_link l = { 0 };
    fl_redis_place place;

    must(open_link(&l, &place));
    fl_redis_words_text(&w, "HDEL");
    fl_redis_words_text(&w, hash);
    fl_redis_words_add(&w, &key, sizeof(key));
    must(fl_redis_send(&l, &w));
    must(fl_redis_skip(&l, REDIS_REPLY_INTEGER));
    fl_redis_words_release(&w);
    fl_redis_link_close(&l);
    fl_redis_place_release(&place);
}

static check_found compare_with(const char *dir, const char *name)
{
    fl_consistency_args how = FL_INIT(fl_consistency_args);
    far_model f = far_open(dir, name);
    check_found found = check_model(dir, f.m, &how);

    far_close(&f);
    return found;
}

/* The hash that the row of a key is in. */
static char *hash_of(const char *dir, const char *name, uint64_t key)
{
    fl_redis_place place = { .name = (char *)(uintptr_t)name };
    fl_model_version *v;
    char *hash;

    must(fl_version_open(&v, dir));
    hash = fl_redis_shard_key(&place, v->id, "emb", fl_table_shard_of(key));
    fl_version_close(v);
    return hash;
}

static void a_row_missing_in_redis_is_found(void **state)
{
    kit_net n = kit_net_new(&kit_in_table);
    check_found found;
    char dir[256], words[128], *hash;
    uint64_t key;
    kit_batch b;

    (void)state;
    kit_train(&n, 1, 5);
    must(kit_save(&n, kit_path("lost", dir)));
    export_as(dir, "lost");
    found = compare_with(dir, "lost");
    assert_consistent(&found);
    kit_batch_draw(&b, 1);
    key = (uint64_t)b.ids[0][0];
    hash = hash_of(dir, "lost", key);
    drop_row(hash, key);
    found = compare_with(dir, "lost");
    snprintf(words, sizeof(words),
             "table emb row %d: there is none online (Redis)", (int)key);
    assert_found(&found, ROWS, words);
    assert_int_equal(found.all[ROWS].different, 1);
    assert_same(&found, PARAMETERS);
    fl_free(hash);
    kit_net_free(&n);
}

static void a_row_that_is_only_in_redis_is_found(void **state)
{
    kit_net n = kit_net_new(&kit_in_table);
    float value[KIT_WIDTH] = { 1 };
    check_found found;
    char dir[256], *hash;
    uint64_t key = 1000000;

    (void)state;
    kit_train(&n, 1, 5);
    must(kit_save(&n, kit_path("more", dir)));
    export_as(dir, "more");
    hash = hash_of(dir, "more", key);
    put_bytes(hash, key, value, sizeof(value));
    found = compare_with(dir, "more");
    assert_found(&found, ROWS,
                 "table emb row 1000000: it is online (Redis) and was not "
                 "trained");
    fl_free(hash);
    kit_net_free(&n);
}

/* Deltas take rows away; what is left of them below is none. */
static void deltas_in_redis_are_what_was_saved(void **state)
{
    kit_net n = kit_net_new(&kit_in_table);
    check_found found;
    uint32_t epoch;
    char dir[256];
    fl_table *t;

    (void)state;
    kit_train(&n, 1, 10);
    must(fl_ctx_table(n.c, "emb", &t));
    epoch = fl_table_watch(t);
    must(kit_save(&n, kit_path("layers", dir)));
    export_as(dir, "layers");
    kit_train(&n, 100, 1);
    drop_rows(&n, 30);
    kit_save_delta(&n, dir, epoch);
    found = compare_with(dir, "layers");
    assert_found(&found, ROWS, "has not arrived there");
    assert_true(export_as(dir, "layers").is_delta);
    found = compare_with(dir, "layers");
    assert_consistent(&found);
    kit_net_free(&n);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(scores_are_those_of_the_program_that_trained),
        cmocka_unit_test(the_old_version_goes_when_the_new_one_counts),
        cmocka_unit_test(deltas_are_layers_until_there_are_too_many),
        cmocka_unit_test(nobody_sees_half_a_version),
        cmocka_unit_test(what_a_dead_export_left_is_removed),
        cmocka_unit_test(faults_are_named),
        cmocka_unit_test(a_row_of_another_width_is_named),
        cmocka_unit_test(a_row_missing_in_redis_is_found),
        cmocka_unit_test(a_row_that_is_only_in_redis_is_found),
        cmocka_unit_test(deltas_in_redis_are_what_was_saved),
    };

    return cmocka_run_group_tests(tests, start_redis, stop_redis);
}
