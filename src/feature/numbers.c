/* numbers.c - functions that give numbers. */
#include <inttypes.h>
#include <math.h>
#include <stdio.h>

#include "feature/feature.h"

/* An operator X -> Out with attributes in text form, printed as usual. */
#define ATTRS_MAX 128
FL_PRINTF(3, 4)
static fl_var *apply(const char *op, fl_var *x, const char *fmt, ...)
{
    char attrs[ATTRS_MAX];
    va_list ap;

    va_start(ap, fmt);
    vsnprintf(attrs, sizeof(attrs), fmt, ap);
    va_end(ap);
    return fl_layers_unary(op, x, attrs);
}

/* 1 where the comparison holds, else 0. */
static fl_var *test(const char *op, fl_var *x, fl_var *y)
{
    return fl_layers_cast(fl_layers_binary(op, x, y, NULL), FL_DTYPE_F32);
}

/* --- log ------------------------------------------------------------------ */

static double log_value(double x, const fl_numbers *params)
{
    (void)params;
    return copysign(log1p(fabs(x)), x);
}

static fl_var *log_build(const fl_feature_call *c)
{
    return fl_layers_unary("signed_log", c->columns[0], NULL);
}

const fl_feature fl_feature_log = {
    .name = "log",
    .form = "log(x)",
    .doc = "ln(1 + |x|) with the sign of x: for what spans many powers of ten",
    .takes = FL_TAKES_NUMBERS,
    .gives = FL_SLOT_FLOATS,
    .value = log_value,
    .build = log_build,
};

/* --- standard and scale: (x - from) / span --------------------------------- */

static fl_var *shift(fl_var *x, double from, double span)
{
    return apply("scale", x,
                 "{scale=%.17g, bias=%.17g, bias_after_scale=false}", 1 / span,
                 -from);
}

enum { MEAN, DEVIATION };

static fl_status standard_check(const fl_numbers *params)
{
    if (params[DEVIATION].at && !(*params[DEVIATION].at > 0))
        FL_FAIL(FL_ERR_INVAL, "a deviation of %g is not above 0",
                *params[DEVIATION].at);
    return FL_OK;
}

/* What never differs stays 0. */
static void standard_learn(const fl_feature_dist *d, fl_arena *a,
                           fl_numbers *params)
{
    if (!params[MEAN].at)
        params[MEAN] = fl_numbers_of(a, d->mean);
    if (!params[DEVIATION].at)
        params[DEVIATION] =
            fl_numbers_of(a, d->deviation > 0 ? d->deviation : 1);
}

static double standard_value(double x, const fl_numbers *params)
{
    return (x - *params[MEAN].at) / *params[DEVIATION].at;
}

static fl_var *standard_build(const fl_feature_call *c)
{
    return shift(c->columns[0], *c->params[MEAN].at, *c->params[DEVIATION].at);
}

const fl_feature fl_feature_standard = {
    .name = "standard",
    .form = "standard(x, mean=M, deviation=D)",
    .doc = "(x - mean) / deviation; both are learnt from statistics where they "
           "are left out",
    .takes = FL_TAKES_NUMBERS,
    .gives = FL_SLOT_FLOATS,
    .params = { { "mean", false, NULL }, { "deviation", false, NULL } },
    .check = standard_check,
    .learn = standard_learn,
    .value = standard_value,
    .build = standard_build,
};

enum { LEAST, MOST };

static fl_status scale_check(const fl_numbers *params)
{
    if (params[LEAST].at && params[MOST].at &&
        !(*params[LEAST].at < *params[MOST].at))
        FL_FAIL(FL_ERR_INVAL, "least=%g is not below most=%g",
                *params[LEAST].at, *params[MOST].at);
    return FL_OK;
}

static void scale_learn(const fl_feature_dist *d, fl_arena *a,
                        fl_numbers *params)
{
    double least = d->at[0], most = d->at[FL_DIST_POINTS - 1];

    if (!params[LEAST].at)
        params[LEAST] = fl_numbers_of(a, least);
    if (!params[MOST].at)
        params[MOST] = fl_numbers_of(a, most > least ? most : least + 1);
}

