/* address.c - addresses as text, and what they stand for. */
#include "rpc/stream/address.h"

#include <arpa/inet.h>
#include <ifaddrs.h>
#include <inttypes.h>
#include <netdb.h>
#include <netinet/in.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <sys/un.h>

#define UNIX_PREFIX "unix:"
#define PORT_MAX 65535
#define PATH_ROOM sizeof(((struct sockaddr_un *)0)->sun_path)

/* --- texts ---------------------------------------------------------------- */

static fl_status refuse(const char *text, const char *why)
{
    FL_FAIL(FL_ERR_INVAL,
            "address '%s' %s; write HOST:PORT, [V6]:PORT or unix:PATH", text,
            why);
}

static fl_status parse_path(fl_address *out, const char *text)
{
    const char *path = text + strlen(UNIX_PREFIX);
    size_t len = strlen(path);

    if (!len)
        return refuse(text, "has no path");
    if (len >= PATH_ROOM)
        return refuse(text, "has a path longer than a UNIX socket's may be");
    out->is_unix = true;
    memcpy(out->host, path, len + 1);
    return FL_OK;
}

static fl_status parse_port(fl_address *out, const char *text, const char *port)
{
    size_t len = strspn(port, "0123456789");
    uint32_t x = 0;

    if (!len || len > 5 || port[len])
        return refuse(text, "has no port from 0 to 65535 at its end");
    for (size_t i = 0; i < len; i++)
        x = x * 10 + (uint32_t)(port[i] - '0');
    if (x > PORT_MAX)
        return refuse(text, "has no port from 0 to 65535 at its end");
    out->port = (uint16_t)x;
    return FL_OK;
}

/* A V6 address may name its interface behind a '%'. */
static bool is_v6(const char *host)
{
    char plain[INET6_ADDRSTRLEN];
    struct in6_addr sink;
    size_t len = strcspn(host, "%");

    if (len >= sizeof(plain))
        return false;
    memcpy(plain, host, len);
    plain[len] = '\0';
    return inet_pton(AF_INET6, plain, &sink) == 1;
}

static bool is_host(const char *host)
{
    return host[0] && !host[strspn(host, "abcdefghijklmnopqrstuvwxyz"
                                         "ABCDEFGHIJKLMNOPQRSTUVWXYZ"
                                         "0123456789.-_")];
}

static fl_status parse_bracket(fl_address *out, const char *text)
{
    const char *end = strchr(text, ']');
    size_t len;

    if (!end || end[1] != ':')
        return refuse(text, "has no ']:' behind its '['");
    len = (size_t)(end - text) - 1;
    memcpy(out->host, text + 1, len);
    out->host[len] = '\0';
    if (!is_v6(out->host))
        return refuse(text, "has no V6 address in its brackets");
    return parse_port(out, text, end + 2);
}

fl_status fl_address_parse(fl_address *out, const char *text)
{
    fl_address a = { 0 };
    const char *colon = strrchr(text, ':');
    size_t len;

    if (strlen(text) >= FL_ADDRESS_MAX)
        return refuse(text, "is longer than 127 bytes");
    if (strncmp(text, UNIX_PREFIX, strlen(UNIX_PREFIX)) == 0) {
        FL_TRY(parse_path(&a, text));
    } else if (text[0] == '[') {
        FL_TRY(parse_bracket(&a, text));
    } else {
        if (!colon)
            return refuse(text, "has no port");
        len = (size_t)(colon - text);
        memcpy(a.host, text, len);
        if (strchr(a.host, ':'))
            return refuse(text, "has several colons without brackets");
        if (!is_host(a.host))
            return refuse(text, "has no host, or a character no host has");
        FL_TRY(parse_port(&a, text, colon + 1));
    }
    *out = a;
    return FL_OK;
}

fl_status fl_address_check(const char *text)
{
    fl_address a;

    return fl_address_parse(&a, text);
}

static void text_of(char out[FL_ADDRESS_MAX], const char *host, uint16_t port)
{
    bool has_colon = strchr(host, ':') != NULL;

    snprintf(out, FL_ADDRESS_MAX, "%s%.119s%s:%u", has_colon ? "[" : "", host,
             has_colon ? "]" : "", port);
}

void fl_address_text(const fl_address *a, char out[FL_ADDRESS_MAX])
{
    if (a->is_unix)
        snprintf(out, FL_ADDRESS_MAX, UNIX_PREFIX "%.122s", a->host);
    else
        text_of(out, a->host, a->port);
}

/* --- looking up ----------------------------------------------------------- */

static fl_status explain(const fl_address *a, int err)
{
    FL_FAIL(FL_ERR_NOTFOUND,
            "host %s cannot be looked up: %s; check its spelling and this "
            "machine's name service",
            a->host, gai_strerror(err));
}

