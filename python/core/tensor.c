/* tensor.c - values: arrays of others without a copy, and tensors of our own.
 *
 * A Tensor is dense, ragged (with offsets), rows of a table or an array of
 * these. It owns its memory, or holds on to whose it is, and numpy sees it
 * through __array_interface__.
 */
#include <string.h>

#include "core.h"

typedef struct tensor {
    PyObject_HEAD fl_tensor value; /* all that it points to is in memory */
    void *memory;
    PyObject *held; /* a tuple of views of others' memory; NULL: its own */
    fl_mem *kept;   /* instead of memory; or NULL */
} tensor;

static PyTypeObject *tensor_type;
static PyObject *numpy_empty, *numpy_asarray;

/* --- types --------------------------------------------------------------- */

/* By fl_dtype: the letters of the buffer protocol that mean it, and how
   __array_interface__ spells it. */
static const struct {
    const char *formats, *typestr;
} types[] = {
    [FL_DTYPE_F32] = { "f", "<f4" },  [FL_DTYPE_F64] = { "d", "<f8" },
    [FL_DTYPE_I32] = { "il", "<i4" }, [FL_DTYPE_I64] = { "lq", "<i8" },
    [FL_DTYPE_U64] = { "LQ", "<u8" }, [FL_DTYPE_U8] = { "B", "|u1" },
    [FL_DTYPE_BOOL] = { "?", "|b1" }, [FL_DTYPE_F16] = { "e", "<f2" },
    [FL_DTYPE_I8] = { "b", "|i1" },   [FL_DTYPE_I16] = { "h", "<i2" },
};

#define N_TYPES (sizeof types / sizeof *types)

/* "l" is 4 or 8 bytes wide: the size decides. */
static bool find_type(const char *format, Py_ssize_t itemsize, fl_dtype *out)
{
    char letter = format ? *format : 'B';

    if (letter == '=' || letter == '<' || letter == '@')
        letter = *++format;
    for (size_t i = 0; i < N_TYPES; i++) {
        if (letter && strchr(types[i].formats, letter) &&
            fl_dtype_bytes((fl_dtype)i) == (size_t)itemsize) {
            *out = (fl_dtype)i;
            return true;
        }
    }
    return false;
}

/* --- views of what others have ------------------------------------------- */

static int view_buffer(PyObject *o, core_view *view, fl_tensor *out)
{
    const Py_buffer *b = &view->buffer;
    int64_t dims[FL_RANK_MAX];
    fl_dtype dtype;

    if (PyObject_GetBuffer(o, &view->buffer, PyBUF_C_CONTIGUOUS | PyBUF_FORMAT))
        return -1;
    view->has_buffer = true;
    if (!find_type(b->format, b->itemsize, &dtype)) {
        PyErr_Format(PyExc_TypeError,
                     "numbers of type '%s' cannot be fed: cast to float32, "
                     "float64, float16, int8, int16, int32, int64, uint64, "
                     "uint8 or bool",
                     b->format ? b->format : "B");
        return -1;
    }
    if (b->ndim > FL_RANK_MAX) {
        PyErr_Format(PyExc_ValueError,
                     "an array of %d dimensions; at most %d are possible",
                     b->ndim, FL_RANK_MAX);
        return -1;
    }
    for (int i = 0; i < b->ndim; i++)
        dims[i] = b->shape[i];
    *out = fl_tensor_of(dtype, b->buf, b->ndim, dims);
    return 0;
}

int core_view_of(PyObject *o, core_view *view, fl_tensor *out)
{
    view->has_buffer = false;
    if (Py_TYPE(o) != tensor_type)
        return view_buffer(o, view, out);
    *out = ((tensor *)o)->value;
    return 0;
}

void core_drop_view(core_view *view)
{
    if (view->has_buffer)
        PyBuffer_Release(&view->buffer);
    view->has_buffer = false;
}

/* --- copies -------------------------------------------------------------- */

PyObject *core_tensor_copy(const fl_tensor *t)
{
    size_t bytes = fl_tensor_packed_bytes(t);
    tensor *copy = PyObject_New(tensor, tensor_type);

    if (!copy)
        return NULL;
    copy->held = NULL;
    copy->kept = NULL;
    copy->memory = PyMem_Malloc(bytes ? bytes : 1);
    if (!copy->memory) {
        Py_DECREF(copy);
        return PyErr_NoMemory();
    }
    copy->value = fl_tensor_pack(t, copy->memory);
    return (PyObject *)copy;
}

static PyObject *shape_of(const fl_tensor *t)
{
    PyObject *shape = PyTuple_New(t->shape.rank);

    for (int i = 0; shape && i < t->shape.rank; i++) {
        PyObject *n = PyLong_FromLongLong(t->shape.dim[i]);

        if (!n || PyTuple_SetItem(shape, i, n))
            Py_CLEAR(shape);
    }
    return shape;
}

