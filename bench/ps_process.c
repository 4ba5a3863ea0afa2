/* ps_process.c - starting, watching and ending server processes. */
#include "ps_process.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/tcp.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "harness.h"

#define PATIENCE_MS 20000
#define PAUSE_MS 5
#define BUFFER_BYTES (1 << 20)

static void fail(const char *what)
{
    fprintf(stderr, "bench: %s: %s\n", what, strerror(errno));
    exit(1);
}

static void pause_a_little(void)
{
    nanosleep(&(struct timespec){ .tv_nsec = PAUSE_MS * 1000000 }, NULL);
}

/* --- cores --------------------------------------------------------------- */

/* The first and the last core that the bench may use, as it was started. */
static int first_core = -1, last_core = -1;

static void pin_to(int core)
{
    cpu_set_t set;

    if (core < 0)
        return;
    CPU_ZERO(&set);
    CPU_SET(core, &set);
    (void)sched_setaffinity(0, sizeof set, &set);
}

void process_pin(void)
{
    cpu_set_t set;

    CPU_ZERO(&set);
    if (sched_getaffinity(0, sizeof set, &set) != 0)
        return;
    for (int i = 0; i < CPU_SETSIZE; i++) {
        if (!CPU_ISSET(i, &set))
            continue;
        if (first_core < 0)
            first_core = i;
        last_core = i;
    }
    pin_to(first_core);
}

/* --- processes ----------------------------------------------------------- */

/* Between fork and exec only what is safe there is called: this process may
   have threads. */
pid_t process_start(char *const argv[])
{
    pid_t parent = getpid(), pid = fork();

    if (pid < 0)
        fail("starting a server process");
    if (pid > 0)
        return pid;
    (void)prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() == parent) {
        pin_to(last_core);
        (void)execvp(argv[0], argv);
    }
    _exit(127);
}

double process_cpu_seconds(pid_t pid)
{
    clockid_t clock;
    struct timespec t;

    if (clock_getcpuclockid(pid, &clock) || clock_gettime(clock, &t) != 0)
        fail("the CPU time of a server process");
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

bool process_is_alive(pid_t pid)
{
    siginfo_t info = { 0 };

    return waitid(P_PID, (id_t)pid, &info, WEXITED | WNOHANG | WNOWAIT) == 0 &&
           info.si_pid == 0;
}

void process_wait(pid_t pid, const char *what)
{
    int status = 0;

    for (int ms = 0; process_is_alive(pid); ms += PAUSE_MS) {
        if (ms > PATIENCE_MS) {
            process_stop(pid);
            fprintf(stderr, "bench: %s does not end\n", what);
            exit(1);
        }
        pause_a_little();
    }
    if (waitpid(pid, &status, 0) != pid || status != 0) {
        fprintf(stderr, "bench: %s ended with status %#x\n", what,
                (unsigned)status);
        exit(1);
    }
}

void process_stop(pid_t pid)
{
    (void)kill(pid, SIGKILL);
    (void)waitpid(pid, NULL, 0);
}

/* --- sockets ------------------------------------------------------------- */

int process_port(const char *address)
{
    return (int)strtol(strrchr(address, ':') + 1, NULL, 10);
}

static struct sockaddr_in place_of(int port)
{
    return (struct sockaddr_in){ .sin_family = AF_INET,
                                 .sin_port = htons((uint16_t)port),
                                 .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
}

/* With the options that the library gives its own. */
static int open_socket(void)
{
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    int one = 1, bytes = BUFFER_BYTES;

    if (fd < 0)
        fail("a socket");
    (void)setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
    (void)setsockopt(fd, IPPROTO_TCP, TCP_CONGESTION, "reno", 4);
    (void)setsockopt(fd, SOL_SOCKET, SO_SNDBUF, &bytes, sizeof bytes);
    (void)setsockopt(fd, SOL_SOCKET, SO_RCVBUF, &bytes, sizeof bytes);
    return fd;
}

void process_free_address(char out[ADDRESS_MAX])
{
    struct sockaddr_in sa = place_of(0);
    socklen_t len = sizeof sa;
    int fd = open_socket();

    if (bind(fd, (struct sockaddr *)&sa, sizeof sa) != 0 ||
        getsockname(fd, (struct sockaddr *)&sa, &len) != 0)
        fail("a free port");
    close(fd);
    snprintf(out, ADDRESS_MAX, "127.0.0.1:%d", (int)ntohs(sa.sin_port));
}

int process_connect(const char *address)
{
    struct sockaddr_in sa = place_of(process_port(address));

    for (int ms = 0; ms < PATIENCE_MS; ms += PAUSE_MS) {
        int fd = open_socket();

        if (connect(fd, (struct sockaddr *)&sa, sizeof sa) == 0)
            return fd;
        close(fd);
        pause_a_little();
    }
    fail(address);
    return -1;
}

int process_listen(const char *address)
{
    struct sockaddr_in sa = place_of(process_port(address));
    int fd = open_socket();

    if (bind(fd, (struct sockaddr *)&sa, sizeof sa) != 0 || listen(fd, 1) != 0)
        fail(address);
    return fd;
}
