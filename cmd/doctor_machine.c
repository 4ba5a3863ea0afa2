/* doctor_machine.c - library, cores, memory, limits, disks and clock. */
#include "doctor.h"

#include <errno.h>
#include <inttypes.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/statvfs.h>
#include <sys/timex.h>
#include <time.h>
#include <unistd.h>

#define FILES_FEW 4096
#define FILES_TOO_FEW 64
#define MEMORY_LITTLE ((uint64_t)1 << 30)
#define DISK_LITTLE ((uint64_t)1 << 30)
#define DISK_TOO_LITTLE ((uint64_t)16 << 20)
#define CLOCK_COARSE_NS 1000000
/* A clock before this was never set. */
#define TIME_OF_RELEASE INT64_C(1735689600)

/* --- the library ---------------------------------------------------------- */

/* Whether a word stands in a line of words. */
static bool has_word(const char *line, const char *word)
{
    size_t n = strlen(word);

    for (const char *p = line; (p = strstr(p, word)); p += n)
        if ((p == line || p[-1] == ' ' || p[-1] == '\t') &&
            strchr(" \t\n", p[n]))
            return true;
    return false;
}

/* The line of /proc/cpuinfo that has the features; "" elsewhere. */
static void read_features(char *out, size_t cap)
{
    FILE *f = fopen("/proc/cpuinfo", "r");
    bool found = false;

    while (f && !found && fgets(out, (int)cap, f))
        found = !strncmp(out, "flags", 5) || !strncmp(out, "Features", 8);
    if (!found)
        out[0] = '\0';
    if (f)
        fclose(f);
}

static void say_instructions(doctor *d, const char *used)
{
    static const char *const known[] = { "avx2", "fma", "avx512f", "asimd" };
    char features[8192], text[128] = "";
    bool is_better;

    read_features(features, sizeof(features));
    for (size_t i = 0; i < sizeof(known) / sizeof(known[0]); i++)
        if (has_word(features, known[i])) {
            strncat(text, " ", sizeof(text) - strlen(text) - 1);
            strncat(text, known[i], sizeof(text) - strlen(text) - 1);
        }
    is_better = strstr(used, "base") && has_word(features, "avx2");
    doctor_say(d, is_better ? DOCTOR_WARN : DOCTOR_OK, "instructions",
               "build the library on this kind of machine: it would use avx2",
               "the library uses%s; the processor has%s", used,
               *text ? text : " none that are looked for");
}

void doctor_library(doctor *d)
{
    char *text = fl_version_text(), *rest = text;

    for (char *line; (line = strsep(&rest, "\n"));) {
        char *value = strchr(line, ' ');

        if (!value)
            continue;
        if (!strncmp(line, "instructions ", 13)) {
            say_instructions(d, value);
            continue;
        }
        *value++ = '\0';
        doctor_say(d, DOCTOR_OK, line, "", "%s", value);
    }
    fl_text_free(text);
}

/* --- cores and memory ----------------------------------------------------- */

static void say_cores(doctor *d)
{
    long online = sysconf(_SC_NPROCESSORS_ONLN);
    char line[128];
    double quota, period;
    cpu_set_t set;
    int n = (int)online;

    if (!sched_getaffinity(0, sizeof(set), &set))
        n = CPU_COUNT(&set);
    doctor_read_line("/sys/fs/cgroup/cpu.max", line, sizeof(line));
    if (sscanf(line, "%lf %lf", &quota, &period) == 2 && period > 0 &&
        quota / period < n)
        doctor_say(d, DOCTOR_WARN, "cores",
                   "start fewer threads, or raise the limit of the container",
                   "%d, but a limit allows the work of %.1f", n,
                   quota / period);
    else
        doctor_say(d, DOCTOR_OK, "cores", "", "%d of %ld may be used", n,
                   online);
}

static void say_memory(doctor *d)
{
    FILE *f = fopen("/proc/meminfo", "r");
    uint64_t kb = 0;
    char line[256];

    while (f && fgets(line, sizeof(line), f) &&
           sscanf(line, "MemAvailable: %" SCNu64, &kb) != 1)
        ;
    if (f)
        fclose(f);
    doctor_say(d, kb * 1024 < MEMORY_LITTLE ? DOCTOR_WARN : DOCTOR_OK, "memory",
               "tables grow with the ids they see: end other programs, or "
               "spread the tables over more servers",
               "%.1f GB are free", (double)kb / (1 << 20));
}

