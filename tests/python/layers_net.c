/* layers_net.c - prints a network that was built by the layers of C, for
 * test_layers_c.py, which builds the same one by those of Python. */
#include <stdio.h>

#include "flotilla/flotilla.h"

static fl_var *data(fl_ctx *c, const char *name, fl_dtype dtype, int64_t width,
                    int lod_level)
{
    return fl_layers_data(c, name, dtype, 2, (int64_t[]){ -1, width },
                          lod_level);
}

/* Sequences of ids to one row each. */
static fl_var *pooled(fl_ctx *c, const char *name, const char *pool)
{
    fl_var *ids = data(c, name, FL_DTYPE_I64, 1, 1);
    fl_var *rows = fl_layers_embedding(ids, 100, 8, .is_sparse = true,
                                       .param = { .name = "rows" });

    return fl_layers_sequence_pool(rows, pool);
}

static fl_var *tower(fl_ctx *c)
{
    fl_var *parts[] = { pooled(c, "a", "sum"), pooled(c, "b", "average"),
                        data(c, "x", FL_DTYPE_F32, 4, 0) };
    fl_var *joined = fl_layers_concat(parts, 3, 1);
    fl_var *normed = fl_layers_layer_norm(joined);
    fl_var *h = fl_layers_fc(normed, 16, .act = "relu");

    return fl_layers_fc(fl_layers_clip(h, 0, 5), 2, .act = "softmax");
}

/* Shapes and places. */
static fl_var *moved(fl_ctx *c)
{
    fl_var *x = data(c, "y", FL_DTYPE_F32, 6, 0);
    fl_var *cube = fl_layers_reshape(x, 3, (int64_t[]){ -1, 2, 3 });
    fl_var *turned = fl_layers_transpose(cube, 3, (int64_t[]){ 0, 2, 1 });
    fl_var *cut = fl_layers_slice(turned, 1, (int64_t[]){ 1 }, (int64_t[]){ 0 },
                                  (int64_t[]){ 2 });

    return fl_layers_reduce("reduce_sum", fl_layers_square(cut),
                            (int64_t[]){ 1 }, 1, false);
}

static int print(fl_ctx *c)
{
    char *text = fl_program_to_text(fl_default_main_program(c));

    if (!text)
        return 1;
    fputs(text, stdout);
    fl_text_free(text);
    return 0;
}

int main(void)
{
    fl_var *label, *cost, *wide;
    int code = 1;
    fl_ctx *c;

    if (fl_ctx_new(&c))
        return 1;
    cost = tower(c);
    label = data(c, "label", FL_DTYPE_I64, 1, 0);
    cost = fl_layers_mean(fl_layers_cross_entropy(cost, label));
    wide = fl_layers_mean(fl_layers_sigmoid(moved(c)));
    if (fl_layers_elementwise_add(cost, fl_layers_scale(wide, 0.5, 1), -1))
        code = print(c);
    else
        fprintf(stderr, "%s\n", fl_last_error());
    fl_ctx_free(c);
    return code;
}
