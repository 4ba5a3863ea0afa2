/* listen.c - accepting by sockets.
 *
 * A listener has one or two doors: a TCP socket and the local socket beside
 * it, or a UNIX socket at a path. Its doors are watched by its loop, and
 * everything here runs there; a call from elsewhere is carried there and waited
 * for.
 *
 * With TLS an accepted stream first shakes hands in its own loop, as a guest,
 * and then comes back to the listener's. A guest cannot be called off. When the
 * listener ends, guests are left to themselves and close their streams where
 * they are: `host` is what both loops look at, under the guest's mu.
 */
#include "rpc/stream/socket_inside.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/log.h"
#include "rpc/stream/tls.h"

#define DOORS_MAX 2

/* Connections that are taken in one go, before others have their turn. */
#define ACCEPT_MAX 64

/* Pause when there are no descriptors left. */
#define SHORT_PAUSE_MS 100

#define TLS_TIMEOUT_MS 10000

/* Failed handshakes that are told of; a scanner of ports makes many. */
#define REFUSED_MAX 16

typedef struct door {
    fl_listener *host;
    int fd;
    bool is_unix;
    fl_watch *watch;
    uint64_t timer; /* pauses */
} door;

typedef struct guest guest;

struct fl_listener {
    fl_socket_plan plan;
    fl_loop *loop; /* that accepts */
    fl_home_fn home;
    fl_accept_fn fn;
    void *arg;
    char text[FL_ADDRESS_MAX]; /* what peers dial */
    char path[FL_ADDRESS_MAX]; /* of the socket's file; "" without one */
    struct stat file;          /* to remove no other's */
    door doors[DOORS_MAX];
    int n_doors;
    guest *guests;
    bool is_accepting, is_over;          /* freed after the callback */
    bool said_shortage, said_other_user; /* once each */
    int n_refused;
};

struct guest {
    guest *next, **link; /* the host's list */
    fl_loop *home;       /* the host's loop */
    fl_tls *tls;
    fl_stream *s;
    char *refused; /* why the handshake failed; NULL: it did not */
    fl_mutex mu;
    fl_listener *host; /* NULL: it has ended; guarded by mu */
    bool is_back;      /* on its way to `home`; guarded by mu */
};

static void door_ready(void *arg, unsigned events);

/* --- carrying a call into a loop ------------------------------------------ */

typedef struct errand {
    fl_status (*fn)(fl_listener *l);
    fl_listener *l;
    fl_err err;
} errand;

static void do_errand(void *arg)
{
    errand *e = arg;

    fl_err_save(&e->err, e->fn(e->l));
}

static fl_status run_in_loop(fl_listener *l, fl_status (*fn)(fl_listener *l))
{
    errand e = { .fn = fn, .l = l };

    fl_loop_call(l->loop, do_errand, &e);
    return fl_err_restore(&e.err);
}

/* --- guests --------------------------------------------------------------- */

static void guest_free(guest *g)
{
    fl_mutex_release(&g->mu);
    fl_free(g->refused);
    fl_free(g);
}

static void close_stream(void *arg)
{
    fl_stream *s = arg;

    s->ops->close(s);
}

static void guest_unlink(guest *g)
{
    *g->link = g->next;
    if (g->next)
        g->next->link = g->link;
}

static void log_refused(fl_listener *l, const char *why)
{
    if (l->n_refused >= REFUSED_MAX)
        return;
    l->n_refused++;
    FL_WARN("rpc", "refused at %s: %s%s", l->text, why,
            l->n_refused == REFUSED_MAX ? " (later ones are not told of)" : "");
}

/* In the host's loop: hands it out, unless the listener has ended. */
static void guest_back(void *arg)
{
    guest *g = arg;
    fl_listener *l;

    /* The other loop may still be about to give the lock up. */
    fl_lock(&g->mu);
    l = g->host;
    fl_unlock(&g->mu);
    if (l) {
        guest_unlink(g);
        if (g->s)
            l->fn(l->arg, g->s);
        else
            log_refused(l, g->refused);
    }
    guest_free(g);
}

