/* ir.c - programs, blocks, variables and operators. */
#include <string.h>

#include "core.h"

/* A function of the module by the name of its C body. */
#define METHOD(name, doc)                                                      \
    {                                                                          \
#name, name, METH_VARARGS, doc                                         \
    }

/* --- programs ------------------------------------------------------------ */

static PyObject *ctx_new(PyObject *self, PyObject *args)
{
    fl_ctx *c;
    fl_status st;

    (void)self;
    if (!PyArg_ParseTuple(args, ""))
        return NULL;
    st = fl_ctx_new(&c);
    return st ? core_fail(st) : core_handle(CORE_ctx, c, NULL, true);
}

static PyObject *ctx_set(PyObject *self, PyObject *args)
{
    fl_ctx *c;
    const char *name, *value;

    (void)self;
    if (!PyArg_ParseTuple(args, "O&ss", core_ctx, &c, &name, &value))
        return NULL;
    return core_done(fl_ctx_set(c, name, value));
}

static PyObject *ctx_get(PyObject *self, PyObject *args)
{
    fl_ctx *c;
    const char *name, *value;

    (void)self;
    if (!PyArg_ParseTuple(args, "O&s", core_ctx, &c, &name))
        return NULL;
    value = fl_ctx_get(c, name);
    if (!value)
        return PyErr_Format(PyExc_KeyError, "no setting is called %s", name);
    return PyUnicode_FromString(value);
}

static PyObject *ctx_push(PyObject *self, PyObject *args)
{
    fl_ctx *c;
    fl_program *main, *startup;

    (void)self;
    if (!PyArg_ParseTuple(args, "O&O&O&", core_ctx, &c, core_program, &main,
                          core_program_or_none, &startup))
        return NULL;
    return core_done(fl_program_push(c, main, startup));
}

static PyObject *ctx_pop(PyObject *self, PyObject *args)
{
    fl_ctx *c;

    (void)self;
    if (!PyArg_ParseTuple(args, "O&", core_ctx, &c))
        return NULL;
    fl_program_pop(c);
    Py_RETURN_NONE;
}

static PyObject *program_new(PyObject *self, PyObject *args)
{
    PyObject *owner;
    fl_program *p;
    fl_ctx *c;
    fl_status st;

    (void)self;
    if (!PyArg_ParseTuple(args, "O", &owner) || !core_ctx(owner, &c))
        return NULL;
    st = fl_program_new(&p, c);
    return st ? core_fail(st) : core_handle(CORE_program, p, owner, true);
}

static PyObject *program_from_text(PyObject *self, PyObject *args)
{
    PyObject *owner;
    const char *text;
    fl_program *p;
    fl_ctx *c;
    fl_status st;

    (void)self;
    if (!PyArg_ParseTuple(args, "Os", &owner, &text) || !core_ctx(owner, &c))
        return NULL;
    st = fl_program_from_text(&p, c, text);
    return st ? core_fail(st) : core_handle(CORE_program, p, owner, true);
}

static PyObject *program_text(PyObject *self, PyObject *args)
{
    fl_program *p;

    (void)self;
    if (!PyArg_ParseTuple(args, "O&", core_program, &p))
        return NULL;
    return core_text(fl_program_to_text(p));
}

static PyObject *program_svg(PyObject *self, PyObject *args)
{
    fl_program *p;

    (void)self;
    if (!PyArg_ParseTuple(args, "O&", core_program, &p))
        return NULL;
    return core_text(fl_program_to_svg(p));
}

/* How a copy is made: all of it, or what a test needs. */
static PyObject *copy_with(PyObject *args,
                           fl_status (*fn)(fl_program **, const fl_program *))
{
    PyObject *of;
    fl_program *p, *copy;
    fl_status st;

    if (!PyArg_ParseTuple(args, "O", &of) || !core_program(of, &p))
        return NULL;
    st = fn(&copy, p);
    return st ? core_fail(st)
              : core_handle(CORE_program, copy, core_owner(of), true);
}

static PyObject *program_copy(PyObject *self, PyObject *args)
{
    (void)self;
    return copy_with(args, fl_program_copy);
}

