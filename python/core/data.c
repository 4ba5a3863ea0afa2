/* data.c - data sets, and passes over them. */
#include <string.h>

#include "core.h"

/* --- setting up ---------------------------------------------------------- */

static PyObject *dataset_new(PyObject *self, PyObject *args)
{
    PyObject *of;
    const char *kind;
    fl_dataset *d;
    fl_ctx *c;
    fl_status st;

    (void)self;
    if (!PyArg_ParseTuple(args, "Os", &of, &kind) || !core_ctx(of, &c))
        return NULL;
    st = fl_dataset_new(&d, c, kind);
    return st ? core_fail(st) : core_handle(CORE_dataset, d, of, true);
}

static fl_status set_pipe_command(fl_dataset *d, const char *text)
{
    fl_dataset_set_pipe_command(d, text);
    return FL_OK;
}

static fl_status set_cache(fl_dataset *d, const char *text)
{
    fl_dataset_set_cache(d, text);
    return FL_OK;
}

/* Settings that are texts, and those that are numbers. */
static const struct {
    const char *name;
    fl_status (*set)(fl_dataset *d, const char *text);
} texts[] = { { "pipe_command", set_pipe_command },
              { "cache", set_cache },
              { "format", fl_dataset_set_format },
              { "options", fl_dataset_set_options } };

static void set_batch_size(fl_dataset *d, unsigned long long n)
{
    fl_dataset_set_batch_size(d, (size_t)n);
}

static void set_thread(fl_dataset *d, unsigned long long n)
{
    fl_dataset_set_thread(d, (int)n);
}

static void set_seed(fl_dataset *d, unsigned long long n)
{
    fl_dataset_set_seed(d, n);
}

static const struct {
    const char *name;
    void (*set)(fl_dataset *d, unsigned long long n);
} numbers[] = { { "batch_size", set_batch_size },
                { "thread", set_thread },
                { "seed", set_seed } };

/* dataset_text(dataset, setting, text) */
static PyObject *dataset_text(PyObject *self, PyObject *args)
{
    const char *name, *text;
    fl_dataset *d;

    (void)self;
    if (!PyArg_ParseTuple(args, "O&ss", core_dataset, &d, &name, &text))
        return NULL;
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
        if (!strcmp(texts[i].name, name))
            return core_done(texts[i].set(d, text));
    }
    return PyErr_Format(PyExc_KeyError, "a dataset has no setting %s", name);
}

/* dataset_number(dataset, setting, number) */
static PyObject *dataset_number(PyObject *self, PyObject *args)
{
    unsigned long long n;
    const char *name;
    fl_dataset *d;

    (void)self;
    if (!PyArg_ParseTuple(args, "O&sK", core_dataset, &d, &name, &n))
        return NULL;
    for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++) {
        if (!strcmp(numbers[i].name, name)) {
            numbers[i].set(d, n);
            Py_RETURN_NONE;
        }
    }
    return PyErr_Format(PyExc_KeyError, "a dataset has no setting %s", name);
}

static PyObject *dataset_files(PyObject *self, PyObject *args)
{
    core_memory memory = { 0 };
    PyObject *list, *result = NULL;
    const char **paths;
    fl_dataset *d;
    size_t n;

    (void)self;
    if (!PyArg_ParseTuple(args, "O&O", core_dataset, &d, &list))
        return NULL;
    paths = core_names(&memory, list, &n);
    if (paths)
        result = core_done(fl_dataset_set_filelist(d, paths, n));
    core_release(&memory);
    return result;
}

static PyObject *dataset_vars(PyObject *self, PyObject *args)
{
    core_memory memory = { 0 };
    PyObject *list, *result = NULL;
    const char **names;
    fl_dataset *d;
    fl_program *p;
    size_t n;

    (void)self;
    if (!PyArg_ParseTuple(args, "O&O&O", core_dataset, &d, core_program, &p,
                          &list))
        return NULL;
    names = core_names(&memory, list, &n);
    if (names)
        result = core_done(fl_dataset_set_use_var(d, p, names, n));
    core_release(&memory);
    return result;
}

/* --- in memory ----------------------------------------------------------- */

static fl_status load_now(fl_dataset *d, int n)
{
    (void)n;
    return fl_dataset_load_into_memory(d);
}

static fl_status wait_now(fl_dataset *d, int n)
{
    (void)n;
    return fl_dataset_wait_preload_done(d);
}

static fl_status shuffle_now(fl_dataset *d, int n)
{
    (void)n;
    return fl_dataset_local_shuffle(d);
}

static fl_status release_now(fl_dataset *d, int n)
{
    (void)n;
    fl_dataset_release_memory(d);
    return FL_OK;
}

/* What can be done with a dataset in memory, by number. */
static fl_status (*const deeds[])(fl_dataset *, int) = {
    load_now,    fl_dataset_preload_into_memory, wait_now,
    shuffle_now, fl_dataset_global_shuffle,      release_now,
};

