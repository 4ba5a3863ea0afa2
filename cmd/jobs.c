/* jobs.c - the jobs of this user on this machine. */
#include "jobs.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "nearest.h"
#include "status_page.h"

#define AGE_MAX 32
#define PAUSE_NS 50000000
#define BY_MAX 48

static fl_local_jobs *open_list(const char *self)
{
    fl_local_jobs *l;

    if (!fl_local_jobs_get(&l))
        return l;
    (void)cmd_failed(self, "%s", fl_last_error());
    return NULL;
}

static char *copy_text(const char *self, const char *text)
{
    char *copy = strdup(text);

    if (!copy)
        (void)cmd_failed(self, "no memory for an address");
    return copy;
}

/* --- waiting -------------------------------------------------------------- */

static bool is_there(const char *word)
{
    fl_local_job j = FL_INIT(fl_local_job);
    fl_local_jobs *l;
    bool is = false;

    if (fl_local_jobs_get(&l))
        return false;
    for (size_t i = 0; !is && fl_local_jobs_at(l, i, &j); i++)
        is = !word || !strncmp(j.name, word, strlen(word));
    fl_local_jobs_free(l);
    return is;
}

void jobs_await(const char *word, uint64_t seconds)
{
    const struct timespec pause = { .tv_nsec = PAUSE_NS };
    time_t until = time(NULL) + (time_t)seconds;

    while (time(NULL) < until && !is_there(word))
        nanosleep(&pause, NULL);
}

/* --- for people ----------------------------------------------------------- */

static const char *age_of(const fl_local_job *j, char out[AGE_MAX])
{
    double age = difftime(time(NULL), (time_t)j->began);

    return status_time(age > 0 ? age : 0, out);
}

static const char *by_of(const fl_local_job *j, char out[BY_MAX])
{
    (void)snprintf(out, BY_MAX, "%s (%" PRIu32 ")", j->by, j->process);
    return out;
}

static int width_of(const fl_local_jobs *l, const char *title,
                    const char *(*text)(const fl_local_job *j))
{
    fl_local_job j = FL_INIT(fl_local_job);
    size_t width = strlen(title);

    for (size_t i = 0; fl_local_jobs_at(l, i, &j); i++)
        width = strlen(text(&j)) > width ? strlen(text(&j)) : width;
    return (int)width;
}

static const char *name_of(const fl_local_job *j)
{
    return j->name;
}

static const char *address_of(const fl_local_job *j)
{
    return j->address;
}

static void print_list(const fl_local_jobs *l)
{
    int name = width_of(l, "job", name_of);
    int address = width_of(l, "address", address_of);
    fl_local_job j = FL_INIT(fl_local_job);
    char age[AGE_MAX], by[BY_MAX];

    printf("%-*s  %-*s  %-18s  %-12s  %s\n", name, "job", address, "address",
           "by (process)", "runs for", "program");
    for (size_t i = 0; fl_local_jobs_at(l, i, &j); i++)
        printf("%-*s  %-*s  %-18s  %-12s  %s\n", name, j.name, address,
               j.address, by_of(&j, by), age_of(&j, age), j.program);
}

static char *take_only(const char *self, const fl_local_job *j)
{
    char by[BY_MAX];

    printf("job %s at %s by %s: %s\n\n", j->name, j->address, by_of(j, by),
           j->program);
    return copy_text(self, j->address);
}

char *jobs_only(const char *self, int *code)
{
    fl_local_jobs *l = open_list(self);
    fl_local_job first = FL_INIT(fl_local_job), second = first;
    char *address = NULL;

    *code = l ? CMD_OK : CMD_FAILED;
    if (!l)
        return NULL;
    if (!fl_local_jobs_at(l, 0, &first)) {
        *code = cmd_failed(self, "no job of yours runs on this machine; of one "
                                 "on another give the HOST:PORT of server 0");
    } else if (fl_local_jobs_at(l, 1, &second)) {
        print_list(l);
        printf("\nflotilla %s JOB tells of one, by its name or the beginning "
               "of it\n",
               self);
    } else {
        address = take_only(self, &first);
        *code = address ? CMD_OK : CMD_FAILED;
    }
    fl_local_jobs_free(l);
    return address;
}

/* --- for programs --------------------------------------------------------- */

int jobs_print_json(const char *self)
{
    fl_local_jobs *l = open_list(self);
    int code;

    if (!l)
        return CMD_FAILED;
    code = cmd_print(fl_local_jobs_json(l));
    putchar('\n');
    fl_local_jobs_free(l);
    return code;
}

/* --- by name -------------------------------------------------------------- */

typedef struct match {
    fl_local_job job;
    int n;               /* that begin so */
    bool is_exact;       /* of which this one has no more */
    const char *nearest; /* of the others, or NULL */
} match;

static match find(const fl_local_jobs *l, const char *word)
{
    fl_local_job j = FL_INIT(fl_local_job);
    match m = { 0 };

    for (size_t i = 0; fl_local_jobs_at(l, i, &j); i++) {
        bool is_exact = !strcmp(j.name, word);

        m.nearest = nearer_name(word, m.nearest, j.name);
        if (strncmp(j.name, word, strlen(word)) != 0 ||
            (m.is_exact && !is_exact))
            continue;
        m.n = is_exact && !m.is_exact ? 1 : m.n + 1;
        m.is_exact = is_exact;
        m.job = j;
    }
    return m;
}

static char *address_by_name(const char *self, const fl_local_jobs *l,
                             const char *word)
{
    match m = find(l, word);

    if (m.n == 1)
        return copy_text(self, m.job.address);
    if (m.n)
        (void)cmd_failed(self,
                         "%d jobs of yours %s '%s' on this machine; give the "
                         "HOST:PORT, which `flotilla status` lists",
                         m.n, m.is_exact ? "are called" : "begin with", word);
    else if (m.nearest)
        (void)cmd_failed(self,
                         "no job '%s' of yours runs on this machine; did you "
                         "mean %s?",
                         word, m.nearest);
    else
        (void)cmd_failed(self,
                         "no job '%s' of yours runs on this machine; "
                         "`flotilla status` lists those that do, and of one "
                         "elsewhere give the HOST:PORT of server 0",
                         word);
    return NULL;
}

char *jobs_address(const char *self, const char *word)
{
    fl_local_jobs *l;
    char *address;

    if (strchr(word, ':'))
        return copy_text(self, word);
    l = open_list(self);
    if (!l)
        return NULL;
    address = address_by_name(self, l, word);
    fl_local_jobs_free(l);
    return address;
}