/* A list of what `copy` makes of the values of an array. */
static PyObject *copy_items(const fl_tensor *t,
                            PyObject *(*copy)(const fl_tensor *))
{
    const fl_tensor *items = t->data;
    PyObject *list = PyList_New((Py_ssize_t)t->shape.dim[0]);

    for (int64_t i = 0; list && i < t->shape.dim[0]; i++) {
        PyObject *item = copy(&items[i]);

        if (!item || PyList_SetItem(list, (Py_ssize_t)i, item))
            Py_CLEAR(list);
    }
    return list;
}

PyObject *core_array_copy(const fl_tensor *t)
{
    PyObject *shape, *array;
    Py_buffer b;

    if (t->kind == FL_KIND_ARRAY)
        return copy_items(t, core_array_copy);
    shape = shape_of(t);
    if (!shape)
        return NULL;
    array = PyObject_CallFunction(numpy_empty, "Ns", shape,
                                  types[t->dtype].typestr);
    if (!array ||
        PyObject_GetBuffer(array, &b, PyBUF_C_CONTIGUOUS | PyBUF_WRITABLE)) {
        Py_XDECREF(array);
        return NULL;
    }
    if (b.len)
        memcpy(b.buf, t->data, (size_t)b.len);
    PyBuffer_Release(&b);
    return array;
}

PyObject *core_tensor_keep(const fl_tensor *t, fl_mem *memory)
{
    tensor *kept = PyObject_New(tensor, tensor_type);

    if (!kept) {
        fl_mem_release(memory);
        return NULL;
    }
    kept->value = *t;
    kept->value.n_lod = 0;
    kept->memory = NULL;
    kept->held = NULL;
    kept->kept = memory;
    return (PyObject *)kept;
}

PyObject *core_array_keep(const fl_tensor *t, fl_mem *memory)
{
    PyObject *kept = core_tensor_keep(t, memory);
    PyObject *array =
        kept ? PyObject_CallFunctionObjArgs(numpy_asarray, kept, NULL) : NULL;

    Py_XDECREF(kept);
    return array;
}

/* --- the type ------------------------------------------------------------ */

static void tensor_dealloc(PyObject *o)
{
    PyTypeObject *type = Py_TYPE(o);
    freefunc free_object = (freefunc)PyType_GetSlot(type, Py_tp_free);

    PyMem_Free(((tensor *)o)->memory);
    Py_XDECREF(((tensor *)o)->held);
    fl_mem_release(((tensor *)o)->kept);
    free_object(o);
    Py_DECREF(type);
}

static PyObject *get_interface(PyObject *o, void *unused)
{
    const fl_tensor *t = &((tensor *)o)->value;
    PyObject *shape;

    (void)unused;
    if (t->kind == FL_KIND_ARRAY)
        return PyErr_Format(PyExc_AttributeError,
                            "an array has values (items), not numbers");
    shape = shape_of(t);
    if (!shape)
        return NULL;
    return Py_BuildValue("{s:N,s:s,s:(NO),s:i}", "shape", shape, "typestr",
                         types[t->dtype].typestr, "data",
                         PyLong_FromVoidPtr(t->data), Py_False, "version", 3);
}

static PyObject *get_shape(PyObject *o, void *unused)
{
    (void)unused;
    return shape_of(&((tensor *)o)->value);
}

static PyObject *get_dtype(PyObject *o, void *unused)
{
    (void)unused;
    return PyLong_FromLong((long)((tensor *)o)->value.dtype);
}

static PyObject *list_of_offsets(const int64_t *offsets, int64_t n)
{
    PyObject *list = PyList_New((Py_ssize_t)n);

    for (int64_t i = 0; list && i < n; i++) {
        PyObject *item = PyLong_FromLongLong(offsets[i]);

        if (!item || PyList_SetItem(list, (Py_ssize_t)i, item))
            Py_CLEAR(list);
    }
    return list;
}

/* Levels of offsets, as Fluid's lod(). */
static PyObject *get_lod(PyObject *o, void *unused)
{
    const fl_tensor *t = &((tensor *)o)->value;
    PyObject *levels = PyList_New(t->n_lod);

    (void)unused;
    for (int k = 0; levels && k < t->n_lod; k++) {
        PyObject *level = list_of_offsets(t->lod[k], t->lod_len[k]);

        if (!level || PyList_SetItem(levels, k, level))
            Py_CLEAR(levels);
    }
    return levels;
}

