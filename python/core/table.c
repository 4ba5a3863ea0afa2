/* table.c - rows by id: tables of this process, and those of servers.
 *
 * Arrays come as numpy makes them: keys as 64-bit integers, values as f32, in
 * one piece; flotilla/table.py sees to it. What is given back is written into an
 * array of the caller's.
 */
#include "core.h"

/* --- arrays -------------------------------------------------------------- */

#define N_ARRAYS 4

/* The arrays of one call; those that are None have no data. */
typedef struct arrays {
    core_view views[N_ARRAYS];
    fl_tensor t[N_ARRAYS];
    int n;
} arrays;

static void drop_arrays(arrays *a)
{
    while (a->n > 0)
        core_drop_view(&a->views[--a->n]);
}

static int64_t n_values(const fl_tensor *t)
{
    int64_t n = 1;

    for (int i = 0; i < t->shape.rank; i++)
        n *= t->shape.dim[i];
    return n;
}

/* The first holds keys. */
static bool take_arrays(arrays *a, PyObject *const *given, int n)
{
    a->n = 0;
    for (int i = 0; i < n; i++) {
        fl_dtype want = i ? FL_DTYPE_F32 : FL_DTYPE_I64;

        if (core_view_of(given[i], &a->views[i], &a->t[i])) {
            drop_arrays(a);
            return false;
        }
        a->n = i + 1;
        if (a->t[i].dtype != want) {
            PyErr_Format(PyExc_TypeError,
                         "array %d of a table's call is not "
                         "of the type that it takes",
                         i);
            drop_arrays(a);
            return false;
        }
    }
    return true;
}

static const uint64_t *keys_of(const arrays *a, size_t *n)
{
    *n = (size_t)n_values(&a->t[0]);
    return a->t[0].data;
}

/* Keys and as many rows of this width, shows and clicks. */
static bool check_rows(const arrays *a, uint32_t dim)
{
    int64_t n = n_values(&a->t[0]), want = n * dim;
    bool is_good = n_values(&a->t[1]) == want;

    for (int i = 2; i < a->n; i++)
        is_good = is_good && n_values(&a->t[i]) == n;
    if (is_good)
        return true;
    PyErr_Format(PyExc_ValueError,
                 "%lld keys of a table with rows of %u want "
                 "%lld values, not %lld, and a show and a click each if any",
                 (long long)n, dim, (long long)want,
                 (long long)n_values(&a->t[1]));
    return false;
}

/* --- tables of this process ---------------------------------------------- */

/* table(ctx, name, settings or None): makes it, or finds it. */
static PyObject *table(PyObject *self, PyObject *args)
{
    const char *name, *settings;
    fl_table *t;
    PyObject *of;
    fl_ctx *c;
    fl_status st;

    (void)self;
    if (!PyArg_ParseTuple(args, "Osz", &of, &name, &settings) ||
        !core_ctx(of, &c))
        return NULL;
    st = settings ? fl_table_new(&t, c, name, settings)
                  : fl_ctx_table(c, name, &t);
    return st ? core_fail(st) : core_handle(CORE_table, t, of, false);
}

static PyObject *table_look(PyObject *self, PyObject *args)
{
    fl_table_stats s = FL_INIT(fl_table_stats, .rows = 0);
    fl_table *t;
    fl_status st;

    (void)self;
    if (!PyArg_ParseTuple(args, "O&", core_table, &t))
        return NULL;
    st = fl_table_stats_get(t, &s);
    if (st)
        return core_fail(st);
    return Py_BuildValue(
        "{s:s,s:I,s:K,s:K,s:K,s:K,s:I}", "name", fl_table_name(t), "dim",
        fl_table_dim(t), "rows", s.rows, "candidates", s.candidates, "refused",
        s.refused, "bytes", s.index_bytes + s.row_bytes + s.candidate_bytes,
        "epoch", fl_table_epoch(t));
}

