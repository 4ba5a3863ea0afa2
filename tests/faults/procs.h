/* procs.h - processes of a case: started, read from, and never left behind.
 *
 * Owner thread only. Every process dies with the one that started it.
 */
#ifndef FL_TESTS_FAULTS_PROCS_H
#define FL_TESTS_FAULTS_PROCS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <sys/types.h>

#define NAME_ROOM 8

typedef struct proc {
    char name[NAME_ROOM]; /* "s0" */
    pid_t pid;
    bool is_running;
    int status; /* of waitpid, when it has ended */
    int fd;     /* its stdout and stderr; -1: closed */
    char *out;  /* all that it has printed, NUL-terminated */
    size_t len;
    size_t mark; /* where its output stood when the last fault happened */
} proc;

uint64_t now_ms(void);

/* Runs argv. A process that has ended may be started again: what it printed
   before stays. */
void proc_start(proc *p, char *const *argv);

/* Waits for output or an end of any of them, at most `ms`. */
void procs_pump(proc *all, size_t n, int ms);

/* A line from `from` on that has the pattern (of fnmatch) in it; NULL: none.
 *len is the line's length. */
const char *proc_find(const proc *p, size_t from, const char *pattern,
                      size_t *len);
size_t proc_count(const proc *p, const char *pattern);

/* Kills it if it runs, and frees. */
void proc_release(proc *p);

/* A child that does nothing but `fn`, killed by kill(2); dies with us. */
pid_t start_child(void (*fn)(int fd), int fd);

/* What went wrong in the harness itself ends the case. */
_Noreturn void give_up(const char *what);

#endif
