/* fleetrun_screen.c - messages, the output of worker 0, and below them a line
 * that is written over. Without a terminal the line appears every ten seconds,
 * and only for those who asked. */
#include <errno.h>
#include <poll.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "fleetrun_watch.h"

#define FILE_MS 10000

void screen_open(screen *s, status_use use)
{
    *s = (screen){ .is_terminal = isatty(STDERR_FILENO) };
    s->shows = use == STATUS_YES || (use == STATUS_AUTO && s->is_terminal);
    s->next_ms = clock_ms() + FILE_MS;
}

void screen_clear(screen *s)
{
    if (s->is_drawn)
        fputs("\r\033[K", stderr);
    s->is_drawn = false;
    fflush(stderr);
}

void screen_say(screen *s, const char *fmt, ...)
{
    va_list args;

    screen_clear(s);
    if (s->is_in_line)
        fputc('\n', stderr);
    s->is_in_line = false;
    fprintf(stderr, "%s: ", program_invocation_short_name);
    va_start(args, fmt);
    vfprintf(stderr, fmt, args);
    va_end(args);
    fputc('\n', stderr);
    fflush(stderr);
}

/* When nobody reads it any more the log still has it. */
void screen_pass(screen *s, const char *bytes, size_t n)
{
    if (!n)
        return;
    screen_clear(s);
    s->is_in_line = bytes[n - 1] != '\n';
    while (n) {
        ssize_t written = write(STDOUT_FILENO, bytes, n);

        if (written < 0 && errno == EINTR)
            continue;
        if (written < 0)
            return;
        bytes += written;
        n -= (size_t)written;
    }
}

bool screen_is_ready(void)
{
    struct pollfd out = { .fd = STDOUT_FILENO, .events = POLLOUT };

    return poll(&out, 1, 0) != 0;
}

void screen_set_status(screen *s, const char *line)
{
    s->is_new = strcmp(s->status, line) != 0;
    (void)snprintf(s->status, sizeof(s->status), "%s", line);
    if (!*s->status)
        screen_clear(s);
}

static int width(void)
{
    struct winsize w;

    if (ioctl(STDERR_FILENO, TIOCGWINSZ, &w) || w.ws_col < 2)
        return 79;
    return w.ws_col - 1;
}

void screen_tick(screen *s)
{
    if (!s->shows || !*s->status)
        return;
    if (s->is_terminal) {
        if (s->is_in_line || (s->is_drawn && !s->is_new))
            return;
        fprintf(stderr, "\r\033[K%.*s", width(), s->status);
        fflush(stderr);
        s->is_drawn = true;
        s->is_new = false;
    } else if (clock_ms() >= s->next_ms) {
        s->next_ms = clock_ms() + FILE_MS;
        fprintf(stderr, "%s: %s\n", program_invocation_short_name, s->status);
    }
}
