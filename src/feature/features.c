/* features.c - a text of features over the columns of some data: what has to be
 * learnt from statistics, which columns come of it, and their operators. */
#include "flotilla/features.h"

#include <string.h>

#include "base/args.h"
#include "base/file.h"
#include "feature/feature.h"
#include "flotilla/words.h"

#define FL_FEATURE(name) extern const fl_feature fl_feature_##name;
#include "feature/features.def"
#undef FL_FEATURE

const fl_feature *const fl_feature_all[] = {
#define FL_FEATURE(name) &fl_feature_##name,
#include "feature/features.def"
#undef FL_FEATURE
};
const size_t fl_feature_count = FL_LEN(fl_feature_all);

#define TEXT_BYTES_MAX ((size_t)1 << 24)

/* One that the network gets. */
typedef struct column {
    const char *name;
    fl_feature_node *node;
} column;

struct fl_features {
    fl_arena arena; /* all that follows, but for what grows */
    fl_slot *slots;
    fl_feature_node **raw; /* one for each slot */
    bool *is_used, *is_time;
    size_t n_slots, label; /* n_slots: there is no label */
    fl_stats *stats;
    fl_feature_lines lines;
    FL_VEC(column) columns;
    FL_VEC(const char *) feeds;
    bool is_built;
};

fl_numbers fl_numbers_of(fl_arena *a, double x)
{
    double *at = fl_arena_alloc(a, sizeof(*at));

    *at = x;
    return (fl_numbers){ .at = at, .n = 1 };
}

/* --- learning -------------------------------------------------------------- */

/* How the values of a node lie. */
static fl_status dist_of(const fl_features *f, const fl_feature_node *n,
                         fl_feature_dist *out)
{
    if (!n->fn)
        return fl_stats_column(f->stats, f->slots[n->slot].name, out);
    if (!n->fn->value)
        FL_FAIL(FL_ERR_INVAL,
                "there are no statistics of what %s gives; write the numbers",
                n->fn->name);
    FL_TRY(dist_of(f, n->args[0], out));
    fl_feature_dist_map(out, n->fn, n->params);
    return FL_OK;
}

static const char *lacks(const fl_feature_node *n)
{
    for (size_t i = 0; n->fn->params[i].name; i++)
        if (!n->params[i].at)
            return n->fn->params[i].name;
    return NULL;
}

static fl_status learn_params(fl_features *f, fl_feature_node *n)
{
    const char *name = lacks(n);
    fl_feature_dist *d;
    fl_status st;

    if (!name)
        return FL_OK;
    if (!n->fn->learn)
        FL_FAIL(FL_ERR_INVAL, "its %s is missing: write %s", name, n->fn->form);
    if (!f->stats)
        FL_FAIL(FL_ERR_INVAL,
                "its %s is learnt from statistics, and there are none: make "
                "them with `flotilla data count --stats FILE` and name that "
                "file, or write %s",
                name, n->fn->form);
    d = fl_alloc(sizeof(*d));
    st = dist_of(f, n->args[0], d);
    if (!st)
        n->fn->learn(d, &f->arena, n->params);
    fl_free(d);
    return st;
}

static fl_status check_node(const fl_feature_node *n)
{
    return n->fn->check ? n->fn->check(n->params) : FL_OK;
}

/* Columns first: what is learnt of a function depends on its own. */
static fl_status learn_node(fl_features *f, fl_feature_node *n)
{
    fl_status st;

    if (!n->fn) {
        f->is_used[n->slot] = true;
        return FL_OK;
    }
    for (size_t i = 0; i < n->n_args; i++) {
        FL_TRY(learn_node(f, n->args[i]));
        if (n->fn->takes_time && !n->args[i]->fn)
            f->is_time[n->args[i]->slot] = true;
    }
    st = check_node(n);
    if (!st)
        st = learn_params(f, n);
    if (!st)
        st = check_node(n);
    return fl_err_ctx(st, "%s", n->fn->name);
}

static fl_status learn_lines(fl_features *f)
{
    for (size_t i = 0; i < f->lines.len; i++) {
        const fl_feature_line *l = &f->lines.data[i];

        if (l->node)
            FL_TRY(fl_err_ctx(learn_node(f, l->node), "%s", l->name));
    }
    return FL_OK;
}

/* --- columns --------------------------------------------------------------- */

static const fl_feature_line *find_line(const fl_features *f, const char *name)
{
    for (size_t i = 0; i < f->lines.len; i++)
        if (!strcmp(f->lines.data[i].name, name))
            return &f->lines.data[i];
    return NULL;
}

