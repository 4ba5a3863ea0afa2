/* call_sync.h - waiting for what a client asks (client.h), and the questions
 * that every trainer has. Any thread but the client's loop.
 *
 * A wait has no deadline: a link gives up a server that is lost in its own
 * time, and the coordinator a member, and both end the request with the reason.
 */
#ifndef FL_PS_CLIENT_CALL_SYNC_H
#define FL_PS_CLIENT_CALL_SYNC_H

#include "base/thread.h"
#include "ps/client/client.h"

/* Requests that are waited for together. */
typedef struct fl_wait {
    fl_client *client;
    fl_mutex mu;
    int n_open; /* guarded by mu */
    fl_err err; /* the first one; guarded by mu */
} fl_wait;

void fl_wait_init(fl_wait *w, fl_client *c);
void fl_wait_release(fl_wait *w);
/* Before a request with fl_wait_done and this as its argument begins; and after
   its call failed, so that it will not be done. */
void fl_wait_begin(fl_wait *w);
void fl_wait_failed(fl_wait *w);
void fl_wait_done(void *wait, fl_status st); /* an fl_client_done */
/* Until all have ended; the first error. The client ends every request, and the
   thread lends itself to it meanwhile. */
FL_MUST_CHECK
fl_status fl_wait_for(fl_wait *w);

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
