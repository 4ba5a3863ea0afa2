/* fleet.c - jobs: roles, strategies, and what their members do. */
#include "core.h"

/* --- roles --------------------------------------------------------------- */

/* fleet_new(ctx, None) reads the environment; else
   fleet_new(ctx, (role, id, worker_num, workers, servers, is_collective)). */
static PyObject *fleet_new(PyObject *self, PyObject *args)
{
    fl_role_args role = FL_INIT(fl_role_args, .current_id = 0);
    int kind = 0, is_collective = 0;
    PyObject *of, *given;
    fl_fleet *f;
    fl_ctx *c;
    fl_status st;

    (void)self;
    if (!PyArg_ParseTuple(args, "OO", &of, &given) || !core_ctx(of, &c))
        return NULL;
    if (given != Py_None &&
        !PyArg_ParseTuple(given, "iiizzp", &kind, &role.current_id,
                          &role.worker_num, &role.worker_endpoints,
                          &role.server_endpoints, &is_collective))
        return NULL;
    role.role = (fl_role_kind)kind;
    role.is_collective = is_collective;
    st = fl_fleet_init(&f, c, given == Py_None ? NULL : &role);
    return st ? core_fail(st) : core_handle(CORE_fleet, f, of, true);
}

static PyObject *fleet_look(PyObject *self, PyObject *args)
{
    fl_fleet *f;

    (void)self;
    if (!PyArg_ParseTuple(args, "O&", core_fleet, &f))
        return NULL;
    return Py_BuildValue("{s:N,s:N,s:i,s:i,s:i,s:i,s:s,s:s}", "is_worker",
                         PyBool_FromLong(fl_fleet_is_worker(f)), "is_server",
                         PyBool_FromLong(fl_fleet_is_server(f)), "worker_index",
                         fl_fleet_worker_index(f), "worker_num",
                         fl_fleet_worker_num(f), "server_index",
                         fl_fleet_server_index(f), "server_num",
                         fl_fleet_server_num(f), "worker_endpoints",
                         fl_fleet_worker_endpoints(f), "server_endpoints",
                         fl_fleet_server_endpoints(f));
}

/* --- strategies ---------------------------------------------------------- */

static PyObject *strategy_new(PyObject *self, PyObject *args)
{
    const char *kind;
    fl_strategy *s;
    PyObject *of;
    fl_fleet *f;
    fl_status st;

    (void)self;
    if (!PyArg_ParseTuple(args, "Os", &of, &kind) || !core_fleet(of, &f))
        return NULL;
    st = fl_strategy_new(&s, f, kind);
    return st ? core_fail(st) : core_handle(CORE_strategy, s, of, false);
}

static PyObject *strategy_set(PyObject *self, PyObject *args)
{
    const char *words;
    fl_strategy *s;

    (void)self;
    if (!PyArg_ParseTuple(args, "O&s", core_strategy, &s, &words))
        return NULL;
    return core_done(fl_strategy_set(s, words));
}

static PyObject *strategy_get(PyObject *self, PyObject *args)
{
    const char *name, *value;
    fl_strategy *s;

    (void)self;
    if (!PyArg_ParseTuple(args, "O&s", core_strategy, &s, &name))
        return NULL;
    value = fl_strategy_get(s, name);
    if (!value)
        return PyErr_Format(PyExc_KeyError, "a strategy has no %s", name);
    return PyUnicode_FromString(value);
}

static PyObject *strategy_text(PyObject *self, PyObject *args)
{
    fl_strategy *s;

    (void)self;
    if (!PyArg_ParseTuple(args, "O&", core_strategy, &s))
        return NULL;
    return core_text(fl_strategy_text(s));
}

/* --- programs ------------------------------------------------------------ */

/* fleet_distribute(fleet, strategy or None, main, startup, scope) */
static PyObject *fleet_distribute(PyObject *self, PyObject *args)
{
    fl_program *main, *startup;
    PyObject *of, *in;
    fl_strategy *s;
    fl_scope *scope;
    fl_fleet *f;
    fl_status st;
    fl_ctx *c;

    (void)self;
    if (!PyArg_ParseTuple(args, "OO&O&O&O", &of, core_strategy_or_none, &s,
                          core_program, &main, core_program, &startup, &in) ||
        !core_fleet(of, &f) || !core_ctx(core_owner(of), &c) ||
        !core_scope(in, &scope))
        return NULL;
    fl_scope_push(c, scope);
    st = fl_fleet_distribute(f, s, main, startup);
    fl_scope_pop(c);
    core_hold(of, in);
    return core_done(st);
}

