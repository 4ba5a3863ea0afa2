/* dataset.c - datasets for the variables of a program. */
#include "ctx/ctx.h"
#include "api/slots.h"
#include "base/vec.h"
#include "data/dataset/dataset.h"

fl_status fl_dataset_new(fl_dataset **out, fl_ctx *c, const char *kind)
{
    return fl_dataset_make(out, &c->conf, kind);
}

/* --- heights ------------------------------------------------------------- */

static bool has_var(const fl_args *args, const fl_var *v)
{
    for (int i = 0; i < args->n; i++)
        if (args->vars[i] == v)
            return true;
    return false;
}

/* Rows of the table in which the operator looks the variable up; 0 when it
   looks up nothing there, or when the table has any row. */
static uint64_t height_in(const fl_op_node *n, const fl_var *v)
{
    int64_t rows = 0;
    bool is_looked_up = false;

    for (int i = 0; i < fl_node_n_in(n); i++) {
        const char *slot = fl_node_in_name(n, i);

        if (!strcmp(slot, "Ids"))
            is_looked_up = has_var(&n->in[i], v);
        if (!strcmp(slot, "W") && n->in[i].n)
            rows = n->in[i].vars[0]->meta.shape.dim[0];
    }
    return is_looked_up && rows > 0 ? (uint64_t)rows : 0;
}

/* An id has to be in all the tables that are asked for it. */
static uint64_t height_of(const fl_program *p, const fl_var *v)
{
    uint64_t least = 0;

    for (size_t b = 0; b < p->blocks.len; b++)
        for (const fl_op_node *n = p->blocks.data[b]->first; n; n = n->next) {
            uint64_t height = height_in(n, v);

            if (height && (!least || height < least))
                least = height;
        }
    return least;
}

/* --- variables ----------------------------------------------------------- */

/* A record has lists of single values, and no lists of lists. */
static fl_status check_lists(const fl_var *v)
{
    const fl_shape *s = &v->meta.shape;
    char buf[FL_SHAPE_TEXT_MAX];

    if (v->meta.n_lod > 1)
        FL_FAIL(FL_ERR_INVAL,
                "variable %s has %d levels of offsets; a dataset has at most "
                "one, a feeder or a reader two",
                v->name, v->meta.n_lod);
    if (v->meta.n_lod && fl_shape_count(s, 1, s->rank) != 1)
        FL_FAIL(FL_ERR_INVAL,
                "variable %s of shape %s is ragged, and lists of a dataset "
                "have single values; declare it [-1,1], or feed it by a feeder "
                "or a reader",
                v->name, fl_shape_text(s, buf));
    return FL_OK;
}

static fl_status resolve(fl_program *p, const char *const *names, size_t n,
                         fl_slot *slots, fl_shape *shapes)
{
    FL_TRY(fl_slots_of_vars(p, names, n, slots));
    for (size_t i = 0; i < n; i++) {
        const fl_var *v = fl_program_var(p, names[i]);

        if (!(v->flags & FL_VAR_DATA))
            FL_FAIL(FL_ERR_INVAL,
                    "variable %s is computed or learned, not fed; a dataset "
                    "feeds variables that fl_layers_data made",
                    names[i]);
        FL_TRY(check_lists(v));
        shapes[i] = v->meta.shape;
        if (slots[i].kind == FL_SLOT_IDS)
            slots[i].height = height_of(p, v);
    }
    return FL_OK;
}

static fl_status use_vars(fl_dataset *d, fl_program *p,
                          const char *const *names, size_t n_names)
{
    fl_slot *slots = fl_alloc(n_names * sizeof(*slots));
    fl_shape *shapes = fl_alloc(n_names * sizeof(*shapes));
    fl_status st = resolve(p, names, n_names, slots, shapes);

    if (!st)
        st = fl_dataset_set_shaped_slots(d, slots, shapes, n_names);
    fl_free(slots);
    fl_free(shapes);
    return st;
}

/* Everything that is fed, in the order in which the program declares it. */
static fl_status use_all(fl_dataset *d, fl_program *p)
{
    FL_VEC(const char *) names = { 0 };
    fl_status st;

    for (const fl_var *v = fl_program_main(p)->first_var; v; v = v->next)
        if (v->flags & FL_VAR_DATA)
            fl_vec_push(&names, v->name);
    if (names.len)
        st = use_vars(d, p, names.data, names.len);
    else
        st = fl_err_set(FL_ERR_INVAL,
                        "no names are given, and the program feeds no "
                        "variable; fl_layers_data makes one");
    fl_vec_release(&names);
    return st;
}

fl_status fl_dataset_set_use_var(fl_dataset *d, fl_program *p,
                                 const char *const *names, size_t n_names)
{
    fl_status st = n_names ? use_vars(d, p, names, n_names) : use_all(d, p);

    return fl_err_ctx(st, "fl_dataset_set_use_var");
}
