/* scope.c - scopes and the values in them. */
#include "core.h"

static PyObject *scope_new(PyObject *self, PyObject *args)
{
    PyObject *of;
    fl_scope *parent, *s;
    fl_status st;

    (void)self;
    if (!PyArg_ParseTuple(args, "O", &of) || !core_scope_or_none(of, &parent))
        return NULL;
    st = fl_scope_new(&s, parent);
    return st ? core_fail(st) : core_handle(CORE_scope, s, of, true);
}

/* That of the context itself. */
static PyObject *scope_current(PyObject *self, PyObject *args)
{
    PyObject *of;
    fl_ctx *c;

    (void)self;
    if (!PyArg_ParseTuple(args, "O", &of) || !core_ctx(of, &c))
        return NULL;
    return core_handle(CORE_scope, fl_current_scope(c), of, false);
}

/* A copy of a value as a Tensor; None when there is none. */
static PyObject *scope_get(PyObject *self, PyObject *args)
{
    const char *name;
    fl_scope *s;
    fl_tensor t;

    (void)self;
    if (!PyArg_ParseTuple(args, "O&s", core_scope, &s, &name))
        return NULL;
    if (!fl_scope_find(s, name, &t))
        Py_RETURN_NONE;
    return core_tensor_copy(&t);
}

static PyObject *scope_set(PyObject *self, PyObject *args)
{
    PyObject *value, *result = NULL;
    const char *name;
    core_view view;
    fl_scope *s;
    fl_tensor t;

    (void)self;
    if (!PyArg_ParseTuple(args, "O&sO", core_scope, &s, &name, &value))
        return NULL;
    if (!core_view_of(value, &view, &t))
        result = core_done(fl_scope_set(s, name, &t));
    core_drop_view(&view);
    return result;
}

static PyObject *scope_drop(PyObject *self, PyObject *args)
{
    const char *name;
    fl_scope *s;

    (void)self;
    if (!PyArg_ParseTuple(args, "O&s", core_scope, &s, &name))
        return NULL;
    return PyBool_FromLong(fl_scope_drop(s, name));
}

static PyObject *scope_names(PyObject *self, PyObject *args)
{
    const char *name;
    PyObject *list;
    fl_scope *s;

    (void)self;
    if (!PyArg_ParseTuple(args, "O&", core_scope, &s))
        return NULL;
    list = PyList_New(0);
    for (size_t i = 0; list && (name = fl_scope_name(s, i)); i++) {
        PyObject *text = PyUnicode_FromString(name);

        if (!text || PyList_Append(list, text))
            Py_CLEAR(list);
        Py_XDECREF(text);
    }
    return list;
}

/* Whether this scope itself has it. */
static PyObject *scope_has(PyObject *self, PyObject *args)
{
    const char *name;
    fl_scope *s;

    (void)self;
    if (!PyArg_ParseTuple(args, "O&s", core_scope, &s, &name))
        return NULL;
    return PyBool_FromLong(fl_scope_holder(s, name) == s);
}

PyMethodDef core_scope_methods[] = {
    METHOD(scope_new, "A scope below another, or None."),
    METHOD(scope_current, "The context's own."),
    METHOD(scope_get, "A value, or None."),
    METHOD(scope_set, "Sets a value, as a copy."),
    METHOD(scope_drop, "Drops a variable."),
    METHOD(scope_has, "Whether it has a variable itself."),
    METHOD(scope_names, "Its own variables."),
    { NULL, NULL, 0, NULL },
};
