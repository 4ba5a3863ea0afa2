/* fleetrun_status.c - the status of a job in one line. */
#include <math.h>
#include <stdarg.h>
#include <string.h>

#include "fleetrun_watch.h"
#include "status_page.h"

typedef struct mean {
    double sum;
    int n;
} mean;

/* What the workers add up to. */
typedef struct summary {
    const char *phase; /* of the first worker that has one, or NULL */
    double rate;
    mean loss, auc;
    int n_rates, slowest;
    double slowest_rate;
    double left_seconds;   /* of the pass, for the slowest; NaN: not known */
    fl_member_status away; /* somebody who is silent, down or lost */
    const char *waits_for; /* or NULL */
} summary;

static void add_mean(mean *m, double x)
{
    if (isnan(x))
        return;
    m->sum += x;
    m->n++;
}

static bool is_any(const char *text, const char *a, const char *b)
{
    return !strcmp(text, a) || !strcmp(text, b);
}

static void add_worker(summary *s, const fl_member_status *m)
{
    if (is_any(m->state, "left", "absent"))
        return;
    if (strcmp(m->state, "up") && !s->away.state)
        s->away = *m;
    if (!s->phase && *m->phase)
        s->phase = m->phase;
    if (!s->waits_for && *m->waits_for)
        s->waits_for = m->waits_for;
    add_mean(&s->loss, m->loss);
    add_mean(&s->auc, m->auc);
    if (isnan(m->samples_per_second))
        return;
    s->rate += m->samples_per_second;
    if (!s->n_rates++ || m->samples_per_second < s->slowest_rate) {
        s->slowest_rate = m->samples_per_second;
        s->slowest = m->rank;
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
static void add_waits_for(text *t, const char *who)
{
    static const char prefix[] = "trainer ";
    bool is_trainer = !strncmp(who, prefix, strlen(prefix));

    add(t, "%swaiting for %s%s", t->len ? ", " : "",
        is_trainer ? "worker " : "", is_trainer ? who + strlen(prefix) : who);
}

static void add_numbers(text *t, const summary *s)
{
    char time[32];

    if (s->n_rates) {
        add(t, "%s", t->len ? ", " : "");
        add_rate(t, s->rate);
        add(t, " samples/s");
    }
    if (!isnan(s->left_seconds))
        add(t, "%s%s left", t->len ? ", " : "",
            status_time(s->left_seconds, time));
    if (s->loss.n)
        add(t, "%sloss %.4f", t->len ? ", " : "", s->loss.sum / s->loss.n);
    if (s->auc.n)
        add(t, "%sAUC %.4f", t->len ? ", " : "", s->auc.sum / s->auc.n);
    if (s->n_rates < 2)
        return;
    add(t, ", slowest is worker %d (", s->slowest);
    add_rate(t, s->slowest_rate);
    add(t, "/s)");
}

static void add_summary(text *t, const summary *s)
{
    char time[32];

    if (s->phase)
        add(t, "%s", s->phase);
    add_numbers(t, s);
    if (s->waits_for)
        add_waits_for(t, s->waits_for);
    if (!s->away.state)
        return;
    add(t, "%sworker %d is %s", t->len ? ", " : "", s->away.rank,
        s->away.state);
    if (!isnan(s->away.away_seconds))
        add(t, " %s", status_time(s->away.away_seconds, time));
}

void status_line(const fl_job_status *status, char *out, size_t cap)
{
    fl_member_status m = FL_INIT(fl_member_status);
    fl_job_summary all = FL_INIT(fl_job_summary);
    text t = { out, cap, 0 };
    summary s = { .left_seconds = NAN };

    if (status_of_job(status, out, cap))
        return;
    for (size_t i = 0; fl_job_status_member(status, i, &m); i++)
        if (m.role == FL_ROLE_WORKER)
            add_worker(&s, &m);
    if (!fl_job_status_summary(status, &all))
        s.left_seconds = all.left_seconds;
    add_summary(&t, &s);
}
