/* config.c - the settings of a table in words.
 *
 * The rule is looked for first, because its own settings may stand before it;
 * the initialiser is resolved last, because it may need the width.
 */
#include "table/table.h"

#include <float.h>
#include <string.h>

#include "conf/words.h"
#include "optim/calls.h"
#include "table/accessor.h"

#define PARTITIONS_MAX 1024

/* Candidates are counted in floats, which count one by one up to here. */
#define ENTRY_COUNT_MAX (1 << 24)

/* --- numbers -------------------------------------------------------------- */

#define REAL(word, field, lo_, hi_)                                            \
    {                                                                          \
        .type = FL_KEY_FLOAT, .name = word,                                    \
        .offset = offsetof(fl_table_config, field), .lo.f = (lo_),             \
        .hi.f = (hi_)                                                          \
    }
#define WHOLE(word, field, lo_, hi_)                                           \
    {                                                                          \
        .type = FL_KEY_INT, .name = word,                                      \
        .offset = offsetof(fl_table_config, field), .lo.i = (lo_),             \
        .hi.i = (hi_)                                                          \
    }

static const fl_key reals[] = {
    REAL("lr_scale", lr_scale, DBL_MIN, DBL_MAX),
    REAL("nonclk_coeff", nonclk_coeff, -DBL_MAX, DBL_MAX),
    REAL("click_coeff", click_coeff, -DBL_MAX, DBL_MAX),
    REAL("embedx_threshold", embedx_threshold, -DBL_MAX, DBL_MAX),
    REAL("show_click_decay_rate", show_click_decay_rate, 0, 1),
    REAL("delete_threshold", delete_threshold, -DBL_MAX, DBL_MAX),
    REAL("base_threshold", base_threshold, -DBL_MAX, DBL_MAX),
    REAL("delta_threshold", delta_threshold, -DBL_MAX, DBL_MAX),
};

/* Fields of 32 bits. */
static const fl_key shorts[] = {
    WHOLE("dim", dim, 1, FL_TABLE_DIM_MAX),
    WHOLE("partitions", n_partitions, 0, PARTITIONS_MAX),
    WHOLE("delete_after_unseen_days", delete_after_unseen_days, 0, INT32_MAX),
    WHOLE("delta_keep_days", delta_keep_days, 0, INT32_MAX),
};

/* Fields of 64 bits. */
static const fl_key longs[] = {
    WHOLE("height", height, 0, INT64_MAX),
    WHOLE("max_rows", max_rows, 0, INT64_MAX),
};

static const fl_key *find_key(const fl_key *keys, size_t n, const char *name)
{
    for (size_t i = 0; i < n; i++)
        if (!strcmp(keys[i].name, name))
            return &keys[i];
    return NULL;
}

/* *known is false when no number is called so. */
static fl_status set_number(fl_table_config *c, const fl_word *w, bool *known)
{
    const fl_key *real = find_key(reals, FL_LEN(reals), w->name);
    const fl_key *whole = find_key(shorts, FL_LEN(shorts), w->name);
    const fl_key *wide = find_key(longs, FL_LEN(longs), w->name);
    const fl_key *key = real ? real : whole ? whole : wide;
    fl_key_value v;
    void *to;

    *known = key;
    if (!key)
        return FL_OK;
    FL_TRY(fl_word_parse(w, key, &v));
    to = (char *)c + key->offset;
    if (real)
        *(double *)to = v.f;
    else if (whole)
        *(uint32_t *)to = (uint32_t)v.i;
    else
        *(uint64_t *)to = (uint64_t)v.i;
    return FL_OK;
}

/* --- words of their own --------------------------------------------------- */

static fl_status set_accessor(fl_table_config *c, const char *value)
{
    const fl_accessor *accessor = fl_accessor_find(value);
    fl_str known = { 0 };

    if (accessor) {
        c->accessor = accessor->name;
        return FL_OK;
    }
    for (size_t i = 0; i < fl_accessor_count(); i++)
        fl_str_addf(&known, "%s%s", i ? ", " : "", fl_accessor_at(i)->name);
    (void)fl_err_set(FL_ERR_NOTFOUND,
                     "no accessor is called '%s'; there are %s", value,
                     fl_str_text(&known));
    fl_str_release(&known);
    return FL_ERR_NOTFOUND;
}