static void guest_shaken(void *arg, fl_stream *s)
{
    guest *g = arg;
    bool has_host;

    g->s = s;
    if (!s)
        g->refused = fl_strdup(fl_last_error());
    fl_lock(&g->mu);
    has_host = g->host != NULL;
    if (has_host) {
        g->is_back = true;
        fl_loop_post(g->home, guest_back, g);
    }
    fl_unlock(&g->mu);
    if (has_host)
        return;
    if (s)
        s->ops->close(s);
    guest_free(g);
}

static void guest_shake(void *arg)
{
    guest *g = arg;

    fl_tls_start(g->tls, g->s, FL_TLS_SERVER, TLS_TIMEOUT_MS, guest_shaken, g);
}

static void guest_new(fl_listener *l, fl_stream *s)
{
    guest *g = fl_alloc(sizeof(*g));

    g->home = l->loop;
    g->tls = l->plan.o.tls;
    g->s = s;
    g->host = l;
    fl_mutex_init(&g->mu);
    g->next = l->guests;
    g->link = &l->guests;
    if (g->next)
        g->next->link = &g->next;
    l->guests = g;
    fl_loop_post(s->loop, guest_shake, g);
}

/* One that is back already closes its stream in that one's loop, as it is
   nobody's here. */
static void leave_guests(fl_listener *l)
{
    guest *next;

    for (guest *g = l->guests; g; g = next) {
        next = g->next;
        fl_lock(&g->mu);
        g->host = NULL;
        if (g->is_back && g->s)
            fl_loop_post(g->s->loop, close_stream, g->s);
        fl_unlock(&g->mu);
    }
    l->guests = NULL;
}

/* --- accepting ------------------------------------------------------------ */

/* Whether the user may come in; text for messages. */
static bool check_user(fl_listener *l, int fd, char text[FL_ADDRESS_MAX])
{
    fl_socket_peer peer;

    if (fl_socket_peer_get(fd, &peer))
        return false;
    snprintf(text, FL_ADDRESS_MAX, "local process %ld", (long)peer.process);
    if (peer.user == geteuid() || peer.user == 0)
        return true;
    if (!l->said_other_user)
        FL_WARN("rpc",
                "refused %s at %s: it is of user %lu, this process of user "
                "%lu; later ones are refused without a word",
                text, l->text, (unsigned long)peer.user,
                (unsigned long)geteuid());
    l->said_other_user = true;
    return false;
}

static void welcome(door *d, int fd, const fl_place *from)
{
    fl_listener *l = d->host;
    char text[FL_ADDRESS_MAX];
    fl_stream *s;

    if (d->is_unix && !check_user(l, fd, text)) {
        close(fd);
        return;
    }
    if (!d->is_unix)
        fl_place_text(from, text);
    s = fl_stream_of_fd(l->home ? l->home(l->arg) : l->loop, fd, text,
                        d->is_unix);
    if (l->plan.o.tls && !d->is_unix)
        guest_new(l, s);
    else
        l->fn(l->arg, s);
}

static void end_pause(void *arg)
{
    door *d = arg;

    d->timer = 0;
    fl_watch_set(d->watch, FL_IO_READ);
}

/* The connection stays in the queue, so the door would be ready for ever. */
static void pause_door(door *d, int err)
{
    fl_listener *l = d->host;

    if (!l->said_shortage)
        FL_WARN("rpc",
                "no connections are accepted at %s for now: %s; raise the "
                "limit on open files (ulimit -n)",
                l->text, strerror(err));
    l->said_shortage = true;
    fl_watch_set(d->watch, 0);
    d->timer = fl_loop_timer(l->loop, SHORT_PAUSE_MS, end_pause, d);
}

