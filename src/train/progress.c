/* progress.c - how far a pass over the data is. */
#include "train/progress.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <unistd.h>

#include "base/status.h"

#define FILE_SECONDS 10.0

/* Clears the rest of a line on a terminal. */
#define TO_END_OF_LINE "\x1b[K"

/* Below this a pass has hundredths. */
#define SHORT_SECONDS 1.0

/* Waiting below this share is not worth a word. */
#define WAIT_SHARE_SHOWN 0.01

FL_PRINTF(4, 5)
static void add(char *out, size_t cap, size_t *len, const char *fmt, ...)
{
    va_list args;
    int n;

    va_start(args, fmt);
    n = vsnprintf(out + *len, cap - *len, fmt, args);
    va_end(args);
    if (n > 0)
        *len = *len + (size_t)n < cap ? *len + (size_t)n : cap - 1;
}

/* Three digits and a letter: 1.20M. */
static void add_count(char *out, size_t cap, size_t *len, double x)
{
    static const char units[] = { ' ', 'k', 'M', 'G', 'T' };
    size_t unit = 0;

    while (x >= 999.5 && unit + 1 < sizeof(units)) {
        x /= 1000;
        unit++;
    }
    if (unit == 0)
        add(out, cap, len, "%.0f", x);
    else
        add(out, cap, len, "%.*f%c",
            x < 9.995   ? 2
            : x < 99.95 ? 1
                        : 0,
            x, units[unit]);
}

static void add_time(char *out, size_t cap, size_t *len, double seconds)
{
    long s = lround(seconds);

    if (seconds < SHORT_SECONDS) {
        add(out, cap, len, "%.2g s", seconds);
        return;
    }
    if (s >= 3600)
        add(out, cap, len, "%ld:%02ld:%02ld", s / 3600, s / 60 % 60, s % 60);
    else
        add(out, cap, len, "%ld:%02ld", s / 60, s % 60);
}

static void add_way_to_go(char *out, size_t cap, size_t *len,
                          const fl_progress *s)
{
    double share = (double)s->samples / (double)s->total;

    if (share > 1)
        share = 1;
    add(out, cap, len, ", %.0f %%, ", 100 * share);
    if (share > 0)
        add_time(out, cap, len, s->seconds * (1 - share) / share);
    else
        add(out, cap, len, "?");
    add(out, cap, len, " left");
}

/* Whose rate it is, where there are several. */
static void add_rates(char *out, size_t cap, size_t *len, const fl_progress *s)
{
    double rate = s->seconds > 0 ? (double)s->samples / s->seconds : 0;

    if (s->n_workers > 1)
        add(out, cap, len, "worker %d of %d: ", s->worker, s->n_workers);
    add_count(out, cap, len, (double)s->samples);
    add(out, cap, len, " samples, ");
    add_count(out, cap, len, rate);
    add(out, cap, len, "/s");
    if (s->n_workers > 1 && !isnan(s->job_samples_per_second)) {
        add(out, cap, len, " (all workers ");
        add_count(out, cap, len, s->job_samples_per_second);
        add(out, cap, len, "/s)");
    }
}

void fl_progress_line(const fl_progress *s, char *out, size_t cap)
{
    size_t len = 0;

    out[0] = '\0';
    add_rates(out, cap, &len, s);
    if (s->has_loss && isnan(s->loss))
        add(out, cap, &len, ", loss nan");
    else if (!isnan(s->loss))
        add(out, cap, &len, ", loss %.4f", s->loss);
    if (!isnan(s->auc))
        add(out, cap, &len, ", AUC %.4f", s->auc);
    if (s->wait_share >= WAIT_SHARE_SHOWN)
        add(out, cap, &len, ", %.0f %% of the time waiting for input",
            100 * s->wait_share);
    if (s->is_last) {
        add(out, cap, &len, ", ");
        add_time(out, cap, &len, s->seconds);
        add(out, cap, &len, " in all");
    } else if (s->total) {
        add_way_to_go(out, cap, &len, s);
    }
}

static bool is_time_for_a_line(const fl_progress *p)
{
    return p->is_last || floor(p->seconds / FILE_SECONDS) >
                             floor(p->last_seconds / FILE_SECONDS);
}

void fl_progress_to_file(void *file, const fl_progress *p)
{
    bool is_terminal = isatty(fileno(file));
    char line[256];

    if (p->text) {
        fprintf(file, "%s%s\n", is_terminal ? "\r" TO_END_OF_LINE : "",
                p->text);
        return;
    }
    if (!is_terminal && !is_time_for_a_line(p))
        return;
    fl_progress_line(p, line, sizeof(line));
    if (is_terminal)
        fprintf(file, "\r%s" TO_END_OF_LINE "%s", line, p->is_last ? "\n" : "");
    else
        fprintf(file, "%s\n", line);
    fflush(file);
}
