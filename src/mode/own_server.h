/* own_server.h - the server of a job that is a part of one of its trainers.
 *
 * In a job whose trainers serve, server i is threads in the process of trainer
 * i. It listens before its trainer connects, and is told what to hold by the
 * declarations of the trainers, its own among them. A trainer that is done
 * stays until all are: they need its rows.
 *
 * Owner thread only.
 */
#ifndef FL_MODE_OWN_SERVER_H
#define FL_MODE_OWN_SERVER_H

#include "conf/conf.h"
#include "pass/dist.h"
#include "ps/server/server.h"

typedef struct fl_own_server_args {
    const fl_dist *dist; /* borrowed for the call */
    const fl_conf *conf; /* borrowed for its life, as is net */
    fl_net *net;
    const char *model, *plan; /* see fl_server_options */
} fl_own_server_args;

/* The server of the dist's rank. */
FL_MUST_CHECK
fl_status fl_own_server_open(fl_server **out, const fl_own_server_args *a);

/* The trainer has left: serves the others until they have, too, and gives the
   result of the job. */
FL_MUST_CHECK
fl_status fl_own_server_serve_out(fl_server *s, const fl_dist *d);

/* The trainer goes: unless the job is over, the others are told that it cannot go
   on. */
void fl_own_server_give_up(fl_server *s, const fl_dist *d);

/* After the trainer's connections are closed: says last words, then goes. NULL is
   fine. */
void fl_own_server_close(fl_server *s);

#endif
