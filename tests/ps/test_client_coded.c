/* test_client_coded.c - rows and blocks that travel as bf16, in a simulation:
 * servers do with them what they would do with the rounded numbers. */
#include "client_kit.h"

#include <stdlib.h>

#include "base/hash.h"

#define N_KEYS 301 /* times an odd width: the last word is not full */
#define SETTINGS "dim=3 optimizer=adagrad"
#define CTR "dim=9 accessor=ctr optimizer=adagrad"
#define TEXT                                                                   \
    "seed 3\n" TABLE_TEXT("emb", SETTINGS) TABLE_TEXT("ctr", CTR) SERVE_TEXT("")

enum { EMB_DIM = 3, CTR_DIM = 9 };
static const uint32_t dims[] = { EMB_DIM, CTR_DIM };

static const fl_sim_faults calm = { .seed = 1, .delay_hi_ms = 3 };

static uint64_t keys[N_KEYS];
static float grads[N_KEYS * CTR_DIM], shows[N_KEYS], clicks[N_KEYS];
static uint32_t counts[N_KEYS];

/* Gradients that are not short; some keys are there twice. */
static void make_data(uint64_t mask)
{
    for (size_t i = 0; i < N_KEYS; i++) {
        keys[i] = i % 10 == 9 ? keys[i - 3] : fl_mix64(i) & mask;
        shows[i] = (float)(i % 5 + 1);
        clicks[i] = (float)(i % 2);
        counts[i] = (uint32_t)(i % 3 + 1);
    }
    keys[0] = 0;
    for (size_t i = 0; i < N_KEYS * CTR_DIM; i++)
        grads[i] = (float)(fl_mix64(i) % 1000) / 997 - 0.5f;
}

static void round_all(float *values, size_t n)
{
    uint32_t *coded = malloc(fl_codec_bytes(FL_CODEC_BF16, n));

    fl_codec_encode(FL_CODEC_BF16, values, n, coded);
    fl_codec_decode(FL_CODEC_BF16, coded, n, values);
    free(coded);
}

static void start(job *j, int n_servers)
{
    *j =
        (job){ .n_servers = n_servers, .n_trainers = 1, .push = FL_CODEC_BF16 };
    job_start(j, &calm);
    job_wait(j);
}

static void fill_push(fl_job_push_item items[2], const float *values)
{
    items[0] = (fl_job_push_item){
        0, { .keys = keys, .values = values, .n = N_KEYS, .lr = 0.1 }
    };
    items[1] = (fl_job_push_item){ 1,
                                   { .keys = keys,
                                     .values = values,
                                     .shows = shows,
                                     .clicks = clicks,
                                     .counts = counts,
                                     .n = N_KEYS,
                                     .lr = 0.05 } };
}

static void push(job *j)
{
    fl_job_push_item items[2];
    outcome o = { 0 };

    fill_push(items, grads);
    assert_ok(fl_client_push(j->clients[0], items, dims, 2,
                             (fl_ending){ on_outcome, &o }));
    assert_ok(job_end(j, &o));
}

static void pull(job *j, fl_codec codec, float *emb, float *ctr)
{
    fl_job_pull_item items[] = { { 0, keys, N_KEYS, FL_PULL_CREATE, emb },
                                 { 1, keys, N_KEYS, FL_PULL_ONLY, ctr } };
    outcome o = { 0 };

    assert_ok(fl_client_pull_coded(j->clients[0], codec, items, dims, 2,
                                   (fl_ending){ on_outcome, &o }));
    assert_ok(job_end(j, &o));
}

#define N_VALUES (N_KEYS * (EMB_DIM + CTR_DIM))

/* Both tables, coded and as they are, against tables here that get the rounded
   gradients. */
static void check_rows(int n_servers)
{
    fl_table *emb = lone_table("emb", SETTINGS, 3);
    fl_table *ctr = lone_table("ctr", CTR, 3);
    static float rounded[N_KEYS * CTR_DIM], got[N_VALUES], right[N_VALUES];
    fl_job_push_item items[2];
    job j;

    memcpy(rounded, grads, sizeof(rounded));
    round_all(rounded, N_KEYS * CTR_DIM);
    fill_push(items, rounded);
    start(&j, n_servers);
    assert_ok(job_declare(&j, 0, TEXT));
    for (int round = 0; round < 3; round++) {
        float *ctr_right = right + N_KEYS * EMB_DIM;

        assert_ok(fl_table_pull(emb, keys, N_KEYS, FL_PULL_CREATE, right));
        assert_ok(fl_table_pull(ctr, keys, N_KEYS, FL_PULL_ONLY, ctr_right));
        pull(&j, FL_CODEC_F32, got, got + N_KEYS * EMB_DIM);
        assert_memory_equal(got, right, sizeof(got));
        round_all(right, N_VALUES);
        pull(&j, FL_CODEC_BF16, got, got + N_KEYS * EMB_DIM);
        assert_memory_equal(got, right, sizeof(got));
        push(&j);
        assert_ok(fl_table_push(emb, &items[0].rows));
        assert_ok(fl_table_push(ctr, &items[1].rows));
    }
    assert_int_equal(job_hash(&j, 0), lone_hash(emb));
    assert_int_equal(job_hash(&j, 1), lone_hash(ctr));
    job_release(&j);
    fl_table_destroy(emb);
    fl_table_destroy(ctr);
}