/* table_pull(table, keys, out, creates) */
static PyObject *table_pull(PyObject *self, PyObject *args)
{
    PyObject *given[2];
    const uint64_t *keys;
    fl_status st = FL_OK;
    fl_table *t;
    arrays a;
    size_t n;
    int creates;

    (void)self;
    if (!PyArg_ParseTuple(args, "O&OOp", core_table, &t, &given[0], &given[1],
                          &creates) ||
        !take_arrays(&a, given, 2))
        return NULL;
    if (check_rows(&a, fl_table_dim(t))) {
        keys = keys_of(&a, &n);
        CORE_WORK(st, fl_table_pull(t, keys, n,
                                    creates ? FL_PULL_CREATE : FL_PULL_ONLY,
                                    a.t[1].data));
    }
    drop_arrays(&a);
    return PyErr_Occurred() ? NULL : core_done(st);
}

static void fill_rows(fl_rows *rows, const arrays *a, double rate)
{
    rows->keys = keys_of(a, &rows->n);
    rows->values = a->t[1].data;
    rows->shows = a->n > 2 ? a->t[2].data : NULL;
    rows->clicks = a->n > 3 ? a->t[3].data : NULL;
    rows->lr = rate;
}

/* table_push(table, rate, keys, gradients[, shows, clicks]) */
static PyObject *table_push(PyObject *self, PyObject *args)
{
    PyObject *given[N_ARRAYS] = { 0 };
    fl_rows rows = { 0 };
    fl_status st = FL_OK;
    fl_table *t;
    double rate;
    arrays a;

    (void)self;
    if (!PyArg_ParseTuple(args, "O&dOO|OO", core_table, &t, &rate, &given[0],
                          &given[1], &given[2], &given[3]) ||
        !take_arrays(&a, given, given[3] ? 4 : 2))
        return NULL;
    if (check_rows(&a, fl_table_dim(t))) {
        fill_rows(&rows, &a, rate);
        CORE_WORK(st, fl_table_push(t, &rows));
    }
    drop_arrays(&a);
    return PyErr_Occurred() ? NULL : core_done(st);
}

/* table_write(table, keys, values, adds): overwrites, or adds to what is there. */
static PyObject *table_write(PyObject *self, PyObject *args)
{
    PyObject *given[2];
    const uint64_t *keys;
    fl_status st = FL_OK;
    fl_table *t;
    arrays a;
    size_t n;
    int adds;

    (void)self;
    if (!PyArg_ParseTuple(args, "O&OOp", core_table, &t, &given[0], &given[1],
                          &adds) ||
        !take_arrays(&a, given, 2))
        return NULL;
    if (check_rows(&a, fl_table_dim(t))) {
        keys = keys_of(&a, &n);
        CORE_WORK(st, adds ? fl_table_add(t, keys, n, a.t[1].data)
                           : fl_table_assign(t, keys, n, a.t[1].data));
    }
    drop_arrays(&a);
    return PyErr_Occurred() ? NULL : core_done(st);
}

/* table_remove(table, keys): how many rows there were. */
static PyObject *table_remove(PyObject *self, PyObject *args)
{
    const uint64_t *keys;
    PyObject *given;
    fl_table *t;
    arrays a;
    size_t n, removed;

    (void)self;
    if (!PyArg_ParseTuple(args, "O&O", core_table, &t, &given) ||
        !take_arrays(&a, &given, 1))
        return NULL;
    keys = keys_of(&a, &n);
    fl_table_remove(t, keys, n, &removed);
    drop_arrays(&a);
    return PyLong_FromSize_t(removed);
}

/* table_age(table, unseen_days): a day is over, and rows that were not seen for
   so many of them go; how many. */
static PyObject *table_age(PyObject *self, PyObject *args)
{
    uint64_t removed = 0;
    int unseen_days;
    fl_table *t;
    fl_status st;

    (void)self;
    if (!PyArg_ParseTuple(args, "O&i", core_table, &t, &unseen_days))
        return NULL;
    fl_table_end_day(t);
    st = fl_table_shrink(t, unseen_days, &removed);
    return st ? core_fail(st) : PyLong_FromUnsignedLongLong(removed);
}

