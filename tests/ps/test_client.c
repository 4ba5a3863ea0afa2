/* test_client.c - a trainer's side in a simulation: scattering, errors, breaks. */
#include "client_kit.h"

#include <stdlib.h>

#include "base/hash.h"

#define N_KEYS 500
#define SETTINGS "dim=4 optimizer=adagrad"
#define CTR "dim=9 accessor=ctr optimizer=adagrad"
#define TEXT                                                                   \
    "seed 3\n" TABLE_TEXT("emb", SETTINGS) TABLE_TEXT("ctr", CTR) SERVE_TEXT("")
#define CTR_DIM 9

static const fl_sim_faults calm = { .seed = 1, .delay_hi_ms = 3 };

static uint64_t keys[N_KEYS];
static float grads[N_KEYS * CTR_DIM], shows[N_KEYS], clicks[N_KEYS];
static uint32_t counts[N_KEYS];

/* Ids of all sizes, some of them twice. */
static int make_data(void **state)
{
    (void)state;
    for (size_t i = 0; i < N_KEYS; i++) {
        keys[i] = i % 10 == 9 ? keys[i - 3] : fl_mix64(i);
        shows[i] = (float)(i % 5 + 1);
        clicks[i] = (float)(i % 2);
        counts[i] = (uint32_t)(i % 3 + 1);
    }
    keys[0] = 0;
    keys[1] = UINT64_MAX;
    for (size_t i = 0; i < N_KEYS * CTR_DIM; i++)
        grads[i] = (float)(i % 17) * 0.25f - 2;
    return 0;
}

/* Both tables in one request; what is counted goes with the second. */
static void fill_push(fl_job_push_item items[2], size_t n)
{
    items[0] = (fl_job_push_item){
        0, { .keys = keys, .values = grads, .n = n, .lr = 0.1 }
    };
    items[1] = (fl_job_push_item){ 1,
                                   { .keys = keys,
                                     .values = grads,
                                     .shows = shows,
                                     .clicks = clicks,
                                     .counts = counts,
                                     .n = n,
                                     .lr = 0.05 } };
}

static fl_status push(job *j, int trainer, size_t n)
{
    static const uint32_t dims[] = { DIM, CTR_DIM };
    fl_job_push_item items[2];
    outcome o = { 0 };

    fill_push(items, n);
    FL_TRY(fl_client_push(j->clients[trainer], items, dims, 2,
                          (fl_ending){ on_outcome, &o }));
    return job_end(j, &o);
}

static fl_status pull(job *j, int trainer, size_t n, float *emb, float *ctr)
{
    static const uint32_t dims[] = { DIM, CTR_DIM };
    fl_job_pull_item items[] = { { 0, keys, n, FL_PULL_CREATE, emb },
                                 { 1, keys, n, FL_PULL_ONLY, ctr } };
    outcome o = { 0 };

    FL_TRY(fl_client_pull(j->clients[trainer], items, dims, 2,
                          (fl_ending){ on_outcome, &o }));
    return job_end(j, &o);
}

/* --- scattering ------------------------------------------------------------ */

static void a_server_has_a_range_of_shards(void **state)
{
    (void)state;
    for (int n = 1; n <= 1024; n = n * 3 + 1) {
        int *of_shard = calloc(FL_TABLE_SHARDS, sizeof(int));

        for (uint64_t i = 0; i < 200000; i++) {
            uint64_t key = fl_mix64(i);
            int server = fl_client_server_of(n, key);

            assert_in_range(server, 0, n - 1);
            of_shard[fl_table_shard_of(key)] = server;
        }
        assert_int_equal(of_shard[0], 0);
        assert_int_equal(of_shard[FL_TABLE_SHARDS - 1], n - 1);
        for (int i = 1; i < FL_TABLE_SHARDS; i++)
            assert_true(of_shard[i] == of_shard[i - 1] ||
                        of_shard[i] == of_shard[i - 1] + 1);
        free(of_shard);
    }
}

