/* test_rounds.c - rounds: what members send is applied as one gradient, once,
 * with the same bits whatever came first and however many servers there are. */
#include "client_kit.h"

#include <stdlib.h>

#include "base/alloc.h"
#include "base/hash.h"
#include "base/rng.h"
#include "base/thread.h"
#include "ps/store/rounds.h"

#define N_RANKS 3
#define N_KEYS 40 /* of a rank's push; some are those of other ranks, too */
#define FLOATS 6

#define EMB "dim=4 init=uniform(-1,1) optimizer=adam"
#define CTR "dim=4 init=uniform(-1,1) accessor=ctr embedx_threshold=2"
#define DECLARED                                                               \
    "seed 7\n" TABLE_TEXT("emb", EMB) TABLE_TEXT("ctr", CTR)                   \
        TABLE_TEXT("idle", EMB) SGD_START("u", "6") SGD_START("v", "6")        \
            SGD_START("w", "6") SGD_START("x", "6") SERVE_TEXT("1,2,3,4")      \
                SGD_UPDATE("1", "u", "6") SGD_UPDATE("2", "v", "6")            \
                    SGD_UPDATE("3", "w", "6") SGD_UPDATE("4", "x", "6")

enum { TABLE_EMB, TABLE_CTR, TABLE_IDLE };
enum { N_BLOCKS = 4 };

static const fl_round_member members[N_RANKS] = { { 0, 0.5 },
                                                  { 1, 0.3 },
                                                  { 2, 0.2 } };

/* What a rank sends for a round. */
typedef struct gift {
    uint64_t keys[2][N_KEYS];
    float grads[2][N_KEYS * DIM], shows[N_KEYS], clicks[N_KEYS];
    uint32_t counts[N_KEYS];
    float dense[N_BLOCKS][FLOATS];
} gift;

static int by_hash(const void *a, const void *b)
{
    uint64_t x = fl_hash_key(*(const uint64_t *)a);
    uint64_t y = fl_hash_key(*(const uint64_t *)b);

    return (x > y) - (x < y);
}

/* In the order of the hash, as pulls give keys, in some rounds from all and in
   some from all but the last. */
static bool is_ordered(uint32_t rank, uint64_t round)
{
    return round % 4 == 1 || (round % 4 == 3 && rank + 1 < N_RANKS);
}

static void fill(gift *g, uint32_t rank, uint64_t round)
{
    uint64_t no = round * 100 + rank;

    for (size_t t = 0; t < 2; t++) {
        for (size_t i = 0; i < N_KEYS; i++)
            g->keys[t][i] = (rank * 15 + i) * (t + 3) + round % 3;
        if (is_ordered(rank, round))
            qsort(g->keys[t], N_KEYS, sizeof(*g->keys[t]), by_hash);
    }
    for (size_t t = 0; t < 2; t++)
        for (size_t i = 0; i < N_KEYS * DIM; i++)
            g->grads[t][i] = (float)fl_rng_normal(no, t, i);
    for (size_t i = 0; i < N_KEYS; i++) {
        g->shows[i] = (float)(1 + i % 2);
        g->clicks[i] = (float)(i % 2);
        g->counts[i] = 1 + (uint32_t)i % 4;
    }
    for (size_t b = 0; b < N_BLOCKS; b++)
        for (size_t i = 0; i < FLOATS; i++)
            g->dense[b][i] = (float)fl_rng_normal(no, 10 + b, i);
}

static void rows_of(const gift *g, uint32_t rank, fl_job_push_item items[2])
{
    items[0] = (fl_job_push_item){
        .table = TABLE_EMB,
        .rows = { .keys = g->keys[0],
                  .values = g->grads[0],
                  .n = N_KEYS,
                  .lr = 0.25 + rank,
                  .merged = true },
    };
    items[1] = (fl_job_push_item){
        .table = TABLE_CTR,
        .rows = { .keys = g->keys[1],
                  .values = g->grads[1],
                  .shows = g->shows,
                  .clicks = g->clicks,
                  .counts = g->counts,
                  .n = N_KEYS,
                  .lr = 0.125 },
    };
}