static PyObject *table_clear(PyObject *self, PyObject *args)
{
    fl_table *t;

    (void)self;
    if (!PyArg_ParseTuple(args, "O&", core_table, &t))
        return NULL;
    fl_table_clear(t);
    Py_RETURN_NONE;
}

/* table_text(table, path, reads): its rows as lines, written or read. */
static PyObject *table_text(PyObject *self, PyObject *args)
{
    const char *path;
    fl_table *t;
    fl_status st;
    int reads;

    (void)self;
    if (!PyArg_ParseTuple(args, "O&sp", core_table, &t, &path, &reads))
        return NULL;
    CORE_WORK(st, reads ? fl_table_load(t, path) : fl_table_dump(t, path));
    return core_done(st);
}

/* --- a job --------------------------------------------------------------- */

/* job_connect(ctx, servers, n_trainers, rank): a trainer's handle. */
static PyObject *job_connect(PyObject *self, PyObject *args)
{
    fl_job_args a = FL_INIT(fl_job_args, .rank = 0);
    PyObject *of;
    fl_job *j;
    fl_ctx *c;
    fl_status st;

    (void)self;
    if (!PyArg_ParseTuple(args, "Osii", &of, &a.servers, &a.n_trainers,
                          &a.rank) ||
        !core_ctx(of, &c))
        return NULL;
    CORE_WORK(st, fl_job_connect_with(&j, c, &a));
    return st ? core_fail(st) : core_handle(CORE_job, j, of, true);
}

/* job_serve(ctx, servers, n_trainers, rank, model or None): until it is over. */
static PyObject *job_serve(PyObject *self, PyObject *args)
{
    fl_job_args a = FL_INIT(fl_job_args, .rank = 0);
    fl_ctx *c;
    fl_status st;

    (void)self;
    if (!PyArg_ParseTuple(args, "O&siiz", core_ctx, &c, &a.servers,
                          &a.n_trainers, &a.rank, &a.model))
        return NULL;
    CORE_WORK(st, fl_job_serve_with(c, &a));
    return core_done(st);
}

/* fleet_job(fleet): that of its worker; None in a single process. */
static PyObject *fleet_job(PyObject *self, PyObject *args)
{
    PyObject *of;
    fl_fleet *f;

    (void)self;
    if (!PyArg_ParseTuple(args, "O", &of) || !core_fleet(of, &f))
        return NULL;
    return core_handle(CORE_job, fl_fleet_job(f), of, false);
}

/* job_declare(job, name, settings): the number of a table. */
static PyObject *job_declare(PyObject *self, PyObject *args)
{
    const char *name, *settings;
    fl_job *j;
    fl_status st;
    int table;

    (void)self;
    if (!PyArg_ParseTuple(args, "O&ss", core_job, &j, &name, &settings))
        return NULL;
    st = fl_job_declare_table(j, name, settings, &table);
    return st ? core_fail(st) : PyLong_FromLong(table);
}

/* job_declare_dense(job, name, n, optimizer, settings): its number. */
static PyObject *job_declare_dense(PyObject *self, PyObject *args)
{
    const char *name, *optimizer, *settings;
    Py_ssize_t n;
    fl_job *j;
    fl_status st;
    int dense;

    (void)self;
    if (!PyArg_ParseTuple(args, "O&snss", core_job, &j, &name, &n, &optimizer,
                          &settings))
        return NULL;
    st = fl_job_declare_dense(j, name, n < 0 ? 0 : (size_t)n, optimizer,
                              settings, &dense);
    return st ? core_fail(st) : PyLong_FromLong(dense);
}

/* job_find(job, name, is_dense): the number of what was declared. */
static PyObject *job_find(PyObject *self, PyObject *args)
{
    const char *name;
    int is_dense, found;
    fl_job *j;
    fl_status st;

    (void)self;
    if (!PyArg_ParseTuple(args, "O&sp", core_job, &j, &name, &is_dense))
        return NULL;
    st = is_dense ? fl_job_find_dense(j, name, &found)
                  : fl_job_find_table(j, name, &found);
    return st ? core_fail(st) : PyLong_FromLong(found);
}