/* dataset_do(dataset, deed, n_threads) */
static PyObject *dataset_do(PyObject *self, PyObject *args)
{
    fl_dataset *d;
    unsigned deed;
    int n_threads;
    fl_status st;

    (void)self;
    if (!PyArg_ParseTuple(args, "O&Ii", core_dataset, &d, &deed, &n_threads))
        return NULL;
    if (deed >= sizeof deeds / sizeof *deeds)
        return PyErr_Format(PyExc_SystemError, "no deed %u", deed);
    CORE_WORK(st, deeds[deed](d, n_threads));
    return core_done(st);
}

/* dataset_sizes(dataset): records in memory, and after a shuffle. */
static PyObject *dataset_sizes(PyObject *self, PyObject *args)
{
    fl_dataset *d;

    (void)self;
    if (!PyArg_ParseTuple(args, "O&", core_dataset, &d))
        return NULL;
    return Py_BuildValue(
        "KK", (unsigned long long)fl_dataset_get_memory_data_size(d),
        (unsigned long long)fl_dataset_get_shuffle_data_size(d));
}

static PyObject *dataset_slots_shuffle(PyObject *self, PyObject *args)
{
    core_memory memory = { 0 };
    PyObject *list, *result = NULL;
    const char **names;
    fl_dataset *d;
    size_t n;

    (void)self;
    if (!PyArg_ParseTuple(args, "O&O", core_dataset, &d, &list))
        return NULL;
    names = core_names(&memory, list, &n);
    if (names)
        result = core_done(fl_dataset_slots_shuffle(d, names, n));
    core_release(&memory);
    return result;
}

/* --- batches by hand ----------------------------------------------------- */

static PyObject *dataset_begin(PyObject *self, PyObject *args)
{
    fl_dataset *d;

    (void)self;
    if (!PyArg_ParseTuple(args, "O&", core_dataset, &d))
        return NULL;
    return core_done(fl_dataset_begin(d, 1));
}

static PyObject *batch_dict(const fl_feed *feeds, size_t n)
{
    PyObject *dict = PyDict_New();

    for (size_t i = 0; dict && i < n; i++) {
        PyObject *value = core_tensor_copy(&feeds[i].value);

        if (!value || PyDict_SetItemString(dict, feeds[i].name, value))
            Py_CLEAR(dict);
        Py_XDECREF(value);
    }
    return dict;
}

/* (rows, {name: Tensor}), or None at the end. */
static PyObject *dataset_next(PyObject *self, PyObject *args)
{
    const fl_feed *feeds;
    size_t n_rows, n_slots;
    fl_dataset *d;
    fl_status st;

    (void)self;
    if (!PyArg_ParseTuple(args, "O&", core_dataset, &d))
        return NULL;
    CORE_WORK(st, fl_dataset_next(d, 0, &feeds, &n_rows));
    if (st)
        return core_fail(st);
    if (!feeds)
        Py_RETURN_NONE;
    fl_dataset_slots(d, &n_slots);
    return Py_BuildValue("nN", (Py_ssize_t)n_rows, batch_dict(feeds, n_slots));
}

static PyObject *dataset_end(PyObject *self, PyObject *args)
{
    fl_dataset *d;

    (void)self;
    if (!PyArg_ParseTuple(args, "O&", core_dataset, &d))
        return NULL;
    fl_dataset_end(d);
    Py_RETURN_NONE;
}

/* --- a pass -------------------------------------------------------------- */

/* What pass_over takes, and the first exception of its callbacks. */
typedef struct pass_call {
    fl_executor *e;
    fl_program *program;
    fl_dataset *dataset;
    PyObject *fetches, *infos, *handler, *progress;
    int trains, debug, skips;
    fl_dataset_run_args args;
    PyObject *error_type, *error, *error_trace; /* with the lock */
} pass_call;

/* Ends the pass, which raises the exception when it is over. */
static void keep_exception(pass_call *c)
{
    if (c->error_type) {
        PyErr_Clear();
        return;
    }
    PyErr_Fetch(&c->error_type, &c->error, &c->error_trace);
    fl_interrupt(FL_INTERRUPT_SOON);
}

/* Calls a function of Python's with one value, which it takes. */
static void call_back(pass_call *c, PyObject *fn, PyObject *value)
{
    PyObject *result = NULL;

    if (value)
        result = PyObject_CallFunctionObjArgs(fn, value, NULL);
    if (!result)
        keep_exception(c);
    Py_XDECREF(result);
    Py_XDECREF(value);
}