/* fleet_program(fleet, is_startup): what this process runs. */
static PyObject *fleet_program(PyObject *self, PyObject *args)
{
    fl_program *p;
    PyObject *of;
    fl_fleet *f;
    int is_startup;

    (void)self;
    if (!PyArg_ParseTuple(args, "Op", &of, &is_startup) || !core_fleet(of, &f))
        return NULL;
    p = is_startup ? fl_fleet_startup_program(f) : fl_fleet_main_program(f);
    return p ? core_handle(CORE_program, p, of, false)
             : core_fail(fl_last_status());
}

/* transpile(ctx, role, trainer_id, pservers, n_trainers, mode, main, startup,
   scope) */
static PyObject *transpile(PyObject *self, PyObject *args)
{
    fl_transpile_args a = FL_INIT(fl_transpile_args, .trainer_id = 0);
    PyObject *of, *in;
    fl_transpiler *t;
    fl_scope *scope;
    fl_ctx *c;
    fl_status st;
    int role;

    (void)self;
    if (!PyArg_ParseTuple(args, "OiisisO&O&O", &of, &role, &a.trainer_id,
                          &a.pservers, &a.n_trainers, &a.mode, core_program,
                          &a.program, core_program, &a.startup_program, &in) ||
        !core_ctx(of, &c) || !core_scope(in, &scope))
        return NULL;
    a.role = (fl_role_kind)role;
    fl_scope_push(c, scope);
    st = fl_transpile_with(&t, c, &a);
    fl_scope_pop(c);
    if (st)
        return core_fail(st);
    return core_hold(core_handle(CORE_transpiler, t, of, true), in);
}

/* transpiler_program(transpiler, endpoint or None, is_startup): what the server
   there runs, or a trainer. */
static PyObject *transpiler_program(PyObject *self, PyObject *args)
{
    const char *endpoint;
    fl_transpiler *t;
    fl_program *p;
    PyObject *of;
    int is_startup;

    (void)self;
    if (!PyArg_ParseTuple(args, "Ozp", &of, &endpoint, &is_startup) ||
        !core_transpiler(of, &t))
        return NULL;
    if (endpoint)
        p = is_startup ? fl_transpiler_startup(t, endpoint)
                       : fl_transpiler_server(t, endpoint);
    else
        p = is_startup ? fl_transpiler_trainer_startup(t)
                       : fl_transpiler_trainer(t);
    return p ? core_handle(CORE_program, p, of, false)
             : core_fail(fl_last_status());
}

/* --- what members do ----------------------------------------------------- */

static fl_status run_server(fl_fleet *f, const char *dir)
{
    (void)dir;
    return fl_fleet_run_server(f);
}

static fl_status init_worker(fl_fleet *f, const char *dir)
{
    (void)dir;
    return fl_fleet_init_worker(f);
}

static fl_status stop_worker(fl_fleet *f, const char *dir)
{
    (void)dir;
    return fl_fleet_stop_worker(f);
}

static fl_status barrier(fl_fleet *f, const char *dir)
{
    (void)dir;
    return fl_fleet_barrier_worker(f);
}

/* Without coming to the job first, when nothing was run. */
static fl_status leave(fl_fleet *f, const char *dir)
{
    (void)dir;
    return fl_fleet_job(f) ? fl_job_stop(fl_fleet_job(f)) : FL_OK;
}

/* By number; some take a folder. */
static fl_status (*const deeds[])(fl_fleet *, const char *) = {
    fl_fleet_init_server,
    run_server,
    init_worker,
    stop_worker,
    barrier,
    fl_fleet_save_persistables,
    fl_fleet_save_delta,
    fl_fleet_load_model,
    leave,
};

