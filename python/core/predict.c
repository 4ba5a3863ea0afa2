/* predict.c - scores of saved models. */
#include "core.h"
#include "flotilla/serving.h"

/* model_open(ctx, dir, targets, watch_ms, verify, optimize, in_memory, address
   of servers that have the rows or None) */
static PyObject *model_open(PyObject *self, PyObject *args)
{
    fl_model_options o = FL_INIT(fl_model_options, .n_targets = 0);
    int verify, optimize, in_memory;
    unsigned long long watch_ms;
    core_memory memory = { 0 };
    const char *dir, *servers;
    PyObject *of, *targets;
    fl_model *m = NULL;
    fl_ctx *c;
    fl_status st = FL_OK;

    (void)self;
    if (!PyArg_ParseTuple(args, "OsOKpppz", &of, &dir, &targets, &watch_ms,
                          &verify, &optimize, &in_memory, &servers) ||
        !core_ctx(of, &c))
        return NULL;
    o.watch_ms = watch_ms;
    o.verify = verify;
    o.no_optimize = !optimize;
    o.in_memory = in_memory;
    o.targets = core_names(&memory, targets, &o.n_targets);
    if (o.targets) {
        st = FL_OK;
        if (servers)
            CORE_WORK(st, fl_row_source_of_servers(&o.rows, c, servers));
        if (!st)
            CORE_WORK(st, fl_model_open_with(&m, dir, &o));
    }
    core_release(&memory);
    if (PyErr_Occurred())
        return NULL;
    return st ? core_fail(st) : core_handle(CORE_model, m, of, true);
}

static PyObject *dims(const fl_shape *s)
{
    PyObject *t = PyTuple_New(s->rank);

    for (int i = 0; t && i < s->rank; i++) {
        PyObject *n = PyLong_FromLongLong(s->dim[i]);

        if (!n || PyTuple_SetItem(t, i, n))
            Py_CLEAR(t);
    }
    return t;
}

/* [(name, dtype, levels, shape), ...] */
static PyObject *var_list(const fl_model_var *vars, size_t n)
{
    PyObject *list = PyList_New(0);

    for (size_t i = 0; list && i < n; i++) {
        PyObject *item = Py_BuildValue("siiN", vars[i].name, (int)vars[i].dtype,
                                       vars[i].n_lod, dims(&vars[i].shape));

        if (!item || PyList_Append(list, item))
            Py_CLEAR(list);
        Py_XDECREF(item);
    }
    return list;
}

/* What it takes, and what it gives. */
static PyObject *model_vars(PyObject *self, PyObject *args)
{
    const fl_model_var *in, *out;
    size_t n_in, n_out;
    fl_model *m;

    (void)self;
    if (!PyArg_ParseTuple(args, "O&", core_model, &m))
        return NULL;
    in = fl_model_inputs(m, &n_in);
    out = fl_model_outputs(m, &n_out);
    return Py_BuildValue("NN", var_list(in, n_in), var_list(out, n_out));
}

static PyObject *model_stats(PyObject *self, PyObject *args)
{
    fl_model_stats s = FL_INIT(fl_model_stats, .runs = 0);
    fl_model *m;
    fl_status st;

    (void)self;
    if (!PyArg_ParseTuple(args, "O&", core_model, &m))
        return NULL;
    st = fl_model_stats_get(m, &s);
    if (st)
        return core_fail(st);
    return Py_BuildValue("{s:K,s:K,s:K,s:K,s:K,s:K,s:s}", "runs",
                         (unsigned long long)s.runs, "records",
                         (unsigned long long)s.records, "rows",
                         (unsigned long long)s.rows, "missing_rows",
                         (unsigned long long)s.missing_rows, "versions",
                         (unsigned long long)s.versions, "refused",
                         (unsigned long long)s.refused, "version", s.version);
}

static PyObject *model_refresh(PyObject *self, PyObject *args)
{
    fl_model *m;
    fl_status st;

    (void)self;
    if (!PyArg_ParseTuple(args, "O&", core_model, &m))
        return NULL;
    CORE_WORK(st, fl_model_refresh(m));
    return core_done(st);
}

