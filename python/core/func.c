/* func.c - operator py_func: a function of Python's as an operator.
 *
 * Functions have numbers, which the attributes name; one function of the
 * package (layers/func.py) is called with a number, the values and how many
 * values it is to give. It runs with the interpreter's lock, in whatever thread
 * runs the operator. What it raises ends the run, which raises it.
 */
#include "core.h"

#include <string.h>

#include "flotilla/experimental/op.h"

enum { X };
enum { OUT };
enum { FORWARD_ID, BACKWARD_ID };

/* In a gradient, the outputs are the inputs behind those of py_func. */
#define SAVED_OUT (X + 1 + OUT)

static PyObject *caller;
static PyObject *error_type, *error, *error_trace; /* with the lock */

/* --- exceptions ----------------------------------------------------------- */

static void keep_exception(void)
{
    if (error_type)
        PyErr_Clear();
    else
        PyErr_Fetch(&error_type, &error, &error_trace);
}

bool core_restore_exception(void)
{
    if (!error_type)
        return false;
    PyErr_Restore(error_type, error, error_trace);
    error_type = error = error_trace = NULL;
    return true;
}

/* --- calls ---------------------------------------------------------------- */

typedef fl_status give_fn(fl_op_ctx *c, int i, const fl_tensor *value);

typedef struct func_call {
    fl_op_ctx *c;
    int64_t id;
    int n_out;
    give_fn *give; /* takes a result */
} func_call;

static int add_value(PyObject *list, const fl_tensor *t)
{
    PyObject *value = t ? core_tensor_copy(t) : Py_None;
    int failed = value ? PyList_Append(list, value) : -1;

    if (t)
        Py_XDECREF(value);
    return failed;
}

/* Entries of a slot; those that have no value are None. */
static int add_slot(PyObject *list, const fl_op_ctx *c, int slot)
{
    for (int i = 0; i < fl_n_in(c, slot); i++)
        if (add_value(list, fl_in_at(c, slot, i)))
            return -1;
    return 0;
}

static fl_status take(const func_call *f, PyObject *found)
{
    fl_status st = FL_OK;

    for (int i = 0; i < f->n_out && !st; i++) {
        PyObject *item = PyList_GetItem(found, i);
        core_view view = { .has_buffer = false };
        bool is_given = item != Py_None;
        fl_tensor value;

        if (!item || (is_given && core_view_of(item, &view, &value)))
            return FL_ERR_INVAL;
        st = f->give(f->c, i, is_given ? &value : NULL);
        core_drop_view(&view);
    }
    return st;
}

/* With the lock, and a list that it takes; NULL: there is an exception. */
static fl_status ask(const func_call *f, PyObject *values)
{
    PyObject *found = NULL;
    fl_status st = FL_ERR_INVAL;

    if (values)
        found = PyObject_CallFunction(caller, "LOi", (long long)f->id, values,
                                      f->n_out);
    if (found)
        st = take(f, found);
    Py_XDECREF(found);
    Py_XDECREF(values);
    if (PyErr_Occurred()) {
        keep_exception();
        fl_err_set(FL_ERR_INVAL, "op py_func: its function failed");
    }
    return st;
}

/* --- the operator --------------------------------------------------------- */

static fl_status py_func_infer(fl_infer *c)
{
    return fl_infer_declared(c, OUT);
}

static fl_status give_output(fl_op_ctx *c, int i, const fl_tensor *value)
{
    if (!value)
        return fl_err_set(FL_ERR_INVAL,
                          "op py_func: its function gave None for an output");
    return fl_out_become(c, fl_out_at(c, OUT, i), value);
}

static fl_status py_func_run(fl_op_ctx *c)
{
    func_call f = { .c = c,
                    .id = fl_attr_int(fl_op_ctx_node(c), FORWARD_ID),
                    .n_out = fl_n_out(c, OUT),
                    .give = give_output };
    PyGILState_STATE held = PyGILState_Ensure();
    PyObject *values = PyList_New(0);
    fl_status st;

    if (values && add_slot(values, c, X))
        Py_CLEAR(values);
    st = ask(&f, values);
    PyGILState_Release(held);
    return st;
}

/* A gradient that is not given is 0. */
static fl_status give_gradient(fl_op_ctx *c, int i, const fl_tensor *value)
{
    fl_tensor *to = fl_din_at(c, X, i);
    size_t bytes =
        to ? (size_t)fl_tensor_numel(to) * fl_dtype_bytes(to->dtype) : 0;

    if (to && value &&
        (value->dtype != to->dtype ||
         fl_tensor_numel(value) != fl_tensor_numel(to)))
        return fl_err_set(FL_ERR_INVAL,
                          "op py_func: a gradient of its backward function "
                          "has another type or number of values than the "
                          "input that it is for");
    if (bytes && value)
        memcpy(to->data, value->data, bytes);
    else if (bytes)
        memset(to->data, 0, bytes);
    return FL_OK;
}

static PyObject *back_values(const fl_op_ctx *c)
{
    PyObject *values = PyList_New(0);

    if (values && (add_slot(values, c, X) || add_slot(values, c, SAVED_OUT)))
        Py_CLEAR(values);
    for (int i = 0; values && i < fl_n_in(c, SAVED_OUT); i++)
        if (add_value(values, fl_dout_at(c, OUT, i)))
            Py_CLEAR(values);
    return values;
}

static fl_status py_func_back(fl_op_ctx *c)
{
    func_call f = { .c = c,
                    .id = fl_attr_int(fl_op_ctx_node(c), BACKWARD_ID),
                    .n_out = fl_n_in(c, X),
                    .give = give_gradient };
    PyGILState_STATE held = PyGILState_Ensure();
    fl_status st = ask(&f, back_values(c));

    PyGILState_Release(held);
    return st;
}

static const fl_op py_func = {
    .name = "py_func",
    .doc = "Out = what the function of Python's with number "
           "forward_callable_id gives for X; their gradients are what that "
           "with number backward_callable_id gives for X, Out and the "
           "gradients of Out without those of backward_skip_vars",
    .in = { { "X", FL_OP_SLOT_LIST | FL_OP_SLOT_OPTIONAL } },
    .out = { { "Out", FL_OP_SLOT_LIST | FL_OP_SLOT_OPTIONAL } },
    .attrs = { { "forward_callable_id", FL_ATTR_INT, "0" },
               { "backward_callable_id", FL_ATTR_INT, "-1" },
               { "backward_skip_vars", FL_ATTR_STRINGS, "[]" } },
    .flags = FL_OP_EFFECT,
    .infer = py_func_infer,
    .run = py_func_run,
    .back = py_func_back,
    .back_uses = FL_USES_IN(X) | FL_USES_OUT(OUT),
};

static PyObject *set_caller(PyObject *self, PyObject *args)
{
    PyObject *fn;

    (void)self;
    if (!PyArg_ParseTuple(args, "O", &fn))
        return NULL;
    Py_INCREF(fn);
    Py_XDECREF(caller);
    caller = fn;
    return core_done(fl_op_add(&py_func));
}

PyMethodDef core_func_methods[] = {
    METHOD(set_caller, "What operators py_func call."),
    { 0 },
};
