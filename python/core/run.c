/* run.c - executors, gradients, and the one call that is made a thousand times
 * a second. */
#include <string.h>

#include "core.h"

/* --- gradients ----------------------------------------------------------- */

/* Handles of variables out of a list; *n is their number. */
static fl_var **read_vars(core_memory *m, PyObject *o, size_t *n)
{
    Py_ssize_t len = o == Py_None ? 0 : PyList_Size(o);
    fl_var **vars =
        len < 0 ? NULL : core_alloc(m, (size_t)len + 1, sizeof *vars);

    for (Py_ssize_t i = 0; vars && i < len; i++) {
        if (!core_var_or_none(PyList_GetItem(o, i), &vars[i]))
            return NULL;
    }
    *n = (size_t)len;
    return vars;
}

static PyObject *pair_list(const fl_param_grad *pg, size_t n, PyObject *owner)
{
    PyObject *list = PyList_New(0);

    for (size_t i = 0; list && i < n; i++) {
        PyObject *pair = Py_BuildValue(
            "NN", core_handle(CORE_var, pg[i].param, owner, false),
            core_handle(CORE_var, pg[i].grad, owner, false));

        if (!pair || PyList_Append(list, pair))
            Py_CLEAR(list);
        Py_XDECREF(pair);
    }
    return list;
}

/* append_backward(loss, parameters or None, no_grad): [(param, grad), ...] */
static PyObject *append_backward(PyObject *self, PyObject *args)
{
    fl_backward_args a = FL_INIT(fl_backward_args, .all_leaves = true);
    PyObject *of, *params, *no_grad, *result = NULL;
    core_memory memory = { 0 };
    fl_param_grad *pg;
    fl_var *loss;
    size_t n;
    fl_status st;

    (void)self;
    if (!PyArg_ParseTuple(args, "OOO", &of, &params, &no_grad) ||
        !core_var(of, &loss))
        return NULL;
    if ((params == Py_None ||
         (a.parameters = read_vars(&memory, params, &a.n_parameters))) &&
        (a.no_grad = read_vars(&memory, no_grad, &a.n_no_grad))) {
        st = fl_append_backward_with(loss, &a, &pg, &n);
        result = st ? core_fail(st) : pair_list(pg, n, core_owner(of));
        if (!st)
            fl_param_grads_free(pg);
    }
    core_release(&memory);
    return result;
}

static PyObject *var_list(fl_var *const *vars, size_t n, PyObject *owner)
{
    PyObject *list = PyList_New((Py_ssize_t)n);

    for (size_t i = 0; list && i < n; i++) {
        PyObject *h = core_handle(CORE_var, vars[i], owner, false);

        if (!h || PyList_SetItem(list, (Py_ssize_t)i, h))
            Py_CLEAR(list);
    }
    return list;
}

/* gradients(targets, inputs, target_gradients or None, no_grad, owner) */
static PyObject *gradients(PyObject *self, PyObject *args)
{
    fl_gradients_args a = FL_INIT(fl_gradients_args, .n_targets = 0);
    PyObject *targets, *inputs, *given, *no_grad, *result = NULL;
    core_memory memory = { 0 };
    fl_var **out = NULL;
    size_t n_given;
    fl_status st;

    (void)self;
    if (!PyArg_ParseTuple(args, "O!OOO", &PyList_Type, &targets, &inputs,
                          &given, &no_grad))
        return NULL;
    if ((a.targets = read_vars(&memory, targets, &a.n_targets)) &&
        (a.inputs = read_vars(&memory, inputs, &a.n_inputs)) &&
        (given == Py_None ||
         (a.target_gradients = read_vars(&memory, given, &n_given))) &&
        (a.no_grad = read_vars(&memory, no_grad, &a.n_no_grad)) &&
        (out = core_alloc(&memory, a.n_inputs + 1, sizeof *out))) {
        st = fl_gradients_with(out, &a);
        result = st ? core_fail(st)
                    : var_list(out, a.n_inputs,
                               core_owner(PyList_GetItem(targets, 0)));
    }
    core_release(&memory);
    return result;
}

