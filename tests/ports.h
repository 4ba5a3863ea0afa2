/* ports.h - ports for the members of a test's job.
 *
 * A port is held, by a socket that is bound and does not listen, so that no other
 * test that runs at the same time gets it; whoever listens there asks for
 * SO_REUSEADDR, as the library does. It is below those that the system gives to
 * sockets that connect. Each process holds the last PORTS_HELD: older ones were
 * those of jobs that are over.
 */
#ifndef FL_TESTS_PORTS_H
#define FL_TESTS_PORTS_H

#include <arpa/inet.h>
#include <netinet/in.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

#define PORTS_LO 10240u /* below, tests have fixed ones */
#define PORTS_HI 32768u
#define PORTS_HELD 64

static inline struct sockaddr_in port_place(unsigned port)
{
    return (struct sockaddr_in){ .sin_family = AF_INET,
                                 .sin_port = htons((uint16_t)port),
                                 .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
}

static inline void port_share(int fd)
{
    int one = 1;

    (void)setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof(one));
}

/* The socket that holds a port; -1: somebody else has it. It is bound before it
   may be shared: of two who want it one gets it. */
static inline int port_hold(unsigned port)
{
    struct sockaddr_in at = port_place(port);
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

    if (fd >= 0 && bind(fd, (struct sockaddr *)&at, sizeof(at))) {
        close(fd);
        return -1;
    }
    port_share(fd);
    return fd;
}

/* Listens at a port that is held; -1 when somebody listens there. */
static inline int port_listen(unsigned port)
{
    struct sockaddr_in at = port_place(port);
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

    port_share(fd);
    if (fd >= 0 && !bind(fd, (struct sockaddr *)&at, sizeof(at)) &&
        !listen(fd, SOMAXCONN))
        return fd;
    close(fd);
    return -1;
}

/* A port that nobody has. */
static inline uint16_t free_port(void)
{
    static int held[PORTS_HELD];
    static uint32_t n_drawn, n_held;
    uint32_t first = (uint32_t)getpid() * UINT32_C(2654435761) >> 8;

    for (uint32_t i = 0; i < PORTS_HI - PORTS_LO; i++) {
        unsigned port = PORTS_LO + (first + n_drawn++) % (PORTS_HI - PORTS_LO);
        int fd = port_hold(port);

        if (fd < 0)
            continue;
        if (n_held >= PORTS_HELD)
            close(held[n_held % PORTS_HELD]);
        held[n_held++ % PORTS_HELD] = fd;
        return (uint16_t)port;
    }
    fprintf(stderr, "there is no free port\n");
    abort();
}

#endif
