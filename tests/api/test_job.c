/* test_job.c - parameter servers by the public API: what a trainer can do, and
 * that it is the same for any number of servers. */
#include "job_kit.h"

#include <cjson/cJSON.h>

#include <math.h>

#include "base/hash.h"
#include "optim/rule.h"
#include "ps/store/store_inside.h"
#include "ps/sum.h"
#include "table/inside.h"

#define CTR "dim=9 accessor=ctr optimizer=adagrad"

/* --- the same as a table -------------------------------------------------- */

#define ROUNDS 6
#define KEYS_PER_TRAINER 300

static void fill(int rank, int round, uint64_t *keys, float *grads, size_t dim)
{
    for (size_t i = 0; i < KEYS_PER_TRAINER; i++)
        keys[i] =
            fl_mix64((i * (size_t)(round + 1)) % 1000) * 4 + (uint64_t)rank;
    for (size_t i = 0; i < KEYS_PER_TRAINER * dim; i++)
        grads[i] = (float)((i + (size_t)round) % 13) * 0.125f - 0.75f;
}

/* Keys of different trainers are different, so that their order is free. */
static void train_rows(job *j, fl_job *p, int rank)
{
    uint64_t keys[KEYS_PER_TRAINER];
    float grads[KEYS_PER_TRAINER * 9], out[KEYS_PER_TRAINER * 9],
        wide[KEYS_PER_TRAINER * 9];
    int emb, ctr;

    assert_ok(fl_job_declare_table(p, "emb", EMB, &emb));
    assert_ok(fl_job_declare_table(p, "ctr", CTR, &ctr));
    assert_ok(fl_job_start(p));
    for (int round = 0; round < ROUNDS; round++) {
        fl_job_pull_item pulls[] = {
            { emb, keys, KEYS_PER_TRAINER, FL_PULL_CREATE, out },
            { ctr, keys, KEYS_PER_TRAINER, FL_PULL_CREATE, wide }
        };
        fl_job_push_item pushes[] = {
            { emb, { .keys = keys, .values = grads, .n = KEYS_PER_TRAINER } },
            { ctr, { .keys = keys, .values = grads, .n = KEYS_PER_TRAINER } }
        };

        pushes[0].rows.lr = pushes[1].rows.lr = 0.1;
        fill(rank, round, keys, grads, 9);
        assert_ok(fl_job_pull_many(p, pulls, 2));
        assert_ok(fl_job_push_many(p, pushes, 2));
    }
    assert_ok(fl_job_barrier(p));
    if (rank == 0)
        assert_ok(fl_job_hash(p, &j->hash));
    assert_ok(fl_job_barrier(p));
}

static uint64_t lone_hash(const char *name, const char *settings, int n_ranks)
{
    uint64_t keys[KEYS_PER_TRAINER], hash = 0;
    float grads[KEYS_PER_TRAINER * 9], out[KEYS_PER_TRAINER * 9];
    fl_store_table view = { 0 };
    fl_table_config config;

    assert_ok(fl_table_config_parse(&config, name, settings, 0));
    assert_ok(fl_table_create(&view.table, &config));
    view.row_bytes = fl_table_acc(view.table)->layout.bytes;
    view.short_bytes = fl_table_acc(view.table)->layout.short_bytes;
    for (int rank = 0; rank < n_ranks; rank++)
        for (int round = 0; round < ROUNDS; round++) {
            fl_rows a = {
                .keys = keys, .values = grads, .n = KEYS_PER_TRAINER, .lr = 0.1
            };

            fill(rank, round, keys, grads, 9);
            assert_ok(fl_table_pull(view.table, keys, KEYS_PER_TRAINER,
                                    FL_PULL_CREATE, out));
            assert_ok(fl_table_push(view.table, &a));
        }
    assert_ok(fl_store_hash_table(&view, &hash));
    fl_table_destroy(view.table);
    return hash;
}

