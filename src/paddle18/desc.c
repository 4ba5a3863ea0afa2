/* desc.c - the messages of __model__, field by field, and what they say about
 * types. The numbers are those of the format; docs/formats/paddle18.md has
 * them in one table. */
#include "paddle18/desc.h"

#include <inttypes.h>
#include <string.h>

#include "tensor/tensor.h"

/* As the text form of programs has it. */
#define DIM_MAX (INT64_C(1) << 48)

#define MESSAGE(name_, type, members_)                                         \
    {                                                                          \
        .name = name_, .bytes = sizeof(type), .members = members_,             \
        .n_members = FL_LEN(members_)                                          \
    }

static const fl_wire_member attr_members[] = {
    { 1, FL_WIRE_TEXT, offsetof(fl_p18_attr, name), "name", true, NULL },
    { 2, FL_WIRE_INT, offsetof(fl_p18_attr, type), "type", true, NULL },
    { 3, FL_WIRE_INT, offsetof(fl_p18_attr, i), "i", false, NULL },
    { 4, FL_WIRE_FLOAT, offsetof(fl_p18_attr, f), "f", false, NULL },
    { 5, FL_WIRE_TEXT, offsetof(fl_p18_attr, s), "s", false, NULL },
    { 6, FL_WIRE_INTS, offsetof(fl_p18_attr, ints), "ints", false, NULL },
    { 7, FL_WIRE_FLOATS, offsetof(fl_p18_attr, floats), "floats", false, NULL },
    { 8, FL_WIRE_TEXTS, offsetof(fl_p18_attr, strings), "strings", false,
      NULL },
    { 10, FL_WIRE_INT, offsetof(fl_p18_attr, b), "b", false, NULL },
    { 11, FL_WIRE_INTS, offsetof(fl_p18_attr, bools), "bools", false, NULL },
    { 12, FL_WIRE_INT, offsetof(fl_p18_attr, block_idx), "block_idx", false,
      NULL },
    { 13, FL_WIRE_INT, offsetof(fl_p18_attr, l), "l", false, NULL },
    { 14, FL_WIRE_INTS, offsetof(fl_p18_attr, blocks_idx), "blocks_idx", false,
      NULL },
    { 15, FL_WIRE_INTS, offsetof(fl_p18_attr, longs), "longs", false, NULL },
};
static const fl_wire_message attr_message =
    MESSAGE("OpDesc.Attr", fl_p18_attr, attr_members);

static const fl_wire_member arg_members[] = {
    { 1, FL_WIRE_TEXT, offsetof(fl_p18_arg, slot), "parameter", true, NULL },
    { 2, FL_WIRE_TEXTS, offsetof(fl_p18_arg, vars), "arguments", false, NULL },
};
static const fl_wire_message arg_message =
    MESSAGE("OpDesc.Var", fl_p18_arg, arg_members);

static const fl_wire_member op_members[] = {
    { 1, FL_WIRE_MESSAGES, offsetof(fl_p18_op, inputs), "inputs", false,
      &arg_message },
    { 2, FL_WIRE_MESSAGES, offsetof(fl_p18_op, outputs), "outputs", false,
      &arg_message },
    { 3, FL_WIRE_TEXT, offsetof(fl_p18_op, type), "type", true, NULL },
    { 4, FL_WIRE_MESSAGES, offsetof(fl_p18_op, attrs), "attrs", false,
      &attr_message },
};
static const fl_wire_message op_message =
    MESSAGE("OpDesc", fl_p18_op, op_members);

static const fl_wire_member tensor_members[] = {
    { 1, FL_WIRE_INT, offsetof(fl_p18_tensor_desc, data_type), "data_type",
      true, NULL },
    { 2, FL_WIRE_INTS, offsetof(fl_p18_tensor_desc, dims), "dims", false,
      NULL },
};
const fl_wire_message fl_p18_tensor_message =
    MESSAGE("TensorDesc", fl_p18_tensor_desc, tensor_members);

static const fl_wire_member lod_members[] = {
    { 1, FL_WIRE_MESSAGE, offsetof(fl_p18_lod_desc, tensor), "tensor", true,
      &fl_p18_tensor_message },
    { 2, FL_WIRE_INT, offsetof(fl_p18_lod_desc, lod_level), "lod_level", false,
      NULL },
};
static const fl_wire_message lod_message =
    MESSAGE("LoDTensorDesc", fl_p18_lod_desc, lod_members);

static const fl_wire_member var_type_members[] = {
    { 1, FL_WIRE_INT, offsetof(fl_p18_var_type, type), "type", true, NULL },
    { 2, FL_WIRE_MESSAGE, offsetof(fl_p18_var_type, selected_rows),
      "selected_rows", false, &fl_p18_tensor_message },
    { 3, FL_WIRE_MESSAGE, offsetof(fl_p18_var_type, lod_tensor), "lod_tensor",
      false, &lod_message },
};
static const fl_wire_message var_type_message =
    MESSAGE("VarType", fl_p18_var_type, var_type_members);

