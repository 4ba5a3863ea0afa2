/* strategy.c - strategies: values set, got and printed. */
#include "fleet/strategy.h"

#include "flotilla/words.h"
#include "conf/words.h"

static const struct {
    const char *name;
    fl_strategy_kinds kinds;
    fl_strategy_mode mode;
} kinds[] = {
    { "sync", FL_STRATEGY_FACTORY, FL_STRATEGY_SYNC },
    { "half_async", FL_STRATEGY_FACTORY, FL_STRATEGY_HALF_ASYNC },
    { "async", FL_STRATEGY_FACTORY, FL_STRATEGY_ASYNC },
    { "geo", FL_STRATEGY_FACTORY, FL_STRATEGY_GEO },
    { "a_sync", FL_STRATEGY_A_SYNC, FL_STRATEGY_UNDECIDED },
};

fl_status fl_strategy_make(fl_strategy **out, fl_conf *conf, const char *kind)
{
    const char *names[FL_LEN(kinds)];
    const char *nearest;

    for (size_t i = 0; i < FL_LEN(kinds); i++) {
        names[i] = kinds[i].name;
        if (!strcmp(kinds[i].name, kind)) {
            fl_strategy *s = fl_alloc(sizeof(*s));

            s->conf = conf;
            s->kind = kinds[i].name;
            s->kinds = kinds[i].kinds;
            s->mode = kinds[i].mode;
            *out = s;
            return FL_OK;
        }
    }
    nearest = fl_nearest_name(kind, names, FL_LEN(names));
    FL_FAIL(FL_ERR_NOTFOUND,
            "there is no strategy '%.60s'; %s%s%sthere are sync, half_async, "
            "async, geo and a_sync",
            kind, nearest ? "did you mean " : "", nearest ? nearest : "",
            nearest ? "? " : "");
}

