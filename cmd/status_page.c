/* status_page.c - the status of a job for people. */
#include "status_page.h"

#include <inttypes.h>
#include <math.h>
#include <string.h>

#define GAP 2 /* blanks between columns */
#define CELL_MAX 320

typedef struct cell {
    char text[CELL_MAX];
} cell;

typedef struct column {
    const char *title;
    bool is_number; /* to the right */
    void (*write)(cell *c, const fl_member_status *m);
} column;

const char *status_time(double seconds, char out[32])
{
    uint64_t ms = (uint64_t)(seconds * 1e3 + 0.5), s = ms / 1000;
    uint64_t tenth = ms % 1000 / 100, min = s / 60;

    if (ms && ms < 100)
        (void)snprintf(out, 32, "%" PRIu64 " ms", ms);
    else if (s < 10 && tenth)
        (void)snprintf(out, 32, "%" PRIu64 ".%" PRIu64 " s", s, tenth);
    else if (s <= 120)
        (void)snprintf(out, 32, "%" PRIu64 " s", s);
    else if (min < 60 && s % 60)
        (void)snprintf(out, 32, "%" PRIu64 " min %" PRIu64 " s", min, s % 60);
    else if (min < 60)
        (void)snprintf(out, 32, "%" PRIu64 " min", min);
    else
        (void)snprintf(out, 32, "%" PRIu64 " h %" PRIu64 " min", min / 60,
                       min % 60);
    return out;
}

/* --- cells; an empty one is shown as "-" ---------------------------------- */

static bool is_known(const fl_member_status *m)
{
    return !isnan(m->reported_seconds_ago);
}

static void write_text(cell *c, const char *text)
{
    (void)snprintf(c->text, sizeof(c->text), "%s", text);
}

static void write_count(cell *c, uint64_t n)
{
    (void)snprintf(c->text, sizeof(c->text), "%" PRIu64, n);
}

static void write_metric(cell *c, double x)
{
    if (!isnan(x))
        (void)snprintf(c->text, sizeof(c->text), "%.5g", x);
}

static void write_member(cell *c, const fl_member_status *m)
{
    (void)snprintf(c->text, sizeof(c->text), "%s %d",
                   m->role == FL_ROLE_SERVER ? "server" : "trainer", m->rank);
}

static void write_address(cell *c, const fl_member_status *m)
{
    write_text(c, m->address);
}

static void write_process(cell *c, const fl_member_status *m)
{
    if (m->process)
        write_count(c, m->process);
}

static void write_phase(cell *c, const fl_member_status *m)
{
    write_text(c, m->phase);
}

static void write_state(cell *c, const fl_member_status *m)
{
    bool is_absent = !strcmp(m->state, "absent");
    char time[32];

    if (isnan(m->away_seconds))
        write_text(c, is_absent ? "not here yet" : m->state);
    else
        (void)snprintf(c->text, sizeof(c->text), "%s %s", m->state,
                       status_time(m->away_seconds, time));
}

static void write_incarnation(cell *c, const fl_member_status *m)
{
    if (m->incarnation)
        write_count(c, m->incarnation);
}

static void write_step(cell *c, const fl_member_status *m)
{
    if (m->role == FL_ROLE_WORKER && strcmp(m->state, "absent"))
        write_count(c, m->step);
}

static void write_samples(cell *c, const fl_member_status *m)
{
    if (is_known(m))
        write_count(c, m->samples);
}

static void write_rate(cell *c, const fl_member_status *m)
{
    if (!isnan(m->samples_per_second))
        (void)snprintf(c->text, sizeof(c->text), "%.0f", m->samples_per_second);
}

static void write_left(cell *c, const fl_member_status *m)
{
    char time[32];

    if (!isnan(m->left_seconds))
        write_text(c, status_time(m->left_seconds, time));
}

static void write_loss(cell *c, const fl_member_status *m)
{
    write_metric(c, m->loss);
}

static void write_auc(cell *c, const fl_member_status *m)
{
    write_metric(c, m->auc);
}

static void write_reported(cell *c, const fl_member_status *m)
{
    char time[32];

    if (is_known(m))
        (void)snprintf(c->text, sizeof(c->text), "%s ago",
                       status_time(m->reported_seconds_ago, time));
}

static void write_waits_for(cell *c, const fl_member_status *m)
{
    write_text(c, m->waits_for);
}