static void check_like_one_table(int n_servers)
{
    fl_table *emb = lone_table("emb", SETTINGS, 3);
    fl_table *ctr = lone_table("ctr", CTR, 3);
    float *a = calloc(N_KEYS, (DIM + CTR_DIM) * sizeof(float));
    float *b = calloc(N_KEYS, (DIM + CTR_DIM) * sizeof(float));
    fl_job_push_item items[2];
    job j;

    fill_push(items, N_KEYS);
    job_init(&j, n_servers, 1, &calm);
    job_wait(&j);
    assert_ok(job_declare(&j, 0, TEXT));
    for (int round = 0; round < 3; round++) {
        assert_ok(pull(&j, 0, N_KEYS, a, a + N_KEYS * DIM));
        assert_ok(fl_table_pull(emb, keys, N_KEYS, FL_PULL_CREATE, b));
        assert_ok(
            fl_table_pull(ctr, keys, N_KEYS, FL_PULL_ONLY, b + N_KEYS * DIM));
        assert_memory_equal(a, b, N_KEYS * (DIM + CTR_DIM) * sizeof(float));
        assert_ok(push(&j, 0, N_KEYS));
        assert_ok(fl_table_push(emb, &items[0].rows));
        assert_ok(fl_table_push(ctr, &items[1].rows));
    }
    assert_int_equal(job_hash(&j, 0), lone_hash(emb));
    assert_int_equal(job_hash(&j, 1), lone_hash(ctr));
    job_release(&j);
    fl_table_destroy(emb);
    fl_table_destroy(ctr);
    free(a);
    free(b);
}

static void any_number_of_servers_is_like_one_table(void **state)
{
    (void)state;
    for (int n = 1; n <= SERVERS_MAX; n++)
        check_like_one_table(n);
}

static void check_assign(int n_servers)
{
    fl_table *emb = lone_table("emb", SETTINGS, 3);
    outcome o = { 0 };
    job j;

    job_init(&j, n_servers, 1, &calm);
    job_wait(&j);
    assert_ok(job_declare(&j, 0, TEXT));
    assert_ok(fl_client_assign(
        j.clients[0], &(fl_client_values){ 0, DIM, keys, N_KEYS, grads },
        (fl_ending){ on_outcome, &o }));
    assert_ok(job_end(&j, &o));
    assert_ok(fl_table_assign(emb, keys, N_KEYS, grads));
    assert_int_equal(job_hash(&j, 0), lone_hash(emb));
    job_release(&j);
    fl_table_destroy(emb);
}

/* Keys of the same server keep their order. */
static void sort_by_server(int n_servers)
{
    static uint64_t sorted[N_KEYS];
    size_t n = 0;

    for (int s = 0; s < n_servers; s++)
        for (size_t i = 0; i < N_KEYS; i++)
            if (fl_server_of(keys[i], n_servers) == s)
                sorted[n++] = keys[i];
    memcpy(keys, sorted, sizeof(keys));
}

static void keys_that_come_server_by_server_stay_as_they_lie(void **state)
{
    for (int n = 2; n <= SERVERS_MAX; n++) {
        sort_by_server(n);
        check_like_one_table(n);
        check_assign(n);
        make_data(state);
    }
}