static fl_status set_rule(fl_table_config *c, const char *value)
{
    const fl_rule *rule = fl_rule_find(value);

    if (!rule)
        return fl_rule_refuse(value);
    if (rule->whole)
        FL_FAIL(FL_ERR_INVAL,
                "%s needs all of a parameter at once, and a table has rows",
                value);
    c->rule = rule->name;
    return FL_OK;
}

static fl_status set_decay(fl_table_config *c, const char *value)
{
    fl_call call;

    FL_TRY(fl_decay_parse(value, &call));
    *(strcmp(call.name, "l1") ? &c->l2 : &c->l1) = call.v[0];
    return FL_OK;
}

/* The limit of an entry policy, from the text behind the colon. */
static fl_status parse_limit(fl_entry *e, const char *text)
{
    static const fl_key keys[] = {
        [FL_ENTRY_COUNT] = { .type = FL_KEY_INT,
                             .lo.i = 1,
                             .hi.i = ENTRY_COUNT_MAX },
        [FL_ENTRY_PROBABILITY] = { .type = FL_KEY_FLOAT,
                                   .lo.f = 1e-9,
                                   .hi.f = FL_BELOW_1 },
        [FL_ENTRY_SHOW_CLICK] = { .type = FL_KEY_FLOAT, .hi.f = DBL_MAX },
    };
    const fl_key *key = &keys[e->kind];
    fl_key_value v;

    FL_TRY(fl_key_parse(key, text, &v));
    e->limit = key->type == FL_KEY_INT ? (double)v.i : v.f;
    return FL_OK;
}

static fl_status set_entry(fl_table_config *c, const char *value)
{
    static const struct {
        const char *name;
        fl_entry_kind kind;
    } kinds[] = { { "count_filter_entry", FL_ENTRY_COUNT },
                  { "probability_entry", FL_ENTRY_PROBABILITY },
                  { "show_click_entry", FL_ENTRY_SHOW_CLICK } };
    size_t n = strcspn(value, ":");

    c->entry = (fl_entry){ .kind = FL_ENTRY_NONE };
    if (!strcmp(value, "none"))
        return FL_OK;
    for (size_t i = 0; i < FL_LEN(kinds) && value[n]; i++) {
        if (strlen(kinds[i].name) != n || strncmp(kinds[i].name, value, n))
            continue;
        c->entry.kind = kinds[i].kind;
        return parse_limit(&c->entry, value + n + 1);
    }
    FL_FAIL(FL_ERR_INVAL,
            "'%s' is no entry policy; there are none, count_filter_entry:N, "
            "probability_entry:P and show_click_entry:N",
            value);
}

/* What finish_init resolves is only looked at here. */
static fl_status set_init(fl_table_config *c, const char *value)
{
    fl_call call;

    (void)c;
    return fl_call_parse(value, &call);
}

typedef struct own_word {
    const char *name;
    fl_status (*set)(fl_table_config *c, const char *value);
} own_word;

static const own_word own_words[] = {
    { "init", set_init },
    { "optimizer", set_rule },
    { "accessor", set_accessor },
    { "entry", set_entry },
    { "regularization", set_decay },
};

/* --- the rule's own settings ---------------------------------------------- */

static const fl_rule *rule_of(const fl_table_config *c)
{
    return fl_rule_find(c->rule ? c->rule : "sgd");
}

static fl_status unknown_word(const fl_rule *rule, const fl_word *w)
{
    const char *names[FL_LEN(reals) + FL_LEN(shorts) + FL_LEN(longs) +
                      FL_LEN(own_words) + FL_RULE_PARAM_MAX];
    char owner[FL_ERR_TEXT_MAX];
    size_t n = 0;

    for (size_t i = 0; i < FL_LEN(shorts); i++)
        names[n++] = shorts[i].name;
    for (size_t i = 0; i < FL_LEN(longs); i++)
        names[n++] = longs[i].name;
    for (size_t i = 0; i < FL_LEN(own_words); i++)
        names[n++] = own_words[i].name;
    for (int i = 0; i < fl_rule_n_params(rule); i++)
        names[n++] = rule->params[i].name;
    for (size_t i = 0; i < FL_LEN(reals); i++)
        names[n++] = reals[i].name;
    snprintf(owner, sizeof(owner), "a table with optimizer %s", rule->name);
    return fl_word_refuse(w, owner, names, n);
}

