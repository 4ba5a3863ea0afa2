/* coord_status.c - the page of `flotilla status`: a table of members, open
 * barriers, and where the job is.
 *
 *     member     address        process  phase  state  incarnation  step ...
 *     trainer 0  10.0.0.7:4321       77  train  up               1   120 ...
 *
 *     barrier "epoch": open for 4.2 s, waits for trainer 1 (last seen at ...
 *
 *     the job began 3 min 5 s ago and is at step 120
 */
#include "ps/coord/coord_inside.h"

#include <inttypes.h>
#include <math.h>
#include <string.h>

#define GAP 2 /* blanks between columns */

typedef struct row {
    const fl_coord *c;
    const fl_coord_member *m;
    uint64_t now_ms;
} row;

typedef struct column {
    const char *title;
    bool is_number; /* to the right */
    void (*add)(fl_str *s, const row *r);
} column;

/* --- cells; an empty one is shown as "-" --------------------------------- */

static void add_member(fl_str *s, const row *r)
{
    fl_str_add(s, fl_text_of_rank(r->m).s);
}

/* Where it listens is of more use than where a connection comes from. */
static void add_address(fl_str *s, const row *r)
{
    fl_str_add(s, *r->m->id.address ? r->m->id.address : r->m->peer);
}

static void add_process(fl_str *s, const row *r)
{
    if (r->m->id.process)
        fl_str_addf(s, "%" PRIu32, r->m->id.process);
}

static void add_phase(fl_str *s, const row *r)
{
    fl_str_add(s, r->m->progress.phase);
}

static void add_state(fl_str *s, const row *r)
{
    static const char *const names[] = {
        [FL_MEMBER_ABSENT] = "not here yet",
        [FL_MEMBER_HERE] = "up",
        [FL_MEMBER_LEFT] = "left",
        [FL_MEMBER_LOST] = "lost",
    };
    bool is_here = r->m->state == FL_MEMBER_HERE;

    if (is_here && (r->m->is_down || r->m->is_silent))
        fl_str_addf(
            s, "%s %s", r->m->is_down ? "down" : "silent",
            fl_text_of_ms(fl_coord_between(r->m->away_ms, r->now_ms)).s);
    else
        fl_str_add(s, names[r->m->state]);
}

static void add_incarnation(fl_str *s, const row *r)
{
    if (r->m->incarnation)
        fl_str_addf(s, "%" PRIu32, r->m->incarnation);
}

static bool trains(const fl_coord_member *m)
{
    return m->id.role == FL_MEMBER_TRAINER && m->state != FL_MEMBER_ABSENT;
}

static void add_step(fl_str *s, const row *r)
{
    if (trains(r->m))
        fl_str_addf(s, "%" PRIu64, r->m->step);
}

static void add_samples(fl_str *s, const row *r)
{
    if (r->m->progress.is_known)
        fl_str_addf(s, "%" PRIu64, r->m->progress.samples);
}

static void add_rate(fl_str *s, const row *r)
{
    if (r->m->progress.is_known && !isnan(r->m->progress.rate))
        fl_str_addf(s, "%.0f", r->m->progress.rate);
}

/* NaN: the trainer does not know it. */
static void add_metric(fl_str *s, const fl_coord_member *m, double x)
{
    if (m->progress.is_known && !isnan(x))
        fl_str_addf(s, "%.5g", x);
}

static void add_loss(fl_str *s, const row *r)
{
    add_metric(s, r->m, r->m->progress.loss);
}

static void add_auc(fl_str *s, const row *r)
{
    add_metric(s, r->m, r->m->progress.auc);
}

static void add_reported(fl_str *s, const row *r)
{
    if (r->m->progress.is_known)
        fl_str_addf(
            s, "%s ago",
            fl_text_of_ms(fl_coord_between(r->m->progress.at_ms, r->now_ms)).s);
}

/* The rendezvous comes before every barrier. */
static void add_waits_for(fl_str *s, const row *r)
{
    const fl_barrier *b = NULL;

    if (trains(r->m))
        b = fl_coord_waits_at(r->c, r->m->id.rank);
    if (!b)
        return;
    if (r->c->is_complete)
        fl_text_add_missing(s, r->c, b);
    else
        fl_text_add_absent(s, r->c);
}

