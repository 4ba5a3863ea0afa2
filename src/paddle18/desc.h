/* desc.h - a program as PaddlePaddle 1.8 keeps it in __model__ (ProgramDesc,
 * docs/formats/paddle18.md). Plain structs in an arena, as they were read.
 */
#ifndef FL_PADDLE18_DESC_H
#define FL_PADDLE18_DESC_H

#include "flotilla/tensor.h"
#include "paddle18/wire.h"

/* Types of values, and of what variables are. */
enum fl_p18_type {
    FL_P18_BOOL = 0,
    FL_P18_INT16 = 1,
    FL_P18_INT32 = 2,
    FL_P18_INT64 = 3,
    FL_P18_FP16 = 4,
    FL_P18_FP32 = 5,
    FL_P18_FP64 = 6,
    FL_P18_LOD_TENSOR = 7,
    FL_P18_SELECTED_ROWS = 8,
    FL_P18_SIZE_T = 19,
    FL_P18_UINT8 = 20,
    FL_P18_INT8 = 21,
};

enum fl_p18_attr_type {
    FL_P18_ATTR_INT = 0,
    FL_P18_ATTR_FLOAT = 1,
    FL_P18_ATTR_STRING = 2,
    FL_P18_ATTR_INTS = 3,
    FL_P18_ATTR_FLOATS = 4,
    FL_P18_ATTR_STRINGS = 5,
    FL_P18_ATTR_BOOLEAN = 6,
    FL_P18_ATTR_BOOLEANS = 7,
    FL_P18_ATTR_BLOCK = 8,
    FL_P18_ATTR_LONG = 9,
    FL_P18_ATTR_BLOCKS = 10,
    FL_P18_ATTR_LONGS = 11,
};

typedef struct fl_p18_attr {
    const char *name;
    int64_t type; /* enum fl_p18_attr_type: says which of these counts */
    int64_t i, b, l, block_idx;
    double f;
    const char *s;
    fl_wire_list ints, floats, strings, bools, longs, blocks_idx;
} fl_p18_attr;

typedef struct fl_p18_arg {
    const char *slot;
    fl_wire_list vars; /* of const char * */
} fl_p18_arg;

typedef struct fl_p18_op {
    const char *type;
    fl_wire_list inputs, outputs; /* of fl_p18_arg */
    fl_wire_list attrs;           /* of fl_p18_attr */
} fl_p18_op;

typedef struct fl_p18_tensor_desc {
    int64_t data_type; /* enum fl_p18_type */
    fl_wire_list dims;
} fl_p18_tensor_desc;

typedef struct fl_p18_lod_desc {
    fl_p18_tensor_desc *tensor;
    int64_t lod_level;
} fl_p18_lod_desc;

typedef struct fl_p18_var_type {
    int64_t type; /* enum fl_p18_type, or one of no value here */
    fl_p18_tensor_desc *selected_rows;
    fl_p18_lod_desc *lod_tensor;
} fl_p18_var_type;

typedef struct fl_p18_var_desc {
    const char *name;
    fl_p18_var_type *type;
    int64_t persistable;
} fl_p18_var_desc;

typedef struct fl_p18_block_desc {
    int64_t idx, parent_idx;
    fl_wire_list vars; /* of fl_p18_var_desc */
    fl_wire_list ops;  /* of fl_p18_op */
} fl_p18_block_desc;

typedef struct fl_p18_program_desc {
    fl_wire_list blocks; /* of fl_p18_block_desc */
} fl_p18_program_desc;

extern const fl_wire_message fl_p18_program_message;
extern const fl_wire_message fl_p18_tensor_message;

/* Entry i of a list of structs. */
#define FL_P18_AT(type, list, i) (&((const type *)(list).items)[i])
#define FL_P18_NAME(list, i) (((const char *const *)(list).items)[i])

/* Our type for one of theirs; `what` is for messages. */
FL_MUST_CHECK
fl_status fl_p18_dtype(int64_t type, const char *what, fl_dtype *out);

/* Type and shape of a tensor, with `what` for messages: types that we do not
   have, more dimensions than we have and negative ones but -1 are refused. */
FL_MUST_CHECK
fl_status fl_p18_tensor(const fl_p18_tensor_desc *d, const char *what,
                        fl_tensor *out);

/* Is it a persistent variable with a value (not a reader, feed or fetch)? */
bool fl_p18_is_saved(const fl_p18_var_desc *v);

/* Attribute `name` of an operator; NULL when it has none. */
const fl_p18_attr *fl_p18_find_attr(const fl_p18_op *op, const char *name);

/* The first variable of a slot; NULL when it has none. */
const char *fl_p18_first(const fl_wire_list *args, const char *slot);

#endif
