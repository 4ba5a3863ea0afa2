/* strategy.c - strategies: values set, got and printed. */
#include "fleet/strategy.h"

#include "base/json.h"
#include "flotilla/words.h"
#include "conf/words.h"

/* The kind that decides by its values which mode it is. */
static const char a_sync[] = "a_sync";

static fl_status make(fl_strategy **out, fl_conf *conf, const char *kind,
                      const fl_mode *mode)
{
    fl_strategy *s = fl_alloc(sizeof(*s));

    s->conf = conf;
    s->kind = kind;
    s->kinds = mode ? FL_STRATEGY_FACTORY : FL_STRATEGY_A_SYNC;
    s->mode = mode;
    *out = s;
    return FL_OK;
}

static fl_status refuse_kind(const char *kind)
{
    FL_VEC(const char *) names = { 0 };
    const char *nearest;
    fl_str known = { 0 };

    for (size_t i = 0; i < fl_mode_count(); i++)
        if (fl_mode_is_of_jobs(fl_mode_at(i)))
            fl_vec_push(&names, fl_mode_at(i)->name);
    fl_vec_push(&names, a_sync);
    for (size_t i = 0; i < names.len; i++)
        fl_str_addf(&known, "%s%s",
                    !i                  ? ""
                    : i + 1 < names.len ? ", "
                                        : " and ",
                    names.data[i]);
    nearest = fl_nearest_name(kind, names.data, names.len);
    (void)fl_err_set(FL_ERR_NOTFOUND,
                     "there is no strategy '%.60s'; %s%s%sthere are %s", kind,
                     nearest ? "did you mean " : "", nearest ? nearest : "",
                     nearest ? "? " : "", fl_str_text(&known));
    fl_vec_release(&names);
    fl_str_release(&known);
    return FL_ERR_NOTFOUND;
}

fl_status fl_strategy_make(fl_strategy **out, fl_conf *conf, const char *kind)
{
    const fl_mode *mode = fl_mode_find(kind);

    if (mode && fl_mode_is_of_jobs(mode))
        return make(out, conf, mode->name, mode);
    if (!strcmp(kind, a_sync))
        return make(out, conf, a_sync, NULL);
    return refuse_kind(kind);
}

static void release_value(fl_strategy_value *v)
{
    if (v->key->type == FL_KEY_STRING)
        fl_free((void *)(uintptr_t)v->value.s);
}

void fl_strategy_free(fl_strategy *s)
{
    if (!s)
        return;
    for (size_t i = 0; i < s->set.len; i++)
        release_value(&s->set.data[i]);
    fl_vec_release(&s->set);
    fl_free(s);
}

/* --- values --------------------------------------------------------------- */

static fl_strategy_value *find_set(const fl_strategy *s, const fl_key *key)
{
    for (size_t i = 0; i < s->set.len; i++)
        if (s->set.data[i].key == key)
            return &s->set.data[i];
    return NULL;
}

static fl_key_value own_default(const fl_strategy *s, const fl_key *key)
{
    if (!strcmp(key->name, "k_steps") && s->mode == &fl_mode_geo)
        return (fl_key_value){ .i = FL_AUTO_K_STEPS };
    return key->def;
}

static fl_key_value a_sync_default(const fl_key *key, fl_key_value other)
{
    const char *text = fl_strategy_a_sync_default(key);
    fl_key_value v = other;
    fl_status st = text ? fl_key_parse(key, text, &v) : FL_OK;

    FL_ASSERT(!st);
    return v;
}

fl_key_value fl_strategy_raw(const fl_strategy *s, const fl_key *key,
                             fl_conf_from *from)
{
    const fl_strategy_value *set = find_set(s, key);
    fl_key_value v;

    *from = set ? FL_FROM_CALL : FL_FROM_DEFAULT;
    if (set)
        return set->value;
    if (fl_strategy_key_is_own(key))
        return own_default(s, key);
    *from = fl_conf_from_of(s->conf, key->name);
    v = fl_conf_value(s->conf, key);
    if (*from == FL_FROM_DEFAULT && s->kinds == FL_STRATEGY_A_SYNC)
        v = a_sync_default(key, v);
    return v;
}

/* The value that another key has, which says where it comes from unless this
   one was set. */
static fl_key_value instead(const fl_strategy *s, const fl_key *other,
                            fl_conf_from *from)
{
    fl_conf_from theirs;
    fl_key_value v = fl_strategy_effective(s, other, &theirs);

    if (*from == FL_FROM_DEFAULT)
        *from = theirs;
    return v;
}

