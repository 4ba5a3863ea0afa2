/* parse.c - reads the text form of a program. docs/formats/ir.md describes it.
 *
 * Line by line: each line is a statement, '#' starts a comment. Every
 * statement goes through the same functions a builder calls, so whatever is
 * wrong with it is found and named there; here the line number is added.
 */
#include "ir/builder.h"

#include <ctype.h>
#include <inttypes.h>

#include "ir/attr.h"

#define PARSE_TEXT_MAX (64u << 20)
#define DIM_MAX (INT64_C(1) << 48)
#define WORD_MAX 1024

typedef struct parser {
    fl_program *program;
    fl_block *block;
    const char *at; /* the rest of the current line */
    fl_arena *tmp;  /* dies with the line */
} parser;

static void skip_space(parser *ps)
{
    ps->at += strspn(ps->at, " \t");
}

static bool accept(parser *ps, const char *text)
{
    size_t n = strlen(text);

    skip_space(ps);
    if (strncmp(ps->at, text, n))
        return false;
    ps->at += n;
    return true;
}

static fl_status expect(parser *ps, const char *text)
{
    if (accept(ps, text))
        return FL_OK;
    FL_FAIL(FL_ERR_CORRUPT, "expected '%s' before '%.40s'", text, ps->at);
}

/* A run of characters up to one of `stop`, a space or the end. */
static fl_status word(parser *ps, const char *stop, const char *what,
                      char **out)
{
    size_t n = 0;

    skip_space(ps);
    while (ps->at[n] && !isspace((unsigned char)ps->at[n]) &&
           !strchr(stop, ps->at[n]))
        n++;
    if (!n || n > WORD_MAX)
        FL_FAIL(FL_ERR_CORRUPT, "expected %s before '%.40s'", what, ps->at);
    *out = fl_arena_alloc(ps->tmp, n + 1);
    memcpy(*out, ps->at, n);
    ps->at += n;
    return FL_OK;
}

static fl_status end_of_line(parser *ps)
{
    skip_space(ps);
    if (*ps->at)
        FL_FAIL(FL_ERR_CORRUPT, "'%.40s' is too much", ps->at);
    return FL_OK;
}

static fl_status parse_shape(parser *ps, fl_shape *s)
{
    char *end;

    memset(s, 0, sizeof(*s));
    FL_TRY(expect(ps, "["));
    while (!accept(ps, "]")) {
        if (s->rank == FL_RANK_MAX)
            FL_FAIL(FL_ERR_CORRUPT, "a shape has at most %d dimensions",
                    FL_RANK_MAX);
        skip_space(ps);
        s->dim[s->rank] = strtoll(ps->at, &end, 10);
        if (end == ps->at || s->dim[s->rank] < -1 || s->dim[s->rank] > DIM_MAX)
            FL_FAIL(FL_ERR_CORRUPT, "expected a dimension before '%.40s'",
                    ps->at);
        s->rank++;
        ps->at = end;
        if (!accept(ps, ",") && *ps->at != ']')
            return expect(ps, "]");
    }
    return FL_OK;
}

static fl_status parse_type(parser *ps, fl_tensor *t)
{
    char *name;

    memset(t, 0, sizeof(*t));
    FL_TRY(word(ps, "[", "a type", &name));
    if (!fl_dtype_parse(name, &t->dtype))
        FL_FAIL(FL_ERR_CORRUPT,
                "'%s' is no type; there are f32 f64 i32 i64 u64 u8", name);
    return parse_shape(ps, &t->shape);
}

/* Words after the type: flags, and key=value for parameters. */
typedef struct var_words {
    unsigned flags;
    double lr;
    char *init, *regularizer, *clip;
} var_words;

