/* op.c - operators of a block, and their attributes. */
#include "core.h"

/* --- attributes ---------------------------------------------------------- */

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
        out->floats = core_floats(m, o, &out->n);
        return out->floats != NULL;
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
    fl_op_args args =
        FL_INIT(fl_op_args, .role = (fl_op_role)c->role,
                .inputs = read_args(m, c->inputs), .before = c->before,
                .tag = c->tag, .redeclares = true);
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

PyMethodDef core_op_methods[] = {
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