/* --- rounds alone --------------------------------------------------------- */

typedef struct kit {
    fl_conf conf;
    fl_store *store;
    fl_store_schema *schema;
} kit;

static void kit_init(kit *k, const char *declared)
{
    assert_ok(fl_conf_init(&k->conf));
    k->store = fl_store_new(&fl_ops, &k->conf);
    assert_ok(fl_store_declare(k->store, declared, strlen(declared)));
    k->schema = atomic_load(&k->store->schema);
}

static void kit_release(kit *k)
{
    fl_store_free(k->store);
    fl_conf_release(&k->conf);
}

static uint64_t kit_hash(const kit *k)
{
    uint64_t sum = 0, h;

    for (size_t i = 0; i < k->schema->tables.len; i++) {
        assert_ok(fl_store_hash_table(&k->schema->tables.data[i], &h));
        sum = fl_mix64(sum + h);
    }
    for (size_t i = 0; i < k->schema->blocks.len; i++)
        sum = fl_mix64(sum + fl_dense_hash(k->schema->blocks.data[i].dense));
    return sum;
}

/* A request of that rank. */
static fl_store_ctx ctx_of(const kit *k, fl_store_call *from, uint32_t rank,
                           uint32_t incarnation)
{
    *from = (fl_store_call){ .rank = rank, .incarnation = incarnation };
    return (
        fl_store_ctx){ .store = k->store, .schema = k->schema, .call = from };
}

static fl_status keep_rows(const kit *k, uint64_t round, uint32_t rank,
                           uint32_t incarnation, fl_rows_item *items,
                           uint32_t n)
{
    fl_store_call from;
    fl_store_ctx c = ctx_of(k, &from, rank, incarnation);

    from.type = FL_MSG_ROUND_PUSH;
    c.rows = items;
    c.n_rows = n;
    return fl_rounds_keep_rows(&c, round);
}

static fl_status keep_blocks(const kit *k, uint64_t round, uint32_t rank,
                             uint32_t incarnation, fl_block_item *items,
                             uint32_t n)
{
    fl_store_call from;
    fl_store_ctx c = ctx_of(k, &from, rank, incarnation);

    from.type = FL_MSG_ROUND_DENSE;
    c.blocks = items;
    c.n_blocks = n;
    return fl_rounds_keep_blocks(&c, round);
}

static fl_status apply_members(const kit *k, uint64_t round,
                               const fl_round_member *who, size_t n)
{
    fl_apply_request a = { .round = round,
                           .members = (void *)(uintptr_t)who,
                           .n_members = (uint32_t)n };
    fl_store_call from;
    fl_store_ctx c = ctx_of(k, &from, 0, 1);

    from.type = FL_MSG_APPLY;
    return fl_rounds_apply(&c, &a);
}

static fl_status keep_as(const kit *k, uint64_t round, uint32_t rank,
                         uint32_t incarnation)
{
    fl_job_push_item from[2];
    fl_rows_item items[2];
    fl_block_item blocks[N_BLOCKS];
    gift g;

    fill(&g, rank, round);
    rows_of(&g, rank, from);
    for (int i = 0; i < 2; i++) {
        items[i] = (fl_rows_item){ .table = (uint32_t)from[i].table,
                                   .rows = from[i].rows };
        items[i].rows.dim = DIM;
    }
    for (uint32_t b = 0; b < N_BLOCKS; b++)
        blocks[b] =
            (fl_block_item){ .block = b, .n = FLOATS, .coded = g.dense[b] };
    FL_TRY(keep_rows(k, round, rank, incarnation, items, 2));
    FL_TRY(keep_blocks(k, round, rank, incarnation, blocks, N_BLOCKS));
    /* What was sent is the sender's again. */
    memset(&g, 0xee, sizeof(g));
    return FL_OK;
}