/* Replicas share their memory: one owner per gradient is less work. */
static fl_key_value default_reduce(const fl_strategy *s, fl_key_value v,
                                   fl_conf_from *from)
{
    static const fl_strategy_row replicas = { .value = "num_replicas" };
    fl_conf_from theirs = *from;

    if (instead(s, fl_strategy_key(&replicas), &theirs).i == 1)
        return v;
    *from = theirs;
    return (fl_key_value){ .s = "reduce" };
}

fl_key_value fl_strategy_effective(const fl_strategy *s, const fl_key *key,
                                   fl_conf_from *from)
{
    const fl_key *other = fl_strategy_zero_of(key);
    fl_key_value v = fl_strategy_raw(s, key, from);

    if (other && v.i == 0)
        return instead(s, other, from);
    if (!strcmp(key->name, "reduce_strategy") && *from == FL_FROM_DEFAULT)
        return default_reduce(s, v, from);
    return v;
}

static const char *text_of(fl_strategy *s, const fl_key *key)
{
    fl_conf_from from;
    fl_key_value v = fl_strategy_effective(s, key, &from);

    return fl_key_print(key, &v, s->text);
}

const char *fl_strategy_get(fl_strategy *s, const char *name)
{
    const fl_strategy_row *row;

    if (fl_strategy_row_find(name, s->kinds, &row))
        return NULL;
    return text_of(s, fl_strategy_key(row));
}

fl_key_value fl_strategy_value_of(const fl_strategy *s, const char *name)
{
    const fl_strategy_row *row = NULL;
    fl_status st = fl_strategy_row_find(name, s->kinds, &row);
    fl_conf_from from;

    FL_ASSERT(!st);
    return fl_strategy_effective(s, fl_strategy_key(row), &from);
}

/* --- words ---------------------------------------------------------------- */

/* One name=value of the words, looked up. */
typedef struct entry {
    const fl_strategy_row *row;
    const fl_key *key;
    const char *text;
    fl_key_value value; /* a string is borrowed */
} entry;

static fl_status refuse_mode(const fl_strategy *s, const fl_strategy_row *row)
{
    fl_str users = { 0 };

    for (size_t i = 0; i < fl_mode_count(); i++)
        if (fl_mode_reads(fl_mode_at(i), row->value))
            fl_str_addf(&users, "%s%s", users.len ? " and " : "",
                        fl_mode_at(i)->name);
    (void)fl_err_set(FL_ERR_INVAL,
                     "%s.%s is not used in mode %s, only in %s; leave it out, "
                     "or take another mode",
                     row->group, row->name, s->mode->name, fl_str_text(&users));
    fl_str_release(&users);
    return FL_ERR_INVAL;
}

static fl_status parse_value(entry *e)
{
    FL_TRY(fl_err_ctx(fl_key_parse(e->key, e->text, &e->value), "%s.%s",
                      e->row->group, e->row->name));
    if (!strcmp(e->key->name, "launch_barrier") && !e->value.b)
        FL_FAIL(FL_ERR_INVAL,
                "%s.%s=false cannot be: workers and servers always wait until "
                "all members of the job are there",
                e->row->group, e->row->name);
    return FL_OK;
}

static void store(fl_strategy *s, const entry *e)
{
    fl_strategy_value v = { e->key, e->value };
    fl_strategy_value *old = find_set(s, e->key);

    if (e->key->type == FL_KEY_STRING)
        v.value.s = fl_strdup(e->value.s);
    if (!old) {
        fl_vec_push(&s->set, v);
        return;
    }
    release_value(old);
    *old = v;
}

/* Who wrote the words: the user, who means every one of them, or a struct that
   has a field for everything. */
typedef enum writer { BY_USER, BY_FIELDS } writer;
typedef enum what_to_do { ONLY_CHECK, STORE } what_to_do;

static bool says_nothing(fl_strategy *s, const entry *e)
{
    if (!fl_strategy_row_is_used(e->row, s->mode) &&
        (!strcmp(e->text, "0") || !strcmp(e->text, "false")))
        return true;
    return !strcmp(e->text, text_of(s, e->key));
}

static fl_status take_entry(fl_strategy *s, entry *e, writer by,
                            what_to_do what)
{
    if (by == BY_FIELDS && says_nothing(s, e))
        return FL_OK;
    if (!fl_strategy_row_is_used(e->row, s->mode))
        return refuse_mode(s, e->row);
    FL_TRY(parse_value(e));
    if (what == STORE)
        store(s, e);
    return FL_OK;
}

static fl_status take_words(fl_strategy *s, const fl_words *words, writer by,
                            what_to_do what)
{
    for (size_t i = 0; i < words->list.len; i++) {
        const fl_word *w = &words->list.data[i];
        entry e = { .text = w->value };

        FL_TRY(fl_strategy_row_find(w->name, s->kinds, &e.row));
        e.key = fl_strategy_key(e.row);
        FL_TRY(take_entry(s, &e, by, what));
    }
    return FL_OK;
}

