/* serve_kit.h - a small click model, trained a little, saved and scored. */
#ifndef FL_TESTS_SERVE_KIT_H
#define FL_TESTS_SERVE_KIT_H

#include "../api/api.h"
#include "../make.h"
#include "../folder.h"

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/log.h"
#include "flotilla/io.h"
#include "flotilla/predict.h"

#define KIT_BATCH 12
#define KIT_MOST_IDS 4
#define KIT_HEIGHT 200
#define KIT_WIDTH 8
#define KIT_DENSE 3

/* Two slots of ids that share an embedding, and some dense numbers. */
typedef struct kit_net {
    fl_ctx *c;
    fl_executor *e;
    fl_var *score, *loss;
} kit_net;

typedef struct kit_batch {
    int64_t ids[2][KIT_BATCH * KIT_MOST_IDS], offsets[2][KIT_BATCH + 1];
    float x[KIT_BATCH * KIT_DENSE], label[KIT_BATCH];
    fl_feed feeds[4]; /* s0, s1, x, y */
} kit_batch;

static char kit_folder[FOLDER_BYTES];

static inline int kit_setup(void **state)
{
    (void)state;
    /* Threads cannot be left by an assertion. */
    setenv("CMOCKA_TEST_ABORT", "1", 1);
    fl_log_set_level(FL_LOG_ERROR);
    return folder_make(kit_folder, "serve") ? 0 : -1;
}

static inline int kit_teardown(void **state)
{
    char line[256];

    (void)state;
    snprintf(line, sizeof(line), "rm -rf %s", kit_folder);
    return system(line);
}

/* A folder of the test; the text is the caller's until its next call with the
   same buffer. */
static inline const char *kit_path(const char *name, char buf[256])
{
    snprintf(buf, 256, "%s/%s", kit_folder, name);
    return buf;
}

static inline uint32_t kit_draw(uint32_t *seed)
{
    *seed = *seed * 1664525u + 1013904223u;
    return *seed >> 8;
}

static inline void kit_batch_draw(kit_batch *b, uint32_t seed)
{
    static const char *const names[] = { "s0", "s1" };

    for (int s = 0; s < 2; s++) {
        int64_t n = 0;

        for (int i = 0; i < KIT_BATCH; i++) {
            b->offsets[s][i] = n;
            for (uint32_t k = kit_draw(&seed) % KIT_MOST_IDS + 1; k; k--)
                b->ids[s][n++] = (int64_t)(kit_draw(&seed) % KIT_HEIGHT);
        }
        b->offsets[s][KIT_BATCH] = n;
        b->feeds[s] =
            (fl_feed){ names[s], fl_tensor_ragged(FL_DTYPE_I64, b->ids[s], 2,
                                                  (int64_t[]){ n, 1 },
                                                  b->offsets[s], KIT_BATCH) };
    }
    for (int i = 0; i < KIT_BATCH * KIT_DENSE; i++)
        b->x[i] = (float)(kit_draw(&seed) % 1000) / 500 - 1;
    for (int i = 0; i < KIT_BATCH; i++)
        b->label[i] = (float)(b->ids[0][b->offsets[0][i]] % 2);
    b->feeds[2] =
        (fl_feed){ "x", fl_tensor_of(FL_DTYPE_F32, b->x, 2,
                                     (int64_t[]){ KIT_BATCH, KIT_DENSE }) };
    b->feeds[3] = (fl_feed){ "y", fl_tensor_of(FL_DTYPE_F32, b->label, 2,
                                               (int64_t[]){ KIT_BATCH, 1 }) };
}

static inline fl_var *kit_pooled(fl_ctx *c, const char *name,
                                 const fl_layers_embedding_args *args)
{
    fl_var *ids =
        fl_layers_data(c, name, FL_DTYPE_I64, 2, (int64_t[]){ -1, 1 }, 1);

    return fl_layers_sequence_pool(
        fl_layers_embedding_with(ids, KIT_HEIGHT, KIT_WIDTH, args), "sum");
}

/* args as of fl_layers_embedding; its rows are called "emb". */
static inline kit_net kit_net_new(const fl_layers_embedding_args *args)
{
    kit_net n = { .c = make_ctx() };
    fl_var *in[3], *y, *hidden;

    n.e = make_executor(n.c);
    fl_program_set_seed(fl_default_startup_program(n.c), 11);
    in[0] = kit_pooled(n.c, "s0", args);
    in[1] = kit_pooled(n.c, "s1", args);
    in[2] = data2(n.c, "x", KIT_DENSE);
    y = data2(n.c, "y", 1);
    hidden = fl_layers_fc(fl_layers_concat(in, 3, 1), 16, .act = "relu");
    n.score = fl_layers_fc(hidden, 1, .act = "sigmoid");
    n.loss = fl_layers_mean(fl_layers_square_error_cost(n.score, y));
    must(
        fl_minimize(make_optimizer(n.c, "adam", "learning_rate=0.01"), n.loss));
    must(fl_run(n.e, fl_default_startup_program(n.c), NULL));
    return n;
}

static inline void kit_net_free(kit_net *n)
{
    fl_executor_free(n->e);
    fl_ctx_free(n->c);
}

static inline void kit_train(kit_net *n, uint32_t seed, int n_batches)
{
    kit_batch b;

    for (int i = 0; i < n_batches; i++) {
        kit_batch_draw(&b, seed + (uint32_t)i);
        must(fl_run(n->e, fl_default_main_program(n->c),
                    FL_OPTIONS(fl_run_args, .feeds = b.feeds, .n_feeds = 4)));
    }
}

static inline fl_status kit_save(kit_net *n, const char *dir)
{
    const char *feeds[] = { "s0", "s1", "x" };
    const char *targets[] = { fl_var_name(n->score) };

    return fl_save_inference_model(n->e, dir, .feeds = feeds, .n_feeds = 3,
                                   .targets = targets, .n_targets = 1);
}

/* The scores of the program that trained, in test mode. */
static inline void kit_expect(kit_net *n, const kit_batch *b,
                              float out[KIT_BATCH])
{
    const char *targets[] = { fl_var_name(n->score) };
    fl_program *test, *pruned;
    fl_tensor score;

    must(fl_program_for_test(&test, fl_default_main_program(n->c)));
    must(fl_program_pruned(&pruned, test, targets, 1));
    must(fl_run(n->e, pruned,
                FL_OPTIONS(fl_run_args, .feeds = b->feeds, .n_feeds = 3,
                           .fetches = targets, .n_fetches = 1, .out = &score)));
    memcpy(out, score.data, KIT_BATCH * sizeof(*out));
    fl_program_free(pruned);
    fl_program_free(test);
}

static inline fl_model_stats kit_stats(fl_model *m)
{
    fl_model_stats s = FL_INIT(fl_model_stats);

    must(fl_model_stats_get(m, &s));
    return s;
}

#endif
