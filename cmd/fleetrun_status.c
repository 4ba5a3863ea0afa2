/* fleetrun_status.c - one line out of the page that server 0 gives.
 *
 *     member     address  ...  phase  state  ...  samples/s  loss  AUC  ...
 *     trainer 0  ...           train  up     ...      12000  0.45  0.78
 *
 * Cells are apart by two blanks or more, and none of them is empty.
 */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "fleetrun_watch.h"

#define CELLS_MAX 24

typedef struct cell {
    const char *at;
    int len;
} cell;

typedef struct columns {
    int n; /* cells of a line */
    int member, phase, state, rate, loss, auc, waits;
} columns;

typedef struct mean {
    double sum;
    int n;
} mean;

/* What the lines of the workers add up to. */
typedef struct summary {
    cell phase; /* of the first worker that has one */
    double rate;
    mean loss, auc;
    int n_rates;
    double slowest_rate;
    cell slowest;          /* "trainer 1" */
    cell away, away_state; /* somebody who is silent, down or lost */
    cell waits_for;
} summary;

static int split(const char *line, size_t len, cell *cells)
{
    const char *end = line + len;
    int n = 0;

    while (n < CELLS_MAX) {
        const char *at = line;

        while (at < end && *at == ' ')
            at++;
        if (at == end)
            break;
        line = at;
        while (line < end &&
               (*line != ' ' || (line + 1 < end && line[1] != ' ')))
            line++;
        cells[n++] = (cell){ at, (int)(line - at) };
    }
    return n;
}

static bool is_text(cell c, const char *text)
{
    return (size_t)c.len == strlen(text) && !strncmp(c.at, text, strlen(text));
}

static int find(const cell *cells, int n, const char *title)
{
    for (int i = 0; i < n; i++)
        if (is_text(cells[i], title))
            return i;
    return -1;
}

static bool read_titles(columns *c, const char *line, size_t len)
{
    cell cells[CELLS_MAX];
    int n = split(line, len, cells);

    *c = (columns){ .n = n,
                    .member = find(cells, n, "member"),
                    .phase = find(cells, n, "phase"),
                    .state = find(cells, n, "state"),
                    .rate = find(cells, n, "samples/s"),
                    .loss = find(cells, n, "loss"),
                    .auc = find(cells, n, "AUC"),
                    .waits = find(cells, n, "waits for") };
    return c->member == 0 && c->phase > 0 && c->state > 0 && c->rate > 0 &&
           c->loss > 0 && c->auc > 0 && c->waits > 0;
}

static double number(cell c)
{
    char *end;
    double x = strtod(c.at, &end);

    return end == c.at + c.len ? x : NAN;
}

static void add_mean(mean *m, cell c)
{
    double x = number(c);

    if (isnan(x))
        return;
    m->sum += x;
    m->n++;
}

static void add_worker(summary *s, const columns *c, const cell *cells)
{
    double rate = number(cells[c->rate]);
    cell state = cells[c->state];

    if (is_text(state, "left") || is_text(state, "not here yet"))
        return;
    if (!is_text(state, "up") && !s->away.at) {
        s->away = cells[0];
        s->away_state = state;
    }
    if (!s->phase.at && !is_text(cells[c->phase], "-"))
        s->phase = cells[c->phase];
    if (!s->waits_for.at && !is_text(cells[c->waits], "-"))
        s->waits_for = cells[c->waits];
    add_mean(&s->loss, cells[c->loss]);
    add_mean(&s->auc, cells[c->auc]);
    if (isnan(rate))
        return;
    s->rate += rate;
    if (!s->n_rates++ || rate < s->slowest_rate) {
        s->slowest_rate = rate;
        s->slowest = cells[0];
    }
}

/* --- writing -------------------------------------------------------------- */

typedef struct text {
    char *out;
    size_t cap, len;
} text;

__attribute__((format(printf, 2, 3))) static void add(text *t, const char *fmt,
                                                      ...)
{
    va_list args;
    int n;

    va_start(args, fmt);
    n = vsnprintf(t->out + t->len, t->cap - t->len, fmt, args);
    va_end(args);
    if (n > 0)
        t->len = t->len + (size_t)n < t->cap ? t->len + (size_t)n : t->cap - 1;
}

static void add_rate(text *t, double x)
{
    static const char *const units[] = { "", "k", "M", "G" };
    int unit = 0;

    while (x >= 999.5 && unit < 3) {
        x /= 1000;
        unit++;
    }
    add(t, "%.*f%s", unit && x < 99.95 ? 1 : 0, x, units[unit]);
}

/* Servers call workers trainers. */
static void add_member(text *t, cell c)
{
    static const char prefix[] = "trainer ";
    int skip = (int)sizeof(prefix) - 1;

    if (c.len > skip && !strncmp(c.at, prefix, (size_t)skip))
        add(t, "worker %.*s", c.len - skip, c.at + skip);
    else
        add(t, "%.*s", c.len, c.at);
}

static void add_summary(text *t, const summary *s)
{
    if (s->phase.at)
        add(t, "%.*s", s->phase.len, s->phase.at);
    if (s->n_rates) {
        add(t, "%s", t->len ? ", " : "");
        add_rate(t, s->rate);
        add(t, " samples/s");
    }
    if (s->loss.n)
        add(t, "%sloss %.4f", t->len ? ", " : "", s->loss.sum / s->loss.n);
    if (s->auc.n)
        add(t, "%sAUC %.4f", t->len ? ", " : "", s->auc.sum / s->auc.n);
    if (s->n_rates > 1) {
        add(t, ", slowest is ");
        add_member(t, s->slowest);
        add(t, " (");
        add_rate(t, s->slowest_rate);
        add(t, "/s)");
    }
    if (s->waits_for.at) {
        add(t, "%swaiting for ", t->len ? ", " : "");
        add_member(t, s->waits_for);
    }
    if (s->away.at) {
        add(t, "%s", t->len ? ", " : "");
        add_member(t, s->away);
        add(t, " is %.*s", s->away_state.len, s->away_state.at);
    }
}

/* "the job waits for ..." and "the job is over: ..." say it all. */
static bool add_job(text *t, const char *line, size_t len)
{
    static const char *const told[] = { "the job waits for",
                                        "the job is over" };

    for (size_t i = 0; i < sizeof(told) / sizeof(told[0]); i++)
        if (len > strlen(told[i]) && !strncmp(line, told[i], strlen(told[i]))) {
            add(t, "%.*s", (int)len, line);
            return true;
        }
    return false;
}

void status_line(const char *page, char *out, size_t cap)
{
    text t = { out, cap, 0 };
    summary s = { 0 };
    columns c;
    size_t len = strcspn(page, "\n");

    out[0] = '\0';
    if (!read_titles(&c, page, len))
        return;
    for (page += len; *page; page += len) {
        cell cells[CELLS_MAX];

        page += *page == '\n';
        len = strcspn(page, "\n");
        if (add_job(&t, page, len))
            return;
        if (split(page, len, cells) == c.n &&
            !strncmp(cells[0].at, "trainer ", 8))
            add_worker(&s, &c, cells);
    }
    add_summary(&t, &s);
}