/* fleet_do(fleet, deed, folder or None) */
static PyObject *fleet_do(PyObject *self, PyObject *args)
{
    const char *dir;
    fl_fleet *f;
    unsigned deed;
    fl_status st;

    (void)self;
    if (!PyArg_ParseTuple(args, "O&Iz", core_fleet, &f, &deed, &dir))
        return NULL;
    if (deed >= sizeof deeds / sizeof *deeds)
        return PyErr_Format(PyExc_SystemError, "no deed %u", deed);
    CORE_WORK(st, deeds[deed](f, dir));
    return core_done(st);
}

/* fleet_shrink(fleet, unseen_days): how many rows went. */
static PyObject *fleet_shrink(PyObject *self, PyObject *args)
{
    uint64_t removed = 0;
    fl_status st;
    fl_fleet *f;
    int days;

    (void)self;
    if (!PyArg_ParseTuple(args, "O&i", core_fleet, &f, &days))
        return NULL;
    CORE_WORK(st, fl_fleet_shrink(f, days, &removed));
    return st ? core_fail(st) : PyLong_FromUnsignedLongLong(removed);
}

/* --- together ------------------------------------------------------------ */

static PyObject *number_list(const double *x, size_t n)
{
    PyObject *list = PyList_New((Py_ssize_t)n);

    for (size_t i = 0; list && i < n; i++) {
        PyObject *item = PyFloat_FromDouble(x[i]);

        if (!item || PyList_SetItem(list, (Py_ssize_t)i, item))
            Py_CLEAR(list);
    }
    return list;
}

/* fleet_reduce(fleet, kind, numbers): over all workers. */
static PyObject *fleet_reduce(PyObject *self, PyObject *args)
{
    core_memory memory = { 0 };
    PyObject *o, *result = NULL;
    double *x;
    size_t n;
    fl_fleet *f;
    fl_status st;
    int kind;

    (void)self;
    if (!PyArg_ParseTuple(args, "O&iO", core_fleet, &f, &kind, &o))
        return NULL;
    x = core_floats(&memory, o, &n);
    if (x) {
        CORE_WORK(st, fl_fleet_util_all_reduce(f, (fl_reduce_kind)kind, x, n));
        result = st ? core_fail(st) : number_list(x, n);
    }
    core_release(&memory);
    return result;
}

/* fleet_gather(fleet, number): that of every worker, in the order of ranks. */
static PyObject *fleet_gather(PyObject *self, PyObject *args)
{
    core_memory memory = { 0 };
    PyObject *result;
    fl_fleet *f;
    double x, *all;
    fl_status st;

    (void)self;
    if (!PyArg_ParseTuple(args, "O&d", core_fleet, &f, &x))
        return NULL;
    all = core_alloc(&memory, (size_t)fl_fleet_worker_num(f), sizeof *all);
    if (!all)
        return NULL;
    CORE_WORK(st, fl_fleet_util_all_gather(f, &x, 1, all));
    result =
        st ? core_fail(st) : number_list(all, (size_t)fl_fleet_worker_num(f));
    core_release(&memory);
    return result;
}

PyMethodDef core_fleet_methods[] = {
    { "fleet_new", fleet_new, METH_VARARGS, "A member of a job." },
    { "fleet_look", fleet_look, METH_VARARGS, "Who it is, as a dict." },
    { "strategy_new", strategy_new, METH_VARARGS, "A strategy of a kind." },
    { "strategy_set", strategy_set, METH_VARARGS, "Settings in words." },
    { "strategy_get", strategy_get, METH_VARARGS, "A setting, as text." },
    { "strategy_text", strategy_text, METH_VARARGS, "All of them." },
    { "fleet_distribute", fleet_distribute, METH_VARARGS,
      "Makes the programs of this process." },
    { "fleet_program", fleet_program, METH_VARARGS, "One of them." },
    { "transpile", transpile, METH_VARARGS,
      "Makes the programs of trainers and servers." },
    { "transpiler_program", transpiler_program, METH_VARARGS, "One of them." },
    { "fleet_do", fleet_do, METH_VARARGS, "What a member does." },
    { "fleet_shrink", fleet_shrink, METH_VARARGS,
      "Rows that were not seen for long go." },
    { "fleet_reduce", fleet_reduce, METH_VARARGS, "Numbers over workers." },
    { "fleet_gather", fleet_gather, METH_VARARGS, "A number of every one." },
    { NULL, NULL, 0, NULL },
};