/* Keys of 1, 3 and all 8 bytes. */
static void
coded_rows_are_those_of_one_table_that_gets_rounded_ones(void **state)
{
    static const uint64_t masks[] = { 0xff, 0xffffff, UINT64_MAX };

    (void)state;
    for (size_t i = 0; i < FL_LEN(masks); i++) {
        make_data(masks[i]);
        for (int n = 1; n <= SERVERS_MAX; n++)
            check_rows(n);
    }
}

static uint64_t pulled_bytes(job *j, fl_codec codec)
{
    const fl_client_stats *s = fl_client_stats_of(j->clients[0]);
    static float emb[N_KEYS * EMB_DIM], ctr[N_KEYS * CTR_DIM];
    uint64_t before = fl_stat_get(&s->sent) + fl_stat_get(&s->received);

    pull(j, codec, emb, ctr);
    return fl_stat_get(&s->sent) + fl_stat_get(&s->received) - before;
}

static void coded_rows_and_small_keys_are_fewer_bytes(void **state)
{
    uint64_t keys_and_head = 2 * N_KEYS * sizeof(uint64_t) + 8 + 2 * 16;
    job j;

    (void)state;
    make_data(0xffff);
    start(&j, 1);
    assert_ok(job_declare(&j, 0, TEXT));
    assert_int_equal(pulled_bytes(&j, FL_CODEC_F32),
                     keys_and_head + N_VALUES * 4);
    assert_int_equal(pulled_bytes(&j, FL_CODEC_BF16),
                     8 + 2 * 16 + 2 * fl_keys_bytes(N_KEYS, 2) +
                         fl_codec_bytes(FL_CODEC_BF16, N_KEYS * EMB_DIM) +
                         fl_codec_bytes(FL_CODEC_BF16, N_KEYS * CTR_DIM));
    job_release(&j);
}

/* --- blocks --------------------------------------------------------------- */

#define N_BLOCKS 4

/* w = w + gradient, of 2 to 5 numbers. */
static void declare_blocks(job *j, const fl_client_block *b)
{
    fl_str text = { 0 };

    for (int i = 0; i < N_BLOCKS; i++) {
        unsigned n = (unsigned)b[i].n;

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
    assert_ok(job_declare(j, 0, fl_str_text(&text)));
    fl_str_release(&text);
}

static void
coded_blocks_are_added_rounded_and_assigned_as_they_are(void **state)
{
    static const fl_client_block b[N_BLOCKS] = {
        { .number = 0, .server = 1, .n = 2 },
        { .number = 1, .server = 0, .n = 3 },
        { .number = 2, .server = 1, .n = 4 },
        { .number = 3, .server = 0, .n = 5 },
    };
    float values[N_BLOCKS][5], rounded[5], right[5];
    float got[N_BLOCKS][5], *out[N_BLOCKS];
    const float *sent[N_BLOCKS];
    outcome o[4] = { 0 };
    job j;

    (void)state;
    for (int i = 0; i < N_BLOCKS; i++) {
        for (int k = 0; k < 5; k++)
            values[i][k] = (float)(1 + i * 5 + k) / 7;
        sent[i] = values[i];
        out[i] = got[i];
    }
    start(&j, 2);
    declare_blocks(&j, b);
    assert_ok(fl_client_send_blocks(j.clients[0], FL_MSG_ASSIGN_DENSE, b, sent,
                                    N_BLOCKS,
                                    (fl_ending){ on_outcome, &o[0] }));
    assert_ok(job_end(&j, &o[0]));
    assert_ok(fl_client_send_blocks(j.clients[0], FL_MSG_PUSH_DENSE, b, sent,
                                    N_BLOCKS,
                                    (fl_ending){ on_outcome, &o[1] }));
    assert_ok(job_end(&j, &o[1]));
    for (int coded = 0; coded < FL_CODECS; coded++) {
        assert_ok(fl_client_pull_blocks_coded(
            j.clients[0], (fl_codec)coded, b, out, N_BLOCKS,
            (fl_ending){ on_outcome, &o[2 + coded] }));
        assert_ok(job_end(&j, &o[2 + coded]));
        for (int i = 0; i < N_BLOCKS; i++) {
            memcpy(rounded, values[i], sizeof(rounded));
            round_all(rounded, 5);
            for (int k = 0; k < 5; k++)
                right[k] = values[i][k] + rounded[k];
            if (coded)
                round_all(right, 5);
            assert_memory_equal(got[i], right, b[i].n * sizeof(float));
        }
    }
    job_release(&j);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(
            coded_rows_are_those_of_one_table_that_gets_rounded_ones),
        cmocka_unit_test(coded_rows_and_small_keys_are_fewer_bytes),
        cmocka_unit_test(
            coded_blocks_are_added_rounded_and_assigned_as_they_are),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
