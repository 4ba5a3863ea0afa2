/* profile.c - what an executor has noted while the setting profile was on. */
#include "core.h"

/* executor_trace(executor, path): writes a Chrome trace. */
static PyObject *executor_trace(PyObject *self, PyObject *args)
{
    const char *path;
    fl_executor *e;

    (void)self;
    if (!PyArg_ParseTuple(args, "O&s", core_executor, &e, &path))
        return NULL;
    return core_done(fl_executor_write_trace(e, path));
}

static PyObject *executor_reset_profile(PyObject *self, PyObject *args)
{
    fl_executor *e;

    (void)self;
    if (!PyArg_ParseTuple(args, "O&", core_executor, &e))
        return NULL;
    fl_executor_reset_profile(e);
    Py_RETURN_NONE;
}

PyMethodDef core_profile_methods[] = {
    { "executor_trace", executor_trace, METH_VARARGS, "Writes what ran when." },
    { "executor_reset_profile", executor_reset_profile, METH_VARARGS,
      "Forgets it." },
    { NULL, NULL, 0, NULL },
};
