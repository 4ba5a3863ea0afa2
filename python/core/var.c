/* var.c - variables of a block. */
#include "core.h"

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

#define KEYWORDS(fn) ((PyCFunction)(void (*)(void))(fn))

PyMethodDef core_var_methods[] = {
    { "var_new", KEYWORDS(var_new), METH_VARARGS | METH_KEYWORDS,
      "A new variable." },
    { "var_change", KEYWORDS(var_change), METH_VARARGS | METH_KEYWORDS,
      "Changes what it is." },
    METHOD(var_look, "What it is, as a dict."),
    METHOD(var_name, "Its name."),
    METHOD(var_block, "The number of its block."),
    METHOD(var_rename, "Gives it another name."),
    METHOD(var_remove, "Takes it out of its block."),
    { NULL, NULL, 0, NULL },
};