/* The table rows of a sparse value; None of another kind. */
static PyObject *get_rows(PyObject *o, void *unused)
{
    const fl_tensor *t = &((tensor *)o)->value;
    PyObject *list;

    (void)unused;
    if (t->kind != FL_KIND_ROWS)
        Py_RETURN_NONE;
    list = PyList_New((Py_ssize_t)t->shape.dim[0]);
    for (int64_t i = 0; list && i < t->shape.dim[0]; i++) {
        PyObject *item = PyLong_FromUnsignedLongLong(t->rows[i]);

        if (!item || PyList_SetItem(list, (Py_ssize_t)i, item))
            Py_CLEAR(list);
    }
    return list;
}

static PyObject *get_height(PyObject *o, void *unused)
{
    (void)unused;
    return PyLong_FromLongLong(((tensor *)o)->value.height);
}

/* The values of an array, each a Tensor; None of another kind. */
static PyObject *get_items(PyObject *o, void *unused)
{
    const fl_tensor *t = &((tensor *)o)->value;

    (void)unused;
    if (t->kind != FL_KIND_ARRAY)
        Py_RETURN_NONE;
    return copy_items(t, core_tensor_copy);
}

static PyGetSetDef tensor_fields[] = {
    { "__array_interface__", get_interface, NULL, "for numpy", NULL },
    { "shape", get_shape, NULL, "dimensions", NULL },
    { "dtype", get_dtype, NULL, "number of the type", NULL },
    { "lod", get_lod, NULL, "levels of offsets", NULL },
    { "rows", get_rows, NULL, "table rows of a sparse value, or None", NULL },
    { "height", get_height, NULL, "rows of the table", NULL },
    { "items", get_items, NULL, "values of an array, or None", NULL },
    { NULL, NULL, NULL, NULL, NULL },
};

static PyType_Slot slots[] = {
    { Py_tp_dealloc, tensor_dealloc },
    { Py_tp_getset, tensor_fields },
    { Py_tp_doc, "A value that owns its memory, or borrows it." },
    { 0, NULL },
};

static PyType_Spec spec = { .name = "flotilla._core.Tensor",
                            .basicsize = sizeof(tensor),
                            .flags = Py_TPFLAGS_DEFAULT,
                            .slots = slots };

/* --- making one ---------------------------------------------------------- */

static int read_level(core_memory *m, PyObject *o, const int64_t **out,
                      int64_t *len)
{
    size_t n;

    *out = core_ints(m, o, &n);
    *len = (int64_t)n;
    return *out ? 0 : -1;
}

static int read_levels(core_memory *m, PyObject *o, fl_tensor *t)
{
    Py_ssize_t n = PySequence_Length(o);

    if (n < 0)
        return -1;
    if (n > FL_LOD_MAX) {
        PyErr_Format(PyExc_ValueError,
                     "%zd levels of offsets; at most %d are possible", n,
                     FL_LOD_MAX);
        return -1;
    }
    for (Py_ssize_t k = 0; k < n; k++) {
        PyObject *level = PySequence_GetItem(o, k);
        int bad = !level || read_level(m, level, &t->lod[k], &t->lod_len[k]);

        Py_XDECREF(level);
        if (bad)
            return -1;
    }
    t->n_lod = (int)n;
    if (n)
        t->kind = FL_KIND_RAGGED;
    return 0;
}

static int read_rows(core_memory *m, PyObject *o, int64_t height, fl_tensor *t)
{
    const int64_t *rows;
    int64_t n;

    if (read_level(m, o, &rows, &n))
        return -1;
    if (t->shape.rank < 1 || n != t->shape.dim[0]) {
        PyErr_Format(PyExc_ValueError, "%lld rows are named for %lld values",
                     (long long)n,
                     (long long)(t->shape.rank ? t->shape.dim[0] : 0));
        return -1;
    }
    t->kind = FL_KIND_ROWS;
    t->rows = (uint64_t *)rows;
    t->height = height;
    return 0;
}

/* tensor(array, lod, rows or None, height): a Tensor with copies. */
static PyObject *tensor_new(PyObject *self, PyObject *args)
{
    PyObject *array, *lod, *rows, *result = NULL;
    core_memory memory = { 0 };
    core_view view;
    fl_tensor t;
    long long height;

    (void)self;
    if (!PyArg_ParseTuple(args, "OOOL", &array, &lod, &rows, &height))
        return NULL;
    if (!core_view_of(array, &view, &t) && !read_levels(&memory, lod, &t) &&
        (rows == Py_None || !read_rows(&memory, rows, height, &t)))
        result = core_tensor_copy(&t);
    core_drop_view(&view);
    core_release(&memory);
    return result;
}

/* Adds a view of what `o` has to the tuple, which keeps it where it is, and
   gives it as a tensor. */
