/* config.c - the settings of a table in words.
 *
 * The words are cut in place in a copy of the text, and names in the
 * configuration point into it. The rule is looked for first, because its own
 * settings may stand before it; the initialiser is resolved last, because it
 * may need the width.
 */
#include "table/table.h"

#include <ctype.h>
#include <errno.h>
#include <float.h>
#include <inttypes.h>
#include <math.h>
#include <string.h>

#include "base/alloc.h"
#include "base/hash.h"
#include "base/vec.h"
#include "optim/words.h"
#include "table/accessor.h"

#define PARTITIONS_MAX 1024

/* Candidates are counted in floats, which count one by one up to here. */
#define ENTRY_COUNT_MAX (1 << 24)

typedef struct word {
    const char *name, *value;
} word;

typedef FL_VEC(word) word_list;

/* --- numbers -------------------------------------------------------------- */

typedef struct real_word {
    const char *name;
    size_t offset; /* of a double in the configuration */
    double lo, hi;
} real_word;

#define REAL(word, field, lo, hi)                                              \
    {                                                                          \
        word, offsetof(fl_table_config, field), lo, hi                         \
    }

static const real_word real_words[] = {
    REAL("lr_scale", lr_scale, DBL_MIN, DBL_MAX),
    REAL("nonclk_coeff", nonclk_coeff, -DBL_MAX, DBL_MAX),
    REAL("click_coeff", click_coeff, -DBL_MAX, DBL_MAX),
    REAL("embedx_threshold", embedx_threshold, -DBL_MAX, DBL_MAX),
    REAL("show_click_decay_rate", show_click_decay_rate, 0, 1),
    REAL("delete_threshold", delete_threshold, -DBL_MAX, DBL_MAX),
};

typedef enum whole_kind { WHOLE_INT, WHOLE_U32, WHOLE_U64 } whole_kind;

typedef struct whole_word {
    const char *name;
    whole_kind kind;
    size_t offset;
    uint64_t lo, hi;
} whole_word;

#define WHOLE(word, kind, field, lo, hi)                                       \
    {                                                                          \
        word, kind, offsetof(fl_table_config, field), lo, hi                   \
    }

/* Heights are dimensions of a shape, hence the limit. */
static const whole_word whole_words[] = {
    WHOLE("dim", WHOLE_U32, dim, 1, FL_TABLE_DIM_MAX),
    WHOLE("height", WHOLE_U64, height, 0, INT64_MAX),
    WHOLE("max_rows", WHOLE_U64, max_rows, 0, UINT64_MAX),
    WHOLE("partitions", WHOLE_INT, n_partitions, 0, PARTITIONS_MAX),
    WHOLE("delete_after_unseen_days", WHOLE_INT, delete_after_unseen_days, 0,
          INT32_MAX),
};

/* strtod skips spaces and takes nan, which would hide a typing error. */
static fl_status parse_real(const char *text, double *out)
{
    char *end;
    double v = strtod(text, &end);

    if (end == text || *end || !isfinite(v) || isspace((unsigned char)*text))
        FL_FAIL(FL_ERR_INVAL, "'%s' is no number", text);
    *out = v;
    return FL_OK;
}

/* Digits alone: strtoull would take -1 for the largest number. */
static fl_status parse_whole(const char *text, uint64_t *out)
{
    bool digits = *text && strspn(text, "0123456789") == strlen(text);
    uint64_t v;

    errno = 0;
    v = digits ? strtoull(text, NULL, 10) : 0;
    if (!digits || errno)
        FL_FAIL(FL_ERR_INVAL, "'%s' is no whole number", text);
    *out = v;
    return FL_OK;
}

static fl_status set_real(fl_table_config *c, const real_word *w,
                          const char *value)
{
    double v;

    FL_TRY(parse_real(value, &v));
    if (v < w->lo || v > w->hi)
        FL_FAIL(FL_ERR_INVAL, "%s is not in %g..%g", value, w->lo, w->hi);
    memcpy((char *)c + w->offset, &v, sizeof(v));
    return FL_OK;
}

