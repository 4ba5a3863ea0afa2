/* key.c - the rows of keys.def as a table, and how their values are read,
 * checked and printed. */
#include "conf/key.h"

#include <ctype.h>
#include <errno.h>
#include <float.h>
#include <inttypes.h>
#include <math.h>

#include "flotilla/words.h"
#include "conf/conf.h"

#define CHOICES_MAX 8

#define ROW_int(d, l, h)                                                       \
    .type = FL_KEY_INT, .def.i = (d), .lo.i = (l), .hi.i = (h)
#define ROW_bool(d, l, h)                                                      \
    .type = FL_KEY_BOOL, .def.b = (d), .lo.b = (l), .hi.b = (h)
#define ROW_float(d, l, h)                                                     \
    .type = FL_KEY_FLOAT, .def.f = (d), .lo.f = (l), .hi.f = (h)
#define ROW_string(d, l, h)                                                    \
    .type = FL_KEY_STRING, .def.s = (d), .lo.s = (l), .hi.i = (h)

const fl_key fl_keys[] = {
#define FL_KEY(type_, name_, def_, lo_, hi_, text_)                            \
    { .name = #name_,                                                          \
      .text = (text_),                                                         \
      .offset = offsetof(fl_conf, name_),                                      \
      ROW_##type_(def_, lo_, hi_) },
#include "conf/keys.def"
#undef FL_KEY
};
const size_t fl_n_keys = FL_LEN(fl_keys);

static const struct {
    const char *name, *env;
} aliases[] = {
#define FL_KEY(...)
#define FL_KEY_ALIAS(name_, env_) { #name_, env_ },
#include "conf/keys.def"
#undef FL_KEY
#undef FL_KEY_ALIAS
};

const fl_key *fl_key_find(const char *name)
{
    for (size_t i = 0; i < fl_n_keys; i++)
        if (!strcmp(fl_keys[i].name, name))
            return &fl_keys[i];
    return NULL;
}

const char *fl_key_env(const fl_key *k, char buf[FL_KEY_ENV_MAX])
{
    snprintf(buf, FL_KEY_ENV_MAX, "FLOTILLA_%s", k->name);
    for (char *c = buf; *c; c++)
        *c = (char)toupper((unsigned char)*c);
    return buf;
}

const char *fl_key_alias(const fl_key *k)
{
    for (size_t i = 0; i < FL_LEN(aliases); i++)
        if (!strcmp(aliases[i].name, k->name))
            return aliases[i].env;
    return NULL;
}

const char *fl_key_type_text(const fl_key *k)
{
    static const char *const texts[] = { "int", "bool", "float", "string" };

    return texts[k->type];
}

static const char *choices_text(const char *choices, char *buf)
{
    size_t n = 0;

    for (const char *c = choices; *c && n + 3 < FL_KEY_RANGE_MAX; c++) {
        if (*c == ' ')
            buf[n++] = ',';
        buf[n++] = *c;
    }
    buf[n] = '\0';
    return buf;
}

/* The largest number is no limit, and is not printed as one. */
static const char *float_range(const fl_key *k, char buf[FL_KEY_RANGE_MAX])
{
    double lo = k->lo.f == -DBL_MAX ? -INFINITY : k->lo.f;
    double hi = k->hi.f == DBL_MAX ? INFINITY : k->hi.f;

    snprintf(buf, FL_KEY_RANGE_MAX, "%.9g..%.9g", lo, hi);
    return buf;
}

const char *fl_key_range(const fl_key *k, char buf[FL_KEY_RANGE_MAX])
{
    switch (k->type) {
    case FL_KEY_BOOL:
        return "true, false";
    case FL_KEY_INT:
        snprintf(buf, FL_KEY_RANGE_MAX, "%" PRId64 "..%" PRId64, k->lo.i,
                 k->hi.i);
        return buf;
    case FL_KEY_FLOAT:
        return float_range(k, buf);
    case FL_KEY_STRING:
        break;
    }
    if (*k->lo.s)
        return choices_text(k->lo.s, buf);
    snprintf(buf, FL_KEY_RANGE_MAX, "at most %" PRId64 " bytes", k->hi.i);
    return buf;
}

static fl_status refuse(const fl_key *k, const char *text, const char *nearest)
{
    static const char *const wanted[] = { "a whole number in ", "one of ",
                                          "a number in ", "a text of " };
    const char *what = wanted[k->type];
    char buf[FL_KEY_RANGE_MAX];

    if (k->type == FL_KEY_STRING && *k->lo.s)
        what = "one of ";
    FL_FAIL(FL_ERR_INVAL, "'%.80s' is not %s%s%s%s%s", text, what,
            fl_key_range(k, buf), nearest ? "; did you mean " : "",
            nearest ? nearest : "", nearest ? "?" : "");
}

/* strtoll and strtod skip spaces, which would hide a typing error. */
static bool starts_a_number(const char *text)
{
    return *text && !isspace((unsigned char)*text);
}

static fl_status parse_int(const fl_key *k, const char *text, fl_key_value *out)
{
    long long i;
    char *end;

    errno = 0;
    i = strtoll(text, &end, 10);
    if (!starts_a_number(text) || *end || errno || i < k->lo.i || i > k->hi.i)
        return refuse(k, text, NULL);
    out->i = i;
    return FL_OK;
}

static fl_status parse_float(const fl_key *k, const char *text,
                             fl_key_value *out)
{
    double f;
    char *end;

    f = strtod(text, &end);
    if (!starts_a_number(text) || *end || !isfinite(f) || f < k->lo.f ||
        f > k->hi.f)
        return refuse(k, text, NULL);
    out->f = f;
    return FL_OK;
}

static fl_status parse_bool(const fl_key *k, const char *text,
                            fl_key_value *out)
{
    static const char *const words[] = { "false", "true", "0", "1" };

    for (size_t i = 0; i < FL_LEN(words); i++)
        if (!strcmp(words[i], text)) {
            out->b = i % 2;
            return FL_OK;
        }
    return refuse(k, text, NULL);
}

static fl_status parse_choice(const fl_key *k, const char *text,
                              fl_key_value *out)
{
    const char *words[CHOICES_MAX];
    char buf[FL_KEY_RANGE_MAX];
    char *rest = buf;
    char *word;
    size_t n = 0;

    snprintf(buf, sizeof(buf), "%s", k->lo.s);
    while (n < CHOICES_MAX && (word = strsep(&rest, " ")))
        words[n++] = word;
    for (size_t i = 0; i < n; i++)
        if (!strcmp(words[i], text)) {
            out->s = text;
            return FL_OK;
        }
    return refuse(k, text, fl_nearest_name(text, words, n));
}

static fl_status parse_string(const fl_key *k, const char *text,
                              fl_key_value *out)
{
    if (*k->lo.s)
        return parse_choice(k, text, out);
    if (strlen(text) > (size_t)k->hi.i)
        return refuse(k, text, NULL);
    out->s = text;
    return FL_OK;
}

fl_status fl_key_parse(const fl_key *k, const char *text, fl_key_value *out)
{
    static fl_status (*const parsers[])(const fl_key *, const char *,
                                        fl_key_value *) = {
        [FL_KEY_INT] = parse_int,
        [FL_KEY_BOOL] = parse_bool,
        [FL_KEY_FLOAT] = parse_float,
        [FL_KEY_STRING] = parse_string,
    };

    return parsers[k->type](k, text, out);
}

/* The shorter of two texts, if it reads back as the same number. */
static const char *print_float(double f, char buf[FL_KEY_NUMBER_MAX])
{
    snprintf(buf, FL_KEY_NUMBER_MAX, "%.15g", f);
    if (strtod(buf, NULL) != f)
        snprintf(buf, FL_KEY_NUMBER_MAX, "%.17g", f);
    return buf;
}

const char *fl_key_print(const fl_key *k, const fl_key_value *v,
                         char buf[FL_KEY_NUMBER_MAX])
{
    switch (k->type) {
    case FL_KEY_BOOL:
        return v->b ? "true" : "false";
    case FL_KEY_INT:
        snprintf(buf, FL_KEY_NUMBER_MAX, "%" PRId64, v->i);
        return buf;
    case FL_KEY_FLOAT:
        return print_float(v->f, buf);
    case FL_KEY_STRING:
        break;
    }
    return v->s;
}