/* One of the two items in the order of servers, the other not. */
static void items_of_one_request_may_have_keys_in_any_order(void **state)
{
    static const uint32_t dims[] = { DIM, CTR_DIM };
    static uint64_t sorted[N_KEYS];
    static float a[N_KEYS * DIM], b[N_KEYS * CTR_DIM];
    fl_job_pull_item items[] = { { 0, sorted, N_KEYS, FL_PULL_CREATE, a },
                                 { 1, keys, N_KEYS, FL_PULL_CREATE, b } };
    fl_table *emb = lone_table("emb", SETTINGS, 3);
    float *want = calloc(N_KEYS, DIM * sizeof(float));
    outcome o = { 0 };
    job j;

    sort_by_server(2);
    memcpy(sorted, keys, sizeof(keys));
    make_data(state);
    job_init(&j, 2, 1, &calm);
    job_wait(&j);
    assert_ok(job_declare(&j, 0, TEXT));
    assert_ok(fl_client_pull(j.clients[0], items, dims, 2,
                             (fl_ending){ on_outcome, &o }));
    assert_ok(job_end(&j, &o));
    assert_ok(fl_table_pull(emb, sorted, N_KEYS, FL_PULL_CREATE, want));
    assert_memory_equal(a, want, sizeof(a));
    job_release(&j);
    fl_table_destroy(emb);
    free(want);
}

static void a_call_is_one_request_per_server(void **state)
{
    float out[N_KEYS * (DIM + CTR_DIM)];
    job j;

    (void)state;
    job_init(&j, 3, 1, &calm);
    job_wait(&j);
    assert_ok(job_declare(&j, 0, TEXT));
    for (int i = 0; i < 5; i++)
        assert_ok(push(&j, 0, N_KEYS));
    assert_ok(pull(&j, 0, N_KEYS, out, out + N_KEYS * DIM));
    for (int s = 0; s < 3; s++) {
        fl_store *store = fl_server_store(j.servers[s]);

        assert_int_equal(fl_client_requests(j.clients[0], s, FL_MSG_PUSH), 5);
        assert_int_equal(fl_client_requests(j.clients[0], s, FL_MSG_PULL), 1);
        assert_int_equal(fl_store_count(store, FL_MSG_PUSH)->requests, 5);
        assert_int_equal(fl_store_count(store, FL_MSG_PULL)->requests, 1);
    }
    job_release(&j);
}

static void servers_without_keys_are_not_asked(void **state)
{
    float out[2 * DIM];
    outcome o = { 0 };
    fl_job_pull_item item = { 0, keys, 1, FL_PULL_CREATE, out };
    uint32_t dim = DIM;
    int server = fl_client_server_of(3, keys[0]);
    job j;

    (void)state;
    job_init(&j, 3, 1, &calm);
    job_wait(&j);
    assert_ok(job_declare(&j, 0, TEXT));
    assert_ok(fl_client_pull(j.clients[0], &item, &dim, 1,
                             (fl_ending){ on_outcome, &o }));
    assert_ok(job_end(&j, &o));
    for (int s = 0; s < 3; s++)
        assert_int_equal(fl_client_requests(j.clients[0], s, FL_MSG_PULL),
                         s == server);
    job_release(&j);
}

static void a_request_without_keys_is_done_at_once(void **state)
{
    fl_job_pull_item item = { 0, NULL, 0, FL_PULL_CREATE, NULL };
    uint32_t dim = DIM;
    outcome o = { 0 };
    job j;

    (void)state;
    job_init(&j, 2, 1, &calm);
    job_wait(&j);
    assert_ok(fl_client_pull(j.clients[0], &item, &dim, 1,
                             (fl_ending){ on_outcome, &o }));
    assert_true(o.is_over);
    assert_int_equal(o.err.status, FL_OK);
    job_release(&j);
}

static void values_are_assigned_like_to_one_table(void **state)
{
    (void)state;
    for (int n = 1; n <= SERVERS_MAX; n++)
        check_assign(n);
}

/* The requests of a steady stream use the memory of those before. */
static void many_requests_under_way_end_well(void **state)
{
    enum { N = 40 };
    static float out[N][N_KEYS * DIM];
    float first[N_KEYS * DIM];
    outcome o[N] = { 0 };
    uint32_t dim = DIM;
    job j;

    (void)state;
    job_init(&j, 2, 1, &calm);
    job_wait(&j);
    assert_ok(job_declare(&j, 0, TEXT));
    for (int i = 0; i < N; i++) {
        fl_job_pull_item item = { 0, keys, N_KEYS, FL_PULL_CREATE, out[i] };

        assert_ok(fl_client_pull(j.clients[0], &item, &dim, 1,
                                 (fl_ending){ on_outcome, &o[i] }));
    }
    for (int i = 0; i < N; i++)
        assert_ok(job_end(&j, &o[i]));
    memcpy(first, out[0], sizeof(first));
    for (int i = 1; i < N; i++)
        assert_memory_equal(out[i], first, sizeof(first));
    job_release(&j);
}