static int hold(PyObject *tuple, Py_ssize_t i, PyObject *o, fl_tensor *out)
{
    PyObject *keeper = PyMemoryView_FromObject(o);
    core_view view;
    int bad;

    if (!keeper || PyTuple_SetItem(tuple, i, keeper))
        return -1;
    bad = core_view_of(keeper, &view, out);
    core_drop_view(&view);
    return bad;
}

/* Offsets of a level, outermost first: int64 numbers in a row. */
static int hold_level(PyObject *held, int k, PyObject *o, fl_tensor *t)
{
    fl_tensor level;

    if (!o || hold(held, k + 1, o, &level))
        return -1;
    if (level.dtype != FL_DTYPE_I64 || level.shape.rank != 1) {
        PyErr_Format(PyExc_TypeError, "offsets are one row of int64");
        return -1;
    }
    t->lod[k] = level.data;
    t->lod_len[k] = level.shape.dim[0];
    return 0;
}

static int hold_all(PyObject *held, PyObject *array, PyObject *levels,
                    fl_tensor *t)
{
    Py_ssize_t n = PyTuple_Size(held) - 1;

    if (hold(held, 0, array, t))
        return -1;
    for (int k = 0; k < n; k++) {
        PyObject *level = PySequence_GetItem(levels, k);
        int bad = hold_level(held, k, level, t);

        Py_XDECREF(level);
        if (bad)
            return -1;
    }
    t->n_lod = (int)n;
    t->kind = FL_KIND_RAGGED;
    return 0;
}

/* tensor_view(array, levels of offsets): a ragged Tensor without copies. */
static PyObject *tensor_view(PyObject *self, PyObject *args)
{
    PyObject *array, *levels, *held;
    Py_ssize_t n;
    fl_tensor t;
    tensor *made;

    (void)self;
    if (!PyArg_ParseTuple(args, "OO", &array, &levels))
        return NULL;
    n = PySequence_Length(levels);
    if (n < 1 || n > FL_LOD_MAX)
        return PyErr_Format(PyExc_ValueError,
                            "a view has 1 to %d levels of offsets", FL_LOD_MAX);
    held = PyTuple_New(n + 1);
    made = held && !hold_all(held, array, levels, &t)
               ? PyObject_New(tensor, tensor_type)
               : NULL;
    if (!made) {
        Py_XDECREF(held);
        return NULL;
    }
    made->value = t;
    made->memory = NULL;
    made->held = held;
    made->kept = NULL;
    return (PyObject *)made;
}

/* tensor_array([Tensor, ...]): a Tensor with copies of them. */
static PyObject *tensor_array(PyObject *self, PyObject *args)
{
    PyObject *list, *result = NULL;
    core_memory memory = { 0 };
    fl_tensor *items, t;
    Py_ssize_t n;

    (void)self;
    if (!PyArg_ParseTuple(args, "O!", &PyList_Type, &list))
        return NULL;
    n = PyList_Size(list);
    items = core_alloc(&memory, (size_t)n + 1, sizeof *items);
    for (Py_ssize_t i = 0; items && i < n; i++) {
        PyObject *item = PyList_GetItem(list, i);

        if (Py_TYPE(item) != tensor_type) {
            PyErr_Format(PyExc_TypeError, "an array has Tensors, not %R", item);
            items = NULL;
        } else {
            items[i] = ((tensor *)item)->value;
        }
    }
    if (items) {
        t = fl_tensor_array(items, (size_t)n);
        result = core_tensor_copy(&t);
    }
    core_release(&memory);
    return result;
}

static PyMethodDef tensor_methods[] = {
    { "tensor", tensor_new, METH_VARARGS,
      "tensor(array, lod, rows, height): a Tensor with copies." },
    { "tensor_view", tensor_view, METH_VARARGS,
      "tensor_view(array, levels): a ragged Tensor without copies." },
    { "tensor_array", tensor_array, METH_VARARGS,
      "tensor_array(tensors): a Tensor that is an array of them." },
    { NULL, NULL, 0, NULL },
};

int core_add_tensor(PyObject *module)
{
    PyObject *numpy = PyImport_ImportModule("numpy");

    if (!numpy)
        return -1;
    numpy_empty = PyObject_GetAttrString(numpy, "empty");
    numpy_asarray = PyObject_GetAttrString(numpy, "asarray");
    Py_DECREF(numpy);
    tensor_type = (PyTypeObject *)PyType_FromSpec(&spec);
    if (!numpy_empty || !numpy_asarray || !tensor_type ||
        PyModule_AddFunctions(module, tensor_methods))
        return -1;
    Py_INCREF(tensor_type);
    return PyModule_AddObject(module, "Tensor", (PyObject *)tensor_type);
}
