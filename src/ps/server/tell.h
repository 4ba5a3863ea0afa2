/* tell.h - a server's part in the record of a job (record/record.h): its counters,
 * about once a second, by a thread of its own. */
#ifndef FL_PS_SERVER_TELL_H
#define FL_PS_SERVER_TELL_H

#include "ps/store/store.h"
#include "record/record.h"

typedef struct fl_server_tell fl_server_tell;

/* *out is NULL when the settings ask for no record. The store is borrowed until
   the stop. */
FL_MUST_CHECK
fl_status fl_server_tell_start(fl_server_tell **out, const fl_conf *conf,
                               int rank, fl_store *store);
/* With a last line; NULL is fine. */
void fl_server_tell_stop(fl_server_tell *t);

#endif