/* --- errors --------------------------------------------------------------- */

static void requests_are_refused_before_the_servers_are_there(void **state)
{
    fl_job_pull_item item = { 0, keys, 1, FL_PULL_CREATE, grads };
    uint32_t dim = DIM;
    outcome o = { 0 };
    job j;

    (void)state;
    job_init(&j, 2, 1, &calm);
    assert_int_equal(fl_client_state(j.clients[0]), FL_PENDING);
    assert_int_equal(fl_client_pull(j.clients[0], &item, &dim, 1,
                                    (fl_ending){ on_outcome, &o }),
                     FL_ERR_INVAL);
    assert_has(fl_last_error(), "before all servers are there");
    job_wait(&j);
    assert_false(o.is_over);
    job_release(&j);
}

static void an_error_of_a_server_names_the_server(void **state)
{
    fl_job_pull_item item = { 7, keys, N_KEYS, FL_PULL_CREATE, NULL };
    float out[N_KEYS * DIM];
    uint32_t dim = DIM;
    outcome o = { 0 };
    job j;

    (void)state;
    item.out = out;
    job_init(&j, 2, 1, &calm);
    job_wait(&j);
    assert_ok(job_declare(&j, 0, TEXT));
    assert_ok(fl_client_pull(j.clients[0], &item, &dim, 1,
                             (fl_ending){ on_outcome, &o }));
    assert_int_equal(job_end(&j, &o), FL_ERR_NOTFOUND);
    assert_has(fl_last_error(), "server ");
    assert_has(fl_last_error(), ": a request (pull) is for table 7");
    assert_ok(push(&j, 0, N_KEYS)); /* it goes on */
    job_release(&j);
}

static void a_refused_push_names_key_and_table(void **state)
{
    fl_job_push_item item = { 0, { .keys = keys, .values = grads, .n = 2 } };
    uint32_t dim = DIM;
    outcome o = { 0 };
    job j;

    (void)state;
    item.rows.lr = -1;
    job_init(&j, 2, 1, &calm);
    job_wait(&j);
    assert_ok(job_declare(&j, 0, TEXT));
    assert_ok(fl_client_push(j.clients[0], &item, &dim, 1,
                             (fl_ending){ on_outcome, &o }));
    assert_int_equal(job_end(&j, &o), FL_ERR_INVAL);
    assert_has(fl_last_error(), "table emb: the learning rate -1");
    job_release(&j);
}

/* What the other end would close the connection for is refused here. */
static void a_request_that_is_too_large_is_refused(void **state)
{
    enum { MANY = 70000 };
    uint64_t *many = calloc(MANY, sizeof(*many));
    float *out = calloc(MANY, DIM * sizeof(*out));
    fl_job_pull_item item = { 0, many, MANY, FL_PULL_CREATE, out };
    fl_job_push_item grown = {
        0, { .keys = many, .values = out, .n = MANY, .lr = 1 }
    };
    uint32_t dim = DIM;
    outcome o = { 0 };
    job j;

    (void)state;
    job_init(&j, 1, 1, &calm);
    job_wait(&j);
    assert_ok(job_declare(&j, 0, TEXT));
    assert_int_equal(fl_client_pull(j.clients[0], &item, &dim, 1,
                                    (fl_ending){ on_outcome, &o }),
                     FL_ERR_INVAL);
    assert_has(fl_last_error(), "a reply of 1120000");
    assert_has(fl_last_error(), "max_message_bytes is 1048576");
    assert_int_equal(fl_client_push(j.clients[0], &grown, &dim, 1,
                                    (fl_ending){ on_outcome, &o }),
                     FL_ERR_INVAL);
    assert_has(fl_last_error(), "a request (push) to server 0 has 1680032");
    assert_int_equal(o.n_calls, 0);
    assert_ok(push(&j, 0, N_KEYS));
    job_release(&j);
    free(many);
    free(out);
}