static PyObject *program_for_test(PyObject *self, PyObject *args)
{
    (void)self;
    return copy_with(args, fl_program_for_test);
}

static PyObject *program_pruned(PyObject *self, PyObject *args)
{
    PyObject *of, *names;
    core_memory memory = { 0 };
    fl_program *p, *copy;
    const char **targets;
    size_t n;
    fl_status st;

    (void)self;
    if (!PyArg_ParseTuple(args, "OO", &of, &names) || !core_program(of, &p))
        return NULL;
    targets = core_names(&memory, names, &n);
    if (!targets) {
        core_release(&memory);
        return NULL;
    }
    st = fl_program_pruned(&copy, p, targets, n);
    core_release(&memory);
    return st ? core_fail(st)
              : core_handle(CORE_program, copy, core_owner(of), true);
}

static PyObject *program_seed(PyObject *self, PyObject *args)
{
    fl_program *p;

    (void)self;
    if (!PyArg_ParseTuple(args, "O&", core_program, &p))
        return NULL;
    return PyLong_FromUnsignedLongLong(fl_program_seed(p));
}

static PyObject *program_set_seed(PyObject *self, PyObject *args)
{
    fl_program *p;
    unsigned long long seed;

    (void)self;
    if (!PyArg_ParseTuple(args, "O&K", core_program, &p, &seed))
        return NULL;
    fl_program_set_seed(p, seed);
    Py_RETURN_NONE;
}

static PyObject *program_version(PyObject *self, PyObject *args)
{
    fl_program *p;

    (void)self;
    if (!PyArg_ParseTuple(args, "O&", core_program, &p))
        return NULL;
    return PyLong_FromUnsignedLongLong(fl_program_version(p));
}

static PyObject *program_n_blocks(PyObject *self, PyObject *args)
{
    fl_program *p;

    (void)self;
    if (!PyArg_ParseTuple(args, "O&", core_program, &p))
        return NULL;
    return PyLong_FromSize_t(fl_program_n_blocks(p));
}

static PyObject *program_block(PyObject *self, PyObject *args)
{
    PyObject *of;
    fl_program *p;
    Py_ssize_t i;

    (void)self;
    if (!PyArg_ParseTuple(args, "On", &of, &i) || !core_program(of, &p))
        return NULL;
    return core_handle(CORE_block, fl_program_block(p, (size_t)i), of, false);
}

/* --- blocks -------------------------------------------------------------- */

static PyObject *block_new(PyObject *self, PyObject *args)
{
    PyObject *of;
    fl_block *parent, *b;
    fl_status st;

    (void)self;
    if (!PyArg_ParseTuple(args, "O", &of) || !core_block(of, &parent))
        return NULL;
    st = fl_block_new(&b, parent);
    return st ? core_fail(st)
              : core_handle(CORE_block, b, core_owner(of), false);
}

static PyObject *block_index(PyObject *self, PyObject *args)
{
    fl_block *b;

    (void)self;
    if (!PyArg_ParseTuple(args, "O&", core_block, &b))
        return NULL;
    return PyLong_FromSize_t(fl_block_index(b));
}

static PyObject *block_parent(PyObject *self, PyObject *args)
{
    const fl_block *parent;
    fl_block *b;

    (void)self;
    if (!PyArg_ParseTuple(args, "O&", core_block, &b))
        return NULL;
    parent = fl_block_parent(b);
    return PyLong_FromLong(parent ? (long)fl_block_index(parent) : -1);
}

static PyObject *block_var(PyObject *self, PyObject *args)
{
    PyObject *of;
    const char *name;
    fl_block *b;

    (void)self;
    if (!PyArg_ParseTuple(args, "Os", &of, &name) || !core_block(of, &b))
        return NULL;
    return core_handle(CORE_var, fl_block_var(b, name), core_owner(of), false);
}

/* The block's own variables, in the order in which they were made. */
static PyObject *block_vars(PyObject *self, PyObject *args)
{
    PyObject *of, *list;
    fl_block *b;

    (void)self;
    if (!PyArg_ParseTuple(args, "O", &of) || !core_block(of, &b))
        return NULL;
    list = PyList_New(0);
    for (fl_var *v = NULL; list && (v = fl_block_next_var(b, v));) {
        PyObject *h = core_handle(CORE_var, v, core_owner(of), false);

        if (!h || PyList_Append(list, h))
            Py_CLEAR(list);
        Py_XDECREF(h);
    }
    return list;
}

