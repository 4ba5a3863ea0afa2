/* judge.c - measures by name, of samples that a script has. */
#include "core.h"

static PyObject *judge_new(PyObject *self, PyObject *args)
{
    const char *metrics;
    fl_judge *j;
    fl_status st;

    (void)self;
    if (!PyArg_ParseTuple(args, "s", &metrics))
        return NULL;
    st = fl_judge_new(&j, metrics);
    return st ? core_fail(st) : core_handle(CORE_judge, j, NULL, true);
}

static PyObject *judge_keys(PyObject *self, PyObject *args)
{
    PyObject *list = PyList_New(0);
    const char *key;
    fl_judge *j;

    (void)self;
    if (!list || !PyArg_ParseTuple(args, "O&", core_judge, &j)) {
        Py_XDECREF(list);
        return NULL;
    }
    for (size_t i = 0; list && (key = fl_judge_key(j, i)); i++) {
        PyObject *name = PyUnicode_FromString(key);

        if (!name || PyList_Append(list, name))
            Py_CLEAR(list);
        Py_XDECREF(name);
    }
    return list;
}

/* A batch: the views stay until it is taken in. */
typedef struct batch {
    core_memory memory;
    core_view *views;
    size_t n_views;
    const float *scores, *labels;
    const uint64_t **keys;
    size_t n;
} batch;

static void drop_batch(batch *b)
{
    while (b->n_views)
        core_drop_view(&b->views[--b->n_views]);
    core_release(&b->memory);
}

/* One value for each sample, of a type; NULL with an exception set. */
static const void *read_column(batch *b, PyObject *o, fl_dtype dtype)
{
    fl_tensor t;

    if (core_view_of(o, &b->views[b->n_views], &t))
        return NULL;
    if (!b->n_views++)
        b->n = (size_t)fl_tensor_numel(&t);
    if (t.dtype == dtype && (size_t)fl_tensor_numel(&t) == b->n)
        return t.data;
    PyErr_Format(PyExc_ValueError, "%zu samples, but a column of %zd values",
                 b->n, (Py_ssize_t)fl_tensor_numel(&t));
    return NULL;
}

static int read_batch(batch *b, PyObject *scores, PyObject *labels,
                      PyObject *keys)
{
    Py_ssize_t n = PyList_Size(keys);

    if (n < 0)
        return -1;
    b->views = core_alloc(&b->memory, (size_t)n + 2, sizeof(*b->views));
    b->keys = core_alloc(&b->memory, (size_t)n + 1, sizeof(*b->keys));
    if (!b->views || !b->keys)
        return -1;
    b->scores = read_column(b, scores, FL_DTYPE_F32);
    b->labels = b->scores ? read_column(b, labels, FL_DTYPE_F32) : NULL;
    if (!b->labels)
        return -1;
    for (Py_ssize_t i = 0; i < n; i++) {
        b->keys[i] = read_column(b, PyList_GetItem(keys, i), FL_DTYPE_I64);
        if (!b->keys[i])
            return -1;
    }
    return 0;
}

/* judge_add(judge, scores, labels, [values of each key]): f32, f32 and i64 */
static PyObject *judge_add(PyObject *self, PyObject *args)
{
    PyObject *scores, *labels, *keys, *result = NULL;
    batch b = { 0 };
    fl_judge *j;

    (void)self;
    if (!PyArg_ParseTuple(args, "O&OOO", core_judge, &j, &scores, &labels,
                          &keys))
        return NULL;
    if (!read_batch(&b, scores, labels, keys))
        result = core_done(fl_judge_add(j, b.scores, b.labels, b.keys, b.n));
    drop_batch(&b);
    return result;
}

static PyObject *values_of(const fl_judge *j)
{
    PyObject *values = PyDict_New();

    for (size_t i = 0; values && i < fl_judge_count(j); i++) {
        PyObject *value = PyFloat_FromDouble(fl_judge_value(j, i));

        if (!value || PyDict_SetItemString(values, fl_judge_name(j, i), value))
            Py_CLEAR(values);
        Py_XDECREF(value);
    }
    return values;
}

/* judge_finish(judge, fleet or None): values by name */
static PyObject *judge_finish(PyObject *self, PyObject *args)
{
    fl_fleet *f;
    fl_judge *j;
    fl_status st;

    (void)self;
    if (!PyArg_ParseTuple(args, "O&O&", core_judge, &j, core_fleet_or_none, &f))
        return NULL;
    CORE_WORK(st, fl_judge_finish(j, f));
    return st ? core_fail(st) : values_of(j);
}

PyMethodDef core_judge_methods[] = {
    METHOD(judge_new, "Measures, by a list of their names."),
    METHOD(judge_keys, "What samples are grouped by, in order."),
    METHOD(judge_add, "Takes samples in."),
    METHOD(judge_finish, "The measures of all samples, by name."),
    { NULL, NULL, 0, NULL },
};
