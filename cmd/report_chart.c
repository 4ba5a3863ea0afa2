/* report_chart.c - axes, lines and a legend. The values themselves go along in
 * an attribute, for the few lines of script that show them under the pointer. */
#include "report_chart.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum {
    WIDTH = 560,
    HEIGHT = 250,
    LEFT = 58,
    RIGHT = 24,
    TOP = 30,
    BOTTOM = 40,
    TICKS = 5,
    POINTS_MAX = 800, /* more cannot be seen */
    NOISY_LEAST = 20  /* fewer are no noise */
};
/* Of a new value in the moving mean: of many points less. */
#define SMOOTH 0.05
#define SMOOTH_POINTS 6.0

static const char *const palette[] = { "#1f77b4", "#ff7f0e", "#2ca02c",
                                       "#d62728", "#9467bd", "#8c564b",
                                       "#e377c2", "#17becf" };
#define COLOURS ((int)(sizeof(palette) / sizeof(palette[0])))

const char *chart_colour(int i)
{
    return palette[i % COLOURS];
}

void html_text(FILE *out, const char *text)
{
    for (; *text; text++)
        switch (*text) {
        case '<':
            fputs("&lt;", out);
            break;
        case '>':
            fputs("&gt;", out);
            break;
        case '&':
            fputs("&amp;", out);
            break;
        case '"':
            fputs("&quot;", out);
            break;
        default:
            fputc(*text, out);
        }
}

/* --- points --------------------------------------------------------------- */

series *chart_add(chart *c, const char *name, int colour, series_look look)
{
    series *all = realloc(c->all, (c->n + 1) * sizeof(*all));

    if (!all) {
        c->is_short_of_memory = true;
        return NULL;
    }
    c->all = all;
    all[c->n] = (series){ .colour = colour, .look = look };
    snprintf(all[c->n].name, sizeof(all[c->n].name), "%s", name);
    return &all[c->n++];
}

static bool grow(series *s)
{
    size_t cap = s->cap ? 2 * s->cap : 64;
    double *x = realloc(s->x, cap * sizeof(*x));
    double *y = x ? realloc(s->y, cap * sizeof(*y)) : NULL;

    if (x)
        s->x = x;
    if (!y)
        return false;
    s->y = y;
    s->cap = cap;
    return true;
}

void chart_point(chart *c, series *s, double x, double y)
{
    if (!s || !isfinite(x) || !isfinite(y))
        return;
    if (s->n == s->cap && !grow(s)) {
        c->is_short_of_memory = true;
        return;
    }
    s->x[s->n] = x;
    s->y[s->n++] = y;
}

void chart_release(chart *c)
{
    for (size_t i = 0; i < c->n; i++) {
        free(c->all[i].x);
        free(c->all[i].y);
    }
    free(c->all);
    *c = (chart){ 0 };
}

/* --- axes ----------------------------------------------------------------- */

typedef struct axis {
    double lo, hi, step;
} axis;

/* The next larger of 1, 2, 5, 10, ... */
static double nice_step(double x)
{
    double ten = pow(10, floor(log10(x)));

    for (int i = 0; i < 3; i++) {
        static const double factors[] = { 1, 2, 5 };

        if (x <= factors[i] * ten)
            return factors[i] * ten;
    }
    return 10 * ten;
}

/* Whole steps around what is there. */
static axis make_axis(double lo, double hi)
{
    axis a;

    if (hi - lo < 1e-9 * fmax(fabs(lo), fabs(hi)) || hi == lo) {
        lo -= lo != 0 ? fabs(lo) / 10 : 1;
        hi += hi != 0 ? fabs(hi) / 10 : 1;
    }
    a.step = nice_step((hi - lo) / TICKS);
    a.lo = floor(lo / a.step) * a.step;
    a.hi = ceil(hi / a.step) * a.step;
    return a;
}

static axis axis_of(const chart *c, bool is_x)
{
    double lo = INFINITY, hi = -INFINITY;

    for (size_t i = 0; i < c->n; i++)
        for (size_t k = 0; k < c->all[i].n; k++) {
            double v = is_x ? c->all[i].x[k] : c->all[i].y[k];

            lo = fmin(lo, v);
            hi = fmax(hi, v);
        }
    return make_axis(lo, hi);
}

static double at_x(const axis *a, double x)
{
    return LEFT + (x - a->lo) / (a->hi - a->lo) * (WIDTH - LEFT - RIGHT);
}

static double at_y(const axis *a, double y)
{
    return HEIGHT - BOTTOM -
           (y - a->lo) / (a->hi - a->lo) * (HEIGHT - TOP - BOTTOM);
}

/* 1500000 is 1.5M. */
static void add_number(FILE *out, double v)
{
    if (fabs(v) >= 1e6)
        fprintf(out, "%gM", v / 1e6);
    else if (fabs(v) >= 1e4)
        fprintf(out, "%gk", v / 1e3);
    else
        fprintf(out, "%g", fabs(v) < 1e-12 ? 0 : v);
}

static int ticks_of(const axis *a)
{
    return (int)lround((a->hi - a->lo) / a->step);
}

