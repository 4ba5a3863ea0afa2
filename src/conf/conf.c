/* conf.c - values for the rows of keys.def: default, environment, set, get. */
#include "conf/conf.h"

#include "base/alloc.h"
#include "flotilla/words.h"
#include "base/vec.h"
#include "conf/key.h"

_Static_assert(FL_CONF_TEXT_MAX >= FL_KEY_NUMBER_MAX, "a number has room");

static void *field(const fl_conf *conf, const fl_key *k)
{
    return (char *)conf + k->offset;
}

static void store(fl_conf *conf, const fl_key *k, const fl_key_value *v)
{
    void *f = field(conf, k);
    char *old;

    switch (k->type) {
    case FL_KEY_INT:
        *(fl_conf_int *)f = v->i;
        break;
    case FL_KEY_BOOL:
        *(fl_conf_bool *)f = v->b;
        break;
    case FL_KEY_FLOAT:
        *(fl_conf_float *)f = v->f;
        break;
    case FL_KEY_STRING:
        old = *(fl_conf_string *)f;
        *(fl_conf_string *)f = fl_strdup(v->s); /* v->s may be the old text */
        fl_free(old);
        break;
    }
}

fl_key_value fl_conf_value(const fl_conf *conf, const fl_key *k)
{
    const void *f = field(conf, k);

    switch (k->type) {
    case FL_KEY_INT:
        return (fl_key_value){ .i = *(const fl_conf_int *)f };
    case FL_KEY_BOOL:
        return (fl_key_value){ .b = *(const fl_conf_bool *)f };
    case FL_KEY_FLOAT:
        return (fl_key_value){ .f = *(const fl_conf_float *)f };
    case FL_KEY_STRING:
        break;
    }
    return (fl_key_value){ .s = *(const fl_conf_string *)f };
}

static fl_status parse_and_store(fl_conf *conf, const fl_key *k,
                                 const char *text, fl_conf_from from)
{
    fl_key_value v;

    FL_TRY(fl_key_parse(k, text, &v));
    store(conf, k, &v);
    conf->from[k - fl_keys] = (uint8_t)from;
    return FL_OK;
}

static const char *find_env(const char *name)
{
    const char *text = name ? getenv(name) : NULL;

    return text && *text ? text : NULL;
}

static fl_status read_env(fl_conf *conf, const fl_key *k)
{
    char buf[FL_KEY_ENV_MAX];
    const char *env = fl_key_env(k, buf);

    if (!find_env(env))
        env = fl_key_alias(k);
    if (!find_env(env))
        return FL_OK;
    return fl_err_ctx(
        parse_and_store(conf, k, find_env(env), FL_FROM_ENVIRONMENT),
        "environment variable %s", env);
}

fl_status fl_conf_init(fl_conf *conf)
{
    fl_status st = FL_OK;

    memset(conf, 0, sizeof(*conf));
    for (size_t i = 0; i < fl_n_keys; i++)
        store(conf, &fl_keys[i], &fl_keys[i].def);
    for (size_t i = 0; i < fl_n_keys && !st; i++)
        st = read_env(conf, &fl_keys[i]);
    if (st)
        fl_conf_release(conf);
    return st;
}

void fl_conf_release(fl_conf *conf)
{
    for (size_t i = 0; i < fl_n_keys; i++)
        if (fl_keys[i].type == FL_KEY_STRING)
            fl_free(*(fl_conf_string *)field(conf, &fl_keys[i]));
    memset(conf, 0, sizeof(*conf));
}

static const char *nearest_key(const char *name)
{
    FL_VEC(const char *) names = { 0 };
    const char *nearest;

    for (size_t i = 0; i < fl_n_keys; i++)
        fl_vec_push(&names, fl_keys[i].name);
    nearest = fl_nearest_name(name, names.data, names.len);
    fl_vec_release(&names);
    return nearest;
}

static fl_status refuse_name(const char *name)
{
    const char *nearest = nearest_key(name);

    FL_FAIL(FL_ERR_NOTFOUND,
            "there is no setting '%.80s'; %s%s%sdocs/settings.md lists them",
            name, nearest ? "did you mean " : "", nearest ? nearest : "",
            nearest ? "? " : "");
}

fl_status fl_conf_set_from(fl_conf *conf, const char *name, const char *value,
                           fl_conf_from from)
{
    const fl_key *k = fl_key_find(name);

    if (!k)
        return refuse_name(name);
    return fl_err_ctx(parse_and_store(conf, k, value, from), "setting %s",
                      name);
}

fl_status fl_conf_set(fl_conf *conf, const char *name, const char *value)
{
    return fl_conf_set_from(conf, name, value, FL_FROM_CALL);
}

fl_conf_from fl_conf_from_of(const fl_conf *conf, const char *name)
{
    const fl_key *k = fl_key_find(name);

    FL_ASSERT(k);
    return (fl_conf_from)conf->from[k - fl_keys];
}

const char *fl_conf_from_text(fl_conf_from from)
{
    static const char *const texts[] = { "default", "environment", "call" };

    return texts[from];
}

const char *fl_conf_get(fl_conf *conf, const char *name)
{
    const fl_key *k = fl_key_find(name);
    fl_key_value v;

    if (!k) {
        (void)refuse_name(name);
        return NULL;
    }
    v = fl_conf_value(conf, k);
    return fl_key_print(k, &v, conf->text);
}
