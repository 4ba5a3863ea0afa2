/* paddle_text.c - reads a program as PaddlePaddle 1.8.5 prints it. */
#include "paddle_text.h"

#include <stdlib.h>
#include <string.h>

/* One line under the reader's eye. */
typedef struct reader {
    pool *p;
    const char *at;
} reader;

static bool accept(reader *r, const char *word)
{
    size_t n = strlen(word);

    if (strncmp(r->at, word, n))
        return false;
    r->at += n;
    return true;
}

/* What stands before one of the characters of `stop`. */
static const char *take_until(reader *r, const char *stop)
{
    size_t n = strcspn(r->at, stop);
    const char *s = pool_strndup(r->p, r->at, n);

    r->at += n;
    return s;
}

/* --- variables ----------------------------------------------------------- */

static bool read_dtype(reader *r, fl_dtype *out)
{
    static const struct {
        const char *name;
        fl_dtype dtype;
    } types[] = {
        { "FP32", FL_DTYPE_F32 },  { "FP64", FL_DTYPE_F64 },
        { "INT32", FL_DTYPE_I32 }, { "INT64", FL_DTYPE_I64 },
        { "BOOL", FL_DTYPE_BOOL },
    };

    for (size_t i = 0; i < sizeof(types) / sizeof(types[0]); i++)
        if (accept(r, types[i].name)) {
            *out = types[i].dtype;
            return true;
        }
    return false;
}

static bool read_dims(reader *r, pt_var *v)
{
    char *end;

    while (!accept(r, ")")) {
        if (v->rank == FL_RANK_MAX)
            return false;
        v->dims[v->rank++] = strtoll(r->at, &end, 10);
        if (end == r->at)
            return false;
        r->at = end;
        r->at += strspn(r->at, ", ");
    }
    return true;
}

static bool read_var(reader *r, pt_program *out)
{
    pt_var v = { 0 };

    v.is_persist = accept(r, "persist ");
    accept(r, "trainable ");
    v.is_param = accept(r, "parameter ");
    if (!v.is_param && !accept(r, "var "))
        return false;
    v.name = take_until(r, " ");
    if (!accept(r, " : fluid.VarType.LOD_TENSOR.shape(") || !read_dims(r, &v) ||
        !accept(r, ".astype(VarType.") || !read_dtype(r, &v.dtype))
        return false;
    POOL_PUSH(r->p, out->vars, out->n_vars, v);
    return true;
}

/* --- operators ----------------------------------------------------------- */

/* ['a', 'b'] */
static bool read_names(reader *r, pt_arg *a)
{
    if (!accept(r, "["))
        return false;
    while (!accept(r, "]")) {
        if (!accept(r, "'"))
            return false;
        POOL_PUSH(r->p, a->vars, a->n_vars, take_until(r, "'"));
        if (!accept(r, "'"))
            return false;
        accept(r, ", ");
    }
    return true;
}

/* {X=['a'], Y=[]} */
static bool read_args(reader *r, pt_arg **args, size_t *n)
{
    if (!accept(r, "{"))
        return false;
    while (!accept(r, "}")) {
        pt_arg a = { .slot = take_until(r, "=") };

        if (!accept(r, "=") || !read_names(r, &a))
            return false;
        POOL_PUSH(r->p, *args, *n, a);
        accept(r, ", ");
    }
    return true;
}

/* True, False and numbers are what they are in our form, too, when they are
   written small; lists are the same; anything else is a word. */
static const char *convert_value(pool *p, const char *value)
{
    char *end;

    if (!strcmp(value, "True"))
        return "true";
    if (!strcmp(value, "False"))
        return "false";
    strtod(value, &end);
    if (*value == '[' || (*value && !*end))
        return value;
    return pool_printf(p, "\"%s\"", value);
}

/* name = value, up to a comma outside brackets or the last parenthesis. */
static bool read_attr(reader *r, pt_op *op)
{
    op_attr a;
    size_t n = 0;
    int depth = 0;

    a.name = take_until(r, " )");
    if (!accept(r, " = "))
        return false;
    for (; r->at[n]; n++) {
        depth += (r->at[n] == '[') - (r->at[n] == ']');
        if (!depth && (!strncmp(r->at + n, ", ", 2) || !strcmp(r->at + n, ")")))
            break;
    }
    a.value = convert_value(r->p, pool_strndup(r->p, r->at, n));
    r->at += n;
    POOL_PUSH(r->p, op->attrs, op->n_attrs, a);
    return true;
}

static bool read_op(reader *r, pt_program *out)
{
    pt_op op = { 0 };

    if (!read_args(r, &op.out, &op.n_out) || !accept(r, " = "))
        return false;
    op.type = take_until(r, "(");
    if (!accept(r, "(inputs=") || !read_args(r, &op.in, &op.n_in))
        return false;
    while (accept(r, ", "))
        if (!read_attr(r, &op))
            return false;
    if (strcmp(r->at, ")"))
        return false;
    POOL_PUSH(r->p, out->ops, out->n_ops, op);
    return true;
}

static bool read_line(reader *r, pt_program *out)
{
    if (!*r->at || !strcmp(r->at, "}") || !strncmp(r->at, "{ //", 4))
        return true;
    if (*r->at == '{')
        return read_op(r, out);
    return read_var(r, out);
}

const char *pt_read(pt_program *out, const char *source, pool *p)
{
    memset(out, 0, sizeof(*out));
    for (int line_no = 1; *source; line_no++) {
        size_t n = strcspn(source, "\n");
        reader r = { p, pool_strndup(p, source, n) };

        r.at += strspn(r.at, " ");
        if (!read_line(&r, out))
            return pool_printf(p, "line %d does not parse at '%.40s'", line_no,
                               r.at);
        source += n + (source[n] == '\n');
    }
    return out->n_ops ? NULL : "it has no operators";
}

/* --- looking at it ------------------------------------------------------- */

pt_var *pt_find_var(const pt_program *prog, const char *name)
{
    for (size_t i = 0; i < prog->n_vars; i++)
        if (!strcmp(prog->vars[i].name, name))
            return &prog->vars[i];
    return NULL;
}

const char *pt_output(const pt_op *op, const char *slot)
{
    for (size_t i = 0; i < op->n_out; i++)
        if (!strcmp(op->out[i].slot, slot) && op->out[i].n_vars)
            return op->out[i].vars[0];
    return NULL;
}

void pt_set_attr(pt_op *op, const char *name, const char *value)
{
    for (size_t i = 0; i < op->n_attrs; i++)
        if (!strcmp(op->attrs[i].name, name))
            op->attrs[i].value = value;
}

static bool arg_has(const pt_arg *a, const char *name)
{
    for (size_t i = 0; i < a->n_vars; i++)
        if (!strcmp(a->vars[i], name))
            return true;
    return false;
}

bool pt_is_read(const pt_program *prog, const char *name)
{
    for (size_t i = 0; i < prog->n_ops; i++)
        for (size_t k = 0; k < prog->ops[i].n_in; k++)
            if (arg_has(&prog->ops[i].in[k], name))
                return true;
    return false;
}
