/* module.c - the module flotilla._core: errors, texts, and its table of
 * functions. */
#include <string.h>

#include "core.h"

/* --- errors -------------------------------------------------------------- */

static PyObject *error_base;

/* The Python class of each status: a subclass of flotilla's Error and of what
   a Python programmer expects. */
typedef struct error_class {
    fl_status status;
    const char *name;
    PyObject **also;
    PyObject *type;
} error_class;

static error_class classes[] = {
    { FL_ERR_INVAL, "flotilla.InvalidError", &PyExc_ValueError, NULL },
    { FL_ERR_NOMEM, "flotilla.NoMemoryError", &PyExc_MemoryError, NULL },
    { FL_ERR_IO, "flotilla.FileError", &PyExc_OSError, NULL },
    { FL_ERR_CORRUPT, "flotilla.CorruptError", &PyExc_ValueError, NULL },
    { FL_ERR_NOTFOUND, "flotilla.NotFoundError", &PyExc_LookupError, NULL },
    { FL_ERR_TIMEOUT, "flotilla.TimedOutError", &PyExc_TimeoutError, NULL },
    { FL_ERR_CLOSED, "flotilla.ClosedError", &PyExc_ConnectionError, NULL },
    { FL_ERR_NUMERIC, "flotilla.NumericError", &PyExc_ArithmeticError, NULL },
    { FL_ERR_EXISTS, "flotilla.ExistsError", &PyExc_ValueError, NULL },
    { FL_ERR_BUSY, "flotilla.BusyError", &PyExc_RuntimeError, NULL },
    { FL_ERR_UNSUPPORTED, "flotilla.UnsupportedError",
      &PyExc_NotImplementedError, NULL },
    { FL_ERR_TYPE, "flotilla.WrongTypeError", &PyExc_TypeError, NULL },
};

#define N_CLASSES (sizeof classes / sizeof *classes)

/* Where in a program it happened, as attributes of the exception. */
static int set_place(PyObject *error)
{
    fl_error_place p = FL_INIT(fl_error_place, .op_tag = 0);
    PyObject *fields;
    PyObject *key, *value;
    Py_ssize_t at = 0;
    int bad = 0;

    (void)fl_last_error_place(&p);
    fields = Py_BuildValue("{s:K,s:z,s:K,s:z,s:O}", "op_tag",
                           (unsigned long long)p.op_tag, "op", p.op, "var_tag",
                           (unsigned long long)p.var_tag, "var", p.var,
                           "is_feed", p.is_feed ? Py_True : Py_False);
    if (!fields)
        return -1;
    while (!bad && PyDict_Next(fields, &at, &key, &value))
        bad = PyObject_SetAttr(error, key, value);
    Py_DECREF(fields);
    return bad;
}

PyObject *core_fail(fl_status st)
{
    PyObject *type = error_base, *error;

    /* What Ctrl-C has ended. */
    if (st == FL_ERR_CLOSED && (PyErr_Occurred() || PyErr_CheckSignals()))
        return NULL;
    if (core_restore_exception())
        return NULL;

    for (size_t i = 0; i < N_CLASSES; i++) {
        if (classes[i].status == st)
            type = classes[i].type;
    }
    error = PyObject_CallFunction(type, "s", fl_last_error());
    if (error && !set_place(error))
        PyErr_SetObject(type, error);
    Py_XDECREF(error);
    return NULL;
}

PyObject *core_done(fl_status st)
{
    if (st)
        return core_fail(st);
    Py_RETURN_NONE;
}

static int add_class(PyObject *module, error_class *c)
{
    PyObject *bases = PyTuple_Pack(2, error_base, *c->also);

    if (!bases)
        return -1;
    c->type = PyErr_NewException(c->name, bases, NULL);
    Py_DECREF(bases);
    if (!c->type)
        return -1;
    Py_INCREF(c->type);
    return PyModule_AddObject(module, strchr(c->name, '.') + 1, c->type);
}

int core_add_errors(PyObject *module)
{
    error_base = PyErr_NewExceptionWithDoc(
        "flotilla.Error", "What the library says.", NULL, NULL);
    if (!error_base)
        return -1;
    Py_INCREF(error_base);
    if (PyModule_AddObject(module, "Error", error_base))
        return -1;
    for (size_t i = 0; i < N_CLASSES; i++) {
        if (add_class(module, &classes[i]))
            return -1;
    }
    return 0;
}