static const column columns[] = {
    { "member", false, add_member },
    { "address", false, add_address },
    { "process", true, add_process },
    { "phase", false, add_phase },
    { "state", false, add_state },
    { "incarnation", true, add_incarnation },
    { "step", true, add_step },
    { "samples", true, add_samples },
    { "samples/s", true, add_rate },
    { "loss", true, add_loss },
    { "AUC", true, add_auc },
    { "reported", false, add_reported },
    { "waits for", false, add_waits_for },
};

/* --- the table ----------------------------------------------------------- */

static char *make_cell(const fl_coord *c, size_t col, uint32_t member,
                       uint64_t now_ms)
{
    fl_str s = { 0 };

    columns[col].add(&s, &(row){ c, &c->members[member], now_ms });
    if (!s.len)
        fl_str_add(&s, "-");
    return fl_str_take(&s);
}

/* A line keeps no blanks at its end. */
static void add_cell(fl_str *s, size_t col, const char *text, size_t width)
{
    int pad = (int)(width - strlen(text));
    bool is_last = col + 1 == FL_LEN(columns);

    if (columns[col].is_number)
        fl_str_addf(s, "%*s%s", pad, "", text);
    else
        fl_str_addf(s, "%s%*s", text, is_last ? 0 : pad, "");
    if (is_last)
        fl_str_add(s, "\n");
    else
        fl_str_addf(s, "%*s", GAP, "");
}

static size_t width_of(size_t col, char *const *cells, uint32_t n)
{
    size_t width = strlen(columns[col].title);

    for (uint32_t i = 0; i < n; i++) {
        size_t len = strlen(cells[i * FL_LEN(columns) + col]);

        width = len > width ? len : width;
    }
    return width;
}

static void add_table(fl_str *s, const fl_coord *c, uint64_t now_ms)
{
    size_t n_cells = c->n_members * FL_LEN(columns);
    char **cells = fl_alloc(n_cells * sizeof(*cells));
    size_t widths[FL_LEN(columns)];

    for (size_t i = 0; i < n_cells; i++)
        cells[i] = make_cell(c, i % FL_LEN(columns),
                             (uint32_t)(i / FL_LEN(columns)), now_ms);
    for (size_t col = 0; col < FL_LEN(columns); col++) {
        widths[col] = width_of(col, cells, c->n_members);
        add_cell(s, col, columns[col].title, widths[col]);
    }
    for (size_t i = 0; i < n_cells; i++) {
        size_t col = i % FL_LEN(columns);

        add_cell(s, col, cells[i], widths[col]);
        fl_free(cells[i]);
    }
    fl_free(cells);
}

/* --- below the table ----------------------------------------------------- */

static void add_barrier(fl_str *s, const fl_coord *c, const fl_barrier *b,
                        uint64_t now_ms)
{
    fl_str_addf(s, "%s \"%s\": open for %s, waits for ",
                fl_barrier_kind_name(b), b->name,
                fl_text_of_ms(fl_coord_between(b->since_ms, now_ms)).s);
    if (c->is_complete)
        fl_text_add_missing_why(s, c, b, now_ms);
    else
        fl_text_add_absent(s, c);
    fl_str_addf(s, " (%" PRIu32 " of %" PRIu32 " trainers came)\n", b->n_came,
                c->is_complete ? c->n_live : c->n_trainers);
}

static void add_job(fl_str *s, const fl_coord *c, uint64_t now_ms)
{
    if (c->is_over && c->why.status)
        fl_str_addf(s, "the job is over: %s\n", c->why.text);
    else if (c->is_over)
        fl_str_add(s, "the job is over: its trainers are done\n");
    else if (!c->is_complete) {
        fl_str_add(s, "the job waits for ");
        fl_text_add_absent(s, c);
        fl_str_addf(s, " (%" PRIu32 " of %" PRIu32 " members are here)\n",
                    c->n_joined, c->n_members);
    }
    fl_str_addf(s, "the job began %s ago and is at step %" PRIu64 "\n",
                fl_text_of_ms(fl_coord_between(c->start_ms, now_ms)).s,
                c->step);
}

char *fl_coord_status(const fl_coord *c, uint64_t now_ms)
{
    fl_str s = { 0 };

    add_table(&s, c, now_ms);
    fl_str_add(&s, "\n");
    for (size_t i = 0; i < c->open.len; i++)
        add_barrier(&s, c, c->open.data[i], now_ms);
    if (c->open.len)
        fl_str_add(&s, "\n");
    add_job(&s, c, now_ms);
    return fl_str_take(&s);
}