/* --- executors ----------------------------------------------------------- */

static PyObject *executor_new(PyObject *self, PyObject *args)
{
    PyObject *of;
    fl_executor *e;
    fl_ctx *c;
    fl_status st;

    (void)self;
    if (!PyArg_ParseTuple(args, "O", &of) || !core_ctx(of, &c))
        return NULL;
    st = fl_executor_new(&e, c);
    return st ? core_fail(st) : core_handle(CORE_executor, e, of, true);
}

static PyObject *executor_forget(PyObject *self, PyObject *args)
{
    unsigned long long id;
    fl_executor *e;

    (void)self;
    if (!PyArg_ParseTuple(args, "O&K", core_executor, &e, &id))
        return NULL;
    fl_executor_forget(e, id);
    Py_RETURN_NONE;
}

/* What is fed and fetched, on the stack as long as there are few. */
#define FEW 16

typedef struct run_call {
    fl_feed feeds[FEW];
    core_view views[FEW];
    const char *fetches[FEW];
    fl_tensor out[FEW];
    fl_mem *keeps[FEW];
    fl_feed *feed;
    core_view *view;
    const char **fetch;
    fl_tensor *value;
    fl_mem **keep;  /* of values that were handed over */
    size_t n_feeds; /* of one batch */
    size_t n_views, n_fetches;
    size_t n_values; /* n_fetches of each replica */
    core_memory memory;
} run_call;

/* What a run is asked for, as Python gives it. */
typedef struct run_args {
    PyObject *feed, *names; /* a dict, a tuple of one per replica, or None; a
                               tuple */
    fl_scope *scope;
    int as_arrays;
    size_t n_replicas;
} run_args;

/* Room for all; false with an error set when there is none. The arrays are
   large and are filled as far as they are used. */
static bool make_room(run_call *r, const run_args *a)
{
    bool each = PyTuple_Check(a->feed);
    size_t n_batches = each ? (size_t)PyTuple_Size(a->feed) : 1;
    PyObject *first = each ? PyTuple_GetItem(a->feed, 0) : a->feed;

    r->n_feeds = first == Py_None ? 0 : (size_t)PyDict_Size(first);
    r->n_fetches = (size_t)PyTuple_Size(a->names);
    r->n_values = r->n_fetches * a->n_replicas;
    r->n_views = 0;
    r->memory = (core_memory){ 0 };
    r->feed = r->feeds;
    r->view = r->views;
    r->fetch = r->fetches;
    r->value = r->out;
    r->keep = r->keeps;
    if (r->n_feeds * n_batches > FEW) {
        size_t n = r->n_feeds * n_batches;

        r->feed = core_alloc(&r->memory, n, sizeof *r->feed);
        r->view = core_alloc(&r->memory, n, sizeof *r->view);
    }
    if (r->n_values > FEW) {
        r->fetch = core_alloc(&r->memory, r->n_fetches, sizeof *r->fetch);
        r->value = core_alloc(&r->memory, r->n_values, sizeof *r->value);
        r->keep = core_alloc(&r->memory, r->n_values, sizeof *r->keep);
    }
    if (!r->feed || !r->view || !r->fetch || !r->value || !r->keep) {
        r->n_values = 0; /* nothing is kept that was to be released */
        return false;
    }
    memset(r->keep, 0, r->n_values * sizeof *r->keep);
    return true;
}

/* Says which feed it was. */
static void name_feed(const char *name)
{
    PyObject *type, *value, *trace;

    PyErr_Fetch(&type, &value, &trace);
    PyErr_Format(type ? type : PyExc_TypeError, "feed %s: %S", name,
                 value ? value : Py_None);
    Py_XDECREF(type);
    Py_XDECREF(value);
    Py_XDECREF(trace);
}

