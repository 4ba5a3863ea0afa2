/* call_sync.h - waiting for what a client asks (client.h). Any thread but the
 * client's loop.
 *
 * A wait has no deadline: a link gives up a server that is lost in its own
 * time, and the coordinator a member, and both end the request with the reason.
 */
#ifndef FL_PS_CLIENT_CALL_SYNC_H
#define FL_PS_CLIENT_CALL_SYNC_H

#include "base/latch.h"
#include "ps/client/client.h"

/* The ending of one more request that a latch waits for; the latch is its
   argument. After an error of the call it is ended with fl_latch_done. */
fl_ending fl_client_latch(fl_latch *l);

/* Declares at each of n servers the text that is its own, at server 0 first. Of two trainers that disagree one is
   told by server 0: only then the others are asked, so that they all hold what
   one trainer has declared. */
FL_MUST_CHECK
fl_status fl_client_declare_all(fl_client *c, const char *const *texts, int n);

#endif