static void on_fetched(void *arg, const fl_tensor *values, size_t n)
{
    PyGILState_STATE held = PyGILState_Ensure();
    PyObject *list = PyList_New((Py_ssize_t)n);
    pass_call *c = arg;

    for (size_t i = 0; list && i < n; i++) {
        PyObject *array = core_array_copy(&values[i]);

        if (!array || PyList_SetItem(list, (Py_ssize_t)i, array))
            Py_CLEAR(list);
    }
    call_back(c, c->handler, list);
    PyGILState_Release(held);
}

static void on_progress(void *arg, const fl_progress *p)
{
    PyGILState_STATE held = PyGILState_Ensure();
    pass_call *c = arg;

    call_back(c, c->progress,
              Py_BuildValue("{s:K,s:K,s:d,s:d,s:d,s:d,s:O,s:z}", "samples",
                            (unsigned long long)p->samples, "total",
                            (unsigned long long)p->total, "seconds", p->seconds,
                            "wait_share", p->wait_share, "loss", p->loss, "auc",
                            p->auc, "is_last", p->is_last ? Py_True : Py_False,
                            "text", p->text));
    PyGILState_Release(held);
}

static int read_pass(PyObject *args, pass_call *c)
{
    *c = (pass_call){ .args = FL_INIT(fl_dataset_run_args, .n_threads = 0) };
    return PyArg_ParseTuple(
        args, "pO&O&O&iOOiOdpO&Op", &c->trains, core_executor, &c->e,
        core_program, &c->program, core_dataset, &c->dataset,
        &c->args.n_threads, &c->fetches, &c->infos, &c->args.print_period,
        &c->handler, &c->args.period_secs, &c->debug, core_scope_or_none,
        &c->args.scope, &c->progress, &c->skips);
}

static PyObject *report_dict(const fl_dataset_report *r)
{
    return Py_BuildValue(
        "{s:K,s:K,s:d,s:d,s:d,s:d}", "samples", (unsigned long long)r->samples,
        "batches", (unsigned long long)r->batches, "seconds", r->seconds,
        "wait_seconds", r->wait_seconds, "loss", r->loss, "auc", r->auc);
}

static PyObject *make_pass(pass_call *c)
{
    fl_dataset_report report = FL_INIT(fl_dataset_report, .samples = 0);
    fl_status st;

    c->args.debug = c->debug;
    c->args.skip_unused = c->skips;
    if (c->handler != Py_None) {
        c->args.fetch_handler = on_fetched;
        c->args.fetch_arg = c;
    }
    if (c->progress != Py_None) {
        c->args.on_progress = on_progress;
        c->args.progress_arg = c;
    }
    CORE_WORK(st, c->trains
                      ? fl_train_from_dataset_with(c->e, c->program, c->dataset,
                                                   &report, &c->args)
                      : fl_infer_from_dataset_with(c->e, c->program, c->dataset,
                                                   &report, &c->args));
    if (c->error_type) {
        PyErr_Restore(c->error_type, c->error, c->error_trace);
        return NULL;
    }
    return st ? core_fail(st) : report_dict(&report);
}

/* pass_over(trains, executor, program, dataset, n_threads, fetches, infos,
   print_period, handler or None, period_secs, debug, scope or None, progress
   or None, skip_unused) */
static PyObject *pass_over(PyObject *self, PyObject *args)
{
    core_memory memory = { 0 };
    PyObject *result = NULL;
    pass_call c;
    size_t n_infos;

    (void)self;
    if (!read_pass(args, &c))
        return NULL;
    c.args.fetches = core_names(&memory, c.fetches, &c.args.n_fetches);
    if (c.args.fetches && c.infos != Py_None)
        c.args.fetch_info = core_names(&memory, c.infos, &n_infos);
    if (!PyErr_Occurred())
        result = make_pass(&c);
    core_release(&memory);
    return result;
}

PyMethodDef core_data_methods[] = {
    { "dataset_new", dataset_new, METH_VARARGS, "A dataset of a kind." },
    { "dataset_text", dataset_text, METH_VARARGS, "A setting." },
    { "dataset_number", dataset_number, METH_VARARGS, "A setting." },
    { "dataset_files", dataset_files, METH_VARARGS, "Its files." },
    { "dataset_vars", dataset_vars, METH_VARARGS, "Its variables." },
    { "dataset_do", dataset_do, METH_VARARGS, "Loads, shuffles, releases." },
    { "dataset_sizes", dataset_sizes, METH_VARARGS, "Records in memory." },
    { "dataset_slots_shuffle", dataset_slots_shuffle, METH_VARARGS,
      "Deals values of slots anew." },
    { "dataset_begin", dataset_begin, METH_VARARGS, "Begins a pass by hand." },
    { "dataset_next", dataset_next, METH_VARARGS, "The next batch." },
    { "dataset_end", dataset_end, METH_VARARGS, "Ends it." },
    { "pass_over", pass_over, METH_VARARGS, "Trains or infers from data." },
    { NULL, NULL, 0, NULL },
};