static void any_number_of_servers_holds_the_same_rows(void **state)
{
    uint64_t tables[] = { lone_hash("emb", EMB, 3), lone_hash("ctr", CTR, 3) };
    uint64_t wanted = 0;

    (void)state;
    fl_sum_model(&wanted, tables, sizeof(tables));
    for (int n = 1; n <= SERVERS_MAX; n++) {
        job j = { .n_servers = n, .n_trainers = 3, .train = train_rows };

        run_job(&j);
        assert_all_well(&j);
        assert_int_equal(j.hash, wanted);
    }
}

static void the_memory_that_is_shared_changes_nothing(void **state)
{
    static const char *const ways[] = { "off", "auto", "force" };
    uint64_t first = 0;

    (void)state;
    for (size_t i = 0; i < FL_LEN(ways); i++) {
        job j = { .n_servers = 2,
                  .n_trainers = 2,
                  .train = train_rows,
                  .settings = { { "local_transport", ways[i] } } };

        name_ports(&j);
        run_job(&j);
        assert_all_well(&j);
        if (!i)
            first = j.hash;
        assert_int_equal(j.hash, first);
    }
}

/* --- what a trainer can do ------------------------------------------------ */

static void use_rows(job *j, fl_job *p, int rank)
{
    uint64_t keys[] = { 7, 0, UINT64_MAX, 7 }, removed = 99;
    float ones[4 * 8], out[4 * 8], again[4 * 8];
    fl_job_request *pull, *push;
    int emb;

    (void)j;
    (void)rank;
    for (size_t i = 0; i < FL_LEN(ones); i++)
        ones[i] = 1;
    assert_ok(fl_job_declare_table(p, "emb", "dim=8\toptimizer=sgd\n", &emb));
    assert_int_equal(emb, 0);
    assert_ok(fl_job_start(p));
    assert_ok(fl_job_assign(p, emb, keys, 3, ones));
    assert_ok(fl_job_pull(p, emb, keys, 4, FL_PULL_ONLY, out));
    assert_memory_equal(out, ones, sizeof(out));
    assert_ok(fl_job_push_begin(
        &push, p,
        &(fl_job_push_item){
            emb, { .keys = keys, .values = ones, .n = 4, .lr = 0.25 } },
        1));
    assert_ok(fl_job_wait(push));
    assert_ok(fl_job_pull_begin(
        &pull, p, &(fl_job_pull_item){ emb, keys, 4, FL_PULL_ONLY, again }, 1));
    assert_ok(fl_job_wait(pull));
    assert_int_equal(
        fl_job_push(
            p, emb,
            &(fl_rows){ .keys = keys, .values = ones, .n = 1, .dim = 7 }),
        FL_ERR_INVAL);
    assert_said("rows of 8, not of 7");
    assert_true(again[0] == 0.5f && again[3 * 8] == 0.5f); /* 7 twice */
    assert_true(again[8] == 0.75f && again[2 * 8] == 0.75f);
    assert_ok(fl_job_shrink(p, emb, 0, &removed));
    assert_int_equal(removed, 0);
    assert_ok(fl_job_clear(p, emb));
    assert_ok(fl_job_pull(p, emb, keys, 0, FL_PULL_ONLY, NULL));
    assert_int_equal(fl_job_shrink(p, emb, -1, &removed), FL_ERR_INVAL);
}

static void rows_are_pulled_pushed_assigned_and_cleared(void **state)
{
    job j = { .n_servers = 2, .n_trainers = 1, .train = use_rows };

    (void)state;
    run_job(&j);
    assert_all_well(&j);
}

#define SHARING 4

typedef struct sharer {
    fl_job *p;
    int table;
    fl_thread *thread;
} sharer;

/* Integers add up exactly, in whatever order they come. */
static void push_ones(void *arg)
{
    const sharer *s = arg;
    uint64_t keys[64];
    float ones[64], out[64];
    fl_rows a = { .keys = keys, .values = ones, .n = 64, .lr = 1 };

    for (size_t i = 0; i < 64; i++) {
        keys[i] = fl_mix64(i);
        ones[i] = -1;
    }
    for (int i = 0; i < 50; i++) {
        assert_ok(fl_job_push(s->p, s->table, &a));
        assert_ok(fl_job_pull(s->p, s->table, keys, 64, FL_PULL_ONLY, out));
        assert_true(out[63] >= (float)(i + 1));
    }
}

