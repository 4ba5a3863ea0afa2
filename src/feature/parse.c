/* parse.c - the lines of a text of features.
 *
 *     text  = line { (";" | end of line) line }
 *     line  = NAME "=" value  |  "drop" NAME { NAME }  |  "#" anything
 *             where names with a "*" stand for all columns of the data that the
 *             first such name behind the "=" is like
 *     value = NAME  |  FUNCTION "(" arg { "," arg } ")"
 *     arg   = value  |  numbers  |  PARAMETER "=" numbers
 *
 * A name stands for a column of the data, or else for a line above. Inside
 * parentheses a line may end anywhere between words.
 */
#include <stdlib.h>
#include <string.h>

#include "feature/feature.h"
#include "flotilla/words.h"

#define DEPTH_MAX 16
#define BLANKS " \t\r\n"
#define MARKS "(),=;#"

typedef struct reader {
    const fl_feature_scope *scope;
    fl_feature_lines *lines;
    const char *at;
    const char *name; /* of the line that is read */
    int line;         /* of the text, from 1 */
    int depth;        /* of parentheses */
} reader;

static fl_status parse_value(reader *r, const char *word,
                             fl_feature_node **out);

/* --- words ----------------------------------------------------------------- */

/* Up to the next word or mark; the end of a line counts outside of
   parentheses. */
static void skip_blanks(reader *r)
{
    for (; *r->at && strchr(BLANKS, *r->at); r->at++) {
        if (*r->at != '\n')
            continue;
        if (!r->depth)
            return;
        r->line++;
    }
}

static bool take_mark(reader *r, char mark)
{
    skip_blanks(r);
    if (*r->at != mark)
        return false;
    r->at++;
    return true;
}

/* NULL when no word stands here. */
static const char *take_word(reader *r)
{
    size_t len;
    char *word;

    skip_blanks(r);
    len = strcspn(r->at, BLANKS MARKS);
    if (!len)
        return NULL;
    word = fl_arena_alloc(r->scope->arena, len + 1);
    memcpy(word, r->at, len);
    r->at += len;
    return word;
}

/* What stands here, for messages. */
static const char *rest_of(const reader *r, char buf[24])
{
    size_t len = strcspn(r->at, "\n");

    snprintf(buf, 24, "%.*s", (int)(len < 20 ? len : 20), r->at);
    return len ? buf : "the end of the line";
}

static bool is_number(const char *word, double *out)
{
    char *end;

    *out = strtod(word, &end);
    return *word && !*end;
}

/* --- names ----------------------------------------------------------------- */

static fl_feature_node *find_column(const reader *r, const char *name)
{
    for (size_t i = 0; i < r->scope->n_slots; i++)
        if (!strcmp(r->scope->slots[i].name, name))
            return r->scope->columns[i];
    for (size_t i = 0; i < r->lines->len; i++)
        if (r->lines->data[i].node && !strcmp(r->lines->data[i].name, name))
            return r->lines->data[i].node;
    return NULL;
}

static fl_status no_column(const reader *r, const char *name)
{
    FL_VEC(const char *) names = { 0 };
    const char *near;

    for (size_t i = 0; i < r->scope->n_slots; i++)
        fl_vec_push(&names, r->scope->slots[i].name);
    for (size_t i = 0; i < r->lines->len; i++)
        fl_vec_push(&names, r->lines->data[i].name);
    near = fl_nearest_name(name, names.data, names.len);
    fl_vec_release(&names);
    FL_FAIL(FL_ERR_NOTFOUND,
            "line %d: no column of the data and no line above is called "
            "'%s'%s%s%s",
            r->line, name, near ? "; did you mean " : "", near ? near : "",
            near ? "?" : "");
}

static fl_status find_function(const reader *r, const char *name,
                               const fl_feature **out)
{
    FL_VEC(const char *) names = { 0 };
    const char *near;

    for (size_t i = 0; i < fl_feature_count; i++) {
        if (!strcmp(fl_feature_all[i]->name, name)) {
            fl_vec_release(&names);
            *out = fl_feature_all[i];
            return FL_OK;
        }
        fl_vec_push(&names, fl_feature_all[i]->name);
    }
    near = fl_nearest_name(name, names.data, names.len);
    fl_vec_release(&names);
    FL_FAIL(FL_ERR_NOTFOUND, "line %d: there is no function '%s'%s%s%s",
            r->line, name, near ? "; did you mean " : "", near ? near : "",
            near ? "?" : " (`flotilla data features` lists them)");
}

