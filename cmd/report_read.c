/* report_read.c - the files of a record. */
#include "report.h"

#include <dirent.h>
#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "cmd.h"

#define FORMAT 1
#define ENDING ".jsonl"

/* --- lines ---------------------------------------------------------------- */

bool line_is(const cJSON *line, const char *type)
{
    return !strcmp(line_text(line, "type"), type);
}

double line_number(const cJSON *line, const char *key)
{
    const cJSON *v = cJSON_GetObjectItemCaseSensitive(line, key);

    return cJSON_IsNumber(v) ? v->valuedouble : NAN;
}

const char *line_text(const cJSON *line, const char *key)
{
    const cJSON *v = cJSON_GetObjectItemCaseSensitive(line, key);

    return cJSON_IsString(v) ? v->valuestring : "";
}

const cJSON *process_begin(const process *p)
{
    return p->lines->child;
}

const cJSON *process_last(const process *p, const char *type, const char *phase)
{
    const cJSON *line, *found = NULL;

    cJSON_ArrayForEach(
        line,
        p->lines) if (line_is(line, type) &&
                      (!phase || !strcmp(line_text(line, "phase"), phase)))
        found = line;
    return found;
}

/* --- one file ------------------------------------------------------------- */

/* The job of a start by its name, which the launcher draws; "": none. */
static const char *job_of(const cJSON *begin)
{
    return line_text(cJSON_GetObjectItemCaseSensitive(begin, "settings"),
                     "job");
}

/* A start that goes on with the run before, or is another one in the same job,
   keeps the lines so far. */
static bool starts_anew(const process *p, const cJSON *line)
{
    const cJSON *first = p->lines ? p->lines->child : NULL;

    if (!line_is(line, "begin") ||
        cJSON_IsTrue(cJSON_GetObjectItemCaseSensitive(line, "goes_on")))
        return false;
    return !first || !*job_of(line) || strcmp(job_of(line), job_of(first)) != 0;
}

static const char *add_line(process *p, const char *text)
{
    cJSON *line = cJSON_Parse(text);

    if (!cJSON_IsObject(line) || isnan(line_number(line, "time"))) {
        cJSON_Delete(line);
        return "is no line of a record";
    }
    if (line_is(line, "begin") && line_number(line, "format") > FORMAT) {
        cJSON_Delete(line);
        return "was written by a later version; use its flotilla report";
    }
    if (starts_anew(p, line)) {
        cJSON_Delete(p->lines);
        p->lines = cJSON_CreateArray();
    }
    if (!p->lines || (!p->lines->child && !line_is(line, "begin"))) {
        cJSON_Delete(line);
        return "comes before a line of type begin";
    }
    (void)cJSON_AddItemToArray(p->lines, line);
    return NULL;
}

/* What is behind the last end of line was cut off while it was written. */
static int read_lines(const char *self, const char *path, FILE *f, process *p)
{
    char *text = NULL;
    const char *why = NULL;
    size_t cap = 0;
    ssize_t len;
    int at = 0;

    while (!why && (len = getline(&text, &cap, f)) > 0) {
        at++;
        if (text[len - 1] == '\n')
            why = add_line(p, text);
    }
    free(text);
    if (why)
        return cmd_failed(self, "%s:%d %s", path, at, why);
    if (ferror(f))
        return cmd_failed(self, "cannot read %s: %s", path, strerror(errno));
    if (!p->lines->child)
        return cmd_failed(self, "%s has no whole line yet; try again", path);
    return CMD_OK;
}

static int read_process(const char *self, const char *dir, const char *file,
                        process *p)
{
    size_t len = strlen(file) - strlen(ENDING);
    char path[4096];
    FILE *f;
    int code;

    p->who = strndup(file, len);
    p->lines = cJSON_CreateArray();
    p->is_server = !strncmp(file, "server", strlen("server"));
    snprintf(path, sizeof(path), "%s/%s", dir, file);
    if (!p->who || !p->lines)
        return cmd_failed(self, "no memory for %s", path);
    f = fopen(path, "r");
    if (!f)
        return cmd_failed(self, "cannot read %s: %s", path, strerror(errno));
    code = read_lines(self, path, f, p);
    fclose(f);
    return code;
}

/* --- a folder ------------------------------------------------------------- */

static int is_record(const struct dirent *e)
{
    size_t len = strlen(e->d_name);

    return len > strlen(ENDING) &&
           !strcmp(e->d_name + len - strlen(ENDING), ENDING);
}