static void share(job *j, fl_job *p, int rank)
{
    sharer sharers[SHARING];
    uint64_t key = fl_mix64(0);
    float out;
    int table;

    (void)j;
    (void)rank;
    assert_ok(
        fl_job_declare_table(p, "sums", "dim=1 init=constant(0)", &table));
    assert_ok(fl_job_start(p));
    for (int i = 0; i < SHARING; i++) {
        sharers[i] = (sharer){ .p = p, .table = table };
        assert_ok(fl_thread_start(&sharers[i].thread, "sharer", push_ones,
                                  &sharers[i]));
    }
    for (int i = 0; i < SHARING; i++)
        fl_thread_join(sharers[i].thread);
    assert_ok(fl_job_pull(p, table, &key, 1, FL_PULL_ONLY, &out));
    assert_true(out == 50 * SHARING);
}

static void threads_share_a_connection(void **state)
{
    job j = { .n_servers = 2, .n_trainers = 1, .train = share };

    (void)state;
    run_job(&j);
    assert_all_well(&j);
}

/* Requests that nobody waited for are over when the connection is closed. */
static void leave_open(job *j, fl_job *p, int rank)
{
    static uint64_t keys[1000];
    static float out[1000 * 8];
    static fl_job_request *open[10];
    int emb;

    (void)rank;
    assert_ok(fl_job_declare_table(p, "emb", EMB, &emb));
    assert_ok(fl_job_start(p));
    for (size_t i = 0; i < FL_LEN(open); i++)
        assert_ok(fl_job_pull_begin(
            &open[i], p,
            &(fl_job_pull_item){ emb, keys, 1000, FL_PULL_CREATE, out }, 1));
    j->hash = (uint64_t)(uintptr_t)open;
}

static void a_close_waits_for_what_is_under_way(void **state)
{
    job j = { .n_servers = 2, .n_trainers = 1, .train = leave_open };
    fl_job_request **open;

    (void)state;
    run_job(&j);
    assert_all_well(&j);
    open = (fl_job_request **)(uintptr_t)j.hash;
    for (size_t i = 0; i < 10; i++)
        assert_ok(fl_job_wait(open[i]));
}

static void use_blocks(job *j, fl_job *p, int rank)
{
    float w[100], grad[100], got[100];
    int block[64];
    uint64_t hash;

    (void)j;
    (void)rank;
    for (size_t i = 0; i < FL_LEN(w); i++) {
        w[i] = (float)i;
        grad[i] = 1;
    }
    for (size_t i = 0; i < fl_rule_count(); i++)
        assert_ok(fl_job_declare_dense(p, fl_rule_at(i)->name, 100,
                                       fl_rule_at(i)->name,
                                       "learning_rate=0.5, "
                                       "regularization=l2(0.01), "
                                       "grad_clip=value(-1,1)",
                                       &block[i]));
    assert_ok(
        fl_job_declare_dense(p, "w", 100, "sgd", "learning_rate=0.5", block));
    assert_ok(fl_job_start(p));
    for (size_t i = 1; i < fl_rule_count(); i++) {
        assert_ok(fl_job_push_dense(p, (int)i, grad));
        assert_ok(fl_job_pull_dense(p, (int)i, got));
        assert_true(isfinite(got[0]) && got[0] != 0);
    }
    assert_ok(fl_job_assign_dense(p, block[0], w));
    assert_ok(fl_job_push_dense(p, block[0], grad));
    assert_ok(fl_job_pull_dense(p, block[0], got));
    for (size_t i = 0; i < FL_LEN(w); i++)
        assert_true(got[i] == w[i] - 0.5f);
    assert_ok(fl_job_hash(p, &hash));
    j->hash = hash;
}

