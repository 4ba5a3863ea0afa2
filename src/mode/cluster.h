/* cluster.h - what the modes share: the way to the servers, what was declared
 * there, the global step, and the requests that are the same in all modes.
 *
 * Nothing is connected before fl_cluster_ready; every function that needs the
 * servers calls it. Any thread.
 */
#ifndef FL_MODE_CLUSTER_H
#define FL_MODE_CLUSTER_H

#include "base/stats.h"
#include "base/thread.h"
#include "conf/conf.h"
#include "exec/scope.h"
#include "ir/comm.h"
#include "mode/cut.h"
#include "pass/dist.h"
#include "ps/client/call_sync.h"
#include "ps/server/server.h"
#include "ps/store/contents.h"
#include "rpc/stream/stream.h"

typedef struct fl_cluster fl_cluster;

typedef struct fl_cluster_args {
    fl_dist *dist; /* borrowed for its life, as are net, conf, scope */
    fl_net *net;
    const fl_conf *conf; /* the settings of the context */
    fl_scope *scope;     /* parameters of this process */
    bool may_coalesce;   /* see fl_client_options */
} fl_cluster_args;

fl_cluster *fl_cluster_new(const fl_cluster_args *a);
/* What is under way fails first. NULL is fine. */
void fl_cluster_free(fl_cluster *c);

const fl_dist *fl_cluster_dist(const fl_cluster *c);
const fl_conf *fl_cluster_conf(const fl_cluster *c);
fl_scope *fl_cluster_scope(const fl_cluster *c);

/* Connects to all servers, for who wants to do it before fl_cluster_ready. By
   one thread, once. */
FL_MUST_CHECK
fl_status fl_cluster_connect(fl_cluster *c);
/* What the servers are to run, by server, in place of the programs of the dist;
   borrowed. Before fl_cluster_ready. */
void fl_cluster_set_declarations(fl_cluster *c, const char *const *texts);
/* Connects, declares and waits until all members are there; the first call
   does it, others wait for that and get its result. */
FL_MUST_CHECK
fl_status fl_cluster_ready(fl_cluster *c);
/* After fl_cluster_ready. */
fl_client *fl_cluster_client(fl_cluster *c);
/* How values travel that are pulled to train with. */
fl_codec fl_cluster_pull_codec(const fl_cluster *c);

/* The server of this trainer, in a job whose trainers serve; NULL before it is
   connected, and in other jobs. */
fl_server *fl_cluster_server(fl_cluster *c);
/* A saved model that this server begins with, and what of it
   (ckpt/load_plan.h); borrowed. Before it is connected. */
void fl_cluster_set_model(fl_cluster *c, const char *path, const char *plan);

/* Leaves the job; done twice, or never connected, is fine. What was begun must
   have ended. Where trainers serve it waits until all of them have left. */
FL_MUST_CHECK
fl_status fl_cluster_leave(fl_cluster *c);

/* Serves by the programs of one of the servers until the job ends. */
FL_MUST_CHECK
fl_status fl_cluster_serve(fl_cluster *c, const fl_contents *contents);

/* --- names ---------------------------------------------------------------- */

/* The number of a table whose rows have that width. */
FL_MUST_CHECK
fl_status fl_cluster_table(const fl_cluster *c, const char *name, uint32_t dim,
                           int *number);
/* A parameter of n floats. */
FL_MUST_CHECK
fl_status fl_cluster_param(const fl_cluster *c, const char *name, uint64_t n,
                           const fl_dist_param **out);

/* Blocks of parameters with the memory of each: what fl_client_pull_blocks and
   its kin take. values[i] belongs to a parameter found with the above. */
typedef struct fl_cluster_blocks {
    FL_VEC(fl_client_block) blocks;
    FL_VEC(float *) data;
} fl_cluster_blocks;
void fl_cluster_blocks_clear(fl_cluster_blocks *b);
void fl_cluster_blocks_add(fl_cluster_blocks *b, const fl_cluster *c,
                           const fl_dist_param *p, float *data);
