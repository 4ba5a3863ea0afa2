/* relay.h - bytes from one trainer to another by way of a server, since
 * trainers have links to servers only.
 *
 * Every trainer has a box. A mail belongs to a generation, and a box to one at
 * a time: what is left of an older one goes when a newer one is used. Mails are
 * numbered from 0 in each generation and stay until their receiver says that it
 * has them, so that a reply that is lost loses nothing. Any thread.
 */
#ifndef FL_PS_SERVER_RELAY_H
#define FL_PS_SERVER_RELAY_H

#include "ps/store/store.h"

/* A box is full with more; a larger mail is taken by an empty box. */
#define FL_MAIL_BOX_BYTES (UINT64_C(64) << 20)
/* Of a reply, unless its first mail alone is larger. */
#define FL_MAIL_REPLY_BYTES (UINT64_C(4) << 20)

typedef struct fl_mail fl_mail;

fl_mail *fl_mail_new(uint32_t n_trainers);
void fl_mail_free(fl_mail *m); /* NULL is fine */

/* The payload of a MAIL. *is_full: it was not taken, and has to be sent again
   when its receiver has taken others. */
FL_MUST_CHECK
fl_status fl_mail_put(fl_mail *m, const void *payload, uint64_t len,
                      bool *is_full);

/* The payload of a TAKE, and its reply of at most max_bytes. */
FL_MUST_CHECK
fl_status fl_mail_take(fl_mail *m, uint32_t rank, const void *payload,
                       uint64_t len, uint64_t max_bytes, fl_store_reply *reply);

/* Bytes that wait in a box, for tests. */
uint64_t fl_mail_bytes(fl_mail *m, uint32_t rank);

#endif
