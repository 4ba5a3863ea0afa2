/* report_chart.h - curves as SVG inside a page.
 *
 * A chart borrows its texts; its series are its own. Owner thread only.
 */
#ifndef FL_CMD_REPORT_CHART_H
#define FL_CMD_REPORT_CHART_H

#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>

typedef enum series_look {
    SERIES_LINE,
    SERIES_NOISY, /* a faint line, and its moving mean in full */
    SERIES_DOTS   /* points with thin lines between them */
} series_look;

typedef struct series {
    char name[64];
    int colour; /* of the palette */
    series_look look;
    double *x, *y;
    size_t n, cap;
} series;

typedef struct chart {
    const char *title, *x_title;
    series *all;
    size_t n;
    bool is_short_of_memory; /* points are missing */
} chart;

/* Adds a series; NULL without memory. Valid until the next one is added. */
series *chart_add(chart *c, const char *name, int colour, series_look look);
/* Points come in the order of x. What is not finite is left out. */
void chart_point(chart *c, series *s, double x, double y);
/* Nothing when there is no point. */
void chart_draw(const chart *c, FILE *out);
void chart_release(chart *c);

/* "#1f77b4": colours that can be told apart, again and again. */
const char *chart_colour(int i);

/* Text inside HTML, safe between tags and inside quotes. */
void html_text(FILE *out, const char *text);

#endif
