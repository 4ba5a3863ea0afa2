/* test_dist_online.c - models for prediction that a job saves as deltas: of all
 * that changed, and of the rows that have gained enough. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "ckpt/version.h"
#include "dist_kit.h"
#include "flotilla/io.h"
#include "flotilla/predict.h"
#include "../folder.h"

#define SAVES 4

static char folder[FOLDER_BYTES];

static int make_folder(void **state)
{
    (void)state;
    return folder_make(folder, "online") ? 0 : -1;
}

static int remove_folder(void **state)
{
    char command[128];

    (void)state;
    snprintf(command, sizeof(command), "rm -rf %s", folder);
    return system(command);
}

/* --- a network whose table counts ----------------------------------------- */

static const char *const feeds[] = { "s0", "s1", "s2", "dense" };

/* A row has a score of 0.1 for each time that it is pushed. */
static fl_var *build(fl_ctx *c, const kit_job *j)
{
    fl_var *in[KIT_SLOTS + 1], *label, *loss;
    fl_optimizer *o;

    (void)j;
    for (int i = 0; i < KIT_SLOTS; i++)
        in[i] = fl_layers_sequence_pool(
            fl_layers_embedding(fl_layers_data(c, feeds[i], FL_DTYPE_I64, 2,
                                               (int64_t[]){ -1, 1 }, 1),
                                0, KIT_DIM, .is_sparse = true,
                                .is_distributed = true, .accessor = "ctr",
                                .table =
                                    "embedx_threshold=0 base_threshold=0.15 "
                                    "delta_threshold=0.45",
                                .param = { .name = "emb" }),
            "sum");
    in[KIT_SLOTS] = fl_layers_data(c, "dense", FL_DTYPE_F32, 2,
                                   (int64_t[]){ -1, KIT_DENSE }, 0);
    label =
        fl_layers_data(c, "label", FL_DTYPE_I64, 2, (int64_t[]){ -1, 1 }, 0);
    loss = fl_layers_mean(fl_layers_cross_entropy(
        fl_layers_fc(fl_layers_concat(in, KIT_SLOTS + 1, 1), 2,
                     .act = "softmax", .name = "score"),
        label));
    if (!loss || fl_optimizer_new(&o, c, "adagrad", "learning_rate=0.1") ||
        fl_minimize(o, loss))
        return NULL;
    return loss;
}

/* --- a job ---------------------------------------------------------------- */

#define TARGET "score.tmp_2"

typedef struct saved {
    fl_manifest_kind kind;
    uint64_t rows;
} saved;

typedef struct script {
    bool by_score;
    char online[96], whole[96];
    saved saves[SAVES];
} script;

static fl_status save_to(kit_trainer *t, const char *dir, bool by_score,
                         bool delta)
{
    const char *target = TARGET;

    return fl_save_inference_model(t->exe, dir, .feeds = feeds, .n_feeds = 4,
                                   .targets = &target, .n_targets = 1,
                                   .by_score = by_score, .delta = delta);
}

static fl_status look(const char *dir, saved *out)
{
    fl_model_version *v;

    FL_TRY(fl_version_open(&v, dir));
    *out = (saved){ v->manifest.kind, v->manifest.tables.data[0].rows };
    fl_version_close(v);
    return FL_OK;
}

/* Many steps, then two, the same two again, then none; a save behind each. */
static fl_status train_and_save(kit_trainer *t, void *arg)
{
    static const int steps[SAVES] = { 20, 2, 2, 0 };
    fl_job *job = fl_transpiler_job(t->transpiler);
    script *s = arg;

    for (int i = 0; i < SAVES; i++) {
        for (int step = 0; step < steps[i]; step++)
            FL_TRY(kit_step(t, step));
        FL_TRY(fl_job_barrier(job));
        if (!t->rank) {
            FL_TRY(save_to(t, s->online, s->by_score, true));
            FL_TRY(look(s->online, &s->saves[i]));
        }
        FL_TRY(fl_job_barrier(job));
    }
    return t->rank ? FL_OK : save_to(t, s->whole, false, false);
}

static void run(const char *mode, script *s)
{
    static int n;
    kit_text texts[KIT_MEMBERS] = { 0 };
    kit_job j = {
        .mode = mode, .build = build, .n_servers = 2, .n_trainers = 2
    };

    snprintf(s->online, sizeof(s->online), "%s/%d", folder, n++);
    snprintf(s->whole, sizeof(s->whole), "%s/%d", folder, n++);
    kit_run(&j, train_and_save, s, NULL, texts);
    for (int i = 0; i < KIT_MEMBERS; i++)
        if (texts[i][0])
            fail_msg("member %d: %s", i, texts[i]);
}

static void score(const char *dir, float out[2 * KIT_ROWS])
{
    const kit_job j = { 0 };
    kit_batch *b = kit_batch_make(&j, 0, 1, 3);
    fl_predictor *p;
    fl_tensor t;
    fl_model *m;

    assert_ok(fl_model_open(&m, dir, .verify = true));
    assert_ok(fl_predictor_new(&p, m));
    assert_ok(fl_predictor_run(p, kit_batch_feeds(b), 4, &t, 1));
    memcpy(out, t.data, 2 * KIT_ROWS * sizeof(*out));
    fl_predictor_free(p);
    fl_model_close(m);
    kit_batch_free(b);
}

/* --- tests ---------------------------------------------------------------- */

static const char *const modes[] = { "sync", "async" };

static void deltas_are_what_a_whole_save_has(void **state)
{
    (void)state;
    for (size_t i = 0; i < 2; i++) {
        float chain[2 * KIT_ROWS], whole[2 * KIT_ROWS];
        script s = { 0 };

        run(modes[i], &s);
        assert_int_equal(s.saves[0].kind, FL_MANIFEST_INFERENCE);
        for (int k = 1; k < SAVES; k++)
            assert_int_equal(s.saves[k].kind, FL_MANIFEST_DELTA);
        assert_true(s.saves[1].rows > 0);
        assert_int_equal(s.saves[SAVES - 1].rows, 0);
        score(s.online, chain);
        score(s.whole, whole);
        assert_memory_equal(chain, whole, sizeof(whole));
    }
}

/* All servers spend what brought a row into a save. */
static void deltas_by_score_have_rows_that_gained_enough_once(void **state)
{
    (void)state;
    for (size_t i = 0; i < 2; i++) {
        script s = { .by_score = true };
        float scores[2 * KIT_ROWS];

        run(modes[i], &s);
        assert_int_equal(s.saves[0].kind, FL_MANIFEST_INFERENCE);
        for (int k = 1; k < SAVES; k++)
            assert_int_equal(s.saves[k].kind, FL_MANIFEST_DELTA);
        assert_true(s.saves[1].rows < s.saves[0].rows);
        assert_true(s.saves[2].rows > s.saves[1].rows);
        assert_int_equal(s.saves[3].rows, 0);
        score(s.online, scores);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(deltas_are_what_a_whole_save_has),
        cmocka_unit_test(deltas_by_score_have_rows_that_gained_enough_once),
    };

    return cmocka_run_group_tests(tests, make_folder, remove_folder);
}