static fl_status set_whole(fl_table_config *c, const whole_word *w,
                           const char *value)
{
    void *to = (char *)c + w->offset;
    uint64_t v;

    FL_TRY(parse_whole(value, &v));
    if (v < w->lo || v > w->hi)
        FL_FAIL(FL_ERR_INVAL, "%s is not in %" PRIu64 "..%" PRIu64, value,
                w->lo, w->hi);
    switch (w->kind) {
    case WHOLE_INT:
        *(int *)to = (int)v;
        break;
    case WHOLE_U32:
        *(uint32_t *)to = (uint32_t)v;
        break;
    case WHOLE_U64:
        *(uint64_t *)to = v;
        break;
    }
    return FL_OK;
}

/* --- words of their own --------------------------------------------------- */

static fl_status set_accessor(fl_table_config *c, const char *value)
{
    fl_str known = { 0 };

    if (fl_accessor_find(value)) {
        c->accessor = value;
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
    fl_str known = { 0 };

    if (fl_rule_find(value)) {
        c->rule = value;
        return FL_OK;
    }
    for (size_t i = 0; i < fl_rule_count(); i++)
        fl_str_addf(&known, "%s%s", i ? ", " : "", fl_rule_at(i)->name);
    (void)fl_err_set(FL_ERR_NOTFOUND,
                     "no optimizer is called '%s'; there are %s", value,
                     fl_str_text(&known));
    fl_str_release(&known);
    return FL_ERR_NOTFOUND;
}

static fl_status set_decay(fl_table_config *c, const char *value)
{
    fl_words w;

    FL_TRY(fl_decay_parse(value, &w));
    *(strcmp(w.name, "l1") ? &c->l2 : &c->l1) = w.v[0];
    return FL_OK;
}

/* The limit of an entry policy, from the text behind the colon. */
static fl_status parse_limit(fl_entry *e, const char *text)
{
    uint64_t n;

    if (e->kind == FL_ENTRY_COUNT) {
        FL_TRY(parse_whole(text, &n));
        if (n < 1 || n > ENTRY_COUNT_MAX)
            FL_FAIL(FL_ERR_INVAL, "%s is not in 1..%d", text, ENTRY_COUNT_MAX);
        e->limit = (double)n;
        return FL_OK;
    }
    FL_TRY(parse_real(text, &e->limit));
    if (e->kind == FL_ENTRY_PROBABILITY && !(e->limit > 0 && e->limit < 1))
        FL_FAIL(FL_ERR_INVAL, "%s is not between 0 and 1", text);
    if (e->kind == FL_ENTRY_SHOW_CLICK && e->limit < 0)
        FL_FAIL(FL_ERR_INVAL, "%s is below 0", text);
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
    fl_words w;

    (void)c;
    return fl_words_parse(value, &w);
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

/* The optimizer's word for a setting that its operator calls otherwise. */
static const char *rule_word(const char *name)
{
    return strcmp(name, "momentum") ? name : "mu";
}

static fl_status parse_flag(const char *text, bool *out)
{
    bool yes = !strcmp(text, "true") || !strcmp(text, "1");

    if (!yes && strcmp(text, "false") && strcmp(text, "0"))
        FL_FAIL(FL_ERR_INVAL, "'%s' is neither true nor false", text);
    *out = yes;
    return FL_OK;
}

static fl_status unknown_word(const fl_rule *rule, const char *name)
{
    const char *names[FL_LEN(real_words) + FL_LEN(whole_words) +
                      FL_LEN(own_words) + FL_RULE_PARAM_MAX + 1];
    const char *near;
    size_t n = 0;

    for (size_t i = 0; i < FL_LEN(real_words); i++)
        names[n++] = real_words[i].name;
    for (size_t i = 0; i < FL_LEN(whole_words); i++)
        names[n++] = whole_words[i].name;
    for (size_t i = 0; i < FL_LEN(own_words); i++)
        names[n++] = own_words[i].name;
    for (int i = 0; i < fl_rule_n_params(rule); i++)
        names[n++] = rule->params[i].name;
    if (rule->flag)
        names[n++] = rule->flag;
    near = fl_nearest_name(name, names, n);
    FL_FAIL(FL_ERR_INVAL, "a table with optimizer %s has no such setting%s%s%s",
            rule->name, near ? "; did you mean " : "", near ? near : "",
            near ? "?" : "");
}

static fl_status set_of_rule(fl_table_config *c, const word *w)
{
    const fl_rule *rule = rule_of(c);

    if (rule->flag && !strcmp(rule->flag, w->name))
        return parse_flag(w->value, &c->flag);
    for (int i = 0; i < fl_rule_n_params(rule); i++)
        if (!strcmp(rule->params[i].name, rule_word(w->name)))
            return parse_real(w->value, &c->p[i]);
    return unknown_word(rule, w->name);
}

static fl_status set_word(fl_table_config *c, const word *w)
{
    for (size_t i = 0; i < FL_LEN(own_words); i++)
        if (!strcmp(own_words[i].name, w->name))
            return own_words[i].set(c, w->value);
    for (size_t i = 0; i < FL_LEN(real_words); i++)
        if (!strcmp(real_words[i].name, w->name))
            return set_real(c, &real_words[i], w->value);
    for (size_t i = 0; i < FL_LEN(whole_words); i++)
        if (!strcmp(whole_words[i].name, w->name))
            return set_whole(c, &whole_words[i], w->value);
    return set_of_rule(c, w);
}

/* --- text ----------------------------------------------------------------- */

static bool is_gap(char ch)
{
    return ch == ',' || isspace((unsigned char)ch);
}

/* One word, cut where it stands; spaces inside brackets are dropped. Returns
   what follows. */
static char *cut_word(char *at, char **out)
{
    char *to;
    int depth = 0;

    while (is_gap(*at))
        at++;
    *out = to = at;
    for (; *at && (depth > 0 || !is_gap(*at)); at++) {
        depth += (*at == '(') - (*at == ')');
        if (!isspace((unsigned char)*at))
            *to++ = *at;
    }
    if (*at)
        at++;
    *to = '\0';
    return at;
}

static fl_status cut_words(char *text, word_list *out)
{
    char *name, *value;

    while (*text) {
        text = cut_word(text, &name);
        if (!*name)
            continue;
        value = strchr(name, '=');
        if (!value || value == name || !value[1])
            FL_FAIL(FL_ERR_INVAL, "'%s' is not of the form name=value", name);
        *value++ = '\0';
        fl_vec_push(out, ((word){ name, value }));
    }
    return FL_OK;
}

/* The last word of that name, as later words win. */
static const char *value_of(const word_list *l, const char *name)
{
    const char *value = NULL;

    for (size_t i = 0; i < l->len; i++)
        if (!strcmp(l->data[i].name, name))
            value = l->data[i].value;
    return value;
}

static fl_status choose_rule(fl_table_config *c, const word_list *l)
{
    const char *value = value_of(l, "optimizer");
    const fl_rule *rule;

    if (value)
        FL_TRY(fl_err_ctx(set_rule(c, value), "optimizer=%s", value));
    rule = rule_of(c);
    for (int i = 0; i < fl_rule_n_params(rule); i++)
        c->p[i] = rule->params[i].value;
    return FL_OK;
}

/* Fans are those of a parameter [height, dim]; without a height there is no
   such shape, and the width stands for both. The stream is the one that the
   operators would use for a parameter of this name. */
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
    init->stream = fl_rng_stream(init->stream ? init->stream : seed, c->name);
    return FL_OK;
}

static fl_status read_words(fl_table_config *c, const word_list *l,
                            uint64_t seed)
{
    const char *init = value_of(l, "init");

    FL_TRY(choose_rule(c, l));
    for (size_t i = 0; i < l->len; i++) {
        const word *w = &l->data[i];

        FL_TRY(fl_err_ctx(set_word(c, w), "%s=%s", w->name, w->value));
    }
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
}

fl_status fl_table_config_parse(fl_table_config *out, const char *name,
                                const char *settings, uint64_t seed)
{
    fl_table_config c = { .name = name };
    word_list list = { 0 };
    fl_status st;

    c.text = fl_strdup(settings ? settings : "");
    fl_table_config_ctr(&c);
    st = cut_words(c.text, &list);
    if (!st)
        st = read_words(&c, &list, seed);
    fl_vec_release(&list);
    if (st) {
        fl_table_config_release(&c);
        return fl_err_ctx(st, "table %s", name);
    }
    *out = c;
    return FL_OK;
}

void fl_table_config_release(fl_table_config *c)
{
    fl_free(c->text);
    *c = (fl_table_config){ 0 };
}
