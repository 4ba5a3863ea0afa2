/* ops.c - the only place that expands the list of operators. */
#include "ops/ops.h"

#include "base/hash.h"

#define FL_OP(name) extern const fl_op fl_op_##name;
#include "ops/ops.def"
#undef FL_OP

static const fl_op *const all[] = {
#define FL_OP(name) &fl_op_##name,
#include "ops/ops.def"
#undef FL_OP
};

size_t fl_ops_count(void)
{
    return FL_LEN(all);
}

const fl_op *fl_ops_at(size_t i)
{
    return all[i];
}

static const fl_op *find(const char *name)
{
    for (size_t i = 0; i < FL_LEN(all); i++)
        if (!strcmp(all[i]->name, name))
            return all[i];
    return NULL;
}

static const char *nearest(const char *name)
{
    const char *names[FL_LEN(all)];

    for (size_t i = 0; i < FL_LEN(all); i++)
        names[i] = all[i]->name;
    return fl_nearest_name(name, names, FL_LEN(all));
}

const fl_op_set fl_ops = { .find = find, .nearest = nearest };
