/* layers_skip_gram.c - word vectors: two parameters, or two tables, and the
 * operator that makes pairs of sentences. */
#include <inttypes.h>

#include "api/layer.h"
#include "base/args.h"
#include "flotilla/layers.h"

#define USUAL 5 /* window and negatives */

static fl_status check(const char *name, int64_t height, int64_t width,
                       const fl_layers_skip_gram_args *a)
{
    int64_t least = a->is_distributed ? 0 : 1;

    if (height < least || width < 1)
        FL_FAIL(FL_ERR_INVAL,
                "skip_gram %s: %" PRId64 " words of %" PRId64
                " numbers are no table",
                name, height, width);
    return FL_OK;
}

/* Rows of the words as inputs or as targets. */
static fl_var *rows_of(fl_layer *l, const fl_param_attr *attr,
                       const char *suffix, const fl_shape *shape,
                       const fl_layers_skip_gram_args *a)
{
    fl_arena *arena = &l->block->program->arena;
    fl_table_words table = { 0 };
    char init[64];
    fl_param_attr p = *attr;

    snprintf(init, sizeof(init), "uniform(%.9g,%.9g)",
             -0.5 / (double)shape->dim[1], 0.5 / (double)shape->dim[1]);
    if (!p.init)
        p.init = suffix[0] == 'w' ? init : "constant(0)";
    if (!a->is_distributed)
        return fl_layer_param(l, &p, suffix, FL_DTYPE_F32, shape, p.init);
    table.word[table.n++] = fl_arena_printf(arena, "init=%s", p.init);
    if (shape->dim[0] >= 0)
        table.word[table.n++] =
            fl_arena_printf(arena, "height=%" PRId64, shape->dim[0]);
    return fl_layer_table(l, &p, suffix, shape, &table);
}

static void say_attrs(fl_layer *l, const fl_layers_skip_gram_args *a)
{
    fl_layer_int(l, "window", a->window ? a->window : USUAL);
    fl_layer_int(l, "negatives", a->negatives ? *a->negatives : USUAL);
    fl_layer_bool(l, "shared", a->shared);
    fl_layer_int(l, "seed", a->seed);
    fl_layer_float(l, "step", a->step);
}

fl_var *fl_layers_skip_gram_with(fl_var *words, fl_var *noise, int64_t height,
                                 int64_t width,
                                 const fl_layers_skip_gram_args *args)
{
    fl_shape shape = { .rank = 2, .dim = { height ? height : -1, width } };
    fl_layers_skip_gram_args a;
    fl_var *x, *y, *loss;
    const char *mean;
    fl_layer l;

    if (FL_ARGS_READ(fl_layers_skip_gram_args, &a, args) || !noise ||
        !fl_layer_begin(&l, words, "skip_gram", a.name) ||
        check(l.name, height, width, &a))
        return NULL;
    x = rows_of(&l, &a.param, "w", &shape, &a);
    y = x ? rows_of(&l, &a.target_param, "target", &shape, &a) : NULL;
    if (!y)
        return NULL;
    fl_layer_in(&l, "X", x);
    fl_layer_in(&l, "Y", y);
    fl_layer_in(&l, "XIds", words);
    fl_layer_in(&l, "YIds", words);
    fl_layer_in(&l, "NoiseIds", noise);
    say_attrs(&l, &a);
    mean = fl_layer_tmp(&l);
    fl_layer_out(&l, "Mean", mean);
    loss = fl_layer_emit(&l, "skip_gram", "Loss");
    if (loss && a.mean)
        *a.mean = fl_block_find_var(loss->block, mean);
    return loss;
}
