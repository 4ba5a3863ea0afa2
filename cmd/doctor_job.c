/* doctor_job.c - the role that the environment gives this process, and the
 * ports of its job. */
#include "doctor.h"

#include <errno.h>
#include <netdb.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "flotilla/fleet.h"

#define CONNECT_MS 2000
#define ENDPOINT_MAX 512

/* --- variables ------------------------------------------------------------ */

/* Those that schedulers and launchers leave behind. */
static void say_scheduler(doctor *d)
{
    static const struct {
        const char *variable, *name, *how;
    } all[] = {
        { "SLURM_PROCID", "Slurm", "srun fleetrun ..." },
        { "OMPI_COMM_WORLD_RANK", "Open MPI", "mpirun fleetrun ..." },
        { "PMI_RANK", "MPICH", "mpirun fleetrun ..." },
        { "JOB_COMPLETION_INDEX", "Kubernetes", "fleetrun in the container" },
    };

    for (size_t i = 0; i < sizeof(all) / sizeof(all[0]); i++) {
        const char *rank = getenv(all[i].variable);

        if (rank && !getenv("TRAINING_ROLE"))
            doctor_say(d, DOCTOR_OK, "scheduler", "",
                       "task %s of %s: `%s` makes it a server or a worker",
                       rank, all[i].name, all[i].how);
    }
}

static void say_proxies(doctor *d)
{
    if (getenv("http_proxy") || getenv("https_proxy"))
        doctor_say(d, DOCTOR_OK, "proxy", "",
                   "http_proxy is set, and has no part in a job");
}

/* --- ports ---------------------------------------------------------------- */

/* Why nobody can listen there; NULL: the port is free. */
static const char *why_not_free(const struct addrinfo *a)
{
    int s = socket(a->ai_family, SOCK_STREAM | SOCK_CLOEXEC, 0), on = 1;
    const char *why = NULL;

    if (s < 0)
        return strerror(errno);
    setsockopt(s, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on));
    if (bind(s, a->ai_addr, a->ai_addrlen) || listen(s, 1))
        why = strerror(errno);
    close(s);
    return why;
}

/* Why nobody answers there; NULL: somebody does. */
static const char *why_no_answer(const struct addrinfo *a)
{
    int s = socket(a->ai_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    struct pollfd p = { .fd = s, .events = POLLOUT };
    socklen_t len = sizeof(int);
    int error = 0;

    if (s < 0)
        return strerror(errno);
    if (connect(s, a->ai_addr, a->ai_addrlen)) {
        error = errno;
        if (error == EINPROGRESS && poll(&p, 1, CONNECT_MS) == 1)
            getsockopt(s, SOL_SOCKET, SO_ERROR, &error, &len);
        else if (error == EINPROGRESS)
            error = ETIMEDOUT;
    }
    close(s);
    return error ? strerror(error) : NULL;
}

static void say_own_port(doctor *d, const char *endpoint,
                         const struct addrinfo *a)
{
    const char *why = why_not_free(a);

    if (why)
        doctor_say(d, DOCTOR_BAD, "port",
                   "end the process that has it (`ss -ltnp` shows it), or "
                   "choose another port for the whole job",
                   "%s, where this server is to listen: %s", endpoint, why);
    else
        doctor_say(d, DOCTOR_OK, "port", "", "%s is free for this server",
                   endpoint);
}

static void say_far_port(doctor *d, const char *endpoint,
                         const struct addrinfo *a)
{
    const char *why = why_no_answer(a);

    if (!why)
        doctor_say(d, DOCTOR_OK, "port", "", "%s answers", endpoint);
    else
        doctor_say(d, DOCTOR_WARN, "port",
                   "start that server; if it runs, look at firewalls and at "
                   "the address it listens on",
                   "%s does not answer: %s", endpoint, why);
}

static void say_port(doctor *d, char *endpoint, bool is_own)
{
    struct addrinfo hints = { .ai_socktype = SOCK_STREAM }, *found = NULL;
    char shown[ENDPOINT_MAX], *colon = strrchr(endpoint, ':'), *host = endpoint;
    int code;

    snprintf(shown, sizeof(shown), "%s", endpoint);
    if (!colon)
        return;
    *colon = '\0';
    if (*host == '[' && colon[-1] == ']') {
        host++;
        colon[-1] = '\0';
    }
    code = getaddrinfo(host, colon + 1, &hints, &found);
    if (code)
        doctor_say(d, DOCTOR_BAD, "port",
                   "correct the name in PADDLE_PSERVERS_IP_PORT_LIST, or the "
                   "resolver",
                   "%s: %s", shown, gai_strerror(code));
    else if (is_own)
        say_own_port(d, shown, found);
    else
        say_far_port(d, shown, found);
    if (found)
        freeaddrinfo(found);
}

static void say_ports(doctor *d, const fl_fleet *f)
{
    char *list = strdup(fl_fleet_server_endpoints(f)), *rest = list;
    int own = fl_fleet_is_server(f) ? fl_fleet_server_index(f) : -1;
    int i = 0;

    for (char *one; list && (one = strsep(&rest, ","));)
        if (*one)
            say_port(d, one, i++ == own);
    free(list);
}

/* --- the role ------------------------------------------------------------- */

static void say_role(doctor *d, const fl_fleet *f)
{
    int servers = fl_fleet_server_num(f), workers = fl_fleet_worker_num(f);

    if (!servers)
        doctor_say(d, DOCTOR_OK, "role", "",
                   "a single process: no servers in the environment");
    else if (fl_fleet_is_server(f))
        doctor_say(d, DOCTOR_OK, "role", "",
                   "server %d of %d, for %d workers (TRAINING_ROLE=PSERVER)",
                   fl_fleet_server_index(f), servers, workers);
    else
        doctor_say(d, DOCTOR_OK, "role", "",
                   "worker %d of %d, with %d servers (TRAINING_ROLE=TRAINER)",
                   fl_fleet_worker_index(f), workers, servers);
}

void doctor_job(doctor *d, fl_ctx *c)
{
    fl_fleet *f = NULL;

    doctor_say(d, DOCTOR_OK, "settings", "", "all variables are in range");
    say_scheduler(d);
    say_proxies(d);
    if (fl_fleet_init(&f, c, NULL)) {
        doctor_say(d, DOCTOR_BAD, "role",
                   "correct the variable; docs/fleet.md lists all of them",
                   "%s", fl_last_error());
        return;
    }
    say_role(d, f);
    say_ports(d, f);
    fl_fleet_free(f);
}