/* Takes one connection; false when there is none, or no room for it. */
static bool accept_one(door *d)
{
    fl_place from = { .len = sizeof(from.sa) };
    int fd = accept4(d->fd, (struct sockaddr *)&from.sa, &from.len,
                     SOCK_NONBLOCK | SOCK_CLOEXEC);

    if (fd >= 0) {
        welcome(d, fd, &from);
        return true;
    }
    switch (errno) {
    case EAGAIN:
        return false;
    case EMFILE:
    case ENFILE:
    case ENOBUFS:
    case ENOMEM:
        pause_door(d, errno);
        return false;
    default:
        return true; /* that connection is gone; the next one may be fine */
    }
}

static void door_ready(void *arg, unsigned events)
{
    door *d = arg;
    fl_listener *l = d->host;

    (void)events;
    l->is_accepting = true;
    for (int i = 0; i < ACCEPT_MAX && !l->is_over; i++)
        if (!accept_one(d))
            break;
    l->is_accepting = false;
    if (l->is_over)
        fl_free(l);
}

/* --- doors ---------------------------------------------------------------- */

static void add_door(fl_listener *l, int fd, bool is_unix)
{
    l->doors[l->n_doors++] = (door){ .host = l, .fd = fd, .is_unix = is_unix };
}

/* A listening socket at a place; -1 and errno. */
static int open_at(fl_listener *l, const fl_place *p)
{
    int fd = fl_socket_open(&l->plan, p->sa.ss_family), on = 1, err;

    if (fd < 0)
        return -1;
    if (p->sa.ss_family != AF_UNIX)
        (void)setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on));
    else
        (void)fchmod(fd, S_IRUSR | S_IWUSR);
    if (bind(fd, (const struct sockaddr *)&p->sa, p->len) == 0 &&
        listen(fd, SOMAXCONN) == 0)
        return fd;
    err = errno;
    close(fd);
    errno = err;
    return -1;
}

static fl_status refuse_place(const char *text, int err)
{
    if (err == EADDRINUSE)
        FL_FAIL(FL_ERR_BUSY,
                "cannot listen on %s: it is taken by another process; stop "
                "that one or choose another port (0: any)",
                text);
    FL_FAIL(FL_ERR_IO,
            "cannot listen on %s: %s; choose an address of this machine and a "
            "port that this user may have",
            text, strerror(err));
}

/* The local socket beside a TCP port. Without it the job still works, unless
   it is forced. */
static fl_status open_local(fl_listener *l, uint16_t port)
{
    char name[FL_LOCAL_NAME_MAX];
    fl_place p;
    int fd;

    if (l->plan.o.local == FL_LOCAL_OFF || l->plan.o.tls)
        return FL_OK;
    fl_socket_local_name(l->plan.o.job, port, name);
    p = fl_place_of_name(name);
    fd = open_at(l, &p);
    if (fd >= 0) {
        add_door(l, fd, true);
        return FL_OK;
    }
    if (l->plan.o.local == FL_LOCAL_FORCE)
        FL_FAIL(FL_ERR_IO,
                "local_transport=force, but the local socket @%s beside %s "
                "cannot be made: %s; choose another port or auto",
                name, l->text, strerror(errno));
    FL_WARN("rpc", "no local socket @%s beside %s: %s", name, l->text,
            strerror(errno));
    return FL_OK;
}

static fl_status open_tcp(fl_listener *l, fl_address *a)
{
    fl_place places[FL_PLACES_MAX], here = { .len = sizeof(here.sa) };
    size_t n = 0;
    int fd = -1, err = 0;

    FL_TRY(fl_address_look_up(a, FL_LOOKUP_NAMES, places, &n));
    for (size_t i = 0; i < n && fd < 0; i++) {
        fd = open_at(l, &places[i]);
        if (fd < 0 && !err)
            err = errno;
    }
    if (fd < 0)
        return refuse_place(l->text, err);
    add_door(l, fd, false);
    if (getsockname(fd, (struct sockaddr *)&here.sa, &here.len) != 0)
        return refuse_place(l->text, errno);
    a->port = fl_place_port(&here);
    fl_address_text(a, l->text);
    return open_local(l, a->port);
}