static fl_status (*const job_deeds[])(fl_job *) = { fl_job_start, fl_job_stop,
                                                    fl_job_barrier };

/* job_do(job, deed) */
static PyObject *job_do(PyObject *self, PyObject *args)
{
    unsigned deed;
    fl_job *j;
    fl_status st;

    (void)self;
    if (!PyArg_ParseTuple(args, "O&I", core_job, &j, &deed))
        return NULL;
    if (deed >= sizeof job_deeds / sizeof *job_deeds)
        return PyErr_Format(PyExc_SystemError, "a job has no deed %u", deed);
    CORE_WORK(st, job_deeds[deed](j));
    return core_done(st);
}

/* job_folder(job, folder, loads): saves all of it, or takes what is there. */
static PyObject *job_folder(PyObject *self, PyObject *args)
{
    const char *dir;
    fl_job *j;
    fl_status st;
    int loads;

    (void)self;
    if (!PyArg_ParseTuple(args, "O&sp", core_job, &j, &dir, &loads))
        return NULL;
    CORE_WORK(st, loads ? fl_job_load(j, dir) : fl_job_save(j, dir));
    return core_done(st);
}

/* job_width(job, number, is_dense): of a row, or of all of a parameter. */
static PyObject *job_width(PyObject *self, PyObject *args)
{
    int number, is_dense;
    fl_job *j;

    (void)self;
    if (!PyArg_ParseTuple(args, "O&ip", core_job, &j, &number, &is_dense))
        return NULL;
    return PyLong_FromSize_t(is_dense ? fl_job_dense_size(j, number)
                                      : fl_job_table_dim(j, number));
}

/* job_pull(job, table, keys, out, creates) */
static PyObject *job_pull(PyObject *self, PyObject *args)
{
    const uint64_t *keys;
    PyObject *given[2];
    int number, creates;
    fl_status st = FL_OK;
    fl_job *j;
    arrays a;
    size_t n;

    (void)self;
    if (!PyArg_ParseTuple(args, "O&iOOp", core_job, &j, &number, &given[0],
                          &given[1], &creates) ||
        !take_arrays(&a, given, 2))
        return NULL;
    if (check_rows(&a, fl_job_table_dim(j, number))) {
        keys = keys_of(&a, &n);
        CORE_WORK(st, fl_job_pull(j, number, keys, n,
                                  creates ? FL_PULL_CREATE : FL_PULL_ONLY,
                                  a.t[1].data));
    }
    drop_arrays(&a);
    return PyErr_Occurred() ? NULL : core_done(st);
}

/* job_push(job, table, rate, keys, gradients[, shows, clicks]) */
static PyObject *job_push(PyObject *self, PyObject *args)
{
    PyObject *given[N_ARRAYS] = { 0 };
    fl_rows rows = { 0 };
    fl_status st = FL_OK;
    double rate;
    fl_job *j;
    arrays a;
    int number;

    (void)self;
    if (!PyArg_ParseTuple(args, "O&idOO|OO", core_job, &j, &number, &rate,
                          &given[0], &given[1], &given[2], &given[3]) ||
        !take_arrays(&a, given, given[3] ? 4 : 2))
        return NULL;
    if (check_rows(&a, fl_job_table_dim(j, number))) {
        fill_rows(&rows, &a, rate);
        CORE_WORK(st, fl_job_push(j, number, &rows));
    }
    drop_arrays(&a);
    return PyErr_Occurred() ? NULL : core_done(st);
}

/* job_assign(job, table, keys, values) */
static PyObject *job_assign(PyObject *self, PyObject *args)
{
    const uint64_t *keys;
    PyObject *given[2];
    fl_status st = FL_OK;
    fl_job *j;
    arrays a;
    int number;
    size_t n;

    (void)self;
    if (!PyArg_ParseTuple(args, "O&iOO", core_job, &j, &number, &given[0],
                          &given[1]) ||
        !take_arrays(&a, given, 2))
        return NULL;
    if (check_rows(&a, fl_job_table_dim(j, number))) {
        keys = keys_of(&a, &n);
        CORE_WORK(st, fl_job_assign(j, number, keys, n, a.t[1].data));
    }
    drop_arrays(&a);
    return PyErr_Occurred() ? NULL : core_done(st);
}

