/* io.c - models at rest: saved, loaded, looked into. */
#include "core.h"
#include "flotilla/saved.h"

/* What save and load are asked for. */
typedef struct at_rest {
    fl_executor *e;
    const char *dir, *const *names;
    fl_program *program;
    fl_scope *scope;
    size_t n_names;
} at_rest;

static fl_status save_vars(const at_rest *a)
{
    fl_save_args args = FL_INIT(fl_save_args, .names = a->names,
                                .n_names = a->n_names, .scope = a->scope);

    return fl_save_vars(a->e, a->dir, a->program, &args);
}

static fl_status load_vars(const at_rest *a)
{
    fl_load_args args = FL_INIT(fl_load_args, .names = a->names,
                                .n_names = a->n_names, .scope = a->scope);

    return fl_load_vars(a->e, a->dir, a->program, &args);
}

/* (executor, dir, program, names or None, scope or None) */
static PyObject *with_vars(PyObject *args, fl_status (*fn)(const at_rest *a))
{
    core_memory memory = { 0 };
    fl_status st = FL_OK;
    PyObject *names;
    at_rest a = { 0 };

    if (!PyArg_ParseTuple(args, "O&sO&OO&", core_executor, &a.e, &a.dir,
                          core_program, &a.program, &names, core_scope_or_none,
                          &a.scope))
        return NULL;
    if (names != Py_None)
        a.names = core_names(&memory, names, &a.n_names);
    if (names == Py_None || a.names) {
        CORE_WORK(st, fn(&a));
    }
    core_release(&memory);
    return PyErr_Occurred() ? NULL : core_done(st);
}

static PyObject *save(PyObject *self, PyObject *args)
{
    (void)self;
    return with_vars(args, save_vars);
}

static PyObject *load(PyObject *self, PyObject *args)
{
    (void)self;
    return with_vars(args, load_vars);
}

/* save_inference(executor, dir, feeds, targets, program, scope or None) */
static PyObject *save_inference(PyObject *self, PyObject *args)
{
    fl_inference_args a = FL_INIT(fl_inference_args, .keep = 0);
    core_memory memory = { 0 };
    PyObject *feeds, *targets;
    const char *dir;
    fl_executor *e;
    fl_status st = FL_OK;

    (void)self;
    if (!PyArg_ParseTuple(args, "O&sOOO&O&", core_executor, &e, &dir, &feeds,
                          &targets, core_program, &a.program,
                          core_scope_or_none, &a.scope))
        return NULL;
    a.feeds = core_names(&memory, feeds, &a.n_feeds);
    a.targets = a.feeds ? core_names(&memory, targets, &a.n_targets) : NULL;
    if (a.targets) {
        CORE_WORK(st, fl_save_inference_model_with(e, dir, &a));
    }
    core_release(&memory);
    return PyErr_Occurred() ? NULL : core_done(st);
}

/* --- looking ------------------------------------------------------------- */

static PyObject *name_list(const fl_saved *s,
                           const char *(*at)(const fl_saved *, size_t))
{
    PyObject *list = PyList_New(0);
    const char *name;

    for (size_t i = 0; list && (name = at(s, i)); i++) {
        PyObject *text = PyUnicode_FromString(name);

        if (!text || PyList_Append(list, text))
            Py_CLEAR(list);
        Py_XDECREF(text);
    }
    return list;
}

/* Dense variables and tables. */
static const char *variable_at(const fl_saved *s, size_t i)
{
    fl_saved_view v = FL_INIT(fl_saved_view, .id = NULL);
    fl_saved_table table = FL_INIT(fl_saved_table, .name = NULL);
    const char *name;
    fl_tensor t;

    if (!fl_saved_tensor(s, i, &name, &t))
        return name;
    if (fl_saved_look(s, &v) || fl_saved_table_at(s, i - v.n_tensors, &table))
        return NULL;
    return table.name;
}

/* {name: Tensor} of the dense variables. */
static PyObject *tensors(const fl_saved *s)
{
    PyObject *dict = PyDict_New();
    const char *name;
    fl_tensor t;

    for (size_t i = 0; dict && !fl_saved_tensor(s, i, &name, &t); i++) {
        PyObject *copy = core_tensor_copy(&t);

        if (!copy || PyDict_SetItemString(dict, name, copy))
            Py_CLEAR(dict);
        Py_XDECREF(copy);
    }
    return dict;
}

/* {name: settings} of the tables. */
static PyObject *tables(const fl_saved *s)
{
    fl_saved_table t = FL_INIT(fl_saved_table, .name = NULL);
    PyObject *dict = PyDict_New();

    for (size_t i = 0; dict && !fl_saved_table_at(s, i, &t); i++) {
        PyObject *settings = PyUnicode_FromString(t.settings);

        if (!settings || PyDict_SetItemString(dict, t.name, settings))
            Py_CLEAR(dict);
        Py_XDECREF(settings);
    }
    return dict;
}

static PyObject *saved_dict(const fl_saved *s)
{
    fl_saved_view v = FL_INIT(fl_saved_view, .id = NULL);
    fl_status st = fl_saved_look(s, &v);

    if (st)
        return core_fail(st);
    return Py_BuildValue("{s:s,s:s,s:K,s:N,s:N,s:N,s:N,s:N}", "id", v.id,
                         "kind", v.kind, "step", (unsigned long long)v.step,
                         "program", core_text(fl_saved_text(s, "program.txt")),
                         "feeds", name_list(s, fl_saved_feed), "targets",
                         name_list(s, fl_saved_target), "names",
                         name_list(s, variable_at), "tables", tables(s));
}

/* saved(ctx, dir, with_tensors): what a saved model is, as a dict. */
static PyObject *saved(PyObject *self, PyObject *args)
{
    PyObject *dict, *values = NULL;
    const char *dir;
    fl_saved *s;
    fl_ctx *c;
    fl_status st;
    int with_tensors;

    (void)self;
    if (!PyArg_ParseTuple(args, "O&sp", core_ctx, &c, &dir, &with_tensors))
        return NULL;
    st = fl_saved_open(&s, c, dir);
    if (st)
        return core_fail(st);
    dict = saved_dict(s);
    if (dict && with_tensors) {
        values = tensors(s);
        if (!values || PyDict_SetItemString(dict, "tensors", values))
            Py_CLEAR(dict);
        Py_XDECREF(values);
    }
    fl_saved_close(s);
    return dict;
}

/* import_paddle(ctx, from, dir, file of the program or None, file of all
   variables or None) */
static PyObject *import_paddle(PyObject *self, PyObject *args)
{
    fl_import_args a = FL_INIT(fl_import_args, .n_names = 0);
    const char *from, *dir;
    fl_ctx *c;
    fl_status st;

    (void)self;
    if (!PyArg_ParseTuple(args, "O&sszz", core_ctx, &c, &from, &dir, &a.program,
                          &a.params))
        return NULL;
    CORE_WORK(st, fl_import_paddle(c, from, dir, &a));
    return core_done(st);
}

PyMethodDef core_io_methods[] = {
    { "save", save, METH_VARARGS, "Saves persistent variables." },
    { "load", load, METH_VARARGS, "Loads them." },
    { "save_inference", save_inference, METH_VARARGS,
      "Saves what predictions need." },
    { "import_paddle", import_paddle, METH_VARARGS,
      "Makes a model of what PaddlePaddle 1.8 saved." },
    { "saved", saved, METH_VARARGS, "What a saved model is." },
    { NULL, NULL, 0, NULL },
};
