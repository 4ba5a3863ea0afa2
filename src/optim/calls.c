/* calls.c - initialisers, regularizers and clips in words. */
#include "optim/calls.h"

#include <math.h>

#include "conf/words.h"

static fl_status bad_call(const char *text)
{
    FL_FAIL(FL_ERR_INVAL, "'%s' is not of the form name(number,...)", text);
}

/* A number, or a seed; false when it is neither. */
static bool take_argument(const fl_word *w, fl_call *out)
{
    const char *text = w->value;
    char *end;

    if (!strcmp(w->name, "seed")) {
        out->seed = strtoull(text, &end, 10);
        return end != text && !*end;
    }
    if (*w->name || out->n == FL_CALL_NUMBERS_MAX)
        return false;
    out->v[out->n] = strtod(text, &end);
    return end != text && !*end && isfinite(out->v[out->n++]);
}

static bool take_arguments(const char *text, fl_call *out)
{
    fl_words args;
    bool good = true;

    if (fl_words_read(&args, text, FL_WORDS_LIST))
        return false;
    for (size_t i = 0; i < args.list.len && good; i++)
        good = take_argument(&args.list.data[i], out);
    fl_words_release(&args);
    return good;
}

fl_status fl_call_parse(const char *text, fl_call *out)
{
    size_t n = strcspn(text, "("), len = strlen(text);
    char *inner;
    bool good;

    memset(out, 0, sizeof(*out));
    if (!n || n >= sizeof(out->name) || (n < len && text[len - 1] != ')'))
        return bad_call(text);
    memcpy(out->name, text, n);
    if (n == len)
        return FL_OK;
    inner = fl_strdup(text + n + 1);
    inner[len - n - 2] = '\0';
    good = take_arguments(inner, out);
    fl_free(inner);
    return good ? FL_OK : bad_call(text);
}

fl_status fl_decay_parse(const char *text, fl_call *out)
{
    FL_TRY(fl_call_parse(text, out));
    if ((strcmp(out->name, "l1") && strcmp(out->name, "l2")) || out->n != 1)
        FL_FAIL(FL_ERR_INVAL, "'%s' is no decay; there are l1(x) and l2(x)",
                text);
    return FL_OK;
}

fl_status fl_clip_parse(const char *text, fl_clip_scope scope, fl_call *out)
{
    static const struct {
        const char *name;
        int n_numbers;
    } kinds[] = { { "value", 2 }, { "norm", 1 }, { "global_norm", 1 } };
    size_t n = scope == FL_CLIP_OF_PARAM ? 2 : FL_LEN(kinds);

    FL_TRY(fl_call_parse(text, out));
    for (size_t i = 0; i < n; i++)
        if (!strcmp(kinds[i].name, out->name) && out->n == kinds[i].n_numbers)
            return FL_OK;
    FL_FAIL(FL_ERR_INVAL, "'%s' is no clip here; there are value(min,max)%s",
            text, n == 2 ? " and norm(x)" : ", norm(x) and global_norm(x)");
}

/* Fans of a weight: a matrix has (rows, columns); more dimensions are a
   convolution's (out, in, receptive field). */
static void shape_fans(const fl_shape *s, double *fan_in, double *fan_out)
{
    double field = 1;

    if (s->rank < 2) {
        *fan_in = *fan_out = s->rank ? (double)s->dim[0] : 1;
        return;
    }
    if (s->rank == 2) {
        *fan_in = (double)s->dim[0];
        *fan_out = (double)s->dim[1];
        return;
    }
    for (int i = 2; i < s->rank; i++)
        field *= (double)s->dim[i];
    *fan_in = (double)s->dim[1] * field;
    *fan_out = (double)s->dim[0] * field;
}

typedef enum fan_rule { FANS_NONE, FANS_BOTH, FANS_IN } fan_rule;

/* Width of the distribution by the fans: Glorot and Bengio's (both), He's
   (in alone). */
static void set_by_fans(fl_init *init, fan_rule rule, const fl_call *w,
                        const fl_shape *shape)
{
    double in, out, fans;

    shape_fans(shape, &in, &out);
    in = w->n > 0 ? w->v[0] : in;
    out = w->n > 1 ? w->v[1] : out;
    fans = rule == FANS_BOTH ? in + out : in;
    init->a = 0;
    init->b = sqrt(2.0 / fans);
    if (init->kind == FL_INIT_UNIFORM) {
        init->b = sqrt(6.0 / fans);
        init->a = -init->b;
    }
}

fl_status fl_init_parse(const char *text, const fl_shape *shape, fl_init *out)
{
    static const struct {
        const char *name;
        fl_init_kind kind;
        int n_numbers;
        fan_rule fans; /* the numbers are fans and may be left out */
    } kinds[] = {
        { "constant", FL_INIT_CONSTANT, 1, FANS_NONE },
        { "uniform", FL_INIT_UNIFORM, 2, FANS_NONE },
        { "normal", FL_INIT_GAUSSIAN, 2, FANS_NONE },
        { "truncated_normal", FL_INIT_TRUNCATED, 2, FANS_NONE },
        { "xavier", FL_INIT_UNIFORM, 2, FANS_BOTH },
        { "xavier_normal", FL_INIT_GAUSSIAN, 2, FANS_BOTH },
        { "msra", FL_INIT_UNIFORM, 1, FANS_IN },
        { "msra_normal", FL_INIT_GAUSSIAN, 1, FANS_IN },
    };
    size_t i = 0;
    fl_call w;

    FL_TRY(fl_call_parse(text, &w));
    while (i < FL_LEN(kinds) && strcmp(kinds[i].name, w.name))
        i++;
    if (i == FL_LEN(kinds))
        FL_FAIL(FL_ERR_INVAL,
                "'%s' is no initialiser; there are constant, uniform, normal, "
                "truncated_normal, xavier, xavier_normal, msra and msra_normal",
                w.name);
    if (w.n != kinds[i].n_numbers && !(kinds[i].fans && w.n == 0))
        FL_FAIL(FL_ERR_INVAL, "initialiser '%s' needs %d numbers, got %d",
                w.name, kinds[i].n_numbers, w.n);
    *out = (fl_init){ kinds[i].kind, w.v[0], w.v[1], w.seed };
    if (kinds[i].fans)
        set_by_fans(out, kinds[i].fans, &w, shape);
    return FL_OK;
}
