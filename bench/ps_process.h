/* ps_process.h - server processes of a bench: they are started, their CPU time
 * is read, and they end with the bench at the latest.
 *
 * The bench itself runs on the first core it may use and servers on the last,
 * so that both ends never share one where there are two. One thread.
 */
#ifndef BENCH_PS_PROCESS_H
#define BENCH_PS_PROCESS_H

#include <stdbool.h>
#include <sys/types.h>

#define ADDRESS_MAX 32

/* Keeps this process, and threads that it starts later, on its own core. */
void process_pin(void);

/* Starts argv[0], which may be PROCESS_SELF for this very program. Ends the
   bench when there can be no process; a program that is not there shows when
   the process ends. */
#define PROCESS_SELF "/proc/self/exe"
pid_t process_start(char *const argv[]);

/* User and system time of a process that runs, over all its threads. */
double process_cpu_seconds(pid_t pid);

/* Whether it still runs. */
bool process_is_alive(pid_t pid);

/* Waits for an end of its own accord; ends the bench when it does not come
   soon, or was no success. */
void process_wait(pid_t pid, const char *what);

/* Ends it. */
void process_stop(pid_t pid);

/* "127.0.0.1:PORT" that nobody listens at. */
void process_free_address(char out[ADDRESS_MAX]);

/* A connected stream socket to such an address; waits until it is there, and
   ends the bench when it does not come. Blocks unless the caller changes it. */
int process_connect(const char *address);

/* A listening socket for one process; ends it when the address is taken. */
int process_listen(const char *address);

/* The port of "127.0.0.1:PORT". */
int process_port(const char *address);

#endif