static void draw_axes(const chart *c, const axis *x, const axis *y, FILE *out)
{
    for (int i = 0; i <= ticks_of(y); i++) {
        double v = y->lo + i * y->step;

        fprintf(out,
                "<path class=\"grid\" d=\"M%d %.1fH%d\"/>"
                "<text x=\"%d\" y=\"%.1f\" text-anchor=\"end\">",
                LEFT, at_y(y, v), WIDTH - RIGHT, LEFT - 6, at_y(y, v) + 4);
        add_number(out, v);
        fputs("</text>\n", out);
    }
    for (int i = 0; i <= ticks_of(x); i++) {
        double v = x->lo + i * x->step;

        fprintf(out, "<text x=\"%.1f\" y=\"%d\" text-anchor=\"middle\">",
                at_x(x, v), HEIGHT - BOTTOM + 16);
        add_number(out, v);
        fputs("</text>\n", out);
    }
    fprintf(out, "<path class=\"axis\" d=\"M%d %dV%dH%d\"/>\n", LEFT, TOP,
            HEIGHT - BOTTOM, WIDTH - RIGHT);
    fprintf(out, "<text x=\"%d\" y=\"%d\" text-anchor=\"end\">", WIDTH - RIGHT,
            HEIGHT - 6);
    html_text(out, c->x_title);
    fputs("</text>\n", out);
}

/* --- lines ---------------------------------------------------------------- */

/* Of neighbours that would fall on each other the mean. */
static void thin_out(series *s)
{
    size_t per = (s->n + POINTS_MAX - 1) / POINTS_MAX, n = 0;

    for (size_t lo = 0; per > 1 && lo < s->n; lo += per) {
        size_t hi = lo + per < s->n ? lo + per : s->n;
        double x = 0, y = 0;

        for (size_t i = lo; i < hi; i++) {
            x += s->x[i];
            y += s->y[i];
        }
        s->x[n] = x / (double)(hi - lo);
        s->y[n++] = y / (double)(hi - lo);
    }
    if (per > 1)
        s->n = n;
}

static void add_path(const series *s, const axis *x, const axis *y,
                     bool is_smooth, FILE *out)
{
    double share = is_smooth ? fmax(SMOOTH, SMOOTH_POINTS / (double)s->n) : 1;
    double mean = s->n ? s->y[0] : 0;

    for (size_t i = 0; i < s->n; i++) {
        mean += share * (s->y[i] - mean);
        fprintf(out, "%s%.1f %.1f", i ? "L" : "M", at_x(x, s->x[i]),
                at_y(y, mean));
    }
}

static void add_values(const series *s, const axis *x, const axis *y, FILE *out)
{
    fputs(" data-name=\"", out);
    html_text(out, s->name);
    fputs("\" data-points=\"", out);
    for (size_t i = 0; i < s->n; i++)
        fprintf(out, "%s%.1f,%.1f,%.6g,%.6g", i ? ";" : "", at_x(x, s->x[i]),
                at_y(y, s->y[i]), s->x[i], s->y[i]);
    fputs("\"", out);
}

static void draw_line(const series *s, const axis *x, const axis *y, FILE *out)
{
    const char *colour = chart_colour(s->colour);
    bool is_noisy = s->look == SERIES_NOISY && s->n >= NOISY_LEAST;

    fprintf(out, "<g class=\"series\" stroke=\"%s\"", colour);
    add_values(s, x, y, out);
    fputs(">", out);
    if (is_noisy) {
        fputs("<path class=\"faint\" d=\"", out);
        add_path(s, x, y, false, out);
        fputs("\"/>", out);
    }
    fprintf(out, "<path class=\"%s\" d=\"",
            s->look == SERIES_DOTS ? "thin" : "line");
    add_path(s, x, y, is_noisy, out);
    fputs("\"/>", out);
    for (size_t i = 0; (s->look == SERIES_DOTS || s->n == 1) && i < s->n; i++)
        fprintf(out, "<circle cx=\"%.1f\" cy=\"%.1f\" r=\"3\" fill=\"%s\"/>",
                at_x(x, s->x[i]), at_y(y, s->y[i]), colour);
    fputs("</g>\n", out);
}

static void draw_legend(const chart *c, FILE *out)
{
    fputs("<p class=\"legend\">", out);
    for (size_t i = 0; i < c->n; i++) {
        if (!c->all[i].n)
            continue;
        fprintf(out, "<span><i style=\"background:%s\"></i>",
                chart_colour(c->all[i].colour));
        html_text(out, c->all[i].name);
        fputs("</span> ", out);
    }
    fputs("</p>\n", out);
}

void chart_draw(const chart *c, FILE *out)
{
    axis x, y;
    size_t n = 0;

    for (size_t i = 0; i < c->n; i++) {
        thin_out(&c->all[i]);
        n += c->all[i].n;
    }
    if (!n)
        return;
    x = axis_of(c, true);
    y = axis_of(c, false);
    fprintf(out,
            "<figure><svg class=\"chart\" viewBox=\"0 0 %d %d\" "
            "role=\"img\"><text class=\"title\" x=\"%d\" y=\"18\">",
            WIDTH, HEIGHT, LEFT);
    html_text(out, c->title);
    fputs("</text>\n", out);
    draw_axes(c, &x, &y, out);
    for (size_t i = 0; i < c->n; i++)
        draw_line(&c->all[i], &x, &y, out);
    fprintf(out,
            "<path class=\"cursor\" d=\"M0 %dV%d\"/></svg><div "
            "class=\"shown\"></div>\n",
            TOP, HEIGHT - BOTTOM);
    draw_legend(c, out);
    fputs("</figure>\n", out);
}