static const column columns[] = {
    { "member", false, write_member },
    { "address", false, write_address },
    { "process", true, write_process },
    { "phase", false, write_phase },
    { "state", false, write_state },
    { "incarnation", true, write_incarnation },
    { "step", true, write_step },
    { "samples", true, write_samples },
    { "samples/s", true, write_rate },
    { "to go", true, write_left },
    { "loss", true, write_loss },
    { "AUC", true, write_auc },
    { "reported", false, write_reported },
    { "waits for", false, write_waits_for },
};
#define N_COLUMNS (sizeof(columns) / sizeof(columns[0]))

/* --- the table ------------------------------------------------------------ */

static const char *make_cell(cell *c, size_t col, const fl_member_status *m)
{
    c->text[0] = '\0';
    columns[col].write(c, m);
    if (!*c->text)
        write_text(c, "-");
    return c->text;
}

/* A line keeps no blanks at its end. */
static void add_cell(FILE *out, size_t col, const char *text, int width)
{
    bool is_last = col + 1 == N_COLUMNS;

    if (columns[col].is_number)
        (void)fprintf(out, "%*s", width, text);
    else
        (void)fprintf(out, "%-*s", is_last ? 0 : width, text);
    (void)fprintf(out, "%*s", is_last ? 0 : GAP, "");
    if (is_last)
        (void)fputc('\n', out);
}

static int width_of(const fl_job_status *s, size_t col)
{
    fl_member_status m = FL_INIT(fl_member_status);
    size_t width = strlen(columns[col].title);
    cell c;

    for (size_t i = 0; fl_job_status_member(s, i, &m); i++) {
        size_t len = strlen(make_cell(&c, col, &m));

        width = len > width ? len : width;
    }
    return (int)width;
}

static void add_table(FILE *out, const fl_job_status *s)
{
    fl_member_status m = FL_INIT(fl_member_status);
    int widths[N_COLUMNS];
    cell c;

    for (size_t col = 0; col < N_COLUMNS; col++) {
        widths[col] = width_of(s, col);
        add_cell(out, col, columns[col].title, widths[col]);
    }
    for (size_t i = 0; fl_job_status_member(s, i, &m); i++)
        for (size_t col = 0; col < N_COLUMNS; col++)
            add_cell(out, col, make_cell(&c, col, &m), widths[col]);
}

/* --- below the table ------------------------------------------------------ */

static bool add_barriers(FILE *out, const fl_job_status *s)
{
    fl_barrier_status b = FL_INIT(fl_barrier_status);
    size_t i = 0;
    char time[32];

    for (; fl_job_status_barrier(s, i, &b); i++)
        (void)fprintf(out,
                      "%s \"%s\": open for %s, waits for %s (%d of %d trainers "
                      "came)\n",
                      b.is_gather ? "gather" : "barrier", b.name,
                      status_time(b.open_seconds, time), b.waits_for, b.n_came,
                      b.n_expected);
    return i > 0;
}

int status_of_job(const fl_job_status *s, char *out, size_t cap)
{
    fl_job_summary j = FL_INIT(fl_job_summary);

    *out = '\0';
    if (fl_job_status_summary(s, &j))
        return 0;
    if (j.is_over)
        return snprintf(out, cap, "the job is over: %s",
                        *j.why_over ? j.why_over : "its trainers are done");
    if (j.is_complete)
        return 0;
    return snprintf(out, cap,
                    "the job waits for %s (%d of %d members are here)",
                    j.waits_for, j.n_here, j.n_members);
}

/* Of all trainers; the table has each one's own. */
static void add_rate(FILE *out, const fl_job_summary *j)
{
    char time[32];

    if (!j->samples)
        return;
    (void)fprintf(out, "all trainers together: %" PRIu64 " samples",
                  j->samples);
    if (!isnan(j->samples_per_second))
        (void)fprintf(out, ", %.0f samples/s", j->samples_per_second);
    if (!isnan(j->left_seconds))
        (void)fprintf(out, ", this pass takes %s more",
                      status_time(j->left_seconds, time));
    (void)fputc('\n', out);
}

void status_page(FILE *out, const fl_job_status *s)
{
    fl_job_summary j = FL_INIT(fl_job_summary);
    char line[2048], time[32];

    add_table(out, s);
    (void)fputc('\n', out);
    if (add_barriers(out, s))
        (void)fputc('\n', out);
    if (status_of_job(s, line, sizeof(line)))
        (void)fprintf(out, "%s\n", line);
    if (fl_job_status_summary(s, &j))
        return;
    (void)fprintf(out, "the job began %s ago and is at step %" PRIu64 "\n",
                  status_time(j.running_seconds, time), j.step);
    add_rate(out, &j);
}
