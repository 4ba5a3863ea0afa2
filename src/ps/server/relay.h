/* relay.h - bytes from one trainer to another by way of a server, since trainers
 * have connections to servers only.
 *
 * Every trainer has a mailbox. A message belongs to a generation, and a mailbox
 * to one at a time: what is left of an older one goes when a newer one is used.
 * Messages are numbered from 0 in each generation and stay until their receiver
 * says that it has them, so that a reply that is lost loses nothing. Any thread.
 */
#ifndef FL_PS_SERVER_RELAY_H
#define FL_PS_SERVER_RELAY_H

#include "ps/msg/calls.h"
#include "ps/store/store.h"

/* A mailbox is full with more; a larger message is taken by an empty one. */
#define FL_RELAY_MAILBOX_BYTES (UINT64_C(64) << 20)
/* Of a reply, unless its first message alone is larger. */
#define FL_RELAY_REPLY_BYTES (UINT64_C(4) << 20)

typedef struct fl_relay fl_relay;

fl_relay *fl_relay_new(uint32_t n_trainers);
void fl_relay_free(fl_relay *m); /* NULL is fine */

/* Copies. *is_full: it was not taken, and has to be sent again when its receiver
   has taken others. */
FL_MUST_CHECK
fl_status fl_relay_put(fl_relay *m, const fl_relay_request *r, bool *is_full);

/* What this rank takes, and the reply of at most max_bytes. */
FL_MUST_CHECK
fl_status fl_relay_take(fl_relay *m, uint32_t rank,
                        const fl_relay_take_request *r, uint64_t max_bytes,
                        fl_store_reply *reply);

/* Bytes that wait in a mailbox, for tests. */
uint64_t fl_relay_bytes(fl_relay *m, uint32_t rank);

#endif
