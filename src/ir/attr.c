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
    case FL_ATTR_STRINGS:
        return "strings";
    case FL_ATTR_BLOCK:
        return "block";
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

/* A bare word up to a ',' or ']', or "..." with \" \\ and \n inside. */
static bool parse_word(const char *text, const char **end, fl_arena *arena,
                       const char **out)
{
    bool quoted = *text == '"';
    char *s = fl_arena_alloc(arena, strlen(text) + 1);
    size_t n = 0;

    for (text += quoted;
         *text && (quoted ? *text != '"' : !strchr(",]", *text)); text++) {
        bool escaped = quoted && *text == '\\' && text[1];

        text += escaped;
        s[n++] = escaped && *text == 'n' ? '\n' : *text;
    }
    while (!quoted && n && s[n - 1] == ' ')
        s[--n] = '\0';
    if (quoted ? *text != '"' : !n)
        return false;
    *end = text + quoted;
    *out = s;
    return true;
}

/* --- lists ---------------------------------------------------------------- */

static bool is_list(fl_attr_type t)
{
    return t == FL_ATTR_INTS || t == FL_ATTR_FLOATS || t == FL_ATTR_STRINGS;
}

static fl_attr_type item_type(fl_attr_type list)
{
    if (list == FL_ATTR_INTS)
        return FL_ATTR_INT;
    return list == FL_ATTR_FLOATS ? FL_ATTR_FLOAT : FL_ATTR_STRING;
}

static fl_attr item_at(const fl_attr *list, size_t i)
{
    fl_attr a = { .type = item_type(list->type) };

    if (a.type == FL_ATTR_INT)
        a.i = list->ints[i];
    else if (a.type == FL_ATTR_FLOAT)
        a.f = list->floats[i];
    else
        a.s = list->strings[i];
    return a;
}

/* Room for the entries of a list, whatever they are. */
typedef union list_item {
    int64_t i;
    double f;
    const char *s;
} list_item;

_Static_assert(sizeof(list_item) == sizeof(int64_t) &&
                   sizeof(list_item) == sizeof(const char *),
               "a list of entries is a list of any of them");

static void set_item(list_item *to, const fl_attr *a)
{
    if (a->type == FL_ATTR_INT)
        to->i = a->i;
    else if (a->type == FL_ATTR_FLOAT)
        to->f = a->f;
    else
        to->s = a->s;
}

static bool parse_item(const char *text, const char **end, fl_arena *arena,
                       fl_attr *out)
{
    if (out->type == FL_ATTR_INT)
        return parse_int(text, end, &out->i);
    if (out->type == FL_ATTR_FLOAT)
        return parse_float(text, end, &out->f);
    return parse_word(text, end, arena, &out->s);
}

/* [1,2,3]: counts the commas first, so one allocation is enough. */
static fl_status parse_list(const char *text, fl_attr_type type,
                            fl_arena *arena, fl_attr *out)
{
    const char *at = text + 1;
    size_t cap = 1;
    list_item *items;

    if (*text != '[')
        return bad_value(text, type);
    for (const char *p = text; *p; p++)
        cap += *p == ',';
    items = fl_arena_alloc(arena, cap * sizeof(*items));
    *out = (fl_attr){ .type = type, .items = items };
    for (at += strspn(at, " "); *at && *at != ']'; at += strspn(at, " ")) {
        fl_attr item = { .type = item_type(type) };

        if (!parse_item(at, &at, arena, &item))
            return bad_value(text, type);
        set_item(&items[out->n++], &item);
        at += strspn(at, " ");
        if (*at == ',')
            at++;
        else if (*at != ']')
            return bad_value(text, type);
    }
    return at[0] != ']' || at[1] ? bad_value(text, type) : FL_OK;
}

/* --- values --------------------------------------------------------------- */

static fl_status parse_string(const char *text, fl_arena *arena, fl_attr *out)
{
    const char *end;

    if (*text != '"')
        out->s = fl_arena_strdup(arena, text);
    else if (!parse_word(text, &end, arena, &out->s) || *end)
        return bad_value(text, FL_ATTR_STRING);
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
    case FL_ATTR_BLOCK:
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
    case FL_ATTR_STRINGS:
        return parse_list(text, type, arena, out);
    }
    return bad_value(text, type);
}

static bool convert_list(const fl_attr *from, fl_arena *arena, fl_attr *out)
{
    list_item *items = fl_arena_alloc(arena, from->n * sizeof(*items));

    for (size_t i = 0; i < from->n; i++) {
        fl_attr old = item_at(from, i), item;

        if (!fl_attr_convert(&old, item_type(out->type), arena, &item))
            return false;
        set_item(&items[i], &item);
    }
    out->n = from->n;
    out->items = items;
    return true;
}

bool fl_attr_convert(const fl_attr *from, fl_attr_type type, fl_arena *arena,
                     fl_attr *out)
{
    bool is_int = from->type == FL_ATTR_INT;

    *out = (fl_attr){ .type = type };
    if (is_list(from->type) && is_list(type))
        return convert_list(from, arena, out);
    if (is_int && type == FL_ATTR_FLOAT) {
        out->f = (double)from->i;
        return true;
    }
    if (is_int && type == FL_ATTR_BOOL) {
        out->b = from->i == 1;
        return from->i == 0 || from->i == 1;
    }
    if (from->type != type && !(is_int && type == FL_ATTR_BLOCK))
        return false;
    *out = *from;
    out->type = type;
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
    case FL_ATTR_BLOCK:
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
    case FL_ATTR_STRINGS:
        fl_str_add(out, "[");
        for (size_t i = 0; i < a->n; i++) {
            fl_attr item = item_at(a, i);

            fl_str_add(out, i ? "," : "");
            fl_attr_print(&item, out);
        }
        fl_str_add(out, "]");
        break;
    }
}

static bool equal_lists(const fl_attr *a, const fl_attr *b)
{
    for (size_t i = 0; i < a->n; i++) {
        fl_attr x = item_at(a, i), y = item_at(b, i);

        if (!fl_attr_equal(&x, &y))
            return false;
    }
    return true;
}

bool fl_attr_equal(const fl_attr *a, const fl_attr *b)
{
    if (a->type != b->type || a->n != b->n)
        return false;
    switch (a->type) {
    case FL_ATTR_BOOL:
        return a->b == b->b;
    case FL_ATTR_INT:
    case FL_ATTR_BLOCK:
        return a->i == b->i;
    case FL_ATTR_FLOAT:
        return a->f == b->f;
    case FL_ATTR_STRING:
        return !strcmp(a->s, b->s);
    case FL_ATTR_INTS:
    case FL_ATTR_FLOATS:
    case FL_ATTR_STRINGS:
        return equal_lists(a, b);
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

int64_t fl_attr_block(const fl_op_node *n, int i)
{
    return attr_at(n, i, FL_ATTR_BLOCK)->i;
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

const char *const *fl_attr_strings(const fl_op_node *n, int i, size_t *len)
{
    const fl_attr *a = attr_at(n, i, FL_ATTR_STRINGS);

    *len = a->n;
    return a->strings;
}

bool fl_node_update(const fl_op_node *n, fl_update *out)
{
    fl_update u = { .rule = n->is_grad ? NULL : fl_rule_find(n->def->name) };

    if (!u.rule)
        return false;
    for (int k = 0; k < fl_rule_n_params(u.rule); k++) {
        const fl_rule_param *p = &u.rule->params[k];
        int i = fl_op_find_attr(n->def, p->name);

        u.p[k] = p->is_flag ? fl_attr_bool(n, i) : fl_attr_float(n, i);
    }
    *out = u;
    return true;
}