/* All words or none. */
static fl_status set_words(fl_strategy *s, const char *text, writer by)
{
    fl_words words;
    fl_status st;

    if (s->is_used)
        FL_FAIL(FL_ERR_INVAL,
                "strategy %s: fl_fleet_minimize has made the programs with it; "
                "set '%.60s' before that",
                s->kind, text);
    st = fl_words_read(&words, text, FL_WORDS_SETTINGS);
    if (st)
        return fl_err_ctx(st, "strategy %s", s->kind);
    st = take_words(s, &words, by, ONLY_CHECK);
    if (!st)
        st = take_words(s, &words, by, STORE);
    fl_words_release(&words);
    return fl_err_ctx(st, "strategy %s", s->kind);
}

fl_status fl_strategy_set(fl_strategy *s, const char *words)
{
    return set_words(s, words, BY_USER);
}

fl_status fl_strategy_set_fields(fl_strategy *s, const char *words)
{
    return set_words(s, words, BY_FIELDS);
}

/* --- text ----------------------------------------------------------------- */

static bool is_shown(const fl_strategy *s, size_t i, const fl_mode *mode)
{
    const fl_strategy_row *row = &fl_strategy_rows[i];

    if (!(row->kinds & s->kinds) || !fl_strategy_row_is_used(row, mode))
        return false;
    while (i--)
        if ((fl_strategy_rows[i].kinds & s->kinds) &&
            !strcmp(fl_strategy_rows[i].value, row->value))
            return false;
    return true;
}

static void add_mode(fl_str *out, const fl_strategy *s, const fl_mode **mode)
{
    if (fl_strategy_mode_of(s, mode))
        fl_str_addf(out, "mode none: %s\n", fl_last_error());
    else if (!*mode)
        fl_str_add(out, "mode chosen by fl_fleet_minimize\n");
    else
        fl_str_addf(out, "mode %s\n", (*mode)->name);
}

char *fl_strategy_text(fl_strategy *s)
{
    const fl_mode *mode = NULL;
    fl_str out = { 0 };

    fl_str_addf(&out, "strategy %s\n", s->kind);
    add_mode(&out, s, &mode);
    for (size_t i = 0; i < fl_n_strategy_rows; i++) {
        const fl_strategy_row *row = &fl_strategy_rows[i];
        char name[FL_STRATEGY_NAME_MAX];
        fl_conf_from from;

        if (!is_shown(s, i, mode))
            continue;
        (void)fl_strategy_effective(s, fl_strategy_key(row), &from);
        fl_str_addf(&out, "%s = %s (%s)\n", fl_strategy_row_text(row, name),
                    text_of(s, fl_strategy_key(row)), fl_conf_from_text(from));
    }
    return fl_str_take(&out);
}

static void add_value(fl_json *j, const fl_key *key, fl_key_value v)
{
    switch (key->type) {
    case FL_KEY_INT:
        fl_json_i64(j, "value", v.i);
        return;
    case FL_KEY_BOOL:
        fl_json_bool(j, "value", v.b);
        return;
    case FL_KEY_FLOAT:
        fl_json_f64(j, "value", v.f);
        return;
    case FL_KEY_STRING:
        break;
    }
    fl_json_text(j, "value", v.s);
}

static void add_row(fl_json *j, const fl_strategy *s,
                    const fl_strategy_row *row)
{
    const fl_key *key = fl_strategy_key(row);
    fl_conf_from from;
    fl_key_value v = fl_strategy_effective(s, key, &from);

    fl_json_object(j, NULL);
    fl_json_text(j, "group", row->group);
    fl_json_text(j, "name", row->name);
    add_value(j, key, v);
    fl_json_text(j, "from", fl_conf_from_text(from));
    fl_json_end(j);
}

char *fl_strategy_json(const fl_strategy *s)
{
    const fl_mode *mode = NULL;
    fl_status st = fl_strategy_mode_of(s, &mode);
    fl_json j = { 0 };

    fl_json_object(&j, NULL);
    fl_json_text(&j, "kind", s->kind);
    fl_json_text(&j, "mode", mode ? mode->name : NULL);
    fl_json_text(&j, "error", st ? fl_last_error() : NULL);
    fl_json_array(&j, "values");
    for (size_t i = 0; i < fl_n_strategy_rows; i++)
        if (is_shown(s, i, mode))
            add_row(&j, s, &fl_strategy_rows[i]);
    fl_json_end(&j);
    fl_json_end(&j);
    return fl_json_take(&j);
}
