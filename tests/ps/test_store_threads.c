/* test_store_threads.c - threads that change one store at once lose nothing. */
#include "store_kit.h"

#include "base/thread.h"

#define N_THREADS 4
#define N_ROUNDS 60
#define N_SHARED 500

static const char adding[] =
    TABLE_TEXT("adding", "dim=3 init=constant(0) partitions=4")
        TABLE_TEXT("grows", "dim=2 init=constant(0) accessor=ctr "
                            "embedx_threshold=20") SGD_START("w", "8")
            SERVE_TEXT("1") SGD_UPDATE("1", "w", "8");

static fl_conf conf;

typedef struct worker {
    fl_store *s;
    uint32_t rank;
    fl_thread *thread;
} worker;

static fl_status ask_as(const worker *w, uint16_t type, fl_pack *p)
{
    received r = receive(p->data, p->len);
    answer a = { 0 };
    fl_store_reply reply = { .reserve = answer_room, .arg = &a };
    fl_status st =
        fl_store_request(w->s,
                         &(fl_store_call){ .type = type,
                                           .payload = { r.data, r.len },
                                           .rank = w->rank,
                                           .incarnation = 1 },
                         &reply);

    answer_release(&a);
    received_free(&r);
    fl_pack_release(p);
    return st;
}

/* An assertion of cmocka would jump out of the wrong thread. */
static void must(fl_status st)
{
    if (st)
        fl_die(__FILE__, __LINE__, "%s", fl_last_error());
}

/* Adds 1 to every row of both tables, and to the block. */
static void add_one(const worker *w)
{
    fl_rows_item items[] = {
        { .table = 0,
          .flags = FL_PUSH_MERGED,
          .rows.n = N_SHARED,
          .rows.lr = 1 },
        { .table = 1,
          .flags = FL_PUSH_MERGED,
          .rows.n = N_SHARED,
          .rows.lr = 1 },
    };
    float minus[N_SHARED * 3];
    uint64_t keys[N_SHARED];
    fl_pack p = { 0 };

    for (size_t i = 0; i < FL_LEN(minus); i++)
        minus[i] = -1;
    for (size_t i = 0; i < N_SHARED; i++)
        keys[i] = (i + 100 * w->rank) % N_SHARED;
    pack_rows_head(&p, FL_MSG_PUSH, items, 2);
    for (size_t k = 0; k < 2; k++) {
        fl_pack_bytes(&p, keys, sizeof(keys));
        fl_pack_bytes(&p, minus, N_SHARED * (3 - k) * sizeof(float));
    }
    must(ask_as(w, FL_MSG_PUSH, &p));
    pack_rows_head(&p, FL_MSG_PULL,
                   (fl_rows_item[]){ { .table = 0, .rows.n = N_SHARED } }, 1);
    fl_pack_bytes(&p, keys, sizeof(keys));
    must(ask_as(w, FL_MSG_PULL, &p));
    for (size_t i = 0; i < 8; i++)
        minus[i] = -2;
    pack_blocks_head(&p, FL_MSG_PUSH_DENSE, (uint32_t[]){ 0 }, 1);
    fl_pack_bytes(&p, minus, 8 * sizeof(float));
    must(ask_as(w, FL_MSG_PUSH_DENSE, &p));
}

static void work(void *arg)
{
    const worker *w = arg;
    fl_pack p = { 0 };

    must(fl_store_declare(w->s, adding, strlen(adding)));
    for (int i = 0; i < N_ROUNDS; i++) {
        add_one(w);
        if (i % 20 == 0) {
            must(ask_as(w, FL_MSG_STATS, &p));
            must(ask_as(w, FL_MSG_HASH, &p));
        }
    }
}

static void threads_push_and_pull_at_once(void **state)
{
    fl_store *s = fl_store_new(&fl_ops, &conf);
    worker w[N_THREADS];
    answer a = { 0 };
    uint64_t key = 77;

    (void)state;
    for (uint32_t i = 0; i < N_THREADS; i++) {
        w[i] = (worker){ .s = s, .rank = i };
        assert_ok(fl_thread_start(&w[i].thread, "worker", work, &w[i]));
    }
    for (uint32_t i = 0; i < N_THREADS; i++)
        fl_thread_join(w[i].thread);
    for (uint32_t table = 0; table < 2; table++) {
        pull_into(s, table, FL_PULL_ONLY, &key, 1, &a);
        assert_true(((float *)a.data)[0] == N_THREADS * N_ROUNDS);
        answer_release(&a);
    }
    assert_int_equal(fl_store_count(s, FL_MSG_PUSH)->merged_rows,
                     2 * N_SHARED * N_THREADS * N_ROUNDS);
    assert_int_equal(fl_store_count(s, FL_MSG_PUSH_DENSE)->requests,
                     N_THREADS * N_ROUNDS);
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
        cmocka_unit_test(threads_push_and_pull_at_once),
    };

    return cmocka_run_group_tests(tests, set_up, tear_down);
}
