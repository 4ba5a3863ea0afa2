/* attr.c - attribute values: text form, comparison, access by index. */
#include "ir/attr.h"

#include <ctype.h>
#include <inttypes.h>
#include <math.h>

#include "ir/program.h"

const char *fl_attr_type_text(fl_attr_type t)
{
    switch (t) {
    case FL_ATTR_BOOL:
        return "bool";
    case FL_ATTR_INT:
        return "int";
    case FL_ATTR_FLOAT:
        return "float";
    case FL_ATTR_STRING:
        return "string";
    case FL_ATTR_INTS:
        return "ints";
    case FL_ATTR_FLOATS:
        return "floats";
    }
    return "?";
}

const char *fl_number_text(double v, char buf[FL_NUMBER_TEXT_MAX])
{
    for (int digits = 6; digits <= 17; digits++) {
        snprintf(buf, FL_NUMBER_TEXT_MAX, "%.*g", digits, v);
        if (strtod(buf, NULL) == v)
            break;
    }
    return buf;
}

static fl_status bad_value(const char *text, fl_attr_type type)
{
    FL_FAIL(FL_ERR_INVAL, "'%s' is not a value of type %s", text,
            fl_attr_type_text(type));
}

static bool parse_int(const char *text, const char **end, int64_t *out)
{
    char *stop;

    *out = strtoll(text, &stop, 10);
    *end = stop;
    return stop != text;
}

static bool parse_float(const char *text, const char **end, double *out)
{
    char *stop;

    *out = strtod(text, &stop);
    *end = stop;
    return stop != text;
}

/* [1,2,3]: counts the commas first, so one allocation is enough. */
static fl_status parse_list(const char *text, fl_attr_type type,
                            fl_arena *arena, fl_attr *out)
{
    const char *at = text + 1;
    size_t cap = 1;
    int64_t *ints;
    double *floats;

    if (*text != '[')
        return bad_value(text, type);
    for (const char *p = text; *p; p++)
        cap += *p == ',';
    ints = fl_arena_alloc(arena, cap * sizeof(*ints));
    floats = fl_arena_alloc(arena, cap * sizeof(*floats));
    *out = (fl_attr){ .type = type };
    while (*at && *at != ']') {
        bool ok = type == FL_ATTR_INTS ? parse_int(at, &at, &ints[out->n])
                                       : parse_float(at, &at, &floats[out->n]);
        if (!ok)
            return bad_value(text, type);
        out->n++;
        at += strspn(at, " ");
        if (*at == ',')
            at++;
        else if (*at != ']')
            return bad_value(text, type);
    }
    if (at[0] != ']' || at[1])
        return bad_value(text, type);
    if (type == FL_ATTR_INTS)
        out->ints = ints;
    else
        out->floats = floats;
    return FL_OK;
}

/* A bare word, or "..." with \" \\ and \n inside. */
static fl_status parse_string(const char *text, fl_arena *arena, fl_attr *out)
{
    char *s = fl_arena_alloc(arena, strlen(text) + 1);
    size_t n = 0;

    if (*text != '"') {
        out->s = fl_arena_strdup(arena, text);
        return FL_OK;
    }
    for (text++; *text && *text != '"'; text++) {
        bool escaped = *text == '\\' && text[1];

        text += escaped;
        s[n++] = escaped && *text == 'n' ? '\n' : *text;
    }
    if (text[0] != '"' || text[1])
        return bad_value(text, FL_ATTR_STRING);
    out->s = s;
    return FL_OK;
}

fl_status fl_attr_parse(const char *text, fl_attr_type type, fl_arena *arena,
                        fl_attr *out)
{
    const char *end = "";

    *out = (fl_attr){ .type = type };
    switch (type) {
    case FL_ATTR_BOOL:
        out->b = !strcmp(text, "true") || !strcmp(text, "1");
        if (!out->b && strcmp(text, "false") && strcmp(text, "0"))
            return bad_value(text, type);
        return FL_OK;
    case FL_ATTR_INT:
        if (!parse_int(text, &end, &out->i) || *end)
            return bad_value(text, type);
        return FL_OK;
    case FL_ATTR_FLOAT:
        if (!parse_float(text, &end, &out->f) || *end)
            return bad_value(text, type);
        return FL_OK;
    case FL_ATTR_STRING:
        return parse_string(text, arena, out);
    case FL_ATTR_INTS:
    case FL_ATTR_FLOATS:
        return parse_list(text, type, arena, out);
    }
    return bad_value(text, type);
}

static void copy_list(const fl_attr *from, fl_arena *arena, fl_attr *out)
{
    size_t bytes = from->n * sizeof(int64_t);

    if (out->type == FL_ATTR_INTS) {
        int64_t *v = fl_arena_alloc(arena, bytes);

        if (from->n)
            memcpy(v, from->ints, bytes);
        out->ints = v;
    } else {
        double *v = fl_arena_alloc(arena, bytes);

        for (size_t i = 0; i < from->n; i++)
            v[i] = from->type == FL_ATTR_INTS ? (double)from->ints[i]
                                              : from->floats[i];
        out->floats = v;
    }
}

