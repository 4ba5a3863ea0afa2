/* net.c - small networks and batches for the executor's tests. */
#include "net.h"
#include "../make.h"

#include <stdlib.h>
#include <string.h>

static uint64_t draw(uint64_t *s)
{
    *s = *s * 6364136223846793005u + 1442695040888963407u;
    return *s >> 33;
}

void net_fill(net_batch *b, int no, int n)
{
    uint64_t s = (uint64_t)no * 77 + 5;
    int64_t n_ids = 0;

    for (int i = 0; i < n; i++) {
        for (int j = 0; j < NET_WIDTH; j++)
            b->x[i * NET_WIDTH + j] = (float)(draw(&s) % 1000) / 500 - 1;
        b->offsets[i] = n_ids;
        for (uint64_t k = draw(&s) % 4; k; k--)
            b->ids[n_ids++] = (int64_t)(draw(&s) % NET_ROWS);
        b->label[i] = (int64_t)(draw(&s) % 2);
    }
    b->offsets[n] = n_ids;
    b->feeds[0] = (fl_feed){ "x", fl_tensor_of(FL_DTYPE_F32, b->x, 2,
                                               (int64_t[]){ n, NET_WIDTH }) };
    b->feeds[1] = (fl_feed){ "ids", fl_tensor_ragged(FL_DTYPE_I64, b->ids, 2,
                                                     (int64_t[]){ n_ids, 1 },
                                                     b->offsets, n) };
    b->feeds[2] = (fl_feed){ "label", fl_tensor_of(FL_DTYPE_I64, b->label, 2,
                                                   (int64_t[]){ n, 1 }) };
}

fl_var *net_build(fl_ctx *c, const char *kind, const char *settings)
{
    fl_var *loss =
        net_forward(c, FL_OPTIONS(fl_layers_embedding_args, .is_sparse = true));

    assert_ok(fl_minimize(make_optimizer(c, kind, settings), loss));
    return loss;
}

fl_var *net_forward(fl_ctx *c, const fl_layers_embedding_args *args)
{
    fl_var *x = fl_layers_data(c, "x", FL_DTYPE_F32, 2,
                               (int64_t[]){ -1, NET_WIDTH }, 0);
    fl_var *ids =
        fl_layers_data(c, "ids", FL_DTYPE_I64, 2, (int64_t[]){ -1, 1 }, 1);
    fl_var *label =
        fl_layers_data(c, "label", FL_DTYPE_I64, 2, (int64_t[]){ -1, 1 }, 0);
    fl_var *e = fl_layers_sequence_pool(
        fl_layers_embedding_with(ids, NET_ROWS, NET_DIM, args), "sum");
    fl_var *h = fl_layers_fc(fl_layers_concat((fl_var *[]){ e, x }, 2, 1), 8,
                             .act = "relu");
    fl_var *p = fl_layers_fc(h, 2, .act = "softmax");
    fl_var *loss = fl_layers_mean(fl_layers_cross_entropy(p, label));

    assert_non_null(loss);
    return loss;
}

void net_start(fl_ctx *c, fl_executor *e)
{
    assert_ok(fl_run(e, fl_default_startup_program(c), NULL));
}

float *net_copy(fl_ctx *c, const char *name, size_t *n)
{
    fl_tensor t;
    float *copy;

    assert_ok(fl_scope_get(fl_current_scope(c), name, &t));
    *n = (size_t)fl_tensor_numel(&t);
    copy = malloc(*n * sizeof(float));
    memcpy(copy, t.data, *n * sizeof(float));
    return copy;
}
