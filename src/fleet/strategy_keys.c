/* strategy_keys.c - the only place that expands strategy_keys.def. */
#include "fleet/strategy_keys.h"

#include "flotilla/words.h"
#include "base/vec.h"

/* --- the lists ------------------------------------------------------------ */

#define OWN_int(d, l, h)                                                       \
    .type = FL_KEY_INT, .def.i = (d), .lo.i = (l), .hi.i = (h)
#define OWN_bool(d, l, h)                                                      \
    .type = FL_KEY_BOOL, .def.b = (d), .lo.b = (l), .hi.b = (h)
#define OWN_string(d, l, h)                                                    \
    .type = FL_KEY_STRING, .def.s = (d), .lo.s = (l), .hi.i = (h)

static const fl_key own_keys[] = {
#define FL_OWN(type_, name_, def_, lo_, hi_)                                   \
    { .name = #name_, OWN_##type_(def_, lo_, hi_) },
#include "fleet/strategy_keys.def"
#undef FL_OWN
};

#define FACTORY FL_STRATEGY_FACTORY
#define A_SYNC FL_STRATEGY_A_SYNC
#define ANY (FACTORY | A_SYNC)

const fl_strategy_row fl_strategy_rows[] = {
#define FL_ROW(group_, name_, kinds_, value_)                                  \
    { .group = #group_, .name = #name_, .kinds = (kinds_), .value = #value_ },
#include "fleet/strategy_keys.def"
#undef FL_ROW
};
const size_t fl_n_strategy_rows = FL_LEN(fl_strategy_rows);

static const struct {
    const char *setting, *value;
} a_sync_defaults[] = {
#define FL_A_SYNC_DEFAULT(setting_, value_) { #setting_, value_ },
#include "fleet/strategy_keys.def"
#undef FL_A_SYNC_DEFAULT
};

static const struct {
    const char *name, *other;
} zeros[] = {
#define FL_ZERO(name_, other_) { #name_, #other_ },
#include "fleet/strategy_keys.def"
#undef FL_ZERO
};

static const struct refused_row {
    const char *group, *name, *why;
} refused_rows[] = {
#define FL_REFUSED(group_, name_, why_) { #group_, #name_, why_ },
#include "fleet/strategy_keys.def"
#undef FL_REFUSED
};

static const char *const groups[] = {
    "strategy",
    "a_sync_configs",
    "program_config",
    "trainer_runtime_config",
    "server_runtime_config",
    "build_strategy",
    "execute_strategy",
    "gradient_merge_configs",
    "localsgd_configs",
};

/* --- keys ----------------------------------------------------------------- */

static const fl_key *key_of(const char *name)
{
    const fl_key *k;

    for (size_t i = 0; i < FL_LEN(own_keys); i++)
        if (!strcmp(own_keys[i].name, name))
            return &own_keys[i];
    k = fl_key_find(name);
    FL_ASSERT(k);
    return k;
}

const fl_key *fl_strategy_key(const fl_strategy_row *row)
{
    return key_of(row->value);
}

bool fl_strategy_key_is_own(const fl_key *key)
{
    return key >= own_keys && key < own_keys + FL_LEN(own_keys);
}

const fl_key *fl_strategy_zero_of(const fl_key *key)
{
    for (size_t i = 0; i < FL_LEN(zeros); i++)
        if (!strcmp(zeros[i].name, key->name))
            return key_of(zeros[i].other);
    return NULL;
}

/* A setting that no mode calls its own serves all of them. */
bool fl_strategy_row_is_used(const fl_strategy_row *row, const fl_mode *mode)
{
    bool is_special = false;

    for (size_t i = 0; i < fl_mode_count(); i++)
        is_special |= fl_mode_reads(fl_mode_at(i), row->value);
    return !mode || !is_special || fl_mode_reads(mode, row->value);
}

const char *fl_strategy_a_sync_default(const fl_key *key)
{
    for (size_t i = 0; i < FL_LEN(a_sync_defaults); i++)
        if (!strcmp(a_sync_defaults[i].setting, key->name))
            return a_sync_defaults[i].value;
    return NULL;
}

const char *fl_strategy_row_text(const fl_strategy_row *row,
                                 char buf[FL_STRATEGY_NAME_MAX])
{
    if (!strcmp(row->group, "strategy"))
        return row->name;
    snprintf(buf, FL_STRATEGY_NAME_MAX, "%s.%s", row->group, row->name);
    return buf;
}

/* --- names ---------------------------------------------------------------- */

/* A name as the user wrote it, taken apart. */
typedef struct wanted {
    char group[FL_STRATEGY_NAME_MAX]; /* "": any */
    const char *name;
} wanted;

static bool fits(const wanted *w, const char *group, const char *name)
{
    return (!*w->group || !strcmp(w->group, group)) && !strcmp(w->name, name);
}

static fl_status split(const char *name, wanted *w)
{
    const char *dot = strchr(name, '.');
    size_t len = dot ? (size_t)(dot - name) : 0;
    const char *nearest;

    w->name = dot ? dot + 1 : name;
    snprintf(w->group, sizeof(w->group), "%.*s", (int)len, name);
    if (!dot)
        return FL_OK;
    for (size_t i = 0; i < FL_LEN(groups); i++)
        if (!strcmp(groups[i], w->group))
            return FL_OK;
    nearest = fl_nearest_name(w->group, groups, FL_LEN(groups));
    FL_FAIL(FL_ERR_NOTFOUND,
            "a strategy has no group '%.60s'; %s%s%sdocs/fleet.md lists them",
            w->group, nearest ? "did you mean " : "", nearest ? nearest : "",
            nearest ? "? " : "");
}

static fl_status refuse_unknown(const wanted *w, fl_strategy_kinds kinds)
{
    FL_VEC(const char *) names = { 0 };
    const char *nearest;

    for (size_t i = 0; i < fl_n_strategy_rows; i++)
        if (fl_strategy_rows[i].kinds & kinds)
            fl_vec_push(&names, fl_strategy_rows[i].name);
    nearest = fl_nearest_name(w->name, names.data, names.len);
    fl_vec_release(&names);
    FL_FAIL(FL_ERR_NOTFOUND,
            "a strategy has no key '%.60s'%s%s; %s%s%sdocs/fleet.md lists them",
            w->name, *w->group ? " in " : "", w->group,
            nearest ? "did you mean " : "", nearest ? nearest : "",
            nearest ? "? " : "");
}

/* The name by which strategies of those kinds know the same value. */
static const char *other_name(const fl_strategy_row *row,
                              fl_strategy_kinds kinds)
{
    for (size_t i = 0; i < fl_n_strategy_rows; i++)
        if ((fl_strategy_rows[i].kinds & kinds) &&
            !strcmp(fl_strategy_rows[i].value, row->value))
            return fl_strategy_rows[i].name;
    return NULL;
}

static fl_status refuse_kind(const fl_strategy_row *row,
                             fl_strategy_kinds kinds)
{
    bool is_factory = kinds == FL_STRATEGY_FACTORY;
    const char *other = other_name(row, kinds);

    FL_FAIL(FL_ERR_INVAL, "%s.%s belongs to %s, and this strategy is %s%s%s",
            row->group, row->name,
            is_factory ? "strategies of kind a_sync"
                       : "strategies that are called as a mode",
            is_factory ? "another one"
                       : "of kind a_sync, where k_steps above 0 makes geo",
            other ? "; it is called here " : "", other ? other : "");
}

static const fl_strategy_row *find_row(const wanted *w, unsigned kinds)
{
    for (size_t i = 0; i < fl_n_strategy_rows; i++) {
        const fl_strategy_row *row = &fl_strategy_rows[i];

        if ((row->kinds & kinds) && fits(w, row->group, row->name))
            return row;
    }
    return NULL;
}

/* A name without its group must mean one value. */
static fl_status check_one(const wanted *w, const fl_strategy_row *row,
                           fl_strategy_kinds kinds)
{
    for (size_t i = 0; i < fl_n_strategy_rows; i++) {
        const fl_strategy_row *other = &fl_strategy_rows[i];

        if ((other->kinds & kinds) && fits(w, other->group, other->name) &&
            strcmp(other->value, row->value))
            FL_FAIL(FL_ERR_INVAL,
                    "%s is a key of two groups: say %s.%s or "
                    "%s.%s",
                    w->name, row->group, row->name, other->group, other->name);
    }
    return FL_OK;
}

fl_status fl_strategy_row_find(const char *name, fl_strategy_kinds kinds,
                               const fl_strategy_row **out)
{
    const fl_strategy_row *row;
    wanted w;

    FL_TRY(split(name, &w));
    row = find_row(&w, kinds);
    if (row) {
        FL_TRY(check_one(&w, row, kinds));
        *out = row;
        return FL_OK;
    }
    for (size_t i = 0; i < FL_LEN(refused_rows); i++)
        if (fits(&w, refused_rows[i].group, refused_rows[i].name))
            FL_FAIL(FL_ERR_INVAL, "%s.%s cannot be set: %s",
                    refused_rows[i].group, refused_rows[i].name,
                    refused_rows[i].why);
    row = find_row(&w, ANY);
    return row ? refuse_kind(row, kinds) : refuse_unknown(&w, kinds);
}
