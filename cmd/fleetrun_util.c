/* fleetrun_util.c - memory that lives as long as the launcher, and messages. */
#include "fleetrun.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct room_block {
    room_block *next;
    max_align_t data[];
};

_Noreturn static void no_memory(void)
{
    run_say("no memory");
    exit(RUN_FAILED);
}

void *room_take(room *r, size_t bytes)
{
    room_block *b = calloc(1, sizeof(*b) + bytes);

    if (!b)
        no_memory();
    b->next = r->first;
    r->first = b;
    return b->data;
}

char *room_text(room *r, const char *fmt, ...)
{
    char *made = NULL, *text;
    va_list args;
    int n;

    va_start(args, fmt);
    n = vasprintf(&made, fmt, args);
    va_end(args);
    if (n < 0)
        no_memory();
    text = room_take(r, (size_t)n + 1);
    memcpy(text, made, (size_t)n);
    free(made);
    return text;
}

void room_release(room *r)
{
    while (r->first) {
        room_block *next = r->first->next;

        free(r->first);
        r->first = next;
    }
}

static void say(const char *fmt, va_list args)
{
    fprintf(stderr, "%s: ", program_invocation_short_name);
    vfprintf(stderr, fmt, args);
    fputc('\n', stderr);
}

void run_say(const char *fmt, ...)
{
    va_list args;

    va_start(args, fmt);
    say(fmt, args);
    va_end(args);
}

int run_failed(const char *fmt, ...)
{
    va_list args;

    va_start(args, fmt);
    say(fmt, args);
    va_end(args);
    return RUN_FAILED;
}

int run_misused(const char *fmt, ...)
{
    va_list args;

    va_start(args, fmt);
    say(fmt, args);
    va_end(args);
    fprintf(stderr,
            "usage: %s --server_num=S --worker_num=W [options] program "
            "[arguments]; --help says more\n",
            program_invocation_short_name);
    return RUN_USAGE;
}
