/* call_sync.h - waiting for what a client asks (client.h), and the questions
 * that every trainer has. Any thread but the client's loop.
 *
 * A wait has no deadline: a link gives up a server that is lost in its own
 * time, and the coordinator a member, and both end the request with the reason.
 */
#ifndef FL_PS_CLIENT_CALL_SYNC_H
#define FL_PS_CLIENT_CALL_SYNC_H

#include "base/latch.h"
#include "ps/client/client.h"

/* As fl_client_ask, and its end. */
FL_MUST_CHECK
fl_status fl_client_call(fl_client *c, int server, uint16_t type, bool once,
                         const void *payload, size_t len,
                         fl_client_reply on_reply, void *arg);
/* Declares at all servers. */
FL_MUST_CHECK
fl_status fl_client_call_declare(fl_client *c, const char *text);
/* Waits for all live trainers at a barrier of that name, without a share. */
FL_MUST_CHECK
fl_status fl_client_call_barrier(fl_client *c, const char *name,
                                 uint64_t generation);
/* Leaves the job. */
FL_MUST_CHECK
fl_status fl_client_call_leave(fl_client *c);

#endif