static const fl_wire_member var_members[] = {
    { 1, FL_WIRE_TEXT, offsetof(fl_p18_var_desc, name), "name", true, NULL },
    { 2, FL_WIRE_MESSAGE, offsetof(fl_p18_var_desc, type), "type", true,
      &var_type_message },
    { 3, FL_WIRE_INT, offsetof(fl_p18_var_desc, persistable), "persistable",
      false, NULL },
};
static const fl_wire_message var_message =
    MESSAGE("VarDesc", fl_p18_var_desc, var_members);

static const fl_wire_member block_members[] = {
    { 1, FL_WIRE_INT, offsetof(fl_p18_block_desc, idx), "idx", true, NULL },
    { 2, FL_WIRE_INT, offsetof(fl_p18_block_desc, parent_idx), "parent_idx",
      true, NULL },
    { 3, FL_WIRE_MESSAGES, offsetof(fl_p18_block_desc, vars), "vars", false,
      &var_message },
    { 4, FL_WIRE_MESSAGES, offsetof(fl_p18_block_desc, ops), "ops", false,
      &op_message },
};
static const fl_wire_message block_message =
    MESSAGE("BlockDesc", fl_p18_block_desc, block_members);

static const fl_wire_member program_members[] = {
    { 1, FL_WIRE_MESSAGES, offsetof(fl_p18_program_desc, blocks), "blocks",
      true, &block_message },
};
const fl_wire_message fl_p18_program_message =
    MESSAGE("ProgramDesc", fl_p18_program_desc, program_members);

/* --- what they say -------------------------------------------------------- */

static const struct {
    int64_t type;
    fl_dtype dtype;
} dtypes[] = {
    { FL_P18_BOOL, FL_DTYPE_BOOL }, { FL_P18_INT16, FL_DTYPE_I16 },
    { FL_P18_INT32, FL_DTYPE_I32 }, { FL_P18_INT64, FL_DTYPE_I64 },
    { FL_P18_FP16, FL_DTYPE_F16 },  { FL_P18_FP32, FL_DTYPE_F32 },
    { FL_P18_FP64, FL_DTYPE_F64 },  { FL_P18_SIZE_T, FL_DTYPE_U64 },
    { FL_P18_UINT8, FL_DTYPE_U8 },  { FL_P18_INT8, FL_DTYPE_I8 },
};

fl_status fl_p18_dtype(int64_t type, const char *what, fl_dtype *out)
{
    for (size_t i = 0; i < FL_LEN(dtypes); i++)
        if (dtypes[i].type == type) {
            *out = dtypes[i].dtype;
            return FL_OK;
        }
    FL_FAIL(FL_ERR_CORRUPT, "%s is of type %" PRId64 ", which does not exist",
            what, type);
}

static fl_status shape_of(const fl_wire_list *dims, const char *what,
                          fl_shape *out)
{
    const int64_t *dim = dims->items;

    if (dims->n > FL_RANK_MAX)
        FL_FAIL(FL_ERR_UNSUPPORTED,
                "%s has %zu dimensions; at most %d are "
                "possible",
                what, dims->n, FL_RANK_MAX);
    for (size_t i = 0; i < dims->n; i++)
        if (dim[i] < -1 || dim[i] > DIM_MAX)
            FL_FAIL(FL_ERR_CORRUPT, "%s: %" PRId64 " is no dimension", what,
                    dim[i]);
    *out = fl_shape_of((int)dims->n, dim);
    return FL_OK;
}

fl_status fl_p18_tensor(const fl_p18_tensor_desc *d, const char *what,
                        fl_tensor *out)
{
    fl_tensor t = { .size = sizeof(t) };

    FL_TRY(fl_p18_dtype(d->data_type, what, &t.dtype));
    FL_TRY(shape_of(&d->dims, what, &t.shape));
    *out = t;
    return FL_OK;
}

bool fl_p18_is_saved(const fl_p18_var_desc *v)
{
    return v->persistable && (v->type->type == FL_P18_LOD_TENSOR ||
                              v->type->type == FL_P18_SELECTED_ROWS);
}

const fl_p18_attr *fl_p18_find_attr(const fl_p18_op *op, const char *name)
{
    for (size_t i = 0; i < op->attrs.n; i++) {
        const fl_p18_attr *a = FL_P18_AT(fl_p18_attr, op->attrs, i);

        if (!strcmp(a->name, name))
            return a;
    }
    return NULL;
}

const char *fl_p18_first(const fl_wire_list *args, const char *slot)
{
    for (size_t i = 0; i < args->n; i++) {
        const fl_p18_arg *a = FL_P18_AT(fl_p18_arg, *args, i);

        if (!strcmp(a->slot, slot) && a->vars.n)
            return FL_P18_NAME(a->vars, 0);
    }
    return NULL;
}
