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

static bool has_slot(const data_input *in, const char *name)
{
    for (size_t i = 0; i < in->n_slots; i++)
        if (!strcmp(in->slots[i].name, name))
            return true;
    return false;
}

int predict_check_inputs(const predict_args *a, const fl_model *m,
                         const data_input *in)
{
    size_t n;
    const fl_model_var *inputs = fl_model_inputs(m, &n);

    for (size_t i = 0; i < n; i++)
        if (!has_slot(in, inputs[i].name))
            return cmd_failed(a->self,
                              "the model's input %s is no slot of the data; "
                              "--slots names the slots",
                              inputs[i].name);
    return CMD_OK;
}
