/* fleetrun_ports.c - ports that are free.
 *
 * A port is looked for below those that the system gives to outgoing
 * connections: there, somebody's connection could take it before the server
 * begins to listen, and a worker that tries to reach it could even meet
 * itself. */
#include "fleetrun.h"

#include <netinet/in.h>
#include <stdio.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <unistd.h>

#define LOWEST 10240
#define TRIES 2000

bool port_is_free(int port)
{
    struct sockaddr_in a = { .sin_family = AF_INET,
                             .sin_port = htons((uint16_t)port),
                             .sin_addr.s_addr = htonl(INADDR_ANY) };
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    int one = 1;
    bool is_free;

    if (fd < 0)
        return false;
    /* What is left of connections that are over does not count. */
    (void)setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof(one));
    is_free = !bind(fd, (struct sockaddr *)&a, sizeof(a)) && !listen(fd, 1);
    close(fd);
    return is_free;
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
        if (!is_taken(port, taken, n) && port_is_free(port))
            return port;
    }
    return 0;
}