static PyObject *predictor_new(PyObject *self, PyObject *args)
{
    fl_predictor *p;
    fl_model *m;
    PyObject *of;
    fl_status st;

    (void)self;
    if (!PyArg_ParseTuple(args, "O", &of) || !core_model(of, &m))
        return NULL;
    st = fl_predictor_new(&p, m);
    return st ? core_fail(st) : core_handle(CORE_predictor, p, of, true);
}

/* A batch: feeds that keep their memory until the end of the call. */
typedef struct batch {
    fl_feed *feeds;
    core_view *views;
    fl_tensor *out;
    size_t n, n_out;
} batch;

static bool read_batch(core_memory *m, PyObject *dict, batch *b)
{
    size_t n = (size_t)PyDict_Size(dict);
    PyObject *key, *value;
    Py_ssize_t at = 0;

    b->feeds = core_alloc(m, n + 1, sizeof *b->feeds);
    b->views = core_alloc(m, n + 1, sizeof *b->views);
    b->out = core_alloc(m, b->n_out + 1, sizeof *b->out);
    if (!b->feeds || !b->views || !b->out)
        return false;
    while (PyDict_Next(dict, &at, &key, &value)) {
        fl_feed *f = &b->feeds[b->n];

        f->name = PyUnicode_AsUTF8AndSize(key, NULL);
        if (!f->name || core_view_of(value, &b->views[b->n++], &f->value))
            return false;
    }
    return true;
}

static PyObject *scores(const batch *b)
{
    PyObject *list = PyList_New((Py_ssize_t)b->n_out);

    for (size_t i = 0; list && i < b->n_out; i++) {
        PyObject *item = core_tensor_copy(&b->out[i]);

        if (!item || PyList_SetItem(list, (Py_ssize_t)i, item))
            Py_CLEAR(list);
    }
    return list;
}

/* predict(predictor, {name: value}, number of outputs): [Tensor, ...] */
static PyObject *predict(PyObject *self, PyObject *args)
{
    PyObject *dict, *result = NULL;
    core_memory memory = { 0 };
    batch b = { .n = 0 };
    fl_predictor *p;
    Py_ssize_t n_out;
    fl_status st;

    (void)self;
    if (!PyArg_ParseTuple(args, "O&O!n", core_predictor, &p, &PyDict_Type,
                          &dict, &n_out))
        return NULL;
    b.n_out = (size_t)n_out;
    if (read_batch(&memory, dict, &b)) {
        CORE_WORK(st, fl_predictor_run(p, b.feeds, b.n, b.out, b.n_out));
        result = st ? core_fail(st) : scores(&b);
    }
    for (size_t i = 0; i < b.n; i++)
        core_drop_view(&b.views[i]);
    core_release(&memory);
    return result;
}

/* predict_dataset(model, dataset, threads): Tensor, a number for each record */
static PyObject *predict_dataset(PyObject *self, PyObject *args)
{
    fl_tensor t = { .dtype = FL_DTYPE_F32, .kind = FL_KIND_DENSE };
    PyObject *result;
    float *scores = NULL;
    fl_model *m;
    fl_dataset *d;
    int n_threads;
    size_t n = 0;
    fl_status st;

    (void)self;
    if (!PyArg_ParseTuple(args, "O&O&i", core_model, &m, core_dataset, &d,
                          &n_threads))
        return NULL;
    CORE_WORK(st, fl_predict_dataset(m, d, .n_threads = n_threads,
                                     .scores = &scores, .n_scores = &n));
    if (st)
        return core_fail(st);
    t.data = scores;
    t.shape.rank = 1;
    t.shape.dim[0] = (int64_t)n;
    result = core_tensor_copy(&t);
    fl_scores_free(scores);
    return result;
}

PyMethodDef core_predict_methods[] = {
    { "model_open", model_open, METH_VARARGS, "A saved model, for scores." },
    { "model_vars", model_vars, METH_VARARGS, "Its inputs and outputs." },
    { "model_stats", model_stats, METH_VARARGS, "What it was asked." },
    { "model_refresh", model_refresh, METH_VARARGS, "Takes a newer version." },
    { "predictor_new", predictor_new, METH_VARARGS, "For one thread." },
    { "predict", predict, METH_VARARGS, "Scores a batch." },
    { "predict_dataset", predict_dataset, METH_VARARGS, "Scores a dataset." },
    { NULL, NULL, 0, NULL },
};
