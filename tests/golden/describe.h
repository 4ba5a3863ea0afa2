/* describe.h - what an operator takes and gives, and the text of its
 * attributes, from the help of the library. */
#ifndef GOLDEN_DESCRIBE_H
#define GOLDEN_DESCRIBE_H

#include "golden.h"

typedef struct op_attr {
    const char *name;
    const char *value; /* in the text form of programs */
} op_attr;

typedef struct op_info {
    const char **in, **out; /* names of slots */
    size_t n_in, n_out;
    op_attr *attrs; /* with their defaults */
    size_t n_attrs;
} op_info;

/* Reports and returns false when there is no such operator. */
bool describe_op(golden_case *c, const char *op, op_info *out);

bool has_slot(const char *const *slots, size_t n, const char *name);

/* NULL when there is none. */
const op_attr *find_attr(const op_attr *attrs, size_t n, const char *name);

/* The JSON object `attrs` as attributes. */
void attrs_from_json(pool *p, const cJSON *object, op_attr **attrs, size_t *n);

/* Adds " {a=1, b=2}" to a line: the attributes that the operator has. What it
   does not have is dropped when it says nothing about the numbers on a CPU;
   else the case fails. */
bool attrs_to_text(golden_case *c, const char *op, const op_info *info,
                   const op_attr *attrs, size_t n, text *line);

#endif
