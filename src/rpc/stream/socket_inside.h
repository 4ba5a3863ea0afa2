/* socket_inside.h - what socket.c, dial.c and listen.c share. */
#ifndef FL_RPC_STREAM_SOCKET_INSIDE_H
#define FL_RPC_STREAM_SOCKET_INSIDE_H

#include <sys/types.h>

#include "base/thread.h"
#include "rpc/stream/address.h"
#include "rpc/stream/socket.h"

/* Room for "flotilla-<16 digits>-<port>". */
#define FL_LOCAL_NAME_MAX 48

/* A name that is being looked up in a thread of its own; dial.c. */
typedef struct fl_resolving fl_resolving;

/* How sockets are made. */
typedef struct fl_socket_plan {
    fl_socket_options o;
    bool has_big_buffers;
} fl_socket_plan;

typedef struct fl_socket_net {
    fl_net base;
    fl_socket_plan plan;
    fl_mutex mu;
    fl_resolving *resolving; /* guarded by mu */
} fl_socket_net;

/* A new socket, non-blocking and closed by exec, with the options of TCP when
   it is one, which accepted sockets take over; -1 and errno. */
int fl_socket_open(const fl_socket_plan *plan, int family);

/* The name of the local socket beside a TCP port. */
void fl_socket_local_name(uint64_t job, uint16_t port,
                          char out[FL_LOCAL_NAME_MAX]);

/* User and process at the other end of a UNIX socket. */
typedef struct fl_socket_peer {
    uid_t user;
    pid_t process;
} fl_socket_peer;
FL_MUST_CHECK
fl_status fl_socket_peer_get(int fd, fl_socket_peer *out);

fl_status fl_socket_listen(fl_net *n, const fl_listen_args *a,
                           fl_listener **out, char address_out[FL_ADDRESS_MAX]);
void fl_socket_unlisten(fl_listener *l);
fl_status fl_socket_dial(fl_net *n, const fl_dial_args *a, void **handle);
void fl_socket_cancel(void *handle);

/* Joins the threads that have looked up their names; all of them when the net
   is freed. */
typedef enum fl_reap { FL_REAP_DONE, FL_REAP_ALL } fl_reap;
void fl_socket_reap(fl_socket_net *n, fl_reap which);

#endif
