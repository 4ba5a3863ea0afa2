/* test_dist_state.c - state that operators count while training: the running
 * numbers of batch_norm, the summaries of data_norm, the histograms of auc. In
 * every mode it is the trainer's own, and servers have none of it. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "dist_kit.h"
#include "mode_list.h"

#define STEPS 12
#define MOMENTUM 0.9
#define FIRST_SIZE 1e4

/* What each trainer counted. */
typedef struct counts {
    float mean[KIT_DENSE], size[KIT_DENSE], sum[KIT_DENSE];
    int64_t seen; /* by auc */
    bool on_servers;
} counts;

/* --- the network ---------------------------------------------------------- */

static fl_var *pooled(fl_ctx *c, const char *name)
{
    fl_var *ids =
        fl_layers_data(c, name, FL_DTYPE_I64, 2, (int64_t[]){ -1, 1 }, 1);

    return fl_layers_sequence_pool(
        fl_layers_embedding(ids, KIT_HEIGHT, KIT_DIM, .is_sparse = true,
                            .param = { .name = "emb" }),
        "sum");
}

static fl_var *build(fl_ctx *c, const kit_job *j)
{
    fl_var *dense = fl_layers_data(c, "dense", FL_DTYPE_F32, 2,
                                   (int64_t[]){ -1, KIT_DENSE }, 0);
    fl_var *label =
        fl_layers_data(c, "label", FL_DTYPE_I64, 2, (int64_t[]){ -1, 1 }, 0);
    fl_var *parts[] = {
        pooled(c, "s0"),
        pooled(c, "s1"),
        pooled(c, "s2"),
        fl_layers_batch_norm(dense, .momentum = MOMENTUM,
                             .moving_mean_name = "mean"),
        fl_layers_data_norm(dense, .name = "dn", .summary_decay_rate = 1),
    };
    fl_var *p =
        fl_layers_fc(fl_layers_concat(parts, 5, 1), 2, .act = "softmax");
    fl_var *loss = fl_layers_mean(fl_layers_cross_entropy(p, label));
    fl_var *pos, *neg, *batch;
    fl_optimizer *o;

    (void)j;
    if (!fl_layers_auc(p, label, &batch, .num_thresholds = 9, .stat_pos = &pos,
                       .stat_neg = &neg) ||
        fl_optimizer_new(&o, c, "sgd", "learning_rate=0.1") ||
        fl_minimize(o, loss))
        return NULL;
    return loss;
}

/* --- what a trainer counted ----------------------------------------------- */

static fl_status take(fl_ctx *c, const char *name, float out[KIT_DENSE])
{
    fl_tensor t;
    fl_status st = fl_scope_get(fl_current_scope(c), name, &t);

    if (!st)
        memcpy(out, t.data, sizeof(float[KIT_DENSE]));
    return st;
}

/* Both histograms of all batches, which are the last of the auc's four. */
static fl_status take_seen(fl_ctx *c, int64_t *out)
{
    fl_tensor t;

    *out = 0;
    for (int i = 2; i < 4; i++) {
        char name[32];
        fl_status st;

        snprintf(name, sizeof(name), "_generated_var_%d", i);
        st = fl_scope_get(fl_current_scope(c), name, &t);
        if (st)
            return st;
        for (int64_t k = 0; k < fl_tensor_numel(&t); k++)
            *out += ((const int64_t *)t.data)[k];
    }
    return FL_OK;
}

static bool is_on_servers(fl_job *job)
{
    static const char *const names[] = { "mean", "dn.batch_size",
                                         "dn.batch_sum", "_generated_var_2" };
    int dense;

    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++)
        if (!fl_job_find_dense(job, names[i], &dense))
            return true;
    return false;
}

static fl_status train_and_look(kit_trainer *t, void *arg)
{
    counts *all = arg, *mine = &all[t->rank];
    fl_status st = FL_OK;

    if (t->job->n_threads)
        st = kit_threads(t);
    for (int i = 0; !st && !t->job->n_threads && i < t->job->n_steps; i++)
        st = kit_step(t, i);
    mine->on_servers = is_on_servers(fl_transpiler_job(t->transpiler));
    if (!st)
        st = take(t->ctx, "mean", mine->mean);
    if (!st)
        st = take(t->ctx, "dn.batch_size", mine->size);
    if (!st)
        st = take(t->ctx, "dn.batch_sum", mine->sum);
    return st ? st : take_seen(t->ctx, &mine->seen);
}

