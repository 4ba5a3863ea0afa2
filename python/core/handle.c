/* handle.c - one Python type for all handles of the library. */
#include "core.h"

typedef struct handle {
    PyObject_HEAD core_kind kind;
    bool owned;
    void *ptr;
    PyObject *owner; /* must outlive it; or NULL */
    PyObject *also;  /* this, too */
} handle;

static PyTypeObject *handle_type;

static const char *const kind_names[] = {
#define X(name, type, free_fn) #name,
    CORE_KINDS(X)
#undef X
};

static void free_ptr(core_kind kind, void *ptr)
{
    switch (kind) {
#define X(name, type, free_fn)                                                 \
    case CORE_##name: {                                                        \
        void (*fn)(type *) = free_fn;                                          \
        if (fn)                                                                \
            fn(ptr);                                                           \
        break;                                                                 \
    }
        CORE_KINDS(X)
#undef X
    }
}

static void handle_dealloc(PyObject *o)
{
    handle *h = (handle *)o;
    PyTypeObject *type = Py_TYPE(o);
    freefunc free_object = (freefunc)PyType_GetSlot(type, Py_tp_free);

    if (h->owned && !fl_is_cut_off())
        free_ptr(h->kind, h->ptr);
    Py_XDECREF(h->also);
    Py_XDECREF(h->owner);
    free_object(o);
    Py_DECREF(type);
}

static PyObject *handle_repr(PyObject *o)
{
    const handle *h = (const handle *)o;

    return PyUnicode_FromFormat("<%s at %p>", kind_names[h->kind], h->ptr);
}

static Py_hash_t handle_hash(PyObject *o)
{
    Py_hash_t h = (Py_hash_t)((uintptr_t)((const handle *)o)->ptr >> 4);

    return h == -1 ? -2 : h;
}

static PyObject *handle_compare(PyObject *a, PyObject *b, int how)
{
    bool same;

    if (Py_TYPE(b) != handle_type || (how != Py_EQ && how != Py_NE))
        Py_RETURN_NOTIMPLEMENTED;
    same = ((handle *)a)->ptr == ((handle *)b)->ptr;
    return PyBool_FromLong(same == (how == Py_EQ));
}

static PyType_Slot slots[] = {
    { Py_tp_dealloc, handle_dealloc },
    { Py_tp_repr, handle_repr },
    { Py_tp_hash, handle_hash },
    { Py_tp_richcompare, handle_compare },
    { Py_tp_doc, "A handle of the library; equal ones are the same object." },
    { 0, NULL },
};

static PyType_Spec spec = { .name = "flotilla._core.Handle",
                            .basicsize = sizeof(handle),
                            .flags = Py_TPFLAGS_DEFAULT,
                            .slots = slots };

PyObject *core_handle(core_kind kind, void *ptr, PyObject *owner, bool owned)
{
    handle *h;

    if (!ptr)
        Py_RETURN_NONE;
    h = PyObject_New(handle, handle_type);
    if (!h) {
        if (owned)
            free_ptr(kind, ptr);
        return NULL;
    }
    h->kind = kind;
    h->owned = owned;
    h->ptr = ptr;
    h->owner = owner;
    h->also = NULL;
    Py_XINCREF(owner);
    return (PyObject *)h;
}

PyObject *core_hold(PyObject *o, PyObject *also)
{
    handle *h = (handle *)o;

    if (h) {
        Py_INCREF(also);
        Py_XDECREF(h->also);
        h->also = also;
    }
    return o;
}

PyObject *core_owner(PyObject *o)
{
    return ((handle *)o)->owner;
}

static int convert(PyObject *o, core_kind kind, void **out)
{
    handle *h = (handle *)o;

    if (Py_TYPE(o) != handle_type || h->kind != kind) {
        PyErr_Format(PyExc_TypeError, "a handle of a %s is wanted, not %R",
                     kind_names[kind], o);
        return 0;
    }
    *out = h->ptr;
    return 1;
}

#define X(name, type, free_fn)                                                 \
    int core_##name(PyObject *o, type **out)                                   \
    {                                                                          \
        return convert(o, CORE_##name, (void **)out);                          \
    }                                                                          \
    int core_##name##_or_none(PyObject *o, type **out)                         \
    {                                                                          \
        *out = NULL;                                                           \
        return o == Py_None || core_##name(o, out);                            \
    }
CORE_KINDS(X)
#undef X

int core_add_handle(PyObject *module)
{
    handle_type = (PyTypeObject *)PyType_FromSpec(&spec);
    if (!handle_type)
        return -1;
    Py_INCREF(handle_type);
    return PyModule_AddObject(module, "Handle", (PyObject *)handle_type);
}
