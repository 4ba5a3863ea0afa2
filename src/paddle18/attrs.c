/* attrs.c - attributes of PaddlePaddle 1.8's operators as ours. */
#include "paddle18/attrs.h"

#include <string.h>

#include "ir/attr.h"

/* Attributes that change nothing about the numbers on a CPU where our operator
   does not have them: with any value, or with the one given here. */
static const struct {
    const char *name, *value;
} empty[] = {
    /* other devices and libraries, and choices between equal kernels */
    { "use_cudnn", NULL },
    { "use_mkldnn", NULL },
    { "force_cpu", NULL },
    { "op_device", NULL },
    { "numeric_stable_mode", NULL },
    { "min_row_size_to_use_multithread", NULL },
    { "@ALL_KERNELS_MUST_COMPUTE_RUNTIME_SHAPE@", NULL },
    { "mkldnn_data_type", NULL },
    { "with_quant_attr", NULL },
    /* quantisation and fused forms, at their values for "none" */
    { "use_quantizer", "false" },
    { "force_fp32_output", "false" },
    { "scale_x", "1" },
    { "scale_y", "[1]" },
    { "scale_out", "1" },
    { "Scale_x", "1" },
    { "Scale_y", "1" },
    { "Scale_out", "1" },
    { "fused_reshape_Out", "[]" },
    { "fused_transpose_Out", "[]" },
    { "head_number", "1" },
    /* formats of images */
    { "data_format", NULL },
    { "x_data_format", NULL },
    { "y_data_format", NULL },
    /* where a table would be fetched from; here it is a parameter */
    { "remote_prefetch", NULL },
    { "trainer_id", NULL },
    { "height_sections", NULL },
    { "epmap", NULL },
    { "table_names", NULL },
    { "entry", NULL },
    { "grad_inplace", "false" },
    /* marks of the program itself; op_role is read by fl_p18_role */
    { "op_role", NULL },
    { "op_role_var", NULL },
    { "op_namescope", NULL },
    { "op_callstack", NULL },
    { "is_forward", "true" },
    { "skip_eager_deletion_vars", NULL },
    /* types that stay as they are */
    { "in_dtype", "-1" },
    { "out_dtype", "-1" },
    /* an operator without it computes the same in training and after */
    { "is_test", NULL },
};

/* In our programs these make a table of ids out of a parameter, or are made up
   for the machine at hand; an imported one keeps our defaults. */
static const char *const own[] = { "is_distributed" };

/* A list of the description, as its type says. */
static fl_attr list_attr(fl_attr_type type, const fl_wire_list *list)
{
    return (fl_attr){ .type = type, .n = list->n, .items = list->items };
}

static bool plain_value(const fl_p18_attr *a, fl_attr *out)
{
    switch (a->type) {
    case FL_P18_ATTR_INT:
        *out = (fl_attr){ .type = FL_ATTR_INT, .i = a->i };
        return true;
    case FL_P18_ATTR_LONG:
        *out = (fl_attr){ .type = FL_ATTR_INT, .i = a->l };
        return true;
    case FL_P18_ATTR_FLOAT:
        *out = (fl_attr){ .type = FL_ATTR_FLOAT, .f = a->f };
        return true;
    case FL_P18_ATTR_STRING:
        *out = (fl_attr){ .type = FL_ATTR_STRING, .s = a->s ? a->s : "" };
        return true;
    case FL_P18_ATTR_BOOLEAN:
        *out = (fl_attr){ .type = FL_ATTR_BOOL, .b = a->b != 0 };
        return true;
    case FL_P18_ATTR_BLOCK:
        *out = (fl_attr){ .type = FL_ATTR_BLOCK, .i = a->block_idx };
        return true;
    default:
        return false;
    }
}