static void too_many_items_are_refused(void **state)
{
    fl_job_pull_item *items = calloc(FL_ITEMS_MAX + 1, sizeof(*items));
    uint32_t *dims = calloc(FL_ITEMS_MAX + 1, sizeof(*dims));
    outcome o = { 0 };
    job j;

    (void)state;
    job_init(&j, 1, 1, &calm);
    job_wait(&j);
    assert_int_equal(fl_client_pull(j.clients[0], items, dims, FL_ITEMS_MAX + 1,
                                    (fl_ending){ on_outcome, &o }),
                     FL_ERR_INVAL);
    assert_has(fl_last_error(), "4097 items, more than 4096");
    job_release(&j);
    free(items);
    free(dims);
}

static void a_rank_beyond_the_job_is_refused(void **state)
{
    fl_client_options o = { .servers = addresses,
                            .n_servers = 1,
                            .n_trainers = 2,
                            .rank = 2,
                            .job = "test" };
    fl_client *c = NULL;
    job j;

    (void)state;
    job_init(&j, 1, 1, &calm);
    assert_int_equal(
        fl_client_new(&c, fl_sim_net(j.sim), fl_sim_loop(j.sim), &o),
        FL_ERR_INVAL);
    assert_has(fl_last_error(), "trainer 2: the job has 2 trainers");
    o.rank = 0;
    o.n_servers = 1025;
    assert_int_equal(
        fl_client_new(&c, fl_sim_net(j.sim), fl_sim_loop(j.sim), &o),
        FL_ERR_INVAL);
    assert_has(fl_last_error(), "from 1 to 1024 servers, not 1025");
    assert_null(c);
    job_release(&j);
}

/* --- servers that come and go --------------------------------------------- */

static void a_server_that_never_comes_is_named(void **state)
{
    job j = { .n_servers = 2, .n_trainers = 1 };

    (void)state;
    said[0] = '\0';
    fl_log_set(keep_line, NULL, FL_LOG_WARN);
    assert_ok(fl_conf_init(&j.conf));
    j.sim = fl_sim_new(&calm);
    j.servers[0] = job_serve(&j, 0);
    j.clients[0] = job_connect(&j, 0);
    job_run(&j, 4000);
    assert_has(said, "trainer 0 waits for server 1 (s1:1) since 2 s, up to 30 "
                     "s in all");
    assert_int_equal(fl_client_state(j.clients[0]), FL_PENDING);
    job_run(&j, 30000);
    assert_int_equal(fl_client_state(j.clients[0]), FL_ERR_TIMEOUT);
    assert_has(fl_last_error(), "server 1 did not come within 30 s");
    job_release(&j);
}

static void a_late_server_is_waited_for(void **state)
{
    job j = { .n_servers = 2, .n_trainers = 1 };

    (void)state;
    said[0] = '\0';
    fl_log_set(keep_line, NULL, FL_LOG_WARN);
    assert_ok(fl_conf_init(&j.conf));
    j.sim = fl_sim_new(&calm);
    j.clients[0] = job_connect(&j, 0);
    job_run(&j, 5000);
    assert_has(said, "trainer 0 waits for server 0 (s0:1)");
    j.servers[0] = job_serve(&j, 0);
    job_run(&j, 3000);
    j.servers[1] = job_serve(&j, 1);
    job_wait(&j);
    assert_ok(job_declare(&j, 0, TEXT));
    assert_ok(push(&j, 0, N_KEYS));
    job_release(&j);
}

