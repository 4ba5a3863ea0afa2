/* click.c - trains a small click model and saves it for prediction.
 *
 *     click DIR [--steps N]
 *
 * A record has the ids of what a user has seen before (any number), the id of
 * what is shown now, and a price. Rows of ids are in a table, which grows as ids
 * come by. score.cpp scores with what is saved here; so do
 *
 *     flotilla predict DIR --data FILE
 *     flotilla serve DIR --listen 127.0.0.1:6200
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "flotilla/flotilla.h"
#include "flotilla/io.h"

#define BATCH 64
#define SEEN_MAX 3
#define ITEMS 100
#define WIDTH 8

typedef struct batch {
    int64_t seen[BATCH * SEEN_MAX], offsets[BATCH + 1], shown[BATCH];
    float price[BATCH], label[BATCH];
    fl_feed feeds[4];
} batch;

static void check(fl_status st)
{
    if (!st)
        return;
    fprintf(stderr, "click: %s\n", fl_last_error());
    exit(1);
}

/* --- data ----------------------------------------------------------------- */

static uint32_t draw(uint32_t *state, uint32_t below)
{
    *state = *state * 1664525u + 1013904223u;
    return (*state >> 8) % below;
}

/* Who has seen an item of the same kind, odd or even, clicks when it is cheap. */
static void fill(batch *b, uint32_t seed)
{
    const int64_t column[] = { BATCH, 1 };
    int64_t n = 0;

    for (int i = 0; i < BATCH; i++) {
        uint32_t same = 0, n_seen = 1 + draw(&seed, SEEN_MAX);

        b->shown[i] = draw(&seed, ITEMS);
        b->offsets[i] = n;
        for (uint32_t k = 0; k < n_seen; k++) {
            b->seen[n] = draw(&seed, ITEMS);
            same += (b->seen[n++] - b->shown[i]) % 2 == 0;
        }
        b->price[i] = (float)draw(&seed, 1000) / 1000;
        b->label[i] = same && b->price[i] < 0.7f;
    }
    b->offsets[BATCH] = n;
    b->feeds[0] = (fl_feed){ "seen", fl_tensor_ragged(FL_DTYPE_I64, b->seen, 2,
                                                      (int64_t[]){ n, 1 },
                                                      b->offsets, BATCH) };
    b->feeds[1] =
        (fl_feed){ "shown", fl_tensor_of(FL_DTYPE_I64, b->shown, 2, column) };
    b->feeds[2] =
        (fl_feed){ "price", fl_tensor_of(FL_DTYPE_F32, b->price, 2, column) };
    b->feeds[3] =
        (fl_feed){ "label", fl_tensor_of(FL_DTYPE_F32, b->label, 2, column) };
}

/* --- the network ---------------------------------------------------------- */

static fl_var *rows(fl_var *ids)
{
    return fl_layers_embedding(ids, ITEMS, WIDTH, .is_sparse = true,
                               .is_distributed = true,
                               .param = { .name = "items" });
}

static fl_var *build(fl_ctx *c, fl_var **loss)
{
    const int64_t column[] = { -1, 1 };
    fl_var *in[3], *score;

    in[0] = fl_layers_sequence_pool(
        rows(fl_layers_data(c, "seen", FL_DTYPE_I64, 2, column, 1)), "sum");
    in[1] = rows(fl_layers_data(c, "shown", FL_DTYPE_I64, 2, column, 0));
    in[2] = fl_layers_data(c, "price", FL_DTYPE_F32, 2, column, 0);
    score = fl_layers_fc(
        fl_layers_fc(fl_layers_concat(in, 3, 1), 16, .act = "relu"), 1,
        .act = "sigmoid");
    *loss = fl_layers_mean(fl_layers_log_loss(
        score, fl_layers_data(c, "label", FL_DTYPE_F32, 2, column, 0), 1e-4));
    return score;
}

static void train(fl_ctx *c, fl_executor *e, const char *loss, uint32_t steps)
{
    static batch b;
    fl_tensor out;

    check(fl_run(e, fl_default_startup_program(c), NULL));
    for (uint32_t i = 0; i < steps; i++) {
        fill(&b, i);
        check(
            fl_run(e, fl_default_main_program(c),
                   FL_OPTIONS(fl_run_args, .feeds = b.feeds, .n_feeds = 4,
                              .fetches = &loss, .n_fetches = 1, .out = &out)));
    }
    if (steps)
        printf("loss %.4f\n", (double)*(const float *)out.data);
}

static void save(fl_executor *e, const char *dir, const char *score)
{
    const char *feeds[] = { "seen", "shown", "price" };

    check(fl_save_inference_model(e, dir, .feeds = feeds, .n_feeds = 3,
                                  .targets = &score, .n_targets = 1));
    printf("saved %s: the score is %s\n", dir, score);
}

int main(int argc, char **argv)
{
    uint32_t steps = 2000;
    fl_executor *e;
    fl_optimizer *o;
    fl_var *score, *loss;
    fl_ctx *c;

    if (argc == 4 && !strcmp(argv[2], "--steps"))
        steps = (uint32_t)strtoul(argv[3], NULL, 10);
    else if (argc != 2) {
        fprintf(stderr, "usage: click DIR [--steps N]\n");
        return 2;
    }
    check(fl_ctx_new(&c));
    check(fl_executor_new(&e, c));
    score = build(c, &loss);
    if (!score || !loss)
        check(fl_last_status());
    check(fl_optimizer_new(&o, c, "adam", "learning_rate=0.01"));
    check(fl_minimize(o, loss));
    train(c, e, fl_var_name(loss), steps);
    save(e, argv[1], fl_var_name(score));
    fl_executor_free(e);
    fl_ctx_free(c);
    return 0;
}
