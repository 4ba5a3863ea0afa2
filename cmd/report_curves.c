/* report_curves.c - the curves of a run, or of two in one picture. */
#include "report.h"

#include <string.h>

#include "report_chart.h"

/* Curves of programs: more than these are not drawn. */
#define NUMBERS_MAX 24

/* What a curve is made of. */
typedef struct curve {
    const char *title, *key;
    bool is_over_time; /* else over steps */
    series_look look;
} curve;

static const curve curves[] = {
    { "loss", "loss", false, SERIES_NOISY },
    { "AUC", "auc", false, SERIES_LINE },
    { "samples per second", "rate", true, SERIES_NOISY },
};
#define N_CURVES (sizeof(curves) / sizeof(curves[0]))

static void name_series(const run *r, const process *p, size_t n_runs,
                        const char *more, char out[128])
{
    if (n_runs > 1)
        snprintf(out, 128, "%s: %s%s", r->name, p->who, more);
    else
        snprintf(out, 128, "%s%s", p->who, more);
}

static double x_of(const run *r, const curve *c, const cJSON *line)
{
    return c->is_over_time ? line_number(line, "time") - r->began
                           : line_number(line, "step");
}

/* Training as it goes, or what was held out, whole passes. */
static void add_points(chart *to, series *s, const run *r, const process *p,
                       const curve *c)
{
    const char *type = s && s->look == SERIES_DOTS ? "pass" : "progress";
    const char *phase = s && s->look == SERIES_DOTS ? "test" : "train";
    const cJSON *line;

    cJSON_ArrayForEach(line,
                       p->lines) if (line_is(line, type) &&
                                     !strcmp(line_text(line, "phase"), phase))
        chart_point(to, s, x_of(r, c, line), line_number(line, c->key));
}

/* A pass that was over before its first line of progress is a point. */
static void add_passes(chart *to, series *s, const run *r, const process *p,
                       const curve *c)
{
    const cJSON *line;

    cJSON_ArrayForEach(line,
                       p->lines) if (line_is(line, "pass") &&
                                     !strcmp(line_text(line, "phase"), "train"))
        chart_point(to, s, x_of(r, c, line), line_number(line, c->key));
}

static void add_process(chart *to, const curve *c, const run *r,
                        const process *p, size_t n_runs, int *colour)
{
    char name[128];
    series *s;

    name_series(r, p, n_runs, "", name);
    s = chart_add(to, name, *colour, c->look);
    add_points(to, s, r, p, c);
    if (s && !s->n)
        add_passes(to, s, r, p, c);
    ++*colour;
    if (c->is_over_time)
        return;
    name_series(r, p, n_runs, ", held out", name);
    s = chart_add(to, name, *colour, SERIES_DOTS);
    add_points(to, s, r, p, c);
    if (s && s->n)
        ++*colour;
}

static bool draw_curve(FILE *out, const curve *c, const run *runs, size_t n)
{
    chart to = { .title = c->title,
                 .x_title = c->is_over_time ? "seconds" : "step" };
    int colour = 0;
    bool good;

    for (size_t i = 0; i < n; i++)
        for (size_t k = 0; k < runs[i].n; k++)
            if (!runs[i].all[k].is_server)
                add_process(&to, c, &runs[i], &runs[i].all[k], n, &colour);
    chart_draw(&to, out);
    good = !to.is_short_of_memory;
    chart_release(&to);
    return good;
}

/* --- numbers of programs ---------------------------------------------------- */

/* "epoch/test/AUC" is the curve "test" of the chart "AUC, by epoch"; any other
   name is a chart of its own. */
typedef struct number_name {
    const char *name;
    char title[96], curve[64];
} number_name;

static void cut_name(const char *name, number_name *out)
{
    const char *first = strchr(name, '/');
    const char *second = first ? strchr(first + 1, '/') : NULL;

    *out = (number_name){ .name = name };
    snprintf(out->title, sizeof(out->title), "%s", name);
    if (!second || strchr(second + 1, '/'))
        return;
    snprintf(out->title, sizeof(out->title), "%s, by %.*s", second + 1,
             (int)(first - name), name);
    snprintf(out->curve, sizeof(out->curve), ", %.*s",
             (int)(second - first - 1), first + 1);
}

static void add_numbers(chart *to, series *s, const process *p,
                        const char *name)
{
    const cJSON *line;

    cJSON_ArrayForEach(line,
                       p->lines) if (line_is(line, "number") &&
                                     !strcmp(line_text(line, "name"), name))
        chart_point(to, s, line_number(line, "step"),
                    line_number(line, "value"));
}

static void add_curve(chart *to, const number_name *of, const run *runs,
                      size_t n, int *colour)
{
    for (size_t i = 0; i < n; i++)
        for (size_t k = 0; k < runs[i].n; k++) {
            char name[128];
            series *s;

            name_series(&runs[i], &runs[i].all[k], n, of->curve, name);
            s = chart_add(to, name, *colour, SERIES_DOTS);
            add_numbers(to, s, &runs[i].all[k], of->name);
            if (s && s->n)
                ++*colour;
        }
}

/* The chart of the first of some names, with all that have its title. */
static bool draw_numbers(FILE *out, const number_name *first, size_t n_names,
                         const run *runs, size_t n)
{
    chart to = { .title = first->title, .x_title = "step" };
    int colour = 0;
    bool good;

    for (size_t i = 0; i < n_names; i++)
        if (!strcmp(first[i].title, first->title))
            add_curve(&to, &first[i], runs, n, &colour);
    chart_draw(&to, out);
    good = !to.is_short_of_memory;
    chart_release(&to);
    return good;
}

static bool has_name(const number_name *names, size_t n, const char *name)
{
    for (size_t i = 0; i < n; i++)
        if (!strcmp(names[i].name, name))
            return true;
    return false;
}

static bool has_title(const number_name *names, size_t n, const char *title)
{
    for (size_t i = 0; i < n; i++)
        if (!strcmp(names[i].title, title))
            return true;
    return false;
}

/* Names in the order in which they came; the texts are the lines'. */
static size_t list_numbers(const run *runs, size_t n_runs,
                           number_name names[NUMBERS_MAX])
{
    const cJSON *line;
    size_t n = 0;

    for (size_t i = 0; i < n_runs; i++)
        for (size_t k = 0; k < runs[i].n; k++)
            cJSON_ArrayForEach(
                line,
                runs[i].all[k].lines) if (line_is(line, "number") &&
                                          n < NUMBERS_MAX &&
                                          !has_name(names, n,
                                                    line_text(line, "name")))
                cut_name(line_text(line, "name"), &names[n++]);
    return n;
}

bool report_curves(FILE *out, const run *runs, size_t n)
{
    number_name names[NUMBERS_MAX];
    size_t n_names = list_numbers(runs, n, names);
    bool good = true;

    fputs("<div class=\"charts\">\n", out);
    for (size_t i = 0; i < N_CURVES; i++)
        good = draw_curve(out, &curves[i], runs, n) && good;
    for (size_t i = 0; i < n_names; i++)
        if (!has_title(names, i, names[i].title))
            good = draw_numbers(out, &names[i], n_names - i, runs, n) && good;
    fputs("</div>\n", out);
    return good;
}
