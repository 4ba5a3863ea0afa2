/* categories.c - functions that give categories. */
#include "base/vec.h"
#include "feature/feature.h"
#include "flotilla/operator.h"

/* Appends one operator over the columns, in slot X. */
static fl_var *append(const fl_feature_call *c, const char *op,
                      const fl_named_attr *attrs)
{
    fl_program *p = fl_default_main_program(c->ctx);
    const char *out = fl_unique_name(c->ctx, op);
    FL_VEC(fl_arg) in = { 0 };
    fl_status st;

    for (size_t i = 0; i < c->n_columns; i++) {
        fl_arg arg = { "X", fl_var_name(c->columns[i]) };

        fl_vec_push(&in, arg);
    }
    fl_vec_push(&in, ((fl_arg){ 0 }));
    st = fl_append_op(NULL, fl_program_block(p, 0), op, .inputs = in.data,
                      .outputs = FL_ARGS({ "Out", out }), .attrs = attrs);
    fl_vec_release(&in);
    return st ? NULL : fl_program_var(p, out);
}

/* --- intervals ------------------------------------------------------------- */

static fl_status check_ascending(const fl_numbers *n)
{
    for (size_t i = 1; i < n->n; i++)
        if (!(n->at[i - 1] < n->at[i]))
            FL_FAIL(FL_ERR_INVAL, "%g follows %g; limits ascend", n->at[i],
                    n->at[i - 1]);
    return FL_OK;
}

static fl_var *bucketize(const fl_feature_call *c, const fl_numbers *at)
{
    return append(
        c, "bucketize",
        FL_ATTRS(fl_list_attr("boundaries", FL_ATTR_FLOATS, at->at, at->n)));
}

/* One interval more than limits, and what is missing. */
static uint64_t bucket_height(const fl_numbers *params)
{
    return params[0].n + 2;
}

static fl_status bucket_check(const fl_numbers *params)
{
    return check_ascending(&params[0]);
}

static fl_var *bucket_build(const fl_feature_call *c)
{
    return bucketize(c, &c->params[0]);
}

const fl_feature fl_feature_bucket = {
    .name = "bucket",
    .form = "bucket(x, 18 25 35)",
    .doc = "which interval x lies in: how many of the limits are not above it; "
           "where x is missing one more than there are limits",
    .takes = FL_TAKES_NUMBERS,
    .gives = FL_SLOT_IDS,
    .params = { { "limits", true, NULL } },
    .check = bucket_check,
    .height = bucket_height,
    .build = bucket_build,
};

enum { PARTS, LIMITS };
enum { PARTS_MAX = FL_DIST_POINTS - 1 };

static fl_status quantiles_check(const fl_numbers *params)
{
    double n = *params[PARTS].at;

    if (!(n >= 2 && n <= PARTS_MAX) || n != (double)(int)n)
        FL_FAIL(FL_ERR_INVAL, "parts=%g is no whole number from 2 to %d", n,
                PARTS_MAX);
    return params[LIMITS].at ? check_ascending(&params[LIMITS]) : FL_OK;
}

/* Limits that are the same leave fewer parts. */
static void quantiles_learn(const fl_feature_dist *d, fl_arena *a,
                            fl_numbers *params)
{
    size_t parts = (size_t)*params[PARTS].at;
    double *at = fl_arena_alloc(a, parts * sizeof(*at));
    size_t n = 0;

    for (size_t i = 1; i < parts; i++) {
        double x = d->at[i * (FL_DIST_POINTS - 1) / parts];

        if (!n || at[n - 1] < x)
            at[n++] = x;
    }
    params[LIMITS] = (fl_numbers){ .at = at, .n = n };
}

static uint64_t quantiles_height(const fl_numbers *params)
{
    return params[LIMITS].n + 2;
}

static fl_var *quantiles_build(const fl_feature_call *c)
{
    return bucketize(c, &c->params[LIMITS]);
}