bool fl_attr_convert(const fl_attr *from, fl_attr_type type, fl_arena *arena,
                     fl_attr *out)
{
    bool from_list = from->type == FL_ATTR_INTS || from->type == FL_ATTR_FLOATS;
    bool to_list = type == FL_ATTR_INTS || type == FL_ATTR_FLOATS;

    *out = (fl_attr){ .type = type, .n = from->n };
    if (from_list && to_list) {
        if (from->n && from->type == FL_ATTR_FLOATS && type == FL_ATTR_INTS)
            return false;
        copy_list(from, arena, out);
        return true;
    }
    if (from->type == FL_ATTR_INT && type == FL_ATTR_FLOAT) {
        out->f = (double)from->i;
        return true;
    }
    if (from->type == FL_ATTR_INT && type == FL_ATTR_BOOL) {
        out->b = from->i == 1;
        return from->i == 0 || from->i == 1;
    }
    if (from->type != type)
        return false;
    *out = *from;
    if (type == FL_ATTR_STRING)
        out->s = fl_arena_strdup(arena, from->s);
    return true;
}

static bool is_bare_word(const char *s)
{
    if (!isalpha((unsigned char)*s) && *s != '_')
        return false;
    for (; *s; s++)
        if (!isalnum((unsigned char)*s) && !strchr("_.@/:-", *s))
            return false;
    return true;
}

static void print_string(const char *s, fl_str *out)
{
    if (is_bare_word(s)) {
        fl_str_add(out, s);
        return;
    }
    fl_str_add(out, "\"");
    for (; *s; s++)
        if (*s == '\n')
            fl_str_add(out, "\\n");
        else
            fl_str_addf(out, "%s%c", *s == '"' || *s == '\\' ? "\\" : "", *s);
    fl_str_add(out, "\"");
}

void fl_attr_print(const fl_attr *a, fl_str *out)
{
    char buf[FL_NUMBER_TEXT_MAX];

    switch (a->type) {
    case FL_ATTR_BOOL:
        fl_str_add(out, a->b ? "true" : "false");
        break;
    case FL_ATTR_INT:
        fl_str_addf(out, "%" PRId64, a->i);
        break;
    case FL_ATTR_FLOAT:
        fl_str_add(out, fl_number_text(a->f, buf));
        break;
    case FL_ATTR_STRING:
        print_string(a->s, out);
        break;
    case FL_ATTR_INTS:
    case FL_ATTR_FLOATS:
        fl_str_add(out, "[");
        for (size_t i = 0; i < a->n; i++) {
            fl_str_add(out, i ? "," : "");
            if (a->type == FL_ATTR_INTS)
                fl_str_addf(out, "%" PRId64, a->ints[i]);
            else
                fl_str_add(out, fl_number_text(a->floats[i], buf));
        }
        fl_str_add(out, "]");
        break;
    }
}

bool fl_attr_equal(const fl_attr *a, const fl_attr *b)
{
    if (a->type != b->type || a->n != b->n)
        return false;
    switch (a->type) {
    case FL_ATTR_BOOL:
        return a->b == b->b;
    case FL_ATTR_INT:
        return a->i == b->i;
    case FL_ATTR_FLOAT:
        return a->f == b->f;
    case FL_ATTR_STRING:
        return !strcmp(a->s, b->s);
    case FL_ATTR_INTS:
        return !a->n || !memcmp(a->ints, b->ints, a->n * sizeof(*a->ints));
    case FL_ATTR_FLOATS:
        for (size_t i = 0; i < a->n; i++)
            if (a->floats[i] != b->floats[i])
                return false;
        return true;
    }
    return false;
}

static const fl_attr *attr_at(const fl_op_node *n, int i, fl_attr_type type)
{
    FL_ASSERT(n->attrs[i].type == type);
    return &n->attrs[i];
}

bool fl_attr_bool(const fl_op_node *n, int i)
{
    return attr_at(n, i, FL_ATTR_BOOL)->b;
}

int64_t fl_attr_int(const fl_op_node *n, int i)
{
    return attr_at(n, i, FL_ATTR_INT)->i;
}

double fl_attr_float(const fl_op_node *n, int i)
{
    return attr_at(n, i, FL_ATTR_FLOAT)->f;
}

const char *fl_attr_str(const fl_op_node *n, int i)
{
    return attr_at(n, i, FL_ATTR_STRING)->s;
}

const int64_t *fl_attr_ints(const fl_op_node *n, int i, size_t *len)
{
    const fl_attr *a = attr_at(n, i, FL_ATTR_INTS);

    *len = a->n;
    return a->ints;
}

const double *fl_attr_floats(const fl_op_node *n, int i, size_t *len)
{
    const fl_attr *a = attr_at(n, i, FL_ATTR_FLOATS);

    *len = a->n;
    return a->floats;
}

void fl_attr_rule(const fl_op_node *n, const fl_rule *r,
                  double p[FL_RULE_PARAM_MAX])
{
    for (int k = 0; k < fl_rule_n_params(r); k++) {
        int i = fl_op_find_attr(n->def, r->params[k].name);

        p[k] = r->params[k].is_flag ? fl_attr_bool(n, i) : fl_attr_float(n, i);
    }
}