void fl_cluster_blocks_release(fl_cluster_blocks *b);

/* Calls `lost` with the reason when server 0 answers no more or, where trainers
   serve, when one of them is lost; from any thread, maybe more than once. */
void fl_cluster_on_lost(fl_cluster *c, void (*lost)(void *arg, fl_status st),
                        void *arg);

/* --- together ------------------------------------------------------------- */

/* Waits for all live trainers at a barrier of that name. */
FL_MUST_CHECK
fl_status fl_cluster_barrier(fl_cluster *c, const char *name,
                             uint64_t generation);

/* The same with bytes for all of them, in the order of ranks; who has left is
   left out. *out is only made when it is FL_OK. */
FL_MUST_CHECK
fl_status fl_cluster_gather(fl_cluster *c, const char *name,
                            uint64_t generation, fl_msg_bytes bytes,
                            fl_client_gathered *out);
/* Learns the step of the job: rounds of the others may have gone on while this
   trainer waited for something. */
FL_MUST_CHECK
fl_status fl_cluster_learn_step(fl_cluster *c);

/* --- saves ---------------------------------------------------------------- */

/* The way of this trainer to cuts, which begins with fl_cluster_ready. */
fl_cut *fl_cluster_cut(const fl_cluster *c);
/* Who puts together what this trainer brings to a cut; before fl_cluster_ready. */
void fl_cluster_set_bring(fl_cluster *c,
                          fl_status (*bring)(void *arg, fl_pack *out),
                          void *arg);
/* Saves the job, and waits until the version counts. */
FL_MUST_CHECK
fl_status fl_cluster_save(fl_cluster *c, const fl_save_request *r,
                          fl_save_reply *out);

/* --- the global step ------------------------------------------------------ */

/* As far as this process knows. */
uint64_t fl_cluster_step(const fl_cluster *c);
void fl_cluster_set_step(fl_cluster *c, uint64_t step);
/* A batch of this process begins: gives its number. That the one before is over
   is told server 0 without waiting; its answer raises the step that is known
   here. So a server sees gradients under the number of their batch. */
uint64_t fl_cluster_count_step(fl_cluster *c);

/* A round is over that servers do not hear of otherwise. */
void fl_cluster_tell_round(fl_cluster *c);

/* --- counters ------------------------------------------------------------- */

/* Gradients per variable and step; the wait is of training threads, for the
   mode. */
#define FL_CLUSTER_STATS(X)                                                    \
    X(gradients_made, COUNT)                                                   \
    X(gradients_applied, COUNT)                                                \
    X(wait, SECONDS)
FL_STATS(fl_cluster_stats, FL_CLUSTER_STATS);

fl_cluster_stats *fl_cluster_stats_of(fl_cluster *c);

/* --- the port of a mode --------------------------------------------------- */

/* What the backend of a mode begins with: functions of fl_comm that are the
   same in several modes find the cluster by it. */
typedef struct fl_cluster_port {
    fl_comm comm; /* the first member */
    fl_cluster *cluster;
} fl_cluster_port;

/* Takes the cluster; its poller is the port's once it is connected. */
void fl_cluster_port_init(fl_cluster_port *p, fl_cluster *c, const char *name,
                          const fl_comm_data *data, const fl_comm_life *life);

/* Pulls rows from the servers; answered when they are there. */
fl_status fl_cluster_port_pull(fl_comm *port, fl_comm_request *r);
/* Pulls parameters from the servers; answered when they are there. */
fl_status fl_cluster_port_recv(fl_comm *port, fl_comm_call *r);
/* Tables are declared with the job: checks that this one was. */
fl_status fl_cluster_port_declare(fl_comm *port, const char *table,
                                  const char *settings, uint64_t seed);
/* fl_cluster_count_step. */
uint64_t fl_cluster_port_step(fl_comm *port);
/* Batches of all modes pass the gate of the cut. */
void fl_cluster_port_begin_batch(fl_comm *port);
void fl_cluster_port_end_batch(fl_comm *port);

#endif