static PyObject *block_ops(PyObject *self, PyObject *args)
{
    PyObject *of, *list;
    fl_block *b;

    (void)self;
    if (!PyArg_ParseTuple(args, "O", &of) || !core_block(of, &b))
        return NULL;
    list = PyList_New(0);
    for (fl_op_node *n = NULL; list && (n = fl_block_next_op(b, n));) {
        PyObject *h = core_handle(CORE_op, n, core_owner(of), false);

        if (!h || PyList_Append(list, h))
            Py_CLEAR(list);
        Py_XDECREF(h);
    }
    return list;
}

/* --- variables ----------------------------------------------------------- */

/* What Python gives of a variable, as keywords. */
static char *var_words[] = { "dtype",       "kind",          "lod_level",
                             "shape",       "is_data",       "is_parameter",
                             "persistable", "frozen",        "stop_gradient",
                             "tag",         "learning_rate", "is_table",
                             NULL };

static int read_shape(PyObject *o, fl_shape *out)
{
    Py_ssize_t rank = PySequence_Length(o);

    if (rank < 0)
        return 0;
    if (rank > FL_RANK_MAX) {
        PyErr_Format(PyExc_ValueError,
                     "a shape of %zd dimensions; at most %d are possible", rank,
                     FL_RANK_MAX);
        return 0;
    }
    out->rank = (int)rank;
    for (Py_ssize_t i = 0; i < rank; i++) {
        PyObject *item = PySequence_GetItem(o, i);

        out->dim[i] = item ? PyLong_AsLongLong(item) : -1;
        Py_XDECREF(item);
        if (PyErr_Occurred())
            return 0;
    }
    return 1;
}

/* Keywords over what *def has already. */
static int read_def(PyObject *words, fl_var_def *def)
{
    PyObject *none = PyTuple_New(0);
    int dtype = (int)def->dtype, kind = (int)def->kind;
    int is_data = def->is_data, is_parameter = def->is_parameter;
    int persistable = def->persistable, frozen = def->frozen;
    int stop = def->stop_gradient, is_table = def->is_table;
    unsigned long long tag = def->tag;
    int ok;

    ok = none && PyArg_ParseTupleAndKeywords(
                     none, words, "|$iiiO&pppppKdp", var_words, &dtype, &kind,
                     &def->lod_level, read_shape, &def->shape, &is_data,
                     &is_parameter, &persistable, &frozen, &stop, &tag,
                     &def->learning_rate, &is_table);
    Py_XDECREF(none);
    def->dtype = (fl_dtype)dtype;
    def->kind = (fl_kind)kind;
    def->is_data = is_data;
    def->is_parameter = is_parameter;
    def->persistable = persistable;
    def->frozen = frozen;
    def->stop_gradient = stop;
    def->is_table = is_table;
    def->tag = tag;
    return ok;
}

static PyObject *var_new(PyObject *self, PyObject *args, PyObject *words)
{
    fl_var_def def = FL_INIT(fl_var_def, .learning_rate = 1);
    const char *name;
    PyObject *of;
    fl_block *b;
    fl_var *v;
    fl_status st;

    (void)self;
    if (!PyArg_ParseTuple(args, "Os", &of, &name) || !core_block(of, &b) ||
        !read_def(words, &def))
        return NULL;
    st = fl_create_var_with(&v, b, name, &def);
    return st ? core_fail(st) : core_handle(CORE_var, v, core_owner(of), false);
}

static PyObject *var_change(PyObject *self, PyObject *args, PyObject *words)
{
    fl_var_def def = FL_INIT(fl_var_def, .tag = 0);
    fl_var *v;
    fl_status st;

    (void)self;
    if (!PyArg_ParseTuple(args, "O&", core_var, &v))
        return NULL;
    st = fl_var_look(v, &def);
    if (st)
        return core_fail(st);
    return read_def(words, &def) ? core_done(fl_var_change(v, &def)) : NULL;
}