/* The values of a batch, in the order of the names of the first. */
static bool read_batch(run_call *r, PyObject *first, PyObject *dict)
{
    PyObject *key, *value;
    Py_ssize_t at = 0;

    while (r->n_feeds && PyDict_Next(first, &at, &key, &value)) {
        fl_feed *f = &r->feed[r->n_views];

        f->name = PyUnicode_AsUTF8AndSize(key, NULL);
        if (!f->name)
            return false;
        value = PyDict_GetItemWithError(dict, key);
        if (!value) {
            PyErr_Format(PyExc_ValueError,
                         "feed %s is missing in the batch of a replica",
                         f->name);
            return false;
        }
        if (core_view_of(value, &r->view[r->n_views++], &f->value)) {
            name_feed(f->name);
            return false;
        }
    }
    return true;
}

static bool read_feeds(run_call *r, PyObject *feed)
{
    Py_ssize_t n = PyTuple_Check(feed) ? PyTuple_Size(feed) : 0;

    for (Py_ssize_t i = 0; i < n; i++) {
        if (!read_batch(r, PyTuple_GetItem(feed, 0), PyTuple_GetItem(feed, i)))
            return false;
    }
    return n || read_batch(r, feed, feed);
}

static bool read_fetches(run_call *r, PyObject *names)
{
    for (size_t i = 0; i < r->n_fetches; i++) {
        r->fetch[i] = PyUnicode_AsUTF8AndSize(
            PyTuple_GetItem(names, (Py_ssize_t)i), NULL);
        if (!r->fetch[i])
            return false;
    }
    return true;
}

static void end_call(run_call *r)
{
    for (size_t i = 0; i < r->n_views; i++)
        core_drop_view(&r->view[i]);
    for (size_t i = 0; r->keep && i < r->n_values; i++)
        fl_mem_release(r->keep[i]);
    core_release(&r->memory);
}

/* Offsets stay the runner's: a ragged value is copied. */
static PyObject *fetched_one(run_call *r, size_t i, bool as_arrays)
{
    const fl_tensor *t = &r->value[i];
    bool is_copied = t->kind == FL_KIND_ARRAY || (t->n_lod && !as_arrays);
    fl_mem *memory = is_copied ? NULL : r->keep[i];

    if (!memory)
        return as_arrays ? core_array_copy(t) : core_tensor_copy(t);
    r->keep[i] = NULL;
    return as_arrays ? core_array_keep(t, memory) : core_tensor_keep(t, memory);
}

static PyObject *fetched(run_call *r, bool as_arrays)
{
    PyObject *list = PyList_New((Py_ssize_t)r->n_values);

    for (size_t i = 0; list && i < r->n_values; i++) {
        PyObject *item = fetched_one(r, i, as_arrays);

        if (!item || PyList_SetItem(list, (Py_ssize_t)i, item))
            Py_CLEAR(list);
    }
    return list;
}

/* A program, or one for replicas: one of the two. */
typedef struct runnable {
    fl_executor *e;
    fl_program *program;
    fl_compiled_program *compiled;
    bool each; /* a batch for each replica */
} runnable;

static fl_status call_it(const runnable *what, const fl_run_args *args)
{
    if (what->program)
        return fl_run(what->e, what->program, args);
    return what->each ? fl_run_compiled_each(what->e, what->compiled, args)
                      : fl_run_compiled(what->e, what->compiled, args);
}

static PyObject *run_it(const runnable *what, const run_args *a)
{
    PyObject *result = NULL;
    run_call r;

    if (make_room(&r, a) && read_feeds(&r, a->feed) &&
        read_fetches(&r, a->names)) {
        fl_run_args args =
            FL_INIT(fl_run_args, .feeds = r.feed, .n_feeds = r.n_feeds,
                    .fetches = r.fetch, .n_fetches = r.n_fetches,
                    .out = r.value, .scope = a->scope, .keep = r.keep);
        fl_status st;

        CORE_WORK(st, call_it(what, &args));
        result = st ? core_fail(st) : fetched(&r, a->as_arrays);
    }
    end_call(&r);
    return result;
}