static fl_status parse_key_value(const char *w, var_words *out, fl_tensor *t)
{
    char *value = strchr(w, '=');
    char *end;

    if (!value)
        FL_FAIL(FL_ERR_CORRUPT, "'%s' says nothing about a variable", w);
    *value++ = '\0';
    if (!strcmp(w, "init")) {
        out->init = value;
    } else if (!strcmp(w, "regularizer")) {
        out->regularizer = value;
    } else if (!strcmp(w, "clip")) {
        out->clip = value;
    } else if (!strcmp(w, "lr")) {
        out->lr = strtod(value, &end);
        if (end == value || *end)
            FL_FAIL(FL_ERR_CORRUPT, "lr=%s is no number", value);
    } else if (!strcmp(w, "lod")) {
        if (value[0] < '1' || value[0] > '0' + FL_LOD_MAX || value[1])
            FL_FAIL(FL_ERR_CORRUPT, "lod=%s is not in 1..%d", value,
                    FL_LOD_MAX);
        t->n_lod = value[0] - '0';
        t->kind = FL_KIND_RAGGED;
    } else {
        FL_FAIL(FL_ERR_CORRUPT, "'%s=' says nothing about a variable", w);
    }
    return FL_OK;
}

static fl_status parse_var_words(parser *ps, fl_tensor *t, var_words *out)
{
    static const struct {
        const char *word;
        unsigned flag;
    } flags[] = {
        { "data", FL_VAR_DATA },
        { "persist", FL_VAR_PERSIST },
        { "trainable", 0 },
        { "frozen", FL_VAR_FROZEN },
        { "table", FL_VAR_TABLE },
        { "declared", FL_VAR_DECLARED },
        { "stop_gradient", FL_VAR_STOP_GRAD },
    };
    char *w;

    for (skip_space(ps); *ps->at; skip_space(ps)) {
        size_t i = 0;

        FL_TRY(word(ps, "", "a word", &w));
        while (i < FL_LEN(flags) && strcmp(flags[i].word, w))
            i++;
        if (i < FL_LEN(flags))
            out->flags |= flags[i].flag;
        else if (!strcmp(w, "rows"))
            t->kind = FL_KIND_ROWS;
        else if (!strcmp(w, "array"))
            t->kind = FL_KIND_ARRAY;
        else
            FL_TRY(parse_key_value(w, out, t));
    }
    return FL_OK;
}

static fl_status parse_var(parser *ps, unsigned flags)
{
    var_words w = { .flags = flags, .lr = 1 };
    fl_tensor t;
    fl_var *v;
    char *name;

    FL_TRY(word(ps, "", "a name", &name));
    FL_TRY(expect(ps, ":"));
    FL_TRY(parse_type(ps, &t));
    FL_TRY(parse_var_words(ps, &t, &w));
    FL_TRY(fl_block_add_var(ps->block, name, &t, w.flags, &v));
    v->lr = w.lr;
    return fl_var_set_words(v,
                            &(fl_var_words){ w.init, w.regularizer, w.clip });
}

static fl_status parse_arg(parser *ps, fl_arg_list *out)
{
    fl_arg a;
    char *slot, *var;

    FL_TRY(word(ps, "=,()", "a slot", &slot));
    FL_TRY(expect(ps, "="));
    a.slot = slot;
    if (!accept(ps, "[")) {
        FL_TRY(word(ps, ",()", "a variable", &var));
        a.var = var;
        fl_vec_push(out, a);
        return FL_OK;
    }
    while (!accept(ps, "]")) {
        FL_TRY(word(ps, ",[]()", "a variable", &var));
        a.var = var;
        fl_vec_push(out, a);
        if (!accept(ps, ",") && *ps->at != ']')
            return expect(ps, "]");
    }
    return FL_OK;
}

static fl_status parse_args(parser *ps, fl_arg_list *out)
{
    FL_TRY(expect(ps, "("));
    while (!accept(ps, ")")) {
        FL_TRY(parse_arg(ps, out));
        if (!accept(ps, ",")) {
            skip_space(ps);
            if (*ps->at != ')')
                return expect(ps, ")");
        }
    }
    return FL_OK;
}

