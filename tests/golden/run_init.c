/* run_init.c - initialisers: which operator they become for a shape, and what
 * its numbers look like.
 *
 * Metadata "shape 200x100" holds the operator of the startup program with its
 * attributes, tensor stat.200x100 the mean, deviation, minimum and maximum of
 * a sample. A parameter of that shape is made by a layer: a matrix is the
 * weight of fc, a vector its bias. No layer makes a parameter of more
 * dimensions, so such shapes are left out.
 */
#include "compare.h"
#include "describe.h"
#include "session.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#define TOLERANCE_ATTR 1e-7 /* attributes were kept in f32 */

/* How a case's initialiser is called here; numbers are taken from the
   attributes of the recorded operator. */
static const struct {
    const char *name, *word, *numbers[2];
} initializers[] = {
    { "constant", "constant", { "value", NULL } },
    { "uniform", "uniform", { "min", "max" } },
    { "normal", "normal", { "mean", "std" } },
    { "truncated_normal", "truncated_normal", { "mean", "std" } },
    { "xavier_uniform", "xavier", { NULL, NULL } },
    { "xavier_normal", "xavier_normal", { NULL, NULL } },
    /* The case was recorded with fans that add up to 60. */
    { "xavier_fans", "xavier(20,40)", { NULL, NULL } },
    { "msra_uniform", "msra", { NULL, NULL } },
    { "msra_normal", "msra_normal", { NULL, NULL } },
};

static const char *init_text(golden_case *c, const char *name,
                             const cJSON *recorded)
{
    text t = { .pool = &c->pool };

    for (size_t i = 0; i < sizeof(initializers) / sizeof(initializers[0]);
         i++) {
        if (strcmp(initializers[i].name, name))
            continue;
        text_addf(&t, "%s", initializers[i].word);
        for (int k = 0; k < 2 && initializers[i].numbers[k]; k++)
            text_addf(&t, "%s%.17g", k ? "," : "(",
                      json_number(recorded, initializers[i].numbers[k], 0));
        text_addf(&t, "%s", initializers[i].numbers[0] ? ")" : "");
        return t.s;
    }
    case_fail(c, "no initializer %s", name);
    return NULL;
}

/* "8x3x5x5". */
static bool parse_shape(const char *s, fl_shape *out)
{
    char *end;

    memset(out, 0, sizeof(*out));
    do {
        if (out->rank == FL_RANK_MAX)
            return false;
        out->dim[out->rank++] = strtoll(s, &end, 10);
        if (end == s)
            return false;
        s = end + (*end == 'x');
    } while (*end == 'x');
    return !*end;
}

/* --- making a parameter called w ----------------------------------------- */

static bool make_param(session *s, const fl_shape *shape, const char *init)
{
    fl_param_attr w = { .name = "w", .init = init };
    int64_t rows = shape->rank == 2 ? shape->dim[0] : 1;
    fl_var *x = fl_layers_data(s->ctx, "x", FL_DTYPE_F32, 2,
                               (int64_t[]){ -1, rows }, 0);

    if (shape->rank == 2)
        return fl_layers_fc(x, shape->dim[1], .param = w, .no_bias = true);
    return fl_layers_fc(x, shape->dim[0], .bias = w);
}

/* --- looking at the startup program -------------------------------------- */

/* The line that writes w, or NULL. */
static char *startup_line(session *s)
{
    char *source = fl_program_to_text(fl_default_startup_program(s->ctx));
    char *found = NULL;

    for (char *at = source; at && *at && !found;) {
        size_t n = strcspn(at, "\n");
        char *line = pool_strndup(&s->c->pool, at, n);

        if (!strncmp(line, "op ", 3) && strstr(line, "(Out=w)"))
            found = line;
        at += n + (at[n] == '\n');
    }
    fl_text_free(source);
    return found;
}

/* An attribute of a printed operator; what is not printed has its default. */
static double printed_attr(const char *line, const op_info *info,
                           const char *name)
{
    const op_attr *def = find_attr(info->attrs, info->n_attrs, name);
    size_t n = strlen(name);

    for (const char *at = strchr(line, '{'); at; at = strpbrk(at + 1, " ,"))
        if (!strncmp(at + 1, name, n) && at[n + 1] == '=')
            return strtod(at + n + 2, NULL);
    return def ? strtod(def->value, NULL) : NAN;
}