void fl_strategy_free(fl_strategy *s)
{
    if (!s)
        return;
    for (size_t i = 0; i < s->set.len; i++)
        fl_free(s->set.data[i].text);
    fl_vec_release(&s->set);
    fl_str_release(&s->text);
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

static const char *keep(fl_strategy *s, const char *text)
{
    fl_str kept = { 0 };

    fl_str_add(&kept, text); /* it may be the text that is kept now */
    fl_str_release(&s->text);
    s->text = kept;
    return fl_str_text(&s->text);
}

static const char *own_default(fl_strategy *s, const fl_key *key)
{
    char buf[FL_KEY_NUMBER_MAX];

    if (!strcmp(key->name, "k_steps") && s->mode == FL_STRATEGY_GEO)
        return keep(s, FL_AUTO_K_STEPS);
    return keep(s, fl_key_print(key, &key->def, buf));
}

const char *fl_strategy_raw(fl_strategy *s, const fl_key *key,
                            fl_conf_from *from)
{
    const fl_strategy_value *set = find_set(s, key);
    const char *other = NULL;

    *from = set ? FL_FROM_CALL : FL_FROM_DEFAULT;
    if (set)
        return keep(s, set->text);
    if (fl_strategy_key_is_own(key))
        return own_default(s, key);
    *from = fl_conf_from_of(s->conf, key->name);
    if (*from == FL_FROM_DEFAULT && s->kinds == FL_STRATEGY_A_SYNC)
        other = fl_strategy_a_sync_default(key);
    return keep(s, other ? other : fl_conf_get(s->conf, key->name));
}

/* Values that a 0 stands for: the number of replicas, which is cpu_num unless
   somebody says otherwise. */
static const char *cpu_num(fl_strategy *s, fl_conf_from *from)
{
    if (*from == FL_FROM_DEFAULT)
        *from = fl_conf_from_of(s->conf, "cpu_num");
    return keep(s, fl_conf_get(s->conf, "cpu_num"));
}

static const char *replicas(fl_strategy *s, fl_conf_from *from)
{
    static const fl_strategy_row row = { .value = "num_replicas" };
    fl_conf_from mine;
    const char *text = fl_strategy_effective(s, fl_strategy_key(&row), &mine);

    if (*from == FL_FROM_DEFAULT)
        *from = mine;
    return text;
}

static bool stands_for_cpu_num(const fl_key *key)
{
    static const char *const names[] = {
        "num_replicas",
        "communicator_max_merge_var_num",
        "communicator_send_queue_size",
        "communicator_min_send_grad_num_before_recv",
    };

    for (size_t i = 0; i < FL_LEN(names); i++)
        if (!strcmp(names[i], key->name))
            return true;
    return false;
}

const char *fl_strategy_effective(fl_strategy *s, const fl_key *key,
                                  fl_conf_from *from)
{
    const char *text = fl_strategy_raw(s, key, from);

    if (stands_for_cpu_num(key) && !strcmp(text, "0"))
        return cpu_num(s, from);
    if (!strcmp(key->name, "replica_threads") && !strcmp(text, "0"))
        return replicas(s, from);
    /* Replicas share their memory: one owner per gradient is less work. */
    if (!strcmp(key->name, "reduce_strategy") && *from == FL_FROM_DEFAULT &&
        strcmp(replicas(s, from), "1"))
        return keep(s, "reduce");
    if (!strcmp(key->name, "reduce_strategy"))
        return fl_strategy_raw(s, key, from);
    return text;
}

const char *fl_strategy_get(fl_strategy *s, const char *name)
{
    const fl_strategy_row *row;
    fl_conf_from from;

    if (fl_strategy_row_find(name, s->kinds, &row))
        return NULL;
    return fl_strategy_effective(s, fl_strategy_key(row), &from);
}

fl_key_value fl_strategy_value_of(fl_strategy *s, const char *name)
{
    const fl_strategy_row *row = NULL;
    fl_key_value v = { 0 };
    fl_conf_from from;
    const fl_key *key;
    fl_status st;

    st = fl_strategy_row_find(name, s->kinds, &row);
    FL_ASSERT(!st);
    key = fl_strategy_key(row);
    st = fl_key_parse(key, fl_strategy_effective(s, key, &from), &v);
    FL_ASSERT(!st);
    return v;
}

/* --- words ---------------------------------------------------------------- */

/* One name=value of the words, looked up. */
typedef struct entry {
    const fl_strategy_row *row;
    const fl_key *key;
    const char *value;
} entry;

static fl_status refuse_mode(const fl_strategy *s, const fl_strategy_row *row)
{
    fl_str users = { 0 };

    for (unsigned bit = 1; bit < FL_STRATEGY_UNDECIDED; bit <<= 1)
        if (row->modes & bit)
            fl_str_addf(&users, "%s%s", users.len ? " and " : "",
                        fl_strategy_mode_name((fl_strategy_mode)bit));
    (void)fl_err_set(FL_ERR_INVAL,
                     "%s.%s is not used in mode %s, only in %s; leave it out, "
                     "or take another mode",
                     row->group, row->name, fl_strategy_mode_name(s->mode),
                     fl_str_text(&users));
    fl_str_release(&users);
    return FL_ERR_INVAL;
}

static fl_status check_value(const entry *e)
{
    fl_key_value v;

    FL_TRY(fl_err_ctx(fl_key_parse(e->key, e->value, &v), "%s.%s",
                      e->row->group, e->row->name));
    if (!strcmp(e->key->name, "launch_barrier") && !v.b)
        FL_FAIL(FL_ERR_INVAL,
                "%s.%s=false cannot be: workers and servers always wait until "
                "all members of the job are there",
                e->row->group, e->row->name);
    return FL_OK;
}

static fl_status look_up(const fl_strategy *s, const fl_word *w, entry *out)
{
    FL_TRY(fl_strategy_row_find(w->name, s->kinds, &out->row));
    out->key = fl_strategy_key(out->row);
    out->value = w->value;
    return FL_OK;
}

static void store(fl_strategy *s, const entry *e)
{
    fl_strategy_value *old = find_set(s, e->key);

    if (!old) {
        fl_vec_push(&s->set, ((fl_strategy_value){ e->key, NULL }));
        old = &s->set.data[s->set.len - 1];
    }
    fl_free(old->text);
    old->text = fl_strdup(e->value);
}

/* Who wrote the words: the user, who means every one of them, or a struct that
   has a field for everything. */
typedef enum writer { BY_USER, BY_FIELDS } writer;
typedef enum what_to_do { ONLY_CHECK, STORE } what_to_do;

static bool says_nothing(fl_strategy *s, const entry *e)
{
    bool is_used = e->row->modes & s->mode;
    fl_conf_from from;

    if (!is_used && (!strcmp(e->value, "0") || !strcmp(e->value, "false")))
        return true;
    return !strcmp(e->value, fl_strategy_effective(s, e->key, &from));
}

static fl_status take_entry(fl_strategy *s, const entry *e, writer by,
                            what_to_do what)
{
    if (by == BY_FIELDS && says_nothing(s, e))
        return FL_OK;
    if (!(e->row->modes & s->mode))
        return refuse_mode(s, e->row);
    FL_TRY(check_value(e));
    if (what == STORE)
        store(s, e);
    return FL_OK;
}

static fl_status take_words(fl_strategy *s, const fl_words *words, writer by,
                            what_to_do what)
{
    entry e;

    for (size_t i = 0; i < words->list.len; i++) {
        FL_TRY(look_up(s, &words->list.data[i], &e));
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

static bool is_shown(const fl_strategy *s, size_t i, fl_strategy_mode mode)
{
    const fl_strategy_row *row = &fl_strategy_rows[i];

    if (!(row->kinds & s->kinds) || !(row->modes & mode))
        return false;
    while (i--)
        if ((fl_strategy_rows[i].kinds & s->kinds) &&
            !strcmp(fl_strategy_rows[i].value, row->value))
            return false;
    return true;
}

char *fl_strategy_text(fl_strategy *s)
{
    fl_strategy_mode mode = FL_STRATEGY_UNDECIDED;
    bool is_sound = !fl_strategy_mode_of(s, &mode);
    char buf[FL_STRATEGY_NAME_MAX];
    fl_str out = { 0 };

    fl_str_addf(&out, "strategy %s\n", s->kind);
    if (!is_sound)
        fl_str_addf(&out, "mode none: %s\n", fl_last_error());
    else if (mode == FL_STRATEGY_UNDECIDED)
        fl_str_add(&out, "mode chosen by fl_fleet_minimize\n");
    else
        fl_str_addf(&out, "mode %s\n", fl_strategy_mode_name(mode));
    for (size_t i = 0; i < fl_n_strategy_rows; i++) {
        const fl_strategy_row *row = &fl_strategy_rows[i];
        fl_conf_from from;
        const char *text;

        if (!is_shown(s, i, mode))
            continue;
        text = fl_strategy_effective(s, fl_strategy_key(row), &from);
        fl_str_addf(&out, "%s = %s (%s)\n", fl_strategy_row_text(row, buf),
                    text, fl_conf_from_text(from));
    }
    return fl_str_take(&out);
}
