/* door.h - a model behind rpc/: one message, PREDICT.
 *
 * Callers are tools (rpc/wire/hello.h): whoever has the join token or the look
 * token may ask. Owner thread only.
 */
#ifndef FL_FRONT_DOOR_H
#define FL_FRONT_DOOR_H

#include "conf/conf.h"
#include "front/scoring.h"
#include "rpc/stream/stream.h"

/* On the wire, for ever (docs/formats/predict.md); those below are the transport's
   own and the parameter servers'. */
#define FL_PREDICT_TYPE 128
/* "predict", for the transport. */
const char *fl_predict_type_name(uint16_t type);

typedef struct fl_door fl_door;

/* Listens; net and pool are the caller's and stay. Without a token, and without
   TLS, on the loopback alone, unless the setting allow_no_token is true. */
FL_MUST_CHECK
fl_status fl_door_open(fl_door **out, fl_net *net, fl_scoring *pool,
                       const fl_conf *conf, const char *listen);
/* No request comes any more; the pool's callers must have been answered, or be
   answered later: the answers are dropped. NULL is fine. */
void fl_door_close(fl_door *d);

/* What callers dial. */
const char *fl_door_address(const fl_door *d);

/* Whether something may be open to all who reach the address. */
FL_MUST_CHECK
fl_status fl_door_check(const fl_conf *conf, const char *listen);

#endif
