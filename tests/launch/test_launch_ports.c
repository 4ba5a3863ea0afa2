/* test_launch_ports.c - ports that the launcher finds. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <arpa/inet.h>
#include <cmocka.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "fleetrun.h"

/* Of two launchers that find so many, without looking at each other, some would
   be the same. */
#define N 400

static void find_all(int ports[N])
{
    for (int i = 0; i < N; i++) {
        ports[i] = port_find(ports, i);
        assert_true(ports[i] > 0);
    }
}

static int compare(const void *a, const void *b)
{
    return *(const int *)a - *(const int *)b;
}

static void two_launchers_at_once_find_different_ports(void **state)
{
    int pipes[2][2], ports[2 * N], status;
    pid_t child;

    (void)state;
    assert_int_equal(pipe(pipes[0]) + pipe(pipes[1]), 0);
    child = fork();
    assert_true(child >= 0);
    if (!child) {
        find_all(ports);
        if (write(pipes[0][1], ports, N * sizeof(int)) < 0 ||
            read(pipes[1][0], ports, 1) != 1)
            _exit(1);
        _exit(0);
    }
    find_all(ports);
    for (size_t got = 0; got < N * sizeof(int);) {
        ssize_t n =
            read(pipes[0][0], (char *)(ports + N) + got, N * sizeof(int) - got);

        assert_true(n > 0);
        got += (size_t)n;
    }
    assert_int_equal(write(pipes[1][1], "x", 1), 1);
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_int_equal(status, 0);
    qsort(ports, (size_t)2 * N, sizeof(*ports), compare);
    for (int i = 1; i < 2 * N; i++)
        assert_true(ports[i] > ports[i - 1]);
}

/* As a server of the library does. */
static void a_server_listens_where_the_launcher_holds_its_port(void **state)
{
    int port = port_find(NULL, 0), one = 1;
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    struct sockaddr_in at = { .sin_family = AF_INET,
                              .sin_port = htons((uint16_t)port),
                              .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };

    (void)state;
    assert_true(port_is_free(port));
    assert_int_equal(
        setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof(one)), 0);
    assert_int_equal(bind(fd, (struct sockaddr *)&at, sizeof(at)), 0);
    assert_int_equal(listen(fd, 1), 0);
    assert_false(port_is_free(port));
    close(fd);
    assert_true(port_is_free(port));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_server_listens_where_the_launcher_holds_its_port),
        cmocka_unit_test(two_launchers_at_once_find_different_ports),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