const fl_feature fl_feature_quantiles = {
    .name = "quantiles",
    .form = "quantiles(x, parts)",
    .doc = "bucket with limits, learnt from statistics, that part the values "
           "into so many groups of equal size",
    .takes = FL_TAKES_NUMBERS,
    .gives = FL_SLOT_IDS,
    .params = { { "parts", false, "10" }, { "limits", true, NULL } },
    .check = quantiles_check,
    .learn = quantiles_learn,
    .height = quantiles_height,
    .build = quantiles_build,
};

static fl_var *category_build(const fl_feature_call *c)
{
    return fl_layers_cast(c->columns[0], FL_DTYPE_I64);
}

const fl_feature fl_feature_category = {
    .name = "category",
    .form = "category(x)",
    .doc = "a number, cut off behind the point, as an id",
    .takes = FL_TAKES_NUMBERS,
    .gives = FL_SLOT_IDS,
    .build = category_build,
};

/* --- hashing --------------------------------------------------------------- */

static fl_status size_check(const fl_numbers *params)
{
    double n = params[0].at ? *params[0].at : 0;

    if (!(n >= 0 && n <= (double)((int64_t)1 << 52)) || n != (double)(int64_t)n)
        FL_FAIL(FL_ERR_INVAL, "size=%g is no whole number from 0 to 2^52", n);
    return FL_OK;
}

static uint64_t size_height(const fl_numbers *params)
{
    return (uint64_t)*params[0].at;
}

static fl_var *cross_build(const fl_feature_call *c)
{
    return append(c, "cross_ids",
                  FL_ATTRS(fl_string_attr("name", c->name),
                           fl_int_attr("size", (int64_t)*c->params[0].at)));
}

const fl_feature fl_feature_hash = {
    .name = "hash",
    .form = "hash(x, size)",
    .doc = "an id below the size for each id, by a fixed function",
    .takes = FL_TAKES_CATEGORIES,
    .gives = FL_SLOT_IDS,
    .params = { { "size", false, NULL } },
    .check = size_check,
    .height = size_height,
    .build = cross_build,
};

const fl_feature fl_feature_cross = {
    .name = "cross",
    .form = "cross(x, y, ..., size=0)",
    .doc = "an id for what comes together; of lists every way to take one of "
           "each. Below the size, or of 64 bits where that is 0",
    .takes = FL_TAKES_CATEGORIES,
    .gives = FL_SLOT_IDS,
    .takes_many = true,
    .params = { { "size", false, "0" } },
    .check = size_check,
    .height = size_height,
    .build = cross_build,
};

/* --- parts of a time -------------------------------------------------------- */

static fl_status zone_check(const fl_numbers *params)
{
    if (!(*params[0].at >= -24 && *params[0].at <= 24))
        FL_FAIL(FL_ERR_INVAL, "zone=%g is not in -24..24 hours from UTC",
                *params[0].at);
    return FL_OK;
}

static fl_var *time_build(const fl_feature_call *c, const char *part)
{
    return append(c, "time_part",
                  FL_ATTRS(fl_string_attr("part", part),
                           fl_float_attr("zone", *c->params[0].at)));
}

#define TIME_PART(part, height_, text)                                         \
    static fl_var *part##_build(const fl_feature_call *c)                      \
    {                                                                          \
        return time_build(c, #part);                                           \
    }                                                                          \
    static uint64_t part##_height(const fl_numbers *params)                    \
    {                                                                          \
        (void)params;                                                          \
        return height_;                                                        \
    }                                                                          \
    const fl_feature fl_feature_##part = {                                     \
        .name = #part,                                                         \
        .form = #part "(t, zone=0)",                                           \
        .doc = text " of a time in seconds since 1970 (UTC), on a clock that " \
                    "is zone hours ahead",                                     \
        .takes = FL_TAKES_CATEGORIES,                                          \
        .gives = FL_SLOT_IDS,                                                  \
        .takes_time = true,                                                    \
        .params = { { "zone", false, "0" } },                                  \
        .check = zone_check,                                                   \
        .height = part##_height,                                               \
        .build = part##_build,                                                 \
    };

TIME_PART(hour, 24, "the hour, 0 to 23,")
TIME_PART(weekday, 7, "the day of the week, 0 for Monday,")
TIME_PART(day, 32, "the day of the month, 1 to 31,")
TIME_PART(month, 13, "the month, 1 to 12,")
