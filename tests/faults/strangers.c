/* strangers.c - those who know nothing of a job and talk to its ports, or sit
 * on them. */
#include "strangers.h"

#include <errno.h>
#include <poll.h>
#include <string.h>

#include "procs.h"
#include "../ports.h"

#define CLOSE_MS 20000
#define IDLE 500
#define NOISE_BYTES ((size_t)8 << 20)
#define HEAD_BYTES 64 /* docs/formats/wire.md */

/* --- sitting on a port ---------------------------------------------------- */

static void be_silent(int fd)
{
    (void)fd;
    for (;;)
        pause();
}

static void be_a_web_server(int fd)
{
    static const char answer[] =
        "HTTP/1.1 400 Bad Request\r\nContent-Type: text/html\r\n"
        "Connection: close\r\nContent-Length: 0\r\n\r\n";
    char request[4096];

    for (;;) {
        int conn = accept(fd, NULL, NULL);

        if (conn < 0)
            continue;
        if (read(conn, request, sizeof(request)) > 0)
            (void)!write(conn, answer, sizeof(answer) - 1);
        close(conn);
    }
}

pid_t stranger_start(const char *kind, int port)
{
    bool is_http = !strcmp(kind, "http");
    int fd;
    pid_t pid;

    if (!is_http && strcmp(kind, "silent"))
        return 0;
    fd = port_listen((unsigned)port);
    if (fd < 0)
        give_up("a stranger cannot listen");
    pid = start_child(is_http ? be_a_web_server : be_silent, fd);
    close(fd);
    return pid;
}

/* --- talking to a port ---------------------------------------------------- */

static int dial(int port)
{
    struct sockaddr_in at = port_place((unsigned)port);
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

    if (fd < 0)
        give_up("socket");
    if (connect(fd, (struct sockaddr *)&at, sizeof(at))) {
        close(fd);
        return -1;
    }
    return fd;
}

static void put(uint8_t *at, uint64_t x, int bytes)
{
    for (int i = 0; i < bytes; i++)
        at[i] = (uint8_t)(x >> 8 * i);
}

/* The head of a HELLO that announces that many bytes. */
static void write_head(uint8_t *out, uint64_t length)
{
    memset(out, 0, HEAD_BYTES);
    memcpy(out, "FLT1", 4);
    put(out + 4, 1, 2);
    put(out + 8, length, 8);
}

static size_t make_http(uint8_t *out)
{
    static const char text[] = "GET /index.html HTTP/1.1\r\nHost: localhost\r\n"
                               "User-Agent: curl/8.5.0\r\nAccept: */*\r\n\r\n";

    memcpy(out, text, sizeof(text) - 1);
    return sizeof(text) - 1;
}

static size_t make_noise(uint8_t *out)
{
    uint64_t x = 88172645463325252u;

    for (size_t i = 0; i < NOISE_BYTES; i++) {
        x ^= x << 13;
        x ^= x >> 7;
        x ^= x << 17;
        out[i] = (uint8_t)x;
    }
    return NOISE_BYTES;
}

static size_t make_huge(uint8_t *out)
{
    write_head(out, UINT64_C(10) << 30);
    return HEAD_BYTES;
}

/* Of another version only the number is read. */
static size_t make_version(uint8_t *out)
{
    write_head(out, 4);
    put(out + HEAD_BYTES, 99, 4);
    return HEAD_BYTES + 4;
}

static const struct {
    const char *name;
    size_t (*make)(uint8_t *out);
} kinds[] = {
    { "http", make_http },
    { "noise", make_noise },
    { "huge", make_huge },
    { "version", make_version },
};

/* The server may close before all was said. */
static void send_all(int fd, const uint8_t *bytes, size_t n)
{
    while (n) {
        ssize_t sent = send(fd, bytes, n, MSG_NOSIGNAL);

        if (sent <= 0)
            return;
        bytes += sent;
        n -= (size_t)sent;
    }
}

/* Reads until the other end closes; false when it does not, or does not say
   what it should before. */
static bool hear(int fd, const char *answer, const char **why)
{
    uint64_t end = now_ms() + CLOSE_MS;
    char got[4096];
    size_t n = 0;

    for (;;) {
        struct pollfd p = { .fd = fd, .events = POLLIN };
        uint64_t now = now_ms();
        ssize_t more;

        if (now >= end || poll(&p, 1, (int)(end - now)) <= 0) {
            *why = "the connection was not closed";
            return false;
        }
        more = read(fd, got + n, sizeof(got) - n);
        if (more <= 0)
            break;
        n += (size_t)more;
        if (*answer && memmem(got, n, answer, strlen(answer)))
            return true;
    }
    *why = "the connection was closed without the answer";
    return !*answer;
}

static bool be_idle(int port, const char **why)
{
    for (int i = 0; i < IDLE; i++)
        if (dial(port) < 0) {
            *why = "an idle connection was refused";
            return false;
        }
    return true;
}

bool attack(const char *kind, int port, const char *answer, const char **why)
{
    uint8_t *bytes;
    size_t n = 0;
    bool ok;
    int fd;

    if (!strcmp(kind, "idle"))
        return be_idle(port, why);
    fd = dial(port);
    bytes = malloc(NOISE_BYTES);
    if (fd < 0 || !bytes) {
        free(bytes);
        *why = strerror(errno);
        return false;
    }
    for (size_t i = 0; i < sizeof(kinds) / sizeof(kinds[0]); i++)
        if (!strcmp(kinds[i].name, kind))
            n = kinds[i].make(bytes);
    *why = "there is no such kind";
    send_all(fd, bytes, n);
    ok = n && hear(fd, answer, why);
    free(bytes);
    close(fd);
    return ok;
}
