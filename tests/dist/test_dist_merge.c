/* test_dist_merge.c - all lookups of a table are one request per server.
 *
 * A network looks 26 slots up in one table. Per batch a trainer sends every
 * server one request for rows and one with gradients, each id once, whatever
 * the number of slots that it stands in.
 */
#include <cjson/cJSON.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "dist_kit.h"
#include "../make.h"

#define SLOTS 26
#define ROWS 8
#define IDS 40 /* every one of them is in every batch, several times */
#define DIM 4
#define STEPS 6
#define SERVERS_MAX 3
#define NAME_ROOM 16

/* --- the network ---------------------------------------------------------- */

static void slot_name(int slot, char out[NAME_ROOM])
{
    snprintf(out, NAME_ROOM, "c%d", slot);
}

static fl_var *lookup(fl_ctx *c, int slot)
{
    static const int64_t dims[] = { -1, 1 };
    char name[NAME_ROOM];

    slot_name(slot, name);
    return fl_layers_sequence_pool(
        fl_layers_embedding(fl_layers_data(c, name, FL_DTYPE_I64, 2, dims, 1),
                            1000, DIM, .is_sparse = true,
                            .param = { .name = "emb" }),
        "sum");
}

static fl_var *build(fl_ctx *c, const kit_job *j)
{
    fl_var *parts[SLOTS], *loss;
    fl_optimizer *o;

    (void)j;
    for (int i = 0; i < SLOTS; i++)
        parts[i] = lookup(c, i);
    loss = fl_layers_fc(fl_layers_concat(parts, SLOTS, 1), 2, .act = "softmax",
                        .param = { .name = "w" }, .bias = { .name = "b" });
    loss = fl_layers_mean(fl_layers_cross_entropy(
        loss,
        fl_layers_data(c, "label", FL_DTYPE_I64, 2, (int64_t[]){ -1, 1 }, 0)));
    o = make_optimizer(c, "sgd", "learning_rate=0.1");
    return o && loss && !fl_minimize(o, loss) ? loss : NULL;
}

/* --- batches -------------------------------------------------------------- */

typedef struct batch {
    char names[SLOTS][NAME_ROOM];
    int64_t ids[SLOTS][ROWS], lod[ROWS + 1], label[ROWS];
    fl_feed feeds[SLOTS + 1];
} batch;

static fl_tensor column(int64_t *data)
{
    return FL_INIT(fl_tensor, .dtype = FL_DTYPE_I64,
                   .shape = { .rank = 2, .dim = { ROWS, 1 } }, .data = data);
}

/* One id per row and slot: 208 places for 40 ids. */
static void fill(batch *b)
{
    for (int i = 0; i <= ROWS; i++)
        b->lod[i] = i;
    for (int s = 0; s < SLOTS; s++) {
        fl_tensor t = column(b->ids[s]);

        slot_name(s, b->names[s]);
        for (int i = 0; i < ROWS; i++)
            b->ids[s][i] = (s * ROWS + i) % IDS;
        t.n_lod = 1;
        t.lod[0] = b->lod;
        t.lod_len[0] = ROWS + 1;
        b->feeds[s] = (fl_feed){ b->names[s], t };
    }
    for (int i = 0; i < ROWS; i++)
        b->label[i] = i % 2;
    b->feeds[SLOTS] = (fl_feed){ "label", column(b->label) };
}

/* --- counting ------------------------------------------------------------- */

typedef struct counts {
    uint64_t pulls, pushes;            /* that the trainer sent */
    uint64_t pulled_rows, pushed_rows; /* that the servers counted */
} counts;

typedef struct look {
    counts each[STEPS + 1]; /* before the first batch, and after every one */
    char *program;
} look;

/* Adds up what the servers counted for their first table. */
static uint64_t sum_of(const cJSON *root, const char *key)
{
    const cJSON *server;
    double sum = 0;

    cJSON_ArrayForEach(server, cJSON_GetObjectItem(root, "servers")) sum +=
        cJSON_GetNumberValue(cJSON_GetObjectItem(
            cJSON_GetArrayItem(cJSON_GetObjectItem(server, "tables"), 0), key));
    return (uint64_t)sum;
}