static void compare_op(session *s, const char *shape, const cJSON *recorded)
{
    const char *op = cJSON_GetStringValue(cJSON_GetObjectItem(recorded, "op"));
    char *line = startup_line(s);
    const cJSON *item;
    op_info info;

    if (!line) {
        case_fail(s->c, "shape %s: the startup program does not write it",
                  shape);
        return;
    }
    if (strncmp(line + 3, op, strlen(op)) || line[3 + strlen(op)] != ' ') {
        case_fail(s->c, "shape %s: got '%s', want operator %s", shape, line,
                  op);
        return;
    }
    if (!describe_op(s->c, op, &info))
        return;
    cJSON_ArrayForEach(item, recorded)
    {
        double got, want = item->valuedouble;

        if (!cJSON_IsNumber(item))
            continue;
        got = printed_attr(line, &info, item->string);
        compare_numbers(
            s->c, pool_printf(&s->c->pool, "shape %s: %s", shape, item->string),
            &got, &want, 1, TOLERANCE_ATTR);
    }
}

/* --- looking at the numbers ---------------------------------------------- */

static void compare_limits(session *s, const char *shape, const sample *got,
                           const cJSON *recorded)
{
    const char *op = cJSON_GetStringValue(cJSON_GetObjectItem(recorded, "op"));
    double std = json_number(recorded, "std", 0);
    double mean = json_number(recorded, "mean", 0);
    double lo = -INFINITY, hi = INFINITY;

    if (!strcmp(op, "uniform_random")) {
        lo = json_number(recorded, "min", 0);
        hi = json_number(recorded, "max", 0);
    } else if (!strcmp(op, "truncated_gaussian_random")) {
        lo = mean - 2 * std;
        hi = mean + 2 * std;
    }
    if (got->min < lo - TOLERANCE_ATTR || got->max > hi + TOLERANCE_ATTR)
        case_fail(s->c, "shape %s: got numbers in [%g, %g], want [%g, %g]",
                  shape, got->min, got->max, lo, hi);
}

static void compare_values(session *s, const char *shape, const cJSON *recorded)
{
    const st_tensor *stat = st_find(&s->c->file, "stat.%s", shape);
    fl_tensor w;
    sample got, want;

    if (!session_startup(s) || !session_get(s, "w", &w))
        return;
    got = sample_of(w.dtype, w.data, fl_tensor_numel(&w));
    compare_limits(s, shape, &got, recorded);
    if (!stat || stat->numel < 2)
        return;
    want = (sample){ .n = got.n,
                     .mean = st_at(stat, 0),
                     .deviation = st_at(stat, 1) };
    compare_samples(s->c, stat->name, &got, &want);
}

static void check_shape(golden_case *c, const char *shape_text,
                        const fl_shape *shape, const cJSON *recorded)
{
    const char *init =
        init_text(c, st_meta_find(&c->file, "initializer"), recorded);
    session s;

    if (!cJSON_GetStringValue(cJSON_GetObjectItem(recorded, "op"))) {
        case_fail(c, "shape %s has no operator", shape_text);
        return;
    }
    if (!init || !session_open(&s, c))
        return;
    if (make_param(&s, shape, init)) {
        compare_op(&s, shape_text, recorded);
        compare_values(&s, shape_text, recorded);
    } else {
        case_fail(c, "shape %s: %s", shape_text, fl_last_error());
    }
    session_close(&s);
}

void run_init(golden_case *c)
{
    for (size_t i = 0; i < c->file.n_metas && !c->n_failures; i++) {
        const char *key = c->file.metas[i].key;
        cJSON *recorded;
        fl_shape shape;

        if (strncmp(key, "shape ", 6))
            continue;
        recorded = case_json(c, key);
        if (!parse_shape(key + 6, &shape))
            case_fail(c, "'%s' is no shape", key + 6);
        else if (recorded && shape.rank <= 2)
            check_shape(c, key + 6, &shape, recorded);
        cJSON_Delete(recorded);
    }
}