static PyObject *shape_tuple(const fl_shape *s)
{
    PyObject *t = PyTuple_New(s->rank);

    for (int i = 0; t && i < s->rank; i++) {
        PyObject *n = PyLong_FromLongLong(s->dim[i]);

        if (!n || PyTuple_SetItem(t, i, n))
            Py_CLEAR(t);
    }
    return t;
}

static PyObject *var_look(PyObject *self, PyObject *args)
{
    fl_var_def def = FL_INIT(fl_var_def, .tag = 0);
    fl_var *v;
    fl_status st;

    (void)self;
    if (!PyArg_ParseTuple(args, "O&", core_var, &v))
        return NULL;
    st = fl_var_look(v, &def);
    if (st)
        return core_fail(st);
    return Py_BuildValue(
        "{s:i,s:i,s:i,s:N,s:N,s:N,s:N,s:N,s:N,s:N,s:K,s:d}", "dtype",
        (int)def.dtype, "kind", (int)def.kind, "lod_level", def.lod_level,
        "shape", shape_tuple(&def.shape), "is_data",
        PyBool_FromLong(def.is_data), "is_parameter",
        PyBool_FromLong(def.is_parameter), "is_table",
        PyBool_FromLong(def.is_table), "persistable",
        PyBool_FromLong(def.persistable), "frozen", PyBool_FromLong(def.frozen),
        "stop_gradient", PyBool_FromLong(def.stop_gradient), "tag",
        (unsigned long long)def.tag, "learning_rate", def.learning_rate);
}

static PyObject *var_name(PyObject *self, PyObject *args)
{
    fl_var *v;

    (void)self;
    if (!PyArg_ParseTuple(args, "O&", core_var, &v))
        return NULL;
    return PyUnicode_FromString(fl_var_name(v));
}

static PyObject *var_block(PyObject *self, PyObject *args)
{
    fl_var *v;

    (void)self;
    if (!PyArg_ParseTuple(args, "O&", core_var, &v))
        return NULL;
    return PyLong_FromSize_t(fl_block_index(fl_var_block(v)));
}

static PyObject *var_rename(PyObject *self, PyObject *args)
{
    const char *name;
    fl_var *v;

    (void)self;
    if (!PyArg_ParseTuple(args, "O&s", core_var, &v, &name))
        return NULL;
    return core_done(fl_var_rename(v, name));
}

static PyObject *var_remove(PyObject *self, PyObject *args)
{
    fl_var *v;

    (void)self;
    if (!PyArg_ParseTuple(args, "O&", core_var, &v))
        return NULL;
    return core_done(fl_var_remove(v));
}

/* --- attributes ---------------------------------------------------------- */

static int read_floats(core_memory *m, PyObject *o, fl_attr *out)
{
    Py_ssize_t n = PySequence_Length(o);
    double *list = n < 0 ? NULL : core_alloc(m, (size_t)n + 1, sizeof *list);

    for (Py_ssize_t i = 0; list && i < n; i++) {
        PyObject *item = PySequence_GetItem(o, i);

        list[i] = item ? PyFloat_AsDouble(item) : 0;
        Py_XDECREF(item);
        if (PyErr_Occurred())
            return 0;
    }
    out->floats = list;
    out->n = (size_t)n;
    return list != NULL;
}

/* A value of the type that the attribute has. */
static int read_attr(core_memory *m, PyObject *o, fl_attr *out)
{
    switch (out->type) {
    case FL_ATTR_BOOL:
        out->b = PyObject_IsTrue(o) == 1;
        return !PyErr_Occurred();
    case FL_ATTR_INT:
    case FL_ATTR_BLOCK:
        out->i = PyLong_AsLongLong(o);
        return !PyErr_Occurred();
    case FL_ATTR_FLOAT:
        out->f = PyFloat_AsDouble(o);
        return !PyErr_Occurred();
    case FL_ATTR_STRING:
        out->s = PyUnicode_AsUTF8AndSize(o, NULL);
        return out->s != NULL;
    case FL_ATTR_INTS:
        out->ints = core_ints(m, o, &out->n);
        return out->ints != NULL;
    case FL_ATTR_FLOATS:
        return read_floats(m, o, out);
    case FL_ATTR_STRINGS:
        out->strings = core_names(m, o, &out->n);
        return out->strings != NULL;
    }
    PyErr_Format(PyExc_SystemError, "no attribute has type %d", out->type);
    return 0;
}