static fl_status keep(const kit *k, uint64_t round, uint32_t rank)
{
    return keep_as(k, round, rank, 1);
}

static void apply(const kit *k, uint64_t round, size_t n_members, bool expected)
{
    uint64_t before = kit_hash(k);

    assert_ok(apply_members(k, round, members, n_members));
    assert_true(expected || kit_hash(k) == before);
}

/* The same by hand: tables of one's own get the sums of one round. */
typedef struct pot {
    uint64_t keys[N_RANKS * N_KEYS];
    float grads[N_RANKS * N_KEYS * DIM];
    float shows[N_RANKS * N_KEYS], clicks[N_RANKS * N_KEYS];
    uint32_t counts[N_RANKS * N_KEYS];
    size_t n;
} pot;

static size_t place_of(pot *p, uint64_t key)
{
    size_t i = 0;

    while (i < p->n && p->keys[i] != key)
        i++;
    if (i == p->n)
        p->keys[p->n++] = key;
    return i;
}

static void add_gift(pot *p, const fl_rows *a, float weight)
{
    for (size_t i = 0; i < a->n; i++) {
        size_t at = place_of(p, a->keys[i]);

        for (size_t d = 0; d < DIM; d++) {
            float x = weight * a->values[i * DIM + d];

            p->grads[at * DIM + d] += x;
        }
        p->shows[at] += a->shows ? a->shows[i] : 1;
        p->clicks[at] += a->clicks ? a->clicks[i] : 0;
        p->counts[at] += a->counts ? a->counts[i] : 1;
    }
}

static void push_by_hand(fl_table *t, int item, uint64_t round)
{
    static pot p;
    static gift g;
    fl_job_push_item items[2];
    fl_rows a = { .merged = true };

    memset(&p, 0, sizeof(p));
    for (uint32_t rank = 0; rank < N_RANKS; rank++) {
        fill(&g, rank, round);
        rows_of(&g, rank, items);
        add_gift(&p, &items[item].rows, (float)members[rank].weight);
        if (!rank)
            a.lr = items[item].rows.lr;
    }
    a.keys = p.keys;
    a.values = p.grads;
    a.shows = p.shows;
    a.clicks = p.clicks;
    a.counts = p.counts;
    a.n = p.n;
    assert_ok(fl_table_push(t, &a));
}

static void a_round_is_the_sum_of_weighted_gradients(void **state)
{
    fl_table *emb = lone_table("emb", EMB, 7), *ctr = lone_table("ctr", CTR, 7);
    float w[N_BLOCKS][FLOATS] = { { 0 } }, got[FLOATS];
    uint64_t h;
    kit k;

    (void)state;
    kit_init(&k, DECLARED);
    for (uint64_t round = 5; round < 9; round++) {
        for (uint32_t rank = 0; rank < N_RANKS; rank++)
            assert_ok(keep(&k, round, rank));
        apply(&k, round, N_RANKS, true);
        push_by_hand(emb, 0, round);
        push_by_hand(ctr, 1, round);
        for (size_t b = 0; b < N_BLOCKS; b++) {
            float sum[FLOATS] = { 0 };
            gift g;

            for (uint32_t rank = 0; rank < N_RANKS; rank++) {
                fill(&g, rank, round);
                for (size_t i = 0; i < FLOATS; i++) {
                    float x = (float)members[rank].weight * g.dense[b][i];

                    sum[i] += x;
                }
            }
            for (size_t i = 0; i < FLOATS; i++)
                w[b][i] -= 0.5f * sum[i];
        }
    }
    assert_ok(fl_store_hash_table(&k.schema->tables.data[TABLE_EMB], &h));
    assert_true(h == lone_hash(emb));
    assert_ok(fl_store_hash_table(&k.schema->tables.data[TABLE_CTR], &h));
    assert_true(h == lone_hash(ctr));
    for (size_t b = 0; b < N_BLOCKS; b++) {
        fl_dense_pull(k.schema->blocks.data[b].dense, FL_CODEC_F32, got);
        assert_memory_equal(got, w[b], sizeof(got));
    }
    fl_table_destroy(emb);
    fl_table_destroy(ctr);
    kit_release(&k);
}