static void say_huge_pages(doctor *d)
{
    char line[128];

    doctor_read_line("/sys/kernel/mm/transparent_hugepage/enabled", line,
                     sizeof(line));
    if (strstr(line, "[never]"))
        doctor_say(d, DOCTOR_WARN, "huge pages",
                   "echo madvise >/sys/kernel/mm/transparent_hugepage/enabled "
                   "(as root)",
                   "off: large tables are read more slowly");
    else
        doctor_say(d, DOCTOR_OK, "huge pages", "", "%s",
                   *line ? line : "not told by this system");
}

static void limit_text(rlim_t limit, char *out, size_t cap)
{
    if (limit == RLIM_INFINITY)
        snprintf(out, cap, "without limit");
    else
        snprintf(out, cap, "%" PRIu64, (uint64_t)limit);
}

static void say_limits(doctor *d)
{
    struct rlimit files = { 0 }, locked = { 0 };
    doctor_grade grade = DOCTOR_OK;
    char text[32];

    getrlimit(RLIMIT_NOFILE, &files);
    getrlimit(RLIMIT_MEMLOCK, &locked);
    if (files.rlim_cur < FILES_FEW)
        grade = files.rlim_cur < FILES_TOO_FEW ? DOCTOR_BAD : DOCTOR_WARN;
    limit_text(files.rlim_cur, text, sizeof(text));
    doctor_say(d, grade, "open files",
               "ulimit -n 65536, or LimitNOFILE= of the service",
               "%s at a time; a process uses one per member of the job and "
               "per file read",
               text);
    limit_text(locked.rlim_cur, text, sizeof(text));
    doctor_say(d, DOCTOR_OK, "locked memory", "",
               "%s bytes; no memory is locked, any limit will do", text);
}

void doctor_machine(doctor *d)
{
    say_cores(d);
    say_memory(d);
    say_huge_pages(d);
    say_limits(d);
}

/* --- disks ---------------------------------------------------------------- */

/* What keeps a file from being made there; NULL: nothing. */
static const char *why_not_writable(const char *path)
{
    char name[4096];
    int fd;

    snprintf(name, sizeof(name), "%s/.flotilla-doctor-XXXXXX", path);
    fd = mkstemp(name);
    if (fd < 0)
        return strerror(errno);
    close(fd);
    unlink(name);
    return NULL;
}

static void say_place(doctor *d, const char *what, const char *path,
                      const char *use)
{
    const char *why = why_not_writable(path);
    doctor_grade grade = DOCTOR_OK;
    struct statvfs v;
    uint64_t bytes;

    if (why || statvfs(path, &v)) {
        doctor_say(d, DOCTOR_BAD, what,
                   "go to a directory that you may write to, or change its "
                   "owner",
                   "no file can be made in it: %s (%s)",
                   why ? why : strerror(errno), use);
        return;
    }
    bytes = (uint64_t)v.f_bavail * v.f_frsize;
    if (bytes < DISK_LITTLE)
        grade = bytes < DISK_TOO_LITTLE ? DOCTOR_BAD : DOCTOR_WARN;
    doctor_say(d, grade, what, "remove what is not needed, or use another disk",
               "%.1f GB are free (%s)", (double)bytes / (1 << 30), use);
}

void doctor_places(doctor *d)
{
    say_place(d, "this directory", ".", "logs, malformed lines");
    say_place(d, "/tmp", "/tmp", "temporary files");
}

/* --- clock ---------------------------------------------------------------- */

void doctor_clock(doctor *d)
{
    struct timespec r = { 0 }, now = { 0 };
    struct timex tx = { 0 };
    char source[64];

    clock_getres(CLOCK_MONOTONIC, &r);
    clock_gettime(CLOCK_REALTIME, &now);
    doctor_read_line(
        "/sys/devices/system/clocksource/clocksource0/current_clocksource",
        source, sizeof(source));
    doctor_say(
        d, r.tv_sec || r.tv_nsec > CLOCK_COARSE_NS ? DOCTOR_WARN : DOCTOR_OK,
        "timer",
        "choose another clock source for the kernel "
        "(/sys/devices/system/clocksource)",
        "resolution %ld ns%s%s", r.tv_nsec, *source ? ", source " : "", source);
    if (now.tv_sec < TIME_OF_RELEASE)
        doctor_say(d, DOCTOR_BAD, "clock", "set the date",
                   "it is in the past: certificates of TLS do not hold yet");
    else if (adjtimex(&tx) == TIME_ERROR)
        doctor_say(d, DOCTOR_WARN, "clock",
                   "start an NTP client; only the times in the logs suffer",
                   "not kept in step with other machines, as far as the kernel "
                   "knows");
    else
        doctor_say(d, DOCTOR_OK, "clock", "", "kept in step");
}