/* job_forget(job, table, unseen_days): rows that were not seen for so many days
   go; -1: all of them. How many, as far as they are counted. */
static PyObject *job_forget(PyObject *self, PyObject *args)
{
    uint64_t removed = 0;
    int number, days;
    fl_job *j;
    fl_status st;

    (void)self;
    if (!PyArg_ParseTuple(args, "O&ii", core_job, &j, &number, &days))
        return NULL;
    CORE_WORK(st, days < 0 ? fl_job_clear(j, number)
                           : fl_job_shrink(j, number, days, &removed));
    return st ? core_fail(st) : PyLong_FromUnsignedLongLong(removed);
}

static fl_status push_dense(fl_job *j, int dense, float *x)
{
    return fl_job_push_dense(j, dense, x);
}

static fl_status assign_dense(fl_job *j, int dense, float *x)
{
    return fl_job_assign_dense(j, dense, x);
}

static fl_status (*const dense_deeds[])(fl_job *, int,
                                        float *) = { fl_job_pull_dense,
                                                     push_dense, assign_dense };

/* job_dense(job, deed, dense, array of all of it) */
static PyObject *job_dense(PyObject *self, PyObject *args)
{
    PyObject *given;
    fl_status st = FL_OK;
    core_view view;
    unsigned deed;
    fl_tensor t;
    fl_job *j;
    int dense;

    (void)self;
    if (!PyArg_ParseTuple(args, "O&IiO", core_job, &j, &deed, &dense, &given))
        return NULL;
    if (deed >= sizeof dense_deeds / sizeof *dense_deeds)
        return PyErr_Format(PyExc_SystemError, "no deed %u", deed);
    if (core_view_of(given, &view, &t))
        return NULL;
    if (t.dtype != FL_DTYPE_F32 ||
        (size_t)n_values(&t) != fl_job_dense_size(j, dense)) {
        PyErr_Format(PyExc_ValueError, "this parameter has %zu floats",
                     fl_job_dense_size(j, dense));
    } else {
        CORE_WORK(st, dense_deeds[deed](j, dense, t.data));
    }
    core_drop_view(&view);
    return PyErr_Occurred() ? NULL : core_done(st);
}

static PyObject *job_stats(PyObject *self, PyObject *args)
{
    char *json;
    fl_job *j;
    fl_status st;

    (void)self;
    if (!PyArg_ParseTuple(args, "O&", core_job, &j))
        return NULL;
    CORE_WORK(st, fl_job_stats_json(j, &json));
    return st ? core_fail(st) : core_text(json);
}

PyMethodDef core_table_methods[] = {
    METHOD(table, "A table, made or found."),
    METHOD(table_look, "What it has, as a dict."),
    METHOD(table_pull, "Values by key."),
    METHOD(table_push, "An update by gradients."),
    METHOD(table_write, "Values into rows."),
    METHOD(table_remove, "Rows go."),
    METHOD(table_age, "A day is over."),
    METHOD(table_clear, "All rows go."),
    METHOD(table_text, "Rows as lines."),
    METHOD(job_connect, "A trainer of a job."),
    METHOD(job_serve, "A server of a job."),
    METHOD(fleet_job, "The job of a fleet."),
    METHOD(job_declare, "A table on servers."),
    METHOD(job_declare_dense, "A parameter on servers."),
    METHOD(job_find, "What was declared, by name."),
    METHOD(job_width, "How many floats."),
    METHOD(job_do, "Start, stop, barrier."),
    METHOD(job_folder, "Save or load."),
    METHOD(job_pull, "Values by key."),
    METHOD(job_push, "An update by gradients."),
    METHOD(job_assign, "Values into rows."),
    METHOD(job_forget, "Rows go."),
    METHOD(job_dense, "A parameter's numbers."),
    METHOD(job_stats, "What it did, as JSON."),
    { NULL, NULL, 0, NULL },
};