static void who_comes_first_does_not_matter(void **state)
{
    static const uint32_t orders[][N_RANKS] = { { 0, 1, 2 },
                                                { 2, 1, 0 },
                                                { 1, 2, 0 } };
    uint64_t first = 0;

    (void)state;
    for (size_t o = 0; o < FL_LEN(orders); o++) {
        kit k;

        kit_init(&k, DECLARED);
        for (uint64_t round = 0; round < 3; round++) {
            for (size_t i = 0; i < N_RANKS; i++)
                assert_ok(keep(&k, round, orders[o][i]));
            apply(&k, round, N_RANKS, true);
        }
        if (!o)
            first = kit_hash(&k);
        assert_true(kit_hash(&k) == first);
        kit_release(&k);
    }
}

static void a_round_is_applied_once_and_in_turn(void **state)
{
    uint64_t hash;
    kit k;

    (void)state;
    kit_init(&k, DECLARED);
    for (uint32_t rank = 0; rank < N_RANKS; rank++)
        assert_ok(keep(&k, 10, rank));
    apply(&k, 10, N_RANKS, true);
    hash = kit_hash(&k);
    apply(&k, 10, N_RANKS, false);
    apply(&k, 10, 1, false);
    assert_int_equal(apply_members(&k, 9, members, N_RANKS), FL_ERR_INVAL);
    assert_has(fl_last_error(),
               "round 9 is to be applied, but the next one is 11");
    assert_int_equal(apply_members(&k, 12, members, N_RANKS), FL_ERR_INVAL);
    assert_int_equal(keep(&k, 10, 1), FL_ERR_INVAL);
    assert_has(fl_last_error(), "trainer 1 sends gradients of round 10, which "
                                "was applied already");
    assert_int_equal(keep(&k, UINT64_MAX, 1), FL_ERR_INVAL);
    assert_ok(keep(&k, 13, 2));
    assert_int_equal(keep(&k, 12, 2), FL_ERR_INVAL);
    assert_has(fl_last_error(), "after those of round 13");
    assert_true(kit_hash(&k) == hash);
    kit_release(&k);
}

static void who_is_no_member_leaves_no_trace(void **state)
{
    uint64_t with, without;
    size_t before;
    kit k;

    (void)state;
    kit_init(&k, DECLARED);
    assert_ok(keep(&k, 0, 0));
    assert_ok(keep(&k, 0, 1));
    apply(&k, 0, 2, true);
    without = kit_hash(&k);
    kit_release(&k);
    kit_init(&k, DECLARED);
    before = fl_data_bytes();
    assert_ok(keep(&k, 0, 2));
    assert_true(fl_data_bytes() > before);
    assert_ok(keep(&k, 0, 1));
    assert_ok(keep(&k, 0, 0));
    apply(&k, 0, 2, true);
    with = kit_hash(&k);
    assert_true(with == without);
    /* What it had sent is gone: it takes no part in the next round either. */
    apply(&k, 1, N_RANKS, true);
    assert_true(kit_hash(&k) == without);
    kit_release(&k);
}

static void of_a_rank_one_round_is_kept(void **state)
{
    size_t before;
    uint64_t hash;
    kit k;

    (void)state;
    kit_init(&k, DECLARED);
    /* One is kept while the next one comes. */
    assert_ok(keep(&k, 4, 0));
    assert_ok(keep(&k, 5, 0));
    before = fl_data_bytes();
    for (uint64_t round = 6; round < 50; round++)
        assert_ok(keep(&k, round, 0));
    assert_true(fl_data_bytes() == before);
    apply(&k, 49, 1, true);
    hash = kit_hash(&k);
    kit_release(&k);
    kit_init(&k, DECLARED);
    assert_ok(keep(&k, 49, 0));
    apply(&k, 49, 1, true);
    assert_true(kit_hash(&k) == hash);
    kit_release(&k);
}