/* False for a type that we have no attributes of. */
static bool value_of(const fl_p18_attr *a, fl_attr *out)
{
    switch (a->type) {
    case FL_P18_ATTR_INTS:
        *out = list_attr(FL_ATTR_INTS, &a->ints);
        return true;
    case FL_P18_ATTR_LONGS:
        *out = list_attr(FL_ATTR_INTS, &a->longs);
        return true;
    case FL_P18_ATTR_FLOATS:
        *out = list_attr(FL_ATTR_FLOATS, &a->floats);
        return true;
    case FL_P18_ATTR_STRINGS:
        *out = list_attr(FL_ATTR_STRINGS, &a->strings);
        return true;
    case FL_P18_ATTR_BOOLEANS:
        *out = list_attr(FL_ATTR_INTS, &a->bools);
        return true;
    default:
        return plain_value(a, out);
    }
}

static bool has_value(const fl_p18_attr *a, const char *text)
{
    fl_attr value;
    fl_str got = { 0 };
    bool same;

    if (!value_of(a, &value))
        return false;
    fl_attr_print(&value, &got);
    same = !strcmp(fl_str_text(&got), text);
    fl_str_release(&got);
    return same;
}

fl_p18_fate fl_p18_attr_fate(const fl_op *def, const fl_p18_attr *a)
{
    if (fl_op_find_attr(def, a->name) >= 0)
        return FL_P18_TAKEN;
    for (size_t i = 0; i < FL_LEN(empty); i++)
        if (!strcmp(empty[i].name, a->name))
            return !empty[i].value || has_value(a, empty[i].value)
                       ? FL_P18_EMPTY
                       : FL_P18_LOST;
    return FL_P18_LOST;
}

void fl_p18_attr_print(const fl_p18_attr *a, fl_str *out)
{
    fl_attr value;

    fl_str_add(out, a->name);
    if (!value_of(a, &value))
        return;
    fl_str_add(out, "=");
    fl_attr_print(&value, out);
}

/* Types are numbers there and words here; a negative one is "as the input". */
static fl_status dtype_word(const fl_op *def, const fl_p18_attr *a,
                            fl_attr *out, bool *is_set)
{
    fl_str what = { 0 };
    fl_dtype dtype;
    fl_status st;

    *is_set = out->i >= 0;
    if (!*is_set)
        return FL_OK;
    fl_str_addf(&what, "attribute %s of operator %s", a->name, def->name);
    st = fl_p18_dtype(out->i, what.data, &dtype);
    fl_str_release(&what);
    FL_TRY(st);
    *out = (fl_attr){ .type = FL_ATTR_STRING, .s = fl_dtype_text(dtype) };
    return FL_OK;
}

fl_status fl_p18_attr_value(const fl_op *def, const fl_p18_attr *a,
                            fl_attr *out, bool *is_set)
{
    int i = fl_op_find_attr(def, a->name);

    FL_ASSERT(i >= 0);
    *is_set = true;
    for (size_t k = 0; k < FL_LEN(own); k++)
        if (!strcmp(own[k], a->name))
            *is_set = false;
    if (!*is_set)
        return FL_OK;
    if (!value_of(a, out))
        FL_FAIL(FL_ERR_UNSUPPORTED,
                "operator %s: attribute %s is of a type that this version does "
                "not have",
                def->name, a->name);
    if (out->type == FL_ATTR_INT && def->attrs[i].type == FL_ATTR_STRING)
        return dtype_word(def, a, out, is_set);
    return FL_OK;
}

fl_op_role fl_p18_role(const fl_p18_op *op)
{
    static const struct {
        int64_t bit;
        fl_op_role role;
    } roles[] = { { 1, FL_OP_ROLE_BACKWARD },
                  { 2, FL_OP_ROLE_OPTIMIZE },
                  { 4, FL_OP_ROLE_RPC },
                  { 16, FL_OP_ROLE_LR } };
    const fl_p18_attr *a = fl_p18_find_attr(op, "op_role");

    for (size_t i = 0; a && i < FL_LEN(roles); i++)
        if (a->i & roles[i].bit)
            return roles[i].role;
    return FL_OP_ROLE_FORWARD;
}
