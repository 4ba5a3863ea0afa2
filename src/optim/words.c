/* words.c - initialisers, regularizers and clips in words. */
#include "optim/words.h"

#include <ctype.h>
#include <math.h>

static fl_status bad_words(const char *text)
{
    FL_FAIL(FL_ERR_INVAL, "'%s' is not of the form name(number,...)", text);
}

static fl_status parse_one(const char *text, const char **at, fl_words *out)
{
    char *end;

    if (!strncmp(*at, "seed=", 5)) {
        out->seed = strtoull(*at + 5, &end, 10);
        if (end == *at + 5)
            return bad_words(text);
        *at = end;
        return FL_OK;
    }
    if (out->n == FL_WORD_NUMBERS_MAX)
        return bad_words(text);
    out->v[out->n] = strtod(*at, &end);
    if (end == *at || !isfinite(out->v[out->n]))
        return bad_words(text);
    out->n++;
    *at = end;
    return FL_OK;
}

fl_status fl_words_parse(const char *text, fl_words *out)
{
    size_t n = strcspn(text, "(");
    const char *at = text + n;

    memset(out, 0, sizeof(*out));
    if (!n || n >= sizeof(out->name))
        return bad_words(text);
    memcpy(out->name, text, n);
    if (!*at)
        return FL_OK;
    do {
        at++;
        FL_TRY(parse_one(text, &at, out));
    } while (*at == ',');
    if (at[0] != ')' || at[1])
        return bad_words(text);
    return FL_OK;
}

fl_status fl_decay_parse(const char *text, fl_words *out)
{
    FL_TRY(fl_words_parse(text, out));
    if ((strcmp(out->name, "l1") && strcmp(out->name, "l2")) || out->n != 1)
        FL_FAIL(FL_ERR_INVAL, "'%s' is no decay; there are l1(x) and l2(x)",
                text);
    return FL_OK;
}

fl_status fl_clip_parse(const char *text, fl_clip_scope scope, fl_words *out)
{
    static const struct {
        const char *name;
        int n_numbers;
    } kinds[] = { { "value", 2 }, { "norm", 1 }, { "global_norm", 1 } };
    size_t n = scope == FL_CLIP_OF_PARAM ? 2 : FL_LEN(kinds);

    FL_TRY(fl_words_parse(text, out));
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
static void set_by_fans(fl_init *init, fan_rule rule, const fl_words *w,
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
    fl_words w;

    FL_TRY(fl_words_parse(text, &w));
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