static void a_newer_incarnation_replaces_an_older_one(void **state)
{
    uint64_t hash;
    kit k;

    (void)state;
    kit_init(&k, DECLARED);
    assert_ok(keep_as(&k, 0, 0, 2));
    apply(&k, 0, 1, true);
    hash = kit_hash(&k);
    kit_release(&k);
    kit_init(&k, DECLARED);
    assert_ok(keep_as(&k, 0, 0, 1));
    assert_ok(keep_as(&k, 0, 0, 2));
    assert_int_equal(keep_as(&k, 0, 0, 1), FL_ERR_CLOSED);
    assert_has(fl_last_error(), "was replaced by incarnation 2");
    apply(&k, 0, 1, true);
    assert_true(kit_hash(&k) == hash);
    kit_release(&k);
}

static void a_table_without_keys_goes_one_step_on_and_no_other(void **state)
{
    fl_table *emb = lone_table("emb", EMB, 7),
             *idle = lone_table("idle", EMB, 7);
    fl_rows_item nothing = { .table = TABLE_EMB,
                             .rows = { .lr = 0.5, .dim = DIM } };
    const float grad[DIM] = { 1, 2, 3, 4 };
    const uint64_t key = 3;
    fl_rows one = { .keys = &key, .values = grad, .n = 1 };
    fl_rows none = { .lr = 0.5, .merged = true };
    uint64_t h;
    kit k;

    (void)state;
    one.lr = 1;
    kit_init(&k, DECLARED);
    assert_ok(keep_rows(&k, 0, 0, 1, &nothing, 1));
    apply(&k, 0, 1, true);
    /* Adam's powers of beta show how many steps there were. */
    for (int t = TABLE_EMB; t <= TABLE_IDLE; t += TABLE_IDLE)
        assert_ok(fl_table_push(k.schema->tables.data[t].table, &one));
    assert_ok(fl_table_push(emb, &none));
    assert_ok(fl_table_push(emb, &one));
    assert_ok(fl_table_push(idle, &one));
    assert_ok(fl_store_hash_table(&k.schema->tables.data[TABLE_EMB], &h));
    assert_true(h == lone_hash(emb));
    assert_ok(fl_store_hash_table(&k.schema->tables.data[TABLE_IDLE], &h));
    assert_true(h == lone_hash(idle));
    fl_table_destroy(emb);
    fl_table_destroy(idle);
    kit_release(&k);
}

static void schedules_see_the_round_as_the_step(void **state)
{
    static const char decaying[] =
        "var w : f32[1] persist\n"
        "op fill_constant () -> (Out=w) {shape=[1]}\n" SERVE_TEXT(
            "1") "block 1 parent 0\n"
                 "var w@GRAD : f32[1] data\n"
                 "op global_step () -> (Out=step) @lr\n"
                 "op lr_exponential_decay (Step=step) -> (Out=lr) "
                 "{learning_rate=1, "
                 "decay_steps=1, decay_rate=0.5} @lr\n"
                 "op sgd (Param=w, Grad=w@GRAD, LearningRate=lr) -> "
                 "(ParamOut=w) "
                 "@optimize\n"
                 "end\n";
    const float grad = -1;
    fl_block_item it = { .n = 1, .coded = &grad };
    const fl_round_member one = { 0, 1 };
    float got, right = 0;
    kit k;

    (void)state;
    kit_init(&k, decaying);
    for (uint64_t round = 2; round < 5; round++) {
        right += 1.0f / (float)(1 << round);
        assert_ok(keep_blocks(&k, round, 0, 1, &it, 1));
        assert_ok(apply_members(&k, round, &one, 1));
        fl_dense_pull(k.schema->blocks.data[0].dense, FL_CODEC_F32, &got);
        assert_true(got == right);
    }
    kit_release(&k);
}

