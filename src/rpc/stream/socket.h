/* socket.h - TCP and UNIX sockets as streams, and the net made of them.
 *
 * TCP: TCP_NODELAY, 1 MB send and receive buffers and congestion control reno
 * where the system allows them (measured best on loopback), TCP_USER_TIMEOUT
 * and keep-alive. A listener never shares its port: a port that is taken is an
 * error that says so.
 *
 * A process that listens on TCP also listens on an abstract UNIX socket named
 * by its port and job; a peer that dials an address of its own machine tries
 * that first (setting `local_transport`: auto, force, off). The peer's user is
 * checked (SO_PEERCRED): another user's connection is closed.
 *
 * listen, unlisten and dial may be called from any thread, cancel in the dial's
 * loop. listen and unlisten wait for the first of the loops: do not hold what
 * it may wait for. A listener is to end, and a dial to be over or cancelled,
 * before its loops are freed.
 */
#ifndef FL_RPC_STREAM_SOCKET_H
#define FL_RPC_STREAM_SOCKET_H

#include "rpc/stream/stream.h"

typedef enum fl_local_use {
    FL_LOCAL_AUTO,
    FL_LOCAL_FORCE,
    FL_LOCAL_OFF
} fl_local_use;

typedef struct fl_tls fl_tls; /* tls.h */

typedef struct fl_socket_options {
    fl_local_use local;
    fl_tls
        *tls; /* borrowed; not NULL: every TCP stream is TLS, no local path */
    uint64_t job; /* part of the name of the local socket */
} fl_socket_options;

/* To force the local path and to have TLS exclude each other. */
FL_MUST_CHECK
fl_status fl_net_sockets(fl_net **out, const fl_socket_options *o);
/* Listeners must have ended. Waits for names that are still being looked up,
   as long as the system's resolver does. NULL is fine. */
void fl_net_free_sockets(fl_net *n);

/* A stream of a connected, non-blocking socket, which it owns. Any thread; it
   belongs to the loop from the first call of `want` on. */
fl_stream *fl_stream_of_fd(fl_loop *l, int fd, const char *peer, bool is_local);

#endif
