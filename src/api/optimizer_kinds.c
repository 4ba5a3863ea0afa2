/* optimizer_kinds.c - the kinds of optimizers as data, from their rules. */
#include "flotilla/optimizer.h"

#include "base/args.h"
#include "optim/rule.h"

fl_status fl_optimizer_at(size_t i, fl_optimizer_view *out)
{
    const fl_rule *r;
    fl_optimizer_view view;

    if (i >= fl_rule_count())
        FL_FAIL(FL_ERR_NOTFOUND, "there are %zu kinds of optimizers",
                fl_rule_count());
    r = fl_rule_at(i);
    view = (fl_optimizer_view){
        .name = r->name,
        .doc = r->doc,
        .n_settings = (size_t)fl_rule_n_params(r),
        .n_states = (size_t)(fl_rule_n_states(r) + fl_rule_n_scalars(r)),
    };
    return FL_ARGS_FILL(fl_optimizer_view, out, &view);
}

static fl_status find(const char *kind, const fl_rule **out)
{
    *out = fl_rule_find(kind);
    return *out ? FL_OK : fl_rule_refuse(kind);
}

fl_status fl_optimizer_setting_at(const char *kind, size_t i,
                                  fl_optimizer_setting *out)
{
    fl_optimizer_setting view;
    const fl_rule *r;

    FL_TRY(find(kind, &r));
    if (i >= (size_t)fl_rule_n_params(r))
        FL_FAIL(FL_ERR_NOTFOUND, "optimizer %s has no setting %zu", kind, i);
    view = (fl_optimizer_setting){ .is_flag = r->params[i].is_flag,
                                   .name = r->params[i].name,
                                   .value = r->params[i].value,
                                   .lo = r->params[i].lo,
                                   .hi = r->params[i].hi };
    return FL_ARGS_FILL(fl_optimizer_setting, out, &view);
}

fl_status fl_optimizer_state_at(const char *kind, size_t i,
                                fl_optimizer_state_view *out)
{
    fl_optimizer_state_view view;
    const fl_rule_state *s;
    const fl_rule *r;

    FL_TRY(find(kind, &r));
    s = fl_rule_state_at(r, i);
    if (!s)
        FL_FAIL(FL_ERR_NOTFOUND, "optimizer %s has no state %zu", kind, i);
    view = (fl_optimizer_state_view){
        .is_scalar = i >= (size_t)fl_rule_n_states(r),
        .name = s->suffix,
        .slot = s->slot,
        .out_slot = s->out_slot,
        .first_from = s->first_from,
        .first = s->first,
    };
    return FL_ARGS_FILL(fl_optimizer_state_view, out, &view);
}