static PyObject *list_of(const fl_attr *a,
                         PyObject *(*entry)(const fl_attr *a, size_t i))
{
    PyObject *list = PyList_New((Py_ssize_t)a->n);

    for (size_t i = 0; list && i < a->n; i++) {
        PyObject *item = entry(a, i);

        if (!item || PyList_SetItem(list, (Py_ssize_t)i, item))
            Py_CLEAR(list);
    }
    return list;
}

static PyObject *int_entry(const fl_attr *a, size_t i)
{
    return PyLong_FromLongLong(a->ints[i]);
}

static PyObject *float_entry(const fl_attr *a, size_t i)
{
    return PyFloat_FromDouble(a->floats[i]);
}

static PyObject *string_entry(const fl_attr *a, size_t i)
{
    return PyUnicode_FromString(a->strings[i]);
}

static PyObject *write_attr(const fl_attr *a)
{
    switch (a->type) {
    case FL_ATTR_BOOL:
        return PyBool_FromLong(a->b);
    case FL_ATTR_INT:
    case FL_ATTR_BLOCK:
        return PyLong_FromLongLong(a->i);
    case FL_ATTR_FLOAT:
        return PyFloat_FromDouble(a->f);
    case FL_ATTR_STRING:
        return PyUnicode_FromString(a->s ? a->s : "");
    case FL_ATTR_INTS:
        return list_of(a, int_entry);
    case FL_ATTR_FLOATS:
        return list_of(a, float_entry);
    case FL_ATTR_STRINGS:
        return list_of(a, string_entry);
    }
    return PyErr_Format(PyExc_SystemError, "no attribute has type %d", a->type);
}

/* --- operators ----------------------------------------------------------- */

/* [(slot, name), ...] as a list that ends with an empty entry. */
static fl_arg *read_args(core_memory *m, PyObject *o)
{
    Py_ssize_t n = PyList_Size(o);
    fl_arg *args = n < 0 ? NULL : core_alloc(m, (size_t)n + 1, sizeof *args);

    for (Py_ssize_t i = 0; args && i < n; i++) {
        if (!PyArg_ParseTuple(PyList_GetItem(o, i), "ss", &args[i].slot,
                              &args[i].var))
            return NULL;
    }
    return args;
}

/* [(name, type, value), ...] likewise. */
static fl_named_attr *read_attrs(core_memory *m, PyObject *o)
{
    Py_ssize_t n = PyList_Size(o);
    fl_named_attr *attrs =
        n < 0 ? NULL : core_alloc(m, (size_t)n + 1, sizeof *attrs);

    for (Py_ssize_t i = 0; attrs && i < n; i++) {
        PyObject *value;
        int type;

        if (!PyArg_ParseTuple(PyList_GetItem(o, i), "siO", &attrs[i].name,
                              &type, &value))
            return NULL;
        attrs[i].value.type = (fl_attr_type)type;
        if (!read_attr(m, value, &attrs[i].value))
            return NULL;
    }
    return attrs;
}

/* What op_append takes, in the order of its arguments. */
typedef struct append_call {
    PyObject *of, *inputs, *outputs, *attrs;
    const char *type;
    int role;
    unsigned long long tag;
    fl_op_node *before;
} append_call;

static PyObject *append(const append_call *c, fl_block *b, core_memory *m)
{
    fl_op_args args = FL_INIT(fl_op_args, .role = (fl_op_role)c->role,
                              .inputs = read_args(m, c->inputs),
                              .before = c->before, .tag = c->tag);
    fl_op_node *n;
    fl_status st;

    if (!args.inputs || !(args.outputs = read_args(m, c->outputs)) ||
        !(args.attrs = read_attrs(m, c->attrs)))
        return NULL;
    st = fl_append_op_with(&n, b, c->type, &args);
    return st ? core_fail(st)
              : core_handle(CORE_op, n, core_owner(c->of), false);
}