static fl_status set_word(fl_table_config *c, const fl_word *w)
{
    const fl_rule *rule = rule_of(c);
    int param = fl_rule_find_param(rule, w->name);
    bool is_number;

    for (size_t i = 0; i < FL_LEN(own_words); i++)
        if (!strcmp(own_words[i].name, w->name))
            return fl_err_ctx(own_words[i].set(c, w->value), "%s=%s", w->name,
                              w->value);
    if (param >= 0)
        return fl_rule_set(rule, param, w, c->p);
    FL_TRY(set_number(c, w, &is_number));
    return is_number ? FL_OK : unknown_word(rule, w);
}

/* --- text ----------------------------------------------------------------- */

static fl_status choose_rule(fl_table_config *c, const fl_words *words)
{
    const char *value = fl_words_get(words, "optimizer");

    if (value)
        FL_TRY(fl_err_ctx(set_rule(c, value), "optimizer=%s", value));
    fl_rule_defaults(rule_of(c), c->p);
    return FL_OK;
}

/* Fans are those of a parameter [height, dim]; without a height there is no
   such shape, and the width stands for both. The stream is the one that the
   operators would use for a parameter of this name, or of this seed. */
static fl_status finish_init(fl_table_config *c, const char *text,
                             uint64_t seed)
{
    fl_shape shape = { .rank = 2,
                       .dim = { (int64_t)(c->height ? c->height : c->dim),
                                (int64_t)c->dim } };
    fl_init *init = &c->init;

    FL_TRY(fl_init_parse(text, &shape, init));
    if (init->kind == FL_INIT_UNIFORM && !(init->a <= init->b))
        FL_FAIL(FL_ERR_INVAL, "%g is above %g", init->a, init->b);
    init->stream = init->stream ? fl_rng_stream(init->stream, "")
                                : fl_rng_stream(seed, c->name);
    return FL_OK;
}

static fl_status take_words(fl_table_config *c, const fl_words *words,
                            uint64_t seed)
{
    const char *init = fl_words_get(words, "init");

    FL_TRY(choose_rule(c, words));
    for (size_t i = 0; i < words->list.len; i++)
        FL_TRY(set_word(c, &words->list.data[i]));
    if (!c->dim)
        FL_FAIL(FL_ERR_INVAL, "the width is missing; say dim=N");
    init = init ? init : "xavier";
    return fl_err_ctx(finish_init(c, init, seed), "init=%s", init);
}

void fl_table_config_ctr(fl_table_config *c)
{
    c->nonclk_coeff = 0.1;
    c->click_coeff = 1;
    c->embedx_threshold = 10;
    c->show_click_decay_rate = 0.98;
    c->delete_threshold = 0.8;
    c->delete_after_unseen_days = 30;
    c->base_threshold = 1.5;
    c->delta_threshold = 0.25;
    c->delta_keep_days = 16;
}

static fl_status read_config(fl_table_config *c, const char *settings,
                             uint64_t seed)
{
    fl_words words;
    fl_status st;

    FL_TRY(fl_words_read(&words, settings ? settings : "", FL_WORDS_SETTINGS));
    st = take_words(c, &words, seed);
    fl_words_release(&words);
    return st;
}

fl_status fl_table_config_parse(fl_table_config *out, const char *name,
                                const char *settings, uint64_t seed)
{
    fl_table_config c = { .name = name, .settings = settings, .seed = seed };

    fl_table_config_ctr(&c);
    FL_TRY(fl_err_ctx(read_config(&c, settings, seed), "table %s", name));
    *out = c;
    return FL_OK;
}
