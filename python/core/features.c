/* features.c - functions of columns as operators of a program. */
#include "core.h"

/* What features is asked for. */
typedef struct asked {
    fl_ctx *ctx;
    fl_program *program;
    const char *prefix, *text, *format, *label, *stats;
} asked;

/* Over the slots that the format says it has. */
static fl_status read_text(const asked *a, fl_features **out)
{
    fl_dataset *d = NULL;
    const fl_slot *slots;
    fl_status st = fl_dataset_new(&d, a->ctx, "QueueDataset");
    size_t n;

    if (!st)
        st = fl_dataset_set_format(d, a->format);
    slots = st ? NULL : fl_dataset_slots(d, &n);
    if (slots)
        st = fl_features_new(out, a->text, slots, n, .label = a->label,
                             .stats = a->stats);
    else if (!st)
        st = fl_last_status();
    fl_dataset_free(d);
    return st;
}

/* Python counts names for itself: those made here begin with the prefix. */
static fl_status build(const asked *a, fl_features *f)
{
    fl_status st = fl_program_push(a->ctx, a->program, NULL);

    if (st)
        return st;
    fl_names_push(a->ctx, a->prefix);
    st = fl_features_build(f, a->ctx);
    fl_names_pop(a->ctx);
    fl_program_pop(a->ctx);
    return st;
}

static PyObject *column_tuple(const fl_features *f, size_t i)
{
    fl_feature_column c = FL_INIT(fl_feature_column);
    fl_status st = fl_features_column_at(f, i, &c);

    if (st)
        return core_fail(st);
    return Py_BuildValue("sssnK", c.name, fl_var_name(c.var),
                         c.kind == FL_SLOT_FLOATS ? "number" : "category",
                         (Py_ssize_t)c.width, (unsigned long long)c.height);
}

static PyObject *feed_name(const fl_features *f, size_t i)
{
    size_t n;

    return PyUnicode_FromString(fl_features_feeds(f, &n)[i]);
}

static PyObject *list_of(const fl_features *f, size_t n,
                         PyObject *(*item)(const fl_features *f, size_t i))
{
    PyObject *list = PyList_New((Py_ssize_t)n);

    for (size_t i = 0; list && i < n; i++) {
        PyObject *o = item(f, i);

        if (!o || PyList_SetItem(list, (Py_ssize_t)i, o))
            Py_CLEAR(list);
    }
    return list;
}

/* (ctx, program, prefix of names, text or None, format, label or None, stats or
   None): [(name, variable, kind, width, height)], and names of what is fed. */
static PyObject *features(PyObject *self, PyObject *args)
{
    PyObject *result = NULL;
    fl_features *f = NULL;
    size_t n_feeds;
    fl_status st;
    asked a;

    (void)self;
    if (!PyArg_ParseTuple(args, "O&O&szszz", core_ctx, &a.ctx, core_program,
                          &a.program, &a.prefix, &a.text, &a.format, &a.label,
                          &a.stats))
        return NULL;
    st = read_text(&a, &f);
    if (!st)
        st = build(&a, f);
    if (st) {
        core_fail(st);
    } else {
        (void)fl_features_feeds(f, &n_feeds);
        result = Py_BuildValue(
            "NN", list_of(f, fl_features_n_columns(f), column_tuple),
            list_of(f, n_feeds, feed_name));
    }
    fl_features_free(f);
    return result;
}

PyMethodDef core_features_methods[] = {
    METHOD(features, "Puts functions of columns into a program."),
    { NULL, NULL, 0, NULL },
};
