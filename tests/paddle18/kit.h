/* kit.h - what the tests of src/paddle18 share: messages and files as
 * PaddlePaddle 1.8 writes them, put together by hand. */
#ifndef FL_TESTS_PADDLE18_KIT_H
#define FL_TESTS_PADDLE18_KIT_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/vec.h"
#include "ops/ops.h"
#include "paddle18/desc.h"

/* The last error contains `part`. */
static inline void expect_said(const char *part)
{
    if (!strstr(fl_last_error(), part))
        fail_msg("'%s' does not say '%s'", fl_last_error(), part);
}

static inline void expect_ok(fl_status st)
{
    if (st)
        fail_msg("%s", fl_last_error());
}

/* --- bytes ---------------------------------------------------------------- */

typedef FL_VEC(uint8_t) bytes;

static inline void put(bytes *b, const void *from, size_t n)
{
    for (size_t i = 0; i < n; i++)
        fl_vec_push(b, ((const uint8_t *)from)[i]);
}

static inline void put_u32(bytes *b, uint32_t v)
{
    put(b, &v, sizeof(v));
}

static inline void put_u64(bytes *b, uint64_t v)
{
    put(b, &v, sizeof(v));
}

static inline void put_varint(bytes *b, uint64_t v)
{
    for (; v >= 0x80; v >>= 7)
        fl_vec_push(b, (uint8_t)(v | 0x80));
    fl_vec_push(b, (uint8_t)v);
}

/* --- fields --------------------------------------------------------------- */

static inline void field_int(bytes *b, uint32_t number, int64_t v)
{
    put_varint(b, number << 3);
    put_varint(b, (uint64_t)v);
}

static inline void field_float(bytes *b, uint32_t number, float v)
{
    put_varint(b, number << 3 | 5);
    put(b, &v, sizeof(v));
}

static inline void field_bytes(bytes *b, uint32_t number, const void *from,
                               size_t n)
{
    put_varint(b, number << 3 | 2);
    put_varint(b, n);
    put(b, from, n);
}

static inline void field_text(bytes *b, uint32_t number, const char *text)
{
    field_bytes(b, number, text, strlen(text));
}

/* Takes the inner message, which is empty afterwards. */
static inline void field_message(bytes *b, uint32_t number, bytes *inner)
{
    field_bytes(b, number, inner->data, inner->len);
    fl_vec_release(inner);
}

/* --- programs ------------------------------------------------------------- */

static inline bytes tensor_desc(int type, int rank, const int64_t *dims)
{
    bytes b = { 0 };

    field_int(&b, 1, type);
    for (int i = 0; i < rank; i++)
        field_int(&b, 2, dims[i]);
    return b;
}

typedef struct var_desc {
    const char *name;
    int type; /* of values */
    int rank;
    int64_t dims[4];
    int lod;
    bool persists;
} var_desc;

static inline void add_var(bytes *block, const var_desc *v)
{
    bytes tensor = tensor_desc(v->type, v->rank, v->dims);
    bytes lod = { 0 }, type = { 0 }, var = { 0 };

    field_message(&lod, 1, &tensor);
    field_int(&lod, 2, v->lod);
    field_int(&type, 1, FL_P18_LOD_TENSOR);
    field_message(&type, 3, &lod);
    field_text(&var, 1, v->name);
    field_message(&var, 2, &type);
    field_int(&var, 3, v->persists);
    field_message(block, 3, &var);
}

/* A variable of another kind, without a tensor: feed, fetch, rows. */
static inline void add_odd_var(bytes *block, const char *name, int kind)
{
    bytes type = { 0 }, var = { 0 };

    field_int(&type, 1, kind);
    field_text(&var, 1, name);
    field_message(&var, 2, &type);
    field_int(&var, 3, 1);
    field_message(block, 3, &var);
}

enum { IN = 1, OUT = 2 };

