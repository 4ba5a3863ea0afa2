/* predict_feeds.c - slots of the data as inputs of the model. */
#include "predict.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* A slot's name, kind and width as a word of --slots take less than this more
   than its name. */
#define WORD_BYTES 32

/* Numbers of a record; 0: any number. */
static size_t width_of(const fl_model_var *v)
{
    size_t width = 1;

    if (v->n_lod)
        return 0;
    for (int i = 1; i < v->shape.rank; i++)
        width *= v->shape.dim[i] > 0 ? (size_t)v->shape.dim[i] : 1;
    return width;
}

static const char *kind_of(const fl_model_var *v)
{
    return v->dtype == FL_DTYPE_F32 || v->dtype == FL_DTYPE_F64 ? "float"
                                                                : "u64";
}

char *predict_slots(const fl_model *m)
{
    size_t n, bytes = 1, at = 0;
    const fl_model_var *v = fl_model_inputs(m, &n);
    char *text;

    for (size_t i = 0; i < n; i++)
        bytes += strlen(v[i].name) + WORD_BYTES;
    text = calloc(bytes, 1);
    for (size_t i = 0; text && i < n; i++)
        at +=
            (size_t)snprintf(text + at, bytes - at, "%s%s:%s:%zu", i ? " " : "",
                             v[i].name, kind_of(&v[i]), width_of(&v[i]));
    return text;
}

static bool find_slot(const data_input *in, const char *name, size_t *out)
{
    for (size_t i = 0; i < in->n_slots; i++)
        if (!strcmp(in->slots[i].name, name)) {
            *out = i;
            return true;
        }
    return false;
}

int predict_feeds_find(const predict_args *a, const fl_model *m,
                       const data_input *in, predict_feeds *out)
{
    out->inputs = fl_model_inputs(m, &out->n);
    out->slot = calloc(out->n + 1, sizeof(*out->slot));
    if (!out->slot)
        return cmd_failed(a->self, "no memory for %zu inputs", out->n);
    for (size_t i = 0; i < out->n; i++)
        if (!find_slot(in, out->inputs[i].name, &out->slot[i]))
            return cmd_failed(a->self,
                              "the model's input %s is no slot of the data; "
                              "--slots names the slots",
                              out->inputs[i].name);
    return CMD_OK;
}

void predict_feeds_release(predict_feeds *f)
{
    free(f->slot);
}

/* Rows of 12 numbers may be rows of 3 x 4. */
static void fit_shape(fl_tensor *t, const fl_model_var *v, size_t n_rows)
{
    fl_shape shape = v->shape;
    int64_t n = 1;

    if (v->n_lod || t->kind != FL_KIND_DENSE || !shape.rank)
        return;
    shape.dim[0] = (int64_t)n_rows;
    for (int i = 0; i < shape.rank; i++)
        n *= shape.dim[i];
    if (n == fl_tensor_numel(t))
        t->shape = shape;
}

void predict_feeds_of(const predict_feeds *f, const fl_feed *batch,
                      size_t n_rows, fl_feed *out)
{
    for (size_t i = 0; i < f->n; i++) {
        out[i] = batch[f->slot[i]];
        out[i].name = f->inputs[i].name;
        fit_shape(&out[i].value, &f->inputs[i], n_rows);
    }
}