static void blocks_have_every_optimizer(void **state)
{
    uint64_t first = 0;

    (void)state;
    for (int n = 1; n <= SERVERS_MAX; n++) {
        job j = { .n_servers = n, .n_trainers = 1, .train = use_blocks };

        run_job(&j);
        assert_all_well(&j);
        if (n == 1)
            first = j.hash;
        assert_int_equal(j.hash, first);
    }
}

static void meet(job *j, fl_job *p, int rank)
{
    uint64_t step;

    (void)rank;
    assert_ok(fl_job_start(p));
    for (int i = 1; i <= 20; i++) {
        atomic_fetch_add(&j->n_came, 1);
        assert_ok(fl_job_step(p, 2, &step));
        assert_ok(fl_job_barrier(p));
        assert_int_equal(atomic_load(&j->n_came), i * j->n_trainers);
        assert_ok(fl_job_step(p, 0, &step));
        assert_int_equal(step, i * j->n_trainers * 2);
        assert_ok(fl_job_barrier(p));
    }
}

static void trainers_meet_at_barriers(void **state)
{
    job j = { .n_servers = 2, .n_trainers = 3, .train = meet };

    (void)state;
    run_job(&j);
    assert_all_well(&j);
}

static void leave_early(job *j, fl_job *p, int rank)
{
    (void)j;
    assert_ok(fl_job_start(p));
    for (int i = 0; i < (rank + 1) * 5; i++)
        assert_ok(fl_job_barrier(p));
}

static void a_barrier_goes_on_without_who_has_left(void **state)
{
    job j = { .n_servers = 1, .n_trainers = 3, .train = leave_early };

    (void)state;
    run_job(&j);
    assert_all_well(&j);
}

/* --- looking from outside ------------------------------------------------- */

static const cJSON *get(const cJSON *object, const char *key)
{
    const cJSON *item = cJSON_GetObjectItemCaseSensitive(object, key);

    if (!item)
        fail_msg("there is no %s", key);
    return item;
}

static cJSON *parse(char *text)
{
    cJSON *root = cJSON_ParseWithOpts(text, NULL, 1);

    if (!root)
        fail_msg("this is not JSON: %s", text);
    fl_text_free(text);
    return root;
}

static void look_at_stats(fl_job *p)
{
    const cJSON *server;
    double rows = 0;
    cJSON *root;
    char *text;

    assert_ok(fl_job_stats_json(p, &text));
    root = parse(text);
    assert_int_equal(cJSON_GetArraySize(get(root, "servers")), 2);
    cJSON_ArrayForEach(server, get(root, "servers"))
    {
        const cJSON *emb = cJSON_GetArrayItem(get(server, "tables"), 0);

        assert_string_equal(get(emb, "name")->valuestring, "emb");
        rows += get(emb, "rows")->valuedouble;
    }
    assert_true(rows == 1);
    assert_true(get(get(root, "trainer"), "pulls")->valuedouble == 1);
    assert_true(get(get(root, "trainer"), "sent_bytes")->valuedouble > 0);
    assert_true(cJSON_IsNumber(get(get(root, "trainer"), "wait_seconds")));
    cJSON_Delete(root);
}

/* By struct and by JSON: two trainers or more, two servers. */
static void look_at_status(fl_ctx *c, const char *address)
{
    fl_member_status m = FL_INIT(fl_member_status);
    fl_job_summary sum = FL_INIT(fl_job_summary);
    fl_job_status *s;
    const cJSON *first;
    cJSON *root;
    size_t n = 0;

    assert_ok(fl_job_status_get(&s, c, address));
    assert_ok(fl_job_status_summary(s, &sum));
    assert_true(sum.is_complete && !sum.is_over);
    while (fl_job_status_member(s, n, &m))
        n++;
    assert_int_equal(n, sum.n_members);
    assert_true(m.role == FL_ROLE_SERVER && m.rank == 1);
    root = parse(fl_job_status_json(s));
    assert_int_equal(cJSON_GetArraySize(get(root, "members")), n);
    first = cJSON_GetArrayItem(get(root, "members"), 0);
    assert_string_equal(get(first, "role")->valuestring, "trainer");
    assert_string_equal(get(first, "state")->valuestring, "up");
    assert_string_equal(get(first, "phase")->valuestring, "training");
    assert_int_equal(get(first, "samples")->valueint, 1234);
    assert_true(get(first, "loss")->valuedouble == 0.5);
    assert_true(cJSON_IsNull(get(first, "auc")));
    cJSON_Delete(root);
    /* A caller that knows less is given less. */
    m = (fl_member_status){ .size = offsetof(fl_member_status, state) };
    assert_true(fl_job_status_member(s, 0, &m));
    assert_true(m.role == FL_ROLE_WORKER && !m.state);
    fl_job_status_free(s);
}

