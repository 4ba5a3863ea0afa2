/* fleetrun_ports.c - ports that are free.
 *
 * A port is looked for below those that the system gives to outgoing
 * connections: there, somebody's connection could take it before the server
 * begins to listen, and a worker that tries to reach it could even meet
 * itself. It is held until the launcher ends, by a socket that is bound and does
 * not listen: another launcher does not find it free, and a server, which asks
 * for SO_REUSEADDR, listens there. */
#include "fleetrun.h"

#include <netinet/in.h>
#include <stdio.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <unistd.h>

#define LOWEST 10240
#define TRIES 2000

static void share(int fd)
{
    int one = 1;

    (void)setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof(one));
}

static bool takes_port(int fd, int port)
{
    struct sockaddr_in a = { .sin_family = AF_INET,
                             .sin_port = htons((uint16_t)port),
                             .sin_addr.s_addr = htonl(INADDR_ANY) };

    return !bind(fd, (struct sockaddr *)&a, sizeof(a));
}

bool port_is_free(int port)
{
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    bool is_free;

    if (fd < 0)
        return false;
    /* What is left of connections that are over does not count. */
    share(fd);
    is_free = takes_port(fd, port) && !listen(fd, 1);
    close(fd);
    return is_free;
}

/* It may be shared from when it is held, not before: of two launchers that try
   it at once one gets it. */
static bool hold(int port)
{
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

    if (fd < 0)
        return false;
    if (!takes_port(fd, port)) {
        close(fd);
        return false;
    }
    share(fd);
    return true;
}

static int highest(void)
{
    FILE *f = fopen("/proc/sys/net/ipv4/ip_local_port_range", "re");
    int lo = 32768;

    if (f && fscanf(f, "%d", &lo) != 1)
        lo = 32768;
    if (f)
        fclose(f);
    return lo > LOWEST + TRIES ? lo : 32768;
}

static bool is_taken(int port, const int *taken, int n)
{
    for (int i = 0; i < n; i++)
        if (taken[i] == port)
            return true;
    return false;
}

int port_find(const int *taken, int n)
{
    unsigned span = (unsigned)(highest() - LOWEST), at;

    for (int i = 0; i < TRIES; i++) {
        int port;

        if (getrandom(&at, sizeof(at), 0) != sizeof(at))
            at = (unsigned)getpid() + (unsigned)i;
        port = LOWEST + (int)(at % span);
        if (!is_taken(port, taken, n) && hold(port))
            return port;
    }
    return 0;
}
