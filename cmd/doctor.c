/* doctor.c - flotilla doctor: is this machine fit for a job, and is the
 * environment right? */
#include "doctor.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

void doctor_say(doctor *d, doctor_grade grade, const char *what,
                const char *next, const char *fmt, ...)
{
    static const char *const names[] = { "ok", "warn", "bad" };
    va_list ap;

    printf("%-6s%-17s", names[grade], what);
    va_start(ap, fmt);
    vprintf(fmt, ap);
    va_end(ap);
    if (grade != DOCTOR_OK)
        printf("\n%-23s-> %s", "", next);
    putchar('\n');
    d->n_warn += grade == DOCTOR_WARN;
    d->n_bad += grade == DOCTOR_BAD;
}

void doctor_read_line(const char *path, char *out, size_t cap)
{
    FILE *f = fopen(path, "r");

    out[0] = '\0';
    if (!f)
        return;
    if (!fgets(out, (int)cap, f))
        out[0] = '\0';
    out[strcspn(out, "\n")] = '\0';
    fclose(f);
}

static int run(int argc, char **argv)
{
    doctor d = { 0 };
    fl_ctx *c = NULL;

    if (argc > 1)
        return cmd_misused(argv[0], "'%s' is too much", argv[1]);
    doctor_library(&d);
    doctor_machine(&d);
    doctor_places(&d);
    doctor_clock(&d);
    if (fl_ctx_new(&c))
        doctor_say(&d, DOCTOR_BAD, "settings",
                   "unset the variable, or give it a value in its range "
                   "(`flotilla settings`)",
                   "%s", fl_last_error());
    else
        doctor_job(&d, c);
    fl_ctx_free(c);
    printf("\n%d bad, %d to look at%s\n", d.n_bad, d.n_warn,
           d.n_bad ? "" : "; a job can run here");
    return d.n_bad ? CMD_FAILED : CMD_OK;
}

const cmd cmd_doctor = {
    .name = "doctor",
    .args = "",
    .doc = "check this machine and the environment for a job",
    .more =
        "One line per finding: ok, warn (it works, but not at its best) or bad,"
        " with the\n"
        "next step. It looks at the library and the instruction set it uses,"
        " cores, memory,\n"
        "limits, huge pages, disks, clock, the variables of the settings, and"
        " the role that\n"
        "this process would get from the environment. The ports of the job's"
        " servers are to\n"
        "be free for a server, and are asked by a worker. The exit code is 1"
        " when something\n"
        "is bad.",
    .run = run,
};
