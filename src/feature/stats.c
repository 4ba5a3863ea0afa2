/* stats.c - statistics of columns, as `flotilla data count --stats` writes
 * them: docs/formats/stats.md. */
#include <math.h>

#include "base/file.h"
#include "ckpt/json_in.h"
#include "feature/feature.h"

struct fl_stats {
    cJSON *all;
    const cJSON *columns;
    char *path;
};

#define FILE_BYTES_MAX ((size_t)1 << 28)

static fl_status read_columns(fl_stats *s, const char *text, size_t len)
{
    uint64_t version;

    FL_TRY(fl_json_in_parse(&s->all, text, len, s->path));
    FL_TRY(fl_json_in_u64(s->all, "version", s->path, &version));
    if (version != 1)
        FL_FAIL(FL_ERR_CORRUPT,
                "%s: statistics of version %llu; this library reads version 1",
                s->path, (unsigned long long)version);
    return fl_json_in_object(s->all, "columns", s->path, &s->columns);
}

fl_status fl_stats_read(fl_stats **out, const char *path)
{
    fl_stats *s;
    fl_status st;
    char *text;
    size_t len;

    FL_TRY(fl_file_read(path, FILE_BYTES_MAX, &text, &len));
    s = fl_alloc(sizeof(*s));
    s->path = fl_strdup(path);
    st = read_columns(s, text, len);
    fl_free(text);
    if (st) {
        fl_stats_free(s);
        return st;
    }
    *out = s;
    return FL_OK;
}

void fl_stats_free(fl_stats *s)
{
    if (!s)
        return;
    cJSON_Delete(s->all);
    fl_free(s->path);
    fl_free(s);
}

static fl_status number(const fl_stats *s, const cJSON *column, const char *key,
                        double *out)
{
    const cJSON *x = fl_json_in_find(column, key);

    if (!cJSON_IsNumber(x))
        FL_FAIL(FL_ERR_CORRUPT, "%s: column %s has no number '%s'", s->path,
                column->string, key);
    *out = x->valuedouble;
    return FL_OK;
}

static fl_status points(const fl_stats *s, const cJSON *column,
                        fl_feature_dist *out)
{
    const cJSON *list, *x;
    size_t n = 0;

    FL_TRY(fl_json_in_array(column, "quantiles", s->path, &list));
    cJSON_ArrayForEach(x, list)
    {
        if (!cJSON_IsNumber(x) || n == FL_DIST_POINTS)
            break;
        out->at[n++] = x->valuedouble;
    }
    if (x || n < FL_DIST_POINTS)
        FL_FAIL(FL_ERR_CORRUPT, "%s: column %s has not %d quantiles", s->path,
                column->string, FL_DIST_POINTS);
    return FL_OK;
}

fl_status fl_stats_column(const fl_stats *s, const char *name,
                          fl_feature_dist *out)
{
    const cJSON *column = fl_json_in_find(s->columns, name);

    if (!column)
        FL_FAIL(FL_ERR_NOTFOUND,
                "%s has no column %s; make it again with `flotilla data count "
                "--stats`",
                s->path, name);
    if (!fl_json_in_find(column, "quantiles"))
        FL_FAIL(FL_ERR_INVAL,
                "%s: column %s was no number, or had no value, when it was "
                "counted",
                s->path, name);
    FL_TRY(number(s, column, "mean", &out->mean));
    FL_TRY(number(s, column, "deviation", &out->deviation));
    return points(s, column, out);
}

/* Between two quantiles the values lie evenly. */
void fl_feature_dist_map(fl_feature_dist *d, const fl_feature *f,
                         const fl_numbers *params)
{
    double sum = 0, squares = 0, n = FL_DIST_POINTS - 1;

    for (size_t i = 0; i < FL_DIST_POINTS; i++)
        d->at[i] = f->value(d->at[i], params);
    for (size_t i = 0; i < FL_DIST_POINTS - 1; i++)
        sum += (d->at[i] + d->at[i + 1]) / 2;
    d->mean = sum / n;
    for (size_t i = 0; i < FL_DIST_POINTS - 1; i++) {
        double a = d->at[i] - d->mean, b = d->at[i + 1] - d->mean;

        squares += (a * a + a * b + b * b) / 3;
    }
    d->deviation = sqrt(squares / n);
}
