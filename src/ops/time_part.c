/* time_part.c - the hour, the day and such of seconds since 1970 (UTC), in the
 * calendar of Gregory and without leap seconds. */
#include "ops/helpers.h"

enum { X };
enum { OUT };
enum { PART, ZONE };

enum { HOUR_SECONDS = 3600, DAY_SECONDS = 86400 };

static int64_t floor_div(int64_t a, int64_t b)
{
    return a / b - (a % b < 0);
}

static int64_t hour_of(int64_t t)
{
    return floor_div(t, HOUR_SECONDS) - 24 * floor_div(t, DAY_SECONDS);
}

/* The first of January 1970 was a Thursday, day 3 of a week from Monday. */
static int64_t weekday_of(int64_t t)
{
    int64_t day = floor_div(t, DAY_SECONDS) + 3;

    return day - 7 * floor_div(day, 7);
}

/* A year from the first of March, so that the leap day is its last: day d of
   it is in month (5 d + 2) / 153, which begins with day (153 m + 2) / 5. */
typedef struct date {
    int64_t month, day; /* from 1 */
} date;

static date date_of(int64_t t)
{
    enum { ERA_DAYS = 146097, TO_1970 = 719468 };
    int64_t days = floor_div(t, DAY_SECONDS) + TO_1970;
    int64_t in_era = days - ERA_DAYS * floor_div(days, ERA_DAYS);
    int64_t year =
        (in_era - in_era / 1460 + in_era / 36524 - in_era / 146096) / 365;
    int64_t in_year = in_era - (365 * year + year / 4 - year / 100);
    int64_t month = (5 * in_year + 2) / 153;

    return (date){ .month = month < 10 ? month + 3 : month - 9,
                   .day = in_year - (153 * month + 2) / 5 + 1 };
}

static int64_t day_of(int64_t t)
{
    return date_of(t).day;
}

static int64_t month_of(int64_t t)
{
    return date_of(t).month;
}

typedef int64_t (*part_fn)(int64_t seconds);

static const struct {
    const char *name;
    part_fn fn;
} parts[] = {
    { "hour", hour_of },
    { "weekday", weekday_of },
    { "day", day_of },
    { "month", month_of },
};

static part_fn find_part(const fl_op_node *n)
{
    const char *name = fl_attr_str(n, PART);

    for (size_t i = 0; i < FL_LEN(parts); i++)
        if (!strcmp(parts[i].name, name))
            return parts[i].fn;
    return NULL;
}

static fl_status time_part_infer(fl_infer *c)
{
    fl_tensor *out = fl_infer_out(c, OUT);

    FL_TRY(fl_infer_ids(c, X));
    if (!find_part(c->node))
        FL_FAIL(FL_ERR_INVAL,
                "op time_part: part=%s is neither hour, weekday, day nor month",
                fl_str_attr(c, PART));
    if (!(fl_float(c, ZONE) >= -24 && fl_float(c, ZONE) <= 24))
        FL_FAIL(FL_ERR_INVAL,
                "op time_part: zone=%g is not in -24..24 hours from UTC",
                fl_float(c, ZONE));
    fl_tensor_like(out, fl_infer_in(c, X));
    out->dtype = FL_DTYPE_I64;
    return FL_OK;
}

static fl_status time_part_run(fl_op_ctx *c)
{
    const fl_tensor *x = fl_in_t(c, X);
    int64_t *out = fl_out(c, OUT);
    int64_t zone = (int64_t)(fl_float(c, ZONE) * HOUR_SECONDS);
    fl_span s = fl_op_span(c, (size_t)fl_tensor_numel(x));
    part_fn part = find_part(c->node);

    for (size_t i = s.lo; i < s.hi; i++)
        out[i] = part(fl_id_at(x, (int64_t)i) + zone);
    return FL_OK;
}

static const fl_op_case time_part_cases[] = {
    { .in = { "i64[33,1] below=2000000000" }, .attrs = "{part=hour}" },
    { .in = { "i64[33,1] below=2000000000" },
      .attrs = "{part=weekday, zone=-5}" },
    { .in = { "i64[7,1] lod=[0,2,2,7] below=2000000000" },
      .attrs = "{part=day, zone=5.5}" },
    { .in = { "i32[33] below=2000000000" }, .attrs = "{part=month}" },
    { .in = { "i64[0,1]" }, .attrs = "{part=hour}" },
};

const fl_op fl_op_time_part = {
    .name = "time_part",
    .doc = "Out = the hour (0-23), the weekday (0 is Monday), the day of the "
           "month (1-31) or the month (1-12) of X, seconds since 1970 UTC, on "
           "a clock that is zone hours ahead",
    .in = { { "X", FL_SLOT_NO_GRAD } },
    .out = { { "Out", FL_SLOT_NO_GRAD } },
    .attrs = { { "part", FL_ATTR_STRING, "hour" },
               { "zone", FL_ATTR_FLOAT, "0" } },
    .flags = FL_OP_SLICED,
    .infer = time_part_infer,
    .run = time_part_run,
    .cases = time_part_cases,
    .n_cases = FL_LEN(time_part_cases),
};