/* The text of one value, up to a ',' or '}' outside quotes and brackets. */
static fl_status value_text(parser *ps, char **out)
{
    size_t n = 0;
    bool quoted = false;
    int depth = 0;

    skip_space(ps);
    for (; ps->at[n]; n++) {
        char c = ps->at[n];

        if (quoted && c == '\\' && ps->at[n + 1]) {
            n++;
            continue;
        }
        if (c == '"')
            quoted = !quoted;
        if (quoted)
            continue;
        depth += (c == '[') - (c == ']');
        if (!depth && (c == ',' || c == '}'))
            break;
    }
    if (!ps->at[n] || !n)
        FL_FAIL(FL_ERR_CORRUPT, "expected a value before '%.40s'", ps->at);
    *out = fl_arena_alloc(ps->tmp, n + 1);
    memcpy(*out, ps->at, n);
    ps->at += n;
    while (n && isspace((unsigned char)(*out)[n - 1]))
        (*out)[--n] = '\0';
    return FL_OK;
}

/* The type of an attribute is its operator's to say. An unknown one is kept
   as a string, so that the builder can refuse it by name. */
static fl_attr_type attr_type(parser *ps, const char *type, const char *name)
{
    const fl_op *op = ps->program->ops->find(type);
    char base[WORD_MAX + 1];
    size_t n = strlen(type);
    int i;

    if (!op && n > 5) {
        snprintf(base, sizeof(base), "%.*s", (int)(n - 5), type);
        op = ps->program->ops->find(base);
    }
    i = op ? fl_op_find_attr(op, name) : -1;
    return i < 0 ? FL_ATTR_STRING : op->attrs[i].type;
}

static fl_status parse_attrs(parser *ps, const char *type, fl_named_attrs *out)
{
    fl_named_attr a;
    char *name, *text = NULL;

    if (!accept(ps, "{"))
        return FL_OK;
    while (!accept(ps, "}")) {
        FL_TRY(word(ps, "=,{}", "an attribute", &name));
        FL_TRY(expect(ps, "="));
        FL_TRY(value_text(ps, &text));
        FL_TRY(fl_err_ctx(
            fl_attr_parse(text, attr_type(ps, type, name), ps->tmp, &a.value),
            "attribute %s", name));
        a.name = name;
        fl_vec_push(out, a);
        accept(ps, ",");
    }
    return FL_OK;
}

fl_status fl_attrs_parse(fl_program *p, const char *type, const char *text,
                         fl_arena *arena, fl_named_attrs *out)
{
    parser ps = { .program = p, .at = text, .tmp = arena };

    FL_TRY(parse_attrs(&ps, type, out));
    return end_of_line(&ps);
}

static fl_status parse_role(parser *ps, fl_op_role *role)
{
    static const char *const names[] = { "forward", "backward", "optimize",
                                         "lr", "rpc" };
    char *w;

    *role = FL_OP_ROLE_FORWARD;
    if (!accept(ps, "@"))
        return FL_OK;
    FL_TRY(word(ps, "", "a role", &w));
    for (size_t i = 0; i < FL_LEN(names); i++)
        if (!strcmp(names[i], w)) {
            *role = (fl_op_role)i;
            return FL_OK;
        }
    FL_FAIL(FL_ERR_CORRUPT,
            "'%s' is no role; there are backward, optimize, lr and rpc", w);
}

static fl_status parse_op_parts(parser *ps, fl_op_builder *b)
{
    char *type;

    FL_TRY(word(ps, "(", "an operator", &type));
    b->type = type;
    FL_TRY(parse_args(ps, &b->in));
    FL_TRY(expect(ps, "->"));
    FL_TRY(parse_args(ps, &b->out));
    FL_TRY(parse_attrs(ps, type, &b->attrs));
    FL_TRY(parse_role(ps, &b->role));
    return fl_op_builder_put(b, ps->block, NULL, NULL);
}

static fl_status parse_op(parser *ps)
{
    fl_op_builder b = { 0 };
    fl_status st = parse_op_parts(ps, &b);

    fl_op_builder_release(&b);
    return st;
}

static fl_status parse_fetch(parser *ps)
{
    char *name;

    do {
        FL_TRY(word(ps, ",", "a variable", &name));
        fl_program_fetch(ps->program, name);
    } while (accept(ps, ","));
    return FL_OK;
}

static fl_status parse_number(parser *ps, uint64_t *out)
{
    char *end;

    skip_space(ps);
    *out = strtoull(ps->at, &end, 10);
    if (!isdigit((unsigned char)*ps->at))
        FL_FAIL(FL_ERR_CORRUPT, "expected a number before '%.40s'", ps->at);
    ps->at = end;
    return FL_OK;
}

