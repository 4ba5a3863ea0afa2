/* ir.c - programs and blocks. */
#include "core.h"

/* --- programs ------------------------------------------------------------ */

static PyObject *ctx_new(PyObject *self, PyObject *args)
{
    fl_ctx *c;
    fl_status st;

    (void)self;
    if (!PyArg_ParseTuple(args, ""))
        return NULL;
    st = fl_ctx_new(&c);
    return st ? core_fail(st) : core_handle(CORE_ctx, c, NULL, true);
}

static PyObject *ctx_set(PyObject *self, PyObject *args)
{
    fl_ctx *c;
    const char *name, *value;

    (void)self;
    if (!PyArg_ParseTuple(args, "O&ss", core_ctx, &c, &name, &value))
        return NULL;
    return core_done(fl_ctx_set(c, name, value));
}

static PyObject *record_number(PyObject *self, PyObject *args)
{
    unsigned long long step;
    const char *name;
    double value;
    fl_ctx *c;

    (void)self;
    if (!PyArg_ParseTuple(args, "O&sKd", core_ctx, &c, &name, &step, &value))
        return NULL;
    return core_done(fl_record_number(c, name, step, value));
}

static PyObject *record_note(PyObject *self, PyObject *args)
{
    const char *name, *text;
    fl_ctx *c;

    (void)self;
    if (!PyArg_ParseTuple(args, "O&ss", core_ctx, &c, &name, &text))
        return NULL;
    return core_done(fl_record_note(c, name, text));
}

static PyObject *ctx_get(PyObject *self, PyObject *args)
{
    fl_ctx *c;
    const char *name, *value;

    (void)self;
    if (!PyArg_ParseTuple(args, "O&s", core_ctx, &c, &name))
        return NULL;
    value = fl_ctx_get(c, name);
    if (!value)
        return PyErr_Format(PyExc_KeyError, "no setting is called %s", name);
    return PyUnicode_FromString(value);
}

static PyObject *ctx_push(PyObject *self, PyObject *args)
{
    fl_ctx *c;
    fl_program *main, *startup;

    (void)self;
    if (!PyArg_ParseTuple(args, "O&O&O&", core_ctx, &c, core_program, &main,
                          core_program_or_none, &startup))
        return NULL;
    return core_done(fl_program_push(c, main, startup));
}

static PyObject *ctx_pop(PyObject *self, PyObject *args)
{
    fl_ctx *c;

    (void)self;
    if (!PyArg_ParseTuple(args, "O&", core_ctx, &c))
        return NULL;
    fl_program_pop(c);
    Py_RETURN_NONE;
}

static PyObject *program_new(PyObject *self, PyObject *args)
{
    PyObject *owner;
    fl_program *p;
    fl_ctx *c;
    fl_status st;

    (void)self;
    if (!PyArg_ParseTuple(args, "O", &owner) || !core_ctx(owner, &c))
        return NULL;
    st = fl_program_new(&p, c);
    return st ? core_fail(st) : core_handle(CORE_program, p, owner, true);
}

static PyObject *program_from_text(PyObject *self, PyObject *args)
{
    PyObject *owner;
    const char *text;
    fl_program *p;
    fl_ctx *c;
    fl_status st;

    (void)self;
    if (!PyArg_ParseTuple(args, "Os", &owner, &text) || !core_ctx(owner, &c))
        return NULL;
    st = fl_program_from_text(&p, c, text);
    return st ? core_fail(st) : core_handle(CORE_program, p, owner, true);
}

static PyObject *program_text(PyObject *self, PyObject *args)
{
    fl_program *p;

    (void)self;
    if (!PyArg_ParseTuple(args, "O&", core_program, &p))
        return NULL;
    return core_text(fl_program_to_text(p));
}

static PyObject *program_svg(PyObject *self, PyObject *args)
{
    fl_program *p;

    (void)self;
    if (!PyArg_ParseTuple(args, "O&", core_program, &p))
        return NULL;
    return core_text(fl_program_to_svg(p));
}