/* A slot of an operator, with the names of its variables apart by spaces. */
static inline void add_arg(bytes *op, int side, const char *slot,
                           const char *names)
{
    char *copy = strdup(names), *at = copy, *name;
    bytes arg = { 0 };

    field_text(&arg, 1, slot);
    while ((name = strsep(&at, " ")))
        if (*name)
            field_text(&arg, 2, name);
    field_message(op, (uint32_t)side, &arg);
    free(copy);
}

static inline void add_int(bytes *op, const char *name, int64_t v)
{
    bytes a = { 0 };

    field_text(&a, 1, name);
    field_int(&a, 2, FL_P18_ATTR_INT);
    field_int(&a, 3, v);
    field_message(op, 4, &a);
}

static inline void add_float(bytes *op, const char *name, float v)
{
    bytes a = { 0 };

    field_text(&a, 1, name);
    field_int(&a, 2, FL_P18_ATTR_FLOAT);
    field_float(&a, 4, v);
    field_message(op, 4, &a);
}

static inline void add_bool(bytes *op, const char *name, bool v)
{
    bytes a = { 0 };

    field_text(&a, 1, name);
    field_int(&a, 2, FL_P18_ATTR_BOOLEAN);
    field_int(&a, 10, v);
    field_message(op, 4, &a);
}

static inline void add_text(bytes *op, const char *name, const char *v)
{
    bytes a = { 0 };

    field_text(&a, 1, name);
    field_int(&a, 2, FL_P18_ATTR_STRING);
    field_text(&a, 5, v);
    field_message(op, 4, &a);
}

static inline void add_ints(bytes *op, const char *name, int n,
                            const int64_t *v)
{
    bytes a = { 0 };

    field_text(&a, 1, name);
    field_int(&a, 2, FL_P18_ATTR_INTS);
    for (int i = 0; i < n; i++)
        field_int(&a, 6, v[i]);
    field_message(op, 4, &a);
}

static inline void add_block_attr(bytes *op, const char *name, int64_t index)
{
    bytes a = { 0 };

    field_text(&a, 1, name);
    field_int(&a, 2, FL_P18_ATTR_BLOCK);
    field_int(&a, 12, index);
    field_message(op, 4, &a);
}

/* Puts the operator into the block; it is empty afterwards. */
static inline void add_op(bytes *block, const char *type, bytes *op)
{
    field_text(op, 3, type);
    field_message(block, 4, op);
}

/* An operator X -> Out without attributes. */
static inline void add_simple(bytes *block, const char *type, const char *x,
                              const char *out)
{
    bytes op = { 0 };

    add_arg(&op, IN, "X", x);
    add_arg(&op, OUT, "Out", out);
    add_op(block, type, &op);
}

static inline void add_feed(bytes *block, const char *name, int col)
{
    bytes op = { 0 };

    add_arg(&op, IN, "X", "feed");
    add_arg(&op, OUT, "Out", name);
    add_int(&op, "col", col);
    add_op(block, "feed", &op);
}

static inline void add_fetch(bytes *block, const char *name, int col)
{
    bytes op = { 0 };

    add_arg(&op, IN, "X", name);
    add_arg(&op, OUT, "Out", "fetch");
    add_int(&op, "col", col);
    add_op(block, "fetch", &op);
}

/* A block with its number and parent before what was put into it. */
static inline void add_block(bytes *program, int64_t idx, int64_t parent,
                             bytes *block)
{
    field_int(block, 1, idx);
    field_int(block, 2, parent);
    field_message(program, 1, block);
}

/* --- saved variables ------------------------------------------------------ */

static inline void put_tensor(bytes *file, int type, int rank,
                              const int64_t *dims)
{
    bytes desc = tensor_desc(type, rank, dims);

    put_u32(file, 0);
    put_u32(file, (uint32_t)desc.len);
    put(file, desc.data, desc.len);
    fl_vec_release(&desc);
}

/* n floats in one dimension, from `first` on. */
static inline void put_floats(bytes *file, float first, int64_t n)
{
    put_u32(file, 0);
    put_u64(file, 0);
    put_tensor(file, FL_P18_FP32, 1, &n);
    for (int64_t i = 0; i < n; i++) {
        float v = first + (float)i;

        put(file, &v, sizeof(v));
    }
}

#endif
