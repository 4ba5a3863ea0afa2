/* describe.c - what an operator takes and gives, and the text of its
 * attributes.
 *
 * The help of an operator is read line by line:
 *
 *     op NAME
 *       in   X, Y?, Z*       marks after a name say list, optional, ...
 *       out  Out, Mask~
 *       attr axis int = -1
 */
#include "describe.h"

#include <stdlib.h>
#include <string.h>

#include "flotilla/flotilla.h"

#define NAME_CHARS                                                             \
    "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-"

/* --- reading the help ---------------------------------------------------- */

static const char *take_name(pool *p, const char **at)
{
    size_t n = strspn(*at, NAME_CHARS);
    const char *name = pool_strndup(p, *at, n);

    *at += n;
    return name;
}

static void read_slots(pool *p, const char *at, const char ***slots, size_t *n)
{
    while (*(at += strcspn(at, NAME_CHARS)))
        POOL_PUSH(p, *slots, *n, take_name(p, &at));
}

static void read_attr(pool *p, const char *at, op_info *out)
{
    op_attr a;
    const char *value;

    a.name = take_name(p, &at);
    value = strstr(at, "= ");
    a.value = value ? value + 2 : "";
    POOL_PUSH(p, out->attrs, out->n_attrs, a);
}

static void read_line(pool *p, const char *line, op_info *out)
{
    line += strspn(line, " ");
    if (!strncmp(line, "in ", 3))
        read_slots(p, line + 3, &out->in, &out->n_in);
    else if (!strncmp(line, "out ", 4))
        read_slots(p, line + 4, &out->out, &out->n_out);
    else if (!strncmp(line, "attr ", 5))
        read_attr(p, line + 5 + strspn(line + 5, " "), out);
}

bool describe_op(golden_case *c, const char *op, op_info *out)
{
    char *help = fl_operator_help(op);

    memset(out, 0, sizeof(*out));
    if (!help) {
        case_fail(c, "no operator %s", op);
        return false;
    }
    for (const char *at = help; *at; at += strspn(at, "\n")) {
        size_t n = strcspn(at, "\n");

        read_line(&c->pool, pool_strndup(&c->pool, at, n), out);
        at += n;
    }
    fl_text_free(help);
    return true;
}

bool has_slot(const char *const *slots, size_t n, const char *name)
{
    for (size_t i = 0; i < n; i++)
        if (!strcmp(slots[i], name))
            return true;
    return false;
}

const op_attr *find_attr(const op_attr *attrs, size_t n, const char *name)
{
    for (size_t i = 0; i < n; i++)
        if (!strcmp(attrs[i].name, name))
            return &attrs[i];
    return NULL;
}

/* --- from JSON ----------------------------------------------------------- */

static void add_json(text *t, const cJSON *v)
{
    const cJSON *item;

    if (cJSON_IsBool(v)) {
        text_addf(t, cJSON_IsTrue(v) ? "true" : "false");
    } else if (cJSON_IsNumber(v)) {
        text_addf(t, "%.17g", v->valuedouble);
    } else if (cJSON_IsString(v)) {
        text_addf(t, "\"");
        for (const char *s = v->valuestring; *s; s++)
            text_addf(t, "%s%c", *s == '"' || *s == '\\' ? "\\" : "", *s);
        text_addf(t, "\"");
    } else {
        text_addf(t, "[");
        cJSON_ArrayForEach(item, v)
        {
            if (item != v->child)
                text_addf(t, ",");
            add_json(t, item);
        }
        text_addf(t, "]");
    }
}

void attrs_from_json(pool *p, const cJSON *object, op_attr **attrs, size_t *n)
{
    const cJSON *item;

    cJSON_ArrayForEach(item, object)
    {
        text value = { .pool = p };

        add_json(&value, item);
        POOL_PUSH(p, *attrs, *n,
                  ((op_attr){ pool_strdup(p, item->string), value.s }));
    }
}

/* --- to the text of a program -------------------------------------------- */