/* run(executor, program, {name: value} or None, (fetch, ...), scope or None,
   as_arrays) */
static PyObject *run(PyObject *self, PyObject *args)
{
    runnable what = { .compiled = NULL };
    run_args a = { .n_replicas = 1 };

    (void)self;
    if (!PyArg_ParseTuple(args, "O&O&OO!O&p", core_executor, &what.e,
                          core_program, &what.program, &a.feed, &PyTuple_Type,
                          &a.names, core_scope_or_none, &a.scope, &a.as_arrays))
        return NULL;
    return run_it(&what, &a);
}

/* --- replicas ------------------------------------------------------------ */

/* compiled_new(program, loss or None, reduce_strategy, gradient_scale,
   n_threads, n_replicas) */
static PyObject *compiled_new(PyObject *self, PyObject *args)
{
    fl_build_strategy build = FL_INIT(fl_build_strategy, .reduce_strategy = 0);
    fl_exec_strategy exec = FL_INIT(fl_exec_strategy, .n_threads = 0);
    fl_compiled_program *cp;
    const char *loss;
    fl_program *p;
    PyObject *of;
    int reduce, scale;
    fl_status st;

    (void)self;
    if (!PyArg_ParseTuple(args, "Oziiii", &of, &loss, &reduce, &scale,
                          &exec.n_threads, &exec.n_replicas) ||
        !core_program(of, &p))
        return NULL;
    build.reduce_strategy = (fl_reduce_strategy)reduce;
    build.gradient_scale_strategy = (fl_gradient_scale)scale;
    st = fl_compiled_program_new(&cp, p);
    if (st)
        return core_fail(st);
    st = fl_compiled_program_with_data_parallel(cp, loss, &build, &exec);
    if (st) {
        fl_compiled_program_free(cp);
        return core_fail(st);
    }
    return core_handle(CORE_compiled, cp, of, true);
}

static PyObject *compiled_replicas(PyObject *self, PyObject *args)
{
    fl_compiled_program *cp;

    (void)self;
    if (!PyArg_ParseTuple(args, "O&", core_compiled, &cp))
        return NULL;
    return PyLong_FromLong(fl_compiled_program_replicas(cp));
}

/* As run, or with a tuple of a feed for each replica; the values of one replica
   behind those of another. */
static PyObject *run_compiled(PyObject *self, PyObject *args)
{
    runnable what = { .program = NULL };
    run_args a = { .n_replicas = 1 };

    (void)self;
    if (!PyArg_ParseTuple(args, "O&O&OO!O&p", core_executor, &what.e,
                          core_compiled, &what.compiled, &a.feed, &PyTuple_Type,
                          &a.names, core_scope_or_none, &a.scope, &a.as_arrays))
        return NULL;
    a.n_replicas = (size_t)fl_compiled_program_replicas(what.compiled);
    what.each = PyTuple_Check(a.feed);
    if (what.each && (size_t)PyTuple_Size(a.feed) != a.n_replicas) {
        PyErr_Format(PyExc_ValueError, "%zd feeds for %zu replicas",
                     PyTuple_Size(a.feed), a.n_replicas);
        return NULL;
    }
    return run_it(&what, &a);
}

PyMethodDef core_run_methods[] = {
    { "append_backward", append_backward, METH_VARARGS,
      "Gradients of a loss: [(parameter, gradient), ...]." },
    { "gradients", gradients, METH_VARARGS, "Gradients of targets." },
    { "executor_new", executor_new, METH_VARARGS, "An executor." },
    { "executor_forget", executor_forget, METH_VARARGS,
      "Gives back what it keeps for a program." },
    { "run", run, METH_VARARGS, "Runs a program once." },
    { "compiled_new", compiled_new, METH_VARARGS, "A program for replicas." },
    { "compiled_replicas", compiled_replicas, METH_VARARGS, "How many." },
    { "run_compiled", run_compiled, METH_VARARGS, "Runs it once." },
    { NULL, NULL, 0, NULL },
};