static PyObject *op_append(PyObject *self, PyObject *args)
{
    append_call c = { .of = NULL };
    core_memory memory = { 0 };
    PyObject *result;
    fl_block *b;

    (void)self;
    if (!PyArg_ParseTuple(args, "OsOOOiKO&", &c.of, &c.type, &c.inputs,
                          &c.outputs, &c.attrs, &c.role, &c.tag,
                          core_op_or_none, &c.before) ||
        !core_block(c.of, &b))
        return NULL;
    result = append(&c, b, &memory);
    core_release(&memory);
    return result;
}

static PyObject *op_remove(PyObject *self, PyObject *args)
{
    fl_op_node *n;

    (void)self;
    if (!PyArg_ParseTuple(args, "O&", core_op, &n))
        return NULL;
    fl_op_remove(n);
    Py_RETURN_NONE;
}

static PyObject *op_move(PyObject *self, PyObject *args)
{
    fl_op_node *n, *before;

    (void)self;
    if (!PyArg_ParseTuple(args, "O&O&", core_op, &n, core_op_or_none, &before))
        return NULL;
    return core_done(fl_op_move(n, before));
}

static PyObject *op_type(PyObject *self, PyObject *args)
{
    fl_op_node *n;

    (void)self;
    if (!PyArg_ParseTuple(args, "O&", core_op, &n))
        return NULL;
    return PyUnicode_FromString(fl_op_type(n));
}

static PyObject *op_role(PyObject *self, PyObject *args)
{
    fl_op_node *n;

    (void)self;
    if (!PyArg_ParseTuple(args, "O&", core_op, &n))
        return NULL;
    return PyLong_FromLong((long)fl_op_role_of(n));
}

static PyObject *op_tag(PyObject *self, PyObject *args)
{
    fl_op_node *n;

    (void)self;
    if (!PyArg_ParseTuple(args, "O&", core_op, &n))
        return NULL;
    return PyLong_FromUnsignedLongLong(fl_op_tag(n));
}

static PyObject *names_of_slot(const fl_op_node *n, fl_op_side side, size_t i,
                               size_t n_vars)
{
    PyObject *list = PyList_New(0);

    for (size_t k = 0; list && k < n_vars; k++) {
        const fl_var *v = fl_op_var(n, side, i, k);
        PyObject *name = PyUnicode_FromString(v ? fl_var_name(v) : "@EMPTY@");

        if (!name || PyList_Append(list, name))
            Py_CLEAR(list);
        Py_XDECREF(name);
    }
    return list;
}

/* {slot: [names]} of one side. */
static PyObject *op_slots(PyObject *self, PyObject *args)
{
    PyObject *dict;
    fl_op_node *n;
    const char *slot;
    size_t n_vars;
    int side;

    (void)self;
    if (!PyArg_ParseTuple(args, "O&i", core_op, &n, &side))
        return NULL;
    dict = PyDict_New();
    for (size_t i = 0;
         dict && (slot = fl_op_slot_name(n, (fl_op_side)side, i, &n_vars));
         i++) {
        PyObject *list = names_of_slot(n, (fl_op_side)side, i, n_vars);

        if (!list || PyDict_SetItemString(dict, slot, list))
            Py_CLEAR(dict);
        Py_XDECREF(list);
    }
    return dict;
}

static PyObject *op_attr_names(PyObject *self, PyObject *args)
{
    PyObject *list;
    fl_op_node *n;
    const char *name;

    (void)self;
    if (!PyArg_ParseTuple(args, "O&", core_op, &n))
        return NULL;
    list = PyList_New(0);
    for (size_t i = 0; list && (name = fl_op_attr_name(n, i)); i++) {
        PyObject *text = PyUnicode_FromString(name);

        if (!text || PyList_Append(list, text))
            Py_CLEAR(list);
        Py_XDECREF(text);
    }
    return list;
}

static PyObject *op_attr(PyObject *self, PyObject *args)
{
    const char *name;
    fl_op_node *n;
    fl_attr a;
    fl_status st;

    (void)self;
    if (!PyArg_ParseTuple(args, "O&s", core_op, &n, &name))
        return NULL;
    st = fl_op_attr(n, name, &a);
    return st ? core_fail(st) : write_attr(&a);
}