static void a_silent_server_is_told_and_its_return_too(void **state)
{
    job j;

    (void)state;
    job_init(&j, 2, 1, &calm);
    job_wait(&j);
    assert_ok(job_declare(&j, 0, TEXT));
    fl_client_set_step(j.clients[0], 17);
    assert_ok(push(&j, 0, N_KEYS));
    fl_sim_freeze(j.sim, "s1:1", true);
    job_run(&j, 3500);
    assert_has(said, "server 1 (s1:1) is silent since 2.");
    assert_has(said, "last step 17; waiting up to 20.0 s for its return");
    fl_sim_freeze(j.sim, "s1:1", false);
    job_run(&j, 1500);
    assert_has(said, "server 1 (s1:1) is back after 3.");
    assert_ok(push(&j, 0, N_KEYS));
    job_release(&j);
}

static void a_call_to_a_lost_server_fails_by_name(void **state)
{
    job j;

    (void)state;
    job_init(&j, 2, 1, &calm);
    job_wait(&j);
    assert_ok(job_declare(&j, 0, TEXT));
    fl_server_free(j.servers[1]);
    j.servers[1] = NULL;
    assert_true(push(&j, 0, N_KEYS));
    assert_has(fl_last_error(), "server 1 at s1:1: did not come back");
    assert_has(said, "server 1 (s1:1) is down (");
    assert_has(said, "server 1 at s1:1: did not come back");
    assert_true(push(&j, 0, N_KEYS)); /* and from now on at once */
    assert_has(fl_last_error(), "server 1 at s1:1: did not come back");
    job_release(&j);
}

static void a_server_without_its_state_is_not_accepted(void **state)
{
    job j;

    (void)state;
    job_init(&j, 2, 1, &calm);
    job_wait(&j);
    assert_ok(job_declare(&j, 0, TEXT));
    fl_server_free(j.servers[1]);
    j.servers[1] = job_serve(&j, 1);
    assert_int_equal(push(&j, 0, N_KEYS), FL_ERR_CLOSED);
    assert_has(fl_last_error(), "came back without its state");
    job_release(&j);
}

/* The same pushes, with and without broken connections. */
static uint64_t hash_of_pushes(const fl_sim_faults *f, uint64_t *n_cuts)
{
    enum { ROUNDS = 60 };
    uint64_t hash;
    job j;

    job_init(&j, 3, 2, f);
    job_wait(&j);
    assert_ok(job_declare(&j, 0, TEXT));
    assert_ok(job_declare(&j, 1, TEXT));
    for (size_t i = 0; i < ROUNDS; i++)
        assert_ok(push(&j, (int)(i % 2), 20 + i * 7));
    *n_cuts = fl_sim_cuts(j.sim);
    hash = fl_mix64(job_hash(&j, 0)) + job_hash(&j, 1);
    job_release(&j);
    return hash;
}

static void pushes_are_applied_once_whatever_breaks(void **state)
{
    fl_sim_faults bad = { .seed = 5,
                          .delay_hi_ms = 8,
                          .cut_after_bytes = 40000,
                          .refuse_share = 0.2 };
    uint64_t wanted, n_cuts;

    (void)state;
    wanted = hash_of_pushes(&calm, &n_cuts);
    assert_int_equal(n_cuts, 0);
    for (; bad.seed < 10; bad.seed++) {
        assert_int_equal(hash_of_pushes(&bad, &n_cuts), wanted);
        assert_true(n_cuts > 20);
    }
}

static void a_client_that_is_freed_answers_what_is_under_way(void **state)
{
    fl_job_pull_item item = { 0, keys, N_KEYS, FL_PULL_CREATE, NULL };
    float out[N_KEYS * DIM];
    uint32_t dim = DIM;
    outcome o = { 0 };
    job j;

    (void)state;
    item.out = out;
    job_init(&j, 2, 1, &calm);
    job_wait(&j);
    assert_ok(job_declare(&j, 0, TEXT));
    assert_ok(fl_client_pull(j.clients[0], &item, &dim, 1,
                             (fl_ending){ on_outcome, &o }));
    fl_client_free(j.clients[0]);
    j.clients[0] = NULL;
    assert_true(o.is_over);
    assert_int_equal(o.err.status, FL_ERR_CLOSED);
    job_release(&j);
}

