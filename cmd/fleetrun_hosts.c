/* fleetrun_hosts.c - lists of hosts, and which of them is this one. */
#include "fleetrun.h"

#include <errno.h>
#include <netdb.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

/* More would be a mistake in a list. */
#define HOSTS_MAX 100000

/* --- "host:port,host" ----------------------------------------------------- */

static int read_port(const char *what, const char *text, int *port)
{
    char *end;
    long n;

    errno = 0;
    n = strtol(text, &end, 10);
    if (errno || *end || end == text || n < 1 || n > 65535)
        return run_misused("%s: '%s' is no port; give 1 to 65535", what, text);
    *port = (int)n;
    return RUN_OK;
}

static int read_place(const char *what, char *word, place *out)
{
    char *bracket = strrchr(word, ']');
    char *colon = strrchr(bracket ? bracket : word, ':');

    *out = (place){ .host = word };
    if (!bracket && colon && strchr(word, ':') != colon)
        return run_misused("%s: put the address %s into brackets, as in "
                           "[::1]:6170",
                           what, word);
    if (colon == word || !*word)
        return run_misused("%s: a host is missing; give host:port,host:port",
                           what);
    if (!colon)
        return RUN_OK;
    *colon = '\0';
    return read_port(what, colon + 1, &out->port);
}

static int count_words(const char *list)
{
    int n = 1;

    for (; *list; list++)
        n += *list == ',';
    return n;
}

int places_read(room *r, const char *what, const char *list, place **out,
                int *n)
{
    char *at = room_text(r, "%s", list);

    *n = count_words(list);
    *out = room_take(r, (size_t)*n * sizeof(**out));
    for (int i = 0; i < *n; i++) {
        char *word = strsep(&at, ",");
        int code = read_place(what, word, &(*out)[i]);

        if (code)
            return code;
    }
    return RUN_OK;
}

/* --- this machine --------------------------------------------------------- */

/* Only an address of this machine can be bound. */
static bool can_bind(const struct addrinfo *a)
{
    int fd = socket(a->ai_family, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    bool can = fd >= 0 && !bind(fd, a->ai_addr, a->ai_addrlen);

    if (fd >= 0)
        close(fd);
    return can;
}

bool host_is_here(const char *host)
{
    struct addrinfo hints = { .ai_socktype = SOCK_DGRAM }, *all = NULL;
    size_t len = strlen(host);
    bool is_here = false;
    char name[256];

    if (*host == '[' && len > 2)
        (void)snprintf(name, sizeof(name), "%.*s", (int)len - 2, host + 1);
    else
        (void)snprintf(name, sizeof(name), "%s", host);
    if (getaddrinfo(name, NULL, &hints, &all))
        return false;
    for (const struct addrinfo *a = all; a && !is_here; a = a->ai_next)
        is_here = can_bind(a);
    freeaddrinfo(all);
    return is_here;
}

/* --- "node[01-03,7],login" ------------------------------------------------ */

typedef struct names {
    room *room;
    char **all;
    int n, cap;
    bool is_bad;
} names;

static void add_name(names *l, char *name)
{
    if (l->n == l->cap) {
        int cap = l->cap ? 2 * l->cap : 64;
        char **more = room_take(l->room, (size_t)cap * sizeof(*more));

        if (l->n)
            memcpy(more, l->all, (size_t)l->n * sizeof(*more));
        l->all = more;
        l->cap = cap;
    }
    l->all[l->n++] = name;
    l->is_bad = l->is_bad || l->n > HOSTS_MAX;
}

static void expand(names *l, const char *before, const char *word);

/* "01-03" or "7", with what stands in front and behind. */
static void expand_range(names *l, const char *before, const char *range,
                         const char *behind)
{
    int width = (int)strcspn(range, "-");
    char *end;
    long lo = strtol(range, &end, 10), hi = lo;

    if (end == range)
        l->is_bad = true;
    else if (*end == '-')
        hi = strtol(end + 1, &end, 10);
    l->is_bad = l->is_bad || *end || lo < 0 || hi < lo || hi - lo > HOSTS_MAX;
    for (long i = lo; i <= hi && !l->is_bad; i++)
        expand(l, room_text(l->room, "%s%0*ld", before, width, i), behind);
}

/* One word without commas outside of brackets. */
static void expand(names *l, const char *before, const char *word)
{
    size_t plain = strcspn(word, "[");
    const char *close = strchr(word, ']');
    char *ranges, *range;

    if (!word[plain]) {
        add_name(l, room_text(l->room, "%s%s", before, word));
        return;
    }
    if (!close) {
        l->is_bad = true;
        return;
    }
    before = room_text(l->room, "%s%.*s", before, (int)plain, word);
    ranges = room_text(l->room, "%.*s", (int)(close - word - (long)plain - 1),
                       word + plain + 1);
    while (!l->is_bad && (range = strsep(&ranges, ",")))
        expand_range(l, before, range, close + 1);
}

/* The length up to a comma that is in no brackets. */
static size_t word_len(const char *at)
{
    size_t n = 0;
    int depth = 0;

    for (; at[n] && (depth || at[n] != ','); n++)
        depth += at[n] == '[' ? 1 : at[n] == ']' ? -1 : 0;
    return n;
}

char **hosts_expand(room *r, const char *list, int *n)
{
    names l = { .room = r };

    while (*list && !l.is_bad) {
        size_t len = word_len(list);

        expand(&l, "", room_text(r, "%.*s", (int)len, list));
        list += len + (list[len] == ',');
    }
    *n = l.n;
    return l.is_bad || !l.n ? NULL : l.all;
}