static fl_status count(kit_trainer *t, counts *out)
{
    fl_job_stats stats = FL_INIT(fl_job_stats);
    cJSON *root;
    char *text;
    fl_status st = fl_job_stats_json(fl_transpiler_job(t->transpiler), &text);

    if (st)
        return st;
    root = cJSON_Parse(text);
    must(fl_job_get_stats(fl_transpiler_job(t->transpiler), &stats));
    *out = (counts){ .pulls = stats.pulls,
                     .pushes = stats.pushes,
                     .pulled_rows = sum_of(root, "pulled_rows"),
                     .pushed_rows = sum_of(root, "pushed_rows") };
    cJSON_Delete(root);
    fl_text_free(text);
    return FL_OK;
}

/* Gradients of async travel on their own: counts until they have arrived, or
   have not for far too long. */
static fl_status count_all(kit_trainer *t, int step, counts *out)
{
    for (int i = 0; i < 10000; i++) {
        fl_status st = count(t, out);

        if (st || out->pushed_rows >= (uint64_t)(step + 1) * IDS)
            return st;
    }
    return FL_OK;
}

static fl_status work(kit_trainer *t, void *arg)
{
    fl_program *p = fl_transpiler_trainer(t->transpiler);
    look *l = arg;
    batch b;
    fl_run_args args =
        FL_INIT(fl_run_args, .feeds = b.feeds, .n_feeds = SLOTS + 1);
    fl_status st;

    fill(&b);
    l->program = fl_program_to_text(p);
    st = count(t, &l->each[0]);
    for (int i = 0; !st && i < STEPS; i++) {
        st = fl_run(t->exe, p, &args);
        if (!st)
            st = count_all(t, i, &l->each[i + 1]);
    }
    return st;
}

/* --- tests ---------------------------------------------------------------- */

static int times(const char *text, const char *word)
{
    int n = 0;

    for (const char *at = text; (at = strstr(at, word)); at += strlen(word))
        n++;
    return n;
}

static void check(const look *l, uint64_t n_servers)
{
    for (int i = 0; i < STEPS; i++) {
        const counts *before = &l->each[i], *after = &l->each[i + 1];

        assert_int_equal(after->pulls - before->pulls, n_servers);
        assert_int_equal(after->pushes - before->pushes, n_servers);
        assert_int_equal(after->pulled_rows - before->pulled_rows, IDS);
        assert_int_equal(after->pushed_rows - before->pushed_rows, IDS);
    }
    assert_int_equal(times(l->program, "op pull_sparse "), 1);
    assert_int_equal(times(l->program, "op push_sparse "), 1);
}

static void count_in(const char *mode, int n_servers)
{
    kit_job j = { .mode = mode,
                  .build = build,
                  .n_servers = n_servers,
                  .n_trainers = 1,
                  .settings = { { "communicator_max_merge_var_num", "1" } } };
    kit_text texts[KIT_MEMBERS] = { 0 };
    look l = { 0 };

    kit_run(&j, work, &l, NULL, texts);
    for (int i = 0; i < KIT_MEMBERS; i++)
        if (texts[i][0])
            fail_msg("%s: member %d: %s", mode, i, texts[i]);
    check(&l, (uint64_t)n_servers);
    fl_text_free(l.program);
}

static void count_with_all_servers(const char *mode)
{
    for (int n = 1; n <= SERVERS_MAX; n++)
        count_in(mode, n);
}

static void sync_asks_each_server_once_per_batch(void **state)
{
    (void)state;
    count_with_all_servers("sync");
}

static void half_async_asks_each_server_once_per_batch(void **state)
{
    (void)state;
    count_with_all_servers("half_async");
}

static void async_asks_each_server_once_per_batch(void **state)
{
    (void)state;
    count_with_all_servers("async");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(sync_asks_each_server_once_per_batch),
        cmocka_unit_test(half_async_asks_each_server_once_per_batch),
        cmocka_unit_test(async_asks_each_server_once_per_batch),
    };

    return cmocka_run_group_tests_name("dist merge", tests, NULL, NULL);
}
