/* core.h - what the files of the extension share.
 *
 * The extension is the library's handles and functions, as they are, for
 * Python's own classes to stand on (python/flotilla). It is built on the stable
 * ABI of CPython 3.8, knows no numpy headers, and holds the interpreter's lock
 * except while the library works.
 */
#ifndef FLOTILLA_PYTHON_CORE_H
#define FLOTILLA_PYTHON_CORE_H

#define PY_SSIZE_T_CLEAN
#define Py_LIMITED_API 0x03080000
#include <Python.h>

#include "flotilla/eval.h"
#include "flotilla/flotilla.h"
#include "flotilla/predict.h"

/* --- buffers ------------------------------------------------------------- */

/* Part of the stable ABI since 3.11 and unchanged since 3.3: declared by hand
   for the versions between. */
#ifndef PyBUF_FORMAT
typedef struct {
    void *buf;
    PyObject *obj;
    Py_ssize_t len, itemsize;
    int readonly, ndim;
    char *format;
    Py_ssize_t *shape, *strides, *suboffsets;
    void *internal;
} Py_buffer;
#define PyBUF_WRITABLE 1
#define PyBUF_FORMAT 4
#define PyBUF_ND 8
#define PyBUF_STRIDES (0x10 | PyBUF_ND)
#define PyBUF_C_CONTIGUOUS (0x20 | PyBUF_STRIDES)
PyAPI_FUNC(int) PyObject_GetBuffer(PyObject *o, Py_buffer *view, int flags);
PyAPI_FUNC(void) PyBuffer_Release(Py_buffer *view);
PyAPI_FUNC(const char *) PyUnicode_AsUTF8AndSize(PyObject *o, Py_ssize_t *n);
#endif

/* --- handles ------------------------------------------------------------- */

/* Kind of a handle, the C type behind it, the function that frees it. */
#define CORE_KINDS(X)                                                          \
    X(ctx, fl_ctx, fl_ctx_free)                                                \
    X(program, fl_program, fl_program_free)                                    \
    X(block, fl_block, NULL)                                                   \
    X(var, fl_var, NULL)                                                       \
    X(op, fl_op_node, NULL)                                                    \
    X(scope, fl_scope, fl_scope_free)                                          \
    X(executor, fl_executor, fl_executor_free)                                 \
    X(compiled, fl_compiled_program, fl_compiled_program_free)                 \
    X(dataset, fl_dataset, fl_dataset_free)                                    \
    X(fleet, fl_fleet, fl_fleet_free)                                          \
    X(strategy, fl_strategy, NULL)                                             \
    X(transpiler, fl_transpiler, fl_transpiler_free)                           \
    X(table, fl_table, NULL)                                                   \
    X(job, fl_job, fl_job_free)                                                \
    X(model, fl_model, fl_model_close)                                         \
    X(predictor, fl_predictor, fl_predictor_free)                              \
    X(judge, fl_judge, fl_judge_free)

typedef enum core_kind {
#define X(name, type, free_fn) CORE_##name,
    CORE_KINDS(X)
#undef X
} core_kind;

/* A handle with what must outlive it; one that is owned frees its C object.
   NULL for the C object gives None. */
PyObject *core_handle(core_kind kind, void *ptr, PyObject *owner, bool owned);

/* Converters for "O&"; the _or_none ones give NULL for None. */
#define X(name, type, free_fn)                                                 \
    int core_##name(PyObject *o, type **out);                                  \
    int core_##name##_or_none(PyObject *o, type **out);
CORE_KINDS(X)
#undef X

/* Of a handle that a converter took. */
PyObject *core_owner(PyObject *handle);
/* The handle, or NULL, which keeps another object alive from now on. */
PyObject *core_hold(PyObject *handle, PyObject *also);

int core_add_handle(PyObject *module);

/* --- errors -------------------------------------------------------------- */

/* Raises this thread's last error; returns NULL. */
PyObject *core_fail(fl_status st);
/* None, or the error. */
PyObject *core_done(fl_status st);
int core_add_errors(PyObject *module);
/* Raises what a function of Python's inside a run has raised, if one did. */
bool core_restore_exception(void);

/* --- work ----------------------------------------------------------------- */

/* Around work that may take long: Ctrl-C ends it, see watch.c. What begin gives
   is handed to end. With the interpreter's lock. */
typedef enum core_watch {
    CORE_NOT_WATCHED,
    CORE_WATCHED,
    CORE_INTERRUPTED /* before it has begun, or it cannot: an exception is set */
} core_watch;
core_watch core_watch_begin(void);
void core_watch_end(core_watch begun);
int core_add_watch(void);

/* st = work, without the interpreter's lock, and ended by Ctrl-C. */
#define CORE_WORK(st, work)                                                    \
    do {                                                                       \
        core_watch core_watched = core_watch_begin();                          \
                                                                               \
        (st) = FL_ERR_CLOSED;                                                  \
        if (core_watched != CORE_INTERRUPTED) {                                \
            Py_BEGIN_ALLOW_THREADS;                                            \
            (st) = (work);                                                     \
            Py_END_ALLOW_THREADS;                                              \
        }                                                                      \
        core_watch_end(core_watched);                                          \
    } while (0)

/* --- memory of one call -------------------------------------------------- */

/* Blocks that are freed together. */
typedef struct core_memory {
    struct core_piece *pieces;
} core_memory;

/* NULL with MemoryError set when there is none. */
void *core_alloc(core_memory *m, size_t n, size_t bytes);
void core_release(core_memory *m);

/* --- tensors ------------------------------------------------------------- */

/* Value `o` (a Tensor, or what has a buffer) as a view; `view` keeps the memory
   and is released with core_drop_view. */
typedef struct core_view {
    Py_buffer buffer;
    bool has_buffer;
} core_view;
int core_view_of(PyObject *o, core_view *view, fl_tensor *out);
void core_drop_view(core_view *view);

/* A new Tensor with a copy of what `t` points to. */
PyObject *core_tensor_copy(const fl_tensor *t);
/* A numpy array with a copy of the values. */
PyObject *core_array_copy(const fl_tensor *t);
/* The same without a copy for memory that was handed over, which goes with the
   object; also when there is none. */
PyObject *core_tensor_keep(const fl_tensor *t, fl_mem *memory);
PyObject *core_array_keep(const fl_tensor *t, fl_mem *memory);

int core_add_tensor(PyObject *module);

/* --- strings ------------------------------------------------------------- */

/* Names out of a sequence of strings, borrowed from it; *n is their number.
   None is an empty list. */
const char **core_names(core_memory *m, PyObject *o, size_t *n);
/* Numbers out of a sequence, and how many. */
int64_t *core_ints(core_memory *m, PyObject *o, size_t *n);
double *core_floats(core_memory *m, PyObject *o, size_t *n);
/* A text of the library, which it frees. */
PyObject *core_text(char *text);

/* --- functions ----------------------------------------------------------- */

/* A function of the module by the name of its C body. */
#define METHOD(name, doc)                                                      \
    {                                                                          \
#name, name, METH_VARARGS, doc                                         \
    }

extern PyMethodDef core_ir_methods[], core_var_methods[], core_op_methods[],
    core_look_methods[], core_scope_methods[], core_run_methods[],
    core_io_methods[], core_data_methods[], core_fleet_methods[],
    core_profile_methods[], core_table_methods[], core_predict_methods[],
    core_features_methods[], core_judge_methods[], core_func_methods[];

#endif