fl_status fl_address_look_up(const fl_address *a, fl_lookup how,
                             fl_place out[FL_PLACES_MAX], size_t *n)
{
    struct addrinfo hints = { .ai_socktype = SOCK_STREAM }, *list = NULL;
    char port[8];
    size_t count = 0;
    int err;

    hints.ai_flags = AI_NUMERICSERV;
    if (how == FL_LOOKUP_NUMBERS)
        hints.ai_flags |= AI_NUMERICHOST;
    snprintf(port, sizeof(port), "%" PRIu16, a->port);
    err = getaddrinfo(a->host, port, &hints, &list);
    if (err)
        return explain(a, err);
    for (struct addrinfo *i = list; i && count < FL_PLACES_MAX;
         i = i->ai_next) {
        if (i->ai_addrlen > sizeof(out[0].sa))
            continue;
        memcpy(&out[count].sa, i->ai_addr, i->ai_addrlen);
        out[count++].len = i->ai_addrlen;
    }
    freeaddrinfo(list);
    if (!count)
        return explain(a, EAI_NONAME);
    *n = count;
    return FL_OK;
}

/* --- places --------------------------------------------------------------- */

static bool is_same_host(const struct sockaddr *a, const struct sockaddr *b)
{
    if (a->sa_family != b->sa_family)
        return false;
    if (a->sa_family == AF_INET)
        return ((const struct sockaddr_in *)a)->sin_addr.s_addr ==
               ((const struct sockaddr_in *)b)->sin_addr.s_addr;
    if (a->sa_family == AF_INET6)
        return memcmp(&((const struct sockaddr_in6 *)a)->sin6_addr,
                      &((const struct sockaddr_in6 *)b)->sin6_addr,
                      sizeof(struct in6_addr)) == 0;
    return false;
}

/* All of 127.0.0.0/8 leads here, but one address of it is an interface's. */
static bool is_loopback(const struct sockaddr *sa)
{
    if (sa->sa_family == AF_INET) {
        const struct sockaddr_in *in = (const struct sockaddr_in *)sa;

        return ntohl(in->sin_addr.s_addr) >> 24 == 127;
    }
    return sa->sa_family == AF_INET6 &&
           IN6_IS_ADDR_LOOPBACK(&((const struct sockaddr_in6 *)sa)->sin6_addr);
}

bool fl_address_is_loopback(const fl_address *a)
{
    fl_place places[FL_PLACES_MAX];
    size_t n;

    if (a->is_unix)
        return true;
    if (fl_address_look_up(a, FL_LOOKUP_NAMES, places, &n))
        return false;
    for (size_t i = 0; i < n; i++)
        if (!is_loopback((const struct sockaddr *)&places[i].sa))
            return false;
    return true;
}

bool fl_place_is_here(const fl_place *p)
{
    const struct sockaddr *sa = (const struct sockaddr *)&p->sa;
    struct ifaddrs *list = NULL;
    bool is_here = false;

    if (is_loopback(sa))
        return true;
    if (getifaddrs(&list) != 0)
        return false;
    for (struct ifaddrs *i = list; i && !is_here; i = i->ifa_next)
        is_here = i->ifa_addr && is_same_host(i->ifa_addr, sa);
    freeifaddrs(list);
    return is_here;
}

uint16_t fl_place_port(const fl_place *p)
{
    if (p->sa.ss_family == AF_INET6)
        return ntohs(((const struct sockaddr_in6 *)&p->sa)->sin6_port);
    return ntohs(((const struct sockaddr_in *)&p->sa)->sin_port);
}

void fl_place_text(const fl_place *p, char out[FL_ADDRESS_MAX])
{
    char host[FL_ADDRESS_MAX];

    if (getnameinfo((const struct sockaddr *)&p->sa, p->len, host, sizeof(host),
                    NULL, 0, NI_NUMERICHOST) != 0)
        snprintf(host, sizeof(host), "unknown");
    text_of(out, host, fl_place_port(p));
}

/* Bytes into a UNIX address, from `at` on. */
static fl_place unix_place(const char *text, size_t at, size_t n)
{
    struct sockaddr_un un = { .sun_family = AF_UNIX };
    fl_place p = { 0 };

    FL_ASSERT(at + n <= sizeof(un.sun_path));
    memcpy(un.sun_path + at, text, n);
    memcpy(&p.sa, &un, sizeof(un));
    p.len = (socklen_t)(offsetof(struct sockaddr_un, sun_path) + at + n);
    return p;
}

fl_place fl_place_of_path(const char *path)
{
    return unix_place(path, 0, strlen(path) + 1);
}

fl_place fl_place_of_name(const char *name)
{
    return unix_place(name, 1, strlen(name));
}