static double scale_value(double x, const fl_numbers *params)
{
    return (x - *params[LEAST].at) / (*params[MOST].at - *params[LEAST].at);
}

static fl_var *scale_build(const fl_feature_call *c)
{
    return shift(c->columns[0], *c->params[LEAST].at,
                 *c->params[MOST].at - *c->params[LEAST].at);
}

const fl_feature fl_feature_scale = {
    .name = "scale",
    .form = "scale(x, least=L, most=M)",
    .doc = "(x - least) / (most - least), 0 to 1; both are learnt from "
           "statistics where they are left out",
    .takes = FL_TAKES_NUMBERS,
    .gives = FL_SLOT_FLOATS,
    .params = { { "least", false, NULL }, { "most", false, NULL } },
    .check = scale_check,
    .learn = scale_learn,
    .value = scale_value,
    .build = scale_build,
};

/* --- clip ------------------------------------------------------------------ */

static double clip_value(double x, const fl_numbers *params)
{
    return fmin(fmax(x, *params[LEAST].at), *params[MOST].at);
}

static fl_var *clip_build(const fl_feature_call *c)
{
    return apply("clip", c->columns[0], "{min=%.17g, max=%.17g}",
                 *c->params[LEAST].at, *c->params[MOST].at);
}

const fl_feature fl_feature_clip = {
    .name = "clip",
    .form = "clip(x, least, most)",
    .doc = "x, or the nearer of the two where it lies outside",
    .takes = FL_TAKES_NUMBERS,
    .gives = FL_SLOT_FLOATS,
    .params = { { "least", false, NULL }, { "most", false, NULL } },
    .check = scale_check,
    .value = clip_value,
    .build = clip_build,
};

/* --- what is missing ------------------------------------------------------- */

/* Statistics are of what is there. */
static double fill_value(double x, const fl_numbers *params)
{
    (void)params;
    return x;
}

static fl_var *fill_build(const fl_feature_call *c)
{
    return apply("fill_nan", c->columns[0], "{value=%.17g}", *c->params[0].at);
}

const fl_feature fl_feature_fill = {
    .name = "fill",
    .form = "fill(x, value=0)",
    .doc = "x, or the value where x is missing (NaN, as csv reads empty fields "
           "with missing=nan)",
    .takes = FL_TAKES_NUMBERS,
    .gives = FL_SLOT_FLOATS,
    .params = { { "value", false, "0" } },
    .value = fill_value,
    .build = fill_build,
};

static fl_var *missing_build(const fl_feature_call *c)
{
    return test("not_equal", c->columns[0], c->columns[0]);
}

const fl_feature fl_feature_missing = {
    .name = "missing",
    .form = "missing(x)",
    .doc = "1 where x is missing (NaN), else 0",
    .takes = FL_TAKES_NUMBERS,
    .gives = FL_SLOT_FLOATS,
    .build = missing_build,
};

/* --- is, number ------------------------------------------------------------ */

static fl_var *is_build(const fl_feature_call *c)
{
    fl_var *x = c->columns[0];

    return test("equal", x,
                fl_layers_fill_constant(c->ctx, fl_var_dtype(x), 1,
                                        (int64_t[]){ 1 }, *c->params[0].at));
}

const fl_feature fl_feature_is = {
    .name = "is",
    .form = "is(x, value)",
    .doc = "1 where x is that number or id, else 0",
    .takes = FL_TAKES_NUMBERS | FL_TAKES_CATEGORIES,
    .gives = FL_SLOT_FLOATS,
    .params = { { "value", false, NULL } },
    .build = is_build,
};

static fl_var *number_build(const fl_feature_call *c)
{
    return fl_layers_cast(c->columns[0], FL_DTYPE_F32);
}

const fl_feature fl_feature_number = {
    .name = "number",
    .form = "number(x)",
    .doc = "an id as the number that it is",
    .takes = FL_TAKES_CATEGORIES,
    .gives = FL_SLOT_FLOATS,
    .build = number_build,
};
