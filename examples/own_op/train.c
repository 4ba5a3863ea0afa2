/* train.c - a small network with our own operator, rule and format:
 *     ./train FILE...
 * reads lines "LABEL ID,ID,..." and says how well it separates them. */
#include "own.h"

#include <stdio.h>
#include <stdlib.h>

enum { IDS = 1000, WIDTH = 8, EPOCHS = 10, BATCH = 50 };

static void check(bool is_good)
{
    if (!is_good)
        fprintf(stderr, "train: %s\n", fl_last_error()), exit(1);
}

typedef struct net {
    fl_var *loss, *auc;
} net;

static net build(fl_ctx *c)
{
    const int64_t one[] = { -1, 1 };
    fl_var *label = fl_layers_data(c, "label", FL_DTYPE_I64, 2, one, 0);
    fl_var *ids = fl_layers_data(c, "ids", FL_DTYPE_I64, 2, one, 1);
    fl_var *x = fl_layers_sequence_pool(
        fl_layers_embedding(ids, IDS, WIDTH, .is_sparse = true), "SUM");
    fl_var *h = fl_layers_unary("squash", fl_layers_fc(x, 16), "{alpha=0.5}");
    fl_var *p = fl_layers_fc(h, 2, .act = "softmax");
    net n = { .loss = fl_layers_mean(fl_layers_cross_entropy(p, label)),
              .auc = fl_layers_auc(p, label, NULL) };
    fl_optimizer *o;

    check(n.loss && n.auc);
    check(!fl_optimizer_new(&o, c, "sign_mean", "learning_rate=0.003"));
    check(!fl_minimize(o, n.loss));
    return n;
}

static void train(fl_ctx *c, const net *n, const char *const *files,
                  size_t n_files)
{
    static const char *const names[] = { "label", "ids" };
    fl_dataset_report r = FL_INIT(fl_dataset_report);
    fl_executor *e;
    fl_dataset *d;

    check(!fl_executor_new(&e, c));
    check(!fl_dataset_new(&d, c, "QueueDataset"));
    check(!fl_dataset_set_use_var(d, fl_default_main_program(c), names, 2));
    check(!fl_dataset_set_format(d, "comma_ids"));
    fl_dataset_set_batch_size(d, BATCH);
    check(!fl_dataset_set_filelist(d, files, n_files));
    check(!fl_run(e, fl_default_startup_program(c), NULL));
    for (int i = 0; i < EPOCHS; i++)
        check(!fl_train_from_dataset(e, fl_default_main_program(c), d, &r,
                                     .loss = fl_var_name(n->loss),
                                     .auc = fl_var_name(n->auc)));
    printf("%.0f samples, loss %.4f, AUC %.4f\n", (double)r.samples, r.loss,
           r.auc);
    fl_dataset_free(d);
    fl_executor_free(e);
}

int main(int argc, char **argv)
{
    fl_ctx *c;
    net n;

    if (argc < 2) {
        fprintf(stderr, "usage: train FILE...\n");
        return 2;
    }
    check(!fl_ctx_new(&c));
    check(!own_add(c));
    n = build(c);
    train(c, &n, (const char *const *)argv + 1, (size_t)argc - 1);
    fl_ctx_free(c);
    return 0;
}
