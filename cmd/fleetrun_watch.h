/* fleetrun_watch.h - processes that run: starting, watching, ending them, and
 * what the terminal shows meanwhile. One thread; see fleetrun.h.
 */
#ifndef FL_CMD_FLEETRUN_WATCH_H
#define FL_CMD_FLEETRUN_WATCH_H

#include <stdarg.h>
#include <stdio.h>

#include "fleetrun.h"
#include "flotilla/job.h"

uint64_t clock_ms(void);

/* --- the keeper (fleetrun_keeper.c) --------------------------------------- */

/* A process that outlives the launcher just long enough to end what it has
   left behind, when it was killed. */
typedef struct keeper {
    pid_t pid;
    int fd; /* what is written there is known to it; its end is ours */
} keeper;

int keeper_start(keeper *k);
/* A group of processes that is to be ended, or that has ended. */
void keeper_add(const keeper *k, pid_t group);
void keeper_drop(const keeper *k, pid_t group);
void keeper_end(keeper *k);

/* --- starting (fleetrun_spawn.c) ------------------------------------------ */

/* Makes the folder of the logs. */
int spawn_prepare(const job *j);
/* A process in a group of its own, its output on the way to its log;
   `is_again`: the log goes on. */
int spawn(const job *j, proc *p, bool is_again);
/* Becomes the program; comes back only when that fails. */
int spawn_become(const job *j, const proc *p);

/* --- logs (fleetrun_logs.c) ----------------------------------------------- */

/* Opens the log of a process; -1 after saying why not. */
int log_open(const proc *p, bool is_again);
/* What a process has written since; at most cap bytes, 0 when there is none. */
size_t log_take(const proc *p, char *out, size_t cap);
/* How much of it is in the log now; errno says why it is not all. */
size_t log_add(const proc *p, const char *bytes, size_t n);
/* Of a process that has ended. */
void log_close(const proc *p);

/* Follows a file as it grows. */
typedef struct tail {
    int fd; /* -1: none */
} tail;

/* None when it is no ordinary file. */
void tail_open(tail *t, const char *path);
/* What has come since; 0 when there is nothing. */
size_t tail_read(tail *t, char *out, size_t cap);
void tail_close(tail *t);

/* The last lines of a file, each after `before`. */
void log_print_end(FILE *to, const char *path, const char *before);

/* --- the terminal (fleetrun_screen.c) ------------------------------------- */

typedef struct screen {
    bool is_terminal;
    bool is_new;      /* the status is another one than on the screen */
    bool shows;       /* a status at all */
    bool is_drawn;    /* the status is on the line where the cursor is */
    bool is_in_line;  /* somebody has begun a line and not ended it */
    uint64_t next_ms; /* of the next line in a file */
    char status[256];
} screen;

void screen_open(screen *s, status_use use);
/* Between these two, somebody else may write. */
void screen_clear(screen *s);
void screen_say(screen *s, const char *fmt, ...)
    __attribute__((format(printf, 2, 3)));
void screen_pass(screen *s, const char *bytes, size_t n);
/* Whether that would not wait: somebody may have stopped the terminal. */
bool screen_is_ready(void);
/* "" shows nothing. */
void screen_set_status(screen *s, const char *line);
/* Draws the status if it is time to. */
void screen_tick(screen *s);

/* --- what the job does (fleetrun_status.c, fleetrun_ask.c) ---------------- */

/* The status of a job in one line; "" when there is nothing to tell. */
void status_line(const fl_job_status *status, char *out, size_t cap);

/* A process that asks server 0 about once a second and writes lines. */
typedef struct asker {
    pid_t pid;
    int fd; /* -1: none */
    char line[256];
    size_t len;
} asker;

void asker_start(asker *a, const job *j);
/* Reads what there is; true when *line is new. */
bool asker_read(asker *a, char *line, size_t cap);
void asker_end(asker *a);

/* --- watching (fleetrun_watch.c) ------------------------------------------ */

/* Starts everything that is here, and returns the exit code of the launcher
   when nothing of it runs any more. */
int watch(job *j);

/* "exit status 3", "SIGSEGV (Segmentation fault)". */
void end_text(int status, char *out, size_t cap);

#endif