/* worker-2 before worker-10. */
static int by_number(const struct dirent **a, const struct dirent **b)
{
    return strverscmp((*a)->d_name, (*b)->d_name);
}

static int compare_processes(const void *a, const void *b)
{
    const process *p = a, *q = b;

    if (p->is_server != q->is_server)
        return p->is_server ? 1 : -1;
    return strverscmp(p->who, q->who);
}

static int no_record(const char *self, const char *dir)
{
    return cmd_failed(self,
                      "%s has no record: there is no file *" ENDING "; "
                      "`flotilla train --record DIR`, or the setting "
                      "record_dir of any program, makes one",
                      dir);
}

static void note_times(run *r)
{
    r->began = INFINITY;
    r->ended = -INFINITY;
    for (size_t i = 0; i < r->n; i++) {
        const cJSON *first = r->all[i].lines->child;

        r->began = fmin(r->began, line_number(first, "time"));
        r->ended = fmax(r->ended, line_number(first->prev, "time"));
    }
}

static int read_all(const char *self, struct dirent **files, size_t n, run *out)
{
    process *all = calloc(n, sizeof(*all));

    if (!all)
        return cmd_failed(self, "no memory for %zu processes", n);
    out->all = all;
    for (size_t i = 0; i < n; i++) {
        out->n++;
        if (read_process(self, out->dir, files[i]->d_name, &all[i]))
            return CMD_FAILED;
    }
    qsort(all, n, sizeof(*all), compare_processes);
    note_times(out);
    return CMD_OK;
}

int run_read(const char *self, const char *dir, run *out)
{
    struct dirent **files;
    int n = scandir(dir, &files, is_record, by_number), code;

    *out = (run){ .dir = dir, .name = dir };
    if (n < 0)
        return cmd_failed(self,
                          "cannot read %s: %s; name the folder of a record",
                          dir, strerror(errno));
    code = n ? read_all(self, files, (size_t)n, out) : no_record(self, dir);
    for (int i = 0; i < n; i++)
        free(files[i]);
    free(files);
    return code;
}

void run_release(run *r)
{
    for (size_t i = 0; r->all && i < r->n; i++) {
        free(r->all[i].who);
        cJSON_Delete(r->all[i].lines);
    }
    free(r->all);
    r->all = NULL;
    r->n = 0;
}

/* --- where the time went ---------------------------------------------------- */

const char *const spent_names[N_SPENT] = { "training", "waiting for data",
                                           "waiting for others", "testing",
                                           "all else" };

static double or_zero(double x)
{
    return isnan(x) ? 0 : x;
}

/* Of a pass that is over, or that was cut off. */
static void add_pass(spent *s, const cJSON *line)
{
    double all = or_zero(line_number(line, "seconds"));
    double input = or_zero(line_number(line, "input_seconds"));
    double peers = or_zero(line_number(line, "peer_seconds"));

    if (strcmp(line_text(line, "phase"), "train") != 0) {
        s->seconds[SPENT_TEST] += all;
        return;
    }
    input = fmin(input, all);
    peers = fmin(peers, all - input);
    s->seconds[SPENT_INPUT] += input;
    s->seconds[SPENT_PEERS] += peers;
    s->seconds[SPENT_TRAIN] += all - input - peers;
    s->samples += or_zero(line_number(line, "samples"));
}

/* The last line of each pass counts. */
static bool is_last_of_pass(const cJSON *line)
{
    double pass = line_number(line, "pass");

    for (const cJSON *next = line->next; next; next = next->next) {
        if (line_is(next, "begin"))
            return true;
        if (line_number(next, "pass") == pass)
            return false;
    }
    return true;
}

spent process_spent(const process *p)
{
    const cJSON *line;
    spent s = { 0 };

    cJSON_ArrayForEach(line, p->lines) if (line_is(line, "pass") ||
                                           (line_is(line, "progress") &&
                                            is_last_of_pass(line)))
        add_pass(&s, line);
    s.total = line_number(p->lines->child->prev, "time") -
              line_number(p->lines->child, "time");
    s.seconds[SPENT_OTHER] = s.total;
    for (int i = 0; i < SPENT_OTHER; i++)
        s.seconds[SPENT_OTHER] -= s.seconds[i];
    s.seconds[SPENT_OTHER] = fmax(0, s.seconds[SPENT_OTHER]);
    return s;
}
