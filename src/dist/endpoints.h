/* endpoints.h - where the servers of a job are and the net by which they are
 * reached, from the settings of a context. Owner thread only. */
#ifndef FL_DIST_ENDPOINTS_H
#define FL_DIST_ENDPOINTS_H

#include "base/vec.h"
#include "conf/conf.h"
#include "rpc/stream/socket.h"
#include "rpc/stream/tls.h"

typedef struct fl_endpoints {
    FL_VEC(char *) servers;
    fl_tls *tls;
    fl_net *net;
} fl_endpoints;

/* Reads "host:port,host:port" and the settings; the token comes into these from
   its file. */
FL_MUST_CHECK
fl_status fl_endpoints_open(fl_endpoints *out, fl_conf *conf,
                            const char *servers);
void fl_endpoints_close(fl_endpoints *e);

#endif