/* --- arguments of a call --------------------------------------------------- */

typedef struct call {
    fl_feature_node *node;
    FL_VEC(fl_feature_node *) args;
    size_t n_given; /* parameters by their place */
} call;

static size_t n_params(const fl_feature *f)
{
    size_t n = 0;

    while (f->params[n].name)
        n++;
    return n;
}

/* Numbers apart by blanks, the first of which is `word`. */
static fl_status take_numbers(reader *r, const char *word, fl_numbers *out)
{
    FL_VEC(double) list = { 0 };
    double x, *copy;

    for (; word; word = take_word(r)) {
        if (!is_number(word, &x)) {
            fl_vec_release(&list);
            FL_FAIL(FL_ERR_INVAL, "line %d: '%s' is no number", r->line, word);
        }
        fl_vec_push(&list, x);
    }
    if (!list.len) {
        char buf[24];

        FL_FAIL(FL_ERR_INVAL, "line %d: a number is missing before '%s'",
                r->line, rest_of(r, buf));
    }
    copy = fl_arena_alloc(r->scope->arena, list.len * sizeof(*copy));
    memcpy(copy, list.data, list.len * sizeof(*copy));
    *out = (fl_numbers){ .at = copy, .n = list.len };
    fl_vec_release(&list);
    return FL_OK;
}

static fl_status set_param(const reader *r, call *c, size_t i, fl_numbers value)
{
    const fl_feature *f = c->node->fn;

    if (c->node->params[i].at)
        FL_FAIL(FL_ERR_INVAL, "line %d: %s has two values for %s", r->line,
                f->name, f->params[i].name);
    if (value.n > 1 && !f->params[i].is_list)
        FL_FAIL(FL_ERR_INVAL, "line %d: %s of %s is one number, not %zu",
                r->line, f->params[i].name, f->name, value.n);
    c->node->params[i] = value;
    return FL_OK;
}

static fl_status named_param(reader *r, call *c, const char *name)
{
    const fl_feature *f = c->node->fn;
    fl_numbers value;

    for (size_t i = 0; i < n_params(f); i++)
        if (!strcmp(f->params[i].name, name)) {
            FL_TRY(take_numbers(r, take_word(r), &value));
            return set_param(r, c, i, value);
        }
    FL_FAIL(FL_ERR_INVAL, "line %d: %s has no parameter '%s': write %s",
            r->line, f->name, name, f->form);
}

static fl_status placed_param(reader *r, call *c, const char *word)
{
    const fl_feature *f = c->node->fn;
    fl_numbers value;

    FL_TRY(take_numbers(r, word, &value));
    if (c->n_given == n_params(f))
        FL_FAIL(FL_ERR_INVAL, "line %d: %g is too much for %s: write %s",
                r->line, *value.at, f->name, f->form);
    return set_param(r, c, c->n_given++, value);
}

static fl_status parse_arg(reader *r, call *c)
{
    const char *word = take_word(r);
    fl_feature_node *arg;
    char buf[24];
    double x;

    if (!word)
        FL_FAIL(FL_ERR_INVAL, "line %d: %s: a column is missing before '%s'",
                r->line, c->node->fn->name, rest_of(r, buf));
    if (take_mark(r, '='))
        return named_param(r, c, word);
    if (!find_column(r, word) && is_number(word, &x))
        return placed_param(r, c, word);
    FL_TRY(parse_value(r, word, &arg));
    fl_vec_push(&c->args, arg);
    return FL_OK;
}

/* --- calls ----------------------------------------------------------------- */

static const char *kind_text(fl_slot_kind kind)
{
    return kind == FL_SLOT_FLOATS ? "a number" : "a category (ids)";
}