static void look(job *j, fl_job *p, int rank)
{
    fl_ctx *c = new_ctx(j);
    uint64_t key = 3;
    char first[256];
    float out[8];
    int emb;

    assert_ok(fl_job_declare_table(p, "emb", EMB, &emb));
    assert_ok(fl_job_start(p));
    assert_ok(fl_job_pull(p, emb, &key, 1, FL_PULL_CREATE, out));
    assert_ok(fl_job_report(p, "training", 1234, 0.5, NAN));
    assert_ok(fl_job_barrier(p));
    snprintf(first, sizeof(first), "%.*s", (int)strcspn(j->servers, ","),
             j->servers);
    look_at_status(c, first);
    look_at_stats(p);
    assert_ok(fl_job_barrier(p));
    fl_ctx_free(c);
    (void)rank;
}

static void a_job_can_be_looked_at(void **state)
{
    job j = { .n_servers = 2, .n_trainers = 2, .train = look };

    (void)state;
    run_job(&j);
    assert_all_well(&j);
}

static void ask_to_end(job *j, fl_job *p, int rank)
{
    fl_ctx *c = new_ctx(j);
    char first[256];

    (void)rank;
    assert_ok(fl_job_start(p));
    snprintf(first, sizeof(first), "%.*s", (int)strcspn(j->servers, ","),
             j->servers);
    assert_ok(fl_job_shutdown(c, first));
    assert_int_not_equal(fl_job_barrier(p), FL_OK);
    fl_ctx_free(c);
}

static void a_tool_can_end_a_job(void **state)
{
    job j = { .n_servers = 2,
              .n_trainers = 1,
              .train = ask_to_end,
              .settings = { { "restart_timeout_ms", "300" } } };

    (void)state;
    run_job(&j);
    assert_int_equal(j.server[0].st, FL_OK);
}

static void a_tool_names_who_does_not_answer(void **state)
{
    job none = { .settings = { { "connect_timeout_ms", "100" } } };
    fl_ctx *c = new_ctx(&none);
    fl_job_status *status = NULL;
    char address[256];

    (void)state;
    snprintf(address, sizeof(address), "unix:%s/nobody", folder);
    assert_int_not_equal(fl_job_status_get(&status, c, address), FL_OK);
    assert_said("nobody listens there");
    assert_null(status);
    assert_int_not_equal(fl_job_shutdown(c, "no address"), FL_OK);
    fl_ctx_free(c);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(any_number_of_servers_holds_the_same_rows),
        cmocka_unit_test(the_memory_that_is_shared_changes_nothing),
        cmocka_unit_test(rows_are_pulled_pushed_assigned_and_cleared),
        cmocka_unit_test(threads_share_a_connection),
        cmocka_unit_test(a_close_waits_for_what_is_under_way),
        cmocka_unit_test(blocks_have_every_optimizer),
        cmocka_unit_test(trainers_meet_at_barriers),
        cmocka_unit_test(a_barrier_goes_on_without_who_has_left),
        cmocka_unit_test(a_job_can_be_looked_at),
        cmocka_unit_test(a_tool_can_end_a_job),
        cmocka_unit_test(a_tool_names_who_does_not_answer),
    };

    return cmocka_run_group_tests(tests, make_folder, remove_folder);
}