static PyObject *program_dot(PyObject *self, PyObject *args)
{
    fl_drawn drawn = { 0 };
    fl_program *p;
    char *text;
    fl_status st;

    (void)self;
    if (!PyArg_ParseTuple(args, "O&", core_program, &p))
        return NULL;
    drawn.program = p;
    st = fl_programs_draw(&text, FL_DRAWING_DOT, &drawn, 1);
    return st ? core_fail(st) : core_text(text);
}

/* How a copy is made: all of it, or what a test needs. */
static PyObject *copy_with(PyObject *args,
                           fl_status (*fn)(fl_program **, const fl_program *))
{
    PyObject *of;
    fl_program *p, *copy;
    fl_status st;

    if (!PyArg_ParseTuple(args, "O", &of) || !core_program(of, &p))
        return NULL;
    st = fn(&copy, p);
    return st ? core_fail(st)
              : core_handle(CORE_program, copy, core_owner(of), true);
}

static PyObject *program_copy(PyObject *self, PyObject *args)
{
    (void)self;
    return copy_with(args, fl_program_copy);
}

static PyObject *program_for_test(PyObject *self, PyObject *args)
{
    (void)self;
    return copy_with(args, fl_program_for_test);
}

static PyObject *program_pruned(PyObject *self, PyObject *args)
{
    PyObject *of, *names;
    core_memory memory = { 0 };
    fl_program *p, *copy;
    const char **targets;
    size_t n;
    fl_status st;

    (void)self;
    if (!PyArg_ParseTuple(args, "OO", &of, &names) || !core_program(of, &p))
        return NULL;
    targets = core_names(&memory, names, &n);
    if (!targets) {
        core_release(&memory);
        return NULL;
    }
    st = fl_program_pruned(&copy, p, targets, n);
    core_release(&memory);
    return st ? core_fail(st)
              : core_handle(CORE_program, copy, core_owner(of), true);
}

static PyObject *program_seed(PyObject *self, PyObject *args)
{
    fl_program *p;

    (void)self;
    if (!PyArg_ParseTuple(args, "O&", core_program, &p))
        return NULL;
    return PyLong_FromUnsignedLongLong(fl_program_seed(p));
}

static PyObject *program_set_seed(PyObject *self, PyObject *args)
{
    fl_program *p;
    unsigned long long seed;

    (void)self;
    if (!PyArg_ParseTuple(args, "O&K", core_program, &p, &seed))
        return NULL;
    fl_program_set_seed(p, seed);
    Py_RETURN_NONE;
}

static PyObject *program_id(PyObject *self, PyObject *args)
{
    fl_program *p;

    (void)self;
    if (!PyArg_ParseTuple(args, "O&", core_program, &p))
        return NULL;
    return PyLong_FromUnsignedLongLong(fl_program_id(p));
}

static PyObject *program_version(PyObject *self, PyObject *args)
{
    fl_program *p;

    (void)self;
    if (!PyArg_ParseTuple(args, "O&", core_program, &p))
        return NULL;
    return PyLong_FromUnsignedLongLong(fl_program_version(p));
}

static PyObject *program_infer(PyObject *self, PyObject *args)
{
    fl_program *p;

    (void)self;
    if (!PyArg_ParseTuple(args, "O&", core_program, &p))
        return NULL;
    return core_done(fl_program_infer(p));
}

static PyObject *program_n_blocks(PyObject *self, PyObject *args)
{
    fl_program *p;

    (void)self;
    if (!PyArg_ParseTuple(args, "O&", core_program, &p))
        return NULL;
    return PyLong_FromSize_t(fl_program_n_blocks(p));
}

static PyObject *program_block(PyObject *self, PyObject *args)
{
    PyObject *of;
    fl_program *p;
    Py_ssize_t i;

    (void)self;
    if (!PyArg_ParseTuple(args, "On", &of, &i) || !core_program(of, &p))
        return NULL;
    return core_handle(CORE_block, fl_program_block(p, (size_t)i), of, false);
}

/* --- blocks -------------------------------------------------------------- */