/* Whether somebody listens at a UNIX socket's place. */
static bool is_live(const fl_listener *l, const fl_place *p)
{
    int fd = fl_socket_open(&l->plan, AF_UNIX), err;

    if (fd < 0)
        return true;
    err = connect(fd, (const struct sockaddr *)&p->sa, p->len) ? errno : 0;
    close(fd);
    return err != ECONNREFUSED;
}

/* Removes the file of a socket that nobody listens on any more: its process
   was killed. */
static fl_status remove_stale(const fl_listener *l, const fl_place *p,
                              const char *path)
{
    struct stat st;

    if (lstat(path, &st) != 0)
        return FL_OK;
    if (!S_ISSOCK(st.st_mode))
        FL_FAIL(FL_ERR_IO,
                "cannot listen on %s: there is a file that is no socket; "
                "remove it or choose another path",
                l->text);
    if (is_live(l, p))
        FL_FAIL(FL_ERR_IO,
                "cannot listen on %s: another process listens there; stop it "
                "or choose another path",
                l->text);
    (void)unlink(path);
    return FL_OK;
}

static fl_status open_path(fl_listener *l, const fl_address *a)
{
    fl_place p = fl_place_of_path(a->host);
    int fd = open_at(l, &p);

    if (fd < 0 && errno == EADDRINUSE) {
        FL_TRY(remove_stale(l, &p, a->host));
        fd = open_at(l, &p);
    }
    if (fd < 0)
        FL_FAIL(FL_ERR_IO,
                "cannot listen on %s: %s; choose a path in a folder that this "
                "user may write to",
                l->text, strerror(errno));
    add_door(l, fd, true);
    if (lstat(a->host, &l->file) == 0)
        memcpy(l->path, a->host, sizeof(l->path));
    return FL_OK;
}

static void remove_file(const fl_listener *l)
{
    struct stat st;

    if (l->path[0] && lstat(l->path, &st) == 0 && st.st_dev == l->file.st_dev &&
        st.st_ino == l->file.st_ino)
        (void)unlink(l->path);
}

/* --- beginning and end ---------------------------------------------------- */

static fl_status watch_doors(fl_listener *l)
{
    for (int i = 0; i < l->n_doors; i++)
        FL_TRY(fl_loop_watch(l->loop, l->doors[i].fd, FL_IO_READ, door_ready,
                             &l->doors[i], &l->doors[i].watch));
    return FL_OK;
}

/* Frees the listener, or leaves that to the callback it is in. */
static fl_status end(fl_listener *l)
{
    remove_file(l);
    for (int i = 0; i < l->n_doors; i++) {
        door *d = &l->doors[i];

        fl_loop_cancel(l->loop, d->timer);
        if (d->watch)
            fl_watch_end(d->watch);
        close(d->fd);
    }
    leave_guests(l);
    l->is_over = true;
    if (!l->is_accepting)
        fl_free(l);
    return FL_OK;
}

static fl_status open_doors(fl_listener *l, fl_address *a)
{
    FL_TRY(a->is_unix ? open_path(l, a) : open_tcp(l, a));
    return run_in_loop(l, watch_doors);
}

fl_status fl_socket_listen(fl_net *base, const fl_listen_args *a,
                           fl_listener **out, char address_out[FL_ADDRESS_MAX])
{
    fl_socket_net *n = (fl_socket_net *)base;
    fl_address where;
    fl_listener *l;
    fl_status st;

    FL_TRY(fl_address_parse(&where, a->address));
    l = fl_alloc(sizeof(*l));
    l->plan = n->plan;
    l->loop = a->loop;
    l->home = a->home;
    l->fn = a->fn;
    l->arg = a->arg;
    fl_address_text(&where, l->text);
    st = open_doors(l, &where);
    if (st) {
        fl_err err;

        fl_err_save(&err, st);
        (void)run_in_loop(l, end);
        return fl_err_restore(&err);
    }
    memcpy(address_out, l->text, sizeof(l->text));
    *out = l;
    return FL_OK;
}

void fl_socket_unlisten(fl_listener *l)
{
    if (l)
        (void)run_in_loop(l, end);
}