static PyObject *op_set_attr(PyObject *self, PyObject *args)
{
    core_memory memory = { 0 };
    PyObject *value, *result = NULL;
    const char *name;
    fl_op_node *n;
    fl_attr a;
    fl_status st;

    (void)self;
    if (!PyArg_ParseTuple(args, "O&sO", core_op, &n, &name, &value))
        return NULL;
    st = fl_op_attr(n, name, &a);
    if (st)
        return core_fail(st);
    a = (fl_attr){ .type = a.type };
    if (read_attr(&memory, value, &a))
        result = core_done(fl_op_set_attr(n, name, &a));
    core_release(&memory);
    return result;
}

/* Puts another variable into the place of one, wherever the side has it. */
static PyObject *op_replace(PyObject *self, PyObject *args)
{
    fl_op_node *n;
    fl_var *old, *new;
    size_t n_vars;
    int side;

    (void)self;
    if (!PyArg_ParseTuple(args, "O&iO&O&", core_op, &n, &side, core_var, &old,
                          core_var, &new))
        return NULL;
    for (size_t i = 0; fl_op_slot_name(n, (fl_op_side)side, i, &n_vars); i++) {
        for (size_t k = 0; k < n_vars; k++) {
            fl_status st = FL_OK;

            if (fl_op_var(n, (fl_op_side)side, i, k) == old)
                st = fl_op_set_var(n, (fl_op_side)side, i, k, new);
            if (st)
                return core_fail(st);
        }
    }
    Py_RETURN_NONE;
}

#define KEYWORDS(fn) ((PyCFunction)(void (*)(void))(fn))

PyMethodDef core_ir_methods[] = {
    METHOD(ctx_new, "A context."),
    METHOD(ctx_set, "Sets a setting, as text."),
    METHOD(ctx_get, "A setting, as text."),
    METHOD(ctx_push, "Makes a pair of programs current."),
    METHOD(ctx_pop, "Ends what ctx_push began."),
    METHOD(program_new, "An empty program."),
    METHOD(program_from_text, "A program from its text form."),
    METHOD(program_text, "The text form."),
    METHOD(program_svg, "A drawing."),
    METHOD(program_copy, "A copy."),
    METHOD(program_for_test, "A copy without what trains."),
    METHOD(program_pruned, "A copy of what the targets need."),
    METHOD(program_seed, "The seed of its random operators."),
    METHOD(program_set_seed, "Sets it."),
    METHOD(program_version, "Grows with every change."),
    METHOD(program_n_blocks, "How many blocks it has."),
    METHOD(program_block, "Block i."),
    METHOD(block_new, "A new block below another."),
    METHOD(block_index, "Its number."),
    METHOD(block_parent, "The number of its parent, or -1."),
    METHOD(block_var, "The variable that a name means here, or None."),
    METHOD(block_vars, "Its own variables."),
    METHOD(block_ops, "Its operators."),
    { "var_new", KEYWORDS(var_new), METH_VARARGS | METH_KEYWORDS,
      "A new variable." },
    { "var_change", KEYWORDS(var_change), METH_VARARGS | METH_KEYWORDS,
      "Changes what it is." },
    METHOD(var_look, "What it is, as a dict."),
    METHOD(var_name, "Its name."),
    METHOD(var_block, "The number of its block."),
    METHOD(var_rename, "Gives it another name."),
    METHOD(var_remove, "Takes it out of its block."),
    METHOD(op_append, "A new operator."),
    METHOD(op_remove, "Takes it out of its block."),
    METHOD(op_move, "Puts it before another one."),
    METHOD(op_type, "Its type."),
    METHOD(op_role, "Its role, a number."),
    METHOD(op_tag, "The builder's number."),
    METHOD(op_slots, "{slot: [names]} of inputs (0) or outputs (1)."),
    METHOD(op_attr_names, "The names of its attributes."),
    METHOD(op_attr, "The value of an attribute."),
    METHOD(op_set_attr, "Sets an attribute."),
    METHOD(op_replace, "Another variable in the place of one."),
    { NULL, NULL, 0, NULL },
};