/* --- memory and texts ---------------------------------------------------- */

struct core_piece {
    struct core_piece *next;
    max_align_t data[];
};

void *core_alloc(core_memory *m, size_t n, size_t bytes)
{
    size_t all = sizeof(struct core_piece) + n * bytes;
    struct core_piece *p = PyMem_Malloc(all);

    if (!p)
        return PyErr_NoMemory();
    memset(p, 0, all); /* PyMem_Calloc is not part of the stable ABI of 3.8 */
    p->next = m->pieces;
    m->pieces = p;
    return p->data;
}

void core_release(core_memory *m)
{
    for (struct core_piece *p = m->pieces, *next; p; p = next) {
        next = p->next;
        PyMem_Free(p);
    }
    m->pieces = NULL;
}

const char **core_names(core_memory *m, PyObject *o, size_t *n)
{
    Py_ssize_t len = o == Py_None ? 0 : PySequence_Length(o);
    const char **names;

    *n = 0;
    if (len < 0)
        return NULL;
    names = core_alloc(m, (size_t)len + 1, sizeof *names);
    for (Py_ssize_t i = 0; names && i < len; i++) {
        PyObject *item = PySequence_GetItem(o, i);

        names[i] = item ? PyUnicode_AsUTF8AndSize(item, NULL) : NULL;
        Py_XDECREF(item); /* the sequence has it */
        if (!names[i])
            return NULL;
    }
    *n = (size_t)len;
    return names;
}

/* Numbers of one C type out of a sequence: both lists are read alike. */
#define READ_LIST(name, type, convert)                                         \
    type *name(core_memory *m, PyObject *o, size_t *n)                         \
    {                                                                          \
        Py_ssize_t len = PySequence_Length(o);                                 \
        type *list =                                                           \
            len < 0 ? NULL : core_alloc(m, (size_t)len + 1, sizeof *list);     \
                                                                               \
        for (Py_ssize_t i = 0; list && i < len; i++) {                         \
            PyObject *item = PySequence_GetItem(o, i);                         \
                                                                               \
            list[i] = item ? convert(item) : 0;                                \
            Py_XDECREF(item);                                                  \
            if (PyErr_Occurred())                                              \
                return NULL;                                                   \
        }                                                                      \
        *n = list ? (size_t)len : 0;                                           \
        return list;                                                           \
    }
READ_LIST(core_ints, int64_t, PyLong_AsLongLong)
READ_LIST(core_floats, double, PyFloat_AsDouble)

PyObject *core_text(char *text)
{
    PyObject *o;

    if (!text)
        Py_RETURN_NONE;
    o = PyUnicode_FromString(text);
    fl_text_free(text);
    return o;
}

/* --- the module ---------------------------------------------------------- */

static struct PyModuleDef definition = {
    PyModuleDef_HEAD_INIT,
    .m_name = "flotilla._core",
    .m_doc = "Handles and functions of libflotilla.",
    .m_size = -1,
};

static int fill(PyObject *module)
{
    PyMethodDef *const tables[] = {
        core_ir_methods,       core_var_methods,   core_op_methods,
        core_look_methods,     core_scope_methods, core_run_methods,
        core_io_methods,       core_data_methods,  core_fleet_methods,
        core_profile_methods,  core_table_methods, core_predict_methods,
        core_features_methods, core_judge_methods, core_func_methods
    };

    for (size_t i = 0; i < sizeof tables / sizeof *tables; i++) {
        if (PyModule_AddFunctions(module, tables[i]))
            return -1;
    }
    if (core_add_errors(module) || core_add_handle(module) || core_add_watch())
        return -1;
    return core_add_tensor(module);
}

/* Named in the export list by hand: headers of 3.8 hide PyMODINIT_FUNC where
   symbols are hidden by default. */
FL_API PyObject *PyInit__core(void);

PyObject *PyInit__core(void)
{
    PyObject *module = PyModule_Create(&definition);

    if (module && fill(module)) {
        Py_DECREF(module);
        return NULL;
    }
    return module;
}
