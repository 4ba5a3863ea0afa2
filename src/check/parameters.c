/* parameters.c - dense variables, by bits. */
#include "check/check.h"

#include <inttypes.h>
#include <string.h>

#include "base/alloc.h"

/* "[3,1]": where element i is. */
static void add_place(fl_str *out, const fl_shape *s, int64_t i)
{
    int64_t rest = fl_shape_numel(s);

    for (int k = 0; k < s->rank; k++) {
        rest /= s->dim[k];
        fl_str_addf(out, "%s%" PRId64, k ? "," : "[", i / rest);
        i %= rest;
    }
    if (s->rank)
        fl_str_add(out, "]");
}

void fl_check_add_number(fl_str *out, const fl_tensor *t, int64_t i)
{
    if (t->dtype == FL_DTYPE_F32)
        fl_str_addf(out, "%.9g", (double)((const float *)t->data)[i]);
    else if (t->dtype == FL_DTYPE_F64)
        fl_str_addf(out, "%.17g", ((const double *)t->data)[i]);
    else if (t->dtype == FL_DTYPE_I64)
        fl_str_addf(out, "%" PRId64, ((const int64_t *)t->data)[i]);
    else
        fl_str_add(out, "another value");
}

static int64_t first_difference(const fl_tensor *a, const fl_tensor *b,
                                int64_t *count)
{
    size_t bytes = fl_dtype_bytes(a->dtype);
    int64_t first = -1;

    *count = 0;
    for (int64_t i = 0; i < fl_tensor_numel(a); i++)
        if (memcmp((const char *)a->data + (size_t)i * bytes,
                   (const char *)b->data + (size_t)i * bytes, bytes)) {
            first = first < 0 ? i : first;
            ++*count;
        }
    return first;
}

static void compare(fl_finding *f, const char *name, const fl_tensor *right,
                    const fl_tensor *online, const char *where)
{
    fl_str place = { 0 }, a = { 0 }, b = { 0 };
    int64_t count, at = first_difference(right, online, &count);

    f->compared++;
    if (at < 0)
        return;
    add_place(&place, &right->shape, at);
    fl_check_add_number(&a, right, at);
    fl_check_add_number(&b, online, at);
    fl_finding_add(f,
                   "variable %s%s: %s was trained, %s is %s; %" PRId64
                   " of %" PRId64 " numbers differ",
                   name, fl_str_text(&place), fl_str_text(&a), fl_str_text(&b),
                   where, count, fl_tensor_numel(right));
    fl_str_release(&place);
    fl_str_release(&a);
    fl_str_release(&b);
}

/* The same shape and type; what else there is, names.c has told. */
static bool is_like(const fl_tensor *a, const fl_tensor *b)
{
    return a->dtype == b->dtype && fl_shape_equal(&a->shape, &b->shape);
}

/* Where rows come from there may be parameters, too. */
static fl_status compare_far(fl_consistency *c, const char *name,
                             const fl_tensor *right)
{
    fl_finding *f = &c->findings[FL_CHECK_PARAMETERS];
    size_t n = (size_t)fl_tensor_numel(right);
    fl_tensor far = *right;
    fl_status st;

    if (!c->rows->ops->dense || right->dtype != FL_DTYPE_F32)
        return FL_OK;
    far.data = fl_alloc((n + 1) * sizeof(float));
    st = c->rows->ops->dense(c->rows, name, &right->shape, far.data);
    if (!st)
        compare(f, name, right, &far, c->where);
    else if (st == FL_ERR_NOTFOUND)
        fl_finding_add(f, "variable %s: there is none %s", name, c->where);
    fl_free(far.data);
    return st == FL_ERR_NOTFOUND ? FL_OK : st;
}

static fl_status check_one(fl_consistency *c, const char *name)
{
    fl_tensor right, online;

    if (!fl_scope_find(&c->trained->values, name, &right) ||
        !fl_scope_find(&c->online->values, name, &online) ||
        !is_like(&right, &online))
        return FL_OK;
    compare(&c->findings[FL_CHECK_PARAMETERS], name, &right, &online, "online");
    return compare_far(c, name, &right);
}

fl_status fl_check_parameters(fl_consistency *c)
{
    size_t n;
    const fl_var **params = fl_recipe_reads(c->trained->recipe->plan, &n);
    fl_status st = FL_OK;

    for (size_t i = 0; i < n && !st; i++)
        st = check_one(c, params[i]->name);
    fl_free(params);
    return st;
}