static PyObject *block_new(PyObject *self, PyObject *args)
{
    PyObject *of;
    fl_block *parent, *b;
    fl_status st;

    (void)self;
    if (!PyArg_ParseTuple(args, "O", &of) || !core_block(of, &parent))
        return NULL;
    st = fl_block_new(&b, parent);
    return st ? core_fail(st)
              : core_handle(CORE_block, b, core_owner(of), false);
}

static PyObject *block_index(PyObject *self, PyObject *args)
{
    fl_block *b;

    (void)self;
    if (!PyArg_ParseTuple(args, "O&", core_block, &b))
        return NULL;
    return PyLong_FromSize_t(fl_block_index(b));
}

static PyObject *block_parent(PyObject *self, PyObject *args)
{
    const fl_block *parent;
    fl_block *b;

    (void)self;
    if (!PyArg_ParseTuple(args, "O&", core_block, &b))
        return NULL;
    parent = fl_block_parent(b);
    return PyLong_FromLong(parent ? (long)fl_block_index(parent) : -1);
}

static PyObject *block_var(PyObject *self, PyObject *args)
{
    PyObject *of;
    const char *name;
    fl_block *b;

    (void)self;
    if (!PyArg_ParseTuple(args, "Os", &of, &name) || !core_block(of, &b))
        return NULL;
    return core_handle(CORE_var, fl_block_var(b, name), core_owner(of), false);
}

/* The block's own variables, in the order in which they were made. */
static PyObject *block_vars(PyObject *self, PyObject *args)
{
    PyObject *of, *list;
    fl_block *b;

    (void)self;
    if (!PyArg_ParseTuple(args, "O", &of) || !core_block(of, &b))
        return NULL;
    list = PyList_New(0);
    for (fl_var *v = NULL; list && (v = fl_block_next_var(b, v));) {
        PyObject *h = core_handle(CORE_var, v, core_owner(of), false);

        if (!h || PyList_Append(list, h))
            Py_CLEAR(list);
        Py_XDECREF(h);
    }
    return list;
}

static PyObject *block_ops(PyObject *self, PyObject *args)
{
    PyObject *of, *list;
    fl_block *b;

    (void)self;
    if (!PyArg_ParseTuple(args, "O", &of) || !core_block(of, &b))
        return NULL;
    list = PyList_New(0);
    for (fl_op_node *n = NULL; list && (n = fl_block_next_op(b, n));) {
        PyObject *h = core_handle(CORE_op, n, core_owner(of), false);

        if (!h || PyList_Append(list, h))
            Py_CLEAR(list);
        Py_XDECREF(h);
    }
    return list;
}

PyMethodDef core_ir_methods[] = {
    METHOD(ctx_new, "A context."),
    METHOD(ctx_set, "Sets a setting, as text."),
    METHOD(ctx_get, "A setting, as text."),
    METHOD(record_number, "Adds a number to the record of the run."),
    METHOD(record_note, "Adds a fact to the record of the run."),
    METHOD(ctx_push, "Makes a pair of programs current."),
    METHOD(ctx_pop, "Ends what ctx_push began."),
    METHOD(program_new, "An empty program."),
    METHOD(program_from_text, "A program from its text form."),
    METHOD(program_text, "The text form."),
    METHOD(program_svg, "A drawing."),
    METHOD(program_dot, "The drawing as text for dot."),
    METHOD(program_copy, "A copy."),
    METHOD(program_for_test, "A copy without what trains."),
    METHOD(program_pruned, "A copy of what the targets need."),
    METHOD(program_seed, "The seed of its random operators."),
    METHOD(program_set_seed, "Sets it."),
    METHOD(program_version, "Grows with every change."),
    METHOD(program_id, "A number that no other program has."),
    METHOD(program_infer, "Infers every operator anew."),
    METHOD(program_n_blocks, "How many blocks it has."),
    METHOD(program_block, "Block i."),
    METHOD(block_new, "A new block below another."),
    METHOD(block_index, "Its number."),
    METHOD(block_parent, "The number of its parent, or -1."),
    METHOD(block_var, "The variable that a name means here, or None."),
    METHOD(block_vars, "Its own variables."),
    METHOD(block_ops, "Its operators."),
    { NULL, NULL, 0, NULL },
};