static fl_status send_and_apply(const kit *k)
{

    for (uint32_t rank = 0; rank < N_RANKS; rank++)
        FL_TRY(keep(k, 0, rank));
    return apply_members(k, 0, members, N_RANKS);
}

static uint64_t hash_of_emb(const kit *k)
{
    uint64_t h;

    assert_ok(fl_store_hash_table(&k->schema->tables.data[TABLE_EMB], &h));
    return h;
}

/* Fails the n-th allocation. The table ctr makes do without the memory that its
   rows would grow into, so that it is not compared. */
static void fail_and_look(uint64_t n, uint64_t right)
{
    fl_status st;
    kit k;

    kit_init(&k, DECLARED);
    fl_alloc_fail_after(n);
    st = send_and_apply(&k);
    fl_alloc_fail_after(0);
    if (st)
        assert_int_equal(st, FL_ERR_NOMEM);
    else
        assert_true(hash_of_emb(&k) == right);
    /* Nothing was changed and it can be asked for again, or it says so. */
    if (apply_members(&k, 0, members, N_RANKS)) {
        assert_has(fl_last_error(), "round 0 was applied in part only");
        assert_int_equal(keep(&k, 1, 0), FL_ERR_NOMEM);
    }
    kit_release(&k);
}

static void without_memory_a_round_fails_and_says_so(void **state)
{
    uint64_t right, n_calls;
    kit k;

    (void)state;
    kit_init(&k, DECLARED);
    n_calls = fl_data_calls();
    assert_ok(send_and_apply(&k));
    n_calls = fl_data_calls() - n_calls;
    right = hash_of_emb(&k);
    kit_release(&k);
    assert_true(n_calls > 10);
    for (uint64_t n = 1; n <= n_calls; n++)
        fail_and_look(n, right);
}

/* --- threads -------------------------------------------------------------- */

#define N_ROUNDS 20

typedef struct meeting {
    fl_mutex mu;
    fl_cond cond;
    uint64_t n_came;
} meeting;

typedef struct worker {
    const kit *k;
    meeting *m;
    uint32_t rank;
    fl_thread *thread;
} worker;

static void must(fl_status st)
{
    if (st)
        fl_die(__FILE__, __LINE__, "%s", fl_last_error());
}

static void meet(meeting *m, uint64_t n)
{
    fl_lock(&m->mu);
    m->n_came++;
    fl_cond_wake_all(&m->cond);
    while (m->n_came < n)
        fl_cond_wait(&m->cond, &m->mu);
    fl_unlock(&m->mu);
}

static void work(void *arg)
{
    worker *w = arg;

    for (uint64_t round = 0; round < N_ROUNDS; round++) {
        must(keep(w->k, round, w->rank));
        meet(w->m, (round + 1) * N_RANKS);
        must(apply_members(w->k, round, members, N_RANKS));
    }
}

static void threads_send_and_apply_at_once(void **state)
{
    worker w[N_RANKS];
    meeting m = { 0 };
    uint64_t right;
    kit k;

    (void)state;
    kit_init(&k, DECLARED);
    for (uint64_t round = 0; round < N_ROUNDS; round++) {
        for (uint32_t rank = 0; rank < N_RANKS; rank++)
            assert_ok(keep(&k, round, rank));
        apply(&k, round, N_RANKS, true);
    }
    right = kit_hash(&k);
    kit_release(&k);
    kit_init(&k, DECLARED);
    fl_mutex_init(&m.mu);
    fl_cond_init(&m.cond);
    for (uint32_t i = 0; i < N_RANKS; i++) {
        w[i] = (worker){ .k = &k, .m = &m, .rank = i };
        assert_ok(fl_thread_start(&w[i].thread, "worker", work, &w[i]));
    }
    for (uint32_t i = 0; i < N_RANKS; i++) {
        fl_thread_join(w[i].thread);
    }
    assert_true(kit_hash(&k) == right);
    fl_cond_release(&m.cond);
    fl_mutex_release(&m.mu);
    kit_release(&k);
}

