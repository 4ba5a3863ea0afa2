/* address.h - texts like "10.0.0.3:6174" taken apart and looked up. */
#ifndef FL_RPC_STREAM_ADDRESS_H
#define FL_RPC_STREAM_ADDRESS_H

#include <sys/socket.h>

#include "rpc/stream/stream.h"

/* Of one name that are tried. */
#define FL_PLACES_MAX 16

typedef struct fl_address {
    bool is_unix;
    char host[FL_ADDRESS_MAX]; /* the path of a UNIX socket */
    uint16_t port;             /* 0 is for listening only */
} fl_address;

/* As fl_address_check, and gives the parts. */
FL_MUST_CHECK
fl_status fl_address_parse(fl_address *out, const char *text);
/* The text again, with brackets where they are due. */
void fl_address_text(const fl_address *a, char out[FL_ADDRESS_MAX]);

/* A place that a socket can be connected to. */
typedef struct fl_place {
    struct sockaddr_storage sa;
    socklen_t len;
} fl_place;

typedef enum fl_lookup {
    FL_LOOKUP_NUMBERS, /* never waits: FL_ERR_NOTFOUND for a name */
    FL_LOOKUP_NAMES    /* may wait for a name server */
} fl_lookup;

/* The places of a TCP address, in the order in which to try them; at least
   one. */
FL_MUST_CHECK
fl_status fl_address_look_up(const fl_address *a, fl_lookup how,
                             fl_place out[FL_PLACES_MAX], size_t *n);

/* Whether nobody but this machine can reach it: a loopback address, or a UNIX
   socket. Looks names up. */
bool fl_address_is_loopback(const fl_address *a);

/* Whether it is an address of this machine's own interfaces. */
bool fl_place_is_here(const fl_place *p);
/* "10.0.0.3:6174". */
void fl_place_text(const fl_place *p, char out[FL_ADDRESS_MAX]);
uint16_t fl_place_port(const fl_place *p);

/* The place of a UNIX socket: at a path, or by a name outside of the file
   system. The text must fit. */
fl_place fl_place_of_path(const char *path);
fl_place fl_place_of_name(const char *name);

#endif
