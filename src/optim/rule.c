/* rule.c - the only place that expands the list of update rules. */
#include "optim/rule.h"

#include <string.h>

#define DECLARE(name, isa) extern const fl_rule name##_##isa;
#define ADDR(name, isa) &name##_##isa,

#define FL_OPTIM(name) FL_ISA_MAP(DECLARE, fl_rule_##name)
#include "optim/optims.def"
#undef FL_OPTIM

/* One line per rule, one column per instruction set. */
static const fl_rule *const all[][FL_ISA_AVX512 + 1] = {
#define FL_OPTIM(name) { FL_ISA_MAP(ADDR, fl_rule_##name) },
#include "optim/optims.def"
#undef FL_OPTIM
};

size_t fl_rule_count(void)
{
    return FL_LEN(all);
}

const fl_rule *fl_rule_at(size_t i)
{
    FL_ASSERT(i < FL_LEN(all));
    return all[i][fl_isa()];
}

const fl_rule *fl_rule_find(const char *name)
{
    for (size_t i = 0; i < FL_LEN(all); i++)
        if (strcmp(all[i][FL_ISA_BASE]->name, name) == 0)
            return fl_rule_at(i);
    return NULL;
}

static int count_slots(const fl_rule_state *slots, int max)
{
    int n = 0;

    while (n < max && slots[n].slot)
        n++;
    return n;
}

int fl_rule_n_states(const fl_rule *r)
{
    return count_slots(r->states, FL_RULE_STATE_MAX);
}

int fl_rule_n_scalars(const fl_rule *r)
{
    return count_slots(r->scalars, FL_RULE_SCALAR_MAX);
}

int fl_rule_n_params(const fl_rule *r)
{
    int n = 0;

    while (n < FL_RULE_PARAM_MAX && r->params[n].name)
        n++;
    return n;
}