static fl_status check_columns(const reader *r, const call *c)
{
    const fl_feature *f = c->node->fn;

    if (!c->args.len || (c->args.len > 1 && !f->takes_many))
        FL_FAIL(FL_ERR_INVAL, "line %d: %s takes %s: write %s", r->line,
                f->name, f->takes_many ? "columns" : "one column", f->form);
    for (size_t i = 0; i < c->args.len; i++)
        if (!(f->takes & 1u << c->args.data[i]->kind))
            FL_FAIL(FL_ERR_INVAL, "line %d: %s takes %s, but %s %zu is %s%s",
                    r->line, f->name,
                    kind_text(f->takes & FL_TAKES_NUMBERS ? FL_SLOT_FLOATS
                                                          : FL_SLOT_IDS),
                    "column", i + 1, kind_text(c->args.data[i]->kind),
                    f->takes & FL_TAKES_NUMBERS
                        ? "; number(x) makes one of it"
                        : "; bucket(x, ...) makes one of it");
    return FL_OK;
}

/* Lists make a list; several columns have as many values as there are ways. */
static uint32_t width_of(const call *c)
{
    uint32_t width = 1;

    for (size_t i = 0; i < c->args.len; i++)
        width *= c->args.data[i]->width;
    return width;
}

static void finish_call(const reader *r, call *c)
{
    fl_arena *a = r->scope->arena;
    fl_feature_node *n = c->node;

    n->n_args = c->args.len;
    n->args = fl_arena_alloc(a, c->args.len * sizeof(*n->args));
    memcpy(n->args, c->args.data, c->args.len * sizeof(*n->args));
    n->kind = n->fn->gives;
    n->width = width_of(c);
    for (size_t i = 0; i < n_params(n->fn); i++)
        if (!n->params[i].at && n->fn->params[i].otherwise)
            n->params[i] =
                fl_numbers_of(a, strtod(n->fn->params[i].otherwise, NULL));
}

static fl_status parse_args(reader *r, call *c)
{
    char buf[24];

    do
        FL_TRY(parse_arg(r, c));
    while (take_mark(r, ','));
    if (!take_mark(r, ')'))
        FL_FAIL(FL_ERR_INVAL,
                "line %d: %s: a comma or a closing parenthesis is missing "
                "before '%s'",
                r->line, c->node->fn->name, rest_of(r, buf));
    return check_columns(r, c);
}

static fl_status parse_call(reader *r, const char *name, fl_feature_node **out)
{
    call c = { .node = fl_arena_alloc(r->scope->arena, sizeof(*c.node)) };
    fl_status st = find_function(r, name, &c.node->fn);

    if (!st && ++r->depth > DEPTH_MAX)
        st = fl_err_set(FL_ERR_INVAL,
                        "line %d: more than %d functions inside "
                        "each other",
                        r->line, DEPTH_MAX);
    if (!st)
        st = parse_args(r, &c);
    if (!st)
        finish_call(r, &c);
    fl_vec_release(&c.args);
    r->depth--;
    *out = c.node;
    return st;
}

static fl_status parse_value(reader *r, const char *word, fl_feature_node **out)
{
    if (take_mark(r, '('))
        return parse_call(r, word, out);
    *out = find_column(r, word);
    return *out ? FL_OK : no_column(r, word);
}

/* --- lines for many columns ------------------------------------------------ */

/* What the star of a pattern stands for in a name; NULL when they differ. */
static const char *match(const reader *r, const char *pattern, const char *name)
{
    size_t head = strcspn(pattern, "*"), tail = strlen(pattern) - head - 1;
    size_t len = strlen(name);

    if (len <= head + tail || strncmp(pattern, name, head) != 0 ||
        strcmp(pattern + head + 1, name + len - tail) != 0)
        return NULL;
    return fl_arena_printf(r->scope->arena, "%.*s", (int)(len - head - tail),
                           name + head);
}

/* Each star of the text becomes what it stands for. */
static const char *fill_stars(const reader *r, const char *text,
                              const char *part)
{
    fl_str out = { 0 };
    const char *filled;

    for (; *text; text++)
        if (*text == '*')
            fl_str_add(&out, part);
        else
            fl_str_addf(&out, "%c", *text);
    filled = fl_arena_strdup(r->scope->arena, fl_str_text(&out));
    fl_str_release(&out);
    return filled;
}

/* The first name with a star behind the "=" of a line; NULL: there is none. */
static const char *find_pattern(const reader *r, const char *line)
{
    const char *at = strchr(line, '=');
    reader words = { .scope = r->scope, .at = at ? at : "", .depth = 1 };

    while (*words.at) {
        const char *word = take_word(&words);

        if (word && strchr(word, '*'))
            return word;
        words.at += !word && *words.at;
    }
    return NULL;
}

