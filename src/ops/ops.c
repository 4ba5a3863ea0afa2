/* ops.c - the only place that expands the list of operators; those of the
 * update rules come behind it, and then those that programs have added. */
#include "ops/ops.h"

#include "flotilla/words.h"
#include "base/added.h"
#include "base/vec.h"
#include "ops/optimize.h"

#define FL_OP(name) extern const fl_op fl_op_##name;
#include "ops/ops.def"
#undef FL_OP

static const fl_op *const all[] = {
#define FL_OP(name) &fl_op_##name,
#include "ops/ops.def"
#undef FL_OP
};

static fl_added own = FL_ADDED_EMPTY;

size_t fl_ops_count(void)
{
    return FL_LEN(all) + fl_update_op_count() + fl_added_count(&own);
}

const fl_op *fl_ops_at(size_t i)
{
    size_t n_updates = fl_update_op_count();

    if (i < FL_LEN(all))
        return all[i];
    i -= FL_LEN(all);
    return i < n_updates ? fl_update_op_at(i)
                         : fl_added_at(&own, i - n_updates);
}

static const fl_op *find(const char *name)
{
    for (size_t i = 0; i < fl_ops_count(); i++)
        if (!strcmp(fl_ops_at(i)->name, name))
            return fl_ops_at(i);
    return NULL;
}

static const void *find_any(const char *name)
{
    return find(name);
}

fl_status fl_op_add_sized(const fl_op *op, size_t size)
{
    FL_TRY(fl_added_check_size("operator", size, sizeof(fl_op)));
    if (!op->infer || !op->run || !op->doc)
        FL_FAIL(FL_ERR_INVAL, "operator %s needs infer, run and doc",
                op->name ? op->name : "");
    return fl_added_push(&own, &(fl_addition){ .item = op,
                                               .what = "operator",
                                               .name = op->name,
                                               .find = find_any });
}

static const char *nearest(const char *name)
{
    FL_VEC(const char *) names = { 0 };
    const char *found;

    for (size_t i = 0; i < fl_ops_count(); i++)
        fl_vec_push(&names, fl_ops_at(i)->name);
    found = fl_nearest_name(name, names.data, names.len);
    fl_vec_release(&names);
    return found;
}

/* Operators that programs of others have and this version does not. */
static const struct {
    const char *name, *why;
} refused[] = {
    { "cudnn_lstm", "it runs on a GPU alone; lstm is there" },
};

static const char *refusal(const char *name)
{
    for (size_t i = 0; i < FL_LEN(refused); i++)
        if (!strcmp(refused[i].name, name))
            return refused[i].why;
    return NULL;
}

const fl_op_set fl_ops = { .find = find,
                           .nearest = nearest,
                           .refusal = refusal };