/* --- over clients and servers --------------------------------------------- */

static void send_round(job *j, uint64_t round, int trainer,
                       const fl_client_block *blocks)
{
    static const uint32_t dims[2] = { DIM, DIM };
    const float *values[N_BLOCKS];
    fl_job_push_item items[2];
    outcome o[2] = { 0 };
    gift g;

    fill(&g, (uint32_t)trainer, round);
    rows_of(&g, (uint32_t)trainer, items);
    for (int i = 0; i < N_BLOCKS; i++)
        values[i] = g.dense[i];
    assert_ok(fl_client_round_push(j->clients[trainer], round, items, dims, 2,
                                   (fl_ending){ on_outcome, &o[0] }));
    assert_ok(fl_client_round_blocks(j->clients[trainer], round, blocks, values,
                                     N_BLOCKS,
                                     (fl_ending){ on_outcome, &o[1] }));
    assert_ok(job_end(j, &o[0]));
    assert_ok(job_end(j, &o[1]));
}

typedef float given[N_RANKS][N_BLOCKS][FLOATS];

static fl_client_round request_of(uint64_t round, const fl_client_block *blocks,
                                  float *out[N_BLOCKS],
                                  float to[N_BLOCKS][FLOATS])
{
    for (int b = 0; b < N_BLOCKS; b++)
        out[b] = to[b];
    return (fl_client_round){
        .number = round, .blocks = blocks, .out = out, .n_blocks = N_BLOCKS
    };
}

/* One after the other. */
static void apply_by_all(job *j, uint64_t round, const fl_client_block *blocks,
                         given got)
{
    for (int i = 0; i < N_RANKS; i++) {
        float *out[N_BLOCKS];
        fl_client_round r = request_of(round, blocks, out, got[i]);
        outcome o = { 0 };

        r.members = members;
        r.n_members = N_RANKS;
        assert_ok(
            fl_client_apply(j->clients[i], &r, (fl_ending){ on_outcome, &o }));
        assert_ok(job_end(j, &o));
    }
}

static void begin_pull(job *j, int trainer, float *out, outcome *o)
{
    static const uint32_t dim = DIM;
    static const uint64_t key = 0; /* trainer 0 has it in every third round */
    fl_job_pull_item item = {
        .table = TABLE_EMB, .keys = &key, .n = 1, .out = out
    };

    assert_ok(fl_client_pull(j->clients[trainer], &item, &dim, 1,
                             (fl_ending){ on_outcome, o }));
}

/* All at once, and what each pulls behind that has the new round. */
static void meet_all(job *j, uint64_t round, const fl_client_block *blocks,
                     given got)
{
    static const uint64_t shares[N_RANKS] = { 5, 3, 2 }; /* as the weights */
    float rows[N_RANKS][DIM], after[DIM], *out[N_RANKS][N_BLOCKS];
    outcome o[N_RANKS] = { 0 }, pulls[N_RANKS] = { 0 }, last = { 0 };

    for (int i = 0; i < N_RANKS; i++) {
        fl_client_round r = request_of(round, blocks, out[i], got[i]);

        r.share = shares[i];
        r.weighing = FL_WEIGH_BY_SAMPLES;
        assert_ok(fl_client_meet(j->clients[i], &r,
                                 (fl_ending){ on_outcome, &o[i] }));
        begin_pull(j, i, rows[i], &pulls[i]);
    }
    for (int i = 0; i < N_RANKS; i++) {
        assert_ok(job_end(j, &o[i]));
        assert_ok(job_end(j, &pulls[i]));
    }
    begin_pull(j, 0, after, &last);
    assert_ok(job_end(j, &last));
    for (int i = 0; i < N_RANKS; i++)
        assert_memory_equal(rows[i], after, sizeof(after));
}