static fl_status parse_text(reader *r);

static fl_status parse_for_all(reader *r, const char *line)
{
    const char *pattern = find_pattern(r, line);
    size_t n = 0;

    if (!pattern)
        FL_FAIL(FL_ERR_INVAL,
                "line %d: the * of '%s' stands for a part of a column's name; "
                "write it behind the = as well",
                r->line, line);
    for (size_t i = 0; i < r->scope->n_slots; i++) {
        const char *part = match(r, pattern, r->scope->slots[i].name);
        reader one = *r;

        if (!part)
            continue;
        one.at = fill_stars(r, line, part);
        FL_TRY(parse_text(&one));
        n++;
    }
    if (!n)
        FL_FAIL(FL_ERR_NOTFOUND, "line %d: no column of the data is like '%s'",
                r->line, pattern);
    return FL_OK;
}

/* Is the line that begins here for many columns? Then it is made, and passed
   over. Lines in parentheses are of it. */
static fl_status take_many(reader *r, bool *done)
{
    size_t n = 0;
    int depth = 0;
    char *line;

    for (; r->at[n] && (depth > 0 || !strchr("\n;#", r->at[n])); n++)
        depth += (r->at[n] == '(') - (r->at[n] == ')');
    line = fl_arena_alloc(r->scope->arena, n + 1);
    memcpy(line, r->at, n);
    *done = strchr(line, '*') != NULL;
    if (!*done)
        return FL_OK;
    FL_TRY(parse_for_all(r, line));
    for (size_t i = 0; i < n; i++)
        r->line += line[i] == '\n';
    r->at += n;
    return FL_OK;
}

/* --- lines ----------------------------------------------------------------- */

static fl_status check_new(const reader *r, const char *name)
{
    for (size_t i = 0; i < r->lines->len; i++)
        if (!strcmp(r->lines->data[i].name, name))
            FL_FAIL(FL_ERR_INVAL, "line %d: '%s' has a line above already",
                    r->line, name);
    return FL_OK;
}

static fl_status parse_drop(reader *r)
{
    const char *name = take_word(r);

    if (!name)
        FL_FAIL(FL_ERR_INVAL, "line %d: drop which columns?", r->line);
    for (; name; name = take_word(r)) {
        fl_feature_line line = { .name = name };

        FL_TRY(check_new(r, name));
        if (!find_column(r, name))
            return no_column(r, name);
        fl_vec_push(r->lines, line);
    }
    return FL_OK;
}

static fl_status parse_line(reader *r, const char *name)
{
    fl_feature_line line = { .name = name };
    const char *word;
    char buf[24];

    if (!take_mark(r, '=')) {
        if (!strcmp(name, "drop"))
            return parse_drop(r);
        FL_FAIL(FL_ERR_INVAL,
                "line %d: write NAME = FUNCTION(COLUMN, ...), or drop NAME; "
                "'%s' is followed by '%s'",
                r->line, name, rest_of(r, buf));
    }
    FL_TRY(check_new(r, name));
    word = take_word(r);
    if (!word)
        FL_FAIL(FL_ERR_INVAL, "line %d: %s = what?", r->line, name);
    FL_TRY(parse_value(r, word, &line.node));
    fl_vec_push(r->lines, line);
    return FL_OK;
}

/* Behind a line. */
static fl_status end_line(reader *r)
{
    char buf[24];

    skip_blanks(r);
    if (*r->at == '#')
        r->at += strcspn(r->at, "\n");
    if (*r->at == '\n')
        r->line++;
    else if (*r->at && *r->at != ';')
        FL_FAIL(FL_ERR_INVAL, "line %d: '%s' is too much", r->line,
                rest_of(r, buf));
    r->at += *r->at != '\0';
    return FL_OK;
}

static fl_status parse_text(reader *r)
{
    while (*r->at) {
        bool is_done;
        const char *word;

        FL_TRY(take_many(r, &is_done));
        word = is_done ? NULL : take_word(r);
        if (word)
            FL_TRY(parse_line(r, word));
        FL_TRY(end_line(r));
    }
    return FL_OK;
}

fl_status fl_features_parse(const fl_feature_scope *s, const char *text,
                            fl_feature_lines *out)
{
    reader r = { .scope = s, .lines = out, .at = text, .line = 1 };

    return parse_text(&r);
}