static void nothing_is_told_after_leaving(void **state)
{
    outcome o = { 0 };
    job j;

    (void)state;
    job_init(&j, 2, 1, &calm);
    job_wait(&j);
    assert_ok(job_declare(&j, 0, TEXT));
    assert_ok(fl_client_leave(j.clients[0], (fl_ending){ on_outcome, &o }));
    assert_ok(job_end(&j, &o));
    fl_log_set(keep_line, NULL, FL_LOG_WARN);
    said[0] = '\0';
    job_run(&j, 5000);
    assert_true(fl_server_is_over(j.servers[0]));
    assert_true(fl_server_is_over(j.servers[1]));
    fl_server_free(j.servers[1]);
    j.servers[1] = NULL;
    job_run(&j, 5000);
    assert_string_equal(said, "");
    job_release(&j);
}

/* --- blocks --------------------------------------------------------------- */

#define BLOCKS                                                                 \
    SGD_START("w", "100000") SERVE_TEXT("1") SGD_UPDATE("1", "w", "100000")

static void a_block_lives_on_one_server(void **state)
{
    enum { N = 100000 };
    int server = fl_client_server_of_block(3, "w");
    fl_client_block b = { .number = 0, .server = server, .n = N };
    float *values = calloc(N, sizeof(float)), *got = calloc(N, sizeof(float));
    const float *sent = values;
    outcome o[3] = { 0 };
    job j;

    (void)state;
    for (int i = 0; i < N; i++)
        values[i] = (float)(i % 100);
    job_init(&j, 3, 1, &calm);
    job_wait(&j);
    assert_ok(job_declare(&j, 0, BLOCKS));
    assert_ok(fl_client_send_blocks(j.clients[0], FL_MSG_ASSIGN_DENSE, &b,
                                    &sent, 1,
                                    (fl_ending){ on_outcome, &o[0] }));
    assert_ok(job_end(&j, &o[0]));
    assert_ok(fl_client_send_blocks(j.clients[0], FL_MSG_PUSH_DENSE, &b, &sent,
                                    1, (fl_ending){ on_outcome, &o[1] }));
    assert_ok(job_end(&j, &o[1]));
    assert_ok(fl_client_pull_blocks(j.clients[0], &b, &got, 1,
                                    (fl_ending){ on_outcome, &o[2] }));
    assert_ok(job_end(&j, &o[2]));
    for (int i = 0; i < N; i++)
        assert_true(got[i] == values[i] * 0.5f);
    for (int s = 0; s < 3; s++)
        assert_int_equal(fl_client_requests(j.clients[0], s, FL_MSG_PUSH_DENSE),
                         s == server);
    job_release(&j);
    free(values);
    free(got);
}