typedef struct course {
    int n_servers;
    bool is_backward, meets;
} course;

static uint64_t train(course c, const fl_sim_faults *faults)
{
    fl_client_block blocks[N_BLOCKS];
    uint64_t sum;
    outcome o;
    job j;

    job_init(&j, c.n_servers, N_RANKS, faults);
    job_wait(&j);
    assert_ok(job_declare(&j, 0, DECLARED));
    for (int i = 0; i < N_BLOCKS; i++)
        blocks[i] = (fl_client_block){ (uint32_t)i, i % c.n_servers, FLOATS };
    for (uint64_t round = 0; round < 5; round++) {
        given got;

        for (int i = 0; i < N_RANKS; i++)
            send_round(&j, round, c.is_backward ? N_RANKS - 1 - i : i, blocks);
        (c.meets ? meet_all : apply_by_all)(&j, round, blocks, got);
        for (int i = 1; i < N_RANKS; i++)
            assert_memory_equal(got[i], got[0], sizeof(got[0]));
    }
    sum = 0;
    job_hashes(&j, &o);
    for (int i = 0; i < 3 + N_BLOCKS; i++)
        sum = fl_mix64(sum + o.sums[i]);
    job_release(&j);
    return sum;
}

static void any_number_of_servers_gives_the_same_bits(void **state)
{
    static const fl_sim_faults calm = { .seed = 1 };
    uint64_t one = train((course){ .n_servers = 1 }, &calm);

    (void)state;
    for (int n = 1; n <= SERVERS_MAX; n++) {
        assert_true(train((course){ .n_servers = n }, &calm) == one);
        assert_true(train((course){ .n_servers = n, .is_backward = true },
                          &calm) == one);
    }
}

static void who_meets_gives_the_same_bits_as_who_is_told(void **state)
{
    static const fl_sim_faults calm = { .seed = 1 };

    (void)state;
    for (int n = 1; n <= SERVERS_MAX; n++)
        assert_true(train((course){ .n_servers = n, .meets = true }, &calm) ==
                    train((course){ .n_servers = 1 }, &calm));
}

static void rounds_are_applied_once_whatever_breaks(void **state)
{
    static const fl_sim_faults calm = { .seed = 1 };
    fl_sim_faults bad = { .seed = 5,
                          .delay_hi_ms = 8,
                          .cut_after_bytes = 10000,
                          .refuse_share = 0.2 };
    uint64_t one = train((course){ .n_servers = 1 }, &calm);

    (void)state;
    for (; bad.seed < 9; bad.seed++) {
        assert_true(train((course){ .n_servers = 2 }, &bad) == one);
        for (int n = 1; n <= SERVERS_MAX; n++)
            assert_true(
                train((course){ .n_servers = n, .meets = true }, &bad) == one);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_round_is_the_sum_of_weighted_gradients),
        cmocka_unit_test(who_comes_first_does_not_matter),
        cmocka_unit_test(a_round_is_applied_once_and_in_turn),
        cmocka_unit_test(who_is_no_member_leaves_no_trace),
        cmocka_unit_test(of_a_rank_one_round_is_kept),
        cmocka_unit_test(a_newer_incarnation_replaces_an_older_one),
        cmocka_unit_test(a_table_without_keys_goes_one_step_on_and_no_other),
        cmocka_unit_test(schedules_see_the_round_as_the_step),
        cmocka_unit_test(without_memory_a_round_fails_and_says_so),
        cmocka_unit_test(threads_send_and_apply_at_once),
        cmocka_unit_test(any_number_of_servers_gives_the_same_bits),
        cmocka_unit_test(who_meets_gives_the_same_bits_as_who_is_told),
        cmocka_unit_test(rounds_are_applied_once_whatever_breaks),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