static fl_status parse_block(parser *ps)
{
    uint64_t index, parent;

    FL_TRY(parse_number(ps, &index));
    FL_TRY(expect(ps, "parent"));
    FL_TRY(parse_number(ps, &parent));
    if (index != ps->program->blocks.len || parent >= index)
        FL_FAIL(FL_ERR_CORRUPT,
                "blocks are numbered in order, each after its parent");
    ps->block =
        fl_program_add_block(ps->program, ps->program->blocks.data[parent]);
    return FL_OK;
}

static fl_status parse_accumulate(parser *ps)
{
    uint64_t n;

    FL_TRY(parse_number(ps, &n));
    if (n < 1 || n > FL_ACCUMULATE_MAX)
        FL_FAIL(FL_ERR_CORRUPT,
                "accumulate %" PRIu64 ": 1 to %d batches make an update", n,
                FL_ACCUMULATE_MAX);
    ps->program->accumulate = n;
    return FL_OK;
}

static fl_status parse_line(parser *ps)
{
    skip_space(ps);
    if (!*ps->at)
        return FL_OK;
    if (accept(ps, "var "))
        return parse_var(ps, 0);
    if (accept(ps, "param "))
        return parse_var(ps, FL_VAR_PARAM);
    if (accept(ps, "op "))
        return parse_op(ps);
    if (accept(ps, "fetch "))
        return parse_fetch(ps);
    if (accept(ps, "seed "))
        return parse_number(ps, &ps->program->seed);
    if (accept(ps, "accumulate "))
        return parse_accumulate(ps);
    if (accept(ps, "block "))
        return parse_block(ps);
    if (accept(ps, "end")) {
        ps->block = fl_program_main(ps->program);
        return FL_OK;
    }
    FL_FAIL(FL_ERR_CORRUPT,
            "expected var, param, op, fetch, seed, accumulate, block or end "
            "before '%.40s'",
            ps->at);
}

/* A comment runs from a '#' outside quotes to the end of the line. */
static void cut_comment(char *line)
{
    bool quoted = false;

    for (; *line; line++) {
        if (quoted && *line == '\\' && line[1])
            line++;
        else if (*line == '"')
            quoted = !quoted;
        else if (*line == '#' && !quoted)
            *line = '\0';
        if (!*line)
            return;
    }
}

static fl_status parse_lines(parser *ps, const char *text)
{
    int line_no = 0;

    while (*text) {
        size_t n = strcspn(text, "\n");
        char *line = fl_arena_alloc(ps->tmp, n + 1);
        fl_status st;

        memcpy(line, text, n);
        cut_comment(line);
        ps->at = line;
        line_no++;
        st = parse_line(ps);
        if (!st)
            st = end_of_line(ps);
        if (st)
            return fl_err_ctx(st, "line %d", line_no);
        fl_arena_clear(ps->tmp);
        text += n + (text[n] == '\n');
    }
    return FL_OK;
}

fl_status fl_program_parse_into(fl_program *p, const char *text)
{
    fl_arena tmp;
    parser ps = { .program = p, .block = fl_program_main(p), .tmp = &tmp };
    fl_status st;

    if (strnlen(text, PARSE_TEXT_MAX + 1) > PARSE_TEXT_MAX)
        FL_FAIL(FL_ERR_CORRUPT, "a program text has at most %u bytes",
                PARSE_TEXT_MAX);
    fl_arena_init(&tmp, 16 << 10);
    st = parse_lines(&ps, text);
    fl_arena_release(&tmp);
    return fl_err_ctx(st, "program text");
}

fl_status fl_program_parse(const char *text, const fl_op_set *ops,
                           fl_program **out)
{
    fl_program *p = fl_program_of(ops);
    fl_status st = fl_program_parse_into(p, text);

    if (!st)
        st = fl_err_ctx(fl_program_verify(p), "program text");
    if (st) {
        fl_program_free(p);
        return st;
    }
    *out = p;
    return FL_OK;
}
