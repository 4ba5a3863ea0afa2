/* log.c - the sink, and the line that the default one writes:
 *
 *     2031-05-07T08:09:10.123Z INFO exec plan ops=12 bytes=4096
 *
 * The mutex is held while the sink runs: lines do not mix, and once
 * fl_log_set() has returned the old sink is not running and never will. What
 * a sink itself says through fl_log() is dropped, for it would wait for itself.
 */
#include "base/log.h"

#include <stdatomic.h>
#include <stdio.h>
#include <time.h>
#include <unistd.h>

#include "base/thread.h"

#define TEXT_MAX 2048
#define LINE_MAX_BYTES (TEXT_MAX + 256)

static void write_stderr(void *arg, fl_log_level level, const char *area,
                         const char *text);

static struct {
    fl_mutex mu;
    fl_log_sink sink; /* guarded by mu */
    void *arg;        /* guarded by mu */
    atomic_int least;
} state = {
    .mu = PTHREAD_MUTEX_INITIALIZER,
    .sink = write_stderr,
    .least = FL_LOG_INFO,
};

static _Thread_local bool in_sink;

static const char *level_name(fl_log_level level)
{
    static const char *const names[] = {
        [FL_LOG_DEBUG] = "DEBUG",
        [FL_LOG_INFO] = "INFO",
        [FL_LOG_WARN] = "WARN",
        [FL_LOG_ERROR] = "ERROR",
    };

    return names[level];
}

/* One write per line, so that lines of several processes do not mix either. */
static void write_stderr(void *arg, fl_log_level level, const char *area,
                         const char *text)
{
    char line[LINE_MAX_BYTES], date[32];
    struct timespec now;
    struct tm tm;
    size_t len;
    int n;

    (void)arg;
    clock_gettime(CLOCK_REALTIME, &now);
    gmtime_r(&now.tv_sec, &tm);
    strftime(date, sizeof(date), "%Y-%m-%dT%H:%M:%S", &tm);
    n = snprintf(line, sizeof(line), "%s.%03ldZ %s %s %s\n", date,
                 now.tv_nsec / 1000000, level_name(level), area, text);
    if (n < 0)
        return;
    len = (size_t)n;
    if (len >= sizeof(line)) {
        len = sizeof(line) - 1;
        line[len - 1] = '\n';
    }
    if (write(STDERR_FILENO, line, len) < 0)
        return; /* nobody is left to tell */
}

void fl_log_set(fl_log_sink sink, void *arg, fl_log_level least)
{
    fl_lock(&state.mu);
    state.sink = sink ? sink : write_stderr;
    state.arg = arg;
    atomic_store(&state.least, (int)least);
    fl_unlock(&state.mu);
}

void fl_log_set_level(fl_log_level least)
{
    atomic_store(&state.least, (int)least);
}

void fl_log(fl_log_level level, const char *area, const char *fmt, ...)
{
    char text[TEXT_MAX];
    va_list ap;

    if (in_sink || (int)level < atomic_load(&state.least))
        return;
    va_start(ap, fmt);
    vsnprintf(text, sizeof(text), fmt, ap);
    va_end(ap);
    in_sink = true;
    fl_lock(&state.mu);
    state.sink(state.arg, level, area, text);
    fl_unlock(&state.mu);
    in_sink = false;
}