static void run_job(const kit_job *j, counts out[2])
{
    kit_text texts[KIT_MEMBERS] = { 0 };

    kit_run(j, train_and_look, out, NULL, texts);
    for (int i = 0; i < KIT_MEMBERS; i++)
        if (texts[i][0])
            fail_msg("%s: %s", j->mode, texts[i]);
    for (int r = 0; r < 2; r++)
        assert_false(out[r].on_servers);
}

/* --- what it should have -------------------------------------------------- */

static void add_batch(const kit_job *j, int rank, int step, counts *want)
{
    kit_batch *b = kit_batch_make(j, rank, rank + 1, step);
    const fl_tensor *dense = &kit_batch_feeds(b)[KIT_SLOTS].value;
    int64_t n = dense->shape.dim[0];

    for (int c = 0; c < KIT_DENSE; c++) {
        double sum = 0;

        for (int64_t r = 0; r < n; r++)
            sum += (double)((const float *)dense->data)[r * KIT_DENSE + c];
        want->mean[c] = (float)(MOMENTUM * (double)want->mean[c] +
                                (1 - MOMENTUM) * sum / (double)n);
        want->sum[c] += (float)sum;
        want->size[c] += (float)n;
    }
    want->seen += n;
    kit_batch_free(b);
}

static void expect_counts(const kit_job *j, const counts *got, int rank)
{
    counts want = { 0 };

    for (int step = 0; step < j->n_steps; step++)
        add_batch(j, rank, step, &want);
    for (int c = 0; c < KIT_DENSE; c++) {
        assert_float_equal(got->mean[c], want.mean[c], 1e-5);
        assert_float_equal(got->size[c], FIRST_SIZE + (double)want.size[c],
                           1e-2);
        assert_float_equal(got->sum[c], want.sum[c], 1e-3);
    }
    assert_int_equal(got->seen, want.seen);
}

static void each_trainer_counts_its_own_batches_in_every_mode(void **state)
{
    (void)state;
    for (size_t i = 0; job_mode_name(i); i++) {
        kit_job j = { .mode = job_mode_name(i),
                      .build = build,
                      .n_servers = 2,
                      .n_trainers = 2,
                      .n_steps = STEPS,
                      .rows = { 8, 5 },
                      .settings = { { "geo_need_push_nums", "3" } } };
        counts got[2] = { 0 };

        run_job(&j, got);
        for (int rank = 0; rank < 2; rank++)
            expect_counts(&j, &got[rank], rank);
    }
}

/* Replica i of rank r has the batches of rank 2 r + i: auc counts all of them,
   data_norm their mean, and batch_norm follows the first. */
static void replicas_count_for_their_trainer_in_every_mode(void **state)
{
    (void)state;
    for (size_t i = 0; job_mode_name(i); i++) {
        kit_job j = { .mode = job_mode_name(i),
                      .build = build,
                      .n_trainers = 2,
                      .n_replicas = 2,
                      .n_steps = STEPS,
                      .settings = { { "geo_need_push_nums", "3" } } };
        counts got[2] = { 0 }, want = { 0 };

        run_job(&j, got);
        for (int step = 0; step < STEPS; step++)
            add_batch(&j, 2, step, &want);
        for (int c = 0; c < KIT_DENSE; c++) {
            assert_float_equal(got[1].mean[c], want.mean[c], 1e-5);
            assert_float_equal(got[1].size[c],
                               FIRST_SIZE + (double)want.size[c], 1e-2);
        }
        assert_int_equal(got[1].seen, 2 * want.seen);
    }
}

/* No prediction is lost between threads; of two sums at one time one may be,
   so those have a limit alone. */
static void threads_count_for_their_trainer_in_every_mode(void **state)
{
    (void)state;
    for (size_t i = 0; job_mode_name(i); i++) {
        kit_job j = { .mode = job_mode_name(i),
                      .build = build,
                      .n_trainers = 2,
                      .n_threads = 2,
                      .n_steps = STEPS,
                      .settings = { { "geo_need_push_nums", "3" } } };
        counts got[2] = { 0 };

        run_job(&j, got);
        for (int rank = 0; rank < 2; rank++) {
            assert_int_equal(got[rank].seen, 2 * STEPS * KIT_ROWS);
            for (int c = 0; c < KIT_DENSE; c++) {
                assert_true((double)got[rank].size[c] >
                            FIRST_SIZE + KIT_ROWS / 2.);
                assert_true((double)got[rank].size[c] <
                            FIRST_SIZE + 2 * STEPS * KIT_ROWS + 1);
                assert_true(got[rank].mean[c] > 0.01f && got[rank].mean[c] < 1);
            }
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(each_trainer_counts_its_own_batches_in_every_mode),
        cmocka_unit_test(replicas_count_for_their_trainer_in_every_mode),
        cmocka_unit_test(threads_count_for_their_trainer_in_every_mode),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