/* Attributes of the compared system that say nothing about the numbers on a
   CPU. Those with a value do so only when they have it. */
static const struct {
    const char *name, *value;
} without_meaning[] = {
    /* other devices and libraries, and choices between equal kernels */
    { "use_cudnn", NULL },
    { "use_mkldnn", NULL },
    { "force_cpu", NULL },
    { "op_device", NULL },
    { "numeric_stable_mode", "true" },
    { "min_row_size_to_use_multithread", NULL },
    { "@ALL_KERNELS_MUST_COMPUTE_RUNTIME_SHAPE@", NULL },
    /* quantisation and fused forms, at their values for "none" */
    { "use_quantizer", "false" },
    { "force_fp32_output", "false" },
    { "scale_x", "1" },
    { "scale_y", "[1]" },
    { "scale_out", "1" },
    { "Scale_x", "1" },
    { "Scale_y", "1" },
    { "Scale_out", "1" },
    { "fused_reshape_Out", "[]" },
    { "fused_transpose_Out", "[]" },
    { "head_number", "1" },
    /* formats of images */
    { "data_format", NULL },
    { "x_data_format", NULL },
    { "y_data_format", NULL },
    /* remote tables */
    { "remote_prefetch", NULL },
    { "is_distributed", NULL },
    { "trainer_id", NULL },
    { "height_sections", NULL },
    { "epmap", NULL },
    { "table_names", NULL },
    { "grad_inplace", "false" },
    /* marks of the program itself */
    { "op_role", NULL },
    { "op_role_var", NULL },
    { "op_namescope", NULL },
    { "is_forward", "true" },
    /* a second spelling of `value`, and types that stay as they are */
    { "str_value", NULL },
    { "in_dtype", "-1" },
    { "out_dtype", "-1" },
    /* a form for inference that computes the same */
    { "is_test", "false" },
};

/* Numbers are compared as numbers: 1 and 1.0 are the same value. */
static bool same_value(const char *a, const char *b)
{
    char *end_a, *end_b;
    double x, y;

    if (*a == '[' && *b == '[') {
        a++;
        b++;
    }
    x = strtod(a, &end_a);
    y = strtod(b, &end_b);
    if (end_a != a && end_b != b)
        return x == y && !strcmp(end_a, end_b);
    return !strcmp(a, b);
}

static bool is_without_meaning(const op_attr *a)
{
    for (size_t i = 0; i < sizeof(without_meaning) / sizeof(without_meaning[0]);
         i++)
        if (!strcmp(without_meaning[i].name, a->name))
            return !without_meaning[i].value ||
                   same_value(without_meaning[i].value, a->value);
    return false;
}

/* Types are written as numbers of an enum in some places. */
static const char *attr_value(const op_attr *a)
{
    static const struct {
        const char *number, *name;
    } types[] = {
        { "2", "int32" },
        { "3", "int64" },
        { "5", "float32" },
        { "6", "float64" },
    };
    size_t n = strlen(a->name);

    if (n >= 5 && !strcmp(a->name + n - 5, "dtype"))
        for (size_t i = 0; i < sizeof(types) / sizeof(types[0]); i++)
            if (!strcmp(types[i].number, a->value))
                return types[i].name;
    return a->value;
}

bool attrs_to_text(golden_case *c, const char *op, const op_info *info,
                   const op_attr *attrs, size_t n, text *line)
{
    const char *before = " {";

    for (size_t i = 0; i < n; i++) {
        if (find_attr(info->attrs, info->n_attrs, attrs[i].name)) {
            text_addf(line, "%s%s=%s", before, attrs[i].name,
                      attr_value(&attrs[i]));
            before = ", ";
        } else if (!is_without_meaning(&attrs[i])) {
            case_fail(c, "operator %s has no attribute %s (=%s)", op,
                      attrs[i].name, attrs[i].value);
            return false;
        }
    }
    if (*before == ',')
        text_addf(line, "}");
    return true;
}
