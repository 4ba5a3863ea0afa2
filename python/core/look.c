/* look.c - what the library has: operators, update rules, settings. Layers and
 * optimizers are generated from it. */
#include "core.h"

static PyObject *slot_dict(const fl_operator_slot *s)
{
    return Py_BuildValue("{s:s,s:N,s:N,s:N,s:N,s:N}", "name", s->name,
                         "is_list", PyBool_FromLong(s->is_list), "is_optional",
                         PyBool_FromLong(s->is_optional), "is_state",
                         PyBool_FromLong(s->is_state), "takes_rows",
                         PyBool_FromLong(s->takes_rows), "has_gradient",
                         PyBool_FromLong(s->has_gradient));
}

static PyObject *slots_of(const char *name, fl_op_side side, size_t n)
{
    PyObject *list = PyList_New(0);

    for (size_t i = 0; list && i < n; i++) {
        fl_operator_slot s = FL_INIT(fl_operator_slot, .name = NULL);
        fl_status st = fl_operator_slot_at(name, side, i, &s);
        PyObject *item = st ? core_fail(st) : slot_dict(&s);

        if (!item || PyList_Append(list, item))
            Py_CLEAR(list);
        Py_XDECREF(item);
    }
    return list;
}

/* [(name, type, default as text), ...] */
static PyObject *attrs_of(const char *name, size_t n)
{
    PyObject *list = PyList_New(0);

    for (size_t i = 0; list && i < n; i++) {
        fl_operator_attr a = FL_INIT(fl_operator_attr, .name = NULL);
        fl_status st = fl_operator_attr_at(name, i, &a);
        PyObject *item =
            st ? core_fail(st)
               : Py_BuildValue("sis", a.name, (int)a.type, a.value);

        if (!item || PyList_Append(list, item))
            Py_CLEAR(list);
        Py_XDECREF(item);
    }
    return list;
}

static PyObject *operator_look(PyObject *self, PyObject *args)
{
    fl_operator_view v = FL_INIT(fl_operator_view, .name = NULL);
    const char *name;
    fl_status st;

    (void)self;
    if (!PyArg_ParseTuple(args, "s", &name))
        return NULL;
    st = fl_operator_look(name, &v);
    if (st)
        return core_fail(st);
    return Py_BuildValue("{s:s,s:s,s:N,s:N,s:N,s:N,s:N}", "name", v.name, "doc",
                         v.doc, "inputs",
                         slots_of(name, FL_OP_INPUTS, v.n_inputs), "outputs",
                         slots_of(name, FL_OP_OUTPUTS, v.n_outputs), "attrs",
                         attrs_of(name, v.n_attrs), "has_gradient",
                         PyBool_FromLong(v.has_gradient), "has_effect",
                         PyBool_FromLong(v.has_effect));
}

static PyObject *operator_names(PyObject *self, PyObject *args)
{
    fl_operator_view v = FL_INIT(fl_operator_view, .name = NULL);
    PyObject *list;

    (void)self;
    if (!PyArg_ParseTuple(args, ""))
        return NULL;
    list = PyList_New(0);
    for (size_t i = 0; list && !fl_operator_at(i, &v); i++) {
        PyObject *name = PyUnicode_FromString(v.name);

        if (!name || PyList_Append(list, name))
            Py_CLEAR(list);
        Py_XDECREF(name);
    }
    return list;
}

static PyObject *operator_help(PyObject *self, PyObject *args)
{
    const char *name;

    (void)self;
    if (!PyArg_ParseTuple(args, "s", &name))
        return NULL;
    return core_text(fl_operator_help(name));
}

/* --- update rules -------------------------------------------------------- */

/* [(name, default, is_flag), ...] */
static PyObject *rule_settings(const char *kind, size_t n)
{
    PyObject *list = PyList_New(0);

    for (size_t i = 0; list && i < n; i++) {
        fl_optimizer_setting s = FL_INIT(fl_optimizer_setting, .name = NULL);
        fl_status st = fl_optimizer_setting_at(kind, i, &s);
        PyObject *item = st ? core_fail(st)
                            : Py_BuildValue("sdN", s.name, s.value,
                                            PyBool_FromLong(s.is_flag));

        if (!item || PyList_Append(list, item))
            Py_CLEAR(list);
        Py_XDECREF(item);
    }
    return list;
}

static PyObject *state_dict(const fl_optimizer_state_view *s)
{
    return Py_BuildValue("{s:s,s:s,s:s,s:z,s:d,s:N}", "name", s->name, "slot",
                         s->slot, "out_slot", s->out_slot, "first_from",
                         s->first_from, "first", s->first, "is_scalar",
                         PyBool_FromLong(s->is_scalar));
}

static PyObject *rule_states(const char *kind, size_t n)
{
    PyObject *list = PyList_New(0);

    for (size_t i = 0; list && i < n; i++) {
        fl_optimizer_state_view s =
            FL_INIT(fl_optimizer_state_view, .name = NULL);
        fl_status st = fl_optimizer_state_at(kind, i, &s);
        PyObject *item = st ? core_fail(st) : state_dict(&s);

        if (!item || PyList_Append(list, item))
            Py_CLEAR(list);
        Py_XDECREF(item);
    }
    return list;
}

static PyObject *rule_dict(const fl_optimizer_view *v)
{
    return Py_BuildValue("{s:s,s:s,s:N,s:N}", "name", v->name, "doc", v->doc,
                         "settings", rule_settings(v->name, v->n_settings),
                         "states", rule_states(v->name, v->n_states));
}

static PyObject *rules(PyObject *self, PyObject *args)
{
    fl_optimizer_view v = FL_INIT(fl_optimizer_view, .name = NULL);
    PyObject *list;

    (void)self;
    if (!PyArg_ParseTuple(args, ""))
        return NULL;
    list = PyList_New(0);
    for (size_t i = 0; list && !fl_optimizer_at(i, &v); i++) {
        PyObject *item = rule_dict(&v);

        if (!item || PyList_Append(list, item))
            Py_CLEAR(list);
        Py_XDECREF(item);
    }
    return list;
}

/* --- texts --------------------------------------------------------------- */

static PyObject *version_text(PyObject *self, PyObject *args)
{
    (void)self;
    return PyArg_ParseTuple(args, "") ? core_text(fl_version_text()) : NULL;
}

static PyObject *version_number(PyObject *self, PyObject *args)
{
    (void)self;
    return PyArg_ParseTuple(args, "") ? PyLong_FromLong(fl_version()) : NULL;
}

PyMethodDef core_look_methods[] = {
    { "operator_look", operator_look, METH_VARARGS,
      "An operator as a dict: slots, attributes, what it does." },
    { "operator_names", operator_names, METH_VARARGS, "All operators." },
    { "operator_help", operator_help, METH_VARARGS,
      "An operator in words, or None." },
    { "rules", rules, METH_VARARGS,
      "All update rules as dicts: settings and states." },
    { "version_text", version_text, METH_VARARGS, "What is built in." },
    { "version_number", version_number, METH_VARARGS, "10203 is 1.2.3." },
    { NULL, NULL, 0, NULL },
};
