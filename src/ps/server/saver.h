/* saver.h - a server's part of a save: a thread that does what the coordinator
 * orders, and says how far it has come (msg/save_calls.h).
 *
 *     PREPARE    server 0 begins a version, the others find its folder
 *     TAKE_CUT   the store's cut; then variables of dense blocks go to server 0,
 *                and rows of tables into files of the version
 *     COMMIT     server 0 puts everything together, and the version counts
 *     END        what was kept for it is let go; a version that does not count
 *                is removed
 *
 * Orders and values come from any thread; the thread begins with the first
 * order.
 */
#ifndef FL_PS_SERVER_SAVER_H
#define FL_PS_SERVER_SAVER_H

#include "conf/conf.h"
#include "ps/coord/coord_save.h"
#include "ps/store/store.h"
#include "rpc/server/rpc_server.h"

typedef struct fl_saver fl_saver;

typedef struct fl_saver_options {
    fl_store *store;
    const fl_conf *conf;
    int rank, n_servers;
    const char *host; /* for messages */
    /* Tells the coordinator, whose answer comes by fl_saver_take_order; the bytes
       are borrowed for the call. Any thread. */
    void (*report)(void *arg, const fl_save_work_request *r);
    /* Sends values or bytes of a file (SAVE_PART, SAVE_FILE) to server 0 and waits
       for its answer; NULL on server 0. */
    fl_status (*send)(void *arg, fl_msg type, const void *request);
    void *arg;
} fl_saver_options;

fl_saver *fl_saver_new(const fl_saver_options *o);
/* Whatever is under way is given up. NULL is fine. */
void fl_saver_free(fl_saver *s);

/* The first report. */
void fl_saver_start(fl_saver *s);

/* An answer to a report: what to do next, or that the job is over. Takes the
   parts. Does not wait. */
void fl_saver_take_order(fl_saver *s, fl_status st, const fl_save_work_reply *r,
                         fl_save_parts *parts);

/* Loads a model into the store, what the plan says of it (empty: all), and answers.
   Does not wait. */
void fl_saver_load(fl_saver *s, const char *path, fl_msg_bytes plan,
                   fl_reply *reply);

/* Bytes of a file of another server; answers. Does not wait. */
void fl_saver_take_file(fl_saver *s, const fl_save_file_request *r,
                        fl_reply *reply);

/* Values of another server, or of this one, for the save of that number. NULL is a
   server that cannot save. */
FL_MUST_CHECK
fl_status fl_saver_add_values(fl_saver *s, uint64_t number, fl_msg_bytes bytes);

#endif
