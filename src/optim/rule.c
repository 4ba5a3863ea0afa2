/* rule.c - the only place that expands the list of update rules. */
#include "optim/rule.h"

#include <string.h>

#include "base/added.h"

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

static fl_added own = FL_ADDED_EMPTY;

size_t fl_rule_count(void)
{
    return FL_LEN(all) + fl_added_count(&own);
}

const fl_rule *fl_rule_at(size_t i)
{
    return i < FL_LEN(all) ? all[i][fl_isa()]
                           : fl_added_at(&own, i - FL_LEN(all));
}

const fl_rule *fl_rule_find(const char *name)
{
    for (size_t i = 0; i < fl_rule_count(); i++)
        if (!strcmp(fl_rule_at(i)->name, name))
            return fl_rule_at(i);
    return NULL;
}

static const void *find_any(const char *name)
{
    return fl_rule_find(name);
}

fl_status fl_rule_add_sized(const fl_rule *rule, size_t size)
{
    FL_TRY(fl_added_check_size("update rule", size, sizeof(fl_rule)));
    if (!rule->update_f32 || !rule->update_f64 || !rule->doc)
        FL_FAIL(FL_ERR_INVAL,
                "update rule %s needs update_f32, update_f64 and doc",
                rule->name ? rule->name : "");
    return fl_added_push(&own, &(fl_addition){ .item = rule,
                                               .what = "update rule",
                                               .name = rule->name,
                                               .find = find_any });
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

const fl_rule_state *fl_rule_state_at(const fl_rule *r, size_t i)
{
    size_t n_states = (size_t)fl_rule_n_states(r);

    if (i < n_states)
        return &r->states[i];
    i -= n_states;
    return i < (size_t)fl_rule_n_scalars(r) ? &r->scalars[i] : NULL;
}

int fl_rule_n_params(const fl_rule *r)
{
    int n = 0;

    while (n < FL_RULE_PARAM_MAX && r->params[n].name)
        n++;
    return n;
}

fl_status fl_rule_refuse(const char *name)
{
    fl_str known = { 0 };

    for (size_t i = 0; i < fl_rule_count(); i++)
        fl_str_addf(&known, "%s%s", i ? ", " : "", fl_rule_at(i)->name);
    (void)fl_err_set(FL_ERR_NOTFOUND,
                     "no optimizer is called '%s'; there are %s", name,
                     fl_str_text(&known));
    fl_str_release(&known);
    return FL_ERR_NOTFOUND;
}

/* --- settings ------------------------------------------------------------- */

int fl_rule_find_param(const fl_rule *r, const char *name)
{
    for (int i = 0; i < fl_rule_n_params(r); i++) {
        const fl_rule_param *p = &r->params[i];

        if (!strcmp(p->name, name) || (p->word && !strcmp(p->word, name)))
            return i;
    }
    return -1;
}

void fl_rule_defaults(const fl_rule *r, double p[FL_RULE_PARAM_MAX])
{
    for (int i = 0; i < fl_rule_n_params(r); i++)
        p[i] = r->params[i].value;
}

static fl_key key_of(const fl_rule_param *p)
{
    return p->is_flag ? (fl_key){ .type = FL_KEY_BOOL, .name = p->name }
                      : (fl_key){ .type = FL_KEY_FLOAT,
                                  .name = p->name,
                                  .lo.f = p->lo,
                                  .hi.f = p->hi };
}

fl_status fl_rule_set(const fl_rule *r, int i, const fl_word *w,
                      double p[FL_RULE_PARAM_MAX])
{
    fl_key key = key_of(&r->params[i]);
    fl_key_value v;

    FL_TRY(fl_word_parse(w, &key, &v));
    p[i] = r->params[i].is_flag ? v.b : v.f;
    return FL_OK;
}

fl_status fl_rule_check(const fl_rule *r, const double p[FL_RULE_PARAM_MAX])
{
    char buf[FL_KEY_RANGE_MAX];

    for (int i = 0; i < fl_rule_n_params(r); i++) {
        const fl_rule_param *param = &r->params[i];
        fl_key key = key_of(param);

        if (!param->is_flag && !(p[i] >= param->lo && p[i] <= param->hi))
            FL_FAIL(FL_ERR_INVAL, "%s=%g is not a number in %s", param->name,
                    p[i], fl_key_range(&key, buf));
    }
    return FL_OK;
}

static fl_status take_words(fl_update *u, const fl_words *words)
{
    for (size_t i = 0; i < words->list.len; i++) {
        const fl_word *w = &words->list.data[i];
        int param = fl_rule_find_param(u->rule, w->name);

        if (param >= 0)
            FL_TRY(fl_rule_set(u->rule, param, w, u->p));
        else if (strcmp(w->name, "optimizer"))
            FL_FAIL(FL_ERR_INVAL, "optimizer %s has no setting %s",
                    u->rule->name, w->name);
    }
    return FL_OK;
}

fl_status fl_update_parse(const char *words, fl_update *out)
{
    const char *name;
    fl_update u = { 0 };
    fl_words list;
    fl_status st;

    FL_TRY(fl_words_read(&list, words, FL_WORDS_SETTINGS));
    name = fl_words_get(&list, "optimizer");
    u.rule = fl_rule_find(name ? name : "sgd");
    if (u.rule)
        fl_rule_defaults(u.rule, u.p);
    st = u.rule ? take_words(&u, &list) : fl_rule_refuse(name);
    fl_words_release(&list);
    if (!st)
        *out = u;
    return st;
}

void fl_update_print(const fl_update *u, fl_str *out)
{
    char buf[FL_KEY_NUMBER_MAX];

    fl_words_add(out, "optimizer", u->rule->name);
    for (int i = 0; i < fl_rule_n_params(u->rule); i++) {
        bool is_flag = u->rule->params[i].is_flag;
        fl_key key = key_of(&u->rule->params[i]);
        fl_key_value v = is_flag ? (fl_key_value){ .b = u->p[i] != 0 }
                                 : (fl_key_value){ .f = u->p[i] };

        fl_words_add(out, key.name, fl_key_print(&key, &v, buf));
    }
}

double fl_rule_first(const fl_rule *r, const fl_rule_state *s,
                     const double p[FL_RULE_PARAM_MAX])
{
    return s->first_from ? p[fl_rule_find_param(r, s->first_from)] : s->first;
}
