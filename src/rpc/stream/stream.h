/* stream.h - bytes both ways, whatever carries them.
 *
 * A stream never blocks. Its owner asks for the events it wants and is told
 * when they are there (level-triggered). Kinds: TCP and UNIX sockets
 * (socket.h), TLS over a socket (tls.h), a simulated network (sim.h).
 */
#ifndef FL_RPC_STREAM_STREAM_H
#define FL_RPC_STREAM_STREAM_H

#include <stddef.h>
#include <sys/uio.h>

#include "rpc/loop/loop.h"

#define FL_ADDRESS_MAX 128

typedef struct fl_stream fl_stream;

/* Results of reading and writing below 0. */
enum fl_stream_result {
    FL_STREAM_AGAIN = -1, /* nothing now: wait for the event */
    FL_STREAM_GONE = -2   /* closed or broken: fl_last_error says how */
};

typedef struct fl_stream_ops {
    /* Bytes, 0 is never given for an end: that is FL_STREAM_GONE. */
    ptrdiff_t (*read)(fl_stream *s, void *to, size_t n);
    ptrdiff_t (*write)(fl_stream *s, const struct iovec *v, int n);
    void (*want)(fl_stream *s, unsigned events); /* fl_io */
    void (*close)(fl_stream *s);                 /* frees it */
    /* A descriptor beside a byte (UNIX sockets); NULL for the others. It goes
       with the first byte of the next write and is duplicated until then; one
       waits at a time. */
    fl_status (*send_fd)(fl_stream *s, int fd);
    /* The last one that came, now the caller's; FL_ERR_NOTFOUND without one. */
    fl_status (*take_fd)(fl_stream *s, int *fd);
} fl_stream_ops;

struct fl_stream {
    const fl_stream_ops *ops;
    fl_loop *loop;
    fl_io_fn ready; /* set by the owner */
    void *arg;
    char peer[FL_ADDRESS_MAX]; /* "10.0.0.3:6174", "unix:/path", for messages */
    bool is_local;             /* same machine, same user: an arena will do */
    bool is_secret;            /* TLS */
};

/* --- addresses ----------------------------------------------------------- */

/* Checks "HOST:PORT", "[V6]:PORT" or "unix:PATH". */
FL_MUST_CHECK
fl_status fl_address_check(const char *text);

/* --- a way to reach others ----------------------------------------------- */

/* How a process listens and connects: by sockets or in a simulation. */
typedef struct fl_net fl_net;
typedef void (*fl_accept_fn)(void *arg, fl_stream *s);
typedef fl_loop *(*fl_home_fn)(void *arg);
/* s NULL: it failed, and the last error says why: FL_ERR_CLOSED when nobody
   listens there. */
typedef void (*fl_dial_fn)(void *arg, fl_stream *s);
typedef struct fl_listener fl_listener;

/* Borrowed for the call. */
typedef struct fl_listen_args {
    const char *address;
    fl_loop *loop;   /* that accepts */
    fl_home_fn home; /* says whose the next stream is; NULL: that loop's */
    fl_accept_fn fn;
    void *arg; /* of both */
} fl_listen_args;

typedef struct fl_dial_args {
    fl_loop *loop;
    const char *address;
    uint64_t timeout_ms;
    fl_dial_fn fn;
    void *arg;
} fl_dial_args;

typedef struct fl_net_ops {
    /* Both functions are called in the loop that accepts. *address is what peers
       dial (a port of 0 was replaced). */
    fl_status (*listen)(fl_net *n, const fl_listen_args *a, fl_listener **out,
                        char address_out[FL_ADDRESS_MAX]);
    void (*unlisten)(fl_listener *l);
    /* Calls fn exactly once, in the loop, unless the dial is cancelled. */
    fl_status (*dial)(fl_net *n, const fl_dial_args *a, void **handle);
    void (*cancel)(void *handle);
} fl_net_ops;

struct fl_net {
    const fl_net_ops *ops;
};

#endif
