/* train_tell.c - what `flotilla train` prints. */
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "train_job.h"

void train_say(const train_job *j, const char *line)
{
    fl_fleet_util_print_on_rank(j->fleet, 0, line);
    fflush(stdout);
}

/* --- lines ------------------------------------------------------------------ */

/* A text that grows; it is said and freed by say_text. */
typedef struct text {
    FILE *to;
    char *bytes;
    size_t len;
} text;

static bool begin_text(text *t)
{
    *t = (text){ 0 };
    t->to = open_memstream(&t->bytes, &t->len);
    return t->to != NULL;
}

static void say_text(const train_job *j, text *t)
{
    if (!fclose(t->to))
        train_say(j, t->bytes);
    free(t->bytes);
}

/* "loss 0.5, log loss 0.4512, accuracy 0.65 (by class 0.4 to 0.81)". */
static void print_figures(FILE *to, const train_total *t)
{
    const char *between = "";

    for (size_t i = 0; i < t->n; i++) {
        const train_figure *f = &t->figures[i];

        if (i && isnan(f->value))
            continue;
        fprintf(to, "%s%s %.4f", between, f->name, f->value);
        if (f->least < f->most)
            fprintf(to, " (by class %.4f to %.4f)", f->least, f->most);
        between = ", ";
    }
}

static void print_total(FILE *to, const train_total *t)
{
    fprintf(to, "%.0f samples, %.0f samples/s, ", t->samples,
            t->samples / (t->seconds > 1e-9 ? t->seconds : 1e-9));
    print_figures(to, t);
}

void train_tell(const train_job *j, const char *what, const train_total *t)
{
    text line;

    if (!begin_text(&line))
        return;
    fprintf(line.to, "%s: ", what);
    print_total(line.to, t);
    say_text(j, &line);
}

/* Numbers of a pass that was made before were printed then. */
void train_tell_epoch(const train_job *j, const train_epoch *e)
{
    text line;

    if (!begin_text(&line))
        return;
    fprintf(line.to, "epoch %zu of %" PRIu64 ": ", j->history.n,
            j->args->epochs);
    if (e->trained.was_made_before)
        fputs("trained before the model was saved", line.to);
    else
        print_total(line.to, &e->trained);
    if (j->test) {
        fputs("; held out: ", line.to);
        print_figures(line.to, &e->held_out);
    }
    say_text(j, &line);
}

/* --- the table of epochs ---------------------------------------------------- */

/* A column of a figure is as wide as its name, and as a value of it. */
static int width_of(const train_figure *f)
{
    int n = (int)strlen(f->name);

    return n > 6 ? n : 6;
}

void train_print_names(FILE *to, const train_total *t)
{
    for (size_t i = 0; i < t->n; i++)
        fprintf(to, "  %*s", width_of(&t->figures[i]), t->figures[i].name);
}

void train_print_values(FILE *to, const train_total *t)
{
    for (size_t i = 0; i < t->n; i++) {
        const train_figure *f = &t->figures[i];

        if (isnan(f->value))
            fprintf(to, "  %*s", width_of(f), "-");
        else
            fprintf(to, "  %*.4f", width_of(f), f->value);
    }
}

static void print_head(FILE *to, const train_job *j)
{
    fputs(" epoch", to);
    train_print_names(to, &j->history.epochs[0].trained);
    if (j->test) {
        fputs("  | held out", to);
        train_print_names(to, &j->history.epochs[0].held_out);
    }
}

static void print_row(FILE *to, const train_job *j, size_t i)
{
    const train_epoch *e = &j->history.epochs[i];

    fprintf(to, "\n%6zu", i + 1);
    train_print_values(to, &e->trained);
    if (j->test) {
        fprintf(to, "  | %8s", i == j->history.best ? "best" : "");
        train_print_values(to, &e->held_out);
    }
}

static void tell_table(const train_job *j)
{
    text table;

    if (!begin_text(&table))
        return;
    print_head(table.to, j);
    for (size_t i = 0; i < j->history.n; i++)
        print_row(table.to, j, i);
    say_text(j, &table);
}

/* What became of it on disk. */
static const char *fate_of(const train_job *j, const train_total *best)
{
    if (!j->args->save && !j->args->infer)
        return "";
    return best->was_made_before ? ", and was saved before this run"
                                 : ", and saved";
}

static void tell_best(const train_job *j)
{
    const train_history *h = &j->history;
    const train_total *best = &h->epochs[h->best].held_out;
    char line[128 + TRAIN_NAME_BYTES];

    snprintf(line, sizeof(line), "epoch %zu is the best by %s%s", h->best + 1,
             best->figures[best->decides].name, fate_of(j, best));
    train_say(j, line);
}

void train_tell_history(const train_job *j)
{
    const train_history *h = &j->history;

    if (h->n > 1)
        tell_table(j);
    if (h->n > 1 && j->test)
        tell_best(j);
    if (j->test)
        train_tell(j, "held out", &h->epochs[h->best].held_out);
}

/* --- the beginning ---------------------------------------------------------- */

void train_tell_start(const train_job *j)
{
    const train_args *a = j->args;
    int servers = fl_fleet_server_num(j->fleet);
    char line[256], job_text[96] = "in one process";

    if (servers)
        snprintf(
            job_text, sizeof(job_text), "in mode %s, servers %d, workers %d",
            a->mode ? a->mode : "sync", servers, fl_fleet_worker_num(j->fleet));
    else if (train_is_job(j))
        snprintf(job_text, sizeof(job_text), "in mode collective, workers %d",
                 fl_fleet_worker_num(j->fleet));
    snprintf(line, sizeof(line),
             "training %s %s: batch %" PRIu64 ", threads %" PRIu64,
             train_name(a), job_text, a->batch, a->threads);
    train_say(j, line);
}