static void blocks_of_many_servers_travel_in_one_request_each(void **state)
{
    enum { N = 4 };
    fl_client_block b[N] = {
        { .number = 0, .server = 2, .n = 2 },
        { .number = 1, .server = 0, .n = 3 },
        { .number = 2, .server = 2, .n = 4 },
        { .number = 3, .server = 0, .n = 5 },
    };
    float values[N][5], got[N][5] = { { 0 } }, *out[N];
    const float *sent[N];
    fl_str text = { 0 };
    outcome o[3] = { 0 };
    job j;

    (void)state;
    for (int i = 0; i < N; i++) {
        unsigned n = (unsigned)b[i].n;

        for (unsigned k = 0; k < n; k++)
            values[i][k] = (float)(10 * i) + (float)k;
        out[i] = got[i];
        sent[i] = values[i];
        fl_str_addf(&text,
                    "var b%d : f32[%u] persist\n"
                    "op fill_constant () -> (Out=b%d) {shape=[%u]}\n"
                    "block %d parent 0\n"
                    "  var b%d@GRAD : f32[%u] data\n"
                    "  op elementwise_add (X=b%d, Y=b%d@GRAD) -> (Out=b%d)\n"
                    "end\n",
                    i, n, i, n, i + 1, i, n, i, i, i);
    }
    fl_str_add(&text, SERVE_TEXT("1,2,3,4"));
    job_init(&j, 3, 1, &calm);
    job_wait(&j);
    assert_ok(job_declare(&j, 0, fl_str_text(&text)));
    fl_str_release(&text);
    assert_ok(fl_client_send_blocks(j.clients[0], FL_MSG_ASSIGN_DENSE, b, sent,
                                    N, (fl_ending){ on_outcome, &o[0] }));
    assert_ok(job_end(&j, &o[0]));
    assert_ok(fl_client_send_blocks(j.clients[0], FL_MSG_PUSH_DENSE, b, sent, N,
                                    (fl_ending){ on_outcome, &o[1] }));
    assert_ok(job_end(&j, &o[1]));
    assert_ok(fl_client_pull_blocks(j.clients[0], b, out, N,
                                    (fl_ending){ on_outcome, &o[2] }));
    assert_ok(job_end(&j, &o[2]));
    for (int i = 0; i < N; i++)
        for (unsigned k = 0; k < b[i].n; k++)
            assert_true(got[i][k] == 2 * values[i][k]);
    for (int s = 0; s < 3; s++)
        assert_int_equal(fl_client_requests(j.clients[0], s, FL_MSG_PULL_DENSE),
                         s != 1);
    /* Without blocks there is nothing to wait for. */
    o[0] = (outcome){ 0 };
    assert_ok(fl_client_pull_blocks(j.clients[0], b, out, 0,
                                    (fl_ending){ on_outcome, &o[0] }));
    assert_true(o[0].is_over);
    job_release(&j);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_server_has_a_range_of_shards),
        cmocka_unit_test(any_number_of_servers_is_like_one_table),
        cmocka_unit_test(keys_that_come_server_by_server_stay_as_they_lie),
        cmocka_unit_test(items_of_one_request_may_have_keys_in_any_order),
        cmocka_unit_test(a_call_is_one_request_per_server),
        cmocka_unit_test(servers_without_keys_are_not_asked),
        cmocka_unit_test(a_request_without_keys_is_done_at_once),
        cmocka_unit_test(values_are_assigned_like_to_one_table),
        cmocka_unit_test(many_requests_under_way_end_well),
        cmocka_unit_test(requests_are_refused_before_the_servers_are_there),
        cmocka_unit_test(an_error_of_a_server_names_the_server),
        cmocka_unit_test(a_refused_push_names_key_and_table),
        cmocka_unit_test(a_request_that_is_too_large_is_refused),
        cmocka_unit_test(too_many_items_are_refused),
        cmocka_unit_test(a_rank_beyond_the_job_is_refused),
        cmocka_unit_test(a_server_that_never_comes_is_named),
        cmocka_unit_test(a_late_server_is_waited_for),
        cmocka_unit_test(a_silent_server_is_told_and_its_return_too),
        cmocka_unit_test(a_call_to_a_lost_server_fails_by_name),
        cmocka_unit_test(a_server_without_its_state_is_not_accepted),
        cmocka_unit_test(pushes_are_applied_once_whatever_breaks),
        cmocka_unit_test(a_client_that_is_freed_answers_what_is_under_way),
        cmocka_unit_test(nothing_is_told_after_leaving),
        cmocka_unit_test(a_block_lives_on_one_server),
        cmocka_unit_test(blocks_of_many_servers_travel_in_one_request_each),
    };

    return cmocka_run_group_tests(tests, make_data, NULL);
}