static size_t find_slot(const fl_features *f, const char *name)
{
    size_t i = 0;

    while (i < f->n_slots && strcmp(f->slots[i].name, name) != 0)
        i++;
    return i;
}

static void add_column(fl_features *f, const char *name, fl_feature_node *node)
{
    column c = { .name = name, .node = node };

    fl_vec_push(&f->columns, c);
}

static void pick_columns(fl_features *f)
{
    for (size_t i = 0; i < f->n_slots; i++) {
        const fl_feature_line *l = find_line(f, f->slots[i].name);

        if (l && l->node)
            add_column(f, l->name, l->node);
        else if (!l && i != f->label && !f->is_time[i]) {
            add_column(f, f->slots[i].name, f->raw[i]);
            f->is_used[i] = true;
        }
    }
    for (size_t i = 0; i < f->lines.len; i++)
        if (f->lines.data[i].node &&
            find_slot(f, f->lines.data[i].name) == f->n_slots)
            add_column(f, f->lines.data[i].name, f->lines.data[i].node);
    for (size_t i = 0; i < f->n_slots; i++)
        if (f->is_used[i] || i == f->label)
            fl_vec_push(&f->feeds, f->slots[i].name);
}

static fl_status find_label(fl_features *f, const char *label)
{
    FL_VEC(const char *) names = { 0 };
    const char *near;

    f->label = f->n_slots;
    if (!label)
        return FL_OK;
    f->label = find_slot(f, label);
    if (f->label < f->n_slots)
        return FL_OK;
    for (size_t i = 0; i < f->n_slots; i++)
        fl_vec_push(&names, f->slots[i].name);
    near = fl_nearest_name(label, names.data, names.len);
    fl_vec_release(&names);
    FL_FAIL(FL_ERR_NOTFOUND,
            "the data has no column '%s' that could be the label%s%s%s", label,
            near ? "; did you mean " : "", near ? near : "", near ? "?" : "");
}

static fl_status check_label(const fl_features *f)
{
    if (f->label < f->n_slots && find_line(f, f->slots[f->label].name))
        FL_FAIL(FL_ERR_INVAL, "%s is the label, and not to be changed",
                f->slots[f->label].name);
    return FL_OK;
}

/* --- making ---------------------------------------------------------------- */

static void copy_slots(fl_features *f, const fl_slot *slots, size_t n)
{
    fl_arena *a = &f->arena;

    f->n_slots = n;
    f->slots = fl_arena_alloc(a, n * sizeof(*f->slots));
    f->raw = fl_arena_alloc(a, n * sizeof(*f->raw));
    f->is_used = fl_arena_alloc(a, n * sizeof(*f->is_used));
    f->is_time = fl_arena_alloc(a, n * sizeof(*f->is_time));
    for (size_t i = 0; i < n; i++) {
        f->slots[i] = slots[i];
        f->slots[i].name = fl_arena_strdup(a, slots[i].name);
        f->raw[i] = fl_arena_alloc(a, sizeof(**f->raw));
        *f->raw[i] = (fl_feature_node){ .slot = i,
                                        .kind = slots[i].kind,
                                        .width = slots[i].width };
    }
}

static fl_status read_lines(fl_features *f, const char *text)
{
    fl_feature_scope scope = { .arena = &f->arena,
                               .slots = f->slots,
                               .columns = f->raw,
                               .n_slots = f->n_slots };
    fl_status st;
    char *file;
    size_t len;

    if (!text || *text != '@')
        return fl_err_ctx(
            fl_features_parse(&scope, text ? text : "", &f->lines), "features");
    FL_TRY(fl_file_read(text + 1, TEXT_BYTES_MAX, &file, &len));
    st = fl_features_parse(&scope, file, &f->lines);
    fl_free(file);
    return fl_err_ctx(st, "features of %s", text + 1);
}

static fl_status read_all(fl_features *f, const char *text,
                          const fl_features_args *a)
{
    FL_TRY(find_label(f, a->label));
    FL_TRY(read_lines(f, text));
    FL_TRY(check_label(f));
    if (a->stats)
        FL_TRY(fl_stats_read(&f->stats, a->stats));
    FL_TRY(fl_err_ctx(learn_lines(f), "features"));
    pick_columns(f);
    return FL_OK;
}

