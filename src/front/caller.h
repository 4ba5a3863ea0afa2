/* caller.h - the other side of a door (door.h): asks a served model and waits.
 *
 * One question at a time; owner thread only. A call ends by its deadline and
 * names the address.
 */
#ifndef FL_FRONT_CALLER_H
#define FL_FRONT_CALLER_H

#include "conf/conf.h"
#include "flotilla/executor.h"
#include "rpc/stream/stream.h"

typedef struct fl_caller fl_caller;

/* net is the caller's and stays; the settings are read now. */
FL_MUST_CHECK
fl_status fl_caller_open(fl_caller **out, fl_net *net, const fl_conf *conf,
                         const char *address);
void fl_caller_close(fl_caller *c); /* NULL is fine */

/* The outputs by name, valid until the next call. */
FL_MUST_CHECK
fl_status fl_caller_ask(fl_caller *c, const fl_feed *feeds, size_t n,
                        const fl_feed **outputs, size_t *n_outputs);

#endif