fl_status fl_features_new_with(fl_features **out, const char *text,
                               const fl_slot *slots, size_t n_slots,
                               const fl_features_args *args)
{
    fl_features_args a;
    fl_features *f;
    fl_status st;

    FL_TRY(FL_ARGS_READ(fl_features_args, &a, args));
    f = fl_alloc(sizeof(*f));
    fl_arena_init(&f->arena, 4096);
    copy_slots(f, slots, n_slots);
    st = read_all(f, text, &a);
    if (st) {
        fl_features_free(f);
        return st;
    }
    *out = f;
    return FL_OK;
}

void fl_features_free(fl_features *f)
{
    if (!f)
        return;
    fl_vec_release(&f->lines);
    fl_vec_release(&f->columns);
    fl_vec_release(&f->feeds);
    fl_stats_free(f->stats);
    fl_arena_release(&f->arena);
    fl_free(f);
}

/* --- building -------------------------------------------------------------- */

static fl_var *data_of(const fl_features *f, fl_ctx *c, size_t slot)
{
    const fl_slot *s = &f->slots[slot];
    fl_var *v = fl_program_var(fl_default_main_program(c), s->name);

    if (v)
        return v;
    return fl_layers_data(
        c, s->name, s->kind == FL_SLOT_FLOATS ? FL_DTYPE_F32 : FL_DTYPE_I64, 2,
        (int64_t[]){ -1, s->width ? s->width : 1 }, s->width == 0);
}

static fl_var *build_node(const fl_features *f, fl_ctx *c, const char *name,
                          fl_feature_node *n)
{
    fl_feature_call call = { .ctx = c, .name = name, .params = n->params };
    FL_VEC(fl_var *) columns = { 0 };
    bool failed = false;

    if (n->var)
        return n->var;
    if (!n->fn)
        return n->var = data_of(f, c, n->slot);
    for (size_t i = 0; i < n->n_args && !failed; i++) {
        fl_var *v = build_node(f, c, name, n->args[i]);

        fl_vec_push(&columns, v);
        failed = !v;
    }
    call.columns = columns.data;
    call.n_columns = columns.len;
    if (!failed)
        n->var = n->fn->build(&call);
    fl_vec_release(&columns);
    return n->var;
}

fl_status fl_features_build(fl_features *f, fl_ctx *c)
{
    if (f->is_built)
        FL_FAIL(FL_ERR_INVAL, "these features are in a program already");
    f->is_built = true;
    if (f->label < f->n_slots && !data_of(f, c, f->label))
        return fl_last_status();
    for (size_t i = 0; i < f->columns.len; i++)
        if (!build_node(f, c, f->columns.data[i].name, f->columns.data[i].node))
            return fl_err_ctx(fl_last_status(), "features: %s",
                              f->columns.data[i].name);
    return FL_OK;
}

/* --- looking --------------------------------------------------------------- */

size_t fl_features_n_columns(const fl_features *f)
{
    return f->columns.len;
}

static uint64_t height_of(const fl_features *f, const fl_feature_node *n)
{
    if (!n->fn)
        return f->slots[n->slot].height;
    return n->fn->height ? n->fn->height(n->params) : 0;
}

fl_status fl_features_column_at(const fl_features *f, size_t i,
                                fl_feature_column *out)
{
    fl_feature_column c = { .size = sizeof(c) };
    const fl_feature_node *n;

    if (i >= f->columns.len)
        FL_FAIL(FL_ERR_NOTFOUND, "there are %zu columns, and no column %zu",
                f->columns.len, i);
    n = f->columns.data[i].node;
    c.name = f->columns.data[i].name;
    c.kind = n->kind;
    c.width = n->width;
    c.height = height_of(f, n);
    c.var = n->var;
    return FL_ARGS_FILL(fl_feature_column, out, &c);
}

const char *const *fl_features_feeds(const fl_features *f, size_t *n_feeds)
{
    *n_feeds = f->feeds.len;
    return f->feeds.data;
}

static void help_one(const fl_feature *f, fl_str *to)
{
    fl_str_addf(to, "%s\n    %s\n", f->form, f->doc);
    fl_str_addf(to, "    %s%s -> %s\n",
                f->takes & FL_TAKES_NUMBERS ? f->takes & FL_TAKES_CATEGORIES
                                                  ? "number or category"
                                                  : "number"
                                            : "category",
                f->takes_many ? ", any number of them" : "",
                f->gives == FL_SLOT_FLOATS ? "number" : "category");
}

char *fl_features_help(const char *name)
{
    fl_str to = { 0 };

    for (size_t i = 0; i < fl_feature_count; i++)
        if (!name || !strcmp(fl_feature_all[i]->name, name))
            help_one(fl_feature_all[i], &to);
    return to.len ? fl_str_take(&to) : NULL;
}
